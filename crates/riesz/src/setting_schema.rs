//! Settings by name, for all front ends.
//!
//! A [`Setting`] says its name, range and help once; the command line's flags, Python's checks and the help
//! texts derive from it.
//! [`SettingValues`] are settings that were given, each with a value that it can have. Which settings there
//! are is said by those who use them:
//! [`question::SETTINGS`](crate::question::SETTINGS) and the kinds of model
//! ([`fit::MODELS`](crate::fit::MODELS)).

use serde_json::{Map, Value};

use crate::coalition_structure::CoalitionStructure;
use crate::error::{Error, Result, listed};
use crate::index::{FORMS, ValueIndex};
use crate::kernel::{Kernel, KernelExpression};

/// The range of a setting's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// True or false.
    Switch,
    /// A whole number from this one on.
    Count(u64),
    /// A number above 0, below 1 if it is a share.
    Positive {
        /// Whether it is below 1.
        share: bool,
    },
    /// A number that is not negative.
    NotNegative,
    /// A positive number, or `auto`, for what does best on rows that are held out.
    Tuned,
    /// `balanced`, or an object of numbers by class, which are 1 where they are not given.
    ClassWeight,
    /// An [`ValueIndex`], as text.
    Index,
    /// Lists of names and lists, as of unions of players.
    Unions,
    /// `own`, for the model's own family on the columns that are given; or a [`Kernel`] in its JSON form; or
    /// an expression ([`KernelExpression`]) in the units of the reference's columns.
    Kernel,
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Its name, in Python's spelling; on the command line `a_name` is `--a-name`.
    pub name: &'static str,
    /// The placeholder of its value in help texts.
    pub placeholder: &'static str,
    /// The range of its values.
    pub range: Range,
    /// The value of a setting that is named without one, where that is allowed.
    pub bare: Option<&'static str>,
    /// Its use and default, in words.
    pub help: &'static str,
}

impl Setting {
    /// Checks that `value` is within the setting's range.
    ///
    /// # Errors
    /// [`Error::Parameter`] says what it can have.
    pub fn check(&self, value: &Value) -> Result<()> {
        let wrong = |allowed: String| {
            let shown = value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"));
            Err(Error::parameter(self.name, shown, allowed))
        };
        let positive =
            |value: &Value| value.as_f64().is_some_and(|number| number > 0.0 && number.is_finite());
        match self.range {
            Range::Choice(words) => match value.as_str() {
                Some(word) if words.contains(&word) => Ok(()),
                _ => wrong(format!("it is one of {}", words.join(", "))),
            },
            Range::Switch if value.is_boolean() => Ok(()),
            Range::Switch => wrong("it is true or false".into()),
            Range::Count(min) if value.as_u64().is_some_and(|count| count >= min) => Ok(()),
            Range::Count(min) => wrong(format!("it is a whole number from {min}")),
            Range::Positive { share } => match value.as_f64() {
                Some(number) if positive(value) && !(share && number >= 1.0) => Ok(()),
                _ if share => wrong("it is a number between 0 and 1".into()),
                _ => wrong("it is a positive number".into()),
            },
            Range::NotNegative => match value.as_f64() {
                Some(number) if number >= 0.0 && number.is_finite() => Ok(()),
                _ => wrong("it is a number that is not negative".into()),
            },
            Range::Tuned if value.as_str() == Some("auto") || positive(value) => Ok(()),
            Range::Tuned => wrong("it is a positive number, or 'auto'".into()),
            Range::ClassWeight => match value {
                Value::Object(weights) => match weights.iter().find(|(_, weight)| !positive(weight)) {
                    Some((class, weight)) => {
                        let allowed = format!("the weight of '{class}' is a positive number");
                        Err(Error::parameter(self.name, weight, allowed))
                    }
                    None => Ok(()),
                },
                _ if value.as_str() == Some("balanced") => Ok(()),
                _ => wrong("it is 'balanced', or a number for each class, class=weight,class=weight".into()),
            },
            Range::Index => match value.as_str() {
                Some(text) => text.parse::<ValueIndex>().map(|_| ()),
                None => wrong(FORMS.into()),
            },
            Range::Unions => match serde_json::from_value::<Vec<CoalitionStructure>>(value.clone()) {
                Ok(unions) if !unions.is_empty() => Ok(()),
                _ => wrong("it is a list of names and of such lists, [[\"a\", \"b\"], \"c\"]".into()),
            },
            Range::Kernel => match value.as_str() {
                Some("own") => Ok(()),
                Some(text) => KernelExpression::parse(text).map(|_| ()),
                None => match serde_json::from_value::<Kernel>(value.clone()) {
                    Ok(_) => Ok(()),
                    Err(error) => wrong(format!("it is a kernel: {error}")),
                },
            },
        }
    }
}

/// Settings by name, each with a value that it can have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SettingValues(Map<String, Value>);

impl SettingValues {
    /// A subset of the settings `known`, from names and values; null values are ignored.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a value that the setting cannot have, or a name that is none.
    pub fn new(known: &[&'static Setting], pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Self> {
        let mut map = Map::new();
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_null()) {
            let setting = known.iter().find(|setting| setting.name == name).ok_or_else(|| {
                let names = known.iter().map(|setting| setting.name);
                Error::parameter("setting", &name, format!("it is one of {}", listed(names)))
            })?;
            setting.check(&value)?;
            map.insert(name, value);
        }
        Ok(Self(map))
    }

    /// The names of the settings that are set.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of a setting, if it is set.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The settings without these.
    pub(crate) fn excluding(&self, names: &[&str]) -> Self {
        let remaining = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        Self(remaining.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The word that is chosen among `words`.
    pub(crate) fn choice(&self, name: &str, words: &[&'static str]) -> Option<&'static str> {
        let chosen = self.get(name)?.as_str()?;
        words.iter().copied().find(|word| *word == chosen)
    }

    pub(crate) fn count(&self, name: &str) -> Option<usize> {
        usize::try_from(self.get(name)?.as_u64()?).ok()
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    pub(crate) fn switch(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }
}
