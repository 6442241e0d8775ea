//! A vectored stream over a loopback socket, with nothing around it: what the kernel gives a program that only moves
//! bytes. One thread writes [`MESSAGES_A_CALL`] messages a call, another reads into one large buffer and counts.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Number of messages in one vectored write: enough that messages of 2 kB pay little for the call, and no more than a
/// socket buffer takes at once.
pub const MESSAGES_A_CALL: usize = 32;

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Bytes per second of one stream of messages of `bytes` bytes, after `warm_up`, for `span`.
///
/// # Errors
/// Returns the error of the system if it provides no loopback sockets.
pub fn measure(bytes: usize, warm_up: Duration, span: Duration) -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || send(TcpStream::connect(address)?, bytes.max(1)));
        let (mut stream, _) = listener.accept()?;
        let mut buffer = vec![0; READ_BYTES];
        let start = Instant::now();
        while start.elapsed() < warm_up {
            receive(&mut stream, &mut buffer)?;
        }
        let (start, mut received) = (Instant::now(), 0);
        while start.elapsed() < span {
            received += receive(&mut stream, &mut buffer)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        // The sender's next write fails, which is its sign to end.
        drop(stream);
        let _ = sender.join();
        #[expect(clippy::cast_precision_loss, reason = "a rate is quoted to a few digits")]
        let received = received as f64;
        Ok(received / seconds)
    })
}

fn receive(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match stream.read(buffer)? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the loopback stream ended early")),
        read => Ok(read),
    }
}

/// Writes until the reader is gone.
fn send(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    let messages: Vec<Vec<u8>> = (0..MESSAGES_A_CALL).map(|_| vec![0xa5; bytes]).collect();
    loop {
        let mut slices: Vec<IoSlice<'_>> = messages.iter().map(|message| IoSlice::new(message)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            match stream.write_vectored(left) {
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_moves_bytes_and_ends() {
        for bytes in [1, 2048, 1 << 20] {
            let rate = measure(bytes, Duration::from_millis(1), Duration::from_millis(5));
            assert!(rate.expect("there is a loopback interface") > 0.0);
        }
    }
}
