//! `lars-web` as a program.
#![cfg(target_os = "linux")] // which has all addresses of 127.0.0.0/8

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// It ends with the test, however that ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first line of an answer.
fn status(address: &str, host: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = format!("GET /group HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[test]
fn the_address_that_the_program_prints_is_answered_and_no_other_beside_its_own() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_lars-web"));
    program.args(["--file", "/nowhere/timers.db", "--listen", "127.0.0.2:0"]);
    let mut program = Program(program.stdout(Stdio::piped()).spawn().unwrap());
    let mut printed = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut printed).unwrap();
    let address = printed.trim().strip_prefix("http://127.0.0.2:").unwrap();
    let address = format!("127.0.0.2:{address}");
    for host in [&*address, "localhost"] {
        assert_eq!(status(&address, host), "HTTP/1.1 200 OK", "{host}");
    }
    for host in ["127.0.0.3", "evil.example"] {
        assert_eq!(status(&address, host), "HTTP/1.1 403 Forbidden", "{host}");
    }
}
