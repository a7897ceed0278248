"""The number of trials of treatments until the best one is found: causal Bayesian optimisation (chapter 4
of Chau 2023, figures 4.7, 4.8 and B.3).

    python experiments/causal_optimisation.py [NAME ...] [--full] [--seeds COUNT] [--draws COUNT] [--middle]

The worlds are those of _causal_worlds.py. The effect is learnt from the studies of each data set. Then
treatments are tried, without noise, on a grid of 201 points over the range of study 1, or over its middle
95 % (--middle). The first treatment is drawn at random, the same for all priors. The source doesn't
specify its start, its grid, its noise and how often hyper-parameters are chosen, and its figures have no
numbers. Outcomes are maximised. The result is the number of trials, including the first, until one is
within 1 % of the range of the true effect (20 at most), over data sets (± standard error). "best after 3"
is the regret after three trials as a share of the range.

effect: the prior is the effect of riesz. imp, bayesime: its mean, with the part of the covariance that is
due to the last or the first study. rank-one, cbo: its mean, with the kernel of Aglietti et al. 2020 and
the variance of riesz or of the last study. none: a Gaussian kernel and a constant mean. random: random
treatments without repetition.

Full: 100 data sets instead of 10.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from _causal_worlds import DESIGNS, harder
from _figures import COLOURS, arguments, chosen, finish, panels, table

import riesz

FIRST_SEED = 800_000
MAX_TRIALS = 20
PRIORS = ["effect", "imp", "bayesime", "rank-one", "cbo", "none", "random"]


def healthcare(noisy):
    """Doses are a function of age and bmi, as printed, or vary around it by a logit of standard deviation
    1. Study 2 is a stand-in for that of the source, volume = 3.476 + .302 PSA (Kato 2008)."""

    def make(rng, n, m):
        logistic = lambda v: 1 / (1 + np.exp(-v))

        def psa_of(age, bmi, statin, aspirin, noise):
            cancer = logistic(2.2 - 0.05 * age + 0.01 * bmi - 0.04 * statin + 0.02 * aspirin)
            return noise + 6.8 + 0.04 * age - 0.15 * bmi - 0.6 * statin + 0.55 * aspirin + cancer

        def people(rng, n):
            age = rng.uniform(55, 75, n)
            bmi = 27 - 0.01 * age + 0.7 * rng.normal(size=n)
            return age, bmi, logistic(-8 + 0.1 * age + 0.03 * bmi), np.sqrt(0.4) * rng.normal(size=n)

        age, bmi, aspirin, noise = people(rng, n)
        statin = logistic(-13 + 0.1 * age + 0.2 * bmi + noisy * rng.normal(size=n))
        psa, ys = psa_of(age, bmi, statin, aspirin, noise), rng.uniform(2, 10, m)
        population = people(np.random.default_rng(0), 20_000)
        truth = lambda g: np.array(
            [3.476 + 0.302 * psa_of(*population[:2], v, *population[2:]).mean() for v in g]
        )
        first = {"x": statin, "age": age, "bmi": bmi, "y": psa}
        return (
            [first, {"y": ys, "t": 3.476 + 0.302 * ys + 0.3 * rng.standard_t(3.5, m)}],
            {"adjust": ["age", "bmi"]},
            truth,
        )

    return make


WORLDS = {name: DESIGNS[name] for name in ["front door", "two modes", "one mode", "ablation"]} | {
    "harder, noise .3": (harder, 100, 50),
    "harder, noise 1": (lambda rng, n, m: harder(rng, n, m, sd=1.0), 100, 50),
    "healthcare": (healthcare(0), 100, 50),
    "healthcare, doses vary": (healthcare(1), 100, 50),
}


def tried(make, n, m, seed, draws, outside):
    """The regret after each trial as a share of the range of the effect, for each prior."""
    rng = np.random.default_rng(FIRST_SEED + seed)
    studies, design, truth = make(rng, n, m)
    grid = np.linspace(*np.quantile(studies[0]["x"], [outside, 1 - outside]), 201)
    values = truth(grid)
    lacking = (values.max() - values) / np.ptp(values)
    order = rng.permutation(201)
    model = riesz.CausalFusion(
        treatment="x", outcome="t", n_hyperparameter_samples=draws, random_state=seed, **design
    )
    model.fit([pd.DataFrame(study) for study in studies])
    regrets = {"random": np.minimum.accumulate(lacking[order[:MAX_TRIALS]])}
    for prior in PRIORS[:-1]:
        model.reset()
        places = [order[0]]
        while len(places) < MAX_TRIALS and lacking[places].min() > 0.01:
            model.observe(grid[places[-1]], values[places[-1]], std=0.0)
            dose = model.suggest(candidates=grid, minimize=False, prior=prior).treatments["x"][0]
            places.append(int(np.argmin(np.abs(grid - dose))))
        regrets[prior] = np.minimum.accumulate(
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
    figure, axes = panels(len(names))
    lines = []
    for axis, name in zip(axes, names):
        runs = [tried(*WORLDS[name], seed, options.draws, 0.025 * options.middle) for seed in range(seeds)]
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
    axes[0].set_ylabel("missing share of the range")
    axes[0].legend(fontsize=7)
    text = (
        f"Trials until within 1 % of the range (best after 3), {seeds} data sets each, {options.draws} "
        f"draws of hyper-parameters{', middle 95 %' * options.middle}\n\n"
    )
    finish(options, "causal_optimisation", figure, text + table(["world", *PRIORS], lines))
