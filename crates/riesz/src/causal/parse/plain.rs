//! The text of a graph: the plain form, DOT, and DAGitty's. One grammar of names and arrows serves all three;
//! braces make new lines count for nothing.

use super::Parsed;
use crate::error::Result;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Arrow(Arrow),
    /// One of `{}[]=,`.
    Sign(char),
    /// `;`, or a line's end.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrow {
    Right,
    Left,
    Both,
}

/// Signs that names without quotes cannot hold.
const SIGNS: &str = "{}[]=,;\"<>#→←↔⟶⟵⟷";

/// Arrows of one character.
const ARROWS: [(char, Arrow); 6] = [
    ('→', Arrow::Right),
    ('⟶', Arrow::Right),
    ('←', Arrow::Left),
    ('⟵', Arrow::Left),
    ('↔', Arrow::Both),
    ('⟷', Arrow::Both),
];

/// The arrow at the beginning of a text, with any number of dashes, and how many bytes it takes.
fn arrow(text: &str) -> Option<(Arrow, usize)> {
    let first = text.chars().next()?;
    if let Some(&(_, arrow)) = ARROWS.iter().find(|(c, _)| *c == first) {
        return Some((arrow, first.len_utf8()));
    }
    let left = usize::from(first == '<');
    let dashes = text[left..].chars().take_while(|&c| c == '-').count();
    let right = usize::from(text[left + dashes..].starts_with('>'));
    let arrow = match (left, right) {
        _ if dashes == 0 => return None,
        (0, 0) => return None,
        (0, _) => Arrow::Right,
        (_, 0) => Arrow::Left,
        _ => Arrow::Both,
    };
    Some((arrow, left + dashes + right))
}

/// First words of other formats.
const OTHERS: [&str; 4] = ["network", "variable", "creator", "version"];

const KINDS: [&str; 5] = ["digraph", "dag", "graph", "mag", "pdag"];

pub(super) fn read(text: &str) -> Result<Parsed> {
    let without_ports = is_dot(text).then(|| without_ports(text));
    let tokens = Tokens::of(without_ports.as_deref().unwrap_or(text))?;
    let mut reader =
        Reader { tokens, at: 0, braces: false, default_direction: None, found: Parsed::default() };
    reader.all()?;
    Ok(reader.found)
}

/// A name as the plain form takes it, in quotes where it needs them.
pub(crate) fn quoted(name: &str) -> String {
    let bare = !name.is_empty()
        && name.chars().all(|c| !c.is_whitespace() && !SIGNS.contains(c) && !"-/~".contains(c))
        && !KINDS.contains(&name)
        && !OTHERS.contains(&name.to_lowercase().as_str());
    if bare { name.into() } else { format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")) }
}

fn wrong<T>(line: usize, problem: impl Into<String>) -> Result<T> {
    super::wrong("graph", line, problem)
}

struct Tokens(Vec<(Token, usize)>);

impl Tokens {
    fn of(text: &str) -> Result<Self> {
        let (mut found, mut rest, mut line) = (Vec::new(), text, 1);
        while let Some(first) = rest.chars().next() {
            if let Some((arrow, length)) = arrow(rest) {
                found.push((Token::Arrow(arrow), line));
                rest = &rest[length..];
            } else if first == ';' || first == '\n' {
                found.push((Token::End, line));
                line += usize::from(first == '\n');
                rest = &rest[1..];
            } else if first.is_whitespace() || first == '\u{feff}' {
                rest = &rest[first.len_utf8()..];
            } else if first == '#' || rest.starts_with("//") {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else {
                    return wrong(line, "the comment that begins with /* has no end: close it with */");
                };
                line += rest[..end].matches('\n').count();
                rest = &rest[end + 2..];
            } else if first == '"' {
                let (name, length) = in_quotes(rest, line)?;
                line += rest[..length].matches('\n').count();
                found.push((Token::Name(name), line));
                rest = &rest[length..];
            } else if "{}[]=,".contains(first) {
                found.push((Token::Sign(first), line));
                rest = &rest[1..];
            } else if rest.starts_with("--") || rest.starts_with("<>") || first == '<' || first == '>' {
                return wrong(
                    line,
                    "an edge needs a direction: '->', '<-', or '<->' for a hidden common cause",
                );
            } else {
                let ends = |(i, c): (usize, char)| {
                    let arrow = c == '-' && (rest[i..].starts_with("->") || rest[i..].starts_with("--"));
                    (c.is_whitespace() || SIGNS.contains(c) || arrow).then_some(i)
                };
                let length = rest.char_indices().find_map(ends).unwrap_or(rest.len());
                found.push((Token::Name(rest[..length].into()), line));
                rest = &rest[length..];
            }
        }
        found.push((Token::End, line));
        Ok(Self(found))
    }
}

/// The name in quotes at the text's beginning, and how many bytes it takes with them.
fn in_quotes(text: &str, line: usize) -> Result<(String, usize)> {
    let (mut name, mut escaped) = (String::new(), false);
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' if name.trim().is_empty() => return wrong(line, "a name is empty"),
            '"' => return Ok((name, i + 1)),
            _ => name.push(c),
        }
    }
    wrong(line, "a quote has no end: close the name with \"")
}

/// Whether a text begins like a graph in DOT.
fn is_dot(text: &str) -> bool {
    let start = text.trim_start().to_lowercase();
    start.trim_start_matches("strict").trim_start().starts_with("digraph")
}

/// A graph in DOT without the ports of its edges, `Z:n -> X:s`, which say where arrows are drawn.
fn without_ports(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut brackets, mut port) = (false, 0, false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c == '"' && !port {
            quoted = !quoted;
        }
        match c {
            '[' if !quoted => brackets += 1,
            ']' if !quoted => brackets -= 1,
            _ => {}
        }
        if c == ':' && !quoted && brackets == 0 {
            port = true;
            characters.next_if(|next| *next == '"');
            continue;
        }
        if port && (c.is_alphanumeric() || c == '_' || c == '"') {
            continue;
        }
        port = false;
        out.push(c);
        if quoted && c == '\\' {
            out.extend(characters.next());
        }
    }
    out
}

struct Reader {
    tokens: Tokens,
    at: usize,
    braces: bool,
    /// The direction of edges that state none, `edge [dir=back]` in DOT.
    default_direction: Option<String>,
    found: Parsed,
}

/// What stands in square brackets, each with its value if it has one.
type Attributes = Vec<(String, Option<String>)>;

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.0.get(self.at).map(|(token, _)| token)
    }

    fn line(&self) -> usize {
        let last = self.tokens.0.len().saturating_sub(1);
        self.tokens.0.get(self.at.min(last)).map_or(1, |&(_, line)| line)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn skip_ends(&mut self) {
        while self.takes(&Token::End) {}
    }

    /// In braces only `;` could end a statement, and nothing needs to: new lines are blanks.
    fn skip_blanks(&mut self) {
        if self.braces {
            self.skip_ends();
        }
    }

    fn all(&mut self) -> Result<()> {
        self.skip_ends();
        self.header()?;
        loop {
            self.skip_ends();
            match self.peek() {
                None if self.braces => return wrong(self.line(), "the graph's brace is not closed: add }"),
                None => return Ok(()),
                Some(Token::Sign('}')) if self.braces => {
                    self.at += 1;
                    self.skip_ends();
                    return match self.peek() {
                        None => Ok(()),
                        Some(_) => wrong(self.line(), "something follows the graph's end: give one graph"),
                    };
                }
                Some(_) => self.statement()?,
            }
        }
    }

    /// `digraph name {`, if the text begins so.
    fn header(&mut self) -> Result<()> {
        let word = |at: usize| match self.tokens.0.get(at) {
            Some((Token::Name(name), _)) => Some(name.to_lowercase()),
            _ => None,
        };
        // Mermaid begins with the direction in which the graph is drawn.
        let mermaid = matches!(word(self.at).as_deref(), Some("graph" | "flowchart"))
            && matches!(word(self.at + 1).as_deref(), Some("td" | "tb" | "bt" | "lr" | "rl"))
            && matches!(self.tokens.0.get(self.at + 2), Some((Token::End, _)));
        if mermaid {
            self.at += 3;
            return Ok(());
        }
        let strict = usize::from(word(self.at).as_deref() == Some("strict"));
        let Some(kind) = word(self.at + strict).filter(|kind| KINDS.contains(&kind.as_str())) else {
            return Ok(());
        };
        let mut brace = self.at + strict + 1;
        brace += usize::from(word(brace).is_some());
        while matches!(self.tokens.0.get(brace), Some((Token::End, _))) {
            brace += 1;
        }
        if !matches!(self.tokens.0.get(brace), Some((Token::Sign('{'), _))) {
            return Ok(());
        }
        if kind != "digraph" && kind != "dag" {
            return wrong(
                self.line(),
                format!("a '{kind}' has edges without a direction: give a digraph or a dag"),
            );
        }
        (self.at, self.braces) = (brace + 1, true);
        Ok(())
    }

    /// A chain of groups and arrows with its attributes; or settings of how to draw, which say nothing about
    /// causes.
    fn statement(&mut self) -> Result<()> {
        let line = self.line();
        if let (true, Some(Token::Name(word))) = (self.braces, self.peek()) {
            let next = self.tokens.0.get(self.at + 1).map(|(token, _)| token);
            let sets = ["graph", "node", "edge"].contains(&word.as_str());
            if next == Some(&Token::Sign('=')) {
                self.at += 2;
                return self.name("a value").map(drop);
            }
            if sets && next == Some(&Token::Sign('[')) {
                let of_edges = word == "edge";
                self.at += 1;
                let attributes = self.attributes()?;
                let direction = attributes.into_iter().find(|(name, _)| name == "dir");
                if let (true, Some((_, direction))) = (of_edges, direction) {
                    self.default_direction = direction;
                }
                return Ok(());
            }
        }
        // Whether each group is a list between commas without braces.
        let is_list =
            |group: &Vec<String>, start: &Option<Token>| group.len() > 1 && *start != Some(Token::Sign('{'));
        let start = self.peek().cloned();
        let mut groups = vec![self.group()?];
        let mut listed = vec![is_list(&groups[0], &start)];
        let mut arrows = Vec::new();
        loop {
            let back = self.at;
            self.skip_blanks();
            let Some(&Token::Arrow(arrow)) = self.peek() else {
                self.at = back;
                break;
            };
            self.at += 1;
            self.skip_blanks();
            arrows.push(arrow);
            let start = self.peek().cloned();
            let group = self.group()?;
            listed.push(is_list(&group, &start));
            groups.push(group);
        }
        let mut attributes =
            if self.peek() == Some(&Token::Sign('[')) { self.attributes()? } else { Vec::new() };
        if let (Some(direction), false) =
            (&self.default_direction, attributes.iter().any(|(name, _)| name == "dir"))
        {
            attributes.push(("dir".into(), Some(direction.clone())));
        }
        if !self.braces && arrows.len() > 1 && listed[1..arrows.len()].contains(&true) {
            return wrong(
                line,
                "a comma between two arrows could separate names or edges: end each edge with ';' or a new \
                 line, or put the names in braces, {a b}",
            );
        }
        let says = |name: &str, value: Option<&str>| {
            attributes.iter().any(|(own, v)| own == name && (value.is_none() || v.as_deref() == value))
        };
        if says("dir", Some("none")) {
            return wrong(line, "an edge needs a direction: '->', '<-', or '<->' for a hidden common cause");
        }
        if arrows.is_empty()
            && (says("latent", None) || says("observed", Some("no")) || says("observed", Some("False")))
        {
            self.found.latent.extend(groups[0].clone());
        }
        for (pair, arrow) in groups.windows(2).zip(arrows) {
            let arrow = match arrow {
                _ if says("dir", Some("both")) => Arrow::Both,
                Arrow::Right if says("dir", Some("back")) => Arrow::Left,
                other => other,
            };
            for (a, b) in pair[0].iter().flat_map(|a| pair[1].iter().map(move |b| (a.clone(), b.clone()))) {
                match arrow {
                    Arrow::Right => self.found.arrows.push((a, b)),
                    Arrow::Left => self.found.arrows.push((b, a)),
                    Arrow::Both => self.found.confounded.push((a, b)),
                }
            }
        }
        match self.peek() {
            Some(Token::Name(name)) if !self.braces => {
                let name = name.clone();
                wrong(
                    line,
                    format!(
                        "'{name}' follows without an arrow: put names with spaces in quotes, and end a \
                         chain with ';'"
                    ),
                )
            }
            Some(Token::Sign(sign @ ('}' | '[' | ']' | '='))) if !self.braces => {
                let sign = *sign;
                wrong(line, format!("'{sign}' is out of place: put names with signs in quotes"))
            }
            _ => Ok(()),
        }
    }

    /// One name, several between commas, or in braces.
    fn group(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        if self.takes(&Token::Sign('{')) {
            loop {
                while self.takes(&Token::End) || self.takes(&Token::Sign(',')) {}
                if self.takes(&Token::Sign('}')) {
                    break;
                }
                names.push(self.name("a name, or }")?);
            }
            if names.is_empty() {
                return wrong(self.line(), "the braces hold no name");
            }
        } else {
            names.push(self.name("a name")?);
            while self.takes(&Token::Sign(',')) {
                self.skip_blanks();
                names.push(self.name("a name")?);
            }
        }
        for name in &names {
            if !self.found.variables.contains(name) {
                self.found.variables.push(name.clone());
            }
        }
        Ok(names)
    }

    fn name(&mut self, wanted: &str) -> Result<String> {
        let line = self.line();
        let found = self.peek().cloned();
        self.at += 1;
        match found {
            Some(Token::Name(name)) => Ok(name),
            Some(Token::Arrow(_)) => {
                wrong(line, format!("an arrow stands where {wanted} should be: name a variable at each end"))
            }
            Some(Token::Sign(sign)) => wrong(line, format!("'{sign}' stands where {wanted} should be")),
            Some(Token::End) | None => wrong(
                line,
                format!("the line ends where {wanted} should be: name a variable at each end of an arrow"),
            ),
        }
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let (line, mut found) = (self.line(), Vec::new());
        self.at += 1;
        loop {
            while self.takes(&Token::End) || self.takes(&Token::Sign(',')) {}
            if self.takes(&Token::Sign(']')) {
                return Ok(found);
            }
            if self.peek().is_none() {
                return wrong(line, "a square bracket is not closed: add ]");
            }
            let name = self.name("an attribute, or ]")?;
            let value = if self.takes(&Token::Sign('=')) { Some(self.name("a value")?) } else { None };
            found.push((name, value));
        }
    }
}
