"""riesz's estimators: scikit-learn's contract, and scikit-learn's own estimators on the same data."""

import contextlib
import io
import os
import pathlib
import pickle
import subprocess
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import gaussian_process, kernel_ridge, svm
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import riesz
from riesz.kernels import RBF, Constant, Linear, Matern

#: The command line, if `cargo build` or `cargo test` has built it.
TARGET = os.environ.get("CARGO_TARGET_DIR") or pathlib.Path(__file__).resolve().parents[2] / "target"
COMMAND = pathlib.Path(TARGET) / "debug" / "riesz"

#: Within LIBSVM's default tolerance, equivalent problems may have different solutions. scikit-learn excludes
#: them from the checks of its own SVC and SVR.
LOOSE = {f"check_sample_weight_equivalence_on_{kind}_data": "within tol only" for kind in ("dense", "sparse")}

ESTIMATORS = [
    (riesz.KernelRidge(), None),
    (riesz.KernelRidge(kernel="rbf", gamma="scale"), None),
    (riesz.KernelRidge(kernel=2.0 * RBF(1.5) + Linear()), None),
    (riesz.KernelLogisticRegression(), None),
    (riesz.SVR(), LOOSE),
    (riesz.SVR(tol=1e-12), None),
    (riesz.SVC(), LOOSE),
    (riesz.SVC(tol=1e-12), None),
    (riesz.GaussianProcessRegressor(), None),
    (riesz.GaussianProcessRegressor(n_inducing=10), None),
    (riesz.GaussianProcessClassifier(), None),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "expected"), ESTIMATORS, ids=lambda e: repr(e)[:60])
def test_the_contract(estimator, expected):
    check_estimator(estimator, expected_failed_checks=expected, on_skip=None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [svm.SVC(), svm.SVR()])
def test_scikit_learn_fails_what_is_expected_to_fail(estimator):
    failed = {
        check["check_name"]
        for check in check_estimator(estimator, on_fail=None, on_skip=None)
        if check["status"] == "failed"
    }
    assert failed >= LOOSE.keys()


@pytest.fixture
def regression(data):
    X, y = data
    return X, y, np.column_stack([y, y**2]), np.arange(1.0, 51.0) / 25


@pytest.mark.parametrize(
    "settings", [{"kernel": "rbf", "gamma": 0.3}, {"kernel": "laplacian", "gamma": 0.2}, {"kernel": "linear"}]
)
def test_kernel_ridge(settings, regression):
    X, y, Y, weights = regression
    for target in (y, Y):
        for sample_weight in (None, weights):
            theirs = kernel_ridge.KernelRidge(alpha=0.2, **settings).fit(X, target, sample_weight)
            ours = riesz.KernelRidge(alpha=0.2, **settings).fit(X, target, sample_weight)
            np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-9)
            np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-8)


@pytest.mark.parametrize(
    "settings", [{}, {"gamma": "auto", "C": 20.0}, {"kernel": "linear"}, {"kernel": "poly", "coef0": 1.0}]
)
def test_support_vector_machines(settings, regression):
    # LIBSVM stores kernel values in single precision.
    near = dict(rtol=2e-5, atol=1e-5)
    X, y, _, weights = regression
    classes = np.array(["low", "middle", "high"])[np.digitize(y, [-0.4, 0.5])]
    settings = {**settings, "tol": 1e-7}
    theirs, ours = svm.SVR(**settings).fit(X, y), riesz.SVR(**settings).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), **near)
    if "gamma" in settings:  # scikit-learn's "scale" does not know the weights
        theirs, ours = svm.SVR(**settings).fit(X, y, weights), riesz.SVR(**settings).fit(X, y, weights)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), **near)
    for target in (classes, classes == "low"):
        for class_weight in (None, "balanced"):
            theirs = svm.SVC(class_weight=class_weight, **settings).fit(X, target)
            ours = riesz.SVC(class_weight=class_weight, **settings).fit(X, target)
            np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), **near)
            assert (ours.predict(X) == theirs.predict(X)).all()
    weighted = riesz.SVC(class_weight={"low": 3.0}, **settings).fit(X, classes)
    theirs = svm.SVC(class_weight={"low": 3.0}, **settings).fit(X, classes)
    np.testing.assert_allclose(weighted.decision_function(X), theirs.decision_function(X), **near)


@pytest.mark.parametrize("machine", ["SVC", "SVR"])
def test_support_vectors_of_one_hot_columns_are_scikit_learns(machine):
    """More rows than a working set, where most numbers of a column are equal."""
    rng = np.random.default_rng(5)
    levels = rng.geometric(0.4, size=(1500, 4)).clip(max=9)
    X = np.hstack(
        [levels[:, [j]] == np.arange(1, 10) for j in range(4)] + [rng.normal(size=(1500, 2))]
    ).astype(float)
    y = levels[:, 0] % 2 + np.sin(X[:, -1]) + 0.4 * rng.normal(size=1500)
    settings = dict(C=5.0, gamma=0.2, tol=1e-7)
    theirs = getattr(svm, machine)(**settings).fit(X, y > 0.7 if machine == "SVC" else y)
    ours = getattr(riesz, machine)(**settings).fit(X, y > 0.7 if machine == "SVC" else y)
    values = [m.decision_function(X) if machine == "SVC" else m.predict(X) for m in (theirs, ours)]
    np.testing.assert_allclose(values[1], values[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(ours.support_, theirs.support_)


def test_logistic_regressions_that_stop_early_warn(regression):
    X, y, _, _ = regression
    for target in (y > 0, np.digitize(y, [-0.5, 0.5])):
        model = riesz.KernelLogisticRegression(alpha=1e-3, max_iter=2)
        # The remedies are arguments of Python.
        with pytest.warns(
            ConvergenceWarning,
            match="stopped at max_iter = 2, before it converged: raise the penalty or max_iter$",
        ):
            model.fit(X, target)
        early, steps = model.predict_proba(X), model.n_iter_
        model.set_params(max_iter=100).fit(X, target)
        np.testing.assert_allclose(early.sum(axis=1), 1.0)
        assert steps == 2 < model.n_iter_ < 100 and np.abs(early - model.predict_proba(X)).max() > 1e-6
        riesz.Explainer(model, X[:5])(X[:2])


def test_processes_have_the_kernel_that_was_tuned(regression):
    X, y, _, _ = regression
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"][: X.shape[1]])
    for kernel, fixed in [
        (None, False),
        (Constant(2.0) * Matern(1.0, nu=2.5, columns=["a", "b"]) + 0.5 * Linear(), False),
        (Constant(0.3) + RBF([1.0] * X.shape[1]) * riesz.kernels.Periodic(2.0, 3.0, columns=["c"]), False),
        (
            riesz.kernels.RationalQuadratic(1.5, 0.7, isotropic=False) + 1e-3 * riesz.kernels.Polynomial(2),
            True,
        ),
        (riesz.kernels.Laplacian(2.0) * riesz.kernels.Cauchy(3.0, columns=["d"]) + Matern(2.0, nu=0.5), True),
    ]:
        process = riesz.GaussianProcessRegressor(
            kernel, alpha=0.1, optimizer=None if fixed else "fmin_l_bfgs_b"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(frame, y)
        # The same process from its parts.
        again = riesz.GaussianProcessRegressor(
            process.kernel_, alpha=process.noise_, optimizer=None, normalize_y=False
        )
        again.fit(frame, y - y.mean())
        np.testing.assert_allclose(
            again.predict(frame) + y.mean(), process.predict(frame), rtol=1e-6, atol=1e-8
        )
        assert pickle.loads(pickle.dumps(process)).kernel_ == process.kernel_
    classifier = riesz.GaussianProcessClassifier().fit(X, y > 0)
    again = riesz.GaussianProcessClassifier(classifier.kernel_, optimizer=None).fit(X, y > 0)
    np.testing.assert_allclose(again.predict_proba(X), classifier.predict_proba(X), atol=1e-8)
    assert repr(classifier.kernel_).startswith("Constant(") and "RBF(length_scale=" in repr(
        classifier.kernel_
    )
    with pytest.raises(AttributeError):
        riesz.GaussianProcessClassifier().kernel_  # noqa: B018


def test_support_vector_machines_that_stop_early_warn(regression):
    X, y, _, _ = regression
    for model, theirs, target in [
        (riesz.SVR(C=100.0), svm.SVR(C=100.0), y),
        (riesz.SVC(C=100.0), svm.SVC(C=100.0), y > 0),
    ]:
        scores = []
        for steps in (1, 100_000):
            message = (
                f"stopped at max_iter = {steps}, before it converged: .* lower C, raise tol or raise max_iter"
            )
            with pytest.warns(ConvergenceWarning, match=message) if steps == 1 else contextlib.nullcontext():
                model.set_params(max_iter=steps).fit(X, target)
            scores.append(model.score(X, target))
        assert scores[0] < scores[1] and np.all(model.n_iter_ > 1)
        np.testing.assert_allclose(1.0 * model.predict(X), 1.0 * theirs.fit(X, target).predict(X), atol=0.01)


def test_kernel_logistic_regression_with_a_linear_kernel_is_logistic_regression(regression):
    X, y, _, weights = regression
    for target in (y > 0, np.digitize(y, [-0.4, 0.5])):
        theirs = LogisticRegression(C=2.0, tol=1e-12, max_iter=10_000).fit(X, target, weights)
        ours = riesz.KernelLogisticRegression(alpha=0.5, kernel="linear").fit(X, target, weights)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
        assert (ours.predict(X) == theirs.predict(X)).all()


def test_gaussian_process_regression(regression):
    X, y, Y, _ = regression
    new = X[:7] + 0.3
    for target in (y, Y):
        for normalize in (True, False):
            kernel = sk.ConstantKernel(1.5) * sk.RBF([1.0, 2.0, 0.7, 1.5])
            theirs = gaussian_process.GaussianProcessRegressor(
                kernel, alpha=0.1, optimizer=None, normalize_y=normalize
            )
            ours = riesz.GaussianProcessRegressor(
                Constant(1.5) * RBF([1.0, 2.0, 0.7, 1.5]), alpha=0.1, optimizer=None, normalize_y=normalize
            )
            theirs.fit(X, target), ours.fit(X, target)
            again = pickle.loads(pickle.dumps(ours))
            for option in ("return_std", "return_cov"):
                expected = theirs.predict(new, **{option: True})
                for estimator in (ours, again):
                    for a, b in zip(estimator.predict(new, **{option: True}), expected):
                        np.testing.assert_allclose(a, b, atol=1e-8)
    # Tuning from the same start finds the same optimum.
    theirs = gaussian_process.GaussianProcessRegressor(
        sk.ConstantKernel(1.0) * sk.RBF([1.0] * 4), alpha=0.1
    ).fit(X, y)
    ours = riesz.GaussianProcessRegressor(Constant(1.0) * RBF([1.0] * 4), alpha=0.1, normalize_y=False).fit(
        X, y
    )
    assert ours.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 1e-3
    with pytest.raises(ValueError, match="choose one"):
        ours.predict(X, return_std=True, return_cov=True)


def test_gaussian_processes_through_landmarks(regression, tmp_path):
    X, y, Y, _ = regression
    new = X[:7] + 0.3
    kernel = Constant(1.5) * RBF([1.0, 2.0, 0.7, 1.5])
    for target in (y, Y):
        settings = {"kernel": kernel, "alpha": 0.1, "optimizer": None}
        exact = riesz.GaussianProcessRegressor(**settings).fit(X, target)
        sparse, all_rows = (
            riesz.GaussianProcessRegressor(**settings, n_inducing=m).fit(X, target) for m in (12, len(X))
        )
        # If each row is a landmark, it is the same process.
        for option in ("return_std", "return_cov"):
            for a, b in zip(all_rows.predict(new, **{option: True}), exact.predict(new, **{option: True})):
                np.testing.assert_allclose(a, b, atol=1e-6)
        value = exact.log_marginal_likelihood_value_
        np.testing.assert_allclose(all_rows.log_marginal_likelihood_value_, value, rtol=1e-6)
        assert sparse.log_marginal_likelihood_value_ < value
        assert sparse.expansion_.points.shape == (12, X.shape[1])
        assert (sparse.predict(new, return_std=True)[1] > 0).all()
        sparse.save(tmp_path / "m.riesz", posterior=True)
        loaded = riesz.Expansion.load(tmp_path / "m.riesz")
        for a, b in zip(loaded.predict(new, return_std=True), sparse.predict(new, return_std=True)):
            np.testing.assert_allclose(a, b.reshape(a.shape), rtol=1e-9)
    # Tuning increases the bound.
    tuned = riesz.GaussianProcessRegressor(kernel, n_inducing=12).fit(X, y)
    fixed = riesz.GaussianProcessRegressor(kernel, n_inducing=12, alpha=0.1, optimizer=None).fit(X, y)
    assert tuned.log_marginal_likelihood_value_ > fixed.log_marginal_likelihood_value_
    assert tuned.noise_ > 0


def test_gaussian_process_classification(regression):
    X, y, _, _ = regression
    for target in (y > 0, np.digitize(y, [-0.4, 0.5])):
        kernel = sk.ConstantKernel(1.5) * sk.RBF([1.0, 2.0, 0.7, 1.5])
        theirs = gaussian_process.GaussianProcessClassifier(kernel, optimizer=None).fit(X, target)
        ours = riesz.GaussianProcessClassifier(Constant(1.5) * RBF([1.0, 2.0, 0.7, 1.5]), optimizer=None).fit(
            X, target
        )
        # scikit-learn stops Newton's method at a change of 1e-10, and integrates with five error functions.
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)
        again = pickle.loads(pickle.dumps(ours))
        assert (again.predict_proba(X) == ours.predict_proba(X)).all()


def test_posteriors_are_saved_on_request(regression, tmp_path):
    X, y, Y, _ = regression
    new = X[:7] + 0.3
    kernel = Constant(1.5) * RBF([1.0, 2.0, 0.7, 1.5])
    for target in (y, Y):
        process = riesz.GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, target)
        process.save(tmp_path / "m.riesz", posterior=True)
        loaded = riesz.Expansion.load(tmp_path / "m.riesz")
        assert loaded.has_posterior
        for option in ({}, {"return_std": True}, {"return_cov": True}):
            for actual, expected in zip(loaded.predict(new, **option), process.predict(new, **option)):
                np.testing.assert_array_equal(actual, expected)
        draws = process.sample_y(new, 4000, random_state=3)
        mean, cov = process.predict(new, return_cov=True)
        assert draws.shape == (*mean.shape, 4000)
        assert loaded.sample(new, 3, random_state=1).shape == (*mean.shape, 3)
        for o in range(1 if target is y else target.shape[1]):
            output_draws = draws if target is y else draws[:, o]
            c = cov if target is y else cov[:, :, o]
            error = np.sqrt((np.outer(np.diag(c), np.diag(c)) + c**2) / 4000)
            assert (np.abs(np.cov(output_draws) - c) < 5 * error).all()
        np.testing.assert_array_equal(
            process.sample_y(new, 2, random_state=5), process.sample_y(new, 2, random_state=5)
        )
        process.save(tmp_path / "plain.riesz")
        plain = riesz.Expansion.load(tmp_path / "plain.riesz")
        assert not plain.has_posterior and (plain.predict(new) == loaded.predict(new)).all()
        for ask in (
            lambda m: m.predict(new, return_std=True),
            lambda m: m.predict(new, return_cov=True),
            lambda m: m.sample(new),
        ):
            with pytest.raises(ValueError, match="holds no posterior, .* fit --model gp --posterior"):
                ask(plain)
        with pytest.raises(ValueError, match="this model has none"):
            plain.save(tmp_path / "again.riesz", posterior=True)
    with pytest.raises(ValueError, match="choose one"):
        loaded.predict(new, return_std=True, return_cov=True)
    for target in (y > 0, np.digitize(y, [-0.4, 0.5])):
        classifier = riesz.GaussianProcessClassifier(kernel, optimizer=None).fit(X, target)
        classifier.save(tmp_path / "c.riesz", posterior=True)
        loaded = riesz.Expansion.load(tmp_path / "c.riesz")
        assert loaded.classes == [str(c) for c in classifier.classes_]
        np.testing.assert_array_equal(loaded.predict_proba(new), classifier.predict_proba(new))
        np.testing.assert_array_equal(
            classifier.predict(new), classifier.classes_[loaded.predict_proba(new).argmax(axis=1)]
        )
        classifier.save(tmp_path / "c.riesz")
        with pytest.raises(ValueError, match="need its posterior"):
            riesz.Expansion.load(tmp_path / "c.riesz").predict_proba(new)


@pytest.mark.skipif(not COMMAND.exists(), reason="the command line is not built")
def test_the_command_line_predicts_the_same_from_a_file(regression, tmp_path):
    X, y, _, _ = regression
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.to_csv(tmp_path / "x.csv", index=False)

    def predict(*options):
        done = subprocess.run(
            [COMMAND, "predict", tmp_path / "m.riesz", tmp_path / "x.csv", *options],
            capture_output=True,
            text=True,
            check=True,
        )
        return pd.read_csv(io.StringIO(done.stdout))

    process = riesz.GaussianProcessRegressor(alpha=0.1, optimizer=None).fit(frame, y)
    process.save(tmp_path / "m.riesz", posterior=True)
    output, (mean, std) = predict("--std"), process.predict(frame, return_std=True)
    np.testing.assert_allclose(output[["y", "y_std"]].to_numpy(), np.column_stack([mean, std]), rtol=1e-14)
    for target in (y > 0, np.digitize(y, [-0.4, 0.5])):
        classifier = riesz.GaussianProcessClassifier(optimizer=None).fit(frame, target)
        classifier.save(tmp_path / "m.riesz", posterior=True)
        output = predict()
        probabilities = output[[f"p({c})" for c in classifier.classes_]]
        np.testing.assert_allclose(probabilities.to_numpy(), classifier.predict_proba(frame), rtol=1e-14)
        assert (output["class"].astype(str) == classifier.predict(frame).astype(str)).all()


def test_search_pipelines_frames_and_explanations(regression):
    X, y, _, _ = regression
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "bp"])
    search = GridSearchCV(
        riesz.KernelRidge(kernel="rbf", gamma="scale"),
        {"alpha": [0.1, 1.0], "gamma": [0.1, 1.0], "kernel": ["rbf", "laplacian"]},
        cv=3,
    )
    best = search.fit(frame, y).best_estimator_
    assert list(best.feature_names_in_) == list(frame.columns) and best.expansion_.feature_names == list(
        frame.columns
    )
    explanation = riesz.Explainer(best, frame[:9])(frame[:4])
    np.testing.assert_allclose(
        explanation.base_values + explanation.values.sum(axis=1), best.predict(frame[:4]), atol=1e-10
    )
    assert (best.predict(pl.from_pandas(frame)) == best.predict(frame)).all()
    assert clone(best).get_params() == best.get_params()

    iris = load_iris()
    for classifier in (
        riesz.SVC(),
        riesz.KernelLogisticRegression(alpha=0.1),
        riesz.GaussianProcessClassifier(optimizer=None),
    ):
        model = make_pipeline(StandardScaler(), classifier)
        assert cross_val_score(model, iris.data, iris.target, cv=3).mean() > 0.93
        model.fit(iris.data, iris.target)
        explanation = riesz.Explainer(model, iris.data[::15])(iris.data[:3])
        # A support vector machine has outputs for pairs of classes, in addition to classes.
        outputs = 6 if isinstance(classifier, riesz.SVC) else 3
        assert explanation.values.shape == (3, 4, outputs) and explanation.certificate.holds


def test_models_go_to_the_command_line_and_back(regression, tmp_path):
    X, y, _, _ = regression
    model = riesz.KernelRidge(kernel="rbf", gamma="scale").fit(X, y)
    model.save(tmp_path / "m.riesz")
    np.testing.assert_allclose(
        riesz.Expansion.load(tmp_path / "m.riesz").predict(X), model.predict(X), atol=1e-12
    )


def test_penalties_are_chosen_on_held_out_rows(regression):
    X, y, Y, weights = regression
    labels = np.digitize(y, [-0.4, 0.5])
    for model, target, name, folds in [
        (riesz.KernelRidge("auto", kernel="rbf", gamma="scale"), y, "alpha", None),
        (riesz.KernelRidge("auto", fit_intercept=True, gamma="median", kernel="rbf"), Y, "alpha", 4),
        (riesz.SVR(C="auto"), y, "C", None),
        (riesz.SVC(C="auto", class_weight="balanced"), labels, "C", 3),
        (riesz.KernelLogisticRegression("auto"), labels, "alpha", None),
    ]:
        model.set_params(folds=folds)
        for gamma, sample_weight in [("scale", None), (0.2, None), ("scale", weights)]:
            model.set_params(gamma=gamma)
            with warnings.catch_warnings():
                # The best value may be the largest or the smallest candidate.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, target, sample_weight)
            chosen_by = dict(model.expansion_._core.card)["chosen by"]
            count = folds or (None if isinstance(model, riesz.KernelRidge) and sample_weight is None else 5)
            assert (
                ("leave-one-out" in chosen_by) if count is None else f"on {count} held-out folds" in chosen_by
            )
            # A fit with the chosen numbers gives the same model; a numeric gamma is kept.
            numbers = clone(model).set_params(
                kernel=model.kernel_, folds=None, **{name: getattr(model, f"{name}_")}
            )
            again = numbers.fit(X, target, sample_weight)
            np.testing.assert_allclose(again._outputs(X), model._outputs(X), rtol=1e-4, atol=1e-5)
            kept = clone(model).set_params(folds=None, **{name: 1.0}).fit(X, target, sample_weight)
            assert gamma == "scale" or kept.kernel_ == model.kernel_
            assert getattr(kept, f"{name}_") == 1.0
    # The choice by the leave-one-out errors themselves, over the candidate ridges.
    model = riesz.KernelRidge("auto", gamma=0.2, kernel="rbf").fit(X, y)
    gram = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))

    def error(ridge):
        inverse = np.linalg.inv(gram + ridge * np.eye(len(X)))
        return np.mean((inverse @ y / np.diag(inverse)) ** 2)

    tried = 10.0 ** (np.arange(-24, 13) / 4)
    # To the last digit, which the model card rounds.
    assert model.alpha_ in tried and model.alpha_ == min(tried, key=error)
    # With protected features the length scales stay as given, because the penalty depends on them.
    fair = riesz.KernelRidge("auto", protect=[0], protect_strength=1e6, kernel="rbf", gamma="scale").fit(X, y)
    assert fair.kernel_ == riesz.KernelRidge(kernel="rbf", gamma="scale").fit(X, y).kernel_
    assert np.abs(riesz.Explainer(fair, X)(X).values[:, 0]).mean() < 1e-3


def test_length_scales_are_medians_of_the_rows(regression):
    from scipy.spatial.distance import pdist

    X, y, _, weights = regression
    column_medians = [np.median(pdist(column[:, None])) for column in X.T]
    for gamma, length in [("median", np.median(pdist(X))), ("median_per_feature", column_medians)]:
        for kernel, factor in [("rbf", RBF), ("laplacian", riesz.kernels.Laplacian)]:
            actual = riesz.KernelRidge(kernel=kernel, gamma=gamma).fit(X, y)
            expected = riesz.KernelRidge(kernel=factor(length)).fit(X, y)
            np.testing.assert_allclose(actual.predict(X), expected.predict(X), rtol=1e-12)
        # A row of weight 0 is ignored.
        counted = np.where(np.arange(len(X)) % 3 > 0, weights, 0.0)
        actual = riesz.SVR(gamma=gamma).fit(X, y, counted)
        rows = counted > 0
        np.testing.assert_allclose(
            actual.predict(X), riesz.SVR(gamma=gamma).fit(X[rows], y[rows], counted[rows]).predict(X)
        )
    # Medians of the factor's own columns, in any position, are also the start of the tuning of a process.
    kernel = (
        2.0
        * RBF("median", columns=[0, 2])
        * Matern("median_per_feature", nu=1.5, isotropic=False, columns=[1])
        + Linear()
    )
    process = riesz.GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None, normalize_y=False).fit(X, y)
    explicit = (
        2.0
        * RBF(np.median(pdist(X[:, [0, 2]])), columns=[0, 2])
        * Matern(column_medians[1], isotropic=False, columns=[1])
        + Linear()
    )
    expected = riesz.GaussianProcessRegressor(explicit, alpha=0.1, optimizer=None, normalize_y=False).fit(
        X, y
    )
    np.testing.assert_allclose(process.predict(X), expected.predict(X), rtol=1e-10)
    # At most 1,000 rows are used; a column with few distinct values has its standard deviation.
    many_rows = np.random.default_rng(0).normal(size=(2500, 2))
    actual = RBF("median")._fitted_to(many_rows, ["a", "b"])
    np.testing.assert_allclose(actual.length_scale, np.median(pdist(many_rows[np.arange(1000) * 5 // 2])))
    few_values = np.column_stack([np.arange(20) == 3, np.ones(20)]).astype(float)
    np.testing.assert_allclose(
        RBF("median_per_feature")._fitted_to(few_values, ["a", "b"]).length_scale,
        [few_values[:, 0].std(), 1.0],
    )
    with pytest.raises(TypeError, match="rows say that, which estimators have"):
        riesz.Expansion(RBF("median"), X, y)


@pytest.mark.skipif(not COMMAND.exists(), reason="the command line is not built")
def test_the_command_line_takes_the_same_medians(regression, tmp_path):
    X, y, _, _ = regression
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "x.csv", index=False)
    for rule in ("median", "median_per_feature"):
        kernel = f"rbf(length_scale={rule})"
        command = [
            COMMAND,
            "fit",
            tmp_path / "x.csv",
            "--target",
            "y",
            "--model",
            "krr",
            "--kernel",
            kernel,
            "--ridge",
            "0.5",
        ]
        subprocess.run(
            [*command, "--no-standardize", "-o", tmp_path / "m.riesz"], check=True, capture_output=True
        )
        ours = riesz.KernelRidge(0.5, gamma=rule, fit_intercept=True, kernel="rbf").fit(X, y)
        np.testing.assert_allclose(
            riesz.Expansion.load(tmp_path / "m.riesz").predict(X), ours.predict(X), rtol=1e-9
        )


def test_text_is_named(regression):
    X, y, _, _ = regression
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(city=["Rome", "Oslo"] * 25)
    for model in (
        riesz.KernelRidge(kernel="rbf", gamma="scale"),
        riesz.SVC(),
        riesz.GaussianProcessRegressor(),
    ):
        target = y > 0 if is_classifier(model) else y
        with pytest.raises(
            ValueError, match="column 'x4' of X holds text, 'Rome': encode it, or give a data frame"
        ):
            model.fit(frame.to_numpy(), target)
        model.fit(frame.drop(columns="city"), target)
        with pytest.raises(ValueError, match="column 'd' of X holds text, 'many'"):
            model.predict(frame.drop(columns="city").assign(d="many"))
    for model in (
        riesz.KernelRidge(kernel="rbf", gamma="scale"),
        riesz.SVR(),
        riesz.GaussianProcessRegressor(),
    ):
        with pytest.raises(ValueError, match="y holds text, '(low|high)': a regressor predicts numbers"):
            model.fit(X, np.where(y > 0, "high", "low"))


@pytest.fixture
def cities(regression):
    X, y, _, _ = regression
    city, kind = (
        np.array(["Rome", "Oslo", "Bern"])[np.arange(50) % 3],
        np.array(["new", "old"])[np.arange(50) // 7 % 2],
    )
    frame = pd.DataFrame(
        {"city": city, "a": X[:, 0], "kind": pd.Categorical(kind, ["old", "new", "ruin"]), "b": X[:, 1]}
    )
    return frame, y + (city == "Rome") - 0.5 * (kind == "old")


def test_columns_of_categories_are_taken_as_they_are(cities):
    frame, y = cities
    gram = np.exp(
        -0.5 * ((frame[["a", "b"]].to_numpy()[:, None] - frame[["a", "b"]].to_numpy()) ** 2).sum(axis=2)
    )
    for name in ("city", "kind"):
        cells = frame[name].astype(str).to_numpy()
        gram *= np.where(cells[:, None] == cells, 1.0, 0.5)
    expected = gram @ np.linalg.solve(gram + 0.3 * np.eye(50), y)
    for rows in (frame, pl.DataFrame(frame.astype({"kind": str}).to_dict("list"))):
        for kernel in (
            "rbf",
            RBF(1.0),
            RBF(1.0) * riesz.kernels.Categorical(columns=["city"]),
            RBF(1.0, columns=None),
        ):
            model = riesz.KernelRidge(0.3, kernel=kernel, gamma=0.5).fit(rows, y)
            np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-10)
        assert list(model.feature_names_in_) == ["city", "a", "kind", "b"] and model.n_features_in_ == 4
        assert model.expansion_.levels["city"] == ["Bern", "Oslo", "Rome"]
        # Length scales only depend on the numeric columns.
        numbers = riesz.KernelRidge(0.3, gamma="median", kernel="rbf").fit(frame[["a", "b"]], y)
        scaled = riesz.KernelRidge(0.3, gamma="median", kernel="rbf").fit(rows, y)
        assert repr(numbers.kernel_.length_scale) in repr(scaled.kernel_)
    # A category of the column's type is known even if no row has it.
    frame_of = lambda **cells: frame[:2].assign(**cells)
    model = pickle.loads(pickle.dumps(clone(model).fit(frame, y)))
    ruins = model.predict(frame_of(kind=pd.Categorical(["ruin", "ruin"], ["ruin"])))
    assert np.isfinite(ruins).all()
    with pytest.raises(
        ValueError,
        match="X is 'Paris' in row 1 .from 0. of column 'city', which the model has not seen.*Bern",
    ):
        model.predict(frame_of(city=["Rome", "Paris"]))
    with pytest.raises(ValueError, match="X is nan in row 1 .from 0. of column 'city'"):
        model.fit(frame_of(city=["Rome", None]), y[:2])
    with pytest.raises(ValueError, match="the columns of X are"):
        model.predict(frame[["a", "city", "kind", "b"]])
    with pytest.raises(ValueError, match="RBF reads the column 'city', which holds categories"):
        riesz.KernelRidge(kernel=RBF(columns=["city", "a"])).fit(frame, y)
    # A column of booleans, or of numbers as objects, is numeric.
    plain = frame[["a", "b"]].assign(c=np.arange(50) % 2 == 0).astype({"a": object})
    assert not riesz.KernelRidge(kernel="rbf", gamma="scale").fit(plain, y).expansion_.levels


def test_every_estimator_takes_categories(cities):
    frame, y = cities
    three = np.digitize(y, [0.0, 1.0])
    for model in (
        riesz.KernelRidge("auto", kernel="rbf", gamma="scale"),
        riesz.KernelRidge(protect=["city"], kernel="rbf", gamma="scale"),
        riesz.SVR(C="auto"),
        riesz.SVC(),
        riesz.KernelLogisticRegression(),
        riesz.GaussianProcessRegressor(),
        riesz.GaussianProcessClassifier(),
        riesz.SVR(kernel="linear"),
        riesz.SVR(kernel="poly"),
    ):
        target = three if is_classifier(model) else y
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(model).fit(frame, target)
        assert fitted.predict(frame[:5]).shape == (5,)
        assert fitted.score(frame, target) > 0.3, model
        background = None if "poly" in repr(model) else frame[:10]
        if background is not None:
            explanation = riesz.Explainer(fitted, background=background)(frame[:3])
            assert explanation.feature_names == ["city", "a", "kind", "b"]
            assert explanation.certificate.holds


@pytest.mark.skipif(not COMMAND.exists(), reason="the command line is not built")
def test_the_command_line_fits_the_same_categories(cities, tmp_path):
    frame, y = cities
    frame.assign(y=y).to_csv(tmp_path / "x.csv", index=False)
    command = [
        COMMAND,
        "fit",
        tmp_path / "x.csv",
        "--target",
        "y",
        "--model",
        "krr",
        "--kernel",
        "rbf(length_scale=median)",
    ]
    subprocess.run(
        [*command, "--ridge", "0.5", "--no-standardize", "-o", tmp_path / "m.riesz"],
        check=True,
        capture_output=True,
    )
    ours = riesz.KernelRidge(0.5, gamma="median", fit_intercept=True, kernel="rbf").fit(frame, y)
    theirs = riesz.Expansion.load(tmp_path / "m.riesz")
    np.testing.assert_allclose(theirs.predict(frame), ours.predict(frame), rtol=1e-9)
    ours.save(tmp_path / "ours.riesz")
    np.testing.assert_array_equal(
        riesz.Expansion.load(tmp_path / "ours.riesz").predict(frame), ours.predict(frame)
    )


def test_whole_weights_repeat_rows(regression):
    X, y, _, _ = regression
    labels, counts = np.where(y > 0.4, "few", "many"), np.arange(50) % 3
    repeated = np.repeat(np.arange(50), counts)
    for model, target in [
        (riesz.SVR(tol=1e-10), y),
        (riesz.SVC(tol=1e-10, class_weight="balanced"), labels),
        (riesz.KernelLogisticRegression(class_weight="balanced"), labels),
        (riesz.KernelRidge(kernel="rbf", gamma="scale"), y),
    ]:
        weighted = clone(model).fit(X, target, counts)
        again = clone(model).fit(X[repeated], target[repeated])
        np.testing.assert_allclose(weighted._outputs(X), again._outputs(X), atol=1e-6)
    # scikit-learn's support vector machines ignore weights in quantities that they compute from the rows, so
    # these are given as numbers here.
    near = dict(rtol=2e-5, atol=1e-5)
    theirs = svm.SVC(class_weight="balanced", tol=1e-7).fit(X, labels, counts)
    classes, class_counts = np.unique(labels, return_counts=True)
    settings = {
        "gamma": 1 / (X.shape[1] * X.var()),
        "class_weight": dict(zip(classes, len(labels) / (2 * class_counts))),
    }
    ours = riesz.SVC(tol=1e-7, **settings).fit(X, labels, counts)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), **near)
    differently = riesz.SVC(tol=1e-7, class_weight="balanced").fit(X, labels, counts)
    assert np.abs(differently.decision_function(X) - theirs.decision_function(X)).max() > 1e-3
    # Its logistic regression counts rows by their weights.
    theirs = LogisticRegression(C=2.0, class_weight="balanced", tol=1e-12, max_iter=10_000).fit(
        X, labels, counts
    )
    ours = riesz.KernelLogisticRegression(0.5, kernel="linear", class_weight="balanced").fit(
        X, labels, counts
    )
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)


def test_settings_that_make_no_sense(regression):
    X, y, _, _ = regression
    for model, culprit in [
        (riesz.KernelRidge(alpha=-1.0), "alpha = -1"),
        (riesz.KernelRidge(kernel="precomputed"), "kernel = 'precomputed': explanations need the rows"),
        (riesz.KernelRidge(kernel="rbg"), "there is no kernel 'rbg'"),
        (riesz.KernelRidge(kernel_params={"c": 1.0}), "kernel_params = .* a callable kernel"),
        (riesz.KernelRidge(kernel="0.5 * rbf + linear(x9)"), "there is no column 'x9'"),
        (riesz.SVC(verbose=True), "verbose = True: the solver prints nothing"),
        (riesz.SVR(shrinking="no"), "shrinking = 'no'"),
        (riesz.SVR(cache_size=0), "cache_size = 0"),
        (riesz.SVC(decision_function_shape="ova"), "decision_function_shape = 'ova': it is 'ovr' or 'ovo'"),
        (riesz.GaussianProcessClassifier(warm_start=True), "warm_start = True: each fit starts anew"),
        (riesz.GaussianProcessClassifier(multi_class="one_vs_one"), "multi_class.*OneVsOneClassifier"),
        (riesz.GaussianProcessClassifier(max_iter_predict=5), "max_iter_predict = 5: Newton's method"),
        (riesz.GaussianProcessClassifier(n_jobs=2), "n_jobs = 2: the fit runs on all cores"),
        (riesz.GaussianProcessRegressor(n_targets=2), "n_targets = 2, but y has 1"),
        (riesz.GaussianProcessRegressor(alpha=np.ones(50)), "alpha is an array"),
        (riesz.GaussianProcessRegressor(copy_X_train="no"), "copy_X_train = 'no'"),
        (riesz.KernelRidge(kernel="rbf", gamma=-2.0), "gamma = -2.0"),
        (riesz.SVR(C=0.0), "C = 0"),
        (riesz.SVR(max_iter=0), "max_iter = 0"),
        (riesz.SVC(class_weight={7: 1.0}), "class_weight names 7"),
        (riesz.SVC(class_weight="equal"), "class_weight = 'equal'"),
        (riesz.GaussianProcessRegressor(kernel="rbg"), "there is no kernel 'rbg'"),
        (riesz.GaussianProcessRegressor(optimizer="adam"), "optimizer = 'adam'"),
        (riesz.GaussianProcessRegressor(alpha=-1.0), "alpha"),
        (riesz.GaussianProcessRegressor(n_inducing=0), "n_inducing = 0: it is a whole number from 1"),
        (riesz.GaussianProcessRegressor(n_inducing="all"), "n_inducing = 'all'"),
        (riesz.KernelRidge(kernel=Matern(nu=0.01)), "nu = 0.01"),
        (riesz.KernelRidge(kernel=RBF(-1.0)), "length_scale = -1"),
        (riesz.KernelRidge(kernel="poly", degree=2.5), "degree = 2.5"),
        (riesz.KernelLogisticRegression(max_iter=0), "max_iter = 0: it is a whole number from 1"),
        (
            riesz.GaussianProcessRegressor(n_restarts_optimizer=-1),
            "n_restarts_optimizer = -1: it is a whole number from 0",
        ),
        (riesz.GaussianProcessClassifier(n_restarts_optimizer=0.5), "n_restarts_optimizer = 0.5"),
        (riesz.SVR(tol=1e-15), "tol = 1e-15|tol = 0.000000000000001"),
        (riesz.KernelRidge("best"), "alpha = 'best': it is a positive number, or 'auto'"),
        (
            riesz.KernelRidge("auto", folds=1, kernel="rbf", gamma="scale"),
            "folds = 1: it is a whole number from 2",
        ),
        (riesz.SVR(folds=3), "folds = 3 is given, but C = 1.0 is not 'auto'"),
        (riesz.KernelRidge(gamma="mean", kernel="rbf"), "gamma = 'mean': .* 'median'"),
        (
            riesz.KernelRidge(gamma="median", kernel="poly"),
            "gamma = 'median': .* for the kernels 'rbf' and 'laplacian' .*; the kernel here is 'poly'",
        ),
        (riesz.KernelRidge(kernel=RBF("mean")), "length_scale = 'mean'"),
        (riesz.KernelRidge(kernel=RBF("median", columns=[])), "."),
    ]:
        with pytest.raises(ValueError, match=culprit):
            model.fit(X, (y > 0) if is_classifier(model) else y)
    with pytest.raises(ValueError, match="one class"):
        riesz.SVC().fit(X, np.ones(50))
    with pytest.raises(AttributeError, match="Lasso"):
        riesz.Lasso  # noqa: B018


def test_logistic_regression_through_all_rows_is_the_dense_one():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=80) > 0, "b", "a")
    options = {"alpha": 0.5, "kernel": riesz.kernels.RBF(length_scale=0.8)}
    dense = riesz.KernelLogisticRegression(**options).fit(X, y)
    with_landmarks = riesz.KernelLogisticRegression(**options, n_landmarks=80).fit(X, y)
    assert with_landmarks.expansion_.points.shape == (80, 3) and with_landmarks.n_iter_ < 12
    assert np.abs(dense.predict_proba(X) - with_landmarks.predict_proba(X)).max() < 1e-6
    sparse = riesz.KernelLogisticRegression(alpha="auto", n_landmarks=20).fit(X, y)
    assert sparse.expansion_.points.shape == (20, 3) and (sparse.predict(X) == y).mean() > 0.8
    with pytest.raises(ValueError, match="landmarks"):
        riesz.KernelLogisticRegression(n_landmarks=20, class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="takes two"):
        riesz.KernelLogisticRegression(n_landmarks=20).fit(X, rng.choice(3, size=80))


def test_the_error_of_landmarks_is_within_its_deviations(tmp_path):
    """Most predictions and values through landmarks are within 1.96 deviations of those of scikit-learn's
    ridge regression, which has all rows as points."""
    from sklearn.kernel_ridge import KernelRidge

    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=1500)
    new, background = rng.normal(size=(80, 3)), rng.normal(size=(10, 3))
    sparse = riesz.KernelRidge(alpha=0.5, gamma=0.3, n_landmarks=100, kernel="rbf").fit(X, y)
    full = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.3).fit(X, y)
    mean, sd = sparse.expansion_.predict(new, return_std=True)
    errors = np.abs(mean - full.predict(new))
    assert errors.max() > 1e-3 and np.mean(errors <= 1.96 * sd) > 0.9
    explanation = riesz.Explainer(sparse, background, covariance=True)(new)
    assert explanation.uncertainty_source == {"kind": "landmarks", "doublings": 4}
    errors = np.abs(explanation.values - riesz.Explainer(full, background)(new).values)
    assert np.mean(errors <= 1.96 * explanation.std) > 0.9 and explanation.std.mean() < 20 * errors.mean()
    sparse.expansion_.save(tmp_path / "m.riesz", posterior=True)
    again = riesz.Explainer(str(tmp_path / "m.riesz"), background, covariance=True)(new)
    assert np.array_equal(again.std, explanation.std)
    again.report(tmp_path / "page.html")
    assert "estimated from fits with fewer landmarks" in (tmp_path / "page.html").read_text()


def test_columns_of_dates_are_named(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    days = pd.date_range("2024-01-01", periods=len(y))
    for column in (days, days.tz_localize("UTC"), days - days[0], days.to_period("D")):
        with pytest.raises(
            ValueError, match="column 'when' of X holds dates or times .*days since the first"
        ):
            riesz.KernelRidge(kernel="rbf", gamma="scale").fit(frame.assign(when=column), y)
    for column in (days.to_pydatetime(), days.date):
        with pytest.raises(ValueError, match="column 'when' of X"):
            riesz.KernelRidge(kernel="rbf", gamma="scale").fit(
                frame.assign(when=pd.Series(list(column), dtype=object)), y
            )
    with pytest.raises(ValueError, match="column 'when' of X holds dates or times"):
        riesz.SVR().fit(pl.DataFrame({"a": X[:, 0], "when": days.to_pydatetime()}), y)
    with pytest.raises(ValueError, match="X holds dates or times"):
        riesz.SVR().fit(np.tile(days.to_numpy()[:, None], (1, 2)), y)
    model = riesz.KernelRidge(kernel="rbf", gamma="scale").fit(frame, y)
    with pytest.raises(ValueError, match="column 'd' of X holds dates"):
        model.predict(frame.assign(d=days))
