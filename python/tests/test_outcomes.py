"""Outcomes of duels: all spellings in tables are read alike, and ambiguous ones are refused. The words are
tested in Rust."""

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.preference import PairClassifier, compare_models, rankability, spec_r

LEFT = ["ann", "bob", "cid", "bob", "cid", "ann", "cid", "dee", "ann"]
RIGHT = ["bob", "cid", "ann", "ann", "bob", "cid", "ann", "ann", "dee"]
ENDS = [1.0, 1.0, 0.0, 1.0, 0.5, 1.0, 1.0, 0.0, 0.5]
DUELS = pd.DataFrame({"left": LEFT, "right": RIGHT})
ITEMS = pd.DataFrame({"x": [3.0, 2.0, 1.0, 0.5]}, index=["ann", "bob", "cid", "dee"])


def words(left, right, tie):
    return [{1.0: left, 0.0: right, 0.5: tie}[end] for end in ENDS]


def abilities(**options):
    return riesz.PreferenceClassifier("bradley_terry", ridge=0.5).fit(None, DUELS, **options).abilities_


@pytest.mark.parametrize(
    "labels",
    [
        ("left", "right", "tie"),
        ("model_a", "model_b", "tie (bothbad)"),
        ("win", "loss", "draw"),
        ("H", "A", "D"),
        ("W", "L", "D"),
        ("1-0", "0-1", "½-½"),
        ("1", "-1", "0"),
        ("1", "2", "X"),
        (1, 0, 0.5),
        (True, False, 0.5),
    ],
)
def test_worded_outcomes_equal_numbers(labels):
    expected = abilities(outcome=ENDS)
    for outcome in (words(*labels), np.array(words(*labels), dtype=object), pd.Series(words(*labels))):
        assert abilities(outcome=outcome) == expected


def test_scores_wins_and_names_are_outcomes():
    expected = abilities(outcome=ENDS)
    winner = [{1.0: left, 0.0: right, 0.5: "draw"}[end] for left, right, end in zip(LEFT, RIGHT, ENDS)]
    assert abilities(outcome=winner) == expected
    scores = np.array([[2 + end, 3 - end] for end in ENDS])
    assert abilities(scores=scores) == expected
    assert abilities(scores=pd.DataFrame(scores)) == expected
    wins = np.array([[end == 1, end == 0, end == 0.5] for end in ENDS], dtype=float)
    assert abilities(wins=wins) == expected
    # A row may contain several duels, each with the row's weight.
    once = {"wins": wins[:-2], "sample_weight": np.full(7, 3.0)}
    model = riesz.PreferenceClassifier("bradley_terry", ridge=0.5)
    thrice = model.fit(None, DUELS[:-2], **once).abilities_
    assert model.fit(None, DUELS[:-2], wins=3 * wins[:-2]).abilities_ == pytest.approx(thrice)


def test_every_model_reads_worded_outcomes():
    outcome, duels = words("H", "A", "D"), DUELS.to_numpy()
    for kind in ("utility", "linear"):
        options = {} if kind == "linear" else {"optimizer": None, "kernel": riesz.kernels.RBF([1.0])}
        model = riesz.PreferenceClassifier(kind, **options)
        a, b = (
            model.fit(ITEMS, duels, outcome=outcomes).decision_function(ITEMS[:2], ITEMS[1:3])
            for outcomes in (outcome, ENDS)
        )
        np.testing.assert_array_equal(a, b)
    options = {"kernel": riesz.kernels.RBF([1.0]), "optimizer": None}
    assert compare_models(ITEMS, duels, outcome=outcome, **options) == compare_models(
        ITEMS, duels, outcome=ENDS, **options
    )
    assert spec_r(duels, outcome=outcome, random_state=0) == spec_r(duels, outcome=ENDS, random_state=0)
    from sklearn.linear_model import LogisticRegression

    pair = [
        PairClassifier(LogisticRegression()).fit(ITEMS, duels, outcome=outcomes)
        for outcomes in (outcome, ENDS)
    ]
    np.testing.assert_array_equal(*(model.predict_proba(ITEMS, ITEMS[::-1]) for model in pair))


def test_missing_outcomes_are_refused_or_left_out():
    outcome = [*words("left", "right", "tie")[:-1], None]
    with pytest.raises(ValueError, match=r"row 9 of column 'outcome' is empty.*missing=\"drop\""):
        abilities(outcome=outcome)
    with pytest.warns(UserWarning, match="1 duels without an outcome were left out"):
        left_out = abilities(outcome=outcome, missing="drop")
    shorter = riesz.PreferenceClassifier("bradley_terry", ridge=0.5).fit(None, DUELS[:-1], outcome=ENDS[:-1])
    assert left_out == shorter.abilities_
    # Other inputs of duels are filtered in the same way.
    home = ["left", "right", "none"] * 3
    users = ["u", "v", "w"] * 3
    model = riesz.PreferenceClassifier("utility", optimizer=None)
    with pytest.warns(UserWarning, match="left out"):
        incomplete = model.fit(
            ITEMS, DUELS.to_numpy(), outcome=[*ENDS[:-1], np.nan], missing="drop", home=home, users=users
        )
    first = incomplete.decision_function(ITEMS[:1], ITEMS[1:2], users="u", home="left")
    other = model.fit(ITEMS, DUELS[:-1].to_numpy(), outcome=ENDS[:-1], home=home[:-1], users=users[:-1])
    np.testing.assert_array_equal(
        first, other.decision_function(ITEMS[:1], ITEMS[1:2], users="u", home="left")
    )


def test_the_side_at_home_may_be_named():
    home = ["left", "right", "none"] * 3
    named = [
        {"left": left, "right": right, "none": None}[side] for left, right, side in zip(LEFT, RIGHT, home)
    ]
    model = riesz.PreferenceClassifier("utility", optimizer=None)
    a, b = (
        model.fit(ITEMS, DUELS.to_numpy(), outcome=ENDS, home=sides).decision_function(
            ITEMS[:1], ITEMS[1:2], home="left"
        )
        for sides in (home, named)
    )
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"outcome": ["left"] * 8 + ["maybe"]},
            "row 9 of column 'outcome' is 'maybe': the outcome of a duel is left, right or tie",
        ),
        ({"outcome": ["L"] * 9}, "row 1 of column 'outcome' is 'L': the column's other cells do not show"),
        ({"outcome": [2.0] * 8 + [0.0]}, "the outcome of a duel is"),
        ({"outcome": ENDS[:-1]}, "one entry for each of the 9 duels"),
        ({"outcome": ENDS, "scores": np.ones((9, 2))}, "outcome and scores"),
        ({"scores": np.ones(9)}, "scores have the shape"),
        ({"wins": -np.ones((9, 2))}, "a count of duels is a number, 0 or more"),
        ({"outcome": ENDS, "missing": "ignore"}, "it is 'error' or 'drop'"),
    ],
)
def test_ambiguous_outcomes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        abilities(**options)


def test_counts_are_those_of_bradley_and_terry():
    model = riesz.PreferenceClassifier("bradley_terry", ridge=0).fit(None, [("one", "other")], wins=[[7, 3]])
    assert model.abilities_["one"] - model.abilities_["other"] == pytest.approx(np.log(7 / 3))
    _, sd = model.decision_function(["one"], ["other"], return_std=True)
    assert sd[0] == pytest.approx(np.sqrt(1 / 7 + 1 / 3))
    assert model.predict_proba(["one"], ["other"])[0, 1] == pytest.approx(0.7)


def test_a_leaderboard_takes_nothing_but_duels():
    model = riesz.PreferenceClassifier("bradley_terry", ridge=0.5).fit(None, DUELS, outcome=ENDS)
    ranking = rankability(model, n_samples=4000, random_state=0)
    assert sorted(ranking.items) == ["ann", "bob", "cid", "dee"]
    mean = np.array([model.abilities_[name] for name in ranking.items])
    np.testing.assert_allclose(ranking.utility, mean - mean.mean(), atol=1e-9)
    np.testing.assert_array_equal(ranking.rank, 1 + (mean[:, None] < mean).sum(axis=1))
    assert (
        ranking.probability_best.sum() == pytest.approx(1)
        and ranking.cyclic_share < 1e-12
        and not ranking.cycles
    )
    # The interval of a utility is that of a normal distribution, whose covariance is the inverse Hessian.
    names = {name: i for i, name in enumerate(ranking.items)}
    d = np.zeros((len(LEFT), 4))
    for row, (left, right) in enumerate(zip(LEFT, RIGHT)):
        d[row, names[left]], d[row, names[right]] = 1, -1
    p = 1 / (1 + np.exp(-d @ mean))
    covariance = np.linalg.inv(d.T @ ((p * (1 - p))[:, None] * d) + 0.5 * np.eye(4))
    centred = np.eye(4) - 0.25
    sd = np.sqrt(np.diag(centred @ covariance @ centred))
    np.testing.assert_allclose(ranking.utility_interval[:, 1], ranking.utility + 1.959964 * sd, rtol=1e-6)
    # Some of the items are ranked against each other alone.
    pair = rankability(model, ["bob", "ann"], random_state=0)
    half_difference = 0.5 * (model.abilities_["bob"] - model.abilities_["ann"])
    assert pair.items == ["bob", "ann"]
    np.testing.assert_allclose(pair.utility, [half_difference, -half_difference], atol=1e-9)


def test_abilities_and_homes_are_ranked():
    home = ["left", "right", "none"] * 3
    model = riesz.PreferenceClassifier("nested", ability=True, optimizer=None)
    model.fit(ITEMS, DUELS.to_numpy(), outcome=ENDS, home=home)
    ranking = rankability(model, ITEMS, n_samples=2000, random_state=0)
    pairs = [(i, j) for i in range(4) for j in range(4)]
    left, right = (ITEMS.iloc[[pair[side] for pair in pairs]] for side in (0, 1))
    mean, sd = model.decision_function(left, right, return_std=True)
    np.testing.assert_allclose(ranking.utility, mean.reshape(4, 4).mean(axis=1), atol=1e-9)
    assert (ranking.utility_interval[:, 0] <= ranking.utility).all() and sd.max() > 0
    # Items of the fit are recognised by their features as well, and by default all of them are ranked.
    for items in (ITEMS.to_numpy(), None):
        again = rankability(model, items, n_samples=2000, random_state=0)
        np.testing.assert_allclose(again.utility, ranking.utility, atol=1e-9)
