"""Plots of rankings and preferences."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.parameters import is_whole
from .._data.validation import collected, names_of
from ._style import DOWN, LEVELS, MUTED, _axes, _diverging, _notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of guide lines and of unknown cells.
FAINT, UNKNOWN = "#e6e8ec", "#c3c8cf"
#: Distance in points between the circles of a ladder, and the curvature of their arrows.
LANE, BULGE = 30.0, 9.0
#: Probabilities are clipped to [CLIP, 1 - CLIP] for mean log odds.
CLIP = 1e-9


def ladder(
    rankability: Any,
    max_display: int | None = 30,
    ax: Axes | None = None,
    *,
    max_cycles: int = 4,
    best: bool = True,
) -> Axes:
    """Draws items by utility, one per line and the best on top, with the credible intervals of
    :func:`riesz.preference.rankability`.

    Columns beside the lines show ranks with their intervals and, with ``best``, the probability that an item
    is the best. Each of the ``max_cycles`` most probable circles among the shown items has a lane. Its
    arrows lead from an item to the one that it beats, and the circle's probability is above them.
    ``max_display`` is the number of items shown, the best ones, or ``None`` for all. The columns are right of
    ``ax``, which needs room there; a figure with ``layout="constrained"`` makes it."""
    from ..preference._rankability import Rankability

    if not isinstance(rankability, Rankability):
        raise TypeError(f"a riesz.preference.Rankability is needed, not a {type(rankability).__name__}")
    if max_display is not None and (not is_whole(max_display) or max_display < 1):
        raise ValueError(f"max_display = {max_display!r}: it is a whole number from 1, or None for all")
    if not is_whole(max_cycles) or max_cycles < 0:
        raise ValueError(f"max_cycles = {max_cycles!r}: it is a whole number from 0")
    r = rankability
    order = np.argsort(-r.utility, kind="stable")[:max_display]
    count, names = len(order), [_short(r.items[i]) for i in order]
    height_of_item = {r.items[i]: y for y, i in zip(range(count)[::-1], order)}
    drawable = [
        (triad, probability)
        for triad, probability in r.cycles
        if all(item in height_of_item for item in triad)
    ]
    drawn_cycles = drawable[:max_cycles]
    ax = _axes(ax, height=1.3 + 0.22 * count)
    heights = np.arange(count)[::-1]
    utility, (low, high) = r.utility[order], r.utility_interval[order].T
    ax.errorbar(
        utility,
        heights,
        xerr=np.maximum([utility - low, high - utility], 0.0),
        fmt="o",
        color=DOWN,
        ecolor=MUTED,
        elinewidth=1.1,
        capsize=2,
        markersize=4.5,
        zorder=3,
    )
    ax.axvline(0.0, color=MUTED, linewidth=0.8, linestyle=":", zorder=1)
    ax.set_yticks(heights, names)
    ax.set_ylim(-0.6, count - 0.4)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    margin = _margin_transform(ax)
    for y in heights:
        ax.plot([0, 1], [y, y], color=FAINT, linewidth=0.8, zorder=0, transform=ax.get_yaxis_transform())
        if drawn_cycles:
            lane_width = LANE * len(drawn_cycles)
            ax.plot(
                [0, lane_width], [y, y], color=FAINT, linewidth=0.8, zorder=0, transform=margin, clip_on=False
            )
    for k, (triad, probability) in enumerate(drawn_cycles):
        _circle(
            ax,
            [height_of_item[item] for item in triad],
            LANE * (k + 0.5),
            LEVELS[k % len(LEVELS)],
            probability,
        )
    columns = [("place", [f"{r.rank[i]}  ({r.rank_interval[i][0]}–{r.rank_interval[i][1]})" for i in order])]
    if best:
        columns.append(("best", [_probability_text(r.probability_best[i]) for i in order]))
    offset = LANE * len(drawn_cycles) + 8.0
    for title, cells in columns:
        offset += 5.2 * max(map(len, [title, *cells]))
        for y, text in zip(heights, cells):
            _margin_text(ax, text, offset, y, "right", color=MUTED)
        _margin_text(ax, title, offset, count - 0.4, "right", above=True, color="black")
        offset += 10.0
    omitted_count, undrawn_count = len(r.items) - count, len(r.cycles) - len(drawable)
    remarks = [
        "Arrows: cycles of three items, each beating the next, with probabilities." if drawn_cycles else "",
        f"Not drawn: {_number(omitted_count, 'item')} below." if omitted_count else "",
        f"{'All' if not drawable else f'{undrawn_count} of the'} "
        f"{_number(len(r.cycles), 'most probable cycle')} "
        "contain an item that is not drawn."
        if undrawn_count and max_cycles
        else "",
    ]
    ax.set_xlabel(
        _notes(
            f"utility: mean log odds against all items, {100 * r.level:g} % intervals", *remarks, width=60
        ),
        loc="left",
    )
    return ax


def preference_matrix(
    model: Any,
    items: Any = None,
    clusters: Any = None,
    order: Sequence[int] | None = None,
    ax: Axes | None = None,
    **circumstances: Any,
) -> Axes:
    """Draws the probability that the row's item beats the column's item as colours, and as numbers for up to
    12 items. Names that would be too small to read are omitted.

    Parameters
    ----------
    model : fitted model of duels, or array (items, items)
        A :class:`riesz.PreferenceClassifier` or :class:`riesz.preference.PairClassifier`; a tie counts as
        half a win. Or a matrix of probabilities, or of shares of duels won, with NaN for unknown pairs; its
        diagonal is ignored.
    items : array, data frame or list
        For a model its items, named by the data frame's index or by number; for a "bradley_terry" model their
        labels are enough. For probabilities the names, by default the index of their data frame.
    clusters : array (items,) or PreferenceClusters, optional
        The cluster of each item. Items of a cluster are adjacent, and lines separate the clusters.
    order : list of int, optional
        Numbers of the shown items, from the top, for example ``np.argsort(-found.utility)`` of a
        :class:`riesz.preference.Rankability`. By default all items are sorted by mean log odds against the
        others, within clusters against the items of the cluster.
    circumstances
        The contexts, users, home and names of the duels, as in
        :meth:`riesz.PreferenceClassifier.predict_proba`.
    """
    probabilities, names = _probabilities(model, items, circumstances)
    count = len(probabilities)
    if clusters is not None and order is not None:
        raise ValueError(
            "clusters and order: clusters come with an order of their own, so give one of the two"
        )
    labels = None if clusters is None else np.asarray(getattr(clusters, "labels_", clusters))
    if labels is not None and labels.shape != (count,):
        raise ValueError(
            f"clusters have the shape {labels.shape}: it is one label for each of the {count} items"
        )
    log_odds = _log_odds(probabilities)
    if labels is not None:
        kinds_of_labels, codes = np.unique(labels, return_inverse=True)
        kinds = [
            _short(kind if isinstance(kind, str) else f"cluster {kind}", 22)
            for kind in kinds_of_labels.tolist()
        ]
        members = [np.flatnonzero(codes == code) for code in range(len(kinds_of_labels))]
        groups = [group[_utility_order(log_odds[np.ix_(group, group)])] for group in members]
        shown_items = np.concatenate(groups)
    else:
        kinds, groups = [], []
        shown_items = _utility_order(log_odds) if order is None else _checked_order(order, count)
    n = len(shown_items)
    shown_names = [_short(names[i], 22) for i in shown_items]
    side = float(np.clip(1.2 + 0.15 * n, 3.6, 9.0))
    cell_points, longest = 72 * side / n, max(map(len, shown_names))
    longest_kind = max((len(name) for name in kinds), default=0)
    if ax is not None:
        extent = ax.get_window_extent()
        cell_points = 72 / ax.figure.dpi * min(extent.width, extent.height) / n
    size = min(10.0, 0.8 * cell_points)
    names_width = 0.62 * longest * size / 72
    ax = _axes(ax, height=side + 0.4 + names_width, width=side + 1.5 + names_width + 0.08 * longest_kind)
    cells = np.ma.array(probabilities[np.ix_(shown_items, shown_items)], mask=np.eye(n, dtype=bool))
    cells.mask |= np.isnan(cells.filled(np.nan))
    image = ax.imshow(
        cells,
        cmap=_diverging().with_extremes(bad=UNKNOWN),
        vmin=0.0,
        vmax=1.0,
        interpolation="nearest",
        aspect="auto",
    )
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
    if size >= 4.0:
        ax.set_xticks(
            range(n),
            shown_names,
            rotation=90 if 0.65 * size * longest > cell_points - 3 else 0,
            fontsize=size,
        )
        ax.set_yticks(range(n), shown_names, fontsize=size)
    else:
        ax.set(xticks=[], yticks=[])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if n <= 12 and cell_points > 14:
        for i, j in zip(*np.nonzero(~cells.mask)):
            colour = "white" if abs(cells[i, j] - 0.5) > 0.38 else "black"
            ax.text(
                j,
                i,
                _probability_text(cells[i, j]),
                ha="center",
                va="center",
                fontsize=min(8.0, 0.36 * cell_points),
                color=colour,
            )
    start = 0
    for kind, group in zip(kinds, groups):
        if start:
            ax.axhline(start - 0.5, color="black", linewidth=1.2, zorder=3)
            ax.axvline(start - 0.5, color="black", linewidth=1.2, zorder=3)
        _margin_text(ax, kind, 5.0, start + len(group) / 2 - 0.5)
        start += len(group)
    padding = 0.02 if not kinds or ax.figure.get_layout_engine() is not None else 0.2
    bar = ax.figure.colorbar(
        image,
        ax=ax,
        label="probability that the row's item beats the column's",
        fraction=0.04,
        pad=padding,
        ticks=[0, 0.25, 0.5, 0.75, 1],
    )
    bar.outline.set_visible(False)
    return ax


# What stands beside and below a ladder
# ------------------------------------------------------------------------------------


def _margin_transform(ax: Any) -> Any:
    """Returns the transform for the right margin: points from the right edge, and heights of the axes."""
    from matplotlib.transforms import Affine2D, ScaledTranslation, blended_transform_factory

    points = Affine2D().scale(1 / 72) + ax.figure.dpi_scale_trans + ScaledTranslation(1, 0, ax.transAxes)
    return blended_transform_factory(points, ax.transData)


def _margin_text(
    ax: Axes, text: str, points: float, y: float, side: str = "left", above: bool = False, color: str = MUTED
) -> None:
    ax.annotate(
        text,
        (1, y),
        (points, 4 if above else 0),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        ha=side,
        va="bottom" if above else "center",
        fontsize="small",
        color=color,
        annotation_clip=False,
    )


def _circle(ax: Axes, heights: list[float], lane: float, colour: str, probability: float) -> None:
    """Draws three items and the arrows between them, in a lane right of the axes."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    middle, margin = sorted(heights)[1], _margin_transform(ax)
    for start, end in zip(heights, [*heights[1:], heights[0]]):
        # Arrows between neighbours curve to the left, the arrow over both to the right.
        bulge = BULGE * (-1 if middle in (start, end) else 1) * 4 / 3
        path = Path([(lane, start), (lane + bulge, start), (lane + bulge, end), (lane, end)], [1, 4, 4, 4])
        arrow = FancyArrowPatch(
            path=path,
            arrowstyle="-|>,head_length=0.55,head_width=0.28",
            mutation_scale=9,
            color=colour,
            linewidth=1.1,
            transform=margin,
            clip_on=False,
            zorder=4,
        )
        ax.add_artist(arrow)
    ax.plot([lane] * 3, heights, "o", color=colour, markersize=3.5, transform=margin, clip_on=False, zorder=5)
    _margin_text(
        ax, _probability_text(probability), lane, ax.get_ylim()[1], "center", above=True, color=colour
    )


def _probability_text(probability: float) -> str:
    """Returns a probability with two digits; only exact 0 and 1 are written as 0 and 1."""
    if probability in (0.0, 1.0):
        return f"{probability:g}"
    if probability < 0.005:
        return "<.01"
    return ">.99" if probability >= 0.995 else f"{probability:.2f}".removeprefix("0")


def _short(name: Any, limit: int = 30) -> str:
    """Returns a long name without its middle, because beginnings are often alike."""
    text = textwrap.shorten(str(name), 10_000)
    return (
        text if len(text) <= limit else f"{text[: limit // 2]}…{text[len(text) - (limit - limit // 2 - 1) :]}"
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


# Who beats whom
# -----------------------------------------------------------------------------------------------------------


def _probabilities(model: Any, items: Any, circumstances: dict[str, Any]) -> tuple[np.ndarray, list]:
    """Returns the probabilities of all ordered pairs, and the names of items."""
    if hasattr(model, "predict_proba"):
        return _predicted(model, items, circumstances)
    if circumstances:
        raise TypeError(
            f"{', '.join(circumstances)}: a matrix of probabilities has no contexts, users, home or ids: "
            f"give a "
            "model"
        )
    try:
        probabilities = np.array(model, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"model is a {type(model).__name__}: it is a fitted model of duels, or a matrix of probabilities"
        ) from None
    if probabilities.ndim != 2 or probabilities.shape[0] != probabilities.shape[1] or len(probabilities) < 2:
        raise ValueError(
            f"the matrix has the shape {probabilities.shape}: it is one probability for each pair of 2 "
            f"items or more"
        )
    off_diagonal = probabilities[~np.eye(len(probabilities), dtype=bool)]
    if not ((off_diagonal >= 0) & (off_diagonal <= 1) | np.isnan(off_diagonal)).all():
        raise ValueError(
            "the matrix has entries outside 0 to 1: they are probabilities that the row's item wins, or NaN"
        )
    names = _names(model if items is None else items, len(probabilities), items is not None)
    if len(names) != len(probabilities):
        raise ValueError(
            f"there are {len(names)} names of items, and the matrix has {len(probabilities)} rows"
        )
    return probabilities, names


def _predicted(model: Any, items: Any, circumstances: dict[str, Any]) -> tuple[np.ndarray, list]:
    if items is None:
        raise ValueError("items: a model predicts duels between items, so give them")
    items = collected(items)
    count = len(items)
    if count < 2:
        raise ValueError(f"items have {count} row{'s' * (count != 1)}: duels take 2 or more")
    if getattr(model, "model", None) == "bradley_terry":
        names = _names(items, count, np.ndim(items) == 1)
        items = np.array([str(name) for name in names], dtype=object)
    else:
        names = _names(items, count, False)
    first, second = np.nonzero(~np.eye(count, dtype=bool))
    predicted = np.asarray(
        model.predict_proba(_rows_at(items, first), _rows_at(items, second), **circumstances)
    )
    classes = model.classes_.tolist()
    win_probability = predicted[:, classes.index("left")]
    probabilities = np.full((count, count), 0.5)
    probabilities[first, second] = (
        win_probability + 0.5 * predicted[:, classes.index("tie")] if "tie" in classes else win_probability
    )
    return probabilities, names


def _names(items: Any, count: int, are_names: bool) -> list:
    """Returns the names in an index, the items themselves if they are names, or numbers."""
    index = getattr(items, "index", None)
    if index is not None and not callable(index):
        return list(index)
    return list(items) if are_names else list(range(count))


def _rows_at(items: Any, rows: np.ndarray) -> Any:
    if hasattr(items, "iloc"):
        return items.iloc[rows]
    return items[rows] if names_of(items) is not None else np.asarray(items)[rows]


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Returns the log odds, with NaN for unknown pairs and on the diagonal."""
    clipped = np.clip(probabilities, CLIP, 1 - CLIP)
    log_odds = np.log(clipped) - np.log1p(-clipped)
    np.fill_diagonal(log_odds, np.nan)
    return log_odds


def _utility_order(log_odds: np.ndarray) -> np.ndarray:
    is_known = ~np.isnan(log_odds)
    mean = np.where(is_known, log_odds, 0.0).sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)
    return np.argsort(-mean, kind="stable")


def _checked_order(order: Any, count: int) -> np.ndarray:
    positions = np.asarray(order)
    is_index = positions.ndim == 1 and len(positions) >= 2 and positions.dtype.kind in "iu"
    if (
        not is_index
        or positions.min() < 0
        or positions.max() >= count
        or len(set(positions.tolist())) < len(positions)
    ):
        raise ValueError(f"order: it is the numbers of 2 or more of the {count} items, from 0, each once")
    return positions
