"""The observational game against its definition in numpy."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import riesz
from conftest import shapley


def observational(points, coef, intercept, gamma, reference, x, ridge):
    """RKHS-SHAP's observational values of ``coef @ rbf(points, x) + intercept``, by enumeration."""
    rbf = lambda a, b, s: np.exp(-gamma * ((a[:, None, s] - b[None, :, s]) ** 2).sum(axis=2))
    d, b = len(x), len(reference)
    everything = np.ones(d, dtype=bool)

    def value(mask):
        mask = np.asarray(mask)
        if mask.all():
            return coef @ rbf(points, x[None], everything)[:, 0] + intercept
        absent_gram = rbf(points, reference, ~mask)
        if not mask.any():
            return coef @ absent_gram.mean(axis=1) + intercept
        weights = np.linalg.solve(
            rbf(reference, reference, mask) + b * ridge * np.eye(b), rbf(reference, x[None], mask)[:, 0]
        )
        # Shrinkage is towards the mean over the reference.
        mean = coef @ rbf(points, reference, everything).mean(axis=1)
        return (
            coef @ (rbf(points, x[None], mask)[:, 0] * (absent_gram @ weights))
            + intercept
            + mean * (1 - weights.sum())
        )

    return shapley(value, d)


def test_values_are_those_of_the_definition(data):
    X, y = data
    ridge = KernelRidge(kernel="rbf", gamma=0.3, alpha=0.1).fit(X, y)
    explainer = riesz.Explainer(ridge, game=riesz.Observational(conditional_ridge=0.01))
    explanation = explainer(X[:4])
    assert explainer.exactness == explanation.exactness == "exact" and explanation.certificate.holds
    expected = [observational(X, ridge.dual_coef_, 0.0, 0.3, X, x, 0.01) for x in X[:4]]
    np.testing.assert_allclose(explanation.values, expected, atol=1e-10)
    assert abs(explanation.base_values[0] - ridge.predict(X).mean()) < 1e-10
    assert explanation.provenance.run["ridge"] == "0.01"
    # Another reference, support vectors, and a pipeline explained in the user's columns.
    svr = SVR(gamma=0.2, C=5.0).fit(X, y)
    explanation = riesz.Explainer(svr, X[10:30], game=riesz.Observational(conditional_ridge=0.1))(X[:3])
    arguments = svr.support_vectors_, svr.dual_coef_[0], svr.intercept_[0], 0.2, X[10:30]
    np.testing.assert_allclose(
        explanation.values, [observational(*arguments, x, 0.1) for x in X[:3]], atol=1e-10
    )
    pipeline = make_pipeline(StandardScaler(), SVR(gamma=0.2)).fit(X, y)
    scaled = pipeline[0].transform(X)
    actual = riesz.Explainer(pipeline, X[:20], game=riesz.Observational(conditional_ridge=0.1))(X[:3])
    expected = riesz.Explainer(pipeline[1], scaled[:20], game=riesz.Observational(conditional_ridge=0.1))(
        scaled[:3]
    )
    np.testing.assert_allclose(actual.values, expected.values, atol=1e-12)


def test_samples_come_with_standard_errors(data):
    X, y = data
    wide = np.hstack([X, X[:, ::-1] + np.sin(3 * X)])
    model = KernelRidge(kernel="rbf", gamma=0.05, alpha=0.1).fit(wide, y)
    exact = riesz.Explainer(model, game=riesz.Observational(conditional_ridge=0.01))(wide[:3])
    explainer = riesz.Explainer(
        model, game=riesz.Observational(conditional_ridge=0.01), n_coalitions=120, random_state=3
    )
    sampled = explainer(wide[:3])
    assert explainer.exactness == sampled.exactness == "estimated" and "coalitions" in explainer.reason
    assert sampled.certificate is None and sampled.std_error.shape == (3, 8) and sampled.sampling.seed == 3
    assert (np.abs(sampled.values - exact.values) < 6 * sampled.std_error + 1e-9).all()
    np.testing.assert_allclose(sampled.residual, 0, atol=1e-9)
    again = riesz.Explainer(
        model, game=riesz.Observational(conditional_ridge=0.01), n_coalitions=120, random_state=3, n_jobs=1
    )(wide[:3])
    np.testing.assert_array_equal(sampled.values, again.values)
    target = sampled.std_error.max()
    finer = riesz.Explainer(
        model, game=riesz.Observational(conditional_ridge=0.01), target_std_error=target / 2
    )(wide[:3])
    assert finer.std_error is None or finer.std_error.max() <= target / 2


def test_targets_hold_for_all_rows_and_classes(data):
    X, y = data
    model = riesz.KernelRidge(kernel=riesz.kernels.RBF(1.5), alpha=0.1).fit(X, np.column_stack([y, -y, y**2]))
    rows = np.tile(X, (40, 1))
    explainer = riesz.Explainer(
        model, game=riesz.Observational(conditional_ridge=0.01), target_std_error=0.02
    )
    explanation = explainer(rows)
    assert (
        explainer.exactness == explanation.exactness == "estimated"
        and explainer.reason == "a standard error was requested"
    )
    assert (
        explanation.values.shape == explanation.std_error.shape == (2000, 4, 3)
        and explanation.std_error.max() <= 0.02
    )
    np.testing.assert_allclose(explanation.values[:50], explanation.values[50:100], atol=1e-12)


def test_any_kernel_and_several_outputs_and_a_chosen_ridge(data):
    X, y = data
    matern = GaussianProcessRegressor(Matern(1.2, nu=1.5), alpha=0.1, optimizer=None).fit(X, y)
    explanation = riesz.Explainer(matern, game="observational")(X[:5])
    assert explanation.certificate.holds and float(explanation.provenance.run["ridge"]) > 0
    three = SVC(kernel="poly", decision_function_shape="ovo").fit(X, np.digitize(y, [-0.5, 0.5]))
    explanation = riesz.Explainer(three, X, game="observational")(X[:5])
    assert explanation.shape == (5, 4, 3) and explanation.certificate.holds
    with pytest.raises(ValueError, match="ridge = -1"):
        riesz.Explainer(matern, game=riesz.Observational(conditional_ridge=-1.0))
    with pytest.raises(ValueError, match="coalitions belongs to the observational and the causal game"):
        riesz.Explainer(matern, X, groups={"all": range(4)}, n_coalitions=9)
    with pytest.raises(ValueError, match="coalitions = 3 is not allowed: 4 features take at least"):
        riesz.Explainer(matern, game="observational", n_coalitions=3)(X[:1])


def test_dependent_columns_get_equal_values(data):
    rng = np.random.default_rng(1)
    z = rng.normal(size=(300, 1))
    X = np.hstack([z, z + 0.05 * rng.normal(size=(300, 1))])
    model = riesz.KernelRidge(kernel=riesz.kernels.RBF(2.0), alpha=1e-3).fit(X, X[:, 0])
    row = np.array([[1.5, 1.5]])
    interventional = riesz.Explainer(model, X)(row).values[0]
    shared = riesz.Explainer(model, X, game="observational")(row).values[0]
    # The model reads a mixture of both columns. Each determines the other, so they have equal values.
    assert abs(shared[0] - shared[1]) < 0.1 < abs(interventional[0] - interventional[1])


def test_values_move_by_no_more_than_the_bound(data):
    X, y = data
    model = SVR(gamma=0.2, C=5.0).fit(X, y)
    rng = np.random.default_rng(0)
    moved = X[:20] + rng.uniform(-0.3, 0.3, size=(20, 4))
    for options in [{}, {"game": riesz.Observational(conditional_ridge=0.05)}]:
        explainer = riesz.Explainer(model, X[:10], **options)
        bound = explainer.value_bound(0.3)
        far = np.abs(explainer(moved).values - explainer(X[:20]).values).max()
        assert bound.shape == (1,) and 0 < far <= bound[0] and explainer.value_bound([0, 0, 0, 0])[0] == 0
    with pytest.raises(ValueError, match="game = functional"):
        riesz.Explainer(model).value_bound(0.1)
    with pytest.raises(riesz.UnsupportedModelError, match="model with a known kernel"):
        riesz.Explainer(model.predict, X).value_bound(0.1)
    with pytest.raises(riesz.UnsupportedModelError, match="last step"):
        riesz.Explainer(make_pipeline(StandardScaler(), SVR()).fit(X, y), X).value_bound(0.1)


def test_landmarks_and_random_features_approximate_exact_values(data):
    X, y = data
    model = SVR(gamma=0.1, C=5.0).fit(X, y)
    game = lambda **settings: riesz.Observational(X, conditional_ridge=0.05, **settings)
    exact = riesz.Explainer(model, game=game())(X[:5]).values
    for name, count in [("n_conditional_landmarks", 40), ("n_random_features", 2000)]:
        explanation = riesz.Explainer(model, game=game(**{name: count}))(X[:5])
        assert np.abs(explanation.values - exact).max() < 0.2 * np.abs(exact).max(), name
        assert (
            name.split("_")[-1] in explanation.provenance.run["approximation"]
            and explanation.certificate.holds
        )
    with pytest.raises(ValueError, match="choose one"):
        riesz.Explainer(model, game=game(n_conditional_landmarks=4, n_random_features=4))
    with pytest.raises(ValueError, match="landmarks = 0"):
        riesz.Explainer(model, game=game(n_conditional_landmarks=0))
    with pytest.raises(TypeError, match="landmarks"):
        riesz.Explainer(model, game=riesz.Interventional(X, landmarks=4))


def test_an_estimate_is_extended_by_new_coalitions_alone(data):
    X, y = data
    wide = np.hstack([X, X[:, ::-1] + np.sin(3 * X)])
    # Several outputs, and several expansions in one explainer.
    targets = np.column_stack([y, -y])
    processes = riesz.GaussianProcessRegressor(riesz.kernels.RBF(4.0), alpha=0.1, optimizer=None).fit(
        wide, targets
    )
    three = SVC(gamma=0.05, decision_function_shape="ovo").fit(wide, np.digitize(y, [-0.5, 0.5]))
    rows = wide[:3].copy()
    for model in (processes, three):
        options = dict(game=riesz.Observational(conditional_ridge=0.01), random_state=3)
        explainer = riesz.Explainer(model, wide[:30], n_coalitions=100, **options)
        estimate = explainer(rows)
        rows[:] = 0.0
        extended = explainer.refine(estimate, 180)
        rows[:] = wide[:3]
        once = riesz.Explainer(model, wide[:30], n_coalitions=180, **options)(rows)
        np.testing.assert_array_equal(extended.values, once.values)
        np.testing.assert_array_equal(extended.std_error, once.std_error)
        assert extended.sampling == once.sampling and extended.provenance.run == once.provenance.run
        complete = explainer.refine(extended, 254)
        assert complete.exactness == "exact" and complete.certificate.holds
        exact = riesz.Explainer(model, wide[:30], **options)(rows)
        np.testing.assert_array_equal(complete.values, exact.values)
        np.testing.assert_array_equal(complete.bound, exact.bound)
        target = extended.std_error.max() / 1.5
        finer = explainer.refine(estimate, 254, target_std_error=target)
        assert finer.std_error.max() <= target


def test_too_much_memory_is_refused_beforehand(data):
    X, y = data
    model = SVR(gamma=0.1).fit(X, y)
    large_reference = np.tile(X, (20_000, 1)) + np.arange(1_000_000)[:, None] * 1e-7
    with pytest.raises(
        ValueError,
        match="1000000 reference rows needs .* GB of memory, but only .* are free: use fewer reference rows",
    ):
        riesz.Explainer(model, large_reference, game=riesz.Observational(conditional_ridge=0.1))
    with pytest.raises(ValueError, match="GB of memory"):
        riesz.Explainer(model.predict, large_reference, game=riesz.Observational(conditional_ridge=0.1))(
            X[:1]
        )
    kernel = riesz.kernels.RBF(2.0)
    with pytest.raises(ValueError, match="GB of memory"):
        riesz.KernelRidge(kernel=kernel, protect=[0], protect_game=riesz.Observational(large_reference)).fit(
            X, y
        )


def test_conjugate_gradients_are_within_the_bound_of_exact_values(data):
    X, y = data
    model = SVR(gamma=0.1, C=5.0).fit(X, y)
    game = lambda **settings: riesz.Observational(X, conditional_ridge=0.05, **settings)
    exact = riesz.Explainer(model, game=game())(X[:5])
    for tolerance in (0.1, 1e-8):
        explanation = riesz.Explainer(model, game=game(cg_tol=tolerance))(X[:5])
        error = np.abs(explanation.values - exact.values).max(axis=1)
        assert (error <= explanation.bound + exact.bound).all() and explanation.certificate.holds
        assert "conjugate gradients" in explanation.provenance.run["approximation"]
    assert error.max() < 1e-6 * np.abs(exact.values).max()
    with pytest.raises(ValueError, match="choose one"):
        riesz.Explainer(model, game=game(n_conditional_landmarks=4, cg_tol=1e-6))
    with pytest.raises(ValueError, match="cg_tol = 0 is not allowed: it is a number between 0 and 1"):
        riesz.Explainer(model, game=game(cg_tol=0))
