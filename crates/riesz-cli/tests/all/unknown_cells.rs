//! Unseen categories, missing cells, unknown columns, and pages of saved explanations.

use riesz::KernelExpansion;
use riesz::format::explanation_json::{SavedExplanation, read};

use crate::common::{Place, cells, number, texts};

const CITIES: [&str; 3] = ["Bern", "Oslo", "Rome"];

/// Writes rows of an age, a city and a target, and a model with the kernel `rbf(age, length_scale=5) *
/// categorical(city, similarity=0.3)`.
fn towns() -> Place {
    let place = Place::new();
    let row = |i: usize| format!("{},{},{}\n", 20 + i * i % 17, CITIES[i * i % 7 % 3], i % 7);
    place.write("train.csv", format!("age,city,y\n{}", (0..30).map(row).collect::<String>()));
    let kernel = "rbf(age,length_scale=5)*categorical(city,similarity=0.3)";
    place.good(&format!(
        "fit train.csv --target y --no-standardise --fixed-kernel --kernel {kernel} --ridge 0.1 -o m.riesz"
    ));
    place
}

/// Returns the value in the functional game, by its definition: age's factor or 1, times the similarity of an
/// unseen city, or 1.
fn game(model: &KernelExpansion, age: f64, has_age: bool, has_city: bool) -> f64 {
    let part = |i: usize| {
        let near = (-(age - model.support_points.get(i, 0)).powi(2) / 50.0).exp();
        model.coef.data()[i] * if has_age { near } else { 1.0 } * if has_city { 0.3 } else { 1.0 }
    };
    model.intercept[0] + (0..model.support_points.rows()).map(part).sum::<f64>()
}

fn explained(place: &Place, file: &str) -> SavedExplanation {
    read(place.read(file).as_bytes()).unwrap()
}

fn fact(saved: &SavedExplanation, name: &str) -> Vec<String> {
    let facts = saved.explanation.provenance.run.iter().filter(|fact| fact.name == name);
    facts.map(|fact| fact.value.clone()).collect()
}

#[test]
fn unseen_categories_are_none_of_the_known_ones() {
    let place = towns();
    place.write("new.csv", "city,age\nBern,22\nParis,23.5\nLima,30\nParis,26\n");
    let refused = "new.csv: row 2 (line 3) of column 'city' is 'Paris', which the model has not seen; it \
                   knows: Bern, Oslo, Rome; --unseen none takes it for none of these";
    for command in ["predict m.riesz new.csv", "explain m.riesz new.csv", "report m.riesz new.csv -o r.html"]
    {
        place.bad(command, refused);
        place.bad(&format!("{command} --unseen error"), refused);
    }
    let saved =
        riesz::format::model::from_bytes(&std::fs::read(place.path("m.riesz")).unwrap()).unwrap().model;
    let message = "new.csv: 3 cells of column 'city' treated as a new category (Paris, Lima)";
    let (predicted, err) = place.good("predict m.riesz new.csv --unseen none");
    assert!(err.contains(&format!("note: {message}")), "{err}");
    let (_, err) = place.good("explain m.riesz new.csv --unseen none -o e.json");
    assert!(err.contains(&format!("note: {message}")), "{err}");
    let stored = explained(&place, "e.json");
    assert_eq!(fact(&stored, "unseen categories"), [message]);
    let explanation = &stored.explanation;
    assert!(explanation.certificate().is_some_and(|c| c.holds));
    for (i, age) in [(1, 23.5), (2, 30.0), (3, 26.0)] {
        let v = |has_age, has_city| game(&saved, age, has_age, has_city);
        let (none, with_age, other, full) = (v(false, false), v(true, false), v(false, true), v(true, true));
        assert!((number(&cells(&predicted)[i + 1][1]) - full).abs() < 1e-9);
        let expected = [(with_age - none + full - other) / 2.0, (other - none + full - with_age) / 2.0];
        for (actual, expected) in explanation.row_values(i, 0).iter().zip(expected) {
            assert!((actual - expected).abs() < 1e-9, "{actual} {expected}");
        }
        assert_eq!(explanation.data.columns()[1].format(explanation.data.get(i, 1)), "(unseen)");
    }
    // Rows without such cells have the same values as without the option, and no note.
    place.write("old.csv", "city,age\nBern,22\nRome,31\n");
    let (plain, _) = place.good("explain m.riesz old.csv");
    let (open, err) = place.good("explain m.riesz old.csv --unseen none");
    assert!(plain == open && !err.contains("categor"), "{err}");
    // Files and pages contain the note too, and so do tables with a place for it.
    place.good("explain m.riesz new.csv --unseen none -o e.parquet");
    assert!(place.good("inspect e.parquet").0.contains(message));
    for words in ["m.riesz new.csv --unseen none", "e.json"] {
        place.good(&format!("report {words} -o r.html"));
        let page = place.read("r.html");
        assert!(page.contains("3 cells of column") && page.contains("(unseen)"), "{words}");
    }
    place.bad("report e.json --unseen none -o r.html", "does not use --unseen");
}

#[test]
fn backgrounds_may_have_unseen_and_missing_cells() {
    let place = towns();
    place.write("rows.csv", "age,city\n21,Rome\n");
    place.write("bg.csv", "age,city\n25,Paris\n,Oslo\n");
    let ask = "explain m.riesz rows.csv --background bg.csv";
    place.bad(
        ask,
        "bg.csv: row 2 (line 3) of column 'age' is empty: fill the value in or remove the row, \
                    or give --missing impute",
    );
    place.bad(&format!("{ask} --missing impute"), "bg.csv: row 1 (line 2) of column 'city' is 'Paris'");
    for game in ["interventional", "observational", "marginal-product"] {
        let (_, err) = place.good(&format!("{ask} --game {game} --missing impute --unseen none -o e.json"));
        let stored = explained(&place, "e.json");
        assert!(stored.explanation.certificate().is_some_and(|c| c.holds), "{game}");
        for (name, words) in
            [("unseen categories", "1 cell of column 'city'"), ("missing cells", "1 cell of column 'age'")]
        {
            let [message] = &fact(&stored, &format!("{name} of the background"))[..] else {
                panic!("{game}: {name}")
            };
            assert!(
                message.starts_with("bg.csv: ") && message.contains(words) && err.contains(message),
                "{message} {err}"
            );
        }
    }
}

#[test]
fn missing_cells_are_filled_in_on_request() {
    let place = towns();
    let train = cells(&place.read("train.csv"));
    let mut ages: Vec<f64> = train[1..].iter().map(|row| number(&row[0])).collect();
    ages.sort_by(f64::total_cmp);
    let median = (ages[14] + ages[15]) / 2.0;
    let count = |city: &str| train.iter().filter(|row| row[1] == city).count();
    let most_frequent = CITIES.into_iter().max_by_key(|city| count(city)).unwrap();
    place.write("new.csv", "age,city\n22,Bern\n,Oslo\nNA,\n25,nan\n");
    place.write(
        "full.csv",
        format!("age,city\n22,Bern\n{median},Oslo\n{median},{most_frequent}\n25,{most_frequent}\n"),
    );
    for command in ["predict m.riesz", "explain m.riesz", "explain m.riesz --background train.csv"] {
        let refused = "new.csv: row 2 (line 3) of column 'age' is empty: fill the value in or remove the \
                       row, or give --missing impute";
        place.bad(&format!("{command} new.csv"), refused);
        let (actual, err) = place.good(&format!("{command} new.csv --missing impute"));
        assert_eq!(actual, place.good(&format!("{command} full.csv")).0);
        let message = format!(
            "note: new.csv: 2 cells of column 'age' filled in with {median}, the median of the model's \
             support points; 2 cells of column 'city' filled in with {most_frequent}, the most frequent \
             category of the model's support points"
        );
        assert!(err.contains(&message), "{err}");
    }
    place.good("explain m.riesz new.csv --missing impute -o e.json");
    assert!(fact(&explained(&place, "e.json"), "missing cells")[0].contains("2 cells of column 'city'"));
    place.bad("report e.json --missing impute -o r.html", "does not use --missing");
    // A cell that is not a number is not a missing cell.
    place.write("bad.csv", "age,city\n22,Bern\ninf,Bern\n");
    place.bad(
        "predict m.riesz bad.csv --missing impute",
        "row 2 (line 3) of column 'age' is 'inf', which is not a finite number",
    );
    place.write("bad.csv", "age,city\nold,Bern\n");
    place.bad("predict m.riesz bad.csv --missing impute", "is 'old', which is not a number");
    // A fit is refused if cells are missing.
    place.write("hole.csv", "age,city,y\n22,Bern,1\n,Rome,2\n");
    let err = place.bad("fit hole.csv --target y -o n.riesz", "row 2 (line 3) of column 'age' is empty");
    assert!(err.contains("--missing drop") && !err.contains("impute"), "{err}");
}

#[test]
fn parquet_cells_without_a_value_are_missing() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
    use parquet::file::writer::SerializedFileWriter;

    let place = towns();
    let text = "message t { optional int32 age; optional binary city (STRING); }";
    let schema = parquet::schema::parser::parse_message_type(text).unwrap().into();
    let file = std::fs::File::create(place.path("new.parquet")).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Default::default()).unwrap();
    // Groups of rows: none, some and all of them without a value.
    for (ages, has_age, towns, has_city) in [
        (&[22, 31][..], [1, 1], &["Bern", "Rome"][..], [1, 1]),
        (&[25], [0, 1], &["Oslo"], [1, 0]),
        (&[], [0, 0], &[], [0, 0]),
    ] {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int32Type>().write_batch(ages, Some(&has_age), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let towns: Vec<ByteArray> = towns.iter().map(|town| ByteArray::from(*town)).collect();
        column.typed::<ByteArrayType>().write_batch(&towns, Some(&has_city), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    place.write("new.csv", "age,city\n22,Bern\n31,Rome\n,Oslo\n25,\n,\n,\n");
    place.bad("predict m.riesz new.parquet", "new.parquet: row 3 of column 'age' is missing");
    let (expected, err) = place.good("predict m.riesz new.csv --missing impute");
    let (actual, notes) = place.good("predict m.riesz new.parquet --missing impute");
    assert_eq!((actual, notes), (expected, err.replace("new.csv", "new.parquet")));
}

fn run(place: &Place, args: &[&str]) -> (Option<i32>, String, String) {
    let output = place.command().args(args).output().unwrap();
    let (out, err) = texts(&output);
    (output.status.code(), out, err)
}

#[test]
fn programs_take_some_columns_and_have_pages() {
    let place = Place::new();
    let row = |i: usize| format!("{},{},{}\n", i * i % 11, i % 5, i % 7);
    place.write("bg.csv", format!("\"a, cm\",b,y\n{}", (0..9).map(row).collect::<String>()));
    place.write("rows.csv", "y,\"a, cm\",b\n0,4,\n1,2,3\n");
    let program = "cmd:awk -F, 'NR > 1 && NF != 2 {exit 3} NR > 1 {print 2 * $1 + $2 * $2}'";
    let (code, _, err) = run(&place, &["explain", program, "rows.csv", "--background", "bg.csv"]);
    assert!(code == Some(2), "{err}");
    let ask = |command: &str, extra: &[&str]| {
        let fixed = [command, program, "rows.csv", "--background", "bg.csv", "--ignore", "y"];
        run(&place, &[&fixed[..], extra].concat())
    };
    let (code, _, err) = ask("explain", &[]);
    assert!(code == Some(2) && err.contains("row 1 (line 2) of column 'b' is empty"), "{err}");
    let (code, out, err) = ask("explain", &["--missing", "impute"]);
    assert!(
        code == Some(0) && err.contains("column 'b' filled in with 2, the median of the background"),
        "{err}"
    );
    let table = cells(&out);
    assert_eq!(table[0][5..], ["a, cm", "b"]);
    // For an additive program, each column's value is its term minus the term's mean.
    let mean = |function: &dyn Fn(f64, f64) -> f64| {
        (0..9).map(|i| function((i * i % 11) as f64, (i % 5) as f64)).sum::<f64>() / 9.0
    };
    for (row, (a, b)) in table[1..].iter().zip([(4.0, 2.0), (2.0, 3.0)]) {
        assert!((number(&row[5]) - (2.0 * a - mean(&|a, _| 2.0 * a))).abs() < 1e-9, "{row:?}");
        assert!((number(&row[6]) - (b * b - mean(&|_, b| b * b))).abs() < 1e-9, "{row:?}");
    }
    // The page is that of the explanation, and names the program.
    let (code, _, err) = ask("report", &["--missing", "impute", "-o", "direct.html"]);
    assert!(code == Some(0) && err.contains("exact"), "{err}");
    ask("explain", &["--missing", "impute", "-o", "e.json"]);
    place.good("report e.json -o saved.html");
    let (direct, saved) = (data(&place, "direct.html"), data(&place, "saved.html"));
    assert_eq!(direct, saved);
    let page = place.read("direct.html");
    assert!(page.contains("a program") && page.contains("NF != 2") && page.contains("SHA-256"));
    for (args, culprit) in [
        (&["report", program, "-o", "r.html"][..], "is a program: give a table of rows to explain after it"),
        (
            &["report", program, "rows.csv", "--background", "bg.csv", "--ignore", "z", "-o", "r.html"],
            "there is no column 'z'",
        ),
        (
            &["explain", program, "rows.csv", "--background", "bg.csv", "--ignore", "a, cm,b,y"],
            "no column is left as an input of the program",
        ),
        (
            &["explain", program, "bg.csv", "--background", "bg.csv", "--unseen", "none"],
            "--unseen none needs a model, which lists its categories",
        ),
    ] {
        let (code, _, err) = run(&place, args);
        assert!(code == Some(2) && err.contains(culprit), "{args:?}: {err}");
    }
    place.good("fit bg.csv --target y --ridge 1 -o m.riesz");
    place.bad(
        "explain m.riesz bg.csv --ignore b",
        "--ignore names background columns that are no inputs of a program",
    );
    place.bad("report e.json --ignore b -o r.html", "does not use --ignore");
}

/// Returns the data that the page's script reads, as JSON.
fn data(place: &Place, page: &str) -> serde_json::Value {
    let page = place.read(page);
    let from = page.find("{\"base\"").or_else(|| page.find("{\"columns\"")).unwrap();
    serde_json::Deserializer::from_str(&page[from..]).into_iter().next().unwrap().unwrap()
}

#[test]
fn pages_of_saved_explanations_show_classes_and_probabilities() {
    let place = towns();
    let row = |i: usize| {
        format!("{},{},{}\n", 20 + i * i % 17, CITIES[i * i % 7 % 3], ["no", "yes", "maybe"][i % 4 % 3])
    };
    place.write("three.csv", format!("age,city,buys\n{}", (0..40).map(row).collect::<String>()));
    let text = place.read("three.csv");
    place.write("two.csv", text.replace("maybe", "yes"));
    for model in ["klr --ridge 1", "svc", "gpc --posterior", "gpc"] {
        for table in ["two", "three"] {
            place.good(&format!("fit {table}.csv --target buys --model {model} --fixed-kernel -o c.riesz"));
            place.good(&format!("explain c.riesz {table}.csv -o e.json"));
            place.good("report e.json -o saved.html");
            place.good(&format!("report c.riesz {table}.csv -o direct.html"));
            let (saved, direct) = (data(&place, "saved.html"), data(&place, "direct.html"));
            assert_eq!(saved, direct, "{model} {table}");
            assert!(saved["decisions"]["classes"].is_array(), "{model} {table}");
            let heading = "Explained output: the ";
            let lines = |page: &str| {
                place.read(page).lines().filter(|l| l.contains(heading)).map(String::from).collect::<Vec<_>>()
            };
            assert!(!lines("saved.html").is_empty() && lines("saved.html") == lines("direct.html"));
        }
    }
    // The class is the one that `predict` prints; more rows than one chunk are combined.
    place.good("fit two.csv --target buys --model klr --ridge 1 -o c.riesz");
    let many_rows = (0..9000).map(|i| format!("{},{}\n", 20 + i % 18, CITIES[i % 3])).collect::<String>();
    place.write("many.csv", format!("age,city\n{many_rows}"));
    place.good("explain c.riesz many.csv -o e.json");
    let decisions = explained(&place, "e.json").decisions.unwrap();
    let predicted = cells(&place.good("predict c.riesz many.csv").0);
    let position = predicted[0].iter().position(|name| name == "p(yes)").unwrap();
    let (class, probabilities) = decisions.probabilities[0].as_ref().unwrap();
    assert_eq!((decisions.classes[*class].as_str(), probabilities.len()), ("yes", 9000));
    for (i, row) in predicted[1..].iter().enumerate() {
        assert_eq!(
            (number(&row[position]), &row[1]),
            (probabilities[i], &decisions.classes[decisions.chosen.as_ref().unwrap()[i]])
        );
    }
    // A regression has no decisions.
    place.good("explain m.riesz train.csv -o e.json");
    assert!(explained(&place, "e.json").decisions.is_none() && !place.read("e.json").contains("decisions"));
}

/// Columns are matched by name in any order, and others are ignored. LIBSVM files omit zeros, so that for
/// them further numbered columns are features; the Python tests check the same.
#[test]
fn columns_that_the_model_does_not_know_are_left_out() {
    let place = towns();
    place.write("rows.csv", "age,city\n22,Bern\n");
    place.write("more.csv", "zip,city,age,x2\n9,Bern,22,1\n");
    for command in ["predict m.riesz", "explain m.riesz", "explain m.riesz --background train.csv"] {
        let [(known, _), (other, _)] =
            ["rows", "more"].map(|rows| place.good(&format!("{command} {rows}.csv")));
        assert_eq!(known, other);
    }
    place.write(
        "l.model",
        "svm_type epsilon_svr\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho \
                            0.1\nSV\n1 1:1 2:0.5\n-1 1:0.2\n",
    );
    let predict = |header: &str, row: &str| {
        place.write("x.csv", format!("{header}\n{row}\n"));
        number(&cells(&place.good("predict l.model x.csv").0)[1][1])
    };
    let narrow = predict("x0,x1", "1,2");
    assert_eq!(narrow, predict("extra,x1,x0", "3,2,1"));
    let kernel = |square: f64| (-0.5 * square).exp();
    assert!((narrow - (kernel(2.25) - kernel(0.64 + 4.0) - 0.1)).abs() < 1e-12);
    assert!((predict("x0,x1,x2", "1,2,3") - (kernel(11.25) - kernel(13.64) - 0.1)).abs() < 1e-12);
}

/// Every combination of five ages and three cities, of which the model does not know the third; and the same
/// table with an empty age in place of the median, 36, of the model's training rows.
fn factorial(place: &Place, median: &str) {
    let lines = |ages: [&str; 5]| -> String {
        let pairs = ages.into_iter().flat_map(|age| ["Bern", "Oslo", "Paris"].map(|city| (age, city)));
        pairs.map(|(age, city)| format!("{age},{city}\n")).collect()
    };
    place.write("filled.csv", format!("age,city\n{}", lines(["20", "24", median, "31", "35"])));
    place.write("gaps.csv", format!("age,city\n{}", lines(["20", "24", "", "31", "35"])));
}

#[test]
fn importance_and_effects_take_unseen_and_missing_cells() {
    let place = towns();
    let mut ages: Vec<f64> = (0..30).map(|i| f64::from(20 + i * i % 17)).collect();
    ages.sort_by(f64::total_cmp);
    factorial(&place, &((ages[14] + ages[15]) / 2.0).to_string());
    for command in ["importance m.riesz", "effects m.riesz"] {
        place.bad(&format!("{command} filled.csv"), "is 'Paris', which the model has not seen");
        place.bad(&format!("{command} gaps.csv --unseen none"), "is empty: fill the value in");
        let (filled, err) = place.good(&format!("{command} filled.csv --unseen none"));
        assert!(err.contains("5 cells of column 'city' treated as a new category (Paris)"), "{err}");
        let (gaps, err) = place.good(&format!("{command} gaps.csv --unseen none --missing impute"));
        assert!(err.contains("3 cells of column 'age' filled in"), "{err}");
        assert_eq!(gaps, filled);
    }
    // Over a factorial design features are independent, so the variance is that of the predictions.
    let predicted = cells(&place.good("predict m.riesz filled.csv --unseen none").0);
    let outputs: Vec<f64> = predicted[1..].iter().map(|row| number(&row[1])).collect();
    let mean = outputs.iter().sum::<f64>() / 15.0;
    let variance = outputs.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / 15.0;
    place.good("importance m.riesz filled.csv --unseen none -o shares.csv");
    let shares = cells(&place.read("shares.csv"));
    let j = shares[0].iter().position(|name| name == "variance").unwrap();
    assert!((number(&shares[1][j]) / variance - 1.0).abs() < 1e-9, "{} {variance}", shares[1][j]);
    // The effect of the unseen city minus that of Bern is the mean difference of their predictions.
    let effects = cells(&place.good("effects m.riesz filled.csv --unseen none --of city").0);
    let effect = |city: &str| {
        let line = effects.iter().find(|line| line.iter().any(|cell| cell == city)).unwrap();
        number(&line[effects[0].iter().position(|name| name == "value").unwrap()])
    };
    let difference = outputs.chunks(3).map(|row| row[2] - row[0]).sum::<f64>() / 5.0;
    assert!((effect("(unseen)") - effect("Bern") - difference).abs() < 1e-9);
    // The provenance of files names the cells.
    place.good("importance m.riesz gaps.csv --unseen none --missing impute -o w.html");
    assert!(place.read("w.html").contains("3 cells of column"));
}

#[test]
fn losses_are_attributed_with_missing_cells_of_rows_and_background() {
    let place = towns();
    let text = place.read("train.csv");
    let ages = || text.lines().skip(1).map(|line| number(line.split(',').next().unwrap()));
    let mut sorted: Vec<f64> = ages().collect();
    sorted.sort_by(f64::total_cmp);
    let median = ((sorted[14] + sorted[15]) / 2.0).to_string();
    let first = text.lines().nth(1).unwrap();
    let with_age =
        |age: &str| text.replacen(first, &format!("{age},{}", first.split_once(',').unwrap().1), 1);
    place.write("gaps.csv", with_age(""));
    place.write("filled.csv", with_age(&median));
    let sage = |file: &str, options: &str| {
        place.good(&format!("importance m.riesz {file} --target y --background {file} {options}"))
    };
    place.bad("importance m.riesz gaps.csv --target y", "or give --missing impute");
    assert_eq!(sage("gaps.csv", "--missing impute").0, sage("filled.csv", "").0);
}

#[test]
fn maps_and_explanations_of_bags_take_unseen_and_missing_cells() {
    let place = Place::new();
    let soil = |i: usize| ["clay", "loam", "sand"][i * i % 7 % 3];
    let row = |i: usize| format!("{},{},b{},{}\n", (i * 7) % 23, soil(i), i % 12, 1 + i % 4);
    place.write("rows.csv", format!("rain,soil,bag,east\n{}", (0..36).map(row).collect::<String>()));
    let bag = |b: usize| format!("b{b},{}\n", (3 * b) % 7);
    place.write("bags.csv", format!("bag,y\n{}", (0..12).map(bag).collect::<String>()));
    let kernel = "rbf(rain,length_scale=1)*categorical(soil,similarity=0.3)";
    place.good(&format!(
        "downscale fit rows.csv bags.csv --bag bag --target y --ignore east --kernel {kernel} --no-tuning \
         -o m.riesz"
    ));
    let mut rain: Vec<usize> = (0..36).map(|i| (i * 7) % 23).collect();
    rain.sort_unstable();
    let median = (rain[17] + rain[18]) as f64 / 2.0;
    let rows = |rain: &str| format!("rain,soil,bag,east\n{rain},peat,a,1\n4,clay,a,2\n9,sand,b,3\n");
    place.write("gaps.csv", rows(""));
    place.write("filled.csv", rows(&median.to_string()));
    let explain = |file: &str| format!("downscale explain m.riesz {file} --bag bag");
    place.bad(&explain("filled.csv"), "is 'peat', which the model has not seen");
    place.bad(&format!("{} --unseen none", explain("gaps.csv")), "or give --missing impute");
    let (filled, err) = place.good(&format!("{} --unseen none", explain("filled.csv")));
    assert!(err.contains("1 cell of column 'soil' treated as a new category (peat)"), "{err}");
    let (gaps, _) = place.good(&format!("{} --unseen none --missing impute", explain("gaps.csv")));
    assert_eq!(gaps, filled);
    // The prediction of a bag is the mean of the predictions of its rows.
    let predicted = cells(&place.good("downscale predict m.riesz filled.csv --unseen none").0);
    let mean = (number(&predicted[1][1]) + number(&predicted[2][1])) / 2.0;
    let explained = cells(&filled);
    assert!((number(explained[1].last().unwrap()) - mean).abs() < 1e-9);
    let located = |rain: &str| format!("rain,soil,north,east\n{rain},peat,5,1\n4,clay,6,2\n9,sand,7,3\n");
    place.write("gaps.csv", located(""));
    place.write("filled.csv", located(&median.to_string()));
    let map = "--x east --y north -o map.svg";
    place.bad(&format!("downscale map m.riesz gaps.csv {map}"), "or give --missing impute");
    let [gaps, filled] = ["gaps.csv", "filled.csv"].map(|file| {
        place.good(&format!("downscale map m.riesz {file} --unseen none --missing impute {map}"));
        place.read("map.svg")
    });
    assert_eq!(gaps, filled);
    place.good("downscale map m.riesz gaps.csv --unseen none --missing impute --x east --y north -o m.html");
    assert!(place.read("m.html").contains("1 cell of column"));
}
