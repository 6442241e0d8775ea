//! Words of closed lists, `true` and `false`.

use super::{Codec, Refusal, quote};
use crate::choice::{Choice, paragraph};
use std::marker::PhantomData;
use toml::de::DeValue;

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

/// `"free", "fixed" or "seen"`.
pub(crate) fn words<T: Choice>() -> String {
    let quoted: Vec<String> = T::WORDS.iter().map(|(_, word, _)| format!("\"{word}\"")).collect();
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
        let meanings =
            T::WORDS.iter().map(|(_, word, meaning)| format!("`\"{word}\"`: {}", paragraph(meaning)));
        meanings.collect::<Vec<_>>().join("; ")
    }

    fn expected(&self) -> String {
        words::<T>()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<T, Refusal> {
        T::from_word(value.as_str().ok_or(Refusal::Type)?).ok_or(Refusal::Value)
    }

    fn accepts(&self, _: &T) -> bool {
        true
    }

    fn write(&self, value: &T) -> Option<String> {
        let word = T::WORDS.iter().find(|(known, ..)| known == value)?.1;
        Some(quote(word))
    }
}
