//! Work without messages for people.
//!
//! A standby repeats the work of the active event manager, which has logged what is to be said about it.

use std::cell::Cell;

thread_local! {
    static IS_MUTED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether messages of this thread are dropped.
#[must_use]
pub fn is_muted() -> bool {
    IS_MUTED.get()
}

/// Does work whose messages are dropped.
pub fn muted<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_MUTED.replace(true);
    let done = work();
    IS_MUTED.set(before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_work_is_muted() {
        assert!(!is_muted());
        assert!(muted(|| muted(is_muted) && is_muted()));
        assert!(!is_muted());
    }
}
