//! The common part of both tests: a test's settings from options, and its result as text, table,
//! picture or page.

use std::fmt::Write as _;

use riesz::discrepancy::{
    AttributionRequest, FactorKind, FeatureAttributions, TestResult, TestSettings, Witness, length_scale_grid,
};
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::{Kernel, Players, Table};
use riesz_report::{PlotOptions, TestPage, TestSubject, render_test, test_report};

use crate::args::{Format, Global, TestArgs};
use crate::console::{Console, printable};
use crate::exit::{Failure, Result};
use crate::explain_run::Certificate;
use crate::io::output::write_all;
use crate::io::picture::write_picture;
use crate::io::write::{Cells, TableWriter};
use crate::output_format::{Form, RESULTS};
use crate::question_args::read_groups;

/// The output form of the result; forms that need attributions are refused with `--no-attribution`.
pub fn form(args: &TestArgs, global: &Global) -> Result<Form> {
    let form = Form::choose(args.output.as_deref(), global, RESULTS)?;
    if args.no_attribution && !matches!(form, Form::Text | Form::Json) {
        return Err(Failure::input(
            "--no-attribution gives no values of features to show: write text or JSON, or leave it out",
        ));
    }
    Ok(form)
}

/// The requested kernels at all multiples of length scales; empty for the default kernel.
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
    if kernels.is_empty() && args.no_standardise && args.kernel_factors == FactorKind::Product {
        kernels.push(KernelExpression::parse("rbf")?.resolve(sample, &units)?);
    }
    if let Some(bad) = args.length_scale_multiples.iter().find(|m| !(m.is_finite() && **m > 0.0)) {
        return Err(Failure::input(format!("--length-scale-multiples {bad}: give positive multiples")));
    }
    if args.length_scale_multiples.is_empty() {
        return Ok(kernels);
    }
    if kernels.is_empty() {
        let groups = groups(args, sample)?;
        kernels.push(args.kernel_factors.default_kernel(sample, groups.as_ref())?);
    }
    Ok(kernels.iter().flat_map(|kernel| length_scale_grid(kernel, &args.length_scale_multiples)).collect())
}

fn groups(args: &TestArgs, sample: &Table) -> Result<Option<Players>> {
    args.groups.as_deref().map(|g| read_groups(g, sample.columns())).transpose()
}

/// The requested settings, for features in the columns of `sample`.
pub fn settings(args: &TestArgs, global: &Global, sample: &Table) -> Result<TestSettings> {
    Ok(TestSettings {
        factors: args.kernel_factors,
        attribute: if args.no_attribution {
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

/// The result of a test, with its names in the output.
pub struct TestOutput<'f> {
    /// The compared samples, or the target.
    pub subject: TestSubject<'f>,
    /// The result.
    pub result: &'f TestResult,
    /// Computes the witness functions of the columns, for the page.
    pub witnesses: &'f dyn Fn() -> Result<Vec<Witness>>,
}

impl TestOutput<'_> {
    /// Writes the result in the given form.
    pub fn write(&self, args: &TestArgs, form: Form, console: &Console) -> Result<()> {
        let path = args.output.as_deref();
        let verdict = self.subject.verdict(self.result);
        let options = PlotOptions { max_display: args.max_display, ..PlotOptions::default() };
        match form {
            Form::Text => write_all(path, self.text(&verdict, args.max_display).as_bytes())?,
            Form::Json => {
                let record = self.subject.record(self.result);
                let record =
                    record.map_err(|e| Failure::input(format!("the result cannot be written: {e}")))?;
                write_all(path, format!("{record:#}\n").as_bytes())?;
            }
            Form::Table(format) => self.table(path, format)?,
            Form::Picture { pixels } => {
                let picture = render_test(self.result, &options)?;
                write_picture(path, picture, pixels)?;
            }
            Form::Page => {
                let title = self.subject.title();
                let page = TestPage {
                    title: args.title.as_deref().unwrap_or(&title),
                    verdict: &verdict,
                    result: self.result,
                    witnesses: &(self.witnesses)()?,
                    max_display: args.max_display,
                };
                write_all(path, test_report(&page)?.as_bytes())?;
            }
        }
        if form != Form::Text {
            console.note(&verdict);
        }
        let Some(attributions) = &self.result.attributions else { return Ok(()) };
        let mut certificate = Certificate::default();
        certificate.include(&attributions.explanation);
        certificate.check()
    }

    fn text(&self, verdict: &str, max_display: usize) -> String {
        let result = self.result;
        let mut text = format!("{verdict}\n\n");
        let _ = write!(text, "{} = {:.6e}", self.subject.statistic(), result.statistic);
        if let Some(p) = result.pvalue {
            let _ = write!(text, ", p = {p:.4} ({} draws from the null distribution)", result.null.len());
        }
        text.push('\n');
        for (k, kernel_result) in result.by_kernel.iter().enumerate() {
            let formula = printable(&kernel_result.kernel.formula());
            if result.by_kernel.len() == 1 {
                let _ = writeln!(text, "kernel: {formula}");
                continue;
            }
            let p = kernel_result.pvalue.map_or_else(String::new, |p| format!(", adjusted p = {p:.4}"));
            let mark = if k == result.chosen { '*' } else { ' ' };
            let _ = writeln!(text, "{mark} {formula}: {:.6e}{p}", kernel_result.statistic);
        }
        if let Some(attributions) = &result.attributions {
            self.features(attributions, max_display, &mut text);
        }
        text
    }

    fn features(&self, attributions: &FeatureAttributions, max_display: usize, text: &mut String) {
        let explanation = &attributions.explanation;
        let values = explanation.row_values(0, 0);
        let names: Vec<String> = explanation.players.iter().map(|p| printable(&p.name)).collect();
        let order = attributions.order();
        let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(7);
        let mut head = attributions
            .significance
            .as_ref()
            .map_or("", |_| "      95 % under the null        p  adjusted p")
            .to_string();
        let marginal_pvalues = attributions.marginal.as_ref().and_then(|marginal| marginal.pvalues.as_ref());
        head.push_str(marginal_pvalues.map_or("", |_| "   p alone"));
        let _ = writeln!(text, "\n{:width$}  Shapley value{head}", "feature");
        for &j in order.iter().take(max_display) {
            let _ = write!(text, "{:width$}  {:>13.6e}", names[j], values[j]);
            if let Some(s) = &attributions.significance {
                let [low, high] = s.bands[j];
                let (p, adjusted) = (s.pvalues[j], s.adjusted[j]);
                let _ = write!(text, "  {low:>10.2e} {high:>10.2e}  {p:>7.4}     {adjusted:>7.4}");
            }
            if let Some(pvalues) = marginal_pvalues {
                let _ = write!(text, "   {:>7.4}", pvalues[j]);
            }
            text.push('\n');
        }
        if order.len() > max_display {
            let remaining_sum: f64 = order[max_display..].iter().map(|&j| values[j]).sum();
            let _ = writeln!(text, "and {} more with the sum {remaining_sum:.6e}", order.len() - max_display);
        }
        if let Some(interactions) = &attributions.interactions {
            let mut pairs: Vec<(usize, usize, f64)> = Vec::new();
            for j in 0..values.len() {
                pairs.extend((j + 1..values.len()).map(|l| (j, l, 2.0 * interactions.values[(j, l)])));
            }
            pairs.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
            let _ = writeln!(text, "\n{:width$}  Shapley interaction index", "pair");
            for (j, l, value) in pairs.iter().take(max_display) {
                let _ = writeln!(text, "{} x {}  {value:.6e}", names[*j], names[*l]);
            }
        }
        if let Some(higher_order) = &attributions.higher_order {
            let p = higher_order.pvalue.map_or_else(String::new, |p| format!(", p = {p:.4}"));
            let _ =
                writeln!(text, "\nonly in three or more features jointly: {:.6e}{p}", higher_order.statistic);
        }
        let mut certificate = Certificate::default();
        certificate.include(explanation);
        let certificate_text = certificate.description().replace("the predictions", "the statistic");
        let _ = writeln!(text, "\n{certificate_text}");
    }

    fn table(&self, path: Option<&std::path::Path>, format: Format) -> Result<()> {
        let Some(attributions) = &self.result.attributions else { return Ok(()) };
        let (explanation, s) = (&attributions.explanation, attributions.significance.as_ref());
        let values = explanation.row_values(0, 0);
        let order = attributions.order();
        let mut names = vec!["feature".to_string(), "value".into()];
        let mut cells = vec![
            Cells::Texts(order.iter().map(|&j| explanation.players[j].name.clone()).collect()),
            Cells::Numbers(order.iter().map(|&j| values[j]).collect()),
        ];
        if let Some(s) = s {
            names.extend(["null_low", "null_high", "pvalue", "adjusted_pvalue"].map(String::from));
            let column = |number_of_feature: &dyn Fn(usize) -> f64| {
                Cells::Numbers(order.iter().map(|&j| number_of_feature(j)).collect())
            };
            cells.push(column(&|j| s.bands[j][0]));
            cells.push(column(&|j| s.bands[j][1]));
            cells.push(column(&|j| s.pvalues[j]));
            cells.push(column(&|j| s.adjusted[j]));
        }
        if let Some(marginal) = &attributions.marginal {
            names.push("marginal".into());
            cells.push(Cells::Numbers(order.iter().map(|&j| marginal.values[j]).collect()));
            if let Some(pvalues) = &marginal.pvalues {
                names.push("marginal_pvalue".into());
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
