//! Credentials in the headers of a request.

use axum::http::{HeaderMap, header};

/// Header with the name of the person for whom a proxy sends a request.
const USER: &str = "x-forwarded-user";

/// Header with where a command comes from, for records.
const VIA: &str = "sheaf-via";

/// Most characters of it.
const VIA_CHARACTERS: usize = 64;

/// Credentials of whoever sends a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The bearer token, if one was sent.
    pub token: Option<String>,
    /// The person for whom a proxy sends it. Only a proxy is believed.
    pub user: Option<String>,
    /// Where the request comes from, as the client says: `page`, `hook logbook`.
    pub via: Option<String>,
}

impl Credentials {
    /// Reads the credentials in the headers of a request.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| {
            headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        };
        let token = text(header::AUTHORIZATION.as_str()).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
        });
        let via = text(VIA).map(|via| printable(&via)).filter(|via| !via.is_empty());
        Self { token, user: text(USER), via }
    }
}

/// Returns the beginning of a text without characters that would change how a line looks.
fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(VIA_CHARACTERS).collect()
}

/// Returns the value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lists = headers.get_all(header::COOKIE).iter().filter_map(|list| list.to_str().ok());
    let mut pairs = lists.flat_map(|list| list.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(of, _)| *of == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.append(*name, HeaderValue::from_static(value));
            headers
        })
    }

    #[test]
    fn credentials_are_a_bearer_token_and_the_person_behind_a_proxy() {
        let of = |pairs: &[_]| Credentials::of(&headers(pairs));
        assert_eq!(of(&[("authorization", "Bearer  abc ")]).token.as_deref(), Some("abc"));
        assert_eq!(
            of(&[("authorization", "bearer abc"), ("x-forwarded-user", "eve")]).user.as_deref(),
            Some("eve")
        );
        assert_eq!(of(&[("authorization", "Basic YTpi")]), Credentials::default());
        assert_eq!(of(&[("authorization", "abc")]), Credentials::default());
    }

    #[test]
    fn where_a_command_comes_from_is_a_short_text_without_control_characters() {
        let via = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("sheaf-via", HeaderValue::from_str(value).unwrap());
            Credentials::of(&headers).via
        };
        assert_eq!(via("hook\tlogbook").as_deref(), Some("hooklogbook"));
        assert_eq!(via(&"x".repeat(1_000)).map(|via| via.len()), Some(64));
        assert_eq!(via("  "), None);
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name_in_all_lists() {
        let headers = headers(&[("cookie", "a=1; sheaf-7443=xy=z"), ("cookie", "b=2")]);
        assert_eq!(cookie(&headers, "sheaf-7443"), Some("xy=z"));
        assert_eq!(cookie(&headers, "b"), Some("2"));
        assert_eq!(cookie(&headers, "sheaf-744"), None);
    }
}
