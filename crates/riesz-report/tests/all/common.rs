//! Explanations for the plots of the tests.

use riesz::explanation::Provenance;
use riesz::model_card::CardEntry;
use riesz::{Column, Exactness, Explanation, Players, Table, ValueIndex};

/// Returns an explanation of `n` rows of the columns `names` and `m` outputs, with arbitrary but fixed
/// numbers.
pub fn explanation(n: usize, names: &[&str], m: usize) -> Explanation {
    let p = names.len();
    let columns: Vec<Column> = names.iter().copied().map(Column::numeric).collect();
    let wave = |k: usize| ((k * 37 % 101) as f64 - 50.0) / 10.0;
    let data = Table::from_column_major(columns.clone(), n, (0..n * p).map(wave).collect()).unwrap();
    let values: Vec<f64> = (0..n * m * p).map(|k| wave(k * 3 + 1) / (1 + k % p) as f64).collect();
    let predictions = values.chunks(p).map(|v| 1.5 + v.iter().sum::<f64>()).collect();
    Explanation {
        index: ValueIndex::Shapley,
        players: Players::singletons(&columns).players().to_vec(),
        subsets: None,
        output_names: (0..m).map(|o| format!("out{o}")).collect(),
        values,
        base_values: vec![1.5; n * m],
        predictions,
        data,
        row_numbers: (0..n).collect(),
        exactness: Exactness::Exact { bound: vec![1e-12; n * m] },
        uncertainty: None,
        duels: None,
        provenance: Provenance {
            game: "interventional".into(),
            absent: "it takes background values".into(),
            model: vec![CardEntry::new("kernel", "<rbf> & \"more\"")],
            run: vec![],
        },
    }
}

/// Returns an explanation with a different value for each set of up to `order` players.
pub fn interactions(n: usize, names: &[&str], m: usize, order: usize) -> Explanation {
    let p = names.len();
    let single = explanation(n, names, m);
    let mut subsets: Vec<Vec<usize>> =
        (1_usize..1 << p).map(|mask| (0..p).filter(|j| mask >> j & 1 == 1).collect()).collect();
    subsets.retain(|set| set.len() <= order);
    subsets.sort_by_key(|set| (set.len(), set.clone()));
    let wave = |k: usize| ((k * 53 % 211) as f64 - 105.0) / 40.0;
    let values: Vec<f64> =
        (0..n * m * subsets.len()).map(|k| wave(k + 7) / subsets[k % subsets.len()].len() as f64).collect();
    Explanation {
        index: format!("k-sii({order})").parse().unwrap(),
        predictions: values.chunks(subsets.len()).map(|v| 1.5 + v.iter().sum::<f64>()).collect(),
        values,
        subsets: Some(subsets),
        ..single
    }
}
