//! Messages to the user: the statin example, every refusal with its name and wording, and user-supplied sets.

use riesz::Error;
use riesz::causal::{
    Bridge, CausalQuery, EffectStrategy, Graph, Hedge, IdentificationError, Provenance, Strategy, identify,
};

const STATIN: &str = "age -> statin; age -> psa; bmi -> statin; bmi -> psa; statin -> psa; psa -> volume";

fn columns(names: &str) -> Vec<String> {
    names.split_whitespace().map(String::from).collect()
}

fn query(studies: &[&str]) -> CausalQuery {
    CausalQuery {
        treatments: columns("statin"),
        outcome: "volume".into(),
        studies: studies.iter().map(|names| columns(names)).collect(),
        ..CausalQuery::default()
    }
}

fn refused(graph: &str, query: &CausalQuery) -> (IdentificationError, String) {
    let error = identify(Some(&Graph::parse(graph).unwrap()), query).unwrap_err();
    let text = error.to_string();
    let Error::Causal(refusal) = error else { panic!("{text}") };
    (*refusal, text)
}

#[test]
fn statin_effect_is_identified_and_described() {
    let graph = Graph::parse(STATIN).unwrap();
    let identification = identify(Some(&graph), &query(&["id statin age bmi psa", "psa volume"])).unwrap();
    assert_eq!(
        identification.strategy,
        EffectStrategy::BackDoor { adjust: columns("age bmi"), alternatives: vec![], listed: true }
    );
    assert_eq!(identification.bridges, [Bridge { mediators: columns("psa"), ..Bridge::default() }]);
    assert_eq!(
        (identification.source, identification.adjustment()),
        (Provenance::Graph, &columns("age bmi")[..])
    );
    assert_eq!(identification.unknown, ["id"]);
    assert_eq!(
        identification.assumptions,
        [
            "the graph is right: it lacks no arrow and no hidden common cause",
            "in study 1 every value of statin occurs at every value of age and bmi",
            "the mean of volume given psa is the same in studies 1 and 2",
        ]
    );
    let json = serde_json::to_string(&identification).unwrap();
    assert_eq!(serde_json::from_str::<riesz::causal::Identification>(&json).unwrap(), identification);
    // If shared age does not affect the volume given psa, it is not used. If it affects the volume too, it
    // must be conditioned on in both studies.
    let shared = ["statin age bmi psa", "psa age volume"];
    let identification = identify(Some(&graph), &query(&shared)).unwrap();
    assert_eq!(identification.bridges[0].unused, ["age"]);
    let age_affects_volume = Graph::parse(&format!("{STATIN}; age -> volume")).unwrap();
    let identification = identify(Some(&age_affects_volume), &query(&shared)).unwrap();
    assert_eq!(
        (identification.bridges[0].mediators.clone(), identification.bridges[0].passive.clone()),
        (columns("psa"), columns("age"))
    );
    assert_eq!(
        identification.to_string(),
        "back-door, adjusting for age and bmi; volume depends on statin only through psa and age"
    );
    let randomized_query = CausalQuery { strategy: Strategy::Randomized, ..query(&shared) };
    let identification = identify(Some(&age_affects_volume), &randomized_query).unwrap();
    assert_eq!(
        identification.to_string(),
        "randomized, adjusting for age; volume depends on statin only through psa and age"
    );
    assert!(identification.assumptions.contains(&"statin was assigned by chance in study 1".into()));
    let differing = CausalQuery { differs: [(1, columns("age"))].into(), ..query(&shared) };
    let identification = identify(Some(&age_affects_volume), &differing).unwrap();
    assert!(identification.assumptions[2].ends_with(
        "in studies 1 and 2, as the only relevant difference between them is in age, which does not change it"
    ));
}

#[test]
fn default_set_is_nearest_to_the_outcome() {
    let graph = Graph::parse("far -> statin; far -> near -> volume; statin -> volume").unwrap();
    let identification = identify(Some(&graph), &query(&["far near statin volume"])).unwrap();
    assert_eq!(
        identification.strategy,
        EffectStrategy::BackDoor {
            adjust: columns("near"),
            alternatives: vec![columns("far")],
            listed: true
        }
    );
}

#[test]
fn three_studies_are_chained() {
    let graph = "age -> dose; age -> a; dose -> a -> b -> volume; w -> b; w -> volume";
    let chained = |studies: &[&str]| CausalQuery { treatments: columns("dose"), ..query(studies) };
    let graph = Graph::parse(graph).unwrap();
    let identification = identify(Some(&graph), &chained(&["dose age a", "a w b", "b w volume"])).unwrap();
    assert_eq!(
        identification.to_string(),
        "back-door, adjusting for age; volume depends on dose only through a, then b and w"
    );
    assert_eq!(
        identification.assumptions[2],
        "the distribution of b and w given a is the same in studies 1 and 2"
    );
    assert_eq!(
        identification.assumptions[3],
        "the mean of volume given b and w is the same in studies 1 and 3"
    );
    let message =
        identify(Some(&graph), &chained(&["dose age a", "a b", "b volume"])).unwrap_err().to_string();
    assert_eq!(
        message,
        "volume depends on a beyond what studies 2 and 3 share (b): a -> b <- w -> volume stays open; \
         measuring w in both studies would help"
    );
}

#[test]
fn joint_effects_separate_treatments_without_effect() {
    let graph = Graph::parse("c -> p; c -> m; p -> m; q -> m; m -> t; p -> q; r -> p").unwrap();
    let joint_query = CausalQuery {
        treatments: columns("q p r"),
        outcome: "t".into(),
        studies: vec![columns("p q c m"), columns("m t")],
        ..CausalQuery::default()
    };
    let identification = identify(Some(&graph), &joint_query).unwrap();
    assert_eq!(
        (identification.treatments.clone(), identification.without_effect.clone()),
        (columns("q p"), columns("r"))
    );
    assert_eq!(
        identification.to_string(),
        "back-door, adjusting for c; t depends on q and p only through m; r has no effect in addition \
         to q and p"
    );
    let no_effect_query = CausalQuery {
        treatments: columns("t"),
        outcome: "m".into(),
        studies: vec![columns("t"), columns("m")],
        ..joint_query
    };
    let identification = identify(Some(&graph), &no_effect_query).unwrap();
    assert!(identification.is_constant());
    assert_eq!(identification.to_string(), "t does not affect m: its mean is the same whatever is done");
}

#[test]
fn refusals_name_variables_and_helpful_measurements() {
    let front = "statin -> u -> psa -> volume; statin <-> psa";
    let graph = Graph::parse(front).unwrap();
    let identification = identify(Some(&graph), &query(&["statin u psa", "psa volume"])).unwrap();
    assert_eq!(identification.to_string(), "front-door through u; volume depends on statin only through psa");
    let stratified_graph =
        "w -> statin; w -> u; w -> psa; w -> volume; statin -> u -> psa -> volume; statin <-> psa";
    let identification =
        identify(Some(&Graph::parse(stratified_graph).unwrap()), &query(&["statin u w psa", "psa w volume"]))
            .unwrap();
    assert_eq!(
        identification.to_string(),
        "front-door through u, within each value of w; volume depends on statin only through psa and w"
    );
    let (_, text) = refused(front, &query(&["statin psa", "psa volume"]));
    assert_eq!(
        text,
        "the effect of statin on psa is not identified in study 1, neither by back-door (no column could be \
         adjusted for) nor by front-door nor by any other formula, because the hidden common causes statin \
         <-> psa connect statin with psa (a hedge: {statin, psa} and {psa}): statin <-> psa stays open; \
         measuring u in study 1 would help"
    );
    let (refusal, text) =
        refused("statin -> psa -> volume; statin <-> psa", &query(&["statin psa", "psa volume"]));
    assert!(matches!(refusal, IdentificationError::NotIdentified { .. }));
    assert!(
        text.ends_with("measuring the hidden common cause statin <-> psa in study 1 would help"),
        "{text}"
    );
    let (refusal, text) = refused(STATIN, &query(&["statin age psa", "psa volume"]));
    assert_eq!(
        refusal,
        IdentificationError::NotIdentified {
            treatments: columns("statin"),
            outcomes: columns("psa"),
            why: "neither by back-door (adjusting for age) nor by front-door".into(),
            open_paths: vec!["statin <- bmi -> psa".into()],
            would_help: vec![columns("bmi")],
            hedge: Hedge {
                larger: columns("statin psa"),
                smaller: columns("psa"),
                treatments: columns("statin"),
                confounded: vec![("statin".into(), "psa".into())],
            },
            instrument: None,
        }
    );
    assert!(text.contains("statin <- bmi -> psa stays open; measuring bmi in study 1 would help"), "{text}");
    let (_, text) = refused(STATIN, &query(&["statin psa", "psa volume"]));
    assert!(text.ends_with("measuring age and bmi in study 1 would help"), "{text}");
}

#[test]
fn refusals_name_variables_missing_from_several_studies() {
    let (refusal, text) =
        refused("statin -> psa -> volume; psa <- c -> volume", &query(&["statin psa", "psa volume"]));
    assert!(
        matches!(&refusal, IdentificationError::Unmediated { open_path, .. } if open_path == "statin -> psa \
            <- c -> volume")
    );
    assert_eq!(
        text,
        "volume depends on statin beyond what studies 1 and 2 share (psa): statin -> psa <- c -> volume \
         stays open; measuring c in both studies would help"
    );
    let (_, text) =
        refused("statin -> psa -> volume; statin -> volume", &query(&["statin psa", "psa volume"]));
    assert!(
        text.ends_with("statin -> volume stays open; measuring more of the graph's variables does not help"),
        "{text}"
    );

    let (refusal, text) = refused(STATIN, &query(&["statin age bmi psa", "volume"]));
    assert!(matches!(refusal, IdentificationError::NoBridge { study: 0, .. }));
    assert_eq!(
        text,
        "studies 1 and 2 share no column that could carry the effect: study 1 has age, statin, psa and bmi, \
         study 2 has volume"
    );

    let differing = |names: &str| CausalQuery {
        differs: [(1, columns(names))].into(),
        ..query(&["statin age bmi psa", "psa volume"])
    };
    let (refusal, text) = refused(STATIN, &differing("volume"));
    assert!(matches!(refusal, IdentificationError::NotTransportable { from: 1, to: 0, .. }));
    assert_eq!(
        text,
        "study 2's distribution of volume given psa does not hold in study 1, as they differ in volume: \
         [study 2] -> volume stays open"
    );
    assert!(identify(Some(&Graph::parse(STATIN).unwrap()), &differing("psa age")).is_ok());
}

#[test]
fn invalid_queries_are_refused() {
    let (_, text) = refused(STATIN, &query(&["age bmi psa", "psa volume"]));
    assert_eq!(text, "study 1 has no column 'statin', a treatment: there are: age, bmi, psa");
    let (refusal, text) = refused(STATIN, &query(&["statin age bmi psa", "psa Volumes"]));
    assert!(matches!(refusal, IdentificationError::Unmeasured { study: 1, .. }));
    assert_eq!(text, "study 2 has no column 'volume', the outcome: did you mean Volumes?");
    let treatment_as_outcome = CausalQuery { outcome: "statin".into(), ..query(&["statin"]) };
    assert_eq!(
        refused(STATIN, &treatment_as_outcome).1,
        "'statin' cannot be the treatment and the outcome: give two variables"
    );
    let latent = CausalQuery { outcome: "b".into(), treatments: columns("a"), ..query(&["a b"]) };
    let (refusal, text) = refused("dag { a [latent]; a -> b }", &latent);
    assert!(matches!(refusal, IdentificationError::UnfitVariable { .. }));
    assert_eq!(text, "a cannot be a treatment: the graph declares it latent, that is unmeasured");
    // A latent variable is not adjusted for, even if a table has a column for it.
    let latent = CausalQuery { outcome: "b".into(), treatments: columns("a"), ..query(&["a b u"]) };
    let (_, text) = refused("dag { u [latent]; u -> a; u -> b; a -> b }", &latent);
    assert!(text.contains("a <- u -> b stays open"), "{text}");

    let graph = Graph::parse(STATIN).unwrap();
    for (query, expected) in [
        (query(&[]), "the list of studies is empty"),
        (CausalQuery { treatments: vec![], ..query(&["volume"]) }, "the list of treatments is empty"),
        (
            CausalQuery { treatments: columns("statin statin"), ..query(&["volume"]) },
            "the name 'statin' is used twice",
        ),
        (
            CausalQuery { treatments: columns("statn"), ..query(&["volume"]) },
            "no variable 'statn'; did you mean statin?",
        ),
        (
            CausalQuery { differs: [(4, columns("psa"))].into(), ..query(&["statin psa", "psa volume"]) },
            "differs = 5: psa is not allowed: studies are numbered from 1 to 2",
        ),
        (
            CausalQuery { differs: [(0, columns("psa"))].into(), ..query(&["statin volume"]) },
            "there is one study",
        ),
        (
            CausalQuery { differs: [(0, columns("p"))].into(), ..query(&["statin psa", "psa volume"]) },
            "no variable 'p'",
        ),
    ] {
        let text = identify(Some(&graph), &query).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn user_sets_are_checked_against_the_graph() {
    let graph = Graph::parse(&format!("{STATIN}; statin -> side; age -> volume")).unwrap();
    let studies = ["statin age bmi psa side", "psa age volume"];
    let query_with = |strategy| CausalQuery { strategy, ..query(&studies) };
    let identification = identify(Some(&graph), &query_with(Strategy::Adjust(columns("bmi")))).unwrap();
    // Age is shared and affects the volume: it belongs to the set, whether the user lists it or not.
    assert_eq!(
        (identification.adjustment(), identification.source),
        (&columns("age bmi")[..], Provenance::Confirmed)
    );
    for (strategy, expected) in [
        (
            Strategy::Adjust(columns("age")),
            "adjusting for age does not give the effect of statin on psa: statin <- bmi -> psa stays open; \
             age and bmi would do",
        ),
        (Strategy::Adjust(columns("side")), "side cannot be adjusted for: it is an effect of the treatment"),
        (Strategy::Adjust(columns("statin")), "statin cannot be adjusted for: it is a treatment"),
        (Strategy::Adjust(columns("volume")), "study 1 has no column 'volume', adjusted for"),
        (Strategy::Adjust(columns("bmj")), "the graph has no variable 'bmj'; did you mean bmi?"),
        (
            Strategy::FrontDoor(columns("side")),
            "a front door through side does not give the effect of statin on psa: statin -> psa stays open",
        ),
        (
            Strategy::FrontDoor(columns("psa")),
            "psa cannot be a front door: it is the outcome, or a column that the studies share",
        ),
    ] {
        let text = identify(Some(&graph), &query_with(strategy)).unwrap_err().to_string();
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn user_sets_are_assumed_without_a_graph() {
    let studies = ["statin age bmi psa", "psa age volume"];
    let query_with = |strategy| CausalQuery { strategy, ..query(&studies) };
    let identification = identify(None, &query_with(Strategy::Adjust(columns("age bmi")))).unwrap();
    assert_eq!(
        identification.to_string(),
        "back-door, adjusting for age and bmi (given by the user, not derived); volume depends on statin \
         only through psa and age"
    );
    assert_eq!(
        identification.bridges,
        [Bridge { mediators: columns("psa"), passive: columns("age"), unused: vec![] }]
    );
    assert_eq!(
        identification.assumptions,
        [
            "age and bmi are all that confounds statin and psa in study 1",
            "statin does not affect age and bmi",
            "in study 1 every value of statin occurs at every value of age and bmi",
            "volume depends on statin only through psa and age",
            "the mean of volume given psa and age is the same in studies 1 and 2",
        ]
    );
    let identification = identify(None, &query_with(Strategy::Randomized)).unwrap();
    assert_eq!(identification.bridges[0].mediators, ["age", "psa"]);
    let identification = identify(None, &query_with(Strategy::FrontDoor(columns("bmi")))).unwrap();
    assert_eq!(
        identification.to_string(),
        "front-door through bmi (given by the user, not derived); volume depends on statin only through age \
         and psa"
    );
    for (query, expected) in [
        (
            query_with(Strategy::Derive),
            "graph = none is not allowed: without a graph, say which columns to adjust for",
        ),
        (query_with(Strategy::Adjust(columns("psa age"))), "share no column that could carry the effect"),
        (query_with(Strategy::Adjust(columns("weight"))), "study 1 has no column 'weight', adjusted for"),
        (query_with(Strategy::Adjust(columns("statin"))), "statin cannot be adjusted for"),
        (
            CausalQuery { differs: [(1, columns("age"))].into(), ..query_with(Strategy::Randomized) },
            "only a graph can decide",
        ),
    ] {
        let text = identify(None, &query).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}
