//! Types as the interface language writes them, for messages and listings.

use super::{Component, DefinedType, FuncType, ValueType};

/// Most bytes of a described type. A longer description is cut.
const DESCRIBED_MAX: usize = 200;

/// Most bytes of a described type of a function in messages.
const DESCRIBED_FUNC_MAX: usize = 1000;

/// At most `bytes_max` bytes of a text, and three dots if the text was longer.
#[must_use]
pub fn cut(mut text: String, bytes_max: usize) -> String {
    const DOTS: &str = "...";
    if text.len() > bytes_max + DOTS.len() {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str(DOTS);
    }
    text
}

impl Component {
    /// A type as the interface language writes it. A type of more than 200 bytes is cut.
    #[must_use]
    pub fn describe(&self, ty: ValueType) -> String {
        let mut text = String::new();
        self.write(&mut text, ty);
        // A single name may have any length.
        cut(text, DESCRIBED_MAX)
    }

    /// The type of a function, for messages. A description of more than 1,000 bytes is cut.
    #[must_use]
    pub fn describe_func_shortly(&self, func: &FuncType) -> String {
        cut(self.describe_func(func), DESCRIBED_FUNC_MAX)
    }

    /// The type of a function as the interface language writes it.
    #[must_use]
    pub fn describe_func(&self, func: &FuncType) -> String {
        let params = func.params.iter();
        let params = params.map(|(name, ty)| format!("{name}: {}", self.describe(*ty)));
        let params = params.collect::<Vec<_>>().join(", ");
        let result = func.result.map(|ty| format!(" -> {}", self.describe(ty)));
        format!("func({params}){}", result.unwrap_or_default())
    }

    /// Appends a type. Types share parts, so a short list of types can have a long text.
    fn write(&self, text: &mut String, ty: ValueType) {
        if text.len() > DESCRIBED_MAX {
            if !text.ends_with("...") {
                text.push_str("...");
            }
            return;
        }
        let ValueType::Defined(index) = ty else {
            let name = format!("{ty:?}").to_lowercase();
            text.push_str(name.split('(').next().unwrap_or_default());
            return;
        };
        let Some(ty) = self.types.get(index as usize) else {
            return text.push('?');
        };
        match ty {
            DefinedType::Record(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, ty)| (Some(name.as_str()), Some(*ty)));
                self.list(text, "record {", fields, "}");
            }
            DefinedType::Variant(cases) => {
                let cases = cases.iter().map(|(name, ty)| (Some(name.as_str()), *ty));
                self.list(text, "variant {", cases, "}");
            }
            DefinedType::Flags(names) => {
                let names = names.iter().map(|name| (Some(name.as_str()), None));
                self.list(text, "flags {", names, "}");
            }
            DefinedType::Enum(names) => {
                let names = names.iter().map(|name| (Some(name.as_str()), None));
                self.list(text, "enum {", names, "}");
            }
            DefinedType::Tuple(types) => {
                let types = types.iter().map(|ty| (None, Some(*ty)));
                self.list(text, "tuple<", types, ">");
            }
            DefinedType::List(element) => {
                self.list(text, "list<", [(None, Some(*element))].into_iter(), ">");
            }
            DefinedType::Option(some) => {
                self.list(text, "option<", [(None, Some(*some))].into_iter(), ">");
            }
            DefinedType::Result(ok, error) => {
                self.list(
                    text,
                    "result<",
                    [(None, *ok), (None, *error)].into_iter(),
                    ">",
                );
            }
        }
    }

    /// Appends parts, each with a name, a type, or both. A missing type without a name is `_`.
    fn list<'a>(
        &self,
        text: &mut String,
        start: &str,
        parts: impl Iterator<Item = (Option<&'a str>, Option<ValueType>)>,
        end: &str,
    ) {
        text.push_str(start);
        for (at, (name, ty)) in parts.enumerate() {
            if text.len() > DESCRIBED_MAX {
                if !text.ends_with("...") {
                    text.push_str("...");
                }
                break;
            }
            text.push_str(if at > 0 { ", " } else { "" });
            match (name, ty) {
                (Some(name), Some(ty)) => {
                    text.push_str(&format!("{name}: "));
                    self.write(text, ty);
                }
                (Some(name), None) => text.push_str(name),
                (None, Some(ty)) => self.write(text, ty),
                (None, None) => text.push('_'),
            }
        }
        text.push_str(end);
    }
}
