"""Prediction of duels, and clusters of items that can be compared: the simulations of chapter 6 (figures
6.2 and 6.3 of Chau 2023).

    python experiments/clusters.py [predict|cluster|weak ...] [--full]

30 items with 5 covariates in L clusters, z uniform, x | z ~ N(z 1, I). Between clusters z and z' a utility
r_zz' = Σ_j α_j k(x, x_j) with α ~ N(0, I) decides: the item with the larger utility wins. The source
doesn't specify the kernel k; here it is a Gaussian with length scale √5.

predict, figure 6.2: the accuracy on 30 % of the duels after training on the others. The methods are the
generalised model, the utility model, and the nested model, which is the sum of both. Baselines of
scikit-learn on the rows of both items, in either order, are a Gaussian process (PAIR-GP) and logistic
regression (PAIR-LOGREG), with probabilities averaged over both orders.

cluster, figure 6.3: duels between clusters are random. The result is the share of items in the right
cluster, for a known number of clusters. Published: GPGP-CLUS is best unless duels are dense, and PR-CLUS
is worst. Not published: k-means of the covariates alone, without any duel; spectral clustering; the
mixture of rankings, which also chooses the number of clusters.

weak: the same with covariates that have little (means .3 apart) or no information about clusters, where
the mixture learns from duels alone.

Full: 20 repetitions instead of 4 (weak: 40 instead of 8), and the densities .1, .2, … .9 for figure 6.2.
"""

import collections
import time
import warnings

import numpy as np
from _figures import COLOURS, arguments, chosen, run, table
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import riesz
from riesz.kernels import RBF

ITEMS, WIDTH = 30, 5
SCALE = float(np.sqrt(WIDTH))
KERNEL = RBF([SCALE] * WIDTH)


def simulate(rng, clusters, density, coins=False, shift=1.0):
    """Items, duels (left, right), whether the left one won, and the clusters."""
    kind = rng.integers(clusters, size=ITEMS)
    x = rng.normal(size=(ITEMS, WIDTH)) + shift * (kind[:, None] + 1)
    square = ((x[:, None] - x) ** 2).sum(axis=2)
    utility = np.exp(-square / (2 * SCALE**2)) @ rng.normal(size=(ITEMS, clusters, clusters)).reshape(
        ITEMS, -1
    )
    utility = utility.reshape(ITEMS, clusters, clusters)
    left, right = np.triu_indices(ITEMS, 1)
    compared = rng.random(len(left)) < density
    left, right = left[compared], right[compared]
    low, high = np.minimum(kind[left], kind[right]), np.maximum(kind[left], kind[right])
    won = utility[left, low, high] > utility[right, low, high]
    if coins:
        won = np.where(low == high, won, rng.random(len(left)) < 0.5)
    return x, np.column_stack([left, right]), won.astype(float), kind


def mirrored(model, x, train, won, test):
    """A scikit-learn model on rows of both items: fitted to both orders, with predictions averaged over
    both."""
    rows = lambda pairs: np.hstack([x[pairs[:, 0]], x[pairs[:, 1]]])
    model.fit(np.vstack([rows(train), rows(train[:, ::-1])]), np.concatenate([won, 1 - won]))
    return 0.5 * (model.predict_proba(rows(test))[:, 1] + model.predict_proba(rows(test[:, ::-1]))[:, 0])


def predicted(rng, clusters, density):
    """Accuracy and log loss of each method, and the log evidence of the utility model minus that of the
    generalised model."""
    x, duels, won, _ = simulate(rng, clusters, density)
    order = rng.permutation(len(duels))
    train, test = np.split(order, [round(0.7 * len(order))])
    probabilities, evidence = {}, {}
    for kind in ("generalised", "utility", "nested"):
        model = riesz.PreferenceClassifier(kind, kernel=KERNEL).fit(x, duels[train], outcome=won[train])
        probabilities[kind] = model.predict_proba(x[duels[test, 0]], x[duels[test, 1]])[:, 1]
        evidence[kind] = model.log_marginal_likelihood_value_
    kernel = ConstantKernel(4.0) * SklearnRBF(SCALE, (0.1, 100.0))
    gaussian = GaussianProcessClassifier(kernel)
    probabilities["PAIR-GP"] = mirrored(gaussian, x, duels[train], won[train], duels[test])
    probabilities["PAIR-LOGREG"] = mirrored(LogisticRegression(), x, duels[train], won[train], duels[test])
    truth = won[test]
    scores = {
        name: (((p > 0.5) == truth).mean(), log_loss(truth, p, labels=[0.0, 1.0]))
        for name, p in probabilities.items()
    }
    return scores, evidence["utility"] - evidence["generalised"]


METHODS = {
    "covariates": "covariates alone",
    "generalised": "GPGP-CLUS",
    "comparisons": "SVD-CLUS",
    "abstaining": "PR-CLUS",
    "spectral": "spectral",
    "mixture": "mixture",
}


def share(labels, kind):
    """The share of items in the right cluster, for the best matching of clusters."""
    counts = np.zeros((labels.max() + 1, kind.max() + 1))
    np.add.at(counts, (labels, kind), 1)
    return counts[linear_sum_assignment(-counts)].sum() / len(kind)


def clustered(rng, clusters, density, shift=1.0, covariates=True, methods=tuple(METHODS)):
    """The share of items in the right cluster for each method, the number of clusters that the bound
    chooses, and the share for the mixture with that number."""
    x, duels, won, kind = simulate(rng, clusters, density, coins=True, shift=shift)
    shares = {}
    for method in methods:
        settings = {"method": method, "kernel": KERNEL, "covariates": covariates, "random_state": 0}
        shares[method] = share(
            riesz.PreferenceClusters(clusters, **settings).fit_predict(x, duels, outcome=won), kind
        )
    free = riesz.PreferenceClusters(max_clusters=4, kernel=KERNEL, covariates=covariates, random_state=0)
    free.fit(x, duels, outcome=won)
    return shares, free.n_clusters_, share(free.labels_, kind)


def predict(options, axes):
    runs = 20 if options.full else 4
    names = ["generalised", "utility", "nested", "PAIR-GP", "PAIR-LOGREG"]
    densities = np.round(np.arange(0.1, 0.95, 0.1), 1) if options.full else [0.3, 0.6, 0.9]
    rows, behind, single_cluster, dense = [], {}, [], {}
    for axis, clusters in zip(axes, [1, 2, 5]):
        curves = []
        for density in densities:
            start = time.perf_counter()
            all_runs = [
                predicted(np.random.default_rng([seed, clusters]), clusters, density) for seed in range(runs)
            ]
            scores = {name: np.mean([scores[name] for scores, _ in all_runs], axis=0) for name in names}
            favours = [difference for _, difference in all_runs]
            curves.append([scores[name][0] for name in names])
            cells = [f"{scores[name][0]:.3f} ({scores[name][1]:.2f})" for name in names]
            better = "generalised" if curves[-1][0] > curves[-1][1] else "utility"
            gaps = [scores[better][0] - scores["nested"][0] for scores, _ in all_runs]
            behind[f"L = {clusters}, density {density}"] = np.mean(gaps), np.std(gaps) / np.sqrt(runs - 1)
            dense[clusters] = curves[-1][0] - curves[-1][1]
            if clusters == 1:
                single_cluster += favours
            evidence_cell = (
                f"{np.mean(favours):.1f} ({sum(difference > 0 for difference in favours)} of {runs})"
            )
            rows.append([clusters, density, *cells, evidence_cell, f"{time.perf_counter() - start:.0f}"])
        for j, name in enumerate(names):
            axis.plot(densities, np.array(curves)[:, j], "o-", color=COLOURS[j], label=name, markersize=3)
        axis.set_title(f"accuracy, L = {clusters}", fontsize=10)
        axis.set_xlabel("density")
    axes[0].legend(fontsize=7)
    text = f"\n\nFigure 6.2: accuracy (log loss) on 30 % of the duels, {runs} repetitions\n\n"
    text += (
        "Published: PGP and PAIR-LOGREG fall with L, GPGP and PAIR-GP are stable, PGP is best at L = 1.\n\n"
    )
    text += table(
        [
            "L",
            "density",
            "GPGP",
            "PGP",
            "nested",
            *names[3:],
            "evidence PGP - GPGP (PGP's is larger)",
            "seconds",
        ],
        rows,
    )
    worst = sorted(behind, key=behind.get, reverse=True)[:3]
    worst_text = "; ".join(
        f"{behind[setting][0]:.3f} ± {behind[setting][1]:.3f} with {setting}" for setting in worst
    )
    text += f"\n\nWhere nested is furthest behind the better of GPGP and PGP, ± standard error: {worst_text}."
    text += (
        f" With one cluster the evidence is for PGP in "
        f"{sum(difference > 0 for difference in single_cluster)} of {len(single_cluster)}."
    )
    return text + f" With five, dense, GPGP is {dense[5]:+.3f} against PGP.\n"


def counted(numbers):
    """The frequencies of the estimated numbers of clusters."""
    return ", ".join(f"{number}: {count}" for number, count in sorted(collections.Counter(numbers).items()))


def cluster(options, axes):
    runs = 20 if options.full else 4
    rows = []
    for axis, clusters in zip(axes[3:], [2, 3]):
        curves = []
        for density in [0.3, 0.6, 0.95]:
            start = time.perf_counter()
            all_runs = [
                clustered(np.random.default_rng([seed, clusters]), clusters, density) for seed in range(runs)
            ]
            shares = np.array([[shares[method] for method in METHODS] for shares, _, _ in all_runs])
            curves.append(shares.mean(axis=0))
            cells = [f"{column.mean():.2f} ± {column.std():.2f}" for column in shares.T]
            number_counts = counted(number for _, number, _ in all_runs)
            free = np.mean([share for _, _, share in all_runs])
            rows.append(
                [
                    clusters,
                    density,
                    *cells,
                    f"{shares[:, -1].min():.2f}",
                    number_counts,
                    free,
                    f"{time.perf_counter() - start:.0f}",
                ]
            )
        for j, name in enumerate(METHODS.values()):
            axis.plot(
                [0.3, 0.6, 0.95], np.array(curves)[:, j], "o-", color=COLOURS[j], label=name, markersize=3
            )
        axis.set_title(f"share in the right cluster, L = {clusters}", fontsize=10)
        axis.set_xlabel("density")
        axis.set_ylim(0.2, 1.02)
    axes[3].legend(fontsize=7, loc="lower center", ncols=2)
    text = (
        f"\n\nFigure 6.3: share of items in the right cluster, {runs} repetitions; up to 4 clusters where "
        f"the number is to be found\n\n"
    )
    text += "Published: GPGP-CLUS best except where dense, PR-CLUS worst; the covariates alone not shown.\n\n"
    header = [
        "L",
        "density",
        *METHODS.values(),
        "mixture, worst",
        "numbers found",
        "mixture, number found",
        "seconds",
    ]
    text += table(header, rows)
    numbers = [
        clustered(np.random.default_rng([seed, 1]), 1, 0.6, methods=("covariates",))[1]
        for seed in range(runs)
    ]
    return text + f"\n\nNumbers found with a single cluster, density .6: {counted(numbers)}\n"


def weak(options, axes):
    runs = 40 if options.full else 8
    rows = []
    for shift in [0.3, 0.0]:
        seeds = [np.random.default_rng([seed, 9]) for seed in range(runs)]
        all_runs = [clustered(rng, 2, 0.95, shift=shift, covariates=False)[:2] for rng in seeds]
        shares = np.array([[shares[method] for method in METHODS] for shares, _ in all_runs])
        cells = [f"{column.mean():.2f} ± {column.std():.2f}" for column in shares.T]
        failed = f"{(shares[:, -1] < 0.75).sum()} of {runs}, worst {shares[:, -1].min():.2f}"
        rows.append([shift, *cells, failed, counted(number for _, number in all_runs)])
    text = (
        f"\n\nCovariates that tell little of two clusters, density .95, {runs} repetitions; the mixture "
        f"from duels alone; ours, nothing is published\n\n"
    )
    return (
        text + table(["shift of means", *METHODS.values(), "mixture below .75", "numbers found"], rows) + "\n"
    )


PARTS = {f.__name__: f for f in (predict, cluster, weak)}


def main():
    options = arguments(__doc__, (chosen(PARTS),))
    warnings.simplefilter("ignore", ConvergenceWarning)
    run(PARTS, options, "clusters", 5, f"{ITEMS} items in L clusters")


if __name__ == "__main__":
    main()
