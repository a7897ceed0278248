"""Every public interval, standard deviation and probability has a row in scripts/oracles/calibration.py."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ORACLES = Path(__file__).parents[2] / "scripts" / "oracles"


@pytest.fixture
def oracles(monkeypatch):
    """The modules of the script, which are not installed."""
    monkeypatch.syspath_prepend(str(ORACLES))
    import calibration
    import calibration_statements

    yield calibration, calibration_statements
    for name in [name for name in sys.modules if name.partition("_")[0] == "calibration"]:
        del sys.modules[name]


def test_every_statement_has_a_row(oracles):
    calibration, _ = oracles
    assert calibration.registry_faults() == []


def test_a_statement_without_a_row_is_found(oracles, monkeypatch):
    calibration, statements = oracles
    import riesz

    monkeypatch.setattr(riesz.SobolIndices, "predict_band", lambda self, level=0.95: None, raising=False)
    # The function is the test's, not riesz's, unless its module says so.
    riesz.SobolIndices.predict_band.__module__ = "riesz"
    assert "SobolIndices.predict_band" in statements.missing_statements(calibration.measured_statements())


def test_known_limits_have_reasons_and_the_page_has_all_rows(oracles):
    calibration, _ = oracles
    assert all(reason for reason in calibration.KNOWN_LIMITS.values())
    page = (ORACLES.parents[1] / "docs" / "reference" / "calibration.md").read_text()
    missing = [row.name for row in calibration.ROWS if f"| {row.design} | {row.model} |" not in page]
    assert missing == []


def summaries_of(calibration, name, repetitions):
    row = next(row for row in calibration.ROWS if row.name == name)
    results = calibration.Results(0, None)
    for _ in range(repetitions):
        results.run(row)
    return {summary.quantity: summary for summary in results.summaries(row)}


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_halved_standard_deviation_fails(oracles, monkeypatch, factor):
    calibration, _ = oracles
    import riesz

    predict = riesz.GaussianProcessRegressor.predict

    def scaled(self, X, return_std=False, return_cov=False):
        prediction = predict(self, X, return_std, return_cov)
        return (prediction[0], factor * prediction[1]) if return_std else prediction

    monkeypatch.setattr(riesz.GaussianProcessRegressor, "predict", scaled)
    summaries = summaries_of(calibration, "regression, true hyper-parameters", 30)
    is_low = [fault.endswith("low") for fault in summaries["function at new rows"].faults()]
    assert all(is_low) and len(is_low) == (2 if factor < 1 else 0)
    # Draws are not those of predict.
    assert summaries["function, by draws"].faults() == []


def test_verdicts_on_known_limits(oracles, monkeypatch):
    calibration, _ = oracles
    from calibration_measures import Row, Summary
    from calibration_rows import Limit

    limit = Limit("a reason", "low", {"row: quantity": 0.8})
    monkeypatch.setitem(calibration.KNOWN_LIMITS, "row: quantity", limit)
    row = Row("row", "design", "model", lambda seed: {}, {"quantity": ()})

    def verdict(coverage, name="row"):
        records = [
            {"kind": "intervals", "count": 100, "discrete": False, "inside": {"0.95": coverage + shift}}
            for shift in np.linspace(-0.01, 0.01, 400)
        ]
        return calibration.verdict(
            Summary(row if name == "row" else replace(row, name=name), "quantity", records)
        )

    assert verdict(0.8) == "known limit (95 % low)"
    assert verdict(0.95) == "PASSES although a known limit"
    # Worse than when it was listed, and wrong on the other side.
    assert verdict(0.6).startswith("FAIL") and verdict(0.999).startswith("FAIL")
    assert verdict(0.95, "other") == "" and verdict(0.8, "other").startswith("FAIL")
