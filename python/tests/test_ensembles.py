"""Ensembles of models, against their own predictions and the enumeration of all coalitions."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import compose, ensemble, linear_model, multiclass, multioutput
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

import riesz
from conftest import interventional, shapley

KRR = KernelRidge(kernel="rbf", gamma=0.3, alpha=0.1)
SCALED = make_pipeline(StandardScaler(), SVR(C=3.0))


def target_through(scaler, model=KRR):
    return compose.TransformedTargetRegressor(clone(model), transformer=scaler)


REGRESSORS = {
    "least squares": linear_model.LinearRegression(),
    "ridge": linear_model.Ridge(),
    "lasso": linear_model.LassoCV(cv=3),
    "elastic net": linear_model.ElasticNet(0.01),
    "linear svr": LinearSVR(max_iter=100_000),
    "sgd": linear_model.SGDRegressor(random_state=0),
    "grid search": GridSearchCV(SVR(), {"C": [1.0, 2.0]}, cv=2),
    "random search": RandomizedSearchCV(SCALED, {"svr__C": [1.0, 2.0, 4.0]}, n_iter=2, cv=2, random_state=0),
    "halving search": HalvingGridSearchCV(SVR(), {"C": [1.0, 2.0]}, cv=2, random_state=0),
    "frozen": FrozenEstimator(KRR),
    "target, standardised": target_through(StandardScaler()),
    "target, standardised, no mean": target_through(StandardScaler(with_mean=False)),
    "target, min-max": target_through(MinMaxScaler((-3, 2)), SCALED),
    "target, robust": target_through(RobustScaler()),
    "target, max-abs": target_through(MaxAbsScaler()),
    "target, as it is": compose.TransformedTargetRegressor(KRR),
    "bagging": ensemble.BaggingRegressor(SVR(), 4, random_state=0),
    "bagging of one kernel": ensemble.BaggingRegressor(KRR, 4, random_state=0),
    "bagging over columns": ensemble.BaggingRegressor(SVR(), 4, max_features=2, random_state=0),
    "bagging over columns, drawn twice": ensemble.BaggingRegressor(
        SCALED, 3, bootstrap_features=True, random_state=0
    ),
    "voting": ensemble.VotingRegressor(
        [("a", SCALED), ("b", KRR), ("c", "drop"), ("d", linear_model.Ridge())], weights=[1, 3, 7, 2]
    ),
    "stacking": ensemble.StackingRegressor([("a", SCALED), ("b", KRR)]),
    "stacking, passed through": ensemble.StackingRegressor(
        [("a", SVR()), ("b", KRR)], linear_model.Ridge(), passthrough=True
    ),
    "pipeline of a sum": make_pipeline(
        StandardScaler(), ensemble.VotingRegressor([("a", SVR()), ("b", SCALED)])
    ),
    "a search for a target's bagging": GridSearchCV(
        target_through(StandardScaler(), ensemble.BaggingRegressor(SVR(), 3, random_state=0)),
        {"regressor__n_estimators": [2, 3]},
        cv=2,
    ),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, data):
    X, y = data
    y = 100.0 + 7.0 * y
    model = clone(REGRESSORS[name])
    model = model.fit(X, y) if name != "frozen" else FrozenEstimator(clone(KRR).fit(X, y))
    explainer = riesz.Explainer(model, X[:7])
    explanation = explainer(X[20:23])
    assert (
        explainer.exactness == "exact" and explanation.certificate.holds and explanation.output_names == ["y"]
    )
    for i, x in enumerate(X[20:23]):
        np.testing.assert_allclose(explanation.values[i], interventional(model.predict, x, X[:7]), atol=1e-8)
    np.testing.assert_allclose(explanation.predictions, model.predict(X[20:23]), rtol=1e-10)
    np.testing.assert_allclose(
        explanation.base_values + explanation.values.sum(axis=1), explanation.predictions, rtol=1e-12
    )
    again = pickle.loads(pickle.dumps(explainer))(X[20:23])
    np.testing.assert_array_equal(again.values, explanation.values)


SVM = make_pipeline(StandardScaler(), SVC(C=2.0))
CLASSIFIERS = {
    "linear svc": LinearSVC(max_iter=100_000),
    "logistic": linear_model.LogisticRegression(),
    "ridge": linear_model.RidgeClassifier(),
    "perceptron": linear_model.Perceptron(),
    "discriminant": LinearDiscriminantAnalysis(),
    "search": GridSearchCV(SVC(decision_function_shape="ovo"), {"C": [1.0, 2.0]}, cv=2),
    "one vs rest": multiclass.OneVsRestClassifier(SVM),
    "bagging of linear ones": ensemble.BaggingClassifier(LinearSVC(max_iter=100_000), 3, random_state=0),
    "stacking of linear ones": ensemble.StackingClassifier(
        [("a", LinearSVC(max_iter=100_000)), ("b", linear_model.RidgeClassifier())],
        linear_model.LogisticRegression(),
        cv=2,
    ),
}
TWO_CLASSES = {
    "bagging": ensemble.BaggingClassifier(SVM, 3, random_state=0),
    "stacking": ensemble.StackingClassifier(
        [("a", SVM), ("b", SVC())], linear_model.LogisticRegression(), cv=2
    ),
    "tuned threshold": TunedThresholdClassifierCV(SVM, cv=2),
    "fixed threshold": FixedThresholdClassifier(SVM, threshold=0.3),
}


@pytest.mark.parametrize(
    ("name", "count"),
    [(name, 2) for name in [*CLASSIFIERS, *TWO_CLASSES]] + [(name, 3) for name in CLASSIFIERS],
)
def test_classifiers_explain_their_decision_functions(name, count, data):
    X, y = data
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.5] if count == 2 else [0.3, 0.6]))]
    model = clone({**CLASSIFIERS, **TWO_CLASSES}[name]).fit(X, labels)
    explanation = riesz.Explainer(model, X[:6])(X[20:22])
    assert explanation.certificate.holds
    pairs = ["a vs b", "a vs c", "b vs c"] if name == "search" else ["a", "b", "c"]
    assert explanation.output_names == (["b"] if count == 2 else pairs)
    np.testing.assert_allclose(
        explanation.predictions, model.decision_function(X[20:22]), rtol=1e-9, atol=1e-9
    )
    for i, x in enumerate(X[20:22]):
        np.testing.assert_allclose(
            explanation.values[i], interventional(model.decision_function, x, X[:6]), atol=1e-9
        )


def test_one_vs_one_and_several_targets(data):
    X, y = data
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))]
    model = multiclass.OneVsOneClassifier(SVM).fit(X, labels)
    explanation = riesz.Explainer(model, X[:6])(X)
    assert explanation.output_names == ["b vs a", "c vs a", "c vs b"] and explanation.certificate.holds
    expected = np.column_stack([member.decision_function(X) for member in model.estimators_])
    np.testing.assert_allclose(explanation.predictions, expected, atol=1e-9)
    for o, (first, second) in enumerate(name.split(" vs ") for name in explanation.output_names):
        is_confident = np.isin(labels, [first, second]) & (np.abs(expected[:, o]) > 0.5)
        assert ((expected[is_confident, o] > 0) == (labels[is_confident] == first)).mean() > 0.9 and second

    Y = np.column_stack([y, y**2, -y])
    model = multioutput.MultiOutputRegressor(SVR()).fit(X, Y)
    explanation = riesz.Explainer(model, X[:6])(X[:3])
    assert explanation.output_names == ["y0", "y1", "y2"]
    np.testing.assert_allclose(explanation.predictions, model.predict(X[:3]), atol=1e-10)
    np.testing.assert_allclose(explanation.values[0], interventional(model.predict, X[0], X[:6]), atol=1e-9)
    scaled = compose.TransformedTargetRegressor(
        multioutput.MultiOutputRegressor(SVR()), transformer=StandardScaler()
    ).fit(X, Y)
    explanation = riesz.Explainer(scaled, X[:6])(X[:3])
    np.testing.assert_allclose(explanation.values[0], interventional(scaled.predict, X[0], X[:6]), atol=1e-9)
    linear = linear_model.Ridge().fit(X, Y)
    np.testing.assert_allclose(
        riesz.Explainer(linear, X[:6])(X[:1]).values[0],
        interventional(linear.predict, X[0], X[:6]),
        atol=1e-10,
    )

    model = ensemble.BaggingClassifier(SVC(), 3, random_state=0).fit(X, labels)
    explanation = riesz.Explainer(model, X[:6])(X[:3])
    assert explanation.output_names == ["a vs b", "a vs c", "b vs c", "a", "b", "c"]
    pairs = [member.set_params(decision_function_shape="ovo") for member in model.estimators_]
    decide = lambda rows: np.mean([member.decision_function(rows) for member in pairs], axis=0)
    np.testing.assert_allclose(explanation.predictions[:, :3], decide(X[:3]), atol=1e-9)

    model = multioutput.MultiOutputClassifier(SVC()).fit(X, np.column_stack([labels == "a", labels]))
    explanation = riesz.Explainer(model, X[:6])(X[:3])
    assert explanation.output_names == [
        "y0: True",
        "y1: a vs b",
        "y1: a vs c",
        "y1: b vs c",
        "y1: a",
        "y1: b",
        "y1: c",
    ]
    np.testing.assert_allclose(
        explanation.predictions[:, 0], model.estimators_[0].decision_function(X[:3]), atol=1e-10
    )
    labels_of_two = np.column_stack([labels == "a", labels == "b"]).astype(int)
    explanation = riesz.Explainer(multiclass.OneVsRestClassifier(SVC()).fit(X, labels_of_two), X[:6])(X[:3])
    assert explanation.output_names == ["0", "1"]


def test_calibrated_classifiers_explain_the_mean_decision(data):
    X, y = data
    for ensembled, members in [(True, 3), (False, 1)]:
        model = CalibratedClassifierCV(SVM, cv=3, ensemble=ensembled).fit(X, y > np.median(y))
        explainer = riesz.Explainer(model, X[:6])
        explanation = explainer(X)
        assert "before it is calibrated" in repr(explainer) and explanation.certificate.holds
        decide = lambda rows: np.mean(
            [part.estimator.decision_function(rows) for part in model.calibrated_classifiers_], axis=0
        )
        assert len(model.calibrated_classifiers_) == members
        np.testing.assert_allclose(explanation.values[3], interventional(decide, X[3], X[:6]), atol=1e-9)
    # One decision function is calibrated to probabilities that increase with it.
    order = np.argsort(explanation.predictions)
    assert (np.diff(model.predict_proba(X)[order, 1]) >= 0).all()


def test_members_of_one_kernel_become_one_expansion(data):
    X, y = data
    model = ensemble.BaggingRegressor(KRR, 6, random_state=0).fit(X, y)
    explainer = riesz.Explainer(model, X[:6])
    points = explainer(X[:1]).provenance.model["support points"]
    assert int(points) <= len(X) and "bagging" in repr(explainer).lower()
    # Sums are also kernel machines in the functional game, with a bound if their kernels are bounded.
    combined = riesz.Explainer(model, game="functional")(X[:2]).values
    member_values = [riesz.Explainer(member, game="functional")(X[:2]).values for member in model.estimators_]
    np.testing.assert_allclose(combined, np.mean(member_values, axis=0), atol=1e-9)
    bound = riesz.Explainer(model, X[:6]).value_bound(0.01)
    assert (
        bound
        <= np.mean([riesz.Explainer(member, X[:6]).value_bound(0.01) for member in model.estimators_], axis=0)
    ).all()
    several = ensemble.VotingRegressor([(str(gamma), SVR(gamma=gamma)) for gamma in (0.1, 0.2, 0.3)]).fit(
        X, y
    )
    bounds = [riesz.Explainer(member, X[:6]).value_bound(0.01) for member in several.estimators_]
    np.testing.assert_allclose(
        riesz.Explainer(several, X[:6]).value_bound(0.01), np.mean(bounds, axis=0), rtol=1e-9
    )
    facts = riesz.Explainer(several, X[:6])(X[:1]).provenance.model
    assert "3 different ones" in facts["kernel"]


def test_bounds_of_sums_hold(data):
    X, y = data
    rng = np.random.default_rng(7)
    for _ in range(100):
        members = [
            (str(k), KernelRidge(kernel=k, gamma=g, alpha=1e-3))
            for k, g in zip(["rbf", "laplacian"], rng.uniform(0.01, 2, 2))
        ]
        model = ensemble.VotingRegressor(members, weights=10.0 ** rng.uniform(-3, 3, 2))
        model = target_through(StandardScaler(), model).fit(
            X, 10.0 ** rng.uniform(-3, 6) * y + 10.0 ** rng.uniform(-3, 6)
        )
        explanation = riesz.Explainer(model, X[: rng.integers(1, 9)])(X[9:12])
        assert explanation.certificate.holds
        size = np.abs(explanation.predictions).max()
        np.testing.assert_allclose(explanation.predictions, model.predict(X[9:12]), atol=1e-9 * size)


def test_frames_groups_and_categories(data):
    X, y = data
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(city=rng.choice(["Rome", "Oslo", "Lima"], len(X)))
    y = y + (frame.city == "Rome")
    columns = compose.make_column_transformer(
        (make_pipeline(StandardScaler()), ["a", "b"]),
        (make_pipeline(PolynomialFeatures(3, include_bias=False), StandardScaler()), ["c"]),
        (FunctionTransformer(lambda rows: np.column_stack([np.sin(rows), np.cos(rows)])), ["d"]),
        (TfidfVectorizer(), "city"),
    )
    members = [("a", make_pipeline(columns, SVR())), ("b", make_pipeline(columns, KRR))]
    for model in (
        members[0][1],
        ensemble.VotingRegressor(members),
        ensemble.StackingRegressor(members, linear_model.Ridge()),
    ):
        model = clone(model).fit(frame, y)
        explanation = riesz.Explainer(model, frame[:6], groups={"pair": ["a", "b"]})(frame[20:22])
        assert explanation.feature_names == ["pair", "c", "d", "city"] and explanation.certificate.holds
        for i in range(2):

            def value(mask, row=frame.iloc[20 + i]):
                mixed = frame[:6].copy()
                for name in [
                    c for on, group in zip(mask, [["a", "b"], ["c"], ["d"], ["city"]]) if on for c in group
                ]:
                    mixed[name] = row[name]
                return model.predict(mixed).mean()

            np.testing.assert_allclose(explanation.values[i], shapley(value, 4), atol=1e-9)
    union = make_union(StandardScaler(), make_pipeline(MinMaxScaler(), FunctionTransformer(np.sqrt)))
    encoded = compose.make_column_transformer((union, ["a", "b"]), (TargetEncoder(random_state=0), ["city"]))
    model = make_pipeline(encoded, SVR()).fit(frame, y)
    explanation = riesz.Explainer(model, frame[:6])(frame[:3])
    np.testing.assert_allclose(explanation.predictions, model.predict(frame[:3]), atol=1e-10)
    assert (explanation.values[:, 2:4] == 0).all() and (np.abs(explanation.values[:, [0, 1, 4]]) > 0).any(
        axis=0
    ).all()


def test_probabilities_carry_the_names_of_classes(data):
    X, y = data
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))]
    forest = ensemble.RandomForestClassifier(5, random_state=0).fit(X, labels)
    explanation = riesz.Explainer(forest.predict_proba, X[:5])(X[:2])
    assert explanation.output_names == ["a", "b", "c"]
    assert riesz.Explainer(forest.predict_proba, X[:5], output_names=["p", "q", "r"])(X[:2]).output_names == [
        "p",
        "q",
        "r",
    ]
    process = make_pipeline(StandardScaler(), GaussianProcessClassifier(optimizer=None)).fit(X, labels)
    assert riesz.Explainer(process.predict_proba, X[:3])(X[:1]).output_names == ["a", "b", "c"]


def test_what_cannot_be_read_is_named_and_estimated(data):
    X, y = data
    forest = ensemble.RandomForestRegressor(3, random_state=0)
    labels = y > np.median(y)
    process = GaussianProcessClassifier(optimizer=None)
    for model, culprit in [
        (
            ensemble.VotingRegressor([("a", SVR()), ("b", forest)]),
            "a RandomForestRegressor is not a kernel model",
        ),
        (ensemble.VotingRegressor([("a", SVR(kernel="poly")), ("b", SVR(kernel="sigmoid"))]), "'sigmoid'"),
        (ensemble.StackingRegressor([("a", SVR())], forest), "final estimator .* is a RandomForestRegressor"),
        (
            ensemble.StackingClassifier([("a", process)]),
            "adds up the predict_proba of a GaussianProcessClassifier",
        ),
        (ensemble.BaggingClassifier(process, 2, random_state=0), "averages its members' probabilities"),
        (
            target_through(PowerTransformer()),
            "comes back through a PowerTransformer, which is not known to be linear",
        ),
        (
            compose.TransformedTargetRegressor(KRR, func=np.arcsinh, inverse_func=np.sinh),
            "through a FunctionTransformer",
        ),
    ]:
        model.fit(X, labels if is_classifier(model) else y)
        with pytest.raises(riesz.UnsupportedModelError, match=culprit):
            riesz.Explainer(model)
        # The kernel is not used; all coalitions of four features cost no more than an estimate.
        explainer = riesz.Explainer(model, X[:4])
        assert explainer.exactness == "exact" and explainer.game == "interventional"
        named = ("decision_function", "predict_proba", "predict")
        function = getattr(model, next(name for name in named if hasattr(model, name)))
        np.testing.assert_allclose(explainer(X[:2]).predictions, function(X[:2]), atol=1e-12)
    # Scores of three classes that are not sums over pairs are not explained as such.
    three = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    stacked = ensemble.StackingClassifier([("a", SVC())], cv=2).fit(X, three)
    with pytest.raises(
        riesz.UnsupportedModelError, match="have 6 outputs, but its final estimator was fitted on 3"
    ):
        riesz.Explainer(stacked)
    with pytest.raises(NotFittedError):
        riesz.Explainer(GridSearchCV(SVR(), {"C": [1.0]}))
    search = GridSearchCV(SVR(), {"C": [1.0]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(riesz.UnsupportedModelError, match="has no best_estimator_"):
        riesz.Explainer(search)


def test_a_sum_changed_after_fitting_is_not_explained_as_another(data):
    X, y = data
    model = ensemble.VotingRegressor([("a", SVR()), ("b", KRR)]).fit(X, y)
    assert riesz.Explainer(model, X[:5])(X[:3]).certificate.holds
    model.predict = lambda rows: np.zeros(len(rows))
    with pytest.raises(riesz.UnsupportedModelError, match="another model"):
        riesz.Explainer(model, X[:5])(X[:3])


def test_conditional_distributions_of_sums_and_of_models_without_rows(data):
    X, y = data
    linear = linear_model.Ridge().fit(X, y)
    with pytest.raises(riesz.UnsupportedModelError, match="a Ridge keeps no rows .* give a background"):
        riesz.Explainer(linear, game="observational")
    explanation = riesz.Explainer(linear, X[:20], game="observational")(X[:2])
    np.testing.assert_allclose(
        explanation.base_values + explanation.values.sum(axis=1), linear.predict(X[:2]), atol=1e-9
    )
    model = ensemble.VotingRegressor(
        [("a", SVR()), ("b", GaussianProcessRegressor(RBF(1.2), alpha=0.1))]
    ).fit(X, y)
    with pytest.raises(riesz.UnsupportedModelError, match="give a background"):
        riesz.Explainer(model, game="observational")
    explainer = riesz.Explainer(model, X[:20], game="observational")
    explanation = explainer(X[:2])
    np.testing.assert_allclose(
        explanation.base_values + explanation.values.sum(axis=1), model.predict(X[:2]), atol=1e-9
    )
