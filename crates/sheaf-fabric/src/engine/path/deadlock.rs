//! Messages that wait for one another in a circle. They never move again: a message keeps what it holds while it waits,
//! and waits for one thing at a time.

use super::body::Bodies;
use super::links::{Links, NONE};
use super::messages::Messages;
use crate::network::{LinkId, Network, Place};
use crate::report::Check;

/// Looks for a circle, and names its links.
pub(super) fn check(network: &Network, links: &Links, messages: &Messages, bodies: &Bodies) -> Check {
    let cycle = find(network, links, messages, bodies);
    let detail = match &cycle {
        None => "no messages wait for one another in a circle".to_owned(),
        Some(cycle) => {
            let names: Vec<String> = cycle.iter().map(|&link| name(network, link)).collect();
            format!(
                "{} messages wait for one another in a circle: for {}",
                cycle.len(),
                names.join(", then ")
            )
        }
    };
    Check { name: "deadlock", pass: cycle.is_none(), detail }
}

/// The links that are waited for in a circle, each held by the message that waits for the next one.
fn find(network: &Network, links: &Links, messages: &Messages, bodies: &Bodies) -> Option<Vec<LinkId>> {
    // In which search a message was seen: a search that comes back to its own trace has found a circle.
    let mut seen = vec![NONE; messages.count()];
    for start in 0..u32::try_from(messages.count()).expect("messages are numbered by 32 bits") {
        let mut at = start;
        while seen[at as usize] == NONE {
            seen[at as usize] = start;
            let Some((_, next)) = obstacle(network, links, messages, bodies, at) else { break };
            at = next;
            if seen[at as usize] == start {
                return Some(circle(network, links, messages, bodies, at));
            }
        }
    }
    None
}

/// The links of the circle through `start`.
fn circle(network: &Network, links: &Links, messages: &Messages, bodies: &Bodies, start: u32) -> Vec<LinkId> {
    let mut named = Vec::new();
    let mut at = start;
    while let Some((link, next)) = obstacle(network, links, messages, bodies, at) {
        named.push(link);
        at = next;
        if at == start {
            break;
        }
    }
    named
}

/// What a message waits for inside the network: the link, and the message that is in the way.
fn obstacle(
    network: &Network,
    links: &Links,
    messages: &Messages,
    bodies: &Bodies,
    message: u32,
) -> Option<(LinkId, u32)> {
    if let Some(wanted) = messages.waits_for(message) {
        let in_network = matches!(network.links[wanted.index()].from, Place::Switch(_));
        let holder = links.holder(wanted);
        return (in_network && holder != NONE).then_some((wanted, holder));
    }
    if messages.chain(message).is_empty() {
        return None;
    }
    let link = messages.last_link(message);
    bodies.before(message, link).map(|first| (link, first))
}

fn name(network: &Network, link: LinkId) -> String {
    let place = |place: Place| match place {
        Place::Endpoint(endpoint) => format!("endpoint {}", endpoint.0),
        Place::Switch(switch) => format!("switch {}", switch.0),
    };
    let ends = &network.links[link.index()];
    format!("link {} from {} to {}", link.0, place(ends.from), place(ends.to))
}
