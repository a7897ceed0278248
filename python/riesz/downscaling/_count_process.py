"""Downscaling of counts: a map of the rate of single rows learnt from cases in the population of districts,
or from successes among trials.

>>> import numpy as np
>>> import pandas as pd
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> height, district = rng.uniform(-1, 1, 300), np.repeat(np.arange(30), 10)
>>> rows = pd.DataFrame({"height": height, "district": district, "people": 50})
>>> rows["height"] += rows.district / 10
>>> rate = 0.1 * np.exp(np.sin(rows.height))
>>> cases = rng.poisson((rows.people * rate).groupby(rows.district).sum())
>>> bags = pd.DataFrame({"district": np.arange(30), "cases": cases})
>>> model = riesz.AggregateCountProcess().fit(rows, bags, bag="district", target="cases", weight="people")
>>> low, high = model.predict_quantiles(rows, [0.025, 0.975]).T
>>> bool(np.mean((low < rate) & (rate < high)) > 0.85)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .. import kernels as rk
from .._data.parameters import check_optimizer, hyperparameter_samples, issue_warnings
from .._data.types import ColumnChoices, KernelLike, MatrixLike, Optimizer, PositiveOrAuto, RandomState
from .._data.validation import first_names
from .._models.expansion import Expansion, deviations_of
from ._bags import (
    ColumnRoles,
    Tables,
    check_choices,
    points_of,
    read_tables,
    start_kernel,
    start_mediator_kernel,
)
from ._base import Downscaled, few_samples_warnings, not_negative
from ._fitting import Component, LeaveOneOut, mixture
from ._scores import explained_deviance, held_out_bags

__all__ = ["AggregateCountProcess"]


#: Meaning of f, by family.
_LINKS = {"poisson": "log rate", "binomial": "log odds"}


class AggregateCountProcess(Downscaled):
    """A Gaussian process f of single rows, learnt from counts of bags; its exponential is a rate.

    With ``family="poisson"`` the counts are events, and the weights are exposures (people, person-years):
    ``z_b ~ Poisson(Σ_i w_i exp(f(x_i)))``. With ``"binomial"`` they are successes among n_b trials:
    ``z_b ~ Binomial(n_b, Σ_i w_i σ(f(x_i)))``, with weights divided by their sum. The posterior is Laplace's
    approximation.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, optional
        Prior covariance of f; tuning starts from its parameters. The default is ``Constant(1) * RBF`` with
        the columns' standard deviations as length scales. Tuning compares it with Matérn kernels (ν = 5/2 and
        3/2, products over columns) by their marginal likelihoods, because intervals are too narrow where f
        is not as smooth as an RBF; averages include all of the three that are plausible. A kernel that is
        given, and the RBF of ``published=True``, are compared with no other.
    family : {"poisson", "binomial"}, default "poisson"
    operator : {"auto", "matched", "mediated"}, default "auto"
        How counts depend on rows. Counts whose bags have rows are matched. Other counts are mediated: the
        ``mediators`` of :meth:`fit`, columns that all bags have, relate them to bags with rows. Rates cannot
        be negative, so they are averaged with nonnegative weights (a kernel smoother) instead of by the
        regression of :class:`AggregateGaussianProcess`.
    mediator_kernel : riesz.kernels.Kernel, optional
        Kernel of the smoother, where tuning starts; it is chosen to predict held-out bags best. The default
        is ``RBF`` with half the mediators' standard deviations as length scales.
    mediator_examples : {"bags", "rows"}, default "bags"
        The examples of the smoother, which have weight one each: bags, or rows, so that large bags have more
        weight.
    dispersion : float, default 0
        Overdispersion of counts, where tuning starts; 0 for none. For Poisson counts it is the variance of a
        gamma factor of rates, so that counts are negative binomial. For binomial counts it is φ, with
        correlation ``φ/(1 + φ)`` between two trials of a target, so that counts are beta-binomial.
    mediation_dispersion : float or "auto"
        Overdispersion of mediated counts: the variation of their rates around the smoother. ``"auto"`` starts
        from 0.1; 0 takes the smoother as exact.
    prior_mean : float, optional
        The mean of f far from all rows, by default the constant with the best fit.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps all hyper-parameters fixed. Tuning maximises Laplace's approximation of the marginal
        likelihood times weakly informative priors around the start values, from two starts.
    n_hyperparameter_samples : int or "auto"
        Number of draws of the hyper-parameters from their posterior over which predictions are averaged,
        because the best hyper-parameters alone are overconfident with few counts; 0 for none. ``"auto"`` is
        64 for up to 300 counts.
    n_inducing : None, int or array
        Number of inducing points, or the points themselves; the values of f there determine it. ``None`` uses
        all rows up to 1,000, and otherwise twice the number of counts, between 200 and 1,000.
    published : bool, default False
        Whether to tune by the marginal likelihood alone, without priors.
    random_state : int, RandomState or None
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    expansion_ : Expansion
        f with the best hyper-parameters.
    kernel_ : riesz.kernels.Kernel
    dispersion_, mediation_dispersion_ : float
        At the best hyper-parameters; 0 for none.
    mediator_kernel_ : riesz.kernels.Kernel or None
    prior_mean_ : float
    log_marginal_likelihood_value_ : float
        Laplace's approximation at the best hyper-parameters, and at the best prior mean if it is learnt.
    effective_sample_size_ : float or None
        Effective number of posterior draws of hyper-parameters behind the average.
    bags_, targets_ : list of str
        Names of the bags with rows, and of the bags with counts.
    fitted_ : array
        The mean of each count at the mode of f. If the prior mean is learnt and all counts are matched
        Poisson counts without dispersion, these means have the same sum as the counts.
    loo_ : LeaveOneOut or None
        Leave-one-out predictions of the counts with the same hyper-parameters; None for a single count.
    warnings_ : list of str
        Texts of the issued warnings.

    Notes
    -----
    The smoother of mediated counts stays fixed after it is tuned. A Newton step takes a few passes over n
    rows times m points, and m³; an evaluation of the marginal likelihood takes several steps.

    Examples
    --------
    >>> import numpy as np, pandas as pd, riesz
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"height": rng.normal(size=60), "district": np.repeat(np.arange(12), 5)})
    >>> events = (20 * np.exp(rows.height)).groupby(rows.district).sum()
    >>> bags = pd.DataFrame({"district": np.arange(12), "cases": rng.poisson(events)})
    >>> model = riesz.AggregateCountProcess(n_hyperparameter_samples=0)
    >>> model = model.fit(rows, bags, bag="district", target="cases")
    >>> bool(np.corrcoef(np.log(model.predict(rows)), rows.height)[0, 1] > 0.9)
    True
    """

    def __init__(
        self,
        kernel: KernelLike | None = None,
        *,
        family: Literal["poisson", "binomial"] = "poisson",
        operator: str = "auto",
        mediator_kernel: KernelLike | None = None,
        mediator_examples: Literal["bags", "rows"] = "bags",
        dispersion: float = 0.0,
        mediation_dispersion: PositiveOrAuto = "auto",
        prior_mean: float | None = None,
        optimizer: Optimizer = "fmin_l_bfgs_b",
        n_hyperparameter_samples: int | Literal["auto"] = "auto",
        n_inducing: int | MatrixLike | None = None,
        published: bool = False,
        random_state: RandomState = None,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.kernel = kernel
        self.family = family
        self.operator = operator
        self.mediator_kernel = mediator_kernel
        self.mediator_examples = mediator_examples
        self.dispersion = dispersion
        self.mediation_dispersion = mediation_dispersion
        self.prior_mean = prior_mean
        self.optimizer = optimizer
        self.n_hyperparameter_samples = n_hyperparameter_samples
        self.n_inducing = n_inducing
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
        trials: str | None = None,
        weight: Any = None,
        mediators: str | Sequence[str] = (),
        total: str | None = None,
        features: Sequence[str] | None = None,
        row: Any = None,
        drop_unmatched: bool = False,
    ) -> AggregateCountProcess:
        """Fits the model to the counts of bags.

        Parameters
        ----------
        rows, bags, bag, target, mediators, features, row, drop_unmatched
            As in :meth:`AggregateGaussianProcess.fit`; ``target`` is the column of ``bags`` with the counts.
        trials : str
            For binomial counts, the column of ``bags`` with the numbers of trials.
        weight : str, or array of shape (n,), optional
            The column of ``rows`` with their exposure (people, person-years), by default 1; for binomial
            counts the weight of a row in its bag.
        total : str, optional
            For mediated Poisson counts, the column of ``bags`` with the sum of their weights.

        Returns
        -------
        AggregateCountProcess
            The fitted model.
        """
        self._check(trials)
        roles = ColumnRoles(bag, weight, target, None, total, mediators, features, row, trials, self.columns)
        sums = self.family == "poisson"
        tables = read_tables(rows, bags, roles, self.operator, sums, bool(drop_unmatched))
        check_counts(tables)
        aggregates, notes = tables.to_core(sums), list(tables.notes)
        if self.operator == "auto" and aggregates.hardly_matched is not None:
            notes.append(aggregates.hardly_matched)
        points = None if self.n_inducing is None else points_of(self.n_inducing, tables)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        draws = hyperparameter_samples(
            self.n_hyperparameter_samples,
            len(tables.values),
            self.optimizer,
            "published=True takes the best" if self.published else None,
        )
        fitted = _core.fit_counts(
            self._start(tables), aggregates, points, self.optimizer is not None, draws, seed
        )
        self._store_results(fitted, tables, roles)
        notes += few_samples_warnings(fitted.effective)
        self.warnings_ = issue_warnings(self, notes, fitted.warnings)
        return self

    def _check(self, trials: Any) -> None:
        choices = [
            ("family", self.family, tuple(_LINKS)),
            ("operator", self.operator, ("auto", "matched", "mediated")),
            ("mediator_examples", self.mediator_examples, ("bags", "rows")),
        ]
        check_choices(choices, [("kernel", self.kernel), ("mediator_kernel", self.mediator_kernel)])
        if self.family == "binomial" and trials is None:
            raise ValueError(
                "family = 'binomial' needs trials: the column of bags with the numbers of trials of their "
                "counts"
            )
        if self.family == "poisson" and trials is not None:
            raise ValueError(
                f"trials = {trials!r}: Poisson counts have none: leave it out, or take family='binomial'"
            )
        check_optimizer(self.optimizer)

    def _start(self, tables: Tables) -> dict[str, Any]:
        """Returns the start values of tuning, as the core takes them."""
        mediators = start_mediator_kernel(tables, self.mediator_kernel)
        return {
            "kernel": start_kernel(tables, self.kernel),
            "trials": None if tables.trials is None else tables.trials.tolist(),
            "smoothing": None if mediators is None else (mediators, self.mediator_examples == "rows"),
            "dispersion": not_negative("dispersion", self.dispersion),
            "mediation_dispersion": not_negative(
                "mediation_dispersion", self.mediation_dispersion, or_auto=True
            ),
            "prior_mean": None if self.prior_mean is None else float(self.prior_mean),
            "published": bool(self.published),
        }

    def _store_results(self, fitted: _core.FittedCounts, tables: Tables, roles: ColumnRoles) -> None:
        self._explained = _LINKS[self.family]
        parts = fitted.parts or [fitted.best]
        self._store_fits(_component(fitted.best), [_component(part) for part in fitted.parts], tables, roles)
        self.mediator_kernel_ = None
        if fitted.smoothing is not None and tables.mediators is not None:
            self.mediator_kernel_ = rk._from_json(fitted.smoothing, tables.mediators[0].names)
        self.dispersion_, self.mediation_dispersion_ = fitted.dispersions
        self.log_marginal_likelihood_value_ = fitted.log_marginal_likelihood
        self.effective_sample_size_ = fitted.effective
        self.fitted_ = self._mixed([part.fitted for part in self._parts])
        self.loo_ = _left_out([(part.weight, part.left_out) for part in parts], tables)

    def _rates_of_parts(self, cells: np.ndarray, sds: float = 0.0) -> list[np.ndarray]:
        """Returns the rates of each part: the mean, the median and the ends of intervals."""
        return [np.asarray(part.expansion._core.rates(cells, sds)) for part in self._parts]

    def predict(self, rows: MatrixLike) -> np.ndarray:
        """Returns the map: the posterior mean of the rate per unit of weight, or of the probability of a
        success, at rows.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows,)
        """
        return self._mixed([part_rates[0] for part_rates in self._rates_of_parts(self._cells(rows))])

    def predict_quantiles(
        self, rows: MatrixLike, quantiles: Sequence[float] = (0.025, 0.5, 0.975)
    ) -> np.ndarray:
        """Returns quantiles of the posterior of the rate or probability at rows.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)
        quantiles : list of float, default (0.025, 0.5, 0.975)
            Between 0 and 1.

        Returns
        -------
        array of shape (rows, quantiles)
        """
        for q in quantiles:
            if not 0 < q < 1:
                raise ValueError(f"quantiles: {q!r} is not between 0 and 1")
        cells = self._cells(rows)
        means = np.array([part.expansion._core.predict(cells)[:, 0] for part in self._parts])
        sds = np.array([part.expansion._core.std(cells)[:, 0] for part in self._parts])
        latent = np.array([self._quantile(q, means, sds) for q in quantiles]).reshape(
            len(quantiles), len(cells)
        )
        return self._rates(latent).T

    def _quantile(self, q: float, means: np.ndarray, sds: np.ndarray) -> np.ndarray:
        """Returns the quantile of f at rows by bisection, for a mixture of normal distributions with
        ``means`` and ``sds``, (parts, rows)."""
        part_quantiles = means + norm.ppf(q) * sds
        low, high = part_quantiles.min(axis=0), part_quantiles.max(axis=0)
        weights = np.array([part.weight for part in self._parts])
        # 60 halvings reach the precision of a double.
        for _ in range(60 if len(self._parts) > 1 else 0):
            middle = (low + high) / 2
            is_below = weights @ norm.cdf((middle - means) / np.maximum(sds, np.finfo(float).tiny)) < q
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return (low + high) / 2

    def _rates(self, f: np.ndarray) -> np.ndarray:
        return np.exp(f) if self.family == "poisson" else expit(f)

    def predict_link(self, rows: MatrixLike, return_std: bool = False, return_cov: bool = False) -> Any:
        """Returns the posterior mean of f, the log rate or the log odds, which explanations explain.

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
        """Returns joint draws of the rates, or probabilities, at rows from their posterior.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)
        n_samples : int, default 1
        random_state : int, RandomState or None

        Returns
        -------
        array of shape (rows, n_samples)
        """
        return self._rates(self._drawn(rows, n_samples, random_state))

    def predict_bags(
        self, rows: MatrixLike, return_std: bool = False, *, bag: Any = None, weight: Any = None
    ) -> Any:
        """Returns the posterior mean of the expected number of events in bags, or of the probability of a
        success there. For other quantities of bags, use sums over :meth:`sample`.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)
        return_std : bool, default False
            Whether to return standard deviations too, for events.
        bag, weight
            As in :meth:`fit`, by default the same columns.

        Returns
        -------
        mean : array of shape (bags,)
            In the order of the bags' first rows.
        std : array of shape (bags,), with ``return_std``
            Without the variance of counts around the expected number.
        """
        check_is_fitted(self)
        members, names = self._members(rows, bag, weight)
        bag_numbers, weights = map(np.asarray, self._weights_of(members, names, self.family == "binomial"))
        cells = self._cells(members.rows)
        total = lambda v: np.bincount(bag_numbers, weights * v, len(names))
        means = [total(part_rates[0]) for part_rates in self._rates_of_parts(cells)]
        mean = self._mixed(means)
        if not return_std:
            return mean
        if self.family == "binomial":
            raise ValueError(
                "return_std of a mean of probabilities has no closed form: use the draws of sample(rows)"
            )
        squares = [self._squares(part, cells, bag_numbers, weights, len(names)) for part in self._parts]
        return mean, np.sqrt(np.maximum(self._mixed(squares) - mean**2, 0.0))

    def _squares(
        self, part: Component, cells: np.ndarray, bag_numbers: np.ndarray, weights: np.ndarray, count: int
    ) -> np.ndarray:
        """Returns the posterior mean of the squared expected number of events, by bag."""
        squares = np.zeros(count)
        for b in range(count):
            members = np.flatnonzero(bag_numbers == b)
            cov = deviations_of(part.expansion, cells[members], False, True)[0][..., 0]
            mean = weights[members] * np.exp(
                part.expansion._core.predict(cells[members])[:, 0] + np.diag(cov) / 2
            )
            squares[b] = mean @ np.exp(cov) @ mean
        return squares

    def score(
        self,
        rows: MatrixLike,
        bags: MatrixLike,
        *,
        bag: Any = None,
        target: str | None = None,
        weight: Any = None,
        trials: str | None = None,
    ) -> float:
        """Returns D², the share of the deviance of the counts of held-out bags that the model explains, as
        scikit-learn's ``PoissonRegressor`` does. The best score is 1; one common rate for all bags has 0.

        Parameters
        ----------
        rows, bags
            The tables as in :meth:`fit`. Every bag with a count needs its rows.
        bag, target, weight, trials
            As in :meth:`fit`, by default the same columns.

        Returns
        -------
        float
            From the posterior means of :meth:`predict_bags`; overdispersion is not part of the deviance.
        """
        held_out = held_out_bags(self, rows, bags, bag=bag, target=target, weight=weight, trials=trials)
        members, names, binomial = held_out.members, held_out.names, self.family == "binomial"
        bag_numbers, weights = map(np.asarray, self._weights_of(members, names, binomial))
        rates = self._mixed([part[0] for part in self._rates_of_parts(self._cells(members.rows))])
        expected = np.bincount(bag_numbers, weights * rates)
        if held_out.trials is None:
            return explained_deviance(held_out.values, expected, np.bincount(bag_numbers, weights), False)
        return explained_deviance(held_out.values, expected * held_out.trials, held_out.trials, True)

    def predict_benchmarked(self, rows: MatrixLike, *, bag: Any = None, weight: Any = None) -> np.ndarray:
        """Returns the rates of :meth:`predict`, rescaled in each bag so that the expected events equal the
        count. The model's intervals do not include this step.

        Parameters
        ----------
        rows : array or data frame of shape (rows, d)
            All rows of their bags, with the bags' names of the fit.
        bag, weight
            As in :meth:`fit`, by default the same columns.

        Returns
        -------
        array of shape (rows,)
            Bags without a count are not rescaled, and all rates of a bag without events are 0.
        """
        check_is_fitted(self)
        if self.family == "binomial":
            raise ValueError("successes among trials do not add up to totals of rows: take predict")
        members, names = self._members(rows, bag, weight)
        bag_numbers, weights = map(np.asarray, self._weights_of(members, names, self.family == "binomial"))
        rates = self.predict(members.rows)
        count_of_bag = dict(zip(self.targets_, self._targets))
        expected = np.bincount(bag_numbers, weights * rates, len(names))
        scale = [
            count_of_bag[name] / number if name in count_of_bag else 1.0
            for name, number in zip(names, expected)
        ]
        return rates * np.array(scale)[bag_numbers]


def _component(core: _core.CountPart) -> Component:
    return Component(core.weight, Expansion._wrap(core.model), np.asarray(core.fitted), None, None, None)


def _left_out(parts: Sequence[tuple[float, Sequence[Any]]], tables: Tables) -> LeaveOneOut | None:
    """Returns the leave-one-out predictions of a mixture of hyper-parameters, with scores from the mixture of
    predictive probabilities."""
    if len(tables.targets) < 2:
        return None
    means, variances, scores, logs = (
        np.array([predictions[k] for _, predictions in parts]) for k in range(4)
    )
    mean, sd, log, weights = mixture([weight for weight, _ in parts], means, variances, logs)
    # Computed from the smaller tail, which is more precise.
    low, high = (np.sum(weights * norm.cdf(side * scores), axis=0) for side in (1, -1))
    score = np.where(low < high, norm.ppf(np.minimum(low, 0.5)), -norm.ppf(np.minimum(high, 0.5)))
    return LeaveOneOut(tables.targets, tables.values, mean, sd, log, score)


def check_counts(tables: Tables) -> None:
    """Refuses targets that are not counts, and names the bag."""
    is_count = lambda v: (v >= 0) & (v == np.floor(v))
    for t in np.flatnonzero(~is_count(tables.values))[:1]:
        raise ValueError(
            f"the target of bag '{tables.targets[t]}' is {tables.values[t]}: counts are whole numbers, 0 or "
            "more"
        )
    if tables.trials is not None:
        bad = ~(is_count(tables.trials) & (tables.trials >= np.maximum(tables.values, 1)))
        invalid = [f"'{tables.targets[t]}' ({tables.trials[t]})" for t in np.flatnonzero(bad)]
        if invalid:
            raise ValueError(
                "trials are whole numbers, at least 1 and the count, and are not of bags "
                f"{first_names(invalid)}"
            )
