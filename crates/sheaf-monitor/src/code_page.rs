//! The page of all codes of messages, which the log of the page links to. It is that of troubleshooting, without a way to the internet.

use sheaf_telemetry::codes::ALL;
use std::fmt::Write as _;

/// Returns the page.
pub(crate) fn html() -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Codes of messages</title><link rel=\"stylesheet\" href=\"/assets/style.css\"><main><h1>Codes of messages</h1>",
    );
    for (section, codes) in ALL {
        let _ = write!(page, "<h2>{}</h2><dl>", text(section));
        for code in *codes {
            let (name, severity, title) = (code.name, code.severity.name(), text(code.title));
            let _ = write!(
                page,
                "<dt id=\"{name}\"><b>{name}</b> ({severity})</dt><dd>{title} {}</dd>",
                text(code.remedy)
            );
        }
        page.push_str("</dl>");
    }
    page.push_str("</main></html>\n");
    page
}

/// Returns a text of the catalogue as HTML. Links of the documents are shown by their titles.
fn text(text: &str) -> String {
    let mut shown = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    while let (Some(open), Some(middle)) = (shown.find('['), shown.find("](")) {
        let Some(close) = shown[middle..].find(')') else { break };
        let title = shown[open + 1..middle].to_owned();
        shown.replace_range(open..=middle + close, &title);
    }
    let parts = shown.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 0 { part.to_owned() } else { format!("<code>{part}</code>") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_an_entry_to_link_to() {
        let page = html();
        for code in ALL.iter().flat_map(|(_, codes)| *codes) {
            assert_eq!(page.matches(&format!("<dt id=\"{}\">", code.name)).count(), 1, "{}", code.name);
        }
        assert!(!page.contains("](") && !page.contains('`'));
    }

    #[test]
    fn texts_are_safe_and_show_titles_of_links() {
        assert_eq!(text("See [losses](a/b.md#c) of `a < b`."), "See losses of <code>a &lt; b</code>.");
    }
}
