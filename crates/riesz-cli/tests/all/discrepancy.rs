//! Tests of `compare`, `depend` and `select` on real data and on adversarial input.

use crate::common::{Place, cells, number, texts};

/// The published attributions (Mohammadi, Chau and Muandet 2025, figures 7 and 8): s3, s4, bp, s6, age, s5,
/// s2 raise the discrepancy between the sexes, bmi and s1 hide it.
#[test]
fn diabetes_by_sex_is_as_published() {
    let place = Place::new();
    let (out, err) =
        place.good("test two-sample DIABETES --by sex --ignore target --kernel-factors product --format csv");
    let table = cells(&out);
    assert_eq!(table[0], ["feature", "value", "null_low", "null_high", "pvalue", "adjusted_pvalue"]);
    let names: Vec<&str> = table[1..].iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["s3", "s4", "bp", "s6", "age", "s5", "s2", "bmi", "s1"]);
    let signs: Vec<bool> = table[1..].iter().map(|row| number(&row[1]) > 0.0).collect();
    assert_eq!(signs, [true, true, true, true, true, true, true, false, false]);
    assert!(err.contains("The samples differ: if sex = 1 and sex = 2"), "{err}");
}

/// Orthogonal factors find bmi and s1 as well: their published attributions are negative, but each alone
/// differs between the sexes.
#[test]
fn no_feature_of_diabetes_is_hidden() {
    let place = Place::new();
    let (out, _) =
        place.good("test two-sample DIABETES --by sex --ignore target --estimator biased --format csv");
    let table = cells(&out);
    assert_eq!(table[0][6..], ["marginal", "marginal_pvalue"]);
    for row in &table[1..] {
        assert!(number(&row[1]) > 0.0 && number(&row[6]) > 0.0, "{row:?}");
        // Features that are significant alone are significant among others.
        assert!(number(&row[7]) > 0.002 || number(&row[4]) <= 0.01, "{row:?}");
    }
    let (out, _) = place.good("test two-sample DIABETES --by sex --ignore target");
    assert!(out.contains("p alone") && out.contains("only in three or more features jointly"), "{out}");
}

#[test]
fn every_form_of_a_finding() {
    let place = Place::new();
    let base = "test two-sample DIABETES --by sex --ignore target --permutations 99";
    let (out, _) = place.good(base);
    assert!(
        out.contains("MMD² = ") && out.contains("95 % under the null") && out.contains("exact: "),
        "{out}"
    );
    let (again, _) = place.good(&format!("{base} --threads 1"));
    assert_eq!(out, again);
    for file in ["f.html", "f.svg", "f.png", "f.csv", "f.parquet", "f.json", "f.txt"] {
        place.good(&format!("{base} -o {file}"));
        assert!(std::fs::metadata(place.path(file)).unwrap().len() > 100, "{file}");
    }
    let page = place.read("f.html");
    assert!(page.contains("sex = 1 against sex = 2") && page.contains("where the samples differ"));
    assert!(!page.contains("http://") && !page.contains("https://"));
    let record: serde_json::Value = serde_json::from_str(&place.read("f.json")).unwrap();
    assert_eq!(record["format"], "riesz-test");
    let values = record["attributions"]["explanation"]["values"].as_array().unwrap();
    let sum: f64 = values.iter().map(|v| v.as_f64().unwrap()).sum();
    assert!((sum - record["statistic"].as_f64().unwrap()).abs() < 1e-12);
    let (out, _) = place.good(&format!("{base} --interactions --max-display 3"));
    assert!(out.contains("Shapley interaction index") && out.contains("and 6 more"), "{out}");
    let (out, _) = place.good(&format!("{base} --no-attribution --kernel matern32(isotropic)"));
    assert!(!out.contains("feature"), "{out}");
    let (out, _) =
        place.good(&format!("{base} --length-scale-multiples 0.5,1,2 --groups blood=s1,s2,s3,s4,s5,s6"));
    assert!(out.contains("* rbf") && out.contains("blood"), "{out}");
    let (out, _) = place.good("test two-sample DIABETES --by sex --permutations 0 --estimator biased");
    assert!(out.contains("no test was requested") && !out.contains("p ="), "{out}");
    for estimator in ["linear", "block", "block --block-size 20"] {
        let (_, err) = place.good(&format!("test two-sample DIABETES --by sex --estimator {estimator}"));
        assert!(err.contains("of each sample"), "{err}");
    }
}

#[test]
fn two_files_are_compared_by_name_and_level() {
    let place = Place::new();
    let rows = |shift: f64, colours: [&str; 2]| -> String {
        let row = |i: usize| format!("{},{},{}\n", (i * 7 % 11) as f64 + shift, i % 3, colours[i % 2]);
        format!("a,b,colour\n{}", (0..30).map(row).collect::<String>())
    };
    place.write("one.csv", rows(0.0, ["red", "blue"]));
    place.write("two.csv", rows(5.0, ["red", "green"]));
    let (out, _) = place.good("test two-sample one.csv two.csv --permutations 99");
    assert!(out.starts_with("The samples differ"), "{out}");
    assert!(out.contains("colour") && out.contains("\na "), "{out}");
    // A column of numbers in one table and of text in the other is categorical in both.
    place.write("three.csv", rows(0.0, ["1", "2"]));
    let (out, _) = place.good("test two-sample one.csv three.csv --permutations 99");
    assert!(out.contains("colour"), "{out}");
    let mut extra = rows(0.0, ["red", "blue"]).replace("a,b,colour", "a,b,colour,d").replace("red", "red,1");
    extra = extra.replace("blue", "blue,2");
    place.write("four.csv", extra);
    let (_, err) = place.good("test two-sample one.csv four.csv --permutations 9");
    assert!(err.contains("four.csv has columns that one.csv lacks, which are left out: d"), "{err}");
    place.bad("test two-sample four.csv one.csv", "there is no column 'd'");
}

#[test]
fn dependence_is_detected_and_attributed() {
    let place = Place::new();
    let (out, _) = place.good("test independence DIABETES --target target --permutations 199 --format csv");
    let table = cells(&out);
    assert_eq!([&table[1][0], &table[2][0]], ["s5", "bmi"]);
    assert_eq!(number(&table[1][4]), 1.0 / 200.0);
    let (out, _) =
        place.good("test independence DIABETES --target target,bp --attribute-to targets --permutations 99");
    assert!(out.contains("\ntarget") && out.contains("\nbp") && !out.contains("\ns1"), "{out}");
    for options in [
        "--given bmi,bp",
        "--estimator unbiased",
        "--wild-bootstrap 10",
        "--target-kernel matern32",
        "--categorical sex --kernel rbf --kernel laplacian",
    ] {
        let (out, _) =
            place.good(&format!("test independence DIABETES --target target --permutations 99 {options}"));
        assert!(out.contains("target depends on the features"), "{options}: {out}");
    }
    place.good("test independence DIABETES --target sex --categorical sex -o page.html --permutations 99");
    assert!(place.read("page.html").contains("What sex depends on"));
}

#[test]
fn features_are_selected() {
    let place = Place::new();
    for method in ["shapley", "backward", "lasso"] {
        let (out, _) = place
            .good(&format!("test select DIABETES --target target --features-to-select 3 --method {method}"));
        let table = cells(&out);
        assert_eq!(table[0], ["rank", "feature", "score"]);
        assert_eq!(table.len(), 4);
        let best: Vec<&str> = table[1..3].iter().map(|row| row[1].as_str()).collect();
        assert!(best.contains(&"s5") && best.contains(&"bmi"), "{method}: {best:?}");
    }
    let (out, _) = place.good("test select DIABETES --target target");
    assert_eq!(cells(&out).len(), 11);
}

#[test]
fn bad_questions_are_named() {
    let place = Place::new();
    place.write("one.csv", "a,b\n1,2\n");
    place.write("gap.csv", "a,b\n1,2\n3,\n4,5\n");
    place.write("same.csv", "a,y\n1,2\n3,2\n4,2\n9,2\n");
    place.write("out.html", "precious");
    let cases = [
        ("test two-sample one.csv", "give a second table, or --by COL"),
        ("test two-sample one.csv one.csv", "the first sample is too small: at least 2 rows are needed"),
        ("test two-sample gap.csv gap.csv -o out.html", "row 2 (line 3) of column 'b' is empty"),
        (
            "test two-sample DIABETES --by bmi",
            "two samples need two; compare one with all others by --by 'bmi=VALUE'",
        ),
        ("test two-sample DIABETES --by sex=3", "column 'sex' is never '3'; its values are: 1, 2"),
        ("test two-sample DIABETES --by colour", "there is no column 'colour'"),
        ("test two-sample DIABETES --by sex --ignore colour", "there is no column 'colour'"),
        ("test two-sample DIABETES --by sex --kernel rbff", "kernel"),
        ("test two-sample DIABETES --by sex --kernel sigmoid(gamma=0.01)", "ties the columns"),
        ("test two-sample DIABETES --by sex --length-scale-multiples 0", "give positive multiples"),
        (
            "test two-sample DIABETES --by sex --block-size 3",
            "--block-size is an option of --estimator block",
        ),
        (
            "test two-sample DIABETES --by sex --estimator block --block-size 400",
            "at least 400 rows are needed",
        ),
        ("test two-sample DIABETES --by sex --no-attribution -o out.html", "no values of features to show"),
        ("test two-sample DIABETES --by sex -o out.pdf", "not as .pdf"),
        ("test two-sample DIABETES --by sex --groups blood=s1,s9", "s9"),
        ("test independence same.csv --target y", "the target 'y' is the same in all rows"),
        ("test independence DIABETES --target colour", "there is no column 'colour'"),
        ("test independence DIABETES --target bmi --given bmi", "is in both --target and --given"),
        ("test independence DIABETES --target bmi --wild-bootstrap 0", "a positive number of rows"),
        (
            "test independence DIABETES --target bmi --wild-bootstrap 5 --estimator unbiased",
            "the wild bootstrap needs the biased estimator",
        ),
        (
            "test independence DIABETES --target bmi --given bp --categorical sex --permutations 9",
            "column = sex is not allowed: residuals exist for numeric columns only",
        ),
        ("test select DIABETES --target bmi --features-to-select 0", "give a number from 1 to 10"),
        ("test select DIABETES --target bmi --features-to-select 11", "give a number from 1 to 10"),
        ("test select same.csv --target y", "the same in all rows"),
    ];
    for (words, expected) in cases {
        let output = place.run(words);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{words}: {out}{err}");
        assert!(err.contains(expected), "{words}: expected '{expected}' in: {err}");
        assert!(!err.contains("panicked"), "{words}: {err}");
        assert_eq!(place.read("out.html"), "precious");
    }
}
