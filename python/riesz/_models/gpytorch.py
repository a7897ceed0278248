"""Reads Gaussian processes of GPyTorch and BoTorch as expansions.

A model's ``forward`` is arbitrary code. So its kernel and mean are read, and the expansion is compared with
the model's own predictions. A model that cannot be read is explained by its posterior mean."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import kernels as rk
from .._core import UnsupportedModelError
from .._data.validation import as_numbers, numbered
from . import botorch as _botorch
from .expansion import Expansion
from .gpytorch_kernels import (
    Mean,
    Reading,
    TaskTerms,
    class_of,
    kernel_of,
    linear_mean,
    task_means,
    task_terms,
)
from .loading import (
    SINGLE_TOLERANCE,
    TOLERANCE,
    Block,
    Imported,
    Owner,
    Part,
    Transform,
    mapped,
    outputs_of,
    shifted_rows,
    weighted_sum,
)
from .tensor_arrays import evaluated, posterior_mean, tensor_of


@dataclass(frozen=True)
class Output:
    """One output of a model as an expansion, or several dependent ones."""

    block: Block
    #: The posterior mean of this output, computed by the model itself; ``None`` if only that of all outputs
    #: together is known.
    function: Callable[[Any], np.ndarray] | None = None
    is_log: bool = False


@dataclass
class TaskImported(Imported):
    """A model with a task column. Rows with this column have one output, and rows without it one output for
    each task: the number of columns says which."""

    #: Returns the blocks for a number of columns; ``None`` once they are known.
    blocks_of: Callable[[int], list[Block]] | None = None

    def __post_init__(self) -> None:
        if self.blocks_of is None or not self.feature_names:
            return
        read, self.blocks_of = self.blocks_of, None
        try:
            self.blocks, self.refusal = read(len(self.feature_names)), None
        except Exception as error:
            self.refusal = _refusal(self.kind, error)


def read(model: Any, function: Callable[[Any], np.ndarray]) -> Imported:
    """Reads a model; ``function`` returns its posterior mean in the user's columns and units."""
    if _botorch.has_task_column(model):
        return _read_task_column(model, function)
    blocks: list[Block] = []
    refusal, explained, prediction = None, "posterior mean", function
    rows = _training_rows(model)
    try:
        outputs = [output for member in _botorch.single_outputs(model) for output in _outputs(member)]
        blocks = [output.block for output in outputs]
        if any(output.is_log for output in outputs):
            explained = _botorch.LOG_MEAN
        if explained == _botorch.LOG_MEAN or _error_of(function, rows) is not None:
            # BoTorch has no posterior if only some outputs are transformed.
            prediction = _side_by_side(model, [output.function for output in outputs])
    except Exception as error:
        # Kernels and means are user code, such as networks before a kernel, which may fail on these rows.
        blocks, refusal, explained = [], _refusal(type(model).__name__, error), "posterior mean"
        without_mean = _error_of(function, rows)
        if without_mean is not None:
            raise UnsupportedModelError(f"{refusal}; {without_mean}") from None
    count = outputs_of(blocks)
    return Imported(
        blocks,
        explained,
        [] if rows is None else numbered(rows.shape[1]),
        type(model).__name__,
        [f"y{o}" for o in range(count)] if count > 1 else [],
        prediction,
        refusal,
        needs_comparison=True,
        rows=None if rows is None else shifted_rows(rows),
        tolerance=SINGLE_TOLERANCE if _is_single(model) else TOLERANCE,
        may_be_user_code=True,
    )


def _side_by_side(
    model: Any, functions: Sequence[Callable[[Any], np.ndarray] | None]
) -> Callable[[Any], Any]:
    known = [function for function in functions if function is not None]
    if len(known) < len(functions):
        raise UnsupportedModelError(f"the outputs of the {type(model).__name__} have no means of their own")
    return lambda X: np.column_stack([function(X) for function in known])


def _refusal(kind: str, error: Exception) -> UnsupportedModelError:
    """Returns the reason why a model cannot be read."""
    if isinstance(error, UnsupportedModelError):
        return error
    lines = str(error).splitlines()
    return UnsupportedModelError(
        f"the {kind} cannot be read as a kernel and a mean: {lines[0] if lines else type(error).__name__}"
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
    """Returns the training rows, or inducing points, in the user's columns; ``None`` if the model has none,
    or not as a table."""
    while hasattr(model, "models") and len(model.models):
        model = model.models[0]
    inputs = getattr(model, "train_inputs", None)
    if getattr(model, "_has_transformed_inputs", False):
        inputs = [model._original_train_inputs]
    strategy = _strategy_of(model)
    if strategy is not None and not inputs:
        inputs = [_untransformed(model, _base_strategy(strategy).inducing_points)]
    if not inputs or inputs[0] is None:
        return None
    rows = inputs[0]
    # Models with several outputs repeat their rows.
    while rows.ndim > 2:
        rows = rows[0]
    return rows.detach().cpu().double().numpy() if rows.ndim == 2 else None


# Inputs
# ------------------------------------------------------------------------------------------------------------


def _input_transforms(model: Any, width: int, count: int = 1) -> tuple[list[Owner], list[Transform]]:
    """Returns the owners of the kernel's columns, and for each of ``count`` members of a batch the transform
    of the user's ``width`` columns."""
    if getattr(model, "input_transform", None) is None:
        return list(range(width)), [None] * count
    owners = _botorch.input_owners(model.input_transform, width)

    def transform(X: Any) -> np.ndarray:
        rows = _transformed(model, as_numbers(X, numbered(width)))
        return rows[0] if rows.ndim == 3 else rows

    probe = _training_rows(model)
    if count == 1 or probe is None or _transformed(model, probe[:1]).shape[:-2] in ((), (1,)):
        return owners, [transform] * count
    of_member = lambda k: lambda X: _transformed(model, as_numbers(X, numbered(width)))[k]
    return owners, [of_member(k) for k in range(count)]


def _transformed(model: Any, rows: np.ndarray) -> np.ndarray:
    """Returns rows as the kernel takes them: (rows, columns), or (members, rows, columns)."""
    with evaluated(model):
        inputs = tensor_of(rows, model)
        # BoTorch puts the members of an ensemble before the rows.
        inputs = inputs.unsqueeze(-3) if _botorch.is_ensemble(model) else inputs
        return model.transform_inputs(inputs).cpu().double().numpy()


def _untransformed(model: Any, points: Any) -> Any:
    """Returns inducing points in the user's columns; ``None`` if the input transform has no inverse."""
    transform = getattr(model, "input_transform", None)
    if transform is None:
        return points
    try:
        with evaluated(model):
            return transform.untransform(points) if transform.transform_on_eval else points
    except Exception:
        return None


# Exact processes
# ------------------------------------------------------------------------------------------------------------


def _outputs(model: Any) -> list[Output]:
    """Reads a model whose outputs are members of a batch, or depend on each other, or are only one."""
    import gpytorch

    kind = type(model).__name__
    if _strategy_of(model) is not None:
        return _variational(model)
    if class_of(model) == "PairwiseGP":
        return [_pairwise(model)]
    if not isinstance(model, gpytorch.models.ExactGP):
        raise UnsupportedModelError(
            f"a {kind} is not an ExactGP: its predictions are no expansion over training points"
        )
    _check_exact(model)
    joint_kernels = {"MultitaskKernel", "LCMKernel"}
    if any(class_of(module) in joint_kernels for module in model.covar_module.modules()):
        return [_joint_tasks(model)]
    return _exact(model)


def _check_exact(model: Any) -> None:
    """Raises an error if the parts of an exact process are not known."""
    import gpytorch

    kind = type(model).__name__
    if model.train_inputs is None or model.train_targets is None:
        raise UnsupportedModelError(
            f"the {kind} has no training data, so it has no posterior: set_train_data first"
        )
    if len(model.train_inputs) != 1:
        raise UnsupportedModelError(f"the {kind} has several inputs, which are no rows of one table")
    for required in ("covar_module", "mean_module"):
        if getattr(model, required, None) is None:
            raise UnsupportedModelError(f"the {kind} has no {required}, so its kernel or mean is not known")
    # Of several tasks, each may have its own noise and no common one.
    is_multitask = isinstance(model.likelihood, gpytorch.likelihoods.MultitaskGaussianLikelihood)
    if not is_multitask and not hasattr(model.likelihood, "noise"):
        raise UnsupportedModelError(
            f"the likelihood of the {kind} is a {type(model.likelihood).__name__}, whose noise is not known"
        )


def _training_data(model: Any) -> tuple[Any, Any]:
    """Returns the training rows as the kernel takes them, and the targets, as tensors of doubles."""
    with evaluated(model):
        # In prediction mode, a BoTorch model holds its training rows as its kernel takes them.
        return tuple(
            tensor.detach().cpu().double() for tensor in (model.train_inputs[0], model.train_targets)
        )


def _doubled(module: Any) -> Any:
    """Returns a copy of a module in double precision and prediction mode."""
    copied = copy.deepcopy(module).cpu().double().eval()
    for part in copied.modules():
        if hasattr(part, "_clear_cache"):
            # Kernels of inducing points keep matrices in the precision of the model.
            part._clear_cache()
    return copied


def _in_double(function: Callable[[], Any]) -> Any:
    """Returns ``function()`` without gradients and approximate solutions."""
    import gpytorch
    import torch

    with (
        torch.no_grad(),
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.debug(False),
    ):
        # A view of a parameter keeps its gradient.
        return function().detach()


def _solved(model: Any, points: Any, kernel_points: Any, targets: Any, mean: Any) -> tuple[np.ndarray, ...]:
    """Returns the covariance of the observations, and the dual coefficients, of each member of a batch.

    Parameters
    ----------
    points
        Training rows as the likelihood takes them.
    kernel_points
        The same rows as the kernel takes them.
    targets, mean
        Observations and prior means, (..., rows), or (rows, tasks) for tasks that are all observed.
    """
    import torch
    from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
    from linear_operator import to_linear_operator

    def observed() -> Any:
        gram = _doubled(model.covar_module)(kernel_points).to_dense()
        # As operators, covariances that are singular without the noise are not factored.
        if gram.shape[-1] != targets.shape[-1]:
            distribution = MultitaskMultivariateNormal(mean, to_linear_operator(gram))
        else:
            batch = torch.broadcast_shapes(mean.shape[:-1], gram.shape[:-2], targets.shape[:-1])
            gram = to_linear_operator(gram.expand(*batch, *gram.shape[-2:]))
            distribution = MultivariateNormal(mean.expand(*batch, mean.shape[-1]), gram)
        return _doubled(model.likelihood)(distribution, [points]).covariance_matrix

    covariance, residual = _in_double(observed).numpy(), (targets - mean).numpy()
    if covariance.shape[-1] != residual.shape[-1]:
        # Tasks vary fastest.
        residual = residual.reshape(-1)
    residual = np.broadcast_to(residual, covariance.shape[:-1])
    return covariance, np.linalg.solve(covariance, residual[..., None])[..., 0]


def _exact(model: Any) -> list[Output]:
    """Reads an exact process, or a batch of them, as outputs or as an average."""
    points, targets = _training_data(model)
    mean = _in_double(lambda: _doubled(model.mean_module)(points))
    observed, coef = _solved(model, points, points, targets, mean)
    if observed.ndim > 3 or points.ndim > 3:
        raise _nested_batch(model)
    is_batch, count = observed.ndim == 3, len(observed) if observed.ndim == 3 else 1
    owners, transforms = _checked_transforms(model, points.shape[-1], count)
    outcomes = [_botorch.outcome_of(model, member, count) for member in range(count)]
    blocks: list[Block] = []
    for member in range(count):
        rows = points[member] if points.ndim == 3 else points
        dual, covariance = (coef[member], observed[member]) if is_batch else (coef, observed)
        place = member if is_batch else None
        expansions, has_rows = _exact_expansions(model, rows, dual, covariance, place)
        parts = _parts(expansions, owners, transforms[member], has_rows)
        blocks.append(_scaled(parts, [outcomes[member]]))
    if is_batch or _botorch.is_ensemble(model):
        _refuse_logarithm(model, outcomes)
    if _botorch.is_ensemble(model):
        weights = np.array([[1.0 / count]])
        return [Output(weighted_sum([([block], weights) for block in blocks], 0.0, ["y"]))]
    if is_batch:
        return [Output(block) for block in blocks]
    latent, outcome = posterior_mean(model), outcomes[0]
    return [Output(blocks[0], lambda X: outcome.shift + outcome.scale * latent(X), outcome.is_log)]


def _exact_expansions(
    model: Any, points: Any, coef: np.ndarray, observed: np.ndarray, member: int | None
) -> tuple[list[Expansion], bool]:
    """Returns an exact process, or a member of a batch, as expansions, and whether their support points are
    rows."""
    width = points.shape[-1]
    mean = linear_mean(model.mean_module, type(model).__name__, width, member)
    if class_of(model.covar_module) == "InducingPointKernel":
        return _sparse_expansions(model, points, coef, mean), False
    kernel = kernel_of(model.covar_module, list(range(width)), Reading(member))
    expansions = _expansions(kernel, points.numpy(), coef, mean)
    expansions[0]._posterior = lambda: (np.linalg.cholesky(observed), None, [1.0])
    return expansions, True


def _nested_batch(model: Any) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the {type(model).__name__} has a batch of batches, whose members are no list of outputs"
    )


def _checked_transforms(model: Any, width: int, count: int = 1) -> tuple[list[Owner], list[Transform]]:
    """Returns owners and transforms of the user's columns, and checks that they make ``width`` columns."""
    rows = _training_rows(model)
    if rows is None:
        raise UnsupportedModelError(
            f"the inducing points of the {type(model).__name__} are not known in the user's columns, as the "
            f"input transform {type(model.input_transform).__name__} has no inverse"
        )
    owners, transforms = _input_transforms(model, rows.shape[1], count)
    if len(owners) != width:
        raise UnsupportedModelError(
            f"the input transform of the {type(model).__name__} makes {len(owners)} columns, but its kernel "
            f"has {width}"
        )
    return owners, transforms


def _refuse_logarithm(model: Any, outcomes: Sequence[_botorch.Outcome]) -> None:
    if any(outcome.is_log for outcome in outcomes):
        raise _logarithm_error(model)


def _logarithm_error(model: Any) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the outcome of the {type(model).__name__} is transformed by Log, which is not undone exactly"
    )


def _expansions(kernel: rk.Kernel, points: np.ndarray, coef: np.ndarray, mean: Mean) -> list[Expansion]:
    """Returns a kernel expansion plus a mean as a list of expansions."""
    constant, slopes = mean
    expansions = [Expansion(kernel, points, coef, constant)]
    if slopes is not None:
        expansions.append(Expansion(rk.Linear(), slopes[None, :], [1.0]))
    return expansions


def _parts(
    expansions: Sequence[Expansion], owners: Sequence[Owner], transform: Transform, has_rows: bool = True
) -> Block:
    """Returns expansions over a model's columns; only the first one's support points may be rows."""
    return [
        Part(expansion, owners, transform, has_rows and position == 0, expansion._core.card)
        for position, expansion in enumerate(expansions)
    ]


def _scaled(parts: Block, outcomes: Sequence[_botorch.Outcome]) -> Block:
    """Returns parts in the units of the user, with one outcome transform per output."""
    scales = np.diag([outcome.scale for outcome in outcomes])
    shifts = np.array([outcome.shift for outcome in outcomes])
    names = ["y"] if len(outcomes) == 1 else [f"y{o}" for o in range(len(outcomes))]
    return [
        mapped(part, scales, shifts if position == 0 else np.zeros(len(outcomes)), names)
        for position, part in enumerate(parts)
    ]


# Inducing points
# ------------------------------------------------------------------------------------------------------------


def _sparse_expansions(model: Any, points: Any, dual: np.ndarray, mean: Mean) -> list[Expansion]:
    """Returns a process with an InducingPointKernel as expansions over its inducing points Z: its kernel is
    ``K_xZ K_ZZ^-1 K_Zx'``."""
    import torch
    from linear_operator.utils.cholesky import psd_safe_cholesky

    kernel = model.covar_module
    if len(kernel.batch_shape) or kernel.active_dims is not None:
        raise UnsupportedModelError(
            f"the InducingPointKernel of the {type(model).__name__} has a batch shape or active_dims"
        )
    base, inducing = _doubled(kernel.base_kernel), kernel.inducing_points.detach().cpu().double()

    def coefficients() -> Any:
        root = psd_safe_cholesky(base(inducing).to_dense())
        cross = base(inducing, points).to_dense() @ torch.as_tensor(dual)
        return torch.cholesky_solve(cross[:, None], root)[:, 0]

    coef = _in_double(coefficients).numpy()
    columns = list(range(points.shape[-1]))
    return _expansions(kernel_of(kernel.base_kernel, columns), inducing.numpy(), coef, mean)


def _strategy_of(model: Any) -> Any:
    """Returns the variational strategy of a model, and ``None`` for models without one."""
    inner = getattr(model, "model", model)
    return getattr(inner, "variational_strategy", None)


def _variational(model: Any) -> list[Output]:
    """Reads a process with inducing points and a variational distribution, or a batch of them."""
    process = getattr(model, "model", model)
    strategy = process.variational_strategy
    with evaluated(model):
        # The first prediction initializes the variational distribution. Some strategies have no prediction at
        # the inducing points themselves.
        process(_base_strategy(strategy).inducing_points + 1.0)
    for required in ("covar_module", "mean_module"):
        if getattr(process, required, None) is None:
            raise UnsupportedModelError(
                f"the {type(model).__name__} has no {required}, so its kernel or mean is not known"
            )
    points, coef = _variational_coefficients(process, _base_strategy(strategy))
    is_batch, count = coef.ndim == 2, len(coef) if coef.ndim == 2 else 1
    mixing = _mixing(strategy, count)
    if coef.ndim > 2 or points.ndim > 3 or mixing.shape[:-1] != (count,):
        raise _nested_batch(model)
    width = points.shape[-1]
    owners, transforms = _checked_transforms(model, width)
    blocks: list[Block] = []
    for member in range(count):
        place = member if is_batch else None
        kernel = kernel_of(process.covar_module, list(range(width)), Reading(place))
        mean = linear_mean(process.mean_module, type(model).__name__, width, place)
        rows = points[member] if points.ndim == 3 else points
        expansions = _expansions(kernel, rows.numpy(), coef[member] if is_batch else coef, mean)
        blocks.append(_parts(expansions, owners, transforms[0], has_rows=False))
    return _mixed(model, blocks, mixing)


def _base_strategy(strategy: Any) -> Any:
    """Returns the strategy of the latent processes of several tasks."""
    return getattr(strategy, "base_variational_strategy", strategy)


def _mixing(strategy: Any, count: int) -> np.ndarray:
    """Returns the weights of ``count`` latent processes in the outputs, (count, outputs)."""
    kind = class_of(strategy)
    if kind == "LMCVariationalStrategy":
        return strategy.lmc_coefficients.detach().cpu().double().numpy()
    if kind in ("IndependentMultitaskVariationalStrategy", "MultitaskVariationalStrategy"):
        # Without a batch all tasks have the same process.
        return np.eye(count) if count == strategy.num_tasks else np.ones((count, strategy.num_tasks))
    return np.eye(count)


def _variational_coefficients(process: Any, strategy: Any) -> tuple[Any, np.ndarray]:
    """Returns the inducing points Z and the coefficients of the posterior mean of latent processes."""
    import torch
    from linear_operator.utils.cholesky import psd_safe_cholesky

    kind = class_of(strategy)
    if kind not in ("VariationalStrategy", "UnwhitenedVariationalStrategy"):
        raise UnsupportedModelError(
            f"the variational strategy of the {type(process).__name__} is a {type(strategy).__name__}: a "
            "VariationalStrategy or an UnwhitenedVariationalStrategy has exact values"
        )
    points = strategy.inducing_points.detach().cpu().double()
    values = strategy.variational_distribution.mean.detach().cpu().double()

    def coefficients() -> Any:
        gram = _doubled(process.covar_module)(points).to_dense()
        # The model adds this number before it factors the covariance.
        root = psd_safe_cholesky(gram + strategy.jitter_val * torch.eye(gram.shape[-1], dtype=gram.dtype))
        if kind == "VariationalStrategy":
            # The mean is that of L^-1 (u - prior mean), for K_ZZ = L L'.
            return torch.linalg.solve_triangular(root.mT, values[..., None], upper=True)[..., 0]
        difference = values - _doubled(process.mean_module)(points)
        return torch.cholesky_solve(difference[..., None], root)[..., 0]

    return points, _in_double(coefficients).numpy()


def _mixed(model: Any, blocks: Sequence[Block], mixing: np.ndarray) -> list[Output]:
    """Returns weighted sums of latent processes as outputs in the units of the user."""
    count = mixing.shape[1]
    outcomes = [_botorch.outcome_of(model, output, count) for output in range(count)]
    _refuse_logarithm(model, outcomes)
    if np.array_equal(mixing, np.eye(len(blocks))):
        return [Output(_scaled(block, [outcome])) for block, outcome in zip(blocks, outcomes)]
    names = [f"y{output}" for output in range(count)]
    weights = mixing * [outcome.scale for outcome in outcomes]
    shifts = [outcome.shift for outcome in outcomes]
    members = [([block], weights[[member]]) for member, block in enumerate(blocks)]
    return [Output(weighted_sum(members, shifts, names))]


# Preferences
# ------------------------------------------------------------------------------------------------------------


def _pairwise(model: Any) -> Output:
    """Reads BoTorch's model of comparisons: its mean interpolates the most probable utilities."""
    import torch

    kind = type(model).__name__
    if model.datapoints is None or model.comparisons is None:
        raise UnsupportedModelError(f"the {kind} has no training data, so it has no posterior")
    if model.datapoints.ndim != 2:
        raise UnsupportedModelError(f"the {kind} is a batch, whose members are no list of outputs")
    with evaluated(model):
        # A prediction computes the utilities again if parameters have changed.
        model(model.datapoints[:1])
        points = model.transform_inputs(model.datapoints).detach().cpu().double()
    width = points.shape[1]
    owners, transforms = _checked_transforms(model, width)
    mean = linear_mean(model.mean_module, kind, width)
    prior = _in_double(lambda: _doubled(model.mean_module)(points))
    difference = model.utility.detach().cpu().double() - prior
    factor = model.covar_chol.detach().cpu().double()
    coef = torch.cholesky_solve(difference[:, None], factor)[:, 0].numpy()
    kernel = kernel_of(model.covar_module, list(range(width)))
    expansions = _expansions(kernel, points.numpy(), coef, mean)
    return Output(_parts(expansions, owners, transforms[0]))


# Tasks
# ------------------------------------------------------------------------------------------------------------


def _joint_tasks(model: Any) -> Output:
    """Reads a process of several tasks that are all observed at each row."""
    kind, tasks = type(model).__name__, model.train_targets.shape[-1]
    points, targets = _training_data(model)
    if points.ndim != 2 or targets.ndim != 2:
        raise _nested_batch(model)
    width = points.shape[1]
    means = task_means(model.mean_module, kind, width, tasks)
    terms = task_terms(model.covar_module, list(range(width)), tasks)
    prior = _in_double(lambda: _doubled(model.mean_module)(points))
    _, dual = _solved(model, points, points, targets, prior)
    outcomes = [_botorch.outcome_of(model, task, tasks) for task in range(tasks)]
    _refuse_logarithm(model, outcomes)
    owners, transforms = _checked_transforms(model, width)
    coefs = [dual.reshape(-1, tasks) @ covariance for _, covariance in terms]
    expansions = _task_expansions(terms, points.numpy(), coefs, means)
    return Output(_scaled(_parts(expansions, owners, transforms[0]), outcomes))


def _task_expansions(
    terms: TaskTerms, points: np.ndarray, coefs: Sequence[np.ndarray], means: Sequence[Mean]
) -> list[Expansion]:
    """Returns one expansion per kernel of rows, with one output per task, and the means of the tasks."""
    constants = np.array([constant for constant, _ in means])
    expansions = [
        Expansion(kernel, points, coef, constants if position == 0 else 0.0)
        for position, ((kernel, _), coef) in enumerate(zip(terms, coefs))
    ]
    slopes = [np.zeros(points.shape[1]) if slope is None else slope for _, slope in means]
    if np.any(slopes):
        expansions.append(Expansion(rk.Linear(), np.array(slopes), np.eye(len(slopes))))
    return expansions


def _read_task_column(model: Any, function: Callable[[Any], np.ndarray]) -> Imported:
    """Reads a model that takes rows with or without a column of tasks, or a list with such a model."""
    kind, rows = type(model).__name__, _training_rows(model)
    refusal = UnsupportedModelError(
        f"rows of the {kind} have a task column or none, which only a background shows"
    )
    without_mean = _error_of(function, rows)
    if without_mean is not None:
        raise without_mean
    return TaskImported(
        [],
        "posterior mean",
        [],
        kind,
        [],
        function,
        refusal,
        needs_comparison=True,
        tolerance=SINGLE_TOLERANCE if _is_single(model) else TOLERANCE,
        may_be_user_code=True,
        blocks_of=lambda width: _task_blocks(model, width),
    )


def _task_blocks(model: Any, width: int) -> list[Block]:
    """Returns the blocks of a list of models, for rows with ``width`` columns."""
    blocks: list[Block] = []
    for member in _botorch.single_outputs(model):
        if _botorch.has_task_column(member):
            blocks.append(_task_block(member, width))
            continue
        rows = _training_rows(member)
        if rows is not None and rows.shape[1] != width:
            raise UnsupportedModelError(
                f"the rows have {width} columns, but the {type(member).__name__} in the list has "
                f"{rows.shape[1]}"
            )
        outputs = _outputs(member)
        if any(output.is_log for output in outputs):
            raise _logarithm_error(member)
        blocks += [output.block for output in outputs]
    return blocks


def _task_block(model: Any, width: int) -> Block:
    """Returns a model with a task column over ``width`` columns of rows, with or without this column."""
    _check_exact(model)
    points, targets = _training_data(model)
    column, tasks, total = model._task_feature, model.num_tasks, points.shape[-1]
    if points.ndim != 2 or targets.ndim != 1 or len(model.covar_module.batch_shape):
        raise UnsupportedModelError(
            f"the {type(model).__name__} has a task column and a batch shape, whose members are not read"
        )
    kept = [j for j in range(total) if j != column]
    means = task_means(model.mean_module, type(model).__name__, total - 1, tasks)
    outcomes = _botorch.task_outcomes(model, tasks)
    _refuse_logarithm(model, outcomes)
    scales = np.array([outcome.scale for outcome in outcomes])
    scaled_means: list[Mean] = [
        (outcome.scale * constant + outcome.shift, None if slopes is None else outcome.scale * slopes)
        for outcome, (constant, slopes) in zip(outcomes, means)
    ]
    rows, own_tasks, dual = _task_coefficients(model, points, targets, means)
    # Each row's coefficient times the covariances of its task with all tasks.
    coefficients = lambda covariance: dual[:, None] * covariance[own_tasks] * scales
    owners, transform = _task_transform(model, width == total)
    if width == total:
        terms = task_terms(model.covar_module, list(range(total)), tasks, column)
        coefs = [coefficients(covariance) for _, covariance in terms]
        expansions = _one_output_expansions(terms, rows, coefs, scaled_means, column)
        return _parts(expansions, owners, transform, has_rows=False)
    # Columns after the task column move to the left; -1 stands for the task column.
    places = [-1 if j == column else j - (j > column) for j in range(total)]
    terms = task_terms(model.covar_module, places, tasks, -1)
    outputs = model._map_tasks(targets.new_tensor(model._output_tasks)).long().tolist()
    coefs = [coefficients(covariance)[:, outputs] for _, covariance in terms]
    expansions = _task_expansions(terms, rows[:, kept], coefs, [scaled_means[task] for task in outputs])
    return _parts(expansions, owners, transform)


def _task_coefficients(
    model: Any, points: Any, targets: Any, means: Sequence[Mean]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the training rows as the kernel takes them, the number of the task of each, and the dual
    coefficients."""
    column = model._task_feature
    with evaluated(model):
        mapped_tasks = model._map_tasks(model.train_inputs[0][:, column]).cpu().double()
    rows = points.clone()
    rows[:, column] = mapped_tasks
    own_tasks = mapped_tasks.long().numpy()
    kept = np.delete(rows.numpy(), column, axis=1)
    prior = np.empty(len(kept))
    for task, (constant, slopes) in enumerate(means):
        has_task = own_tasks == task
        prior[has_task] = constant if slopes is None else constant + kept[has_task] @ slopes
    _, dual = _solved(model, points, rows, targets, targets.new_tensor(prior))
    return rows.numpy(), own_tasks, dual


def _one_output_expansions(
    terms: TaskTerms, points: np.ndarray, coefs: Sequence[np.ndarray], means: Sequence[Mean], column: int
) -> list[Expansion]:
    """Returns a model of rows and their task as expansions over all columns, with the task in ``column``.

    ``B[t, t_i] = Σ_s 1[t = s] B[s, t_i]``, so each support point is repeated for each task s, and the kernel
    is multiplied by whether two tasks are equal."""
    tasks, kept = len(means), [j for j in range(points.shape[1]) if j != column]
    same_task = rk.Categorical(0.0, columns=[column])
    repeated = np.tile(points, (tasks, 1))
    repeated[:, column] = np.repeat(np.arange(tasks), len(points))
    constants = [constant for constant, _ in means]
    # A common constant is an intercept, and needs no expansion of its own.
    common = constants[0] if len(set(constants)) == 1 else 0.0
    expansions = [
        Expansion(kernel * same_task, repeated, coef.T.reshape(-1), common if position == 0 else 0.0)
        for position, ((kernel, _), coef) in enumerate(zip(terms, coefs))
    ]
    origins = np.zeros((tasks, points.shape[1]))
    origins[:, column] = np.arange(tasks)
    if len(set(constants)) > 1:
        expansions.append(Expansion(same_task, origins, constants))
    if any(slopes is not None for _, slopes in means):
        origins = origins.copy()
        origins[:, kept] = [np.zeros(len(kept)) if slopes is None else slopes for _, slopes in means]
        expansions.append(Expansion(rk.Linear(columns=kept) * same_task, origins, np.ones(tasks)))
    return expansions


def _task_transform(model: Any, has_task: bool) -> tuple[list[Owner], Transform]:
    """Returns the owners of the kernel's columns, and the transform of rows with or without the task
    column."""
    column = model._task_feature
    user_rows = _training_rows(model)
    assert user_rows is not None
    total = user_rows.shape[1]
    owners = _input_transforms(model, total)[0]

    def with_task(X: Any) -> np.ndarray:
        rows = _transformed(model, as_numbers(X, numbered(total)))
        with evaluated(model):
            tasks = model._map_tasks(tensor_of(rows[:, column], model))
        rows[:, column] = tasks.cpu().double().numpy()
        return rows

    def without_task(X: Any) -> np.ndarray:
        # The other columns do not depend on the task.
        rows = np.insert(as_numbers(X, numbered(total - 1)), column, model._output_tasks[0], axis=1)
        return np.delete(_transformed(model, rows), column, axis=1)

    if has_task:
        return owners, with_task
    users = [owner if isinstance(owner, tuple) else (owner,) for owner in owners]
    del users[column]
    if any(column in owner for owner in users):
        raise UnsupportedModelError(
            f"the input transform of the {type(model).__name__} computes other columns from the task column"
        )
    return [tuple(j - (j > column) for j in owner) for owner in users], without_task
