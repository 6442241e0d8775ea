mod deframer;
mod greeting;
mod itself;
#[cfg(target_os = "linux")]
mod machines;
mod outbox;
mod proving;
mod sequence;

use super::framing::PrefixBytes;
use sheaf_transport::Frame;
use zerocopy::IntoBytes;

/// The bytes of `frame` on the wire.
fn wire(frame: &Frame) -> Vec<u8> {
    let prefix = PrefixBytes {
        head_bytes: (frame.head.len() as u32).into(),
        payload_bytes: (frame.payload_bytes() as u32).into(),
    };
    let mut bytes = prefix.as_bytes().to_vec();
    bytes.extend_from_slice(&frame.head);
    frame.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
    bytes
}

/// A frame of these sizes with distinguishable bytes.
fn frame(head_bytes: usize, pieces: &[usize]) -> Frame {
    let mut count = 0_u8;
    let mut fill = |bytes: usize| {
        let next = |_| {
            count = count.wrapping_mul(5).wrapping_add(17);
            count
        };
        (0..bytes).map(next).collect()
    };
    let head = fill(head_bytes);
    Frame::new(head, pieces.iter().map(|bytes| fill(*bytes)))
}
