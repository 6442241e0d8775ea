//! Sources of a readout unit: the amount held of each, and its progress.

use super::Blockage;
use super::config::{Announce, ReadoutConfig, SourceConfig};
use super::delay::Delay;
use super::reached::Reached;
use super::renumbering::Delivered;
use super::room::{CountedSize, Room};
use crate::event_range::EventIdRange;
use rustc_hash::FxHashMap;
use sheaf_wire::message::ReadoutStatus;
use sheaf_wire::{ByteCount, EventId, Fragment, MissingReason, Nanos, SourceId, Timestamp};

/// All sources, by index in the order of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    inputs: Vec<Input>,
    by_source: FxHashMap<SourceId, usize>,
    /// Source of the last fragment, which usually delivers the next one, too.
    last: usize,
    /// Whether some source has ended.
    some_ended: bool,
    /// Maximum payload held of one source for events that are not requested.
    share: u64,
    /// Maximum number of fragments held of one source for events that are not requested.
    share_events: usize,
    /// First event of the run, for the room.
    first: EventId,
    /// Timeout for silent sources, and its maximum for measured delays.
    merge_timeout: Nanos,
    longest_merge: Nanos,
    /// Highest event that was requested.
    requested: Option<EventId>,
    /// Whether a fragment has been refused since the last status.
    refused: bool,
}

/// Events that sources should have reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    requested: Option<EventId>,
    /// The highest event of which some source has given a fragment.
    given: Option<EventId>,
}

/// Fragments held of one source, and its progress.
#[derive(Clone, Debug)]
struct Input {
    id: SourceId,
    optional: bool,
    /// Whether an operator has excluded it.
    excluded: bool,
    /// Whether its events are announced.
    announced: bool,
    /// Whether the end of this source implies the end of triggers.
    makes_events: bool,
    ended: bool,
    held_events: usize,
    held: ByteCount,
    /// Size as which its fragments count for its room.
    size: CountedSize,
    reached: Reached,
    /// Event of its last fragment.
    last: Option<EventId>,
    /// Whether its data wait until they are taken: such a source is never silent, only behind.
    keeps_data: bool,
    /// Whether it gives windows of its hits on request, in any order. It is never silent, nor behind.
    on_request: bool,
    /// The program that feeds it.
    program: Program,
    /// Time of its last fragment, in the node's own time.
    gave_at: Timestamp,
    delay: Delay,
    /// Event of the fragment that was refused for lack of room, until it is taken.
    held_back: Option<EventId>,
}

impl Inputs {
    pub(super) fn new(config: &ReadoutConfig, now: Timestamp) -> Self {
        let by_source = config.sources.iter().enumerate().map(|(index, source)| (source.id, index)).collect();
        Self {
            inputs: config
                .sources
                .iter()
                .map(|source| Input::new(source, config.announce, config.size_window, now))
                .collect(),
            by_source,
            last: 0,
            some_ended: false,
            share: config.buffer.0 / (config.sources.len() as u64).max(1),
            share_events: config.buffer_events,
            first: config.room_from.unwrap_or(EventId(0)),
            merge_timeout: config.merge_timeout,
            longest_merge: config.longest_merge,
            requested: None,
            refused: false,
        }
    }

    /// Returns the events that sources should have reached by now.
    pub(super) fn due(&self) -> Due {
        let given = self.inputs.iter().filter_map(|input| input.reached.near());
        Due { requested: self.requested, given: given.max() }
    }

    /// Returns whether a source has not given what others wait for: a requested event, or the next one that it announces.
    pub(super) fn is_behind(&self, index: usize, due: Due) -> bool {
        let input = &self.inputs[index];
        let given = due.given.filter(|_| input.announced);
        let is_behind = due.requested.max(given) > input.reached.near();
        is_behind && !input.ended && !input.on_request && !input.excluded
    }

    /// Returns the index of a source, and makes it the [`last`](Self::last).
    #[inline]
    pub(super) fn find(&mut self, source: SourceId) -> Option<usize> {
        if self.inputs.get(self.last).is_none_or(|input| input.id != source) {
            self.last = self.index_of(source)?;
        }
        Some(self.last)
    }

    pub(super) fn index_of(&self, source: SourceId) -> Option<usize> {
        self.by_source.get(&source).copied()
    }

    /// Returns the source that was found last.
    #[inline]
    pub(super) fn last(&self) -> Option<(usize, SourceId)> {
        self.inputs.get(self.last).map(|input| (self.last, input.id))
    }

    pub(super) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the events of the fragments that a source has delivered.
    pub(super) fn delivered(&self, index: usize) -> Delivered {
        let Input { last, reached, .. } = self.inputs[index];
        Delivered { last, highest: reached.highest(), highest_near: reached.highest_near() }
    }

    pub(super) fn is_optional(&self, index: usize) -> bool {
        self.inputs[index].optional
    }

    /// Returns whether the events of a source are announced.
    #[inline]
    pub(super) fn is_announced(&self, index: usize) -> bool {
        self.inputs[index].announced
    }

    /// Returns whether the share of a source has room for its next fragment.
    #[inline]
    pub(super) fn has_room(&self, index: usize, bytes: usize) -> bool {
        self.inputs[index].has_room(bytes, self.share, self.share_events)
    }

    /// Returns whether there is room for the next fragment of a source if its event is requested.
    pub(super) fn has_room_if_asked(&self, index: usize, bytes: usize) -> bool {
        let (share, events) = (self.share.saturating_mul(2), self.share_events.saturating_mul(2));
        self.inputs[index].has_room(bytes, share, events)
    }

    /// Records a fragment that is refused for lack of room.
    pub(super) fn refuse(&mut self, index: usize, event: EventId) {
        self.refused = true;
        self.inputs[index].held_back = Some(event);
    }

    /// Records a fragment. Returns whether a fragment of a higher event preceded it.
    pub(super) fn note(&mut self, index: usize, own: Timestamp, event: EventId) -> bool {
        let input = &mut self.inputs[index];
        input.note_given(own);
        input.delay.note_fragment(own, event);
        input.last = Some(event);
        input.reached.note(event) && !input.on_request
    }

    fn note_given<P>(&mut self, index: usize, own: Timestamp, fragments: &[Fragment<P>]) {
        let input = &mut self.inputs[index];
        input.note_given(own);
        input.last = fragments.last().map(|fragment| fragment.event).or(input.last);
        if let Some(last) = fragments.last().filter(|_| input.delay.is_measured()) {
            let has =
                |event: EventId| fragments.binary_search_by_key(&event, |fragment| fragment.event).is_ok();
            input.delay.note_run(own, last.event, has);
        }
    }

    /// Records a fragment that belongs to no event that may have it.
    pub(super) fn note_dropped(&mut self, index: usize, own: Timestamp) {
        self.inputs[index].note_given(own);
    }

    /// Records a request for events, which sources may not have delivered.
    pub(super) fn note_request(&mut self, own: Timestamp, events: EventIdRange) {
        self.requested = self.requested.max(events.last());
        for input in self.inputs.iter_mut().filter(|input| !input.is_awaited()) {
            if let Some(event) = events.first_above(input.reached.highest()) {
                input.delay.note_request(own, event);
            }
        }
    }

    /// Records that an event is answered without a silent source.
    pub(super) fn note_given_up(&mut self, index: usize, event: EventId) {
        self.inputs[index].delay.note_given_up(event);
    }

    /// Begins a run of fragments of one source. It ends with [`Self::end_run`], before anything else reads this source.
    #[inline]
    pub(super) fn begin_run(&self, index: usize) -> FragmentRun {
        let Input { reached, held_events, held, .. } = self.inputs[index];
        let (share, share_events) = (self.share, self.share_events);
        FragmentRun { reached, held_events, held: held.0, share, share_events, bytes: 0, largest: 0 }
    }

    /// Records the fragments of a run.
    pub(super) fn end_run<P>(
        &mut self,
        index: usize,
        own: Timestamp,
        run: FragmentRun,
        fragments: &[Fragment<P>],
    ) {
        let input = &mut self.inputs[index];
        (input.reached, input.held_events, input.held) = (run.reached, run.held_events, ByteCount(run.held));
        input.size.note(fragments.len(), run.largest as u64);
        self.note_given(index, own, fragments);
    }

    #[inline]
    pub(super) fn hold(&mut self, index: usize, bytes: usize) {
        self.inputs[index].hold(bytes);
    }

    #[inline]
    pub(super) fn let_go(&mut self, index: usize, bytes: usize) {
        self.inputs[index].let_go(bytes);
    }

    /// Returns the payload held of all sources.
    pub(super) fn held(&self) -> ByteCount {
        ByteCount(self.inputs.iter().map(|input| input.held.0).sum())
    }

    /// Returns the room of a source, where `released` is the highest event that was released. Unlimited if no event can wait for the
    /// source. A source that is excluded may return with any event, so the number of its fragments is limited as before.
    pub(super) fn room_of(&self, index: usize, released: Option<EventId>) -> Room {
        let input = &self.inputs[index];
        if input.optional || input.ended || input.on_request {
            return Room::UNLIMITED;
        }
        let after = |event: EventId| EventId(event.0.saturating_add(1));
        let next = input.reached.highest().max(released).map_or(self.first, after);
        let share = if input.excluded { u64::MAX } else { self.share };
        input.room(share, self.share_events, next)
    }

    /// Returns the room of all sources.
    pub(super) fn room(&self, released: Option<EventId>) -> Room {
        let rooms = (0..self.inputs.len()).map(|index| self.room_of(index, released));
        rooms.fold(Room::UNLIMITED, Room::least)
    }

    /// Records the end of a source. Returns its index unless the end was recorded before.
    pub(super) fn end(&mut self, source: SourceId) -> Option<usize> {
        let index = self.index_of(source)?;
        if std::mem::replace(&mut self.inputs[index].ended, true) {
            return None;
        }
        self.some_ended = true;
        Some(index)
    }

    /// Returns whether some source has ended.
    #[inline]
    pub(super) fn some_ended(&self) -> bool {
        self.some_ended
    }

    /// Records whether an operator has excluded a source. A fragment of it for which there was no room is not awaited any more.
    pub(super) fn note_excluded(&mut self, index: usize, excluded: bool) {
        let input = &mut self.inputs[index];
        input.excluded = excluded;
        input.held_back = None;
    }

    pub(super) fn is_excluded(&self, index: usize) -> bool {
        self.inputs[index].excluded
    }

    pub(super) fn has_ended(&self, index: usize) -> bool {
        self.inputs[index].ended
    }

    /// Returns whether a source that is not silent, since its data wait, has no fragment for an event: it delivered a later one.
    pub(super) fn has_skipped(&self, index: usize, event: EventId) -> bool {
        let input = &self.inputs[index];
        !input.on_request
            && input.is_awaited()
            && (input.reached.is_beyond(event) || input.is_held_back_after(event))
    }

    /// Returns the reason for which a source that has ended is missing in an event.
    pub(super) fn reason_of_end(&self, index: usize, event: EventId) -> MissingReason {
        let reached = &self.inputs[index].reached;
        match reached.highest() {
            _ if self.inputs[index].on_request => MissingReason::SourceEnded,
            None => MissingReason::SourceAbsent,
            Some(_) if reached.is_beyond(event) => MissingReason::SourceSkipped,
            Some(_) => MissingReason::SourceEnded,
        }
    }

    /// Records that the data of a source wait until they are taken.
    pub(super) fn keep_data(&mut self, source: SourceId) {
        if let Some(index) = self.index_of(source) {
            self.inputs[index].keeps_data = true;
        }
    }

    /// Records that a source gives its hits on request.
    pub(super) fn answer_on_request(&mut self, source: SourceId) {
        if let Some(index) = self.index_of(source) {
            let input = &mut self.inputs[index];
            (input.keeps_data, input.on_request) = (true, true);
            // Where sources make the events, this one answers for those of others, to the end of the run.
            input.makes_events &= !input.announced;
            input.announced = false;
        }
    }

    /// Returns the first source for whose next fragment there is no room.
    pub(super) fn blockage(&self) -> Option<Blockage> {
        self.inputs.iter().filter(|input| !input.ended).find_map(|input| {
            let (held_fragments, held) = (input.held_events, input.held);
            let event = input.held_back?;
            Some(Blockage { source: input.id, event, held_fragments, held, awaited: None })
        })
    }

    /// Returns whether a source gives its hits on request.
    pub(super) fn answers_on_request(&self, index: usize) -> bool {
        self.inputs[index].on_request
    }

    pub(super) fn id_of(&self, index: usize) -> SourceId {
        self.inputs[index].id
    }

    /// Takes note that the program that feeds a source has gone, or is back.
    pub(super) fn note_gone(&mut self, own: Timestamp, source: SourceId, gone: bool) {
        if let Some(index) = self.index_of(source) {
            let input = &mut self.inputs[index];
            (input.program, input.gave_at) = match gone {
                true => (Program::Gone, input.gave_at),
                false => (Program::Back, own),
            };
        }
    }

    /// Takes note that the run begins, and that the programs that have connected before will deliver all of it.
    pub(super) fn begin_programs(&mut self) {
        for input in self.inputs.iter_mut().filter(|input| input.program == Program::Back) {
            input.program = Program::Here;
        }
    }

    /// Returns the program that feeds a source.
    pub(super) fn program(&self, index: usize) -> Program {
        self.inputs[index].program
    }

    /// Returns whether a source is sending but has not reached the event, so that it is late because of its own or this node's load,
    /// and not silent. A source that this unit holds back is not silent either, nor is one whose data wait. A source is silent if it
    /// has delivered nothing for longer than the limit of its measured delay since its last fragment, or since its program is back.
    ///
    /// A source whose data wait is given up if its next fragment belongs to a later event and found no room for as long as
    /// `longest_merge`. Otherwise the event would wait for a fragment that was lost, and the room for the end of the event.
    pub(super) fn is_on_its_way(&self, index: usize, own: Timestamp, event: EventId) -> bool {
        let input = &self.inputs[index];
        if input.on_request {
            return !input.ended;
        }
        let is_awaited = input.is_awaited()
            && !input.excluded
            && !(input.is_held_back_after(event) && own.since(input.gave_at) >= self.longest_merge);
        let limit = input.delay.limit(self.merge_timeout, self.longest_merge);
        let speaks = own.since(input.delay.silent_since(input.gave_at)) < limit;
        let sends = !input.ended && (is_awaited || speaks);
        let may_begin = is_awaited || input.program == Program::Back;
        let is_behind = input.reached.highest().map_or(may_begin, |highest| highest < event);
        (sends && is_behind) || input.is_held_back_before(event)
    }

    /// Returns whether the next fragment of a source has no room and belongs to a later event than this one.
    pub(super) fn is_held_back_after(&self, index: usize, event: EventId) -> bool {
        let input = &self.inputs[index];
        !input.ended && input.is_held_back_after(event)
    }

    /// Returns whether the next fragment of some source has no room and belongs to this event or an earlier one.
    pub(super) fn some_held_back_before(&self, event: EventId) -> bool {
        self.inputs.iter().any(|input| input.is_held_back_before(event))
    }

    /// Returns the status to report, with `events` events held and this room, where some excluded sources are returning. Resets the
    /// record of refused fragments, which is per report.
    pub(super) fn take_status(
        &mut self,
        events: usize,
        room: Room,
        state: DriverState,
        is_returning: impl Fn(usize) -> bool,
    ) -> ReadoutStatus {
        let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let makes_events = |(_, input): &(usize, &Input)| input.makes_events;
        // Nobody waits for the end of a source that is excluded. One that is to return will make events: without it a run could end
        // before the first of them.
        let ends = |(index, input): &(usize, &Input)| input.ended || input.excluded && !is_returning(*index);
        let makers = || self.inputs.iter().enumerate().filter(makes_events);
        let (sources, sources_ended) = (count(makers().count()), count(makers().filter(ends).count()));
        ReadoutStatus {
            sources,
            sources_ended,
            buffered_events: count(events),
            buffered: self.held(),
            busy: std::mem::take(&mut self.refused),
            processing: state.processing,
            waiting: state.waiting,
            declines: state.declines,
            has_divided: false,
            room_until: room.until,
            room_events: u32::try_from(room.events).unwrap_or(u32::MAX),
        }
    }
}

/// Returns whether a fragment of `bytes` fits, where so many fragments and bytes are held, and at most so many may be.
#[inline]
fn has_room(held: (usize, u64), bytes: usize, most: (usize, u64)) -> bool {
    // The first fragment always fits; otherwise a share smaller than a fragment would block the source forever.
    held.0 == 0 || (held.1 + bytes as u64 <= most.1 && held.0 < most.0)
}

/// Consecutive fragments of one source that are in the order of their events and find room.
///
/// It has a copy of what each fragment changes, so that this stays in registers until the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentRun {
    reached: Reached,
    held_events: usize,
    held: u64,
    share: u64,
    share_events: usize,
    /// Payload of the run.
    bytes: u64,
    /// Size of its largest fragment.
    largest: usize,
}

impl FragmentRun {
    /// Returns whether a fragment continues the run: it is in order and has room.
    #[inline]
    pub(super) fn takes(&self, event: EventId, bytes: usize) -> bool {
        self.reached.highest().is_none_or(|highest| event > highest)
            && has_room((self.held_events, self.held), bytes, (self.share_events, self.share))
    }

    /// Holds a fragment that continues the run.
    #[inline]
    pub(super) fn hold(&mut self, event: EventId, bytes: usize) {
        self.reached.rise(event);
        self.held_events += 1;
        self.held += bytes as u64;
        self.bytes += bytes as u64;
        self.largest = self.largest.max(bytes);
    }

    /// Returns the payload of the run.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Program that feeds a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// It delivers the events, or the source needs no program.
    Here,
    /// It has gone, and may come back.
    Gone,
    /// It is back and has delivered nothing so far. It may lack events that were triggered before it came back: an earlier program
    /// has lost them, or an earlier session of this unit had accepted them. If all builder units waited for such events without
    /// limit, there would be no further trigger, and the program would have nothing to deliver.
    Back,
}

/// State of the unit that only its driver knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DriverState {
    /// It processes fragments before they leave.
    pub(super) processing: bool,
    /// Programs that feed its sources are awaited before the run can start.
    pub(super) waiting: bool,
    /// One of these programs declines the start.
    pub(super) declines: bool,
}

impl Input {
    /// Whether its data wait, and the program that has them is connected.
    fn is_awaited(&self) -> bool {
        self.keeps_data && self.program == Program::Here
    }

    /// Records that a fragment was taken.
    #[inline]
    fn note_given(&mut self, own: Timestamp) {
        (self.gave_at, self.held_back) = (own, None);
        if self.program == Program::Back {
            self.program = Program::Here;
        }
    }

    fn new(source: &SourceConfig, announce: Announce, size_window: u32, now: Timestamp) -> Self {
        Self {
            id: source.id,
            optional: source.optional,
            excluded: false,
            announced: match announce {
                Announce::Never => false,
                Announce::All => true,
                Announce::Source(id) => id == source.id,
            },
            // If one source makes the triggers, the end of the others is irrelevant: fragments that are never
            // requested may block them forever.
            makes_events: match announce {
                Announce::Never | Announce::All => true,
                Announce::Source(reference) => reference == source.id,
            },
            ended: false,
            held_events: 0,
            held: ByteCount::ZERO,
            size: CountedSize::new(size_window),
            reached: Reached::default(),
            last: None,
            keeps_data: false,
            on_request: false,
            program: Program::Here,
            gave_at: now,
            delay: Delay::default(),
            held_back: None,
        }
    }

    fn is_held_back_before(&self, event: EventId) -> bool {
        !self.ended && self.held_back.is_some_and(|next| next <= event)
    }

    fn is_held_back_after(&self, event: EventId) -> bool {
        self.held_back.is_some_and(|next| next > event)
    }

    #[inline]
    fn hold(&mut self, bytes: usize) {
        self.held_events += 1;
        self.held += ByteCount::from(bytes);
        self.size.note(1, bytes as u64);
    }

    fn has_room(&self, bytes: usize, most: u64, most_events: usize) -> bool {
        has_room((self.held_events, self.held.0), bytes, (most_events, most))
    }

    /// Returns the room for events from `next` on, with at most `share` bytes and `share_events` fragments held.
    fn room(&self, share: u64, share_events: usize, next: EventId) -> Room {
        // The first fragment always fits.
        let size = self.size.get();
        let events = (share / size).clamp(1, share_events as u64);
        let free = match self.held_events {
            0 => events,
            held => (share_events.saturating_sub(held) as u64).min(share.saturating_sub(self.held.0) / size),
        };
        Room { until: EventId(next.0.saturating_add(free).saturating_sub(1)), events }
    }

    #[inline]
    fn let_go(&mut self, bytes: usize) {
        self.held_events -= 1;
        self.held -= ByteCount::from(bytes);
    }
}
