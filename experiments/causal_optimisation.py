"""The number of trials of treatments until the best one is found: causal Bayesian optimisation (chapter 4
of Chau 2023, figures 4.7, 4.8 and B.3).

    python experiments/causal_optimisation.py [NAME ...] [--full] [--seeds COUNT] [--draws COUNT] [--middle]

The worlds are those of _causal_worlds.py. As printed: "front door", "two modes" and "one mode" (figure 4.7),
"harder, D", "harder, E" and "health care" (figure 4.8), "harder, E, 500 rows" (figure B.3). As the printed
noise of the harder graph leaves nearly no effect, there are the same worlds with noise .3. In further worlds
the doses of "health care" vary, and X and Y are those of the ablation.

The effect is learnt from the studies of each data set. Then treatments are tried, without noise, on a grid of
201 points over the range of study 1, or over its middle 95 % (--middle); for health care over doses from 0 to
1. The first treatment is drawn at random, the same for all priors. The source doesn't specify its start, its
grid, its noise and how often hyper-parameters are chosen, and its figures have no numbers. Outcomes are
maximised, and the cancer volume minimised. The result is the number of trials, including the first, until one
is within 1 % of the range of the true effect (20 at most), over data sets (± standard error). "best after 3"
is the regret after three trials as a share of the range.

All priors have the same acquisition and the same rules for hyper-parameters, those of
riesz.CausalFusion.suggest. riesz: the effect of riesz. imp, bayesime: its mean, with the part of the
covariance that is due to the last or the first study. bayesimp: the posterior of the source, corrected, with
its measure ν of mediators; with "rows", ν is the rows of both studies, with a mass of 1. cbo: causal Bayesian
optimisation (Aglietti et al. 2020), with the mean and the variance of its sampling baseline
(_sampling_baseline.py). cbo, riesz's mean: its kernel with the mean and the last study's part of riesz. none:
a Gaussian kernel and a constant mean. random: random treatments without repetition.

Full: 100 data sets instead of 10.
"""

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _causal_worlds import DESIGNS, harder, healthcare
from _figures import COLOURS, arguments, chosen, finish, panels, table
from _grid_optimisation import GridPrior
from _sampling_baseline import sampled_effect

import riesz

FIRST_SEED = 800_000
MAX_TRIALS = 20
PRIORS = [
    "riesz",
    "imp",
    "bayesime",
    "bayesimp",
    "bayesimp, rows",
    "cbo",
    "cbo, riesz's mean",
    "none",
    "random",
]


@dataclass(frozen=True)
class World:
    """A world with the rows of its studies, the bounds of treatments if they are not the range of study 1,
    and the sign of outcomes: -1 if they are minimised."""

    make: Any
    n: int
    m: int = 50
    bounds: tuple[float, float] | None = None
    sign: float = 1.0


WORLDS = {
    "front door": World(DESIGNS["front door"][0], 100),
    "two modes": World(DESIGNS["two modes"][0], 100),
    "one mode": World(DESIGNS["one mode"][0], 100),
    "harder, D": World(harder("D", 1.0), 100),
    "harder, E": World(harder("E", 1.0), 100),
    "health care": World(healthcare(0.0), 100, bounds=(0.0, 1.0), sign=-1.0),
    "harder, E, 500 rows": World(harder("E", 1.0), 500),
    "harder, D, noise .3": World(harder("D", 0.3), 100),
    "harder, E, noise .3": World(harder("E", 0.3), 100),
    "harder, E, 500 rows, noise .3": World(harder("E", 0.3), 500),
    "health care, doses vary": World(healthcare(1.0), 100, bounds=(0.0, 1.0), sign=-1.0),
    "ablation": World(DESIGNS["ablation"][0], 100, 100),
}


def priors(world, studies, design, grid, draws, seed):
    """The priors of the effect on the grid, by name."""
    model = riesz.CausalFusion(
        treatment="x", outcome="t", n_hyperparameter_samples=draws, random_state=seed, **design
    )
    model.fit([pd.DataFrame(study) for study in studies])
    x, size = studies[0]["x"], len(grid)
    # After the grid come rows of study 1, which determine the scale of the effect.
    points = np.concatenate([grid, x[:: max(1, len(x) // 64)]])
    scale_of = lambda mean, covariance: mean[size:].var() + np.diag(covariance)[size:].mean()

    def prior(mean, covariance, scale, **kinds):
        moments = world.sign * mean[:size], covariance[:size, :size]
        return GridPrior(grid, *moments, scale, np.ptp(x), **kinds)

    effect = model.effect(points)
    scale = scale_of(effect.mean, effect.cov)
    first_part, last_part = (effect.covariance_by_source[f"study {k}"] for k in (1, 2))
    mass = np.sqrt(2 * np.pi) * np.concatenate([study["y"] for study in studies]).std()
    published = model.published(points, measure="normal", mass=mass, jitter=1e-4)
    with_rows = model.published(points, jitter=1e-4)
    sampled, sd, _ = sampled_effect(studies, design, points, np.random.default_rng(seed))
    sampled_covariance, last_sd = np.outer(sd, sd), np.sqrt(np.diag(last_part))
    return {
        "riesz": prior(effect.mean, effect.cov, scale),
        "imp": prior(effect.mean, last_part, scale),
        "bayesime": prior(effect.mean, first_part, scale),
        "bayesimp": prior(published.mean, published.cov, scale_of(published.mean, published.cov)),
        "bayesimp, rows": prior(with_rows.mean, with_rows.cov, scale_of(with_rows.mean, with_rows.cov)),
        "cbo": prior(sampled, sampled_covariance, scale_of(sampled, sampled_covariance), causal=False),
        "cbo, riesz's mean": prior(effect.mean, np.outer(last_sd, last_sd), scale, causal=False),
        "none": prior(0 * effect.mean, 0 * effect.cov, scale, causal=False, flat=True),
    }


def regret_curves(world, seed, draws, outside):
    """The regret after each trial as a share of the range of the effect, for each prior."""
    rng = np.random.default_rng(FIRST_SEED + seed)
    studies, design, truth = world.make(rng, world.n, world.m)
    ends = world.bounds or np.quantile(studies[0]["x"], [outside, 1 - outside])
    grid = np.linspace(*ends, 201)
    values = world.sign * truth(grid)
    lacking = (values.max() - values) / np.ptp(values)
    order = rng.permutation(201)
    regrets = {"random": np.minimum.accumulate(lacking[order[:MAX_TRIALS]])}
    for name, prior in priors(world, studies, design, grid, draws, seed).items():
        places = [order[0]]
        while len(places) < MAX_TRIALS and lacking[places].min() > 0.01:
            places.append(prior.next_place(places, values[places]))
        regrets[name] = np.minimum.accumulate(
            np.pad(lacking[places], (0, MAX_TRIALS - len(places)), mode="edge")
        )
    return regrets


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="data sets of each world, by default 10, in full 100")
    parser.add_argument("--draws", type=int, default=16, help="of kernels, noises and ridges; 0 for the best")
    parser.add_argument(
        "--middle", action="store_true", help="leave out 2.5 %% of study 1's treatments on both sides"
    )
    options = arguments(__doc__, (chosen(WORLDS), parser))
    seeds = options.seeds or (100 if options.full else 10)
    warnings.simplefilter("ignore", UserWarning)
    names = [world for world in WORLDS if not options.parts or world in options.parts]
    figure, axes = panels(len(names), columns=4)
    lines = []
    for axis, name in zip(axes, names):
        runs = [
            regret_curves(WORLDS[name], seed, options.draws, 0.025 * options.middle) for seed in range(seeds)
        ]
        cells = []
        for place, prior in enumerate(PRIORS):
            missing = np.array([run[prior] for run in runs])
            trials = 1 + np.minimum((missing > 0.01).sum(axis=1), MAX_TRIALS - 1)
            cells.append(
                f"{trials.mean():.1f} ± {trials.std() / np.sqrt(seeds):.1f} ({missing[:, 2].mean():.2f})"
            )
            colour = COLOURS[place % len(COLOURS)]
            style = "--" if place >= len(COLOURS) else "-"
            axis.plot(np.arange(1, MAX_TRIALS + 1), missing.mean(axis=0), style, color=colour, label=prior)
        lines.append([name, *cells])
        print(*lines[-1], sep=" | ", flush=True)
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("trials")
        axis.set_ylabel("missing share of the range", fontsize=8)
    axes[0].legend(fontsize=7)
    text = (
        f"Trials until within 1 % of the range (best after 3), {seeds} data sets each, {options.draws} "
        f"draws of hyper-parameters{', middle 95 %' * options.middle}\n\n"
    )
    finish(options, "causal_optimisation", figure, text + table(["world", *PRIORS], lines))
