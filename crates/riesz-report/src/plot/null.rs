//! A histogram of a test's statistic under the null hypothesis, with the observed statistic.

use riesz::discrepancy::TestResult;

use super::*;

/// Number of bars of the histogram.
const BARS: usize = 40;

pub(super) fn draw(result: &TestResult, name: &str, options: &PlotOptions) -> Svg {
    let width = options.width as f64;
    let (left, right, top, bottom) = (24.0, width - 24.0, 24.0, 170.0);
    let [low, high] = format::range(result.null.iter().copied());
    let step = (high - low) / BARS as f64;
    let mut counts = [0_usize; BARS];
    for &v in &result.null {
        let bar = if step > 0.0 { ((v - low) / step) as usize } else { 0 };
        counts[bar.min(BARS - 1)] += 1;
    }
    let scale = Scale::covering([low, high, result.statistic].into_iter(), left, right);
    let highest = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let mut canvas = Canvas::new(options.theme);
    x_axis(&mut canvas, scale, top, bottom, name);
    for (k, &count) in counts.iter().enumerate() {
        let from = scale.pixel(low + step * k as f64);
        let height = (bottom - top) * count as f64 / highest;
        let breadth = (scale.pixel(low + step * (k + 1) as f64) - from - 0.6).max(0.8);
        canvas.rect(from, bottom - height, breadth, height, Paint::Neutral, 1.0);
    }
    let x = scale.pixel(result.statistic);
    canvas.line((x, top), (x, bottom), Paint::Up, false);
    let anchor = if x > width / 2.0 { Anchor::End } else { Anchor::Start };
    let note = format!("observed: {}", format::number(result.statistic));
    let shift = if anchor == Anchor::End { -6.0 } else { 6.0 };
    canvas.text((x + shift, top + 2.0), &note, anchor, Paint::Ink, 200.0);
    let about = format!(
        "A histogram of {name} in {} draws under the null hypothesis, and a line at the observed value {}.",
        result.null.len(),
        format::number(result.statistic)
    );
    canvas.finish(width, bottom + 42.0, "The statistic and its null distribution", &about, "")
}
