//! The question as options: where rows come from, and one flag for each of the library's settings.

use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use riesz::question::{Kind, SETTINGS, Setting, Settings, Source, Subject};
use riesz::{Background, Question};
use serde_json::Value;

use crate::failure::{Failure, Result};

/// A family of flags.
pub trait Family: std::fmt::Debug + Clone + Send + Sync + 'static {
    /// What the flags begin with, after the dashes.
    const PREFIX: &'static str;
    /// Whom they speak of.
    const SUBJECTS: &'static [Subject];
    /// The flag that they all need, if any.
    const REQUIRES: Option<&'static str>;
}

/// The flags of `explain` and `report`.
#[derive(Debug, Clone)]
pub struct Explained;

impl Family for Explained {
    const PREFIX: &'static str = "";
    const SUBJECTS: &'static [Subject] = &[Subject::Model, Subject::Program];
    const REQUIRES: Option<&'static str> = None;
}

/// The flags of protected training.
#[derive(Debug, Clone)]
pub struct Protected;

impl Family for Protected {
    const PREFIX: &'static str = "protect-";
    const SUBJECTS: &'static [Subject] = &[Subject::Protection];
    const REQUIRES: Option<&'static str> = Some("protect");
}

/// What was set by the flags of a family; `--seed` is an option of every command.
#[derive(Debug, Clone)]
pub struct SettingArgs<F> {
    given: Vec<(String, Value)>,
    family: PhantomData<F>,
}

/// Why a question cannot be asked.
enum Refusal {
    OfSetting(riesz::Error),
    OfRows(Failure),
}

impl From<riesz::Error> for Refusal {
    fn from(error: riesz::Error) -> Self {
        Self::OfSetting(error)
    }
}

impl<F: Family> SettingArgs<F> {
    fn settings() -> impl Iterator<Item = &'static Setting> {
        let served = |s: &&Setting| F::SUBJECTS.iter().any(|subject| s.serves(*subject));
        SETTINGS.iter().filter(|s| s.name != "seed").filter(served)
    }

    fn flag(name: &str) -> String {
        format!("{}{}", F::PREFIX, name.replace('_', "-"))
    }

    /// The question that the settings ask with this seed; see [`Settings::question`].
    pub fn question(
        &self,
        subject: Subject,
        source: Option<Source>,
        seed: u64,
        rows: impl FnOnce(&'static str) -> Result<Background>,
    ) -> Result<Question> {
        let seed = ("seed".to_string(), Value::from(seed));
        let settings = Settings::new(self.given.iter().cloned().chain([seed]));
        let rows = |game| rows(game).map_err(Refusal::OfRows);
        let asked = settings.map_err(Refusal::from).and_then(|s| s.question(subject, source, rows));
        asked.map_err(|refusal| match refusal {
            Refusal::OfSetting(error) => self.spelt(error),
            Refusal::OfRows(failure) => failure,
        })
    }

    /// A flag that was given.
    pub fn given(&self) -> Option<String> {
        self.given.first().map(|(name, _)| format!("--{}", Self::flag(name)))
    }

    /// What was set under this name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.given.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    /// An error of the library, about the flag as it was given.
    fn spelt(&self, error: riesz::Error) -> Failure {
        use riesz::Error::{Parameter, Unused};
        let flag = |name: String| match self.value(&name) {
            Some(_) => format!("--{}", Self::flag(&name)),
            None => name,
        };
        Failure::from(match error {
            Unused { setting, belongs } => Unused { setting: flag(setting), belongs },
            Parameter { name, value, allowed } => Parameter { name: flag(name), value, allowed },
            other => other,
        })
    }
}

impl<F: Family> Args for SettingArgs<F> {
    fn augment_args(command: Command) -> Command {
        Self::settings().fold(command, |command, setting| {
            let mut arg = Arg::new(Self::flag(setting.name))
                .long(Self::flag(setting.name))
                .value_name(setting.placeholder)
                .help(setting.help);
            arg = match setting.kind {
                Kind::Choice(words) => {
                    let offered = |w: &&&str| F::SUBJECTS.iter().any(|s| setting.offers(*s, w));
                    arg.value_parser(PossibleValuesParser::new(words.iter().filter(offered)))
                }
                Kind::Switch => arg.value_parser(PossibleValuesParser::new(["true", "false"])),
                _ => arg.value_parser(NonEmptyStringValueParser::new()).allow_negative_numbers(true),
            };
            if let Some(bare) = setting.bare {
                arg = arg.num_args(0..=1).require_equals(true).default_missing_value(bare);
            }
            command.arg(F::REQUIRES.map_or(arg.clone(), |owner| arg.requires(owner)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<F: Family> FromArgMatches for SettingArgs<F> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let text = |setting: &Setting| matches.get_one::<String>(&Self::flag(setting.name));
        let given = Self::settings().filter_map(|setting| {
            let text = text(setting)?;
            let value = match setting.kind {
                Kind::Choice(_) | Kind::Kernel => Value::from(text.as_str()),
                Kind::Switch => Value::from(text == "true"),
                // What is no number is refused by the setting, in its own words.
                Kind::Count(_) | Kind::Positive { .. } => {
                    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
                }
            };
            Some((setting.name.to_string(), value))
        });
        Ok(Self { given: given.collect(), family: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What question to ask of the model.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The question")]
pub struct GameArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: SettingArgs<Explained>,
    /// Table of rows from which absent features take their values; for the observational game those from which their
    /// distribution is learnt [default there: the model's support points]
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
    /// Columns that are present or absent together, 'blood=s1,s2;body=bmi', or a file with one group a line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Also give a proved bound on how far any value of any row can move if the row's columns move by at most so much:
    /// 'bmi=0.5,age=1' in the columns' units, where others stay as they are, or one number of standard deviations of all
    /// columns (of the model's support points). It comes from the norm of the model and is often far larger than what
    /// happens. For bounded kernels, and the baseline, interventional and observational games
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    pub robustness: Option<String>,
}

impl GameArgs {
    /// An option that was given.
    pub fn given(&self) -> Option<String> {
        let options = [
            ("--background", self.background.is_some()),
            ("--baseline", self.baseline.is_some()),
            ("--groups", self.groups.is_some()),
            ("--robustness", self.robustness.is_some()),
        ];
        let own = options.iter().find(|(_, given)| *given).map(|(option, _)| (*option).to_string());
        self.settings.given().or(own)
    }
}
