//! Runs one file of the test suite, directive by directive.

use crate::{common, spectest, values};
use pirn_compiler::{CompileError, Options};
use pirn_format::cpu::Arch;
use pirn_runtime::{
    CallError, Group, GroupError, InstantiateError, Linker, MemberId, Module, Region, Value,
};
use std::collections::HashMap;
use wast::lexer::Lexer;
use wast::parser::{self, ParseBuffer};
use wast::token::Id;
use wast::{QuoteWat, Wast, WastDirective, WastExecute, WastInvoke, Wat};

/// The result of one file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Modules compiled and instantiated.
    pub(crate) modules: usize,
    /// Directives with the result that the file expects.
    pub(crate) passed: usize,
    /// Directives with another result, one line each.
    pub(crate) failures: Vec<String>,
    /// Module definitions without instances that a limit refuses, one line each. The specification
    /// permits such limits (core specification, appendix A.1).
    pub(crate) limited: Vec<String>,
    /// Modules that folders older than 3.0 expect to be refused, but that 3.0 permits.
    pub(crate) outdated: usize,
}

/// Reasons in folders older than 3.0 to refuse modules that 3.0 permits. A module may now have
/// several memories and tables, so a byte that had to be zero is an index.
const OUTDATED: [&str; 4] = [
    "multiple memories",
    "multiple tables",
    "zero byte expected",
    "zero flag expected",
];

impl Report {
    pub(crate) fn add(&mut self, other: &Self) {
        self.modules += other.modules;
        self.passed += other.passed;
        self.failures.extend(other.failures.iter().cloned());
        self.limited.extend(other.limited.iter().cloned());
        self.outdated += other.outdated;
    }

    pub(crate) fn counts(&self) -> String {
        format!(
            "{:>8} {:>8} {:>8}",
            self.modules,
            self.passed,
            self.failures.len()
        )
    }
}

/// Runs one file of a folder, with or without fuel.
pub(crate) fn file(text: &str, folder: &str, fuel: bool) -> Report {
    let mut report = Report::default();
    if let Err(error) = directives(text, folder, fuel, &mut report) {
        report.failures.push(format!("not a script: {error}"));
    }
    report
}

fn directives(
    text: &str,
    folder: &str,
    fuel: bool,
    report: &mut Report,
) -> Result<(), wast::Error> {
    let mut lexer = Lexer::new(text);
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer)?;
    let script = parser::parse::<Wast<'_>>(&buffer)?;
    // Reserve few addresses, because one file runs on each processor at a time.
    let (slots, memories) = match folder {
        "multi-memory" => (100, 9),
        _ => (450, 2),
    };
    let region = Region::builder()
        .slots(slots)
        .memories(memories)
        .memory_bytes_max(4 << 30)
        .table_elements(1 << 20)
        .tables(8)
        .build()
        .expect("address space for a region");
    let (group, linker) = spectest::group(&region);
    let mut runner = Runner {
        group,
        linker,
        current: None,
        instances: HashMap::new(),
        definitions: HashMap::new(),
        modules: 0,
        limited: vec![],
        outdated: (!["multi-memory", "wasm-v3"].contains(&folder)).then_some(0),
        options: Options::default(),
    };
    runner.options.fuel = fuel;
    for directive in script.directives {
        let span = directive.span();
        // Counts lines from the start of the text, which would take long for each directive.
        let line = || span.linecol_in(text).0 + 1;
        match runner.directive(directive) {
            Ok(()) => report.passed += 1,
            Err(why) => report.failures.push(format!("line {}: {why}", line())),
        }
        let limited = runner.limited.drain(..);
        let limited = limited.map(|limit| format!("line {} is not run: {limit}", line()));
        report.limited.extend(limited);
    }
    report.modules = runner.modules;
    report.outdated = runner.outdated.unwrap_or(0);
    report.passed -= report.outdated;
    Ok(())
}

struct Runner<'a> {
    group: Group<()>,
    linker: Linker<()>,
    current: Option<MemberId>,
    instances: HashMap<&'a str, MemberId>,
    definitions: HashMap<Option<&'a str>, Module>,
    modules: usize,
    limited: Vec<String>,
    /// Number of outdated modules, in folders that may have some.
    outdated: Option<usize>,
    options: Options,
}

/// Success of a directive, or the reason for its failure.
type Outcome = Result<(), String>;

impl<'a> Runner<'a> {
    fn directive(&mut self, directive: WastDirective<'a>) -> Outcome {
        match directive {
            WastDirective::Module(mut quoted) => {
                let name = quoted.name();
                let module = self.compile(&mut quoted)?;
                self.instantiate(&module, name)
            }
            WastDirective::ModuleDefinition(mut quoted) => {
                let name = quoted.name().map(|id| id.name());
                if let Some(limit) = self.limit(&mut quoted) {
                    self.limited.push(limit);
                    return Ok(());
                }
                let module = self.compile(&mut quoted)?;
                self.definitions.insert(None, module.clone());
                self.definitions.insert(name, module);
                Ok(())
            }
            WastDirective::ModuleInstance {
                instance, module, ..
            } => {
                let name = module.map(|id| id.name());
                let module = self
                    .definitions
                    .get(&name)
                    .ok_or("no such definition")?
                    .clone();
                self.instantiate(&module, instance)
            }
            WastDirective::Register { name, module, .. } => {
                let member = self.instance(module)?;
                self.group.name(name, member);
                Ok(())
            }
            WastDirective::Invoke(invoke) => self.invoke(&invoke)?.map(drop).map_err(error_message),
            WastDirective::AssertReturn { exec, results, .. } => {
                let found = self.execute(exec)?.map_err(error_message)?;
                let equal = found.len() == results.len()
                    && found
                        .iter()
                        .zip(&results)
                        .all(|(f, w)| values::matches(f, w));
                match equal {
                    true => Ok(()),
                    false => same(false, &format!("{results:?}"), &format!("{found:?}")),
                }
            }
            WastDirective::AssertTrap { exec, message, .. } => traps(self.execute(exec)?, message),
            WastDirective::AssertException { exec, .. } => match self.execute(exec)? {
                Err(CallError::Exception(_)) => Ok(()),
                Err(error) => same(false, "an exception", &error.to_string()),
                Ok(values) => same(false, "an exception", &format!("{values:?}")),
            },
            WastDirective::AssertExhaustion { call, message, .. } => {
                traps(self.invoke(&call)?, message)
            }
            WastDirective::AssertMalformed {
                mut module,
                message,
                ..
            }
            | WastDirective::AssertInvalid {
                mut module,
                message,
                ..
            } => match (&mut self.outdated, refused(&mut module, message)) {
                (Some(count), Err(_)) if OUTDATED.contains(&message) => {
                    *count += 1;
                    Ok(())
                }
                (_, outcome) => outcome,
            },
            WastDirective::AssertUnlinkable {
                module, message, ..
            } => {
                let module = self.compile(&mut QuoteWat::Wat(module))?;
                match self.group.instantiate(&module, &self.linker) {
                    Err(GroupError::Link(_)) => Ok(()),
                    Err(error) => same(false, message, &error.to_string()),
                    Ok(_) => same(false, message, "an instance"),
                }
            }
            other => Err(format!(
                "directive {other:?} is of a proposal that is not supported"
            )),
        }
    }

    /// The limit for which the compiler refuses a module, if it does.
    fn limit(&self, module: &mut QuoteWat<'_>) -> Option<String> {
        let wasm = module.encode().ok()?;
        match pirn_compiler::compile(&wasm, &self.options) {
            Err(error @ CompileError::Limit { .. }) => Some(error.to_string()),
            _ => None,
        }
    }

    /// Compiles a module for both targets, and opens the one for this target.
    fn compile(&mut self, module: &mut QuoteWat<'_>) -> Result<Module, String> {
        let wasm = module.encode().map_err(|error| error.message())?;
        self.modules += 1;
        for arch in Arch::ALL {
            if arch.name() != std::env::consts::ARCH {
                let mut options = Options::new(arch);
                options.fuel = self.options.fuel;
                let so = pirn_compiler::compile(&wasm, &options);
                so.map_err(|error| format!("for {arch}: {error}"))?;
            }
        }
        common::open_with(&wasm, &self.options)
    }

    fn instantiate(&mut self, module: &Module, name: Option<Id<'a>>) -> Outcome {
        self.current = None;
        let instance = self.group.instantiate(module, &self.linker);
        let instance = instance.map_err(|error| error.to_string())?;
        self.current = Some(instance);
        if let Some(name) = name {
            self.instances.insert(name.name(), instance);
        }
        Ok(())
    }

    fn instance(&self, name: Option<Id<'a>>) -> Result<MemberId, String> {
        match name {
            None => self.current.ok_or_else(|| "no instance yet".to_owned()),
            Some(name) => {
                let known = self.instances.get(name.name()).copied();
                known.ok_or_else(|| format!("no instance {}", name.name()))
            }
        }
    }

    /// Executes an action. The outer error means that the action could not be attempted.
    fn execute(&mut self, exec: WastExecute<'a>) -> Result<Result<Vec<Value>, CallError>, String> {
        match exec {
            WastExecute::Invoke(invoke) => self.invoke(&invoke),
            WastExecute::Get { module, global, .. } => {
                let member = self.instance(module)?;
                let value = self.group.member(member).expect("a member").global(global);
                Ok(Ok(vec![
                    value.ok_or_else(|| format!("no global {global}"))?,
                ]))
            }
            WastExecute::Wat(wat) => self.start(wat),
        }
    }

    /// Instantiates a module to run its start function.
    fn start(&mut self, wat: Wat<'a>) -> Result<Result<Vec<Value>, CallError>, String> {
        let module = self.compile(&mut QuoteWat::Wat(wat))?;
        match self.group.instantiate(&module, &self.linker) {
            Ok(_) => Ok(Ok(vec![])),
            Err(GroupError::Instantiate(InstantiateError::Start(error))) => Ok(Err(error)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'a>) -> Result<Result<Vec<Value>, CallError>, String> {
        let member = self.instance(invoke.module)?;
        let args = invoke
            .args
            .iter()
            .map(values::argument)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(self
            .group
            .member_mut(member)
            .expect("a member")
            .call_values(invoke.name, &args))
    }
}

#[allow(clippy::needless_pass_by_value, reason = "map_err passes it by value")]
fn error_message(error: CallError) -> String {
    error.to_string()
}

fn same(equal: bool, wanted: &str, found: &str) -> Outcome {
    if equal {
        Ok(())
    } else {
        Err(format!("expected {wanted}, found {found}"))
    }
}

/// A trap with the suite's message. The suite shortens some messages and lengthens others.
fn traps(outcome: Result<Vec<Value>, CallError>, message: &str) -> Outcome {
    match outcome {
        Err(CallError::Trap(trap)) => {
            let found = trap.code().message();
            let equal = message.starts_with(found) || found.starts_with(message);
            same(equal, message, found)
        }
        Err(error) => same(false, message, &error.to_string()),
        Ok(values) => same(false, message, &format!("{values:?}")),
    }
}

/// Checks that the parser or the validator refuses a module.
fn refused(module: &mut QuoteWat<'_>, message: &str) -> Outcome {
    let Ok(wasm) = module.encode() else {
        return Ok(());
    };
    match pirn_compiler::compile(&wasm, &Options::default()) {
        Err(CompileError::Invalid { .. }) => Ok(()),
        Err(error) => same(false, message, &error.to_string()),
        Ok(_) => same(false, message, "a module"),
    }
}
