//! Errors in the tables of streams.

use super::{parse, says};
use sheaf_config::ErrorKind;

#[test]
fn streams_of_tags_that_there_are_not() {
    let text = "[filter]
tags = [\"muon\"]
[streams.physics]
tags = [\"moun\", \"quarantined\"]
prescael = 2
[streams.Calib]
[streams.default]
tags = [\"muon\"]
";
    let mut errors: Vec<_> = parse(text)
        .unwrap_err()
        .errors()
        .iter()
        .map(|error| (error.line(), error.kind, error.found.clone(), error.right.clone()))
        .collect();
    errors.sort_by_key(|(line, ..)| *line);
    let expected = [
        (
            4,
            ErrorKind::Conflict,
            "`streams.physics.tags` has \"moun\", which is not in `filter.tags`",
            "did you mean \"muon\"?",
        ),
        (
            5,
            ErrorKind::Unknown,
            "there is no key `prescael` in [streams.physics]",
            "did you mean `prescale`?",
        ),
        (
            6,
            ErrorKind::BadValue,
            "`Calib` is not a stream name",
            "1 to 32 lower-case letters, digits and hyphens, the first a letter",
        ),
        (
            8,
            ErrorKind::Conflict,
            "`streams.default.tags` is set",
            "the default stream receives the events of no other stream, and has no tags",
        ),
    ];
    for ((line, kind, found, right), expected) in errors.iter().zip(expected) {
        assert_eq!((line.unwrap(), *kind, found.as_str(), right.as_str()), expected);
    }
    assert_eq!(errors.len(), expected.len());
}

#[test]
fn streams_that_are_no_table() {
    says(
        parse("streams = 1\n"),
        &[ErrorKind::WrongType],
        "
error: `streams` is an integer, not a table of tables
  --> run.toml:1:1
   |
 1 | streams = 1
   | ^^^^^^^
   = help: write a line `[streams.NAME]` for each stream and its keys below it",
    );
}
