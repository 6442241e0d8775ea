//! The monitor of a process: its thread, and what the command tells it.

use crate::access::{Access, Senders};
use crate::alarms::{self, Alarms, HostFigures, ValueAlarms};
use crate::attention::{Attention, PastAlarms};
use crate::columns::Columns;
use crate::control::Control;
use crate::description::{RunDescription, RunVerdict};
use crate::guard::{Door, Remote};
use crate::history::History;
use crate::messages::LogEntry;
use crate::notices::{Notices, Notifier};
use crate::remote::{Identity, RemotePage, RemotePageError, TlsListener};
use crate::server::router;
use crate::serving::Server;
use crate::shared::{Notified, Shared, Tick};
use crate::state::{self, AlarmList, Context, Standby};
use crate::unix_time::unix_ms;
use crate::values::{ValueBoard, ValueCounts};
use bytes::Bytes;
use rustls::ServerConfig;
use sheaf_telemetry::{Hub, Snapshot, log_as};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Interval between two rows of numbers.
const TICK: Duration = Duration::from_millis(100);

/// Number of ticks between two looks at the free space for the output.
const TICKS_PER_SPACE: u64 = 10;

/// Interval between two looks at the certificate of the page for other hosts.
const RENEWAL: Duration = Duration::from_secs(10);

/// Reason why a monitor cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The address is reachable from other hosts.
    #[error(
        "the page cannot listen on {0}: anybody who can reach it would see the run; use a loopback address such as 127.0.0.1:8080; `[monitor.remote]` serves other hosts, with TLS and tokens"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be taken.
    #[error(
        "the page cannot listen on {address}: {error}; another port, or 0 for any free one, can be given"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The page for other hosts has no certificate.
    #[error("there is no page for other hosts")]
    Remote(#[from] RemotePageError),
    /// The thread cannot be started.
    #[error("the monitor cannot start: {0}")]
    Start(std::io::Error),
}

/// Services of a monitor beside the page of a run.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// Run control.
    pub control: Option<Arc<dyn Control>>,
    /// The page for other hosts.
    pub remote: Option<RemotePage>,
    /// Values from outside, and who may send them.
    pub values: Option<SlowControl>,
    /// Partition of the system that all runs are of.
    pub partition: Option<String>,
}

/// Values from outside, and who may send them.
#[derive(Clone, Debug)]
pub struct SlowControl {
    /// The values.
    pub board: Arc<ValueBoard>,
    /// Knows who may send values.
    pub senders: Arc<dyn Senders>,
}

/// Where a monitor listens.
struct Doors {
    local: TcpListener,
    remote: Option<RemoteDoor>,
}

/// The page for other hosts, before it is served.
struct RemoteDoor {
    listener: TcpListener,
    address: SocketAddr,
    identity: Arc<Identity>,
    settings: Arc<ServerConfig>,
    access: Arc<dyn Access>,
}

impl RemoteDoor {
    fn open(page: &RemotePage) -> Result<Self, MonitorError> {
        let identity = Identity::load(page)?;
        let settings = identity.settings()?;
        let (listener, address) = listen(page.address)?;
        Ok(Self { listener, address, identity, settings, access: page.access.clone() })
    }
}

/// Returns a socket that listens, and its address.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), MonitorError> {
    let listener = TcpListener::bind(address).map_err(|error| MonitorError::Bind { address, error })?;
    listener.set_nonblocking(true).map_err(MonitorError::Start)?;
    let address = listener.local_addr().map_err(MonitorError::Start)?;
    Ok((listener, address))
}

/// Serves the page and the metrics of this process until it is dropped.
#[derive(Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    address: SocketAddr,
    remote_address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Begins to serve at a loopback address; port 0 stands for any free one. `version` is shown.
    ///
    /// # Errors
    /// If the address is not a loopback address or is taken, or a thread cannot be started.
    pub fn start(address: SocketAddr, version: &'static str) -> Result<Self, MonitorError> {
        Self::start_with(address, version, Services::default())
    }

    /// Begins to serve as [`start`](Self::start) does, with more services.
    ///
    /// # Errors
    /// As [`start`](Self::start), and if the page for other hosts has no certificate.
    pub fn start_with(
        address: SocketAddr,
        version: &'static str,
        Services { control, remote, values, partition }: Services,
    ) -> Result<Self, MonitorError> {
        if !address.ip().is_loopback() {
            return Err(MonitorError::NotLoopback(address));
        }
        let (listener, address) = listen(address)?;
        let remote = remote.as_ref().map(RemoteDoor::open).transpose()?;
        let remote_address = remote.as_ref().map(|door| door.address);
        let history = Mutex::new(History::new(unix_ms(), Columns::list().len()));
        let shared = Arc::new(Shared {
            hub: Hub::default(),
            values: values.as_ref().map(|values| values.board.clone()).unwrap_or_default(),
            version,
            partition,
            history,
            told: Mutex::default(),
            notices: Notified::default(),
            traces: Mutex::default(),
            histograms: Mutex::default(),
            map: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(MonitorError::Start)?;
        let (stop, stopped) = oneshot::channel();
        let serving = shared.clone();
        let body = move || {
            let doors = Doors { local: listener, remote };
            if let Err(error) = runtime.block_on(serve(doors, (serving, control, values), stopped)) {
                log_as!(PAGE_FAILED; "the page is not served any more: {error}");
            }
        };
        let thread =
            std::thread::Builder::new().name("monitor".into()).spawn(body).map_err(MonitorError::Start)?;
        Ok(Self { shared, address, remote_address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which it listens for other hosts, if it does.
    #[must_use]
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.remote_address
    }

    /// Returns where nodes of this process publish.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.shared.hub
    }

    /// Returns the state of the standby event manager. `None` in a run that is to have none, and before the event manager has published.
    #[must_use]
    pub fn standby(&self) -> Option<Standby> {
        state::standby_in(&self.shared.hub.snapshot())
    }

    /// Announces a run, before its nodes begin. What was known of the run before goes.
    pub fn begin_run(&self, run: RunDescription) {
        self.shared.hub.clear();
        let mut told = self.shared.told();
        (told.run, told.waits_for, told.verdict) = (Some(Arc::new(run)), None, None);
    }

    /// Sets what the run waits for.
    pub fn note_waiting(&self, waits_for: Option<String>) {
        self.shared.told().waits_for = waits_for;
    }

    /// Announces how the run ended.
    pub fn end_run(&self, verdict: RunVerdict) {
        self.shared.told().verdict = Some(verdict);
    }

    /// Sets the state of run control.
    pub fn note_control(&self, control: serde_json::Value) {
        self.shared.told().control = Some(control);
    }

    /// Has `notifier` called with notices of alarms, from now on; alarms of the first time of a run are held off.
    pub fn notify(&self, hold_off: Duration, notifier: Notifier) {
        let hold_off_ms = u64::try_from(hold_off.as_millis()).unwrap_or(u64::MAX);
        *self.shared.notices() = Some((Notices::new(hold_off_ms), notifier));
    }

    /// Sets how to tell whether the run in a directory was good, so that it can be a reference for histograms of later runs.
    pub fn judge_runs_by(&self, is_good: fn(&Path) -> bool) {
        self.shared.told().is_good = Some(is_good);
    }

    /// Adds a message of the log, and numbers it.
    pub fn add_message(&self, message: LogEntry) {
        self.shared.told().messages.add(message);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log_as!(
                THREAD_PANICKED;
                "the thread of the page panicked: this is a bug in sheaf; its message is above"
            );
        }
    }
}

/// Serves requests and takes rows until `stopped`. Requests that wait then are given up.
async fn serve(
    Doors { local, remote }: Doors,
    (shared, control, values): (Arc<Shared>, Option<Arc<dyn Control>>, Option<SlowControl>),
    stopped: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(local)?;
    let address = listener.local_addr()?;
    let (ticker, ticks) = watch::channel(Tick::default());
    let mut clock = TickClock::new(shared.clone());
    ticker.send_replace(clock.tick());
    let senders = values.map(|values| values.senders);
    let server = Server { shared, ticks, control, senders, address, door: Door::Local };
    let mut service = std::pin::pin!(axum::serve(listener, router(server.clone())).into_future());
    let mut remote_service = std::pin::pin!(serve_others(remote, server));
    let mut stopped = std::pin::pin!(stopped);
    let mut interval = interval_at(Instant::now() + TICK, TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            result = &mut service => return result,
            result = &mut remote_service => return result,
            _ = &mut stopped => return Ok(()),
            _ = interval.tick() => { ticker.send_replace(clock.tick()); }
        }
    }
}

/// Serves the page for other hosts, if there is one, and looks at its certificate.
async fn serve_others(remote: Option<RemoteDoor>, server: Server) -> std::io::Result<()> {
    let Some(RemoteDoor { listener, identity, settings, access, address }) = remote else {
        return std::future::pending().await;
    };
    let listener = TlsListener::new(tokio::net::TcpListener::from_std(listener)?, settings);
    let door = Door::Remote(Remote::new(access, address.port()));
    let server = Server { address, door, ..server };
    let mut service = std::pin::pin!(axum::serve(listener, router(server)).into_future());
    let mut interval = interval_at(Instant::now() + RENEWAL, RENEWAL);
    loop {
        tokio::select! {
            result = &mut service => return result,
            _ = interval.tick() => identity.renew(),
        }
    }
}

/// Takes a row and composes a state at each tick.
struct TickClock {
    shared: Arc<Shared>,
    columns: Columns,
    alarms: Alarms,
    value_alarms: ValueAlarms,
    past_alarms: PastAlarms,
    began: Instant,
    ticks: u64,
    free_bytes: Option<u64>,
}

impl TickClock {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            columns: Columns::default(),
            alarms: Alarms::default(),
            value_alarms: ValueAlarms::default(),
            past_alarms: PastAlarms::default(),
            began: Instant::now(),
            ticks: 0,
            free_bytes: None,
        }
    }

    /// The lock of what the command has told is held for copies only: threads that carry data take it when they log.
    fn tick(&mut self) -> Tick {
        let snapshot = self.shared.hub.snapshot();
        let (run, waits_for, verdict, log, control) = {
            let told = self.shared.told();
            (
                told.run.clone(),
                told.waits_for.clone(),
                told.verdict.clone(),
                told.messages.entries(),
                told.control.clone(),
            )
        };
        if self.ticks.is_multiple_of(TICKS_PER_SPACE) {
            let directory = run.as_ref().and_then(|run| run.directory.as_deref());
            self.free_bytes = directory.and_then(|path| sheaf_machine::free_bytes(Path::new(path)).ok());
        }
        let rows = self.add_row(&snapshot);
        self.ticks += 1;
        let context = Context {
            version: self.shared.version,
            time_ms: unix_ms(),
            revision: self.ticks,
            run: run.as_deref(),
            waits_for,
            verdict,
        };
        let mut state = state::compose(&snapshot, &context);
        let attention = Attention::of(control.as_ref());
        if alarms::are_units_full(&state)
            && let Some(reasons) =
                run.as_deref().and_then(|run| alarms::reasons_of_full_builders(&snapshot, run))
        {
            self.alarms.add_reasons(state.time_ms, reasons);
        }
        state.alarms = self.alarms.judge(&state);
        let values = self.shared.values.reports();
        state.alarms.extend(self.value_alarms.judge(state.time_ms, &values));
        alarms::sort(&mut state.alarms);
        state.values = ValueCounts::of(&values);
        attention.silence(state.time_ms, &mut state.alarms);
        state.past_alarms = self.past_alarms.follow(&state, &attention);
        (state.log, state.control) = (log, control);
        if let Some((notices, notifier)) = &mut *self.shared.notices() {
            notices.of(&state).into_iter().for_each(&*notifier);
        }
        let hosts = Arc::new(HostFigures::of(&state));
        let alarms = serde_json::to_vec(&AlarmList::of(&state)).map(Bytes::from).unwrap_or_default();
        let state = serde_json::to_vec(&state).map(Bytes::from).unwrap_or_default();
        // JSON has no line feeds, so the data of the event are one line.
        let event = [b"event: state\ndata: ", &*state, b"\n\n"].concat().into();
        Tick { rows, state, event, alarms, hosts }
    }

    /// Adds the row of a snapshot, after those of ticks that were missed. Its number comes from a clock that never goes back.
    fn add_row(&mut self, snapshot: &Snapshot) -> u64 {
        let row = self.columns.row(snapshot, self.free_bytes);
        let passed_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let number = History::row_at(passed_ms);
        let mut history = self.shared.history();
        if number >= history.rows() {
            history.fill_up_to(number);
            history.push(&row);
            self.shared.values.add_row(number);
        }
        history.rows()
    }
}

#[cfg(test)]
mod tests;
