//! One flag for each of the library's settings.

use std::marker::PhantomData;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use riesz::fit::{MODELS, ModelKind};
use riesz::question::{QuestionSetting, SETTINGS, Settings, Source, Subject};
use riesz::setting_schema::{Range, Setting};
use riesz::{Background, Question};
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};

/// A family of flags.
pub trait Family: std::fmt::Debug + Clone + Send + Sync + 'static {
    /// What the flags begin with, after the dashes.
    const PREFIX: &'static str = "";
    /// The flag that they all need, if any.
    const REQUIRES: Option<&'static str> = None;
    /// The settings.
    fn settings() -> Vec<&'static Setting>;
    /// The use of a setting, in words.
    fn help(setting: &Setting) -> String {
        setting.help.into()
    }
    /// Whether a word can be chosen for a setting.
    fn offers(_: &Setting, _: &str) -> bool {
        true
    }
}

/// Settings of questions about some of these; `--seed` is an option of every command.
fn asked(subjects: &[Subject]) -> impl Iterator<Item = &'static QuestionSetting> {
    let served = |s: &&QuestionSetting| subjects.iter().any(|subject| s.serves(*subject));
    SETTINGS.iter().filter(|s| s.setting.name != "seed").filter(served)
}

fn offered(subjects: &[Subject], setting: &Setting, word: &str) -> bool {
    asked(subjects)
        .any(|own| own.setting == *setting && subjects.iter().any(|subject| own.offers(*subject, word)))
}

/// The flags of `explain` and `report`.
#[derive(Debug, Clone)]
pub struct Explained;

impl Explained {
    const SUBJECTS: [Subject; 2] = [Subject::Model, Subject::Program];
}

impl Family for Explained {
    fn settings() -> Vec<&'static Setting> {
        asked(&Self::SUBJECTS).map(|own| &own.setting).collect()
    }
    fn offers(setting: &Setting, word: &str) -> bool {
        offered(&Self::SUBJECTS, setting, word)
    }
}

/// The flags of protected training.
#[derive(Debug, Clone)]
pub struct Protected;

impl Family for Protected {
    const PREFIX: &'static str = "protect-";
    const REQUIRES: Option<&'static str> = Some("protect");
    fn settings() -> Vec<&'static Setting> {
        asked(&[Subject::Protection]).map(|own| &own.setting).collect()
    }
    fn offers(setting: &Setting, word: &str) -> bool {
        offered(&[Subject::Protection], setting, word)
    }
}

/// The flags of kinds of model; `--no-standardise` speaks of columns and target.
#[derive(Debug, Clone)]
pub struct OfModel;

impl Family for OfModel {
    fn settings() -> Vec<&'static Setting> {
        let all = ModelKind::all_settings().into_iter();
        all.filter(|setting| setting.name != "normalize_y").collect()
    }
    /// Says which kinds of model have a use for it, if not all have.
    fn help(setting: &Setting) -> String {
        let users = MODELS.iter().filter(|kind| kind.settings.contains(&setting));
        let names: Vec<&str> = users.map(|kind| kind.name).collect();
        let whose =
            if names.len() == MODELS.len() { String::new() } else { format!("({}) ", names.join(", ")) };
        format!("{whose}{}", setting.help)
    }
}

/// What was set by the flags of a family.
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
        let settings = Settings::new(self.all()).map(|settings| settings.with_seed(seed));
        let rows = |game| rows(game).map_err(Refusal::OfRows);
        let asked = settings.map_err(Refusal::from).and_then(|s| s.question(subject, source, rows));
        asked.map_err(|refusal| match refusal {
            Refusal::OfSetting(error) => self.spelt(error),
            Refusal::OfRows(failure) => failure,
        })
    }

    /// The same without these settings.
    pub fn without(&self, names: &[&str]) -> Self {
        let given = self.given.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned();
        Self { given: given.collect(), family: PhantomData }
    }

    /// The same with this setting, unless it was given.
    pub fn or(mut self, name: &str, value: Value) -> Self {
        if self.value(name).is_none() {
            self.given.push((name.to_string(), value));
        }
        self
    }

    /// All that was set.
    pub fn all(&self) -> impl Iterator<Item = (String, Value)> {
        self.given.iter().cloned()
    }

    /// A flag that was given.
    pub fn given(&self) -> Option<String> {
        self.given.first().map(|(name, _)| format!("--{}", Self::flag(name)))
    }

    /// What was set under this name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.given.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    /// What was given, `--game baseline --ridge 0.1`; nothing if all was left to defaults.
    pub fn words(&self) -> Option<String> {
        let word = |(name, value): &(String, Value)| match value {
            Value::Bool(true) => format!("--{}", Self::flag(name)),
            Value::String(text) => format!("--{} {text}", Self::flag(name)),
            value => format!("--{} {value}", Self::flag(name)),
        };
        (!self.given.is_empty()).then(|| self.given.iter().map(word).collect::<Vec<_>>().join(" "))
    }

    /// An error of the library, about the flag as it was given.
    pub fn spelt(&self, error: riesz::Error) -> Failure {
        let name = match &error {
            riesz::Error::Unused { setting: name, .. } | riesz::Error::Parameter { name, .. } => name,
            _ => return error.into(),
        };
        if self.value(name).is_some() { Self::flagged(error) } else { error.into() }
    }

    /// An error of the library, about a flag.
    pub fn flagged(error: riesz::Error) -> Failure {
        use riesz::Error::{Parameter, Unused};
        let flag = |name: String| format!("--{}", Self::flag(&name));
        Failure::from(match error {
            Unused { setting, belongs } => Unused { setting: flag(setting), belongs },
            Parameter { name, value, allowed } => Parameter { name: flag(name), value, allowed },
            other => other,
        })
    }
}

impl<F: Family> Args for SettingArgs<F> {
    fn augment_args(command: Command) -> Command {
        F::settings().into_iter().fold(command, |command, setting| {
            let mut arg = Arg::new(Self::flag(setting.name))
                .long(Self::flag(setting.name))
                .value_name(setting.placeholder)
                .help(F::help(setting));
            arg = match setting.range {
                Range::Choice(words) => {
                    let offered = words.iter().filter(|word| F::offers(setting, word));
                    arg.value_parser(PossibleValuesParser::new(offered))
                }
                Range::Switch => arg.value_parser(PossibleValuesParser::new(["true", "false"])),
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

/// The value that a text stands for. What is none is handed on as it is, and refused by the setting in its
/// own words.
fn value(range: Range, text: &str) -> Value {
    // A number without its 0 is one, too.
    let plain = |text: &str| text.parse::<f64>().ok().filter(|v| v.is_finite()).map(Value::from);
    let number =
        |text: &str| serde_json::from_str(text).ok().or_else(|| plain(text)).unwrap_or_else(|| text.into());
    match range {
        Range::Choice(_) | Range::Index | Range::Kernel => Value::from(text),
        // What is no JSON is refused as the text that it is.
        Range::Unions => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        Range::Switch => Value::from(text == "true"),
        Range::Count(_) | Range::Positive { .. } | Range::NotNegative | Range::Tuned => number(text),
        Range::ClassWeight => {
            let pairs = text.split(',').map(|part| part.rsplit_once('='));
            let weights =
                pairs.map(|pair| pair.map(|(class, w)| (class.trim().to_string(), number(w.trim()))));
            weights.collect::<Option<Map<_, _>>>().map_or_else(|| Value::from(text), Value::from)
        }
    }
}

impl<F: Family> FromArgMatches for SettingArgs<F> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = F::settings().into_iter().filter_map(|setting| {
            let text = matches.get_one::<String>(&Self::flag(setting.name))?;
            Some((setting.name.to_string(), value(setting.range, text)))
        });
        Ok(Self { given: given.collect(), family: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
