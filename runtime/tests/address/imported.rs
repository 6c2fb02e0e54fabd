//! Addresses in an imported memory, whose base address the code may have to load before each
//! access.

use super::shapes::{CONSTANTS, SHAPES, ends};
use super::{LEVELS, common, function, image, is_rewritten, region};
use crate::common::campaign::sampled;
use crate::common::values::Lend as _;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Group, Linker, MemberId, TrapCode, Value};

/// A guest that imports its memory, and the owner of the memory.
struct Pair {
    group: Group<()>,
    owner: MemberId,
    user: MemberId,
}

/// The outcome of a call: its result or trap, and the memory.
type Left = (Result<Vec<Value>, TrapCode>, Vec<u8>);

impl Pair {
    fn new(functions: &str, level: OptLevel) -> Self {
        let mut group = Group::new(&region(), ());
        let linker = Linker::new();
        let owner = common::wat(r#"(module (memory (export "memory") 1 1))"#);
        let owner = group.instantiate(&owner, &linker).expect("it starts");
        group.name("owner", owner);
        let mut options = Options::default();
        options.opt_level = level;
        let user = format!(r#"(module (import "owner" "memory" (memory 1)) {functions})"#);
        let user = group
            .instantiate(&common::wat_with(&user, &options), &linker)
            .expect("it links");
        Self { group, owner, user }
    }

    fn call(&mut self, name: &str, params: [u32; 3], image: &[u8]) -> Left {
        let mut lent = self.group.lend(self.owner);
        let mut memory = lent.memory_mut();
        memory.write(0, image).expect("it is inside");
        let params = params.map(|param| Value::I32(param.cast_signed()));
        let result = match self.group.lend(self.user).call_values(name, &params) {
            Ok(results) => Ok(results),
            Err(CallError::Trap(trap)) => Err(trap.code()),
            Err(other) => panic!("{name} {params:x?}: {other}"),
        };
        let lent = self.group.at(self.owner);
        let memory = lent.memory();
        (result, memory.as_slice().to_vec())
    }
}

/// Rewritten addresses in an imported memory give the results of unoptimised code.
#[test]
fn addresses_in_an_imported_memory_equal_unoptimised_ones() {
    if !is_rewritten() {
        return;
    }
    let image = image();
    for (number, (shape, code)) in SHAPES.iter().enumerate() {
        // By default each shape has a third of the constants, and one level with the optimiser.
        let constants: Vec<_> = sampled(CONSTANTS, 3, number).collect();
        let functions = constants
            .iter()
            .map(|constant| function(&constant.to_string(), &code(i64::from(*constant))));
        let functions: String = functions.collect();
        let [plain, rest @ ..] = LEVELS;
        let mut plain = Pair::new(&functions, plain);
        for level in sampled(rest, 2, number) {
            let mut pair = Pair::new(&functions, level);
            for constant in &constants {
                for p in ends(*constant) {
                    let (name, params) = (constant.to_string(), [p, p & 1, 0]);
                    let [found, expected] =
                        [&mut pair, &mut plain].map(|pair| pair.call(&name, params, &image));
                    let at = || format!("{shape}, {constant:#x} from {p:#x} at {level:?}");
                    assert_eq!(found.0, expected.0, "{}", at());
                    assert!(found.1 == expected.1, "memories differ: {}", at());
                }
            }
        }
    }
}
