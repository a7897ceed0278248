#!/usr/bin/env python3
"""Kernel ridge regression by scikit-learn: dual coefficients and predictions.

    python3 -m venv venv && venv/bin/pip install scikit-learn
    venv/bin/python scripts/oracles/ridge.py

Writes crates/riesz/tests/data/ridge/scikit_learn.json. Each kernel is given in riesz's model format, and as
parameters of scikit-learn."""

import json
import pathlib

import numpy as np
import sklearn
from sklearn.kernel_ridge import KernelRidge

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "crates/riesz/tests/data/ridge"


def stationary(profile, lengthscale, d):
    factor = {
        "factor": "stationary",
        "profile": profile,
        "columns": list(range(d)),
        "lengthscale": [lengthscale] * d,
    }
    return {"terms": [{"scale": 1.0, "factors": [factor | {"ard": False, "isotropic": False}]}]}


def main():
    rng = np.random.default_rng(0)
    diabetes = np.loadtxt(ROOT / "crates/riesz-cli/data/diabetes.csv", delimiter=",", skiprows=1)
    rows = diabetes[rng.permutation(len(diabetes))[:60]]
    x = (rows[:, :-1] - rows[:, :-1].mean(axis=0)) / rows[:, :-1].std(axis=0)
    y = np.c_[rows[:, -1], rows[:, 2] * rows[:, 3] / 100.0]
    d, columns = x.shape[1], list(range(x.shape[1]))
    linear = {"factor": "linear", "columns": columns, "center": [0.0] * d, "scale": [1.0] * d}
    polynomial = {"factor": "polynomial", "columns": columns, "degree": 3, "gamma": 0.07, "coef0": 1.5}
    polynomial |= {"center": [0.0] * d, "scale": [1.0] * d}
    one_term = lambda factor: {"terms": [{"scale": 1.0, "factors": [factor]}]}
    kernels = [
        ("rbf", dict(kernel="rbf", gamma=0.08), stationary("gaussian", float(np.sqrt(1 / 0.16)), d)),
        ("laplacian", dict(kernel="laplacian", gamma=0.05), stationary("exponential", 20.0, d)),
        ("linear", dict(kernel="linear"), one_term(linear)),
        ("polynomial", dict(kernel="poly", degree=3, gamma=0.07, coef0=1.5), one_term(polynomial)),
    ]
    cases = []
    for name, parameters, kernel in kernels:
        for alpha in [1.0, 0.01]:
            for weights in [None, rng.uniform(0.2, 3.0, 45)]:
                fit = KernelRidge(alpha=alpha, **parameters).fit(x[:45], y[:45], sample_weight=weights)
                cases.append(
                    {
                        "name": f"{name} {alpha}{'' if weights is None else ' weighted'}",
                        "kernel": kernel,
                        "ridge": alpha,
                        "sample_weight": None if weights is None else weights.tolist(),
                        "dual_coef": fit.dual_coef_.tolist(),
                        "predictions": fit.predict(x[45:]).tolist(),
                    }
                )
    OUT.mkdir(exist_ok=True)
    made_by = f"scripts/oracles/ridge.py with scikit-learn {sklearn.__version__}"
    record = {"made_by": made_by, "x": x.tolist(), "y": y[:45].tolist(), "cases": cases}
    (OUT / "scikit_learn.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
