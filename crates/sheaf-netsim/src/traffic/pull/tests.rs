use super::*;
use crate::scenario::{Assignment, Placement, SizeModel};
use crate::traffic::tests::{Ideal, RATE, events};

fn shape(outstanding: u32, credit_bytes: Option<u64>, request_bytes: u32) -> PullShape {
    PullShape { outstanding, credit_bytes, request_bytes }
}

/// A workload under watch: how many bytes were ever on their way to one builder.
#[derive(Clone)]
struct Watched {
    inner: Pull,
    under_way: Vec<u64>,
    most: u64,
}

impl Traffic for Watched {
    fn begin(&mut self, wake: &mut Wake) {
        self.inner.begin(wake);
    }

    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        let next = self.inner.next(sender, now);
        if let Next::Send(message) = next {
            let under_way = &mut self.under_way[message.destination.index()];
            *under_way += u64::from(message.bytes);
            self.most = self.most.max(*under_way);
        }
        next
    }

    fn delivered(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        self.under_way[message.destination.index()] -= u64::from(message.bytes);
        self.inner.delivered(message, now, wake);
    }

    fn lost(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        self.under_way[message.destination.index()] -= u64::from(message.bytes);
        self.inner.lost(message, now, wake);
    }
}

#[test]
fn credit_bounds_what_is_on_its_way_to_a_builder() {
    let apart = Placement::Apart { readouts: 6, builders: 2 };
    let traffic = events(apart, SizeModel::LogNormal { mean: 900.0, rms: 900.0 }, Assignment::RoundRobin);
    for credit in [500, 4_000, 20_000] {
        let inner = Pull::new(&traffic, shape(100, Some(credit), 0), 8, 3).unwrap();
        let watched = Watched { inner, under_way: vec![0; 8], most: 0 };
        let mut ideal = Ideal::new(watched, 8, RATE, Picos::from_micros(3));
        ideal.run_until(Picos::from_micros(2000));
        let largest = ideal.messages.iter().map(|(message, _)| u64::from(message.bytes)).max().unwrap();
        assert!(ideal.traffic.most <= credit.max(largest), "{} for {credit}", ideal.traffic.most);
        assert!(ideal.traffic.most > credit / 2, "{} for {credit}", ideal.traffic.most);
        assert!(ideal.traffic.inner.summary().events.unwrap().complete > 100);
    }
}

#[test]
fn a_request_travels_before_its_fragment() {
    let apart = Placement::Apart { readouts: 4, builders: 2 };
    let traffic = events(apart, SizeModel::Fixed(1000), Assignment::RoundRobin);
    let mut ideal =
        Ideal::new(Pull::new(&traffic, shape(1, None, 50), 6, 3).unwrap(), 6, RATE, Picos::from_nanos(500));
    ideal.run_until(Picos::from_micros(100));
    let requests = ideal.messages.iter().filter(|(message, _)| message.bytes == 50).count();
    let fragments = ideal.messages.iter().filter(|(message, _)| message.bytes == 1000).count();
    assert_eq!(requests + fragments, ideal.messages.len());
    assert!(requests >= fragments && fragments > 200, "{requests} requests, {fragments} fragments");
    let (first, at) = ideal.messages.iter().find(|(message, _)| message.bytes == 1000).unwrap();
    assert_eq!(*at, Picos::from_nanos(550), "one request and one way: {first:?}");
    // One event at a time, requested when the previous one has arrived: 2 paths and some requests and fragments.
    let latency = ideal.summary().event_latency.unwrap();
    assert!(latency.p50 >= Picos::from_nanos(1500), "{latency:?}");
}

#[test]
fn builders_begin_with_different_sources() {
    let traffic = events(Placement::Both, SizeModel::Fixed(1000), Assignment::RoundRobin);
    let mut ideal =
        Ideal::new(Pull::new(&traffic, shape(1, Some(1000), 0), 4, 3).unwrap(), 4, RATE, Picos::ZERO);
    ideal.run_until(Picos::from_nanos(999));
    let mut pairs: Vec<_> =
        ideal.messages.iter().map(|(message, _)| (message.source.0, message.destination.0)).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [(0, 0), (1, 1), (2, 2), (3, 3)]);
}

#[test]
fn bounds_of_nothing_are_refused() {
    let traffic = events(Placement::Both, SizeModel::Fixed(1000), Assignment::RoundRobin);
    assert!(Pull::new(&traffic, shape(0, None, 0), 4, 3).is_err());
    assert!(Pull::new(&traffic, shape(1, Some(0), 0), 4, 3).is_err());
}
