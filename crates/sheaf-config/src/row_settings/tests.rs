//! Settings are read as in a file, or as a text without quotes.

use super::*;

fn with(text: &str, settings: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let settings: Vec<Setting> =
        settings.iter().map(|(key, value)| Setting { key: (*key).into(), value: (*value).into() }).collect();
    Base::read(text, ("run.toml", Files::Refuse))?.with(&settings, |_| {})
}

/// Every value of the default configuration is read back from its text, and most also without quotes.
#[test]
fn a_setting_is_read_as_a_file_has_it() {
    let config = Config::default();
    for (key, value) in config.values() {
        if check_key(&config, &key).is_err() {
            continue;
        }
        for text in [value.as_str(), value.trim_matches('"')].into_iter().filter(|text| !text.is_empty()) {
            let mut changed = config.clone();
            assert!(changed.set(&key, text, Files::Refuse).is_ok(), "{key} = {text}");
            assert_eq!(changed.values().get(&key), Some(&value), "{key} = {text}");
        }
    }
}

#[test]
fn a_setting_counts_as_in_the_file() {
    let config = with(
        "[filter]\nkind = \"busy\"\n",
        &[("filter.busy_us", "20"), ("trigger.mode", "fixed"), ("trigger.rate_hz", "100")],
    );
    let config = config.expect("all is right");
    assert_eq!(config.values()["filter.busy_us"], "20");
    let program = "[programs.tlu]\ncommand = [\"tlu\"]\nsources = [0]\n";
    assert!(check_key(&Config::default(), "programs.tlu.command").is_err());
    let base = Base::read(program, ("run.toml", Files::Refuse));
    assert!(base.is_ok_and(|base| check_key(&base.config, "programs.tlu.command").is_ok()));
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    for (setting, found, right) in [
        (("filter.busi_us", "1"), "no key `filter.busi_us`", "did you mean `filter.busy_us`?"),
        (("filter.busy_us", "-1"), "`filter.busy_us` is -1", "it must be"),
        (("filter.busy_us", "many"), "`filter.busy_us` is many", "it must be"),
        (("run.output", "x"), "the controller keeps its runs in one directory", "in the configuration"),
        (("control.lock_ms", "1"), "about the controller", "in the configuration"),
        (("readout.count", "0"), "`readout.count` is 0", "it must be"),
    ] {
        let errors = with("", &[setting]).expect_err(setting.0);
        let error = &errors.errors()[0];
        assert!(error.found.contains(found) && error.right.contains(right), "{error}");
        assert_eq!(error.key, setting.0);
    }
}

/// A table of each kind that has tables by name can have keys that differ between rows.
#[test]
fn keys_of_every_named_table_can_be_set() {
    let fixed = |named: &&crate::tables::Named| named.path == crate::tables::PARTITIONS;
    for named in crate::tables::NAMED.iter().filter(|named| !fixed(named)) {
        let mut config = Config::default();
        config.add_named_table(named.path, "one");
        for knob in named.table().knobs() {
            let key = format!("{}.one.{}", named.path, knob.key);
            assert!(check_key(&config, &key).is_ok(), "{key}");
            let Some(value) =
                config.table(&format!("{}.one", named.path)).and_then(|table| table.write(knob.key))
            else {
                continue;
            };
            assert!(config.set(&key, &value, Files::Refuse).is_ok(), "{key} = {value}");
        }
    }
}
