use super::*;
use proptest::prelude::*;

fn range() -> impl Strategy<Value = VersionRange> {
    (1_u8..=255, 1_u8..=255)
        .prop_map(|(one, two)| VersionRange { oldest: one.min(two), newest: one.max(two) })
}

fn hello() -> impl Strategy<Value = Hello> {
    (any::<u64>(), range(), "[a-z0-9. ]{0,300}", "[a-zäö0-9.]{0,300}").prop_map(
        |(session, versions, software, host)| Hello { session: SessionId(session), versions, software, host },
    )
}

proptest! {
    #[test]
    fn both_sides_come_to_the_same_version_which_both_speak(one in range(), other in range()) {
        let common = one.common(other);
        prop_assert_eq!(common, other.common(one));
        let spoken = |range: VersionRange, version: u8| (range.oldest..=range.newest).contains(&version);
        let of_both = (1..=255).filter(|version| spoken(one, *version) && spoken(other, *version));
        prop_assert_eq!(common, of_both.max());
    }

    #[test]
    fn a_hello_is_read_as_it_was_said(hello in hello(), more in prop::collection::vec(any::<u8>(), 0..9)) {
        let cut = Hello { software: cut(&hello.software).to_owned(), host: cut(&hello.host).to_owned(), ..hello.clone() };
        let mut bytes = hello.emit();
        prop_assert!(Hello::is_begun_by(&bytes));
        prop_assert_eq!(Hello::parse(&bytes), Ok(cut.clone()));
        bytes.extend(more);
        seal(&mut bytes);
        prop_assert_eq!(Hello::parse(&bytes), Ok(cut), "a later version may append fields");
    }

    #[test]
    fn a_hello_that_is_cut_or_damaged_is_refused(hello in hello(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let bytes = hello.emit();
        prop_assert!(Hello::parse(&bytes[..at.index(bytes.len())]).is_err());
        let mut damaged = bytes;
        let at = at.index(damaged.len());
        damaged[at] ^= 1_u8 << bit;
        prop_assert!(Hello::parse(&damaged).is_err());
    }

    #[test]
    fn any_bytes_are_a_hello_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        crate::fuzz::fuzz_hello(&bytes);
    }
}

#[test]
fn versions_that_are_no_range_are_refused() {
    for (oldest, newest) in [(0, 0), (0, 3), (4, 3)] {
        let versions = VersionRange { oldest, newest };
        let hello = Hello { versions, ..Hello::unsaid(3) };
        assert_eq!(Hello::parse(&hello.emit()), Err(HelloError::BadRange(oldest, newest)));
    }
}

#[test]
fn this_program_speaks_a_range() {
    let VersionRange { oldest, newest } = VersionRange::OWN;
    assert!((1..=newest).contains(&oldest), "{oldest} to {newest}");
}

#[test]
fn what_a_peer_says_cannot_break_a_line_of_the_log() {
    let said = Hello { software: "sheaf\n9".into(), host: "a\x1b[2Jb".into(), ..Hello::unsaid(3) };
    let heard = Hello::parse(&said.emit()).expect("it is a hello");
    assert_eq!(heard.to_string(), "sheaf9 on host a[2Jb");
}
