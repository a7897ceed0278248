//! Tables in every format: the inferred kinds of their columns, and refused tables.

use std::path::Path;

use serde_json::Value;

use crate::common::{Place, cells, texts};

/// Every file of `tests/tables` is read or refused as `scripts/oracles/tables.py` expects.
#[test]
fn every_table_of_the_corpus_is_read_or_refused_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables");
    let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
    assert!(expected.len() > 100, "{}", expected.len());
    let place = Place::new();
    for case in &expected {
        let file = case["file"].as_str().unwrap();
        let path = folder.join(file).display().to_string();
        let words = format!("inspect {path} --format json {}", case["options"].as_str().unwrap());
        if let Some(sentence) = case["refused"].as_str() {
            place.bad(&words, sentence);
            continue;
        }
        let (out, _) = place.good(&words);
        let inspected: Value = serde_json::from_str(&out).unwrap();
        let columns = inspected["columns"].as_array().unwrap();
        let wanted = case["columns"].as_object().unwrap();
        assert_eq!(columns.len(), wanted.len(), "{file}: {out}");
        for column in columns {
            let expected = &wanted[column["name"].as_str().unwrap()];
            let about = format!("{file}: {column} is not {expected}");
            assert_eq!(column["taken_for"], expected["kind"], "{about}");
            for (field, name) in [("range", "values"), ("levels", "levels"), ("missing", "missing")] {
                if let Some(value) = expected.get(name) {
                    let numbers = |v: &Value| -> Vec<f64> {
                        v.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
                    };
                    match field {
                        "range" => assert_eq!(numbers(&column[field]), numbers(value), "{about}"),
                        _ => assert_eq!(&column[field], value, "{about}"),
                    }
                }
            }
            let remarks = column["remarks"].to_string().replace("\\\"", "\"");
            match expected["remark"].as_str() {
                Some(remark) => assert!(remarks.contains(remark), "{about}"),
                None => assert_eq!(remarks, "[]", "{about}"),
            }
        }
    }
}

/// Returns sixty rows whose third column is a function of the others.
fn rows(cell: impl Fn(usize) -> String) -> String {
    let row = |i: usize| format!("{},{},{}\n", (i * 37) % 60, cell(i), (i * 37) % 60 + i % 5);
    format!("a,b,y\n{}", (0..60).map(row).collect::<String>())
}

#[test]
fn fits_are_the_same_however_numbers_are_written() {
    let place = Place::new();
    let value = |i: usize| 1000 + i * i % 977;
    place.write("plain.csv", rows(|i| value(i).to_string()));
    place.write("dollars.csv", rows(|i| format!("\"${},{:03}\"", value(i) / 1000, value(i) % 1000)));
    place.write("units.csv", rows(|i| format!("{} kg", value(i))));
    place.write("spaces.csv", rows(|i| format!("{}\u{202f}{:03}", value(i) / 1000, value(i) % 1000)));
    let fit = |file: &str| place.good(&format!("fit {file} --target y --model svr -o {file}.riesz")).1;
    fit("plain.csv");
    let (expected, _) = place.good("predict plain.csv.riesz plain.csv");
    for (file, remark) in [
        ("dollars.csv", "column 'b': amounts in $ are read as numbers"),
        ("units.csv", "column 'b': amounts in kg are read as numbers"),
        ("spaces.csv", "column 'b': separators of thousands are left out"),
    ] {
        assert!(fit(file).contains(remark), "{file}");
        // The remark is printed for new rows, too.
        let (predicted, err) = place.good(&format!("predict {file}.riesz {file}"));
        assert!(predicted == expected && err.contains(remark), "{file}: {err}");
        assert_eq!(place.good(&format!("predict {file}.riesz plain.csv")).0, expected);
    }
}

#[test]
fn labels_of_rows_are_refused_or_warned_of() {
    let place = Place::new();
    place.write("labels.csv", rows(|i| format!("note {i}")));
    let refused = "column 'b' has 60 different texts in 60 rows: leave it out with --ignore 'b', or give \
                   --column 'b=text'";
    place.bad("fit labels.csv --target y -o m.riesz", refused);
    place.bad("test two-sample labels.csv labels.csv", refused);
    place.good("fit labels.csv --target y --model svr --ignore b -o m.riesz");
    place.good("fit labels.csv --target y --model svr --column b=text -o m.riesz");
    place.write("zips.csv", rows(|i| format!("{:05}", 2100 + i)));
    place.bad("fit zips.csv --target y -o m.riesz", "column 'b' has 60 different texts");
    place.good("fit zips.csv --target y --model svr --column b=number -o m.riesz");
    place.write("numbered.csv", rows(|i| (i + 7).to_string()));
    let (_, err) = place.good("fit numbered.csv --target y --model svr -o m.riesz");
    assert!(err.contains("column 'b' numbers the rows (7, 8, …): leave it out with --ignore 'b'"), "{err}");
    let (_, err) = place.good("test two-sample numbered.csv numbered.csv --permutations 20");
    assert!(err.contains("column 'b' numbers the rows"), "{err}");
    place.bad("fit labels.csv --target y --column c=text -o m.riesz", "there is no column 'c'");
    place.bad("fit labels.csv --target y --column b -o m.riesz", "each followed by =text or =number");
}

#[test]
fn marks_of_missing_values_are_warned_of_and_can_be_named() {
    let place = Place::new();
    place.write("raster.csv", rows(|i| if i == 7 { "-3.4e+38".into() } else { format!("{}.5", i % 9) }));
    let (_, err) = place.good("fit raster.csv --target y --model svr -o m.riesz");
    assert!(err.contains("row 8 (line 9) is -3.4e38") && err.contains("--na-values '-3.4e38'"), "{err}");
    place.bad(
        "fit raster.csv --target y --model svr --na-values -3.4e38 -o m.riesz",
        "row 8 (line 9) of column 'b' is missing ('-3.4e+38'): fill the value in or remove the row, or \
         leave its row out with --missing drop",
    );
    let (_, err) =
        place.good("fit raster.csv --target y --model svr --na-values -3.4e38 --missing drop -o m.riesz");
    assert!(err.contains("1 of 60 rows with missing cells were left out (first row 8 (line 9))"), "{err}");
    assert!(!err.contains("interquartile"), "{err}");
    let lines: Vec<String> = place.read("raster.csv").lines().map(String::from).collect();
    let kept: Vec<&String> = lines.iter().filter(|line| !line.contains("e+38")).collect();
    place.write("kept.csv", kept.iter().map(|line| format!("{line}\n")).collect::<String>());
    place.good("fit kept.csv --target y --model svr -o k.riesz");
    assert_eq!(place.good("predict m.riesz kept.csv").0, place.good("predict k.riesz kept.csv").0);
}

#[test]
fn rows_without_a_target_can_be_left_out() {
    let place = Place::new();
    let text = "a,y\n1,2\n2,\n3,4\n4,NA\n5,6\n6,7\n";
    place.write("t.csv", text);
    place.bad("fit t.csv --target y -o m.riesz", "row 2 (line 3) of column 'y' is empty");
    for model in ["krr", "svr", "krr --landmarks 3"] {
        let (_, err) = place.good(&format!("fit t.csv --target y --model {model} --missing drop -o m.riesz"));
        assert!(err.contains("missing cells") && err.contains("left out"), "{err}");
        place.write("kept.csv", "a,y\n1,2\n3,4\n5,6\n6,7\n");
        place.good(&format!("fit kept.csv --target y --model {model} -o k.riesz"));
        assert_eq!(place.good("predict m.riesz t.csv").0, place.good("predict k.riesz t.csv").0, "{model}");
    }
    place.write("none.csv", "a,y\n1,\n,2\n");
    place.bad("fit none.csv --target y --missing drop -o m.riesz", "every row has a missing cell");
}

#[test]
fn measurements_are_no_classes() {
    let place = Place::new();
    let row = |i: usize| format!("{},{}.{}\n", i % 7, i * 37 % 40, i % 9 + 1);
    place.write("t.csv", format!("a,y\n{}", (0..40).map(row).collect::<String>()));
    for model in ["svc", "gpc", "klr"] {
        place.bad(
            &format!("fit t.csv --target y --model {model} -o m.riesz"),
            "the target 'y' has 40 values in 40 rows",
        );
    }
}

#[test]
fn truth_values_are_two_levels_in_any_case() {
    let place = Place::new();
    let flag = |i: usize| ["TRUE", "true", "False", "FALSE"][i * 3 % 4].to_string();
    place.write("t.csv", rows(flag));
    let (_, err) = place.good("fit t.csv --target y --model svr -o m.riesz");
    assert!(err.contains("spellings of true and false that differ in case are one level each"), "{err}");
    assert!(place.good("inspect m.riesz").0.contains("b (false, true)"));
    let (out, _) = place.good("predict m.riesz t.csv");
    place.write("lower.csv", rows(|i| flag(i).to_lowercase()));
    assert_eq!(place.good("predict m.riesz lower.csv").0, out);
    place.write("case.csv", rows(|i| ["yes", "Yes", "no"][i % 3].into()));
    let (_, err) = place.good("fit case.csv --target y --model svr -o m.riesz");
    assert!(
        err.contains("'yes' and 'Yes' differ in case only") || err.contains("'Yes' and 'yes' differ"),
        "{err}"
    );
}

#[test]
fn missing_cells_can_be_compared() {
    let place = Place::new();
    let table = |missing: usize| {
        let row = |i: usize| {
            let gone = i % 10 < missing;
            let number = if gone { String::new() } else { format!("{}", (i * 37) % 60) };
            format!("{number},{}\n", if gone { "NA" } else { ["u", "v"][i % 2] })
        };
        format!("x,c\n{}", (0..60).map(row).collect::<String>())
    };
    place.write("before.csv", table(0));
    place.write("after.csv", table(5));
    place.bad("test two-sample before.csv after.csv", "after.csv: row 1 (line 2) of column 'x' is empty");
    let (out, _) =
        place.good("test two-sample before.csv after.csv --missing compare --permutations 200 --format csv");
    let comparisons = cells(&out);
    let p =
        |name: &str| -> f64 { comparisons.iter().find(|row| row[0] == name).unwrap()[4].parse().unwrap() };
    assert!(p("x is missing") < 0.02 && p("c") < 0.02, "{out}");
    let (_, err) = place.good("test two-sample before.csv after.csv --missing drop --permutations 20");
    assert!(err.contains("after.csv: 30 of 60 rows with missing cells were left out"), "{err}");
    // The column is empty in both tables.
    place.write("one.csv", "x,z\n,1\n,2\n,3\n");
    let (_, err) = place.good("test two-sample one.csv one.csv --missing compare --permutations 20");
    assert!(err.contains("column 'x' has no values and is left out"), "{err}");
}

#[test]
fn standard_input_is_read_in_any_format_and_once() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables");
    for file in [
        "gzip.csv.gz",
        "zstd.csv.zst",
        "utf16-little.csv",
        "lines.jsonl",
        "plain.feather",
        "stream.arrows",
        "plain.xlsx",
        "gzip.parquet",
        "semicolons.csv",
    ] {
        let output = place.run_with("inspect -", std::fs::read(folder.join(file)).unwrap());
        let (out, err) = texts(&output);
        assert!(
            output.status.success() && out.contains("standard input: ") && out.contains("x, y"),
            "{file}: {out}{err}"
        );
    }
    place.bad_with("test two-sample - -", "a\n1\n2\n", "'-' is given twice");
}

/// Writes sixty rows whose second column is given by `cell`.
fn written(place: &Place, file: &str, cell: impl Fn(usize) -> String) {
    place.write(file, rows(cell));
}

#[test]
fn units_of_the_training_data_are_kept_in_the_model() {
    let place = Place::new();
    let value = |i: usize| 50 + i * i % 97;
    written(&place, "kg.csv", |i| format!("{} kg", value(i)));
    written(&place, "lb.csv", |i| format!("{} lb", value(i)));
    written(&place, "mixed.csv", |i| format!("{} {}", value(i), if i % 2 == 0 { "kg" } else { "lb" }));
    written(&place, "plain.csv", |i| value(i).to_string());
    for fit in ["--model svr", "--model krr --landmarks 20"] {
        place.good(&format!("fit kg.csv --target y {fit} -o kg.riesz"));
        assert!(place.good("inspect kg.riesz").0.contains("unit of b"));
        place.bad("predict kg.riesz lb.csv", "has numbers in lb, but the model was fitted to numbers in kg");
        place.bad("predict kg.riesz mixed.csv", "has numbers in kg and in lb: write all numbers in one unit");
        place.bad(
            "explain kg.riesz kg.csv --background lb.csv",
            "has numbers in lb, but the model was fitted",
        );
        let (expected, err) = place.good("predict kg.riesz kg.csv");
        assert!(!err.contains("without a unit"), "{err}");
        let (actual, err) = place.good("predict kg.riesz plain.csv");
        assert!(err.contains("has numbers without a unit, which are taken for kg"), "{err}");
        assert_eq!(actual, expected);
        place.good(&format!("fit plain.csv --target y {fit} -o plain.riesz"));
        place.bad("predict plain.riesz kg.csv", "the model was fitted to numbers without a unit");
        assert_eq!(place.good("predict plain.riesz kg.csv --column b=number").0, expected);
    }
    // Files of one data set must have the same units.
    place.bad(
        "fit kg.csv lb.csv --target y --landmarks 20 -o m.riesz",
        "has numbers in lb, but the model was fitted",
    );
}

#[test]
fn samples_in_different_units_and_spellings_are_not_compared_silently() {
    let place = Place::new();
    let value = |i: usize| 50 + i * i % 97;
    written(&place, "kg.csv", |i| format!("{} kg", value(i)));
    written(&place, "lb.csv", |i| format!("{} lb", value(i)));
    written(&place, "plain.csv", |i| value(i).to_string());
    written(&place, "yes.csv", |i| if i % 2 == 0 { "yes" } else { "no" }.to_string());
    written(&place, "Yes.csv", |i| if i % 2 == 0 { "Yes" } else { "NO" }.to_string());
    place.bad("test two-sample kg.csv lb.csv", "column 'b' has numbers in kg in kg.csv and in lb in lb.csv");
    place.bad(
        "test two-sample kg.csv plain.csv",
        "has numbers in kg in kg.csv and without a unit in plain.csv",
    );
    let (_, err) = place.good("test two-sample plain.csv yes.csv --permutations 20 --column b=text");
    assert!(!err.contains("holds numbers"), "{err}");
    let words = "test two-sample plain.csv yes.csv --permutations 20 --ignore a,y";
    assert!(place.good(words).1.contains("column 'b' holds numbers in plain.csv and text in yes.csv"));
    place.good("test two-sample kg.csv kg.csv --permutations 20");
    let (_, err) = place.good("test two-sample yes.csv Yes.csv --permutations 20");
    assert!(err.contains("differ in case only and are two categories"), "{err}");
}
