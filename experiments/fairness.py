"""Fair learning: interventional against observational Shapley regularisation (figure 3 of Chau et al. 2022).

    python experiments/fairness.py [--full]

Five normal features, X4 and X5 correlated by 0.9, y = X (1, 2, 3, 4, 15) + noise. X5 is the protected
feature; X4 is its proxy. Models are regularised with interventional or observational values of X5, and
explained with the observational game.

Published shape (figure 3): the values of X5 shrink under both penalties; those of the proxy X4 shrink under
the observational penalty and not under the interventional one."""

import numpy as np
from _figures import COLOURS, arguments, finish, panels, table
from scipy.stats import gaussian_kde

import riesz
from riesz.kernels import RBF

# The authors' code has no factor 1/n in the penalty, so their λ is a strength of λ n here.
STRENGTHS = {"interventional": [0.0, 1.0, 1.5, 5.0, 20.0], "observational": [0.0, 2.0, 5.0, 10.0, 20.0]}
ETA = 1e-3


def main():
    options = arguments(__doc__)
    n = 1000 if options.full else 400
    rng = np.random.default_rng(0)
    covariance = np.eye(5)
    covariance[3, 4] = covariance[4, 3] = 0.9
    X = rng.multivariate_normal(np.zeros(5), covariance, n)
    y = X @ [1.0, 2.0, 3.0, 4.0, 15.0] + 0.1 * rng.normal(size=n)
    scale = [np.median(np.abs(x[:, None] - x[None])[np.triu_indices(n, 1)]) for x in X.T]
    figure, axes = panels(4)
    rows = []
    for g, (game, strengths) in enumerate(STRENGTHS.items()):
        model = riesz.KernelRidge(
            1e-2,
            kernel=RBF(np.array(scale)),
            fit_intercept=True,
            protect=[4],
            protect_game=riesz.Observational(X, conditional_ridge=ETA)
            if game == "observational"
            else riesz.Interventional(X[:100]),
        )
        path = riesz.protection_path(model, X, y, [s * n for s in strengths])
        for s, fitted in enumerate(path.estimators):
            explanation = riesz.Explainer(fitted, X, game=riesz.Observational(conditional_ridge=ETA))(X[:200])
            values = explanation.values
            error = np.sqrt(np.mean((fitted.predict(X) - y) ** 2))
            sizes = np.abs(values).mean(axis=0)
            rows.append([game, f"{strengths[s]:g}", float(error), float(sizes[3]), float(sizes[4])])
            for axis, j in zip(axes[2 * g : 2 * g + 2], (3, 4)):
                grid = np.linspace(-30, 30, 400)
                deviation = values[:, j].std()
                density = gaussian_kde(values[:, j])(grid) if deviation > 1e-3 else np.zeros_like(grid)
                axis.plot(grid, density, color=COLOURS[s % len(COLOURS)], label=f"λ = {strengths[s]:g}")
                axis.set_title(f"{game} penalty: φ of X{j + 1}", fontsize=10)
                axis.set_xlabel("observational Shapley value")
                axis.set_yticks([])
    axes[0].legend(fontsize=8)
    axes[2].legend(fontsize=8)
    text = f"Mean absolute observational Shapley values under a penalty on X5, n = {n}\n\n"
    text += table(["penalty", "λ", "error", "X4", "X5"], rows)
    finish(options, "fairness", figure, text)


if __name__ == "__main__":
    main()
