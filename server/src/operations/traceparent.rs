//! [`Parent`]: the span of another program that sent a request, by its header `traceparent` (W3C
//! Trace Context, level 1).

use hyper::header::HeaderMap;

/// Name of the header field.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// The span that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parent<'a> {
    /// 32 lower-case hexadecimal digits.
    pub(crate) trace_id: &'a str,
    /// 16 lower-case hexadecimal digits.
    pub(crate) span_id: &'a str,
    /// Whether the other program records the trace.
    pub(crate) is_sampled: bool,
}

impl<'a> Parent<'a> {
    /// The parent in a header. An invalid field counts as missing, and so do several fields.
    pub(crate) fn of(headers: &'a HeaderMap) -> Option<Self> {
        let mut all = headers.get_all(TRACEPARENT).iter();
        let (value, None) = (all.next()?, all.next()) else {
            return None;
        };
        Self::parse(value.to_str().ok()?)
    }

    /// Parses `version-trace-span-flags`. Later versions may append fields.
    fn parse(text: &'a str) -> Option<Self> {
        let mut fields = text.splitn(5, '-');
        let mut hex = |digits: usize| {
            let field = fields.next()?;
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            (field.len() == digits && field.bytes().all(is_hex)).then_some(field)
        };
        let (version, trace_id, span_id, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let is_zero = |id: &str| id.bytes().all(|byte| byte == b'0');
        let has_more = fields.next().is_some();
        if version == "ff" || version == "00" && has_more || is_zero(trace_id) || is_zero(span_id) {
            return None;
        }
        Some(Self {
            trace_id,
            span_id,
            is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn good_fields_are_read() {
        let parent = Parent::parse(GOOD).expect("it is good");
        assert_eq!(parent.trace_id, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id, "b7ad6b7169203331");
        assert!(parent.is_sampled);
        let parse = |text: &str| Parent::parse(text).map(|parent| parent.is_sampled);
        assert_eq!(parse(&GOOD.replace("-01", "-fe")), Some(false));
        assert_eq!(parse(&GOOD.replace("00-", "01-")), Some(true));
        assert_eq!(parse(&(GOOD.replace("00-", "cc-") + "-more-")), Some(true));
    }

    #[test]
    fn bad_fields_are_ignored() {
        for bad in [
            "",
            "-",
            "---",
            &GOOD[1..],
            &GOOD[..54],
            &format!("{GOOD}-"),
            &format!("{GOOD}0"),
            &format!(" {GOOD}"),
            &GOOD.replace("00-", "ff-"),
            &GOOD.replace("00-", "+0-"),
            &GOOD.replace("00-", "0-"),
            &GOOD.replace("-01", "-+1"),
            &GOOD.replace("-01", "-0g"),
            &GOOD.replace('a', "A"),
            &GOOD.replace("0af7", "0ag7"),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            &GOOD.replace('-', "_"),
            &"-".repeat(1 << 16),
        ] {
            assert_eq!(Parent::parse(bad), None, "{bad}");
        }
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, GOOD.parse().unwrap());
        assert!(Parent::of(&headers).is_some());
        headers.append(TRACEPARENT, GOOD.parse().unwrap());
        assert_eq!(Parent::of(&headers), None, "which one is right?");
    }
}
