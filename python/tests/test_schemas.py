"""Files have the documented JSON schemas."""

import json
import pathlib

import jsonschema
import numpy as np
import pytest
from sklearn.svm import SVC

import riesz

SCHEMAS = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "schemas"


def explanations():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    process = riesz.GaussianProcessRegressor(optimizer=None).fit(X, y)
    classifier = SVC().fit(X, (y > 0).astype(int))
    exact = riesz.Explainer(process, X[:10], covariance=True)(X[:3])
    items = np.arange(4.0)[:, None]
    duels = np.array([[a, b] for a in range(4) for b in range(a)])
    preferences = riesz.PreferenceClassifier().fit(items, duels)
    return {
        "exact with covariance": exact,
        "pairs": riesz.Explainer(process, X[:10], index="k-sii")(X[:3]),
        "estimated": riesz.Explainer(process.predict, X[:10], random_state=0)(X[:3]),
        "classifier": riesz.Explainer(classifier, X[:10])(X[:3]),
        "duels": preferences.explain(items[:2], items[2:], items),
    }


@pytest.mark.skipif(not SCHEMAS.exists(), reason="the schemas are in the source tree only")
def test_explanations_have_the_schema(tmp_path):
    schema = json.loads((SCHEMAS / "explanation.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for name, explanation in explanations().items():
        explanation.save(tmp_path / "why.json")
        saved = json.loads((tmp_path / "why.json").read_text())
        errors = [error.message for error in validator.iter_errors(saved)]
        assert not errors, (name, errors)
        n, m, s = saved["shape"]
        assert len(saved["values"]) == n * m * s and len(saved["predictions"]) == n * m, name
        damaged = saved | {"features": "age"}
        assert not validator.is_valid(damaged), name
