//! Lines, polygons and text on `plotters`' SVG back end, in pixels.

use crate::Error;
use crate::style::{Colour, Marker};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::io;

/// The back end counts in whole numbers, so a pixel is ten of them: curves are smooth, and stay so when enlarged.
const UNIT: f64 = 10.0;
/// `plotters` takes the height of a font's box and writes its size, which is this much smaller.
const BOX: f64 = 1.24;
/// Fonts of which every viewer has at least one.
const FONT: &str = "Helvetica, Arial, sans-serif";

/// Result of drawing.
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// A place in pixels, from the upper left corner.
pub(crate) type Place = (f64, f64);

/// Part of a text that is at its place.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Left,
    Centre,
    Right,
    /// The centre of a text that reads upwards.
    Upwards,
}

/// Appearance of a text.
#[derive(Clone, Copy)]
pub(crate) struct Lettering {
    pub(crate) size: f64,
    pub(crate) colour: Colour,
    pub(crate) bold: bool,
    pub(crate) anchor: Anchor,
}

/// Draws a picture of `width` x `height` pixels by `paint`, and returns it as an SVG document.
pub(crate) fn picture(
    title: &str,
    width: u32,
    height: u32,
    paint: impl FnOnce(&Canvas<'_>) -> Drawn,
) -> Result<String, Error> {
    let fail = |error: DrawingAreaErrorKind<io::Error>| Error::Backend {
        title: title.to_owned(),
        cause: error.to_string(),
    };
    let mut drawn = String::new();
    {
        let area = SVGBackend::with_string(&mut drawn, (units(width), units(height))).into_drawing_area();
        let canvas = Canvas { area };
        paint(&canvas).map_err(fail)?;
        canvas.area.present().map_err(fail)?;
    }
    // The opening tag of the back end has its units as size; this one has pixels, and a description of the picture.
    let (_, body) = drawn.split_once('>').unwrap_or_default();
    let (wide, high) = (units(width), units(height));
    Ok(format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {wide} {high}\" \
         xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\n<title>{}</title>{body}",
        escaped(title)
    ))
}

const fn units(pixels: u32) -> u32 {
    pixels * 10
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Drawing area of a picture.
pub(crate) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

impl Canvas<'_> {
    /// Draws lines from place to place.
    pub(crate) fn line(&self, places: &[Place], colour: Colour, width: f64) -> Drawn {
        let style = paint(colour, 1.0).stroke_width(thickness(width));
        self.area.draw(&PathElement::new(grid(places), style))
    }

    /// Draws dashed lines from place to place.
    pub(crate) fn dashes(&self, places: &[Place], colour: Colour, width: f64) -> Drawn {
        let style = paint(colour, 1.0).stroke_width(thickness(width));
        let (dash, gap) = (thickness(width * 3.5), thickness(width * 2.5));
        self.area.draw(&DashedPathElement::new(grid(places), dash, gap, style))
    }

    /// Draws a filled polygon. `opacity` is from 0 to 1.
    pub(crate) fn area(&self, places: &[Place], colour: Colour, opacity: f64) -> Drawn {
        self.area.draw(&Polygon::new(grid(places), paint(colour, opacity).filled()))
    }

    /// Draws a filled rectangle between two corners.
    pub(crate) fn rectangle(&self, from: Place, to: Place, colour: Colour, opacity: f64) -> Drawn {
        self.area(&[from, (to.0, from.1), to, (from.0, to.1)], colour, opacity)
    }

    /// Draws a filled marker.
    pub(crate) fn marker(&self, (x, y): Place, marker: Marker, colour: Colour, radius: f64) -> Drawn {
        let (half, wide) = (radius * 0.89, radius * 1.15);
        let corners: Vec<Place> = match marker {
            Marker::Circle => {
                let circle = Circle::new(cell((x, y)), thickness(radius), paint(colour, 1.0).filled());
                return self.area.draw(&circle);
            }
            Marker::Square => vec![(-half, -half), (half, -half), (half, half), (-half, half)],
            Marker::Triangle => vec![(-wide, radius), (wide, radius), (0.0, -radius * 1.2)],
            Marker::Diamond => vec![(0.0, -radius * 1.3), (wide, 0.0), (0.0, radius * 1.3), (-wide, 0.0)],
            Marker::TriangleDown => vec![(-wide, -radius), (wide, -radius), (0.0, radius * 1.2)],
        };
        let corners: Vec<Place> = corners.into_iter().map(|(right, down)| (x + right, y + down)).collect();
        self.area(&corners, colour, 1.0)
    }

    /// Draws a line of text whose vertical centre is at `place`.
    pub(crate) fn text(&self, text: &str, place: Place, lettering: Lettering) -> Drawn {
        let style = if lettering.bold { FontStyle::Bold } else { FontStyle::Normal };
        let (horizontal, turned) = match lettering.anchor {
            Anchor::Left => (HPos::Left, FontTransform::None),
            Anchor::Centre => (HPos::Center, FontTransform::None),
            Anchor::Right => (HPos::Right, FontTransform::None),
            Anchor::Upwards => (HPos::Center, FontTransform::Rotate270),
        };
        let (red, green, blue) = lettering.colour;
        let colour = RGBColor(red, green, blue);
        let font =
            FontDesc::new(FontFamily::Name(FONT), lettering.size * UNIT * BOX, style).transform(turned);
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(horizontal, VPos::Center));
        self.area.draw_text(text, &style, cell(place))
    }
}

fn paint((red, green, blue): Colour, opacity: f64) -> ShapeStyle {
    ShapeStyle::from(&RGBColor(red, green, blue).mix(opacity))
}

fn grid(places: &[Place]) -> Vec<(i32, i32)> {
    places.iter().map(|&place| cell(place)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "places are inside the picture, or near it")]
fn cell((x, y): Place) -> (i32, i32) {
    ((x * UNIT).round() as i32, (y * UNIT).round() as i32)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few pixels")]
fn thickness(pixels: f64) -> u32 {
    (pixels * UNIT).round() as u32
}
