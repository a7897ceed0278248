"""Reference answers for further contents of LIBSVM's files: probabilities, sigmoid kernels, and ranges of
svm-scale.

    apt-get install libsvm-tools
    python3 -m venv venv && venv/bin/pip install scikit-learn libsvm-official
    venv/bin/python scripts/oracles/libsvm_files.py

writes model files of svm_save_model and range files of svm-scale to crates/riesz/tests/data/svm/, and
`files.json` with LIBSVM's own decision values and probabilities (svm_predict -b 1). Rows of scaled models are
in the user's units: their decision values come from LIBSVM at rows that numpy scaled, and are converted to
the target's units if the target was scaled."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from libsvm import svmutil
from sklearn.datasets import load_breast_cancer, load_iris

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "crates/riesz/tests/data/svm"
rng = np.random.default_rng(20261126)
TRAINED = 60


def cells(rows):
    return [{j + 1: float(v) for j, v in enumerate(row) if v != 0.0} for row in rows]


def chosen(data, columns):
    rows = rng.permutation(len(data.data))[: TRAINED + 10]
    return np.round(data.data[rows][:, :columns], 3), data.target[rows].astype(float)


def trained(file, x, y, options):
    """A trained model, saved and read back, so that answers come from the numbers in the file."""
    svmutil.svm_save_model(str(OUT / file), svmutil.svm_train(list(y), cells(x), options + " -e 1e-6 -q"))
    return svmutil.svm_load_model(str(OUT / file))


def answers(model, x, probability=False):
    _, _, values = svmutil.svm_predict([0.0] * len(x), cells(x), model, "-b 1 -q" if probability else "-q")
    return values


def probabilities(file, x, y, options):
    model = trained(file, x[:TRAINED], y[:TRAINED], options + " -b 1")
    rows = x[TRAINED:]
    return {
        "file": file,
        "x": rows.tolist(),
        "decision": answers(model, rows),
        "labels": [str(label) for label in model.get_labels()],
        "probabilities": answers(model, rows, True),
    }


def scaled(file, x, y, options, scaling, target=None):
    """A model of data that svm-scale scaled. svm-scale drops the third column, which is constant in the
    training rows."""
    x = x.copy()
    x[:, 2] = 7.5
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        lines = [
            f"{label:.17g} " + " ".join(f"{j}:{v:.17g}" for j, v in row.items())
            for label, row in zip(y, cells(x))
        ]
        data.write_text("\n".join(lines[:TRAINED]) + "\n")
        ranges = OUT / file.replace(".model", ".range")
        command = ["svm-scale", *scaling.split(), "-s", str(ranges), str(data)]
        Path(folder, "scaled").write_text(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
        )
        labels, rows = svmutil.svm_read_problem(str(Path(folder, "scaled")))
    svmutil.svm_save_model(str(OUT / file), svmutil.svm_train(labels, rows, options + " -e 1e-6 -q"))
    model = svmutil.svm_load_model(str(OUT / file))
    low, high = x[:TRAINED].min(axis=0), x[:TRAINED].max(axis=0)
    lower, upper = (float(word) for word in scaling.split()[1:4:2])
    with np.errstate(invalid="ignore", divide="ignore"):
        mapped = np.where(high > low, lower + (upper - lower) * (x - low) / (high - low), 0.0)
    values = np.array(answers(model, mapped[TRAINED:]))
    if target is not None:
        y_low, y_high = y[:TRAINED].min(), y[:TRAINED].max()
        values = y_low + (values - target[0]) * (y_high - y_low) / (target[1] - target[0])
    return {"file": file, "range": ranges.name, "x": x[TRAINED:].tolist(), "decision": values.tolist()}


if __name__ == "__main__":
    cancer, iris = chosen(load_breast_cancer(), 6), chosen(load_iris(), 4)
    diabetes = np.loadtxt(ROOT / "crates/riesz-cli/data/diabetes.csv", delimiter=",", skiprows=1)
    diabetes = diabetes[rng.permutation(len(diabetes))[: TRAINED + 10]]
    units = (cancer[0] - cancer[0].mean(axis=0)) / cancer[0].std(axis=0), cancer[1]
    labels = np.array([4.0, -1.0, 3.0])[iris[1].astype(int)]
    sigmoid = trained(
        "sigmoid.model", units[0][:TRAINED], units[1][:TRAINED], "-s 0 -t 3 -g 0.05 -r -0.4 -c 2"
    )
    cases = [
        probabilities("two_classes_probability.model", *units, "-s 0 -t 2 -g 0.2 -c 1"),
        probabilities("three_classes_probability.model", iris[0], labels, "-s 0 -t 2 -g 0.4 -c 1"),
        {
            "file": "sigmoid.model",
            "x": units[0][TRAINED:].tolist(),
            "decision": answers(sigmoid, units[0][TRAINED:]),
        },
        scaled("scaled_rbf.model", *cancer, "-s 0 -t 2 -g 0.5 -c 3", "-l -1 -u 1"),
        scaled("scaled_poly.model", *cancer, "-s 0 -t 1 -g 0.3 -r 1 -d 2 -c 3", "-l 0 -u 1"),
        scaled("scaled_sigmoid.model", *cancer, "-s 0 -t 3 -g 0.3 -r 0.1 -c 3", "-l -1 -u 1"),
        scaled(
            "scaled_svr.model",
            diabetes[:, :6],
            diabetes[:, -1],
            "-s 3 -t 2 -g 0.5 -c 1 -p 0.1",
            "-l 0 -u 2 -y -1 1",
            (-1.0, 1.0),
        ),
        scaled(
            "scaled_linear.model",
            diabetes[:, :6],
            diabetes[:, -1],
            "-s 3 -t 0 -c 1 -p 0.1",
            "-l -1 -u 1 -y 0 1",
            (0.0, 1.0),
        ),
    ]
    made_by = "scripts/oracles/libsvm_files.py with libsvm-official 3.37.0 and svm-scale of libsvm-tools"
    (OUT / "files.json").write_text(
        json.dumps({"made_by": made_by, "cases": cases}, separators=(",", ":")) + "\n"
    )
