//! Scenarios: simulated clusters and drivers under faults that are chosen, not drawn; and tests of the checker itself.

mod around;
mod barrel;
mod checker;
mod drivers;
mod farm;
mod mirrors;
mod outputs;
mod protected;
mod scenarios;
mod shrink;
mod standby;
mod steps;
mod table;
mod windows;
