//! Owen values of products of power series, the form of games of [powers](super::polynomial_games). They are
//! computed level by level, like [Owen values of products of numbers](super::owen). All series of present and
//! absent players begin with 1. At each level t therefore has a power of at most p - 1, and ⌈p/2⌉ nodes are
//! exact.

use super::power_series::multiply;
use super::rule::InclusionMeasure;
use crate::coalition_structure::CoalitionTree;
use crate::simd::{Lanes, Plain, Simd};

/// Series of all players, with `size` coefficients each.
pub(super) struct OwenSeries<'a> {
    size: usize,
    /// The series of present and of absent players, one player after another.
    present: &'a [Lanes],
    absent: &'a [Lanes],
}

impl<'a> OwenSeries<'a> {
    pub(super) fn new(size: usize, (present, absent): (&'a [Lanes], &'a [Lanes])) -> Self {
        Self { size, present, absent }
    }

    /// Adds the values of all players of a part of the tree; `outside` is the product of the series of all
    /// other players.
    pub(super) fn add(&self, tree: &CoalitionTree, outside: &[Lanes], out: &mut [Lanes]) {
        let size = self.size;
        let members = match tree {
            CoalitionTree::Player(k) => {
                let range = k * size..(k + 1) * size;
                let gains = self.present[range.clone()].iter().zip(&self.absent[range]);
                let terms = gains.zip(outside.iter().rev());
                out[*k] = terms.fold(out[*k], |sum, ((a, b), r)| Plain::fma(Plain::sub(*a, *b), *r, sum));
                return;
            }
            CoalitionTree::CoalitionStructure(members) => members,
        };
        let sides: Vec<[Vec<Lanes>; 2]> = members.iter().map(|member| self.part_products(member)).collect();
        let mut complements = vec![Lanes::ZERO; members.len() * size];
        let mut before = vec![Lanes::ZERO; (members.len() + 1) * size];
        let [mut after, mut next, mut product] = [0; 3].map(|_| vec![Lanes::ZERO; size]);
        for node in InclusionMeasure::Uniform.rule(members.len().min(size - 1).div_ceil(2)) {
            let (t, s) = (Lanes::splat(node.t), Lanes::splat(node.s));
            let mix = |[a, b]: &[Vec<Lanes>; 2]| -> Vec<Lanes> {
                a.iter().zip(b).map(|(a, b)| Plain::fma(t, *a, Plain::mul(s, *b))).collect()
            };
            let mixed: Vec<Vec<Lanes>> = sides.iter().map(mix).collect();
            let weight = Lanes::splat(node.weight);
            before.iter_mut().zip(outside).for_each(|(out, r)| *out = Plain::mul(weight, *r));
            for (k, mixture) in mixed.iter().enumerate() {
                let (prefix, tail) = before[k * size..].split_at_mut(size);
                multiply::<Plain>(prefix, mixture, &mut tail[..size]);
            }
            after.fill(Lanes::ZERO);
            after[0] = Lanes::UNIT;
            for (k, mixture) in mixed.iter().enumerate().rev() {
                multiply::<Plain>(&before[k * size..][..size], &after, &mut product);
                let sums = complements[k * size..].iter_mut().zip(&product);
                sums.for_each(|(sum, v)| *sum = Plain::add(*sum, *v));
                multiply::<Plain>(&after, mixture, &mut next);
                std::mem::swap(&mut after, &mut next);
            }
        }
        for (member, complement) in members.iter().zip(complements.chunks_exact(size)) {
            self.add(member, complement, out);
        }
    }

    /// Products of the series of a part of the tree with all its players present and with all absent.
    fn part_products(&self, tree: &CoalitionTree) -> [Vec<Lanes>; 2] {
        match tree {
            CoalitionTree::Player(k) => {
                [self.present, self.absent].map(|series| series[k * self.size..][..self.size].to_vec())
            }
            CoalitionTree::CoalitionStructure(members) => {
                let mut unit = vec![Lanes::ZERO; self.size];
                unit[0] = Lanes::UNIT;
                let times = |product: Vec<Lanes>, factor: &[Lanes]| {
                    let mut out = vec![Lanes::ZERO; self.size];
                    multiply::<Plain>(&product, factor, &mut out);
                    out
                };
                members.iter().fold([unit.clone(), unit], |[a, b], member| {
                    let [present, absent] = self.part_products(member);
                    [times(a, &present), times(b, &absent)]
                })
            }
        }
    }
}
