//! `riesz graph check`: what is asked and answered is the library's; how it is said, and refused, is tested here.

use serde_json::Value;

use crate::common::Place;

fn place() -> Place {
    let place = Place::new();
    place.write(
        "g.txt",
        "age -> statin, psa  # older people take more\nbmi -> statin; bmi -> psa\nstatin -> psa -> volume\nage -> volume\n",
    );
    place
}

const ASKED: &str = "graph check g.txt --treatment statin --outcome volume";

#[test]
fn answers_are_in_words_or_json() {
    let place = place();
    let (out, err) =
        place.good(&format!("{ASKED} --measured id,statin,age,bmi,psa --measured psa,age,volume,bmi"));
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
    assert!(err.contains("warning: not in the graph, and not used: id"), "{err}");
    place.write("s1.csv", "statin,age,bmi,psa\n1,2,3,4\n");
    place.write("s2.csv", "psa;age;volume\n1;2;3\n");
    place.write("s3.csv", "psa,age,volume\n1,2,3\n");
    let (out, _) = place.good(&format!("{ASKED} --studies s1.csv,s3.csv --format json"));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["how"]["adjust"], serde_json::json!(["age", "bmi"]));
    assert_eq!(answer["bridges"][0]["passive"], serde_json::json!(["age"]));
    assert!(answer["says"].as_str().unwrap().starts_with("back-door"));
    let (out, _) =
        place.good(&format!("{ASKED} --studies s1.csv,s3.csv --randomized --differs 2:age -o a.txt"));
    assert!(out.is_empty() && place.read("a.txt").starts_with("randomized, adjusting for age;"));
    let (out, _) = place.good(&format!("{ASKED} --studies s1.csv,s3.csv --adjust bmi"));
    assert!(out.starts_with("back-door, adjusting for age and bmi;"), "{out}");
    let (out, _) = place.good(&format!("{ASKED} --measured statin,age,bmi,psa,volume"));
    assert!(out.starts_with("back-door, adjusting for age and bmi\n"), "{out}");
}

#[test]
fn other_sets_are_named() {
    let place = Place::new();
    let text = "far -> statin; far -> near -> volume; statin -> volume";
    let words = "graph check - --treatment statin --outcome volume --measured far,near,statin,volume";
    let output = place.run_with(words, text);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("back-door, adjusting for near\nwould do too  {far}\n"), "{out}");
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
        place.bad(&format!("{ASKED} {words}"), expected);
    }
    place.bad(
        "graph check g.txt --treatment dose --outcome volume --measured dose",
        "the graph has no variable 'dose'",
    );
    place.write("circle.txt", "a -> b\nb -> a\n");
    place.bad(
        "graph check circle.txt --treatment a --outcome b --measured a",
        "circle.txt: the graph has a cycle",
    );
    place.write("broken.txt", "a -> b\nb ->\n");
    place.bad(
        "graph check broken.txt --treatment a --outcome b --measured a",
        "broken.txt: graph, line 2: the line ends",
    );
    place.write("bytes.txt", [0xff, 0xfe, 0x00]);
    place.bad("graph check bytes.txt --treatment a --outcome b --measured a", "this is not text");
    place.bad(&format!("{ASKED} --studies none.csv"), "there is no such file");
    place.bad(&format!("{ASKED} --measured statin --randomized --adjust age"), "cannot be used with");
}
