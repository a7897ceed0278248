"""Estimated values: of functions, and of models without exact values."""

import itertools
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas
import polars
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import PairwiseKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import riesz
from conftest import interventional, shapley
from riesz.kernels import RBF


def agree(explanation, expected):
    """Checks values within three standard errors of the truth, or within rounding if all coalitions were
    valued, and the exact sum."""
    values, errors = explanation.values, explanation.std_error
    if explanation.exactness == "exact":
        assert errors is None and explanation.certificate.holds
        np.testing.assert_allclose(values, expected, atol=1e-10)
    else:
        assert explanation.bound is None and explanation.certificate is None
        assert values.shape == errors.shape == np.shape(expected) and (errors > 0).all()
        assert (np.abs(values - expected) <= 3 * errors).all()
    total = explanation.base_values + values.sum(axis=1)
    np.testing.assert_allclose(total, explanation.predictions, atol=1e-9)


def test_models_without_product_form_are_estimated(data):
    X, y = data
    # With more columns all coalitions would cost more than permutations.
    X = np.hstack([X, np.sin(3 * X), np.cos(2 * X[:, :2])])
    label, three = (y > y.mean()).astype(int), np.digitize(y, np.quantile(y, [0.3, 0.7]))
    ovo = SVC(kernel="sigmoid", decision_function_shape="ovo").fit(X, three)
    high = KernelRidge(kernel="poly", degree=21, gamma=0.01, coef0=1.0).fit(X, y)
    latent = GaussianProcessClassifier(PairwiseKernel(metric="sigmoid", gamma=0.01), optimizer=None).fit(
        X, label
    )
    part = latent.base_estimator_
    pipeline = make_pipeline(StandardScaler(), PCA(3), SVR()).fit(X, y)
    for model, function in [
        (SVR(kernel="sigmoid", gamma=0.05).fit(X, y), None),
        (high, None),
        (KernelRidge(kernel="sigmoid", alpha=1.0).fit(X, np.column_stack([y, -(y**2)])), None),
        (KernelRidge(kernel=lambda a, b: np.tanh(a @ b)).fit(X, y), None),
        (
            OneClassSVM(kernel="sigmoid").fit(X),
            lambda rows: OneClassSVM(kernel="sigmoid").fit(X).decision_function(rows),
        ),
        (
            SVC(kernel="sigmoid").fit(X, label),
            lambda rows: SVC(kernel="sigmoid").fit(X, label).decision_function(rows),
        ),
        (ovo, ovo.decision_function),
        (latent, lambda rows: part.kernel_(rows, part.X_train_) @ (part.y_train_ - part.pi_)),
        (pipeline, None),
        (riesz.KernelRidge(kernel=riesz.kernels.Sigmoid(0.01)).fit(X, y), None),
    ]:
        function = function or model.predict
        explainer = riesz.Explainer(model, X[:4], n_orders=8, random_state=3)
        assert explainer.exactness == "estimated" and explainer.reason and "estimated" in repr(explainer)
        explanation = explainer(X[20:22])
        agree(explanation, [interventional(function, x, X[:4]) for x in X[20:22]])
        assert "estimated because" in explanation.provenance.run
    exact = riesz.Explainer(SVR().fit(X, y), X[:10])
    assert exact.exactness == "exact" and exact.reason is None


def test_any_function_weights_groups_and_outputs(data):
    X, y = data
    X = np.hstack([X, np.sin(3 * X)])
    forest = RandomForestClassifier(20, random_state=0).fit(X, np.digitize(y, [-0.5, 0.5]))
    weights = np.arange(1.0, 9.0)
    explainer = riesz.Explainer(
        forest.predict_proba,
        X[:8],
        background_weights=weights,
        n_orders=6,
        output_names=["low", "middle", "high"],
    )
    explanation = explainer(X[30:33])
    agree(explanation, [interventional(forest.predict_proba, x, X[:8], weights) for x in X[30:33]])
    assert explanation.output_names == ["low", "middle", "high"] and explanation[0, :, "low"].shape == (8,)
    np.testing.assert_array_equal(explanation[1:, "x2"].std_error, explanation.std_error[1:, 2])

    grouped = riesz.Explainer(forest.predict_proba, X[:8], groups={"pair": [1, 3]}, n_orders=6)(X[30:31])
    assert grouped.feature_names == ["x0", "pair", "x2", "x4", "x5", "x6", "x7"]
    columns = [[0], [1, 3], [2], [4], [5], [6], [7]]

    def of_groups(mask):
        mask = np.asarray(mask)
        rows = np.where(
            np.isin(np.arange(8), [c for on, group in zip(mask, columns) for c in group if on]), X[30], X[:8]
        )
        return forest.predict_proba(rows).mean(axis=0)

    agree(grouped, [shapley(of_groups, 7)])


def test_the_seed_decides_and_rows_do_not_depend_on_each_other(data):
    X, y = data
    X = np.hstack([X, np.sin(3 * X), X**2])
    model = SVR(kernel="sigmoid").fit(X, y)
    all_rows = riesz.Explainer(model, X[:5], random_state=1)(np.tile(X, (2, 1)))
    again = riesz.Explainer(model, X[:5], random_state=1)(np.tile(X, (2, 1)))
    np.testing.assert_array_equal(all_rows.values, again.values)
    np.testing.assert_array_equal(
        riesz.Explainer(model, X[:5], random_state=1)(X[:3]).values, all_rows.values[:3]
    )
    assert (riesz.Explainer(model, X[:5], random_state=2)(X[:3]).values != all_rows.values[:3]).any()
    finer = riesz.Explainer(model, X[:5], random_state=1, n_orders=70)(X[:3])
    assert finer.std_error.max() < 0.25 * all_rows.std_error[:3].max()
    assert finer.sampling.evaluations == 5 + 3 + 3 * 5 * 70 * 2 * 11 and finer.sampling.seed == 1


def test_functions_get_frames_with_their_types():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 60, 30),
            "city": pandas.Categorical(rng.choice(["Rome", "Oslo"], 30)),
            "member": rng.random(30) > 0.5,
            "name": rng.choice(["a", "b", "c"], 30),
        }
    )
    expected = frame.dtypes

    def function_of(age, city, member, name):
        return age / 10 + 1.0 * (city == "Rome") * member - 1.0 * (name == "b")

    def function(rows):
        assert list(rows.columns) == list(expected.index) and (rows.dtypes == expected).all()
        return function_of(rows["age"], rows["city"], rows["member"], rows["name"])

    def on_polars(rows):
        assert isinstance(rows, polars.DataFrame) and rows.schema == polar.schema
        return function_of(
            rows["age"].to_numpy(),
            rows["city"].to_numpy(),
            rows["member"].to_numpy(),
            rows["name"].to_numpy(),
        )

    frame.index = np.arange(30)[::-1]
    background, rows = frame[:9], frame[20:22]

    def value(x):
        def coalition_value(mask):
            mixed = background.copy()
            for j, on in enumerate(mask):
                if on:
                    mixed[frame.columns[j]] = pandas.Series(
                        [x.iloc[0, j]] * len(mixed), index=mixed.index
                    ).astype(expected.iloc[j])
            return function(mixed).mean()

        return shapley(coalition_value, 4)

    truth = [value(rows.iloc[[i]]) for i in range(2)]
    explanation = riesz.Explainer(function, background, n_orders=10)(rows)
    agree(explanation, truth)
    assert explanation.feature_names == list(frame.columns)
    polar = polars.DataFrame({name: frame[name].tolist() for name in frame})
    from_polars = riesz.Explainer(on_polars, polar[:9], n_orders=10)(polar[20:22])
    np.testing.assert_allclose(from_polars.values, explanation.values, atol=1e-12)
    # A pipeline on text columns: an encoder makes columns that a PCA then mixes.
    model = make_pipeline(OneHotEncoder(sparse_output=False), PCA(3), LinearRegression()).fit(
        frame[["city", "name"]], frame["age"]
    )
    agreed = riesz.Explainer(model.predict, frame[["city", "name"]])(frame[["city", "name"]][:2])
    assert agreed.shape == (2, 2)


def test_estimates_are_kept_in_files_pickles_plots_and_reports(data, tmp_path):
    X, y = data
    X = np.hstack([X, np.sin(3 * X)])
    explanation = riesz.Explainer(SVR(kernel="sigmoid").fit(X, y), X[:5])(X[:6])
    explanation.save(tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_bytes())["exactness"]["kind"] == "estimated"
    for copy in [riesz.Explanation.load(tmp_path / "e.json"), pickle.loads(pickle.dumps(explanation))]:
        np.testing.assert_array_equal(copy.values, explanation.values)
        np.testing.assert_array_equal(copy.std_error, explanation.std_error)
        assert copy.sampling == explanation.sampling and copy.exactness == "estimated"
        np.testing.assert_allclose(copy.residual, explanation.residual, atol=1e-12)
    assert "estimated, standard errors up to" in repr(explanation) and "<svg" in explanation._repr_html_()
    explanation.report(tmp_path / "r.html")
    assert "These values are estimates" in (tmp_path / "r.html").read_text()
    riesz.plots.waterfall(explanation[0])


def test_invalid_estimates_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="X has 3 columns, but the background has 4"):
        riesz.Explainer(lambda rows: rows["a"], pandas.DataFrame(X, columns=list("abcd")))(X[:, :3])
    poly = SVR(kernel="sigmoid").fit(X, y)
    with pytest.raises(
        riesz.UnsupportedModelError, match="given a background and the interventional or observational game"
    ):
        riesz.Explainer(poly)
    with pytest.raises(riesz.UnsupportedModelError, match="interventional or observational game"):
        riesz.Explainer(poly, X[:5], game="marginal_product")
    with pytest.raises(
        riesz.UnsupportedModelError, match="the function .*<lambda> is not known to have a kernel"
    ):
        riesz.Explainer(lambda rows: rows[:, 0])
    with pytest.raises(ValueError, match="the baseline has 2 rows, but 1 are expected"):
        riesz.Explainer(poly, X[:2], game="baseline")
    with pytest.raises(ValueError, match="n_orders = 1"):
        riesz.Explainer(poly, X[:2], n_orders=1)
    with pytest.raises(ValueError, match="random_state = -1"):
        riesz.Explainer(poly, X[:2], random_state=-1)
    with pytest.raises(ValueError, match="X has 3 columns, but the model has 4"):
        riesz.Explainer(poly, X[:2])(X[:, :3])
    for function, kind, words in [
        (lambda rows: ["?"] * len(rows), TypeError, "not numbers"),
        (lambda rows: rows[:1, 0], ValueError, "the model's answer has 1 rows, but"),
        (lambda rows: rows[:, :, None], ValueError, "shape .*: it must be"),
        (lambda rows: rows[:, 0] * np.nan, ValueError, "finite numbers for every mixture"),
        (lambda rows: 1 / 0, ZeroDivisionError, "division"),
    ]:
        with pytest.raises(kind, match=words):
            riesz.Explainer(function, X[:2])(X[:1])
    with pytest.raises(ValueError, match="there are 2 output_names, but the model has 1 outputs"):
        riesz.Explainer(lambda rows: rows[:, 0], X[:2], output_names=["a", "b"])(X[:1])
    with pytest.raises(ValueError, match="columns"):
        riesz.Explainer(poly, X[:2, :3])


def test_kernel_shap_values_functions_by_coalitions(data):
    X, y = data
    model = SVR(kernel="rbf", gamma=0.2, C=5.0).fit(X, y)
    weights = np.arange(1.0, 9.0)
    exact = riesz.Explainer(model, X[:8], background_weights=weights)(X[20:23])
    explainer = riesz.Explainer(model.predict, X[:8], background_weights=weights, estimator="kernel_shap")
    complete = explainer(X[20:23])
    # With all coalitions only rounding errors remain.
    assert explainer.exactness == complete.exactness == "exact" and complete.certificate.holds
    np.testing.assert_allclose(complete.values, exact.values, atol=1e-10)
    wide = np.hstack([X, np.sin(3 * X), X**2])
    forest = RandomForestClassifier(10, random_state=0).fit(wide, np.digitize(y, [-0.5, 0.5]))
    sampled = riesz.Explainer(forest.predict_proba, wide[:5], estimator="kernel_shap", n_coalitions=200)(
        wide[20:22]
    )
    precise = riesz.Explainer(forest.predict_proba, wide[:5], n_orders=100)(wide[20:22])
    error = np.hypot(sampled.std_error, precise.std_error)
    assert (
        sampled.exactness == "estimated"
        and (np.abs(sampled.values - precise.values) < 5 * error + 1e-9).all()
    )


def test_conditional_samplers_for_comparison(data):
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = SVR(gamma=0.2, C=5.0).fit(frame, y)
    gaussian = riesz.Explainer(
        model, frame, game=riesz.Observational(conditional="gaussian", n_conditional_samples=300)
    )
    explanation = gaussian(frame[:2])
    assert gaussian.exactness == explanation.exactness == "estimated" and (explanation.std_error > 0).all()
    mean, covariance = X.mean(axis=0), np.cov(X.T)
    rng = np.random.default_rng(0)

    def value(mask):
        mask = np.asarray(mask)
        if mask.all():
            return model.predict(frame[:1])[0]
        if not mask.any():
            return model.predict(frame).mean()
        slope = covariance[np.ix_(~mask, mask)] @ np.linalg.inv(covariance[np.ix_(mask, mask)])
        rows = np.tile(X[0], (4000, 1))
        residual = covariance[np.ix_(~mask, ~mask)] - slope @ covariance[np.ix_(mask, ~mask)]
        rows[:, ~mask] = rng.multivariate_normal(mean[~mask] + slope @ (X[0] - mean)[mask], residual, 4000)
        return model.predict(pandas.DataFrame(rows, columns=frame.columns)).mean()

    expected = shapley(value, 4)
    assert (np.abs(explanation.values[0] - expected) < 5 * explanation.std_error[0] + 0.03).all()
    for conditional, draws in (("kernel", None), ("copula", 300)):
        alternative = riesz.Explainer(
            model.predict,
            game=riesz.Observational(frame, conditional=conditional, n_conditional_samples=draws),
        )(frame[:2])
        if conditional == "copula":
            assert (
                np.abs(alternative.values - explanation.values).max() < 0.3 * np.abs(explanation.values).max()
            )
        np.testing.assert_allclose(
            alternative.base_values + alternative.values.sum(axis=1), alternative.predictions, atol=1e-9
        )
    for options, words in [
        ({"game": riesz.Observational(conditional="vine")}, "conditional = 'vine'"),
        ({"estimator": "tree"}, "estimator = 'tree'"),
        (
            {"estimator": "permutation", "game": "observational"},
            "permutations estimate the interventional game",
        ),
        ({"game": riesz.Observational(n_conditional_samples=1)}, "n_conditional_samples = 1"),
        (
            {"n_coalitions": 9},
            "n_coalitions belongs to the observational and the causal game and kernel_shap",
        ),
        (
            {"n_orders": 9, "target_std_error": 0.1},
            "target_std_error belongs to the observational and the causal game and kernel_shap",
        ),
    ]:
        with pytest.raises(ValueError, match=words):
            riesz.Explainer(model, frame, **options)
    with pytest.raises(ValueError, match="the background holds text"):
        text = frame.assign(a="x")
        riesz.Explainer(lambda rows: rows["b"], text, game="observational")(text[:1])


def test_an_estimate_is_extended_by_new_coalitions_alone(data):
    X, y = data
    wide = np.hstack([X, np.sin(3 * X), X**2])
    call_sizes = []

    def function(rows):
        call_sizes.append(len(rows))
        return model.predict(rows)

    model = SVR(gamma=0.1, C=5.0).fit(wide, y)
    frame = pandas.DataFrame(wide, columns=list("abcdefghijkl"))
    for background, rows, options in [
        (wide[:5], wide[20:22], {"estimator": "kernel_shap"}),
        (frame[:5], frame[20:22], {"estimator": "kernel_shap"}),
        (wide[:20], wide[20:22], {"game": riesz.Observational(conditional_ridge=0.01)}),
        (
            wide[:20],
            wide[20:22],
            {"game": riesz.Observational(conditional="gaussian", n_conditional_samples=5)},
        ),
    ]:
        explainer = riesz.Explainer(function, background, n_coalitions=200, **options)
        estimate = explainer(rows)
        call_sizes.clear()
        extended = explainer.refine(estimate, 600)
        added = sum(call_sizes)
        call_sizes.clear()
        once = riesz.Explainer(function, background, n_coalitions=600, **options)(rows)
        np.testing.assert_array_equal(extended.values, once.values)
        np.testing.assert_array_equal(extended.std_error, once.std_error)
        assert (
            added < 0.8 * sum(call_sizes)
            and extended.sampling.evaluations == estimate.sampling.evaluations + added
        )
        assert extended.provenance.run["coalitions valued"] == once.provenance.run["coalitions valued"]
        # The earlier estimate is unchanged, and can be extended again, up to the last coalition.
        np.testing.assert_array_equal(explainer.refine(estimate, 600).values, extended.values)
        if getattr(options.get("game"), "conditional", None) != "gaussian":
            complete = explainer.refine(extended, 4094)
            assert complete.exactness == "exact" and complete.certificate.holds
            with pytest.raises(ValueError, match="go on from: its values are exact"):
                explainer.refine(complete, 5000)
    for explanation, words in [
        (estimate[:1], "go on from: selections, files and pickles"),
        (pickle.loads(pickle.dumps(estimate)), "selections, files and pickles"),
        (once, "another explainer's"),
    ]:
        with pytest.raises(ValueError, match=words):
            explainer.refine(explanation, 1000)
    with pytest.raises(ValueError, match="coalitions = 100: it is a whole number above the .* valued"):
        explainer.refine(estimate, 100)
    permutations = riesz.Explainer(function, wide[:5], n_orders=3)
    with pytest.raises(ValueError, match="estimated from permutations"):
        permutations.refine(permutations(wide[:1]), 1000)


def test_functions_are_conditioned_through_landmarks_and_features_too(data):
    X, y = data
    model = SVR(gamma=0.1, C=5.0).fit(X, y)
    game = lambda **settings: riesz.Observational(X, conditional_ridge=0.05, **settings)
    exact = riesz.Explainer(model.predict, game=game())(X[:4]).values
    for name, near, far in [("n_conditional_landmarks", 45, 2), ("n_random_features", 3000, 3)]:
        errors = [
            np.abs(riesz.Explainer(model.predict, game=game(**{name: count}))(X[:4]).values - exact).max()
            for count in (near, far)
        ]
        assert 0 < errors[0] < 0.2 * np.abs(exact).max() and errors[0] < errors[1], (name, errors)
        for conditional in ("gaussian", "copula"):
            with pytest.raises(
                ValueError, match="ridge belongs to the observational and the causal game, whose conditional"
            ):
                riesz.Explainer(model.predict, game=game(conditional=conditional, **{name: near}))
    with pytest.raises(ValueError, match="n_conditional_samples belongs to conditional distributions"):
        riesz.Explainer(model.predict, game=game(n_conditional_samples=10))
    with pytest.raises(
        ValueError, match="cg_tol belongs to the observational and the causal game of a model"
    ):
        riesz.Explainer(model.predict, game=game(cg_tol=1e-6))


def test_few_features_are_explained_by_all_coalitions():
    f = lambda X: 12.0 * (X > 0).all(axis=1)
    for d, exact in [(1, True), (3, True), (8, True), (9, False)]:
        explainer = riesz.Explainer(f, -np.ones((1, d)))
        explanation = explainer(np.ones((2, d)))
        assert explainer.exactness == explanation.exactness == ("exact" if exact else "estimated")
        assert (explainer.reason is None) == exact and explainer.exactness in repr(explainer)
        agree(explanation, np.full((2, d), 12 / d))
        assert ("estimated because" in explanation.provenance.run) != exact
    with pytest.raises(ValueError, match="its values are exact"):
        explainer = riesz.Explainer(f, -np.ones((1, 3)))
        explainer.refine(explainer(np.ones((1, 3))), 100)


def test_settings_without_a_use_are_refused(data):
    X, y = data
    exact, estimated = SVR().fit(X, y), SVR(kernel="sigmoid").fit(X, y)
    tied = riesz.KernelRidge(kernel=riesz.kernels.Sigmoid(0.01)).fit(X, y)
    for option, words in [
        ({"n_orders": 9}, "n_orders belongs to the estimator by permutations"),
        (
            {"n_coalitions": 9},
            "n_coalitions belongs to the observational and the causal game and kernel_shap",
        ),
    ]:
        for background in (None, X[:5]):
            with pytest.raises(ValueError, match=words):
                riesz.Explainer(exact, background, **option)
        if "n_coalitions" not in option:
            for model in (estimated, tied, estimated.predict):
                riesz.Explainer(model, X[:5], **option)
    # A seed is allowed where nothing is drawn, so that all models take the same arguments.
    seeded, plain = (riesz.Explainer(exact, X[:5], **option)(X[:2]) for option in ({"random_state": 0}, {}))
    assert (seeded.values == plain.values).all()
    game = riesz.Observational(X, n_conditional_landmarks=5, conditional_ridge=0.1)
    first, other, again = (riesz.Explainer(exact, game=game, random_state=s)(X[:2]).values for s in (1, 2, 1))
    assert (first != other).any() and (first == again).all()
    riesz.Explainer(exact.predict, X[:5], estimator="permutation", n_orders=9, random_state=4)


def test_invalid_rows_are_refused(data):
    X, y = data
    model = SVR().fit(X, y)
    masked = np.ma.masked_array(X[:5], mask=X[:5] > 1)
    for background, rows, words in [
        (masked, X, "background has masked cells"),
        (X[:5], masked, "X has masked cells"),
        (
            lambda mask, x: x,
            X,
            "background is a builtins.function: give an array or data frame of rows, as the data",
        ),
    ]:
        for explained in (model, model.predict):
            with pytest.raises(ValueError, match=words):
                riesz.Explainer(explained, background)(rows)
    # An array without masked entries is accepted.
    riesz.Explainer(model, np.ma.masked_array(X[:5]))(X[:1])


def test_answers_at_the_background_are_in_the_bound():
    rng = np.random.default_rng(0)
    f = lambda X: np.where((X < 0).all(axis=1), 1e8 * (1 + 0.1 * X[:, 0]), 1.0)
    for n in (7, 100, 1000):
        background = -rng.random((n, 3))
        explanation = riesz.Explainer(f, background, estimator="kernel_shap")(np.ones((1, 3)))
        truth = (1 - Fraction(sum(map(Fraction, f(background)))) / n) / 3
        error = max(abs(Fraction(v) - truth) for v in explanation.values[0])
        assert error <= explanation.bound.max() < 1e-4, (float(error), explanation.bound)


@pytest.mark.parametrize("d", [3, 5, 6])
def test_the_matrix_of_all_coalitions(d):
    """The normal equations of KernelSHAP's regression over all coalitions but the empty and the full one."""
    masks = np.array(list(itertools.product([0.0, 1.0], repeat=d)))[1:-1]
    sizes = masks.sum(axis=1)
    weights = (d - 1) / (np.array([math.comb(d, int(s)) for s in sizes]) * sizes * (d - sizes))
    matrix = masks.T @ (weights[:, None] * masks)
    constant = matrix[0, 1]
    np.testing.assert_allclose(matrix - constant, (d - 1) / d * np.eye(d), atol=1e-12)


@pytest.mark.parametrize("estimator", ["kernel_shap", "permutation"])
def test_the_published_example_of_kernel_shap(estimator):
    """The bicycle example of the slides of the LMU course on interpretable machine learning: humidity,
    temperature and wind speed have the values 34, -1654 and -323."""
    games = {(0, 0, 0): 4515, (1, 0, 0): 4635, (0, 1, 0): 3087, (0, 0, 1): 4359}
    games |= {(1, 1, 0): 3060, (0, 1, 1): 2623, (1, 0, 1): 4450, (1, 1, 1): 2573}
    count = lambda rows: np.array([games[tuple(row)] for row in rows.astype(int)], float)
    explanation = riesz.Explainer(count, np.zeros((1, 3)), estimator=estimator)(np.ones((1, 3)))
    assert explanation.base_values[0] == 4515 and explanation.predictions[0] == 2573
    np.testing.assert_allclose(explanation.values[0], [34, -1653.5, -322.5], atol=1e-9)
    np.testing.assert_allclose(explanation.values[0], [34, -1654, -323], atol=0.51)


def test_the_normalised_functional_game():
    """With 0 for the empty coalition, all values of the functional game grow by the same share of the sum of
    coefficients."""
    rng = np.random.default_rng(2)
    points, coef, x = rng.normal(size=(8, 4)), rng.normal(size=8), rng.normal(size=4)
    factors = np.exp(-((points - x) ** 2) / 2)
    value = lambda mask: np.prod(factors[:, mask], axis=1) @ coef if mask.any() else 0.0
    model = riesz.Expansion(RBF([1.0] * 4), points=points, coef=coef)
    explanation = riesz.Explainer(model, game="functional")(x[None])
    assert explanation.base_values[0] == pytest.approx(coef.sum())
    np.testing.assert_allclose(explanation.values[0] + coef.sum() / 4, shapley(value, 4), atol=1e-12)
