#!/usr/bin/env python3
"""Compares every interval and probability that riesz states with known truths.

    maturin develop --release && pip install networkx pandas scipy
    scripts/oracles/calibration.py [SEED [MINUTES]] [--only TEXT] [--repetitions N] [--results FILE]
                                   [--table FILE] [--scale FACTOR] [--list] [--real]

A row is a design and a model. In each repetition data with a known truth are drawn, the model is fitted, and
the row returns its intervals and probabilities with the truth. Prints for each quantity the coverage of 95 %
and 80 % intervals, or the mean stated probability and the frequency of events, with standard errors over
repetitions, and the width of intervals relative to the model with the true hyper-parameters.

Fails if a measurement lies outside its range by more than three standard errors, unless known_limits.py has
it; if a statement of the package has no row (calibration_statements.py); or if a known limit names no
quantity. With MINUTES = 0 the rows with a short run are repeated a few times, in less than a minute:
hyper-parameters are the true ones in most of them, so that a wrong posterior shows. `--scale 0.5`
halves all intervals, so that a run shows which quantities it would find. `--results` keeps the repetitions in
a file and continues from there; delete it after the product has changed. `--table` writes
docs/reference/calibration.md, with as many repetitions as were run."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

from calibration_measures import ALLOWED_ERRORS, Events, Intervals, Row, Scores, Summary
from calibration_rows import KNOWN_LIMITS, LIMITS, MAX_DECREASE, REAL_ROWS, ROWS, SECTIONS, Limit
from calibration_statements import MEASURED_ELSEWHERE, WITHOUT_ROW, missing_statements, unknown_statements

import riesz


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("minutes", nargs="?", type=float, default=5.0)
    parser.add_argument("--only", default="", help="rows whose name contains this text; several with '|'")
    parser.add_argument("--repetitions", type=int, help="exactly this number, instead of a duration")
    parser.add_argument("--results", type=Path, help="JSON lines of repetitions, read and extended")
    parser.add_argument("--table", type=Path, help="the page of the documentation to write")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all widths, to see rows fail")
    parser.add_argument("--list", action="store_true", help="print rows and statements, and run nothing")
    parser.add_argument("--real", action="store_true", help="held-out rows of data sets, beside scikit-learn")
    return parser.parse_args()


def measured_statements() -> set[str]:
    """The public names that rows measure."""
    return {name for row in ROWS for names in row.statements.values() for name in names}


def registry_faults() -> list[str]:
    """Statements without a row, listed names that do not exist, and known limits without a quantity."""
    keys = {f"{row.name}: {quantity}" for row in (*ROWS, *REAL_ROWS) for quantity in row.statements}
    names = [row.name for row in ROWS]
    return [
        *(
            f"{name} states an uncertainty and has no row"
            for name in missing_statements(measured_statements())
        ),
        *(
            f"{name} is listed, and riesz does not have it"
            for name in unknown_statements(measured_statements())
        ),
        *(f"the known limit '{key}' names no quantity of a row" for key in KNOWN_LIMITS if key not in keys),
        *(f"two rows are called '{name}'" for name in set(names) if names.count(name) > 1),
    ]


class Results:
    """Records of repetitions by row, of one seed, kept in a file on request."""

    def __init__(self, seed: int, path: Path | None, scale: float = 1.0) -> None:
        self.seed, self.path, self.scale = seed, path, scale
        self.records: dict[str, dict[int, dict]] = {}
        self.seconds: dict[str, float] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                if entry["seed"] == seed:
                    self._store(entry)

    def _store(self, entry: dict) -> None:
        self.records.setdefault(entry["row"], {})[entry["repetition"]] = entry["quantities"]
        self.seconds[entry["row"]] = self.seconds.get(entry["row"], 0.0) + entry["seconds"]

    def run(self, row: Row) -> None:
        """Runs the next repetition of a row."""
        repetition, start = len(self.records.get(row.name, {})), time.monotonic()
        with warnings.catch_warnings():
            # Remarks on few draws, on support and on convergence do not concern coverage.
            warnings.simplefilter("ignore")
            measured = row.measure(1000 * self.seed + repetition)
        if set(measured) != set(row.statements):
            raise ValueError(f"{row.name} measures {sorted(measured)}, not {sorted(row.statements)}")
        entry = {
            "seed": self.seed,
            "row": row.name,
            "repetition": repetition,
            "seconds": round(time.monotonic() - start, 3),
            "quantities": {
                quantity: self._scaled(numbers).record() for quantity, numbers in measured.items()
            },
        }
        self._store(entry)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def _scaled(self, numbers: Intervals | Events | Scores) -> Intervals | Events | Scores:
        return numbers if self.scale == 1 else numbers.scaled(self.scale)

    def summaries(self, row: Row) -> Iterator[Summary]:
        """The quantities of a row over its repetitions."""
        repetitions = [quantities for _, quantities in sorted(self.records.get(row.name, {}).items())]
        for quantity in row.statements if repetitions else ():
            yield Summary(row, quantity, [record[quantity] for record in repetitions if quantity in record])


def verdict(summary: Summary) -> str:
    """The verdict on a quantity: empty if the measurements lie in their ranges."""
    faults, outside = summary.faults(), summary.faults(allowed_errors=0.0)
    limit = KNOWN_LIMITS.get(summary.key)
    if any(limit is None or limit.side not in fault for fault in faults):
        return f"FAIL ({', '.join(faults)})"
    if limit is not None and is_worse(summary, limit):
        return f"FAIL (less than {limit.quantities[summary.key]:.3f}, as listed)"
    if limit is not None:
        return f"known limit ({', '.join(outside)})" if outside else "PASSES although a known limit"
    return "within error" if outside else ""


def is_worse(summary: Summary, limit: Limit) -> bool:
    """Whether the coverage of a known limit is smaller than when it was listed."""
    if limit.side != "low":
        return False
    (coverage, error), listed = summary.coverage(0.95), limit.quantities[summary.key]
    # Shares of one repetition may all be 0 or 1, so that few repetitions show too little variation.
    error = max(error, math.sqrt(listed * (1 - listed) / len(summary.records)))
    return coverage + summary.allowed_errors * error < listed - MAX_DECREASE


def is_failure(summary: Summary) -> bool:
    """Whether a quantity makes the run fail."""
    return verdict(summary).startswith("FAIL")


def measured_text(summary: Summary) -> str:
    """The measurements of a quantity in one line."""
    if summary.kind == "scores":
        return "mean {:.3f} ± {:.3f}".format(*summary.mean_score())
    if summary.kind == "intervals":
        shares = [summary.coverage(level) for level in summary.levels]
        text = "  ".join(
            f"{level:.0%} {share:.3f} ± {error:.3f}" for level, (share, error) in zip(summary.levels, shares)
        )
        width = summary.relative_width
        return text + ("" if width is None else f"  width × {width:.2f}")
    stated, frequency, error = summary.probabilities()
    return f"stated {stated:.3f}  frequency {frequency:.3f} ± {error:.3f}"


def run_row(row: Row, results: Results, seconds: float, n_least: int, n_most: float) -> bool:
    """Runs a row for a duration and prints its quantities; returns whether it fails."""
    start = time.monotonic()
    count = lambda: len(results.records.get(row.name, {}))
    while count() < n_most and (count() < n_least or time.monotonic() < start + seconds):
        try:
            results.run(row)
        except Exception:
            traceback.print_exc()
            print(f"{row.name}: repetition {count()} FAILS with an error", flush=True)
            return True
    summaries = list(results.summaries(row))
    for summary in summaries:
        text = f"{summary.key:<78} {measured_text(summary):<56} of {count()}  {verdict(summary)}"
        print(text.rstrip(), flush=True)
    return any(map(is_failure, summaries))


def write_table(path: Path, results: Results) -> None:
    """Writes the page of the documentation."""
    template = Path(__file__).with_name("calibration_page.md").read_text()
    sections = [section_text(title, rows, results) for title, rows in SECTIONS.items()]
    rows_by_reason: dict[str, list[str]] = {}
    for limit in LIMITS:
        rows_by_reason.setdefault(limit.reason, []).extend(key.partition(": ")[0] for key in limit.quantities)
    limits = [f"| {reason} | {'; '.join(dict.fromkeys(rows))} |" for reason, rows in rows_by_reason.items()]
    reasons = sorted({**MEASURED_ELSEWHERE, **WITHOUT_ROW}.items())
    values = {
        "tables": "\n\n".join(filter(None, sections)),
        "limits": "\n".join(limits),
        "reasons": "\n".join(f"| `{name}` | {reason} |" for name, reason in reasons),
        "seed": str(results.seed),
        "errors": f"{ALLOWED_ERRORS:g}",
    }
    for name, value in values.items():
        template = template.replace(f"{{{{ {name} }}}}", value)
    path.write_text(template)


def section_text(title: str, rows: list[Row], results: Results) -> str:
    """A section of the page: the rows that were run, and their measurements."""
    rows = [row for row in rows if results.records.get(row.name)]
    if not rows:
        return ""
    lines = [f"## {title}", "", "| row | design | model |", "|---|---|---|"]
    lines += [f"| {row.name} | {row.design} | {row.model} |" for row in rows]
    lines += [
        "",
        "| row | quantity | 95 % | 80 % | width | repetitions | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [line for row in rows for line in table_lines(row, results)]
    return "\n".join(lines)


def table_lines(row: Row, results: Results) -> Iterator[str]:
    """The lines of a row in the table of measurements."""
    for number, summary in enumerate(results.summaries(row)):
        compared = summary.kind == "scores" or summary.quantity in row.without_verdict
        cells = [
            row.name if number == 0 else "",
            summary.quantity,
            *measured_cells(summary),
            str(len(summary.records)),
            "" if compared else verdict(summary) or "holds",
        ]
        yield "| " + " | ".join(cells) + " |"


def measured_cells(summary: Summary) -> list[str]:
    """The cells of both levels and of the width."""
    if summary.kind == "scores":
        return ["mean {:.3f} ± {:.3f}".format(*summary.mean_score()), "", ""]
    if summary.kind == "events":
        stated, frequency, error = summary.probabilities()
        return [f"stated {stated:.3f}", f"frequency {frequency:.3f} ± {error:.3f}", ""]
    shares = [
        "{:.3f} ± {:.3f}".format(*summary.coverage(level)) if level in summary.levels else ""
        for level in (0.95, 0.80)
    ]
    width = summary.relative_width
    return [*shares, "" if width is None else f"{width:.2f}"]


def row_text(row: Row) -> str:
    """A row with its design, ranges, their reason, and the public names that it measures."""
    ranges = ", ".join(f"{level:.0%} in {low:g} to {high:g}" for level, (low, high) in row.ranges.items())
    short = f"; {row.n_short} repetitions in the short run" if row.n_short else ""
    names = "".join(f"\n    {quantity}: {', '.join(names)}" for quantity, names in row.statements.items())
    return f"{row.name}: {row.design}; {row.model}{short}\n    {ranges}, because {row.reason}{names}"


def main() -> None:
    """Runs the rows and exits with 1 if one fails."""
    options = arguments()
    faults = registry_faults()
    for fault in faults:
        print(f"FAIL: {fault}", flush=True)
    wanted = [text for text in options.only.split("|") if text]
    rows = [
        row
        for row in (REAL_ROWS if options.real else ROWS)
        if not wanted or any(text in row.name for text in wanted)
    ]
    is_short = options.minutes == 0 and options.repetitions is None
    if is_short:
        rows = [row for row in rows if row.n_short]
    if options.list:
        for row in rows:
            print(row_text(row))
        sys.exit(bool(faults))
    results, failed = Results(options.seed, options.results, options.scale), bool(faults)
    print(f"riesz {riesz.__version__}, seed {options.seed}, {len(rows)} rows", flush=True)
    for row in rows:
        if is_short:
            limits = 0.0, row.n_short, row.n_short
        elif options.repetitions is not None:
            limits = 0.0, options.repetitions, options.repetitions
        else:
            limits = 60 * options.minutes / len(rows), row.n_least, float("inf")
        failed |= run_row(row, results, *limits)
    if options.table:
        write_table(options.table, results)
    sys.exit(failed)


if __name__ == "__main__":
    main()
