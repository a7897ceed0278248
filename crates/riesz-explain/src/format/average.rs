//! Files of averages over hyper-parameters: a [safetensors](https://github.com/huggingface/safetensors)
//! container with [model files](super::model) as arrays of bytes. `best` is the model with the best
//! hyper-parameters and `model.k` the k-th model of the average, whose weights are the array `weights` (F64).
//! The metadata holds, under `riesz`, a JSON record with the effective sample size and a checksum, as in
//! model files.

use std::collections::HashMap;

use riesz_core::model_average::{ModelAverage, WeightedModel};
use safetensors::tensor::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};

use super::FormatTag;
use super::model::{
    self, CHECKSUM_PLACEHOLDER, NamedArray, SavedModel, check_contents, checksum, damaged, read_f64_array,
    record_text,
};
use crate::error::{Error, Result};

/// The format's name in the file.
pub const FORMAT: &str = "riesz-average";
/// The newest version that this library reads.
pub const VERSION: u64 = 1;

/// A saved average over hyper-parameters.
#[derive(Debug, Clone)]
pub struct SavedAverage {
    /// The model with the best hyper-parameters.
    pub best: SavedModel,
    /// The average.
    pub average: ModelAverage,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AverageRecord {
    format: String,
    version: u64,
    effective_sample_size: f64,
    sha256: String,
}

/// Whether the beginning of `bytes` looks like a saved average.
pub fn recognises(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(1024)];
    model::recognises(bytes) && start.windows(FORMAT.len()).any(|window| window == FORMAT.as_bytes())
}

/// The bytes of the file. Equal averages give equal bytes.
///
/// # Errors
/// As [`model::to_bytes`].
pub fn to_bytes(saved: &SavedAverage) -> Result<Vec<u8>> {
    let models = &saved.average.models;
    let mut arrays = vec![
        ("best".to_string(), NamedArray::bytes(model::to_bytes(&saved.best)?)),
        ("weights".into(), NamedArray::list(models.iter().map(|part| part.weight))),
    ];
    for (k, WeightedModel { model, covariance, .. }) in models.iter().enumerate() {
        let part = SavedModel { model: model.clone(), covariance: covariance.clone(), groups: None };
        arrays.push((format!("model.{k}"), NamedArray::bytes(model::to_bytes(&part)?)));
    }
    let record = AverageRecord {
        format: FORMAT.into(),
        version: VERSION,
        effective_sample_size: saved.average.effective_sample_size,
        sha256: CHECKSUM_PLACEHOLDER.into(),
    };
    let text = serde_json::to_string(&record).map_err(|e| Error::format(e.to_string()))?;
    let parts = arrays.iter().map(|(name, array)| (name.as_str(), array.shape(), array.raw()));
    let text = text.replacen(CHECKSUM_PLACEHOLDER, &checksum(&text, parts), 1);
    safetensors::serialize(arrays, Some(HashMap::from([("riesz".to_string(), text)])))
        .map_err(|e| Error::format(format!("the average cannot be written: {e}")))
}

/// Reads a file that [`to_bytes`] wrote, from an untrusted source.
///
/// # Errors
/// As [`model::from_bytes`].
pub fn from_bytes(bytes: &[u8]) -> Result<SavedAverage> {
    let text = record_text(bytes)?;
    let tag: FormatTag = serde_json::from_str(&text).map_err(damaged)?;
    tag.check(FORMAT, VERSION, "average")?;
    let record: AverageRecord = serde_json::from_str(&text).map_err(damaged)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
    check_contents(&text, &tensors, &record.sha256)?;
    let read = |name: &str| {
        let tensor = tensors.tensor(name).map_err(|_| damaged(format!("there is no array '{name}'")))?;
        if tensor.dtype() != Dtype::U8 {
            return Err(damaged(format!("its array '{name}' does not hold bytes")));
        }
        model::from_bytes(tensor.data())
    };
    let weights = read_f64_array(&tensors, "weights", &[None])?.1;
    let is_distribution = weights.iter().all(|weight| (0.0..=1.0).contains(weight))
        && (weights.iter().sum::<f64>() - 1.0).abs() < 1e-9;
    if !is_distribution {
        return Err(damaged("its weights do not add up to 1"));
    }
    let best = read("best")?;
    let part = |(k, &weight): (usize, &f64)| {
        let SavedModel { model, covariance, .. } = read(&format!("model.{k}"))?;
        if model.columns() != best.model.columns() || model.output_names != best.model.output_names {
            return Err(damaged("its models have different columns or outputs"));
        }
        Ok(WeightedModel { weight, model, covariance })
    };
    let models = weights.iter().enumerate().map(part).collect::<Result<Vec<_>>>()?;
    let effective_sample_size = record.effective_sample_size;
    Ok(SavedAverage { best, average: ModelAverage { models, effective_sample_size } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::kernel_model::KernelExpansion;
    use crate::linalg::Matrix;
    use crate::posterior::{PosteriorCovariance, VarianceReduction};
    use crate::table::Table;

    fn example(scale: f64) -> (KernelExpansion, PosteriorCovariance) {
        let points = Table::from_rows(&[[0.1], [2.0]]).unwrap();
        let coef = Matrix::column_vector(vec![0.25 * scale, -1.5]);
        let model =
            KernelExpansion::new(scale * Kernel::gaussian(&[scale]), points, coef, vec![3.0]).unwrap();
        let reduction = VarianceReduction::LowRank(Matrix::column_vector(vec![0.25, -0.5]));
        (model, PosteriorCovariance::new(vec![reduction], vec![1.0]))
    }

    fn saved() -> SavedAverage {
        let part = |(weight, scale): (f64, f64)| {
            let (model, covariance) = example(scale);
            WeightedModel { weight, model, covariance: Some(covariance) }
        };
        let models = [(0.25, 1.0), (0.75, 2.0)].map(part).to_vec();
        let (model, covariance) = example(1.5);
        let best = SavedModel { model, covariance: Some(covariance), groups: None };
        SavedAverage { best, average: ModelAverage { models, effective_sample_size: 1.6 } }
    }

    #[test]
    fn round_trips() {
        let saved = saved();
        let bytes = to_bytes(&saved).unwrap();
        assert!(recognises(&bytes) && !recognises(&model::to_bytes(&saved.best).unwrap()));
        let read = from_bytes(&bytes).unwrap();
        assert_eq!(to_bytes(&read).unwrap(), bytes);
        assert_eq!(read.average.effective_sample_size, 1.6);
        for (read, saved) in read.average.models.iter().zip(&saved.average.models) {
            assert_eq!((read.weight, &read.model), (saved.weight, &saved.model));
        }
        assert!(model::from_bytes(&bytes).unwrap_err().to_string().contains("riesz-average"));
    }

    #[test]
    fn damaged_files_are_refused() {
        let bytes = to_bytes(&saved()).unwrap();
        for position in (0..bytes.len()).step_by(7) {
            let mut changed = bytes.clone();
            changed[position] ^= 0x02;
            if let Ok(read) = from_bytes(&changed) {
                assert_eq!(to_bytes(&read).unwrap(), bytes, "byte {position}");
            }
        }
        assert!(from_bytes(&bytes[..bytes.len() - 3]).is_err());
        let mut wrong = saved();
        wrong.average.models[0].weight = 0.5;
        assert!(from_bytes(&to_bytes(&wrong).unwrap()).unwrap_err().to_string().contains("add up to 1"));
    }
}
