"""Downscaling of a climate through mediators: fine pixels and coarse temperatures at disjoint places
(Chau, Bouabid and Sejdinovic 2021, table 3.2 of Chau 2023), on simulated data.

    python experiments/downscaling_climate.py [small|medium|large ...] [--full] [--seeds COUNT] [--tests]

The source uses the temperatures of a climate model, which are not available here. The simulated data have
its grid and sizes. Their truth consists of smooth fields on the sphere for altitude, clouds and albedo,
and of a temperature that depends on them, on latitude, on the pressure P at the clouds' tops and on an
unobserved field. So no number is comparable with a published one.

Coarse pixels are blocks of fine ones. Half of them, drawn at random, have their fine pixels (latitude,
longitude, altitude, clouds, albedo) and no temperature; the other half have their mean temperature and no
fine pixels. Mediators of all coarse pixels are latitude, longitude and the mean of P. The kernels are the
published ones: a Matérn 3/2 in space and a Gaussian in the other columns.

Methods: the conditional mean process (S-CMP) with and without the uncertainty of its regression on
mediators; the process by the published conventions (CMP, which equals S-CMP for blocks of the same size);
regressions of temperatures on mediators ("pseudo", "two-sided"); and the average over hyper-parameters.
Baselines are a coarse pixel's own temperature, where it has one, and an oracle that knows the temperatures
of the coarse pixels with fine ones. The table has the root mean square error divided by the standard
deviation of all pixels, at all pixels and at those of coarse pixels with a temperature; the coverage of 95
% intervals; Spearman's correlation; and the CPU time in seconds for the fit and the map. There is no
criterion for the best method.

small: 24 × 48 pixels in blocks of 4 × 4, 20 seeds. medium: 72 × 144 in blocks of 6 × 6, one seed, five
minutes. large, with --full or by name: 360 × 720 in blocks of 17 × 17, with 254,898 pixels in blocks, of
which 127,449 have known fine pixels. There the oracle and a mediated fit use all of these through 800
inducing points, as many as in the source. The others are tuned on 7,056 pixels, every fourth row and
column of each block, and one of them then uses all pixels with the tuned parameters. --tests: also
Wilcoxon's signed-rank tests between all pairs of methods over the seeds."""

import argparse
import resource
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, chosen, criterion_text, mean_and_sd, run, table
from _wilcoxon import signed_rank, tests
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning

import riesz
from riesz.kernels import RBF, Constant, Matern

SPACE, COVARIATES, MEDIATORS = ["lat", "lon"], ["altitude", "clouds", "albedo"], ["lat", "lon", "P"]
COLUMNS = [*SPACE, *COVARIATES]
REFERENCES = ("coarse pixel repeated", "oracle")
PUBLISHED = "8.02, 8.25 and 7.40 K (VarGPR, VBAGG, VarCMP), Spearman's correlation .831, .821, .848"


def field(rng, lat, lon, scale, features=400):
    """A smooth field on the sphere, of random features with heavy tails."""
    places = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    w = rng.normal(size=(3, features)) / scale * np.sqrt(3 / np.maximum(rng.chisquare(3, features), 0.05))
    shifts, weights = rng.uniform(0, 2 * np.pi, features), rng.normal(size=features)
    # The features of all pixels together would need most of the memory, so they are computed in parts.
    values = [
        np.cos(part @ w + shifts) @ weights for part in np.array_split(places, len(places) // 20_000 + 1)
    ]
    return np.sqrt(2 / features) * np.concatenate(values)


def climate(height, width, block, seed):
    """Fine pixels with their coarse pixel, coarse pixels with mediators and mean temperature, and the
    truth."""
    rng = np.random.default_rng(seed)
    lat, lon = (
        (np.arange(height) + 0.5) / height * np.pi - np.pi / 2,
        (np.arange(width) + 0.5) / width * 2 * np.pi,
    )
    lat, lon = (axis.ravel() for axis in np.meshgrid(lat, lon, indexing="ij"))
    altitude = np.maximum(1.5 * field(rng, lat, lon, 0.35), 0)
    clouds = 1 / (1 + np.exp(-1.5 * field(rng, lat, lon, 0.25) - 0.5 * np.cos(3 * lat)))
    albedo = np.clip(0.15 + 0.5 * clouds + 0.1 * field(rng, lat, lon, 0.15), 0, 1)
    pressure = 800 - 350 * clouds * np.cos(lat) ** 2 - 60 * altitude + 60 * field(rng, lat, lon, 0.4)
    truth = 215 + 0.085 * (pressure - 200) + 22 * np.cos(lat) ** 2 - 4 * altitude - 10 * albedo * np.cos(lat)
    truth += 4 * field(rng, lat, lon, 0.5) + 0.5 * rng.normal(size=lat.size)
    rows = pd.DataFrame({"lat": lat, "lon": lon, "altitude": altitude, "clouds": clouds, "albedo": albedo})
    line, column = (axis.ravel() for axis in np.meshgrid(np.arange(height), np.arange(width), indexing="ij"))
    rows["bag"] = line // block * (width // block) + column // block
    # As in the source, pixels at the margin that fill no block are left out. Exact methods may use a part of
    # the other ones.
    inside = (line < height // block * block) & (column < width // block * block)
    is_sampled = ((line % block % 4 == 2) & (column % block % 4 == 2))[inside]
    rows, truth, pressure = rows[inside].reset_index(drop=True), truth[inside], pressure[inside]
    means = rows.assign(P=pressure, T=truth).groupby("bag", as_index=False)[[*MEDIATORS, "T"]].mean()
    return rows, means, truth, is_sampled, rng


def kernel(table, space, covariates):
    """The published kernel, with the standard deviations of the columns as length scales."""
    scales = table.std(ddof=0)
    parts = [Constant(1.0) * Matern(scales[space].tolist(), nu=1.5, columns=space)]
    return parts[0] + Constant(1.0) * RBF(scales[covariates].tolist(), columns=covariates)


def methods(large):
    """The settings of the processes by name, each with the fine pixels that it uses: all, a part, or a
    part for tuning and then all."""
    variants = {"": {}, ", averaged": {"n_hyperparameter_samples": 64}}
    exact = {f"S-CMP{suffix}": settings for suffix, settings in variants.items()}
    exact |= {
        f"S-CMP, regression certain{suffix}": {"mediation_noise": 0.0, **settings}
        for suffix, settings in variants.items()
    }
    exact |= {"CMP as published": {"operator": "mediated", "published": True, "mediator_examples": "rows"}}
    exact |= {"pseudo": {"operator": "pseudo"}}
    exact |= {
        f"two-sided{suffix}": {"operator": "two-sided", **settings} for suffix, settings in variants.items()
    }
    exact |= {"oracle": {"operator": "matched"}}
    if not large:
        return {name: (settings, "all") for name, settings in exact.items()}
    selected = {"oracle, 800 points": ({"operator": "matched", "n_inducing": 800}, "all")}
    selected["S-CMP, 800 points"] = {"n_inducing": 800}, "all"
    selected["S-CMP, 200 points, 7,056 pixels"] = {"n_inducing": 200}, "part"
    selected["S-CMP, tuned by the last, 800 points"] = {"n_inducing": 200}, "both"
    # Averages over hyper-parameters are too expensive for this number of targets.
    unaveraged = {name: settings for name, settings in exact.items() if "averaged" not in name}
    return selected | {f"{name}, 7,056 pixels": (settings, "part") for name, settings in unaveraged.items()}


def learnt(rows, means, has_rows, settings):
    """The process fitted to the ``rows`` of the bags in ``has_rows`` and the temperatures of the other
    bags; the oracle uses the temperatures of the bags with rows."""
    roles = {"bag": "bag", "target": "T"}
    start = {"kernel": kernel(rows, SPACE, COVARIATES)}
    if settings.get("operator") == "matched":
        bags = means.loc[has_rows, ["bag", "T"]]
    else:
        bags, roles["mediators"] = means.assign(T=means["T"].mask(has_rows)), MEDIATORS
        start["mediator_kernel"] = kernel(means, SPACE, ["P"])
    model = riesz.AggregateGaussianProcess(
        **{"n_hyperparameter_samples": 0, "random_state": 0, **start, **settings}
    )
    return model.fit(rows, bags, **roles)


def kept(model):
    """The settings of a process with the hyper-parameters of another one, through 800 points."""
    settings = {"kernel": model.kernel_, "noise": model.noise_, "mediator_kernel": model.mediator_kernel_}
    return settings | {
        "mediator_ridge": model.mediator_ridge_,
        "normalize_y": False,
        "optimizer": None,
        "n_inducing": 800,
    }


def scored(prediction, truth, known):
    """Errors at all pixels and at those whose coarse pixel has a temperature, coverage, and Spearman's
    correlation."""
    mean, sd = prediction
    error = lambda region: float(np.sqrt(np.mean((mean - truth)[region] ** 2)) / truth.std())
    return [
        error(slice(None)),
        error(known),
        float(np.mean(np.abs(truth - mean) < 1.96 * sd)),
        float(spearmanr(mean, truth)[0]),
    ]


def score_lines(scores, seeds):
    """The rows of the table: means of each method's scores over seeds, and its criterion."""
    repeated, oracle = (
        float(np.mean(next(runs for name, runs in scores.items() if name.startswith(prefix))[:, 1]))
        for prefix in REFERENCES
    )
    lines = []
    for name, runs in scores.items():
        cells = [
            "" if np.isnan(column).all() else mean_and_sd(column) if seeds > 1 else float(column[0])
            for column in runs.T[:4]
        ]
        _, error, coverage = (float(np.mean(column)) for column in runs.T[:3])
        criterion = (
            f"error {criterion_text(error, high=round(repeated, 3))}"
            if oracle < repeated and not name.startswith(REFERENCES)
            else ""
        )
        if name.startswith("two-sided") or name == "S-CMP, averaged":
            criterion += f"; coverage {criterion_text(coverage, low=0.85)}"
        lines.append([name, *cells, f"{np.mean(runs[:, 4]):.1f}", criterion])
    return lines


def compared(options, axis, title, size, seeds, large=False):
    results, draws = {}, []
    for seed in range(seeds):
        rows, means, truth, is_sampled, rng = climate(*size, seed)
        has_rows = np.zeros(len(means), bool)
        has_rows[rng.permutation(len(means))[: len(means) // 2]] = True
        known = ~has_rows[rows.bag]
        flat = means["T"].to_numpy()[rows.bag]
        results.setdefault("coarse pixel repeated", []).append(
            [np.nan, scored((flat, 0), truth, known)[1], np.nan, np.nan, 0.0]
        )
        for name, (settings, which) in methods(large).items():
            start = time.process_time()
            model = learnt(rows[~known if which == "all" else ~known & is_sampled], means, has_rows, settings)
            if which == "both":
                model = learnt(rows[~known], means, has_rows, kept(model))
            parts = np.array_split(np.arange(len(rows)), len(rows) // 20_000 + 1)
            predictions = [model.predict(rows.iloc[part], return_std=True) for part in parts]
            score = scored([np.concatenate(values) for values in zip(*predictions)], truth, known)
            results.setdefault(name, []).append([*score, time.process_time() - start])
            if model.effective_sample_size_ is not None:
                draws.append(model.effective_sample_size_)
            if large:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                print(
                    name,
                    *(f"{value:.3f}" for value in results[name][-1]),
                    f"peak so far {peak:.2f} GiB",
                    flush=True,
                )
    scores = {name: np.array(runs) for name, runs in results.items()}
    lines = score_lines(scores, seeds)
    places = np.arange(len(scores))
    axis.barh(places, [np.mean(runs[:, 1]) for runs in scores.values()], color=COLOURS[0], height=0.6)
    axis.set_yticks(places, list(scores), fontsize=6)
    axis.invert_yaxis()
    axis.set_title(f"error where temperatures are known, {title}", fontsize=8)
    text = (
        f"\n\n{title}: {len(rows):,} pixels in {len(means)} blocks of {size[2]}², {seeds} "
        f"seed{'s' * (seeds > 1)} (± standard deviation); standard deviation of the last truth "
        f"{truth.std():.1f}\n\n"
    )
    header = [
        "method",
        "error, all pixels",
        "where T is known",
        "coverage",
        "Spearman",
        "seconds",
        "criterion (error where T is known)",
    ]
    text += table(header, lines) + "\n"
    if draws:
        text += (
            f"\nDraws of hyper-parameters, 64 each, are worth {np.median(draws):.1f} of their posterior's "
            f"own (median; least {min(draws):.1f}).\n"
        )
    if options.tests and seeds > 1:
        everywhere = {name: runs[:, 0] for name, runs in scores.items() if name != "coarse pixel repeated"}
        text += signed_rank(everywhere, f"errors at all pixels, {title}")
        text += signed_rank(
            {name: runs[:, 1] for name, runs in scores.items()},
            f"errors where coarse pixels are known, {title}",
        )
    return text


def small(options, axes):
    return compared(options, axes[0], "small", (24, 48, 4), options.seeds or 20)


def medium(options, axes):
    return compared(options, axes[1], "medium", (72, 144, 6), options.seeds or 1)


def large(options, axes):
    if not options.full and "large" not in options.parts:
        return "\n\nlarge: with --full\n"
    return compared(options, axes[2], "large", (360, 720, 17), 1, large=True)


PARTS = {f.__name__: f for f in (small, medium, large)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="how many, by default 20 and, medium, 1; large takes one")
    options = arguments(__doc__, (chosen(PARTS), parser, tests()))
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    run(
        PARTS,
        options,
        "downscaling_climate",
        3,
        f"A stand-in for a climate model, through mediators. Published, of other data: {PUBLISHED}",
    )
