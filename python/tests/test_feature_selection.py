"""SelectHSIC: scikit-learn's contract and the selected features."""

import pickle

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import riesz
from riesz.feature_selection import SelectHSIC
from riesz.kernels import RBF


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    return X, np.sin(X[:, 1]) + X[:, 3] * X[:, 4] + 0.1 * rng.normal(size=300)


def test_it_keeps_scikit_learns_contract():
    check_estimator(SelectHSIC(n_features_to_select=1))


@pytest.mark.parametrize("method", ["shapley", "backward", "lasso"])
def test_every_method_finds_the_relevant_features(data, method):
    X, y = data
    selector = SelectHSIC(n_features_to_select=3, method=method).fit(X, y)
    assert list(selector.get_support(indices=True)) == [1, 3, 4]
    assert sorted(selector.ranking_) == [1, 2, 3, 4, 5, 6] and selector.scores_.shape == (6,)
    assert selector.transform(X).shape == (300, 3)
    again = pickle.loads(pickle.dumps(clone(selector).fit(X, y)))
    np.testing.assert_array_equal(again.scores_, selector.scores_)


def test_scores_are_those_of_the_test(data):
    X, y = data
    selector = SelectHSIC(n_features_to_select=2, kernel=RBF(2.0), target_kernel=RBF(1.0)).fit(X, y)
    test = riesz.hsic_test(X, y, kernel=RBF(2.0), target_kernel=RBF(1.0), n_permutations=0)
    np.testing.assert_array_equal(selector.scores_, test.values)


def test_significant_features_are_kept(data):
    X, _ = data
    selector = SelectHSIC(random_state=0).fit(X, X[:, 1] + X[:, 3] ** 2)
    assert list(selector.get_support(indices=True)) == [1, 3]
    assert (selector.adjusted_pvalues_ >= selector.pvalues_).all()
    rng = np.random.default_rng(0)
    kept = [
        SelectHSIC(random_state=s, n_permutations=99).fit(X[:60], rng.normal(size=60)).get_support().any()
        for s in range(100)
    ]
    assert sum(kept) <= 12


def test_frames_and_pipelines(data):
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    frame["colour"] = np.where(y > 0, "warm", "cold")
    selector = SelectHSIC(n_features_to_select=2).fit(frame, y)
    assert "colour" in selector.get_feature_names_out()
    search = GridSearchCV(
        make_pipeline(SelectHSIC(), Ridge()), {"selecthsic__n_features_to_select": [1, 3]}, cv=3
    )
    assert search.fit(X, y).best_params_["selecthsic__n_features_to_select"] in (1, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(method="best"), "it is 'shapley', 'backward' or 'lasso'"),
        (dict(n_features_to_select=0), "from 1 to 6"),
        (dict(n_features_to_select=7), "from 1 to 6"),
        (dict(method="lasso"), "has no p-values: give n_features"),
        (dict(level=2), "a number between 0 and 1"),
        (dict(kernel_factors=None), "it is 'orthogonal' or 'product'"),
        (dict(n_permutations=0), "a whole number from 1"),
        (dict(n_features_to_select=2, method="lasso", kernel=RBF(1.0)), "choose their kernels"),
    ],
)
def test_bad_settings_are_named(data, settings, message):
    with pytest.raises(ValueError, match=message):
        SelectHSIC(**settings).fit(*data)
