//! Names of sources, and lists of sources in files.

use sheaf_config::{Config, ConfigErrors};
use sheaf_wire::SourceId;
use std::path::{Path, PathBuf};

/// A configuration and files beside it.
struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        for (name, text) in files {
            std::fs::write(place.path(name), text).expect("written");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Reads a configuration, in which `DIR` stands for the directory.
    fn load(&self, text: &str) -> Result<Config, ConfigErrors> {
        let path = self.path("run.toml");
        std::fs::write(&path, text.replace("DIR", &self.0.path().display().to_string())).expect("written");
        Config::load(&path)
    }

    /// Returns the only message about a configuration, with `DIR` for the directory.
    fn wrong(&self, text: &str) -> String {
        let errors = self.load(text).expect_err("wrong");
        assert_eq!(errors.errors().len(), 1, "{errors}");
        errors.to_string().replace(&self.0.path().display().to_string(), "DIR")
    }
}

fn ids(numbers: &[u32]) -> Vec<SourceId> {
    numbers.iter().copied().map(SourceId).collect()
}

const MAP: &str = "source,name,group\n7,left,barrel\n8,right,barrel;end\n808432835,DU3-DOM7,end\n";

const MAPPED: &str = "[readout]\ncount = 1\n[source]\nids = [7, 8, 0x302FB4C3]\nmap = \"DIR/map.csv\"\n";

#[test]
fn names_of_a_map_stand_for_sources_in_lists_and_single_values() {
    let place = Place::new(&[("map.csv", MAP)]);
    let text = format!(
        "{MAPPED}optional = [\"DU3-DOM7\", 7]\n[trigger]\nmode = \"source\"\nsource = \"right\"\n\
         [source.emulated]\nfaulty_source = \"0x8\"\n"
    );
    let config = place.load(&text).expect("written");
    assert_eq!(config, place.load(&text.replace("0x302FB4C3", "\"DU3-DOM7\"")).unwrap());
    assert_eq!(config.source.ids, ids(&[7, 8, 808_432_835]));
    assert_eq!(config.source.optional, ids(&[808_432_835, 7]));
    assert_eq!(config.trigger.source, Some(SourceId(8)));
    assert_eq!(config.source.emulated.faulty_source, Some(SourceId(8)));
    assert_eq!(config.names.get(SourceId(8)), Some("right"));
    assert_eq!(config.groups["end"].sources, ids(&[8, 808_432_835]));
    let alone = Config::parse(&config.to_toml(), "written.toml").unwrap();
    assert_eq!(alone, config, "a written configuration needs no other file");
}

#[test]
fn lists_may_be_in_files() {
    let list = "# string 1\n7\n 0x10-0x12 # three\n\nleft one # names too\nDOM #3\n";
    let place = Place::new(&[("list.txt", list)]);
    let names = "[source.names]\n1 = \"left one\"\n0x2 = \"DOM #3\"\n";
    let config = place.load(&format!("[source]\nids = \"@DIR/list.txt\"\n{names}")).unwrap();
    assert_eq!(config.source.ids, ids(&[7, 16, 17, 18, 1, 2]));
    let config =
        place.load(&format!("[source]\nids = [\"0-20\", \"!@DIR/list.txt\", 21, \"99\"]\n{names}")).unwrap();
    assert_eq!(config.source.ids.len(), 21 - 6 + 2);
}

#[test]
fn an_error_in_a_list_names_its_file_and_line() {
    let place = Place::new(&[("list.txt", "1-4\nleft\n"), ("twice.txt", "10-19\n3\n12 # again\n")]);
    assert_eq!(
        place.wrong("[source]\nids = [\"@DIR/list.txt\"]\n"),
        "error: \"left\" is no id, no range of ids and no name of a source\n  --> DIR/list.txt:2:1\n   |\n 2 | left\n   | ^^^^\n   \
         = help: write ids and ranges such as `10-19`; names need a `source.map`, or [source.names]"
    );
    let twice = place.wrong("[source]\nids = [\"@DIR/twice.txt\"]\n");
    assert!(twice.contains("source 12 is also in line 1\n  --> DIR/twice.txt:3:1\n"), "{twice}");
    let absent = place.wrong("[source]\nids = [1, \"@DIR/absent.txt\"]\n");
    assert!(absent.contains("cannot read DIR/absent.txt, a list of sources: No such file"), "{absent}");
    assert!(absent.contains("run.toml:2:7"), "{absent}");
    let directory = place.wrong("[source]\nids = [\"@DIR\"]\n");
    assert!(directory.contains("it is a directory, not a regular file"), "{directory}");
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_one() {
    let place = Place::new(&[("map.csv", MAP)]);
    let text = place.wrong(&format!("{MAPPED}optional = [\"letf\"]\n"));
    assert!(text.contains("\"letf\" is no id, no range of ids and no name of a source"), "{text}");
    assert!(text.contains("run.toml:6:12") && text.contains("did you mean \"left\"?"), "{text}");
}

#[test]
fn an_error_in_a_map_names_its_file_and_line() {
    let place = Place::new(&[("map.csv", "source,name\n7,left\n8,left\n")]);
    assert_eq!(
        place.wrong("[source]\nmap = \"DIR/map.csv\"\n"),
        "error: source 7 is also named \"left\"\n  --> DIR/map.csv:3:3\n   |\n 3 | 8,left\n   |   ^^^^\n   = help: write a name that no \
         other source has, of 1 to 64 bytes that can be printed"
    );
    // Names are then not known, and nothing is said of them.
    let absent = place.wrong("[source]\nmap = \"DIR/other.csv\"\nids = [\"left\", 2]\n");
    assert!(absent.contains("cannot read DIR/other.csv, the source map: No such file"), "{absent}");
}

#[test]
fn a_group_of_the_map_that_is_written_too_is_a_conflict() {
    let place = Place::new(&[("map.csv", MAP)]);
    let text = place.wrong(&format!("{MAPPED}[groups.end]\nsources = [7]\n"));
    assert!(text.contains("the group \"end\" is in the source map, and in [groups.end]"), "{text}");
    assert!(text.contains("run.toml:6:9"), "{text}");
}

#[test]
fn names_in_the_configuration_are_checked_like_those_of_a_map() {
    let place = Place::new(&[("map.csv", MAP)]);
    for (table, found) in [
        ("left = 7", "`left` is not the id of a source"),
        ("1-4 = \"left\"", "`1-4` is not the id of a source"),
        ("7 = 8", "the name of source 7 is an integer"),
        ("7 = \"a\\u0007\"", "the name has the control character"),
        ("1 = \"a\"\n2 = \"a\"", "source 1 is also named \"a\""),
    ] {
        let text = place.wrong(&format!("[source.names]\n{table}\n"));
        assert!(text.contains(found), "{text}");
    }
    let text = place.wrong(&format!("{MAPPED}[source.names]\n7 = \"other\"\n"));
    assert!(text.contains("source 7 is already named \"left\""), "{text}");
    let text = place.wrong("[source]\nnames = 3\n");
    assert!(text.contains("`source.names` is an integer, not a table"), "{text}");
}

#[test]
fn errors_of_the_configuration_have_names() {
    let place = Place::new(&[("map.csv", MAP)]);
    let text = place.wrong(
        &format!("{MAPPED}[trigger]\nmode = \"source\"\nsource = 808432835\n").replace("0x302FB4C3", "9"),
    );
    assert!(text.contains("the reference source 808432835 (DU3-DOM7) does not exist"), "{text}");
}

#[test]
fn a_text_from_elsewhere_reads_no_files() {
    let place = Place::new(&[("map.csv", MAP), ("list.txt", "1-4\n")]);
    for text in ["[source]\nmap = \"DIR/map.csv\"\n", "[source]\nids = \"@DIR/list.txt\"\n"] {
        let text = text.replace("DIR", &place.0.path().display().to_string());
        let errors = Config::parse(&text, "received").unwrap_err().to_string();
        assert!(errors.contains("this configuration is a text without files"), "{errors}");
    }
    assert!(Path::new(&place.path("map.csv")).exists());
}

#[test]
fn a_short_file_has_what_other_settings_need() {
    let front_end = "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"streams\"\n[source.timed]\nfront_end = \"vmm3a\"\n";
    let kind = "[source]\nkind = \"emulated\"\nbuild_by = \"time\"\n[source.timed]\nfront_end = \"hits\"\nslice_us = 7\n";
    for text in [front_end, kind] {
        let config = Config::parse(text, "test.toml").unwrap();
        let short = config.to_short_toml();
        assert_eq!(Config::parse(&short, "short.toml"), Ok(config), "{short}");
        assert!(short.len() < 200, "{short}");
    }
}
