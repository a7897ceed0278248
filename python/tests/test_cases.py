"""The cases that the library and the command line are held to: models, games and values that no part of riesz computed."""

import json
import pathlib

import numpy as np
import pytest

import riesz
from riesz import _core

CASES = sorted((pathlib.Path(__file__).parents[2] / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case(path):
    case = json.loads(path.read_text())
    points, coef = np.array(case["points"]), np.array(case["coef"])
    names = [f"x{j + 1}" for j in range(points.shape[1])]
    outputs = [f"y{o}" for o in range(coef.shape[1])]
    core = _core.Expansion(json.dumps(case["kernel"]), points, coef, case["intercept"], names, outputs)
    model = riesz.Expansion._wrap(core)
    explanation = riesz.Explainer(model, case["background"], game=case["game"])(np.array(case["rows"]))
    expected = np.array(case["values"])
    shape = (len(case["rows"]), len(outputs), len(names))
    values = explanation._values.transpose(0, 2, 1)
    np.testing.assert_allclose(values, expected.reshape(shape), atol=1e-7 if "shap" in case["source"] else 1e-11)
    assert explanation.certificate.holds


def test_there_are_cases():
    assert len(CASES) >= 8
