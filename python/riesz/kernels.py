"""Kernels: sums and products of factors over columns.

A factor reads all columns of the model, or the ``columns`` (numbers or names). Kernels can be added and
multiplied with each other and with numbers:

>>> from riesz.kernels import RBF, Linear
>>> RBF(length_scale=2.0, columns=["age", "bmi"]) + 0.5 * Linear()
RBF(length_scale=2.0, columns=['age', 'bmi']) + Constant(0.5) * Linear()

Arguments have scikit-learn's names. GPyTorch's ``lengthscale``, ``period_length``, ``power`` and ``offset``,
the command line's ``period`` and scikit-learn's ``constant_value`` are taken too.

In estimators, which have rows, ``length_scale`` may also be ``"median"``, the median distance between two
rows in a factor's columns, or ``"median_per_feature"``, the median distance between two values of each
column; both use at most 1,000 rows. If a data frame has columns of categories, a factor without ``columns``
reads the numeric columns, and its product is multiplied by a :class:`Categorical` factor for each column of
categories that the product does not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce, wraps
from typing import Any

import numpy as np

from . import _core
from ._data.parameters import is_whole
from ._data.validation import is_numbered

__all__ = [
    "ANOVA",
    "RBF",
    "Categorical",
    "Cauchy",
    "Constant",
    "ExponentialDotProduct",
    "InverseMultiquadric",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Sigmoid",
    "Sum",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Scalars = float | Sequence[float]
#: Length scales, or the name of a rule that computes them from rows.
Lengths = Scalars | str
Columns = Sequence[int | str] | None
#: Levels of each column, ``None`` for a numeric one; ``None`` if all columns are numeric.
Levels = Sequence[Sequence[str] | None] | None

#: The class of each kind of factor of the core, and its arguments: name in the core, name in Python, default.
_CLASSES = {kind: class_name for kind, class_name, _ in _core.factors()}
_ARGUMENTS = {kind: arguments for kind, _, arguments in _core.factors()}
#: The kinds of factors that belong to the Matérn family, by ``nu``.
_MATERN = {0.5: "laplacian", 1.5: "matern32", 2.5: "matern52", float("inf"): "rbf"}


#: Names of arguments in GPyTorch, on the command line and in scikit-learn, and the names here.
_ALIASES = {
    "lengthscale": "length_scale",
    "period": "periodicity",
    "period_length": "periodicity",
    "power": "degree",
    "offset": "coef0",
    "constant_value": "value",
}


class Kernel:
    """Base class of kernels: ``+`` and ``*`` with kernels and nonnegative numbers.

    Examples
    --------
    >>> from riesz.kernels import RBF, Linear
    >>> 2.0 * RBF() * Linear() + 1.0
    Constant(2.0) * RBF() * Linear() + Constant(1.0)
    """

    def _terms(self, names: Sequence[str]) -> list[_core._Term]:
        """Returns the kernel expanded into products: (scale, factors) of each product, and a factor as its
        kind, columns and arguments."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # a dataclass
        columns, kind = _positions(values.pop("columns"), names), self._kind()
        if kind in _MATERN.values():
            values.pop("nu", None)
        arguments = [(name, _numbers(name, value)) for name, value in values.items()]
        if any(name == "ard" for name, _, _ in _ARGUMENTS[kind]):
            # Length scales that are given one by one are tuned one by one.
            arguments.append(("ard", [float(np.ndim(values["length_scale"]) > 0)]))
        return [(1.0, [(kind, columns, arguments)])]

    def _takes_rows(self) -> bool:
        """Whether some of its length scales are computed from rows."""
        return False

    def _fitted_to(self, X: np.ndarray, names: Sequence[str], levels: Levels = None) -> Kernel:
        """Returns the kernel with length scales computed from the rows of ``X``."""
        return self

    def _kind(self) -> str:
        return next(kind for kind, name in _CLASSES.items() if name == type(self).__name__)

    def _to_json(self, names: Sequence[str], levels: Levels = None) -> str:
        terms = [(scale, factors) for scale, factors in self._terms(names) if scale != 0]
        if not terms:
            raise ValueError("the kernel is zero: give it a term with a positive scale")
        return _core.kernel([(scale, _with_levels(factors, names, levels)) for scale, factors in terms])

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
        kernel_fields = fields(self)  # type: ignore[arg-type]  # every kernel is a dataclass
        arguments = [
            f"{f.name}={getattr(self, f.name)!r}" for f in kernel_fields if getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(arguments)})"


def _kernel(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return Constant(number)


class _Pair(Kernel):
    """Two kernels, ``left`` and ``right``."""

    left: Kernel
    right: Kernel

    def _takes_rows(self):
        return self.left._takes_rows() or self.right._takes_rows()

    def _fitted_to(self, X, names, levels=None):
        return type(self)(self.left._fitted_to(X, names, levels), self.right._fitted_to(X, names, levels))  # type: ignore[call-arg]  # a dataclass


@dataclass(frozen=True, repr=False)
class Sum(_Pair):
    """``left + right``.

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> from riesz.kernels import RBF, Linear, Sum
    >>> Sum(RBF(), Linear()) == RBF() + Linear()
    True
    """

    left: Kernel
    right: Kernel

    def _terms(self, names):
        return self.left._terms(names) + self.right._terms(names)

    def __repr__(self):
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True, repr=False)
class Product(_Pair):
    """``left * right``.

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> from riesz.kernels import RBF, Linear, Product
    >>> Product(RBF(), Linear()) == RBF() * Linear()
    True
    """

    left: Kernel
    right: Kernel

    def _terms(self, names):
        return [
            (a * b, first + second)
            for a, first in self.left._terms(names)
            for b, second in self.right._terms(names)
        ]

    def __repr__(self):
        text = [f"({side!r})" if isinstance(side, Sum) else repr(side) for side in (self.left, self.right)]
        return " * ".join(text)


@dataclass(frozen=True, repr=False)
class Constant(Kernel):
    """A nonnegative constant.

    Parameters
    ----------
    value : float, default 1

    Examples
    --------
    >>> from riesz.kernels import RBF, Constant
    >>> Constant(2.0) * RBF() == 2.0 * RBF()
    True
    """

    value: float = 1.0

    def __post_init__(self):
        if not 0 <= self.value < float("inf"):
            raise ValueError(
                f"a kernel's constant is {self.value}: it must be finite and not negative, because kernels "
                "are added "
                "and multiplied, never subtracted"
            )

    def _terms(self, names):
        return [(float(self.value), [])]

    def __repr__(self):
        return f"Constant({self.value!r})"


def _from_json(text: str, names: Sequence[str]) -> Kernel:
    """Returns the kernel of a JSON text of ``_to_json``, as a sum of products."""
    products = []
    for scale, factors in _core.kernel_terms(text):
        parts = [_factor(kind, columns, dict(values), names) for kind, columns, values in factors]
        first: list[Kernel] = [] if scale == 1.0 and parts else [Constant(scale)]
        products.append(reduce(Product, first + parts))
    return reduce(Sum, products)


#: Maximum number of numbers that a description lists one by one.
MOST_TOLD = 100


def described(text: str, names: Sequence[str]) -> str:
    """Returns a description of a kernel in the core's form; numbers of columns are shown with the column's
    name."""
    terms = []
    for scale, factors in _core.kernel_terms(text):
        parts = [_described(kind, columns, dict(values), names) for kind, columns, values in factors]
        terms.append(" * ".join(([] if scale == 1.0 and parts else [f"{scale:.4g}"]) + parts))
    return " + ".join(terms)


def _described(kind: str, columns: list[int], values: dict[str, list[float]], names: Sequence[str]) -> str:
    read_names, named = [names[j] for j in columns], columns == list(range(len(names)))
    descriptions = []
    for name, python, _ in _ARGUMENTS[kind]:
        numbers = [f"{value:.4g}" for value in values[name]]
        if not python or name == "isotropic":
            continue
        if len(numbers) == len(read_names) and len(set(values[name])) > 1:
            # Each number is shown with its column.
            column_numbers = [f"{column} {number}" for column, number in zip(read_names, numbers)]
            column_numbers[MOST_TOLD:] = (
                [f"… {len(column_numbers)} in all"] if len(column_numbers) > MOST_TOLD else []
            )
            descriptions.append(f"{name}=[{', '.join(column_numbers)}]")
            named = True
        else:
            descriptions.append(f"{name}={', '.join(dict.fromkeys(numbers))}")
    column_texts = [] if named else [", ".join(read_names)]
    flags = ["isotropic"] if values.get("isotropic") == [1.0] else []
    return f"{kind}({', '.join(column_texts + descriptions + flags)})"


def _factor(kind: str, columns: list[int], values: dict[str, list[float]], names: Sequence[str]) -> Kernel:
    factory = globals()[_CLASSES[kind]]
    arguments: dict[str, Any] = {}
    if kind == _MATERN[0.5] and values["isotropic"] == [1.0]:
        factory, arguments["isotropic"] = Matern, True
    if factory is Matern and kind in _MATERN.values():
        arguments["nu"] = next(nu for nu, name in _MATERN.items() if name == kind)
    for name, python, _ in _ARGUMENTS[kind]:
        if python:
            is_common = len(set(values[name])) == 1 and not (
                python == "length_scale" and values.get("ard") == [1.0]
            )
            arguments[python] = type(getattr(factory, python))(values[name][0]) if is_common else values[name]
    # If numbers belong to columns, the columns are listed by name.
    is_per_column = any(isinstance(value, list) for value in arguments.values()) and not is_numbered(names)
    is_all_columns = columns == list(range(len(names))) and not is_per_column
    return factory(**arguments, columns=None if is_all_columns else [names[j] for j in columns])


def _positions(columns: Columns, names: Sequence[str]) -> list[int]:
    if columns is None:
        return list(range(len(names)))
    if isinstance(columns, str):
        columns = [columns]
    if not isinstance(columns, Iterable):
        raise TypeError(f"columns = {columns!r}: it is a list of columns, by name or number")
    position_of_name = {name: j for j, name in enumerate(names)}
    positions = []
    for column in columns:
        if isinstance(column, str):
            if column not in position_of_name:
                raise ValueError(
                    f"the kernel reads a column '{column}', but the columns are: {', '.join(names)}"
                )
            positions.append(position_of_name[column])
        elif not is_whole(column):
            raise TypeError(f"columns = {columns!r}: columns are names or whole numbers, not {column!r}")
        elif 0 <= column < len(names):
            positions.append(int(column))
        else:
            raise ValueError(f"the kernel reads column {column}, but there are {len(names)} columns, from 0")
    return positions


def _numbers(name: str, value: Any) -> list[float]:
    """Returns one number, or one number per column, as a list."""
    if isinstance(value, str) and value in (*_RULES, "mean", "std"):
        raise TypeError(
            f"{name} = {value!r}: rows say that, which estimators have; here it is a number, or a list of "
            "them"
        )
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim > 1:
        raise TypeError(f"{name} = {value!r}: it is a number, or a list of them")
    return numbers.ravel().tolist()


def _numeric(names: Sequence[str], levels: Levels) -> list[int]:
    """Returns the positions of the numeric columns."""
    return [j for j in range(len(names)) if levels is None or levels[j] is None]


def _with_levels(factors: list, names: Sequence[str], levels: Levels) -> list:
    """Returns the factors of one product with categories, as on the command line. Factors over all columns
    read the numeric columns, and a categorical factor is added for each column of levels that the product
    does not read."""
    numeric = _numeric(names, levels)
    if len(numeric) == len(names):
        return factors
    all_columns, categorical = list(range(len(names))), [j for j in range(len(names)) if j not in numeric]
    read_factors, reads_numeric = [], False
    for kind, columns, arguments in factors:
        if kind == "categorical":
            columns = categorical if columns == all_columns else columns
        elif columns == all_columns:
            reads_numeric, columns = True, numeric
        else:
            category_name = next((names[j] for j in columns if j in categorical), None)
            if category_name is not None:
                class_name = _CLASSES[kind]
                raise ValueError(
                    f"{class_name} reads the column '{category_name}', which holds categories: they are "
                    "read by Categorical"
                )
        if columns:
            read_factors.append((kind, columns, arguments))
    read_columns = {j for _, columns, _ in read_factors for j in columns}
    missing = [j for j in categorical if j not in read_columns] if reads_numeric else []
    return read_factors + [("categorical", [j], [("similarity", [Categorical.similarity])]) for j in missing]


#: Rules that compute length scales from rows.
_RULES = ("median", "median_per_feature")


def _length_scales(rule: str, X: np.ndarray) -> float | list[float]:
    """Returns the length scales of the rows of ``X``, a factor's columns, by a rule."""
    if rule not in _RULES:
        raise ValueError(
            f"length_scale = {rule!r}: it is a number, a list of them, or one of {', '.join(_RULES)}"
        )
    scales = _core.length_scales(np.ascontiguousarray(X, dtype=np.float64), rule)
    return scales[0] if rule == "median" and scales else scales


class _Stationary(Kernel):
    """A factor whose length scales may be computed from rows."""

    length_scale: Lengths
    columns: Columns

    def _takes_rows(self):
        return isinstance(self.length_scale, str)

    def _fitted_to(self, X, names, levels=None):
        if not isinstance(self.length_scale, str):
            return self
        columns = _numeric(names, levels) if self.columns is None else _positions(self.columns, names)
        # Without a numeric column the factor reads nothing.
        scale = _length_scales(self.length_scale, X[:, columns]) if columns else 1.0
        return replace(self, length_scale=scale)  # type: ignore[type-var]


@dataclass(frozen=True, repr=False)
class RBF(_Stationary):
    """``exp(-½ Σ_c (u_c - v_c)² / length_scale_c²)``, the Gaussian kernel.

    Parameters
    ----------
    length_scale : float, list of floats, "median" or "median_per_feature", default 1
        One for all columns, or one per column, which are then tuned one by one.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> model = riesz.Expansion(riesz.kernels.RBF(2.0), points=np.zeros((1, 2)), coef=[1.0])
    >>> float(model.predict([[2.0, 0.0]])[0]) == float(np.exp(-0.5))
    True
    """

    length_scale: Lengths = 1.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class Laplacian(_Stationary):
    """``exp(-Σ_c |u_c - v_c| / length_scale_c)``; scikit-learn's ``gamma`` is ``1 / length_scale``.

    Parameters
    ----------
    length_scale : float, list of floats, "median" or "median_per_feature", default 1
        One for all columns, or one per column, which are then tuned one by one.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> model = riesz.Expansion(riesz.kernels.Laplacian(2.0), points=np.zeros((1, 2)), coef=[1.0])
    >>> float(model.predict([[2.0, 0.0]])[0]) == float(np.exp(-1.0))
    True
    """

    length_scale: Lengths = 1.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class Cauchy(_Stationary):
    """``Π_c 1 / (1 + (u_c - v_c)² / length_scale_c²)``.

    Parameters
    ----------
    length_scale : float, list of floats, "median" or "median_per_feature", default 1
        One for all columns, or one per column, which are then tuned one by one.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> model = riesz.Expansion(riesz.kernels.Cauchy(2.0), points=np.zeros((1, 2)), coef=[1.0])
    >>> float(model.predict([[2.0, 0.0]])[0])
    0.5
    """

    length_scale: Lengths = 1.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class Matern(_Stationary):
    """The Matérn kernel of any smoothness ``nu``.

    With ``isotropic=True``, as in scikit-learn, it depends on the Euclidean distance over all its columns.
    Shapley values are then computed from a sum of Gaussian kernels, whose error is proved and a part of the
    values' bound. With ``isotropic=False`` it is the product over columns of one-column Matérn kernels, as on
    the command line, and values take less time.

    Parameters
    ----------
    length_scale : float, list of floats, "median" or "median_per_feature", default 1
        One for all columns, or one per column, which are then tuned one by one.
    nu : float from 0.05 to 100, or inf, default 1.5
        0.5, 1.5, 2.5 and infinity (:class:`RBF`) are computed fastest.
    isotropic : bool, default True
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> from riesz.kernels import Matern
    >>> Matern(2.0, nu=2.5, isotropic=False)
    Matern(length_scale=2.0, nu=2.5, isotropic=False)
    """

    length_scale: Lengths = 1.0
    nu: float = 1.5
    isotropic: bool = True
    columns: Columns = None

    def _kind(self):
        return _MATERN.get(self.nu, "matern")


@dataclass(frozen=True, repr=False)
class RationalQuadratic(_Stationary):
    """``(1 + r² / (2 alpha))^-alpha``.

    With ``isotropic=True``, as in scikit-learn, r is the Euclidean distance over all its columns; with
    ``isotropic=False``, as on the command line, it is a product over columns. See :class:`Matern`.

    Parameters
    ----------
    length_scale : float, list of floats, "median" or "median_per_feature", default 1
        One for all columns, or one per column, which are then tuned one by one.
    alpha : float, default 1
        The larger, the nearer to :class:`RBF`.
    isotropic : bool, default True
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> kernel = riesz.kernels.RationalQuadratic(1.0, alpha=1.0)
    >>> float(riesz.Expansion(kernel, points=[[0.0, 0.0]], coef=[1.0]).predict([[1.0, 1.0]])[0])
    0.5
    """

    length_scale: Lengths = 1.0
    alpha: float = 1.0
    isotropic: bool = True
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class InverseMultiquadric(_Stationary):
    """``1 / √(1 + r²)``.

    With ``isotropic=True`` r is the Euclidean distance over all its columns; with ``isotropic=False``, as on
    the command line, it is a product over columns. See :class:`Matern`.

    Parameters
    ----------
    length_scale : float, list of floats, "median" or "median_per_feature", default 1
        One for all columns, or one per column, which are then tuned one by one.
    isotropic : bool, default True
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> kernel = riesz.kernels.InverseMultiquadric(2.0)
    >>> float(riesz.Expansion(kernel, points=np.zeros((1, 2)), coef=[1.0]).predict([[0.0, 2.0]])[0])
    0.7071067811865475
    """

    length_scale: Lengths = 1.0
    isotropic: bool = True
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class ANOVA(_Stationary):
    """The ANOVA kernel ``Π_c (1 + variance (k_c(u, v) - m_c(u) m_c(v) / M_c))``.

    ``k_c`` is the :class:`RBF` kernel of column c, ``m_c(u) = E k_c(u, X)`` and ``M_c = E m_c(X)``, where
    ``X`` is normal with mean ``center`` and standard deviation ``scale``. In estimators these can be
    ``"mean"`` and ``"std"``, the mean and standard deviation of the rows.

    The functional game of this kernel is the functional ANOVA of the model: the base value is the mean, an
    absent column is averaged over, and Shapley values have the posterior covariance of a Gaussian process
    (Durrande et al. 2013; Lu et al. 2022).

    Parameters
    ----------
    length_scale : float, list of floats, "median" or "median_per_feature", default 1
        One for all columns, or one per column, which are then tuned one by one.
    variance : float, default 1
        Weight of a column's part.
    center, scale : float, list of floats, "mean" and "std", default 0 and 1
        Mean and standard deviation of the distribution of ``X``.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> kernel = riesz.kernels.ANOVA("median_per_feature", center="mean", scale="std")
    >>> model = riesz.KernelRidge(0.1, kernel=kernel).fit(X, X[:, 0] * X[:, 1])
    >>> bool(riesz.Explainer(model, game="functional")(X[:3]).certificate.holds)
    True
    """

    length_scale: Lengths = 1.0
    variance: float = 1.0
    center: Lengths = 0.0
    scale: Lengths = 1.0
    columns: Columns = None

    def _fitted_to(self, X, names, levels=None):
        numeric = X[:, _numeric(names, levels) if self.columns is None else _positions(self.columns, names)]
        mean, deviations = numeric.mean(axis=0), numeric.std(axis=0)
        # A standard deviation within rounding of the mean belongs to a constant column.
        rules = {
            "center": ("mean", mean),
            "scale": ("std", np.where(deviations > 1e-12 * np.abs(mean), deviations, 1.0)),
        }
        fitted = {
            name: numbers.tolist()
            for name, (rule, numbers) in rules.items()
            if _is_rule(name, getattr(self, name), rule)
        }
        return replace(super()._fitted_to(X, names, levels), **fitted)


def _is_rule(name: str, value: Any, rule: str) -> bool:
    """Whether the numbers are computed from rows, by their only rule."""
    if isinstance(value, str) and value != rule:
        raise ValueError(f"{name} = {value!r}: it is a number, a list of them, or '{rule}'")
    return isinstance(value, str)


@dataclass(frozen=True, repr=False)
class Periodic(Kernel):
    """``Π_c exp(-2 sin²(π (u_c - v_c) / periodicity) / length_scale²)``, with scikit-learn's names of the
    arguments. ``period``, as on the command line, and GPyTorch's ``period_length`` are the same as
    ``periodicity``.

    Parameters
    ----------
    length_scale : float, default 1
    periodicity : float, default 1
        The period, in the columns' own units.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> from riesz.kernels import Periodic
    >>> Periodic(period=12.0, columns=["month"])
    Periodic(periodicity=12.0, columns=['month'])
    """

    length_scale: float = 1.0
    periodicity: float = 1.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class Linear(Kernel):
    """``Σ_c (u_c - center_c) (v_c - center_c) / scale_c²``.

    Parameters
    ----------
    center, scale : float or list of floats, default 0 and 1
        One for all columns, or one per column.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import riesz
    >>> model = riesz.Expansion(riesz.kernels.Linear(), points=[[1.0, 2.0]], coef=[1.0])
    >>> float(model.predict([[3.0, 4.0]])[0])
    11.0
    """

    center: Scalars = 0.0
    scale: Scalars = 1.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    """``(gamma Σ_c u_c v_c + coef0)^degree``.

    It is not a product over columns. Values are still exact up to degree 20 in the interventional, baseline
    and marginal-product games, if it is a term of its own. The functional game takes it only if all its
    columns are in one group.

    Parameters
    ----------
    degree : int, default 3
    gamma, coef0 : float, default 1
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import riesz
    >>> model = riesz.Expansion(riesz.kernels.Polynomial(2), points=[[1.0, 2.0]], coef=[1.0])
    >>> round(float(model.predict([[3.0, 4.0]])[0]), 9)
    144.0
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class Sigmoid(Kernel):
    """``tanh(gamma Σ_c u_c v_c + coef0)``.

    It is neither positive definite nor a product over columns. Support vector machines may have it, as in
    LIBSVM; their values are estimated from their predictions with a background.

    Parameters
    ----------
    gamma : float, default 1
    coef0 : float, default 0
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> model = riesz.Expansion(riesz.kernels.Sigmoid(0.1), points=[[1.0, 2.0]], coef=[1.0])
    >>> bool(np.isclose(model.predict([[3.0, 4.0]])[0], np.tanh(1.1)))
    True
    """

    gamma: float = 1.0
    coef0: float = 0.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class ExponentialDotProduct(Kernel):
    """``exp(gamma Σ_c (u_c - center_c) (v_c - center_c) / scale_c²)``, a product over columns. With one
    support point it is a multiplicative model, such as a generalised linear model with a log link.

    Parameters
    ----------
    gamma : float, default 1
    center, scale : float or list of floats, default 0 and 1
        One for all columns, or one per column.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all numeric ones.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> kernel = riesz.kernels.ExponentialDotProduct(0.1)
    >>> model = riesz.Expansion(kernel, points=[[1.0, 2.0]], coef=[1.0])
    >>> bool(np.isclose(model.predict([[3.0, 4.0]])[0], np.exp(1.1)))
    True
    """

    gamma: float = 1.0
    center: Scalars = 0.0
    scale: Scalars = 1.0
    columns: Columns = None


@dataclass(frozen=True, repr=False)
class Categorical(Kernel):
    """The product over columns of 1 if two codes are equal, and ``similarity`` if they differ.

    Parameters
    ----------
    similarity : float, default 0.5
        The value for two different levels, from 0 to 1.
    columns : list of int or str, optional
        The columns that it reads, by number or name; by default all columns of categories.

    Examples
    --------
    >>> import riesz
    >>> kernel = riesz.kernels.Categorical(0.25)
    >>> riesz.Expansion(kernel, points=[[0.0, 1.0]], coef=[1.0]).predict([[0.0, 1.0], [0.0, 2.0]])
    array([1.  , 0.25])
    """

    similarity: float = 0.5
    columns: Columns = None


def _accept_aliases(factor: type[Kernel]) -> None:
    """Lets the constructor of a factor take arguments under their names in other libraries."""
    plain, known = factor.__init__, {field.name for field in fields(factor)}  # type: ignore[arg-type]  # a dataclass

    @wraps(plain)
    def init(self, *args, **arguments):
        for alias in [alias for alias in arguments if _ALIASES.get(alias) in known]:
            name = _ALIASES[alias]
            if name in arguments:
                raise TypeError(f"{factor.__name__}: {alias} and {name} are the same argument: give one")
            arguments[name] = arguments.pop(alias)
        plain(self, *args, **arguments)

    factor.__init__ = init  # type: ignore[method-assign]


for _class_name in {*_CLASSES.values(), "Constant"}:
    _accept_aliases(globals()[_class_name])
