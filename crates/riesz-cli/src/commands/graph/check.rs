//! `riesz graph check`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::causal::{How, Identification, identify};
use riesz::explanation::Fact;
use serde_json::{Value, json};

use crate::args::{CauseArgs, Global, TableArgs, graph_of};
use crate::console::{Console, aligned, printable};
use crate::failure::Result;
use crate::io::names::listed_columns;
use crate::io::output::write_all;

/// Arguments of `graph check`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz graph check g.txt --treatment statin --outcome volume                          all variables are measured
  riesz graph check g.txt --treatment statin --outcome volume --measured statin,age,bmi,volume
  riesz graph check g.txt --treatment statin --outcome volume --measured statin,age,bmi,psa --measured psa,volume
  riesz graph check g.txt --treatment statin --outcome volume --studies trial.csv,scans.csv --randomized
  riesz graph check g.txt --treatment dose --outcome volume --studies s1.csv,s2.csv --differs 2:age --format json

A graph is text: 'age -> statin; statin -> psa -> volume; psa <-> bmi' (<-> where a common cause is
hidden; new lines do for ';', # before comments; names with spaces in double quotes), or DOT,
DAGitty's text, GML, node-link JSON of networkx, an adjacency matrix as CSV (rows are causes),
bnlearn's model string, BIF, lavaan's model text or Tetrad's text. The first study has the
treatments, the last the outcome, and each shares columns with the next.

The answer is one of three. A back door or a front door: 'riesz effect' estimates it. Identified by
another formula: the formula is shown, and riesz does not estimate it. Not identified: exit code 2,
with the hidden common causes in the way, a path that is open, what would help, and an instrument if
there is one.")]
pub struct Args {
    /// The graph: a file, '-' for standard input, or the text itself, 'age -> dose; dose -> size'
    #[arg(value_hint = ValueHint::FilePath)]
    pub graph: String,
    /// Columns of a study; once for each study, in order [default: one study of all variables that the graph
    /// does not declare latent]
    #[arg(long, value_name = "NAME,…", conflicts_with = "studies")]
    pub measured: Vec<String>,
    /// Tables of the studies in order, of which only the headers are read
    #[arg(long, value_name = "FILE,…", value_delimiter = ',', value_hint = ValueHint::FilePath)]
    pub studies: Vec<PathBuf>,
    /// Which effect.
    #[command(flatten)]
    pub effect: CauseArgs,
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
    let graph = graph_of(&args.graph)?;
    graph.note().iter().for_each(|note| console.warn(note));
    let known = graph.variables();
    let studies = if args.studies.is_empty() && args.measured.is_empty() {
        let latent = graph.latent();
        vec![known.iter().filter(|name| !latent.contains(&name.as_str())).cloned().collect()]
    } else if args.studies.is_empty() {
        let listed = |given| listed_columns(std::slice::from_ref(given), known);
        args.measured.iter().map(listed).collect()
    } else {
        let header = |file: &PathBuf| Ok(args.table.source(file).open()?.header().to_vec());
        args.studies.iter().map(header).collect::<Result<Vec<_>>>()?
    };
    let query = args.effect.query(known, studies)?;
    let found = match identify(Some(&graph), &query) {
        Ok(found) => found,
        Err(error) => {
            if let (true, riesz::Error::Causal(refusal)) = (as_json, &error)
                && let Some(record) = refusal.not_identified_record()
            {
                write_all(args.output.as_deref(), format!("{record:#}\n").as_bytes())?;
            }
            return Err(error.into());
        }
    };
    if args.studies.is_empty() && !found.unknown.is_empty() {
        console.warn(format!("not in the graph, and not used: {}", found.unknown.join(", ")));
    }
    let text = if as_json {
        let mut record = record(&found);
        record["identified"] = json!(true);
        format!("{record:#}\n")
    } else {
        words(&found)
    };
    write_all(args.output.as_deref(), text.as_bytes())
}

/// An answer in JSON.
pub(in crate::commands) fn record(found: &Identification) -> Value {
    let mut record = json!(found);
    record["says"] = json!(found.to_string());
    record
}

/// An answer in words.
pub(in crate::commands) fn words(found: &Identification) -> String {
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
    if let How::Formula { would_help, .. } = &found.how {
        let each: Vec<String> = would_help.iter().map(|names| names.join(" and ")).collect();
        if !each.is_empty() {
            facts.push(Fact::new("measured too, would give an adjustment", each.join(", or ")));
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
