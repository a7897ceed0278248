#!/usr/bin/env python3
"""Compares two builds of riesz: fits the same models with both, and compares model files, predictions, values
with their bounds and covariances, tests and effects.

    pip install numpy
    scripts/oracles/builds.py OLD NEW [NAME …]

OLD and NEW are two programs `riesz`, for example built from two commits. Names select cases that contain
them.
Prints for each case whether all outputs have the same bits, or else the largest difference of a column,
relative to the column's largest absolute value. Fails if a program fails, if columns differ, or if a
difference exceeds 1e-6."""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "crates/riesz-cli"
LIMIT = 1e-6


def write(path, columns):
    names, cells = list(columns), zip(*columns.values(), strict=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *cells])


def write_tables(folder):
    """Writes the tables that the cases read."""
    rng = np.random.default_rng(1)
    with open(DATA / "data/diabetes.csv", newline="") as file:
        header, *rows = csv.reader(file)
    table = dict(zip(header, np.array(rows[:160], dtype=float).T, strict=True))
    target = header[-1]
    y = table.pop(target)
    table = {name: table[name] for name in list(table)[:5]}
    table["level"] = np.array(["low", "mid", "high"])[(3 * np.argsort(np.argsort(table["bmi"])) // 160)]
    numbers = {
        name: np.round(values, 6) if values.dtype == float else values for name, values in table.items()
    }
    write(folder / "train.csv", {**numbers, "y": y})
    write(folder / "two.csv", {**numbers, "y": y, "y2": np.round(np.sqrt(y), 3)})
    write(folder / "binary.csv", {**numbers, "y": np.where(y > np.median(y), "yes", "no")})
    classes = np.array(["a", "b", "c"])[(3 * np.argsort(np.argsort(y)) // 160)]
    write(folder / "classes.csv", {**numbers, "y": classes})
    write(folder / "new.csv", {name: values[::27] for name, values in numbers.items()})
    for part, slice_ in (("left", slice(0, 80)), ("right", slice(80, 160))):
        write(folder / f"{part}.csv", {name: values[slice_] for name, values in numbers.items()})
    items = 14
    x = np.round(rng.normal(size=(items, 3)), 4)
    names = [f"item{i}" for i in range(items)]
    write(folder / "items.csv", {"name": names, **{f"x{j}": x[:, j] for j in range(3)}})
    left, right = rng.integers(items, size=(2, 150))
    right = np.where(left == right, (right + 1) % items, right)
    utility = x[:, 0] - x[:, 1] ** 2
    won = rng.random(150) < 1 / (1 + np.exp(-2 * (utility[left] - utility[right])))
    outcome = np.where(rng.random(150) < 0.2, "tie", np.where(won, "left", "right"))
    season = np.round(rng.random(150), 3)
    duels = {"left": [names[i] for i in left], "right": [names[i] for i in right]}
    write(folder / "duels.csv", {**duels, "outcome": np.where(won, "left", "right"), "season": season})
    write(folder / "ties.csv", {**duels, "outcome": outcome})
    bags, size = 25, 8
    place = np.round(rng.random((bags * size, 2)), 4)
    f = np.sin(4 * place[:, 0]) + place[:, 1]
    people = rng.integers(1, 30, bags * size)
    bag = np.repeat(np.arange(bags), size)
    latitude = np.round(rng.random(bags), 3)
    mean, total = (np.bincount(bag, people * f) / np.bincount(bag, people), np.bincount(bag, people * f))
    cases = rng.poisson(np.bincount(bag, people * np.exp(f)))
    trials = np.bincount(bag, people).astype(int)
    write(folder / "rows.csv", {"bag": bag, "u": place[:, 0], "v": place[:, 1], "people": people})
    write(
        folder / "bags.csv",
        {
            "bag": np.arange(bags),
            "mean": np.round(mean + 0.05 * rng.normal(size=bags), 4),
            "total": np.round(total, 3),
            "cases": cases,
            "trials": trials,
            "wins": rng.binomial(trials, 1 / (1 + np.exp(-mean))),
            "latitude": latitude,
        },
    )


def cases():
    """Yields the name of each case and its commands. MODEL and OUT stand for files of their own."""
    predict = ["predict", "MODEL", "new.csv", "-o", "OUT"]
    game = ["explain", "MODEL", "new.csv", "--background", "train.csv", "-o", "OUT"]
    functional = ["explain", "MODEL", "new.csv", "--game", "functional", "-o", "OUT"]
    observational = [
        "explain",
        "MODEL",
        "new.csv",
        "--background",
        "train.csv",
        "--game",
        "observational",
        "-o",
        "OUT",
    ]

    def model(name, table, arguments, *commands):
        return name, [["fit", table, "--target", "y", *arguments, "-o", "MODEL"], predict, *commands]

    for kernel in (
        "rbf", "laplacian", "matern32", "matern52", "rq", "cauchy", "linear", "polynomial(degree=2)",
        "exponential_dot_product", "anova", "rbf(age, bmi) + 0.5*linear", "rbf(age)*matern32(bmi, isotropic)",
        "rbf(isotropic)", "periodic(bmi, period=0.1)*rbf(age, bp)",
    ):  # fmt: skip
        arguments = ["--model", "krr", "--kernel", kernel, "--ridge", "0.1"]
        product = not kernel.startswith(("polynomial", "exponential"))
        yield model(f"krr {kernel}", "train.csv", arguments, game, *[functional] * product)
    yield model("krr auto", "train.csv", ["--model", "krr", "--ridge", "auto"], observational)
    two = [["fit", "two.csv", "--target", "y,y2", "--model", "krr", "-o", "MODEL"], predict, game]
    yield "krr two targets", two
    for kind in ("klr", "svc", "gpc"):
        for table in ("binary.csv", "classes.csv"):
            yield model(f"{kind} {table}", table, ["--model", kind], game, functional)
    yield model("svr", "train.csv", ["--model", "svr"], game, functional)
    covariance = [*game, "--covariance"]
    for kernel in ("rbf", "rbf(ard)", "matern52 + linear"):
        arguments = ["--model", "gp", "--posterior", "--kernel", kernel]
        pairs = [*functional, "--index", "k-sii"]
        yield model(f"gp {kernel}", "train.csv", arguments, [*predict, "--std"], covariance, pairs)
    for kind, table in (
        ("krr", "train.csv"),
        ("klr", "binary.csv"),
        ("gp", "train.csv"),
        ("gpc", "binary.csv"),
    ):
        yield model(f"{kind} landmarks", table, ["--model", kind, "--landmarks", "40"], game)
    yield model("krr cg", "train.csv", ["--model", "krr", "--landmarks", "60", "--solver", "cg"], game)
    protect = ["--model", "krr", "--protect", "age", "--strength", "100"]
    yield model("krr protected", "train.csv", protect, game)
    importance = ["importance", "MODEL", "train.csv", "-o", "OUT"]
    sage = ["importance", "MODEL", "train.csv", "--target", "y", "-o", "OUT"]
    anova = ["anova", "MODEL", "train.csv", "--of", "age", "-o", "OUT"]
    yield model("global", "train.csv", ["--model", "gp"], importance, sage, anova)
    yield from preference_cases()
    yield from downscaling_cases()
    yield "two-sample", [["test", "two-sample", "left.csv", "right.csv", "-o", "OUT"]]
    yield "independence", [["test", "independence", "train.csv", "--target", "y", "-o", "OUT"]]
    yield "select", [["select", "train.csv", "--target", "y", "-o", "OUT"]]
    yield from effect_cases()


def preference_cases():
    duels = ["items.csv", "duels.csv"]
    odds = ["prefer", "predict", "MODEL", *duels, "-o", "OUT"]
    values = ["prefer", "explain", "MODEL", *duels, "-o", "OUT"]
    for name, arguments in {
        "prefer": [],
        "prefer ability": ["--ability"],
        "prefer landmarks": ["--landmarks", "20"],
    }.items():
        yield name, [["prefer", "fit", *duels, *arguments, "-o", "MODEL"], odds, values]
    contexts = ["prefer", "fit", *duels, "--contexts", "season", "-o", "MODEL"]
    yield "prefer contexts", [contexts, odds, values]
    ties = ["prefer", "fit", "items.csv", "ties.csv", "--ties", "model", "-o", "MODEL"]
    yield "prefer ties", [ties, odds, values]
    names = [
        ["prefer", "fit", "duels.csv", "-o", "MODEL"],
        ["prefer", "predict", "MODEL", "--left", "item1", "-o", "OUT"],
    ]
    yield "prefer names", names


def downscaling_cases():
    tables = ["rows.csv", "bags.csv", "--bag", "bag", "--weight", "people"]
    fields = [
        ["downscale", "predict", "MODEL", "rows.csv", "-o", "OUT"],
        ["explain", "MODEL", "rows.csv", "--background", "rows.csv", "--covariance", "-o", "OUT"],
    ]
    for name, arguments in {
        "downscale mean": ["--target", "mean"],
        "downscale sum": ["--target", "total", "--sum"],
        "downscale inducing": ["--target", "mean", "--inducing", "30"],
        "downscale poisson": ["--target", "cases", "--family", "poisson"],
        "downscale poisson inducing": ["--target", "cases", "--family", "poisson", "--inducing", "30"],
        "downscale binomial": ["--target", "wins", "--family", "binomial", "--trials", "trials"],
        "downscale mediated": ["--target", "mean", "--mediators", "latitude", "--operator", "mediated"],
    }.items():
        yield name, [["downscale", "fit", *tables, *arguments, "-o", "MODEL"], *fields]


def effect_cases():
    for name, graph, treatment in (
        ("back-door", "Z -> X; Z -> Y; X -> Y", "X"),
        ("front-door", "X -> M -> Y; X <-> Y", "X"),
        ("sequential", str(DATA / "tests/data/sequential.txt"), "A0,A1"),
    ):
        table = str(DATA / f"tests/data/{name}.csv")
        yield (
            f"causal effect {name}",
            [
                [
                    "causal",
                    "effect",
                    table,
                    "--graph",
                    graph,
                    "--treatment",
                    treatment,
                    "--outcome",
                    "Y",
                    "-o",
                    "OUT",
                ]
            ],
        )


def run(program, commands, folder, label):
    """Runs the commands in `folder`, and returns the bytes of each file they write."""
    model, files = folder / f"{label}.riesz", []
    for k, command in enumerate(commands):
        out = folder / f"{label}{k}.csv"
        filled = [{"MODEL": str(model), "OUT": str(out)}.get(word, word) for word in command]
        done = subprocess.run([program, "--quiet", *filled], cwd=folder, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"error: {program} {' '.join(filled)}: {done.stderr.strip()}")
        files.append((model if command[-1] == "MODEL" else out).read_bytes())
    return files


def columns(data):
    header, *rows = csv.reader(data.decode().splitlines())
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def difference(old, new):
    """Returns the largest difference of a column relative to the column's largest absolute value; infinite
    for other columns or texts. Bounds and residuals are numbers of the size of rounding errors, and are left
    out."""
    old, new, largest = columns(old), columns(new), 0.0
    if list(old) != list(new):
        return float("inf")
    for name, cells in old.items():
        if cells == new[name] or name.startswith(("residual", "bound", "error")):
            continue
        try:
            a, b = (np.array([float(cell or "nan") for cell in part]) for part in (cells, new[name]))
        except ValueError:
            return float("inf")
        if a.shape != b.shape or np.any(np.isnan(a) != np.isnan(b)):
            return float("inf")
        largest = max(largest, float(np.nanmax(abs(a - b)) / max(np.nanmax(abs(a)), 1e-300)))
    return largest


def main(old, new, selected):
    worst, identical, count = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        for case, commands in cases():
            if selected and not any(word in case for word in selected):
                continue
            old_files, new_files = run(old, commands, folder, "old"), run(new, commands, folder, "new")
            parts = []
            for command, a, b in zip(commands, old_files, new_files, strict=True):
                if a == b:
                    continue
                if command[-1] == "MODEL":
                    parts.append("the model files differ")
                else:
                    gap = difference(a, b)
                    worst = max(worst, gap)
                    parts.append(
                        f"{command[0] if command[0] != 'prefer' else ' '.join(command[:2])} {gap:.1e}"
                    )
            count, identical = count + 1, identical + (not parts)
            print(f"{case:40} {'; '.join(parts) or 'same bits'}", flush=True)
    print(f"{identical} of {count} cases have the same bits; the largest difference elsewhere is {worst:.1e}")
    if worst > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
