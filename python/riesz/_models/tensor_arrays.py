"""Rows as tensors of PyTorch, and the evaluation mode of its models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._data.validation import as_cells, as_numbers, numbered

#: Number of rows per call of a model; GPyTorch computes a square matrix of them.
BATCH = 512

#: Number of training rows above which GPyTorch uses and caches approximate solutions by default.
EXACT_SIZE = 800


def posterior_mean(model: Any) -> Callable[[Any], np.ndarray]:
    """Returns the posterior mean of a process with one output, (n,), in the units of its targets, as a
    function of rows in the user's columns."""

    def function(rows: Any) -> np.ndarray:
        numbers = as_numbers(rows, numbered(as_cells(rows).shape[1]), "X")
        parts = []
        with evaluated(model):
            for k in range(0, len(numbers), BATCH):
                inputs = tensor_of(numbers[k : k + BATCH], model)
                inputs = model.transform_inputs(inputs) if hasattr(model, "transform_inputs") else inputs
                parts.append(model(inputs).mean.cpu().double().numpy())
        return np.concatenate(parts) if parts else np.empty(0)

    return function


def tensor_of(rows: np.ndarray, model: Any) -> Any:
    """Returns rows as a tensor with the model's precision and device."""
    import torch

    float_tensor = next(
        (tensor for tensor in [*model.parameters(), *model.buffers()] if tensor.is_floating_point()), None
    )
    return (
        torch.as_tensor(rows)
        if float_tensor is None
        else torch.as_tensor(rows, dtype=float_tensor.dtype, device=float_tensor.device)
    )


@contextmanager
def evaluated(model: Any) -> Iterator[None]:
    """Puts the model into prediction mode, without gradients and approximate solutions, and restores it
    afterwards."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    was_training = model.training
    # Fully Bayesian models delete their draws when they are put into training mode.
    draws = [
        (module, name, getattr(module, name))
        for module in model.modules()
        if hasattr(type(module), "load_mcmc_samples")
        for name in ("mean_module", "covar_module", "likelihood")
    ]
    strategies = _remove_caches(model)
    model.eval()
    try:
        with torch.no_grad(), _exact():
            yield
    finally:
        # Models of BoTorch transform their training rows when the mode changes.
        model.train(was_training)
        for module, name, drawn in draws:
            setattr(module, name, drawn)
        for module, mode in modes:
            module.training = mode
        for module, strategy in strategies:
            module.prediction_strategy = strategy


def _remove_caches(model: Any) -> list[tuple[Any, Any]]:
    """Removes and returns the cached approximate solutions of large processes."""
    caches = []
    for module in model.modules():
        strategy = getattr(module, "prediction_strategy", None)
        targets = getattr(module, "train_targets", None)
        if strategy is not None and targets is not None and targets.shape[-1] > EXACT_SIZE:
            caches.append((module, strategy))
            module.prediction_strategy = None
    return caches


@contextmanager
def _exact() -> Iterator[None]:
    try:
        import gpytorch
    except ImportError:
        yield
        return
    with gpytorch.settings.fast_computations(False, False, False), gpytorch.settings.debug(False):
        yield
