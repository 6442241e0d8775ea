//! Farms that judge the events of builders.

use crate::dice::Ratio;
use sheaf_wire::Nanos;

/// Farms that judge the events of builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarmOptions {
    /// Processors of each builder.
    pub processors: u16,
    /// Maximum number of events at a processor.
    pub ahead: u32,
    /// Time for a verdict.
    pub judge: Nanos,
    /// Latency from dispatcher to processor, and back.
    pub way: Nanos,
    /// Time for which a processor loads its filter before it requests events.
    pub load: Nanos,
    /// Processors that die while they load it.
    pub dies_loading: Ratio,
    /// Time limit for the first request of a processor.
    pub load_time_limit: Nanos,
    /// Time limit after which a processor is ended if it owes another message.
    pub time_limit: Nanos,
    /// Time for which events wait if there is no processor.
    pub patience: Nanos,
    /// Number of retries of an event after its processor ended or failed with it.
    pub retries: u16,
    /// Time after which a dead processor is replaced.
    pub restart: Nanos,
    /// Events for which the filter returns a failure.
    pub fails: Ratio,
    /// Events that crash the filter.
    pub dies: Ratio,
    /// Events for which the filter hangs.
    pub hangs: Ratio,
    /// Events after whose verdict the processor hangs.
    pub falls_silent: Ratio,
    /// Events after which the processor leaves in an orderly way.
    pub leaves: Ratio,
    /// Events for which the filter fails but the processor sends a verdict nevertheless.
    pub contradicts: Ratio,
    /// Number of events that a processor requests; at most `ahead` are delivered.
    pub asks: u32,
}

impl Default for FarmOptions {
    fn default() -> Self {
        Self {
            processors: 3,
            ahead: 4,
            judge: Nanos::from_micros(40),
            way: Nanos::from_micros(5),
            load: Nanos::ZERO,
            dies_loading: Ratio::NEVER,
            load_time_limit: Nanos::from_millis(10),
            time_limit: Nanos::from_millis(2),
            patience: Nanos::from_millis(20),
            retries: 1,
            restart: Nanos::from_micros(300),
            fails: Ratio::NEVER,
            dies: Ratio::NEVER,
            hangs: Ratio::NEVER,
            falls_silent: Ratio::NEVER,
            leaves: Ratio::NEVER,
            contradicts: Ratio::NEVER,
            asks: 4,
        }
    }
}

impl FarmOptions {
    /// Returns the longest time from delivering an event to an idle live processor to its verdict.
    #[must_use]
    pub fn turn(&self) -> Nanos {
        self.judge + self.way + self.way
    }

    /// Returns whether no working processor is mistaken for one that hangs, and no event is given up while one is being started.
    #[must_use]
    pub fn is_patient(&self) -> bool {
        let limit = 2 * self.turn().0 + 500_000;
        self.time_limit.0 >= limit
            && self.load_time_limit.0 >= 2 * self.load.0 + limit
            && self.patience.0 >= 4 * (self.restart.0 + self.time_limit.0 + self.way.0)
    }

    /// Returns whether a filter can end its processor or fail.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        let harm =
            [self.fails, self.dies, self.hangs, self.falls_silent, self.contradicts, self.dies_loading];
        harm.into_iter().any(Ratio::is_possible)
    }
}
