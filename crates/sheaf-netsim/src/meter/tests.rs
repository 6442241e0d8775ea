use super::{Cause, Meter, Names};
use crate::network::EndpointId;
use crate::traffic::Message;
use crate::units::{Picos, Rate};
use proptest::prelude::*;

fn message(destination: u32, bytes: u32, born: u64) -> Message {
    let destination = EndpointId(destination);
    Message { source: EndpointId(0), destination, bytes, token: 0, born: Picos(born) }
}

/// 1 byte in 1 ns.
const RATE: Rate = Rate::from_gigabits(8);

fn meter(ports: usize, names: Names) -> Meter {
    Meter::new(vec![true; ports], u32::try_from(ports).unwrap(), RATE, names)
}

proptest! {
    #[test]
    fn a_steady_flow_is_measured_however_long_the_run(bytes in 1..5_000_u32, spacing in 1..4_u64, count in 2_000..20_000_u64) {
        // `spacing` times as long as the port needs for a message.
        let mut meter = meter(1, Names::default());
        let span = u64::from(bytes) * 1_000 * spacing;
        for number in 1..=count {
            let sent = message(0, bytes, (number - 1) * span);
            meter.offered(&sent);
            meter.delivered(&sent, Picos(number * span));
        }
        let measured = meter.finish(Picos(count * span));
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let expected = 1.0 / spacing as f64;
        prop_assert!((measured.efficiency - expected).abs() < 0.002 * expected, "{}", measured.efficiency);
        prop_assert!((measured.per_port[0] - expected).abs() < 0.002 * expected, "{:?}", measured.per_port);
        prop_assert_eq!(measured.messages.delivered, count);
        prop_assert_eq!(measured.bytes.in_flight, 0);
        let latency = measured.message_latency.unwrap();
        prop_assert!(latency.p50.0.abs_diff(span) <= span / 500);
        prop_assert!(measured.evolution.len() >= 32 && measured.evolution.len() <= 64);
    }
}

#[test]
fn latencies_of_a_long_warm_up_are_forgotten() {
    let mut meter = meter(1, Names::default());
    // Latency 10 ms at first, when a tenth of the load arrives; then 1 us.
    for number in 0..30_000_u64 {
        let early = number < 1_000;
        if early && number % 10 > 0 {
            continue;
        }
        let now = (number + 1) * 1_000_000 + 10_000_000_000;
        let sent = message(0, 1_000, now - if early { 10_000_000_000 } else { 1_000_000 });
        meter.offered(&sent);
        meter.delivered(&sent, Picos(now));
    }
    let measured = meter.finish(Picos(40_000_000_000));
    assert_eq!(measured.message_latency.unwrap().max.0 / 10_000, 100);
    assert!((measured.efficiency - 1.0).abs() < 0.01, "{}", measured.efficiency);
}

#[test]
fn only_receiving_ports_count() {
    let mut meter = Meter::new(vec![false, true], 1, RATE, Names::default());
    for number in 1..=4_000_u64 {
        let sent = message(1, 1_000, 0);
        meter.offered(&sent);
        meter.delivered(&sent, Picos(number * 2_000_000));
    }
    let measured = meter.finish(Picos(4_000 * 2_000_000));
    assert_eq!(measured.ports, 1);
    assert_eq!(measured.per_port.len(), 1);
    assert!((measured.efficiency - 0.5).abs() < 0.002);
}

#[test]
fn waiting_losses_and_buffers_are_told_by_cause() {
    let names = Names {
        waiting: vec!["little".into(), "much".into(), "never".into()],
        losses: vec!["here".into(), "there".into()],
        buffers: vec![("buffers".into(), 2, Some(100))],
    };
    let mut meter = meter(2, names);
    let lost = message(0, 10, 0);
    meter.offered(&lost);
    meter.lost(&lost, Cause(1));
    for step in 0..1_000_u64 {
        let now = step * 1_000;
        meter.waited(Cause(0), Picos(now), Picos(now + 100));
        meter.waited(Cause(1), Picos(now), Picos(now + 1_000));
        meter.filled(Cause(0), 40, 40 + step % 7, Picos(now));
        meter.drained(Cause(0), 40, Picos(now + 500));
    }
    let measured = meter.finish(Picos(1_000_000));
    assert_eq!(measured.messages.lost, 1);
    assert_eq!(
        measured.losses.iter().map(|loss| (loss.cause.as_str(), loss.messages)).collect::<Vec<_>>(),
        [("there", 1)]
    );
    let shares: Vec<_> = measured.waiting.iter().map(|waiting| waiting.cause.as_str()).collect();
    assert_eq!(shares, ["much", "little"]);
    // One of two senders always waits.
    assert!((measured.waiting[0].share - 0.5).abs() < 0.01, "{:?}", measured.waiting);
    assert!((measured.waiting[1].share - 0.05).abs() < 0.01, "{:?}", measured.waiting);
    let buffers = &measured.occupancy[0];
    assert!((buffers.mean_bytes - 10.0).abs() < 0.1, "{buffers:?}");
    assert_eq!((buffers.max_bytes, buffers.size_bytes), (46, Some(100)));
}
