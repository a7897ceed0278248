"""Further inputs of duels: home advantage, names, contexts, users, ties, bags. The formulas are tested in
Rust."""

import pickle

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.kernels import RBF, Categorical

rng = np.random.default_rng(5)
COUNT = 160
ITEMS = pd.DataFrame(
    rng.normal(size=(20, 2)), columns=["power", "weight"], index=[f"item {i}" for i in range(20)]
)
LEFT, RIGHT = (index_pairs := rng.integers(20, size=(2, 400)))[:, index_pairs[0] != index_pairs[1]][:, :COUNT]
DUELS = ITEMS.index.to_numpy()[np.column_stack([LEFT, RIGHT])]
GROUND = rng.choice(["clay", "grass"], COUNT)
HOME = rng.choice(["left", "right", "none"], COUNT)
POWER_LOG_ODDS = (
    2 * (ITEMS.power.to_numpy()[LEFT] - ITEMS.power.to_numpy()[RIGHT]) * np.where(GROUND == "clay", 1, -1)
)
LOG_ODDS = POWER_LOG_ODDS + 1.2 * ((HOME == "left").astype(float) - (HOME == "right"))
WON = (rng.random(COUNT) < 1 / (1 + np.exp(-LOG_ODDS))).astype(float)
CONTEXTS = pd.DataFrame({"ground": GROUND, "heat": rng.uniform(10, 30, COUNT)})
LEFT_ROWS, RIGHT_ROWS = ITEMS.iloc[:5], ITEMS.iloc[5:10]


def fitted(model="utility", duels=DUELS, items=ITEMS, outcome=WON, settings=None, **circumstances):
    options = {"kernel": RBF([2.0, 2.0]), "optimizer": None, **(settings or {})}
    return riesz.PreferenceClassifier(model, **options).fit(items, duels, outcome=outcome, **circumstances)


def test_home_advantage():
    model = riesz.PreferenceClassifier("utility", ability=False).fit(ITEMS, DUELS, outcome=WON, home=HOME)
    assert model.home_variance_ > 0.1 and model.ability_variance_ == 0.0
    home, away, neutral = (
        model.decision_function(LEFT_ROWS, RIGHT_ROWS, home=side) for side in ("left", "right", None)
    )
    # With a utility model the advantage is equal for all pairs, and 0 if nobody is at home.
    np.testing.assert_allclose(home - neutral, neutral - away, rtol=1e-9)
    np.testing.assert_allclose(home - neutral, (home - neutral)[0], rtol=1e-9)
    assert home[0] > away[0]
    mirrored = model.decision_function(RIGHT_ROWS, LEFT_ROWS, home=["right"] * 5)
    np.testing.assert_allclose(mirrored, -home, rtol=1e-9)
    assert model.groups_["home"] == ["left_home", "right_home"]
    # A duel of an item with itself is valid if one side is at home.
    assert model.probability_better(LEFT_ROWS[:1], LEFT_ROWS[:1], home="left") > 0.5
    assert model.probability_better(LEFT_ROWS[:1], LEFT_ROWS[:1]) == 0.5


def test_names_have_abilities():
    equal_items = ITEMS.assign(power=0.0, weight=0.0)
    abilities = rng.normal(scale=2, size=20)
    won = (rng.random(COUNT) < 1 / (1 + np.exp(abilities[RIGHT] - abilities[LEFT]))).astype(float)
    model = riesz.PreferenceClassifier("utility", ability=True, n_hyperparameter_samples=0)
    model.fit(equal_items, DUELS, outcome=won)
    assert model.ability_variance_ > 0.1
    best, worst = equal_items.iloc[[abilities.argmax()]], equal_items.iloc[[abilities.argmin()]]
    assert model.predict_proba(best, worst)[0, 1] > 0.7
    np.testing.assert_array_equal(
        model.predict_proba(best, worst),
        model.predict_proba(best.to_numpy(), worst.to_numpy(), ids=(best.index, worst.index)),
    )
    # Unknown items have the prior's ability, also against another unknown item.
    mean, sd = model.decision_function(
        equal_items[:1], equal_items[:1], return_std=True, ids=(["new"], ["other"])
    )
    np.testing.assert_allclose([mean[0], sd[0] ** 2], [0, 2 * model.ability_variance_], atol=1e-9)
    # Features that all items have in common do not tell which one it is.
    mean, sd = model.decision_function(best.to_numpy(), worst.to_numpy(), return_std=True)
    assert mean[0] == sd[0] == 0
    plain = riesz.PreferenceClassifier("utility", ability=False).fit(ITEMS, DUELS, outcome=won)
    with pytest.raises(ValueError, match="without abilities"):
        plain.predict(LEFT_ROWS, RIGHT_ROWS, ids=(["a"], ["b"]))
    with pytest.raises(ValueError, match="ability = 'yes'"):
        riesz.PreferenceClassifier(ability="yes").fit(ITEMS, DUELS, outcome=won)


def test_abilities_are_a_default():
    for model in ("nested", "utility", "generalised"):
        fit = riesz.PreferenceClassifier(model, n_hyperparameter_samples=0).fit(ITEMS, DUELS, outcome=WON)
        assert (fit.ability_variance_ > 0) == (model != "generalised")
    for settings in ({"ability": False}, {"optimizer": None}):
        assert fitted(settings=settings).ability_variance_ == 0
    named = riesz.PreferenceClassifier("utility").fit(None, DUELS, outcome=WON)
    explicit = riesz.PreferenceClassifier("utility", ability=True).fit(None, DUELS, outcome=WON)
    assert named.ability_variance_ == explicit.ability_variance_ > 0


@pytest.mark.parametrize("n_landmarks", [None, "all"])
def test_items_are_recognised_by_labels_or_features(n_landmarks, tmp_path):
    settings = {"ability": True, "n_landmarks": n_landmarks, "random_state": 0}
    model = fitted(settings=settings)
    ids = list(LEFT_ROWS.index), list(RIGHT_ROWS.index)
    expected = model.decision_function(LEFT_ROWS, RIGHT_ROWS)
    rows = LEFT_ROWS.to_numpy(), RIGHT_ROWS.to_numpy()
    by_number = fitted(settings=settings, items=ITEMS.to_numpy(), duels=np.column_stack([LEFT, RIGHT]))
    numbered = [side.reset_index(drop=True) for side in (LEFT_ROWS, RIGHT_ROWS)]
    for recognised in (
        model.decision_function(*rows),
        model.decision_function(*rows, ids=ids),
        model.decision_function(*numbered),
        model.decision_function(*ids),
        by_number.decision_function(*rows),
        by_number.decision_function(*numbered),
        by_number.decision_function(*rows, ids=(["0", "1", "2", "3", "4"], ["5", "6", "7", "8", "9"])),
    ):
        np.testing.assert_allclose(recognised, expected, atol=1e-9)
    # A label that the model does not know, or other features, are those of a new item.
    new = model.decision_function(*rows, ids=(["new"] * 5, ids[1]))
    assert abs(new - expected).max() > 1e-3
    renamed = LEFT_ROWS.set_axis([f"new {i}" for i in range(5)])
    np.testing.assert_allclose(model.decision_function(renamed, RIGHT_ROWS), new, atol=1e-9)
    moved = rows[0] + 1e-9
    np.testing.assert_allclose(model.decision_function(moved, rows[1]), new, atol=1e-6)
    # Two new items with equal features are equal if nothing else is known of them.
    mean, std = model.decision_function(moved, moved, return_std=True)
    assert (mean == 0).all() and (std < 1e-6).all()
    mean, std = model.decision_function(moved, moved, return_std=True, ids=(["a"] * 5, ["b"] * 5))
    # Through landmarks it is estimated from draws.
    assert abs(mean).max() < 1e-6 and (std > 0.7 * np.sqrt(2 * model.ability_variance_)).all()
    # One row for all duels.
    np.testing.assert_allclose(model.decision_function(rows[0][:1], rows[1])[0], expected[0], atol=1e-9)
    if n_landmarks is None:
        model.save(tmp_path / "m.riesz")
        again = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
        np.testing.assert_allclose(again.decision_function(*rows), expected, atol=1e-9)
        np.testing.assert_allclose(again.decision_function(LEFT_ROWS, RIGHT_ROWS), expected, atol=1e-9)
    else:
        model.save(tmp_path / "m.riesz")
        again = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
        np.testing.assert_allclose(again.decision_function(LEFT_ROWS, RIGHT_ROWS), expected, atol=1e-6)
        with pytest.raises(ValueError, match="say who they are"):
            again.predict(*rows)


def test_an_ability_is_a_player():
    model = fitted(settings={"ability": True})
    why = model.explain(LEFT_ROWS, RIGHT_ROWS)
    assert why.feature_names == ["power", "weight", "ability"]
    np.testing.assert_allclose(
        why.values.sum(axis=1), model.decision_function(LEFT_ROWS, RIGHT_ROWS), atol=1e-9
    )
    # Abilities add up with everything else, and a new item has none on average.
    new = model.decision_function(LEFT_ROWS, RIGHT_ROWS, ids=(["new"] * 5, ["other"] * 5))
    np.testing.assert_allclose(why.values[:, 2], why.values.sum(axis=1) - new, atol=1e-9)


def test_new_items_are_ranked_with_abilities_of_their_own():
    model = fitted(settings={"ability": True})
    new = pd.DataFrame(np.zeros((2, 2)), columns=ITEMS.columns, index=["new", "other"])
    ranking = riesz.preference.rankability(model, new, random_state=0)
    # Each utility is half of the log odds between the two, whose variance is that of two abilities.
    half_width = 1.959964 * np.sqrt(2 * model.ability_variance_) / 2
    np.testing.assert_allclose(ranking.utility, 0, atol=1e-9)
    np.testing.assert_allclose(ranking.utility_interval, [[-half_width, half_width]] * 2, rtol=1e-6)


def test_contexts_reverse_outcomes():
    plain = {"ability": False, "n_hyperparameter_samples": 0}
    model = riesz.PreferenceClassifier("utility", **plain).fit(ITEMS, DUELS, outcome=WON, contexts=CONTEXTS)
    context_free = riesz.PreferenceClassifier("utility", **plain).fit(ITEMS, DUELS, outcome=WON)
    assert model.log_marginal_likelihood_value_ > context_free.log_marginal_likelihood_value_ + 5
    assert 0 < model.shared_context_fraction_ < 1 and context_free.shared_context_fraction_ == 1
    strong, weak = ITEMS.sort_values("power").iloc[[-1]], ITEMS.sort_values("power").iloc[[0]]
    clay, grass = (pd.DataFrame({"ground": [ground], "heat": [20.0]}) for ground in ("clay", "grass"))
    assert model.predict(strong, weak, contexts=clay) == "left"
    assert model.predict(strong, weak, contexts=grass) == "right"
    rows = model.pair_features(LEFT_ROWS, RIGHT_ROWS, contexts=clay)
    assert rows.shape == (5, 6) and list(rows[:, 4]) == ["clay"] * 5
    assert list(model.groups_) == ["power", "weight", "ground", "heat"] and model.groups_["heat"] == ["heat"]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.predict_proba(LEFT_ROWS, RIGHT_ROWS, contexts=grass),
        model.predict_proba(LEFT_ROWS, RIGHT_ROWS, contexts=grass),
    )
    explanation = riesz.Explainer(
        model.expansion_, model.pair_features(ITEMS, ITEMS, contexts=clay), groups=model.groups_
    )(rows)
    np.testing.assert_allclose(
        explanation.values.sum(axis=1) + explanation.base_values, model.expansion_.predict(rows), atol=1e-9
    )


def test_explanations_average_over_contexts():
    plain = {"ability": False, "n_hyperparameter_samples": 0}
    model = riesz.PreferenceClassifier("utility", **plain).fit(ITEMS, DUELS, outcome=WON, contexts=CONTEXTS)
    contexts = CONTEXTS.iloc[:7]
    averaged = model.explain(LEFT_ROWS, RIGHT_ROWS, contexts=contexts, average="contexts")
    apart = [model.explain(LEFT_ROWS, RIGHT_ROWS, contexts=contexts.iloc[[k]]) for k in range(len(contexts))]
    np.testing.assert_allclose(averaged.values, np.mean([e.values for e in apart], axis=0), atol=1e-12)
    log_odds = [model.decision_function(LEFT_ROWS, RIGHT_ROWS, contexts=contexts.iloc[[k]]) for k in range(7)]
    np.testing.assert_allclose(averaged.predictions, np.mean(log_odds, axis=0), atol=1e-9)
    repeated = model.explain(
        LEFT_ROWS[:1], RIGHT_ROWS, contexts=contexts, average="contexts", game="functional"
    )
    assert repeated.values.shape[0] == len(RIGHT_ROWS)
    with pytest.raises(ValueError, match="3 items on the left and 2 on the right"):
        model.explain(LEFT_ROWS[:3], RIGHT_ROWS[:2], contexts=contexts, average="contexts")
    with pytest.raises(ValueError, match="at least one item"):
        model.explain(LEFT_ROWS[:0], RIGHT_ROWS, average="opponents")
    for wrong in ({}, {"contexts": [1.0]}, {"contexts": contexts[:0]}, {"contexts": contexts, "users": "u"}):
        with pytest.raises(ValueError, match="average = 'contexts'"):
            model.explain(LEFT_ROWS, RIGHT_ROWS, average="contexts", **wrong)


def test_context_kernels_are_kept_as_they_are():
    heat = CONTEXTS[["heat"]]
    apart = fitted(settings={"context_kernel": RBF(1e-3)}, contexts=heat)
    pooled = fitted(settings={"context_kernel": RBF(1e9)}, contexts=heat.to_numpy())
    plain = fitted()
    assert apart.shared_context_fraction_ == 0.0
    np.testing.assert_allclose(
        pooled.decision_function(LEFT_ROWS, RIGHT_ROWS, contexts=20.0),
        plain.decision_function(LEFT_ROWS, RIGHT_ROWS),
        rtol=1e-6,
    )
    # A context that is unlike all others has the prior's prediction.
    np.testing.assert_allclose(apart.decision_function(LEFT_ROWS, RIGHT_ROWS, contexts=[5.0]), 0, atol=1e-9)


def test_users_have_preferences_in_common():
    users = rng.choice(["ann", "bob"], COUNT)
    sign = np.where(users == "ann", 1, -1)
    won = (sign * (ITEMS.weight.to_numpy()[LEFT] - ITEMS.weight.to_numpy()[RIGHT]) > 0).astype(float)
    model = riesz.PreferenceClassifier("utility").fit(ITEMS, DUELS, outcome=won, users=users)
    heavy, light = ITEMS.sort_values("weight").iloc[[-1]], ITEMS.sort_values("weight").iloc[[0]]
    probabilities = [model.predict_proba(heavy, light, users=user)[0, 1] for user in ("ann", "bob", "eve")]
    assert probabilities[0] > 0.8 and probabilities[1] < 0.2 and 0.3 < probabilities[2] < 0.7
    assert model.expansion_.levels["user"] == ["ann", "bob", "(unseen)"]
    combined = riesz.PreferenceClassifier("utility", optimizer=None).fit(
        ITEMS, DUELS, outcome=won, users=users, contexts=CONTEXTS
    )
    assert combined.pair_features(heavy, light, users="ann", contexts=CONTEXTS[:3]).shape == (3, 7)


def test_ties_can_be_outcomes(tmp_path):
    drawn = np.where(rng.random(COUNT) < 0.3, 0.5, WON)
    model = riesz.PreferenceClassifier("utility", ties="model", n_hyperparameter_samples=0)
    model.fit(ITEMS, DUELS, outcome=drawn)
    assert list(model.classes_) == ["right", "left", "tie"] and model.margin_ > 0.1
    probabilities = model.predict_proba(LEFT_ROWS, RIGHT_ROWS)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(
        model.predict_proba(RIGHT_ROWS, LEFT_ROWS), probabilities[:, [1, 0, 2]], rtol=1e-9
    )
    assert (model.predict(LEFT_ROWS, RIGHT_ROWS) == model.classes_[probabilities.argmax(axis=1)]).all()
    assert (
        abs(model.predict_proba(ITEMS.iloc[LEFT], ITEMS.iloc[RIGHT])[:, 2].mean() - (drawn == 0.5).mean())
        < 0.1
    )
    rows = model.pair_features(LEFT_ROWS, RIGHT_ROWS)
    model.expansion_.save(tmp_path / "m.riesz", posterior=True)
    np.testing.assert_array_equal(
        riesz.Expansion.load(tmp_path / "m.riesz").predict_proba(rows), probabilities
    )
    model.expansion_.save(tmp_path / "mean.riesz")
    with pytest.raises(ValueError, match="need its posterior"):
        riesz.Expansion.load(tmp_path / "mean.riesz").predict_proba(rows)


def test_the_variational_bound_is_near_laplace():
    bound, laplace = fitted(settings={"inference": "bound"}), fitted()
    assert 0 < abs(bound.log_marginal_likelihood_value_ - laplace.log_marginal_likelihood_value_) < 0.5
    near = np.corrcoef(*(m.decision_function(LEFT_ROWS, RIGHT_ROWS) for m in (bound, laplace)))
    assert near[0, 1] > 0.99


def test_bags_are_means_of_their_members():
    teams = [
        (team, item)
        for team, first in (("red", 0), ("blue", 4), ("green", 7))
        for item in ITEMS.index[first : first + 4]
    ]
    duels = [("red", "blue"), ("blue", "green"), ("red", "green"), ("red", "blue")]
    model = fitted("nested", duels=duels, outcome=None, members=teams)
    mean, sd, probabilities = model.predict_bags(ITEMS, teams, [("red", "blue"), ("blue", "red")])
    red, blue = np.meshgrid(range(4), range(4, 8))
    pair_means = model.decision_function(ITEMS.iloc[red.ravel()], ITEMS.iloc[blue.ravel()])
    np.testing.assert_allclose(mean, [pair_means.mean(), -pair_means.mean()], rtol=1e-9)
    rows = model.pair_features(ITEMS.iloc[red.ravel()], ITEMS.iloc[blue.ravel()])
    pair_covariance = model.expansion_.predict(rows, return_cov=True)[1]
    np.testing.assert_allclose(sd, pair_covariance.mean() ** 0.5, rtol=1e-8)
    np.testing.assert_allclose(probabilities[0], probabilities[1][::-1], rtol=1e-9)
    # The weights of the left and right bags have different totals.
    weighted = [
        (team, item, 1.0 + place if team == "red" else 0.3) for place, (team, item) in enumerate(teams)
    ]
    share = np.arange(1.0, 5.0)[red.ravel()] / 40
    weighed = model.predict_bags(ITEMS, weighted, [("red", "blue")])
    np.testing.assert_allclose(weighed[0], share @ pair_means, rtol=1e-9)
    np.testing.assert_allclose(weighed[1], (share @ pair_covariance @ share) ** 0.5, rtol=1e-8)
    # Weights of members are normalised, and a bag of one item equals the item.
    single_bags = [(name, name, 3.0) for name in ITEMS.index]
    np.testing.assert_allclose(
        fitted(duels=DUELS, members=single_bags).decision_function(LEFT_ROWS, RIGHT_ROWS),
        fitted().decision_function(LEFT_ROWS, RIGHT_ROWS),
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"home": ["up"] * COUNT}, "the side at home is left, right or none"),
        ({"home": ["left"]}, "one a duel"),
        ({"home": ["none"] * COUNT}, "nobody in all duels"),
        ({"home": np.where(WON == 1, "left", "right")}, "a side that won all 160 duels"),
        ({"home": HOME, "items": ITEMS.rename(columns={"power": "home"})}, "a column 'home'"),
        ({"contexts": CONTEXTS[:3]}, "contexts have 3 rows"),
        ({"users": ["ann"] * 3}, "users have 3 rows"),
        ({"users": [None] * COUNT}, "users is None in row 0"),
        ({"contexts": CONTEXTS.rename(columns={"heat": "user"}), "users": ["ann"] * COUNT}, "rename it"),
        ({"settings": {"context_kernel": RBF(1.0)}}, "these duels have no contexts"),
        ({"settings": {"context_kernel": "rbf"}, "contexts": CONTEXTS}, "a kernel of riesz.kernels"),
        ({"settings": {"ties": "win"}}, "'half', 'model'"),
        ({"settings": {"ties": "model"}, "outcome": np.full(COUNT, 0.3)}, r"a tie \(0.5\)"),
        ({"settings": {"ties": "model", "inference": "bound"}}, "half a win"),
        ({"settings": {"inference": "mcmc"}}, "'laplace', 'bound'"),
        (
            {
                "settings": {"ability": True},
                "items": ITEMS.set_axis(["(unseen)", *ITEMS.index[1:]]),
                "duels": DUELS[(LEFT > 0) & (RIGHT > 0)],
            }
            | {"outcome": WON[(LEFT > 0) & (RIGHT > 0)]},
            "a name of its own",
        ),
        ({"members": [("a", "item 1")], "home": HOME}, "leave home out"),
        ({"members": [("a", "item 99")]}, "'item 99'"),
        ({"members": [("a", "item 1")]}, "duels name bags that members do not"),
    ],
)
def test_invalid_input_is_refused(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fitted(**options)


def test_predictions_name_missing_arguments():
    contextual = fitted(contexts=CONTEXTS, settings={"context_kernel": Categorical(columns=["ground"])})
    for contexts, words in [
        (None, r"in contexts \(ground, heat\): say which"),
        (pd.DataFrame({"ground": ["ice"], "heat": [1.0]}), "'ice' in row 0"),
        (pd.DataFrame({"ground": ["clay"], "heat": [np.nan]}), "heat"),
        (CONTEXTS[:3], "have 3 and 5 rows"),
    ]:
        with pytest.raises(ValueError, match=words):
            contextual.predict_proba(LEFT_ROWS, RIGHT_ROWS, contexts=contexts)
    plain = fitted()
    for circumstances, words in [
        ({"contexts": CONTEXTS[:1]}, "without them"),
        ({"users": "ann"}, "without them"),
        ({"home": "left"}, "fitted without it"),
    ]:
        with pytest.raises(ValueError, match=words):
            plain.probability_better(LEFT_ROWS, RIGHT_ROWS, **circumstances)
    with pytest.raises(ValueError, match="say who it is"):
        fitted(users=["ann"] * COUNT).predict(LEFT_ROWS, RIGHT_ROWS)
