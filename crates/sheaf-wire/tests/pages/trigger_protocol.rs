//! `docs/reference/trigger-protocol.md`.

use crate::page::{self, assert_layouts, shape, table};
use sheaf_wire::trigger_link::{
    self as wire, BusyCause, Kind, MAX_BUSY_TIMES, MAX_DATAGRAM_BYTES, MAX_DATAGRAM_PAYLOAD_BYTES,
    MAX_MESSAGE_BYTES, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, MAX_REASON_BYTES, MAX_TRIGGERS, Phase, Refusal,
    VERSION,
};

fn page() -> String {
    page::open("trigger-protocol.md")
}

#[test]
fn the_field_tables_have_the_fields_of_the_layouts() {
    let layouts = [
        ("Head", shape!(wire::HeadBytes: length, kind, reserved)),
        ("Hello", shape!(wire::HelloBytes: version, name_bytes)),
        ("Trigger", shape!(wire::TriggerBytes: id, time, bits, kind, reserved, payload_bytes)),
        ("End", shape!(wire::EndBytes: sent)),
        ("Totals", shape!(wire::TotalsBytes: offered, sent, own_vetoed, busy_times, reserved)),
        ("Busy time", shape!(wire::BusyTimeBytes: cause, flags, reserved, culprit, intervals, time, vetoed)),
        ("Welcome", shape!(wire::WelcomeBytes: version, run, next, phase, reserved, max_payload_bytes)),
        ("Busy", shape!(wire::BusyBytes: sequence, cause, flags, reserved, culprit, at)),
        ("Progress", shape!(wire::ProgressBytes: received, accepted)),
        ("Phase", shape!(wire::PhaseBytes: phase, reserved)),
        ("Refused", shape!(wire::RefusedBytes: refusal, reserved)),
        (
            "Account",
            shape!(wire::AccountBytes: received, accepted, lost, repeated, out_of_order, outside, busy_times, reserved),
        ),
        ("Challenge", shape!(wire::ChallengeBytes: nonce)),
        ("Answer", shape!(wire::AnswerBytes: nonce, proof)),
        ("Proof", shape!(wire::ProofBytes: proof)),
        ("Datagram head", shape!(wire::DatagramHeadBytes: magic, link, number, seen)),
    ];
    assert_layouts(&page(), &layouts);
}

/// Returns the codes and names of a table.
fn shown<'a>(page: &'a str, head: &str) -> Vec<[&'a str; 2]> {
    table(page, head).iter().map(|row| [row[0], row[1]]).collect()
}

/// Returns the codes and names of an enum.
fn known<T: Copy>(all: &[T], code: fn(T) -> u8, name: fn(T) -> &'static str) -> Vec<[String; 2]> {
    all.iter().map(|one| [code(*one).to_string(), format!("`{}`", name(*one))]).collect()
}

#[test]
fn the_codes_are_all_of_them() {
    let page = page();
    let kinds = shown(&page, "| code | kind | from | body |");
    assert_eq!(kinds, known(&Kind::ALL, |kind| kind as u8, Kind::name));
    let phases = shown(&page, "| code | name | meaning of the phase |");
    assert_eq!(phases, known(&Phase::ALL, |phase| phase as u8, Phase::name));
    let causes = shown(&page, "| code | name | meaning of the cause |");
    assert_eq!(causes, known(&BusyCause::ALL, |cause| cause as u8, BusyCause::name));
    let refusals = shown(&page, "| code | name | refused because |");
    assert_eq!(refusals, known(&Refusal::ALL, |refusal| refusal as u8, Refusal::name));
}

#[test]
fn version_and_limits_are_those_of_the_code() {
    let page = page();
    assert!(page.starts_with(&format!("# Trigger protocol\n\nVersion {VERSION}.")));
    assert!(page.contains(&format!("1 to {MAX_TRIGGERS}")));
    assert!(page.contains(&format!(
        "at most {MAX_PAYLOAD_BYTES} bytes of payload each, and {MAX_MESSAGE_BYTES} in all"
    )));
    assert!(page.contains(&format!(
        "at most {MAX_DATAGRAM_BYTES} bytes, and a trigger in it at most {MAX_DATAGRAM_PAYLOAD_BYTES} bytes"
    )));
    assert!(page.contains(&format!("name: UTF-8, at most {MAX_NAME_BYTES} bytes")));
    assert!(page.contains(&format!("people: UTF-8, at most {MAX_REASON_BYTES} bytes")));
    assert!(page.contains(&format!("[busy time](#busy-time-32-bytes), at most {MAX_BUSY_TIMES}")));
}
