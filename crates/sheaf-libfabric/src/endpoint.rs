//! The endpoint: rounds over the links, sleep, and the port.

use super::link::{Link, Peer};
use super::memory::{Buffer, Memory};
use super::port::{self, Done, Port, c_string};
use super::settings::{LibfabricError, LibfabricOptions, LibfabricSettings, RESERVE, buffer_bytes};
use rustix::event::{PollFd, PollFlags, Timespec};
use sheaf_tcp::{TcpEndpoint, TcpOptions};
use sheaf_transport::kernel_polls::KernelPolls;
use sheaf_transport::mixed::PollableEndpoint;
use sheaf_transport::peers::PeerIndex;
use sheaf_transport::round::Round;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{ByteCount, Nanos, NodeId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Number of reads of the completion queue before a sleep.
const SPINS: u32 = 50;

/// The first and the longest pause between two polls, if the provider has no descriptor to wait for.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// Duration of a sleep while an operation is to be retried: nothing signals that the provider has room, or that the
/// node drops a frame.
const RETRY_PAUSE: Duration = Duration::from_micros(200);

/// The kernel's interface has no larger times.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// A node's place in a network of libfabric.
#[derive(Debug)]
pub struct LibfabricEndpoint {
    pub(super) settings: LibfabricSettings,
    pub(super) provider: String,
    pub(super) name: Vec<u8>,
    pub(super) session: u64,
    pub(super) port: Port,
    pub(super) memory: Arc<Memory>,
    /// Buffers to receive into, and to send from: the last one was used last.
    pub(super) free: Vec<Buffer>,
    pub(super) unused: Vec<Buffer>,
    /// Whose message is sent from a buffer (by place): the peer and the token of the link.
    pub(super) senders: Vec<Option<(usize, u64)>>,
    /// Buffers beyond all windows that are to be posted.
    pub(super) spare_unposted: usize,
    /// Maximum number of messages in flight from a peer, and from this node to a peer.
    pub(super) window: usize,
    pub(super) sends: usize,
    /// The TCP side: greetings, hellos and farewells, and the detection of dead peers.
    pub(super) meeting: TcpEndpoint,
    pub(super) index: PeerIndex,
    pub(super) peers: Vec<Peer>,
    pub(super) links_made: u64,
    /// Events from before any link came up.
    pub(super) happened: VecDeque<Event>,
    pub(super) finished: Vec<Done>,
    kernel_polls: KernelPolls,
    round: Round,
    /// Whether a queue that had refused a frame has room.
    pub(super) room_made: bool,
    pub(super) closing: bool,
    pub(super) stats: LinkStats,
}

impl LibfabricEndpoint {
    /// An endpoint; it begins to call its peers when it is first polled.
    ///
    /// # Errors
    /// Options that cannot work, a provider that is not there, or no memory.
    pub fn new(options: LibfabricOptions) -> Result<Self, LibfabricError> {
        let LibfabricOptions { node, run, session, listener, peers, provider, source, settings } = options;
        settings.check()?;
        let nodes: Vec<NodeId> = peers.iter().map(|peer| peer.node).collect();
        let of_meeting = settings.of_meeting(peers.len());
        let meeting =
            TcpEndpoint::new(TcpOptions { node, run, session, listener, peers, settings: of_meeting })?;
        let index = PeerIndex::new(nodes.iter().copied()).map_err(sheaf_tcp::TcpError::NamedTwice)?;
        let mut port = open(&provider, source.as_deref())?;
        let failed = |what| {
            let provider = provider.clone();
            move |fault| LibfabricError::Failed { provider, what, fault }
        };
        let share = Share::of(&settings, &port, nodes.len())?;
        let (memory, buffers) =
            Memory::new(share.receives + share.all_sends, share.buffer_bytes).map_err(|source| {
                LibfabricError::Memory {
                    bytes: ByteCount::from(
                        (share.receives + share.all_sends).saturating_mul(share.buffer_bytes),
                    ),
                    source: source.into(),
                }
            })?;
        port.attach(memory.clone(), buffers.len()).map_err(failed("register memory"))?;
        let name = port.name().map_err(failed("name its endpoint"))?;
        let mut unused = buffers;
        let free = unused.split_off(share.all_sends);
        let mut endpoint = Self {
            settings,
            provider,
            name,
            session: session.0,
            port,
            memory,
            senders: vec![None; free.len() + unused.len()],
            free,
            unused,
            spare_unposted: nodes.len() * RESERVE,
            window: share.window,
            sends: share.sends,
            meeting,
            index,
            peers: nodes.into_iter().map(Peer::new).collect(),
            links_made: 0,
            happened: VecDeque::new(),
            finished: Vec::new(),
            kernel_polls: KernelPolls::default(),
            round: Round::default(),
            room_made: false,
            closing: false,
            stats: LinkStats::default(),
        };
        endpoint.peers.iter_mut().for_each(|peer| peer.unposted = share.window);
        endpoint.post();
        Ok(endpoint)
    }

    /// Changes the addresses of a peer that this node calls, from the next attempt to connect on.
    pub fn set_addresses(&mut self, peer: NodeId, addresses: Vec<String>) {
        self.meeting.set_addresses(peer, addresses);
    }

    /// Has all peers prove that they have the key of the run, as this node proves it to them, where they meet. To be called before
    /// the first poll.
    pub fn authenticate(&mut self, key: sheaf_key::RunKey) {
        self.meeting.authenticate(key);
    }

    fn begin_round(&mut self) {
        self.advance();
        if self.kernel_polls.are_due() {
            self.look();
        }
    }

    /// Polls the TCP side.
    pub(super) fn look(&mut self) {
        self.kernel_polls.note();
        while let Some(event) = self.meeting.poll() {
            self.handle_event(event);
        }
        self.begin_again();
        self.meeting.flush();
    }

    fn poll_peer(&mut self, place: usize) -> Option<Event> {
        let event = self.peers[place].hand_out()?;
        if matches!(event, Event::Received { .. }) {
            self.round.note_frame();
        }
        self.count(&event);
        Some(event)
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Received { frame, .. } => {
                self.stats.frames_received += 1;
                self.stats.bytes_received += frame.bytes() as u64;
            }
            Event::PeerUp { .. } => self.stats.links_up += 1,
            Event::PeerDown { .. } => self.stats.links_down += 1,
            Event::Refused { .. } => {}
        }
    }

    /// Keeps received frames for a driver that does not poll while it closes: otherwise no credit would be returned for
    /// them.
    fn keep_what_came(&mut self) {
        for place in 0..self.peers.len() {
            while let Some(event) = self.peers[place].hand_out() {
                self.count(&event);
                self.happened.push_back(event);
            }
        }
    }

    /// Returns whether there is an event to return.
    fn something_is_there(&self) -> bool {
        self.round.is_in_progress()
            || !self.happened.is_empty()
            || self.peers.iter().any(|peer| !peer.ready.is_empty())
    }

    /// Returns whether an operation must be retried for which there is no notification.
    fn must_retry(&self) -> bool {
        let unposted = |peer: &Peer| peer.unposted > 0 || peer.again_at.is_some();
        let stuck = |peer: &Peer| {
            let unsaid = |link: &Link| link.remote.is_some() && !link.is_up && !link.probing;
            peer.link.as_ref().is_some_and(|link| link.stuck.is_some() || unsaid(link))
        };
        self.spare_unposted > 0 || self.peers.iter().any(|peer| unposted(peer) || stuck(peer))
    }

    /// Progress, and whether a driver has reason to get up for it.
    fn stirs(&mut self) -> bool {
        self.advance();
        self.flush_links();
        self.room_made || self.something_is_there()
    }

    /// Sleeps at most `longest`.
    fn sleep(&mut self, longest: Duration) -> bool {
        self.stats.sleeps += 1;
        let longest = longest.min(LONGEST_SLEEP);
        let mut pause = PAUSES.0;
        let end = Instant::now() + longest;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let met = match self.port.readiness() {
                Some(Err(())) => false,
                Some(Ok(queue)) => {
                    self.stats.system_calls += 1;
                    let queue = PollFd::from_borrowed_fd(queue, PollFlags::IN);
                    let meeting = PollFd::from_borrowed_fd(self.meeting.readiness(), PollFlags::IN);
                    let mut both = [meeting, queue];
                    let left = if self.must_retry() { left.min(RETRY_PAUSE) } else { left };
                    sleep_on(&mut both, left);
                    !both[0].revents().is_empty()
                }
                None => {
                    self.stats.system_calls += 1;
                    let mut meeting = [PollFd::from_borrowed_fd(self.meeting.readiness(), PollFlags::IN)];
                    sleep_on(&mut meeting, left.min(pause));
                    pause = (pause * 2).min(PAUSES.1);
                    !meeting[0].revents().is_empty()
                }
            };
            let stirs = self.stirs() || met;
            if stirs || Instant::now() >= end {
                return stirs;
            }
        }
    }

    fn queue(&mut self, place: usize, frame: Frame) -> Result<(), SendError> {
        let closing = self.closing;
        let peer = &mut self.peers[place];
        let remote = peer.link.as_ref().filter(|link| link.is_up && !closing).and_then(|link| link.remote);
        let (Some(remote), Some(link)) = (remote, &mut peer.link) else {
            self.stats.refused_not_connected += 1;
            return Err(SendError::NotConnected(frame));
        };
        let bytes = frame.bytes();
        if bytes > remote.max_frame_bytes {
            self.stats.refused_too_large += 1;
            let limit = ByteCount::from(remote.max_frame_bytes);
            return Err(SendError::TooLarge { frame, limit });
        }
        if let Err(frame) = link.outgoing.push(frame) {
            peer.refused = true;
            self.stats.refused_full += 1;
            return Err(SendError::Full(frame));
        }
        self.stats.frames_sent += 1;
        self.stats.bytes_sent += bytes as u64;
        Ok(())
    }
}

/// Sleeps on descriptors. A signal ends the sleep early; the following polls find nothing.
fn sleep_on(descriptors: &mut [PollFd<'_>], longest: Duration) {
    let _ = rustix::event::poll(descriptors, Timespec::try_from(longest).ok().as_ref());
}

fn open(provider: &str, source: Option<&str>) -> Result<Port, LibfabricError> {
    let text = |text: &str| c_string(text).ok_or_else(|| LibfabricError::BadText(text.to_owned()));
    let of_source = source.map(text).transpose()?;
    port::load().map_err(|reason| LibfabricError::Library { reason })?;
    Port::open(&text(provider)?, of_source.as_deref()).map_err(|fault| LibfabricError::NoProvider {
        provider: provider.to_owned(),
        source_address: source.map(str::to_owned),
        fault,
    })
}

/// Division of the memory.
struct Share {
    buffer_bytes: usize,
    /// Buffers to receive into.
    receives: usize,
    /// Messages that each peer may send before it is granted more.
    window: usize,
    /// Messages that may be under way to each peer, and to all.
    sends: usize,
    all_sends: usize,
}

impl Share {
    fn of(settings: &LibfabricSettings, port: &Port, peers: usize) -> Result<Self, LibfabricError> {
        let facts = port.facts();
        let limit = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let buffer_bytes = buffer_bytes(settings, facts.max_message_bytes);
        let receives = settings.receive_bytes.as_usize() / buffer_bytes;
        let each = receives.min(limit(facts.receives)) / peers.max(1);
        let sends = limit(facts.sends) / peers.max(1);
        if each <= RESERVE || sends <= RESERVE {
            let have = receives.min(limit(facts.receives)).min(limit(facts.sends));
            return Err(LibfabricError::TooFewBuffers { have, peers });
        }
        let (window, sends) = (settings.window.min(each - RESERVE), settings.window.min(sends - RESERVE));
        Ok(Self { buffer_bytes, receives, window, sends, all_sends: (sends + RESERVE) * peers.max(1) })
    }
}

impl Endpoint for LibfabricEndpoint {
    fn node(&self) -> NodeId {
        self.meeting.node()
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        let Some(place) = self.index.place(to) else {
            self.stats.refused_unknown_peer += 1;
            return Err(SendError::UnknownPeer(frame));
        };
        self.queue(place, frame)
    }

    fn flush(&mut self) {
        self.post();
        self.flush_links();
    }

    fn poll(&mut self) -> Option<Event> {
        if self.round.begin() {
            self.begin_round();
        }
        if let Some(event) = self.happened.pop_front() {
            return Some(event);
        }
        while let Some(place) = self.round.turn(self.peers.len()) {
            if let Some(event) = self.poll_peer(place) {
                return Some(event);
            }
            self.round.pass();
        }
        // Frames that a turn has left are in `ready`, which keeps the endpoint from sleeping.
        self.round.end();
        None
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        if std::mem::take(&mut self.room_made) || self.something_is_there() {
            return;
        }
        for _ in 0..SPINS {
            if self.stirs() {
                self.room_made = false;
                return;
            }
            std::hint::spin_loop();
        }
        // The next round polls the TCP side in any case.
        self.kernel_polls.hasten();
        if let Some(longest) = self.meeting.lie_down(timeout) {
            let woken = self.sleep(longest);
            self.stats.wake_ups += u64::from(woken);
            self.meeting.get_up();
        }
        self.room_made = false;
    }

    fn waker(&self) -> Waker {
        self.meeting.waker()
    }

    fn stats(&self) -> LinkStats {
        let of_meeting = self.meeting.stats();
        let mut stats = self.stats;
        stats.system_calls += of_meeting.system_calls;
        stats.connects_begun = of_meeting.connects_begun;
        stats.connects_failed = of_meeting.connects_failed;
        stats.links_refused += of_meeting.links_refused;
        stats.links_unproven += of_meeting.links_unproven;
        stats.links_in_use += of_meeting.links_in_use;
        stats.accepts_failed = of_meeting.accepts_failed;
        let joined = |peer: &Peer| peer.link.as_ref().map_or(0, |link| link.incoming.bytes_copied);
        stats.bytes_copied += self.peers.iter().map(joined).sum::<u64>();
        stats
    }

    fn close(&mut self, linger: Nanos) {
        self.closing = true;
        let end = Instant::now().checked_add(linger.to_std());
        let left = || end.map_or(linger.to_std(), |end| end.saturating_duration_since(Instant::now()));
        loop {
            self.advance();
            self.keep_what_came();
            self.flush();
            self.look();
            self.say_farewell();
            let open = |peer: &Peer| peer.link.as_ref().is_some_and(|link| link.is_up && !link.is_done());
            if !self.peers.iter().any(open) || left() == Duration::ZERO {
                break;
            }
            self.meeting.wait(Nanos::from(RETRY_PAUSE.min(left())));
        }
        for place in 0..self.peers.len() {
            let done = self.peers[place].link.as_ref().is_some_and(Link::is_done);
            self.end(place, if done { DownReason::Closed } else { DownReason::Lost });
        }
        self.meeting.close(Nanos::from(left()));
        while let Some(event) = self.meeting.poll() {
            if let Event::PeerDown { peer, .. } = event {
                let met = self.index.place(peer);
                met.into_iter().for_each(|place| self.peers[place].is_met = false);
            }
        }
    }
}
