//! Causal graphs: their text, and d-separation against its definition by all paths of random graphs.

use std::collections::BTreeSet;

use riesz::Error;
use riesz::causal::{Graph, IdentificationError};

use crate::common::Stream;

/// A graph for the definitions: its arrows include those of hidden common causes, which are the nodes from
/// `variables` on.
#[derive(Debug, Clone)]
pub struct Net {
    pub variables: usize,
    pub nodes: usize,
    pub arrows: BTreeSet<(usize, usize)>,
}

pub type Set = BTreeSet<usize>;

impl Net {
    /// Returns a random graph of `variables` variables, whose indices are independent of the causal order.
    pub fn random(s: &mut Stream, variables: usize, density: f64, hidden: usize) -> Self {
        let mut order: Vec<usize> = (0..variables).collect();
        for i in (1..variables).rev() {
            order.swap(i, (s.uniform() * (i + 1) as f64) as usize);
        }
        let mut arrows = BTreeSet::new();
        for i in 0..variables {
            for j in i + 1..variables {
                if s.uniform() < density {
                    arrows.insert((order[i], order[j]));
                }
            }
        }
        let mut net = Self { variables, nodes: variables, arrows };
        let mut pairs = BTreeSet::new();
        while pairs.len() < hidden {
            let (a, b) = (below(s, variables), below(s, variables));
            if a != b && pairs.insert((a.min(b), a.max(b))) {
                net.arrows.extend([(net.nodes, a), (net.nodes, b)]);
                net.nodes += 1;
            }
        }
        net
    }

    pub fn graph(&self) -> Graph {
        let mut text = (0..self.variables).map(name).collect::<Vec<_>>().join("\n");
        for &(a, b) in &self.arrows {
            if a < self.variables {
                text += &if (a + b) % 2 == 0 {
                    format!("\n{} -> {}", name(a), name(b))
                } else {
                    format!(";{}<-{}", name(b), name(a))
                };
            }
        }
        for h in self.variables..self.nodes {
            let ends: Vec<String> = self.arrows.iter().filter(|e| e.0 == h).map(|e| name(e.1)).collect();
            text += &format!("; {} <-> {} # hidden", ends[0], ends[1]);
            text += "\n";
        }
        Graph::parse(&text).unwrap()
    }

    pub fn descendants(&self, nodes: &Set) -> Set {
        let mut reached = nodes.clone();
        loop {
            let children: Set = self.arrows.iter().filter(|e| reached.contains(&e.0)).map(|e| e.1).collect();
            if children.is_subset(&reached) {
                return reached;
            }
            reached.extend(children);
        }
    }

    pub fn without_arrows(&self, into: &Set, out_of: &Set) -> Self {
        let arrows = self.arrows.iter().filter(|(a, b)| !into.contains(b) && !out_of.contains(a)).copied();
        Self { arrows: arrows.collect(), ..*self }
    }

    /// Returns all paths between two nodes, whatever the directions of their arrows.
    pub fn paths(&self, a: usize, b: usize) -> Vec<Vec<usize>> {
        let (mut complete, mut partial) = (Vec::new(), vec![vec![a]]);
        while let Some(path) = partial.pop() {
            let end = *path.last().unwrap();
            if end == b {
                complete.push(path);
                continue;
            }
            for next in (0..self.nodes).filter(|v| !path.contains(v)) {
                if self.arrows.contains(&(end, next)) || self.arrows.contains(&(next, end)) {
                    partial.push(path.iter().copied().chain([next]).collect());
                }
            }
        }
        complete
    }

    /// Whether a path is open: each collider on it, or an effect of it, is conditioned on, and no other node
    /// of the path is.
    pub fn is_open(&self, path: &[usize], conditioning: &Set) -> bool {
        path.windows(3).all(|w| {
            let collider = self.arrows.contains(&(w[0], w[1])) && self.arrows.contains(&(w[2], w[1]));
            if collider {
                !self.descendants(&[w[1]].into()).is_disjoint(conditioning)
            } else {
                !conditioning.contains(&w[1])
            }
        })
    }

    pub fn separated(&self, a: &Set, b: &Set, conditioning: &Set) -> bool {
        let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (*x, *y)));
        let is_unconditioned = |v: &usize| !conditioning.contains(v);
        pairs
            .filter(|(x, y)| is_unconditioned(x) && is_unconditioned(y))
            .all(|(x, y)| self.paths(x, y).iter().all(|p| !self.is_open(p, conditioning)))
    }
}

/// Returns a random number below `n`.
pub fn below(s: &mut Stream, n: usize) -> usize {
    (s.uniform() * n as f64) as usize
}

pub fn name(v: usize) -> String {
    format!("v{v}")
}

pub fn names(set: &Set) -> Vec<String> {
    set.iter().map(|&v| name(v)).collect()
}

pub fn number(name: &str) -> usize {
    name.trim_start_matches('v').parse().unwrap()
}

/// Returns all subsets of a set of nodes.
pub fn subsets(set: &Set) -> Vec<Set> {
    let elements: Vec<usize> = set.iter().copied().collect();
    (0..1_usize << elements.len())
        .map(|mask| {
            elements.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, &v)| v).collect()
        })
        .collect()
}

/// Returns the sets that contain no other of the sets.
pub fn minimal(sets: &[Set]) -> BTreeSet<Set> {
    sets.iter().filter(|s| !sets.iter().any(|t| t != *s && t.is_subset(s))).cloned().collect()
}

pub fn draw(s: &mut Stream, from: &Set, share: f64) -> Set {
    from.iter().copied().filter(|_| s.uniform() < share).collect()
}

/// Returns the nodes of a path in words; a hidden node is the common cause of its two neighbours.
fn path_nodes(net: &Net, words: &str) -> Vec<usize> {
    let parts: Vec<&str> = words.split(' ').collect();
    let mut path = vec![number(parts[0])];
    for pair in parts[1..].chunks(2) {
        let (from, to) = (*path.last().unwrap(), number(pair[1]));
        match pair[0] {
            "->" => assert!(net.arrows.contains(&(from, to)), "{words}"),
            "<-" => assert!(net.arrows.contains(&(to, from)), "{words}"),
            _ => path.push(
                (net.variables..net.nodes)
                    .find(|&h| net.arrows.contains(&(h, from)) && net.arrows.contains(&(h, to)))
                    .unwrap(),
            ),
        }
        path.push(to);
    }
    path
}

#[test]
fn d_separation_matches_enumeration_of_paths() {
    let mut s = Stream(1);
    let (mut separated_count, mut open_count) = (0, 0);
    for round in 0..400 {
        let net = Net::random(&mut s, 4 + round % 4, 0.4, round % 3);
        let nodes: Set = (0..net.variables).collect();
        for _ in 0..6 {
            let (into, out) = if round % 2 == 0 {
                (Set::new(), Set::new())
            } else {
                (draw(&mut s, &nodes, 0.2), draw(&mut s, &nodes, 0.2))
            };
            let graph = net
                .graph()
                .without_edges_into(&names(&into))
                .unwrap()
                .without_edges_out_of(&names(&out))
                .unwrap();
            let intervened = net.without_arrows(&into, &out);
            let conditioning = draw(&mut s, &nodes, 0.3);
            let a: Set = draw(&mut s, &(&nodes - &conditioning), 0.3);
            let b: Set = draw(&mut s, &(&(&nodes - &conditioning) - &a), 0.4);
            let expected = intervened.separated(&a, &b, &conditioning);
            assert_eq!(
                graph.d_separated(&names(&a), &names(&b), &names(&conditioning)).unwrap(),
                expected,
                "{graph}: {a:?} {b:?} | {conditioning:?}"
            );
            let path = graph.open_path(&names(&a), &names(&b), &names(&conditioning)).unwrap();
            assert_eq!(path.is_none(), expected);
            if let Some(words) = path {
                let path = path_nodes(&intervened, &words);
                assert!(a.contains(&path[0]) && b.contains(path.last().unwrap()), "{words}");
                assert!(
                    intervened.is_open(&path, &conditioning)
                        && path.iter().collect::<BTreeSet<_>>().len() == path.len(),
                    "{words}"
                );
                open_count += 1;
            } else {
                separated_count += 1;
            }
        }
        let subset = draw(&mut s, &nodes, 0.3);
        let graph = net.graph();
        let expected = names(&(&net.descendants(&subset) - &subset));
        let mut actual: Vec<&str> = graph.descendants(&names(&subset)).unwrap();
        actual.sort_by_key(|v| number(v));
        assert_eq!(actual, expected);
        let causes: Set =
            nodes.iter().copied().filter(|&v| !net.descendants(&[v].into()).is_disjoint(&subset)).collect();
        assert_eq!(graph.ancestors(&names(&subset)).unwrap(), names(&(&causes - &subset)));
        let reread: Graph = serde_json::from_str(&serde_json::to_string(&graph).unwrap()).unwrap();
        assert_eq!(reread, graph);
    }
    assert!(separated_count > 300 && open_count > 300, "{separated_count} {open_count}");
}

#[test]
fn conditioning_variables_are_ignored_on_both_sides() {
    let graph = Graph::parse("a -> b -> c").unwrap();
    assert!(graph.d_separated(&["a", "b"], &["c"], &["b"]).unwrap());
    assert!(!graph.d_separated(&["a"], &["a"], &[]).unwrap());
}

#[test]
fn all_text_forms_give_the_same_graph() {
    let plain = Graph::parse(
        "age -> statin, psa   # people grow old\nbmi -> statin; \"psa\" <- bmi\nstatin -> psa -> \"tumour \
         volume\"; psa <-> age",
    )
    .unwrap();
    let dot = Graph::parse(
        "/* made by hand\n */ strict digraph G {\n rankdir=LR; node [shape=box, label=\"x;y\"]\n age -> \
         {statin psa}; bmi -> statin [color=red]; psa -> bmi [dir=back]\n statin -> psa\n -> \"tumour \
         volume\" // end\n psa -> age [dir=both]\n}\n",
    )
    .unwrap();
    let dagitty = Graph::parse(
        "dag {\nbb=\"0,0,1,1\"\nage [pos=\"0.1,-0.2\"]\nstatin [exposure,pos=\"1,1\"]\nage -> { statin psa } \
         bmi -> statin bmi -> psa\nstatin -> psa psa -> \"tumour volume\" psa <-> age }",
    )
    .unwrap();
    assert_eq!(plain, dot);
    assert_eq!(plain, dagitty);
    assert_eq!(plain.variables(), ["age", "statin", "psa", "bmi", "tumour volume"]);
    assert_eq!(plain.parents(&["psa"]).unwrap(), ["age", "statin", "bmi"]);
    assert_eq!(
        plain.open_path(&["age"], &["tumour volume"], &["statin"]).unwrap().unwrap(),
        "age -> psa -> tumour volume"
    );
    assert_eq!(plain.open_path(&["bmi"], &["age"], &["psa"]).unwrap().unwrap(), "bmi -> statin <- age");
    let hidden = plain.without_edges_out_of(&["age", "bmi"]).unwrap();
    assert_eq!(
        hidden.open_path(&["tumour volume"], &["age"], &[]).unwrap().unwrap(),
        "tumour volume <- psa <-> age"
    );
    let latent = Graph::parse("dag { u [latent]; w [observed=\"no\"]; u -> a; u -> b; w -> b }").unwrap();
    assert_eq!(latent.latent(), ["u", "w"]);
    assert_eq!(latent.to_string().parse::<Graph>().unwrap(), latent);
    let duplicated = Graph::parse("a <-> b; a -> b; b <-> a; b <- a").unwrap();
    assert_eq!(duplicated, Graph::parse("a -> b; a <-> b").unwrap());
    assert_eq!(Graph::parse("digraph -> x").unwrap().variables(), ["digraph", "x"]);
    for unusual_name in [
        "a-b",
        "a b",
        "say \"hi\"",
        "1.5",
        "α",
        "a;b#c",
        "dag",
        "back\\slash",
        "x->y",
        "a/b",
        "a→b",
        "a~b",
        "[a]",
        "{",
        "network",
        "Graph Nodes:",
    ] {
        for graph in [
            Graph::new(&[] as &[&str], &[(unusual_name, "z")], &[]).unwrap(),
            Graph::new(&[unusual_name, "x {"], &[] as &[(&str, &str)], &[]).unwrap(),
        ] {
            assert_eq!(Graph::parse(&graph.to_string()).unwrap(), graph, "{unusual_name}");
        }
    }
}

#[test]
fn tables_of_edges_ports_and_default_directions_are_read() {
    let expected = Graph::parse("Z -> X; Z -> Y; X -> Y").unwrap();
    let edges = |graph: &Graph| {
        let mut edges: Vec<String> = graph.arrows().iter().map(|(a, b)| format!("{a} -> {b}")).collect();
        edges.sort_unstable();
        edges
    };
    for text in [
        "from,to\nZ,X\nZ,Y\nX,Y\n",
        "\nfrom,to\nZ,X\nZ,Y\nX,Y\n",
        "Source;Target\r\nZ;X\r\nZ;Y\r\nX;Y\r\n",
        "digraph { Z:n -> X:s; Z:e:w -> \"Y\":s [label=\"a:b\"]; X -> Y }",
        "digraph { edge [dir=back]; X -> Z; Y -> Z; Y -> X }",
        "graph TD\n Z --> X\n Z --> Y\n X --> Y\n",
        r#"{"directed": true, "nodes": [{"id": 0, "label": "Z"}, {"id": 1, "label": "X"}, {"id": 2, "name": "Y"}],
            "links": [{"source": 0, "target": 1}, {"source": 0, "target": 2}, {"source": 1, "target": 2}]}"#,
    ] {
        assert_eq!(edges(&Graph::parse(text).unwrap()), edges(&expected), "{text}");
    }
    for (text, sentence) in [
        ("Z,X\nZ,Y\nX,Y\n", "write 'from,to' above them"),
        ("Z -> X, Z -> Y, X -> Y", "a comma between two arrows"),
        ("Z -> X, W -> Y", "a comma between two arrows"),
        ("from,to\nZ,X\nZ\n", "two names are needed"),
    ] {
        assert!(Graph::parse(text).unwrap_err().to_string().contains(sentence), "{text}");
    }
    // A list is not an edge; in braces it is one end of several edges.
    assert!(Graph::parse("a -> b, c").is_ok() && Graph::parse("a -> {b, c} -> d").is_ok());
}

#[test]
fn invalid_graphs_are_refused_with_their_line() {
    let error = |text: &str| Graph::parse(text).unwrap_err().to_string();
    for (text, expected) in [
        ("a -> b\nb ->\nc", "graph, line 2: the line ends where a name should be"),
        ("a -> b\n-> c", "line 2: an arrow is where a name should be"),
        ("a -> -> b", "line 1: an arrow is where a name should be"),
        ("tumour volume -> b", "line 1: 'volume' follows without an arrow: put names with spaces in quotes"),
        ("a -- b", "line 1: an edge needs a direction"),
        ("\n\na > b", "line 3: an edge needs a direction"),
        ("graph { a; b }", "a 'graph' has edges without a direction"),
        ("digraph { a -> b [dir=none] }", "line 1: an edge needs a direction"),
        ("digraph {\n a -> b", "line 2: the graph's brace is not closed: add }"),
        ("digraph { a -> b } c", "something follows the graph's end"),
        ("digraph { a -> b [color=red", "a square bracket is not closed: add ]"),
        ("a -> \"b", "line 1: a quote has no end"),
        ("a -> \"\"", "a name is empty"),
        ("a\n/* b", "line 2: the comment that begins with /* has no end"),
        ("a -> b ]", "']' is out of place"),
        ("a -> {}", "the braces contain no name"),
        ("a = b", "'=' is out of place"),
        ("# nothing\n", "the graph is empty: at least 1 variable is needed"),
        ("a -> b; b -> c -> a", "the graph has a cycle, "),
        ("x -> a; a -> b -> c -> a; a -> y", "the graph has a cycle, "),
        ("a -> b; b <- b", "'b' has an arrow to itself: remove it"),
        ("a <-> a", "'a' has an arrow to itself"),
    ] {
        assert!(error(text).contains(expected), "{text}: {}", error(text));
    }
    let Err(Error::Causal(refusal)) = Graph::parse("x -> a; a -> b -> c -> a; c -> y -> z") else { panic!() };
    let IdentificationError::CyclicGraph { cycle } = *refusal else { panic!() };
    let rotated: Vec<&str> = cycle.iter().map(String::as_str).collect();
    assert!(
        [["a", "b", "c", "a"], ["b", "c", "a", "b"], ["c", "a", "b", "c"]]
            .contains(&rotated.try_into().unwrap())
    );
    let graph = Graph::parse("statin -> psa; psa -> volume").unwrap();
    let refused = graph.parents(&["Statn"]).unwrap_err();
    let Error::Causal(reason) = &refused else { panic!() };
    assert!(
        matches!(&**reason, IdentificationError::UnknownVariable { name, near, .. } if name == "Statn" && *near == ["statin"])
    );
    assert_eq!(refused.to_string(), "the graph has no variable 'Statn'; did you mean statin?");
    assert_eq!(
        graph.parents(&["dose"]).unwrap_err().to_string(),
        "the graph has no variable 'dose'; there are: statin, psa, volume"
    );
}

/// Random concatenations of graph texts are read or refused without a panic. A graph that was read is read
/// again from its own text.
#[test]
fn any_text_is_read_or_refused() {
    let fragments = [
        "a", "b", "\"c d\"", " -> ", "<-", "<->", ";", "\n", "{", "}", "[", "]", "=", ",", "#x", "dag {",
        "digraph", "--", "latent", "\"", "/*", "é", "dir=both", "->",
    ];
    let mut s = Stream(5);
    let mut read_count = 0;
    for _ in 0..20_000 {
        let text: String =
            (0..1 + below(&mut s, 9)).map(|_| fragments[below(&mut s, fragments.len())]).collect();
        if let Ok(graph) = Graph::parse(&text) {
            assert_eq!(Graph::parse(&graph.to_string()).unwrap(), graph, "{text}");
            read_count += 1;
        }
    }
    assert!(read_count > 1000, "{read_count}");
}
