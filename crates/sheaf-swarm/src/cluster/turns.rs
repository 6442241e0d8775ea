//! Steps of programs that feed sources, and their messages on the way.

use crate::source::Planned;
use sheaf_protocol::feed::ClientId;
use sheaf_wire::feed::{FragmentsHead, FromClient, FromReadout};

/// A fragment, with its number among all that its source ever makes.
pub(super) type Made = (u64, Planned);

/// A message on its way to a readout unit.
#[derive(Debug)]
pub(super) enum Up {
    Control(FromClient),
    Fragments(FragmentsHead, Vec<Made>),
    /// The connection ends.
    Left,
}

/// A step of a program or its connection.
#[derive(Debug)]
pub(super) enum ProgramTurn {
    /// A message arrives at the readout unit.
    Up(ClientId, Up),
    /// A message arrives at the program.
    Down(ClientId, FromReadout),
    /// The program sees that the readout unit has gone.
    Lost(ClientId),
    Connect,
    /// The program makes the next run record of its source at this place.
    Record(usize),
}
