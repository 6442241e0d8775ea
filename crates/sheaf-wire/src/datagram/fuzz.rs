//! The body of the fuzz target for datagrams, and how a fuzzer gets past their checksum.

use super::layout::{HEADS_UNIT, HeadBytes, Kind};
use super::{Credentials, Greeting, HEAD_BYTES, Key, View, append_part, begin, seal};
use zerocopy::FromBytes;

/// Decodes `bytes` as a datagram, unchanged and with a correct checksum. A decoded datagram must be the same after
/// encoding.
///
/// # Panics
/// If the codec violates its contract.
pub fn fuzz_datagram(bytes: &[u8]) {
    read(bytes, Key::OPEN);
    let mut sealed = bytes.to_vec();
    reseal(&mut sealed, Key(7));
    read(&sealed, Key(7));
}

/// Corrects token and checksum of a datagram, if it is as long as its heads require.
pub fn reseal(bytes: &mut [u8], key: Key) {
    let Ok((head, _)) = HeadBytes::read_from_prefix(bytes) else { return };
    if let Some(heads) = bytes.get_mut(..HEAD_BYTES + usize::from(head.heads) * HEADS_UNIT) {
        let token = key.0.to_le_bytes();
        heads[2..4].copy_from_slice(&token[..2]);
        seal(heads, key);
    }
}

fn read(bytes: &[u8], key: Key) {
    let view = match View::new(bytes) {
        Ok(view) => view,
        Err(error) => return assert!(!error.to_string().is_empty(), "an error says what is wrong"),
    };
    assert_eq!(HEAD_BYTES + view.heads().len() + view.body().len(), bytes.len(), "no byte is lost");
    let mut again = Vec::new();
    begin(&mut again, key, view.head());
    let understood = match view.head().kind {
        Kind::Data => view.parts().map(|parts| {
            let mut declared = 0;
            for part in parts {
                assert!(part.offset + u32::from(part.bytes) <= part.total, "a part lies in its message");
                assert!(part.head_bytes.is_none_or(|head| part.offset == 0 && head <= part.total));
                declared += usize::from(part.bytes);
                append_part(&mut again, &part);
            }
            assert_eq!(declared, view.body().len(), "the parts are the body");
        }),
        Kind::Report => view.report().map(|report| report.append(&mut again)),
        Kind::Question | Kind::Answer => Greeting::parse(&view).map(|greeting| {
            again.clear();
            greeting.encode(&mut again, view.head().number);
            let same = View::new(&again).ok().and_then(|view| Greeting::parse(&view).ok());
            assert_eq!(same, Some(greeting), "a greeting says the same after encoding");
            if let Some(said) = Credentials::parse(&view) {
                again.clear();
                greeting.encode_proven(&mut again, view.head().number, &said.nonces, |_| *said.proof);
                let same = View::new(&again)
                    .ok()
                    .and_then(|view| Credentials::parse(&view).map(|it| it.proof == said.proof));
                assert_eq!(same, Some(true), "so does its proof");
            }
        }),
        Kind::Farewell | Kind::FarewellReceived => Ok(()),
    };
    if let (Ok(()), Kind::Data | Kind::Report) = (understood, view.head().kind) {
        seal(&mut again, key);
        let same = View::new(&again);
        assert_eq!(same.map(|view| view.head()), Ok(view.head()));
        assert!(same.is_ok_and(|view| view.is_sealed_with(key)), "what was sealed is sealed");
        let is_same = again[HEAD_BYTES..].len() == view.heads().len();
        assert!(is_same, "encoding adds and loses no head");
    }
}
