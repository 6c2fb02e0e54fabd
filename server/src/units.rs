//! Values of options: sizes, times, counts and addresses, as the command line and the configuration
//! file write them.

use anyhow::{Context as _, Error, Result, bail};
use hyper::Uri;
use pirn_wasi2::http::Allowed;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes, as in 65536 or 64MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub usize);

/// A time above 0, as in 500us, 20ms or 2s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

/// A number from 1 to 4,294,967,295.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u32);

impl From<Size> for usize {
    fn from(size: Size) -> Self {
        size.0
    }
}

impl From<Time> for Duration {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl From<Count> for u32 {
    fn from(count: Count) -> Self {
        count.0
    }
}

impl From<Count> for usize {
    fn from(count: Count) -> Self {
        count.0 as Self
    }
}

/// An address to listen on, as in `127.0.0.1:8080` or `[::1]:8080`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// The address to which spans are sent, as in `http://127.0.0.1:4318/v1/traces`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(pub String);

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio(pub f64);

/// A server that guests may send requests to, as in `example.com` or `*.example.com:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination(pub String);

impl FromStr for Destination {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Allowed::default().add(text)?;
        Ok(Self(text.to_owned()))
    }
}

/// A directory in memory, as in `/tmp` or `/data=assets.tar`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFolder {
    /// The absolute path at which guests see the directory.
    pub guest: String,
    /// The host's directory or tar archive with the first content. `None` for an empty directory.
    pub content: Option<PathBuf>,
}

impl MemoryFolder {
    /// This directory, with a relative path of the host resolved from `folder`.
    pub(crate) fn in_folder(self, folder: &Path) -> Self {
        Self {
            content: self.content.map(|content| folder.join(content)),
            ..self
        }
    }
}

impl FromStr for MemoryFolder {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (guest, content) = match text.split_once('=') {
            Some((guest, content)) => (guest, Some(content)),
            None => (text, None),
        };
        if !guest.starts_with('/') || guest.contains('\0') || content == Some("") {
            bail!("{text:?} is not a directory in memory; write it as in /tmp or /data=assets.tar");
        }
        Ok(Self {
            guest: guest.to_owned(),
            content: content.map(PathBuf::from),
        })
    }
}

/// The path that OTLP appends to an endpoint.
const TRACES_PATH: &str = "/v1/traces";

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let uri = text.parse::<Uri>().ok().filter(|uri| uri.query().is_none());
        match uri.as_ref().and_then(Uri::scheme_str) {
            Some("http") => {}
            Some("https") => bail!(
                "{text:?} needs TLS, which pirn-serve does not have; send to a collector on this \
                 host by http"
            ),
            _ => bail!("{text:?} is not an endpoint; write it as in http://127.0.0.1:4318"),
        }
        let base = text.trim_end_matches('/').trim_end_matches(TRACES_PATH);
        Ok(Self(format!("{base}{TRACES_PATH}")))
    }
}

impl FromStr for Ratio {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(Self(ratio)),
            _ => bail!("{text:?} is not a ratio; write a number from 0 to 1, as in 0.1"),
        }
    }
}

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
        let (number, unit) = unit(text, &units).unwrap_or((text, 1));
        let number: Option<usize> = number.parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(unit));
        let bytes = bytes
            .with_context(|| format!("{text:?} is not a size; write it as in 65536 or 64MiB"))?;
        Ok(Self(bytes))
    }
}

impl FromStr for Time {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let units = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];
        let time = unit(text, &units).and_then(|(number, unit)| {
            let number: u64 = number.parse().ok()?;
            number.checked_mul(unit)
        });
        match time {
            Some(us) if us > 0 => Ok(Self(Duration::from_micros(us))),
            _ => bail!("{text:?} is not a time above 0; write it as in 500us, 20ms or 2s"),
        }
    }
}

impl FromStr for Count {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse() {
            Ok(count) if count > 0 => Ok(Self(count)),
            _ => bail!(
                "{text:?} is not a count; write a number from 1 to {}",
                u32::MAX
            ),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let address = text.parse();
        let address = address.with_context(|| {
            format!("{text:?} is not an address; write it as in 127.0.0.1:8080 or [::1]:8080")
        })?;
        Ok(Self(address))
    }
}

/// Parses a time, as [`Time`] does.
///
/// # Errors
///
/// If the text is no time.
pub fn time(text: &str) -> Result<Duration> {
    Ok(text.parse::<Time>()?.0)
}

/// Splits a number from its unit, and returns the value of the unit.
fn unit<'a, N: Copy>(text: &'a str, units: &[(&str, N)]) -> Option<(&'a str, N)> {
    let of = |(unit, worth): &(&str, N)| Some((text.strip_suffix(unit)?, *worth));
    units.iter().find_map(of)
}

/// Reads a value of the configuration file by the parser of the command line.
pub(crate) fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = deserializer.deserialize_any(Text)?;
    text.parse().map_err(de::Error::custom)
}

macro_rules! deserialize_by_parsing {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                parsed(deserializer)
            }
        }
    )*};
}

deserialize_by_parsing!(
    Size,
    Time,
    Count,
    Address,
    Endpoint,
    Ratio,
    Destination,
    MemoryFolder
);

/// Takes text, or a number as text.
struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is<T: FromStr>(text: &str) -> bool {
        text.parse::<T>().is_ok()
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for bad in [
            "",
            "-1",
            "1.5MiB",
            "99999999999999999999",
            "17179869184GiB",
            "1KB",
        ] {
            assert!(!is::<Size>(bad), "{bad}");
        }
        for bad in ["", "0s", "1", "-1s", "1m", "18446744073709551615s"] {
            assert!(!is::<Time>(bad), "{bad}");
        }
        for bad in ["", "0", "-1", "4294967296", "1 ", "1.0"] {
            assert!(!is::<Count>(bad), "{bad}");
        }
        for bad in ["", "8080", "localhost:80", "::1:80", "127.0.0.1:65536"] {
            assert!(!is::<Address>(bad), "{bad}");
        }
    }

    #[test]
    fn endpoints_and_ratios() {
        for (text, endpoint) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
            ("http://host/a/v1/traces", "http://host/a/v1/traces"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().0, endpoint);
        }
        for bad in [
            "",
            "host:4318",
            "/a",
            "ftp://host",
            "http://",
            "http://a?b",
            "https://host",
        ] {
            assert!(!is::<Endpoint>(bad), "{bad}");
        }
        for bad in ["", "-0.1", "1.1", "nan", "inf", "a"] {
            assert!(!is::<Ratio>(bad), "{bad}");
        }
        assert!(is::<Ratio>("0") && is::<Ratio>("1") && is::<Ratio>("0.25"));
    }

    #[test]
    fn the_last_good_values_are_taken() {
        assert_eq!("64MiB".parse::<Size>().unwrap(), Size(64 << 20));
        assert_eq!(time("500us").unwrap(), Duration::from_micros(500));
        assert_eq!("4294967295".parse::<Count>().unwrap(), Count(u32::MAX));
        assert!(is::<Address>("127.0.0.1:65535") && is::<Address>("[::1]:0"));
    }
}
