//! Uncertainty of values, from the command line to tables, reports and plots.

use riesz::format::explanation_json::read;

use crate::common::{Place, cells, number};

fn towns(fit: &str) -> Place {
    let place = Place::new();
    let row = |i: usize| format!("{},{},{},{}\n", i * i % 17, i * 5 % 11, i * 3 % 7, (i * i + 3 * i) % 13);
    place.write("train.csv", format!("a,b,c,y\n{}", (0..30).map(row).collect::<String>()));
    place.good(&format!("fit train.csv --target y --model gp {fit} -o m.riesz"));
    place
}

#[test]
fn covariances_reach_files_plots_and_reports() {
    let place = towns("--noise 0.5 --fixed-kernel --posterior");
    let (_, err) = place.good("explain m.riesz train.csv --background train.csv --covariance -o w.json");
    assert!(
        err.contains("exact: values add up") && err.contains("95 % intervals of the values are at most ±"),
        "{err}"
    );
    let explanation = read(place.read("w.json").as_bytes()).unwrap().explanation;
    let sd = explanation.sd().unwrap();
    assert!(sd.len() == 90 && sd.iter().all(|sd| *sd > 0.0));
    let about = place.good("inspect w.json").0;
    assert!(about.contains("posterior of a Gaussian process") && about.contains(" ± "), "{about}");
    // Tables have standard deviations beside values, and are read back with them.
    place.good("explain m.riesz train.csv --background train.csv --covariance -o w.csv");
    let table = place.read("w.csv");
    assert!(
        table.starts_with("row,output,base_value,prediction,residual,a,b,c,std:a,std:b,std:c\n"),
        "{table}"
    );
    let first: Vec<f64> =
        table.lines().nth(1).unwrap().split(',').skip(8).map(|v| v.parse().unwrap()).collect();
    assert_eq!(first, sd[..3]);
    place.good("explain m.riesz train.csv --background train.csv --covariance -o w.parquet");
    assert!(place.good("inspect w.parquet").0.contains("posterior of a Gaussian process"));
    for file in ["w.json", "w.parquet", "w.csv"] {
        place.good(&format!("report {file} -o w.html"));
        place.good(&format!("plot waterfall {file} -o w.svg"));
        let (page, picture) = (place.read("w.html"), place.read("w.svg"));
        assert!(page.contains("class=\"sure\"") && picture.contains("95 %"), "{file}");
        // Tables do not contain covariances between values.
        assert_eq!(page.contains("a row picked at random"), file == "w.json");
    }
    // Without the option there is no uncertainty in files and pages.
    place.good("explain m.riesz train.csv --background train.csv -o w.json");
    place.good("report w.json -o w.html");
    assert!(
        !place.read("w.html").contains("class=\"sure\"") && !place.read("w.json").contains("uncertainty")
    );
    // The observational game has uncertainty too.
    place.good("explain m.riesz train.csv --game observational --covariance -o w.json");
    assert!(place.good("inspect w.json").0.contains("posterior of a Gaussian process"));
}

#[test]
fn what_cannot_be_told_is_refused() {
    let place = towns("--noise 0.5 --fixed-kernel");
    for (flags, words) in [
        ("--background train.csv --covariance", "--covariance = true"),
        ("--background train.csv --covariance", "--posterior"),
        ("--game observational --covariance", "--posterior"),
    ] {
        place.bad(&format!("explain m.riesz train.csv {flags} -o w.json"), words);
    }
    let place = towns("--noise 0.5 --fixed-kernel --posterior");
    place
        .bad("explain m.riesz train.csv --covariance -o w.json", "give --background FILE or --baseline FILE");
    place.bad(
        "explain m.riesz train.csv --game observational --coalitions 4 --covariance -o w.json",
        "more than 4 coalitions",
    );
    place.bad(
        "explain m.riesz train.csv --background train.csv --index k-sii --covariance -o w.json",
        "Beta-Shapley",
    );
}

#[test]
fn refits_give_standard_deviations_of_values() {
    let place = towns("--noise 0.5 --fixed-kernel");
    place.good(
        "fit train.csv --target y --model krr --ridge 0.1 --bootstrap 30 --posterior --seed 5 -o r.riesz",
    );
    place.good("explain r.riesz train.csv --covariance -o w.json");
    let explanation = read(place.read("w.json").as_bytes()).unwrap().explanation;
    assert!(explanation.sd().unwrap().iter().all(|sd| *sd > 0.0));
    assert!(place.good("inspect w.json").0.contains("bootstrap of 30 refits (seed 5)"));
    place.good("report w.json -o w.html");
    assert!(place.read("w.html").contains("30 refits"));
    place
        .bad("fit train.csv --target y --model krr --ridge 0.1 --posterior -o r.riesz", "belongs to gp, gpc");
}

#[test]
fn the_variance_of_predictions_is_explained() {
    let place = towns("--noise 0.5 --fixed-kernel --posterior");
    place.write("typical.csv", "a,b,c\n8,5,3\n");
    let (_, err) =
        place.good("explain m.riesz train.csv --game baseline --baseline typical.csv --variance -o v.json");
    assert!(err.contains("no proved bound"), "{err}");
    let explanation = read(place.read("v.json").as_bytes()).unwrap().explanation;
    assert_eq!(explanation.output_names, ["variance of y"]);
    place.good("predict m.riesz train.csv --std -o p.csv");
    let table = place.read("p.csv");
    for (line, variance) in table.lines().skip(1).zip(&explanation.predictions) {
        let sd: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
        assert!((sd * sd - variance).abs() < 1e-9 * variance.max(1e-3), "{line} {variance}");
    }
    assert!(explanation.residuals().iter().all(|left| left.abs() < 1e-8));
    place.good("plot waterfall v.json -o v.svg");
    place.good("report v.json -o v.html");
    place.good("explain m.riesz train.csv --background typical.csv --variance -o v.csv");
    place.bad(
        "explain m.riesz train.csv --background typical.csv --variance --covariance -o v.csv",
        "leave --covariance out",
    );
    place.bad("explain m.riesz train.csv --variance -o v.csv", "give --background FILE or --baseline FILE");
    place.bad("explain m.riesz train.csv --game observational --variance -o v.csv", "shares of the variance");
    place.bad(
        "explain cmd:cat train.csv --background typical.csv --variance -o v.csv",
        "which a program does not have",
    );
    place.good("fit train.csv --target y --model krr --ridge 0.1 --jackknife --posterior -o r.riesz");
    place.bad("explain r.riesz train.csv --background typical.csv --variance -o v.csv", "variance game");
    place.good("explain r.riesz train.csv --covariance -o w.json");
    assert!(place.good("inspect w.json").0.contains("jackknife of 30 rows"));
    place.bad(
        "fit train.csv --target y --model krr --jackknife --bootstrap 5 -o r.riesz",
        "leave one of the two out",
    );
    place.bad("fit train.csv --target y --model svr --jackknife -o r.riesz", "belongs to krr");
    place.good("fit train.csv --target y --model svr --bootstrap 5 --posterior -o s.riesz");
    place.good("explain s.riesz train.csv --covariance -o w.json");
    assert!(place.good("inspect w.json").0.contains("bootstrap of 5 refits (seed 0)"));
}

#[test]
fn draws_have_the_mean_and_covariance_of_the_values() {
    let place = towns("--noise 0.5 --fixed-kernel --posterior");
    let explain = "explain m.riesz train.csv --background train.csv --covariance";
    place.good(&format!("{explain} -o w.json"));
    let explanation = read(place.read("w.json").as_bytes()).unwrap().explanation;
    const DRAWS: usize = 20_000;
    place.good(&format!("{explain} --samples {DRAWS} --seed 3 -o draws.csv"));
    let table = cells(&place.read("draws.csv"));
    assert_eq!(table[0], ["row", "output", "sample", "a", "b", "c"]);
    assert_eq!(table.len(), 1 + 30 * DRAWS);
    for i in [0, 7] {
        let drawn: Vec<Vec<f64>> = table[1 + i * DRAWS..1 + (i + 1) * DRAWS]
            .iter()
            .map(|line| line[3..].iter().map(|cell| number(cell)).collect())
            .collect();
        assert!(table[1 + i * DRAWS..][..DRAWS].iter().all(|line| line[0] == i.to_string()));
        let mean = |k: usize| drawn.iter().map(|values| values[k]).sum::<f64>() / DRAWS as f64;
        let means = [mean(0), mean(1), mean(2)];
        let (values, covariance) = (explanation.row_values(i, 0), explanation.covariance(i, 0).unwrap());
        for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
            let products = drawn.iter().map(|v| (v[a] - means[a]) * (v[b] - means[b]));
            let scale = (covariance[4 * a] * covariance[4 * b]).sqrt();
            let estimate = products.sum::<f64>() / DRAWS as f64;
            // Five standard errors of a covariance of normal numbers.
            assert!((estimate - covariance[3 * a + b]).abs() < 5.0 * scale * (2.0 / DRAWS as f64).sqrt());
            let error = 5.0 * (covariance[4 * a] / DRAWS as f64).sqrt();
            assert!((means[a] - values[a]).abs() < error, "{a}: {} {}", means[a], values[a]);
        }
    }
    place.bad("explain m.riesz train.csv --samples 5", "give --covariance too");
}

#[test]
fn texts_state_the_probability_of_an_order() {
    let place = towns("--noise 0.5 --fixed-kernel --posterior");
    let explain = "explain m.riesz train.csv --background train.csv --covariance";
    place.good(&format!("{explain} -o w.json"));
    let explanation = read(place.read("w.json").as_bytes()).unwrap().explanation;
    // An independent estimate: the share of draws in which the largest |value| of row 0 is still larger.
    let mut order = [0, 1, 2];
    let values = explanation.row_values(0, 0);
    order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
    let draws = explanation.draws((0, 0), 100_000, 9).unwrap();
    let larger = (0..100_000).filter(|&d| draws[(order[0], d)].abs() > draws[(order[1], d)].abs()).count();
    let (text, _) = place.good(&format!("{explain} --format text"));
    let line = text.lines().find(|line| line.starts_with("P(1st |value| > 2nd)")).unwrap();
    let first = line.split_whitespace().nth(4).unwrap();
    assert!((number(first) - larger as f64 / 1e5).abs() < 0.01, "{line} {larger}");
    // The mean over rows is that of the JSON file.
    let ranking = explanation.ranking(0);
    let p = explanation.mean_probability_stronger(0, ranking[0], ranking[1]).unwrap();
    let [a, b] = [ranking[0], ranking[1]].map(|k| explanation.set_name(k));
    let about = place.good("inspect w.json").0;
    let line =
        about.lines().find(|line| line.contains(&format!("P(|{a}| > |{b}|), mean over rows"))).unwrap();
    assert!(line.ends_with(&format!("{p:.3}")), "{line}");
    assert!(!place.good("explain m.riesz train.csv --format text").0.contains("P("));
}
