use super::output::first_missing;
use super::page::{Action, Page};
use super::*;

fn actions(text: &str) -> Vec<Action> {
    let page = Page::parse("page.md", text).expect("the page is well formed");
    page.blocks.into_iter().map(|block| block.action).collect()
}

/// Parses every page, which is the quick part of `docs-test`.
#[test]
fn all_pages_are_well_formed() {
    let blocks: usize = pages(&[]).expect("pages").iter().map(|page| page.blocks.len()).sum();
    assert!(blocks > 50, "{blocks} blocks are found in all pages");
}

#[test]
fn commands_python_and_configurations_are_found_and_other_languages_are_not() {
    let text = "```sh\nsheaf run\n```\n```python\nimport sheaf\n```\n```toml\n[run]\n```\n```text\nso\n```\n";
    let shell = Action::Shell { commands: "sheaf run\n".into(), status: 0 };
    let python = Action::Python("import sheaf\n".into());
    assert_eq!(actions(text), [shell, python, Action::Configuration("[run]\n".into())]);
}

#[test]
fn a_terminal_has_commands_and_what_they_print() {
    let shell = Action::Shell { commands: "sheaf verify x\n".into(), status: 3 };
    let text = "<!-- docs-test: status 3 -->\n```console\n$ sheaf verify x\nNOT GOOD\n```\n";
    assert_eq!(actions(text), [shell, Action::Output("NOT GOOD\n".into())]);
}

#[test]
fn comments_belong_to_the_next_block() {
    let text = "<!-- docs-test: needs jq, python:numpy -->\n<!-- docs-test: run a\nb -->\n\n```sh\nc\n```\n";
    let page = Page::parse("page.md", text).expect("the page is well formed");
    assert_eq!(page.blocks[0].needs, ["jq", "python:numpy"]);
    assert_eq!(page.blocks[0].before, "a\nb\n");
}

#[test]
fn malformed_comments_are_refused() {
    for text in [
        "<!-- docs-test: needs jq -->\nwords\n",
        "<!-- docs-test: needs jq -->\n",
        "<!-- docs-test: needs -->\n```sh\na\n```\n",
        "<!-- docs-test: maybe -->\n```sh\na\n```\n",
        "<!-- docs-test: needs jq",
        "<!-- docs-test: status 1 -->\n```json\n{}\n```\n",
    ] {
        assert!(Page::parse("page.md", text).is_err(), "{text}");
    }
}

#[test]
fn words_of_a_page_must_be_printed_in_order_and_numbers_may_differ() {
    let printed = "events built   17  3/s\n  stored 17\n";
    assert_eq!(first_missing("events built 588 305\n...\nstored 4\n", printed), None);
    assert_eq!(first_missing("built events\n", printed), Some("built events"));
    assert_eq!(first_missing("events built\nrejected\n", printed), Some("rejected"));
}

/// Runs a page whose command fails, one with other output, and a correct one.
#[test]
fn failures_name_their_line() {
    let directory = std::env::temp_dir().join(format!("sheaf-docs-test-{}", std::process::id()));
    let machine = Machine::new(directory.clone(), "/bin/true".into(), Vec::new());
    let outcome = |text: &str| {
        let page = Page::parse("page.md", text).expect("the page is well formed");
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        script::run(&machine, &page, &directory).map_err(|error| error.to_string())
    };
    let fails = outcome("words\n```sh\ntrue\nls /no/such/file\n```\n").expect_err("ls fails");
    assert!(fails.starts_with("line 2: status 2 of: ls /no/such/file"), "{fails}");
    let other = outcome("```console\n$ echo this\nthat\n```\n").expect_err("another word");
    assert!(other.contains("no line like `that`"), "{other}");
    let left = outcome("```sh\n(sleep 0.1; exit 7) &\nwait -n || true\nfalse &\n```\n");
    assert!(left.is_err(), "a command in the background fails");
    let good = outcome("<!-- docs-test: needs no-such-program -->\n```sh\nfalse\n```\n```sh\necho a\n```\n");
    let good = good.expect("what remains succeeds");
    assert_eq!((good.run, good.skipped), (1, vec![(2, "there is no no-such-program".to_owned())]));
    std::fs::remove_dir_all(&directory).expect("the directory is removed");
}
