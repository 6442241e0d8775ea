//! Colours, markers, sizes: what all charts have in common. Lengths in pixels.

/// Red, green, blue.
pub(crate) type Colour = (u8, u8, u8);

/// The palette of Okabe and Ito (2002) without its yellow, which is too light for a line: colours that people with any
/// of the common forms of colour blindness can tell apart.
const PALETTE: [Colour; 7] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x00, 0x9E, 0x73),
    (0xCC, 0x79, 0xA7),
    (0xE6, 0x9F, 0x00),
    (0x56, 0xB4, 0xE9),
    (0x44, 0x44, 0x44),
];

pub(crate) const TEXT: Colour = (0x22, 0x22, 0x22);
pub(crate) const SOFT_TEXT: Colour = (0x5A, 0x5A, 0x5A);
pub(crate) const AXIS: Colour = (0x55, 0x55, 0x55);
pub(crate) const GRID: Colour = (0xE4, 0xE4, 0xE4);
pub(crate) const REFERENCE: Colour = (0x77, 0x77, 0x77);
pub(crate) const BAND: Colour = (0x88, 0x88, 0x88);
pub(crate) const PAPER: Colour = (0xFF, 0xFF, 0xFF);

pub(crate) const TITLE_SIZE: f64 = 17.0;
pub(crate) const SUBTITLE_SIZE: f64 = 13.0;
pub(crate) const LABEL_SIZE: f64 = 13.0;
pub(crate) const TICK_SIZE: f64 = 12.0;
pub(crate) const CAPTION_SIZE: f64 = 11.5;
pub(crate) const CURVE_WIDTH: f64 = 2.0;
pub(crate) const THIN: f64 = 1.0;
pub(crate) const MARKER_RADIUS: f64 = 3.6;

/// The form of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
}

const MARKERS: [Marker; 5] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::TriangleDown];

/// Colour `number` of the palette.
pub(crate) const fn colour(number: usize) -> Colour {
    PALETTE[number % PALETTE.len()]
}

/// Marker `number`. Five and seven have no common factor: 35 series pass before a pair of colour and marker repeats.
pub(crate) const fn marker(number: usize) -> Marker {
    MARKERS[number % MARKERS.len()]
}

/// Ratio of the width of letters in DejaVu Sans to that in Helvetica, since some readers have only the former.
const WIDER: f64 = 1.12;

/// Estimates the width of `text`, in pixels. The font of the reader is unknown. The estimate uses the widths of Helvetica
/// in three classes, with a margin.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' | 'f' | 't' | 'r' | '('
            | ')' | '/' | '-' => 0.32,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.88,
            'A'..='Z' => 0.70,
            _ => 0.57,
        })
        .sum();
    em * size * WIDER
}
