//! Settings by name, for all front ends.
//!
//! A [`Setting`] defines a name, range and help text once. The command line's flags, Python's checks and the
//! help texts are derived from it. [`SettingValues`] holds the values that a user sets, after a check of
//! their ranges. The lists of settings are in the modules that use them:
//! `question::SETTINGS` and the kinds of model
//! (`fit::MODELS`).

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
    /// A whole number of at least this value.
    Count(u64),
    /// A number above 0, and below 1 if it is a share.
    Positive {
        /// Whether the number must be below 1.
        share: bool,
    },
    /// A number that is not negative.
    NotNegative,
    /// A positive number, or `auto` to choose the number that does best on held-out rows.
    Tuned,
    /// `balanced`, or an object with a number for each class; missing classes have 1.
    ClassWeight,
    /// A [`ValueIndex`], as text.
    Index,
    /// Nested lists of names, such as unions of players.
    Unions,
    /// `own` for the model's kernel restricted to the conditioning columns, a [`Kernel`] in its JSON form, or
    /// an expression ([`KernelExpression`]) in the units of the reference's columns.
    Kernel,
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Name in Python's spelling; on the command line `a_name` is `--a-name` and `n_rows` is `--rows`.
    pub name: &'static str,
    /// Placeholder of the value in help texts.
    pub placeholder: &'static str,
    /// Range of the values.
    pub range: Range,
    /// Value of a setting that is given without a value, if this is allowed.
    pub bare: Option<&'static str>,
    /// Description of the setting and of its default.
    pub help: &'static str,
}

impl Setting {
    /// A setting that needs a value.
    pub const fn new(
        name: &'static str,
        placeholder: &'static str,
        range: Range,
        help: &'static str,
    ) -> Self {
        Self { name, placeholder, range, bare: None, help }
    }

    /// The setting with this value where it is named without one.
    pub const fn with_bare(self, value: &'static str) -> Self {
        Self { bare: Some(value), ..self }
    }

    /// Checks that `value` is within the setting's range.
    ///
    /// # Errors
    /// [`Error::Parameter`], whose message gives the range.
    pub fn check(&self, value: &Value) -> Result<()> {
        let is_positive =
            |value: &Value| value.as_f64().is_some_and(|number| number > 0.0 && number.is_finite());
        let (fits, allowed) = match self.range {
            Range::Choice(words) => (
                value.as_str().is_some_and(|word| words.contains(&word)),
                format!("it is one of {}", words.join(", ")),
            ),
            Range::Switch => (value.is_boolean(), "it is true or false".into()),
            Range::Count(min) => {
                (value.as_u64().is_some_and(|count| count >= min), format!("it is a whole number from {min}"))
            }
            Range::Positive { share: false } => (is_positive(value), "it is a positive number".into()),
            Range::Positive { share: true } => {
                (is_positive(value) && value.as_f64() < Some(1.0), "it is a number between 0 and 1".into())
            }
            Range::NotNegative => (
                value.as_f64().is_some_and(|number| number >= 0.0 && number.is_finite()),
                "it is a number that is not negative".into(),
            ),
            Range::Tuned => (
                value.as_str() == Some("auto") || is_positive(value),
                "it is a positive number, or 'auto'".into(),
            ),
            Range::ClassWeight => {
                let weights = value.as_object();
                let bad = weights.and_then(|weights| weights.iter().find(|(_, weight)| !is_positive(weight)));
                if let Some((class, weight)) = bad {
                    let allowed = format!("the weight of '{class}' is a positive number");
                    return Err(Error::parameter(self.name, weight, allowed));
                }
                (
                    weights.is_some() || value.as_str() == Some("balanced"),
                    "it is 'balanced', or a number for each class, class=weight,class=weight".into(),
                )
            }
            Range::Index => match value.as_str() {
                Some(text) => return text.parse::<ValueIndex>().map(|_| ()),
                None => (false, FORMS.into()),
            },
            Range::Unions => (
                serde_json::from_value::<Vec<CoalitionStructure>>(value.clone())
                    .is_ok_and(|unions| !unions.is_empty()),
                "it is a list of names and of such lists, [[\"a\", \"b\"], \"c\"]".into(),
            ),
            Range::Kernel => match value.as_str() {
                Some("own") => return Ok(()),
                Some(text) => return KernelExpression::parse(text).map(|_| ()),
                None => match serde_json::from_value::<Kernel>(value.clone()) {
                    Ok(_) => return Ok(()),
                    Err(error) => (false, format!("it is a kernel: {error}")),
                },
            },
        };
        if fits {
            return Ok(());
        }
        let shown = value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"));
        Err(Error::parameter(self.name, shown, allowed))
    }
}

/// Values of settings by name; each value is in its setting's range.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SettingValues(Map<String, Value>);

impl SettingValues {
    /// Values of some of the `settings`, from names and values; null values are ignored.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a value outside its setting's range, or an unknown name.
    pub fn new(
        settings: &[&'static Setting],
        pairs: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self> {
        let mut map = Map::new();
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_null()) {
            let setting = settings.iter().find(|setting| setting.name == name).ok_or_else(|| {
                let names = settings.iter().map(|setting| setting.name);
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

    /// The settings except those with the given names.
    pub fn excluding(&self, names: &[&str]) -> Self {
        let remaining = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        Self(remaining.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The value of a setting that is one of `words`.
    pub fn choice(&self, name: &str, words: &[&'static str]) -> Option<&'static str> {
        let chosen = self.get(name)?.as_str()?;
        words.iter().copied().find(|word| *word == chosen)
    }

    /// The non-negative whole number of a setting, if it is given.
    pub fn count(&self, name: &str) -> Option<usize> {
        usize::try_from(self.get(name)?.as_u64()?).ok()
    }

    /// The number of a setting, if it is given.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// The truth value of a setting, if it is given.
    pub fn switch(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }
}
