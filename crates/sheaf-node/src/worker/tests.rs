use super::*;

fn micros(value: u64) -> Nanos {
    Nanos::from_micros(value)
}

#[test]
fn a_worker_that_mostly_sleeps_is_calm_and_one_that_mostly_works_is_not() {
    let mut rhythm = Rhythm::default();
    assert!(!rhythm.is_calm(), "nothing is known yet");
    for _ in 0..100 {
        rhythm.note(micros(20), micros(180));
    }
    assert!(rhythm.is_calm());
    for _ in 0..100 {
        rhythm.note(micros(180), micros(20));
    }
    assert!(!rhythm.is_calm());
}

#[test]
fn a_long_sleep_is_soon_forgotten_where_work_follows() {
    let mut rhythm = Rhythm::default();
    rhythm.note(micros(10), Nanos::from_secs(100));
    assert!(rhythm.is_calm());
    for _ in 0..20 {
        rhythm.note(micros(300), micros(10));
    }
    assert!(!rhythm.is_calm());
}
