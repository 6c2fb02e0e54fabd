//! Random types of the component model, values of them, and how the canonical ABI flattens and
//! stores them: written from the specification, without pirn's code.

use crate::random::Random;
use pirn_component::{Resource, Value};

/// Most core parameters of a function that is lifted or lowered.
pub(super) const FLAT_PARAMS_MAX: usize = 16;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ty {
    /// A number, bool or char, by its name.
    Scalar(&'static str),
    String,
    List(Box<Self>),
    Tuple(Vec<Self>),
    Record(Vec<Self>),
    Variant(Vec<Option<Self>>),
    Enum(usize),
    Option(Box<Self>),
    Result(Box<[Option<Self>; 2]>),
    Flags(usize),
    /// An owned handle to a resource of the host.
    Own,
    /// A borrowed handle to a resource of the host.
    Borrow,
}

/// The handles that a type may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handles {
    None,
    /// Owned handles, as in results.
    Own,
    /// Owned and borrowed handles, as in parameters.
    All,
}

/// The core types of flattened values. Their order is that of `join`: two different types of 32
/// bits make an `i32`, and all others an `i64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Core {
    I32,
    I64,
    F32,
    F64,
}

impl Core {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// An expression for the bits of a core value, as an `i64`.
    pub(super) fn bits(self, value: &str) -> String {
        match self {
            Self::I32 => format!("(i64.extend_i32_u {value})"),
            Self::I64 => value.to_owned(),
            Self::F32 => format!("(i64.extend_i32_u (i32.reinterpret_f32 {value}))"),
            Self::F64 => format!("(i64.reinterpret_f64 {value})"),
        }
    }

    /// The names of types, as the text format has them.
    pub(super) fn names(cores: &[Self]) -> String {
        let names = cores.iter().map(|core| core.name());
        names.collect::<Vec<_>>().join(" ")
    }

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::I32, Self::F32) | (Self::F32, Self::I32) => Self::I32,
            _ => Self::I64,
        }
    }
}

const SCALARS: [&str; 12] = [
    "bool", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64", "char",
];

impl Ty {
    /// A random type.
    pub(super) fn any(random: &mut Random, depth: usize, handles: Handles) -> Self {
        if handles != Handles::None && random.once_in(6) {
            let borrow = handles == Handles::All && random.once_in(2);
            return if borrow { Self::Borrow } else { Self::Own };
        }
        let kind = match depth {
            0 => random.below(3),
            _ => random.below(11),
        };
        let few = |random: &mut Random| 1 + random.below(5);
        let optional = |random: &mut Random| {
            let some = !random.once_in(4);
            some.then(|| Self::any(random, depth - 1, handles))
        };
        match kind {
            0 | 1 => Self::Scalar(SCALARS[random.below(SCALARS.len())]),
            2 => Self::String,
            3 => Self::List(Box::new(Self::any(random, depth - 1, handles))),
            4 => Self::Tuple(
                (0..few(random))
                    .map(|_| Self::any(random, depth - 1, handles))
                    .collect(),
            ),
            5 | 6 => Self::Record(
                (0..few(random))
                    .map(|_| Self::any(random, depth - 1, handles))
                    .collect(),
            ),
            7 => Self::Variant((0..few(random)).map(|_| optional(random)).collect()),
            8 => match random.once_in(2) {
                true => Self::Enum([1, 2, 256, 257][random.below(4)]),
                false => Self::Flags([1, 8, 9, 16, 17, 32][random.below(6)]),
            },
            9 => Self::Option(Box::new(Self::any(random, depth - 1, handles))),
            _ => Self::Result(Box::new([optional(random), optional(random)])),
        }
    }

    /// Declares the type and all types in it. Returns its name.
    pub(super) fn declare(&self, text: &mut String, count: &mut usize) -> String {
        let mut list = |types: &[Self], text: &mut String| {
            types
                .iter()
                .map(|ty| ty.declare(text, count))
                .collect::<Vec<_>>()
        };
        let body = match self {
            Self::Scalar(name) => return (*name).to_owned(),
            Self::String => return "string".to_owned(),
            Self::Own => return "(own $r)".to_owned(),
            Self::Borrow => return "(borrow $r)".to_owned(),
            Self::List(element) => format!("list {}", list(&[(**element).clone()], text)[0]),
            Self::Option(some) => format!("option {}", list(&[(**some).clone()], text)[0]),
            Self::Tuple(types) => format!("tuple {}", list(types, text).join(" ")),
            Self::Record(types) => {
                let fields = list(types, text).into_iter().enumerate();
                let fields = fields.map(|(at, ty)| format!("(field \"f{at}\" {ty})"));
                format!("record {}", fields.collect::<String>())
            }
            Self::Variant(cases) => {
                let mut body = "variant".to_owned();
                for (at, case) in cases.iter().enumerate() {
                    let ty = case
                        .as_ref()
                        .map(|ty| list(std::slice::from_ref(ty), text).remove(0));
                    body += &format!(" (case \"c{at}\" {})", ty.unwrap_or_default());
                }
                body
            }
            Self::Result(both) => {
                let [ok, error] = &**both;
                let mut one = |ty: &Option<Self>| {
                    ty.as_ref()
                        .map(|ty| list(std::slice::from_ref(ty), text).remove(0))
                };
                let ok = one(ok).unwrap_or_default();
                let error = one(error).map(|ty| format!("(error {ty})"));
                format!("result {ok} {}", error.unwrap_or_default())
            }
            Self::Enum(count) => {
                let names = (0..*count).map(|at| format!(" \"c{at}\""));
                format!("enum {}", names.collect::<String>())
            }
            Self::Flags(count) => {
                let names = (0..*count).map(|at| format!(" \"b{at}\""));
                format!("flags {}", names.collect::<String>())
            }
        };
        let at = *count;
        *count += 1;
        text.push_str(&format!(
            "(type $t{at} ({body})) (import \"t{at}\" (type $i{at} (eq $t{at})))\n"
        ));
        format!("$i{at}")
    }

    /// The cases of a variant, option, result or enum.
    pub(super) fn cases(&self) -> Option<Vec<Option<&Self>>> {
        Some(match self {
            Self::Variant(cases) => cases.iter().map(Option::as_ref).collect(),
            Self::Option(some) => vec![None, Some(some)],
            Self::Result(both) => both.iter().map(Option::as_ref).collect(),
            Self::Enum(count) => vec![None; *count],
            _ => return None,
        })
    }

    /// The types of a function's parameters. A tuple stands for several parameters, because the
    /// canonical ABI passes both alike.
    pub(super) fn spread(&self) -> &[Self] {
        match self {
            Self::Tuple(types) => types,
            one => std::slice::from_ref(one),
        }
    }

    /// The core parameters of a function with this parameter.
    pub(super) fn core_params(&self) -> Vec<Core> {
        match self.flat() {
            flat if flat.len() <= FLAT_PARAMS_MAX => flat,
            _ => vec![Core::I32],
        }
    }

    /// Whether the type contains handles.
    pub(super) fn has_handles(&self) -> bool {
        match self {
            Self::Own | Self::Borrow => true,
            Self::List(element) => element.has_handles(),
            Self::Tuple(types) | Self::Record(types) => types.iter().any(Self::has_handles),
            _ => {
                let cases = self.cases().unwrap_or_default();
                cases.into_iter().flatten().any(Self::has_handles)
            }
        }
    }

    /// The core types of its flattened values.
    pub(super) fn flat(&self) -> Vec<Core> {
        match self {
            Self::Scalar("s64" | "u64") => vec![Core::I64],
            Self::Scalar("f32") => vec![Core::F32],
            Self::Scalar("f64") => vec![Core::F64],
            Self::Scalar(_) | Self::Flags(_) | Self::Own | Self::Borrow => vec![Core::I32],
            Self::String | Self::List(_) => vec![Core::I32; 2],
            Self::Tuple(types) | Self::Record(types) => types.iter().flat_map(Self::flat).collect(),
            _ => {
                let mut joined: Vec<Core> = vec![];
                for case in self.cases().into_iter().flatten().flatten() {
                    for (at, core) in case.flat().into_iter().enumerate() {
                        match joined.get_mut(at) {
                            Some(found) => *found = found.join(core),
                            None => joined.push(core),
                        }
                    }
                }
                joined.insert(0, Core::I32);
                joined
            }
        }
    }

    /// Bytes of a variant's discriminant.
    pub(super) fn discriminant(cases: usize) -> u32 {
        match cases {
            0..=0x100 => 1,
            _ => 2,
        }
    }

    /// Size and alignment in memory.
    pub(super) fn size(&self) -> (u32, u32) {
        match self {
            Self::Scalar("bool" | "s8" | "u8") => (1, 1),
            Self::Scalar("s16" | "u16") => (2, 2),
            Self::Scalar("s64" | "u64" | "f64") => (8, 8),
            Self::Scalar(_) | Self::Own | Self::Borrow => (4, 4),
            Self::String | Self::List(_) => (8, 4),
            Self::Flags(count) => match count {
                0..=8 => (1, 1),
                9..=16 => (2, 2),
                _ => (4, 4),
            },
            Self::Tuple(types) | Self::Record(types) => {
                let (mut end, mut align) = (0u32, 1);
                for (bytes, own) in types.iter().map(Self::size) {
                    end = end.next_multiple_of(own) + bytes;
                    align = align.max(own);
                }
                (end.next_multiple_of(align), align)
            }
            _ => {
                let cases = self.cases().unwrap_or_default();
                let tag = Self::discriminant(cases.len());
                let sizes = cases.into_iter().flatten().map(Self::size);
                let (bytes, align) = sizes.fold((0, tag), |(bytes, align), (own, own_align)| {
                    (bytes.max(own), align.max(own_align))
                });
                (
                    (tag.next_multiple_of(align) + bytes).next_multiple_of(align),
                    align,
                )
            }
        }
    }

    /// A random value.
    pub(super) fn value(&self, random: &mut Random) -> Value {
        let bits = random.bits();
        let text = |random: &mut Random| {
            let chars = [
                'a', '\0', '~', '\u{80}', '\u{e9}', '\u{ff}', '\u{100}', '\u{20ac}',
            ];
            let more = ['\u{d7ff}', '\u{ffff}', '\u{10000}', '\u{10ffff}'];
            let all = if random.once_in(2) {
                &chars[..6]
            } else {
                &[&chars[..], &more].concat()
            };
            (0..random.below(9))
                .map(|_| all[random.below(all.len())])
                .collect::<String>()
        };
        match self {
            Self::Scalar(name) => match *name {
                "bool" => Value::Bool(bits & 1 == 1),
                "s8" => Value::S8(bits as i8),
                "u8" => Value::U8(bits as u8),
                "s16" => Value::S16(bits as i16),
                "u16" => Value::U16(bits as u16),
                "s32" => Value::S32(bits as i32),
                "u32" => Value::U32(bits as u32),
                "s64" => Value::S64(bits as i64),
                "u64" => Value::U64(bits),
                // No NaN, whose bits may change.
                "f32" => Value::F32(
                    Some(f32::from_bits(bits as u32))
                        .filter(|n| !n.is_nan())
                        .unwrap_or(1.5),
                ),
                "f64" => Value::F64(
                    Some(f64::from_bits(bits))
                        .filter(|n| !n.is_nan())
                        .unwrap_or(2.5),
                ),
                _ => Value::Char(char::from_u32(bits as u32 % 0x11_0000).unwrap_or('\u{fffd}')),
            },
            Self::String => Value::String(text(random)),
            Self::Own => Value::Own(Resource::host(bits as u32)),
            Self::Borrow => Value::Borrow(Resource::host(bits as u32)),
            Self::List(element) => Value::List(
                (0..random.below(4))
                    .map(|_| element.value(random))
                    .collect(),
            ),
            Self::Tuple(types) => Value::Tuple(types.iter().map(|ty| ty.value(random)).collect()),
            Self::Record(types) => {
                let fields = types.iter().enumerate();
                Value::Record(
                    fields
                        .map(|(at, ty)| (format!("f{at}"), ty.value(random)))
                        .collect(),
                )
            }
            Self::Flags(count) => {
                let set = (0..*count).filter(|bit| bits >> bit & 1 == 1);
                Value::Flags(set.map(|bit| format!("b{bit}")).collect())
            }
            _ => {
                let cases = self.cases().unwrap_or_default();
                let at = random.below(cases.len());
                let payload = cases[at].map(|ty| ty.value(random));
                self.case(at, payload)
            }
        }
    }

    /// The value of a case.
    pub(super) fn case(&self, at: usize, payload: Option<Value>) -> Value {
        let payload = payload.map(Box::new);
        match (self, at) {
            (Self::Enum(_), _) => Value::Enum(format!("c{at}")),
            (Self::Option(_), _) => Value::Option(payload),
            (Self::Result(_), 0) => Value::Result(Ok(payload)),
            (Self::Result(_), _) => Value::Result(Err(payload)),
            _ => Value::Variant(format!("c{at}"), payload),
        }
    }
}
