//! Handles of resources: [`Own`] and [`Borrow`].

use super::{OwnedType, Type, Typed};
use crate::component::Info;
use crate::error::AbiResult;
use crate::lift::{Flat, Lift};
use crate::lower::{Lower, Words};
use crate::names::is_compatible;
use crate::value::Resource;
use pirn_format::component::ValueType;
use std::fmt;
use std::marker::PhantomData;

/// A resource type, as the parameter of [`Own`] and [`Borrow`].
pub trait ResourceType: 'static {
    /// The interface with its version, as in `wasi:io/streams@0.2.0`. An import of a compatible
    /// version has the same resource type.
    const INTERFACE: &'static str;
    /// The name within the interface, as in `input-stream`.
    const NAME: &'static str;

    /// Whether this type matches a resource type that a component imports by these names. For a
    /// resource type that the component defines, `names` is `None`.
    #[doc(hidden)]
    fn is(names: Option<&[String]>) -> bool {
        match names {
            Some([interface, name]) => {
                name == Self::NAME && is_compatible(interface, Self::INTERFACE)
            }
            Some([name]) => name == Self::NAME && Self::INTERFACE.is_empty(),
            _ => false,
        }
    }
}

/// Any resource type, of the host or of a component.
#[derive(Debug)]
pub enum AnyResource {}

impl ResourceType for AnyResource {
    const INTERFACE: &'static str = "";
    const NAME: &'static str = "";

    fn is(_: Option<&[String]>) -> bool {
        true
    }
}

macro_rules! handles {
    ($(
        #[doc = $doc:literal]
        $name:ident;
    )*) => {$(
        #[doc = $doc]
        pub struct $name<R> {
            resource: Resource,
            ty: PhantomData<fn() -> R>,
        }

        impl<R> $name<R> {
            /// A handle to the resource for which the host uses this number.
            #[must_use]
            pub fn host(rep: u32) -> Self {
                Self::from(Resource::host(rep))
            }

            /// The representation: the number that the definition of the resource type chose.
            #[must_use]
            pub fn rep(&self) -> u32 {
                self.resource.rep
            }

            /// The resource.
            #[must_use]
            pub fn resource(&self) -> Resource {
                self.resource
            }
        }

        impl<R> From<Resource> for $name<R> {
            fn from(resource: Resource) -> Self {
                Self {
                    resource,
                    ty: PhantomData,
                }
            }
        }

        impl<R> fmt::Debug for $name<R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.resource).finish()
            }
        }

        impl<R: ResourceType> Typed for $name<R> {}
        impl<R: ResourceType> Type for $name<R> {
            fn is(info: &Info, ty: ValueType) -> bool {
                let ValueType::$name(table) = ty else {
                    return false;
                };
                R::is(info.imported_resource(info.table(table).resource))
            }

            fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
                let number = cx.handle(ty, self.resource)?;
                to.push(number.into());
                Ok(())
            }

            fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
                let number = cx.handle(ty, self.resource)?;
                cx.write(at, &number.to_le_bytes())
            }
        }

        impl<R: ResourceType> OwnedType for $name<R> {
            fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
                let number = from.word() as u32;
                cx.handle(ty, number).map(Self::from)
            }

            fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self> {
                let number = cx.word(at)?;
                cx.handle(ty, number).map(Self::from)
            }
        }
    )*};
}

handles! {
    /// An owned handle: the receiver becomes the owner of the resource.
    Own;
    /// A borrowed handle: the receiver may use the resource until the call returns.
    Borrow;
}
