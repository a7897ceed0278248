//! Arithmetic of vectors, entry by entry, and sums over their entries.

use crate::simd::LANES;

/// Maximum number of products that [`dot`] adds in one run.
const RUN: usize = 128;

/// The inner product. Its error grows with the logarithm of the length: runs are summed in fixed lanes, and
/// the runs' sums are added pairwise (Higham, *Accuracy and Stability of Numerical Algorithms*, §4.2).
#[inline]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    if a.len() > RUN {
        let middle = (a.len() / 2).next_multiple_of(RUN);
        return dot(&a[..middle], &b[..middle]) + dot(&a[middle..], &b[middle..]);
    }
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (x, y) in a.iter().zip(b) {
        for l in 0..LANES {
            lanes[l] += x[l] * y[l];
        }
    }
    let tail: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    let [a, b, c, d] = [0, 1, 2, 3].map(|l| lanes[l] + lanes[l + 4]);
    (a + c) + (b + d) + tail
}

/// The number of successive roundings of a product in a [`dot`] of this length.
pub fn dot_roundings(len: usize) -> usize {
    let run_len = len.min(RUN);
    1 + (run_len / LANES).max(run_len % LANES) + 4 + len.div_ceil(RUN).next_power_of_two().ilog2() as usize
}

/// Adds the terms to the sums, entry by entry.
#[inline]
pub fn add_to(sums: &mut [f64], terms: &[f64]) {
    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
}

/// Adds a multiple of the terms to the sums, entry by entry.
#[inline]
pub fn add_multiple(sums: &mut [f64], factor: f64, terms: &[f64]) {
    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += factor * term);
}

/// The mean of the numbers; NaN without numbers.
#[inline]
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The sum of the squared differences of the numbers from a center.
pub fn squared_deviations(numbers: &[f64], center: f64) -> f64 {
    numbers.iter().map(|v| (v - center).powi(2)).sum()
}

/// The sum of each number and those before it.
pub fn cumulative_sums(numbers: &[f64]) -> Vec<f64> {
    let with_next = |sum: &mut f64, number: &f64| {
        *sum += number;
        Some(*sum)
    };
    numbers.iter().scan(0.0, with_next).collect()
}

/// The sum of vectors of this length.
pub fn sum_vectors<'v>(len: usize, vectors: impl IntoIterator<Item = &'v Vec<f64>>) -> Vec<f64> {
    let mut total = vec![0.0; len];
    vectors.into_iter().for_each(|vector| add_to(&mut total, vector));
    total
}

/// The entries at these places, in this order.
pub fn select<T: Copy>(entries: &[T], indices: &[usize]) -> Vec<T> {
    indices.iter().map(|&i| entries[i]).collect()
}

/// The differences of the entries of two vectors.
#[inline]
pub fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// A vector plus a multiple of another one.
#[inline]
pub fn plus_multiple(a: &[f64], factor: f64, b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + factor * b).collect()
}

/// The products of the entries of two vectors.
#[inline]
pub fn products(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

/// The largest absolute value; 0 without numbers.
#[inline]
pub fn max_abs(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |largest, v| v.abs().max(largest))
}

/// Raises each number to the absolute value of its candidate, if that is larger.
#[inline]
pub fn raise_to_abs(largest: &mut [f64], candidates: &[f64]) {
    largest.iter_mut().zip(candidates).for_each(|(max, candidate)| *max = max.max(candidate.abs()));
}

/// Multiplies each number by its factor.
#[inline]
pub fn multiply_entries(numbers: &mut [f64], factors: &[f64]) {
    numbers.iter_mut().zip(factors).for_each(|(number, factor)| *number *= factor);
}

/// Returns the square of the Euclidean distance.
pub fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Returns the indices of the values, from the largest to the smallest; equal values keep their order.
pub fn descending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}

/// Returns the smallest and the largest number.
pub fn min_max(numbers: &[f64]) -> (f64, f64) {
    numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

/// Returns the numbers in ascending order.
pub fn sorted(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Returns the pairs of n indices, in the order (0,1), (0,2), …, (1,2), ….
pub fn index_pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}
