use super::*;
use crate::testing::event;

/// Follows the instruction in the first byte of an event's first fragment.
struct Obedient {
    calls: u64,
    tag: Tags,
}

impl Plugin for Obedient {
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
        match setup.parameters {
            "panic" => panic!("not today"),
            "refuse" => Err(FilterFailure(format!("run {} is not for me", setup.run.0))),
            _ => Ok(Self { calls: 0, tag: setup.tag("loud")? }),
        }
    }

    fn judge(&mut self, event: &EventView<'_>) -> Result<Verdict, FilterFailure> {
        self.calls += 1;
        let order = event.fragments().next().and_then(|fragment| fragment.payload().first().copied());
        match order {
            Some(b'a') => {
                Ok(Verdict::accept().with_tags(self.tag).with_payload(self.calls.to_le_bytes().to_vec()))
            }
            Some(b'p') => panic!("at event {}", event.id()),
            Some(b'f') => Err(FilterFailure("no\0hidden".into())),
            _ => Ok(Verdict::reject()),
        }
    }
}

/// A filter of the table, as C has it.
struct Made(*mut c_void);

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: made by the same table, and not used again.
        unsafe { destroy::<Exported<Obedient>>(self.0) };
    }
}

/// Returns the result of `create`, and the message that it wrote.
fn create_as(abi: u32, parameters: &CStr, room: usize) -> (Option<Made>, String) {
    let mut message = [0x7f_u8; 64];
    let tags = [c"quiet".as_ptr(), c"loud".as_ptr()];
    let setup = FilterSetup {
        abi,
        run: 7,
        parameters: parameters.as_ptr(),
        tags: tags.as_ptr(),
        tag_count: tags.len(),
        message: message.as_mut_ptr().cast(),
        message_bytes: room,
    };
    // SAFETY: all that the setup points to is alive.
    let filter = unsafe { create::<Obedient>(&raw const setup) };
    assert!(message[room..].iter().all(|byte| *byte == 0x7f), "nothing is written beyond the room");
    let text =
        CStr::from_bytes_until_nul(&message).map_or(String::new(), |text| text.to_string_lossy().into());
    if filter.is_null() { (None, text) } else { (Some(Made(filter)), String::new()) }
}

/// Status, verdict and failure of one event.
fn judge_with(filter: &Made, order: u8) -> (i32, FilterVerdict, Option<String>) {
    let event = event(5, &[vec![order]]);
    let mut scratch = Scratch::default();
    let borrowed = scratch.event(&event);
    let mut said = FilterVerdict::default();
    // SAFETY: a filter of this type, an event and a verdict that are alive.
    let status = unsafe { judge::<Obedient>(filter.0, borrowed.as_ptr(), &raw mut said) };
    // SAFETY: null, or a text of the filter that is alive until it is called again.
    let failure = (!said.failure.is_null()).then(|| unsafe { CStr::from_ptr(said.failure) });
    (status, said, failure.map(|text| text.to_string_lossy().into_owned()))
}

#[test]
fn verdict_tags_and_payload_pass_the_table_and_stay_until_the_next_call() {
    let (made, _) = create_as(FILTER_ABI, c"", 64);
    let made = made.unwrap();
    for call in 1_u64..4 {
        let (status, said, failure) = judge_with(&made, b'a');
        assert_eq!((status, said.accepted, said.tags, failure), (0, 1, 0b10, None));
        // SAFETY: the payload stays until the filter is called again.
        let payload = unsafe { slice::from_raw_parts(said.payload, said.payload_bytes) };
        assert_eq!(payload, call.to_le_bytes());
    }
    assert_eq!(judge_with(&made, b'r').1.accepted, 0);
}

#[test]
fn a_panic_is_a_failure_of_its_event_and_the_next_is_judged() {
    let (made, _) = create_as(FILTER_ABI, c"", 64);
    let made = made.unwrap();
    let (status, _, failure) = judge_with(&made, b'p');
    assert_eq!((status, failure.as_deref()), (1, Some("it panicked: at event 5")));
    assert_eq!(judge_with(&made, b'f').2.as_deref(), Some("no"), "a text ends at its NUL");
    assert_eq!(judge_with(&made, b'a').0, 0);
}

#[test]
fn a_filter_that_is_not_made_says_why_within_its_room() {
    let cases = [
        (FILTER_ABI, c"refuse", "run 7 is not for me"),
        (FILTER_ABI, c"panic", "it panicked: not today"),
        (FILTER_ABI + 1, c"", "it has version 3 of the interface, not 4"),
    ];
    for (abi, parameters, text) in cases {
        let (made, said) = create_as(abi, parameters, 64);
        assert!(made.is_none());
        assert_eq!(said, text);
        assert_eq!(create_as(abi, parameters, 4).1, text[..3], "what fits, with its NUL");
        assert!(create_as(abi, parameters, 0).0.is_none());
    }
}

#[test]
fn a_tag_that_the_configuration_lacks_is_told_with_what_would_be_right() {
    let setup = PluginSetup { tags: vec!["quiet"], ..PluginSetup::default() };
    assert_eq!(setup.tag("quiet"), Ok(Tags(1)));
    let text = setup.tag("loud").unwrap_err().to_string();
    assert!(text.contains("`loud`") && text.contains("`filter.tags`"), "{text}");
}

#[test]
fn the_same_type_judges_without_a_library() {
    let setup = PluginSetup { tags: vec!["loud"], ..PluginSetup::default() };
    let mut filter = InProcess::<Obedient>::create(&setup).unwrap();
    let verdict = filter.judge(&event(1, &[vec![b'a']])).unwrap();
    assert_eq!((verdict.accepted, verdict.tags), (true, Tags(1)));
    assert_eq!(filter.judge(&event(1, &[])).unwrap(), Verdict::reject());
}
