//! [`initialisers`] and [`call_after_restore`]: the exports that hosts call around a snapshot.

use pirn_runtime::{ExternType, FuncType, LinkError, Module, Prepared};
use thiserror::Error;

/// Names of exports that initialise a guest, in order of preference: the names that wizer uses, and
/// the name for reactors of WASI.
const KNOWN: [&str; 3] = ["wizer-initialize", "wizer.initialize", REACTOR];
/// Must be called before any other export (WASI application ABI, "reactors").
const REACTOR: &str = "_initialize";

/// The reason for which a guest cannot be initialised.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InitialiseError {
    /// The guest has no export that initialises it.
    #[error("it exports neither {} nor {REACTOR}; name its initialisation", KNOWN[0])]
    None,
    /// The guest exports no function with the given name.
    #[error("it exports no function {name:?}; name one that it has")]
    NoFunction {
        /// The name.
        name: String,
    },
    /// The function has parameters or results.
    #[error("its function {name:?} has the type {ty}; name one without parameters and results")]
    Type {
        /// The name.
        name: String,
        /// The function's type.
        ty: FuncType,
    },
}

/// The exports to call, in order, before a snapshot of a guest: the export `init`, or else
/// `wizer-initialize`, `wizer.initialize` or `_initialize`. In a reactor, `_initialize` always
/// comes first.
///
/// # Errors
///
/// [`InitialiseError`], if there is no such function without parameters and results.
pub fn initialisers(module: &Module, init: Option<&str>) -> Result<Vec<String>, InitialiseError> {
    let func = |wanted: &str| {
        module.exports().find_map(|(name, ty)| match ty {
            ExternType::Func(ty) if name == wanted => Some(ty),
            _ => None,
        })
    };
    let first = || KNOWN.into_iter().find(|name| func(name).is_some());
    let name = init.or_else(first).ok_or(InitialiseError::None)?;
    let owned = name.to_owned();
    match func(name) {
        None => return Err(InitialiseError::NoFunction { name: owned }),
        Some(ty) if !ty.params.is_empty() || !ty.results.is_empty() => {
            return Err(InitialiseError::Type { name: owned, ty });
        }
        Some(_) => {}
    }
    let reactor = (name != REACTOR && func(REACTOR).is_some()).then_some(REACTOR);
    Ok(reactor
        .into_iter()
        .chain([name])
        .map(str::to_owned)
        .collect())
}

/// An export that each instance of a snapshot calls first.
const AFTER_RESTORE: &str = "after_restore";

/// A preparation of `module` whose instances call the export `after_restore` first, if the module
/// is a snapshot with this export. In `after_restore` a guest draws new seeds of random numbers.
///
/// # Errors
///
/// As [`Prepared::call_first`]: the export is no function, or has parameters or results.
pub fn call_after_restore<T>(
    prepared: Prepared<T>,
    module: &Module,
) -> Result<Prepared<T>, LinkError> {
    match module.is_snapshot() && module.exports().any(|(name, _)| name == AFTER_RESTORE) {
        true => prepared.call_first(AFTER_RESTORE),
        false => Ok(prepared),
    }
}
