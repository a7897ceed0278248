"""Ladders and matrices of preferences show the correct numbers at the correct places, and explanations of
duels are labelled as differences."""

import json

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyArrowPatch

import riesz
from riesz import plots
from riesz.preference import Rankability, rankability

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def example_ranking(count=12, named=lambda i: f"phone {i}", seed=0):
    """A rankability with draws, with cycles of the second, third and fourth item, and of the first, the
    last and the second."""
    rng = np.random.default_rng(seed)
    utility = rng.permutation(np.linspace(3, -3, count))
    draws = utility + rng.normal(size=(200, count)) * rng.uniform(0.3, 1.2, count)
    rank = 1 + (utility > utility[:, None]).sum(axis=1)
    ranks = 1 + (draws[:, None] > draws[:, :, None]).sum(axis=2)
    items = [named(i) for i in range(count)]
    a, b, c, d, *_, worst = (items[i] for i in np.argsort(rank))
    return Rankability(
        items=items,
        utility=utility,
        utility_interval=np.quantile(draws, [0.025, 0.975], axis=0).T,
        rank=rank,
        rank_interval=np.quantile(ranks, [0.025, 0.975], axis=0, method="nearest").T.astype(int),
        probability_best=(draws.argmax(axis=1)[:, None] == np.arange(count)).mean(axis=0),
        probability_condorcet=np.full(count, 0.9 / count),
        cyclic_share=0.2,
        cyclic_share_interval=np.array([0.1, 0.2, 0.3]),
        cycles=[((b, c, d), 0.71), ((a, worst, b), 0.4), ((a, b, c), 0.13)],
        level=0.9,
        n_samples=200,
    )


def win_probabilities(utility):
    return 1 / (1 + np.exp(-np.subtract.outer(utility, utility)))


def ticks(axis):
    return [t.get_text() for t in axis.get_ticklabels()]


def side_texts(ax):
    """Texts next to the rungs, from the top, by column title."""
    return [t.get_text() for t in sorted(ax.texts, key=lambda t: (t.xyann[0], -t.xy[1])) if t.get_text()]


def arrows(ax):
    """The heights of the starts and ends of arrows, and their colours, in the order of drawing."""
    drawn = [artist for artist in ax.get_children() if isinstance(artist, FancyArrowPatch)]
    ends = [arrow._path_original.vertices[[0, -1], 1].tolist() for arrow in drawn]
    return ends, [arrow.get_edgecolor() for arrow in drawn]


def test_a_ladder_shows_items_by_utility_with_their_intervals():
    r = example_ranking()
    ax = plots.ladder(r)
    order = np.argsort(-r.utility)
    dots = ax.containers[0].lines[0]
    np.testing.assert_allclose(dots.get_xdata(), r.utility[order])
    np.testing.assert_allclose(dots.get_ydata(), np.arange(12)[::-1])
    assert ticks(ax.yaxis) == [r.items[i] for i in order]
    ends = [segment[:, 0] for segment in ax.containers[0].lines[2][0].get_segments()]
    np.testing.assert_allclose(ends, r.utility_interval[order])
    words = side_texts(ax)
    place = words.index("place")
    assert words[place + 1 : place + 13] == [
        f"{k + 1}  ({r.rank_interval[i][0]}–{r.rank_interval[i][1]})" for k, i in enumerate(order)
    ]
    best = words.index("best")
    assert len(words) == best + 13 and "90 % intervals" in ax.get_xlabel()
    assert "best" not in side_texts(plots.ladder(r, best=False))


def test_circles_are_arrows_from_winner_to_loser():
    r = example_ranking()
    ax = plots.ladder(r)
    # The best item has the height 11; the second beats the third, the third the fourth, and the fourth the
    # second.
    ends, colours = arrows(ax)
    assert ends == [[10, 9], [9, 8], [8, 10], [11, 0], [0, 10], [10, 11], [11, 10], [10, 9], [9, 11]]
    assert len(set(colours)) == 3 and colours[0] == colours[2] != colours[3]
    text_colours = {t.get_text(): to_rgba(t.get_color()) for t in ax.texts}
    assert (text_colours[".71"], text_colours[".40"], text_colours[".13"]) == (
        colours[0],
        colours[3],
        colours[6],
    )
    assert "Arrows: cycles of three" in ax.get_xlabel() and "Not drawn" not in ax.get_xlabel()
    # The most probable cycles among the shown items.
    ax = plots.ladder(r, max_display=4, max_cycles=2)
    assert arrows(ax)[0] == [[2, 1], [1, 0], [0, 2], [3, 2], [2, 1], [1, 3]]
    words = ax.get_xlabel().replace("\n", " ")
    assert "Not drawn: 8 items below. 1 of the 3 most probable cycles contain an item" in words
    assert "All 3 most probable cycles contain" in plots.ladder(r, max_display=2).get_xlabel()
    ax = plots.ladder(r, max_cycles=0)
    assert arrows(ax)[0] == [] and "Arrows" not in ax.get_xlabel()


@pytest.mark.parametrize("count", [1, 2, 10, 35, 60])
def test_ladder_texts_do_not_overlap(count):
    r = example_ranking(
        max(count, 5), lambda i: f"A rather long name of an item {i} (second edition, {1950 + i})"
    )
    ax = plots.ladder(r, max_display=count)
    assert len(ticks(ax.yaxis)) == count and len(set(ticks(ax.yaxis))) == count
    figure = ax.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    boxes = [t.get_window_extent(renderer) for t in [*ax.texts, *ax.get_yticklabels(), ax.xaxis.label]]
    for k, box in enumerate(boxes):
        assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1
        assert not any(box.overlaps(other) for other in boxes[:k])
    edge = ax.get_window_extent().x1
    lanes = [a.get_window_extent(renderer) for a in ax.get_children() if isinstance(a, FancyArrowPatch)]
    columns = [t.get_window_extent(renderer) for t in ax.texts if "(" in t.get_text()]
    assert all(edge <= lane.x0 and lane.x1 < min(c.x0 for c in columns) for lane in lanes)


def test_a_matrix_is_in_order_of_utility():
    utility = np.array([0.5, -1.0, 2.0, 0.0])
    ax = plots.preference_matrix(win_probabilities(utility), ["a", "b", "c", "d"])
    assert ticks(ax.yaxis) == ticks(ax.xaxis) == ["c", "a", "d", "b"]
    shown = ax.images[0].get_array()
    order = [2, 0, 3, 1]
    away = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(shown[away], win_probabilities(utility)[np.ix_(order, order)][away])
    assert shown.mask[np.eye(4, dtype=bool)].all() and not shown.mask[away].any()
    assert ax.images[0].get_clim() == (0.0, 1.0)
    low, high = (np.array(ax.images[0].cmap(share)) for share in (0.5 - 0.3, 0.5 + 0.3))
    assert low[2] > low[0] and high[0] > high[2]
    texts = {t.get_position(): t.get_text() for t in ax.texts}
    assert texts[(1, 0)] == ".82" and texts[(0, 1)] == ".18" and len(texts) == 12
    assert ticks(plots.preference_matrix(win_probabilities(utility), order=np.array([1, 3, 0])).yaxis) == [
        "1",
        "3",
        "0",
    ]
    frame = pd.DataFrame(win_probabilities(utility), index=list("abcd"))
    assert ticks(plots.preference_matrix(frame).yaxis) == ["c", "a", "d", "b"]
    partly = win_probabilities(utility)
    partly[0, 3] = partly[3, 0] = np.nan
    assert plots.preference_matrix(partly).images[0].get_array().mask.sum() == 6


def test_clusters_are_grouped_between_lines():
    utility, kind = np.array([0.5, -1.0, 2.0, 0.0, 1.0]), np.array(["b", "a", "b", "a", "c"])
    probabilities = np.where(kind[:, None] == kind, win_probabilities(utility), 0.5)
    ax = plots.preference_matrix(probabilities, clusters=kind)
    assert ticks(ax.yaxis) == ["3", "1", "2", "0", "4"]
    lines = sorted(tuple(line.get_ydata()) for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[1])
    assert lines == [(1.5, 1.5), (3.5, 3.5)] and len(ax.lines) == 4
    assert {t.get_text(): t.xy[1] for t in ax.texts if t.get_text().isalpha()} == {
        "a": 0.5,
        "b": 2.5,
        "c": 4.0,
    }
    clusters = riesz.PreferenceClusters()
    clusters.labels_ = np.array([1, 0, 1, 0, 1])
    ax = plots.preference_matrix(probabilities, clusters=clusters)
    assert [t.get_text() for t in ax.texts if "cluster" in t.get_text()] == ["cluster 0", "cluster 1"]


@pytest.mark.parametrize("count", [10, 35, 60])
def test_matrix_texts_do_not_overlap(count):
    names = [f"A rather long name of an item {i} (second edition, {1950 + i})" for i in range(count)]
    kind = np.append(np.arange(count - 1) % 3, 3)
    ax = plots.preference_matrix(win_probabilities(np.linspace(-3, 3, count)), names, clusters=kind)
    figure = ax.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    bar = figure.axes[1]
    boxes = [
        t.get_window_extent(renderer)
        for t in [
            *ax.texts,
            *ax.get_yticklabels(),
            *ax.get_xticklabels(),
            *bar.get_yticklabels(),
            bar.yaxis.label,
        ]
    ]
    for k, box in enumerate(boxes):
        assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1
        assert not any(box.overlaps(other) for other in boxes[:k])
    # In small axes names are left out unless there is room for all of them.
    _, small = plt.subplots(figsize=(3, 2))
    assert bool(
        ticks(plots.preference_matrix(win_probabilities(np.arange(count)), names, ax=small).yaxis)
    ) == (count == 10)


def fitted(**options):
    rng = np.random.default_rng(0)
    items = pd.DataFrame(
        {"size": rng.normal(size=12), "kind": np.array(["x", "y"])[np.arange(12) % 2]},
        index=list("abcdefghijkl"),
    )
    left, right = np.triu_indices(12, 1)
    won = rng.random(66) < 1 / (
        1 + np.exp(-3 * (items["size"].to_numpy()[left] - items["size"].to_numpy()[right]))
    )
    duels = items.index.to_numpy()[np.column_stack([left, right])]
    return items, riesz.PreferenceClassifier(**{"optimizer": None} | options), duels, won.astype(float)


def test_models_predict_all_pairs():
    items, model, duels, won = fitted()
    model.fit(items, duels, outcome=won)
    r = rankability(model, items, random_state=0)
    plots.ladder(r).figure.canvas.draw()
    order = np.argsort(-r.utility)
    ax = plots.preference_matrix(model, items, order=order)
    assert ticks(ax.yaxis) == [items.index[i] for i in order]
    shown = ax.images[0].get_array()
    expected = model.predict_proba(items.iloc[[order[0]]], items.iloc[[order[5]]])[0, 1]
    np.testing.assert_allclose(shown[0, 5], expected)
    np.testing.assert_allclose(shown[5, 0], 1 - expected)


def test_home_ties_labels_and_pair_classifiers():
    items, model, duels, won = fitted(ties="model")
    home = np.array(["left", "right", "none"])[np.arange(66) % 3]
    drawn = np.where(np.arange(66) % 5 == 0, 0.5, won)
    model.fit(items, duels, outcome=drawn, home=home)
    shown = plots.preference_matrix(model, items, order=np.arange(12), home="left").images[0].get_array()
    right, left, tie = model.predict_proba(items.iloc[[2]], items.iloc[[7]], home="left")[0]
    np.testing.assert_allclose(shown[2, 7], left + tie / 2)
    items, model, duels, won = fitted(model="bradley_terry")
    model.fit(items, duels, outcome=won)
    for shown_items in (items, list(items.index)):
        ax = plots.preference_matrix(model, shown_items)
        assert (np.diff([model.abilities_[name] for name in ticks(ax.yaxis)]) < 1e-9).all()
    from sklearn.linear_model import LogisticRegression

    numbers = items[["size"]].to_numpy()
    places = np.column_stack(np.triu_indices(12, 1))
    classifier = riesz.preference.PairClassifier(LogisticRegression()).fit(numbers, places, outcome=won)
    ax = plots.preference_matrix(classifier, numbers)
    plain = riesz.PreferenceClassifier("bradley_terry").fit(numbers, places, outcome=won)
    assert len(ticks(plots.preference_matrix(plain, numbers).yaxis)) == 12
    assert ticks(ax.yaxis) == [str(i) for i in np.argsort(-numbers[:, 0])]


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: plots.ladder([1, 2]), TypeError, "riesz.preference.Rankability is needed, not a list"),
        (lambda: plots.ladder(example_ranking(), max_display=0), ValueError, "max_display = 0"),
        (lambda: plots.ladder(example_ranking(), max_display=2.5), ValueError, "max_display = 2.5"),
        (lambda: plots.ladder(example_ranking(), max_cycles=-1), ValueError, "max_cycles = -1"),
        (lambda: plots.preference_matrix("model"), TypeError, "model is a str"),
        (lambda: plots.preference_matrix(np.ones((2, 3))), ValueError, r"shape \(2, 3\)"),
        (lambda: plots.preference_matrix(3 * np.ones((2, 2))), ValueError, "outside 0 to 1"),
        (
            lambda: plots.preference_matrix(np.ones((3, 3)), ["a", "b"]),
            ValueError,
            "2 names of items, and the matrix has 3",
        ),
        (
            lambda: plots.preference_matrix(np.ones((3, 3)), clusters=[0, 1]),
            ValueError,
            "clusters have the shape",
        ),
        (
            lambda: plots.preference_matrix(np.ones((3, 3)), order=[0, 0, 1]),
            ValueError,
            "order: .* of the 3 items",
        ),
        (lambda: plots.preference_matrix(np.ones((3, 3)), order=[0, 3]), ValueError, "order"),
        (lambda: plots.preference_matrix(np.ones((3, 3)), order="utility"), ValueError, "order"),
        (
            lambda: plots.preference_matrix(np.ones((2, 2)), clusters=[0, 1], order=[0, 1]),
            ValueError,
            "clusters and order",
        ),
        (
            lambda: plots.preference_matrix(np.ones((2, 2)), home="left"),
            TypeError,
            "home: a matrix of probabilities has no contexts",
        ),
        (lambda: plots.preference_matrix(fitted()[1]), ValueError, "a model predicts duels"),
        (lambda: plots.preference_matrix(fitted()[1], fitted()[0][:1]), ValueError, "items have 1 row"),
    ],
)
def test_invalid_plots_are_refused(act, kind, words):
    with pytest.raises(kind, match=words):
        act()
    assert not plt.get_fignums()


def test_plots_draw_into_their_axes_argument():
    other = plt.figure().add_subplot()
    for draw, content in [
        (plots.ladder, example_ranking()),
        (plots.preference_matrix, win_probabilities(np.arange(5))),
    ]:
        ax = plt.Figure().add_subplot()
        assert draw(content, ax=ax) is ax and ax.has_data()
        ax.figure.canvas.draw()
    assert plt.get_fignums() == [other.figure.number] and not other.has_data()


def test_plots_of_duels_say_that_they_show_differences(tmp_path):
    items, model, duels, won = fitted()
    model.fit(items, duels, outcome=won)
    why = model.explain(items.iloc[:6], items.iloc[6:], game="paired", covariance=True)
    assert why.column_names == ["size, left − right", "kind"] and why.feature_names == ["size", "kind"]
    difference = items["size"].iloc[0] - items["size"].iloc[6]
    label = f"size, left − right = {difference:+.4g}".replace("-", "−")
    again = tmp_path / "why.json"
    why.save(again)
    for e in (why, riesz.Explanation.load(again)):
        ax = plots.waterfall(e[0])
        assert set(ticks(ax.yaxis)) == {label, "kind = x / x"}
        whiskers = [
            c.lines[2][0].get_segments()[0][:, 0]
            for c in ax.containers
            if type(c).__name__ == "ErrorbarContainer"
        ]
        order = np.argsort(np.abs(e.values[0]))
        np.testing.assert_allclose(
            [np.ptp(ends) / 2 for ends in whiskers], 1.959963984540054 * e.std[0][order]
        )
        assert any(label in t.get_text() for t in plots.force(e[0]).texts)
        assert plots.scatter(e, "size").get_xlabel() == "size, left − right"
        assert plots.scatter(e, "kind", color="size").figure.axes[1].get_ylabel() == "size, left − right"
        ax = plots.beeswarm(e)
        assert set(ticks(ax.yaxis)) == {"size", "kind"}
        assert ax.figure.axes[1].get_ylabel() == "feature value, left − right"
    assert json.loads(again.read_text())
    assert why.exactness == "exact" and why.certificate.holds
    # Contexts are not differences.
    items, model, duels, won = fitted()
    model.fit(items, duels, outcome=won, contexts=pd.DataFrame({"season": np.linspace(0, 1, 66)}))
    why = model.explain(items.iloc[:2], items.iloc[6:8], game="paired", contexts=[[0.5], [0.5]])
    assert why.column_names == ["size, left − right", "kind", "season"]


def test_names_of_levels_leave_room_for_the_swarm():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {"a": rng.normal(size=80), "make": rng.choice([f"Manufacturer {i}" for i in range(6)], 80)}
    )
    model = riesz.KernelRidge(kernel="rbf", gamma="scale").fit(X, X["a"])
    ax = plots.beeswarm(riesz.Explainer(model, X[:10])(X))
    ax.figure.canvas.draw()
    assert ax.get_window_extent().width > 0.4 * ax.figure.bbox.width
