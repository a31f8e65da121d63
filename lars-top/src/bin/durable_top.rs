//! `durable_top PARAMETERS [GROUP]`: a live view of durable timers in a PostgreSQL database.

use std::process::ExitCode;

use lars_durable::Durable;

const USAGE: &str = "\
Shows the nodes, handlers and timers of a group in a PostgreSQL database.

Usage: durable_top PARAMETERS [GROUP]

PARAMETERS are those of libpq, such as \"host=db user=shop dbname=shop\", or a URL. GROUP is
\"default\" unless it is given. It joins the group as a node that runs nothing. In the view, h lists
the keys, and q quits.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (parameters, group) = match &*arguments {
        [flag] if flag == "--help" || flag == "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [parameters] => (parameters, "default"),
        [parameters, group] => (parameters, &**group),
        given => {
            let given = given.len();
            eprintln!("durable_top: one or two arguments are expected, and {given} were given");
            eprintln!("\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let started = Durable::postgres(parameters).group(group).name("durable_top").start();
    let shown = match started {
        Ok(durable) => lars_top::durable::show(durable),
        Err(error) => Err(std::io::Error::other(error)),
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable_top: {error}");
            ExitCode::FAILURE
        }
    }
}
