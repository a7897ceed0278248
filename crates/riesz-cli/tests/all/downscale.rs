//! Tests of `riesz downscale` against the library on the same numbers, and of refused input.

use riesz::aggregate::{
    AggregateFit, AggregateGaussianProcess, Aggregates, BagSmoother, Bags, Conventions, CountFit,
    CountProcess, Family, LeaveOneOut, Mediation, Mediators, SparseAggregateProcess, TargetUnit, Tuning,
    count_inducing_points, inducing_points,
};
use riesz::fit::TunedParameters;
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::{Column, Explainer, Kernel, Matrix, NaturalScalePrediction, Table};
use riesz_report::{Places, PlotOptions, render_map};

use crate::common::{Place, cells, estimates_lie_in_their_intervals, number};

pub const LEARN: &str = "rows.csv bags.csv --bag district --target rate --weight people";

/// Pixels of twelve districts, with their true values.
pub struct World {
    /// Pixels: columns east, north, rain.
    pub rows: Table,
    pub bag: Vec<usize>,
    pub people: Vec<f64>,
    /// Mean rate of each district over its people, with errors.
    pub rates: Vec<f64>,
    /// Coarse data: columns year, level.
    pub coarse: Table,
}

pub const DISTRICTS: usize = 12;

pub fn named(names: [&str; 3], width: usize, rows: &[Vec<f64>]) -> Table {
    let columns = names[..width].iter().map(|name| Column::numeric(*name)).collect();
    let values = (0..width).flat_map(|j| rows.iter().map(move |row| row[j])).collect();
    Table::from_column_major(columns, rows.len(), values).unwrap()
}

/// Returns districts of 2 to 12 pixels, whose pixels alternate in the table.
pub fn world() -> World {
    let size = |b: usize| 2 + 5 * b % 11;
    let (mut bag, mut rows, mut people) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..12 {
        for b in (0..DISTRICTS).filter(|&b| turn < size(b)) {
            let i = rows.len() as f64;
            let (east, north) = ((b % 4) as f64 + turn as f64 / 12.0, (b / 4) as f64 + (7.0 * i).sin() / 3.0);
            bag.push(b);
            rows.push(vec![east, north, 100.0 * (3.0 * i).cos()]);
            people.push(1.0 + i % 5.0);
        }
    }
    let truth = |row: &Vec<f64>| 5.0 + row[0].sin() + 0.01 * row[2];
    let mut sums = [(0.0, 0.0); DISTRICTS];
    for ((row, &b), w) in rows.iter().zip(&bag).zip(&people) {
        sums[b] = (sums[b].0 + w * truth(row), sums[b].1 + w);
    }
    let rates =
        sums.iter().enumerate().map(|(b, (sum, mass))| sum / mass + 0.05 * (5.0 * b as f64).sin()).collect();
    let coarse: Vec<Vec<f64>> =
        (0..DISTRICTS).map(|b| vec![(b % 4) as f64, (2.0 * b as f64).cos()]).collect();
    World {
        rows: named(["east", "north", "rain"], 3, &rows),
        bag,
        people,
        rates,
        coarse: named(["year", "level", ""], 2, &coarse),
    }
}

/// Writes the world to files; districts from `known` on have no pixels. Sums are rates times `mass`.
pub fn place(world: &World, known: usize) -> Place {
    let place = Place::new();
    let pixel = |i: usize| {
        let [east, north, rain] = [0, 1, 2].map(|j| world.rows.get(i, j));
        format!("{rain:?},d{:02},{east:?},{:?},{north:?}\n", world.bag[i], world.people[i])
    };
    let lines: String = (0..world.bag.len()).filter(|&i| world.bag[i] < known).map(pixel).collect();
    place.write("rows.csv", format!("rain,district,east,people,north\n{lines}"));
    let mass = mass(world);
    let district = |b: usize| {
        let [year, level] = [0, 1].map(|j| world.coarse.get(b, j));
        let (rate, mass) = (world.rates[b], mass[b]);
        format!("{rate:?},d{b:02},{year:?},{level:?},{:?},{mass:?}\n", rate * mass)
    };
    let lines: String = (0..DISTRICTS).map(district).collect();
    place.write("bags.csv", format!("rate,district,year,level,cases,mass\n{lines}"));
    place
}

pub fn mass(world: &World) -> Vec<f64> {
    let mut mass = vec![0.0; DISTRICTS];
    world.bag.iter().zip(&world.people).for_each(|(&b, w)| mass[b] += w);
    mass
}

/// Returns the world's rows as a table, with columns in the order of the command line.
pub fn table(world: &World) -> Table {
    let rows: Vec<Vec<f64>> =
        (0..world.rows.rows()).map(|i| [2, 0, 1].map(|j| world.rows.get(i, j)).to_vec()).collect();
    named(["rain", "east", "north"], 3, &rows)
}

pub fn matched(world: &World) -> Aggregates {
    let bags = Bags::new(&world.bag, DISTRICTS, Some(&world.people), TargetUnit::Mean).unwrap();
    Aggregates::matched(table(world), bags, world.rates.clone())
}

pub fn kernel(text: &str, x: &Table) -> Kernel {
    KernelExpression::parse(text).unwrap().resolve(x, &ColumnScaling::standardised(x)).unwrap()
}

/// Returns the tuning of the default kernel.
pub fn tuning(conventions: Conventions) -> Tuning {
    Tuning { conventions, profiles: conventions.rougher_profiles(), ..Tuning::default() }
}

/// Returns the start of tuning: bags have 2 to 12 rows, so that rows have their own noise.
pub fn start(data: &Aggregates) -> AggregateGaussianProcess {
    let kernel = kernel("rbf(length_scale=1, ard)", &data.rows);
    AggregateGaussianProcess { row_noise: 0.1, ..AggregateGaussianProcess::new(kernel, 0.03) }
}

/// Asserts that the table of `check` has the library's values.
pub fn checked(text: &str, targets: &[f64], fitted: &[f64], left_out: &LeaveOneOut) {
    let rows = cells(text);
    assert_eq!(rows[0], ["bag", "observed", "fitted", "residual", "left_out", "left_out_std", "score"]);
    assert_eq!(rows.len(), 1 + targets.len());
    for (t, line) in rows[1..].iter().enumerate() {
        let sd = left_out.variance[t].sqrt();
        let expected = [targets[t], fitted[t], targets[t] - fitted[t], left_out.mean[t], sd];
        assert_eq!(line[0], format!("d{t:02}"));
        for (cell, value) in line[1..].iter().zip(expected) {
            assert!((number(cell) - value).abs() <= 1e-12 * value.abs().max(1.0), "{cell} {value}: {text}");
        }
        let score = (targets[t] - left_out.mean[t]) / sd;
        assert!((number(&line[6]) - score).abs() < 1e-9, "{line:?}");
    }
}

/// Asserts that `predict` prints the predictions and intervals of the library's fit.
fn predicted(place: &Place, fit: &AggregateFit, rows: &Table, target: &str) {
    let (text, _) = place.good("downscale predict m.riesz rows.csv");
    estimates_lie_in_their_intervals(&text);
    let predictions = cells(&text);
    let names = ["", "_std", "_low", "_high"].map(|end| format!("{target}{end}"));
    assert_eq!(predictions[0][1..], names);
    let (mean, sd) = (fit.model.predict(rows).unwrap(), fit.posterior().sd(rows).unwrap());
    assert_eq!(predictions.len(), 1 + rows.rows());
    for (i, line) in predictions[1..].iter().enumerate() {
        let (mean, sd) = (mean[(i, 0)], sd[(i, 0)]);
        assert_eq!(line[0], i.to_string());
        let expected = [mean, sd, mean - 1.959963984540054 * sd, mean + 1.959963984540054 * sd];
        for (cell, value) in line[1..].iter().zip(expected) {
            assert!((number(cell) - value).abs() <= 1e-9 * value.abs().max(1.0), "{cell} {value}");
        }
    }
}

#[test]
fn maps_agree_with_the_library() {
    let world = world();
    let (place, data) = (place(&world, DISTRICTS), matched(&world));
    let (start, tuning) = (start(&data), tuning(Conventions::default()));
    let tuned = tuning.tune(&start, &data).unwrap();
    let (table, err) = place.good(&format!("downscale check {LEARN}"));
    let left_out = tuned.fit.leave_one_out().unwrap();
    checked(&table, &world.rates, &tuned.fit.fitted(), &left_out);
    let words = format!(
        "12 targets, means of rows, weighted by 'people': 12 with rows of their own, 0 through mediators; \
         {} rows in 12 bags",
        world.bag.len()
    );
    assert!(err.contains(&words), "{err}");
    let (_, err) = place.good(&format!("downscale fit {LEARN} -o m.riesz"));
    let printed_value = |name: &str| -> String {
        let line = err.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {err}"));
        line[name.len()..].trim().to_string()
    };
    let close = |text: &str, value: f64| {
        assert!((number(text) - value).abs() <= 1e-6 * value.abs(), "{text} {value}")
    };
    close(&printed_value("leave-one-out: RMSE"), left_out.rmse());
    close(&printed_value("leave-one-out: share in the 95 % interval"), left_out.coverage(1.96));
    close(&printed_value("leave-one-out: mean log density"), -left_out.nlpd());
    let misfits: Vec<f64> =
        world.rates.iter().zip(tuned.fit.fitted()).map(|(z, fitted)| (z - fitted).abs()).collect();
    let worst = (0..DISTRICTS).max_by(|&a, &b| misfits[a].total_cmp(&misfits[b])).unwrap();
    let misfit = printed_value("largest misfit of a target");
    assert!(misfit.ends_with(&format!("(bag 'd{worst:02}'), which is taken for noise")), "{misfit}");
    close(misfit.split(' ').next().unwrap().trim_start_matches('-'), misfits[worst]);
    close(&printed_value("noise  "), tuned.fit.variance * tuned.process.noise);
    predicted(&place, &tuned.fit, &data.rows, "rate");
    // The file is an ordinary model.
    let plain = cells(&place.good("predict m.riesz rows.csv --std").0);
    let downscaled = cells(&place.good("downscale predict m.riesz rows.csv").0);
    assert!(plain.iter().zip(&downscaled).all(|(a, b)| a[..] == b[..3]), "{plain:?}");
    assert!(place.good("inspect m.riesz").0.contains("targets with rows of their own"));
    // No other files are written.
    assert_eq!(place.files(), ["bags.csv", "m.riesz", "rows.csv"]);
}

#[test]
fn options_agree_with_the_library() {
    let world = world();
    let (place, data) = (place(&world, DISTRICTS), matched(&world));
    let plain = AggregateGaussianProcess { noise: 0.2, ..start(&data) };
    let check = |options: &str, process: &AggregateGaussianProcess, data: &Aggregates| {
        let fit = process.fit(data).unwrap();
        let (text, _) = place.good(&format!("downscale check {LEARN} {options}"));
        checked(&text, &data.targets, &fit.fitted(), &fit.leave_one_out().unwrap());
    };
    check("--no-tuning --noise 0.2", &plain, &data);
    // Columns without scaling, and fewer of them.
    let rows = data.rows.clone();
    let two: Vec<Vec<f64>> = (0..rows.rows()).map(|i| vec![rows.get(i, 1), rows.get(i, 2)]).collect();
    let fewer = Aggregates { rows: named(["east", "north", ""], 2, &two), ..data.clone() };
    let parsed = KernelExpression::parse("rbf(length_scale=2)").unwrap();
    let resolved = parsed.resolve(&fewer.rows, &ColumnScaling::raw(2)).unwrap();
    let process = AggregateGaussianProcess { kernel: resolved, noise: 0.03, ..plain.clone() };
    for which in ["--ignore rain", "--features east,north"] {
        check(
            &format!("--no-tuning --no-standardise --kernel rbf(length_scale=2) {which}"),
            &process,
            &fewer,
        );
    }
    // Known errors.
    let errors: Vec<f64> = world.rates.iter().map(|rate| 0.1 * rate).collect();
    let lines: String =
        (0..DISTRICTS).map(|b| format!("d{b:02},{:?},{:?}\n", world.rates[b], errors[b])).collect();
    place.write("bags.csv", format!("district,rate,error\n{lines}"));
    let noisy = Aggregates { target_noise: Some(errors.iter().map(|e| e * e).collect()), ..data.clone() };
    check("--no-tuning --noise 0.2 --target-std error", &plain, &noisy);
    // Published conventions: no noise of rows, and no priors.
    let published = tuning(Conventions::Published);
    let from = AggregateGaussianProcess { row_noise: 0.0, ..start(&data) };
    check("--published", &published.tune(&from, &data).unwrap().process, &data);
}

#[test]
fn sums_are_learnt_through_mediators() {
    let world = world();
    let place = place(&world, 9);
    let masses = mass(&world);
    let rows = table(&world);
    let kept: Vec<usize> = (0..world.bag.len()).filter(|&i| world.bag[i] < 9).collect();
    let [bag, people] =
        [0, 1].map(|k| kept.iter().map(|&i| [world.bag[i] as f64, world.people[i]][k]).collect::<Vec<_>>());
    let bag: Vec<usize> = bag.into_iter().map(|b| b as usize).collect();
    let (with_rows, districts): (Vec<usize>, Vec<usize>) = ((0..9).collect(), (0..DISTRICTS).collect());
    let coarse = Mediators {
        bags: world.coarse.select_rows(&with_rows),
        targets: world.coarse.select_rows(&districts),
        totals: Some(masses.clone()),
    };
    let data = Aggregates {
        rows: rows.select_rows(&kept),
        bags: Bags::new(&bag, 9, Some(&people), TargetUnit::Sum).unwrap(),
        targets: world.rates.iter().zip(&masses).map(|(rate, mass)| rate * mass).collect(),
        bag_of_target: districts.iter().map(|&b| (b < 9).then_some(b)).collect(),
        target_noise: None,
        mediators: Some(coarse.clone()),
    };
    let every = coarse.bags.stack(&coarse.targets).unwrap();
    let mediation = Some(Mediation::new(kernel("rbf(length_scale=0.5, ard)", &every), 1e-3));
    let process = AggregateGaussianProcess { mediation, mediation_noise: 0.1, ..start(&data) };
    let fit = process.fit(&data).unwrap();
    let args = "rows.csv bags.csv --bag district --target cases --weight people --sum --total mass \
                 --mediators year,level --no-tuning";
    let (text, err) = place.good(&format!("downscale check {args}"));
    checked(&text, &data.targets, &fit.fitted(), &fit.leave_one_out().unwrap());
    assert!(
        err.contains("sums of rows, each times its 'people': 9 with rows of their own, 3 through mediators"),
        "{err}"
    );
    place.good(&format!("downscale fit {args} -o m.riesz"));
    predicted(&place, &fit, &data.rows, "cases");
    place.bad(
        &args.replace(" --total mass", "").replace("rows.csv", "downscale check rows.csv"),
        "need --total",
    );
    // With inducing points.
    let points = inducing_points(&data.rows, 5, 0).unwrap();
    let sparse = SparseAggregateProcess {
        noise: process.noise,
        mediation: process.mediation.clone(),
        mediation_noise: Some(process.mediation_noise),
        tune: TunedParameters::Nothing,
        row_noise: Some(process.row_noise),
        ..SparseAggregateProcess::new(process.kernel.clone(), points)
    };
    let sparse = sparse.fit_data(&data).unwrap();
    let (text, _) = place.good(&format!("downscale check {args} --inducing 5 --seed 0"));
    checked(&text, &data.targets, &sparse.fitted, &sparse.left_out);
    // Tuned like the library.
    let tuned = tuning(Conventions::default()).tune(&process, &data).unwrap();
    let (text, _) = place.good(&format!("downscale check {args}").replace(" --no-tuning", ""));
    checked(&text, &data.targets, &tuned.fit.fitted(), &tuned.fit.leave_one_out().unwrap());
    // Targets that are far from all others.
    let bags = place.read("bags.csv").replace("d11,3.0,", "d11,900.0,");
    place.write("far.csv", bags);
    let (_, err) = place.good(&format!("downscale check {args}").replace("bags.csv", "far.csv"));
    assert!(err.contains("warning: the mediators of 1 targets are far") && err.contains("'d11'"), "{err}");
    // Without mediators, these targets are omitted only with an explicit option.
    let plain = format!("downscale check {LEARN} --no-tuning");
    place.bad(&plain, "3 targets belong to bags without rows, 'd09', 'd10', 'd11': give mediators");
    place.bad(&plain, "leave these targets out (--drop-unmatched)");
    let (text, err) = place.good(&format!("{plain} --drop-unmatched"));
    assert!(cells(&text).len() == 10 && err.contains("3 targets of bags without rows are left out"), "{err}");
}

#[test]
fn targets_are_regressed_on_mediators() {
    let world = world();
    let place = place(&world, 7);
    let rows = table(&world);
    let kept: Vec<usize> = (0..world.bag.len()).filter(|&i| world.bag[i] < 7).collect();
    let bag: Vec<usize> = kept.iter().map(|&i| world.bag[i]).collect();
    let people: Vec<f64> = kept.iter().map(|&i| world.people[i]).collect();
    let coarse = Mediators {
        bags: world.coarse.select_rows(&(0..7).collect::<Vec<_>>()),
        targets: world.coarse.clone(),
        totals: None,
    };
    let every = coarse.bags.stack(&coarse.targets).unwrap();
    let mediators = kernel("rbf(length_scale=0.5, ard)", &every);
    let data = Aggregates {
        rows: rows.select_rows(&kept),
        bags: Bags::new(&bag, 7, Some(&people), TargetUnit::Mean).unwrap(),
        targets: world.rates.clone(),
        bag_of_target: (0..DISTRICTS).map(|b| (b < 7).then_some(b)).collect(),
        target_noise: None,
        mediators: Some(coarse),
    };
    let rows = kernel("rbf(length_scale=1, ard)", &data.rows);
    let start = Conventions::Regularised.start(rows, Some(mediators), &data);
    let command = format!("downscale check {LEARN} --mediators year,level");
    for (operator, tied) in [("pseudo", false), ("two-sided", true)] {
        let process = start.clone().regressing_targets(tied, &data);
        let fit = process.fit(&data).unwrap();
        let (text, _) = place.good(&format!("{command} --no-tuning --operator {operator}"));
        checked(&text, &data.targets, &fit.fitted(), &fit.leave_one_out().unwrap());
        let tuned = tuning(Conventions::default()).tune(&process, &data).unwrap();
        let (text, _) = place.good(&format!("{command} --operator {operator}"));
        checked(&text, &data.targets, &tuned.fit.fitted(), &tuned.fit.leave_one_out().unwrap());
    }
    place.bad(&format!("downscale check {LEARN} --operator pseudo"), "--mediators");
    for other in ["--published", "--sum", "--inducing 5"] {
        place.bad(&format!("{command} --operator pseudo {other}"), "cannot be used with");
    }
}

#[test]
fn many_rows_are_known_through_points() {
    let world = world();
    let (place, data) = (place(&world, DISTRICTS), matched(&world));
    let points = inducing_points(&data.rows, 20, 5).unwrap();
    let start = start(&data);
    let process = SparseAggregateProcess {
        row_noise: Some(0.1),
        profiles: Conventions::default().rougher_profiles(),
        seed: 5,
        ..SparseAggregateProcess::new(start.kernel, points)
    };
    let fit = process.fit(&data.rows, &data.bags, &data.targets).unwrap();
    let (text, _) = place.good(&format!("downscale check {LEARN} --inducing 20 --seed 5"));
    checked(&text, &data.targets, &fit.fitted, &fit.left_out);
}

#[test]
fn maps_are_drawn() {
    let world = world();
    let (place, data) = (place(&world, DISTRICTS), matched(&world));
    place.good(&format!("downscale fit {LEARN} --no-tuning -o m.riesz"));
    let fit = start(&data).fit(&data).unwrap();
    let svg = |quantity: &str| {
        place.good(&format!("downscale map m.riesz rows.csv --x east --y north --of {quantity} -o map.svg"));
        place.read("map.svg")
    };
    let column = |m: Matrix| m.column(0);
    let drawn = |values: &[f64], title: &str| {
        let (x, y) = (data.rows.column(1), data.rows.column(2));
        render_map(Places::Points([x, y]), values, ["east", "north"], title, &PlotOptions::default())
            .unwrap()
            .text
    };
    assert_eq!(svg("mean"), drawn(&column(fit.model.predict(&data.rows).unwrap()), "rate"));
    assert_eq!(svg("std"), drawn(&column(fit.posterior().sd(&data.rows).unwrap()), "std of rate"));
    let values = |explainer: Explainer<'_>| -> Vec<f64> {
        explainer.explain(&data.rows).unwrap().values.chunks(3).map(|row| row[0]).collect()
    };
    let rain_values = values(Explainer::functional(&fit.model).unwrap());
    assert_eq!(svg("rain"), drawn(&rain_values, "value of rain"));
    let rain_values = values(Explainer::interventional(&fit.model, &data.rows).unwrap());
    assert_eq!(svg("rain --background rows.csv"), drawn(&rain_values, "value of rain"));
    place.good("downscale map m.riesz rows.csv --x people --y north -o map.png");
    assert!(std::fs::read(place.path("map.png")).unwrap().starts_with(b"\x89PNG"));
    let bad =
        |words: &str, expected: &str| place.bad(&format!("downscale map m.riesz rows.csv {words}"), expected);
    bad(
        "--x east --y north --of snow -o a.svg",
        "--of snow is neither mean, std nor a feature of the map; the features are: rain",
    );
    bad("--x east --y up -o a.svg", "there is no column 'up'");
    bad("--x district --y north -o a.svg", "of column 'district' is 'd00', which is not a number");
    bad("--x east --y north -o a.pdf", "maps are written as .svg, .png or .html, not as .pdf");
    bad("--x east --y north --of std -o a.html", "--of std chooses what a picture shows");
    bad("--x east --y north --bag district -o a.svg", "--bag is an option of pages");
    bad("--x east --y north", "no output file is given: give -o FILE");
    bad("--x east --y north --background rows.csv -o a.svg", "does not use --background");
    place.good("fit rows.csv --target people --ignore district -o other.riesz");
    place.bad("downscale predict other.riesz rows.csv", "other.riesz is not a map with a posterior");
    place.bad(
        "downscale map other.riesz rows.csv --x east --y north -o a.svg",
        "is not a map with a posterior",
    );
    assert!(!place.files().iter().any(|file| file.starts_with("a.")));
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let world = world();
    let place = place(&world, DISTRICTS);
    let (rows, bags) = (place.read("rows.csv"), place.read("bags.csv"));
    let refused = |rows: &str, bags: &str, options: &str, expected: &str| {
        place.write("rows.csv", rows);
        place.write("bags.csv", bags);
        place.write("m.riesz", "precious");
        place.bad(&format!("downscale fit {LEARN} {options} -o m.riesz"), expected);
        place.bad(&format!("downscale check {LEARN} {options}"), expected);
        assert_eq!(place.read("m.riesz"), "precious");
    };
    let first = rows.lines().nth(1).unwrap();
    let swapped = |from: &str, to: &str| rows.replacen(first, &first.replacen(from, to, 1), 1);
    let strange = |count: usize| -> String {
        (0..count).map(|k| first.replacen("d00", &format!("x{k}"), 1) + "\n").collect()
    };
    let extended = rows.clone() + &strange(7);
    refused(
        &extended,
        &bags,
        "",
        "7 rows belong to bags that are not in the table of bags, 'x0', 'x1', 'x2', 'x3', 'x4', … (7 in all)",
    );
    // A pixel without people has no weight.
    place.write("rows.csv", swapped(",1.0,", ",0,"));
    let (_, err) = place.good(&format!("downscale fit {LEARN} -o m.riesz"));
    assert!(err.contains("1 of ") && err.contains("rows whose 'people' is 0 were left out"), "{err}");
    let (_, body) = bags.split_once('\n').unwrap();
    refused(
        &rows,
        &format!("{bags}{body}"),
        "",
        "has 'd00', 'd01', 'd02', 'd03', 'd04', … (12 in all) twice",
    );
    refused(&swapped("100.0", "NaN"), &bags, "", "row 1 (line 2) of column 'rain' is missing ('NaN')");
    refused(&swapped("100.0", ""), &bags, "", "row 1 (line 2) of column 'rain' is empty");
    refused(&swapped("d00", ""), &bags, "", "row 1 (line 2) of column 'district' is empty");
    refused(&swapped(",1.0,", ",-2,"), &bags, "", "is -2: weights are positive");
    refused(&swapped(",1.0,", ",,"), &bags, "", "row 1 (line 2) of column 'people' is empty");
    refused(
        &rows,
        &bags.replacen("rate,", "rates,", 1),
        "",
        "bags.csv: there is no column 'rate'; the columns are: rates",
    );
    refused(&rows.replacen("district", "ward", 1), &bags, "", "rows.csv: there is no column 'district'");
    refused(&rows.replacen("people", "folk", 1), &bags, "", "rows.csv: there is no column 'people'");
    refused(&rows, &bags, "--mediators month", "bags.csv: there is no column 'month'");
    refused(&rows, &bags, "--features east,snow", "rows.csv: there is no column 'snow'");
    refused(&rows, &bags, "--ignore east,north,rain", "no column is left as a feature");
    refused(&rows, &bags, "--target-std level", "standard errors are not negative; give 0 for none");
    refused(&rows, &bags, "--noise 0", "--noise 0 is not a positive number");
    refused(&rows, &bags, "--noise NaN", "--noise NaN is not a positive number");
    refused(&rows, &bags, "--inducing 0", "number of inducing points");
    refused(&rows, &bags, "--kernel rbf(snow)", "snow");
    let infinite = bags.lines().enumerate().map(|(i, line)| match (i, line.split_once(',')) {
        (1, Some((_, tail))) => format!("inf,{tail}\n"),
        _ => format!("{line}\n"),
    });
    refused(&rows, &infinite.collect::<String>(), "", "'inf', which is not a finite number");
    let none = bags.lines().enumerate().map(|(i, line)| match (i, line.split_once(',')) {
        (0, _) | (_, None) => format!("{line}\n"),
        (_, Some((_, tail))) => format!(",{tail}\n"),
    });
    refused(&rows, &none.collect::<String>(), "", "no bag has a usable target");
    let constant = bags.lines().enumerate().map(|(i, line)| match (i, line.split_once(',')) {
        (0, _) | (_, None) => format!("{line}\n"),
        (_, Some((_, tail))) => format!("4,{tail}\n"),
    });
    refused(&rows, &constant.collect::<String>(), "", "there is nothing to learn");
    place.bad(&format!("downscale fit {LEARN}"), "no output file is given for the model: give -o FILE");
    // Bags without a target, or without rows, are ignored with a note.
    place.write("rows.csv", &rows);
    let incomplete = bags.lines().enumerate().map(|(i, line)| match (i, line.split_once(',')) {
        (3, Some((_, tail))) => format!("NA,{tail}\n"),
        _ => format!("{line}\n"),
    });
    place.write("bags.csv", incomplete.collect::<String>());
    let (text, notes) = place.good(&format!("downscale check {LEARN} --no-tuning"));
    assert!(
        notes.contains("warning: the rows of 1 bags without a target are left out")
            && notes.contains("'d02'"),
        "{notes}"
    );
    assert!(cells(&text).len() == 12 && !text.contains("d02"), "{text}");
    place.write("bags.csv", bags);
    let (_, notes) = place.good(&format!("downscale check {LEARN} --no-tuning --mediators year"));
    assert!(notes.contains("all targets have rows of their own, so mediators are not used"), "{notes}");
}

/// Asserts that `check`, `fit` and `predict` of counts agree with the library's fit.
fn counted(place: &Place, args: &str, data: &Aggregates, fit: &CountFit, rate: &str, link: &str) {
    let (text, _) = place.good(&format!("downscale check {args}"));
    let check_table = cells(&text);
    for (t, line) in check_table[1..].iter().enumerate() {
        let left_out = &fit.left_out;
        let expected = [data.targets[t], fit.fitted[t], data.targets[t] - fit.fitted[t], left_out.mean[t]];
        let expected = expected.into_iter().chain([left_out.variance[t].sqrt(), left_out.scores[t]]);
        for (cell, value) in line[1..].iter().zip(expected) {
            assert!((number(cell) - value).abs() <= 1e-9 * value.abs().max(1.0), "{cell} {value}: {text}");
        }
    }
    place.good(&format!("downscale fit {args} -o m.riesz"));
    let (text, _) = place.good("downscale predict m.riesz rows.csv");
    let prediction_table = cells(&text);
    let names = ["", "_median", "_low", "_high"].map(|end| format!("{rate}{end}"));
    assert_eq!(prediction_table[0][1..5], names);
    assert_eq!(prediction_table[0][5..], [link.to_string(), format!("{link}_std")]);
    let rates = NaturalScalePrediction::new(&fit.posterior(), &data.rows, 1.959963984540054).unwrap();
    let (f, sd) = (fit.model.predict(&data.rows).unwrap(), fit.posterior().sd(&data.rows).unwrap());
    for (i, line) in prediction_table[1..].iter().enumerate() {
        let expected = [rates.mean[i], rates.median[i], rates.low[i], rates.high[i], f[(i, 0)], sd[(i, 0)]];
        for (cell, value) in line[1..].iter().zip(expected) {
            assert!((number(cell) - value).abs() <= 1e-9 * value.abs().max(1.0), "{cell} {value}");
        }
    }
    // `riesz predict` prints the same rates, and with --link the latent function f.
    assert_eq!(place.good("predict m.riesz rows.csv --std").0, text);
    let rate_table = cells(&place.good("predict m.riesz rows.csv").0);
    assert_eq!(rate_table[0], ["row", rate]);
    assert!((1..=data.rows.rows()).all(|i| rate_table[i][1] == prediction_table[i][1]));
    let plain = cells(&place.good("predict m.riesz rows.csv --link --std").0);
    assert!((0..data.rows.rows()).all(|i| (number(&plain[1 + i][1]) - f[(i, 0)]).abs() < 1e-9));
    assert!(plain[0][1].ends_with("of cases"), "{plain:?}");
    place.good("downscale map m.riesz rows.csv --x east --y north -o map.png");
    place.good("explain m.riesz rows.csv --background rows.csv --covariance -o found.csv");
}

/// One table as rows and as bags: each row is its own bag, and its count, trials and standard error are no
/// features.
#[test]
fn targets_of_one_table_are_no_features() {
    let place = Place::new();
    let line = |i: usize| {
        let (x, y) = (i as f64 / 10.0, (i * 7 % 11) as f64);
        format!("t{i:02},{x:?},{y:?},{},{},{},0.5\n", 20 + i % 5, 3 + i % 4, 30 + i % 3)
    };
    let lines: String = (0..30).map(line).collect();
    place.write("towns.csv", format!("town,x,y,people,cases,trials,error\n{lines}"));
    for options in [
        "--weight people --family poisson --ignore trials,error",
        "--trials trials --family binomial --ignore people,error",
        "--target-std error --ignore people,trials",
    ] {
        let args = format!("towns.csv towns.csv --bag town --target cases {options} --no-tuning");
        place.good(&format!("downscale fit {args} -o default.riesz"));
        let (start, _) = args.split_once(" --ignore").unwrap();
        place.good(&format!("downscale fit {start} --features x,y --no-tuning -o named.riesz"));
        let predicted = |model: &str| place.good(&format!("downscale predict {model} towns.csv")).0;
        assert_eq!(predicted("default.riesz"), predicted("named.riesz"), "{options}");
    }
}

#[test]
fn counts_agree_with_the_library() {
    let world = world();
    let (place, rows, masses) = (place(&world, DISTRICTS), table(&world), mass(&world));
    let cases: Vec<f64> =
        world.rates.iter().zip(&masses).map(|(rate, mass)| (0.4 * rate * mass).round()).collect();
    let trials: Vec<f64> = cases.iter().map(|z| (2.5 * z).round() + 3.0).collect();
    let line = |b: usize| {
        let [year, level] = [0, 1].map(|j| world.coarse.get(b, j));
        format!("d{b:02},{},{},{:?},{year:?},{level:?}\n", cases[b], trials[b], masses[b])
    };
    let lines: String = (0..DISTRICTS).map(line).collect();
    place.write("bags.csv", format!("district,cases,trials,mass,year,level\n{lines}"));
    let args = "rows.csv bags.csv --bag district --target cases --weight people";
    let aggregates = |unit| Aggregates {
        bags: Bags::new(&world.bag, DISTRICTS, Some(&world.people), unit).unwrap(),
        targets: cases.clone(),
        ..matched(&world)
    };
    let start = |data: &Aggregates, family| {
        let rows_kernel = kernel("rbf(length_scale=1, ard)", &data.rows);
        CountProcess::new(rows_kernel, count_inducing_points(data, 0).unwrap(), family)
    };
    let (data, tuning) = (aggregates(TargetUnit::Sum), tuning(Conventions::default()));
    let fit = tuning.tune_counts(&start(&data, Family::Poisson), &data).unwrap().fit;
    counted(&place, &format!("{args} --family poisson"), &data, &fit, "rate", "log_rate");
    let overdispersed = CountProcess { dispersion: 0.2, ..start(&data, Family::Poisson) }.fit(&data).unwrap();
    assert!((overdispersed.log_marginal_likelihood - fit.log_marginal_likelihood).abs() > 0.1);
    let dispersed = format!("{args} --family poisson --dispersion 0.2 --no-tuning");
    counted(&place, &dispersed, &data, &overdispersed, "rate", "log_rate");
    let (data, family) = (aggregates(TargetUnit::Mean), Family::Binomial { trials: trials.clone() });
    let fit = start(&data, family).fit(&data).unwrap();
    let asked_of = format!("{args} --family binomial --trials trials --no-tuning");
    counted(&place, &asked_of, &data, &fit, "probability", "log_odds");
    // With mediators, and fewer points than rows.
    let kept: Vec<usize> = (0..world.bag.len()).filter(|&i| world.bag[i] < 9).collect();
    let text: Vec<String> = place.read("rows.csv").lines().map(str::to_string).collect();
    let seen: String = text
        .iter()
        .filter(|line| !["d09", "d10", "d11"].iter().any(|d| line.contains(d)))
        .map(|line| format!("{line}\n"))
        .collect();
    place.write("seen.csv", seen);
    let bag: Vec<usize> = kept.iter().map(|&i| world.bag[i]).collect();
    let people: Vec<f64> = kept.iter().map(|&i| world.people[i]).collect();
    let coarse = Mediators {
        bags: world.coarse.select_rows(&(0..9).collect::<Vec<_>>()),
        targets: world.coarse.clone(),
        totals: Some(masses.clone()),
    };
    let every = coarse.bags.stack(&coarse.targets).unwrap();
    let data = Aggregates {
        rows: rows.select_rows(&kept),
        bags: Bags::new(&bag, 9, Some(&people), TargetUnit::Sum).unwrap(),
        bag_of_target: (0..DISTRICTS).map(|b| (b < 9).then_some(b)).collect(),
        mediators: Some(coarse),
        ..aggregates(TargetUnit::Sum)
    };
    let points = inducing_points(&data.rows, 20, 0).unwrap();
    let smoothing = Some(BagSmoother::new(kernel("rbf(length_scale=0.5, ard)", &every)));
    let process = CountProcess { points, smoothing, ..start(&data, Family::Poisson) };
    let fit = tuning.tune_counts(&process, &data).unwrap().fit;
    let mediated =
        format!("{args} --family poisson --mediators year,level --total mass --inducing 20 -o check.csv");
    let (_, err) = place.good(&format!("downscale check {mediated}").replace("rows.csv", "seen.csv"));
    assert!(
        err.contains("counts of events among 'people': 9 with rows of their own, 3 through mediators"),
        "{err}"
    );
    let checks = cells(&place.read("check.csv"));
    assert!((0..DISTRICTS).all(|t| (number(&checks[1 + t][2]) - fit.fitted[t]).abs() < 1e-6 * fit.fitted[t]));
    // Invalid options.
    let bad = |options: &str, words: &str| place.bad(&format!("downscale check {args} {options}"), words);
    bad("--family binomial", "needs --trials");
    bad("--family poisson --trials trials", "--trials is an option of --family binomial");
    bad("--family binomial --trials trials --sum", "are not sums over rows");
    bad("--family poisson --target-std mass", "--target-std cannot be used with counts");
    bad("--family poisson --noise 0.1", "--noise cannot be used with counts");
    bad("--family poisson --mediators year --operator pseudo", "--operator");
    bad("--total mass", "--total is an option of sums");
    bad("--dispersion 0.1", "--dispersion is for counts");
    bad("--family poisson --dispersion -1", "--dispersion -1 is not a number of at least 0");
    place.write("bags.csv", place.read("bags.csv").replacen(&format!("d02,{},", cases[2]), "d02,1.5,", 1));
    bad("--family poisson", "column 'cases' is 1.5 for bag 'd02': counts are whole numbers");
    place.write(
        "bags.csv",
        place.read("bags.csv").replacen("d02,1.5,", &format!("d02,{},", trials[2] + 1.0), 1),
    );
    bad("--family binomial --trials trials", "column 'trials' is");
}
