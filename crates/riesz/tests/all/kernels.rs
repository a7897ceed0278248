//! Properties of every registered factor, on random parameters and tables. Registering a new factor adds it
//! to these tests.

use std::path::{Path, PathBuf};

use faer::Side;
use riesz::kernel::{
    ArgumentType, ArgumentValues, ColumnScaling, DefaultValue, Factor, FactorSchema, KernelExpression,
    LengthScale, Structure, Term, length_scales, registry,
};
use riesz::{Column, ColumnKind, Kernel, Matrix, Table};
use serde_json::Value;

use crate::common::Stream;

fn between(random: &mut Stream, low: f64, high: f64) -> f64 {
    low + (high - low) * random.uniform()
}

fn below(random: &mut Stream, n: usize) -> usize {
    (random.uniform() * n as f64) as usize
}

/// Returns three columns of numbers, with ties, and two of levels.
fn table(n: usize, random: &mut Stream) -> Table {
    let levels = || ColumnKind::Categorical { levels: ["a", "b", "c"].map(String::from).to_vec() };
    let level = |name: &str| Column { name: name.into(), kind: levels() };
    let columns = ["x", "y", "z"].map(Column::numeric).into_iter().chain(["s", "t"].map(level)).collect();
    let number = |random: &mut Stream| (between(random, -2.0, 2.0) * 4.0).round() / 4.0;
    let mut values: Vec<f64> = (0..3 * n).map(|_| number(random)).collect();
    values.extend((0..2 * n).map(|_| below(random, 3) as f64));
    Table::from_column_major(columns, n, values).unwrap()
}

/// Returns the columns of [`table`] that a kind of factor reads.
fn columns(kind: &FactorSchema) -> Vec<usize> {
    if kind.categorical { vec![3, 4] } else { vec![0, 1, 2] }
}

type ArgumentList = Vec<(&'static str, Vec<f64>)>;

/// Returns random arguments within their ranges.
fn draw(kind: &FactorSchema, random: &mut Stream) -> ArgumentList {
    let value = |takes: ArgumentType, random: &mut Stream| match takes {
        ArgumentType::LengthScales | ArgumentType::Scales | ArgumentType::Positive => {
            between(random, 0.5, 2.0)
        }
        ArgumentType::Number => between(random, 0.2, 1.0),
        ArgumentType::Centers => between(random, -0.5, 0.5),
        ArgumentType::Within(low, high) => between(random, low, high.min(4.0)),
        ArgumentType::Fraction => between(random, 0.1, 0.9),
        ArgumentType::Whole(largest) => 1.0 + below(random, largest.min(4) as usize) as f64,
        ArgumentType::Flag => below(random, 2) as f64,
    };
    let count = |takes: ArgumentType| if takes.by_column() { columns(kind).len() } else { 1 };
    let values =
        |takes: ArgumentType, random: &mut Stream| (0..count(takes)).map(|_| value(takes, random)).collect();
    kind.arguments.iter().map(|a| (a.name, values(a.takes, random))).collect()
}

fn product(factors: Vec<Factor>) -> Kernel {
    Kernel { terms: vec![Term { scale: 1.0, factors }] }
}

/// Returns every kind several times, with random arguments.
fn kinds() -> impl Iterator<Item = (&'static FactorSchema, ArgumentList, Vec<Factor>, Stream)> {
    registry().flat_map(|kind| (0..12).map(move |seed| (kind, seed))).map(|(kind, seed)| {
        let mut random = Stream(seed);
        let arguments = draw(kind, &mut random);
        let factors = kind.factors(&columns(kind), &arguments).unwrap();
        (kind, arguments, factors, random)
    })
}

#[test]
fn names_are_unique() {
    let names: Vec<&str> = registry().flat_map(|kind| kind.names).copied().collect();
    assert!(names.len() >= 15);
    for (i, name) in names.iter().enumerate() {
        assert!(!names[..i].contains(name) && *name != "constant", "{name}");
        assert!(FactorSchema::named(&name.to_uppercase()).unwrap().names.contains(name));
    }
}

#[test]
fn help_covers_every_factor_and_argument() {
    let help = riesz::kernel::help_text();
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    for kind in registry() {
        let matching: Vec<&str> = help.lines().filter(|line| line.contains(&kind.syntax())).collect();
        assert!(matching.len() == 1 && matching[0].contains(kind.formula), "{help}");
        assert!(kind.names.iter().all(|name| matching[0].contains(name)), "{help}");
        let usage = kind.syntax();
        let words: Vec<&str> = usage.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for argument in kind.arguments.iter().filter(|a| words[1..].contains(&a.name)) {
            assert!(
                help.contains(&format!("{}  ", argument.name)) && help.contains(argument.help_text),
                "{help}"
            );
        }
    }
}

#[test]
fn matrices_are_positive_semidefinite() {
    for (_, _, factors, mut random) in kinds() {
        let definite = factors.iter().all(|factor| factor.positive_definite());
        let (x, kernel) = (table(14, &mut random), product(factors));
        let gram = kernel.cross_gram(&x, &x);
        let matrix = faer::Mat::from_fn(14, 14, |i, j| gram[(i, j)]);
        let size = matrix.norm_max();
        let self_gram = kernel.gram(&x);
        for i in 0..14 {
            for j in 0..14 {
                let (a, b) = (x.row(i), x.row(j));
                for other in [kernel.eval(&b, &a), gram[(j, i)], self_gram[(i, j)]] {
                    let asymmetry = (gram[(i, j)] - other).abs();
                    assert!(
                        asymmetry <= 1e-14 * size,
                        "{} is not symmetric by {asymmetry}",
                        kernel.formula()
                    );
                }
            }
        }
        let smallest = matrix.self_adjoint_eigenvalues(Side::Lower).unwrap()[0];
        assert!(!definite || smallest > -1e-13 * size, "{} has the eigenvalue {smallest}", kernel.formula());
    }
}

/// Checks the gradient of `Σ weights · gram` against finite differences.
fn check_gradient(kernel: &Kernel, x: &Table) {
    let n = x.rows();
    let mut weights = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let w = ((3 * i + 7 * j) as f64).sin();
            (weights[(i, j)], weights[(j, i)]) = (w, w);
        }
    }
    let dot = |gram: Matrix| gram.data().iter().zip(weights.data()).map(|(k, w)| k * w).sum::<f64>();
    let theta: Vec<f64> = kernel.parameters().iter().map(|p| p.log_value).collect();
    let shifted = |p: usize, h: f64| {
        let mut theta = theta.clone();
        theta[p] += h;
        dot(kernel.with_parameters(&theta).gram(x))
    };
    // Scale of the rounding errors of the differences.
    let gram = kernel.gram(x);
    let magnitude: f64 = gram.data().iter().zip(weights.data()).map(|(k, w)| (k * w).abs()).sum();
    for (p, actual) in kernel.gradient(x, &weights).iter().enumerate() {
        let slope = |h: f64| (shifted(p, h) - shifted(p, -h)) / (2.0 * h);
        let difference = (4.0 * slope(1e-4) - slope(2e-4)) / 3.0;
        let (name, formula) = (&kernel.parameters()[p].name, kernel.formula());
        let room = 1e-9 * (1.0 + difference.abs()) + 1e-10 * magnitude;
        assert!((actual - difference).abs() < room, "{name} of {formula}: {actual} against {difference}");
        assert!(difference.abs() > 1e-7, "{name} of {formula} has no slope to compare");
    }
}

#[test]
fn gradients_are_differences() {
    let cases: Vec<_> = kinds().collect();
    for (_, _, factors, _) in &cases {
        check_gradient(&(0.7 * product(factors.clone())), &table(9, &mut Stream(5)));
    }
    // A sum of products of factors that are neighbours in the registry: parameters keep their order.
    for pair in cases.chunks(12).map(|chunk| product(chunk[0].2.clone())).collect::<Vec<_>>().windows(2) {
        let [a, b] = pair else { unreachable!() };
        let kernel = a.clone() * b.clone() + 0.4 * b.clone() + Kernel::constant(2.0);
        check_gradient(&kernel, &table(9, &mut Stream(6)));
    }
}

/// The tunable parameters are exactly the continuous arguments that are not shifts or units of the data.
#[test]
fn parameters_are_the_continuous_arguments() {
    let moved = |a: &ArgumentValues, b: &ArgumentValues| -> Vec<&'static str> {
        a.0.iter().zip(&b.0).filter(|(a, b)| a != b).map(|(a, _)| a.0).collect()
    };
    for (kind, _, factors, _) in kinds() {
        for factor in factors {
            let parameters = factor.parameters();
            let tuned = |takes| {
                matches!(
                    takes,
                    ArgumentType::LengthScales
                        | ArgumentType::Positive
                        | ArgumentType::Number
                        | ArgumentType::Fraction
                )
            };
            let mut missing: Vec<&str> =
                kind.arguments.iter().filter(|a| tuned(a.takes)).map(|a| a.name).collect();
            for p in 0..parameters.len() {
                let mut other = factor.clone();
                let shift = |i: usize| parameters[i].log_value + if i == p { 0.3 } else { 0.0 };
                other.set_parameters(&(0..parameters.len()).map(shift).collect::<Vec<_>>());
                let mut unchanged = factor.clone();
                unchanged.set_parameters(&parameters.iter().map(|p| p.log_value).collect::<Vec<_>>());
                let changed = moved(&unchanged.values(), &other.values());
                assert_eq!(changed.len(), 1, "{}: {changed:?}", parameters[p].name);
                assert!(parameters[p].name.starts_with(changed[0]), "{}", parameters[p].name);
                missing.retain(|name| *name != changed[0]);
            }
            assert!(missing.is_empty(), "{}: {missing:?} is not tuned", factor.formula());
            let ard = factor.values().flag("ard");
            let names = parameters.iter().map(|p| &p.name);
            assert_eq!(
                names.filter(|n| n.starts_with("length_scale[")).count(),
                if ard { factor.columns().len() } else { 0 }
            );
        }
    }
}

/// A separable or additive factor is the product or sum of its factors of one column each.
#[test]
fn structures_match_single_column_factors() {
    let mut seen = Vec::new();
    for (kind, arguments, factors, mut random) in kinds() {
        let (u, v) = (table(1, &mut random).row(0), table(1, &mut random).row(0));
        let structure = if factors.len() > 1 { Structure::Separable } else { factors[0].structure() };
        let single_column = |slot: usize| {
            let slot_values = |values: &Vec<f64>| values.get(slot).map_or(values.clone(), |v| vec![*v]);
            let slot_arguments: ArgumentList =
                arguments.iter().map(|(name, values)| (*name, slot_values(values))).collect();
            let single = kind.factors(&[columns(kind)[slot]], &slot_arguments).unwrap();
            assert_eq!(
                (single.len(), single[0].structure()),
                (1, Structure::Separable),
                "{}",
                single[0].formula()
            );
            product(single).eval(&u, &v)
        };
        let single_values = (0..columns(kind).len()).map(single_column);
        let formula = factors[0].formula();
        let joint = product(factors).eval(&u, &v);
        let expected = match structure {
            Structure::Separable => single_values.product::<f64>(),
            Structure::Additive => single_values.sum(),
            Structure::Joint => continue,
        };
        assert!((joint - expected).abs() <= 1e-13 * joint.abs().max(1e-3), "{formula}: {joint} {expected}");
        seen.push(structure);
    }
    assert!(seen.contains(&Structure::Separable) && seen.contains(&Structure::Additive));
}

#[test]
fn expressions_set_every_argument() {
    for (kind, argument_values, _, mut random) in kinds() {
        let x = table(20, &mut random);
        let indices = columns(kind);
        let names: Vec<&str> = indices.iter().map(|&j| x.columns()[j].name.as_str()).collect();
        let mut arguments: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let mut expected = Vec::new();
        for ((name, values), argument) in argument_values.iter().zip(kind.arguments) {
            match argument.takes {
                ArgumentType::Centers => expected.push((*name, vec![0.0])),
                ArgumentType::Scales => expected.push((*name, vec![1.0])),
                ArgumentType::Flag => {
                    arguments.extend((values[0] == 1.0).then(|| name.to_string()));
                    expected.push((*name, values.clone()));
                }
                _ => {
                    arguments
                        .insert(below(&mut random, arguments.len() + 1), format!("{name} = {}", values[0]));
                    expected.push((*name, vec![values[0]]));
                }
            }
        }
        let expected = product(kind.factors(&indices, &expected).unwrap());
        for name in kind.names {
            let text = format!("{name}({})", arguments.join(", "));
            let resolved = KernelExpression::parse(&text).unwrap().resolve(&x, &ColumnScaling::raw(5));
            assert_eq!(resolved.unwrap_or_else(|e| panic!("{text}: {e}")), expected, "{text}");
            // Omitted arguments have defaults, or are required.
            let text = format!("{}({})", name.to_uppercase(), names.join(","));
            let units = ColumnScaling::standardised(&x);
            let defaults = KernelExpression::parse(&text).unwrap().resolve(&x, &units);
            let refused = kind.arguments.iter().find(|a| matches!(a.ungiven, DefaultValue::Refused(_)));
            if let Some(refused) = refused {
                assert!(
                    defaults.unwrap_err().to_string().contains(&format!("{name} needs a {}", refused.name))
                );
                continue;
            }
            let defaults = defaults.unwrap().terms[0].factors[0].values();
            let pick = |from: &[f64]| indices.iter().map(|&j| from[j]).collect::<Vec<_>>();
            for argument in kind.arguments {
                let expected = match (argument.takes, argument.ungiven) {
                    (ArgumentType::LengthScales, _) => {
                        length_scales(&x, &indices, &units, LengthScale::Median).unwrap()
                    }
                    (ArgumentType::Centers, _) => pick(&units.center),
                    (ArgumentType::Scales, _) => pick(&units.scale),
                    (ArgumentType::Flag, _) => vec![0.0],
                    (_, DefaultValue::OverColumns) => vec![1.0 / indices.len() as f64],
                    _ => vec![argument.default],
                };
                assert_eq!(defaults.list(argument.name), expected, "{} of {text}", argument.name);
            }
        }
    }
}

#[test]
fn arguments_are_checked() {
    for kind in registry() {
        let say = |arguments: ArgumentList| kind.factors(&columns(kind), &arguments).unwrap_err().to_string();
        assert!(
            say(vec![("slope", vec![1.0])]).starts_with(&format!("{} = slope is not allowed", kind.names[0]))
        );
        for argument in kind.arguments {
            let bad = match argument.takes {
                ArgumentType::LengthScales | ArgumentType::Scales | ArgumentType::Positive => vec![0.0, -1.0],
                ArgumentType::Centers => vec![],
                ArgumentType::Number => vec![-1e151],
                ArgumentType::Within(low, high) => vec![0.9 * low, 1.1 * high],
                ArgumentType::Fraction | ArgumentType::Flag => vec![-0.1, 1.1],
                ArgumentType::Whole(largest) => vec![0.0, 1.5, f64::from(largest) + 1.0],
            };
            for value in bad.into_iter().chain([f64::NAN, f64::INFINITY]) {
                let message = say(vec![(argument.name, vec![value])]);
                let expected = format!("{} = {value} is not allowed: it is a", argument.name);
                assert!(message.starts_with(&expected), "{message}");
            }
            let message = say(vec![(argument.name, vec![1.0; 7])]);
            let expected = if argument.takes.by_column() { columns(kind).len() } else { 1 };
            let expected = format!("{} has 7 numbers, but {expected} are expected", argument.name);
            assert!(message.starts_with(&expected), "{message}");
            if !argument.python.is_empty() {
                assert!(say(vec![(argument.python, vec![])]).starts_with(argument.python));
            }
        }
    }
}

#[test]
fn frequencies_sample_the_kernel() {
    let mut seen = 0;
    for (_, _, factors, mut random) in kinds() {
        for factor in factors {
            let count = 20_000;
            let slots = 0..factor.columns().len();
            let drawn: Option<Vec<Vec<f64>>> = slots
                .map(|slot| {
                    factor.frequencies(slot, count, below(&mut random, 1000) as u64 * 7 + slot as u64)
                })
                .collect();
            let Some(drawn) = drawn else { continue };
            assert_eq!(factor.structure(), Structure::Separable);
            for _ in 0..5 {
                let (u, v) = (table(1, &mut random).row(0), table(1, &mut random).row(0));
                let angle = |i: usize| -> f64 {
                    let pairs = factor.columns().iter().zip(&drawn);
                    pairs.map(|(&j, frequencies)| frequencies[i] * (u[j] - v[j])).sum()
                };
                let mean = (0..count).map(|i| angle(i).cos()).sum::<f64>() / count as f64;
                let expected = product(vec![factor.clone()]).eval(&u, &v);
                // A cosine has a variance of at most 1: four standard errors.
                let room = 4.0 / (count as f64).sqrt();
                assert!((mean - expected).abs() < room, "{}: {mean} against {expected}", factor.formula());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn minimum_values_are_bounds_and_are_reached() {
    let mut bounded = 0;
    for (kind, _, factors, mut random) in kinds() {
        for factor in factors {
            let kernel = product(vec![factor.clone()]);
            // Categories change or stay; numbers change by up to a few length scales.
            let delta: Vec<f64> = (0..5)
                .map(|j| if j < 3 { between(&mut random, 0.0, 1.5) } else { below(&mut random, 2) as f64 })
                .collect();
            let Some(minimum) = factor.min_within(&delta) else {
                if !factor.positive_definite() {
                    assert!(kernel.eval(&[9.0; 5], &[9.0; 5]).abs() <= 1.0);
                    continue;
                }
                assert!(kernel.eval(&[9.0; 5], &[9.0; 5]) > 1.0, "{} is bounded by 1", factor.formula());
                continue;
            };
            bounded += 1;
            assert_eq!(factor.min_within(&[0.0; 5]), Some(1.0));
            let mut reached: f64 = 1.0;
            for t in 0..=400 {
                let u = table(1, &mut random).row(0);
                // Points on a line to the corner, and arbitrary points.
                let step = |j: usize, fraction: f64| match (kind.categorical, delta[j] > 0.0) {
                    (true, true) => ((u[j] as usize + 1 + t % 2) % 3) as f64,
                    (true, false) => u[j],
                    _ => u[j] + fraction * delta[j],
                };
                let line: Vec<f64> = (0..5).map(|j| step(j, t as f64 / 400.0)).collect();
                let any: Vec<f64> = (0..5).map(|j| step(j, between(&mut random, -1.0, 1.0))).collect();
                assert_eq!(kernel.eval(&u, &u), 1.0);
                for v in [line, any] {
                    reached = reached.min(kernel.eval(&u, &v));
                }
            }
            assert!(reached >= minimum - 1e-12, "{}: {reached} < {minimum}", factor.formula());
            assert!(reached <= minimum + 1e-3, "{}: {reached} > {minimum}", factor.formula());
        }
    }
    assert!(bounded > 60, "{bounded}");
}

#[test]
fn files_hold_the_arguments() {
    for (_, _, factors, _) in kinds() {
        for factor in factors {
            let text = serde_json::to_string(&factor).unwrap();
            assert_eq!(serde_json::from_str::<Factor>(&text).unwrap(), factor, "{text}");
            let record: Value = serde_json::from_str(&text).unwrap();
            for (name, values) in factor.values().0 {
                let actual = match &record[name] {
                    Value::Bool(flag) => vec![f64::from(u8::from(*flag))],
                    Value::Array(list) => list.iter().map(|v| v.as_f64().unwrap()).collect(),
                    number => vec![number.as_f64().unwrap()],
                };
                assert_eq!(actual, values, "{name} in {text}");
            }
        }
    }
    // Texts as the first version wrote them, which spelled length_scale as GPyTorch does.
    for text in [
        r#"{"factor":"stationary","profile":"gaussian","columns":[0,1],"lengthscale":[1.5,0.1],"ard":true,"isotropic":false}"#,
        r#"{"factor":"stationary","profile":"exponential","columns":[0],"lengthscale":[2.0],"ard":false,"isotropic":true}"#,
        r#"{"factor":"stationary","profile":"matern32","columns":[0],"lengthscale":[2.0],"ard":false,"isotropic":true}"#,
        r#"{"factor":"stationary","profile":"matern52","columns":[0],"lengthscale":[2.0],"ard":false,"isotropic":true}"#,
        r#"{"factor":"stationary","profile":"rational_quadratic","alpha":0.7,"columns":[0],"lengthscale":[2.0],"ard":false,"isotropic":false}"#,
        r#"{"factor":"stationary","profile":"cauchy","columns":[0],"lengthscale":[2.0],"ard":false,"isotropic":false}"#,
        r#"{"factor":"periodic","columns":[2],"period":7.0,"lengthscale":0.3}"#,
        r#"{"factor":"linear","columns":[0,1],"center":[0.0,0.5],"scale":[1.0,2.0]}"#,
        r#"{"factor":"polynomial","columns":[0],"center":[0.0],"scale":[1.0],"gamma":0.5,"coef0":1.0,"degree":3}"#,
        r#"{"factor":"categorical","columns":[3],"similarity":0.5}"#,
    ] {
        let factor: Factor = serde_json::from_str(text).unwrap();
        factor.validate().unwrap();
        assert_eq!(serde_json::to_string(&factor).unwrap(), text.replace("lengthscale", "length_scale"));
    }
    let x = Table::from_rows(&[[0.0], [1.0]]).unwrap();
    let [old, new] = ["rbf(lengthscale=2)", "rbf(length_scale=2)"].map(|text| {
        let kernel = KernelExpression::parse(text).unwrap().resolve(&x, &ColumnScaling::raw(1)).unwrap();
        serde_json::to_string(&kernel).unwrap()
    });
    assert_eq!(old, new);
}

/// Collects every Rust source under a folder, without its unit tests.
fn sources(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            files.push((path, text.split("#[cfg(test)]").next().unwrap_or_default().to_string()));
        }
    }
}

/// A factor is defined in its own file and in the registry: no other file matches on kinds of factors or
/// lists them.
#[test]
fn a_factor_is_one_file_and_one_line() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in ["riesz", "riesz-cli", "riesz-python", "riesz-report"] {
        sources(&root.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 80);
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_string();
    for kind in registry() {
        let factor = &kind.factors(&columns(kind)[..1], &[]).unwrap()[0];
        let debug = format!("{factor:?}");
        let variant = word(&debug);
        let profile = debug.split_once("profile: ").map(|(_, tail)| word(tail));
        for (path, text) in &files {
            let (path, inside) =
                (path.strip_prefix(root).unwrap(), path.starts_with(root.join("riesz/src/kernel")));
            // The format of LIBSVM has its own kernels, whose names occur in its folder.
            if path.starts_with("riesz/src/format/libsvm") {
                continue;
            }
            assert!(
                !text.contains(&format!("Factor::{variant}")),
                "{} takes {variant} apart",
                path.display()
            );
            if inside {
                continue;
            }
            if let Some(profile) = profile.as_ref().filter(|name| *name != "Gaussian") {
                assert!(!text.contains(&format!("Profile::{profile}")), "{} names {profile}", path.display());
            }
            for name in kind.names.iter().filter(|name| !["rbf", "gaussian", "linear"].contains(name)) {
                assert!(!text.contains(&format!("\"{name}\"")), "{} names {name}", path.display());
            }
        }
    }
}
