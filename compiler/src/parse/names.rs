//! The name section (spec, appendix 7.4.1). It is advisory: a damaged section is ignored from the
//! damage on.

use pirn_format::metadata::Metadata;
use wasmparser::{Name, NameSectionReader};

/// Reads the names of the module and its functions.
pub(super) fn read(names: NameSectionReader<'_>, metadata: &mut Metadata) {
    for name in names {
        match name {
            Ok(Name::Module { name, .. }) => metadata.name = Some(name.to_owned()),
            Ok(Name::Function(map)) => {
                let names = map.into_iter().map_while(Result::ok);
                metadata.func_names = names
                    .map(|naming| (naming.index, naming.name.to_owned()))
                    .collect();
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    // A valid map is ascending. Any other map is sorted; the first name of a function wins.
    metadata.func_names.sort_by_key(|(index, _)| *index);
    metadata.func_names.dedup_by_key(|(index, _)| *index);
}
