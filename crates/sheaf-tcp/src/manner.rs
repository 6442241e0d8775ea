//! Way in which an endpoint meets others.

/// Way in which an endpoint meets others.
#[derive(Debug)]
pub(super) enum Manner {
    /// As a node among nodes that the configuration names.
    Node,
    /// It admits guests. `taken`: whether each place is taken, from the admission of a guest until its end was
    /// reported. `names`: a guest's certificate must be for one of these.
    Host { taken: Vec<bool>, names: Vec<String> },
    /// It is a guest.
    Guest,
}
