//! File formats. Readers take bytes from untrusted sources: they check everything, fail with an error that
//! describes the problem, and never panic.
//!
//! | format | holds |
//! |---|---|
//! | [`model`] | a fitted model: a safetensors file with one JSON record |
//! | [`explanation_json`] | an explanation: JSON |
//! | [`value_table`] | an explanation's values: the columns of a table |
//! | [`libsvm`] | LIBSVM's text models (`svm-train`, `svm_save_model`) |

pub mod explanation_json;
pub mod libsvm;
pub mod model;
pub mod value_table;

use crate::error::{Error, Result};

/// Checks the format name and version of a file.
fn check_tag(actual: &str, version: u64, wanted: &str, newest: u64, description: &str) -> Result<()> {
    if actual != wanted {
        return Err(Error::format(format!("this is not a riesz {description}: its format is '{actual}'")));
    }
    if version > newest {
        return Err(Error::format(format!(
            "this {description} was written by a newer riesz (format {version}); update riesz"
        )));
    }
    if version == 0 {
        return Err(Error::format(format!("this {description} has no valid format version")));
    }
    Ok(())
}
