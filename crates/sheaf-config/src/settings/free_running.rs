//! Emulated front ends that send hits and no event numbers.

use super::MAX_INTEGER;
use crate::choice::choice;
use crate::codec::{drift, maybe, microseconds, pick, real, seconds, whole, zero_is_none};
use crate::knob::section;
use sheaf_wire::{ClockDrift, Nanos};

/// The longest frame.
const SECOND: Nanos = Nanos::from_secs(1);

/// The longest emulated time, which the timeline of the hits contains.
const LONGEST: Nanos = Nanos::from_secs(200 * 86_400);

choice! {
    /// Pacing of emulated frames of hits.
    FramePacing {
        /// as fast as the run takes them; nothing is lost
        Full = "full",
        /// when their time is over, as a detector sends them, which cannot be held back
        Live = "live",
    }
}

section! {
    /// Emulated front ends with `kind = "emulated"` and `build_by = "time"`: sources that send frames of hits without event numbers. The
    /// frames have the layout of `[source.hits]`, and the tick of `[source.timed]`. Noise is of each source alone; flashes are seen by several sources.
    /// `sheaf source truth` writes the flashes and their hits.
    FreeRunning "source.free_running" {
        /// Seed: the same seed gives the same hits and clocks.
        seed: u64 = 1, "seed", whole(0, MAX_INTEGER);
        /// Number of channels of a source, if the frames have a channel.
        channels: u32 = 64, "channels", whole(1, u64::from(u32::MAX));
        /// Mean rate of the noise of each source, in hits per second: a Poisson process.
        noise_hz: f64 = 1_000.0, "noise_hz", real(0.0, 1e9);
        /// Mean rate of flashes per second: a Poisson process.
        flash_hz: f64 = 100.0, "flash_hz", real(0.0, 1e9);
        /// Number of sources that see a flash: adjacent ones in the order of their ids, from a random one on. 0: all sources.
        flash_sources: Option<u32> = None, "flash_sources", zero_is_none(whole(1, u64::from(u32::MAX)));
        /// Number of hits of a flash in each source that sees it.
        flash_hits: u32 = 1, "flash_hits", whole(1, 65_536);
        /// Maximum time from a flash to its hits. All times up to it are equally probable. At most a frame.
        flash_jitter_ps: u64 = 10_000, "flash_jitter_ps", whole(0, 1_000_000_000_000);
        /// Largest drift of the clocks. The clock of each source is drawn within these limits, and the run knows it; sources with a clock in
        /// `[clocks]` have that one.
        max_drift: ClockDrift = ClockDrift::ZERO, "max_drift", drift();
        /// Largest time before time 0 of the run at which the counter of a source was 0.
        max_offset: Nanos = Nanos::ZERO, "max_offset_us", microseconds(Nanos::ZERO, LONGEST);
        /// Smallest width of the counters in bits, which start again at 0 after their largest value. Default: the width in the frames.
        min_counter_bits: Option<u32> = None, "min_counter_bits", maybe(whole(1, 64));
        /// Length of a frame. A frame has the noise and the flashes in its time.
        frame: Nanos = Nanos::from_millis(1), "frame_us", microseconds(Nanos(1_000), SECOND);
        /// Maximum time by which a hit comes after a later one in its frame. At most a frame.
        disorder: Nanos = Nanos::ZERO, "disorder_us", microseconds(Nanos::ZERO, SECOND);
        /// Maximum number of frames that come before an earlier one. With it, hits are late by up to one frame more.
        disorder_frames: u32 = 0, "disorder_frames", whole(0, 1_000);
        /// Emulated time. 0: until the run ends.
        duration: Option<Nanos> = Some(Nanos::from_secs(10)), "duration_s", zero_is_none(seconds(Nanos(1_000), LONGEST));
        /// Pacing of the frames.
        pacing: FramePacing = FramePacing::Full, "pacing", pick();
        /// Number of frames that a front end holds with `pacing = "live"`. If more are due, the oldest are lost and counted as dropped packets.
        /// A counter that starts again every few of the lost frames cannot be followed, as with a real front end.
        buffer_frames: u32 = 1_000, "buffer_frames", whole(1, u64::from(u32::MAX));
    }
}
