//! Reads the columns of studies that the identification of an effect needs, and estimates the effect.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::causal::{
    CausalFusion, Effect, Graph, Identification, IdentificationRoute, MeasuredColumns, PreparedStudies,
    SingleTable, caveats, gather, identify,
};
use riesz::error::listed;
use riesz::model_card::CardEntry;
use riesz::{Column, ColumnKind, Table};

use crate::args::{CauseArgs, Global, TableArgs, graph_from_text};
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::input::{described, name_of};
use crate::io::names::listed_columns;
use crate::io::units::Units;

/// Options for the studies, the effect, and its estimation.
#[derive(Debug, clap::Args)]
pub struct StudyArgs {
    /// One table with treatment and outcome, or the tables of several studies in order (CSV or Parquet); '-'
    /// is standard input
    #[arg(required = true, value_name = "STUDY", value_hint = ValueHint::FilePath)]
    pub studies: Vec<PathBuf>,
    /// The causal graph: a file, or the text itself, 'age -> dose; age -> psa; dose -> psa -> volume';
    /// without a graph the assumption of --adjust, --front-door or --randomized is not checked
    #[arg(long, value_name = "GRAPH")]
    pub graph: Option<String>,
    /// The effect.
    #[command(flatten)]
    pub effect: CauseArgs,
    /// Number of samples of the hyper-parameters to average over; 0 uses the best ones alone, which
    /// understates the uncertainty when rows are few
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub hyperparameter_samples: usize,
    /// Number of landmarks for studies with more rows than this [default: 500 for studies of more than 3,000
    /// rows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub landmarks: Option<u32>,
    /// Columns whose numbers are codes of categories
    #[arg(long, value_name = "NAME,…")]
    pub categorical: Vec<String>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// The columns of the studies that the effect needs, and its identification.
pub struct Read {
    pub graph: Option<Graph>,
    pub identification: Identification,
    pub gathered: PreparedStudies,
    pub units: Units,
}

/// The estimated effect.
pub struct EffectEstimate {
    pub fusion: CausalFusion,
    pub effect: Effect,
    /// Warnings, as sentences without full stops.
    pub warnings: Vec<String>,
}

impl StudyArgs {
    /// Reads the studies.
    pub fn read(&self) -> Result<Read> {
        if self.graph.is_none() && !self.effect.has_assumptions() {
            return Err(Failure::input(
                "the causal assumptions are missing: give --graph; or, without a check, --adjust, \
                 --front-door or --randomized",
            ));
        }
        let graph = self.graph.as_deref().map(graph_from_text).transpose()?;
        let open = |file| self.table.source(file).open();
        let tables = self.studies.iter().map(|file| open(file)).collect::<Result<Vec<_>>>()?;
        let headers: Vec<Vec<String>> = tables.iter().map(|table| table.header().to_vec()).collect();
        if let ([header], [file]) = (&headers[..], &self.studies[..]) {
            self.has_outcome(file, header)?;
        }
        let mut names: Vec<String> = graph.as_ref().map_or(vec![], |graph| graph.variables().to_vec());
        names.extend(headers.iter().flatten().cloned());
        let categorical = listed_columns(&self.categorical, &names);
        if let Some(name) =
            categorical.iter().find(|name| !headers.iter().flatten().any(|header| header == *name))
        {
            return Err(Failure::input(format!("--categorical: no study has a column '{name}'")));
        }
        let identification = identify(graph.as_ref(), &self.effect.query(&names, headers)?)?;
        let needed = identification.needed()?;
        let mut units = Units::default();
        let measured = tables.into_iter().zip(&needed).map(|(table, names)| {
            let columns = Columns::read(table, names)?;
            units.add(&columns, names)?;
            let columns_of_study =
                names.iter().map(|name| measured(&columns, name, categorical.contains(name)));
            Ok(MeasuredColumns { columns: columns_of_study.collect::<Result<_>>()? })
        });
        let gathered = gather(&identification, &measured.collect::<Result<Vec<_>>>()?)?;
        Ok(Read { graph, identification, gathered, units })
    }

    /// Refuses a single table that lacks the outcome.
    fn has_outcome(&self, file: &Path, header: &[String]) -> Result<()> {
        if header.contains(&self.effect.outcome) {
            return Ok(());
        }
        Err(Failure::input(format!(
            "{} has no column '{}', the outcome; its columns are {}: name one of them, or give two or more \
             tables, of which the last has the outcome",
            name_of(file),
            self.effect.outcome,
            listed(header)
        )))
    }

    /// Provenance entries of the estimate.
    pub fn facts(&self, global: &Global) -> Result<Vec<CardEntry>> {
        let mut run = Vec::new();
        for (k, study) in self.studies.iter().enumerate() {
            run.push(CardEntry::new(format!("study {}", k + 1), described(study)?));
        }
        run.push(CardEntry::new("draws of hyper-parameters", self.hyperparameter_samples.to_string()));
        if let Some(landmarks) = self.landmarks {
            run.push(CardEntry::new("landmarks", landmarks.to_string()));
        }
        run.push(CardEntry::new("seed", global.seed.to_string()));
        run.push(CardEntry::new("software", format!("riesz {}", env!("CARGO_PKG_VERSION"))));
        Ok(run)
    }
}

impl Read {
    /// The data as a single table; `None` for an effect across studies.
    fn single(&self) -> Option<SingleTable> {
        self.identification
            .is_single_table()
            .then(|| SingleTable::new(&self.identification, &self.gathered.studies))
    }

    /// The treatments that were observed in the first study, or in the single table.
    pub fn treatments(&self) -> Result<Table> {
        Ok(match self.single() {
            Some(table) => table.treatments()?,
            None => self.gathered.studies.studies[0].treatments.clone(),
        })
    }

    /// The covariates over which the effect is averaged, if there are any.
    pub fn covariates(&self) -> Result<Option<Table>> {
        if let Some(table) = self.single() {
            return Ok(table.covariates()?);
        }
        Ok(match &self.gathered.studies.studies[0].route {
            IdentificationRoute::BackDoor(covariates) => Some(covariates.clone()),
            _ => None,
        })
    }

    /// Estimates the effect, and prints warnings.
    pub fn learn(&self, args: &StudyArgs, global: &Global, console: &Console) -> Result<EffectEstimate> {
        let landmarks = args.landmarks.map(|count| count as usize);
        let fusion = CausalFusion {
            draws: args.hyperparameter_samples,
            seed: global.seed,
            landmarks,
            ..CausalFusion::default()
        };
        let fit = || fusion.learn(&self.identification, &self.gathered.studies);
        let effect = with_progress(console, "learning the effect", &fusion.progress, fit)?;
        let effect_caveats = caveats(&self.identification, &effect, args.hyperparameter_samples);
        let warnings: Vec<String> =
            self.gathered.caveats.iter().chain(&effect_caveats).map(ToString::to_string).collect();
        warnings.iter().for_each(|text| console.warn(text));
        Ok(EffectEstimate { fusion, effect, warnings })
    }
}

impl Read {
    /// Estimates the association in place of the effect.
    pub fn association(&self, fusion: &CausalFusion, console: &Console) -> Result<Effect> {
        let fit = || fusion.learn_association(&self.identification, &self.gathered.studies);
        let message = "learning the association";
        with_progress(console, message, &fusion.progress, fit).map_err(|error| match error {
            riesz::Error::Unused { .. } => Failure::input(format!("--association: {error}")),
            other => other.into(),
        })
    }
}

fn measured(columns: &Columns, name: &str, categorical: bool) -> Result<(Column, Vec<f64>)> {
    if !categorical && !columns.is_categorical(name, false)? {
        let numbers = columns.numbers_or_missing(name)?;
        // The question names the column, so it cannot be left out.
        columns.print_suspicions(name, &numbers, false);
        return Ok((Column::numeric(name), numbers));
    }
    let (levels, codes) = columns.levels_or_missing(name)?;
    Ok((Column { name: name.into(), kind: ColumnKind::Categorical { levels } }, codes))
}
