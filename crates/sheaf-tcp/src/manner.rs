//! Way in which an endpoint meets others.

/// Way in which an endpoint meets others.
#[derive(Debug)]
pub(super) enum Manner {
    /// As a node among nodes that the configuration names.
    Node,
    /// It lets guests in. Whether each place is taken: from when a guest is let in until its end was handed out; and for which
    /// of these names a guest's certificate must be.
    Host { taken: Vec<bool>, names: Vec<String> },
    /// It is a guest.
    Guest,
}
