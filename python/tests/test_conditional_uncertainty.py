"""Uncertainty of observational values from the estimation of conditional distributions, and duels whose
coalitions are sampled or whose contexts follow their conditional distribution."""

import pickle
import warnings

import numpy as np
import pytest

import riesz
from riesz.kernels import RBF

rng = np.random.default_rng(3)
ROWS = rng.multivariate_normal(np.zeros(3), [[1, 0.6, 0], [0.6, 1, 0.3], [0, 0.3, 1]], 60)
TARGET = np.sin(ROWS[:, 0]) + ROWS[:, 1] * ROWS[:, 2]
MODEL = riesz.KernelRidge(alpha=0.01, kernel=RBF([1.5, 1.5, 1.5])).fit(ROWS, TARGET)
PROCESS = riesz.GaussianProcessRegressor(kernel=RBF([1.5, 1.5, 1.5]), optimizer=None).fit(ROWS, TARGET)


def explained(model, X, background=ROWS, covariance=False, **settings):
    game = riesz.Observational(background, conditional_ridge=0.01, **settings)
    return riesz.Explainer(model, game=game, covariance=covariance)(X)


def test_any_kernel_model_has_the_conditional_part():
    why = explained(MODEL, ROWS[:2], conditional_uncertainty=True)
    np.testing.assert_array_equal(why.covariance, why.conditioning_covariance)
    np.testing.assert_allclose(why.std, np.sqrt(np.einsum("njj->nj", why.covariance)))
    assert why.uncertainty_source == {"kind": "conditioning", "rows": 60}
    assert why.unexplained_share.shape == (2,) and np.all(why.unexplained_share < 1)
    assert explained(MODEL, ROWS[:2]).conditioning_covariance is None
    # More background rows have smaller errors.
    small = explained(MODEL, ROWS[:2], ROWS[:15], conditional_uncertainty=True)
    assert why.std.mean() < small.std.mean()


def test_parts_of_a_process_add_up():
    model = explained(PROCESS, ROWS[:2], covariance=True).covariance
    total = explained(PROCESS, ROWS[:2], covariance=True, conditional_uncertainty=True)
    np.testing.assert_allclose(total.covariance, model + total.conditioning_covariance, rtol=1e-12)
    assert total.uncertainty_source == {"kind": "posterior"}
    copy = pickle.loads(pickle.dumps(total))
    np.testing.assert_array_equal(copy.conditioning_covariance, total.conditioning_covariance)
    np.testing.assert_array_equal(copy.unexplained_share, total.unexplained_share)


def test_files_keep_the_parts(tmp_path):
    total = explained(PROCESS, ROWS[:2], covariance=True, conditional_uncertainty=True)
    total.save(tmp_path / "why.json")
    read = riesz.Explanation.load(tmp_path / "why.json")
    np.testing.assert_array_equal(read.conditioning_covariance, total.conditioning_covariance)


def test_rows_far_from_the_background_warn():
    far = np.array([[2.5, -2.5, 2.5]])
    with pytest.warns(UserWarning, match="the intervals of 1 rows are too narrow"):
        why = explained(MODEL, far, conditional_uncertainty=True)
    assert why.unexplained_share[0] > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explained(MODEL, ROWS[:1], conditional_uncertainty=True)


def test_other_games_refuse_the_setting():
    with pytest.raises(ValueError, match="conjugate gradients"):
        explained(MODEL, ROWS[:1], conditional_uncertainty=True, cg_tol=1e-6)


ITEMS = rng.normal(size=(15, 5))
PAIRS = [(i, j) for i in range(15) for j in range(15) if i < j and (i + j) % 3]
CONTEXTS = rng.normal(size=(len(PAIRS), 2))
DUELS = riesz.PreferenceClassifier("generalised", kernel=RBF([1.5] * 5), optimizer=None)
DUELS.fit(ITEMS, PAIRS, contexts=CONTEXTS)


def test_sampled_coalitions_estimate_the_values_of_duels():
    left, right, contexts = ITEMS[:6], ITEMS[6:12], CONTEXTS[:6]
    options = {"game": "observational", "conditional_ridge": 0.02, "contexts": contexts}
    exact = DUELS.explain(left, right, **options)
    sampled = DUELS.explain(left, right, n_coalitions=20, **options)
    assert exact.std_error is None and sampled.std_error.max() > 0
    assert np.all(np.abs(sampled.values - exact.values) <= 5 * sampled.std_error + 1e-12)
    np.testing.assert_allclose(sampled.values.sum(axis=1), exact.predictions, atol=1e-12)
    landmarks = DUELS.explain(left, right, n_conditional_landmarks=15, **options)
    np.testing.assert_allclose(landmarks.values, exact.values, atol=1e-6)
    reverse = DUELS.explain(right, left, n_coalitions=20, **options)
    np.testing.assert_array_equal(reverse.values, -sampled.values)


def test_contexts_follow_their_conditional_distribution():
    # Prop. 7.3.4 by weights in plain numpy, for one absent column given the other.
    left, right, context = ITEMS[:1], ITEMS[3:4], CONTEXTS[:1]
    ridge, options = 0.05, {"game": "contexts", "absent_contexts": CONTEXTS, "contexts": context}
    why = DUELS.explain(left, right, context_game="observational", conditional_ridge=ridge, **options)
    kernel = why.provenance.run["ridge"]
    assert float(kernel) == ridge and "given the present ones" in why.provenance.absent
    drawn = DUELS.explain(left, right, **options)
    np.testing.assert_allclose(drawn.base_values, why.base_values)
    np.testing.assert_allclose(drawn.values.sum(), why.values.sum())
    assert np.abs(drawn.values - why.values).max() > 1e-3


@pytest.mark.parametrize(
    "options, message",
    [
        ({"context_game": "paired"}, "context_game = 'paired'"),
        ({"context_game": "observational"}, "absent contexts"),
        ({"n_coalitions": 0}, "positive whole number"),
        ({"game": "functional", "n_coalitions": 20}, "value coalitions"),
        ({"game": "observational", "n_conditional_landmarks": 3, "cg_tol": 1e-6}, "one of the two"),
        ({"game": "observational", "n_coalitions": 2}, "n_coalitions"),
    ],
)
def test_bad_settings_of_duels_name_the_remedy(options, message):
    with pytest.raises(ValueError, match=message):
        DUELS.explain(ITEMS[:1], ITEMS[3:4], contexts=CONTEXTS[:1], **options)
