"""All scikit-learn models that riesz reads, against the enumeration of all coalitions with the models' own
predictions."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import shap
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import riesz
from conftest import interventional, shapley
from riesz._models.scikit_learn_kernels import gp_kernel


def gp(kernel, **settings):
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-2, **settings)


ARD = RBF([1.0, 2.0, 0.7, 1.5])
REGRESSORS = {
    "krr rbf": KernelRidge(kernel="rbf", alpha=0.1, gamma=0.3),
    "krr rbf, default gamma": KernelRidge(kernel="rbf", alpha=0.1),
    "krr laplacian": KernelRidge(kernel="laplacian", alpha=0.1, gamma=0.2),
    "krr linear": KernelRidge(kernel="linear", alpha=0.1),
    "krr of a gp kernel": KernelRidge(kernel=2.0 * ARD + DotProduct(0.5), alpha=0.1),
    "svr scale": SVR(),
    "svr auto": SVR(gamma="auto", C=5),
    "svr linear": SVR(kernel="linear"),
    "nusvr": NuSVR(gamma=0.4),
    "gp iso": gp(RBF(1.3)),
    "gp ard": gp(2.0 * ARD),
    "gp normalised, white": gp(ConstantKernel(1.7) * ARD + WhiteKernel(0.1), normalize_y=True),
    "gp sum of products": gp(RBF(1.0) * DotProduct(0.8) + 0.5 * RBF(3.0) + ConstantKernel(0.2)),
    "gp matern inf": gp(Matern(1.2, nu=float("inf"))),
    "gp power": gp(Exponentiation(ARD, 2)),
    "gp root": gp(1.7 * Exponentiation(2.0 * ARD, 0.5)),
    "gp power of a sum": gp(Exponentiation(RBF(1.4) + DotProduct(0.3), 2)),
    "gp pairwise rbf": gp(PairwiseKernel(metric="rbf", gamma=0.4)),
    "gp pairwise laplacian, rooted": gp(Exponentiation(PairwiseKernel(metric="laplacian", gamma=0.4), 0.5)),
    "gp pairwise linear": gp(PairwiseKernel(metric="linear") + WhiteKernel(0.1)),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, data):
    X, y = data
    model = clone(REGRESSORS[name]).fit(X, y)
    explanation = riesz.Explainer(model, background=X[:9])(X[20:23])
    assert explanation.certificate.holds
    for i, x in enumerate(X[20:23]):
        np.testing.assert_allclose(explanation.values[i], interventional(model.predict, x, X[:9]), atol=1e-10)
    np.testing.assert_allclose(explanation.predictions, model.predict(X[20:23]), atol=1e-9)
    np.testing.assert_allclose(explanation.base_values, model.predict(X[:9]).mean(), atol=1e-9)


def test_several_outputs(data):
    X, y = data
    Y = np.column_stack([y, y**2, -y])
    for model in [KernelRidge(kernel="rbf", alpha=0.1), gp(ARD, normalize_y=True)]:
        model.fit(X, Y)
        explanation = riesz.Explainer(model, background=X[:7])(X[30:32])
        assert explanation.values.shape == (2, 4, 3) and explanation.base_values.shape == (2, 3)
        for i, x in enumerate(X[30:32]):
            np.testing.assert_allclose(
                explanation.values[i], interventional(model.predict, x, X[:7]), atol=1e-9
            )


@pytest.mark.parametrize("kind", [SVC, NuSVC, OneClassSVM])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_binary_svms_explain_the_decision_function(kind, kernel, data):
    X, y = data
    model = kind(kernel=kernel).fit(X, np.where(y > np.median(y), "high", "low"))
    explainer = riesz.Explainer(model, background=X[:7])
    explanation = explainer(X[:3])
    for i in range(3):
        np.testing.assert_allclose(
            explanation.values[i], interventional(model.decision_function, X[i], X[:7]), atol=1e-10
        )
    if kind is not OneClassSVM:
        assert explanation.output_names == ["low"]
        assert "decision function (positive for class 'low'" in repr(explainer)


def test_multiclass_svms_explain_each_pair(data):
    X, y = data
    classes = np.array(["a", "b", "c", "d"])[np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))]
    model = SVC(decision_function_shape="ovo").fit(X, classes)
    pairs = ["a vs b", "a vs c", "a vs d", "b vs c", "b vs d", "c vs d"]
    explanation = riesz.Explainer(model, X[:7])(X[:2])
    assert explanation.output_names == pairs
    for i in range(2):
        np.testing.assert_allclose(
            explanation.values[i], interventional(model.decision_function, X[i], X[:7]), atol=1e-10
        )
    # With one-vs-rest scores, the default, there is also a sum for each class, which scikit-learn squashes
    # and adds to votes.
    model = clone(model).set_params(decision_function_shape="ovr").fit(X, classes)
    combined = riesz.Explainer(model, X[:7])(X)
    assert combined.output_names == [*pairs, "a", "b", "c", "d"] and combined.certificate.holds
    np.testing.assert_allclose(combined[:2, :, :6].values, explanation.values, atol=1e-12)
    sums = combined[:, :, 6:].predictions
    votes = np.stack(
        [
            sum(combined[:, :, p].predictions * (1 if p[0] == c else -1) > 0 for p in pairs if c in p)
            for c in "abcd"
        ],
        1,
    )
    np.testing.assert_allclose(model.decision_function(X), votes + sums / (3 * (np.abs(sums) + 1)), atol=1e-9)
    # riesz's own classifier has the same values.
    ours = riesz.Explainer(riesz.SVC(tol=1e-10).fit(X, classes), X[:7])(X[:2])
    theirs = riesz.Explainer(SVC(tol=1e-10).fit(X, classes), X[:7])(X[:2])
    assert ours.output_names == combined.output_names
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)


def test_gaussian_process_classifiers_explain_the_latent_function(data):
    X, y = data
    model = GaussianProcessClassifier(1.5 * ARD, optimizer=None).fit(X, y > np.median(y))
    explanation = riesz.Explainer(model, X[:7])(X[:2])
    fitted = model.base_estimator_
    latent = lambda rows: fitted.kernel_(rows, fitted.X_train_) @ (fitted.y_train_ - fitted.pi_)
    for i in range(2):
        np.testing.assert_allclose(explanation.values[i], interventional(latent, X[i], X[:7]), atol=1e-10)
    # The sign of the latent mean is the predicted class.
    assert ((explanation.predictions > 0) == model.predict(X[:2])).all()

    classes = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    model = GaussianProcessClassifier(1.5 * ARD, optimizer=None).fit(X, classes)
    explanation = riesz.Explainer(model, X[:7])(X[:2])
    assert explanation.values.shape == (2, 4, 3) and explanation.output_names == ["0", "1", "2"]
    for o, fitted in enumerate(model.base_estimator_.estimators_):
        latent = lambda rows: fitted.kernel_(rows, fitted.X_train_) @ (fitted.y_train_ - fitted.pi_)
        np.testing.assert_allclose(
            explanation[0, :, o].values, interventional(latent, X[0], X[:7]), atol=1e-10
        )
    model = clone(model).set_params(multi_class="one_vs_one").fit(X, classes)
    explanation = riesz.Explainer(model, X[:7])(X)
    assert explanation.output_names == ["1 vs 0", "2 vs 0", "2 vs 1"] and explanation.certificate.holds
    for o, fitted in enumerate(model.base_estimator_.estimators_):
        latent = lambda rows: fitted.kernel_(rows, fitted.X_train_) @ (fitted.y_train_ - fitted.pi_)
        np.testing.assert_allclose(
            explanation[:2, :, o].values[0], interventional(latent, X[0], X[:7]), atol=1e-10
        )
        # Positive for the first class of the pair.
        won = explanation[:, :, o].predictions > 0
        assert (won == fitted.predict(X)).all()


def test_shaps_enumerated_kernel_explainer_agrees(data):
    X, y = data
    model = SVR(C=3).fit(X, y)
    theirs = shap.KernelExplainer(model.predict, X[:10]).shap_values(
        X[:4], nsamples=1000, l1_reg=False, silent=True
    )
    np.testing.assert_allclose(riesz.Explainer(model, X[:10])(X[:4]).values, theirs, atol=1e-8)


def test_shapiqs_product_kernel_explainer_agrees(data):
    from shapiq.explainer.product_kernel import ProductKernelExplainer

    X, y = data
    for model in [SVR(C=3).fit(X, y), gp(RBF(1.4)).fit(X, y)]:
        theirs = ProductKernelExplainer(model=model, max_order=1)
        ours = riesz.Explainer(model, game="functional")(X[:3]).values
        for i in range(3):
            values = theirs.explain(X[i]).get_n_order_values(1)
            np.testing.assert_allclose(ours[i], values, atol=1e-8)


def test_functional_and_marginal_product_games(data):
    X, y = data
    model = gp(1.3 * ARD).fit(X, y)
    x, background, scales = X[3], X[:6], np.array([1.0, 2.0, 0.7, 1.5])
    factor = lambda points, row: np.exp(-0.5 * ((points - row) / scales) ** 2)
    absent = {
        "functional": np.ones(4),
        "marginal_product": np.mean([factor(X, b) for b in background], axis=0),
    }
    for game, b in absent.items():
        rows = None if game == "functional" else background
        explanation = riesz.Explainer(model, rows, game=game)(X[3:4])
        value = lambda mask: 1.3 * np.prod(np.where(mask, factor(X, x), b), axis=1) @ model.alpha_
        np.testing.assert_allclose(explanation.values[0], shapley(value, 4), atol=1e-11)
    baseline = riesz.Explainer(model, X[:1], game="baseline")(X[3:4])
    np.testing.assert_allclose(baseline.values[0], interventional(model.predict, x, X[:1]), atol=1e-11)


def test_groups_and_weights(data):
    X, y = data
    model = SVR().fit(X, y)
    weights = np.arange(1.0, 6.0)
    explanation = riesz.Explainer(model, X[:5], groups={"pair": [1, 3]}, background_weights=weights)(X[9:10])
    assert explanation.feature_names == ["x0", "pair", "x2"]
    players = [[0], [1, 3], [2]]

    def value(mask):
        columns = [j for on, group in zip(mask, players) if on for j in group]
        mixed = X[:5].copy()
        mixed[:, columns] = X[9, columns]
        return weights @ model.predict(mixed) / weights.sum()

    np.testing.assert_allclose(explanation.values[0], shapley(value, 3), atol=1e-11)


def test_models_and_rows_may_be_sparse(data):
    X, y = data
    X = np.where(np.abs(X) > 1, X, 0.0)
    for model in [SVR(), SVC(), OneClassSVM()]:
        target = y > 0 if isinstance(model, SVC) else y
        dense, sparse = clone(model).fit(X, target), clone(model).fit(csr_matrix(X), target)
        expected = riesz.Explainer(dense, X[:8])(X[:3]).values
        actual = riesz.Explainer(sparse, csr_matrix(X[:8]))(csr_matrix(X[:3])).values
        np.testing.assert_allclose(actual, expected, atol=1e-7)


def test_isotropic_kernels_are_exact(data):
    X, y = data
    for kernel in [
        Matern(1.2, nu=1.5),
        Matern([1.0, 2.0, 1.0, 1.0], nu=2.5),
        RationalQuadratic(1.1, 0.7),
        Matern(nu=0.5),
        Matern(1.3, nu=0.7),
        Matern(1.3, nu=3.5),
    ]:
        model = gp(kernel).fit(X, y)
        expected = [interventional(model.predict, x, X[:5]) for x in X[:2]]
        np.testing.assert_allclose(riesz.Explainer(model, X[:5])(X[:2]).values, expected, atol=1e-8)
        grouped = riesz.Explainer(model, X[:5], groups={"all": range(4)})(X[:2])
        expected = model.predict(X[:2]) - model.predict(X[:5]).mean()
        np.testing.assert_allclose(grouped.values[:, 0], expected, atol=1e-10)
        single = gp(clone(kernel).set_params(length_scale=1.2)).fit(X[:, :1], y)
        explanation = riesz.Explainer(single, X[:5, :1])(X[:2, :1])
        expected = single.predict(X[:2, :1]) - single.predict(X[:5, :1]).mean()
        np.testing.assert_allclose(explanation.values[:, 0], expected, atol=1e-10)
    periodic = gp(ExpSineSquared(0.9, 2.1)).fit(X[:, :1], y)
    explanation = riesz.Explainer(periodic, X[:5, :1])(X[:2, :1])
    np.testing.assert_allclose(explanation.predictions, periodic.predict(X[:2, :1]), atol=1e-10)


def test_causes_of_inexact_values_are_named(data):
    X, y = data
    for model, culprit in [
        (KernelRidge(kernel="sigmoid"), "'sigmoid'"),
        (SVR(kernel="sigmoid"), "'sigmoid'"),
        (KernelRidge(kernel="chi2", alpha=1, gamma=1.0), "'chi2'"),
        (SVR(kernel=lambda a, b: a @ b.T), "a callable"),
        (gp(PairwiseKernel(metric="chi2")), "the kernel of the PairwiseKernel is 'chi2'"),
        (KernelRidge(kernel=Exponentiation(DotProduct(), 0.5)), "exponent 0.5"),
        (KernelRidge(kernel=Exponentiation(RBF(), -1.0)), "exponent -1"),
        (gp(ExpSineSquared() + WhiteKernel(5.0)), "ExpSineSquared.* of one column"),
        (RandomForestRegressor(3), "RandomForestRegressor"),
        (object(), "object"),
    ]:
        fitted = model.fit(np.abs(X), y) if hasattr(model, "fit") else model
        with pytest.raises(riesz.UnsupportedModelError, match=culprit):
            riesz.Explainer(fitted)
    with pytest.raises(riesz.UnsupportedModelError, match="precomputed"):
        riesz.Explainer(SVR(kernel="precomputed").fit(X @ X.T, y), X @ X.T)
    for model in [SVR(), KernelRidge(), GaussianProcessRegressor()]:
        with pytest.raises(NotFittedError):
            riesz.Explainer(model)


def test_powers_and_products_of_kernels_are_those_of_scikit_learn():
    rng = np.random.default_rng(11)
    positive = lambda: float(10.0 ** rng.uniform(-1, 1))
    parts = [
        lambda: RBF(rng.uniform(0.5, 3.0, 3)),
        lambda: ConstantKernel(positive()),
        lambda: PairwiseKernel(gamma=positive(), metric="laplacian"),
        lambda: PairwiseKernel(gamma=positive(), metric="rbf"),
        lambda: RationalQuadratic(positive(), positive()),
        lambda: Matern(positive(), nu=rng.choice([0.5, np.inf])),
    ]
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    for _ in range(200):
        kernel = parts[rng.integers(6)]() * Exponentiation(parts[rng.integers(6)](), positive())
        kernel = (
            Exponentiation(kernel, positive())
            if rng.random() < 0.7
            else Exponentiation(kernel + DotProduct(positive()), 2)
        )
        ours = riesz.Expansion(gp_kernel(kernel, 3), X, np.eye(6)).predict(Z)
        np.testing.assert_allclose(ours, kernel(Z, X), rtol=1e-10)
    # A list of several kernels for several models doesn't apply to one model.
    model = gp(RBF()).fit(X, X[:, 0])
    model.kernel_ = CompoundKernel([RBF(), RBF()])
    with pytest.raises(riesz.UnsupportedModelError, match="the kernel has a part .*CompoundKernel"):
        riesz.Explainer(model)


def test_other_estimators_are_refused_with_advice(data):
    X, y = data
    with pytest.raises(
        riesz.UnsupportedModelError,
        match="RandomForestRegressor is not a kernel model .* with standard errors, given a background",
    ):
        riesz.Explainer(RandomForestRegressor(3).fit(X, y))


def test_kernels_that_riesz_does_not_know_are_estimated(data):
    X, y = data
    model = gp(Matern(nu=200)).fit(X, y)
    with pytest.raises(riesz.UnsupportedModelError, match="nu = 200 is not allowed: it is a number from"):
        riesz.Explainer(model)
    assert riesz.Explainer(model, X[:5]).exactness == "exact"
    wide = np.hstack([X, np.sin(3 * X)])
    explainer = riesz.Explainer(gp(Matern(nu=200)).fit(wide, y), wide[:5])
    assert explainer.exactness == "estimated" and "nu = 200" in explainer.reason


@pytest.mark.filterwarnings("error")
def test_models_fitted_on_frames_are_read_without_warnings(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    for model, target in [(SVC(), y > 0), (SVR(), y), (KernelRidge(kernel="rbf"), y), (gp(ARD), y)]:
        assert riesz.Explainer(model.fit(frame, target), frame[:5])(frame[:2]).certificate.holds


def test_nullable_columns_are_numbers(data):
    X, y = data
    plain = pd.DataFrame(X, columns=list("abcd")).assign(c=lambda frame: frame.c.round(0))
    explainer = riesz.Explainer(SVR().fit(X, y), plain[:5])
    nullable = plain.astype({"b": "Float64", "c": "Int64"})
    np.testing.assert_array_equal(explainer(nullable[:3]).values, explainer(plain[:3]).values)
    nullable.iloc[1, 2] = pd.NA
    with pytest.raises(ValueError, match="X is nan in row 1 "):
        explainer(nullable[:3])


def test_explainers_are_copied_and_pickled(data, tmp_path):
    X, y = data
    riesz.Expansion(riesz.kernels.RBF(), X, y).save(tmp_path / "m.riesz")
    shared = {
        "groups": {"pair": [1, 3]},
        "background_weights": np.arange(1.0, 6.0),
        "n_jobs": 1,
        "output_names": ["price"],
    }
    for model, options in [
        (SVR().fit(X, y), shared),
        (make_pipeline(StandardScaler(), SVR()).fit(X, y), shared),
        (
            SVR(kernel="sigmoid").fit(X, y),
            {"random_state": 3, "estimator": "kernel_shap", "target_std_error": 9.0, **shared},
        ),
        (tmp_path / "m.riesz", shared),
    ]:
        explainer = riesz.Explainer(model, X[:5], **options)
        expected = explainer(X[:3])
        for again in (copy.deepcopy(explainer), pickle.loads(pickle.dumps(explainer))):
            actual = again(X[:3])
            np.testing.assert_array_equal(actual.values, expected.values)
            assert actual.feature_names == expected.feature_names and actual.output_names == ["price"]
            assert again.exactness == explainer.exactness and repr(again) == repr(explainer)


def test_a_model_changed_after_fitting_is_not_explained_as_another(data):
    X, y = data
    model = KernelRidge(kernel="rbf", gamma=0.3).fit(X, y)
    assert riesz.Explainer(model)(X[:1]).certificate.holds
    model.predict = lambda rows: np.zeros(len(rows))
    with pytest.raises(riesz.UnsupportedModelError, match="another model"):
        riesz.Explainer(model)


def test_a_model_without_support_vectors_is_a_constant(data):
    X, y = data
    explanation = riesz.Explainer(SVR(epsilon=1e9).fit(X, y), X[:5])(X[:2])
    assert (explanation.values == 0).all() and explanation.certificate.holds
