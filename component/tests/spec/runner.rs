//! Runs one script, directive by directive.

use crate::bridge::{self, Guest, message};
use crate::host::{self, Host};
use crate::{reasons, values};
use pirn_compiler::{CompileError, Options};
use pirn_component::{Component, Value};
use pirn_format::cpu::Arch;
use pirn_runtime::{Module, Region, Reset};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wast::lexer::Lexer;
use wast::parser::{self, ParseBuffer};
use wast::token::Id;
use wast::{QuoteWat, Wast, WastDirective, WastExecute, WastInvoke, Wat};

/// The result of one file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Directives with the result that the file expects.
    pub(crate) passed: usize,
    /// Directives that use a feature that is refused, by its name.
    pub(crate) refused: BTreeMap<String, usize>,
    /// Directives with another result, one line each.
    pub(crate) failures: Vec<String>,
}

impl Report {
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        for (feature, count) in &other.refused {
            *self.refused.entry(feature.clone()).or_default() += count;
        }
        self.failures.extend(other.failures.iter().cloned());
    }
}

/// Why a directive did not pass.
#[derive(Debug, Clone)]
enum Other {
    /// It uses this feature.
    Refused(String),
    /// It has another result than the script expects.
    Failed(String),
}

impl From<String> for Other {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for Other {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

type Outcome = Result<(), Other>;

/// Runs one file. Unless it links, components that import something are only compiled.
pub(crate) fn file(text: &str, links: bool) -> Report {
    let mut report = Report::default();
    if let Err(error) = directives(text, links, &mut report) {
        let error = error.to_string();
        match OLDER.iter().any(|part| error.contains(part)) {
            true => *report.refused.entry(OLDER_SYNTAX.to_owned()).or_default() += 1,
            false => report.failures.push(format!("not a script: {error}")),
        }
    }
    report
}

fn directives(text: &str, links: bool, report: &mut Report) -> Result<(), wast::Error> {
    let mut lexer = Lexer::new(text);
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer)?;
    let script = parser::parse::<Wast<'_>>(&buffer)?;
    let region = Region::builder()
        .slots(100)
        .memories(9)
        .memory_bytes_max(4 << 30)
        .table_elements(1 << 10)
        .tables(20)
        // Scripts with strings of many MiB touch each page once. Tracked pages are slow for that.
        .reset(Reset::Decommitted)
        .build()
        .expect("address space for a region");
    let mut runner = Runner {
        region,
        links,
        current: Err("no instance yet".into()),
        instances: HashMap::new(),
        definitions: HashMap::new(),
    };
    for directive in script.directives {
        let span = directive.span();
        match runner.directive(directive) {
            Ok(()) => report.passed += 1,
            Err(Other::Refused(feature)) => *report.refused.entry(feature).or_default() += 1,
            Err(Other::Failed(why)) => {
                let line = span.linecol_in(text).0 + 1;
                report.failures.push(format!("line {line}: {why}"));
            }
        }
    }
    Ok(())
}

struct Runner<'a> {
    region: Region,
    /// Whether the script offers its components what they import.
    links: bool,
    current: Result<Arc<Guest>, Other>,
    instances: HashMap<&'a str, Result<Arc<Guest>, Other>>,
    definitions: HashMap<Option<&'a str>, Result<Component, Other>>,
}

impl<'a> Runner<'a> {
    fn directive(&mut self, directive: WastDirective<'a>) -> Outcome {
        match directive {
            WastDirective::Module(mut quoted) => {
                let name = quoted.name();
                let component = self.compile(&mut quoted);
                let closed = |component: &Component| {
                    let compiled = component.module().component();
                    let resources = compiled.map_or(0, |all| all.imported_resources.len());
                    component.imports().next().is_none() && resources == 0
                };
                match self.links || component.as_ref().map_or(true, closed) {
                    true => self.instantiate(component, name),
                    false => component.map(drop),
                }
            }
            WastDirective::ModuleDefinition(mut quoted) => {
                let name = quoted.name().map(|id| id.name());
                let component = self.compile(&mut quoted);
                self.definitions.insert(None, component.clone());
                self.definitions.insert(name, component.clone());
                component.map(drop)
            }
            WastDirective::ModuleInstance {
                instance, module, ..
            } => {
                let name = module.map(|id| id.name());
                let component = self.definitions.get(&name).cloned();
                let component = component.ok_or("no such definition")?;
                self.instantiate(component, instance)
            }
            WastDirective::Invoke(invoke) => self.invoke(&invoke)?.map(drop).map_err(Other::Failed),
            WastDirective::AssertReturn { exec, results, .. } => {
                let found = self.execute(exec)?.map_err(|why| self.newer_rule(why))?;
                let wanted = results.iter().map(values::result);
                let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
                let found: Vec<Value> = found.into_iter().collect();
                let equal = found.len() == wanted.len()
                    && found.iter().zip(&wanted).all(|(f, w)| values::equal(f, w));
                match equal {
                    true => Ok(()),
                    false => same(false, &format!("{wanted:?}"), &format!("{found:?}")),
                }
            }
            WastDirective::AssertTrap { exec, message, .. } => match self.execute(exec)? {
                Err(found) => same(reasons::same(message, &found), message, &found),
                Ok(value) => same(false, message, &format!("{value:?}")),
            },
            WastDirective::AssertInvalid {
                mut module,
                message,
                ..
            }
            | WastDirective::AssertMalformed {
                mut module,
                message,
                ..
            } => refused(&mut module, message),
            WastDirective::AssertUnlinkable {
                module, message, ..
            } => {
                let component = self.compile(&mut QuoteWat::Wat(module))?;
                let lenient = LENIENT.iter().find(|(wanted, _)| *wanted == message);
                match (self.guest(&component), lenient) {
                    (Err(_), _) => Ok(()),
                    (Ok(_), Some((_, what))) => Err(Other::Refused((*what).to_owned())),
                    (Ok(_), None) => same(false, message, "an instance"),
                }
            }
            other => Err(format!("directive {other:?} is not known").into()),
        }
    }

    /// Compiles a component for both targets, and opens the one for this target.
    fn compile(&self, component: &mut QuoteWat<'_>) -> Result<Component, Other> {
        let wasm = component.encode().map_err(|error| error.message())?;
        for arch in Arch::ALL {
            if arch.name() != std::env::consts::ARCH {
                let compiled = pirn_compiler::compile(&wasm, &Options::new(arch));
                compiled.map_err(|error| unsupported(&error))?;
            }
        }
        let so = pirn_compiler::compile(&wasm, &Options::default());
        let so = so.map_err(|error| unsupported(&error))?;
        let module = Module::from_bytes(&so).map_err(message)?;
        Ok(Component::new(&module).map_err(message)?)
    }

    /// A new instance, linked with the host and all other instances.
    fn guest(&self, component: &Component) -> Result<Guest, String> {
        let mut linker = host::linker();
        for (name, guest) in &self.instances {
            if let Ok(guest) = guest {
                bridge::define(&mut linker, name, guest, component).map_err(message)?;
            }
        }
        let prepared = linker.prepare(&self.region, component).map_err(message)?;
        let instance = prepared.instantiate(Host::default()).map_err(message)?;
        Ok(Guest::new(prepared, instance))
    }

    fn instantiate(
        &mut self,
        component: Result<Component, Other>,
        name: Option<Id<'a>>,
    ) -> Outcome {
        let guest = component.and_then(|component| Ok(self.guest(&component).map(Arc::new)?));
        self.current = guest.clone();
        if let Some(name) = name {
            self.instances.insert(name.name(), guest.clone());
        }
        guest.map(drop)
    }

    /// Executes an action. The outer error means that the action could not be attempted.
    fn execute(&mut self, exec: WastExecute<'a>) -> Result<Result<Option<Value>, String>, Other> {
        match exec {
            WastExecute::Invoke(invoke) => self.invoke(&invoke),
            WastExecute::Get { .. } => Err("a component has no globals".into()),
            WastExecute::Wat(wat) => self.start(wat),
        }
    }

    /// Instantiates a component to run its start functions.
    fn start(&mut self, wat: Wat<'a>) -> Result<Result<Option<Value>, String>, Other> {
        let component = self.compile(&mut QuoteWat::Wat(wat))?;
        Ok(self.guest(&component).map(|_| None))
    }

    /// Why a call trapped that a script expects to return. Calls that need the same instance later
    /// are refused for the same reason.
    fn newer_rule(&mut self, why: String) -> Other {
        if !why.contains("a component instance that may not be entered") {
            return Other::Failed(why);
        }
        let refused = Other::Refused("reentrance".to_owned());
        self.current = Err(refused.clone());
        refused
    }

    fn invoke(&mut self, invoke: &WastInvoke<'a>) -> Result<Result<Option<Value>, String>, Other> {
        let guest = match invoke.module {
            None => self.current.clone()?,
            Some(name) => {
                let known = self.instances.get(name.name()).cloned();
                known.ok_or_else(|| format!("no instance {}", name.name()))??
            }
        };
        let args = invoke.args.iter().map(values::argument);
        let args = args.collect::<Result<Vec<_>, _>>()?;
        Ok(guest.call(invoke.name, &args))
    }
}

/// Why scripts want components refused that are linked here: nothing looks at an import that is not
/// used, and the host's resource types have no identity but their names.
const LENIENT: [(&str, &str); 4] = [
    ("expected function found instance", "unused imports"),
    ("expected instance found func", "unused imports"),
    ("mismatched resource types", "equal resource types"),
    ("was not found", "unused imports"),
];

/// What the parser says of scripts for an older parser. `syntax.rs` rewrites most of them.
const OLDER: [&str; 2] = ["WAST_STRICT_COMPONENT_INDICES", "is no longer supported"];
/// The reason why such a script is refused as a whole.
const OLDER_SYNTAX: &str = "syntax older than the parser's";

/// What messages say of components that are refused, and the name of the feature.
const FEATURES: [(&str, &str); 26] = [
    (
        "a component that an instance exports",
        "imported components",
    ),
    ("error-context feature", "error contexts"),
    ("async", "async"),
    ("accessors feature", "accessors"),
    ("cm-canon-names", "canonical names"),
    ("`cm-gc` feature", "gc"),
    ("`cm64` feature", "64-bit memories in options"),
    ("expected `/` after package name", "nested names"),
    ("component model `value`s", "values"),
    ("shared-everything threads", "shared-everything threads"),
    ("{ shared: true", "shared-everything threads"),
    ("cm-implements", "implements"),
    ("custom-descriptors", "custom descriptors"),
    ("component model threading", "threading"),
    ("an export that is only an import", "exported imports"),
    ("an exported core module", "exported core modules"),
    ("exporting a component", "exported components"),
    ("ixed-length lists", "fixed-length lists"),
    ("imported component", "imported components"),
    ("imported core module", "imported core modules"),
    ("instances, the limit is", "the limit of instances"),
    ("within each other, the limit is", "the limit of levels"),
    ("units of compile work", "the limit of work"),
    ("Maps require", "maps"),
    ("which knows older rules", "rules newer than the reader's"),
    (
        "a component for which the validator panics",
        "the validator's assertion",
    ),
];

/// The feature for which the compiler refuses a component, if that is the reason.
fn unsupported(error: &CompileError) -> Other {
    let text = error.to_string();
    let feature = FEATURES.iter().find(|(message, _)| text.contains(message));
    match feature {
        Some((_, feature)) => Other::Refused((*feature).to_owned()),
        None => Other::Failed(text),
    }
}

fn same(equal: bool, wanted: &str, found: &str) -> Outcome {
    match equal {
        true => Ok(()),
        false => Err(format!("expected {wanted}, found {found}").into()),
    }
}

/// Checks that the parser or the validator refuses a component.
fn refused(component: &mut QuoteWat<'_>, wanted: &str) -> Outcome {
    let Ok(wasm) = component.encode() else {
        return Ok(());
    };
    match pirn_compiler::compile(&wasm, &Options::default()) {
        Err(error @ CompileError::Invalid { .. }) => match unsupported(&error) {
            // Invalid for a reason that the script does not mean.
            refused @ Other::Refused(_) if !error.to_string().contains(wanted) => Err(refused),
            _ => Ok(()),
        },
        // The types have more parts than a file of this size may have, which is found first.
        Err(CompileError::Work { .. }) if wanted == "effective type size exceeds the limit" => {
            Ok(())
        }
        Err(error) => Err(unsupported(&error)),
        Ok(_) => same(false, wanted, "a component"),
    }
}
