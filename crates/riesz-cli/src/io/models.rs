//! Files that hold a model or an explanation.

use std::collections::HashSet;
use std::io::Cursor;
use std::path::Path;

use riesz::Explanation;
use riesz::format::average::SavedAverage;
use riesz::format::explanation_json::SavedExplanation;
use riesz::format::libsvm::{self, Features};
use riesz::format::model::SavedModel;
use riesz::format::{average, explanation_json, model};
use riesz::model_average::{ModelAverage, ModelPart, WeightedModel};
use riesz::model_card::CardEntry;

use crate::args::{CellArgs, FeatureArgs};
use crate::console::note_once;
use crate::exit::{Failure, Result};
use crate::io::input::{OpenTable, name_of, read_file};
use crate::io::values;

/// The content of a file.
pub enum FileContent {
    /// A model, or an average of models, and the name of its file format.
    Model(Box<ModelOrAverage>, &'static str),
    /// An explanation and the name of its file format.
    Explanation(Box<SavedExplanation>, &'static str),
}

/// A file format, recognised by the first bytes of a file.
struct FileFormat {
    name: &'static str,
    recognises: fn(&[u8]) -> bool,
    read: fn(File<'_>) -> Result<FileContent>,
}

/// A file whose format was recognised.
struct File<'a> {
    path: &'a Path,
    bytes: Vec<u8>,
    /// The rows to which a model will be applied.
    rows: Option<&'a OpenTable>,
    /// Information that LIBSVM files do not contain.
    features: &'a FeatureArgs,
    /// The name of the file's format.
    format: &'static str,
}

impl File<'_> {
    /// Adds the file's name to the library's error.
    fn with_file_name<T>(&self, result: riesz::Result<T>) -> Result<T> {
        result.map_err(|error| Failure::from(error).about(&name_of(self.path)))
    }
}

impl File<'_> {
    /// The names of the features of a LIBSVM model: the given ones, or the columns of the rows in their
    /// order; empty for the default names.
    fn feature_names(&self) -> Result<Vec<String>> {
        if !self.features.columns_in_order {
            return Ok(self.features.feature_names.names());
        }
        let name = name_of(self.path);
        let Some(rows) = self.rows else {
            return Err(Failure::input(format!(
                "--columns-in-order takes the names of the features of {name} from a table of rows, which is \
                 missing: give the names with --columns"
            )));
        };
        let names = rows.header().to_vec();
        note_once(&format!(
            "the features of {name} are the columns of {} in their order: {}",
            rows.name,
            riesz::error::listed(&names)
        ));
        Ok(names)
    }
}

/// The name of the only model format without names of features.
const LIBSVM: &str = "LIBSVM model";

/// All file formats. A new format needs a reader in the library and an entry here.
static FORMATS: [FileFormat; 6] = [
    FileFormat {
        name: "average of riesz models over hyper-parameters",
        recognises: average::recognises,
        read: |file| {
            let SavedAverage { best, average } = file.with_file_name(average::from_bytes(&file.bytes))?;
            Ok(FileContent::Model(Box::new(ModelOrAverage { best, average: Some(average) }), file.format))
        },
    },
    FileFormat {
        name: "riesz model",
        recognises: model::recognises,
        read: |file| {
            let best = file.with_file_name(model::from_bytes(&file.bytes))?;
            Ok(FileContent::Model(Box::new(ModelOrAverage { best, average: None }), file.format))
        },
    },
    FileFormat {
        name: "riesz explanation",
        recognises: explanation_json::recognises,
        read: |file| {
            Ok(FileContent::Explanation(
                Box::new(file.with_file_name(explanation_json::read(&file.bytes))?),
                file.format,
            ))
        },
    },
    FileFormat {
        name: "table of values (Parquet)",
        recognises: |bytes| bytes.starts_with(b"PAR1"),
        read: |file| table(OpenTable::parquet(file.bytes, &name_of(file.path))?, file.format),
    },
    FileFormat { name: LIBSVM, recognises: libsvm::recognises, read: libsvm_model },
    FileFormat {
        name: "table of values (CSV)",
        // The header identifies the format, and is read quickly whatever the file is.
        recognises: |bytes| {
            let first = bytes.split(|b| *b == b'\n').next().unwrap_or(bytes);
            std::str::from_utf8(first).is_ok_and(|line| line.contains("base_value"))
        },
        read: |file| {
            let bytes = Box::new(Cursor::new(file.bytes));
            table(OpenTable::csv(bytes, b',', &name_of(file.path))?, file.format)
        },
    },
];

/// Whether a file is a model or an explanation, which may be a table of values.
pub fn is_known(path: &Path, bytes: &[u8]) -> Result<bool> {
    const TAG: &[u8] = b"riesz-explanation";
    if bytes.starts_with(b"PAR1") {
        return Ok(values::recognises(OpenTable::parquet(bytes.to_vec(), &name_of(path))?.header()));
    }
    // Records of a table are JSON as well.
    let start = &bytes[..bytes.len().min(4096)];
    let untagged = start.starts_with(b"{") && !start.windows(TAG.len()).any(|window| window == TAG);
    Ok(!untagged && FORMATS.iter().any(|format| (format.recognises)(bytes)))
}

/// Reads a model or an explanation. `rows` are the rows to which the model will be applied, if any: a LIBSVM
/// file leaves out zeros, so only the rows reveal a feature that is zero in all support vectors.
pub fn read_any(path: &Path, rows: Option<&OpenTable>, features: &FeatureArgs) -> Result<FileContent> {
    read_bytes(path, read_file(path)?, rows, features)
}

/// The beginnings of pickles and of files of joblib, which may be compressed. A model of riesz may begin like
/// that too, so other formats come first.
const PICKLES: [&[u8]; 7] =
    [b"\x80\x03", b"\x80\x04", b"\x80\x05", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"];

/// Reads a model or an explanation from bytes that are in memory already.
pub fn read_bytes(
    path: &Path,
    bytes: Vec<u8>,
    rows: Option<&OpenTable>,
    features: &FeatureArgs,
) -> Result<FileContent> {
    let name = name_of(path);
    if bytes.is_empty() {
        return Err(Failure::input(format!("{name} is empty")));
    }
    let Some(format) = FORMATS.iter().find(|format| (format.recognises)(&bytes)) else {
        if PICKLES.iter().any(|start| bytes.starts_with(start)) {
            return Err(Failure::input(format!(
                "{name} is a model of Python, which only Python can load: explain it there, \
                 riesz.Explainer(joblib.load('{name}'), background), or write a program that reads rows as \
                 CSV and prints its predictions, and give 'cmd:python3 PROGRAM' in place of the file"
            )));
        }
        return Err(Failure::input(format!(
            "{name} is neither a riesz model, a LIBSVM model nor an explanation: give a model of 'riesz \
             fit', or an explanation of 'riesz explain'"
        )));
    };
    let sparse = rows.is_some_and(|rows| rows.is_sparse());
    if format.name != LIBSVM
        && let Some(option) = features.first_given().filter(|option| *option == "--scale" || !sparse)
    {
        return Err(Failure::input(format!(
            "{name} is a {}, whose columns have names and units: leave {option} out, an option of LIBSVM \
             models{}",
            format.name,
            if option == "--columns" { " and data files" } else { "" }
        )));
    }
    (format.read)(File { path, bytes, rows, features, format: format.name })
}

fn libsvm_model(file: File<'_>) -> Result<FileContent> {
    let (feature_names, scale) = (file.feature_names()?, file.features.scale.as_deref());
    let about_ranges = |error, path: &Path| Failure::from(error).about(&name_of(path));
    let ranges = scale
        .map(|path| libsvm::read_ranges(&read_file(path)?).map_err(|error| about_ranges(error, path)))
        .transpose()?;
    let features = Features { names: &feature_names, ranges: ranges.as_ref() };
    let mut model = file.with_file_name(libsvm::read_with(&file.bytes, None, features))?;
    if feature_names.is_empty() {
        let header = file.rows.map_or(&[][..], OpenTable::header);
        let names: HashSet<&str> = header.iter().map(String::as_str).collect();
        let narrow = model.columns().len();
        let extra_columns = (narrow..).take_while(|j| names.contains(format!("x{j}").as_str())).count();
        if extra_columns > 0 {
            model =
                file.with_file_name(libsvm::read_with(&file.bytes, Some(narrow + extra_columns), features))?;
        }
    }
    let unknown = |column: &&riesz::Column| {
        file.rows.is_some_and(|rows| rows.column_indices([&column.name]).is_err()) && feature_names.is_empty()
    };
    if let (Some(rows), Some(missing)) = (file.rows, model.columns().iter().find(unknown)) {
        return Err(Failure::input(format!(
            "{}: there is no column '{}', the default name of feature {} of {}: give the columns of its \
             features in order, with --columns {}; or give --columns-in-order if they are all columns of the \
             table",
            rows.name,
            missing.name,
            1 + model.columns().iter().position(|column| column == missing).unwrap_or(0),
            name_of(file.path),
            example(rows.header(), model.columns().len())
        )));
    }
    let best = SavedModel { model, covariance: None, groups: None };
    Ok(FileContent::Model(Box::new(ModelOrAverage { best, average: None }), file.format))
}

/// An example of `--columns` for a table with this header.
fn example(header: &[String], count: usize) -> String {
    let shown = count.min(3).min(header.len());
    format!("{}{}", header[..shown].join(","), if shown < count { ",…" } else { "" })
}

fn table(rows: OpenTable, format: &'static str) -> Result<FileContent> {
    if !values::recognises(rows.header()) {
        return Err(Failure::input(format!(
            "{} is a table without the columns row, output, base_value, prediction and residual: give a \
             table of values of an explanation",
            rows.name
        )));
    }
    Ok(FileContent::Explanation(Box::new(values::read(rows)?.into()), format))
}

/// The name of the entry with the number of models of an average, in provenance and summaries.
pub const MODELS_OF_AVERAGE: &str = "models of the average over hyper-parameters";

/// A model, or an average of models over hyper-parameters.
pub struct ModelOrAverage {
    /// The model, or the one with the best hyper-parameters.
    pub best: SavedModel,
    /// The average, if there is one.
    pub average: Option<ModelAverage>,
}

impl ModelOrAverage {
    /// The models with their weights.
    pub fn parts(&self) -> Vec<ModelPart<'_>> {
        let SavedModel { model, covariance, .. } = &self.best;
        let single = || vec![ModelPart::single(model, covariance.as_ref())];
        self.average.as_ref().map_or_else(single, ModelAverage::parts)
    }

    /// Describes the best model, and the size of the average.
    pub fn facts(&self) -> Vec<CardEntry> {
        let mut facts = self.best.model.facts();
        facts.extend(self.average.as_ref().map(|a| CardEntry::new(MODELS_OF_AVERAGE, a.models.len())));
        facts
    }

    /// Prepares the models for rows whose cells are treated as given; see [`CellArgs::admit`].
    pub fn admitted(self, cells: &CellArgs) -> Result<Self> {
        let admit_part =
            |part: WeightedModel| Ok(WeightedModel { model: cells.with_unseen_levels(part.model)?, ..part });
        let admit_models = |average: ModelAverage| -> Result<ModelAverage> {
            let models = average.models.into_iter().map(admit_part).collect::<Result<_>>()?;
            Ok(ModelAverage { models, ..average })
        };
        Ok(Self { best: cells.admit(self.best)?, average: self.average.map(admit_models).transpose()? })
    }

    /// The bytes of the model file.
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        Ok(match self.average {
            None => model::to_bytes(&self.best)?,
            Some(average) => average::to_bytes(&SavedAverage { best: self.best, average })?,
        })
    }
}

/// Reads a model or an average; arguments as for [`read_any`].
pub fn read_average(path: &Path, rows: Option<&OpenTable>, features: &FeatureArgs) -> Result<ModelOrAverage> {
    match read_any(path, rows, features)? {
        FileContent::Model(model, _) => Ok(*model),
        FileContent::Explanation(..) => {
            Err(Failure::input(format!("{} is an explanation: give a model file", name_of(path))))
        }
    }
}

/// Reads a model that is not an average; arguments as for [`read_any`].
pub fn read_model(path: &Path, rows: Option<&OpenTable>, features: &FeatureArgs) -> Result<SavedModel> {
    match read_average(path, rows, features)? {
        ModelOrAverage { best, average: None } => Ok(best),
        ModelOrAverage { average: Some(average), .. } => Err(average_refused(path, &average)),
    }
}

/// The error of a command that does not take averages.
fn average_refused(path: &Path, average: &ModelAverage) -> Failure {
    Failure::input(format!(
        "{name} is an average of {} models over hyper-parameters, and this command takes a single model: \
         write that of the best hyper-parameters with 'riesz convert {name} best.riesz'",
        average.models.len(),
        name = name_of(path)
    ))
}

/// Reads an explanation; `rows` provide the feature values that a table of values lacks.
pub fn read_explanation(path: &Path, rows: Option<OpenTable>, categorical: &[String]) -> Result<Explanation> {
    match read_any(path, None, &FeatureArgs::default())? {
        FileContent::Explanation(explanation, _) => {
            complete(explanation.explanation, path, rows, categorical)
        }
        FileContent::Model(..) => Err(Failure::input(format!(
            "{} is a model: give an explanation, made with 'riesz explain … -o FILE'",
            name_of(path)
        ))),
    }
}

/// The explanation from `path` with the feature values in `rows`; it must not have feature values already.
/// Numbers of the columns `categorical` are codes of categories.
pub fn complete(
    mut explanation: Explanation,
    path: &Path,
    rows: Option<OpenTable>,
    categorical: &[String],
) -> Result<Explanation> {
    match rows {
        Some(_) if explanation.data.width() > 0 => {
            let name = name_of(path);
            return Err(Failure::input(format!(
                "{name} already holds its feature values: leave the rows out"
            )));
        }
        Some(rows) => values::add_data(&mut explanation, rows, categorical)?,
        None => {}
    }
    Ok(explanation)
}
