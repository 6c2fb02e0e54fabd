//! The order of the passes over the IR of one function: this page shows every pass.
//!
//! ```text
//! translated IR ─▶ before_cranelift ─┬▶ version 1: Cranelift's optimiser ─┐
//!                                    ├▶ version 2: schedule, spill ───────┤ after_cranelift,
//!                                    └▶ version 3: no optimiser ──────────┘ then machine code
//!                                                           one version is kept (alternatives)
//! ```
//!
//! Most functions have one version only. The per-function driver (`codegen/function.rs`) calls
//! [`Pipeline::run`] and generates the machine code of each version.
//!
//! Every pass keeps
//!
//! * valid IR: in builds with self-checks Cranelift's verifier checks the IR before Cranelift's
//!   optimiser, and the IR that the last pass of an optimised compilation leaves. The verifier does
//!   not check the final IR of functions with patch points;
//! * traps, calls, stores to the guest's memory, and their order;
//! * the source location of each instruction that may trap: a trap reports the location;
//! * the base and the bounds of each access to a memory: a pass may rewrite an address only within
//!   its bounds (`before_cranelift/address.rs`);
//! * determinism and linear time: the output depends on the function alone, and each search is
//!   capped by a constant.
//!
//! To add a pass, write one file in the folder of its stage, and call it here at its place.

pub(crate) mod before_cranelift;
pub(crate) mod after_cranelift;
pub(crate) mod alternatives;

use crate::budget::work;
use crate::code::CompiledFunction;
use crate::error::CompileError;
use crate::intrinsics::patch_point;
use crate::intrinsics::placeholder::{self, Placeholders};
use crate::ir::block::Registers;
use crate::ir::liveness::shared_values;
use crate::passes::{Pass, Passes};
use after_cranelift::hoist::hoist;
use after_cranelift::loads::{self, ValueUses};
use after_cranelift::loop_end::compare_next;
use after_cranelift::two_address;
use after_cranelift::widen::widen;
use alternatives::schedule::{excess, schedule};
use alternatives::spill::spill;
use alternatives::{
    SCHEDULED_FRAME_BYTES, SCHEDULED_PERCENT, SMALLER_PERCENT, TRIED_FRAME_BYTES, has_alternatives,
    has_frame, instructions, is_crowded, is_smaller, may_be_smaller, smaller,
};
use before_cranelift::address;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::settings::OptLevel;
use pirn_format::cpu::Arch;

/// The code generator in two configurations.
#[derive(Clone, Copy)]
pub(crate) struct Isas<'a> {
    /// With the optimiser, if the options ask for it.
    pub(crate) asked: &'a dyn TargetIsa,
    /// Without the optimiser: for functions that are optimised already or too deep to optimise, for
    /// alternatives, and for functions with patch points and more than [`VECTORS_MAX`] vector
    /// constants.
    pub(crate) plain: &'a dyn TargetIsa,
}

/// The part of the per-function driver that the pipeline calls.
pub(crate) trait Backend {
    /// Verifies IR in builds with self-checks.
    fn verify(&self, func: &Function, isa: &dyn TargetIsa) -> Result<(), CompileError>;

    /// Generates machine code from the IR that the passes left. `None` if the function must be
    /// translated again without placeholder opcodes and pairs of calls.
    fn machine_code(
        &self,
        context: &mut Context,
        isa: &dyn TargetIsa,
    ) -> Result<Option<CompiledFunction>, CompileError>;

    /// The error for a fault of the code generator.
    fn fault(&self, message: String) -> CompileError;
}

/// The passes for one function.
pub(crate) struct Pipeline<'a> {
    pub(crate) arch: Arch,
    /// The passes that run.
    pub(crate) passes: Passes,
    pub(crate) isas: Isas<'a>,
    /// The intrinsics that placeholder opcodes of the function stand for.
    pub(crate) placeholders: &'a Placeholders,
    pub(crate) backend: &'a dyn Backend,
}

/// Maximum number of vector constants for which a function with patch points is optimised. The
/// optimiser hoists constants out of loops, where they occupy registers and are spilled. SHA-256
/// has seventeen; optimised, it took 1.3 times as long.
const VECTORS_MAX: usize = 8;

impl Pipeline<'_> {
    /// Compiles the translated function in the context. `None` if the function must be translated
    /// again without placeholder opcodes and pairs of calls.
    pub(crate) fn run(
        &self,
        context: &mut Context,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        // In deep functions the optimiser would take too long.
        let is_deep = work::is_deep(context);
        let isa = match is_deep {
            true => self.isas.plain,
            false => self.isas.asked,
        };
        if !placeholder::are_apart(&context.func, self.placeholders) {
            return Ok(None);
        }
        self.before_cranelift(context, isa);
        self.backend.verify(&context.func, isa)?;
        if patch_point::has_patch_points(&context.func) {
            // Patch points get the convention that preserves all registers.
            // Assumes: the verifier has run. It refuses functions with results in that convention.
            // Keeps: all instructions and operands.
            patch_point::preserve_all(&mut context.func);
            let isa = match is_deep || context.func.dfg.constants.len() > VECTORS_MAX {
                true => self.isas.plain,
                false => self.isas.asked,
            };
            return self.version(context, isa);
        }
        match optimises(isa) && has_alternatives(&context.func) {
            true => self.alternatives(context),
            false => self.version(context, isa),
        }
    }

    /// The passes before Cranelift's optimiser.
    fn before_cranelift(&self, context: &mut Context, isa: &dyn TargetIsa) {
        if optimises(isa) && self.is_x86_64() && self.passes.has(Pass::FoldAddresses) {
            // Constants added to an index become displacements.
            // Assumes: IR as translated, where every access is base + index + offset; dominators.
            // Keeps: that form, the base, and the end of the access within its reservation.
            context.flowgraph();
            address::fold(&mut context.func, &context.domtree);
        }
    }

    /// Compiles up to three versions of a function with a long block. A later version replaces the
    /// optimised one only if it is smaller by a stated percentage. Cheap estimates exclude most
    /// versions that cannot be small enough.
    fn alternatives(
        &self,
        context: &mut Context,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let translated = context.func.clone();
        let optimised = self.version(context, self.isas.asked)?;
        if !has_frame(&optimised, TRIED_FRAME_BYTES) {
            return Ok(optimised);
        }
        let left = instructions(&context.func);
        if has_frame(&optimised, SCHEDULED_FRAME_BYTES) && self.passes.has(Pass::Schedule) {
            let scheduled = self.scheduled(context, &translated)?;
            if is_smaller(&optimised, &scheduled, SCHEDULED_PERCENT) {
                return Ok(scheduled);
            }
        }
        if !may_be_smaller(self.arch, instructions(&translated), left, &optimised) {
            return Ok(optimised);
        }
        context.clear();
        context.func = translated;
        let plain = self.version(context, self.isas.plain)?;
        Ok(smaller(optimised, plain, SMALLER_PERCENT))
    }

    /// The version with long blocks in an order for registers. `None` if estimates say that this
    /// version cannot be small enough.
    fn scheduled(
        &self,
        context: &mut Context,
        translated: &Function,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        let registers = Registers::of(self.arch);
        let excess = excess(translated, registers);
        if !is_crowded(excess, instructions(translated)) {
            return Ok(None);
        }
        context.clear();
        context.func.clone_from(translated);
        // Long blocks get an order for low register pressure.
        // Assumes: Cranelift's optimiser does not run after this pass; it would undo the order.
        // Keeps: the order of instructions that have an effect or may trap.
        if !schedule(&mut context.func, registers) {
            return Ok(None);
        }
        if self.is_x86_64() && self.passes.has(Pass::Spill) {
            // Values are stored to the frame and loaded again where the pressure is too high.
            // Assumes: the final order of instructions.
            // Keeps: that order; new accesses are only to a stack slot of this pass.
            spill(&mut context.func, registers);
        }
        self.version(context, self.isas.plain)
    }

    /// One version of the function: Cranelift's optimiser, if these settings enable it, the passes
    /// after it, and machine code.
    fn version(
        &self,
        context: &mut Context,
        isa: &dyn TargetIsa,
    ) -> Result<Option<CompiledFunction>, CompileError> {
        if optimises(isa) || self.rewrites() {
            // With `plain` the optimiser only removes unreachable blocks and constant block
            // parameters.
            let optimised = context.optimize(isa, &mut ControlPlane::default());
            optimised.map_err(|error| self.backend.fault(error.to_string()))?;
        }
        self.after_cranelift(context, isa);
        // The verifier does not support the calling convention of patch points.
        if optimises(self.isas.asked) && !patch_point::has_patch_points(&context.func) {
            self.backend.verify(&context.func, isa)?;
        }
        // The optimiser must not run again: it would undo the passes after it.
        let isa = if optimises(isa) { self.isas.plain } else { isa };
        self.backend.machine_code(context, isa)
    }

    /// The passes after Cranelift's optimiser, which ran if these settings enable it.
    fn after_cranelift(&self, context: &mut Context, isa: &dyn TargetIsa) {
        let func = &mut context.func;
        // Only Cranelift's optimiser computes the loops.
        if optimises(isa) && self.passes.has(Pass::Hoist) {
            // Operators with a constant, which the optimiser repeats in each block, move in front
            // of innermost loops.
            // Assumes: loops and predecessors; the optimiser does not run again.
            // Keeps: all operators; moved operators have no effect and cannot trap.
            hoist(func, &context.cfg, &context.loop_analysis);
        }
        if optimises(self.isas.asked) && self.passes.has(Pass::CompareNext) {
            // Loops that end if a counter equals a number compare its next value.
            // Assumes: the optimiser does not run again.
            // Keeps: all values but the compare's operands.
            compare_next(func);
        }
        if !self.is_x86_64() {
            return;
        }
        let widens = self.rewrites() && self.passes.has(Pass::Widen);
        if widens && !patch_point::has_patch_points(func) {
            // Values that are extended by zeros become 64 bits wide where that costs nothing.
            // Assumes: dominators; the optimiser does not run again; no patch points, because the
            // two calls of a pair must stay adjacent.
            // Keeps: the value of each address and operator.
            widen(func, &context.domtree);
        }
        // Valid for all passes below: none of them moves a use to another block.
        let shared = self.rewrites().then(|| shared_values(func));
        let shared_if = |pass| shared.as_ref().filter(|_| self.passes.has(pass));
        if let Some(shared) = shared_if(Pass::TwoAddress) {
            // An instruction overwrites an operand that is not used again. MOVZX and LEA replace
            // costlier instructions.
            // Assumes: the optimiser does not run again.
            // Keeps: the result of each operator, and the order of instructions.
            two_address::rewrite(func, shared);
        }
        // For both passes below: the first one changes source locations only.
        let uses = ValueUses::of(func);
        // An instruction that may get a memory operand gets the source location of its load, which
        // a trap reports. Lowering merges loads at every optimisation level.
        // Assumes: operands are in their final order.
        // Keeps: the locations of placeholder opcodes, and of all instructions that may trap.
        loads::locate(func, &uses, self.placeholders);
        if let Some(shared) = shared_if(Pass::FoldLoads) {
            // Users move to their loads, which become memory operands.
            // Assumes: traps are located at the loads.
            // Keeps: the order of instructions that have an effect or may trap.
            loads::fold(func, &uses, shared);
        }
    }

    fn is_x86_64(&self) -> bool {
        self.arch == Arch::X86_64
    }

    /// Whether the passes of `after_cranelift` rewrite instructions. The passes do so in each
    /// version of an optimised compilation, also in a version without Cranelift's optimiser.
    fn rewrites(&self) -> bool {
        self.is_x86_64() && optimises(self.isas.asked)
    }
}

/// Whether these settings enable the optimiser.
fn optimises(isa: &dyn TargetIsa) -> bool {
    isa.flags().opt_level() != OptLevel::None
}
