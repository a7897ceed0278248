"""Existence of a ranking: SpecR on different results with the same comparison graph, and rock, paper and
scissors on a circle (chapter 6 and table 7.3 of Chau 2023).

    python experiments/rankable.py [--data FOLDER] [--full]

First, SpecR (Cameron, Langville and Smith 2020) and the average clustering of the comparison graph were
published as indicators of whether data sets can be ranked. They are compared with their values for a
perfect ranking and for random winners on the same graph. The table also has the answer of the model, which
the source does not report: the log Bayes factor of cycles, and the cyclic share.

Second, the universality of the generalised model (theorem 6.3.2): each item on a circle beats those less
than half a turn behind it. 30 % of the pairs are duels; the others are predicted by the nested model and
by a utility model.

FOLDER holds chameleon/items.csv and contests.csv, and the same files in flatlizard (from the R package
BradleyTerry2, https://cran.r-project.org/package=BradleyTerry2: rows of items with an id, pairs of winner
and loser), and pokemon/items.csv and combats.csv
(https://www.kaggle.com/datasets/terminus7/pokemon-challenge). Missing data sets are left out. Full: 1,000
references for SpecR instead of 40 (Pokémon: 20 instead of 3), 100 items instead of 60."""

import argparse
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, finish, panels, table
from sklearn.exceptions import ConvergenceWarning

import riesz
from riesz.preference import compare_models, rankability, spec_r

#: Published numbers: SpecR, average clustering.
PUBLISHED = {
    "synthetic": (0.09, None),
    "chameleon": (0.24, 0.33),
    "flatlizard": (None, 0.07),
    "pokemon": (0.20, None),
}


def contests(folder):
    """Covariates with missing values replaced by means, categories as text, and duels as (winner, loser)
    by rows."""
    items = pd.read_csv(folder / "items.csv").set_index("id")
    if (folder / "combats.csv").exists():
        fights = pd.read_csv(folder / "combats.csv")
        fights = fights[(fights["first"] != fights["second"]) & fights.winner.isin(items.index)]
        winner = fights.winner.to_numpy()
        duels = np.column_stack(
            [winner, np.where(fights["first"] == winner, fights["second"], fights["first"])]
        )
    else:
        duels = pd.read_csv(folder / "contests.csv").to_numpy()
    numbers = items.select_dtypes("number")
    items = items.drop(columns=[c for c in items if c not in numbers and items[c].nunique() > 10])
    return items.fillna(numbers.mean()).fillna("unknown"), duels


def simulated(rng):
    """1,000 items in three clusters with their duels, as in table 7.3: x0 decides within a cluster,
    another column between each two."""
    kind = rng.integers(3, size=1000)
    x = rng.normal(size=(1000, 4))
    left, right = rng.integers(1000, size=(2, 40_000))
    left, right = left[left != right], right[left != right]
    column = np.where(
        kind[left] == kind[right], 0, np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]])[kind[left], kind[right]]
    )
    rows = np.arange(len(left))
    won = x[left][rows, column] > x[right][rows, column]
    return np.where(won[:, None], np.column_stack([left, right]), np.column_stack([right, left]))


def index_rows(options):
    rows = []
    sets = {"synthetic": simulated(np.random.default_rng(0))}
    frames = {}
    for name in ("chameleon", "flatlizard", "pokemon"):
        if options.data is not None and (options.data / name / "items.csv").exists():
            frames[name], sets[name] = contests(options.data / name)
    for name, duels in sets.items():
        start = time.perf_counter()
        large = len(np.unique(duels)) > 500
        draws = (20 if large else 1000) if options.full else (3 if large else 40)
        result = spec_r(duels, items=frames.get(name), n_samples=draws, random_state=0)
        bayes_factor = share = "–"
        if name in frames and not large:
            items = frames[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                kernel = kernel_of(items)
                bayes_factor = f"{compare_models(items, duels, kernel=kernel).log_bayes_factor_cyclic:.1f}"
                model = riesz.PreferenceClassifier(kernel=kernel).fit(items, duels)
            hodge = rankability(model, items, random_state=0)
            low, _, high = hodge.cyclic_share_interval
            share = f"{hodge.cyclic_share:.4f} ({low:.2f} … {high:.2f})"
        published, clustering = PUBLISHED[name]
        rows.append(
            [
                name,
                "–" if published is None else f"{published:.2f}",
                f"{result.value:.3f}",
                f"{result.perfect_ranking_mean:.3f} ± {result.perfect_ranking_std:.3f}",
                f"{result.random_mean:.3f} ± {result.random_std:.3f}",
                "–" if clustering is None else f"{clustering:.2f}",
                f"{result.average_clustering:.3f}",
                bayes_factor,
                share,
                f"{time.perf_counter() - start:.0f}",
            ]
        )
    return rows


def kernel_of(items):
    """One length scale for all numbers, in units of their standard deviations, and one for categories."""
    numbers = items.select_dtypes("number")
    deviations = numbers.std(ddof=0).to_numpy()
    kernel = riesz.kernels.RBF(
        (deviations * np.sqrt(len(deviations))).tolist(), columns=list(numbers.columns)
    )
    categorical = [c for c in items if c not in numbers]
    return kernel * riesz.kernels.Categorical(columns=categorical) if categorical else kernel


def circle(count, seed):
    """Accuracies on the pairs that did not meet for the nested model and the utility model, and the cyclic
    share of the nested model."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, count)
    items = np.column_stack([np.cos(angle), np.sin(angle)])
    left, right = np.triu_indices(count, 1)
    ahead = (angle[left] - angle[right]) % (2 * np.pi) < np.pi
    compared = rng.random(len(left)) < 0.3
    duels = np.column_stack([left, right])[compared]
    kernel = riesz.kernels.RBF([1.0, 1.0])
    results = []
    for kind in ("nested", "utility"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = riesz.PreferenceClassifier(kind, kernel=kernel).fit(
                items, duels, outcome=ahead[compared].astype(float)
            )
        right_ones = (model.decision_function(items[left[~compared]], items[right[~compared]]) > 0) == ahead[
            ~compared
        ]
        results.append((right_ones.mean(), model))
    (nested, model), (utility, _) = results
    return nested, utility, rankability(model, items, n_samples=128, random_state=0)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", type=pathlib.Path)
    options = arguments(__doc__, (parser,))
    text = "SpecR and average clustering on the same comparison graphs\n\n"
    header = ["set", "published", "ours", "perfect ranking", "coins", "C_avg published", "ours"]
    rows = index_rows(options)
    text += table([*header, "log Bayes factor of cycles", "cyclic share (95 %)", "seconds"], rows)
    text += (
        "\n\nA perfect ranking on these graphs has nearly the same SpecR as the data, and coins not much "
        "less: it measures who met whom.\n"
    )
    figure, axes = panels(2)
    for i, row in enumerate(rows):
        for j, (cell, name) in enumerate(zip(row[2:5], ["data", "perfect ranking", "coins"])):
            value, _, sd = cell.partition(" ± ")
            label = name if i == 0 else None
            axes[0].errorbar(
                i + 0.15 * (j - 1), float(value), yerr=float(sd or 0), fmt="o", color=COLOURS[j], label=label
            )
    axes[0].set_xticks(range(len(rows)), [row[0] for row in rows])
    axes[0].set_title("SpecR on the same graph", fontsize=10)
    axes[0].legend(fontsize=8)
    count = 100 if options.full else 60
    lines = []
    for seed in range(3):
        start = time.perf_counter()
        nested, utility, hodge = circle(count, seed)
        low, _, high = hodge.cyclic_share_interval
        lines.append(
            [
                seed,
                nested,
                utility,
                f"{hodge.cyclic_share:.3f} ({low:.3f} … {high:.3f})",
                f"{time.perf_counter() - start:.0f}",
            ]
        )
        axes[1].bar(3 * seed, nested, color=COLOURS[0], label="nested" if seed == 0 else None)
        axes[1].bar(3 * seed + 1, utility, color=COLOURS[1], label="utility" if seed == 0 else None)
    axes[1].axhline(0.5, color="black", linewidth=0.6)
    axes[1].set_xticks([])
    axes[1].set_title("accuracy on a circle", fontsize=10)
    axes[1].legend(fontsize=8)
    text += f"\nRock, paper and scissors: {count} items on a circle, 30 % of the pairs\n\n"
    text += table(["seed", "nested, accuracy", "utility, accuracy", "cyclic share (95 %)", "seconds"], lines)
    finish(options, "rankable", figure, text)


if __name__ == "__main__":
    main()
