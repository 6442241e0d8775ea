//! Values of a scenario file: what one key may hold, and how it is read.

use sheaf_config::diagnose::shorten;
use std::fmt;
use toml::de::DeValue;

/// Value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    Number(f64),
    /// One of the words of a [`Shape::Word`].
    Word(&'static str),
    Text(String),
    Switch(bool),
    Wholes(Vec<u64>),
}

impl fmt::Display for Value {
    /// As it stands in tables and captions: no quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => f.write_str(text),
            Self::Switch(switch) => switch.fmt(f),
            Self::Wholes(numbers) => {
                let shown: Vec<String> = numbers.iter().take(8).map(u64::to_string).collect();
                let more = if numbers.len() > shown.len() { " ..." } else { "" };
                write!(f, "[{}{more}]", shown.join(" "))
            }
        }
    }
}

/// Kind of values that a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// An integer between two, either included.
    Whole(u64, u64),
    /// An integer or decimal number between two, either included.
    Number(f64, f64),
    /// One of these words, each with its meaning.
    Word(&'static [(&'static str, &'static str)]),
    /// A text.
    Text,
    /// `true` or `false`.
    Switch,
    /// A list of integers, each below this one.
    Wholes(u64),
}

/// Lists of numbers are no longer than this: one for each endpoint of the largest network.
const MAX_LIST: usize = 1 << 16;

/// Texts are no longer than this.
const MAX_TEXT: usize = 4096;

impl Shape {
    /// For the reference page.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Whole(..) => "integer",
            Self::Number(..) => "number",
            Self::Word(_) => "word",
            Self::Text => "text",
            Self::Switch => "true or false",
            Self::Wholes(_) => "list of integers",
        }
    }

    /// Describes the accepted values; the words finish the sentence "it should be ...".
    pub(super) fn expected(self) -> String {
        match self {
            Self::Whole(least, most) => format!("an integer from {least} to {most}"),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Word(words) => {
                let quoted: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                match quoted.split_last() {
                    Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
                    _ => quoted.concat(),
                }
            }
            Self::Text => format!("text in double quotes, 1 to {MAX_TEXT} characters"),
            Self::Switch => "true or false".into(),
            Self::Wholes(below) => format!("a list of integers below {below}, at most {MAX_LIST} of them"),
        }
    }

    /// Whether a TOML list is one value of this shape and not a sweep.
    pub(super) fn is_list(self, value: &DeValue<'_>) -> bool {
        let is_flat =
            || value.as_array().is_some_and(|list| !list.iter().any(|item| item.get_ref().is_array()));
        matches!(self, Self::Wholes(_)) && is_flat()
    }

    /// The value of a file; `None` where it is refused.
    pub(super) fn read(self, value: &DeValue<'_>) -> Option<Value> {
        match self {
            Self::Whole(least, most) => {
                let number = whole(value)?;
                (least..=most).contains(&number).then_some(Value::Whole(number))
            }
            Self::Number(least, most) => {
                let number = number(value)?;
                (least..=most).contains(&number).then_some(Value::Number(number))
            }
            Self::Word(words) => {
                let text = value.as_str()?;
                words.iter().find(|(word, _)| *word == text).map(|(word, _)| Value::Word(word))
            }
            Self::Text => {
                let text = value.as_str()?;
                let is_good = !text.is_empty() && text.len() <= MAX_TEXT && !text.contains('\0');
                is_good.then(|| Value::Text(text.to_owned()))
            }
            Self::Switch => value.as_bool().map(Value::Switch),
            Self::Wholes(below) => {
                let list = value.as_array().filter(|list| list.len() <= MAX_LIST)?;
                let numbers = list.iter().map(|item| whole(item.get_ref()).filter(|number| *number < below));
                numbers.collect::<Option<Vec<u64>>>().map(Value::Wholes)
            }
        }
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let digits = value.as_integer()?;
    let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok()?;
    u64::try_from(number).ok()
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
        DeValue::Integer(_) => whole(value)? as f64,
        DeValue::Float(digits) => digits.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// The type of a value with its article: "an integer".
pub(super) fn article(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text \"{}\"", shorten(text)),
        DeValue::Integer(digits) => shorten(digits.as_str()),
        DeValue::Float(digits) => shorten(digits.as_str()),
        DeValue::Boolean(switch) => switch.to_string(),
        DeValue::Datetime(_) => "a date or time".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
