//! What `compare` and `depend` share: a test's settings from arguments, and what was found as words, table,
//! picture or page.

use std::fmt::Write as _;

use riesz::discrepancy::{
    AttributionRequest, FactorKind, FeatureAttributions, TestResult, TestSettings, Witness, lengthscale_grid,
};
use riesz::explanation::Fact;
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::{Kernel, Players, Table};
use riesz_report::{PlotOptions, TestPage, render_test, test_report};
use serde_json::json;

use crate::args::{Format, Global, TestArgs};
use crate::console::{Console, printable};
use crate::explaining::Certificate;
use crate::failure::{Failure, Result};
use crate::form::Form;
use crate::games::read_groups;
use crate::io::output::write_all;
use crate::io::picture::write_picture;
use crate::io::write::{Cells, TableWriter};

/// The form in which a finding is written; refused if the test does not yield it.
pub fn form(args: &TestArgs, global: &Global) -> Result<Form> {
    let form = Form::of(args.output.as_deref(), global).map_err(|other| {
        Failure::input(format!(
            "a finding is written as .html, .svg, .png, .csv, .parquet, .json or .txt, not as .{other}"
        ))
    })?;
    if args.statistic_only && !matches!(form, Form::Text | Form::Json) {
        return Err(Failure::input(
            "with --statistic-only there are no features to show: write words or JSON, or leave it out",
        ));
    }
    Ok(form)
}

/// The kernels that were asked for, and their multiples; none for the default.
pub fn kernels(args: &TestArgs, sample: &Table) -> Result<Vec<Kernel>> {
    let units = if args.no_standardise {
        ColumnScaling::raw(sample.width())
    } else {
        ColumnScaling::standardised(sample)
    };
    let mut kernels = Vec::new();
    for text in &args.kernel {
        kernels.push(KernelExpression::parse(text)?.resolve(sample, &units)?);
    }
    if kernels.is_empty() && args.no_standardise && args.factors == FactorKind::Product {
        kernels.push(KernelExpression::parse("rbf")?.resolve(sample, &units)?);
    }
    if let Some(bad) = args.lengthscales.iter().find(|m| !(m.is_finite() && **m > 0.0)) {
        return Err(Failure::input(format!("--lengthscales {bad}: multiples are positive numbers")));
    }
    if args.lengthscales.is_empty() {
        return Ok(kernels);
    }
    if kernels.is_empty() {
        let groups = groups(args, sample)?;
        kernels.push(args.factors.default_kernel(sample, groups.as_ref())?);
    }
    Ok(kernels.iter().flat_map(|kernel| lengthscale_grid(kernel, &args.lengthscales)).collect())
}

fn groups(args: &TestArgs, sample: &Table) -> Result<Option<Players>> {
    args.groups.as_deref().map(|g| read_groups(g, sample.columns())).transpose()
}

/// The settings that were asked for, for features in the columns of `sample`.
pub fn settings(args: &TestArgs, global: &Global, sample: &Table) -> Result<TestSettings> {
    Ok(TestSettings {
        factors: args.factors,
        attribute: if args.statistic_only {
            AttributionRequest::Nothing
        } else {
            AttributionRequest::Significance
        },
        groups: groups(args, sample)?,
        interactions: args.interactions,
        permutations: args.permutations,
        seed: global.seed,
        ..TestSettings::default()
    })
}

/// A statistic, to four significant digits.
pub fn brief(value: f64) -> String {
    let rounded = format!("{value:.3e}").parse().unwrap_or(value);
    Fact::measured("", rounded).value
}

/// What a test found, and how to speak of it.
pub struct Finding<'f> {
    /// The statistic.
    pub name: &'f str,
    /// What was tested.
    pub title: String,
    /// The verdict, in a sentence.
    pub verdict: String,
    /// What was found.
    pub found: &'f TestResult,
    /// Where samples differ, column by column, for the page.
    pub witnesses: &'f dyn Fn() -> Result<Vec<Witness>>,
}

impl Finding<'_> {
    /// Writes it.
    pub fn write(&self, args: &TestArgs, form: Form, console: &Console) -> Result<()> {
        let path = args.output.as_deref();
        let options = PlotOptions { max_display: args.max_display, ..PlotOptions::default() };
        match form {
            Form::Text => write_all(path, self.text(args.max_display).as_bytes())?,
            Form::Json => write_all(path, format!("{:#}\n", self.record()?).as_bytes())?,
            Form::Table(format) => self.table(path, format)?,
            Form::Picture { pixels } => {
                let picture = render_test(self.found, &options)?;
                write_picture(path, picture, pixels)?;
            }
            Form::Page => {
                let page = TestPage {
                    title: args.title.as_deref().unwrap_or(&self.title),
                    verdict: &self.verdict,
                    found: self.found,
                    witnesses: &(self.witnesses)()?,
                    max_display: args.max_display,
                };
                write_all(path, test_report(&page)?.as_bytes())?;
            }
        }
        if form != Form::Text {
            console.note(&self.verdict);
        }
        let Some(attributions) = &self.found.attributions else { return Ok(()) };
        let mut certificate = Certificate::default();
        certificate.include(&attributions.explanation);
        certificate.check()
    }

    fn text(&self, most: usize) -> String {
        let found = self.found;
        let mut text = format!("{}\n\n", self.verdict);
        let _ = write!(text, "{} = {:.6e}", self.name, found.statistic);
        if let Some(p) = found.pvalue {
            let _ = write!(text, ", p = {p:.4} ({} draws from the null distribution)", found.null.len());
        }
        text.push('\n');
        for (k, one) in found.by_kernel.iter().enumerate() {
            let formula = printable(&one.kernel.formula());
            if found.by_kernel.len() == 1 {
                let _ = writeln!(text, "kernel: {formula}");
                continue;
            }
            let p = one.pvalue.map_or_else(String::new, |p| format!(", adjusted p = {p:.4}"));
            let mark = if k == found.chosen { '*' } else { ' ' };
            let _ = writeln!(text, "{mark} {formula}: {:.6e}{p}", one.statistic);
        }
        if let Some(attributions) = &found.attributions {
            self.features(attributions, most, &mut text);
        }
        text
    }

    fn features(&self, found: &FeatureAttributions, most: usize, text: &mut String) {
        let explanation = &found.explanation;
        let values = explanation.row_values(0, 0);
        let names: Vec<String> = explanation.players.iter().map(|p| printable(&p.name)).collect();
        let order = found.order();
        let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(7);
        let mut head = found
            .significance
            .as_ref()
            .map_or("", |_| "      95 % under the null        p  adjusted p")
            .to_string();
        let alone = found.alone.as_ref().and_then(|alone| alone.pvalues.as_ref());
        head.push_str(alone.map_or("", |_| "   p alone"));
        let _ = writeln!(text, "\n{:width$}  Shapley value{head}", "feature");
        for &j in order.iter().take(most) {
            let _ = write!(text, "{:width$}  {:>13.6e}", names[j], values[j]);
            if let Some(s) = &found.significance {
                let [low, high] = s.bands[j];
                let (p, adjusted) = (s.pvalues[j], s.adjusted[j]);
                let _ = write!(text, "  {low:>10.2e} {high:>10.2e}  {p:>7.4}     {adjusted:>7.4}");
            }
            if let Some(alone) = alone {
                let _ = write!(text, "   {:>7.4}", alone[j]);
            }
            text.push('\n');
        }
        if order.len() > most {
            let rest: f64 = order[most..].iter().map(|&j| values[j]).sum();
            let _ = writeln!(text, "and {} more, together {rest:.6e}", order.len() - most);
        }
        if let Some(interactions) = &found.interactions {
            let mut pairs: Vec<(usize, usize, f64)> = Vec::new();
            for j in 0..values.len() {
                pairs.extend((j + 1..values.len()).map(|l| (j, l, 2.0 * interactions.values[(j, l)])));
            }
            pairs.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
            let _ = writeln!(text, "\n{:width$}  Shapley interaction index", "pair");
            for (j, l, value) in pairs.iter().take(most) {
                let _ = writeln!(text, "{} x {}  {value:.6e}", names[*j], names[*l]);
            }
        }
        if let Some(beyond) = &found.beyond {
            let p = beyond.pvalue.map_or_else(String::new, |p| format!(", p = {p:.4}"));
            let _ = writeln!(text, "\nonly in three or more features together: {:.6e}{p}", beyond.statistic);
        }
        let mut certificate = Certificate::default();
        certificate.include(explanation);
        let words = certificate.words().replace("the predictions", "the statistic");
        let _ = writeln!(text, "\n{words}");
    }

    fn record(&self) -> Result<serde_json::Value> {
        let broken = |e: serde_json::Error| Failure::input(format!("the finding cannot be written: {e}"));
        let found = serde_json::to_value(self.found).map_err(broken)?;
        let mut record =
            json!({ "format": "riesz-test", "version": 2, "test": self.name, "verdict": self.verdict });
        if let (Some(record), serde_json::Value::Object(found)) = (record.as_object_mut(), found) {
            record.extend(found);
        }
        Ok(record)
    }

    fn table(&self, path: Option<&std::path::Path>, format: Format) -> Result<()> {
        let Some(found) = &self.found.attributions else { return Ok(()) };
        let (explanation, s) = (&found.explanation, found.significance.as_ref());
        let values = explanation.row_values(0, 0);
        let order = found.order();
        let mut names = vec!["feature".to_string(), "value".into()];
        let mut cells = vec![
            Cells::Texts(order.iter().map(|&j| explanation.players[j].name.clone()).collect()),
            Cells::Numbers(order.iter().map(|&j| values[j]).collect()),
        ];
        if let Some(s) = s {
            names.extend(["null_low", "null_high", "pvalue", "adjusted_pvalue"].map(String::from));
            let column = |of: &dyn Fn(usize) -> f64| Cells::Numbers(order.iter().map(|&j| of(j)).collect());
            cells.push(column(&|j| s.bands[j][0]));
            cells.push(column(&|j| s.bands[j][1]));
            cells.push(column(&|j| s.pvalues[j]));
            cells.push(column(&|j| s.adjusted[j]));
        }
        if let Some(alone) = &found.alone {
            names.push("alone".into());
            cells.push(Cells::Numbers(order.iter().map(|&j| alone.values[j]).collect()));
            if let Some(pvalues) = &alone.pvalues {
                names.push("alone_pvalue".into());
                cells.push(Cells::Numbers(order.iter().map(|&j| pvalues[j]).collect()));
            }
        }
        let mut example = vec![Cells::Texts(Vec::new())];
        example.extend((1..names.len()).map(|_| Cells::Numbers(Vec::new())));
        let mut table = TableWriter::open(path, format, names, example)?;
        table.rows(cells)?;
        table.finish()
    }
}
