//! [`ErrorCode`]: the errors of `wasi:http` (`types.wit`, `error-code`).

use crate::limits::ERROR_TEXT_MAX;
use pirn_component::Typed;
use std::error::Error;
use std::fmt;

/// `error-code`: the reason why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq, Typed)]
#[expect(missing_docs, reason = "the names are those of the interface")]
pub enum ErrorCode {
    #[component(name = "DNS-timeout")]
    DnsTimeout,
    #[component(name = "DNS-error")]
    DnsError(DnsErrorPayload),
    DestinationNotFound,
    DestinationUnavailable,
    #[component(name = "destination-IP-prohibited")]
    DestinationIpProhibited,
    #[component(name = "destination-IP-unroutable")]
    DestinationIpUnroutable,
    ConnectionRefused,
    ConnectionTerminated,
    ConnectionTimeout,
    ConnectionReadTimeout,
    ConnectionWriteTimeout,
    ConnectionLimitReached,
    #[component(name = "TLS-protocol-error")]
    TlsProtocolError,
    #[component(name = "TLS-certificate-error")]
    TlsCertificateError,
    #[component(name = "TLS-alert-received")]
    TlsAlertReceived(TlsAlertReceivedPayload),
    #[component(name = "HTTP-request-denied")]
    HttpRequestDenied,
    #[component(name = "HTTP-request-length-required")]
    HttpRequestLengthRequired,
    #[component(name = "HTTP-request-body-size")]
    HttpRequestBodySize(Option<u64>),
    #[component(name = "HTTP-request-method-invalid")]
    HttpRequestMethodInvalid,
    #[component(name = "HTTP-request-URI-invalid")]
    HttpRequestUriInvalid,
    #[component(name = "HTTP-request-URI-too-long")]
    HttpRequestUriTooLong,
    #[component(name = "HTTP-request-header-section-size")]
    HttpRequestHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-request-header-size")]
    HttpRequestHeaderSize(Option<FieldSizePayload>),
    #[component(name = "HTTP-request-trailer-section-size")]
    HttpRequestTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-request-trailer-size")]
    HttpRequestTrailerSize(FieldSizePayload),
    #[component(name = "HTTP-response-incomplete")]
    HttpResponseIncomplete,
    #[component(name = "HTTP-response-header-section-size")]
    HttpResponseHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-response-header-size")]
    HttpResponseHeaderSize(FieldSizePayload),
    #[component(name = "HTTP-response-body-size")]
    HttpResponseBodySize(Option<u64>),
    #[component(name = "HTTP-response-trailer-section-size")]
    HttpResponseTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-response-trailer-size")]
    HttpResponseTrailerSize(FieldSizePayload),
    #[component(name = "HTTP-response-transfer-coding")]
    HttpResponseTransferCoding(Option<String>),
    #[component(name = "HTTP-response-content-coding")]
    HttpResponseContentCoding(Option<String>),
    #[component(name = "HTTP-response-timeout")]
    HttpResponseTimeout,
    #[component(name = "HTTP-upgrade-failed")]
    HttpUpgradeFailed,
    #[component(name = "HTTP-protocol-error")]
    HttpProtocolError,
    LoopDetected,
    ConfigurationError,
    InternalError(Option<String>),
}

/// `DNS-error-payload`
#[derive(Debug, Clone, PartialEq, Eq, Typed)]
pub struct DnsErrorPayload {
    /// The name of the code of the answer, such as `NXDOMAIN`.
    pub rcode: Option<String>,
    /// The extended error code (RFC 8914).
    pub info_code: Option<u16>,
}

/// `TLS-alert-received-payload`
#[derive(Debug, Clone, PartialEq, Eq, Typed)]
pub struct TlsAlertReceivedPayload {
    /// The number of the alert (RFC 8446, section 6).
    pub alert_id: Option<u8>,
    /// The alert in words.
    pub alert_message: Option<String>,
}

/// `field-size-payload`
#[derive(Debug, Clone, PartialEq, Eq, Typed)]
pub struct FieldSizePayload {
    /// The name of the field.
    pub field_name: Option<String>,
    /// The size of the field in bytes.
    pub field_size: Option<u32>,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InternalError(Some(text)) => write!(f, "internal error: {text}"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl Error for ErrorCode {}

impl ErrorCode {
    /// An error that has no code of its own.
    pub(crate) fn internal(error: impl fmt::Display) -> Self {
        Self::InternalError(Some(error.to_string()))
    }

    /// The error of a body or of a connection.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(code) = error.downcast_ref::<Self>() {
                return code.clone();
            }
            if let Some(error) = error.downcast_ref::<hyper::Error>() {
                return Self::of_hyper(error);
            }
            cause = error.source();
        }
        Self::internal(error)
    }

    /// Shortens the texts of an error to [`ERROR_TEXT_MAX`] bytes, for an error that a guest gives
    /// to the host.
    pub(crate) fn shortened(mut self) -> Self {
        let text = match &mut self {
            Self::DnsError(payload) => &mut payload.rcode,
            Self::TlsAlertReceived(payload) => &mut payload.alert_message,
            Self::HttpRequestHeaderSize(Some(payload))
            | Self::HttpRequestTrailerSize(payload)
            | Self::HttpResponseHeaderSize(payload)
            | Self::HttpResponseTrailerSize(payload) => &mut payload.field_name,
            Self::HttpResponseTransferCoding(text)
            | Self::HttpResponseContentCoding(text)
            | Self::InternalError(text) => text,
            _ => return self,
        };
        if let Some(text) = text {
            text.truncate(text.floor_char_boundary(ERROR_TEXT_MAX));
            text.shrink_to_fit();
        }
        self
    }

    fn of_hyper(error: &hyper::Error) -> Self {
        match error {
            error if error.is_timeout() => Self::HttpResponseTimeout,
            error if error.is_parse_too_large() => Self::HttpResponseHeaderSectionSize(None),
            error if error.is_parse() => Self::HttpProtocolError,
            error if error.is_incomplete_message() => Self::HttpResponseIncomplete,
            error if error.is_closed() || error.is_canceled() => Self::ConnectionTerminated,
            error if error.is_body_write_aborted() => Self::ConnectionTerminated,
            error => match std::error::Error::source(error) {
                Some(source) => match source.downcast_ref::<Self>() {
                    Some(code) => code.clone(),
                    None => Self::internal(format_args!("{error}: {source}")),
                },
                None => Self::internal(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_errors_are_shortened_between_characters() {
        let long = || Some("\u{20ac}".repeat(10_000));
        let field = || FieldSizePayload {
            field_name: long(),
            field_size: None,
        };
        for error in [
            ErrorCode::InternalError(long()),
            ErrorCode::HttpResponseTransferCoding(long()),
            ErrorCode::HttpResponseContentCoding(long()),
            ErrorCode::HttpRequestHeaderSize(Some(field())),
            ErrorCode::HttpRequestTrailerSize(field()),
            ErrorCode::HttpResponseHeaderSize(field()),
            ErrorCode::HttpResponseTrailerSize(field()),
            ErrorCode::TlsAlertReceived(TlsAlertReceivedPayload {
                alert_id: None,
                alert_message: long(),
            }),
            ErrorCode::DnsError(DnsErrorPayload {
                rcode: long(),
                info_code: None,
            }),
        ] {
            let text = format!("{:?}", error.shortened());
            assert!(
                (ERROR_TEXT_MAX..ERROR_TEXT_MAX + 200).contains(&text.len()),
                "{text}"
            );
        }
        let short = ErrorCode::InternalError(Some("why".to_owned()));
        assert_eq!(short.clone().shortened(), short);
    }
}
