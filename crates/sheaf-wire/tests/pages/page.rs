//! A page of the reference, and the expected form of layouts in it.

use sheaf_wire::message::layout::FragmentBytes;
use std::fmt::Write as _;
use std::path::Path;
use zerocopy::little_endian::{U16, U32, U64};

/// The first row of every table that describes a layout.
pub(crate) const LAYOUT: &str = "| offset | bytes | type | field | meaning |";

/// Returns the text of `docs/reference/NAME`.
pub(crate) fn open(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A table of the page: the heading above it, and the cells of its rows.
pub(crate) struct Table<'a> {
    pub(crate) heading: &'a str,
    pub(crate) rows: Vec<Vec<&'a str>>,
}

/// Every table with this first row.
pub(crate) fn tables<'a>(page: &'a str, first_row: &str) -> Vec<Table<'a>> {
    let (mut heading, mut found, mut lines) = ("", Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        } else if line == first_row {
            let rows = lines.by_ref().skip(1).take_while(|row| row.starts_with('|'));
            let cells = |row: &'a str| row.trim_matches('|').split('|').map(str::trim).collect();
            found.push(Table { heading, rows: rows.map(cells).collect() });
        }
    }
    found
}

/// The rows of the one table with this first row.
pub(crate) fn table<'a>(page: &'a str, first_row: &str) -> Vec<Vec<&'a str>> {
    let mut all = tables(page, first_row);
    assert_eq!(all.len(), 1, "tables that begin with {first_row}");
    all.remove(0).rows
}

/// Returns the content of the fenced block that begins with `fence`.
pub(crate) fn block<'a>(page: &'a str, fence: &str) -> &'a str {
    let start = page.find(&format!("```{fence}\n")).unwrap_or_else(|| panic!("no block {fence}"));
    let content = &page[start + fence.len() + 4..];
    &content[..content.find("```").unwrap()]
}

/// Formats bytes as `hexdump -C`, with offsets of two digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        write!(text, "{:02x} ", line * 16).unwrap();
        for at in 0..16 {
            let gap = if at == 8 { " " } else { "" };
            match chunk.get(at) {
                Some(byte) => write!(text, "{gap} {byte:02x}").unwrap(),
                None => write!(text, "{gap}   ").unwrap(),
            }
        }
        let printable = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte as char } else { '.' };
        writeln!(text, "  |{}|", chunk.iter().map(printable).collect::<String>()).unwrap();
    }
    text
}

/// Parses the output of [`hex`].
pub(crate) fn unhex(block: &str) -> Vec<u8> {
    let digits = |line: &str| line[2..line.find('|').unwrap()].to_owned();
    let digits = block.lines().map(digits).collect::<String>();
    digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Returns the name of a field's type on a page.
pub(crate) trait Named {
    const NAME: &'static str;
}

macro_rules! named {
    ($($kind:ty = $name:literal),*) => { $(impl Named for $kind { const NAME: &'static str = $name; })* };
}
named!(u8 = "u8", U16 = "u16", U32 = "u32", U64 = "u64", FragmentBytes = "bytes");

impl<const N: usize> Named for [u8; N] {
    const NAME: &'static str = "bytes";
}

/// The expected form of a layout on a page.
pub(crate) struct Shape {
    pub(crate) bytes: usize,
    /// The first four cells of each field's row.
    pub(crate) rows: Vec<[String; 4]>,
}

/// Bytes and type of the field that `_field` returns.
pub(crate) fn field_shape<L, F: Named>(_field: fn(&L) -> &F) -> (usize, &'static str) {
    (size_of::<F>(), F::NAME)
}

impl Shape {
    /// The fields, `(offset, (bytes, type), name)`, must be all bytes of the layout, in order.
    pub(crate) fn new(layout: &str, bytes: usize, fields: &[(usize, (usize, &str), &str)]) -> Self {
        let (mut end, mut rows) = (0, Vec::new());
        for (offset, (size, kind), field) in fields {
            assert_eq!(*offset, end, "{field} of {layout}");
            end += size;
            rows.push([offset.to_string(), size.to_string(), (*kind).to_owned(), format!("`{field}`")]);
        }
        assert_eq!(end, bytes, "all fields of {layout}");
        Self { bytes, rows }
    }
}

/// The [`Shape`] of a layout, whose fields must all be named.
macro_rules! shape {
    ($layout:ty: $($field:ident),* $(,)?) => {
        $crate::page::Shape::new(stringify!($layout), size_of::<$layout>(), &[$((
            std::mem::offset_of!($layout, $field),
            $crate::page::field_shape(|layout: &$layout| &layout.$field),
            stringify!($field),
        )),*])
    };
}
pub(crate) use shape;

/// The page's tables of layouts are these: each under the heading `NAME, N bytes`, with the layout's fields.
pub(crate) fn assert_layouts(page: &str, layouts: &[(&str, Shape)]) {
    let shown = tables(page, LAYOUT);
    let headings: Vec<&str> = shown.iter().map(|table| table.heading).collect();
    let expected: Vec<String> =
        layouts.iter().map(|(name, shape)| format!("{name}, {} bytes", shape.bytes)).collect();
    assert_eq!(headings, expected);
    for (table, (_, shape)) in shown.iter().zip(layouts) {
        let rows: Vec<&[&str]> = table.rows.iter().map(|row| &row[..4]).collect();
        assert_eq!(rows, shape.rows, "fields of {}", table.heading);
    }
}
