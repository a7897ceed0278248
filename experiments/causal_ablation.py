"""An ablation of causal data fusion (Chau 2023, figures 4.5, B.1 and B.2): the contribution of each study
to the uncertainty of an effect, and effects where study 2 has no rows.

    python experiments/causal_ablation.py [picture] [levels] [support] [--full] [--seeds COUNT] [--draws
    COUNT]

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

levels: coverage at 1, 2 … 99 % of 41 treatments between the 2.5 % and 97.5 % quantiles of study 1. Only
study 2 (IMP) and only study 1 (BayesIME) are bands of that part of the variance alone. Both are around the
mean of riesz with its best hyper-parameters, without averaging over them. The bootstrap uses two Gaussian
processes of scikit-learn (200 replications), with the residuals of the first, which it regards as additive
and homoscedastic, as they are here, or without them. BayesIMP is that of the source, corrected, with the
same hyper-parameters and a normal measure of mediators with the source's mass, through landmarks (jitter
1e-4) and by integrals. criterion: riesz covers at least .90 at 95 %, and the mean deviation over levels is
at most .08. A band is worse than that of riesz if its mean deviation is larger by two standard errors
(over bootstrap samples of data sets).

support: X ~ U[-4, 4], Y = 1.5 X, T = sin 2Y, noise .1, study 2 only where |Y| is below 1.5, 100 rows each.
Published: the extrapolation is "nicely captured". criterion: the error of the mean is nowhere more than 3
standard deviations; from |Y| = 3 on the rows explain at most three quarters of the prior variance; fit
warns of mediators that study 2 doesn't have; and at most 5 % of the treatments there have support.

Full: 100 data sets instead of 30.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from _bootstrap import bootstrap_of_regressions
from _causal_worlds import ablation
from _figures import COLOURS, arguments, chosen, criterion_text, run, table
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
                landmarks = as_published(effect, fused(studies, seed, 0), grid, studies)[
                    "BayesIMP, landmarks"
                ]
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


def levels(options, axes):
    scores = ndtri(0.5 + LEVELS / 2)
    coverages, spreads, errors = {}, {}, {}
    for seed in range(options.seeds):
        studies, truth = ablated(np.random.default_rng(FIRST_SEED + 1000 + seed), -2, 6)
        treatments = np.linspace(*np.quantile(studies[0]["x"], [0.025, 0.975]), 41)
        models = [fused(studies, seed, draws) for draws in (0, options.draws)]
        best, averaged = (model.effect(treatments) for model in models)
        pairs = [(studies[0]["x"], studies[0]["y"]), (studies[1]["y"], studies[1]["t"])]
        bands = {
            "riesz": (averaged.mean, averaged.std),
            "riesz, best hyper-parameters": (best.mean, best.std),
            **{
                name: (posterior.mean, posterior.std)
                for name, posterior in as_published(best, models[0], treatments, studies).items()
            },
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
    for colour, (name, coverage) in zip([*COLOURS, "k", "y"], coverages.items()):
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
    axes[4].legend(fontsize=6)
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


def as_published(effect, model, treatments, studies):
    """The source's posteriors, with the same hyper-parameters."""
    mass = np.sqrt(2 * np.pi) * np.concatenate([study["y"] for study in studies]).std()
    published = lambda **options: model.published(treatments, measure="normal", mass=mass, **options)
    return {
        "study 2 alone (IMP)": effect.restricted_to("study 2"),
        "study 1 alone (BayesIME)": effect.restricted_to("study 1"),
        "BayesIMP, landmarks": published(jitter=1e-4),
        "BayesIMP, integrals": published(form="integrals"),
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
        landmarks = as_published(effect, fused(studies, seed, 0), [3.5], studies)["BayesIMP, landmarks"]
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


PARTS = {"picture": picture, "levels": levels, "support": support}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="data sets, by default 30, in full 100")
    parser.add_argument("--draws", type=int, default=16, help="of kernels, noises and ridges; 0 for the best")
    options = arguments(__doc__, (chosen(PARTS), parser))
    options.seeds = options.seeds or (100 if options.full else 30)
    warnings.simplefilter("ignore")
    text = f"What each study leaves unsure, {options.draws} draws of hyper-parameters"
    run(PARTS, options, "causal_ablation", 6, text)
