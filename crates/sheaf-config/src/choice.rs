//! Values that are one word of a closed list, and the macro that declares them with their documentation.

/// Joins documentation lines, each with the blank that `///` leaves in front.
pub(crate) fn paragraph(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A knob's value that is one word of a closed list.
pub(crate) trait Choice: Copy + PartialEq + 'static {
    /// Every value, its word in the file, and what it means.
    const WORDS: &'static [(Self, &'static str, &'static [&'static str])];

    /// The value that `word` stands for.
    fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known, _)| *known == word).map(|(value, ..)| *value)
    }
}

/// Declares an enum whose variants are words in the file.
macro_rules! choice {
    (
        $(#[doc = $about:literal])*
        $name:ident {
            $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[doc = $doc])* $variant, )*
        }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        impl $crate::choice::Choice for $name {
            const WORDS: &'static [(Self, &'static str, &'static [&'static str])] =
                &[$((Self::$variant, $word, &[$($doc),*]),)*];
        }

        impl std::fmt::Display for $name {
            /// The word in the file.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)* })
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            /// The value of a word, for command-line flags.
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                <Self as $crate::choice::Choice>::from_word(word).ok_or_else(|| $crate::UnknownWord::of::<Self>(word))
            }
        }
    };
}
pub(crate) use choice;
