//! Links between pages: the file must exist and have the heading.

use crate::problem::Problem;
use std::path::Path;

/// Checks that the targets of a page's links within this repository exist.
pub(super) fn check(root: &Path, path: &str, text: &str) -> Vec<Problem> {
    let here = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    for (line, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = target.split_once('#').map_or((&*target, None), |(f, h)| (f, Some(h)));
        let linked = if file.is_empty() { root.join(path) } else { root.join(here).join(file) };
        if !linked.exists() {
            problems.push(Problem::at_line(path, line, format!("links to {target}, which does not exist")));
        } else if let Some(heading) = heading.filter(|_| linked.is_file()) {
            let page = std::fs::read_to_string(&linked).unwrap_or_default();
            if !headings(&page).iter().any(|known| known == heading) {
                let text = format!("links to {target}, but that page has no such heading");
                problems.push(Problem::at_line(path, line, text));
            }
        }
    }
    problems
}

/// Returns each line outside fenced code, with code between backticks blanked out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        let odd = |(part, text): (usize, &str)| if part % 2 == 0 { text.to_owned() } else { "`".into() };
        (!fenced).then(|| (index + 1, line.split('`').enumerate().map(odd).collect()))
    })
}

/// Returns line and target of every link `[text](target)` and `[text]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        for (at, open) in text.match_indices("](") {
            let target = &text[at + open.len()..];
            let end = target.find([')', ' ']).unwrap_or(target.len());
            found.push((line, target[..end].to_owned()));
        }
        if let Some((_, target)) = text.split_once("]: ").filter(|_| text.starts_with('[')) {
            found.push((line, target.trim().to_owned()));
        }
    }
    found
}

/// Returns the link anchors of a page's headings.
fn headings(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let name: String = title.trim().to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let same = found.iter().filter(|other| **other == name).count();
        found.push(if same == 0 { name } else { format!("{name}-{same}") });
    }
    found
}
