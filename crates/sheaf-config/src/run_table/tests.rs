//! Errors of a table are named with row and column.

use super::*;
use crate::FilterKind;
use proptest::prelude::*;

fn table(text: &str) -> Result<RunTable, ConfigErrors> {
    RunTable::parse(text, "scan.csv", 4)
}

/// Checks a table on top of a configuration with the filter `busy`.
fn check(text: &str) -> Result<(), ConfigErrors> {
    let judge = |config: &Config| (config.run.events.is_none()).then(|| ("no end".into(), "give one".into()));
    let change = |config: &mut Config, _: &[Setting]| {
        (config.run.duration, config.filter.kind) = (None, FilterKind::Busy);
    };
    table(text)?.check(None, change, judge)
}

/// Line, column and text of each error.
fn errors(text: &str) -> Vec<(usize, usize, String)> {
    let errors = check(text).expect_err("it is wrong");
    let place = |error: &ConfigError| match &error.origin {
        Origin::Text(place) => (place.line, place.column, error.found.clone()),
        other => panic!("{other:?}"),
    };
    errors.errors().iter().map(place).collect()
}

#[test]
fn a_table_has_rows_with_values_and_comments() {
    let text = "\u{feff}filter.busy_us, run.events ,Comment\r\n# low\r\n10,100,\"one, two\"\r\n\r\n,200,\r\n";
    let table = table(text).expect("it is right");
    assert_eq!(table.columns().collect::<Vec<_>>(), ["filter.busy_us", "run.events"]);
    let rows: Vec<_> = table.rows().collect();
    assert_eq!(rows, [(vec!["10", "100"], Some("one, two")), (vec!["", "200"], None)]);
    assert!(check(text).is_ok());
}

#[test]
fn errors_have_row_and_column() {
    assert_eq!(
        errors("run.events,filter.busy_us\n100,10\n100,-3\n"),
        [(3, 5, "row 2: `filter.busy_us` is -3".to_owned())]
    );
    assert_eq!(errors("filter.busy_us\n10\n"), [(2, 1, "row 1: no end".to_owned())]);
    assert_eq!(errors("filter.busi_us,run.output\n1,2\n").len(), 2);
    assert_eq!(errors("run.events\n1\n2\n3\n4\n5\n")[0].0, 6);
    assert_eq!(errors("run.events,run.events\n1,2\n")[0].1, 12);
    assert_eq!(errors("run.events,filter.busy_us\n1\n")[0].0, 2);
    assert_eq!(errors("run.events\n\"1\n")[0].0, 2);
    assert_eq!(errors("run.events\n")[0].2, "the table has no row");
    assert_eq!(errors("")[0].2, "the table has no row");
}

proptest! {
    /// Any text is read or refused with errors that have a remedy.
    #[test]
    fn no_text_is_too_strange(text in "(run\\.events|filter\\.kind|[,\"\n\r;#0-9a-z\u{feff}\u{e4}. -]){0,60}") {
        if let Err(errors) = check(&text) {
            prop_assert!(errors.errors().iter().all(|error| !error.right.is_empty()));
            prop_assert!(errors.errors().len() <= MAX_ERRORS);
        }
    }
}
