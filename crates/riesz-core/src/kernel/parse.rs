//! Kernel expressions: `rbf(age, bmi, ard) + 0.5 * linear` becomes a [`Kernel`] for a table.
//!
//! ```text
//! sum     = product ("+" product)*
//! product = atom ("*" atom)*
//! atom    = number | "(" sum ")" | name [ "(" [ argument ("," argument)* ] ")" ]
//! argument = column | flag | option "=" value
//! ```
//!
//! Column names are bare or in quotes. A factor without columns reads all numeric columns. A product that
//! contains such a factor is multiplied by a categorical factor for every categorical column that it does not
//! read yet. Length scales and the linear and polynomial factors are relative to the given [`ColumnScaling`];
//! periods are in the column's units.

use super::registry::{FactorSchema, ParsedValue};
use super::{Categorical, ColumnScaling, Factor, Kernel, Term, registry};
use crate::error::{Error, Result, listed};
use crate::table::{ColumnKind, Table};

/// Maximum depth of nested parentheses.
const MAX_DEPTH: usize = 50;
/// Maximum number of terms of a sum after all products are multiplied out.
const MAX_TERMS: usize = 500;
/// Maximum number of factors of a product.
const MAX_FACTORS: usize = 100;

/// One named factor with its arguments, not yet bound to a table.
#[derive(Debug, Clone)]
struct FactorSyntax {
    kind: &'static FactorSchema,
    position: usize,
    columns: Vec<(String, usize)>,
    arguments: Vec<(&'static str, ParsedValue)>,
}

/// A scaled product; `factors` holds indices into the list of specs.
#[derive(Debug, Clone)]
struct ProductSyntax {
    scale: f64,
    factors: Vec<usize>,
}

/// A parsed kernel expression, not yet bound to the columns of a table.
#[derive(Debug, Clone)]
pub struct KernelExpression {
    text: String,
    specs: Vec<FactorSyntax>,
    terms: Vec<ProductSyntax>,
}

fn problem(text: &str, offset: usize, message: impl std::fmt::Display) -> Error {
    let position = text.get(..offset).map_or(offset, |before| before.chars().count()) + 1;
    let shown: String = if text.chars().count() > 60 {
        text.chars().take(57).chain("...".chars()).collect()
    } else {
        text.to_string()
    };
    Error::parameter("kernel", format!("'{shown}'"), format!("at character {position}, {message}"))
}

impl KernelExpression {
    /// Parses `text`.
    ///
    /// # Errors
    /// [`Error::Parameter`], whose message says where the mistake is and what is allowed there.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { text, position: 0, specs: Vec::new() };
        let terms = parser.sum(0)?;
        parser.skip_space();
        if let Some(c) = parser.peek() {
            return parser.fail(format!("'{c}' is not expected: after a factor comes '+', '*' or the end"));
        }
        Ok(Self { text: text.to_string(), specs: parser.specs, terms })
    }

    /// Binds the expression to the columns of `x`; length scales that are not given are computed from its
    /// rows.
    ///
    /// # Errors
    /// [`Error::Parameter`] for unknown columns and for parameters outside their range.
    pub fn resolve(&self, x: &Table, units: &ColumnScaling) -> Result<Kernel> {
        let (numeric, categorical) = x.columns_by_kind();
        let resolve = |spec| self.resolve_one(spec, x, units, &numeric, &categorical);
        let resolved: Vec<Vec<Factor>> = self.specs.iter().map(resolve).collect::<Result<_>>()?;
        let mut terms = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            let mut factors: Vec<Factor> = term.factors.iter().flat_map(|&s| resolved[s].clone()).collect();
            let is_unset = |&s: &usize| self.specs[s].columns.is_empty() && !self.specs[s].kind.categorical;
            if term.factors.iter().any(is_unset) {
                let mut is_read = vec![false; x.width()];
                factors.iter().flat_map(|f| f.columns()).for_each(|&j| is_read[j] = true);
                let unread = categorical.iter().filter(|j| !is_read[**j]);
                factors.extend(unread.map(|&j| Factor::from(Categorical::on_column(j))));
            }
            if factors.len() > MAX_FACTORS.max(x.width() * 2) {
                return Err(problem(&self.text, 0, "the expression has too many factors"));
            }
            terms.push(Term { scale: term.scale, factors });
        }
        let kernel = Kernel { terms };
        kernel.validate(x.width())?;
        Ok(kernel)
    }

    fn resolve_one(
        &self,
        spec: &FactorSyntax,
        x: &Table,
        units: &ColumnScaling,
        numeric: &[usize],
        categorical: &[usize],
    ) -> Result<Vec<Factor>> {
        let problem = |position, message: String| Err(problem(&self.text, position, message));
        let mut columns = Vec::with_capacity(spec.columns.len());
        for (name, position) in &spec.columns {
            let Some(j) = x.columns().iter().position(|c| c.name == *name) else {
                let names = listed(x.columns().iter().map(|c| &c.name));
                return problem(*position, format!("there is no column '{name}'; the columns are: {names}"));
            };
            if columns.contains(&j) {
                return problem(*position, format!("column '{name}' is named twice"));
            }
            if !spec.kind.categorical && x.columns()[j].kind != ColumnKind::Numeric {
                let why = format!("column '{name}' holds text, which only categorical({name}) can read");
                return problem(*position, why);
            }
            columns.push(j);
        }
        if columns.is_empty() {
            columns = if spec.kind.categorical { categorical } else { numeric }.to_vec();
        }
        if columns.is_empty() {
            // All columns are categorical: the categorical factors describe the table alone.
            if !spec.kind.categorical && !categorical.is_empty() {
                return Ok(Vec::new());
            }
            let kind = if spec.kind.categorical { "categorical" } else { "numeric" };
            return problem(spec.position, format!("the table has no {kind} columns to read"));
        }
        spec.kind.resolve(columns, &spec.arguments, x, units).or_else(|error| match error {
            Error::Parameter { allowed, .. } => problem(spec.position, allowed),
            other => problem(spec.position, other.to_string()),
        })
    }
}

struct Parser<'t> {
    text: &'t str,
    position: usize,
    specs: Vec<FactorSyntax>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.position += c.len_utf8();
        }
    }

    /// Consumes `character` if it is the next character after any space.
    fn take(&mut self, character: char) -> bool {
        self.skip_space();
        let taken = self.peek() == Some(character);
        if taken {
            self.position += character.len_utf8();
        }
        taken
    }

    fn fail<T>(&self, message: impl std::fmt::Display) -> Result<T> {
        self.fail_at(self.position, message)
    }

    fn fail_at<T>(&self, position: usize, message: impl std::fmt::Display) -> Result<T> {
        Err(problem(self.text, position, message))
    }

    fn sum(&mut self, depth: usize) -> Result<Vec<ProductSyntax>> {
        let mut terms = self.product(depth)?;
        while self.take('+') {
            terms.extend(self.product(depth)?);
            if terms.len() > MAX_TERMS {
                return self.fail(format!("the sum has more than {MAX_TERMS} terms"));
            }
        }
        Ok(terms)
    }

    fn product(&mut self, depth: usize) -> Result<Vec<ProductSyntax>> {
        let mut left = self.atom(depth)?;
        while self.take('*') {
            let right = self.atom(depth)?;
            if left.len() * right.len() > MAX_TERMS {
                return self.fail(format!("multiplied out, the sum has more than {MAX_TERMS} terms"));
            }
            let mut terms = Vec::with_capacity(left.len() * right.len());
            for a in &left {
                for b in &right {
                    let factors: Vec<usize> = a.factors.iter().chain(&b.factors).copied().collect();
                    if factors.len() > MAX_FACTORS {
                        return self.fail(format!("the product has more than {MAX_FACTORS} factors"));
                    }
                    terms.push(ProductSyntax { scale: a.scale * b.scale, factors });
                }
            }
            left = terms;
        }
        Ok(left)
    }

    fn atom(&mut self, depth: usize) -> Result<Vec<ProductSyntax>> {
        if self.take('(') {
            if depth == MAX_DEPTH {
                return self.fail(format!("parentheses are nested deeper than {MAX_DEPTH}"));
            }
            let inner = self.sum(depth + 1)?;
            if !self.take(')') {
                return self.fail("a closing ')' is missing");
            }
            return Ok(inner);
        }
        self.skip_space();
        let start = self.position;
        let word = self.word();
        if word.is_empty() {
            let next_character = self.peek().map_or("the end".into(), |c| format!("'{c}'"));
            return self.fail(format!("a factor is expected, not {next_character}: {}", allowed()));
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-')) {
            let scale = self.positive(&word, start)?;
            return Ok(vec![ProductSyntax { scale, factors: Vec::new() }]);
        }
        if word.eq_ignore_ascii_case("constant") {
            return Ok(vec![ProductSyntax { scale: self.constant()?, factors: Vec::new() }]);
        }
        let Some(kind) = FactorSchema::named(&word) else {
            return self.fail_at(start, format!("there is no kernel '{word}': {}", allowed()));
        };
        let mut spec = FactorSyntax { kind, position: start, columns: vec![], arguments: vec![] };
        if self.take('(') && !self.take(')') {
            loop {
                self.argument(&mut spec, &word)?;
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    return self.fail("',' or ')' is missing after an argument");
                }
            }
        }
        self.specs.push(spec);
        Ok(vec![ProductSyntax { scale: 1.0, factors: vec![self.specs.len() - 1] }])
    }

    /// Reads the parenthesised value that may follow `constant`; 1 without a value.
    fn constant(&mut self) -> Result<f64> {
        if !self.take('(') || self.take(')') {
            return Ok(1.0);
        }
        self.skip_space();
        let mut start = self.position;
        let mut word = self.word();
        if word == "value" && self.take('=') {
            self.skip_space();
            (start, word) = (self.position, self.word());
        }
        let value = self.positive(&word, start)?;
        if self.take(')') { Ok(value) } else { self.fail("')' is missing after the constant's value") }
    }

    /// The longest run of characters that are neither space nor punctuation of the grammar. A sign after the
    /// `e` of a number belongs to the number.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            let exponent = c == '+'
                && word.ends_with(['e', 'E'])
                && word.starts_with(|d: char| d.is_ascii_digit() || d == '.')
                && self.text[self.position + 1..].starts_with(|d: char| d.is_ascii_digit());
            if c.is_whitespace() || (matches!(c, '+' | '*' | '(' | ')' | ',' | '=' | '\'' | '"') && !exponent)
            {
                break;
            }
            word.push(c);
            self.position += c.len_utf8();
        }
        word
    }

    fn positive(&self, word: &str, position: usize) -> Result<f64> {
        match word.parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
            _ => self.fail_at(position, format!("'{word}' is not a positive number")),
        }
    }

    fn argument(&mut self, spec: &mut FactorSyntax, name: &str) -> Result<()> {
        self.skip_space();
        let start = self.position;
        if let Some(quote) = self.peek().filter(|c| matches!(c, '\'' | '"')) {
            self.position += 1;
            let Some(length) = self.text[self.position..].find(quote) else {
                return self.fail_at(start, "the quote is not closed");
            };
            let column = self.text[self.position..self.position + length].to_string();
            self.position += length + 1;
            spec.columns.push((column, start));
            return Ok(());
        }
        let word = self.word();
        if word.is_empty() {
            return self.fail(format!("an argument of {name} is missing: {}", spec.kind.allowed()));
        }
        if self.take('=') {
            self.skip_space();
            let value_position = self.position;
            let text = self.word();
            let Some(option) = spec.kind.option(&word) else {
                let allowed = spec.kind.allowed();
                return self.fail_at(start, format!("{name} has no option '{word}': {allowed}"));
            };
            let value = option.parse(&text).or_else(|why| self.fail_at(value_position, why))?;
            if spec.arguments.iter().any(|(name_before, _)| *name_before == option.name) {
                return self.fail_at(start, format!("{word} is given twice"));
            }
            spec.arguments.push((option.name, value));
        } else if let Some(flag) = spec.kind.flag(&word) {
            spec.arguments.push((flag, ParsedValue::Number(1.0)));
        } else {
            spec.columns.push((word, start));
        }
        Ok(())
    }
}

fn allowed() -> String {
    let names: Vec<&str> = registry().map(|schema| schema.names[0]).chain(["constant"]).collect();
    format!("write a number, '(' or one of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::Column;

    fn table() -> Table {
        let levels = ColumnKind::Categorical { levels: vec!["f".into(), "m".into()] };
        let columns = vec![
            Column::numeric("age"),
            Column::numeric("blood pressure"),
            Column { name: "sex".into(), kind: levels },
            Column::numeric("month"),
        ];
        let value = |j: usize, i: usize| match j {
            2 => (i % 2) as f64,
            _ => ((i * (j + 3)) % 7) as f64,
        };
        let values = (0..4).flat_map(|j| (0..12).map(move |i| value(j, i))).collect();
        Table::from_column_major(columns, 12, values).unwrap()
    }

    fn kernel(text: &str) -> Result<Kernel> {
        let x = table();
        KernelExpression::parse(text)?.resolve(&x, &ColumnScaling::standardised(&x))
    }

    fn message(text: &str) -> String {
        kernel(text).unwrap_err().to_string()
    }

    #[test]
    fn a_bare_factor_reads_everything() {
        let k = kernel("rbf").unwrap();
        assert_eq!(k.terms.len(), 1);
        assert_eq!(k.terms[0].factors[0].columns(), [0, 1, 3]);
        assert!(matches!(&k.terms[0].factors[1], Factor::Categorical(c) if c.columns == [2]));
        // Named columns get no categorical factor, and an existing categorical factor is not repeated.
        assert_eq!(kernel("rbf(age)").unwrap().terms[0].factors.len(), 1);
        let k = kernel("rbf * categorical(sex, similarity=0.2)").unwrap();
        assert_eq!(k.terms[0].factors.len(), 2);
    }

    #[test]
    fn sums_multiply_out() {
        let k =
            kernel("2 * (rbf(age, ard) + 0.5*linear('blood pressure')) * periodic(month, period=12) + 1e+1")
                .unwrap();
        assert_eq!(k.terms.iter().map(|t| t.scale).collect::<Vec<_>>(), [2.0, 1.0, 10.0]);
        assert_eq!(k.terms.iter().map(|t| t.factors.len()).collect::<Vec<_>>(), [2, 2, 0]);
        assert_eq!(kernel("constant(3)*constant").unwrap(), Kernel::constant(3.0));
    }

    #[test]
    fn every_name_resolves() {
        for name in registry().flat_map(|schema| schema.names) {
            let text = if *name == "periodic" { "periodic(period=7)" } else { name };
            kernel(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        for text in [
            "matern52(isotropic)",
            "rbf(length_scale=median)",
            "rbf(length_scale=scale)",
            "rbf(length_scale=auto)",
            "rbf(age,length_scale=median_per_feature)",
            "rq(alpha=1,length_scale=2)",
            "polynomial(degree=2,gamma=0.1,coef0=0)",
            "RBF( age )",
        ] {
            kernel(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }

    #[test]
    fn mistakes_are_located() {
        let cases = [
            ("rbg", "at character 1, there is no kernel 'rbg'"),
            ("rbf + ", "at character 7, a factor is expected, not the end"),
            ("rbf(agee)", "at character 5, there is no column 'agee'; the columns are: age, blood pressure"),
            ("rbf(sex)", "categorical(sex)"),
            ("rbf(age", "',' or ')' is missing"),
            ("(rbf", "a closing ')' is missing"),
            ("rbf) ", "after a factor comes '+', '*' or the end"),
            ("rbf(alpha=1)", "rbf has no option 'alpha': allowed are names of columns, ard, isotropic"),
            ("rbf(length_scale=-1)", "length_scale = '-1' is not allowed: it is median, or"),
            ("rbf(age, age)", "named twice"),
            ("0*rbf", "'0' is not a positive number"),
            ("periodic(month)", "periodic needs a period"),
            ("polynomial(degree=2.5)", "whole number"),
            ("rbf('age)", "the quote is not closed"),
            ("", "a factor is expected, not the end"),
        ];
        for (text, expected) in cases {
            assert!(message(text).contains(expected), "{text}: {}", message(text));
        }
    }

    #[test]
    fn hostile_sizes_are_refused() {
        assert!(message(&"(".repeat(1_000_000)).contains("nested deeper"));
        assert!(message(&["(rbf+linear)"; 40].join("*")).contains("more than 500 terms"));
        assert!(message(&["rbf"; 1000].join("*")).contains("more than 100 factors"));
        assert!(message(&["rbf(age)"; 1000].join("+")).contains("more than 500 terms"));
        assert!(message("1e200*1e200").contains("positive"));
    }

    proptest! {
        #[test]
        fn never_panics_on_text(text in "\\PC{0,60}") {
            let _ = kernel(&text);
        }

        #[test]
        fn never_panics_on_almost_kernels(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "rbf", "linear", "(", ")", "+", "*", ",", "=", "age", "'", "\"", "length_scale", "median",
                    "1e",
                    "2", "-", ".", " ", "ard", "sex", "categorical", "periodic", "period", "é", "constant", "1e309",
                ]),
                0..25,
            )
        ) {
            if let Ok(k) = kernel(&parts.concat()) {
                prop_assert!(k.validate(4).is_ok());
            }
        }
    }
}
