//! Flags: structs of `bool` fields.

use crate::attributes::name;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, FieldsNamed};

/// Largest number of flags of a type (the limit of the component model).
const FLAGS_MAX: usize = 32;

/// Generates the methods of a struct that maps to flags.
pub(crate) fn expand(fields: &FieldsNamed) -> Result<TokenStream, Error> {
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
    Ok(quote! {
        fn is(
            info: &::pirn_component::derive::Info,
            ty: ::pirn_component::ValueType,
        ) -> bool {
            ::pirn_component::derive::flags::is(info, ty, &[#(#names),*])
        }

        fn lower(
            &self,
            _: &mut ::pirn_component::derive::Lower<'_>,
            _: ::pirn_component::ValueType,
            to: &mut ::pirn_component::derive::Words,
        ) -> ::core::result::Result<(), ::pirn_component::AbiError> {
            let bits: u32 = #(u32::from(self.#idents) << #numbers)|*;
            to.push(bits.into());
            ::core::result::Result::Ok(())
        }

        fn store(
            &self,
            cx: &mut ::pirn_component::derive::Lower<'_>,
            ty: ::pirn_component::ValueType,
            at: u32,
        ) -> ::core::result::Result<(), ::pirn_component::AbiError> {
            let bits: u32 = #(u32::from(self.#idents) << #numbers)|*;
            ::pirn_component::derive::flags::store(cx, ty, bits, at)
        }

        fn lift(
            _: &mut ::pirn_component::derive::Lift<'_>,
            _: ::pirn_component::ValueType,
            from: &mut ::pirn_component::derive::Flat<'_>,
        ) -> ::core::result::Result<Self, ::pirn_component::AbiError> {
            let bits = from.word() as u32;
            ::core::result::Result::Ok(Self { #(#idents: bits >> #numbers & 1 == 1,)* })
        }

        fn load(
            cx: &mut ::pirn_component::derive::Lift<'_>,
            ty: ::pirn_component::ValueType,
            at: u32,
        ) -> ::core::result::Result<Self, ::pirn_component::AbiError> {
            let bits = ::pirn_component::derive::flags::load(cx, ty, at)?;
            ::core::result::Result::Ok(Self { #(#idents: bits >> #numbers & 1 == 1,)* })
        }
    })
}
