#!/usr/bin/env python3
"""Writes python/tests/saved/botorch.json: the numbers of BoTorch models, and the Shapley values of their
posterior means.

Values are enumerated over all coalitions of `model.posterior(X).mean`, in the user's columns and units. With
this file, the conversion of transforms can be tested without BoTorch. The script needs botorch.

    scripts/oracles/botorch.py
"""

import itertools
import json
import math
import pathlib
import sys

# In the folder of this file, `import botorch` would import this file.
sys.path.pop(0)

import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import input as inputs
from botorch.models.transforms import outcome as outcomes

TARGET = pathlib.Path(__file__).parents[2] / "python/tests/saved/botorch.json"


def shapley(value, d):
    """Shapley values of a set function of d players, by enumeration."""
    coalition_values = {mask: value(np.array(mask)) for mask in itertools.product([False, True], repeat=d)}
    phi = np.zeros(d)
    for mask, base in coalition_values.items():
        size = sum(mask)
        for j in range(d):
            if not mask[j]:
                weight = math.factorial(size) * math.factorial(d - 1 - size) / math.factorial(d)
                phi[j] += weight * (coalition_values[mask[:j] + (True,) + mask[j + 1 :]] - base)
    return phi


def plain(value):
    """The JSON form of an attribute."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return [[key, plain(entry)] for key, entry in value.items()]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    return int(value) if isinstance(value, np.integer) else value


#: The attributes of each class that riesz reads.
ATTRIBUTES = {
    "Normalize": ["offset", "coefficient"],
    "InputStandardize": ["offset", "coefficient"],
    "Log10": ["indices"],
    "FilterFeatures": ["feature_indices"],
    "Round": ["integer_indices", "categorical_features"],
    "OneHotToNumeric": [
        "categorical_features",
        "numeric_dim",
        "new_numerical_idx",
        "numerical_idx",
        "ordinal_idx",
        "onehot_idx",
    ],
    "Standardize": ["means", "stdvs"],
}


def parts(transform):
    """The parts of a transform, each with its class and attributes."""
    if transform is None:
        return []
    chain = list(transform.values()) if type(transform).__name__.startswith("Chained") else [transform]
    return [
        {
            "class": type(part).__name__,
            "module": type(part).__module__,
            "attributes": {name: plain(getattr(part, name)) for name in ATTRIBUTES[type(part).__name__]},
        }
        for part in chain
    ]


def case(name, X, y, groups=None, **settings):
    model = SingleTaskGP(torch.as_tensor(X), torch.as_tensor(y)[:, None], **settings)
    model.covar_module.lengthscale = torch.linspace(0.4, 1.1, model.covar_module.lengthscale.numel()).double()
    model.likelihood.noise = 0.01
    model.mean_module.constant.data.fill_(0.3)
    model.eval()

    def mean(rows):
        with torch.no_grad():
            return model.posterior(torch.as_tensor(rows)).mean.numpy()[:, 0]

    points = model.train_inputs[0]
    with torch.no_grad():
        gram = model.covar_module(points).to_dense().numpy() + 0.01 * np.eye(len(points))
    coef = np.linalg.solve(gram, model.train_targets.numpy() - 0.3)
    background, rows = X[:4], X[8:10]
    players = [[j] for j in range(X.shape[1])] if groups is None else groups

    def values(x):
        def value(mask):
            present = np.zeros(X.shape[1], dtype=bool)
            present[[j for on, player in zip(mask, players) if on for j in player]] = True
            return mean(np.where(present, x, background)).mean()

        return shapley(value, len(players)).tolist()

    return {
        "name": name,
        "input": parts(settings.get("input_transform")),
        "outcome": parts(settings.get("outcome_transform")),
        "length_scale": model.covar_module.lengthscale.detach().ravel().tolist(),
        "points": points.tolist(),
        "coef": coef.tolist(),
        "constant": 0.3,
        "players": players,
        "background": background.tolist(),
        "rows": rows.tolist(),
        "predictions": mean(rows).tolist(),
        "values": [values(x) for x in rows],
    }


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 10, (12, 3)) * [1.0, 100.0, 1.0]
    X[:, 2] = rng.integers(0, 3, 12)
    y = 40 + 7 * np.log(X[:, 0]) + 0.03 * X[:, 1] + 5 * (X[:, 2] == 1)
    wide = np.hstack([X[:, :2], np.eye(3)[X[:, 2].astype(int)]])
    chain = inputs.ChainedInputTransform
    double = outcomes.ChainedOutcomeTransform(a=outcomes.Standardize(1), b=outcomes.Standardize(1))
    cases = [
        case("none", X / [10, 1000, 2], y / 40, outcome_transform=None),
        case("standardised outcome", X / [10, 1000, 2], y, outcome_transform=outcomes.Standardize(1)),
        case(
            "normalised", X, y, input_transform=inputs.Normalize(3), outcome_transform=outcomes.Standardize(1)
        ),
        case(
            "standardised twice", X, y, input_transform=inputs.InputStandardize(3), outcome_transform=double
        ),
        case(
            "logarithm",
            X,
            y,
            input_transform=chain(a=inputs.Log10(indices=[0]), b=inputs.Normalize(3)),
            outcome_transform=outcomes.Standardize(1),
        ),
        case(
            "chosen",
            X,
            y,
            input_transform=chain(a=inputs.FilterFeatures(torch.tensor([2, 0])), b=inputs.Normalize(2)),
            outcome_transform=outcomes.Standardize(1),
        ),
        case(
            "one-hot",
            wide,
            y,
            [[0], [1], [2, 3, 4]],
            input_transform=chain(a=inputs.OneHotToNumeric(5, {2: 3}), b=inputs.Normalize(3)),
            outcome_transform=outcomes.Standardize(1),
        ),
    ]
    TARGET.write_text(json.dumps({"made by": "scripts/oracles/botorch.py", "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
