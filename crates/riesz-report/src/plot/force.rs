//! The values of one row as arrows that raise or lower the prediction.

use super::waterfall::arrow;
use super::*;

/// One row's pushes up and down, meeting at the prediction.
pub(super) static PLOT: Plot = Plot {
    name: "force",
    help: "One row's pushes up and down, meeting at the prediction",
    shows: Shows::OneRow,
    draw,
};

/// The thinnest arrow, in pixels, that is told from the next.
const THIN: f64 = 6.0;

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, row, o) = (options.width as f64, options.row, options.output);
    let left = left_over(e, row, o);
    let values: Vec<f64> = e.row_values(row, o).iter().copied().chain(left.as_ref().map(|l| l.1)).collect();
    let label = |j: usize| match &left {
        Some((name, _)) if j == e.sets() => name.clone(),
        _ => format::label(e, row, j),
    };
    let (base, prediction) = (e.base_values[row * e.outputs() + o], e.predictions[row * e.outputs() + o]);
    let mut order: Vec<usize> = (0..values.len()).filter(|&j| values[j] != 0.0).collect();
    order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
    let (up, down): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|&j| values[j] > 0.0);
    let sum = |list: &[usize]| list.iter().map(|&j| values[j]).sum::<f64>();
    // The largest pushes of both sides touch at the sum of all values, which is the prediction.
    let meet = base + sum(&up) + sum(&down);
    let ends = [meet - sum(&up), meet - sum(&down), base, meet];
    let scale = Scale::covering(ends.into_iter(), 20.0, width - 20.0);
    let (axis, y, half_height) = (56.0, 82.0, 13.0);
    let mut canvas = Canvas::new(options.theme);
    for (value, label) in scale.ticks(80.0) {
        let x = scale.pixel(value);
        canvas.line((x, axis), (x, axis + 5.0), Paint::Muted, false);
        canvas.text((x, axis - 8.0), &label, Anchor::Middle, Paint::Muted, 80.0);
    }
    canvas.line((scale.from, axis), (scale.to, axis), Paint::Grid, false);
    let (mut deepest, mut sums): (f64, _) = (y + half_height + 18.0, Vec::new());
    for (list, side, paint) in [(&up, -1.0, Paint::Up), (&down, 1.0, Paint::Down)] {
        let mut tip = meet;
        // Labels run outwards from the prediction, on two lines; what does not fit is left to the waterfall
        // plot.
        let inner = scale.pixel(meet) + side * 6.0;
        let (mut free, mut line) = (inner, 0);
        let (named, omitted) =
            apart(list, options.max_display, |j| (scale.pixel(values[j]) - scale.pixel(0.0)).abs());
        let sum_of_omitted = (omitted.len() > 1).then(|| (rest_label(e, omitted.len()), omitted));
        let single = named.iter().map(|j| (label(*j), std::slice::from_ref(j)));
        for (name, sets) in single.chain(sum_of_omitted.iter().map(|(name, sets)| (name.clone(), *sets))) {
            let value = sum(sets);
            let next = tip - value;
            let (from, to) = (scale.pixel(next), scale.pixel(tip));
            if (from - to).abs() >= 0.3 {
                arrow(&mut canvas, from, to + side, y, half_height, paint);
            }
            tip = next;
            let known = sets.iter().all(|&j| j < e.sets());
            let reach = if known { reach(e, row, o, sets) } else { None };
            let name = format::shorten(&name, FONT, (width / 2.0 - 90.0).min(190.0));
            let text = format!("{name} ({})", format::signed_within(value, reach));
            if sets.len() > 1 {
                sums.push((from, side, text));
                continue;
            }
            let needed = format::text_width(&text, FONT);
            let room = |free: f64| if side < 0.0 { free - 4.0 } else { width - 4.0 - free };
            while line < 2 && room(free) < needed {
                (free, line) = (inner, line + 1);
            }
            if line < 2 {
                let below = y + half_height + 18.0 + 16.0 * f64::from(line);
                let anchor = if side < 0.0 { Anchor::End } else { Anchor::Start };
                canvas.text((free, below), &text, anchor, Paint::Ink, room(free));
                deepest = deepest.max(below);
                free += side * (needed + 14.0);
            }
        }
    }
    let x = scale.pixel(meet);
    canvas.line((x, axis), (x, deepest + 8.0), Paint::Ink, false);
    // Those that share an arrow have their name below its end, which is that of all arrows.
    deepest += if sums.is_empty() { 0.0 } else { 18.0 };
    for (end, side, text) in sums {
        let anchor = if side < 0.0 { Anchor::Start } else { Anchor::End };
        canvas.text((end, deepest), &text, anchor, Paint::Muted, width / 2.0 - 30.0);
    }
    canvas.line((scale.pixel(base), axis - 2.0), (scale.pixel(base), y + half_height), Paint::Muted, true);
    let mut head = |x: f64, y: f64, text: String, paint: Paint| {
        let half_width = format::text_width(&text, FONT) / 2.0 + 2.0;
        canvas.text(
            (x.clamp(half_width, (width - half_width).max(half_width)), y),
            &text,
            Anchor::Middle,
            paint,
            width,
        );
    };
    head(x, 12.0, format!("f(x) = {}", format::number(prediction)), Paint::Ink);
    head(scale.pixel(base), 30.0, format!("base value = {}", format::number(base)), Paint::Muted);
    let about = format!(
        "{}: features that raise the prediction push from the left, features that lower it from the right; \
         they meet at {}.{}",
        row_title(e, row),
        format::number(prediction),
        if e.uncertainty.is_some() {
            " Numbers after ± are half the lengths of 95 % intervals."
        } else {
            ""
        }
    );
    let title = format!("Forces on {}", e.row_name(row));
    canvas.finish(width, deepest + 18.0, &title, &about, "")
}

/// The first of a side's forces, which have arrows of their own, and those after them that share one: beyond
/// `max_display`, or too thin to be seen apart. One alone keeps its name.
fn apart(list: &[usize], max_display: usize, wide: impl Fn(usize) -> f64) -> (&[usize], &[usize]) {
    let seen = list.iter().take(max_display).take_while(|&&j| wide(j) >= THIN).count();
    list.split_at(if list.len() <= seen + 1 { list.len() } else { seen })
}
