//! The port for a trigger supervisor, and a supervisor that the event manager starts, from the configuration: a program, or the
//! process of a library.

use crate::network;
use crate::own_program::own_program;
use crate::plan::Plan;
use crate::programs::{self, EndingPrograms, Start};
use anyhow::Context;
use sheaf_config::{Config, TriggerCommand, TriggerLibrary, TriggerMode, TriggerProtocol};
use sheaf_feed::environment;
use sheaf_key::RunKey;
use sheaf_node::Clock;
use sheaf_node::programs::{ProgramSetup, ProgramView, Programs};
use sheaf_node::trigger_door::{TriggerAccess, TriggerDoor, TriggerDoorOptions, TriggerTransport};
use sheaf_protocol::Identity;
use sheaf_protocol::trigger_link::ReceiverConfig;
use sheaf_telemetry::log_as;
use sheaf_wire::{ByteCount, Role, TimeBase};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::task::Waker;

/// Variable with the address of the event manager for its trigger supervisor, as `HOST:PORT`.
pub(crate) const ADDRESS: &str = "SHEAF_TRIGGER_ADDRESS";

/// Variable with the protocol at this address: `tcp` or `udp`.
pub(crate) const PROTOCOL: &str = "SHEAF_TRIGGER_PROTOCOL";

/// Variable with the path of the key file, if the run has one.
pub(crate) const KEY_FILE: &str = "SHEAF_TRIGGER_KEY_FILE";

/// Variable with the digits of the key that the process of a library shows.
pub(crate) const KEY: &str = "SHEAF_TRIGGER_KEY";

/// Address for a trigger supervisor that Sheaf starts, if the configuration has none.
const FREE_PORT: &str = "127.0.0.1:0";

/// Name of the program in the log and in the summary.
pub(crate) const NAME: &str = "trigger";

/// Checks that the program that gives the triggers, if there is one and this host starts it, exists on this host.
///
/// # Errors
/// It cannot be started.
pub(crate) fn check(plan: &Plan) -> anyhow::Result<()> {
    if plan.has_here(Role::Manager) { find(&plan.config).map(drop) } else { Ok(()) }
}

/// Returns the path of the program that gives the triggers, if there is one.
///
/// # Errors
/// It cannot be started.
fn find(config: &Config) -> anyhow::Result<Option<PathBuf>> {
    let TriggerCommand { command, directory, .. } = &config.trigger.command;
    if config.trigger.mode != TriggerMode::Command {
        return Ok(None);
    }
    let found = programs::find_command(command, directory.as_deref());
    found.map(Some).context("the trigger supervisor (`trigger.command.command`) cannot be started")
}

/// The port for the trigger supervisor of a run.
pub(crate) struct SupervisorDoor {
    pub(crate) door: TriggerDoor,
    /// Digits of the key of this port, if only the process of a library may connect.
    digits: Option<String>,
}

/// A supervisor to be started.
struct Supervisor {
    command: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    directory: Option<PathBuf>,
    is_own: bool,
}

impl Plan {
    /// Listens for the trigger supervisor, if there is one.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(crate) fn trigger_door(
        &self,
        me: &Identity,
        waker: Waker,
        clock: Clock,
    ) -> anyhow::Result<Option<SupervisorDoor>> {
        let Config { trigger, .. } = &self.config;
        if !self.has_supervisor() {
            return Ok(None);
        }
        let listen = trigger.network.listen.as_deref().unwrap_or(FREE_PORT);
        let (access, digits) = self.trigger_access()?;
        let has_evidence = access.key.is_some() || access.tls.is_some();
        let protocol = trigger.network.protocol;
        let options = self.trigger_door_options(me, listen, access);
        let door = TriggerDoor::open(options, waker, clock)
            .with_context(|| format!("cannot listen for a trigger supervisor at {listen} ({protocol})"))?;
        if !has_evidence && !door.address().ip().is_loopback() {
            let address = door.address();
            log_as!(
                OPEN_TO_STRANGERS;
                "any host that can reach {address} can give the triggers of this run; set `transport.key_file` or `transport.tls` unless the network is private"
            );
        }
        let door = match self.payload_target() {
            Some(source) => door.feeding(source).context("cannot feed the payloads of triggers")?,
            None => door,
        };
        Ok(Some(SupervisorDoor { door, digits }))
    }

    /// Returns the evidence that a supervisor must show, and the digits of the key if it is one for a process of this run alone.
    fn trigger_access(&self) -> anyhow::Result<(TriggerAccess, Option<String>)> {
        let Config { trigger, .. } = &self.config;
        if trigger.mode == TriggerMode::Library {
            // A connection of this host, to this port: it needs no certificate.
            let (key, digits) = RunKey::make_digits()?;
            return Ok((TriggerAccess { key: Some(key), ..TriggerAccess::default() }, Some(digits)));
        }
        let tls = match trigger.network.protocol {
            TriggerProtocol::Tcp => network::tls(self)?,
            TriggerProtocol::Udp => None,
        };
        let names = trigger.network.guest_names.clone();
        Ok((TriggerAccess { key: self.key_of_guests(), tls, names }, None))
    }

    fn trigger_door_options(&self, me: &Identity, listen: &str, access: TriggerAccess) -> TriggerDoorOptions {
        let Config { trigger, .. } = &self.config;
        let network = &trigger.network;
        let transport = match network.protocol {
            TriggerProtocol::Tcp => TriggerTransport::Tcp,
            TriggerProtocol::Udp => TriggerTransport::Udp { silence: network.silence },
        };
        let receiver = ReceiverConfig {
            queue: trigger.queue_events.into(),
            reserve: network.reserve(),
            first: trigger.first_event,
            max_payload: u32::try_from(self.max_trigger_payload().0).unwrap_or(u32::MAX),
            is_lossy: network.protocol == TriggerProtocol::Udp,
        };
        let time_base = self.time_base.unwrap_or(TimeBase::NANOSECONDS);
        TriggerDoorOptions { listen: listen.to_owned(), transport, access, run: me.run, receiver, time_base }
    }

    /// Returns the largest payload of a trigger; 0 if triggers have none.
    fn max_trigger_payload(&self) -> ByteCount {
        let network = &self.config.trigger.network;
        network.payload_source.map_or(ByteCount::ZERO, |_| network.payload_maximum)
    }

    /// Starts the supervisor, if the run has one to start. It connects to `door`. Its output goes to `directory`, if the run has one.
    pub(crate) fn start_supervisor(
        &self,
        me: &Identity,
        door: &SupervisorDoor,
        (directory, waker): (Option<&Path>, Waker),
        ending: &EndingPrograms,
    ) -> anyhow::Result<Option<ProgramView>> {
        let Some(supervisor) = self.supervisor(door)? else { return Ok(None) };
        let Supervisor { command, mut variables, directory: place, is_own } = supervisor;
        let address = reachable(door.door.address());
        variables.push((ADDRESS.into(), address.to_string().into()));
        variables.push((environment::RUN.into(), me.run.to_string().into()));
        let arguments = programs::guarded(&self.config, command);
        let sources = Vec::new();
        let start = Start { name: NAME.into(), sources, arguments, variables, directory: place, is_own };
        let log = directory.map(|directory| directory.join(format!("{}.{NAME}.log", me.node)));
        let setup = ProgramSetup {
            name: NAME.into(),
            sources: Vec::new(),
            awaited: false,
            log: log.filter(|_| self.config.source.command.log.is_some()),
            counts: is_own,
        };
        let (rules, launch) = (programs::rules(&self.config), programs::launcher(vec![start])?);
        let correct = || {
            let mode = self.config.trigger.mode;
            format!("correct [trigger.{mode}]; its output up to then is in its log")
        };
        let programs = Programs::start(me.node, vec![setup], rules, launch, waker).with_context(correct)?;
        let view = programs.view();
        ending.lock().unwrap_or_else(PoisonError::into_inner).push((self.full_name(me.node), programs));
        Ok(Some(view))
    }

    /// Returns the supervisor that the run starts, if any.
    fn supervisor(&self, door: &SupervisorDoor) -> anyhow::Result<Option<Supervisor>> {
        match &door.digits {
            Some(digits) => self.library_supervisor(digits).map(Some),
            None => self.program_supervisor(),
        }
    }

    /// Returns the program that gives the triggers, if there is one.
    fn program_supervisor(&self) -> anyhow::Result<Option<Supervisor>> {
        let Some(program) = find(&self.config)? else { return Ok(None) };
        let TriggerCommand { command, environment, directory } = &self.config.trigger.command;
        let arguments = command.iter().skip(1).map(OsString::from);
        let mut variables = programs::variables(environment);
        variables.push((PROTOCOL.into(), self.config.trigger.network.protocol.to_string().into()));
        if let Some(file) = &self.config.transport.key_file {
            let file = std::path::absolute(file).context("cannot determine the working directory")?;
            variables.push((KEY_FILE.into(), file.into()));
        }
        Ok(Some(Supervisor {
            command: std::iter::once(program.into()).chain(arguments).collect(),
            variables,
            directory: directory.clone(),
            is_own: false,
        }))
    }

    /// Returns the process that polls the library of triggers.
    fn library_supervisor(&self, digits: &str) -> anyhow::Result<Supervisor> {
        let TriggerLibrary { path, symbol, parameters, batch_triggers } = self.loading().trigger.library;
        let path = path.context("`trigger.library.path` is not set")?;
        let path = std::path::absolute(path).context("cannot determine the working directory")?;
        let sheaf = own_program().context("cannot determine the path of this program")?;
        let mut command: Vec<OsString> = vec![sheaf.into(), "poll-trigger".into()];
        command.extend(["--library".into(), path.into(), "--symbol".into(), symbol.into()]);
        command.push(format!("--parameters={parameters}").into());
        command.push(format!("--max-payload={}", self.max_trigger_payload().0).into());
        command.push(format!("--batch={batch_triggers}").into());
        let variables = vec![(KEY.into(), digits.into())];
        Ok(Supervisor { command, variables, directory: None, is_own: true })
    }
}

/// Returns an address at which a program of this host reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
