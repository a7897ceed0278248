//! One source, several instruction sets, chosen at run time.
//!
//! A hot function is written once as an `#[inline(always)]` body generic over `FUSED` (whether the
//! machine multiplies and adds in one instruction), and `dispatch!` compiles it for AVX-512, AVX2,
//! NEON and the plain target. Bodies are ordinary safe Rust over slices and [`Lanes`]; the compiler
//! vectorises them under the enabled features.

/// Doubles worked on together: one AVX-512 register, two of AVX2, four of NEON.
pub(crate) const LANES: usize = 8;

/// Eight doubles, aligned to a cache line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub(crate) struct Lanes(pub(crate) [f64; LANES]);

impl Lanes {
    pub(crate) const ZERO: Self = Self([0.0; LANES]);
    pub(crate) const ONE: Self = Self([1.0; LANES]);

    #[inline(always)]
    pub(crate) fn splat(v: f64) -> Self {
        Self([v; LANES])
    }

    #[inline(always)]
    pub(crate) fn map2(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut out = [0.0; LANES];
        for l in 0..LANES {
            out[l] = f(self.0[l], other.0[l]);
        }
        Self(out)
    }

    #[inline(always)]
    pub(crate) fn mul(self, other: Self) -> Self {
        self.map2(other, |a, b| a * b)
    }

    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        self.map2(other, |a, b| a + b)
    }

    #[inline(always)]
    pub(crate) fn sub(self, other: Self) -> Self {
        self.map2(other, |a, b| a - b)
    }

    /// `self * b + c`.
    #[inline(always)]
    pub(crate) fn fma<const FUSED: bool>(self, b: Self, c: Self) -> Self {
        let mut out = [0.0; LANES];
        for l in 0..LANES {
            out[l] = fma::<FUSED>(self.0[l], b.0[l], c.0[l]);
        }
        Self(out)
    }

    /// The sum in a fixed order.
    #[inline(always)]
    pub(crate) fn sum(self) -> f64 {
        let v = self.0;
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
}

/// `a * b + c`, in one rounding where the machine can.
#[inline(always)]
pub(crate) fn fma<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// An instruction set that this machine has. Values of this type exist only for sets that were detected,
/// which is what makes the calls behind `dispatch!` sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(pub(crate) Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Isa {
    /// The instruction sets of this machine, from plain code to the widest.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut sets = vec![Self(Set::Plain)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Self(Set::Avx2));
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("fma")
            {
                sets.push(Self(Set::Avx512));
            }
        }
        #[cfg(target_arch = "aarch64")]
        sets.push(Self(Set::Neon));
        sets
    }

    /// The widest instruction set of this machine.
    pub fn detect() -> Self {
        static WIDEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *WIDEST.get_or_init(|| Self::available().pop().unwrap_or(Self(Set::Plain)))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "AVX-512",
            #[cfg(target_arch = "aarch64")]
            Set::Neon => "NEON",
        }
    }
}

/// Defines `fn name(isa, args…)`, which runs `body::<FUSED>(args…)` compiled for `isa`.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident $([$($gen:tt)*])? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident::<FUSED $(, $param:ty)*>) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name $(<$($gen)*>)? (isa: $crate::simd::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,fma,avx2")]
            #[allow(clippy::too_many_arguments)]
            fn avx512 $(<$($gen)*>)? ($($arg: $ty),*) $(-> $ret)? {
                $body::<true $(, $param)*>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2 $(<$($gen)*>)? ($($arg: $ty),*) $(-> $ret)? {
                $body::<true $(, $param)*>($($arg),*)
            }
            match isa.0 {
                $crate::simd::Set::Plain => $body::<false $(, $param)*>($($arg),*),
                // SAFETY: an `Isa` exists only for instruction sets that were detected.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Set::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Set::Avx512 => unsafe { avx512($($arg),*) },
                #[cfg(target_arch = "aarch64")]
                $crate::simd::Set::Neon => $body::<true $(, $param)*>($($arg),*),
            }
        }
    };
}
pub(crate) use dispatch;

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

/// `exp(x)` for `x ≤ 0`, within 1.2 units in the last place; 0 below -707.7 (kernels need no subnormals).
/// Branch-free, so loops over it vectorise.
#[inline(always)]
pub(crate) fn exp_neg<const FUSED: bool>(x: f64) -> f64 {
    // Adding and subtracting this rounds to an integer, which then stands in the low bits.
    const ROUND: f64 = 6755399441055744.0;
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let clamped = if x < -708.0 { -708.0 } else { x };
    let shifted = fma::<FUSED>(clamped, std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<FUSED>(n, -LN2_LOW, fma::<FUSED>(n, -LN2_HIGH, clamped));
    let mut p = EXP[11];
    let mut k = 11;
    while k > 0 {
        k -= 1;
        p = fma::<FUSED>(p, r, EXP[k]);
    }
    let scaled = f64::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 52));
    if x < -707.7 { 0.0 } else { scaled }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulps() {
        for k in 0..200_000 {
            let x = -707.0 * (k as f64 / 200_000.0).powi(2);
            let truth = x.exp();
            assert!((exp_neg::<true>(x) - truth).abs() <= 2.0 * f64::EPSILON * truth, "exp({x})");
            assert!((exp_neg::<false>(x) - truth).abs() <= 2.0 * f64::EPSILON * truth, "exp({x})");
        }
        assert_eq!(exp_neg::<true>(0.0), 1.0);
        assert_eq!(exp_neg::<true>(-1e300), 0.0);
        assert_eq!(exp_neg::<true>(f64::NEG_INFINITY), 0.0);
    }
}
