//! Architectures and the instruction-set extensions that a compiled module may need.

mod detect;

pub use detect::detect;

use core::fmt;

/// An instruction-set architecture that modules are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// AMD64, little-endian, System V psABI.
    X86_64,
    /// AArch64, little-endian, AAPCS64.
    Aarch64,
}

impl Arch {
    /// All architectures, in the order of their numbers in the header.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The architecture with this command-line name; `None` if there is no such architecture.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }

    /// Number of the architecture in the header.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::X86_64 => 1,
            Self::Aarch64 => 2,
        }
    }

    /// The architecture with this number in a header; `None` if there is no such architecture.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.number() == number)
    }

    /// All features that a module for this architecture can ask for.
    ///
    /// A feature's position in this list is its bit in [`CpuFeatures`]. Therefore the list only
    /// grows.
    #[must_use]
    pub const fn features(self) -> &'static [Feature] {
        match self {
            Self::X86_64 => X86_64,
            Self::Aarch64 => AARCH64,
        }
    }

    /// The named CPU levels that `--cpu` accepts, each with the names of its features.
    #[must_use]
    pub const fn levels(self) -> &'static [Level] {
        match self {
            Self::X86_64 => X86_64_LEVELS,
            Self::Aarch64 => AARCH64_LEVELS,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One instruction-set extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// Name in Rust's `target_feature`.
    pub name: &'static str,
    /// Cranelift's boolean setting for the feature; `None` if Cranelift has none. Cranelift never
    /// emits such a feature's instructions by itself; only guests that call an intrinsic use them.
    pub setting: Option<&'static str>,
}

/// A named set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Name on the command line.
    pub name: &'static str,
    /// Names of the features in the level.
    pub features: &'static [&'static str],
}

const fn feature(name: &'static str, setting: &'static str) -> Feature {
    Feature {
        name,
        setting: Some(setting),
    }
}

/// A feature for which Cranelift has no setting.
const fn by_name(name: &'static str) -> Feature {
    Feature {
        name,
        setting: None,
    }
}

const X86_64: &[Feature] = &[
    feature("sse3", "has_sse3"),
    feature("ssse3", "has_ssse3"),
    feature("cmpxchg16b", "has_cmpxchg16b"),
    feature("sse4.1", "has_sse41"),
    feature("sse4.2", "has_sse42"),
    feature("popcnt", "has_popcnt"),
    feature("avx", "has_avx"),
    feature("avx2", "has_avx2"),
    feature("fma", "has_fma"),
    feature("bmi1", "has_bmi1"),
    feature("bmi2", "has_bmi2"),
    feature("lzcnt", "has_lzcnt"),
    feature("avx512f", "has_avx512f"),
    feature("avx512dq", "has_avx512dq"),
    feature("avx512vl", "has_avx512vl"),
    feature("avx512bitalg", "has_avx512bitalg"),
    feature("avx512vbmi", "has_avx512vbmi"),
    by_name("aes"),
    by_name("pclmulqdq"),
    by_name("sha"),
    by_name("gfni"),
];

/// The levels of the x86-64 psABI (section 3.1.1). Level 1 is absent: code for `v128` needs SSSE3
/// and SSE4.1. Every x86-64 server since 2009 has level 2.
const X86_64_LEVELS: &[Level] = &[
    Level {
        name: "baseline",
        features: X86_64_V2,
    },
    Level {
        name: "x86-64-v2",
        features: X86_64_V2,
    },
    Level {
        name: "x86-64-v3",
        features: X86_64_V3,
    },
    Level {
        name: "x86-64-v4",
        features: X86_64_V4,
    },
];
const X86_64_V2: &[&str] = &["sse3", "ssse3", "cmpxchg16b", "sse4.1", "sse4.2", "popcnt"];
const X86_64_V3: &[&str] = &[
    "sse3",
    "ssse3",
    "cmpxchg16b",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "avx",
    "avx2",
    "fma",
    "bmi1",
    "bmi2",
    "lzcnt",
];
const X86_64_V4: &[&str] = &[
    "sse3",
    "ssse3",
    "cmpxchg16b",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "avx",
    "avx2",
    "fma",
    "bmi1",
    "bmi2",
    "lzcnt",
    "avx512f",
    "avx512dq",
    "avx512vl",
];

const AARCH64: &[Feature] = &[
    feature("lse", "has_lse"),
    feature("fp16", "has_fp16"),
    feature("dotprod", "has_dotprod"),
    feature("i8mm", "has_i8mm"),
    by_name("aes"),
    by_name("sha2"),
    by_name("crc"),
];

/// The versions of the Arm architecture that make a feature mandatory which Cranelift uses (Arm
/// ARM, A2.2 and later). The baseline is Armv8.0-A, which includes floating point and NEON.
const AARCH64_LEVELS: &[Level] = &[
    Level {
        name: "baseline",
        features: &[],
    },
    Level {
        name: "lse",
        features: &["lse"],
    },
    Level {
        name: "armv8.1-a",
        features: &["lse"],
    },
    Level {
        name: "armv8.4-a",
        features: &["lse", "dotprod"],
    },
    Level {
        name: "armv8.6-a",
        features: &["lse", "dotprod", "i8mm"],
    },
];

/// A set of features of one architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuFeatures {
    arch: Arch,
    bits: u64,
}

impl CpuFeatures {
    /// The empty set.
    #[must_use]
    pub const fn none(arch: Arch) -> Self {
        Self { arch, bits: 0 }
    }

    /// The set with these bits; `None` if a bit stands for no feature.
    #[must_use]
    pub fn from_bits(arch: Arch, bits: u64) -> Option<Self> {
        (bits >> arch.features().len() == 0).then_some(Self { arch, bits })
    }

    /// The bits, as the header stores them.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// The architecture that has these features.
    #[must_use]
    pub const fn arch(self) -> Arch {
        self.arch
    }

    /// The features of a level; `None` if the architecture has no level with this name.
    #[must_use]
    pub fn level(arch: Arch, name: &str) -> Option<Self> {
        let level = arch.levels().iter().find(|level| level.name == name)?;
        level
            .features
            .iter()
            .try_fold(Self::none(arch), |set, feature| set.with(feature))
    }

    /// The set with one more feature; `None` if the architecture has no feature with this name.
    #[must_use]
    pub fn with(self, name: &str) -> Option<Self> {
        let bit = self
            .arch
            .features()
            .iter()
            .position(|feature| feature.name == name)?;
        Some(Self {
            bits: self.bits | 1 << bit,
            ..self
        })
    }

    /// The set without a feature; `None` if the architecture has no feature with this name.
    #[must_use]
    pub fn without(self, name: &str) -> Option<Self> {
        let bit = self
            .arch
            .features()
            .iter()
            .position(|feature| feature.name == name)?;
        Some(Self {
            bits: self.bits & !(1 << bit),
            ..self
        })
    }

    /// Whether the set contains the feature with this name.
    #[must_use]
    pub fn has(self, name: &str) -> bool {
        self.iter().any(|feature| feature.name == name)
    }

    /// The features in the set.
    pub fn iter(self) -> impl Iterator<Item = &'static Feature> {
        let in_set = move |(bit, _): &(usize, &Feature)| self.bits >> bit & 1 == 1;
        self.arch
            .features()
            .iter()
            .enumerate()
            .filter(in_set)
            .map(|(_, feature)| feature)
    }

    /// The features that are in this set and not in `machine`.
    #[must_use]
    pub fn missing_from(self, machine: Self) -> Self {
        Self {
            bits: self.bits & !machine.bits,
            ..self
        }
    }

    /// The argument of `--cpu` that gives this set.
    ///
    /// The argument is the largest level that the set contains, followed by the additional
    /// features. For a machine that lacks features of the baseline, the argument is the baseline
    /// with those features removed.
    #[must_use]
    pub fn name(self) -> String {
        let set = |level: &Level| Self::level(self.arch, level.name).unwrap_or(self);
        let levels = self.arch.levels().iter();
        let contained = levels.filter(|level| set(level).missing_from(self).is_empty());
        // `rev` before `max_by_key`: of several levels with equal feature counts, the first one
        // wins.
        let largest = contained.rev().max_by_key(|level| level.features.len());
        let (mut name, level) = match largest.or(self.arch.levels().first()) {
            Some(level) => (level.name.to_owned(), set(level)),
            None => (String::new(), Self::none(self.arch)),
        };
        let mut list = |sign: char, features: Self| {
            for feature in features.iter() {
                name.extend([",", sign.encode_utf8(&mut [0; 4]), feature.name]);
            }
        };
        list('-', level.missing_from(self));
        list('+', self.missing_from(level));
        name
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }
}

impl fmt::Display for CpuFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, feature) in self.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, feature.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_names_features_that_exist() {
        for arch in Arch::ALL {
            assert_eq!(Arch::from_number(arch.number()), Some(arch));
            assert_eq!(Arch::from_name(arch.name()), Some(arch));
            for level in arch.levels() {
                let set = CpuFeatures::level(arch, level.name).unwrap();
                assert_eq!(set.iter().count(), level.features.len(), "{}", level.name);
                assert_eq!(CpuFeatures::from_bits(arch, set.bits()), Some(set));
            }
            assert!(CpuFeatures::level(arch, "baseline").is_some());
            assert_eq!(CpuFeatures::level(arch, "v9"), None);
            assert_eq!(CpuFeatures::from_bits(arch, 1 << 63), None);
        }
    }

    #[test]
    fn this_machine_has_its_own_baseline() {
        let machine = detect();
        let baseline = CpuFeatures::level(machine.arch(), "baseline").unwrap();
        assert!(baseline.missing_from(machine).is_empty(), "{machine}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let v3 = CpuFeatures::level(Arch::X86_64, "x86-64-v3").unwrap();
        let v2 = CpuFeatures::level(Arch::X86_64, "x86-64-v2").unwrap();
        assert_eq!(
            v3.missing_from(v2).to_string(),
            "avx, avx2, fma, bmi1, bmi2, lzcnt"
        );
        assert!(v2.missing_from(v3).is_empty());
        assert_eq!(v2.with("avx").unwrap().without("avx"), Some(v2));
        assert!(v3.has("avx") && !v2.has("avx") && !v3.has("avx9"));
        assert_eq!(v2.with("avx9"), None);
    }

    #[test]
    fn a_set_is_named_as_it_is_asked_for() {
        let set = |arch, level, feature: &str| {
            let set = CpuFeatures::level(arch, level).unwrap();
            set.with(feature).unwrap().name()
        };
        assert_eq!(set(Arch::X86_64, "x86-64-v2", "popcnt"), "baseline");
        assert_eq!(
            set(Arch::X86_64, "x86-64-v3", "avx512f"),
            "x86-64-v3,+avx512f"
        );
        assert_eq!(set(Arch::Aarch64, "armv8.1-a", "lse"), "lse");
        assert_eq!(set(Arch::Aarch64, "armv8.4-a", "fp16"), "armv8.4-a,+fp16");
        let baseline = CpuFeatures::level(Arch::X86_64, "baseline").unwrap();
        let less = baseline.without("popcnt").and_then(|set| set.with("avx"));
        assert_eq!(less.unwrap().name(), "baseline,-popcnt,+avx");
        for arch in Arch::ALL {
            for level in arch.levels() {
                let name = CpuFeatures::level(arch, level.name).unwrap().name();
                let named = CpuFeatures::level(arch, &name);
                assert_eq!(named, CpuFeatures::level(arch, level.name), "{name}");
            }
        }
    }
}
