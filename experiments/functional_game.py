"""Exact and sampled Shapley values of the functional game (Mohammadi, Muandet, Tiddi, Teije and Chau 2025,
PKeX-Shapley: figures 1, 2, 4).

    python experiments/functional_game.py [error|time ...] [--full]

error, figure 2: the values of a support vector machine with a Gaussian kernel, for 1,000 rows of d
independent normal features, whose target is linear with noise of 0.1. They are estimated by KernelSHAP's
regression on pairs of a random coalition and its complement, and compared with the exact values of riesz.
Coalitions are valued by a plain formula, v(S) = Σ_i α_i Π_{j∈S} k_j(x_j, x_ij). The error is the mean over
features of |φ_j - φ̂_j| / |φ_j|. The kernel's γ is chosen by cross-validation, or 0.1.

time, figures 1 and 4: the time for the values of one row from all coalitions, from 1,000 sampled ones, and
exactly by riesz, for 1,000 support points with random coefficients. All coalitions are taken up to 14
features, 20 with --full.

Published: in figure 2 the error is 0.005 for 10 features and 200 coalitions; for 50 features it is above 9
for 200 coalitions, above 1 for 10⁴, and about 0.05 for 10⁵. In figure 1 all coalitions are infeasible above
30 features, and exact values take less than 100 s for 500."""

import time

import numpy as np
from _figures import COLOURS, arguments, chosen, criterion_text, run, table

import riesz
from riesz.kernels import RBF

POINTS = 1000


def coalition_values(masks, factors, coef):
    """The values of coalitions, masks × features, from the logarithms of the kernel's factors, points ×
    features."""
    parts = np.array_split(masks.astype(float), max(1, len(masks) // 2000))
    return np.concatenate([np.exp(part @ factors.T) @ coef for part in parts])


def sampled_coalitions(rng, d, count):
    """Pairs of a coalition, drawn by the weights of KernelSHAP, and its complement."""
    sizes = np.arange(1, d)
    weights = 1 / (sizes * (d - sizes))
    sizes = rng.choice(sizes, count // 2, p=weights / weights.sum())
    masks = rng.random((count // 2, d)).argsort(axis=1).argsort(axis=1) < sizes[:, None]
    return np.concatenate([masks, ~masks])


def regression(masks, values, nothing, everything):
    """Shapley values by least squares, with the sum of ``everything - nothing``."""
    final = masks[:, -1].astype(float)
    differences = masks[:, :-1] - final[:, None]
    phi = np.linalg.lstsq(differences, values - nothing - final * (everything - nothing), rcond=None)[0]
    return np.append(phi, everything - nothing - phi.sum())


def relative_errors(model, X, budgets, rng):
    """The errors of sampled values for each number of coalitions, means over rows."""
    exact = riesz.Explainer(model, game="functional")(X).values
    points, coef = model.expansion_.points, np.ravel(model.expansion_.coef)
    errors = np.zeros((len(X), len(budgets)))
    for i, (x, phi) in enumerate(zip(X, exact)):
        factors = -0.5 * ((points - x) / np.array(model.kernel_.length_scale)) ** 2
        everything, nothing = np.exp(factors.sum(axis=1)) @ coef, coef.sum()
        for k, budget in enumerate(budgets):
            masks = sampled_coalitions(rng, X.shape[1], budget)
            values = coalition_values(masks, factors, coef)
            errors[i, k] = np.mean(np.abs(regression(masks, values, nothing, everything) / phi - 1))
    return errors.mean(axis=0)


def error(options, axes):
    budgets = [200, 1000, 10_000, *([100_000] if options.full else [])]
    instances = 100 if options.full else 5
    rows = []
    for d, color in zip((10, 20, 30, 50), COLOURS):
        rng = np.random.default_rng(d)
        X = rng.normal(size=(POINTS, d))
        y = X @ rng.normal(size=d) + 0.1 * rng.normal(size=POINTS)
        for gamma, style in (("chosen", "-"), (0.1, "--")):
            settings = {"C": "auto"} if gamma == "chosen" else {"C": 10.0, "gamma": gamma}
            errors = relative_errors(riesz.SVR(**settings).fit(X, y), X[:instances], budgets, rng)
            label = f"{d} features" if gamma == "chosen" else None
            axes[0].loglog(budgets, errors, style, marker="o", ms=4, color=color, label=label)
            rows.append([d, gamma, *map(float, errors)])
    axes[0].set(xlabel="sampled coalitions", ylabel="relative error; dashed: γ = 0.1", ylim=(None, 500))
    axes[0].legend(fontsize=8, ncols=2, loc="upper right")
    text = f"Relative error of sampled values, mean of {instances} rows, by the number of coalitions\n\n"
    return text + table(["features", "γ", *map(str, budgets)], rows) + "\n"


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def timing(options, axes):
    largest = 20 if options.full else 14
    lines = {"all coalitions": {}, "1,000 coalitions": {}, "riesz, exact": {}}
    rng = np.random.default_rng(0)
    for d in (2, 5, 8, 11, 14, 17, 20, 30, 50, 100, 200, 500):
        X, coef = rng.normal(size=(POINTS, d)), rng.normal(size=POINTS)
        x = rng.normal(size=(1, d))
        factors = -((X - x) ** 2) / (2 * d)
        if d <= largest:
            masks = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
            lines["all coalitions"][d] = seconds(coalition_values, masks, factors, coef)

        def sampled(d=d, factors=factors, coef=coef):
            masks = sampled_coalitions(rng, d, 1000)
            regression(masks, coalition_values(masks, factors, coef), coef.sum(), 0.0)

        lines["1,000 coalitions"][d] = seconds(sampled)
        model = riesz.Expansion(RBF([d**0.5] * d), points=X, coef=coef)
        explainer = riesz.Explainer(model, game="functional")
        explainer(x)
        lines["riesz, exact"][d] = seconds(explainer, x)
    for color, (name, line) in zip(COLOURS, lines.items()):
        axes[1].loglog(list(line), list(line.values()), marker="o", ms=4, color=color, label=name)
    axes[1].set(xlabel="features", ylabel="seconds for one row")
    axes[1].legend(fontsize=8)
    cell = lambda line, d: f"{line[d]:.1e}" if d in line else ""
    rows = [[d, *[cell(line, d) for line in lines.values()]] for d in lines["riesz, exact"]]
    limit = criterion_text(lines["riesz, exact"][500], high=100)
    return f"\nSeconds for one row; exact values of 500 features: {limit}\n\n" + table(
        ["features", *lines], rows
    )


PARTS = {"error": error, "time": timing}


def main():
    options = arguments(__doc__, (chosen(PARTS),))
    run(PARTS, options, "functional_game", 2, "")


if __name__ == "__main__":
    main()
