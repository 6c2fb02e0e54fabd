//! `#[derive(Typed)]`: Rust types for records, variants, enums and flags of the component model.
//!
//! The crate `pirn-component` exports the macro, and documents it.

#![forbid(unsafe_code)]

mod attributes;
mod methods;
mod flags;
mod record;
mod variant;

use proc_macro2::TokenStream;
use syn::{Data, DeriveInput, Error, Fields, parse_macro_input};

/// Maps a Rust type to a record, a variant, an enum or flags of the component model.
///
/// * A struct with named fields becomes a record with the same fields in the same order.
/// * A Rust enum becomes a variant, or an enum if no case has a payload. A case has at most one
///   payload.
/// * A struct of `bool` fields with `#[component(flags)]` becomes flags.
///
/// The macro converts names to kebab case: the field `status_code` becomes `status-code`, the case
/// `LastOperationFailed` becomes `last-operation-failed`. `#[component(name = "...")]` sets another
/// name for a field or a case.
///
/// ```ignore
/// #[derive(Typed)]
/// struct Datetime {
///     seconds: u64,
///     nanoseconds: u32,
/// }
///
/// #[derive(Typed)]
/// enum Method {
///     Get,
///     Head,
///     Other(String),
/// }
///
/// #[derive(Typed)]
/// #[component(flags)]
/// struct PathFlags {
///     symlink_follow: bool,
/// }
/// ```
#[proc_macro_derive(Typed, attributes(component))]
pub fn derive_typed(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let attributes = attributes::of_type(&input.attrs)?;
    if !input.generics.params.is_empty() {
        let what = "a type with parameters represents no type of the component model; remove them";
        return Err(Error::new_spanned(&input.generics, what));
    }
    let methods = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if attributes.flags => flags::expand(fields)?,
            Fields::Named(fields) => record::expand(fields)?,
            other => {
                let what = "a record has named fields; use a tuple for fields without names";
                return Err(Error::new_spanned(other, what));
            }
        },
        Data::Enum(data) if attributes.flags => {
            let what = "flags are a struct of `bool` fields; make the enum a struct";
            return Err(Error::new_spanned(data.enum_token, what));
        }
        Data::Enum(data) => variant::expand(data)?,
        Data::Union(data) => {
            let what = "the component model has no unions; use an enum";
            return Err(Error::new_spanned(data.union_token, what));
        }
    };
    Ok(methods.implementations(&input.ident))
}
