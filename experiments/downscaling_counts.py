"""Counts of bags: maps of rates from cases by district (Law et al. 2018, whose figures have no printed
numbers), and the errors of approximations.

    python experiments/downscaling_counts.py [tiny|roll|raster|mediated ...] [--full] [--seeds COUNT]

tiny: two counts of five rows, whose evidence is known by quadrature. It is compared with Laplace's
approximation with the expected information (riesz), with the observed information, and with the
variational bound of the source (for its best distribution) in plain code.

roll: the swiss roll of the source. Bags are slices of height with some points each, and the log rate
follows the way along the roll. The baseline is a Poisson process of the bags' mean points ("centroids").
The table has the root mean square error of the rates, the coverage of 95 % intervals of the rates of
points, and that of left-out counts.

raster, simulated data instead of the source's confidential malaria data: a square of pixels with five
smooth covariates and a log-normal population, Voronoi districts, Poisson counts. The table has the
correlation of the rates with the true ones, the coverage, and the same for the districts' observed rates.

mediated, not published: the raster, where half of the districts have pixels and no counts, and the other
half counts and no pixels. Mediators are three coarse covariates of all districts. The baseline also knows
the counts of the first half.

Full: 1,500 points and 10 seeds for the roll, 100 × 100 pixels with 150 and 1,000 districts.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, chosen, criterion_text, mean_and_sd, run, table
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning

import riesz
from riesz.kernels import RBF, Constant

COLUMNS = ["x", "y", "z"]


def tiny(options, axes):
    x = np.array([0.0, 0.4, 1.1, 1.9, 2.6])
    bag, people = np.array([0, 0, 0, 1, 1]), np.array([2.0, 1.0, 3.0, 2.0, 1.5])
    counts, mean = np.array([7, 2]), -0.2
    kernel = 0.9 * np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 0.8**2)
    sums = np.eye(2)[:, bag] * people

    def log_counts(f):
        rates = sums @ np.exp(f)
        return counts @ np.log(rates) - rates.sum() - gammaln(counts + 1).sum()

    # Quadrature by importance draws around the mode. They are more accurate than draws from the prior, and
    # have an error estimate.
    inverse = np.linalg.inv(kernel)
    posterior = lambda f: log_counts(f) - 0.5 * (f - mean) @ inverse @ (f - mean)
    mode = minimize(lambda f: -posterior(f), np.full(5, mean), method="BFGS", options={"gtol": 1e-10}).x
    hessian = np.zeros((5, 5))
    for i in range(5):
        for j in range(5):
            step = lambda a, b: mode + 1e-4 * (a * np.eye(5)[i] + b * np.eye(5)[j])
            hessian[i, j] = (
                -(
                    posterior(step(1, 1))
                    - posterior(step(1, -1))
                    - posterior(step(-1, 1))
                    + posterior(step(-1, -1))
                )
                / 4e-8
            )
    normal = 0.5 * np.linalg.slogdet(inverse)[1]
    laplace = posterior(mode) + normal - 0.5 * np.linalg.slogdet(hessian)[1]
    rng = np.random.default_rng(0)
    factor = np.linalg.cholesky(1.3 * np.linalg.inv(hessian))
    draws = rng.normal(size=(400_000, 5))
    f = mode + draws @ factor.T
    rates = np.exp(f) @ sums.T
    log = counts @ np.log(rates).T - rates.sum(axis=1) - gammaln(counts + 1).sum()
    log = log - 0.5 * np.einsum("ni,ij,nj->n", f - mean, inverse, f - mean) + normal
    log = log + 0.5 * (draws**2).sum(axis=1) + np.log(np.diag(factor)).sum()
    weights = np.exp(log - log.max())
    truth = float(np.log(weights.mean()) + log.max())
    standard_error = float(weights.std() / weights.mean() / np.sqrt(len(weights)))

    def bound(theta):
        m, lower = theta[:5], np.zeros((5, 5))
        lower[np.tril_indices(5)] = theta[5:]
        cov = lower @ lower.T
        log_likelihood = (
            counts @ np.log(sums @ np.exp(m))
            - (sums @ np.exp(m + 0.5 * np.diag(cov))).sum()
            - gammaln(counts + 1).sum()
        )
        apart = np.trace(inverse @ cov) + (m - mean) @ inverse @ (m - mean) - 5 + np.linalg.slogdet(kernel)[1]
        return -(log_likelihood - 0.5 * (apart - np.linalg.slogdet(cov + 1e-12 * np.eye(5))[1]))

    start = np.r_[mode, np.linalg.cholesky(np.linalg.inv(hessian))[np.tril_indices(5)]]
    vbagg = -minimize(bound, start, method="BFGS").fun
    rows = pd.DataFrame({"x": x, "bag": bag, "people": people})
    process = riesz.AggregateCountProcess(Constant(0.9) * RBF(0.8), prior_mean=mean, optimizer=None)
    process.fit(rows, pd.Series(counts), bag="bag", weight="people")
    evidence = process.log_marginal_likelihood_value_
    lines = [
        [f"quadrature (importance draws, ± {standard_error:.4f})", truth, ""],
        ["Laplace, expected information (riesz)", evidence, criterion_text(abs(evidence - truth), high=0.1)],
        ["Laplace, second derivatives", laplace, criterion_text(abs(laplace - truth), high=0.1)],
        ["variational bound (VBAGG)", vbagg, criterion_text(vbagg, high=truth + 4 * standard_error)],
    ]
    return (
        "\n\nLogarithm of the evidence of two counts of five rows\n\n"
        + table(["by", "value", "criterion"], lines)
        + "\n"
    )


def rolled(options, seed, size):
    """Points with their rates, in bags of ``size`` points by height."""
    rng = np.random.default_rng(seed)
    count = 1500 if options.full else 600
    t = 1.5 * np.pi * (1 + 2 * rng.random(count))
    x = np.column_stack([t * np.cos(t), 21 * rng.random(count), t * np.sin(t)])
    x, f = (x - x.mean(axis=0)) / x.std(axis=0), (t - t.mean()) / t.std()
    bag = np.argsort(np.argsort(x[:, 2])) // size
    rows = pd.DataFrame(x, columns=COLUMNS).assign(bag=bag)
    cases = pd.Series(np.exp(f)).groupby(bag).sum()
    return rows, pd.DataFrame({"bag": cases.index, "cases": rng.poisson(cases)}), np.exp(f)


def error_and_coverage(model, rows, rates):
    """Root mean square error of the rates, and the share of true rates within the intervals."""
    low, high = model.predict_quantiles(rows, [0.025, 0.975]).T
    return float(np.sqrt(np.mean((model.predict(rows) - rates) ** 2))), float(
        np.mean((low <= rates) & (rates <= high))
    )


def roll(options, axes):
    lines = []
    count = options.seeds or (10 if options.full else 3)
    for size in [5, 10, 25, 50]:
        errors, centroids, covered, left_out = [], [], [], []
        for seed in range(count):
            rows, bags, rates = rolled(options, seed, size)
            process = riesz.AggregateCountProcess(random_state=0).fit(rows, bags, bag="bag", target="cases")
            error, inside = error_and_coverage(process, rows, rates)
            means = (
                rows.groupby("bag", as_index=False)
                .mean()
                .assign(points=rows.groupby("bag").size().to_numpy())
            )
            of_means = riesz.AggregateCountProcess(random_state=0)
            of_means.fit(means, bags, bag="bag", target="cases", weight="points")
            errors.append(error)
            covered.append(inside)
            left_out.append(process.loo_.coverage)
            centroids.append(error_and_coverage(of_means, rows, rates)[0])
        better = (
            "" if size < 10 else criterion_text(np.mean(errors), high=round(float(np.mean(centroids)), 3))
        )
        lines.append(
            [
                size,
                mean_and_sd(errors),
                mean_and_sd(centroids),
                better,
                mean_and_sd(covered),
                criterion_text(np.mean(covered), 0.9, 0.98),
                mean_and_sd(left_out),
            ]
        )
    places = [line[0] for line in lines]
    for column, name in [(1, "points"), (2, "mean points")]:
        axes[0].plot(
            places,
            [float(line[column].split()[0]) for line in lines],
            "o-",
            color=COLOURS[column - 1],
            label=name,
        )
    axes[0].set_title("error of rates, by points a bag", fontsize=9)
    axes[0].set_xscale("log")
    axes[0].set_xticks(places, places)
    axes[0].legend(fontsize=7)
    header = [
        "points a bag",
        "error of rates",
        "of mean points",
        "criterion",
        "coverage",
        "criterion",
        "coverage of counts left out",
    ]
    return f"\n\nSwiss roll, Poisson counts, {count} seeds\n\n" + table(header, lines) + "\n"


def smooth(rng, places, scale, features=60):
    """A smooth field: random Fourier features."""
    w = rng.normal(size=(features, 2)) / scale
    return (
        np.sqrt(2 / features)
        * np.cos(places @ w.T + rng.uniform(0, 2 * np.pi, features))
        @ rng.normal(size=features)
    )


def pixels(rng, side, districts):
    """Pixels with covariates, population and district, and their rates."""
    grid = (np.arange(side) + 0.5) / side
    places = np.array(np.meshgrid(grid, grid)).reshape(2, -1).T
    rows = pd.DataFrame({"east": places[:, 0], "north": places[:, 1]})
    for k in range(5):
        rows[f"v{k + 1}"] = smooth(rng, places, 0.15)
    rows["people"] = np.exp(rng.normal(4, 1, len(rows)))
    f = -3 + 0.7 * np.sin(1.5 * rows.v1) + 0.5 * rows.v2 - 0.3 * rows.v3**2 + 0.4 * smooth(rng, places, 0.3)
    rows["district"] = cKDTree(rng.random((districts, 2))).query(places)[1]
    return rows, np.exp(f.to_numpy())


def counted(rng, rows, rates):
    expected = (rows.people * rates).groupby(rows.district).sum()
    return pd.DataFrame({"district": expected.index, "cases": rng.poisson(expected)})


def raster(options, axes):
    lines, side = [], 100 if options.full else 40
    for districts in [150, 1000] if options.full else [60]:
        rng = np.random.default_rng(1)
        rows, rates = pixels(rng, side, districts)
        bags = counted(rng, rows, rates)
        start = time.perf_counter()
        process = riesz.AggregateCountProcess(random_state=0).fit(
            rows, bags, bag="district", target="cases", weight="people"
        )
        seconds = time.perf_counter() - start
        error, inside = error_and_coverage(process, rows, rates)
        estimate = process.predict(rows)
        people = rows.people.groupby(rows.district).sum()
        raw = (bags.set_index("district").cases / people).reindex(rows.district).to_numpy()
        log_correlation = lambda v: float(np.corrcoef(np.log(np.maximum(v, 1e-6)), np.log(rates))[0, 1])
        line = [
            districts,
            len(rows),
            log_correlation(estimate),
            log_correlation(raw),
            inside,
            criterion_text(inside, 0.9, 0.98),
            process.loo_.coverage,
            f"{seconds:.0f} s",
        ]
        lines.append(line)
        for axis, values, title in [(axes[1], rates, "true rates"), (axes[2], estimate, "rates found")]:
            axis.imshow(np.log(values).reshape(side, side), origin="lower", cmap="viridis")
            axis.set_title(f"{title}, {districts} districts (log)", fontsize=9)
            axis.grid(visible=False)
    header = [
        "districts",
        "pixels",
        "correlation of log rates",
        "of districts' own",
        "coverage",
        "criterion",
        "counts left out",
        "fit",
    ]
    return "\n\nRaster, a stand-in for malaria; not published\n\n" + table(header, lines) + "\n"


def mediated(options, axes):
    results = {}
    count = options.seeds or (10 if options.full else 3)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        rows, rates = pixels(rng, 40, 120)
        bags = counted(rng, rows, rates)
        coarse = rows.groupby("district")[["v1", "v2", "v3"]].mean()
        bags = bags.join(coarse + rng.normal(0, 0.05, coarse.shape), on="district")
        bags["people"] = rows.people.groupby(rows.district).sum().reindex(bags.district).to_numpy()
        has_rows = bags.district.isin(rng.permutation(bags.district)[: len(bags) // 2])
        seen = rows[rows.district.isin(bags.district[has_rows])]
        roles = {
            "bag": "district",
            "target": "cases",
            "weight": "people",
            "mediators": ["v1", "v2", "v3"],
            "total": "people",
        }
        for name, parts in {
            "half mediated": bags.assign(cases=bags.cases.mask(has_rows)),
            "half mediated, the other half matched": bags,
            "half matched alone": bags[has_rows],
        }.items():
            used_roles = {
                key: value
                for key, value in roles.items()
                if name != "half matched alone" or key not in ("mediators", "total")
            }
            model = riesz.AggregateCountProcess(random_state=0).fit(seen, parts, **used_roles)
            apart = np.log(model.predict(rows)) - np.log(rates)
            error = float(np.sqrt(np.mean((apart - apart.mean()) ** 2)) / np.log(rates).std())
            results.setdefault(name, []).append((error, error_and_coverage(model, rows, rates)[1]))
    lines = [[name, *(mean_and_sd(column) for column in np.array(runs).T)] for name, runs in results.items()]
    header = ["counts", "error of log rates, over their spread", "coverage"]
    return f"\n\nMediated counts, {count} seeds; not published\n\n" + table(header, lines) + "\n"


PARTS = {"tiny": tiny, "roll": roll, "raster": raster, "mediated": mediated}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="how many")
    options = arguments(__doc__, (chosen(PARTS), parser))
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    run(PARTS, options, "downscaling_counts", 3, "# Counts of bags\n")
