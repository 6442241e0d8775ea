//! Calls an agent, and calls again when the connection is lost.

use crate::LinkOptions;
use crate::conversation::{Conversation, EndReason, Shared, Waker};
use crate::frame::{Frame, NAME, Name};
use crate::pump::{self, Place};
use crate::secure::{Secured, Tls};
use sheaf_key::{Purpose, RunKey};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shortest and longest pause between two calls.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Time until the kernel asks a silent host whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Why a call is not answered.
enum CallError {
    /// It is tried again.
    Again(String),
    /// It would be in vain.
    Final(EndReason),
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Again(match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => "the other end has hung up".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// Begins a conversation with the agent at an address, `host:port`. Returns at once: a thread calls the agent until it answers, and again
/// when the connection is lost.
#[must_use]
pub fn call(address: &str, key: &RunKey, options: &LinkOptions) -> Conversation {
    let shared = Shared::new(options);
    let caller = Caller {
        address: address.to_owned(),
        key: key.clone(),
        timeout: options.connect_timeout,
        shared: shared.clone(),
    };
    let spawned = std::thread::Builder::new().name("agent-link".into()).spawn(move || caller.run());
    if let Err(error) = spawned {
        shared.end(EndReason::Refused(format!("cannot start a thread: {error}")));
    }
    Conversation::of(shared)
}

struct Caller {
    address: String,
    key: RunKey,
    timeout: Duration,
    shared: Arc<Shared>,
}

impl Caller {
    fn run(&self) {
        let prepared = sheaf_key::nonce().map_err(io::Error::other).and_then(|nonce| {
            let mut name = Name::default();
            name.copy_from_slice(&nonce[..NAME]);
            Ok((name, Tls::new()?))
        });
        let (name, tls) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return self.shared.end(EndReason::Refused(error.to_string())),
        };
        let (mut is_first, mut pause) = (true, PAUSES.0);
        loop {
            match self.connect(name, is_first, &tls) {
                Ok((secured, place)) => {
                    (is_first, pause) = (false, PAUSES.0);
                    pump::run(secured, &self.shared, place);
                }
                Err(CallError::Again(why)) => self.shared.note_trouble(&why),
                Err(CallError::Final(over)) => return self.shared.end(over),
            }
            if self.shared.is_over_after(pause) {
                return;
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Makes a connection, and has both ends prove that they have the key.
    fn connect(&self, name: Name, is_first: bool, tls: &Tls) -> Result<(Secured, Place), CallError> {
        let stream = connect(&self.address, self.timeout)?;
        prepare(&stream)?;
        let mut secured = Secured::call(stream, tls, self.timeout)?;
        let proof = secured.prove(&self.key, Purpose::AgentCaller);
        let received = self.shared.state().exchange.received();
        secured.write(&Frame::Call { proof, name, is_first, received })?;
        let (proof, is_known, received) = match secured.read()? {
            Frame::Answer { proof, is_known, received } => (proof, is_known, received),
            Frame::Refusal if is_first => return Err(CallError::Final(another_key())),
            // Whoever says so has not shown the key, and may have come between.
            _ => return Err(CallError::Again("the other end is no agent with this key".into())),
        };
        if !secured.is_proven(&self.key, Purpose::AgentDoor, &proof) {
            let why = "the other end does not have the key of the agents".to_owned();
            return Err(if is_first {
                CallError::Final(EndReason::Refused(why))
            } else {
                CallError::Again(why)
            });
        }
        if !is_known {
            return Err(CallError::Final(EndReason::Unknown));
        }
        let waker = Waker::new()?;
        let mut state = self.shared.state();
        if state.exchange.connect(received).is_err() {
            return Err(CallError::Final(EndReason::Unknown));
        }
        drop(state);
        let connection = self.shared.connect(waker.clone());
        Ok((secured, Place { connection, waker }))
    }
}

fn another_key() -> EndReason {
    EndReason::Refused(
        "it has another key: give both the same file, `agents.key_file` and `sheaf agent --key`".into(),
    )
}

/// Connects to the first address of a name that answers.
fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let until = Instant::now() + timeout;
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sets what all connections need: small frames at once, and an end if the host of the other end is gone.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
