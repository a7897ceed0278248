//! Values other than Shapley's, on the command line and in tables, reports and plots.

use riesz::format::explanation_json::read;
use riesz::{Explanation, ValueIndex};

use crate::common::Place;

fn towns() -> Place {
    let place = Place::new();
    let row = |i: usize| format!("{},{},{},{}\n", i * i % 17, i * 5 % 11, i * 3 % 7, (i * i + 3 * i) % 13);
    place.write("train.csv", format!("a,b,c,y\n{}", (0..30).map(row).collect::<String>()));
    place.good("fit train.csv --target y --model krr --ridge 0.1 -o m.riesz");
    place
}

fn explained(place: &Place, file: &str) -> Explanation {
    read(place.read(file).as_bytes()).unwrap().explanation
}

#[test]
fn indices_reach_files_plots_and_reports() {
    let place = towns();
    for (flag, name, adds_up) in [
        ("banzhaf", "Banzhaf values", false),
        ("beta-shapley(4,1)", "Beta(4, 1)-Shapley values", false),
        ("semivalue(0.2:0.5,0.8:0.5)", "semivalues(0.2: 0.5, 0.8: 0.5)", false),
        ("k-SII", "Shapley interaction values", true),
        ("fsii", "faithful Shapley values", true),
    ] {
        let (_, err) =
            place.good(&format!("explain m.riesz train.csv --background train.csv --index {flag} -o w.json"));
        let words = if adds_up { "values add up to the predictions" } else { "each value is within" };
        assert!(err.contains(words), "{flag}: {err}");
        let explanation = explained(&place, "w.json");
        assert_eq!(explanation.index, flag.parse::<ValueIndex>().unwrap());
        assert_eq!(explanation.certificate().is_some_and(|c| c.holds), adds_up);
        assert_eq!(explanation.sets(), if explanation.index.order() == 2 { 6 } else { 3 });
        assert!(place.good("inspect w.json").0.contains(name), "{flag}");
        place.good("report w.json -o w.html");
        place.good("plot waterfall w.json -o w.svg");
        assert!(place.read("w.html").to_lowercase().contains(&name.to_lowercase()), "{flag}");
        assert_eq!(place.read("w.svg").contains("not shared out"), !adds_up, "{flag}");
    }
    // The columns of a table have the names of sets.
    place.good("explain m.riesz train.csv --index stii -o w.csv");
    assert!(
        place
            .read("w.csv")
            .starts_with("row,output,base_value,prediction,residual,a,b,c,a × b,a × c,b × c\n")
    );
    // A Parquet file keeps the index with its values.
    place.good("explain m.riesz train.csv --index banzhaf -o w.parquet");
    assert!(place.good("inspect w.parquet").0.contains("Banzhaf values"));
}

#[test]
fn what_there_is_not_is_refused() {
    let place = towns();
    for (flags, words) in [
        ("--index banzhof", "it is shapley, owen, banzhaf"),
        ("--index banzhaf(1.5)", "from 0 to 1"),
        ("--index semivalue(0.2:0.5)", "weights must sum to 1, but sum to 0.5: divide each by the sum"),
        ("--index semivalue(0.2)", "semivalue(T: WEIGHT, …)"),
        ("--index banzhaf --game observational", "--index belongs to models whose kernel is known"),
    ] {
        place.bad(&format!("explain m.riesz train.csv {flags} -o w.json"), words);
    }
}

/// The structure of the causal game as lists or as a graph, and asymmetric values.
#[test]
fn causal_values_and_asymmetric_values() {
    let place = towns();
    let explain = "explain m.riesz train.csv --game causal --background train.csv";
    place.good(&format!("{explain} --components a;b,c --confounded b --parents b=a -o lists.json"));
    place.good(&format!("{explain} --graph a->b;a->c;b<->c;c->y -o graph.json"));
    let explanation = explained(&place, "lists.json");
    assert!(explanation.certificate().unwrap().holds);
    assert_eq!(explanation.values, explained(&place, "graph.json").values);
    place.good("verify graph.json --model m.riesz --rows train.csv --background train.csv");
    place.good(&format!("{explain} --components a;b,c --ordering a;b,c -o ordered.json"));
    let ordered = explained(&place, "ordered.json");
    assert!(ordered.certificate().unwrap().holds && ordered.values != explanation.values);
    for (flags, words) in [
        ("", "give components"),
        ("--components a;b", "without 'c'"),
        ("--components a;b,c;z", "no column 'z'"),
        ("--components a;b,a,c", "'a' is not allowed: a column belongs to one component"),
        ("--components a;b,c --parents a=b", "put causes first"),
        ("--components a;b,c --confounded z", "--confounded = 'z'"),
        ("--components a;b,c --ordering a;b", "without 'c'"),
        ("--graph a->b", "no variable 'c'"),
        ("--graph a->b;b<->a;b->c", "hidden common causes and cause each other"),
    ] {
        place.bad(&format!("{explain} {flags} -o w.json"), words);
    }
    place.bad("explain m.riesz train.csv --graph a->b,c -o w.json", "--graph belongs to the causal game");
}

/// Owen values from lists of names, and probabilities with the names of their classes.
#[test]
fn owen_values_and_values_of_probabilities() {
    let place = towns();
    place.good(r#"explain m.riesz train.csv --background train.csv --unions [["a","b"],"c"] -o w.json"#);
    let explanation = explained(&place, "w.json");
    assert!(explanation.index == ValueIndex::Owen && explanation.certificate().unwrap().holds);
    for (unions, words) in [
        ("[a,b]", "list of names"),
        (r#"[["a","z"]]"#, "'z'"),
        (r#"["a"] --index sii"#, "need the index owen"),
    ] {
        place.bad(&format!("explain m.riesz train.csv --unions {unions} -o w.json"), words);
    }

    let row =
        |i: usize| format!("{},{},{}\n", i % 7, i % 5, if (i % 7) + (i % 5) > 5 { "yes" } else { "no" });
    place.write("classes.csv", format!("a,b,y\n{}", (0..35).map(row).collect::<String>()));
    place.good("fit classes.csv --target y --model klr --ridge 0.1 -o c.riesz");
    place.good("explain c.riesz classes.csv --background classes.csv --probabilities -o p.json");
    let saved = read(place.read("p.json").as_bytes()).unwrap();
    let (explanation, decisions) = (saved.explanation, saved.decisions.unwrap());
    assert!(explanation.certificate().unwrap().holds && explanation.output_names == ["yes"]);
    let (class, probabilities) = decisions.probabilities[0].clone().unwrap();
    assert_eq!((class, decisions.meaning[0].as_str()), (1, "probability of yes"));
    for (i, p) in probabilities.iter().enumerate() {
        assert!((p - explanation.predictions[i]).abs() < 1e-12 && (0.0..=1.0).contains(p));
        assert_eq!(decisions.chosen.as_ref().unwrap()[i], usize::from(*p > 0.5));
    }
    place.good("report c.riesz classes.csv --background classes.csv --probabilities -o p.html");
    assert!(place.read("p.html").contains("probability of yes"));
}

/// The strongest pairs in the table are the largest of all pairs, in descending order.
#[test]
fn the_strongest_pairs_go_into_a_table() {
    let place = towns();
    place.good("explain m.riesz train.csv --index fsii -o all.json");
    let complete = explained(&place, "all.json");
    let (_, err) = place.good("explain m.riesz train.csv --index fsii --top-interactions 2 -o top.csv");
    assert!(err.contains("30 rows searched, up to 3 pairs evaluated per row; exact"), "{err}");
    let table = place.read("top.csv");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("row,output,rank,feature_1,feature_2,value,bound,left_out"));
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 60);
    for (position, line) in lines.iter().enumerate() {
        assert_eq!((line[0], line[2]), (&*(position / 2).to_string(), ["1", "2"][position % 2]));
        let [value, bound, left_out] = [5, 6, 7].map(|k| line[k].parse::<f64>().unwrap());
        let mut pairs: Vec<(f64, String)> =
            (3..6).map(|k| (complete.row_values(position / 2, 0)[k], complete.set_name(k))).collect();
        pairs.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        assert_eq!(format!("{} × {}", line[3], line[4]), pairs[position % 2].1);
        assert!((value - pairs[position % 2].0).abs() <= 2.0 * bound && bound < 1e-9);
        assert!((left_out - pairs[2].0.abs()).abs() <= 4.0 * bound);
    }
    let (json, _) = place.good("explain m.riesz train.csv --index k-sii --top-interactions 1 --format json");
    assert!(json.contains("\"feature_1\":\"") && json.matches("\"rank\":1").count() == 30);
    let (_, err) =
        place.good("explain m.riesz train.csv --index k-sii --top-interactions 1 --max-pairs 1 -o t.parquet");
    assert!(err.contains("raise --max-pairs"), "{err}");
    for (flags, words) in [
        ("--top-interactions 3", "the strongest pairs are those of sii"),
        ("--index k-sii(3) --top-interactions 3", "without larger sets"),
        ("--index k-sii --top-interactions 0", "0"),
        ("--index k-sii --max-pairs 3", "--top-interactions"),
    ] {
        place.bad(&format!("explain m.riesz train.csv {flags}"), words);
    }
    let program = "explain cmd:cat train.csv --background train.csv --top-interactions 3";
    place.bad(program, "needs a model with a kernel");
}

#[test]
fn the_order_of_interactions_is_an_option() {
    let place = towns();
    let explain = "explain m.riesz train.csv --background train.csv";
    for index in ["k-sii", "stii"] {
        let (by_option, _) = place.good(&format!("{explain} --index {index} --order 3"));
        assert_eq!(by_option, place.good(&format!("{explain} --index {index}(3)")).0);
        assert_ne!(by_option, place.good(&format!("{explain} --index {index}")).0);
    }
    place.bad(&format!("{explain} --index k-sii(3) --order 3"), "--order is a number in brackets");
    place.bad(&format!("{explain} --order 3"), "--index");
    place.bad(&format!("{explain} --index k-sii --order 9"), "2..=8");
}
