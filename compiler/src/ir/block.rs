//! The data flow of one block: its instructions and values, each with a number, and the register
//! pressure.

use crate::ir::values;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::{Function, Inst, Opcode, Value};
use pirn_format::cpu::Arch;

/// Registers available to values: integers, then floating-point numbers and vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers(pub(crate) [usize; CLASSES]);

pub(crate) const CLASSES: usize = 2;

impl Registers {
    /// The registers that Cranelift allocates to values.
    pub(crate) fn of(arch: Arch) -> Self {
        Self(match arch {
            // All registers except rsp and rbp.
            Arch::X86_64 => [14, 16],
            // All registers except x16 and x17, which Cranelift uses for moves, and x18, fp, lr and
            // sp.
            Arch::Aarch64 => [26, 32],
        })
    }

    /// The smaller of both numbers.
    pub(crate) fn fewest(self) -> usize {
        self.0[0].min(self.0[1])
    }
}

/// Whether an instruction may be placed anywhere between its operands and its users.
pub(crate) fn is_free(opcode: Opcode) -> bool {
    !(opcode.is_terminator()
        || opcode.is_branch()
        || opcode.is_call()
        || opcode.can_trap()
        || opcode.can_load()
        || opcode.can_store()
        || opcode.other_side_effects())
}

/// Whether lowering rematerialises this value at each use.
pub(crate) fn is_constant(func: &Function, value: Value) -> bool {
    let made_by = values::opcode(&func.dfg, value);
    matches!(
        made_by,
        Some(Opcode::Iconst | Opcode::F32const | Opcode::F64const)
    )
}

/// A value that a block defines or uses.
pub(crate) struct Local {
    pub(crate) value: Value,
    /// The class of register that the value needs.
    pub(crate) class: usize,
    pub(crate) definition: Option<u32>,
    /// Sorted.
    pub(crate) users: Vec<u32>,
    /// Whether another block uses or defines the value, which then counts as live at the end of
    /// this block.
    pub(crate) stays: bool,
}

/// An instruction of a block.
#[derive(Default)]
pub(crate) struct Node {
    /// The used values, without duplicates and constants.
    pub(crate) uses: Vec<u32>,
    pub(crate) defines: Vec<u32>,
    /// Instructions that must precede this instruction.
    pub(crate) before: Vec<u32>,
}

/// A block: its instructions and their values, each known by its number.
pub(crate) struct List {
    pub(crate) nodes: Vec<Node>,
    pub(crate) values: Vec<Local>,
}

/// Numbers of the values of the block examined last. The number of any other value is arbitrary.
pub(crate) type Numbers = SecondaryMap<Value, u32>;

impl List {
    pub(crate) fn new(
        func: &Function,
        insts: &[Inst],
        shared: &EntitySet<Value>,
        map: &mut Numbers,
    ) -> Self {
        let mut list = Self {
            nodes: Vec::with_capacity(insts.len()),
            values: vec![],
        };
        let mut last_effect = None;
        for (at, inst) in (0..).zip(insts) {
            let mut node = Node::default();
            for value in func.dfg.inst_values(*inst) {
                let value = func.dfg.resolve_aliases(value);
                let number = list.number(func, value, shared, map);
                let local = &mut list.values[number as usize];
                // This instruction uses the value a second time.
                if local.users.last() == Some(&at) {
                    continue;
                }
                local.users.push(at);
                node.before.extend(local.definition);
                if !is_constant(func, value) {
                    node.uses.push(number);
                }
            }
            let opcode = func.dfg.insts[*inst].opcode();
            for value in func.dfg.inst_results(*inst) {
                let number = list.number(func, *value, shared, map);
                list.values[number as usize].definition = Some(at);
                if !is_constant(func, *value) {
                    node.defines.push(number);
                }
            }
            if !is_free(opcode) {
                node.before.extend(last_effect.replace(at));
            }
            list.nodes.push(node);
        }
        list
    }

    fn number(
        &mut self,
        func: &Function,
        value: Value,
        shared: &EntitySet<Value>,
        map: &mut Numbers,
    ) -> u32 {
        if let Some(known) = self.find(value, map) {
            return known;
        }
        let ty = func.dfg.value_type(value);
        self.values.push(Local {
            value,
            class: usize::from(ty.is_float() || ty.is_vector()),
            definition: None,
            users: vec![],
            stays: shared.contains(value) && !is_constant(func, value),
        });
        map[value] = self.values.len() as u32 - 1;
        map[value]
    }

    /// The number of a value, if the block defines or uses it.
    pub(crate) fn find(&self, value: Value, map: &Numbers) -> Option<u32> {
        let local = self.values.get(map[value] as usize);
        local
            .filter(|local| local.value == value)
            .map(|_| map[value])
    }

    /// Whether the register pressure exceeds the registers at any instruction.
    pub(crate) fn exceeds(&self, registers: Registers) -> bool {
        self.excesses(registers).any(|excess| excess > 0)
    }

    /// The number of live values without a register at each instruction, from last to first.
    pub(crate) fn excesses(&self, registers: Registers) -> impl Iterator<Item = usize> {
        let class = |value: u32| self.values[value as usize].class;
        let mut live: Vec<_> = self.values.iter().map(|local| local.stays).collect();
        let mut count = [0; CLASSES];
        for local in self.values.iter().filter(|local| local.stays) {
            count[local.class] += 1;
        }
        self.nodes.iter().rev().map(move |node| {
            for value in &node.defines {
                let was = std::mem::replace(&mut live[*value as usize], false);
                count[class(*value)] -= usize::from(was);
            }
            for value in &node.uses {
                let was = std::mem::replace(&mut live[*value as usize], true);
                count[class(*value)] += usize::from(!was);
            }
            let of = |class: usize| count[class].saturating_sub(registers.0[class]);
            (0..CLASSES).map(of).sum()
        })
    }
}
