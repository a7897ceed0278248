"""The numerical functions of the experiments, against definitions and values by hand."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import riesz
from conftest import shapley
from riesz.kernels import Matern

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
downscaling_climate = pytest.importorskip("downscaling_climate")
downscaling_shift = pytest.importorskip("downscaling_shift")
real = pytest.importorskip("real")
recovery = pytest.importorskip("recovery")


def test_structural_similarity_of_a_single_window():
    weights = np.exp(-(np.subtract.outer(np.arange(-5, 6), np.zeros(11)) ** 2) / (2 * 1.5**2))
    weights = weights * weights.T / (weights * weights.T).sum()
    image, truth = np.random.default_rng(0).normal(size=(2, 11, 11))
    mean, true_mean = (weights * image).sum(), (weights * truth).sum()
    covariance = (weights * (image - mean) * (truth - true_mean)).sum()
    variances = (weights * (image - mean) ** 2).sum() + (weights * (truth - true_mean) ** 2).sum()
    first, second = (0.01 * np.ptp(truth)) ** 2, (0.03 * np.ptp(truth)) ** 2
    expected = (2 * mean * true_mean + first) * (2 * covariance + second)
    expected /= (mean**2 + true_mean**2 + first) * (variances + second)
    assert downscaling_climate.structural_similarity(image, truth) == pytest.approx(expected, rel=1e-12)


def test_structural_similarity_by_hand():
    """A truth of one line of ones has the local mean m and variance m - m², where m is the window's weight of
    its middle line. A constant image of m has the same mean, no variance and no covariance."""
    truth = np.zeros((11, 11))
    truth[:, 5] = 1.0
    m = 1 / np.exp(-(np.arange(-5, 6) ** 2) / 4.5).sum()
    assert downscaling_climate.structural_similarity(truth, truth) == pytest.approx(1.0)
    assert downscaling_climate.structural_similarity(np.full((11, 11), m), truth) == pytest.approx(
        0.0009 / (m - m**2 + 0.0009)
    )


def test_gemfix_of_all_coalitions_is_exact():
    rng = np.random.default_rng(0)
    masks = np.array(list(itertools.product([False, True], repeat=4)))
    values = rng.normal(size=16)
    values[0] = 0.0
    by_mask = dict(zip(map(tuple, masks), values))
    expected = shapley(lambda mask: by_mask[tuple(map(bool, mask))], 4)
    estimate = recovery.gemfix(masks[1:-1], values[1:-1], values[-1], ridge=0.0)
    np.testing.assert_allclose(estimate, expected, atol=1e-12)
    # With a ridge, values are those of kernel ridge regression on the indicators of nonempty subsets.
    subsets = masks[1:]
    features = (masks[1:, None] >= subsets).all(axis=2).astype(float)
    ridge = 0.1 * np.eye(15)
    ridge[-1, -1] = 0.0
    dividends = features.T @ np.linalg.solve(features @ features.T + ridge, values[1:])
    expected = (subsets / subsets.sum(axis=1, keepdims=True)).T @ dividends
    np.testing.assert_allclose(
        recovery.gemfix(masks[1:-1], values[1:-1], values[-1], ridge=0.1), expected, atol=1e-10
    )


def test_values_conditioned_by_plain_code_are_those_of_riesz():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 3))
    model = riesz.KernelRidge(0.1, kernel=Matern(1.3, nu=0.5)).fit(X, X[:, 0] * X[:, 1])
    game = riesz.Observational(X, conditioning_kernel="own", conditional_ridge=0.02)
    expected = real.conditioned_values(X, model.predict(X), lambda present: 1.3, 0.02)
    np.testing.assert_allclose(riesz.Explainer(model, game=game)(X).values, expected, atol=1e-10)


@pytest.mark.parametrize("kernel", downscaling_shift.KERNELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_map_without_weights_is_that_of_riesz(kernel):
    by_riesz, by_formulas = downscaling_shift.fixed_maps(kernel, count=20)
    np.testing.assert_allclose(by_formulas, by_riesz, atol=1e-9)


def test_weights_of_mediators_are_numbers_of_copies():
    y, _, mediators, _, _ = downscaling_shift.generated(0, 8, 1.0, 1.0)
    copies = np.array([1, 3, 2, 1, 1, 4, 2, 2])
    gram = lambda a, b: downscaling_shift.gaussian(a, b, 0.7)
    target_gram, repeated = gram(mediators, mediators), np.repeat(y, copies)
    operator, covariance = downscaling_shift.regression_weights(
        gram(y, y), gram(y, mediators), target_gram, 0.01, copies / copies.mean()
    )
    by_copy, expected = downscaling_shift.regression_weights(
        gram(repeated, repeated), gram(repeated, mediators), target_gram, 0.01, np.ones(16)
    )
    summed = np.add.reduceat(by_copy, np.cumsum(copies) - copies)
    np.testing.assert_allclose(operator, summed, atol=1e-10)
    np.testing.assert_allclose(covariance, expected, atol=1e-10)


def test_weighted_leave_one_out_loss_is_that_of_regressions_without_the_bag():
    y, x, _, _, _ = downscaling_shift.generated(0, 8, 1.0, 1.0)
    rng = np.random.default_rng(1)
    fit_weights, loss_weights = rng.uniform(0.2, 3, (2, 8))
    row_gram, _ = downscaling_shift.bag_grams(x, x[0], 1.0)
    gram, ridge, loss = downscaling_shift.gaussian(y, y, 0.7), 0.02, 0.0
    for b in range(8):
        kept = np.arange(8) != b
        weights, _ = downscaling_shift.regression_weights(
            gram[np.ix_(kept, kept)], gram[kept][:, [b]], gram[[b]][:, [b]], ridge * 8 / 7, fit_weights[kept]
        )
        residual = np.eye(8)[b]
        residual[kept] = -weights[:, 0]
        loss += loss_weights[b] * residual @ row_gram @ residual / loss_weights.sum()
    losses = downscaling_shift.left_out_losses(gram, row_gram, [ridge], fit_weights, loss_weights)
    np.testing.assert_allclose(losses, [loss], rtol=1e-9)


def test_estimated_ratio_of_densities_is_near_the_ratio():
    rng = np.random.default_rng(0)
    y, mediators = rng.normal(size=400), rng.normal(1.0, 0.5, 400)
    estimate = downscaling_shift.estimated_ratio(y, mediators, 0)
    assert np.corrcoef(estimate, downscaling_shift.density_ratio(y, 1.0, 0.5))[0, 1] > 0.95
