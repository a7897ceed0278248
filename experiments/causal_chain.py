"""Chains of three studies, the choice of the study to extend, and explained effects, which the source of
causal data fusion (chapter 4 of Chau 2023) doesn't have.

    python experiments/causal_chain.py [chain] [extend] [explain] [--full] [--seeds COUNT] [--problems COUNT]
    [--draws COUNT]

There are no published results; chapter 8 of the source proposes chains as future work.

chain: X → Y → V → T, three studies of 100 rows. The baseline is a bootstrap of three regressions (Gaussian
processes of scikit-learn, 200 replications), which regards residuals as additive and homoscedastic, or the
composition of the regressions without residuals. The worlds are "chain" of _causal_worlds.py, where
residuals are so, and one with Y = 1.2 X + .8 |X| times normal noise, where they are not. There are 41
treatments between the 2.5 % and 97.5 % quantiles of study 1. criterion: coverage of at least .90 at 95 %,
and an error below that of the bootstrap (p by Wilcoxon's test).

extend: X ~ N(0, 1), randomised, Y = aX + b sin cX, T = sin dY + eY, with random coefficients and noises,
15 to 60 rows in each study. 20 more rows are added to the study in which one more row is worth more
(riesz.CausalFusion.value_of_information, mean over nine treatments between the 10 % and 90 % quantiles of
X). In a second budget 60 rows are added, with it computed again after every 20. The alternatives add half
of the rows to each study, or all rows to the study that was not advised at first. All alternatives use the
same rows.
criterion: with the advice the error at these treatments is lower than with halves, p < .01 (two-sided
Wilcoxon test of the mean log error of both budgets).

explain: two treatments A and B that share a cause with Y, Y = A + B/2 + AB/2 + .7 Z, T = sin Y + .3 Y, 150
rows each. Shapley values at five pairs of doses are compared with the true ones for the same background,
the treatments of study 1. Two mediators P = A + Z/2 and Q = B/2 + Z/2, T = sin 2P + .5 PQ: their values,
which have no intervals, are compared with the true ones for the same background, the mediators of study 2.
criterion: 95 % intervals of values of treatments cover .90 to .99.

Full: 100 data sets and 200 problems instead of 20 and 40.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from _bootstrap import bootstrap_of_regressions
from _causal_worlds import chain as of_even_noise
from _figures import COLOURS, arguments, chosen, criterion_text, run, table
from _wilcoxon import two_sided

import riesz

FIRST_SEED = 730_000
SCORES = {50: 0.674, 80: 1.282, 95: 1.960}


def of_uneven_noise(rng, n, m):
    """The chain with noise of Y that grows with |X|."""
    studies, design, _ = of_even_noise(rng, n, m)
    x = studies[0]["x"]
    studies[0]["y"] = 1.2 * x + 0.8 * np.abs(x) * rng.normal(size=n)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    y = lambda g: 1.2 * g[:, None] + 0.8 * np.abs(g)[:, None] * nodes
    return studies, design, lambda g: ((np.sin(y(g)) + 0.3 * y(g)) ** 2 + 0.04) @ weights / weights.sum() / 2


def share_held(errors, sd):
    return [np.mean(np.abs(errors) < score * sd) for score in SCORES.values()]


def shown(mean, error):
    return f"{mean:.2f} ± {error:.2f}"


def chain(options, axes):
    lines = []
    for place, (world, make) in enumerate(
        {"noise the same everywhere": of_even_noise, "noise that grows": of_uneven_noise}.items()
    ):
        measures = {}
        for seed in range(options.seeds):
            studies, design, truth = make(np.random.default_rng(FIRST_SEED + seed), 100, 100)
            treatments = np.linspace(*np.quantile(studies[0]["x"], [0.025, 0.975]), 41)
            pairs = [tuple(study.values()) for study in studies]
            fusion = riesz.CausalFusion(
                treatment="x",
                outcome="t",
                n_hyperparameter_samples=options.draws,
                random_state=seed,
                **design,
            )
            effect = fusion.fit([pd.DataFrame(study) for study in studies]).effect(treatments)
            ways = {"riesz": (effect.mean, effect.std)}
            for name, points in {
                "bootstrap of three regressions": 25,
                "bootstrap, one put into the other": 1,
            }.items():
                ways[name] = bootstrap_of_regressions(
                    pairs, treatments, 200, np.random.default_rng(seed), points
                )
            for name, (mean, sd) in ways.items():
                errors = mean - truth(treatments)
                measures.setdefault(name, []).append(
                    [*share_held(errors, sd), sd.mean(), np.sqrt(np.mean(errors**2))]
                )
        for colour, (name, runs) in zip(COLOURS, measures.items()):
            runs = np.array(runs)
            mean, error = runs.mean(axis=0), runs.std(axis=0) / np.sqrt(len(runs))
            p = "" if name == "riesz" else f"{two_sided(runs[:, 4] - np.array(measures['riesz'])[:, 4]):.2g}"
            criterion = (
                criterion_text(mean[2], low=0.9)
                if name == "riesz"
                else f"riesz {criterion_text(np.mean(measures['riesz'], axis=0)[4], high=float(round(mean[4], 3)))}"
            )
            lines.append(
                [
                    world,
                    name,
                    *[shown(*pair) for pair in zip(mean[:3], error[:3])],
                    f"{mean[3]:.2f}",
                    shown(mean[4], error[4]),
                    p,
                    criterion,
                ]
            )
            axes[0].plot(
                list(SCORES), mean[:3], "o-" if place == 0 else "s:", color=colour, label=f"{name}, {world}"
            )
    axes[0].plot([50, 95], [0.5, 0.95], "k:", linewidth=0.8)
    axes[0].set_title("coverage of three studies, by level", fontsize=9)
    axes[0].legend(fontsize=5)
    header = ["chain", "method", "50 %", "80 %", "95 %", "mean sd", "error", "p", "criterion (95 %, error)"]
    return (
        f"\n\nThree studies, {options.seeds} data sets (error: mean over these of the root mean squared "
        "error)\n\n" + table(header, lines)
    )


def problem(rng):
    """Rows of both studies, the maximum number that is needed, their initial numbers, and the true effect."""
    a, b, c, d, e = rng.uniform([0.5, 0, 1, 0.5, -0.5], [1.5, 1, 3, 2, 0.5])
    of_y, of_t = np.exp(rng.uniform(np.log(0.1), 0, 2))
    n, m = rng.integers(15, 61, 2)
    led = lambda x: a * x + b * np.sin(c * x)
    x = rng.normal(size=n + 60)
    y = led(x) + of_y * rng.normal(size=n + 60)
    # Study 2 is evaluated at the mediators of study 1, not at those of its own rows.
    wide = 2 * np.sqrt(a**2 + of_y**2)
    ys = rng.uniform(-wide, wide, m + 60)
    t = np.sin(d * ys) + e * ys + of_t * rng.normal(size=m + 60)
    truth = lambda x: np.exp(-((d * of_y) ** 2) / 2) * np.sin(d * led(x)) + e * led(x)
    return pd.DataFrame({"x": x, "y": y}), pd.DataFrame({"y": ys, "t": t}), n, m, truth


def extend(options, axes):
    treatments = np.linspace(-1.28, 1.28, 9)
    errors, advised, sureness = [], [], []
    for seed in range(options.problems):
        first, second, n, m, truth = problem(np.random.default_rng(FIRST_SEED + 1000 + seed))

        def extended(more_first, more_second):
            fusion = riesz.CausalFusion(
                treatment="x",
                outcome="t",
                randomized=True,
                n_hyperparameter_samples=options.draws,
                random_state=seed,
            )
            model = fusion.fit([first.head(n + more_first), second.head(m + more_second)])
            return model, np.log(np.sqrt(np.mean((model.effect(treatments).mean - truth(treatments)) ** 2)))

        model, before = extended(0, 0)
        added, followed, asides = np.zeros(2, int), [], []
        for _ in range(3):
            gains = np.array(list(model.value_of_information(treatments).values()))
            asides.append(gains)
            added[gains.argmax()] += 20
            model, log_errors = extended(*added)
            followed.append(log_errors)
        best = asides[0].argmax()
        advised.append(best == 0)
        sureness.append(abs(np.log(asides[0][0] / asides[0][1])))
        once, other = ([60, 0], [0, 60])[:: 1 if best == 0 else -1]
        line = [before, followed[0], extended(10, 10)[1], extended(*(20 * (np.arange(2) != best)))[1]]
        errors.append([*line, followed[2], extended(30, 30)[1], extended(*other)[1], extended(*once)[1]])
    errors, sureness = np.array(errors), np.array(sureness)
    lines = []
    subsets = {
        "all": np.full(len(sureness), True),
        "where the advice is clearer than by the median": sureness > np.median(sureness),
    }
    for which, kept in subsets.items():
        for budget, columns in {20: [1, 2, 3, 1], 60: [4, 5, 6, 7]}.items():
            log_errors = errors[kept][:, columns]
            less = log_errors[:, 0] - log_errors[:, 1]
            means = [f"{np.exp(mean):.3f}" for mean in [errors[kept, 0].mean(), *log_errors.mean(axis=0)]]
            compared = [
                shown(less.mean(), less.std() / np.sqrt(len(less))),
                f"{two_sided(less):.2g}",
                f"{two_sided(log_errors[:, 0] - log_errors[:, 2]):.2g}",
            ]
            lines.append([which, str(budget), *means, *compared])
    less = (errors[:, 1] - errors[:, 2] + errors[:, 4] - errors[:, 5]) / 2
    p = two_sided(less)
    axes[1].hist(less, bins=30, color=COLOURS[0])
    axes[1].axvline(0, color="k", linewidth=0.8)
    axes[1].set_title("log error, advice less halves", fontsize=9)
    header = [
        "problems",
        "rows",
        "before",
        "by advice",
        "halves",
        "the other study",
        "advice, asked once",
        "log error, advice less halves",
        "p",
        "p against the other study",
    ]
    text = (
        f"\n\nWhich study to extend, {options.problems} problems, first study 1 in {np.mean(advised):.0%} "
        f"(geometric means of root mean squared errors)\n\n"
    )
    below = (
        f"{shown(less.mean(), less.std() / np.sqrt(len(less)))}; below 0: "
        f"{criterion_text(float(less.mean()), high=0)}; p = {p:.2g}: {criterion_text(p, high=0.01)}"
    )
    return text + table(header, lines) + "\n\nboth budgets, log error by advice less by halves: " + below


def shapley_of_two(value, doses, background):
    """Interventional values of two players, (rows, 2), for the function ``value`` of their columns; absent
    ones come from ``background``."""
    player, other = (np.broadcast_arrays(doses[:, k][:, None], background[:, k][None, :]) for k in (0, 1))
    empty = value(background[:, 0], background[:, 1]).mean()
    first, second = value(player[0], other[1]).mean(axis=1), value(player[1], other[0]).mean(axis=1)
    full = value(doses[:, 0], doses[:, 1])
    half_interaction = (full - first - second + empty) / 2
    return np.column_stack([first - empty + half_interaction, second - empty + half_interaction])


DOSES = np.array([[-1.0, -0.5], [-0.5, 1.0], [0.0, 0.0], [0.5, -1.0], [1.0, 0.5]])


def explain_treatments(draws, seed, rng, z, a, b):
    """Measures of the values of two treatments in one data set, and the spread of the true ones."""
    n, e = len(z), lambda: rng.normal(size=len(z))
    y, ys = a + b / 2 + a * b / 2 + 0.7 * z + 0.3 * e(), rng.uniform(-5, 5, n)
    graph = "z -> a; z -> b; z -> y; a -> y; b -> y; y -> t"
    fusion = riesz.CausalFusion(
        graph, treatment=["a", "b"], outcome="t", n_hyperparameter_samples=draws, random_state=seed
    )
    model = fusion.fit(
        [
            pd.DataFrame({"a": a, "b": b, "z": z, "y": y}),
            pd.DataFrame({"y": ys, "t": np.sin(ys) + 0.3 * ys + 0.3 * e()}),
        ]
    )
    why = model.explain(pd.DataFrame(DOSES, columns=["a", "b"]), covariance=True)
    led = lambda a, b: a + b / 2 + a * b / 2
    effect = lambda a, b: np.exp(-(0.49 + 0.09) / 2) * np.sin(led(a, b)) + 0.3 * led(a, b)
    true = shapley_of_two(effect, DOSES, np.column_stack([a, b]))
    errors = why.values - true
    fitted_effect = model.effect(pd.DataFrame(DOSES, columns=["a", "b"]))
    measures = [
        *share_held(errors, why.std),
        why.std.mean(),
        np.mean(errors**2),
        *share_held(fitted_effect.mean - effect(*DOSES.T), fitted_effect.std),
        fitted_effect.std.mean(),
    ]
    return measures, true.std()


def explain_mediators(draws, seed, rng, z, a, b):
    """Measures of the values of two mediators in one data set."""
    n, e = len(z), lambda: rng.normal(size=len(z))
    p, q = a + z / 2 + 0.2 * e(), b / 2 + z / 2 + 0.2 * e()
    ps, qs = rng.uniform(-3, 3, n), rng.uniform(-2.5, 2.5, n)
    outcome_of = lambda p, q: np.sin(2 * p) + 0.5 * p * q
    graph = "z -> a; z -> b; z -> p; z -> q; a -> p; b -> q; p -> t; q -> t"
    fusion = riesz.CausalFusion(
        graph, treatment=["a", "b"], outcome="t", n_hyperparameter_samples=draws, random_state=seed
    )
    model = fusion.fit(
        [
            pd.DataFrame({"a": a, "b": b, "z": z, "p": p, "q": q}),
            pd.DataFrame({"p": ps, "q": qs, "t": outcome_of(ps, qs) + 0.3 * e()}),
        ]
    )
    shares = model.explain_mediators(pd.DataFrame(DOSES, columns=["a", "b"]))
    fixed = np.random.default_rng(0).normal(size=(3, 2000))
    true = np.array(
        [
            shapley_of_two(
                outcome_of,
                np.column_stack(
                    [dose + fixed[0] / 2 + 0.2 * fixed[1], other / 2 + fixed[0] / 2 + 0.2 * fixed[2]]
                ),
                np.column_stack([ps, qs]),
            ).mean(axis=0)
            for dose, other in DOSES
        ]
    )
    return [
        np.mean((shares.values - true) ** 2),
        np.var(true),
        np.abs(shares.values.sum(axis=1) + shares.base_values - shares.mean).max(),
    ]


def explain(options, axes):
    measures, mediator_measures, sizes = [], [], []
    for seed in range(options.seeds):
        rng, n = np.random.default_rng(FIRST_SEED + 2000 + seed), 150
        z, e = rng.normal(size=n), lambda: rng.normal(size=n)
        a, b = 0.5 * z + e(), -0.3 * z + e()
        sample = (options.draws, seed, rng, z, a, b)
        errors, size = explain_treatments(*sample)
        measures.append(errors)
        sizes.append(size)
        mediator_measures.append(explain_mediators(*sample))
    measures, mediator_measures = np.array(measures), np.array(mediator_measures)
    mean, error = measures.mean(axis=0), measures.std(axis=0) / np.sqrt(len(measures))
    rows = [
        [
            "values of two treatments",
            *[shown(*pair) for pair in zip(mean[:3], error[:3])],
            f"{mean[3]:.3f}",
            f"{np.sqrt(mean[4]):.3f}",
            f"{np.mean(sizes):.3f}",
            criterion_text(mean[2], low=0.9, high=0.99),
        ],
        [
            "the effect itself",
            *[shown(*pair) for pair in zip(mean[5:8], error[5:8])],
            f"{mean[8]:.3f}",
            "",
            "",
            "",
        ],
        [
            "values of two mediators",
            "",
            "",
            "",
            "",
            f"{np.sqrt(mediator_measures[:, 0].mean()):.3f}",
            f"{np.sqrt(mediator_measures[:, 1].mean()):.3f}",
            "",
        ],
    ]
    axes[2].plot(list(SCORES), mean[:3], "o-", color=COLOURS[0], label="values of treatments")
    axes[2].plot(list(SCORES), mean[5:8], "o-", color=COLOURS[1], label="the effect itself")
    axes[2].plot([50, 95], [0.5, 0.95], "k:", linewidth=0.8)
    axes[2].set_title("coverage of explained effects, by level", fontsize=9)
    axes[2].legend(fontsize=7)
    header = [
        "what",
        "50 %",
        "80 %",
        "95 %",
        "mean sd",
        "RMSE",
        "spread of the true ones",
        "criterion (95 %)",
    ]
    return (
        f"\n\nFive doses explained, {options.seeds} data sets\n\n"
        + table(header, rows)
        + f"\n\nValues of mediators and base value add up to the effect to {mediator_measures[:, 2].max():.1g}."
    )


PARTS = {"chain": chain, "extend": extend, "explain": explain}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="data sets, by default 20, in full 100")
    parser.add_argument("--problems", type=int, help="of which study to extend, by default 40, in full 200")
    parser.add_argument("--draws", type=int, default=16, help="of kernels, noises and ridges; 0 for the best")
    options = arguments(__doc__, (chosen(PARTS), parser))
    options.seeds = options.seeds or (100 if options.full else 20)
    options.problems = options.problems or (200 if options.full else 40)
    warnings.simplefilter("ignore")
    run(
        PARTS,
        options,
        "causal_chain",
        3,
        f"Chains, advice and explanations, {options.draws} draws of hyper-parameters",
    )
