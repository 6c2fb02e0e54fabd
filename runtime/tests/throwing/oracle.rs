//! [`Oracle`]: an interpreter of programs by the specification (3.0, 4.4.9 and 4.4.10). Legacy
//! operators follow the phase 3 proposal.

use crate::throwing::program::{
    Clause, FUNCTION, Func, KEPT, Local, Program, Stmt, TYPES, Then, Try, Ty,
};
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(crate) enum Val {
    I32(i32),
    I64(i64),
    F64(f64),
    V128(u128),
    Exn(Option<Rc<Thrown>>),
}

/// An exception.
#[derive(Debug)]
pub(crate) struct Thrown {
    pub(crate) tag: usize,
    pub(crate) values: Vec<Val>,
}

impl Val {
    fn zero(ty: Ty) -> Self {
        match ty {
            Ty::I32 => Self::I32(0),
            Ty::I64 => Self::I64(0),
            Ty::F64 => Self::F64(0.0),
            Ty::V128 => Self::V128(0),
            Ty::Exn => Self::Exn(None),
        }
    }

    /// A number that depends on the value.
    fn word(&self) -> i64 {
        match self {
            Self::I32(value) => i64::from(*value),
            Self::I64(value) => *value,
            Self::F64(value) => value.to_bits() as i64,
            Self::V128(value) => (*value ^ *value >> 64) as i64,
            Self::Exn(value) => i64::from(value.is_some()),
        }
    }
}

/// The reason why a call does not return.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Thrown(Rc<Thrown>),
    Trap,
}

/// How a statement ends.
enum Flow {
    Next,
    Branch(usize),
    Return,
    TailCall(usize, Vec<Val>),
    Throw(Rc<Thrown>),
    /// The exception continues as if it were thrown inside the block with this label.
    Delegate(usize, Rc<Thrown>),
    Trap,
}

/// The state of a call in progress.
struct Frame<'a> {
    func: &'a Func,
    locals: [Vec<Val>; 5],
    /// Exceptions that the enclosing legacy clauses have caught, with the clauses' labels.
    caught: Vec<(usize, Rc<Thrown>)>,
}

impl Frame<'_> {
    fn get(&self, local: Local) -> Val {
        self.locals[local.0 as usize][local.1].clone()
    }

    fn all(&self, locals: &[Local]) -> Vec<Val> {
        locals.iter().map(|local| self.get(*local)).collect()
    }

    fn set(&mut self, local: Local, value: Val) {
        self.locals[local.0 as usize][local.1] = value;
    }

    /// Sets the locals in reverse: if a local occurs twice, it gets the first value.
    fn set_all(&mut self, locals: &[Local], values: Vec<Val>) {
        for (local, value) in locals.iter().zip(values).rev() {
            self.set(*local, value);
        }
    }

    fn is_set(&self, (local, shift): (Local, u32)) -> bool {
        self.get(local).word() >> shift & 1 == 1
    }
}

/// A program and its global state.
pub(crate) struct Oracle<'a> {
    program: &'a Program,
    /// A hash of all recorded values.
    pub(crate) noted: i64,
    steps: u32,
    kept: [Option<Rc<Thrown>>; KEPT],
    /// Number of times that a clause caught an exception.
    pub(crate) catches: u64,
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        Self {
            program,
            noted: 0,
            steps: 0,
            kept: [const { None }; KEPT],
            catches: 0,
        }
    }

    /// Calls the first function with a number of steps.
    pub(crate) fn run(&mut self, steps: u32, args: Vec<Val>) -> Result<Vec<Val>, End> {
        self.steps = steps;
        self.call(0, args)
    }

    fn call(&mut self, func: usize, args: Vec<Val>) -> Result<Vec<Val>, End> {
        let func = &self.program.funcs[func];
        if self.steps == 0 {
            let zeros = func.results.iter().map(|local| Val::zero(local.0));
            return Ok(zeros.collect());
        }
        self.steps -= 1;
        let mut frame = Frame {
            func,
            locals: TYPES.map(|ty| vec![Val::zero(ty); func.locals[ty as usize]]),
            caught: vec![],
        };
        frame.set_all(&func.params, args);
        match self.block(&mut frame, &func.body) {
            Flow::Next => {
                for local in frame.locals.iter().flatten() {
                    self.note(local.word());
                }
            }
            Flow::Branch(label) => assert_eq!(label, FUNCTION),
            Flow::Return => {}
            Flow::TailCall(func, args) => return self.call(func, args),
            Flow::Throw(thrown) => return Err(End::Thrown(thrown)),
            Flow::Trap => return Err(End::Trap),
            Flow::Delegate(label, thrown) => {
                assert_eq!(label, FUNCTION);
                return Err(End::Thrown(thrown));
            }
        }
        Ok(frame.all(&frame.func.results))
    }

    fn note(&mut self, word: i64) {
        self.noted = self.noted.wrapping_mul(31).wrapping_add(word);
    }

    fn block(&mut self, frame: &mut Frame<'a>, statements: &[Stmt]) -> Flow {
        for statement in statements {
            match self.statement(frame, statement) {
                Flow::Next => {}
                other => return other,
            }
        }
        Flow::Next
    }

    /// Runs a block with a label. A branch to the label continues at its end.
    fn labelled(&mut self, frame: &mut Frame<'a>, label: usize, body: &[Stmt]) -> Flow {
        match self.block(frame, body) {
            Flow::Branch(to) if to == label => Flow::Next,
            Flow::Delegate(to, thrown) if to == label => Flow::Throw(thrown),
            other => other,
        }
    }

    fn statement(&mut self, frame: &mut Frame<'a>, statement: &Stmt) -> Flow {
        match statement {
            Stmt::Mix { to, from, k } => {
                let mixed = mixed(&frame.get(*to), frame.get(*from).word(), *k);
                frame.set(*to, mixed);
            }
            Stmt::Copy { to, from } => frame.set(*to, frame.get(*from)),
            Stmt::Note { from, k } => {
                self.note(frame.get(*from).word().wrapping_add(i64::from(*k)));
            }
            Stmt::Keep { at, from } => {
                if let Val::Exn(reference) = frame.get(*from) {
                    self.kept[*at] = reference;
                }
            }
            Stmt::Take { at, to } => frame.set(*to, Val::Exn(self.kept[*at].clone())),
            Stmt::If { bit, then, other } => {
                let body = if frame.is_set(*bit) { then } else { other };
                return self.block(frame, body);
            }
            Stmt::Block { label, body } => return self.labelled(frame, *label, body),
            Stmt::Loop { label, times, body } => {
                for _ in 0..*times {
                    if self.steps == 0 {
                        break;
                    }
                    self.steps -= 1;
                    match self.labelled(frame, *label, body) {
                        Flow::Next => {}
                        other => return other,
                    }
                }
            }
            Stmt::Over { from, to, body } => {
                let value = frame.get(*from);
                match self.block(frame, body) {
                    Flow::Next => frame.set(*to, value),
                    other => return other,
                }
            }
            Stmt::Call { func, args, to, .. } => match self.call(*func, frame.all(args)) {
                Ok(results) => frame.set_all(to, results),
                Err(End::Thrown(thrown)) => return Flow::Throw(thrown),
                Err(End::Trap) => return Flow::Trap,
            },
            Stmt::TailCall { func, args, .. } => return Flow::TailCall(*func, frame.all(args)),
            Stmt::Branch(label) => return Flow::Branch(*label),
            Stmt::Return => return Flow::Return,
            Stmt::Ask { from, to } => {
                frame.set(*to, Val::I64(answer(frame.get(*from).word())));
            }
            Stmt::Trap => return Flow::Trap,
            Stmt::Waste => {}
            Stmt::Throw { tag, args } => {
                let (tag, values) = (*tag, frame.all(args));
                return Flow::Throw(Rc::new(Thrown { tag, values }));
            }
            Stmt::ThrowRef(local) => {
                if let Val::Exn(Some(thrown)) = frame.get(*local) {
                    return Flow::Throw(thrown);
                }
            }
            Stmt::Rethrow(label) => {
                let mut caught = frame.caught.iter().rev();
                let caught = caught.find(|(clause, _)| clause == label);
                let (_, thrown) = caught.expect("it is in that clause");
                return Flow::Throw(Rc::clone(thrown));
            }
            Stmt::Try(tried) => return self.tried(frame, tried),
        }
        Flow::Next
    }

    fn tried(&mut self, frame: &mut Frame<'a>, tried: &Try) -> Flow {
        if let Some((from, to)) = tried.param {
            frame.set(to, frame.get(from));
        }
        let mut flow = self.labelled(frame, tried.label, &tried.body);
        if let Flow::Throw(thrown) = &flow {
            let catches = |clause: &&Clause| clause.tag.is_none_or(|tag| tag == thrown.tag);
            match (tried.delegate, tried.clauses.iter().find(catches)) {
                (Some(label), _) => flow = Flow::Delegate(label, Rc::clone(thrown)),
                (None, Some(clause)) => {
                    flow = self.clause(frame, tried, clause, &Rc::clone(thrown));
                }
                (None, None) => {}
            }
        }
        if let (Flow::Next, Some((from, to))) = (&flow, tried.result) {
            frame.set(to, frame.get(from));
        }
        flow
    }

    fn clause(
        &mut self,
        frame: &mut Frame<'a>,
        tried: &Try,
        clause: &Clause,
        thrown: &Rc<Thrown>,
    ) -> Flow {
        self.catches += 1;
        if let Some(local) = clause.reference {
            frame.set(local, Val::Exn(Some(Rc::clone(thrown))));
        }
        if clause.tag.is_some() {
            frame.set_all(&clause.to, thrown.values.clone());
        }
        match &clause.then {
            Then::Branch(label) => Flow::Branch(*label),
            Then::Do(body) if tried.is_legacy => {
                frame.caught.push((tried.label, Rc::clone(thrown)));
                let flow = self.labelled(frame, tried.label, body);
                frame.caught.pop();
                flow
            }
            Then::Do(body) => self.block(frame, body),
        }
    }
}

/// The result of the host function.
pub(crate) fn answer(word: i64) -> i64 {
    word.wrapping_mul(5).rotate_left(3)
}

/// The result of [`Stmt::Mix`].
fn mixed(to: &Val, word: i64, k: i32) -> Val {
    match to {
        Val::I32(to) => Val::I32(
            to.wrapping_mul(31)
                .wrapping_add(word as i32)
                .wrapping_add(k),
        ),
        Val::I64(to) => {
            let sum = to.wrapping_mul(31).wrapping_add(word);
            Val::I64(sum.wrapping_add(i64::from(k)))
        }
        Val::F64(to) => Val::F64(to * 0.5 + f64::from(word as i32) + f64::from(k)),
        Val::V128(to) => {
            let lane = |shift: u32| {
                let sum = ((*to >> shift) as i64 ^ word).wrapping_add(i64::from(k));
                u128::from(sum as u64) << shift
            };
            // Swaps the halves, so that both affect later results.
            Val::V128((lane(0) | lane(64)).rotate_left(64))
        }
        Val::Exn(_) => unreachable!("no reference is computed"),
    }
}
