//! A small writer of SVG text: fixed decimals, escaped words, colours by meaning.

use std::fmt::Write;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use resvg::tiny_skia;

/// Which colours a picture is drawn in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Dark ink on white, in literal colours.
    #[default]
    Light,
    /// Light ink on near black, in literal colours.
    Dark,
    /// CSS variables that follow `prefers-color-scheme`: for browsers only, PNG needs literal colours.
    Auto,
}

/// A colour by its meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Paint {
    Paper,
    Ink,
    Muted,
    Grid,
    /// Pushes the prediction up.
    Up,
    /// Pushes the prediction down.
    Down,
    /// No feature value to show.
    Neutral,
    /// Low (0) to high (1) feature values.
    Ramp(f64),
    /// A level that has a colour of its own, see [`LEVELS`].
    Level(usize),
}

/// Colours of levels, which have no order: none lies between others. All have a contrast of at least 3
/// against white and near black.
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

/// Steps of the ramp. Every step has a contrast of at least 3 against white and against near black.
pub(crate) const RAMP_STEPS: usize = 17;

/// Blue through grey to vermilion, in `RAMP_STEPS` steps.
pub(crate) fn ramp(t: f64) -> String {
    const STOPS: [[f64; 3]; 3] = [[31.0, 119.0, 190.0], [143.0, 141.0, 146.0], [217.0, 95.0, 2.0]];
    let t = (t.clamp(0.0, 1.0) * (RAMP_STEPS - 1) as f64).round() / (RAMP_STEPS - 1) as f64 * 2.0;
    let (from, to, s) = if t < 1.0 { (STOPS[0], STOPS[1], t) } else { (STOPS[1], STOPS[2], t - 1.0) };
    let mix = |k: usize| (from[k] + (to[k] - from[k]) * s).round() as u8;
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
            Self::Neutral | Self::Ramp(_) | Self::Level(_) => 6,
        }
    }

    /// Up for gains and zero, down for losses.
    pub(crate) fn of_sign(value: f64) -> Self {
        if value < 0.0 { Self::Down } else { Self::Up }
    }

    /// The colour of a paint that is the same on light and on dark paper.
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
            (Self::Level(k), _) => LEVELS[k].into(),
            (_, Theme::Light) => light.into(),
            (_, Theme::Dark) => dark.into(),
            (_, Theme::Auto) => format!("var(--rz-{name})"),
        }
    }
}

/// `text` with the five characters escaped that mean something in XML, and without characters XML forbids.
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

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The pencil.
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
        let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity:.2}\"") } else { String::new() };
        let fill = paint.css(self.theme);
        self.push(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{fill}\"{opacity}/>\n"
        ));
    }

    /// Cells in one picture, `columns` to a row from the top; those without paint are not there. For
    /// browsers: PNG files have no pictures in pictures.
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
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(coordinate);
        let dash = if dashed { " stroke-dasharray=\"2 3\"" } else { "" };
        let stroke = paint.css(self.theme);
        self.push(&format!("<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{stroke}\" fill=\"none\"{dash}/>\n"));
    }

    pub(crate) fn polygon(&mut self, points: &[(f64, f64)], paint: Paint) {
        let d: Vec<String> =
            points.iter().map(|p| format!("{} {}", coordinate(p.0), coordinate(p.1))).collect();
        let fill = paint.css(self.theme);
        self.push(&format!("<path d=\"M{}Z\" fill=\"{fill}\"/>\n", d.join("L")));
    }

    /// Lines from one end to the other each, in one path.
    pub(crate) fn rules(&mut self, ends: &[[(f64, f64); 2]], paint: Paint, opacity: f64) {
        if ends.is_empty() {
            return;
        }
        let line = |[a, b]: &[(f64, f64); 2]| {
            let [x1, y1, x2, y2] = [a.0, a.1, b.0, b.1].map(coordinate);
            format!("M{x1} {y1}L{x2} {y2}")
        };
        let (d, stroke) = (ends.iter().map(line).collect::<String>(), paint.css(self.theme));
        self.push(&format!(
            "<path d=\"{d}\" stroke=\"{stroke}\" fill=\"none\" stroke-opacity=\"{opacity:.2}\"/>\n"
        ));
    }

    /// A line as wide and as strong as what it stands for.
    pub(crate) fn edge(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint, width: f64, opacity: f64) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(coordinate);
        let (stroke, width) = (paint.css(self.theme), coordinate(width));
        self.push(&format!(
            "<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{stroke}\" fill=\"none\" stroke-width=\"{width}\" \
             stroke-opacity=\"{opacity:.2}\"/>\n"
        ));
    }

    /// A filled circle.
    pub(crate) fn disc(&mut self, centre: (f64, f64), radius: f64, paint: Paint) {
        let [x, y, r] = [centre.0, centre.1, radius].map(coordinate);
        self.push(&format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" fill=\"{}\"/>\n", paint.css(self.theme)));
    }

    /// From one x to another at y, with ends that are seen.
    pub(crate) fn whisker(&mut self, from: f64, to: f64, y: f64) {
        let cap = |x: f64| [(x, y - 3.5), (x, y + 3.5)];
        self.rules(&[[(from, y), (to, y)], cap(from), cap(to)], Paint::Ink, 1.0);
    }

    /// A filled outline that lets through what lies below.
    pub(crate) fn area(&mut self, points: &[(f64, f64)], paint: Paint, opacity: f64) {
        let d: Vec<String> =
            points.iter().map(|p| format!("{} {}", coordinate(p.0), coordinate(p.1))).collect();
        let fill = paint.css(self.theme);
        self.push(&format!(
            "<path d=\"M{}Z\" fill=\"{fill}\" fill-opacity=\"{opacity:.2}\"/>\n",
            d.join("L")
        ));
    }

    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], paint: Paint) {
        let d: Vec<String> =
            points.iter().map(|p| format!("{} {}", coordinate(p.0), coordinate(p.1))).collect();
        let stroke = paint.css(self.theme);
        self.push(&format!(
            "<path d=\"M{}\" stroke=\"{stroke}\" fill=\"none\" stroke-width=\"1.5\"/>\n",
            d.join("L")
        ));
    }

    /// A broken line of one stroke and one colour, interrupted if `dashed`.
    pub(crate) fn stroke_path(&mut self, points: &[(f64, f64)], paint: Paint, dashed: bool) {
        let d: Vec<String> =
            points.iter().map(|p| format!("{} {}", coordinate(p.0), coordinate(p.1))).collect();
        let dash = if dashed { " stroke-dasharray=\"4 4\"" } else { "" };
        let stroke = paint.css(self.theme);
        self.push(&format!("<path d=\"M{}\" stroke=\"{stroke}\" fill=\"none\"{dash}/>\n", d.join("L")));
    }

    /// Dots, batched by colour: a dot is the zero-length line `h0` with round ends, a quarter of a circle's
    /// bytes.
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

    /// Text on the line through `y` (its middle), with a rim of paper that keeps lines behind it apart. Text
    /// longer than `room` is cut; the whole stands in its title.
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

    /// Text on a coloured ground, which needs no rim.
    pub(crate) fn text_on(&mut self, position: (f64, f64), text: &str) {
        let (x, y) = (coordinate(position.0), coordinate(position.1 + FONT * 0.36));
        let fill = Paint::Ink.css(self.theme);
        self.push(&format!(
            "<text class=\"on\" x=\"{x}\" y=\"{y}\" fill=\"{fill}\" text-anchor=\"middle\">{}</text>\n",
            escape(text)
        ));
    }

    /// Text that reads upwards, centred on `at`.
    pub(crate) fn text_up(&mut self, position: (f64, f64), text: &str, room: f64) {
        let (x, y) = (coordinate(position.0), coordinate(position.1));
        let fill = Paint::Muted.css(self.theme);
        let shown = escape(&crate::format::shorten(text, FONT, room));
        self.push(&format!(
            "<text transform=\"translate({x} {y}) rotate(-90)\" fill=\"{fill}\" \
             text-anchor=\"middle\">{shown}</text>\n"
        ));
    }

    /// Opens a group that belongs to a player: pages make it clickable.
    pub(crate) fn open_player(&mut self, player: usize) {
        self.push(&format!("<g data-player=\"{player}\">\n"));
    }

    pub(crate) fn close(&mut self) {
        self.push("</g>\n");
    }

    fn push(&mut self, text: &str) {
        self.body.push_str(text);
    }

    /// The whole file. `title` is the accessible name, `description` the accessible description;
    /// `attributes` go on the root for pages to read.
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

/// The variables of [`Theme::Auto`], as a style element.
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
