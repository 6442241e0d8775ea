//! Messages of a processor, divided into those for the dispatcher and those about the processor itself.

use crate::judging::WorkerTimes;
use sheaf_protocol::farm::{Ticket, Word};
use sheaf_wire::farm::{FromProcessor, Times};
use sheaf_wire::{FilterFailure, Verdict};

/// A message of a processor.
pub(super) enum Said {
    /// For the dispatcher.
    Word(Word<Verdict>),
    /// About itself.
    Times(WorkerTimes),
}

/// Sorts a message of a processor.
pub(super) fn said(word: FromProcessor) -> Said {
    Said::Word(match word {
        FromProcessor::Ask(events) => Word::Ask(events),
        FromProcessor::Verdict(ticket, verdict) => Word::Verdict(Ticket(ticket), verdict),
        FromProcessor::Failed(ticket, why) => Word::Failed(Ticket(ticket), FilterFailure(why)),
        FromProcessor::Leave => Word::Leave,
        FromProcessor::Times(Times { judged, filter, worker, idle }) => {
            return Said::Times(WorkerTimes { judged, filter, worker, idle });
        }
    })
}
