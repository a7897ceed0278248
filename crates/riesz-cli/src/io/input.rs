//! Rows from a CSV or Parquet file, a few thousand at a time, as numbers or text.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use riesz::error::listed;
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Result};
use crate::io::chunk::Chunk;
use crate::io::csv::{CsvRows, Decimal};
use crate::io::parquet::ParquetRows;
use crate::io::svmlight::{self, SvmlightRows};

/// Where rows come from, and how to read them.
#[derive(Debug, Clone)]
pub struct TableFile {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    /// What separates the columns of a CSV file; by default a comma, or a tab in `.tsv` files.
    pub delimiter: Option<u8>,
    /// How its numbers are written, if it is CSV.
    pub decimal: Decimal,
    /// Names of the features 1, 2, … of a LIBSVM data file.
    pub features: Vec<String>,
}

/// Bytes that are looked at to tell a LIBSVM data file: its first row may be wide.
const LOOKED_AT: u64 = 1 << 16;

enum TableReader {
    Csv(CsvRows),
    Parquet(Box<ParquetRows>),
    Svmlight(Box<SvmlightRows>),
}

/// An open table.
pub struct OpenTable {
    /// What to call it in messages.
    pub name: String,
    /// Its file.
    pub path: Option<PathBuf>,
    header: Vec<String>,
    kind: TableReader,
    next: u64,
}

impl TableFile {
    /// A file that says itself how to read it.
    pub fn from_path(path: &Path) -> Self {
        let (delimiter, decimal) = (None, Decimal::default());
        Self { path: path.to_path_buf(), delimiter, decimal, features: Vec::new() }
    }

    /// The separator where none is given: spreadsheets that write decimal commas separate columns by semicolons.
    fn separator(&self) -> u8 {
        match self.decimal {
            Decimal::Point => b',',
            Decimal::Comma => b';',
        }
    }

    /// Opens the table and reads the names of its columns.
    pub fn open(&self) -> Result<OpenTable> {
        let name = name_of(&self.path);
        let fail = |e: std::io::Error| Failure::reading(&name, &e);
        let (mut source, seekable): (Box<dyn Read>, Option<File>) = if is_standard_input(&self.path) {
            (Box::new(std::io::stdin()), None)
        } else {
            let mut file = open_file(&self.path)?;
            // Pipes cannot go back.
            let seekable = file.rewind().is_ok().then(|| file.try_clone()).transpose().map_err(fail)?;
            (Box::new(file), seekable)
        };
        let mut magic = Vec::new();
        source.by_ref().take(4).read_to_end(&mut magic).map_err(fail)?;
        let extension = self.path.extension().map(|e| e.to_ascii_lowercase());
        let parquet = magic == b"PAR1" || extension.as_deref().is_some_and(|e| e == "parquet");
        let kind = match seekable {
            Some(file) if parquet => TableReader::Parquet(Box::new(ParquetRows::open(file, &name)?)),
            None if parquet => {
                // The footer comes last, and says where everything is.
                source.read_to_end(&mut magic).map_err(fail)?;
                TableReader::Parquet(Box::new(ParquetRows::open(Bytes::from(magic), &name)?))
            }
            _ => {
                source.by_ref().take(LOOKED_AT).read_to_end(&mut magic).map_err(fail)?;
                let sparse = svmlight::recognises(&magic);
                // What was looked at is put in front again.
                let rest = Box::new(std::io::Cursor::new(magic).chain(source));
                let tab = extension.is_some_and(|e| e == "tsv" || e == "tab");
                let delimiter = self.delimiter.unwrap_or(if tab { b'\t' } else { self.separator() });
                if sparse {
                    TableReader::Svmlight(Box::new(SvmlightRows::open(rest, &self.features, &name)?))
                } else {
                    TableReader::Csv(CsvRows::open(rest, delimiter, self.decimal, &name)?)
                }
            }
        };
        Ok(OpenTable { path: Some(self.path.clone()), ..OpenTable::new(name, kind)? })
    }
}

impl OpenTable {
    /// A CSV table from any source of bytes.
    pub fn csv(bytes: Box<dyn Read>, delimiter: u8, name: &str) -> Result<Self> {
        Self::new(name.to_string(), TableReader::Csv(CsvRows::open(bytes, delimiter, Decimal::Point, name)?))
    }

    /// A Parquet table that is in memory.
    pub fn parquet(bytes: Vec<u8>, name: &str) -> Result<Self> {
        Self::new(
            name.to_string(),
            TableReader::Parquet(Box::new(ParquetRows::open(Bytes::from(bytes), name)?)),
        )
    }

    fn new(name: String, kind: TableReader) -> Result<Self> {
        let header = match &kind {
            TableReader::Csv(rows) => rows.header().to_vec(),
            TableReader::Parquet(rows) => rows.header().to_vec(),
            TableReader::Svmlight(rows) => rows.header().to_vec(),
        };
        let mut sorted: Vec<&String> = header.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::input(format!(
                "{name}: two columns are called '{}': rename one of them",
                pair[0]
            )));
        }
        Ok(Self { name, path: None, header, kind, next: 0 })
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// What the file says under `key` beside its columns; CSV files say nothing.
    pub fn note(&self, key: &str) -> Option<String> {
        match &self.kind {
            TableReader::Csv(_) | TableReader::Svmlight(_) => None,
            TableReader::Parquet(rows) => rows.note(key),
        }
    }

    /// Rows of its row groups; none of text, whose rows are not known before they are read.
    pub fn groups(&self) -> Vec<u64> {
        match &self.kind {
            TableReader::Csv(_) | TableReader::Svmlight(_) => Vec::new(),
            TableReader::Parquet(rows) => rows.groups(),
        }
    }

    /// Goes on with these row groups alone.
    pub fn only_groups(&mut self, groups: std::ops::Range<usize>) {
        if let TableReader::Parquet(rows) = &mut self.kind {
            self.next = rows.only_groups(groups);
        }
    }

    /// The rows, if this is a LIBSVM data file.
    pub fn svmlight(&self) -> Option<&SvmlightRows> {
        match &self.kind {
            TableReader::Svmlight(rows) => Some(rows),
            _ => None,
        }
    }

    /// The places of the columns `names`.
    pub fn places<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<Vec<usize>> {
        let places: HashMap<&String, usize> = self.header.iter().enumerate().map(|(j, h)| (h, j)).collect();
        let place = |name: &String| {
            let beyond = || self.svmlight().and_then(|rows| rows.place(name));
            places.get(name).copied().or_else(beyond).ok_or_else(|| {
                let known = listed(&self.header);
                Failure::input(format!(
                    "{}: there is no column '{name}'; the columns are: {known}",
                    self.name
                ))
            })
        };
        names.into_iter().map(place).collect()
    }

    /// The next rows, at most `limit`, of the columns `wanted` (the same in every call); `None` after the last.
    pub fn next(&mut self, wanted: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let mut chunk = match &mut self.kind {
            TableReader::Csv(rows) => rows.next(wanted, limit)?,
            TableReader::Parquet(rows) => rows.next(wanted, limit)?,
            TableReader::Svmlight(rows) => rows.next(wanted, limit),
        };
        if let Some(chunk) = &mut chunk {
            chunk.first = self.next;
            self.next += chunk.rows as u64;
        }
        Ok(chunk)
    }
}

/// Opens a file for reading, with a message of our own for what cannot be read.
pub fn open_file(path: &Path) -> Result<File> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| Failure::reading(&name, &e))?;
    match file.metadata() {
        Ok(facts) if facts.is_dir() => Err(Failure::reading(&name, &std::io::ErrorKind::IsADirectory.into())),
        Ok(_) => Ok(file),
        Err(e) => Err(Failure::reading(&name, &e)),
    }
}

/// A whole file; `-` is standard input.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut source: Box<dyn Read> = match is_standard_input(path) {
        true => Box::new(std::io::stdin()),
        false => Box::new(open_file(path)?),
    };
    source.read_to_end(&mut bytes).map_err(|e| Failure::reading(&name_of(path), &e))?;
    Ok(bytes)
}

/// A file's name and the SHA-256 of what it holds, for whoever wants to know later whether it is still the same; standard input and pipes
/// have a name alone.
pub fn described(path: &Path) -> Result<String> {
    let name = name_of(path);
    if is_standard_input(path) || !std::fs::metadata(path).is_ok_and(|facts| facts.is_file()) {
        return Ok(name);
    }
    let (mut file, mut all, mut part) = (open_file(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part).map_err(|e| Failure::reading(&name, &e))? {
            0 => break,
            read => all.update(&part[..read]),
        }
    }
    let digest: String = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name} (SHA-256 {digest})"))
}

/// What to call a file in messages.
pub fn name_of(path: &Path) -> String {
    if is_standard_input(path) { "standard input".into() } else { path.display().to_string() }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}
