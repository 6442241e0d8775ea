use super::*;

fn parse(text: &str) -> Result<LabFile, ConfigErrors> {
    LabFile::parse(text, "lab.toml", "lab", |_| {})
}

fn refused(text: &str) -> Vec<(Option<usize>, String, String)> {
    let errors = parse(text).expect_err(text);
    errors.errors().iter().map(|error| (error.line(), error.key.clone(), error.right.clone())).collect()
}

#[test]
fn an_empty_file_is_one_point_over_tcp_that_writes_nothing() {
    let file = parse("").unwrap();
    assert_eq!((file.name.as_str(), file.points.len()), ("lab", 1));
    let point = &file.points[0];
    assert_eq!(point.config.transport.kind, TransportKind::Tcp);
    assert_eq!(point.config.output.kind, OutputKind::None);
    assert_eq!(point.lab, Lab::default());
}

#[test]
fn every_combination_of_lists_is_a_point_and_the_last_list_of_the_file_is_the_fastest() {
    let file =
        parse("name = \"sizes\"\n[source.emulated]\nmean_bytes = [512, 2048, 4096]\n[lab]\nunits = [1, 2]\n")
            .unwrap();
    assert_eq!(file.name, "sizes");
    let found: Vec<(u64, u16, u16)> = file
        .points
        .iter()
        .map(|point| {
            let config = &point.config;
            (config.source.emulated.mean.0, config.readout.count, config.builder.count)
        })
        .collect();
    assert_eq!(found, [(512, 1, 1), (512, 2, 2), (2048, 1, 1), (2048, 2, 2), (4096, 1, 1), (4096, 2, 2)]);
    let last = &file.points[5].settings;
    assert_eq!(last[0], ("source.emulated.mean_bytes".into(), "4096".into()));
    assert_eq!(last[1], ("lab.units".into(), "2".into()));
}

#[test]
fn what_is_wrong_is_told_with_line_key_and_remedy() {
    for (text, line, key, said) in [
        ("[lab]\nrate_mpbs = 1\n", 2, "lab.rate_mpbs", "rate_mbps"),
        ("[labs]\n", 1, "labs", "did you mean [lab]?"),
        ("[lab]\nmtu_bytes = 100\n", 2, "lab.mtu_bytes", "1280"),
        ("[lab]\nunits = [2, 2]\n", 2, "lab.units", "once"),
        ("[lab]\nunits = []\n", 2, "lab.units", "a list"),
        ("[lab]\nunits = [1, \"two\"]\n", 2, "lab.units", "integer"),
        ("[lab]\nunits = 2\n[readout]\ncount = 3\n", 4, "readout.count", "leave one"),
        ("[transport]\nkind = \"shm\"\n", 2, "transport.kind", "tcp"),
        ("[output]\nkind = \"file\"\n", 2, "output.kind", "remove it"),
        ("[lab]\nport_buffer_bytes = 8192\n", 2, "lab.port_buffer_bytes", "18076"),
        ("[lab]\nspines = 2\n", 2, "lab.spines", "leaves"),
        ("[measure]\nslow_builder = 4\n", 2, "measure.slow_builder", "from 0"),
        ("[transport]\nkind = \"udp\"\nmtu_bytes = 9001\n", 3, "transport.mtu_bytes", "remove the former"),
        ("[run]\nduration_s = 0\n", 2, "run.duration_s", "run.events"),
        (
            "[[node]]\nname = \"evm\"\nrole = \"manager\"\n[[node]]\nname = \"r\"\nrole = \"readout\"\n[[node]]\nname = \"b\"\nrole = \"builder\"\n",
            1,
            "node[0]",
            "lab.units",
        ),
    ] {
        let errors = refused(text);
        assert_eq!((errors[0].0, errors[0].1.as_str()), (Some(line), key), "{text}: {errors:?}");
        assert!(errors[0].2.contains(said), "{text}: {errors:?}");
    }
}

#[test]
fn a_configuration_knows_neither_the_tables_of_the_lab_nor_lists_in_place_of_values() {
    for text in ["[lab]\nunits = 2\n", "name = \"x\"\n", "[readout]\ncount = [1, 2]\n"] {
        assert!(Config::parse(text, "run.toml").is_err(), "{text}");
    }
}

#[test]
fn datagrams_are_as_large_and_as_fast_as_the_lab_s_cables_where_nothing_is_said() {
    let file = parse("[lab]\nmtu_bytes = 1500\nrate_mbps = 80\n[transport]\nkind = \"udp\"\n").unwrap();
    let config = &file.points[0].config;
    assert_eq!(config.transport.mtu, 1500);
    assert_eq!(config.shaping.line_rate, ByteRate::from_bits(80_000_000));
}

#[test]
fn what_the_command_line_changes_is_checked_at_every_point() {
    let change = |point: &mut LabPoint| point.config.run.duration = None;
    let errors = LabFile::parse("[lab]\nunits = [1, 2]\n", "lab.toml", "lab", change).unwrap_err();
    assert_eq!(errors.errors().len(), 1, "{errors}");
}

#[test]
fn a_file_that_says_nothing_is_no_scenario() {
    let read = |text: &str| LabFile::from_bytes(text.as_bytes(), "lab.toml", "lab", |_| {});
    for text in ["", "\n", "# [lab]\n  # units = 2\n"] {
        let errors = read(text).expect_err("nothing is said").to_string();
        assert!(errors.contains("lab.toml") && errors.contains("the scenario is empty"), "{errors}");
    }
    assert!(read("[lab]\n").is_ok(), "the defaults were asked for");
}
