//! Description of one knob, and the macros by which one definition makes its struct field, its default, its parser, its
//! range check and its row in the reference page.

use crate::choice::paragraph;
use crate::codec::Refusal;
use toml::de::DeValue;

/// Description of a knob without its value.
#[derive(Clone, Copy)]
pub(crate) struct Knob {
    /// The key in the file, with its unit.
    pub(crate) key: &'static str,
    /// The lines of its documentation.
    pub(crate) meaning: &'static [&'static str],
    /// The command-line flag that sets it, if one does.
    pub(crate) flag: Option<&'static str>,
    /// The kind of value, for the reference page.
    pub(crate) type_name: fn() -> String,
    /// Describes the accepted values; the words finish the sentence "this should be ...".
    pub(crate) expected: fn() -> String,
    /// The limits alone, for the reference page.
    pub(crate) limits: fn() -> String,
    /// Whether the value is a source or a list of sources, so that names may stand for them.
    pub(crate) names_sources: fn() -> bool,
}

impl Knob {
    /// The documentation as one paragraph.
    pub(crate) fn paragraph(&self) -> String {
        paragraph(self.meaning)
    }
}

/// A table of the file. [`section!`] implements it; nothing else should.
pub(crate) trait Section {
    /// The table's name in the file: `source.replay`.
    fn path(&self) -> &'static str;
    /// The lines of its documentation.
    fn meaning(&self) -> &'static [&'static str];
    /// Its knobs, in the order of the reference page.
    fn knobs(&self) -> &'static [Knob];
    /// Sets the knob `key` from a value of a file. A refused value leaves the knob as it was.
    fn read(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), Refusal>;
    /// Whether the knob's value is within its limits.
    fn accepts(&self, key: &str) -> bool;
    /// The knob's value as TOML; `None` where it is not set and has no way to be written.
    fn write(&self, key: &str) -> Option<String>;
}

/// Declares a table of the file: the struct, its `Default`, and its [`Section`].
///
/// A knob reads `field: Type = default, "key", codec;` with `flag "--name"` where the command line has a flag for it.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $name:ident $path:literal {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty = $default:expr, $key:literal, $codec:expr $(, flag $flag:literal)?;
            )*
        }
        $(nested { $( $(#[doc = $nested_doc:literal])* $nested:ident: $nested_type:ty; )* })?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                pub $field: $type,
            )*
            $($(
                $(#[doc = $nested_doc])*
                pub $nested: $nested_type,
            )*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    $($($nested: <$nested_type>::default(),)*)?
                }
            }
        }

        impl $crate::knob::Section for $name {
            fn path(&self) -> &'static str {
                $path
            }

            fn meaning(&self) -> &'static [&'static str] {
                &[$($about),*]
            }

            fn knobs(&self) -> &'static [$crate::knob::Knob] {
                use $crate::codec::Codec;
                &[$($crate::knob::Knob {
                    key: $key,
                    meaning: &[$($doc),*],
                    flag: $crate::knob::section!(@flag $($flag)?),
                    type_name: || $crate::codec::of::<$type, _>($codec).type_name(),
                    expected: || $crate::codec::of::<$type, _>($codec).expected(),
                    limits: || $crate::codec::of::<$type, _>($codec).limits(),
                    names_sources: || $crate::codec::of::<$type, _>($codec).names_sources(),
                },)*]
            }

            fn read(
                &mut self,
                key: &str,
                value: &toml::de::DeValue<'_>,
            ) -> Result<(), $crate::codec::Refusal> {
                use $crate::codec::Codec;
                match key {
                    $($key => self.$field = $codec.read(value)?,)*
                    _ => unreachable!("the caller looked {key} up in knobs()"),
                }
                Ok(())
            }

            fn accepts(&self, key: &str) -> bool {
                use $crate::codec::Codec;
                match key {
                    $($key => $codec.accepts(&self.$field),)*
                    _ => unreachable!("the caller looked {key} up in knobs()"),
                }
            }

            fn write(&self, key: &str) -> Option<String> {
                use $crate::codec::Codec;
                match key {
                    $($key => $codec.write(&self.$field),)*
                    _ => unreachable!("the caller looked {key} up in knobs()"),
                }
            }
        }
    };
    (@flag) => { None };
    (@flag $flag:literal) => { Some($flag) };
}
pub(crate) use section;
