//! Instruments against their definition, by all variables and all sets of covariates of random graphs.

use riesz::causal::{Graph, instrument};

use crate::causal_graph::{Net, Set, draw, name, names, number, subsets};
use crate::causal_sets::{confound, some_effect};
use crate::common::Stream;

/// Whether `z` is an instrument given `w`. None of them is an effect of the treatment, `z` affects the
/// outcome only through the treatment, and `z` and the treatment are dependent.
fn is_instrument(net: &Net, z: usize, w: &Set, x: usize, y: usize) -> bool {
    let (treatment, effects) = (Set::from([x]), net.descendants(&[x].into()));
    let backdoor_net = net.without_arrows(&Set::new(), &treatment);
    effects.is_disjoint(&(w | &[z].into()))
        && backdoor_net.separated(&[z].into(), &[y].into(), w)
        && !net.separated(&[z].into(), &treatment, w)
}

#[test]
fn instruments_match_the_definition() {
    let mut s = Stream(114);
    // Counts: no instrument; one without covariates; one with covariates.
    let mut counts = [0; 3];
    for round in 0..4000 {
        let mut net = Net::random(&mut s, 4 + round % 3, 0.4, round % 4);
        let (x, y) = some_effect(&net, &mut s);
        if round % 2 == 0 {
            confound(&mut net, x, y);
        }
        let candidates: Set = (0..net.variables).filter(|v| ![x, y].contains(v)).collect();
        let measured = &draw(&mut s, &candidates, 0.8) | &[x, y].into();
        let eligible = &measured - &[x, y].into();
        let result = instrument(&net.graph(), &name(x), &name(y), &names(&measured)).unwrap();
        let affects = net.descendants(&[x].into()).contains(&y);
        let exists = affects
            && eligible.iter().any(|&z| {
                let covariates = eligible.iter().copied().filter(|&v| v != z).collect();
                subsets(&covariates).iter().any(|w| is_instrument(&net, z, w, x, y))
            });
        let graph = net.graph();
        assert_eq!(result.is_some(), exists, "{graph}: {x} on {y}, measured {measured:?}");
        let Some(chosen) = result else {
            counts[0] += 1;
            continue;
        };
        let conditioning: Set = chosen.conditioning.iter().map(|name| number(name)).collect();
        assert!(is_instrument(&net, number(&chosen.variable), &conditioning, x, y), "{graph}: {chosen:?}");
        counts[if conditioning.is_empty() { 1 } else { 2 }] += 1;
    }
    assert!(counts.iter().all(|&n| n > 30), "{counts:?}");
    let no_instrument = instrument(&Graph::parse("Z -> X; Y").unwrap(), "X", "Y", &["X", "Y", "Z"]).unwrap();
    assert_eq!(no_instrument, None);
}
