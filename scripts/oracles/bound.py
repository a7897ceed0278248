#!/usr/bin/env python3
"""Tries to break the proved bound: exact Shapley values in 60-digit arithmetic, from all coalitions, against `riesz explain`.

    cargo build --release && pip install mpmath
    scripts/oracles/bound.py [ROUNDS]

Random models with factors from near 1 down to 1e-300, negative and zero ones, mixed signs and scales, groups, and all
four games. Prints the largest error as a share of its bound for each game, and fails if one exceeds it.
"""

import itertools
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from mpmath import exp, fabs, mp, mpf

mp.dps = 60
ROOT = pathlib.Path(__file__).resolve().parents[2]
RIESZ = ROOT / "target/release/riesz"


def profile(name, r):
    if name == "gaussian":
        return exp(-r * r / 2)
    if name == "exponential":
        return exp(-r)
    if name == "matern52":
        q = mp.sqrt(5) * r
        return (1 + q + q * q / 3) * exp(-q)
    return 1 / (1 + r * r)


def factors(term, columns, u, v):
    """One number a player: the product of its columns' factors."""
    out = mpf(1)
    for factor in term["factors"]:
        for slot, j in enumerate(factor["columns"]):
            if j not in columns:
                continue
            if factor["factor"] == "linear":
                out *= mpf(u[j]) * mpf(v[j])
            else:
                out *= profile(factor["profile"], fabs(mpf(u[j]) - mpf(v[j])) / mpf(factor["lengthscale"][slot]))
    return out


def shapley(d, value):
    values = {s: value(s) for s in itertools.product([False, True], repeat=d)}
    phi = []
    for j in range(d):
        total = mpf(0)
        for s, v in values.items():
            if not s[j]:
                with_j = s[:j] + (True,) + s[j + 1 :]
                k = sum(s)
                total += mpf(math.factorial(k) * math.factorial(d - k - 1)) / math.factorial(d) * (values[with_j] - v)
        phi.append(total)
    return phi


def truth(model, players, x, game, background):
    kernel, points, coef = model
    rows = background if game in ("interventional", "marginal-product") else background[:1]

    def term_values(s):
        total = mpf(0)
        for i, p in enumerate(points):
            for term in kernel["terms"]:
                present = [factors(term, c, p, x) for c in players]
                if game == "functional":
                    absent = [[mpf(1)] * len(players)]
                else:
                    absent = [[factors(term, c, p, z) for c in players] for z in rows]
                if game == "marginal-product":
                    absent = [[sum(a) / len(rows) for a in zip(*absent)]]
                for b in absent:
                    product = mpf(term["scale"]) / len(absent)
                    for j, on in enumerate(s):
                        product *= present[j] if on else b[j]
                    total += mpf(coef[i]) * product
        return total

    return shapley(len(players), term_values)


def write_model(path, kernel, points, coef):
    n, d = len(points), len(points[0])
    record = {
        "format": "riesz-model",
        "version": 1,
        "columns": [{"name": f"x{j}", "kind": "numeric"} for j in range(d)],
        "kernel": kernel,
        "outputs": ["y"],
        "link": "identity",
        "classes": [],
        "card": [],
    }
    numbers = list(coef) + [0.0] + [v for row in points for v in row]
    sizes = {"coef": [n, 1], "intercept": [1], "points": [n, d]}
    header, at = {"__metadata__": {"riesz": json.dumps(record)}}, 0
    for name, shape in sizes.items():
        end = at + 8 * math.prod(shape)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + struct.pack(f"<{len(numbers)}d", *numbers))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    random.seed(1)
    worst = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for _ in range(rounds):
            d, n = random.randint(1, 6), random.randint(1, 5)
            scale = 10.0 ** random.uniform(-2, 1.6)
            row = lambda: [random.choice([0.0, random.gauss(0, 1), random.gauss(0, scale)]) for _ in range(d)]
            points, x, background = [row() for _ in range(n)], row(), [row() for _ in range(3)]
            for j in range(d):
                if random.random() < 0.3:
                    background[0][j] = x[j]
            coef = [random.gauss(0, 1) * 10 ** random.uniform(-3, 3) for _ in range(n)]
            terms = []
            for _ in range(random.randint(1, 2)):
                stationary = lambda: {
                    "factor": "stationary",
                    "profile": random.choice(["gaussian", "exponential", "matern52", "cauchy"]),
                    "columns": list(range(d)),
                    "lengthscale": [10.0 ** random.uniform(-0.7, 2) for _ in range(d)],
                    "ard": True,
                    "isotropic": False,
                }
                own = [stationary() for _ in range(random.randint(1, 2))]
                if random.random() < 0.5:
                    own.append({"factor": "linear", "columns": [random.randrange(d)], "center": [0.0], "scale": [1.0]})
                terms.append({"scale": 10.0 ** random.uniform(-2, 2), "factors": own})
            kernel = {"terms": terms}
            players = [[j] for j in range(d)]
            groups = []
            if d > 2 and random.random() < 0.4:
                players = [[0, 1]] + [[j] for j in range(2, d)]
                groups = ["--groups", "g=x0,x1"]
            write_model(folder / "m.riesz", kernel, points, coef)
            table = lambda rows: "\n".join([",".join(f"x{j}" for j in range(d))] + [",".join(map(repr, r)) for r in rows])
            (folder / "x.csv").write_text(table([x]))
            (folder / "background.csv").write_text(table(background))
            (folder / "point.csv").write_text(table(background[:1]))
            for game, options in [
                ("functional", []),
                ("baseline", ["--baseline", folder / "point.csv"]),
                ("interventional", ["--background", folder / "background.csv"]),
                ("marginal-product", ["--background", folder / "background.csv"]),
            ]:
                command = [RIESZ, "explain", folder / "m.riesz", folder / "x.csv", "--game", game, *options, *groups]
                subprocess.run([*command, "--quiet", "-o", folder / "e.json"], check=True)
                found = json.loads((folder / "e.json").read_text())
                assert found["players"][0]["columns"] == players[0], found["players"]
                expected = truth((kernel, points, coef), players, x, game, background)
                bound = found["exactness"]["bound"][0]
                errors = [abs(float(mpf(v) - e)) for v, e in zip(found["values"], expected)]
                errors.append(abs(found["exactness"]["residual"][0]))
                share = max(errors) / bound if bound > 0 else (math.inf if max(errors) > 0 else 0.0)
                if share > 1:
                    print("BROKEN", game, share, json.dumps([kernel, points, coef, x, background]))
                worst[game] = max(worst.get(game, 0.0), share)
    for game, share in worst.items():
        print(f"{game:<18} largest error {share:.3g} of its bound, {rounds} models")
    sys.exit(any(share > 1 for share in worst.values()))


if __name__ == "__main__":
    main()
