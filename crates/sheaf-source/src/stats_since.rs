//! Counts of a source since an earlier moment, where one run follows another without a gap.

use crate::SourceStats;
use crate::described::StreamBooks;
use crate::poll_books::PollBooks;

/// Makes a struct whose first fields are differences; those after the second semicolon are the ones of the later struct. A field that is
/// in neither list is an error of the compiler.
macro_rules! difference {
    ($later:expr, $earlier:expr; $($field:ident),*; $($kept:ident),*) => {{
        let Self { $($field: _,)* $($kept: _,)* } = $later;
        let mut difference = $later.clone();
        $(difference.$field -= $earlier.$field;)*
        difference
    }};
}

impl SourceStats {
    /// Returns the counts since an earlier moment. The largest lag is that of the whole time, and the accounts of hits are not divided.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = difference!(
            self, earlier; fragments, bytes, out_of_memory, silent, duplicated, late, oversize, divided, corrupt_headers,
            corrupt_payloads, read_errors, undecoded;
            max_lag, last_error, timed, windows, stream, refused, polled
        );
        if self.last_error == earlier.last_error {
            since.last_error = None;
        }
        for (reason, count) in &mut since.refused {
            let before = earlier.refused.iter().find(|(other, _)| other == reason);
            *count -= before.map_or(0, |(_, before)| *before);
        }
        if let (Some(stream), Some(before)) = (&mut since.stream, &earlier.stream) {
            *stream = stream.since(before);
        }
        if let (Some(polled), Some(before)) = (&mut since.polled, &earlier.polled) {
            *polled = polled.since(before);
        }
        since
    }
}

impl PollBooks {
    fn since(&self, earlier: &Self) -> Self {
        difference!(
            self, earlier; polls, polls_failed, batches_invalid, fragments_unknown_source, fragments_too_large,
            fragments_without_data, fragments_after_stop;
        )
    }
}

impl StreamBooks {
    fn since(&self, earlier: &Self) -> Self {
        let mut since = difference!(
            self, earlier; packets, packets_keep_alive, packets_reset, packets_padded, packets_lost, packets_waited,
            packets_late, packets_repeated, packet_number_jumps, fragments_unknown_source, fragments_too_large,
            fragments_incomplete, parts_repeated, fragments_out_of_range, fragments_no_memory, fragments_after_stop,
            packets_dropped_by_kernel, connections, connections_closed, connections_lost, connections_refused,
            connection_attempts_failed, resynchronisations, bytes_skipped, packets_cut; packets_damaged
        );
        for (count, before) in since.packets_damaged.iter_mut().zip(earlier.packets_damaged) {
            *count -= before;
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::ByteCount;

    fn stats(times: u64) -> SourceStats {
        SourceStats {
            fragments: 10 * times,
            bytes: ByteCount(100 * times),
            last_error: (times > 1).then(|| "damaged".to_owned()),
            refused: vec![("unknown_source", 3 * times)],
            stream: Some(StreamBooks {
                packets: 7 * times,
                packets_damaged: [times; _],
                ..StreamBooks::default()
            }),
            polled: Some(PollBooks { polls: 5 * times, ..PollBooks::default() }),
            ..SourceStats::default()
        }
    }

    #[test]
    fn counts_since_a_moment_are_those_of_the_time_after_it() {
        assert_eq!(stats(3).since(&stats(2)), SourceStats { last_error: None, ..stats(1) });
        assert_eq!(
            stats(2).since(&stats(1)).last_error.as_deref(),
            Some("damaged"),
            "the error is a new one"
        );
        assert_eq!(stats(2).since(&SourceStats::default()), stats(2));
    }
}
