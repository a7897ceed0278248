"""Oracles that do not use riesz, and the command line."""

import itertools
import json
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest

TARGET = os.environ.get("CARGO_TARGET_DIR") or pathlib.Path(__file__).resolve().parents[2] / "target"
COMMAND = pathlib.Path(TARGET) / "debug" / "riesz"
with_command = pytest.mark.skipif(not COMMAND.exists(), reason="the command line is not built")


def run(folder, text):
    """Runs the command line in a folder and returns what it prints."""
    done = subprocess.run([COMMAND, *text.split()], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shapley(value, d):
    """Shapley values of a set function by enumeration; ``value`` takes a boolean mask and returns an
    array."""
    v = {mask: np.asarray(value(np.array(mask))) for mask in itertools.product([False, True], repeat=d)}
    phi = [np.zeros_like(v[(True,) * d], dtype=float) for _ in range(d)]
    for mask, base in v.items():
        size = sum(mask)
        if size == d:
            continue
        weight = math.factorial(size) * math.factorial(d - 1 - size) / math.factorial(d)
        for j in range(d):
            if not mask[j]:
                phi[j] = phi[j] + weight * (v[mask[:j] + (True,) + mask[j + 1 :]] - base)
    return np.moveaxis(np.array(phi), 0, 0)


def interventional(f, x, background, weights=None):
    """Values of the interventional game of ``f`` at the row ``x``: absent columns take a background row's
    values."""
    weights = np.full(len(background), 1 / len(background)) if weights is None else weights / np.sum(weights)

    def value(mask):
        return np.tensordot(weights, np.asarray(f(np.where(mask, x, background))), axes=1)

    return shapley(value, len(x))


def with_levels(path, **levels):
    """Makes columns of a model file categorical, as ``riesz fit`` does with columns of text; their codes
    are in the file. A file that is written by hand has no checksum."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    record = json.loads(header["__metadata__"]["riesz"])
    del record["sha256"]
    for column in record["columns"]:
        if column["name"] in levels:
            column["kind"] = {"categorical": {"levels": levels[column["name"]]}}
    header["__metadata__"]["riesz"] = json.dumps(record)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(50, 4)) * [1.0, 2.0, 0.5, 1.0] + [0.0, 3.0, 0.0, -1.0]
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=50)
    return X, y
