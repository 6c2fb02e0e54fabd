//! [`Known`]: imports of other toolchains that an operator of WebAssembly computes exactly.
//!
//! TeaVM compiles Java to WebAssembly, but calls the host for functions of `java.lang.Math`, even
//! for functions that are one operator. Java and WebAssembly define these functions by IEEE 754,
//! with equal results for all operands, infinities and signed zeros. Both standards leave the bits
//! of NaN open.

use cranelift_codegen::ir::{InstBuilder, Value};
use pirn_format::types::{FuncType, ValType};

/// The module from which TeaVM 0.10 imports functions of `java.lang.Math`.
const TEAVM_MATH: &str = "teavmMath";

/// An import that is replaced by an operator. All such imports have the type `(f64) -> f64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// `Math.sqrt`: `f64.sqrt`.
    Sqrt,
    /// `Math.floor`: `f64.floor`.
    Floor,
    /// `Math.ceil`: `f64.ceil`.
    Ceil,
}

impl Known {
    const ALL: [Self; 3] = [Self::Sqrt, Self::Floor, Self::Ceil];

    /// The known function of this name and type. An import of the same name and another type is an
    /// ordinary import, because the compiler does not own the module's name.
    pub(crate) fn find(module: &str, name: &str, ty: &FuncType) -> Option<Self> {
        if module != TEAVM_MATH || ty.params != [ValType::F64] || ty.results != [ValType::F64] {
            return None;
        }
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Module and name, as in messages and symbols.
    pub(crate) fn full_name(self) -> String {
        format!("{TEAVM_MATH}.{}", self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sqrt => "sqrt",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
        }
    }

    /// Emits the operator.
    pub(crate) fn emit<'f>(self, ins: impl InstBuilder<'f>, operand: Value) -> Value {
        match self {
            Self::Sqrt => ins.sqrt(operand),
            Self::Floor => ins.floor(operand),
            Self::Ceil => ins.ceil(operand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_known_by_module_name_and_type() {
        let ty = |params: &[ValType], results: &[ValType]| FuncType {
            params: params.to_vec(),
            results: results.to_vec(),
        };
        let f64_to_f64 = ty(&[ValType::F64], &[ValType::F64]);
        let find = |module: &str, name: &str| Known::find(module, name, &f64_to_f64);
        assert_eq!(find("teavmMath", "sqrt"), Some(Known::Sqrt));
        assert_eq!(find("teavmMath", "floor"), Some(Known::Floor));
        assert_eq!(find("teavmMath", "ceil"), Some(Known::Ceil));
        for name in ["sin", "pow", "rint", "round", "Sqrt", "sqrt ", ""] {
            assert_eq!(find("teavmMath", name), None, "{name}");
        }
        for module in ["teavm", "teavmmath", "hw", ""] {
            assert_eq!(find(module, "sqrt"), None, "{module}");
        }
        for other in [
            ty(&[ValType::F32], &[ValType::F32]),
            ty(&[ValType::F64], &[ValType::F32]),
            ty(&[ValType::F64, ValType::F64], &[ValType::F64]),
            ty(&[ValType::F64], &[]),
            ty(&[], &[ValType::F64]),
        ] {
            assert_eq!(Known::find("teavmMath", "sqrt", &other), None, "{other}");
        }
    }
}
