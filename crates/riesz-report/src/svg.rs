//! A small writer of SVG text, with fixed decimals, escaped text, and colours named by their meaning.

use std::fmt::Write;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use resvg::tiny_skia;

/// The colours of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Dark ink on white, in literal colours.
    #[default]
    Light,
    /// Light ink on near black, in literal colours.
    Dark,
    /// CSS variables that follow `prefers-color-scheme`; for browsers only, since PNG needs literal colours.
    Auto,
}

/// A colour, named by its meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Paint {
    Paper,
    Ink,
    Muted,
    Grid,
    /// A value that raises the prediction.
    Up,
    /// A value that lowers the prediction.
    Down,
    /// A dot without a feature value.
    Neutral,
    /// A feature value from low (0) to high (1).
    Ramp(f64),
    /// A number from the smallest (0) to the largest (1), for numbers of one sign.
    Sequential(f64),
    /// The position of a colour in [`LEVELS`].
    Level(usize),
}

/// Colours of unordered levels. All have a contrast of at least 3 against white and near black.
pub(crate) const LEVELS: [&str; 6] = ["#4a6fd0", "#b07d00", "#00856f", "#c2416b", "#8a5fbf", "#5b7f1c"];

/// Name, light and dark colour of each paint that depends on the theme. Ink on paper has a contrast of at
/// least 12, muted ink 5.5, and marks 3, in both.
pub(crate) const COLOURS: [(&str, &str, &str); 7] = [
    ("paper", "#ffffff", "#15181c"),
    ("ink", "#1d2229", "#e8eaed"),
    ("muted", "#5b6470", "#a2abb6"),
    ("grid", "#e3e6ea", "#31363d"),
    ("up", "#d55e00", "#f08a3c"),
    ("down", "#1f6fb2", "#5aa7e0"),
    ("neutral", "#868d96", "#868d96"),
];

/// Number of steps of the ramp. Every step has a contrast of at least 3 against white and near black.
pub(crate) const RAMP_STEPS: usize = 17;

/// The colour of `t` in 0..=1 on a ramp of [`RAMP_STEPS`] steps from blue through grey to vermilion.
pub(crate) fn ramp(t: f64) -> String {
    const STOPS: [[f64; 3]; 3] = [[31.0, 119.0, 190.0], [143.0, 141.0, 146.0], [217.0, 95.0, 2.0]];
    let t = (t.clamp(0.0, 1.0) * (RAMP_STEPS - 1) as f64).round() / (RAMP_STEPS - 1) as f64 * 2.0;
    let (from, to, s) = if t < 1.0 { (STOPS[0], STOPS[1], t) } else { (STOPS[1], STOPS[2], t - 1.0) };
    let mix = |k: usize| (from[k] + (to[k] - from[k]) * s).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// The colour of `t` in 0..=1 on a sequential ramp of [`RAMP_STEPS`] steps from yellow through green to
/// violet: the colormap viridis of matplotlib, reversed and without its darkest part, so that large values
/// are dark on paper and still visible on near black.
pub(crate) fn sequential(t: f64) -> String {
    const STOPS: [[f64; 3]; 7] = [
        [244.0, 230.0, 30.0],
        [160.0, 218.0, 57.0],
        [74.0, 193.0, 109.0],
        [31.0, 161.0, 135.0],
        [39.0, 127.0, 142.0],
        [54.0, 92.0, 141.0],
        [70.0, 50.0, 126.0],
    ];
    let t = (t.clamp(0.0, 1.0) * (RAMP_STEPS - 1) as f64).round() / (RAMP_STEPS - 1) as f64;
    let position = t * (STOPS.len() - 1) as f64;
    let k = (position.floor() as usize).min(STOPS.len() - 2);
    let share = position - k as f64;
    let mix = |c: usize| (STOPS[k][c] + (STOPS[k + 1][c] - STOPS[k][c]) * share).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

impl Paint {
    fn index(self) -> usize {
        match self {
            Self::Paper => 0,
            Self::Ink => 1,
            Self::Muted => 2,
            Self::Grid => 3,
            Self::Up => 4,
            Self::Down => 5,
            Self::Neutral | Self::Ramp(_) | Self::Sequential(_) | Self::Level(_) => 6,
        }
    }

    /// `Up` for values of at least 0, `Down` for negative ones.
    pub(crate) fn for_sign(value: f64) -> Self {
        if value < 0.0 { Self::Down } else { Self::Up }
    }

    /// The red, green and blue of a paint that does not depend on the theme.
    fn rgb(self) -> [u8; 3] {
        let hex = self.css(Theme::Light);
        [1, 3, 5].map(|start| {
            hex.get(start..start + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0)
        })
    }

    pub(crate) fn css(self, theme: Theme) -> String {
        let (name, light, dark) = COLOURS[self.index()];
        match (self, theme) {
            (Self::Ramp(t), _) => ramp(t),
            (Self::Sequential(t), _) => sequential(t),
            (Self::Level(k), _) => LEVELS[k].into(),
            (_, Theme::Light) => light.into(),
            (_, Theme::Dark) => dark.into(),
            (_, Theme::Auto) => format!("var(--rz-{name})"),
        }
    }
}

/// `text` with the five special characters of XML escaped, and forbidden characters replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if (c as u32) < 0x20 || matches!(c as u32, 0xfffe | 0xffff) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most one decimal.
pub(crate) fn coordinate(x: f64) -> String {
    let text = format!("{x:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

/// Straight lines through `points`, as the data of a path.
fn path(points: &[(f64, f64)]) -> String {
    let pairs = points.iter().map(|p| format!("{} {}", coordinate(p.0), coordinate(p.1)));
    format!("M{}", pairs.collect::<Vec<_>>().join("L"))
}

/// The attribute of an opacity below 1.
fn fill_opacity(opacity: f64) -> String {
    if opacity < 1.0 { format!(" fill-opacity=\"{opacity:.2}\"") } else { String::new() }
}

/// A finished picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Svg {
    /// The picture as SVG text.
    pub text: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// The position of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture while it is drawn: its SVG elements as text.
pub(crate) struct Canvas {
    body: String,
    theme: Theme,
}

/// Font size of all text.
pub(crate) const FONT: f64 = 12.0;

impl Canvas {
    pub(crate) fn new(theme: Theme) -> Self {
        Self { body: String::new(), theme }
    }

    pub(crate) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, paint: Paint, opacity: f64) {
        let (x, y, w, h) =
            (coordinate(x), coordinate(y), coordinate(width.max(0.0)), coordinate(height.max(0.0)));
        let (fill, opacity) = (paint.css(self.theme), fill_opacity(opacity));
        self.push(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{fill}\"{opacity}/>\n"
        ));
    }

    /// Draws cells as one embedded image, row by row from the top with `columns` cells each. Cells without
    /// paint are transparent. For browsers only, since PNG files are drawn without
    /// embedded images.
    pub(crate) fn picture(
        &mut self,
        [x, y, width, height]: [f64; 4],
        cells: &[Option<Paint>],
        columns: usize,
    ) {
        let Some(mut pixels) = tiny_skia::Pixmap::new(columns as u32, (cells.len() / columns) as u32) else {
            return;
        };
        for (pixel, paint) in pixels.pixels_mut().iter_mut().zip(cells) {
            if let Some(paint) = paint {
                let [red, green, blue] = paint.rgb();
                *pixel = tiny_skia::ColorU8::from_rgba(red, green, blue, 255).premultiply();
            }
        }
        // Writing to memory cannot fail.
        let Ok(bytes) = pixels.encode_png() else { return };
        let [x, y, width, height] = [x, y, width, height].map(coordinate);
        self.push(&format!(
            "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" preserveAspectRatio=\"none\" \
             image-rendering=\"pixelated\" href=\"data:image/png;base64,{}\"/>\n",
            BASE64_STANDARD.encode(bytes)
        ));
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint, dashed: bool) {
        self.stroke(&path(&[from, to]), paint, if dashed { " stroke-dasharray=\"2 3\"" } else { "" });
    }

    /// Draws a filled outline.
    pub(crate) fn polygon(&mut self, points: &[(f64, f64)], paint: Paint, opacity: f64) {
        let (d, fill, opacity) = (path(points), paint.css(self.theme), fill_opacity(opacity));
        self.push(&format!("<path d=\"{d}Z\" fill=\"{fill}\"{opacity}/>\n"));
    }

    /// Draws an area bounded by rings with a thin border; the even-odd rule decides which rings are holes.
    pub(crate) fn area(&mut self, rings: &[Vec<(f64, f64)>], paint: Paint, tooltip: &str) {
        // Points that a picture cannot tell apart are left out, as outlines may have many thousands.
        let visible = |ring: &Vec<(f64, f64)>| {
            let mut points = ring.clone();
            points.dedup_by_key(|point| [coordinate(point.0), coordinate(point.1)]);
            path(&points) + "Z"
        };
        let d: String = rings.iter().map(visible).collect();
        let (fill, stroke) = (paint.css(self.theme), Paint::Paper.css(self.theme));
        self.push(&format!(
            "<path d=\"{d}\" fill=\"{fill}\" fill-rule=\"evenodd\" stroke=\"{stroke}\" \
             stroke-width=\"0.7\"><title>{}</title></path>\n",
            escape(tooltip)
        ));
    }

    /// Draws straight lines, each from one end to the other, in one path.
    pub(crate) fn rules(&mut self, ends: &[[(f64, f64); 2]], paint: Paint, opacity: f64) {
        if ends.is_empty() {
            return;
        }
        let d: String = ends.iter().map(|line| path(line)).collect();
        self.stroke(&d, paint, &format!(" stroke-opacity=\"{opacity:.2}\""));
    }

    /// Draws a straight line with a width and an opacity.
    pub(crate) fn edge(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint, width: f64, opacity: f64) {
        let width = coordinate(width);
        let attributes = format!(" stroke-width=\"{width}\" stroke-opacity=\"{opacity:.2}\"");
        self.stroke(&path(&[from, to]), paint, &attributes);
    }

    /// Draws a filled circle.
    pub(crate) fn disc(&mut self, centre: (f64, f64), radius: f64, paint: Paint) {
        let [x, y, r] = [centre.0, centre.1, radius].map(coordinate);
        self.push(&format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" fill=\"{}\"/>\n", paint.css(self.theme)));
    }

    /// Draws a horizontal whisker with caps.
    pub(crate) fn whisker(&mut self, from: f64, to: f64, y: f64) {
        let cap = |x: f64| [(x, y - 3.5), (x, y + 3.5)];
        self.rules(&[[(from, y), (to, y)], cap(from), cap(to)], Paint::Ink, 1.0);
    }

    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], paint: Paint) {
        self.stroke(&path(points), paint, " stroke-width=\"1.5\"");
    }

    /// Draws a line through `points`, one pixel wide.
    pub(crate) fn stroke_path(&mut self, points: &[(f64, f64)], paint: Paint, dashed: bool) {
        self.stroke(&path(points), paint, if dashed { " stroke-dasharray=\"4 4\"" } else { "" });
    }

    fn stroke(&mut self, d: &str, paint: Paint, attributes: &str) {
        let stroke = paint.css(self.theme);
        self.push(&format!("<path d=\"{d}\" stroke=\"{stroke}\" fill=\"none\"{attributes}/>\n"));
    }

    /// Draws dots, batched by colour. A dot is the zero-length line `h0` with round ends, which takes a
    /// quarter of a circle's bytes.
    pub(crate) fn dots(&mut self, dots: &[(f64, f64, Paint)], diameter: f64) {
        let mut batches: Vec<(String, String)> = Vec::new();
        for &(x, y, paint) in dots {
            let colour = paint.css(self.theme);
            let k = batches.iter().position(|b| b.0 == colour).unwrap_or_else(|| {
                batches.push((colour, String::new()));
                batches.len() - 1
            });
            let _ = write!(batches[k].1, "M{} {}h0", coordinate(x), coordinate(y));
        }
        for (colour, d) in batches {
            self.push(&format!(
                "<path d=\"{d}\" stroke=\"{colour}\" stroke-width=\"{}\" stroke-linecap=\"round\" \
                 fill=\"none\" stroke-opacity=\"0.85\"/>\n",
                coordinate(diameter)
            ));
        }
    }

    /// Draws text whose middle line is at `y`, with a rim in the colour of the paper that separates it from
    /// lines behind it. Text longer than `room` is cut; its title has all of it.
    pub(crate) fn text(&mut self, position: (f64, f64), text: &str, anchor: Anchor, paint: Paint, room: f64) {
        let shown = crate::format::shorten(text, FONT, room);
        let title = if shown == text { String::new() } else { format!("<title>{}</title>", escape(text)) };
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y) = (coordinate(position.0), coordinate(position.1 + FONT * 0.36));
        let (fill, paper) = (paint.css(self.theme), Paint::Paper.css(self.theme));
        self.push(&format!(
            "<text x=\"{x}\" y=\"{y}\" fill=\"{fill}\" stroke=\"{paper}\" stroke-width=\"3\" \
             paint-order=\"stroke\"{anchor}>{}{title}</text>\n",
            escape(&shown)
        ));
    }

    /// Draws centered text on a coloured background, without a rim.
    pub(crate) fn text_on(&mut self, position: (f64, f64), text: &str) {
        let (x, y) = (coordinate(position.0), coordinate(position.1 + FONT * 0.36));
        let fill = Paint::Ink.css(self.theme);
        self.push(&format!(
            "<text class=\"on\" x=\"{x}\" y=\"{y}\" fill=\"{fill}\" text-anchor=\"middle\">{}</text>\n",
            escape(text)
        ));
    }

    /// Draws text that reads upwards, centered on `position`.
    pub(crate) fn vertical_text(&mut self, position: (f64, f64), text: &str, room: f64) {
        let (x, y) = (coordinate(position.0), coordinate(position.1));
        let fill = Paint::Muted.css(self.theme);
        let shown = escape(&crate::format::shorten(text, FONT, room));
        self.push(&format!(
            "<text transform=\"translate({x} {y}) rotate(-90)\" fill=\"{fill}\" \
             text-anchor=\"middle\">{shown}</text>\n"
        ));
    }

    /// Opens the group of a player's elements, which pages make clickable.
    pub(crate) fn open_player(&mut self, player: usize) {
        self.push(&format!("<g data-player=\"{player}\">\n"));
    }

    pub(crate) fn close(&mut self) {
        self.push("</g>\n");
    }

    fn push(&mut self, text: &str) {
        self.body.push_str(text);
    }

    /// Returns the finished picture. `title` is its accessible name, `description` its accessible
    /// description, and `attributes` are set on the root element, where pages read them.
    pub(crate) fn finish(
        self,
        width: f64,
        height: f64,
        title: &str,
        description: &str,
        attributes: &str,
    ) -> Svg {
        let (width, height) = (width.ceil() as u32, height.ceil() as u32);
        let style = if self.theme == Theme::Auto { variables() } else { String::new() };
        let paper = Paint::Paper.css(self.theme);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rz\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"DejaVu Sans, Verdana, sans-serif\" \
             font-size=\"{FONT}\"{attributes}>\n<title>{}</title>\n<desc>{}</desc>\n{style}\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>\n{}</svg>\n",
            escape(title),
            escape(description),
            self.body
        );
        Svg { text, width, height }
    }
}

/// The CSS variables of [`Theme::Auto`], as a style element.
pub(crate) fn variables() -> String {
    let list = |dark: bool| -> String {
        COLOURS.iter().map(|c| format!("--rz-{}:{};", c.0, if dark { c.2 } else { c.1 })).collect()
    };
    format!(
        "<style>.rz{{{}}}@media(prefers-color-scheme:dark){{.rz{{{}}}}}</style>\n",
        list(false),
        list(true)
    )
}
