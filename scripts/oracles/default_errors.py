#!/usr/bin/env python3
"""Held-out errors of `riesz fit` with default settings, by one build or by two.

    RIESZ=riesz python scripts/oracles/default_errors.py [--table FILE TARGET ...] [--other RIESZ]

A change to how hyper-parameters are chosen must not make predictions worse: give the command line of the
earlier build with --other. The data sets diabetes, breast cancer, wine and iris come with scikit-learn. With
--table, a file is added: its target is a class if it has at most ten different values.

Each split fits two thirds of the rows, at most 5,000, and predicts the others. The error is the root mean
squared error in standard deviations of the target, the log loss of class probabilities (klr, gpc), or the
share of wrong classes (svc). The last column is the ratio of the mean errors, this build to the other."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split

MAX_ROWS = 5000
MAX_CLASSES = 10
KINDS = {"number": ["krr", "gp", "svr"], "class": ["klr", "gpc", "svc"]}


def data_sets(tables: list[tuple[str, str]]) -> dict[str, pd.DataFrame]:
    """Tables whose target is the column "target"."""
    frames = {}
    for name in ("diabetes", "breast_cancer", "wine", "iris"):
        bunch = getattr(datasets, f"load_{name}")(as_frame=True)
        target = bunch.target if name == "diabetes" else bunch.target.map(lambda c: f"class {c}")
        frames[name] = bunch.data.assign(target=target)
    for file, target in tables:
        frame = pd.read_csv(file).rename(columns={target: "target"}).dropna()
        if frame.target.nunique() <= MAX_CLASSES:
            frame["target"] = frame.target.map(lambda c: f"class {c}")
        frames[Path(file).stem] = frame
    return frames


def held_out_error(riesz: str, kind: str, train: pd.DataFrame, test: pd.DataFrame) -> float:
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / name) for name in ("train.csv", "test.csv", "m.riesz", "p.csv")}
        train.to_csv(files["train.csv"], index=False)
        test.drop(columns="target").to_csv(files["test.csv"], index=False)
        options = ["--posterior"] if kind == "gpc" else []
        fit = ["fit", files["train.csv"], "--target", "target", "--model", kind, "-o", files["m.riesz"]]
        predict = ["predict", files["m.riesz"], files["test.csv"], "-o", files["p.csv"]]
        for arguments in (fit + options, predict):
            subprocess.run([riesz, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        predicted = pd.read_csv(files["p.csv"])
    truth = test.target.to_numpy()
    if kind == "svc":
        return float(np.mean(predicted["class"] != truth))
    if kind in KINDS["class"]:
        of_truth = [row[f"p({label})"] for (_, row), label in zip(predicted.iterrows(), truth)]
        return float(-np.mean(np.log(np.maximum(of_truth, 1e-12))))
    residuals = predicted.iloc[:, -1].to_numpy() - truth
    return float(np.sqrt(np.mean(residuals**2)) / truth.std())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs=2, action="append", default=[], metavar=("FILE", "TARGET"))
    parser.add_argument("--other", help="the command line of another build")
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    builds = [os.environ.get("RIESZ", "riesz"), *([options.other] if options.other else [])]
    print("| data | rows | model | error | standard error | other build | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, frame in data_sets(options.table).items():
        is_class = not pd.api.types.is_numeric_dtype(frame.target)
        for kind in KINDS["class" if is_class else "number"]:
            errors = []
            for split in range(options.splits):
                labels = frame.target if is_class else None
                parts = train_test_split(frame, train_size=2 / 3, random_state=split, stratify=labels)
                train, test = (part[:MAX_ROWS] for part in parts)
                errors.append([held_out_error(riesz, kind, train, test) for riesz in builds])
            means = np.mean(errors, axis=0)
            standard_error = np.std(errors, axis=0, ddof=1)[0] / np.sqrt(options.splits)
            other = f"{means[1]:.4f} | {means[0] / means[1]:.3f}" if options.other else "– | –"
            cells = [name, len(train), kind, f"{means[0]:.4f}", f"{standard_error:.4f}", other]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
