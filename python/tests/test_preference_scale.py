"""Bradley and Terry's model, pairs for any classifier, and landmarks, against scikit-learn and each other."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import riesz
from riesz.kernels import RBF
from riesz.preference import PairClassifier

rng = np.random.default_rng(5)
ITEMS = rng.normal(size=(30, 3))
LEFT, RIGHT = (side := rng.integers(30, size=(2, 400)))[:, side[0] != side[1]]
WON = (rng.random(len(LEFT)) < 1 / (1 + np.exp(-2 * (ITEMS[LEFT, 0] - ITEMS[RIGHT, 0])))).astype(float)
PAIRS = np.column_stack([LEFT, RIGHT])
NAMES = [f"item {i}" for i in range(30)]
FRAME = pd.DataFrame(ITEMS, columns=["a", "b", "c"], index=NAMES)


def design(rows):
    return rows[LEFT] - rows[RIGHT]


def logistic(X, ridge):
    return (
        LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, WON).coef_[0]
    )


def test_abilities_are_logistic_regression():
    model = riesz.PreferenceClassifier("bradley_terry", ridge=0.7).fit(ITEMS, PAIRS, outcome=WON)
    expected = logistic(design(np.eye(30)), 0.7)
    np.testing.assert_allclose([model.abilities_[i] for i in range(30)], expected, atol=1e-6)
    named = riesz.PreferenceClassifier("bradley_terry", ridge=0.7).fit(
        FRAME, np.array(NAMES)[PAIRS], outcome=WON
    )
    itemless = riesz.PreferenceClassifier("bradley_terry", ridge=0.7).fit(
        None, np.array(NAMES)[PAIRS], outcome=WON
    )
    for again in (named, itemless, pickle.loads(pickle.dumps(named))):
        np.testing.assert_allclose([again.abilities_[name] for name in NAMES], expected, atol=1e-6)
    mean, sd = named.decision_function(NAMES[:4], NAMES[4:8], return_std=True)
    np.testing.assert_allclose(mean, expected[:4] - expected[4:8], atol=1e-6)
    curve = (p := 1 / (1 + np.exp(-design(np.eye(30)) @ expected))) * (1 - p)
    covariance = np.linalg.inv(
        design(np.eye(30)).T @ (curve[:, None] * design(np.eye(30))) + 0.7 * np.eye(30)
    )
    ahead = np.eye(30)[:4] - np.eye(30)[4:8]
    np.testing.assert_allclose(sd, np.sqrt(np.einsum("ij,jk,ik->i", ahead, covariance, ahead)), rtol=1e-5)
    np.testing.assert_allclose([*named.abilities_std_.values()], np.sqrt(np.diag(covariance)), rtol=1e-5)
    np.testing.assert_allclose(named.predict_proba("item 0", "item 4")[0, 1], 1 / (1 + np.exp(-mean[0])))
    assert named.probability_better("item 3", "item 3") == 0.5 and named.groups_ == {
        "item": ["left_item", "right_item"]
    }
    with pytest.raises(ValueError, match="somebody"):
        named.predict("item 0", "somebody")


def test_random_effects_choose_a_ridge():
    model = riesz.PreferenceClassifier("bradley_terry").fit(FRAME, np.array(NAMES)[PAIRS], outcome=WON)
    # The standard deviation of abilities is about that of the true ones.
    assert 0.1 < model.ridge_ < 1 and model.log_marginal_likelihood_value_ < 0
    strict = riesz.PreferenceClassifier("bradley_terry", ridge=0)
    assert strict.fit(FRAME, np.array(NAMES)[PAIRS], outcome=WON).ridge_ == 0
    with pytest.raises(ValueError, match="1 item never won"):
        strict.fit(None, [("a", "b"), ("b", "a"), ("b", "c")])
    ridged = riesz.PreferenceClassifier("bradley_terry", ridge=1).fit(
        None, [("a", "b"), ("b", "a"), ("b", "c")]
    )
    assert "1 item never won (c)" in ridged.warnings_[0] and model.warnings_ == []
    with pytest.raises(ValueError, match="ridge"):
        riesz.PreferenceClassifier("bradley_terry", ridge="much").fit(ITEMS, PAIRS)


def test_linear_abilities_are_logistic_regression(tmp_path):
    model = riesz.PreferenceClassifier("linear", ridge=2.0).fit(FRAME, np.array(NAMES)[PAIRS], outcome=WON)
    expected = logistic(design(ITEMS / ITEMS.std(axis=0)), 2.0) / ITEMS.std(axis=0)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(ITEMS[:5], ITEMS[5:10]), (ITEMS[:5] - ITEMS[5:10]) @ expected, atol=1e-6
    )
    # Values of features are differences times coefficients.
    explainer = riesz.Explainer(model.expansion_, model.pair_features(FRAME, FRAME), groups=model.groups_)
    explanation = explainer(model.pair_features(ITEMS[:2], ITEMS[2:4]))
    np.testing.assert_allclose(explanation.values, (ITEMS[:2] - ITEMS[2:4]) * expected, atol=1e-6)
    model.expansion_.save(tmp_path / "m.riesz", posterior=True)
    again = riesz.Expansion.load(tmp_path / "m.riesz")
    rows = model.pair_features(ITEMS[:3], ITEMS[3:6])
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(ITEMS[:3], ITEMS[3:6]))


def test_any_classifier_takes_pairs():
    wide = np.hstack([ITEMS[LEFT], ITEMS[RIGHT]])
    both_orders, y = np.vstack([wide, np.roll(wide, 3, axis=1)]), np.concatenate([WON, 1 - WON])
    plain = LogisticRegression(tol=1e-10).fit(both_orders, y)
    model = PairClassifier(LogisticRegression(tol=1e-10)).fit(ITEMS, PAIRS, outcome=WON)
    np.testing.assert_allclose(
        model.predict_proba(ITEMS[:5], ITEMS[5:10])[:, 1],
        plain.predict_proba(np.hstack([ITEMS[:5], ITEMS[5:10]]))[:, 1],
        atol=1e-6,
    )
    trees = PairClassifier(HistGradientBoostingClassifier(random_state=0)).fit(
        FRAME, np.array(NAMES)[PAIRS], outcome=WON
    )
    assert list(trees.estimator_.feature_names_in_[[0, -1]]) == ["left_a", "right_c"]
    forward, back = (
        trees.predict_proba(*sides)[:, 1] for sides in ((FRAME[:9], FRAME[9:18]), (FRAME[9:18], FRAME[:9]))
    )
    np.testing.assert_allclose(forward, 1 - back, atol=1e-15)
    np.testing.assert_allclose(
        trees.decision_function(FRAME[:9], FRAME[9:18]), np.log(forward / back), atol=1e-12
    )
    assert ((trees.predict(FRAME[:9], FRAME[9:18]) == "left") == (forward > 0.5)).all()
    # A tie is half a win for each side.
    tied = PairClassifier(LogisticRegression(tol=1e-10)).fit(ITEMS, [(0, 1), (2, 3)], outcome=[0.5, 1.0])
    twice = [(0, 1), (1, 0), (2, 3)]
    doubled = PairClassifier(LogisticRegression(tol=1e-10)).fit(ITEMS, twice, sample_weight=[0.5, 0.5, 1.0])
    np.testing.assert_allclose(
        tied.predict_proba(ITEMS[:2], ITEMS[2:4]), doubled.predict_proba(ITEMS[:2], ITEMS[2:4]), atol=1e-6
    )
    pipeline = clone(PairClassifier(make_pipeline(StandardScaler(), LogisticRegression())))
    assert pipeline.fit(FRAME.to_numpy(), PAIRS).predict_proba(ITEMS[0], ITEMS[1]).shape == (1, 2)
    with pytest.raises(ValueError, match="the outcome of a duel is left, right or tie"):
        model.fit(ITEMS, PAIRS, outcome=WON + 1)


def test_all_landmarks_equal_the_exact_process():
    options = {"kernel": RBF([1.5, 1.5, 1.5]), "optimizer": None}
    exact = riesz.PreferenceClassifier(**options).fit(ITEMS, PAIRS, outcome=WON)
    model = riesz.PreferenceClassifier(**options, n_landmarks=30, n_samples=400, tol=1e-11).fit(
        ITEMS, PAIRS, outcome=WON
    )
    assert (exact.n_landmarks_, model.n_landmarks_) == (None, 30) and model.unexplained_variance_ratio_ < 1e-6
    left, right = ITEMS[:10], ITEMS[10:20]
    mean, sd = exact.decision_function(left, right, return_std=True)
    landmark_mean, landmark_sd = model.decision_function(left, right, return_std=True)
    np.testing.assert_allclose(landmark_mean, mean, atol=1e-7)
    np.testing.assert_allclose(landmark_sd, sd, rtol=4 / np.sqrt(800))
    np.testing.assert_allclose(model.predict_proba(left, right), exact.predict_proba(left, right), atol=0.02)
    np.testing.assert_allclose(model.expansion_.predict(model.pair_features(left, right)), mean, atol=1e-6)
    assert model.probability_better(left[0], left[0]) == 0.5
    np.testing.assert_array_equal(model.decision_function(right, left), -landmark_mean)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.decision_function(left, right, return_std=True), (landmark_mean, landmark_sd)
    )
    # Values equal those of the exact model.
    values = [
        riesz.Explainer(m.expansion_, m.pair_features(ITEMS[:8], ITEMS[:8]), groups=m.groups_)(
            m.pair_features(left[:2], right[:2])
        ).values
        for m in (exact, model)
    ]
    np.testing.assert_allclose(values[1], values[0], atol=1e-6)


def test_landmarks_know_contexts_home_ability_and_ties():
    rng = np.random.default_rng(3)
    contexts = pd.DataFrame({"ground": np.array(["clay", "grass"])[rng.integers(2, size=len(PAIRS))]})
    contexts["heat"] = rng.integers(3, size=len(PAIRS)).astype(float)
    home = np.array(["left", "right", "none"])[rng.integers(3, size=len(PAIRS))]
    tied = np.where(rng.random(len(PAIRS)) < 0.2, 0.5, WON)
    options = {"kernel": RBF([1.5, 1.5, 1.5]), "optimizer": None, "ability": True, "ties": "model"}
    fit_inputs = {"outcome": tied, "contexts": contexts, "home": home}
    labels = np.array(NAMES)[PAIRS]
    exact = riesz.PreferenceClassifier(**options, n_landmarks=None).fit(FRAME, labels, **fit_inputs)
    model = riesz.PreferenceClassifier(
        **options, n_landmarks="all", n_samples=400, tol=1e-11, random_state=0
    ).fit(FRAME, labels, **fit_inputs)
    assert (exact.n_landmarks_, model.n_context_landmarks_) == (None, 6)
    assert max(model.unexplained_variance_ratio_, model.unexplained_context_variance_ratio_) < 1e-6
    assert model.home_variance_ == exact.home_variance_ > 0 and model.margin_ == exact.margin_ > 0
    left, right = FRAME[:10], FRAME[10:20].rename(index={NAMES[12]: "somebody new"})
    query = {"contexts": contexts[:10], "home": home[:10]}
    mean, sd = exact.decision_function(left, right, return_std=True, **query)
    landmark_mean, landmark_sd = model.decision_function(left, right, return_std="exact", **query)
    np.testing.assert_allclose(landmark_mean, mean, atol=1e-6)
    np.testing.assert_allclose(landmark_sd, sd, atol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(left, right, return_std=True, **query)[1], sd, rtol=4 / np.sqrt(800)
    )
    np.testing.assert_allclose(
        model.predict_proba(left, right, **query), exact.predict_proba(left, right, **query), atol=0.02
    )
    assert set(model.predict(left, right, **query)) <= {"left", "right", "tie"}
    np.testing.assert_array_equal(
        model.pair_features(left, right, **query), exact.pair_features(left, right, **query)
    )
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.decision_function(left, right, return_std="exact", **query), (landmark_mean, landmark_sd)
    )
    np.testing.assert_allclose(exact.decision_function(left, right, return_std="exact", **query), (mean, sd))
    # Values of the joint game and of the game of contexts.
    for game in ("independent", "contexts"):
        background = None if game == "contexts" else FRAME[:6]
        game_options = {"game": game, "absent_contexts": contexts[:4]} | {
            name: rows[:2] for name, rows in query.items()
        }
        values = [m.explain(left[:2], right[:2], background, **game_options).values for m in (exact, model)]
        np.testing.assert_allclose(values[1], values[0], atol=1e-5)
    with pytest.raises(ValueError, match="return_std = 'draws'"):
        model.decision_function(left, right, return_std="draws", **query)
    with pytest.raises(ValueError, match="do not support inference"):
        riesz.PreferenceClassifier(inference="bound", n_landmarks=5).fit(ITEMS, PAIRS, outcome=WON)


BAG_MEMBERS = [(f"bag {i % 8}", name, 1.0 + i % 3) for i, name in enumerate(NAMES)]
BAG_PAIRS = (LEFT % 8 != RIGHT % 8).nonzero()[0]
BAG_DUELS = np.array([f"bag {b}" for b in range(8)])[PAIRS[BAG_PAIRS] % 8]


@pytest.mark.parametrize("has_contexts", [False, True])
def test_landmarks_of_bags_equal_the_exact_process(has_contexts, tmp_path):
    contexts = pd.DataFrame({"heat": np.random.default_rng(3).integers(3, size=len(BAG_PAIRS)).astype(float)})
    fit_inputs = {"outcome": WON[BAG_PAIRS], "members": BAG_MEMBERS}
    query = {"contexts": contexts[:3]} if has_contexts else {}
    options = {"kernel": RBF([1.5, 1.5, 1.5]), "optimizer": None, "random_state": 0}
    exact, model = (
        riesz.PreferenceClassifier(**options, n_landmarks=landmarks, n_samples=400, tol=1e-11).fit(
            FRAME, BAG_DUELS, **fit_inputs, contexts=contexts if has_contexts else None
        )
        for landmarks in (None, "all")
    )
    assert (exact.n_landmarks_, model.n_landmarks_) == (None, 30) and model.unexplained_variance_ratio_ < 1e-6
    duels = [("bag 0", "bag 5"), ("bag 5", "bag 0"), ("bag 2", "bag 3")]
    mean, sd, probabilities = exact.predict_bags(FRAME, BAG_MEMBERS, duels, **query)
    bag_mean, bag_sd, bag_probabilities = model.predict_bags(FRAME, BAG_MEMBERS, duels, **query)
    np.testing.assert_allclose(bag_mean, mean, rtol=1e-6)
    np.testing.assert_allclose(bag_sd, sd, rtol=4 / np.sqrt(800))
    np.testing.assert_allclose(bag_probabilities, probabilities, atol=0.02)
    # The model is also one of items.
    items, item_query = (FRAME[:3], FRAME[10:13]), query
    np.testing.assert_allclose(
        model.decision_function(*items, return_std="exact", **item_query),
        exact.decision_function(*items, return_std=True, **item_query),
        rtol=1e-5,
    )
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.predict_bags(FRAME, BAG_MEMBERS, duels, **query)[:2], (bag_mean, bag_sd)
    )
    np.testing.assert_allclose(
        again.decision_function(*items, return_std="exact", **item_query)[1],
        model.decision_function(*items, return_std="exact", **item_query)[1],
        rtol=1e-10,
    )
    # Values of the expansion over pairs of landmarks, before and after it is saved.
    model.save(tmp_path / "model.riesz")
    loaded = riesz.PreferenceClassifier.load(tmp_path / "model.riesz")
    expected = exact.explain_bags(FRAME, BAG_MEMBERS, duels, FRAME[:6], **query)
    for landmark_model in (model, loaded):
        why = landmark_model.explain_bags(FRAME, BAG_MEMBERS, duels, FRAME[:6], **query)
        np.testing.assert_allclose(why.values, expected.values, atol=1e-5)
        np.testing.assert_allclose(why.predictions, mean, atol=1e-6)
    with pytest.raises(ValueError, match="no posterior"):
        loaded.predict_bags(FRAME, BAG_MEMBERS, duels, **query)


def test_landmarks_predict_bags_of_new_items():
    options = {"kernel": RBF([1.5, 1.5, 1.5]), "optimizer": None, "ability": True, "random_state": 0}
    exact, model = (
        riesz.PreferenceClassifier(**options, n_landmarks=landmarks, n_samples=400, tol=1e-11).fit(
            FRAME, np.array(NAMES)[PAIRS], outcome=WON
        )
        for landmarks in (None, "all")
    )
    duels = [("bag 0", "bag 5"), ("bag 2", "bag 3")]
    new = FRAME.rename(index={name: f"new {name}" for name in NAMES[:12]})
    new_members = [(bag, name, share) for (bag, _, share), name in zip(BAG_MEMBERS, new.index)]
    for items, members in ((FRAME, BAG_MEMBERS), (new, new_members)):
        mean, sd, probabilities = exact.predict_bags(items, members, duels)
        bag_mean, bag_sd, bag_probabilities = model.predict_bags(items, members, duels)
        np.testing.assert_allclose(bag_mean, mean, rtol=1e-6)
        np.testing.assert_allclose(bag_sd, sd, rtol=4 / np.sqrt(800))
        np.testing.assert_allclose(bag_probabilities, probabilities, atol=0.02)


def test_many_duels_of_bags_go_through_landmarks():
    members = [(f"bag {b}", name) for b in range(70) for name in (NAMES[b % 30], NAMES[(7 * b + 3) % 30])]
    duels = [(f"bag {a}", f"bag {b}") for a in range(70) for b in range(a)]
    options = {"kernel": RBF([1.5, 1.5, 1.5]), "optimizer": None, "n_samples": 0, "random_state": 0}
    model = riesz.PreferenceClassifier("utility", **options).fit(FRAME, duels, members=members)
    assert model.n_landmarks_ == 30 and len(duels) > 2000
    with pytest.raises(ValueError, match="n_samples = 0"):
        model.predict_bags(FRAME, members, duels[:1])
    with pytest.raises(ValueError, match="do not support inference"):
        riesz.PreferenceClassifier(inference="bound", n_landmarks=5).fit(FRAME, duels, members=members)
    with pytest.raises(ValueError, match="leave home out"):
        riesz.PreferenceClassifier(n_landmarks=5).fit(
            FRAME, duels, members=members, home=["left"] * len(duels)
        )
    with pytest.raises(ValueError, match="no ability of their own"):
        riesz.PreferenceClassifier(n_landmarks=5, ability=True).fit(FRAME, duels, members=members)
    with pytest.raises(ValueError, match="models of abilities have no bags"):
        riesz.PreferenceClassifier("bradley_terry").fit(
            FRAME, np.array(NAMES)[PAIRS], outcome=WON
        ).predict_bags(FRAME, members, duels[:1])


def test_many_duels_go_through_landmarks():
    items = np.random.default_rng(0).normal(size=(150, 2))
    pairs = np.array([(i, j) for i in range(150) for j in range(i)])[::4]
    won = (items[pairs[:, 0], 0] > items[pairs[:, 1], 0]).astype(float)
    model = riesz.PreferenceClassifier("utility", n_tuning_pairs=100, n_samples=8, random_state=0).fit(
        items, pairs, outcome=won
    )
    assert 10 < model.n_landmarks_ <= 150 and model.log_marginal_likelihood_value_ < 0
    ahead = model.decision_function(items[pairs[:, 0]], items[pairs[:, 1]])
    assert ((ahead > 0) == (won == 1)).mean() > 0.97
    categories = pd.DataFrame({"kind": np.array(["rock", "paper", "scissors"])[np.arange(30) % 3]})
    options = {"kernel": riesz.kernels.Categorical(), "optimizer": None, "n_landmarks": 5, "n_samples": 0}
    kinds = riesz.PreferenceClassifier(**options).fit(categories, PAIRS, outcome=WON)
    assert kinds.expansion_ is None and kinds.n_landmarks_ == 3
    assert kinds.decision_function(categories[:1], categories[3:4]) == 0
    with pytest.raises(ValueError, match="draws"):
        kinds.probability_better(categories[:1], categories[1:2])
    with pytest.raises(ValueError, match="vanish"):
        kinds.explain(categories[:1], categories[1:2])
    with pytest.raises(ValueError, match="n_landmarks = 0"):
        riesz.PreferenceClassifier(n_landmarks=0).fit(items, pairs, outcome=won)
