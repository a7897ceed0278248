"""Choices from sets, against duels, numpy and the command line. The formulas are tested in Rust."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import check_random_state

import riesz
from conftest import run, with_command
from riesz.kernels import RBF
from riesz.preference import rankability


@pytest.fixture(scope="module")
def phones():
    rng = np.random.default_rng(0)
    items = pd.DataFrame(
        {"battery": rng.normal(size=15), "price": rng.normal(size=15)},
        index=pd.Index([f"phone {i}" for i in range(15)], name="name"),
    )
    utility = 1.5 * items.battery - items.price**2
    sets, chosen = [], []
    for _ in range(80):
        options = rng.choice(15, size=rng.integers(2, 6), replace=False)
        # The largest of utilities with Gumbel noise is a choice by softmax.
        order = options[np.argsort(-(utility.to_numpy()[options] + rng.gumbel(size=len(options))))]
        sets.append(items.index[options].tolist())
        chosen.append(items.index[order[:1]].tolist())
    return items, utility, sets, chosen


def long_table(sets, chosen):
    rows = [
        (f"set {i}", item, chosen[i].index(item) + 1 if item in chosen[i] else 0)
        for i, options in enumerate(sets)
        for item in options
    ]
    return pd.DataFrame(rows, columns=["set", "item", "chosen"])


def test_sets_of_two_are_duels(phones):
    items, _, _, _ = phones
    rng = np.random.default_rng(3)
    left, right = rng.integers(15, size=(2, 60))
    pairs = [(items.index[a], items.index[b]) for a, b in zip(left, right) if a != b]
    settings = {"kernel": RBF([1.0, 1.0]), "optimizer": None, "ability": True}
    duels = riesz.PreferenceClassifier("utility", **settings).fit(items, pairs)
    choices = riesz.PreferenceClassifier("utility", **settings)
    choices.fit_choices(items, [pair[::-1] for pair in pairs], [a for a, _ in pairs])
    evidence = duels.log_marginal_likelihood_value_
    assert choices.log_marginal_likelihood_value_ == pytest.approx(evidence, abs=1e-11)
    sides = items.iloc[:7], items.iloc[7:14]
    for ours, theirs in zip(
        choices.decision_function(*sides, return_std=True), duels.decision_function(*sides, return_std=True)
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)
    set_of_two = [[items.index[0], items.index[9]]]
    np.testing.assert_allclose(
        choices.predict_choice(set_of_two)[0][1],
        choices.predict_proba(items.iloc[[9]], items.iloc[[0]])[0, 1],
        atol=1e-12,
    )


def test_choices_are_learnt_and_predicted(phones):
    items, utility, sets, chosen = phones
    model = riesz.PreferenceClassifier("utility", random_state=0).fit_choices(items, sets, chosen)
    ranking = rankability(model, random_state=0)
    assert np.corrcoef(ranking.utility, utility)[0, 1] > 0.8
    # Probabilities of new sets are means of softmax over joint draws.
    new = [items.index[[0, 4, 9, 2]].tolist(), items.index[[1, 3]].tolist()]
    probabilities, errors = model.predict_choice(new, return_std=True, random_state=0)
    rows = model.pair_features(items.loc[new[0]], items.loc[[new[0][0]]])
    draws = model.average_.sample(rows, 4000, random_state=1).T
    weights = np.exp(draws - draws.max(axis=1, keepdims=True))
    expected = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
    assert (abs(probabilities[0] - expected) < 8 * errors[0]).all() and (errors[1] == 0).all()
    assert probabilities[0].sum() == pytest.approx(1) and len(probabilities[1]) == 2
    again = model.predict_choice(new, return_std=True, random_state=0)
    np.testing.assert_array_equal(probabilities[0], again[0][0])
    # A table with one row per item of a set is the same data.
    table = long_table(sets, chosen)
    from_table = riesz.PreferenceClassifier("utility", random_state=0).fit_choices(items, table)
    assert from_table.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
    assert pickle.loads(pickle.dumps(model)).predict_choice(new, random_state=0)[0][0] == probabilities[0][0]
    # Everything that duels have: explanations of differences of utilities, and suggested duels.
    explanation = model.explain(items.iloc[[0]], items.iloc[[4]])
    np.testing.assert_allclose(
        explanation.values.sum(), model.decision_function(items.iloc[[0]], items.iloc[[4]])[0], atol=1e-9
    )
    assert len(model.suggest(k=2, random_state=0)) == 2


def test_rankings_and_weights(phones):
    items, _, _, _ = phones
    a, b, c, d = items.index[:4]
    settings = {"kernel": RBF([1.0, 1.0]), "optimizer": None}
    fit = lambda *arguments, **options: (
        riesz.PreferenceClassifier("utility", **settings)
        .fit_choices(items, *arguments, **options)
        .log_marginal_likelihood_value_
    )
    ranked = fit([[a, b, c, d], [b, d]], [[c, a, d], b])
    stages = fit([[a, b, c, d], [a, b, d], [b, d], [b, d]], [c, a, d, b])
    assert ranked == pytest.approx(stages, abs=1e-12)
    twice = fit([[a, b, c], [b, d]], [a, b], sample_weight=[2.0, 1.0])
    assert twice == pytest.approx(fit([[a, b, c], [b, d], [c, b, a]], [a, b, a]), abs=1e-12)


def test_items_that_are_chosen_together(phones):
    items, _, _, _ = phones
    a, b, c, d = items.index[:4]
    settings = {"kernel": RBF([1.0, 1.0]), "optimizer": None}
    fit = lambda model, *arguments: riesz.PreferenceClassifier(model, **settings).fit_choices(
        items, *arguments
    )
    sets, chosen = [[a, b, c, d], [b, c, d], [a, c]] * 5, [{c, a}, [d, {b}], a] * 5
    table = long_table(sets, [[c, a], [d, b], [a]] * 5)
    # The two items of each first set share the first place.
    table.loc[table.set.isin([f"set {i}" for i in range(0, 15, 3)]) & (table.item == a), "chosen"] = 1
    for model in ("utility", "nested", "generalised"):
        fitted = fit(model, sets, chosen)
        from_table = fit(model, table)
        assert fitted.log_marginal_likelihood_value_ == from_table.log_marginal_likelihood_value_
        pairs = fitted.predict_choice([[a, b, c, d]], n_chosen=2, random_state=0)[0]
        assert pairs.sum() == pytest.approx(2) and pairs[0] > pairs[1]
        without_c = fitted.predict_choice([[a, b, c]], n_chosen=2, random_state=0)[0]
        assert without_c.sum() == pytest.approx(2)


def test_choices_that_no_utility_explains():
    """Each of three hands wins against one other, and is chosen equally often from all three."""
    hands = np.array([[0.0], [1.0], [2.0]])
    sets = [[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 2, 0], [2, 0, 1]] * 20
    chosen = [1, 2, 0, 0, 1, 2] * 20
    kernel = RBF([0.5])
    model = riesz.PreferenceClassifier("generalised", kernel=kernel, random_state=0)
    model.fit_choices(hands, sets, chosen)
    utility = riesz.PreferenceClassifier("utility", kernel=kernel, random_state=0)
    utility.fit_choices(hands, sets, chosen)
    beats = [model.predict_choice([pair])[0][1] for pair in ([0, 1], [1, 2], [2, 0])]
    assert min(beats) > 0.9
    np.testing.assert_allclose(model.predict_choice([[0, 1, 2]], random_state=0)[0], 1 / 3, atol=0.05)
    assert model.log_marginal_likelihood_value_ > utility.log_marginal_likelihood_value_ + 20


def test_wrong_choices_are_refused(phones):
    items, _, sets, chosen = phones
    model = riesz.PreferenceClassifier("utility")
    a, b, c = items.index[:3]
    for error, arguments in [
        ("one a set", (sets, chosen[:-1])),
        ("give the chosen item", (sets,)),
        ("not among the items", ([[a, "nothing"]], [a])),
        ("items of their set", ([[a, b]], [c])),
        ("two or more", ([[a]], [a])),
        ("columns 'set', 'item'", (long_table(sets, chosen).drop(columns="item"),)),
        ("a choice of all items", (long_table(sets, chosen).assign(chosen=1),)),
        ("set 'set 0'", (long_table(sets, chosen).assign(chosen=0),)),
        ("it is a number", (long_table(sets, chosen).assign(chosen="yes"),)),
    ]:
        with pytest.raises(ValueError, match=error):
            model.fit_choices(items, *arguments)
    for settings in [{"ties": "model"}, {"inference": "bound"}, {"n_landmarks": 5}, {"model": "linear"}]:
        with pytest.raises(ValueError, match=next(iter(settings))):
            riesz.PreferenceClassifier(**{"model": "utility", **settings}).fit_choices(items, sets, chosen)
    with pytest.raises(ValueError, match="generalised"):
        riesz.PreferenceClassifier("generalised").fit_choices(None, sets, chosen)
    fixed = riesz.PreferenceClassifier(kernel=RBF([1.0, 1.0]), optimizer=None).fit(items, [(a, b), (b, c)])
    with pytest.raises(ValueError, match="n_chosen"):
        fixed.predict_choice([[a, b, c]], n_chosen=3)


@with_command
@pytest.mark.parametrize("has_items, form", [(True, "nested"), (True, "utility"), (False, "utility")])
def test_choices_match_the_command_line(phones, tmp_path, has_items, form):
    items, _, sets, chosen = phones
    table = long_table(sets, chosen)
    # Two items of the first sets are chosen together, if there are more.
    for i in range(20):
        not_chosen = table.index[(table.set == f"set {i}") & (table.chosen == 0)]
        table.loc[not_chosen[: len(not_chosen) - 1][:1], "chosen"] = 1
    items.to_csv(tmp_path / "items.csv")
    table.rename(columns={"set": "shelf"}).to_csv(tmp_path / "picks.csv", index=False)
    tables = "items.csv picks.csv --id name" if has_items else "picks.csv"
    options = f"--choices=shelf,item,chosen --model {form} --hyperparameter-samples 0"
    run(tmp_path, f"prefer fit {tables} {options} -o m.riesz")
    model = riesz.PreferenceClassifier(form, n_hyperparameter_samples=0)
    model.fit_choices(items if has_items else None, table)
    loaded = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    sides = (items.iloc[:3], items.iloc[3:6]) if has_items else (items.index[:3], items.index[3:6])
    sides = [side if has_items else side.tolist() for side in sides]
    np.testing.assert_allclose(
        loaded.decision_function(*sides), model.decision_function(*sides), rtol=1e-4, atol=1e-4
    )
    # Sets of three items or more, of which two are chosen.
    size = table.groupby("set").item.transform("size")
    table = table[size >= 3]
    table.iloc[:9].to_csv(tmp_path / "sets.csv", index=False)
    seed = check_random_state(3).randint(2**31 - 1)
    arguments = (
        f"prefer choose m.riesz {'items.csv' if has_items else ''} sets.csv --samples 500 --seed {seed}"
    )
    printed = pd.read_csv(io.StringIO(run(tmp_path, arguments)))
    queried = [group.item.tolist() for _, group in table.iloc[:9].groupby("set", sort=False)]
    ours = loaded.predict_choice(queried, items if has_items else None, n_samples=500, random_state=3)
    np.testing.assert_allclose(printed.probability, np.concatenate(ours), atol=1e-12)
