"""Kernels from equations: sums and products of factors over columns.

A factor reads all columns of the model, or those given by ``columns`` (numbers or names). Kernels add and multiply
with each other and with numbers:

>>> from riesz.kernels import RBF, Linear
>>> RBF(length_scale=2.0, columns=["age", "bmi"]) + 0.5 * Linear()
RBF(length_scale=2.0, columns=['age', 'bmi']) + Constant(0.5) * Linear()
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

import numpy as np

from ._data import is_whole

__all__ = [
    "RBF",
    "Categorical",
    "Cauchy",
    "Constant",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Sum",
]

Scalars = float | Sequence[float]
Columns = Sequence[int | str] | None


class Kernel:
    """Base class: ``+`` and ``*`` with kernels and positive numbers."""

    def _terms(self, names: Sequence[str]) -> list[tuple[float, list[dict[str, Any]]]]:
        """The kernel multiplied out: (scale, factors) of each product, in the form of riesz's model files."""
        return [(1.0, self._factors(names))]

    def _factors(self, names: Sequence[str]) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _to_json(self, names: Sequence[str]) -> str:
        terms = [{"scale": scale, "factors": factors} for scale, factors in self._terms(names) if scale != 0]
        if not terms:
            raise ValueError("the kernel is zero: give it a term with a positive scale")
        return json.dumps({"terms": terms})

    def __add__(self, other: Kernel | float) -> Kernel:
        right = _kernel(other)
        return NotImplemented if right is None else Sum(self, right)

    def __radd__(self, other: float) -> Kernel:
        left = _kernel(other)
        return NotImplemented if left is None else Sum(left, self)

    def __mul__(self, other: Kernel | float) -> Kernel:
        right = _kernel(other)
        return NotImplemented if right is None else Product(self, right)

    def __rmul__(self, other: float) -> Kernel:
        left = _kernel(other)
        return NotImplemented if left is None else Product(left, self)

    def __repr__(self) -> str:
        known = fields(self)  # type: ignore[arg-type]  # every kernel is a dataclass
        given = [f"{f.name}={getattr(self, f.name)!r}" for f in known if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(given)})"


def _kernel(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value
    try:
        return Constant(float(value))
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """``left + right``."""

    left: Kernel
    right: Kernel

    def _terms(self, names):
        return self.left._terms(names) + self.right._terms(names)

    def __repr__(self):
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """``left * right``."""

    left: Kernel
    right: Kernel

    def _terms(self, names):
        return [(a * b, first + second) for a, first in self.left._terms(names) for b, second in self.right._terms(names)]

    def __repr__(self):
        text = [f"({side!r})" if isinstance(side, Sum) else repr(side) for side in (self.left, self.right)]
        return " * ".join(text)


@dataclass(frozen=True, repr=False)
class Constant(Kernel):
    """A number, not negative."""

    value: float = 1.0

    def __post_init__(self):
        if not 0 <= self.value < float("inf"):
            raise ValueError(f"a kernel's constant is {self.value}: it must be finite and not negative")

    def _terms(self, names):
        return [(float(self.value), [])]

    def __repr__(self):
        return f"Constant({self.value!r})"


def _from_record(record: dict[str, Any], names: Sequence[str]) -> Kernel:
    """The inverse of ``_to_json``, from what it says: a sum of products."""
    products = []
    for term in record["terms"]:
        factors = [_factor(factor, names) for factor in term["factors"]]
        first = [] if term["scale"] == 1.0 and factors else [Constant(term["scale"])]
        products.append(reduce(Product, first + factors))
    return reduce(Sum, products)


def _factor(factor: dict[str, Any], names: Sequence[str]) -> Kernel:
    columns = None if factor["columns"] == list(range(len(names))) else [names[j] for j in factor["columns"]]
    kind = factor["factor"]
    if kind == "periodic":
        return Periodic(factor["lengthscale"], factor["period"], columns)
    if kind == "categorical":
        return Categorical(factor["similarity"], columns)
    if kind == "linear":
        return Linear(_scalars(factor["center"]), _scalars(factor["scale"]), columns)
    if kind == "polynomial":
        return Polynomial(factor["degree"], factor["gamma"], factor["coef0"], columns)
    length_scale = factor["lengthscale"] if factor["ard"] else _scalars(factor["lengthscale"])
    profile, isotropic = factor["profile"], factor["isotropic"]
    if profile == "rational_quadratic":
        return RationalQuadratic(length_scale, factor["alpha"], isotropic, columns)
    if profile in ("matern32", "matern52") or isotropic and profile == "exponential":
        return Matern(length_scale, {"exponential": 0.5, "matern32": 1.5, "matern52": 2.5}[profile], isotropic, columns)
    return {"gaussian": RBF, "exponential": Laplacian, "cauchy": Cauchy}[profile](length_scale, columns)


def _scalars(values: list[float]) -> Scalars:
    """One number, if all are the same."""
    return values[0] if len(set(values)) == 1 else values


def _positions(columns: Columns, names: Sequence[str]) -> list[int]:
    if columns is None:
        return list(range(len(names)))
    if isinstance(columns, str):
        columns = [columns]
    if not isinstance(columns, Iterable):
        raise TypeError(f"columns = {columns!r}: it is a list of columns, by name or number")
    known = {name: j for j, name in enumerate(names)}
    found = []
    for column in columns:
        if isinstance(column, str):
            if column not in known:
                raise ValueError(f"the kernel reads a column '{column}', but the columns are: {', '.join(names)}")
            found.append(known[column])
        elif not is_whole(column):
            raise TypeError(f"columns = {columns!r}: columns are names or whole numbers, not {column!r}")
        elif 0 <= column < len(names):
            found.append(int(column))
        else:
            raise ValueError(f"the kernel reads column {column}, but there are {len(names)} columns, from 0")
    return found


def _list(values: Scalars, count: int, what: str) -> list[float]:
    """One number a column; a single one stands for all."""
    try:
        numbers = [float(v) for v in values]  # type: ignore[union-attr]
    except TypeError:
        numbers = [float(values)]  # type: ignore[arg-type]
    if not np.isfinite(numbers).all():
        raise ValueError(f"{what} is {values}: it must be finite")
    if len(numbers) == 1:
        return numbers * count
    if len(numbers) != count:
        raise ValueError(f"{what} has {len(numbers)} numbers, but the kernel reads {count} columns")
    return numbers


def _stationary(profile, kernel, names, isotropic=False, **extra):
    columns = _positions(kernel.columns, names)
    lengthscale = _list(kernel.length_scale, len(columns), "length_scale")
    return [
        {
            "factor": "stationary",
            "profile": profile,
            **extra,
            "columns": columns,
            "lengthscale": lengthscale,
            # Tuned one by one if they were given one by one.
            "ard": np.ndim(kernel.length_scale) > 0,
            "isotropic": isotropic,
        }
    ]


@dataclass(frozen=True, repr=False)
class RBF(Kernel):
    """``exp(-½ Σ_c (u_c - v_c)² / length_scale_c²)``, the Gaussian kernel."""

    length_scale: Scalars = 1.0
    columns: Columns = None

    def _factors(self, names):
        return _stationary("gaussian", self, names)


@dataclass(frozen=True, repr=False)
class Laplacian(Kernel):
    """``exp(-Σ_c |u_c - v_c| / length_scale_c)``; scikit-learn's ``gamma`` is ``1 / length_scale``."""

    length_scale: Scalars = 1.0
    columns: Columns = None

    def _factors(self, names):
        return _stationary("exponential", self, names)


@dataclass(frozen=True, repr=False)
class Cauchy(Kernel):
    """``Π_c 1 / (1 + (u_c - v_c)² / length_scale_c²)``."""

    length_scale: Scalars = 1.0
    columns: Columns = None

    def _factors(self, names):
        return _stationary("cauchy", self, names)


@dataclass(frozen=True, repr=False)
class Matern(Kernel):
    """The Matérn kernel with ``nu`` 0.5, 1.5, 2.5 or infinity.

    With ``isotropic=True``, as in scikit-learn, it is a function of the Euclidean distance over all its columns and ties
    them together: they have exact values as one player only. With ``isotropic=False`` it is the product over columns of
    one-column Matérn kernels, and each column can be a player.
    """

    length_scale: Scalars = 1.0
    nu: float = 1.5
    isotropic: bool = True
    columns: Columns = None

    def _factors(self, names):
        profiles = {0.5: "exponential", 1.5: "matern32", 2.5: "matern52", float("inf"): "gaussian"}
        if self.nu not in profiles:
            raise ValueError(f"a Matérn kernel with nu = {self.nu} is not supported: use 0.5, 1.5, 2.5 or inf")
        return _stationary(profiles[self.nu], self, names, self.isotropic)


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Kernel):
    """``(1 + r² / (2 alpha))^-alpha``; ``isotropic`` as for :class:`Matern`."""

    length_scale: Scalars = 1.0
    alpha: float = 1.0
    isotropic: bool = True
    columns: Columns = None

    def _factors(self, names):
        return _stationary("rational_quadratic", self, names, self.isotropic, alpha=float(self.alpha))


@dataclass(frozen=True, repr=False)
class Periodic(Kernel):
    """``Π_c exp(-2 sin²(π (u_c - v_c) / periodicity) / length_scale²)``."""

    length_scale: float = 1.0
    periodicity: float = 1.0
    columns: Columns = None

    def _factors(self, names):
        return [
            {
                "factor": "periodic",
                "columns": [j],
                "period": float(self.periodicity),
                "lengthscale": float(self.length_scale),
            }
            for j in _positions(self.columns, names)
        ]


@dataclass(frozen=True, repr=False)
class Linear(Kernel):
    """``Σ_c (u_c - center_c) (v_c - center_c) / scale_c²``."""

    center: Scalars = 0.0
    scale: Scalars = 1.0
    columns: Columns = None

    def _factors(self, names):
        columns = _positions(self.columns, names)
        center = _list(self.center, len(columns), "center")
        return [
            {
                "factor": "linear",
                "columns": columns,
                "center": center,
                "scale": _list(self.scale, len(columns), "scale"),
            }
        ]


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    """``(gamma Σ_c u_c v_c + coef0)^degree``; it ties its columns together."""

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0
    columns: Columns = None

    def _factors(self, names):
        columns = _positions(self.columns, names)
        if not isinstance(self.degree, numbers.Real) or self.degree < 1 or not float(self.degree).is_integer():
            raise ValueError(f"degree = {self.degree!r}: it is a whole number from 1")
        return [
            {
                "factor": "polynomial",
                "columns": columns,
                "center": [0.0] * len(columns),
                "scale": [1.0] * len(columns),
                "gamma": float(self.gamma),
                "coef0": float(self.coef0),
                "degree": int(self.degree),
            }
        ]


@dataclass(frozen=True, repr=False)
class Categorical(Kernel):
    """1 where two codes are equal and ``similarity`` where they differ, multiplied over its columns."""

    similarity: float = 0.5
    columns: Columns = None

    def _factors(self, names):
        return [
            {"factor": "categorical", "columns": [j], "similarity": float(self.similarity)}
            for j in _positions(self.columns, names)
        ]
