//! The components for a [`ComponentShape`].
//! [`instances`] makes the parts that instantiate and name,
//! [`interfaces`] the parts with types and adapters, and [`copies`] those that are copied.

use super::component_shape::ComponentShape;
use super::copies;
use super::instances::{self, OUTERMOST};
use super::interfaces;
use super::subject::Subject;
use crate::random::Random;

/// Makes the text of a component.
type Maker = fn(ComponentShape) -> String;

/// All kinds of components, named after the construct that they repeat. Each has the function that
/// writes the fields of the component in the text format.
const MAKERS: [(&str, Maker); 34] = [
    ("adapters between instances", interfaces::adapters),
    ("types of imported functions", interfaces::imports),
    ("types of exported functions", interfaces::exports),
    ("canonical options", interfaces::options),
    ("flags and enums", interfaces::labels),
    ("exported types", interfaces::exported_types),
    ("resources between instances", interfaces::resources),
    ("arguments that are compared", instances::arguments),
    ("imported instances in instances", instances::imports),
    ("resource drops", instances::drops),
    ("destructors", instances::destructors),
    ("exports of exports", instances::paths),
    ("instances exported again", instances::again),
    ("bags of exports", instances::bags),
    ("components in components", instances::nested),
    ("outer aliases", instances::outer),
    ("aliases of exports", instances::aliases),
    ("core modules instantiated again", instances::modules),
    ("components instantiated again", instances::tree),
    ("arguments of core modules", instances::core_arguments),
    ("bags of core exports", instances::core_bags),
    ("core modules as arguments", instances::module_arguments),
    ("arguments of components", instances::many_arguments),
    ("types of components", instances::component_types),
    ("tables and segments again", instances::segments),
    ("components in a row", copies::components),
    ("core modules in a row", copies::core_modules),
    ("named types and components", copies::named_types),
    ("resources known to instances", copies::known_resources),
    ("functions of inner instances", copies::levels),
    ("types with resources", copies::types_with_resources),
    ("core modules given", copies::given_modules),
    ("large items in instances", copies::large_items),
    ("late segments", copies::late_segments),
];

/// The names of all kinds of components.
pub const COMPONENT_KINDS: [&str; MAKERS.len()] = {
    let mut names = [""; MAKERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = MAKERS[at].0;
        at += 1;
    }
    names
};

impl ComponentShape {
    /// The component in the text format.
    #[must_use]
    pub fn text(self) -> String {
        let fields = |kind: usize| MAKERS.get(kind).map(|(_, make)| make(self));
        let first = fields(self.kind).unwrap_or_default();
        let second = fields(self.second);
        // A component that imports something cannot be an inner one without arguments.
        let is_inner = |text: &str| !text.contains(OUTERMOST);
        match second.filter(|text| is_inner(text) && is_inner(&first)) {
            None if self.copies <= 1 || !is_inner(&first) => format!("(component {first})"),
            second => {
                let mut inner = format!("(component $first {first})");
                let mut made = "(instance (instantiate $first))".to_owned();
                if let Some(second) = second {
                    inner += &format!("(component $second {second})");
                    made += "(instance (instantiate $second))";
                }
                let made = made.repeat(self.copies as usize);
                format!("(component {inner} {made})")
            }
        }
    }
}

impl Subject for ComponentShape {
    const KINDS: &'static [&'static str] = &COMPONENT_KINDS;

    fn any(kind: usize, random: &mut Random) -> Self {
        Self::any(kind, random)
    }

    fn changed(self, random: &mut Random) -> Self {
        self.changed(random, MAKERS.len())
    }

    fn kind(self) -> usize {
        self.kind
    }

    fn binary(self) -> Vec<u8> {
        let text = self.text();
        let wasm = pirn_compiler::parse_text(text.as_bytes());
        match wasm {
            Ok(wasm) => wasm.into_owned(),
            Err(error) => panic!("{self:?}: {error}"),
        }
    }
}
