//! Lines and polygons cut to the frame of the plot.

use crate::canvas::Place;

/// The edges of the plot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Half a tenth of a pixel, the resolution of the canvas: a point on the edge is inside.
const SLACK: f64 = 0.05;

impl Frame {
    /// Whether `place` is inside.
    pub(super) fn holds(&self, (x, y): Place) -> bool {
        (self.left - SLACK..=self.right + SLACK).contains(&x)
            && (self.top - SLACK..=self.bottom + SLACK).contains(&y)
    }

    /// The parts of a line that are inside.
    pub(super) fn parts_inside(&self, line: &[Place]) -> Vec<Vec<Place>> {
        let mut parts: Vec<Vec<Place>> = Vec::new();
        for ends in line.windows(2) {
            let Some((from, to)) = self.segment_inside(ends[0], ends[1]) else { continue };
            match parts.last_mut() {
                Some(part) if part.last() == Some(&from) => part.push(to),
                _ => parts.push(vec![from, to]),
            }
        }
        parts
    }

    /// Liang and Barsky's way: each edge takes a part off one end.
    fn segment_inside(&self, from: Place, to: Place) -> Option<(Place, Place)> {
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let edges = [
            (-across, from.0 - self.left),
            (across, self.right - from.0),
            (-down, from.1 - self.top),
            (down, self.bottom - from.1),
        ];
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (direction, room) in edges {
            if direction == 0.0 {
                if room < -SLACK {
                    return None;
                }
            } else if direction < 0.0 {
                enters = enters.max(room / direction);
            } else {
                leaves = leaves.min(room / direction);
            }
        }
        let at = |part: f64| (from.0 + across * part, from.1 + down * part);
        // The ends themselves are returned as they are, so that neighbouring segments join.
        let start = if enters > 0.0 { at(enters) } else { from };
        let end = if leaves < 1.0 { at(leaves) } else { to };
        (enters <= leaves).then_some((start, end))
    }

    /// The part of a polygon that is inside (Sutherland and Hodgman's way: one edge after the other).
    pub(super) fn polygon_inside(&self, corners: Vec<Place>) -> Vec<Place> {
        let corners = cut(corners, |place| place.0 - self.left);
        let corners = cut(corners, |place| self.right - place.0);
        let corners = cut(corners, |place| place.1 - self.top);
        cut(corners, |place| self.bottom - place.1)
    }
}

/// Returns the polygon on the side of an edge where `room` is positive.
fn cut(corners: Vec<Place>, room: impl Fn(Place) -> f64) -> Vec<Place> {
    let mut kept = Vec::with_capacity(corners.len() + 2);
    for (number, &to) in corners.iter().enumerate() {
        let from = corners[(number + corners.len() - 1) % corners.len()];
        let (before, after) = (room(from), room(to));
        if (before < 0.0) != (after < 0.0) {
            let part = before / (before - after);
            kept.push((from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part));
        }
        if after >= 0.0 {
            kept.push(to);
        }
    }
    kept
}

/// The stairs through `places`: level until the next place, then upright.
pub(super) fn stairs(places: impl Iterator<Item = Place>) -> Vec<Place> {
    let mut stairs: Vec<Place> = Vec::new();
    for place in places {
        if let Some(&(_, height)) = stairs.last() {
            stairs.push((place.0, height));
        }
        stairs.push(place);
    }
    stairs
}
