//! [`Value`]: values of the component model whose types are known at run time.

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `bool`
    Bool(bool),
    /// `s8`
    S8(i8),
    /// `u8`
    U8(u8),
    /// `s16`
    S16(i16),
    /// `u16`
    U16(u16),
    /// `s32`
    S32(i32),
    /// `u32`
    U32(u32),
    /// `s64`
    S64(i64),
    /// `u64`
    U64(u64),
    /// `f32`
    F32(f32),
    /// `f64`
    F64(f64),
    /// `char`
    Char(char),
    /// `string`
    String(String),
    /// `list`
    List(Vec<Self>),
    /// `record`: its fields in the order of the type.
    Record(Vec<(String, Self)>),
    /// `tuple`
    Tuple(Vec<Self>),
    /// `variant`: the name of the case, and its payload.
    Variant(String, Option<Box<Self>>),
    /// `enum`: the name of the case.
    Enum(String),
    /// `option`
    Option(Option<Box<Self>>),
    /// `result`
    Result(Result<Option<Box<Self>>, Option<Box<Self>>>),
    /// `flags`: the names of the set flags, in the order of the type.
    Flags(Vec<String>),
    /// `own`: the receiver has the resource.
    Own(Resource),
    /// `borrow`: the receiver may use the resource during the call.
    Borrow(Resource),
}

/// A resource in the form that the host gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The number that the definer of the resource type gave to the resource.
    pub(crate) rep: u32,
    /// The instance of the component that defines the resource's type; 0 for a type of the host.
    pub(crate) of: u64,
    /// Index of the resource's type within the component; 0 for a type of the host.
    pub(crate) ty: u32,
}

impl Resource {
    /// A resource of a type that the host defines. `rep` is the host's number for the resource.
    #[must_use]
    pub fn host(rep: u32) -> Self {
        Self { rep, of: 0, ty: 0 }
    }

    /// The number that the definer of the resource gave to the resource.
    #[must_use]
    pub fn rep(&self) -> u32 {
        self.rep
    }

    /// The resource as bits, to pass through another language. Only [`from_bits`](Self::from_bits)
    /// of this version reads these bits.
    #[must_use]
    pub fn to_bits(self) -> u128 {
        u128::from(self.rep) | u128::from(self.ty) << 32 | u128::from(self.of) << 64
    }

    /// The resource of [`to_bits`](Self::to_bits). Any bits are a resource: the instance that gets
    /// the resource checks whether the host has it.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self {
            rep: bits as u32,
            ty: (bits >> 32) as u32,
            of: (bits >> 64) as u64,
        }
    }
}

impl Value {
    /// The kind of value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::S8(_) => "s8",
            Self::U8(_) => "u8",
            Self::S16(_) => "s16",
            Self::U16(_) => "u16",
            Self::S32(_) => "s32",
            Self::U32(_) => "u32",
            Self::S64(_) => "s64",
            Self::U64(_) => "u64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Char(_) => "char",
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Record(_) => "record",
            Self::Tuple(_) => "tuple",
            Self::Variant(..) => "variant",
            Self::Enum(_) => "enum",
            Self::Option(_) => "option",
            Self::Result(_) => "result",
            Self::Flags(_) => "flags",
            Self::Own(_) => "own",
            Self::Borrow(_) => "borrow",
        }
    }
}
