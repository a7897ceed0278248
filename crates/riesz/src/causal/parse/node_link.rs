//! Node-link JSON as networkx writes it (`node_link_data`): `{"directed": true, "nodes": [{"id": "X"}],
//! "links": […]}`, or `"edges"` for `"links"`.

use serde_json::{Map, Value};

use super::{Attributes, Parsed, Result, parse_error};

/// Recognises a text that begins like a JSON object with keys; `{"a" "b"} -> c` is in the plain form.
pub(super) fn recognises(text: &str) -> bool {
    let text = text.trim();
    let inner = text.strip_prefix('{').map(str::trim_start);
    let has_key = inner.and_then(|inner| inner.strip_prefix('"')).and_then(|inner| {
        let end = inner.find('"')?;
        Some(inner[end + 1..].trim_start().starts_with(':'))
    });
    has_key == Some(true)
        || serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object() || value.is_array())
}

/// Returns a name that is a text or a number.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn attributes(object: &Map<String, Value>) -> Attributes {
    let texts = object.iter().filter_map(|(key, value)| match value {
        Value::Bool(flag) => Some((key.clone(), flag.to_string())),
        value => Some((key.clone(), text(value)?)),
    });
    Attributes(texts.collect())
}

pub(super) fn read(content: &str) -> Result<Parsed> {
    let value: Value = serde_json::from_str(content)
        .or_else(|e| parse_error(e.line(), format!("this is not valid JSON ({e})")))?;
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let (Some(nodes), Some(edges)) = (list("nodes"), list("links").or_else(|| list("edges"))) else {
        return parse_error(
            1,
            "there are no lists 'nodes' and 'links' (or 'edges'): write the graph as \
             networkx.node_link_data does",
        );
    };
    if value.get("directed") != Some(&Value::Bool(true)) {
        let problem =
            "the edges have no direction: write \"directed\": true, in networkx by giving a DiGraph";
        return parse_error(1, problem);
    }
    let mut graph = Parsed::default();
    // Ids by which edges refer to nodes.
    let mut ids: Vec<String> = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let node_attributes = node.as_object().map(attributes);
        let id = node_attributes
            .as_ref()
            .map_or_else(|| text(node), |object| object.get("id").or(object.get("name")).map(String::from));
        let Some(id) = id else {
            return parse_error(1, format!("node {} has no \"id\": give each node a name", i + 1));
        };
        // A numeric id is not a name if there is a label.
        let label = node_attributes.as_ref().and_then(|object| object.get("label").or(object.get("name")));
        let name = match label {
            Some(label) if id.parse::<u64>().is_ok() => label.to_string(),
            _ => id.clone(),
        };
        ids.push(id);
        if !graph.variable(&name) {
            return parse_error(1, format!("two nodes are called '{name}': give each its own id"));
        }
        if node_attributes.is_some_and(|object| object.latent()) {
            graph.latent.push(name);
        }
    }
    for (i, edge) in edges.iter().enumerate() {
        let end = |key: &str| {
            let Some(id) = edge.get(key).and_then(text) else {
                return parse_error(1, format!("edge {} has no \"{key}\": give the id of a node", i + 1));
            };
            // Older versions of networkx write indices in the list of nodes.
            let name_by_index = edge
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|k| graph.variables.get(usize::try_from(k).ok()?));
            let name_by_id = ids.iter().position(|other_id| *other_id == id).map(|k| &graph.variables[k]);
            match name_by_id.or(name_by_index) {
                Some(name) => Ok(name.clone()),
                None => parse_error(1, format!("edge {} has the {key} '{id}', which is no node's id", i + 1)),
            }
        };
        let (from, to) = (end("source")?, end("target")?);
        let bidirected = edge.as_object().is_some_and(|object| attributes(object).bidirected());
        graph.edge(&from, &to, bidirected);
    }
    Ok(graph)
}
