//! Reads the little XML that the charts use, strictly: whatever is not understood is a failure.

use std::collections::BTreeMap;

/// An element with its attributes and the text inside it.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: BTreeMap<String, String>,
    pub(super) text: String,
}

impl Element {
    /// The attribute's number.
    pub(super) fn number(&self, attribute: &str) -> f64 {
        self.attributes[attribute].parse().expect("the attribute is a number")
    }

    pub(super) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// The places of a `points` attribute.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let pairs = self.attributes["points"].split_whitespace();
        let number = |text: &str| text.parse().expect("a point is two numbers");
        pairs
            .map(|pair| pair.split_once(',').expect("a point has a comma"))
            .map(|(x, y)| (number(x), number(y)))
            .collect()
    }
}

/// All elements of a document, the outer one first.
pub(super) fn elements(document: &str) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        if let Some(&inside) = open.last() {
            elements[inside].text.push_str(unescaped(text).trim());
        } else {
            assert!(text.trim().is_empty(), "text outside the document: {text:?}");
        }
        let (tag, after) = tag[1..].split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let closed = open.pop().expect("a closing tag has an opening one");
            assert_eq!(elements[closed].name, name, "tags are closed in the order in which they were opened");
            continue;
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        if !empty {
            open.push(elements.len());
        }
        elements.push(element(tag));
    }
    assert!(open.is_empty(), "an element is not closed");
    assert!(rest.trim().is_empty(), "text behind the document: {rest:?}");
    elements
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes = BTreeMap::new();
    while !rest.trim().is_empty() {
        let (key, after) = rest.trim_start().split_once("=\"").expect("an attribute has a value in quotes");
        let (value, after) = after.split_once('"').expect("the quotes of an attribute are closed");
        let before = attributes.insert(key.to_owned(), unescaped(value));
        assert!(before.is_none(), "attribute {key} is there twice");
        rest = after;
    }
    Element { name: name.to_owned(), attributes, text: String::new() }
}

fn unescaped(text: &str) -> String {
    assert!(!text.contains(['<', '>']), "{text:?} has a character that must be escaped");
    let known = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'")];
    let text = known.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain));
    assert!(!text.replace("&amp;", "").contains('&'), "{text:?} has an ampersand that is not escaped");
    text.replace("&amp;", "&")
}
