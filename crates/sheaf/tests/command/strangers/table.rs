//! Combinations of guise, door and evidence of strangers, and the test of each combination.

use super::ATTACKS;
use sheaf_config::TransportKind;
use sheaf_wire::Role;
use std::collections::BTreeSet;
use std::path::Path;

/// Role that a stranger claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guise {
    Node(Role),
    Processor,
    Consumer,
    /// A program that feeds sources.
    Client,
    /// A trigger supervisor.
    Supervisor,
}

impl Guise {
    /// Returns the role of a node that calls others.
    pub(super) fn caller(self) -> Option<Role> {
        match self {
            Self::Node(role) => Some(role).filter(|role| *role != Role::Manager),
            Self::Processor | Self::Consumer | Self::Client | Self::Supervisor => None,
        }
    }
}

/// Way into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Tcp,
    TcpRails,
    Shm,
    Udp,
    Ethernet,
    Libfabric,
    /// `filter.listen`.
    Farm,
    /// The socket for processors in the run's directory.
    FarmSocket,
    /// `consumers.listen`.
    Consumers,
    /// The socket for consumers in the run's directory.
    ConsumersSocket,
    /// `trigger.network.listen`, over TCP.
    Triggers,
    /// The same over UDP.
    TriggerDatagrams,
    /// `source.feed.listen`.
    Feed,
    /// The socket for programs that feed a readout unit.
    FeedSocket,
}

/// Evidence that a stranger shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    NoKey,
    WrongKey,
    /// Certificate of the authority for another node.
    OthersCertificate,
    /// Bytes that a genuine peer sent a moment ago.
    Recording,
}

/// Test of one combination.
#[derive(Clone, Copy, Debug)]
enum Cell {
    /// One of [`ATTACKS`] tests it in a whole run.
    Tried,
    /// This test function of another crate tests it.
    Elsewhere(&'static str),
    /// It cannot be tested, for this reason.
    Impossible(&'static str),
}

const GUISES: [Guise; 9] = [
    Guise::Node(Role::Manager),
    Guise::Node(Role::Readout),
    Guise::Node(Role::Builder),
    Guise::Node(Role::Output),
    Guise::Node(Role::Mirror),
    Guise::Processor,
    Guise::Consumer,
    Guise::Client,
    Guise::Supervisor,
];

const DOORS: [Door; 14] = [
    Door::Tcp,
    Door::TcpRails,
    Door::Shm,
    Door::Udp,
    Door::Ethernet,
    Door::Libfabric,
    Door::Farm,
    Door::FarmSocket,
    Door::Consumers,
    Door::ConsumersSocket,
    Door::Triggers,
    Door::TriggerDatagrams,
    Door::Feed,
    Door::FeedSocket,
];

const EVIDENCE: [Evidence; 4] =
    [Evidence::NoKey, Evidence::WrongKey, Evidence::OthersCertificate, Evidence::Recording];

/// Returns the doors of nodes with this kind of transport. A new kind does not compile without its doors.
fn doors_of(kind: TransportKind) -> &'static [Door] {
    match kind {
        TransportKind::Memory => &[],
        TransportKind::Tcp => &[Door::Tcp, Door::TcpRails],
        TransportKind::Shm => &[Door::Shm],
        TransportKind::Mixed => &[Door::Tcp, Door::TcpRails, Door::Shm],
        TransportKind::Udp => &[Door::Udp],
        TransportKind::Ethernet => &[Door::Ethernet],
        TransportKind::Libfabric => &[Door::Libfabric],
    }
}

fn cell(guise: Guise, door: Door, evidence: Evidence) -> Cell {
    if guise == Guise::Node(Role::Mirror) {
        return Cell::Impossible("it greets as a readout unit does: see Role::Readout");
    }
    match door {
        Door::Triggers | Door::TriggerDatagrams => at_the_triggers(guise, door, evidence),
        _ if guise == Guise::Supervisor => {
            Cell::Impossible("its first message has another format than that of any other door")
        }
        Door::Feed => at_a_fed_readout(guise, evidence),
        // The kernel identifies the user, as at the other sockets; then each message is checked.
        Door::FeedSocket if guise == Guise::Client => {
            Cell::Elsewhere("each_kind_of_lie_ends_its_own_connection_by_name")
        }
        Door::FeedSocket => Cell::Elsewhere("callers_that_are_not_let_in_are_counted_by_reason"),
        _ if guise == Guise::Client => {
            Cell::Impossible("it greets as a processor does: see Guise::Processor")
        }
        Door::Tcp | Door::TcpRails | Door::Libfabric => at_a_node_over_tcp(guise, door, evidence),
        Door::Udp | Door::Ethernet => at_a_node_over_datagrams(guise, evidence),
        Door::Shm => at_a_node_in_shared_memory(guise, evidence),
        Door::Farm => at_the_farm(guise, evidence),
        Door::Consumers => at_the_consumers(guise, evidence),
        // The kernel identifies the user at the other end; the caller's own statements do not matter.
        Door::FarmSocket => Cell::Elsewhere("callers_that_are_not_let_in_are_counted_by_reason"),
        Door::ConsumersSocket => Cell::Elsewhere("permissions_of_a_runs_files_follow_the_configuration"),
    }
}

fn at_a_node_over_tcp(guise: Guise, door: Door, evidence: Evidence) -> Cell {
    match (guise, evidence) {
        (Guise::Processor | Guise::Consumer, Evidence::NoKey | Evidence::WrongKey) if door == Door::Tcp => {
            Cell::Tried
        }
        (Guise::Processor | Guise::Consumer | Guise::Client | Guise::Supervisor, _) => {
            Cell::Impossible("it is refused for its framing, before any evidence: see Door::Tcp")
        }
        (_, Evidence::OthersCertificate) if door == Door::Libfabric => {
            Cell::Impossible("there is no TLS over libfabric")
        }
        (Guise::Node(Role::Manager), Evidence::Recording) => {
            Cell::Elsewhere("nothing_that_was_heard_proves_anything_again")
        }
        (Guise::Node(_), Evidence::Recording) if door != Door::Tcp => {
            Cell::Elsewhere("what_was_recorded_or_is_sent_back_proves_nothing")
        }
        (Guise::Node(_), _) => Cell::Tried,
    }
}

fn at_a_node_over_datagrams(guise: Guise, evidence: Evidence) -> Cell {
    match (guise, evidence) {
        (Guise::Processor | Guise::Consumer | Guise::Client | Guise::Supervisor, _) => {
            Cell::Impossible("it joins over streams only")
        }
        (_, Evidence::OthersCertificate) => Cell::Impossible("there is no TLS over datagrams"),
        (_, Evidence::Recording) => {
            Cell::Elsewhere("what_was_recorded_changes_nothing_in_this_life_or_a_later_one")
        }
        (_, Evidence::NoKey | Evidence::WrongKey) => Cell::Tried,
    }
}

fn at_a_node_in_shared_memory(guise: Guise, evidence: Evidence) -> Cell {
    match (guise, evidence) {
        (Guise::Processor | Guise::Consumer | Guise::Client | Guise::Supervisor, _) => {
            Cell::Impossible("it joins at a socket of its own, not at that of a node")
        }
        (_, Evidence::OthersCertificate) => Cell::Impossible("there is no TLS within a host"),
        // A greeting proves nothing there: the kernel identifies the user at the other end.
        (_, Evidence::Recording) => Cell::Elsewhere("a_process_of_another_user_is_not_let_in"),
        (_, Evidence::NoKey | Evidence::WrongKey) => Cell::Tried,
    }
}

fn at_the_farm(guise: Guise, evidence: Evidence) -> Cell {
    match (guise, evidence) {
        (Guise::Node(Role::Manager), _) => Cell::Impossible("an event manager calls nobody"),
        (Guise::Processor, _) | (_, Evidence::NoKey | Evidence::WrongKey) => Cell::Tried,
        (Guise::Node(_) | Guise::Consumer | Guise::Client | Guise::Supervisor, _) => Cell::Elsewhere(
            "strangers_nodes_and_other_versions_are_refused_and_half_open_connections_are_cut",
        ),
    }
}

fn at_the_consumers(guise: Guise, evidence: Evidence) -> Cell {
    match (guise, evidence) {
        (Guise::Node(Role::Manager), _) => Cell::Impossible("an event manager calls nobody"),
        (_, Evidence::OthersCertificate) => Cell::Impossible("there is no TLS at this door"),
        (Guise::Consumer, _) | (_, Evidence::NoKey | Evidence::WrongKey) => Cell::Tried,
        (_, Evidence::Recording) => {
            Cell::Impossible("nobody but a consumer is ever let in there to be recorded")
        }
    }
}

fn at_the_triggers(guise: Guise, door: Door, evidence: Evidence) -> Cell {
    match (guise, evidence) {
        (_, Evidence::OthersCertificate) if door == Door::TriggerDatagrams => {
            Cell::Impossible("there is no TLS over datagrams")
        }
        (Guise::Supervisor, Evidence::NoKey | Evidence::WrongKey) => {
            Cell::Elsewhere("supervisors_without_the_key_of_the_run_give_no_trigger")
        }
        (Guise::Supervisor, Evidence::OthersCertificate) => {
            Cell::Elsewhere("a_supervisor_needs_a_certificate_of_its_own")
        }
        (Guise::Supervisor, Evidence::Recording) if door == Door::Triggers => {
            Cell::Elsewhere("the_messages_of_a_supervisor_prove_nothing_again")
        }
        (Guise::Supervisor, Evidence::Recording) => {
            Cell::Elsewhere("without_the_key_nobody_is_welcome_and_a_recording_proves_nothing")
        }
        // They are refused for their format, before any evidence.
        _ if door == Door::Triggers => Cell::Elsewhere(
            "a_supervisor_that_dies_is_waited_for_strangers_are_refused_and_ctrl_c_ends_the_run",
        ),
        _ => Cell::Elsewhere("datagrams_of_strangers_are_counted_and_answered_with_nothing"),
    }
}

fn at_a_fed_readout(guise: Guise, evidence: Evidence) -> Cell {
    match (guise, evidence) {
        (Guise::Node(Role::Manager), _) => Cell::Impossible("an event manager calls nobody"),
        (Guise::Client, Evidence::NoKey | Evidence::WrongKey) => {
            Cell::Elsewhere("programs_of_other_hosts_need_the_key_of_the_run")
        }
        (Guise::Client, Evidence::OthersCertificate) => {
            Cell::Elsewhere("with_certificates_guests_prove_to_be_of_the_system")
        }
        (Guise::Client, Evidence::Recording) => {
            Cell::Elsewhere("what_was_recorded_or_is_sent_back_proves_nothing")
        }
        (Guise::Node(_) | Guise::Processor | Guise::Consumer | Guise::Supervisor, _) => Cell::Elsewhere(
            "strangers_nodes_and_other_versions_are_refused_and_half_open_connections_are_cut",
        ),
    }
}

/// Guises in which a whole run is attacked.
pub(super) fn tried(door: Door, evidence: Evidence) -> Vec<Guise> {
    let is_tried = |guise: &Guise| matches!(cell(*guise, door, evidence), Cell::Tried);
    GUISES.into_iter().filter(is_tried).collect()
}

/// Returns the counter of refused strangers; `None` if the stranger reaches no node that could refuse it.
pub(super) fn counter(guise: Guise, door: Door, evidence: Evidence) -> Option<&'static str> {
    match (door, guise) {
        // The node whose greeting is replayed has a live link.
        (Door::Tcp, _) if evidence == Evidence::Recording => Some("refused_links"),
        (Door::Farm, _) => Some("farm_callers_refused"),
        (Door::Consumers, _) => Some("consumers_wrong_key"),
        (Door::Tcp | Door::TcpRails | Door::Libfabric, Guise::Node(Role::Manager)) | (Door::Shm, _) => None,
        (_, Guise::Processor | Guise::Consumer | Guise::Client | Guise::Supervisor) => Some("refused_links"),
        _ => Some("unproven_links"),
    }
}

fn is_here(door: Door) -> bool {
    door != Door::Libfabric || cfg!(feature = "libfabric")
}

#[test]
fn every_role_door_and_evidence_has_a_test() {
    let mut elsewhere = BTreeSet::new();
    for door in DOORS.into_iter().filter(|door| is_here(*door)) {
        for evidence in EVIDENCE {
            for guise in GUISES {
                match cell(guise, door, evidence) {
                    Cell::Tried => {}
                    Cell::Elsewhere(test) => {
                        elsewhere.insert(test);
                    }
                    Cell::Impossible(why) => assert!(!why.is_empty()),
                }
            }
            let (is_needed, is_made) =
                (!tried(door, evidence).is_empty(), ATTACKS.contains(&(door, evidence)));
            assert_eq!(is_needed, is_made, "a test with {evidence:?} at {door:?}");
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    remove_found(crates, &mut elsewhere);
    assert_eq!(elsewhere, BTreeSet::new(), "tests that are nowhere");
}

#[test]
fn the_table_has_every_role_and_every_transport() {
    let roles: Vec<_> = (0..=u8::MAX).filter_map(Role::from_code).collect();
    let of_table = |role: &Role| GUISES.contains(&Guise::Node(*role));
    assert!(roles.iter().all(of_table), "{roles:?}");
    for kind in TransportKind::ALL {
        assert!(doors_of(*kind).iter().all(|door| DOORS.contains(door)), "{kind:?}");
    }
}

/// Removes the tests that are in the Rust files below a folder.
fn remove_found(folder: &Path, tests: &mut BTreeSet<&str>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            remove_found(&path, tests);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            tests.retain(|test| !text.contains(&format!("fn {test}(")));
        }
    }
}
