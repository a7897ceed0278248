#!/usr/bin/env python3
"""Damages files of every format that riesz reads. Each must give one sentence: no panic, no hang, and no
wrong predictions.

    cargo build --release && pip install polars && maturin develop --release
    scripts/oracles/mutants.py [SEED [MINUTES]]

The files are models of riesz and of LIBSVM, explanations and tables as JSON, CSV and Parquet, and files of
groups. Bytes are flipped, cut out, doubled, or spliced in from another file; numbers are replaced by extreme
ones, and parts of JSON by others. In half of the mutants of riesz's models the checksum is corrected.

The command line must succeed, or end with code 2 and one line that starts with "error: ", within 20 seconds
and 4 GB. Python must load the files or raise ValueError. If the checksum of a model is not corrected,
predictions must be those of the undamaged file, or fail. At least 1500 mutants are tried; the n-th mutant of
a seed is the same in every run. The program is `$RIESZ`, or else the release build."""

import concurrent.futures
import copy
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import polars

import riesz

ROOT = pathlib.Path(__file__).resolve().parents[2]
RIESZ = os.environ.get("RIESZ", ROOT / "target/release/riesz")
MIN_MUTANTS = 1500
SECONDS, MEMORY = 20, 4 << 30

NUMBERS = (
    "0 -0 1e999 -1e308 1e-320 nan inf -1 0.1 3 1,5 9223372036854775808 18446744073709551616 1e19".split()
    + [
        "9" * 400,
        "",
        " ",
    ]
)
PARTS = [
    None,
    True,
    0,
    -1,
    3,
    0.5,
    1e300,
    1e-320,
    2**53,
    2**63,
    2**64,
    10**400,
    "",
    "x0",
    "\u0000",
    "é" * 300,
    [],
    [0],
    {},
    [[]] * 3,
]

#: The commands for each kind of file, whose path replaces `@`. The first command of a model prints its
#: predictions.
TABLE = [
    "predict m.riesz @",
    "explain m.riesz @",
    "explain m.riesz @ --game observational --background @",
    "test two-sample @ train.csv --permutations 9",
    "test independence @ --target y --permutations 9",
    "fit @ --target y --ridge 1 -o $",
    "fit @ --target c --model svc -o $",
    "explain m.riesz train.csv --background @ -o $.json",
    "test select @ --target y",
    "plot beeswarm e.csv @ -o $.svg",
]
MODEL = [
    "predict @ train.csv",
    "inspect @",
    "explain @ train.csv",
    "explain @ train.csv --background train.csv -o $.json",
    "convert @ $.model",
]
VALUES = ["plot beeswarm @ -o $.svg", "report @ -o $.html", "plot waterfall @ --row 1 -o $.svg"]
COMMANDS = {
    "m.riesz": MODEL,
    "gp.riesz": MODEL,
    "svc.riesz": MODEL,
    "svr.model": ["predict @ numbers.csv", "inspect @", "explain @ numbers.csv", "convert @ $.riesz"],
    "classes.model": [
        "predict @ numbers.csv",
        "inspect @",
        "explain @ numbers.csv --background numbers.csv",
        "convert @ $.riesz",
    ],
    "e.json": [*VALUES, "inspect @"],
    "e.csv": VALUES,
    "e.parquet": VALUES,
    "train.csv": TABLE,
    "train.parquet": TABLE,
    "zstd.parquet": TABLE,
    "groups.txt": [
        "explain m.riesz train.csv --groups @",
        "test two-sample train.csv train.csv --groups @ --permutations 9",
    ],
}  # fmt: skip


def prepare(folder):
    rng = random.Random(0)
    rows = [(rng.gauss(0, 1), rng.randrange(5) / 4, rng.choice("pqr"), rng.gauss(0, 1)) for _ in range(24)]
    table = polars.DataFrame(rows, schema=["a", "b", "c", "y"], orient="row")
    table.write_csv(folder / "train.csv")
    table.write_parquet(folder / "train.parquet", compression="snappy")
    table.write_parquet(folder / "zstd.parquet", compression="zstd")
    polars.DataFrame({f"x{j}": [rng.gauss(0, 1) for _ in range(6)] for j in range(4)}).write_csv(
        folder / "numbers.csv"
    )
    (folder / "groups.txt").write_text("both = a, b\nclass = c\n")
    svm = ROOT / "crates/riesz/tests/data/svm"
    shutil.copy(svm / "epsilon_svr_rbf.model", folder / "svr.model")
    shutil.copy(svm / "c_svc_poly_3_classes.model", folder / "classes.model")
    for words in [
        "fit train.csv --target y --ridge 1 -o m.riesz",
        "fit train.csv --target y --model gp --ignore c --restarts 0 -o gp.riesz",
        "fit train.csv --target c --model svc -o svc.riesz",
        *(
            f"explain m.riesz train.csv --background train.csv -o e.{end}"
            for end in ("json", "csv", "parquet")
        ),
    ]:
        subprocess.run([RIESZ, *words.split(), "--quiet"], cwd=folder, check=True)


def parts(data):
    """A riesz model's header, record and arrays."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    return header, json.loads(header["__metadata__"]["riesz"]), data[8 + size :]


def signed(header, record, arrays):
    """The model file of these parts, with a correct checksum if they have one."""
    unknown = "0" * 64
    if isinstance(record, dict) and "sha256" in record:
        record["sha256"] = unknown
    text = json.dumps(record)
    try:
        known = sorted(
            (name.encode(), entry["shape"], arrays[slice(*entry["data_offsets"])])
            for name, entry in header.items()
            if name != "__metadata__"
        )
        digest = hashlib.sha256(text.encode())
        for name, shape, content in known:
            digest.update(b"\n" + name + f" {shape}\n".encode() + content)
        text = text.replace(unknown, digest.hexdigest(), 1)
    except (TypeError, KeyError, AttributeError):
        pass
    header["__metadata__"] = {"riesz": text}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + arrays


def places(tree, path=()):
    """The paths to all parts of a JSON value."""
    yield path
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in entries:
        yield from places(part, (*path, key))


def grafted(tree, rng):
    """A JSON value with one part replaced, left out, doubled, or taken from another place."""
    tree = copy.deepcopy(tree)
    ways = [path for path in places(tree) if path]
    *path, leaf = rng.choice(ways)
    parent = tree
    for key in path:
        parent = parent[key]
    way = rng.randrange(4)
    if way == 0:
        del parent[leaf]
    elif way == 1 and isinstance(parent, list):
        parent.insert(leaf, copy.deepcopy(parent[leaf]))
    elif way == 2:
        other = tree
        for key in rng.choice(ways):
            other = other[key]
        parent[leaf] = copy.deepcopy(other)
    else:
        parent[leaf] = copy.deepcopy(rng.choice(PARTS))
    return tree


def damaged(data, other, rng):
    """The bytes of a file with one or more random changes."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        if not data:
            break
        offset = rng.randrange(len(data))
        length = min(len(data) - offset, rng.choice([1, 2, 8, 50, 500]))
        way = rng.randrange(9)
        if way == 0:
            data[offset] ^= 1 << rng.randrange(8)
        elif way == 1:
            data[offset] = rng.randrange(256)
        elif way == 2:
            del data[offset : offset + length]
        elif way == 3:
            del data[offset:]
        elif way == 4:
            data[offset:offset] = data[offset : offset + length] * rng.choice([1, 1, 20])
        elif way == 5:
            start = rng.randrange(len(other))
            data[offset : offset + rng.choice([0, length])] = other[start : start + length]
        elif way == 6:
            data[offset : offset + length] = rng.randbytes(length)
        elif way == 7 and (numbers := list(re.finditer(rb"[-+]?[0-9.]+(?:e[-+]?\d+)?", data))):
            start, end = rng.choice(numbers).span()
            data[start:end] = rng.choice(NUMBERS).encode()
        elif way == 8 and len(lines := bytes(data).split(b"\n")) > 2:
            first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first] if rng.random() < 0.5 else lines[second]
            data = bytearray(b"\n".join(lines))
    return bytes(data)


class Trial:
    def __init__(self, folder, seed):
        self.folder, self.seed = folder, seed
        self.files = {name: (folder / name).read_bytes() for name in COMMANDS}
        models = [name for name in COMMANDS if name.endswith(".riesz")]
        self.predictions = {
            name: self.run(COMMANDS[name][0], folder / name, "whole").stdout for name in models
        }

    def run(self, words, place, tag):
        words = words.replace("@", str(place)).replace("$", str(place.with_name(f"out-{tag}")))
        command = [RIESZ, *words.split(), "--quiet", "--threads", "1"]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL
        )

    def mutant(self, number):
        """The name of a file, its mutant, and whether the mutant's checksum is right."""
        rng = random.Random(f"{self.seed} {number}")
        name = rng.choice(list(COMMANDS))
        data, mended = self.files[name], False
        if name.endswith(".riesz") and rng.random() < 0.5:
            header, record, arrays = parts(data)
            way, mended = rng.randrange(3), True
            if way == 0:
                arrays = damaged(arrays, data, rng)
            elif way == 1:
                header = grafted(header, rng)
            else:
                for _ in range(rng.choice([1, 1, 2])):
                    record = grafted(record, rng)
            data = signed(header, record, arrays)
        elif name.endswith(".json") and rng.random() < 0.7:
            data = json.dumps(grafted(json.loads(data), rng)).encode()
        else:
            ending = name.split(".")[1]
            data = damaged(data, self.files[rng.choice([n for n in COMMANDS if n.endswith(ending)])], rng)
        return name, data, mended, rng

    def judge(self, number):
        """The faults of riesz on one mutant, if there are any."""
        name, data, mended, rng = self.mutant(number)
        place = self.folder / f"mutant-{number}.{name.split('.')[1]}"
        place.write_bytes(data)
        wrong = []
        model = name.endswith(".riesz")
        commands = [COMMANDS[name][0]] if model else []
        commands += [c for c in [rng.choice(COMMANDS[name])] if c not in commands]
        for words in commands:
            try:
                done = self.run(words, place, number)
            except subprocess.TimeoutExpired:
                wrong.append(f"{words}: takes longer than {SECONDS} s")
                continue
            message = done.stderr.decode(errors="replace")
            lines = message.splitlines()
            # Code 1 means that values do not add up to the prediction.
            allowed = (0, 1, 2) if name.startswith("e.") else (0, 2)
            if done.returncode not in allowed or "bug in riesz" in message or "panicked" in message:
                wrong.append(f"{words}: code {done.returncode}: {message.strip()[:500]}")
            elif done.returncode and (
                [line.startswith("error: ") for line in lines] != [True] or len(message) > 2000
            ):
                wrong.append(f"{words}: not one sentence: {message.strip()[:500]}")
            elif (
                done.returncode == 0
                and model
                and not mended
                and words == COMMANDS[name][0]
                and done.stdout != self.predictions[name]
            ):
                wrong.append(f"{words}: predicts other values without an error")
        if model or name.endswith((".json", ".model")):
            wrong += self.in_python(place, data)
        for left in self.folder.glob(f"out-{number}*"):
            left.unlink()
        if wrong:
            kept = pathlib.Path(tempfile.gettempdir()) / place.name
            kept.write_bytes(data)
            wrong = [f"{kept} (of {name}): {problem}" for problem in wrong]
        place.unlink()
        return wrong

    @staticmethod
    def in_python(place, data):
        try:
            if place.suffix == ".json":
                loaded = riesz.Explanation.load(place)
                repr(loaded), loaded.values, loaded.feature_names, loaded.provenance, loaded._repr_html_()
            else:
                loaded = riesz.Expansion.load(place)
                repr(loaded)
        except ValueError:
            pass
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return [f"riesz in Python: {type(error).__name__}: {error}"]
        return []


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    until = time.monotonic() + 60 * (float(sys.argv[2]) if len(sys.argv) > 2 else 5.0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    number, broken = 0, 0
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        prepare(pathlib.Path(folder))
        trial = Trial(pathlib.Path(folder), seed)
        while number < MIN_MUTANTS or time.monotonic() < until:
            batch = range(number, number + 100)
            for wrong in pool.map(trial.judge, batch):
                broken += bool(wrong)
                for line in wrong:
                    print("BROKEN", line, flush=True)
            number = batch.stop
    print(f"{number} mutants, {broken} with faults")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
