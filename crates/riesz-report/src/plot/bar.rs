//! Mean |value| of each player, with its interval.

use riesz::Exactness;

use super::*;

/// Mean |value| of each player.
pub(super) static PLOT: Plot =
    Plot { name: "bar", help: "Mean |value| of each feature", shows: Shows::Everything, draw };

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let width = options.width as f64;
    let mean = e.mean_abs(options.output);
    let lines = PlayerLine::list(e, e.ranking(options.output), options.max_display);
    let values: Vec<f64> = lines.iter().map(|line| line.sum(&mean)).collect();
    // Intervals of means: from upper bounds of their posterior standard deviations, for any correlation
    // between rows; without a posterior, over rows.
    let sd = e.mean_abs_sd(options.output);
    let over_rows = spans(e, options.output).filter(|_| sd.is_none());
    let span = |line: &PlayerLine, value: f64| match &sd {
        Some(sd) => {
            let half_width = NORMAL_QUANTILE * line.sum(sd);
            Some([(value - half_width).max(0.0), value + half_width])
        }
        None => line.player.and_then(|j| over_rows.as_ref().map(|intervals| intervals[j])),
    };
    let ends = lines.iter().zip(&values).map(|(l, v)| span(l, *v).map_or(*v, |[_, high]| high.max(*v)));
    let largest = ends.fold(0.0, f64::max);
    // Equal decimals make the numbers easy to compare.
    let digits = (3.0 - largest.log10().floor()).clamp(0.0, 6.0) as usize;
    let write =
        |x: f64| if (1e-3..1e6).contains(&largest) { format::fixed(x, digits) } else { format::number(x) };
    let room = label_room(lines.iter().map(|l| &l.name), width);
    let numbers = widest(values.iter().map(|v| write(*v)), 0.0);
    let (pitch, top) = (26.0, 10.0);
    let bottom = top + pitch * lines.len() as f64;
    let scale = Scale {
        lo: 0.0,
        hi: if largest > 0.0 { largest } else { 1.0 },
        from: room + 22.0,
        to: width - numbers - 22.0,
    };
    let mut canvas = Canvas::new(options.theme);
    let over_rows_text = format!(", 95 % interval over {}", e.row_words()[1]);
    let suffix = match (&over_rows, e.rows()) {
        (_, 1) => interval_label(e),
        (Some(_), _) => &over_rows_text[..],
        (None, _) => sd.as_ref().map_or("", |_| interval_label(e)),
    };
    // A single row has no mean.
    let mean = if e.rows() > 1 { "mean " } else { "" };
    x_axis(&mut canvas, scale, top, bottom, &format!("{mean}|{}|{suffix}", e.value_name()));
    for (k, (line, &value)) in lines.iter().zip(&values).enumerate() {
        let y = top + pitch * (k as f64 + 0.5);
        if let Some(j) = line.player {
            canvas.open_player(j);
        }
        canvas.rect(0.0, y - pitch / 2.0, room + 18.0, pitch, Paint::Paper, 1.0);
        canvas.text((room + 14.0, y), &line.name, Anchor::End, Paint::Ink, room);
        let paint = if line.player.is_some() { Paint::Down } else { Paint::Neutral };
        canvas.rect(scale.from, y - 8.0, scale.pixel(value) - scale.from, 16.0, paint, 1.0);
        let mut end = scale.pixel(value);
        if let Some([low, high]) = span(line, value) {
            canvas.whisker(scale.pixel(low), scale.pixel(high), y);
            end = end.max(scale.pixel(high));
        }
        canvas.text((end + 6.0, y), &write(value), Anchor::Start, Paint::Ink, numbers + 20.0);
        if line.player.is_some() {
            canvas.close();
        }
    }
    canvas.line((scale.from, top), (scale.from, bottom), Paint::Muted, false);
    let largest = lines.iter().zip(&values).take(3).map(|(l, v)| format!("{} {}", l.name, write(*v)));
    let about = format!(
        "Bars of the mean absolute {} over {} {}{}. Largest: {}.",
        e.value_name(),
        e.rows(),
        e.row_words()[1],
        if sd.is_some() || over_rows.is_some() { ", with 95 % intervals" } else { "" },
        largest.collect::<Vec<_>>().join(", ")
    );
    canvas.finish(width, bottom + 42.0, "Importance of features", &about, "")
}

/// The 95 % intervals of the mean |value| of each set: over rows if there are several, otherwise from the
/// standard errors of estimated values.
fn spans(e: &Explanation, output: usize) -> Option<Vec<[f64; 2]>> {
    if e.rows() > 1 {
        // Squares of the largest drawable values overflow.
        let is_finite = |intervals: &Vec<[f64; 2]>| intervals.iter().flatten().all(|end| end.is_finite());
        return e.importance(output).interval(0.95).filter(is_finite);
    }
    let Exactness::Estimated { std_error, .. } = &e.exactness else { return None };
    let estimates = e.row_values(0, output).iter().zip(&std_error[output * e.sets()..]);
    Some(estimates.map(|(v, se)| [(v.abs() - 1.96 * se).max(0.0), v.abs() + 1.96 * se]).collect())
}
