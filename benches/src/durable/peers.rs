//! Other crates, each measured by a process of `durable-peers`.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use super::{AnyError, Late};

/// Makes a database for a peer, and returns where it is.
pub(super) type Fresh<'a> = Box<dyn Fn() -> Result<String, AnyError> + 'a>;

/// The other crates that use this kind of database.
pub(super) struct Peers<'a> {
    program: PathBuf,
    pub(super) names: Vec<String>,
    fresh: Fresh<'a>,
}

/// What a process prints.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Found {
    Rate(f64),
    Late(Vec<i64>),
}

impl<'a> Peers<'a> {
    /// Those of `store`, which is what the program calls it.
    pub(super) fn new(program: PathBuf, store: &str, fresh: Fresh<'a>) -> Result<Self, AnyError> {
        let names = ask(&program, &["list", store])?.lines().map(str::to_owned).collect();
        Ok(Self { program, names, fresh })
    }

    fn measure(&self, peer: &str, what: &str, more: &[String]) -> Result<Found, AnyError> {
        let database = (self.fresh)()?;
        let mut arguments = vec![peer, what, &database];
        arguments.extend(more.iter().map(String::as_str));
        Ok(serde_json::from_str(&ask(&self.program, &arguments)?)?)
    }

    /// How many a second.
    pub(super) fn rate(&self, peer: &str, what: &str, count: u64) -> Result<f64, AnyError> {
        match self.measure(peer, what, &["--count".into(), count.to_string()])? {
            Found::Rate(rate) => Ok(rate),
            Found::Late(_) => Err(format!("{peer} has no rate").into()),
        }
    }

    /// How late runs are at `each_second` a second, beside the jobs that are pending.
    pub(super) fn lateness(
        &self,
        peer: &str,
        each_second: u64,
        seconds: u64,
        pending: u64,
    ) -> Result<Late, AnyError> {
        let arguments = [
            format!("--count={each_second}"),
            format!("--seconds={seconds}"),
            format!("--pending={pending}"),
        ];
        match self.measure(peer, "lateness", &arguments)? {
            Found::Late(late) if late.is_empty() => Err(format!("{peer} runs nothing").into()),
            Found::Late(late) => {
                let missing = (each_second * seconds) as usize - late.len();
                Ok(Late { missing, ..Late::of(late) })
            }
            Found::Rate(_) => Err(format!("{peer} is not late").into()),
        }
    }
}

/// What the program prints.
fn ask(program: &PathBuf, arguments: &[&str]) -> Result<String, AnyError> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{arguments:?}: {}: {}", output.status, error.trim()).into())
}
