use super::*;
use crate::channel::ChannelTimes;
use crate::standby::{StandbyTimes, Step};
use sheaf_wire::RunNumber;

const NOW: Timestamp = Timestamp(1_000);

fn identity(index: u16, session: u64) -> Identity {
    Identity { node: NodeId::manager(index), run: RunNumber(1), session: SessionId(session) }
}

fn pair(me: Identity) -> Pair<Bytes> {
    let time = Nanos::from_secs(1);
    let config = StandbyConfig {
        voters: vec![NodeId::readout(0)],
        nodes: vec![NodeId::readout(0), NodeId::builder(0)],
        times: StandbyTimes { suspicion: time, lag: time, start: time, quorum: time },
        rounds_per_digest: 1_024,
        channel: ChannelTimes { retransmit: time, acknowledge: time },
    };
    Pair::new(me, config, NOW)
}

/// Returns the first message with inputs of the replica that begins the run in this session.
fn first_inputs(session: u64) -> Message<Bytes> {
    let round = Input::Round { now: Timestamp(session), stall: Nanos::ZERO };
    let mut message = identity(0, session).plain(Body::Inputs(vec![round]));
    message.header.sequence = 1;
    message
}

#[test]
fn a_standby_does_not_repeat_inputs_of_an_event_manager_that_was_started_again() {
    let mut standby = pair(identity(1, 5));
    standby.handle_link(NOW, NodeId::MANAGER, LinkStatus::Up);
    standby.handle_message(NOW, NodeId::MANAGER, first_inputs(7));
    assert!(matches!(standby.poll_step(), Some(Step::Round(round)) if round.now == Timestamp(7)));
    // It takes itself for the first one of the run, until the voters tell it otherwise.
    standby.handle_message(NOW, NodeId::MANAGER, first_inputs(8));
    assert!(standby.poll_step().is_none());
    assert_eq!(standby.manager_session(), Some(SessionId(7)));
    assert_eq!(standby.is_other_up, Some(false), "the one that it follows has ended");
}

#[test]
fn an_event_manager_whose_run_has_begun_before_does_not_begin_it_again() {
    let retired = |standby: &mut Pair<Bytes>| {
        std::iter::from_fn(|| standby.poll_event())
            .any(|event| event == PairEvent::Retired(Retirement::RunExists))
    };
    let mut alone = pair(identity(0, 5));
    alone.only_join();
    alone.handle_timeout(NOW);
    assert!(!retired(&mut alone), "the other one may answer");
    alone.handle_timeout(NOW + Nanos::from_secs(1));
    assert!(retired(&mut alone));
    // The other one waits for the first message of a run as well.
    let mut both = pair(identity(0, 5));
    both.only_join();
    both.handle_message(NOW, NodeId::manager(1), identity(1, 6).plain(Body::Acknowledge));
    assert!(retired(&mut both));
    // A higher term: the other one acts.
    let mut joins = pair(identity(0, 5));
    joins.only_join();
    let mut message = identity(1, 6).plain(Body::Acknowledge);
    message.header.term = Term(3);
    joins.handle_message(NOW, NodeId::manager(1), message);
    joins.handle_timeout(NOW);
    assert!(!retired(&mut joins) && !joins.is_active());
}
