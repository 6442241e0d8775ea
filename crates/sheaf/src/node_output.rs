//! Standard output of a node in a process of its own: records between lines of text.

use crate::relay;
use std::io::{self, BufRead, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Takes a record of a node without its separator, and returns whether it is the last one.
pub(crate) type TakeRecord = Box<dyn FnMut(&str) -> bool + Send>;

/// Signs that a process gives when the run is over.
#[derive(Debug, Default)]
pub(crate) struct LastSigns {
    /// Whether its node has ended. Its process may answer requests.
    pub(crate) has_ended: AtomicBool,
    /// Lines that it has said since.
    pub(crate) lines: AtomicU64,
}

/// Reads the standard output of a node to its end. Returns the text besides its records, each of which is given to `take` when it arrives:
/// it returns whether the record is the last one of the node.
pub(crate) fn read(
    mut output: impl BufRead,
    mut take: Option<TakeRecord>,
    signs: &LastSigns,
) -> io::Result<String> {
    let (mut text, mut line) = (String::new(), String::new());
    while read_line(&mut output, &mut line)? > 0 {
        match (line.strip_prefix(relay::RECORD_SEPARATOR), &mut take) {
            (Some(record), Some(take)) => {
                if take(record) {
                    signs.has_ended.store(true, Ordering::Relaxed);
                }
            }
            (Some(_), None) => {}
            (None, _) => text.push_str(&line),
        }
        if signs.has_ended.load(Ordering::Relaxed) {
            signs.lines.fetch_add(1, Ordering::Relaxed);
        }
        line.clear();
    }
    Ok(text)
}

/// Reads a line. The output is a socket, which is reset if the node ends before it has read every request: everything that it wrote
/// has been received then, and this is the end.
fn read_line(output: &mut impl BufRead, line: &mut String) -> io::Result<usize> {
    match output.read_line(line) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(line.len()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Write as _};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_node_that_ends_without_reading_its_requests_has_said_everything() {
        let (mut parent, mut node) = UnixStream::pair().expect("a pair of sockets");
        parent.write_all(b"a request\n").expect("the socket takes it");
        node.write_all(b"one\ntwo").expect("the socket takes it");
        drop(node);
        let text = read(BufReader::new(parent), None, &LastSigns::default());
        assert_eq!(text.expect("the end is no error"), "one\ntwo");
    }

    /// A process that passes on its last stamps is at work until it has said the last one.
    #[test]
    fn lines_count_after_the_end_of_the_node() {
        let signs = LastSigns::default();
        let ended = serde_json::to_string(&relay::Record::NodeEnded).expect("a record is JSON");
        let output = format!("before\n{}{ended}\nafter\nafter\n", relay::RECORD_SEPARATOR);
        let mut relayed = relay::Relayed::new("bu0", None, None);
        read(output.as_bytes(), Some(Box::new(move |record| relayed.take(record))), &signs)
            .expect("the end is no error");
        assert!(signs.has_ended.load(Ordering::Relaxed));
        assert_eq!(signs.lines.load(Ordering::Relaxed), 3, "with the line that says so");
    }
}
