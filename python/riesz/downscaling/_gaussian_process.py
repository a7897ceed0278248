"""Downscaling: a map of single rows (pixels, villages, persons) learnt from means or sums over bags of rows.

An :class:`AggregateGaussianProcess` takes a table of rows with the name of their bag, and a table of bags:

>>> import numpy as np
>>> import pandas as pd
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> rows = pd.DataFrame({"height": rng.uniform(-2, 2, 200), "district": np.repeat(np.arange(20), 10)})
>>> rows["height"] += rows.district / 5 - 2
>>> bags = np.sin(rows.height).groupby(rows.district).mean().rename("yield").reset_index()
>>> model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0)
>>> model = model.fit(rows, bags, bag="district", target="yield")
>>> error = model.predict(rows) - np.sin(rows.height)
>>> bool(np.abs(error).mean() < 0.1)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .. import kernels as rk
from .._data.parameters import check_optimizer, hyperparameter_samples, issue_warnings, positive_number
from .._data.table_columns import Rows
from .._data.types import ColumnChoices, KernelLike, MatrixLike, Optimizer, PositiveOrAuto, RandomState
from .._data.validation import as_numbers, collected, first_names, select_columns
from ._bags import (
    ColumnRoles,
    Members,
    Tables,
    check_choices,
    points_of,
    read_tables,
    start_kernel,
    start_mediator_kernel,
)
from ._base import Downscaled, few_samples_warnings, not_negative
from ._fitting import Component, LeaveOneOut, leave_one_out
from ._scores import held_out_bags, mean_log_density

__all__ = ["AggregateGaussianProcess", "LeaveOneOut"]


#: Operators that regress targets, not rows, on mediators.
_REGRESSIONS = ("pseudo", "two-sided")


class AggregateGaussianProcess(Downscaled):
    """A Gaussian process f of single rows, learnt from means or sums over bags:
    ``z_b = Σ_i w_i f(x_i) + noise``.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, optional
        Prior covariance of f; tuning starts from its parameters. The default is ``Constant(1) * RBF`` with
        the columns' standard deviations as length scales. Tuning compares it with Matérn kernels (ν = 5/2 and
        3/2, products over columns) by their marginal likelihoods, because intervals are too narrow where f
        is not as smooth as an RBF; averages include all of the three that are plausible. A kernel that is
        given, and the RBF of ``published=True``, are compared with no other.
    noise : float, default 0.03
        Variance of the noise of a target, where tuning starts. Like the kernel, with ``normalize_y`` in units
        of the targets' variance. Targets that are regressed on mediators have ``mediator_ridge`` instead.
    aggregate : {"mean", "sum"}, default "mean"
        Whether a target is the weighted mean of f over its rows (temperatures, rates) or the weighted sum
        (totals), with weights in the unit of the total. In both cases the map shows f; for sums f is per unit
        of weight.
    operator : {"auto", "matched", "mediated", "pseudo", "two-sided"}, default "auto"
        How targets depend on rows. Targets whose bags have rows are matched. Other targets are mediated: the
        ``mediators`` of :meth:`fit`, columns that all bags have, relate them to bags with rows. ``"auto"``
        decides for each target; ``"mediated"`` takes all targets through mediators (the conditional mean
        process of Chau, Bouabid and Sejdinovic 2021), and ``"matched"`` takes none.

        Two operators for means are for comparison. ``"pseudo"`` regresses targets without rows on mediators
        with another Gaussian process, and uses its predictions for the bags with rows, with their covariance.
        ``"two-sided"`` ties the means of these bags to the regression with a tuned variance, and tunes all
        hyper-parameters together. They may be better if mediators predict targets well by themselves, but not
        if mediators only show which bags are similar.
    mediator_kernel : riesz.kernels.Kernel, optional
        Kernel between mediators. The default is ``RBF`` with half the mediators' standard deviations as
        length scales.
    mediator_ridge : float, optional
        The ridge of the regression on mediators, where tuning starts, by default 0.001 (published: 0.01). If
        targets are regressed, it is the variance of their noise around the regression, by default 0.1.
    mediator_examples : {"bags", "rows"}, default "bags"
        The examples of the regression on mediators, which have weight one each: bags (S-CMP), or rows, so
        that large bags have more weight (CMP).
    centered : bool, optional
        Whether the regression on mediators preserves constants, by default True; the published one does not.
    row_noise : float or "auto"
        Variance of the noise of single rows, which bags average, where tuning starts; 0 for none. ``"auto"``
        includes it if the largest bag has more than four times as many rows as the smallest.
    mediation_noise : float or "auto"
        Variance for the uncertainty of the regression on mediators, where tuning starts; 0 for none.
        ``"auto"`` includes it if targets are mediated. For ``"two-sided"`` it is the variance of the ties;
        for ``"pseudo"`` it is 0.
    prior_mean : float, optional
        The mean of f far from all rows, by default the constant with the best fit.
    normalize_y : bool, default True
        Whether to standardise the targets before the fit.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps all hyper-parameters fixed. Tuning maximises the marginal likelihood times weakly
        informative priors around the start values, from two starts. Ridge and kernel of mediators are chosen
        to predict held-out bags best.
    n_hyperparameter_samples : int or "auto"
        Number of draws of the hyper-parameters from their posterior over which predictions are averaged,
        because the best hyper-parameters alone are overconfident with few targets; 0 for none. ``"auto"``
        is 64 for up to 300 targets, or 1,000 with inducing points, but 0 with ``"pseudo"``. With inducing
        points, the regression on mediators is not averaged.
    n_inducing : None, int or array
        Number of inducing points, or the points themselves. ``None`` is exact up to 10,000 rows and 4,000
        bags (50,000 rows with mediators), and otherwise uses up to 1,000 points. With inducing points, the
        uncertainty of mediators is independent between targets, and rows have no noise.
    approximation : {"fitc", "vfe"}, default "fitc"
        The treatment of the variance of a target that inducing points do not explain. ``"fitc"`` adds it to
        the target's noise (Snelson and Ghahramani 2006, for rows). ``"vfe"`` subtracts it in a lower bound of
        the evidence, as published (Titsias 2009). With many targets, ``"vfe"`` gives maps that are too smooth
        and intervals that are too narrow, unless there are enough points for both to agree.
    exact_totals : bool, default False
        Whether targets are exact accounts instead of measurements. Neither targets nor rows then have noise,
        and the map adds up to the targets up to rounding. If targets do have errors, such a map is inaccurate
        and overconfident.
    published : bool, default False
        Whether to use the conventions of the published experiments: not centered, ridge fixed at 0.01, all
        other hyper-parameters by the marginal likelihood alone (which hardly distinguishes a larger ridge
        from a larger scale), and ``approximation="vfe"`` with inducing points.
    random_state : int, RandomState or None
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    expansion_ : Expansion
        The map with the best hyper-parameters. :meth:`predict` returns it if nothing is averaged.
    kernel_ : riesz.kernels.Kernel
        The kernel of ``expansion_``, in the units of the columns and the target.
    noise_, row_noise_, mediation_noise_ : float
        Variances, in squared units of the target.
    mediator_kernel_, mediator_ridge_ : riesz.kernels.Kernel, float, or None
        Of the regression on mediators, None without one; if targets are regressed, in squared units of the
        target.
    prior_mean_ : float
    log_marginal_likelihood_value_ : float
        At the best hyper-parameters; with inducing points of the approximate model.
    effective_sample_size_ : float or None
        Effective number of posterior draws of hyper-parameters behind the average.
    bags_, targets_ : list of str
        Names of the bags with rows, and of the bags with targets.
    residual_ : array
        Targets minus their fitted aggregates, which count as noise.
    loo_ : LeaveOneOut or None
        Leave-one-out predictions of the targets with the same hyper-parameters; None for a single target.
        They rank kernels; they do not rank mediators by the accuracy for single rows.
    warnings_ : list of str
        Texts of the issued warnings.

    Notes
    -----
    The exact fit takes n²/2 kernel evaluations per evaluation of the likelihood for n rows, and the third
    power of the numbers of bags and targets; it stores no n × n matrix. With m inducing points it takes n m
    kernel evaluations.

    Examples
    --------
    >>> import numpy as np, pandas as pd, riesz
    >>> rows = pd.DataFrame({"height": np.linspace(-2, 2, 60), "district": np.repeat(np.arange(12), 5)})
    >>> bags = np.sin(rows.height).groupby(rows.district).mean().rename("yield").reset_index()
    >>> model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0)
    >>> model = model.fit(rows, bags, bag="district", target="yield")
    >>> mean, std = model.predict(rows, return_std=True)
    >>> bool(np.abs(mean - np.sin(rows.height)).max() < 0.1)
    True
    """

    def __init__(
        self,
        kernel: KernelLike | None = None,
        *,
        noise: float = 0.03,
        aggregate: Literal["mean", "sum"] = "mean",
        operator: str = "auto",
        mediator_kernel: KernelLike | None = None,
        mediator_ridge: float | None = None,
        mediator_examples: Literal["bags", "rows"] = "bags",
        centered: bool | None = None,
        row_noise: PositiveOrAuto = "auto",
        mediation_noise: PositiveOrAuto = "auto",
        prior_mean: float | None = None,
        normalize_y: bool = True,
        optimizer: Optimizer = "fmin_l_bfgs_b",
        n_hyperparameter_samples: int | Literal["auto"] = "auto",
        n_inducing: int | MatrixLike | None = None,
        approximation: Literal["fitc", "vfe"] = "fitc",
        exact_totals: bool = False,
        published: bool = False,
        random_state: RandomState = None,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.aggregate = aggregate
        self.operator = operator
        self.mediator_kernel = mediator_kernel
        self.mediator_ridge = mediator_ridge
        self.mediator_examples = mediator_examples
        self.centered = centered
        self.row_noise = row_noise
        self.mediation_noise = mediation_noise
        self.prior_mean = prior_mean
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.n_hyperparameter_samples = n_hyperparameter_samples
        self.n_inducing = n_inducing
        self.approximation = approximation
        self.exact_totals = exact_totals
        self.published = published
        self.random_state = random_state
        self.columns = columns

    def fit(
        self,
        rows: MatrixLike,
        bags: MatrixLike | None = None,
        *,
        bag: Any = None,
        target: str | None = None,
        weight: Any = None,
        mediators: str | Sequence[str] = (),
        target_std: str | None = None,
        total: str | None = None,
        features: Sequence[str] | None = None,
        row: Any = None,
        drop_unmatched: bool = False,
    ) -> AggregateGaussianProcess:
        """Fits the model to the targets of bags.

        Parameters
        ----------
        rows : data frame, or array of shape (n, d)
            One line per row.
        bags : data frame, or targets, (bags,), optional
            One line per bag, in any order. Without columns it has the targets themselves, and bags are named
            by the index of the series, or 0, 1, …. By default ``rows`` is one table of areas: each row is a
            bag of its own and has the columns of ``bags`` too.
        bag : str, or array of shape (n,)
            The column of both tables with the bags' names, texts or whole numbers; or the bag of each row,
            and then bags are named by the index of ``bags``. For one table of areas optional, and by default
            its index.
        target : str
            The column of ``bags`` with the targets. Bags with a missing value have no target.
        weight : str, or array of shape (n,), optional
            The column of ``rows`` with their positive weights (area, people), by default 1.
        mediators : list of str
            The columns of ``bags`` that relate bags without rows to bags with rows.
        target_std : str, optional
            The column of ``bags`` with known standard errors of targets, which are added to the noise.
        total : str, optional
            For mediated sums, the column of ``bags`` with the sum of their weights.
        features : list of str, optional
            The columns of ``rows`` on which f depends, by default all but bag, weight and name.
        row : str, or array of shape (n,), optional
            The column of ``rows`` with their names, for bags that overlap: a row has one line for each of its
            bags, and these lines share the row's noise.
        drop_unmatched : bool, default False
            Whether to drop targets of bags without rows if there are no mediators, instead of an error.

        Returns
        -------
        AggregateGaussianProcess
            The fitted model.
        """
        self._check()
        if self.exact_totals and (target_std is not None or len(mediators)):
            name, value = ("target_std", target_std) if target_std is not None else ("mediators", mediators)
            raise ValueError(
                f"{name} = {value!r} with exact_totals = True: only targets of rows of their own, without "
                "errors, are met exactly"
            )
        roles = ColumnRoles(
            bag, weight, target, target_std, total, mediators, features, row, choices=self.columns
        )
        sums = self.aggregate == "sum"
        tables = read_tables(rows, bags, roles, self.operator, sums, bool(drop_unmatched))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        aggregates = tables.to_core(sums)
        notes, points = list(tables.notes), self._points(tables, aggregates)
        if self.operator == "auto" and aggregates.hardly_matched is not None:
            notes.append(aggregates.hardly_matched)
        if sums and aggregates.look_like_means:
            notes.append(
                "aggregate = 'sum', but targets do not grow with the weights of their rows, as sums do: are "
                "they means?"
            )
        if points is not None and self.n_inducing is None:
            notes.append(
                f"{len(tables.bag)} rows in {len(tables.bags)} bags are learnt from through {points} "
                "inducing points: give "
                "n_inducing=, more points for a closer fit"
            )
        start, tune = self._start(tables), self.optimizer is not None
        draws = self._draws(len(tables.values), 300 if points is None else 1000)
        if points is None:
            fitted = _core.fit_aggregates(start, aggregates, tune, draws, seed)
        else:
            fitted = _core.fit_sparse_aggregates(start, aggregates, points, tune, draws, seed)
        self._store_results(fitted, tables, roles)
        self._training = (tables, start) if points is None and tables.mediated else None
        if self.exact_totals:
            self._check_met(aggregates)
        shift = aggregates.mediator_shift(seed=0) if tables.mediated else None
        notes += [] if shift is None else [shift]
        distant_targets = (
            []
            if fitted.mediation is None
            else [tables.targets[t] for t in aggregates.far(fitted.mediation[0])]
        )
        if distant_targets:
            distance_warning = (
                f"the mediators of {len(distant_targets)} targets are far from those of all bags with rows, "
                f"{first_names(distant_targets)}"
            )
            notes.append(f"{distance_warning}: of these little is known")
        notes += few_samples_warnings(fitted.effective)
        self.warnings_ = issue_warnings(self, notes, fitted.warnings)
        return self

    def _check(self) -> None:
        choices = [
            ("aggregate", self.aggregate, ("mean", "sum")),
            ("operator", self.operator, ("auto", "matched", "mediated", *_REGRESSIONS)),
            ("mediator_examples", self.mediator_examples, ("bags", "rows")),
            ("approximation", self.approximation, ("fitc", "vfe")),
        ]
        check_choices(choices, [("kernel", self.kernel), ("mediator_kernel", self.mediator_kernel)])
        if self.operator in _REGRESSIONS:
            regression_settings: list[tuple[str, Any, Any, str]] = [
                ("aggregate", self.aggregate, "mean", "divide sums by their weights"),
                (
                    "mediator_examples",
                    self.mediator_examples,
                    "bags",
                    "it regresses targets, which count one each",
                ),
                ("centered", self.centered, None, "it regresses targets, and keeps their mean"),
                (
                    "published",
                    bool(self.published),
                    False,
                    "published are operators 'mediated' and 'matched'",
                ),
            ]
            if self.operator == "pseudo" and self.mediation_noise != 0:
                regression_settings.append(
                    ("mediation_noise", self.mediation_noise, "auto", "it has none; 'two-sided' has")
                )
            for name, value, allowed, reason in regression_settings:
                if value != allowed:
                    raise ValueError(f"{name} = {value!r} with operator = {self.operator!r}: {reason}")
        if self.exact_totals:
            fixed: list[tuple[str, Any, bool, str]] = [
                ("noise", self.noise, self.noise == 0.03, "targets have no noise"),
                ("row_noise", self.row_noise, self.row_noise in ("auto", 0), "rows have no noise"),
                ("n_inducing", self.n_inducing, self.n_inducing is None, "points do not meet totals"),
                ("published", self.published, not self.published, "published targets have noise"),
                (
                    "operator",
                    self.operator,
                    self.operator in ("auto", "matched"),
                    "only targets of rows of their own are met exactly",
                ),
            ]
            for name, value, is_default, why in fixed:
                if not is_default:
                    raise ValueError(f"{name} = {value!r} with exact_totals = True: {why}, so leave it out")
        check_optimizer(self.optimizer)

    def _check_met(self, aggregates: _core.Aggregates) -> None:
        """Raises an error if the map does not add up to the totals, up to rounding."""
        unmet = aggregates.unmet((self._targets - self.residual_).tolist())
        if unmet is not None:
            raise ValueError(
                "exact_totals = True: no map that this kernel can tell meets the target of bag "
                f"{self.targets_[unmet[0]]!r}, "
                f"off by {unmet[1]:.1e}, beside those of bags like it: leave exact_totals out for noise, or "
                "take a rougher kernel"
            )

    def _draws(self, targets: int, max_targets: int) -> int | None:
        """Returns the number of draws of hyper-parameters, if any; by default for at most ``max_targets``."""
        why = None
        if self.published or self.operator == "pseudo":
            why = (
                f"{'published=True' if self.published else 'operator=' + repr(self.operator)} takes the best"
            )
        return hyperparameter_samples(
            self.n_hyperparameter_samples, targets, self.optimizer, why, max_targets
        )

    def _points(self, tables: Tables, aggregates: _core.Aggregates) -> Any:
        """Returns inducing points, or their number; ``None`` for an exact fit."""
        if self.operator in _REGRESSIONS:
            if self.n_inducing is not None:
                raise ValueError(f"operator = {self.operator!r} learns exactly: leave n_inducing out")
            return None
        if self.exact_totals or (self.n_inducing is None and aggregates.usual_points is None):
            return None
        if self.n_inducing is None:
            return aggregates.usual_points
        return points_of(self.n_inducing, tables)

    def _start(self, tables: Tables) -> dict[str, Any]:
        """Returns the start values of tuning, as the core takes them."""
        return {
            "kernel": start_kernel(tables, self.kernel),
            "noise": positive_number("noise", self.noise),
            "row_noise": not_negative("row_noise", self.row_noise, or_auto=True),
            "mediation_noise": not_negative("mediation_noise", self.mediation_noise, or_auto=True),
            "mediation": self._mediation(tables),
            "tied": self.operator == "two-sided" if self.operator in _REGRESSIONS else None,
            "prior_mean": None if self.prior_mean is None else float(self.prior_mean),
            "normalize_y": bool(self.normalize_y),
            "bound": self.approximation == "vfe" or bool(self.published),
            "published": bool(self.published),
            "exact": bool(self.exact_totals),
        }

    def _mediation(self, tables: Tables) -> tuple[str, float | None, bool | None, bool] | None:
        """Returns the regression on mediators: its kernel, ridge and centring (None to choose), and whether
        its examples are rows."""
        text = start_mediator_kernel(tables, self.mediator_kernel)
        if text is None:
            return None
        ridge = (
            None if self.mediator_ridge is None else positive_number("mediator_ridge", self.mediator_ridge)
        )
        return (
            text,
            ridge,
            None if self.centered is None else bool(self.centered),
            self.mediator_examples == "rows",
        )

    def _store_results(self, fitted: _core.FittedAggregates, tables: Tables, roles: ColumnRoles) -> None:
        best = Component.from_core(fitted.best)
        self._store_fits(best, [Component.from_core(part) for part in fitted.parts], tables, roles)
        self._row, self._bag, self._weight = np.array(tables.row), np.array(tables.bag), tables.weight
        self.noise_, self.row_noise_, self.mediation_noise_ = fitted.noise
        self.mediator_kernel_, self.mediator_ridge_ = None, None
        if fitted.mediation is not None and tables.mediators is not None:
            self.mediator_kernel_ = rk._from_json(fitted.mediation[0], tables.mediators[0].names)
            self.mediator_ridge_ = fitted.mediation[1]
        self.log_marginal_likelihood_value_ = fitted.log_marginal_likelihood
        self.effective_sample_size_ = fitted.effective
        self.residual_ = tables.values - sum(part.weight * part.fitted for part in self._parts)
        self.loo_ = leave_one_out(self._parts, tables)

    def _explains_means(self) -> bool:
        return self.aggregate == "mean"

    def predict(self, rows: MatrixLike, return_std: bool = False, return_cov: bool = False) -> Any:
        """Returns the map: the posterior mean of f at rows, and its uncertainty without the noise of rows.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)
            A data frame may have further columns.
        return_std, return_cov : bool, default False
            Whether to return the standard deviation or the covariance too. Only one of them may be True.

        Returns
        -------
        mean : array of shape (rows,)
        std : array of shape (rows,), with ``return_std``
        cov : array of shape (rows, rows), with ``return_cov``
        """
        return self._posterior(rows, return_std, return_cov)

    def sample(self, rows: MatrixLike, n_samples: int = 1, random_state: RandomState = None) -> np.ndarray:
        """Returns joint draws of f at rows from its posterior.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)
        n_samples : int, default 1
        random_state : int, RandomState or None

        Returns
        -------
        array of shape (rows, n_samples)
        """
        return self._drawn(rows, n_samples, random_state)

    def predict_bags(
        self, rows: MatrixLike | None = None, return_std: bool = False, *, bag: Any = None, weight: Any = None
    ) -> Any:
        """Returns means or sums over bags, as ``aggregate`` says, without noise.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d), optional
            By default the rows of the fit.
        return_std : bool, default False
            Whether to return standard deviations too.
        bag, weight
            As in :meth:`fit`, by default the same columns.

        Returns
        -------
        mean : array of shape (bags,)
            In the order of ``bags_`` without ``rows``, and else of the bags' first rows.
        std : array of shape (bags,), with ``return_std``
        """
        check_is_fitted(self)
        if rows is None:
            means, variances = self._fit_bags(return_std)
        else:
            means, variances = self._bag_moments(*self._members(rows, bag, weight))
        mean = self._mixed(means)
        if not return_std:
            return mean
        return mean, np.sqrt(
            self._mixed([variance + (m - mean) ** 2 for variance, m in zip(variances, means)])
        )

    def predict_aggregate(
        self, mediators: MatrixLike, return_std: bool = False, return_cov: bool = False
    ) -> Any:
        """Returns ``g(y) = E[f(X) | Y = y]``, the mean of f over the rows of a bag with mediators y. The bag
        needs no rows. This is the conditional mean process of Chau, Bouabid and Sejdinovic (2021).

        Parameters
        ----------
        mediators : array or data frame of shape (q, k)
            The k ``mediators`` of :meth:`fit`. A data frame may have further columns.
        return_std, return_cov : bool, default False
            Whether to return the standard deviation or the covariance too. Only one of them may be True.

        Returns
        -------
        mean : array of shape (q,)
            For sums, per unit of weight: a sum is the mean times the sum of its weights.
        std : array of shape (q,), with ``return_std``
        cov : array of shape (q, q), with ``return_cov``

        Notes
        -----
        The uncertainty is that of the map and of the regression on mediators (``mediation_noise_``), without
        the noise of targets and rows. Averages over hyper-parameters are averaged here too, each with its own
        regression on mediators. Each call takes one exact fit per set of hyper-parameters, without tuning.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov: choose one")
        tables, start = self._mediated_training()
        names, levels, _ = tables.mediators[0]
        rows = select_columns(collected(mediators, "mediators"), names)
        queries = Rows(names, levels, as_numbers(rows, names, "mediators", levels))
        aggregates = tables.to_core(self.aggregate == "sum")
        moments = [_core.conditional_means(part.start(start), aggregates, queries) for part in self._parts]
        means = [np.asarray(part_mean) for part_mean, _ in moments]
        mean = self._mixed(means)
        if not (return_std or return_cov):
            return mean
        covariance = self._mixed(
            [
                cov + np.outer(part_mean - mean, part_mean - mean)
                for part_mean, (_, cov) in zip(means, moments)
            ]
        )
        return mean, np.sqrt(np.diag(covariance)) if return_std else covariance

    def _mediated_training(self) -> tuple[Any, dict[str, Any]]:
        """Returns the tables of an exact fit with mediated targets, and the start of its tuning."""
        if self._training is None:
            raise ValueError(
                "predict_aggregate: a fit through inducing points does not keep its rows: fit exactly, with "
                "fewer rows and without n_inducing"
                if self.mediator_kernel_ is not None
                else "predict_aggregate: no target was learnt through mediators: give fit mediators=, and "
                "operator='mediated' if every bag has rows"
            )
        return self._training

    def _bag_moments(self, members: Members, names: list[str]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Returns the means and variances of the aggregates of f over bags, for each set of
        hyper-parameters."""
        cells = self.expansion_._rows(members.rows, "rows")
        weights = self._weights_of(members, names, self._explains_means())
        sums = [_core.predict_sums(part.expansion._core, cells, *weights, len(names)) for part in self._parts]
        return [part_sums[0][:, 0] for part_sums in sums], [part_sums[1][:, 0] ** 2 for part_sums in sums]

    def score(
        self,
        rows: MatrixLike,
        bags: MatrixLike,
        *,
        bag: Any = None,
        target: str | None = None,
        weight: Any = None,
        target_std: str | None = None,
    ) -> float:
        """Returns the mean log predictive density of the targets of held-out bags, noise included. Larger is
        better; it is the ``mean_log_density`` of ``loo_`` for other bags.

        Parameters
        ----------
        rows, bags
            The tables as in :meth:`fit`. Every bag with a target needs its rows.
        bag, target, weight, target_std
            As in :meth:`fit`, by default the same columns.

        Returns
        -------
        float
            The density is averaged over the posterior draws of hyper-parameters. The variances of noise are
            those of the best hyper-parameters.
        """
        held_out = held_out_bags(
            self, rows, bags, bag=bag, target=target, weight=weight, target_std=target_std
        )
        means, variances = self._bag_moments(held_out.members, held_out.names)
        bag_numbers, weights = self._weights_of(held_out.members, held_out.names, self._explains_means())
        noise = self.noise_ + self.row_noise_ * np.bincount(bag_numbers, np.square(weights))
        if held_out.known is not None:
            noise = noise + held_out.known
        part_weights = [part.weight for part in self._parts]
        return mean_log_density(held_out.values, part_weights, np.array(means), np.array(variances) + noise)

    def _fit_bags(self, return_std: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        if all(part.bags is not None for part in self._parts):
            moments = [part.bags for part in self._parts if part.bags is not None]
            return [mean for mean, _ in moments], [variance for _, variance in moments]
        if return_std:
            raise ValueError(
                "a fit through inducing points does not keep its rows: give rows for the std of their bags"
            )
        # All bags have targets in this order.
        return [part.fitted for part in self._parts], []

    def target_contributions(self, rows: MatrixLike) -> np.ndarray:
        """Returns the contribution of each target to the prediction at each row, for exact fits.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows, targets)
            In the order of ``targets_``. Contributions add up to :meth:`predict` minus ``prior_mean_``; sums
            over rows give those of regions.
        """
        cells = self._cells(rows)
        weights = np.ones(len(self._bag)) if self._weight is None else self._weight
        if self._explains_means():
            weights = weights / np.bincount(self._bag, weights)[self._bag]
        return self._mixed(
            [
                part.target_contributions(cells, self._row, self._bag, weights, self._targets)
                for part in self._parts
            ]
        )

    def _fit_members(self) -> tuple[Members, list[str]]:
        if any(part.sensitivities is None for part in self._parts):
            raise ValueError(
                "a fit through inducing points does not keep its rows: give rows, whose bags are to be "
                "explained"
            )
        core = self.expansion_._core
        cells: Any = core.points[self._row]
        if any(level is not None for level in core.levels):
            cells = cells.astype(object)
            for j, level in enumerate(core.levels):
                if level is not None:
                    cells[:, j] = [level[int(code)] for code in cells[:, j]]
        return Members(
            cells, [self.bags_[b] for b in self._bag], self._weight, list(range(len(cells)))
        ), self.bags_
