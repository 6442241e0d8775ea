//! The crates as ARCHITECTURE.md shows them: a diagram of floors, packages and arrows, and the table of permitted dependencies.

use super::table::{Floor, LAYERS, Layer};
use crate::problem::Problem;
use crate::workspace;
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const PAGE: &str = "ARCHITECTURE.md";
const PICTURE: &str = "docs/architecture.svg";
const BEGIN: &str = "<!-- begin: who may know whom -->\n";
const END: &str = "<!-- end: who may know whom -->\n";

/// Returns a problem for each generated file that is out of date.
pub(super) fn check() -> Result<Vec<Problem>> {
    let stale = |(path, text): (&'static str, String)| {
        let there = std::fs::read_to_string(workspace::root().join(path)).unwrap_or_default();
        (there != text).then(|| Problem::new(path, "is out of date; run `cargo xtask docs`"))
    };
    Ok(files()?.into_iter().filter_map(stale).collect())
}

pub(super) fn write() -> Result<()> {
    for (path, text) in files()? {
        std::fs::write(workspace::root().join(path), text).context(path)?;
    }
    Ok(())
}

fn files() -> Result<[(&'static str, String); 2]> {
    let page = std::fs::read_to_string(workspace::root().join(PAGE)).context(PAGE)?;
    let (before, rest) = page.split_once(BEGIN).context("ARCHITECTURE.md has no begin mark of the table")?;
    let (_, after) = rest.split_once(END).context("ARCHITECTURE.md has no end mark of the table")?;
    Ok([(PAGE, format!("{before}{BEGIN}{}{END}{after}", table())), (PICTURE, picture())])
}

fn layers_of(floor: Floor) -> impl Iterator<Item = &'static Layer> {
    LAYERS.iter().filter(move |layer| layer.floor == floor)
}

/// Returns the table of packages, grouped by floor from the ground up.
fn table() -> String {
    let mut text = String::from("| crate | may depend on | reason |\n|---|---|---|\n");
    for floor in Floor::ALL {
        let _ = writeln!(text, "| **{}** | | {} |", floor.name(), floor.purpose());
        for layer in layers_of(floor) {
            let known: Vec<_> = layer.may_know.iter().map(|known| short(known)).collect();
            let _ = writeln!(text, "| `{}` | {} | {} |", layer.package, known.join(", "), layer.reason);
        }
    }
    text.replace("|  |", "| |")
}

fn short(package: &str) -> &str {
    package.strip_prefix("sheaf-").unwrap_or(package)
}

/// Returns the dependencies that no other dependency implies.
fn direct(layer: &Layer) -> Vec<&'static str> {
    let implied: BTreeSet<_> = layer.may_know.iter().flat_map(|known| reached(known)).collect();
    layer.may_know.iter().copied().filter(|known| !implied.contains(known)).collect()
}

fn reached(package: &str) -> BTreeSet<&'static str> {
    let layer = LAYERS.iter().find(|layer| layer.package == package);
    let known = layer.into_iter().flat_map(|layer| layer.may_know);
    known.flat_map(|known| reached(known).into_iter().chain([*known])).collect()
}

/// Width of the diagram in pixels.
const WIDTH: usize = 1180;
const LABELS: usize = 130;
const ROW: usize = 96;
const BOX_HEIGHT: usize = 28;
const LETTER: usize = 8;

/// Centre of a box, and half its width.
#[derive(Clone, Copy)]
struct Spot {
    x: usize,
    y: usize,
    half: usize,
}

/// Returns the positions of all packages. Packages of a floor are ordered by their dependencies below, which keeps arrows short.
fn spots() -> BTreeMap<&'static str, Spot> {
    let mut spots: BTreeMap<&'static str, Spot> = BTreeMap::new();
    for (floor, height) in Floor::ALL.into_iter().zip((0..Floor::ALL.len()).rev()) {
        let mut row: Vec<&Layer> = layers_of(floor).collect();
        let middle = |layer: &Layer| {
            let below: Vec<usize> =
                direct(layer).iter().filter_map(|known| Some(spots.get(known)?.x)).collect();
            below.iter().sum::<usize>().checked_div(below.len()).unwrap_or(WIDTH)
        };
        row.sort_by_key(|layer| middle(layer));
        let half = |layer: &Layer| layer.package.len() * LETTER / 2 + 8;
        let taken: usize = row.iter().map(|layer| 2 * half(layer)).sum();
        let gap = (WIDTH - LABELS - taken) / (row.len() + 1);
        let mut x = LABELS + gap;
        let mut placed = Vec::new();
        for layer in row {
            let half = half(layer);
            placed.push((layer.package, Spot { x: x + half, y: height * ROW + ROW / 2, half }));
            x += 2 * half + gap;
        }
        spots.extend(placed);
    }
    spots
}

fn picture() -> String {
    let spots = spots();
    let height = Floor::ALL.len() * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>The crates of Sheaf by floor; an arrow leads to a crate that is known</title>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"#57606a\"/></marker></defs>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (floor, row) in Floor::ALL.into_iter().rev().zip(0..) {
        let (top, shade) = (row * ROW, if row % 2 == 0 { "#f6f8fa" } else { "#ffffff" });
        let _ = writeln!(svg, "<rect y=\"{top}\" width=\"{WIDTH}\" height=\"{ROW}\" fill=\"{shade}\"/>");
        let middle = top + ROW / 2 + 5;
        let _ = writeln!(svg, "<text x=\"12\" y=\"{middle}\" fill=\"#57606a\">{}</text>", floor.name());
    }
    for layer in LAYERS {
        for known in direct(layer) {
            svg.push_str(&arrow(spots[layer.package], spots[known]));
        }
    }
    for (package, Spot { x, y, half }) in &spots {
        let (left, top, width, base) = (x - half, y - BOX_HEIGHT / 2, 2 * half, y + 5);
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"5\" fill=\"#ddf4ff\" stroke=\"#0969da\"/>\
             <text x=\"{x}\" y=\"{base}\" text-anchor=\"middle\">{package}</text>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns an arrow from the lower edge of a box to the upper edge of a box below, or from side to side on the same floor.
fn arrow(from: Spot, to: Spot) -> String {
    let path = if from.y == to.y {
        let (start, end) = (from.x, to.x);
        let (edge, dip) = (from.y + BOX_HEIGHT / 2, from.y + ROW / 2);
        format!("M{start} {edge}C{start} {dip} {end} {dip} {end} {edge}")
    } else {
        let (start, end) = (from.y + BOX_HEIGHT / 2, to.y - BOX_HEIGHT / 2);
        format!("M{} {start}C{} {} {} {} {} {end}", from.x, from.x, start + 40, to.x, end - 40, to.x)
    };
    format!(
        "<path d=\"{path}\" fill=\"none\" stroke=\"#57606a\" stroke-opacity=\"0.55\" marker-end=\"url(#tip)\"/>\n"
    )
}
