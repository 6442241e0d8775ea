use crate::{Config, NodeConfig, Setting};
use proptest::prelude::*;
use sheaf_wire::{NodeId, Role, SourceId};
use std::collections::BTreeSet;

const SYSTEM: &str = "[readout]\ncount = 3\n[builder]\ncount = 2\n[source]\ncount = 6\n\
    [partition.tracker]\nnodes = [\"ru0\", \"ru1\", \"bu0\"]\nset = [\"trigger.mode=fixed\", \"trigger.rate_hz = 100\"]\n\
    [partition.calo]\nnodes = [\"ru2\", \"bu1\"]\n";

fn part(text: &str, name: &str) -> Result<Config, String> {
    let change = |config: &mut Config| config.run.partition = Some(name.to_owned());
    Config::parse_with(text, "system.toml", change).map_err(|errors| errors.to_string())
}

fn names(config: &Config) -> Vec<String> {
    config.nodes().expect("a system").into_iter().map(|node| node.name).collect()
}

fn sources(nodes: &[NodeConfig]) -> Vec<u32> {
    nodes.iter().flat_map(|node| node.sources.iter().map(|source| source.0)).collect()
}

#[test]
fn a_partition_has_its_nodes_their_sources_and_its_settings() {
    let whole = Config::parse(SYSTEM, "system.toml").expect("a valid configuration");
    assert_eq!(whole.run.partition, None);
    assert_eq!(names(&whole).len(), 6);
    let tracker = part(SYSTEM, "tracker").expect("a part");
    assert_eq!(names(&tracker), ["evm", "ru0", "ru1", "bu0"]);
    assert_eq!(sources(&tracker.nodes().expect("a system")), [0, 1, 2, 3]);
    assert_eq!(tracker.trigger.rate_hz, Some(100.0));
    assert_eq!(tracker.run.partition.as_deref(), Some("tracker"));
    let calo = part(SYSTEM, "calo").expect("a part");
    assert_eq!(names(&calo), ["evm", "ru2", "bu1"]);
    assert_eq!(sources(&calo.nodes().expect("a system")), [4, 5]);
    assert_eq!(calo.trigger, whole.trigger);
    // What is recorded of it reads as the same, also where the flag is given again.
    for config in [tracker, calo] {
        let text = config.to_toml();
        assert_eq!(Config::parse(&text, "run.toml").as_ref(), Ok(&config));
        assert_eq!(part(&text, config.run.partition.as_deref().unwrap_or_default()).as_ref(), Ok(&config));
        let error = part(&text, "another").expect_err("it is another part");
        assert!(error.contains("is that of partition"), "{error}");
    }
}

#[test]
fn flags_and_rows_go_before_the_settings_of_a_partition() {
    let change = |config: &mut Config| {
        config.run.partition = Some("tracker".to_owned());
        config.trigger.rate_hz = Some(7.0);
    };
    let config = Config::parse_with(SYSTEM, "system.toml", change).expect("a part");
    assert_eq!(config.trigger.rate_hz, Some(7.0));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), SYSTEM).expect("it is ours");
    let row = [Setting { key: "trigger.rate_hz".into(), value: "8".into() }];
    let choose = |config: &mut Config| config.run.partition = Some("tracker".to_owned());
    let config = Config::load_with_settings(Some(file.path()), &row, choose).expect("a part");
    assert_eq!(config.trigger.rate_hz, Some(8.0));
    let row = [Setting { key: "run.partition".into(), value: "calo".into() }];
    let error = Config::load_with_settings(Some(file.path()), &row, choose).expect_err("a fixed key");
    assert!(error.to_string().contains("a controller has one partition"), "{error}");
}

#[test]
fn programs_find_a_readout_unit_of_a_partition_where_it_is_in_the_whole() {
    let fed = SYSTEM.replace("[source]\n", "[source]\nkind = \"feed\"\n");
    let fed = format!("{}[source.feed]\nlisten = \"daq1:7100\"\n", fed.replace("set =", "# set ="));
    let whole = Config::parse(&fed, "system.toml").expect("a valid configuration");
    let calo = part(&fed, "calo").expect("a part");
    let place = |config: &Config| config.feed_place_of(&[SourceId(4)]).expect("it is fed");
    assert_eq!(place(&calo), place(&whole));
    assert_eq!(place(&calo).network.as_deref(), Some("daq1:7102"));
    assert_eq!(calo.feed_index(NodeId::readout(0)), 2);
    // The processes of its nodes get the same.
    let mut again = calo.clone();
    again.set_nodes(&calo.nodes().expect("a system"));
    assert_eq!(place(&again), place(&whole));
}

#[test]
fn what_concerns_other_sources_and_nodes_is_left_out() {
    let text = format!(
        "{SYSTEM}[require.units]\nnodes = [\"ru*\"]\nleast = 3\n[require.calo]\nnodes = [\"ru2\"]\n\
         [triggers.both]\ntype = 1\n[triggers.calo]\ntype = 2\nreadouts = [2]\n[triggers.outer]\ntype = 3\nreadouts = [1, 2]\n\
         [check_fields.a]\nsources = [0, 4]\nvalue = \"u32 at 0\"\n[check_fields.b]\nsources = [5]\nvalue = \"u32 at 0\"\n\
         [check]\nreference = 5\n[source.names]\n0 = \"pixel\"\n4 = \"ecal\"\n"
    )
    .replace("count = 6\n", "count = 6\noptional = [1, 5]\n");
    let tracker = part(&text, "tracker").expect("a part");
    assert_eq!(tracker.source.optional, [SourceId(1)]);
    assert_eq!(tracker.require.keys().collect::<Vec<_>>(), ["units"]);
    assert_eq!(tracker.require["units"].least, 2);
    assert_eq!(tracker.triggers.keys().collect::<Vec<_>>(), ["both", "outer"]);
    assert_eq!(tracker.triggers["outer"].readouts, [1]);
    assert_eq!(tracker.check_fields.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!((tracker.check.reference, tracker.names.iter().count()), (None, 1));
    let calo = part(&text, "calo").expect("a part");
    assert_eq!(calo.triggers["outer"].readouts, [0]);
    assert_eq!(calo.triggers["calo"].readouts, [0]);
    assert_eq!(calo.check.reference, Some(SourceId(5)));
}

#[test]
fn a_partition_that_cannot_be_is_refused_with_its_place_and_a_correction() {
    let error_of = |partition: &str| {
        let text = format!("[readout]\ncount = 2\n[builder]\ncount = 2\n[partition.a]\n{partition}\n");
        Config::parse(&text, "system.toml").expect_err("a mistake").to_string()
    };
    for (partition, parts) in [
        ("", ["`partition.a.nodes` is not set", "system.toml:5"]),
        ("nodes = [\"ru0\"]", ["partition `a`: it has no builder unit", "system.toml:6"]),
        ("nodes = [\"bu*\"]", ["it has no readout unit", "add at least one"]),
        ("nodes = [\"ru0\", \"bu0\", \"ru7\"]", ["no node is named \"ru7\"", "did you mean"]),
        ("nodes = [\"ru0\", \"bu0\", \"evm\"]", ["\"evm\" is the event manager", "system.toml:6"]),
        (
            "nodes = [\"ru0\", \"bu0\"]\nset = [\"run.output=x\"]",
            ["`run.output` cannot differ", "system.toml:7"],
        ),
        (
            "nodes = [\"ru0\", \"bu0\"]\nset = [\"trigger.rate=1\"]",
            ["no key `trigger.rate`", "did you mean `trigger."],
        ),
        (
            "nodes = [\"ru0\", \"bu0\"]\nset = [\"trigger.mode=fixed\"]",
            ["partition `a`: `trigger.mode`", "system.toml:7"],
        ),
        (
            "nodes = [\"ru0\", \"bu0\"]\nset = [\"trigger.source=1\", \"trigger.mode=source\"]",
            ["source 1 does not exist", "partition `a`"],
        ),
    ] {
        let error = error_of(partition);
        for part in parts {
            assert!(error.contains(part), "`{part}` is not in:\n{error}");
        }
    }
    let error = part(SYSTEM, "traker").expect_err("a slip");
    assert!(
        error.contains("there is no partition \"traker\"")
            && error.contains("`tracker`") | error.contains("\"tracker\""),
        "{error}"
    );
    let error = part("", "a").expect_err("no partitions");
    assert!(error.contains("the configuration has no partitions"), "{error}");
}

#[test]
fn event_managers_of_partitions_with_agents_have_addresses_of_their_own() {
    let node = |name: &str, role: &str, port: u16, agent: &str| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"daq1:{port}\"\n{agent}")
    };
    let agent = "agent = \"daq1:7400\"\n";
    let text = format!(
        "[transport]\nkind = \"tcp\"\n[agents]\nkey_file = \"k\"\n[partition.a]\nnodes = [\"ru0\", \"bu0\"]\n{}{}{}",
        node("evm", "manager", 7000, ""),
        node("ru0", "readout", 7001, agent),
        node("bu0", "builder", 7002, agent)
    );
    let error = Config::parse(&text, "system.toml").expect_err("no address").to_string();
    assert!(error.contains("no address for its event manager"), "{error}");
    let given = text.replace("nodes = [", "manager = \"daq1:7010\"\nnodes = [");
    let config = part(&given, "a").expect("a part");
    assert_eq!(config.node[0].address.as_deref(), Some("daq1:7010"));
}

proptest! {
    /// Whatever is divided, parts without common nodes have no common sources, nothing in them comes from elsewhere, and each is a system.
    #[test]
    fn parts_of_a_system_are_systems_and_do_not_overlap(
        owners in prop::collection::vec((0_usize..4, 0_usize..4), 2..12),
        counts in prop::collection::vec(1_u32..4, 12),
        optional in prop::collection::vec(any::<bool>(), 48),
    ) {
        let (units, total) = (owners.len(), counts[..owners.len()].iter().sum::<u32>());
        let mut text = format!("[readout]\ncount = {units}\n[builder]\ncount = {units}\n[source]\ncount = {total}\n");
        let some: Vec<u32> = (0..total).filter(|source| optional[*source as usize]).collect();
        text += &format!("optional = {some:?}\n[check_fields.x]\nsources = {some:?}\nvalue = \"u32 at 0\"\n");
        for partition in 0..3 {
            let of = |role: &str, pick: fn(&(usize, usize)) -> usize| -> Vec<String> {
                let own = owners.iter().enumerate().filter(|(_, owner)| pick(owner) == partition);
                own.map(|(index, _)| format!("{role}{index}")).collect()
            };
            let (readouts, builders) = (of("ru", |owner| owner.0), of("bu", |owner| owner.1));
            if !readouts.is_empty() && !builders.is_empty() {
                text += &format!("[partition.p{partition}]\nnodes = {:?}\n", [readouts, builders].concat());
            }
        }
        let whole = Config::parse(&text, "system.toml").expect("it is valid");
        let all: BTreeSet<String> = names(&whole).into_iter().collect();
        let all_sources: BTreeSet<u32> = sources(&whole.nodes().expect("a system")).into_iter().collect();
        let (mut nodes_seen, mut sources_seen) = (BTreeSet::new(), BTreeSet::new());
        for parts in whole.partition_parts() {
            let config = part(&text, &parts.name).expect("each part is valid");
            prop_assert_eq!(config.validate(), Ok(()));
            let nodes = config.nodes().expect("a system");
            let own: Vec<_> = nodes.iter().filter(|node| node.id.role != Role::Manager).collect();
            prop_assert_eq!(own.iter().map(|node| node.name.clone()).collect::<Vec<_>>(), parts.nodes.clone());
            prop_assert_eq!(sources(&nodes), parts.sources.iter().map(|source| source.0).collect::<Vec<_>>());
            for name in parts.nodes {
                prop_assert!(all.contains(&name) && nodes_seen.insert(name));
            }
            for source in &parts.sources {
                prop_assert!(all_sources.contains(&source.0) && sources_seen.insert(*source));
            }
            let is_own = |source: &SourceId| parts.sources.contains(source);
            prop_assert!(config.source.optional.iter().all(is_own));
            prop_assert!(config.check_fields.values().all(|field| field.sources.iter().all(is_own)));
            let again = Config::parse(&config.to_toml(), "run.toml");
            prop_assert_eq!(again.as_ref(), Ok(&config));
        }
    }
}
