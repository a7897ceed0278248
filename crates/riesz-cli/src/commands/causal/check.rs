//! `riesz causal check`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::causal::{EffectStrategy, Identification, identify};
use riesz::model_card::CardEntry;
use serde_json::{Value, json};

use crate::args::{CauseArgs, Global, TableArgs, graph_from_text};
use crate::console::{Console, aligned, printable};
use crate::exit::Result;
use crate::io::names::listed_columns;
use crate::io::output::write_all;

/// Arguments of `causal check`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz causal check g.txt --treatment drug --outcome y          all variables are measured
  riesz causal check g.txt --treatment drug --outcome y --measured drug,age,bmi,y
  riesz causal check g.txt --treatment drug --outcome y --measured drug,age,bmi,psa --measured psa,y
  riesz causal check g.txt --treatment drug --outcome y --studies trial.csv,scans.csv --randomized
  riesz causal check g.txt --treatment dose --outcome y --studies s1.csv,s2.csv --differs 2:age --format json

A graph is text: 'age -> statin; statin -> psa -> volume; psa <-> bmi', where <-> means a hidden
common cause, a new line may replace ';', # begins a comment, and names with spaces are in double
quotes. Other formats are DOT, DAGitty's text, GML, node-link JSON of networkx, an adjacency matrix
as CSV (rows are causes), bnlearn's model string, BIF, lavaan's model text and Tetrad's text. The
first study has the treatments, the last the outcome, and each shares columns with the next.

There are three answers. Back door or front door: 'riesz causal effect' can estimate the effect.
Identified by another formula: the formula is shown, and riesz cannot estimate it. Not identified:
exit code 2, with the hidden common causes that prevent it, an open path, measurements that would
help, and an instrument if there is one.")]
pub struct Args {
    /// The graph: a file, '-' for standard input, or the text itself, 'age -> dose; dose -> size'
    #[arg(value_hint = ValueHint::FilePath)]
    pub graph: String,
    /// Columns of a study; repeat the option for each study, in order [default: one study with all variables
    /// that the graph does not declare latent]
    #[arg(long, value_name = "NAME,…", conflicts_with = "studies")]
    pub measured: Vec<String>,
    /// Tables of the studies in order, of which only the headers are read
    #[arg(long, value_name = "FILE,…", value_delimiter = ',', value_hint = ValueHint::FilePath)]
    pub studies: Vec<PathBuf>,
    /// The effect.
    #[command(flatten)]
    pub effect: CauseArgs,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where to write the answer [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Reads the graph, identifies the effect, and writes the answer.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    let graph = graph_from_text(&args.graph)?;
    graph.note().iter().for_each(|note| console.warn(note));
    let variables = graph.variables();
    let studies = if args.studies.is_empty() && args.measured.is_empty() {
        let latent = graph.latent();
        vec![variables.iter().filter(|name| !latent.contains(&name.as_str())).cloned().collect()]
    } else if args.studies.is_empty() {
        let listed = |text| listed_columns(std::slice::from_ref(text), variables);
        args.measured.iter().map(listed).collect()
    } else {
        let header = |file: &PathBuf| Ok(args.table.source(file).open()?.header().to_vec());
        args.studies.iter().map(header).collect::<Result<Vec<_>>>()?
    };
    let query = args.effect.query(variables, studies)?;
    let identification = match identify(Some(&graph), &query) {
        Ok(identification) => identification,
        Err(error) => {
            if let (true, riesz::Error::Causal(refusal)) = (as_json, &error)
                && let Some(record) = refusal.not_identified_record()
            {
                write_all(args.output.as_deref(), format!("{record:#}\n").as_bytes())?;
            }
            return Err(error.into());
        }
    };
    if args.studies.is_empty() && !identification.unknown.is_empty() {
        console
            .warn(format!("ignored, since they are not in the graph: {}", identification.unknown.join(", ")));
    }
    let text = if as_json {
        let mut record = record(&identification);
        record["identified"] = json!(true);
        format!("{record:#}\n")
    } else {
        identification_text(&identification)
    };
    write_all(args.output.as_deref(), text.as_bytes())
}

/// The identification in JSON.
pub(super) fn record(identification: &Identification) -> Value {
    let mut record = json!(identification);
    record["description"] = json!(identification.to_string());
    record
}

/// The identification as text.
pub(super) fn identification_text(identification: &Identification) -> String {
    let sets = |alternatives: &[Vec<String>]| -> String {
        let texts: Vec<String> = alternatives.iter().map(|set| format!("{{{}}}", set.join(", "))).collect();
        texts.join(", ")
    };
    let mut facts = vec![];
    if let EffectStrategy::BackDoor { alternatives: others, listed, .. }
    | EffectStrategy::FrontDoor { alternatives: others, listed, .. } = &identification.strategy
    {
        if !others.is_empty() {
            facts.push(CardEntry::new("alternatives", sets(others)));
        }
        if !listed && identification.source == riesz::causal::Provenance::Graph {
            facts.push(CardEntry::new("alternatives", "there may be others, which are too many to list"));
        }
    }
    if let EffectStrategy::Formula { would_help, .. } = &identification.strategy {
        let helpful: Vec<String> = would_help.iter().map(|names| names.join(" and ")).collect();
        if !helpful.is_empty() {
            facts.push(CardEntry::new("would allow an adjustment if measured", helpful.join(", or ")));
        }
    }
    for (k, bridge) in identification.bridges.iter().enumerate() {
        if !bridge.unused.is_empty() {
            let name = format!("shared by {} and {}, not needed", k + 1, k + 2);
            facts.push(CardEntry::new(name, bridge.unused.join(", ")));
        }
    }
    let assumed = identification.assumptions.iter().map(|text| CardEntry::new("assumed", text));
    facts.extend(assumed);
    format!("{}\n{}", printable(&identification.to_string()), aligned(&facts))
}
