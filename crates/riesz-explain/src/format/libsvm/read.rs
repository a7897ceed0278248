//! Reads a model from a LIBSVM file. Sizes that the file only declares do not determine allocations.

use std::collections::HashMap;

use super::write::digits;
use super::{KINDS, MachineType, PASSED, Ranges, length_of, places};
use crate::error::{Error, Result, first_repeated, sized};
use crate::kernel::{FactorSchema, Kernel, Term};
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, index_pairs};
use crate::model_card::CardEntry;
use crate::table::{Column, Table};

const FORMAT: &str = "LIBSVM model";

/// Maximum number of features; without it, a single index could require any amount of memory.
pub(super) const MAX_WIDTH: usize = 1 << 20;
/// Maximum number of entries of the dense table of support vectors (1 GiB).
const MAX_CELLS: usize = 1 << 27;

fn problem<T>(line: usize, problem: impl Into<String>) -> Result<T> {
    Err(Error::Parse { format: FORMAT, line, problem: problem.into() })
}

/// Shortens text from a file for a message.
fn truncate_for_message(text: &str) -> String {
    let mut short: String = text.chars().take(30).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn number(line: usize, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => problem(line, format!("'{}' is not a finite number", truncate_for_message(text))),
    }
}

fn parse_count(line: usize, text: &str) -> Result<usize> {
    text.parse()
        .or_else(|_| problem(line, format!("'{}' is not a whole number ≥ 0", truncate_for_message(text))))
}

/// The header: the lines before the support vectors.
struct Header<'a> {
    fields: HashMap<&'a str, Field<'a>>,
    /// The number of the line "SV".
    end: usize,
}

struct Field<'a> {
    line: usize,
    values: Vec<&'a str>,
}

const KEYS: [&str; 13] = [
    "svm_type",
    "kernel_type",
    "degree",
    "gamma",
    "coef0",
    "nr_class",
    "total_sv",
    "rho",
    "label",
    "nr_sv",
    "probA",
    "probB",
    "prob_density_marks",
];

impl<'a> Header<'a> {
    fn read(lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Result<Self> {
        let mut fields = HashMap::new();
        let mut last_line = 1;
        for (line, text) in lines {
            last_line = line;
            let mut words = text.split_ascii_whitespace();
            let Some(key) = words.next() else { continue };
            if key == "SV" {
                return match words.next() {
                    None => Ok(Self { fields, end: line }),
                    Some(_) => problem(line, "the line 'SV' must contain nothing else"),
                };
            }
            let Some(&key) = KEYS.iter().find(|k| **k == key) else {
                return problem(
                    line,
                    format!(
                        "'{}' is not a field of a model file; the fields are: {}, SV",
                        truncate_for_message(key),
                        KEYS.join(", ")
                    ),
                );
            };
            if fields.insert(key, Field { line, values: words.collect() }).is_some() {
                return problem(line, format!("the field '{key}' stands twice"));
            }
        }
        problem(last_line, "the file ends before the line 'SV': it is cut off, or not a LIBSVM model")
    }

    fn required(&self, key: &str) -> Result<&Field<'a>> {
        match self.fields.get(key) {
            Some(field) => Ok(field),
            None => problem(self.end, format!("the field '{key}' is missing above the line 'SV'")),
        }
    }

    fn single(&self, key: &str) -> Result<(usize, &'a str)> {
        let field = self.required(key)?;
        match field.values[..] {
            [value] => Ok((field.line, value)),
            _ => problem(field.line, format!("'{key}' has {} values instead of one", field.values.len())),
        }
    }

    fn number(&self, key: &str) -> Result<(usize, f64)> {
        let (line, text) = self.single(key)?;
        Ok((line, number(line, text)?))
    }

    /// The values of a field that must have `count` values.
    fn list(&self, key: &str, count: usize, why: &str) -> Result<&Field<'a>> {
        let field = self.required(key)?;
        if field.values.len() != count {
            let actual = field.values.len();
            return problem(field.line, format!("'{key}' has {actual} values instead of {count} ({why})"));
        }
        Ok(field)
    }
}

/// The names of LIBSVM's kernels that a model can have; the factors' schemas have the same names.
const KERNELS: [&str; 4] = ["linear", "polynomial", "rbf", "sigmoid"];

/// The kernel, before the number of features is known.
struct KernelLines {
    schema: &'static FactorSchema,
    arguments: Vec<(&'static str, Vec<f64>)>,
}

impl KernelLines {
    fn read(header: &Header<'_>) -> Result<Self> {
        let (line, name) = header.single("kernel_type")?;
        if name == "precomputed" {
            return problem(
                line,
                "a model with a precomputed kernel does not hold the data points: \
                 fit again with the rbf (-t 2), polynomial (-t 1) or linear (-t 0) kernel on the features",
            );
        }
        let Some(schema) = FactorSchema::named(name).filter(|_| KERNELS.contains(&name)) else {
            return problem(
                line,
                format!(
                    "the kernel '{}' is unknown; the kernels are: {}",
                    truncate_for_message(name),
                    KERNELS.join(", ")
                ),
            );
        };
        if name == "linear" {
            return Ok(Self { schema, arguments: Vec::new() });
        }
        let (line, gamma) = header.number("gamma")?;
        let length = length_of(gamma);
        let allowed = if name == "rbf" { length.is_finite() && length > 0.0 } else { gamma > 0.0 };
        if !allowed {
            return problem(line, format!("gamma = {gamma} is not allowed: it is a positive number"));
        }
        if name == "rbf" {
            let arguments = vec![("length_scale", vec![length]), ("isotropic", vec![1.0])];
            return Ok(Self { schema, arguments });
        }
        let mut arguments = vec![("gamma", vec![gamma]), ("coef0", vec![header.number("coef0")?.1])];
        if name == "polynomial" {
            let (line, text) = header.single("degree")?;
            let Ok(degree @ 1..=100) = text.parse::<u32>() else {
                let degree = truncate_for_message(text);
                return problem(line, format!("degree '{degree}' is not a whole number from 1 to 100"));
            };
            arguments.push(("degree", vec![f64::from(degree)]));
        }
        Ok(Self { schema, arguments })
    }

    /// The kernel over the first `width` columns, without shift.
    fn kernel(&self, width: usize) -> Result<Kernel> {
        let columns: Vec<usize> = (0..width).collect();
        let factors = self.schema.factors(&columns, &self.arguments)?;
        Ok(Kernel { terms: vec![Term { scale: 1.0, factors }] })
    }
}

/// The lines of the support vectors.
#[derive(Default)]
struct Vectors {
    /// Coefficients, row by row with `per_row` each.
    coef: Vec<f64>,
    rows: usize,
    /// Non-zero values as (row, feature from 0, value).
    cells: Vec<(usize, usize, f64)>,
    /// The largest feature number, from 1, and its line.
    largest: (usize, usize),
}

fn vectors<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    per_row: usize,
    total: usize,
) -> Result<Vectors> {
    let mut vectors = Vectors::default();
    let mut last_index = 0;
    for (line, text) in lines {
        last_index = line;
        let mut words = text.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            continue;
        }
        if vectors.rows == total {
            return problem(line, format!("there are more support vectors than total_sv = {total}"));
        }
        for k in 0..per_row {
            match words.next() {
                Some(word) if !word.contains(':') => vectors.coef.push(number(line, word)?),
                _ => return problem(line, format!("there are {k} coefficients instead of {per_row}")),
            }
        }
        let mut before = 0;
        for word in words {
            let Some((index, value)) = word.split_once(':') else {
                return problem(
                    line,
                    format!("'{}' is not of the form index:value", truncate_for_message(word)),
                );
            };
            let index = parse_count(line, index)?;
            if index <= before {
                let why = if index == 0 { "features count from 1" } else { "indices ascend within a line" };
                return problem(line, format!("the index {index} is out of place: {why}"));
            }
            if index > MAX_WIDTH {
                return problem(
                    line,
                    format!("the index {index} is too large: at most {MAX_WIDTH} features can be read"),
                );
            }
            before = index;
            let value = number(line, value)?;
            if index > vectors.largest.0 {
                vectors.largest = (index, line);
            }
            if value != 0.0 {
                vectors.cells.push((vectors.rows, index - 1, value));
            }
        }
        vectors.rows += 1;
    }
    if vectors.rows < total {
        return problem(
            last_index,
            format!("the file ends after {} of {total} support vectors: it is cut off", vectors.rows),
        );
    }
    Ok(vectors)
}

/// Whether the first word of the bytes is a field of a LIBSVM model.
pub fn recognises(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let word = bytes.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    KEYS.iter().any(|key| key.as_bytes() == word)
}

/// Information about the features that a LIBSVM file does not contain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Features<'a> {
    /// Names of the features 1, 2, …; by default x0, x1, … for the features that occur in the file.
    pub names: &'a [String],
    /// The scaling of the data before the fit; `None` for no scaling.
    pub ranges: Option<&'a Ranges>,
}

/// Reads as [`read`] does, and then sets the names and units of the features: the model has these columns, in
/// the user's units.
///
/// # Errors
/// The errors of [`read`] and [`Ranges::unscaled`]; [`Error::DuplicateName`].
pub fn read_with(bytes: &[u8], width: Option<usize>, features: Features<'_>) -> Result<KernelExpansion> {
    let named = (!features.names.is_empty()).then_some(features.names.len());
    let n_columns = width.or(named);
    let mut model = read(bytes, n_columns)?;
    if let Some(ranges) = features.ranges {
        // Features that are 0 in all scaled support vectors are not 0 in the user's units.
        if n_columns.is_none() && ranges.width() > model.support_points.width() {
            model = read(bytes, Some(ranges.width()))?;
        }
        model = ranges.unscaled(model)?;
    }
    if let Some(width) = named {
        let columns: Vec<Column> = features.names.iter().map(Column::numeric).collect();
        sized("the list of columns", "names", model.support_points.width(), width, "one per feature")?;
        let values = model.support_points.column_major().to_vec();
        model.support_points = Table::from_column_major(columns, model.support_points.rows(), values)?;
    }
    Ok(model)
}

/// Reads a model. `width` is the number of features. Without it, the largest index in the file determines the
/// number, which is too small if the last features are 0 in every support vector. Time and memory are O(file)
/// and O(support vectors · width), whatever sizes the file declares.
///
/// # Errors
/// [`Error::Parse`] with the line; [`Error::Parameter`] if `width` is 0 or above 2²⁰.
pub fn read(bytes: &[u8], width: Option<usize>) -> Result<KernelExpansion> {
    if let Some(width) = width.filter(|w| *w == 0 || *w > MAX_WIDTH) {
        return Err(Error::parameter("width", width, format!("it is from 1 to {MAX_WIDTH}")));
    }
    let mut lines = decode(bytes)?.lines().enumerate().map(|(index, line)| (index + 1, line));
    let header = Header::read(&mut lines)?;
    let (type_name, kind) = machine_type(&header)?;
    let kernel = KernelLines::read(&header)?;
    let classes = class_count(&header, kind)?;
    // The product does not overflow for any number of values that fits in a file; a saturated product never
    // matches.
    let pairs = classes.saturating_mul(classes - 1) / 2;
    let field = header.list("rho", pairs, "one per pair of classes")?;
    let rho: Vec<f64> = field.values.iter().map(|v| number(field.line, v)).collect::<Result<_>>()?;
    let (line, text) = header.single("total_sv")?;
    let total = parse_count(line, text)?;
    let (labels, counts) = if kind == MachineType::Classifier {
        (labels(&header, classes)?, counts(&header, classes, total)?)
    } else {
        // The layout is that of two classes, the first with all support vectors.
        (Vec::new(), vec![total, 0])
    };
    let card = model_card(&header, type_name, kind, pairs)?;
    let end = header.end;
    let vectors = vectors(lines, classes - 1, total)?;
    let points = table(&vectors, width, end)?;
    if vectors.rows.saturating_mul(pairs) > MAX_CELLS {
        return problem(
            end,
            format!("{} support vectors of {classes} classes need too much memory", vectors.rows),
        );
    }
    let coef = Matrix::from_row_major(vectors.rows, pairs, by_pair(&vectors.coef, &counts, pairs));
    let (link, classes, output_names) = match kind {
        MachineType::Regressor => (Link::Identity, Vec::new(), vec!["y".to_string()]),
        MachineType::OneClass => (Link::Vote, vec!["-1".into(), "1".into()], vec!["inside".into()]),
        MachineType::Classifier => {
            let name = |(i, j): (usize, usize)| format!("{} vs {}", labels[i], labels[j]);
            let names = index_pairs(classes).map(name).collect();
            let mut order = labels.clone();
            if classes == 2 {
                order.swap(0, 1);
            }
            (Link::Vote, order, names)
        }
    };
    let model = KernelExpansion {
        kernel: kernel.kernel(points.width())?,
        support_points: points,
        coef,
        // The subtraction avoids -0 for a rho of 0, so that a round trip is exact.
        intercept: rho.iter().map(|r| 0.0 - r).collect(),
        output_names,
        link,
        classes,
        model_card: card,
    };
    model.validate()?;
    Ok(model)
}

/// Returns the bytes as text without a byte order mark.
fn decode(bytes: &[u8]) -> Result<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            problem(line, "the file is not text: a LIBSVM model is a text file as svm-train writes it")
        }
    }
}

/// Returns the machine's type and its name in the file.
fn machine_type(header: &Header<'_>) -> Result<(&'static str, MachineType)> {
    let (line, type_name) = header.single("svm_type")?;
    if let Some(kinds) = KINDS.into_iter().find(|(name, _)| *name == type_name) {
        return Ok(kinds);
    }
    let kinds = KINDS.map(|(name, _)| name).join(", ");
    problem(
        line,
        format!("the svm_type '{}' is unknown; the types are: {kinds}", truncate_for_message(type_name)),
    )
}

/// Returns `nr_class`, which is 2 for machines that are no classifiers.
fn class_count(header: &Header<'_>, kind: MachineType) -> Result<usize> {
    let (line, text) = header.single("nr_class")?;
    let classes = parse_count(line, text)?;
    if classes < 2 || (kind != MachineType::Classifier && classes != 2) {
        let allowed = if kind == MachineType::Classifier { "it is at least 2" } else { "it is 2 here" };
        return problem(line, format!("nr_class = {classes} is not allowed: {allowed}"));
    }
    Ok(classes)
}

/// The model card, with the entries of the header that predictions do not need.
fn model_card(
    header: &Header<'_>,
    type_name: &str,
    kind: MachineType,
    pairs: usize,
) -> Result<Vec<CardEntry>> {
    let mut card = vec![CardEntry::new("model", "LIBSVM"), CardEntry::new("svm_type", type_name)];
    for key in PASSED {
        if kind == MachineType::Classifier && key != PASSED[2] && header.fields.contains_key(key) {
            header.list(key, pairs, "one per pair of classes")?;
        }
        if let Some(field) = header.fields.get(key) {
            let values: Vec<String> =
                field.values.iter().map(|v| number(field.line, v).map(digits)).collect::<Result<_>>()?;
            card.push(CardEntry::new(key, values.join(" ")));
        }
    }
    Ok(card)
}

fn labels(header: &Header<'_>, classes: usize) -> Result<Vec<String>> {
    let field = header.list("label", classes, "one per class")?;
    let label = |text: &&str| {
        text.parse::<i32>().or_else(|_| {
            let label = truncate_for_message(text);
            problem(field.line, format!("the label '{label}' is not a whole number"))
        })
    };
    let labels: Vec<i32> = field.values.iter().map(label).collect::<Result<_>>()?;
    if let Some(label) = first_repeated(&labels) {
        return problem(field.line, format!("the label {label} stands twice"));
    }
    Ok(labels.iter().map(i32::to_string).collect())
}

/// The number of support vectors of each class.
fn counts(header: &Header<'_>, classes: usize, total: usize) -> Result<Vec<usize>> {
    let field = header.list("nr_sv", classes, "one per class")?;
    let counts: Vec<usize> =
        field.values.iter().map(|v| parse_count(field.line, v)).collect::<Result<_>>()?;
    let sum = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
    if sum != Some(total) {
        return problem(field.line, format!("the numbers of 'nr_sv' do not add up to total_sv = {total}"));
    }
    Ok(counts)
}

fn table(vectors: &Vectors, width: Option<usize>, end: usize) -> Result<Table> {
    let (largest, line) = vectors.largest;
    let width = width.unwrap_or(largest);
    if largest > width {
        return problem(
            line,
            format!("the index {largest} is larger than the given width of {width} features"),
        );
    }
    if width == 0 {
        return problem(end, "no support vector has a feature, so their number is unknown: give the width");
    }
    if vectors.rows.saturating_mul(width) > MAX_CELLS {
        return problem(
            line.max(1),
            format!(
                "{} support vectors of {width} features need too much memory: at most {MAX_CELLS} \
                 numbers can be read",
                vectors.rows
            ),
        );
    }
    let mut values = vec![0.0; vectors.rows * width];
    for &(row, j, value) in &vectors.cells {
        values[j * vectors.rows + row] = value;
    }
    let columns = Column::numbered(width);
    Table::from_column_major(columns, vectors.rows, values)
}

/// Converts LIBSVM's coefficients (rows × (classes - 1)) to rows × pairs. For the pair (i, j), a support
/// vector of class i has its coefficient at position j - 1, and one of class j at position i.
fn by_pair(coef: &[f64], counts: &[usize], pairs: usize) -> Vec<f64> {
    let (rows, k) = (counts.iter().sum::<usize>(), counts.len());
    let mut out = vec![0.0; rows * pairs];
    let mut row = 0;
    for (class, &count) in counts.iter().enumerate() {
        for _ in 0..count {
            for (place, pair) in places(class, k) {
                out[row * pairs + pair] = coef[row * (k - 1) + place];
            }
            row += 1;
        }
    }
    out
}
