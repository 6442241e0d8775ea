use super::*;
use proptest::prelude::*;
use sheaf_config::ConfigErrors;

fn detector(buffers: u32, parts: u32, group: u32) -> Detector {
    Detector { name: "d".into(), buffers, parts, group, fragment_bytes: 100.0 }
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1.0)
}

/// A description with one detector of 32 buffers and one request.
fn small(group: u32, region: Region) -> Description {
    Description {
        name: "small".into(),
        about: "for tests".into(),
        messages: Messages { request_bytes: 10.0, head_bytes: 20.0 },
        decisions: Decisions { rate_hz: 1000.0, per_message: 10.0 },
        building_hz: 5.0,
        limits: Limits { port_rate_hz: 1e9, port_bytes_per_second: 1e9 },
        detectors: vec![detector(32, 1, group)],
        requests: vec![Request { name: "r".into(), detector: 0, rate_hz: 7.0, region, kept: 1.0 }],
    }
}

proptest! {
    /// Every place of the region on the ring, counted one by one.
    #[test]
    fn neighbours_touch_as_many_groups_as_counting_says(groups in 1_u32..9, size in 1_u32..9, buffers in 1_u32..72) {
        let all = groups * size;
        let buffers = buffers.min(all);
        let counted: usize = (0..all)
            .map(|start| {
                let hit: std::collections::BTreeSet<u32> =
                    (start..start + buffers).map(|buffer| buffer % all / size).collect();
                hit.len()
            })
            .sum();
        let parts = Parts::of(&detector(all, 1, size));
        let mean = parts.touched(Region::Neighbours(f64::from(buffers)));
        prop_assert!(close(mean, counted as f64 / f64::from(all)), "{mean} of {counted}");
    }

    /// Every choice of buffers, counted one by one.
    #[test]
    fn scattered_buffers_touch_as_many_groups_as_counting_says(all in 1_u32..13, size in 1_u32..13, drawn in 1_u32..13) {
        let drawn = drawn.min(all);
        let (groups, mut hits, mut choices) = (all.div_ceil(size), 0_u32, 0_u32);
        // The larger groups come first, as they are dealt.
        let group_of = |buffer: u32| {
            let (least, larger) = (all / groups, all % groups);
            let in_larger = larger * (least + 1);
            if buffer < in_larger { buffer / (least + 1) } else { larger + (buffer - in_larger) / least }
        };
        for choice in 0_u32..1 << all {
            if choice.count_ones() == drawn {
                let hit: std::collections::BTreeSet<u32> =
                    (0..all).filter(|buffer| choice >> buffer & 1 == 1).map(group_of).collect();
                hits += u32::try_from(hit.len()).unwrap();
                choices += 1;
            }
        }
        let mean = Parts::of(&detector(all, 1, size)).touched(Region::Scattered(f64::from(drawn)));
        prop_assert!(close(mean, f64::from(hits) / f64::from(choices)), "{mean}, {hits} of {choices}");
    }

    #[test]
    fn no_region_touches_more_groups_than_there_are_or_than_it_has_buffers(
        buffers in 1_u32..400, parts in 1_u32..20, group in 1_u32..40, asked in 1.0_f64..400.0, scattered: bool,
    ) {
        let detector = detector(buffers, parts.min(buffers), group);
        let parts = Parts::of(&detector);
        let most = if scattered { buffers } else { buffers / detector.parts };
        let asked = asked.min(f64::from(most));
        let region = if scattered { Region::Scattered(asked) } else { Region::Neighbours(asked) };
        let touched = parts.touched(region);
        prop_assert!(touched <= f64::from(parts.groups()) * (1.0 + 1e-9));
        prop_assert!(touched <= asked * (1.0 + 1e-9));
        prop_assert!(touched >= 1.0 - 1e-9);
    }

    #[test]
    fn groups_of_one_buffer_change_nothing(asked in 1.0_f64..32.0, scattered: bool) {
        let region = if scattered { Region::Scattered(asked) } else { Region::Neighbours(asked) };
        let report = small(1, region).evaluate();
        prop_assert!(close(report.factors.ports, 1.0));
        prop_assert!(close(report.factors.messages, 1.0));
        prop_assert!(close(report.factors.bytes, 1.0));
    }

    #[test]
    fn any_text_is_a_description_or_has_errors(text in ".{0,200}") {
        let _ = Description::parse(&text, "any.toml");
    }
}

#[test]
fn a_small_case_is_as_by_hand() {
    let report = small(16, Region::All).evaluate();
    // 32 ports; 7 requests a second of all of them, with their answers; 100 messages of decisions a second to each.
    assert_eq!(report.alone.ports, 32);
    assert!(close(report.alone.messages_per_second, 7.0 * 64.0 + 32.0 * 100.0));
    assert!(close(report.alone.bytes_per_second, 7.0 * 32.0 * 130.0 + 32.0 * 100.0 * 10.0));
    assert_eq!(report.grouped.ports, 2);
    assert!(close(report.grouped.messages_per_second, 7.0 * 4.0 + 200.0));
    assert!(close(report.grouped.bytes_per_second, 7.0 * (2.0 * 30.0 + 3200.0) + 2000.0));
    assert!(close(report.grouped.building_bytes_per_second, 5.0 * (2.0 * 30.0 + 3200.0)));
    let [detector] = &report.detectors[..] else { panic!("one detector") };
    assert!(close(detector.port_rate_hz, 7.0));
    assert!(close(detector.port_bytes_per_second, 7.0 * (20.0 + 1600.0)));
    assert!(close(detector.port_bytes_per_second_with_building, 12.0 * (20.0 + 1600.0)));
}

/// The document's conclusions (section A.1): ports / 11.4, messages / 4.3, within 15 kHz and 20 MB/s for the trigger, and
/// too much where whole events pass the same ports uncompacted.
#[test]
fn the_shipped_description_comes_to_the_conclusions_of_the_document() {
    let report = SHIPPED[0].parse().unwrap().evaluate();
    assert!((report.factors.ports - 11.4).abs() < 0.1, "ports / {}", report.factors.ports);
    assert!((report.factors.messages - 4.3).abs() < 0.1, "messages / {}", report.factors.messages);
    let within: Vec<(bool, bool)> = report.detectors.iter().map(|it| it.within(report.limits)).collect();
    assert!(within.iter().all(|(trigger, _)| *trigger), "{report}");
    assert!(within.iter().any(|(_, with_building)| !with_building), "{report}");
}

#[test]
fn every_file_of_the_directory_ships() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/model");
    let stem = |path: std::path::PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<String> =
        std::fs::read_dir(&directory).unwrap().map(|entry| stem(entry.unwrap().path())).collect();
    files.sort();
    let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
    assert_eq!(files, names);
}

/// Returns the errors in the shipped text with one piece replaced.
fn errors_with(old: &str, new: &str) -> ConfigErrors {
    let text = SHIPPED[0].text;
    assert!(text.contains(old), "{old}");
    Description::parse(&text.replacen(old, new, 1), "changed.toml").unwrap_err()
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_would_be_right() {
    let cases = [
        ("detector = \"pixel\"", "detector = \"pixl\"", "did you mean \"pixel\"?"),
        ("buffers = 5\n", "buffers = 177\n", "a number from 1 to 176"),
        ("buffers = 5\n", "", "`buffers = N`"),
        ("region = \"all\"", "region = \"all\"\nbuffers = 3", "remove `buffers`"),
        ("buffers = 80", "buffers = 80.5", "an integer from 1 to 1000000"),
        ("buffers = 80", "buffers = nan", "a number from 1 to 1000000"),
        ("name = \"silicon strips\"", "name = \"pixel\"", "each name once"),
        ("kept = 0.5", "kpet = 0.5", "docs/concepts/paper-model.md"),
        ("parts = 2", "parts = 81", "a number from 1 to 80"),
        ("group = 10", "group = 17", "a number from 1 to 16"),
    ];
    for (old, new, right) in cases {
        let errors = errors_with(old, new);
        let text = errors.to_string();
        assert!(text.contains(right), "{new}: {text}");
        assert!(errors.errors()[0].line().is_some(), "{new}: {text}");
    }
}
