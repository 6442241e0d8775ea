use super::*;
use sheaf_filter::{
    FilterFailure, RunNumber, TriggerInfo, TriggerPlugin, TriggerPluginSetup, TriggerRoom, TriggerSetup,
};
use sheaf_wire::trigger_link::BusyCause;
use std::sync::mpsc::{Receiver, Sender, channel};

const OUTPUT: BusyReason = BusyReason { cause: BusyCause::Output, culprit: None };

/// Time after which a test fails.
const WATCHDOG: Duration = Duration::from_secs(120);

type Script = Box<dyn FnMut(&mut TriggerRoom<'_>) -> Result<PollEnd, FilterFailure> + Send>;

/// Scripts of devices that are not open yet, by their parameters.
static SCRIPTS: Mutex<Vec<(String, Script, Sender<String>)>> = Mutex::new(Vec::new());

/// A device that notes its calls. Its polls are those of a script.
struct Device<const VETO: bool> {
    script: Script,
    calls: Sender<String>,
}

impl<const VETO: bool> TriggerPlugin for Device<VETO> {
    const HAS_VETO: bool = VETO;

    fn open(setup: &TriggerPluginSetup) -> Result<Self, FilterFailure> {
        let mut scripts = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
        let place = scripts.iter().position(|(name, ..)| *name == setup.parameters);
        let place = place.ok_or_else(|| FilterFailure("no crate".into()))?;
        let (_, script, calls) = scripts.remove(place);
        Ok(Self { script, calls })
    }

    fn start(&mut self, next: EventId) {
        self.note(format!("start {next}"));
    }

    fn poll(&mut self, room: &mut TriggerRoom<'_>) -> Result<PollEnd, FilterFailure> {
        (self.script)(room)
    }

    fn busy(&mut self, reason: Option<&str>) {
        self.note(format!("busy {reason:?}"));
    }

    fn stop(&mut self) {
        self.note("stop".into());
    }
}

impl<const VETO: bool> Device<VETO> {
    fn note(&self, call: String) {
        // A test that has ended does not listen.
        let _ = self.calls.send(call);
    }
}

impl<const VETO: bool> Drop for Device<VETO> {
    fn drop(&mut self) {
        self.note("close".into());
    }
}

fn open<const VETO: bool>(name: &'static str) -> LibraryCaller {
    let setup = TriggerSetup {
        run: RunNumber(1),
        parameters: name.into(),
        max_payload: ByteCount(8),
        batch_triggers: 4,
    };
    LibraryCaller::start(move || LibraryTrigger::of_plugin::<Device<VETO>>(&setup), ByteCount(8))
        .expect("a thread")
}

/// Opens a device with this script.
fn device<const VETO: bool>(
    name: &'static str,
    script: impl FnMut(&mut TriggerRoom<'_>) -> Result<PollEnd, FilterFailure> + Send + 'static,
) -> (LibraryCaller, Receiver<String>) {
    let (calls, noted) = channel();
    SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner).push((name.into(), Box::new(script), calls));
    let poller = open::<VETO>(name);
    assert_eq!(wait(&poller, LibraryCaller::take_opened).map_err(|error| error.to_string()), Ok(()));
    (poller, noted)
}

fn wait<T>(poller: &LibraryCaller, mut look: impl FnMut(&LibraryCaller) -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look(poller) {
            return found;
        }
        assert!(begin.elapsed() < WATCHDOG, "in vain");
        poller.wait(Duration::from_secs(1));
    }
}

fn wait_until_finished(poller: &LibraryCaller) {
    wait(poller, |poller| poller.has_finished().then_some(()));
}

fn next_call(calls: &Receiver<String>) -> String {
    calls.recv_timeout(WATCHDOG).expect("a call")
}

fn ids(answer: &PolledTriggers) -> Vec<u64> {
    answer.triggers.iter().map(|trigger| trigger.id.0).collect()
}

#[test]
fn a_library_is_opened_started_polled_stopped_and_closed() {
    let mut next = 7;
    let (poller, calls) = device::<true>("whole", move |room| {
        while room.push_with(EventId(next), TriggerInfo::default(), b"hits") {
            next += 1;
        }
        room.add_vetoed(3);
        Ok(if next > 12 { PollEnd::Ended } else { PollEnd::More })
    });
    assert_eq!(poller.take(), None, "the run has not started");
    poller.poll_from(EventId(7));
    let first = wait(&poller, LibraryCaller::take);
    assert_eq!((ids(&first), first.vetoed, first.end.clone()), (vec![7, 8, 9, 10], 3, None));
    assert_eq!(first.triggers[0].payload, b"hits");
    let second = wait(&poller, LibraryCaller::take);
    assert_eq!((ids(&second), second.end), (vec![11, 12, 13, 14], Some(LibraryEnd::NoMore)));
    wait_until_finished(&poller);
    assert_eq!(poller.take(), None, "a thread that has done its work is no failure");
    poller.stop();
    assert_eq!(calls.iter().collect::<Vec<_>>(), ["start 7", "stop", "close"]);
    assert_eq!(poller.take(), None);
}

#[test]
fn a_library_that_cannot_be_opened_gives_the_reason() {
    let poller = open::<true>("absent");
    let error = wait(&poller, LibraryCaller::take_opened).expect_err("it has no device");
    assert!(error.to_string().ends_with("no crate"), "{error}");
    wait_until_finished(&poller);
}

#[test]
fn a_library_that_blocks_is_named_and_hears_of_the_last_change_of_busy() {
    let (go, wait_for_go) = channel();
    let (poller, calls) = device::<true>("blocks", move |_| {
        // The test has ended if nobody sends.
        let _ = wait_for_go.recv();
        Ok(PollEnd::More)
    });
    poller.poll_from(EventId(0));
    let begin = wait(&poller, |poller| poller.call().filter(|(name, _)| *name == "poll")).1;
    poller.set_busy(Some(OUTPUT));
    poller.set_busy(None);
    poller.set_busy(Some(OUTPUT));
    assert_eq!(poller.call(), Some(("poll", begin)), "it is the same call");
    go.send(()).expect("it waits");
    wait(&poller, LibraryCaller::take);
    assert_eq!(next_call(&calls), "start 0");
    assert_eq!(next_call(&calls), "busy Some(\"output\")", "busy is announced before the next poll");
    wait(&poller, |poller| poller.call().filter(|call| *call != ("poll", begin)));
    poller.set_busy(None);
    poller.stop();
    drop(go);
    wait_until_finished(&poller);
    assert_eq!(next_call(&calls).split(' ').next(), Some("stop"), "nothing is announced after the end");
}

#[test]
fn a_library_without_a_veto_is_not_polled_while_the_run_is_busy() {
    let (poller, calls) = device::<false>("no veto", |room| {
        room.push(EventId(1));
        Ok(PollEnd::More)
    });
    poller.set_busy(Some(OUTPUT));
    poller.poll_from(EventId(0));
    assert_eq!(next_call(&calls), "start 0");
    assert_eq!(poller.take(), None);
    poller.wait(Duration::from_millis(20));
    assert_eq!(poller.take(), None);
    poller.set_busy(None);
    assert_eq!(ids(&wait(&poller, LibraryCaller::take)), [1]);
    poller.stop();
    wait_until_finished(&poller);
}

#[test]
fn triggers_before_an_invalid_one_are_given_and_a_failure_ends_the_library() {
    let (poller, calls) = device::<true>("too large", |room| {
        room.push(EventId(1));
        room.push_with(EventId(2), TriggerInfo::default(), &[0; 9]);
        Ok(PollEnd::More)
    });
    poller.poll_from(EventId(0));
    let answer = wait(&poller, LibraryCaller::take);
    let reason = "the answer of the library is invalid: trigger 2 has a payload of 9 bytes, and the run takes 8 \
                  (`trigger.network.payload_maximum_bytes`)";
    assert_eq!((ids(&answer), answer.end), (vec![1], Some(LibraryEnd::Failed(reason.into()))));
    wait_until_finished(&poller);
    assert_eq!(calls.iter().collect::<Vec<_>>(), ["start 0", "stop", "close"]);

    let (poller, _calls) = device::<true>("fails", |_| Err(FilterFailure("no link".into())));
    poller.poll_from(EventId(0));
    assert_eq!(wait(&poller, LibraryCaller::take).end, Some(LibraryEnd::Failed("no link".into())));
    wait_until_finished(&poller);
}
