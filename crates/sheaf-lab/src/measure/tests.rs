use super::*;

fn point(text: &str) -> LabPoint {
    let file = LabFile::parse(text, "lab.toml", "lab", |_| {}).unwrap_or_else(|errors| panic!("{errors}"));
    file.points[0].clone()
}

fn watched(samples: Vec<Sample>, said: Said) -> Watched {
    Watched { began: SystemTime::UNIX_EPOCH, samples, looks: Vec::new(), said }
}

#[test]
fn a_line_carries_its_rate_without_heads_and_gaps_for_as_many_pairs_as_there_are() {
    let line = line_bytes_per_second(&point(
        "[lab]\nmtu_bytes = 1500\nrate_mbps = 1000\nrails = 2\n[readout]\ncount = 3\n[builder]\ncount = 5\n",
    ));
    // 121.9 MB/s of 125 for each of 3 readout units on each of 2 rails.
    assert!((line / 6.0 / 1e6 - 125.0 * 1500.0 / 1538.0).abs() < 1e-6, "{line}");
}

#[test]
fn a_run_without_books_is_not_whole() {
    let point = point("[lab]\nunits = 1\n");
    let watched = watched(Vec::new(), Said::default());
    let result = result(&point, &point.config, watched, 0);
    assert!(!result.is_whole);
    assert_eq!(result.efficiency, 0.0);
}

#[test]
fn a_run_is_placed_among_the_samples_by_when_it_began() {
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    let report = |started_at_ns| Report { seconds: 9.5, started_at_ns, ..Report::default() };
    let eight = Some(Nanos::from_secs(8));
    let placed = span(eight, &report(Some(1_003_000_000_000)), began);
    assert_eq!((placed.start, placed.triggered), (Some(Duration::from_secs(3)), Duration::from_secs(8)));
    // Without an end of its own a run has triggers to the end; one that began before the first sample is not placed.
    let open = span(None, &report(Some(999_000_000_000)), began);
    assert_eq!((open.start, open.triggered), (None, Duration::from_millis(9_500)));
}

#[test]
fn an_event_that_was_dropped_makes_a_run_not_whole() {
    let point = point("[lab]\nunits = 1\n");
    let run = |dropped: serde_json::Value| {
        let run =
            serde_json::json!({ "events_built": 9, "ledger": { "balanced": true, "dropped": dropped } });
        let said = Said { run, errors: Vec::new() };
        result(&point, &point.config, watched(Vec::new(), said), 0)
    };
    assert!(run(serde_json::json!({})).is_whole);
    let torn = run(serde_json::json!({ "timed_out": 1 }));
    assert!(!torn.is_whole);
    assert_eq!(torn.flaws, ["dropped triggers: 1 (timed_out)"]);
}

#[test]
fn a_run_that_is_not_whole_says_why_and_what_helps() {
    let point = point("[lab]\nunits = 1\n");
    let run = serde_json::json!({
        "events_built": 9, "events_incomplete": 2, "ledger": { "balanced": true },
        "counters": { "retried_requests": 231 },
    });
    let said = Said { run, errors: Vec::new() };
    let flaws = result(&point, &point.config, watched(Vec::new(), said), 0).flaws;
    assert_eq!(flaws[0], "incomplete events: 2 of 9");
    assert!(flaws[1].contains("raise builder.request_retry_ms"), "{flaws:?}");
}

#[test]
fn memory_grows_from_the_first_third_to_the_end() {
    let sample = |bytes| Sample { resident_bytes: bytes, ..Sample::default() };
    assert_eq!(memory_growth(&[sample(1), sample(10), sample(12)]), 2);
    assert_eq!(memory_growth(&[]), 0);
}

#[test]
fn memory_that_grows_more_than_it_may_is_an_error() {
    let point = point("[lab]\nunits = 1\n[measure]\nmemory_growth_bytes = 2048\n");
    let sample = |bytes| Sample { resident_bytes: bytes, ..Sample::default() };
    let errors = |last| {
        let samples = vec![sample(0), sample(0), sample(last)];
        result(&point, &point.config, watched(samples, Said::default()), 0).errors
    };
    assert!(errors(2048).is_empty());
    assert_eq!(errors(2049).len(), 1);
}
