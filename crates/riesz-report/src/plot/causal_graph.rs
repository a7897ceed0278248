//! A causal graph in layers: causes before their effects, hidden common causes as dashed arcs.

use std::collections::BTreeMap;

use super::*;

/// Height of a variable's box.
const BOX: f64 = 24.0;

/// The role of a variable in an identification.
fn role(identification: &Identification, graph: &Graph, name: &str) -> (Paint, &'static str) {
    let is = |names: &[String]| names.iter().any(|listed| listed == name);
    let mediators = match &identification.strategy {
        riesz::causal::EffectStrategy::FrontDoor { mediators: through, .. } => through.as_slice(),
        _ => &[],
    };
    match () {
        () if is(&identification.treatments) || is(&identification.without_effect) => {
            (Paint::Up, "treatment")
        }
        () if identification.outcome == name => (Paint::Down, "outcome"),
        () if is(mediators) => (Paint::Level(4), "front door"),
        () if is(identification.adjustment())
            || identification.stages().iter().any(|stage| is(&stage.columns())) =>
        {
            (Paint::Level(4), "adjusted for")
        }
        () if identification.bridges.iter().any(|bridge| is(&bridge.mediators)) => {
            (Paint::Level(2), "shared by studies")
        }
        () if graph.latent().contains(&name) => (Paint::Neutral, "never measured"),
        () => (Paint::Neutral, "not needed"),
    }
}

/// The roles of a graph's variables with their colours, each once.
fn roles(graph: &Graph, identification: &Identification) -> Vec<(Paint, String)> {
    let mut entries: Vec<(Paint, String)> = Vec::new();
    for name in graph.variables() {
        let (paint, label) = role(identification, graph, name);
        if !entries.iter().any(|(_, existing)| existing == label) {
            entries.push((paint, label.into()));
        }
    }
    entries
}

/// A place in a layer: a variable, or where an arrow passes.
struct Slot {
    layer: usize,
    variable: Option<usize>,
}

/// Slots, their order by layer, and arrows as lists of slots from cause to effect.
struct Layout {
    slots: Vec<Slot>,
    layers: Vec<Vec<usize>>,
    arrows: Vec<Vec<usize>>,
}

fn layout(graph: &Graph) -> Layout {
    let names = graph.variables();
    let places: BTreeMap<&str, usize> = names.iter().enumerate().map(|(v, name)| (&name[..], v)).collect();
    let arrows: Vec<(usize, usize)> = graph.arrows().iter().map(|(a, b)| (places[a], places[b])).collect();
    let mut layer = vec![0; names.len()];
    // A longest path has no more arrows than there are variables.
    for _ in 0..names.len() {
        for &(a, b) in &arrows {
            layer[b] = layer[b].max(layer[a] + 1);
        }
    }
    // Causes stand right before the first of their effects.
    for _ in 0..names.len() {
        for v in 0..names.len() {
            if let Some(first) = arrows.iter().filter(|(a, _)| *a == v).map(|(_, b)| layer[*b]).min() {
                layer[v] = layer[v].max(first - 1);
            }
        }
    }
    let mut slots: Vec<Slot> =
        (0..names.len()).map(|v| Slot { layer: layer[v], variable: Some(v) }).collect();
    let arrows: Vec<Vec<usize>> = arrows
        .into_iter()
        .map(|(a, b)| {
            let mut way = vec![a];
            for passed in layer[a] + 1..layer[b] {
                slots.push(Slot { layer: passed, variable: None });
                way.push(slots.len() - 1);
            }
            way.push(b);
            way
        })
        .collect();
    let deepest = slots.iter().map(|slot| slot.layer).max().unwrap_or(0);
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); deepest + 1];
    slots.iter().enumerate().for_each(|(s, slot)| layers[slot.layer].push(s));
    // Each slot goes to the mean place of its neighbours, back and forth, which undoes most crossings.
    let mut neighbours = vec![Vec::new(); slots.len()];
    for way in &arrows {
        for pair in way.windows(2) {
            neighbours[pair[0]].push(pair[1]);
            neighbours[pair[1]].push(pair[0]);
        }
    }
    let place = |layers: &[Vec<usize>]| {
        let mut position = vec![0.0; slots.len()];
        for layer in layers {
            layer.iter().enumerate().for_each(|(k, &s)| position[s] = (k as f64 + 0.5) / layer.len() as f64);
        }
        position
    };
    for sweep in 0..8 {
        let order: Vec<usize> =
            if sweep % 2 == 0 { (0..layers.len()).collect() } else { (0..layers.len()).rev().collect() };
        for l in order {
            let position = place(&layers);
            let mean = |s: usize| {
                let adjacent = &neighbours[s];
                if adjacent.is_empty() {
                    position[s]
                } else {
                    adjacent.iter().map(|n| position[*n]).sum::<f64>() / adjacent.len() as f64
                }
            };
            layers[l].sort_by(|&a, &b| mean(a).total_cmp(&mean(b)));
        }
    }
    Layout { slots, layers, arrows }
}

pub(super) fn draw(graph: &Graph, identification: &Identification, options: &PlotOptions) -> Svg {
    let (width, names) = (options.width as f64, graph.variables());
    let Layout { slots, layers, arrows } = layout(graph);
    // A narrow picture goes from top to bottom.
    let down = width < 480.0;
    let widest = layers.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let deep = layers.len() as f64;
    let keys = roles(graph, identification);
    let top = 16.0 + 18.0 * legend_breaks(&keys, width - 16.0).len() as f64;
    let height = if down { 74.0 * deep } else { (58.0 * widest).max(120.0) };
    let room = if down { width / widest } else { width / deep } - if down { 12.0 } else { 44.0 };
    let mut centres = vec![(0.0, 0.0); slots.len()];
    for (l, layer) in layers.iter().enumerate() {
        for (k, &s) in layer.iter().enumerate() {
            let along = (l as f64 + 0.5) / deep;
            let across = (k as f64 + 0.5) / layer.len() as f64;
            centres[s] = if down {
                (across * width, top + along * height)
            } else {
                (along * width, top + across * height)
            };
        }
    }
    let half_width: Vec<f64> = slots
        .iter()
        .map(|slot| {
            slot.variable
                .map_or(0.0, |v| (format::text_width(&names[v], FONT) + 18.0).min(room.max(40.0)) / 2.0)
        })
        .collect();
    // Where a line towards `to` leaves the box of a slot.
    let border = |s: usize, to: (f64, f64)| {
        let (x, y) = centres[s];
        let (dx, dy) = (to.0 - x, to.1 - y);
        if half_width[s] == 0.0 || (dx == 0.0 && dy == 0.0) {
            return (x, y);
        }
        let ratio = ((half_width[s] + 3.0) / dx.abs().max(1e-9)).min((BOX / 2.0 + 3.0) / dy.abs().max(1e-9));
        (x + dx * ratio.min(1.0), y + dy * ratio.min(1.0))
    };
    let mut canvas = Canvas::new(options.theme);
    for way in &arrows {
        let mut points: Vec<(f64, f64)> = way.iter().map(|&s| centres[s]).collect();
        let end = points.len() - 1;
        points[0] = border(way[0], points[1]);
        points[end] = border(way[end], points[end - 1]);
        canvas.stroke_path(&points, Paint::Muted, false);
        head(&mut canvas, points[end - 1], points[end]);
    }
    let places: BTreeMap<&str, usize> = names.iter().enumerate().map(|(v, name)| (&name[..], v)).collect();
    for (a, b) in graph.confounded() {
        let (a, b) = (places[a], places[b]);
        let (from, to) = (centres[a], centres[b]);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        // Beside the straight way, where an arrow may be.
        let middle = ((from.0 + to.0) / 2.0 + 0.28 * dy, (from.1 + to.1) / 2.0 - 0.28 * dx.abs());
        let (start, end) = (border(a, middle), border(b, middle));
        let arc: Vec<(f64, f64)> = (0..=24)
            .map(|k| {
                let t = f64::from(k) / 24.0;
                let weights = [(1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t];
                let mix = |p: [f64; 3]| p.iter().zip(weights).map(|(p, weight)| p * weight).sum::<f64>();
                let y: f64 = mix([start.1, middle.1, end.1]);
                (mix([start.0, middle.0, end.0]), y.max(top - 8.0))
            })
            .collect();
        canvas.stroke_path(&arc, Paint::Muted, true);
        head(&mut canvas, arc[1], arc[0]);
        head(&mut canvas, arc[23], arc[24]);
    }
    for (s, slot) in slots.iter().enumerate() {
        let Some(v) = slot.variable else { continue };
        let ((x, y), (paint, _)) = (centres[s], role(identification, graph, &names[v]));
        canvas.rect(x - half_width[s], y - BOX / 2.0, 2.0 * half_width[s], BOX, Paint::Paper, 1.0);
        canvas.rect(x - half_width[s], y - BOX / 2.0, 2.0 * half_width[s], BOX, paint, 0.22);
        canvas.rect(x - half_width[s], y + BOX / 2.0 - 2.5, 2.0 * half_width[s], 2.5, paint, 1.0);
        let shown = format::shorten(&names[v], FONT, 2.0 * half_width[s] - 8.0);
        canvas.text_on((x, y - 1.0), &shown);
    }
    legend_lines(&mut canvas, (width - 8.0, top - 23.0), &keys, width - 16.0);
    let hidden = if graph.confounded().is_empty() { "" } else { "; dashed where a common cause is hidden" };
    let about = format!("Arrows from causes to effects{hidden}: {graph}");
    canvas.finish(width, top + height + 8.0, "Causal graph", &about, "")
}

/// The head of an arrow.
fn head(canvas: &mut Canvas, from: (f64, f64), to: (f64, f64)) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1e-9);
    let (ux, uy) = (dx / length, dy / length);
    let back = (to.0 - 8.0 * ux, to.1 - 8.0 * uy);
    canvas.polygon(
        &[to, (back.0 - 3.5 * uy, back.1 + 3.5 * ux), (back.0 + 3.5 * uy, back.1 - 3.5 * ux)],
        Paint::Muted,
    );
}
