//! Explanations as JSON: the fields of [`Explanation`] with a format name and a version, and the decisions of
//! a classifier for the rows.

use serde::{Deserialize, Serialize};

use super::FormatTag;
use crate::error::{Error, Result};
use crate::explanation::Explanation;
use crate::prediction::ClassDecisions;

/// The format's name in the file.
pub const FORMAT: &str = "riesz-explanation";
/// The version that is written and read. Versions 1 to 3 were never released.
pub const VERSION: u64 = 4;

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedExplanation {
    /// The explanation.
    pub explanation: Explanation,
    /// A classifier's decisions for the rows; `None` for regression, and if the file does not contain them.
    pub decisions: Option<ClassDecisions>,
}

impl From<Explanation> for SavedExplanation {
    fn from(explanation: Explanation) -> Self {
        Self { explanation, decisions: None }
    }
}

#[derive(Serialize)]
struct FileRecord<'e> {
    format: &'static str,
    version: u64,
    /// The dimensions of `values`: rows, outputs, sets of players.
    shape: [usize; 3],
    #[serde(flatten)]
    explanation: &'e Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<&'e ClassDecisions>,
}

/// The fields of the file other than the explanation.
#[derive(Deserialize)]
struct ExtraFields {
    #[serde(default)]
    decisions: Option<ClassDecisions>,
}

/// Writes `explanation`, with a classifier's decisions for its rows, as one JSON object.
///
/// # Errors
/// The errors of `writer`.
pub fn write(
    explanation: &Explanation,
    decisions: Option<&ClassDecisions>,
    writer: impl std::io::Write,
) -> std::io::Result<()> {
    let shape = [explanation.rows(), explanation.outputs(), explanation.sets()];
    let tagged = FileRecord { format: FORMAT, version: VERSION, shape, explanation, decisions };
    serde_json::to_writer(writer, &tagged).map_err(std::io::Error::from)
}

/// Whether the beginning of `bytes` looks like an explanation.
pub fn recognises(bytes: &[u8]) -> bool {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    bytes[start..].starts_with(b"{")
}

/// Reads a file that [`write`](fn@write) wrote.
///
/// # Errors
/// [`Error::Format`] for other content and for a newer version; the errors of [`Explanation::validate`] and
/// [`ClassDecisions::validate`].
pub fn read(bytes: &[u8]) -> Result<SavedExplanation> {
    let broken = |e: serde_json::Error| {
        Error::format(format!("this is not a riesz explanation, or it is damaged: {e}"))
    };
    let tag: FormatTag = serde_json::from_slice(bytes).map_err(broken)?;
    tag.check(FORMAT, VERSION, "explanation")?;
    if tag.version < VERSION {
        return Err(Error::format(format!(
            "this explanation was written by an older riesz (format {}): explain the rows again",
            tag.version
        )));
    }
    let explanation: Explanation = serde_json::from_slice(bytes).map_err(broken)?;
    let ExtraFields { decisions } = serde_json::from_slice(bytes).map_err(broken)?;
    explanation.validate()?;
    decisions.iter().try_for_each(|d| d.validate(explanation.rows(), explanation.outputs()))?;
    Ok(SavedExplanation { explanation, decisions })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::explanation::tests::any_explanation;
    use crate::explanation::{Exactness, Sampling};
    use crate::index::ValueIndex;

    fn bytes(explanation: &Explanation) -> Vec<u8> {
        let mut out = Vec::new();
        write(explanation, None, &mut out).unwrap();
        out
    }

    /// A file without the fields that have defaults.
    const FIRST: &str = r#"{"format":"riesz-explanation","version":4,"features":[{"name":"a","columns":[0]},{"name":"b","columns":[1]}],
        "output_names":["y"],"values":[0.1,0.2],"base_values":[1.0],"predictions":[1.5],"data":{"columns":
        [{"name":"a","kind":"numeric"},{"name":"b","kind":"numeric"}],"rows":1,"values":[1.0,2.0]},"row_numbers":[3],
        "exactness":{"kind":"exact","error_bound":[1e-15]},"provenance":{"game":"g","absent":"a","model":[],"run":[]}}"#;

    #[test]
    fn defaults_are_filled_in_and_other_files_refused() {
        let SavedExplanation { explanation: old, decisions: None } = read(FIRST.as_bytes()).unwrap() else {
            panic!("the file has no decisions")
        };
        assert_eq!((old.index, old.subsets.as_ref()), (ValueIndex::Shapley, None));
        assert!(recognises(FIRST.as_bytes()) && old.certificate().is_some_and(|c| !c.holds));
        let sampled = FIRST.replace(
            r#""kind":"exact","error_bound":[1e-15]"#,
            r#""kind":"estimated","std_error":[0.1,0.2],"evaluations":9,"seed":18446744073709551615"#,
        );
        let sampling = Some(Sampling { evaluations: 9, seed: u64::MAX });
        let expected = Exactness::Estimated { std_error: vec![0.1, 0.2], sampling };
        assert_eq!(read(sampled.as_bytes()).unwrap().explanation.exactness, expected);
        for (from, to, words) in [
            (FIRST, "{}", "not a riesz explanation"),
            (FIRST, "", "not a riesz explanation"),
            ("\"version\":4", "\"version\":5", "a newer riesz (format 5); update riesz"),
            ("\"version\":4", "\"version\":3", "an older riesz (format 3): explain the rows again"),
            ("[0.1,0.2]", "[0.1]", "the explanation's values has 1 numbers, but 2 are expected"),
            ("[1e-15]", "[-1e-15]", "below 0"),
            ("[3]", "[3,4]", "has 2 row numbers and 1 rows"),
            ("\"columns\":[1]", "\"columns\":[2]", "a column that is not in the data"),
            ("\"output_names\"", "\"subsets\":[[0],[2]],\"output_names\"", "[2] is not an ascending set"),
            ("\"output_names\"", "\"index\":\"own\",\"output_names\"", "it is shapley, owen"),
            ("\"output_names\"", "\"index\":\"banzhaf(5)\",\"output_names\"", "from 0 to 1"),
            ("\"output_names\"", "\"subsets\":[[0],[0,1]],\"output_names\"", "has no"),
        ] {
            let message = read(FIRST.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
            assert!(message.contains(words) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn impossible_uncertainties_are_refused() {
        let with_dispersion = |dispersion: &str| {
            let source = r#"{"kind":"bootstrap","draws":9,"seed":1}"#;
            let field = format!(r#""uncertainty":{{{dispersion},"source":{source}}},"features""#);
            FIRST.replacen("\"features\"", &field, 1)
        };
        let good = read(with_dispersion(r#""covariance":[4.0,1.0,1.0,9.0]"#).as_bytes()).unwrap().explanation;
        assert_eq!((good.sd(), good.covariance(0, 0).map(<[f64]>::len)), (Some(vec![2.0, 3.0]), Some(4)));
        assert!(String::from_utf8(bytes(&good)).unwrap().contains("\"shape\":[1,1,2]"));
        let sd_only = read(with_dispersion(r#""std":[2.0,3.0]"#).as_bytes()).unwrap().explanation;
        assert_eq!((sd_only.sd(), sd_only.covariance(0, 0)), (good.sd(), None));
        for (dispersion, words) in [
            (r#""covariance":[-4.0,1.0,1.0,9.0]"#, "below 0"),
            (r#""covariance":[4.0,1.0,1.5,9.0]"#, "is not symmetric"),
            (r#""covariance":[4.0,1.0,1.0]"#, "has 3 numbers, but 4 are expected"),
            (r#""covariance":[4.0,1e999,1.0,9.0]"#, "not a riesz explanation"),
            (r#""std":[2.0,-3.0]"#, "below 0"),
            (r#""std":[2.0]"#, "has 1 numbers, but 2 are expected"),
            (r#""variance":[2.0]"#, "no variant of enum Dispersion"),
        ] {
            let message = read(with_dispersion(dispersion).as_bytes()).unwrap_err().to_string();
            assert!(message.contains(words) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn decisions_stand_beside_the_explanation() {
        let explanation = read(FIRST.as_bytes()).unwrap().explanation;
        let decisions = ClassDecisions {
            meaning: vec!["log-odds of b".into()],
            classes: vec!["a".into(), "b".into()],
            chosen: Some(vec![1]),
            probabilities: vec![Some((1, vec![0.75]))],
        };
        let mut file = Vec::new();
        write(&explanation, Some(&decisions), &mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap().decisions.as_ref(), Some(&decisions));
        for (from, to) in [
            ("[0.75]", "[1.5]"),
            ("[0.75]", "[0.5,0.5]"),
            ("\"chosen\":[1]", "\"chosen\":[9]"),
            ("[\"log-odds of b\"]", "[]"),
        ] {
            let damaged = text.replacen(from, to, 1);
            assert!(damaged != text && read(damaged.as_bytes()).is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn round_trips_bit_for_bit(explanation in any_explanation(), pick in prop::collection::vec(0_usize..9, 1..4)) {
            let sets: Vec<usize> = pick.iter().map(|k| k % explanation.sets()).collect();
            let selection = explanation.select(&[0], &sets, &[0]);
            for explanation in [explanation, selection] {
                let reread = read(&bytes(&explanation)).unwrap().explanation;
                prop_assert_eq!(&reread, &explanation);
                // Zeros have signs.
                prop_assert_eq!(format!("{reread:?}"), format!("{explanation:?}"));
            }
        }

        #[test]
        fn corruption_never_panics(position: usize, byte: u8, cut: usize) {
            let mut damaged = FIRST.as_bytes().to_vec();
            let n = damaged.len();
            damaged[position % n] = byte;
            let _ = read(&damaged);
            damaged.truncate(cut % n);
            prop_assert!(read(&damaged).is_err());
        }
    }
}
