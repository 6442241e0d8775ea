//! Standard output of a node in a process of its own: records between lines of text.

use crate::relay::{self, Relayed};
use std::io::{self, BufRead, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads the standard output of a node to its end. Returns the text besides its records, each of which is handled when it arrives.
pub(crate) fn read(
    mut output: impl BufRead,
    mut relayed: Option<Relayed>,
    is_over: &AtomicBool,
) -> io::Result<String> {
    let (mut text, mut line) = (String::new(), String::new());
    while read_line(&mut output, &mut line)? > 0 {
        match (line.strip_prefix(relay::RECORD_SEPARATOR), &mut relayed) {
            (Some(record), Some(relayed)) => {
                if relayed.take(record) {
                    is_over.store(true, Ordering::Relaxed);
                }
            }
            (Some(_), None) => {}
            (None, _) => text.push_str(&line),
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
        let text = read(BufReader::new(parent), None, &AtomicBool::new(false));
        assert_eq!(text.expect("the end is no error"), "one\ntwo");
    }
}
