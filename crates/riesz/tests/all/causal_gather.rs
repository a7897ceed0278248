//! Studies prepared from raw tables, and effects by row: omitted rows, matched levels, refusals and caveats.

use riesz::causal::{
    CausalFusion, CausalQuery, Caveat, Estimand, Graph, Identification, IdentificationRoute, MeasuredColumns,
    PreparedStudies, default_doses, gather, identify,
};
use riesz::{Column, ColumnKind, Error, Table};

/// Pseudo-random numbers between −1 and 1.
fn noise() -> impl FnMut() -> f64 {
    let mut state = 7_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 30) as f64 - 1.0
    }
}

fn identification() -> Identification {
    let graph = Graph::parse("age -> dose; age -> psa; dose -> psa; psa -> volume").unwrap();
    let studies = [vec!["age", "dose", "psa"], vec!["psa", "volume"]];
    let query = CausalQuery {
        treatments: vec!["dose".into()],
        outcome: "volume".into(),
        studies: studies.map(|names| names.into_iter().map(String::from).collect()).to_vec(),
        ..CausalQuery::default()
    };
    identify(Some(&graph), &query).unwrap()
}

fn tables(dose_sd: f64) -> [MeasuredColumns; 2] {
    let mut e = noise();
    let n = 40;
    let age: Vec<f64> = (0..n).map(|_| e()).collect();
    let dose: Vec<f64> = age.iter().map(|age| age + dose_sd * e()).collect();
    let psa: Vec<f64> = age.iter().zip(&dose).map(|(age, dose)| age - 2.0 * dose + 0.1 * e()).collect();
    let other: Vec<f64> = (0..n).map(|_| 4.0 * e()).collect();
    let volume: Vec<f64> = other.iter().map(|psa| 3.0 * psa + 0.1 * e()).collect();
    let column = |name: &str, values: Vec<f64>| (Column::numeric(name), values);
    [
        MeasuredColumns { columns: vec![column("age", age), column("dose", dose), column("psa", psa)] },
        MeasuredColumns { columns: vec![column("psa", other), column("volume", volume)] },
    ]
}

fn fails(change: impl Fn(&mut [MeasuredColumns; 2])) -> String {
    let mut data = tables(1.0);
    change(&mut data);
    gather(&identification(), &data).unwrap_err().to_string()
}

#[test]
fn incomplete_rows_are_dropped_and_order_is_irrelevant() {
    let data = tables(1.0);
    let prepared = gather(&identification(), &data).unwrap();
    assert_eq!(prepared.caveats, []);
    let mut reordered = data.clone();
    for table in &mut reordered {
        table.columns.reverse();
        table.columns.iter_mut().for_each(|(_, values)| values.rotate_left(13));
    }
    let reordered_studies = gather(&identification(), &reordered).unwrap();
    assert_eq!(reordered_studies.studies.points, prepared.studies.points);
    assert_eq!(reordered_studies.studies.outcome, prepared.studies.outcome);
    assert_eq!(reordered_studies.studies.studies[0].treatments, prepared.studies.studies[0].treatments);
    // The values of a row stay together.
    let study = &prepared.studies.studies[0];
    let IdentificationRoute::BackDoor(ages) = &study.route else { panic!("{study:?}") };
    let row = |i: usize| [ages.get(i, 0), study.treatments.get(i, 0), study.mediators.get(i, 0)];
    let measured_row = |i: usize| [0, 1, 2].map(|j| data[0].columns[j].1[i]);
    assert!((0..40).all(|i| (0..40).any(|k| row(i) == measured_row(k))));
    let mut with_missing = data.clone();
    with_missing[0].columns[0].1[3] = f64::NAN;
    with_missing[0].columns[2].1[3] = f64::NAN;
    with_missing[0].columns[2].1[9] = f64::NAN;
    let PreparedStudies { studies, caveats, .. } = gather(&identification(), &with_missing).unwrap();
    assert_eq!(studies.studies[0].treatments.rows(), 38);
    let columns = vec!["psa".to_string(), "age".into()];
    assert_eq!(caveats, [Caveat::Holes { study: 0, rows: 2, total: 40, columns }]);
    assert_eq!(caveats[0].to_string(), "study 1: 2 of 40 rows have no value in psa or age, and are left out");
}

#[test]
fn mediator_values_outside_the_next_study_are_counted() {
    let mut data = tables(1.0);
    let low = -0.5;
    data[1].columns[0].1.iter_mut().for_each(|v| *v = v.max(low));
    let psa = data[0].columns[2].1.clone();
    let unmatched_share = psa.iter().filter(|v| **v < low).count() as f64 / 40.0;
    let prepared = gather(&identification(), &data).unwrap();
    assert!(
        unmatched_share > 0.05 && (prepared.unmatched["psa"] - unmatched_share).abs() < 1e-12,
        "{unmatched_share}"
    );
    assert!(
        prepared.caveats[0].to_string().starts_with("study 2 has no psa below -0.5; "),
        "{}",
        prepared.caveats[0]
    );
    // Both studies have the same levels, whatever their codes.
    let levels =
        |names: &[&str]| ColumnKind::Categorical { levels: names.iter().map(|n| (*n).into()).collect() };
    data[0].columns[2].0.kind = levels(&["low", "high"]);
    data[0].columns[2].1 = psa.iter().map(|v| f64::from(u8::from(*v > 0.0))).collect();
    data[1].columns[0].0.kind = levels(&["other", "high"]);
    data[1].columns[0].1.iter_mut().for_each(|v| *v = f64::from(u8::from(*v > 0.0)));
    let prepared = gather(&identification(), &data).unwrap();
    let highs = psa.iter().filter(|v| **v > 0.0).count();
    assert!((prepared.unmatched["psa"] - (40 - highs) as f64 / 40.0).abs() < 1e-12);
    let (first, points) = (&prepared.studies.studies[0].mediators, &prepared.studies.points);
    assert_eq!(first.columns(), points.columns());
    assert_eq!(first.columns()[0].kind, levels(&["high", "low", "other"]));
    assert_eq!(first.column(0).iter().filter(|code| **code == 0.0).count(), highs);
}

#[test]
fn studies_without_information_are_refused() {
    let without_overlap = |data: &mut [MeasuredColumns; 2]| {
        data[1].columns[0].1.iter_mut().for_each(|v| *v = 900.0 + 90.0 * *v)
    };
    assert!(
        fails(without_overlap).starts_with("no common support in psa: it is "),
        "{}",
        fails(without_overlap)
    );
    let constant = fails(|data| data[0].columns[1].1.fill(2.0));
    assert!(constant.starts_with("dose is the same in all 40 rows of study 1"), "{constant}");
    let too_few = fails(|data| data[1].columns.iter_mut().for_each(|(_, values)| values.truncate(4)));
    assert_eq!(too_few, "study 2 has 4 rows: at least 5 are needed");
    let missing = fails(|data| data[1].columns[0].1[4..].fill(f64::NAN));
    assert_eq!(missing, "study 2 has 4 rows with a value in each of psa, volume: at least 5 are needed");
    let text = fails(|data| {
        data[1].columns[1].0.kind = ColumnKind::Categorical { levels: vec!["a".into(), "b".into()] };
        data[1].columns[1].1.iter_mut().for_each(|v| *v = f64::from(u8::from(*v > 0.0)));
    });
    assert_eq!(text, "the outcome volume is text in study 2: give numbers");
    let infinite = fails(|data| data[0].columns[0].1[1] = f64::INFINITY);
    assert!(infinite.starts_with("row 2 of column 'age' is inf"), "{infinite}");
    let ragged = fails(|data| data[0].columns[0].1.truncate(30));
    assert!(ragged.contains("as many as the others"), "{ragged}");
    let lacking = fails(|data| data[1].columns.truncate(1));
    assert!(lacking.starts_with("there is no column 'volume'"), "{lacking}");
    assert!(matches!(gather(&identification(), &tables(1.0)[..1]), Err(Error::Shape { .. })));
}

#[test]
fn treatments_nearly_determined_by_covariates_are_reported() {
    // Least squares on age and its square, by Cramer's rule with centered moments.
    let residual_share = |study: &MeasuredColumns| {
        let (x, t) = (&study.columns[0].1, &study.columns[1].1);
        let n = x.len() as f64;
        let centered = |v: Vec<f64>| {
            let mean = v.iter().sum::<f64>() / n;
            v.into_iter().map(|v| v - mean).collect::<Vec<f64>>()
        };
        let (a, b, t) =
            (centered(x.clone()), centered(x.iter().map(|v| v * v).collect()), centered(t.clone()));
        let dot = |u: &[f64], v: &[f64]| u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
        let det = dot(&a, &a) * dot(&b, &b) - dot(&a, &b) * dot(&a, &b);
        let p = (dot(&a, &t) * dot(&b, &b) - dot(&b, &t) * dot(&a, &b)) / det;
        let q = (dot(&b, &t) * dot(&a, &a) - dot(&a, &t) * dot(&a, &b)) / det;
        let residual_sum: f64 = (0..x.len()).map(|i| (t[i] - p * a[i] - q * b[i]).powi(2)).sum();
        residual_sum / dot(&t, &t) * n / (n - 3.0)
    };
    for dose_sd in [0.3, 0.05] {
        let data = tables(dose_sd);
        let expected = residual_share(&data[0]);
        let caveats = gather(&identification(), &data).unwrap().caveats;
        let [Caveat::Decided { treatment, covariates, left, additive: false }] = &caveats[..] else {
            panic!("{expected}: {caveats:?}")
        };
        assert!(
            treatment == "dose" && *covariates == ["age"] && (left - expected).abs() < 1e-9,
            "{left} {expected}"
        );
    }
    assert!(residual_share(&tables(1.0)[0]) > 0.1);
}

#[test]
fn pointwise_effects_match_the_joint_covariance() {
    let gathered = gather(&identification(), &tables(1.0)).unwrap();
    let effect = CausalFusion { draws: 2, ..CausalFusion::default() }.fit(&gathered.studies).unwrap();
    let first = &gathered.studies.studies[0].treatments;
    let doses = default_doses(first, 300).unwrap();
    let baseline = first.select_rows(&[5]);
    let joint = effect.evaluate(&doses.stack(&baseline).unwrap()).unwrap();
    let (level, contrast) = (
        effect.pointwise(&doses, &Estimand::Level).unwrap(),
        effect.pointwise(&doses, &Estimand::Contrast(baseline)).unwrap(),
    );
    let (sd, contrast_sd, intervals) = (level.sd(), contrast.sd(), contrast.interval(0.9).unwrap());
    for i in (0..300).step_by(23).chain([299]) {
        let c = &joint.covariance;
        assert!((level.mean[i] - joint.mean[i]).abs() < 1e-9 && (sd[i] - c[(i, i)].sqrt()).abs() < 1e-8);
        assert!((contrast.mean[i] - (joint.mean[i] - joint.mean[300])).abs() < 1e-9);
        let variance = c[(i, i)] - 2.0 * c[(i, 300)] + c[(300, 300)];
        assert!((contrast_sd[i].powi(2) - variance).abs() < 1e-8 * c[(i, i)], "{i}");
        let [low, high] = intervals[i];
        assert!(((high - low) / 2.0 - 1.644_853_627 * contrast_sd[i]).abs() < 1e-8);
        let supports = [&joint.support[i], &joint.support[300]];
        let smaller_share = supports.iter().map(|support| support.resolved_by_rest).fold(1.0, f64::min);
        assert!((contrast.support[i].resolved_by_rest - smaller_share).abs() < 1e-9);
        assert_eq!(contrast.supported()[i], supports.iter().all(|support| support.is_supported()));
    }
    assert!((level.variance_shares().iter().map(|share| share.1).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(
        level.interval(1.0).is_err() && effect.pointwise(&doses, &Estimand::Contrast(doses.clone())).is_err()
    );
}

#[test]
fn default_doses_span_the_middle_of_the_data() {
    let doses = |values: Vec<f64>| {
        let table = Table::from_column_major(vec![Column::numeric("dose")], values.len(), values).unwrap();
        default_doses(&table, 5).unwrap().column(0).to_vec()
    };
    // The middle 95 % of 0 to 199 are 5 to 194.
    assert_eq!(doses((0..200).rev().map(f64::from).collect()), [5.0, 52.25, 99.5, 146.75, 194.0]);
    assert_eq!(doses(vec![1.0, 0.0, 0.0, 1.0]), [0.0, 1.0]);
    let two_treatments = Table::from_rows(&[[1.0, 2.0], [2.0, 3.0]]).unwrap();
    assert!(default_doses(&two_treatments, 5).is_err());
}

#[test]
fn repeated_rows_are_reported() {
    let mut data = tables(1.0);
    for (_, values) in &mut data[0].columns {
        let first = values[..10].to_vec();
        values.extend(first);
    }
    let caveats = gather(&identification(), &data).unwrap().caveats;
    assert_eq!(caveats, [Caveat::Repeated { study: 0, rows: 10, total: 50 }]);
    assert!(caveats[0].to_string().starts_with("study 1: 10 of 50 rows repeat others to the last digit"));
    // With whole numbers, equal rows occur by chance.
    for (_, values) in &mut data[0].columns {
        values.iter_mut().for_each(|v| *v = (3.0 * *v).round());
    }
    let caveats = gather(&identification(), &data).unwrap().caveats;
    assert!(caveats.iter().all(|reported| !matches!(reported, Caveat::Repeated { .. })), "{caveats:?}");
}
