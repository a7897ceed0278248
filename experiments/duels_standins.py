"""Stand-ins for the two data sets of Chau 2023 that are not to be had: citations (table 6.1) and tennis (figures 7.7 and 7.8). Their sizes are the source's or smaller, their truth is made up, so that no
number is compared with a published one.

    python experiments/duels_standins.py [citations|tennis ...] [--full]

citations: 1,025 papers, 1,000 citations, 128 columns x ~ N(0, Q Qᵀ) of rank 10, Q orthonormal. i cites j with probability proportional to exp(x_iᵀ B x_j), the entries of Qᵀ B Q normal, of such a size that scores have standard deviation 1.5 (it is chosen, like all else here): given that one of the two cites the
other, the log odds which are x_iᵀ (B - Bᵀ) x_j, skew and bilinear. No difference of utilities is near them, so the generalised model is ahead of a utility by construction; by how much, and how near the
best that can be had, is what is shown. Published, for the arXiv: GPGP .74, PGP .66, PAIR-GP .70, PAIR-LOGREG .62.
tennis: in one context of six the sign of a column turns around. Through landmarks riesz learns nothing of contexts, so it is small.

Full: 20 splits instead of 3 (citations).
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, finish, panels, table
from duels import METHODS, bars, cell, compared, scores, splits
from sklearn.exceptions import ConvergenceWarning

import riesz
from riesz.kernels import RBF


def cited(rng, count=1025, number=1000, width=128, rank=10, strength=1.5):
    """Columns of papers, pairs of who is cited and who cites, and the true log odds of all pairs that the left one is cited."""
    base, _ = np.linalg.qr(rng.normal(size=(width, rank)))
    z = rng.normal(size=(count, rank))
    score = strength * z @ rng.normal(size=(rank, rank)) @ z.T / rank
    # The largest sums of a log probability and a Gumbel number: a draw without replacement (Vieira 2014).
    drawn = score + rng.gumbel(size=score.shape)
    np.fill_diagonal(drawn, -np.inf)
    cites, is_cited = np.divmod(np.argpartition(drawn.ravel(), -number)[-number:], count)
    return z @ base.T, np.column_stack([is_cited, cites]), score.T - score


def citations(options, axes):
    start = time.perf_counter()
    x, duels, log_odds = cited(np.random.default_rng(0))
    items = pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
    count = options.splits or (20 if options.full else 3)
    found, evidence = compared(items, duels, count)
    truth = [scores(1 / (1 + np.exp(-log_odds[tuple(duels[test].T)]))) for _, test in splits(duels, count)]
    found["the truth"] = np.array(truth)
    rows = []
    for method in [*METHODS, "the truth"]:
        accuracy, auc, loss = found[method].T
        told = f"{np.mean(evidence[method]):.1f}" if method in evidence else "–"
        rows.append([method, cell(accuracy), cell(auc), cell(loss), told])
    bars(axes[0], "stand-in for citations", {method: found[method][:, 0] for method in METHODS})
    text = f"\n\nA stand-in for citations: {len(x)} papers ({len(np.unique(duels))} in any duel), {len(duels)} citations, {x.shape[1]} columns of rank 10, {count} splits 70/30 by pair"
    text += f" ({time.perf_counter() - start:.0f} s)\n\n"
    return text + table(["method", "accuracy", "AUC", "log loss", "evidence"], rows) + "\n"


def tennis(options, axes):
    rng = np.random.default_rng(0)
    items = pd.DataFrame(rng.normal(size=(150, 4)), columns=["serve", "return", "height", "age"])
    names = ["surface", "indoor", "final", "evening", "long", "season"]
    left, right = rng.integers(150, size=(2, 900))
    left, right = left[left != right], right[left != right]
    where = pd.DataFrame(rng.integers(2, size=(len(left), 6)).astype(float), columns=names)
    x = items.to_numpy()
    sign = 2 * where["surface"].to_numpy() - 1
    ahead = 2 * sign * (x[left, 0] - x[right, 0]) + x[left, 1] - x[right, 1]
    won = (rng.random(len(left)) < 1 / (1 + np.exp(-ahead))).astype(float)
    duels = np.column_stack([left, right])
    train, test = np.arange(700), np.arange(700, len(left))
    start = time.perf_counter()
    rows = []
    for name, told in (("utility", True), ("utility", False)):
        given = {"contexts": where.iloc[train]} if told else {}
        model = riesz.PreferenceClassifier(name, kernel=RBF("median")).fit(items, duels[train], outcome=won[train], **given)
        given = {"contexts": where.iloc[test]} if told else {}
        sides = items.iloc[left[test]], items.iloc[right[test]]
        chance = model.predict_proba(*sides, **given)[:, 1]
        rows.append([name, "six" if told else "none", float(((chance > 0.5) == won[test]).mean())])
        if told:
            kept, seconds = model, time.perf_counter() - start
    given = {"contexts": where.iloc[test[:60]], "absent_contexts": where.iloc[train[:50]]}
    sides = items.iloc[left[test[:60]]], items.iloc[right[test[:60]]]
    alone = kept.explain(*sides, game="contexts", **given)
    size = dict(zip(alone.feature_names, np.abs(alone.values).mean(axis=0)))
    order = sorted(size, key=size.get, reverse=True)
    joint = kept.explain(*sides, items.iloc[:50], **given)
    log_odds = kept.decision_function(*sides, contexts=where.iloc[test[:60]])
    gap = np.abs(joint.values.sum(axis=1) - log_odds).max()
    both = dict(zip(joint.feature_names, np.abs(joint.values).mean(axis=0)))
    leading = sorted(both, key=both.get, reverse=True)
    text = f"\n\nA stand-in for tennis: 150 items, 700 duels learnt, {len(test)} others, six contexts, a kernel for all ({seconds:.0f} s)\n\n"
    text += table(["model", "contexts", "accuracy"], rows)
    text += "\n\nContexts alone as players: " + ", ".join(f"{name} {size[name]:.2f}" for name in order)
    text += "\nItems and contexts: " + ", ".join(f"{name} {both[name]:.2f}" for name in leading)
    axes[1].barh(leading[::-1], [both[name] for name in leading[::-1]], color=COLOURS[0])
    axes[1].set_title("stand-in for tennis, mean |value|", fontsize=10)
    return text + f"\nLargest gap of their sum to the log odds: {gap:.0e}\n"


PARTS = {f.__name__: f for f in (citations, tennis)}


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS) + "; by default all")
    parser.add_argument("--splits", type=int, help="so many splits of citations")
    options = arguments(__doc__, (parser,))
    warnings.simplefilter("ignore", ConvergenceWarning)
    figure, axes = panels(2)
    text = "Stand-ins for data that are not to be had: no number is compared with a published one"
    for name, part in PARTS.items():
        if not options.parts or name in options.parts:
            told = part(options, axes)
            print(told, flush=True)
            text += told
    finish(options, "duels_standins", figure, text)


if __name__ == "__main__":
    main()
