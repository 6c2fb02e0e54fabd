//! The attribute `#[component(...)]`.

use heck::ToKebabCase;
use syn::{Attribute, Error, Ident, LitStr};

/// The attributes of a type.
pub(crate) struct OfType {
    /// Whether the type is a struct that maps to flags.
    pub(crate) flags: bool,
}

/// Reads the attributes of a type.
pub(crate) fn of_type(attributes: &[Attribute]) -> Result<OfType, Error> {
    let mut flags = false;
    for attribute in component(attributes) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("flags") {
            true => {
                flags = true;
                Ok(())
            }
            false => Err(meta.error("unknown attribute; a type has `flags` or none")),
        })?;
    }
    Ok(OfType { flags })
}

/// The name of a field or a case in the component model.
pub(crate) fn name(ident: &Ident, attributes: &[Attribute]) -> Result<String, Error> {
    let mut given = None;
    for attribute in component(attributes) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("name") {
            true => {
                given = Some(meta.value()?.parse::<LitStr>()?.value());
                Ok(())
            }
            false => Err(meta.error("unknown attribute; a field or a case has `name` or none")),
        })?;
    }
    let of_rust = || ident.to_string().trim_start_matches("r#").to_kebab_case();
    Ok(given.unwrap_or_else(of_rust))
}

fn component(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("component"))
}
