//! Options for causal queries: the effect across studies, and how it is identified.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use riesz::causal::{CausalQuery, Graph, Strategy};

use crate::exit::{Failure, Result};
use crate::io::input::{name_of, read_file};
use crate::io::names::listed_columns;

/// A causal effect across studies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The effect")]
pub struct CauseArgs {
    /// Variable that is set by intervention; several variables are set together
    #[arg(long, value_name = "NAME,…", required = true)]
    pub treatment: Vec<String>,
    /// Variable whose response to the treatment is estimated
    #[arg(long, value_name = "NAME")]
    pub outcome: String,
    /// Adjust for these columns of the first study (back-door adjustment); a graph checks that they suffice
    #[arg(long, value_name = "NAME,…", group = "way")]
    pub adjust: Vec<String>,
    /// Use these columns of the first study as mediators (front-door adjustment); a graph checks that they
    /// qualify
    #[arg(long, value_name = "NAME,…", group = "way")]
    pub front_door: Vec<String>,
    /// The treatments were randomised in the first study
    #[arg(long, group = "way")]
    pub randomized: bool,
    /// Variables whose mechanism differs in a study, which is given by its number from 1; can be repeated for
    /// several studies
    #[arg(long, value_name = "N:NAME,…")]
    pub differs: Vec<String>,
}

impl CauseArgs {
    /// Whether the options say how the effect is identified, so that no graph is needed.
    pub fn has_assumptions(&self) -> bool {
        self.randomized || !self.adjust.is_empty() || !self.front_door.is_empty()
    }

    /// The query for studies with these columns; `columns` lists the names that may contain commas.
    pub fn query(&self, columns: &[String], studies: Vec<Vec<String>>) -> Result<CausalQuery> {
        let listed = |names: &[String]| listed_columns(names, columns);
        let strategy = match () {
            () if self.randomized => Strategy::Randomized,
            () if !self.adjust.is_empty() => Strategy::Adjust(listed(&self.adjust)),
            () if !self.front_door.is_empty() => Strategy::FrontDoor(listed(&self.front_door)),
            () => Strategy::Derive,
        };
        Ok(CausalQuery {
            treatments: listed(&self.treatment),
            outcome: self.outcome.clone(),
            studies,
            strategy,
            differs: differing(&self.differs, columns)?,
        })
    }
}

/// Parses `2:age,bmi` for study 2.
fn differing(texts: &[String], columns: &[String]) -> Result<BTreeMap<usize, Vec<String>>> {
    let mut by_study: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for text in texts {
        let parts = text
            .split_once(':')
            .and_then(|(study, names)| Some((study.trim().parse::<usize>().ok()?.checked_sub(1)?, names)));
        let Some((study, names)) = parts else {
            return Err(Failure::input(format!(
                "--differs {text}: give a study's number, a colon and names, as in 2:age,bmi"
            )));
        };
        by_study.entry(study).or_default().extend(listed_columns(&[names.to_string()], columns));
    }
    Ok(by_study)
}

/// Reads the graph in a file.
fn read_graph(path: &Path) -> Result<Graph> {
    let name = name_of(path);
    let text = String::from_utf8(read_file(path)?).map_err(|_| {
        Failure::input(format!("{name} is not text: give a graph as text, GML, JSON, DOT or DAGitty"))
    })?;
    Graph::parse(&text).map_err(|e| Failure::from(e).about(&name))
}

/// Parses `text` as a graph if they contain arrows or begin like another format; otherwise reads the file of
/// this name.
pub fn graph_from_text(text: &str) -> Result<Graph> {
    let signs = ["->", "<-", "→", "←", "↔", "{", " ~", "~ ", "\n"];
    let has_sign = signs.iter().any(|sign| text.contains(sign)) || text.starts_with('[');
    let is_text = has_sign && !Path::new(text).exists();
    if is_text { Ok(Graph::parse(text)?) } else { read_graph(Path::new(text)) }
}
