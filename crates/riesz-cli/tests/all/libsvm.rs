//! LIBSVM's models, data files and range files on the command line.

use crate::common::{Place, cells, number, texts};

const ROWS: &str = "x0,x1,x2\n1.288,1.449,-0.161\n0.066,-0.765,0.831\n-1.092,0.031,-1.124\n\
                    -1.022,-1.437,0.415\n0.199,0.133,0.066\n";
const VECTORS: &str =
    "nr_sv 2 2\nSV\n0.5 1:0.2 2:-1 \n1 1:1 3:0.4 \n-0.7 2:0.3 3:-0.2 \n-0.8 1:-1 2:1 3:1 \n";

/// Writes rows, as a table and as a LIBSVM data file, and a model with this kernel.
fn place(kernel: &str) -> Place {
    let place = Place::new();
    place.write("n.csv", ROWS);
    let names = ROWS.replace("x0,x1,x2", "bmi,age,other,bp");
    let line = |line: &str| line.splitn(3, ',').map(String::from).collect::<Vec<_>>();
    let named = names.lines().enumerate().map(|(i, text)| match (i, &line(text)[..]) {
        (0, _) => "bmi,age,other,bp\n".to_string(),
        (_, [first, second, third]) => format!("{second},{first},9,{third}\n"),
        _ => String::new(),
    });
    place.write("named.csv", named.collect::<String>());
    let sparse = ROWS.lines().skip(1).map(|text| {
        let cells = text.split(',').enumerate().map(|(j, cell)| format!(" {}:{cell}", j + 1));
        format!("+1{} # a row\n", cells.collect::<String>())
    });
    place.write("rows.svm", sparse.collect::<String>());
    let head = "nr_class 2\ntotal_sv 4\nrho 0.1\nlabel 1 -1";
    place.write("m.model", format!("svm_type c_svc\n{kernel}\n{head}\n{VECTORS}"));
    place
}

const RBF: &str = "kernel_type rbf\ngamma 0.5";

#[test]
fn sigmoid_models_are_shown_and_predict_and_are_explained() {
    let place = place("kernel_type sigmoid\ngamma 0.5\ncoef0 0");
    let (out, _) = place.good("inspect m.model");
    assert!(out.contains("sigmoid") && out.contains("no exact values"), "{out}");
    let (out, _) = place.good("predict m.model n.csv --link");
    // tanh(½ u·v) by hand for the last row.
    let (u, support) =
        ([0.199, 0.133, 0.066], [[0.2, -1.0, 0.0], [1.0, 0.0, 0.4], [0.0, 0.3, -0.2], [-1.0, 1.0, 1.0]]);
    let kernel = |v: &[f64; 3]| (0.5 * u.iter().zip(v).map(|(a, b)| a * b).sum::<f64>()).tanh();
    let coef = [0.5, 1.0, -0.7, -0.8];
    let expected = coef.iter().zip(&support).map(|(c, v)| c * kernel(v)).sum::<f64>() - 0.1;
    assert!((number(&cells(&out)[5][1]) - expected).abs() < 1e-14);
    let (explained, err) = place.good("explain m.model n.csv --background n.csv");
    assert!(
        err.contains("computed from the model's predictions: no exact values") && err.contains("exact:"),
        "{err}"
    );
    assert_eq!(cells(&explained).len(), 6);
    for line in &cells(&explained)[1..] {
        let total = number(&line[2]) + line[5..].iter().map(|v| number(v)).sum::<f64>();
        assert!((number(&line[3]) - total).abs() < 1e-12);
    }
    place.good("explain m.model n.csv --background n.csv --estimator kernel_shap");
    place.good("report m.model n.csv --background n.csv -o page.html");
    place.bad("explain m.model n.csv", "give --background");
    place.bad(
        "explain m.model n.csv --background n.csv --index k-sii",
        "--index needs values from the kernel",
    );
}

#[test]
fn models_of_joint_kernels_are_explained_by_their_predictions() {
    let place = Place::new();
    place.good("fit DIABETES --target target --ridge 1 --kernel sigmoid(gamma=0.01) -o m.riesz");
    let text = std::fs::read_to_string(crate::common::diabetes()).unwrap();
    let head: String = text.lines().take(5).map(|line| format!("{line}\n")).collect();
    place.write("rows.csv", head);
    let sampled = "--background-rows 20 --coalitions 200 --estimator kernel_shap";
    let (out, err) = place.good(&format!("explain m.riesz rows.csv --background DIABETES {sampled}"));
    assert!(err.contains("estimated: standard errors"), "{err}");
    assert!(cells(&out)[0].contains(&"std_error:age".to_string()));
}

#[test]
fn probabilities_follow_from_the_files_parameters() {
    let place = place(&format!("{RBF}\nprobA -1.5\nprobB 0.1").replace("\nprobA -1.5\nprobB 0.1", ""));
    let text = place.read("m.model").replace("nr_sv", "probA -1.5\nprobB 0.1\nnr_sv");
    place.write("p.model", text);
    let decisions = cells(&place.good("predict p.model n.csv --link").0);
    let predicted = cells(&place.good("predict p.model n.csv").0);
    assert_eq!(predicted[0], ["row", "class", "p(-1)", "p(1)"]);
    let probability = |f: f64| 1.0 / (1.0 + (-1.5 * f + 0.1).exp());
    for (line, decision) in predicted[1..].iter().zip(&decisions[1..]) {
        assert!((number(&line[3]) - probability(number(&decision[1]))).abs() < 1e-14);
    }
    let explained = cells(&place.good("explain p.model n.csv --background n.csv --probabilities").0);
    for (line, expected) in explained[1..].iter().zip(&predicted[1..]) {
        assert!((number(&line[3]) - number(&expected[3])).abs() < 1e-14);
    }
    assert!(place.good("inspect p.model").0.contains("probabilities"));
    place.good("convert p.model p.riesz");
    assert_eq!(cells(&place.good("predict p.riesz n.csv").0), predicted);
    place.bad("explain m.model n.csv --background n.csv --probabilities", "probA and probB");
}

#[test]
fn columns_say_which_are_the_features() {
    let place = place(RBF);
    let (plain, _) = place.good("predict m.model n.csv");
    place.bad("predict m.model named.csv", "--columns bmi,age,other");
    assert_eq!(place.good("predict m.model named.csv --columns age,bmi,bp").0, plain);
    let (explained, _) = place.good("explain m.model named.csv --background named.csv --columns age,bmi,bp");
    assert_eq!(cells(&explained)[0][5..], ["age", "bmi", "bp"]);
    for words in
        ["report m.model named.csv -o page.html", "importance m.model named.csv", "effects m.model named.csv"]
    {
        place.good(&format!("{words} --columns age,bmi,bp"));
    }
    assert!(place.good("inspect m.model --columns age,bmi,bp").0.contains("age, bmi, bp"));
    place.good("convert m.model m.riesz --columns age,bmi,bp");
    assert_eq!(place.good("predict m.riesz named.csv").0, plain);
    place.bad("predict m.model named.csv --columns age,bmi", "larger than the given width of 2 features");
    place.bad("predict m.model named.csv --columns age,bmi,weight", "there is no column 'weight'");
    place.bad("predict m.riesz named.csv --columns age,bmi,bp", "leave --columns out");
}

#[test]
fn data_files_are_read_as_tables() {
    let place = place(RBF);
    let (plain, _) = place.good("predict m.model n.csv");
    let (predicted, err) = place.good("predict m.model rows.svm");
    assert_eq!(predicted, plain);
    assert!(err.contains("features count from 1, which is column x0"), "{err}");
    let why = "explain m.model rows.svm --background rows.svm";
    assert_eq!(place.good(why).0, place.good("explain m.model n.csv --background n.csv").0);
    assert_eq!(place.good("predict m.model rows.svm --columns age,bmi,bp").0, plain);
    // Features beyond the file's are 0.
    place.write("narrow.svm", "1 1:1\n");
    place.write("wide.csv", "x0,x1,x2\n1,0,0\n");
    assert_eq!(place.good("predict m.model narrow.svm").0, place.good("predict m.model wide.csv").0);
    // A fit to a data file equals a fit to a table.
    let text = std::fs::read_to_string(crate::common::diabetes()).unwrap();
    let (mut sparse, mut dense) = (String::new(), String::from("label,x0,x1,x2,x3,x4,x5,x6,x7,x8,x9\n"));
    for line in text.lines().skip(1).take(60) {
        let cells: Vec<&str> = line.split(',').collect();
        let (target, features) = cells.split_last().unwrap();
        dense += &format!("{target},{}\n", features.join(","));
        let pairs = features.iter().enumerate().map(|(j, cell)| format!(" {}:{cell}", j + 1));
        sparse += &format!("{target}{}\n", pairs.collect::<String>());
    }
    place.write("d.csv", dense);
    place.write("d", sparse);
    place.good("fit d --target label --ridge 1 -o a.riesz");
    place.good("fit d.csv --target label --ridge 1 -o b.riesz");
    assert_eq!(place.good("predict a.riesz d").0, place.good("predict b.riesz d.csv").0);
    place.good("fit d --target label --ridge 1 --columns age,sex,bmi,bp,s1,s2,s3,s4,s5,s6 -o c.riesz");
    let (named, _) = place.good("predict c.riesz DIABETES");
    assert_eq!(cells(&named)[1], cells(&place.good("predict a.riesz d").0)[1]);
    place.bad("fit d.csv --target label --columns a,b -o c.riesz", "--columns names the features");
    for (text, culprit) in [
        ("1 1:1\n1 2:1 1:1\n", "line 2: the index 1 is out of place"),
        ("1 1:1 1:1\n", "occurs twice"),
        ("1 1:1\n1 1:a\n", "line 2: feature 1 is 'a'"),
    ] {
        place.write("bad.svm", text);
        place.bad("predict m.model bad.svm", culprit);
    }
}

#[test]
fn ranges_convert_to_the_users_units() {
    let place = place(RBF);
    place.write("range.txt", "x\n-1 1\n1 0 10\n2 -4 4\n3 1 2\n");
    // Rows that svm-scale would map to the rows of the plain table.
    let rows = ROWS.lines().skip(1).map(|line| {
        let scaled: Vec<f64> = line.split(',').map(number).collect();
        let unscaled = [5.0 + 5.0 * scaled[0], 4.0 * scaled[1], 1.5 + 0.5 * scaled[2]];
        format!("{},{},{}\n", unscaled[0], unscaled[1], unscaled[2])
    });
    place.write("units.csv", format!("x0,x1,x2\n{}", rows.collect::<String>()));
    let plain = cells(&place.good("predict m.model n.csv --link").0);
    let rescaled = cells(&place.good("predict m.model units.csv --scale range.txt --link").0);
    assert!((1..6).all(|i| (number(&plain[i][1]) - number(&rescaled[i][1])).abs() < 1e-12));
    place.good("convert m.model m.riesz --columns age,bmi,bp --scale range.txt");
    place.good("explain m.model units.csv --background units.csv --scale range.txt");
    place.write("broken.txt", "x\n-1 1\n1 10 10\n");
    place.bad("predict m.model units.csv --scale broken.txt", "line 3: 10 to 10 is no range");
    place.bad("inspect m.riesz --scale range.txt", "leave --scale out");
}

#[test]
fn explanations_are_verified() {
    let place = place(RBF);
    place.write("one.csv", "x0,x1,x2\n0.5,0.25,-1\n");
    for (made, verify_options, files) in [
        ("--background n.csv", "--background n.csv", &["why.json", "why.csv", "why.parquet"][..]),
        ("", "", &["why.json", "why.csv", "why.parquet"]),
        ("--baseline one.csv", "--baseline one.csv", &["why.json", "why.csv", "why.parquet"]),
        ("--background n.csv --index k-sii", "--background n.csv", &["why.json"]),
        ("--background n.csv --index banzhaf", "--background n.csv", &["why.json", "why.parquet"]),
    ] {
        for file in files {
            place.good(&format!("explain m.model n.csv {made} -o {file}"));
            // A CSV file does not state its game.
            let game = if file == &"why.csv" && made.is_empty() { "--game functional" } else { "" };
            let (out, _) =
                place.good(&format!("verify {file} --model m.model --rows n.csv {verify_options} {game}"));
            let compared =
                if made.contains("banzhaf") { 3 } else { 4 } + 2 * usize::from(file.ends_with("json"));
            assert_eq!(out.matches(" agree within").count(), compared, "{file} {made}: {out}");
        }
    }
    place.good("explain m.model n.csv --background n.csv -o why.json");
    let (out, _) = place.good("verify why.json --model m.model --rows n.csv");
    assert!(
        out.contains("not compared: give the rows") && out.matches(" agree within").count() == 2,
        "{out}"
    );
    let (out, _) =
        place.good("verify why.json --model m.model --rows n.csv --background n.csv --format json");
    assert!(out.contains("\"agrees\": true") && out.contains("the same file"), "{out}");
    // Another background, another row, another value.
    let failed = |words: &str, expected: &str| {
        let output = place.run(words);
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{words}: {err}");
        assert!(err.contains(expected), "{words}: {err}");
    };
    place.write("few.csv", ROWS.lines().take(3).map(|line| format!("{line}\n")).collect::<String>());
    failed("verify why.json --model m.model --rows n.csv --background few.csv", "base values do not agree");
    place.write("other.csv", ROWS.replace("0.831", "0.832"));
    failed(
        "verify why.json --model m.model --rows other.csv",
        "predictions do not agree: 1 of 5 differ, by up to",
    );
    place.good("explain m.model n.csv --background n.csv -o why.csv");
    let mut lines = cells(&place.read("why.csv"));
    lines[2][5] = (number(&lines[2][5]) + 1e-3).to_string();
    lines[2][6] = (number(&lines[2][6]) - 1e-3).to_string();
    place.write("moved.csv", lines.iter().map(|line| line.join(",") + "\n").collect::<String>());
    let verify_options = "--model m.model --rows n.csv --background n.csv --game interventional";
    failed(
        &format!("verify moved.csv {verify_options}"),
        "values do not agree: 2 of 15 differ, by up to 1.0e-3; first row 1, feature x0",
    );
    lines[3][2] = "7".into();
    place.write("moved.csv", lines.iter().map(|line| line.join(",") + "\n").collect::<String>());
    failed(&format!("verify moved.csv {verify_options}"), "sums do not agree");
    place.good("explain m.model n.csv -o why.csv");
    let (out, _) = place.good("verify why.csv --model m.model --rows n.csv");
    assert!(out.contains("not compared: the table does not state its game"), "{out}");
    place.bad("verify why.json --model m.model --rows few.csv", "that the table of rows lacks");
    place.bad("verify m.model --model m.model --rows n.csv", "give an explanation to check");
}

#[test]
fn models_of_python_are_named() {
    let place = place(RBF);
    std::fs::write(place.path("forest.joblib"), b"\x80\x04\x95").unwrap();
    place.bad("explain forest.joblib n.csv", "is a model of Python, which only Python can load");
}

/// Nothing that a file states about its own errors makes a wrong value acceptable.
#[test]
fn forged_explanations_are_refused() {
    let place = place(RBF);
    place.good("explain m.model n.csv --background n.csv -o why.json");
    let original: serde_json::Value = serde_json::from_str(&place.read("why.json")).unwrap();
    let verify = |forged: &serde_json::Value| {
        place.write("forged.json", forged.to_string());
        let output = place.run("verify forged.json --model m.model --rows n.csv --background n.csv");
        (output.status.code(), texts(&output))
    };
    let add = |record: &mut serde_json::Value, list: &str, k: usize, change: f64| {
        record[list][k] = (record[list][k].as_f64().unwrap() + change).into();
    };
    let mut moved = original.clone();
    add(&mut moved, "values", 0, 1e-3);
    add(&mut moved, "values", 1, -1e-3);
    let bounds = original["exactness"]["error_bound"].as_array().unwrap().len();
    moved["exactness"]["error_bound"] = vec![2.0; bounds].into();
    let (code, (_, err)) = verify(&moved);
    assert!(code == Some(1) && err.contains("values do not agree: 2 of 15 differ, by up to 1.0e-3"), "{err}");

    let values = original["values"].as_array().unwrap().len();
    moved["exactness"] = serde_json::json!({ "kind": "estimated", "std_error": vec![10.0; values] });
    let (code, (out, _)) = verify(&moved);
    assert!(out.contains("; values were only compared within 5 standard errors\n"), "{out}");
    assert!(code == Some(0) && out.contains("stated by the file, up to 1.0e1, and not checked"), "{out}");

    let mut cells = original.clone();
    cells["data"]["values"][0] = 99.0.into();
    let (code, (_, err)) = verify(&cells);
    assert!(code == Some(1) && err.contains("cells of the rows do not agree"), "{err}");
}

#[test]
fn pages_are_not_written_under_other_names() {
    let place = place(RBF);
    place.good("explain m.model n.csv -o why.json");
    place.bad("report why.json -o x.json", "pages are written as .html, not as .json");
    place.bad("demo -o x.svg", "pages are written as .html, not as .svg");
    assert!(!place.files().contains(&"x.json".to_string()));
}

#[test]
fn features_are_columns_in_order() {
    let place = place(RBF);
    place.write("ordered.csv", ROWS.replace("x0,x1,x2", "bmi,age,bp"));
    for command in ["predict m.model", "explain m.model", "importance m.model"] {
        place.bad(&format!("{command} ordered.csv"), "--columns-in-order");
        let (in_order, err) = place.good(&format!("{command} ordered.csv --columns-in-order"));
        assert!(
            err.contains("features of m.model are the columns of ordered.csv in their order: bmi"),
            "{err}"
        );
        assert_eq!(in_order, place.good(&format!("{command} ordered.csv --columns bmi,age,bp")).0);
    }
    place.good("report m.model ordered.csv --columns-in-order --no-date -o page.html");
    let page = place.read("page.html");
    assert!(page.contains("bmi") && !page.contains("page written"));
    let command = "riesz report m.model ordered.csv --columns-in-order --no-date -o page.html";
    assert!(page.contains(command), "the command line is in the provenance");
    place.bad("inspect m.model --columns-in-order", "give the names with --columns");
    place.bad("predict m.model ordered.csv --columns-in-order --columns a,b,c", "cannot be used with");
    // Pages are reproducible with a fixed date; otherwise they have the current one.
    let page = |date: Option<&str>| {
        let mut command = place.command();
        command.args(["report", "m.model", "n.csv", "-o", "page.html"]).env_remove("SOURCE_DATE_EPOCH");
        date.map(|date| command.env("SOURCE_DATE_EPOCH", date));
        assert!(command.output().unwrap().status.success());
        place.read("page.html")
    };
    assert!(page(Some("86400")).contains("1970-01-02 00:00 UTC") && page(None).contains("page written"));
    assert_eq!(page(Some("86400")), page(Some("86400")));
}

#[test]
fn csv_files_of_values_lose_their_provenance_with_a_note() {
    let place = place(RBF);
    let (_, err) = place.good("explain m.model n.csv -o why.csv");
    assert!(err.contains("a CSV file keeps the values only"), "{err}");
    for words in
        ["explain m.model n.csv -o why.parquet", "explain m.model n.csv", "explain m.model n.csv -o w.json"]
    {
        assert!(!place.good(words).1.contains("a CSV file keeps"), "{words}");
    }
}
