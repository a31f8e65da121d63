//! `durable_top [PARAMETERS [GROUP]]`: a live view of durable timers in a PostgreSQL database.

use std::process::ExitCode;
use std::time::Duration;

use lars_top::durable::show;
use lars_top::libpq::Database;

const USAGE: &str = "\
Shows the nodes, handlers and timers of a group in a PostgreSQL database, and changes nothing there.

Usage: durable_top [PARAMETERS [GROUP]]

PARAMETERS are those of libpq, such as \"host=db user=shop dbname=shop\", a URL, or the name of a
database. What is missing comes from where libpq looks: a service, variables such as PGHOST and
PGPASSWORD, ~/.pgpass; so it is with TLS (sslmode, sslrootcert, sslcert, sslkey). GROUP is
\"default\" unless it is given. In the view, h lists the keys, and q quits.";

/// How long the database may take to answer before the view says so.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (parameters, group) = match &*arguments {
        [flag] if flag == "--help" || flag == "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [flag] if flag == "--version" || flag == "-V" => {
            println!("durable_top {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        [flag, ..] if flag.starts_with('-') => {
            eprintln!("durable_top: there is no option {flag}\n\n{USAGE}");
            return ExitCode::from(2);
        }
        [] => ("", "default"),
        [parameters] => (&**parameters, "default"),
        [parameters, group] => (&**parameters, &**group),
        given => {
            let given = given.len();
            eprintln!("durable_top: at most two arguments are expected, and {given} were given");
            eprintln!("\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match watch(parameters, group) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable_top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn watch(parameters: &str, group: &str) -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::find(parameters, "durable_top")?;
    let observer = database.builder().group(group).lease(PATIENCE).observe();
    let mut observer = observer?;
    Ok(show(move || observer.inspect())?)
}
