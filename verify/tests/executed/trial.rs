//! [`Trial`]: runs a function in two worlds, and compares what the guest can see.

use crate::context;
use crate::places::{Place, Places, RSP};
use crate::random::Random;
use crate::supervise::{End, Program, Run, Secret, Start, Violation, partly};
use crate::world::{MEMORY, World};
use pirn_format::traps::CodeEntry;
use pirn_format::types::ValType;
use pirn_verify::Property;

/// The worlds of one module.
pub(crate) struct Trial {
    pub(crate) worlds: [World; 3],
    memory: Vec<u8>,
}

/// The values that the guest gets from its caller, equal in all worlds.
#[derive(Clone)]
pub(crate) struct Input {
    params: Vec<[u64; 2]>,
    fuel: i64,
    /// Elements of tables that may be empty.
    elements: u64,
    /// Seed of everything else.
    seed: u64,
}

impl Trial {
    /// An address of the first world, or a number between the addresses of two worlds. A comparison
    /// of this number with the address then has two results.
    fn number(&self, random: &mut Random) -> u64 {
        let at = random.below(8) as usize;
        let address = |world: usize| self.worlds[world].addresses()[at];
        match random.below(3) {
            0 => address(0),
            1 => u64::midpoint(address(0), address(1)),
            _ => u64::midpoint(address(0), address(2)),
        }
    }

    /// Random input of a function.
    pub(crate) fn input(&self, random: &mut Random, params: usize) -> Input {
        let mut number = || match random.one_of(4) {
            false => random.number(),
            true => self.number(random),
        };
        let params = (0..params).map(|_| [number(), number()]).collect();
        Input {
            params,
            elements: random.pick(&[0, 3, 3]),
            fuel: (random.number() >> 1).cast_signed(),
            seed: random.next(),
        }
    }
}

/// The observations of one run.
struct Observed {
    end: End,
    visible: Vec<u64>,
    path: u64,
}

impl Trial {
    pub(crate) fn new(worlds: [World; 3]) -> Self {
        let mut random = Random(7);
        let bytes: u64 = MEMORY.iter().map(|(_, bytes)| bytes).sum();
        let mut trial = Self {
            memory: vec![],
            worlds,
        };
        // The guest may know an address by chance.
        let words = (0..bytes / 8).map(|at| match at % 8 {
            0 => trial.number(&mut random),
            _ => random.number(),
        });
        trial.memory = words.flat_map(u64::to_le_bytes).collect();
        trial
    }

    /// Runs a function in the first world and in another world. Returns the end of the run.
    pub(crate) fn run(
        &mut self,
        program: &Program<'_>,
        (entry, places): (CodeEntry, &Places),
        input: &Input,
        (other, steps): (usize, bool),
    ) -> Result<End, Violation> {
        let first = self.once(program, (entry, places), input, (0, steps))?;
        let second = self.once(program, (entry, places), input, (other, steps))?;
        if first.end == End::Unknown || second.end == End::Unknown {
            return Ok(End::Unknown);
        }
        let differs = |what: String| Violation {
            property: Property::Types,
            message: format!("a guest sees a difference: {what}"),
        };
        if first.end != second.end {
            let message = format!("{:x?} and {:x?}", first.end, second.end);
            return Err(differs(message));
        }
        if first.visible != second.visible {
            let mut pairs = first.visible.iter().zip(&second.visible);
            let pair = pairs.find(|(a, b)| a != b);
            return Err(differs(format!("{pair:x?}")));
        }
        let memories = self.worlds[0]
            .memory()
            .into_iter()
            .zip(self.worlds[other].memory());
        for ((a, b), (from, _)) in memories.zip(MEMORY) {
            if a != b {
                let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
                let word = |of: &[u8]| {
                    of[at & !7..]
                        .first_chunk()
                        .map(|word| u64::from_le_bytes(*word))
                };
                let what = format!(
                    "{:x?} and {:x?} at {:#x}",
                    word(a),
                    word(b),
                    from + at as u64
                );
                return Err(differs(what));
            }
        }
        if steps && first.path != second.path {
            // A virtual machine may lose the trap after an instruction, once in some million
            // instructions. So the two paths must differ twice.
            let again =
                [0, other].map(|world| self.once(program, (entry, places), input, (world, true)));
            let [first, second] = again;
            if first?.path != second?.path {
                return Err(differs("two paths".to_owned()));
            }
        }
        Ok(first.end)
    }

    /// Input with the same number for each parameter.
    pub(crate) fn equal_input(number: u64, params: usize) -> Input {
        Input {
            params: vec![[number; 2]; params],
            elements: 3 * (number & 1),
            fuel: 1,
            seed: number,
        }
    }

    fn once(
        &mut self,
        program: &Program<'_>,
        (entry, places): (CodeEntry, &Places),
        input: &Input,
        (number, steps): (usize, bool),
    ) -> Result<Observed, Violation> {
        let world = &mut self.worlds[number];
        world.resize_tables(program.checked, input.elements);
        world.reset(&self.memory, input.fuel);
        // The second world has the complement of all bits, so the difference of two secrets changes
        // its sign. The third world has other bits.
        let mut secret = Secret(Random(input.seed), number);
        let mut registers: [u64; 16] = std::array::from_fn(|_| secret.next());
        let mut vectors: [[u64; 2]; 16] = std::array::from_fn(|_| [secret.next(), secret.next()]);
        let bytes = (places.argument_bytes + places.area_bytes) as u64;
        let pointer =
            world.stack - 1024 - 16 * (secret.next() % 16) - bytes.next_multiple_of(16) - 8;
        for word in 0..160 + bytes / 8 {
            world.push(pointer - 1024 + 8 * word, secret.next());
        }
        world.push(pointer, world.caller);
        registers[RSP] = pointer;
        registers[places.context] = world.vmctx;
        if places.area_bytes > 0 {
            registers[crate::places::RDI] = pointer + 8 + places.argument_bytes as u64;
        }
        for ((place, ty), value) in places.params.iter().zip(&input.params) {
            let value = match ty {
                ValType::Ref(_) => [world.reference(*ty, value[0] % 7), 0],
                _ => *value,
            };
            match *place {
                Place::General(register) => registers[register] = value[0],
                Place::Vector(register) => {
                    let upper = [secret.next(), secret.next()];
                    vectors[register] = partly(value, upper, Some(*ty));
                }
                Place::Memory(at) => {
                    let at = pointer + 8 + at as u64;
                    let upper = [secret.next(), secret.next()];
                    let word = match ty {
                        ValType::F32 => partly(value, upper, Some(*ty)),
                        _ => value,
                    };
                    world.push(at, word[0]);
                    if *ty == ValType::V128 {
                        world.push(at + 8, word[1]);
                    }
                }
            }
        }
        let start = Start {
            entry,
            places,
            registers,
            vectors,
            flags: secret.next(),
            secret,
            answers: Random(input.seed ^ 0x5555),
            steps,
        };
        let mut run = Run::new(world, program, start);
        context::enter(&mut run);
        let end = run.end.take().unwrap_or(End::Unknown);
        let (mut visible, path) = (std::mem::take(&mut run.visible), run.path);
        if let End::Violated(violation) = end {
            return Err(violation);
        }
        let seen = world.visible(&program.checked.metadata, program.checked);
        visible.extend(seen.map_err(|message| Violation {
            property: Property::Accesses,
            message,
        })?);
        Ok(Observed { end, visible, path })
    }
}
