//! The server: one thread for the input and output of all connections.
//!
//! It reads lines and tells them to the sessions; the sessions send it what to write. The two sides
//! meet in a channel of commands, with a waker for the thread that waits in the poll.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use mini_actor::{ActorRef, System};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use crate::counts::Counts;
use crate::options::Options;
use crate::protocol::{Incoming, Line, Outgoing, Received};
use crate::session::{Message, Rules, Session};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// Connections are numbered from here on. Numbers are not used again, so a command for a connection
/// that has gone meets nobody.
const FIRST_CONNECTION: usize = 2;

/// A client that does not read what it is sent is dropped when this many bytes wait.
const MAX_UNSENT: usize = 64 * 1024;

enum Command {
    Write(Token, Line),
    /// Close when everything before has been sent.
    Close(Token),
    Stop,
}

/// The sessions' way to the thread.
struct Outbox {
    commands: Sender<Command>,
    waker: Waker,
    /// Whether the thread has been woken and has not looked yet: then it need not be woken again.
    woken: AtomicBool,
}

impl Outbox {
    fn send(&self, command: Command) {
        // The thread goes last; when it has, nobody is connected to whom it would matter.
        let _ = self.commands.send(command);
        // AcqRel, as in `carry_out`: a sender that finds `true` here has sent before the thread
        // resets it, and is seen by the look that follows.
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.waker.wake().expect("the poll can be woken while it exists");
        }
    }
}

/// A session's client.
pub struct Peer {
    connection: Token,
    outbox: Arc<Outbox>,
}

impl Peer {
    pub fn write(&self, line: Line) {
        self.outbox.send(Command::Write(self.connection, line));
    }

    /// Closes the connection after what has been written.
    pub fn close(&self) {
        self.outbox.send(Command::Close(self.connection));
    }
}

pub struct Server {
    address: SocketAddr,
    outbox: Arc<Outbox>,
    thread: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Listens on a free port, with the sessions as actors of `system`.
    pub fn start(system: System, options: &Options, counts: &Arc<Counts>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let address = listener.local_addr()?;
        let (sender, commands) = mpsc::channel();
        let outbox = Arc::new(Outbox { commands: sender, waker, woken: AtomicBool::new(false) });
        let io = Io {
            poll,
            listener,
            connections: HashMap::new(),
            next: FIRST_CONNECTION,
            commands,
            outbox: Arc::clone(&outbox),
            system,
            rules: Arc::new(Rules {
                idle_timeout: options.idle_timeout,
                heartbeat: options.heartbeat,
                counts: Arc::clone(counts),
            }),
        };
        let thread = thread::Builder::new().name("server-io".to_owned()).spawn(move || io.run())?;
        Ok(Self { address, outbox, thread })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the thread, and with it the connections that are left.
    pub fn stop(self) -> io::Result<()> {
        self.outbox.send(Command::Stop);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the server's thread panicked")))
    }
}

struct Connection {
    stream: TcpStream,
    incoming: Incoming,
    outgoing: Outgoing,
    session: ActorRef<Message>,
    /// The client has hung up, or does not speak the protocol: it is not listened to any more.
    deaf: bool,
    /// The session has ended: the connection goes when everything has been sent.
    closing: bool,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Over,
}

/// The state of the thread.
struct Io {
    poll: Poll,
    listener: TcpListener,
    connections: HashMap<Token, Connection>,
    next: usize,
    commands: Receiver<Command>,
    outbox: Arc<Outbox>,
    system: System,
    rules: Arc<Rules>,
}

impl Io {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    WAKER => {}
                    connection => self.with(connection, |it| it.ready(event)),
                }
            }
            if self.carry_out() == State::Over {
                return Ok(());
            }
        }
    }

    /// Takes in all clients that wait. Events come once for each change, so nobody may be left
    /// behind.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    // The client was faster to leave than we to greet it.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            };
            self.open(stream)?;
        }
    }

    fn open(&mut self, mut stream: TcpStream) -> io::Result<()> {
        // Answers and heartbeats are small and must not wait for each other.
        stream.set_nodelay(true)?;
        let token = Token(self.next);
        self.next += 1;
        self.poll.registry().register(
            &mut stream,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let peer = Peer { connection: token, outbox: Arc::clone(&self.outbox) };
        let rules = Arc::clone(&self.rules);
        let session = self
            .system
            .spawn(&format!("session-{}", token.0), move || Session::new(peer, rules))
            .map_err(io::Error::other)?;
        self.connections.insert(
            token,
            Connection {
                stream,
                incoming: Incoming::default(),
                outgoing: Outgoing::default(),
                session,
                deaf: false,
                closing: false,
            },
        );
        Ok(())
    }

    /// Does something with a connection, if it is still there, and drops it if it is over.
    fn with(&mut self, token: Token, act: impl FnOnce(&mut Connection) -> State) {
        if let Some(connection) = self.connections.get_mut(&token)
            && act(connection) == State::Over
        {
            self.connections.remove(&token);
        }
    }

    /// Does what the sessions want.
    fn carry_out(&mut self) -> State {
        // Before the look into the channel: what is sent after it wakes the thread again.
        self.outbox.woken.swap(false, Ordering::AcqRel);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Write(token, line) => self.with(token, |it| it.write(line)),
                Command::Close(token) => self.with(token, Connection::close),
                Command::Stop => return State::Over,
            }
        }
        State::Open
    }
}

impl Connection {
    fn ready(&mut self, event: &Event) -> State {
        if (event.is_readable() || event.is_read_closed() || event.is_error())
            && self.receive() == State::Over
        {
            return State::Over;
        }
        if event.is_writable() {
            return self.send();
        }
        State::Open
    }

    /// Reads until nothing is left, and tells the session.
    fn receive(&mut self) -> State {
        while !self.deaf {
            match self.incoming.receive(&mut self.stream) {
                Ok(Received::Some) => self.tell_lines(),
                Ok(Received::NothingYet) => break,
                Ok(Received::TheEnd) => self.hang_up(),
                Err(_) => {
                    // Reset: there is nobody to say goodbye to.
                    self.hang_up();
                    return State::Over;
                }
            }
        }
        State::Open
    }

    fn tell_lines(&mut self) {
        while let Some(line) = self.incoming.next_line() {
            match line {
                // A session that has ended meanwhile refuses; its farewell is on the way.
                Ok(Line::Ping(number)) => drop(self.session.tell(Message::Request(number))),
                _ => return self.hang_up(),
            }
        }
    }

    fn hang_up(&mut self) {
        self.deaf = true;
        drop(self.session.tell(Message::HungUp));
    }

    fn write(&mut self, line: Line) -> State {
        self.outgoing.push(line);
        if self.outgoing.len() > MAX_UNSENT {
            self.hang_up();
            return State::Over;
        }
        self.send()
    }

    fn close(&mut self) -> State {
        self.closing = true;
        self.send()
    }

    fn send(&mut self) -> State {
        match self.outgoing.send(&mut self.stream) {
            Ok(()) if self.closing && self.outgoing.is_empty() => State::Over,
            Ok(()) => State::Open,
            Err(_) => {
                self.hang_up();
                State::Over
            }
        }
    }
}
