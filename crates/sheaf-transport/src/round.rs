//! Rounds of polls over the peers of an endpoint, in which each peer has one turn of a bounded number of frames.

/// Maximum number of frames that one peer may deliver before the next one's turn.
const FRAMES_PER_TURN: usize = 64;

/// Position in a round. An endpoint polls the peer of the [turn](Self::turn) until it has no event, and
/// [passes](Self::pass) to the next one.
#[derive(Debug, Default)]
pub struct Round {
    is_in_progress: bool,
    place: usize,
    frames: usize,
    was_cut_short: bool,
}

impl Round {
    /// Begins a round, unless one is in progress. Returns whether it has begun one.
    #[inline]
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_in_progress, true)
    }

    /// Returns whether the driver stopped polling before the end of the round.
    #[must_use]
    #[inline]
    pub fn is_in_progress(&self) -> bool {
        self.is_in_progress
    }

    /// Returns the place of the peer whose turn it is, of this number of peers. `None` at the end of the round.
    #[inline]
    pub fn turn(&mut self, peers: usize) -> Option<usize> {
        if self.frames >= FRAMES_PER_TURN {
            self.was_cut_short = true;
            self.pass();
        }
        (self.place < peers).then_some(self.place)
    }

    /// Returns whether the peer has delivered no frame in this turn.
    #[must_use]
    #[inline]
    pub fn is_first_of_turn(&self) -> bool {
        self.frames == 0
    }

    /// Counts a frame of this turn.
    #[inline]
    pub fn note_frame(&mut self) {
        self.frames += 1;
    }

    /// Passes the turn to the next peer.
    #[inline]
    pub fn pass(&mut self) {
        (self.place, self.frames) = (self.place + 1, 0);
    }

    /// Ends the round. Returns whether a turn was cut short, so that its peer may have more frames.
    #[inline]
    pub fn end(&mut self) -> bool {
        std::mem::take(self).was_cut_short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_with_many_frames_does_not_delay_the_others() {
        let mut left = [2 * FRAMES_PER_TURN + 1, 1, 0];
        let (mut round, mut rounds) = (Round::default(), Vec::new());
        loop {
            assert!(round.begin() && !round.begin() && round.is_in_progress());
            let mut taken = [0; 3];
            while let Some(place) = round.turn(left.len()) {
                assert_eq!(round.is_first_of_turn(), taken[place] == 0);
                if left[place] == 0 {
                    round.pass();
                    continue;
                }
                (left[place], taken[place]) = (left[place] - 1, taken[place] + 1);
                round.note_frame();
            }
            rounds.push(taken);
            if !round.end() {
                break;
            }
        }
        assert_eq!(rounds, [[FRAMES_PER_TURN, 1, 0], [FRAMES_PER_TURN, 0, 0], [1, 0, 0]]);
    }
}
