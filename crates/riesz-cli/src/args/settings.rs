//! One flag for each of the library's settings.

use std::marker::PhantomData;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use riesz::fit::{MODELS, ModelKind};
use riesz::question::{QuestionSetting, SETTINGS, Settings, Source, Subject};
use riesz::setting_schema::{Range, Setting};
use riesz::{Background, Question};
use serde_json::{Map, Value};

use crate::exit::{Failure, Result};

/// A family of flags.
pub trait Family: std::fmt::Debug + Clone + Send + Sync + 'static {
    /// The prefix of the flags, after the dashes.
    const PREFIX: &'static str = "";
    /// The flag that all of these flags require, if any.
    const REQUIRES: Option<&'static str> = None;
    /// Whether the flags have an index of values, whose largest sets `--order` determines.
    const HAS_ORDER: bool = false;
    /// The settings.
    fn settings() -> Vec<&'static Setting>;
    /// The help text of a setting.
    fn help(setting: &Setting) -> String {
        setting.help.into()
    }
    /// Whether a value may be chosen for a setting.
    fn offers(_: &Setting, _: &str) -> bool {
        true
    }
}

/// Settings that apply to any of these subjects, except `random_state`: every command has `--seed`.
fn settings_of(subjects: &[Subject]) -> impl Iterator<Item = &'static QuestionSetting> {
    let applies = |s: &&QuestionSetting| subjects.iter().any(|subject| s.applies_to(*subject));
    SETTINGS.iter().filter(|s| s.setting.name != "random_state").filter(applies)
}

fn is_offered(subjects: &[Subject], setting: &Setting, choice: &str) -> bool {
    settings_of(subjects).any(|question_setting| {
        question_setting.setting == *setting
            && subjects.iter().any(|subject| question_setting.offers(*subject, choice))
    })
}

/// The flags of `explain` and `report`.
#[derive(Debug, Clone)]
pub struct Explained;

impl Explained {
    const SUBJECTS: [Subject; 2] = [Subject::Model, Subject::Program];
}

impl Family for Explained {
    const HAS_ORDER: bool = true;
    fn settings() -> Vec<&'static Setting> {
        settings_of(&Self::SUBJECTS).map(|question_setting| &question_setting.setting).collect()
    }
    fn offers(setting: &Setting, choice: &str) -> bool {
        is_offered(&Self::SUBJECTS, setting, choice)
    }
}

/// The flags of protected training.
#[derive(Debug, Clone)]
pub struct Protected;

impl Family for Protected {
    const PREFIX: &'static str = "protect-";
    const REQUIRES: Option<&'static str> = Some("protect");
    fn settings() -> Vec<&'static Setting> {
        settings_of(&[Subject::Protection]).map(|question_setting| &question_setting.setting).collect()
    }
    fn offers(setting: &Setting, choice: &str) -> bool {
        is_offered(&[Subject::Protection], setting, choice)
    }
}

/// The flags of the kinds of model, except `normalize_y`: `--no-standardise` covers columns and target.
#[derive(Debug, Clone)]
pub struct ModelSettings;

impl Family for ModelSettings {
    fn settings() -> Vec<&'static Setting> {
        let settings = ModelKind::all_settings().into_iter();
        settings.filter(|setting| setting.name != "normalize_y").collect()
    }
    /// The help text, preceded by the names of the kinds of model that use the setting, unless all do.
    fn help(setting: &Setting) -> String {
        let users = MODELS.iter().filter(|kind| kind.settings.contains(&setting));
        let names: Vec<&str> = users.map(|kind| kind.name).collect();
        let user_text =
            if names.len() == MODELS.len() { String::new() } else { format!("({}) ", names.join(", ")) };
        format!("{user_text}{}", setting.help)
    }
}

/// The settings given by the flags of a family.
#[derive(Debug, Clone)]
pub struct SettingArgs<F> {
    entries: Vec<(String, Value)>,
    family: PhantomData<F>,
}

/// The reason why a question is refused.
enum QuestionError {
    Setting(riesz::Error),
    Rows(Failure),
}

impl From<riesz::Error> for QuestionError {
    fn from(error: riesz::Error) -> Self {
        Self::Setting(error)
    }
}

impl<F: Family> SettingArgs<F> {
    /// The flag of a setting: `n_orders` is `--orders`.
    fn flag(name: &str) -> String {
        format!("{}{}", F::PREFIX, name.strip_prefix("n_").unwrap_or(name).replace('_', "-"))
    }

    /// The question made from these settings and this seed; see [`Settings::question`].
    pub fn question(
        &self,
        subject: Subject,
        source: Option<Source>,
        seed: u64,
        rows: impl FnOnce(&'static str) -> Result<Background>,
    ) -> Result<Question> {
        let settings = Settings::new(self.to_pairs()).map(|settings| settings.with_seed(seed));
        let rows = |game| rows(game).map_err(QuestionError::Rows);
        let question = settings.map_err(QuestionError::from).and_then(|s| s.question(subject, source, rows));
        question.map_err(|error| match error {
            QuestionError::Setting(error) => self.with_option(error),
            QuestionError::Rows(error) => error,
        })
    }

    /// These settings except those with these names.
    pub fn excluding(&self, names: &[&str]) -> Self {
        let remaining = self.entries.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned();
        Self { entries: remaining.collect(), family: PhantomData }
    }

    /// These settings with a default value, unless the setting was given.
    pub fn or(mut self, name: &str, value: Value) -> Self {
        if self.value(name).is_none() {
            self.entries.push((name.to_string(), value));
        }
        self
    }

    /// These settings, completed by those of a text that [`as_text`](Self::as_text) wrote.
    pub fn or_text(self, text: &str) -> Self {
        let flags = text.strip_prefix("--").unwrap_or(text).split(" --");
        flags.fold(self, |settings, entry| {
            let (flag, text) = entry.split_once(' ').unwrap_or((entry, "true"));
            match F::settings().into_iter().find(|setting| Self::flag(setting.name) == flag) {
                Some(setting) => settings.or(setting.name, value(setting.range, text)),
                None => settings,
            }
        })
    }

    /// All settings.
    pub fn to_pairs(&self) -> impl Iterator<Item = (String, Value)> {
        self.entries.iter().cloned()
    }

    /// The first flag that was given.
    pub fn first_given(&self) -> Option<String> {
        self.entries.first().map(|(name, _)| format!("--{}", Self::flag(name)))
    }

    /// The value under this name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.entries.iter().find(|(entry_name, _)| entry_name == name).map(|(_, value)| value)
    }

    /// The given settings as text, such as `--game baseline --covariance`; `None` if all are defaults.
    pub fn as_text(&self) -> Option<String> {
        let flag_text = |(name, value): &(String, Value)| match value {
            Value::Bool(true) => format!("--{}", Self::flag(name)),
            Value::String(text) => format!("--{} {text}", Self::flag(name)),
            value => format!("--{} {value}", Self::flag(name)),
        };
        (!self.entries.is_empty()).then(|| self.entries.iter().map(flag_text).collect::<Vec<_>>().join(" "))
    }

    /// The library's error; if it is about a setting, with the flag in place of the setting's name.
    pub fn with_option(&self, error: riesz::Error) -> Failure {
        let name = match &error {
            riesz::Error::Unused { setting: name, .. } | riesz::Error::Parameter { name, .. } => name,
            _ => return error.into(),
        };
        let is_setting = F::settings().iter().any(|setting| setting.name == name.as_str());
        if is_setting { Self::with_flag(error) } else { error.into() }
    }

    /// The library's error: about a setting as [`with_option`](Self::with_option), or else about the table
    /// `rows`.
    pub fn about_rows(&self, error: riesz::Error, rows: &str) -> Failure {
        match error {
            riesz::Error::Unused { .. } | riesz::Error::Parameter { .. } => self.with_option(error),
            error => Failure::from(error).about(rows),
        }
    }

    /// The library's error, with the flag in place of the setting's name.
    pub fn with_flag(error: riesz::Error) -> Failure {
        use riesz::Error::{Parameter, Unused};
        let flag = |name: String| format!("--{}", Self::flag(&name));
        Failure::from(match error {
            Unused { setting, belongs } => Unused { setting: flag(setting), belongs },
            Parameter { name, value, allowed } => Parameter { name: flag(name), value, allowed },
            other => other,
        })
    }
}

/// The flag of the largest order of interactions, which becomes part of the index.
const ORDER: &str = "order";

fn order_arg() -> Arg {
    Arg::new(ORDER)
        .long(ORDER)
        .value_name("N")
        .requires("index")
        .value_parser(clap::value_parser!(u8).range(2..=8))
        .help("With an --index of interactions: the largest number of features in a set [default: 2]")
}

impl<F: Family> Args for SettingArgs<F> {
    fn augment_args(command: Command) -> Command {
        let command = if F::HAS_ORDER { command.arg(order_arg()) } else { command };
        F::settings().into_iter().fold(command, |command, setting| {
            let mut arg = Arg::new(Self::flag(setting.name))
                .long(Self::flag(setting.name))
                .value_name(setting.placeholder)
                .help(F::help(setting));
            arg = match setting.range {
                Range::Choice(choices) => {
                    let offered_choices = choices.iter().filter(|choice| F::offers(setting, choice));
                    arg.value_parser(PossibleValuesParser::new(offered_choices))
                }
                Range::Switch => arg.value_parser(PossibleValuesParser::new(["true", "false"])),
                _ => arg.value_parser(NonEmptyStringValueParser::new()).allow_negative_numbers(true),
            };
            if let Some(bare) = setting.bare {
                arg = arg.num_args(0..=1).require_equals(true).default_missing_value(bare);
            }
            command.arg(F::REQUIRES.map_or(arg.clone(), |required_flag| arg.requires(required_flag)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Parses names `a,b`, or a name and its list `a=b,c`, as one list.
fn name_list(text: &str) -> Value {
    let names = text.split(['=', ',']).map(str::trim).filter(|name| !name.is_empty());
    names.map(Value::from).collect()
}

/// Parses the text of a setting's value. Text that cannot be parsed is returned as a string, which the
/// setting then refuses with its own message.
fn value(range: Range, text: &str) -> Value {
    // Rust's notation accepts numbers that JSON does not, such as `.5`.
    let parsed_number = |text: &str| text.parse::<f64>().ok().filter(|v| v.is_finite()).map(Value::from);
    let number = |text: &str| {
        serde_json::from_str(text).ok().or_else(|| parsed_number(text)).unwrap_or_else(|| text.into())
    };
    match range {
        Range::Choice(_) | Range::Index | Range::Kernel => Value::from(text),
        // Text in brackets that is not JSON is kept, and refused later as it was written.
        Range::Unions if text.trim_start().starts_with('[') => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
        }
        Range::Unions => text.split(';').map(name_list).collect(),
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
        let entries = F::settings().into_iter().filter_map(|setting| {
            let text = matches.get_one::<String>(&Self::flag(setting.name))?;
            Some((setting.name.to_string(), value(setting.range, text)))
        });
        let mut entries: Vec<(String, Value)> = entries.collect();
        let order = if F::HAS_ORDER { matches.get_one::<u8>(ORDER) } else { None };
        if let Some(order) = order {
            match entries.iter_mut().find(|(name, _)| name == "index") {
                Some((_, Value::String(index))) if !index.contains('(') => *index += &format!("({order})"),
                _ => {
                    let reason = "--order is a number in brackets after --index already: leave it out\n";
                    return Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, reason));
                }
            }
        }
        Ok(Self { entries, family: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
