"""Two-sample and independence tests by MMD² and HSIC, with attributions to features."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _core, plots
from ._data.parameters import is_whole, threads_of
from ._data.table_columns import Rows, read, read_both
from ._data.validation import collected, names_of
from ._explaining.explanation import Explanation, check_suffix
from ._explaining.feature_groups import Groups, players_of
from ._models.expansion import write
from ._models.kernel_expressions import Expression, as_kernel
from .kernels import Kernel, _from_json

__all__ = ["HigherOrder", "KernelStatistic", "KernelTestResult", "Witness", "hsic_test", "mmd_test"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: Features with an adjusted p-value up to this level are named in summaries.
LEVEL = 0.05


@dataclass(frozen=True)
class KernelStatistic:
    """The statistic and p-value of a test for one kernel."""

    kernel: Kernel
    statistic: float
    #: Adjusted for the number of kernels; ``None`` without permutations.
    pvalue: float | None


@dataclass(frozen=True)
class HigherOrder:
    """The part of the statistic from interactions of three or more features, with orthogonal factors."""

    statistic: float
    #: ``None`` without permutations.
    pvalue: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Witness:
    """The witness function of two samples along one column: the mean of the column's kernel over the first
    sample minus that over the second (Gretton, Borgwardt, Rasch, Schölkopf and Smola 2012, §2.3). It is
    positive where the first sample has more mass."""

    #: The column.
    feature: str
    #: 101 points from the smallest to the largest value, or the names of all levels.
    grid: np.ndarray
    #: The witness function at these points.
    values: np.ndarray
    #: The standard error of the witness function.
    std_error: np.ndarray

    def plot(self, ax: Any = None) -> Any:
        """Draws the witness function by :func:`riesz.plots.witness`."""
        return plots.witness(self, ax=ax)

    def __repr__(self) -> str:
        peak = int(np.argmax(np.abs(self.values)))
        sample = "first" if self.values[peak] > 0 else "second"
        peak_text = self.grid[peak] if self.grid.dtype == object else f"{self.grid[peak]:.4g}"
        mass = f"largest at {peak_text}, where the {sample} sample has more mass"
        return f"<riesz.Witness: along {self.feature}, {mass}>"


@dataclass(frozen=True, eq=False, repr=False)
class KernelTestResult:
    """The result of :func:`mmd_test` or :func:`hsic_test` for p features; ``None`` marks parts that were not
    requested.

    The null hypothesis of :attr:`pvalues` is that of the whole test: the samples have one distribution, or X
    and Y are independent. Under it, :attr:`adjusted_pvalues` control the probability of naming any feature.
    If it is false, a feature with equal distributions can still have a nonzero value, because Shapley values
    share joint effects between features; :attr:`marginal_pvalues` test each feature by itself.
    """

    #: MMD² or HSIC; with several kernels that of the kernel with the largest studentised statistic.
    statistic: float
    #: Its p-value, ``(1 + draws not smaller than the statistic) / (1 + draws)``, valid for several kernels.
    pvalue: float | None
    #: The statistic in every draw from the null distribution, (n_permutations,).
    null_distribution: np.ndarray
    #: Statistic and p-value of each kernel.
    kernels: list[KernelStatistic]
    #: The index in :attr:`kernels` of the kernel of the statistic and attributions.
    best_kernel_index: int
    #: Shapley values that add up to the statistic, as an explanation with one row. Its data are means and
    #: most frequent levels.
    attributions: Explanation | None = None
    #: For each feature the p-value of its value, (p,).
    pvalues: np.ndarray | None = None
    #: These p-values adjusted for p features by the step-down maximum (Westfall and Young 1993), (p,).
    adjusted_pvalues: np.ndarray | None = None
    #: For each feature the middle 95 % of its values under the null hypothesis, (p, 2).
    null_interval: np.ndarray | None = None
    #: Shapley interaction values, (p, p). Off the diagonal is half of the Shapley interaction index of the
    #: pair (Grabisch and Roubens 1999), and on it the rest of the feature's value. Rows sum to the values.
    interactions: np.ndarray | None = None
    #: A proved bound on the error of each interaction value.
    interactions_bound: float | None = None
    #: With orthogonal factors, the first-order contribution of each feature, independent of the others, (p,).
    marginal: np.ndarray | None = None
    #: The p-values of ``marginal``, (p,).
    marginal_pvalues: np.ndarray | None = None
    #: With orthogonal factors and three or more features, the contribution of sets of three or more features,
    #: which is in no feature's value.
    higher_order: HigherOrder | None = None
    _name: str = "MMD²"
    #: The core's result as JSON, and the columns of the target and of what is given, for files and pages.
    _record: str = ""
    _subject_names: tuple[str, str] = ("X", "Z")
    #: Both samples and the chosen kernel in the core's form, for witness functions.
    _compared: tuple[Rows, Rows, str] | None = field(default=None)

    # pytest must not collect this class as a test.
    __test__ = False

    @classmethod
    def _wrap(
        cls,
        core: _core.TestResult,
        name: str,
        names: list[str],
        subject_names: tuple[str, str] = ("X", "Z"),
    ) -> KernelTestResult:
        return cls(
            statistic=core.statistic,
            pvalue=core.pvalue,
            null_distribution=core.null_distribution,
            kernels=[
                KernelStatistic(_from_json(json_text, names), value, p)
                for json_text, value, p in core.by_kernel
            ],
            best_kernel_index=core.chosen,
            attributions=None if core.attributions is None else Explanation(core.attributions),
            pvalues=core.pvalues,
            adjusted_pvalues=core.adjusted_pvalues,
            null_interval=core.bands,
            interactions=core.interactions,
            interactions_bound=core.interactions_bound,
            marginal=core.marginal,
            marginal_pvalues=core.marginal_pvalues,
            higher_order=None if core.higher_order is None else HigherOrder(*core.higher_order),
            _name=name,
            _record=core.record,
            _subject_names=subject_names,
        )

    @property
    def kernel(self) -> Kernel:
        """The kernel of the statistic and attributions."""
        return self.kernels[self.best_kernel_index].kernel

    @property
    def feature_names(self) -> list[str]:
        """The features: columns, or groups of columns."""
        return self._attribution_explanation().feature_names

    @property
    def values(self) -> np.ndarray:
        """The Shapley values, (p,). They add up to the statistic."""
        return self._attribution_explanation().values[0]

    def _attribution_explanation(self) -> Explanation:
        if self.attributions is None:
            raise ValueError(
                "nothing was attributed to features: run the test with attribution='significance'"
            )
        return self.attributions

    def to_frame(self, library: str = "pandas") -> Any:
        """Returns a table with one line per feature: ``feature, value``, with permutations ``pvalue,
        adjusted_pvalue, null_low, null_high``, and with orthogonal factors ``marginal, marginal_pvalue``.
        ``library`` is ``"pandas"`` or ``"polars"``."""
        columns: dict[str, Any] = {"feature": self.feature_names, "value": self.values}
        if self.null_interval is not None:
            columns |= {
                "pvalue": self.pvalues,
                "adjusted_pvalue": self.adjusted_pvalues,
                "null_low": self.null_interval[:, 0],
                "null_high": self.null_interval[:, 1],
            }
        if self.marginal is not None:
            columns["marginal"] = self.marginal
        if self.marginal_pvalues is not None:
            columns["marginal_pvalue"] = self.marginal_pvalues
        if library == "pandas":
            import pandas

            return pandas.DataFrame(columns)
        if library == "polars":
            import polars

            return polars.DataFrame(columns)
        raise ValueError(f"library = '{library}': it is 'pandas' or 'polars'")

    def plot(self, ax: Any = None, max_display: int | None = 10) -> Any:
        """Draws the attributions by :func:`riesz.plots.attributions`."""
        return plots.attributions(self, ax=ax, max_display=max_display)

    def witness(self, feature: str | int) -> Witness:
        """Returns the witness function of the two samples of :func:`mmd_test` along a column, by name or
        number. The cost is O(n + m) per point."""
        if self._compared is None:
            raise ValueError(
                "a witness function is that of two samples: mmd_test has one, hsic_test has none"
            )
        x, z, kernel = self._compared
        if not isinstance(feature, str):
            if not is_whole(feature) or not 0 <= feature < len(x.names):
                raise ValueError(
                    f"feature = {feature!r}: it is a column's name, or its number from 0 to "
                    f"{len(x.names) - 1}"
                )
            feature = x.names[feature]
        record = json.loads(_core.witness(x, z, kernel, feature))
        points = (
            np.asarray(record["at"])
            if record["levels"] is None
            else np.asarray(record["levels"], dtype=object)
        )
        return Witness(feature, points, np.asarray(record["values"]), np.asarray(record["std_error"]))

    def plot_witness(self, feature: str | int, ax: Any = None) -> Any:
        """Draws :meth:`witness` by :func:`riesz.plots.witness`."""
        return self.witness(feature).plot(ax)

    # Files and pages
    # ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], names: Sequence[str] | None = None) -> None:
        """Writes the result as JSON, in the format of ``riesz test … -o FILE.json``.

        Parameters
        ----------
        path : path
        names : pair of str, optional
            Names in the verdict: of the two samples, by default X and Z; or of the target and of the columns
            that are given, by default those of the data frames.

        Examples
        --------
        >>> import json, tempfile, pathlib, numpy as np
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.json"
        >>> mmd_test(x, x + 1, n_permutations=100).save(path)
        >>> json.loads(path.read_text())["format"]
        'riesz-test'
        """
        check_suffix(path, (".json",), "save writes JSON (for a table use .to_frame())")
        write(path, _core.test_record(self._record, self._subject(names)).encode())

    def report(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        *,
        names: Sequence[str] | None = None,
        max_display: int = 20,
    ) -> None:
        """Writes a self-contained HTML page with the verdict, the features, the null distribution and, for
        two samples, witness functions, as ``riesz test … -o FILE.html`` does.

        Parameters
        ----------
        path : path
        title : str, optional
        names : pair of str, optional
            As for :meth:`save`.
        max_display : int, default 20
            Number of features that the plot shows by name; the table has all.
        """
        if title is not None and not isinstance(title, str):
            raise TypeError(f"title = {title!r}: it is a text")
        if not is_whole(max_display) or max_display < 1:
            raise ValueError(f"max_display = {max_display!r}: it is a whole number, at least 1")
        check_suffix(path, (".html", ".htm"), "report writes HTML")
        self._attribution_explanation()
        subject = self._subject(names)
        of_samples, first, second = subject
        if of_samples:
            facts = [("first sample", first), ("second sample", second)]
        else:
            facts = [("target", first)] + ([("given", second)] if second else [])
        samples = None if self._compared is None else self._compared[:2]
        page = _core.test_page(self._record, subject, title, samples, facts, int(max_display))
        write(path, page.encode())

    def _subject(self, names: Sequence[str] | None) -> tuple[bool, str, str]:
        """Returns whether two samples are compared, and the names of both sides."""
        if not self._record:
            raise ValueError("this result was read from an old pickle, without what files need: run the test")
        if names is not None and (isinstance(names, str) or len(names) != 2):
            raise ValueError(f"names = {names!r}: they are two texts")
        first, second = self._subject_names if names is None else names
        return self._name != "HSIC", str(first), str(second)

    # Display
    # ------------------------------------------------------------------------------------------------------

    def _headline(self) -> str:
        text = f"{self._name} = {self.statistic:.4g}"
        if self.pvalue is not None:
            text += f", p = {self.pvalue:.3g} ({len(self.null_distribution)} draws"
            text += f", {len(self.kernels)} kernels)" if len(self.kernels) > 1 else ")"
        return text

    def _lines(self, max_display: int | None) -> list[list[str]]:
        """Returns the head of a table, then a line for each feature, the largest value first."""
        order = np.argsort(-np.abs(self.values), kind="stable")[:max_display]
        lines = [["feature", "value"]]
        if self.null_interval is not None:
            lines[0] += ["95 % under the null", "p", "adjusted p"]
        if self.marginal_pvalues is not None:
            lines[0] += ["marginal p"]
        for j in order:
            line = [self.feature_names[j], f"{self.values[j]:+.3g}"]
            if (
                self.null_interval is not None
                and self.pvalues is not None
                and self.adjusted_pvalues is not None
            ):
                low, high = self.null_interval[j]
                line += [
                    f"{low:+.2g} to {high:+.2g}",
                    f"{self.pvalues[j]:.3g}",
                    f"{self.adjusted_pvalues[j]:.3g}",
                ]
            if self.marginal_pvalues is not None:
                line.append(f"{self.marginal_pvalues[j]:.3g}")
            lines.append([cell.replace("-", "−") if k else cell for k, cell in enumerate(line)])
        return lines

    def summary(self, max_display: int | None = 10) -> str:
        """Returns the test in words, then a line for each feature, the largest value first;
        ``max_display=None`` shows all features."""
        kernel = repr(self.kernel)
        text = [self._headline(), f"kernel: {kernel if len(kernel) <= 100 else kernel[:99] + '…'}"]
        if self.attributions is None:
            return "\n".join(text)
        lines = self._lines(max_display)
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        text.append("")
        for line in lines:
            padded = [
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths))
            ]
            text.append("  ".join(padded))
        omitted_count = len(self.feature_names) - len(lines) + 1
        if omitted_count:
            text.append(f"… and {omitted_count} more")
        if self.higher_order is not None:
            p = "" if self.higher_order.pvalue is None else f", p = {self.higher_order.pvalue:.3g}"
            text.append(
                f"only in three or more features together: {self.higher_order.statistic:.3g}{p}".replace(
                    "-", "−"
                )
            )
        return "\n".join(text)

    def __repr__(self) -> str:
        if self.attributions is None:
            return f"<riesz.KernelTestResult: {self._headline()}>"
        if self.adjusted_pvalues is None:
            order = np.argsort(-np.abs(self.values), kind="stable")[:3]
            largest = ", ".join(self.feature_names[j] for j in order)
            return f"<riesz.KernelTestResult: {self._headline()}; most from {largest}>"
        named = [j for j in np.argsort(-self.values, kind="stable") if self.adjusted_pvalues[j] <= LEVEL]
        listed = ", ".join(self.feature_names[j] for j in named[:5]) + (", …" if len(named) > 5 else "")
        features_text = f"features at adjusted p ≤ {LEVEL}: {listed or 'none'}"
        return f"<riesz.KernelTestResult: {self._headline()}; {features_text}>"

    def _repr_html_(self) -> str:
        text = f"<p><b>{html.escape(self._headline())}</b></p>"
        if self.attributions is None:
            return text
        head, *lines = self._lines(10)
        cells = lambda line, tag: "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line)
        rows = "".join(f"<tr>{cells(line, 'td')}</tr>" for line in lines)
        omitted_count = len(self.feature_names) - len(lines)
        omitted_text = f"<p>… and {omitted_count} more</p>" if omitted_count else ""
        table = f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{rows}</tbody></table>"
        return f"{text}{table}{omitted_text}"


def mmd_test(
    X: Any,
    Z: Any,
    *,
    kernel: Kernel | str | Sequence[Kernel | str] | None = None,
    kernel_factors: str = "orthogonal",
    length_scale_multiples: Sequence[float] | None = None,
    estimator: str = "unbiased",
    block_size: int | None = None,
    n_permutations: int = 1000,
    attribution: str | None = "significance",
    groups: Groups | None = None,
    interactions: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> KernelTestResult:
    """Two-sample test by the maximum mean discrepancy, attributed to features.

    MMD² (Gretton, Borgwardt, Rasch, Schölkopf and Smola 2012) is a sum of the kernel over pairs of rows. If
    the factors of absent features are replaced by 1, it is a game, and its exact Shapley values are the
    contributions of the features (Mohammadi, Chau and Muandet 2025, §6). Permutations of the pooled rows give
    p-values of the statistic and of each feature.

    Parameters
    ----------
    X, Z : array or data frame of shape (n, d) and (m, d)
        The samples. Columns of two data frames are matched by name. Columns of text, truth values or
        categories are categorical, and a level may be in one sample only. An array with one dimension is one
        column.
    kernel : riesz.kernels.Kernel, expression, or list of them, optional
        The kernel between rows, in the samples' own units; a categorical column holds the codes of its
        levels. The default is a Gaussian over each numeric column times ``Categorical(0.5)`` for each
        categorical column. The length scale of a column is one and a half times the median distance between
        two values of the pooled sample. With ``kernel_factors="product"`` there is one length scale, the
        median distance between two standardised rows. Several kernels make an aggregated test: its statistic
        is the largest studentised one, and the p-value accounts for the choice.
    kernel_factors : {"orthogonal", "product"}
        The form of the kernel. ``"orthogonal"`` centres the factor of each feature under the pooled sample,
        scales it, and sums single factors and pairs of them. Contributions of features and pairs are then
        negative only by chance, no feature hides another, and a feature with equal distributions has no
        value. ``"product"`` is the product of the factors, as published; a feature that differs strongly then
        hides the others.
    length_scale_multiples : list of float, optional
        Multiples of each kernel's length scales, for example ``[0.25, 0.5, 1, 2, 4]``: an aggregated test
        that does not depend on one choice of the length scale.
    estimator : {"unbiased", "biased", "linear", "block"}
        Mean over pairs of different rows (their equation 3), over all pairs (equation 5), or over pairs
        within consecutive blocks of two (lemma 14) or ``block_size`` rows (Zaremba, Gretton and Blaschko
        2013). With blocks the order of rows matters.
    block_size : int, optional
        Number of rows of a block, at least 2.
    n_permutations : int
        Number of draws from the null distribution; a p-value is at least ``1 / (n_permutations + 1)``.
        0 gives no p-values.
    attribution : {"significance", "values"} or None
        What is computed for each feature: its Shapley value with p-values, its Shapley value alone, or
        nothing. Kernels that combine columns in one factor need ``None``.
    groups : dict of name to list of columns, optional
        Columns, by name or number, that are one feature together. Each other column is a feature.
    interactions : bool
        Whether to compute interaction values of pairs of features, in O((n + m)² d²).
    random_state : int
        Seed of the draws.
    n_jobs : int, optional
        Number of threads; ``None`` or -1 for one per core. Results do not depend on it.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Returns
    -------
    KernelTestResult

    Raises
    ------
    ValueError
        For missing values, columns that do not match, too few rows, and kernels that combine columns of
        different features in one factor.

    Notes
    -----
    Cost O((n + m)² d), and O((n + m)²) per feature for each draw; blocks of q rows cost O((n + m) q) instead
    of the squares. Memory does not grow with the number of pairs. The level is exact: if both samples have
    one distribution, the p-value is at most α with probability at most α.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> rng = np.random.default_rng(0)
    >>> X, Z = rng.normal(size=(80, 3)), rng.normal(size=(60, 3)) + [0.0, 1.0, 0.0]
    >>> result = riesz.mmd_test(X, Z)
    >>> result.pvalue < 0.01
    True
    >>> result.adjusted_pvalues <= 0.05
    array([False,  True, False])
    >>> bool(abs(result.values.sum() - result.statistic) < 1e-12)
    True
    >>> riesz.mmd_test(X, Z, length_scale_multiples=[0.5, 1, 2], attribution=None).pvalue < 0.01
    True
    """
    blocks = {"unbiased": None, "biased": None, "linear": 2, "block": block_size}
    if estimator not in blocks:
        raise ValueError(f"estimator = {estimator!r}: it is 'unbiased', 'biased', 'linear' or 'block'")
    if estimator == "block" and (not is_whole(block_size) or block_size < 2):  # type: ignore[operator]
        raise ValueError(f"block_size = {block_size!r}: with estimator='block' it is a whole number from 2")
    if estimator != "block" and block_size is not None:
        raise ValueError(f"block_size is a setting of estimator='block', not of '{estimator}': leave it out")
    x, z = read_both(X, Z, choices=columns)
    core = _core.mmd_test(
        x,
        z,
        _kernels(kernel, x._replace(numbers=np.vstack([x.numbers, z.numbers])), "kernel"),
        _multiples(length_scale_multiples),
        estimator == "biased",
        blocks[estimator],
        _options(kernel_factors, attribution, groups, interactions, n_permutations, random_state, x.names),
        threads_of(n_jobs),
    )
    result = KernelTestResult._wrap(core, "MMD²", x.names)
    object.__setattr__(result, "_compared", (x, z, result.kernel._to_json(x.names)))
    return result


def hsic_test(
    X: Any,
    Y: Any,
    *,
    kernel: Kernel | str | Sequence[Kernel | str] | None = None,
    target_kernel: Kernel | str | Sequence[Kernel | str] | None = None,
    kernel_factors: str = "orthogonal",
    length_scale_multiples: Sequence[float] | None = None,
    estimator: str = "biased",
    n_permutations: int = 1000,
    attribution: str | None = "significance",
    null: str = "permutation",
    decay: float | None = None,
    conditioning: Any = None,
    attribute_to: str = "X",
    groups: Groups | None = None,
    interactions: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> KernelTestResult:
    """Independence test by the Hilbert–Schmidt independence criterion, attributed to features.

    HSIC (Gretton, Bousquet, Smola and Schölkopf 2005) is a sum of the kernel between rows of X, weighted by
    the centred kernel between the same rows of Y. Its exact Shapley values are the contributions of the
    features (Mohammadi, Chau and Muandet 2025, §6), as for :func:`mmd_test`.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        As for :func:`mmd_test`.
    Y : array, series or data frame of shape (n,) or (n, k)
        The variables that may depend on X. Text, booleans and categories are categorical; for numeric classes
        give ``target_kernel=riesz.kernels.Categorical()``.
    kernel, target_kernel : riesz.kernels.Kernel or expression, optional
        The kernels between rows of X and of Y, by default those of :func:`mmd_test`. The kernel of the
        attributed side can be a list, for an aggregated test.
    length_scale_multiples : list of float, optional
        As for :func:`mmd_test`, for the attributed side.
    estimator : {"biased", "unbiased"}
        ``tr(KHLH) / (n - 1)²``, or the unbiased estimator (Song, Smola, Gretton, Bedo and Borgwardt 2012,
        equation 5).
    n_permutations : int
        Number of draws from the null distribution; 0 gives no p-values.
    null : {"permutation", "wild_bootstrap"}
        Permutations are exact if rows are independent. The wild bootstrap is for rows of a stationary time
        series. It is valid asymptotically in n, for the biased estimator (Chwialkowski, Sejdinovic and
        Gretton 2014).
    decay : float, optional
        For the wild bootstrap: the number of rows over which the correlation of its process falls to 1/e, at
        least the range of the dependence between rows.
    conditioning : array, series or data frame, optional
        Columns to condition on: tests whether X and Y are dependent given them. The test uses the
        leave-one-out residuals of both in kernel ridge regressions on these columns, in O(n³). An imperfect
        regression leaves part of ``conditioning`` in the residuals, which counts as dependence and affects
        the level (Zhang, Peters, Janzing and Schölkopf 2011, §3; Shah and Peters 2020). X and Y must be
        numeric.
    attribute_to : {"X", "Y"}
        The side whose columns are the features.
    kernel_factors, attribution, groups, interactions, random_state, n_jobs, columns
        As for :func:`mmd_test`; the target's kernel is not transformed.

    Returns
    -------
    KernelTestResult

    Raises
    ------
    ValueError
        As :func:`mmd_test`; also for tables of unequal length and for a side that does not vary.

    Notes
    -----
    Cost O(n² d), and O(n²) per feature for each draw. Memory does not grow with the number of pairs, except
    for 8 n² bytes up to n = 4096 rows.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X[:, 1] ** 2 + 0.3 * rng.normal(size=100)
    >>> result = riesz.hsic_test(X, y)
    >>> result.adjusted_pvalues <= 0.05
    array([False,  True, False])
    >>> riesz.hsic_test(X[:, 0], y, conditioning=X[:, 1]).pvalue > 0.05
    True
    """
    if estimator not in ("biased", "unbiased"):
        raise ValueError(f"estimator = {estimator!r}: it is 'biased' or 'unbiased'")
    if attribute_to not in ("X", "Y"):
        raise ValueError(f"attribute_to = {attribute_to!r}: it is 'X' or 'Y'")
    _check_null(null, decay)
    if null == "wild_bootstrap" and estimator == "unbiased":
        raise ValueError("the wild bootstrap is for estimator='biased'")
    x, y = read(X, "X", choices=columns), read(Y, "Y", ["y"])
    _same_rows(y, "Y", x)
    conditioning_rows = None
    if conditioning is not None:
        conditioning_rows = read(conditioning, "conditioning", ["conditioning"])
        _same_rows(conditioning_rows, "conditioning", x)
        x, y = _as_numbers(x, "X"), _as_numbers(y, "Y")
    attributed_rows, kernel_name, attributed_kernel, target, target_kernels = (
        x,
        "kernel",
        kernel,
        y,
        target_kernel,
    )
    if attribute_to == "Y":
        attributed_rows, kernel_name, attributed_kernel, target, target_kernels = (
            y,
            "target_kernel",
            target_kernel,
            x,
            kernel,
        )
    target_kernel_texts = _kernels(
        target_kernels, target, "target_kernel" if attribute_to == "X" else "kernel"
    )
    if len(target_kernel_texts) > 1:
        raise ValueError(
            f"an aggregated test varies {kernel_name}, the kernel of the side that is attributed: give one "
            "kernel for the other"
        )
    core = _core.hsic_test(
        attributed_rows,
        target,
        conditioning_rows,
        _kernels(attributed_kernel, attributed_rows, kernel_name),
        _multiples(length_scale_multiples),
        target_kernel_texts[0] if target_kernel_texts else None,
        estimator == "unbiased",
        None if decay is None else float(decay),
        _options(
            kernel_factors,
            attribution,
            groups,
            interactions,
            n_permutations,
            random_state,
            attributed_rows.names,
        ),
        threads_of(n_jobs),
    )
    target_names = _listed_names(Y, "Y"), _listed_names(conditioning, "the given columns")
    return KernelTestResult._wrap(core, "HSIC", attributed_rows.names, target_names)


def _listed_names(rows: Any, default: str) -> str:
    """Returns the columns of a data frame or the name of a series, or ``default``; no name for ``None``."""
    if rows is None:
        return ""
    columns = names_of(collected(rows))
    if columns is not None:
        return ", ".join(columns)
    name = getattr(rows, "name", None)
    return name if isinstance(name, str) else default


# Settings
# ----------------------------------------------------------------------------------------------------------


def _kernels(kernel: Any, rows: Rows, label: str) -> list[str]:
    """Returns kernels in the core's form; an empty list for the default. Rows determine the length scales
    that expressions leave out."""
    if kernel is None:
        return []
    kernels = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel]
    also = ", a list of them, or None for the default"
    if not kernels:
        as_kernel(kernel, label, also)
    fitted = [as_kernel(single, label, also) for single in kernels]
    names, levels, numbers = rows
    return [
        (single._fitted_to(numbers, names, levels) if isinstance(single, Expression) else single)._to_json(
            names
        )
        for single in fitted
    ]


def _multiples(length_scale_multiples: Any) -> list[float] | None:
    if length_scale_multiples is None:
        return None
    is_list = isinstance(length_scale_multiples, Iterable) and not isinstance(length_scale_multiples, str)
    multiples = list(length_scale_multiples) if is_list else []
    if not multiples or not all(_is_positive(multiple) for multiple in multiples):
        raise ValueError(
            f"length_scale_multiples = {length_scale_multiples!r}: it is a list of positive numbers"
        )
    return [float(multiple) for multiple in multiples]


def _is_positive(value: Any) -> bool:
    return (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and bool(0 < value < np.inf)
    )


def _check_null(null: Any, decay: Any) -> None:
    if null not in ("permutation", "wild_bootstrap"):
        raise ValueError(f"null = {null!r}: it is 'permutation' or 'wild_bootstrap'")
    if null == "permutation" and decay is not None:
        raise ValueError("decay is a setting of null='wild_bootstrap': leave it out")
    if null == "wild_bootstrap" and not _is_positive(decay):
        raise ValueError(
            f"decay = {decay!r}: for the wild bootstrap it is a positive number, the rows over which "
            "dependence fades"
        )


def _options(
    kernel_factors: str,
    attribution: Any,
    groups: Any,
    interactions: Any,
    n_permutations: Any,
    random_state: Any,
    names: list[str],
) -> _core._Options:
    if attribution not in ("significance", "values", None):
        raise ValueError(f"attribution = {attribution!r}: it is 'significance', 'values' or None")
    if attribution is None and (groups is not None or interactions):
        raise ValueError(
            "groups and interactions are of values, and attribution=None asks for none: leave out either"
        )
    if not is_whole(n_permutations) or n_permutations < 0:
        raise ValueError(f"n_permutations = {n_permutations!r}: it is a whole number from 0")
    if not is_whole(random_state) or not 0 <= random_state < 2**64:
        raise ValueError(f"random_state = {random_state!r}: it is a whole number from 0 to 2**64 - 1")
    mode = attribution or "nothing"
    players = None if groups is None else players_of(groups, None, names)
    return kernel_factors, mode, players, bool(interactions), int(n_permutations), int(random_state)


def _same_rows(rows: Rows, label: str, x: Rows) -> None:
    if len(rows.numbers) != len(x.numbers):
        raise ValueError(
            f"{label} has {len(rows.numbers)} rows, but X has {len(x.numbers)}: row i of both must belong "
            "together"
        )


def _as_numbers(rows: Rows, label: str) -> Rows:
    """Returns booleans as 0 and 1, so that they have residuals."""
    for name, levels in zip(rows.names, rows.levels):
        if levels is not None and levels != ["False", "True"]:
            raise ValueError(
                f"column '{name}' of {label} holds levels, of which no residuals given other columns exist: "
                "encode it"
            )
    return rows._replace(levels=[None] * len(rows.names))
