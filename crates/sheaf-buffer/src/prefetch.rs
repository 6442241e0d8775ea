//! Hints to the processor about memory that is written next.
//!
//! A reused block was read in the meantime, usually by another processor, so its cache lines are in that processor's cache. A
//! writer would wait for each of them in turn. Prefetching transfers many lines at the same time. `sheaf bench memory` measures
//! the maximum rate at which one processor can hand lines to another (`handover`).

/// Number of bytes (four lines of 64 bytes) to prefetch in each step of a loop, which would otherwise cost as much as it saves.
const STEP_BYTES: usize = 4 * 64;

/// Minimum size of a piece: the hardware prefetcher handles smaller pieces itself.
const SMALLEST_PIECE: usize = 1 << 10;

/// Maximum number of bytes to prefetch: more would evict data in use from the first-level cache.
const LARGEST_REACH: usize = 4 << 10;

/// Prefetches memory for the next piece after a piece of `written` bytes was written. `room` bytes remain directly after it, at
/// `start`; the next piece is likely of the same size. Reads and writes nothing.
#[inline]
pub fn expect_another(written: usize, start: *const u8, room: usize) {
    if written >= SMALLEST_PIECE {
        for at in (0..written.min(room).min(LARGEST_REACH)).step_by(STEP_BYTES) {
            fetch_for_writing(start.wrapping_add(at));
        }
    }
}

/// Prefetches [`STEP_BYTES`] bytes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
#[expect(unsafe_code, reason = "one instruction that has no safe equivalent in the language")]
fn fetch_for_writing(start: *const u8) {
    // SAFETY: PREFETCHW and PRFM change no register and no memory, and do not fault for any address. Processors without PREFETCHW,
    // from before about 2008, do nothing.
    unsafe {
        std::arch::asm!(
            #[cfg(target_arch = "x86_64")]
            "prefetchw [{start}]; prefetchw [{start} + 64]; prefetchw [{start} + 128]; prefetchw [{start} + 192]",
            #[cfg(target_arch = "aarch64")]
            "prfm pstl1keep, [{start}]; prfm pstl1keep, [{start}, 64]; prfm pstl1keep, [{start}, 128]; prfm pstl1keep, [{start}, 192]",
            start = in(reg) start,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn fetch_for_writing(_start: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_accepted() {
        let memory = vec![7_u8; 8192];
        for start in
            [memory.as_ptr(), memory.as_ptr().wrapping_add(8192), std::ptr::null(), usize::MAX as *const u8]
        {
            for (written, room) in
                [(0, 0), (10, 10), (2048, 0), (2048, 100), (2048, 1 << 30), (usize::MAX, usize::MAX)]
            {
                expect_another(written, start, room);
            }
        }
        assert!(memory.iter().all(|byte| *byte == 7));
    }
}
