//! Passwords that are written where none belongs: messages about them show the place, and not the password.

use std::borrow::Cow;

/// Takes the place of each character of a password, so that all others keep their columns.
const MASK: char = '*';

/// Returns a line of a file, or a value, with passwords masked: of a URL, and behind `password =`. Rather too much than too little: where a
/// password ends cannot be known if it has characters that it should not have.
pub(crate) fn without_passwords(line: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(line);
    for find in [of_url, of_assignment] {
        if let Some((start, end)) = find(&masked) {
            let hidden: String = masked[start..end].chars().map(|_| MASK).collect();
            masked = Cow::Owned([&masked[..start], &hidden, &masked[end..]].concat());
        }
    }
    masked
}

/// Finds `PASSWORD` in `scheme://USER:PASSWORD@HOST`.
fn of_url(line: &str) -> Option<(usize, usize)> {
    let user = line.find("://")? + "://".len();
    let host = user + line[user..].rfind('@')?;
    let password = user + line[user..host].find(':')? + 1;
    Some((password, host))
}

/// Finds what follows `password =`, as a key or as a parameter of a URL, up to the end of the line, but for its quotation marks.
fn of_assignment(line: &str) -> Option<(usize, usize)> {
    const KEY: &str = "password";
    let quotes = ['"', '\''];
    let mut rest = line;
    while let Some(at) = rest.find(KEY) {
        rest = rest[at + KEY.len()..].trim_start_matches(quotes).trim_start();
        if let Some(value) = rest.strip_prefix('=') {
            let value = value.trim_start().trim_start_matches(quotes);
            let start = line.len() - value.len();
            return Some((start, start + value.trim_end().trim_end_matches(quotes).len()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked_and_nothing_moves() {
        for (line, shown) in [
            ("url = \"postgres://daq:secret@db/runs\"", "url = \"postgres://daq:******@db/runs\""),
            ("postgres://daq:se@c/r?t@db:5433/runs", "postgres://daq:********@db:5433/runs"),
            (
                "\"postgresql://db/runs?user=d&password=sécret\"",
                "\"postgresql://db/runs?user=d&password=******\"",
            ),
            ("password_file = 3 # password = 'a b' ", "password_file = 3 # password = '***' "),
            ("\"password\"=\"x\"", "\"password\"=\"*\""),
        ] {
            assert_eq!(without_passwords(line), shown);
        }
    }

    #[test]
    fn other_lines_stay() {
        for line in [
            "",
            "url = \"postgres://daq@db:5433/runs\"",
            "password_file = \"/etc/sheaf/password\"",
            "address = \"http://host:80\"",
        ] {
            assert!(matches!(without_passwords(line), Cow::Borrowed(shown) if shown == line), "{line}");
        }
    }
}
