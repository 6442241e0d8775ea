//! The checker can fail: what is broken on purpose is noticed, and named.

use sheaf_swarm::cluster::Sabotage;
use sheaf_swarm::{Cluster, Options};

#[test]
fn nothing_broken_is_nothing_noticed() {
    assert!(Cluster::new(Options::default()).finish().is_ok());
}

#[test]
fn a_write_that_did_not_happen_is_noticed() {
    expect(Sabotage::ForgetWrite, "its disk has");
}

#[test]
fn an_event_stored_twice_is_noticed() {
    expect(Sabotage::WriteTwice, "counts in");
}

#[test]
fn a_fragment_that_changed_on_disk_is_noticed() {
    expect(Sabotage::FlipTag, "on the disk of");
}

#[test]
fn an_event_that_a_stream_lacks_is_noticed() {
    expect(Sabotage::ForgetStream, "stream default of");
}

#[test]
fn a_release_that_says_nothing_is_noticed() {
    expect(Sabotage::ForgetRelease, "fragments stored at readout units");
}

#[test]
fn a_fragment_lost_on_the_way_is_noticed() {
    expect(Sabotage::LoseFragment, "is neither there nor missing");
}

#[test]
fn fragments_in_the_wrong_event_are_noticed() {
    expect(Sabotage::SwapEvents, "the fragment of source");
}

#[test]
fn a_wrong_count_of_fragments_is_noticed() {
    expect(Sabotage::LieAboutFragments, "on disk it has");
}

#[test]
fn a_fence_that_never_comes_is_noticed_as_a_run_that_does_not_end() {
    let failure = expect(Sabotage::NeverFence, "the run does not end");
    assert!(failure.contains("bu1/1: finished false"), "it says who waits: {failure}");
}

/// Runs with something broken, and expects to read of it.
fn expect(sabotage: Sabotage, words: &str) -> String {
    let mut options = Options::default();
    // A builder is given up in the middle, so that sessions and fences matter, too.
    let stall = sheaf_swarm::options::FaultKind::Stall {
        node: sheaf_wire::NodeId::builder(1),
        lasts: sheaf_wire::Nanos::from_millis(100),
    };
    options.faults.push(sheaf_swarm::options::Fault { at: sheaf_wire::Timestamp(2_000_000), kind: stall });
    let mut cluster = Cluster::new(options);
    cluster.sabotage(sabotage);
    let failure = cluster.finish().expect_err("what is broken on purpose is noticed");
    let text = sheaf_swarm::violation::list(&failure.violations);
    assert!(text.contains(words), "expected \"{words}\" in:\n{text}");
    text
}
