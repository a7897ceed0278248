//! What one more row is worth, against refits that have it; and through which mediators effects go.

use std::sync::atomic::AtomicBool;

use riesz::causal::{
    Effect, IdentificationRoute, OutcomeGpParameters, Parameters, Studies, Study, StudyParameters,
    TargetPopulation, UncertaintyCause,
};
use riesz::{Column, Kernel, Matrix, Table};

use crate::common::Stream;

static STAY: AtomicBool = AtomicBool::new(false);
const N: usize = 12;

fn named(columns: &[(&str, &[f64])]) -> Table {
    let kinds = columns.iter().map(|(name, _)| Column::numeric(*name)).collect();
    let values: Vec<f64> = columns.iter().flat_map(|(_, own)| own.to_vec()).collect();
    Table::from_column_major(kinds, columns[0].1.len(), values).unwrap()
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut s = Stream(seed);
    (0..n).map(|_| s.normal()).collect()
}

fn own(others: bool) -> StudyParameters {
    let others = others.then(|| Kernel::gaussian(&[1.1]));
    StudyParameters { treatments: Kernel::gaussian(&[0.9]), others, ridge: 0.3, intercepting: None }
}

fn outcome() -> OutcomeGpParameters {
    OutcomeGpParameters { kernel: 1.4 * Kernel::gaussian(&[0.8]), noise: 0.2, intercept_variance: 0.6 }
}

/// Of two studies, the first through its covariate or as it is seen, each with rows added.
fn two(others: bool, more: Option<(f64, f64)>, more_last: Option<f64>) -> Effect {
    let (mut x, mut z, mut y) = (normals(1, N), normals(2, N), normals(3, N));
    let (mut y2, mut t) = (normals(4, N), normals(5, N));
    if let Some((dose, covariate)) = more {
        x.push(dose);
        z.push(covariate);
        y.push(0.3);
    }
    if let Some(point) = more_last {
        y2.push(point);
        t.push(-0.4);
    }
    let z = named(&[("z", &z)]);
    let route = if others { IdentificationRoute::BackDoor(z) } else { IdentificationRoute::Direct };
    let first =
        Study { treatments: named(&[("x", &x)]), route, mediators: named(&[("y", &y)]), shared: None };
    let studies = Studies { studies: vec![first], points: named(&[("y", &y2)]), outcome: t };
    let parameters =
        Parameters { studies: vec![own(others)], outcome: outcome(), adjustment: false, landmarks: None };
    let effect = studies.effect(&parameters).unwrap();
    if !others {
        return effect;
    }
    // On the same people, whoever is in the study.
    let people = normals(2, N);
    let whom = TargetPopulation::Population(named(&[("z", &people)]), vec![1.0 / N as f64; N]);
    effect.on_population(&whom, &STAY).unwrap()
}

fn part(effect: &Effect, x: &[f64], by: &[f64], cause: UncertaintyCause) -> f64 {
    let told = effect.at(&named(&[("x", x)])).unwrap();
    let Some((_, part)) = told.causes.iter().find(|(own, _)| *own == cause) else { return 0.0 };
    (0..x.len())
        .flat_map(|i| (0..x.len()).map(move |j| (i, j)))
        .map(|(i, j)| by[i] * by[j] * part[(i, j)])
        .sum()
}

/// Of one sum.
fn worth(effect: &Effect, x: &Table, by: &[f64], study: usize, rows: &Table) -> riesz::Result<Vec<f64>> {
    let by = Matrix::from_row_major(1, by.len(), by.to_vec());
    Ok(effect.variance_reduction_per_row(x, &by, study, rows)?.row(0).to_vec())
}

#[test]
fn a_row_of_the_last_study_is_worth_what_a_refit_says() {
    for others in [false, true] {
        let effect = two(others, None, None);
        for (x, by) in [(&[0.4][..], &[1.0][..]), (&[1.2, -0.6], &[1.0, -1.0])] {
            let rows = [-1.5, 0.2, 4.0];
            let worth = worth(&effect, &named(&[("x", x)]), by, 1, &named(&[("y", &rows)])).unwrap();
            let before = part(&effect, x, by, UncertaintyCause::Study(1));
            for (row, own) in rows.into_iter().zip(worth) {
                let after = part(&two(others, None, Some(row)), x, by, UncertaintyCause::Study(1));
                assert!((before - after - own).abs() < 1e-10 * before, "{row}: {own} {}", before - after);
            }
        }
    }
}

/// A refit makes ν another one, so that what is left open is compared, in units of what it is in.
#[test]
fn a_row_of_the_first_study_is_worth_what_a_refit_says() {
    for others in [false, true] {
        let effect = two(others, None, None);
        for (x, by) in [(&[0.4][..], &[1.0][..]), (&[1.2, -0.6], &[1.0, -1.0])] {
            let rows = ([0.5, -1.0, 5.0], [0.1, 1.4, 0.0]);
            let asked = named(&[("x", &rows.0), ("z", &rows.1)]);
            let worth = worth(&effect, &named(&[("x", x)]), by, 0, &asked).unwrap();
            let open = |own: &Effect, x: &[f64], by: &[f64]| part(own, x, by, UncertaintyCause::Study(0));
            let all = |own: &Effect, x: &[f64], by: &[f64]| {
                part(own, x, by, UncertaintyCause::Study(0)) + part(own, x, by, UncertaintyCause::Interaction)
            };
            for i in 0..3 {
                let refit = two(others, Some((rows.0[i], rows.1[i])), None);
                // Far from all rows everything is open, whatever there is besides.
                let unit = open(&refit, &[60.0], &[1.0]) / open(&effect, &[60.0], &[1.0]);
                let after = open(&refit, x, by) / unit;
                let share = 1.0 - after / open(&effect, x, by);
                let expected = share * all(&effect, x, by);
                assert!((worth[i] - expected).abs() < 1e-9 * all(&effect, x, by), "{} {expected}", worth[i]);
            }
            assert!(worth[0] > 1e-6);
        }
    }
}

fn three() -> (Studies, Parameters) {
    let (x, y, y2, v2) = (normals(1, N), normals(3, N), normals(6, N), normals(7, N));
    let (v3, t) = (normals(4, N), normals(5, N));
    let direct = |a: Table, b: Table| Study {
        treatments: a,
        route: IdentificationRoute::Direct,
        mediators: b,
        shared: None,
    };
    let studies = vec![
        direct(named(&[("x", &x)]), named(&[("y", &y)])),
        direct(named(&[("y", &y2)]), named(&[("v", &v2)])),
    ];
    let parameters = Parameters {
        studies: vec![own(false), own(false)],
        outcome: outcome(),
        adjustment: false,
        landmarks: None,
    };
    (Studies { studies, points: named(&[("v", &v3)]), outcome: t }, parameters)
}

/// Of the middle study, from what the chain without the first leaves open; of the last one from a refit.
#[test]
fn rows_further_down_a_chain_are_worth_what_reaches_them() {
    let (studies, parameters) = three();
    let effect = studies.effect(&parameters).unwrap();
    let x = named(&[("x", &[0.7])]);
    let through = effect.as_mediator_sums(&x).unwrap().remove(0).1;
    let rows = [0.4, -1.2];
    let of_middle = worth(&effect, &x, &[1.0], 1, &named(&[("y", &rows)])).unwrap();
    let rest = Studies { studies: vec![studies.studies[1].clone()], ..studies.clone() };
    let rest = rest.effect(&Parameters { studies: vec![own(false)], ..parameters.clone() }).unwrap();
    let places: Vec<f64> = through.mediators.column(0).iter().chain(&rows).copied().collect();
    let told = rest.at(&named(&[("y", &places)])).unwrap();
    let mut open = Matrix::zeros(places.len(), places.len());
    for (cause, part) in &told.causes {
        if matches!(cause, UncertaintyCause::Study(0) | UncertaintyCause::Interaction) {
            open.data_mut().iter_mut().zip(part.data()).for_each(|(all, own)| *all += own);
        }
    }
    // Far away all is open, and the kernel is 1 there.
    let far = rest.at(&named(&[("y", &[80.0])])).unwrap().causes;
    let scale: f64 = far
        .iter()
        .filter(|(cause, _)| matches!(cause, UncertaintyCause::Study(0) | UncertaintyCause::Interaction))
        .map(|(_, part)| part[(0, 0)])
        .sum();
    for (p, own) in of_middle.iter().enumerate() {
        let row = N + p;
        let crossed: f64 = (0..N).map(|i| through.weights[(0, i)] * open[(i, row)]).sum();
        let expected = crossed * crossed / (open[(row, row)] + 0.3 * scale);
        assert!((own - expected).abs() < 1e-10 * expected.max(1e-3), "{own} {expected}");
    }
    let before = part(&effect, &[0.7], &[1.0], UncertaintyCause::Study(2));
    let worth = worth(&effect, &x, &[1.0], 2, &named(&[("v", &[0.9])])).unwrap();
    let mut more = studies.clone();
    more.points = more.points.stack(&named(&[("v", &[0.9])])).unwrap();
    more.outcome.push(1.0);
    let after = part(&more.effect(&parameters).unwrap(), &[0.7], &[1.0], UncertaintyCause::Study(2));
    assert!((before - after - worth[0]).abs() < 1e-10 * before, "{} {}", worth[0], before - after);
}

#[test]
fn effects_are_sums_over_mediators() {
    let (studies, parameters) = three();
    for effect in [two(false, None, None), two(true, None, None), studies.effect(&parameters).unwrap()] {
        let x = named(&[("x", &[-0.3, 1.1])]);
        let (weight, through) = effect.as_mediator_sums(&x).unwrap().remove(0);
        assert_eq!(weight, 1.0);
        let told = effect.at(&x).unwrap();
        let f = through.outcome.predict(&through.mediators).unwrap();
        let constant = through.outcome.intercept[0];
        for q in 0..2 {
            let row = through.weights.row(q);
            let sum: f64 = row.iter().enumerate().map(|(i, w)| w * (f[(i, 0)] - constant)).sum();
            assert!((constant + sum - told.mean[q]).abs() < 1e-12);
            assert!((row.iter().sum::<f64>() - told.standing[q].weight_sum).abs() < 1e-12);
        }
    }
}

#[test]
fn what_has_no_worth_is_named() {
    let effect = two(true, None, None);
    let x = named(&[("x", &[0.0])]);
    let told =
        |study: usize, rows: Table, by: &[f64]| worth(&effect, &x, by, study, &rows).unwrap_err().to_string();
    let y = || named(&[("y", &[0.0])]);
    assert!(
        told(2, y(), &[1.0]).contains("study = 2 is not allowed: there are studies 0 to 1"),
        "{}",
        told(2, y(), &[1.0])
    );
    assert!(told(0, y(), &[1.0]).contains('x'));
    assert!(told(1, y(), &[1.0, 2.0]).contains("one a row of treatments"));
}
