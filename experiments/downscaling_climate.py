"""Downscaling of a climate through mediators: fine pixels and coarse temperatures at disjoint places
(Chau, Bouabid and Sejdinovic 2021, table 3.2 and figures A.5 to A.8 of Chau 2023), on simulated data.

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
Baselines are a coarse pixel's own temperature, where it has one; a Gaussian process of mean pixels
("centroids", the source's GPR), whose targets are the predictions of a regression on mediators; and an oracle
that knows the temperatures of the coarse pixels with fine ones. The table has the root mean square error
divided by the standard deviation of all pixels, at all pixels and at those of coarse pixels with a
temperature; the mean absolute error, divided likewise; the structural similarity (SSIM) of the map to the
truth; the coverage of 95 % intervals; Spearman's correlation; and the CPU time in seconds for the fit and the
map. There is no criterion for the best method. Maps of the prediction, its standard deviation, the signed
error and the squared error are drawn for the first seed of each size.

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
from _figures import COLOURS, arguments, chosen, criterion_text, mean_and_sd, plt, run, table
from _wilcoxon import signed_rank, tests
from scipy.ndimage import gaussian_filter
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning

import riesz
from riesz.kernels import RBF, Constant, Matern

SPACE, COVARIATES, MEDIATORS = ["lat", "lon"], ["altitude", "clouds", "albedo"], ["lat", "lon", "P"]
COLUMNS = [*SPACE, *COVARIATES]
REFERENCES = ("coarse pixel repeated", "oracle")
PUBLISHED = (
    "8.02, 8.25 and 7.40 K (VarGPR, VBAGG, VarCMP), mean absolute errors 5.55, 5.82, 5.34, Spearman's "
    "correlation .831, .821, .848, SSIM .212, .182, .212"
)
SCORES = ["error, all pixels", "where T is known", "MAE", "SSIM", "coverage", "Spearman"]
#: The methods whose maps are drawn, by the beginnings of their names.
MAPPED = ("centroids", "S-CMP", "pseudo", "oracle")


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
    exact |= {"centroids": {"operator": "centroids"}, "oracle": {"operator": "matched"}}
    if not large:
        return {name: (settings, "all") for name, settings in exact.items()}
    selected = {"oracle, 800 points": ({"operator": "matched", "n_inducing": 800}, "all")}
    selected["S-CMP, 800 points"] = {"n_inducing": 800}, "all"
    selected["S-CMP, 200 points, 7,056 pixels"] = {"n_inducing": 200}, "part"
    selected["S-CMP, tuned by the last, 800 points"] = {"n_inducing": 200}, "both"
    # Averages over hyper-parameters are too expensive for this number of targets.
    unaveraged = {name: settings for name, settings in exact.items() if "averaged" not in name}
    return selected | {f"{name}, 7,056 pixels": (settings, "part") for name, settings in unaveraged.items()}


def centroids(rows, means, has_rows):
    """A Gaussian process of the mean pixels of the bags in ``has_rows``. Their targets are predicted from
    their mediators, by a Gaussian process of the other bags' temperatures."""
    process = lambda table, covariates: riesz.GaussianProcessRegressor(
        kernel=kernel(table, SPACE, covariates), normalize_y=True
    )
    regression = process(means, ["P"]).fit(means.loc[~has_rows, MEDIATORS], means.loc[~has_rows, "T"])
    points = rows.groupby("bag")[COLUMNS].mean()
    targets = regression.predict(means.set_index("bag").loc[points.index, MEDIATORS])
    return process(rows, COVARIATES).fit(points, targets)


def learnt(rows, means, has_rows, settings):
    """The process fitted to the ``rows`` of the bags in ``has_rows`` and the temperatures of the other
    bags; the oracle uses the temperatures of the bags with rows."""
    if settings.get("operator") == "centroids":
        return centroids(rows, means, has_rows)
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


def structural_similarity(image, truth):
    """The mean structural similarity (SSIM) of two images of the same shape (Wang, Bovik, Sheikh and
    Simoncelli 2004): a Gaussian window of 11 × 11 pixels with a standard deviation of 1.5, constants of 0.01
    and 0.03 of the truth's range, and the windows that lie inside the image."""
    local_mean = lambda values: gaussian_filter(values, 1.5, truncate=3.5)[5:-5, 5:-5]
    first, second = (0.01 * np.ptp(truth)) ** 2, (0.03 * np.ptp(truth)) ** 2
    mean, true_mean = local_mean(image), local_mean(truth)
    variance, true_variance = local_mean(image**2) - mean**2, local_mean(truth**2) - true_mean**2
    covariance = local_mean(image * truth) - mean * true_mean
    luminance = (2 * mean * true_mean + first) / (mean**2 + true_mean**2 + first)
    return float(np.mean(luminance * (2 * covariance + second) / (variance + true_variance + second)))


def scored(prediction, truth, known, width):
    """The ``SCORES`` of a prediction: errors at all pixels and at those whose coarse pixel has a temperature,
    mean absolute error, structural similarity, coverage, and Spearman's correlation."""
    mean, sd = prediction
    error = lambda region: float(np.sqrt(np.mean((mean - truth)[region] ** 2)) / truth.std())
    return [
        error(slice(None)),
        error(known),
        float(np.mean(np.abs(mean - truth)) / truth.std()),
        structural_similarity(mean.reshape(-1, width), truth.reshape(-1, width)),
        float(np.mean(np.abs(truth - mean) < 1.96 * sd)),
        float(spearmanr(mean, truth)[0]),
    ]


def score_lines(scores, seeds):
    """The rows of the table: means of each method's scores over seeds, and its criterion."""
    known, coverage = SCORES.index("where T is known"), SCORES.index("coverage")
    repeated, oracle = (
        float(np.mean(next(runs for name, runs in scores.items() if name.startswith(prefix))[:, known]))
        for prefix in REFERENCES
    )
    lines = []
    for name, runs in scores.items():
        cells = [
            "" if np.isnan(column).all() else mean_and_sd(column) if seeds > 1 else float(column[0])
            for column in runs.T[: len(SCORES)]
        ]
        means = runs.mean(axis=0)
        criterion = (
            f"error {criterion_text(float(means[known]), high=round(repeated, 3))}"
            if oracle < repeated and not name.startswith(REFERENCES)
            else ""
        )
        if name.startswith("two-sided") or name == "S-CMP, averaged":
            criterion += f"; coverage {criterion_text(float(means[coverage]), low=0.85)}"
        lines.append([name, *cells, f"{means[-1]:.1f}", criterion])
    return lines


def draw_maps(predictions, truth, width, file):
    """A picture of maps: for each method the prediction, its standard deviation, the signed and the squared
    error, with the same colours in each column (figures A.5 to A.8)."""
    panels = {
        name: {
            "prediction": mean,
            "standard deviation": sd,
            "error": mean - truth,
            "squared error": (mean - truth) ** 2,
        }
        for name, (mean, sd) in predictions.items()
    }
    limit = np.quantile([np.abs(maps["error"]) for maps in panels.values()], 0.99)
    limits = {
        "prediction": (*np.quantile(truth, [0.005, 0.995]), "viridis"),
        "standard deviation": (0, max(maps["standard deviation"].max() for maps in panels.values()), "magma"),
        "error": (-limit, limit, "RdBu_r"),
        "squared error": (0, limit**2, "magma"),
    }
    panels = {"truth": {"prediction": truth}, **panels}
    figure, axes = plt.subplots(
        len(panels), 4, figsize=(12, 1.7 * len(panels)), constrained_layout=True, squeeze=False
    )
    for line, (name, maps) in zip(axes, panels.items()):
        for axis, (title, (low, high, colours)) in zip(line, limits.items()):
            axis.set_axis_off()
            if title not in maps:
                continue
            image = axis.imshow(
                maps[title].reshape(-1, width), origin="lower", vmin=low, vmax=high, cmap=colours
            )
            figure.colorbar(image, ax=axis, shrink=0.8)
            axis.set_title(name if name == "truth" else f"{name}: {title}", fontsize=8)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def compared(options, axis, title, size, seeds, large=False):
    results, draws, maps = {}, [], {}
    width = size[1] // size[2] * size[2]
    for seed in range(seeds):
        rows, means, truth, is_sampled, rng = climate(*size, seed)
        has_rows = np.zeros(len(means), bool)
        has_rows[rng.permutation(len(means))[: len(means) // 2]] = True
        known = ~has_rows[rows.bag]
        flat = means["T"].to_numpy()[rows.bag]
        error = scored((flat, 0), truth, known, width)[1]
        results.setdefault("coarse pixel repeated", []).append([np.nan, error, *[np.nan] * 4, 0.0])
        for name, (settings, which) in methods(large).items():
            start = time.process_time()
            model = learnt(rows[~known if which == "all" else ~known & is_sampled], means, has_rows, settings)
            if which == "both":
                model = learnt(rows[~known], means, has_rows, kept(model))
            parts = np.array_split(np.arange(len(rows)), len(rows) // 20_000 + 1)
            columns = COLUMNS if settings.get("operator") == "centroids" else list(rows)
            predictions = [model.predict(rows[columns].iloc[part], return_std=True) for part in parts]
            prediction = [np.concatenate(values) for values in zip(*predictions)]
            score = scored(prediction, truth, known, width)
            results.setdefault(name, []).append([*score, time.process_time() - start])
            if seed == 0 and name.startswith(MAPPED) and name.split(",")[0] not in maps:
                maps[name.split(",")[0]] = prediction
            if getattr(model, "effective_sample_size_", None) is not None:
                draws.append(model.effective_sample_size_)
            if large:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                print(
                    name,
                    *(f"{value:.3f}" for value in results[name][-1]),
                    f"peak so far {peak:.2f} GiB",
                    flush=True,
                )
        if seed == 0:
            draw_maps(maps, truth, width, options.output / f"downscaling_climate_{title}_maps.png")
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
    header = ["method", *SCORES, "seconds", "criterion (error where T is known)"]
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
