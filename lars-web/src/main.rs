//! `lars-web`: the pages of a group of durable timers, in a database or a file.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use lars_durable::Durable;
use lars_top::libpq::Database;
use lars_web::{Console, new_token};
use tokio::net::TcpListener;

/// Shows a group of durable timers in a browser: handlers, nodes, single timers. It is no node, and
/// changes nothing unless it is told that it may.
#[derive(Debug, Parser)]
#[command(name = "lars-web", version)]
#[command(group(ArgGroup::new("what").required(true).args(["postgres", "file"])))]
struct Options {
    /// A PostgreSQL database: parameters of libpq, such as "host=db user=shop dbname=shop", a URL,
    /// or the name of a database. What is missing comes from where libpq looks: a service,
    /// variables such as PGHOST and PGPASSWORD, ~/.pgpass; so it is with TLS (sslmode, sslrootcert,
    /// sslcert, sslkey).
    #[arg(long, value_name = "PARAMETERS", num_args = 0..=1, default_missing_value = "")]
    postgres: Option<String>,
    /// An SQLite file, whether its owner runs or does not.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// The group.
    #[arg(long, default_value = "default")]
    group: String,
    /// Where to serve. Elsewhere than on this machine's own addresses, a token is asked for.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// A name under which browsers reach it, beside localhost; may be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// A file with the token that the pages ask for. Without it, a token is made and printed where
    /// one is needed.
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Timers may be cancelled, moved, retried and discarded, and handlers paused, by those who
    /// know the token. Each action joins the group as a node without handlers, for a moment.
    #[arg(long)]
    actions: bool,
}

/// How long the database may take to answer before a page says so.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.map_err(Into::into).and_then(|it| it.block_on(serve(options)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lars-web: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), Box<dyn Error>> {
    let mut console = watched(&options)?;
    // Before a token is printed, which nobody needs if this fails.
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.map_err(|error| format!("{}: {error}", options.listen))?;
    for name in &options.host {
        console = console.host(name);
    }
    let address = listener.local_addr()?;
    // The address that is printed, as `Host` names it. No name of another page is that.
    console = console.host(match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    });
    let token = match &options.token_file {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            Some(read.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        None if options.actions || !options.listen.ip().is_loopback() => {
            let token = new_token()?;
            println!("token: {token}");
            Some(token)
        }
        None => None,
    };
    if let Some(token) = token {
        console = console.token(token);
    }
    if options.actions {
        console = console.actions();
    }
    let pages = console.start()?;
    println!("http://{address}");
    // Pages that are open stay so as long as there is a server: they are not waited for.
    tokio::select! {
        served = axum::serve(listener, pages).into_future() => Ok(served?),
        () = told_to_end() => Ok(()),
    }
}

fn watched(options: &Options) -> Result<Console, Box<dyn Error>> {
    let group = options.group.clone();
    if let Some(file) = options.file.clone() {
        let about = format!("{}, group {group}", file.display());
        let builder = move || Durable::sqlite(&file).group(&group);
        return Ok(Console::new().about(about).observe(builder));
    }
    let given = options.postgres.as_deref().unwrap_or("");
    let database = Database::find(given, "lars-web")?;
    let about = format!("PostgreSQL, group {group}");
    let builder = move || database.builder().group(&group).lease(PATIENCE);
    Ok(Console::new().about(about).observe(builder))
}

async fn told_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
