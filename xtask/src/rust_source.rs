//! Rust source reduced to its code.

/// Returns the text with comments and the contents of string and character literals blanked out. All other bytes and all line ends
/// keep their positions.
pub(crate) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = at + blank_length(&source[at..], at.checked_sub(1).map(|before| bytes[before]));
        if end > at {
            code.extend(source[at..end].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            let character = source[at..].chars().next().expect("not at the end");
            code.push(character);
            at += character.len_utf8();
        }
    }
    code
}

/// Returns the length of the comment, string or character literal at the start of `rest`; 0 for code.
fn blank_length(rest: &str, before: Option<u8>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    let in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // Raw strings: r"..", r#".."#, br"..", cr"..".
    let prefix = rest.trim_start_matches(['b', 'c']);
    if !in_word && rest.len() - prefix.len() <= 1 && prefix.starts_with('r') {
        let hashes = prefix[1..].bytes().take_while(|byte| *byte == b'#').count();
        if prefix[1 + hashes..].starts_with('"') {
            let begin = rest.len() - prefix.len() + hashes + 2;
            let close = format!("\"{}", "#".repeat(hashes));
            return rest[begin..].find(&close).map_or(rest.len(), |end| begin + end + close.len());
        }
    }
    if rest.starts_with('"') {
        return quoted_length(rest, '"');
    }
    if rest.starts_with('\'') {
        return character_length(rest);
    }
    0
}

/// Returns the length of a block comment. Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Returns the length of a quoted text with backslash escapes.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == quote {
            return at + 1;
        }
    }
    rest.len()
}

/// Returns the length of a character literal; 0 for a lifetime.
fn character_length(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), _) => quoted_length(rest, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// Returns the position after the closing brace of the block that opens at or after `from`. `None` if a semicolon comes first.
/// `code` must contain no comments or strings.
pub(crate) fn block_end(code: &str, from: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return Some(at + 1);
                }
            }
            b';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns the code without modules and functions that are compiled for tests only. Line numbers do not change.
pub(crate) fn without_tests(code: &str) -> String {
    let mut code = code.to_owned();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]") {
        let begin = from + found;
        from = begin + 1;
        if let Some(end) = block_end(&code, begin + "#[cfg(test)]".len()) {
            let blank: String = code[begin..end]
                .chars()
                .map(|character| if character == '\n' { '\n' } else { ' ' })
                .collect();
            code.replace_range(begin..end, &blank);
        }
    }
    code
}

/// Returns the line number, from 1, of a position in a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// Returns all positions where `word` occurs as a whole path or identifier.
pub(crate) fn find_word(code: &str, word: &str) -> Vec<usize> {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = code.as_bytes();
    let whole = |at: &usize| {
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + word.len()))
    };
    code.match_indices(word).map(|(at, _)| at).filter(whole).collect()
}

#[cfg(test)]
mod tests;
