//! Studies from their tables: which columns an effect needs, the graph says, and these are read; and what is
//! learnt from them.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::causal::{
    Effect, Fusion, Graph, Identification, IdentificationRoute, MeasuredColumns, PreparedStudies,
    SingleTable, caveats, gather, identify,
};
use riesz::error::listed;
use riesz::explanation::Fact;
use riesz::{Column, ColumnKind, Table};

use crate::args::{CauseArgs, Global, TableArgs, graph_of};
use crate::console::{Console, watched};
use crate::failure::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::input::{described, name_of};
use crate::io::names::listed_columns;
use crate::io::units::Units;

/// Studies, which effect is asked of them, and how it is learnt.
#[derive(Debug, clap::Args)]
pub struct StudyArgs {
    /// One table with treatment and outcome; or the tables of several studies in order (CSV or Parquet); '-'
    /// is standard input
    #[arg(required = true, value_name = "STUDY", value_hint = ValueHint::FilePath)]
    pub studies: Vec<PathBuf>,
    /// What causes what: a file, or the text itself, 'age -> dose; age -> psa; dose -> psa -> volume';
    /// without it --adjust, --front-door or --randomized is taken on trust
    #[arg(long, value_name = "GRAPH")]
    pub graph: Option<String>,
    /// Which effect.
    #[command(flatten)]
    pub effect: CauseArgs,
    /// Average over so many draws of the hyper-parameters; 0 takes the best ones alone, which are too sure
    /// where rows are few
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub draws: usize,
    /// Know studies of more rows than this through so many landmarks [default: 500 where there are more than
    /// 3,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub landmarks: Option<u32>,
    /// Columns whose numbers are names of levels
    #[arg(long, value_name = "NAME,…")]
    pub categorical: Vec<String>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Studies with what their effect needs, and how it follows.
pub struct Read {
    pub graph: Option<Graph>,
    pub found: Identification,
    pub gathered: PreparedStudies,
    pub units: Units,
}

/// What was learnt from them.
pub struct Learnt {
    pub fusion: Fusion,
    pub effect: Effect,
    /// What a reader should know, in sentences without full stops.
    pub doubts: Vec<String>,
}

impl StudyArgs {
    /// Reads the studies.
    pub fn read(&self) -> Result<Read> {
        if self.graph.is_none() && !self.effect.says_how() {
            return Err(Failure::input(
                "nothing says what causes what: give --graph; or, to be taken on trust, --adjust, \
                 --front-door or --randomized",
            ));
        }
        let graph = self.graph.as_deref().map(graph_of).transpose()?;
        let open = |file| self.table.source(file).open();
        let tables = self.studies.iter().map(|file| open(file)).collect::<Result<Vec<_>>>()?;
        let headers: Vec<Vec<String>> = tables.iter().map(|table| table.header().to_vec()).collect();
        if let ([header], [file]) = (&headers[..], &self.studies[..]) {
            self.has_outcome(file, header)?;
        }
        let mut known: Vec<String> = graph.as_ref().map_or(vec![], |graph| graph.variables().to_vec());
        known.extend(headers.iter().flatten().cloned());
        let categorical = listed_columns(&self.categorical, &known);
        if let Some(name) = categorical.iter().find(|name| !headers.iter().flatten().any(|own| own == *name))
        {
            return Err(Failure::input(format!("--categorical: no study has a column '{name}'")));
        }
        let found = identify(graph.as_ref(), &self.effect.query(&known, headers)?)?;
        let needed = found.needed()?;
        let mut units = Units::default();
        let measured = tables.into_iter().zip(&needed).map(|(table, names)| {
            let columns = Columns::read(table, names)?;
            units.add(&columns, names)?;
            let each = names.iter().map(|name| measured(&columns, name, categorical.contains(name)));
            Ok(MeasuredColumns { columns: each.collect::<Result<_>>()? })
        });
        let gathered = gather(&found, &measured.collect::<Result<Vec<_>>>()?)?;
        Ok(Read { graph, found, gathered, units })
    }

    /// Refuses a single table that lacks the outcome.
    fn has_outcome(&self, file: &Path, header: &[String]) -> Result<()> {
        if header.contains(&self.effect.outcome) {
            return Ok(());
        }
        Err(Failure::input(format!(
            "{} has no column '{}', the outcome; its columns are {}: name one of them, or give two tables \
             or more, of which the last has the outcome",
            name_of(file),
            self.effect.outcome,
            listed(header)
        )))
    }

    /// How the answer came about.
    pub fn facts(&self, global: &Global) -> Result<Vec<Fact>> {
        let mut run = Vec::new();
        for (k, study) in self.studies.iter().enumerate() {
            run.push(Fact::new(format!("study {}", k + 1), described(study)?));
        }
        run.push(Fact::new("draws of hyper-parameters", self.draws.to_string()));
        if let Some(landmarks) = self.landmarks {
            run.push(Fact::new("landmarks", landmarks.to_string()));
        }
        run.push(Fact::new("seed", global.seed.to_string()));
        run.push(Fact::new("software", format!("riesz {}", env!("CARGO_PKG_VERSION"))));
        Ok(run)
    }
}

impl Read {
    /// The table of an effect that needs no other.
    fn single(&self) -> Option<SingleTable> {
        self.found.is_single_table().then(|| SingleTable::new(&self.found, &self.gathered.studies))
    }

    /// The treatments that people of the first study, or of the one table, had.
    pub fn treatments(&self) -> Result<Table> {
        Ok(match self.single() {
            Some(table) => table.treatments()?,
            None => self.gathered.studies.studies[0].treatments.clone(),
        })
    }

    /// The covariates that the effect is averaged over, if there are any.
    pub fn covariates(&self) -> Result<Option<Table>> {
        if let Some(table) = self.single() {
            return Ok(table.covariates()?);
        }
        Ok(match &self.gathered.studies.studies[0].route {
            IdentificationRoute::BackDoor(covariates) => Some(covariates.clone()),
            _ => None,
        })
    }

    /// Learns the effect, and warns of what is in doubt.
    pub fn learn(&self, args: &StudyArgs, global: &Global, console: &Console) -> Result<Learnt> {
        let landmarks = args.landmarks.map(|count| count as usize);
        let fusion = Fusion { draws: args.draws, seed: global.seed, landmarks, ..Fusion::default() };
        let fit = || fusion.learn(&self.found, &self.gathered.studies);
        let effect = watched(console, "learning the effect", &fusion.progress, fit)?;
        let of_effect = caveats(&self.found, &effect, args.draws);
        let all: Vec<String> =
            self.gathered.doubts.iter().chain(&of_effect).map(ToString::to_string).collect();
        all.iter().for_each(|text| console.warn(text));
        Ok(Learnt { fusion, effect, doubts: all })
    }
}

fn measured(columns: &Columns, name: &str, categorical: bool) -> Result<(Column, Vec<f64>)> {
    if !categorical && !columns.is_categorical(name, false)? {
        let numbers = columns.numbers_or_missing(name)?;
        columns.print_suspicions(name, &numbers);
        return Ok((Column::numeric(name), numbers));
    }
    let (levels, codes) = columns.levels_or_missing(name)?;
    Ok((Column { name: name.into(), kind: ColumnKind::Categorical { levels } }, codes))
}
