use super::*;
use crate::timed::testing::{pcap, udp};
use proptest::prelude::*;
use std::io::Cursor;

/// A pcapng file of one section and one Ethernet interface.
fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = (padded as u32 + 12).to_le_bytes();
        let mut block = [kind.to_le_bytes(), length].concat();
        block.extend(body);
        block.resize(8 + padded, 0);
        block.extend(length);
        block
    }
    let section = [0x1a2b_3c4d_u32.to_le_bytes(), [1, 0, 0, 0], [0xff; 4], [0xff; 4]].concat();
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 4, 0]));
    for packet in packets {
        let length = (packet.len() as u32).to_le_bytes();
        let mut body = [[0; 4], [0; 4], [0; 4], length, length].concat();
        body.extend(packet);
        file.extend(block(6, &body));
    }
    file
}

fn read(file: Vec<u8>) -> Result<(Vec<Vec<u8>>, CaptureStats), CaptureError> {
    let mut capture = Capture::read(Path::new("test.pcap"), Cursor::new(file))?;
    let mut payloads = Vec::new();
    while let Some(payload) = capture.next_payload()? {
        payloads.push(payload.to_vec());
    }
    Ok((payloads, capture.stats()))
}

#[test]
fn payloads_come_out_of_both_formats_however_large() {
    let payloads: Vec<Vec<u8>> = (0..300).map(|number: usize| vec![number as u8; number * 30]).collect();
    let packets: Vec<_> = payloads.iter().map(|payload| udp(payload)).collect();
    assert_eq!(read(pcapng(&packets)).unwrap().0, payloads);
    let packets: Vec<_> = packets.into_iter().map(|packet| (packet.clone(), packet.len() as u32)).collect();
    assert_eq!(read(pcap(1, &packets)).unwrap().0, payloads);
}

#[test]
fn what_is_not_udp_or_not_whole_is_left_out_and_counted() {
    let whole = udp(b"hits");
    let arp = [vec![0; 12], vec![8, 6], vec![0; 28]].concat();
    let short = (whole[..40].to_vec(), whole.len() as u32);
    let packets = [(arp.clone(), arp.len() as u32), short, (whole.clone(), whole.len() as u32)];
    let (payloads, stats) = read(pcap(1, &packets)).unwrap();
    assert_eq!(payloads, [b"hits"]);
    assert_eq!(stats, CaptureStats { packets: 3, datagrams: 1, ip_pieces: 0, cut_short: 1 });
}

#[test]
fn what_cannot_be_read_says_why() {
    let said = |file| read(file).unwrap_err().to_string();
    assert!(said(b"#!/bin/sh\nexit 0 # and so on\n".to_vec()).contains("not a capture"));
    let packet = udp(b"hits");
    let file = pcap(127, &[(packet.clone(), packet.len() as u32)]);
    assert!(said(file).contains("link of type 127"));
    let mut torn = pcapng(&[packet]);
    torn.truncate(torn.len() - 9);
    assert!(said(torn).contains("damaged after packet 0"));
    assert!(matches!(Capture::open(Path::new("/nowhere/at.all")), Err(CaptureError::Io { .. })));
}

proptest! {
    #[test]
    fn no_bytes_make_a_capture_panic_or_run_for_ever(
        change in prop::collection::vec((0..400_usize, any::<u8>()), 0..8),
        cut in 0..400_usize,
    ) {
        let mut file = pcapng(&[udp(&[7; 100]), udp(&[8; 50])]);
        for (at, value) in change {
            if let Some(byte) = file.get_mut(at) {
                *byte = value;
            }
        }
        file.truncate(cut.max(20));
        let _ = read(file);
    }
}
