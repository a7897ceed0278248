"""Duels with a known truth (chapter 7 and appendix E of Chau 2023): clusters, naive concatenation, two
relevant features of ten, and the coverage of intervals.

    python experiments/duels_synthetic.py [clusters|naive|sparse|coverage ...] [--full]

clusters (figures 7.2, 7.3, table 7.3): items of three kinds with four normal columns x0, AB, AC, BC.
Within a kind x0 decides; between two kinds the column with their names decides. The exact values of this
mechanism, by enumeration, are compared with those of the models, in the same game with the same
background. The one-hot columns of the kind are one player. naive (figure E.1): the model's log odds
explained by 2d players, the columns of the left and of the right item, from a background of duels. sparse
(figure E.2): a draw of the generalised prior on two of ten columns, x ~ N(0, .1 I), length scale .3 (the
source gives none; with length scale 1 the draw would be nearly bilinear); 80 items, 400 duels without
noise. coverage: log odds are drawn from the prior of the nested model, and duels from the log odds. The
table has the coverage of 95 % intervals of the log odds of pairs and of their values in the game "paired",
and true minus predicted probabilities, with the prior known and with the prior tuned by the evidence.

Full: 1,000 items and 40,000 duels through 250 landmarks in five runs, instead of 300 and 1,300 in two
(clusters); 20 seeds instead of 5 (sparse); 200 repetitions instead of 40 (coverage)."""

import itertools
import math
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, chosen, run, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

import riesz
from riesz.kernels import RBF
from riesz.preference import pair_groups

PLAYERS = ["x0", "AB", "AC", "BC", "kind"]
#: The index of the column that decides between two kinds.
COLUMN = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
KINDS = {"kind": ["A", "B", "C"]}


def wins(x, kind, other, other_kind):
    """The outcome ±1 of duels by the mechanism, from the view of the first items."""
    column = COLUMN[kind, other_kind]
    rows = np.arange(len(kind))
    return np.sign(x[rows, column] - other[rows, column])


def mechanism(left, right, background, game):
    """Shapley values of the mechanism for duels, from all coalitions. An item is (x, kind), with many rows
    each."""
    count = len(background[1])
    indices = np.arange(count)
    first, second = (
        (indices, indices) if game == "paired" else (np.repeat(indices, count), np.tile(indices, count))
    )
    values = np.zeros((len(left[1]), len(PLAYERS)))
    for d in range(len(values)):
        coalition_values = {}
        for mask in itertools.product([False, True], repeat=len(PLAYERS)):
            sides = []
            for (x, kind), rows in ((left, first), (right, second)):
                sides.append(np.where(mask[:4], x[d], background[0][rows]))
                sides.append(np.full(len(rows), kind[d]) if mask[4] else background[1][rows])
            coalition_values[mask] = wins(*sides).mean()
        for mask, value in coalition_values.items():
            size = sum(mask)
            for j in range(len(PLAYERS)):
                if mask[j]:
                    reduced = coalition_values[mask[:j] + (False,) + mask[j + 1 :]]
                    share = (
                        math.factorial(size - 1)
                        * math.factorial(len(PLAYERS) - size)
                        / math.factorial(len(PLAYERS))
                    )
                    values[d, j] += share * (value - reduced)
    return values


def accuracy_table(scores, agree, took):
    """The table of accuracies and of correlations with the mechanism."""
    published = {"nested": "–", "utility": ".71", "generalised": ".98"}
    rows = [
        [
            name,
            published[name],
            f"{np.mean(runs_of, axis=0)[0]:.3f} ± {np.std(runs_of, axis=0)[0]:.3f}",
            f"{np.mean(runs_of, axis=0)[1]:.3f} ± {np.std(runs_of, axis=0)[1]:.3f}",
            f"{np.mean(agree[name]):.2f} ± {np.std(agree[name]):.2f}",
            f"{np.mean(took[name]):.0f}",
        ]
        for name, runs_of in scores.items()
    ]
    text = table(
        [
            "model",
            "published",
            "accuracy",
            "AUC",
            "correlation of values with the mechanism's",
            "seconds a fit",
        ],
        rows,
    )
    ahead = np.subtract(agree["nested"], agree["utility"])
    return text + (
        f"\n\nThe nested model's correlation is ahead of the utility's by {ahead.mean():.2f} ± "
        f"{ahead.std():.2f}.\n"
    )


def size_table(sizes, runs, axes):
    """The table of mean sizes of values by kind of duel; draws those of A against B."""
    rows = []
    for key, values in sizes.items():
        if key == "ungrouped":
            continue
        size = np.abs(np.concatenate(values)).mean(axis=0)
        first = sum(np.abs(run_values).mean(axis=0).argmax() == size.argmax() for run_values in values)
        rows.append([*key, *map(float, size), f"{PLAYERS[size.argmax()]} in {first} of {runs}"])
        if key in (("nested", "A against B", "independent"), ("truth (±1)", "A against B", "independent")):
            axis = axes[0] if key[0] == "nested" else axes[1]
            axis.bar(PLAYERS, size, color=COLOURS[:5])
            axis.set_title(f"A against B, {key[0]}", fontsize=10)
    text = (
        "\n\nFigures 7.2 and 7.3: mean |value| of 60 test duels a run; the mechanism's is ±1, the models' "
        "are log odds. Published: x0 first of all duels, AB of A against B.\n\n"
    )
    rows.sort(key=lambda row: (row[1], row[2]))
    return text + table(["of", "duels", "game", *PLAYERS, "first"], rows)


def clusters(options, axes):
    runs, count, number = (5, 1000, 40_000) if options.full else (2, 300, 1300)
    runs, number = options.runs or runs, options.duels or number
    scores = {name: [] for name in ("nested", "utility", "generalised")}
    sizes, agree, took = {}, {name: [] for name in scores}, {name: [] for name in scores}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        kind, x = rng.integers(3, size=count), rng.normal(size=(count, 4))
        items = pd.DataFrame(np.hstack([x, np.eye(3)[kind]]), columns=[*PLAYERS[:4], *KINDS["kind"]])
        left, right = rng.integers(count, size=(2, number))
        left, right = left[left != right], right[left != right]
        won = wins(x[left], kind[left], x[right], kind[right]) > 0
        duels = np.where(won[:, None], np.column_stack([left, right]), np.column_stack([right, left]))
        part = rng.permutation(pair_groups(duels).max() + 1)[pair_groups(duels)] / (
            pair_groups(duels).max() + 1
        )
        train, test = duels[part < 0.8], duels[part >= 0.9]
        sample = test[:60]
        kinds = kind[test]
        ab = test[np.isin(kinds, [0, 1]).all(axis=1) & (kinds[:, 0] != kinds[:, 1])]
        if len(ab) < 60:
            left, right = rng.choice(np.flatnonzero(kind == 0), 60), rng.choice(np.flatnonzero(kind == 1), 60)
            ab = np.column_stack([left, right])
        ab = ab[:60]
        background_rows = rng.permutation(count)[:100]
        background = (x[background_rows], kind[background_rows])
        for label, explained in (("all", sample), ("A against B", ab)):
            sides = [(x[side], kind[side]) for side in explained.T]
            for game in ("independent", "paired"):
                sizes.setdefault(("truth (±1)", label, game), []).append(mechanism(*sides, background, game))
        for name in scores:
            start = time.perf_counter()
            settings = {"kernel": RBF([2.0] * 7), "random_state": 0}
            model = riesz.PreferenceClassifier(name, **settings).fit(items, train)
            probability = model.predict_proba(items.iloc[test[:, 0]], items.iloc[test[:, 1]])[:, 1]
            truth = np.repeat([1, 0], len(probability))
            took[name].append(time.perf_counter() - start)
            scores[name].append(
                [
                    (probability > 0.5).mean(),
                    roc_auc_score(truth, np.concatenate([probability, 1 - probability])),
                ]
            )
            for label, explained in (("all", sample), ("A against B", ab)):
                for game in ("independent", "paired", "observational"):
                    if game == "observational" and name != "nested":
                        continue
                    why = model.explain(
                        items.iloc[explained[:, 0]],
                        items.iloc[explained[:, 1]],
                        items.iloc[background_rows],
                        game=game,
                        groups=KINDS,
                    )
                    values = why.values[:, [list(why.feature_names).index(player) for player in PLAYERS]]
                    sizes.setdefault((name, label, game), []).append(values)
            true = sizes["truth (±1)", "all", "independent"][-1]
            agree[name].append(np.corrcoef(sizes[name, "all", "independent"][-1].ravel(), true.ravel())[0, 1])
        ungrouped = model.explain(items.iloc[ab[:, 0]], items.iloc[ab[:, 1]], items.iloc[background_rows])
        sizes.setdefault("ungrouped", []).append(np.abs(ungrouped.values).mean(axis=0))
    text = (
        f"\n\nTable 7.3, synthetic: {count} items, {number} duels, 80 % learnt, 10 % tested, {runs} runs, ± "
        f"standard deviation over runs\n\n"
    )
    text += accuracy_table(scores, agree, took) + size_table(sizes, runs, axes)
    sizes_text = ", ".join(
        f"{name} {size:.2f}" for name, size in zip(items.columns, np.mean(sizes["ungrouped"], axis=0))
    )
    return text + f"\n\nGeneralised, A against B, independent, each one-hot column a player: {sizes_text}\n"


def naive(options, axes):
    rng = np.random.default_rng(0)
    items = rng.normal(size=(60, 4))
    left, right = rng.integers(60, size=(2, 400))
    left, right = left[left != right], right[left != right]
    won = (items[left, 0] > items[right, 0]) ^ (items[left, 1] * items[right, 1] > 0.5)
    model = riesz.PreferenceClassifier(kernel=RBF("median")).fit(
        items, np.column_stack([left, right]), outcome=won.astype(float)
    )
    first, second = items[left[:50]], items[right[:50]]
    forward, back = model.pair_features(first, second), model.pair_features(second, first)
    winner, loser = np.where(won, left, right), np.where(won, right, left)
    explainer = riesz.Explainer(model.expansion_, model.pair_features(items[winner], items[loser]))
    values, other = explainer(forward).values, explainer(back).values
    wrong = np.abs(values[:, :4] + other[:, 4:]).max()
    why, swapped = model.explain(first, second).values, model.explain(second, first).values
    return (
        "\n\nFigure E.1: the columns of both sides as 2d players, 60 items, 50 duels explained, a background "
        "of the duels with winners on the left\n\n"
        + table(
            ["game", "largest value left + the same item's right", "largest value"],
            [
                ["2d players", f"{wrong:.3f}", f"{np.abs(values).max():.2f}"],
                ["a feature of both items", f"{np.abs(why + swapped).max():.1e}", f"{np.abs(why).max():.2f}"],
            ],
        )
        + "\n"
    )


def skew_draw(rng, factor):
    """A draw of the generalised prior with unit share between all items, from a factor of the kernel
    matrix."""
    draw = factor @ rng.normal(size=factor.shape) @ factor.T
    return (draw - draw.T) / math.sqrt(2)


def gaussian(x, scale):
    return np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / (2 * scale**2))


def sparse(options, axes):
    seeds = 20 if options.full else 5
    start = time.perf_counter()
    right_ones, ratio = 0, []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        x = math.sqrt(0.1) * rng.normal(size=(80, 10))
        active = rng.choice(10, 2, replace=False)
        values, vectors = np.linalg.eigh(gaussian(x[:, active], 0.3))
        g = skew_draw(rng, vectors * np.sqrt(values.clip(0)))
        left, right = rng.integers(80, size=(2, 400))
        left, right = left[left != right], right[left != right]
        won = (g[left, right] > 0).astype(float)
        model = riesz.PreferenceClassifier("generalised", kernel=RBF([1.0] * 10))
        model.fit(x, np.column_stack([left, right]), outcome=won)
        size = np.abs(model.explain(x[left[:50]], x[right[:50]]).values).mean(axis=0)
        order = np.argsort(size)[::-1]
        right_ones += set(order[:2]) == set(active)
        ratio.append(size[order[1]] / size[order[2]])
    return (
        "\n\nFigure E.2: a draw of the generalised prior on two of ten columns; published: the two on top\n\n"
        + table(
            ["seeds", "both on top", "median ratio of the second to the third", "seconds a seed"],
            [
                [
                    seeds,
                    f"{right_ones} of {seeds}",
                    f"{np.median(ratio):.1f}",
                    f"{(time.perf_counter() - start) / seeds:.1f}",
                ]
            ],
        )
        + "\n"
    )


def coverage(options, axes):
    """Draws of the nested prior with shares of 2.25 and length scale 1, in three columns."""
    repeats = 200 if options.full else 40
    start = time.perf_counter()
    rows = []
    share, items_count, n_background = 2.25, 25, 6
    weights = {s: math.factorial(s - 1) * math.factorial(3 - s) / 6 for s in (1, 2, 3)}
    for number, known in ((40, True), (150, True), (40, False), (150, False)):
        coverages, squares, held_values, squares_values, predicted, happened = [], [], [], [], [], []
        for seed in range(repeats):
            rng = np.random.default_rng([seed, number])
            x = rng.normal(size=(items_count, 3))
            pair = rng.permutation(items_count)[:2]
            # Rows of the game for the explained duel: for every coalition and every background row, both
            # sides.
            masks = list(itertools.product([False, True], repeat=3))
            made = [
                np.where(mask, x[side], x[b]) for mask in masks for b in range(n_background) for side in pair
            ]
            all_rows = np.vstack([x, made])
            values, vectors = np.linalg.eigh(gaussian(all_rows, 1.0))
            factor = vectors * np.sqrt(values.clip(0))
            utility = math.sqrt(share) * factor @ rng.normal(size=len(all_rows))
            g = utility[:, None] - utility + math.sqrt(share) * skew_draw(rng, factor)
            left, right = rng.integers(items_count, size=(2, number))
            right = np.where(left == right, (right + 1) % items_count, right)
            won = (rng.random(number) < 1 / (1 + np.exp(-g[left, right]))).astype(float)
            settings = {"kernel": RBF(1.0), "optimizer": None} if known else {"kernel": RBF("median")}
            model = riesz.PreferenceClassifier(**settings, n_landmarks=None)
            model.fit(x, np.column_stack([left, right]), outcome=won)
            first, other = rng.integers(items_count, size=(2, 30))
            first, other = first[first != other], other[first != other]
            mean, sd = model.decision_function(x[first], x[other], return_std=True)
            z = (g[first, other] - mean) / sd
            coverages.append((np.abs(z) < 1.96).mean())
            squares.append((z**2).mean())
            predicted.append(model.predict_proba(x[first], x[other])[:, 1])
            happened.append(1 / (1 + np.exp(-g[first, other])))
            coalition_values = {}
            for i, mask in enumerate(masks):
                places = items_count + 2 * (i * n_background + np.arange(n_background))
                coalition_values[mask] = g[places, places + 1].mean()
            true = np.zeros(3)
            for mask, value in coalition_values.items():
                for j in np.flatnonzero(mask):
                    true[j] += weights[sum(mask)] * (
                        value - coalition_values[mask[:j] + (False,) + mask[j + 1 :]]
                    )
            why = model.explain(x[[pair[0]]], x[[pair[1]]], x[:n_background], game="paired", covariance=True)
            z = (true - why.values[0]) / why.std[0]
            held_values.append((np.abs(z) < 1.96).mean())
            squares_values.append((z**2).mean())
        bins = []
        for low in np.arange(0, 1, 0.2):
            # The standard error is over independent repetitions, because pairs of one draw are dependent.
            in_bin = [(p >= low) & (p < low + 0.2) for p in predicted]
            gaps = np.array([(y[b] - p[b]).sum() for p, y, b in zip(predicted, happened, in_bin)])
            size = sum(b.sum() for b in in_bin)
            bins.append(f"{gaps.sum() / size:+.3f} ± {math.sqrt((gaps**2).sum()) / size:.3f}")
        row = [number, "known" if known else "by the evidence"]
        for inside, square in ((coverages, squares), (held_values, squares_values)):
            row += [
                f"{np.mean(inside):.3f} ± {np.std(inside) / math.sqrt(repeats):.3f}",
                f"{np.mean(square):.2f}",
            ]
        rows.append([*row, *bins])
    text = (
        f"\n\nHow sure: {items_count} items of 3 columns, {repeats} repetitions, ± standard error "
        f"({time.perf_counter() - start:.0f} s)\n\n"
    )
    header = ["duels", "prior", "log odds in 95 %", "mean z²", "values in 95 %", "mean z²"]
    header += [f"gap at p in {low:.1f} … {low + 0.2:.1f}" for low in np.arange(0, 1, 0.2)]
    return text + table(header, rows) + "\n"


PARTS = {f.__name__: f for f in (clusters, naive, sparse, coverage)}


def main():
    parser = chosen(PARTS)
    parser.add_argument("--runs", type=int, help="number of runs of clusters")
    parser.add_argument(
        "--duels", type=int, help="so many duels of clusters; the source says 40,000, its code takes 5,000"
    )
    options = arguments(__doc__, (parser,))
    warnings.simplefilter("ignore", ConvergenceWarning)
    run(PARTS, options, "duels_synthetic", 2, "Duels whose truth is known")


if __name__ == "__main__":
    main()
