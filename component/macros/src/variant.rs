//! Variants and enums: Rust enums.

use crate::attributes::name;
use crate::methods::Methods;
use quote::quote;
use syn::{DataEnum, Error, Fields, Type, Variant};

/// The type of a case's payload, if the case has one.
fn payload(case: &Variant) -> Result<Option<&Type>, Error> {
    if let Some((_, value)) = &case.discriminant {
        let what = "cases are numbered in their order; remove the discriminant";
        return Err(Error::new_spanned(value, what));
    }
    match &case.fields {
        Fields::Unit => Ok(None),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(Some(&fields.unnamed[0].ty)),
        other => {
            let what = "a case has no payload or one; put several values into a tuple or a record";
            Err(Error::new_spanned(other, what))
        }
    }
}

/// Generates the methods of a Rust enum that maps to a variant or an enum.
pub(crate) fn expand(data: &DataEnum) -> Result<Methods, Error> {
    if data.variants.is_empty() {
        let what = "a variant has at least one case; add one";
        return Err(Error::new_spanned(&data.variants, what));
    }
    let cases = || data.variants.iter();
    let names = cases().map(|case| name(&case.ident, &case.attrs));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let payloads = cases().map(payload).collect::<Result<Vec<_>, _>>()?;
    let count = names.len();
    // A case without payload has the payload type `()`.
    let types: Vec<_> = payloads
        .iter()
        .map(|payload| payload.map_or_else(|| quote!(()), |ty| quote!(#ty)))
        .collect();
    let numbers: Vec<u32> = (0..).take(count).collect();
    let places: Vec<usize> = (0..count).collect();
    // For each case, a pattern that binds the payload, and an expression for the payload.
    let (patterns, values): (Vec<_>, Vec<_>) = cases()
        .zip(&payloads)
        .map(|(case, payload)| {
            let ident = &case.ident;
            match payload {
                None => (quote!(Self::#ident), quote!(&())),
                Some(_) => (quote!(Self::#ident(payload)), quote!(payload)),
            }
        })
        .unzip();
    let made: Vec<_> = cases()
        .zip(&payloads)
        .map(|(case, payload)| {
            let ident = &case.ident;
            match payload {
                None => quote!(|()| Self::#ident),
                Some(_) => quote!(Self::#ident),
            }
        })
        .collect();
    Ok(Methods {
        is: quote! {
            let is = |at: usize, ty| match at {
                #(
                    #places => {
                        <#types as ::pirn_component::derive::Type>::is_optional(info, ty)
                    }
                )*
                _ => false,
            };
            ::pirn_component::derive::cases::is_variant(info, ty, &[#(#names),*], is)
        },
        request: Some(quote! {
            match self {
                #(
                    #patterns => {
                        let ty = ::pirn_component::derive::cases::payload(cx.info(), ty, #numbers);
                        ::pirn_component::derive::Type::request(#values, cx, ty)
                    }
                )*
            }
        }),
        lower: quote! {
            match self {
                #(
                    #patterns => {
                        ::pirn_component::derive::cases::lower(cx, ty, #numbers, #values, to)
                    }
                )*
            }
        },
        store: quote! {
            match self {
                #(
                    #patterns => {
                        ::pirn_component::derive::cases::store(cx, ty, #numbers, #values, at)
                    }
                )*
            }
        },
        lift: quote! {
            ::pirn_component::derive::cases::lift(cx, ty, from, |cx, number, ty, from| {
                match number {
                    #(
                        #numbers => {
                            <#types as ::pirn_component::derive::OwnedType>::lift(cx, ty, from)
                                .map(#made)
                        }
                    )*
                    found => ::pirn_component::derive::cases::unknown(found, #count),
                }
            })
        },
        load: quote! {
            ::pirn_component::derive::cases::load(cx, ty, at, |cx, number, ty, at| {
                match number {
                    #(
                        #numbers => {
                            <#types as ::pirn_component::derive::OwnedType>::load(cx, ty, at)
                                .map(#made)
                        }
                    )*
                    found => ::pirn_component::derive::cases::unknown(found, #count),
                }
            })
        },
    })
}
