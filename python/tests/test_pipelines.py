"""Pipelines are explained in the user's columns; the oracle mixes rows of the user's table."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR

import riesz
from conftest import interventional, shapley


@pytest.fixture
def frame():
    rng = np.random.default_rng(3)
    n = 60
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, n).round(),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "income": rng.lognormal(8, 1, n),
            "size": rng.choice(["S", "M", "L"], n),
        }
    )
    y = frame.age / 30 + (frame.city == "Rome") * np.log(frame.income) / 4 + 0.1 * rng.normal(size=n)
    return frame, y


def oracle(f, frame, x, background):
    """Interventional values by mixing rows of data frames."""

    def value(mask):
        mixed = background.copy()
        for column, on in zip(frame.columns, mask):
            if on:
                mixed[column] = x[column]
        return np.mean(f(mixed))

    return shapley(value, frame.shape[1])


NUMERIC = ["age", "income"]
ENCODERS = {
    "one-hot": OneHotEncoder(),
    "one-hot, dense, first dropped": OneHotEncoder(drop="first", sparse_output=False),
    "ordinal": OrdinalEncoder(),
}
SCALERS = {
    "standard": StandardScaler(),
    "min-max": MinMaxScaler(),
    "robust": RobustScaler(),
    "power": PowerTransformer(),
    "quantile": QuantileTransformer(n_quantiles=20),
    "log": FunctionTransformer(np.log1p),
    "bins": KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"),
    "splines": SplineTransformer(n_knots=4),
    "imputer and scaler": make_pipeline(SimpleImputer(), StandardScaler()),
}


@pytest.mark.parametrize(("encoder", "scaler"), list(itertools.product(ENCODERS, SCALERS)))
def test_column_transformers(encoder, scaler, frame):
    frame, y = frame
    columns = ColumnTransformer(
        [("cat", ENCODERS[encoder], ["size", "city"]), ("num", SCALERS[scaler], NUMERIC)]
    )
    model = make_pipeline(columns, KernelRidge(kernel="rbf", gamma=0.3, alpha=0.1)).fit(frame, y)
    explanation = riesz.Explainer(model, frame[:6])(frame[10:12])
    assert explanation.feature_names == ["age", "city", "income", "size"]
    assert explanation.data[0, 1] == frame.city[10]
    for i in range(2):
        expected = oracle(model.predict, frame, frame.iloc[10 + i], frame[:6])
        np.testing.assert_allclose(explanation.values[i], expected, atol=1e-10)


def test_other_ways_to_name_columns(frame):
    frame, y = frame
    for numeric, remainder in [
        ([0, 2], "drop"),
        (slice(0, 1), "passthrough"),
        ([True, False, True, False], "drop"),
        ("age", "drop"),
    ]:
        used = frame[["age", "size", "income", "city"]].assign(size=range(60), city=1.5)
        if numeric == "age":
            columns = ColumnTransformer(
                [("num", StandardScaler(), ["age"]), ("none", "drop", ["size"])], remainder="passthrough"
            )
        else:
            columns = ColumnTransformer([("num", StandardScaler(), numeric)], remainder=remainder)
        model = make_pipeline(columns, MinMaxScaler(), SVR()).fit(used, y)
        explanation = riesz.Explainer(model, used[:5])(used[7:8])
        expected = oracle(model.predict, used, used.iloc[7], used[:5])
        np.testing.assert_allclose(explanation.values[0], expected, atol=1e-10)


def test_selected_columns_and_classifiers(frame):
    frame, y = frame
    X = frame[NUMERIC].assign(noise=np.arange(60.0) % 7, more=np.arange(60.0) % 5)
    model = Pipeline([("scale", StandardScaler()), ("select", SelectKBest(k=2)), ("svc", SVC())]).fit(
        X, y > y.median()
    )
    explanation = riesz.Explainer(model, X[:6])(X[20:22])
    assert (
        explanation.output_names == ["True"]
        and "decision function" in explanation.provenance.model["explained"]
    )
    for i in range(2):
        expected = oracle(model.decision_function, X, X.iloc[20 + i], X[:6])
        np.testing.assert_allclose(explanation.values[i], expected, atol=1e-10)
    selector = riesz.feature_selection.SelectHSIC(n_features_to_select=2)
    ours = make_pipeline(StandardScaler(), selector, SVR()).fit(X, y)
    values = riesz.Explainer(ours, X[:6])(X[20:22]).values
    np.testing.assert_allclose(values[0], oracle(ours.predict, X, X.iloc[20], X[:6]), atol=1e-10)
    dropped = [j for j, kept in enumerate(model[1].get_support()) if not kept]
    assert (explanation.values[:, dropped] == 0).all()


def test_groups_of_the_users_columns(frame):
    frame, y = frame
    columns = ColumnTransformer(
        [("cat", OneHotEncoder(), ["city", "size"]), ("num", StandardScaler(), NUMERIC)]
    )
    model = make_pipeline(columns, SVR()).fit(frame, y)
    explanation = riesz.Explainer(model, frame[:6], groups={"who": ["age", "income"]})(frame[:1])
    assert explanation.feature_names == ["who", "city", "size"]
    assert abs(explanation.values.sum() + explanation.base_values[0] - model.predict(frame[:1])[0]) < 1e-10


def test_steps_that_mix_columns_are_named(frame):
    frame, y = frame
    for step, name in [
        (PCA(2), "pca"),
        (Normalizer(), "normalizer"),
        (PolynomialFeatures(), "polynomialfeatures"),
        (FunctionTransformer(lambda X: X[:, ::-1]), "functiontransformer"),
    ]:
        model = make_pipeline(StandardScaler(), step, SVR()).fit(frame[NUMERIC].to_numpy(), y)
        with pytest.raises(riesz.UnsupportedModelError, match=f"step '{name}'"):
            riesz.Explainer(model)


def test_subclasses_of_steps_are_not_trusted(frame):
    class Mixer(StandardScaler):
        def transform(self, X):
            return super().transform(X)[:, ::-1]

    class Selector(SelectKBest):
        def transform(self, X):
            return super().transform(X)[:, ::-1]

    class Chain(Pipeline):
        def transform(self, X):
            return super().transform(X)[:, ::-1]

    frame, y = frame
    rows = frame[NUMERIC].to_numpy()
    for step in (Mixer(), Selector(k="all"), Chain([("scale", StandardScaler())])):
        model = make_pipeline(step, SVR()).fit(rows, y)
        with pytest.raises(riesz.UnsupportedModelError, match="have no owner"):
            riesz.Explainer(model)
        # Then only the predictions are used.
        expected = interventional(model.predict, rows[9], rows[:5])
        np.testing.assert_allclose(
            riesz.Explainer(model, rows[:5])(rows[9:10]).values[0], expected, atol=1e-10
        )


def test_frames_of_any_library(frame):
    frame, y = frame
    model = GaussianProcessRegressor(RBF(20.0), alpha=0.1, optimizer=None).fit(frame[NUMERIC], y)
    expected = riesz.Explainer(model, frame[NUMERIC][:9])(frame[NUMERIC][:2])
    theirs = pl.from_pandas(frame[NUMERIC])
    explanation = riesz.Explainer(model, theirs[:9])(theirs[:2])
    assert explanation.feature_names == NUMERIC and (explanation.values == expected.values).all()
    # A model fitted on arrays has the names of the background, or else of the rows.
    unnamed = GaussianProcessRegressor(RBF(20.0), alpha=0.1, optimizer=None).fit(frame[NUMERIC].to_numpy(), y)
    named = riesz.Explainer(unnamed, frame[NUMERIC][:9])
    assert (
        named(frame[NUMERIC][:2]).feature_names
        == named(frame[NUMERIC][:2].to_numpy()).feature_names
        == NUMERIC
    )
    with pytest.raises(
        ValueError, match="the columns of X are income, age, but the background has age, income"
    ):
        named(frame[["income", "age"]][:2])
    for background in (frame[NUMERIC][:9].to_numpy(), None):
        explanation = riesz.Explainer(unnamed, background)(frame[NUMERIC][:2])
        assert (
            explanation.feature_names == explanation.column_names == NUMERIC
            and explanation[0, "income"].shape == ()
        )
    with pytest.raises(ValueError, match="the name 'income' is used twice"):
        riesz.Explainer(unnamed, groups={"income": [0]})(frame[NUMERIC][:2])
    # A column transformer accepts its columns in any order, but the explanation needs their names in order.
    columns = ColumnTransformer([("city", OneHotEncoder(), ["city"]), ("age", StandardScaler(), ["age"])])
    model_of_two = make_pipeline(columns, SVR()).fit(frame[["age", "city"]], y)
    with pytest.raises(
        ValueError, match="the columns of X are city, age, but the model was fitted on age, city"
    ):
        riesz.Explainer(model_of_two, frame[["age", "city"]][:5])(frame[["city", "age"]])
    with pytest.raises(ValueError, match="same columns in the same order"):
        riesz.Explainer(model, frame[["income", "age"]])


def test_steps_that_do_nothing_and_no_rows(frame):
    frame, y = frame
    X = frame[NUMERIC]
    model = make_pipeline("passthrough", StandardScaler(), None, SVR()).fit(X, y)
    explainer = riesz.Explainer(model, X[:6])
    assert explainer(X[:3]).feature_names == NUMERIC and explainer(X[:0]).values.shape == (0, 2)
