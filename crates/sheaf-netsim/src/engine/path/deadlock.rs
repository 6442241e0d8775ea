//! Messages that wait for one another in a loop. They never move again: a message keeps what it holds while it waits,
//! and waits for one thing at a time.

use super::body::Bodies;
use super::links::Links;
use super::messages::Messages;
use super::messages::NONE;
use crate::network::{LinkEnd, LinkId, Network};
use crate::report::Check;

/// Searches for a loop, and names its links.
pub(super) fn check(network: &Network, links: &Links, messages: &Messages, bodies: &Bodies) -> Check {
    let cycle = find(&Obstacles::new(network, links, messages, bodies));
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

/// Returns the links that are waited for in a loop, each held by the message that waits for the next one.
fn find(obstacles: &Obstacles) -> Option<Vec<LinkId>> {
    // In which search a message was seen: a search that comes back to its own trace has found a circle.
    let mut seen = vec![NONE; obstacles.0.len()];
    for start in 0..u32::try_from(obstacles.0.len()).expect("messages are numbered by 32 bits") {
        let mut at = start;
        while seen[at as usize] == NONE {
            seen[at as usize] = start;
            let Some((_, next)) = obstacles.of(at) else { break };
            at = next;
            if seen[at as usize] == start {
                return Some(circle(obstacles, at));
            }
        }
    }
    None
}

/// The links of the circle through `start`.
fn circle(obstacles: &Obstacles, start: u32) -> Vec<LinkId> {
    let mut named = Vec::new();
    let mut at = start;
    while let Some((link, next)) = obstacles.of(at) {
        named.push(link);
        at = next;
        if at == start {
            break;
        }
    }
    named
}

/// The obstacle of each message within the network: the link, and the message that holds it.
struct Obstacles(Vec<Option<(LinkId, u32)>>);

impl Obstacles {
    fn new(network: &Network, links: &Links, messages: &Messages, bodies: &Bodies) -> Self {
        let mut obstacles = vec![None; messages.count()];
        for (number, holder) in (0..).map(LinkId).zip(messages.holders(network.links.len())) {
            // No message holds a rail in the idle time after a message.
            if holder == NONE {
                continue;
            }
            for waiting in links.waiting(number, messages) {
                obstacles[waiting as usize] = Some((number, holder));
            }
        }
        for (message, obstacle) in (0_u32..).zip(&mut obstacles) {
            if bodies.is_behind(message) {
                let link = messages.last_link(message);
                *obstacle = Some((link, bodies.first(link)));
            }
        }
        Self(obstacles)
    }

    fn of(&self, message: u32) -> Option<(LinkId, u32)> {
        self.0[message as usize]
    }
}

fn name(network: &Network, link: LinkId) -> String {
    let place = |place: LinkEnd| match place {
        LinkEnd::Endpoint(endpoint) => format!("endpoint {}", endpoint.0),
        LinkEnd::Switch(switch) => format!("switch {}", switch.0),
    };
    let ends = &network.links[link.index()];
    format!("link {} from {} to {}", link.0, place(ends.from), place(ends.to))
}
