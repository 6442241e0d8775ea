//! Words of shells and units: quoted so that their reader gets the text, or refused. Texts with names that are filled in.

use crate::LaunchError;

/// Returns a text as one word of a POSIX shell.
///
/// # Errors
/// If the text has control characters. `what` says which text it is.
pub(crate) fn shell(what: &'static str, text: &str) -> Result<String, LaunchError> {
    check(what, text)?;
    Ok(quoted(text))
}

/// Returns a text as one word of a POSIX shell, whatever it is.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,:@%".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Returns a path as the value of an option of sbatch in a script: `#SBATCH --chdir="..."`.
///
/// # Errors
/// If Slurm would change the text: it replaces `%`, and removes quotes and backslashes.
pub(crate) fn sbatch(what: &'static str, text: &str) -> Result<String, LaunchError> {
    check(what, text)?;
    let odd = text.chars().find(|letter| "%\"'\\".contains(*letter));
    match odd {
        Some(letter) => {
            Err(LaunchError::odd(what, text, &format!("Slurm does not read `{letter}` as it is")))
        }
        None => Ok(format!("\"{text}\"")),
    }
}

/// Returns a text as one word of a command in a unit of systemd.
///
/// # Errors
/// If the text has control characters.
pub(crate) fn unit(what: &'static str, text: &str) -> Result<String, LaunchError> {
    check(what, text)?;
    let mut word = String::from('"');
    for letter in text.chars() {
        match letter {
            '%' => word.push_str("%%"),
            '$' => word.push_str("$$"),
            '"' | '\\' => word.extend(['\\', letter]),
            other => word.push(other),
        }
    }
    word.push('"');
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@=,".contains(letter);
    Ok(if text.starts_with('/') && text.chars().all(is_plain) { text.to_owned() } else { word })
}

/// Returns a path as a setting of a unit of systemd, which has no quotes.
///
/// # Errors
/// If systemd would read something else.
pub(crate) fn unit_path(what: &'static str, text: &str) -> Result<String, LaunchError> {
    check(what, text)?;
    if text.trim() != text || text.contains(['\\', '"', '\'']) {
        return Err(LaunchError::odd(
            what,
            text,
            "systemd reads quotes, backslashes, and blanks at its ends otherwise",
        ));
    }
    Ok(text.replace('%', "%%"))
}

/// Returns a text as a quoted scalar of YAML.
///
/// # Errors
/// If YAML does not have its characters.
pub(crate) fn yaml(what: &'static str, text: &str) -> Result<String, LaunchError> {
    check(what, text)?;
    match text.chars().any(is_odd_in_yaml) {
        true => Err(LaunchError::odd(what, text, "YAML does not have some of its characters")),
        false => Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
    }
}

/// Returns whether a character ends lines in YAML, marks the order of bytes, or is not a character at all.
pub(crate) fn is_odd_in_yaml(letter: char) -> bool {
    matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Refuses control characters, which end lines and confuse terminals.
pub(crate) fn check(what: &'static str, text: &str) -> Result<(), LaunchError> {
    match text.chars().any(char::is_control) {
        true => Err(LaunchError::odd(what, text, "it has a control character")),
        false => Ok(()),
    }
}

/// Replaces names in a text, from its begin to its end: what has been filled in is not looked at again.
pub(crate) fn filled(mut text: &str, fill: &[(&str, String)]) -> String {
    let mut done = String::new();
    loop {
        let next = fill.iter().filter_map(|(name, value)| Some((text.find(name)?, name, value))).min();
        let Some((at, name, value)) = next else { break };
        done.push_str(&text[..at]);
        done.push_str(value);
        text = &text[at + name.len()..];
    }
    done.push_str(text);
    done
}
