//! Model files: a [safetensors](https://github.com/huggingface/safetensors) container with the arrays
//! `points` (n × d), `coef` (n × outputs) and `intercept` (outputs), all F64 and row-major, and in its metadata
//! under `riesz` one JSON record with everything else. No code is ever run from such a file.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::expansion::{Expansion, Link};
use crate::explanation::Fact;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::{Column, Groups, Table};

/// The format's name in the file.
pub const FORMAT: &str = "riesz-model";
/// The version that this library writes, and the newest it reads.
pub const VERSION: u64 = 1;

/// A model and the players by which it is meant to be explained.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedModel {
    /// The model.
    pub model: Expansion,
    /// The players, if they are not simply the columns.
    pub groups: Option<Groups>,
}

#[derive(Serialize, Deserialize)]
struct Tag {
    format: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct Group {
    name: String,
    columns: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    format: String,
    version: u64,
    columns: Vec<Column>,
    kernel: Kernel,
    outputs: Vec<String>,
    link: Link,
    classes: Vec<String>,
    card: Vec<Fact>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<Group>>,
}

/// One array on its way into the container.
struct Array {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    fn new(shape: Vec<usize>, numbers: impl Iterator<Item = f64>) -> Self {
        Self { shape, bytes: numbers.flat_map(f64::to_le_bytes).collect() }
    }
}

impl View for Array {
    fn dtype(&self) -> Dtype {
        Dtype::F64
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

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::Format { problem: format!("this is not a riesz model file, or it is damaged: {what}") }
}

/// Whether `bytes` look like a model file, judging by their beginning.
pub fn recognises(bytes: &[u8]) -> bool {
    bytes.len() > 8 && bytes[8] == b'{' && bytes[6..8] == [0, 0]
}

/// The file's bytes. The same model gives the same bytes.
///
/// # Errors
/// As [`Expansion::validate`]; [`Error::Format`] if names make the header too large.
pub fn to_bytes(saved: &SavedModel) -> Result<Vec<u8>> {
    let model = &saved.model;
    model.validate()?;
    let names = |columns: &[usize]| columns.iter().map(|&j| model.columns()[j].name.clone()).collect();
    let record = Record {
        format: FORMAT.into(),
        version: VERSION,
        columns: model.columns().to_vec(),
        kernel: model.kernel.clone(),
        outputs: model.output_names.clone(),
        link: model.link,
        classes: model.classes.clone(),
        card: model.card.clone(),
        groups: saved.groups.as_ref().map(|groups| {
            let group = |p: &crate::table::Player| Group { name: p.name.clone(), columns: names(&p.columns) };
            groups.players().iter().map(group).collect()
        }),
    };
    let text = serde_json::to_string(&record).map_err(|e| Error::Format { problem: e.to_string() })?;
    let (n, d, m) = (model.points.rows(), model.points.width(), model.outputs());
    let points = (0..n).flat_map(|i| (0..d).map(move |j| (i, j))).map(|(i, j)| model.points.get(i, j));
    let arrays = [
        ("points", Array::new(vec![n, d], points)),
        ("coef", Array::new(vec![n, m], model.coef.data().iter().copied())),
        ("intercept", Array::new(vec![m], model.intercept.iter().copied())),
    ];
    safetensors::serialize(arrays, Some(HashMap::from([("riesz".to_string(), text)])))
        .map_err(|e| Error::Format { problem: format!("the model cannot be written: {e}") })
}

/// Reads what [`to_bytes`] wrote, from anyone.
///
/// # Errors
/// [`Error::Format`] for anything else, and as [`Expansion::validate`] for contents that are not a model.
pub fn from_bytes(bytes: &[u8]) -> Result<SavedModel> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let text = header
        .metadata()
        .as_ref()
        .and_then(|map| map.get("riesz"))
        .ok_or_else(|| damaged("it is a safetensors file without a riesz record"))?;
    let tag: Tag = serde_json::from_str(text).map_err(damaged)?;
    super::check_tag(&tag.format, tag.version, FORMAT, VERSION, "model")?;
    let record: Record = serde_json::from_str(text).map_err(damaged)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let (m, d) = (record.outputs.len(), record.columns.len());
    let intercept = numbers(&tensors, "intercept", &[Some(m)])?.1;
    let (n, rows) = numbers(&tensors, "points", &[None, Some(d)])?;
    let coef = numbers(&tensors, "coef", &[Some(n), Some(m)])?.1;
    let columns = (0..d).flat_map(|j| (0..n).map(move |i| (i, j))).map(|(i, j)| rows[i * d + j]).collect();
    let model = Expansion {
        points: Table::from_column_major(record.columns, n, columns)?,
        kernel: record.kernel,
        coef: Matrix::from_row_major(n, m, coef),
        intercept,
        output_names: record.outputs,
        link: record.link,
        classes: record.classes,
        card: record.card,
    };
    model.validate()?;
    distinct(&model.output_names)?;
    distinct(&model.classes)?;
    let groups = match record.groups {
        None => None,
        Some(groups) => {
            let named: Vec<(String, Vec<String>)> = groups.into_iter().map(|g| (g.name, g.columns)).collect();
            Some(Groups::named(model.columns(), &named)?)
        }
    };
    Ok(SavedModel { model, groups })
}

fn distinct(names: &[String]) -> Result<()> {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::DuplicateName { name: pair[0].clone() }),
        None => Ok(()),
    }
}

/// The array `name`, which must be F64 with the given sizes (`None`: any), and its first size.
fn numbers(tensors: &SafeTensors<'_>, name: &str, shape: &[Option<usize>]) -> Result<(usize, Vec<f64>)> {
    let tensor = tensors.tensor(name).map_err(|_| damaged(format!("there is no array '{name}'")))?;
    let fits = tensor.shape().len() == shape.len()
        && tensor.shape().iter().zip(shape).all(|(found, wanted)| wanted.is_none_or(|w| w == *found));
    if !fits || tensor.dtype() != Dtype::F64 {
        let (kind, found) = (tensor.dtype(), tensor.shape());
        return Err(damaged(format!(
            "its array '{name}' is {kind:?} {found:?}, which does not fit its record"
        )));
    }
    let (chunks, rest) = tensor.data().as_chunks::<8>();
    let size = tensor.shape().iter().try_fold(1usize, |a, b| a.checked_mul(*b));
    if !rest.is_empty() || size != Some(chunks.len()) {
        return Err(damaged(format!("its array '{name}' is cut off")));
    }
    Ok((tensor.shape()[0], chunks.iter().map(|b| f64::from_le_bytes(*b)).collect()))
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
        let mut model = Expansion::new(kernel, points, coef, vec![3.0]).unwrap();
        model.card.push(Fact::new("model", "example"));
        let groups = Groups::named(model.columns(), &[("g", vec!["x", "c"])]).unwrap();
        SavedModel { model, groups: Some(groups) }
    }

    #[test]
    fn round_trips_and_is_reproducible() {
        let saved = example();
        let bytes = to_bytes(&saved).unwrap();
        assert!(recognises(&bytes));
        assert_eq!(from_bytes(&bytes).unwrap(), saved);
        assert_eq!(bytes, to_bytes(&saved).unwrap());
    }

    fn patched(from: &str, to: &str) -> String {
        assert_eq!(from.len(), to.len());
        let mut bytes = to_bytes(&example()).unwrap();
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        from_bytes(&bytes).unwrap_err().to_string()
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(
            patched("version\\\":1", "version\\\":2"),
            "this model was written by a newer riesz (format 2); update riesz"
        );
        assert!(patched("riesz-model", "other-model").contains("'other-model'"));
        assert!(patched("[0,1]", "[0,9]").contains("counted from 0"));
        assert!(patched("\"F64\"", "\"I64\"").contains("does not fit"));
        assert!(patched("[\\\"a\\\",\\\"b\\\"]", "[\\\"a\\\"      ]").contains("not seen"));
        assert!(from_bytes(b"").is_err());
        assert!(from_bytes(b"svm_type c_svc").is_err());
    }

    fn finite(saved: &SavedModel) -> bool {
        saved.model.validate().is_ok() && saved.model.points.column_major().iter().all(|v| v.is_finite())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn corruption_never_panics(hits in proptest::collection::vec((0usize..100_000, any::<u8>()), 1..6)) {
            let mut bytes = to_bytes(&example()).unwrap();
            let n = bytes.len();
            for (at, byte) in hits {
                bytes[at % n] = byte;
            }
            if let Ok(saved) = from_bytes(&bytes) {
                prop_assert!(finite(&saved));
            }
        }

        #[test]
        fn truncation_is_noticed(cut in 0usize..100_000) {
            let mut bytes = to_bytes(&example()).unwrap();
            bytes.truncate(cut % bytes.len());
            prop_assert!(from_bytes(&bytes).is_err());
        }
    }
}
