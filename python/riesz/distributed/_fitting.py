"""Regression and classification with landmarks, on any engine."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from .. import _core
from .._models.expansion import Expansion
from .._models.kernel_expressions import to_expression
from ..kernels import Kernel
from ._data import Data, Unit, in_order, levels_of, opened
from ._engines import engine_of
from ._storage import stored


@dataclass(frozen=True)
class _Shared:
    """The data that all units share."""

    data: Data
    job: str
    n_jobs: int | None
    folder: str | None = None
    plan: bytes = b""
    coefficients: bytes = b""


_Task = tuple[int, Unit]

#: Settings of a Gaussian process: the start value of the noise, in units of the standardised target, and the
#: tuned parameters.
PROCESS = {"noise": 0.1, "tune": "kernel_and_noise", "normalize_y": True, "restarts": 0}


def _levels(shared: _Shared, task: _Task) -> bytes:
    return json.dumps(levels_of(shared.data, task[1])).encode()


def _all_levels(shared: _Shared, parts: Sequence[bytes]) -> bytes:
    columns = zip(*[json.loads(part) for part in parts])
    return json.dumps(
        [sorted({level for levels in column for level in levels}) for column in columns]
    ).encode()


def _survey(shared: _Shared, task: _Task) -> bytes:
    return _core.survey_rows(shared.job, shared.data.rows(task[1]), shared.n_jobs)


def _kernel(shared: _Shared, task: _Task) -> bytes:
    return _core.survey_kernel(shared.job, shared.plan, shared.data.rows(task[1]))


def _all_surveys(shared: _Shared, parts: Sequence[bytes]) -> bytes:
    return _core.merge_surveys(list(parts))


def _statistics(shared: _Shared, task: _Task) -> bytes:
    number, unit = task

    def make() -> bytes:
        return _core.unit_statistics(shared.plan, shared.data.rows(unit), number, shared.n_jobs)

    return stored(
        shared.folder,
        f"unit-{number:05}.stat",
        make,
        lambda content: _core.counted_units(shared.plan, content),
    )


def _all_statistics(shared: _Shared, parts: Sequence[bytes]) -> bytes:
    return _core.merge_statistics(shared.plan, list(parts), [])


def _pass(shared: _Shared, task: _Task) -> bytes:
    number, unit = task

    def make() -> bytes:
        return _core.unit_pass(
            shared.plan, shared.coefficients, shared.data.rows(unit), number, shared.n_jobs
        )

    def check(content: bytes) -> bytes:
        return _core.merge_passes(shared.plan, shared.coefficients, [content])

    name = hashlib.sha256(shared.coefficients).hexdigest()[:12]
    return stored(shared.folder, f"pass-{name}-unit-{number:05}.part", make, check)


def _all_passes(shared: _Shared, parts: Sequence[bytes]) -> bytes:
    return _core.merge_passes(shared.plan, shared.coefficients, list(parts))


@dataclass(frozen=True)
class LandmarkFit:
    """A fit with landmarks.

    Attributes
    ----------
    expansion : riesz.Expansion
        The model, with the landmarks as support points, for :class:`riesz.Explainer`,
        :func:`riesz.distributed.explain` and model files.
    alpha : float
        The ridge, given or chosen; for a Gaussian process the variance of the noise, NaN for classification.
    n_rows, n_landmarks : int
    plan : str
        SHA-256 of kernel, landmarks and rounding.
    statistics : bytes or None
        Sufficient statistics of the rows, from which fits with other ridges follow without reading the rows
        again; ``None`` for classifiers and conjugate gradients, which use one pass per step.
    tried : list of (landmarks, alpha, error)
        Mean squared errors on held-out folds; a smaller number of landmarks means the first of them.
    """

    expansion: Expansion
    alpha: float
    n_rows: int
    n_landmarks: int
    plan: str
    statistics: bytes | None
    tried: list[tuple[int, float, float]]
    _fitting: Any

    def bounds(self, X: Any) -> np.ndarray | None:
        """Returns proved bounds on the difference of predictions at the rows of ``X`` from those of the exact
        fit with the same landmarks, (rows, targets). ``None`` without a correction, if rounding may dominate
        the solution, and for models other than ridge regression."""
        from .._data.validation import as_numbers

        names, levels = self.expansion.feature_names, self.expansion._core.levels
        return self._fitting.bounds((names, levels, as_numbers(X, names, levels=levels)))

    def __repr__(self) -> str:
        size = f"{self.n_landmarks} landmarks from {self.n_rows} rows"
        # A classifier has no ridge.
        ridge = "" if np.isnan(self.alpha) else f", alpha {self.alpha:.4g}"
        return f"<riesz.distributed.LandmarkFit: {size}{ridge}>"


def fit(
    data: Any,
    target: str | Sequence[str],
    *,
    n_landmarks: int,
    model: str = "krr",
    kernel: str | Kernel = "rbf",
    alpha: float | str = "auto",
    fit_intercept: bool = True,
    standardize: bool = True,
    fixed_kernel: bool = False,
    folds: int = 5,
    corrections: int = 1,
    solver: str = "auto",
    tolerance: float = 1e-3,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    categorical: Sequence[str] = (),
    random_state: int = 0,
    engine: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> LandmarkFit:
    """Fits a kernel model with landmarks to the rows of Parquet files.

    - ``model="krr"``: kernel ridge regression, ``min_f Σ_i w_i (y_i - f(x_i))² + alpha |f|²``, over the
      span of the kernel's functions of the landmarks and a constant.
    - ``model="gp"``: a Gaussian process with the landmarks as inducing points (Titsias 2009). Kernel and
      noise are tuned on 10,000 rows of the sample and 500 landmarks.
    - ``model="klr"``: logistic regression of two classes,
      ``min_f Σ_i w_i log(1 + exp(-s_i f(x_i))) + alpha/2 |f|²``.
    - ``model="gpc"``: Gaussian process classification of two classes by Laplace's approximation, whose kernel
      is tuned on 1,000 rows.

    Rows are read three or four times: for a sample from which landmarks are drawn (randomly pivoted Cholesky)
    and columns are standardised, for statistics, and for corrections of the solution. Classifiers read them
    about eight times, once per Newton step, and conjugate gradients about twenty times. The result does not
    depend on files, row groups, order, engine or workers.

    Parameters
    ----------
    data : path, pattern, folder, or list of them
        Parquet files that all workers see.
    target : str or list of str
        The column or columns to predict; for a classifier text, booleans or two numbers.
    n_landmarks : int
        Maximum number of landmarks. The cost is ``rows * n_landmarks²``, and the memory of a worker about
        ``40 n_landmarks²`` bytes, with ``alpha="auto"`` for every fold.
    model : {"krr", "gp", "klr", "gpc"}
        The model, see above. A Gaussian process has one target and no weights, and its expansion has a
        posterior. ``alpha``, ``fit_intercept`` and ``folds`` apply to regressions with a ridge;
        ``corrections``, ``solver`` and ``tolerance`` apply to kernel ridge regression.
    kernel : str or riesz.kernels.Kernel
        A kernel expression, as on the command line: ``"rbf"``, ``"rbf(age) * categorical(city) + linear"``;
        or a kernel object, whose columns are given by name and whose numbers are in the columns' own units.
    alpha : float or "auto"
        The ridge; ``"auto"`` minimises the squared error on ``folds`` folds, all from one pass; rows are
        assigned to folds by their content. For logistic regression it minimises the log loss on folds of
        1,000 rows; conjugate gradients use the sample. Multiples of the length scales are then compared on
        2,000 rows, unless ``fixed_kernel``.
    standardize : bool
        Whether length scales of an expression are in units of the columns' standard deviations.
    corrections : int
        Number of passes that correct the solution and give its proved bounds (:meth:`LandmarkFit.bounds`).
        One more pass follows if the bounds are poor and can be improved.
    solver : {"auto", "direct", "cg"}
        ``"direct"`` reads all rows once to sum a square matrix over landmarks, and solves with it. ``"cg"``
        takes about twenty passes of conjugate gradients; each is far cheaper with many thousands of
        landmarks, and a worker's memory does not grow with their square. ``"auto"`` chooses the faster one by
        size.
    tolerance : float
        Tolerance of conjugate gradients: the largest proved bound at landmarks, relative to the root mean
        squared error.
    features : list of str, optional
        Columns to predict from; by default all others.
    sample_weight : str, optional
        The column of positive weights.
    categorical : list of str
        Columns whose numbers are categories. Text always is categorical.
    engine : None, dask.distributed.Client or pyspark.sql.SparkSession
    checkpoint : path, optional
        A folder that all workers see, in which finished units are stored; the same call continues from there.

    Raises
    ------
    ValueError
        For missing values, unknown columns, files that change meanwhile, or a damaged checkpoint; the message
        names the place.
    """
    targets = [target] if isinstance(target, str) else list(target)
    if isinstance(alpha, str) and alpha != "auto":
        raise ValueError(f"alpha = {alpha!r}: it is a positive number, or 'auto'")
    for name, count, minimum in (
        ("n_landmarks", n_landmarks, 1),
        ("folds", folds, 2),
        ("corrections", corrections, 0),
        ("random_state", random_state, 0),
    ):
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < minimum:
            raise ValueError(f"{name} = {count!r}: it is a whole number from {minimum}")
    if not isinstance(alpha, str) and not (np.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha = {alpha!r}: it is a positive number, or 'auto'")
    if model not in ("krr", "gp", "klr", "gpc"):
        raise ValueError(f"model = {model!r}: it is 'krr', 'gp', 'klr' or 'gpc'")
    is_classifier = model in ("klr", "gpc")
    if solver not in ("auto", "direct", "cg"):
        raise ValueError(f"solver = {solver!r}: it is 'auto', 'direct' or 'cg'")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance = {tolerance!r}: it is a number between 0 and 1")
    if model != "krr" and (solver != "auto" or tolerance != 1e-3):
        raise ValueError(f"solver and tolerance belong to model 'krr', not to '{model}'")
    if is_classifier and len(targets) > 1:
        raise ValueError(
            f"model '{model}' has one target, and {len(targets)} are given: fit one model for each"
        )
    if model == "gpc" and sample_weight is not None:
        raise ValueError("sample_weight belongs to models 'krr' and 'klr', not to 'gpc'")
    if not isinstance(kernel, str):
        # Numbers in kernel objects are in the columns' own units.
        kernel, standardize = to_expression(kernel), False
    rows = opened(data, targets, features, sample_weight, categorical, classes=is_classifier)
    kinds: dict[str, Any] = {
        "krr": "ridge",
        "gp": {"process": PROCESS | ({"tune": "noise"} if fixed_kernel else {})},
        "klr": {"classes": {"names": [], "by": "regression"}},
        "gpc": {"classes": {"names": [], "by": {"process": {"restarts": 0}}}},
    }
    settings: dict[str, Any] = {
        "landmarks": int(n_landmarks),
        "ridge": None if isinstance(alpha, str) else float(alpha),
        "folds": int(folds),
        "intercept": fit_intercept and model != "gpc",
        "fixed_kernel": fixed_kernel,
        "corrections": int(corrections) if model == "krr" else 0,
        "solver": None if solver == "auto" else solver,
        "tolerance": float(tolerance),
        "seed": int(random_state),
        "kind": kinds[model],
    }
    chosen_engine = engine_of(engine)
    folder = None
    if checkpoint is not None:
        request = json.dumps([rows.digest_text(), settings, kernel, standardize, _core.__version__])
        folder = os.path.join(os.path.abspath(checkpoint), hashlib.sha256(request.encode()).hexdigest()[:16])
    units = list(enumerate(rows.units()))
    shared = _Shared(rows, "", chosen_engine.n_jobs)
    if rows.categories():
        levels_of_columns = json.loads(chosen_engine.reduce("levels", shared, units, _levels, _all_levels))
        rows = rows.with_levels([in_order(set(levels)) for levels in levels_of_columns])
    if rows.classes is not None:
        if len(rows.classes) == 1:
            raise ValueError(
                f"the target '{targets[0]}' has one value only, '{rows.classes[0]}': there is nothing to "
                "tell apart"
            )
        if len(rows.classes) != 2:
            raise ValueError(
                f"the target '{targets[0]}' has {len(rows.classes)} classes, and classification through "
                "landmarks takes "
                "two: fit one model for each class against the others"
            )
        settings["kind"]["classes"]["names"] = list(rows.classes)
    job = json.dumps(settings)
    shared = replace(shared, data=rows, job=job)

    @cache
    def surveyed() -> tuple[bytes, bytes]:
        survey = chosen_engine.reduce("survey", shared, units, _survey, _all_surveys)
        tuned, bounded = _core.tune_fit(job, survey, kernel, standardize)
        if not bounded:
            survey = chosen_engine.reduce("kernel", replace(shared, plan=tuned), units, _kernel, _all_surveys)
        return survey, tuned

    plan = stored(folder, "plan.json", lambda: _core.plan_fit(job, *surveyed()), _core.plan_facts)
    digest, count, needs = _core.plan_facts(plan)
    beginning, statistics = b"", None
    if needs == "survey":
        beginning = stored(
            folder, "survey.bin", lambda: surveyed()[0], lambda content: _core.merge_surveys([content])
        )
    shared = replace(shared, plan=plan, folder=folder)
    if needs == "statistics":
        beginning = statistics = chosen_engine.reduce(
            "statistics", shared, units, _statistics, _all_statistics
        )
        if len(_core.counted_units(plan, statistics)) != len(units):
            raise RuntimeError("the engine did not add up all units")
    fitting = _core.Fitting(plan, job, beginning)
    while (coefficients := fitting.wants()) is not None:
        shared = replace(shared, coefficients=coefficients)
        fitting.take(chosen_engine.reduce("pass", shared, units, _pass, _all_passes))
    expansion, fit_warnings, ridge = fitting.fitted(targets)
    for warning in fit_warnings:
        warnings.warn(warning, stacklevel=2)
    total = sum(unit.rows for _, unit in units)
    return LandmarkFit(
        Expansion._wrap(expansion), ridge, total, count, digest, statistics, fitting.tried, fitting
    )
