//! The clients: all of them on one thread, with a queue of their own for what is due, so that they
//! do not depend on what they are to test.
//!
//! What a client knows for sure is what the end is judged by. The server cannot have heard a
//! request before it was sent, and has heard it when it was answered. So, whenever a client is
//! timed out, the time since it sent its last *answered* request is the longest for which the
//! server can have heard nothing. Less than the idle timeout is wrong, whatever happened. More,
//! with a client that kept sending, means that the machine stood still on one side or the other,
//! which nobody can be blamed for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use examples::view::Terminal;
use hdrhistogram::Histogram;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::options::Options;
use crate::protocol::{Farewell, Incoming, Line, Outgoing, Received};
use crate::random::Random;

/// How many clients may be on their way in at a time: fewer than the backlog of any listener, so
/// that none is turned away.
const MAX_ARRIVING: usize = 100;
/// How long everybody may take to arrive, and how much longer than planned the end may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer answer times are recorded as this.
const LONGEST_ANSWER: Duration = Duration::from_secs(3_600);

/// How a client's connection ended.
#[derive(Debug, Clone)]
pub enum End {
    /// The client hung up, and the server said goodbye.
    HungUp,
    /// The server timed it out.
    TimedOut {
        /// Whether it is one of those that fall silent.
        silent: bool,
        /// For how long the server can have heard nothing, at most.
        unheard: Duration,
    },
    /// Something else, which should not have happened.
    Failed(String),
}

/// What a client has seen.
#[derive(Debug, Clone)]
pub struct Observed {
    pub end: End,
    pub requests: u64,
    pub answers: u64,
    pub heartbeats: u64,
    /// The longest time between two of its requests, while it was active.
    pub longest_gap: Duration,
}

/// What all clients have seen.
#[derive(Debug)]
pub struct Observations {
    pub clients: Vec<Observed>,
    /// From each request to its answer, in nanoseconds.
    pub answer_times: Histogram<u64>,
    /// How much later than planned the thread sent a request, at worst: what the machine added.
    pub latest_send: Duration,
}

/// Runs all clients to their ends.
pub fn run(server: SocketAddr, options: &Options, terminal: &Terminal) -> io::Result<Observations> {
    let mut crowd = Crowd::new(server, options)?;
    crowd.arrive(terminal)?;
    crowd.stay()?;
    Ok(crowd.observations())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    /// Sends requests.
    Active,
    /// Sends nothing, and reads on.
    Silent,
    /// Has hung up, and reads on until the server has too.
    HungUp,
    Gone,
}

struct Client {
    stream: TcpStream,
    incoming: Incoming,
    outgoing: Outgoing,
    random: Random,
    phase: Phase,
    falls_silent: bool,
    /// When it falls silent, or hangs up.
    leaves: Option<Instant>,
    requests: u64,
    answers: u64,
    /// When the requests were sent that have not been answered.
    unanswered: VecDeque<Instant>,
    /// When the last request was sent that has been answered; at first, when the connection was
    /// begun.
    heard: Instant,
    last_sent: Instant,
    longest_gap: Duration,
    heartbeats: u64,
    farewell: Option<Farewell>,
    end: Option<End>,
}

struct Crowd<'a> {
    options: &'a Options,
    server: SocketAddr,
    poll: Poll,
    clients: Vec<Client>,
    /// Clients that could not even begin.
    stillborn: Vec<Observed>,
    random: Random,
    falls_silent: Vec<bool>,
    /// When which client has something to do.
    agenda: BinaryHeap<Reverse<(Instant, usize)>>,
    answer_times: Histogram<u64>,
    latest_send: Duration,
}

impl<'a> Crowd<'a> {
    fn new(server: SocketAddr, options: &'a Options) -> io::Result<Self> {
        let mut random = Random::new(options.seed);
        let falls_silent = random.choose(options.silent(), options.connections);
        Ok(Self {
            options,
            server,
            poll: Poll::new()?,
            clients: Vec::with_capacity(options.connections),
            stillborn: Vec::new(),
            random,
            falls_silent,
            agenda: BinaryHeap::new(),
            // Two digits: to within 1 %.
            answer_times: Histogram::new_with_max(LONGEST_ANSWER.as_nanos() as u64, 2)
                .map_err(io::Error::other)?,
            latest_send: Duration::ZERO,
        })
    }

    /// Connects all clients, a few at a time. A client has arrived when its first request was
    /// answered.
    fn arrive(&mut self, terminal: &Terminal) -> io::Result<()> {
        let began = Instant::now();
        let give_up = began + PATIENCE;
        loop {
            let arrived = |it: &Client| it.answers > 0 || it.phase == Phase::Gone;
            let mut arriving = self.clients.iter().filter(|it| !arrived(it)).count();
            let mut begun = self.clients.len() + self.stillborn.len();
            while begun < self.options.connections && arriving < MAX_ARRIVING {
                self.connect(begun)?;
                begun += 1;
                arriving += 1;
            }
            if arriving == 0 {
                break;
            }
            if Instant::now() >= give_up {
                let waited = format!("was not answered within {PATIENCE:?} of the start");
                for client in self.clients.iter_mut().filter(|it| !arrived(it)) {
                    client.fail(waited.clone());
                }
                break;
            }
            self.turn(give_up)?;
        }
        if terminal.is_free() {
            let connected = self.clients.iter().filter(|it| it.answers > 0).count();
            let took = began.elapsed();
            println!("{connected} clients connected and were answered within {took:.0?}.\n");
        }
        Ok(())
    }

    /// From here on the clock of the run counts.
    fn stay(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let run = self.options.run();
        for client in &mut self.clients {
            client.leaves = Some(if client.falls_silent {
                // Early enough to be timed out while the others are active.
                began + client.random.between(run / 4, run / 2)
            } else {
                began + run
            });
        }
        let give_up = began + run + self.options.idle_timeout + PATIENCE;
        while self.clients.iter().any(|it| it.phase != Phase::Gone) {
            if Instant::now() >= give_up {
                for client in &mut self.clients {
                    let phase = client.phase;
                    client.fail(format!(
                        "was still {phase:?} {PATIENCE:?} after it should have ended"
                    ));
                }
                break;
            }
            self.turn(give_up)?;
        }
        Ok(())
    }

    fn connect(&mut self, number: usize) -> io::Result<()> {
        let falls_silent = self.falls_silent[number];
        let random = self.random.fork();
        let mut stream = match TcpStream::connect(self.server) {
            Ok(stream) => stream,
            Err(error) => {
                self.stillborn.push(Observed {
                    end: End::Failed(format!("could not connect: {error}")),
                    requests: 0,
                    answers: 0,
                    heartbeats: 0,
                    longest_gap: Duration::ZERO,
                });
                return Ok(());
            }
        };
        stream.set_nodelay(true)?;
        self.poll.registry().register(
            &mut stream,
            Token(self.clients.len()),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let now = Instant::now();
        self.clients.push(Client {
            stream,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            random,
            phase: Phase::Connecting,
            falls_silent,
            leaves: None,
            requests: 0,
            answers: 0,
            unanswered: VecDeque::new(),
            heard: now,
            last_sent: now,
            longest_gap: Duration::ZERO,
            heartbeats: 0,
            farewell: None,
            end: None,
        });
        Ok(())
    }

    /// Waits for events and for what is due, and deals with both.
    fn turn(&mut self, give_up: Instant) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let next = self.agenda.peek().map_or(give_up, |due| due.0.0);
        let wait = next.min(give_up).saturating_duration_since(Instant::now());
        match self.poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        for event in &events {
            let number = event.token().0;
            let client = &mut self.clients[number];
            if client.phase == Phase::Connecting {
                if client.has_connected() {
                    client.request();
                    let first = Instant::now() + client.pause(self.options);
                    self.agenda.push(Reverse((first, number)));
                }
            } else {
                client.ready(event, &mut self.answer_times);
            }
        }
        self.act();
        Ok(())
    }

    /// Lets those clients act whose time has come.
    fn act(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((due, number))) = self.agenda.peek()
            && due <= now
        {
            self.agenda.pop();
            let client = &mut self.clients[number];
            if client.phase != Phase::Active {
                continue;
            }
            self.latest_send = self.latest_send.max(now - due);
            if client.leaves.is_some_and(|leaves| leaves <= now) {
                client.leave();
            } else {
                client.request();
                let next = now + client.pause(self.options);
                self.agenda.push(Reverse((next, number)));
            }
        }
    }

    fn observations(self) -> Observations {
        let mut clients = self.stillborn;
        clients.extend(self.clients.into_iter().map(|client| Observed {
            end: client.end.unwrap_or_else(|| End::Failed("has not ended".to_owned())),
            requests: client.requests,
            answers: client.answers,
            heartbeats: client.heartbeats,
            longest_gap: client.longest_gap,
        }));
        Observations { clients, answer_times: self.answer_times, latest_send: self.latest_send }
    }
}

impl Client {
    /// A first event came: says whether it was the connection, and not its failure.
    fn has_connected(&mut self) -> bool {
        if let Ok(Some(error)) | Err(error) = self.stream.take_error() {
            self.fail(format!("could not connect: {error}"));
            return false;
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.phase = Phase::Active;
                true
            }
            // Not yet.
            Err(error) if error.kind() == ErrorKind::NotConnected => false,
            Err(error) => {
                self.fail(format!("could not connect: {error}"));
                false
            }
        }
    }

    fn pause(&mut self, options: &Options) -> Duration {
        let longest = options.request_interval;
        self.random.between(longest / 4, longest)
    }

    fn request(&mut self) {
        let now = Instant::now();
        if self.requests > 0 {
            self.longest_gap = self.longest_gap.max(now - self.last_sent);
        }
        self.last_sent = now;
        self.unanswered.push_back(now);
        self.requests += 1;
        self.outgoing.push(Line::Ping(self.requests));
        self.send();
    }

    fn leave(&mut self) {
        if self.falls_silent {
            self.phase = Phase::Silent;
        } else {
            self.longest_gap = self.longest_gap.max(self.last_sent.elapsed());
            self.phase = Phase::HungUp;
            self.send();
        }
    }

    fn ready(&mut self, event: &Event, answer_times: &mut Histogram<u64>) {
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.receive(answer_times);
        }
        if event.is_writable() {
            self.send();
        }
    }

    /// Sends what there is to send. A client that hangs up closes its sending half after that.
    fn send(&mut self) {
        if self.phase == Phase::Gone {
            return;
        }
        // An error is told by the next read as well, which knows what the server said before.
        let _ = self.outgoing.send(&mut self.stream);
        if self.phase == Phase::HungUp && self.outgoing.is_empty() {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    fn receive(&mut self, answer_times: &mut Histogram<u64>) {
        while self.phase != Phase::Gone {
            match self.incoming.receive(&mut self.stream) {
                Ok(Received::Some) => self.read_lines(answer_times),
                Ok(Received::NothingYet) => break,
                Ok(Received::TheEnd) => self.ended("the server closed the connection".to_owned()),
                Err(error) => self.ended(error.to_string()),
            }
        }
    }

    fn read_lines(&mut self, answer_times: &mut Histogram<u64>) {
        while let Some(line) = self.incoming.next_line() {
            match line {
                Ok(Line::Pong(number)) if number == self.answers + 1 => {
                    let Some(sent) = self.unanswered.pop_front() else {
                        return self.fail(format!("got PONG {number} before it asked"));
                    };
                    self.answers = number;
                    self.heard = sent;
                    answer_times.saturating_record(sent.elapsed().as_nanos() as u64);
                }
                Ok(Line::Beat(number)) if number == self.heartbeats + 1 => self.heartbeats = number,
                Ok(Line::Bye(farewell)) if self.farewell.is_none() => {
                    self.farewell = Some(farewell);
                }
                Ok(line) => return self.fail(format!("got {line} out of turn")),
                Err(bad) => return self.fail(format!("got {:?}, which is no line", bad.0)),
            }
        }
    }

    /// The connection is over: what that means depends on what was said before.
    fn ended(&mut self, how: String) {
        let end = match (self.farewell, self.phase) {
            (Some(Farewell::Done), Phase::HungUp) => End::HungUp,
            (Some(Farewell::Idle), _) => {
                End::TimedOut { silent: self.falls_silent, unheard: self.heard.elapsed() }
            }
            (Some(farewell), phase) => {
                End::Failed(format!("was told {} while {phase:?}", Line::Bye(farewell)))
            }
            (None, phase) => End::Failed(format!("lost its connection while {phase:?}: {how}")),
        };
        self.end.get_or_insert(end);
        self.go();
    }

    fn fail(&mut self, why: String) {
        if self.phase != Phase::Gone {
            self.end.get_or_insert(End::Failed(why));
            self.go();
        }
    }

    fn go(&mut self) {
        self.phase = Phase::Gone;
        // The descriptor is kept until all have ended; what matters is that the server sees the
        // end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
