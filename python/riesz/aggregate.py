"""Downscaling: a map of single rows (pixels, villages, persons) learnt from averages or totals over bags of
them.

An :class:`AggregateGaussianProcess` takes a table of rows, which say the bag that they are in, and a table of
bags:

>>> import numpy as np
>>> import pandas as pd
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> rows = pd.DataFrame({"height": rng.uniform(-2, 2, 200), "district": np.repeat(np.arange(20), 10)})
>>> rows["height"] += rows.district / 5 - 2
>>> bags = np.sin(rows.height).groupby(rows.district).mean().rename("yield").reset_index()
>>> model = riesz.AggregateGaussianProcess(average=False).fit(rows, bags, bag="district", target="yield")
>>> error = model.predict(rows) - np.sin(rows.height)
>>> bool(np.abs(error).mean() < 0.1)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _core
from . import kernels as rk
from ._aggregate_fit import Component, LeftOut, left_out
from ._bags import (
    ColumnRoles,
    Members,
    Tables,
    check_choices,
    points_of,
    read_tables,
    start_kernel,
    start_mediator_kernel,
    warned,
)
from ._downscaling_base import Downscaled, draws_of, not_negative, rough
from ._duel_contexts import _first, check_optimizer
from .estimators import _positive

__all__ = ["AggregateGaussianProcess", "LeftOut"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: Operators that regress targets on mediators, and not rows.
_REGRESSIONS = ("pseudo", "two-sided")


class AggregateGaussianProcess(Downscaled):
    """A Gaussian process f of single rows that is learnt from means or sums over bags of them:
    ``z_b = Σ_i w_i f(x_i) + noise``.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, default ``Constant(1) * RBF`` with the columns' standard deviations as
    length scales
        Prior covariance of f; where tuning starts.
    alpha : float, default 0.03
        Variance of the noise of a target, where tuning starts. As the kernel, with ``normalize_y`` in units
        of the targets' variance. Targets that are regressed on mediators have ``mediator_ridge`` instead.
    aggregate : {"mean", "sum"}, default "mean"
        What a target is of its rows: their weighted mean (temperatures, rates), or their weighted sum
        (totals), with weights in the unit of the total. The map is of f either way: of sums it is per unit of
        weight.
    operator : {"auto", "matched", "mediated", "pseudo", "two-sided"}, default "auto"
        Targets whose bags have rows are matched. Others are mediated: columns that all bags have, the
        ``mediators`` of :meth:`fit`, say which bags with rows they are like. ``"auto"`` takes each target as
        it comes; ``"mediated"`` takes all through mediators (the conditional mean process of Chau, Bouabid
        and Sejdinovic 2021), ``"matched"`` none.

        For comparison, for means: ``"pseudo"`` regresses targets without rows on mediators, with a Gaussian
        process of its own, and learns from what this predicts for bags with rows, with the covariance of
        that. ``"two-sided"`` ties the means of these bags to the regression by a variance that is tuned, and
        all hyper-parameters at once. Where mediators by themselves predict targets well, these may do better;
        where they say which bags are alike, not.
    mediator_kernel : riesz.kernels.Kernel, default ``RBF`` with half the mediators' standard deviations as
    length scales mediator_ridge : float, optional
        The ridge of the regression on mediators, by default 0.001 (published: 0.01); where tuning starts.
        Where targets are regressed, the variance of their noise around that, by default 0.1.
    mediator_examples : {"bags", "rows"}, default "bags"
        What the regression on mediators counts once: every bag (S-CMP), or every row, so that large bags say
        more (CMP).
    centred : bool, optional
        Whether the regression on mediators keeps constants, by default True; published it does not.
    row_noise : float or "auto"
        Variance of noise of single rows, which bags average; where tuning starts, and 0 for none. ``"auto"``
        has some where the largest bag has more than four times the rows of the smallest.
    mediation_noise : float or "auto"
        By how much the regression on mediators counts as uncertain; where tuning starts, and 0 for certain.
        ``"auto"`` has some where targets are mediated. If ``"two-sided"``, the variance of ties; of
        pseudo-targets it is 0.
    prior_mean : float, optional
        The mean of f far from all rows, by default the constant that fits best.
    normalize_y : bool, default True
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps all hyper-parameters as they are. Tuning maximises the marginal likelihood times weak
        priors around the start, from two starts; ridge and kernel of mediators are those that predict bags
        best that they have not seen.
    average : "auto", bool or int
        Averages over so many draws of the hyper-parameters from their posterior (``True``: 64), as the best
        ones alone are too sure where targets are few. ``"auto"`` does so up to 300 targets, but not for
        pseudo-targets.
    inducing : None, int or array
        Learns through so many inducing points, or these rows. ``None`` learns exactly up to 10,000 rows and
        4,000 bags, with mediators up to 50,000 rows, and beyond through up to 1,000 points. With mediators
        their uncertainty counts for each target by itself, and rows have no noise of their own.
    approximation : {"fitc", "vfe"}, default "fitc"
        What inducing points leave unexplained of a target counts as its noise (``"fitc"``, as Snelson and
        Ghahramani 2006 have it of rows), or lowers a bound of the evidence, which is what is published
        (``"vfe"``; Titsias 2009): of many targets maps come out too smooth by it, and intervals too narrow,
        unless there are so many points that it makes no difference.
    exact_totals : bool, default False
        Takes targets for accounts and not for measurements: neither they nor rows have noise, and the map
        adds up to them but for rounding. Where targets do have errors, a map that has to meet these, too, is
        far off and too sure.
    published : bool, default False
        The conventions of the published experiments: not centred, ridge 0.01 as it is, all else by the
        marginal likelihood alone (which tells a larger ridge and a larger scale hardly apart), and through
        inducing points ``approximation="vfe"``.
    random_state : int, RandomState or None
    columns : dict of name to {"text", "number"}, optional
        The types of columns of a data frame, where they look like something else.

    Attributes
    ----------
    expansion_ : Expansion
        The map by the best hyper-parameters. Without ``average`` it is what :meth:`predict` says.
    kernel_ : riesz.kernels.Kernel
        Its kernel, in the units of the columns and the target.
    noise_, row_noise_, mediation_noise_ : float
        Variances, in squared units of the target.
    mediator_kernel_, mediator_ridge_ : riesz.kernels.Kernel, float, or None
        Where targets are regressed on mediators, in squared units of the target.
    prior_mean_ : float
    log_marginal_likelihood_value_ : float
        At the best hyper-parameters; through inducing points as the approximation has it.
    effective_draws_ : float or None
        As many draws of hyper-parameters from their posterior itself would say as much as the average.
    bags_, targets_ : list of str
        Names of the bags that have rows, and of those that have targets.
    residual_ : array
        Targets less what the map adds up to: what is taken for noise.
    left_out_ : LeftOut or None
        What all other targets say of each, by the same hyper-parameters; None of a single target. It ranks
        kernels; mediators it does not rank by what single rows are like.
    warnings_ : list of str
        What to look at; also issued as warnings.

    Notes
    -----
    Exact: cost n²/2 kernels an evaluation for n rows, and the third power of the numbers of bags and targets;
    no n × n matrix. Through m inducing points n m kernels."""

    def __init__(
        self,
        kernel=None,
        *,
        alpha=0.03,
        aggregate="mean",
        operator="auto",
        mediator_kernel=None,
        mediator_ridge=None,
        mediator_examples="bags",
        centred=None,
        row_noise="auto",
        mediation_noise="auto",
        prior_mean=None,
        normalize_y=True,
        optimizer="fmin_l_bfgs_b",
        average="auto",
        inducing=None,
        approximation="fitc",
        exact_totals=False,
        published=False,
        random_state=None,
        columns=None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.aggregate = aggregate
        self.operator = operator
        self.mediator_kernel = mediator_kernel
        self.mediator_ridge = mediator_ridge
        self.mediator_examples = mediator_examples
        self.centred = centred
        self.row_noise = row_noise
        self.mediation_noise = mediation_noise
        self.prior_mean = prior_mean
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.average = average
        self.inducing = inducing
        self.approximation = approximation
        self.exact_totals = exact_totals
        self.published = published
        self.random_state = random_state
        self.columns = columns

    def fit(
        self,
        rows: Any,
        bags: Any,
        *,
        bag: Any,
        target: str | None = None,
        weight: Any = None,
        mediators: str | Sequence[str] = (),
        se: str | None = None,
        total: str | None = None,
        features: Sequence[str] | None = None,
        row: Any = None,
        drop_unmatched: bool = False,
    ) -> AggregateGaussianProcess:
        """Fits to the targets of bags.

        Parameters
        ----------
        rows : data frame, or array of shape (n, d)
            A line a row.
        bags : data frame, or targets, (bags,)
            A line a bag, in any order. Without columns these are the targets themselves, of bags that are
            called as the index of the series, or 0, 1, … .
        bag : str, or array of shape (n,)
            The column that both tables have with the bags' names, texts or whole numbers; or of each row its
            bag, and then bags are called as their index.
        target : str
            The column of ``bags`` that is learnt from. Bags where it is missing have no target.
        weight : str, or array of shape (n,), optional
            The column of ``rows`` with their positive weights (area, people), by default 1.
        mediators : list of str
            The columns of ``bags`` by which those without rows are like others.
        se : str, optional
            The column of ``bags`` with the targets' known standard errors, on top of the noise.
        total : str, optional
            Of mediated sums, the column of ``bags`` with the sum of their weights.
        features : list of str, optional
            The columns of ``rows`` that f is a function of, by default all but those with bag, weight and
            name.
        row : str, or array of shape (n,), optional
            The column of ``rows`` with their names, for bags that overlap: a row has a line for each bag that
            it is in, and these share its noise.
        drop_unmatched : bool, default False
            Leaves out targets of bags without rows where there are no mediators, instead of an error.
        """
        self._check()
        if self.exact_totals and (se is not None or len(mediators)):
            name, value = ("se", se) if se is not None else ("mediators", mediators)
            raise ValueError(
                f"{name} = {value!r} with exact_totals = True: only targets of rows of their own, without "
                "errors, are met exactly"
            )
        roles = ColumnRoles(bag, weight, target, se, total, mediators, features, row, choices=self.columns)
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
        if points is not None and self.inducing is None:
            notes.append(
                f"{len(tables.bag)} rows in {len(tables.bags)} bags are learnt from through {points} "
                "inducing points: give "
                "inducing=, more points for a closer fit"
            )
        start, tune = self._start(tables), self.optimizer is not None
        if points is None:
            draws = self._draws(len(tables.values))
            fitted = _core.fit_aggregates(start, aggregates, tune, draws, seed)
        else:
            fitted = _core.fit_sparse_aggregates(start, aggregates, points, tune, seed)
        self._keep(fitted, tables, roles)
        if self.exact_totals:
            self._check_met(aggregates)
        far = (
            []
            if fitted.mediation is None
            else [tables.targets[t] for t in aggregates.far(fitted.mediation[0])]
        )
        if far:
            remark = (
                f"the mediators of {len(far)} targets are far from those of all bags with rows, {_first(far)}"
            )
            notes.append(f"{remark}: of these little is known")
        notes += rough(fitted.effective)
        self.warnings_ = warned(self, notes, fitted.warnings)
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
            rows_alone = [
                ("aggregate", self.aggregate, "mean", "divide sums by their weights"),
                (
                    "mediator_examples",
                    self.mediator_examples,
                    "bags",
                    "it regresses targets, which count one each",
                ),
                ("centred", self.centred, None, "it regresses targets, and keeps their mean"),
                (
                    "published",
                    bool(self.published),
                    False,
                    "published are operators 'mediated' and 'matched'",
                ),
            ]
            if self.operator == "pseudo" and self.mediation_noise != 0:
                rows_alone.append(
                    ("mediation_noise", self.mediation_noise, "auto", "it has none; 'two-sided' has")
                )
            for name, value, allowed, why in rows_alone:
                if value != allowed:
                    raise ValueError(f"{name} = {value!r} with operator = {self.operator!r}: {why}")
        if self.exact_totals:
            fixed = [
                ("alpha", self.alpha, self.alpha == 0.03, "targets have no noise"),
                ("row_noise", self.row_noise, self.row_noise in ("auto", 0), "rows have no noise"),
                ("inducing", self.inducing, self.inducing is None, "points do not meet totals"),
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
        """Refuses totals that are not met but for rounding."""
        unmet = aggregates.unmet((self._targets - self.residual_).tolist())
        if unmet is not None:
            raise ValueError(
                "exact_totals = True: no map that this kernel can tell meets the target of bag "
                f"{self.targets_[unmet[0]]!r}, "
                f"off by {unmet[1]:.1e}, beside those of bags like it: leave exact_totals out for noise, or "
                "take a rougher kernel"
            )

    def _draws(self, targets: int) -> int | None:
        """The number of draws of hyperparameters, if any."""
        why = None
        if self.published or self.operator == "pseudo":
            why = (
                f"{'published=True' if self.published else 'operator=' + repr(self.operator)} takes the best"
            )
        return draws_of(self.average, targets, self.optimizer, why)

    def _points(self, tables: Tables, aggregates: _core.Aggregates) -> Any:
        """Inducing points, or how many; ``None`` for none."""
        if self.operator in _REGRESSIONS:
            if self.inducing is not None:
                raise ValueError(f"operator = {self.operator!r} learns exactly: leave inducing out")
            return None
        if self.exact_totals or (self.inducing is None and aggregates.usual_points is None):
            return None
        if self.average not in (False, "auto"):
            raise ValueError(
                f"average = {self.average!r}: fits through inducing points are not averaged: average=False"
            )
        if self.inducing is None:
            return aggregates.usual_points
        return points_of(self.inducing, tables)

    def _start(self, tables: Tables) -> dict[str, Any]:
        """The process that tuning starts from."""
        return {
            "kernel": start_kernel(tables, self.kernel),
            "noise": _positive("alpha", self.alpha),
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
        """The regression on mediators: its kernel, ridge and whether it is centred if these are given, and
        what it counts."""
        text = start_mediator_kernel(tables, self.mediator_kernel)
        if text is None:
            return None
        ridge = None if self.mediator_ridge is None else _positive("mediator_ridge", self.mediator_ridge)
        return (
            text,
            ridge,
            None if self.centred is None else bool(self.centred),
            self.mediator_examples == "rows",
        )

    def _keep(self, fitted: _core.FittedAggregates, tables: Tables, roles: ColumnRoles) -> None:
        best = Component.from_core(fitted.best)
        self._learnt(best, [Component.from_core(part) for part in fitted.parts], tables, roles)
        self._row, self._bag, self._weight = np.array(tables.row), np.array(tables.bag), tables.weight
        self.noise_, self.row_noise_, self.mediation_noise_ = fitted.noise
        self.mediator_kernel_, self.mediator_ridge_ = None, None
        if fitted.mediation is not None and tables.mediators is not None:
            self.mediator_kernel_ = rk._from_json(fitted.mediation[0], tables.mediators[0].names)
            self.mediator_ridge_ = fitted.mediation[1]
        self.log_marginal_likelihood_value_ = fitted.log_marginal_likelihood
        self.effective_draws_ = fitted.effective
        self.residual_ = tables.values - sum(part.weight * part.fitted for part in self._parts)
        self.left_out_ = left_out(self._parts, tables)

    def _explains_means(self) -> bool:
        return self.aggregate == "mean"

    def predict(self, rows: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """The map: the posterior mean of f at rows, (rows,), and with ``return_std`` or ``return_cov`` the
        standard deviations or covariances of f, too, noise of rows not included. Data frames may have further
        columns."""
        return self._posterior(rows, return_std, return_cov)

    def sample(self, rows: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of f at rows from its posterior, (rows, n_samples): maps that the targets allow."""
        return self._drawn(rows, n_samples, random_state)

    def predict_bags(
        self, rows: Any = None, return_std: bool = False, *, bag: Any = None, weight: Any = None
    ) -> Any:
        """Means or sums over bags, as ``aggregate`` says, and with ``return_std`` their standard deviations,
        noise not included.

        Without ``rows`` of the bags of the fit, in the order of ``bags_``. Else of those that rows are in, in
        the order in which these name them first; ``bag`` and ``weight`` are as in :meth:`fit`, by default the
        columns that they were there."""
        check_is_fitted(self)
        if rows is None:
            means, variances = self._own_bags(return_std)
        else:
            members, names = self._members(rows, bag, weight)
            cells = self.expansion_._rows(members.rows, "rows")
            weights = self._weights_of(members, names, self._explains_means())
            sums = [
                _core.predict_sums(part.expansion._core, cells, *weights, len(names)) for part in self._parts
            ]
            means, variances = (
                [part_sums[0][:, 0] for part_sums in sums],
                [part_sums[1][:, 0] ** 2 for part_sums in sums],
            )
        mean = self._mixed(means)
        if not return_std:
            return mean
        return mean, np.sqrt(
            self._mixed([variance + (m - mean) ** 2 for variance, m in zip(variances, means)])
        )

    def _own_bags(self, return_std: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        if all(part.bags is not None for part in self._parts):
            moments = [part.bags for part in self._parts if part.bags is not None]
            return [mean for mean, _ in moments], [variance for _, variance in moments]
        if return_std:
            raise ValueError(
                "a fit through inducing points does not keep its rows: give rows, of whose bags std is wanted"
            )
        # All bags have targets, in this order.
        return [part.fitted for part in self._parts], []

    def shares(self, rows: Any) -> np.ndarray:
        """Which targets decided: the part of each, in the order of ``targets_``, in the prediction at each
        row, (rows, targets). Parts add up to :meth:`predict` less ``prior_mean_``; sum them over columns for
        regions. For exact fits."""
        cells = self._cells(rows)
        weights = np.ones(len(self._bag)) if self._weight is None else self._weight
        if self._explains_means():
            weights = weights / np.bincount(self._bag, weights)[self._bag]
        return self._mixed(
            [part.shares(cells, self._row, self._bag, weights, self._targets) for part in self._parts]
        )

    def _own_members(self) -> tuple[Members, list[str]]:
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
