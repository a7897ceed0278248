"""Plots of explanations with matplotlib.

Every function draws into ``ax`` and returns it. Without ``ax`` it opens a new figure; it never calls
``show``. ``max_display`` is the number of features shown by name, the most important ones, or ``None`` for
all. An explanation with several outputs is drawn for one of them: select it first, as in
``beeswarm(explanation[..., "virginica"])``. If an explanation has standard deviations
(:attr:`riesz.Explanation.std`), 95 % intervals are drawn as whiskers; for estimated values without them,
95 % intervals from :attr:`riesz.Explanation.std_error`. The colours are those of riesz's own
plots and are distinguishable with colour blindness."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.parameters import is_whole
from .._explaining.explanation import LESS, Explanation
from ._ranking import ladder, preference_matrix
from ._style import DOWN, LEVELS, MUTED, NEUTRAL, UP, _axes, _diverging, _notes, _ramp, _sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "attributions",
    "bar",
    "beeswarm",
    "component",
    "force",
    "heatmap",
    "interactions",
    "ladder",
    "network",
    "preference_matrix",
    "protection_path",
    "scatter",
    "waterfall",
    "witness",
]


def __dir__() -> list[str]:
    return sorted(__all__)


#: Half of a 95 % interval in standard deviations, its label, and the maximum number of rows for which every
#: dot has an interval.
NORMAL_QUANTILE, INTERVAL_LABEL, MAX_ROWS_WITH_INTERVALS = 1.959963984540054, "95 % intervals", 200
#: Maximum number of characters of the levels below a feature's name, so that they do not fill the plot.
NAMED = 40

#: Label of the difference between the prediction and the sum of values that do not add up to it.
LEFT_OVER = "not shared out"


def beeswarm(explanation: Explanation, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws a dot for each row and feature, with its Shapley value on the x axis and the feature's value as
    colour, the most important feature on top. The colours of levels are shown below the feature's name."""
    e = _table(explanation, max_display)
    lines = _lines(e, max_display)
    ax = _axes(ax, height=1.2 + 0.38 * len(lines))
    values = e._values[:, :, 0]
    span = np.ptp(np.append(values, 0.0)) or 1.0
    numbers = False
    for y, (_, players) in zip(range(len(lines))[::-1], lines):
        line = values[:, players].sum(axis=1)
        colour, names = _colours(e, players[0], NAMED) if len(players) == 1 else (NEUTRAL, {})
        heights = y + _swarm(line, span)
        ax.scatter(line, heights, c=colour, s=12, linewidths=0, zorder=3)
        half_widths = (
            [r for i in range(len(line)) if (r := _half_width(e, i, players)) is not None]
            if len(line) <= MAX_ROWS_WITH_INTERVALS
            else []
        )
        if len(half_widths) == len(line):
            ax.errorbar(
                line,
                heights,
                xerr=half_widths,
                fmt="none",
                ecolor=NEUTRAL,
                elinewidth=0.7,
                alpha=0.5,
                zorder=2,
            )
        _name_levels(ax, y, names)
        numbers |= not names
    _name_lines(ax, [name for name, _ in lines])
    ax.axvline(0.0, color=MUTED, linewidth=0.8, zorder=1)
    ax.set_xlabel(_value_name(e) + (_interval_label(e) if len(values) <= MAX_ROWS_WITH_INTERVALS else ""))
    if numbers:
        single_players = [players[0] for _, players in lines if len(players) == 1]
        _colour_bar(
            ax, "feature value" + LESS * any(_feature_label(e, j).endswith(LESS) for j in single_players)
        )
    return ax


def _spans(e: Explanation) -> dict[str, tuple[float, float]]:
    """Returns the interval of the importance of each feature."""
    importance = e.importance()
    return {
        name: (low, high)
        for name, low, high in zip(importance["feature"], importance["low"], importance["high"])
    }


def protection_path(path: Any, ax: Axes | None = None) -> Axes:
    """Draws the cost of protecting features: the score against the mean ``|value|`` of the protected
    features, with a point for each strength of :func:`riesz.protection_path`."""
    ax = _axes(ax, height=4.0)
    protected_columns = [path.feature_names.index(name) for name in path.protected]
    importance = path.importances[:, protected_columns].sum(axis=1)
    ax.plot(importance, path.scores, color=DOWN, marker="o", markersize=5, linewidth=1.5, zorder=3)
    for strength, x, y in zip(path.strengths, importance, path.scores):
        ax.annotate(
            f"{strength:g}", (x, y), xytext=(5, -11), textcoords="offset points", fontsize=8, color=MUTED
        )
    ax.set_xlabel(f"mean |value| of {', '.join(path.protected)}")
    ax.set_ylabel("score")
    ax.set_xlim(left=0.0)
    ax.margins(y=0.12)
    return ax


def bar(explanation: Explanation, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws global importance: the mean of ``|value|`` over rows as a bar for each feature, with its 95 %
    interval over rows (see :meth:`riesz.Explanation.importance`). If values have standard deviations, the
    interval uses their mean over rows, which is an upper bound of the standard deviation of the mean. For a
    single row the bars are its values."""
    e = _table(explanation, max_display, single=True)
    lines = _lines(e, max_display)
    ax = _axes(ax, height=1.0 + 0.34 * len(lines))
    values = e._values[:, :, 0]
    single = e._squeezed[0] or len(values) == 1
    sizes = [
        values[0, players].sum() if single else np.abs(values[:, players]).mean(axis=0).sum()
        for _, players in lines
    ]
    colours = [(UP if size > 0 else DOWN) if single else DOWN for size in sizes]
    heights = np.arange(len(lines))[::-1]
    ax.barh(heights, sizes, color=colours, height=0.66, zorder=3)
    spans = {} if single or e._std is not None else _spans(e)
    for y, size, (name, players) in zip(heights, sizes, lines):
        sign = -1 if size < 0 else 1
        text = _signed(size) if single else f"{size:.3g}"
        half_width = _half_width(e, 0, players) if single else _mean_half_width(e, players)
        _whisker(ax, y, size, half_width, None if single else 0.0)
        end = size + sign * (half_width or 0.0)
        if len(players) == 1 and name in spans:
            low, high = spans[name]
            ax.plot([low, high], [y, y], color="#1b1f24", linewidth=1.0, zorder=4)
            end = high
        ax.annotate(
            text,
            (end, y),
            (3 * sign, 0),
            textcoords="offset points",
            va="center",
            ha="left" if sign > 0 else "right",
            color=MUTED,
            fontsize="small",
        )
    _name_lines(ax, [name for name, _ in lines])
    ax.margins(x=0.12)
    ax.axvline(0.0, color=MUTED, linewidth=0.8)
    over_rows = (
        ", 95 % interval over rows"
        if spans and np.isfinite(list(spans.values())).all()
        else _interval_label(e)
        if single or e._std is not None
        else ""
    )
    ax.set_xlabel((_value_name(e) if single else f"mean |{_value_name(e)}|") + over_rows)
    return ax


def attributions(result: Any, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws the contribution of each feature to MMD² or HSIC as a bar. A grey box shows the middle 95 % of
    its values under the null hypothesis, and bars with an adjusted p-value above 0.05 are grey."""
    e = _table(result._attribution_explanation()[0], max_display, single=True)
    lines = _lines(e, max_display)
    ax = _axes(ax, height=1.3 + 0.36 * len(lines))
    values, bands, adjusted = e._values[0, :, 0], result.null_interval, result.adjusted_pvalues
    for y, (_, players) in zip(range(len(lines))[::-1], lines):
        size = values[players].sum()
        colour = UP if size > 0 else DOWN
        end = size
        if bands is not None and adjusted is not None and len(players) == 1:
            low, high = bands[players[0]]
            box = ax.barh(y, high - low, left=low, color="#dfe2e6", height=0.84, zorder=2)
            box.set_label("middle 95 % under the null hypothesis" if y == len(lines) - 1 else "_")
            colour = colour if adjusted[players[0]] <= 0.05 else NEUTRAL
            end = max(size, high) if size > 0 else min(size, low)
        ax.barh(y, size, color=colour, height=0.46, zorder=3)
        sign = -1 if size < 0 else 1
        ax.annotate(
            _signed(size),
            (end, y),
            (3 * sign, 0),
            textcoords="offset points",
            va="center",
            ha="left" if sign > 0 else "right",
            color=MUTED,
            fontsize="small",
        )
    _name_lines(ax, [name for name, _ in lines])
    ax.margins(x=0.2)
    ax.axvline(0.0, color=MUTED, linewidth=0.8, zorder=4)
    ax.set_xlabel(_value_name(e))
    ax.set_title(result._headline(), fontsize="medium", loc="left")
    if bands is not None:
        ax.legend(loc="lower right", fontsize="small", frameon=False)
    return ax


def witness(witness: Any, ax: Axes | None = None) -> Axes:
    """Draws where two samples differ along a column: the witness function with two standard errors, positive
    where the first sample has more mass and negative where the second has more."""
    ax = _axes(ax, height=3.4)
    values, deviations = witness.values, 2.0 * witness.std_error
    if witness.grid.dtype == object:
        positions = np.arange(len(values))
        ax.bar(positions, values, color=[UP if v > 0 else DOWN for v in values], width=0.6, zorder=3)
        ax.errorbar(
            positions, values, deviations, fmt="none", ecolor=MUTED, elinewidth=1.0, capsize=3, zorder=4
        )
        ax.set_xticks(positions, witness.grid)
    else:
        ax.fill_between(
            witness.grid, values - deviations, values + deviations, color="#dfe2e6", linewidth=0, zorder=1
        )
        for sign, colour in [(1, UP), (-1, DOWN)]:
            ax.plot(
                witness.grid,
                np.where(values * sign >= 0, values, np.nan),
                color=colour,
                linewidth=1.6,
                zorder=3,
            )
    ax.axhline(0.0, color=MUTED, linewidth=0.8, zorder=2)
    ax.margins(y=0.12)
    ax.set_xlabel(witness.feature)
    ax.set_ylabel("witness function")
    for text, y, side in [
        ("more of the first sample", 0.98, "top"),
        ("more of the second sample", 0.02, "bottom"),
    ]:
        ax.text(0.99, y, text, transform=ax.transAxes, ha="right", va=side, fontsize="small", color=MUTED)
    return ax


def component(component: Any, ax: Axes | None = None) -> Axes:
    """Draws a component of a functional ANOVA (:meth:`riesz.FunctionalANOVA.component`) of one output: for
    one column a curve, with the middle 95 % of the posterior if there is one; for two columns a surface."""
    if component.grid is None or component.values.ndim != len(component.grid):
        raise ValueError(
            "a component is drawn along one or two columns, of one output: ask for it without rows"
        )
    ax = _axes(ax, height=3.4)
    title, numeric = " × ".join(component.features), [points.dtype != object for points in component.grid]
    axes = [points if number else np.arange(len(points)) for points, number in zip(component.grid, numeric)]
    if len(axes) == 1:
        (points,), deviations = axes, 0.0 if component.std is None else 1.96 * component.std
        if component.std is not None:
            low, high = component.values - deviations, component.values + deviations
            ax.fill_between(points, low, high, color="#dfe2e6", linewidth=0, zorder=1, label="middle 95 %")
        ax.plot(
            points, component.values, color=DOWN, linewidth=1.6, zorder=3, marker="" if numeric[0] else "o"
        )
        ax.axhline(0.0, color=MUTED, linewidth=0.8, zorder=2)
        ax.set_xlabel(title)
        ax.set_ylabel("component")
    else:
        largest = np.abs(component.values).max() or 1.0
        mesh = ax.pcolormesh(
            *axes, component.values.T, cmap="RdBu_r", vmin=-largest, vmax=largest, shading="nearest"
        )
        ax.figure.colorbar(mesh, ax=ax, label=f"component {title}")
        ax.set_xlabel(component.features[0])
        ax.set_ylabel(component.features[-1])
        if not numeric[1]:
            ax.set_yticks(axes[1], component.grid[1])
    if not numeric[0]:
        ax.set_xticks(axes[0], component.grid[0])
    return ax


def waterfall(explanation: Explanation, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws the values of a row as steps from the base value to the prediction, the largest step on top."""
    e = _row(explanation, max_display, "waterfall")
    values, base, prediction = e._values[0, :, 0], e._base[0, 0], e._predictions[0, 0]
    lines = _lines(e, max_display, order=np.argsort(-np.abs(values), kind="stable"))
    steps = np.array([values[players].sum() for _, players in lines])
    if not e._core.is_efficient:
        lines, steps = [*lines, (LEFT_OVER, [])], np.append(steps, e._residual[0, 0])
    ax = _axes(ax, height=1.4 + 0.36 * len(lines))
    # The largest step is drawn last, next to the prediction.
    ends = base + np.append(0.0, np.cumsum(steps[::-1]))
    span = np.ptp(ends) or 1.0
    for y, (size, start, (_, players)) in enumerate(zip(steps[::-1], ends, lines[::-1])):
        colour = UP if size > 0 else DOWN
        ax.barh(y, size, left=start, color=colour, height=0.62, zorder=3)
        ax.plot([start + size] * 2, [y, y + 1], color=MUTED, linewidth=0.7, linestyle=":", zorder=2)
        half_width = _half_width(e, 0, players)
        _whisker(ax, y, start + size, half_width)
        end = max(start, start + size + (half_width or 0.0)) + 0.01 * span
        ax.annotate(_signed(size, half_width), (end, y), va="center", color=MUTED, fontsize="small")
    ax.axvline(base, color=MUTED, linewidth=0.7, linestyle=":", zorder=1)
    _name_lines(ax, [_with_value(e, name, players) for name, players in lines])
    ax.margins(x=0.14)
    ax.set_xlabel(f"base value {base:.4g}  →  prediction {prediction:.4g}{_interval_label(e)}")
    return ax


def scatter(
    explanation: Explanation,
    feature: str | int | None = None,
    ax: Axes | None = None,
    color: str | int | None = None,
) -> Axes:
    """Draws one feature's Shapley value against its value, with a dot for each row.

    ``feature`` is a name or number, by default the most important feature, or the only one of
    ``explanation[:, "bmi"]``. ``color`` is the feature whose value colours the dots."""
    e = _table(explanation, 1)
    j = int(_order(e)[0]) if feature is None else _feature(e, feature)
    cells = _cells(e, j)
    if cells is None:
        raise ValueError(
            f"'{e.feature_names[j]}' is of several columns and has no single value to draw against"
        )
    colour, names = (DOWN, {}) if color is None else _colours(e, _feature(e, color))
    ax = _axes(ax, height=3.6)
    numbers, levels = _numbers(cells)
    jitter = (
        0.0 if levels is None else 0.4 * (((np.arange(len(numbers)) + 0.5) * 0.6180339887498949) % 1 - 0.5)
    )
    ax.scatter(numbers + jitter, e._values[:, j, 0], c=colour, s=16, linewidths=0, zorder=3)
    deviations = _deviations(e)
    has_intervals = deviations is not None and len(numbers) <= MAX_ROWS_WITH_INTERVALS
    if has_intervals:
        half_widths = NORMAL_QUANTILE * deviations[:, j, 0]
        ax.errorbar(
            numbers + jitter,
            e._values[:, j, 0],
            yerr=half_widths,
            fmt="none",
            ecolor=NEUTRAL,
            elinewidth=0.8,
            alpha=0.6,
            zorder=2,
        )
    if levels is not None:
        ax.set_xticks(range(len(levels)), levels)
    ax.axhline(0.0, color=MUTED, linewidth=0.8, zorder=1)
    ax.set_xlabel(_feature_label(e, j))
    label = f"{_value_name(e)} of {e.feature_names[j]}{_interval_label(e) if has_intervals else ''}"
    ax.set_ylabel(textwrap.fill(label, 42, break_long_words=False))
    if names:
        for level, paint in names.items():
            ax.scatter([], [], c=paint, s=16, label=level)
        ax.legend(title=e.feature_names[_feature(e, color)], fontsize="small", frameon=False)
    elif color is not None and colour is not NEUTRAL:
        _colour_bar(ax, _feature_label(e, _feature(e, color)))
    return ax


def heatmap(explanation: Explanation, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws values as colours: rows as columns sorted by prediction, features as lines by importance."""
    e = _table(explanation, max_display)
    lines = _lines(e, max_display)
    ax = _axes(ax, height=1.2 + 0.32 * len(lines))
    order = np.argsort(e._predictions[:, 0], kind="stable")
    values = np.stack([e._values[order][:, players, 0].sum(axis=1) for _, players in lines])
    size = np.quantile(np.abs(values), 0.99) or np.abs(values).max() or 1.0
    image = ax.imshow(
        values, aspect="auto", cmap=_diverging(), vmin=-size, vmax=size, interpolation="nearest"
    )
    ax.set_yticks(range(len(lines)), [name for name, _ in lines])
    ax.set_xlabel("rows, from the lowest to the highest prediction")
    ax.figure.colorbar(image, ax=ax, label=_value_name(e), fraction=0.04, pad=0.02)
    return ax


def force(explanation: Explanation, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws one row's positive values (from the left) and negative values (from the right), which meet at the
    prediction."""
    e = _row(explanation, max_display, "force plot")
    values, base, prediction = e._values[0, :, 0], e._base[0, 0], e._predictions[0, 0]
    names = [_with_value(e, name, [j]) for j, name in enumerate(e.feature_names)]
    if not e._core.is_efficient:
        values, names = np.append(values, e._residual[0, 0]), [*names, LEFT_OVER]
    ax = _axes(ax, height=2.8)
    total = np.abs(values).sum() or 1.0
    for sign, colour in [(1, UP), (-1, DOWN)]:
        positions = [j for j in np.argsort(-np.abs(values), kind="stable").tolist() if values[j] * sign > 0]
        # Values that are too small to show, and those beyond max_display, share a bar; a single one keeps its
        # name.
        shown_count = sum(abs(values[j]) > 0.01 * total for j in positions[:max_display])
        shown_count = shown_count if len(positions) > shown_count + 1 else len(positions)
        lines = [(names[j], [j]) for j in positions[:shown_count]]
        if shown_count < len(positions):
            lines.append(
                (f"sum of {len(positions) - shown_count} {_omitted_label(e)}", positions[shown_count:])
            )
        end = prediction
        for k, (name, players) in enumerate(lines):
            size = values[players].sum()
            ax.barh(0, -size, left=end, color=colour, height=0.5, edgecolor="white", linewidth=0.8, zorder=3)
            half_width = _half_width(e, 0, players) if max(players) < len(e.feature_names) else None
            # Names extend outwards from the inner ends of bars, alternating between two levels; the name of
            # the sum is below them at the outer end.
            if len(players) > 1:
                text, x, y, side = f"{name}: {_signed(size, half_width)}", end - size, -1.75, "left"
            else:
                label = name.replace(" × ", " ×\n")
                text, x, y, side = (
                    f"{label}\n{_signed(size, half_width)}",
                    end,
                    (-0.36, -1.05)[k % 2],
                    "right",
                )
            if len(players) > 1 or abs(size) > 0.05 * total:
                side = side if sign > 0 else {"left": "right", "right": "left"}[side]
                ax.annotate(
                    text,
                    (x, y),
                    (3 * (1 if side == "left" else -1), 0),
                    textcoords="offset points",
                    ha=side,
                    va="top",
                    fontsize="small",
                    color=MUTED,
                )
            end -= size
    ax.axvline(base, color=MUTED, linewidth=0.8, linestyle=":")
    ax.annotate(f"base value {base:.4g}", (base, 0.62), ha="center", fontsize="small", color=MUTED)
    ax.axvline(prediction, color="black", linewidth=1.0, zorder=4)
    ax.annotate(
        f"prediction {prediction:.4g}", (prediction, 0.4), ha="center", fontsize="small", fontweight="bold"
    )
    ax.set_ylim(-2.2, 0.9)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.margins(x=0.08)
    ax.set_xlabel(_value_name(e).replace(e._core.value_name, "model output") + _interval_label(e))
    return ax


def interactions(explanation: Explanation, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws values of an index of interactions as a matrix. Single features are on the diagonal, framed and
    with their own colour scale. A pair is drawn twice, each time with its full value. Values are means of
    ``|value|`` over rows; for a single row its values. The features are those with the largest total value;
    the strongest sets of three or more features are named below."""
    e = _table(explanation, max_display, single=True)
    strengths = _InteractionStrengths.from_explanation(e)
    players = strengths.players(max_display)
    n, names = len(players), [e.feature_names[strengths.single_sets[j]] for j in players]
    values = strengths.matrix[np.ix_(players, players)]
    diagonal = np.eye(n, dtype=bool)
    ax = _axes(ax, height=1.6 + 0.34 * n)
    for image, (cells, colours) in enumerate([(~diagonal, True), (diagonal, False)]):
        size = np.abs(values[cells]).max(initial=0.0) or 1.0
        lowest = -size if strengths.single else 0.0
        shown_values = np.ma.array(values, mask=~cells)
        cmap = _diverging() if strengths.single else _sizes()
        image_of_pairs = ax.imshow(
            shown_values,
            aspect="auto",
            cmap=cmap,
            vmin=lowest,
            vmax=size,
            interpolation="nearest",
            zorder=image,
        )
        if colours:
            ax.figure.colorbar(image_of_pairs, ax=ax, label="pairs", fraction=0.04, pad=0.02)
        for k, column in zip(*np.nonzero(cells)) if n <= 12 else ():
            paint = "white" if abs(values[k, column]) > 0.7 * size else "#1d2229"
            text = _signed(values[k, column]) if strengths.single else f"{values[k, column]:.2g}"
            ax.annotate(
                text, (column, k), ha="center", va="center", fontsize="x-small", color=paint, zorder=4
            )
    for k in range(n):
        ax.plot(
            k + np.array([-0.5, 0.5, 0.5, -0.5, -0.5]),
            k + np.array([-0.5, -0.5, 0.5, 0.5, -0.5]),
            color=MUTED,
            zorder=3,
        )
    ax.set_yticks(range(n), names)
    ax.set_xticks(range(n), names, rotation=0 if n * max(map(len, names)) < 70 else 90)
    ax.tick_params(length=0)
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
    ax.spines[:].set_visible(False)
    ax.set_xlabel(
        _notes(
            f"{strengths.title(e)}; on the diagonal, of features alone",
            strengths.larger(e),
            strengths.left_out(n),
        ),
        fontsize="small",
        color=MUTED,
    )
    return ax


def network(explanation: Explanation, ax: Axes | None = None, max_display: int | None = 10) -> Axes:
    """Draws features on a circle, as discs whose areas are the values of single features, and the
    ``max_display`` strongest pairs as lines whose widths are their values: means of ``|value|`` over rows.
    For a single row, colours show the signs of its values."""
    e = _table(explanation, max_display, single=True)
    strengths = _InteractionStrengths.from_explanation(e)
    players = strengths.players(max_display)
    n, position_of_player = len(players), {j: k for k, j in enumerate(players)}
    colour = lambda value: (UP if value > 0 else DOWN) if strengths.single else DOWN
    ax = _axes(ax, height=5.2)
    from matplotlib.patheffects import withStroke

    angles = np.pi / 2 - (np.arange(n) + 0.5) / n * 2 * np.pi
    x, y = np.cos(angles), np.sin(angles)
    drawn_pairs = [
        (a, b)
        for a, b in strengths.pairs
        if a in position_of_player and b in position_of_player and strengths.matrix[a, b] != 0.0
    ][:max_display]
    largest_strength = abs(strengths.matrix[drawn_pairs[0]]) if drawn_pairs else 1.0
    for a, b in drawn_pairs[::-1]:
        part, ends = (
            abs(strengths.matrix[a, b]) / largest_strength,
            [position_of_player[a], position_of_player[b]],
        )
        paint = colour(strengths.matrix[a, b])
        ax.plot(x[ends], y[ends], color=paint, linewidth=0.6 + 6.0 * part, alpha=0.25 + 0.6 * part, zorder=2)
    single_values = strengths.matrix[players, players]
    areas = 500.0 * min(1.0, 10.0 / n) * np.abs(single_values) / (np.abs(single_values).max() or 1.0)
    ax.scatter(
        x,
        y,
        s=np.maximum(areas, 10.0),
        c=[colour(v) for v in single_values],
        edgecolors="white",
        linewidths=1.0,
        zorder=3,
    )
    for k, j in enumerate(players):
        side, label_distance = (-1 if x[k] < -1e-9 else 1), np.sqrt(max(areas[k], 10.0)) / 2 + 4.0
        ax.annotate(
            e.feature_names[strengths.single_sets[j]],
            (x[k], y[k]),
            (side * label_distance, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            zorder=4,
            path_effects=[withStroke(linewidth=3.0, foreground=ax.get_facecolor())],
        )
    ax.set_aspect("equal")
    ax.margins(0.14)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    omitted = len(strengths.pairs) - len(drawn_pairs)
    size = lambda pairs: sum(abs(strengths.matrix[pair]) for pair in pairs)
    share = 1.0 - size(drawn_pairs) / (size(strengths.pairs) or 1.0)
    omitted_text = (
        f"The other {omitted} pairs hold {share:.1%} of what pairs are worth in size." if omitted else ""
    )
    notes = _notes(
        f"{strengths.title(e)}: areas of features alone, widths of pairs",
        omitted_text,
        strengths.larger(e),
        strengths.left_out(n),
    )
    ax.set_xlabel(notes, fontsize="small", color=MUTED)
    return ax


# What the plots share
# -----------------------------------------------------------------------------------------------------


def _table(explanation: Explanation, max_display: int | None, single: bool = False) -> Explanation:
    """Checks that the explanation has one output, and several rows unless ``single``."""
    if not isinstance(explanation, Explanation):
        raise TypeError(f"a riesz.Explanation is needed, not a {type(explanation).__name__}")
    if len(explanation.output_names) != 1:
        raise ValueError(
            f"the explanation has {len(explanation.output_names)} outputs: pick one, as in "
            f"explanation[..., '{explanation.output_names[0]}']"
        )
    if max_display is not None and (not is_whole(max_display) or max_display < 1):
        raise ValueError(f"max_display = {max_display!r}: it is a whole number from 1, or None for all")
    if not explanation._values.size:
        raise ValueError("the explanation has no values to draw")
    if explanation._squeezed[0] and not single:
        raise ValueError("the explanation has a single row: draw it with waterfall, force or bar")
    return explanation


@dataclass
class _InteractionStrengths:
    """The strengths of single features, pairs and larger sets: the values of a single row, otherwise means of
    ``|value|``."""

    single: bool
    strength: np.ndarray
    subsets: list[list[int]]
    #: Strength of each pair, (players, players), with single features on the diagonal.
    matrix: np.ndarray
    #: For each player the index of its one-element set.
    single_sets: dict[int, int]

    @classmethod
    def from_explanation(cls, e: Explanation) -> _InteractionStrengths:
        subsets = e._core.subsets
        if subsets is None:
            raise ValueError(
                f"the explanation has {e._core.value_name}s of single features and no interactions to draw: "
                "explain with Explainer(model, background, index='k-SII'), or another index of pairs"
            )
        e._check_whole()
        values = e._values[:, :, 0]
        single = e._squeezed[0] or len(values) == 1
        strength = values[0] if single else np.abs(values).mean(axis=0)
        d = max(map(max, subsets)) + 1
        matrix = np.zeros((d, d))
        for k, subset in enumerate(subsets):
            if len(subset) <= 2:
                matrix[subset[0], subset[-1]] = matrix[subset[-1], subset[0]] = strength[k]
        return cls(
            single,
            strength,
            subsets,
            matrix,
            {subset[0]: k for k, subset in enumerate(subsets) if len(subset) == 1},
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of players, the strongest first."""
        order = np.argsort(-np.abs(self.strength), kind="stable")
        return [(self.subsets[k][0], self.subsets[k][1]) for k in order if len(self.subsets[k]) == 2]

    def players(self, max_display: int | None) -> list[int]:
        """Returns the players with the largest total strength, in their own order."""
        total_strengths = np.zeros(len(self.matrix))
        for subset, value in zip(self.subsets, self.strength):
            total_strengths[subset] += abs(value)
        return sorted(np.argsort(-total_strengths, kind="stable")[:max_display].tolist())

    def title(self, e: Explanation) -> str:
        return _value_name(e) if self.single else f"mean |{_value_name(e)}|"

    def larger(self, e: Explanation) -> str:
        """Returns a sentence about the strongest sets of three or more features."""
        sets = [k for k in np.argsort(-np.abs(self.strength), kind="stable") if len(self.subsets[k]) > 2]
        names = [
            f"{e.feature_names[k]} {_signed(self.strength[k]) if self.single else f'{self.strength[k]:.3g}'}"
            for k in sets[:3]
        ]
        further = [f"and {len(sets) - 3} more"] if len(sets) > 3 else []
        size = "three" if max(map(len, self.subsets)) == 3 else "three or more"
        return f"Sets of {size} features: {', '.join([*names, *further])}." if sets else ""

    def left_out(self, drawn: int) -> str:
        count = len(self.matrix) - drawn
        return (
            f"Not drawn: the {f'{count} features' if count > 1 else 'feature'} with the smallest total "
            "|value|."
            if count
            else ""
        )


def _row(explanation: Explanation, max_display: int | None, label: str) -> Explanation:
    e = _table(explanation, max_display, single=True)
    if not e._core.is_complete:
        raise ValueError(
            f"a {label} adds up to the prediction, which the values of some of the features do not: "
            "draw the whole explanation's row"
        )
    if len(e._values) != 1:
        raise ValueError(
            f"a {label} shows one row, and the explanation has {len(e._values)}: pick one, as in "
            "explanation[0]"
        )
    return e


def _order(e: Explanation) -> np.ndarray:
    return np.argsort(-np.abs(e._values[:, :, 0]).mean(axis=0), kind="stable")


def _lines(
    e: Explanation, max_display: int | None, order: np.ndarray | None = None
) -> list[tuple[str, list[int]]]:
    """Returns players by importance, one per line. The least important players share the last line, unless
    that would hide only one name."""
    players = (_order(e) if order is None else order).tolist()
    shown_count = len(players) if max_display is None or len(players) <= max_display + 1 else max_display
    lines = [(e.feature_names[j], [j]) for j in players[:shown_count]]
    if shown_count < len(players):
        lines.append((f"sum of {len(players) - shown_count} {_omitted_label(e)}", players[shown_count:]))
    return lines


def _omitted_label(e: Explanation) -> str:
    return "other features" if e._core.subsets is None else "others"


def _name_lines(ax: Axes, names: list[str]) -> None:
    ax.set_yticks(range(len(names))[::-1], names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _feature(e: Explanation, feature: str | int | None) -> int:
    if isinstance(feature, str):
        if feature not in e.feature_names:
            raise KeyError(f"there is no feature '{feature}'; there are: {', '.join(e.feature_names)}")
        return e.feature_names.index(feature)
    return range(len(e.feature_names))[feature]  # type: ignore[index]


def _cells(e: Explanation, player: int) -> np.ndarray | None:
    """Returns the feature's values; ``None`` for a group of columns."""
    columns = e._players[player][1]
    return e._data[:, columns[0]] if len(columns) == 1 else None


def _numbers(cells: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Returns cells as numbers, and the names of levels if they are not numeric."""
    try:
        return cells.astype(np.float64), None
    except (TypeError, ValueError):
        levels, codes = np.unique([str(cell) for cell in cells], return_inverse=True)
        return codes.astype(np.float64), levels.tolist()


def _colours(e: Explanation, player: int, max_characters: int | None = None) -> tuple[Any, dict[str, str]]:
    """Returns the colours of a feature's dots, and for levels the colour of each. The rarest levels share a
    colour, as do those whose names do not fit into ``max_characters`` characters."""
    cells = _cells(e, player)
    if cells is None:
        return NEUTRAL, {}
    numbers, levels = _numbers(cells)
    if levels is None:
        shade = _shade(numbers)
        return (NEUTRAL if shade is None else _ramp()(shade)), {}
    counts = np.bincount(numbers.astype(int), minlength=len(levels))
    frequent = np.argsort(-counts, kind="stable")[: len(LEVELS)]
    if max_characters is not None:
        frequent = frequent[
            : max(1, int((np.cumsum([len(levels[k]) for k in frequent]) <= max_characters).sum()))
        ]
    paints = np.full(len(levels), NEUTRAL, dtype=object)
    paints[frequent] = LEVELS[: len(frequent)]
    names = {levels[k]: paints[k] for k in frequent}
    if len(levels) > len(frequent):
        names[f"{len(levels) - len(frequent)} others"] = NEUTRAL
    return list(paints[numbers.astype(int)]), names


def _name_levels(ax: Axes, y: float, names: dict[str, str]) -> None:
    """Writes the levels in their colours below the name of a line."""
    from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea

    if names:
        texts: list[Any] = [
            TextArea(level, textprops={"color": colour, "fontsize": "x-small"})
            for level, colour in names.items()
        ]
        box = HPacker(children=texts, pad=0, sep=5)
        ax.add_artist(
            AnnotationBbox(
                box,
                (0, y),
                xycoords=ax.get_yaxis_transform(),
                xybox=(-6, -10),
                boxcoords="offset points",
                box_alignment=(1, 0.5),
                frameon=False,
                pad=0,
            )
        )


def _shade(numbers: np.ndarray) -> np.ndarray | None:
    """Returns feature values scaled from 0 (5 % quantile) to 1 (95 % quantile); ``None`` if they are all
    equal."""
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return None
    low, high = np.quantile(finite, [0.05, 0.95])
    if low == high:
        low, high = finite.min(), finite.max()
    return None if low == high else np.clip((np.nan_to_num(numbers, nan=low) - low) / (high - low), 0.0, 1.0)


def _swarm(values: np.ndarray, span: float) -> np.ndarray:
    """Returns heights at which dots with similar values do not hide each other, within a line of height
    0.76."""
    bins = np.floor(values / (span / 120)).astype(int)
    height = np.zeros(len(values))
    stacks = [np.flatnonzero(bins == b) for b in np.unique(bins)]
    step = min(0.11, 0.76 / max(max(len(stack) for stack in stacks) - 1, 1))
    for stack in stacks:
        rank = np.arange(len(stack))
        height[stack] = np.where(rank % 2, 1, -1) * ((rank + 1) // 2) * step
    return height


def _colour_bar(ax: Axes, label: str) -> None:
    from matplotlib.cm import ScalarMappable

    bar = ax.figure.colorbar(
        ScalarMappable(cmap=_ramp()), ax=ax, ticks=[0, 1], label=label, fraction=0.03, pad=0.02
    )
    bar.ax.set_yticklabels(["low", "high"])
    bar.outline.set_visible(False)


def _feature_label(e: Explanation, player: int) -> str:
    """Returns the feature's name, with a suffix if its values are differences."""
    columns, name = e._players[player][1], e.feature_names[player]
    return name + LESS if len(columns) == 1 and e.column_names[columns[0]].endswith(LESS) else name


def _with_value(e: Explanation, name: str, players: list[int]) -> str:
    cells = _cells(e, players[0]) if len(players) == 1 else None
    if cells is None:
        return name
    name = _feature_label(e, players[0])
    try:
        # Differences are written with their sign.
        value = (
            f"{float(cells[0]):+.4g}".replace("-", "−") if name.endswith(LESS) else f"{float(cells[0]):.4g}"
        )
        return f"{name} = {value}"
    except (TypeError, ValueError):
        return f"{name} = {cells[0]}"


def _signed(value: float, half_width: float | None = None) -> str:
    """Returns the value as text, with half of its interval if there is one."""
    return f"{value:+.3g}".replace("-", "−") + ("" if half_width is None else f" ± {half_width:.2g}")


def _interval_label(e: Explanation) -> str:
    """Returns the label of whiskers; empty if there are none."""
    if _deviations(e) is None:
        return ""
    return f", {INTERVAL_LABEL}" + (" of the estimates" if e._std is None else "")


def _deviations(e: Explanation) -> Any:
    """Returns the standard deviations of values, or the standard errors of estimates without them."""
    return e._std_error if e._std is None else e._std


def _half_width(e: Explanation, row: int, players: list[int]) -> float | None:
    """Returns half of the interval of a sum of values of a row; ``None`` if it is not known."""
    deviations = _deviations(e)
    if deviations is None or not players:
        return None
    if len(players) == 1:
        return NORMAL_QUANTILE * float(deviations[row, players[0], 0])
    if e._covariance is None:
        return None
    variance = e._covariance[row][np.ix_(players, players)][:, :, 0].sum()
    return NORMAL_QUANTILE * float(np.sqrt(max(variance, 0.0)))


def _mean_half_width(e: Explanation, players: list[int]) -> float | None:
    return None if e._std is None else NORMAL_QUANTILE * float(e._std[:, players, 0].mean(axis=0).sum())


def _whisker(ax: Axes, y: float, x: float, half_width: float | None, minimum: float | None = None) -> None:
    if half_width is not None:
        lower_width = half_width if minimum is None else min(half_width, x - minimum)
        ax.errorbar(
            x,
            y,
            xerr=[[lower_width], [half_width]],
            fmt="none",
            ecolor="black",
            elinewidth=1.0,
            capsize=3,
            zorder=5,
        )


def _value_name(e: Explanation) -> str:
    name = e.output_names[0]
    return e._core.value_name if name == "y" else f"{e._core.value_name} for {name}"
