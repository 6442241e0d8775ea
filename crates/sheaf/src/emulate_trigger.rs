//! `sheaf emulate-trigger`: a trigger supervisor for tests, and for users without one.

mod account;
mod latency;
mod rules;

use crate::Verdict;
use crate::values::{self, ValueError};
use account::Account;
use anyhow::{Context, bail};
use clap::Args;
use latency::BusyLatencies;
use rules::{Bucket, DeadTimeRules, Spill};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sheaf_node::Clock;
use sheaf_node::trigger::{TriggerClock, TriggerRate};
use sheaf_protocol::trigger_link::{Supervisor, SupervisorEvent};
use sheaf_wire::times::Times;
use sheaf_wire::trigger_link::{
    Busy, FromManager, HEAD_BYTES, MAX_PAYLOAD_BYTES, Phase, ReceivedTriggers, declared_length,
};
use sheaf_wire::{EventId, Nanos, Timestamp, TriggerType};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes that wait for the connection before the emulator makes no more triggers.
const MAX_UNSENT: usize = 1 << 20;

/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);

/// Maximum number of due triggers that are made before messages are read.
const TRIGGERS_PER_ROUND: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct EmulateTriggerArguments {
    /// Address of the event manager: `trigger.network.listen` of its configuration.
    #[arg(value_name = "HOST:PORT")]
    address: String,
    /// Triggers per second.
    #[arg(long, value_name = "HZ", default_value_t = 1000.0, value_parser = positive)]
    rate: f64,
    /// Triggers at random times (Poisson) instead of equal distances.
    #[arg(long)]
    poisson: bool,
    /// Seed of the random times.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
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

pub(crate) fn command(arguments: &EmulateTriggerArguments) -> anyhow::Result<Verdict> {
    let stop = crate::signals::stop_flag()?;
    let stream = connect(arguments)?;
    let mut emulator = Emulator::new(arguments, stream);
    while emulator.account.is_none() && !emulator.is_cut_off {
        if stop.swap(false, Ordering::Relaxed) {
            emulator.supervisor.handle_end();
            // A second request does not wait for the account.
            emulator.is_cut_off = std::mem::replace(&mut emulator.is_stopped, true);
        }
        emulator.work()?;
    }
    let account =
        Account::new(&emulator.supervisor.totals(), emulator.account.as_ref(), emulator.latencies.summary());
    if arguments.json {
        crate::print::print_json(&account)?;
    } else {
        crate::print::print(&account.to_string())?;
    }
    if emulator.account.is_none() {
        bail!("the event manager at {} closed the connection without its account", arguments.address);
    }
    Ok(if account.agrees { Verdict::Good } else { Verdict::NotGood })
}

/// Returns the payload of a trigger.
fn payload(id: EventId, length: u32) -> Vec<u8> {
    let counting = (8..length).map(|at| at.to_le_bytes()[0]);
    id.0.to_le_bytes().into_iter().take(length as usize).chain(counting).collect()
}

fn connect(arguments: &EmulateTriggerArguments) -> anyhow::Result<TcpStream> {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(&arguments.address) {
            Ok(stream) => {
                stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true))?;
                return Ok(stream);
            }
            Err(_) if begin.elapsed() < Duration::from_secs(arguments.wait) => std::thread::sleep(RETRY),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot connect to the event manager at {}: does a run with `trigger.mode = \"network\"` listen there?",
                        arguments.address
                    )
                });
            }
        }
    }
}

struct Emulator<'a> {
    arguments: &'a EmulateTriggerArguments,
    clock: Clock,
    stream: TcpStream,
    supervisor: Supervisor,
    rules: DeadTimeRules,
    triggers: Option<TriggerClock>,
    started_at: Timestamp,
    received: Vec<u8>,
    unsent: Vec<u8>,
    account: Option<ReceivedTriggers>,
    busy_messages: u64,
    latencies: BusyLatencies,
    is_stopped: bool,
    is_cut_off: bool,
}

impl<'a> Emulator<'a> {
    fn new(arguments: &'a EmulateTriggerArguments, stream: TcpStream) -> Self {
        Self {
            arguments,
            clock: Clock::new(),
            latencies: BusyLatencies::new(&stream),
            stream,
            supervisor: Supervisor::new(&arguments.name),
            rules: DeadTimeRules::new(
                Nanos::from(Duration::from_secs_f64(arguments.dead_us * 1e-6)),
                arguments.bucket,
            ),
            triggers: None,
            started_at: Timestamp::ZERO,
            received: Vec::new(),
            unsent: Vec::new(),
            account: None,
            busy_messages: 0,
            is_stopped: false,
            is_cut_off: false,
        }
    }

    fn work(&mut self) -> anyhow::Result<()> {
        self.receive()?;
        let now = self.clock.now();
        while let Some(event) = self.supervisor.poll_event() {
            self.handle_event(now, event)?;
        }
        self.trigger(now);
        while let Some(message) = self.supervisor.poll_transmit() {
            self.unsent.extend_from_slice(&message.emit());
        }
        while let Some(event) = self.supervisor.poll_event() {
            self.handle_event(now, event)?;
        }
        self.flush()?;
        if self.account.is_none() && !self.is_cut_off {
            self.wait(now);
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
            SupervisorEvent::Account(account) => self.account = Some(account),
        }
        Ok(())
    }

    /// Makes the triggers that are due.
    fn trigger(&mut self, now: Timestamp) {
        let Some(clock) = &mut self.triggers else { return };
        for _ in 0..TRIGGERS_PER_ROUND {
            let limit = self.arguments.triggers;
            let sent = self.supervisor.sent();
            if limit.is_some_and(|limit| sent >= limit) {
                self.supervisor.handle_end();
            }
            if !self.supervisor.is_running() || self.unsent.len() > MAX_UNSENT {
                return;
            }
            let Some(time) = clock.pop_due(now) else { break };
            let since = time.since(self.started_at);
            if !self.arguments.spill.is_none_or(|spill| spill.has_beam(since)) {
                continue;
            }
            if self.rules.veto(time) {
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

    fn receive(&mut self) -> anyhow::Result<()> {
        loop {
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_cut_off = true,
                Ok(read) => {
                    self.received.extend_from_slice(&bytes[..read]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => self.is_cut_off = true,
            }
            break;
        }
        let now = self.clock.now();
        while let Some(head) = self.received.first_chunk::<HEAD_BYTES>() {
            let length = declared_length(head).context("a message of the event manager is invalid")?;
            if self.received.len() < length {
                break;
            }
            let message = FromManager::read(&self.received[..length])
                .context("a message of the event manager is invalid")?;
            self.received.drain(..length);
            if let FromManager::Busy(busy) = &message {
                self.latencies.note(now, busy);
            }
            self.supervisor.handle_input(now, message);
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_cut_off = true;
                    break;
                }
            }
        }
        // The account was exchanged: nothing may be left behind.
        if self.account.is_some() && !self.unsent.is_empty() {
            self.stream.set_nonblocking(false)?;
            let unsent = std::mem::take(&mut self.unsent);
            self.stream.write_all(&unsent).context("cannot send the account")?;
        }
        Ok(())
    }

    /// Sleeps until the next trigger, or until a message arrives.
    fn wait(&self, now: Timestamp) {
        let next = self.triggers.as_ref().filter(|_| self.supervisor.is_running()).map(TriggerClock::next);
        let limit = next.map_or(LONGEST_WAIT, |next| next.since(now).min(LONGEST_WAIT));
        let mut flags = PollFlags::IN;
        if !self.unsent.is_empty() {
            flags |= PollFlags::OUT;
        }
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::try_from(limit.0).unwrap_or(0) };
        // An interruption is as good as a wake-up.
        let _ = poll(&mut [PollFd::new(&self.stream, flags)], Some(&limit));
    }
}

/// The longest sleep, which bounds the delay of Ctrl-C.
const LONGEST_WAIT: Nanos = Nanos::from_millis(50);
