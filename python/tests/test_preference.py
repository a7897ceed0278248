"""Models of duels: invariances, input by data frames, and refusals. The formulas are tested in Rust."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import riesz
from riesz.kernels import RBF

rng = np.random.default_rng(3)
ITEMS = rng.normal(size=(25, 3))
LEFT, RIGHT = (side := rng.integers(25, size=(2, 150)))[:, side[0] != side[1]]
WON = (rng.random(len(LEFT)) < 1 / (1 + np.exp(-2 * (ITEMS[LEFT, 0] - ITEMS[RIGHT, 0])))).astype(float)
PAIRS = np.column_stack([LEFT, RIGHT])


def fitted(items=ITEMS, duels=PAIRS, outcome=WON, **options):
    settings = {"kernel": RBF([2.0, 2.0, 2.0]), "optimizer": None, **options}
    return riesz.PreferenceClassifier(**settings).fit(items, duels, outcome=outcome)


def test_sides_and_spellings_change_nothing():
    model = fitted()
    left, right = ITEMS[:5], ITEMS[5:10]
    mean, sd = model.decision_function(left, right, return_std=True)
    probabilities = model.predict_proba(left, right)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_proba(right, left), probabilities[:, ::-1], rtol=1e-9)
    other, other_sd = model.decision_function(right, left, return_std=True)
    np.testing.assert_allclose([-other, other_sd], [mean, sd], rtol=1e-9)
    np.testing.assert_allclose(
        model.probability_better(left, right) + model.probability_better(right, left), 1.0
    )
    assert model.probability_better(left[:1], left[:1]) == 0.5
    # Equal items have no uncertainty, in spite of rounding in four numbers that cancel.
    for value in model.decision_function(left, left, return_std=True):
        np.testing.assert_array_equal(value, 0.0)
    # Averages over the posterior are closer to one half than the logistic function of the mean.
    assert (np.abs(probabilities[:, 1] - 0.5) < np.abs(1 / (1 + np.exp(-mean)) - 0.5)).all()
    winner_first = np.where(WON[:, None] == 1, PAIRS, PAIRS[:, ::-1])
    names = [f"item {i}" for i in range(25)]
    frame = pd.DataFrame(ITEMS, columns=["a", "b", "c"], index=names)
    for again in (
        fitted(duels=winner_first, outcome=None),
        fitted(items=frame, duels=np.array(names)[PAIRS]),
        fitted(items=frame, duels=pd.DataFrame(np.array(names)[PAIRS], columns=["left", "right"])),
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(ITEMS, PAIRS, outcome=WON),
    ):
        right_rows = (
            frame.iloc[5:10] if again.n_features_in_ == 3 and again._names == ["a", "b", "c"] else right
        )
        np.testing.assert_allclose(
            again.decision_function(frame.iloc[:5] if right_rows is not right else left, right_rows),
            mean,
            rtol=1e-9,
        )
    assert (model.predict(left, right) == np.where(mean > 0, "left", "right")).all()
    # A single row is compared with many.
    np.testing.assert_array_equal(model.decision_function(left[0], right)[:1], mean[:1])


def test_tuning_predicts_winners():
    model = riesz.PreferenceClassifier(n_hyperparameter_samples=0).fit(ITEMS, PAIRS, outcome=WON)
    truth = ITEMS[LEFT, 0] > ITEMS[RIGHT, 0]
    assert ((model.predict(ITEMS[LEFT], ITEMS[RIGHT]) == "left") == truth).mean() > 0.85
    assert model.log_marginal_likelihood_value_ > fitted().log_marginal_likelihood_value_
    assert (
        len(model.kernel_.length_scale) == 3 and model.kernel_.length_scale[0] < model.kernel_.length_scale[1]
    )
    utility_model = riesz.PreferenceClassifier("utility", n_hyperparameter_samples=0)
    utility_model.fit(ITEMS, PAIRS, outcome=WON)
    assert utility_model.generalized_variance_ == 0.0 and utility_model.utility_variance_ > 0.0


def test_categories_are_read():
    kinds = np.array(["rock", "paper", "scissors"])
    items = pd.DataFrame({"kind": kinds[np.arange(24) % 3]})
    left, right = np.triu_indices(24, 1)
    beats = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    pairs = [(a, b) for a, b in zip(left, right) if items.kind[a] != items.kind[b]]
    duels = np.array([(a, b) if (items.kind[a], items.kind[b]) in beats else (b, a) for a, b in pairs])
    settings = {"ability": False, "n_hyperparameter_samples": 0}
    model = riesz.PreferenceClassifier(kernel=riesz.kernels.Categorical(), **settings).fit(items, duels)
    three = pd.DataFrame({"kind": ["rock", "scissors", "paper"]})
    after = pd.DataFrame({"kind": ["scissors", "paper", "rock"]})
    assert (model.predict_proba(three, after)[:, 1] > 0.9).all()
    ranking = riesz.PreferenceClassifier("utility", kernel=riesz.kernels.Categorical(), **settings)
    ranking.fit(items, duels)
    assert model.log_marginal_likelihood_value_ > ranking.log_marginal_likelihood_value_ + 50


def test_duels_are_explained():
    model = fitted()
    background = model.pair_features(ITEMS, ITEMS)  # In pairs of equal items absent features cancel.
    explainer = riesz.Explainer(model.expansion_, background, groups=model.groups_)
    explanation = explainer(model.pair_features(ITEMS[:4], ITEMS[4:8]))
    assert explanation.feature_names == ["x0", "x1", "x2"] and explanation.certificate.holds
    np.testing.assert_allclose(
        explanation.values.sum(axis=1), model.decision_function(ITEMS[:4], ITEMS[4:8]), rtol=1e-9
    )
    mirrored = explainer(model.pair_features(ITEMS[4:8], ITEMS[:4]))
    np.testing.assert_allclose(mirrored.values, -explanation.values, atol=1e-12)


def test_files_keep_the_posterior(tmp_path):
    model = fitted()
    model.expansion_.save(tmp_path / "m.riesz", posterior=True)
    rows = model.pair_features(ITEMS[:3], ITEMS[3:6])
    again = riesz.Expansion.load(tmp_path / "m.riesz")
    np.testing.assert_array_equal(again.predict_proba(rows), model.expansion_.predict_proba(rows))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"duels": [[0, 25]]}, "item 25, but items have 25 rows"),
        ({"duels": [[0, 1, 2]]}, "each is a pair of items"),
        ({"duels": [[1, 1]]}, "meets itself"),
        ({"outcome": [1.0]}, "one entry for each of the"),
        ({"outcome": WON + 1}, "is '2.0': the outcome of a duel is left, right or tie"),
        ({"model": "best"}, "'nested', 'utility', 'generalised'"),
        ({"items": np.where(ITEMS > 2, np.nan, ITEMS)}, "items"),
        ({"items": pd.DataFrame(ITEMS, index=[f"i{i}" for i in range(25)])}, "not in the index of items"),
    ],
)
def test_invalid_input_is_refused(options, words):
    if "duels" in options:
        options = {"outcome": None, **options}
    with pytest.raises((ValueError, TypeError), match=words):
        fitted(**options)


def test_pair_groups_do_not_split_pairs():
    from sklearn.model_selection import GroupKFold

    from riesz.preference import pair_groups

    groups = pair_groups(PAIRS)
    for train, test in GroupKFold(5).split(PAIRS, groups=groups):
        pairs = [{frozenset(pair) for pair in PAIRS[part].tolist()} for part in (train, test)]
        assert not pairs[0] & pairs[1]
    assert (pair_groups(PAIRS[:, ::-1]) == groups).all()


GAMES = {
    "independent": ITEMS,
    "paired": ITEMS,
    "baseline": ITEMS[3],
    "observational": ITEMS,
    "functional": None,
}


@pytest.mark.parametrize("game", GAMES)
def test_every_game_changes_its_sign_with_the_sides(game):
    model, left, right = fitted(), ITEMS[[0, 1, 2, 4]], ITEMS[[5, 6, 7, 4]]
    options = {"game": game, "background": GAMES[game]} | (
        {"conditional_ridge": 0.01} if game == "observational" else {}
    )
    why, other = model.explain(left, right, **options), model.explain(right, left, **options)
    assert why.feature_names == ["x0", "x1", "x2"] and why.exactness == "exact"
    np.testing.assert_array_equal(why.values, -other.values)
    np.testing.assert_array_equal(why.values[3], 0.0)
    np.testing.assert_array_equal(why.base_values, 0.0)
    np.testing.assert_allclose(why.values.sum(axis=1), model.decision_function(left, right), atol=1e-9)
    np.testing.assert_allclose(why.data, left - right)
    if game not in ("functional", "observational"):
        # By the general explainer on rows with both items.
        items = np.atleast_2d(GAMES[game])
        pairs = np.array(
            [(a, b) for a in range(len(items)) for b in range(len(items)) if game == "independent" or a == b]
        )
        background = model.pair_features(items[pairs[:, 0]], items[pairs[:, 1]])
        general = riesz.Explainer(model.expansion_, background, groups=model.groups_)(
            model.pair_features(left, right)
        )
        np.testing.assert_allclose(why.values, general.values, atol=1e-10)


def test_matches_groups_and_other_values():
    model, left, right = fitted(), ITEMS[:3], ITEMS[5:8]
    duel_rows = model.pair_features(ITEMS[LEFT[:20]], ITEMS[RIGHT[:20]])
    matches = model.explain(left, right, duel_rows, game="matches")
    both_orders = np.vstack([duel_rows, np.hstack([duel_rows[:, 3:], duel_rows[:, :3]])])
    general = riesz.Explainer(model.expansion_, both_orders, groups=model.groups_)(
        model.pair_features(left, right)
    )
    np.testing.assert_allclose(matches.values, general.values, atol=1e-10)
    grouped = model.explain(left, right, groups={"others": ["x1", "x2"]})
    assert grouped.feature_names == ["x0", "others"]
    np.testing.assert_allclose(grouped.values.sum(axis=1), matches.values.sum(axis=1), atol=1e-10)
    pairs = model.explain(left, right, index="k-sii")
    assert pairs.feature_names[3:] == ["x0 × x1", "x0 × x2", "x1 × x2"]
    weighted = model.explain(left, right, ITEMS[:2], background_weights=[2.0, 1.0])
    np.testing.assert_allclose(
        weighted.values, model.explain(left, right, ITEMS[[0, 0, 1]]).values, atol=1e-12
    )


@pytest.mark.parametrize(
    "options", [{}, {"game": "paired"}, {"game": "observational", "conditional_ridge": 0.05}]
)
def test_values_have_standard_deviations(options):
    model, left, right = fitted(), ITEMS[:2], ITEMS[5:7]
    why = model.explain(left, right, covariance=True, **options)
    _, sd = model.decision_function(left, right, return_std=True)
    np.testing.assert_allclose(np.sqrt(why.covariance.sum(axis=(1, 2))), sd, rtol=1e-6)
    assert (why.std > 0).all()


def test_categories_are_explained():
    frame = pd.DataFrame(
        {"kind": np.array(["fire", "water", "grass"])[np.arange(25) % 3], "size": ITEMS[:, 0]}
    )
    model = riesz.PreferenceClassifier(optimizer=None).fit(frame, PAIRS, outcome=WON)
    why = model.explain(frame.iloc[:2], frame.iloc[1:3])
    assert why.data[0, 0] == "fire / water" and why.column_names == ["kind", "size, left − right"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"game": "fair"}, "it is one of 'independent'"),
        ({"game": "functional", "background": ITEMS}, "takes no background"),
        ({"game": "matches"}, "takes a background of duels, as wide rows"),
        ({"background": ITEMS[:, :2]}, "the background"),
        ({"background_weights": [1.0]}, "background_weights have the shape"),
        ({"groups": {"g": ["left_x0"]}}, "names a column 'left_x0'"),
        ({"shifts": 1}, "shifts = 1"),
        ({"n_orders": 15}, "n_orders = 15"),
        ({"n_orders": 20, "index": "banzhaf"}, "random orders estimate only Shapley values"),
        ({"index": "shapely"}, "shapely"),
    ],
)
def test_invalid_explanations_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        fitted().explain(ITEMS[:1], ITEMS[1:2], **options)


def test_random_orders_estimate_values_with_standard_errors():
    model = fitted()
    exact = model.explain(ITEMS[:3], ITEMS[3:6], game="paired")
    estimated = model.explain(ITEMS[:3], ITEMS[3:6], game="paired", n_orders=200)
    assert estimated.std_error is not None and (estimated.std_error > 0).all()
    assert (abs(estimated.values - exact.values) < 4 * estimated.std_error).all()
    np.testing.assert_allclose(estimated.values.sum(axis=1), exact.values.sum(axis=1), atol=1e-12)
    other = model.explain(ITEMS[3:6], ITEMS[:3], game="paired", n_orders=200)
    assert (other.values == -estimated.values).all()
