//! The drawing itself, from the back to the front: grid, bands, reference lines, curves, axes, labels, text around.

mod labels;
mod path;

use crate::canvas::{Anchor, Canvas, Drawn, Lettering, Place, picture};
use crate::layout::{LEADING, LEGEND_GAP, Layout, MARGIN, SAMPLE, SAMPLE_GAP, lines};
use crate::number::written;
use crate::scale::Settled;
use crate::style::{self, Colour};
use crate::{Axis, Band, Chart, Draw, Error, Mark, Series};

const NORMAL: Lettering =
    Lettering { size: style::TICK_SIZE, colour: style::TEXT, bold: false, anchor: Anchor::Left };
const BAND_OPACITY: f64 = 0.18;

/// Draws `chart` over the settled axes.
pub(crate) fn chart(chart: &Chart, x: &Settled, y: &Settled) -> Result<String, Error> {
    let entries = Entry::all(chart);
    let names: Vec<String> = entries.iter().map(|entry| entry.name().to_owned()).collect();
    let layout = Layout::new(chart, y, &names)?;
    picture(&chart.title, chart.width, chart.height, |canvas| {
        let drawing = Drawing { chart, x, y, layout: &layout, canvas };
        drawing.background()?;
        chart.bands.iter().try_for_each(|band| drawing.band(band))?;
        chart.references.iter().try_for_each(|line| drawing.reference_line(line.at))?;
        drawing.axes()?;
        for (number, series) in chart.series.iter().enumerate() {
            drawing.series(series, series.colour.unwrap_or(number))?;
        }
        drawing.reference_labels()?;
        drawing.words()?;
        drawing.legend(&entries)
    })
}

/// A line of the legend.
enum Entry<'a> {
    Series(&'a Series, usize),
    Band(&'a Band),
}

impl<'a> Entry<'a> {
    fn all(chart: &'a Chart) -> Vec<Self> {
        let series = chart.series.iter().enumerate();
        let series = series.map(|(number, series)| Self::Series(series, series.colour.unwrap_or(number)));
        let all = series.chain(chart.bands.iter().map(Self::Band));
        all.filter(|entry| !entry.name().is_empty()).collect()
    }

    fn name(&self) -> &'a str {
        match self {
            Self::Series(series, _) => &series.name,
            Self::Band(band) => &band.name,
        }
    }
}

/// A chart on its canvas.
struct Drawing<'a, 'b> {
    chart: &'a Chart,
    x: &'a Settled,
    y: &'a Settled,
    layout: &'a Layout,
    canvas: &'a Canvas<'b>,
}

impl Drawing<'_, '_> {
    fn across(&self, value: f64) -> f64 {
        self.layout.left + self.x.place(value) * (self.layout.right - self.layout.left)
    }

    fn down(&self, value: f64) -> f64 {
        self.layout.bottom - self.y.place(value) * (self.layout.bottom - self.layout.top)
    }

    fn place(&self, x: f64, y: f64) -> Place {
        (self.across(x), self.down(y))
    }

    fn frame(&self) -> path::Frame {
        let Layout { left, right, top, bottom, .. } = *self.layout;
        path::Frame { left, right, top, bottom }
    }

    fn background(&self) -> Drawn {
        let size = (f64::from(self.chart.width), f64::from(self.chart.height));
        self.canvas.rectangle((0.0, 0.0), size, style::PAPER, 1.0)?;
        let Layout { left, right, top, bottom, .. } = *self.layout;
        for &value in &self.y.major {
            let at = self.down(value);
            self.canvas.line(&[(left, at), (right, at)], style::GRID, style::THIN)?;
        }
        for &value in &self.x.major {
            let at = self.across(value);
            self.canvas.line(&[(at, top), (at, bottom)], style::GRID, style::THIN)?;
        }
        Ok(())
    }

    fn band(&self, band: &Band) -> Drawn {
        let lower = band.edges.iter().map(|&(x, low, _)| self.place(x, low));
        let upper = band.edges.iter().rev().map(|&(x, _, high)| self.place(x, high));
        let outline: Vec<Place> = lower.chain(upper).collect();
        let colour = band.colour.map_or(style::BAND, style::colour);
        match self.frame().polygon_inside(outline) {
            inside if inside.len() < 3 => Ok(()),
            inside => self.canvas.area(&inside, colour, BAND_OPACITY),
        }
    }

    fn reference_line(&self, at: Mark) -> Drawn {
        let Layout { left, right, top, bottom, .. } = *self.layout;
        let line = match at {
            Mark::X(value) => [(self.across(value), top), (self.across(value), bottom)],
            Mark::Y(value) => [(left, self.down(value)), (right, self.down(value))],
        };
        let inside = self.frame().holds(line[0]);
        if inside { self.canvas.dashes(&line, style::REFERENCE, 1.3) } else { Ok(()) }
    }

    fn axes(&self) -> Drawn {
        let Layout { left, right, top, bottom, .. } = *self.layout;
        self.canvas.line(&[(left, top), (left, bottom), (right, bottom)], style::AXIS, style::THIN)?;
        for &value in &self.x.major {
            let at = self.across(value);
            self.canvas.line(&[(at, bottom), (at, bottom + 5.0)], style::AXIS, style::THIN)?;
            let number = written(value, self.chart.x.notation);
            let lettering = Lettering { anchor: Anchor::Centre, ..NORMAL };
            self.canvas.text(&number, (at, bottom + 8.0 + style::TICK_SIZE / 2.0), lettering)?;
        }
        for &value in &self.x.minor {
            let at = self.across(value);
            self.canvas.line(&[(at, bottom), (at, bottom + 3.0)], style::AXIS, style::THIN)?;
        }
        for &value in &self.y.major {
            let at = self.down(value);
            self.canvas.line(&[(left - 5.0, at), (left, at)], style::AXIS, style::THIN)?;
            let number = written(value, self.chart.y.notation);
            self.canvas.text(&number, (left - 8.0, at), Lettering { anchor: Anchor::Right, ..NORMAL })?;
        }
        for &value in &self.y.minor {
            let at = self.down(value);
            self.canvas.line(&[(left - 3.0, at), (left, at)], style::AXIS, style::THIN)?;
        }
        Ok(())
    }

    fn series(&self, series: &Series, number: usize) -> Drawn {
        let colour = style::colour(number);
        self.error_bars(series, colour)?;
        for part in self.frame().parts_inside(&self.curve(series)) {
            match series.draw {
                Draw::Dashed => self.canvas.dashes(&part, colour, style::CURVE_WIDTH)?,
                _ => self.canvas.line(&part, colour, style::CURVE_WIDTH)?,
            }
        }
        if !matches!(series.draw, Draw::LineAndPoints | Draw::Points) {
            return Ok(());
        }
        let places = series.points.iter().map(|point| self.place(point.x, point.y));
        for place in places.filter(|&place| self.frame().holds(place)) {
            self.canvas.marker(place, style::marker(number), colour, style::MARKER_RADIUS)?;
        }
        Ok(())
    }

    /// Returns the line of a series before clipping to the frame; empty for a series of points only.
    fn curve(&self, series: &Series) -> Vec<Place> {
        let places = series.points.iter().map(|point| self.place(point.x, point.y));
        match series.draw {
            Draw::Points => Vec::new(),
            Draw::Steps => path::stairs(places),
            Draw::Line | Draw::LineAndPoints | Draw::Dashed => places.collect(),
        }
    }

    fn error_bars(&self, series: &Series, colour: Colour) -> Drawn {
        for point in &series.points {
            let Some((low, high)) = point.interval else { continue };
            let at = self.across(point.x);
            let (low, high) = (self.down(low), self.down(high));
            for part in self.frame().parts_inside(&[(at, low), (at, high)]) {
                self.canvas.line(&part, colour, style::THIN)?;
            }
            for end in [low, high].into_iter().filter(|&end| self.frame().holds((at, end))) {
                self.canvas.line(&[(at - 3.0, end), (at + 3.0, end)], colour, style::THIN)?;
            }
        }
        Ok(())
    }

    /// Title, labels of the axes, caption.
    fn words(&self) -> Drawn {
        let Layout { left, right, top, bottom, title, under_title, ref subtitle, ref caption, .. } =
            *self.layout;
        let large = Lettering { size: style::TITLE_SIZE, bold: true, ..NORMAL };
        self.canvas.text(&self.chart.title, (MARGIN, title), large)?;
        let soft = Lettering { size: style::SUBTITLE_SIZE, colour: style::SOFT_TEXT, ..NORMAL };
        for (number, line) in subtitle.iter().enumerate() {
            let at = (MARGIN, under_title + lines(number) * style::SUBTITLE_SIZE * LEADING);
            self.canvas.text(line, at, soft)?;
        }
        let label = Lettering { size: style::LABEL_SIZE, anchor: Anchor::Centre, ..NORMAL };
        let below = bottom + 10.0 + style::TICK_SIZE + style::LABEL_SIZE * LEADING / 2.0;
        self.canvas.text(&named(&self.chart.x), (f64::midpoint(left, right), below), label)?;
        let upwards = Lettering { anchor: Anchor::Upwards, ..label };
        let beside = (MARGIN + style::LABEL_SIZE / 2.0, f64::midpoint(top, bottom));
        self.canvas.text(&named(&self.chart.y), beside, upwards)?;
        let first = f64::from(self.chart.height)
            - MARGIN
            - (lines(caption.len()) - 0.5) * style::CAPTION_SIZE * LEADING;
        for (number, line) in caption.iter().enumerate() {
            let at = (MARGIN, first + lines(number) * style::CAPTION_SIZE * LEADING);
            self.canvas.text(line, at, Lettering { size: style::CAPTION_SIZE, ..soft })?;
        }
        Ok(())
    }

    fn legend(&self, entries: &[Entry<'_>]) -> Drawn {
        let from = self.layout.right + LEGEND_GAP;
        let mut middle = self.layout.top + style::TICK_SIZE / 2.0;
        for (entry, name) in entries.iter().zip(&self.layout.legend) {
            self.sample(entry, from, middle)?;
            for line in name {
                self.canvas.text(line, (from + SAMPLE + SAMPLE_GAP, middle), NORMAL)?;
                middle += style::TICK_SIZE * LEADING;
            }
        }
        Ok(())
    }

    /// The sample before a name of the legend.
    fn sample(&self, entry: &Entry<'_>, from: f64, middle: f64) -> Drawn {
        let line = [(from, middle), (from + SAMPLE, middle)];
        match entry {
            Entry::Band(band) => {
                let colour = band.colour.map_or(style::BAND, style::colour);
                let half = style::TICK_SIZE / 2.0;
                let corners = ((from, middle - half), (from + SAMPLE, middle + half));
                self.canvas.rectangle(corners.0, corners.1, colour, BAND_OPACITY)
            }
            Entry::Series(series, number) => {
                let colour = style::colour(*number);
                match series.draw {
                    Draw::Dashed => self.canvas.dashes(&line, colour, style::CURVE_WIDTH)?,
                    Draw::Points => (),
                    _ => self.canvas.line(&line, colour, style::CURVE_WIDTH)?,
                }
                if matches!(series.draw, Draw::LineAndPoints | Draw::Points) {
                    let place = (from + SAMPLE / 2.0, middle);
                    self.canvas.marker(place, style::marker(*number), colour, style::MARKER_RADIUS)?;
                }
                Ok(())
            }
        }
    }
}

/// Label and unit of an axis.
fn named(axis: &Axis) -> String {
    if axis.unit.is_empty() { axis.label.clone() } else { format!("{} ({})", axis.label, axis.unit) }
}
