//! `riesz graph check`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueHint;
use riesz::causal::{Graph, How, Identification, Query, Strategy, identify};
use riesz::explanation::Fact;
use serde_json::{Value, json};

use crate::args::{Global, TableArgs};
use crate::console::{Console, aligned, printable};
use crate::failure::{Failure, Result};
use crate::io::input::{name_of, read_file};
use crate::io::names::listed_columns;
use crate::io::output::write_all;

/// Arguments of `graph check`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz graph check g.txt --treatment statin --outcome volume --measured statin,age,bmi,volume
  riesz graph check g.txt --treatment statin --outcome volume --measured statin,age,bmi,psa --measured psa,volume
  riesz graph check g.txt --treatment statin --outcome volume --studies trial.csv,scans.csv --randomized
  riesz graph check g.txt --treatment dose --outcome volume --studies s1.csv,s2.csv --differs 2:age --format json

A graph is text: 'age -> statin; statin -> psa -> volume; psa <-> bmi' (<-> where a common cause is hidden; new lines do for ';', # before comments; names
with spaces in double quotes), or DOT, or DAGitty's. The first study has the treatments, the last the outcome, and each shares columns with the next. What
is not identified by a back door or a front door ends with exit code 2, a path that is open, and what would help.")]
pub struct Args {
    /// File with the graph; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub graph: PathBuf,
    /// Variable, or variables at once, that would be set
    #[arg(long, value_name = "NAME,…", required = true)]
    pub treatment: Vec<String>,
    /// Variable that they may affect
    #[arg(long, value_name = "NAME")]
    pub outcome: String,
    /// Columns of a study; once for each study, in order
    #[arg(long, value_name = "NAME,…", required_unless_present = "studies", conflicts_with = "studies")]
    pub measured: Vec<String>,
    /// Tables of the studies in order, of which only the headers are read
    #[arg(long, value_name = "FILE,…", value_delimiter = ',', value_hint = ValueHint::FilePath)]
    pub studies: Vec<PathBuf>,
    /// Adjust for these columns of the first study, and check that they are enough
    #[arg(long, value_name = "NAME,…", group = "way")]
    pub adjust: Vec<String>,
    /// Use these columns of the first study as the front door, and check that they are one
    #[arg(long, value_name = "NAME,…", group = "way")]
    pub front_door: Vec<String>,
    /// The treatments were assigned by chance in the first study
    #[arg(long, group = "way")]
    pub randomized: bool,
    /// Variables that come about differently in a study, by its number from 1; can be given for several studies
    #[arg(long, value_name = "N:NAME,…")]
    pub differs: Vec<String>,
    /// How tables are read.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where to write the answer [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Reads the graph, asks, and tells.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.json_words()?;
    let name = name_of(&args.graph);
    let text = String::from_utf8(read_file(&args.graph)?).map_err(|_| {
        Failure::input(format!("{name}: this is not text: give a graph as text, DOT or DAGitty's"))
    })?;
    let graph = Graph::parse(&text).map_err(|e| Failure::from(e).about(&name))?;
    let known = graph.variables();
    let listed = |given: &[String]| listed_columns(given, known);
    let studies = if args.studies.is_empty() {
        args.measured.iter().map(|given| listed(std::slice::from_ref(given))).collect()
    } else {
        let header = |file: &PathBuf| Ok(args.table.source(file).open()?.header().to_vec());
        args.studies.iter().map(header).collect::<Result<Vec<_>>>()?
    };
    let strategy = if args.randomized {
        Strategy::Randomized
    } else if !args.adjust.is_empty() {
        Strategy::Adjust(listed(&args.adjust))
    } else if !args.front_door.is_empty() {
        Strategy::FrontDoor(listed(&args.front_door))
    } else {
        Strategy::Derive
    };
    let query = Query {
        treatments: listed(&args.treatment),
        outcome: args.outcome.clone(),
        studies,
        strategy,
        differs: differing(&args.differs, known)?,
    };
    let found = identify(Some(&graph), &query)?;
    if args.studies.is_empty() && !found.unknown.is_empty() {
        console.warn(format!("not in the graph, and not used: {}", found.unknown.join(", ")));
    }
    let text = if as_json { format!("{:#}\n", record(&found)) } else { words(&found) };
    write_all(args.output.as_deref(), text.as_bytes())
}

/// `2:age,bmi` for study 2.
fn differing(given: &[String], known: &[String]) -> Result<BTreeMap<usize, Vec<String>>> {
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for text in given {
        let parts = text
            .split_once(':')
            .and_then(|(study, names)| Some((study.trim().parse::<usize>().ok()?.checked_sub(1)?, names)));
        let Some((study, names)) = parts else {
            return Err(Failure::input(format!(
                "--differs {text}: give a study's number, a colon and names, as in 2:age,bmi"
            )));
        };
        found.entry(study).or_default().extend(listed_columns(&[names.to_string()], known));
    }
    Ok(found)
}

fn record(found: &Identification) -> Value {
    let mut record = json!(found);
    record["says"] = json!(found.to_string());
    record
}

fn words(found: &Identification) -> String {
    let sets = |others: &[Vec<String>]| -> String {
        let each: Vec<String> = others.iter().map(|set| format!("{{{}}}", set.join(", "))).collect();
        each.join(", ")
    };
    let mut facts = vec![];
    if let How::BackDoor { others, listed, .. } | How::FrontDoor { others, listed, .. } = &found.how {
        if !others.is_empty() {
            facts.push(Fact::new("would do too", sets(others)));
        }
        if !listed && found.source == riesz::causal::Source::Graph {
            facts.push(Fact::new("would do too", "other sets may; there are too many to list"));
        }
    }
    for (k, bridge) in found.bridges.iter().enumerate() {
        if !bridge.unused.is_empty() {
            let of = format!("shared by {} and {}, not needed", k + 1, k + 2);
            facts.push(Fact::new(of, bridge.unused.join(", ")));
        }
    }
    let assumed = found.assumptions.iter().map(|text| Fact::new("assumed", text));
    facts.extend(assumed);
    format!("{}\n{}", printable(&found.to_string()), aligned(&facts))
}
