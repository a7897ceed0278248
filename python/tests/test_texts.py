"""Explanations of texts by their words; the oracle removes words from each text, and enumerates."""

import itertools
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import GenericKernelMixin, Kernel, StationaryKernelMixin
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

import riesz
from conftest import shapley

TEXTS = [
    "a good film with a good cast",
    "bad film and a bad plot",
    "the cast is fine, the plot is not",
    "awful: the worst plot of all",
    "fine film, good plot, good cast",
    "not a good film at all",
    "the worst cast and the worst film",
    "a fine plot",
]
LABELS = np.array(["pro", "con", "pro", "con", "pro", "con", "con", "pro"])
THREE = np.array(["a", "b", "c", "b", "a", "c", "b", "a"])
NEW = ["Good plot, bad cast; the film is a good film.", "nothing known", "the worst film of all"]


def words_of(text):
    return re.findall(r"(?u)\b\w\w+\b", text.lower())


def enumerated(f, text, names):
    """Values of the words of a text for a function ``f`` of texts without some of the words."""
    words = words_of(text)
    present_names = [name for name in names if name in words]

    def value(mask):
        kept = {name for name, on in zip(present_names, mask) if on}
        return f([" ".join(word for word in words if word not in present_names or word in kept)])[0]

    by_name = dict(zip(present_names, shapley(value, len(present_names))))
    first = next(iter(by_name.values()))
    return np.array([by_name.get(name, np.zeros_like(first)) for name in names])


def agrees(model, f, exact, texts=NEW, atol=1e-9, **options):
    explainer = riesz.Explainer(model, **options)
    explanation = explainer(texts)
    assert (explainer.reason is None) == exact and explainer.exactness == ("exact" if exact else "estimated")
    assert (
        explanation.certificate.holds
        and explanation.provenance.absent == "an absent word is left out of the text"
    )
    np.testing.assert_allclose(explanation.predictions, f(texts), atol=atol)
    for i, text in enumerate(texts):
        if explanation[i].values.any():
            expected = enumerated(f, text, explanation.feature_names)
            np.testing.assert_allclose(explanation.values[i], expected, atol=atol)
            if exact:
                assert np.abs(explanation.values[i] - expected).max() <= np.max(explanation.bound[i]) + 1e-13
    return explanation


EXACT = {
    "counts, linear": (CountVectorizer(), LinearSVC()),
    "presence, ridge": (CountVectorizer(binary=True), Ridge()),
    "tf-idf, logistic": (TfidfVectorizer(), LogisticRegression(C=10.0)),
    "tf-idf of logarithms": (TfidfVectorizer(sublinear_tf=True, stop_words=["the"]), LinearSVC()),
    "counts, tf-idf, logistic": (CountVectorizer(), TfidfTransformer(), LogisticRegression()),
    "no length": (TfidfVectorizer(norm=None), SVC(kernel="linear")),
    "counts, rbf": (CountVectorizer(), SVC(gamma=0.3)),
    "counts, polynomial": (CountVectorizer(), SVC(kernel="poly", degree=2, coef0=1.0)),
    "counts scaled, laplacian": (
        CountVectorizer(),
        MaxAbsScaler(),
        KernelRidge(kernel="laplacian", gamma=0.2),
    ),
    "counts, tf-idf without length, rbf": (CountVectorizer(), TfidfTransformer(norm=None), SVC()),
    "hashed": (HashingVectorizer(n_features=2**12, norm=None), SVC()),
    "hashed, linear": (HashingVectorizer(n_features=2**12), LogisticRegression()),
}


@pytest.mark.parametrize("name", EXACT)
def test_values_of_words_are_exact(name):
    model = make_pipeline(*EXACT[name])
    regression = not hasattr(model[-1], "decision_function")
    model.fit(TEXTS, np.arange(8.0) if regression else LABELS)
    f = model.predict if regression else model.decision_function
    explanation = agrees(model, f, True)
    assert explanation.column_names[-1] == "text" and explanation.data[0, -1] == NEW[0]
    assert explanation.data[0, explanation.column_names.index("good")] == 2
    if "length" in name or "tf-idf" in name:
        assert explanation.bound.max() < 1e-9


def test_several_classes_and_odds():
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10.0)).fit(TEXTS, THREE)
    explanation = agrees(model, model.decision_function, True)
    assert explanation.output_names == ["a", "b", "c"] and explanation.values.shape[2] == 3
    bayes = make_pipeline(CountVectorizer(), MultinomialNB()).fit(TEXTS, LABELS)

    def odds(texts):
        logs = bayes.predict_log_proba(texts)
        return np.exp(logs[:, 1] - logs[:, 0])

    assert "odds" in agrees(bayes, odds, True).provenance.model["explained"]


def test_other_models_are_enumerated_or_estimated():
    short = NEW[2:]
    for steps in [(TfidfVectorizer(), SVC()), (TfidfVectorizer(norm="l1"), LinearSVC())]:
        model = make_pipeline(*steps).fit(TEXTS, LABELS)
        agrees(model, model.decision_function, False, short)
        with pytest.raises(ValueError, match="only the baseline game"):
            riesz.Explainer(model, game="functional")
    forest = make_pipeline(TfidfVectorizer(), RandomForestClassifier(5, random_state=0)).fit(TEXTS, LABELS)
    assert agrees(forest, forest.predict_proba, False, short).output_names == ["con", "pro"]
    search = GridSearchCV(make_pipeline(TfidfVectorizer(), SVC()), {"svc__C": [1.0]}, cv=2).fit(TEXTS, LABELS)
    agrees(search, search.decision_function, False, short)
    # For a text with many words, values are estimated from a sample of their orders.
    long = ["the worst plot of all and a good cast is not a bad film"]
    explainer = riesz.Explainer(search, n_orders=32, random_state=1)
    explanation = explainer(long)
    assert (
        explanation.exactness == "estimated"
        and "scale each other" in explanation.provenance.run["estimated because"]
    )
    expected = enumerated(search.decision_function, long[0], explanation.feature_names)
    assert (np.abs(explanation.values[0] - expected) <= 4 * explanation.std_error[0] + 1e-12).all()
    probable = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, LABELS)
    agrees(probable, probable.predict_proba, False, short, probabilities=True)
    agrees(
        probable,
        lambda texts: np.outer(probable.decision_function(texts), [-1, 1]),
        False,
        short,
        link="logit",
    )


def test_sparse_support_vectors_are_not_written_out_beyond_a_size():
    texts = [f"{text} {k}th" for k in range(15) for text in TEXTS]
    model = make_pipeline(HashingVectorizer(norm=None), SVC(C=0.01)).fit(texts, np.tile(LABELS, 15))
    assert len(model[-1].support_) * 2**20 > 1e8
    explainer = riesz.Explainer(model)
    assert "support vectors of 1048576 columns, which would take" in explainer.reason
    expected = enumerated(model.decision_function, "a bad plot", ["bad", "plot"])
    np.testing.assert_allclose(explainer(["a bad plot"]).values[0], expected, atol=1e-9)


def test_n_grams_are_players_where_the_vectoriser_counts_them():
    model = make_pipeline(CountVectorizer(ngram_range=(1, 2)), Ridge()).fit(TEXTS, np.arange(8.0))
    explanation = riesz.Explainer(model)(["a good film"])
    assert explanation.feature_names == ["good", "film", "good film"]
    slopes = [model[-1].coef_[model[0].vocabulary_[name]] for name in explanation.feature_names]
    np.testing.assert_allclose(explanation.values[0], slopes, atol=1e-12)


def test_other_text_models_are_explained_by_their_predictions():
    text, words = "a good plot", ["a", "good", "plot"]
    tfidf = make_pipeline(TfidfVectorizer(), LogisticRegression())
    union = make_union(TfidfVectorizer(), CountVectorizer(analyzer="char", ngram_range=(1, 2)))
    clean = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    for model, method in [
        (CalibratedClassifierCV(tfidf, cv=2), "predict_proba"),
        (VotingClassifier([("a", tfidf), ("b", tfidf)], voting="soft"), "predict_proba"),
        (make_pipeline(union, LogisticRegression()), "predict_proba"),
        (make_pipeline(clean, TfidfVectorizer(), LogisticRegression()), "predict_proba"),
    ]:
        f = getattr(model.fit(TEXTS, LABELS), method)
        explanation = riesz.Explainer(model)([text])

        def value(mask):
            return f([" ".join(word for word, on in zip(words, mask) if on)])[0]

        np.testing.assert_allclose(explanation.values[0], shapley(value, 3), atol=1e-9)
        assert explanation.feature_names == words and explanation.output_names == ["con", "pro"]


def test_groups_of_words():
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10.0)).fit(TEXTS, LABELS)
    groups = {"praise": ["good", "fine"], "blame": ["bad", "worst", "awful"]}
    explanation = riesz.Explainer(model, groups=groups)(NEW)
    assert {"praise", "blame", "film"} <= set(
        explanation.feature_names
    ) and "good" not in explanation.feature_names
    words = words_of(NEW[0])
    players = [["good"], ["plot"], ["bad"], ["cast"], ["the"], ["film"], ["is"]]

    def value(mask):
        gone = {word for group, on in zip(players, mask) if not on for word in group}
        return model.decision_function([" ".join(word for word in words if word not in gone)])[0]

    actual = [
        explanation[0, {"good": "praise", "bad": "blame"}.get(group[0], group[0])].values for group in players
    ]
    np.testing.assert_allclose(actual, shapley(value, 7), atol=1e-9)
    for wrong, words in [
        ({"a": ["good"], "b": ["good"]}, "in the groups 'a' and 'b'"),
        ({"film": ["good"]}, "a group has the name of the word 'film'"),
        ({"a": "good"}, "a list of words"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            riesz.Explainer(model, groups=wrong)(NEW)


def test_texts_come_in_lists_and_columns(tmp_path):
    model = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(TEXTS, LABELS)
    explainer = riesz.Explainer(model)
    expected = explainer(NEW)
    for texts in (tuple(NEW), np.array(NEW), pd.Series(NEW), pd.Series(NEW, dtype="string")):
        np.testing.assert_array_equal(explainer(texts).values, expected.values)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer))(NEW).values, expected.values)
    for wrong, words in [
        (NEW[0], r"give a list of texts, \[text\]"),
        ([1, 2], "X is 1 in row 0"),
        (pd.DataFrame({"text": NEW}), "give its column of texts"),
    ]:
        with pytest.raises(TypeError, match=words):
            explainer(wrong)
    assert (explainer(["nothing known"]).values == 0).all() and explainer([]).values.shape[0] == 0
    with pytest.warns(UserWarning, match="the background is not used"):
        riesz.Explainer(model, background=TEXTS)
    for options, words in [
        ({"background_weights": [1.0]}, "background_weights has no use"),
        ({"index": "k-SII"}, "index of features alone"),
    ]:
        with pytest.raises(ValueError, match=words):
            riesz.Explainer(model, **options)(NEW)
    # Files, tables and plots support them.
    expected.save(tmp_path / "e.json")
    again = riesz.Explanation.load(tmp_path / "e.json")
    np.testing.assert_array_equal(again.values, expected.values)
    assert again.data[0, -1] == NEW[0]
    expected.report(tmp_path / "e.html")
    assert "<svg" in expected._repr_html_() and len(expected.to_frame()) == 3
    riesz.plots.waterfall(expected[0])


class Shared(GenericKernelMixin, StationaryKernelMixin, Kernel):
    """The share of words that two texts have in common."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        split = lambda texts: [set(text.split()) for text in texts]
        return np.array(
            [[len(x & y) / max(len(x | y), 1) for y in split(X if Y is None else Y)] for x in split(X)]
        )

    def diag(self, X):
        return np.ones(len(X))


def test_processes_over_texts_with_a_custom_kernel():
    model = GaussianProcessRegressor(Shared(), optimizer=None, alpha=0.1).fit(TEXTS, np.arange(8.0))
    explainer = riesz.Explainer(model)
    text = "a fine film, and good"
    explanation = explainer([text])
    assert explanation.feature_names == ["a", "fine", "film", "and", "good"]
    pieces = [("a ", "a"), ("fine ", "fine"), ("film, ", "film"), ("and ", "and"), ("good", "good")]

    def value(mask):
        kept = "".join(piece if on else piece.replace(word, "") for on, (piece, word) in zip(mask, pieces))
        return model.predict([text if all(mask) else " ".join(kept.split())])[0]

    np.testing.assert_allclose(explanation.values[0], shapley(value, 5), atol=1e-9)
    assert "whole texts" in explainer.reason


@pytest.mark.parametrize("step", [MaxAbsScaler(), SelectKBest(k=3)])
def test_steps_after_normalisation_keep_shapley_values(step):
    texts = [
        "good film great",
        "bad film awful plot",
        "great great plot",
        "awful bad bad",
        "nice plot good",
        "film plot",
    ]
    target = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.5])
    model = make_pipeline(TfidfVectorizer(), step, Ridge(0.1)).fit(texts, target)
    words = texts[1].split()
    explanation = riesz.Explainer(model, random_state=0)([texts[1]])
    value = lambda kept: model.predict([" ".join(words[i] for i in kept)])[0]
    orders = list(itertools.permutations(range(len(words))))
    expected = np.zeros(len(words))
    for order in orders:
        for k, j in enumerate(order):
            expected[j] += (value(sorted(order[: k + 1])) - value(sorted(order[:k]))) / len(orders)
    values = dict(zip(explanation.feature_names, np.ravel(explanation.values)))
    np.testing.assert_allclose([values[word] for word in words], expected, atol=1e-9)
