//! Kernel values between many pairs of rows at once. Each number of a column is read once for several rows,
//! and sums stay in registers.

use super::{Columns, Kernel};
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch, fma};

/// Rows of the side `v` that are computed together.
pub(super) const GROUP: usize = 4;
/// Rows of the side `u` that are computed together.
pub(super) const RUN: usize = 128;

/// Kernel values between at most [`GROUP`] rows and at most [`RUN`].
pub(super) type Block = [[f64; RUN]; GROUP];

impl Kernel {
    /// Writes `out[r * stride + i] = k(v_r, u_i)`, with the same bits as [`row`](Self::row), but several
    /// times as fast for profiles of the joint distance.
    pub fn tile(&self, isa: Isa, u: Columns<'_>, v: &[&[f64]], out: &mut [f64], stride: usize) {
        let mut product: Block = [[0.0; RUN]; GROUP];
        for start in (0..u.len()).step_by(RUN) {
            let run = u.part(start, RUN.min(u.len() - start));
            let shared = if v.len() >= MIN_ROWS { shared_values(isa, run) } else { None };
            let run = Columns { shared: shared.as_deref(), ..run };
            for (g, group) in v.chunks(GROUP).enumerate() {
                for (t, term) in self.terms.iter().enumerate() {
                    product[..group.len()].iter_mut().for_each(|row| row[..run.len()].fill(term.scale));
                    term.factors
                        .iter()
                        .for_each(|factor| factor.multiply_block(isa, run, group, &mut product));
                    for (r, product) in product[..group.len()].iter().enumerate() {
                        let out = &mut out[(g * GROUP + r) * stride + start..][..run.len()];
                        if t == 0 {
                            out.copy_from_slice(&product[..run.len()]);
                        } else {
                            out.iter_mut().zip(product).for_each(|(o, p)| *o += p);
                        }
                    }
                }
            }
        }
    }
}

/// Smallest number of rows `v` for which the search for shared values saves time.
const MIN_ROWS: usize = 16;

/// The value that most rows of a run have in a column, and one bit for each block of [`LANES`] rows that is
/// set if all its rows have this value. In one-hot columns most bits are set. If the rows of the other side
/// have this value too, their differences are 0, and skipping them does not change a bit of the sums.
pub(crate) struct SharedValues {
    number: f64,
    blocks: u32,
}

dispatch! {
    /// The shared values of a run for each column of the table; `None` if they do not save time.
    fn shared_values<V: Simd>(u: Columns<'_>) -> Option<Vec<SharedValues>> {
        let shared_values_of = |column: &[f64]| {
            let number = match *column {
                [a, b, c, ..] if a == b || a == c => a,
                [_, b, c, ..] if b == c => b,
                _ => return SharedValues { number: f64::NAN, blocks: 0 },
            };
            let equal = column
                .chunks_exact(LANES)
                .map(|block| block.iter().fold(true, |equal_so_far, v| equal_so_far & (*v == number)));
            SharedValues {
                number,
                blocks: equal.enumerate().fold(0, |bits, (k, equal)| bits | (u32::from(equal) << k)),
            }
        };
        let width = u.data.len().checked_div(u.stride).unwrap_or(0);
        let shared: Vec<SharedValues> = (0..width).map(|j| shared_values_of(u.column(j))).collect();
        let blocks: u32 = shared.iter().map(|column| column.blocks.count_ones()).sum();
        (blocks as usize * 4 >= width * (u.len() / LANES) && blocks > 0).then_some(shared)
    }
}

/// For each block, one bit per column: set if one of the rows `v`, or of the block, differs from the shared
/// value.
#[inline(always)]
fn differing_columns(shared: &[SharedValues], columns: &[usize], slots: &[Slot<'_>]) -> [u32; RUN / LANES] {
    let mut differing = [0; RUN / LANES];
    for (slot, (&j, (_, _, v))) in columns.iter().zip(slots).enumerate() {
        let column_shared = &shared[j];
        let blocks = if v.iter().all(|v| *v == column_shared.number) { column_shared.blocks } else { 0 };
        differing.iter_mut().enumerate().for_each(|(k, bits)| *bits |= ((!blocks >> k) & 1) << slot);
    }
    differing
}

/// A column of a run, the inverse of its length scale, and the values of the rows `v` in this column.
type Slot<'a> = (&'a [f64], f64, [f64; GROUP]);

/// Adds the squared differences of one column in the block that begins at row `first`.
#[inline(always)]
fn add_squares<V: Simd>(sums: &mut [Lanes; GROUP], (u, inverse, v): &Slot<'_>, first: usize) {
    let x = Lanes::load(u, first);
    for (sum, &v) in sums.iter_mut().zip(v) {
        let r = V::mul(V::sub(x, Lanes::splat(v)), Lanes::splat(*inverse));
        *sum = V::fma(r, r, *sum);
    }
}

/// Number of columns whose values are gathered at a time.
const SLOT_BATCH: usize = 32;

dispatch! {
    /// Writes `out[r][i] = Σ_c ((u_ic - v_rc) / ℓ_c)²`, summed column by column, between the rows of `u` and
    /// the rows `v`, of which there are 1 to [`GROUP`]. The operations are the same as for a single row.
    pub(super) fn squares<V: Simd>(
        u: Columns<'_>,
        v: &[&[f64]],
        columns: &[usize],
        length_scale: &[f64],
        out: &mut Block,
    ) {
        let n_vectorised = u.len() / LANES * LANES;
        let filled = if columns.is_empty() { 0 } else { n_vectorised };
        out.iter_mut().for_each(|row| row[filled..u.len()].fill(0.0));
        for (part, (columns, length_scale)) in
            columns.chunks(SLOT_BATCH).zip(length_scale.chunks(SLOT_BATCH)).enumerate()
        {
            let mut slots: [Slot<'_>; SLOT_BATCH] = [(&[], 0.0, [0.0; GROUP]); SLOT_BATCH];
            for (slot, (&j, l)) in slots.iter_mut().zip(columns.iter().zip(length_scale)) {
                // A group with fewer rows is filled up with its last row.
                *slot = (u.column(j), 1.0 / l, std::array::from_fn(|r| v[r.min(v.len() - 1)][j]));
            }
            let slots = &slots[..columns.len()];
            let differing = u.shared.map(|shared| differing_columns(shared, columns, slots));
            for first in (0..n_vectorised).step_by(LANES) {
                let mut sums = [Lanes::ZERO; GROUP];
                if part > 0 {
                    for (sum, row) in sums.iter_mut().zip(&*out) {
                        *sum = Lanes::load(row, first);
                    }
                }
                match &differing {
                    Some(differing) => {
                        let mut unread = differing[first / LANES];
                        while unread != 0 {
                            add_squares::<V>(&mut sums, &slots[unread.trailing_zeros() as usize], first);
                            unread &= unread - 1;
                        }
                    }
                    None => slots.iter().for_each(|slot| add_squares::<V>(&mut sums, slot, first)),
                }
                for (sum, row) in sums.iter().zip(&mut *out) {
                    row[first..first + LANES].copy_from_slice(&sum.0);
                }
            }
            for i in n_vectorised..u.len() {
                for (u, inverse, v) in slots {
                    for (row, v) in out.iter_mut().zip(v) {
                        let r = (u[i] - v) * inverse;
                        row[i] = fma::<V>(r, r, row[i]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Linear, Polynomial, Profile, Stationary};
    use crate::table::Table;

    /// A tile has the same bits as its rows. This holds for every kind of term, for numbers of rows around
    /// the sizes of groups, runs and slots, and for every instruction set. Sets with fused multiply-add agree
    /// with each other.
    #[test]
    fn a_tile_has_the_bits_of_its_rows() {
        let number = |k: usize| ((k * 7919 + 13) % 10_007) as f64 / 977.0 - 5.0;
        for d in [1, 2, 5, 33, 70] {
            let columns: Vec<usize> = (0..d).rev().collect();
            let length_scale: Vec<f64> = (0..d).map(|c| 3.0 + 0.37 * c as f64).collect();
            let stationary = |profile, isotropic| -> Kernel {
                let (columns, length_scale) = (columns.clone(), length_scale.clone());
                Stationary { profile, columns, length_scale, ard: true, isotropic }.into()
            };
            let linear: Kernel = Linear { columns: vec![0], center: vec![0.5], scale: vec![2.0] }.into();
            let (columns, center, scale) = (columns.clone(), vec![0.1; d], vec![3.0; d]);
            let polynomial: Kernel =
                Polynomial { columns, center, scale, gamma: 0.3, coef0: 1.0, degree: 3 }.into();
            let gaussian = stationary(Profile::Gaussian, false);
            let kernels = [
                gaussian.clone() * linear.clone() + 0.7 * stationary(Profile::Matern52, true),
                gaussian,
                stationary(Profile::Exponential, false),
                stationary(Profile::RationalQuadratic { alpha: 0.8 }, true) + Kernel::constant(0.2),
                polynomial + linear,
            ];
            // Columns whose numbers all differ, and columns that are mostly constant except the last.
            let rare = |k: usize| if k.is_multiple_of(37) { number(k) } else { -0.5 };
            let mixed = |c: usize, k: usize| if c + 1 < d { rare(k) } else { number(k) };
            for (n, rows, mostly) in [
                (1, 1, false),
                (7, 2, false),
                (8, 3, false),
                (131, 4, false),
                (300, 9, false),
                (300, MIN_ROWS + 2, false),
                (9, MIN_ROWS, true),
                (300, MIN_ROWS + 3, true),
            ] {
                let row = |start: usize| -> Vec<f64> {
                    (0..d).map(|c| if mostly { mixed(c, start + c * 7) } else { number(start + c) }).collect()
                };
                let table: Vec<Vec<f64>> = (0..n).map(|i| row(i * d)).collect();
                let x = Table::from_rows(&table).unwrap();
                assert!(
                    !mostly
                        || d < 5
                        || n < 20
                        || shared_values(Isa::detect(), Columns::from_row(&x, 0).part(0, RUN)).is_some()
                );
                let v: Vec<Vec<f64>> = (0..rows).map(|r| row(r * d + 5)).collect();
                let v: Vec<&[f64]> = v.iter().map(Vec::as_slice).collect();
                let mut fused = vec![None; kernels.len()];
                for (k, isa) in
                    (0..kernels.len()).flat_map(|k| Isa::available().into_iter().map(move |i| (k, i)))
                {
                    let kernel = &kernels[k];
                    let stride = n + 3;
                    let mut tile = vec![-1.0; rows * stride];
                    kernel.tile(isa, Columns::from_row(&x, 0), &v, &mut tile, stride);
                    if isa.name() != "plain" {
                        assert_eq!(fused[k].get_or_insert_with(|| tile.clone()), &tile, "{}", isa.name());
                    }
                    for (r, v) in v.iter().enumerate() {
                        let mut row = vec![0.0; n];
                        kernel.row(isa, Columns::from_row(&x, 0), v, &mut Vec::new(), &mut row);
                        assert_eq!(
                            tile[r * stride..][..n],
                            row,
                            "{}, {}, n = {n}",
                            kernel.formula(),
                            isa.name()
                        );
                        assert!(tile[r * stride + n..][..3].iter().all(|b| *b == -1.0));
                    }
                }
            }
        }
    }
}
