//! Parses sizes, times and counts of the policy file, which are text or numbers.

use serde::{Deserialize, Deserializer, de};
use std::fmt::Display;
use std::str::FromStr;

pub(crate) use pirn_server::units::{Count, Size, Time};

/// A value of a TOML file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Text(String),
    Number(i64),
}

/// Parses a value with its `FromStr`, which pirn's command lines also use.
pub(crate) fn parsed<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = match Text::deserialize(deserializer)? {
        Text::Text(text) => text,
        Text::Number(number) => number.to_string(),
    };
    text.parse().map(Some).map_err(de::Error::custom)
}
