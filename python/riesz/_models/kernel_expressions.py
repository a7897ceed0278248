"""Kernels in the forms that estimators take: objects, expressions of the command line, and kernels of
scikit-learn's Gaussian processes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .. import kernels as rk

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

#: Maximum number of rows between which medians are taken, as in the core.
_MEDIAN_ROWS = 1000


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
        numbers = np.ascontiguousarray(self._rows_of_rules(X), dtype=np.float64)
        rows = (list(names), levels, numbers)
        survey = _core.survey_rows(_JOB, (rows, np.zeros((len(numbers), 1)), None), 1)
        tuned, _ = _core.tune_fit(_JOB, survey, self.text, False)
        kernel, _ = json.loads(tuned)
        return _Resolved(_core.kernel_terms(json.dumps(kernel)))

    def _rows_of_rules(self, X: np.ndarray) -> np.ndarray:
        """Returns the rows from which length scales are computed. A survey has its own order of rows, so they
        are chosen here: medians use evenly spaced rows, and the rule "scale" uses the survey's sample."""
        if len(X) <= _MEDIAN_ROWS or re.search(r"=\s*scale\b", self.text):
            return X
        return X[np.arange(_MEDIAN_ROWS) * len(X) // _MEDIAN_ROWS]

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
        from .scikit_learn_kernels import gp_kernel

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


def to_expression(kernel: Any) -> str:
    """Returns the expression of a kernel object, in the columns' own units."""
    kernel = as_kernel(kernel)
    if isinstance(kernel, Expression):
        return kernel.text
    if isinstance(kernel, rk.Sum):
        return f"{to_expression(kernel.left)} + {to_expression(kernel.right)}"
    if isinstance(kernel, rk.Product):
        return " * ".join(f"({to_expression(side)})" for side in (kernel.left, kernel.right))
    if isinstance(kernel, rk.Constant):
        return repr(float(kernel.value))
    if isinstance(kernel, _OfScikitLearn):
        raise TypeError(f"kernel = {kernel!r}: give a kernel of riesz.kernels or an expression")
    return _factor_expression(kernel)


def _factor_expression(kernel: Any) -> str:
    """Returns the expression of one factor; length scales of several columns become a product."""
    kind, options, flags = kernel._kind(), [], []
    for core_name, name, default in rk._ARGUMENTS[kind]:
        value: Any = getattr(kernel, name) if name else None
        if name in ("center", "scale"):
            if isinstance(value, str) or np.ndim(value) > 0 or value != default:
                raise ValueError(
                    f"kernel = {kernel!r}: {name} has no place in an expression, which fits to files need: "
                    "leave it out"
                )
        elif name == "isotropic":
            flags += ["isotropic"] if value else []
        elif name and np.ndim(value) == 0:
            options.append(f"{core_name}={value if isinstance(value, str) else _number(value)}")
    columns = [kernel.columns] if isinstance(kernel.columns, str) else kernel.columns
    if columns is not None and not all(isinstance(column, str) for column in columns):
        raise TypeError(f"kernel = {kernel!r}: the columns of files are given by name")
    quoted = [f"'{column}'" if "'" not in column else f'"{column}"' for column in columns or []]
    scales: Any = getattr(kernel, "length_scale", 1.0)
    if np.ndim(scales) == 0:
        return f"{kind}({', '.join([*quoted, *options, *flags])})"
    if flags or len(quoted) != len(scales):
        raise ValueError(
            f"kernel = {kernel!r}: an expression has one length scale per factor, so name as many columns as "
            "length scales, or give one length scale" + (", with isotropic=False" if flags else "")
        )
    parts = [[column, f"length_scale={_number(scale)}", *options] for column, scale in zip(quoted, scales)]
    return " * ".join(f"{kind}({', '.join(part)})" for part in parts)


def _number(value: Any) -> str:
    number = float(value)
    return str(int(number)) if number == int(number) and abs(number) < 2**53 else repr(number)
