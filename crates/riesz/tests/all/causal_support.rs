//! Support and caveats: doses outside the data, populations unlike the rows, too few effective draws, and
//! interrupted fits.

use std::sync::atomic::{AtomicBool, Ordering};

use riesz::causal::{
    CausalFusion, CausalQuery, DataSupport, Effect, IdentificationRoute, Strategy, Studies, Study,
    TargetPopulation, caveats, identify,
};
use riesz::{Column, ColumnKind, Error, Table};

use crate::common::Stream;

static NEVER_STOP: AtomicBool = AtomicBool::new(false);

fn column(name: &str, v: &[f64]) -> Table {
    Table::from_column_major(vec![Column::numeric(name)], v.len(), v.to_vec()).unwrap()
}

fn fusion() -> CausalFusion {
    CausalFusion { draws: 3, ..CausalFusion::default() }
}

/// Returns covariates, and studies of which the first has treatments that depend on them.
fn studies(n: usize, seed: u64, treatment: impl Fn(f64, &mut Stream) -> f64) -> (Vec<f64>, Studies) {
    let mut s = Stream(seed);
    let z: Vec<f64> = (0..n).map(|_| s.normal()).collect();
    let x: Vec<f64> = z.iter().map(|z| treatment(*z, &mut s)).collect();
    let y: Vec<f64> = x.iter().zip(&z).map(|(x, z)| z - 0.5 * x + 0.2 * s.normal()).collect();
    let y2: Vec<f64> = (0..n).map(|_| 8.0 * s.uniform() - 4.0).collect();
    let outcome: Vec<f64> = y2.iter().map(|y| 2.0 * y + 0.2 * s.normal()).collect();
    let first = Study {
        treatments: column("x", &x),
        route: IdentificationRoute::BackDoor(column("z", &z)),
        mediators: column("y", &y),
        shared: None,
    };
    (z, Studies { studies: vec![first], points: column("y", &y2), outcome })
}

fn support_at(effect: &Effect, x: &[f64]) -> Vec<DataSupport> {
    effect.evaluate(&column("x", x)).unwrap().support
}

/// Overlap is the share of people whose covariates predict a treatment within two noise standard deviations
/// of the dose.
#[test]
fn overlap_is_the_share_of_units_whose_covariates_predict_the_dose() {
    for noise in [0.1, 0.3, 1.0] {
        let (z, studies) = studies(150, 11, |z, s| z + noise * s.normal());
        let effect = fusion().fit(&studies).unwrap();
        let doses = [-2.5, -1.0, 0.0, 0.5, 2.0];
        for (x, support) in doses.iter().zip(support_at(&effect, &doses)) {
            let share_within =
                |width: f64| z.iter().filter(|z| (x - **z).abs() <= width * noise).count() as f64 / 150.0;
            assert!(
                (share_within(1.7) - 0.03..=share_within(2.3) + 0.03).contains(&support.overlap),
                "{noise} {x}: {support:?} {}",
                share_within(2.0)
            );
            if noise == 0.1 {
                assert!(support.variance_explained_by_first > 0.5 || support.overlap < 0.1);
                assert!(!support.is_supported());
            }
        }
        // The overlap of one person.
        let effect_for_unit = |z: f64| {
            effect.on_population(&TargetPopulation::ConditionalOn(column("z", &[z])), &NEVER_STOP).unwrap()
        };
        assert_eq!(support_at(&effect_for_unit(0.5), &[0.5, 0.5 + 3.0 * noise])[0].overlap, 1.0);
        assert_eq!(support_at(&effect_for_unit(0.5), &[0.5 + 3.0 * noise])[0].overlap, 0.0);
        let mixture = TargetPopulation::Population(column("z", &[0.5, -1.5]), vec![0.75, 0.25]);
        let mixed_support = support_at(&effect.on_population(&mixture, &NEVER_STOP).unwrap(), &[0.5])[0];
        assert_eq!(mixed_support.overlap, if noise < 1.0 { 0.75 } else { mixed_support.overlap });
    }
}

/// Three treatment levels: people with z above 0.5 always receive the second, others the first or second,
/// nobody the third.
#[test]
fn levels_overlap_where_their_probability_is_positive() {
    let (z, mut studies) = studies(120, 5, |z, s| if z > 0.5 || s.uniform() < 0.5 { 1.0 } else { 0.0 });
    let levels = ["none", "low", "high"].map(str::to_owned).to_vec();
    let kind = ColumnKind::Categorical { levels };
    let columns = vec![Column { kind, ..Column::numeric("x") }];
    let x = studies.studies[0].treatments.column(0).to_vec();
    studies.studies[0].treatments = Table::from_column_major(columns.clone(), x.len(), x).unwrap();
    let effect = fusion().fit(&studies).unwrap();
    let queries = Table::from_column_major(columns, 3, vec![0.0, 1.0, 2.0]).unwrap();
    let support = effect.evaluate(&queries).unwrap().support;
    // A smooth regression also gives some people with a slightly larger z a positive probability.
    let below = |end: f64| z.iter().filter(|z| **z < end).count() as f64 / z.len() as f64;
    assert!((below(0.4)..below(1.3)).contains(&support[0].overlap), "{} {}", support[0].overlap, below(0.5));
    assert_eq!((support[1].overlap, support[2].overlap), (1.0, 0.0));
    assert!(!support[2].is_supported());
}

#[test]
fn populations_far_from_all_rows_are_unsupported() {
    let (z, mut studies) = studies(80, 3, |z, s| z + s.normal());
    let mut s = Stream(9);
    let w: Vec<f64> = z.iter().map(|z| 0.5 * z + 0.5 * s.normal()).collect();
    let covariates =
        Table::from_column_major(vec![Column::numeric("z"), Column::numeric("w")], z.len(), [z, w].concat());
    studies.studies[0].route = IdentificationRoute::BackDoor(covariates.unwrap());
    let effect = fusion().fit(&studies).unwrap();
    assert_eq!(support_at(&effect, &[0.0])[0].population_explained, 1.0);
    let support_given = |z: f64| {
        support_at(
            &effect.on_population(&TargetPopulation::ConditionalOn(column("z", &[z])), &NEVER_STOP).unwrap(),
            &[0.0],
        )[0]
    };
    assert!(
        support_given(0.2).population_explained > 0.9 && support_given(0.2).is_supported(),
        "{:?}",
        support_given(0.2)
    );
    assert!(
        support_given(60.0).population_explained < 0.2 && !support_given(60.0).is_supported(),
        "{:?}",
        support_given(60.0)
    );
    let support_of_treated = |x: f64| {
        support_at(
            &effect.on_population(&TargetPopulation::Treated(column("x", &[x])), &NEVER_STOP).unwrap(),
            &[0.0],
        )[0]
    };
    assert!(
        support_of_treated(0.1).population_explained > 0.9
            && support_of_treated(80.0).population_explained < 0.2
    );
}

/// Outcomes that were computed rather than measured are flagged, without the advice to take more draws.
#[test]
fn outcomes_without_noise_are_flagged() {
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let query = CausalQuery {
        treatments: names(&["x"]),
        outcome: "t".into(),
        studies: vec![names(&["x", "z", "y"]), names(&["y", "t"])],
        strategy: Strategy::Adjust(names(&["z"])),
        ..CausalQuery::default()
    };
    let identification = identify(None, &query).unwrap();
    let caveat_text = |studies: &Studies| {
        let fusion = CausalFusion { draws: 8, ..CausalFusion::default() };
        caveats(&identification, &fusion.fit(studies).unwrap(), 8)
            .iter()
            .map(ToString::to_string)
            .collect::<String>()
    };
    let (_, noisy) = studies(80, 1, |z, s| z + s.normal());
    assert_eq!(caveat_text(&noisy), "");
    let mut exact = noisy.clone();
    exact.outcome = exact.points.column(0).iter().map(|y| (0.5 * y).sin()).collect();
    let message = caveat_text(&exact);
    assert!(message.contains("study 2 has hardly any noise") && !message.contains("give more"), "{message}");
    let mut exact = noisy;
    let first = &mut exact.studies[0];
    first.mediators = column("y", first.treatments.column(0));
    let message = caveat_text(&exact);
    assert!(message.contains("study 1 has hardly any noise"), "{message}");
}

#[test]
fn fits_can_be_stopped_and_refuse_excessive_memory() {
    let (_, studies) = studies(40, 1, |z, s| z + s.normal());
    let effect = fusion().fit(&studies).unwrap();
    assert!((1.0..=64.0).contains(&effect.effective_draws()), "{}", effect.effective_draws());
    let best = CausalFusion { draws: 0, ..CausalFusion::default() }.fit(&studies).unwrap();
    assert_eq!(best.effective_draws(), f64::INFINITY);
    let stopped = fusion();
    stopped.stop.store(true, Ordering::Relaxed);
    assert!(matches!(stopped.fit(&studies), Err(Error::Interrupted)));
    assert_eq!(stopped.progress.steps(), 0);
    let completed = fusion();
    completed.fit(&studies).unwrap();
    // The last stage chooses the hyper-parameters of an embedding.
    assert_eq!(completed.progress.stage(), "choosing hyper-parameters");
    assert!(completed.progress.steps() > 0);
    assert!(matches!(
        effect.on_population(&TargetPopulation::Treated(column("x", &[0.0])), &AtomicBool::new(true)),
        Err(Error::Interrupted)
    ));
    let message = CausalFusion { draws: usize::MAX / 8, ..CausalFusion::default() }
        .fit(&studies)
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("draws = ") && message.contains("ask for fewer"), "{message}");
}
