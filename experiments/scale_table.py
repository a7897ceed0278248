"""A table as long and wide as the largest of the sources, fitted through landmarks from Parquet and
explained exactly.

    python experiments/scale_table.py [--full] [--riesz COMMAND] [--scratch FOLDER]

The rows are simulated, because the League of Legends data (RKHS-SHAP, appendix E: 1.8 million × 71) are
not available; nothing is compared with a published number. Columns are normal; those with the same last
digit are correlated by .5. Twelve of them determine the log odds of a binary outcome, six by curves and
six by products of two. Ridge and logistic regression are fitted from the command line, in units of work
that are kept. They are scored on new rows, next to the true log odds and scikit-learn's logistic
regression on the columns of 200,000 rows. The new rows are explained in the functional game, where the
factors of absent features are dropped, and with each absent column averaged separately over 1,000 other
rows ("marginal-product"). The true values are those of the log odds in the latter game, in which two
columns share their product equally. Commands are processes of their own, with wall time, CPU time of all
threads and peak memory; the wall time includes the effect of other processes on this machine.

Full: 1.8 million rows and 100,000 new ones. Ridge regression has 2,000 landmarks; logistic regression,
which takes a pass for each step, has 1,000; 1.1 GB of scratch. Otherwise 100,000 rows, 500 landmarks and
10,000 new rows."""

import pathlib
import shutil
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _commands import command, explained, predicted, scores, settings, taken
from _figures import COLOURS, arguments, finish, panels, table
from sklearn.linear_model import LogisticRegression

GROUP = 1 << 17
COLUMNS = [f"x{j:02}" for j in range(71)]
CURVES = {0: lambda x: x, 1: lambda x: -0.8 * x, 2: lambda x: np.sin(2 * x), 3: lambda x: 0.6 * (x**2 - 1)}
CURVES |= {4: lambda x: 0.7 * x, 5: lambda x: np.tanh(2 * x)}
PAIRS = {(6, 7): 0.8, (8, 9): -0.8, (10, 11): 0.6}
ACTIVE = len(CURVES) + 2 * len(PAIRS)
SCHEMA = pa.schema([(name, pa.float64()) for name in [*COLUMNS, "won"]])


def simulated(rng, count):
    """Rows, the true values of the active columns, which sum to the log odds, and outcomes."""
    shared = rng.normal(size=(count, 10))
    x = (rng.normal(size=(count, len(COLUMNS))) + shared[:, np.arange(len(COLUMNS)) % 10]) / np.sqrt(2)
    values = np.zeros((count, ACTIVE))
    for j, part in CURVES.items():
        values[:, j] = part(x[:, j])
    for (a, b), weight in PAIRS.items():
        values[:, a] = values[:, b] = weight / 2 * x[:, a] * x[:, b]
    return x, values, (rng.random(count) < 1 / (1 + np.exp(-values.sum(axis=1)))).astype(float)


def as_table(x, won):
    return pa.table([*np.ascontiguousarray(x.T), won], schema=SCHEMA)


def written(folder, rows):
    """Files of up to four row groups, where each file has its own seed."""
    folder.mkdir()
    for k, start in enumerate(range(0, rows, 4 * GROUP)):
        rng, end = np.random.default_rng([0, k]), min(rows, start + 4 * GROUP)
        with pq.ParquetWriter(
            folder / f"rows-{k:02}.parquet", SCHEMA, use_dictionary=False, compression="none"
        ) as file:
            for first in range(start, end, GROUP):
                x, _, won = simulated(rng, min(GROUP, end - first))
                file.write_table(as_table(x, won), row_group_size=GROUP)


def agreement(values, truth):
    """Mean |value| of each column; the correlation with the true means, the number of active columns among
    the largest, and the mean correlation of values with true ones for curves and for products."""
    size = values.abs().mean().to_numpy()
    true_size = np.append(np.abs(truth).mean(axis=0), np.zeros(len(COLUMNS) - ACTIVE))
    top = np.argsort(-size)[:ACTIVE]
    correlations = [np.corrcoef(values[name], truth[:, j])[0, 1] for j, name in enumerate(COLUMNS[:ACTIVE])]
    curves, pairs = np.mean(correlations[: len(CURVES)]), np.mean(correlations[len(CURVES) :])
    correlation = np.corrcoef(size, true_size)[0, 1]
    return size, [float(correlation), f"{np.sum(top < ACTIVE)} of {ACTIVE}", float(curves), float(pairs)]


def experiment(options, work, axis):
    rows, fresh = (1_800_000, 100_000) if options.full else (100_000, 10_000)
    written(work / "table", rows)
    x, truth, won = simulated(np.random.default_rng([1, 0]), fresh)
    pq.write_table(as_table(x, won), work / "fresh.parquet")
    background, _, their = simulated(np.random.default_rng([2, 0]), 1000)
    pq.write_table(as_table(background, their), work / "background.parquet")
    sample = pq.read_table(work / "table" / "rows-00.parquet").to_pandas().iloc[:200_000]
    linear = LogisticRegression().fit(sample[COLUMNS].to_numpy(), sample["won"])
    lines = [["true log odds", *scores(won, 1 / (1 + np.exp(-truth.sum(axis=1)))), "", ""]]
    lines.append(
        [
            f"logistic regression on columns, {len(sample):,} rows",
            *scores(won, linear.predict_proba(x)[:, 1]),
            "",
            "",
        ]
    )
    values_of, sizes = [], {"truth": np.append(np.abs(truth).mean(axis=0), np.zeros(len(COLUMNS) - ACTIVE))}
    for kind, name, max_landmarks in (
        ("krr", "kernel ridge regression", 2000),
        ("klr", "kernel logistic regression", 1000),
    ):
        landmarks, model, kept = (
            max_landmarks if options.full else 500,
            work / f"{kind}.riesz",
            work / f"kept-{kind}",
        )
        fit_options = [
            "--target",
            "won",
            "--model",
            kind,
            "--landmarks",
            landmarks,
            "--checkpoint",
            kept,
            "-o",
            model,
        ]
        fit = command(options, "fit", work / "table", *fit_options)
        shutil.rmtree(kept)
        probability = predicted(options, work, model, work / "fresh.parquet")
        lines.append(
            [f"{name}, {landmarks:,} landmarks", *scores(won, probability, kind == "klr"), *taken(fit)]
        )
        for game, game_options in (
            ("functional", []),
            ("marginal-product", ["--background", work / "background.parquet"]),
        ):
            values, _, residual, measurement = explained(
                options, work, model, work / "fresh.parquet", "--game", game, *game_options
            )
            sizes[f"{kind}, {game}"], cells = agreement(values, truth)
            values_of.append([name, game, *cells, residual, *taken(measurement)])
    for colour, name in zip(COLOURS, ("truth", "klr, marginal-product")):
        axis.plot(sizes[name], "o-", color=colour, label=name, markersize=3, linewidth=0.8)
    axis.set(xlabel="column", title="mean |value|")
    axis.legend(fontsize=6)
    report = f"Table: {rows:,} rows, {len(COLUMNS)} columns; scored on {fresh:,} fresh rows\n\n"
    report += table(["", "error", "AUC", "log loss", "fit, s (of cores)", "GiB"], lines)
    report += (
        f"\n\nShapley values of the {fresh:,} fresh rows beside the true ones: correlations of mean |value| "
        f"over columns, and of values over rows, the mean of active columns by their kind\n\n"
    )
    header = [
        "model",
        "game",
        "mean |value|",
        "active on top",
        "values, curves",
        "values, products",
        "residual (proved)",
    ]
    return report + table([*header, "explained, s (of cores)", "GiB"], values_of)


if __name__ == "__main__":
    options = arguments(__doc__, (settings(),))
    figure, (axis,) = panels(1)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        report = experiment(options, pathlib.Path(folder), axis)
    finish(options, "scale_table", figure, report)
