"""Transforms of BoTorch's models, read without BoTorch from numbers that scripts/oracles/botorch.py saved.

Stand-ins have the classes' names, modules and attributes; what BoTorch computed with the real ones is in the
file."""

import json
import pathlib

import numpy as np
import pytest

import riesz
from riesz import _botorch
from riesz._model_loading import Imported, Part, mapped
from riesz._validation import numbered

CASES = json.loads((pathlib.Path(__file__).parent / "saved/botorch.json").read_text())["cases"]


class Numbers(np.ndarray):
    """An array with what is asked of a tensor."""

    def numel(self):
        return self.size


class Chain(dict):
    """A chain of transforms."""

    transform_on_eval = True


def stand_in(part):
    """A transform with the name, module and attributes of one of BoTorch's."""
    kind = type(part["class"], (), {"__module__": part["module"], "transform_on_eval": True})
    made = kind()
    for name, value in part["attributes"].items():
        if name == "categorical_features":
            value = dict(value)
        elif name in ("means", "stdvs"):
            value = np.asarray(value, dtype=float).view(Numbers)
        setattr(made, name, value)
    return made


def together(parts):
    """One transform, or a chain, or ``None``."""
    if len(parts) < 2:
        return stand_in(parts[0]) if parts else None
    module = parts[0]["module"]
    name = "ChainedInputTransform" if module.endswith("input") else "ChainedOutcomeTransform"
    return type(name, (Chain,), {"__module__": module})(
        {str(k): stand_in(part) for k, part in enumerate(parts)}
    )


def applied(parts, rows):
    """What BoTorch's transforms make of rows, in numpy."""
    rows = np.asarray(rows, dtype=float)
    for part in parts:
        own = part["attributes"]
        if part["class"] in ("Normalize", "InputStandardize"):
            rows = (rows - own["offset"]) / own["coefficient"]
        elif part["class"] == "Log10":
            rows = rows.copy()
            rows[:, own["indices"]] = np.log10(rows[:, own["indices"]])
        elif part["class"] == "FilterFeatures":
            rows = rows[:, own["feature_indices"]]
        else:
            made = np.empty((len(rows), own["numeric_dim"]))
            made[:, own["new_numerical_idx"]] = rows[:, own["numerical_idx"]]
            for place, columns in zip(own["ordinal_idx"], own["onehot_idx"]):
                made[:, place] = rows[:, columns].argmax(axis=1)
            rows = made
    return rows


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_transforms_are_undone(case):
    rows, background = np.array(case["rows"]), np.array(case["background"])
    width = rows.shape[1]

    class Model:
        outcome_transform = together(case["outcome"])

    chain = together(case["input"])
    owners = list(range(width)) if chain is None else _botorch.input_owners(chain, width)
    outcome = _botorch.outcome_of(Model())
    expansion = riesz.Expansion(
        riesz.kernels.RBF(case["length_scale"]), np.array(case["points"]), case["coef"], case["constant"]
    )
    part = Part(expansion, owners, lambda X: applied(case["input"], X))
    part = mapped(part, np.array([[outcome.scale]]), np.array([outcome.shift]), ["y"])
    imported = Imported([[part]], "posterior mean", numbered(width), "SingleTaskGP", ["y"])
    groups = {f"group {k}": own for k, own in enumerate(case["players"]) if len(own) > 1}
    found = riesz.Explainer(imported, background, groups=groups or None)(rows)
    np.testing.assert_allclose(found.predictions, case["predictions"], rtol=1e-9)
    np.testing.assert_allclose(found.values, case["values"], atol=1e-9 * np.abs(case["predictions"]).max())


def test_transforms_that_are_not_known_are_named():
    normalize = {"class": "Normalize", "module": "botorch.models.transforms.input", "attributes": {}}
    theirs = {**normalize, "module": "somebody.else"}
    warped = {**normalize, "class": "InputPerturbation"}
    for part, name in [(theirs, "Normalize"), (warped, "InputPerturbation")]:
        with pytest.raises(riesz.UnsupportedModelError, match=f"the input transform {name} is not known"):
            _botorch.input_owners(stand_in(part), 3)
    off = stand_in(warped)
    off.transform_on_eval = False
    assert _botorch.input_owners(off, 3) == [0, 1, 2]

    class Model:
        pass

    assert _botorch.outcome_of(Model()) == _botorch.Outcome()
    outcome = {"module": "botorch.models.transforms.outcome", "attributes": {}}
    log = {**outcome, "class": "Log"}
    scaled = {**outcome, "class": "Standardize", "attributes": {"means": [[3.0]], "stdvs": [[2.0]]}}
    Model.outcome_transform = together([log, scaled])
    assert _botorch.outcome_of(Model()) == _botorch.Outcome(2.0, 3.0, True)
    for parts, name in [([scaled, log], "Log"), ([{**outcome, "class": "Power"}], "Power")]:
        Model.outcome_transform = together(parts)
        with pytest.raises(
            riesz.UnsupportedModelError, match=f"the outcome of the Model is transformed by {name}"
        ):
            _botorch.outcome_of(Model())
