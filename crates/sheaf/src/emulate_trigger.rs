//! `sheaf emulate-trigger`: a trigger supervisor for tests, and for users without one.

mod account;
mod latency;
mod listed;
mod rules;

use crate::trigger_connection::{Connection, ConnectionOptions};
use crate::values::{self, ValueError};
use crate::{Verdict, network, supervisor};
use account::Account;
use anyhow::{Context, bail};
use clap::Args;
use latency::BusyLatencies;
use listed::ListedTriggers;
use rules::{Bucket, DeadTimeRules, Spill};
use sheaf_config::{Config, TriggerProtocol};
use sheaf_key::RunKey;
use sheaf_node::Clock;
use sheaf_node::trigger::{TriggerClock, TriggerRate};
use sheaf_protocol::trigger_link::{Supervisor, SupervisorEvent};
use sheaf_tcp::Tls;
use sheaf_wire::times::Times;
use sheaf_wire::trigger_link::{Busy, FromManager, MAX_PAYLOAD_BYTES, Phase, ReceivedTriggers};
use sheaf_wire::{EventId, Nanos, Timestamp, TriggerType};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time for which the last message is sent again, if the event manager does not acknowledge it.
const FAREWELL: Duration = Duration::from_secs(2);

/// Maximum number of due triggers that are made before messages are read.
const TRIGGERS_PER_ROUND: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct EmulateTriggerArguments {
    /// Address of the event manager: `trigger.network.listen` of its configuration. A supervisor that a run has started needs none:
    /// address, protocol and key are in its environment.
    #[arg(value_name = "HOST:PORT", value_parser = values::host_and_port)]
    address: Option<String>,
    /// Use UDP instead of TCP (`trigger.network.protocol`).
    #[arg(long)]
    udp: bool,
    /// Key file of the run (`transport.key_file`), for a run that has a key [default: that of `--config`].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// PEM files for a run that requires TLS [default: those of `--config`].
    #[arg(long, value_names = ["CERTIFICATE", "KEY", "AUTHORITY"], num_args = 3)]
    tls: Option<Vec<PathBuf>>,
    /// Configuration whose key, certificate and protocol are used.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Triggers per second.
    #[arg(long, value_name = "HZ", default_value_t = 1000.0, value_parser = positive)]
    rate: f64,
    /// Triggers at random times (Poisson) instead of equal distances.
    #[arg(long)]
    poisson: bool,
    /// Seed of the random times.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Triggers at the times in a text file, one a line, each with its type if it is not `--type`. They are sent without a pause, except
    /// while the run is busy, and the program ends after the last.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "poisson", "spill", "dead_us", "bucket", "skip_every"])]
    times: Option<PathBuf>,
    /// Spills of an accelerator: triggers only during the first time of each cycle of both.
    #[arg(long, value_name = "ON_MS,OFF_MS")]
    spill: Option<Spill>,
    /// Simple dead time: vetoes triggers for this time after each one that was sent.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0.0, value_parser = not_negative)]
    dead_us: f64,
    /// Complex dead time: at most about this number of triggers in this time (a leaky bucket).
    #[arg(long, value_name = "TRIGGERS,MICROSECONDS")]
    bucket: Option<Bucket>,
    /// Type of the triggers.
    #[arg(long = "type", value_name = "NUMBER", default_value_t = 0)]
    kind: u16,
    /// Payload of each trigger, in bytes: its id in the first 8 bytes, the least significant first, then bytes that count.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=MAX_PAYLOAD_BYTES as i64))]
    payload: u32,
    /// Ends after this time of the run, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    duration: Option<f64>,
    /// Ends after this number of sent triggers.
    #[arg(long, value_name = "NUMBER")]
    triggers: Option<u64>,
    /// Leaves out one id after this number of triggers, as a faulty counter does.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    skip_every: Option<u64>,
    /// Name, for the log of the run.
    #[arg(long, default_value = "emulated trigger")]
    name: String,
    /// Waits for the event manager for at most this time, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, ValueError> {
    values::positive(text, "a number")
}

fn not_negative(text: &str) -> Result<f64, ValueError> {
    values::not_negative(text, "a number")
}

impl EmulateTriggerArguments {
    /// Returns the connection that the arguments describe; without an address, that of the environment of a started supervisor.
    fn connection(&self) -> anyhow::Result<ConnectionOptions> {
        let own = self.config.as_deref().map(Config::load).transpose()?;
        let transport = own.as_ref().map(|own| &own.transport);
        let of_run = |name| std::env::var_os(name).filter(|_| self.address.is_none());
        let address = match &self.address {
            Some(address) => address.clone(),
            None => std::env::var(supervisor::ADDRESS).context(
                "no run has started this program; give the address of the event manager, HOST:PORT",
            )?,
        };
        let file = self.key.clone().or_else(|| transport.and_then(|it| it.key_file.clone()));
        let file = file.or_else(|| of_run(supervisor::KEY_FILE).map(PathBuf::from));
        let files = match &self.tls {
            Some(files) => <&[PathBuf; 3]>::try_from(&files[..]).ok().map(|files| files.each_ref()),
            None => transport.and_then(|transport| transport.tls.files()),
        };
        let is_udp = self.udp
            || of_run(supervisor::PROTOCOL).is_some_and(|protocol| protocol == "udp")
            || own.as_ref().is_some_and(|own| own.trigger.network.protocol == TriggerProtocol::Udp);
        Ok(ConnectionOptions {
            address,
            name: self.name.clone(),
            protocol: if is_udp { TriggerProtocol::Udp } else { TriggerProtocol::Tcp },
            key: file.as_deref().map(RunKey::load).transpose()?,
            tls: files.map(|files| Tls::load(&network::tls_files(files))).transpose()?,
            patience: Duration::from_secs(self.wait),
        })
    }
}

pub(crate) fn command(arguments: &EmulateTriggerArguments) -> anyhow::Result<Verdict> {
    let stop = crate::signals::stop_flag()?;
    let mut emulator = Emulator::new(arguments)?;
    while !emulator.is_over() {
        if stop.swap(false, Ordering::Relaxed) {
            emulator.supervisor.handle_end();
            // A second request does not wait for the account.
            emulator.has_given_up = std::mem::replace(&mut emulator.is_stopped, true);
        }
        emulator.work()?;
    }
    if emulator.connection.is_cut_off() && !emulator.connection.is_welcome() {
        let address = emulator.connection.address();
        bail!(
            "the event manager at {address} closed the connection before its welcome; if it uses TLS, pass `--tls`"
        );
    }
    let account =
        Account::new(&emulator.supervisor.totals(), emulator.account.as_ref(), emulator.latencies.summary());
    if arguments.json {
        crate::print::print_json(&account)?;
    } else {
        crate::print::print(&account.to_string())?;
    }
    if emulator.account.is_none() {
        bail!(
            "the event manager at {} closed the connection without its account",
            emulator.connection.address()
        );
    }
    Ok(if account.agrees { Verdict::Good } else { Verdict::NotGood })
}

/// Returns the payload of a trigger.
fn payload(id: EventId, length: u32) -> Vec<u8> {
    let counting = (8..length).map(|at| at.to_le_bytes()[0]);
    id.0.to_le_bytes().into_iter().take(length as usize).chain(counting).collect()
}

struct Emulator<'a> {
    arguments: &'a EmulateTriggerArguments,
    clock: Clock,
    connection: Connection,
    supervisor: Supervisor,
    rules: DeadTimeRules,
    triggers: Option<TriggerClock>,
    listed: Option<ListedTriggers>,
    started_at: Timestamp,
    account: Option<ReceivedTriggers>,
    /// When the accounts were exchanged.
    account_at: Option<Instant>,
    busy_messages: u64,
    latencies: BusyLatencies,
    is_stopped: bool,
    has_given_up: bool,
}

impl<'a> Emulator<'a> {
    fn new(arguments: &'a EmulateTriggerArguments) -> anyhow::Result<Self> {
        let clock = Clock::new();
        let listed = |path: &PathBuf| ListedTriggers::load(path, TriggerType(arguments.kind));
        let listed = arguments.times.as_ref().map(listed).transpose()?;
        let connection = Connection::open(arguments.connection()?, clock.now())?;
        Ok(Self {
            arguments,
            clock,
            latencies: BusyLatencies::new(connection.is_same_host()),
            supervisor: connection.supervisor(),
            connection,
            rules: DeadTimeRules::new(
                Nanos::from(Duration::from_secs_f64(arguments.dead_us * 1e-6)),
                arguments.bucket,
            ),
            triggers: None,
            listed,
            started_at: Timestamp::ZERO,
            account: None,
            account_at: None,
            busy_messages: 0,
            is_stopped: false,
            has_given_up: false,
        })
    }

    /// Returns whether nothing more is to be done: the accounts were exchanged, or the event manager has gone.
    fn is_over(&self) -> bool {
        let is_left = |at: Instant| self.connection.is_flushed() || at.elapsed() >= FAREWELL;
        self.connection.is_cut_off() || self.has_given_up || self.account_at.is_some_and(is_left)
    }

    fn work(&mut self) -> anyhow::Result<()> {
        let now = self.clock.now();
        for message in self.connection.receive(now)? {
            if let FromManager::Busy(busy) = &message {
                self.latencies.note(self.clock.now(), busy);
            }
            self.supervisor.handle_input(now, message);
        }
        self.handle_events(now)?;
        self.trigger(now);
        self.connection.send(now, &mut self.supervisor);
        self.handle_events(now)?;
        if !self.is_over() {
            let next =
                self.triggers.as_ref().filter(|_| self.supervisor.is_running()).map(TriggerClock::next);
            let limit = next.map_or(LONGEST_WAIT, |next| next.since(self.clock.now()).min(LONGEST_WAIT));
            // Listed triggers that are left are sent as soon as the connection takes them.
            let limit = if self.listed.is_some() { limit.min(LOOK_AGAIN) } else { limit };
            self.connection.wait(now, limit, None);
        }
        Ok(())
    }

    fn handle_events(&mut self, now: Timestamp) -> anyhow::Result<()> {
        while let Some(event) = self.supervisor.poll_event() {
            self.handle_event(now, event)?;
        }
        Ok(())
    }

    fn handle_event(&mut self, now: Timestamp, event: SupervisorEvent) -> anyhow::Result<()> {
        match event {
            SupervisorEvent::Welcome { max_payload, .. } if max_payload < self.arguments.payload => {
                bail!(
                    "the run takes payloads of at most {max_payload} bytes: see `trigger.network.payload_source` and `payload_maximum_bytes` of its configuration"
                );
            }
            SupervisorEvent::Welcome { run, next, .. } => {
                log::info!("connected to run {run}; the next trigger is {next}");
            }
            SupervisorEvent::Phase(Phase::Running) => {
                let EmulateTriggerArguments { rate: rate_hz, poisson, seed, .. } = *self.arguments;
                let rate = match poisson {
                    true => TriggerRate::Poisson { rate_hz, seed },
                    false => TriggerRate::Fixed { rate_hz },
                };
                self.started_at = now;
                self.triggers = Some(TriggerClock::new(rate, now));
                log::info!("the run takes triggers");
            }
            SupervisorEvent::Phase(_) | SupervisorEvent::Busy(Busy { reason: None, .. }) => {}
            SupervisorEvent::Busy(Busy { reason: Some(reason), .. }) => {
                self.busy_messages += 1;
                if let Some(times) = Times::to_log(self.busy_messages) {
                    log::info!("busy: {}{times}", reason.cause.name());
                }
            }
            SupervisorEvent::Refused { text, .. } => bail!("the event manager refuses: {text}"),
            SupervisorEvent::Account(account) => {
                self.account = Some(account);
                self.account_at = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// Sends listed triggers while the run is not busy.
    fn trigger_listed(&mut self) {
        let Some(listed) = &mut self.listed else { return };
        for _ in 0..TRIGGERS_PER_ROUND {
            let limit = self.arguments.triggers;
            let next = listed.peek().filter(|_| limit.is_none_or(|limit| self.supervisor.sent() < limit));
            if next.is_none() && self.triggers.is_some() {
                self.supervisor.handle_end();
            }
            let can_send = self.supervisor.is_running() && self.connection.has_room();
            let Some((time, kind)) = next.filter(|_| can_send && self.supervisor.busy().is_none()) else {
                return;
            };
            let bytes = self.arguments.payload;
            if self.supervisor.handle_trigger(time, kind, 0, |id| payload(id, bytes)).is_err() {
                return;
            }
            listed.advance();
        }
    }

    /// Makes the triggers that are due.
    fn trigger(&mut self, now: Timestamp) {
        if self.listed.is_some() {
            self.trigger_listed();
            return;
        }
        let Some(clock) = &mut self.triggers else { return };
        for _ in 0..TRIGGERS_PER_ROUND {
            let limit = self.arguments.triggers;
            let sent = self.supervisor.sent();
            if limit.is_some_and(|limit| sent >= limit) {
                self.supervisor.handle_end();
            }
            if !self.supervisor.is_running() || !self.connection.has_room() {
                return;
            }
            let Some(time) = clock.pop_due(now) else { break };
            let since = time.since(self.started_at);
            if !self.arguments.spill.is_none_or(|spill| spill.has_beam(since)) {
                continue;
            }
            if self.connection.is_deaf(now) || self.rules.veto(time) {
                self.supervisor.veto_own();
            } else if self
                .supervisor
                .handle_trigger(time, TriggerType(self.arguments.kind), 0, |id| {
                    payload(id, self.arguments.payload)
                })
                .is_ok()
            {
                self.rules.note(time);
                if self.arguments.skip_every.is_some_and(|every| (sent + 1).is_multiple_of(every)) {
                    self.supervisor.skip(1);
                }
            }
        }
        let end = self.arguments.duration.map(|seconds| Nanos::from(Duration::from_secs_f64(seconds)));
        if end.is_some_and(|end| now.since(self.started_at) >= end) {
            self.supervisor.handle_end();
        }
    }
}

/// Time after which listed triggers for which there was no room are tried again.
const LOOK_AGAIN: Nanos = Nanos::from_millis(1);

/// The longest sleep, which bounds the delay of Ctrl-C.
const LONGEST_WAIT: Nanos = Nanos::from_millis(50);
