"""Suggested duels, against joint draws in numpy and the command line. The formulas are tested in Rust."""

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import check_random_state

import riesz
from conftest import run, with_command
from riesz.kernels import RBF, Categorical
from riesz.preference import rankability


@pytest.fixture(scope="module")
def fighters():
    """Fighters with a strength and a style that is good against styles half a turn behind it, and bouts."""
    rng = np.random.default_rng(1)
    turn = rng.uniform(0, 2 * np.pi, 9)
    items = pd.DataFrame(
        {"across": np.cos(turn), "up": np.sin(turn), "strength": rng.normal(size=9)},
        index=pd.Index([f"fighter {i}" for i in range(9)], name="name"),
    )
    left, right = rng.integers(9, size=(2, 60))
    left, right = left[left != right], right[left != right]
    strength = items.strength.to_numpy()
    log_odds = 3 * np.sin(turn[left] - turn[right]) + strength[left] - strength[right]
    outcome = np.where(rng.random(len(left)) < 1 / (1 + np.exp(-log_odds)), "left", "right")
    bouts = pd.DataFrame({"left": items.index[left], "right": items.index[right], "outcome": outcome})
    return items, bouts


@pytest.fixture(scope="module")
def nested(fighters):
    items, bouts = fighters
    model = riesz.PreferenceClassifier(n_hyperparameter_samples=0, random_state=0)
    return model.fit(items, bouts)


def drawn_flows(model, items, count=4000):
    """Joint draws of the log odds of all pairs, from the general posterior of kernel expansions."""
    left, right = np.triu_indices(len(items), 1)
    pairs = model.pair_features(items.iloc[left], items.iloc[right])
    draws = model.expansion_.sample(pairs, count, random_state=5)
    flows = np.zeros((count, len(items), len(items)))
    flows[:, left, right] = draws.T
    return flows - flows.transpose(0, 2, 1)


def entropy(p):
    p = np.asarray(p)
    return -(p * np.log2(np.maximum(p, 1e-300))).sum(axis=-1)


def information(flows, value, pair):
    """The mutual information of an outcome and a value of each draw, from the joint distribution."""
    wins = 1 / (1 + np.exp(-flows[:, pair[0], pair[1]]))
    outcomes = np.column_stack([wins, 1 - wins])
    if value is None:
        return entropy(outcomes.mean(axis=0)) - entropy(outcomes).mean()
    joint = np.array([(outcomes * (value == v)[:, None]).mean(axis=0) for v in np.unique(value)])
    return entropy(joint.sum(axis=0)) + entropy(joint.sum(axis=1)) - entropy(joint.ravel())


def test_information_matches_joint_draws(fighters, nested):
    items, _ = fighters
    flows = drawn_flows(nested, items)
    wins = (flows > 0).sum(axis=2)
    winner = np.where(wins.max(axis=1) == 8, wins.argmax(axis=1), -1)
    cycles = 84 - (wins * (wins - 1) // 2).sum(axis=1)
    assert len(np.unique(winner)) > 3 and np.ptp(cycles) > 3
    values = {"best": winner, "ranking": None}
    for goal, value in values.items():
        suggestions = nested.suggest(items, 36, goal, n_samples=4000, random_state=1)
        assert len(suggestions) == 36 and (np.diff(suggestions.information) <= 0).all()
        position = {label: i for i, label in enumerate(items.index)}
        pairs = [(position[a], position[b]) for a, b in suggestions.pairs]
        assert len({tuple(sorted(pair)) for pair in pairs}) == 36
        expected = np.array([information(flows, value, pair) for pair in pairs])
        assert (abs(suggestions.information - expected) < 7 * suggestions.std_error + 3e-3).all()
        probability = 1 / (1 + np.exp(-np.array([flows[:, a, b] for a, b in pairs])))
        np.testing.assert_allclose(suggestions.probability, probability.mean(axis=1), atol=0.03)
    # The classes of the number of cycles are unions of numbers, so they have less information.
    suggestions = nested.suggest(items, 36, "cycles", n_samples=4000, random_state=1)
    numbers = [[list(items.index).index(label) for label in pair] for pair in suggestions.pairs]
    bound = np.array([information(flows, cycles, pair) for pair in numbers])
    assert (suggestions.information < bound + 7 * suggestions.std_error + 3e-3).all()
    assert suggestions.information[0] > 5 * suggestions.std_error[0]
    winners = rankability(nested, items, n_samples=4000, random_state=0).probability_condorcet
    np.testing.assert_allclose(winners, [(winner == i).mean() for i in range(9)], atol=0.04)


def test_labels_candidates_and_seeds(fighters, nested):
    items, _ = fighters
    first = nested.suggest(k=3, random_state=0)
    assert first.pairs == nested.suggest(items, 3, random_state=0).pairs
    assert repr(first).startswith("<riesz.DuelSuggestions: 3 about best, first fighter")
    assert list(first.to_frame().columns) == ["left", "right", "information", "std_error", "probability"]
    a, b = first.pairs[2]
    single = nested.suggest(candidates=[(b, a)], random_state=0)
    assert single.pairs == [(b, a)]
    np.testing.assert_allclose(single.information, first.information[2:])
    np.testing.assert_allclose(single.probability, 1 - first.probability[2:])
    among_three = nested.suggest(items.iloc[:3], k=10, goal="ranking", random_state=0)
    assert len(among_three) == 3 and set(among_three.left) | set(among_three.right) == set(items.index[:3])
    for error, arguments in [
        ("goal", {"goal": "worst"}),
        ("nobody", {"candidates": [("fighter 0", "nobody")]}),
        ("pair of two", {"candidates": [("fighter 0", "fighter 0")]}),
        ("k", {"k": 0}),
        ("n_samples", {"n_samples": 1}),
        ("users", {"users": "ann"}),
    ]:
        with pytest.raises(ValueError, match=error):
            nested.suggest(**arguments)
    with pytest.raises(ValueError, match="has no cycles"):
        riesz.PreferenceClassifier("utility").fit(*fighters).suggest(goal="cycles")
    landmarks = riesz.PreferenceClassifier("utility", n_landmarks=5).fit(*fighters)
    with pytest.raises(ValueError, match="suggest: a model through landmarks"):
        landmarks.suggest()


def test_users_have_suggestions_of_their_own():
    rng = np.random.default_rng(2)
    items = pd.DataFrame({"price": np.linspace(-1, 1, 6)}, index=list("abcdef"))
    pairs = rng.choice(6, size=(80, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    judge = rng.choice(["ann", "bob"], len(pairs))
    sign = np.where(judge == "ann", 3, -3)
    log_odds = sign * (items.price.to_numpy()[pairs[:, 0]] - items.price.to_numpy()[pairs[:, 1]])
    won = rng.random(len(pairs)) < 1 / (1 + np.exp(-log_odds))
    model = riesz.PreferenceClassifier("utility", random_state=0)
    model.fit(items, items.index.to_numpy()[pairs], outcome=won, users=judge)
    best = {user: set(model.suggest(users=user, random_state=0).pairs[0]) for user in ("ann", "bob")}
    assert best["ann"] & {"e", "f"} and best["bob"] & {"a", "b"}
    with pytest.raises(ValueError, match="users"):
        model.suggest()


def test_rock_paper_scissors_have_no_winner():
    hands = np.array(["rock", "paper", "scissors"])
    items = pd.DataFrame({"kind": hands[np.arange(6) % 3]}, index=[f"hand {i}" for i in range(6)])
    beats = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    duels = [(a, b) for a in items.index for b in items.index if (items.kind[a], items.kind[b]) in beats]
    model = riesz.PreferenceClassifier(kernel=Categorical(), ability=False).fit(items, duels * 5)
    three = rankability(model, items.iloc[:3], random_state=0)
    assert three.probability_condorcet.sum() < 0.4  # 0.75 for random outcomes
    assert (three.probability_condorcet_std_error < 0.05).all()
    assert "probability_condorcet" in three.to_frame()
    ranked = riesz.PreferenceClassifier("utility", kernel=RBF([1.0]), ability=False)
    ranked = rankability(ranked.fit(np.arange(4.0)[:, None], [(3, 2), (2, 1), (1, 0)]), random_state=0)
    np.testing.assert_array_equal(ranked.probability_condorcet, ranked.probability_best)


@with_command
@pytest.mark.parametrize("kind", ["names", "nested", "users"])
def test_suggestions_match_the_command_line(fighters, tmp_path, kind):
    items, bouts = fighters
    items.to_csv(tmp_path / "items.csv")
    bouts.assign(judge=np.resize(["ann", "bob"], len(bouts))).to_csv(tmp_path / "bouts.csv", index=False)
    pd.DataFrame({"left": items.index[:4], "right": items.index[4:8]}).to_csv(
        tmp_path / "some.csv", index=False
    )
    tables = "bouts.csv" if kind == "names" else "items.csv bouts.csv --id name"
    users = "--users judge --model utility" if kind == "users" else ""
    run(tmp_path, f"prefer fit {tables} {users} -o m.riesz")
    seed = check_random_state(3).randint(2**31 - 1)
    arguments = f"prefer suggest m.riesz {'' if kind == 'names' else 'items.csv'} --seed {seed} --samples 300"
    arguments += " --user ann" if kind == "users" else ""
    model = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    options = {"items": None if kind == "names" else items, "n_samples": 300, "random_state": 3}
    options |= {"users": "ann"} if kind == "users" else {}
    for goal in ("best", "ranking") + ("cycles",) * (kind == "nested"):
        text = run(tmp_path, f"{arguments} --goal {goal} --count 4")
        ours = model.suggest(k=4, goal=goal, **options).to_frame()
        pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(text)), ours, rtol=1e-9, atol=1e-12)
    text = run(tmp_path, f"{arguments} --candidates some.csv --count 9 --format text")
    ours = model.suggest(k=9, candidates=list(zip(items.index[:4], items.index[4:8])), **options).to_frame()
    assert len(ours) == 4 and f"{ours.information[0]:.4f}" in text.splitlines()[1]
    assert "bits" in text.splitlines()[-1]
