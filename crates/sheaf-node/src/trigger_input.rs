//! The event manager's end of the link to a trigger supervisor, whichever way the messages go.

use bytes::Bytes;
use sheaf_protocol::manager::EventManager;
use sheaf_protocol::trigger_link::{LinkReport, Receiver, ReceiverEvent, Room};
use sheaf_wire::trigger_link::{Phase, Trigger};
use sheaf_wire::{TimeBase, Timestamp};

/// The state of the link after a round of the event manager.
#[derive(Clone, Debug, Default)]
pub struct LinkState {
    /// Number of triggers taken.
    pub taken: usize,
    /// Events of the receiver.
    pub events: Vec<ReceiverEvent>,
    /// Whether a supervisor is connected.
    pub has_supervisor: bool,
    /// Whether the supervisor may send more triggers.
    pub expects_triggers: bool,
    /// Whether nothing more is awaited of the supervisor.
    pub is_settled: bool,
}

/// Source of the triggers of a supervisor.
pub trait TriggerInput: Send {
    /// Gives at most `most` triggers that have arrived to the event manager, and states its phase and room.
    fn exchange(
        &mut self,
        now: Timestamp,
        phase: Phase,
        role: &mut EventManager<Bytes>,
        most: usize,
    ) -> LinkState;

    /// Returns when the event manager must look again at the latest.
    fn poll_timeout(&self) -> Option<Timestamp>;

    /// Returns the account of the run.
    fn report(&self, now: Timestamp) -> LinkReport;

    /// Returns the address at which it waits for a supervisor, for the operator.
    fn address(&self) -> String;
}

/// A receiver and its connections.
pub trait TriggerLink {
    /// Returns the receiver.
    fn receiver(&mut self) -> &mut Receiver;

    /// Sends what is due.
    fn transmit(&mut self, now: Timestamp);

    /// Returns whether everything was sent.
    fn is_flushed(&self) -> bool;

    /// Takes a trigger that has become an event.
    fn take(&mut self, trigger: Trigger, time: Timestamp);

    /// Takes note that no more triggers become events.
    fn end(&mut self);

    /// Returns unit and epoch of the times of triggers.
    fn time_base(&self) -> TimeBase;

    /// Returns the room in a buffer of its own.
    fn room(&self) -> Option<Room>;
}

/// Does the work of [`TriggerInput::exchange`] with a link.
pub fn exchange(
    link: &mut impl TriggerLink,
    now: Timestamp,
    phase: Phase,
    role: &mut EventManager<Bytes>,
    most: usize,
) -> LinkState {
    let mut taken = 0;
    // Busy was sent since the last round, and the next trigger may be the last of the run, whose time then ends.
    role.handle_turns(link.receiver());
    // Triggers behind the last one of a run that hands over are those of the next run: they wait.
    while taken < most
        && (role.takes_triggers() || !role.hands_over())
        && let Some(trigger) = link.receiver().poll_trigger()
    {
        let time = match trigger.time {
            Timestamp::ZERO => link.time_base().at_system_time(now),
            time => time,
        };
        let is_event = role.handle_external_trigger(now, trigger.id, time, trigger.kind).is_ok();
        link.receiver().handle_taken(is_event);
        if is_event {
            link.take(trigger, time);
        }
        taken += 1;
    }
    link.receiver().handle_phase(phase);
    if phase == Phase::Ended {
        link.end();
    }
    link.receiver().handle_pause(now, role.pause_reason());
    let room = link.room();
    link.receiver().handle_rooms(now, role.rooms(now).chain(room));
    link.transmit(now);
    let is_flushed = link.is_flushed();
    let receiver = link.receiver();
    role.handle_turns(receiver);
    LinkState {
        taken,
        events: std::iter::from_fn(|| receiver.poll_event()).collect(),
        has_supervisor: receiver.has_supervisor(),
        expects_triggers: receiver.expects_triggers(),
        is_settled: is_flushed && receiver.is_settled(),
    }
}
