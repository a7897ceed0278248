//! Mediated, overlapping and exact operators from rows to targets, against the library on the same numbers.

use riesz::aggregate::{AggregateGaussianProcess, Aggregates, Bags, Conventions, Mediators, TargetUnit};

use crate::common::{cells, estimates_lie_in_their_intervals, number};
use crate::downscale::{DISTRICTS, LEARN, checked, kernel, matched, place, start, tuning, world};

#[test]
fn mediated_operator_agrees_with_the_library() {
    let world = world();
    let (place, data) = (place(&world, DISTRICTS), matched(&world));
    let mediators = Mediators { bags: world.coarse.clone(), targets: world.coarse.clone(), totals: None };
    let every = mediators.bags.stack(&mediators.targets).unwrap();
    let data = Aggregates { bag_of_target: vec![None; DISTRICTS], mediators: Some(mediators), ..data };
    let rows_kernel = kernel("rbf(length_scale=1, ard)", &data.rows);
    let coarse = kernel("rbf(length_scale=0.5, ard)", &every);
    let command = format!("downscale check {LEARN} --mediators year,level --operator mediated");
    for (options, conventions) in [("", Conventions::Regularised), ("--published", Conventions::Published)] {
        let start = conventions.start(rows_kernel.clone(), Some(coarse.clone()), &data);
        let fit = start.fit(&data).unwrap();
        let (text, err) = place.good(&format!("{command} {options} --no-tuning"));
        checked(&text, &world.rates, &fit.fitted(), &fit.leave_one_out().unwrap());
        assert!(err.contains("0 with rows of their own, 12 through mediators"), "{err}");
        assert!(!err.contains("warning"), "{err}");
        let tuned = tuning(conventions).tune(&start, &data).unwrap();
        let (text, _) = place.good(&format!("{command} {options}"));
        checked(&text, &world.rates, &tuned.fit.fitted(), &tuned.fit.leave_one_out().unwrap());
    }
    // Stating the default operator explicitly changes nothing.
    let plain = place.good(&format!("downscale check {LEARN} --no-tuning")).0;
    for operator in ["auto", "matched"] {
        assert_eq!(
            plain,
            place.good(&format!("downscale check {LEARN} --no-tuning --operator {operator}")).0
        );
    }
    let bad = |options: &str, words: &str| place.bad(&format!("downscale check {LEARN} {options}"), words);
    bad("--operator mediated", "--operator mediated needs --mediators");
    bad("--operator two-sided", "--operator two-sided needs --mediators");
    bad("--operator matched --mediators year", "--operator matched does not use --mediators");
    bad("--operator mediated --mediators year,level --sum", "need --total");
}

/// Means of the map given mediators, against the library.
#[test]
fn conditional_means_agree_with_the_library() {
    let world = world();
    let (place, data) = (place(&world, DISTRICTS), matched(&world));
    let mediators = Mediators { bags: world.coarse.clone(), targets: world.coarse.clone(), totals: None };
    let every = mediators.bags.stack(&mediators.targets).unwrap();
    let data = Aggregates { bag_of_target: vec![None; DISTRICTS], mediators: Some(mediators), ..data };
    let coarse = kernel("rbf(length_scale=0.5, ard)", &every);
    let start =
        Conventions::Regularised.start(kernel("rbf(length_scale=1, ard)", &data.rows), Some(coarse), &data);
    let fit = start.fit(&data).unwrap();
    let estimate = format!("downscale estimate {LEARN} --mediators year,level --operator mediated");
    // The table of bags has the mediators too, in another order than the model and with further columns.
    let (text, _) = place.good(&format!(
        "{estimate} --no-tuning --hyperparameter-samples 0 --at-mediators bags.csv --id district"
    ));
    let table = cells(&text);
    assert_eq!(table[0], ["district", "rate", "rate_std", "rate_low", "rate_high"]);
    let (means, covariance) = fit.conditional_means(&world.coarse).unwrap();
    for (i, line) in table[1..].iter().enumerate() {
        let [mean, sd, low, high] = [1, 2, 3, 4].map(|k| number(&line[k]));
        assert!((mean - means[i]).abs() < 1e-9);
        assert!((sd - covariance[(i, i)].sqrt()).abs() < 1e-9);
        assert!((high - mean - 1.959_963_984_540_054 * sd).abs() < 1e-9);
        assert!((high + low - 2.0 * mean).abs() < 1e-9);
    }
    // Averaged over hyper-parameters, intervals are those of the mixture.
    let (text, _) = place.good(&format!("{estimate} --hyperparameter-samples 8 --at-mediators bags.csv"));
    estimates_lie_in_their_intervals(&text);
    assert_eq!(cells(&text)[0][0], "row");
    let bad = |words: &str, expected: &str| place.bad(&format!("downscale estimate {words}"), expected);
    bad(
        &format!("{LEARN} --at-mediators bags.csv"),
        "needs targets that are learnt through mediators: give --mediators",
    );
    bad(&format!("{LEARN} --at-mediators bags.csv --at rows.csv"), "cannot be used with");
    let mediated = "--mediators year,level --operator mediated";
    bad(
        &format!("{LEARN} {mediated} --at-mediators bags.csv --inducing 5"),
        "inducing points, which keep no rows",
    );
    bad(&format!("{LEARN} {mediated} --at-mediators rows.csv"), "there is no column");
}

/// Each row is in two bags: its district and one of three regions.
#[test]
fn bags_may_overlap() {
    let world = world();
    let place = place(&world, DISTRICTS);
    let (rows, bags) = (place.read("rows.csv"), place.read("bags.csv"));
    let twice: String = rows
        .lines()
        .enumerate()
        .map(|(i, line)| match i.checked_sub(1) {
            None => format!("pixel,{line}\n"),
            Some(i) => {
                let (district_name, region) =
                    (format!("d{:02}", world.bag[i]), format!("r{}", world.bag[i] % 3));
                format!("p{i},{line}\np{i},{}\n", line.replacen(&district_name, &region, 1))
            }
        })
        .collect();
    let regions = [0, 1, 2].map(|r| 5.0 + f64::from(r) / 10.0);
    let region_lines: String = (0..3).map(|r| format!("{:?},r{r},0,0,0,0\n", regions[r])).collect();
    place.write("rows.csv", &twice);
    place.write("bags.csv", bags + &region_lines);
    let single = matched(&world);
    let lines: Vec<usize> = (0..world.bag.len()).flat_map(|i| [i, i]).collect();
    let bag: Vec<usize> =
        (0..world.bag.len()).flat_map(|i| [world.bag[i], DISTRICTS + world.bag[i] % 3]).collect();
    let people: Vec<f64> = lines.iter().map(|&i| world.people[i]).collect();
    let overlapping =
        Bags::from_memberships(&lines, world.bag.len(), &bag, DISTRICTS + 3, Some(&people), TargetUnit::Mean)
            .unwrap();
    let targets = [&world.rates[..], &regions].concat();
    let data = Aggregates::matched(single.rows.clone(), overlapping, targets.clone());
    let fit = AggregateGaussianProcess { row_noise: 0.1, ..start(&data) }.fit(&data).unwrap();
    let args = format!("{LEARN} --row pixel --no-tuning");
    let checks = cells(&place.good(&format!("downscale check {args}")).0);
    let left_out = fit.leave_one_out().unwrap();
    for (t, line) in checks[1..].iter().enumerate() {
        for (cell, value) in line[1..5].iter().zip([
            targets[t],
            fit.fitted()[t],
            targets[t] - fit.fitted()[t],
            left_out.mean[t],
        ]) {
            assert!((number(cell) - value).abs() < 1e-12, "{cell} {value}");
        }
    }
    // Its bags are explained, and the column of row names is not a feature.
    place.good(&format!("downscale fit {args} -o m.riesz"));
    let (text, _) = place.good("downscale explain m.riesz rows.csv --bag district --weight people");
    let explained = cells(&text);
    assert_eq!(explained[0].len(), 6);
    for (explained_line, checked_line) in explained[1..].iter().zip(&checks[1..]) {
        assert!(
            explained_line[0] == checked_line[0]
                && (number(&explained_line[5]) - number(&checked_line[2])).abs() < 1e-10,
            "{explained_line:?} {checked_line:?}"
        );
    }
    let refused = |from: &str, to: &str, words: &str| {
        assert!(twice.contains(from));
        place.write("rows.csv", twice.replacen(from, to, 1));
        place.bad(&format!("downscale check {args}"), words);
    };
    let second = twice.lines().nth(2).unwrap();
    let cell = second.split(',').nth(1).unwrap();
    refused(
        second,
        &second.replacen(cell, "7.5", 1),
        "row 'p0' is in bag 'd00' and in bag 'r0' with a different 'rain': a row must have the \
         same covariates in all of its bags",
    );
    refused(second, &second.replacen("r0", "d00", 1), "row 'p0' is in bag 'd00' twice");
    refused("pixel,", "place,", "there is no column 'pixel'");
}

#[test]
fn exact_totals_are_met() {
    let world = world();
    let place = place(&world, DISTRICTS);
    let mean = world.rates.iter().sum::<f64>() / DISTRICTS as f64;
    let deviation = (world.rates.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / DISTRICTS as f64).sqrt();
    // Districts of 2 to 12 pixels; by default the errors of rates are estimated as noise.
    let largest = |options: &str, learn: &str, unit: f64| {
        let checks = cells(&place.good(&format!("downscale check {learn} {options}")).0);
        checks[1..].iter().map(|line| number(&line[3]).abs()).fold(0.0, f64::max) / unit
    };
    for tuning in ["", "--no-tuning"] {
        assert!(largest(tuning, LEARN, deviation) > 1e-3);
        assert!(largest(&format!("{tuning} --exact-totals"), LEARN, deviation) < 1e-6);
    }
    let cases = LEARN.replace("rate", "cases");
    assert!(largest("--sum --exact-totals", &cases, deviation) < 1e-6);
    let (_, err) = place.good(&format!("downscale fit {LEARN} --exact-totals -o m.riesz"));
    assert!(err.contains("which is rounding"), "{err}");
    // Pixels of the map add up to the observations.
    let explanations =
        cells(&place.good("downscale explain m.riesz rows.csv --bag district --weight people").0);
    for (line, rate) in explanations[1..].iter().zip(&world.rates) {
        assert!((number(&line[5]) - rate).abs() < 1e-6 * deviation, "{line:?} {rate}");
    }
    let bad = |options: &str, words: &str| {
        place.bad(&format!("downscale check {LEARN} --exact-totals {options}"), words);
    };
    for other in ["--target-std mass", "--noise 0.1", "--inducing 5", "--published", "--mediators year"] {
        bad(other, "cannot be used with");
    }
    bad("--family poisson", "--exact-totals cannot be used with counts");
    // Two districts with the same pixels cannot have two rates.
    let rows = place.read("rows.csv");
    let copy: String =
        rows.lines().filter(|l| l.contains("d01")).map(|l| l.replace("d01", "d99") + "\n").collect();
    place.write("rows.csv", rows + &copy);
    place.write("bags.csv", place.read("bags.csv") + "9.5,d99,0,0,0,0\n");
    let error = place.bad(&format!("downscale check {LEARN} --exact-totals"), "bag 'd");
    assert!(error.contains("--exact-totals") && (error.contains("d99") || error.contains("d01")), "{error}");
}

/// Errors identify targets by their bags, where the library uses indices.
#[test]
fn errors_name_targets_by_their_bags() {
    let world = world();
    let place = place(&world, 9);
    let rounded = |column: usize, cell: &str| match column {
        4 => format!("{}", number(cell).round()),
        _ => cell.to_string(),
    };
    let line = |(i, line): (usize, &str)| {
        let cells = line.split(',').enumerate();
        let rounded_cells: Vec<String> =
            cells.map(|(j, cell)| if i == 0 { cell.to_string() } else { rounded(j, cell) }).collect();
        rounded_cells.join(",") + "\n"
    };
    // d10 differs from all districts with rows.
    let bags: String = place.read("bags.csv").lines().enumerate().map(line).collect();
    place.write("bags.csv", bags.replace("d10,2.0,", "d10,9000.0,"));
    let counts = LEARN.replace("rate", "cases");
    let options = "--family poisson --mediators year,level --total mass --no-tuning --no-standardise";
    place.bad(&format!("downscale check {counts} {options}"), "mediators of target 'd10' = far from all");
}
