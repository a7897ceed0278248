"""Means of explained duels: of an item against many, of bags, and of a set of duels; and the names of
duels."""

import pickle

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.kernels import RBF

rng = np.random.default_rng(7)
ITEMS = pd.DataFrame(
    rng.normal(size=(12, 2)), columns=["power", "weight"], index=[f"item {i}" for i in range(12)]
)
LEFT, RIGHT = (index_pairs := rng.integers(12, size=(2, 90)))[:, index_pairs[0] != index_pairs[1]]
WON = rng.random(len(LEFT)) < 1 / (
    1 + np.exp(2 * (ITEMS.power.to_numpy()[RIGHT] - ITEMS.power.to_numpy()[LEFT]))
)
NAMES = ITEMS.index.to_numpy()
DUELS = np.column_stack([NAMES[LEFT], NAMES[RIGHT]])
FIRST_ITEM, OTHER_ITEMS = ITEMS.iloc[[0]], ITEMS.iloc[1:]
MEMBERS = [
    ("A", "item 0", 1.0),
    ("A", "item 1", 3.0),
    ("B", "item 4", 1.0),
    ("B", "item 5", 1.0),
    ("B", "item 6", 2.0),
]
ZERO = pd.DataFrame(np.zeros((1, 2)), columns=ITEMS.columns)


def fitted(**options):
    return riesz.PreferenceClassifier(kernel=RBF([1.5, 1.5]), optimizer=None, **options).fit(
        ITEMS, DUELS, outcome=WON
    )


MODEL = fitted()


def kept(items, columns):
    """Items with their other columns set to 0, as in the baseline."""
    masked = items.copy()
    masked[[name for name in items.columns if name not in columns]] = 0.0
    return masked


def shapley(value):
    """Shapley values of two features, from the values of all coalitions."""
    empty, power, weight, full = (
        value(columns) for columns in ([], ["power"], ["weight"], ["power", "weight"])
    )
    return [(power - empty + full - weight) / 2, (weight - empty + full - power) / 2]


def test_an_item_against_many_is_the_mean_over_them():
    why = MODEL.explain(ITEMS.iloc[:2], OTHER_ITEMS.iloc[1:], ZERO, game="baseline", average="opponents")
    for row in range(2):
        item = ITEMS.iloc[[row]]
        mean = lambda columns: MODEL.decision_function(
            kept(item, columns), kept(OTHER_ITEMS.iloc[1:], columns)
        ).mean()
        np.testing.assert_allclose(why.values[row], shapley(mean), atol=1e-12)
    np.testing.assert_allclose(
        why.data[0], (FIRST_ITEM.to_numpy() - OTHER_ITEMS.iloc[1:].to_numpy()).mean(axis=0), atol=1e-12
    )
    assert why.certificate.holds and why.certificate.bound < 1e-10
    assert [(duel.left, duel.right, duel.probability) for duel in why.duels] == [
        ("item 0", "10 items", None),
        ("item 1", "10 items", None),
    ]
    assert "seen" not in why.provenance.run and "the item on the left" in why.provenance.run["mean"]
    # In every game, and without names.
    for game in ("independent", "paired"):
        separate = MODEL.explain(FIRST_ITEM, OTHER_ITEMS, game=game)
        mean = MODEL.explain(FIRST_ITEM.to_numpy(), OTHER_ITEMS.to_numpy(), game=game, average="opponents")
        np.testing.assert_allclose(mean.values[0], separate.values.mean(axis=0), atol=1e-13)
    # A single item may be a series.
    single = MODEL.explain(ITEMS.iloc[0], OTHER_ITEMS, average="opponents")
    np.testing.assert_allclose(
        single.values, MODEL.explain(FIRST_ITEM, OTHER_ITEMS, average="opponents").values, atol=0
    )
    assert single.duels[0].left == "item 0"


def test_means_of_explanations():
    why = MODEL.explain(FIRST_ITEM, OTHER_ITEMS)
    mean = why.average()
    np.testing.assert_allclose(mean.values, why.values.mean(axis=0), atol=1e-14)
    assert mean.values.shape == (2,) and mean.predictions == pytest.approx(why.predictions.mean(), abs=1e-14)
    weights = np.vstack([np.arange(11.0), np.eye(11)[3]])
    several = why.average(weights)
    np.testing.assert_allclose(
        several.values, weights / weights.sum(axis=1, keepdims=True) @ why.values, atol=1e-14
    )
    assert several.duels[1] == why.duels[3] and several.certificate.holds
    # The mean over both orders is 0.
    mirrored = MODEL.explain(OTHER_ITEMS, FIRST_ITEM)
    order_mean = np.vstack([why.values, mirrored.values]).mean(axis=0)
    np.testing.assert_allclose(order_mean, 0, atol=1e-15)
    # A mean only has a covariance if it is known; the mean of one explanation keeps it.
    with_covariance = MODEL.explain(FIRST_ITEM, OTHER_ITEMS, game="paired", covariance=True)
    assert with_covariance.std is not None and with_covariance.average().std is None
    np.testing.assert_array_equal(
        with_covariance.average(np.eye(11)[[2]]).covariance, with_covariance.covariance[[2]]
    )
    for refused in (
        lambda: MODEL.explain(FIRST_ITEM, OTHER_ITEMS, game="paired", covariance=True, average="opponents"),
        lambda: MODEL.explain_bags(ITEMS, MEMBERS, [("A", "B")], game="paired", covariance=True),
    ):
        with pytest.raises(ValueError, match="between explained rows is not kept"):
            refused()


def test_standard_errors_of_averages_are_means():
    wide = pd.DataFrame(rng.normal(size=(101, 14)), columns=[f"x{j}" for j in range(14)])
    duels = rng.permutation(101)[:60].reshape(30, 2)
    model = riesz.PreferenceClassifier(kernel=RBF([5.0] * 14), optimizer=None).fit(wide, duels)
    why = model.explain(wide.iloc[:2], wide.iloc[2:4], shifts=3)
    assert why.exactness == "estimated" and "of 10201 pairs" in why.provenance.absent
    np.testing.assert_allclose(why.average().std_error, why.std_error.mean(axis=0), rtol=1e-12)


def test_bags_are_means_of_their_members():
    why = MODEL.explain_bags(ITEMS, MEMBERS, [("A", "B")], ZERO, game="baseline")
    value = lambda columns: MODEL.predict_bags(kept(ITEMS, columns), MEMBERS, [("A", "B")])[0][0]
    np.testing.assert_allclose(why.values[0], shapley(value), atol=1e-12)
    log_odds, sd, probabilities = MODEL.predict_bags(ITEMS, MEMBERS, [("A", "B")])
    duel = why.duels[0]
    assert (duel.left, duel.right) == ("A", "B") and duel.probability == pytest.approx(
        probabilities[0, 1], abs=1e-12
    )
    assert why.predictions[0] == pytest.approx(log_odds[0], abs=1e-12)
    low, high = 1 / (1 + np.exp(-(log_odds[0] + 1.959963984540054 * np.array([-1, 1]) * sd[0])))
    assert duel.interval == pytest.approx((low, high), abs=1e-9)
    assert why.certificate.holds and "members" in why.provenance.run["bags"]
    mirrored = MODEL.explain_bags(ITEMS, MEMBERS, [("B", "A")], ZERO, game="baseline")
    np.testing.assert_allclose(mirrored.values, -why.values, atol=1e-14)


def test_bags_know_categories_and_contexts():
    items = ITEMS.assign(kind=np.where(ITEMS.weight > 0, "x", "y"))
    ground = np.where(np.arange(len(DUELS)) % 2, "clay", "grass")
    model = riesz.PreferenceClassifier("utility", optimizer=None).fit(items, DUELS, outcome=WON, users=ground)
    why = model.explain_bags(items, MEMBERS, [("A", "B"), ("B", "A")], users=["clay", "grass"])
    predictions = model.predict_bags(items, MEMBERS, [("A", "B"), ("B", "A")], users=["clay", "grass"])[0]
    np.testing.assert_allclose(why.predictions, predictions, atol=1e-12)
    assert why.certificate.holds and why.feature_names[:3] == ["power", "weight", "kind"]


def test_duels_have_names_and_probabilities(tmp_path):
    why = MODEL.explain(FIRST_ITEM, OTHER_ITEMS.iloc[:3])
    assert [duel.left for duel in why.duels] == ["item 0"] * 3 and why.duels[1].right == "item 2"
    np.testing.assert_allclose(
        [duel.probability for duel in why.duels],
        MODEL.predict_proba(FIRST_ITEM, OTHER_ITEMS.iloc[:3])[:, 1],
        atol=1e-12,
    )
    np.testing.assert_allclose(
        [duel.probability_better for duel in why.duels],
        MODEL.probability_better(FIRST_ITEM, OTHER_ITEMS.iloc[:3]),
        atol=1e-9,
    )
    assert (
        why.provenance.game == "Pref-SHAP, independent"
        and "12 items, drawn independently" in why.provenance.absent
    )
    assert why[1].duels[0].right == "item 2"
    why.save(tmp_path / "why.json")
    for other in (riesz.Explanation.load(tmp_path / "why.json"), pickle.loads(pickle.dumps(why))):
        assert other.duels == why.duels
    why.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "3 duels" in page and "item 0 against item 1" in page and "Table of duels" in page
    # Rows that a general explainer receives are not duels.
    plain = riesz.Explainer(MODEL.expansion_, MODEL.pair_features(FIRST_ITEM, OTHER_ITEMS))(
        MODEL.pair_features(FIRST_ITEM, OTHER_ITEMS)
    )
    assert plain.duels is None and plain.average().duels is None


@pytest.mark.parametrize(
    "game, absent",
    [
        ("paired", "those of the same random one of 12 items"),
        ("baseline", "those of one given item"),
        ("functional", "kernel factors of absent features are 1"),
        ("observational", "given its present ones, learnt from 12 items"),
        ("matches", "items in a random one of 3 duels"),
    ],
)
def test_provenance_names_the_game(game, absent):
    background = {"baseline": ZERO, "matches": MODEL.pair_features(FIRST_ITEM, OTHER_ITEMS.iloc[:3])}.get(
        game
    )
    why = MODEL.explain(FIRST_ITEM, OTHER_ITEMS, background, game=game)
    assert why.provenance.game == f"Pref-SHAP, {game}" and absent in why.provenance.absent
    assert "left item wins" in why.provenance.run["explained"] and f"Pref-SHAP, {game}" in repr(why)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda why: why.average([1.0, 2.0]), "weights have the shape"),
        (lambda why: why.average(np.zeros(11)), "weight of mean 1"),
        (lambda why: why.average(-np.ones(11)), "weight of mean 1"),
        (lambda why: why[0].average(), "single row"),
        (
            lambda why: MODEL.explain(FIRST_ITEM, OTHER_ITEMS, average="all"),
            "None, 'opponents' or 'contexts'",
        ),
        (lambda why: MODEL.explain_bags(ITEMS, MEMBERS, [("A", "C")]), "bags that members do not"),
    ],
)
def test_invalid_input_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong(MODEL.explain(FIRST_ITEM, OTHER_ITEMS))
