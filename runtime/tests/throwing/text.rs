//! A [`Program`] in the text format: one module, or two, where the second imports from the first.

use crate::throwing::program::{
    Clause, FUNCTION, Form, Func, Home, KEPT, Local, Program, Stmt, TYPES, Then, Try, Ty, WASTED,
};
use std::fmt::Write as _;

pub(crate) fn name(ty: Ty) -> &'static str {
    match ty {
        Ty::I32 => "i32",
        Ty::I64 => "i64",
        Ty::F64 => "f64",
        Ty::V128 => "v128",
        Ty::Exn => "exnref",
    }
}

fn names(types: impl IntoIterator<Item = Ty>) -> String {
    let names: Vec<_> = types.into_iter().map(name).collect();
    names.join(" ")
}

fn types(locals: &[Local]) -> String {
    names(locals.iter().map(|local| local.0))
}

fn signature(func: &Func) -> String {
    let [params, results] = [&func.params, &func.results].map(|locals| types(locals));
    format!("(param {params}) (result {results})")
}

fn variable(Local(ty, at): Local) -> String {
    format!("${}{at}", name(ty))
}

/// The text of one of the program's modules.
pub(crate) fn module(program: &Program, home: Home) -> String {
    let mut writer = Writer {
        program,
        home,
        text: String::new(),
        open: vec![],
        tags_named: 0,
        results: vec![],
    };
    writer.module();
    writer.text
}

struct Writer<'a> {
    program: &'a Program,
    home: Home,
    text: String,
    /// The enclosing blocks, innermost last, with their labels if they have any.
    open: Vec<Option<usize>>,
    /// Number of uses of a tag so far.
    tags_named: usize,
    /// Locals that the function returns.
    results: Vec<Local>,
}

impl Writer<'_> {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text += line.as_ref();
        self.text += "\n";
    }

    fn module(&mut self) {
        self.line("(module");
        self.line("(import \"host\" \"ask\" (func $ask (param i64) (result i64)))");
        let (owns, program) = (self.home == Home::First, self.program);
        // The first module exports these items, and the second imports them.
        let shared = |kind: &str, item: &str, ty: &str, init: &str| match owns {
            true => format!("({kind} ${item} (export \"{item}\") {ty} {init})"),
            false => format!("(import \"first\" \"{item}\" ({kind} ${item} {ty}))"),
        };
        if !owns {
            self.line("(import \"first\" \"waste\" (func $waste))");
            for (at, func) in program.funcs.iter().enumerate() {
                if func.home == Home::First {
                    let ty = signature(func);
                    self.line(format!("(import \"first\" \"f{at}\" (func $f{at} {ty}))"));
                }
            }
        }
        let params = |at: usize| {
            let types = &program.tags[at].types;
            format!("(param {})", names(types.iter().copied()))
        };
        for (at, tag) in program.tags.iter().enumerate() {
            if !owns && tag.home == Home::First {
                // The second module imports each tag under two names.
                for other in ["", "b"] {
                    let params = params(at);
                    let text = format!("(import \"first\" \"t{at}\" (tag $t{at}{other} {params}))");
                    self.line(text);
                }
            }
        }
        self.line(shared("global", "steps", "(mut i32)", "(i32.const 0)"));
        self.line(shared("global", "noted", "(mut i64)", "(i64.const 0)"));
        if program.form != Form::Legacy {
            self.line(shared("global", "kept", "(mut exnref)", "(ref.null exn)"));
            self.line(shared("table", "refs", &format!("{KEPT} exnref"), ""));
        }
        let count = program.funcs.len();
        match program.has_second {
            true => self.line(shared("table", "funcs", &format!("{count} funcref"), "")),
            false => self.line(format!("(table $funcs {count} funcref)")),
        }
        for (at, tag) in program.tags.iter().enumerate() {
            if tag.home == self.home {
                let params = params(at);
                self.line(format!("(tag $t{at} (export \"t{at}\") {params})"));
            }
        }
        for (at, func) in program.funcs.iter().enumerate() {
            if func.home == self.home {
                self.line(format!(
                    "(elem (table $funcs) (i32.const {at}) func $f{at})"
                ));
                self.func(at, func);
            }
        }
        if program.funcs[0].home == self.home {
            self.entry();
        }
        if owns {
            self.waste();
        }
        self.line(")");
    }

    /// The function that [`Stmt::Waste`] calls.
    fn waste(&mut self) {
        let wasted = match self.program.form {
            Form::Legacy => "try throw $wasted catch_all end",
            Form::Table | Form::Both => {
                "block (result (ref exn)) try_table (catch_all_ref 0) throw $wasted end unreachable end drop"
            }
        };
        self.line("(tag $wasted) (func $waste (export \"waste\") (local $left i32)");
        self.line(format!("i32.const {WASTED} local.set $left"));
        self.line(format!("loop {wasted} local.get $left i32.const 1 i32.sub"));
        self.line("local.tee $left br_if 0 end)");
    }

    /// The function that the host calls.
    fn entry(&mut self) {
        let func = &self.program.funcs[0];
        let _ = write!(self.text, "(func (export \"run\") (param i32)");
        self.line(signature(func));
        self.line("local.get 0 global.set $steps");
        for at in 1..=func.params.len() {
            self.line(format!("local.get {at}"));
        }
        self.line("call $f0)");
    }

    fn func(&mut self, at: usize, func: &Func) {
        self.line(format!("(func $f{at} (export \"f{at}\")"));
        for param in &func.params {
            let (variable, ty) = (variable(*param), name(param.0));
            self.line(format!("(param {variable} {ty})"));
        }
        self.line(format!("(result {})", types(&func.results)));
        for ty in TYPES {
            for at in 0..func.locals[ty as usize] {
                if !func.params.contains(&Local(ty, at)) {
                    let variable = variable(Local(ty, at));
                    self.line(format!("(local {variable} {})", name(ty)));
                }
            }
        }
        self.counters(&func.body);
        self.results.clone_from(&func.results);
        self.line("global.get $steps i32.eqz if");
        for local in &func.results {
            self.line(match local.0 {
                Ty::V128 => "v128.const i64x2 0 0",
                Ty::Exn => "ref.null exn",
                Ty::I32 => "i32.const 0",
                Ty::I64 => "i64.const 0",
                Ty::F64 => "f64.const 0",
            });
        }
        self.line("return end");
        self.step();
        self.open.push(Some(FUNCTION));
        self.statements(&func.body);
        self.open.pop();
        for ty in TYPES {
            for at in 0..func.locals[ty as usize] {
                self.note(Local(ty, at), 0);
            }
        }
        self.get(&func.results);
        self.line(")");
    }

    /// Declares locals that count the iterations of loops.
    fn counters(&mut self, statements: &[Stmt]) {
        for statement in statements {
            match statement {
                Stmt::Loop { label, body, .. } => {
                    self.line(format!("(local $c{label} i32)"));
                    self.counters(body);
                }
                Stmt::If { then, other, .. } => {
                    self.counters(then);
                    self.counters(other);
                }
                Stmt::Block { body, .. } | Stmt::Over { body, .. } => self.counters(body),
                Stmt::Try(tried) => {
                    self.counters(&tried.body);
                    for clause in &tried.clauses {
                        if let Then::Do(body) = &clause.then {
                            self.counters(body);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn step(&mut self) {
        self.line("global.get $steps i32.const 1 i32.sub global.set $steps");
    }

    fn get(&mut self, locals: &[Local]) {
        for local in locals {
            self.line(format!("local.get {}", variable(*local)));
        }
    }

    /// Pops the last operands into locals, in reverse order.
    fn set(&mut self, locals: &[Local]) {
        for local in locals.iter().rev() {
            self.line(format!("local.set {}", variable(*local)));
        }
    }

    /// Pushes a number that depends on a local's value.
    fn word(&mut self, local: Local) {
        self.get(&[local]);
        match local.0 {
            Ty::I32 => self.line("i64.extend_i32_s"),
            Ty::I64 => {}
            Ty::F64 => self.line("i64.reinterpret_f64"),
            Ty::V128 => {
                self.line("i64x2.extract_lane 0");
                self.get(&[local]);
                self.line("i64x2.extract_lane 1 i64.xor");
            }
            Ty::Exn => self.line("ref.is_null i32.eqz i64.extend_i32_u"),
        }
    }

    fn note(&mut self, from: Local, k: i32) {
        self.line("global.get $noted i64.const 31 i64.mul");
        self.word(from);
        self.line(format!("i64.const {k} i64.add i64.add global.set $noted"));
    }

    fn mix(&mut self, to: Local, from: Local, k: i32) {
        self.get(&[to]);
        match to.0 {
            Ty::I32 => {
                self.line("i32.const 31 i32.mul");
                self.word(from);
                self.line(format!("i32.wrap_i64 i32.add i32.const {k} i32.add"));
            }
            Ty::I64 => {
                self.line("i64.const 31 i64.mul");
                self.word(from);
                self.line(format!("i64.add i64.const {k} i64.add"));
            }
            Ty::F64 => {
                self.line("f64.const 0.5 f64.mul");
                self.word(from);
                self.line("i32.wrap_i64 f64.convert_i32_s f64.add");
                self.line(format!("f64.const {k} f64.add"));
            }
            Ty::V128 => {
                self.word(from);
                self.line("i64x2.splat v128.xor");
                self.line(format!("v128.const i64x2 {k} {k} i64x2.add"));
                self.set(&[to]);
                self.get(&[to, to]);
                self.line("i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7");
            }
            Ty::Exn => unreachable!("no reference is computed"),
        }
        self.set(&[to]);
    }

    fn depth(&self, label: usize) -> usize {
        let mut open = self.open.iter().rev();
        open.position(|open| *open == Some(label))
            .expect("it is in a block with that label")
    }

    fn tag(&mut self, tag: usize) -> String {
        self.tags_named += 1;
        let has_two = self.home == Home::Second && self.program.tags[tag].home == Home::First;
        let other = if has_two && self.tags_named.is_multiple_of(2) {
            "b"
        } else {
            ""
        };
        format!("$t{tag}{other}")
    }

    fn inside(&mut self, label: Option<usize>, statements: &[Stmt]) {
        self.open.push(label);
        self.statements(statements);
        self.open.pop();
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Mix { to, from, k } => self.mix(*to, *from, *k),
            Stmt::Copy { to, from } => {
                self.get(&[*from]);
                self.set(&[*to]);
            }
            Stmt::Note { from, k } => self.note(*from, *k),
            Stmt::Keep { at: 0, from } => {
                self.get(&[*from]);
                self.line("global.set $kept");
            }
            Stmt::Keep { at, from } => {
                self.line(format!("i32.const {at}"));
                self.get(&[*from]);
                self.line("table.set $refs");
            }
            Stmt::Take { at, to } => {
                self.line(match at {
                    0 => "global.get $kept".to_owned(),
                    at => format!("i32.const {at} table.get $refs"),
                });
                self.set(&[*to]);
            }
            Stmt::If { bit, then, other } => {
                self.word(bit.0);
                let shift = bit.1;
                self.line(format!(
                    "i64.const {shift} i64.shr_s i32.wrap_i64 i32.const 1 i32.and"
                ));
                self.line("if");
                self.inside(None, then);
                if !other.is_empty() {
                    self.line("else");
                    self.inside(None, other);
                }
                self.line("end");
            }
            Stmt::Block { label, body } => {
                self.line("block");
                self.inside(Some(*label), body);
                self.line("end");
            }
            Stmt::Loop { label, times, body } => {
                self.line(format!("i32.const {times} local.set $c{label} block loop"));
                self.line(format!(
                    "local.get $c{label} i32.eqz global.get $steps i32.eqz"
                ));
                self.line("i32.or br_if 1");
                self.line(format!(
                    "local.get $c{label} i32.const 1 i32.sub local.set $c{label}"
                ));
                self.step();
                self.open.push(None);
                self.inside(Some(*label), body);
                self.open.pop();
                self.line("br 0 end end");
            }
            Stmt::Over { from, to, body } => {
                self.get(&[*from]);
                self.statements(body);
                self.set(&[*to]);
            }
            Stmt::Call {
                func,
                by_table,
                args,
                to,
            } => {
                self.get(args);
                self.call("call", *func, *by_table);
                self.set(to);
            }
            Stmt::TailCall {
                func,
                by_table,
                args,
            } => {
                self.get(args);
                self.call("return_call", *func, *by_table);
            }
            Stmt::Branch(label) => {
                let depth = self.depth(*label);
                self.line(format!("br {depth}"));
            }
            Stmt::Ask { from, to } => {
                self.get(&[*from]);
                self.line("call $ask");
                self.set(&[*to]);
            }
            Stmt::Waste => self.line("call $waste"),
            Stmt::Trap => self.line("unreachable"),
            Stmt::Return => {
                self.get(&self.results.clone());
                self.line("return");
            }
            Stmt::Throw { tag, args } => {
                self.get(args);
                let tag = self.tag(*tag);
                self.line(format!("throw {tag}"));
            }
            Stmt::ThrowRef(local) => {
                self.get(&[*local]);
                self.line("ref.is_null i32.eqz if");
                self.get(&[*local]);
                self.line("throw_ref end");
            }
            Stmt::Rethrow(label) => {
                let depth = self.depth(*label);
                self.line(format!("rethrow {depth}"));
            }
            Stmt::Try(tried) if tried.is_legacy => self.legacy_try(tried),
            Stmt::Try(tried) => self.try_table(tried),
        }
    }

    fn call(&mut self, call: &str, func: usize, by_table: bool) {
        if by_table {
            let ty = signature(&self.program.funcs[func]);
            self.line(format!("i32.const {func} {call}_indirect $funcs {ty}"));
        } else {
            self.line(format!("{call} $f{func}"));
        }
    }

    fn results(tried: &Try) -> String {
        let result = tried.result.map(|(from, _)| from);
        format!("(result {})", types(result.as_slice()))
    }

    fn params(tried: &Try) -> String {
        let param = tried.param.map(|(from, _)| from);
        format!("(param {})", types(param.as_slice()))
    }

    /// A `try` of either form with its parameter, its body and its result.
    fn body(&mut self, enter: &str, tried: &Try) {
        let from = tried.param.map(|(from, _)| from);
        self.get(from.as_slice());
        self.line(enter);
        let to = tried.param.map(|(_, to)| to);
        self.set(to.as_slice());
        self.inside(Some(tried.label), &tried.body);
        self.leave_result(tried);
    }

    fn leave_result(&mut self, tried: &Try) {
        let from = tried.result.map(|(from, _)| from);
        self.get(from.as_slice());
    }

    fn take_result(&mut self, tried: &Try) {
        let to = tried.result.map(|(_, to)| to);
        self.set(to.as_slice());
    }

    fn legacy_try(&mut self, tried: &Try) {
        let enter = format!("try {} {}", Self::params(tried), Self::results(tried));
        self.body(&enter, tried);
        for clause in &tried.clauses {
            let catch = match clause.tag {
                Some(tag) => format!("catch {}", self.tag(tag)),
                None => "catch_all".to_owned(),
            };
            self.line(catch);
            self.set(&clause.to);
            if let Then::Do(body) = &clause.then {
                self.inside(Some(tried.label), body);
            }
            self.leave_result(tried);
        }
        match tried.delegate {
            Some(label) => {
                let depth = self.depth(label);
                self.line(format!("delegate {depth}"));
            }
            None => self.line("end"),
        }
        self.take_result(tried);
    }

    /// ```text
    /// block              target of everything that continues after the statement
    ///   block            target of the last clause
    ///     block          target of the first clause
    ///       try_table
    ///     end
    ///   end
    /// end
    /// ```
    fn try_table(&mut self, tried: &Try) {
        self.line(format!("block {}", Self::results(tried)));
        let out = self.open.len();
        self.open.push(None);
        let of_clauses: Vec<_> = { tried.clauses.iter() }
            .filter(|clause| matches!(clause.then, Then::Do(_)))
            .collect();
        for clause in of_clauses.iter().rev() {
            let reference = clause.reference.map(|_| "(ref exn)").unwrap_or_default();
            let to = types(&clause.to);
            self.line(format!("block (result {to} {reference})"));
            self.open.push(None);
        }
        let mut enter = format!("try_table {} {}", Self::params(tried), Self::results(tried));
        let mut place = 0;
        for clause in &tried.clauses {
            let depth = match clause.then {
                Then::Branch(label) => self.depth(label),
                Then::Do(_) => {
                    place += 1;
                    place - 1
                }
            };
            enter += &self.catch(clause, depth);
        }
        self.body(&enter, tried);
        self.line("end");
        for clause in of_clauses {
            self.line(format!("br {}", self.open.len() - 1 - out));
            self.line("end");
            self.open.pop();
            self.set(clause.reference.as_slice());
            self.set(&clause.to);
            if let Then::Do(body) = &clause.then {
                self.statements(body);
            }
            self.leave_result(tried);
        }
        self.line("end");
        self.open.pop();
        self.take_result(tried);
    }

    fn catch(&mut self, clause: &Clause, depth: usize) -> String {
        let reference = if clause.reference.is_some() {
            "_ref"
        } else {
            ""
        };
        match clause.tag {
            Some(tag) => format!("(catch{reference} {} {depth})", self.tag(tag)),
            None => format!("(catch_all{reference} {depth})"),
        }
    }
}
