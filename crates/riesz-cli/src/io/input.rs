//! Tables from files and pipes, read in chunks of at most a few thousand rows, as numbers or text. The first
//! bytes of a file determine its format.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use encoding_rs::Encoding;
use encoding_rs_io::DecodeReaderBytesBuilder;
use riesz::columns::{Choice, MissingMarks, NumberFormat};
use riesz::error::listed;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::console::note_once;
use crate::exit::{Failure, Result};
use crate::io::arrow_ipc::ArrowRows;
use crate::io::chunk::Chunk;
use crate::io::csv::{CsvRows, Decimal};
use crate::io::parquet::{ParquetRows, Storage};
use crate::io::reader::{SeekableRead, TableReader};
use crate::io::svmlight::{self, SvmlightRows};
use crate::io::{json, sheets};

/// Options for reading tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadOptions {
    /// The delimiter of a text file; by default its first line determines it.
    pub delimiter: Option<u8>,
    /// The notation of numbers in texts; by default with points.
    pub decimal: Option<Decimal>,
    /// The encoding of a text file, by a WHATWG label; by default UTF-8, or that of a byte order mark.
    pub encoding: Option<String>,
    /// The sheet of a workbook; by default the only one that has cells.
    pub sheet: Option<String>,
    /// Columns with a stated type: numbers (`true`) or categories.
    pub columns: Vec<(String, bool)>,
    /// Texts and numbers that mean a missing value, besides the usual ones.
    pub na_values: Vec<String>,
    /// Names of the features 1, 2, … of LIBSVM data files.
    pub features: Vec<String>,
    /// Whether rows with a missing cell are left out.
    pub drop_missing: bool,
    /// The remedy at the end of messages about missing cells: an option of the command.
    #[serde(skip)]
    pub missing_remedy: &'static str,
}

/// A file of rows with its reading options.
#[derive(Debug, Clone)]
pub struct TableFile {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    /// Options for reading it.
    pub options: ReadOptions,
}

/// Rules for the meaning of a table's cells.
#[derive(Debug, Clone, Default)]
pub struct CellRules {
    /// The notation of numbers.
    pub format: NumberFormat,
    /// Marks of missing values besides the usual ones.
    pub missing: MissingMarks,
    /// Whether rows with a missing cell are left out.
    pub drop_missing: bool,
    /// The remedy at the end of messages about missing cells.
    pub missing_remedy: &'static str,
    choices: HashMap<String, Choice>,
}

impl CellRules {
    /// The user's statement of a column's type.
    pub fn choice(&self, column: &str) -> Option<Choice> {
        self.choices.get(column).copied()
    }
}

/// An open table.
pub struct OpenTable {
    /// The name of the table in messages.
    pub name: String,
    /// The file of the table, if there is one.
    pub path: Option<PathBuf>,
    /// The rules for its cells.
    pub rules: CellRules,
    /// The format, for `riesz inspect`.
    pub format: &'static str,
    header: Vec<String>,
    reader: Box<dyn TableReader>,
    next: u64,
}

/// Number of first bytes that determine the format, and number that suffices for binary formats.
const HEAD: usize = 512;
const MAGIC: usize = 16;

/// Formats that are recognised by their first bytes but cannot be read, with a description.
const UNREAD: [(&[u8], &str); 12] = [
    (b"BZh", "a file compressed with bzip2"),
    (b"\xfd7zXZ", "a file compressed with xz"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"FEA1", "a Feather file of version 1"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x80\x04\x95", "a pickle of Python"),
    (b"\x80\x05\x95", "a pickle of Python"),
    (b"SQLite format 3", "an SQLite database"),
    (b"%PDF", "a PDF document"),
    (b"<!DOCTYPE html", "a web page"),
    (b"<html", "a web page"),
    (b"@relation", "an ARFF file"),
];

impl TableFile {
    /// A file with default options.
    pub fn from_path(path: &Path) -> Self {
        Self { path: path.to_path_buf(), options: ReadOptions::default() }
    }

    /// Opens the table and reads the names of its columns.
    pub fn open(&self) -> Result<OpenTable> {
        let name = name_of(&self.path);
        let fail = |e: std::io::Error| Failure::reading(&name, &e);
        let (source, seekable): (Box<dyn Read>, Option<File>) = if is_standard_input(&self.path) {
            (Box::new(standard_input()?), None)
        } else {
            let mut file = open_file(&self.path)?;
            // Pipes cannot be rewound.
            let seekable = file.rewind().is_ok().then(|| file.try_clone()).transpose().map_err(fail)?;
            (Box::new(file), seekable)
        };
        self.opened(source, seekable, &name)
    }

    /// Opens the table from bytes that are in memory already.
    pub fn open_bytes(&self, bytes: Vec<u8>) -> Result<OpenTable> {
        self.opened(Box::new(Cursor::new(bytes)), None, &name_of(&self.path))
    }

    fn opened(&self, source: Box<dyn Read>, seekable: Option<File>, name: &str) -> Result<OpenTable> {
        let mut inner = self.path.clone();
        if inner.extension().is_some_and(|e| e == "gz" || e == "zst") {
            inner.set_extension("");
        }
        let extension = inner.extension().map(|e| e.to_string_lossy().to_lowercase());
        let (reader, format) = self.reader(source, seekable, extension.as_deref().unwrap_or(""), name)?;
        let table = OpenTable::new(name.to_string(), reader, format, &self.options)?;
        Ok(OpenTable { path: Some(self.path.clone()), ..table })
    }

    fn reader(
        &self,
        mut source: Box<dyn Read>,
        seekable: Option<File>,
        extension: &str,
        name: &str,
    ) -> Result<(Box<dyn TableReader>, Format)> {
        let fail = |e: std::io::Error| Failure::reading(name, &e);
        let head = head_of(&mut source).map_err(fail)?;
        // The bytes that were read are put back in front.
        let mut source: Box<dyn Read> = Box::new(Cursor::new(head.clone()).chain(source));
        check_format_is_read(&head, name)?;
        let read_all = |source: &mut dyn Read| {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map_err(fail).map(|_| bytes)
        };
        if head.starts_with(b"\x1f\x8b") {
            return self.reader(Box::new(flate2::read::MultiGzDecoder::new(source)), None, extension, name);
        }
        if head.starts_with(b"\x28\xb5\x2f\xfd") {
            let decoder = zstd::Decoder::new(source).map_err(fail)?;
            return self.reader(Box::new(decoder), None, extension, name);
        }
        if head.starts_with(b"PAR1") || extension == "parquet" {
            let storage = match seekable {
                Some(file) => Storage::File(file),
                // The footer, which locates all other parts, comes last.
                None => Storage::Memory(Bytes::from(read_all(&mut source)?)),
            };
            return Ok((Box::new(ParquetRows::open(storage, name)?), Format::plain("Parquet")));
        }
        if head.starts_with(b"ARROW1") {
            let source: Box<dyn SeekableRead> = match seekable {
                Some(mut file) => {
                    file.rewind().map_err(fail)?;
                    Box::new(file)
                }
                None => Box::new(Cursor::new(read_all(&mut source)?)),
            };
            return Ok((Box::new(ArrowRows::open_file(source, name)?), Format::plain("Arrow")));
        }
        if head.starts_with(b"\xff\xff\xff\xff") {
            return Ok((Box::new(ArrowRows::open_stream(source, name)?), Format::plain("Arrow stream")));
        }
        if is_zip_of_other_files(&head) {
            return Err(Failure::input(format!(
                "{name} is a zip archive: unpack it and give the table in it"
            )));
        }
        if head.starts_with(b"PK\x03\x04") || head.starts_with(b"\xd0\xcf\x11\xe0") {
            let rows = sheets::read(
                read_all(&mut source)?,
                self.options.sheet.as_deref(),
                self.options.decimal.unwrap_or_default(),
                name,
            )?;
            return Ok((Box::new(rows), Format::plain("workbook")));
        }
        if let Some(sheet) = &self.options.sheet {
            return Err(Failure::input(format!(
                "{name} is not a workbook and has no sheet '{sheet}': leave --sheet out"
            )));
        }
        if svmlight::recognises(&head) {
            let rows = SvmlightRows::open(source, &self.options.features, name)?;
            rows.notes().iter().for_each(|note| note_once(note));
            return Ok((Box::new(rows), Format::plain("LIBSVM data")));
        }
        if is_json(&head, extension) {
            return Ok((
                Box::new(json::read(&mut source, self.options.decimal.unwrap_or_default(), name)?),
                Format::plain("JSON"),
            ));
        }
        self.text(source, &head, extension, name)
    }

    fn text(
        &self,
        source: Box<dyn Read>,
        head: &[u8],
        extension: &str,
        name: &str,
    ) -> Result<(Box<dyn TableReader>, Format)> {
        let marked = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
        let zeros = head.iter().filter(|byte| **byte == 0).count();
        let is_utf32 = |zero: std::ops::Range<usize>| {
            head.len() >= 8 && head.chunks_exact(4).all(|c| c[zero.clone()] == [0, 0, 0] && c != [0; 4])
        };
        if self.options.encoding.is_none() && (is_utf32(1..4) || is_utf32(0..3)) {
            return Err(Failure::input(format!("{name} seems to be UTF-32: write it as UTF-8")));
        }
        if !marked && self.options.encoding.is_none() && head.len() > 4 && 4 * zeros >= head.len() {
            return Err(Failure::input(format!(
                "{name} seems to be UTF-16 without a byte order mark: give --encoding utf-16le (or utf-16be)"
            )));
        }
        let encoding = match &self.options.encoding {
            Some(label) => Some(Encoding::for_label(label.as_bytes()).ok_or_else(|| {
                Failure::input(format!(
                    "--encoding {label} is unknown: give utf-8, latin1, windows-1252, utf-16le or shift_jis, \
                     for example"
                ))
            })?),
            None => None,
        };
        let recoded = marked || encoding.is_some_and(|e| e != encoding_rs::UTF_8);
        let source: Box<dyn Read> = match recoded {
            true => Box::new(DecodeReaderBytesBuilder::new().encoding(encoding).build(source)),
            false => source,
        };
        let decimal = self.options.decimal.unwrap_or_default();
        let tab = (extension == "tsv" || extension == "tab").then_some(b'\t');
        let delimiter = self.options.delimiter.or(tab);
        let (rows, delimiter) = CsvRows::open(source, delimiter, decimal, recoded, name)?;
        Ok((Box::new(rows), Format { name: "CSV", delimiter: Some(delimiter) }))
    }
}

/// The format of a file.
struct Format {
    name: &'static str,
    delimiter: Option<u8>,
}

impl Format {
    fn plain(name: &'static str) -> Self {
        Self { name, delimiter: None }
    }
}

/// Reads the first bytes of a source, but does not wait for more than the end of a line.
fn head_of(source: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let (mut head, mut part) = (Vec::new(), [0; HEAD]);
    while head.len() < MAGIC || head.len() < HEAD && !head.contains(&b'\n') {
        match source.read(&mut part)? {
            0 => break,
            read => head.extend_from_slice(&part[..read]),
        }
    }
    Ok(head)
}

/// Refuses a file that begins with the bytes of a format that cannot be read.
fn check_format_is_read(head: &[u8], name: &str) -> Result<()> {
    if head.get(8..).is_some_and(|header| header.starts_with(br#"{"__metadata__":{"riesz""#)) {
        return Err(Failure::input(format!(
            "{name} is a model file of riesz, not a table: 'riesz inspect' shows what it is for"
        )));
    }
    let is_archive = head.get(257..262) == Some(b"ustar");
    let unread = UNREAD
        .iter()
        .find(|(magic, _)| head.get(..magic.len()).is_some_and(|start| start.eq_ignore_ascii_case(magic)));
    if let Some(description) =
        is_archive.then_some("a tar archive").or(unread.map(|(_, description)| *description))
    {
        return Err(Failure::input(format!(
            "{name} is {description}, which cannot be read: write the table as CSV, Parquet, Arrow, JSON \
             or .xlsx"
        )));
    }
    Ok(())
}

/// Whether a file that begins with these bytes is a zip archive other than a workbook, by the name of its
/// first file.
fn is_zip_of_other_files(head: &[u8]) -> bool {
    let Some(length) = head.get(26..28) else { return false };
    let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
    let Some(first) = head.get(30..30 + length) else { return false };
    let workbook_files: [&[u8]; 8] = [
        b"[Content_Types].xml",
        b"_rels",
        b"docProps",
        b"xl/",
        b"mimetype",
        b"META-INF",
        b"content.xml",
        b"customXml",
    ];
    head.starts_with(b"PK\x03\x04") && !workbook_files.iter().any(|start| first.starts_with(start))
}

/// Whether a file that begins with these bytes is JSON: an object, or an array of objects.
fn is_json(head: &[u8], extension: &str) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let mut bytes = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    let named = ["json", "jsonl", "ndjson"].contains(&extension);
    match (bytes.next(), bytes.next()) {
        (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{')) => true,
        (Some(b'{' | b'['), _) => named,
        _ => named && head.is_empty(),
    }
}

/// Standard input, which can be read by one table only.
fn standard_input() -> Result<std::io::Stdin> {
    use std::sync::atomic::{AtomicBool, Ordering};
    static TAKEN: AtomicBool = AtomicBool::new(false);
    match TAKEN.swap(true, Ordering::Relaxed) {
        true => Err(Failure::input(
            "'-' is given twice, but standard input can be read only once: write one of the tables to a file",
        )),
        false => Ok(std::io::stdin()),
    }
}

impl OpenTable {
    /// Opens a CSV table from a source of bytes.
    pub fn csv(bytes: Box<dyn Read>, delimiter: u8, name: &str) -> Result<Self> {
        let (rows, delimiter) = CsvRows::open(bytes, Some(delimiter), Decimal::Point, false, name)?;
        let format = Format { name: "CSV", delimiter: Some(delimiter) };
        Self::new(name.to_string(), Box::new(rows), format, &ReadOptions::default())
    }

    /// Opens a Parquet table in memory.
    pub fn parquet(bytes: Vec<u8>, name: &str) -> Result<Self> {
        let rows = ParquetRows::open(Storage::Memory(Bytes::from(bytes)), name)?;
        Self::new(name.to_string(), Box::new(rows), Format::plain("Parquet"), &ReadOptions::default())
    }

    fn new(
        name: String,
        reader: Box<dyn TableReader>,
        format: Format,
        options: &ReadOptions,
    ) -> Result<Self> {
        let header = reader.header().to_vec();
        let mut sorted: Vec<&String> = header.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::input(format!(
                "{name}: two columns have the name '{}': rename one of them",
                pair[0]
            )));
        }
        let comma_is_doubtful = options.decimal.is_none() && format.delimiter == Some(b';');
        let choice = |number: bool| if number { Choice::Number } else { Choice::Text };
        let rules = CellRules {
            format: NumberFormat { mark: options.decimal.unwrap_or_default().into(), comma_is_doubtful },
            missing: MissingMarks::new(&options.na_values),
            drop_missing: options.drop_missing,
            missing_remedy: options.missing_remedy,
            choices: options.columns.iter().map(|(name, number)| (name.clone(), choice(*number))).collect(),
        };
        Ok(Self { name, path: None, rules, format: format.name, header, reader, next: 0 })
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The file's metadata under `key`; see [`TableReader::note`].
    pub fn note(&self, key: &str) -> Option<String> {
        self.reader.note(key)
    }

    /// The number of rows of each row group; see [`TableReader::groups`].
    pub fn groups(&self) -> Vec<u64> {
        self.reader.groups()
    }

    /// Restricts the rows that follow to these row groups.
    pub fn restrict_to_groups(&mut self, groups: Range<usize>) {
        self.next = self.reader.restrict_to_groups(groups);
    }

    /// Whether this is a LIBSVM data file; see [`TableReader::is_sparse`].
    pub fn is_sparse(&self) -> bool {
        self.reader.is_sparse()
    }

    /// Refuses columns that take too much memory with all rows at once; see [`TableReader::check_dense`].
    pub fn check_dense(&self, columns: usize) -> Result<()> {
        self.reader.check_dense(columns)
    }

    /// The positions of the columns `names`.
    pub fn column_indices<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<Vec<usize>> {
        let indices: HashMap<&String, usize> = self.header.iter().enumerate().map(|(j, h)| (h, j)).collect();
        let index_of = |name: &String| {
            let hidden = || self.reader.hidden_column_index(name);
            indices.get(name).copied().or_else(hidden).ok_or_else(|| {
                let columns = listed(&self.header);
                Failure::input(format!(
                    "{}: there is no column '{name}'; the columns are: {columns}",
                    self.name
                ))
            })
        };
        names.into_iter().map(index_of).collect()
    }

    /// The next rows, at most `limit`, of the columns `selected` (the same in every call); `None` after the
    /// last.
    pub fn next(&mut self, selected: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let mut chunk = self.reader.next(selected, limit)?;
        if let Some(chunk) = &mut chunk {
            chunk.first = self.next;
            self.next += chunk.rows as u64;
        }
        Ok(chunk)
    }
}

/// Opens a file for reading; a file that cannot be read gives a plain error message.
pub fn open_file(path: &Path) -> Result<File> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| Failure::reading(&name, &e))?;
    match file.metadata() {
        Ok(facts) if facts.is_dir() => Err(Failure::reading(&name, &std::io::ErrorKind::IsADirectory.into())),
        Ok(_) => Ok(file),
        Err(e) => Err(Failure::reading(&name, &e)),
    }
}

/// Reads a whole file; `-` is standard input.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut source: Box<dyn Read> = match is_standard_input(path) {
        true => Box::new(std::io::stdin()),
        false => Box::new(open_file(path)?),
    };
    source.read_to_end(&mut bytes).map_err(|e| Failure::reading(&name_of(path), &e))?;
    Ok(bytes)
}

/// A file's name and the SHA-256 of its content, by which later changes are detected; only the name for
/// standard input and pipes.
pub fn described(path: &Path) -> Result<String> {
    let name = name_of(path);
    if is_standard_input(path) || !std::fs::metadata(path).is_ok_and(|facts| facts.is_file()) {
        return Ok(name);
    }
    let (mut file, mut hasher, mut part) = (open_file(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part).map_err(|e| Failure::reading(&name, &e))? {
            0 => break,
            read => hasher.update(&part[..read]),
        }
    }
    let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name} (SHA-256 {digest})"))
}

/// The name of a file in messages.
pub fn name_of(path: &Path) -> String {
    if is_standard_input(path) { "standard input".into() } else { path.display().to_string() }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}
