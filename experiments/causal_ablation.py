"""An ablation of causal data fusion (Chau 2023, figures 4.5, B.1 and B.2): the contribution of each study
to the uncertainty of an effect, and effects where study 2 has no rows.

    python experiments/causal_ablation.py [picture] [methods] [levels] [support] [--full] [--seeds COUNT]
    [--draws COUNT]

The published figures have no numbers. X ~ N(0, 2²), Y = X cos πX, T = .5 Y cos Y, 100 rows each. The
source doesn't specify the noise, here .3, and the range of mediators in study 2, here -2 to 6, and also -2
to 2.

picture: mean, band, and the variance due to each study, between -6 and 6. Published: without the
uncertainty of study 1 (IMP) the band widens where study 2 has no mediators; without that of study 2
(BayesIME) it widens where study 1 has no treatments; with both (BayesIMP) it widens at both. criterion:
two parts of the variance are at least 5 times their median where both studies have rows (|X| at most 3,
mediators inside by .5 or more). These are the part of study 2 where study 1 leads to a mediator at least
.6 outside study 2, and the part of study 1 where |X| is above 5. Medians are over data sets. The curves of
the first data set are in causal_ablation.csv.

methods: the panels of figure 4.5, which are the sampling baseline (_sampling_baseline.py) and the source's
IME, IMP, BayesIME and BayesIMP by the printed formulas (_mean_processes.py), for the first data set; and for
each method the same ratios of variances as above. Published: the band of sampling is uniform. Kernels of the
outcome come from the evidence, those of the embedding from left-out rows.

levels: coverage at 1, 2 … 99 % of 41 treatments between the 2.5 % and 97.5 % quantiles of study 1, for the
same methods. Sampling has the standard deviation of all its draws, or that of means over mediators. "4.13" is
BayesIMP with the published evidence for the embedding, and "integrals" BayesIMP without landmarks, with two
jitters; with "ν of rows" the measure of mediators is the rows of both studies. Both have the hyper-parameters
of riesz. The bootstrap uses two Gaussian processes of scikit-learn (200 replications), with the residuals of
the first, which it regards as additive and homoscedastic, as they are here, or without them.
criterion: riesz covers at least .90 at 95 %, and the mean deviation over levels is at most .08. A band is
worse than that of riesz if its mean deviation is larger by two standard errors (over bootstrap samples of
data sets).

support: X ~ U[-4, 4], Y = 1.5 X, T = sin 2Y, noise .1, study 2 only where |Y| is below 1.5, 100 rows each.
Published: the extrapolation is "nicely captured". criterion: the error of the mean is nowhere more than 3
standard deviations; from |Y| = 3 on the rows explain at most three quarters of the prior variance; fit
warns of mediators that study 2 doesn't have; and at most 5 % of the treatments there have support.

Full: 100 data sets instead of 30.
"""

import argparse
import warnings

import matplotlib
import numpy as np
import pandas as pd
from _bootstrap import bootstrap_of_regressions
from _causal_worlds import ablation
from _figures import COLOURS, arguments, chosen, criterion_text, run, table
from _mean_processes import mean_processes
from _sampling_baseline import sampled_effect
from scipy.special import ndtri

import riesz

FIRST_SEED = 710_000
LEVELS = np.arange(1, 100) / 100


def fused(studies, seed, draws):
    fusion = riesz.CausalFusion(
        treatment="x", outcome="t", randomized=True, n_hyperparameter_samples=draws, random_state=seed
    )
    return fusion.fit([pd.DataFrame(study) for study in studies])


def ablated(rng, low, high, rows=100):
    """The ablation world, with study 2 between ``low`` and ``high``."""
    studies, _, truth = ablation(rng, rows, rows)
    ys = rng.uniform(low, high, rows)
    return [studies[0], {"y": ys, "t": 0.5 * ys * np.cos(ys) + 0.3 * rng.normal(size=rows)}], truth


def picture(options, axes):
    grid = np.linspace(-6, 6, 241)
    led, lines, curves = grid * np.cos(np.pi * grid), [], []
    for place, (low, high) in enumerate([(-2, 6), (-2, 2)]):
        outside = (led < low - 0.6) | (led > high + 0.6)
        inside = (led > low + 0.5) & (led < high - 0.5) & (np.abs(grid) <= 3)
        ratios = []
        for seed in range(options.seeds):
            studies, truth = ablated(np.random.default_rng(FIRST_SEED + seed), low, high)
            effect = fused(studies, seed, options.draws).effect(grid)
            first, second = effect.variance_by_source["study 1"], effect.variance_by_source["study 2"]
            # Only treatments within the range of study 1 lead to a mediator.
            unmatched = outside & (np.abs(grid) <= np.abs(studies[0]["x"]).max())
            ratios.append(
                [
                    np.median(second[unmatched]) / np.median(second[inside]),
                    np.median(first[np.abs(grid) > 5]) / np.median(first[inside]),
                ]
            )
            if seed == 0:
                curves.append(
                    effect.to_frame().assign(truth=truth(grid), low_of_study_2=low, high_of_study_2=high)
                )
                _drawn(
                    axes[2 * place],
                    axes[2 * place + 1],
                    grid,
                    effect,
                    truth(grid),
                    f"study 2 from {low} to {high}",
                )
                landmarks = as_published(fused(studies, seed, 0), grid, studies)
                axes[2 * place + 1].plot(
                    grid, landmarks.std**2, "k:", linewidth=0.9, label="BayesIMP, in all"
                )
                axes[2 * place + 1].legend(fontsize=7)
        second, first = np.median(ratios, axis=0)
        lower_decile = np.quantile(ratios, 0.1, axis=0)
        lines.append(
            [
                f"{low} to {high}",
                f"{second:.0f} ({lower_decile[0]:.1f})",
                criterion_text(second, low=5),
                f"{first:.0f} ({lower_decile[1]:.1f})",
                criterion_text(first, low=5),
            ]
        )
    pd.concat(curves).to_csv(options.output / "causal_ablation.csv", index=False)
    header = [
        "study 2",
        "its part, unmatched : matched (10 % of data sets are below)",
        "criterion",
        "part of study 1, |X| > 5 : matched",
        "criterion",
    ]
    return (
        f"\n\nVariance by part where rows lack, over that where both studies have rows, {options.seeds} data "
        "sets\n\n" + table(header, lines)
    )


def _drawn(curve, stack, grid, effect, truth, title):
    low, high = effect.interval()
    curve.fill_between(grid, low, high, color=COLOURS[0], alpha=0.25)
    curve.plot(grid, effect.mean, color=COLOURS[0], label="mean, 95 % band")
    curve.plot(grid, truth, "k--", linewidth=0.9, label="truth")
    curve.set_title(title, fontsize=9)
    curve.legend(fontsize=7)
    stack.stackplot(
        grid, *effect.variance_by_source.values(), labels=effect.variance_by_source, colors=COLOURS, alpha=0.8
    )
    stack.set_title("variance by part", fontsize=9)
    stack.legend(fontsize=7)


def methods(options, axes):
    grid = np.linspace(-6, 6, 241)
    led, ratios = grid * np.cos(np.pi * grid), {}
    outside = (led < -2.6) | (led > 6.6)
    inside = (led > -1.5) & (led < 5.5) & (np.abs(grid) <= 3)
    for seed in range(options.seeds):
        studies, truth = ablated(np.random.default_rng(FIRST_SEED + seed), -2, 6)
        effect = fused(studies, seed, options.draws).effect(grid)
        bands = {**source_bands(studies, grid, seed), "riesz": (effect.mean, effect.std)}
        unmatched = outside & (np.abs(grid) <= np.abs(studies[0]["x"]).max())
        for name, (_, sd) in bands.items():
            regions = [sd[unmatched], sd[np.abs(grid) > 5], sd[inside]]
            ratios.setdefault(name, []).append([np.median(region) ** 2 for region in regions])
        if seed == 0:
            shown = [name for name in bands if name != "sampling, means"]
            for axis, name in zip(axes[6:], shown):
                _banded(axis, grid, *bands[name], truth(grid), studies[0]["x"], name)
    lines = []
    for name, variances in ratios.items():
        unmatched, unobserved, matched = np.array(variances).T
        if name != "IME":
            quotients = [np.median(unmatched / matched), np.median(unobserved / matched)]
            lines.append([name, *(f"{quotient:.1f}" for quotient in quotients), np.sqrt(np.median(matched))])
    header = ["method", "unmatched : matched", "\\|X\\| > 5 : matched", "sd where matched"]
    text = f"\n\nVariance of each method, study 2 from -2 to 6, medians over {options.seeds} data sets\n\n"
    return text + table(header, lines)


def _banded(axis, grid, mean, sd, truth, x, title):
    """Draws a 95 % band, the truth, and a histogram of the treatments of study 1."""
    axis.fill_between(grid, mean - 1.96 * sd, mean + 1.96 * sd, color=COLOURS[0], alpha=0.25)
    axis.plot(grid, mean, color=COLOURS[0], label="mean, 95 % band")
    axis.plot(grid, truth, "k--", linewidth=0.9, label="truth")
    counts, edges = np.histogram(x, bins=40, range=(-6, 6))
    axis.bar(edges[:-1], counts * 2 / counts.max(), 0.3, bottom=-8, align="edge", color=COLOURS[3])
    axis.set_ylim(-8, 8)
    axis.set_title(title, fontsize=9)
    axis.legend(fontsize=7)


def levels(options, axes):
    scores = ndtri(0.5 + LEVELS / 2)
    coverages, spreads, errors = {}, {}, {}
    for seed in range(options.seeds):
        studies, truth = ablated(np.random.default_rng(FIRST_SEED + 1000 + seed), -2, 6)
        treatments = np.linspace(*np.quantile(studies[0]["x"], [0.025, 0.975]), 41)
        models = [fused(studies, seed, draws) for draws in (0, options.draws)]
        best, averaged = (model.effect(treatments) for model in models)
        published = {
            "integrals": as_published(models[0], treatments, studies, form="integrals", jitter=1e-8),
            "integrals, jitter 1e-4": as_published(models[0], treatments, studies, form="integrals"),
            "ν of rows": models[0].published(treatments, jitter=1e-4),
        }
        source = source_bands(studies, treatments, seed)
        del source["IME"]
        pairs = [(studies[0]["x"], studies[0]["y"]), (studies[1]["y"], studies[1]["t"])]
        bands = {
            "riesz": (averaged.mean, averaged.std),
            "riesz, best hyper-parameters": (best.mean, best.std),
            **source,
            "BayesIMP, 4.13": mean_processes(studies, treatments, "evidence")["BayesIMP"],
            **{f"BayesIMP, {name}": (estimate.mean, estimate.std) for name, estimate in published.items()},
            "bootstrap of two regressions": bootstrap_of_regressions(
                pairs, treatments, 200, np.random.default_rng(seed)
            ),
            "bootstrap, one put into the other": bootstrap_of_regressions(
                pairs, treatments, 200, np.random.default_rng(seed), points=1
            ),
        }
        for name, (mean, sd) in bands.items():
            deviation = mean - truth(treatments)
            coverages.setdefault(name, []).append(
                (np.abs(deviation)[:, None] < scores * sd[:, None]).mean(axis=0)
            )
            spreads.setdefault(name, []).append(sd.mean())
            errors.setdefault(name, []).append(np.mean(deviation**2))
    lines = []
    for colour, (name, coverage) in zip(matplotlib.colormaps["tab20"].colors, coverages.items()):
        coverage = np.array(coverage)
        mean, selected = coverage.mean(axis=0), coverage[:, [49, 79, 94]]
        cells = [
            f"{a:.2f} ± {b:.2f}"
            for a, b in zip(selected.mean(axis=0), selected.std(axis=0) / np.sqrt(len(coverage)))
        ]
        deviation = np.abs(mean - LEVELS).mean()
        rmse = np.sqrt(np.mean(errors[name]))
        again = _redrawn(coverage)
        excess = again - _redrawn(np.array(coverages["riesz"]))
        criteria = (
            f"{criterion_text(selected.mean(axis=0)[2], low=0.9)}; {criterion_text(deviation, high=0.08)}"
        )
        lines.append(
            [
                name,
                *cells,
                f"{deviation:.3f} ± {again.std():.3f}",
                f"{excess.mean():.3f} ± {excess.std():.3f}",
                f"{np.mean(spreads[name]):.2f}",
                f"{rmse:.2f}",
                criteria,
            ]
        )
        axes[4].plot(LEVELS, mean, color=colour, label=name)
    axes[4].plot([0, 1], [0, 1], "k:", linewidth=0.8)
    axes[4].set_title("coverage by level", fontsize=9)
    axes[4].legend(fontsize=5, loc="lower right", framealpha=0.6)
    header = [
        "band",
        "50 %",
        "80 %",
        "95 %",
        "mean off by, 1 to 99 %",
        "more than riesz",
        "mean sd",
        "RMSE",
        "criterion (95 %; off by)",
    ]
    return f"\n\nCoverage, {options.seeds} data sets (± standard error over these)\n\n" + table(header, lines)


def as_published(model, treatments, studies, **options):
    """The source's BayesIMP, with the hyper-parameters of riesz and the source's measure of mediators."""
    mass = np.sqrt(2 * np.pi) * np.concatenate([study["y"] for study in studies]).std()
    return model.published(treatments, measure="normal", mass=mass, **{"jitter": 1e-4, **options})


def source_bands(studies, treatments, seed):
    """The mean and the standard deviation of the effect by each method of the source."""
    rng = np.random.default_rng(seed)
    mean, sd, sd_of_means = sampled_effect(studies, {"randomized": True}, treatments, rng)
    return {
        "sampling": (mean, sd),
        "sampling, means": (mean, sd_of_means),
        **mean_processes(studies, treatments),
    }


def _redrawn(coverage):
    """The mean deviation of the coverage over levels, for bootstrap samples of data sets, which are the
    same for all bands."""
    rng = np.random.default_rng(0)
    return np.array(
        [
            np.abs(coverage[rng.integers(len(coverage), size=len(coverage))].mean(axis=0) - LEVELS).mean()
            for _ in range(1000)
        ]
    )


def support(options, axes):
    grid, measures = np.linspace(-4, 4, 161), []
    for seed in range(options.seeds):
        rng = np.random.default_rng(FIRST_SEED + 2000 + seed)
        x, ys = rng.uniform(-4, 4, 100), rng.uniform(-1.5, 1.5, 100)
        first = {"x": x, "y": 1.5 * x + 0.1 * rng.normal(size=100)}
        studies = [first, {"y": ys, "t": np.sin(2 * ys) + 0.1 * rng.normal(size=100)}]
        model = fused(studies, seed, options.draws)
        effect, truth = model.effect(grid), np.sin(3 * grid) * np.exp(-0.02)
        scores, y = (effect.mean - truth) / effect.std, np.abs(1.5 * grid)
        taken = effect.diagnostics["resolved_by_rest"]
        landmarks = as_published(fused(studies, seed, 0), [3.5], studies)
        measures.append(
            [
                np.mean(np.abs(scores[y < 1.2]) < 1.96),
                np.abs(scores[y < 1.5]).max(),
                np.abs(scores[y >= 1.5]).max(),
                effect.std[y < 1.2].mean(),
                np.abs(scores[np.abs(y - 5.25).argmin()]),
                effect.std[np.abs(y - 5.25).argmin()],
                np.abs((landmarks.mean[-1] - np.sin(2 * 5.25) * np.exp(-0.02)) / landmarks.std[-1]),
                landmarks.std[-1],
                taken[y >= 3].max(),
                effect.support[y >= 3].mean(),
                model.unmatched_["y"],
                any("has no y" in note for note in model.warnings_),
            ]
        )
        if seed == 0:
            axes[5].plot(grid, effect.mean, color=COLOURS[0], label="mean, 95 % band")
            axes[5].fill_between(grid, *effect.interval(), color=COLOURS[0], alpha=0.25)
            axes[5].plot(grid, truth, "k--", linewidth=0.9, label="truth")
            axes[5].plot(
                grid[~effect.support],
                np.full((~effect.support).sum(), -2.4),
                "|",
                color=COLOURS[1],
                label="no support",
            )
            axes[5].set_title("study 2 where |Y| < 1.5", fontsize=9)
            axes[5].legend(fontsize=7)
    measures = np.array(measures)
    exceeding_share = (measures[:, 1:3].max(axis=1) > 3).mean()
    names = [
        "held at 95 %, |Y| < 1.2",
        "|z| where study 2 has rows",
        "|z| elsewhere",
        "sd where it has rows",
        "|z| at Y = 5.25",
        "sd at Y = 5.25",
        "|z| of BayesIMP there",
        "sd of BayesIMP there",
        "variance taken away, |Y| ≥ 3",
        "supported, |Y| ≥ 3",
        "mediators unmatched",
        "warned of",
    ]
    lines = [[name, f"{column.mean():.3f}", f"{column.max():.3f}"] for name, column in zip(names, measures.T)]
    summary = (
        f"largest |z|: {criterion_text(measures[:, 1:3].max(), high=3)} (beyond 3 in {exceeding_share:.0%} "
        f"of data sets); variance taken away from |Y| = 3: {criterion_text(measures[:, 8].max(), high=0.75)}"
    )
    summary += (
        f"; supported there: {criterion_text(measures[:, 9].max(), high=0.05)}; warned of: "
        f"{criterion_text(measures[:, 11].min(), low=1)}"
    )
    return (
        f"\n\nStudy 2 where |Y| < 1.5, {options.seeds} data sets\n\n"
        + table(["", "mean", "largest"], lines)
        + "\n\n"
        + summary
    )


PARTS = {"picture": picture, "methods": methods, "levels": levels, "support": support}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="data sets, by default 30, in full 100")
    parser.add_argument("--draws", type=int, default=16, help="of kernels, noises and ridges; 0 for the best")
    options = arguments(__doc__, (chosen(PARTS), parser))
    options.seeds = options.seeds or (100 if options.full else 30)
    warnings.simplefilter("ignore")
    text = f"What each study leaves unsure, {options.draws} draws of hyper-parameters"
    run(PARTS, options, "causal_ablation", 12, text, columns=4)
