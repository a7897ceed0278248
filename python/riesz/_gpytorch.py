"""GPyTorch's exact Gaussian processes as expansions.

A model's ``forward`` is code that can do anything, so its kernel and mean are read and the expansion is then compared
with what the model itself predicts.
"""

from __future__ import annotations

import copy
import functools
import operator
from typing import Any

import numpy as np

from . import kernels as rk
from ._core import UnsupportedModelError
from ._expansion import Expansion

#: Training rows at which an expansion is compared with its model.
CHECKED = 16


def is_gpytorch(model: Any) -> bool:
    """Whether ``model`` is one of GPyTorch's, without importing it."""
    return any(kind.__module__.startswith("gpytorch.") for kind in type(model).__mro__)


def read(model: Any) -> tuple[list[Expansion], str]:
    """The posterior mean of an ``ExactGP``."""
    import gpytorch
    import torch

    if not isinstance(model, gpytorch.models.ExactGP):
        raise UnsupportedModelError(
            f"a {type(model).__name__} of GPyTorch is not an ExactGP: its predictions are no expansion over training points"
        )
    kind = type(model).__name__
    inputs, targets = model.train_inputs, model.train_targets
    if inputs is None or targets is None:
        raise UnsupportedModelError(f"the {kind} has no training data, so it has no posterior: set_train_data first")
    if len(inputs) != 1 or inputs[0].ndim != 2 or targets.ndim != 1:
        raise UnsupportedModelError(f"the {kind} has several inputs, a batch or several outputs: explain them one by one")
    for part in ("covar_module", "mean_module"):
        if not hasattr(model, part):
            raise UnsupportedModelError(f"the {kind} has no {part}, so its kernel or mean is not known")
    mean = _mean(model.mean_module, kind)
    points = inputs[0].detach().cpu().double()
    covariance = copy.deepcopy(model.covar_module).cpu().double()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False), gpytorch.settings.debug(False):
        gram = covariance(points).to_dense().numpy()
        noise = np.broadcast_to(model.likelihood.noise.detach().cpu().double().numpy(), (len(points),))
        noise = noise + float(getattr(model.likelihood, "second_noise", 0.0))
        observed = gram + np.diag(noise)
        coef = np.linalg.solve(observed, targets.detach().cpu().double().numpy() - mean)
        kernel = _kernel(model.covar_module, list(range(points.shape[1])))
        expansion = Expansion(kernel, points.numpy(), coef, mean)
        rows = inputs[0][:: max(1, len(points) // CHECKED)][:CHECKED]
        # A little off the training points, where the model would only remember.
        rows = rows + 0.1 * inputs[0].std(dim=0) if len(points) > 1 else rows
        training = model.training
        model.eval()
        try:
            expected = model(rows).mean.cpu().double().numpy()
        finally:
            model.train(training)
    found = expansion._core.predict(np.ascontiguousarray(rows.detach().cpu().double().numpy()))[:, 0]
    size = np.abs(expected).max() + np.abs(targets.detach().cpu().double().numpy()).max()
    # Single precision and its Cholesky factor leave three digits.
    tolerance = 1e-6 if inputs[0].dtype == torch.float64 else 5e-3
    if not np.abs(found - expected).max() <= tolerance * size:
        raise UnsupportedModelError(
            f"the {kind} does not predict what its covar_module and mean_module say, so it would be another model that is "
            "explained: its forward does more than these two"
        )
    expansion._posterior = lambda: (np.linalg.cholesky(observed), None, [1.0])
    return [expansion], "posterior mean"


def _mean(module: Any, kind: str) -> float:
    from gpytorch import means

    if isinstance(module, means.ConstantMean):
        return float(module.constant.detach())
    if isinstance(module, means.ZeroMean):
        return 0.0
    raise UnsupportedModelError(f"the mean of the {kind} is a {type(module).__name__}: a ConstantMean or ZeroMean can be read")


def _kernel(kernel: Any, columns: list[int], chosen: bool = False) -> rk.Kernel:
    """``kernel`` over those of the model's columns that it is given; ``chosen`` says that it does not choose among them."""
    from gpytorch import kernels as gk

    if len(kernel.batch_shape):
        raise UnsupportedModelError(f"the {type(kernel).__name__} has a batch shape: explain its models one by one")
    if kernel.active_dims is not None and not chosen:
        columns = [columns[int(j)] for j in kernel.active_dims]
    number = lambda tensor: float(tensor.detach())
    scales = lambda: np.asarray(kernel.lengthscale.detach().cpu().double()).ravel().tolist()
    if type(kernel) is gk.ScaleKernel:
        # It takes over its base's active_dims and calls its forward, which does not choose again.
        return number(kernel.outputscale) * _kernel(kernel.base_kernel, columns, chosen=True)
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
        periods = np.broadcast_to(np.asarray(kernel.period_length.detach().cpu().double()).ravel(), (len(columns),))
        periodic = [
            rk.Periodic(length_scale=float(length), periodicity=float(period), columns=[j])
            for length, period, j in zip(lengths, periods, columns)
        ]
        return functools.reduce(operator.mul, periodic)
    if type(kernel) is gk.LinearKernel:
        variance = np.asarray(kernel.variance.detach().cpu().double()).ravel()
        return rk.Linear(scale=(1.0 / np.sqrt(variance)).tolist(), columns=columns)
    if type(kernel) is gk.PolynomialKernel:
        return rk.Polynomial(degree=int(kernel.power), gamma=1.0, coef0=number(kernel.offset), columns=columns)
    if type(kernel) is gk.ConstantKernel:
        return rk.Constant(number(kernel.constant))
    raise UnsupportedModelError(
        f"the kernel has a part {type(kernel).__name__}, which has no exact values: ScaleKernel, RBFKernel, MaternKernel, "
        "RQKernel, PeriodicKernel, LinearKernel, ConstantKernel, their sums and products have"
    )
