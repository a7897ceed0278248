"""Kernels in the forms that estimators take: objects, expressions of the command line, and kernels of
scikit-learn's Gaussian processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from . import kernels as rk

#: A job that computes no more than the kernel of an expression: the core resolves expressions for jobs.
_JOB = json.dumps(
    {
        "landmarks": 1,
        "ridge": 1.0,
        "folds": 2,
        "intercept": False,
        "fixed_kernel": True,
        "corrections": 0,
        "solver": None,
        "tolerance": 1e-3,
        "seed": 0,
        "kind": "ridge",
    }
)


@dataclass(frozen=True, repr=False)
class _Resolved(rk.Kernel):
    """A kernel in the core's terms, whose columns are positions."""

    terms: Any

    def _terms(self, names):
        return self.terms


@dataclass(frozen=True, repr=False)
class Expression(rk.Kernel):
    """A kernel expression of the command line. Rows determine the length scales that it leaves out; columns
    are not standardised."""

    text: str

    def _takes_rows(self):
        return True

    def _fitted_to(self, X, names, levels=None):
        levels = list(levels or [None] * len(names))
        rows = (list(names), levels, np.ascontiguousarray(X, dtype=np.float64))
        survey = _core.survey_rows(_JOB, (rows, np.zeros((len(X), 1)), None), 1)
        tuned, _ = _core.tune_fit(_JOB, survey, self.text, False)
        kernel, _ = json.loads(tuned)
        return _Resolved(_core.kernel_terms(json.dumps(kernel)))

    def _terms(self, names):
        raise TypeError(
            f"kernel = {self.text!r}: an expression is resolved by rows, which estimators have; here give a "
            "kernel of riesz.kernels"
        )

    def __repr__(self):
        return repr(self.text)


@dataclass(frozen=True, repr=False)
class _OfScikitLearn(rk.Kernel):
    """A kernel of ``sklearn.gaussian_process.kernels``."""

    kernel: Any

    def _fitted_to(self, X, names, levels=None):
        from ._sklearn_kernels import gp_kernel

        if "WhiteKernel" in repr(self.kernel):
            raise ValueError(
                f"kernel = {self.kernel!r}: leave the WhiteKernel out, whose noise is alpha here: alpha=None "
                "tunes it"
            )
        return gp_kernel(self.kernel, len(names))._fitted_to(X, names, levels)

    def __repr__(self):
        return repr(self.kernel)


def as_kernel(value: Any, label: str = "kernel", also: str = "") -> rk.Kernel:
    """Returns the kernel that a user gave as an object or an expression; ``also`` lists other values that
    the parameter ``label`` may have."""
    if isinstance(value, rk.Kernel):
        return value
    if isinstance(value, str):
        return Expression(value)
    if type(value).__module__ == "sklearn.gaussian_process.kernels":
        return _OfScikitLearn(value)
    raise TypeError(
        f"{label} = {value!r}: it is a kernel of riesz.kernels or an expression such as "
        f"'0.5 * rbf(ard) + linear'{also}"
    )


def scales_come_from_rows(kernel: rk.Kernel, X: np.ndarray, names: list[str], levels: Any) -> bool:
    """Whether rows determine some of the kernel's length scales."""
    if not isinstance(kernel, Expression):
        return kernel._takes_rows()
    numeric = rk._numeric(names, levels)
    doubled = X.copy()
    doubled[:, numeric] *= 2.0
    return kernel._fitted_to(X, names, levels) != kernel._fitted_to(doubled, names, levels)
