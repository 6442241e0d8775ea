//! The page and the metrics of a run, while this process makes runs.

use crate::address::resolve;
use crate::console::message::Message;
use crate::console::{self, Console, Show};
use crate::plan::Plan;
use crate::summary::Summary;
use crate::{histograms, notify, records};
use log::Level;
use sheaf_config::{Config, NodeConfig};
use sheaf_monitor::{
    LogEntry, Monitor, MonitorError, NodeDescription, Notice, RemotePage, RunDescription, RunVerdict,
    Services, SlowControl,
};
use sheaf_node::RunControls;
use sheaf_node::report::Gauges;
use sheaf_node::telemetry::BufferLimits;
use sheaf_store::run::EndRecord;
use sheaf_telemetry::{Hub, codes, log_as};
use sheaf_wire::{ByteCount, NodeId, Role, SourceId};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Port of the page where none is given; another one if it is taken.
pub(crate) const DEFAULT_PORT: u16 = 7070;

/// Interval between two looks at what a run waits for.
const WAITING_PERIOD: Duration = Duration::from_millis(250);

/// Pause between two looks at a request to stop, while the page outlives the runs.
const PAUSE: Duration = Duration::from_millis(50);

/// Where a run is shown while it lasts.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Standard error.
    pub(crate) console: &'a Console,
    /// The page, if there is one.
    pub(crate) page: Option<&'a Page>,
    /// Requests of a controller to the event manager, if there is one.
    pub(crate) controls: Option<&'a Arc<RunControls>>,
    /// File of traces, if traces are wanted.
    pub(crate) traces: Option<&'a Path>,
}

/// Who sees the runs of this process.
pub(crate) trait Audience: Send + Sync {
    /// Where the nodes of this process publish their metrics.
    fn hub(&self) -> &Hub;
    /// A run is announced, before its nodes begin.
    fn begin_run(&self, run: RunDescription);
    /// Nodes and programs that the run waits for.
    fn note_waiting(&self, waits_for: Option<String>);
    /// A message of the log.
    fn add_message(&self, message: &Message);
    /// Result of the run.
    fn end_run(&self, verdict: RunVerdict);
    /// Takes why a run has ended, and its number of accepted triggers.
    fn note_end(&self, _end: &EndRecord, _triggers: u64) {}
}

impl Audience for Monitor {
    fn hub(&self) -> &Hub {
        Monitor::hub(self)
    }

    fn begin_run(&self, run: RunDescription) {
        Monitor::begin_run(self, run);
    }

    fn note_waiting(&self, waits_for: Option<String>) {
        Monitor::note_waiting(self, waits_for);
    }

    fn add_message(&self, message: &Message) {
        Monitor::add_message(
            self,
            LogEntry {
                number: 0,
                time_ms: message.time_us / 1_000,
                level: severity(message.severity),
                code: message.code.clone().into_owned(),
                node: Some(message.node.clone()).filter(|node| !console::PROCESSES.contains(&&**node)),
                text: message.text.clone(),
            },
        );
    }

    fn end_run(&self, verdict: RunVerdict) {
        Monitor::end_run(self, verdict);
    }
}

/// Nobody: the nodes of the runs publish their metrics for this process alone.
#[derive(Default)]
struct Unseen {
    hub: Hub,
}

impl Audience for Unseen {
    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn begin_run(&self, _run: RunDescription) {
        self.hub.clear();
    }

    fn note_waiting(&self, _waits_for: Option<String>) {}

    fn add_message(&self, _message: &Message) {}

    fn end_run(&self, _verdict: RunVerdict) {}
}

/// The runs of this process, as its audience sees them.
#[derive(Clone)]
pub(crate) struct Page {
    audience: Arc<dyn Audience>,
    /// Where this process serves it.
    address: Option<SocketAddr>,
}

impl Page {
    /// Serves the page if the configuration or the command line asks for it. `wanted` is the value of `--page`, if that was given, and
    /// the address in it, if there was one. `remote` makes the page for other hosts, which shows these values from outside.
    pub(crate) fn open(
        config: &Config,
        wanted: Option<Option<&str>>,
        remote: impl FnOnce() -> anyhow::Result<Option<RemotePage>>,
        values: Option<SlowControl>,
    ) -> anyhow::Result<Option<Self>> {
        if wanted.is_none() && config.monitor.listen.is_none() {
            return Ok(None);
        }
        let remote = remote()?;
        let services = Services { remote, values, ..Services::default() };
        Ok(Some(Self::of(serve_for(config, wanted.flatten(), services)?)))
    }

    /// Serves the page at this address.
    pub(crate) fn open_at(address: &str, config: &Config) -> anyhow::Result<Self> {
        Ok(Self::of(serve_for(config, Some(address), Services::default())?))
    }

    fn of(monitor: Monitor) -> Self {
        let address = monitor.address();
        let monitor = Arc::new(monitor);
        let page = Self { address: Some(address), ..Self::to(monitor.clone()) };
        log_remote_page(&monitor);
        log_as!(
            PAGE_ADDRESS;
            "the page is at http://{address}/, the metrics are at http://{address}/metrics"
        );
        page
    }

    /// Has the nodes publish their metrics without showing them to anybody.
    pub(crate) fn unseen() -> Self {
        Self { audience: Arc::new(Unseen::default()), address: None }
    }

    /// Shows the runs of this process to this audience, and all messages of the log.
    pub(crate) fn to(audience: Arc<dyn Audience>) -> Self {
        let page = Self { audience, address: None };
        page.take_messages();
        page
    }

    /// Returns the address of the page, if this process serves it.
    pub(crate) fn address(&self) -> Option<String> {
        self.address.map(|address| format!("http://{address}"))
    }

    /// Returns where the nodes of this process publish their metrics.
    pub(crate) fn hub(&self) -> Hub {
        self.audience.hub().clone()
    }

    /// Announces a run before its nodes begin, with the files of its traces and histograms.
    pub(crate) fn begin_run(
        &self,
        plan: &Plan,
        directory: Option<&Path>,
        files: (Option<&Path>, Option<&Path>),
    ) {
        self.begin(plan, describe_nodes(plan), directory, files);
    }

    /// Announces a run of which this process is one node.
    pub(crate) fn begin_node(&self, plan: &Plan, node: &NodeConfig, directory: Option<&Path>) {
        let mut nodes = describe_nodes(plan);
        nodes.retain(|described| described.name == node.name);
        let histograms = directory.and_then(|directory| histograms::file(&plan.config, directory));
        self.begin(plan, nodes, directory, (None, histograms.as_deref()));
    }

    fn begin(
        &self,
        plan: &Plan,
        nodes: Vec<NodeDescription>,
        directory: Option<&Path>,
        (traces, histograms): (Option<&Path>, Option<&Path>),
    ) {
        let whole =
            |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
        self.audience.begin_run(RunDescription {
            number: plan.config.run.number.0,
            directory: directory.map(whole),
            traces: traces.map(whole),
            histograms: histograms.map(whole),
            nodes,
            sources: plan
                .source_ids()
                .into_iter()
                .map(|id| (u64::from(id.0), plan.source_name(id)))
                .collect(),
        });
    }

    /// Shows what the run waits for, until the returned value is dropped.
    pub(crate) fn show_waiting(&self, gauges: Arc<Gauges>) -> Show {
        let (page, last) = (self.clone(), self.clone());
        let show = move || page.note_waiting(console::waits_for(&gauges.snapshot()));
        Show::every("waiting", WAITING_PERIOD, show, move || last.note_waiting(None))
    }

    /// Announces a run of another process.
    pub(crate) fn announce(&self, run: RunDescription) {
        self.audience.begin_run(run);
    }

    /// Announces how the run of another process ended.
    pub(crate) fn announce_end(&self, verdict: RunVerdict) {
        self.audience.end_run(verdict);
    }

    /// Sets what the run waits for.
    pub(crate) fn note_waiting(&self, waits_for: Option<String>) {
        self.audience.note_waiting(waits_for);
    }

    /// Adds a message of another process.
    pub(crate) fn add_message(&self, message: &Message) {
        self.audience.add_message(message);
    }

    /// Announces how the run ended.
    /// Tells why the run has ended, and its number of accepted triggers.
    pub(crate) fn note_end(&self, end: &EndRecord, triggers: u64) {
        self.audience.note_end(end, triggers);
    }

    pub(crate) fn end_run(&self, summary: &Summary) {
        let text = summary.to_string();
        let lines = text.lines().map(|line| console::named(line).into_owned()).collect();
        self.audience.end_run(RunVerdict { good: summary.is_good(), lines });
    }

    /// Goes on serving for this time after the last run, until `stop` is set.
    pub(crate) fn linger(&self, time: Duration, stop: &AtomicBool) {
        if time.is_zero() {
            return;
        }
        log_as!(PAGE_ADDRESS; "the page stays for {} s; Ctrl-C ends it", time.as_secs());
        let began = Instant::now();
        while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE.min(time - began.elapsed().min(time)));
        }
    }

    /// Shows the messages of this process on the page.
    fn take_messages(&self) {
        let audience = Arc::downgrade(&self.audience);
        console::listen(Some(Box::new(move |message| {
            if let Some(audience) = audience.upgrade() {
                audience.add_message(message);
            }
        })));
    }
}

fn severity(level: Level) -> sheaf_monitor::Level {
    match level {
        Level::Error => sheaf_monitor::Level::Error,
        Level::Warn => sheaf_monitor::Level::Warning,
        Level::Info | Level::Debug | Level::Trace => sheaf_monitor::Level::Info,
    }
}

/// Serves a page at the address of the command line, of the configuration, or the default one, and has notices of alarms sent to whom
/// the configuration names.
pub(crate) fn serve_for(
    config: &Config,
    address: Option<&str>,
    services: Services,
) -> anyhow::Result<Monitor> {
    let services = Services { partition: config.run.partition.clone(), ..services };
    let monitor = match address.or(config.monitor.listen.as_deref()) {
        Some(address) => start(resolve(address)?, services)?,
        None => start_at_default(services)?,
    };
    monitor.judge_runs_by(records::is_good);
    let notifier = notify::begin(&config.monitor)?;
    let tell = move |notice: Notice| {
        log_alarm(&notice);
        if let Some(notifier) = &notifier {
            notifier(notice);
        }
    };
    monitor.notify(config.monitor.alarm_hold_off.to_std(), Box::new(tell));
    Ok(monitor)
}

/// Logs that an alarm is raised, or has ended.
fn log_alarm(Notice { ended, alarm, .. }: &Notice) {
    let code = codes::find(alarm.code).unwrap_or(&codes::OTHER);
    let culprit = alarm.culprit.as_deref().unwrap_or_default();
    if *ended {
        log_as!(ALARM_ENDED, peer = culprit; "the alarm `{}` has ended: {}", alarm.code, alarm.text);
    } else {
        log_as!(code = code, peer = culprit; "{}; {}", alarm.text, alarm.remedy);
    }
}

/// Logs where other hosts find the page.
pub(crate) fn log_remote_page(monitor: &Monitor) {
    let Some(address) = monitor.remote_address() else { return };
    log_as!(
        PAGE_ADDRESS;
        "for other hosts, the page is at port {} of {}, over HTTPS; everybody needs a token: `sheaf token add NAME --role viewer`",
        address.port(),
        if address.ip().is_unspecified() { "all addresses of this host".to_owned() } else { address.ip().to_string() }
    );
}

fn start(address: SocketAddr, services: Services) -> Result<Monitor, MonitorError> {
    Monitor::start_with(address, env!("CARGO_PKG_VERSION"), services)
}

/// Several users of a host can have a page each.
fn start_at_default(services: Services) -> Result<Monitor, MonitorError> {
    let at = |port, services| start((Ipv4Addr::LOCALHOST, port).into(), services);
    match at(DEFAULT_PORT, services.clone()) {
        Err(MonitorError::Bind { address, .. }) if address.port() == DEFAULT_PORT => at(0, services),
        other => other,
    }
}

fn describe_nodes(plan: &Plan) -> Vec<NodeDescription> {
    let describe = |role: Role| {
        let name = match role {
            Role::Manager => "manager",
            Role::Readout => "readout",
            Role::Builder => "builder",
            Role::Output => "output",
            Role::Mirror => "mirror",
        };
        // Whichever replica of the event manager is active publishes as the event manager, and a mirror that acts as its readout unit.
        let is_shown = |node: &&NodeConfig| node.id.role != Role::Manager || node.id == NodeId::MANAGER;
        plan.of_role(role).filter(is_shown).map(move |node| NodeDescription {
            name: node.name.clone(),
            role: name.to_owned(),
            agent: node.agent.clone(),
        })
    };
    [Role::Readout, Role::Builder, Role::Output, Role::Manager].into_iter().flat_map(describe).collect()
}

impl Plan {
    /// Returns all sources of the run.
    pub(crate) fn source_ids(&self) -> Vec<SourceId> {
        self.nodes.iter().flat_map(|node| node.sources.iter().copied()).collect()
    }

    /// Returns the limits of the buffer of a readout unit.
    pub(crate) fn readout_limits(&self) -> BufferLimits {
        let readout = &self.config.readout;
        BufferLimits { bytes: readout.buffer, events: u64::from(readout.buffer_events) }
    }

    /// Returns the limits of the events of a builder unit.
    pub(crate) fn builder_limits(&self) -> BufferLimits {
        let builder = &self.config.builder;
        BufferLimits { bytes: builder.memory, events: u64::from(builder.slots) }
    }

    /// Returns the limits of the events of an output node, of all builder units together.
    pub(crate) fn output_limits(&self) -> BufferLimits {
        let (output, builders) = (&self.config.output, u64::from(self.count(Role::Builder)));
        BufferLimits {
            bytes: ByteCount(output.window.0 * builders),
            events: u64::from(output.window_events) * builders,
        }
    }

    fn source_name(&self, id: SourceId) -> Option<String> {
        self.config.names.get(id).map(str::to_owned)
    }
}
