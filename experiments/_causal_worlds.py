"""Simulated worlds of causal data fusion with known effects, which the experiments on effects across
studies share.

A world is a function of a random number generator, the number of rows of study 1 and the number of rows of
the later studies. It returns the studies, the identification of the effect (as riesz.CausalFusion takes
it), and the true effect as a function of treatments.

Worlds of the source (Chau 2023, appendix B.4). It states no noise for the first two, and a normal law is
N(mean, variance) throughout.
ablation: X ~ N(0, 2²), Y = X cos πX, T = .5 Y cos Y, noise .3, study 2 between -2 and 6.
simple: Z ~ U[-4, 4], X = 3 cos Z, U = 2X, Y = U + exp(-Z), T = cos Y - exp(-Y/20), noise .5, study 2 between
-10 and 10. "two modes": U = 2(X - 1) - 3 with probability ½. "two modes" and "one mode" adjust for Z; "front
door" has two modes and measures U instead of Z.
harder: the effects of D (adjusting for B and C) and of E (for A and C) in a graph of Aglietti et al. 2020.
Y = cos D + sin E + U₁ + U₂, plus 2π with probability ½; T = 6 sin 3Y; all noise has the same standard
deviation, 1 in the source.
health care: doses of statin, PSA and cancer volume; see ``healthcare``.

Further worlds. smooth: Y = X + .5 sin 2X, T = sin Y, noise .3, 50 and 200 rows each. narrow: one mode, Z ~
U[-2, 2]. heavy tails: noise .3 times t with 3 degrees of freedom. chain: X → Y → V → T, three studies of 100
rows."""

from functools import cache

import numpy as np
from scipy.special import expit, jv


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


def harder(treatment, sd):
    """The world of the effect of ``treatment``, "D" or "E". The two modes of Y do not matter for T, because
    sin 3Y has a period of 2π/3."""

    def make(rng, n, m):
        noise = lambda size=n: sd * rng.normal(size=size)
        u1, u2 = noise(), noise()
        a, b = noise() ** 2 + u1 + noise(), u2 + noise()
        c = np.exp(-b) + noise()
        d, e = np.exp(-c) / 10 + noise(), np.cos(a) + c / 10 + noise()
        y = np.cos(d) + np.sin(e) + u1 + u2 + 2 * np.pi * (rng.random(n) < 0.5)
        ys = rng.uniform(-2, 9, m)
        covariates = {"b": b, "c": c} if treatment == "D" else {"a": a, "c": c}
        first = {"x": d if treatment == "D" else e, **covariates, "y": y}
        second = {"y": ys, "t": 6 * np.sin(3 * ys) + noise(m)}
        return [first, second], {"adjust": list(covariates)}, harder_truth(treatment, sd)

    return make


@cache
def harder_truth(treatment, sd):
    """The true effect in ``harder``: 6 E sin 3Y, with E exp(3iY) by the series exp(3i sin v) = Σ J_k(3)
    exp(ikv), where J_k are Bessel functions. The expectations given B and A + noise are sums over grids of
    8 standard deviations; with U₁ and U₂ given these sums, 3U has the mean 1.5 times the sum and the variance
    4.5 sd²."""
    orders = np.arange(-25, 26)
    half_damping = np.exp(-2.25 * sd**2)

    def normal_grid(size, width):
        nodes = np.linspace(-8, 8, size)
        weights = np.exp(-(nodes**2) / 2)
        return width * sd * nodes, weights / weights.sum()

    b, b_weights = normal_grid(20_001, np.sqrt(2))
    if treatment == "D":
        # E = cos A + (exp(-B) + noise)/10 + noise, where A is a square plus s.
        (s, s_weights), (f, f_weights) = normal_grid(401, np.sqrt(2)), normal_grid(401, 1)
        cos_a = np.cos(f[:, None] ** 2 + s)
        phase = np.exp(1.5j * s) * s_weights
        of_a = np.array([f_weights @ np.exp(1j * k * cos_a) @ phase for k in orders])
        of_b = np.exp(1j * np.outer(orders, np.exp(-b) / 10)) @ (np.exp(1.5j * b) * b_weights)
        terms = jv(orders, 3) * np.exp(-(orders**2) * 1.01 * sd**2 / 2) * of_a * of_b
        factor, inner = terms.sum() * half_damping**2, np.cos
    else:
        # D = exp(-C)/10 + noise, C = exp(-B) + noise; U₁ is independent of E, which is set.
        b, b_weights = normal_grid(2001, np.sqrt(2))
        c, c_weights = normal_grid(401, 1)
        mean_d = np.exp(-np.exp(-b)[:, None] - c) / 10
        phase = np.exp(1.5j * b) * b_weights
        of_d = np.array([phase @ np.exp(1j * k * mean_d) @ c_weights for k in orders])
        terms = 1j**orders * jv(orders, 3) * np.exp(-(orders**2) * sd**2 / 2) * of_d
        factor, inner = terms.sum() * half_damping**3, np.sin
    return lambda values: 6 * np.imag(np.exp(3j * inner(values)) * factor)


def healthcare(dose_noise):
    """Doses of statin, PSA and cancer volume. The mediator is log PSA, and the outcome is the log volume.

    Doses are a function of age and bmi, as in the source, or vary around it by a logit with the standard
    deviation ``dose_noise``. In the source study 2 comes from a Gaussian process fitted to the 97 patients of
    Stamey et al. 1989. Here it has their moments and regression line: log PSA ~ N(2.48, 1.15²), log volume
    = .75 log PSA - .51, noise .80."""

    def patients(rng, n):
        age = rng.uniform(15, 75, n)
        bmi = 27 - 0.01 * age + np.sqrt(0.7) * rng.normal(size=n)
        return age, bmi, np.sqrt(0.4) * rng.normal(size=n)

    def log_psa(age, bmi, noise, statin):
        aspirin = expit(-8 + 0.1 * age + 0.03 * bmi)
        cancer = expit(2.2 - 0.05 * age + 0.01 * bmi - 0.04 * statin + 0.02 * aspirin)
        mean = 6.8 + 0.04 * age - 0.15 * bmi - 0.6 * statin + 0.55 * aspirin + cancer
        return np.log(mean + noise)

    def make(rng, n, m):
        age, bmi, noise = patients(rng, n)
        statin = expit(-13 + 0.1 * age + 0.2 * bmi + dose_noise * rng.normal(size=n))
        ys = 2.48 + 1.15 * rng.normal(size=m)
        population = patients(np.random.default_rng(0), 20_000)
        truth = lambda doses: np.array([0.75 * log_psa(*population, dose).mean() - 0.51 for dose in doses])
        first = {"x": statin, "age": age, "bmi": bmi, "y": log_psa(age, bmi, noise, statin)}
        second = {"y": ys, "t": 0.75 * ys - 0.51 + 0.8 * rng.normal(size=m)}
        return [first, second], {"adjust": ["age", "bmi"]}, truth

    return make


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
    "front door": (simple(2, 4, "front_door"), 100, 50),
    "heavy tails": (heavy, 100, 100),
    "heavy tails, 50 and 200 rows": (heavy, 50, 200),
    "harder, D": (harder("D", 0.3), 100, 50),
    "harder, E": (harder("E", 0.3), 100, 50),
    "chain": (chain, 100, 100),
}
