use super::*;
use sheaf_config::LabFile;

#[test]
fn every_node_has_an_address_on_every_rail_and_the_event_manager_one_on_the_network_of_control() {
    let text = "[lab]\nunits = 2\nrails = 2\n";
    let file = LabFile::parse(text, "lab.toml", "lab", |_| {}).unwrap_or_else(|errors| panic!("{errors}"));
    let point = &file.points[0];
    let plan = crate::measure::plan(point);
    let config = configuration(&plan, &point.config).expect("the nodes have places");
    let manager = &config.node[0];
    assert_eq!((manager.address.as_deref(), manager.more_addresses.len()), (Some("10.79.0.1:7000"), 0));
    for node in &config.node[1..] {
        let first = node.address.as_deref().unwrap_or_default();
        assert!(first.starts_with("10.80.0."), "{first}");
        assert!(node.more_addresses.len() == 1 && node.more_addresses[0].starts_with("10.81.0."));
        let again = Config::parse_for_node(&config.to_toml(), "run.toml", &node.name);
        assert!(again.is_ok(), "a node can be started with it: {again:?}");
    }
    assert_eq!(config.transport.rails, 2);
}

#[test]
fn what_nodes_counted_is_added_to_the_run() {
    let mut run = serde_json::json!({ "counters": { "lost_rails": 1 }, "trouble": { "content_mismatches": 2 }, "cpu_seconds": 1.0 });
    let mut errors = Vec::new();
    let text = r#"{ "node": "ru0", "counters": { "lost_rails": 2, "bad_messages": 3 }, "content_mismatches": 1,
                    "cpu_seconds": 0.5, "errors": ["it burns"], "peak_rss_bytes": 1 }"#;
    add(&mut run, serde_json::from_str(text).expect("a report"), &mut errors);
    assert_eq!(run["counters"], serde_json::json!({ "lost_rails": 3, "bad_messages": 3 }));
    assert_eq!(run["trouble"]["content_mismatches"], 3);
    assert_eq!(run["cpu_seconds"], 1.5);
    assert_eq!(errors, ["it burns"]);
}
