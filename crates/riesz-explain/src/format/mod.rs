//! File formats. Readers take bytes from untrusted sources: they check everything, fail with an error that
//! describes the problem, and never panic.
//!
//! | format | holds |
//! |---|---|
//! | [`model`] | a fitted model: a safetensors file with one JSON record |
//! | [`average`] | an average of models over hyper-parameters |
//! | [`explanation_json`] | an explanation: JSON |
//! | [`value_table`] | an explanation's values: the columns of a table |
//! | [`libsvm`] | LIBSVM's text models (`svm-train`, `svm_save_model`) |

pub mod average;
pub mod explanation_json;
pub mod libsvm;
pub mod model;
pub mod value_table;

use serde::Deserialize;

use crate::error::{Error, Result};

/// The format name and version of a file.
#[derive(Deserialize)]
struct FormatTag {
    format: String,
    version: u64,
}

impl FormatTag {
    /// Checks that the file has this format, in a version that this library reads.
    fn check(&self, expected_format: &str, newest: u64, description: &str) -> Result<()> {
        let Self { format, version } = self;
        Err(Error::format(if format != expected_format {
            format!("this is not a riesz {description}: its format is '{format}'")
        } else if *version > newest {
            format!("this {description} was written by a newer riesz (format {version}); update riesz")
        } else if *version == 0 {
            format!("this {description} has no valid format version")
        } else {
            return Ok(());
        }))
    }
}
