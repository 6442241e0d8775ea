//! A word to the processor about memory that is written next.
//!
//! A block that is written again was read meanwhile, most often by another processor, and its lines lie in that one's cache. A
//! writer waits for each of them to come back, unless it has said in advance where it will write: then many are under way
//! together. `sheaf bench memory` measures what one processor can hand another at all (`handover`).

/// So many lines, of 64 bytes, with one step of a loop, which would else take as long as what it is for.
const STEP_BYTES: usize = 4 * 64;

/// Of smaller pieces the processor sees by itself where they lead.
const SMALLEST_PIECE: usize = 1 << 10;

/// More would drive out of the first-level cache what is in use.
const LARGEST_REACH: usize = 4 << 10;

/// A piece of `written` bytes was written, and `room` bytes are left right behind it, at `start`: the next is likely as large,
/// and there. Nothing is read or written.
#[inline]
pub fn expect_another(written: usize, start: *const u8, room: usize) {
    if written >= SMALLEST_PIECE {
        for at in (0..written.min(room).min(LARGEST_REACH)).step_by(STEP_BYTES) {
            fetch_for_writing(start.wrapping_add(at));
        }
    }
}

/// Fetches [`STEP_BYTES`] bytes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
#[expect(unsafe_code, reason = "one instruction, which the language has no safe word for")]
fn fetch_for_writing(start: *const u8) {
    // SAFETY: PREFETCHW and PRFM change no register and no memory, and fault nowhere, whatever the address. Processors that do not
    // know PREFETCHW, older than 2008 or so, do nothing.
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
    fn any_address_will_do() {
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
