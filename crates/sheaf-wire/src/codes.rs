//! Enums whose values have a code in messages and files, and a name in ledgers, counters and documents.

/// Defines enums whose values have a stable code and a name.
///
/// The code of a value is a `u8`. Enums behind `u16:` have codes of this type.
#[macro_export]
macro_rules! codes {
    (u16: $($body:tt)*) => { $crate::codes! { @enum u16 $($body)* } };
    (@enum $code_type:ident $(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($code_type)]
        pub enum $name { $($(#[$doc])* $variant = $code,)* }

        impl $name {
            /// Every value, in code order.
            pub const ALL: [Self; [$($code,)*].len()] = [$(Self::$variant,)*];

            /// Returns the stable code in messages and files.
            #[must_use]
            pub const fn code(self) -> $code_type {
                self as $code_type
            }

            /// Returns the value with this code.
            #[must_use]
            pub const fn from_code(code: $code_type) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the value with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }

            /// Returns the name in JSON, tables and documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
    ($($(#[$meta:meta])* $name:ident { $($body:tt)* })*) => {
        $($crate::codes! { @enum u8 $(#[$meta])* $name { $($body)* } })*
    };
}
pub(crate) use codes;
