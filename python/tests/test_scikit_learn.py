"""riesz's estimators against the classes of the same name in scikit-learn: attributes, parameters,
decisions."""

import inspect
import pathlib
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context, gaussian_process, kernel_ridge, svm
from sklearn.base import BaseEstimator, clone, is_classifier, is_clusterer, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, UnsetMetadataPassedError
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, get_tags

import riesz
from riesz.kernels import RBF, Linear

NEAR = dict(rtol=2e-5, atol=2e-5)


@pytest.fixture
def classes(data):
    X, y = data
    return X, np.array(["low", "middle", "high"])[np.digitize(y, [-0.4, 0.5])]


@pytest.mark.parametrize("settings", [{}, {"kernel": "linear"}, {"kernel": "sigmoid", "gamma": 0.05}])
@pytest.mark.parametrize("count", [2, 3])
def test_attributes_of_support_vector_classifiers_are_scikit_learns(classes, settings, count):
    X, labels = classes
    target = labels if count == 3 else labels == "low"
    options = {**settings, "tol": 1e-7, "class_weight": "balanced"}
    theirs, ours = svm.SVC(**options).fit(X, target), riesz.SVC(**options).fit(X, target)
    for name in ("support_", "n_support_", "classes_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
    for name in ("support_vectors_", "dual_coef_", "intercept_", "class_weight_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), **NEAR)
    assert hasattr(ours, "coef_") == hasattr(theirs, "coef_") == (settings.get("kernel") == "linear")
    if hasattr(ours, "coef_"):
        np.testing.assert_allclose(ours.coef_, theirs.coef_, **NEAR)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.dual_coef_, ours.dual_coef_)


@pytest.mark.parametrize("settings", [{}, {"kernel": "linear"}])
def test_attributes_of_support_vector_regressors_are_scikit_learns(data, settings):
    X, y = data
    theirs, ours = svm.SVR(tol=1e-7, **settings).fit(X, y), riesz.SVR(tol=1e-7, **settings).fit(X, y)
    for name in ("support_", "n_support_", "support_vectors_", "dual_coef_", "intercept_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), **NEAR)
    if settings:
        np.testing.assert_allclose(ours.coef_, theirs.coef_, **NEAR)
    for max_iter in (-1, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs, ours = (kind(max_iter=max_iter, **settings).fit(X, y) for kind in (svm.SVR, riesz.SVR))
        assert ours.fit_status_ == theirs.fit_status_ == int(max_iter > 0)
        assert ours.shape_fit_ == theirs.shape_fit_
    # Refits add support points, which are not support vectors.
    ours = riesz.SVR(tol=1e-7, **settings).fit(X, y)
    refitted = riesz.SVR(tol=1e-7, n_bootstrap=3, **settings).fit(X, y)
    assert len(refitted.expansion_.points) > len(ours.support_)
    np.testing.assert_allclose(refitted.dual_coef_, ours.dual_coef_, **NEAR)
    np.testing.assert_array_equal(refitted.support_vectors_, X[refitted.support_])
    # Rows of weight 0 are counted, too.
    weighted = riesz.SVR(gamma=0.2, **settings).fit(X, y, np.r_[np.zeros(5), np.ones(45)])
    np.testing.assert_array_equal(weighted.support_vectors_, X[weighted.support_])
    with pytest.raises(AttributeError, match="SVR has no dual_coef_ before it is fitted: call fit first"):
        riesz.SVR().dual_coef_  # noqa: B018


def test_attributes_of_kernel_ridge_are_scikit_learns(data):
    X, y = data
    for target in (y, np.column_stack([y, y**2])):
        for settings in ({}, {"kernel": "rbf"}, {"kernel": "sigmoid", "gamma": 0.01}, {"kernel": "poly"}):
            theirs = kernel_ridge.KernelRidge(**settings).fit(X, target)
            ours = riesz.KernelRidge(**settings).fit(X, target)
            np.testing.assert_array_equal(ours.X_fit_, theirs.X_fit_)
            assert ours.dual_coef_.shape == theirs.dual_coef_.shape
            np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6, atol=1e-8)


def test_a_width_without_effect_is_named(data):
    X, y = data
    with pytest.warns(UserWarning, match="gamma = 0.3 has no effect with kernel = 'linear', the default"):
        model = riesz.KernelRidge(gamma=0.3).fit(X, y)
    theirs = kernel_ridge.KernelRidge(gamma=0.3).fit(X, y)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riesz.KernelRidge(kernel="rbf", gamma=0.3).fit(X, y)
        riesz.KernelRidge(kernel="linear").fit(X, y)


@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_attributes_of_gaussian_processes_are_scikit_learns(data, normalize_y, several):
    X, y = data
    target = np.column_stack([y, y**2]) if several else y
    options = {"alpha": 0.1, "optimizer": None, "normalize_y": normalize_y}
    theirs = gaussian_process.GaussianProcessRegressor(1.5 * sk.RBF([1.0, 2.0, 0.7, 1.5]), **options)
    ours = riesz.GaussianProcessRegressor(1.5 * RBF([1.0, 2.0, 0.7, 1.5]), **options)
    theirs.fit(X, target), ours.fit(X, target)
    for name in ("X_train_", "y_train_", "alpha_", "L_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-7, atol=1e-8)
    # riesz's likelihood is that of the targets in their own units.
    units = len(y) * np.log(target.std(axis=0)).sum() if normalize_y else 0.0
    np.testing.assert_allclose(
        ours.log_marginal_likelihood(), theirs.log_marginal_likelihood() - units, rtol=1e-9
    )
    assert ours.log_marginal_likelihood() == ours.log_marginal_likelihood_value_
    with pytest.raises(ValueError, match="theta is given, but kernels of riesz have no vector theta"):
        ours.log_marginal_likelihood(np.zeros(5))
    sparse = riesz.GaussianProcessRegressor(RBF(1.0), n_inducing=5, optimizer=None).fit(X, y)
    with pytest.raises(AttributeError, match="alpha_ belongs to the exact fit, .* expansion_.coef"):
        sparse.alpha_  # noqa: B018


def test_the_tuned_noise_is_in_the_covariance(data):
    X, y = data
    model = riesz.GaussianProcessRegressor(RBF(1.0) + Linear(), random_state=0).fit(X, y)
    # The definition of the dual coefficients: covariance @ alpha = targets.
    covariance = model.L_ @ model.L_.T
    np.testing.assert_allclose(covariance @ model.alpha_, model.y_train_, atol=1e-8)


def test_latent_functions_of_classifiers_are_scikit_learns(classes):
    X, labels = classes
    for target in (labels == "low", labels):
        theirs = gaussian_process.GaussianProcessClassifier(1.5 * sk.RBF(2.0), optimizer=None).fit(X, target)
        ours = riesz.GaussianProcessClassifier(1.5 * RBF(2.0), optimizer=None).fit(X, target)
        assert ours.n_classes_ == theirs.n_classes_
        if target.dtype == bool:
            for actual, expected in zip(
                ours.latent_mean_and_variance(X), theirs.latent_mean_and_variance(X), strict=True
            ):
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(
                ours.log_marginal_likelihood(), theirs.log_marginal_likelihood(), rtol=1e-6
            )
        else:
            with pytest.raises(ValueError, match="there are 3 classes, each with its latent function"):
                ours.latent_mean_and_variance(X)


def test_decisions_have_scikit_learns_shapes(classes):
    X, labels = classes
    for target in (labels, labels == "low"):
        for shape in ("ovr", "ovo"):
            options = {"decision_function_shape": shape, "tol": 1e-7}
            theirs, ours = svm.SVC(**options).fit(X, target), riesz.SVC(**options).fit(X, target)
            np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), **NEAR)


def test_ties_between_classes_are_broken_as_in_scikit_learn():
    rows, target = make_blobs(200, centers=4, cluster_std=1.0, random_state=5)
    axes = [np.linspace(column.min(), column.max(), 50) for column in rows.T]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    options = {"kernel": "linear", "tol": 1e-9}
    tied = svm.SVC(**options).fit(rows, target).predict(grid)
    theirs = svm.SVC(break_ties=True, **options).fit(rows, target).predict(grid)
    assert (theirs != tied).any()
    np.testing.assert_array_equal(riesz.SVC(**options).fit(rows, target).predict(grid), tied)
    ours = riesz.SVC(break_ties=True, **options).fit(rows, target).predict(grid)
    np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="break_ties = True with decision_function_shape = 'ovo'"):
        riesz.SVC(break_ties=True, decision_function_shape="ovo").fit(rows, target)


def test_the_explanation_of_pairs_has_no_classes(classes):
    X, labels = classes
    for shape, outputs in (("ovr", 6), ("ovo", 3)):
        model = riesz.SVC(decision_function_shape=shape).fit(X, labels)
        assert riesz.Explainer(model, X[:5])(X[:2]).values.shape == (2, 4, outputs)


def test_probabilities_of_support_vectors_are_calibrated_decisions(classes):
    X, labels = classes
    model = riesz.SVC().fit(X, labels)
    assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError) as raised:
        model.predict_proba(X)
    assert (
        "CalibratedClassifierCV(riesz.SVC(...), ensemble=False)" in f"{raised.value}{raised.value.__cause__}"
    )
    with pytest.raises(ValueError, match="probability = True: .*CalibratedClassifierCV"):
        riesz.SVC(probability=True).fit(X, labels)
    target = labels == "low"
    theirs = CalibratedClassifierCV(svm.SVC(tol=1e-9), ensemble=False, cv=3).fit(X, target)
    ours = CalibratedClassifierCV(riesz.SVC(tol=1e-9), ensemble=False, cv=3).fit(X, target)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


PAIRS = {
    "KernelRidge": kernel_ridge.KernelRidge,
    "SVR": svm.SVR,
    "SVC": svm.SVC,
    "GaussianProcessRegressor": gaussian_process.GaussianProcessRegressor,
    "GaussianProcessClassifier": gaussian_process.GaussianProcessClassifier,
}

#: Defaults that differ: scikit-learn's and riesz's. Each has a line in docs/reference/scikit-learn.md.
OTHER_DEFAULTS = {
    "SVC": {"probability": ("deprecated", False), "random_state": (None, 0)},
    "GaussianProcessRegressor": {"alpha": (1e-10, None), "normalize_y": (False, True)},
}

#: Public names of scikit-learn's class or of its fitted instance that riesz's does not have, with the page.
MISSING = {
    "SVC": {"predict_proba", "predict_log_proba", "probA_", "probB_"},
    "GaussianProcessClassifier": {"base_estimator_"},
}
#: Names that scikit-learn's classes have by accident: parameters of other classes with the same base class.
ACCIDENTAL = {"unused_param", "nu", "epsilon", "class_weight", "probability"}

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "scikit-learn.md"


def section_of_page(name):
    (text,) = re.findall(rf"^## {name}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return text, {row[0].strip("`"): row[1:] for row in rows[2:]}


def defaults(estimator):
    parameters = inspect.signature(estimator).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


@pytest.mark.parametrize("name", PAIRS)
def test_signatures_differ_only_as_the_page_says(name):
    theirs, ours = defaults(PAIRS[name]), defaults(getattr(riesz, name))
    # Newer versions of scikit-learn may leave parameters out, never riesz.
    assert not theirs.keys() - ours.keys()
    assert [parameter for parameter in ours if parameter in theirs] == list(theirs)
    assert list(ours)[: len(theirs)] == list(theirs)
    other = {n: (theirs[n], ours[n]) for n in theirs if theirs[n] != ours[n]}
    assert other == OTHER_DEFAULTS.get(name, {})
    _, table = section_of_page(name)
    for parameter, (default, riesz_default) in other.items():
        shown = [cell.replace('"', "'") for cell in table[parameter][:2]]
        assert shown == [f"`{default!r}`", f"`{riesz_default!r}`"]
    for parameter in ours.keys() - theirs.keys():
        assert table[parameter][0] == "not there"
        assert table[parameter][1].replace('"', "'") == f"`{ours[parameter]!r}`"
    # Each line has a parameter, with its defaults, and a reason.
    for parameter, (default, riesz_default, why) in table.items():
        assert parameter in ours and why
        if parameter in theirs:
            assert default.replace('"', "'").startswith(f"`{theirs[parameter]!r}`")
            assert riesz_default.replace('"', "'").startswith(f"`{ours[parameter]!r}`")


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("kernel", ["linear", None])
def test_names_are_missing_only_as_the_page_says(name, kernel, data):
    X, y = data
    theirs, ours = PAIRS[name](), getattr(riesz, name)(optimizer=None) if "Gauss" in name else None
    ours = getattr(riesz, name)() if ours is None else ours
    if kernel is not None and "Gauss" not in name:
        theirs.set_params(kernel=kernel), ours.set_params(kernel=kernel)
    target = y > 0 if is_classifier(ours) else y
    theirs.fit(X, target), ours.fit(X, target)
    public = {member for member in {*dir(type(theirs)), *vars(theirs)} if not member.startswith("_")}
    public = {
        member for member in public - ACCIDENTAL if hasattr(theirs, member) or member in MISSING.get(name, ())
    }
    missing = {member for member in public if not hasattr(ours, member)}
    text, _ = section_of_page(name)
    assert missing <= MISSING.get(name, set()) and all(f"`{member}`" in text for member in missing)


@pytest.mark.parametrize("name", PAIRS)
def test_methods_take_scikit_learns_arguments(name):
    for method in vars(BaseEstimator).keys() | {"fit", "predict", "score", "log_marginal_likelihood"}:
        theirs, ours = (getattr(kind, method, None) for kind in (PAIRS[name], getattr(riesz, name)))
        if inspect.isfunction(theirs) and not method.startswith("__"):
            assert defaults(theirs).items() <= defaults(ours).items(), method


@pytest.mark.parametrize("name", PAIRS)
def test_scikit_learns_defaults_are_accepted(name, data):
    X, y = data
    theirs = PAIRS[name]()
    ours = getattr(riesz, name)(**theirs.get_params())
    # scikit-learn keeps its default kernel fixed, which is said by optimizer=None here.
    if "optimizer" in theirs.get_params():
        ours.set_params(optimizer=None)
    target = y > 0 if is_classifier(ours) else y
    clone(ours).fit(X, target)
    ours.fit(X, target), theirs.fit(X, target)
    np.testing.assert_allclose(1.0 * ours.predict(X), 1.0 * theirs.predict(X), atol=2e-3)
    for default in (theirs.get_params(), ours.get_params()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            getattr(riesz, name)(**default).fit(X, target)


#: Models whose ``fit`` takes other tables than X and y, and the type of each.
OTHER_MODELS = [
    (riesz.AggregateGaussianProcess(), "regressor"),
    (riesz.AggregateCountProcess(), "regressor"),
    (riesz.PreferenceClusters(), "clusterer"),
    (riesz.CausalEffect(treatment="dose", outcome="psa"), None),
    (riesz.CausalFusion(treatment="dose", outcome="psa"), None),
]

#: The checks of scikit-learn that do not call ``fit`` with X and y.
CHECKS = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_valid_tag_types,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_mixin_order,
]


@pytest.mark.parametrize(("model", "kind"), OTHER_MODELS, ids=lambda value: type(value).__name__)
def test_models_of_other_tables_keep_the_contract_of_parameters(model, kind):
    for check in CHECKS:
        check(type(model).__name__, model)
    assert get_tags(model).estimator_type == kind
    assert (is_regressor(model), is_classifier(model), is_clusterer(model)) == (
        kind == "regressor",
        False,
        kind == "clusterer",
    )
    again = pickle.loads(pickle.dumps(model))
    assert again.get_params() == clone(model).get_params() == model.get_params()


def test_estimators_have_the_types_of_scikit_learns():
    for name, theirs in PAIRS.items():
        ours, tags = get_tags(getattr(riesz, name)()), get_tags(theirs())
        assert ours.estimator_type == tags.estimator_type
        assert ours.target_tags == tags.target_tags
        assert ours.classifier_tags == tags.classifier_tags


def test_names_of_columns_are_stored_and_checked(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    items = pd.DataFrame(X[:10], columns=list("abcd"))
    left, right = np.triu_indices(10, 1)
    duels = np.column_stack([left, right])
    clusters = riesz.PreferenceClusters(2, random_state=0).fit(items, duels, outcome=left % 2 == 0)
    assert list(clusters.feature_names_in_) == list("abcd") and clusters.n_features_in_ == 4
    unnamed = riesz.PreferenceClusters(2, random_state=0).fit(X[:10], duels, outcome=left % 2 == 0)
    assert unnamed.n_features_in_ == 4 and not hasattr(unnamed, "feature_names_in_")
    for name in PAIRS:
        model = getattr(riesz, name)()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(frame, y > 0 if is_classifier(model) else y)
        assert list(model.feature_names_in_) == list("abcd") and model.n_features_in_ == 4
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[["b", "a", "c", "d"]])


def test_the_selector_returns_data_frames_on_request(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    selector = riesz.feature_selection.SelectHSIC(2).set_output(transform="pandas").fit(frame, y)
    chosen = selector.transform(frame)
    assert list(chosen.columns) == list(selector.get_feature_names_out())
    pd.testing.assert_frame_equal(chosen, frame[chosen.columns])


@pytest.mark.parametrize("name", ["KernelRidge", "SVR", "SVC", "KernelLogisticRegression"])
def test_weights_are_routed_through_pipelines_and_searches(name, data):
    X, y = data
    weights = np.where(np.arange(50) % 3 > 0, 1.0, 4.0)
    model = getattr(riesz, name)()
    target = y > 0 if is_classifier(model) else y
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError):
            cross_validate(model, X, target, params={"sample_weight": weights}, cv=3)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        folds = KFold(3)
        scores = cross_validate(pipeline, X, target, params={"sample_weight": weights}, cv=folds)[
            "test_score"
        ]
    expected = []
    for train, test in folds.split(X):
        scaler = StandardScaler().fit(X[train])
        fitted = getattr(riesz, name)().fit(scaler.transform(X[train]), target[train], weights[train])
        expected.append(fitted.score(scaler.transform(X[test]), target[test], weights[test]))
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
