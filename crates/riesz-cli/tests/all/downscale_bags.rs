//! Explanations and maps of bags by `riesz downscale`, against averages over their rows.

use riesz::aggregate::{Aggregates, Bags, CountProcess, Family, TargetUnit, count_inducing_points};
use riesz::{Explainer, NaturalScalePrediction};

use crate::common::{Place, cells, number};
use crate::downscale::{DISTRICTS, LEARN, World, kernel, mass, matched, place, start, table, world};

const EXPLAIN: &str = "downscale explain m.riesz rows.csv --bag district --weight people";

/// Returns sums over the rows of each district of a value, weighted by people.
fn sums(world: &World, value: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut sums = vec![0.0; DISTRICTS];
    (0..world.bag.len()).for_each(|i| sums[world.bag[i]] += world.people[i] * value(i));
    sums
}

/// Asserts that bags' explanations are `times` the weighted means of their rows' explanations and add up;
/// returns the table.
fn explained(place: &Place, world: &World, options: &str, times: &[f64]) -> Vec<Vec<String>> {
    let (text, err) = place.good(&format!("{EXPLAIN} {options}"));
    assert!(err.contains("12 bags of") && err.contains("exact: values add up"), "{err}");
    let of_bags = cells(&text);
    assert_eq!(of_bags[0], ["bag", "base_value", "rain", "east", "north", "prediction"]);
    let of_rows = cells(&place.good(&format!("explain m.riesz rows.csv {}", options.replace("--sum", ""))).0);
    let masses = mass(world);
    for (j, name) in of_bags[0].iter().enumerate().skip(1) {
        let position = of_rows[0].iter().position(|column| column == name).unwrap();
        let by_hand = sums(world, |i| number(&of_rows[1 + i][position]));
        for b in 0..DISTRICTS {
            let (actual, expected) = (number(&of_bags[1 + b][j]), times[b] * by_hand[b] / masses[b]);
            assert!(
                (actual - expected).abs() <= 1e-12 * expected.abs().max(1.0),
                "{name} {b}: {actual} {expected}"
            );
        }
    }
    for (b, line) in of_bags[1..].iter().enumerate() {
        assert_eq!(line[0], format!("d{b:02}"));
        let numbers: Vec<f64> = line[1..].iter().map(|cell| number(cell)).collect();
        assert!(
            (numbers[..4].iter().sum::<f64>() - numbers[4]).abs() < 1e-11 * numbers[4].abs().max(1.0),
            "{line:?}"
        );
    }
    of_bags
}

#[test]
fn bags_are_explained_by_their_rows() {
    let world = world();
    let (place, masses, unit_factors) = (place(&world, DISTRICTS), mass(&world), [1.0; DISTRICTS]);
    place.good(&format!("downscale fit {LEARN} --no-tuning -o m.riesz"));
    let explanations = explained(&place, &world, "", &unit_factors);
    explained(&place, &world, "--background rows.csv", &unit_factors);
    // The explained value is the fitted value of the district.
    let checked = cells(&place.good(&format!("downscale check {LEARN} --no-tuning")).0);
    for (line, checked) in explanations[1..].iter().zip(&checked[1..]) {
        assert!((number(&line[5]) - number(&checked[2])).abs() < 1e-10, "{line:?} {checked:?}");
    }
    // Sums, by option or from the model file.
    explained(&place, &world, "--sum", &masses);
    for learn in ["--no-tuning", "--no-tuning --inducing 20"] {
        let cases = LEARN.replace("rate", "cases");
        place.good(&format!("downscale fit {cases} --sum {learn} -o m.riesz"));
        let explanations = explained(&place, &world, "", &masses);
        let checked = cells(&place.good(&format!("downscale check {cases} --sum {learn}")).0);
        for (line, checked) in explanations[1..].iter().zip(&checked[1..]) {
            assert!((number(&line[5]) / number(&checked[2]) - 1.0).abs() < 1e-10, "{line:?} {checked:?}");
        }
    }
    let (_, err) = place.good(&EXPLAIN.replace("--weight people", ""));
    assert!(err.contains("learnt from rows weighted by 'people', but these rows have weight 1"), "{err}");
    // A column with the name of an output column.
    place.write("rows.csv", place.read("rows.csv").replacen("rain,", "prediction,", 1));
    place.good(&format!("downscale fit {LEARN} --no-tuning -o m.riesz"));
    let explanations = cells(&place.good(EXPLAIN).0);
    assert_eq!(explanations[0], ["bag", "base_value", "feature:prediction", "east", "north", "prediction"]);
    place.bad(&EXPLAIN.replace("district", "ward"), "there is no column 'ward'");
    let rows = place.read("rows.csv");
    place.write("rows.csv", rows.replacen(",1.0,", ",-1,", 1));
    place.bad(EXPLAIN, "in bag 'd00', is -1: weights are positive numbers");
}

#[test]
fn rows_of_weight_zero_are_left_out() {
    let place = place(&world(), DISTRICTS);
    place.good(&format!("downscale fit {LEARN} --no-tuning -o m.riesz"));
    let rows = place.read("rows.csv");
    let line = rows.lines().position(|line| line.contains(",1.0,")).unwrap();
    let remaining: String =
        rows.lines().enumerate().filter(|(i, _)| *i != line).map(|(_, line)| format!("{line}\n")).collect();
    let note = "rows whose 'people' is 0 were left out";
    for command in
        [EXPLAIN, "downscale map m.riesz rows.csv --x east --y north --bag district --weight people"]
    {
        let command = if command == EXPLAIN { command.to_string() } else { format!("{command} -o map.html") };
        place.write("rows.csv", rows.replacen(",1.0,", ",0,", 1));
        let (with_zero, err) = place.good(&command);
        assert!(err.contains(note), "{err}");
        place.write("rows.csv", &remaining);
        assert_eq!(place.good(&command).0, with_zero);
    }
}

/// Returns the lines of the table of bags on a page; the first is for all rows.
fn bags_of(page: &str) -> Vec<Vec<String>> {
    let from = page.find("aria-label=\"Table of bags\"").unwrap();
    let table = &page[from..from + page[from..].find("</table>").unwrap()];
    let text = |cell: &str| cell.rsplit_once('>').map(|parts| parts.1.replace('−', "-").replace('+', ""));
    let cells = |line: &str| {
        let mut entries: Vec<String> = line.split("</t").filter_map(text).collect();
        entries.pop();
        entries
    };
    let lines: Vec<Vec<String>> = table.split("<tr>").skip(2).map(cells).collect();
    assert_eq!(lines[0][0], "all rows");
    lines
}

/// Asserts that a cell shows a value, rounded to the cell's number of decimals.
fn shows(cell: &str, value: f64) {
    let decimals = cell.split_once('.').map_or(0, |parts| parts.1.len() as i32);
    assert!((number(cell) - value).abs() <= 0.5001 * 10f64.powi(-decimals), "{cell} {value}");
}

#[test]
fn pages_explain_the_values_of_bags() {
    let world = world();
    let (place, data, masses) = (place(&world, DISTRICTS), matched(&world), mass(&world));
    place.good(&format!("downscale fit {LEARN} --no-tuning -o m.riesz"));
    let fit = start(&data).fit(&data).unwrap();
    let draw = "downscale map m.riesz rows.csv --x east --y north";
    let (_, err) = place.good(&format!("{draw} -o plain.html"));
    assert!(err.contains("rows explained; exact: values add up"), "{err}");
    let plain = place.read("plain.html");
    assert!(!plain.contains("Table of bags") && plain.contains("img-src data:"));
    // The mean, its standard deviation, the top feature, and three features.
    assert_eq!(plain.matches("<figure>").count(), 6);
    assert_eq!(plain.matches("href=\"data:image/png;base64,").count(), 6);
    assert!(!plain.contains("http://") && !plain.contains("https://") && !plain.contains("<script"));
    // The page is byte-identical each time, and differs with another background.
    place.good(&format!("{draw} -o again.html"));
    assert_eq!(plain, place.read("again.html"));
    place.good(&format!("{draw} --background rows.csv -o again.html"));
    assert_ne!(plain, place.read("again.html"));
    // Bag d03 has no observation.
    let bags = place.read("bags.csv");
    let less: String =
        bags.lines().filter(|line| !line.contains("d03")).map(|line| format!("{line}\n")).collect();
    place.write("less.csv", less);
    let command = format!("{draw} --bag district --weight people -o map.html");
    let (_, err) = place.good(&format!("{command} --bags less.csv --target rate"));
    assert!(err.contains("1 of 12 bags have no observed target"), "{err}");
    let lines = bags_of(&place.read("map.html"));
    let (fitted, rows) = (fit.fitted(), data.rows.clone());
    let explanation = Explainer::functional(&fit.model).unwrap().explain(&rows).unwrap();
    let values: Vec<Vec<f64>> = (0..3).map(|j| sums(&world, |i| explanation.row_values(i, 0)[j])).collect();
    let total_mass: f64 = masses.iter().sum();
    let mut before = f64::INFINITY;
    assert_eq!(lines.len(), 1 + DISTRICTS);
    for line in &lines[1..] {
        let b: usize = line[0][1..].parse().unwrap();
        let misfit = world.rates[b] - fitted[b];
        assert_eq!(line[1], world.bag.iter().filter(|bag_index| **bag_index == b).count().to_string());
        shows(&line[2], masses[b]);
        shows(&line[4], fitted[b]);
        if b == 3 {
            assert_eq!([&line[3], &line[5]], ["–", "–"]);
        } else {
            shows(&line[3], world.rates[b]);
            shows(&line[5], misfit);
            assert!(misfit.abs() <= before, "{lines:?}");
            before = misfit.abs();
        }
        shows(&line[7], explanation.base_values[0]);
        // The reason: the difference from all rows, with the name of each feature.
        let average: f64 = (0..DISTRICTS).map(|d| fitted[d] * masses[d]).sum::<f64>() / total_mass;
        let words: Vec<&str> = line[6]
            .split(|c: char| c.is_whitespace() || ",:".contains(c))
            .filter(|w| !w.is_empty())
            .collect();
        shows(words[0], (fitted[b] - average).abs());
        assert_eq!(words[1..3], [if fitted[b] < average { "below" } else { "above" }, "average"]);
        for (j, name) in ["rain", "east", "north"].iter().enumerate() {
            let position = words.iter().position(|word| word == name).unwrap();
            let overall: f64 = values[j].iter().sum::<f64>() / total_mass;
            shows(words[position + 1], values[j][b] / masses[b] - overall);
        }
    }
    assert_eq!(lines[DISTRICTS][0], "d03");
    // Columns are ordered by the features' importance.
    for (k, &j) in explanation.ranking(0).iter().enumerate() {
        lines[1..].iter().for_each(|line| {
            let b: usize = line[0][1..].parse().unwrap();
            shows(&line[8 + k], values[j][b] / masses[b]);
        });
        shows(&lines[0][8 + k], values[j].iter().sum::<f64>() / total_mass);
    }
    shows(&lines[0][4], (0..DISTRICTS).map(|b| fitted[b] * masses[b]).sum::<f64>() / total_mass);
    // Without observations, with names.
    place.good(&command);
    let names: Vec<String> =
        bags_of(&place.read("map.html"))[1..].iter().map(|line| line[0].clone()).collect();
    assert!(names.is_sorted());
    // A map of sums: a district is compared with the average of its people.
    place.good(&format!("downscale fit {} --sum --no-tuning -o m.riesz", LEARN.replace("rate", "cases")));
    place.good(&command);
    let checked = format!("downscale check {} --sum --no-tuning", LEARN.replace("rate", "cases"));
    let fitted: Vec<f64> = cells(&place.good(&checked).0)[1..].iter().map(|line| number(&line[2])).collect();
    let total: f64 = fitted.iter().sum();
    let lines = bags_of(&place.read("map.html"));
    shows(&lines[0][3], total);
    for (b, line) in lines[1..].iter().enumerate() {
        shows(&line[3], fitted[b]);
        let usual = total * masses[b] / total_mass;
        let (size, direction) = line[4].split_once(' ').unwrap();
        shows(size, (fitted[b] - usual).abs());
        assert!(direction.starts_with(if fitted[b] < usual { "below" } else { "above" }), "{line:?}");
    }
    place.bad(&format!("{command} --trials rate --bags bags.csv --target rate"), "--trials is for a map");
    place.bad(&format!("{command} --bags bags.csv"), "--target");
    place.write("bags.csv", format!("{bags}{}\n", bags.lines().nth(1).unwrap()));
    place.bad(&format!("{command} --bags bags.csv --target rate"), "bags.csv has 'd00' twice");
}

#[test]
fn count_maps_show_rates_and_explain_logarithms() {
    let world = world();
    let (place, masses) = (place(&world, DISTRICTS), mass(&world));
    let cases: Vec<f64> =
        world.rates.iter().zip(&masses).map(|(rate, mass)| (0.4 * rate * mass).round()).collect();
    let trials: Vec<f64> = cases.iter().map(|z| (2.5 * z).round() + 3.0).collect();
    let lines: String = (0..DISTRICTS).map(|b| format!("d{b:02},{},{}\n", cases[b], trials[b])).collect();
    place.write("bags.csv", format!("district,cases,trials\n{lines}"));
    let learn = "downscale fit rows.csv bags.csv --bag district --target cases --weight people --no-tuning \
                 -o m.riesz";
    let draw = "downscale map m.riesz rows.csv --x east --y north --bag district --weight people --bags \
                bags.csv --target cases -o map.html";
    let families = [("--family poisson", ""), ("--family binomial --trials trials", "--trials trials")];
    for (k, (fit_options, map_options)) in families.into_iter().enumerate() {
        place.good(&format!("{learn} {fit_options}"));
        explained(&place, &world, "", &[1.0; DISTRICTS]);
        place.bad(&format!("{EXPLAIN} --sum"), "--sum cannot be used with counts");
        place.good(&format!("{draw} {map_options}"));
        let page = place.read("map.html");
        let (unit, family) = match k {
            0 => (TargetUnit::Sum, Family::Poisson),
            _ => (TargetUnit::Mean, Family::Binomial { trials: trials.clone() }),
        };
        let bags = Bags::new(&world.bag, DISTRICTS, Some(&world.people), unit).unwrap();
        let data = Aggregates::matched(table(&world), bags, cases.clone());
        let rows_kernel = kernel("rbf(length_scale=1, ard)", &data.rows);
        let fit = CountProcess::new(rows_kernel, count_inducing_points(&data, 0).unwrap(), family)
            .fit(&data)
            .unwrap();
        let rates = NaturalScalePrediction::new(&fit.posterior(), &data.rows, 0.0).unwrap().mean;
        let by_hand = sums(&world, |i| rates[i]);
        for line in &bags_of(&page)[1..] {
            let b: usize = line[0][1..].parse().unwrap();
            let (seen, map) =
                if k == 0 { (cases[b], by_hand[b]) } else { (cases[b] / trials[b], by_hand[b] / masses[b]) };
            shows(&line[3], seen);
            shows(&line[4], map);
            assert_eq!(line[6].contains("times the average rate"), k == 0, "{line:?}");
        }
        assert!(page.contains(["A map of rate of cases", "A map of probability of cases"][k]), "{page}");
        assert!(page.contains(["the logarithm of the rate", "the log odds of a success"][k]));
        if k == 1 {
            place.bad(draw, "takes --trials with --target");
        }
    }
}
