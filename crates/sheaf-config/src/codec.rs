//! How the value of a knob looks in the file: reading, limits, writing, and the words for it.
//!
//! A codec only says *that* it refuses a value and why in principle; the caller, who knows file, line and key, makes the
//! message of it.

use crate::knob::Choice;
use sheaf_wire::{ByteCount, Nanos, RunNumber, SourceId, TriggerType};
use std::marker::PhantomData;
use std::path::PathBuf;
use toml::de::{DeInteger, DeValue};

/// Why a value was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is of another type.
    Type,
    /// It is of the right type but not accepted.
    Value,
}

/// How one knob's value looks in the file.
pub(crate) trait Codec {
    /// The value as the struct holds it.
    type Value;
    /// The kind of value, for the reference page.
    fn type_name(&self) -> String;
    /// The limits alone, for the reference page; empty where the type says it all.
    fn limits(&self) -> String;
    /// What is accepted, in words that finish the sentence "this should be ...".
    fn expected(&self) -> String;
    /// The value in a file.
    fn read(&self, value: &DeValue<'_>) -> Result<Self::Value, Refusal>;
    /// Whether a value is within the limits, for values that no file was read for.
    fn accepts(&self, value: &Self::Value) -> bool;
    /// The value as TOML, such that [`Codec::read`] gives it back; `None` where it is not set.
    fn write(&self, value: &Self::Value) -> Option<String>;
}

/// `codec`, told for which type it is, so that definitions need not say it twice.
pub(crate) fn of<T, C: Codec<Value = T>>(codec: C) -> C {
    codec
}

/// A TOML integer, in whichever radix it is written.
pub(crate) fn integer(value: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(value.as_str(), value.radix()).ok()
}

/// A number type that a knob may have.
pub(crate) trait Number: Copy {
    /// The value of this number, if the type can hold it.
    fn from_number(number: u64) -> Option<Self>;
    /// The number of this value.
    fn to_number(self) -> u64;
}

macro_rules! plain_numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn from_number(number: u64) -> Option<Self> {
                Self::try_from(number).ok()
            }
            fn to_number(self) -> u64 {
                self as u64
            }
        }
    )*};
}
plain_numbers!(u16, u32, u64, usize);

macro_rules! named_numbers {
    ($($name:ident),*) => {$(
        impl Number for $name {
            fn from_number(number: u64) -> Option<Self> {
                Number::from_number(number).map(Self)
            }
            fn to_number(self) -> u64 {
                self.0.to_number()
            }
        }
    )*};
}
named_numbers!(ByteCount, RunNumber, SourceId, TriggerType);

/// An integer of at least `minimum` and at most `maximum`, either included.
pub(crate) fn whole<T: Number>(minimum: u64, maximum: u64) -> Whole<T> {
    Whole {
        minimum,
        maximum,
        show: |number| number.to_string(),
        _type: PhantomData,
    }
}

/// A size in bytes.
pub(crate) fn bytes(minimum: u64, maximum: u64) -> Whole<ByteCount> {
    Whole {
        minimum,
        maximum,
        show: show_bytes,
        _type: PhantomData,
    }
}

/// `8388608 (8 MiB)`: a size as it is written in the file, and as people say it.
pub(crate) fn show_bytes(number: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .iter()
        .find(|(shift, _)| number >= 1 << shift && number.is_multiple_of(1 << shift));
    match whole {
        Some((shift, unit)) => format!("{number} ({} {unit})", number >> shift),
        None => number.to_string(),
    }
}

/// See [`whole`] and [`bytes`].
pub(crate) struct Whole<T> {
    minimum: u64,
    maximum: u64,
    show: fn(u64) -> String,
    _type: PhantomData<T>,
}

impl<T: Number> Codec for Whole<T> {
    type Value = T;

    fn type_name(&self) -> String {
        "integer".into()
    }

    fn limits(&self) -> String {
        format!("{} to {}", (self.show)(self.minimum), (self.show)(self.maximum))
    }

    fn expected(&self) -> String {
        format!("an integer from {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<T, Refusal> {
        let number = value.as_integer().ok_or(Refusal::Type)?;
        let number = integer(number).and_then(|number| u64::try_from(number).ok());
        let value = number.and_then(T::from_number).ok_or(Refusal::Value)?;
        if self.accepts(&value) {
            Ok(value)
        } else {
            Err(Refusal::Value)
        }
    }

    fn accepts(&self, value: &T) -> bool {
        (self.minimum..=self.maximum).contains(&value.to_number())
    }

    fn write(&self, value: &T) -> Option<String> {
        Some(value.to_number().to_string())
    }
}

/// An integer or a decimal number.
fn number(value: &DeValue<'_>) -> Result<f64, Refusal> {
    let text = match value {
        DeValue::Integer(digits) => {
            #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
            return integer(digits).map(|number| number as f64).ok_or(Refusal::Value);
        }
        DeValue::Float(digits) => digits.as_str(),
        _ => return Err(Refusal::Type),
    };
    let number: f64 = text.parse().map_err(|_| Refusal::Value)?;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(Refusal::Value)
    }
}

/// A number of at least `minimum` and at most `maximum`, either included.
pub(crate) fn real(minimum: f64, maximum: f64) -> Real {
    Real { minimum, maximum }
}

/// See [`real`].
pub(crate) struct Real {
    minimum: f64,
    maximum: f64,
}

impl Codec for Real {
    type Value = f64;

    fn type_name(&self) -> String {
        "number".into()
    }

    fn limits(&self) -> String {
        format!("{} to {}", self.minimum, self.maximum)
    }

    fn expected(&self) -> String {
        format!("a number from {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<f64, Refusal> {
        let number = number(value)?;
        if self.accepts(&number) {
            Ok(number)
        } else {
            Err(Refusal::Value)
        }
    }

    fn accepts(&self, value: &f64) -> bool {
        (self.minimum..=self.maximum).contains(value)
    }

    fn write(&self, value: &f64) -> Option<String> {
        // The debug form has a point or an exponent, and gives the same number when read.
        Some(format!("{value:?}"))
    }
}

/// A time in seconds, as an integer or a decimal number.
pub(crate) fn seconds(minimum: Nanos, maximum: Nanos) -> Time {
    Time {
        minimum,
        maximum,
        digits: 9,
    }
}

/// A time in milliseconds, as an integer or a decimal number.
pub(crate) fn milliseconds(minimum: Nanos, maximum: Nanos) -> Time {
    Time {
        minimum,
        maximum,
        digits: 6,
    }
}

/// A time in microseconds, as an integer or a decimal number.
pub(crate) fn microseconds(minimum: Nanos, maximum: Nanos) -> Time {
    Time {
        minimum,
        maximum,
        digits: 3,
    }
}

/// See [`seconds`], [`milliseconds`] and [`microseconds`]. No limit is above 100 days, so that a nanosecond survives the
/// way through a 64-bit floating-point number.
pub(crate) struct Time {
    minimum: Nanos,
    maximum: Nanos,
    /// How many decimal digits of the unit make a nanosecond.
    digits: usize,
}

impl Time {
    /// The time in the file's unit, exactly, without needless zeros.
    fn show(&self, time: Nanos) -> String {
        let unit = 10_u64.pow(u32::try_from(self.digits).unwrap_or(0));
        let text = format!(
            "{}.{:0digits$}",
            time.0 / unit,
            time.0 % unit,
            digits = self.digits
        );
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl Codec for Time {
    type Value = Nanos;

    fn type_name(&self) -> String {
        "number".into()
    }

    fn limits(&self) -> String {
        format!("{} to {}", self.show(self.minimum), self.show(self.maximum))
    }

    fn expected(&self) -> String {
        let unit = match self.digits {
            9 => "seconds",
            6 => "milliseconds",
            _ => "microseconds",
        };
        format!("a number of {unit} from {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Nanos, Refusal> {
        let number = number(value)?;
        if number.is_sign_negative() && number != 0.0 {
            return Err(Refusal::Value);
        }
        let nanos = number * 10_f64.powi(i32::try_from(self.digits).unwrap_or(0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; a cast saturates, and what saturates is beyond the limits"
        )]
        let time = Nanos(nanos.round() as u64);
        if self.accepts(&time) {
            Ok(time)
        } else {
            Err(Refusal::Value)
        }
    }

    fn accepts(&self, value: &Nanos) -> bool {
        (self.minimum..=self.maximum).contains(value)
    }

    fn write(&self, value: &Nanos) -> Option<String> {
        Some(self.show(*value))
    }
}

/// `true` or `false`.
pub(crate) fn switch() -> Switch {
    Switch
}

/// See [`switch`].
pub(crate) struct Switch;

impl Codec for Switch {
    type Value = bool;

    fn type_name(&self) -> String {
        "true or false".into()
    }

    fn limits(&self) -> String {
        String::new()
    }

    fn expected(&self) -> String {
        "true or false".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<bool, Refusal> {
        value.as_bool().ok_or(Refusal::Type)
    }

    fn accepts(&self, _: &bool) -> bool {
        true
    }

    fn write(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

/// One word of a closed list.
pub(crate) fn pick<T: Choice>() -> Pick<T> {
    Pick(PhantomData)
}

/// See [`pick`].
pub(crate) struct Pick<T>(PhantomData<T>);

/// The value that `word` stands for.
pub(crate) fn choose<T: Choice>(word: &str) -> Option<T> {
    T::WORDS
        .iter()
        .find(|(_, known, _)| *known == word)
        .map(|(value, ..)| *value)
}

/// `"free", "fixed" or "seen"`.
pub(crate) fn words<T: Choice>() -> String {
    let quoted: Vec<String> = T::WORDS
        .iter()
        .map(|(_, word, _)| format!("\"{word}\""))
        .collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

impl<T: Choice> Codec for Pick<T> {
    type Value = T;

    fn type_name(&self) -> String {
        "word".into()
    }

    fn limits(&self) -> String {
        let meanings = T::WORDS
            .iter()
            .map(|(_, word, meaning)| format!("`\"{word}\"`: {}", crate::knob::paragraph(meaning)));
        meanings.collect::<Vec<_>>().join("; ")
    }

    fn expected(&self) -> String {
        words::<T>()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<T, Refusal> {
        choose(value.as_str().ok_or(Refusal::Type)?).ok_or(Refusal::Value)
    }

    fn accepts(&self, _: &T) -> bool {
        true
    }

    fn write(&self, value: &T) -> Option<String> {
        let word = T::WORDS.iter().find(|(known, ..)| known == value)?.1;
        Some(quote(word))
    }
}

/// `text` as a TOML string.
pub(crate) fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A path.
pub(crate) fn path() -> PathText {
    PathText
}

/// See [`path()`].
pub(crate) struct PathText;

impl Codec for PathText {
    type Value = PathBuf;

    fn type_name(&self) -> String {
        "path".into()
    }

    fn limits(&self) -> String {
        "UTF-8, not empty".into()
    }

    fn expected(&self) -> String {
        "a path in UTF-8 that is not empty".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<PathBuf, Refusal> {
        let path = PathBuf::from(value.as_str().ok_or(Refusal::Type)?);
        if self.accepts(&path) {
            Ok(path)
        } else {
            Err(Refusal::Value)
        }
    }

    fn accepts(&self, value: &PathBuf) -> bool {
        // A NUL cannot be in a path of any operating system; the configuration is stored as UTF-8.
        value
            .to_str()
            .is_some_and(|text| !text.is_empty() && !text.contains('\0'))
    }

    fn write(&self, value: &PathBuf) -> Option<String> {
        Some(quote(&value.to_string_lossy()))
    }
}

/// A text that `accepts` accepts; `expected` says what that is.
pub(crate) struct Text {
    limits: &'static str,
    accepts: fn(&str) -> bool,
}

/// The name of a node.
pub(crate) fn name() -> Text {
    Text {
        limits: "1 to 64 letters, digits, `-`, `_` or `.`",
        accepts: |text| {
            (1..=64).contains(&text.len())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        },
    }
}

/// The address of a node, `host:port`.
pub(crate) fn address() -> Text {
    Text {
        limits: "`host:port` with a port from 1 to 65535; `[::1]:port` for IPv6",
        accepts: |text| {
            let Some((host, port)) = text.rsplit_once(':') else {
                return false;
            };
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host_is_good = match bare {
                Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
                None => {
                    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                    (1..=253).contains(&host.len()) && host.bytes().all(allowed)
                }
            };
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            host_is_good && digits && port.parse::<u16>().is_ok_and(|port| port > 0)
        },
    }
}

impl Codec for Text {
    type Value = String;

    fn type_name(&self) -> String {
        "text".into()
    }

    fn limits(&self) -> String {
        self.limits.into()
    }

    fn expected(&self) -> String {
        self.limits.into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<String, Refusal> {
        let text = value.as_str().ok_or(Refusal::Type)?;
        if (self.accepts)(text) {
            Ok(text.to_owned())
        } else {
            Err(Refusal::Value)
        }
    }

    fn accepts(&self, value: &String) -> bool {
        (self.accepts)(value)
    }

    fn write(&self, value: &String) -> Option<String> {
        Some(quote(value))
    }
}

/// A list of different numbers from 0 to `maximum`; ranges are written `"10-19"`.
pub(crate) fn id_list<T: Number>(maximum: u64) -> IdList<T> {
    IdList {
        maximum,
        _type: PhantomData,
    }
}

/// See [`id_list`].
pub(crate) struct IdList<T> {
    maximum: u64,
    _type: PhantomData<T>,
}

/// No list is longer, however it is written.
const LONGEST_LIST: u64 = crate::settings::MAX_SOURCES;

impl<T: Number> IdList<T> {
    /// The first and the last number of an entry.
    fn range(&self, entry: &DeValue<'_>) -> Result<(u64, u64), Refusal> {
        let (first, last) = match entry {
            DeValue::Integer(number) => {
                let number = integer(number).and_then(|number| u64::try_from(number).ok());
                (number, number)
            }
            DeValue::String(text) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                (plain_number(first), plain_number(last))
            }
            _ => return Err(Refusal::Type),
        };
        match (first, last) {
            (Some(first), Some(last)) if first <= last && last <= self.maximum => Ok((first, last)),
            _ => Err(Refusal::Value),
        }
    }
}

/// A number of nothing but digits, blanks around it allowed.
fn plain_number(text: &str) -> Option<u64> {
    let text = text.trim();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

impl<T: Number> Codec for IdList<T> {
    type Value = Vec<T>;

    fn type_name(&self) -> String {
        "list".into()
    }

    fn limits(&self) -> String {
        format!(
            "numbers from 0 to {}, each at most once, at most {LONGEST_LIST} of them",
            self.maximum
        )
    }

    fn expected(&self) -> String {
        format!("a list like [1, 5, \"10-19\"] of {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Vec<T>, Refusal> {
        let mut numbers = Vec::new();
        for entry in value.as_array().ok_or(Refusal::Type)? {
            let (first, last) = self.range(entry.get_ref())?;
            if last - first >= LONGEST_LIST - numbers.len() as u64 {
                return Err(Refusal::Value);
            }
            for number in first..=last {
                numbers.push(T::from_number(number).ok_or(Refusal::Value)?);
            }
        }
        if self.accepts(&numbers) {
            Ok(numbers)
        } else {
            Err(Refusal::Value)
        }
    }

    fn accepts(&self, value: &Vec<T>) -> bool {
        let mut numbers: Vec<u64> = value.iter().map(|number| number.to_number()).collect();
        numbers.sort_unstable();
        let different = numbers.windows(2).all(|pair| pair[0] != pair[1]);
        let in_range = numbers.last().is_none_or(|last| *last <= self.maximum);
        different && in_range && numbers.len() as u64 <= LONGEST_LIST
    }

    fn write(&self, value: &Vec<T>) -> Option<String> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in value.iter().map(|number| number.to_number()) {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let entries = ranges.iter().map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("\"{first}-{last}\""),
        });
        Some(format!("[{}]", entries.collect::<Vec<_>>().join(", ")))
    }
}

/// A value for which 0 in the file means "none".
pub(crate) fn zero_is_none<C: Codec>(inner: C) -> ZeroIsNone<C> {
    ZeroIsNone(inner)
}

/// See [`zero_is_none`].
pub(crate) struct ZeroIsNone<C>(C);

impl<C: Codec> Codec for ZeroIsNone<C> {
    type Value = Option<C::Value>;

    fn type_name(&self) -> String {
        self.0.type_name()
    }

    fn limits(&self) -> String {
        format!("0, or {}", self.0.limits())
    }

    fn expected(&self) -> String {
        format!("0, or {}", self.0.expected())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Self::Value, Refusal> {
        if number(value) == Ok(0.0) && (value.is_integer() || self.0.type_name() == "number") {
            return Ok(None);
        }
        self.0.read(value).map(Some)
    }

    fn accepts(&self, value: &Self::Value) -> bool {
        value.as_ref().is_none_or(|value| self.0.accepts(value))
    }

    fn write(&self, value: &Self::Value) -> Option<String> {
        match value {
            Some(value) => self.0.write(value),
            None => Some("0".into()),
        }
    }
}

/// A value that may be left out and has no default.
pub(crate) fn maybe<C: Codec>(inner: C) -> Maybe<C> {
    Maybe(inner)
}

/// See [`maybe`].
pub(crate) struct Maybe<C>(C);

impl<C: Codec> Codec for Maybe<C> {
    type Value = Option<C::Value>;

    fn type_name(&self) -> String {
        self.0.type_name()
    }

    fn limits(&self) -> String {
        self.0.limits()
    }

    fn expected(&self) -> String {
        self.0.expected()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Self::Value, Refusal> {
        self.0.read(value).map(Some)
    }

    fn accepts(&self, value: &Self::Value) -> bool {
        value.as_ref().is_none_or(|value| self.0.accepts(value))
    }

    fn write(&self, value: &Self::Value) -> Option<String> {
        value.as_ref().and_then(|value| self.0.write(value))
    }
}
