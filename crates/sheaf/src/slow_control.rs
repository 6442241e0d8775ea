//! Values from outside of the run, such as voltages and temperatures.

use crate::control_directory::ControlDirectory;
use crate::gate::Gate;
use crate::token;
use anyhow::Context as _;
use sheaf_config::{AgeFrom, Config, SlowValue};
use sheaf_monitor::SlowControl;
use sheaf_monitor::values::{DeclaredValue, RunValue, SentFile, ValueFile, ValueKeeper, ValueLimits};
use sheaf_store::run::ValueRecord;
use std::path::Path;
use std::sync::Arc;

/// Begins to keep the values of a configuration.
pub(crate) fn keep(config: &Config, sent: SentFile) -> anyhow::Result<ValueKeeper> {
    ValueKeeper::start(declared(config), Arc::new(sheaf_store::regular::open), sent)
        .context("cannot start a thread for values from outside")
}

/// Returns how the process of a run gets what programs send: from its controller, if it has one.
pub(crate) fn sent_to_run(launch: Option<&Path>) -> SentFile {
    let file = launch.and_then(ControlDirectory::of_launch).map(|directory| directory.values());
    file.map_or(SentFile::None, SentFile::Follow)
}

/// Returns the values that a page of runs without a controller shows and takes, from those whom the controller of their directory knows.
pub(crate) fn of_runs(config: &Config, keeper: &ValueKeeper) -> SlowControl {
    let directory = ControlDirectory::new(&token::directory_of(&config.run.output));
    SlowControl { board: keeper.board().clone(), senders: Arc::new(Gate::new(directory)) }
}

/// Returns the values of a configuration.
pub(crate) fn declared(config: &Config) -> Vec<DeclaredValue> {
    let declare = |(name, value): (&String, &SlowValue)| DeclaredValue {
        name: name.clone(),
        unit: value.unit.clone(),
        file: value.read.as_ref().map(|path| ValueFile {
            path: path.clone(),
            period: value.period.to_std(),
            is_live: value.age == AgeFrom::Read,
        }),
        stale: value.stale.to_std(),
        stale_alarm: value.stale_alarm,
        limits: ValueLimits {
            warning_below: value.warning_below,
            warning_above: value.warning_above,
            error_below: value.error_below,
            error_above: value.error_above,
        },
        hold: value.hold.to_std(),
        remedy: value.remedy.clone(),
    };
    config.values.iter().map(declare).collect()
}

/// Ends the numbers of a run, and returns them for its record.
pub(crate) fn end_run(keeper: &ValueKeeper) -> Vec<ValueRecord> {
    let record = |RunValue { name, unit, extremes, mean, readings, unknown }| {
        let [first, last, minimum, maximum] =
            extremes.map_or([None; 4], |extremes: [f64; 4]| extremes.map(Some));
        let unknown_ms = u64::try_from(unknown.as_millis()).unwrap_or(u64::MAX);
        ValueRecord { name, unit, first, last, minimum, maximum, mean, readings, unknown_ms }
    };
    keeper.end_run().into_iter().map(record).collect()
}
