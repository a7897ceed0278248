"""Fitted models that are passed as a whole are explained by their predictions; the oracle enumerates all
coalitions."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, GenericKernelMixin, Kernel, StationaryKernelMixin
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    LocalOutlierFactor,
    NearestCentroid,
    RadiusNeighborsRegressor,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import riesz
from conftest import interventional

FOREST = RandomForestRegressor(5, random_state=0)
TREES = RandomForestClassifier(5, random_state=0)


def agrees(model, function, X, **options):
    explainer = riesz.Explainer(model, X[:5], **options)
    explanation = explainer(X[20:22])
    for i in range(2):
        np.testing.assert_allclose(
            explanation.values[i], interventional(function, X[20 + i], X[:5]), atol=1e-10
        )
    return explanation


REGRESSORS = {
    "forest": FOREST,
    "neighbours": KNeighborsRegressor(3),
    "radius": RadiusNeighborsRegressor(50.0),
    "network": MLPRegressor(hidden_layer_sizes=(5,), max_iter=20, random_state=0),
    "pipeline of a forest": make_pipeline(StandardScaler(), FOREST),
    "pipeline of mixed columns": make_pipeline(PCA(2), FOREST),
    "search for a forest": GridSearchCV(FOREST, {"max_depth": [2, 3]}, cv=2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_are_explained_by_their_predictions(name, data):
    X, y = data
    model = REGRESSORS[name].fit(X, y)
    explanation = agrees(model, model.predict, X)
    assert explanation.output_names == ["y"] and explanation.provenance.model["explained"] == "prediction"
    assert "calls of its predictions" in explanation.provenance.run["valued by all coalitions because"]
    with pytest.raises(
        riesz.UnsupportedModelError, match="not a kernel model that riesz reads.* given a background"
    ):
        riesz.Explainer(model)


CLASSIFIERS = {
    "forest": TREES,
    "boosting": GradientBoostingClassifier(n_estimators=3),
    "neighbours": KNeighborsClassifier(3),
    "pipeline": make_pipeline(StandardScaler(), TREES),
    "voting": VotingClassifier([("a", TREES), ("b", GaussianNB())], voting="soft"),
    "calibrated": CalibratedClassifierCV(TREES, cv=2),
}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_are_explained_by_their_probabilities(name, count, data):
    X, y = data
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.5] if count == 2 else [0.3, 0.6]))]
    model = CLASSIFIERS[name].fit(X, labels)
    explanation = agrees(model, model.predict_proba, X)
    assert (
        explanation.output_names == ["a", "b", "c"][:count]
        and "predict_proba" in explanation.provenance.model["explained"]
    )


def test_standard_errors_and_the_reason_are_reported(data):
    X, y = data
    wide = np.hstack([X, np.sin(3 * X), X**2])
    model = RandomForestRegressor(10, random_state=0).fit(wide, y)
    explainer = riesz.Explainer(model, wide[:5], n_orders=10)
    explanation = explainer(wide[20:22])
    assert explainer.exactness == "estimated" and (explanation.std_error > 0).any()
    assert explainer.reason == (
        "a RandomForestRegressor is not a kernel model that riesz reads, so its values come from calls of "
        "its predictions"
    )
    assert explanation.provenance.run["estimated because"] == explainer.reason
    for i in range(2):
        expected = interventional(model.predict, wide[20 + i], wide[:5])
        assert (np.abs(explanation.values[i] - expected) <= 4 * explanation.std_error[i] + 1e-12).all()


def test_log_odds_on_request(data):
    X, y = data
    labels = np.where(y > np.median(y), "high", "low")
    model = GradientBoostingClassifier(n_estimators=3).fit(X, labels)
    explanation = agrees(
        model, lambda rows: np.outer(model.decision_function(rows), [-1, 1]), X, link="logit"
    )
    assert (
        explanation.output_names == ["high", "low"]
        and "log-odds" in explanation.provenance.model["explained"]
    )
    process = GaussianProcessClassifier(RBF(), optimizer=None).fit(X, labels)
    logit = lambda p: np.log(p / (1 - p))
    agrees(process, lambda rows: logit(process.predict_proba(rows)), X, link="logit")
    with pytest.raises(ValueError, match="the RandomForestClassifier gives a class the probability 0 or 1"):
        riesz.Explainer(TREES.fit(X, labels), X[:5], link="logit")(X[:2])
    for model, options, words in [
        (FOREST.fit(X, y), {"link": "logit"}, "has no predict_proba"),
        (process, {"link": "logit", "probabilities": True}, "choose one"),
        (process, {"link": "log"}, "it is 'identity', or 'logit'"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            riesz.Explainer(model, X[:5], **options)


def test_other_scores_labels_and_several_targets(data):
    X, y = data
    label = (y > np.median(y)).astype(int)
    isolated = IsolationForest(n_estimators=5, random_state=0).fit(X)
    assert (
        agrees(isolated, isolated.decision_function, X).provenance.model["explained"] == "decision function"
    )
    local = LocalOutlierFactor(5, novelty=True).fit(X)
    agrees(local, local.decision_function, X)
    # Labels of clusters and classes are not quantities.
    clusters = KMeans(3, n_init=1, random_state=0).fit(X)
    explanation = agrees(clusters, lambda rows: np.eye(3)[clusters.predict(rows)], X)
    assert (
        explanation.output_names == ["0", "1", "2"]
        and "predicted class" in explanation.provenance.model["explained"]
    )
    hard = VotingClassifier([("a", TREES), ("b", GaussianNB())]).fit(X, np.where(label, "yes", "no"))
    explanation = agrees(hard, lambda rows: (hard.predict(rows)[:, None] == ["no", "yes"]).astype(float), X)
    assert explanation.output_names == ["no", "yes"]
    multilabel = RandomForestClassifier(3, random_state=0).fit(X, np.column_stack([label, X[:, 0] > 0]))
    explanation = agrees(multilabel, lambda rows: np.hstack(multilabel.predict_proba(rows)), X)
    assert explanation.output_names == ["y0: 0", "y0: 1", "y1: 0", "y1: 1"]
    several = RandomForestRegressor(3, random_state=0).fit(X, np.column_stack([y, -y]))
    assert agrees(several, several.predict, X).output_names == ["y0", "y1"]
    centroid = NearestCentroid().fit(X, label)
    assert riesz.Explainer(centroid, X[:5])(X[:2]).certificate.holds
    stacked = StackingClassifier([("a", TREES)], LogisticRegression(), cv=2).fit(X, label)
    agrees(stacked, stacked.decision_function, X)


class PredictOnly:
    """A user's model that only has a predict method."""

    def predict(self, rows):
        return np.asarray(rows)[:, 0] * np.asarray(rows)[:, 1]


def test_any_object_with_predict_is_explained(data):
    X, _ = data
    assert agrees(PredictOnly(), PredictOnly().predict, X).feature_names == ["x0", "x1", "x2", "x3"]
    with pytest.raises(
        riesz.UnsupportedModelError, match="a object is not a model that riesz reads, and has no predict"
    ):
        riesz.Explainer(object(), X[:5])
    with pytest.raises(NotFittedError):
        riesz.Explainer(RandomForestRegressor(), X[:5])


def test_data_frames_keep_their_columns(data):
    X, y = data
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X[:, :2], columns=["age", "size"]).assign(city=rng.choice(["Rome", "Oslo"], len(y)))
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestRegressor(5, random_state=0)).fit(frame, y)

    class Seen:
        feature_names_in_ = np.array(frame.columns, dtype=object)

        def predict(self, rows):
            assert list(rows.columns) == ["age", "size", "city"]
            return model.predict(rows)

    for rows in (frame, frame.to_numpy(dtype=object)):
        explanation = riesz.Explainer(Seen(), rows[:5])(rows[20:22])
        assert explanation.feature_names == ["age", "size", "city"]
        np.testing.assert_allclose(explanation.predictions, model.predict(frame[20:22]))
    plain = RandomForestRegressor(3, random_state=0).fit(frame[["age", "size"]], y)
    with pytest.raises(ValueError, match="the same columns in the same order"):
        riesz.Explainer(plain, frame[["size", "age"]][:5])
    theirs = pl.from_pandas(frame[["age", "size"]])
    np.testing.assert_array_equal(
        riesz.Explainer(plain, theirs[:5])(theirs[20:22]).values,
        riesz.Explainer(plain, frame[["age", "size"]][:5])(frame[["age", "size"]][20:22]).values,
    )


@pytest.mark.filterwarnings("error:X does not have valid feature names")
def test_boosting_of_other_libraries(data):
    X, y = data
    frame, label = pd.DataFrame(X, columns=list("abcd")), (y > np.median(y)).astype(int)
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    catboost = pytest.importorskip("catboost")
    quiet = {"verbose": 0, "allow_writing_files": False}
    for rows in (X, frame):
        for regressor, classifier in [
            (xgboost.XGBRegressor(n_estimators=5), xgboost.XGBClassifier(n_estimators=5)),
            (
                lightgbm.LGBMRegressor(n_estimators=5, verbose=-1),
                lightgbm.LGBMClassifier(n_estimators=5, verbose=-1),
            ),
            (
                catboost.CatBoostRegressor(iterations=5, **quiet),
                catboost.CatBoostClassifier(iterations=5, **quiet),
            ),
        ]:
            regressor.fit(rows, y)
            classifier.fit(rows, label)
            to_rows = (lambda a: a) if rows is X else (lambda a: pd.DataFrame(a, columns=list("abcd")))
            for model, function in [(regressor, regressor.predict), (classifier, classifier.predict_proba)]:
                explanation = riesz.Explainer(model, rows[:5])(rows[20:22])
                expected = interventional(
                    lambda a: np.asarray(function(to_rows(a)), dtype=float), X[20], X[:5]
                )
                np.testing.assert_allclose(explanation.values[0], expected, atol=1e-6)
                assert explanation.feature_names == (["x0", "x1", "x2", "x3"] if rows is X else list("abcd"))
            assert riesz.Explainer(classifier, rows[:5], link="logit")(rows[:2]).shape == (2, 4, 2)
    booster = xgboost.train({}, xgboost.DMatrix(X, y), 5)
    np.testing.assert_allclose(
        riesz.Explainer(booster, X[:5])(X[:2]).predictions, booster.predict(xgboost.DMatrix(X[:2])), rtol=1e-6
    )
    booster = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(X, y).booster_
    np.testing.assert_allclose(riesz.Explainer(booster, X[:5])(X[:2]).predictions, booster.predict(X[:2]))


def test_support_vector_machines_of_other_kinds_are_exact(data):
    X, y = data
    label = y > np.median(y)
    for model, function in [
        (NuSVR(), "predict"),
        (NuSVC(), "decision_function"),
        (OneClassSVM(), "decision_function"),
    ]:
        model.fit(X, label if isinstance(model, NuSVC) else y)
        explanation = agrees(model, getattr(model, function), X)
        assert explanation.bound.max() < 1e-9


def test_precomputed_kernels_are_refused_with_advice(data):
    X, y = data
    gram = lambda a, b: np.exp(-0.3 * ((a[:, None] - b[None]) ** 2).sum(axis=2))
    label = y > np.median(y)
    for model, target in [(SVC(kernel="precomputed"), label), (SVR(kernel="precomputed"), y)]:
        model.fit(gram(X, X), target)
        for options in ({}, {"background": X[:5]}, {"background": gram(X, X)[:5]}):
            with pytest.raises(
                riesz.UnsupportedModelError, match=r"precomputed.*riesz.Expansion\(kernel, points=X_train"
            ):
                riesz.Explainer(model, **options)
        # The result agrees with the advice of the message.
        intercept = model.intercept_[0]
        kernel = riesz.kernels.RBF((1 / 0.6) ** 0.5)
        expansion = riesz.Expansion(
            kernel, points=X[model.support_], coef=model.dual_coef_[0], intercept=intercept
        )
        predict = model.decision_function if isinstance(model, SVC) else model.predict
        agrees(expansion, lambda rows: predict(gram(rows, X)), X)
    ridge = KernelRidge(kernel="precomputed").fit(gram(X, X), y)
    with pytest.raises(riesz.UnsupportedModelError, match="points=X_train, coef=model.dual_coef_"):
        riesz.Explainer(ridge, X[:5])
    search = GridSearchCV(SVR(kernel="precomputed"), {"C": [1.0]}, cv=2).fit(gram(X, X), y)
    with pytest.raises(riesz.UnsupportedModelError, match="precomputed"):
        riesz.Explainer(search, gram(X, X)[:5])


class Overlap(GenericKernelMixin, StationaryKernelMixin, Kernel):
    """The share of members that two sets have in common."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        return np.array([[len(x & y) / max(len(x | y), 1) for y in Y] for x in X])

    def diag(self, X):
        return np.ones(len(X))


def test_processes_over_objects_are_refused():
    sets = np.array([frozenset(letters) for letters in ("abc", "abd", "xy", "xz", "ax", "bz")], dtype=object)
    for model, target in [
        (GaussianProcessRegressor(Overlap(), optimizer=None, alpha=0.1), [1.0, 0.0, 2.0, -1.0, 1.0, 0.0]),
        (GaussianProcessClassifier(Overlap(), optimizer=None), [1, 0, 1, 0, 1, 0]),
    ]:
        model.fit(sets, target)
        for background in (None, sets[:2]):
            with pytest.raises(riesz.UnsupportedModelError, match="objects that have no columns"):
                riesz.Explainer(model, background)


@pytest.mark.filterwarnings("ignore:Solver terminated early")
def test_models_that_differ_from_their_kernel_are_refused(data):
    """This model agrees with its kernel at training rows only."""
    X, y = data
    for model in (
        SVR(),
        KernelRidge(kernel="rbf"),
        GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None),
    ):
        model.fit(X, y)
        predict = model.predict
        model.predict = lambda rows, predict=predict: (
            predict(rows) + 1e-3 * (np.asarray(rows) > 4.0).any(axis=1)
        )
        far = np.abs(X) + 5.0
        with pytest.raises(
            riesz.UnsupportedModelError, match="does not predict what its kernel and coefficients say"
        ):
            riesz.Explainer(model, far)
        # Its predictions can be explained.
        assert riesz.Explainer(model.predict, far[:4])(far[:1]).certificate.holds
        del model.predict
        assert riesz.Explainer(model, far)(far[:1]).certificate.holds
    # Sums of large terms lose digits, as with unscaled columns.
    rows = 1e6 * (X + 10.0)
    assert riesz.Explainer(SVC(kernel="linear", max_iter=500).fit(rows, y > 0), rows)(rows[:2]).shape == (
        2,
        4,
    )
    apart = KernelRidge(kernel="rbf", alpha=1e-6).fit(X + 5000.0, y)
    assert riesz.Explainer(apart, X + 5000.0)(X[:2] + 5000.0).shape == (2, 4)
    # Row labels are not positions.
    frame = pd.DataFrame(X, index=np.linspace(5.0, 0.1, len(X)), columns=list("abcd"))
    assert riesz.Explainer(SVR().fit(frame, y), frame)(frame[:2]).certificate.holds
    # The comparison is relative, for small outcomes too.
    tiny = SVR(epsilon=1e-12, C=1e-7).fit(X, 1e-9 * y)
    predict = tiny.predict
    tiny.predict = lambda rows: 1.5 * predict(rows)
    with pytest.raises(riesz.UnsupportedModelError, match="does not predict"):
        riesz.Explainer(tiny, X[:5])
