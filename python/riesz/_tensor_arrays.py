"""Rows as tensors of PyTorch, and models of PyTorch while they predict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._validation import as_cells, as_numbers, numbered

#: Rows that a model is asked about at once: GPyTorch makes a square matrix of them.
AT_ONCE = 512

#: Training rows beyond which GPyTorch takes approximate solutions, and keeps them, unless told not to.
EXACT_SIZE = 800


def posterior_mean(model: Any) -> Callable[[Any], np.ndarray]:
    """The posterior mean of a process of one output in the units of its targets, (n,), at rows in the user's
    columns."""

    def function(rows: Any) -> np.ndarray:
        numbers = as_numbers(rows, numbered(as_cells(rows).shape[1]), "X")
        parts = []
        with evaluated(model):
            for k in range(0, len(numbers), AT_ONCE):
                inputs = tensor_of(numbers[k : k + AT_ONCE], model)
                inputs = model.transform_inputs(inputs) if hasattr(model, "transform_inputs") else inputs
                parts.append(model(inputs).mean.cpu().double().numpy())
        return np.concatenate(parts) if parts else np.empty(0)

    return function


def tensor_of(rows: np.ndarray, model: Any) -> Any:
    """Rows in the model's precision, where it is."""
    import torch

    known = next(
        (tensor for tensor in [*model.parameters(), *model.buffers()] if tensor.is_floating_point()), None
    )
    return (
        torch.as_tensor(rows)
        if known is None
        else torch.as_tensor(rows, dtype=known.dtype, device=known.device)
    )


@contextmanager
def evaluated(model: Any) -> Iterator[None]:
    """Within it the model predicts, without gradients and without approximate solutions; afterwards it is as
    before."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    was_training = model.training
    strategies = _set_aside(model)
    model.eval()
    try:
        with torch.no_grad(), _exact():
            yield
    finally:
        # Models of BoTorch change their training rows with the mode.
        model.train(was_training)
        for module, mode in modes:
            module.training = mode
        for module, strategy in strategies:
            module.prediction_strategy = strategy


def _set_aside(model: Any) -> list[tuple[Any, Any]]:
    """The caches of approximate solutions that large processes keep, removed from them."""
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
