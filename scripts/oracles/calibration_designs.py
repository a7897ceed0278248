"""Designs whose truth is known: duels between items, aggregates of maps, and confounded effects.

Each generator takes a seed and returns data with the truth. It needs numpy alone, and nothing of riesz.
Some truths are draws of a Gaussian process with random hyper-parameters. Others are no draws of the models'
priors: rough functions, steps, kinks, cycles, and confounding that cancels an effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def gaussian_kernel(X: np.ndarray, length_scales: np.ndarray, variance: float) -> np.ndarray:
    """The gram matrix of the Gaussian kernel with a length scale per column."""
    scaled = X / np.asarray(length_scales)
    return variance * np.exp(-0.5 * ((scaled[:, None] - scaled[None, :]) ** 2).sum(axis=2))


def drawn(rng: np.random.Generator, covariance: np.ndarray) -> np.ndarray:
    """A draw of a normal distribution with mean 0."""
    jitter = 1e-9 * np.trace(covariance) / len(covariance)
    return np.linalg.cholesky(covariance + jitter * np.eye(len(covariance))) @ rng.normal(
        size=len(covariance)
    )


def _name_seed(name: str) -> int:
    return sum(map(ord, name))


# Duels


@dataclass(frozen=True)
class Duels:
    """Items, of which the first ``n_items`` have duels, the duels, and pairs with their true log odds."""

    X: np.ndarray
    n_items: int
    #: Winner and loser of each duel.
    duels: np.ndarray
    pairs: np.ndarray
    #: Whether both items of a pair have duels.
    is_known: np.ndarray
    #: True log odds of all pairs of items, (items, items).
    log_odds: np.ndarray
    #: Variance and length scales of the utility's kernel, if the utility is drawn from one.
    kernel: tuple[float, np.ndarray] | None

    @property
    def truth(self) -> np.ndarray:
        """True log odds of :attr:`pairs`."""
        return self.log_odds[self.pairs[:, 0], self.pairs[:, 1]]


def _distance(X: np.ndarray) -> np.ndarray:
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))


def _direction(rng: np.random.Generator) -> np.ndarray:
    weights = rng.normal(size=2)
    return weights / np.linalg.norm(weights)


def _smooth_utility(rng, X):
    return 2.5 * np.tanh(X @ _direction(rng)) + 0.5 * X[:, 0] * X[:, 1]


def _rough_utility(rng, X):
    return 1.5 * drawn(rng, np.exp(-_distance(X) / 1.5))


def _step_utility(rng, X):
    limits = rng.uniform(-1, 1, 3)
    sides = [X[:, 0] - limits[0], X[:, 1] - limits[1], X[:, 0] + X[:, 1] - limits[2]]
    return sum(height * np.sign(side) for height, side in zip((1.5, 1.0, 0.7), sides))


def _utility_with_abilities(rng, X):
    return 2 * np.tanh(X @ _direction(rng)) + rng.normal(size=len(X))


_UTILITIES = {
    "smooth": _smooth_utility,
    "rough": _rough_utility,
    "steps": _step_utility,
    "abilities": _utility_with_abilities,
}


def _skew_symmetric_draw(rng, covariance):
    """A draw A - Aᵀ of the generalised kernel, where A has the product of the items' kernel."""
    factor = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(covariance)))
    draw = factor @ np.triu(rng.normal(size=covariance.shape), 1) @ factor.T
    return draw - draw.T


def _true_log_odds(rng, kind, X):
    """The log odds of all pairs, and the kernel of the utility if it is drawn from one."""
    if kind == "cycles":
        angle = np.arctan2(X[:, 1], X[:, 0])
        utility = 0.8 * X[:, 0]
        return utility[:, None] - utility + 2.5 * np.sin(angle[:, None] - angle), None
    if kind in _UTILITIES:
        utility = _UTILITIES[kind](rng, X)
        return utility[:, None] - utility, None
    length_scales = np.exp(rng.uniform(np.log(0.7), np.log(2.5), 2))
    variance = float(np.exp(rng.uniform(0, np.log(9))))
    utility = drawn(rng, gaussian_kernel(X, length_scales, variance))
    log_odds = utility[:, None] - utility
    if kind == "nested prior":
        cyclic_variance = np.exp(rng.uniform(np.log(0.5), np.log(4)))
        cyclic = _skew_symmetric_draw(rng, gaussian_kernel(X, length_scales, 1.0))
        return log_odds + np.sqrt(cyclic_variance) * cyclic, None
    return log_odds, (variance, length_scales)


def duels(kind: str, n_duels: int, seed: int) -> Duels:
    """Duels between 30 items (40 for more than 100 duels), and pairs that include 20 items without duels.

    Kinds: ``prior``, a utility drawn from a Gaussian kernel with random hyper-parameters; ``nested prior``,
    which adds a drawn cyclic part; ``smooth``; ``rough``, an Ornstein-Uhlenbeck draw; ``steps``; ``cycles``,
    rock-paper-scissors on a ring; and ``abilities``, a smooth utility plus abilities that no column shows."""
    rng = np.random.default_rng([seed, n_duels, _name_seed(kind)])
    n_items = 30 if n_duels <= 100 else 40
    n_all = n_items + 20
    X = rng.uniform(-2, 2, size=(n_all, 2))
    log_odds, kernel = _true_log_odds(rng, kind, X)
    duel_items = np.array([rng.choice(n_items, 2, replace=False) for _ in range(n_duels)])
    is_won = rng.random(n_duels) < 1 / (1 + np.exp(-log_odds[duel_items[:, 0], duel_items[:, 1]]))
    known = np.array([rng.choice(n_items, 2, replace=False) for _ in range(150)])
    new = np.array([[rng.integers(n_items, n_all), rng.integers(n_items)] for _ in range(100)])
    return Duels(
        X=X,
        n_items=n_items,
        duels=np.where(is_won[:, None], duel_items, duel_items[:, ::-1]),
        pairs=np.concatenate([known, new]),
        is_known=np.arange(250) < 150,
        log_odds=log_odds,
        kernel=kernel,
    )


# Downscaling


@dataclass(frozen=True)
class Bags:
    """Rows in equal bags, (bags, size, columns), the noisy mean of each bag, and the true map of all rows."""

    X: np.ndarray
    target: np.ndarray
    truth: np.ndarray
    noise: float


_BAG_NOISE = {"smooth map": 0.1, "prior": 0.1, "known map": 0.02, "kinks": 0.05, "rough": 0.05}


def _random_feature_map(rng, x, kind):
    """A draw of a stationary process by random Fourier features."""
    n_features = 1000
    frequencies = rng.normal(size=(x.shape[-1], n_features))
    if kind == "prior":
        frequencies /= np.array([1.0, 1.5, 1.5, 1.0, 5.0])[:, None]
    else:
        # Student's distribution with 3 degrees of freedom is the spectrum of a Matérn kernel of order 3/2.
        frequencies /= np.sqrt(rng.chisquare(3, n_features) / 3)
    phases = rng.uniform(0, 2 * np.pi, n_features)
    weights = np.sqrt(2 / n_features) * rng.normal(size=n_features)
    flat = x.reshape(-1, x.shape[-1])
    values = np.concatenate(
        [np.cos(part @ frequencies + phases) @ weights for part in np.array_split(flat, 8)]
    )
    return values.reshape(x.shape[:-1])


def bags(kind: str, seed: int, n_bags: int = 500, size: int = 40) -> Bags:
    """Means of a map over bags of rows around a random centre.

    Kinds: ``smooth map``, 5 columns, an analytic function; ``known map``, 2 columns with little noise;
    ``prior``, 5 columns, a draw from a Gaussian kernel; ``kinks``, 2 columns; and ``rough``, 2 columns, a
    draw of a Matérn kernel of order 3/2."""
    rng = np.random.default_rng([seed, _name_seed(kind)])
    d = 5 if kind in ("smooth map", "prior") else 2
    centres = rng.normal(size=(n_bags, d))
    x = centres[:, None] + 0.35 * rng.normal(size=(n_bags, size, d))
    if kind == "smooth map":
        truth = np.sin(1.5 * x[..., 0]) + 0.5 * x[..., 1] * x[..., 2] + np.exp(-(x[..., 3] ** 2))
        truth = truth + 0.3 * x[..., 1]
    elif kind == "known map":
        truth = np.sin(1.5 * x[..., 0]) + np.exp(-(x[..., 1] ** 2)) + 0.5 * x[..., 0] * x[..., 1]
    elif kind == "kinks":
        truth = kinked(x)
    else:
        truth = _random_feature_map(rng, x, kind)
    noise = _BAG_NOISE[kind]
    return Bags(x, truth.mean(axis=1) + noise * rng.normal(size=n_bags), truth, noise)


def kinked(x: np.ndarray) -> np.ndarray:
    """A function of two columns with kinks."""
    return np.abs(x[..., 0]) + np.abs(x[..., 1] - 0.3) - 0.5 * np.maximum(x[..., 0], x[..., 1])


# Causal effects


@dataclass(frozen=True)
class Confounded:
    """A table with dose, covariate and outcome, and the true effect on a grid of doses."""

    dose: np.ndarray
    covariate: np.ndarray
    outcome: np.ndarray
    #: Doses at 19 quantiles of the middle 90 %; number 9 is the median.
    grid: np.ndarray
    #: ``E[outcome | do(dose)]`` on the grid.
    level: np.ndarray
    #: Its derivative on the grid.
    slope: np.ndarray
    #: ``E[outcome | dose]`` on the grid.
    association: np.ndarray
    #: The level on the grid among rows with the median dose.
    level_among: np.ndarray

    @property
    def contrast(self) -> np.ndarray:
        """Levels minus the level at the median dose."""
        return self.level - self.level[9]


def _random_function(rng, n_features=200):
    """A draw of a Gaussian process with the Gaussian kernel of scale 1 and variance 1."""
    frequency, phase = rng.normal(size=n_features), rng.uniform(0, 2 * np.pi, n_features)
    weight = np.sqrt(2 / n_features) * rng.normal(size=n_features)
    return lambda x: np.cos(np.multiply.outer(x, frequency) + phase) @ weight


#: Effects of the dose and of the covariate on the outcome.
_EFFECTS = {
    "opposite": (lambda x: x, lambda x: -x),
    "no effect": (lambda x: 0 * x, lambda x: np.sin(1.5 * x) + 0.5 * x),
    "no confounding": (lambda x: np.sin(1.5 * x), lambda x: 0 * x),
    "curved": (lambda x: np.tanh(2 * x), lambda x: -1.2 * np.sin(x)),
    "interaction": (lambda x: x, lambda x: -x),
}


def confounded(kind: str, seed: int, n: int = 100, dose_noise: float = 0.1) -> Confounded:
    """A dose that depends on a covariate, and an outcome ``f(dose) + g(covariate) + noise``.

    The covariate is standard normal, and the dose equals it up to ``dose_noise``. Kinds: ``opposite``,
    ``no effect``, ``no confounding``, ``curved``, ``draw`` (both functions drawn from a Gaussian process),
    and ``interaction``, which adds half the product of dose and covariate."""
    rng = np.random.default_rng([seed, _name_seed(kind), int(1000 * dose_noise)])
    covariate = rng.normal(size=n)
    dose = covariate + dose_noise * rng.normal(size=n)
    grid = np.quantile(dose, np.linspace(0.05, 0.95, 19))
    f, g = (_random_function(rng), _random_function(rng)) if kind == "draw" else _EFFECTS[kind]
    product = 0.5 if kind == "interaction" else 0.0
    outcome = f(dose) + g(covariate) + product * dose * covariate + 0.3 * rng.normal(size=n)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    # Given the dose, the covariate is normal.
    share = 1 / (1 + dose_noise**2)
    mean, std = share * grid, np.sqrt(1 - share)
    covariate_effect = g((mean[:, None] + std * nodes).ravel()).reshape(len(grid), -1) @ weights
    step = 1e-4
    return Confounded(
        dose=dose,
        covariate=covariate,
        outcome=outcome,
        grid=grid,
        # The product's mean over the covariate is 0.
        level=f(grid) + weights @ g(nodes),
        slope=(f(grid + step) - f(grid - step)) / (2 * step),
        association=f(grid) + covariate_effect + product * grid * mean,
        level_among=f(grid) + covariate_effect[9] + product * grid * mean[9],
    )
