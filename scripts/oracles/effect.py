#!/usr/bin/env python3
"""Counts how often the bands of effects from one table contain the truth, and compares the estimates with
DoWhy and EconML.

    maturin develop --release && pip install dowhy econml
    scripts/oracles/effect.py [SEED [REPETITIONS]]

Samples are drawn from designs with known effects: linear-Gaussian back door, front door and two treatments in
time (closed forms), a population with other covariates, and nonlinear back door and treatments in time
(effects from 200,000 simulated people).

Prints for each design the coverage of contrasts by nominal intervals, with a standard error over repetitions,
the width of the intervals and the errors of the estimates. Then prints, on one sample, contrasts by DoWhy
(linear regressions) and EconML (LinearDML). Fails if coverage at 95 % is below 88 % by more than three
standard errors, or if an estimate differs from theirs by more than four joint standard deviations."""

import math
import os
import sys
import warnings

import numpy as np
import pandas as pd

import riesz

LEVELS = {0.5: 0.674490, 0.8: 1.281552, 0.95: 1.959964}
PEOPLE = 200_000


class BackDoor:
    """y = 1.5 x - 2 z + noise, with x = z + noise."""

    name, n, graph, treatment = "linear back door", 100, "z -> x; z -> y; x -> y", ["x"]
    settings, baseline = {"x": [-1.0, 0.5, 1.0]}, {"x": 0.0}
    truth = [-1.5, 0.75, 1.5]

    def sample(self, rng, n):
        z = rng.normal(size=n)
        x = z + rng.normal(size=n)
        return {"z": z, "x": x, "y": 1.5 * x - 2 * z + rng.normal(size=n)}


class FrontDoor:
    """m = 0.8 x + noise, y = 1.5 m + u + noise, where u moves x."""

    name, n, graph, treatment = "linear front door", 100, "x -> m -> y; x <-> y", ["x"]
    settings, baseline = {"x": [-1.0, 0.5, 1.0]}, {"x": 0.0}
    truth = [-1.2, 0.6, 1.2]

    def sample(self, rng, n):
        u = rng.normal(size=n)
        x = u + rng.normal(size=n)
        m = 0.8 * x + 0.7 * rng.normal(size=n)
        return {"x": x, "m": m, "y": 1.5 * m + u + 0.5 * rng.normal(size=n)}


TIME = "l0 -> a0; l0 -> l1; l0 -> y; a0 -> l1; l1 -> a1; a0 -> y; l1 -> y; a1 -> y"


class InTime:
    """Linear, with time-varying confounding: E[y | do(a0, a1)] = 2.05 a0 + 2 a1."""

    name, n, graph, treatment = "linear, in time", 100, TIME, ["a0", "a1"]
    settings, baseline = {"a0": [1.0, 0.0, 1.0], "a1": [0.0, 1.0, 1.0]}, {"a0": 0.0, "a1": 0.0}
    truth = [2.05, 2.0, 4.05]

    def sample(self, rng, n):
        l0 = rng.normal(size=n)
        a0 = 0.6 * l0 + rng.normal(size=n)
        l1 = 0.7 * a0 + l0 + 0.7 * rng.normal(size=n)
        a1 = 0.5 * l1 + rng.normal(size=n)
        return {
            "l0": l0,
            "a0": a0,
            "l1": l1,
            "a1": a1,
            "y": a0 + 2 * a1 + 1.5 * l1 + 0.5 * l0 + 0.5 * rng.normal(size=n),
        }


class Curved:
    """y = sin(1.5 x) + cos(z) x / 2 - z² / 2 + noise."""

    name, n, graph, treatment = "nonlinear back door", 150, "z -> x; z -> y; x -> y", ["x"]
    settings, baseline = {"x": [-1.0, 0.5, 1.5]}, {"x": 0.0}

    def sample(self, rng, n, x=None):
        z = rng.normal(size=n)
        x = 0.8 * z + rng.normal(size=n) if x is None else np.full(n, x)
        return {
            "z": z,
            "x": x,
            "y": np.sin(1.5 * x) + 0.5 * np.cos(z) * x - 0.5 * z**2 + 0.4 * rng.normal(size=n),
        }


class CurvedInTime:
    """Treatments in time that act through tanh, and through a product with the covariate that they change."""

    name, n, graph, treatment = "nonlinear, in time", 150, TIME, ["a0", "a1"]
    settings, baseline = {"a0": [1.0, 0.0, 1.0], "a1": [0.0, 1.0, 1.0]}, {"a0": 0.0, "a1": 0.0}

    def sample(self, rng, n, a0=None, a1=None):
        l0 = rng.normal(size=n)
        a0 = 0.6 * l0 + rng.normal(size=n) if a0 is None else np.full(n, a0)
        l1 = np.tanh(a0) + 0.7 * l0 + 0.5 * rng.normal(size=n)
        a1 = 0.5 * l1 + rng.normal(size=n) if a1 is None else np.full(n, a1)
        y = np.sin(a1) + 0.5 * a1 * l1 + np.tanh(l1) + 0.5 * a0 + 0.3 * l0 + 0.4 * rng.normal(size=n)
        return {"l0": l0, "a0": a0, "l1": l1, "a1": a1, "y": y}


def truth_of(design):
    """The true contrasts, by simulation of the interventions."""
    if hasattr(design, "truth"):
        return np.array(design.truth)
    mean_outcome = lambda **treatments: design.sample(np.random.default_rng(1), PEOPLE, **treatments)[
        "y"
    ].mean()
    base = mean_outcome(**design.baseline)
    rows = zip(*design.settings.values())
    return np.array([mean_outcome(**dict(zip(design.settings, row))) - base for row in rows])


def fitted(design, data, seed=0):
    model = riesz.CausalEffect(design.graph, treatment=design.treatment, outcome="y", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(pd.DataFrame(data))


def coverage(design, seed, repetitions):
    truth, errors, sds = truth_of(design), [], []
    for k in range(repetitions):
        data = design.sample(np.random.default_rng([seed, k]), design.n)
        effect = fitted(design, data, k).effect(pd.DataFrame(design.settings), baseline=design.baseline)
        errors.append(effect.mean - truth)
        sds.append(effect.std)
    errors, sds = np.array(errors), np.array(sds)
    shares = {}
    for level, reach in LEVELS.items():
        covered = (np.abs(errors) <= reach * sds).mean(axis=1)
        shares[level] = covered.mean(), covered.std(ddof=1) / math.sqrt(repetitions)
    words = ", ".join(f"{level:.0%}: {share:.3f} ± {se:.3f}" for level, (share, se) in shares.items())
    rmse = math.sqrt((errors**2).mean())
    print(f"{design.name:22} n = {design.n}: {words}; mean sd {sds.mean():.3f}, RMSE {rmse:.3f}", flush=True)
    share, se = shares[0.95]
    return share + 3 * max(se, 0.01) >= 0.88


def rivals(seed):
    """Compares contrasts of x = 1 and x = 0 with other packages, on one sample of each linear design."""
    # Another script in this folder has the name of a package that numba imports.
    sys.path = [
        place for place in sys.path if os.path.abspath(place) != os.path.dirname(os.path.abspath(__file__))
    ]
    try:
        import dowhy
        from econml.dml import LinearDML
    except ImportError as missing:
        print(f"not compared: {missing}")
        return True
    right = True
    for design, method in (
        (BackDoor(), "backdoor.linear_regression"),
        (FrontDoor(), "frontdoor.two_stage_regression"),
    ):
        data = pd.DataFrame(design.sample(np.random.default_rng([seed, 999]), 400))
        ours = fitted(design, data).effect(1.0, baseline=0.0)
        arrows = [
            arrow.split("->")
            for arrow in (
                "z -> x; z -> y; x -> y" if "z" in data else "x -> m; m -> y; u -> x; u -> y"
            ).split(";")
        ]
        dot = "digraph {" + " ".join(f"{a.strip()} -> {b.strip()};" for a, b in arrows) + "}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = dowhy.CausalModel(data, treatment="x", outcome="y", graph=dot)
            estimand = model.identify_effect(proceed_when_unidentifiable=True)
            other = float(
                model.estimate_effect(estimand, method_name=method, control_value=0, treatment_value=1).value
            )
        estimates = {"DoWhy": other}
        if "z" in data:
            dml = LinearDML(random_state=0).fit(data["y"], data["x"], W=data[["z"]])
            estimates["EconML"] = float(dml.const_marginal_ate())
        for who, other in estimates.items():
            apart = (ours.mean[0] - other) / ours.std[0]
            print(
                f"{design.name:22} riesz {ours.mean[0]:.3f} ± {ours.std[0]:.3f}, {who} {other:.3f}, truth "
                f"{design.truth[-1]}"
            )
            right &= abs(apart) < 4
    return right


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    repetitions = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    designs = [BackDoor(), FrontDoor(), InTime(), Curved(), CurvedInTime()]
    passed = [coverage(design, seed, repetitions) for design in designs]
    passed.append(rivals(seed))
    if not all(passed):
        sys.exit("error: a coverage is too low, or an estimate differs from DoWhy or EconML")


if __name__ == "__main__":
    main()
