"""Files have the documented JSON schemas."""

import json
import os
import pathlib
import subprocess

import jsonschema
import numpy as np
import pytest
from referencing import Registry, Resource
from sklearn.svm import SVC

import riesz

SCHEMAS = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "schemas"
PROGRAM = "cmd:awk -F, 'NR > 1 {print $1 * $2}'"
OF_A = ["--treatment", "a", "--outcome", "y"]
EFFECT = [*OF_A, "--hyperparameter-samples", "0"]
FURTHER = ["--association", "--value-of-information", "--baseline", "a=0"]
EVERY_TEST = ["independence", "t.csv", "--target", "y", "--permutations", "50"]


def validator(name):
    """The validator of a schema, which may refer to the others."""
    contents = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    resources = [(file, Resource.from_contents(content)) for file, content in contents.items()]
    return jsonschema.Draft202012Validator(contents[name], registry=Registry().with_resources(resources))


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
    explanation_validator = validator("explanation.json")
    for name, explanation in explanations().items():
        explanation.save(tmp_path / "why.json")
        saved = json.loads((tmp_path / "why.json").read_text())
        errors = [error.message for error in explanation_validator.iter_errors(saved)]
        assert not errors, (name, errors)
        n, m, s = saved["shape"]
        assert len(saved["values"]) == n * m * s and len(saved["predictions"]) == n * m, name
        damaged = saved | {"features": "age"}
        assert not explanation_validator.is_valid(damaged), name


RESULTS = [
    ("test", ["test", *EVERY_TEST]),
    ("test", ["test", *EVERY_TEST, "--interactions"]),
    ("test", ["test", *EVERY_TEST, "--no-attribution", "--kernel-factors", "product"]),
    ("test", ["test", "two-sample", "t.csv", "t.csv", "--permutations", "50"]),
    ("test", ["test", "two-sample", "t.csv", "t.csv", "--permutations", "0", "--kernel-factors", "product"]),
    ("selection", ["test", "select", "t.csv", "--target", "y"]),
    ("effects", ["effects", "m.riesz", "t.csv"]),
    ("effects", ["effects", "m.riesz", "t.csv", "--of", "a,k"]),
    ("sobol", ["importance", "m.riesz", "t.csv"]),
    ("sobol", ["importance", "m.riesz", "t.csv", "--index", "moebius"]),
    ("sobol-estimates", ["importance", "average.riesz", "t.csv"]),
    ("sobol-estimates", ["importance", PROGRAM, "t.csv", "--ignore", "y,k", "--evaluations", "500"]),
    ("sage", ["importance", "m.riesz", "t.csv", "--target", "y"]),
    ("sage", ["importance", "m.riesz", "one.csv", "--target", "y"]),
    (
        "verification",
        ["verify", "why.json", "--model", "m.riesz", "--rows", "t.csv", "--background", "t.csv"],
    ),
    ("verification", ["verify", "why.json", "--model", "m.riesz", "--rows", "other.csv"]),
    ("explanation", ["explain", "m.riesz", "t.csv", "--background", "t.csv", "--covariance"]),
    ("identification", ["causal", "check", "b -> a; b -> y; a -> y", *OF_A]),
    ("identification", ["causal", "check", "a -> k -> y; a <-> y", *OF_A]),
    ("identification", ["causal", "check", "a -> y", "--randomized", *OF_A]),
    ("causal-effect", ["causal", "effect", "t.csv", "--adjust", "b", *EFFECT]),
    ("causal-effect", ["causal", "effect", "t.csv", "--adjust", "b", *EFFECT, "--slope", "a"]),
    ("causal-effect", ["causal", "effect", "t.csv", "--adjust", "b", *EFFECT, *FURTHER]),
    ("causal-suggestions", ["causal", "suggest", "t.csv", "--adjust", "b", *EFFECT, "--tried", "tried.csv"]),
]
#: Entries that some results do not have.
OPTIONAL = {"x_2", "std", "decisions", "uncertainty", "identified", "association", "value_of_information"}


@pytest.mark.skipif(
    not SCHEMAS.exists() or "RIESZ" not in os.environ, reason="needs the source tree and the command line"
)
def test_results_of_the_command_line_have_schemas(tmp_path):
    def run(words):
        finished = subprocess.run(
            [os.environ["RIESZ"], *words, "-q"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert finished.returncode in (0, 1), finished.stderr
        return finished.stdout

    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 30)).round(3)
    lines = [f"{p},{q},{'uv'[i % 2]},{p * q:.4f}" for i, (p, q) in enumerate(zip(a, b))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,k,y", *lines, ""]))
    (tmp_path / "tried.csv").write_text("a,y\n0,0.5\n1,0.2\n")
    (tmp_path / "one.csv").write_text("\n".join(["a,b,k,y", lines[0], ""]))
    (tmp_path / "other.csv").write_text("\n".join(["a,b,k,y", *lines[::-1], ""]))
    fit = ["fit", "t.csv", "--target", "y", "--model", "gp", "--noise", "0.1", "--posterior"]
    run([*fit, "--hyperparameter-samples", "0", "-o", "m.riesz"])
    run([*fit, "-o", "average.riesz"])
    run(["explain", "m.riesz", "t.csv", "--background", "t.csv", "-o", "why.json"])
    for name, words in RESULTS:
        result = json.loads(run([*words, "--json"]))
        errors = [
            f"{error.json_path}: {error.message[:200]}"
            for error in validator(f"{name}.json").iter_errors(result)
        ]
        assert not errors, (words, errors)
        first = result if isinstance(result, dict) else result[0]
        for key in set(first) - OPTIONAL:
            damaged = {k: v for k, v in first.items() if k != key}
            damaged = damaged if isinstance(result, dict) else [damaged, *result[1:]]
            assert not validator(f"{name}.json").is_valid(damaged), (words, key)
