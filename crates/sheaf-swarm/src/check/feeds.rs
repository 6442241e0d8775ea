//! Sources that programs feed: each fragment that a program made, followed to the readout unit that accepted it.

use crate::violation::{Violation, violation};
use sheaf_protocol::feed::ClientId;
use sheaf_wire::feed::{Progress, Refusal};
use sheaf_wire::message::{Body, Header, Message};
use sheaf_wire::{NodeId, SourceId};
use std::collections::{BTreeMap, BTreeSet};

/// A fragment that a readout unit has accepted.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// Its source.
    pub source: SourceId,
    /// Its number among all fragments that the source has made.
    pub serial: u64,
    /// Whether its program keeps fragments until they are accepted.
    pub keeps: bool,
}

/// One source.
#[derive(Clone, Copy, Debug, Default)]
struct FedSource {
    /// Number accepted in the current life of the readout unit.
    accepted: u64,
    /// Serial number after the last accepted one of this life.
    next: Option<u64>,
    /// Serial number after the highest one ever accepted.
    ever: u64,
    /// Number of fragments made when a connection ended last.
    ended_at: u64,
}

/// Records of all fed sources.
#[derive(Clone, Debug, Default)]
pub struct FeedRecord {
    sources: BTreeMap<SourceId, FedSource>,
    readouts: BTreeMap<SourceId, NodeId>,
    /// Readout units that have declined the start of the run.
    pub(crate) declined: BTreeSet<NodeId>,
    /// Number of refused connections, by reason.
    pub refused: BTreeMap<Refusal, u64>,
}

impl FeedRecord {
    /// Records the begin of a readout unit's life, which has received nothing.
    pub(crate) fn begin(&mut self, node: NodeId) {
        for (source, fed) in &mut self.sources {
            if self.readouts.get(source) == Some(&node) {
                (fed.accepted, fed.next) = (0, None);
            }
        }
    }

    /// Records the end of a connection of a program that had made this many fragments.
    pub(crate) fn note_end(&mut self, source: SourceId, made: u64) {
        self.sources.entry(source).or_default().ended_at = made;
    }

    pub(crate) fn note_refusal(&mut self, _client: ClientId, refusal: Refusal) {
        *self.refused.entry(refusal).or_default() += 1;
    }

    /// Records an accepted fragment. `progress` is what the readout unit knows of its source.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_accepted(
        &mut self,
        node: NodeId,
        accepted: Accepted,
        progress: Option<&Progress>,
    ) -> Result<(), Violation> {
        let Accepted { source, serial, keeps } = accepted;
        self.readouts.insert(source, node);
        let fed = self.sources.entry(source).or_default();
        fed.accepted += 1;
        let expected = fed.next.unwrap_or(fed.ever);
        let is_lost_with_connection = !keeps && serial > expected && serial <= fed.ended_at;
        // A readout unit that was started again gets what it had accepted before, unless the program knows.
        let is_again = keeps && fed.next.is_none() && serial < expected;
        if serial != expected && !is_lost_with_connection && !is_again {
            return Err(violation!(
                "source {source}: fragment {serial} was accepted, {expected} is the next"
            ));
        }
        fed.next = Some(serial + 1);
        fed.ever = fed.ever.max(serial + 1);
        let Some(progress) = progress else { return Err(violation!("source {source} is not fed")) };
        if progress.accepted != fed.accepted {
            let (said, is) = (progress.accepted, fed.accepted);
            return Err(violation!("source {source}: {is} fragments were accepted, {said} are counted"));
        }
        Ok(())
    }

    /// Checks the number of fragments that a program believes to be accepted.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn check_known(&self, source: SourceId, known: u64) -> Result<(), Violation> {
        let accepted = self.sources.get(&source).map_or(0, |fed| fed.ever);
        if known > accepted {
            return Err(violation!(
                "source {source}: the program forgets {known} fragments, {accepted} were accepted"
            ));
        }
        Ok(())
    }
}

/// Knowledge of the event manager that a program declines the start, in one session of the program's readout unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decline {
    /// Whether the readout unit was given the decline of a program.
    is_given: bool,
    /// Highest number of a message of the readout unit to the event manager. Messages up to it are repetitions.
    last_sent: u64,
    /// Number of the first status that declines.
    first: Option<u64>,
    /// Whether the event manager has acknowledged that status.
    is_known: bool,
}

impl Decline {
    /// Records that a program declines before the run has started. Every later status of its readout unit must declare it.
    pub(crate) fn give(&mut self) {
        self.is_given = true;
    }

    /// Returns whether the event manager has received a status that declines. It must not start the run afterwards.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Records a message of the readout unit to the event manager when it is sent.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_sent<P>(&mut self, message: &Message<P>) -> Result<(), Violation> {
        let sequence = message.header.sequence;
        if sequence <= self.last_sent {
            return Ok(());
        }
        self.last_sent = sequence;
        let Body::ReadoutStatus(status) = &message.body else { return Ok(()) };
        if status.declines != self.is_given {
            let (is, must) = (status.declines, self.is_given);
            return Err(violation!(
                "status {sequence} has declines = {is}, the programs have declines = {must}"
            ));
        }
        if status.declines {
            self.first.get_or_insert(sequence);
        }
        Ok(())
    }

    /// Records the header of a message of the event manager to this session of the readout unit.
    pub(crate) fn see_received(&mut self, header: &Header) {
        self.is_known |= self.first.is_some_and(|first| first <= header.acknowledged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_protocol::Identity;
    use sheaf_wire::message::ReadoutStatus;
    use sheaf_wire::{ByteCount, RunNumber, SessionId};

    const SOURCE: SourceId = SourceId(3);

    /// Accepts these fragments in one life of the readout unit.
    fn accept(record: &mut FeedRecord, keeps: bool, serials: &[u64]) -> Result<(), Violation> {
        record.begin(NodeId::readout(0));
        (1..).zip(serials).try_for_each(|(accepted, serial)| {
            let progress = Progress {
                source: SOURCE,
                received: accepted,
                received_bytes: ByteCount::ZERO,
                accepted,
                last_event: None,
                ended: false,
                fragments_limit: 100,
                bytes_limit: ByteCount::ZERO,
            };
            let accepted = Accepted { source: SOURCE, serial: *serial, keeps };
            record.see_accepted(NodeId::readout(0), accepted, Some(&progress))
        })
    }

    #[test]
    fn a_program_that_keeps_its_fragments_loses_and_doubles_none() {
        for (serials, is_right) in
            [(&[0, 1, 2][..], true), (&[0, 2], false), (&[0, 1, 1], false), (&[1], false)]
        {
            let mut record = FeedRecord::default();
            record.note_end(SOURCE, 3);
            assert_eq!(accept(&mut record, true, serials).is_ok(), is_right, "{serials:?}");
        }
    }

    #[test]
    fn a_readout_unit_that_was_started_again_gets_what_was_not_known_to_be_accepted() {
        for (again, is_right) in [(&[1, 2, 3][..], true), (&[3, 4], true), (&[4], false), (&[1, 3], false)] {
            let mut record = FeedRecord::default();
            assert!(accept(&mut record, true, &[0, 1, 2]).is_ok());
            assert_eq!(accept(&mut record, true, again).is_ok(), is_right, "{again:?}");
        }
    }

    #[test]
    fn a_program_that_keeps_nothing_loses_what_it_had_sent_when_a_connection_ended() {
        for (serials, is_right) in [(&[0, 3, 4][..], true), (&[0, 4], false), (&[0, 0], false)] {
            let mut record = FeedRecord::default();
            record.note_end(SOURCE, 3);
            assert_eq!(accept(&mut record, false, serials).is_ok(), is_right, "{serials:?}");
        }
    }

    /// Returns a status with this number.
    fn status(sequence: u64, declines: bool) -> Message<()> {
        let me = Identity { node: NodeId::readout(0), run: RunNumber(1), session: SessionId(1) };
        let mut message =
            me.plain(Body::ReadoutStatus(ReadoutStatus { declines, ..ReadoutStatus::default() }));
        message.header.sequence = sequence;
        message
    }

    #[test]
    fn a_status_declines_if_a_program_did_before_it_was_composed() {
        for (sequence, declines, is_right) in [(3, true, true), (3, false, false), (2, false, true)] {
            let mut decline = Decline::default();
            assert!(decline.see_sent(&status(1, false)).is_ok());
            assert!(decline.see_sent(&status(2, false)).is_ok());
            decline.give();
            assert_eq!(
                decline.see_sent(&status(sequence, declines)).is_ok(),
                is_right,
                "{sequence} {declines}"
            );
        }
        assert!(Decline::default().see_sent(&status(1, true)).is_err());
    }

    #[test]
    fn a_decline_is_known_when_its_status_is_acknowledged() {
        let mut decline = Decline::default();
        decline.give();
        assert!(decline.see_sent(&status(4, true)).is_ok());
        for (acknowledged, is_known) in [(3, false), (4, true), (0, true)] {
            decline.see_received(&Header { acknowledged, ..status(1, false).header });
            assert_eq!(decline.is_known(), is_known, "{acknowledged}");
        }
    }
}
