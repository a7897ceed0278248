#!/usr/bin/env python3
"""Tries to break the proved bound: compares `riesz explain` with exact values of all indices, from all
coalitions in 120-digit arithmetic.

    cargo build --release && pip install mpmath
    scripts/oracles/bound.py [SEED [MINUTES]]

At least 30 random models are tried under all four games. They have every kind of factor, from near 1 down to
1e-300 and below, negative and zero ones, mixed signs and scales, groups, and powers of sums over several
columns, and functions of distances over several columns. Half of the rounds are extreme: thousands of
periods, sums and means that cancel, shapes of rational quadratics and numbers over hundreds of orders of
magnitude.

Prints for each game the largest error as a share of its bound, and the median ratio of bound and error in the
ordinary rounds. Fails if an error exceeds its bound, if a certificate fails, or if a refusal does not name
overflow as its reason. The program is `$RIESZ`, or else the release build."""

import itertools
import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from mpmath import exp, fabs, mp, mpf

mp.dps = 120
ROOT = pathlib.Path(__file__).resolve().parents[2]
RIESZ = os.environ.get("RIESZ", ROOT / "target/release/riesz")
MIN_ROUNDS = 30


def profile(factor, r):
    """The value of a stationary factor's profile at the scaled distance r."""
    name, alpha = factor["profile"], factor.get("alpha")
    if name == "matern":
        nu, z = mpf(factor["nu"]), mp.sqrt(2 * mpf(factor["nu"])) * r
        return mpf(1) if z == 0 else 2 ** (1 - nu) / mp.gamma(nu) * z**nu * mp.besselk(nu, z)
    if name == "inverse_multiquadric":
        return 1 / mp.sqrt(1 + r * r)
    if name == "rational_quadratic":
        return exp(-mpf(alpha) * mp.log1p(r * r / (2 * mpf(alpha))))
    if name == "matern32":
        q = mp.sqrt(3) * r
        return (1 + q) * exp(-q)
    if name == "gaussian":
        return exp(-r * r / 2)
    if name == "exponential":
        return exp(-r)
    if name == "matern52":
        q = mp.sqrt(5) * r
        return (1 + q + q * q / 3) * exp(-q)
    return 1 / (1 + r * r)


def radial(factor):
    """Whether a factor is a function of the distance over several columns, and no product over them."""
    is_joint = factor.get("isotropic") and len(factor["columns"]) > 1
    return is_joint and factor["profile"] != "gaussian"


def radial_factors(term, columns, u, v):
    """The product of the radial factors of distances over the given columns."""
    out = mpf(1)
    for factor in filter(radial, term["factors"]):
        scaled = [
            (mpf(u[j]) - mpf(v[j])) / mpf(length)
            for j, length in zip(factor["columns"], factor["lengthscale"])
            if j in columns
        ]
        out *= profile(factor, mp.sqrt(sum(difference**2 for difference in scaled)))
    return out


def factors(term, columns, u, v):
    """The product of the factors of the given columns between u and v, without radial factors."""
    out = mpf(1)
    for factor in term["factors"]:
        if radial(factor):
            continue
        for slot, j in enumerate(factor["columns"]):
            if j not in columns:
                continue
            kind, apart = factor["factor"], fabs(mpf(u[j]) - mpf(v[j]))
            if kind in ("linear", "polynomial", "exponential_dot_product"):
                center, scale = mpf(factor["center"][slot]), mpf(factor["scale"][slot])
                inner = (mpf(u[j]) - center) * (mpf(v[j]) - center) / scale**2
                if kind == "exponential_dot_product":
                    inner = exp(mpf(factor["gamma"]) * inner)
                if kind == "polynomial":
                    inner = (mpf(factor["gamma"]) * inner + mpf(factor["coef0"])) ** factor["degree"]
                out *= inner
            elif kind == "periodic":
                cycles = apart / mpf(factor["period"])
                out *= exp(
                    -2 * (mp.sin(mp.pi * (cycles - mp.floor(cycles))) / mpf(factor["lengthscale"])) ** 2
                )
            elif kind == "anova":
                length, scale = mpf(factor["lengthscale"][slot]), mpf(factor["scale"][slot])
                from_center = sum((mpf(w[j]) - mpf(factor["center"][slot])) ** 2 for w in (u, v))
                wide = length**2 + scale**2
                means = length * mp.sqrt(length**2 + 2 * scale**2) / wide * exp(-from_center / (2 * wide))
                out *= 1 + mpf(factor["variance"]) * (exp(-((apart / length) ** 2) / 2) - means)
            elif kind == "categorical":
                out *= 1 if apart == 0 else mpf(factor["similarity"])
            else:
                out *= profile(factor, apart / mpf(factor["lengthscale"][slot]))
    return out


INDICES = ["shapley", "banzhaf", "leave-one-out", "first-order"]
INTERACTIONS = ["sii", "k-sii", "stii", "fsii", "bii", "fbii", "moebius"]


def drawn_index():
    """A random index, as its name and its order, the size of the largest sets."""
    if random.random() < 0.4:
        return "shapley", 1
    if random.random() < 0.6:
        return random.choice(INTERACTIONS), random.choice([2, 2, 3, 4])
    alpha, beta, p = random.choice([0.5, 4.0, 16.0]), random.choice([1.0, 2.5, 9.0]), random.random()
    measure = f"semivalue({p}: {p}, {random.random()}: {1.0 - p})"
    return random.choice([*INDICES, f"beta-shapley({alpha},{beta})", f"banzhaf({p})", measure]), 1


def bernoulli(r):
    return mpf(1) if r == 0 else -sum(math.comb(r + 1, k) * bernoulli(k) for k in range(r)) / (r + 1)


def weight(index, order, size, s):
    """The weight of the dividend of s players in the value of a set of ``size`` of them."""
    t = {
        "banzhaf": mpf(1) / 2,
        "bii": mpf(1) / 2,
        "leave-one-out": mpf(1),
        "first-order": mpf(0),
        "moebius": mpf(0),
    }.get(index)
    if index.startswith("banzhaf("):
        t = mpf(float(index[8:-1]))
    if t is not None:
        return t ** (s - size) if s > size else mpf(1)
    if index.startswith("semivalue"):
        nodes = [[mpf(float(v)) for v in pair.split(":")] for pair in index[10:-1].split(",")]
        return sum(w * (t ** (s - 1) if s > 1 else mpf(1)) for t, w in nodes)
    if index.startswith("beta"):
        alpha, beta = (mpf(float(v)) for v in index[13:-1].split(","))
        return math.prod([(beta + i) / (alpha + beta + i) for i in range(s - 1)], start=mpf(1))
    if index in ("shapley", "sii"):
        return mpf(1) / (s - size + 1)
    if index == "k-sii":
        # The weights include Bernoulli shares of all larger sets.
        larger = range(min(order, s) - size + 1)
        return sum(bernoulli(r) * math.comb(s - size, r) / mpf(s - size - r + 1) for r in larger)
    if index == "stii":
        return mpf(1) / math.comb(s, order) if size == order else mpf(s == size)
    # The faithful interaction index: Tsai, Yeh and Ravikumar 2023, theorems 17 and 19.
    if s <= order:
        return mpf(s == size)
    sign = (-1) ** (order - size)
    if index == "fsii":
        share = mpf(size) / (order + size) * math.comb(order, size)
        return sign * share * math.comb(s - 1, order) / math.comb(s + order - 1, order + size)
    return sign * mpf(2) ** (size - s) * math.comb(s - size - 1, order - size)


def values_of(index, order, d, value):
    """Values of all sets of up to ``order`` players, from all coalitions."""
    coalition_values = {s: value(s) for s in itertools.product([False, True], repeat=d)}
    dividend = {
        s: sum(
            (-1) ** (sum(s) - sum(r)) * v
            for r, v in coalition_values.items()
            if all(a <= b for a, b in zip(r, s))
        )
        for s in coalition_values
    }
    sets = [
        subset for size in range(1, min(order, d) + 1) for subset in itertools.combinations(range(d), size)
    ]
    return [
        sum(
            weight(index, order, len(subset), sum(s)) * m
            for s, m in dividend.items()
            if all(s[j] for j in subset)
        )
        for subset in sets
    ]


def tied(term):
    """Whether a term is a power of a sum over several columns."""
    return any(factor["factor"] == "polynomial" and len(factor["columns"]) > 1 for factor in term["factors"])


def power(term, p, row):
    """The value of a tied power term between two rows."""
    [factor] = term["factors"]
    inner = mpf(0)
    for slot, j in enumerate(factor["columns"]):
        center, scale = mpf(factor["center"][slot]), mpf(factor["scale"][slot])
        inner += (mpf(p[j]) - center) * (mpf(row[j]) - center) / scale**2
    return mpf(term["scale"]) * (mpf(factor["gamma"]) * inner + mpf(factor["coef0"])) ** factor["degree"]


def has_single_player(term, players):
    """Whether all columns of a power belong to one player."""
    return any(set(term["factors"][0]["columns"]) <= set(columns) for columns in players)


def mixtures(game, s, players, x, rows):
    """Rows with the present players' columns of x and the absent players' columns of background rows, all
    from one row or each player from its own row."""
    absent = [columns for on, columns in zip(s, players) if not on]
    draws = (
        itertools.product(rows, repeat=len(absent))
        if game == "marginal-product"
        else ([row] * len(absent) for row in rows)
    )
    for drawn in draws:
        mixed = list(x)
        for columns, row in zip(absent, drawn):
            for j in columns:
                mixed[j] = row[j]
        yield mixed


def truth(model, players, x, game, background, index, order):
    kernel, points, coef = model
    rows = background if game in ("interventional", "marginal-product") else background[:1]

    def term_values(s):
        total = mpf(0)
        for i, p in enumerate(points):
            for term in kernel["terms"]:
                if tied(term):
                    if game == "functional":
                        # All its columns belong to one player: an absent one leaves the factor 1.
                        is_present = any(
                            on and set(term["factors"][0]["columns"]) <= set(columns)
                            for on, columns in zip(s, players)
                        )
                        total += mpf(coef[i]) * (power(term, p, x) if is_present else mpf(term["scale"]))
                        continue
                    powers = [power(term, p, row) for row in mixtures(game, s, players, x, rows)]
                    total += mpf(coef[i]) * sum(powers) / len(powers)
                    continue
                if any(map(radial, term["factors"])):
                    # The columns of present players, between the row itself and the point; or all columns.
                    columns, mixed_rows = range(len(x)), mixtures(game, s, players, x, rows)
                    if game == "functional":
                        columns = [j for on, columns in zip(s, players) if on for j in columns]
                        mixed_rows = [x]
                    products = [
                        factors(term, columns, p, row) * radial_factors(term, columns, p, row)
                        for row in mixed_rows
                    ]
                    total += mpf(coef[i]) * mpf(term["scale"]) * sum(products) / len(products)
                    continue
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

    return values_of(index, order, len(players), term_values)


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
    header, offset = {"__metadata__": {"riesz": json.dumps(record)}}, 0
    for name, shape in sizes.items():
        end = offset + 8 * math.prod(shape)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + struct.pack(f"<{len(numbers)}d", *numbers))


def stationary_factor(d, extreme):
    """A random stationary factor of all columns."""
    names = ["gaussian", "exponential", "matern32", "matern52", "cauchy", "rational_quadratic"]
    names += ["inverse_multiquadric"]
    # Bessel functions in 120 digits are slow.
    name = random.choice(names + ["matern"] * (d < 4))
    factor = {
        "factor": "stationary",
        "profile": name,
        "columns": list(range(d)),
        "lengthscale": [10.0 ** random.uniform(-0.7, 2) for _ in range(d)],
        "ard": True,
        "isotropic": random.random() < 0.4,
    }
    if name == "matern":
        factor["nu"] = random.choice([0.5, 1.0, 3.5, random.uniform(0.05, 5.0), random.uniform(5.0, 100.0)])
    if name == "rational_quadratic":
        factor["alpha"] = 10.0 ** (random.uniform(-149, 149) if extreme else random.uniform(-1, 2))
    return factor


def single_column_factor(d, scale, extreme, points, x, background):
    """A random factor of one column; in extreme rounds the base of a power may cancel."""
    j = random.randrange(d)
    units = {
        "columns": [j],
        "center": [random.choice([0.0, random.gauss(0, 1)])],
        "scale": [random.choice([1.0, 0.3, scale])],
    }
    kind = random.choice(["linear", "periodic", "polynomial", "categorical", "exponential_dot_product"])
    if kind == "exponential_dot_product":
        return {"factor": kind, "gamma": 10.0 ** random.uniform(-2, 1) / units["scale"][0], **units}
    if kind == "linear":
        return {"factor": kind, **units}
    if kind == "polynomial":
        gamma, coef0 = 10.0 ** random.uniform(-1, 1), random.choice([0.0, 1.0, random.uniform(0, 3)])
        root = units["center"][0] - coef0 * units["scale"][0] ** 2 / gamma / (
            points[0][j] - units["center"][0] or 1.0
        )
        if extreme and math.isfinite(root) and abs(root) < 1e60:
            # A power whose base cancels.
            x[j], background[0][j] = root, root * (1 + random.uniform(-1e-12, 1e-12))
        return {"factor": kind, "gamma": gamma, "coef0": coef0, "degree": random.randint(1, 4), **units}
    if kind == "periodic":
        period = 10.0 ** random.uniform(-6 if extreme else -1, 1)
        return {
            "factor": kind,
            "columns": [j],
            "period": period,
            "lengthscale": 10.0 ** random.uniform(-1, 1),
        }
    return {"factor": kind, "columns": [j], "similarity": random.choice([0.0, 0.3, 1e-200])}


def anova_factor(d, scale, extreme):
    """A random ANOVA factor of some columns."""
    columns = random.sample(range(d), random.randint(1, d))
    return {
        "factor": "anova",
        "columns": columns,
        "lengthscale": [10.0 ** random.uniform(*((-3, 6) if extreme else (-0.7, 2))) for _ in columns],
        "center": [random.choice([0.0, random.gauss(0, 1)]) for _ in columns],
        "scale": [random.choice([1.0, 0.3, scale]) for _ in columns],
        "variance": 10.0 ** random.uniform(*((-6, 12) if extreme else (-1, 1))),
        "ard": True,
    }


def drawn(extreme):
    """A random model, row and background with one number of columns."""
    d, n = random.randint(1, 6), random.randint(1, 5)
    scale = 10.0 ** random.uniform(
        *((-100, 100) if extreme and random.random() < 0.2 else (-2, 3 if extreme else 1.6))
    )
    row = lambda: [random.choice([0.0, random.gauss(0, 1), random.gauss(0, scale)]) for _ in range(d)]
    points, x, background = [row() for _ in range(n)], row(), [row() for _ in range(3)]
    for j in range(d):
        if random.random() < 0.3:
            background[0][j] = x[j]
        if extreme and random.random() < 0.3:
            # Background rows whose means cancel.
            size = 10.0 ** random.uniform(0, 17)
            background[1][j], background[2][j] = size + background[1][j], -size
    coef = [
        random.gauss(0, 1)
        * 10 ** random.uniform(*((-200, 200) if extreme and random.random() < 0.1 else (-3, 3)))
        for _ in range(n)
    ]

    terms = []
    if random.random() < 0.2:
        terms.append({"scale": 10.0 ** random.uniform(-2, 2), "factors": [anova_factor(d, scale, extreme)]})
    stationary = lambda: stationary_factor(d, extreme)
    single = lambda: single_column_factor(d, scale, extreme, points, x, background)
    for _ in range(random.randint(1, 2)):
        term_factors = [stationary() for _ in range(random.randint(0 if extreme else 1, 2))]
        term_factors += [
            single() for _ in range(random.choice([0, 1, 1, 2]) if extreme else random.choice([0, 1]))
        ]
        terms.append({"scale": 10.0 ** random.uniform(-2, 2), "factors": term_factors or [stationary()]})
    if d > 1 and random.random() < 0.4:
        terms.append(tied_power(d, scale, extreme, points, x, background))
    return {"terms": terms}, points, coef, x, background


def tied_power(d, scale, extreme, points, x, background):
    """A power of a sum over columns of several players; in half of the extreme rounds the sum cancels."""
    columns = random.sample(range(d), random.randint(2, d))
    gamma, coef0 = 10.0 ** random.uniform(-1, 1), random.choice([0.0, 1.0, random.uniform(0, 3)])
    if extreme and random.random() < 0.5:
        # Pairs of columns whose products have opposite signs and nearly the same size.
        a, b = columns[:2]
        x[b] = -x[a] * points[0][a] / (points[0][b] or 1.0) * (1 + random.uniform(-1e-12, 1e-12))
        background[0][b] = -background[0][a] * points[0][a] / (points[0][b] or 1.0)
    factor = {"factor": "polynomial", "columns": columns, "gamma": gamma, "coef0": coef0}
    factor["degree"] = random.choice([1, 2, 3, 4, 5, 6, random.randint(7, 20)])
    factor["center"] = [random.choice([0.0, random.gauss(0, 1)]) for _ in columns]
    factor["scale"] = [random.choice([1.0, 0.3, scale]) for _ in columns]
    return {"scale": 10.0 ** random.uniform(-2, 2), "factors": [factor]}


def write_tables(folder, x, background, repeated):
    """Writes the row, the background with its rows ``repeated`` times, and its first row."""
    names = ",".join(f"x{j}" for j in range(len(x)))
    table = lambda rows: "\n".join([names] + [",".join(map(repr, r)) for r in rows])
    (folder / "x.csv").write_text(table([x]))
    (folder / "background.csv").write_text(table(background * repeated))
    (folder / "point.csv").write_text(table(background[:1]))


def share_of_bound(explanation, errors, index):
    """The largest error of the values and of their sum, as a share of the proved bound."""
    bound = explanation["exactness"]["error_bound"][0]
    residual = 0.0
    if index in ("shapley", "k-sii", "stii", "fsii"):
        residual = abs(
            explanation["predictions"][0] - explanation["base_values"][0] - sum(explanation["values"])
        )
    if bound > 0:
        return float(max(*errors, mpf(residual)) / mpf(bound))
    return math.inf if max(errors) > 0 else 0.0


def main():
    random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    until = time.monotonic() + 60 * (float(sys.argv[2]) if len(sys.argv) > 2 else 5.0)
    rounds, worst, loose, refused, broken = 0, {}, {}, 0, False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        while rounds < MIN_ROUNDS or time.monotonic() < until:
            extreme = rounds % 2 == 1
            rounds += 1
            kernel, points, coef, x, background = drawn(extreme)
            d = len(x)
            players = [[j] for j in range(d)]
            groups = []
            if d > 2 and random.random() < 0.4:
                players = [[0, 1]] + [[j] for j in range(2, d)]
                groups = ["--groups", "g=x0,x1"]
            # Many equal rows have rounding errors of the same sign.
            repeated = 20000 if not extreme and random.random() < 0.1 else 1
            write_model(folder / "m.riesz", kernel, points, coef)
            write_tables(folder, x, background, repeated)
            for game, options in [
                ("functional", []),
                ("baseline", ["--baseline", folder / "point.csv"]),
                ("interventional", ["--background", folder / "background.csv"]),
                ("marginal-product", ["--background", folder / "background.csv"]),
            ]:
                index, order = drawn_index()
                description = json.dumps(
                    [game, index, order, kernel, points, coef, x, background, repeated, players]
                )
                command = [
                    RIESZ,
                    "explain",
                    folder / "m.riesz",
                    folder / "x.csv",
                    "--game",
                    game,
                    "--index",
                    index if order < 3 else f"{index}({order})",
                    *options,
                    *groups,
                ]
                done = subprocess.run(
                    [*command, "--quiet", "-o", folder / "e.json"], capture_output=True, text=True
                )
                if game == "functional" and any(
                    tied(t) and not has_single_player(t, players) for t in kernel["terms"]
                ):
                    if done.returncode == 0 or "with a background or a baseline" not in done.stderr:
                        print("NOT REFUSED", done.stderr.strip(), description)
                        broken = True
                    continue
                if done.returncode:
                    refused += 1
                    if "overflow" not in done.stderr:
                        print("REFUSED", done.stderr.strip(), description)
                        broken = True
                    continue
                explanation = json.loads((folder / "e.json").read_text())
                assert explanation["features"][0]["columns"] == players[0], explanation["features"]
                expected = truth((kernel, points, coef), players, x, game, background, index, order)
                errors = [fabs(mpf(v) - e) for v, e in zip(explanation["values"], expected)]
                share = share_of_bound(explanation, errors, index)
                if share > 1:
                    print("BROKEN", game, share, description)
                    broken = True
                worst[game] = max(worst.get(game, 0.0), share)
                if not extreme and max(errors) > 0:
                    bound = explanation["exactness"]["error_bound"][0]
                    loose.setdefault(game, []).append(float(mpf(bound) / max(errors)))
    for game, share in worst.items():
        times = f", bound {statistics.median(loose[game]):.3g} times the error" if game in loose else ""
        print(f"{game:<18} largest error {share:.3g} of its bound{times}, {rounds} models")
    print(f"{refused} of {4 * rounds} refused because they overflow")
    sys.exit(broken)


if __name__ == "__main__":
    main()
