//! The socket: who may look, what is in the way, and that nobody holds up the program.
#![cfg(unix)]
#![allow(missing_docs)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;

use lars_scheduler::LightArrayRevolverScheduler;
use lars_top::{Probe, ServeError, serve};

const ASK: &[u8] = b"{\"version\":1,\"every\":100}\n";

/// A directory of its own for each test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lars-top-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn probe() -> (LightArrayRevolverScheduler, Probe) {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let probe = Probe::new(scheduler.handle()).named("served");
    (scheduler, probe)
}

fn connect(place: &Place) -> BufReader<UnixStream> {
    let mut socket = UnixStream::connect(place.socket()).unwrap();
    // Who is refused at once cannot write.
    let _ = socket.write_all(ASK);
    BufReader::new(socket)
}

fn line(socket: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    socket.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_viewer_gets_snapshots_until_the_server_is_dropped() {
    let (place, (_scheduler, probe)) = (Place::new("viewer"), probe());
    let server = serve(place.socket(), probe).unwrap();
    let mut viewer = connect(&place);
    for _ in 0..3 {
        let line = line(&mut viewer);
        assert!(line.starts_with("{\"snapshot\":{\"version\":1,\"program\":\"served\""), "{line}");
    }
    drop(server);
    let mut rest = Vec::new();
    // Whatever was under way, it ends.
    let _ = viewer.read_to_end(&mut rest);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn only_the_user_of_the_program_may_connect() {
    let (place, (_scheduler, probe)) = (Place::new("permissions"), probe());
    let _server = serve(place.socket(), probe).unwrap();
    let mode = fs::metadata(place.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(place.files(), ["s"]);
}

#[test]
fn a_socket_that_a_program_left_behind_is_replaced_and_one_in_use_is_not() {
    let (place, (_scheduler, probe)) = (Place::new("stale"), probe());
    drop(UnixListener::bind(place.socket()).unwrap());
    assert!(place.socket().exists());
    let first = serve(place.socket(), probe.clone()).unwrap();
    let second = serve(place.socket(), probe.clone()).unwrap_err();
    assert!(matches!(second, ServeError::InUse { .. }), "{second}");
    assert!(second.to_string().contains("is in use"), "{second}");
    // The first is as it was.
    assert!(line(&mut connect(&place)).contains("snapshot"));
    // What is there at the end is left alone if it is another's.
    fs::remove_file(place.socket()).unwrap();
    let other = serve(place.socket(), probe).unwrap();
    drop(first);
    assert!(line(&mut connect(&place)).contains("snapshot"));
    drop(other);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn what_is_not_a_socket_stays_and_errors_name_the_path() {
    let (place, (_scheduler, probe)) = (Place::new("file"), probe());
    fs::write(place.socket(), "precious").unwrap();
    let error = serve(place.socket(), probe.clone()).unwrap_err();
    assert!(matches!(error, ServeError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(place.socket()).unwrap(), "precious");
    let nowhere = place.0.join("no/such/directory");
    let error = serve(&nowhere, probe.clone()).unwrap_err();
    assert!(error.to_string().starts_with(&nowhere.display().to_string()), "{error}");
    let long = place.0.join("x".repeat(200));
    let error = serve(&long, probe).unwrap_err();
    assert!(error.to_string().contains(&"x".repeat(200)), "{error}");
    assert_eq!(place.files(), ["s"]);
}

#[test]
fn folders_of_other_users_beside_the_socket_are_not_in_its_way() {
    let (place, (_scheduler, probe)) = (Place::new("shared"), probe());
    for name in ('0'..='9').chain('a'..='z') {
        fs::create_dir(place.0.join(format!(".lars-top-{name}"))).unwrap();
    }
    let server = serve(place.socket(), probe).unwrap();
    assert!(line(&mut connect(&place)).contains("snapshot"));
    drop(server);
    assert_eq!(place.files().len(), 36);
}

#[test]
fn every_path_that_a_socket_can_have_is_served_and_a_longer_one_is_refused_with_the_limit() {
    let (place, (_scheduler, probe)) = (Place::new("long"), probe());
    let fits = |path: &PathBuf| SocketAddr::from_pathname(path).is_ok();
    let named = |name: usize| place.0.join("x".repeat(name));
    let longest = (1..200).rev().find(|&name| fits(&named(name))).unwrap();
    drop(serve(named(longest), probe.clone()).unwrap());
    let error = serve(named(longest + 1), probe.clone()).unwrap_err().to_string();
    let most = named(longest).as_os_str().len();
    assert!(error.contains(&format!("{} bytes", most + 1)), "{error}");
    assert!(error.contains(&format!("at most {most}")), "{error}");
    // The same with a long directory and a short name.
    for name in 1..6 {
        let directory = named(longest - name - 1);
        fs::create_dir(&directory).unwrap();
        let path = directory.join("s".repeat(name));
        assert!(fits(&path));
        match serve(&path, probe.clone()) {
            Ok(server) => drop(server),
            Err(error) => {
                // A directory with the socket in it needs four bytes.
                assert!(name < 4 && error.to_string().contains(&format!("at most {most}")));
            }
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }
    assert_eq!(place.files().len(), 5);
}

#[test]
fn a_viewer_that_does_not_read_holds_up_neither_the_others_nor_the_end() {
    let (place, (scheduler, probe)) = (Place::new("unread"), probe());
    let server = serve(place.socket(), probe).unwrap();
    let silent: Vec<_> = (0..3).map(|_| connect(&place)).collect();
    let mute = UnixStream::connect(place.socket()).unwrap();
    let mut reads = connect(&place);
    for _ in 0..5 {
        assert!(line(&mut reads).contains("snapshot"));
        let _ = scheduler.schedule_once(std::time::Duration::ZERO, || ()).unwrap();
    }
    drop(server);
    drop((silent, mute));
}

#[test]
fn the_ninth_viewer_is_refused_until_another_leaves() {
    let (place, (_scheduler, probe)) = (Place::new("many"), probe());
    let _server = serve(place.socket(), probe).unwrap();
    let mut viewers: Vec<_> = (0..8).map(|_| connect(&place)).collect();
    for viewer in &mut viewers {
        assert!(line(viewer).contains("snapshot"));
    }
    assert!(line(&mut connect(&place)).contains("8 viewers already"));
    viewers.pop();
    // That one's thread notices with its next snapshot.
    while !line(&mut connect(&place)).contains("\"snapshot\"") {}
}

#[test]
fn a_request_that_is_not_understood_is_answered_with_the_reason() {
    let (place, (_scheduler, probe)) = (Place::new("request"), probe());
    let _server = serve(place.socket(), probe).unwrap();
    let ask = |request: &[u8]| {
        let mut socket = UnixStream::connect(place.socket()).unwrap();
        let _ = socket.write_all(request);
        let mut answer = String::new();
        // What was not read by the program makes the end an error on some systems.
        let _ = socket.read_to_string(&mut answer);
        answer
    };
    assert!(ask(b"{\"version\":2,\"every\":100}\n").contains("this viewer reads version 2"));
    assert!(ask(b"GET / HTTP/1.1\n").contains("does not understand the request"));
    // More than a request can be: the connection ends.
    assert_eq!(ask(&[b'x'; 8192]), "");
}
