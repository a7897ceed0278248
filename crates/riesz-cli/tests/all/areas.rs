//! One table of areas with covariates, exposure and counts, and maps of areas from GeoJSON files.

use riesz::Posterior;
use riesz::aggregate::Conventions;

use crate::common::{Place, cells, estimates_lie_in_their_intervals, number};
use crate::downscale::{DISTRICTS, LEARN, matched, named, place, start, tuning, world};

/// The column `name` of a CSV text as numbers.
fn column(text: &str, name: &str) -> Vec<f64> {
    let rows = cells(text);
    let j = rows[0].iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}: {text}"));
    rows[1..].iter().map(|row| number(&row[j])).collect()
}

/// Forty areas whose rate of cases is exp(-3 + deprivation), without sampling errors but for rounding.
fn areas() -> (Place, Vec<f64>) {
    let place = Place::new();
    let deprivation = |i: usize| (2.3 * i as f64).sin();
    let rates: Vec<f64> = (0..40).map(|i| (-3.0 + deprivation(i)).exp()).collect();
    let line = |i: usize| {
        let population = 2_000 + 137 * (i * 7 % 11);
        let cases = (population as f64 * rates[i]).round();
        format!("a{i:02},{},{population},{cases}\n", deprivation(i))
    };
    let lines: String = (0..40).map(line).collect();
    place.write("areas.csv", format!("area,deprivation,population,cases\n{lines}"));
    (place, rates)
}

const COUNTS: &str = "--target cases --family poisson";

#[test]
fn one_table_of_areas_is_fitted_like_the_same_two_tables() {
    let (place, rates) = areas();
    let (_, err) = place
        .good(&format!("downscale fit areas.csv {COUNTS} --bag area --exposure population -o one.riesz"));
    assert!(err.contains("40 areas, counts of events among 'population'"), "{err}");
    place.good(&format!(
        "downscale fit areas.csv areas.csv {COUNTS} --bag area --weight population -o two.riesz"
    ));
    let predicted = |model: &str| place.good(&format!("downscale predict {model} areas.csv")).0;
    assert_eq!(predicted("one.riesz"), predicted("two.riesz"));
    // The rates are recovered, and with an expected number of cases as exposure the ratio is.
    for (estimate, rate) in column(&predicted("one.riesz"), "rate").iter().zip(&rates) {
        assert!((estimate / rate - 1.0).abs() < 0.1, "{estimate} {rate}");
    }
    // Without a column of names the names of areas are their rows, and the texts must be left out.
    place.good(&format!(
        "downscale fit areas.csv {COUNTS} --ignore area --exposure population -o plain.riesz"
    ));
    assert_eq!(predicted("plain.riesz"), predicted("one.riesz"));
    let (table, _) =
        place.good(&format!("downscale check areas.csv {COUNTS} --ignore area --exposure population"));
    assert_eq!(cells(&table)[1][0], "row 1");
    // A single table may come from standard input.
    let text = place.read("areas.csv");
    let words = format!("downscale fit - {COUNTS} --ignore area --exposure population -o stdin.riesz");
    assert!(place.run_with(&words, text).status.success());
    assert_eq!(predicted("stdin.riesz"), predicted("one.riesz"));
}

#[test]
fn areas_without_target_are_left_out_and_options_of_two_tables_refused() {
    let (place, _) = areas();
    let text = place.read("areas.csv");
    let mut lines: Vec<&str> = text.lines().collect();
    let dropped = lines.remove(5);
    place.write("fewer.csv", lines.join("\n"));
    lines.insert(5, dropped.rsplit_once(',').unwrap().0);
    place.write("gaps.csv", lines.join("\n").replace(lines[5], &format!("{},", lines[5])));
    let fit = |file: &str| {
        let words = format!("{COUNTS} --bag area --exposure population -o {file}.riesz");
        place.good(&format!("downscale fit {file}.csv {words}")).1
    };
    assert!(fit("gaps").contains("'a04'"));
    fit("fewer");
    let predicted = |model: &str| place.good(&format!("downscale predict {model} areas.csv")).0;
    assert_eq!(predicted("gaps.riesz"), predicted("fewer.riesz"));
    let bad = |words: &str, expected: &str| {
        place.bad(&format!("downscale fit areas.csv {COUNTS} {words} -o m.riesz"), expected)
    };
    bad(
        "--bag area --mediators deprivation",
        "--mediators relates two tables, and areas.csv is a single one",
    );
    bad("--bag area --drop-unmatched", "--drop-unmatched relates two tables");
    bad("--bag area --exposure people", "there is no column 'people'");
    place.bad("downscale fit areas.csv areas.csv --target cases -o m.riesz", "--bag");
}

/// Two squares of one degree at 60° north, of which the second has a hole, and a third one without a row.
const SQUARES: &str = r#"{"type": "FeatureCollection", "features": [
 {"type": "Feature", "properties": {"area": "west"}, "geometry": {"type": "Polygon",
  "coordinates": [[[10, 59.5], [11, 59.5], [11, 60.5], [10, 60.5], [10, 59.5]]]}},
 {"type": "Feature", "properties": {"area": "east"}, "geometry": {"type": "MultiPolygon", "coordinates":
  [[[[11, 59.5], [12, 59.5], [12, 60.5], [11, 60.5], [11, 59.5]],
    [[11.4, 59.9], [11.6, 59.9], [11.6, 60.1], [11.4, 60.1], [11.4, 59.9]]]]}},
 {"type": "Feature", "properties": {"area": "south"}, "geometry": {"type": "Polygon",
  "coordinates": [[[10, 58.5], [11, 58.5], [11, 59.5], [10, 59.5], [10, 58.5]]]}}]}"#;

/// Outlines of an SVG map: the fill and the points of each ring.
fn outlines(svg: &str) -> Vec<(String, Vec<Vec<[f64; 2]>>)> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let areas = document.descendants().filter(|node| node.attribute("fill-rule") == Some("evenodd"));
    let point = |text: &str| {
        let (x, y) = text.split_once(' ').unwrap();
        [number(x), number(y)]
    };
    let ring = |text: &str| text.trim_start_matches('M').split('L').map(point).collect();
    let rings = |d: &str| d.split('Z').filter(|part| !part.is_empty()).map(ring).collect();
    areas
        .map(|node| (node.attribute("fill").unwrap().to_string(), rings(node.attribute("d").unwrap())))
        .collect()
}

#[test]
fn areas_of_a_geojson_file_are_drawn_with_their_outlines() {
    let (place, _) = areas();
    place.good(&format!("downscale fit areas.csv {COUNTS} --bag area --exposure population -o m.riesz"));
    place.write("squares.geojson", SQUARES);
    place.write("rows.csv", "area,deprivation\neast,0.9\nwest,-0.9\n");
    let map = "downscale map m.riesz rows.csv --geojson squares.geojson --id area";
    let (_, err) = place.good(&format!("{map} -o map.svg"));
    assert!(err.contains("1 areas of squares.geojson have no row"), "{err}");
    let drawn = outlines(&place.read("map.svg"));
    let [(east, rings_of_east), (west, rings_of_west)] = &drawn[..] else { panic!("{drawn:?}") };
    // The larger rate is violet and the smaller yellow.
    assert_eq!((&east[..], &west[..]), ("#46327e", "#f4e61e"));
    assert_eq!((rings_of_east.len(), rings_of_west.len()), (2, 1));
    // A degree of longitude at 60° north is half as long as one of latitude.
    let extent = |k: usize| {
        let list = || rings_of_west[0].iter().map(move |point| point[k]);
        list().fold(f64::MIN, f64::max) - list().fold(f64::MAX, f64::min)
    };
    assert!((extent(0) / extent(1) - 0.5).abs() < 1e-3, "{} {}", extent(0), extent(1));
    // Tooltips name the areas with their rates.
    let rates = column(&place.good("downscale predict m.riesz rows.csv").0, "rate");
    let svg = place.read("map.svg");
    for (name, rate) in ["east", "west"].iter().zip(&rates) {
        let shown = svg.split(&format!("<title>{name}: ")).nth(1).and_then(|text| text.split('<').next());
        assert!((number(shown.unwrap()) / rate - 1.0).abs() < 0.01, "{name}: {shown:?} {rate}");
    }
    place.good(&format!("{map} -o map.html"));
    let page = place.read("map.html");
    assert!(page.matches("fill-rule=\"evenodd\"").count() >= 8 && !page.contains("data:image/png"), "{page}");
    // Other names, files and geometries are refused with one sentence.
    let bad =
        |words: &str, expected: &str| place.bad(&format!("downscale map m.riesz {words} -o b.svg"), expected);
    place.write("more.csv", "area,deprivation\neast,0.9\nnorth,0.1\n");
    bad(
        "more.csv --geojson squares.geojson --id area",
        "squares.geojson: there is no area for these names of column 'area': north",
    );
    place.write("twice.csv", "area,deprivation\neast,0.9\neast,0.1\n");
    bad("twice.csv --geojson squares.geojson --id area", "are both the area 'east'");
    bad("rows.csv --geojson squares.geojson --id deprivation", "has no property 'deprivation'");
    bad("rows.csv --geojson rows.csv --id area", "rows.csv: this is not GeoJSON");
    bad("rows.csv", "--x");
    place.write("point.geojson", SQUARES.replace("MultiPolygon", "Point"));
    bad("rows.csv --geojson point.geojson --id area", "area 'east' is a Point: give a Polygon");
}

#[test]
fn predictions_have_the_names_of_a_column() {
    let (place, _) = areas();
    let fit = format!("areas.csv {COUNTS} --bag area --exposure population");
    place.good(&format!("downscale fit {fit} -o m.riesz"));
    let names = |command: &str| {
        let table = cells(&place.good(command).0);
        let names: Vec<String> = table[1..].iter().map(|row| row[0].clone()).collect();
        (table[0][0].clone(), names)
    };
    let expected: Vec<String> =
        cells(&place.read("areas.csv"))[1..].iter().map(|row| row[0].clone()).collect();
    let commands = [
        "predict m.riesz areas.csv --id area".into(),
        "downscale predict m.riesz areas.csv --id area".into(),
        "downscale predict m.riesz areas.csv --id area --bags areas.csv --bag area --target cases".into(),
        format!("downscale estimate {fit} --hyperparameter-samples 0"),
        format!("downscale estimate {fit} --hyperparameter-samples 0 --at areas.csv --id area"),
    ];
    for command in commands {
        assert_eq!(names(&command), ("area".into(), expected.clone()), "{command}");
    }
    // A sample has one line for each row and draw.
    let doubled: Vec<String> = expected.iter().flat_map(|name| [name.clone(), name.clone()]).collect();
    assert_eq!(names("downscale predict m.riesz areas.csv --samples 2 --id area").1, doubled);
    // Without names rows are numbered from 0.
    assert_eq!(names("predict m.riesz areas.csv").1[..2], ["0", "1"]);
    place.bad("predict m.riesz areas.csv --id town", "there is no column 'town'");
}

#[test]
fn benchmarked_rates_add_up_to_the_counts() {
    let world = world();
    let place = place(&world, DISTRICTS);
    let bags: String = (0..DISTRICTS).map(|b| format!("d{b:02},{}\n", 3 + 7 * b % 11)).collect();
    place.write("counts.csv", format!("district,events\n{bags}"));
    let data = "rows.csv counts.csv --bag district --target events";
    place.good(&format!("downscale fit {data} --weight people --family poisson --no-tuning -o m.riesz"));
    // The last district has no count.
    place.write("known.csv", format!("district,events\n{}", bags.replace("d11,", "other,")));
    let predict = "downscale predict m.riesz rows.csv";
    let (text, err) =
        place.good(&format!("{predict} --bags known.csv --bag district --target events --exposure people"));
    assert!(err.contains("1 bags have no count"), "{err}");
    let plain = place.good(predict).0;
    let (rates, benchmarked) = (column(&text, "rate"), column(&text, "rate_benchmarked"));
    assert_eq!(rates, column(&plain, "rate"));
    let rows = cells(&place.read("rows.csv"));
    let mut sums = [0.0; DISTRICTS];
    for (row, rate) in rows[1..].iter().zip(&benchmarked) {
        sums[row[1][1..].parse::<usize>().unwrap()] += number(&row[3]) * rate;
    }
    for (b, sum) in sums.iter().enumerate().take(DISTRICTS - 1) {
        assert!((sum - (3 + 7 * b % 11) as f64).abs() < 1e-9, "{b} {sum}");
    }
    for ((row, rate), benchmarked) in rows[1..].iter().zip(&rates).zip(&benchmarked) {
        assert!(row[1] != "d11" || rate == benchmarked);
    }
    place.bad(&format!("{predict} --bags known.csv --bag district"), "--target");
    place.write("twice.csv", "district,events\nd00,1\nd00,2\n");
    place.bad(&format!("{predict} --bags twice.csv --bag district --target events"), "has 'd00' twice");
}

#[test]
fn draws_of_maps_have_the_posterior_moments() {
    const DRAWS: usize = 20_000;
    let (place, _) = areas();
    place.good(&format!("downscale fit areas.csv {COUNTS} --bag area --exposure population -o m.riesz"));
    place.write("two.csv", "deprivation\n-0.5\n-0.45\n");
    let predicted = place.good("downscale predict m.riesz two.csv").0;
    let drawn = place.good(&format!("downscale predict m.riesz two.csv --samples {DRAWS} --seed 4")).0;
    assert_eq!(cells(&drawn)[0], ["row", "sample", "rate"]);
    let logs: Vec<f64> = column(&drawn, "rate").iter().map(|rate| rate.ln()).collect();
    let (first, second) = logs.split_at(DRAWS);
    let moments = |list: &[f64]| {
        let mean = list.iter().sum::<f64>() / DRAWS as f64;
        (mean, list.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / DRAWS as f64)
    };
    let (means, sds) = (column(&predicted, "log_rate"), column(&predicted, "log_rate_std"));
    for (k, list) in [first, second].into_iter().enumerate() {
        let (mean, variance) = moments(list);
        assert!((mean - means[k]).abs() < 5.0 * sds[k] / (DRAWS as f64).sqrt(), "{mean} {}", means[k]);
        assert!((variance.sqrt() / sds[k] - 1.0).abs() < 0.05);
    }
    // Draws of near rows are joint: their difference has the variance of the library's covariance.
    let bytes = std::fs::read(place.path("m.riesz")).unwrap();
    let saved = riesz::format::model::from_bytes(&bytes).unwrap();
    let posterior = Posterior::new(&saved.model, saved.covariance.as_ref().unwrap()).unwrap();
    let rows = named(["deprivation", "", ""], 1, &[vec![-0.5], vec![-0.45]]);
    let covariance = &posterior.covariance(&posterior.functionals_at(&rows).unwrap())[0];
    let expected = covariance[(0, 0)] + covariance[(1, 1)] - 2.0 * covariance[(0, 1)];
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    assert!((moments(&differences).1 / expected - 1.0).abs() < 0.08, "{expected}");
}

#[test]
fn estimates_average_over_hyper_parameters() {
    let world = world();
    let (place, data) = (place(&world, DISTRICTS), matched(&world));
    let tuning = tuning(Conventions::default());
    let tuned = tuning.tune(&start(&data), &data).unwrap();
    let average = tuning.average(&start(&data), &tuned.processes(), &data, 12, 5).unwrap();
    let estimate = format!("downscale estimate {LEARN} --hyperparameter-samples 12 --seed 5");
    let text = place.good(&estimate).0;
    let [mean, std, low, high] =
        ["rate", "rate_std", "rate_low", "rate_high"].map(|name| column(&text, name));
    assert_eq!(mean.len(), data.rows.rows());
    // The laws of total expectation and variance, and the mass of the mixture between the ends.
    let moments: Vec<(f64, Vec<f64>, Vec<f64>)> = average
        .fits
        .iter()
        .map(|(w, fit)| {
            let mean = fit.model.predict(&data.rows).unwrap().column(0);
            (*w, mean, fit.posterior().variance(&data.rows).unwrap().column(0))
        })
        .collect();
    for i in [0, 17, 40] {
        let total: f64 = moments.iter().map(|(w, m, _)| w * m[i]).sum();
        let square: f64 = moments.iter().map(|(w, m, v)| w * (v[i] + m[i] * m[i])).sum();
        assert!((mean[i] - total).abs() < 1e-8 && (std[i] - (square - total * total).sqrt()).abs() < 1e-7);
        let density = |x: f64| -> f64 {
            let normal = |(w, m, v): &(f64, Vec<f64>, Vec<f64>)| {
                w * (-(x - m[i]).powi(2) / (2.0 * v[i])).exp() / (std::f64::consts::TAU * v[i]).sqrt()
            };
            moments.iter().map(normal).sum()
        };
        let steps = 20_000;
        let width = (high[i] - low[i]) / f64::from(steps);
        let mass: f64 = (0..steps).map(|k| width * density(low[i] + (f64::from(k) + 0.5) * width)).sum();
        assert!((mass - 0.95).abs() < 1e-4, "{mass}");
    }
    // Contributions of targets and of the prior mean add up to the prediction.
    let shares = cells(&place.good(&format!("{estimate} --target-contributions")).0);
    assert_eq!(shares[0].len(), 2 + DISTRICTS);
    assert_eq!(shares[0][..3], ["row", "prior_mean", "target d00"]);
    for (line, mean) in shares[1..].iter().zip(&mean) {
        assert!((line[1..].iter().map(|cell| number(cell)).sum::<f64>() - mean).abs() < 1e-8);
    }
    // Without samples it is the best fit, at any rows.
    let best = place.good(&format!("downscale estimate {LEARN} --hyperparameter-samples 0 --at rows.csv")).0;
    place.good(&format!("downscale fit {LEARN} -o m.riesz"));
    let predicted = place.good("downscale predict m.riesz rows.csv").0;
    for name in ["rate", "rate_std", "rate_low", "rate_high"] {
        for (a, b) in column(&best, name).iter().zip(&column(&predicted, name)) {
            assert!((a - b).abs() < 1e-9, "{name} {a} {b}");
        }
    }
    place.bad(&format!("{estimate} --no-tuning"), "give --hyperparameter-samples 0");
    place.bad(
        &format!("{estimate} --inducing 5 --target-contributions"),
        "--target-contributions cannot be used with fits through inducing points",
    );
}

#[test]
fn averages_of_counts_are_rates() {
    let (place, rates) = areas();
    let options = format!("areas.csv {COUNTS} --ignore area --exposure population");
    let text = place.good(&format!("downscale estimate {options} --hyperparameter-samples 8")).0;
    estimates_lie_in_their_intervals(&text);
    for (estimate, rate) in column(&text, "rate").iter().zip(&rates) {
        assert!((estimate / rate - 1.0).abs() < 0.1, "{estimate} {rate}");
    }
    let best = place.good(&format!("downscale estimate {options} --hyperparameter-samples 0")).0;
    place.good(&format!("downscale fit {options} -o m.riesz"));
    let predicted = place.good("downscale predict m.riesz areas.csv").0;
    for name in ["rate", "rate_median", "rate_low", "rate_high", "log_rate", "log_rate_std"] {
        for (a, b) in column(&best, name).iter().zip(&column(&predicted, name)) {
            assert!((a - b).abs() < 1e-8 * b.abs().max(1.0), "{name} {a} {b}");
        }
    }
    let share = "--hyperparameter-samples 0 --target-contributions";
    place.bad(&format!("downscale estimate {options} {share}"), "cannot be used with counts");
}
