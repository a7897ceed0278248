//! SIMD with one source and several instruction sets, chosen at run time.
//!
//! A hot function is written once within `dispatch!`, generic over the instruction set `V: Simd`, and is
//! compiled for AVX-512, AVX2, NEON and the plain target. Functions that it calls are `#[inline(always)]`.
//! Bodies are ordinary safe Rust over slices and [`Lanes`], which the compiler vectorises with the enabled
//! features.
//!
//! Why not a library: pulp 0.22 would save 40 % of this file and its unsafe blocks, but fits support vector
//! machines 22 % more slowly (1500 rows of 10 columns; explanations within 3 %). Its AVX-512 feature also
//! enables AVX-512 in faer, which changes the last bits of fitted coefficients.

/// The number of doubles in a [`Lanes`]: one AVX-512 register, two of AVX2, four of NEON.
pub const LANES: usize = 8;

/// Eight doubles, aligned to a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(align(64))]
pub struct Lanes(pub [f64; LANES]);

/// Arithmetic on [`Lanes`] in the registers of one instruction set. Without it the compiler sometimes
/// vectorises across the eight lanes of several values, and spends more instructions on shuffles than on
/// arithmetic.
///
/// Only `dispatch!` names the types that implement this trait, inside functions that are compiled for the
/// instruction set and called only if it was detected. This makes their intrinsics sound.
pub trait Simd: Copy {
    /// Whether the machine multiplies and adds in one instruction.
    const FUSED: bool;
    /// The number of running sums of [`Lanes`] that hide the latency of an addition and fit into registers.
    const SUMS: usize = 4;
    /// `a + b`.
    fn add(a: Lanes, b: Lanes) -> Lanes;
    /// `a - b`.
    fn sub(a: Lanes, b: Lanes) -> Lanes;
    /// `a * b`.
    fn mul(a: Lanes, b: Lanes) -> Lanes;
    /// `a / b`.
    fn div(a: Lanes, b: Lanes) -> Lanes;
    /// `a * b + c`.
    fn fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes;
    /// The larger number; either one if one is NaN.
    fn max(a: Lanes, b: Lanes) -> Lanes;
    /// The smaller number; either one if one is NaN.
    fn min(a: Lanes, b: Lanes) -> Lanes;
    /// The absolute value.
    fn abs(a: Lanes) -> Lanes;
}

/// The target's baseline, without intrinsics.
#[derive(Clone, Copy)]
pub struct Plain;

/// Implements functions of two [`Lanes`] by functions of their parts, which `$map` applies to each part.
macro_rules! partwise {
    ($map:path: $($name:ident = $function:expr;)*) => {$(
        #[inline(always)]
        fn $name(a: Lanes, b: Lanes) -> Lanes {
            $map(a, b, $function)
        }
    )*};
}

impl Simd for Plain {
    const FUSED: bool = false;

    partwise! {
        Lanes::map2:
        add = |a, b| a + b;
        sub = |a, b| a - b;
        mul = |a, b| a * b;
        div = |a, b| a / b;
        max = |a, b| if a > b { a } else { b };
        min = |a, b| if a < b { a } else { b };
    }

    #[inline(always)]
    fn fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        Self::add(Self::mul(a, b), c)
    }

    #[inline(always)]
    fn abs(a: Lanes) -> Lanes {
        a.map2(a, |a, _| a.abs())
    }
}

/// Implements [`Simd`] with registers of type `$register`; a [`Lanes`] takes `COUNT` of them.
macro_rules! registers {
    (
        $name:ident, $register:ty, $sums:literal,
        $add:path, $sub:path, $mul:path, $div:path, $fma:expr, $max:path, $min:path, $abs:expr
    ) => {
        /// The registers of one instruction set.
        #[derive(Clone, Copy)]
        pub struct $name;

        impl $name {
            const COUNT: usize = size_of::<Lanes>() / size_of::<$register>();

            #[inline(always)]
            fn split(a: Lanes) -> [$register; Self::COUNT] {
                // SAFETY: both types hold the same eight doubles.
                unsafe { std::mem::transmute(a) }
            }

            #[inline(always)]
            fn join(a: [$register; Self::COUNT]) -> Lanes {
                // SAFETY: both types hold the same eight doubles.
                unsafe { std::mem::transmute(a) }
            }

            #[inline(always)]
            fn pairs(a: Lanes, b: Lanes, f: impl Fn($register, $register) -> $register) -> Lanes {
                let (a, b) = (Self::split(a), Self::split(b));
                Self::join(std::array::from_fn(|i| f(a[i], b[i])))
            }
        }

        // SAFETY of the intrinsics: see `Simd`.
        impl Simd for $name {
            const FUSED: bool = true;
            const SUMS: usize = $sums;

            partwise! {
                Self::pairs:
                add = |a, b| unsafe { $add(a, b) };
                sub = |a, b| unsafe { $sub(a, b) };
                mul = |a, b| unsafe { $mul(a, b) };
                div = |a, b| unsafe { $div(a, b) };
                max = |a, b| unsafe { $max(a, b) };
                min = |a, b| unsafe { $min(a, b) };
            }

            #[inline(always)]
            fn fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes {
                let (a, b, c) = (Self::split(a), Self::split(b), Self::split(c));
                Self::join(std::array::from_fn(|i| unsafe { $fma(a[i], b[i], c[i]) }))
            }

            #[inline(always)]
            fn abs(a: Lanes) -> Lanes {
                Self::pairs(a, a, |a, _| unsafe { $abs(a) })
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lanes, Simd};
    use std::arch::x86_64::*;

    registers!(
        Avx512,
        __m512d,
        8,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd,
        _mm512_div_pd,
        _mm512_fmadd_pd,
        _mm512_max_pd,
        _mm512_min_pd,
        _mm512_abs_pd
    );
    registers!(
        Avx2,
        __m256d,
        4,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd,
        _mm256_div_pd,
        _mm256_fmadd_pd,
        _mm256_max_pd,
        _mm256_min_pd,
        |a| _mm256_andnot_pd(_mm256_set1_pd(-0.0), a)
    );
}
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Lanes, Simd};
    use std::arch::aarch64::*;

    registers!(
        Neon,
        float64x2_t,
        4,
        vaddq_f64,
        vsubq_f64,
        vmulq_f64,
        vdivq_f64,
        |a, b, c| vfmaq_f64(c, a, b),
        vmaxq_f64,
        vminq_f64,
        vabsq_f64
    );
}
#[cfg(target_arch = "aarch64")]
pub use arm::Neon;

impl Lanes {
    /// Eight zeros.
    pub const ZERO: Self = Self([0.0; LANES]);
    /// The number 1 in every lane.
    pub const UNIT: Self = Self([1.0; LANES]);

    /// Copies a number to all lanes.
    #[inline(always)]
    pub fn splat(v: f64) -> Self {
        Self([v; LANES])
    }

    /// The eight numbers from `start` on.
    #[inline(always)]
    pub fn load(values: &[f64], start: usize) -> Self {
        let mut out = Self::ZERO;
        out.0.copy_from_slice(&values[start..start + LANES]);
        out
    }

    /// Applies a function to each pair of lanes.
    #[inline(always)]
    pub fn map2(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut out = [0.0; LANES];
        for l in 0..LANES {
            out[l] = f(self.0[l], other.0[l]);
        }
        Self(out)
    }

    /// The largest lane; NaN lanes may be ignored or returned.
    #[inline(always)]
    pub fn largest(self) -> f64 {
        self.fold(|a, b| if a > b { a } else { b })
    }

    /// The smallest lane; NaN lanes may be ignored or returned.
    #[inline(always)]
    pub fn smallest(self) -> f64 {
        self.fold(|a, b| if a < b { a } else { b })
    }

    /// The sum in a fixed order.
    #[inline(always)]
    pub fn sum(self) -> f64 {
        self.fold(|a, b| a + b)
    }

    /// The lanes, joined pairwise by `f` in a fixed order.
    #[inline(always)]
    fn fold(self, f: impl Fn(f64, f64) -> f64) -> f64 {
        let v = self.0;
        f(f(f(v[0], v[4]), f(v[2], v[6])), f(f(v[1], v[5]), f(v[3], v[7])))
    }
}

/// Computes `a * b + c`, with one rounding if the machine has fused multiply-add.
#[inline(always)]
pub fn fma<V: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if V::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// An instruction set of this machine. Values of this type exist only for sets that were detected, which
/// makes the calls in `dispatch!` sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(InstructionSet);

/// An instruction set that a machine may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// The baseline of the target.
    Plain,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 (F, DQ and VL), AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Isa {
    /// The instruction sets of this machine, from plain code to the widest registers.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut sets = vec![Self(InstructionSet::Plain)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Self(InstructionSet::Avx2));
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("fma")
            {
                sets.push(Self(InstructionSet::Avx512));
            }
        }
        #[cfg(target_arch = "aarch64")]
        sets.push(Self(InstructionSet::Neon));
        sets
    }

    /// The widest instruction set of this machine.
    pub fn detect() -> Self {
        static WIDEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *WIDEST.get_or_init(|| Self::available().pop().unwrap_or(Self(InstructionSet::Plain)))
    }

    /// The instruction set, for `dispatch!`.
    #[inline]
    pub fn instruction_set(self) -> InstructionSet {
        self.0
    }

    /// Name of the instruction set.
    pub fn name(self) -> &'static str {
        match self.0 {
            InstructionSet::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => "AVX-512",
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => "NEON",
        }
    }
}

/// Defines `fn name(isa, args…)` from each `fn name<V: Simd>(args…) { body }`. It runs the body compiled for
/// `isa`, with `V` as the type of this instruction set.
#[macro_export]
#[doc(hidden)]
macro_rules! dispatch {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident<$v:ident: $simd:path $(, $param:ident: $bound:path)*>
     ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name<$($param: $bound),*>(isa: $crate::simd::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body<$v: $simd $(, $param: $bound)*>($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,fma,avx2")]
            #[allow(clippy::too_many_arguments)]
            fn avx512<$($param: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                body::<$crate::simd::Avx512 $(, $param)*>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2<$($param: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                body::<$crate::simd::Avx2 $(, $param)*>($($arg),*)
            }
            match isa.instruction_set() {
                $crate::simd::InstructionSet::Plain => body::<$crate::simd::Plain $(, $param)*>($($arg),*),
                // SAFETY: an `Isa` exists only for instruction sets that were detected.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::InstructionSet::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::InstructionSet::Avx512 => unsafe { avx512($($arg),*) },
                #[cfg(target_arch = "aarch64")]
                $crate::simd::InstructionSet::Neon => body::<$crate::simd::Neon $(, $param)*>($($arg),*),
            }
        }
    )+};
}
pub use dispatch;

/// Coefficients of the polynomial that interpolates exp on [-ln 2/2, ln 2/2] at Chebyshev nodes; relative
/// error 1.7e-17.
#[allow(clippy::excessive_precision)]
const EXP: [f64; 12] = [
    1.0,
    1.0,
    0.5000000000000019,
    0.1666666666666668,
    0.04166666666648795,
    0.008333333333319589,
    0.0013888888952352863,
    0.00019841269890076403,
    2.4801485441561313e-05,
    2.755724088722987e-06,
    2.763265472252779e-07,
    2.5110049204818658e-08,
];

/// Computes `exp(x)` for `x ≤ 0`, within 1.2 units in the last place; 0 below -707.7, since kernels need no
/// subnormal numbers. The code has no branches, so loops over it vectorise.
#[inline(always)]
pub(crate) fn exp_neg<V: Simd>(x: f64) -> f64 {
    // Adding this number rounds to an integer, which is then in the low bits; subtracting it returns the
    // integer.
    const ROUND: f64 = 6755399441055744.0;
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let clamped = if x < -708.0 { -708.0 } else { x };
    let shifted = fma::<V>(clamped, std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<V>(n, -LN2_LOW, fma::<V>(n, -LN2_HIGH, clamped));
    let mut p = EXP[11];
    let mut k = 11;
    while k > 0 {
        k -= 1;
        p = fma::<V>(p, r, EXP[k]);
    }
    let scaled = f64::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 52));
    if x < -707.7 { 0.0 } else { scaled }
}

dispatch! {
    /// Computes `sums += times v`.
    pub fn add_scaled<V: Simd>(sums: &mut [f64], times: f64, v: &[f64]) {
        for (s, v) in sums.iter_mut().zip(v) {
            *s = fma::<V>(times, *v, *s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    type Fused = Avx2;
    #[cfg(target_arch = "aarch64")]
    type Fused = Neon;

    #[test]
    fn exp_is_within_two_ulps() {
        for k in 0..200_000 {
            let x = -707.0 * (k as f64 / 200_000.0).powi(2);
            let truth = x.exp();
            assert!((exp_neg::<Fused>(x) - truth).abs() <= 2.0 * f64::EPSILON * truth, "exp({x})");
            assert!((exp_neg::<Plain>(x) - truth).abs() <= 2.0 * f64::EPSILON * truth, "exp({x})");
        }
        assert_eq!(exp_neg::<Fused>(0.0), 1.0);
        assert_eq!(exp_neg::<Fused>(-1e300), 0.0);
        assert_eq!(exp_neg::<Fused>(f64::NEG_INFINITY), 0.0);
    }
}
