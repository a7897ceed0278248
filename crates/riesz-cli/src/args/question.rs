//! Options for what is explained: the source of background rows, and the library's settings.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::settings::{Explained, SettingArgs};

/// Options of an explanation: the game, its rows, and the players.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The question")]
pub struct GameArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: SettingArgs<Explained>,
    /// Table of rows from which absent features take their values; for the observational game the rows from
    /// which their conditional distribution is learnt [default there: the model's support points]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "baseline")]
    pub background: Option<PathBuf>,
    /// Use this many background rows, drawn at random with --seed [default: all]
    #[arg(long, value_name = "N", requires = "background")]
    pub background_rows: Option<NonZeroUsize>,
    /// Column of the background table that holds weights
    #[arg(long, value_name = "COL", requires = "background")]
    pub background_weights: Option<String>,
    /// Table of one row whose values absent features take
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,
    /// Columns that are present or absent together, 'blood=s1,s2;body=bmi', or a file with one group per line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Causal game: a graph that contains the model's columns, 'age -> income; income <-> debt', or a file
    /// with one, instead of --components, --confounded and --parents
    #[arg(long, value_name = "GRAPH", conflicts_with_all = ["components", "confounded", "parents"])]
    pub graph: Option<String>,
    /// With a program: columns of the background that are no inputs of the program, such as a target
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Also give a proved bound on how far any value of any row can move if the row's columns move by at most
    /// DELTA: 'bmi=0.5,age=1' in the columns' units, with other columns fixed, or one number of standard
    /// deviations for all columns (of the model's support points). The bound comes from the norm of the model
    /// and is often much larger than actual changes. For bounded kernels, and the baseline, interventional
    /// and observational games
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    pub robustness: Option<String>,
}

impl GameArgs {
    /// The first option that was given.
    pub fn first_given(&self) -> Option<String> {
        let options = [
            ("--background", self.background.is_some()),
            ("--baseline", self.baseline.is_some()),
            ("--groups", self.groups.is_some()),
            ("--graph", self.graph.is_some()),
            ("--ignore", !self.ignore.is_empty()),
            ("--robustness", self.robustness.is_some()),
        ];
        let own_option =
            options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| (*option).to_string());
        self.settings.first_given().or(own_option)
    }
}
