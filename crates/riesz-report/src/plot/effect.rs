//! The effect of treatments on an outcome: the curve with its band, hatched where the studies do not support
//! it, and below it the causes of its uncertainty.

use super::*;

/// Lines of treatments that have no curve.
const MOST_LINES: usize = 40;

/// Pixels between the lines that hatch what studies do not tell.
const HATCH: f64 = 7.0;

pub(super) fn draw(page: &EffectPage<'_>, ends: &[[f64; 2]], options: &PlotOptions) -> Svg {
    if page.is_curve() { along(page, ends, options) } else { lines(page, ends, options) }
}

/// The causes with their colours, in order.
fn causes(page: &EffectPage<'_>) -> Vec<(Paint, String)> {
    let entries = page.effect.causes.iter().enumerate();
    entries.map(|(k, (cause, _))| (Paint::Level(k % LEVELS.len()), cause.to_string())).collect()
}

/// The cumulated shares of a row's variance by cause, from 0 to 1.
fn piled(page: &EffectPage<'_>, i: usize) -> Vec<f64> {
    let total: f64 = page.effect.causes.iter().map(|(_, variances)| variances[i]).sum();
    let mut sum = 0.0;
    let mut piles = vec![0.0];
    for (_, variances) in &page.effect.causes {
        sum += if total > 0.0 { variances[i] / total } else { 0.0 };
        piles.push(sum);
    }
    piles
}

/// Hatches a field.
fn hatched(canvas: &mut Canvas, (left, right): (f64, f64), (top, bottom): (f64, f64)) {
    let height = bottom - top;
    let count = ((right - left + height) / HATCH) as usize;
    let rules: Vec<[(f64, f64); 2]> = (1..=count)
        .map(|k| {
            // From the left or lower side up to the upper or right one.
            let reach = HATCH * k as f64;
            let from = if reach > height { (left + reach - height, bottom) } else { (left, top + reach) };
            let width = right - left;
            let to = if reach > width { (right, top + reach - width) } else { (left + reach, top) };
            [from, to]
        })
        .filter(|[from, to]| from.0 <= to.0)
        .collect();
    canvas.rules(&rules, Paint::Muted, 0.35);
}

fn along(page: &EffectPage<'_>, ends: &[[f64; 2]], options: &PlotOptions) -> Svg {
    let (width, narrow) = (options.width as f64, options.width < 480);
    let (left, right, top, bottom) = (if narrow { 62.0 } else { 76.0 }, width - 16.0, 46.0, 310.0);
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|&a, &b| page.treatments.get(a, 0).total_cmp(&page.treatments.get(b, 0)));
    let doses_in_order: Vec<f64> = order.iter().map(|&i| page.treatments.get(i, 0)).collect();
    let (lo, hi) = (doses_in_order[0], doses_in_order[doses_in_order.len() - 1]);
    let pad = if hi > lo { 0.01 * (hi - lo) } else { 0.5 };
    let across = Scale { lo: lo - pad, hi: hi + pad, from: left, to: right };
    let zero = (*page.estimand != Estimand::Level).then_some(0.0);
    let upwards = Scale::covering(ends.iter().flatten().copied().chain(zero), bottom - 8.0, top);
    let mut canvas = Canvas::new(options.theme);
    let name = &page.treatments.columns()[0].name;
    let spacing = if narrow { 50.0 } else { 80.0 };
    for (value, _) in across.ticks(spacing) {
        canvas.line((across.pixel(value), top), (across.pixel(value), bottom), Paint::Grid, false);
    }
    for (value, label) in upwards.ticks(36.0) {
        let y = upwards.pixel(value);
        canvas.line((left, y), (right, y), Paint::Grid, false);
        canvas.text((left - 8.0, y), &label, Anchor::End, Paint::Muted, left - 26.0);
    }
    canvas.text_up((14.0, (top + bottom) / 2.0), &page.axis(), bottom - top);
    if let Some(zero) = zero {
        canvas.line((left, upwards.pixel(zero)), (right, upwards.pixel(zero)), Paint::Muted, false);
    }
    let side = |end: usize, k: usize| (across.pixel(doses_in_order[k]), upwards.pixel(ends[order[k]][end]));
    let count = order.len();
    let outline: Vec<(f64, f64)> =
        (0..count).map(|k| side(1, k)).chain((0..count).rev().map(|k| side(0, k))).collect();
    canvas.area(&outline, Paint::Down, 0.22);
    let line: Vec<(f64, f64)> = (0..count)
        .map(|k| (across.pixel(doses_in_order[k]), upwards.pixel(page.effect.mean[order[k]])))
        .collect();
    canvas.polyline(&line, Paint::Down);
    // Half way to the neighbours that studies tell.
    let supported = page.effect.supported();
    let is_supported: Vec<bool> = order.iter().map(|&i| supported[i]).collect();
    let edge = |a: usize, b: usize| across.pixel((doses_in_order[a] + doses_in_order[b]) / 2.0);
    let mut k = 0;
    while k < count {
        let to = (k..count).find(|&j| is_supported[j]).unwrap_or(count);
        if to > k {
            let from = if k == 0 { left } else { edge(k - 1, k) };
            let until = if to == count { right } else { edge(to - 1, to) };
            hatched(&mut canvas, (from, until), (top, bottom));
        }
        k = to.max(k + 1);
    }
    let mut doses: Vec<f64> = page.doses().iter().map(|v| across.pixel(*v)).collect();
    doses.retain(|x| (left..=right).contains(x));
    let rug: Vec<[(f64, f64); 2]> = doses.iter().map(|&x| [(x, bottom - 7.0), (x, bottom)]).collect();
    canvas.rules(&rug, Paint::Ink, if rug.len() > 300 { 0.25 } else { 0.6 });
    let mut keys = vec![(Paint::Down, format!("mean, {} % band", format::number(100.0 * page.level)))];
    if !is_supported.iter().all(|supported_row| *supported_row) {
        keys.push((Paint::Muted, "hatched: not told by the data".into()));
    }
    legend_lines(&mut canvas, (right, top - 15.0), &keys, right - left);
    // Below, the variance by cause.
    let names = causes(page);
    let room = 18.0 * legend_breaks(&names, right - left).len() as f64;
    let (above, below) = (bottom + 18.0 + room, bottom + 118.0 + room);
    let share = |v: f64| below - v * (below - above);
    let piles: Vec<Vec<f64>> = order.iter().map(|&i| piled(page, i)).collect();
    for (c, (paint, _)) in names.iter().enumerate() {
        let point = |k: usize, level: usize| (across.pixel(doses_in_order[k]), share(piles[k][level]));
        let outline: Vec<(f64, f64)> =
            (0..count).map(|k| point(k, c + 1)).chain((0..count).rev().map(|k| point(k, c))).collect();
        canvas.area(&outline, *paint, 0.75);
    }
    for (v, label) in [(0.0, "0"), (0.5, "50"), (1.0, "100")] {
        canvas.text((left - 8.0, share(v)), label, Anchor::End, Paint::Muted, left - 26.0);
    }
    canvas.text_up((14.0, (above + below) / 2.0), "% of variance", below - above + 24.0);
    legend_lines(&mut canvas, (right, above - 18.0), &names, right - left);
    for (value, label) in across.ticks(spacing) {
        canvas.line((across.pixel(value), below), (across.pixel(value), below + 4.0), Paint::Muted, false);
        canvas.text((across.pixel(value), below + 14.0), &label, Anchor::Middle, Paint::Muted, 100.0);
    }
    canvas.text(((left + right) / 2.0, below + 32.0), name, Anchor::Middle, Paint::Muted, right - left);
    let about = format!(
        "{} Small strokes are doses that people had. Below, what share of the variance is due to what.",
        page.answer()
    );
    canvas.finish(width, below + 44.0, &capital(&page.axis()), &about, "")
}

fn lines(page: &EffectPage<'_>, ends: &[[f64; 2]], options: &PlotOptions) -> Svg {
    let width = options.width as f64;
    let count = ends.len().min(MOST_LINES);
    let labels: Vec<String> = (0..count).map(|i| page.label(i)).collect();
    let room = label_room(&labels, width);
    let piles = if width < 480.0 { 0.0 } else { 150.0 };
    let (pitch, top) = (26.0, 34.0);
    let bottom = top + pitch * count as f64;
    let end = width - piles - if piles > 0.0 { 36.0 } else { 16.0 };
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
        if piles > 0.0 {
            let pile = piled(page, i);
            for (c, (paint, _)) in names.iter().enumerate() {
                let from = width - 16.0 - piles + piles * pile[c];
                canvas.rect(from, y - 6.0, piles * (pile[c + 1] - pile[c]), 12.0, *paint, 0.75);
            }
        }
    }
    if piles > 0.0 {
        canvas.text(
            (width - 16.0 - piles / 2.0, bottom + 12.0),
            "share of variance",
            Anchor::Middle,
            Paint::Muted,
            piles,
        );
        legend_lines(&mut canvas, (width - 16.0, 14.0), &names, width - 32.0);
    }
    canvas.finish(width, bottom + 42.0, &capital(&page.axis()), &page.answer(), "")
}
