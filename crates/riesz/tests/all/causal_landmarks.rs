//! Effects of studies of many rows, which are known through landmarks: against all rows.

use std::sync::atomic::AtomicBool;

use riesz::causal::{
    Effect, Fusion, IdentificationRoute, OutcomeGpParameters, Parameters, Studies, Study, StudyParameters,
    TargetPopulation, Told,
};
use riesz::{Column, Kernel, Matrix, Table};

use crate::common::Stream;

static STAY: AtomicBool = AtomicBool::new(false);

fn named(columns: &[(&str, &[f64])]) -> Table {
    let kinds = columns.iter().map(|(name, _)| Column::numeric(*name)).collect();
    let values: Vec<f64> = columns.iter().flat_map(|(_, own)| own.to_vec()).collect();
    Table::from_column_major(kinds, columns[0].1.len(), values).unwrap()
}

/// Columns of the first study x, z and y and of the last y and t, of which so many rows differ that few
/// landmarks are all of them.
fn levels(n: usize) -> Studies {
    let mut s = Stream(7);
    let mut level = |count: f64| (s.uniform() * count).floor() / 2.0;
    let (x, z): (Vec<f64>, Vec<f64>) = (0..n).map(|_| (level(4.0), level(3.0))).unzip();
    let y: Vec<f64> = (0..n).map(|i| x[i] - z[i] + level(2.0)).collect();
    let y2: Vec<f64> = (0..n).map(|_| level(5.0) - 0.5).collect();
    let t: Vec<f64> = y2.iter().map(|y| y * y + 0.3 * s.normal()).collect();
    let route = IdentificationRoute::BackDoor(named(&[("z", &z)]));
    let study =
        Study { treatments: named(&[("x", &x)]), route, mediators: named(&[("y", &y)]), shared: None };
    Studies { studies: vec![study], points: named(&[("y", &y2)]), outcome: t }
}

fn numbers(route: &IdentificationRoute) -> StudyParameters {
    let others = (!matches!(route, IdentificationRoute::Direct)).then(|| Kernel::gaussian(&[0.8]));
    let intercepting =
        matches!(route, IdentificationRoute::FrontDoor(_)).then(|| (Kernel::gaussian(&[0.7]), 0.25));
    StudyParameters { treatments: Kernel::gaussian(&[0.9]), others, ridge: 0.3, intercepting }
}

fn parameters(studies: &Studies, landmarks: Option<usize>) -> Parameters {
    let outcome =
        OutcomeGpParameters { kernel: 1.4 * Kernel::gaussian(&[0.8]), noise: 0.2, intercept_variance: 0.6 };
    let each = studies.studies.iter().map(|own| numbers(&own.route));
    Parameters { studies: each.collect(), outcome, adjustment: true, landmarks }
}

fn both(studies: &Studies, landmarks: usize) -> [Effect; 2] {
    [None, Some(landmarks)].map(|own| studies.effect(&parameters(studies, own)).unwrap())
}

fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{a} {b}");
    }
}

fn agree(a: &Told, b: &Told, tolerance: f64) {
    close(&a.mean, &b.mean, tolerance);
    close(a.covariance.data(), b.covariance.data(), tolerance);
    assert_eq!(a.causes.len(), b.causes.len());
    for ((cause, a), (other, b)) in a.causes.iter().zip(&b.causes) {
        assert_eq!(cause, other);
        close(a.data(), b.data(), tolerance);
    }
    for (a, b) in a.standing.iter().zip(&b.standing) {
        let each = |own: &riesz::causal::DataSupport| {
            [
                own.variance_explained_by_first,
                own.resolved_by_rest,
                own.effective_rows,
                own.weight_sum,
                own.population_explained,
                own.overlap,
            ]
        };
        close(&each(a), &each(b), 10.0 * tolerance);
    }
}

fn asked() -> Table {
    named(&[("x", &[-0.4, 0.3, 1.1, 6.0])])
}

/// Where landmarks are all that differs, both are the same but for the landmarks' jitter: of all people, of
/// others, and of a chain.
#[test]
fn landmarks_that_are_all_rows_lose_nothing() {
    let studies = levels(90);
    let [all, few] = both(&studies, 40);
    assert_eq!(all.unexplained(), []);
    let left = few.unexplained();
    assert_eq!(left.iter().map(|(study, _)| *study).collect::<Vec<_>>(), [0, 1]);
    assert!(left.iter().all(|(_, share)| *share < 1e-8), "{left:?}");
    agree(&few.at(&asked()).unwrap(), &all.at(&asked()).unwrap(), 1e-6);
    let population = TargetPopulation::Population(named(&[("z", &[0.2, 0.9, 1.4])]), vec![0.2, 0.5, 0.3]);
    for whom in [
        population,
        TargetPopulation::Like(named(&[("z", &[0.5])])),
        TargetPopulation::Treated(named(&[("x", &[0.5])])),
    ] {
        let [few, all] =
            [&few, &all].map(|own| own.on_population(&whom, &STAY).unwrap().at(&asked()).unwrap());
        agree(&few, &all, 1e-6);
    }

    // By the front door.
    let mut front = levels(90);
    let x = front.studies[0].treatments.column(0).iter();
    let m: Vec<f64> = x.enumerate().map(|(i, x)| x + [0.0, 0.5, -0.5][i % 3]).collect();
    front.studies[0].route = IdentificationRoute::FrontDoor(named(&[("m", &m)]));
    let [all, few] = both(&front, 40);
    agree(&few.at(&asked()).unwrap(), &all.at(&asked()).unwrap(), 1e-6);

    // A second study in between, from y to v.
    let mut s = Stream(11);
    let mut level = |t: &f64| (t + 0.2 * s.normal()).clamp(-2.0, 3.0).round() / 2.0;
    let v: Vec<f64> = studies.outcome.iter().map(&mut level).collect();
    let second = Study {
        treatments: studies.points.clone(),
        route: IdentificationRoute::Direct,
        mediators: named(&[("v", &v)]),
        shared: None,
    };
    let last: Vec<f64> = v.iter().map(|v| v.sin() + 0.1 * s.normal()).collect();
    let chain = Studies {
        studies: vec![studies.studies[0].clone(), second],
        points: named(&[("v", &v)]),
        outcome: last,
    };
    let [all, few] = both(&chain, 40);
    agree(&few.at(&asked()).unwrap(), &all.at(&asked()).unwrap(), 1e-6);
    // Explained alike, too, as far as Shapley values see: without the constant.
    let variance = |own: &Effect| {
        let (_, model, covariance) = own.posteriors().unwrap().remove(0);
        (model.predict(&asked()).unwrap(), covariance.prior_scale)
    };
    let ((mean, prior), (other, same)) = (variance(&all), variance(&few));
    close(mean.data(), other.data(), 1e-6);
    assert!((prior - same).abs() < 1e-6);
}

/// What more rows are worth, and through which mediators effects go.
#[test]
fn advice_and_mediators_are_those_of_all_rows() {
    let [all, few] = both(&levels(90), 40);
    let by = Matrix::from_row_major(2, 4, vec![1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 1.0, 0.0]);
    // Rows where there are landmarks, as these are all that such rows are seen by.
    let more = [named(&[("x", &[0.5, 1.5]), ("z", &[0.5, 1.0])]), named(&[("y", &[-0.5, 1.0])])];
    for (study, rows) in more.iter().enumerate() {
        let [few, all] =
            [&few, &all].map(|own| own.variance_reduction_per_row(&asked(), &by, study, rows).unwrap());
        close(few.data(), all.data(), 1e-6);
        assert!(all.data().iter().all(|v| *v > 0.0));
    }
    let [few, all] = [&few, &all].map(|own| own.as_mediator_sums(&asked()).unwrap().remove(0).1);
    close(few.weights.data(), all.weights.data(), 1e-6);
    let [of_few, of_all] = [&few, &all].map(|own| own.outcome.predict(&own.mediators).unwrap());
    close(of_few.data(), of_all.data(), 1e-6);
}

/// Draws have the moments: 4,000 of them within five standard errors.
#[test]
fn draws_have_the_moments_they_should() {
    let [_, few] = both(&levels(90), 40);
    let draws = 4000;
    let told = few.at(&asked()).unwrap();
    let drawn = few.sample(&asked(), draws, 3).unwrap();
    for q in 0..4 {
        let row = drawn.row(q);
        let mean = row.iter().sum::<f64>() / draws as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (draws as f64 - 1.0);
        let expected = told.covariance[(q, q)];
        assert!((mean - told.mean[q]).abs() < 5.0 * (expected / draws as f64).sqrt());
        let fourth = row.iter().map(|v| (v - mean).powi(4)).sum::<f64>() / draws as f64;
        let error = ((fourth - variance * variance) / draws as f64).sqrt();
        assert!((variance - expected).abs() < 5.0 * error, "{variance} {expected} {error}");
    }
}

fn smooth(n: usize) -> Studies {
    let mut s = Stream(19);
    let z: Vec<f64> = (0..n).map(|_| s.normal()).collect();
    let x: Vec<f64> = z.iter().map(|z| 0.6 * z + s.normal()).collect();
    let y: Vec<f64> = (0..n).map(|i| x[i].sin() + 0.4 * z[i] + 0.2 * s.normal()).collect();
    let y2: Vec<f64> = (0..n).map(|_| 1.2 * s.normal()).collect();
    let t: Vec<f64> = y2.iter().map(|y| y - 0.3 * y * y + 0.3 * s.normal()).collect();
    let route = IdentificationRoute::BackDoor(named(&[("z", &z)]));
    let study =
        Study { treatments: named(&[("x", &x)]), route, mediators: named(&[("y", &y)]), shared: None };
    Studies { studies: vec![study], points: named(&[("y", &y2)]), outcome: t }
}

/// The more landmarks the nearer, and what they leave unexplained says how near.
#[test]
fn more_landmarks_come_nearer_to_all_rows() {
    let studies = smooth(300);
    let all = studies.effect(&parameters(&studies, None)).unwrap().at(&asked()).unwrap();
    let off: Vec<[f64; 3]> = [6, 20, 80]
        .iter()
        .map(|count| {
            let effect = studies.effect(&parameters(&studies, Some(*count))).unwrap();
            let left = effect.unexplained().iter().map(|(_, own)| *own).fold(0.0, f64::max);
            let told = effect.at(&asked()).unwrap();
            let off = |q: usize| (told.mean[q] - all.mean[q]).abs();
            let wider = |q: usize| (told.covariance[(q, q)] / all.covariance[(q, q)] - 1.0).abs();
            [left, (0..3).map(off).fold(0.0, f64::max), (0..4).map(wider).fold(0.0, f64::max)]
        })
        .collect();
    for k in 0..3 {
        assert!(off[2][k] < off[1][k] && off[1][k] < off[0][k], "{off:?}");
    }
    assert!(off[2][0] < 1e-2 && off[2][1] < 1e-3 && off[2][2] < 0.02, "{off:?}");
    // Where no study has rows nothing is taken for known.
    let told = studies.effect(&parameters(&studies, Some(20))).unwrap().at(&asked()).unwrap();
    assert!(told.standing[3].variance_explained_by_first < 1e-3 && !told.standing[3].is_supported());
}

/// A fit of more rows than hyper-parameters are learnt from, through landmarks as by default, finds the truth
/// within its band.
#[test]
fn a_fit_of_many_rows_finds_the_truth() {
    let studies = smooth(3100);
    let fusion = Fusion { draws: 3, ..Fusion::default() };
    let effect = fusion.fit(&studies).unwrap();
    assert_eq!(effect.unexplained().len(), 2);
    let x = named(&[("x", &[-1.0, 0.0, 0.8])]);
    let told = effect.at(&x).unwrap();
    // E[y - .3 y²] with y = sin x + .4 z + .2 e.
    for (q, x) in [-1.0_f64, 0.0, 0.8].iter().enumerate() {
        let truth = x.sin() - 0.3 * (x.sin().powi(2) + 0.16 + 0.04);
        let sd = told.covariance[(q, q)].sqrt();
        assert!((told.mean[q] - truth).abs() < 3.5 * sd && sd < 0.1, "{} {truth} {sd}", told.mean[q]);
        assert!(told.standing[q].is_supported());
    }
}
