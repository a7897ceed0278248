"""Downscaling of a swiss roll: a map of points from means over slices (Chau, Bouabid and Sejdinovic 2021;
chapter 3 of Chau 2023, table 3.1, figures A.1 to A.4, section A.6.2).

    python experiments/downscaling_swiss.py [matched|mediated|mixed|forms|degenerate ...] [--full] [--seeds
    COUNT] [--tests]

Points lie on a swiss roll. The position t along the roll is estimated from 50 slices of equal height, of
which the mean of t is known with noise of .05. The middle of a slice is its mediator. Columns and t are
standardised. The error is the root mean square over all points, so a constant has the error 1.

matched, table 3.1 direct: the points of all slices with a target are known. The methods are the exact
process and the one through 200 inducing points; the conditional mean process by the conventions of the
source; the same with constants kept and the ridge with the largest evidence; and two references in plain
code. These are a process that treats slices as independent (the published BAGG-GP computes this) and a
process of the slices' mean points (scikit-learn). The evidence doesn't determine the scale of the
published model. For it the table also has the slope of t on the prediction, and the error of predictions
scaled by it.

mediated, table 3.1 indirect: 25 random slices have points, the other 25 have targets. Published references
regress targets on mediators and use the predictions at slices with points as targets. The source's code
has predictions in the order of mediators, but slices in random order; the table has both orders. Not
published: the same with the covariance of the predictions (pseudo), and with slices tied to the regression
by a variance, with all hyper-parameters tuned together (two-sided).

mixed, not published: a share of slices has points and targets; of the others half have points, half
targets.

forms, figures A.1 to A.4: the conditional mean operator from every row (CMO) and from bags (S-CMO), y ~
N(0, 2), x | y ~ N(y sin y, .25), ridge λ = .1, in plain numpy. For bags of equal sizes they are the same
estimator with the same length scale and the same ridge, so the published difference is one of conventions.

degenerate, A.6.2: the source says that without noise the covariance at the rows is 0. This holds if there
are as many targets as rows with independent weights.

--tests: for matched and mediated, Wilcoxon's signed-rank tests between all pairs of methods over the seeds
(tables A.1 and A.2 have those of the source's methods); they need about 20 seeds.

Full: 5,000 points instead of 600, the 20 published seeds instead of 4 (of another generator; --seeds has
others), and 25,000 rows instead of 3,000 for forms (5 GB, ten minutes); some minutes per seed for matched."""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, chosen, criterion_text, mean_and_sd, run, table
from _wilcoxon import signed_rank, tests
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

import riesz
from riesz.kernels import RBF

SLICES, NOISE = 50, 0.05
SEEDS = [2, 3, 5, 7, 9, 11, 17, 19, 29, 31, 41, 42, 43, 47, 59, 73, 79, 89, 97, 101]
COLUMNS = ["x", "y", "z"]
PUBLISHED = {"direct": [0.33, 0.25, 0.18, 0.60, 0.22, 0.70], "indirect": [0.80, 1.05, 0.87, 1.13, 1.46, 1.04]}
NAMES = ["CMP", "S-CMP", "VarCMP", "BAGG-GP", "VBAGG", "GPR"]


def roll(options, seed):
    """Rows with their slice, slices with mediator and target, the truth, and the generator in its current
    state."""
    rng = np.random.default_rng(seed)
    count = 5000 if options.full else 600
    t = 1.5 * np.pi * (1 + 2 * rng.random(count))
    x = np.column_stack([t * np.cos(t), 21 * rng.random(count), t * np.sin(t)])
    x, t = (x - x.mean(axis=0)) / x.std(axis=0), (t - t.mean()) / t.std()
    edges = np.linspace(x[:, 2].min(), x[:, 2].max(), SLICES + 1)
    rows = pd.DataFrame(x, columns=COLUMNS).assign(
        slice=np.clip(np.searchsorted(edges, x[:, 2], "right") - 1, 0, SLICES - 1)
    )
    bags = pd.DataFrame({"middle": 0.5 * (edges[1:] + edges[:-1])})
    bags["mean"] = pd.Series(t).groupby(rows.slice).mean().reindex(bags.index) + NOISE * rng.normal(
        size=SLICES
    )
    # Slices without a point are left out.
    return rows, bags.dropna().rename_axis("slice").reset_index(), t, rng


def seeds(options):
    return SEEDS[: options.seeds or (20 if options.full else 4)]


def fitted(rows, bags, mediators=("middle",), **settings):
    model = riesz.AggregateGaussianProcess(**{"n_hyperparameter_samples": 0, "random_state": 0, **settings})
    return model.fit(rows, bags, bag="slice", target="mean", mediators=list(mediators))


def error(prediction, t):
    return float(np.sqrt(np.mean((prediction - t) ** 2)))


def coverage_of(prediction, t):
    """The share of points within 1.96 standard deviations of the prediction."""
    mean, sd = prediction
    return float(np.mean(np.abs(t - mean) < 1.96 * sd))


def regression(x, y, query):
    """A Gaussian process of scikit-learn."""
    x, query = x.reshape(len(x), -1), query.reshape(len(query), -1)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * SklearnRBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(
        0.1, (1e-6, 1e1)
    )
    return GaussianProcessRegressor(kernel, normalize_y=True).fit(x, y).predict(query)


def centroids(rows, targets, names):
    """A regression of the targets on the slices' mean points."""
    means = rows[rows.slice.isin(names)].groupby("slice")[COLUMNS].mean().loc[names]
    return regression(means.to_numpy(), targets, rows[COLUMNS].to_numpy())


def independent(rows, bags):
    """A process that treats slices as independent: it maximises the evidence, and predicts each point from
    its own slice alone."""
    blocks = [rows.loc[rows.slice == name, COLUMNS].to_numpy() for name in bags.slice]
    squares = [(block[:, None] - block) ** 2 for block in blocks]
    targets = bags["mean"].to_numpy()

    def kernels(log):
        return [np.exp(log[3] - 0.5 * square @ np.exp(-2 * log[:3])) for square in squares]

    def cost(log):
        variances = np.array([kernel.mean() for kernel in kernels(log)]) + np.exp(log[4])
        mean = np.sum(targets / variances) / np.sum(1 / variances)
        return 0.5 * np.sum(np.log(variances) + (targets - mean) ** 2 / variances)

    log = minimize(cost, np.zeros(5), method="L-BFGS-B", bounds=[(-5, 5)] * 5).x
    grams = kernels(log)
    variances = np.array([kernel.mean() for kernel in grams]) + np.exp(log[4])
    mean = np.sum(targets / variances) / np.sum(1 / variances)
    prediction = np.empty(len(rows))
    for name, kernel, target, variance in zip(bags.slice, grams, targets, variances):
        prediction[rows.slice == name] = mean + kernel.mean(axis=1) * (target - mean) / variance
    return prediction


def evident(rows, bags, **settings):
    """The conditional mean process with constants kept, and the ridge of a grid with the largest evidence."""
    grid = [1e-2, 1e-4, 1e-6, 1e-8]
    settings = {"operator": "mediated", "published": True, "centered": True, **settings}
    models = [fitted(rows, bags, mediator_ridge=ridge, **settings) for ridge in grid]
    return max(models, key=lambda model: model.log_marginal_likelihood_value_).predict(rows)


def matched(options, axes):
    results, slopes = {}, []
    for seed in seeds(options):
        rows, bags, t, _ = roll(options, seed)
        source = fitted(rows, bags, operator="mediated", published=True).predict(rows)
        slopes.append(np.polyfit(source, t, 1)[0])
        predictions = {
            "exact": fitted(rows, bags, ()).predict(rows),
            "200 inducing points": fitted(rows, bags, (), n_inducing=200).predict(rows),
            "S-CMP, constants kept, by evidence": evident(rows, bags),
            "CMP, constants kept, by evidence": evident(rows, bags, mediator_examples="rows"),
            "S-CMP, constants kept, ridge by slices left out": fitted(
                rows, bags, operator="mediated"
            ).predict(rows),
            "S-CMP as published": source,
            "CMP as published": fitted(
                rows, bags, operator="mediated", published=True, mediator_examples="rows"
            ).predict(rows),
            "S-CMP as published, scaled": np.polyval(np.polyfit(source, t, 1), source),
            "slices independent": independent(rows, bags),
            "regression on mean points": centroids(rows, bags["mean"].to_numpy(), bags.slice),
        }
        for name, values in predictions.items():
            results.setdefault(name, []).append(error(values, t))
    means = {name: float(np.mean(errors)) for name, errors in results.items()}
    exact = means["exact"]
    published = {
        "S-CMP as published": ".25 ± .04",
        "CMP as published": ".33 ± .06",
        "200 inducing points": "(VBAGG) .22 ± .04",
    }
    published |= {"slices independent": "(BAGG-GP) .60 ± .01", "regression on mean points": "(GPR) .70 ± .05"}
    criteria = {
        "exact": criterion_text(exact, high=0.1),
        "200 inducing points": near(means["200 inducing points"], exact, 0.02),
        "slices independent": criterion_text(means["slices independent"], 0.6, 0.7),
        "regression on mean points": criterion_text(means["regression on mean points"], 0.55, 0.75),
    }
    for name in results:
        if "by evidence" in name:
            criteria[name] = near(means[name], exact, 0.01)
    bars(axes[0], results, "slices with points", PUBLISHED["direct"])
    rows = [
        [name, published.get(name, ""), mean_and_sd(errors), criteria.get(name, "")]
        for name, errors in results.items()
    ]
    text = f"\n\nTable 3.1 direct, error, {len(slopes)} seeds (± standard deviation)\n\n" + table(
        ["method", "published", "here", "criterion"], rows
    )
    text += (
        f"\n\nSlope of t on the prediction of S-CMP as published: {mean_and_sd(slopes)}, least "
        f"{min(slopes):.3f}.\n"
    )
    return text + (signed_rank(results, "errors, slices with points") if options.tests else "")


def near(value, exact, gap):
    return f"within {gap} of exact: {'yes' if abs(value - exact) <= gap else 'no'}"


def bars(axis, results, title, published):
    """Errors of methods next to the published ones."""
    places = np.arange(len(results))
    axis.barh(
        places,
        [np.mean(errors) for errors in results.values()],
        xerr=[np.std(errors) for errors in results.values()],
        color=COLOURS[0],
        height=0.6,
    )
    for j, (name, value) in enumerate(sorted(zip(NAMES, published), key=lambda pair: pair[1])):
        axis.axvline(value, color=COLOURS[1], linewidth=0.8, alpha=0.7)
        axis.text(value, -0.9 - 0.55 * (j % 3), name, fontsize=5, ha="center", color=COLOURS[1])
    axis.set_yticks(places, list(results), fontsize=6)
    axis.set_ylim(len(results) - 0.4, -2.6)
    axis.set_title(f"error, {title} (lines: published)", fontsize=9)


def mediated(options, axes):
    results, covered = {}, {}
    for seed in seeds(options):
        rows, bags, t, rng = roll(options, seed)
        order = rng.permutation(len(bags))
        with_rows = bags.slice.isin(bags.slice[order[: len(bags) // 2]])
        seen, parts = (
            rows[rows.slice.isin(bags.slice[with_rows])],
            bags.assign(mean=bags["mean"].mask(with_rows)),
        )
        for name, settings in {
            "S-CMP, constants kept, averaged": {"n_hyperparameter_samples": 64},
            "S-CMP, constants kept, best alone": {},
            "S-CMP, constants kept, averaged, regression certain": {
                "n_hyperparameter_samples": 64,
                "mediation_noise": 0.0,
            },
            "S-CMP, constants kept, best alone, regression certain": {"mediation_noise": 0.0},
            "S-CMP as published": {"published": True},
            "CMP as published": {"published": True, "mediator_examples": "rows"},
            "pseudo-targets with their covariance": {"operator": "pseudo"},
            "two-sided, averaged": {"operator": "two-sided", "n_hyperparameter_samples": 64},
            "two-sided, best alone": {"operator": "two-sided"},
        }.items():
            predicted = fitted(seen, parts, **settings).predict(rows, return_std=True)
            results.setdefault(name, []).append(error(predicted[0], t))
            covered.setdefault(name, []).append(coverage_of(predicted, t))
        row_bags, other = bags[with_rows], bags[~with_rows]
        pseudo = regression(other.middle.to_numpy(), other["mean"].to_numpy(), row_bags.middle.to_numpy())
        for name, targets in {
            "order of slices": pseudo,
            "order of the source's code": pseudo[rng.permutation(len(pseudo))],
        }.items():
            predicted = fitted(seen, row_bags.assign(mean=targets), ()).predict(rows, return_std=True)
            results.setdefault(f"process of means, {name}", []).append(error(predicted[0], t))
            covered.setdefault(f"process of means, {name}", []).append(coverage_of(predicted, t))
            results.setdefault(f"regression on mean points, {name}", []).append(
                error(own_points(seen, rows, targets, row_bags), t)
            )
    published = {"S-CMP as published": "1.05 ± .04", "CMP as published": ".80 ± .14"}
    published |= {"process of means, order of the source's code": "(BAGG-GP) 1.13 ± .11"}
    published |= {"regression on mean points, order of the source's code": "(GPR) 1.04 ± .05"}
    criteria = {}
    for name, errors in results.items():
        if "source's code" in name:
            criteria[name] = criterion_text(np.mean(errors), low=1.0)
        elif "order of slices" in name:
            criteria[name] = criterion_text(np.mean(errors), 0.78, 0.85)
    averaged = "S-CMP, constants kept, averaged"
    coverage = criterion_text(np.mean(covered[averaged]), 0.9, 0.98)
    criteria[averaged] = f"{criterion_text(np.mean(results[averaged]), high=0.85)}; coverage {coverage}"
    bars(axes[1], results, "slices without points", PUBLISHED["indirect"])
    cells = lambda name: mean_and_sd(covered[name]) if name in covered else ""
    lines = [
        [name, published.get(name, ""), mean_and_sd(errors), cells(name), criteria.get(name, "")]
        for name, errors in results.items()
    ]
    text = (
        f"\n\nTable 3.1 indirect, error and coverage of 95 % intervals, {len(seeds(options))} seeds; a "
        f"constant has an error of 1\n\n"
    )
    return (
        text
        + table(["method", "published", "here", "coverage", "criterion"], lines)
        + (signed_rank(results, "errors, slices without points") if options.tests else "\n")
    )


def own_points(seen, rows, targets, row_bags):
    """The regression on mean points of the slices with points, evaluated at all rows."""
    means = seen.groupby("slice")[COLUMNS].mean().loc[row_bags.slice]
    return regression(means.to_numpy(), targets, rows[COLUMNS].to_numpy())


def mixed(options, axes):
    shares, errors, gaps = [0.0, 0.25, 0.5, 0.75, 1.0], [], []
    for seed in seeds(options):
        rows, bags, t, rng = roll(options, seed)
        order, line = rng.permutation(len(bags)), []
        for share in shares:
            n_matched = round(share * len(bags))
            points_only = order[n_matched : (n_matched + len(bags)) // 2]
            targets_only = order[(n_matched + len(bags)) // 2 :]
            parts = bags.assign(mean=bags["mean"].mask(bags.index.isin(points_only)))
            prediction = fitted(rows[~rows.slice.isin(bags.slice[targets_only])], parts).predict(rows)
            line.append(error(prediction, t))
        gaps.append(np.abs(prediction - fitted(rows, bags, ()).predict(rows)).max())
        errors.append(line)
    errors = np.array(errors)
    means = errors.mean(axis=0)
    axes[2].plot(shares, errors.T, color=COLOURS[3], linewidth=0.7, alpha=0.6)
    axes[2].plot(shares, means, "o-", color=COLOURS[0])
    axes[2].set_title("error, share of slices with both", fontsize=9)
    falls = "yes" if (np.diff(means) < 0).all() else "no"
    text = f"\n\nA share of slices with points and targets, {len(errors)} seeds; not published\n\n"
    text += table(
        ["share", "error"], [[share, mean_and_sd(column)] for share, column in zip(shares, errors.T)]
    )
    agreement = "yes" if max(gaps) <= 1e-10 else "no"
    return (
        text
        + f"\n\nThe mean error falls throughout: {falls}. All matched are as the exact process to 1e-10: {agreement} ({max(gaps):.1e}).\n"
    )


def gaussian(a, b, scale):
    # In place, because the matrix of all rows needs all of the memory.
    gram = np.subtract.outer(a, b)
    gram *= gram
    gram *= -0.5 / scale**2
    return np.exp(gram, out=gram)


def median_scale(y):
    gaps = np.abs(y[:, None] - y)[np.triu_indices(len(y), 1)]
    return float(np.median(gaps))


def operators(y, size, query, ridge):
    """Weights of rows for the conditional mean at ``query``, from all rows and from bags, and the seconds.
    ``y`` has one value per bag, each with ``size`` rows."""
    scale, count = median_scale(y), len(y) * size
    start = time.perf_counter()
    rows = np.repeat(y, size)
    gram = gaussian(rows, rows, scale)
    gram[np.diag_indices(count)] += ridge
    by_rows = cho_solve(
        cho_factor(gram.T, overwrite_a=True, check_finite=False), gaussian(rows, query, scale)
    )
    middle = time.perf_counter()
    gram = gaussian(y, y, scale)
    gram[np.diag_indices(len(y))] += ridge / size
    by_bags = cho_solve(cho_factor(gram), gaussian(y, query, scale))
    end = time.perf_counter()
    return by_rows, np.repeat(by_bags / size, size, axis=0), by_bags, middle - start, end - middle


def forms(options, axes):
    large = 25_000 if options.full else 3_000
    lines, panel = [], []
    for bags, size in [(3, 50), (50, 3), (50, large // 50), (500, large // 500)]:
        rng = np.random.default_rng(0)
        y = rng.normal(scale=np.sqrt(2), size=bags)
        x = rng.normal(np.repeat(y * np.sin(y), size), 0.5)
        query = np.linspace(-3, 3, 100)
        count, scale = bags * size, median_scale(y)
        by_rows, by_bags, weights, slow, quick = operators(y, size, query, 0.1 * count)
        gap = np.abs(by_rows - by_bags).max()
        means = x.reshape(bags, size).mean(axis=1)
        rmse = lambda values, other: float(np.sqrt(np.mean((values - other) ** 2)))
        # The ridge for rows without the factor of their number, and the ridge for bags: another ridge per
        # bag.
        plain = lambda ridge, length_scale: (
            np.linalg.solve(
                gaussian(y, y, length_scale) + ridge * np.eye(bags), gaussian(y, query, length_scale)
            ).T
            @ means
        )
        ridge_gap = rmse(plain(0.1 / size, scale), plain(0.1, scale))
        pairs = np.repeat(y, size) if count <= 3000 else np.repeat(y, 2000 // bags)
        distance_gap = rmse(plain(0.1 * bags, median_scale(pairs)), plain(0.1 * bags, scale))
        speed = criterion_text(slow / quick, low=200) if options.full and count >= 1000 else ""
        lines.append(
            [
                f"{bags} × {size}",
                f"{gap:.1e}",
                criterion_text(gap, high=1e-12),
                ridge_gap,
                distance_gap,
                f"{slow / quick:.0f}",
                speed,
            ]
        )
        panel.append((f"{bags} × {size}", slow, quick))
    places = np.arange(len(panel))
    for j, name in enumerate(["every row", "bags"]):
        axes[3].bar(
            places + 0.4 * j - 0.2, [line[1 + j] for line in panel], 0.38, color=COLOURS[j], label=name
        )
    axes[3].set_xticks(places, [line[0] for line in panel], fontsize=7)
    axes[3].set_yscale("log")
    axes[3].set_title("seconds for the operator, bags × rows", fontsize=9)
    axes[3].legend(fontsize=7)
    text = (
        "\n\nFigures A.1 to A.4: the operator from every row and from bags. Published: they differ by .03 "
        "and .02 (RMSE) at the large sizes, and bags are 600 and 200 times faster\n\n"
    )
    header = [
        "bags × rows",
        "weights differ by",
        "criterion",
        "ridge without the number of rows",
        "own median distance",
        "times faster",
        "criterion ",
    ]
    text += table(header, lines)
    equal, unequal = (library(sizes) for sizes in ([10] * 20, np.arange(1, 21)))
    text += (
        f"\n\nriesz's CMP and S-CMP differ by {equal:.1e} (relative) where slices are equal "
        f"({criterion_text(equal, high=1e-12)})"
    )
    return text + f", by {unequal:.1e} where they are not.\n"


def library(sizes):
    """The largest relative difference between the two forms in riesz, for 20 slices with these numbers of
    points."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(np.sum(sizes), 3)), columns=COLUMNS).assign(
        slice=np.repeat(np.arange(20), sizes)
    )
    bags = pd.DataFrame({"slice": range(20), "middle": rng.normal(size=20), "mean": rng.normal(size=20)})
    fixed = {
        "operator": "mediated",
        "optimizer": None,
        "kernel": RBF(1.0),
        "mediator_kernel": RBF(0.5),
        "mediator_ridge": 0.1,
    }
    by_rows, other = (
        fitted(rows, bags, mediator_examples=kind, **fixed).predict(rows) for kind in ("rows", "bags")
    )
    return float(np.abs(by_rows - other).max() / np.abs(by_rows).max())


def degenerate(options, axes):
    """Largest standard deviation at 12 rows with (nearly) no noise, by riesz and by dense conditioning."""
    rng, count, lines = np.random.default_rng(0), 12, []
    x = rng.normal(size=(count, 3))
    for targets, row_noise in [(4, 0.0), (12, 0.0), (20, 0.0), (20, 0.1)]:
        # Each bag has three rows, drawn until the weights have full rank and the bags contain as many rows as
        # possible.
        while True:
            members = np.array([rng.choice(count, 3, replace=False) for _ in range(targets)])
            weights = np.zeros((count, targets))
            weights[members.T, np.arange(targets)] = 1 / 3
            if np.linalg.matrix_rank(weights) == min(count, targets) and weights.any(axis=1).sum() == min(
                count, 3 * targets
            ):
                break
        row_indices = members.ravel()
        rows = pd.DataFrame(x[row_indices], columns=COLUMNS).assign(
            slice=np.repeat(np.arange(targets), 3), row=row_indices
        )
        bags = pd.DataFrame({"slice": range(targets), "mean": rng.normal(size=targets)})
        fixed = {
            "kernel": RBF(1.0),
            "noise": 1e-9,
            "row_noise": row_noise,
            "prior_mean": 0.0,
            "normalize_y": False,
        }
        model = riesz.AggregateGaussianProcess(optimizer=None, **fixed).fit(
            rows, bags, bag="slice", target="mean", row="row"
        )
        kernel = np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(axis=2))
        noise = 1e-9 * np.eye(targets) + row_noise * weights.T @ weights
        cross = kernel @ weights
        dense = np.diag(kernel - cross @ np.linalg.solve(weights.T @ cross + noise, cross.T))
        sd = model.predict(pd.DataFrame(x, columns=COLUMNS), return_std=True)[1]
        expected = "0" if targets >= count and not row_noise else "not 0"
        is_expected = (sd.max() < 1e-3) == (expected == "0")
        criterion = f"{expected}: {'yes' if is_expected else 'no'}"
        lines.append(
            [targets, row_noise, f"{sd.max():.5f}", f"{np.sqrt(dense.clip(0).max()):.5f}", criterion]
        )
    text = (
        f"\n\nA.6.2: the largest standard deviation at {count} rows in overlapping bags, noise of targets "
        f"1e-9. Published: 0 without noise\n\n"
    )
    return text + table(["targets", "noise of rows", "here", "dense conditioning", "criterion"], lines) + "\n"


PARTS = {f.__name__: f for f in (matched, mediated, mixed, forms, degenerate)}


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="number of seeds, of the 20 published ones")
    options = arguments(__doc__, (chosen(PARTS), parser, tests()))
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    run(
        PARTS,
        options,
        "downscaling_swiss",
        4,
        f"A swiss roll of {5000 if options.full else 600} points in {SLICES} slices",
    )


if __name__ == "__main__":
    main()
