"""Equal numbers from both front ends, Python and the command line: tables of duels, model files, evaluations,
result files and pages."""

import io
import json
import pickle
import subprocess

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_random_state

import riesz
from conftest import COMMAND, run, with_command
from riesz.kernels import RBF
from riesz.preference import PairClassifier, compare_models, evaluate, pair_groups, rankability, spec_r


@pytest.fixture
def votes():
    """Votes between seven models, as tables of arenas have them; the first model is the best."""
    rng = np.random.default_rng(4)
    names = [f"model-{letter}" for letter in "abcdefg"]
    left, right = rng.integers(7, size=(2, 260))
    left, right = left[left != right], right[left != right]
    won = rng.random(len(left)) < 1 / (1 + np.exp(0.6 * (left - right)))
    words = np.where(won, "model_a", "model_b").astype(object)
    words[::17], words[5::31] = "tie", "tie (bothbad)"
    frame = pd.DataFrame({"id": range(len(left)), "model_a": np.array(names)[left]})
    return frame.assign(model_b=np.array(names)[right], winner=words)


@pytest.fixture
def players():
    """Players with two properties, and matches between them."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(12, 2)), columns=["power", "speed"])
    frame.index = pd.Index([f"p{i}" for i in range(12)], name="name")
    left, right = rng.integers(12, size=(2, 160))
    left, right = left[left != right], right[left != right]
    log_odds = 2 * (frame.power.to_numpy()[left] - frame.power.to_numpy()[right])
    won = rng.random(len(left)) < 1 / (1 + np.exp(-log_odds))
    matches = pd.DataFrame({"left": frame.index[left], "right": frame.index[right]})
    return frame, matches.assign(
        outcome=np.where(won, "left", "right"), season=rng.integers(4, size=len(left))
    )


# Tables of duels
# ----------------------------------------------------------------------------------------------------------


def test_layouts_of_votes_give_the_same_model(votes):
    outcome = votes.winner.map({"model_a": 1, "model_b": 0}).fillna(0.5).to_numpy()
    pairs = votes[["model_a", "model_b"]].to_numpy()
    expected = riesz.PreferenceClassifier("bradley_terry").fit(None, pairs, outcome=outcome).abilities_
    renamed = votes.rename(columns={"model_a": "left", "model_b": "right", "winner": "outcome"})
    untied = votes[~votes.winner.str.startswith("tie")]
    first = untied.winner == "model_a"
    winners = pd.DataFrame(
        {
            "loser": np.where(first, untied.model_b, untied.model_a),
            "winner": np.where(first, untied.model_a, untied.model_b),
        }
    )
    fit = lambda duels, **arguments: (
        riesz.PreferenceClassifier("bradley_terry").fit(None, duels, **arguments).abilities_
    )
    numbers = renamed.assign(outcome=outcome)
    for duels in (votes, renamed, numbers, pl.from_pandas(votes), pl.from_pandas(votes).lazy()):
        assert fit(duels) == expected
    renamed_votes = votes.set_axis(["id", "one", "other", "vote"], axis=1)
    assert fit(renamed_votes, sides=("one", "other"), outcome="vote") == expected
    named = renamed.assign(outcome=np.where(outcome == 1, renamed.left, renamed.right)).loc[outcome != 0.5]
    only = pairs[outcome != 0.5]
    assert fit(named) == fit(only, outcome=outcome[outcome != 0.5]) == fit(winners)
    weighted = votes.assign(weight=np.linspace(1, 2, len(votes)))
    assert fit(weighted, sample_weight="weight") == fit(pairs, outcome=outcome, sample_weight=weighted.weight)
    counts = pd.DataFrame({"left": ["x", "y"], "right": ["y", "z"], "a": [3, 1], "b": [1, 2]})
    assert fit(counts, wins=["a", "b"]) == fit(counts[["left", "right"]].to_numpy(), wins=counts[["a", "b"]])


def test_all_functions_of_duels_take_tables(players):
    items, matches = players
    outcome = (matches.outcome == "left").to_numpy()
    pairs = matches[["left", "right"]].to_numpy()
    settings = {"kernel": RBF([1.0, 1.0]), "optimizer": None}
    assert compare_models(items, matches, **settings) == compare_models(
        items, pairs, outcome=outcome, **settings
    )
    assert spec_r(matches, random_state=0).value == spec_r(pairs, outcome=outcome, random_state=0).value
    assert (pair_groups(matches) == pair_groups(pairs)).all()
    from sklearn.linear_model import LogisticRegression

    fitted = [
        PairClassifier(LogisticRegression()).fit(items, matches),
        PairClassifier(LogisticRegression()).fit(items, pairs, outcome=outcome),
    ]
    assert (fitted[0].estimator_.coef_ == fitted[1].estimator_.coef_).all()


def test_columns_of_contexts_users_and_homes_are_named(players):
    items, matches = players
    matches = matches.assign(
        at=np.resize(["left", "right", "none"], len(matches)), judge=np.resize(["u", "v"], len(matches))
    )
    model = riesz.PreferenceClassifier("utility", kernel=RBF([1.0, 1.0]), optimizer=None)
    named = model.fit(items, matches, contexts=["season"], users="judge", home="at").decision_function(
        "p0", "p1", contexts=[[1]], users="u", home="left"
    )
    arguments_given = model.fit(
        items,
        matches[["left", "right"]].to_numpy(),
        outcome=matches.outcome,
        contexts=matches[["season"]],
        users=matches.judge,
        home=matches["at"],
    ).decision_function(items.loc[["p0"]], items.loc[["p1"]], contexts=[[1]], users="u", home="left")
    assert named == arguments_given


def test_tables_without_duels_are_refused(votes, players):
    model = riesz.PreferenceClassifier("bradley_terry")
    with pytest.raises(ValueError, match="'winner' and 'loser', or 'left', 'right' and 'outcome'"):
        model.fit(None, votes.rename(columns={"model_a": "a"}))
    with pytest.raises(ValueError, match="need the column 'winner'"):
        model.fit(None, votes.drop(columns="winner"))
    with pytest.raises(ValueError, match="no column 'vote'.*model_a"):
        model.fit(None, votes, outcome="winner", sample_weight="vote")
    with pytest.raises(ValueError, match="sides are names of columns"):
        model.fit(None, [("a", "b")], sides=("left", "right"))
    with pytest.raises(ValueError, match="already say who won"):
        model.fit(None, pd.DataFrame({"winner": ["a"], "loser": ["b"]}), outcome=[1])
    items, matches = players
    with pytest.raises(ValueError, match="set_index"):
        riesz.PreferenceClassifier().fit(items.reset_index(drop=True), matches)


# Names
# ----------------------------------------------------------------------------------------------------------


def test_names_stand_for_items_of_the_fit(players):
    items, matches = players
    model = riesz.PreferenceClassifier(kernel=RBF([1.0, 1.0]), optimizer=None).fit(items, matches)
    player, opponents = items.loc[["p3"]], items.loc[["p7", "p1"]]
    for method in (
        model.predict_proba,
        model.decision_function,
        model.probability_better,
        model.pair_features,
    ):
        assert (method("p3", ["p7", "p1"]) == method(player, opponents)).all()
    named, unnamed = model.explain("p3", "p7"), model.explain(player, items.loc[["p7"]])
    assert (named.values == unnamed.values).all() and named.duels[0].left == "p3"
    assert rankability(model, random_state=0).items == list(items.index)
    chosen = rankability(model, ["p1", "p2", "p3"], random_state=0)
    np.testing.assert_allclose(
        chosen.utility, rankability(model, items.loc[["p1", "p2", "p3"]], random_state=0).utility
    )
    with pytest.raises(ValueError, match="no item 'p99'.*'p0'"):
        model.predict_proba("p99", "p1")
    nameless = riesz.PreferenceClassifier(kernel=RBF([1.0, 1.0]), optimizer=None).fit(
        items.to_numpy(), [(0, 1), (1, 2)]
    )
    with pytest.raises(ValueError, match="which had none"):
        nameless.predict_proba("p1", "p2")


def test_rows_of_categories_are_no_names():
    items = pd.DataFrame({"kind": ["x", "y", "x"], "form": ["r", "s", "s"]}, index=["a", "b", "c"])
    model = riesz.PreferenceClassifier().fit(items, [("a", "b"), ("c", "b"), ("a", "c")])
    row = model.predict_proba(pd.DataFrame({"kind": ["x"], "form": ["s"]}), "b")
    assert (model.predict_proba("c", "b") == row).all()


# The contract of scikit-learn
# ----------------------------------------------------------------------------------------------------------


def test_score_is_the_accuracy_of_decided_duels(votes):
    model = riesz.PreferenceClassifier("bradley_terry").fit(None, votes)
    assert is_classifier(model) and list(model.classes_) == ["right", "left"]
    untied = votes[~votes.winner.str.startswith("tie")]
    predicted = model.predict(list(untied.model_a), list(untied.model_b))
    accuracy = np.mean((predicted == "left") == (untied.winner == "model_a"))
    score = lambda outcomes: model.score(list(votes.model_a), list(votes.model_b), outcomes)
    assert score(votes.winner) == accuracy
    named = np.where(votes.winner == "model_a", votes.model_a, votes.model_b)
    assert score(np.where(votes.winner.str.startswith("tie"), "tie", named)) == accuracy
    with pytest.raises(ValueError, match="all duels are ties"):
        model.score("model-a", "model-b", ["tie"])


def test_ties_are_a_class_of_models_of_ties(players):
    items, matches = players
    matches = matches.assign(outcome=np.where(np.arange(len(matches)) % 3 == 0, "tie", matches.outcome))
    model = riesz.PreferenceClassifier("utility", ties="model", kernel=RBF([1.0, 1.0])).fit(items, matches)
    left, right = items.loc[matches.left], items.loc[matches.right]
    assert model.score(left, right, matches.outcome) == np.mean(model.predict(left, right) == matches.outcome)


# Model files
# ----------------------------------------------------------------------------------------------------------


@with_command
@pytest.mark.parametrize("kind", ["plain", "ability and home", "contexts", "ties", "bradley_terry"])
def test_model_files_are_read_by_both_front_ends(players, tmp_path, kind):
    items, matches = players
    home = np.resize(["left", "right", "none"], len(matches))
    arguments, predicted, options = {}, {}, ""
    parameters = {"kernel": RBF([1.0, 1.0])}
    if kind == "ability and home":
        parameters["ability"], arguments["home"], predicted["home"] = True, home, "right"
        options = "--at-home right"
    elif kind == "contexts":
        arguments["contexts"], predicted["contexts"] = matches[["season"]], pd.DataFrame({"season": [2]})
        options = "--context season=2"
    elif kind == "ties":
        parameters["ties"] = "model"
        matches = matches.assign(outcome=np.where(np.arange(len(matches)) % 3 == 0, "tie", matches.outcome))
    elif kind == "bradley_terry":
        parameters = {"model": kind}
    model = riesz.PreferenceClassifier(**parameters).fit(items, matches, **arguments)
    model.save(tmp_path / "m.riesz")
    items.to_csv(tmp_path / "items.csv")
    text = run(tmp_path, f"prefer predict m.riesz items.csv --left p2 --right p5 {options}")
    printed = pd.read_csv(io.StringIO(text)).iloc[0]
    sides = ("p2", "p5") if kind == "bradley_terry" else (items.loc[["p2"]], items.loc[["p5"]])
    again = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    for fitted in (model, again):
        mean, std = fitted.decision_function(*sides, return_std=True, **predicted)
        np.testing.assert_allclose(
            [mean[0] - fitted.margin_ if kind == "ties" else mean[0], std[0]],
            [printed.log_odds, printed.log_odds_std],
            rtol=1e-9,
        )
        np.testing.assert_allclose(
            fitted.predict_proba(*sides, **predicted)[0, 1], printed.probability, rtol=1e-9
        )
    assert again.get_params()["ties"] == model.ties
    assert again.ability == (kind != "bradley_terry" and model.ability_variance_ > 0)
    assert list(again.classes_) == list(model.classes_) and again.model == model.model
    assert again.groups_ == model.groups_
    explained = again.explain(*sides, items if kind != "bradley_terry" else None, **predicted)
    expected = model.explain(*sides, items if kind != "bradley_terry" else None, **predicted)
    np.testing.assert_array_equal(explained.values, expected.values)


@with_command
def test_files_of_the_command_line_are_loaded(players, votes, tmp_path):
    items, matches = players
    items.to_csv(tmp_path / "items.csv")
    matches.to_csv(tmp_path / "matches.csv", index=False)
    run(tmp_path, "prefer fit items.csv matches.csv --ability --users season -o m.riesz")
    model = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    assert model.model == "nested" and model.ability
    text = run(tmp_path, "prefer predict m.riesz items.csv --left p2 --right p5 --context season=3")
    printed = pd.read_csv(io.StringIO(text)).iloc[0]
    probability = model.predict_proba(items.loc[["p2"]], items.loc[["p5"]], users="3")
    np.testing.assert_allclose(probability[0, 1], printed.probability, rtol=1e-9)
    votes.to_json(tmp_path / "battles.jsonl", orient="records", lines=True)
    run(tmp_path, "prefer fit battles.jsonl -o v.riesz")
    model = riesz.PreferenceClassifier.load(tmp_path / "v.riesz")
    ours = riesz.PreferenceClassifier("bradley_terry").fit(None, votes)
    for name, ability in ours.abilities_.items():
        np.testing.assert_allclose(model.abilities_[name], ability, atol=1e-9)
    assert rankability(model, random_state=0).items == sorted(ours.abilities_)


def test_files_without_the_model_of_duels_are_refused(data, players, tmp_path):
    X, y = data
    riesz.KernelRidge().fit(X, y).expansion_.save(tmp_path / "ridge.riesz")
    with pytest.raises(ValueError, match="no model of duels"):
        riesz.PreferenceClassifier.load(tmp_path / "ridge.riesz")
    items, matches = players
    model = riesz.PreferenceClassifier(kernel=RBF([1.0, 1.0]), optimizer=None).fit(items, matches)
    model.save(tmp_path / "mean.riesz", posterior=False)
    again = riesz.PreferenceClassifier.load(tmp_path / "mean.riesz")
    assert (
        again.decision_function(items[:1], items[1:2]) == model.decision_function(items[:1], items[1:2])
    ).all()
    with pytest.raises(ValueError, match="posterior"):
        again.predict_proba(items[:1], items[1:2])
    model.save(tmp_path / "m.riesz")
    loaded = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    with pytest.raises(ValueError, match="does not hold their names"):
        rankability(loaded)
    with pytest.raises(ValueError, match="posterior"):
        rankability(again, items)
    assert (rankability(loaded, items, random_state=0).rank == rankability(model, random_state=0).rank).all()


# Ranks and evaluations
# ----------------------------------------------------------------------------------------------------------


@with_command
def test_ranks_match_the_command_line(votes, tmp_path):
    votes.to_json(tmp_path / "battles.jsonl", orient="records", lines=True)
    seed = check_random_state(3).randint(2**31 - 1)
    printed = pd.read_csv(io.StringIO(run(tmp_path, f"prefer rank battles.jsonl --seed {seed}")))
    model = riesz.PreferenceClassifier("bradley_terry").fit(None, votes)
    ours = rankability(model, random_state=3).to_frame()
    assert list(printed.columns) == list(ours.columns) and list(printed.item) == list(ours.item)
    pd.testing.assert_frame_equal(
        printed.drop(columns="item"), ours.drop(columns="item"), rtol=1e-9, atol=1e-9
    )


@with_command
@pytest.mark.parametrize("kind", ["names", "nested", "utility", "linear", "ability", "bradley-terry"])
def test_saved_models_are_ranked(players, votes, tmp_path, kind):
    items, matches = players
    items.to_csv(tmp_path / "items.csv")
    matches.to_csv(tmp_path / "matches.csv", index=False)
    votes.to_json(tmp_path / "votes.jsonl", orient="records", lines=True)
    model_option = "" if kind in ("names", "ability") else f"--model {kind}"
    tables = "votes.jsonl" if kind == "names" else f"items.csv matches.csv {model_option}"
    seed = check_random_state(3).randint(2**31 - 1)
    run(tmp_path, f"prefer fit {tables} {'--ability' * (kind == 'ability')} --seed {seed} -o m.riesz")
    # The file holds names if these are a column of the model.
    has_names = kind in ("names", "ability", "bradley-terry")
    text = run(tmp_path, f"prefer rank m.riesz {'' if has_names else 'items.csv'} --seed {seed}")
    printed = pd.read_csv(io.StringIO(text))
    model = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    ours = rankability(model, None if has_names else items, random_state=3).to_frame()
    pd.testing.assert_frame_equal(printed, ours, rtol=1e-9, atol=1e-9)
    if kind in ("names", "nested"):
        again = run(tmp_path, f"prefer rank {tables.replace(model_option, '')} --seed {seed}")
        assert again == text
    if kind == "nested":
        shown = run(tmp_path, f"prefer rank m.riesz items.csv --seed {seed} --format text").splitlines()
        assert shown[0].split("  ")[0] == "rank" and shown[1].split()[0] == "1"
        assert printed.item[0] in shown[1] and f"{printed.utility[0]:.2f}" in shown[1]
        assert f"{printed.probability_best[0]:.3f}" in shown[1] and "10000 samples" in shown[-1]
        selected = items.iloc[[3, 1, 7]]
        selected.to_csv(tmp_path / "selected.csv")
        three = pd.read_csv(io.StringIO(run(tmp_path, "prefer rank m.riesz selected.csv")))
        assert set(three["item"]) == set(selected.index) and abs(three.utility.sum()) < 1e-9


@with_command
def test_users_are_compared_and_ranked(players, tmp_path):
    _, matches = players
    matches = matches.assign(judge=np.resize(["ann", "bob", "bob"], len(matches)))
    swapped = {"left": "right", "right": "left"}
    is_ann = matches.judge == "ann"
    matches["outcome"] = np.where(is_ann, matches.outcome.map(swapped), matches.outcome)
    votes = matches.drop(columns="season")
    votes.to_csv(tmp_path / "votes.csv", index=False)
    seed = check_random_state(3).randint(2**31 - 1)
    done = subprocess.run(
        [COMMAND, *f"prefer rank votes.csv --users judge --seed {seed}".split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    comparison = compare_models(None, votes, users="judge")
    assert comparison.log_bayes_factor_users > 3 and comparison.nested is None
    assert comparison.verdicts[0].startswith("users differ: ") and comparison.verdicts[0] in done.stderr
    assert str(comparison) == comparison.verdicts[0] and comparison.log_bayes_factor_cyclic is None
    printed = pd.read_csv(io.StringIO(done.stdout))
    model = riesz.PreferenceClassifier("utility", random_state=3).fit(None, votes, users="judge")
    for judge in ("ann", "bob"):
        ours = rankability(model, users=judge, random_state=3).to_frame()
        theirs = printed[printed.user == judge].drop(columns="user").reset_index(drop=True)
        assert list(ours["item"]) == list(theirs["item"])
        pd.testing.assert_frame_equal(ours[["rank", "utility"]], theirs[["rank", "utility"]], rtol=1e-5)
    # Ann's order is the opposite of Bob's.
    utility = printed.pivot(index="item", columns="user", values="utility")
    assert utility.corr().loc["ann", "bob"] < 0
    run(tmp_path, f"prefer fit votes.csv --users judge --model utility --seed {seed} -o m.riesz")
    again = pd.read_csv(io.StringIO(run(tmp_path, f"prefer rank m.riesz --seed {seed}")))
    pd.testing.assert_frame_equal(again, printed, rtol=1e-9)
    # A user of a prediction, from the command and from a table with another name of the column.
    direct = run(tmp_path, "prefer predict m.riesz --left p1 --right p2 --user ann")
    (tmp_path / "ask.csv").write_text("left,right,who\np1,p2,ann\n")
    assert run(tmp_path, "prefer predict m.riesz ask.csv --users who") == direct
    loaded = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    expected = loaded.predict_proba("p1", ["p2"], users="ann")[0, 1]
    np.testing.assert_allclose(pd.read_csv(io.StringIO(direct)).probability[0], expected, rtol=1e-9)
    with pytest.raises(ValueError, match="say who it is, users="):
        rankability(model)
    with pytest.raises(ValueError, match="give users, or items"):
        compare_models(None, votes)


@with_command
@pytest.mark.parametrize("options", ["--model utility", "--model nested", "--model utility --users season"])
def test_defaults_of_both_front_ends_give_the_same_fit(players, tmp_path, options):
    items, matches = players
    items = items.assign(speed=100 * items.speed, kind=np.resize(["a", "b", "c"], len(items)))
    if options.endswith("nested"):
        # Most items are equal, so the median distance is 0.
        items = pd.DataFrame({"tuned": np.where(items.power > 0.8, 1.0, 0.0)}, index=items.index)
    items.to_csv(tmp_path / "items.csv")
    matches.to_csv(tmp_path / "matches.csv", index=False)
    run(tmp_path, f"prefer fit items.csv matches.csv {options} --hyperparameter-samples 0 -o m.riesz")
    users = "season" if "--users" in options else None
    ours = riesz.PreferenceClassifier(options.split()[1], n_hyperparameter_samples=0)
    ours.fit(items, matches, users=users)
    theirs = riesz.PreferenceClassifier.load(tmp_path / "m.riesz").expansion_
    card = dict(theirs._core.card)
    np.testing.assert_allclose(
        float(card["log marginal likelihood"]), ours.log_marginal_likelihood_value_, rtol=1e-6
    )
    np.testing.assert_allclose(
        float(card["prior variance of the utility"]), ours.utility_variance_, rtol=1e-6
    )
    np.testing.assert_allclose(theirs.coef, ours.expansion_.coef, rtol=1e-9)


@with_command
def test_bradley_terry_has_two_spellings(players, tmp_path):
    items, matches = players
    items.to_csv(tmp_path / "items.csv")
    matches.to_csv(tmp_path / "matches.csv", index=False)
    printed = []
    for spelling in ("bradley-terry", "bradley_terry"):
        run(tmp_path, f"prefer fit items.csv matches.csv --model {spelling} -o m.riesz")
        printed.append(run(tmp_path, "prefer predict m.riesz --left p1 --right p2"))
        printed.append(run(tmp_path, "prefer predict m.riesz items.csv --left p1 --right p2"))
        model = riesz.PreferenceClassifier(spelling).fit(items, matches)
        probability = pd.read_csv(io.StringIO(printed[-1])).probability[0]
        np.testing.assert_allclose(model.predict_proba("p1", "p2")[0, 1], probability, rtol=1e-9)
        scores = evaluate(items, matches, models=[spelling, "coin"], n_repeats=1)
        assert list(scores.log_loss) == [spelling, "coin"]
        table = run(tmp_path, f"prefer evaluate items.csv matches.csv --models {spelling} --repeats 1")
        assert table.splitlines()[1].startswith("bradley-terry,")
    assert len(set(printed)) == 1


@with_command
def test_items_with_names_only_have_homes_and_ties(players, tmp_path):
    _, matches = players
    matches = matches.assign(at=np.resize(["left", "right", "none"], len(matches)))
    matches.loc[::9, "outcome"] = "tie"
    matches.drop(columns="season").to_csv(tmp_path / "games.csv", index=False)
    options = "--home at --ties model"
    seed = check_random_state(3).randint(2**31 - 1)
    printed = pd.read_csv(io.StringIO(run(tmp_path, f"prefer rank games.csv {options} --seed {seed}")))
    model = riesz.PreferenceClassifier("utility", ties="model", random_state=3)
    model.fit(None, matches, home="at")
    assert model.utility_variance_ == 0 and model.ability_variance_ > 0 and model.home_variance_ > 0
    ours = rankability(model, random_state=3).to_frame()
    assert list(printed.item) == list(ours.item)
    columns = ["rank", "utility", "elo"]
    pd.testing.assert_frame_equal(printed[columns], ours[columns], rtol=1e-5)
    run(tmp_path, f"prefer fit games.csv {options} --seed {seed} -o m.riesz")
    again = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    model.save(tmp_path / "ours.riesz")
    printed = run(tmp_path, "prefer predict ours.riesz --left p1 --right p2 --at-home left")
    printed = pd.read_csv(io.StringIO(printed)).iloc[0]
    for fitted in (model, again, riesz.PreferenceClassifier.load(tmp_path / "ours.riesz")):
        probabilities = fitted.predict_proba("p1", ["p2"], home="left")[0]
        np.testing.assert_allclose(
            probabilities[[1, 2]], [printed.probability, printed.probability_tie], rtol=1e-5
        )
    with pytest.raises(ValueError, match="ability=True"):
        riesz.PreferenceClassifier("generalised").fit(None, matches)


def test_elo_ratings_are_abilities_on_another_scale(votes):
    model = riesz.PreferenceClassifier("bradley_terry").fit(None, votes)
    ranking = rankability(model, random_state=0)
    rating, interval = ranking.elo(1000)
    np.testing.assert_allclose(rating.mean(), 1000)
    rating_of = dict(zip(ranking.items, rating))
    # The expected score of the Elo system is the probability of the model.
    expected = 1 / (1 + 10 ** ((rating_of["model-c"] - rating_of["model-a"]) / 400))
    odds = model.decision_function("model-a", "model-c")[0]
    np.testing.assert_allclose(expected, 1 / (1 + np.exp(-odds)), rtol=1e-12)
    np.testing.assert_allclose(
        (interval - 1000) / (rating[:, None] - 1000), ranking.utility_interval / ranking.utility[:, None]
    )
    np.testing.assert_allclose(ranking.elo(0, scale=np.log(10))[0], ranking.utility)
    assert "7 items, best model-a" in repr(ranking) and "<table" in ranking._repr_html_()
    assert "a perfect ranking" in repr(spec_r(votes)) and "<table" in spec_r(votes)._repr_html_()


@with_command
@pytest.mark.parametrize("split", ["pairs", "duels", "items", "context"])
def test_evaluations_match_the_command_line(players, tmp_path, split):
    items, matches = players
    items.to_csv(tmp_path / "items.csv")
    matches.to_csv(tmp_path / "matches.csv", index=False)
    split_by = "season" if split == "context" else None
    option = f"--split {split}" + ("=season" if split_by else "")
    printed = run(
        tmp_path,
        "prefer evaluate items.csv matches.csv --repeats 2 --seed 5 --no-standardise --no-tuning "
        f"--kernel rbf(length_scale=1.2) --models nested,utility,bradley-terry,linear,coin {option}",
    )
    ours = evaluate(
        items,
        matches,
        models=["nested", "utility", "bradley_terry", "linear", "coin"],
        split=split,
        split_by=split_by,
        n_repeats=2,
        random_state=5,
        kernel=RBF(1.2),
        optimizer=None,
    )
    printed = pd.read_csv(io.StringIO(printed)).set_index("model")
    frame = ours.to_frame().set_index("model").rename(index={"bradley_terry": "bradley-terry"})
    pd.testing.assert_frame_equal(printed, frame, rtol=1e-7)
    assert (
        min(ours.log_loss_difference.values()) == 0 and max(ours.log_loss_difference_std_error.values()) > 0
    )
    assert "accuracy" in str(ours) and "<table" in ours._repr_html_()


def test_evaluations_by_time_and_of_any_estimator(players):
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    items, matches = players
    day = pd.Series(pd.date_range("2024-01-01", periods=len(matches))).dt.strftime("%Y-%m-%d")
    models = {"logistic": PairClassifier(LogisticRegression())}
    matches = matches.assign(day=day)
    result = evaluate(items, matches, models=models, split="time", split_by="day", test_size=0.25)
    first = len(matches) - round(0.25 * len(matches))
    fitted = PairClassifier(LogisticRegression()).fit(items, matches[:first])
    later = matches[first:]
    probability = fitted.predict_proba(items.loc[later.left], items.loc[later.right])
    expected = log_loss((later.outcome == "left").astype(int), probability, labels=[0, 1])
    np.testing.assert_allclose(result.log_loss["logistic"], expected, rtol=1e-12)
    assert result.std == {} and result.n_splits == 1
    with pytest.raises(ValueError, match="needs split_by"):
        evaluate(items, matches, split="time")
    with pytest.raises(ValueError, match="'forest' is none of"):
        evaluate(items, matches, models=["forest"])
    with pytest.raises(ValueError, match="at least 1"):
        evaluate(items, matches, n_repeats=0)
    with pytest.raises(ValueError, match="share of the test"):
        evaluate(items, matches, test_size=2.0, models=["coin"])


# Result files and pages
# ----------------------------------------------------------------------------------------------------------


def provenance_removed(page):
    """Returns a page without the cards of the model and of the run, which name files."""
    cards = '<section class="cards">'
    assert page.count(cards) == 1
    return page[: page.index(cards)]


@with_command
def test_pages_and_files_of_tests_match_the_command_line(tmp_path):
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    z = pd.DataFrame(rng.normal(size=(50, 3)) + [1.0, 0, 0], columns=["a", "b", "c"])
    x.to_csv(tmp_path / "x.csv", index=False)
    z.to_csv(tmp_path / "z.csv", index=False)
    test = riesz.mmd_test(x, z, n_permutations=200)
    names = ("x.csv", "z.csv")
    for suffix in ("json", "html"):
        run(tmp_path, f"test two-sample x.csv z.csv --permutations 200 --seed 0 -o printed.{suffix}")
    test.save(tmp_path / "ours.json", names)
    printed, ours = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("printed", "ours"))
    del (
        printed["attributions"]["explanation"]["provenance"],
        ours["attributions"]["explanation"]["provenance"],
    )
    assert printed == ours
    test.report(tmp_path / "ours.html", names=names)
    printed, ours = ((tmp_path / f"{name}.html").read_text() for name in ("printed", "ours"))
    assert provenance_removed(printed) == provenance_removed(ours) and len(ours) > 10_000
    y = x.a**2 + 0.1 * rng.normal(size=40)
    x.assign(y=y).to_csv(tmp_path / "xy.csv", index=False)
    run(tmp_path, "test independence xy.csv --target y --permutations 200 --seed 0 -o printed.html")
    dependence = riesz.hsic_test(x, y.rename("y"), n_permutations=200)
    dependence.report(tmp_path / "ours.html")
    printed, ours = ((tmp_path / f"{name}.html").read_text() for name in ("printed", "ours"))
    assert provenance_removed(printed) == provenance_removed(ours) and "What y depends on" in ours
    kept = pickle.loads(pickle.dumps(test))
    kept.report(tmp_path / "kept.html", "A title")
    assert "<title>A title</title>" in (tmp_path / "kept.html").read_text()
    with pytest.raises(ValueError, match="ends in .txt"):
        test.report(tmp_path / "page.txt")
    with pytest.raises(ValueError, match="attribution='significance'"):
        riesz.mmd_test(x, z, attribution=None, n_permutations=20).report(tmp_path / "p.html")


@with_command
def test_pages_and_files_of_importance_match_the_command_line(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    model = riesz.GaussianProcessRegressor(optimizer=None).fit(frame, y)
    model.expansion_.save(tmp_path / "m.riesz", posterior=True)
    for target, result in [
        ("", riesz.sobol_indices(model.expansion_, frame)),
        (" --target y --background-rows 500", riesz.sage_values(model.expansion_, frame, y)),
    ]:
        for suffix in ("json", "html"):
            run(tmp_path, f"importance m.riesz data.csv{target} --seed 0 -o printed.{suffix}")
            getattr(result, "save" if suffix == "json" else "report")(tmp_path / f"ours.{suffix}")
        printed, ours = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("printed", "ours"))
        for record in (printed, ours):
            record.get("explanation", {}).pop("provenance", None)
        assert printed == ours
        printed, ours = ((tmp_path / f"{name}.html").read_text() for name in ("printed", "ours"))
        assert provenance_removed(printed) == provenance_removed(ours) and len(ours) > 10_000
        kept = pickle.loads(pickle.dumps(result))
        kept.save(tmp_path / "kept.json")
        assert (tmp_path / "kept.json").read_text() == (tmp_path / "ours.json").read_text()
        assert repr(result).startswith("<riesz.S") and "<table" in result._repr_html_()


@with_command
@pytest.mark.parametrize("counts", [False, True])
def test_pages_and_pictures_of_maps_match_the_command_line(tmp_path, counts):
    rng = np.random.default_rng(3)
    bag = np.repeat([f"d{b}" for b in range(8)], 5)
    rows = pd.DataFrame({"rain": rng.normal(size=40), "height": rng.normal(size=40), "district": bag})
    rows = rows.assign(people=rng.uniform(1, 3, 40), east=rng.normal(size=40), north=rng.normal(size=40))
    bags = pd.DataFrame({"district": [f"d{b}" for b in range(8)]})
    if counts:
        bags["cases"] = rng.poisson(6, size=8)
        model = riesz.AggregateCountProcess(n_hyperparameter_samples=0)
    else:
        bags["cases"] = rng.normal(size=8)
        model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0)
    features = ["rain", "height", "district", "people"]
    model.fit(rows[features], bags, bag="district", target="cases", weight="people")
    model.save(tmp_path / "m.riesz", posterior=True)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    bags.to_csv(tmp_path / "bags.csv", index=False)
    places = "m.riesz rows.csv --x east --y north"
    run(tmp_path, f"downscale map {places} -o printed.html")
    model.report(tmp_path / "ours.html", rows, "east", "north")
    printed, ours = ((tmp_path / f"{name}.html").read_text() for name in ("printed", "ours"))
    assert provenance_removed(printed) == provenance_removed(ours) and len(ours) > 10_000
    table = "--bag district --weight people --bags bags.csv --target cases --background rows.csv"
    run(tmp_path, f"downscale map {places} {table} -o printed.html")
    observed = bags.set_index("district").cases
    settings = {"bag": "district", "weight": "people", "observed": observed, "background": rows}
    model.report(tmp_path / "ours.html", rows, "east", "north", **settings)
    printed, ours = ((tmp_path / f"{name}.html").read_text() for name in ("printed", "ours"))
    assert provenance_removed(printed) == provenance_removed(ours) and "d7" in ours
    for quantity, option in [("mean", "mean"), ("std", "std"), ("rain", "rain")]:
        run(tmp_path, f"downscale map {places} --of {option} -o printed.svg")
        model.save_map(tmp_path / "ours.svg", rows, rows.east, rows.north, quantity=quantity)
        assert (tmp_path / "printed.svg").read_text() == (tmp_path / "ours.svg").read_text()
    with pytest.raises(ValueError, match="no such column"):
        model.report(tmp_path / "p.html", rows, "west", "north")
    with pytest.raises(ValueError, match="'mean', 'std' or a feature"):
        model.save_map(tmp_path / "p.svg", rows, "east", "north", quantity="cold")


def test_paths_of_protection_are_shown(data):
    X, y = data
    model = riesz.KernelRidge(protect=["x0"])
    path = riesz.protection_path(model, X, y, [0.0, 1.0])
    assert "x0 protected, by strength:" in repr(path) and "<table" in path._repr_html_()
    np.testing.assert_array_equal(path.to_frame()["x0"], path.importances[:, 0])


# Functions
# ----------------------------------------------------------------------------------------------------------


def test_indices_of_a_function_are_those_of_its_model(data):
    X, y = data
    model = riesz.KernelRidge(kernel=RBF([1.0, 2.0, 1.0, 1.0]), alpha=0.1).fit(X, y)
    exact = riesz.sobol_indices(model, X)
    estimated = riesz.sobol_indices(lambda rows: model.predict(rows), X, n_evaluations=60_000)
    np.testing.assert_allclose(estimated.shapley_effects.sum(), 1.0, rtol=1e-12)
    for name in ("first_order", "shapley_effects", "total_order"):
        error = estimated.std_error[name]
        assert (np.abs(getattr(estimated, name) - getattr(exact, name)) < 4.5 * error).all(), name
        low, high = estimated.interval()[name]
        np.testing.assert_allclose(high - low, 2 * 1.959963984540054 * error, rtol=1e-9)
    assert (estimated.std_error["shapley_effects"] < 0.05).all()
    assert abs(estimated.variance - exact.variance) < 0.1 * exact.variance
    assert estimated.n_evaluations <= 60_000 and estimated.bound is None
    again = riesz.sobol_indices(lambda rows: model.predict(rows), X, n_evaluations=60_000)
    assert (again.shapley_effects == estimated.shapley_effects).all()
    with pytest.raises(ValueError, match="estimates for a function"):
        estimated.report("page.html")
    with pytest.raises(ValueError, match="function has none"):
        riesz.sobol_indices(lambda rows: model.predict(rows), X, posterior=True)
    with pytest.raises(ValueError, match="at least 26"):
        riesz.sobol_indices(lambda rows: model.predict(rows), X, n_evaluations=3)
    assert "estimated" in repr(estimated) and "std_error" in estimated._repr_html_()


def test_standard_errors_of_indices_cover_the_exact_values():
    """Over 40 seeds, 95 % intervals cover the exact Shapley effects and total indices of a model."""
    rng = np.random.default_rng(2)
    model = riesz.Expansion(RBF([1.5, 1.5, 1.5]), points=rng.normal(size=(8, 3)), coef=rng.normal(size=8))
    X = rng.normal(size=(40, 3))
    exact = riesz.sobol_indices(model, X)
    covered = {"first_order": 0, "shapley_effects": 0, "total_order": 0}
    for seed in range(40):
        result = riesz.sobol_indices(
            lambda rows: model.predict(rows), X, random_state=seed, n_evaluations=4000
        )
        for name, (low, high) in result.interval().items():
            covered[name] += ((low <= getattr(exact, name)) & (getattr(exact, name) <= high)).sum()
    for name, count in covered.items():
        assert count >= 120 * 0.95 - 4 * np.sqrt(120 * 0.95 * 0.05), (name, count)


def test_models_without_exact_indices_are_called(data):
    """A polynomial kernel is no sum of products over features; its machine is a function."""
    X, y = data
    model = riesz.SVR(kernel="poly").fit(X, y)
    result = riesz.sobol_indices(model, X, n_evaluations=20_000)
    direct = riesz.sobol_indices(lambda rows: model.predict(rows), X, n_evaluations=20_000)
    np.testing.assert_allclose(result.total_order, direct.total_order, rtol=1e-9)
    assert result.std_error is not None


def test_groups_weights_and_outputs_of_functions(data):
    X, y = data
    model = riesz.KernelRidge(kernel=RBF([1.0, 2.0, 1.0, 1.0]), alpha=0.1).fit(X, np.column_stack([y, y**2]))
    weights = np.linspace(1, 3, len(X))
    settings = {"groups": {"pair": ["x1", "x2"]}, "background_weights": weights}
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
    exact = riesz.sobol_indices(model, frame, **settings)
    result = riesz.sobol_indices(lambda rows: model.predict(np.asarray(rows)), frame, **settings)
    assert result.feature_names == exact.feature_names and result.shapley_effects.shape == (3, 2)
    error = result.std_error["shapley_effects"]
    assert (np.abs(result.shapley_effects - exact.shapley_effects) < 4.5 * error).all()


def test_sage_values_of_a_function_are_those_of_its_model(data):
    X, y = data
    model = riesz.KernelRidge(kernel=RBF([1.0, 2.0, 1.0, 1.0]), alpha=0.1).fit(X, y)
    exact = riesz.sage_values(model, X, y, X[:20])
    result = riesz.sage_values(lambda rows: model.predict(rows), X, y, X[:20])
    np.testing.assert_allclose(result.values, exact.values, atol=1e-10)
    np.testing.assert_allclose(result.std_error, exact.std_error, atol=1e-10)
    np.testing.assert_allclose([result.loss, result.base_loss], [exact.loss, exact.base_loss], rtol=1e-10)
    # Two orders of four features would evaluate as many coalitions as there are.
    with pytest.warns(UserWarning, match="n_orders = 2 has no effect"):
        riesz.sage_values(lambda rows: model.predict(rows), X, y, X[:20], n_orders=2)


def test_orders_of_many_features_are_drawn():
    """A function of twelve features, of which orders are drawn: additive, so every order gives the direct."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 12))
    weights = np.arange(12.0)
    y = X @ weights
    calls = []

    def function(rows):
        calls.append(len(rows))
        return rows @ weights + 0.1 * rows[:, 0] * rows[:, 1]

    result = riesz.sage_values(function, X, y, X[:10], n_orders=20)
    assert result.sampling_error is not None and calls
    np.testing.assert_allclose(result.values.sum(), result.base_loss - result.loss, rtol=1e-9)
    longer = riesz.sage_values(function, X, y, X[:10], n_orders=150, random_state=1)
    assert (
        np.abs(result.values - longer.values) < 5 * np.hypot(result.sampling_error, longer.sampling_error)
    ).all()


def test_forests_have_sage_values_of_their_log_loss():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import log_loss
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": rng.choice(["u", "v"], 80), "size": rng.normal(size=80)})
    labels = np.where((frame.kind == "u") & (frame["size"] > 0), "yes", "no")
    from sklearn.compose import make_column_transformer

    columns = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    forest = make_pipeline(columns, RandomForestClassifier(20, min_samples_leaf=5, random_state=0))
    forest.fit(frame, labels)
    result = riesz.sage_values(forest.predict_proba, frame, labels)
    np.testing.assert_allclose(result.loss, log_loss(labels, forest.predict_proba(frame)), rtol=1e-9)
    base = forest.predict_proba(frame).mean(axis=0)
    np.testing.assert_allclose(result.base_loss, log_loss(labels, np.tile(base, (80, 1))), rtol=1e-9)
    np.testing.assert_allclose(result.values.sum(), result.base_loss - result.loss, rtol=1e-9)

    # The two features by hand, from all four coalitions.
    def loss(present):
        total = 0.0
        for row, label in zip(frame.to_numpy(), labels):
            mixed = frame.copy()
            for j in present:
                mixed.iloc[:, j] = row[j]
            total -= np.log(forest.predict_proba(mixed).mean(axis=0)[["no", "yes"].index(label)])
        return total / len(frame)

    first = 0.5 * (loss([]) - loss([0])) + 0.5 * (loss([1]) - loss([0, 1]))
    np.testing.assert_allclose(result.values[0], first, rtol=1e-8)
    with pytest.raises(ValueError, match="probability per class"):
        riesz.sage_values(lambda rows: forest.predict_proba(rows)[:, 1], frame, labels)
