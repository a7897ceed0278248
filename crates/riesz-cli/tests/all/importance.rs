//! `riesz importance`: variances and losses taken apart, in every form.

use serde_json::Value;

use crate::common::{Place, cells, number};

fn towns() -> Place {
    let place = Place::new();
    let row = |i: usize| {
        let (a, b, c) = (i * i % 17, i * 5 % 11, ["u", "v", "w"][i * 3 % 7 % 3]);
        format!("{a},{b},{c},{},{}\n", 3 * a + b, ["no", "yes"][usize::from(a > 6)])
    };
    place.write("train.csv", format!("a,b,c,y,class\n{}", (0..40).map(row).collect::<String>()));
    place.good("fit train.csv --target y --ignore class --model gp --noise 0.1 --posterior -o m.riesz");
    place.good("fit train.csv --target class --ignore y --model klr -o c.riesz");
    place
}

#[test]
fn variances_in_every_form() {
    let place = towns();
    let (words, _) = place.good("importance m.riesz train.csv");
    assert!(words.contains("variance of y") && words.contains("Shapley effect"), "{words}");
    place.good("importance m.riesz train.csv -o w.csv");
    let table = cells(&place.read("w.csv"));
    assert_eq!(table[0][..5], ["output", "feature", "first_order", "shapley_effect", "total_order"]);
    assert_eq!(table[1][1], "a");
    let sum: f64 = table[1..].iter().map(|line| number(&line[3])).sum();
    let bound = number(&table[1][7]) / number(&table[1][6]);
    assert!((sum - 1.0).abs() < 4.0 * bound && bound < 1e-6, "{sum} {bound}");
    assert!(table[1..].iter().all(|l| number(&l[2]) <= number(&l[3]) && number(&l[3]) <= number(&l[4])));
    place.good("importance m.riesz train.csv --index moebius -o w.json");
    let json: Value = serde_json::from_str(&place.read("w.json")).unwrap();
    assert_eq!(json["format"], "riesz-sobol");
    assert_eq!(json["explanation"]["values"].as_array().unwrap().len(), 6);
    place.good("importance m.riesz train.csv --groups both=a,b -o w.svg");
    assert!(place.read("w.svg").contains("both"));
    place.good("importance m.riesz train.csv -o w.parquet");
    // What is not known varies, too.
    place.good("importance m.riesz train.csv --posterior -o p.csv");
    let expected = cells(&place.read("p.csv"));
    assert!(number(&expected[1][6]) > number(&table[1][6]), "{expected:?}");
}

#[test]
fn losses_in_every_form() {
    let place = towns();
    let (words, _) = place.good("importance m.riesz train.csv --target y");
    assert!(
        words.contains("mean squared error of 40 rows") && words.contains("exact for these rows"),
        "{words}"
    );
    place.good("importance m.riesz train.csv --target y --background train.csv --background-rows 9 -o w.csv");
    let table = cells(&place.read("w.csv"));
    assert_eq!(table[0], ["feature", "value", "std_error"]);
    assert_eq!(table[1][0], "a");
    place.good("importance c.riesz train.csv --target class -o w.json");
    let json: Value = serde_json::from_str(&place.read("w.json")).unwrap();
    assert_eq!(json["measure"], "log loss");
    let sum: f64 = json["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).sum();
    let gap = json["base_loss"].as_f64().unwrap() - json["loss"].as_f64().unwrap();
    assert!((sum - gap).abs() < 1e-12);
    place.good("importance c.riesz train.csv --target class -o w.png");
}

#[test]
fn what_cannot_be_said_is_refused() {
    let place = towns();
    place.bad("importance m.riesz train.csv -o w.doc", "not as .doc");
    place.bad("importance c.riesz train.csv --posterior", "holds no posterior");
    place.bad("importance m.riesz train.csv --target z", "'z'");
    place.bad("importance c.riesz train.csv --target c", "the model's classes are: no, yes");
    place.bad("importance m.riesz train.csv --target y,a", "one an output");
    place.bad("importance m.riesz train.csv --target y --permutations 0", "permutations");
}
