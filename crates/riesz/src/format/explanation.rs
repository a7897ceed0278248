//! Explanations as JSON: the fields of [`Explanation`] beside a format name and a version.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::explanation::Explanation;

/// The format's name in the file.
pub const FORMAT: &str = "riesz-explanation";
/// The version that this library writes, and the newest it reads.
pub const VERSION: u64 = 2;

#[derive(Serialize)]
struct Tagged<'e> {
    format: &'static str,
    version: u64,
    #[serde(flatten)]
    explanation: &'e Explanation,
}

#[derive(Deserialize)]
struct Tag {
    format: String,
    version: u64,
}

/// Writes `explanation` as one JSON object.
///
/// # Errors
/// Those of `writer`.
pub fn write(explanation: &Explanation, writer: impl std::io::Write) -> std::io::Result<()> {
    let tagged = Tagged { format: FORMAT, version: VERSION, explanation };
    serde_json::to_writer(writer, &tagged).map_err(std::io::Error::from)
}

/// Whether `bytes` look like an explanation, judging by their beginning.
pub fn recognises(bytes: &[u8]) -> bool {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    bytes[start..].starts_with(b"{")
}

/// Reads what [`write`](fn@write) wrote.
///
/// # Errors
/// [`Error::Format`] for anything else and for a newer version; as [`Explanation::validate`].
pub fn read(bytes: &[u8]) -> Result<Explanation> {
    let broken = |e: serde_json::Error| Error::Format {
        problem: format!("this is not a riesz explanation, or it is damaged: {e}"),
    };
    let tag: Tag = serde_json::from_slice(bytes).map_err(broken)?;
    super::check_tag(&tag.format, tag.version, FORMAT, VERSION, "explanation")?;
    let explanation: Explanation = serde_json::from_slice(bytes).map_err(broken)?;
    explanation.validate()?;
    Ok(explanation)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::explanation::Provenance;
    use crate::table::{Groups, Table};

    fn example() -> Explanation {
        let data = Table::from_rows(&[[1.0, 0.1], [2.0, -1e-300]]).unwrap();
        Explanation {
            players: Groups::singletons(data.columns()).players().to_vec(),
            output_names: vec!["y".into()],
            values: vec![0.1, 0.2, 0.3, 0.4],
            base_values: vec![1.0, 1.0],
            predictions: vec![1.3, 1.7],
            data,
            row_numbers: vec![3, 5],
            exactness: Exactness::Exact { residual: vec![0.0, 1e-17], bound: vec![1e-15, 1e-15] },
            provenance: Provenance::default(),
        }
    }

    fn bytes() -> Vec<u8> {
        let mut out = Vec::new();
        write(&example(), &mut out).unwrap();
        out
    }

    #[test]
    fn round_trips_bit_for_bit() {
        assert!(recognises(&bytes()));
        assert_eq!(read(&bytes()).unwrap(), example());
    }

    #[test]
    fn refuses_strangers() {
        assert!(read(b"{}").unwrap_err().to_string().contains("not a riesz explanation"));
        assert!(read(b"").is_err());
        let text = String::from_utf8(bytes()).unwrap();
        let newer = text.replace("\"version\":1", "\"version\":2");
        assert!(
            read(newer.as_bytes())
                .unwrap_err()
                .to_string()
                .contains("a newer riesz (format 2); update riesz")
        );
        let short = text.replace("[0.1,0.2,0.3,0.4]", "[0.1,0.2,0.3]");
        assert!(read(short.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn corruption_never_panics(at in 0usize..2000, byte: u8, cut in 0usize..2000) {
            let mut damaged = bytes();
            let n = damaged.len();
            damaged[at % n] = byte;
            let _ = read(&damaged);
            damaged.truncate(cut % n);
            prop_assert!(read(&damaged).is_err());
        }
    }
}
