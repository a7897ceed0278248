//! The contributions of features to a test's statistic, with their intervals under the null hypothesis.

use riesz::discrepancy::FeatureAttributions;

use super::*;

pub(super) fn draw(result: &FeatureAttributions, options: &PlotOptions) -> Svg {
    let (e, width) = (&result.explanation, options.width as f64);
    let (values, significance) = (e.row_values(0, 0), result.significance.as_ref());
    let mut lines = PlayerLine::list(e, e.ranking(0), options.max_display);
    // The sum of the others stays last.
    let value = |line: &PlayerLine| line.sum(values);
    lines.sort_by(|a, b| b.player.is_some().cmp(&a.player.is_some()).then(value(b).total_cmp(&value(a))));
    // A narrow picture has no room for p-values.
    let shown_p = significance.filter(|_| width >= 480.0);
    let pvalue =
        |j: usize| shown_p.map_or_else(String::new, |s| format!(", p = {}", format::pvalue(s.adjusted[j])));
    let band = |player: Option<usize>| player.and_then(|j| significance.map(|s| s.bands[j]));
    let room = label_room(lines.iter().map(|l| &l.name), width);
    let note = |l: &PlayerLine| format::number(value(l)) + &l.player.map_or_else(String::new, pvalue);
    let notes: Vec<String> = lines.iter().map(note).collect();
    let space = widest(&notes, 0.0).min(width * 0.3);
    let (pitch, top) = (28.0, 10.0);
    let bottom = top + pitch * lines.len() as f64;
    let ends =
        lines.iter().flat_map(|l| [value(l), 0.0].into_iter().chain(band(l.player).into_iter().flatten()));
    let scale = Scale::covering(ends, room + 22.0, width - space - 24.0);
    let mut canvas = Canvas::new(options.theme);
    let name = format!("Shapley value of {}", e.output_names[0]);
    x_axis(&mut canvas, scale, top, bottom, &name);
    for (k, line) in lines.iter().enumerate() {
        let y = top + pitch * (k as f64 + 0.5);
        canvas.text((room + 14.0, y), &line.name, Anchor::End, Paint::Ink, room);
        if let Some([low, high]) = band(line.player) {
            let from = scale.pixel(low);
            canvas.rect(from, y - 11.0, scale.pixel(high) - from, 22.0, Paint::Neutral, 0.3);
        }
        let (zero, end) = (scale.pixel(0.0), scale.pixel(value(line)));
        let paint = if line.player.is_some() { Paint::for_sign(value(line)) } else { Paint::Neutral };
        canvas.rect(zero.min(end), y - 5.0, (end - zero).abs(), 10.0, paint, 1.0);
        canvas.text((width - space - 14.0, y), &notes[k], Anchor::Start, Paint::Muted, space + 8.0);
    }
    canvas.line((scale.pixel(0.0), top), (scale.pixel(0.0), bottom), Paint::Muted, false);
    let largest = lines.iter().take(3).map(|l| format!("{} {}", l.name, format::number(value(l))));
    let about = format!(
        "Bars of each feature’s contribution to {}{}. Largest: {}.",
        e.output_names[0],
        if significance.is_some() {
            ", with its central 95 % interval under the null hypothesis in grey and its adjusted p-value"
        } else {
            ""
        },
        largest.collect::<Vec<_>>().join(", ")
    );
    canvas.finish(width, bottom + 42.0, "Contributions of features", &about, "")
}
