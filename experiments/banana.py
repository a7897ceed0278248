"""RKHS-SHAP on the banana distribution: the accuracy of estimated Shapley values whose true values are
known (figure 2a of Chau et al. 2022).

    python experiments/banana.py [--full]

Z ~ N(0, diag(v, 1)), X1 = Z1, X2 = a (Z1² - v) + Z2 with a = 1/b, and f = a (X1² - v) + X2. Interventional
values have a closed form. Observational values follow from e(x2) = E[a (X1² - v) | X2 = x2]. The paper
uses x2 for e(x2), but the true e(x2) is a ratio of parabolic cylinder functions (see the errata page).
Results are shown for both.

Published shape (figure 2a): interventional RKHS-SHAP is as accurate as KernelSHAP at every b.
Observational RKHS-SHAP is more accurate than Gaussian conditional SHAP at every b, and seems to become
less accurate as b grows. Run time: interventional < observational << the samplers."""

import time

import numpy as np
from _figures import COLOURS, arguments, finish, panels, table
from scipy.special import pbdv

import riesz
from riesz.kernels import RBF

V = 10.0


def sample(n, a, rng):
    z = rng.normal(size=(n, 2)) * [np.sqrt(V), 1.0]
    X = np.column_stack([z[:, 0], a * (z[:, 0] ** 2 - V) + z[:, 1]])
    # The authors leave out rows more than two standard deviations above 0.
    X = X[X[:, 1] <= 2 * X[:, 1].std()]
    return X, a * (X[:, 0] ** 2 - V) + X[:, 1]


def conditional(a, x2):
    """E[a (X1² - V) | X2 = x2]."""
    q = 1 / (2 * V * a) - x2 - a * V
    return 0.5 * pbdv(-1.5, q)[0] / pbdv(-0.5, q)[0] - a * V


def truths(a, X):
    u, x2 = a * (X[:, 0] ** 2 - V), X[:, 1]
    observational = lambda e: np.column_stack([(3 * u - e) / 2, x2 + (e - u) / 2])
    return {
        "interventional": np.column_stack([u, x2]),
        "observational": observational(conditional(a, x2)),
        "published": observational(x2),
    }


def r2(estimate, truth):
    return float(1 - ((estimate - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum())


def fitted(X, y):
    scale = [np.median(np.abs(x[:, None] - x[None])[np.triu_indices(len(x), 1)]) for x in X.T]
    return riesz.KernelRidge(1e-3, kernel=RBF(scale)).fit(X, y)


def methods(model, X, model_agnostic, background=1000):
    yield "RKHS interventional", riesz.Explainer(model, X[:background])
    yield "RKHS observational", riesz.Explainer(model, X, game="observational")
    if model_agnostic:
        yield "KernelSHAP", riesz.Explainer(model.predict, X[:100], estimator="kernel_shap")
        gaussian = riesz.Observational(X, conditional="gaussian", n_conditional_samples=100)
        yield "Gaussian SHAP", riesz.Explainer(model.predict, game=gaussian)


def main():
    options = arguments(__doc__)
    n, runs = (3000, 10) if options.full else (1000, 3)
    strengths = [1, 10, 20, 50, 100]
    scores: dict[tuple[str, str], list[list[float]]] = {}
    for b in strengths:
        for run in range(runs):
            X, y = sample(n, 1 / b, np.random.default_rng(run))
            model = fitted(X, y)
            rows = X[:300]
            truth = truths(1 / b, rows)
            for name, explainer in methods(model, X, model_agnostic=True):
                values = explainer(rows).values
                game = "interventional" if name in ("RKHS interventional", "KernelSHAP") else "observational"
                for against in [game] + (["published"] if game == "observational" else []):
                    line = scores.setdefault((name, against), [])
                    if len(line) < strengths.index(b) + 1:
                        line.append([])
                    line[-1].append(r2(values, truth[against]))
    sizes = [100, 300, 1000, 3000] + ([5000] if options.full else [])
    seconds: dict[str, list[float]] = {}
    for size in sizes:
        X, y = sample(size, 1.0, np.random.default_rng(0))
        model = fitted(X, y)
        for name, explainer in methods(model, X, model_agnostic=size <= 1000, background=100):
            start = time.perf_counter()
            explainer(X[:300])
            seconds.setdefault(name, []).append(time.perf_counter() - start)

    figure, axes = panels(3)
    titles = {
        "interventional": "interventional",
        "observational": "observational, true",
        "published": "observational, as published",
    }
    names = list(dict.fromkeys(name for name, _ in scores))
    for axis, against in zip(axes[:2], ["interventional", "observational"]):
        for (name, which), line in scores.items():
            if which == against or (which == "published" and against == "observational"):
                mean, deviation = np.mean(line, axis=1), np.std(line, axis=1)
                style = "--" if which == "published" else "-"
                label = name + (" (published truth)" if which == "published" else "")
                axis.errorbar(
                    strengths,
                    mean,
                    deviation,
                    color=COLOURS[names.index(name)],
                    linestyle=style,
                    marker="o",
                    ms=4,
                    label=label,
                )
        axis.set_xscale("log")
        axis.set_xlabel("b")
        axis.set_ylabel("R²")
        axis.set_ylim(-0.6, 1.05)
        axis.set_title(titles[against], fontsize=10)
        axis.legend(fontsize=7)
    for name, line in seconds.items():
        axes[2].loglog(
            sizes[: len(line)], line, marker="o", ms=4, color=COLOURS[names.index(name)], label=name
        )
    axes[2].set_xlabel("n")
    axes[2].set_ylabel("seconds for 300 rows")
    axes[2].legend(fontsize=7)
    rows = [
        [name, titles[which], *[float(np.mean(x)) for x in line]] for (name, which), line in scores.items()
    ]
    text = f"R² of Shapley values, n = {n}, mean of {runs} runs\n\n"
    text += table(["method", "truth", *[f"b = {b}" for b in strengths]], rows)
    text += "\n\nSeconds for 300 rows, interventional with 100 background rows\n\n"
    text += table(
        ["method", *[f"n = {size}" for size in sizes]],
        [[k, *v, *["–"] * (len(sizes) - len(v))] for k, v in seconds.items()],
    )
    finish(options, "banana", figure, text)


if __name__ == "__main__":
    main()
