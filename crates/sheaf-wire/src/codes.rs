//! Enums whose values have a code in messages and files, and a name in ledgers, counters and documents.

/// Defines enums whose values have a stable code and a name.
macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal, $text:literal;)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $code,)* }

        impl $name {
            /// Every value, in code order.
            pub const ALL: [Self; [$($code,)*].len()] = [$(Self::$variant,)*];

            /// Returns the stable code in messages and files.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// Returns the value with this code.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the name in JSON, tables and documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    )*};
}
pub(crate) use codes;
