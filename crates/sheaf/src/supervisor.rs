//! The port for a trigger supervisor, and a supervisor that the event manager starts, from the configuration.

use crate::network;
use crate::plan::Plan;
use crate::programs::{self, EndingPrograms, Start};
use anyhow::Context;
use sheaf_config::{Config, TriggerCommand, TriggerMode, TriggerProtocol};
use sheaf_feed::environment;
use sheaf_node::Clock;
use sheaf_node::programs::{ProgramSetup, ProgramView, Programs};
use sheaf_node::trigger_door::{TriggerAccess, TriggerDoor, TriggerDoorOptions, TriggerTransport};
use sheaf_protocol::Identity;
use sheaf_protocol::trigger_link::ReceiverConfig;
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

/// Address for a trigger supervisor that Sheaf starts, if the configuration has none.
const FREE_PORT: &str = "127.0.0.1:0";

/// Name of the program in the log and in the summary.
const NAME: &str = "trigger";

/// Checks that the program that gives the triggers, if there is one, exists on this host.
///
/// # Errors
/// It cannot be started.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    find(config).map(drop)
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
    ) -> anyhow::Result<Option<TriggerDoor>> {
        let Config { trigger, .. } = &self.config;
        if !self.has_supervisor() {
            return Ok(None);
        }
        let listen = trigger.network.listen.as_deref().unwrap_or(FREE_PORT);
        let options = self.trigger_door_options(me, listen)?;
        let protocol = trigger.network.protocol;
        let door = TriggerDoor::open(options, waker, clock)
            .with_context(|| format!("cannot listen for a trigger supervisor at {listen} ({protocol})"))?;
        let has_evidence = self.key_of_guests().is_some()
            || (protocol == TriggerProtocol::Tcp && self.config.transport.tls.files().is_some());
        if !has_evidence && !door.address().ip().is_loopback() {
            let address = door.address();
            log::warn!(
                "any host that can reach {address} can give the triggers of this run; set `transport.key_file` or `transport.tls` unless the network is private"
            );
        }
        Ok(Some(match self.payload_target() {
            Some(source) => door.feeding(source).context("cannot feed the payloads of triggers")?,
            None => door,
        }))
    }

    fn trigger_door_options(&self, me: &Identity, listen: &str) -> anyhow::Result<TriggerDoorOptions> {
        let Config { trigger, .. } = &self.config;
        let network = &trigger.network;
        let (transport, tls) = match network.protocol {
            TriggerProtocol::Tcp => (TriggerTransport::Tcp, network::tls(self)?),
            TriggerProtocol::Udp => (TriggerTransport::Udp { silence: network.silence }, None),
        };
        let receiver = ReceiverConfig {
            queue: trigger.queue_events.into(),
            reserve: network.reserve(),
            first: trigger.first_event,
            max_payload: match network.payload_source {
                Some(_) => u32::try_from(network.payload_maximum.0).unwrap_or(u32::MAX),
                None => 0,
            },
            is_lossy: network.protocol == TriggerProtocol::Udp,
        };
        let access = TriggerAccess { key: self.key_of_guests(), tls, names: network.guest_names.clone() };
        Ok(TriggerDoorOptions { listen: listen.to_owned(), transport, access, run: me.run, receiver })
    }

    /// Starts the program that gives the triggers, if there is one. It connects to `address`. Its output goes to `directory`, if the run
    /// has one.
    pub(crate) fn start_supervisor(
        &self,
        me: &Identity,
        address: SocketAddr,
        (directory, waker): (Option<&Path>, Waker),
        ending: &EndingPrograms,
    ) -> anyhow::Result<Option<ProgramView>> {
        let Some(program) = find(&self.config)? else { return Ok(None) };
        let TriggerCommand { command, environment: own, directory: place } = &self.config.trigger.command;
        let arguments = command.iter().skip(1).map(OsString::from);
        let command = std::iter::once(program.into()).chain(arguments).collect();
        let mut variables = programs::variables(own);
        variables.push((ADDRESS.into(), reachable(address).to_string().into()));
        variables.push((PROTOCOL.into(), self.config.trigger.network.protocol.to_string().into()));
        variables.push((environment::RUN.into(), me.run.to_string().into()));
        if let Some(file) = &self.config.transport.key_file {
            let file = std::path::absolute(file).context("cannot determine the working directory")?;
            variables.push((KEY_FILE.into(), file.into()));
        }
        let start = Start {
            name: NAME.into(),
            sources: Vec::new(),
            arguments: programs::guarded(&self.config, command),
            variables,
            directory: place.clone(),
            is_own: false,
        };
        let log = directory.map(|directory| directory.join(format!("{}.{NAME}.log", me.node)));
        let setup = ProgramSetup {
            name: NAME.into(),
            sources: Vec::new(),
            awaited: false,
            log: log.filter(|_| self.config.source.command.log.is_some()),
            counts: false,
        };
        let (rules, launch) = (programs::rules(&self.config), programs::launcher(vec![start])?);
        let programs = Programs::start(me.node, vec![setup], rules, launch, waker)
            .context("correct [trigger.command]; its output up to then is in its log")?;
        let view = programs.view();
        ending.lock().unwrap_or_else(PoisonError::into_inner).push((self.full_name(me.node), programs));
        Ok(Some(view))
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
