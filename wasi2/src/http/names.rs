//! Names and types that the interfaces of `wasi:http` share.

use http::Method;
use http::uri::Scheme;
use pirn_component::Typed;

/// The interface of all resource types.
pub(super) const TYPES: &str = "wasi:http/types@0.2.12";

/// `method`
#[derive(Debug, Clone, PartialEq, Eq, Typed)]
pub(super) enum MethodName {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Other(String),
}

impl From<&Method> for MethodName {
    fn from(method: &Method) -> Self {
        match *method {
            Method::GET => Self::Get,
            Method::HEAD => Self::Head,
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::DELETE => Self::Delete,
            Method::CONNECT => Self::Connect,
            Method::OPTIONS => Self::Options,
            Method::TRACE => Self::Trace,
            Method::PATCH => Self::Patch,
            _ => Self::Other(method.as_str().to_owned()),
        }
    }
}

impl MethodName {
    /// The method; `None` if the name is no token (RFC 9110, section 9.1).
    pub(super) fn method(&self) -> Option<Method> {
        Some(match self {
            Self::Get => Method::GET,
            Self::Head => Method::HEAD,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Delete => Method::DELETE,
            Self::Connect => Method::CONNECT,
            Self::Options => Method::OPTIONS,
            Self::Trace => Method::TRACE,
            Self::Patch => Method::PATCH,
            Self::Other(name) => Method::from_bytes(name.as_bytes()).ok()?,
        })
    }
}

/// `scheme`
#[derive(Debug, Clone, PartialEq, Eq, Typed)]
pub(super) enum SchemeName {
    #[component(name = "HTTP")]
    Http,
    #[component(name = "HTTPS")]
    Https,
    Other(String),
}

impl SchemeName {
    /// The scheme; `None` if the name is malformed (RFC 3986, section 3.1).
    pub(super) fn scheme(&self) -> Option<Scheme> {
        Some(match self {
            Self::Http => Scheme::HTTP,
            Self::Https => Scheme::HTTPS,
            Self::Other(name) => Scheme::try_from(name.as_str()).ok()?,
        })
    }
}

impl From<&Scheme> for SchemeName {
    fn from(scheme: &Scheme) -> Self {
        match scheme.as_str() {
            "http" => Self::Http,
            "https" => Self::Https,
            other => Self::Other(other.to_owned()),
        }
    }
}
