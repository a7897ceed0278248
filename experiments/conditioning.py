"""Coverage of intervals for observational Shapley values whose conditional distributions are estimated.

    python experiments/conditioning.py [--full]

A model f is fixed. Its observational values depend on E[f(X) | X_S], which is estimated from n reference
rows. Each repetition draws new reference rows, computes 95 % intervals with `conditional_uncertainty=True`,
and compares them with values from draws of the true conditional distributions. Designs: a banana, a Gaussian
copula with skewed marginals, and a mixture of three normal distributions. The question is from chapter 8 of
Chau (2023), which has no method and no numbers.

Rows with few similar reference rows (`unexplained_share` above 0.3), about which riesz warns, are
counted apart. Typical rows are drawn from the design. Extreme rows are the most distant ones of 3,000 draws,
and rows 1.3 times as far."""

import warnings
from itertools import combinations
from math import factorial

import numpy as np
from _figures import COLOURS, arguments, finish, panels, table
from scipy.stats import norm

import riesz
from riesz.kernels import RBF

CORRELATION = np.array([[1, 0.7, 0.3, 0], [0.7, 1, 0.5, 0.2], [0.3, 0.5, 1, 0.6], [0, 0.2, 0.6, 1]])
MEANS = np.array([[-1.5, -1, 0], [1.5, 1, 0.5], [1, -1.5, -1]])
SHARES, COVARIANCE = np.array([0.4, 0.35, 0.25]), 0.4 * np.eye(3) + 0.2


class Banana:
    """Two columns: x_1 is normal, and x_2 a parabola of it plus noise."""

    columns, grid = 2, np.linspace(-12, 12, 8001)

    def sample(self, rng, n):
        first = 2 * rng.normal(size=n)
        return np.column_stack([first, first**2 / 4 - 1 + rng.normal(size=n)])

    def conditional(self, rng, x, present, n):
        rows = np.tile(x, (n, 1))
        if present == (0,):
            rows[:, 1] = x[0] ** 2 / 4 - 1 + rng.normal(size=n)
        else:
            log_density = -(self.grid**2) / 8 - (x[1] - self.grid**2 / 4 + 1) ** 2 / 2
            density = np.exp(log_density - log_density.max())
            rows[:, 0] = rng.choice(self.grid, size=n, p=density / density.sum())
        return rows


class Copula:
    """Four columns with a Gaussian copula; two marginals are exponential of normal, so they are skewed."""

    columns, skewed = 4, [1, 3]

    def _marginals(self, scores):
        rows = scores.copy()
        rows[:, self.skewed] = (np.exp(0.6 * scores[:, self.skewed]) - 1) / 0.6
        return rows

    def sample(self, rng, n):
        return self._marginals(rng.multivariate_normal(np.zeros(4), CORRELATION, n))

    def conditional(self, rng, x, present, n):
        scores = x.copy()
        scores[self.skewed] = np.log1p(0.6 * x[self.skewed]) / 0.6
        return self._marginals(_normal_given(rng, scores, present, n, np.zeros(4), CORRELATION))


class Mixture:
    """Three columns, a mixture of three normal distributions."""

    columns = 3

    def sample(self, rng, n):
        part = rng.choice(3, size=n, p=SHARES)
        return MEANS[part] + rng.multivariate_normal(np.zeros(3), COVARIANCE, n)

    def conditional(self, rng, x, present, n):
        known = list(present)
        inverse = np.linalg.inv(COVARIANCE[np.ix_(known, known)])
        distances = x[known] - MEANS[:, known]
        likelihood = SHARES * np.exp(-np.einsum("ki,ij,kj->k", distances, inverse, distances) / 2)
        counts = rng.multinomial(n, likelihood / likelihood.sum())
        return np.vstack(
            [_normal_given(rng, x, present, k, mean, COVARIANCE) for k, mean in zip(counts, MEANS)]
        )


def _normal_given(rng, x, present, n, mean, covariance):
    """Draws rows of a normal distribution given the present columns of x."""
    known = list(present)
    absent = [j for j in range(len(x)) if j not in known]
    gain = covariance[np.ix_(absent, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
    residual = covariance[np.ix_(absent, absent)] - gain @ covariance[np.ix_(known, absent)]
    rows = np.tile(x, (n, 1)).astype(float)
    centre = mean[absent] + gain @ (x[known] - mean[known])
    rows[:, absent] = rng.multivariate_normal(centre, residual, n)
    return rows


def true_values(design, predict, x, rng, draws):
    """Returns observational Shapley values by the definition, from draws of the true distributions."""
    d = design.columns
    mean = predict(design.sample(rng, 4 * draws)).mean()
    value = {(): mean, tuple(range(d)): float(predict(x[None])[0])}
    for size in range(1, d):
        for present in combinations(range(d), size):
            value[present] = predict(design.conditional(rng, x, present, draws)).mean()
    weight = [factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)]
    return np.array(
        [
            sum(weight[len(s)] * (value[tuple(sorted({*s, j}))] - v) for s, v in value.items() if j not in s)
            for j in range(d)
        ]
    )


def rows_of(design, rng):
    """Returns eight typical rows, and eight extreme ones."""
    draws = design.sample(rng, 3000)
    distances = np.linalg.norm((draws - draws.mean(axis=0)) / draws.std(axis=0), axis=1)
    farthest = draws[np.argsort(distances)[-5:]]
    return np.vstack([draws[:8], farthest, 1.3 * farthest[-3:]])


def main():
    options = arguments(__doc__)
    repetitions, draws = (200, 40_000) if options.full else (40, 20_000)
    warnings.filterwarnings("ignore", "the intervals of")
    figure, axes = panels(3)
    rows = []
    designs = {"banana": Banana(), "copula": Copula(), "mixture": Mixture()}
    for axis, (name, design) in zip(axes, designs.items()):
        rng = np.random.default_rng(0)
        X = design.sample(rng, 150)
        target = np.sin(X[:, 0]) + 0.5 * X[:, 0] * X[:, 1] + 0.4 * X[:, -1] ** 2
        kernel = RBF(np.full(design.columns, 1.5))
        model = riesz.KernelRidge(alpha=1e-2, kernel=kernel).fit(X, target + 0.1 * rng.normal(size=150))
        x = rows_of(design, rng)
        truth = np.array([true_values(design, model.predict, row, rng, draws) for row in x])
        for n, colour in zip((50, 200, 800), COLOURS):
            scores, supported = [], []
            for _ in range(repetitions if n < 800 else repetitions // 2):
                game = riesz.Observational(design.sample(rng, n), conditional_uncertainty=True)
                explanation = riesz.Explainer(model, game=game)(x)
                scores.append((explanation.values - truth) / explanation.std)
                supported.append(explanation.unexplained_share <= 0.3)
            scores, supported = np.array(scores), np.array(supported)
            covered = np.abs(scores) < norm.ppf(0.975)
            typical = np.zeros_like(supported)
            typical[:, :8] = True
            unwarned = scores[supported]
            rows.append(
                [name, n, float(covered[:, :8].mean()), float(covered[supported].mean())]
                + [float((unwarned**2).mean()), f"{1 - supported[typical].mean():.2f}"]
                + [f"{1 - supported[~typical].mean():.2f}", float(covered[~supported].mean())]
            )
            axis.hist(unwarned.ravel(), np.linspace(-4, 4, 41), density=True, histtype="step", color=colour)
            axis.plot([], [], color=colour, label=f"{n} reference rows")
        grid = np.linspace(-4, 4, 200)
        axis.plot(grid, norm.pdf(grid), color="black", linewidth=0.8, label="standard normal")
        axis.set_title(f"{name}, rows without a warning", fontsize=10)
        axis.set_xlabel("error / stated standard deviation")
        axis.set_yticks([])
    axes[0].legend(fontsize=8)
    text = f"Coverage of 95 % intervals, {repetitions} repetitions (half as many for 800 reference rows)\n\n"
    columns = ["design", "n", "typical rows", "rows without a warning", "their mean z²"]
    columns += ["typical rows warned about", "extreme rows warned about", "coverage where warned"]
    finish(options, "conditioning", figure, text + table(columns, rows))


if __name__ == "__main__":
    main()
