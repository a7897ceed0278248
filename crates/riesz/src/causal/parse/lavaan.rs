//! lavaan's model text: `Y ~ X + Z` for arrows into Y, `X ~~ Y` for a hidden common cause, `F =~ x1 + x2` for
//! an unmeasured F with arrows to its indicators. Coefficients, intercepts, variances and constraints do not
//! affect the graph, except that a coefficient fixed to 0 means that there is no edge.

use super::{Parsed, Result, parse_error};

pub(super) fn recognises(text: &str) -> bool {
    let arrows = ["->", "<-", "→", "←", "↔"];
    // Signs in quoted names do not count.
    let has_sign = |line: &str| line.split('"').step_by(2).any(|part| part.contains('~'));
    text.lines().map(uncommented).any(has_sign) && !arrows.iter().any(|arrow| text.contains(arrow))
}

fn uncommented(line: &str) -> &str {
    line.split(['#', '!']).next().unwrap_or_default()
}

pub(super) fn read(text: &str) -> Result<Parsed> {
    let mut graph = Parsed::default();
    let mut formulas: Vec<(usize, String)> = Vec::new();
    // A line that begins or ends with a sign continues a formula.
    let mut unfinished = false;
    for (i, line) in text.lines().enumerate() {
        for part in uncommented(line).split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let continues = unfinished || part.starts_with(['+', '*', '~']);
            match formulas.last_mut().filter(|_| continues) {
                Some((_, formula)) => *formula += &format!(" {part}"),
                None => formulas.push((i + 1, part.into())),
            }
            unfinished = part.ends_with(['+', '*', '~', ',', '(']);
        }
    }
    for (line, formula) in formulas {
        read_formula(&formula, line, &mut graph)?;
    }
    if graph.variables.is_empty() {
        return parse_error(1, "there is no formula: write arrows into Y as 'Y ~ X + Z'");
    }
    Ok(graph)
}

fn read_formula(formula: &str, line: usize, graph: &mut Parsed) -> Result<()> {
    // Definitions, constraints and thresholds.
    if [":=", "==", "|"].iter().any(|sign| formula.contains(sign)) {
        return Ok(());
    }
    let signs = ["=~", "~~", "~*~", "~"];
    let ranked = signs.into_iter().enumerate();
    let Some((sign_position, _, sign)) =
        ranked.filter_map(|(rank, sign)| Some((formula.find(sign)?, rank, sign))).min()
    else {
        if formula.contains(['<', '>']) {
            return Ok(());
        }
        return parse_error(line, format!("'{formula}' has no '~': write arrows into Y as 'Y ~ X + Z'"));
    };
    let (left, right) = (&formula[..sign_position], &formula[sign_position + sign.len()..]);
    if sign == "~*~" {
        return Ok(());
    }
    let (left, right) = (terms(left, line)?, terms(right, line)?);
    for (_, to) in left {
        for (coefficient, from) in &right {
            let is_absent = coefficient.as_deref() == Some("0");
            // Intercepts and scales are numbers.
            if from.parse::<f64>().is_ok() {
                graph.variable(&to);
                continue;
            }
            match sign {
                _ if is_absent || (sign == "~~" && *from == to) => {
                    graph.variable(&to);
                    graph.variable(from);
                }
                "=~" => {
                    graph.edge(&to, from, false);
                    if !graph.latent.contains(&to) {
                        graph.latent.push(to.clone());
                    }
                }
                "~~" => graph.edge(&to, from, true),
                // An interaction is an effect of each of its variables.
                _ => from.split(':').for_each(|from| graph.edge(from.trim(), &to, false)),
            }
        }
    }
    Ok(())
}

/// Returns the variables of a sum, each with its coefficient if it has one.
fn terms(text: &str, line: usize) -> Result<Vec<(Option<String>, String)>> {
    let (mut terms, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    let characters_and_end = text.char_indices().chain([(text.len(), '+')]);
    for (i, c) in characters_and_end {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '+' if depth == 0 || i == text.len() => {
                let term = text[start..i].trim();
                let (coefficient, name) = match term.rsplit_once('*') {
                    Some((coefficient, name)) => (Some(coefficient.trim().to_string()), name.trim()),
                    None => (None, term),
                };
                if name.is_empty() {
                    return parse_error(
                        line,
                        "a name is missing next to '~' or '+': write arrows into Y as 'Y ~ X + Z'",
                    );
                }
                if name.contains(char::is_whitespace) || name.contains(['(', ')', '~']) {
                    return parse_error(
                        line,
                        format!("'{name}' is not the name of a variable: put '+' between variables"),
                    );
                }
                terms.push((coefficient, name.to_string()));
                start = i + 1;
            }
            _ => {}
        }
    }
    Ok(terms)
}
