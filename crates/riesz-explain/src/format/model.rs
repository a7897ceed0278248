//! Model files: a [safetensors](https://github.com/huggingface/safetensors) container with the arrays
//! `points` (n × d), `coef` (n × outputs) and `intercept` (outputs), all F64 and row-major. Its metadata
//! holds, under `riesz`, one JSON record with everything else. Reading such a file never executes code.
//!
//! A file with a posterior has version 2 or higher. For the k-th matrix Q it has one or more of these arrays:
//! - `posterior.k.factor`: the Cholesky factor of V on and below its diagonal, row by row;
//! - `.starts`, `.places` (U64) and `.weights`: the columns of A;
//! - `.low_rank`: n × r, or since version 4 bags × r together with the columns of A;
//! - `.dense`: Q itself, stored like the factor;
//! - `.refits` (n × refits) and `.refits_intercept`, since version 3, and depending on the method
//!   `.refits_seed` or, since version 5, `.refits_landmarks`;
//! - `.precision`, since version 6: the Cholesky factor of a posterior precision, stored like the factor.
//!
//! The record holds a SHA-256 checksum of itself and of all arrays, so that a damaged file is refused.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::FormatTag;
use crate::error::{Error, Result, check_distinct};
use crate::kernel::Kernel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Cholesky, Matrix, Sparse};
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance, Refitted, VarianceReduction};
use crate::table::{Column, Players, Table};

/// The format's name in the file.
pub const FORMAT: &str = "riesz-model";
/// The newest version that this library reads. It writes the oldest version that can represent the model: 1
/// without a posterior.
pub const VERSION: u64 = 6;

/// A model, its posterior covariance, and the players for explaining it.
#[derive(Debug, Clone)]
pub struct SavedModel {
    /// The model.
    pub model: KernelExpansion,
    /// The posterior covariance, which takes 4 n² bytes for n points and every matrix Q. `None` to leave it
    /// out, and for models without one.
    pub covariance: Option<PosteriorCovariance>,
    /// The players, if they differ from the columns.
    pub groups: Option<Players>,
}

#[derive(Serialize, Deserialize)]
struct Group {
    name: String,
    columns: Vec<String>,
}

// An unknown field may be a damaged one: if it were ignored, damage to the checksum's name would hide all
// other damage.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelRecord {
    format: String,
    version: u64,
    columns: Vec<Column>,
    kernel: Kernel,
    outputs: Vec<String>,
    link: Link,
    classes: Vec<String>,
    card: Vec<CardEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<Group>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    posterior: Option<PosteriorRecord>,
    /// The checksum in hexadecimal digits.
    #[serde(default)]
    sha256: Option<String>,
}

/// The text in place of the checksum while it is computed.
pub(super) const CHECKSUM_PLACEHOLDER: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// The checksum of a record and of arrays in any order. In the record, the placeholder replaces the checksum.
pub(super) fn checksum<'a>(
    record: &str,
    arrays: impl Iterator<Item = (&'a str, &'a [usize], &'a [u8])>,
) -> String {
    let mut arrays: Vec<_> = arrays.collect();
    arrays.sort_unstable();
    let mut hasher = Sha256::new_with_prefix(record);
    for (name, shape, bytes) in arrays {
        hasher.update(format!("\n{name} {shape:?}\n"));
        hasher.update(bytes);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A [`PosteriorCovariance`] without its arrays, whose names determine the kind of each matrix Q.
#[derive(Serialize, Deserialize)]
struct PosteriorRecord {
    prior: f64,
    scale: Vec<f64>,
    /// The jitter of each factor, one per matrix Q.
    jitter: Vec<f64>,
    /// Only since version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mirror: Option<Vec<usize>>,
}

/// An array to be written to the container.
pub(super) struct NamedArray {
    shape: Vec<usize>,
    kind: Dtype,
    bytes: Vec<u8>,
}

impl NamedArray {
    fn new(shape: Vec<usize>, numbers: impl Iterator<Item = f64>) -> Self {
        Self { shape, kind: Dtype::F64, bytes: numbers.flat_map(f64::to_le_bytes).collect() }
    }

    pub fn list(numbers: impl Iterator<Item = f64>) -> Self {
        let mut array = Self::new(Vec::new(), numbers);
        array.shape = vec![array.bytes.len() / 8];
        array
    }

    fn matrix(matrix: &Matrix) -> Self {
        Self::new(vec![matrix.rows(), matrix.cols()], matrix.data().iter().copied())
    }

    fn words(numbers: impl IntoIterator<Item = u64>) -> Self {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        Self { shape: vec![bytes.len() / 8], kind: Dtype::U64, bytes }
    }

    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self { shape: vec![bytes.len()], kind: Dtype::U8, bytes }
    }

    pub fn raw(&self) -> &[u8] {
        &self.bytes
    }
}

impl View for NamedArray {
    fn dtype(&self) -> Dtype {
        self.kind
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

pub(super) fn damaged(reason: impl std::fmt::Display) -> Error {
    Error::format(format!("this is not a riesz model file, or it is damaged: {reason}"))
}

/// Whether the beginning of `bytes` looks like a model file.
pub fn recognises(bytes: &[u8]) -> bool {
    bytes.len() > 8 && bytes[8] == b'{' && bytes[6..8] == [0, 0]
}

/// The bytes of the file. Equal models give equal bytes.
///
/// # Errors
/// As [`KernelExpansion::validate`]; [`Error::Format`] if names make the header too large.
pub fn to_bytes(saved: &SavedModel) -> Result<Vec<u8>> {
    let model = &saved.model;
    model.validate()?;
    if let Some(covariance) = &saved.covariance {
        Posterior::new(model, covariance)?;
    }
    let jitter = |reduction: &VarianceReduction| match reduction {
        VarianceReduction::CholeskyInverse { factor, .. } | VarianceReduction::Precision { factor, .. } => {
            factor.jitter
        }
        _ => 0.0,
    };
    let names = |columns: &[usize]| columns.iter().map(|&j| model.columns()[j].name.clone()).collect();
    let record = ModelRecord {
        format: FORMAT.into(),
        version: saved.covariance.as_ref().map_or(1, version),
        columns: model.columns().to_vec(),
        kernel: model.kernel.clone(),
        outputs: model.output_names.clone(),
        link: model.link,
        classes: model.classes.clone(),
        card: model.model_card.clone(),
        groups: saved.groups.as_ref().map(|groups| {
            let group = |p: &crate::table::Player| Group { name: p.name.clone(), columns: names(&p.columns) };
            groups.players().iter().map(group).collect()
        }),
        posterior: saved.covariance.as_ref().map(|covariance| PosteriorRecord {
            prior: covariance.prior_scale,
            scale: covariance.scale.clone(),
            mirror: covariance.mirror.clone(),
            jitter: covariance.reduction.iter().map(jitter).collect(),
        }),
        sha256: Some(CHECKSUM_PLACEHOLDER.into()),
    };
    let text = serde_json::to_string(&record).map_err(|e| Error::format(e.to_string()))?;
    let (n, d) = (model.support_points.rows(), model.support_points.width());
    let points = (0..n).flat_map(|i| model.support_points.row(i));
    let mut arrays = vec![
        ("points".to_string(), NamedArray::new(vec![n, d], points)),
        ("coef".into(), NamedArray::matrix(&model.coef)),
        ("intercept".into(), NamedArray::list(model.intercept.iter().copied())),
    ];
    for (k, reduction) in
        saved.covariance.iter().flat_map(|covariance| covariance.reduction.iter().enumerate())
    {
        arrays.extend(
            reduction_arrays(reduction)
                .into_iter()
                .map(|(name, array)| (format!("posterior.{k}.{name}"), array)),
        );
    }
    let parts = arrays.iter().map(|(name, array)| (name.as_str(), array.shape(), array.raw()));
    let text = text.replacen(CHECKSUM_PLACEHOLDER, &checksum(&text, parts), 1);
    safetensors::serialize(arrays, Some(HashMap::from([("riesz".to_string(), text)])))
        .map_err(|e| Error::format(format!("the model cannot be written: {e}")))
}

/// The oldest format version that can represent this posterior.
fn version(covariance: &PosteriorCovariance) -> u64 {
    let version_of = |reduction: &VarianceReduction| match reduction {
        VarianceReduction::Precision { .. } => 6,
        VarianceReduction::RefitDifferences { method: Refitted::LandmarkDoubling, .. } => 5,
        VarianceReduction::ThroughOperator { .. } => 4,
        VarianceReduction::RefitDifferences { .. } => 3,
        _ => 2,
    };
    let oldest = if covariance.mirror.is_some() { 3 } else { 2 };
    covariance.reduction.iter().map(version_of).fold(oldest, u64::max)
}

fn reduction_arrays(reduction: &VarianceReduction) -> Vec<(&'static str, NamedArray)> {
    match reduction {
        VarianceReduction::CholeskyInverse { operator, factor } => {
            let mut arrays = vec![("factor", NamedArray::list(factor.packed()))];
            arrays.extend(operator.iter().flat_map(sparse_arrays));
            arrays
        }
        VarianceReduction::ThroughOperator { operator, factor } => {
            let mut arrays = vec![("low_rank", NamedArray::matrix(factor))];
            arrays.extend(sparse_arrays(operator));
            arrays
        }
        VarianceReduction::RefitDifferences { coef, intercept, method } => {
            let mut arrays = vec![
                ("refits", NamedArray::matrix(coef)),
                ("refits_intercept", NamedArray::list(intercept.iter().copied())),
            ];
            arrays.extend(match *method {
                Refitted::Drawn { seed } => Some(("refits_seed", NamedArray::words([seed]))),
                Refitted::LandmarkDoubling => Some(("refits_landmarks", NamedArray::words([1]))),
                Refitted::Jackknife => None,
            });
            arrays
        }
        VarianceReduction::LowRank(factor) => vec![("low_rank", NamedArray::matrix(factor))],
        VarianceReduction::Dense(q) => {
            vec![("dense", NamedArray::list((0..q.rows()).flat_map(|i| q.row(i)[..=i].iter().copied())))]
        }
        VarianceReduction::Precision { operator, factor } => {
            let mut arrays = vec![("precision", NamedArray::list(factor.packed()))];
            arrays.extend(sparse_arrays(operator));
            arrays
        }
    }
}

fn sparse_arrays(matrix: &Sparse) -> [(&'static str, NamedArray); 3] {
    let (starts, row_indices, weights) = matrix.raw_parts();
    let indices = |numbers: &[usize]| NamedArray::words(numbers.iter().map(|n| *n as u64));
    let weights = NamedArray::list(weights.iter().copied());
    [("starts", indices(starts)), ("places", indices(row_indices)), ("weights", weights)]
}

/// The k-th matrix Q of a posterior over n points.
fn read_reduction(tensors: &SafeTensors<'_>, k: usize, jitter: f64, n: usize) -> Result<VarianceReduction> {
    let named = |part: &str| format!("posterior.{k}.{part}");
    let has_part = |part: &str| tensors.tensor(&named(part)).is_ok();
    let numbers = |part: &str, size| Ok(read_f64_array(tensors, &named(part), &[size])?.1);
    let words = |part: &str, size| -> Result<Vec<u64>> {
        let (_, cells) = read_u64_cells(tensors, &named(part), Dtype::U64, &[size])?;
        Ok(cells.iter().map(|b| u64::from_le_bytes(*b)).collect())
    };
    let operator = if has_part("starts") {
        let indices = |part: &str| -> Result<Vec<usize>> {
            Ok(words(part, None)?.into_iter().map(|word| word as usize).collect())
        };
        let weights = numbers("weights", None)?;
        Some(Sparse::new(n, indices("starts")?, indices("places")?, weights).map_err(damaged)?)
    } else {
        None
    };
    let size = operator.as_ref().map_or(n, Sparse::cols);
    if has_part("low_rank") {
        let factor = read_matrix(tensors, &named("low_rank"), size, None)?;
        return Ok(match operator {
            Some(operator) => VarianceReduction::ThroughOperator { operator, factor },
            None => VarianceReduction::LowRank(factor),
        });
    }
    if has_part("refits") {
        let intercept = numbers("refits_intercept", None)?;
        let coef = read_matrix(tensors, &named("refits"), n, Some(intercept.len()))?;
        let method = if has_part("refits_seed") {
            Refitted::Drawn { seed: words("refits_seed", Some(1))?.first().copied().unwrap_or(0) }
        } else if has_part("refits_landmarks") {
            Refitted::LandmarkDoubling
        } else {
            Refitted::Jackknife
        };
        return Ok(VarianceReduction::RefitDifferences { coef, intercept, method });
    }
    if has_part("dense") {
        let packed: Vec<f64> = numbers("dense", triangle(n))?;
        let entry = |i: usize, j: usize| packed[i.max(j) * (i.max(j) + 1) / 2 + i.min(j)];
        let data = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
        return Ok(VarianceReduction::Dense(Matrix::from_row_major(n, n, data)));
    }
    let factor = |part: &str| {
        let packed: Vec<f64> = numbers(part, triangle(size))?;
        Cholesky::from_packed(size, &packed, jitter)
            .ok_or_else(|| damaged(format!("its array '{}' is not a Cholesky factor", named(part))))
    };
    match operator {
        Some(operator) if has_part("precision") => {
            Ok(VarianceReduction::Precision { operator, factor: factor("precision")? })
        }
        operator => Ok(VarianceReduction::CholeskyInverse { operator, factor: factor("factor")? }),
    }
}

/// The number of entries on and below the diagonal of an n × n matrix; more than any file has on overflow.
fn triangle(n: usize) -> Option<usize> {
    Some(n.checked_add(1).and_then(|above| n.checked_mul(above)).map_or(usize::MAX, |twice| twice / 2))
}

/// The JSON record of a file.
pub(super) fn record_text(bytes: &[u8]) -> Result<String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let record = header.metadata().as_ref().and_then(|map| map.get("riesz"));
    record.cloned().ok_or_else(|| damaged("it is a safetensors file without a riesz record"))
}

/// Checks the record and the arrays of a file against the checksum that was written with them.
pub(super) fn check_contents(text: &str, tensors: &SafeTensors<'_>, written: &str) -> Result<()> {
    let views = tensors.tensors();
    let parts = views.iter().map(|(name, view)| (name.as_str(), view.shape(), view.data()));
    if checksum(&text.replacen(written, CHECKSUM_PLACEHOLDER, 1), parts) != written {
        return Err(Error::format(
            "the file is damaged: its contents do not match their checksum; copy it again from its source, \
             or fit the model again",
        ));
    }
    Ok(())
}

/// Reads a file that [`to_bytes`] wrote, from an untrusted source.
///
/// # Errors
/// [`Error::Format`] for other content; the errors of [`KernelExpansion::validate`] for content that is not a
/// valid model.
pub fn from_bytes(bytes: &[u8]) -> Result<SavedModel> {
    let text = record_text(bytes)?;
    let tag: FormatTag = serde_json::from_str(&text).map_err(damaged)?;
    tag.check(FORMAT, VERSION, "model")?;
    let record: ModelRecord = serde_json::from_str(&text).map_err(damaged)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
    if let Some(written) = &record.sha256 {
        check_contents(&text, &tensors, written)?;
    }
    let (m, d) = (record.outputs.len(), record.columns.len());
    let intercept = read_f64_array(&tensors, "intercept", &[Some(m)])?.1;
    let (n, rows) = read_f64_array(&tensors, "points", &[None, Some(d)])?;
    let coef = read_matrix(&tensors, "coef", n, Some(m))?;
    let columns = (0..rows.len()).map(|t| rows[t % n * d + t / n]).collect();
    let model = KernelExpansion {
        support_points: Table::from_column_major(record.columns, n, columns)?,
        kernel: record.kernel,
        coef,
        intercept,
        output_names: record.outputs,
        link: record.link,
        classes: record.classes,
        model_card: record.card,
    };
    model.validate()?;
    check_distinct(&model.output_names)?;
    check_distinct(&model.classes)?;
    let named = |groups: Vec<Group>| {
        let named: Vec<(String, Vec<String>)> = groups.into_iter().map(|g| (g.name, g.columns)).collect();
        Players::named(model.columns(), &named)
    };
    let groups = record.groups.map(named).transpose()?;
    let posterior = |PosteriorRecord { prior, scale, jitter, mirror }| -> Result<PosteriorCovariance> {
        let reductions = jitter.iter().enumerate().map(|(k, jitter)| read_reduction(&tensors, k, *jitter, n));
        let reduction = reductions.collect::<Result<_>>()?;
        let covariance = PosteriorCovariance { prior_scale: prior, mirror, reduction, scale };
        Posterior::new(&model, &covariance)?;
        Ok(covariance)
    };
    let covariance = record.posterior.map(posterior).transpose()?;
    Ok(SavedModel { model, covariance, groups })
}

/// The first size and the numbers of the array `name`, which must be F64 with the given sizes (`None`: any).
pub(super) fn read_f64_array(
    tensors: &SafeTensors<'_>,
    name: &str,
    shape: &[Option<usize>],
) -> Result<(usize, Vec<f64>)> {
    let (size, cells) = read_u64_cells(tensors, name, Dtype::F64, shape)?;
    Ok((size, cells.iter().map(|b| f64::from_le_bytes(*b)).collect()))
}

/// The matrix `name`, with this number of rows, and of columns unless it is `None`.
fn read_matrix(tensors: &SafeTensors<'_>, name: &str, rows: usize, cols: Option<usize>) -> Result<Matrix> {
    let (_, data) = read_f64_array(tensors, name, &[Some(rows), cols])?;
    Ok(Matrix::from_row_major(rows, cols.unwrap_or(data.len() / rows.max(1)), data))
}

/// The first size and the 8-byte cells of the array `name`, which must have the given type and sizes.
fn read_u64_cells<'t>(
    tensors: &SafeTensors<'t>,
    name: &str,
    kind: Dtype,
    shape: &[Option<usize>],
) -> Result<(usize, &'t [[u8; 8]])> {
    let tensor = tensors.tensor(name).map_err(|_| damaged(format!("there is no array '{name}'")))?;
    let fits = tensor.shape().len() == shape.len()
        && tensor.shape().iter().zip(shape).all(|(actual, required)| required.is_none_or(|w| w == *actual));
    if !fits || tensor.dtype() != kind {
        let (kind, actual) = (tensor.dtype(), tensor.shape());
        return Err(damaged(format!(
            "its array '{name}' is {kind:?} {actual:?}, which does not fit its record"
        )));
    }
    let (chunks, trailing_bytes) = tensor.data().as_chunks::<8>();
    let size = tensor.shape().iter().try_fold(1usize, |a, b| a.checked_mul(*b));
    if !trailing_bytes.is_empty() || size != Some(chunks.len()) {
        return Err(damaged(format!("its array '{name}' is cut off")));
    }
    Ok((tensor.shape()[0], chunks))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::{Categorical, Linear};
    use crate::table::ColumnKind;

    fn example() -> SavedModel {
        let levels = ColumnKind::Categorical { levels: vec!["a".into(), "b".into()] };
        let columns = vec![
            Column::numeric("x"),
            Column::numeric("y, \"z\""),
            Column { name: "c".into(), kind: levels },
        ];
        let points = Table::from_column_major(columns, 2, vec![0.1, 2.0, 1e-300, 4.0, 0.0, 1.0]).unwrap();
        let linear = Linear { columns: vec![0, 1], center: vec![0.0; 2], scale: vec![1.0; 2] };
        let kernel = Kernel::gaussian(&[1.0, 0.3]) * Categorical { columns: [2], similarity: 0.5 }.into()
            + 0.5 * Kernel::from(linear);
        let coef = Matrix::from_row_major(2, 1, vec![0.25, -1.5]);
        let mut model = KernelExpansion::new(kernel, points, coef, vec![3.0]).unwrap();
        model.model_card.push(CardEntry::new("model", "example"));
        let groups = Players::named(model.columns(), &[("g", vec!["x", "c"])]).unwrap();
        SavedModel { model, covariance: None, groups: Some(groups) }
    }

    /// A model with a posterior of every kind, as if it had four outputs.
    fn with_posterior() -> SavedModel {
        let mut saved = example();
        let model = &mut saved.model;
        model.coef = Matrix::from_row_major(2, 4, (0..8).map(f64::from).collect());
        model.intercept = vec![0.5; 4];
        model.output_names = ["a", "b", "c", "d"].map(String::from).to_vec();
        let square = Matrix::from_row_major(2, 2, vec![0.3, 0.1, 0.1, -0.2]);
        let factor = |jitter: f64| Cholesky::from_packed(2, &[1.5, -0.25, 2.0], jitter).unwrap();
        let operator = Sparse::from_columns(2, [vec![(0, 0.5), (1, 0.5)], vec![(1, 3.0)]]).unwrap();
        let reduction = vec![
            VarianceReduction::CholeskyInverse { operator: None, factor: factor(1e-9) },
            VarianceReduction::CholeskyInverse { operator: Some(operator), factor: factor(0.0) },
            VarianceReduction::LowRank(Matrix::column_vector(vec![0.25, -0.5])),
            VarianceReduction::Dense(square),
        ];
        saved.covariance = Some(PosteriorCovariance::new(reduction, vec![1.0, 2.0, 1.0, 0.5]));
        saved
    }

    #[test]
    fn round_trips_and_is_reproducible() {
        let saved = example();
        let bytes = to_bytes(&saved).unwrap();
        assert!(recognises(&bytes));
        let read = from_bytes(&bytes).unwrap();
        assert_eq!((&read.model, &read.groups), (&saved.model, &saved.groups));
        assert_eq!(bytes, to_bytes(&saved).unwrap());
        // A reader of version 1 reads models without a posterior, and no others.
        assert!(String::from_utf8_lossy(&bytes).contains("version\\\":1"));
        let saved = with_posterior();
        let bytes = to_bytes(&saved).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("version\\\":2"));
        let read = from_bytes(&bytes).unwrap();
        assert_eq!(bytes, to_bytes(&read).unwrap());
        let (covariance, reread_covariance) = (saved.covariance.unwrap(), read.covariance.unwrap());
        let (original, reread) = (
            Posterior::new(&saved.model, &covariance).unwrap(),
            Posterior::new(&read.model, &reread_covariance).unwrap(),
        );
        let functionals = original.functionals_at(&saved.model.support_points).unwrap();
        assert_eq!(original.covariance(&functionals), reread.covariance(&functionals));
    }

    /// A file without a checksum, as a program without checksums would write it.
    fn unsigned(saved: &SavedModel) -> Vec<u8> {
        let mut bytes = to_bytes(saved).unwrap();
        let key = br#"\"sha256\":"#;
        let start = bytes.windows(key.len()).position(|w| w == key).unwrap() + key.len();
        bytes[start..start + 68].copy_from_slice(format!("{:<68}", "null").as_bytes());
        bytes
    }

    #[test]
    fn one_changed_byte_is_refused_or_changes_nothing() {
        for saved in [example(), with_posterior()] {
            let bytes = to_bytes(&saved).unwrap();
            let arrays = |saved: &SavedModel| {
                let reductions =
                    saved.covariance.iter().flat_map(|c| &c.reduction).flat_map(reduction_arrays);
                reductions.map(|(name, array)| (name, array.bytes)).collect::<Vec<_>>()
            };
            for position in 0..bytes.len() {
                for flip in [0x01, 0x02, 0x10, 0x20, 0x80] {
                    let mut changed = bytes.clone();
                    changed[position] ^= flip;
                    let Ok(read) = from_bytes(&changed) else { continue };
                    assert_eq!((&read.model, &read.groups), (&saved.model, &saved.groups), "byte {position}");
                    assert!(
                        read.covariance.is_some() == saved.covariance.is_some()
                            && arrays(&read) == arrays(&saved)
                    );
                    let scales = |saved: &SavedModel| {
                        saved.covariance.as_ref().map(|c| (c.prior_scale, c.scale.clone()))
                    };
                    assert_eq!(scales(&read), scales(&saved), "byte {position}");
                }
            }
        }
        let damaged = patched_in(to_bytes(&example()).unwrap(), "example", "exemple");
        assert!(damaged.contains("the file is damaged"), "{damaged}");
        // Damage to the checksum's name is found too.
        let damaged = patched_in(to_bytes(&example()).unwrap(), "sha256", "s'a256");
        assert!(damaged.contains("unknown field `s'a256`"), "{damaged}");
    }

    fn patched(from: &str, to: &str) -> String {
        patched_in(unsigned(&example()), from, to)
    }

    fn patched_in(mut bytes: Vec<u8>, from: &str, to: &str) -> String {
        assert_eq!(from.len(), to.len());
        let start = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        bytes[start..start + from.len()].copy_from_slice(to.as_bytes());
        from_bytes(&bytes).unwrap_err().to_string()
    }

    /// Refits are a posterior of their own kind, which older versions do not read.
    #[test]
    fn refits_are_kept() {
        let mut saved = example();
        let kinds = [
            (Refitted::Drawn { seed: u64::MAX }, 3),
            (Refitted::Jackknife, 3),
            (Refitted::LandmarkDoubling, 5),
        ];
        for (method, version) in kinds {
            let coef = Matrix::from_row_major(2, 3, vec![0.5, -0.25, -0.25, 0.0, 1.0, -1.0]);
            let reduction =
                vec![VarianceReduction::RefitDifferences { coef, intercept: vec![0.0, 0.5, -0.5], method }];
            saved.covariance =
                Some(PosteriorCovariance { prior_scale: 0.0, mirror: None, reduction, scale: vec![1.0] });
            let bytes = to_bytes(&saved).unwrap();
            assert!(String::from_utf8_lossy(&bytes).contains(&format!("version\\\":{version}")));
            let reread = from_bytes(&bytes).unwrap();
            assert_eq!(bytes, to_bytes(&reread).unwrap());
            let covariance = reread.covariance.unwrap();
            let VarianceReduction::RefitDifferences { method: found, .. } = covariance.reduction[0] else {
                panic!()
            };
            assert_eq!(found, method);
        }
        saved.covariance.as_mut().unwrap().prior_scale = 1.0;
        assert!(to_bytes(&saved).unwrap_err().to_string().contains("no prior"));
    }

    #[test]
    fn posterior_precisions_are_kept() {
        let mut saved = example();
        let operator = Sparse::from_columns(2, [[(0, 1.0), (1, -1.0)]]).unwrap();
        let factor = Cholesky::from_packed(1, &[2.0], 1e-9).unwrap();
        saved.covariance = Some(PosteriorCovariance {
            prior_scale: 0.0,
            ..PosteriorCovariance::new(vec![VarianceReduction::Precision { operator, factor }], vec![1.0])
        });
        let bytes = to_bytes(&saved).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("version\\\":6"));
        let reread = from_bytes(&bytes).unwrap();
        assert_eq!(bytes, to_bytes(&reread).unwrap());
        let (original, covariance) = (saved.covariance.unwrap(), reread.covariance.unwrap());
        let variance = |covariance: &PosteriorCovariance| {
            let posterior = Posterior::new(&saved.model, covariance).unwrap();
            posterior.variance(&saved.model.support_points).unwrap()
        };
        assert_eq!(variance(&original), variance(&covariance));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(
            patched("version\\\":1", "version\\\":7"),
            "this model was written by a newer riesz (format 7); update riesz"
        );
        assert!(patched("riesz-model", "other-model").contains("'other-model'"));
        assert!(patched("[0,1]", "[0,9]").contains("counted from 0"));
        assert!(patched("\"F64\"", "\"I64\"").contains("does not fit"));
        assert!(patched("[\\\"a\\\",\\\"b\\\"]", "[\\\"a\\\"      ]").contains("not seen"));
        assert!(from_bytes(b"").is_err());
        assert!(from_bytes(b"svm_type c_svc").is_err());
        let refused = |change: &dyn Fn(&mut PosteriorCovariance)| {
            let mut saved = with_posterior();
            change(saved.covariance.as_mut().unwrap());
            to_bytes(&saved).unwrap_err().to_string()
        };
        assert!(refused(&|c| c.scale.truncate(2)).contains("the list of scales of a posterior has 2"));
        assert!(refused(&|c| c.reduction.truncate(2)).contains("one per output, or one for all"));
        assert!(refused(&|c| c.prior_scale = f64::NAN).contains("not negative"));
        assert!(
            refused(&|c| c.reduction[2] = VarianceReduction::Dense(Matrix::zeros(3, 3)))
                .contains("one per support point")
        );
        assert!(
            refused(
                &|c| c.reduction[2] = VarianceReduction::LowRank(Matrix::column_vector(vec![f64::NAN; 2]))
            )
            .contains("finite")
        );
    }

    fn finite(saved: &SavedModel) -> bool {
        saved.model.validate().is_ok()
            && saved.model.support_points.column_major().iter().all(|v| v.is_finite())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn corruption_never_panics(hits in proptest::collection::vec((0usize..100_000, any::<u8>()), 1..6)) {
            let mut bytes = unsigned(&with_posterior());
            let n = bytes.len();
            for (position, byte) in hits {
                bytes[position % n] = byte;
            }
            if let Ok(saved) = from_bytes(&bytes) {
                prop_assert!(finite(&saved));
                if let Some(covariance) = &saved.covariance {
                    let posterior = Posterior::new(&saved.model, covariance).unwrap();
                    // Absurd numbers may overflow, which is an error; nothing panics.
                    let _ = posterior.sd(&saved.model.support_points);
                }
            }
        }

        #[test]
        fn truncation_is_noticed(cut in 0usize..100_000) {
            let mut bytes = to_bytes(&with_posterior()).unwrap();
            bytes.truncate(cut % bytes.len());
            prop_assert!(from_bytes(&bytes).is_err());
        }
    }
}
