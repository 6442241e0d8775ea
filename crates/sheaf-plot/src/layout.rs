//! Where title, legend, plot and caption go. All lengths in pixels.

use crate::number::written;
use crate::scale::Settled;
use crate::style::{CAPTION_SIZE, LABEL_SIZE, SUBTITLE_SIZE, TICK_SIZE, TITLE_SIZE, text_width};
use crate::{Chart, Error};

/// Free space at the edges of the picture.
pub(crate) const MARGIN: f64 = 14.0;
/// From the frame to the legend, and the length of a legend's sample with its gap.
pub(crate) const LEGEND_GAP: f64 = 16.0;
pub(crate) const SAMPLE: f64 = 26.0;
pub(crate) const SAMPLE_GAP: f64 = 7.0;
/// Distance between lines of text, in sizes of the text.
pub(crate) const LEADING: f64 = 1.45;
/// The least plot that is worth looking at.
const LEAST: (f64, f64) = (160.0, 100.0);
/// The widest legend: a longer name is broken into lines.
const LEGEND_SHARE: f64 = 0.3;

/// The places of everything.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// Middle height of the title.
    pub(crate) title: f64,
    /// Middle height of the first line of the subtitle.
    pub(crate) under_title: f64,
    /// The subtitle, broken into lines.
    pub(crate) subtitle: Vec<String>,
    /// Names of the legend, each broken into lines.
    pub(crate) legend: Vec<Vec<String>>,
    /// The caption, broken into lines.
    pub(crate) caption: Vec<String>,
}

impl Layout {
    /// Gives everything its place; `names` are those of the legend.
    pub(crate) fn new(chart: &Chart, y: &Settled, names: &[String]) -> Result<Self, Error> {
        let (width, height) = (f64::from(chart.width), f64::from(chart.height));
        let widest_name = width * LEGEND_SHARE - LEGEND_GAP - SAMPLE - SAMPLE_GAP;
        let legend: Vec<_> = names.iter().map(|name| broken(name, TICK_SIZE, widest_name)).collect();
        let caption = broken(&chart.caption, CAPTION_SIZE, width - 2.0 * MARGIN);
        let subtitle = broken(&chart.subtitle, SUBTITLE_SIZE, width - 2.0 * MARGIN);

        let title = MARGIN + TITLE_SIZE / 2.0;
        let under_title = title + TITLE_SIZE * 0.75 + SUBTITLE_SIZE * 0.75;
        let head = match subtitle.len() {
            0 => title + TITLE_SIZE / 2.0,
            count => under_title + lines(count - 1) * SUBTITLE_SIZE * LEADING + SUBTITLE_SIZE / 2.0,
        };
        let top = head + MARGIN;
        let foot = if caption.is_empty() { 0.0 } else { lines(caption.len()) * CAPTION_SIZE * LEADING + 6.0 };
        let bottom = height - MARGIN - foot - LABEL_SIZE * LEADING - TICK_SIZE - 10.0;

        let numbers = y.major.iter().map(|&value| text_width(&written(value, chart.y.notation), TICK_SIZE));
        let left = MARGIN + LABEL_SIZE * LEADING + numbers.fold(0.0, f64::max) + 10.0;
        let names = legend.iter().flatten().map(|line| text_width(line, TICK_SIZE));
        let names = names.fold(0.0, f64::max);
        let beside = if legend.is_empty() { 8.0 } else { LEGEND_GAP + SAMPLE + SAMPLE_GAP + names };
        let right = width - MARGIN - beside;

        let legend_height = lines(legend.iter().map(Vec::len).sum()) * TICK_SIZE * LEADING;
        let short = (LEAST.0 - (right - left), LEAST.1.max(legend_height) - (bottom - top));
        if short.0 > 0.0 || short.1 > 0.0 {
            return Err(no_room(chart, short));
        }
        Ok(Self { left, right, top, bottom, title, under_title, subtitle, legend, caption })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lengths of a picture")]
fn no_room(chart: &Chart, short: (f64, f64)) -> Error {
    let needed = |has: u32, short: f64| has + short.max(0.0).ceil() as u32;
    Error::Room {
        title: chart.title.clone(),
        width: chart.width,
        height: chart.height,
        at_least_width: needed(chart.width, short.0 / (1.0 - LEGEND_SHARE)),
        at_least_height: needed(chart.height, short.1),
    }
}

/// Converts a number of lines to a factor.
#[expect(clippy::cast_precision_loss, reason = "a few")]
pub(crate) fn lines(count: usize) -> f64 {
    count as f64
}

/// `text` in lines no wider than `width`, broken between words; a word that is wider has a line of its own.
pub(crate) fn broken(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            if line.is_empty() || text_width(&longer, size) <= width {
                line = longer;
            } else {
                lines.push(std::mem::replace(&mut line, word.to_owned()));
            }
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}
