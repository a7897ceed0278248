//! Every command on real data.

use crate::common::{Place, cells, diabetes, number, texts};

fn fitted() -> Place {
    let place = Place::new();
    place.good("fit DIABETES --target target --model krr --categorical sex -o m.riesz");
    place
}

#[test]
fn fit_says_what_it_did() {
    let place = Place::new();
    let (out, err) = place.good("fit DIABETES --target target --categorical sex -o m.riesz");
    assert!(out.is_empty());
    assert!(err.contains("categorical column 'sex': 2 levels") && err.contains("leave-one-out"), "{err}");
    let (out, err) = place.good("fit DIABETES --target target --ridge 2 --quiet --format json -o m.riesz");
    assert!(err.is_empty() && serde_json::from_str::<serde_json::Value>(&out).is_ok());
    assert_eq!(place.files(), ["m.riesz"]);
    // A fit prints a note if explanations of the model need a background, unless its columns are one player.
    let note = "note: explanations of this model will need a background or a baseline";
    let polynomial = "fit DIABETES --target target --kernel polynomial(age,bmi)+rbf --ridge 1 -o m.riesz";
    let (_, err) = place.good(polynomial);
    assert!(err.contains(note) && err.contains("ties the columns age, bmi together"), "{err}");
    let (_, err) = place.good(&format!("{polynomial} --groups body=age,bmi"));
    assert!(!err.contains(note), "{err}");
}

#[test]
fn gaussian_processes_learn_through_landmarks() {
    let place = Place::new();
    let fit = "fit DIABETES --target target --model gp --fixed-kernel";
    let (_, err) = place.good(&format!("{fit} --landmarks 20 --posterior -o m.riesz"));
    assert!(err.contains("through landmarks") && err.contains("evidence upper bound"), "{err}");
    let (sparse, _) = place.good("predict m.riesz DIABETES --std");
    place.good(&format!("{fit} --posterior -o all.riesz"));
    let (dense, _) = place.good("predict all.riesz DIABETES --std");
    assert_eq!((cells(&sparse).len(), &cells(&sparse)[0]), (443, &cells(&dense)[0]));
    assert_ne!(sparse, dense);
    place
        .bad("fit DIABETES --target target --model svr --landmarks 20 -o s.riesz", "--landmarks belongs to ");
}

#[test]
fn predictions_are_those_of_the_explanation() {
    let place = fitted();
    let (predicted, _) = place.good("predict m.riesz DIABETES");
    let (explained, err) = place.good("explain m.riesz DIABETES");
    assert!(err.contains("game: functional") && err.contains("proved bound"), "{err}");
    let (predicted, explained) = (cells(&predicted), cells(&explained));
    assert_eq!(predicted.len(), 443);
    assert_eq!(explained[0][..5], ["row", "output", "base_value", "prediction", "residual"]);
    assert_eq!(explained[0][5..], ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]);
    for (i, (p, e)) in predicted[1..].iter().zip(&explained[1..]).enumerate() {
        assert_eq!(p[0], i.to_string());
        assert_eq!((&p[1], &e[1]), (&e[3], &"target".to_string()));
        let total: f64 = number(&e[2]) + e[5..].iter().map(|v| number(v)).sum::<f64>();
        assert!((number(&e[3]) - total).abs() < 1e-9);
    }
}

#[test]
fn every_game_adds_up_in_every_format() {
    let place = fitted();
    let head: String =
        std::fs::read_to_string(diabetes()).unwrap().lines().take(6).map(|l| l.to_string() + "\n").collect();
    place.write("rows.csv", &head);
    place.write("one.csv", head.lines().take(2).collect::<Vec<_>>().join("\n"));
    for (game, options) in [
        ("functional", ""),
        ("baseline", "--baseline one.csv"),
        ("interventional", "--background rows.csv --background-weights bp"),
        ("marginal-product", "--background DIABETES --background-rows 20 --seed 3"),
        (
            "observational",
            "--background DIABETES --background-rows 60 --conditional-ridge 0.01 --groups s=s1,s2,s3,s4",
        ),
    ] {
        place.good(&format!("explain m.riesz rows.csv --game {game} {options} -o e.csv"));
        place.good(&format!("explain m.riesz rows.csv --game {game} {options} -o e.json"));
        place.good(&format!("explain m.riesz rows.csv --game {game} {options} -o e.parquet"));
        let table = cells(&place.read("e.csv"));
        assert_eq!(table.len(), 6, "{game}");
        let explanation =
            riesz::format::explanation_json::read(place.read("e.json").as_bytes()).unwrap().explanation;
        assert_eq!(explanation.provenance.game, game);
        assert!(explanation.certificate().unwrap().holds);
        for (i, row) in table[1..].iter().enumerate() {
            let values: Vec<f64> = row[5..].iter().map(|v| number(v)).collect();
            assert_eq!(values, explanation.row_values(i, 0), "{game}");
        }
    }
    assert!(place.good("explain m.riesz rows.csv --baseline one.csv").1.contains("game: baseline"));
    assert!(place.good("explain m.riesz rows.csv --background rows.csv").1.contains("game: interventional"));
    let (card, _) = place.good("inspect e.json");
    assert!(card.contains("observational") && card.contains("mean |value| of target"), "{card}");
}

#[test]
fn text_summarises_the_table() {
    let place = fitted();
    let table = cells(&place.good("explain m.riesz DIABETES").0);
    let (text, _) = place.good("explain m.riesz DIABETES --format text");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 13, "{text}");
    let cell = |text: &str| text.replace('−', "-").parse::<f64>().unwrap();
    for (j, name) in table[0].iter().enumerate().skip(5) {
        let values: Vec<f64> = table[1..].iter().map(|row| number(&row[j])).collect();
        let mean = values.iter().map(|v| v.abs()).sum::<f64>() / values.len() as f64;
        let line = lines.iter().find(|line| line[0] == *name).unwrap();
        assert_eq!(line.len(), 6, "{text}");
        for (shown, value) in line[1..].iter().zip([mean].iter().chain(&values)) {
            assert!((cell(shown) - value).abs() <= 6e-4 * value.abs(), "{name}: {shown} for {value}");
        }
    }
    let means: Vec<f64> = lines[2..12].iter().map(|line| cell(line[1])).collect();
    assert!(means.is_sorted_by(|a, b| a >= b), "{text}");
}

#[test]
fn sampled_coalitions_come_with_standard_errors() {
    let place = fitted();
    let rows = std::fs::read_to_string(diabetes()).unwrap();
    place.write("rows.csv", rows.lines().take(4).collect::<Vec<_>>().join("\n"));
    let options = "--game observational --background DIABETES --background-rows 50 --conditional-ridge 0.01";
    let (exact_text, err) = place.good(&format!("explain m.riesz rows.csv {options}"));
    assert!(err.contains("exact"), "{err}");
    let (sampled_text, err) = place.good(&format!("explain m.riesz rows.csv {options} --coalitions 200"));
    assert!(err.contains("estimated: standard errors up to"), "{err}");
    let (exact_rows, sampled_rows) = (cells(&exact_text), cells(&sampled_text));
    assert!(sampled_rows[0].len() == 25 && sampled_rows[0][15] == "std_error:age", "{:?}", sampled_rows[0]);
    for (exact_row, sampled_row) in exact_rows[1..].iter().zip(&sampled_rows[1..]) {
        for j in 5..15 {
            let error = (number(&exact_row[j]) - number(&sampled_row[j])).abs();
            assert!(error <= 6.0 * number(&sampled_row[j + 10]), "{j}: {error}");
        }
    }
    place.good(&format!(
        "explain m.riesz rows.csv {options} --target-std-error 0.5 --coalitions 1000 -o e.parquet"
    ));
    place.good("report e.parquet -o r.html");
    assert!(place.read("r.html").contains("These values are estimates."));
    // With the same seed, a larger budget contains the smaller one: standard errors decrease, and values
    // change within them.
    let (larger_text, _) = place.good(&format!("explain m.riesz rows.csv {options} --coalitions 600"));
    for (larger_row, sampled_row) in cells(&larger_text)[1..].iter().zip(&sampled_rows[1..]) {
        assert!((15..25).all(|j| number(&larger_row[j]) < number(&sampled_row[j])));
    }
    for tolerance in ["", "=1e-9"] {
        let iterated = format!("explain m.riesz rows.csv {options} --cg-tol{tolerance}");
        let (iterated, err) = place.good(&iterated);
        assert!(err.contains("exact"), "{err}");
        for (direct_row, other) in exact_rows[1..].iter().zip(&cells(&iterated)[1..]) {
            assert!(
                (5..15).all(|j| (number(&direct_row[j]) - number(&other[j])).abs() < 1e-2),
                "{direct_row:?} {other:?}"
            );
        }
    }
    place.bad(
        &format!("explain m.riesz rows.csv {options} --cg-tol=2"),
        "--cg-tol = 2 is not allowed: it is a number between 0 and 1",
    );
    place
        .bad(&format!("explain m.riesz rows.csv {options} --conditional-landmarks 9 --cg-tol"), "choose one");
    place.bad(
        "explain m.riesz rows.csv --cg-tol",
        "--cg-tol belongs to the observational and the causal game",
    );
    place.bad(
        "explain m.riesz rows.csv --conditional-ridge 0.1",
        "--conditional-ridge belongs to the observational and the causal game",
    );
    place.bad("explain m.riesz rows.csv --game observational --coalitions 5", "10 features take at least 36");
}

#[test]
fn programs_are_explained_by_their_output() {
    let place = fitted();
    let riesz = env!("CARGO_BIN_EXE_riesz");
    let rows = std::fs::read_to_string(diabetes()).unwrap();
    place.write("rows.csv", rows.lines().take(4).collect::<Vec<_>>().join("\n"));
    // The background has the columns that the program reads: all but the target.
    let without_target = |line: &str| line.rsplit_once(',').unwrap().0.to_string();
    place.write("bg.csv", rows.lines().step_by(60).map(without_target).collect::<Vec<_>>().join("\n"));
    // The program calls `riesz predict`, so that the answer is known.
    place.write("ask.sh", format!("{riesz} predict m.riesz - --quiet | cut -d, -f2"));
    let explain_players = |groups: &str, model: &str, options: &str| {
        let mut command = place.command();
        command.args(["explain", model, "rows.csv", "--background", "bg.csv", "--groups", groups]);
        command.args(options.split_whitespace());
        let output = command.output().unwrap();
        (output.status.code(), texts(&output))
    };
    let explain = |model: &str, options: &str| explain_players("s=s1,s2,s3,s4,s5,s6", model, options);
    let (_, (expected, _)) = explain("m.riesz", "");
    let (code, (actual, err)) = explain("cmd:sh ask.sh", "");
    assert!(code == Some(0) && err.contains("exact"), "{err}");
    let (expected, actual) = (cells(&expected), cells(&actual));
    assert_eq!(actual[0], expected[0]);
    for (a, b) in expected[1..].iter().zip(&actual[1..]) {
        assert!((2..a.len()).all(|j| (number(&a[j]) - number(&b[j])).abs() < 1e-9), "{a:?} {b:?}");
    }
    let (_, (_, err)) = explain(
        "cmd:awk -F, 'NR > 1 {print 2 * $3}'",
        "--game observational --conditional gaussian --conditional-samples 30",
    );
    assert!(err.contains("estimated: standard errors"), "{err}");
    // Random orders, which few players do not need, with standard errors; the exact values are within five of
    // them.
    let permutations = "--estimator permutation --orders 4";
    let (code, (along, err)) = explain("cmd:sh ask.sh", permutations);
    assert!(code == Some(0) && err.contains("exact"), "{err}");
    for (a, b) in expected[1..].iter().zip(&cells(&along)[1..]) {
        assert!((2..a.len()).all(|j| (number(&a[j]) - number(&b[j])).abs() < 1e-9), "{a:?} {b:?}");
    }
    let (_, (expected, _)) = explain_players("s=s5,s6", "m.riesz", "");
    let (code, (along, err)) = explain_players("s=s5,s6", "cmd:sh ask.sh", permutations);
    assert!(code == Some(0) && err.contains("estimated: standard errors"), "{err}");
    let (along, expected) = (cells(&along), cells(&expected));
    let place_of = |name: &str| along[0].iter().position(|cell| cell == name);
    for (row, exact) in along.iter().zip(&expected).skip(1) {
        for (k, name) in expected[0].iter().enumerate().skip(5) {
            let [value, error] =
                [name.clone(), format!("std_error:{name}")].map(|n| number(&row[place_of(&n).unwrap()]));
            assert!((value - number(&exact[k])).abs() <= 5.0 * error + 1e-9, "{name}: {value} {error}");
        }
    }
    // Landmarks are passed on, and a larger budget reuses the coalitions of a smaller one.
    let observational = "--game observational --conditional-ridge 0.01";
    let (_, (full, _)) = explain("cmd:sh ask.sh", observational);
    let (_, (near, err)) = explain("cmd:sh ask.sh", &format!("{observational} --conditional-landmarks 3"));
    assert!(err.contains("exact") && near != full, "{err}");
    for (model, options, culprit) in [
        ("cmd:exit 3", "", "ended with the exit code 3"),
        ("cmd:echo hello", "", "0 lines of numbers to"),
        ("cmd:sh ask.sh", "--game functional", "takes a model whose kernel is known"),
        ("cmd:sh ask.sh", "--conditional copula", "--conditional belongs to the observational game"),
        (
            "cmd:sh ask.sh",
            "--conditional-landmarks 3",
            "--conditional-landmarks belongs to the observational and the causal game",
        ),
        (
            "cmd:sh ask.sh",
            "--game observational --conditional copula --random-features 9",
            "--random-features belongs to the observational and the causal game, whose conditional \
             distributions come from a kernel",
        ),
        (
            "cmd:sh ask.sh",
            "--game observational --conditional kernel --conditional-samples 9",
            "--conditional-samples belongs to conditional distributions that are gaussian or copula",
        ),
        ("cmd:sh ask.sh", "--robustness 1", "--robustness needs a model with a kernel"),
        (
            "m.riesz",
            "--conditional kernel",
            "--conditional belongs to the observational game of a function or program",
        ),
        (
            "m.riesz",
            "--game observational --conditional-samples 9",
            "--conditional-samples belongs to conditional distributions",
        ),
        ("m.riesz", "--game observational --conditional copula", "of a function or program"),
        ("cmd:sh ask.sh", "--game observational --cg-tol", "--cg-tol belongs to"),
        (
            "cmd:sh ask.sh",
            "--game observational --estimator permutation",
            "permutations estimate the interventional",
        ),
        ("cmd:sh ask.sh", "--orders 9", "--orders belongs to the estimator by permutations"),
    ] {
        let (code, (_, err)) = explain(model, options);
        assert!(code == Some(2) && err.contains(culprit), "{model} {options}: {err}");
    }
}

/// The bound is printed and saved with the explanation, in the columns' units or in standard deviations.
#[test]
fn robustness_bounds_are_printed_and_saved() {
    let place = fitted();
    let rows = std::fs::read_to_string(diabetes()).unwrap();
    place.write("rows.csv", rows.lines().take(3).collect::<Vec<_>>().join("\n"));
    let bound = |options: &str| {
        let explain = "explain m.riesz rows.csv --background DIABETES --background-rows 9";
        let (_, err) = place.good(&format!("{explain} {options} -o e.json"));
        let explanation =
            riesz::format::explanation_json::read(place.read("e.json").as_bytes()).unwrap().explanation;
        let fact = |name: &str| {
            let matching = explanation.provenance.run.iter().find(|fact| fact.name == name);
            matching.map_or_else(|| panic!("{name}"), |fact| fact.value.clone())
        };
        let (moves, limit) = (fact("robustness to"), fact("no value moves by more than"));
        assert!(err.contains(&limit) && err.contains(&moves), "{err}");
        number(&limit)
    };
    // Moves of bmi alone, by one and by two standard deviations, and of all columns.
    let column: Vec<f64> = cells(&rows)[1..].iter().map(|row| number(&row[2])).collect();
    let mean = column.iter().sum::<f64>() / column.len() as f64;
    let deviation = (column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / column.len() as f64).sqrt();
    let (single, two) = (
        bound(&format!("--robustness bmi={deviation}")),
        bound(&format!("--robustness bmi={}", 2.0 * deviation)),
    );
    assert!(0.0 < single && single < two && two <= bound("--robustness 2"), "{single} {two}");
    assert!(
        bound("--robustness 0") == 0.0
            && bound("--game observational --conditional-ridge 0.01 --robustness 1") > single
    );
    place.good("report m.riesz rows.csv --background rows.csv --robustness 1 -o r.html");
    assert!(place.read("r.html").contains("no value moves by more than"));
    for (options, culprit) in [
        ("--robustness x", "'x' cannot be read"),
        ("--robustness -1", "'-1' cannot be read"),
        ("--robustness bmi=", "'' cannot be read"),
        ("--robustness weight=1", "there is no column 'weight'"),
        ("--robustness 1 --game functional", "game = functional"),
    ] {
        place.bad(&format!("explain m.riesz rows.csv {options}"), culprit);
    }
    place.good("explain m.riesz rows.csv -o e.json");
    place.bad("report e.json --robustness 1 -o r.html", "does not use --robustness");
    place.bad("report e.json --conditional-landmarks 1 -o r.html", "does not use --conditional-landmarks");
}

#[test]
fn values_of_protected_features_keep_to_their_range() {
    let place = Place::new();
    let rows = std::fs::read_to_string(diabetes()).unwrap();
    place.write("some.csv", rows.lines().take(81).collect::<Vec<_>>().join("\n"));
    let values = |name: &str| {
        place.good(&format!("explain {name} some.csv --game interventional --background some.csv -o e.json"));
        let explanation =
            riesz::format::explanation_json::read(place.read("e.json").as_bytes()).unwrap().explanation;
        let position = |player: &str| explanation.players.iter().position(|p| p.name == player).unwrap();
        let (bmi, bp) = (position("bmi"), position("bp"));
        (0..explanation.rows())
            .map(|i| (explanation.row_values(i, 0)[bmi], explanation.row_values(i, 0)[bp]))
            .collect::<Vec<_>>()
    };
    for (model, extra) in [("krr", "--ridge 0.5"), ("svr", "--c 5")] {
        let fit = format!("fit some.csv --target target --model {model} {extra}");
        place.good(&format!("{fit} -o plain.riesz"));
        place.good(&format!("{fit} --protect bmi --protect-range -10,15 --strength 1e5 -o band.riesz"));
        let (plain, band) = (values("plain.riesz"), values("band.riesz"));
        assert!(plain.iter().any(|(bmi, _)| !(-20.0..25.0).contains(bmi)), "{plain:?}");
        assert!(band.iter().all(|(bmi, _)| (-12.0..17.0).contains(bmi)), "{band:?}");
        place.good(&format!("{fit} --protect bmi,bp --protect-equal --strength 1e5 -o equal.riesz"));
        let difference = |values: &[(f64, f64)]| {
            values.iter().map(|(bmi, bp)| (bmi - bp).abs()).sum::<f64>() / values.len() as f64
        };
        let (before, after) = (difference(&plain), difference(&values("equal.riesz")));
        assert!(after < 0.1 * before, "{before} {after}");
    }
    // The posterior of a Gaussian process with a penalty; only targets leave it normal.
    let process = "fit some.csv --target target --model gp --protect bmi --strength 1000";
    let (_, err) = place.good(&format!("{process} --posterior -o gp.riesz"));
    assert!(err.contains("strength of the penalty"), "{err}");
    place.good("explain gp.riesz some.csv --background some.csv --covariance -o gp.json");
    place.bad(&format!("{process} --protect-range 0,inf -o no.riesz"), "normal only with targets");
}

#[test]
fn protected_features_lose_importance() {
    let place = Place::new();
    let importance = |name: &str, game: &str| {
        place.good(&format!(
            "explain {name} DIABETES --game {game} --background DIABETES --background-rows \
                             60 --groups body=bmi,bp -o e.json"
        ));
        let explanation =
            riesz::format::explanation_json::read(place.read("e.json").as_bytes()).unwrap().explanation;
        let position = explanation.players.iter().position(|p| p.name == "body").unwrap();
        explanation.mean_abs(0)[position]
    };
    let rows = std::fs::read_to_string(diabetes()).unwrap();
    place.write("some.csv", rows.lines().take(121).collect::<Vec<_>>().join("\n"));
    let fit = "fit some.csv --target target --ridge 0.5 --groups body=bmi,bp";
    place.good(&format!("{fit} -o plain.riesz"));
    let mut importances = (0.0, 0.0);
    for game in ["interventional", "observational"] {
        let protect = format!("--protect body --protect-game {game} --strength 1000");
        let (_, err) = place.good(&format!("{fit} {protect} -o m.riesz"));
        assert!(err.contains(&format!("body ({game} values)")), "{err}");
        let (before, after) = (importance("plain.riesz", game), importance("m.riesz", game));
        assert!(after < 0.5 * before, "{game}: {before} {after}");
        importances = (before, after);
    }
    // Through landmarks the model is nearly the same.
    let protect =
        "--protect body --protect-game observational --strength 1000 --protect-conditional-landmarks 60";
    place.good(&format!("{fit} {protect} -o near.riesz"));
    let ((before, exact), near) = (importances, importance("near.riesz", "observational"));
    assert!(near != exact && near < 0.5 * before, "{near} {exact}");
    // With more than 16 features the penalised functional is estimated, and the model card reports it.
    let line = |(i, line): (usize, &str)| {
        let extra_cells: Vec<String> = (0..8)
            .map(|j| if i == 0 { format!("z{j}") } else { ((i * (3 + 2 * j) + i * i) % 31).to_string() })
            .collect();
        format!("{},{line}\n", extra_cells.join(","))
    };
    place.write("wide.csv", rows.lines().take(81).enumerate().map(line).collect::<String>());
    let wide = "fit wide.csv --target target --ridge 0.5 --protect bmi --protect-game observational";
    let (_, err) =
        place.good(&format!("{wide} --protect-coalitions 100 --protect-conditional-ridge 0.01 -o w.riesz"));
    assert!(err.contains("its values are estimated from 100 coalitions of features"), "{err}");
    place.bad(
        &format!("{wide} --protect-coalitions 9 -o no.riesz"),
        "a value among 18 features takes at least 34",
    );
    for (words, culprit) in [
        ("--model gpc --protect age", "--protect belongs to krr, klr, svc, svr, gp, not to gpc"),
        ("--protect weight", "there is no column 'weight'"),
        ("--protect age --strength -1", "strength = -1"),
        ("--protect age --protect-range 1,0", "give a lower and an upper end"),
        ("--protect age --protect-range 1", "give a lower and an upper end"),
        ("--protect age --protect-equal", "features with equal values"),
        ("--protect-range 0,1", "--protect"),
        ("--protect age --protect-conditional-ridge 0.1", "--protect-conditional-ridge belongs to"),
        ("--protect age --protect-conditional-landmarks 5", "--protect-conditional-landmarks belongs to"),
        ("--protect age --protect-coalitions 5", "--protect-coalitions belongs to"),
        (
            "--protect age --protect-game observational --protect-conditional-landmarks 5 \
             --protect-random-features 5",
            "--protect-conditional-landmarks = 5 is not allowed: n_random_features is an alternative",
        ),
        (
            "--protect age --protect-game observational --protect-conditional-landmarks 0",
            "conditional-landmarks = 0",
        ),
        ("--kernel sigmoid(gamma=0.01) --protect age", "ties the columns"),
    ] {
        place.bad(&format!("fit DIABETES --target target --ridge 1 {words} -o no.riesz"), culprit);
    }
    assert!(!place.files().contains(&"no.riesz".to_string()));
}

#[test]
fn parquet_is_read_as_csv_is() {
    let place = fitted();
    place.good("explain m.riesz DIABETES -o e.parquet");
    place.good("explain m.riesz DIABETES -o e.csv");
    // An explanation is a table; one of its columns is learnt from the others.
    for kind in ["csv", "parquet"] {
        place
            .good(&format!("fit e.{kind} --target prediction --ignore row,output --ridge 1 -o {kind}.riesz"));
        place.good(&format!("predict {kind}.riesz e.{kind} -o {kind}-out.csv"));
    }
    assert_eq!(place.read("csv-out.csv"), place.read("parquet-out.csv"));
    // A model fitted on one table reads the other, and a text column is a category.
    place.good("predict csv.riesz e.parquet -o p.json");
    let (_, err) = place.good("fit e.parquet --target prediction --ignore row --ridge 1 -o t.riesz");
    assert!(err.contains("categorical column 'output': 1 levels"), "{err}");
}

#[test]
fn results_do_not_depend_on_threads_or_on_how_rows_arrive() {
    let place = fitted();
    let (single, _) =
        place.good("explain m.riesz DIABETES --background DIABETES --background-rows 10 --threads 1");
    let (two, _) =
        place.good("explain m.riesz DIABETES --background DIABETES --background-rows 10 --threads 2");
    assert!(single == two);
    let text = std::fs::read(diabetes()).unwrap();
    let piped = place.run_with("explain m.riesz - --background DIABETES --background-rows 10", text);
    assert!(texts(&piped).0 == single);
}

#[test]
fn groups_are_players() {
    let place = Place::new();
    let groups = place.write("groups.txt", "# blood\nblood=s1,s2,s3,s4,s5,s6\n\nbody = bmi, bp\n");
    let groups = groups.display();
    place.good(&format!("fit DIABETES --target target --ridge 1 --groups {groups} -o m.riesz"));
    let (out, _) = place.good("explain m.riesz DIABETES");
    assert_eq!(cells(&out)[0][5..], ["age", "sex", "body", "blood"]);
    let (out, _) = place.good("explain m.riesz DIABETES --groups all=age,sex");
    assert_eq!(cells(&out)[0][5..].len(), 9);
    // A kernel that ties columns is explained if they are one player, and refused otherwise.
    place.good("fit DIABETES --target target --ridge 1 --kernel sigmoid(gamma=0.01) -o joint.riesz");
    place.bad("explain joint.riesz DIABETES", "make them one feature");
    place.good("explain joint.riesz DIABETES --groups all=age,sex,bmi,bp,s1,s2,s3,s4,s5,s6");
    assert!(place.good("inspect joint.riesz").0.contains("no exact values"));
}

#[test]
fn several_targets_and_text_columns() {
    let place = Place::new();
    let mut text = String::from("\u{feff}size;colour ;y1;y2;weight\r\n");
    for i in 0..40 {
        let colour = ["red", "green", "blue, dark"][i % 3];
        text += &format!("{};\"{colour} \";{};{};{}\r\n", i % 7, i % 5, i % 3, 1 + i % 2);
    }
    place.write("t.csv", &text);
    let (_, err) = place.good(
        "fit t.csv --delimiter ; --target y1,y2 --sample-weight weight --ridge 0.1 --kernel \
         rbf+0.5*linear(size) -o m.riesz",
    );
    assert!(err.contains("categorical column 'colour': 3 levels"), "{err}");
    let (out, _) = place.good("explain m.riesz t.csv --delimiter ;");
    let table = cells(&out);
    assert_eq!(table.len(), 81);
    assert_eq!((&table[1][1], &table[2][1], &table[2][0]), (&"y1".into(), &"y2".into(), &"0".into()));
    assert_eq!(table[0][5..], ["size", "colour"]);
    let (card, _) = place.good("inspect m.riesz");
    assert!(card.contains("colour (blue, dark, green, red)"), "{card}");
    let (record, _) = place.good("inspect m.riesz --format json");
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["outputs"], serde_json::json!(["y1", "y2"]));
}

#[test]
fn completions_and_help() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(place.good(&format!("completions {shell}")).0.contains("explain"));
    }
    assert!(place.good("--help").0.starts_with("Examples:"));
    for command in ["fit", "predict", "explain", "plot", "report", "inspect", "demo", "completions"] {
        assert!(place.good(&format!("{command} --help")).0.starts_with("Examples:"), "{command}");
    }
}

#[test]
fn every_plot_is_drawn() {
    let place = fitted();
    place.good("explain m.riesz DIABETES -o e.json");
    place.good("explain m.riesz DIABETES --index k-sii -o pairs.json");
    for plot in riesz_report::PLOTS {
        let name = plot.name;
        let file = if plot.shows == riesz_report::Shows::Interactions { "pairs.json" } else { "e.json" };
        place.good(&format!("plot {name} {file} -o p.svg --row 3 --show target"));
        assert!(place.read("p.svg").trim_start().starts_with("<svg"), "{name}");
        place.good(&format!("plot {name} {file} -o p.png --dark"));
        assert!(std::fs::read(place.path("p.png")).unwrap().starts_with(b"\x89PNG"), "{name}");
    }
    place.good("plot dependence e.json --feature bmi --color-by age -o p.svg");
    place.bad(
        "plot dependence e.json --feature weight",
        "there is no feature 'weight'; the features are: age",
    );
    place.bad("plot waterfall e.json --row 442", "no such row; they go from 0 to 441");
    // Plots show means over rows, or the values of a requested row.
    place.good("plot interactions pairs.json -o p.svg");
    assert!(place.read("p.svg").contains("Mean |Shapley interaction value|"));
    place.good("plot interactions pairs.json --row 3 -o p.svg");
    assert!(place.read("p.svg").contains("Shapley interaction values of row 3"));
    place.bad("plot network pairs.json --row 442", "no such row; they go from 0 to 441");
    place.bad("plot network e.json", "no interactions to draw: explain with --index k-sii");
    place.bad("plot bar e.json --show y", "there is no output 'y'");
    place.bad("plot bar m.riesz", "is a model: give an explanation");
    place.bad("plot bar e.json --width 3", "width");
}

#[test]
fn tables_of_values_are_explanations_too() {
    let place = fitted();
    place.good("explain m.riesz DIABETES -o e.json");
    place.good("plot beeswarm e.json -o json.svg");
    for table in ["e.csv", "e.parquet"] {
        place.good(&format!("explain m.riesz DIABETES -o {table}"));
        place.good(&format!("plot beeswarm {table} DIABETES --categorical sex -o with.svg"));
        assert!(place.read("with.svg") == place.read("json.svg"), "{table}");
        place.good(&format!("plot dependence {table} -o without.svg"));
        assert!(place.read("without.svg").contains("no feature values"), "{table}");
        place.good(&format!("report {table} DIABETES -o r.html"));
        place.good(&format!("inspect {table}"));
    }
    let page = place.read("r.html");
    assert!(page.contains("(proved limit") && page.contains("functional"));
    place.good("report e.csv -o r.html");
    assert!(place.read("r.html").contains("is unknown"));
    place.write("other.csv", "row,output,base_value\n0,y,1\n");
    place.bad("inspect other.csv", "is a table without the columns row");
    place.write("rows.csv", "bmi\n1\n");
    place.bad("plot bar e.csv rows.csv", "give the table that was explained");
    place.write("rows.csv", "weight\n1\n");
    place.bad("plot bar e.csv rows.csv", "no column with the name of a feature");
}

#[test]
fn a_report_is_one_page() {
    let place = fitted();
    place.good("explain m.riesz DIABETES -o e.json");
    place.good("report e.json --title Why -o a.html");
    place.good("report m.riesz DIABETES --background DIABETES --background-rows 5 -o b.html");
    for page in ["a.html", "b.html"] {
        let text = place.read(page);
        assert!(text.contains("<html") && text.contains("s5"), "{page}");
    }
    assert!(place.read("a.html").contains("Why"));
    place.bad("report m.riesz", "give a table of rows to explain");
    place.bad("report e.json DIABETES", "already holds its feature values");
    place.bad("report nowhere.json", "cannot read");
}

#[test]
fn the_demo_runs() {
    let place = Place::new();
    let (out, err) = place.good("demo -o report.html");
    assert!(out.contains("bmi") && err.contains("proved bound"), "{out}{err}");
    assert!(place.read("report.html").contains("<html"));
    let (out, _) = place.good("demo --format json");
    assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok());
}

#[test]
fn support_vector_machines_go_to_libsvm_and_back() {
    let place = Place::new();
    let one_scale = "--kernel rbf(length_scale=40) --no-standardise";
    place
        .good(&format!("fit DIABETES --target target --model svr --c 50 --epsilon 5 {one_scale} -o r.riesz"));
    place.good(&format!(
        "fit DIABETES --target sex --model svc --class-weight 1=2,2=1 {one_scale} -o c.riesz"
    ));
    let header = "x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,y\n";
    let rows = std::fs::read_to_string(diabetes()).unwrap();
    // The classifier's columns are all but the second.
    let without_sex: String = rows
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},{}\n", cells[0], cells[2..].join(","))
        })
        .collect();
    place.write("r.csv", format!("{header}{}", rows.split_once('\n').unwrap().1));
    place.write("c.csv", format!("{}\n{without_sex}", header.trim_end().trim_end_matches(",y")));
    for model in ["r", "c"] {
        place.good(&format!("convert {model}.riesz {model}.libsvm"));
        let original = cells(&place.good(&format!("predict {model}.riesz DIABETES")).0);
        let read = cells(&place.good(&format!("predict {model}.libsvm {model}.csv")).0);
        assert_eq!(original.len(), 443);
        for (a, b) in original[1..].iter().zip(&read[1..]) {
            assert_eq!(a[..a.len() - 1], b[..b.len() - 1]);
            let (a, b) = (number(a.last().unwrap()), number(b.last().unwrap()));
            assert!((a - b).abs() < 1e-9 * (1.0 + a.abs()), "{a} {b}");
        }
        let (_, err) = place.good(&format!("explain {model}.libsvm {model}.csv -o e.csv"));
        assert!(err.contains("proved bound"), "{err}");
        // Columns that are zero in all support vectors occur only in the explained rows, and count there.
        let wide: String = std::fs::read_to_string(place.path(&format!("{model}.csv")))
            .unwrap()
            .lines()
            .enumerate()
            .map(|(i, line)| format!("{},{}\n", line, if i == 0 { "x10,x11" } else { "30,0" }))
            .collect();
        place.write("wide.csv", wide);
        let (predicted, _) = place.good(&format!("predict {model}.libsvm wide.csv"));
        assert_ne!(cells(&predicted)[1], read[1]);
        place.good(&format!("convert {model}.libsvm again.riesz"));
        assert!(place.good("inspect again.riesz").0.contains("LIBSVM"));
    }
}

#[test]
fn predictions_scale_and_shift_with_the_target() {
    // Scaling and shifting the target scales and shifts the predictions.
    let place = Place::new();
    let text = std::fs::read_to_string(diabetes()).unwrap();
    let moved: String = text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let (features, target) = line.rsplit_once(',').unwrap();
            if i == 0 { format!("{line}\n") } else { format!("{features},{}\n", 1e4 + 1e3 * number(target)) }
        })
        .collect();
    place.write("moved.csv", moved);
    place.good("fit DIABETES --target target --model svr -o a.riesz");
    place.good("fit moved.csv --target target --model svr -o b.riesz");
    let (a, b) = (place.good("predict a.riesz DIABETES").0, place.good("predict b.riesz DIABETES").0);
    for (a, b) in cells(&a)[1..].iter().zip(&cells(&b)[1..]) {
        assert!((1e4 + 1e3 * number(&a[1]) - number(&b[1])).abs() < 1.0, "{a:?} {b:?}");
    }
}

/// The diabetes rows with the target cut into classes at its thirds.
fn thirds(place: &Place) {
    let text = std::fs::read_to_string(diabetes()).unwrap();
    let cut = |y: f64| {
        if y < 100.0 {
            "mild"
        } else if y < 180.0 {
            "middling"
        } else {
            "severe"
        }
    };
    let rows: String = text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let (features, target) = line.rsplit_once(',').unwrap();
            format!("{features},{}\n", if i == 0 { "course" } else { cut(number(target)) })
        })
        .collect();
    place.write("thirds.csv", rows);
}

#[test]
fn every_classifier_beats_guessing_and_is_explained() {
    let place = Place::new();
    thirds(&place);
    for (data, target, guess) in [("thirds.csv", "course", 0.40), ("DIABETES", "sex", 0.54)] {
        for model in ["klr --ridge 1", "klr", "svc", "svc --c auto --class-weight balanced --folds 3", "gpc"]
        {
            // Tuning several classes would take too long in a test.
            let fixed = if model == "gpc" { "--fixed-kernel --posterior" } else { "" };
            let (_, err) = place.good(
                &format!("fit {data} --target {target} --ignore target --model {model} {fixed} -o m.riesz")
                    .replace(if target == "course" { "--ignore target " } else { "\0" }, ""),
            );
            let accuracy = err.lines().find(|l| l.starts_with("training accuracy")).unwrap();
            assert!(number(accuracy.split_whitespace().last().unwrap()) > guess, "{model}: {err}");
            if model == "klr" || model.contains("auto") {
                assert!(err.contains("held-out folds"), "{err}");
            }
            let (predicted, _) = place.good(&format!("predict m.riesz {data}"));
            let predicted = cells(&predicted);
            let names = &predicted[0];
            assert_eq!(names[1], "class");
            if !model.starts_with("svc") {
                assert!(names[2..].iter().all(|n| n.starts_with("p(")));
                for row in &predicted[1..] {
                    let total: f64 = row[2..].iter().map(|p| number(p)).sum();
                    assert!((total - 1.0).abs() < 1e-12);
                }
            }
            let (_, err) = place.good(&format!("explain m.riesz {data} -o e.csv"));
            assert!(err.contains("proved bound"), "{err}");
        }
    }
}

/// A file with a posterior gives standard deviations and averaged probabilities; one without names what is
/// missing.
#[test]
fn posteriors_are_kept_on_request() {
    let place = Place::new();
    let fit = |options: &str, file: &str| {
        let err = place.good(&format!("fit DIABETES --target target --fixed-kernel {options} -o {file}")).1;
        (std::fs::metadata(place.path(file)).unwrap().len() as f64, err)
    };
    let has_posterior = |file: &str| {
        let card = place.good(&format!("inspect {file}")).0;
        card.lines().any(|l| l.split_whitespace().eq(["posterior", "held"]))
    };
    let (size, _) = fit("--model gp --posterior", "m.riesz");
    let (plain, _) = fit("--model gp", "plain.riesz");
    // The size that the help states.
    assert!((size - plain - 4.0 * 442.0 * 443.0).abs() < 1000.0, "{size} {plain}");
    assert!(has_posterior("m.riesz") && !has_posterior("plain.riesz"));
    let predictions = cells(&place.good("predict m.riesz DIABETES").0);
    assert_eq!(predictions, cells(&place.good("predict plain.riesz DIABETES").0));
    let with = cells(&place.good("predict m.riesz DIABETES --std").0);
    assert_eq!(with[0], ["row", "target", "target_std"]);
    for (with, prediction) in with.iter().zip(&predictions).skip(1) {
        assert_eq!(with[..2], prediction[..]);
        assert!((1.0..60.0).contains(&number(&with[2])), "{with:?}");
    }
    place.bad(
        "predict plain.riesz DIABETES --std",
        "plain.riesz does not hold: fit it with 'riesz fit --model gp --posterior'",
    );
    place.good("convert m.riesz again.riesz");
    assert_eq!(cells(&place.good("predict again.riesz DIABETES --std").0), with);
    fit("--model gp --target bmi,bp --posterior", "two.riesz");
    let two = cells(&place.good("predict two.riesz DIABETES --std").0);
    assert_eq!(two[0][1..], ["target", "target_std", "bmi", "bmi_std", "bp", "bp_std"]);
    place.bad("fit DIABETES --target target --posterior -o k.riesz", "belongs to gp, gpc");

    thirds(&place);
    let classify = |options: &str| {
        let err = place.good(&format!("fit {options} --model gpc --fixed-kernel -o c.riesz")).1;
        let (out, notes) = place.good("predict c.riesz thirds.csv");
        (cells(&out)[0].join(","), err, notes)
    };
    let two = "DIABETES --target sex --ignore target";
    let (names, err, notes) = classify(&format!("{two} --posterior"));
    assert!(
        names.starts_with("row,class,p(") && !err.contains("note:") && !notes.contains("note:"),
        "{names}"
    );
    place.bad("predict c.riesz thirds.csv --std", "which predicts classes");
    let (names, err, notes) = classify(two);
    assert!(
        names.starts_with("row,class,") && names.ends_with(" vs 1") || names.ends_with(" vs -1"),
        "{names}"
    );
    assert!(err.contains("kept in the file with --posterior") && notes.contains("fit the model with"));
    let (names, _, notes) = classify("thirds.csv --target course");
    assert!(names.starts_with("row,") && !names.contains("class") && names.ends_with(" vs rest"), "{names}");
    assert!(notes.contains("holds no posterior"));
}

#[test]
fn regressions_are_tuned() {
    let place = Place::new();
    for (options, criterion) in [
        ("--model krr", "leave-one-out"),
        ("--model krr --fixed-kernel", "leave-one-out"),
        ("--model krr --folds 4 --sample-weight age", "mean squared error on 4 held-out folds"),
        (
            "--model svr --c auto",
            "mean squared error, in units of the standardised target, on 5 held-out folds",
        ),
        ("--model gp", "log marginal likelihood"),
        ("--model gp --kernel rbf(ard) --restarts 1 --seed 2", "log marginal likelihood"),
        (
            "--model gp --noise 0.5 --fixed-kernel --row-noise age",
            "noise, in units of the standardised target",
        ),
        ("--model gp --fixed-kernel", "log marginal likelihood"),
    ] {
        let (_, err) = place.good(&format!("fit DIABETES --target target {options} -o m.riesz"));
        assert!(err.contains(criterion), "{options}: {err}");
        let predicted = cells(&place.good("predict m.riesz DIABETES").0);
        let text = std::fs::read_to_string(diabetes()).unwrap();
        let truth: Vec<f64> = text.lines().skip(1).map(|l| number(l.rsplit_once(',').unwrap().1)).collect();
        let mean = truth.iter().sum::<f64>() / 442.0;
        let square = |p: &dyn Fn(usize) -> f64| (0..442).map(|i| (truth[i] - p(i)).powi(2)).sum::<f64>();
        let share = square(&|i| number(&predicted[i + 1][1])) / square(&|_| mean);
        assert!(share < 0.6, "{options}: {share}");
    }
}

/// Models, explanations and Parquet tables are read from standard input, like CSV.
#[test]
fn everything_is_read_from_standard_input() {
    let place = Place::new();
    place.good("fit DIABETES --target target --ridge 1 -o m.riesz");
    place.good("explain m.riesz DIABETES -o e.json");
    place.good("explain m.riesz DIABETES -o e.parquet");
    place.good("explain m.riesz DIABETES -o e.csv");
    let from = |file: &str, words: &str| {
        let output = place.run_with(words, std::fs::read(place.path(file)).unwrap());
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{words} < {file}: {err}");
        out
    };
    assert_eq!(from("m.riesz", "inspect -"), place.good("inspect m.riesz").0);
    for file in ["e.json", "e.parquet", "e.csv"] {
        assert_eq!(from(file, "plot bar -"), place.good(&format!("plot bar {file}")).0);
        assert_eq!(from(file, "inspect -"), place.good(&format!("inspect {file}")).0);
        assert!(from(file, "report -").contains("<html"));
    }
    assert_eq!(from("m.riesz", "predict - DIABETES"), place.good("predict m.riesz DIABETES").0);
    // The values are a table like any other.
    let words = "test two-sample e.parquet - --ignore output --permutations 9";
    assert_eq!(from("e.parquet", words), from("e.csv", words));
}
