"""The formulas of the experiments on causal data fusion, against dense Gaussian conditioning, sums over grids
and draws."""

import importlib
import pathlib

import numpy as np
import pytest
from numpy.testing import assert_allclose

import riesz

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=5), RNG.normal(size=5)
POINTS = RNG.normal(size=4)
TARGETS = np.array([1.2, -0.3, 0.4, -0.9])
QUERIES = np.array([0.3, -1.1, 2.5])
LENGTH_SCALE, RIDGE, NOISE = 0.9, 0.3, 0.2


@pytest.fixture(scope="module", autouse=True)
def experiments_folder():
    """Lets tests import modules of the folder of experiments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(pathlib.Path(__file__).parents[2] / "experiments")
        yield


@pytest.fixture
def processes(monkeypatch):
    module = importlib.import_module("_mean_processes")
    monkeypatch.setattr(module, "JITTER", 1e-10)
    return module


def gram(a, b):
    return np.exp(-((a[:, None] - b) ** 2) / (2 * LENGTH_SCALE**2))


def embedding_posterior(kernel, places):
    """The mean of μ(q, places) and its covariance (queries, places, queries, places), by conditioning on all
    5 × 5 values k(y_i, y_j) of the process with the kernel k_x r and noise of covariance λ r."""
    observed = np.kron(gram(X, X) + RIDGE * np.eye(5), kernel.integrated(Y, Y))
    cross = np.kron(gram(QUERIES, X), kernel.integrated(places, Y))
    prior = np.kron(gram(QUERIES, QUERIES), kernel.integrated(places, places))
    solved = np.linalg.solve(observed, cross.T)
    shape = len(QUERIES), len(places)
    mean = (solved.T @ kernel.plain(Y, Y).ravel()).reshape(shape)
    return mean, (prior - cross @ solved).reshape(*shape, *shape)


def test_the_integrated_kernel(processes):
    kernel = processes.MediatorKernel(1.3, 0.5, 0.4, 1.7)
    u = np.linspace(-30, 30, 20_001)
    measure = np.exp(-((u - 0.4) ** 2) / (2 * 1.7**2)) * (u[1] - u[0])
    expected = (kernel.plain(Y, u) * measure) @ kernel.plain(u, POINTS)
    assert_allclose(kernel.integrated(Y, POINTS), expected, rtol=1e-10)


def test_imp_and_ime_average_the_outcome_process(processes):
    kernel = processes.MediatorKernel(1.3, 0.5, 0.4, 1.7)
    weights = processes.Weights.from_rows(QUERIES, X, LENGTH_SCALE, RIDGE)
    operator = np.linalg.solve(gram(X, X) + RIDGE * np.eye(5), gram(X, QUERIES)).T
    # The joint distribution of the effect and the targets.
    joint = np.block([[operator, np.zeros((3, 4))], [np.zeros((4, 5)), np.eye(4)]])
    places = np.concatenate([Y, POINTS])
    covariance = joint @ kernel.plain(places, places) @ joint.T
    covariance[3:, 3:] += NOISE * np.eye(4)
    solved = np.linalg.solve(covariance[3:, 3:], covariance[3:, :3])
    mean, posterior = processes.imp(weights, kernel, NOISE, Y, POINTS, TARGETS)
    assert_allclose(mean, solved.T @ TARGETS, rtol=1e-9)
    assert_allclose(posterior, covariance[:3, :3] - covariance[:3, 3:] @ solved, atol=1e-10)
    assert_allclose(processes.ime(weights, kernel, NOISE, Y, POINTS, TARGETS)[0], mean, rtol=1e-9)


def test_bayesime_is_a_sum_over_the_embedding(processes):
    """f = Σ a_i k(ỹ_i, ·), so the effect is Σ a_i μ(x, ỹ_i)."""
    kernel = processes.MediatorKernel(1.3, 0.5, 0.4, 1.7)
    weights = processes.Weights.from_rows(QUERIES, X, LENGTH_SCALE, RIDGE)
    coef = np.linalg.solve(kernel.plain(POINTS, POINTS) + NOISE * np.eye(4), TARGETS)
    mean, covariance = embedding_posterior(kernel, POINTS)
    actual_mean, actual_covariance = processes.bayesime(weights, kernel, NOISE, Y, POINTS, TARGETS)
    assert_allclose(actual_mean, mean @ coef, rtol=1e-5)
    assert_allclose(actual_covariance, np.einsum("qapb,a,b->qp", covariance, coef, coef), atol=1e-6)


def test_bayesimp_is_a_product_of_two_processes(processes):
    """Compares with draws of f and μ at the landmarks."""
    kernel = processes.MediatorKernel(1.3, 0.5, 0.4, 1.7)
    weights = processes.Weights.from_rows(QUERIES, X, LENGTH_SCALE, RIDGE)
    landmarks = np.concatenate([Y, POINTS])
    with_points = kernel.integrated(landmarks, POINTS)
    noisy = kernel.integrated(POINTS, POINTS) + NOISE * np.eye(4)
    solved = np.linalg.solve(noisy, with_points.T)
    mean_f = solved.T @ TARGETS
    cov_f = kernel.integrated(landmarks, landmarks) - with_points @ solved
    mean_mu, cov_mu = embedding_posterior(kernel, landmarks)
    inverse = np.linalg.inv(kernel.plain(landmarks, landmarks))
    rng, count = np.random.default_rng(1), 200_000
    f = rng.multivariate_normal(mean_f, cov_f, count, method="eigh")
    mu = rng.multivariate_normal(mean_mu.ravel(), cov_mu.reshape(27, 27), count, method="eigh")
    effects = np.einsum("na,ab,nqb->nq", f, inverse, mu.reshape(count, 3, 9), optimize=True)
    mean, covariance = processes.bayesimp(weights, kernel, NOISE, Y, POINTS, TARGETS)
    assert_allclose(mean, effects.mean(axis=0), atol=4 * np.sqrt(np.diag(covariance) / count).max())
    assert_allclose(covariance, np.cov(effects.T), atol=0.02 * np.diag(covariance).max())


def test_the_evidence_and_the_error_of_left_out_rows(processes):
    """The loss functions choose the parameters that their definitions choose."""
    kernel = processes.MediatorKernel(1.3, 0.5, 0.4, 1.7)
    x = np.linspace(-2, 2, 12)
    y = np.sin(2 * x) + 0.1 * np.random.default_rng(2).normal(size=12)
    for criterion in ("evidence", "left out"):
        losses = {}
        for length_scale in x.std() * np.geomspace(0.02, 2, 25):
            similarity = np.exp(-((x[:, None] - x) ** 2) / (2 * length_scale**2))
            for ridge in np.geomspace(1e-4, 10, 16):
                if criterion == "evidence":
                    covariance = np.kron(
                        similarity + ridge * np.eye(12), processes.jittered(kernel.integrated(y, y))
                    )
                    values = kernel.plain(y, y).ravel()
                    log_det = np.linalg.slogdet(covariance)[1]
                    loss = log_det + values @ np.linalg.solve(covariance, values)
                else:
                    loss = 0.0
                    for i in range(12):
                        kept = np.arange(12) != i
                        system = similarity[np.ix_(kept, kept)] + ridge * np.eye(11)
                        weights = -np.ones(12)
                        weights[kept] = np.linalg.solve(system, similarity[kept, i])
                        loss += weights @ kernel.plain(y, y) @ weights
                losses[length_scale, ridge] = loss
        chosen = processes.embedding_parameters(x, y, kernel, criterion)
        assert losses[chosen] <= min(losses.values()) + 1e-6 * abs(min(losses.values()))


@pytest.mark.parametrize("treatment", ["D", "E"])
def test_the_true_effect_in_the_harder_graph(treatment):
    """Compares with draws from the structural equations with the treatment set."""
    worlds = importlib.import_module("_causal_worlds")
    rng, count, sd = np.random.default_rng(3), 400_000, 0.3
    noise = lambda: sd * rng.normal(size=count)
    u1, u2 = noise(), noise()
    a, b = noise() ** 2 + u1 + noise(), u2 + noise()
    c = np.exp(-b) + noise()
    d, e = np.exp(-c) / 10 + noise(), np.cos(a) + c / 10 + noise()
    values = np.array([-1.5, 0.2, 0.9])
    outcomes = []
    for value in values:
        y = np.cos(value if treatment == "D" else d) + np.sin(value if treatment == "E" else e) + u1 + u2
        outcomes.append(6 * np.sin(3 * y))
    truth = worlds.harder_truth(treatment, sd)(values)
    assert_allclose(truth, np.mean(outcomes, axis=1), atol=4 * 6 / np.sqrt(2 * count))


def test_trials_on_a_grid_follow_the_suggestions_of_riesz():
    """Candidates exclude the tried treatments, whose posterior standard deviation is only rounding."""
    worlds = importlib.import_module("_causal_worlds")
    optimisation = importlib.import_module("_grid_optimisation")
    studies, design, truth = worlds.DESIGNS["front door"][0](np.random.default_rng(5), 40, 30)
    fusion = riesz.CausalFusion(
        treatment="x", outcome="t", n_hyperparameter_samples=2, random_state=0, **design
    )
    with pytest.warns(UserWarning, match="study 2 has no y"):
        model = fusion.fit(studies)
    x = studies[0]["x"]
    grid = np.linspace(x.min(), x.max(), 61)
    effect, values = model.effect(grid), truth(grid)
    at_rows = model.effect(x)
    scale = at_rows.mean.var() + np.diag(at_rows.cov).mean()
    zeros = np.zeros(61), np.zeros((61, 61))
    priors = {
        "effect": optimisation.GridPrior(grid, effect.mean, effect.cov, scale, np.ptp(x)),
        "none": optimisation.GridPrior(grid, *zeros, scale, np.ptp(x), causal=False, flat=True),
    }
    for name, prior in priors.items():
        model.reset()
        places = [20]
        for _ in range(7):
            model.observe(grid[places[-1]], values[places[-1]], std=0.0)
            untried = np.delete(grid, places)
            suggested = model.suggest(candidates=untried, minimize=False, prior=name).treatments["x"][0]
            place = prior.next_place(places, values[places])
            assert grid[place] == suggested, (name, places)
            mean = prior.posterior(places, values[places])[0]
            assert_allclose(mean, model.posterior(grid, prior=name).mean, atol=1e-6)
            places.append(place)


def test_the_sampling_baseline_recovers_an_effect():
    """In a linear world without confounding the spread of all draws is that of the mediator, and that of
    means is smaller."""
    baseline = importlib.import_module("_sampling_baseline")
    rng = np.random.default_rng(4)
    x, points = rng.normal(size=80), rng.uniform(-4, 4, 80)
    first = {"x": x, "y": x + 0.5 * rng.normal(size=80)}
    second = {"y": points, "t": 2 * points + 0.1 * rng.normal(size=80)}
    treatments = np.array([-1.0, 0.0, 1.0])
    mean, deviation, deviation_of_means = baseline.sampled_effect(
        [first, second], {"randomized": True}, treatments, np.random.default_rng(0), mediators=400
    )
    assert_allclose(mean, 2 * treatments, atol=0.35)
    assert_allclose(deviation, 1.0, rtol=0.25)
    assert (deviation_of_means < 0.1 * deviation).all()


def test_the_published_evidence_ignores_mediators_under_the_measure_of_rows(processes):
    """With ν on the rows, r = k k, so that K R⁻¹ K is the identity for every y."""

    class RowsKernel(processes.MediatorKernel):
        def integrated(self, a, b):
            return self.plain(a, rows) @ self.plain(rows, b)

    x, rows = np.linspace(-2, 2, 8), np.linspace(-3, 3, 8)
    kernel = RowsKernel(1.3, 0.5, 0.0, 1.0)
    orders = [rows, np.random.default_rng(0).permutation(rows)]
    chosen = [processes.embedding_parameters(x, y, kernel, "evidence") for y in orders]
    assert chosen[0] == chosen[1]
    chosen = [processes.embedding_parameters(x, y, kernel, "left out") for y in orders]
    assert chosen[0] != chosen[1]
