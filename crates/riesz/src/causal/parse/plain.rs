//! The plain form of a graph, DOT, and DAGitty's text. One grammar of names and arrows covers all three;
//! within braces new lines are blanks.

use super::{Parsed, Result, parse_error};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Arrow(Arrow),
    /// One of the characters `{}[]=,`.
    Sign(char),
    /// The character `;`, or the end of a line.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrow {
    Right,
    Left,
    Both,
}

/// Characters that are not allowed in unquoted names.
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

/// Returns the arrow at the beginning of a text, with any number of dashes, and its number of bytes.
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
const OTHER_FORMATS: [&str; 4] = ["network", "variable", "creator", "version"];

const KINDS: [&str; 5] = ["digraph", "dag", "graph", "mag", "pdag"];

pub(super) fn read(text: &str) -> Result<Parsed> {
    let without_ports = is_dot(text).then(|| without_ports(text));
    let tokens = tokenize(without_ports.as_deref().unwrap_or(text))?;
    let mut reader =
        Reader { tokens, position: 0, braces: false, default_direction: None, graph: Parsed::default() };
    reader.read_all()?;
    Ok(reader.graph)
}

/// Returns a name in the plain form, in quotes if it needs them.
pub(crate) fn quoted(name: &str) -> String {
    let bare = !name.is_empty()
        && name.chars().all(|c| !c.is_whitespace() && !SIGNS.contains(c) && !"-/~".contains(c))
        && !KINDS.contains(&name)
        && !OTHER_FORMATS.contains(&name.to_lowercase().as_str());
    if bare { name.into() } else { format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")) }
}

/// Returns the tokens of a text, each with its line.
fn tokenize(text: &str) -> Result<Vec<(Token, usize)>> {
    let (mut tokens, mut remaining, mut line) = (Vec::new(), text, 1);
    while let Some(first) = remaining.chars().next() {
        let length = if let Some((arrow, length)) = arrow(remaining) {
            tokens.push((Token::Arrow(arrow), line));
            length
        } else if first == ';' || first == '\n' {
            tokens.push((Token::End, line));
            1
        } else if first.is_whitespace() || first == '\u{feff}' {
            first.len_utf8()
        } else if first == '#' || remaining.starts_with("//") {
            remaining.find('\n').unwrap_or(remaining.len())
        } else if remaining.starts_with("/*") {
            let Some(end) = remaining.find("*/") else {
                return parse_error(line, "the comment that begins with /* has no end: close it with */");
            };
            end + 2
        } else if first == '"' {
            let (name, length) = in_quotes(remaining, line)?;
            tokens.push((Token::Name(name), line + remaining[..length].matches('\n').count()));
            length
        } else if "{}[]=,".contains(first) {
            tokens.push((Token::Sign(first), line));
            1
        } else if remaining.starts_with("--") || first == '<' || first == '>' {
            return parse_error(
                line,
                "an edge needs a direction: '->', '<-', or '<->' for a hidden common cause",
            );
        } else {
            let name_end = |(i, c): (usize, char)| {
                let arrow =
                    c == '-' && (remaining[i..].starts_with("->") || remaining[i..].starts_with("--"));
                (c.is_whitespace() || SIGNS.contains(c) || arrow).then_some(i)
            };
            let length = remaining.char_indices().find_map(name_end).unwrap_or(remaining.len());
            tokens.push((Token::Name(remaining[..length].into()), line));
            length
        };
        line += remaining[..length].matches('\n').count();
        remaining = &remaining[length..];
    }
    tokens.push((Token::End, line));
    Ok(tokens)
}

/// Returns the quoted name at the beginning of a text, and its number of bytes including the quotes.
fn in_quotes(text: &str, line: usize) -> Result<(String, usize)> {
    let (mut name, mut escaped) = (String::new(), false);
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' if name.trim().is_empty() => return parse_error(line, "a name is empty"),
            '"' => return Ok((name, i + 1)),
            _ => name.push(c),
        }
    }
    parse_error(line, "a quote has no end: close the name with \"")
}

/// Whether a text begins like a graph in DOT.
fn is_dot(text: &str) -> bool {
    let start = text.trim_start().to_lowercase();
    start.trim_start_matches("strict").trim_start().starts_with("digraph")
}

/// Removes the ports of edges, `Z:n -> X:s`, which only specify how arrows are drawn, from a DOT graph.
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
    tokens: Vec<(Token, usize)>,
    position: usize,
    braces: bool,
    /// Default direction of edges, `edge [dir=back]` in DOT.
    default_direction: Option<String>,
    graph: Parsed,
}

/// The attributes in square brackets, each with its value if it has one.
type Attributes = Vec<(String, Option<String>)>;

impl Reader {
    fn token(&self, index: usize) -> Option<&Token> {
        self.tokens.get(index).map(|(token, _)| token)
    }

    fn peek(&self) -> Option<&Token> {
        self.token(self.position)
    }

    fn line(&self) -> usize {
        let last_position = self.tokens.len().saturating_sub(1);
        self.tokens.get(self.position.min(last_position)).map_or(1, |&(_, line)| line)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let taken = self.peek() == Some(token);
        self.position += usize::from(taken);
        taken
    }

    fn skip_ends(&mut self) {
        while self.takes(&Token::End) {}
    }

    /// Skips new lines within braces, where only `;` can end a statement and is optional.
    fn skip_blanks(&mut self) {
        if self.braces {
            self.skip_ends();
        }
    }

    fn read_all(&mut self) -> Result<()> {
        self.skip_ends();
        self.header()?;
        loop {
            self.skip_ends();
            match self.peek() {
                None if self.braces => {
                    return parse_error(self.line(), "the graph's brace is not closed: add }");
                }
                None => return Ok(()),
                Some(Token::Sign('}')) if self.braces => {
                    self.position += 1;
                    self.skip_ends();
                    return match self.peek() {
                        None => Ok(()),
                        Some(_) => {
                            parse_error(self.line(), "something follows the graph's end: give one graph")
                        }
                    };
                }
                Some(_) => self.statement()?,
            }
        }
    }

    /// Reads `digraph name {`, if the text begins with it.
    fn header(&mut self) -> Result<()> {
        let word = |index: usize| match self.token(index) {
            Some(Token::Name(name)) => Some(name.to_lowercase()),
            _ => None,
        };
        // Mermaid begins with the direction in which the graph is drawn.
        let mermaid = matches!(word(self.position).as_deref(), Some("graph" | "flowchart"))
            && matches!(word(self.position + 1).as_deref(), Some("td" | "tb" | "bt" | "lr" | "rl"))
            && self.token(self.position + 2) == Some(&Token::End);
        if mermaid {
            self.position += 3;
            return Ok(());
        }
        let strict = usize::from(word(self.position).as_deref() == Some("strict"));
        let Some(kind) = word(self.position + strict).filter(|kind| KINDS.contains(&kind.as_str())) else {
            return Ok(());
        };
        let mut brace = self.position + strict + 1;
        brace += usize::from(word(brace).is_some());
        while self.token(brace) == Some(&Token::End) {
            brace += 1;
        }
        if self.token(brace) != Some(&Token::Sign('{')) {
            return Ok(());
        }
        if kind != "digraph" && kind != "dag" {
            return parse_error(
                self.line(),
                format!("a '{kind}' has edges without a direction: give a digraph or a dag"),
            );
        }
        (self.position, self.braces) = (brace + 1, true);
        Ok(())
    }

    /// Reads a chain of groups and arrows with its attributes, or a setting for drawing, which does not
    /// affect causes.
    fn statement(&mut self) -> Result<()> {
        let line = self.line();
        if self.setting()? {
            return Ok(());
        }
        // Groups, and whether each is a list with commas and without braces.
        let (mut groups, mut listed, mut arrows) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let has_braces = self.peek() == Some(&Token::Sign('{'));
            let group = self.group()?;
            listed.push(group.len() > 1 && !has_braces);
            groups.push(group);
            let after_group = self.position;
            self.skip_blanks();
            let Some(&Token::Arrow(arrow)) = self.peek() else {
                self.position = after_group;
                break;
            };
            self.position += 1;
            self.skip_blanks();
            arrows.push(arrow);
        }
        let mut attributes =
            if self.peek() == Some(&Token::Sign('[')) { self.attributes()? } else { Vec::new() };
        if let (Some(direction), false) =
            (&self.default_direction, attributes.iter().any(|(name, _)| name == "dir"))
        {
            attributes.push(("dir".into(), Some(direction.clone())));
        }
        if !self.braces && arrows.len() > 1 && listed[1..arrows.len()].contains(&true) {
            return parse_error(
                line,
                "a comma between two arrows could separate names or edges: end each edge with ';' or a new \
                 line, or put the names in braces, {a b}",
            );
        }
        let has_attribute = |name: &str, value: Option<&str>| {
            attributes
                .iter()
                .any(|(attribute, v)| attribute == name && (value.is_none() || v.as_deref() == value))
        };
        if has_attribute("dir", Some("none")) {
            return parse_error(
                line,
                "an edge needs a direction: '->', '<-', or '<->' for a hidden common cause",
            );
        }
        if arrows.is_empty()
            && (has_attribute("latent", None)
                || has_attribute("observed", Some("no"))
                || has_attribute("observed", Some("False")))
        {
            self.graph.latent.extend(groups[0].clone());
        }
        for (pair, arrow) in groups.windows(2).zip(arrows) {
            let arrow = match arrow {
                _ if has_attribute("dir", Some("both")) => Arrow::Both,
                Arrow::Right if has_attribute("dir", Some("back")) => Arrow::Left,
                other => other,
            };
            self.add_edges(&pair[0], arrow, &pair[1]);
        }
        self.end_statement(line)
    }

    /// Reads a drawing setting if it is next.
    fn setting(&mut self) -> Result<bool> {
        let (true, Some(Token::Name(word))) = (self.braces, self.peek()) else { return Ok(false) };
        let (is_edge, is_default) = (word == "edge", ["graph", "node", "edge"].contains(&word.as_str()));
        match self.token(self.position + 1) {
            Some(Token::Sign('=')) => {
                self.position += 2;
                self.name("a value")?;
            }
            Some(Token::Sign('[')) if is_default => {
                self.position += 1;
                let direction = self.attributes()?.into_iter().find(|(name, _)| name == "dir");
                if let (true, Some((_, direction))) = (is_edge, direction) {
                    self.default_direction = direction;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds the edges between all nodes of two groups.
    fn add_edges(&mut self, left: &[String], arrow: Arrow, right: &[String]) {
        for (a, b) in left.iter().flat_map(|a| right.iter().map(move |b| (a, b))) {
            match arrow {
                Arrow::Left => self.graph.edge(b, a, false),
                Arrow::Right | Arrow::Both => self.graph.edge(a, b, arrow == Arrow::Both),
            }
        }
    }

    /// Checks that the statement that began in this line ends here.
    fn end_statement(&self, line: usize) -> Result<()> {
        match self.peek() {
            Some(Token::Name(name)) if !self.braces => {
                let name = name.clone();
                parse_error(
                    line,
                    format!(
                        "'{name}' follows without an arrow: put names with spaces in quotes, and end a \
                         chain with ';'"
                    ),
                )
            }
            Some(Token::Sign(sign @ ('}' | '[' | ']' | '='))) if !self.braces => {
                let sign = *sign;
                parse_error(line, format!("'{sign}' is out of place: put names with signs in quotes"))
            }
            _ => Ok(()),
        }
    }

    /// Reads one name, several names between commas, or names in braces.
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
                return parse_error(self.line(), "the braces contain no name");
            }
        } else {
            names.push(self.name("a name")?);
            while self.takes(&Token::Sign(',')) {
                self.skip_blanks();
                names.push(self.name("a name")?);
            }
        }
        for name in &names {
            self.graph.variable(name);
        }
        Ok(names)
    }

    fn name(&mut self, expected: &str) -> Result<String> {
        let line = self.line();
        let token = self.peek().cloned();
        self.position += 1;
        match token {
            Some(Token::Name(name)) => Ok(name),
            Some(Token::Arrow(_)) => parse_error(
                line,
                format!("an arrow is where {expected} should be: name a variable at each end"),
            ),
            Some(Token::Sign(sign)) => parse_error(line, format!("'{sign}' is where {expected} should be")),
            Some(Token::End) | None => parse_error(
                line,
                format!("the line ends where {expected} should be: name a variable at each end of an arrow"),
            ),
        }
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let (line, mut attributes) = (self.line(), Vec::new());
        self.position += 1;
        loop {
            while self.takes(&Token::End) || self.takes(&Token::Sign(',')) {}
            if self.takes(&Token::Sign(']')) {
                return Ok(attributes);
            }
            if self.peek().is_none() {
                return parse_error(line, "a square bracket is not closed: add ]");
            }
            let name = self.name("an attribute, or ]")?;
            let value = if self.takes(&Token::Sign('=')) { Some(self.name("a value")?) } else { None };
            attributes.push((name, value));
        }
    }
}
