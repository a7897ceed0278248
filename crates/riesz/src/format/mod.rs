//! File formats. Readers take bytes from strangers: they check everything, and answer with an error that says
//! what is wrong; they never panic.
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

/// Checks the name and version that a file carries.
fn check_tag(found: &str, version: u64, wanted: &str, newest: u64, what: &str) -> Result<()> {
    if found != wanted {
        return Err(Error::Format {
            problem: format!("this is not a riesz {what}: its format is '{found}'"),
        });
    }
    if version > newest {
        return Err(Error::Format {
            problem: format!("this {what} was written by a newer riesz (format {version}); update riesz"),
        });
    }
    if version == 0 {
        return Err(Error::Format { problem: format!("this {what} has no valid format version") });
    }
    Ok(())
}
