use super::*;
use proptest::prelude::*;

fn map(text: &str) -> SourceMap {
    parse(text, "map.csv").unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// Returns the errors of a map as lines and texts.
fn wrong(text: &str) -> Vec<(usize, String)> {
    let errors = parse(text, "map.csv").expect_err("not a map");
    errors.iter().map(|error| (error.line().expect("a line"), error.found.clone())).collect()
}

fn one_wrong(text: &str) -> (usize, String) {
    let errors = wrong(text);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].clone()
}

#[test]
fn a_table_of_a_database_gives_names_and_groups() {
    let text = "\u{feff}serial,source,x,name,group,Group\r\n\
                A1,808432835,1.5,DU3-DOM7,line-3,\"ring; line-3\"\r\n\
                \r\n# a comment\n\
                A2,0x2100,2,\"STS-3/left, \"\"upper\"\"\",,\n\
                A3,7,,,line-3 ; ring\n";
    let map = map(text);
    let names: Vec<_> = map.names.iter().map(|(source, name)| (source.0, name)).collect();
    assert_eq!(names, [(0x2100, "STS-3/left, \"upper\""), (808_432_835, "DU3-DOM7")]);
    let both = vec![SourceId(808_432_835), SourceId(7)];
    assert_eq!(map.groups, BTreeMap::from([("line-3".to_owned(), both.clone()), ("ring".to_owned(), both)]));
}

#[test]
fn what_is_wrong_is_reported_with_its_line() {
    let second = |line: &str| one_wrong(&format!("source,name\n{line}\n"));
    assert_eq!(second("x,a"), (2, "\"x\" is not the id of a source".to_owned()));
    assert_eq!(second("4294967296,a"), (2, "\"4294967296\" is not the id of a source".to_owned()));
    assert_eq!(second("1-4,a"), (2, "\"1-4\" is not the id of a source".to_owned()));
    assert_eq!(second("1,\"a"), (2, "a quoted cell has no end in this line".to_owned()));
    assert_eq!(second("1,\"a\"b"), (2, "text follows a quoted cell".to_owned()));
    assert_eq!(second("1,a\u{7}"), (2, "the name has the control character '\\u{7}'".to_owned()));
    assert_eq!(second(&format!("1,{}", "x".repeat(65))).1, "the name has 65 bytes, more than 64");
    assert_eq!(second("1,a\n\n2,a"), (4, "source 1 is also named \"a\"".to_owned()));
    assert_eq!(second("1,a\n1,b"), (3, "source 1 is also in line 2".to_owned()));
    let lines: Vec<usize> = wrong("source,name\nx,a\n3,b\ny,c\n").iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 4], "all errors are reported");
}

#[test]
fn a_first_line_without_the_columns_is_explained() {
    assert_eq!(one_wrong("id,name\n1,a\n"), (1, "there is no column `source`".to_owned()));
    assert_eq!(one_wrong("1,a\n2,b\n"), (1, "there is no column `source`".to_owned()));
    assert_eq!(
        one_wrong("source,serial\n"),
        (1, "there is no column `name` and no column `group`".to_owned())
    );
    assert_eq!(one_wrong("source,name,name\n"), (1, "there are two columns `name`".to_owned()));
    assert_eq!(one_wrong(""), (1, "the source map has no line".to_owned()));
    let error = &parse("source;name\n1;a\n", "map.csv").unwrap_err()[0];
    assert!(error.right.starts_with("separate columns by commas"), "{error}");
    assert_eq!(one_wrong("name,source\na\n"), (2, "this line has no column 2, which is `source`".to_owned()));
}

#[test]
fn a_file_of_garbage_has_a_bounded_number_of_errors() {
    let text = format!("source,name\n{}", "x,y\n".repeat(1_000));
    assert_eq!(wrong(&text).len(), MAX_ERRORS);
}

proptest! {
    #[test]
    fn any_names_survive_quoting(names in proptest::collection::btree_set("[ -~µ]{1,20}", 1..20)) {
        let names: BTreeSet<String> = names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        let mut text = "name,source\n".to_owned();
        for (source, name) in names.iter().enumerate() {
            text.push_str(&format!("\"{}\",{source}\n", name.replace('"', "\"\"")));
        }
        let map = map(&text);
        let read: BTreeSet<String> = map.names.iter().map(|(_, name)| name.to_owned()).collect();
        prop_assert_eq!(read, names);
    }

    #[test]
    fn any_text_is_a_map_or_has_errors_with_lines(text in "(source|name|group|[0-9]|[,;\"\n\r#]|[ -~]|µ){0,60}") {
        if let Err(errors) = parse(&text, "map.csv") {
            let lines = text.split('\n').count();
            prop_assert!(errors.iter().all(|error| error.line().is_some_and(|line| (1..=lines).contains(&line))));
        }
    }
}
