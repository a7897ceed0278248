//! Fits through landmarks have the same bytes if they are interrupted, run by separate commands, or use other
//! files.

use std::io::Read;
use std::path::Path;

use crate::common::{Place, diabetes, number, texts};

/// Writes the diabetes data four times with a little noise, as a folder of `files` CSV files.
fn data(place: &Place, folder: &str, files: usize, reversed: bool) {
    let text = std::fs::read_to_string(diabetes()).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let mut lines: Vec<String> = (0..4)
        .flat_map(|copy| {
            rows.lines().enumerate().map(move |(i, row)| {
                let (first, remaining) = row.split_once(',').unwrap();
                format!("{},{remaining}", number(first) + 1e-3 * f64::from(copy) * (i % 7) as f64)
            })
        })
        .collect();
    if reversed {
        lines.reverse();
    }
    std::fs::create_dir(place.path(folder)).unwrap();
    for (k, part) in lines.chunks(lines.len().div_ceil(files)).enumerate() {
        place.write(&format!("{folder}/part-{k:02}.csv"), format!("{header}\n{}\n", part.join("\n")));
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    std::fs::File::open(path).unwrap().read_to_end(&mut content).unwrap();
    content
}

const FIT: &str = "--target target --landmarks 40 --ridge 0.1 --seed 5";

/// Returns all digits of the predictions of a model at the bundled rows, for comparison of models.
fn predictions(place: &Place, model: &str) -> String {
    place.good(&format!("predict {model} DIABETES")).0
}

#[test]
fn files_and_order_do_not_matter() {
    let place = Place::new();
    data(&place, "a", 3, false);
    data(&place, "b", 7, true);
    let (_, err) = place.good(&format!("fit a {FIT} -o a.riesz"));
    assert!(err.contains("3 units of work") && err.contains("radius of the certificate"), "{err}");
    place.good(&format!("fit {}/b/*.csv {FIT} -o b.riesz", place.path("").display()));
    assert_eq!(predictions(&place, "a.riesz"), predictions(&place, "b.riesz"));
    place.good(&format!("--threads 1 fit a {FIT} -o c.riesz"));
    assert_eq!(bytes(&place.path("a.riesz")), bytes(&place.path("c.riesz")));
    // One file in memory, as one table or as units.
    place.good("explain a.riesz DIABETES -o why.csv");
    // The landmark error is kept with an option.
    let (_, err) = place.good(&format!("fit a {FIT} --posterior -o sure.riesz"));
    assert!(err.contains("distance from all rows as support points, estimated"), "{err}");
    assert!(place.good("predict sure.riesz DIABETES --std").0.lines().next().unwrap().contains("std"));
    assert!(place.good("inspect sure.riesz").0.contains("held, for the error of landmarks"));
    place.good(
        "explain sure.riesz DIABETES --background DIABETES --background-rows 5 --covariance -o sure.csv",
    );
    place.bad("predict a.riesz DIABETES --std", "posterior");
}

#[test]
fn a_killed_fit_goes_on_with_the_same_bytes() {
    let place = Place::new();
    data(&place, "a", 12, false);
    place.good(&format!("fit a {FIT} -o straight.riesz"));
    let words = format!("fit a {FIT} --checkpoint work -o m.riesz");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("riesz"))
        .current_dir(place.path(""))
        .args(words.split_whitespace())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // As soon as there is work to resume.
    let done = || {
        let folders = std::fs::read_dir(place.path("work")).into_iter().flatten().flatten();
        folders.filter(|f| f.path().join("unit-00001.stat").exists()).count()
    };
    while done() == 0 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = child.kill();
    child.wait().unwrap();
    // A kill leaves unfinished files under their temporary names.
    for name in place.files().iter().filter(|name| name.ends_with(".tmp")) {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    let (_, err) = place.good(&words);
    assert!(err.contains("continues with"), "{err}");
    assert_eq!(bytes(&place.path("straight.riesz")), bytes(&place.path("m.riesz")));
    // A damaged result is not used.
    let folder = std::fs::read_dir(place.path("work")).unwrap().next().unwrap().unwrap().path();
    let mut bad = bytes(&folder.join("unit-00003.stat"));
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    std::fs::write(folder.join("unit-00003.stat"), bad).unwrap();
    place.bad(&words, "unit-00003.stat");
    // Results for files that have changed since are not used either.
    place.write("a/part-00.csv", "age,target\n1,2\n");
    std::fs::remove_file(folder.join("unit-00000.stat")).unwrap();
    place.bad(&format!("distributed statistics {} --unit 0", folder.display()), "has changed since");
}

#[test]
fn units_are_plain_commands() {
    let place = Place::new();
    data(&place, "a", 4, false);
    place.good(&format!("fit a {FIT} --checkpoint whole -o whole.riesz"));
    let (out, _) = place.good(&format!("fit a {FIT} --checkpoint work --plan-only"));
    let plan = out.trim().to_string();
    place.bad(&format!("distributed solve {plan} -o m.riesz"), "--unit 0");
    place.bad(&format!("distributed statistics {plan} --unit 4"), "there is no unit 4");
    place.bad(&format!("distributed statistics {plan} --unit 0 --pass"), "riesz distributed solve");
    for unit in [2, 0, 3, 1] {
        place.good(&format!("distributed statistics {plan} --unit {unit}"));
    }
    let (_, err) = place.good(&format!("distributed statistics {plan} --unit 2"));
    assert!(err.contains("exists already"));
    place.good(&format!("distributed solve {plan} -o m.riesz"));
    place.good(&format!("distributed statistics {plan} --unit 3,1,0,2 --pass"));
    place.good(&format!("distributed solve {plan} -o m.riesz"));
    assert_eq!(predictions(&place, "whole.riesz"), predictions(&place, "m.riesz"));
    let unit = |k: usize| format!("{plan}/unit-0000{k}.stat");
    place.good(&format!("distributed merge {plan} {} {} {} -o abc.stat", unit(0), unit(1), unit(2)));
    place.good(&format!("distributed merge {plan} {} {} -o ba.stat", unit(1), unit(0)));
    place.good(&format!("distributed merge {plan} abc.stat --without {} -o ab.stat", unit(2)));
    assert_eq!(bytes(&place.path("ab.stat")), bytes(&place.path("ba.stat")));
    place.bad(&format!("distributed merge {plan} abc.stat {} -o x.stat", unit(1)), "would count twice");
    place.bad(
        &format!("distributed merge {plan} ab.stat --without {} -o x.stat", unit(3)),
        "unit 3 is not in",
    );
    place.bad(&format!("distributed merge {plan} a/part-00.csv -o x.stat"), "checksum");
    let output = place.run(&format!("distributed solve {plan} --statistics ab.stat -o part.riesz"));
    assert!(texts(&output).1.contains("2 of 4 units") || !output.status.success());
}

#[test]
fn ridges_are_chosen_from_one_pass() {
    let place = Place::new();
    data(&place, "a", 2, false);
    let (_, err) = place.good("fit a --target target --landmarks 60 -o m.riesz");
    assert!(err.contains("held-out mean squared error with half of the landmarks"), "{err}");
    place.good("fit DIABETES --target target --landmarks 60 --folds 3 -o n.riesz");
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new();
    data(&place, "a", 2, false);
    place.write("empty.csv", "");
    std::fs::create_dir(place.path("nothing")).unwrap();
    for (words, expected) in [
        ("fit a --target target -o m.riesz", "--landmarks"),
        ("fit DIABETES DIABETES --target target --landmarks 9 -o m.riesz", "named twice"),
        (
            "fit nothing --target target --landmarks 9 -o m.riesz",
            "has no file whose name ends in .csv, \
            .tsv, .parquet",
        ),
        ("fit no*.csv --target target --landmarks 9 -o m.riesz", "no file matches"),
        ("fit - --target target --landmarks 9 -o m.riesz", "standard input"),
        ("fit a --target target --landmarks 0 -o m.riesz", "--landmarks"),
        ("fit a --target z --landmarks 9 -o m.riesz", "there is no column 'z'"),
        ("fit a --target target --landmarks 9 --checkpoint a/part-00.csv -o m.riesz", "cannot write"),
        ("fit a --target target --landmarks 9 --plan-only", "--checkpoint DIR"),
        ("fit DIABETES --target target --checkpoint w -o m.riesz", "--landmarks"),
        ("fit a --target target --landmarks 9 --bootstrap 9 -o m.riesz", "without landmarks"),
        ("fit a --target target --landmarks 9 --ridge 1 --folds 3 -o m.riesz", "'auto'"),
        ("fit DIABETES --target target --corrections 2 -o m.riesz", "through landmarks"),
        ("fit empty.csv --target target --landmarks 9 -o m.riesz", "empty.csv"),
        ("distributed statistics a --unit 0", "holds no plan"),
        ("distributed solve nowhere -o m.riesz", "holds no plan"),
    ] {
        place.bad(words, expected);
    }
    assert!(!place.path("m.riesz").exists());
}

/// Solves by single commands; returns the number of passes over all units.
fn pass_by_pass(place: &Place, plan: &str, units: u64) -> usize {
    place.bad(&format!("distributed statistics {plan} --unit 0"), "--pass");
    place.bad(&format!("distributed solve {plan} --statistics x.stat -o s.riesz"), "leave it out");
    let mut passes = 0;
    let _ = std::fs::remove_file(place.path("s.riesz"));
    while !place.run(&format!("distributed solve {plan} -o s.riesz")).status.success() {
        assert!(!place.path("s.riesz").exists() && passes < 60);
        place.bad(&format!("distributed solve {plan} -o s.riesz"), &format!("after {passes} passes"));
        for unit in (0..units).rev() {
            place.good(&format!("distributed statistics {plan} --unit {unit} --pass"));
        }
        passes += 1;
    }
    passes
}

#[test]
fn conjugate_gradients_take_passes() {
    let place = Place::new();
    std::fs::create_dir(place.path("a")).unwrap();
    // More rows than the sample.
    for k in 0..4 {
        let line = |i: i32| {
            let (x, z) = (f64::from(i * 7919 % 1000) / 250.0 - 2.0, f64::from((i + k) * 613 % 997) / 250.0);
            format!("{x},{z},{}\n", (2.0 * x).sin() + z * x + f64::from(i % 7) / 20.0)
        };
        place.write(&format!("a/{k}.csv"), format!("x,z,y\n{}", (0..1500).map(line).collect::<String>()));
    }
    let fit = "fit a --target y --landmarks 60 --ridge .1 --solver cg";
    let (_, err) = place.good(&format!("{fit} --checkpoint work -o m.riesz"));
    assert!(err.contains("by conjugate gradients") && err.contains("steps"), "{err}");
    place.good(&format!("{fit} --checkpoint work -o n.riesz"));
    assert_eq!(bytes(&place.path("m.riesz")), bytes(&place.path("n.riesz")));
    let folder = std::fs::read_dir(place.path("work")).unwrap().next().unwrap().unwrap().path();
    place.good(&format!("{fit} --checkpoint other --plan-only"));
    let other = std::fs::read_dir(place.path("other")).unwrap().next().unwrap().unwrap().path();
    assert!(pass_by_pass(&place, &other.display().to_string(), 4) > 3);
    assert_eq!(place.good("predict m.riesz a/1.csv").0, place.good("predict s.riesz a/1.csv").0);
    // A lost or damaged survey is an error.
    std::fs::write(folder.join("survey.bin"), "x").unwrap();
    place.bad(&format!("{fit} --checkpoint work -o n.riesz"), "survey");
    std::fs::remove_file(folder.join("survey.bin")).unwrap();
    place.bad(&format!("{fit} --checkpoint work -o n.riesz"), "survey.bin is missing");
    for (words, expected) in [
        ("fit DIABETES --target target --solver cg -o m.riesz", "through landmarks"),
        ("fit a --target y --landmarks 9 --solver cg --corrections 2 -o m.riesz", "'direct'"),
        ("fit a --target y --landmarks 9 --solver direct --tolerance 1e-3 -o m.riesz", "'cg'"),
        ("fit a --target y --landmarks 9 --tolerance 2 -o m.riesz", "--tolerance"),
    ] {
        place.bad(words, expected);
    }
}

#[test]
fn classes_are_learnt_in_passes() {
    let place = Place::new();
    std::fs::create_dir(place.path("a")).unwrap();
    for k in 0..3 {
        let rows =
            (0..300).map(|i| (f64::from(i * 7 % 100) / 25.0 - 2.0, f64::from((i + k) * 13 % 50) / 25.0));
        let line =
            |(x, z): (f64, f64)| format!("{x},{z},{}\n", if x * x + 0.3 * z > 1.2 { "far" } else { "near" });
        place.write(&format!("a/{k}.csv"), format!("x,z,where\n{}", rows.map(line).collect::<String>()));
    }
    let fit = "fit a --target where --model klr --landmarks 50";
    let (_, err) = place.good(&format!("{fit} --checkpoint work -o m.riesz"));
    assert!(err.contains("passes"), "{err}");
    place.good(&format!("{fit} --checkpoint work -o n.riesz"));
    assert_eq!(bytes(&place.path("m.riesz")), bytes(&place.path("n.riesz")));
    let (out, _) = place.good("predict m.riesz a/0.csv");
    let (predicted, truth) = (crate::common::cells(&out), crate::common::cells(&place.read("a/0.csv")));
    let right = predicted[1..]
        .iter()
        .zip(&truth[1..])
        .filter(|(prediction, row)| prediction.contains(&row[2]))
        .count();
    assert!(right > 285, "{right}");
    place.good("explain m.riesz a/1.csv -o why.csv");
    // By single commands, pass by pass.
    let (out, _) = place.good(&format!("{fit} --ridge 0.1 --checkpoint work --plan-only"));
    let passes = pass_by_pass(&place, out.trim(), 3);
    assert!((4..12).contains(&passes), "{passes}");
    place.good(&format!("{fit} --ridge 0.1 --checkpoint straight -o t.riesz"));
    assert_eq!(place.good("predict s.riesz a/0.csv").0, place.good("predict t.riesz a/0.csv").0);
    place.bad(
        "fit DIABETES --target sex --model klr --landmarks 20 --class-weight balanced -o m.riesz",
        "without landmarks",
    );
    // A Gaussian process likewise, with random classes: with its posterior, probabilities are averages.
    std::fs::create_dir(place.path("b")).unwrap();
    for k in 0..3 {
        let swap = |(i, line): (usize, &str)| match i % 11 {
            5 if line.ends_with("far") => line.replace("far", "near") + "\n",
            _ => format!("{line}\n"),
        };
        let lines = place.read(&format!("a/{k}.csv"));
        place.write(&format!("b/{k}.csv"), lines.lines().enumerate().map(swap).collect::<String>());
    }
    let fit = "fit b --target where --model gpc --landmarks 50 --kernel rbf";
    let (_, err) = place.good(&format!("{fit} --posterior --checkpoint work -o g.riesz"));
    assert!(err.contains("log marginal likelihood") && err.contains("passes"), "{err}");
    let (out, _) = place.good(&format!("{fit} --posterior --checkpoint other --plan-only"));
    pass_by_pass(&place, out.trim(), 3);
    let (averaged, _) = place.good("predict g.riesz b/0.csv");
    assert_eq!(place.good("predict s.riesz b/0.csv").0, averaged);
    place.good(&format!("{fit} --checkpoint work -o h.riesz"));
    let latent = crate::common::cells(&place.good("predict h.riesz b/0.csv").0);
    let averaged = crate::common::cells(&averaged);
    assert_eq!(
        (averaged[0].last().unwrap().as_str(), latent[0].last().unwrap().as_str()),
        ("p(near)", "near vs far")
    );
    let number = |row: &[String]| row.last().unwrap().parse::<f64>().unwrap();
    for (averaged_row, latent) in averaged[1..].iter().zip(&latent[1..]) {
        let (average, at_mean) = (number(averaged_row) - 0.5, 1.0 / (1.0 + (-number(latent)).exp()) - 0.5);
        assert!(average * at_mean >= 0.0 && average.abs() <= at_mean.abs(), "{average} {at_mean}");
    }
    place.bad("predict g.riesz b/0.csv --std", "which predicts classes");
    // Logistic regression keeps the landmark error.
    place.good("fit a --target where --model klr --landmarks 50 --ridge 0.1 --posterior -o k.riesz");
    place.good("explain k.riesz a/1.csv --covariance -o why.csv");
    place.bad(&format!("{fit} --ridge 0.1 -o m.riesz"), "ridge");
    place.write("three.csv", "x,y\n1,a\n2,b\n3,c\n4,a\n");
    place.bad("fit three.csv --target y --model klr --landmarks 2 -o m.riesz", "takes two");
}
