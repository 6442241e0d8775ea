//! Pulses that emulated front ends read.

use super::FreeRunningError;
use super::clock::EmulatedClock;
use num_rational::Ratio;
use sheaf_time::clock::PulseConfig;
use sheaf_time::{Moment, Picos};

/// Picoseconds of a nanosecond.
const NANO_PS: i128 = 1_000;

/// Largest period and delay, so that their products with numbers of pulses fit into 128 bits.
const LONGEST_PS: i128 = 1 << 62;

/// The moments at which pulses come to a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct EmulatedPulses {
    /// In picoseconds.
    period: Ratio<i128>,
    delay: Ratio<i128>,
    resets: bool,
}

impl EmulatedPulses {
    /// Returns the pulses of a source. `None`: the clock follows no pulses.
    ///
    /// # Errors
    /// [`FreeRunningError::Pulses`]: the frames have no pulses, the resets of the counter cannot be told, or the numbers are too large.
    pub(super) fn new(
        pulses: Option<PulseConfig>,
        resets: Option<bool>,
        disorder_frames: u32,
    ) -> Result<Option<Self>, FreeRunningError> {
        let Some(PulseConfig { period, delay, .. }) = pulses else { return Ok(None) };
        let resets = resets.ok_or(FreeRunningError::Pulses("their records have no kind of pulses"))?;
        if resets && disorder_frames > 0 {
            return Err(FreeRunningError::Pulses("they reset the counter, and frames come in any order"));
        }
        let (period, delay) = (period.ratio() * NANO_PS, delay.ratio() * NANO_PS);
        let is_small = |time: &Ratio<i128>| time.numer().abs() < LONGEST_PS && *time.denom() < 1 << 32;
        if period < Ratio::from_integer(1) || !is_small(&period) || !is_small(&delay) {
            return Err(FreeRunningError::Pulses("their period or delay has too many digits"));
        }
        Ok(Some(Self { period, delay, resets }))
    }

    /// Returns the number of the first pulse that is not before this moment.
    fn from(&self, moment: Moment) -> i128 {
        let since = Ratio::from_integer(i128::from(moment.0)) - self.delay;
        (since / self.period).ceil().to_integer()
    }

    /// Returns the moment of the first pulse that is not before this one.
    pub(super) fn first(&self, moment: Moment) -> Moment {
        (self.from(moment)..).find_map(|number| self.moment(number)).unwrap_or(Moment::MAX)
    }

    /// Returns the moment of a pulse, rounded up. `None`: it is before time 0.
    fn moment(&self, number: i128) -> Option<Moment> {
        let moment = (self.period * number + self.delay).ceil().to_integer();
        u64::try_from(moment).ok().map(Moment)
    }

    /// Returns the times of the pulses in a frame, counted from its begin. The clock of the source runs from `from` on.
    pub(super) fn during(
        &self,
        begin: Moment,
        from: Picos,
        frame: Picos,
    ) -> impl Iterator<Item = Picos> + use<> {
        let (this, end) = (*self, begin + frame);
        let moments = (self.from(begin + from)..).filter_map(move |number| this.moment(number));
        moments.take_while(move |moment| *moment < end).map(move |moment| moment.since(begin))
    }

    /// Returns the ticks that the clock had counted when a pulse reset its counter, before `begin`; 0 without resets.
    pub(super) fn last_reset(&self, clock: &EmulatedClock, begin: Moment) -> u64 {
        let last = self.from(begin) - 1;
        let moment = self.moment(last).filter(|moment| self.resets && *moment >= clock.reset());
        moment.and_then(|moment| clock.during(moment)).map_or(0, |clock| clock.ticks(Picos::ZERO))
    }
}
