//! From values to places, and round values to mark on an axis.

use crate::{Axis, Chart, Error, Mark, Scale};

/// About how many marks an axis has.
const MARKS: f64 = 7.0;

/// An axis with its range settled.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    scale: Scale,
    /// First and last value, as the axis counts them: their logarithm on a logarithmic axis.
    from: f64,
    to: f64,
    /// Values with a label.
    pub(crate) major: Vec<f64>,
    /// Values with a small mark.
    pub(crate) minor: Vec<f64>,
}

/// Settles both axes of `chart`, and checks that all its values have a place.
pub(crate) fn both(chart: &Chart) -> Result<(Settled, Settled), Error> {
    let (mut xs, mut ys) = (Extent::default(), Extent::default());
    for series in &chart.series {
        let what = || format!("series \"{}\"", series.name);
        for point in &series.points {
            xs.must_hold(point.x, &chart.x, &what)?;
            ys.must_hold(point.y, &chart.y, &what)?;
            if let Some((low, high)) = point.interval {
                ys.may_hold(low, &chart.y, &what)?;
                ys.may_hold(high, &chart.y, &what)?;
            }
        }
    }
    for band in &chart.bands {
        let what = || format!("band \"{}\"", band.name);
        for &(x, low, high) in &band.edges {
            xs.must_hold(x, &chart.x, &what)?;
            ys.may_hold(low, &chart.y, &what)?;
            ys.may_hold(high, &chart.y, &what)?;
        }
    }
    if xs.is_empty() || ys.is_empty() {
        return Err(Error::Empty { title: chart.title.clone() });
    }
    for line in &chart.references {
        let what = || format!("reference line \"{}\"", line.label);
        match line.at {
            Mark::X(at) => xs.must_hold(at, &chart.x, &what)?,
            Mark::Y(at) => ys.must_hold(at, &chart.y, &what)?,
        }
    }
    // Sideways the data may begin and end at the frame: upwards that would look as if they were cut off.
    Ok((Settled::new(&chart.x, &xs, false)?, Settled::new(&chart.y, &ys, true)?))
}

/// The least and the greatest of the values that an axis must show.
#[derive(Default)]
struct Extent(Option<(f64, f64)>);

impl Extent {
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn include(&mut self, value: f64) {
        self.0 = Some(match self.0 {
            None => (value, value),
            Some((low, high)) => (low.min(value), high.max(value)),
        });
    }

    fn must_hold(&mut self, value: f64, axis: &Axis, what: &dyn Fn() -> String) -> Result<(), Error> {
        let logarithmic = axis.scale != Scale::Linear;
        if !value.is_finite() || (logarithmic && value <= 0.0) {
            return Err(no_place(value, axis, what()));
        }
        self.include(value);
        Ok(())
    }

    /// For the ends of error bars and bands: what a logarithmic axis cannot show is cut off at its end.
    fn may_hold(&mut self, value: f64, axis: &Axis, what: &dyn Fn() -> String) -> Result<(), Error> {
        if axis.scale != Scale::Linear && value.is_finite() && value <= 0.0 {
            return Ok(());
        }
        self.must_hold(value, axis, what)
    }
}

fn no_place(value: f64, axis: &Axis, what: String) -> Error {
    let scale = if axis.scale == Scale::Linear { "linear" } else { "logarithmic" };
    let remedy =
        if value.is_finite() { "leave it out, or take a linear axis" } else { "a value must be finite" };
    Error::Value { what, value, axis: axis.label.clone(), scale, remedy }
}

impl Settled {
    fn new(axis: &Axis, extent: &Extent, upright: bool) -> Result<Self, Error> {
        let scale = axis.scale;
        let (mut from, mut to) = match (axis.range, extent.0) {
            (Some((from, to)), _) => {
                let valid = from.is_finite() && to.is_finite() && from < to;
                if !valid || (scale != Scale::Linear && from <= 0.0) {
                    return Err(Error::Range { axis: axis.label.clone(), from, to });
                }
                (count(scale, from), count(scale, to))
            }
            (None, Some((low, high))) => rounded(scale, low, high, upright),
            (None, None) => (0.0, 1.0),
        };
        if to - from < 1e-12 * from.abs().max(1.0) {
            (from, to) = (from - 0.5, to + 0.5);
        }
        let (major, minor) = match scale {
            Scale::Linear => linear_marks(from, to),
            Scale::Log10 => decimal_marks(from, to),
            Scale::Log2 => binary_marks(from, to),
        };
        Ok(Self { scale, from, to, major, minor })
    }

    /// Where `value` is between the ends of the axis: 0 at the first value, 1 at the last, beyond them outside. What a
    /// logarithmic axis cannot show is below its beginning.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if self.scale != Scale::Linear && value <= 0.0 {
            return -1.0;
        }
        (count(self.scale, value) - self.from) / (self.to - self.from)
    }
}

/// Returns the coordinate of a value on the axis: the value, or its logarithm.
fn count(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Log10 => value.log10(),
        Scale::Log2 => value.log2(),
    }
}

/// A range that shows `low` to `high`.
fn rounded(scale: Scale, low: f64, high: f64, upright: bool) -> (f64, f64) {
    if scale != Scale::Linear {
        let (from, to) = (count(scale, low), count(scale, high));
        let margin = if upright { (to - from).max(0.3) * 0.06 } else { (to - from).max(0.3) * 0.03 };
        return (from - margin, to + margin);
    }
    let (mut from, mut to) = (low, high);
    if from > 0.0 && from <= to / 2.0 {
        from = 0.0;
    } else if to < 0.0 && to >= from / 2.0 {
        to = 0.0;
    }
    let margin = if to > from { (to - from) * 0.04 } else { to.abs().max(1.0) * 0.1 };
    let widened = (if from == 0.0 { from } else { from - margin }, if to == 0.0 { to } else { to + margin });
    if !upright {
        return widened;
    }
    let step = step(widened.1 - widened.0);
    ((widened.0 / step).floor() * step, (widened.1 / step).ceil() * step)
}

/// 1, 2 or 5 times a power of ten, so that about [`MARKS`] of them fit into `span`.
fn step(span: f64) -> f64 {
    let rough = span / MARKS;
    let power = 10f64.powf(rough.log10().floor());
    let digit = rough / power;
    power
        * if digit < 1.5 {
            1.0
        } else if digit < 3.5 {
            2.0
        } else if digit < 7.5 {
            5.0
        } else {
            10.0
        }
}

fn linear_marks(from: f64, to: f64) -> (Vec<f64>, Vec<f64>) {
    let step = step(to - from);
    let slack = 1e-9 * (to - from);
    #[expect(clippy::cast_possible_truncation, reason = "a few, by the choice of the step")]
    let numbers = ((from - slack) / step).ceil() as i64..=((to + slack) / step).floor() as i64;
    #[expect(clippy::cast_precision_loss, reason = "a few, by the choice of the step")]
    let marks = numbers.map(|number| number as f64 * step);
    (marks.collect(), Vec::new())
}

/// Powers of ten; with 2 and 5 times them where they are few, as small marks where there is room.
#[expect(clippy::cast_possible_truncation, reason = "the logarithm of a finite f64 is below 400")]
fn decimal_marks(from: f64, to: f64) -> (Vec<f64>, Vec<f64>) {
    let powers = from.floor() as i32..=to.ceil() as i32;
    let inside = |value: &f64| (from - 1e-9..=to + 1e-9).contains(&value.log10());
    let times = |digits: &'static [i32]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| digits.iter().map(move |&digit| scaled(digit, power)));
        all.filter(inside).collect()
    };
    let span = to - from;
    if span <= 0.7 {
        let (major, minor) = linear_marks(10f64.powf(from), 10f64.powf(to));
        return (major, minor);
    }
    if span <= 2.6 {
        return (times(&[1, 2, 5]), times(&[3, 4, 6, 7, 8, 9]));
    }
    let every = (span / (MARKS + 2.0)).ceil().max(1.0) as i32;
    let major = powers.clone().filter(|power| power % every == 0).map(|power| scaled(1, power));
    let minor = if every == 1 { times(&[2, 3, 4, 5, 6, 7, 8, 9]) } else { times(&[1]) };
    (major.filter(inside).collect(), minor)
}

/// `digit` times ten to the `power`, exactly as it would be written.
fn scaled(digit: i32, power: i32) -> f64 {
    format!("{digit}e{power}").parse().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_possible_truncation, reason = "the logarithm of a finite f64 is below 1100")]
fn binary_marks(from: f64, to: f64) -> (Vec<f64>, Vec<f64>) {
    // Fewer than two powers may lie in so short a span: one value has no more than itself.
    if to - from < 2.0 {
        return linear_marks(2f64.powf(from), 2f64.powf(to));
    }
    let every = ((to - from) / (MARKS + 1.0)).ceil().max(1.0) as i32;
    let powers = (from - 1e-9).ceil() as i32..=(to + 1e-9).floor() as i32;
    let (major, minor): (Vec<_>, Vec<_>) = powers.partition(|power| power % every == 0);
    let two = |power: i32| 2f64.powi(power);
    (major.into_iter().map(two).collect(), minor.into_iter().map(two).collect())
}
