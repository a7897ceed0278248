//! The table of files to touch in CONTRIBUTING.md agrees with the sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files that read other packages' models, and may name all kernels and estimators.
const IMPORTERS: [&str; 4] = [
    "python/riesz/_models/scikit_learn.py",
    "python/riesz/_models/scikit_learn_kernels.py",
    "python/riesz/_models/gpytorch.py",
    "python/riesz/_models/gpytorch_kernels.py",
];

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, files);
        } else if entry.extension().is_some_and(|end| end == "rs" || end == "py") {
            files.push(entry);
        }
    }
}

/// Returns the program text of a file, without comments, tests or documentation.
fn code(text: &str, python: bool) -> String {
    if python {
        let statements = text.split("\"\"\"").step_by(2).collect::<Vec<_>>().join(" ");
        return statements
            .lines()
            .map(|line| line.split("# ").next().unwrap_or(""))
            .collect::<Vec<_>>()
            .join("\n");
    }
    let program = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let examples = "\"\\\nExamples:";
    let kept = match program.split_once(examples) {
        Some((before, remainder)) => {
            format!("{before}{}", remainder.split_once('"').map_or("", |(_, after)| after))
        }
        None => program.to_string(),
    };
    kept.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn mentions(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.split(|c| !part(c)).any(|token| token == word)
}

fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(String::from).collect()
}

#[test]
fn files_to_touch_match_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in [
        "crates/riesz-core/src",
        "crates/riesz-explain/src",
        "crates/riesz-fit/src",
        "crates/riesz/src",
        "crates/riesz-cli/src",
        "crates/riesz-report/src",
        "crates/riesz-python/src",
        "python/riesz",
    ] {
        sources(&root.join(folder), &mut files);
    }
    let sources: Vec<(String, String)> = files
        .iter()
        .map(|path| {
            let text = code(&std::fs::read_to_string(path).unwrap(), path.extension().unwrap() == "py");
            (path.strip_prefix(&root).unwrap().to_str().unwrap().to_string(), text)
        })
        .collect();
    let guide = std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let rows = guide.lines().skip_while(|line| !line.starts_with("| to add |")).skip(2);
    let mut counted = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let words = quoted(cells[3]);
        let claimed: BTreeSet<String> =
            quoted(cells[2]).into_iter().filter(|path| path.contains('/')).collect();
        if words.is_empty() {
            continue;
        }
        // A file need not contain its own name.
        let has_word_in_path = |path: &str| {
            claimed.contains(path) && words.iter().any(|word| path.contains(&format!("/{word}.")))
        };
        let actual: BTreeSet<String> = sources
            .iter()
            .filter(|(path, text)| words.iter().any(|word| mentions(text, word)) || has_word_in_path(path))
            .map(|(path, _)| path.clone())
            .filter(|path| !IMPORTERS.contains(&path.as_str()))
            .collect();
        assert_eq!(actual, claimed, "{}", cells[1]);
        counted += 1;
    }
    assert_eq!(counted, 11);
    let is_file = |text: &String| [".rs", ".py", ".md"].iter().any(|end| text.ends_with(end));
    for path in guide.lines().flat_map(quoted).filter(is_file) {
        assert!(root.join(&path).exists(), "CONTRIBUTING.md names {path}, which does not exist");
    }
}
