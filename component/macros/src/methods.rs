//! The methods of the traits that a type with `#[derive(Typed)]` implements. Their signatures are
//! the same for records, variants and flags.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

/// The bodies of the methods.
pub(crate) struct Methods {
    /// Of `is`, from `info` and `ty`.
    pub(crate) is: TokenStream,
    /// Of `request`, from `cx` and `ty`. Flags need no memory.
    pub(crate) request: Option<TokenStream>,
    /// Of `lower`, from `cx`, `ty` and `to`.
    pub(crate) lower: TokenStream,
    /// Of `store`, from `cx`, `ty` and `at`.
    pub(crate) store: TokenStream,
    /// Of `lift`, from `cx`, `ty` and `from`.
    pub(crate) lift: TokenStream,
    /// Of `load`, from `cx`, `ty` and `at`.
    pub(crate) load: TokenStream,
}

impl Methods {
    /// Implements `Typed`, `Type` and `OwnedType` for a type.
    pub(crate) fn implementations(&self, name: &Ident) -> TokenStream {
        let Self {
            is,
            request,
            lower,
            store,
            lift,
            load,
        } = self;
        let request = request.as_ref().map(|request| {
            quote! {
                fn request(
                    &self,
                    cx: &mut ::pirn_component::derive::Collect<'_>,
                    ty: ::pirn_component::ValueType,
                ) -> ::core::result::Result<(), ::pirn_component::derive::RequestError> {
                    #request
                }
            }
        });
        quote! {
            #[automatically_derived]
            impl ::pirn_component::Typed for #name {}

            #[automatically_derived]
            impl ::pirn_component::derive::Type for #name {
                fn is(
                    info: &::pirn_component::derive::Info,
                    ty: ::pirn_component::ValueType,
                ) -> bool {
                    #is
                }

                #request

                fn lower(
                    &self,
                    cx: &mut ::pirn_component::derive::Lower<'_>,
                    ty: ::pirn_component::ValueType,
                    to: &mut ::pirn_component::derive::Words,
                ) -> ::core::result::Result<(), ::pirn_component::AbiError> {
                    #lower
                }

                fn store(
                    &self,
                    cx: &mut ::pirn_component::derive::Lower<'_>,
                    ty: ::pirn_component::ValueType,
                    at: u32,
                ) -> ::core::result::Result<(), ::pirn_component::AbiError> {
                    #store
                }
            }

            #[automatically_derived]
            impl ::pirn_component::derive::OwnedType for #name {
                fn lift(
                    cx: &mut ::pirn_component::derive::Lift<'_>,
                    ty: ::pirn_component::ValueType,
                    from: &mut ::pirn_component::derive::Flat<'_>,
                ) -> ::core::result::Result<Self, ::pirn_component::AbiError> {
                    #lift
                }

                fn load(
                    cx: &mut ::pirn_component::derive::Lift<'_>,
                    ty: ::pirn_component::ValueType,
                    at: u32,
                ) -> ::core::result::Result<Self, ::pirn_component::AbiError> {
                    #load
                }
            }
        }
    }
}
