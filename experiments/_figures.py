"""Helpers that the experiments share: the folder of figures and tables, and their style."""

from __future__ import annotations

import argparse
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

FOLDER = pathlib.Path(__file__).parent
COLOURS = ["#1f6fb2", "#d55e00", "#009e73", "#868d96", "#cc79a7", "#e69f00"]


def chosen(parts: dict) -> argparse.ArgumentParser:
    """A parser for the parts of an experiment to run; a parent of its ``arguments``."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(parts) + "; by default all")
    return parser


def run(
    parts: dict, options: argparse.Namespace, name: str, count: int, text: str, columns: int | None = None
) -> None:
    """Runs the requested parts, prints the table of each part when it is done, and saves a figure of
    ``count`` panels that they share."""
    figure, axes = panels(count, columns=columns)
    for part in (part for key, part in parts.items() if not options.parts or key in options.parts):
        report = part(options, axes)
        print(report, flush=True)
        text += report
    finish(options, name, figure, text)


def arguments(doc: str, parents: tuple[argparse.ArgumentParser, ...] = ()) -> argparse.Namespace:
    """The options ``--full`` for the published sizes and ``--output`` for the folder of results, and those
    of ``parents``."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, parents=list(parents)
    )
    parser.add_argument("--full", action="store_true", help="the published sizes, which take longer")
    parser.add_argument(
        "--output", type=pathlib.Path, default=FOLDER / "results", help="folder for figure and table"
    )
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def panels(count: int, height: float = 3.4, columns: int | None = None):
    """A figure with ``count`` axes in rows of ``columns``, by default in one row."""
    columns = min(columns or count, count)
    rows = -(-count // columns)
    size = (4.2 * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, constrained_layout=True, squeeze=False)
    axes = list(axes.ravel())
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def table(header: list[str], rows: list[list]) -> str:
    """A Markdown table."""
    text = lambda cell: f"{cell:.3f}" if isinstance(cell, float) else str(cell)
    lines = [header, ["---"] * len(header), *[[text(cell) for cell in row] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def mean_and_sd(values) -> str:
    """The mean and the standard deviation of several runs."""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def criterion_text(value: float, low: float = -np.inf, high: float = np.inf) -> str:
    """The text of a criterion, with whether a number meets it."""
    bounds = [f"at least {low:g}"] * (low > -np.inf) + [f"at most {high:g}"] * (high < np.inf)
    return f"{' and '.join(bounds)}: {'yes' if low <= value <= high else 'no'}"


def finish(options: argparse.Namespace, name: str, figure, text: str) -> None:
    """Prints the table, and writes it with the figure. Panels of parts that were not run are left out."""
    print(text)
    (options.output / f"{name}.md").write_text(text + "\n")
    for axis in figure.axes:
        axis.set_visible(axis.has_data())
    figure.savefig(options.output / f"{name}.png", dpi=150, bbox_inches="tight")
    print(f"figure: {options.output / name}.png")
