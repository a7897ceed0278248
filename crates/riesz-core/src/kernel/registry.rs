//! Schemas of the kinds of factors: their names, arguments, defaults and formulas. Expressions, help
//! texts, checks, Python's constructors and the conformance tests are derived from them.

use std::fmt::Write as _;

use super::{ColumnScaling, Factor, LengthScale, length_scale_heuristics, length_scales, registry};
use crate::error::{Error, Result, listed, sized};
use crate::table::Table;

/// The type and the range of an argument's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArgumentType {
    /// One positive number per column, in the column's units. An expression gives a multiple of the columns'
    /// scales, or the name of a [`LengthScale`] rule; the default is the median.
    LengthScales,
    /// One number per column. An expression uses the centers of [`ColumnScaling`].
    Centers,
    /// One positive number per column. An expression uses the scales of [`ColumnScaling`].
    Scales,
    /// A positive number.
    Positive,
    /// A number of any sign.
    Number,
    /// A number in this range.
    Within(f64, f64),
    /// A number from 0 to 1.
    Fraction,
    /// A whole number from 1 to the given maximum.
    Whole(u32),
    /// 1 or 0. An expression sets the flag by its name.
    Flag,
}

impl ArgumentType {
    /// Whether the argument has one number per column.
    pub fn by_column(self) -> bool {
        matches!(self, Self::LengthScales | Self::Centers | Self::Scales)
    }

    /// Whether expressions can set the argument.
    fn writable(self) -> bool {
        !matches!(self, Self::Centers | Self::Scales)
    }

    fn holds(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                // The inverses, and for some types the squares, must be finite doubles.
                Self::LengthScales => (1e-300..=1e300).contains(&value),
                Self::Scales | Self::Positive => (1e-150..=1e150).contains(&value),
                Self::Centers => true,
                Self::Number => value.abs() <= 1e150,
                Self::Within(low, high) => (low..=high).contains(&value),
                Self::Fraction | Self::Flag => (0.0..=1.0).contains(&value),
                Self::Whole(maximum) => value.fract() == 0.0 && (1.0..=f64::from(maximum)).contains(&value),
            }
    }

    fn words(self) -> String {
        match self {
            Self::LengthScales => "a positive number, from 1e-300 to 1e300".into(),
            Self::Scales | Self::Positive => "a positive number, from 1e-150 to 1e150".into(),
            Self::Centers => "a finite number".into(),
            Self::Number => "a number, from -1e150 to 1e150".into(),
            Self::Within(low, high) => format!("a number from {low} to {high}"),
            Self::Fraction | Self::Flag => "a number from 0 to 1".into(),
            Self::Whole(maximum) => format!("a whole number from 1 to {maximum}"),
        }
    }
}

/// Value of an argument that an expression leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DefaultValue {
    /// The argument's default, or the value that [`ArgumentType`] derives from the table.
    Default,
    /// 1 / number of columns.
    OverColumns,
    /// No default: the argument is required. The string shows an example.
    Refused(&'static str),
}

/// An argument of a factor other than its columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Argument {
    /// Name in expressions, and of the field in files.
    pub name: &'static str,
    /// Name in the Python class: scikit-learn's name if it has one; empty if the class does not have the
    /// argument.
    pub python: &'static str,
    /// Another spelling that expressions and files may use, such as GPyTorch's; empty for none.
    pub alias: &'static str,
    /// Type and range of the values.
    pub takes: ArgumentType,
    /// Default in constructors.
    pub default: f64,
    /// Default in expressions.
    pub ungiven: DefaultValue,
    /// One line that describes the argument.
    pub help_text: &'static str,
}

impl Argument {
    /// An argument with the same name and the same default everywhere.
    pub const fn new(name: &'static str, takes: ArgumentType, default: f64, help: &'static str) -> Self {
        Self {
            name,
            python: name,
            alias: "",
            takes,
            default,
            ungiven: DefaultValue::Default,
            help_text: help,
        }
    }

    /// The argument with another name in Python.
    pub(crate) const fn in_python(self, python: &'static str) -> Self {
        Self { python, ..self }
    }

    /// The argument with another spelling of its name.
    pub(crate) const fn or(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }

    /// Whether this is a name of the argument.
    fn is(&self, name: &str) -> bool {
        !name.is_empty() && [self.name, self.python, self.alias].contains(&name)
    }

    /// Checks the argument's values for a factor over `columns` columns. Errors call the argument `name`, as
    /// the user wrote it.
    fn check(&self, name: &str, values: &[f64], columns: usize) -> Result<()> {
        let by_column = (columns, "one per column of the factor");
        let (expected, why) = if self.takes.by_column() { by_column } else { (1, "it is one number") };
        sized(name, "numbers", expected, values.len(), why)?;
        match values.iter().find(|v| !self.takes.holds(**v)) {
            Some(bad) => Err(Error::parameter(name, bad, format!("it is {}", self.takes.words()))),
            None => Ok(()),
        }
    }

    /// Parses the `text` that follows `name=` in an expression; an error says what is allowed.
    pub(super) fn parse(&self, text: &str) -> std::result::Result<ParsedValue, String> {
        let rules =
            || length_scale_heuristics::RULES.iter().filter(|_| self.takes == ArgumentType::LengthScales);
        if let Some((_, rule)) = rules().find(|(word, _)| *word == text) {
            return Ok(ParsedValue::Rule(*rule));
        }
        text.parse().ok().filter(|value| self.takes.holds(*value)).map(ParsedValue::Number).ok_or_else(|| {
            let mut allowed: Vec<String> = rules().map(|(word, _)| word.to_string()).collect();
            allowed.push(self.takes.words());
            format!("{} = '{text}' is not allowed: it is {}", self.name, allowed.join(", or "))
        })
    }

    /// The argument as help shows it: its name and its default.
    fn syntax(&self) -> String {
        match (self.takes, self.ungiven) {
            (ArgumentType::Flag, _) => self.name.into(),
            (ArgumentType::LengthScales, _) => format!("{}=median", self.name),
            (_, DefaultValue::Default) => format!("{}={}", self.name, self.default),
            (_, DefaultValue::OverColumns) => format!("{}=1/columns", self.name),
            (_, DefaultValue::Refused(_)) => format!("{}=…", self.name),
        }
    }
}

/// A number in an expression, or the name of a rule.
#[derive(Debug, Clone, Copy)]
pub(super) enum ParsedValue {
    Number(f64),
    Rule(LengthScale),
}

/// The arguments of a factor with their values.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentValues(pub Vec<(&'static str, Vec<f64>)>);

impl ArgumentValues {
    /// The values of an argument: one number, or one per column.
    pub fn list(&self, name: &str) -> &[f64] {
        let is_argument = |(argument, _): &&(_, _)| *argument == name;
        self.0.iter().find(is_argument).map_or(&[], |(_, values)| values)
    }

    /// The value of an argument that has one number; NaN if there is none.
    pub fn number(&self, name: &str) -> f64 {
        self.field(name)
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.field(name)
    }

    /// The values of an argument, as a factor stores them.
    pub(super) fn field<F: ArgumentField>(&self, name: &str) -> F {
        F::from_values(self.list(name))
    }
}

/// A field of a factor that stores the values of an argument.
pub(super) trait ArgumentField {
    fn to_values(&self) -> Vec<f64>;
    fn from_values(values: &[f64]) -> Self;
}

impl ArgumentField for Vec<f64> {
    fn to_values(&self) -> Vec<f64> {
        self.clone()
    }
    fn from_values(values: &[f64]) -> Self {
        values.to_vec()
    }
}

impl ArgumentField for f64 {
    fn to_values(&self) -> Vec<f64> {
        vec![*self]
    }
    fn from_values(values: &[f64]) -> Self {
        values.first().copied().unwrap_or(f64::NAN)
    }
}

impl ArgumentField for u32 {
    fn to_values(&self) -> Vec<f64> {
        vec![f64::from(*self)]
    }
    fn from_values(values: &[f64]) -> Self {
        f64::from_values(values) as Self
    }
}

impl ArgumentField for bool {
    fn to_values(&self) -> Vec<f64> {
        vec![f64::from(u8::from(*self))]
    }
    fn from_values(values: &[f64]) -> Self {
        f64::from_values(values) == 1.0
    }
}

/// Schema of a kind of factor. Each profile of a stationary factor is a kind.
#[derive(Debug)]
pub struct FactorSchema {
    /// Names in expressions; messages use the first.
    pub names: &'static [&'static str],
    /// Class in Python's `riesz.kernels`.
    pub python: &'static str,
    /// Formula on one line.
    pub formula: &'static str,
    /// Whether the factor reads categorical columns instead of numeric ones.
    pub categorical: bool,
    /// Arguments other than the columns.
    pub arguments: &'static [Argument],
    /// Builds the factors over these columns, given a value for every argument.
    pub make: fn(Vec<usize>, &ArgumentValues) -> Vec<Factor>,
}

impl FactorSchema {
    /// The schema with this name in expressions; upper and lower case are equal.
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.to_ascii_lowercase();
        registry().find(|schema| schema.names.contains(&name.as_str()))
    }

    /// Builds the factors over these columns of a table: one factor, or one per column if the kind reads a
    /// single column. Arguments have any of their names. A value per column may be given as one
    /// number for all columns. Missing arguments have their defaults.
    ///
    /// # Errors
    /// [`Error::Parameter`] or [`Error::Shape`], with the argument's name as the caller wrote it.
    pub fn factors(&self, columns: &[usize], named_values: &[(&str, Vec<f64>)]) -> Result<Vec<Factor>> {
        if let Some((name, _)) =
            named_values.iter().find(|(name, _)| !self.arguments.iter().any(|a| a.is(name)))
        {
            let names = listed(self.arguments.iter().map(|a| a.name));
            return Err(Error::parameter(
                self.names[0],
                name,
                format!("it is no argument; the arguments are: {names}"),
            ));
        }
        let mut values = Vec::with_capacity(self.arguments.len());
        for argument in self.arguments {
            let argument_values = named_values.iter().find(|(name, _)| argument.is(name));
            let (name, mut values_of_argument) =
                argument_values.map_or((argument.name, vec![argument.default]), |(n, v)| (*n, v.clone()));
            if let ([single], true) = (values_of_argument.as_slice(), argument.takes.by_column()) {
                values_of_argument = vec![*single; columns.len()];
            }
            argument.check(name, &values_of_argument, columns.len())?;
            values.push((argument.name, values_of_argument));
        }
        Ok((self.make)(columns.to_vec(), &ArgumentValues(values)))
    }

    /// Builds the factors of an expression over these columns of `x`.
    pub(super) fn resolve(
        &self,
        columns: Vec<usize>,
        arguments: &[(&'static str, ParsedValue)],
        x: &Table,
        units: &ColumnScaling,
    ) -> Result<Vec<Factor>> {
        let mut values = Vec::with_capacity(self.arguments.len());
        for argument in self.arguments {
            let value = arguments.iter().find(|(name, _)| *name == argument.name).map(|(_, parsed)| *parsed);
            let values_of_columns = |from: &[f64]| columns.iter().map(|&j| from[j]).collect();
            let numbers = match (argument.takes, value, argument.ungiven) {
                (ArgumentType::LengthScales, parsed, _) => {
                    let rule = match parsed {
                        Some(ParsedValue::Rule(rule)) => rule,
                        Some(ParsedValue::Number(value)) => LengthScale::Fixed(value),
                        None => LengthScale::Median,
                    };
                    length_scales(x, &columns, units, rule)?
                }
                (ArgumentType::Centers, ..) => values_of_columns(&units.center),
                (ArgumentType::Scales, ..) => values_of_columns(&units.scale),
                (_, Some(ParsedValue::Number(value)), _) => vec![value],
                (ArgumentType::Flag, None, _) => vec![0.0],
                (.., DefaultValue::Default) => vec![argument.default],
                (.., DefaultValue::OverColumns) => vec![1.0 / columns.len() as f64],
                (.., DefaultValue::Refused(example)) => {
                    let allowed = format!("{} needs a {}, {example}", self.names[0], argument.name);
                    return Err(Error::parameter(argument.name, "nothing", allowed));
                }
            };
            values.push((argument.name, numbers));
        }
        Ok((self.make)(columns, &ArgumentValues(values)))
    }

    /// The argument that an expression sets by `name=`, if the kind has it.
    pub(super) fn option(&self, name: &str) -> Option<&'static Argument> {
        self.writable().find(|a| a.is(name) && a.takes != ArgumentType::Flag)
    }

    /// The name of the flag `name`, if the kind has this flag.
    pub(super) fn flag(&self, name: &str) -> Option<&'static str> {
        self.arguments.iter().find(|a| a.takes == ArgumentType::Flag && a.name == name).map(|a| a.name)
    }

    fn writable(&self) -> impl Iterator<Item = &'static Argument> {
        self.arguments.iter().filter(|a| a.takes.writable())
    }

    /// The arguments that the parentheses may contain, for error messages.
    pub(super) fn allowed(&self) -> String {
        let mut text = String::from("allowed are names of columns");
        let flags = self.writable().filter(|a| a.takes == ArgumentType::Flag);
        flags.for_each(|flag| text.extend([", ", flag.name]));
        let options = self.writable().filter(|a| a.takes != ArgumentType::Flag);
        options.for_each(|other| text.extend([", ", other.name, "=…"]));
        text
    }

    /// The kind as an expression writes it, with every argument and its default.
    pub fn syntax(&self) -> String {
        self.call(self.writable().map(Argument::syntax).collect())
    }

    /// The kind's name, followed by the arguments in parentheses, if there are any.
    fn call(&self, arguments: Vec<String>) -> String {
        let name = self.names[0];
        if arguments.is_empty() { name.into() } else { format!("{name}({})", arguments.join(", ")) }
    }

    /// A short formula with the values of the arguments that expressions can give, followed by the flags.
    pub(super) fn format_expression(&self, values: &ArgumentValues, flags: &str) -> String {
        let number = |takes: ArgumentType, v: f64| match takes {
            ArgumentType::Whole(_) => v.to_string(),
            _ => format!("{v:.4}"),
        };
        let mut parts = Vec::new();
        for argument in self.writable().filter(|a| a.takes != ArgumentType::Flag) {
            let numbers = values.list(argument.name).iter();
            let (low, high) =
                numbers.fold((f64::INFINITY, 0.0_f64), |(low, high), &v| (low.min(v), high.max(v)));
            let span =
                if low == high { String::new() } else { format!("…{}", number(argument.takes, high)) };
            parts.push(format!("{}={}{span}", argument.name, number(argument.takes, low)));
        }
        parts.extend((!flags.is_empty()).then(|| flags.to_string()));
        self.call(parts)
    }

    /// Checks the values of the arguments of a factor over `columns` columns.
    pub(super) fn check(&self, values: &ArgumentValues, columns: usize) -> Result<()> {
        self.arguments.iter().try_for_each(|a| a.check(a.name, values.list(a.name), columns))
    }
}

/// Help text on how kernels are written: every factor with its arguments and formula.
pub fn help_text() -> String {
    let mut text = String::from(
        "Kernels are these factors, joined by + and *, with numbers as weights. r is the distance over the\n\
         length scale, and u·v the inner product of centered and scaled columns:\n",
    );
    let constant = ("constant(value=1)".to_string(), "value", &["constant"][..]);
    let rows: Vec<_> =
        registry().map(|schema| (schema.syntax(), schema.formula, schema.names)).chain([constant]).collect();
    let width = rows.iter().map(|(usage, ..)| usage.chars().count()).max().unwrap_or(0);
    for (usage, formula, names) in &rows {
        let also = names[1..].iter().map(|name| format!(", also {name}")).collect::<String>();
        let _ = writeln!(text, "  {usage:width$}  {formula}{also}");
    }
    text.push_str("Arguments name the columns that a factor reads, by default all. The other arguments are:");
    let mut seen: Vec<&Argument> = Vec::new();
    for argument in registry().flat_map(FactorSchema::writable) {
        if !seen.iter().any(|a| a.name == argument.name && a.help_text == argument.help_text) {
            seen.push(argument);
        }
    }
    let width = seen.iter().map(|a| a.name.len()).max().unwrap_or(0);
    for argument in seen {
        let _ = write!(text, "\n  {:width$}  {}", argument.name, argument.help_text);
    }
    text
}
