//! The formats that can be imported.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A format of detector data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// KM3NeT online ROOT files (time slices); by the Python package km3io.
    Km3net,
    /// zfits files of the CTAO LST-1 camera; by the Python package protozfits.
    Lst1,
    /// LCIO files of the CALICE SDHCAL calorimeter; needs nothing.
    Sdhcal,
}

/// There is no format of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {name:?}: the formats are km3net, lst1 and sdhcal")]
pub struct UnknownFormat {
    /// The name that was given.
    pub name: String,
}

impl Format {
    /// All formats, in the order of their names.
    pub const ALL: [Self; 3] = [Self::Km3net, Self::Lst1, Self::Sdhcal];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Km3net => "km3net",
            Self::Lst1 => "lst1",
            Self::Sdhcal => "sdhcal",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}
