//! Examples that are several processes: the program that is started only watches, and copies of it
//! are the nodes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use clap::Args;

use crate::postgres::Server;

type AnyError = Box<dyn std::error::Error>;

/// What a copy is told.
#[derive(Debug, Clone, Args)]
pub struct NodeOptions {
    /// The number of this copy, if it is a node.
    #[arg(long, hide = true, requires_all = ["directory", "parameters"])]
    node: Option<u64>,
    /// Where it writes down what it has done.
    #[arg(long, hide = true)]
    directory: Option<PathBuf>,
    /// Of the connection to the database.
    #[arg(long, hide = true)]
    parameters: Option<String>,
}

/// What a copy is: its number, its directory, and the connection's parameters.
pub type Role<'a> = (u64, &'a Path, &'a str);

impl NodeOptions {
    /// `None` if this is the program that was started.
    pub fn role(&self) -> Option<Role<'_>> {
        Some((self.node?, self.directory.as_deref()?, self.parameters.as_deref()?))
    }
}

/// The nodes, which end when this is dropped.
pub struct Nodes {
    arguments: Vec<OsString>,
    children: Vec<Child>,
}

impl Nodes {
    /// Starts `count` copies of this program, with `more` arguments.
    pub fn start(
        count: u64,
        directory: &Path,
        server: &Server,
        more: &[String],
    ) -> Result<Self, AnyError> {
        let mut arguments: Vec<OsString> = more.iter().map(OsString::from).collect();
        arguments.extend(["--parameters".into(), server.parameters().into()]);
        arguments.extend(["--directory".into(), directory.into()]);
        let mut nodes = Self { arguments, children: Vec::new() };
        for node in 0..count {
            let child = nodes.spawn(node)?;
            nodes.children.push(child);
        }
        Ok(nodes)
    }

    fn spawn(&self, node: u64) -> Result<Child, AnyError> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(command.args(["--node", &node.to_string()]).args(&self.arguments).spawn()?)
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&mut self, node: usize) -> Result<(), AnyError> {
        self.children[node].kill()?;
        self.children[node].wait()?;
        Ok(())
    }

    /// Starts a node again that was killed, with this number.
    pub fn restart(&mut self, node: usize, number: u64) -> Result<(), AnyError> {
        self.children[node] = self.spawn(number)?;
        Ok(())
    }

    /// Sends a signal, such as `-STOP`.
    pub fn signal(&self, node: usize, signal: &str) -> Result<(), AnyError> {
        Command::new("kill").args([signal, &self.children[node].id().to_string()]).status()?;
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.children {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}
