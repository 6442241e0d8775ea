//! Findings about a standby event manager: whether it shares a host with the other one, and which voters are left without that host.

use super::wanted;
use crate::replicas::voters;
use sheaf_config::{Config, NodeConfig};
use sheaf_machine::doctor::{Finding, Group, Remedy, Severity};
use sheaf_wire::Role;
use std::net::{IpAddr, ToSocketAddrs as _};

/// Host of a node. Names of the same address are one host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// That of the run: an address of another one is not configured.
    OfTheRun,
    Address(IpAddr),
    /// A name that cannot be resolved here.
    Name(String),
}

/// Returns the findings about a standby, if the configuration has one.
pub(super) fn look(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let nodes = wanted::nodes(config)?;
    let mut managers = nodes.iter().filter(|node| node.id.role == Role::Manager);
    let (Some(first), Some(second)) = (managers.next(), managers.next()) else { return Ok(Vec::new()) };
    let mut findings = vec![of_hosts(first, second)];
    findings.extend(of_voters(config, &nodes, [first, second]));
    Ok(findings)
}

fn of_hosts(first: &NodeConfig, second: &NodeConfig) -> Finding {
    let (one, other) = (first.host(), second.host());
    let (severity, value, cost, advice) = if one != other {
        let value = format!("{} at {}, {} at {}", first.name, first.place(), second.name, second.place());
        let cost = "they may still share a switch or a power line, which only you can see";
        (Severity::Good, value, cost, None)
    } else {
        let value = format!("{} and {} are both at {}", first.name, second.name, first.place());
        let cost = "the standby survives the death of a process, and not that of the host";
        let advice = "give the second [[node]] with the role manager another host, switch and power line";
        (Severity::Warning, value, cost, Some(advice))
    };
    finding("standby.host", (severity, value, cost.to_owned()), advice)
}

/// Says whether the voters that are left without the host of an event manager are a majority. Where both event managers are on one
/// host, nobody is left to be voted for.
fn of_voters(config: &Config, nodes: &[NodeConfig], managers: [&NodeConfig; 2]) -> Option<Finding> {
    if managers[0].host() == managers[1].host() {
        return None;
    }
    let voters = voters(config, nodes);
    let beside = |manager: &NodeConfig| {
        let host = manager.host();
        let voting = nodes.iter().filter(|node| voters.contains(&node.id));
        voting.filter(|node| node.host() == host).map(|node| &*node.name).collect::<Vec<_>>()
    };
    let (manager, lost) =
        managers.map(|manager| (manager, beside(manager))).into_iter().max_by_key(|(_, lost)| lost.len())?;
    let left = voters.len() - lost.len();
    Some(if left * 2 > voters.len() {
        let value =
            format!("at least {left} of {} are left without the host of an event manager", voters.len());
        finding("standby.voters", (Severity::Good, value, String::new()), None)
    } else {
        let (lost, all, names) = (lost.len(), voters.len(), lost.join(", "));
        let value = format!("{lost} of {all} ({names}) are on the host of {}", manager.name);
        let cost = "if that host is lost, the voters that are left are no majority: nobody takes over, and the run ends".to_owned();
        let advice =
            "list the nodes so that the first readout units are on different hosts, or raise manager.voters";
        finding("standby.voters", (Severity::Warning, value, cost), Some(advice))
    })
}

fn finding(key: &str, said: (Severity, String, String), advice: Option<&str>) -> Finding {
    let (severity, value, cost) = said;
    Finding {
        group: Group::Standby,
        key: key.to_owned(),
        severity,
        value,
        source: "the configuration".to_owned(),
        cost,
        remedy: advice.map(|advice| Remedy::Advice(advice.to_owned())),
    }
}

/// Where a node runs, according to its configuration.
trait Placed {
    fn host(&self) -> Host;

    /// Its address, for people.
    fn place(&self) -> &str;
}

impl Placed for NodeConfig {
    fn host(&self) -> Host {
        let Some(address) = self.agent.as_ref().or(self.address.as_ref()) else { return Host::OfTheRun };
        match address.to_socket_addrs().ok().and_then(|mut found| found.next()) {
            Some(found) if found.ip().is_loopback() || found.ip().is_unspecified() => Host::OfTheRun,
            Some(found) => Host::Address(found.ip()),
            None => Host::Name(address.rsplit_once(':').map_or(&**address, |(name, _)| name).to_owned()),
        }
    }

    fn place(&self) -> &str {
        let address = self.agent.as_deref().or(self.address.as_deref());
        address.map_or("the host of the run", |address| {
            address.rsplit_once(':').map_or(address, |(name, _)| name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is found of two event managers and three readout units at these addresses.
    fn findings(places: [&str; 5]) -> Vec<(String, Severity, String)> {
        let [evm, evm1, ru0, ru1, ru2] = places;
        let nodes = [("evm", "manager", evm), ("evm1", "manager", evm1), ("ru0", "readout", ru0)];
        let nodes = nodes.into_iter().chain([("ru1", "readout", ru1), ("ru2", "readout", ru2)]);
        let nodes = nodes.chain([("bu0", "builder", "10.0.0.9")]);
        let table = |(port, (name, role, host)): (u16, (&str, &str, &str))| {
            format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"{host}:{port}\"\n")
        };
        let text: String = (7_000..).zip(nodes).map(table).collect();
        let config =
            Config::parse(&format!("[manager]\nstandby = 1\n{text}"), "run.toml").expect("it is valid");
        let found = look(&config).expect("its nodes are known");
        found.into_iter().map(|found| (found.key, found.severity, found.value)).collect()
    }

    #[test]
    fn event_managers_on_one_host_are_lost_with_it() {
        let found = findings(["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].0, found[0].1), ("standby.host", Severity::Warning));
        assert_eq!(found[0].2, "evm and evm1 are both at 10.0.0.1");
    }

    #[test]
    fn a_host_with_an_event_manager_must_leave_a_majority() {
        let apart = findings(["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        assert!(apart.iter().all(|(_, severity, _)| *severity == Severity::Good), "{apart:?}");
        let together = findings(["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"]);
        assert_eq!((&*together[1].0, together[1].1), ("standby.voters", Severity::Warning));
        assert_eq!(together[1].2, "2 of 3 (ru0, ru1) are on the host of evm1");
    }

    #[test]
    fn a_run_without_a_standby_has_none_of_these() {
        assert_eq!(look(&Config::default()).expect("its nodes are known"), []);
    }
}
