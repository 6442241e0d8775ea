//! When to call which address of a peer.

use super::notice::Notice;
use super::settings::TcpSettings;
use sheaf_wire::mix::mix64;
use sheaf_wire::{Nanos, NodeId};
use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The calling side of one connection to a peer.
#[derive(Debug)]
pub(super) struct Dialer {
    addresses: Vec<String>,
    /// Which rail, of how many.
    place: (usize, usize),
    state: State,
    /// Addresses that the present attempt has not tried yet.
    untried: VecDeque<Target>,
    /// Attempts since a link was last up.
    attempts: u32,
    /// Differs between pairs of nodes, so that they do not all call in the same instant.
    salt: u64,
}

/// Address to call, and its name in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// Name or address of the host, without the port.
    pub(super) host: String,
}

#[derive(Debug)]
enum State {
    /// Until then.
    Resting(Instant),
    /// A helper thread asks for the addresses.
    Resolving(Answer),
    /// A connection is being made, or is up.
    Busy,
}

type Answer = Arc<Mutex<Option<VecDeque<Target>>>>;

impl Dialer {
    /// The calling side of rail `rail` of `rails` from one node to another.
    pub(super) fn new(
        addresses: Vec<String>,
        (rail, rails): (usize, usize),
        from: NodeId,
        to: NodeId,
        now: Instant,
    ) -> Self {
        let pair = (u64::from(from.to_code()) << 32) | u64::from(to.to_code());
        Self {
            addresses: of_rail(addresses, rail, rails),
            place: (rail, rails),
            state: State::Resting(now),
            untried: VecDeque::new(),
            attempts: 0,
            salt: mix64(pair.wrapping_add(rail as u64)),
        }
    }

    /// When there is something to do, as far as time decides it.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Resting(until) => Some(until),
            State::Resolving(_) | State::Busy => None,
        }
    }

    /// Continues if it is time to. Returns `true` if there is an address to call: take it with
    /// [`Dialer::next_address`].
    pub(super) fn proceed(&mut self, now: Instant, notice: &Arc<Notice>) -> bool {
        match &self.state {
            State::Busy => false,
            State::Resting(until) if *until > now => false,
            State::Resting(_) => {
                self.attempts = self.attempts.saturating_add(1);
                self.look_up(notice)
            }
            State::Resolving(answer) => {
                let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
                match answer {
                    Some(addresses) => self.got(addresses),
                    None => false,
                }
            }
        }
    }

    /// The next address of this attempt. Without one the attempt is over: [`Dialer::rest`].
    pub(super) fn next_address(&mut self) -> Option<Target> {
        self.untried.pop_front()
    }

    /// Rests before the next attempt; gives its time.
    pub(super) fn rest(&mut self, settings: &TcpSettings, now: Instant) -> Instant {
        let until = now + self.pause(settings).to_std();
        self.untried.clear();
        self.state = State::Resting(until);
        until
    }

    /// Takes note that the link is up.
    pub(super) fn succeeded(&mut self) {
        self.attempts = 0;
        self.untried.clear();
    }

    /// Changes the peer's addresses from the next attempt on.
    pub(super) fn set_addresses(&mut self, addresses: Vec<String>) {
        self.addresses = of_rail(addresses, self.place.0, self.place.1);
    }

    /// Literal addresses are taken as they are. Names may take the resolver seconds, and it cannot be asked without
    /// blocking: a helper thread does it.
    fn look_up(&mut self, notice: &Arc<Notice>) -> bool {
        let target = |it: &String| Some(Target { address: it.parse().ok()?, host: host(it) });
        let literal: Option<VecDeque<Target>> = self.addresses.iter().map(target).collect();
        if let Some(addresses) = literal {
            return self.got(addresses);
        }
        let (names, notice, answer) = (self.addresses.clone(), notice.clone(), Answer::default());
        self.state = State::Resolving(answer.clone());
        let resolve = move || {
            let of_name = |name: &String| {
                let host = host(name);
                let target = move |address| Target { address, host: host.clone() };
                Some(name.to_socket_addrs().ok()?.map(target))
            };
            let found = names.iter().filter_map(of_name).flatten().collect();
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            notice.ring_for_the_resolver();
        };
        let helper = std::thread::Builder::new().name("sheaf-resolve".to_owned()).spawn(resolve);
        // No thread to be had: the attempt counts as one that found no address.
        helper.is_err() && self.got(VecDeque::new())
    }

    fn got(&mut self, addresses: VecDeque<Target>) -> bool {
        self.untried = addresses;
        self.state = State::Busy;
        true
    }

    /// Doubles with every attempt, plus up to a quarter that differs between pairs and attempts.
    fn pause(&self, settings: &TcpSettings) -> Nanos {
        let doublings = self.attempts.saturating_sub(1).min(16);
        let pause = settings.retry_min.0.saturating_mul(1 << doublings).min(settings.retry_max.0);
        let spread = mix64(self.salt.wrapping_add(u64::from(self.attempts))) % (pause / 4 + 1);
        Nanos::from(Duration::from_nanos(pause.saturating_add(spread)))
    }
}

/// The host of `host:port`, without the brackets of an IPv6 address.
pub(super) fn host(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned()
}

/// The addresses that a rail calls: all of them if it is the only one, else one.
fn of_rail(addresses: Vec<String>, rail: usize, rails: usize) -> Vec<String> {
    if rails == 1 || addresses.is_empty() {
        return addresses;
    }
    let place = rail % addresses.len();
    addresses.into_iter().skip(place).take(1).collect()
}
