//! Entries of model cards, which describe how a model was fitted (Mitchell et al. 2019), and of the
//! provenance of runs.

use serde::{Deserialize, Serialize};

/// An entry of a model card or of the provenance of a run: a name and a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardEntry {
    /// The name of the entry.
    pub name: String,
    /// Its value, in words or digits.
    pub value: String,
}

impl CardEntry {
    /// An entry with this name and value.
    pub fn new(name: impl Into<String>, value: impl ToString) -> Self {
        Self { name: name.into(), value: value.to_string() }
    }

    /// An entry with a measured number, to seven significant digits.
    pub fn measured(name: impl Into<String>, value: f64) -> Self {
        // Adding 0 turns -0 into 0.
        let value = value + 0.0;
        let size = value.abs();
        let text = if size == 0.0 || (1e-4..1e7).contains(&size) {
            let decimals = (6 - size.max(1e-4).log10().floor() as i32).max(0) as usize;
            let text = format!("{value:.decimals$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
        } else {
            let text = format!("{value:.6e}");
            match text.split_once('e') {
                Some((digits, power)) => {
                    format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
                }
                None => text,
            }
        };
        Self::new(name, text)
    }
}
