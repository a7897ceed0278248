//! Shared helpers of the command-line tests.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

/// Returns the path of the bundled diabetes data.
pub fn diabetes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/diabetes.csv")
}

/// A temporary folder for one test, removed at its end.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the names of the files in the folder.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub fn command(&self) -> Command {
        let mut command = Command::cargo_bin("riesz").unwrap();
        command.current_dir(self.folder.path());
        command
    }

    /// Runs `riesz` with words separated by spaces; `DIABETES` is the bundled file.
    pub fn run(&self, words: &str) -> Output {
        self.run_with(words, "")
    }

    pub fn run_with(&self, words: &str, stdin: impl Into<Vec<u8>>) -> Output {
        let diabetes = diabetes().display().to_string();
        let words = words.split_whitespace().map(|w| w.replace("DIABETES", &diabetes));
        self.command().args(words).write_stdin(stdin).output().unwrap()
    }

    /// Runs a command that must succeed; returns standard output and standard error.
    pub fn good(&self, words: &str) -> (String, String) {
        let output = self.run(words);
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{words}: {err}");
        (out, err)
    }

    /// Runs a command that must fail with exit code 2 and exactly one sentence, which contains `expected`.
    pub fn bad(&self, words: &str, expected: &str) -> String {
        self.bad_with(words, "", expected)
    }

    pub fn bad_with(&self, words: &str, stdin: impl Into<Vec<u8>>, expected: &str) -> String {
        let output = self.run_with(words, stdin);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{words}: {out}{err}");
        assert_eq!(err.lines().filter(|l| l.starts_with("error: ")).count(), 1, "{words}: {err}");
        assert!(!err.contains("panicked") && !err.contains("a bug in riesz"), "{words}: {err}");
        assert!(err.contains(expected), "{words}: expected '{expected}' in: {err}");
        assert!(
            self.files().iter().all(|f| !f.ends_with(".tmp")),
            "a temporary file is left: {:?}",
            self.files()
        );
        err
    }
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

pub fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

/// Returns the cells of a CSV text, header first.
pub fn cells(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader.records().map(|r| r.unwrap().iter().map(String::from).collect()).collect()
}

/// Checks that every estimate of a table is in its interval: `x` from `x_low` to `x_high`, or `mean` from
/// `low` to `high`. There must be at least one.
pub fn estimates_lie_in_their_intervals(table: &str) {
    let rows = cells(table);
    let place = |name: &str| rows[0].iter().position(|column| column == name);
    let prefixes = rows[0].iter().filter_map(|name| name.strip_suffix("_low"));
    let mut triples: Vec<[String; 3]> =
        prefixes.map(|x| [format!("{x}_low"), x.to_string(), format!("{x}_high")]).collect();
    if place("low").is_some() {
        triples.push(["low", "mean", "high"].map(String::from));
    }
    let positions = triples.iter().map(|names| names.each_ref().map(|name| place(name)));
    let positions: Vec<[usize; 3]> = positions.filter_map(|[l, x, h]| Some([l?, x?, h?])).collect();
    assert!(!positions.is_empty(), "{table}");
    for [low, estimate, high] in positions {
        for row in &rows[1..] {
            let [low, estimate, high] = [low, estimate, high].map(|position| number(&row[position]));
            assert!(low <= estimate && estimate <= high, "{}: {}", rows[0].join(","), row.join(","));
        }
    }
}
