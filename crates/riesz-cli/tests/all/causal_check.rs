//! Tests of `riesz causal check`: its messages and refusals. The library computes the answers.

use serde_json::Value;

use crate::common::Place;

fn place() -> Place {
    let place = Place::new();
    place.write(
        "g.txt",
        "age -> statin, psa  # older people take more\nbmi -> statin; bmi -> psa\nstatin -> psa -> \
         volume\nage -> volume\n",
    );
    place
}

const COMMAND: &str = "causal check g.txt --treatment statin --outcome volume";

#[test]
fn answers_are_in_words_or_json() {
    let place = place();
    let (out, err) =
        place.good(&format!("{COMMAND} --measured id,statin,age,bmi,psa --measured psa,age,volume,bmi"));
    assert_eq!(
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>(),
        [
            "back-door, adjusting for age and bmi; volume depends on statin only through psa and age",
            "shared by 1 and 2, not needed bmi",
            "assumed the graph is right: it lacks no arrow and no hidden common cause",
            "assumed in study 1 every value of statin occurs at every value of age and bmi",
            "assumed the mean of volume given psa and age is the same in studies 1 and 2",
        ]
    );
    assert!(err.contains("warning: ignored, since they are not in the graph: id"), "{err}");
    place.write("s1.csv", "statin,age,bmi,psa\n1,2,3,4\n");
    place.write("s2.csv", "psa;age;volume\n1;2;3\n");
    place.write("s3.csv", "psa,age,volume\n1,2,3\n");
    let (out, _) = place.good(&format!("{COMMAND} --studies s1.csv,s3.csv --format json"));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["strategy"]["adjust"], serde_json::json!(["age", "bmi"]));
    assert_eq!(answer["bridges"][0]["passive"], serde_json::json!(["age"]));
    assert!(answer["description"].as_str().unwrap().starts_with("back-door"));
    let (out, _) =
        place.good(&format!("{COMMAND} --studies s1.csv,s3.csv --randomized --differs 2:age -o a.txt"));
    assert!(out.is_empty() && place.read("a.txt").starts_with("randomized, adjusting for age;"));
    let (out, _) = place.good(&format!("{COMMAND} --studies s1.csv,s3.csv --adjust bmi"));
    assert!(out.starts_with("back-door, adjusting for age and bmi;"), "{out}");
    let (out, _) = place.good(&format!("{COMMAND} --measured statin,age,bmi,psa,volume"));
    assert!(out.starts_with("back-door, adjusting for age and bmi\n"), "{out}");
}

#[test]
fn other_sets_are_named() {
    let place = Place::new();
    let text = "far -> statin; far -> near -> volume; statin -> volume";
    let words = "causal check - --treatment statin --outcome volume --measured far,near,statin,volume";
    let output = place.run_with(words, text);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("back-door, adjusting for near\nalternatives  {far}\n"), "{out}");
}

#[test]
fn refusals_are_one_sentence() {
    let place = place();
    for (words, expected) in [
        (
            "--measured statin,age,psa --measured psa,age,volume",
            "statin <- bmi -> psa stays open; measuring bmi in study 1 would help",
        ),
        ("--measured statin,age,bmi,psa --measured psa,volume", "beyond what studies 1 and 2 share (psa): "),
        ("--measured statin,age,bmi,psa --measured volume", "studies 1 and 2 share no column"),
        (
            "--measured statin,age,bmi,psa --measured psa,age,volume --differs 2:volume",
            "as they differ in volume: [study 2] -> volume stays open",
        ),
        (
            "--measured statin,age,bmi,psa --measured psa,age,volume --differs 3:age",
            "studies are numbered from 1 to 2",
        ),
        ("--measured statin,age,bmi,psa --measured psa,age,volume --differs age", "as in 2:age,bmi"),
        ("--measured statin,age,bmi,psa --measured psa,age,volume --adjust age", "age and bmi would do"),
        (
            "--measured statin,age,bmi,psa --measured psa,age,volume --front-door bmi",
            "a front door through bmi does not give",
        ),
        (
            "--measured statn,age --measured psa,volume",
            "study 1 has no column 'statin', a treatment: did you mean statn?",
        ),
        ("--measured statin,volume --format csv", "use --format text or json"),
    ] {
        place.bad(&format!("{COMMAND} {words}"), expected);
    }
    place.bad(
        "causal check g.txt --treatment dose --outcome volume --measured dose",
        "the graph has no variable 'dose'",
    );
    place.write("circle.txt", "a -> b\nb -> a\n");
    place.bad(
        "causal check circle.txt --treatment a --outcome b --measured a",
        "circle.txt: the graph has a cycle",
    );
    place.write("broken.txt", "a -> b\nb ->\n");
    place.bad(
        "causal check broken.txt --treatment a --outcome b --measured a",
        "broken.txt: graph, line 2: the line ends",
    );
    place.write("bytes.txt", [0xff, 0xfe, 0x00]);
    place.bad("causal check bytes.txt --treatment a --outcome b --measured a", "bytes.txt is not text");
    place.bad(&format!("{COMMAND} --studies none.csv"), "there is no such file");
    place.bad(&format!("{COMMAND} --measured statin --randomized --adjust age"), "cannot be used with");
}

/// Returns the output of `causal check` for the effect of X on Y, where the variables of `measured` are
/// columns.
fn check_effect(place: &Place, file: &str, measured: &str) -> String {
    let (out, _) =
        place.good(&format!("causal check {file} --treatment X --outcome Y --measured {measured}"));
    out
}

#[test]
fn other_formulas_than_adjustments_are_shown() {
    let place = Place::new();
    place.write("napkin.txt", "W1 -> W2 -> X -> Y; W1 <-> X; W1 <-> Y");
    place.write(
        "tian.txt",
        "X -> Z1 -> Y; Z2 -> X; Z2 -> Z1; Z2 -> Z3 -> Y; X <-> Y; X <-> Z2; X <-> Z3; Y <-> Z2",
    );
    let formula =
        "P(Y | do(X)) = [Σ_W1 P(W1) P(X, Y | W1, W2)] / [Σ_W1 P(W1) P(X | W1, W2)], for any value of W2";
    let out = check_effect(&place, "napkin.txt", "W1,W2,X,Y");
    let first = out.lines().next().unwrap();
    assert_eq!(first, format!("identified, but not by an adjustment that riesz estimates: {formula}"));
    let out = check_effect(&place, "tian.txt", "X,Y,Z1,Z2,Z3");
    assert!(
        out.starts_with("identified, but not by an adjustment that riesz estimates: P(Y | do(X)) = "),
        "{out}"
    );
    let (out, _) = place.good(
        "causal check napkin.txt --treatment X --outcome Y --measured W1,W2,X,Y --format json -o answer.json",
    );
    assert!(out.is_empty());
    let answer: Value = serde_json::from_str(&place.read("answer.json")).unwrap();
    assert_eq!(answer["identified"], true);
    assert_eq!(answer["strategy"]["kind"], "formula");
    assert_eq!(answer["strategy"]["formula"], formula);
    assert_eq!(answer["strategy"]["expression"]["any_value"], serde_json::json!(["W2"]));
    assert!(answer["strategy"]["expression"]["formula"]["quotient"]["numerator"]["sum"]["over"].is_array());
    place.write("s1.csv", "W1,W2,X,M\n1,2,3,4\n");
    place.write("s2.csv", "M,Y\n1,2\n");
    place.write("mediated.txt", "W1 -> W2 -> X -> M -> Y; W1 <-> X; W1 <-> M");
    place.bad(
        "causal effect s1.csv s2.csv --graph mediated.txt --treatment X --outcome Y",
        "the effect of X on Y is identified, but not by an adjustment that riesz estimates: P(M | do(X)) = ",
    );
}

#[test]
fn unidentified_effects_name_hedge_and_instrument() {
    let place = Place::new();
    place.write("iv.txt", "Z -> X; X -> Y; X <-> Y");
    let words = "causal check iv.txt --treatment X --outcome Y --measured Z,X,Y";
    place.bad(
        words,
        "the effect of X on Y is not identified in study 1, neither by back-door (adjusting for Z) nor by \
         front-door nor by any other formula, because the hidden common causes X <-> Y connect X with Y (a \
         hedge: {X, Y} and {Y}): X <-> Y stays open; measuring the hidden common cause X <-> Y in \
         study 1 would help; Z is an instrument for X, which gives the effect if that is linear (two-stage \
         least squares), but riesz does not estimate this",
    );
    let output = place.run_with(&format!("{words} --format json"), "");
    assert_eq!(output.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["identified"], false);
    assert_eq!(answer["hedge"]["larger"], serde_json::json!(["X", "Y"]));
    assert_eq!(answer["hedge"]["smaller"], serde_json::json!(["Y"]));
    assert_eq!(answer["instrument"], serde_json::json!({ "variable": "Z", "given": [] }));
    assert!(answer["description"].as_str().unwrap().contains("is not identified"));
}

#[test]
fn graphs_of_other_packages_are_read_from_files() {
    let place = Place::new();
    for (file, text) in [
        (
            "g.gml",
            "graph [\n  directed 1\n  node [ id 0 label \"Z\" ]\n  node [ id 1 label \"X\" ]\n  node [ id 2 \
             label \"Y\" ]\n  edge [ source 0 target 1 ]\n  edge [ source 0 target 2 ]\n  edge [ source 1 \
             target 2 ]\n]\n",
        ),
        ("bnlearn.txt", "[Z][X|Z][Y|X:Z]\n"),
        (
            "g.json",
            "{\"directed\": true, \"multigraph\": false, \"graph\": {}, \"nodes\": [{\"id\": \"X\"}, \
             {\"id\": \"Y\"}, {\"id\": \"Z\"}], \"links\": [{\"source\": \"Z\", \"target\": \"X\"}, \
             {\"source\": \"Z\", \"target\": \"Y\"}, {\"source\": \"X\", \"target\": \"Y\"}]}",
        ),
        ("g.csv", ",X,Y,Z\nX,0,1,0\nY,0,0,0\nZ,1,1,0\n"),
        ("arrows.txt", "X -> Y; Z → X; Z → Y"),
        ("model.lav", "X ~ Z\nY ~ X + Z\n"),
        ("tetrad.txt", "Graph Nodes:\nX;Y;Z\n\nGraph Edges:\n1. X --> Y\n2. Z --> X\n3. Z --> Y\n"),
    ] {
        place.write(file, text);
        let out = check_effect(&place, file, "X,Y,Z");
        assert!(out.starts_with("back-door, adjusting for Z\n"), "{file}: {out}");
    }
    let (_, err) = place.good("causal check g.csv --treatment X --outcome Y --measured X,Y,Z");
    assert!(
        err.contains("warning: the graph is an adjacency matrix: rows are taken for causes of columns"),
        "{err}"
    );
    place.write("open.txt", "Graph Nodes:\nX;Y\n\nGraph Edges:\n1. X o-> Y\n");
    place.bad(
        "causal check open.txt --treatment X --outcome Y --measured X,Y",
        "open.txt: Tetrad graph, line 5: the direction of 'X o-> Y' is not determined",
    );
}

#[test]
fn all_variables_that_are_not_latent_are_measured_by_default() {
    let place = Place::new();
    place.write("g.txt", "Z -> X; Z -> Y; X -> Y");
    let (out, _) = place.good("causal check g.txt --treatment X --outcome Y");
    assert!(out.starts_with("back-door, adjusting for Z"), "{out}");
    place.write("l.txt", "dag { Z [latent]; Z -> X; Z -> Y; X -> Y }");
    place.bad("causal check l.txt --treatment X --outcome Y", "is not identified");
}
