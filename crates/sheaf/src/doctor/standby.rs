//! Findings about a standby event manager: whether it shares a host with the other one, and which voters are left without that host.

use super::wanted;
use crate::address::resolve;
use crate::replicas::voters;
use sheaf_config::{Config, NodeConfig, host_of};
use sheaf_machine::doctor::{Finding, Group, Remedy, Severity};
use sheaf_wire::Role;
use std::net::IpAddr;

/// Host of a node. Names of the same address are one host.
#[derive(PartialEq, Eq)]
enum Host {
    /// That of the run: an address of another one is not configured.
    OfTheRun,
    Address(IpAddr),
    /// A name that cannot be resolved here.
    Name(String),
}

/// A node, and where it runs according to its configuration.
struct Placed<'a> {
    name: &'a str,
    /// For people.
    place: &'a str,
    host: Host,
}

impl<'a> Placed<'a> {
    fn of(node: &'a NodeConfig) -> Self {
        let Some(address) = node.agent.as_deref().or(node.address.as_deref()) else {
            return Self { name: &node.name, place: "the host of the run", host: Host::OfTheRun };
        };
        let place = host_of(address);
        let host = match resolve(address).map(|found| found.ip()) {
            Ok(found) if found.is_loopback() || found.is_unspecified() => Host::OfTheRun,
            Ok(found) => Host::Address(found),
            Err(_) => Host::Name(place.to_owned()),
        };
        Self { name: &node.name, place, host }
    }
}

/// Returns the findings about a standby, if the configuration has one.
pub(super) fn look(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let nodes = wanted::nodes(config)?;
    let managers: Vec<_> =
        nodes.iter().filter(|node| node.id.role == Role::Manager).map(Placed::of).collect();
    let [first, second] = &managers[..] else { return Ok(Vec::new()) };
    let mut findings = vec![of_hosts(first, second)];
    // Where both are lost with one host, nobody is left to be voted for.
    if first.host != second.host {
        let voters = voters(config, &nodes);
        let voting: Vec<_> = nodes.iter().filter(|node| voters.contains(&node.id)).map(Placed::of).collect();
        findings.extend(of_voters(&managers, &voting));
    }
    Ok(findings)
}

fn of_hosts(first: &Placed<'_>, second: &Placed<'_>) -> Finding {
    let (severity, value, cost, advice) = if first.host != second.host {
        let value = format!("{} at {}, {} at {}", first.name, first.place, second.name, second.place);
        let cost = "they may still share a switch or a power line, which only you can see";
        (Severity::Good, value, cost, None)
    } else {
        let value = format!("{} and {} are both at {}", first.name, second.name, first.place);
        let cost = "the standby survives the death of a process, and not that of the host";
        let advice = "give the second [[node]] with the role manager another host, switch and power line";
        (Severity::Warning, value, cost, Some(advice))
    };
    finding("standby.host", (severity, value, cost), advice)
}

/// Says whether the voters that are left without the host of an event manager are a majority.
fn of_voters(managers: &[Placed<'_>], voting: &[Placed<'_>]) -> Option<Finding> {
    let beside = |manager: &Placed<'_>| {
        let there = voting.iter().filter(|voter| voter.host == manager.host);
        there.map(|voter| voter.name).collect::<Vec<_>>()
    };
    let lost = managers.iter().map(|manager| (manager.name, beside(manager)));
    let (manager, lost) = lost.max_by_key(|(_, lost)| lost.len())?;
    let (all, left) = (voting.len(), voting.len() - lost.len());
    Some(if left * 2 > all {
        let value = format!("at least {left} of {all} are left without the host of an event manager");
        finding("standby.voters", (Severity::Good, value, ""), None)
    } else {
        let value = format!("{} of {all} ({}) are on the host of {manager}", lost.len(), lost.join(", "));
        let cost = "if that host is lost, the voters that are left are no majority: nobody takes over, and the run ends";
        let advice =
            "list the nodes so that the first readout units are on different hosts, or raise manager.voters";
        finding("standby.voters", (Severity::Warning, value, cost), Some(advice))
    })
}

fn finding(key: &str, said: (Severity, String, &str), advice: Option<&str>) -> Finding {
    let (severity, value, cost) = said;
    Finding {
        group: Group::Standby,
        key: key.to_owned(),
        severity,
        value,
        source: "the configuration".to_owned(),
        cost: cost.to_owned(),
        remedy: advice.map(|advice| Remedy::Advice(advice.to_owned())),
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
