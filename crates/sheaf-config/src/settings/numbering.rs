//! Comparison of the event numbers of sources.

use super::MAX_INTEGER;
use crate::choice::choice;
use crate::codec::{Field, field, maybe, name, pick, signed, source_id, source_list, whole};
use crate::knob::section;
use sheaf_wire::SourceId;

choice! {
    /// Reaction to a source that is off.
    ShiftAction {
        /// it is reported, and its fragments are marked
        Mark = "mark",
        /// further fragments of the source get the right event numbers; those before stay marked
        Repair = "repair",
        /// the run ends
        Stop = "stop",
    }
}

section! {
    /// Event numbers that do not agree. If `[check_fields.NAME]` tables say where sources have a trigger number, a bunch counter
    /// or a time, builder units compare these in every event, and mark fragments that disagree.
    Check "check" {
        /// Reaction when a source is off by the same number of events in each event.
        on_shift: ShiftAction = ShiftAction::Mark, "on_shift", pick();
        /// Source that is right if others disagree. Default: the value of most sources is right, and if as many have another one,
        /// that of the source with the lowest id.
        reference: Option<SourceId> = None, "reference", maybe(source_id());
        /// Number of consecutive events in which a source must be off by the same number of events.
        events: u32 = 16, "events", whole(4, 256);
        /// Maximum number of events by which a source that is recognised is off.
        longest_shift: u32 = 16, "longest_shift", whole(1, 64);
    }
}

section! {
    /// Check value of some sources. The name of the table is only a label. All values of a quantity are compared with one
    /// another, modulo the smallest modulus.
    CheckField "check_fields.NAME" {
        /// Sources with this value. None stands for all.
        sources: Vec<SourceId> = Vec::new(), "sources", source_list();
        /// Name of the quantity that it is a value of. Values of different quantities are not compared.
        quantity: String = "number".into(), "quantity", name();
        /// Place of the value in the payload. Default: the time that the source gives with the fragment, in nanoseconds.
        value: Option<Field> = None, "value", maybe(field());
        /// Number that is subtracted from the value, before it is compared.
        offset: i64 = 0, "offset", signed(i64::MIN + 1, i64::MAX);
        /// Number of different values, after which they begin again at 0. Default: all that fit into the bits of `value`; times
        /// do not begin again.
        modulus: Option<u64> = None, "modulus", maybe(whole(2, MAX_INTEGER));
        /// Difference up to which the value agrees with that of the event.
        tolerance: u64 = 0, "tolerance", whole(0, MAX_INTEGER);
    }
}
