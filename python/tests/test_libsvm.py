"""LIBSVM's files against LIBSVM's own numbers, and sparse rows against dense ones."""

import json
from itertools import combinations
from math import factorial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import riesz
from riesz._data import validation

FILES = Path(__file__).resolve().parents[2] / "crates/riesz/tests/data/svm"
CASES = json.loads((FILES / "files.json").read_text())["cases"]
PROBABLE = [case for case in CASES if "probabilities" in case]


def load(case, **options):
    ranges = {"scale": FILES / case["range"]} if "range" in case else {}
    x = np.array(case["x"])
    return riesz.Expansion.load(
        FILES / case["file"],
        **({} if "columns" in options else {"n_features": x.shape[1]}),
        **ranges,
        **options,
    ), x


def enumerated(f, row, background):
    """Shapley values of one row by all coalitions."""
    d = len(row)
    coalition_values = {}
    for size in range(d + 1):
        for present in combinations(range(d), size):
            mixed = background.copy()
            mixed[:, present] = row[list(present)]
            coalition_values[present] = np.asarray(f(mixed)).mean(axis=0)
    values = []
    for j in range(d):
        coalitions = [s for s in coalition_values if j not in s]
        weights = [factorial(len(s)) * factorial(d - len(s) - 1) / factorial(d) for s in coalitions]
        values.append(
            sum(
                w * (coalition_values[tuple(sorted((*s, j)))] - coalition_values[s])
                for w, s in zip(weights, coalitions)
            )
        )
    return np.array(values)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_outputs_are_libsvms(case):
    model, x = load(case)
    expected = np.array(case["decision"])
    np.testing.assert_allclose(
        model.predict(x).reshape(expected.shape), expected, atol=1e-11 * (1 + np.abs(expected).max())
    )


@pytest.mark.parametrize("case", PROBABLE, ids=lambda case: case["file"])
def test_probabilities_are_libsvms_and_explained(case):
    model, x = load(case)
    order = [case["labels"].index(name) for name in model.classes]
    np.testing.assert_allclose(model.predict_proba(x), np.array(case["probabilities"])[:, order], atol=1e-12)
    shown = (lambda rows: model.predict_proba(rows)[:, 1]) if len(order) == 2 else model.predict_proba
    explanation = riesz.Explainer(model, x[3:], probabilities=True)(x[:2])
    assert explanation.exactness == "exact"
    np.testing.assert_allclose(explanation.values[0], enumerated(shown, x[0], x[3:]), atol=1e-12)


def test_sigmoid_models_are_explained_by_their_predictions():
    model, x = load(next(case for case in CASES if case["file"] == "sigmoid.model"))
    explainer = riesz.Explainer(model, x[3:], n_orders=9)
    explanation = explainer(x[:2])
    assert explainer.exactness == "exact"
    np.testing.assert_allclose(explanation.values[0], enumerated(model.predict, x[0], x[3:]), atol=1e-12)


def test_probabilities_of_sigmoid_models_are_those_of_the_model(tmp_path):
    text = (FILES / "sigmoid.model").read_text().replace("\nSV\n", "\nprobA -1.5\nprobB 0.1\nSV\n")
    (tmp_path / "p.model").write_text(text)
    model, x = riesz.Expansion.load(tmp_path / "p.model"), np.array(CASES[2]["x"])
    np.testing.assert_allclose(
        model.predict_proba(x)[:, 1], 1 / (1 + np.exp(-1.5 * model.predict(x) + 0.1)), atol=1e-14
    )
    explanation = riesz.Explainer(model, x[3:], probabilities=True, n_orders=9)(x[:2])
    np.testing.assert_allclose(
        explanation.values[0],
        enumerated(lambda rows: model.predict_proba(rows)[:, 1], x[0], x[3:]),
        atol=1e-12,
    )


def test_features_have_names_and_units():
    case = next(case for case in CASES if case["file"] == "scaled_rbf.model")
    names = ["radius", "texture", "perimeter", "area", "smooth", "compact"]
    named, x = load(case, columns=names)
    frame = pd.DataFrame(x, columns=names)[names[::-1]]
    np.testing.assert_allclose(named.predict(frame), np.array(case["decision"])[:, 0], atol=1e-11)
    assert list(riesz.Explainer(named, frame)(frame[:2]).feature_names) == names
    with pytest.raises(ValueError, match="larger than the given width of 2 features"):
        riesz.Expansion.load(FILES / case["file"], columns=names[:2])
    with pytest.raises(ValueError, match=r"svm-scale range file, line 1: .*begins with 'x'"):
        riesz.Expansion.load(FILES / case["file"], scale=FILES / case["file"])
    with pytest.raises(ValueError, match="there is none|no class probabilities"):
        named.predict_proba(frame)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array])
def test_sparse_rows_give_the_values_of_dense_rows(kind, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.4)
    y, label = X @ rng.normal(size=5), (X[:, 0] + X[:, 1] > 0.1).astype(int)
    rows = kind(X)
    # Rows are processed in parts.
    monkeypatch.setattr(validation, "PART_BYTES", 8 * 5 * 7)
    for make, target in (
        (riesz.KernelRidge, y),
        (riesz.SVR, y),
        (riesz.SVC, label),
        (riesz.KernelLogisticRegression, label),
    ):
        model, other = (make(kernel="rbf", gamma=0.3).fit(matrix, target) for matrix in (rows, X))
        np.testing.assert_array_equal(model.predict(rows), other.predict(X))
        np.testing.assert_array_equal(model.expansion_.predict(rows), other.expansion_.predict(X))
        background = rows.tocsr()[:10]
        explanation = riesz.Explainer(model, background)(rows.tocsr()[:5])
        np.testing.assert_array_equal(explanation.values, riesz.Explainer(other, X[:10])(X[:5]).values)
    np.testing.assert_array_equal(model.predict_proba(rows), other.predict_proba(X))
    monkeypatch.setattr(validation, "MAX_DENSE_BYTES", 100)
    with pytest.raises(ValueError, match="X is a sparse matrix of 60 rows and 5 columns, which take"):
        riesz.KernelRidge(gamma=0.3, kernel="rbf").fit(rows, y)


def test_explanations_state_the_file_of_the_model(tmp_path):
    import hashlib

    X = np.random.default_rng(0).normal(size=(20, 2))
    fitted = riesz.KernelRidge(kernel=riesz.kernels.RBF(1.0), alpha=0.1).fit(X, X[:, 0])
    path = tmp_path / "m.riesz"
    fitted.save(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    riesz.Explainer(riesz.Expansion.load(path), X)(X[:2]).save(tmp_path / "why.json")
    loaded = riesz.Explanation.load(tmp_path / "why.json")
    assert loaded.provenance.run["model file"] == f"{path} (SHA-256 {digest})"
    assert "model file" not in riesz.Explainer(fitted, X)(X[:2]).provenance.run
