//! Records: structs with named fields.

use crate::attributes::name;
use crate::methods::Methods;
use quote::quote;
use syn::{Error, FieldsNamed};

/// Generates the methods of a struct that maps to a record.
pub(crate) fn expand(fields: &FieldsNamed) -> Result<Methods, Error> {
    if fields.named.is_empty() {
        let what = "a record has at least one field; add one";
        return Err(Error::new_spanned(fields, what));
    }
    let names = fields.named.iter();
    let names = names.map(|field| name(field.ident.as_ref().expect("it is named"), &field.attrs));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let idents: Vec<_> = fields.named.iter().map(|field| &field.ident).collect();
    let types: Vec<_> = fields.named.iter().map(|field| &field.ty).collect();
    let numbers: Vec<_> = (0..types.len()).collect();
    Ok(Methods {
        is: quote! {
            let is = |at: usize, ty| match at {
                #(#numbers => <#types as ::pirn_component::derive::Type>::is(info, ty),)*
                _ => false,
            };
            ::pirn_component::derive::fields::is_record(info, ty, &[#(#names),*], is)
        },
        request: Some(quote! {
            #(
                let field = ::pirn_component::derive::fields::field(cx.info(), ty, #numbers);
                ::pirn_component::derive::Type::request(&self.#idents, cx, field)?;
            )*
            ::core::result::Result::Ok(())
        }),
        lower: quote! {
            #(
                let field = ::pirn_component::derive::fields::field(cx.info(), ty, #numbers);
                ::pirn_component::derive::Type::lower(&self.#idents, cx, field, to)?;
            )*
            ::core::result::Result::Ok(())
        },
        store: quote! {
            let mut place = ::pirn_component::derive::fields::Place::new(at);
            #(
                let field = ::pirn_component::derive::fields::field(cx.info(), ty, #numbers);
                let at = place.next(cx.info(), field);
                ::pirn_component::derive::Type::store(&self.#idents, cx, field, at)?;
            )*
            ::core::result::Result::Ok(())
        },
        lift: quote! {
            ::core::result::Result::Ok(Self {
                #(#idents: {
                    let field = ::pirn_component::derive::fields::field(cx.info(), ty, #numbers);
                    <#types as ::pirn_component::derive::OwnedType>::lift(cx, field, from)?
                },)*
            })
        },
        load: quote! {
            let mut place = ::pirn_component::derive::fields::Place::new(at);
            ::core::result::Result::Ok(Self {
                #(#idents: {
                    let field = ::pirn_component::derive::fields::field(cx.info(), ty, #numbers);
                    let at = place.next(cx.info(), field);
                    <#types as ::pirn_component::derive::OwnedType>::load(cx, field, at)?
                },)*
            })
        },
    })
}
