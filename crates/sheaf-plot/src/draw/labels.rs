//! Labels of reference lines, each where least is in its way.

use super::{Drawing, Drawn, NORMAL};
use crate::canvas::{Anchor, Lettering, Place};
use crate::style::{self, text_width};
use crate::{Mark, Reference};

const SIZE: f64 = 11.5;
/// Height of a label with the space above and below.
const HEIGHT: f64 = SIZE * 1.3;
/// Number of places along the line that are tried.
const TRIED: u32 = 24;
/// Curves are looked at in steps of this many pixels.
const LOOK: f64 = 3.0;

/// An upright rectangle: the lesser corner and the greater one.
type Area = (Place, Place);

impl Drawing<'_, '_> {
    /// Writes the labels of all reference lines that are in the frame.
    pub(super) fn reference_labels(&self) -> Drawn {
        let mut obstacles = self.obstacles();
        for reference in self.chart.references.iter().filter(|reference| !reference.label.is_empty()) {
            let Some(area) = self.best_place(reference, &obstacles) else { continue };
            self.write_label(reference, area)?;
            // The next label keeps off this one.
            obstacles.extend(spread(area));
        }
        Ok(())
    }

    /// Points of all that a label must not cover.
    fn obstacles(&self) -> Vec<Place> {
        let mut all = Vec::new();
        for series in &self.chart.series {
            let places = series.points.iter().map(|point| self.place(point.x, point.y));
            // A marker weighs more than a piece of a line.
            all.extend(places.flat_map(|place| [place; 4]));
            for ends in self.curve(series).windows(2) {
                all.extend(between(ends[0], ends[1]));
            }
            let bars = series.points.iter().filter_map(|point| Some((point.x, point.interval?)));
            for (x, (low, high)) in bars {
                all.extend(between(self.place(x, low), self.place(x, high)));
            }
        }
        for reference in &self.chart.references {
            let Some((from, to)) = self.ends(reference.at) else { continue };
            all.extend(between(from, to));
        }
        all
    }

    fn ends(&self, at: Mark) -> Option<(Place, Place)> {
        let frame = self.frame();
        let ends = match at {
            Mark::X(value) => ((self.across(value), frame.top), (self.across(value), frame.bottom)),
            Mark::Y(value) => ((frame.left, self.down(value)), (frame.right, self.down(value))),
        };
        frame.holds(ends.0).then_some(ends)
    }

    /// The area beside the line that covers least; of equal ones the first: towards the end of the line.
    fn best_place(&self, reference: &Reference, obstacles: &[Place]) -> Option<Area> {
        self.ends(reference.at)?;
        let frame = self.frame();
        let length = text_width(&reference.label, SIZE) + 4.0;
        let mut best: Option<(usize, Area)> = None;
        for step in 0..=TRIED {
            let along = 1.0 - f64::from(step) / f64::from(TRIED);
            for side in [-1.0, 1.0] {
                let area = match reference.at {
                    Mark::Y(value) => {
                        let room = frame.right - frame.left - length - 8.0;
                        let from = frame.left + 4.0 + room.max(0.0) * along;
                        let middle = self.down(value) + side * (HEIGHT / 2.0 + 2.0);
                        ((from, middle - HEIGHT / 2.0), (from + length, middle + HEIGHT / 2.0))
                    }
                    Mark::X(value) => {
                        let room = frame.bottom - frame.top - length - 8.0;
                        let from = frame.top + 4.0 + room.max(0.0) * (1.0 - along);
                        let middle = self.across(value) + side * (HEIGHT / 2.0 + 2.0);
                        ((middle - HEIGHT / 2.0, from), (middle + HEIGHT / 2.0, from + length))
                    }
                };
                if !frame.holds(area.0) || !frame.holds(area.1) {
                    continue;
                }
                let covered = obstacles.iter().filter(|&&place| inside(place, area)).count();
                if best.is_none_or(|(least, _)| covered < least) {
                    best = Some((covered, area));
                }
            }
        }
        best.map(|(_, area)| area)
    }

    fn write_label(&self, reference: &Reference, (from, to): Area) -> Drawn {
        let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        let anchor = if matches!(reference.at, Mark::X(_)) { Anchor::Upwards } else { Anchor::Centre };
        let lettering = Lettering { size: SIZE, colour: style::SOFT_TEXT, anchor, ..NORMAL };
        self.canvas.rectangle(from, to, style::PAPER, 0.8)?;
        self.canvas.text(&reference.label, middle, lettering)
    }
}

fn inside((x, y): Place, (from, to): Area) -> bool {
    (from.0 - 2.0..=to.0 + 2.0).contains(&x) && (from.1 - 1.0..=to.1 + 1.0).contains(&y)
}

/// Points on the way from one place to another.
fn between(from: Place, to: Place) -> Vec<Place> {
    let length = (to.0 - from.0).hypot(to.1 - from.1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most a few thousand pixels"
    )]
    let steps = (length / LOOK).ceil().clamp(1.0, 4096.0) as u32;
    let at = |step| {
        let part = f64::from(step) / f64::from(steps);
        (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part)
    };
    (0..=steps).map(at).collect()
}

/// Points all over an area, dense enough that no label overlooks it.
fn spread((from, to): Area) -> Vec<Place> {
    let middle = f64::midpoint(from.1, to.1);
    [from.1, middle, to.1].into_iter().flat_map(|y| between((from.0, y), (to.0, y))).collect()
}
