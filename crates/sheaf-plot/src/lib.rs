//! Curves as SVG: axes, points, error bars, bands and captions in one style; and tables of text.
//!
//! A [`Chart`] is plain data; [`Chart::to_svg`] draws it. The same chart gives the same bytes. The palette can be told
//! apart by the colour-blind (Okabe and Ito), and series differ by their markers as well, so that a chart survives a
//! black-and-white printer. The legend stands beside the data, never on it; labels of reference lines are put where
//! least is in their way.
//!
//! | module | holds |
//! |---|---|
//! | `chart` | the parts of a chart |
//! | `scale` | from values to positions, and round values for the ticks of an axis |
//! | `number` | formats of the values beside an axis |
//! | `style` | colours, markers, sizes |
//! | `canvas` | lines, polygons and text on `plotters`' SVG back end |
//! | `layout` | positions of title, legend, plot and caption |
//! | `draw` | the drawing itself |
//! | `text_table` | columns of text, as wide as their cells |
//!
//! The crate does not know what its numbers mean, reads no file and writes none. It draws no bars, no heat maps and no
//! two y axes.
//!
//! ```
//! use sheaf_plot::{Axis, Chart, Point, Series};
//!
//! let measured = [(64.0, 1.1e6), (1024.0, 9.0e6), (16384.0, 21.0e6)];
//! let mut chart = Chart::new("Stream", Axis::bytes("message size"), Axis::log("throughput", "B/s"));
//! chart.series.push(Series::line("tcp", measured.map(Point::from)));
//! let svg = chart.to_svg()?;
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), sheaf_plot::Error>(())
//! ```

#![forbid(unsafe_code)]

mod canvas;
mod chart;
mod draw;
mod layout;
mod number;
mod scale;
mod style;
mod text_table;

#[cfg(test)]
mod tests;

pub use chart::{Axis, Band, Chart, Draw, Error, Mark, Notation, Point, Reference, Scale, Series};
pub use text_table::{Align, TextTable};

impl Chart {
    /// The picture as a complete SVG document.
    ///
    /// # Errors
    /// Where there is nothing to draw, a value is not finite or not positive on a logarithmic axis, or the picture is
    /// too small. Error bars and bands may reach below zero on a logarithmic axis: they are cut at its end.
    pub fn to_svg(&self) -> Result<String, Error> {
        let (x, y) = scale::both(self)?;
        draw::chart(self, &x, &y)
    }
}
