"""Test cases of the library and the command line: models, games and values that were computed without
riesz."""

import json
import pathlib

import numpy as np
import pytest

import riesz
from riesz import _core

CASES = sorted((pathlib.Path(__file__).parents[2] / "cases").glob("*.json"))


def read(path):
    """A case as a model, the settings of its explanation, and the expected values (rows, players,
    outputs), base values and predictions."""
    case = json.loads(path.read_text())
    points, coef = np.array(case["points"]), np.array(case["coef"])
    names = [f"x{j + 1}" for j in range(points.shape[1])]
    outputs = [f"y{o}" for o in range(coef.shape[1])]
    core = _core.Expansion(
        json.dumps(case["kernel"]), (names, [None] * len(names), points), coef, case["intercept"], outputs
    )
    question = {"background": case["background"], "game": case["game"]}
    if "ridge" in case:
        question["game"] = riesz.Observational(conditional_ridge=case["ridge"])
    values = np.array(case["values"]).transpose(0, 2, 1)
    base_values = np.tile(case["base_values"], (len(case["rows"]), 1))
    expected = {"values": values, "base_values": base_values, "predictions": np.array(case["predictions"])}
    return (
        riesz.Expansion._wrap(core),
        question,
        np.array(case["rows"]),
        expected,
        1e-7 if "shap" in case["source"] else 1e-11,
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case(path):
    model, question, rows, expected, tolerance = read(path)
    explanation = riesz.Explainer(model, **question)(rows)
    for attribute, numbers in expected.items():
        actual = np.reshape(getattr(explanation, attribute), numbers.shape)
        np.testing.assert_allclose(actual, numbers, rtol=0, atol=tolerance, err_msg=attribute)
    assert explanation.certificate.holds


def test_there_are_cases():
    assert len(CASES) >= 9
