"""Kernels and means of GPyTorch and BoTorch as kernels and linear functions.

Only classes of the two libraries are known, since a subclass may compute anything."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import kernels as rk
from .._core import UnsupportedModelError

#: A mean as a constant and slopes, (columns,); ``None`` for no slopes.
Mean = tuple[float, np.ndarray | None]

#: Kernels of rows with the covariance of tasks, (tasks, tasks), by which each is multiplied.
TaskTerms = list[tuple[rk.Kernel, np.ndarray]]


def class_of(module: Any) -> str:
    """Returns the name of a class of GPyTorch or BoTorch, and an empty text for other classes."""
    is_known = type(module).__module__.startswith(("gpytorch.", "botorch."))
    return type(module).__name__ if is_known else ""


# Kernels
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """Which parameters of a kernel are read."""

    #: The position in a batch of models; ``None`` if there is no batch.
    member: int | None = None
    #: The position of the only column that is read, among the columns of the kernel; ``None`` for all.
    position: int | None = None

    def numbers(self, kernel: Any, name: str) -> np.ndarray:
        """Returns a parameter of a kernel as a flat array."""
        tensor = getattr(kernel, name).detach().cpu().double()
        if len(kernel.batch_shape):
            if self.member is None:
                raise UnsupportedModelError(
                    f"the {type(kernel).__name__} has a batch shape: explain its models one by one"
                )
            tensor = tensor[self.member]
        numbers = tensor.numpy().ravel()
        # A structure kernel computes its base kernel for each column, with this column's length scale.
        return numbers if self.position is None or len(numbers) == 1 else numbers[[self.position]]

    def number(self, kernel: Any, name: str) -> float:
        """Returns a parameter of a kernel that is one number."""
        return self.numbers(kernel, name).item()


def kernel_of(
    kernel: Any, columns: list[int], reading: Reading = Reading(), is_selected: bool = False
) -> rk.Kernel:
    """Returns ``kernel`` over some of the model's columns; with ``is_selected`` its ``active_dims`` have
    already been applied."""
    columns = columns if is_selected else selected(kernel, columns)
    kind = class_of(kernel)
    if kind == "ScaleKernel":
        # It copies its base's active_dims and calls its forward, which does not select columns again.
        base = kernel_of(kernel.base_kernel, columns, reading, is_selected=True)
        return _output_scale(kernel, reading) * base
    if kind in ("AdditiveKernel", "ProductKernel"):
        parts = [kernel_of(part, columns, reading) for part in kernel.kernels]
        return _joined(parts, kind == "AdditiveKernel")
    if kind in ("AdditiveStructureKernel", "ProductStructureKernel"):
        columns = selected(kernel.base_kernel, columns)
        parts = [
            kernel_of(kernel.base_kernel, [column], Reading(reading.member, position), is_selected=True)
            for position, column in enumerate(columns)
        ]
        return _joined(parts, kind == "AdditiveStructureKernel")
    if kind not in _FACTORS:
        known = ", ".join(_FACTORS)
        raise UnsupportedModelError(
            f"the kernel has a part {type(kernel).__name__}, which has no exact values: {known}, their sums "
            "and products, ScaleKernel, AdditiveStructureKernel and ProductStructureKernel have"
        )
    return _FACTORS[kind](kernel, columns, reading)


def selected(kernel: Any, columns: list[int]) -> list[int]:
    """Returns the columns that a kernel reads, by its ``active_dims``."""
    return columns if kernel.active_dims is None else [columns[int(j)] for j in kernel.active_dims]


def _joined(parts: list[rk.Kernel], is_sum: bool) -> rk.Kernel:
    return functools.reduce(operator.add if is_sum else operator.mul, parts)


def _output_scale(kernel: Any, reading: Reading) -> float:
    """Returns the factor of a ScaleKernel, which may have no batch shape where its base has one."""
    scale = kernel.outputscale.detach()
    return float(scale[reading.member]) if scale.ndim and reading.member is not None else float(scale)


def _matern(kernel: Any, columns: list[int], reading: Reading) -> rk.Kernel:
    scales = reading.numbers(kernel, "lengthscale").tolist()
    return rk.Matern(scales, nu=float(kernel.nu), columns=columns)


def _rational_quadratic(kernel: Any, columns: list[int], reading: Reading) -> rk.Kernel:
    scales = reading.numbers(kernel, "lengthscale").tolist()
    return rk.RationalQuadratic(scales, alpha=reading.number(kernel, "alpha"), columns=columns)


def _periodic(kernel: Any, columns: list[int], reading: Reading) -> rk.Kernel:
    # GPyTorch does not square the length scale.
    lengths = np.broadcast_to(np.sqrt(reading.numbers(kernel, "lengthscale")), (len(columns),))
    periods = np.broadcast_to(reading.numbers(kernel, "period_length"), (len(columns),))
    parts: list[rk.Kernel] = [
        rk.Periodic(length_scale=float(length), periodicity=float(period), columns=[j])
        for length, period, j in zip(lengths, periods, columns)
    ]
    return _joined(parts, is_sum=False)


def _linear(kernel: Any, columns: list[int], reading: Reading) -> rk.Kernel:
    scales = 1.0 / np.sqrt(reading.numbers(kernel, "variance"))
    return rk.Linear(scale=scales.tolist(), columns=columns)


def _polynomial(kernel: Any, columns: list[int], reading: Reading) -> rk.Kernel:
    offset = reading.number(kernel, "offset")
    return rk.Polynomial(degree=int(kernel.power), gamma=1.0, coef0=offset, columns=columns)


def _categorical(kernel: Any, columns: list[int], reading: Reading) -> rk.Kernel:
    """Returns BoTorch's ``exp(-mean over columns of 1[x ≠ y] / lengthscale)``, which is a product over
    columns."""
    lengths = np.broadcast_to(reading.numbers(kernel, "lengthscale"), (len(columns),))
    parts: list[rk.Kernel] = [
        rk.Categorical(float(np.exp(-1.0 / (length * len(columns)))), columns=[j])
        for length, j in zip(lengths, columns)
    ]
    return _joined(parts, is_sum=False)


#: For each class of kernels without parts, its kernel over some columns.
_FACTORS: dict[str, Callable[[Any, list[int], Reading], rk.Kernel]] = {
    "RBFKernel": lambda kernel, columns, reading: rk.RBF(
        reading.numbers(kernel, "lengthscale").tolist(), columns=columns
    ),
    "MaternKernel": _matern,
    "RQKernel": _rational_quadratic,
    "PeriodicKernel": _periodic,
    "LinearKernel": _linear,
    "PolynomialKernel": _polynomial,
    "CategoricalKernel": _categorical,
    "ConstantKernel": lambda kernel, columns, reading: rk.Constant(reading.number(kernel, "constant")),
}


# Tasks
# ------------------------------------------------------------------------------------------------------------


def task_terms(
    kernel: Any, columns: list[int], tasks: int, task_column: int | None = None, is_selected: bool = False
) -> TaskTerms:
    """Returns a kernel of rows and tasks as a sum of kernels of rows times covariances of tasks.

    Parameters
    ----------
    tasks
        Number of tasks.
    task_column
        The column with the task, which an index kernel reads; ``None`` if all tasks are observed at each row.
    is_selected
        Whether the ``active_dims`` of ``kernel`` have already been applied.
    """
    columns = columns if is_selected else selected(kernel, columns)
    kind = class_of(kernel)
    terms_of = functools.partial(task_terms, tasks=tasks, task_column=task_column)
    if kind == "LCMKernel":
        # It calls the forward of its parts, and these the forward of theirs.
        parts = [terms_of(part, columns, is_selected=True) for part in kernel.covar_module_list]
        return [term for part in parts for term in part]
    if kind == "MultitaskKernel":
        data = kernel_of(kernel.data_covar_module, columns, is_selected=True)
        return [(data, _task_covariance(kernel.task_covar_module))]
    if kind in ("IndexKernel", "PositiveIndexKernel") and columns == [task_column]:
        return [(rk.Constant(1.0), _task_covariance(kernel))]
    if kind == "ScaleKernel":
        scale = _output_scale(kernel, Reading())
        base = terms_of(kernel.base_kernel, columns, is_selected=True)
        return [(part, scale * covariance) for part, covariance in base]
    if kind == "AdditiveKernel":
        return [term for part in kernel.kernels for term in terms_of(part, columns)]
    if kind == "ProductKernel":
        products = [terms_of(part, columns) for part in kernel.kernels]
        return functools.reduce(
            lambda left, right: [(k * m, a * b) for k, a in left for m, b in right], products
        )
    if task_column in columns:
        raise UnsupportedModelError(
            f"the {type(kernel).__name__} reads the task column, which has exact values in an IndexKernel"
        )
    return [(kernel_of(kernel, columns, is_selected=True), np.ones((tasks, tasks)))]


def _task_covariance(kernel: Any) -> np.ndarray:
    """Returns the covariance of tasks of an index kernel."""
    from linear_operator import to_dense

    if len(kernel.batch_shape):
        raise UnsupportedModelError(
            f"the {type(kernel).__name__} has a batch shape: explain its models one by one"
        )
    return to_dense(kernel.covar_matrix).detach().cpu().double().numpy()


# Means
# ------------------------------------------------------------------------------------------------------------


def linear_mean(module: Any, kind: str, width: int, member: int | None = None) -> Mean:
    """Returns the mean of a model of class ``kind`` over ``width`` columns as a constant and slopes."""
    name = class_of(module)
    if name == "ConstantMean":
        return _number(module.constant, member), None
    if name == "ZeroMean":
        return 0.0, None
    if name == "LinearMean":
        # One row of slopes for each model of a batch.
        weights = module.weights.detach().cpu().double().numpy()
        slopes = weights.reshape(-1, weights.shape[-2])
        slopes = slopes[0 if len(slopes) == 1 or member is None else member]
        if len(slopes) == width:
            return 0.0 if module.bias is None else _number(module.bias, member), slopes
    raise UnsupportedModelError(
        f"the mean of the {kind} is a {type(module).__name__}: a ConstantMean, a ZeroMean or a LinearMean "
        "has exact values"
    )


def task_means(module: Any, kind: str, width: int, tasks: int) -> list[Mean]:
    """Returns the mean of each task, over ``width`` columns without the task column."""
    if class_of(module) == "MultitaskMean":
        return [linear_mean(part, kind, width) for part in module.base_means]
    if class_of(module) == "LinearMean":
        raise UnsupportedModelError(
            f"the mean of the {kind} is a LinearMean of the task column: a MultitaskMean has exact values"
        )
    return [linear_mean(module, kind, width)] * tasks


def _number(tensor: Any, member: int | None) -> float:
    numbers = tensor.detach().cpu().double().numpy().ravel()
    return numbers.item() if len(numbers) == 1 or member is None else float(numbers[member])
