"""The common style of all plots: axes, colours, and the notes below a plot."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UP, DOWN, NEUTRAL, MUTED = "#d55e00", "#1f6fb2", "#868d96", "#5b6470"

#: Colours of levels, which have no order: no colour is between two others.
LEVELS = ["#4a6fd0", "#b07d00", "#00856f", "#c2416b", "#8a5fbf", "#5b7f1c"]


def _axes(ax: Axes | None, height: float, width: float = 7.2) -> Axes:
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ModuleNotFoundError as error:
            if error.name != "matplotlib":
                raise
            raise ModuleNotFoundError(
                "plots take matplotlib: pip install 'riesz[plot]'", name=error.name
            ) from None

        ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    # Bars need space on both sides.
    ax.use_sticky_edges = False
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _ramp() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("riesz", [DOWN, "#9a8f97", UP])


def _diverging() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("riesz_diverging", [DOWN, "#f4f5f7", UP])


def _sizes() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("riesz_sizes", ["#f4f5f7", DOWN])


def _notes(*sentences: str, width: int = 90) -> str:
    return "\n".join(textwrap.fill(sentence, width) for sentence in sentences if sentence)
