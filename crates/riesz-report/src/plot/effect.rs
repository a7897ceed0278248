//! The effect of treatments on an outcome: a curve with its band, and below it the causes of its uncertainty.
//! Treatments that the data do not support are hatched.

use super::banded_curve::draw_band;
use super::*;

/// Maximum number of treatments drawn as lines, for effects without a curve.
const MOST_LINES: usize = 40;

/// Pixels between the lines that hatch unsupported treatments.
const HATCH: f64 = 7.0;

pub(super) fn draw(page: &EffectPage<'_>, ends: &[[f64; 2]], options: &PlotOptions) -> Svg {
    if page.is_curve() { dose_curve(page, ends, options) } else { lines(page, ends, options) }
}

/// The causes of uncertainty with their colours, in order.
fn causes(page: &EffectPage<'_>) -> Vec<(Paint, String)> {
    let entries = page.effect.causes.iter().enumerate();
    entries.map(|(k, (cause, _))| (Paint::Level(k % LEVELS.len()), cause.to_string())).collect()
}

/// The cumulative shares of a row's variance by cause, from 0 to 1.
fn cumulative_shares(page: &EffectPage<'_>, i: usize) -> Vec<f64> {
    let total: f64 = page.effect.causes.iter().map(|(_, variances)| variances[i]).sum();
    let mut sum = 0.0;
    let mut cumulative_shares = vec![0.0];
    for (_, variances) in &page.effect.causes {
        sum += if total > 0.0 { variances[i] / total } else { 0.0 };
        cumulative_shares.push(sum);
    }
    cumulative_shares
}

/// Hatches a rectangle.
fn hatched(canvas: &mut Canvas, (left, right): (f64, f64), (top, bottom): (f64, f64)) {
    let height = bottom - top;
    let count = ((right - left + height) / HATCH) as usize;
    let rules: Vec<[(f64, f64); 2]> = (1..=count)
        .map(|k| {
            // A rule goes from the left or lower side up to the upper or right side.
            let offset = HATCH * k as f64;
            let from = if offset > height { (left + offset - height, bottom) } else { (left, top + offset) };
            let width = right - left;
            let to = if offset > width { (right, top + offset - width) } else { (left + offset, top) };
            [from, to]
        })
        .filter(|[from, to]| from.0 <= to.0)
        .collect();
    canvas.rules(&rules, Paint::Muted, 0.35);
}

fn dose_curve(page: &EffectPage<'_>, ends: &[[f64; 2]], options: &PlotOptions) -> Svg {
    let (width, narrow) = (options.width as f64, options.width < 480);
    let (left, right, top, bottom) = (if narrow { 62.0 } else { 76.0 }, width - 16.0, 46.0, 310.0);
    let curve = DoseCurve::new(page, ends, (left, right));
    let spacing = if narrow { 50.0 } else { 80.0 };
    let mut canvas = Canvas::new(options.theme);
    curve.draw_effect(&mut canvas, (top, bottom), spacing);
    curve.draw_support(&mut canvas, (top, bottom));
    let mut keys = vec![(Paint::Down, format!("mean, {} % band", format::number(100.0 * page.level)))];
    if !curve.supported.iter().all(|supported_row| *supported_row) {
        keys.push((Paint::Muted, "hatched: not supported by the data".into()));
    }
    legend_lines(&mut canvas, (right, top - 15.0), &keys, right - left);
    let below = curve.draw_causes(&mut canvas, bottom);
    for (value, label) in curve.scale.ticks(spacing) {
        let x = curve.scale.pixel(value);
        canvas.line((x, below), (x, below + 4.0), Paint::Muted, false);
        canvas.text((x, below + 14.0), &label, Anchor::Middle, Paint::Muted, 100.0);
    }
    let name = &page.treatments.columns()[0].name;
    canvas.text(((left + right) / 2.0, below + 32.0), name, Anchor::Middle, Paint::Muted, right - left);
    let about = format!(
        "{} Small strokes are observed doses. Below are the shares of the variance by cause.",
        page.answer()
    );
    canvas.finish(width, below + 44.0, &capital(&page.axis()), &about, "")
}

/// An effect along the doses of one numeric treatment.
struct DoseCurve<'p> {
    page: &'p EffectPage<'p>,
    ends: &'p [[f64; 2]],
    /// The rows of the treatments, by ascending dose.
    order: Vec<usize>,
    /// The doses in this order.
    doses: Vec<f64>,
    /// Whether the data support each of them.
    supported: Vec<bool>,
    scale: Scale,
}

impl<'p> DoseCurve<'p> {
    fn new(page: &'p EffectPage<'p>, ends: &'p [[f64; 2]], (left, right): (f64, f64)) -> Self {
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by(|&a, &b| page.treatments.get(a, 0).total_cmp(&page.treatments.get(b, 0)));
        let doses: Vec<f64> = order.iter().map(|&i| page.treatments.get(i, 0)).collect();
        let (lo, hi) = (doses[0], doses[doses.len() - 1]);
        let pad = if hi > lo { 0.01 * (hi - lo) } else { 0.5 };
        let scale = Scale { lo: lo - pad, hi: hi + pad, from: left, to: right };
        let supported = page.effect.supported();
        let supported = order.iter().map(|&i| supported[i]).collect();
        Self { page, ends, order, doses, supported, scale }
    }

    /// The horizontal position of the `k`-th dose.
    fn x(&self, k: usize) -> f64 {
        self.scale.pixel(self.doses[k])
    }

    /// Draws the axes, the band and the mean.
    fn draw_effect(&self, canvas: &mut Canvas, (top, bottom): (f64, f64), spacing: f64) {
        let (page, left, right) = (self.page, self.scale.from, self.scale.to);
        let zero = (*page.estimand != Estimand::Level).then_some(0.0);
        let upwards = Scale::covering(self.ends.iter().flatten().copied().chain(zero), bottom - 8.0, top);
        for (value, _) in self.scale.ticks(spacing) {
            let x = self.scale.pixel(value);
            canvas.line((x, top), (x, bottom), Paint::Grid, false);
        }
        y_axis(canvas, upwards, (left, right), 36.0);
        canvas.vertical_text((14.0, (top + bottom) / 2.0), &page.axis(), bottom - top);
        if let Some(zero) = zero {
            canvas.line((left, upwards.pixel(zero)), (right, upwards.pixel(zero)), Paint::Muted, false);
        }
        let point = |k: usize, value: f64| (self.x(k), upwards.pixel(value));
        let side = |k: usize, end: usize| point(k, self.ends[self.order[k]][end]);
        draw_band(canvas, self.order.len(), side, Paint::Down, 0.22);
        let means = self.order.iter().enumerate().map(|(k, &i)| point(k, page.effect.mean[i]));
        canvas.polyline(&means.collect::<Vec<_>>(), Paint::Down);
    }

    /// Hatches unsupported doses, half way to their supported neighbours, and draws strokes at observed ones.
    fn draw_support(&self, canvas: &mut Canvas, (top, bottom): (f64, f64)) {
        let (left, right, count) = (self.scale.from, self.scale.to, self.doses.len());
        let edge = |a: usize, b: usize| self.scale.pixel((self.doses[a] + self.doses[b]) / 2.0);
        let mut k = 0;
        while k < count {
            let to = (k..count).find(|&j| self.supported[j]).unwrap_or(count);
            if to > k {
                let from = if k == 0 { left } else { edge(k - 1, k) };
                let until = if to == count { right } else { edge(to - 1, to) };
                hatched(canvas, (from, until), (top, bottom));
            }
            k = to.max(k + 1);
        }
        let doses = self.page.doses().iter().map(|v| self.scale.pixel(*v));
        let rug: Vec<[(f64, f64); 2]> =
            doses.filter(|x| (left..=right).contains(x)).map(|x| [(x, bottom - 7.0), (x, bottom)]).collect();
        canvas.rules(&rug, Paint::Ink, if rug.len() > 300 { 0.25 } else { 0.6 });
    }

    /// Draws the shares of the variance by cause in a field below `bottom`, and returns its lower end.
    fn draw_causes(&self, canvas: &mut Canvas, bottom: f64) -> f64 {
        let (left, right, names) = (self.scale.from, self.scale.to, causes(self.page));
        let room = 18.0 * legend_breaks(&names, right - left).len() as f64;
        let (above, below) = (bottom + 18.0 + room, bottom + 118.0 + room);
        let share = |v: f64| below - v * (below - above);
        let shares: Vec<Vec<f64>> = self.order.iter().map(|&i| cumulative_shares(self.page, i)).collect();
        for (c, (paint, _)) in names.iter().enumerate() {
            let side = |k: usize, end: usize| (self.x(k), share(shares[k][c + end]));
            draw_band(canvas, shares.len(), side, *paint, 0.75);
        }
        for (v, label) in [(0.0, "0"), (0.5, "50"), (1.0, "100")] {
            y_label(canvas, left, share(v), label);
        }
        canvas.vertical_text((14.0, (above + below) / 2.0), "% of variance", below - above + 24.0);
        legend_lines(canvas, (right, above - 18.0), &names, right - left);
        below
    }
}

fn lines(page: &EffectPage<'_>, ends: &[[f64; 2]], options: &PlotOptions) -> Svg {
    let width = options.width as f64;
    let count = ends.len().min(MOST_LINES);
    let labels: Vec<String> = (0..count).map(|i| page.label(i)).collect();
    let room = label_room(&labels, width);
    let shares_width = if width < 480.0 { 0.0 } else { 150.0 };
    let (pitch, top) = (26.0, 34.0);
    let bottom = top + pitch * count as f64;
    let end = width - shares_width - if shares_width > 0.0 { 36.0 } else { 16.0 };
    let zero = (*page.estimand != Estimand::Level).then_some(0.0);
    let scale = Scale::covering(ends[..count].iter().flatten().copied().chain(zero), room + 24.0, end);
    let mut canvas = Canvas::new(options.theme);
    x_axis(&mut canvas, scale, top, bottom, &page.axis());
    if let Some(zero) = zero {
        canvas.line((scale.pixel(zero), top), (scale.pixel(zero), bottom), Paint::Muted, false);
    }
    let supported = page.effect.supported();
    let names = causes(page);
    for (i, label) in labels.iter().enumerate() {
        let y = top + pitch * (i as f64 + 0.5);
        canvas.text((room + 14.0, y), label, Anchor::End, Paint::Ink, room);
        if !supported[i] {
            hatched(&mut canvas, (room + 24.0, end), (y - pitch / 2.0 + 2.0, y + pitch / 2.0 - 2.0));
        }
        canvas.whisker(scale.pixel(ends[i][0]), scale.pixel(ends[i][1]), y);
        canvas.disc((scale.pixel(page.effect.mean[i]), y), 4.0, Paint::Down);
        if shares_width > 0.0 {
            let shares = cumulative_shares(page, i);
            for (c, (paint, _)) in names.iter().enumerate() {
                let from = width - 16.0 - shares_width + shares_width * shares[c];
                canvas.rect(from, y - 6.0, shares_width * (shares[c + 1] - shares[c]), 12.0, *paint, 0.75);
            }
        }
    }
    if shares_width > 0.0 {
        let middle = (width - 16.0 - shares_width / 2.0, bottom + 12.0);
        canvas.text(middle, "share of variance", Anchor::Middle, Paint::Muted, shares_width);
        legend_lines(&mut canvas, (width - 16.0, 14.0), &names, width - 32.0);
    }
    canvas.finish(width, bottom + 42.0, &capital(&page.axis()), &page.answer(), "")
}
