use super::*;
use proptest::prelude::*;

/// A switch that loses where the credit is more than it holds.
fn lossy_above(buffer: u64) -> impl FnMut(u64) -> Result<Option<Trial>, ()> {
    move |credit| {
        Ok(Some(Trial {
            credit_bytes: credit,
            port_drops: u64::from(credit > buffer),
            port_backlog_bytes: credit.min(buffer),
            efficiency: 0.9,
            limited_by: None,
            is_whole: true,
        }))
    }
}

proptest! {
    #[test]
    fn the_place_where_loss_begins_is_enclosed(buffer in FIRST_CREDIT..LARGEST_CREDIT) {
        let trials = search(lossy_above(buffer)).expect("no trial fails");
        let found = found("x", trials, 1.0, 1e9, buffer);
        let (low, high) = (found.lossless_credit_bytes.unwrap_or(0), found.lossy_credit_bytes.unwrap_or(0));
        prop_assert!(low <= buffer && buffer < high, "{low} {buffer} {high}");
        prop_assert!(is_near(low, high));
        prop_assert!(found.trials.len() < 30, "a search by halves is short");
        let estimate = found.estimate_bytes.unwrap_or(0.0);
        prop_assert!((estimate / buffer as f64 - 1.0).abs() < 0.07, "{estimate} for {buffer}");
    }
}

#[test]
fn where_nothing_is_lost_nothing_is_estimated() {
    let trials = search(lossy_above(u64::MAX)).expect("no trial fails");
    let found = found("x", trials, 1.0, 4.0, 1 << 16);
    assert_eq!(found.estimate_bytes, None);
    assert!(found.to_string().contains("nothing was lost"), "{found}");
}

#[test]
fn a_search_that_is_stopped_has_what_it_has() {
    let mut left = 2;
    let mut switch = lossy_above(1 << 20);
    let trials = search(|credit| {
        left -= 1;
        if left < 0 { Ok(None) } else { switch(credit) }
    });
    assert_eq!(trials.expect("no trial fails").len(), 2);
}

#[test]
fn while_many_lines_fill_an_output_one_empties_it() {
    let trials = search(lossy_above(100_000)).expect("no trial fails");
    let estimate = |senders| found("x", trials.clone(), 1.0, senders, 0).estimate_bytes.unwrap_or(0.0);
    assert!((estimate(2.0) / estimate(1e9) - 0.5).abs() < 1e-6);
}

#[test]
fn the_picture_shows_estimate_and_truth() {
    let trials = search(lossy_above(65_536)).expect("no trial fails");
    let svg = found("x", trials, 1.0, 16.0, 65_536).picture("sheaf lab buffer x").expect("it can be drawn");
    assert!(svg.contains("estimate") && svg.contains("configured") && svg.contains("sheaf lab buffer x"));
}
