//! A causal graph drawn in layers. Causes are before their effects, and dashed arcs are hidden common causes.

use std::collections::BTreeMap;

use super::*;

/// Height of a variable's box.
const BOX: f64 = 24.0;

/// The role of a variable in an identification.
fn role(identification: &Identification, graph: &Graph, name: &str) -> (Paint, &'static str) {
    let is_among = |names: &[String]| names.iter().any(|listed| listed == name);
    let mediators = match &identification.strategy {
        riesz::causal::EffectStrategy::FrontDoor { mediators: through, .. } => through.as_slice(),
        _ => &[],
    };
    match () {
        () if is_among(&identification.treatments) || is_among(&identification.without_effect) => {
            (Paint::Up, "treatment")
        }
        () if identification.outcome == name => (Paint::Down, "outcome"),
        () if is_among(mediators) => (Paint::Level(4), "front door"),
        () if is_among(identification.adjustment())
            || identification.stages().iter().any(|stage| is_among(&stage.columns())) =>
        {
            (Paint::Level(4), "adjusted for")
        }
        () if identification.bridges.iter().any(|bridge| is_among(&bridge.mediators)) => {
            (Paint::Level(2), "shared by studies")
        }
        () if graph.latent().contains(&name) => (Paint::Neutral, "never measured"),
        () => (Paint::Neutral, "not needed"),
    }
}

/// The roles of a graph's variables with their colours, without repetitions.
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

/// A place in a layer for a variable, or for an arrow that passes the layer.
struct Slot {
    layer: usize,
    variable: Option<usize>,
}

/// The slots, their order in each layer, and arrows as lists of slots from cause to effect.
struct Layout {
    slots: Vec<Slot>,
    layers: Vec<Vec<usize>>,
    arrows: Vec<Vec<usize>>,
}

fn layout(graph: &Graph) -> Layout {
    let names = graph.variables();
    let indices: BTreeMap<&str, usize> = names.iter().enumerate().map(|(v, name)| (&name[..], v)).collect();
    let arrows: Vec<(usize, usize)> = graph.arrows().iter().map(|(a, b)| (indices[a], indices[b])).collect();
    let mut layer = vec![0; names.len()];
    // The longest path has fewer arrows than the graph has variables.
    for _ in 0..names.len() {
        for &(a, b) in &arrows {
            layer[b] = layer[b].max(layer[a] + 1);
        }
    }
    // Causes move to the layer right before the first of their effects.
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
            let mut path = vec![a];
            for layer_between in layer[a] + 1..layer[b] {
                slots.push(Slot { layer: layer_between, variable: None });
                path.push(slots.len() - 1);
            }
            path.push(b);
            path
        })
        .collect();
    let last_layer = slots.iter().map(|slot| slot.layer).max().unwrap_or(0);
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); last_layer + 1];
    slots.iter().enumerate().for_each(|(s, slot)| layers[slot.layer].push(s));
    // Sweeps back and forth move each slot to the mean place of its neighbours, which undoes most crossings.
    let mut neighbours = vec![Vec::new(); slots.len()];
    for path in &arrows {
        for pair in path.windows(2) {
            neighbours[pair[0]].push(pair[1]);
            neighbours[pair[1]].push(pair[0]);
        }
    }
    let positions = |layers: &[Vec<usize>]| {
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
            let position = positions(&layers);
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

/// The places of the slots in the picture.
struct Boxes {
    centres: Vec<(f64, f64)>,
    /// Half of the width of each slot's box; 0 for slots without a variable.
    half_width: Vec<f64>,
}

impl Boxes {
    /// Places the layers in a field of this size below `top`, from left to right or `down`.
    fn new(layout: &Layout, names: &[String], (width, height): (f64, f64), top: f64, down: bool) -> Self {
        let mut centres = vec![(0.0, 0.0); layout.slots.len()];
        let widest = layout.layers.iter().map(Vec::len).max().unwrap_or(1) as f64;
        let depth = layout.layers.len() as f64;
        for (l, layer) in layout.layers.iter().enumerate() {
            for (k, &s) in layer.iter().enumerate() {
                let along = (l as f64 + 0.5) / depth;
                let across = (k as f64 + 0.5) / layer.len() as f64;
                centres[s] = if down {
                    (across * width, top + along * height)
                } else {
                    (along * width, top + across * height)
                };
            }
        }
        let max_box_width =
            if down { width / widest } else { width / depth } - if down { 12.0 } else { 44.0 };
        let box_width = |v: usize| (format::text_width(&names[v], FONT) + 18.0).min(max_box_width.max(40.0));
        let half_width = |slot: &Slot| slot.variable.map_or(0.0, |v| box_width(v) / 2.0);
        Self { centres, half_width: layout.slots.iter().map(half_width).collect() }
    }

    /// The point at which a line towards `to` leaves the box of a slot.
    fn border(&self, s: usize, to: (f64, f64)) -> (f64, f64) {
        let ((x, y), half_width) = (self.centres[s], self.half_width[s]);
        let (dx, dy) = (to.0 - x, to.1 - y);
        if half_width == 0.0 || (dx == 0.0 && dy == 0.0) {
            return (x, y);
        }
        let ratio = ((half_width + 3.0) / dx.abs().max(1e-9)).min((BOX / 2.0 + 3.0) / dy.abs().max(1e-9));
        (x + dx * ratio.min(1.0), y + dy * ratio.min(1.0))
    }

    /// Draws an arrow through slots.
    fn draw_arrow(&self, canvas: &mut Canvas, path: &[usize]) {
        let mut points: Vec<(f64, f64)> = path.iter().map(|&s| self.centres[s]).collect();
        let end = points.len() - 1;
        points[0] = self.border(path[0], points[1]);
        points[end] = self.border(path[end], points[end - 1]);
        canvas.stroke_path(&points, Paint::Muted, false);
        head(canvas, points[end - 1], points[end]);
    }

    /// Draws the arc of a hidden common cause of `a` and `b`, which stays below `ceiling`.
    fn draw_arc(&self, canvas: &mut Canvas, (a, b): (usize, usize), ceiling: f64) {
        let (from, to) = (self.centres[a], self.centres[b]);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        // The arc passes beside the straight line, where an arrow may be.
        let middle = ((from.0 + to.0) / 2.0 + 0.28 * dy, (from.1 + to.1) / 2.0 - 0.28 * dx.abs());
        let (start, end) = (self.border(a, middle), self.border(b, middle));
        let arc: Vec<(f64, f64)> = (0..=24)
            .map(|k| {
                let t = f64::from(k) / 24.0;
                let weights = [(1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t];
                let mix = |p: [f64; 3]| p.iter().zip(weights).map(|(p, weight)| p * weight).sum::<f64>();
                let y: f64 = mix([start.1, middle.1, end.1]);
                (mix([start.0, middle.0, end.0]), y.max(ceiling))
            })
            .collect();
        canvas.stroke_path(&arc, Paint::Muted, true);
        head(canvas, arc[1], arc[0]);
        head(canvas, arc[23], arc[24]);
    }

    fn draw_box(&self, canvas: &mut Canvas, s: usize, name: &str, paint: Paint) {
        let ((x, y), half_width) = (self.centres[s], self.half_width[s]);
        let (left, width) = (x - half_width, 2.0 * half_width);
        canvas.rect(left, y - BOX / 2.0, width, BOX, Paint::Paper, 1.0);
        canvas.rect(left, y - BOX / 2.0, width, BOX, paint, 0.22);
        canvas.rect(left, y + BOX / 2.0 - 2.5, width, 2.5, paint, 1.0);
        canvas.text_on((x, y - 1.0), &format::shorten(name, FONT, width - 8.0));
    }
}

pub(super) fn draw(graph: &Graph, identification: &Identification, options: &PlotOptions) -> Svg {
    let (width, names, layout) = (options.width as f64, graph.variables(), layout(graph));
    // A narrow picture goes from top to bottom.
    let down = width < 480.0;
    let widest = layout.layers.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let keys = roles(graph, identification);
    let top = 16.0 + 18.0 * legend_breaks(&keys, width - 16.0).len() as f64;
    let height = if down { 74.0 * layout.layers.len() as f64 } else { (58.0 * widest).max(120.0) };
    let boxes = Boxes::new(&layout, names, (width, height), top, down);
    let mut canvas = Canvas::new(options.theme);
    for path in &layout.arrows {
        boxes.draw_arrow(&mut canvas, path);
    }
    let indices: BTreeMap<&str, usize> = names.iter().enumerate().map(|(v, name)| (&name[..], v)).collect();
    for (a, b) in graph.confounded() {
        boxes.draw_arc(&mut canvas, (indices[a], indices[b]), top - 8.0);
    }
    for (s, slot) in layout.slots.iter().enumerate() {
        if let Some(v) = slot.variable {
            boxes.draw_box(&mut canvas, s, &names[v], role(identification, graph, &names[v]).0);
        }
    }
    legend_lines(&mut canvas, (width - 8.0, top - 23.0), &keys, width - 16.0);
    let hidden = if graph.confounded().is_empty() { "" } else { "; dashed where a common cause is hidden" };
    let about = format!("Arrows from causes to effects{hidden}: {graph}");
    canvas.finish(width, top + height + 8.0, "Causal graph", &about, "")
}

fn head(canvas: &mut Canvas, from: (f64, f64), to: (f64, f64)) {
    arrow_head(canvas, [from, to], [8.0, 3.5], Paint::Muted);
}
