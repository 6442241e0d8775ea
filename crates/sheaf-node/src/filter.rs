//! Filters of built events: the trait is that of `sheaf-filter`.

pub use sheaf_filter::filter::{AcceptAll, Filter, FilterFailure, Prescale};
