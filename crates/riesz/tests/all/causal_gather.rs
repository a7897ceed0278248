//! Studies from tables as people have them, and effects row by row: what is left out, made alike, refused and
//! left in doubt.

use riesz::causal::{
    Caveat, Estimand, Fusion, Graph, Identification, IdentificationRoute, MeasuredColumns, PreparedStudies,
    Query, default_doses, gather, identify,
};
use riesz::{Column, ColumnKind, Error, Table};

/// Numbers between −1 and 1 that look random.
fn noise() -> impl FnMut() -> f64 {
    let mut state = 7_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 30) as f64 - 1.0
    }
}

fn found() -> Identification {
    let graph = Graph::parse("age -> dose; age -> psa; dose -> psa; psa -> volume").unwrap();
    let studies = [vec!["age", "dose", "psa"], vec!["psa", "volume"]];
    let query = Query {
        treatments: vec!["dose".into()],
        outcome: "volume".into(),
        studies: studies.map(|own| own.into_iter().map(String::from).collect()).to_vec(),
        ..Query::default()
    };
    identify(Some(&graph), &query).unwrap()
}

fn tables(spread: f64) -> [MeasuredColumns; 2] {
    let mut e = noise();
    let n = 40;
    let age: Vec<f64> = (0..n).map(|_| e()).collect();
    let dose: Vec<f64> = age.iter().map(|age| age + spread * e()).collect();
    let psa: Vec<f64> = age.iter().zip(&dose).map(|(age, dose)| age - 2.0 * dose + 0.1 * e()).collect();
    let other: Vec<f64> = (0..n).map(|_| 4.0 * e()).collect();
    let volume: Vec<f64> = other.iter().map(|psa| 3.0 * psa + 0.1 * e()).collect();
    let column = |name: &str, own: Vec<f64>| (Column::numeric(name), own);
    [
        MeasuredColumns { columns: vec![column("age", age), column("dose", dose), column("psa", psa)] },
        MeasuredColumns { columns: vec![column("psa", other), column("volume", volume)] },
    ]
}

fn fails(change: impl Fn(&mut [MeasuredColumns; 2])) -> String {
    let mut own = tables(1.0);
    change(&mut own);
    gather(&found(), &own).unwrap_err().to_string()
}

#[test]
fn rows_with_holes_are_left_out_and_order_is_no_matter() {
    let own = tables(1.0);
    let whole = gather(&found(), &own).unwrap();
    assert_eq!(whole.doubts, []);
    let mut turned = own.clone();
    for table in &mut turned {
        table.columns.reverse();
        table.columns.iter_mut().for_each(|(_, values)| values.rotate_left(13));
    }
    let again = gather(&found(), &turned).unwrap();
    assert_eq!(again.studies.points, whole.studies.points);
    assert_eq!(again.studies.outcome, whole.studies.outcome);
    assert_eq!(again.studies.studies[0].treatments, whole.studies.studies[0].treatments);
    // Rows keep together.
    let study = &whole.studies.studies[0];
    let IdentificationRoute::BackDoor(ages) = &study.route else { panic!("{study:?}") };
    let row = |i: usize| [ages.get(i, 0), study.treatments.get(i, 0), study.mediators.get(i, 0)];
    let was = |i: usize| [0, 1, 2].map(|j| own[0].columns[j].1[i]);
    assert!((0..40).all(|i| (0..40).any(|k| row(i) == was(k))));
    let mut holed = own.clone();
    holed[0].columns[0].1[3] = f64::NAN;
    holed[0].columns[2].1[3] = f64::NAN;
    holed[0].columns[2].1[9] = f64::NAN;
    let PreparedStudies { studies, doubts, .. } = gather(&found(), &holed).unwrap();
    assert_eq!(studies.studies[0].treatments.rows(), 38);
    let columns = vec!["psa".to_string(), "age".into()];
    assert_eq!(doubts, [Caveat::Holes { study: 0, rows: 2, of: 40, columns }]);
    assert_eq!(doubts[0].to_string(), "study 1: 2 of 40 rows have no value in psa or age, and are left out");
}

#[test]
fn mediators_that_the_next_study_has_not_are_counted() {
    let mut own = tables(1.0);
    let low = -0.5;
    own[1].columns[0].1.iter_mut().for_each(|v| *v = v.max(low));
    let psa = own[0].columns[2].1.clone();
    let counted = psa.iter().filter(|v| **v < low).count() as f64 / 40.0;
    let told = gather(&found(), &own).unwrap();
    assert!(counted > 0.05 && (told.unmatched["psa"] - counted).abs() < 1e-12, "{counted}");
    assert!(told.doubts[0].to_string().starts_with("study 2 has no psa below -0.5; "), "{}", told.doubts[0]);
    // Levels of both studies are made alike, whatever their codes.
    let levels =
        |names: &[&str]| ColumnKind::Categorical { levels: names.iter().map(|n| (*n).into()).collect() };
    own[0].columns[2].0.kind = levels(&["low", "high"]);
    own[0].columns[2].1 = psa.iter().map(|v| f64::from(u8::from(*v > 0.0))).collect();
    own[1].columns[0].0.kind = levels(&["other", "high"]);
    own[1].columns[0].1.iter_mut().for_each(|v| *v = f64::from(u8::from(*v > 0.0)));
    let told = gather(&found(), &own).unwrap();
    let highs = psa.iter().filter(|v| **v > 0.0).count();
    assert!((told.unmatched["psa"] - (40 - highs) as f64 / 40.0).abs() < 1e-12);
    let (first, last) = (&told.studies.studies[0].mediators, &told.studies.points);
    assert_eq!(first.columns(), last.columns());
    assert_eq!(first.columns()[0].kind, levels(&["high", "low", "other"]));
    assert_eq!(first.column(0).iter().filter(|code| **code == 0.0).count(), highs);
}

#[test]
fn what_cannot_be_learnt_from_is_refused() {
    let far =
        |own: &mut [MeasuredColumns; 2]| own[1].columns[0].1.iter_mut().for_each(|v| *v = 900.0 + 90.0 * *v);
    assert!(fails(far).starts_with("no common support in psa: it is "), "{}", fails(far));
    let same = fails(|own| own[0].columns[1].1.fill(2.0));
    assert!(same.starts_with("dose is the same in all 40 rows of study 1"), "{same}");
    let few = fails(|own| own[1].columns.iter_mut().for_each(|(_, values)| values.truncate(4)));
    assert_eq!(few, "study 2 has 4 rows: at least 5 are needed");
    let holes = fails(|own| own[1].columns[0].1[4..].fill(f64::NAN));
    assert_eq!(holes, "study 2 has 4 rows with a value in each of psa, volume: at least 5 are needed");
    let text = fails(|own| {
        own[1].columns[1].0.kind = ColumnKind::Categorical { levels: vec!["a".into(), "b".into()] };
        own[1].columns[1].1.iter_mut().for_each(|v| *v = f64::from(u8::from(*v > 0.0)));
    });
    assert_eq!(text, "the outcome volume is text in study 2: give numbers");
    let endless = fails(|own| own[0].columns[0].1[1] = f64::INFINITY);
    assert!(endless.starts_with("row 2 of column 'age' is inf"), "{endless}");
    let ragged = fails(|own| own[0].columns[0].1.truncate(30));
    assert!(ragged.contains("as many as the others"), "{ragged}");
    let lacking = fails(|own| own[1].columns.truncate(1));
    assert!(lacking.starts_with("there is no column 'volume'"), "{lacking}");
    assert!(matches!(gather(&found(), &tables(1.0)[..1]), Err(Error::Shape { .. })));
}

#[test]
fn treatments_that_covariates_all_but_decide_are_told_of() {
    // By least squares on age and its square, solved by hand: Cramer's rule of centred moments.
    let left = |own: &MeasuredColumns| {
        let (x, t) = (&own.columns[0].1, &own.columns[1].1);
        let n = x.len() as f64;
        let centred = |v: Vec<f64>| {
            let mean = v.iter().sum::<f64>() / n;
            v.into_iter().map(|v| v - mean).collect::<Vec<f64>>()
        };
        let (a, b, t) = (centred(x.clone()), centred(x.iter().map(|v| v * v).collect()), centred(t.clone()));
        let dot = |u: &[f64], v: &[f64]| u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
        let det = dot(&a, &a) * dot(&b, &b) - dot(&a, &b) * dot(&a, &b);
        let p = (dot(&a, &t) * dot(&b, &b) - dot(&b, &t) * dot(&a, &b)) / det;
        let q = (dot(&b, &t) * dot(&a, &a) - dot(&a, &t) * dot(&a, &b)) / det;
        let open: f64 = (0..x.len()).map(|i| (t[i] - p * a[i] - q * b[i]).powi(2)).sum();
        open / dot(&t, &t) * n / (n - 3.0)
    };
    for spread in [0.3, 0.05] {
        let own = tables(spread);
        let expected = left(&own[0]);
        let told = gather(&found(), &own).unwrap().doubts;
        let [Caveat::Decided { treatment, by, left }] = &told[..] else { panic!("{expected}: {told:?}") };
        assert!(treatment == "dose" && *by == ["age"] && (left - expected).abs() < 1e-9, "{left} {expected}");
    }
    assert!(left(&tables(1.0)[0]) > 0.1);
}

#[test]
fn row_by_row_effects_are_those_of_the_joint_covariance() {
    let gathered = gather(&found(), &tables(1.0)).unwrap();
    let effect = Fusion { draws: 2, ..Fusion::default() }.fit(&gathered.studies).unwrap();
    let first = &gathered.studies.studies[0].treatments;
    let doses = default_doses(first, 300).unwrap();
    let base = first.select_rows(&[5]);
    let whole = effect.at(&doses.stack(&base).unwrap()).unwrap();
    let (alone, contrast) = (
        effect.pointwise(&doses, &Estimand::Level).unwrap(),
        effect.pointwise(&doses, &Estimand::Contrast(base)).unwrap(),
    );
    let (sd, of_contrast, ends) = (alone.sd(), contrast.sd(), contrast.interval(0.9).unwrap());
    for i in (0..300).step_by(23).chain([299]) {
        let c = &whole.covariance;
        assert!((alone.mean[i] - whole.mean[i]).abs() < 1e-9 && (sd[i] - c[(i, i)].sqrt()).abs() < 1e-8);
        assert!((contrast.mean[i] - (whole.mean[i] - whole.mean[300])).abs() < 1e-9);
        let variance = c[(i, i)] - 2.0 * c[(i, 300)] + c[(300, 300)];
        assert!((of_contrast[i].powi(2) - variance).abs() < 1e-8 * c[(i, i)], "{i}");
        let [low, high] = ends[i];
        assert!(((high - low) / 2.0 - 1.644_853_627 * of_contrast[i]).abs() < 1e-8);
        let both = [&whole.standing[i], &whole.standing[300]];
        let lesser = both.iter().map(|own| own.resolved_by_rest).fold(1.0, f64::min);
        assert!((contrast.standing[i].resolved_by_rest - lesser).abs() < 1e-9);
        assert_eq!(contrast.supported()[i], both.iter().all(|own| own.is_supported()));
    }
    assert!((alone.variance_shares().iter().map(|own| own.1).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(
        alone.interval(1.0).is_err() && effect.pointwise(&doses, &Estimand::Contrast(doses.clone())).is_err()
    );
}

#[test]
fn usual_doses_are_in_the_middle() {
    let of = |values: Vec<f64>| {
        let table = Table::from_column_major(vec![Column::numeric("dose")], values.len(), values).unwrap();
        default_doses(&table, 5).unwrap().column(0).to_vec()
    };
    // The middle 95 % of 0 to 199 are 5 to 194.
    assert_eq!(of((0..200).rev().map(f64::from).collect()), [5.0, 52.25, 99.5, 146.75, 194.0]);
    assert_eq!(of(vec![1.0, 0.0, 0.0, 1.0]), [0.0, 1.0]);
    let two = Table::from_rows(&[[1.0, 2.0], [2.0, 3.0]]).unwrap();
    assert!(default_doses(&two, 5).is_err());
}

#[test]
fn rows_that_are_there_twice_are_told() {
    let mut own = tables(1.0);
    for (_, values) in &mut own[0].columns {
        let first = values[..10].to_vec();
        values.extend(first);
    }
    let doubts = gather(&found(), &own).unwrap().doubts;
    assert_eq!(doubts, [Caveat::Repeated { study: 0, rows: 10, of: 50 }]);
    assert!(doubts[0].to_string().starts_with("study 1: 10 of 50 rows repeat others to the last digit"));
    // In whole numbers people are alike by chance.
    for (_, values) in &mut own[0].columns {
        values.iter_mut().for_each(|v| *v = (3.0 * *v).round());
    }
    let doubts = gather(&found(), &own).unwrap().doubts;
    assert!(doubts.iter().all(|own| !matches!(own, Caveat::Repeated { .. })), "{doubts:?}");
}
