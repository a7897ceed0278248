//! Owen values of products of power series, which is what games of [powers](super::powers) are: as [those of
//! products of numbers](super::owen), level by level. All series of present and absent players begin with 1,
//! so that at each level t comes to the power of p - 1 at most, and ⌈p/2⌉ nodes are exact there, too.

use super::power_series::multiply;
use super::rule::InclusionMeasure;
use crate::coalition_structure::CoalitionTree;
use crate::simd::{Lanes, Plain};

/// Series of `size` coefficients.
pub(super) struct OwenSeries<'a> {
    size: usize,
    /// Of those who are present and absent, one player after the other.
    present: &'a [Lanes],
    absent: &'a [Lanes],
}

impl<'a> OwenSeries<'a> {
    pub(super) fn new(size: usize, (present, absent): (&'a [Lanes], &'a [Lanes])) -> Self {
        Self { size, present, absent }
    }

    /// Adds the values of all players of a part of the tree, where the others make the series `rest`.
    pub(super) fn add(&self, tree: &CoalitionTree, rest: &[Lanes], out: &mut [Lanes]) {
        let size = self.size;
        let members = match tree {
            CoalitionTree::Player(k) => {
                let own = k * size..(k + 1) * size;
                let gains = self.present[own.clone()].iter().zip(&self.absent[own]);
                let last = gains.zip(rest.iter().rev());
                out[*k] = last.fold(out[*k], |sum, ((a, b), r)| a.sub::<Plain>(*b).fma::<Plain>(*r, sum));
                return;
            }
            CoalitionTree::CoalitionStructure(members) => members,
        };
        let sides: Vec<[Vec<Lanes>; 2]> = members.iter().map(|member| self.part_products(member)).collect();
        let mut others = vec![Lanes::ZERO; members.len() * size];
        let mut before = vec![Lanes::ZERO; (members.len() + 1) * size];
        let [mut after, mut next, mut product] = [0; 3].map(|_| vec![Lanes::ZERO; size]);
        for node in InclusionMeasure::Lebesgue.rule(members.len().min(size - 1).div_ceil(2)) {
            let (t, s) = (Lanes::splat(node.t), Lanes::splat(node.s));
            let mix = |[a, b]: &[Vec<Lanes>; 2]| -> Vec<Lanes> {
                a.iter().zip(b).map(|(a, b)| t.fma::<Plain>(*a, s.mul::<Plain>(*b))).collect()
            };
            let mixed: Vec<Vec<Lanes>> = sides.iter().map(mix).collect();
            let weight = Lanes::splat(node.weight);
            before.iter_mut().zip(rest).for_each(|(out, r)| *out = weight.mul::<Plain>(*r));
            for (k, one) in mixed.iter().enumerate() {
                let (own, more) = before[k * size..].split_at_mut(size);
                multiply::<Plain>(own, one, &mut more[..size]);
            }
            after.fill(Lanes::ZERO);
            after[0] = Lanes::ONE;
            for (k, one) in mixed.iter().enumerate().rev() {
                multiply::<Plain>(&before[k * size..][..size], &after, &mut product);
                let own = others[k * size..].iter_mut().zip(&product);
                own.for_each(|(sum, v)| *sum = sum.add::<Plain>(*v));
                multiply::<Plain>(&after, one, &mut next);
                std::mem::swap(&mut after, &mut next);
            }
        }
        for (member, rest) in members.iter().zip(others.chunks_exact(size)) {
            self.add(member, rest, out);
        }
    }

    /// The products of a part of the tree, all present and all absent.
    fn part_products(&self, tree: &CoalitionTree) -> [Vec<Lanes>; 2] {
        match tree {
            CoalitionTree::Player(k) => {
                [self.present, self.absent].map(|all| all[k * self.size..][..self.size].to_vec())
            }
            CoalitionTree::CoalitionStructure(members) => {
                let mut one = vec![Lanes::ZERO; self.size];
                one[0] = Lanes::ONE;
                let times = |all: Vec<Lanes>, own: &[Lanes]| {
                    let mut out = vec![Lanes::ZERO; self.size];
                    multiply::<Plain>(&all, own, &mut out);
                    out
                };
                members.iter().fold([one.clone(), one], |[a, b], member| {
                    let [present, absent] = self.part_products(member);
                    [times(a, &present), times(b, &absent)]
                })
            }
        }
    }
}
