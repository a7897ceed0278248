//! The contributions of features to a test's statistic, with their intervals under the null hypothesis.

use riesz::discrepancy::FeatureAttributions;

use super::*;

pub(super) fn draw(result: &FeatureAttributions, options: &PlotOptions) -> Svg {
    let (e, width) = (&result.explanation, options.width as f64);
    let (values, significance) = (e.row_values(0, 0), result.significance.as_ref());
    let (named, omitted) = shown(e.ranking(0), options.max_display);
    let mut named = named;
    named.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    // A narrow picture has no room for p-values.
    let shown_p = significance.filter(|_| width >= 480.0);
    let pvalue =
        |j: usize| shown_p.map_or_else(String::new, |s| format!(", p = {}", format::pvalue(s.adjusted[j])));
    let mut lines: Vec<(Option<usize>, String, f64, String)> =
        named.iter().map(|&j| (Some(j), e.set_name(j), values[j], pvalue(j))).collect();
    if !omitted.is_empty() {
        lines.push((
            None,
            rest_label(e, omitted.len()),
            omitted.iter().map(|&j| values[j]).sum(),
            String::new(),
        ));
    }
    let band = |player: Option<usize>| player.and_then(|j| significance.map(|s| s.bands[j]));
    let room = label_room(&lines.iter().map(|l| l.1.clone()).collect::<Vec<_>>(), width);
    let notes: Vec<String> = lines.iter().map(|l| format!("{}{}", format::number(l.2), l.3)).collect();
    let space = notes.iter().map(|t| format::text_width(t, FONT)).fold(0.0, f64::max).min(width * 0.3);
    let (pitch, top) = (28.0, 10.0);
    let bottom = top + pitch * lines.len() as f64;
    let ends = lines.iter().flat_map(|l| [l.2, 0.0].into_iter().chain(band(l.0).into_iter().flatten()));
    let scale = Scale::covering(ends, room + 22.0, width - space - 24.0);
    let mut canvas = Canvas::new(options.theme);
    let name = format!("Shapley value of {}", e.output_names[0]);
    x_axis(&mut canvas, scale, top, bottom, &name);
    for (k, (player, name, value, _)) in lines.iter().enumerate() {
        let y = top + pitch * (k as f64 + 0.5);
        canvas.text((room + 14.0, y), name, Anchor::End, Paint::Ink, room);
        if let Some([low, high]) = band(*player) {
            let from = scale.pixel(low);
            canvas.rect(from, y - 11.0, scale.pixel(high) - from, 22.0, Paint::Neutral, 0.3);
        }
        let (zero, end) = (scale.pixel(0.0), scale.pixel(*value));
        let paint = if player.is_some() { Paint::of_sign(*value) } else { Paint::Neutral };
        canvas.rect(zero.min(end), y - 5.0, (end - zero).abs(), 10.0, paint, 1.0);
        canvas.text((width - space - 14.0, y), &notes[k], Anchor::Start, Paint::Muted, space + 8.0);
    }
    canvas.line((scale.pixel(0.0), top), (scale.pixel(0.0), bottom), Paint::Muted, false);
    let about = format!(
        "Bars of what each feature contributes to {}{}. Largest: {}.",
        e.output_names[0],
        if significance.is_some() {
            ", with the middle 95 % of what it contributes under the null hypothesis in grey and its \
             adjusted p-value"
        } else {
            ""
        },
        lines
            .iter()
            .take(3)
            .map(|l| format!("{} {}", l.1, format::number(l.2)))
            .collect::<Vec<_>>()
            .join(", ")
    );
    canvas.finish(width, bottom + 42.0, "What features contribute", &about, "")
}
