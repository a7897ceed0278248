"""Simulated worlds of causal data fusion with known effects, which the experiments on effects across
studies share.

A world is a function of a random number generator, the number of rows of study 1 and the number of rows of
the later studies. It returns the studies, the identification of the effect (as riesz.CausalFusion takes
it), and the true effect as a function of treatments.

ablation: X ~ N(0, 2²), Y = X cos πX, T = .5 Y cos Y, noise .3, study 2 between -2 and 6. smooth: Y = X +
.5 sin 2X, T = sin Y, noise .3, 50 and 200 rows each. two modes, one mode: Z ~ U[-4, 4], X = 3 cos Z, U =
2X, or 2(X - 1) - 3 with probability ½, Y = U + exp(-Z), T = cos Y - exp(-Y/20), noise .5, study 2 between
-10 and 10, by the back door; narrow: Z ~ U[-2, 2]. front door: one mode with Z unmeasured, through U.
heavy tails: noise .3 times t with 3 degrees of freedom. harder: the source's graph, the effect of D on the
target, noise .3, through B and C. chain: X → Y → V → T, three studies of 100 rows."""

import numpy as np


def ablation(rng, n, m):
    x = rng.normal(0, 2, n)
    y, ys = x * np.cos(np.pi * x) + 0.3 * rng.normal(size=n), rng.uniform(-2, 6, m)
    t = 0.5 * ys * np.cos(ys) + 0.3 * rng.normal(size=m)

    def truth(g):
        mean = g * np.cos(np.pi * g)
        return 0.5 * np.exp(-0.045) * (mean * np.cos(mean) - 0.09 * np.sin(mean))

    return [{"x": x, "y": y}, {"y": ys, "t": t}], {"randomized": True}, truth


def smooth(rng, n, m):
    x, ys = rng.normal(size=n), rng.uniform(-3, 3, m)
    y, t = x + 0.5 * np.sin(2 * x) + 0.3 * rng.normal(size=n), np.sin(ys) + 0.3 * rng.normal(size=m)
    return (
        [{"x": x, "y": y}, {"y": ys, "t": t}],
        {"randomized": True},
        lambda g: np.sin(g + 0.5 * np.sin(2 * g)) * np.exp(-0.045),
    )


def simple_outcome(y):
    return np.cos(y) - np.exp(-y / 20)


def simple(modes, width, identification):
    def make(rng, n, m, sd=0.5, of_x=0.5):
        z = rng.uniform(-width, width, n)
        x = 3 * np.cos(z) + of_x * rng.normal(size=n)
        other = (rng.random(n) < 0.5) * (modes == 2)
        u = 2 * (x - other) - 3 * other + sd * rng.normal(size=n)
        y, ys = u + np.exp(-z) + sd * rng.normal(size=n), rng.uniform(-10, 10, m)
        t = simple_outcome(ys) + sd * rng.normal(size=m)
        middles = (np.arange(4000) + 0.5) / 4000 * 2 * width - width

        def led(mean):
            mean = mean[:, None] + np.exp(-middles)
            return (np.cos(mean) * np.exp(-(sd**2)) - np.exp(-mean / 20 + sd**2 / 400)).mean(axis=1)

        truth = led if modes == 1 else lambda mean: 0.5 * led(mean) + 0.5 * led(mean - 5)
        column = {"u": u} if identification == "front_door" else {"z": z}
        return (
            [{"x": x, **column, "y": y}, {"y": ys, "t": t}],
            {identification: list(column)},
            lambda g: truth(2 * g),
        )

    return make


def heavy(rng, n, m):
    z = rng.normal(size=n)
    x = z + rng.normal(size=n)
    y, ys = np.sin(x) + 0.5 * z + 0.3 * rng.standard_t(3, n), rng.uniform(-3, 3, m)
    t = ys * np.cos(ys) + 0.3 * rng.standard_t(3, m)
    fixed = np.random.default_rng(0)
    disturbances = 0.5 * fixed.normal(size=200_000) + 0.3 * fixed.standard_t(3, 200_000)
    truth = lambda g: np.array(
        [((np.sin(v) + disturbances) * np.cos(np.sin(v) + disturbances)).mean() for v in g]
    )
    return [{"x": x, "z": z, "y": y}, {"y": ys, "t": t}], {"adjust": ["z"]}, truth


def harder(rng, n, m, sd=0.3):
    def draw_background(rng, n):
        e = lambda: sd * rng.normal(size=n)
        u1, u2 = e(), e()
        a, b = e() ** 2 + u1 + e(), u2 + e()
        c = np.exp(-b) + e()
        return b, c, np.sin(np.cos(a) + c / 10 + e()) + u1 + u2, e(), e()

    b, c, remainder, of_d, of_y = draw_background(rng, n)
    x = np.exp(-c) / 10 + of_d
    y, ys = np.cos(x) + remainder + of_y, rng.uniform(-2, 9, m)
    t = 6 * np.sin(3 * ys) + sd * rng.normal(size=m)
    remainders = draw_background(np.random.default_rng(0), 200_000)[2]
    truth = lambda g: np.array(
        [6 * np.exp(-4.5 * sd**2) * np.sin(3 * (np.cos(v) + remainders)).mean() for v in g]
    )
    return [{"x": x, "b": b, "c": c, "y": y}, {"y": ys, "t": t}], {"adjust": ["b", "c"]}, truth


def chain(rng, n, m):
    x, ys, vs = rng.normal(size=n), rng.uniform(-3, 3, m), rng.uniform(-3, 3, m)
    y = 1.2 * x + 0.3 * rng.normal(size=n)
    v = np.sin(ys) + 0.3 * ys + 0.2 * rng.normal(size=m)
    t = vs**2 / 2 + 0.3 * rng.normal(size=m)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    mean = lambda g: (
        (np.sin(1.2 * g[:, None] + 0.3 * nodes) + 0.3 * (1.2 * g[:, None] + 0.3 * nodes)) ** 2 + 0.04
    )
    truth = lambda g: mean(g) @ weights / weights.sum() / 2
    return [{"x": x, "y": y}, {"y": ys, "v": v}, {"v": vs, "t": t}], {"randomized": True}, truth


#: The function of each world, with the numbers of rows of study 1 and of the later studies.
DESIGNS = {
    "ablation": (ablation, 100, 100),
    "smooth": (smooth, 50, 50),
    "smooth, 200 rows": (smooth, 200, 200),
    "two modes": (simple(2, 4, "adjust"), 100, 50),
    "one mode": (simple(1, 4, "adjust"), 100, 50),
    "narrow": (simple(1, 2, "adjust"), 100, 50),
    "front door": (simple(1, 4, "front_door"), 100, 50),
    "heavy tails": (heavy, 100, 100),
    "heavy tails, 50 and 200 rows": (heavy, 50, 200),
    "harder": (harder, 100, 50),
    "chain": (chain, 100, 100),
}
