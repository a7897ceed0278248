//! Graphs in the formats of other packages: random graphs are read back, and errors name format, line and
//! remedy.

use riesz::causal::Graph;

use crate::causal_graph::{Net, name};
use crate::common::Stream;

/// A graph: its variables, the unmeasured ones, its arrows, and its hidden common causes.
struct GraphContent {
    names: Vec<String>,
    latent: Vec<String>,
    arrows: Vec<(String, String)>,
    confounded: Vec<(String, String)>,
}

impl GraphContent {
    fn random(s: &mut Stream, round: usize, hidden: usize, latent: bool) -> Self {
        let net = Net::random(s, 2 + round % 5, 0.5, hidden.min(1 + round % 5));
        let names: Vec<String> = (0..net.variables).map(name).collect();
        let graph = net.graph();
        let owned = |pairs: Vec<(&str, &str)>| {
            pairs.into_iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>()
        };
        let latent =
            if latent { names.iter().filter(|_| s.uniform() < 0.2).cloned().collect() } else { vec![] };
        Self { latent, arrows: owned(graph.arrows()), confounded: owned(graph.confounded()), names }
    }

    /// Returns the content of the graph, independent of the order of its variables.
    fn content(&self) -> [Vec<String>; 4] {
        let unordered =
            |(a, b): &(String, String)| if a < b { format!("{a} {b}") } else { format!("{b} {a}") };
        sorted([
            self.names.clone(),
            self.latent.clone(),
            self.arrows.iter().map(|(a, b)| format!("{a} {b}")).collect(),
            self.confounded.iter().map(unordered).collect(),
        ])
    }
}

fn sorted(mut lists: [Vec<String>; 4]) -> [Vec<String>; 4] {
    lists.iter_mut().for_each(|list| list.sort());
    lists
}

fn graph_content(graph: &Graph) -> [Vec<String>; 4] {
    let owned = |pairs: Vec<(&str, &str)>| {
        pairs.into_iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>()
    };
    GraphContent {
        names: graph.variables().to_vec(),
        latent: graph.latent().into_iter().map(String::from).collect(),
        arrows: owned(graph.arrows()),
        confounded: owned(graph.confounded()),
    }
    .content()
}

fn node_index(drawn: &GraphContent, name: &str) -> usize {
    drawn.names.iter().position(|other| other == name).unwrap()
}

fn gml(drawn: &GraphContent) -> String {
    let mut text = "Creator \"a test\"\nVersion 1\ngraph\n[\n  directed 1\n  multigraph 1\n".to_string();
    for (i, name) in drawn.names.iter().enumerate() {
        let latent = if drawn.latent.contains(name) { " observed \"no\"" } else { "" };
        text += &format!("  node [\n    id {}\n    label \"{name}\"{latent}\n  ]\n", i + 3);
    }
    let edge = |(a, b): &(String, String), attributes: &str| {
        let (a, b) = (node_index(drawn, a) + 3, node_index(drawn, b) + 3);
        format!("  edge [ source {a} target {b} key 0 {attributes} graphics [ width 1.5 ] ]\n")
    };
    text += &drawn.arrows.iter().map(|e| edge(e, "")).collect::<String>();
    text += &drawn.confounded.iter().map(|e| edge(e, "dir \"both\"")).collect::<String>();
    text + "]\n"
}

fn json(drawn: &GraphContent) -> String {
    let nodes = drawn
        .names
        .iter()
        .map(|name| serde_json::json!({ "id": name, "latent": drawn.latent.contains(name) }));
    let edge = |(a, b): &(String, String), is_bidirected: bool| serde_json::json!({ "source": a, "target": b, "key": 0, "bidirected": is_bidirected });
    let edges =
        drawn.arrows.iter().map(|e| edge(e, false)).chain(drawn.confounded.iter().map(|e| edge(e, true)));
    let nodes: Vec<_> = nodes.collect();
    let edges: Vec<_> = edges.collect();
    serde_json::json!({ "directed": true, "multigraph": true, "graph": {}, "nodes": nodes, "edges": edges })
        .to_string()
}

/// Writes a matrix of cells with the names of rows and columns.
fn csv(drawn: &GraphContent, corner: &str, cell: impl Fn(&str, &str) -> String) -> String {
    let mut text = format!("{corner},{}\n", drawn.names.join(","));
    for a in &drawn.names {
        let cells: Vec<String> = drawn.names.iter().map(|b| cell(a, b)).collect();
        text += &format!("{a},{}\n", cells.join(","));
    }
    text
}

fn has(edges: &[(String, String)], a: &str, b: &str) -> bool {
    edges.iter().any(|(x, y)| x == a && y == b)
}

fn adjacency(drawn: &GraphContent) -> String {
    csv(drawn, "", |a, b| u8::from(has(&drawn.arrows, a, b)).to_string())
}

fn lingam(drawn: &GraphContent) -> String {
    let weight = |a: &str, b: &str| if has(&drawn.arrows, b, a) { "-0.75" } else { "0.0" };
    csv(drawn, "to", |a, b| weight(a, b).into()).replace(',', ";")
}

fn causal_learn(drawn: &GraphContent) -> String {
    csv(drawn, "", |a, b| {
        let is_confounded = has(&drawn.confounded, a, b) || has(&drawn.confounded, b, a);
        match () {
            () if has(&drawn.arrows, a, b) => "-1".into(),
            () if has(&drawn.arrows, b, a) || is_confounded => "1".into(),
            () => "0".into(),
        }
    })
}

fn parents<'d>(drawn: &'d GraphContent, child: &str) -> Vec<&'d str> {
    drawn.arrows.iter().filter(|(_, b)| b == child).map(|(a, _)| a.as_str()).collect()
}

fn bnlearn(drawn: &GraphContent) -> String {
    let node = |name: &String| match &parents(drawn, name)[..] {
        [] => format!("[{name}]"),
        parent_names => format!("[{name}|{}]", parent_names.join(":")),
    };
    drawn.names.iter().map(node).collect()
}

fn bif(drawn: &GraphContent) -> String {
    let mut text = "network unknown { // no name\n}\n".to_string();
    for name in &drawn.names {
        text += &format!("variable {name} {{\n  type discrete [ 2 ] {{ no, yes }};\n}}\n");
    }
    for name in &drawn.names {
        let parent_names = parents(drawn, name);
        let conditioning =
            if parent_names.is_empty() { String::new() } else { format!(" | {}", parent_names.join(", ")) };
        text += &format!("probability ( {name}{conditioning} ) {{\n  table 0.5, 0.5; /* {{ */\n}}\n");
    }
    text
}

fn lavaan(drawn: &GraphContent) -> String {
    let mut text = "# a model\n".to_string();
    for name in drawn.names.iter().filter(|name| !drawn.latent.contains(name)) {
        let terms: Vec<String> = parents(drawn, name).iter().map(|parent| format!("b*{parent}")).collect();
        text += &if terms.is_empty() {
            format!("{name} ~~ {name}\n")
        } else {
            format!("{name} ~ 1 + {}\n", terms.join(" +\n  "))
        };
    }
    for (a, b) in &drawn.confounded {
        text += &format!("{a} ~~ {b}; {a} ~~ 1*{a} ! variance\n");
    }
    text
}

fn tetrad(drawn: &GraphContent) -> String {
    let node = |name: &String| if drawn.latent.contains(name) { format!("({name})") } else { name.clone() };
    let nodes: Vec<String> = drawn.names.iter().map(node).collect();
    let mut text = format!("Graph Nodes:\n{}\n\nGraph Edges:\n", nodes.join(";"));
    let edges = drawn.arrows.iter().map(|e| (e, "-->")).chain(drawn.confounded.iter().map(|e| (e, "<->")));
    for (k, ((a, b), arrow)) in edges.enumerate() {
        text += &format!("{}. {a} {arrow} {b} dd nl\n", k + 1);
    }
    text + "\nGraph Attributes:\nScore: -3.5\n"
}

fn arrows(drawn: &GraphContent, right: &str, bidirected: &str) -> String {
    let mut text = drawn.names.join("\n");
    drawn.arrows.iter().for_each(|(a, b)| text += &format!("\n{a}{right}{b}"));
    drawn.confounded.iter().for_each(|(a, b)| text += &format!("; {a}{bidirected}{b}"));
    text
}

#[test]
fn random_graphs_read_back_in_each_format() {
    let mut s = Stream(1365);
    // Each format, and whether it supports hidden common causes and latent variables.
    type Written = (&'static str, fn(&GraphContent) -> String, bool, bool);
    let formats: [Written; 11] = [
        ("GML", gml, true, true),
        ("JSON", json, true, true),
        ("adjacency", adjacency, false, false),
        ("LiNGAM", lingam, false, false),
        ("causal-learn", causal_learn, true, false),
        ("bnlearn", bnlearn, false, false),
        ("BIF", bif, false, false),
        ("lavaan", lavaan, true, false),
        ("Tetrad", tetrad, true, true),
        ("long arrows", |drawn| arrows(drawn, "-->", "<-->"), true, false),
        ("arrows of one character", |drawn| arrows(drawn, "→", " ↔ "), true, false),
    ];
    for round in 0..300 {
        for (format, write, hidden, latent) in &formats {
            let hidden = if *hidden { round % 3 } else { 0 };
            let mut drawn = GraphContent::random(&mut s, round, hidden, *latent);
            if *format == "causal-learn" {
                // The format has one edge per pair.
                let arrows = drawn.arrows.clone();
                drawn.confounded.retain(|(a, b)| !has(&arrows, a, b) && !has(&arrows, b, a));
                if arrows.is_empty() {
                    // Without a tail mark the text would be an adjacency matrix with arrows in both
                    // directions, which is refused.
                    continue;
                }
            }
            let text = write(&drawn);
            let graph = Graph::parse(&text).unwrap_or_else(|e| panic!("{format}: {e}\n{text}"));
            assert_eq!(graph_content(&graph), drawn.content(), "{format}:\n{text}");
            assert_eq!(graph.to_string().parse::<Graph>().unwrap(), graph, "{format}:\n{text}");
            let windows = text.replace('\n', "\r\n");
            assert_eq!(Graph::parse(&format!("\u{feff}{windows}")).unwrap(), graph, "{format}:\n{windows}");
        }
    }
}

#[test]
fn texts_of_other_packages_are_read() {
    let expected = Graph::parse("Z; X; Y; Z -> X; Z -> Y; X -> Y").unwrap();
    for text in [
        "graph [\n  directed 1\n  node [ id 0 label \"Z\" ]\n  node [ id 1 label \"X\" ]\n  node [ id 2 \
         label \"Y\" ]\n  edge [ source 0 target 1 ]\n  edge [ source 0 target 2 ]\n  edge [ source 1 \
         target 2 ]\n]",
        // A graph as DoWhy writes it.
        "graph[directed 1 node[ id \"Z\" label \"Z\"]node[ id \"X\" label \"X\"] node[ id \"Y\" label \"Y\"]\
         edge[source \"Z\" target \"X\"]edge[source \"Z\" target \"Y\"] edge[source \"X\" target \"Y\"]]",
        "{\"directed\": true, \"multigraph\": false, \"graph\": {}, \"nodes\": [{\"id\": \"Z\"}, {\"id\": \
         \"X\"}, {\"id\": \"Y\"}], \"links\": [{\"source\": \"Z\", \"target\": \"X\"}, {\"source\": \"Z\", \
         \"target\": \"Y\"}, {\"source\": \"X\", \"target\": \"Y\"}]}",
        "{\"directed\": true, \"nodes\": [{\"id\": \"Z\"}, {\"id\": \"X\"}, {\"id\": \"Y\"}], \"links\": \
         [{\"source\": 0, \"target\": 1}, {\"source\": 0, \"target\": 2}, {\"source\": 1, \"target\": 2}]}",
        "[Z][X|Z][Y|X:Z]",
        "[Z]\n[X|Z]\n[Y|X:Z]\n",
        ",Z,X,Y\nZ,0,1,1\nX,0,0,1\nY,0,0,0\n",
        "Z,X,Y\n0,1,1\n0,0,1\n0,0,0\n",
        "Z\tX\tY\n0\t1\t1\n0\t0\t1\n0\t0\t0\n",
        "\"\";\"Z\";\"X\";\"Y\"\n\"Z\";0;1;1\n\"X\";0;0;1\n\"Y\";0;0;0\n",
        ",Z,X,Y\n0,False,True,True\n1,False,False,True\n2,False,False,False\n",
        "to,Z,X,Y\nZ,0,0,0\nX,0.5,0,0\nY,1.25,-2,\n",
        "from,Z,X,Y\nZ,0,1.5,1\nX,0,0,-1e-3\nY,0,0,0\n",
        "  Z X Y\nZ 0 1 1\nX 0 0 1\nY 0 0 0\n",
        ",Z,X,Y\nZ,0,-1,-1\nX,1,0,-1\nY,1,1,0\n",
        "network n {\n}\nvariable Z { type discrete[2] { a, b }; }\nvariable X \
         { type discrete[2] { a, b }; }\nvariable Y { type continuous; }\nprobability (X|Z) \
         { (a) 0.1, 0.9; }\nprobability ( Z ) { table 0.5, 0.5; }\nprobability ( Y | Z, X ) { }\n",
        "Z ~~ Z\nX ~ a*Z   # first stage\nY ~ c*X + start(0.5)*Z + 1\nindirect := a*c\na > 0\n",
        "Z ~~ Z; X ~ Z; Y ~ X + 0*W0 + Z\n".replace(" + 0*W0", "").as_str(),
        "Graph Nodes:\nZ,X,Y\n\nGraph Edges:\n1. Z --> X\n2. Z --> Y\n3. Y <-- X\n",
        "Z --> X → Y; Z ⟶ Y",
        "Z; X<--Z; Y ← X; Y<---Z",
    ] {
        let graph = Graph::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(graph_content(&graph), graph_content(&expected), "{text}");
    }
    // Names that are keywords of a format.
    for text in
        ["network -> {a b}", "creator -> graph", "variable -> network; {version} -> graph", "graph -> node"]
    {
        assert!(Graph::parse(text).is_ok(), "{text}");
    }
    let lavaan = Graph::parse("F =~ a + b\nc ~ F\na ~~ 0*c\nb ~~ c").unwrap();
    assert_eq!(
        graph_content(&lavaan),
        graph_content(&Graph::parse("dag { F [latent]; F -> a F -> b F -> c b <-> c }").unwrap())
    );
    let product = Graph::parse("y ~ x:z").unwrap();
    assert_eq!(graph_content(&product), graph_content(&Graph::parse("x -> y; z -> y").unwrap()));
    let entity =
        Graph::parse("graph [ directed 1 node [ id 0 label \"say &quot;hi&#33;&quot;\" ] ]").unwrap();
    assert_eq!(entity.variables(), ["say \"hi!\""]);
    let ambiguous = Graph::parse(",X,Y\nX,0,1\nY,0,0\n").unwrap();
    assert!(ambiguous.note().unwrap().contains("rows are taken for causes of columns"));
    for text in ["from,X,Y\nX,0,1\nY,0,0\n", "to,X,Y\nX,0,1\nY,0,0\n", ",X,Y\nX,0,-1\nY,1,0\n", "X -> Y"] {
        assert_eq!(Graph::parse(text).unwrap().note(), None, "{text}");
    }
}

#[test]
fn errors_name_format_line_and_remedy() {
    for (text, expected) in [
        (
            "graph [\n node [ id 0 label \"X\" ] ]",
            "GML graph, line 1: the edges have no direction: write 'directed 1'",
        ),
        (
            "graph [ directed 1\n node [ id 0 ]\n edge [ source 0 target 7 ] ]",
            "GML graph, line 3: an edge's target is 7, which no node has as its id",
        ),
        ("graph [ directed 1\n edge [ target 7 ] ]", "GML graph, line 2: an edge has no source"),
        (
            "graph [ directed 1\n node [ id 0 label \"X\" ] node [ id 1 label \"X\" ] ]",
            "GML graph, line 2: two nodes are called 'X'",
        ),
        ("graph [ directed 1\n node [ id 0", "GML graph, line 2: a square bracket is not closed: add ]"),
        ("graph [ directed 1\n node 3 ]", "GML graph, line 2: 'node' needs a list in square brackets"),
        ("{\"directed\": true,\n \"nodes\": [}", "JSON graph, line 2: this is not valid JSON"),
        ("{\"nodes\": [], \"links\": []}", "JSON graph, line 1: the edges have no direction"),
        ("{\"directed\": true}", "JSON graph, line 1: there are no lists 'nodes' and 'links'"),
        ("[[\"X\", \"Y\"]]", "JSON graph, line 1: there are no lists"),
        (
            "{\"directed\": true, \"nodes\": [{\"id\": \"X\"}], \"links\": [{\"source\": \"X\", \"target\": \
             \"W\"}]}",
            "edge 1 has the target 'W', which is no node's id",
        ),
        ("[X][Y|X", "bnlearn model string, line 1: a square bracket is not closed: add ]"),
        (
            "[X]\n[Y|W]",
            "bnlearn model string, line 2: 'W', a parent of 'Y', has no bracket of its own: add [W]",
        ),
        ("[X][X]", "bnlearn model string, line 1: 'X' has two brackets"),
        ("[X][Y|]", "bnlearn model string, line 1: a name is empty in [Y|]"),
        ("[X] Y", "bnlearn model string, line 1: each node needs square brackets"),
        (
            "network n {\n}\nvariable X { }\nprobability ( X | W ) { }",
            "BIF network, line 4: 'W' is not declared",
        ),
        ("network n {\n}\nvariable X {", "BIF network, line 3: the block's brace is not closed: add }"),
        (
            "variable X { }\nprobability X { }",
            "BIF network, line 2: a probability names its variables in brackets",
        ),
        (
            "Graph Nodes:\nX;Y\nGraph Edges:\n1. X o-> Y",
            "Tetrad graph, line 4: the direction of 'X o-> Y' is not determined",
        ),
        ("Graph Nodes:\nX;Y\nGraph Edges:\n1. X --> W", "Tetrad graph, line 4: 'W' is not among the nodes"),
        (
            "Graph Nodes:\nX;Y\nGraph Edges:\n1. X Y",
            "Tetrad graph, line 4: an edge is two nodes and an arrow",
        ),
        (
            "Y ~ X\nY ~ X Z",
            "lavaan model, line 2: 'X Z' is not the name of a variable: put '+' between variables",
        ),
        ("Y ~ ", "lavaan model, line 1: a name is missing next to '~' or '+'"),
        (
            ",X,Y\nX,0,0.3\nY,0,0",
            "adjacency matrix, line 1: for coefficients it is not clear whether rows are causes or effects: \
             write 'from'",
        ),
        (",X,Y\nX,0,1\nY,1,0", "adjacency matrix, line 2: 'X' and 'Y' have an arrow to each other"),
        (",X,Y\nX,0,-1\nY,-1,0", "adjacency matrix, line 2: the edge between 'X' and 'Y' has no direction"),
        (",X,Y\nX,0,1\nW,0,0", "adjacency matrix, line 3: row 2 is called 'W', but column 2 'Y'"),
        (",X,Y\nX,0,1", "adjacency matrix, line 1: there are 1 rows for 3 names"),
        ("0,1\n0,0", "adjacency matrix, line 1: the first line has no names"),
        ("X,X\n0,1\n0,0", "adjacency matrix, line 1: the name of column 2 is empty or occurs twice"),
        ("X,Y\n0,1\n0,b", "adjacency matrix, line 3: 'b' in column 'Y' is not a number"),
        ("X,Y\n1,1\n0,0", "'X' has an arrow to itself"),
        ("<?xml version=\"1.0\"?>\n<graphml>", "graph, line 1: XML is not read: save the graph as GML"),
        ("a -- b", "graph, line 1: an edge needs a direction"),
        ("[A|B][B|A]", "the graph has a cycle, "),
    ] {
        let error = Graph::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}
