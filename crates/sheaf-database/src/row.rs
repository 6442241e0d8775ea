//! Rows of a run in the index.

use crate::session::Value;

/// Tables with several rows for a run. Each begins with the columns `run` and `created_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Events of each bin of the ledger.
    Ledger,
    /// Dead time of each cause, in nanoseconds.
    DeadTime,
    /// Parts of the dead time for which one node alone was the reason, in nanoseconds.
    Culprit,
    /// Closed files.
    File,
    /// Libraries and scripts.
    Code,
    /// Settings in force.
    Setting,
    /// Ranges of events without some sources.
    Exclusion,
    /// Comments and judgements of quality.
    Comment,
    /// Commands of run control.
    Command,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ledger,
        Self::DeadTime,
        Self::Culprit,
        Self::File,
        Self::Code,
        Self::Setting,
        Self::Exclusion,
        Self::Comment,
        Self::Command,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ledger => "run_ledger",
            Self::DeadTime => "run_dead_time",
            Self::Culprit => "run_culprit",
            Self::File => "run_file",
            Self::Code => "run_code",
            Self::Setting => "run_setting",
            Self::Exclusion => "run_exclusion",
            Self::Comment => "run_comment",
            Self::Command => "run_command",
        }
    }

    /// Returns the columns after those of the run.
    #[must_use]
    pub const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Ledger => &["bin", "events"],
            Self::DeadTime => &["cause", "dead_ns"],
            Self::Culprit => &["cause", "node", "dead_ns"],
            Self::File => &["file", "stream", "events", "bytes", "crc32c"],
            Self::Code => &["part", "path", "bytes", "crc32c"],
            Self::Setting => &["name", "value"],
            Self::Exclusion => &["detail"],
            Self::Comment => &["time_ns", "author", "text", "quality"],
            Self::Command => &[
                "time_ns",
                "operator",
                "via",
                "command",
                "target",
                "comment",
                "result",
                "detail",
                "result_ns",
            ],
        }
    }
}

/// A run. The number and the time of creation tell runs apart: a directory may be moved, and a number used again on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Number.
    pub run: u64,
    /// Time of creation, in nanoseconds since 1970.
    pub created_ns: u64,
    /// Host that has the directory.
    pub host: String,
    /// Absolute path of the directory.
    pub directory: String,
    /// `in_progress`, `good`, `not_good` or `not_closed`.
    pub state: String,
    /// Program and version.
    pub software: String,
    /// Name of the file of the configuration.
    pub configuration_name: Option<String>,
    /// Checksum of settings and code.
    pub configuration_id: String,
    /// Time when the run began, in nanoseconds since 1970.
    pub started_ns: Option<u64>,
    /// Time when its triggers ended, in nanoseconds since 1970.
    pub triggers_ended_ns: Option<u64>,
    /// Time when the run was closed, in nanoseconds since 1970.
    pub ended_ns: Option<u64>,
    /// Reason of the end, in one word.
    pub end_reason: Option<String>,
    /// Details of the end.
    pub end_detail: Option<String>,
    /// Accepted events that were lost.
    pub lost: u64,
    /// Time from the start to the end of the triggers, in nanoseconds.
    pub run_ns: Option<u64>,
    /// Time in which triggers were taken, in nanoseconds.
    pub live_ns: Option<u64>,
    /// Last judgement of quality.
    pub quality: Option<String>,
    /// The whole record in JSON.
    pub record: String,
    /// Rows of the other tables.
    pub parts: Vec<(Table, Vec<Value>)>,
}

impl RunRow {
    /// Columns of the table `run`, in the order of [`values`](Self::values).
    pub(crate) const COLUMNS: [&'static str; 18] = [
        "run",
        "created_ns",
        "host",
        "directory",
        "state",
        "software",
        "configuration_name",
        "configuration_id",
        "started_ns",
        "triggers_ended_ns",
        "ended_ns",
        "end_reason",
        "end_detail",
        "lost",
        "run_ns",
        "live_ns",
        "quality",
        "record",
    ];

    pub(crate) fn values(&self) -> [Value; 18] {
        [
            self.run.into(),
            self.created_ns.into(),
            (&*self.host).into(),
            (&*self.directory).into(),
            (&*self.state).into(),
            (&*self.software).into(),
            self.configuration_name.as_deref().into(),
            (&*self.configuration_id).into(),
            self.started_ns.into(),
            self.triggers_ended_ns.into(),
            self.ended_ns.into(),
            self.end_reason.as_deref().into(),
            self.end_detail.as_deref().into(),
            self.lost.into(),
            self.run_ns.into(),
            self.live_ns.into(),
            self.quality.as_deref().into(),
            (&*self.record).into(),
        ]
    }
}
