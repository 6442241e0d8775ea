//! Number of parameters of functions.
//!
//! Parameters that belong together are a struct, whose fields have names where it is made. Functions that C or Python calls are exempt:
//! arguments are the interface there.

use crate::problem::Problem;
use crate::rust_source::{block_end, code_only, find_word, line_of, without_tests};

/// Maximum number of parameters besides `self`.
const PARAMETERS_MAX: usize = 5;

pub(super) fn check(path: &str, source: &str) -> Vec<Problem> {
    if super::rust::is_test_code(path) {
        return Vec::new();
    }
    let code = without_foreign_blocks(without_tests(&code_only(source)));
    let mut problems = Vec::new();
    for at in find_word(&code, "fn") {
        let Some((name, parameters)) = signature(&code[at..]) else { continue };
        if parameters > PARAMETERS_MAX && !is_called_by_others(&code[..at]) {
            let text = format!(
                "function {name} has {parameters} parameters, more than {PARAMETERS_MAX}: make what belongs together a struct"
            );
            problems.push(Problem::at_line(path, line_of(&code, at), text));
        }
    }
    problems
}

/// Returns the code without blocks of functions that are defined elsewhere. Positions do not change.
fn without_foreign_blocks(mut code: String) -> String {
    for at in find_word(&code.clone(), "extern") {
        let begin = at + "extern".len();
        if code[begin..].trim_start().starts_with('{')
            && let Some(end) = block_end(&code, begin)
        {
            let blank: String =
                code[begin..end].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }).collect();
            code.replace_range(begin..end, &blank);
        }
    }
    code
}

/// Returns whether the function that begins after `before` is called by C or, with arguments that have names, by Python.
fn is_called_by_others(before: &str) -> bool {
    let own = before.rfind(['}', '{', ';']).map_or(before, |end| &before[end..]);
    !find_word(own, "extern").is_empty() || own.contains("#[pyo3(signature")
}

/// Returns the name and the number of parameters besides `self` of the function at the start of `code`. `None` for a type.
fn signature(code: &str) -> Option<(&str, usize)> {
    let rest = code.strip_prefix("fn")?.trim_start();
    let name = &rest[..rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?];
    if name.is_empty() {
        return None;
    }
    let mut parameters = 0;
    let (mut brackets, mut angles, mut before, mut text) = (0_usize, 0_usize, ' ', String::new());
    for letter in rest[name.len()..].chars() {
        match letter {
            // The generic parameters come before the first bracket.
            '<' => angles += 1,
            '>' if before != '-' => angles = angles.saturating_sub(1),
            '(' | '[' | '{' => brackets += usize::from(brackets > 0 || angles == 0),
            ')' | ']' | '}' if brackets > 1 => brackets -= 1,
            ')' if brackets == 1 => {
                parameters += usize::from(is_parameter(&text));
                return Some((name, parameters));
            }
            ',' if brackets == 1 && angles == 0 => {
                parameters += usize::from(is_parameter(&text));
                text.clear();
            }
            _ if brackets >= 1 => text.push(letter),
            _ => {}
        }
        before = letter;
    }
    None
}

fn is_parameter(text: &str) -> bool {
    let first = text.split(':').next().unwrap_or_default();
    !text.trim().is_empty() && find_word(first, "self").is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(code: &str) -> usize {
        signature(code).expect("it is a function").1
    }

    #[test]
    fn parameters_are_counted_without_self_and_without_commas_of_types() {
        assert_eq!(counted("fn none() {}"), 0);
        assert_eq!(counted("fn method(&mut self) {}"), 0);
        assert_eq!(counted("fn later(&'a self, one: u8,) {}"), 1);
        assert_eq!(counted("fn types(map: BTreeMap<u8, u8>, of: [(u8, u8); 2], (a, b): (u8, u8)) {}"), 3);
        assert_eq!(counted("fn closures(f: impl Fn(u8, u8) -> Vec<u8>, g: &dyn Fn(u8)) {}"), 2);
        assert_eq!(counted("fn generic<T: Fn(u8, u8) -> u8, const N: usize>(f: T) {}"), 1);
        assert_eq!(signature("fn(u8, u8) -> u8"), None);
    }

    #[test]
    fn functions_that_c_or_python_calls_are_exempt() {
        let many = "(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8)";
        let texts = |source: &str| check("crates/a/src/a.rs", source).len();
        assert_eq!(texts(&format!("fn a() {{}}\nfn b{many} {{}}\n")), 1);
        assert_eq!(texts(&format!("pub unsafe extern \"C\" fn b{many} {{}}\n")), 0);
        assert_eq!(texts(&format!("unsafe extern \"C\" {{\n    fn b{many};\n}}\n")), 0);
        assert_eq!(texts(&format!("#[new]\n#[pyo3(signature = (a, *, b = 1))]\nfn b{many} {{}}\n")), 0);
        assert_eq!(texts(&format!("#[cfg(test)]\nmod tests {{\n    fn b{many} {{}}\n}}\n")), 0);
    }
}
