//! Flags: structs of `bool` fields.

use crate::attributes::name;
use crate::methods::Methods;
use quote::quote;
use syn::{Error, FieldsNamed};

/// Largest number of flags of a type (the limit of the component model).
const FLAGS_MAX: usize = 32;

/// Generates the methods of a struct that maps to flags.
pub(crate) fn expand(fields: &FieldsNamed) -> Result<Methods, Error> {
    let count = fields.named.len();
    if !(1..=FLAGS_MAX).contains(&count) {
        let what = format!("{count} flags; a type has 1 to {FLAGS_MAX}");
        return Err(Error::new_spanned(fields, what));
    }
    let names = fields.named.iter();
    let names = names.map(|field| name(field.ident.as_ref().expect("it is named"), &field.attrs));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let idents: Vec<_> = fields.named.iter().map(|field| &field.ident).collect();
    let numbers: Vec<u32> = (0..).take(count).collect();
    Ok(Methods {
        is: quote! {
            ::pirn_component::derive::flags::is(info, ty, &[#(#names),*])
        },
        request: None,
        lower: quote! {
            let bits: u32 = #(u32::from(self.#idents) << #numbers)|*;
            to.push(bits.into());
            ::core::result::Result::Ok(())
        },
        store: quote! {
            let bits: u32 = #(u32::from(self.#idents) << #numbers)|*;
            ::pirn_component::derive::flags::store(cx, ty, bits, at)
        },
        lift: quote! {
            let bits = from.word() as u32;
            ::core::result::Result::Ok(Self { #(#idents: bits >> #numbers & 1 == 1,)* })
        },
        load: quote! {
            let bits = ::pirn_component::derive::flags::load(cx, ty, at)?;
            ::core::result::Result::Ok(Self { #(#idents: bits >> #numbers & 1 == 1,)* })
        },
    })
}
