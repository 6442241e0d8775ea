//! Tables of text, for terminals and logs.

use std::fmt::{self, Display, Write};

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Cells begin at the left: text.
    Left,
    /// Cells end at the right: numbers.
    Right,
}

/// Columns of text, each as wide as its widest cell, two spaces apart. Lines have no spaces at their ends.
#[derive(Clone, Debug)]
pub struct TextTable {
    /// Of the first columns; the others have the last of these.
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table without rows. Columns beyond the end of `align` are aligned as its last.
    #[must_use]
    pub fn new(align: &[Align]) -> Self {
        Self { align: align.to_vec(), rows: Vec::new() }
    }

    /// A table without rows, whose first columns are text and all others are numbers.
    #[must_use]
    pub fn with_text_columns(columns: usize) -> Self {
        let mut align = vec![Align::Left; columns];
        align.push(Align::Right);
        Self { align, rows: Vec::new() }
    }

    /// Adds a row. The row of headings is one like all others.
    pub fn push(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn align(&self, column: usize) -> Align {
        self.align.get(column).or(self.align.last()).copied().unwrap_or(Align::Left)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

impl Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                match self.align(column) {
                    Align::Left => write!(line, "{gap}{cell:<width$}")?,
                    Align::Right => write!(line, "{gap}{cell:>width$}")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_have_no_spaces_at_the_end() {
        let mut table = TextTable::with_text_columns(1);
        table.push(["a", "value"]);
        table.push(["name", "1"]);
        table.push(["longest of all", ""]);
        table.push(["short"]);
        assert_eq!(
            table.to_string(),
            "a               value\nname                1\nlongest of all\nshort\n"
        );
    }

    #[test]
    fn the_last_alignment_holds_for_the_columns_that_follow() {
        let mut table = TextTable::new(&[Align::Right, Align::Left]);
        table.push(["8", "of", "them"]);
        table.push(["10", "others", "\u{b5}s"]);
        assert_eq!(table.to_string(), " 8  of      them\n10  others  \u{b5}s\n");
        assert_eq!(TextTable::new(&[]).to_string(), "");
    }
}
