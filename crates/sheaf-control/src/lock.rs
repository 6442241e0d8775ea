//! The lock of one operator, so that two people do not command the same system.

use crate::request::{Operator, Refusal, RefusalCode, Role};
use sheaf_wire::{Nanos, Timestamp};

/// See the [module](self). A lock ends by itself: nobody can leave with the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Who has it.
    pub by: String,
    /// Until when.
    pub until: Timestamp,
}

/// Takes or renews the lock for `operator`. `force` takes it from somebody else.
pub(crate) fn take(
    lock: &mut Option<Lock>,
    (now, time): (Timestamp, Nanos),
    operator: &Operator,
    force: bool,
) -> Result<(), Refusal> {
    if let Err(refusal) = check(lock.as_ref(), now, operator) {
        if !force {
            return Err(refusal);
        }
        if operator.role < Role::Admin {
            return Err(Refusal::new(
                RefusalCode::Role,
                format!("{} is no admin, and only an admin takes the lock from somebody", operator.name),
                refusal.remedy,
            ));
        }
    }
    *lock = Some(Lock { by: operator.name.clone(), until: now + time });
    Ok(())
}

/// Refuses an operator while somebody else has the lock.
pub(crate) fn check(lock: Option<&Lock>, now: Timestamp, operator: &Operator) -> Result<(), Refusal> {
    match lock.filter(|lock| lock.until > now && lock.by != operator.name) {
        Some(Lock { by, until }) => {
            let left = until.since(now).as_secs_f64().ceil();
            Err(Refusal::new(
                RefusalCode::Locked,
                format!("{by} has the lock for another {left} s"),
                format!("ask {by} to give it back, or wait until it ends; an admin can take it by force"),
            ))
        }
        None => Ok(()),
    }
}
