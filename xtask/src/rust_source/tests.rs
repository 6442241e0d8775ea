use super::*;

#[test]
fn comments_and_strings_are_blanked_and_nothing_moves() {
    let source =
        "let a = \"fn \\\" x\"; // std::fs\n/* a /* b */ c */ let b = r#\"\"std::net\"#;\nlet c = br\"\\\";";
    let code = code_only(source);
    assert_eq!(code.len(), source.len());
    for hidden in ["fn", "std", "a /*", "net"] {
        assert!(!code.contains(hidden), "{hidden} in {code}");
    }
    for shown in ["let a =", "let b =", "let c =", ";\n"] {
        assert!(code.contains(shown), "{shown} in {code}");
    }
    assert_eq!(code.lines().count(), source.lines().count());
}

#[test]
fn lifetimes_are_code_and_characters_are_not() {
    let code = code_only("fn f<'a>(x: &'a str) -> char { '{' } const Q: char = '\\''; struct S<'b>;");
    assert!(code.contains("<'a>(x: &'a str)"), "{code}");
    assert!(!code.contains("'{'"), "{code}");
    assert!(code.contains("struct S<'b>"), "{code}");
}

#[test]
fn names_that_end_in_r_do_not_begin_a_raw_string() {
    assert_eq!(code_only("var\"x\" for"), "var    for");
    assert_eq!(code_only("let br = b; crc"), "let br = b; crc");
}

#[test]
fn a_block_ends_with_its_own_brace() {
    let code = "fn a(x: [u8; 2]) -> u8 { if x { 1 } else { 2 } } fn b();";
    let end = block_end(code, 0).expect("a has a body");
    assert!(code[..end].ends_with("{ 2 } }"));
    assert_eq!(block_end(code, end), None);
}

#[test]
fn test_modules_are_taken_out_line_by_line() {
    let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\n#[cfg(test)]\nmod other;\nfn c() {}\n";
    let rest = without_tests(code);
    assert!(rest.contains("fn a") && rest.contains("fn c") && !rest.contains("fn b"));
    assert_eq!(rest.lines().count(), code.lines().count());
}

#[test]
fn words_are_found_whole() {
    assert_eq!(find_word("std::fs std::fsx xstd::fs", "std::fs"), [0]);
    assert_eq!(line_of("a\nb\nc", 4), 3);
}
