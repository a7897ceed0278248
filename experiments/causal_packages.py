"""Causal data fusion against other packages, and on the simulation of a competing method.

    python experiments/causal_packages.py [joint] [rival] [--full] [--seeds COUNT] [--draws COUNT]

joint: the world "narrow" of _causal_worlds.py. The packages get 500 rows with treatment, covariate and
outcome. riesz gets 250 rows without the outcome, and 250 rows of other people with mediator and outcome.
DoWhy: linear regression by the back door. EconML: LinearDML with random forests for outcome and treatment
(100 trees, leaves of 5 rows), three folds, and the treatment as it is, as a polynomial of degree 3 or 8,
or as a spline with ten knots. The packages return differences of effects. All methods are compared on the
difference from the effect of 1, at 41 treatments from -1 to 3. They are also compared on the effect
itself: for packages the mean outcome, plus the difference minus its mean over treatments. X is almost a
function of |Z|; with noise 1.5 instead of .5 it is not. Packages that are not installed are left out.
There are no published results. criterion: the error of riesz is below that of every package, and its 95 %
intervals cover at least .90.

rival: the simulation of Dance and Bloem-Reddy (2024), as in their code: one sample of the harder graph,
noise 1, without a second study. The effects are E[Y | do(D), B = 0] from 100 rows, and E[Y | do(B)] for
those with B = 0 from 500 rows (the effect on all is the same, because their common cause changes no mean),
at 101 treatments between -4 and 4. Stored runs of 50 data sets are published: coverage at 95 % and RMSE
within 2.5 are .83 and .36, .94 and .12 for BayesIMP, and .92 and .39, .95 and .16 for their method. riesz
joins studies, so the one sample is used twice. By the back door, for B = 0, the outcome is the mediator,
and a second study has the outcome equal to it. Alternatively study 1 leads from (B, D) to (C, D), and
study 2 from these to the outcome. By the front door C, the first variant is used. The constant is the mean
of the sample. The regression is a Gaussian process of scikit-learn of Y on C and D, averaged over the true
distribution of C, which no other method knows. criterion: within 2.5 a coverage of at least .90 at 95 %,
and an error of at most 1.1 times that of the better competitor; no support beyond 2.5.

Full: 50 data sets instead of 20, and for 500 rows 10 instead of 2.
"""

import argparse
import importlib.util
import logging
import time
import warnings

import numpy as np
import pandas as pd
from _causal_worlds import DESIGNS, simple_outcome
from _figures import COLOURS, arguments, chosen, criterion_text, run, table
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer

import riesz

FIRST_SEED = 720_000


def summed(runs_by_method):
    """Summary of each method from pairs of errors and standard deviations, one per data set: RMSE, its
    standard error, coverage at 95 %, its standard error, and the mean standard deviation."""
    lines = {}
    for name, runs in runs_by_method.items():
        squares = np.array([np.mean(errors**2) for errors, _ in runs])
        coverage = np.array([np.mean(np.abs(errors) < 1.96 * sd) for errors, sd in runs])
        rmse, count = np.sqrt(squares.mean()), np.sqrt(len(runs))
        lines[name] = (
            rmse,
            squares.std() / count / 2 / rmse,
            coverage.mean(),
            coverage.std() / count,
            np.mean([sd.mean() for _, sd in runs]),
        )
    return lines


def cells_of(line):
    rmse, of_rmse, coverage, of_held, sd = line
    return [f"{rmse:.2f} ± {of_rmse:.2f}", f"{coverage:.2f} ± {of_held:.2f}", f"{sd:.2f}"]


def by_dowhy(x, z, t, treatments, base):
    from dowhy import CausalModel

    logging.disable(logging.CRITICAL)
    model = CausalModel(
        pd.DataFrame({"x": x, "z": z, "t": t}), treatment="x", outcome="t", common_causes=["z"]
    )
    way = model.identify_effect(proceed_when_unidentifiable=True)
    estimate = model.estimate_effect(
        way,
        method_name="backdoor.linear_regression",
        control_value=0,
        treatment_value=1,
        confidence_intervals=True,
    )
    low, high = np.ravel(estimate.get_confidence_intervals())
    return estimate.value * (treatments - base), (high - low) / 3.92 * np.abs(treatments - base)


def by_econml(featurizer):
    def estimate(x, z, t, treatments, base):
        from econml.dml import LinearDML

        forest = lambda: RandomForestRegressor(100, min_samples_leaf=5, random_state=0)
        model = LinearDML(
            model_y=forest(), model_t=forest(), treatment_featurizer=featurizer, cv=3, random_state=0
        )
        model.fit(t, x[:, None], W=z[:, None])
        contrast = lambda value: {"T0": np.array([[base]]), "T1": np.array([[value]])}
        mean = [np.ravel(model.effect(**contrast(value)))[0] for value in treatments]
        ends = [np.ravel(model.effect_interval(**contrast(value), alpha=0.05)) for value in treatments]
        return np.array(mean), np.array([(high - low) / 3.92 for low, high in ends])

    return estimate


PACKAGES = {
    "DoWhy, linear": ("dowhy", by_dowhy),
    "EconML, linear": ("econml", by_econml(None)),
    "EconML, degree 3": ("econml", by_econml(PolynomialFeatures(3, include_bias=False))),
    "EconML, degree 8": ("econml", by_econml(PolynomialFeatures(8, include_bias=False))),
    "EconML, spline": ("econml", by_econml(SplineTransformer(n_knots=10, include_bias=False))),
}


def joint(options, axes):
    rivals = {
        name: method
        for name, (module, method) in PACKAGES.items()
        if importlib.util.find_spec(module) is not None
    }
    treatments, base, text = np.linspace(-1, 3, 41), 1.0, ""
    for axis, (world, of_x) in zip(axes, {"narrow": 0.5, "narrow, X with noise 1.5": 1.5}.items()):
        contrasts, levels, seconds, supported = {}, {}, {}, []
        for seed in range(options.seeds):
            rng = np.random.default_rng(FIRST_SEED + seed)
            studies, design, truth = DESIGNS["narrow"][0](rng, 500, 250, of_x=of_x)
            x, z, y = (studies[0][name] for name in "xzy")
            t = simple_outcome(y) + 0.5 * rng.normal(size=500)
            effect, contrast = truth(treatments), truth(treatments) - truth(np.array([base]))
            before = time.process_time()
            fusion = riesz.CausalFusion(
                treatment="x",
                outcome="t",
                n_hyperparameter_samples=options.draws,
                random_state=seed,
                **design,
            )
            fusion.fit([pd.DataFrame(studies[0]).head(250), pd.DataFrame(studies[1])])
            effects, less = fusion.effect(treatments), fusion.effect(treatments, baseline=base)
            seconds.setdefault("riesz", []).append(time.process_time() - before)
            contrasts.setdefault("riesz", []).append((less.mean - contrast, less.std))
            levels.setdefault("riesz", []).append((effects.mean - effect, effects.std))
            supported.append(effects.support)
            if seed == 0:
                axis.plot(treatments, contrast, "k--", linewidth=0.9, label="truth")
                axis.plot(treatments, less.mean, color=COLOURS[0], label="riesz, 95 % band")
                axis.fill_between(treatments, *less.interval(), color=COLOURS[0], alpha=0.25)
                axis.set_title(f"{world}: effect less that of 1", fontsize=9)
            for colour, (name, method) in zip(COLOURS[1:], rivals.items()):
                before = time.process_time()
                places = np.quantile(x, (np.arange(100) + 0.5) / 100)
                mean, sd = method(x, z, t, np.concatenate([treatments, places]), base)
                seconds.setdefault(name, []).append(time.process_time() - before)
                contrasts.setdefault(name, []).append((mean[:41] - contrast, sd[:41]))
                # With the packages' assumption that the treatment effect is the same for all, this is the
                # effect itself.
                levels.setdefault(name, []).append(
                    (t.mean() + mean[:41] - mean[41:].mean() - effect, sd[:41])
                )
                if seed == 0:
                    axis.plot(treatments, mean[:41], color=colour, linewidth=0.9, label=name)
        axis.legend(fontsize=6)
        lines, effects = summed(contrasts), summed(levels)
        rows = [
            [
                name,
                *cells_of(line),
                cells_of(effects[name])[0],
                cells_of(effects[name])[1] if name == "riesz" else "",
                f"{np.mean(seconds[name]):.1f}",
            ]
            for name, line in lines.items()
        ]
        kept = np.array(supported)
        errors, sd = (np.array([run[k] for run in levels["riesz"]])[kept] for k in (0, 1))
        best_rival = min([np.inf, *(lines[name][0] for name in rivals)])
        criteria = (
            f"\n\nerror of riesz: {criterion_text(lines['riesz'][0], high=float(round(best_rival, 3)))}; "
            f"coverage: {criterion_text(lines['riesz'][2], low=0.9)}"
        )
        criteria += (
            f"; {kept.mean():.0%} of its effects have support, and of these the error is "
            f"{np.sqrt(np.mean(errors**2)):.2f}, and intervals hold "
            f"{np.mean(np.abs(errors) < 1.96 * sd):.2f}"
        )
        header = ["method", "RMSE of differences", "95 %", "mean sd", "RMSE of effects", "95 %", "seconds"]
        text += (
            f"\n\n{world}: 500 joint rows against 250 and 250 unlinked ones, {options.seeds} data sets\n\n"
            + table(header, rows)
            + criteria
        )
    return text


def sample(rng, n):
    """The harder graph with noise 1, as in the competitor's code."""
    e = lambda: rng.normal(size=n)
    u1, u2, f = e(), e(), e()
    a, b = f**2 + u1 + e(), u2 + e()
    c = np.exp(-b) + e()
    d, shown = np.exp(-c) / 10 + e(), np.cos(a) + c / 10 + e()
    return pd.DataFrame({"b": b, "c": c, "d": d, "y": np.cos(d) + np.sin(shown) + u1 + u2 * e()})


def of_d(grid):
    """E[Y | do(D), B = 0], and draws of C given B = 0."""
    e = np.random.default_rng(0).normal(size=(5, 1_000_000))
    c = 1 + e[0]
    return np.cos(grid) + np.sin(np.cos(e[1] ** 2 + e[2] + e[3]) + c / 10 + e[4]).mean(), c


def of_b(grid):
    """E[Y | do(B)]."""
    e = np.random.default_rng(0).normal(size=(6, 100_000))
    a = np.cos(e[1] ** 2 + e[2] + e[3])
    outcome = lambda c: np.cos(np.exp(-c) / 10 + e[4]).mean() + np.sin(a + c / 10 + e[5]).mean()
    return np.array([outcome(np.exp(-b) + e[0]) for b in grid])


def by_regression(data, grid, c):
    kernel = ConstantKernel(1) * RBF([1.0, 1.0], (1e-1, 1e3)) + WhiteKernel(1.0)
    inputs, scale = data[["c", "d"]].to_numpy(), data.y.std()
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0)
    model.fit(inputs, (data.y - data.y.mean()) / scale)
    fixed = np.quantile(c, (np.arange(20) + 0.5) / 20)
    mean, cov = model.predict(
        np.column_stack([np.tile(fixed, len(grid)), np.repeat(grid, 20)]), return_cov=True
    )
    cov = cov.reshape(len(grid), 20, len(grid), 20).mean(
        axis=(1, 3)
    ) - model.kernel_.k2.noise_level / 20 * np.eye(len(grid))
    return data.y.mean() + scale * mean.reshape(-1, 20).mean(axis=1), scale * np.sqrt(
        np.maximum(np.diag(cov), 0)
    )


#: Root mean squared errors and coverage of 95 % intervals of others, by task.
PUBLISHED = {
    "E[Y | do(D), B = 0], 100 rows": [
        ("BayesIMP, stored runs", 0.36, 0.83),
        ("Dance and Bloem-Reddy, stored runs", 0.39, 0.92),
    ],
    "E[Y | do(B)], 500 rows": [
        ("BayesIMP, stored runs", 0.12, 0.94),
        ("Dance and Bloem-Reddy, stored runs", 0.16, 0.95),
    ],
}


def riesz_effects(data, grid, draws, seed, hundred):
    """The effects by riesz for one data set: of D given B = 0 for ``hundred`` rows, otherwise of B."""
    fusion = lambda **design: riesz.CausalFusion(
        outcome="t", n_hyperparameter_samples=draws, random_state=seed, **design
    )
    again = pd.DataFrame({"y": data.y, "t": data.y})
    if hundred:
        door = fusion(treatment="d", adjust=["b", "c"]).fit([data, again]).effect(grid, conditions={"b": 0.0})
        first = data[["b", "d", "c"]].assign(d_of_both=data.d)
        second = pd.DataFrame({"c": data.c, "d_of_both": data.d, "t": data.y})
        linked = fusion(treatment=["b", "d"], randomized=True).fit([first, second])
        return {
            "riesz, by the back door": door,
            "riesz, (B, D) to (C, D) to Y": linked.effect({"b": 0 * grid, "d": grid}),
        }
    return {"riesz, by the front door": fusion(treatment="b", front_door="c").fit([data, again]).effect(grid)}


def rival(options, axes):
    grid = np.linspace(-4, 4, 101)
    inside = np.abs(grid) <= 2.5
    text = ""
    for axis, (task, theirs) in zip(axes[2:], PUBLISHED.items()):
        hundred = task.endswith("100 rows")
        truth, c = of_d(grid) if hundred else (of_b(grid), None)
        seeds = options.seeds if hundred else options.large
        results, supported, before = {}, {}, time.process_time()
        for seed in range(seeds):
            data = sample(np.random.default_rng(FIRST_SEED + 1000 + seed), 100 if hundred else 500)
            effects = riesz_effects(data, grid, options.draws, seed, hundred)
            ways = {
                "the mean of the sample": (
                    np.full(len(grid), data.y.mean()),
                    np.full(len(grid), data.y.std() / np.sqrt(len(data))),
                )
            }
            if hundred:
                ways["regression, C as it truly is"] = by_regression(data, grid, c)
            for name, effect in effects.items():
                ways[name] = effect.mean, effect.std
                supported.setdefault(name, []).append(
                    [effect.support[inside].mean(), effect.support[~inside].mean()]
                )
            for name, (mean, sd) in ways.items():
                results.setdefault(name, []).append((mean - truth, sd))
            if seed == 0:
                axis.plot(grid, truth, "k--", linewidth=0.9, label="truth")
                for colour, (name, effect) in zip(COLOURS, effects.items()):
                    axis.plot(grid, effect.mean, color=colour, label=name)
                    axis.fill_between(grid, *effect.interval(), color=colour, alpha=0.2)
                axis.set_title(task, fontsize=9)
                axis.legend(fontsize=7)
        seconds = (time.process_time() - before) / seeds
        near = summed(
            {name: [(errors[inside], sd[inside]) for errors, sd in runs] for name, runs in results.items()}
        )
        far, smallest_error = summed(results), min(error for _, error, _ in theirs)
        rows = [
            [name, f"{error:.2f}", f"{coverage:.2f}", "", "", "", "", "", ""]
            for name, error, coverage in theirs
        ]
        for name, line in near.items():
            shares = np.mean(supported[name], axis=0) if name in supported else None
            share_cells = ["", ""] if shares is None else [f"{share:.2f}" for share in shares]
            criteria = (
                ""
                if shares is None
                else f"{criterion_text(line[2], low=0.9)}; {criterion_text(line[0], high=round(1.1 * smallest_error, 3))}; {criterion_text(float(shares[1]), high=0)}"
            )
            rows.append([name, *cells_of(line), *cells_of(far[name])[:2], *share_cells, criteria])
        header = [
            "method",
            "RMSE within 2.5",
            "95 %",
            "mean sd",
            "RMSE within 4",
            "95 %",
            "supported within 2.5",
            "beyond",
            "criterion (95 %; RMSE; supported)",
        ]
        text += f"\n\n{task}, {seeds} data sets, {seconds:.0f} s each\n\n" + table(header, rows)
    return text


PARTS = {"joint": joint, "rival": rival}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="data sets, by default 20, in full 50")
    parser.add_argument("--large", type=int, help="of 500 rows, by default 2, in full 10")
    parser.add_argument("--draws", type=int, default=16, help="of kernels, noises and ridges; 0 for the best")
    options = arguments(__doc__, (chosen(PARTS), parser))
    options.seeds = options.seeds or (50 if options.full else 20)
    options.large = options.large or (10 if options.full else 2)
    warnings.simplefilter("ignore")
    run(
        PARTS,
        options,
        "causal_packages",
        4,
        f"Causal data fusion beside other packages, {options.draws} draws of hyper-parameters",
    )
