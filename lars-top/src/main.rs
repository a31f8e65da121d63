//! `lars-top PATH`: a live view of the program that serves at this path.

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
Shows what the scheduler and the actors of a running program do.

Usage: lars-top PATH

PATH is the socket that the program opens by `lars_top::serve(PATH, probe)`. The program may be
started later, and restarted. In the view, h lists the keys, and q quits.";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match &*arguments {
        [flag] if flag == "--help" || flag == "-h" => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        [flag] if flag == "--version" || flag == "-V" => {
            println!("lars-top {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        [flag] if flag.as_encoded_bytes().starts_with(b"-") => {
            eprintln!("lars-top: there is no option {}\n\n{USAGE}", flag.display());
            ExitCode::from(2)
        }
        [path] => match lars_top::show_path(Path::new(path)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("lars-top: {error}");
                ExitCode::FAILURE
            }
        },
        given => {
            eprintln!("lars-top: one path is expected, and {} were given\n\n{USAGE}", given.len());
            ExitCode::from(2)
        }
    }
}
