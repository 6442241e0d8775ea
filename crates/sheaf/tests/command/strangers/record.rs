//! Recordings of the messages of genuine peers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Maximum number of recorded bytes of a peer: its greetings and its first messages.
const RECORDED: usize = 4_096;

/// Maximum size of an answer to a replayed recording: a challenge, or a greeting with a refusal.
const ANSWER: usize = 200;

/// A port that forwards connections to another one, and records the first bytes of callers. Its threads end with the test's process.
#[derive(Clone, Default)]
pub(super) struct Recording(Arc<Mutex<Vec<Vec<u8>>>>);

impl Recording {
    /// Starts on a free port of the host of `to`. Returns the recording and the port.
    pub(super) fn begin(to: SocketAddr) -> (Self, u16) {
        let listener = TcpListener::bind((to.ip(), 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let recording = Self::default();
        let of_thread = recording.clone();
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                if let Ok(called) = TcpStream::connect(to) {
                    of_thread.carry(caller, called);
                }
            }
        });
        (recording, port)
    }

    fn carry(&self, mut caller: TcpStream, mut called: TcpStream) {
        let (mut from, mut back) = (called.try_clone().unwrap(), caller.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let recording = self.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(bytes @ 1..) = caller.read(&mut buffer) {
                recording.add(&buffer[..bytes]);
                if called.write_all(&buffer[..bytes]).is_err() {
                    break;
                }
            }
            let _ = called.shutdown(Shutdown::Both);
        });
    }

    fn add(&self, said: &[u8]) {
        let mut all = self.0.lock().unwrap();
        if all.iter().map(Vec::len).sum::<usize>() < RECORDED {
            all.push(said.to_vec());
        }
    }

    /// Replays the recording to a port, each message after the answer to the previous one. Only an answer to a greeting and the end
    /// of the connection may follow.
    pub(super) fn replay(&self, to: SocketAddr, speaks: First) {
        let said = self.0.lock().unwrap().clone();
        assert!(!said.is_empty(), "nothing was recorded");
        let mut stream = TcpStream::connect(to).unwrap();
        let (mut received, mut buffer) = (0, [0; 4_096]);
        let mut hear = |stream: &mut TcpStream| {
            received += stream.read(&mut buffer).unwrap_or(0);
            assert!(received <= ANSWER, "{received} bytes came back");
        };
        if speaks == First::Called {
            hear(&mut stream);
        }
        for word in said {
            let _ = stream.write_all(&word);
            hear(&mut stream);
        }
    }
}

/// Side of a connection that sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Caller,
    Called,
}
