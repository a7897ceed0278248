"""Reads Gaussian processes of GPyTorch and BoTorch as expansions.

A model's ``forward`` is arbitrary code. So its kernel and mean are read, and the expansion is compared with
the model's own predictions. A model that cannot be read is explained by its posterior mean."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import kernels as rk
from .._core import UnsupportedModelError
from .._data.validation import as_numbers, numbered
from . import botorch as _botorch
from .expansion import Expansion
from .loading import (
    SINGLE_TOLERANCE,
    TOLERANCE,
    Block,
    Imported,
    Owner,
    Part,
    Transform,
    mapped,
    shifted_rows,
)
from .tensor_arrays import evaluated, posterior_mean, tensor_of


@dataclass(frozen=True)
class Output:
    """One output of a model as an expansion."""

    block: Block
    #: The posterior mean of this output, computed by the model itself.
    function: Callable[[Any], np.ndarray]
    is_log: bool


def read(model: Any, function: Callable[[Any], np.ndarray]) -> Imported:
    """Reads a model; ``function`` returns its posterior mean in the user's columns and units."""
    blocks: list[Block] = []
    refusal, explained, prediction = None, "posterior mean", function
    rows = _training_rows(model)
    members = [model]
    try:
        members = _botorch.single_outputs(model)
        outputs = [_output(member, f"y{o}" if len(members) > 1 else "y") for o, member in enumerate(members)]
        blocks = [output.block for output in outputs]
        if any(output.is_log for output in outputs):
            explained = _botorch.LOG_MEAN
        if explained == _botorch.LOG_MEAN or _error_of(function, rows) is not None:
            # BoTorch has no posterior if only some outputs are transformed.
            prediction = lambda X: np.column_stack([output.function(X) for output in outputs])
    except Exception as error:
        # Kernels and means are user code, such as networks before a kernel, which may fail on these rows.
        refusal = error if isinstance(error, UnsupportedModelError) else _not_read(model, error)
        without_mean = _error_of(function, rows)
        if without_mean is not None:
            raise UnsupportedModelError(f"{refusal}; {without_mean}") from None
    return Imported(
        blocks,
        explained,
        # A multi-task model takes rows with or without the task column.
        [] if rows is None or hasattr(model, "num_non_task_features") else numbered(rows.shape[1]),
        type(model).__name__,
        [f"y{o}" for o in range(len(members))] if len(members) > 1 else [],
        prediction,
        refusal,
        needs_comparison=True,
        rows=None if rows is None else shifted_rows(rows),
        tolerance=SINGLE_TOLERANCE if _is_single(model) else TOLERANCE,
        may_be_user_code=True,
    )


def _not_read(model: Any, error: Exception) -> UnsupportedModelError:
    lines = str(error).splitlines()
    return UnsupportedModelError(
        f"the {type(model).__name__} cannot be read as a kernel and a mean: "
        f"{lines[0] if lines else type(error).__name__}"
    )


def _error_of(function: Callable[[Any], np.ndarray], rows: np.ndarray | None) -> UnsupportedModelError | None:
    """Returns an error if the model has no mean for each row, else ``None``. Other errors are raised when
    values are computed."""
    if rows is None:
        return None
    try:
        function(rows[:2])
    except UnsupportedModelError as error:
        return error
    except Exception:
        return None
    return None


def _is_single(model: Any) -> bool:
    return any(str(parameter.dtype) == "torch.float32" for parameter in model.parameters())


def _training_rows(model: Any) -> np.ndarray | None:
    """Returns the training rows in the user's columns; ``None`` if the model has none, or not as a table."""
    while hasattr(model, "models") and len(model.models):
        model = model.models[0]
    inputs = getattr(model, "train_inputs", None)
    if getattr(model, "_has_transformed_inputs", False):
        inputs = [model._original_train_inputs]
    if not inputs:
        return None
    rows = inputs[0]
    # Models with several outputs repeat their rows.
    while rows.ndim > 2:
        rows = rows[0]
    return rows.detach().cpu().double().numpy() if rows.ndim == 2 else None


def _output(model: Any, name: str) -> Output:
    """Reads a model with one output."""
    import gpytorch
    import torch

    kind = type(model).__name__
    if not isinstance(model, gpytorch.models.ExactGP):
        raise UnsupportedModelError(
            f"a {kind} is not an ExactGP: its predictions are no expansion over training points"
        )
    if model.train_inputs is None or model.train_targets is None:
        raise UnsupportedModelError(
            f"the {kind} has no training data, so it has no posterior: set_train_data first"
        )
    if len(model.train_inputs) != 1 or model.train_inputs[0].ndim != 2 or model.train_targets.ndim != 1:
        raise UnsupportedModelError(
            f"the {kind} has several inputs, a batch or several outputs, which are no models of their own"
        )
    for required in ("covar_module", "mean_module"):
        if not hasattr(model, required):
            raise UnsupportedModelError(f"the {kind} has no {required}, so its kernel or mean is not known")
    if not hasattr(model.likelihood, "noise"):
        raise UnsupportedModelError(
            f"the likelihood of the {kind} is a {type(model.likelihood).__name__}, whose noise is not known"
        )
    outcome = _botorch.outcome_of(model)
    training_rows = _training_rows(model)
    owners, transform = _input_transform(
        model, model.train_inputs[0].shape[1] if training_rows is None else training_rows.shape[1]
    )
    with evaluated(model):
        # In prediction mode, a BoTorch model holds its training rows as its kernel takes them.
        points = model.train_inputs[0].detach().cpu().double()
        targets = model.train_targets.detach().cpu().double().numpy()
    width = points.shape[1]
    if len(owners) != width:
        raise UnsupportedModelError(
            f"the input transform of the {kind} makes {len(owners)} columns, but its kernel has {width}"
        )
    constant, slopes = _mean(model.mean_module, kind, width)
    covariance = copy.deepcopy(model.covar_module).cpu().double()
    with (
        torch.no_grad(),
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.debug(False),
    ):
        gram = covariance(points).to_dense().numpy()
    noise = np.broadcast_to(model.likelihood.noise.detach().cpu().double().numpy(), (len(points),))
    observed = gram + np.diag(noise + float(getattr(model.likelihood, "second_noise", 0.0)))
    rows = points.numpy()
    coef = np.linalg.solve(observed, targets - constant - (0.0 if slopes is None else rows @ slopes))
    expansions = [Expansion(_kernel(model.covar_module, list(range(width))), rows, coef, constant)]
    expansions[0]._posterior = lambda: (np.linalg.cholesky(observed), None, [1.0])
    if slopes is not None:
        expansions.append(Expansion(rk.Linear(), slopes[None, :], [1.0]))
    block = []
    for position, expansion in enumerate(expansions):
        part = Part(expansion, owners, transform, has_rows=position == 0, card=expansion._core.card)
        shift = np.array([outcome.shift if position == 0 else 0.0])
        block.append(mapped(part, np.array([[outcome.scale]]), shift, [name]))
    latent = posterior_mean(model)
    return Output(block, lambda X: outcome.shift + outcome.scale * latent(X), outcome.is_log)


def _input_transform(model: Any, width: int) -> tuple[list[Owner], Transform]:
    """Returns the owners of the kernel's columns, and the transform of the user's columns."""
    if getattr(model, "input_transform", None) is None:
        return list(range(width)), None
    names = numbered(width)

    def transform(X: Any) -> np.ndarray:
        with evaluated(model):
            return model.transform_inputs(tensor_of(as_numbers(X, names), model)).cpu().double().numpy()

    return _botorch.input_owners(model.input_transform, width), transform


def _mean(module: Any, kind: str, width: int) -> tuple[float, np.ndarray | None]:
    """Returns a mean as a constant and slopes, (columns,); ``None`` for no slopes."""
    from gpytorch import means

    if type(module) is means.ConstantMean:
        return float(module.constant.detach()), None
    if type(module) is means.ZeroMean:
        return 0.0, None
    if type(module) is means.LinearMean:
        slopes = module.weights.detach().cpu().double().numpy().reshape(-1)
        if len(slopes) == width:
            return 0.0 if module.bias is None else float(module.bias.detach()), slopes
    raise UnsupportedModelError(
        f"the mean of the {kind} is a {type(module).__name__}: a ConstantMean, a ZeroMean or a LinearMean "
        "has exact values"
    )


def _kernel(kernel: Any, columns: list[int], is_selected: bool = False) -> rk.Kernel:
    """Returns ``kernel`` over some of the model's columns; with ``is_selected`` its ``active_dims`` have
    already been applied."""
    from gpytorch import kernels as gk

    if len(kernel.batch_shape):
        raise UnsupportedModelError(
            f"the {type(kernel).__name__} has a batch shape: explain its models one by one"
        )
    if kernel.active_dims is not None and not is_selected:
        columns = [columns[int(j)] for j in kernel.active_dims]
    number = lambda tensor: float(tensor.detach())
    scales = lambda: np.asarray(kernel.lengthscale.detach().cpu().double()).ravel().tolist()
    if type(kernel) is gk.ScaleKernel:
        # It copies its base's active_dims and calls its forward, which does not select columns again.
        return number(kernel.outputscale) * _kernel(kernel.base_kernel, columns, is_selected=True)
    if type(kernel) in (gk.AdditiveKernel, gk.ProductKernel):
        parts = [_kernel(part, columns) for part in kernel.kernels]
        return functools.reduce(operator.add if type(kernel) is gk.AdditiveKernel else operator.mul, parts)
    if type(kernel) is gk.RBFKernel:
        return rk.RBF(scales(), columns=columns)
    if type(kernel) is gk.MaternKernel:
        return rk.Matern(scales(), nu=float(kernel.nu), columns=columns)
    if type(kernel) is gk.RQKernel:
        return rk.RationalQuadratic(scales(), alpha=number(kernel.alpha), columns=columns)
    if type(kernel) is gk.PeriodicKernel:
        # GPyTorch does not square the length scale.
        lengths = np.broadcast_to(np.sqrt(scales()), (len(columns),))
        periods = np.broadcast_to(
            np.asarray(kernel.period_length.detach().cpu().double()).ravel(), (len(columns),)
        )
        periodic = [
            rk.Periodic(length_scale=float(length), periodicity=float(period), columns=[j])
            for length, period, j in zip(lengths, periods, columns)
        ]
        return functools.reduce(operator.mul, periodic)
    if type(kernel) is gk.LinearKernel:
        variance = np.asarray(kernel.variance.detach().cpu().double()).ravel()
        return rk.Linear(scale=(1.0 / np.sqrt(variance)).tolist(), columns=columns)
    if type(kernel) is gk.PolynomialKernel:
        return rk.Polynomial(
            degree=int(kernel.power), gamma=1.0, coef0=number(kernel.offset), columns=columns
        )
    if type(kernel).__name__ == "ConstantKernel":
        # Old releases have no such kernel.
        return rk.Constant(number(kernel.constant))
    raise UnsupportedModelError(
        f"the kernel has a part {type(kernel).__name__}, which has no exact values: ScaleKernel, RBFKernel, "
        "MaternKernel, "
        "RQKernel, PeriodicKernel, LinearKernel, ConstantKernel, their sums and products have"
    )
