//! Several files as one table, in units of work that can be read repeatedly and in any order.

use std::ops::Range;
use std::path::{Path, PathBuf};

use riesz::fit::nystrom::{LabelledRows, RowSource};
use riesz::{Column, ColumnKind, Matrix, Table};
use serde::{Deserialize, Serialize};

use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::chunk::CHUNK;
use crate::io::columns::{Columns, sorted_levels};
use crate::io::input::{OpenTable, ReadOptions, TableFile, name_of};
use crate::io::model_rows::{CellPolicy, MissingCells, ModelRows, UnseenLevels};

/// Smallest number of rows of a unit, unless the file has fewer.
const UNIT: u64 = 1 << 17;

/// A file, with its state when the plan was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataFile {
    path: PathBuf,
    bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    modified: u128,
    /// Number of rows of each row group; empty for text files, whose numbers of rows are unknown beforehand.
    groups: Vec<u64>,
}

/// A unit of work: some row groups of a file, or all of it.
#[derive(Debug, Clone, PartialEq)]
struct Unit {
    file: usize,
    groups: Option<Range<usize>>,
}

/// Files with the same columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    files: Vec<DataFile>,
    options: ReadOptions,
}

/// The roles of columns in a fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Roles {
    /// Features, with the levels of categories.
    pub features: Vec<Column>,
    /// Targets.
    pub targets: Vec<String>,
    /// The column of weights.
    pub weights: Option<String>,
    /// The units of the features whose numbers have one.
    #[serde(default)]
    pub units: Vec<(String, String)>,
    /// The names of the classes of a single target.
    #[serde(default)]
    pub classes: Option<Vec<String>>,
}

/// Extensions of tables in a folder.
const TABLE_ENDINGS: [&str; 8] =
    [".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".feather", ".arrow", ".arrows"];

/// Whether a file in a folder is a table by its extension. Names that begin with `.` or `_` are metadata of
/// other programs.
fn has_name_of_a_table(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let name = name.to_string_lossy().to_lowercase();
    let uncompressed = [".gz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    !name.starts_with(['.', '_']) && TABLE_ENDINGS.iter().any(|ending| uncompressed.ends_with(ending))
}

/// The files that `paths` name: the files themselves, all tables of a folder, or the matches of a pattern
/// with `*`, `?` and `[…]`; in the order of their names.
fn expanded(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut expanded = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|e| Failure::reading(&name_of(path), &e))?;
            let mut tables: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            tables.retain(|path| has_name_of_a_table(path));
            tables.sort();
            if tables.is_empty() {
                return Err(Failure::input(format!(
                    "{} has no file whose name ends in {} (or in one of these and .gz or .zst): name the \
                     files",
                    name_of(path),
                    TABLE_ENDINGS.join(", ")
                )));
            }
            expanded.extend(tables);
        } else if !path.exists() && path.to_string_lossy().contains(['*', '?', '[']) {
            let pattern = path.to_string_lossy();
            let matching = glob::glob(&pattern)
                .map_err(|e| Failure::input(format!("'{pattern}' is no pattern of file names: {e}")))?;
            let before = expanded.len();
            expanded.extend(matching.filter_map(std::result::Result::ok));
            if expanded.len() == before {
                return Err(Failure::input(format!("no file matches '{pattern}'")));
            }
        } else {
            expanded.push(path.clone());
        }
    }
    Ok(expanded)
}

/// The size of a file, and the time of its last change.
fn state(path: &Path) -> Result<(u64, u128)> {
    let facts = std::fs::metadata(path).map_err(|e| Failure::reading(&name_of(path), &e))?;
    let since =
        facts.modified().ok().and_then(|modified| modified.duration_since(std::time::UNIX_EPOCH).ok());
    Ok((facts.len(), since.map_or(0, |since| since.as_nanos())))
}

impl Dataset {
    /// Reads the sizes and row groups of the files. Standard input cannot be read again, and is refused.
    pub fn open(paths: &[PathBuf], template: &TableFile) -> Result<Self> {
        let mut files = Vec::new();
        for path in expanded(paths)? {
            if path.as_os_str() == "-" {
                return Err(Failure::input(
                    "a fit through landmarks reads its rows several times, but standard input can be read \
                     only once: write them to a file",
                ));
            }
            // The canonical path stays valid if the work continues from another folder.
            let path = std::fs::canonicalize(&path).map_err(|e| Failure::reading(&name_of(&path), &e))?;
            let table = TableFile { path: path.clone(), ..template.clone() }.open()?;
            let (bytes, modified) = state(&path)?;
            files.push(DataFile { bytes, modified, groups: table.groups(), path });
        }
        let is_duplicate = |k: usize| files[..k].iter().any(|f: &DataFile| f.path == files[k].path);
        if let Some(k) = (0..files.len()).find(|k| is_duplicate(*k)) {
            return Err(Failure::input(format!(
                "{} is named twice, so its rows would count twice: name it once",
                name_of(&files[k].path)
            )));
        }
        Ok(Self { files, options: template.options.clone() })
    }

    /// The name of the data set.
    pub fn name(&self) -> String {
        match &self.files[..] {
            [one] => name_of(&one.path),
            all => format!("{} and {} more", name_of(&all[0].path), all.len() - 1),
        }
    }

    fn table(&self, file: usize) -> TableFile {
        TableFile { path: self.files[file].path.clone(), options: self.options.clone() }
    }

    /// The first file.
    pub fn first(&self) -> Result<OpenTable> {
        self.table(0).open()
    }

    /// The units of work: whole row groups of at least 131,072 rows together, or the rest of a file.
    fn units(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        for (file, facts) in self.files.iter().enumerate() {
            if facts.groups.is_empty() {
                units.push(Unit { file, groups: None });
            }
            let (mut start, mut rows) = (0, 0);
            for (k, group_rows) in facts.groups.iter().enumerate() {
                rows += group_rows;
                if (rows >= UNIT || k + 1 == facts.groups.len()) && rows > 0 {
                    units.push(Unit { file, groups: Some(start..k + 1) });
                    (start, rows) = (k + 1, 0);
                }
            }
        }
        units
    }

    /// The number of units.
    pub fn count(&self) -> u64 {
        self.units().len() as u64
    }

    fn open_unit(&self, unit: &Unit) -> Result<OpenTable> {
        let facts = &self.files[unit.file];
        let size =
            std::fs::metadata(&facts.path).map_err(|e| Failure::reading(&name_of(&facts.path), &e))?.len();
        if size != facts.bytes {
            let name = name_of(&facts.path);
            return Err(Failure::input(format!(
                "{name} has changed since the plan was made: start again with another checkpoint"
            )));
        }
        let mut table = self.table(unit.file).open()?;
        if let Some(groups) = &unit.groups {
            table.restrict_to_groups(groups.clone());
        }
        Ok(table)
    }

    /// The first rows of the columns `names`, which decide the columns' types and units.
    pub fn first_rows(&self, names: &[String]) -> Result<Columns> {
        let mut first = self.open_unit(&self.units()[0])?;
        let indices = first.column_indices(names)?;
        let chunk = first.next(&indices, CHUNK)?;
        Columns::from_chunks(first.name.clone(), first.rules.clone(), chunk.into_iter().collect(), names)
    }

    /// The types of the columns `names`. Columns with text and those in `categorical` have the levels that
    /// occur in any file.
    pub fn features(
        &self,
        first_rows: &Columns,
        names: &[String],
        categorical: &[String],
        console: &Console,
    ) -> Result<Vec<Column>> {
        let mut text = Vec::new();
        for name in names {
            if categorical.contains(name) || first_rows.is_categorical(name, true)? {
                text.push(name.clone());
            }
        }
        let mut levels: Vec<Vec<String>> = vec![Vec::new(); text.len()];
        if !text.is_empty() {
            for unit in self.units() {
                let unit_columns = Columns::read(self.open_unit(&unit)?, &text)?;
                for (name, column_levels) in text.iter().zip(&mut levels) {
                    column_levels.extend(unit_columns.levels(name)?.0);
                    column_levels.sort_unstable();
                    column_levels.dedup();
                }
            }
        }
        let mut levels = text
            .iter()
            .zip(levels.into_iter().map(sorted_levels))
            .collect::<std::collections::HashMap<_, _>>();
        let column_of = |name: &String| match levels.remove(name) {
            Some(levels) => {
                console.note(format!("categorical column '{name}': {} levels", levels.len()));
                Column { name: name.clone(), kind: ColumnKind::Categorical { levels } }
            }
            None => Column::numeric(name),
        };
        Ok(names.iter().map(column_of).collect())
    }

    /// A reader of the rows, with the roles of the columns.
    pub fn rows(&self, roles: &Roles) -> Reading<'_> {
        Reading { data: self, units: self.units(), roles: roles.clone() }
    }
}

/// A reader of a data set in units of work.
pub struct Reading<'d> {
    data: &'d Dataset,
    units: Vec<Unit>,
    roles: Roles,
}

impl Reading<'_> {
    /// Describes a unit.
    pub fn describe(&self, unit: u64) -> Result<String> {
        let described = self.unit(unit)?;
        Ok(format!(
            "{} {}",
            name_of(&self.data.files[described.file].path),
            described.groups.as_ref().map_or(String::new(), |g| format!(
                "row groups {} to {}",
                g.start,
                g.end - 1
            ))
        ))
    }

    fn unit(&self, unit: u64) -> Result<&Unit> {
        let found_unit = usize::try_from(unit).ok().and_then(|k| self.units.get(k));
        found_unit.ok_or_else(|| {
            Failure::input(format!(
                "there is no unit {unit}: there are {} units, counted from 0",
                self.units.len()
            ))
        })
    }
}

impl RowSource for Reading<'_> {
    type Failure = Failure;

    fn read(&mut self, unit: u64, work: &mut dyn FnMut(&LabelledRows) -> riesz::Result<()>) -> Result<()> {
        let Roles { features, targets, weights, classes, .. } = &self.roles;
        let table = self.data.open_unit(self.unit(unit)?)?;
        let name = table.name.clone();
        let target = |name: &String| match classes {
            Some(levels) => {
                Column { name: name.clone(), kind: ColumnKind::Categorical { levels: levels.clone() } }
            }
            None => Column::numeric(name),
        };
        let other_columns = targets.iter().map(target).chain(weights.iter().map(Column::numeric));
        let columns: Vec<Column> = features.iter().cloned().chain(other_columns).collect();
        let missing = MissingCells::Refuse(self.data.options.missing_remedy);
        let policy = CellPolicy { missing, unseen: UnseenLevels::Refuse("") };
        let unit = |column: &Column| {
            let stated = self.roles.units.iter().find(|(name, _)| *name == column.name);
            stated.map(|(_, unit)| unit.clone())
        };
        let units = columns.iter().map(unit).collect();
        let mut rows = ModelRows::new(table, &columns, policy, columns.len())?.with_units(units);
        while let Some(chunk) = rows.next()? {
            let (n, d, t) = (chunk.rows(), features.len(), targets.len());
            let values = chunk.column_major();
            let x = Table::from_column_major(features.clone(), n, values[..d * n].to_vec())?;
            let y = (0..n * t).map(|k| values[(d + k % t) * n + k / t]).collect();
            let weights = weights.is_some().then(|| values[(d + t) * n..].to_vec());
            let about_file = |e: riesz::Error| Failure::from(e).about(&name);
            work(&LabelledRows::new(x, Matrix::from_row_major(n, t, y), weights).map_err(about_file)?)
                .map_err(about_file)?;
        }
        Ok(())
    }
}

/// The path of a single table that can be read whole; `None` for several files, folders and patterns.
pub fn single(paths: &[PathBuf]) -> Option<&Path> {
    match paths {
        [path] if !path.is_dir() && (path.exists() || !path.to_string_lossy().contains(['*', '?', '['])) => {
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Format;
    use crate::io::write::{Cells, TableWriter};

    /// Every row of every file is in exactly one unit, in whole row groups. A unit that does not exist is
    /// refused.
    #[test]
    fn units_cover_all_rows() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, groups: &[usize]| {
            let names = vec!["a".into(), "b".into(), "y".into()];
            let empty = vec![Cells::Numbers(vec![]), Cells::Texts(vec![]), Cells::Numbers(vec![])];
            let path = folder.path().join(name);
            let mut writer = TableWriter::open(Some(&path), Format::Parquet, names, empty).unwrap();
            for (g, rows) in groups.iter().enumerate() {
                let a = (0..*rows).map(|i| (g * 1000 + i) as f64).collect();
                let b = (0..*rows).map(|i| if (i + g) % 2 == 0 { "10" } else { "9" }.to_string()).collect();
                writer
                    .rows(vec![Cells::Numbers(a), Cells::Texts(b), Cells::Numbers(vec![g as f64; *rows])])
                    .unwrap();
            }
            writer.finish().unwrap();
        };
        write("one.parquet", &[100, 70]);
        write("two.parquet", &[30]);
        std::fs::write(folder.path().join("three.csv"), "y,b,a\n7,9,0.5\n8,10,1.5\n").unwrap();
        let template = TableFile::from_path(Path::new(""));
        let data = Dataset::open(&[folder.path().to_path_buf()], &template).unwrap();
        let names = ["b".into(), "a".into()];
        let first_rows = data.first_rows(&names).unwrap();
        let features = data.features(&first_rows, &names, &["b".into()], &Console::new(true)).unwrap();
        assert_eq!(features[0].kind, ColumnKind::Categorical { levels: vec!["9".into(), "10".into()] });
        let mut reading = data.rows(&Roles {
            features,
            targets: vec!["y".into()],
            weights: None,
            units: Vec::new(),
            classes: None,
        });
        let (mut rows, mut targets, mut levels) = (0, 0.0, 0.0);
        for unit in 0..data.count() {
            reading
                .read(unit, &mut |part| {
                    rows += part.len();
                    targets += part.y.data().iter().sum::<f64>();
                    levels += part.x.column(0).iter().sum::<f64>();
                    Ok(())
                })
                .unwrap();
        }
        // 70 rows of the second group have the target 1.
        assert_eq!((rows, targets, levels), (202, 15.0 + 70.0, 101.0));
        assert!(reading.read(99, &mut |_| Ok(())).is_err());
        let named = [folder.path().join("o*.parquet"), folder.path().join("one.parquet")];
        assert!(format!("{:?}", Dataset::open(&named, &template)).contains("named twice"));
        assert!(Dataset::open(&[folder.path().join("x*.parquet")], &template).is_err());
        // A single row group can be read alone.
        let mut open = data
            .table(data.files.iter().position(|f| f.groups.len() > 1 || f.groups == [170]).unwrap())
            .open()
            .unwrap();
        let groups = open.groups();
        open.restrict_to_groups(groups.len() - 1..groups.len());
        let indices = open.column_indices(&["a".into()]).unwrap();
        let mut row_count = 0;
        while let Some(chunk) = open.next(&indices, 50).unwrap() {
            row_count += chunk.rows as u64;
        }
        assert_eq!(row_count, groups[groups.len() - 1]);
    }
}
