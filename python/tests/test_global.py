"""Global importance of features, against enumeration, pick-freeze estimates and published closed forms."""

from itertools import product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import riesz
from riesz.kernels import RBF

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 4))
y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])


def coalition_values(value, d):
    return {mask: value(np.array(mask, bool)) for mask in product([False, True], repeat=d)}


def shapley(values, d):
    out = np.zeros(d)
    for mask, mask_value in values.items():
        s = sum(mask)
        for j in range(d):
            if not mask[j]:
                joined = (*mask[:j], True, *mask[j + 1 :])
                out[j] += factorial(s) * factorial(d - 1 - s) / factorial(d) * (values[joined] - mask_value)
    return out


def test_indices_of_small_tables_are_those_of_enumeration():
    model, rows = SVR(C=10, gamma=0.3).fit(X, y), X[:4, :]
    grid = np.array(list(product(*rows.T)))
    f = model.predict(grid).reshape(4, 4, 4, 4)

    def value(mask):
        mean = f.mean(axis=tuple(np.flatnonzero(~mask))) if not mask.all() else f
        return mean.var()

    values = coalition_values(value, 4)
    indices = riesz.sobol_indices(model, rows)
    assert np.isclose(indices.variance, f.var(), rtol=1e-10)
    assert np.allclose(indices.shapley_effects * f.var(), shapley(values, 4), atol=1e-10)
    assert np.allclose(
        indices.first_order * f.var(), [value(np.arange(4) == j) for j in range(4)], atol=1e-10
    )
    assert np.allclose(
        indices.total_order * f.var(), [f.var() - value(np.arange(4) != j) for j in range(4)], atol=1e-10
    )
    assert indices.bound < 1e-9 and indices.explanation.certificate.holds
    assert list(indices.to_frame().columns) == ["first_order", "shapley_effect", "total_order"]


def test_indices_are_within_the_error_of_pick_freeze():
    """Saltelli's and Jansen's estimators, as in SALib, from the same marginals."""
    model = riesz.KernelRidge(kernel=RBF(1.0), alpha=1e-2).fit(X, y)
    indices = riesz.sobol_indices(model, X)
    draws, n = np.random.default_rng(1), 20_000
    pick = lambda: np.column_stack([draws.choice(X[:, j], n) for j in range(4)])
    a, b = pick(), pick()
    fa, fb = model.predict(a), model.predict(b)
    shift = fa.mean()
    for j in range(4):
        ab = a.copy()
        ab[:, j] = b[:, j]
        fab = model.predict(ab)
        first, total = (fb - shift) * (fab - fa), 0.5 * (fa - fab) ** 2
        for terms, share in [(first, indices.first_order[j]), (total, indices.total_order[j])]:
            error = terms.std() / np.sqrt(n)
            assert abs(terms.mean() - share * indices.variance) < 4.5 * error


def test_pipelines_groups_outputs_and_frames():
    frame = pd.DataFrame(X * [1, 10, 1, 5] + 3, columns=list("abcd"))
    targets = np.column_stack([y, -2 * y])
    plain = riesz.sobol_indices(
        SVR(C=10).fit(StandardScaler().fit_transform(frame), y), StandardScaler().fit_transform(frame)
    )
    piped = riesz.sobol_indices(make_pipeline(StandardScaler(), SVR(C=10)).fit(frame, y), frame)
    assert np.allclose(plain.shapley_effects, piped.shapley_effects, atol=1e-9)
    assert piped.feature_names == list("abcd")
    grouped = riesz.sobol_indices(
        make_pipeline(StandardScaler(), SVR(C=10)).fit(frame, y), frame, groups={"ab": ["a", "b"]}
    )
    assert grouped.feature_names == ["ab", "c", "d"] and np.isclose(grouped.shapley_effects.sum(), 1.0)
    two = riesz.sobol_indices(riesz.KernelRidge(kernel=RBF(1.0)).fit(X, targets), X)
    assert two.first_order.shape == (4, 2) and np.allclose(two.variance[1], 4 * two.variance[0])
    assert np.allclose(two.first_order[:, 0], two.first_order[:, 1], atol=1e-9)


def test_expected_indices_are_means_over_draws():
    """Exact comparison with draws of the process at all rows of independent features."""
    model = riesz.GaussianProcessRegressor(kernel=RBF(1.0), alpha=0.3, optimizer=None).fit(X[:25, :2], y[:25])
    rows = X[30:34, :2]
    grid = np.array(list(product(*rows.T)))
    draws = model.sample_y(grid, n_samples=4000, random_state=0).reshape(4, 4, -1)
    indices = riesz.sobol_indices(model, rows, posterior=True)
    mean = riesz.sobol_indices(model, rows)
    assert indices.variance > mean.variance
    total = draws.var(axis=(0, 1))
    first = draws.mean(axis=1).var(axis=0), draws.mean(axis=0).var(axis=0)
    for terms, value in [(total, indices.variance), *zip(first, indices.first_order * indices.variance)]:
        assert abs(terms.mean() - value) < 4.5 * terms.std() / np.sqrt(4000)


def test_intervals_of_indices_are_quantiles_of_draws():
    axis = np.arange(5.0)
    grid = np.array(list(product(axis, axis)))
    model = riesz.GaussianProcessRegressor(kernel=RBF(1.5), alpha=0.3, optimizer=None).fit(grid, y[:25])
    indices = riesz.sobol_indices(model, grid, posterior=True, n_samples=500)
    assert indices.samples["first_order"].shape == (500, 2) and indices.samples["variance"].shape == (500,)
    samples = model.sample_y(grid, n_samples=4000, random_state=3).reshape(5, 5, -1)
    share = samples.mean(axis=1).var(axis=0) / samples.var(axis=(0, 1))
    for level, (low, high) in [
        (0.5, indices.interval(0.5)["first_order"]),
        (0.9, indices.interval(0.9)["first_order"]),
    ]:
        inside = ((share > low[0]) & (share < high[0])).mean()
        assert abs(inside - level) < 4.5 * np.sqrt(level * (1 - level) / 500 * 2)
    two = riesz.GaussianProcessRegressor(kernel=RBF(1.5), alpha=0.3, optimizer=None).fit(
        grid, np.column_stack([y[:25], y[25:50]])
    )
    drawn = riesz.sobol_indices(two, grid, posterior=True, n_samples=3, random_state=1).samples
    assert drawn["total_order"].shape == (3, 2, 2) and drawn["variance"].shape == (3, 2)
    with pytest.raises(ValueError, match="posterior=True"):
        riesz.sobol_indices(model, grid, n_samples=3)
    with pytest.raises(ValueError, match="no samples"):
        riesz.sobol_indices(model, grid).interval()


def test_sage_values_are_those_of_the_definition():
    model, rows, background, labels = SVR(C=10).fit(X[:50], y[:50]), X[50:70], X[:7], y[50:70]

    def value(mask):
        mixed = np.where(mask, rows[:, None], background[None])
        mean = model.predict(mixed.reshape(-1, 4)).reshape(20, 7).mean(axis=1)
        return -np.mean((labels - mean) ** 2)

    sage = riesz.sage_values(model, rows, labels, background)
    assert np.allclose(sage.values, shapley(coalition_values(value, 4), 4), atol=1e-10)
    assert sage.sampling_error is None and sage.coalitions == 16 and sage.std_error.shape == (4,)
    assert np.isclose(sage.values.sum(), sage.base_loss - sage.loss)
    assert sage.to_frame().index[0] == sage.feature_names[sage.values.argmax()]


def test_sage_values_of_classes():
    labels = np.where(y > 0, "high", "low")
    model, background = riesz.KernelLogisticRegression(kernel=RBF(1.0)).fit(X, labels), X[:5]
    rows, truth = X[40:60], labels[40:60]
    place = [list(model.classes_).index(label) for label in truth]

    def value(mask):
        mixed = np.where(mask, rows[:, None], background[None])
        mean = model.predict_proba(mixed.reshape(-1, 4)).reshape(20, 5, 2).mean(axis=1)
        return np.mean(np.log(mean[np.arange(20), place]))

    sage = riesz.sage_values(model, rows, truth, background)
    assert sage.measure == "log loss"
    assert np.allclose(sage.values, shapley(coalition_values(value, 4), 4), atol=1e-8)
    with pytest.raises(ValueError, match="classes are: high, low"):
        riesz.sage_values(model, rows, ["middle"] * 20, background)


def test_importance_and_its_bars():
    explanation = riesz.Explainer(SVR(C=10).fit(X, y), X[:20])(X)
    importance = explanation.importance()
    frame = pd.DataFrame(importance)
    sizes = np.abs(explanation.values)
    order = np.argsort(-sizes.mean(axis=0), kind="stable")
    assert list(importance["feature"]) == [explanation.feature_names[k] for k in order]
    assert np.allclose(importance["mean_abs"], sizes.mean(axis=0)[order])
    assert np.allclose(importance["std_error"], sizes.std(axis=0, ddof=1)[order] / np.sqrt(80))
    assert np.allclose(importance["q95"], np.quantile(sizes, 0.95, axis=0)[order])
    from scipy import stats

    low, high = stats.t.interval(0.9, 79, importance["mean_abs"], importance["std_error"])
    narrow = explanation.importance(0.9)
    assert np.allclose(narrow["high"], high) and np.allclose(narrow["low"], np.maximum(low, 0.0))
    gap = sizes[:, order[0]] - sizes[:, order[1]]
    z = gap.mean() / (gap.std(ddof=1) / np.sqrt(80))
    assert np.isclose(importance["in_order"][0], stats.norm.cdf(z)) and np.isnan(importance["in_order"][-1])
    assert len(frame) == 4
    assert np.isnan(explanation[:1].importance()["std_error"]).all()
    pytest.importorskip("matplotlib")
    assert len(riesz.plots.bar(explanation).lines) >= 4
    assert riesz.sobol_indices(SVR().fit(X, y), X).plot() is not None


def test_what_is_refused():
    svc = SVC().fit(X, y > 0)
    with pytest.raises(ValueError):
        riesz.sage_values(svc, X, ["a"] * 80)
    with pytest.raises(ValueError, match="those of index='shapley'"):
        riesz.sobol_indices(lambda rows: rows.sum(axis=1), X, index="moebius")
    with pytest.raises(ValueError, match="no probabilities"):
        riesz.sage_values(lambda rows: rows[:, :2], X, y > 0)
    with pytest.raises(ValueError, match="posterior"):
        riesz.sobol_indices(SVR().fit(X, y), X, posterior=True)
    with pytest.raises(ValueError, match="outputs"):
        riesz.Explainer(riesz.KernelRidge(kernel="rbf", gamma="scale").fit(X, np.column_stack([y, y])), X)(
            X
        ).importance()
    process = GaussianProcessRegressor(SklearnRBF(1.0), alpha=0.1, optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="n_orders"):
        riesz.sage_values(process, X, y, n_orders=0)


def test_components_sum_up_and_have_the_variances_of_sobol_indices():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] * 3, "c": X[:, 2]})
    model = make_pipeline(StandardScaler(), SVR(C=10)).fit(frame, y)
    anova = riesz.functional_anova(model, frame)
    sets = [["a"], ["b"], ["c"], ["a", "b"], ["a", "c"], ["b", "c"], ["a", "b", "c"]]
    parts = [anova.component(features, frame).values for features in sets]
    assert np.allclose(anova.mean + np.sum(parts, axis=0), model.predict(frame), atol=1e-9)
    indices = riesz.sobol_indices(model, frame)
    for features, part, share in zip(sets, parts, indices.first_order):
        assert abs(part.mean()) < 1e-10 and np.isclose(part.var(), share * indices.variance), features
    curve, surface = anova.component("b"), anova.component(["c", "a"])
    assert curve.values.shape == (101,) and curve.std is None
    assert surface.features == ["a", "c"] and surface.values.shape == (41, 41)
    place = pd.DataFrame({"a": surface.grid[0][[7]], "b": 0.0, "c": surface.grid[1][[30]]})
    assert np.isclose(anova.component(["a", "c"], place).values[0], surface.values[7, 30])
    # A group keeps its joint distribution.
    grouped = riesz.functional_anova(model, frame, groups={"ab": ["a", "b"]}).component("ab", frame).values
    joint = np.array([model.predict(frame.assign(a=row.a, b=row.b)).mean() for row in frame.itertuples()])
    assert np.allclose(grouped, joint - joint.mean(), atol=1e-8)


def test_components_of_a_process_have_bands():
    model = riesz.GaussianProcessRegressor(kernel=RBF(1.0), alpha=0.3, optimizer=None).fit(X[:40, :2], y[:40])
    rows = X[40:50, :2]
    anova, row = riesz.functional_anova(model, rows), np.array([[0.3, -0.4]])
    component = anova.component(0, row)
    # The component is a mean over the other column's values minus a mean over both columns.
    fixed_rows = np.column_stack([np.full(10, 0.3), rows[:, 1]])
    grid = np.array(list(product(rows[:, 0], rows[:, 1])))
    weights = np.concatenate([np.full(10, 0.1), np.full(100, -0.01)])
    mean, covariance = model.predict(np.concatenate([fixed_rows, grid]), return_cov=True)
    assert np.isclose(component.values[0], weights @ mean)
    assert np.isclose(component.std[0], np.sqrt(weights @ covariance @ weights), rtol=1e-6)
    pytest.importorskip("matplotlib")
    assert anova.component(1).plot() is not None and anova.component([0, 1]).plot() is not None
    with pytest.raises(ValueError, match="no feature"):
        anova.component("zzz")
    with pytest.raises(ValueError, match="give rows X"):
        riesz.functional_anova(SVR().fit(X, y), X).component([0, 1, 2])


def test_places_of_whole_numbers_lie_between_them():
    X = np.arange(80.0).reshape(40, 2)
    model = riesz.KernelRidge(kernel=RBF(20.0)).fit(X, X[:, 0])
    from_integers = riesz.functional_anova(model, X.astype(int)).component(0)
    assert np.array_equal(from_integers.values, riesz.functional_anova(model, X).component(0).values)


def test_posteriors_of_scikit_learn_are_taken():
    """A smooth process: rounding errors of poorly determined coefficients must not dominate a draw."""
    model = GaussianProcessRegressor(SklearnRBF(2.0), alpha=0.01, optimizer=None).fit(X[:, :2], y)
    assert riesz.functional_anova(model, X[:, :2]).component(0).std is not None
    indices = riesz.sobol_indices(model, X[:, :2], posterior=True, n_samples=200)
    mean = indices.samples["variance"].mean()
    standard_error = indices.samples["variance"].std() / np.sqrt(200)
    assert abs(mean - indices.variance) < 4 * standard_error
    for low, high in indices.interval().values():
        assert np.isfinite(low).all() and np.isfinite(high).all()


def test_more_draws_than_memory_holds_are_refused():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = riesz.GaussianProcessRegressor(kernel=RBF(1.0), optimizer=None).fit(X, X[:, 0])
    explanation = riesz.Explainer(model, X, covariance=True)(X[:3])
    for ask in [
        lambda n: riesz.sobol_indices(model, X, posterior=True, n_samples=n),
        lambda n: model.sample_y(X, n_samples=n),
        lambda n: explanation.sample(n),
        lambda n: explanation.probability_of_top(1, n_samples=n),
    ]:
        for count in [10**15, 2**63 - 1]:
            with pytest.raises(
                ValueError, match=f"number of draws = {count} is not allowed: .* ask for fewer"
            ):
                ask(count)


def test_orders_without_effect_are_reported():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.warns(UserWarning, match="n_orders = 30 has no effect"):
        riesz.sage_values(lambda rows: rows[:, 0], X, X[:, 0], n_orders=30)
