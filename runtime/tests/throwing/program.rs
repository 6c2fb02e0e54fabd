//! [`Program`]: functions as trees of statements that throw and catch exceptions, and the generator
//! of random programs.
//!
//! Every program ends: each function entry and each loop iteration takes one step from a global
//! counter. When no steps are left, functions return zeros and loops end.

use crate::common::random::Random;

/// The label of the block that is a function's body.
pub(crate) const FUNCTION: usize = 0;

/// Number of places that keep references between calls: place 0 is a global, the others are
/// elements of a table.
pub(crate) const KEPT: usize = 4;

/// Number of exceptions that [`Stmt::Waste`] catches: more than the count at which the runtime
/// searches for unused exceptions to free.
pub(crate) const WASTED: u32 = 1_100;

/// The deepest nesting of blocks.
const DEPTH_MAX: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ty {
    I32,
    I64,
    F64,
    V128,
    Exn,
}

pub(crate) const TYPES: [Ty; 5] = [Ty::I32, Ty::I64, Ty::F64, Ty::V128, Ty::Exn];

/// A local variable: its type, and its index among the locals of that type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Local(pub(crate) Ty, pub(crate) usize);

/// The exception operators that a program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `try_table`.
    Table,
    /// `try`.
    Legacy,
    Both,
}

/// The module that defines a tag or function. The second module imports from the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    First,
    Second,
}

#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) types: Vec<Ty>,
    /// The module that defines the tag. The second module also uses the first module's tags.
    pub(crate) home: Home,
}

#[derive(Debug)]
pub(crate) struct Func {
    pub(crate) home: Home,
    /// The first locals of the function.
    pub(crate) params: Vec<Local>,
    /// The locals whose values it returns.
    pub(crate) results: Vec<Local>,
    /// Number of locals of each type.
    pub(crate) locals: [usize; 5],
    pub(crate) body: Vec<Stmt>,
}

#[derive(Debug)]
pub(crate) enum Stmt {
    /// Computes one number from two others.
    Mix {
        to: Local,
        from: Local,
        k: i32,
    },
    Copy {
        to: Local,
        from: Local,
    },
    /// Records a value in the log of the run.
    Note {
        from: Local,
        k: i32,
    },
    /// Stores a reference in one of the [`KEPT`] places.
    Keep {
        at: usize,
        from: Local,
    },
    Take {
        at: usize,
        to: Local,
    },
    If {
        bit: (Local, u32),
        then: Vec<Stmt>,
        other: Vec<Stmt>,
    },
    Block {
        label: usize,
        body: Vec<Stmt>,
    },
    Loop {
        label: usize,
        times: u32,
        body: Vec<Stmt>,
    },
    /// Keeps a value on the operand stack while the body runs.
    Over {
        from: Local,
        to: Local,
        body: Vec<Stmt>,
    },
    Call {
        func: usize,
        by_table: bool,
        args: Vec<Local>,
        to: Vec<Local>,
    },
    TailCall {
        func: usize,
        by_table: bool,
        args: Vec<Local>,
    },
    Branch(usize),
    Return,
    Throw {
        tag: usize,
        args: Vec<Local>,
    },
    /// Catches [`WASTED`] exceptions by reference and drops the references.
    Waste,
    /// Calls a host function that computes a number.
    Ask {
        from: Local,
        to: Local,
    },
    Trap,
    /// Throws the exception that a local refers to, unless it is null.
    ThrowRef(Local),
    /// Rethrows the exception that the clause with this label has caught.
    Rethrow(usize),
    Try(Box<Try>),
}

#[derive(Debug)]
pub(crate) struct Try {
    pub(crate) label: usize,
    pub(crate) is_legacy: bool,
    /// A block parameter: the local that it is read from, and the local that receives it.
    pub(crate) param: Option<(Local, Local)>,
    /// A block result: the local that it is read from, and the local that receives it.
    pub(crate) result: Option<(Local, Local)>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) clauses: Vec<Clause>,
    /// The label that a legacy `try` delegates to, in place of clauses.
    pub(crate) delegate: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Clause {
    /// The tag that the clause catches. `None` catches all exceptions.
    pub(crate) tag: Option<usize>,
    /// The locals that receive the exception's values.
    pub(crate) to: Vec<Local>,
    /// The local that receives the exception reference.
    pub(crate) reference: Option<Local>,
    pub(crate) then: Then,
}

#[derive(Debug)]
pub(crate) enum Then {
    Do(Vec<Stmt>),
    Branch(usize),
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) form: Form,
    pub(crate) has_second: bool,
    /// Functions may call each other in any order, not only those defined later.
    pub(crate) is_recursive: bool,
    pub(crate) tags: Vec<Tag>,
    pub(crate) funcs: Vec<Func>,
}

impl Program {
    pub(crate) fn random(random: &mut Random, form: Form) -> Self {
        let has_second = random.below(3) == 0;
        let home = |random: &mut Random| match has_second && random.below(2) == 0 {
            true => Home::Second,
            false => Home::First,
        };
        let kinds = match form {
            Form::Legacy => 4,
            Form::Table | Form::Both => 5,
        };
        let list = |random: &mut Random, most: u64| -> Vec<Ty> {
            // Sometimes use more values than there are registers.
            let most = if random.below(6) == 0 { 4 * most } else { most };
            let count = random.below(most + 1);
            (0..count)
                .map(|_| TYPES[random.below(kinds) as usize])
                .collect()
        };
        let mut tags: Vec<Tag> = vec![];
        for at in 0..3 + random.below(3) as usize {
            let types = match random.below(4) {
                // Another tag of a type that an earlier tag has.
                0 if at > 0 => tags[random.below(at as u64) as usize].types.clone(),
                1 => vec![],
                _ => list(random, 4),
            };
            // The first module also needs a tag, so tag 0 belongs to it.
            let home = if at == 0 { Home::First } else { home(random) };
            tags.push(Tag { types, home });
        }
        let outcomes: Vec<_> = (0..2).map(|_| list(random, 3)).collect();
        let mut funcs: Vec<_> = (0..3 + random.below(4))
            .map(|at| {
                let mut locals = [0; 5];
                let mut params = list(random, 5);
                if at == 0 {
                    params.retain(|ty| *ty != Ty::Exn);
                }
                let mut next = |ty: Ty| {
                    locals[ty as usize] += 1;
                    Local(ty, locals[ty as usize] - 1)
                };
                let params = params.into_iter().map(&mut next).collect();
                let pressure = 1 + random.below(5);
                for ty in &TYPES[..kinds as usize] {
                    for _ in 0..=random.below(pressure) {
                        next(*ty);
                    }
                }
                let types = &outcomes[random.below(2) as usize];
                let mut one =
                    |ty: &Ty| Local(*ty, random.below(locals[*ty as usize] as u64) as usize);
                let results = types.iter().map(&mut one).collect();
                Func {
                    home: home(random),
                    params,
                    results,
                    locals,
                    body: vec![],
                }
            })
            .collect();
        let is_recursive = random.below(4) == 0;
        let wastes = random.below(2) == 0;
        for at in 0..funcs.len() {
            let mut writer = Writer {
                random,
                form,
                is_recursive,
                wastes,
                tags: &tags,
                funcs: &funcs,
                at,
                depth: 0,
                scopes: vec![(FUNCTION, funcs[at].results.is_empty())],
                held: vec![],
                clauses: vec![],
                next: FUNCTION + 1,
                room: 50,
            };
            let mut body = writer.begin();
            for _ in 0..3 {
                body.extend(writer.statements());
            }
            funcs[at].body = body;
        }
        Self {
            form,
            has_second,
            is_recursive,
            tags,
            funcs,
        }
    }
}

/// Generates the body of one function.
struct Writer<'a> {
    random: &'a mut Random,
    form: Form,
    is_recursive: bool,
    wastes: bool,
    tags: &'a [Tag],
    funcs: &'a [Func],
    /// Index of the function.
    at: usize,
    /// Number of blocks of any kind around the current statement.
    depth: usize,
    /// Labels that `delegate` may name, and whether a branch may target them.
    scopes: Vec<(usize, bool)>,
    /// Locals with the references that the enclosing `try_table` clauses caught.
    held: Vec<Local>,
    /// Labels of the enclosing legacy clauses.
    clauses: Vec<usize>,
    /// The next unused label.
    next: usize,
    /// Number of statements that may still be generated.
    room: usize,
}

impl Writer<'_> {
    fn one_of<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let count = from.len() as u64;
        (count > 0).then(|| from[self.random.below(count) as usize])
    }

    fn local(&mut self, ty: Ty) -> Local {
        let count = self.funcs[self.at].locals[ty as usize];
        Local(ty, self.random.below(count as u64) as usize)
    }

    fn locals(&mut self, types: &[Ty]) -> Vec<Local> {
        types.iter().map(|ty| self.local(*ty)).collect()
    }

    /// A local that likely holds a reference.
    fn held(&mut self) -> Local {
        let held = self.held.clone();
        match self.one_of(&held) {
            Some(local) if self.random.below(4) > 0 => local,
            _ => self.local(Ty::Exn),
        }
    }

    /// A local of a random numeric type.
    fn number(&mut self) -> Local {
        let ty = TYPES[self.random.below(4) as usize];
        self.local(ty)
    }

    fn constant(&mut self) -> i32 {
        self.random.u64() as i32 >> self.random.below(32)
    }

    fn mix(&mut self) -> Stmt {
        let [to, from] = [self.number(), self.number()];
        let k = self.constant();
        Stmt::Mix { to, from, k }
    }

    /// Gives all locals different values.
    fn begin(&mut self) -> Vec<Stmt> {
        let mut body = vec![];
        for ty in &TYPES[..4] {
            for at in 0..self.funcs[self.at].locals[*ty as usize] {
                let (from, k) = (self.number(), self.constant());
                let to = Local(*ty, at);
                body.push(Stmt::Mix { to, from, k });
            }
        }
        body
    }

    fn label(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn bit(&mut self) -> (Local, u32) {
        (self.number(), self.random.below(6) as u32)
    }

    fn statements(&mut self) -> Vec<Stmt> {
        let mut statements = vec![];
        for _ in 0..=self.random.below(4) {
            if let Some(room) = self.room.checked_sub(1) {
                self.room = room;
                statements.push(self.statement());
            }
        }
        statements
    }

    /// Statements inside one more level of nesting.
    fn inside(&mut self) -> Vec<Stmt> {
        self.depth += 1;
        let statements = self.statements();
        self.depth -= 1;
        statements
    }

    /// Statements inside one more level of nesting, in a block with a label.
    fn labelled(&mut self, label: usize, is_target: bool) -> Vec<Stmt> {
        self.scopes.push((label, is_target));
        let statements = self.inside();
        self.scopes.pop();
        statements
    }

    fn statement(&mut self) -> Stmt {
        let kind = match self.depth < DEPTH_MAX {
            true => self.random.below(30),
            false => self.random.below(16),
        };
        match kind {
            0..=2 => self.mix(),
            3 => Stmt::Note {
                from: self.number(),
                k: self.constant(),
            },
            4 => Stmt::Ask {
                from: self.local(Ty::I64),
                to: self.local(Ty::I64),
            },
            5 => self.reference(),
            6..=9 => self.call().unwrap_or_else(|| self.mix()),
            // The first function mostly tries here, so that the program runs for a while.
            10..=14 if self.at == 0 && self.depth == 0 => self.tried(),
            10..=15 => self.leave(),
            16 | 17 => {
                let bit = self.bit();
                let then = self.inside();
                let other = match self.random.below(2) {
                    0 => vec![],
                    _ => self.inside(),
                };
                Stmt::If { bit, then, other }
            }
            18 => {
                let label = self.label();
                let body = self.labelled(label, true);
                Stmt::Block { label, body }
            }
            19 | 20 => {
                let (label, times) = (self.label(), 1 + self.random.below(5) as u32);
                let body = self.labelled(label, true);
                Stmt::Loop { label, times, body }
            }
            21 => {
                let from = self.number();
                Stmt::Over {
                    from,
                    to: self.local(from.0),
                    body: self.inside(),
                }
            }
            _ => self.tried(),
        }
    }

    /// A statement that uses a reference. Without references, another statement.
    fn reference(&mut self) -> Stmt {
        if self.wastes && self.random.below(2) == 0 {
            if self.form == Form::Legacy {
                return Stmt::Waste;
            }
            let from = self.held();
            return self.waste(from);
        }
        if self.form == Form::Legacy {
            return self.mix();
        }
        let [to, from] = [self.local(Ty::Exn), self.held()];
        let at = self.random.below(KEPT as u64) as usize;
        match self.random.below(5) {
            0 => Stmt::Copy { to, from },
            1 => Stmt::Keep { at, from },
            2 => Stmt::Take { at, to },
            _ => Stmt::Note {
                from,
                k: self.constant(),
            },
        }
    }

    /// Makes the runtime free exceptions, and then throws one that must survive: its reference is
    /// in a local, or in a kept place.
    fn waste(&mut self, from: Local) -> Stmt {
        let (label, bit) = (self.label(), self.bit());
        let at = self.random.below(KEPT as u64) as usize;
        let to = self.local(Ty::Exn);
        let thrown = if self.random.below(2) == 0 { from } else { to };
        let throws = match self.random.below(3) {
            0 => Stmt::ThrowRef(thrown),
            _ => Stmt::If {
                bit,
                then: vec![Stmt::ThrowRef(thrown)],
                other: vec![],
            },
        };
        let mut body = vec![Stmt::Waste, throws];
        if thrown == to {
            body.insert(0, Stmt::Keep { at, from });
            body.insert(2, Stmt::Take { at, to });
        }
        Stmt::Block { label, body }
    }

    /// A random function to call among those that fit.
    fn callee(&mut self, fits: impl Fn(&Func) -> bool) -> Option<(usize, bool)> {
        let least = if self.is_recursive { 0 } else { self.at + 1 };
        let fitting: Vec<_> = (least..self.funcs.len())
            .filter(|at| fits(&self.funcs[*at]))
            .collect();
        let func = self.one_of(&fitting)?;
        let by_table = self.random.below(4) == 0
            || (self.funcs[self.at].home == Home::First && self.funcs[func].home == Home::Second);
        Some((func, by_table))
    }

    fn call(&mut self) -> Option<Stmt> {
        let (func, by_table) = self.callee(|_| true)?;
        let callee = &self.funcs[func];
        let types = |locals: &[Local]| -> Vec<_> { locals.iter().map(|local| local.0).collect() };
        Some(Stmt::Call {
            func,
            by_table,
            args: self.locals(&types(&callee.params)),
            to: self.locals(&types(&callee.results)),
        })
    }

    fn tail_call(&mut self) -> Option<Stmt> {
        let own = &self.funcs[self.at].results;
        let (func, by_table) = self.callee(|func| {
            let pairs = func.results.iter().zip(own);
            func.results.len() == own.len() && { pairs }.all(|(one, other)| one.0 == other.0)
        })?;
        let params = &self.funcs[func].params;
        let args = params.iter().map(|param| self.local(param.0)).collect();
        Some(Stmt::TailCall {
            func,
            by_table,
            args,
        })
    }

    /// A random tag that the function's module can name.
    fn tag(&mut self) -> usize {
        let home = self.funcs[self.at].home;
        let known = |tag: &Tag| tag.home == Home::First || home == Home::Second;
        let known: Vec<_> = (0..self.tags.len())
            .filter(|at| known(&self.tags[*at]))
            .collect();
        known[self.random.below(known.len() as u64) as usize]
    }

    fn throw(&mut self) -> Stmt {
        let tag = self.tag();
        let args = self.locals(&self.tags[tag].types);
        Stmt::Throw { tag, args }
    }

    /// A random label of an enclosing block without results, for a branch.
    fn target(&mut self) -> Option<usize> {
        let targets = self.scopes.iter().filter(|(_, is_target)| *is_target);
        let targets: Vec<_> = targets.map(|(label, _)| *label).collect();
        self.one_of(&targets)
    }

    /// A statement that leaves the block, mostly under a condition.
    fn leave(&mut self) -> Stmt {
        let leaves = match self.random.below(13) {
            12 if self.random.below(4) == 0 => Some(Stmt::Trap),
            6..=11 if !self.held.is_empty() => Some(Stmt::ThrowRef(self.held())),
            0 | 1 => self.target().map(Stmt::Branch),
            2 => Some(Stmt::Return),
            3 => self.tail_call(),
            4 | 5 if self.form != Form::Legacy => Some(Stmt::ThrowRef(self.held())),
            4..=8 => {
                let clauses = self.clauses.clone();
                self.one_of(&clauses).map(Stmt::Rethrow)
            }
            _ => None,
        };
        let leaves = leaves.unwrap_or_else(|| self.throw());
        // Leave unconditionally less often where no block encloses the statement.
        if self.random.below(if self.depth == 0 { 30 } else { 7 }) == 0 {
            return leaves;
        }
        Stmt::If {
            bit: self.bit(),
            then: vec![leaves],
            other: vec![],
        }
    }

    fn tried(&mut self) -> Stmt {
        let is_legacy = match self.form {
            Form::Table => false,
            Form::Legacy => true,
            Form::Both => self.random.below(2) == 0,
        };
        let label = self.label();
        let mut pair = || {
            let from = self.number();
            let to = self.local(from.0);
            (self.random.below(3) == 0).then_some((from, to))
        };
        let (param, result) = (pair(), pair());
        let is_target = result.is_none();
        let mut body = self.labelled(label, is_target);
        if self.random.below(2) == 0 {
            body.splice(0..0, self.call());
        }
        let (mut clauses, mut delegate) = (vec![], None);
        if is_legacy && self.random.below(4) == 0 {
            let labels: Vec<_> = self.scopes.iter().map(|(label, _)| *label).collect();
            delegate = self.one_of(&labels);
        } else {
            for _ in 0..self.random.below(4) {
                let clause = match is_legacy {
                    true => self.legacy_clause(label, is_target),
                    false => self.clause(),
                };
                let is_last = is_legacy && clause.tag.is_none();
                clauses.push(clause);
                if is_last {
                    break;
                }
            }
        }
        Stmt::Try(Box::new(Try {
            label,
            is_legacy,
            param,
            result,
            body,
            clauses,
            delegate,
        }))
    }

    /// The tag that a clause catches, and the locals that receive its values.
    fn caught(&mut self) -> (Option<usize>, Vec<Local>) {
        let tag = (self.random.below(4) > 0).then(|| self.tag());
        let types = tag.map_or(&[][..], |tag| &self.tags[tag].types);
        (tag, self.locals(types))
    }

    fn legacy_clause(&mut self, label: usize, is_target: bool) -> Clause {
        let (tag, to) = self.caught();
        self.clauses.push(label);
        let mut body = self.labelled(label, is_target);
        if self.wastes && self.random.below(3) == 0 {
            body.insert(0, Stmt::Waste);
        }
        let then = Then::Do(body);
        self.clauses.pop();
        Clause {
            tag,
            to,
            reference: None,
            then,
        }
    }

    fn clause(&mut self) -> Clause {
        let (tag, to) = self.caught();
        let reference = (self.wastes || self.random.below(2) == 0).then(|| self.local(Ty::Exn));
        let branch = match to.is_empty() && reference.is_none() && self.random.below(2) == 0 {
            true => self.target(),
            false => None,
        };
        let then = match branch {
            Some(label) => Then::Branch(label),
            None => {
                self.held.extend(reference);
                let mut body = self.inside();
                if let Some(from) = reference {
                    self.held.pop();
                    if self.wastes {
                        body.insert(0, self.waste(from));
                    }
                    if self.random.below(3) == 0 {
                        body.push(Stmt::ThrowRef(from));
                    }
                }
                Then::Do(body)
            }
        };
        Clause {
            tag,
            to,
            reference,
            then,
        }
    }
}
