"""Transforms of BoTorch's models, read without BoTorch from numbers that scripts/oracles/botorch.py saved.

Stand-ins have the names, modules and attributes of the classes; the results of the real classes are in the
file."""

import json
import pathlib

import numpy as np
import pytest

import riesz
from riesz._data.validation import numbered
from riesz._models import botorch
from riesz._models.loading import Imported, Part, mapped

CASES = json.loads((pathlib.Path(__file__).parent / "saved/botorch.json").read_text())["cases"]


class Numbers(np.ndarray):
    """An array with the required methods of a tensor."""

    def numel(self):
        return self.size


class Chain(dict):
    """A chain of transforms."""

    transform_on_eval = True


def stand_in(part):
    """A transform with the name, module and attributes of a class of BoTorch."""
    kind = type(part["class"], (), {"__module__": part["module"], "transform_on_eval": True})
    made = kind()
    for name, value in part["attributes"].items():
        if name == "categorical_features":
            value = dict(value)
        elif name in ("means", "stdvs"):
            value = np.asarray(value, dtype=float).view(Numbers)
        setattr(made, name, value)
    return made


def chained(parts):
    """One transform, or a chain, or ``None``."""
    if len(parts) < 2:
        return stand_in(parts[0]) if parts else None
    module = parts[0]["module"]
    name = "ChainedInputTransform" if module.endswith("input") else "ChainedOutcomeTransform"
    return type(name, (Chain,), {"__module__": module})(
        {str(k): stand_in(part) for k, part in enumerate(parts)}
    )


def applied(parts, rows):
    """Rows after BoTorch's transforms, in numpy."""
    rows = np.asarray(rows, dtype=float)
    for part in parts:
        attributes = part["attributes"]
        if part["class"] in ("Normalize", "InputStandardize"):
            rows = (rows - attributes["offset"]) / attributes["coefficient"]
        elif part["class"] == "Log10":
            rows = rows.copy()
            rows[:, attributes["indices"]] = np.log10(rows[:, attributes["indices"]])
        elif part["class"] == "FilterFeatures":
            rows = rows[:, attributes["feature_indices"]]
        else:
            made = np.empty((len(rows), attributes["numeric_dim"]))
            made[:, attributes["new_numerical_idx"]] = rows[:, attributes["numerical_idx"]]
            for place, columns in zip(attributes["ordinal_idx"], attributes["onehot_idx"]):
                made[:, place] = rows[:, columns].argmax(axis=1)
            rows = made
    return rows


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_transforms_are_undone(case):
    rows, background = np.array(case["rows"]), np.array(case["background"])
    width = rows.shape[1]

    class Model:
        outcome_transform = chained(case["outcome"])

    chain = chained(case["input"])
    owners = list(range(width)) if chain is None else botorch.input_owners(chain, width)
    outcome = botorch.outcome_of(Model())
    expansion = riesz.Expansion(
        riesz.kernels.RBF(case["length_scale"]), np.array(case["points"]), case["coef"], case["constant"]
    )
    part = Part(expansion, owners, lambda X: applied(case["input"], X))
    part = mapped(part, np.array([[outcome.scale]]), np.array([outcome.shift]), ["y"])
    imported = Imported([[part]], "posterior mean", numbered(width), "SingleTaskGP", ["y"])
    groups = {f"group {k}": player for k, player in enumerate(case["players"]) if len(player) > 1}
    explanation = riesz.Explainer(imported, background, groups=groups or None)(rows)
    np.testing.assert_allclose(explanation.predictions, case["predictions"], rtol=1e-9)
    np.testing.assert_allclose(
        explanation.values, case["values"], atol=1e-9 * np.abs(case["predictions"]).max()
    )


def test_transforms_that_are_not_known_are_named():
    normalize = {"class": "Normalize", "module": "botorch.models.transforms.input", "attributes": {}}
    theirs = {**normalize, "module": "somebody.else"}
    warped = {**normalize, "class": "InputPerturbation"}
    for part, name in [(theirs, "Normalize"), (warped, "InputPerturbation")]:
        with pytest.raises(riesz.UnsupportedModelError, match=f"the input transform {name} is not known"):
            botorch.input_owners(stand_in(part), 3)
    inactive = stand_in(warped)
    inactive.transform_on_eval = False
    assert botorch.input_owners(inactive, 3) == [0, 1, 2]

    class Model:
        pass

    assert botorch.outcome_of(Model()) == botorch.Outcome()
    outcome = {"module": "botorch.models.transforms.outcome", "attributes": {}}
    log = {**outcome, "class": "Log"}
    scaled = {**outcome, "class": "Standardize", "attributes": {"means": [[3.0]], "stdvs": [[2.0]]}}
    Model.outcome_transform = chained([log, scaled])
    assert botorch.outcome_of(Model()) == botorch.Outcome(2.0, 3.0, True)
    for parts, name in [([scaled, log], "Log"), ([{**outcome, "class": "Power"}], "Power")]:
        Model.outcome_transform = chained(parts)
        with pytest.raises(
            riesz.UnsupportedModelError, match=f"the outcome of the Model is transformed by {name}"
        ):
            botorch.outcome_of(Model())
