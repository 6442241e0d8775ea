//! Curves as SVG: axes, points, error bars, bands and captions in one style.
