//! Converts the text format (spec 6) to the binary format.

use crate::error::CompileError;
use std::borrow::Cow;

/// The binary form of a module: parsed from text, or the input itself if the input is binary.
///
/// # Errors
///
/// [`CompileError::Text`] with line and column if the input is neither form,
/// [`CompileError::Compiled`] if the input is a compiled module.
pub fn parse_text(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CompileError> {
    if bytes.is_empty() {
        return Err(CompileError::Text("it is empty".to_owned()));
    }
    if bytes.starts_with(b"\x7fELF") {
        return Err(CompileError::Compiled);
    }
    wat::parse_bytes(bytes).map_err(|error| CompileError::Text(first_line(&error.to_string())))
}

/// The message and the location of a parser error, without the source excerpt.
fn first_line(error: &str) -> String {
    let mut lines = error.lines().map(str::trim);
    let message = lines.next().unwrap_or_default();
    match lines.next().and_then(|line| line.strip_prefix("--> ")) {
        Some(place) => {
            let place = place.strip_prefix("<anon>:").unwrap_or(place);
            format!("{message} (at {place})")
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line_with_their_place() {
        let error = parse_text(b"(module\n  (func (export \"f\") i32.cons))")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("i32.cons") || error.contains("unknown operator"),
            "{error}"
        );
        assert!(error.contains("at 2:"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(parse_text(b"").is_err());
        assert!(parse_text(b"\xff\xfe garbage").is_err());
    }

    #[test]
    fn binary_stays_as_it_is() {
        let wasm = b"\0asm\x01\0\0\0";
        assert_eq!(&*parse_text(wasm).unwrap(), wasm);
    }
}
