"""How often bands of effects across studies hold the truth: causal data fusion (chapter 4 of Chau 2023), on designs whose truth is known.

    python experiments/causal_calibration.py [NAME ...] [--full] [--seeds COUNT] [--draws COUNT]

Study 1 has treatment X, mediator Y and covariates Z (or what intercepts the effect), study 2 mediator and outcome. The published figures have no numbers for calibration; noise and ranges that the source leaves open are said below.
Coverage of bands at nominal 50, 80 and 95 % is of 41 treatments between the 2.5 % and 97.5 % quantiles of those of study 1, averaged over data sets (± standard error over these at 95 %), beside the mean standard
deviation and the root mean squared error. Seeds are fresh: none has been looked at while defaults were chosen.

ablation: X ~ N(0, 2²), Y = X cos πX, T = .5 Y cos Y, noise .3, study 2 between -2 and 6. smooth: Y = X + .5 sin 2X, T = sin Y, noise .3, 50 and 200 rows each.
two modes, one mode: Z ~ U[-4, 4], X = 3 cos Z, U = 2X or with chance ½ 2(X - 1) - 3, Y = U + exp(-Z), T = cos Y - exp(-Y/20), noise .5, study 2 between -10 and 10, by the back door; narrow: Z ~ U[-2, 2].
front door: one mode with Z unmeasured, through U. heavy tails: noise .3 times t with 3 degrees of freedom. harder: the source's graph, of D on the target, noise .3, through B and C. chain: X → Y → V → T,
three studies of 100 rows.

criterion: at least .90 at 95 % and .72 at 80 %.

Full: 100 data sets instead of 20.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, chosen, finish, panels, table, within

import riesz

LEVELS = {50: 0.674, 80: 1.282, 95: 1.960}
FIRST_SEED = 700_000


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
    return [{"x": x, "y": y}, {"y": ys, "t": t}], {"randomized": True}, lambda g: np.sin(g + 0.5 * np.sin(2 * g)) * np.exp(-0.045)


def simple(modes, width, how):
    def make(rng, n, m, sd=0.5):
        z = rng.uniform(-width, width, n)
        x = 3 * np.cos(z) + sd * rng.normal(size=n)
        other = (rng.random(n) < 0.5) * (modes == 2)
        u = 2 * (x - other) - 3 * other + sd * rng.normal(size=n)
        y, ys = u + np.exp(-z) + sd * rng.normal(size=n), rng.uniform(-10, 10, m)
        t = np.cos(ys) - np.exp(-ys / 20) + sd * rng.normal(size=m)
        middles = (np.arange(4000) + 0.5) / 4000 * 2 * width - width

        def led(mean):
            mean = mean[:, None] + np.exp(-middles)
            return (np.cos(mean) * np.exp(-(sd**2)) - np.exp(-mean / 20 + sd**2 / 400)).mean(axis=1)

        truth = led if modes == 1 else lambda mean: 0.5 * led(mean) + 0.5 * led(mean - 5)
        column = {"u": u} if how == "front_door" else {"z": z}
        return [{"x": x, **column, "y": y}, {"y": ys, "t": t}], {how: list(column)}, lambda g: truth(2 * g)

    return make


def heavy(rng, n, m):
    z = rng.normal(size=n)
    x = z + rng.normal(size=n)
    y, ys = np.sin(x) + 0.5 * z + 0.3 * rng.standard_t(3, n), rng.uniform(-3, 3, m)
    t = ys * np.cos(ys) + 0.3 * rng.standard_t(3, m)
    fixed = np.random.default_rng(0)
    rest = 0.5 * fixed.normal(size=200_000) + 0.3 * fixed.standard_t(3, 200_000)
    truth = lambda g: np.array([((np.sin(v) + rest) * np.cos(np.sin(v) + rest)).mean() for v in g])
    return [{"x": x, "z": z, "y": y}, {"y": ys, "t": t}], {"adjust": ["z"]}, truth


def harder(rng, n, m, sd=0.3):
    def around(rng, n):
        e = lambda: sd * rng.normal(size=n)
        u1, u2 = e(), e()
        a, b = e() ** 2 + u1 + e(), u2 + e()
        c = np.exp(-b) + e()
        return b, c, np.sin(np.cos(a) + c / 10 + e()) + u1 + u2, e(), e()

    b, c, rest, of_d, of_y = around(rng, n)
    x = np.exp(-c) / 10 + of_d
    y, ys = np.cos(x) + rest + of_y, rng.uniform(-2, 9, m)
    t = 6 * np.sin(3 * ys) + sd * rng.normal(size=m)
    many = around(np.random.default_rng(0), 200_000)[2]
    truth = lambda g: np.array([6 * np.exp(-4.5 * sd**2) * np.sin(3 * (np.cos(v) + many)).mean() for v in g])
    return [{"x": x, "b": b, "c": c, "y": y}, {"y": ys, "t": t}], {"adjust": ["b", "c"]}, truth


def chain(rng, n, m):
    x, ys, vs = rng.normal(size=n), rng.uniform(-3, 3, m), rng.uniform(-3, 3, m)
    y = 1.2 * x + 0.3 * rng.normal(size=n)
    v = np.sin(ys) + 0.3 * ys + 0.2 * rng.normal(size=m)
    t = vs**2 / 2 + 0.3 * rng.normal(size=m)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    mean = lambda g: (np.sin(1.2 * g[:, None] + 0.3 * nodes) + 0.3 * (1.2 * g[:, None] + 0.3 * nodes)) ** 2 + 0.04
    truth = lambda g: mean(g) @ weights / weights.sum() / 2
    return [{"x": x, "y": y}, {"y": ys, "v": v}, {"v": vs, "t": t}], {"randomized": True}, truth


#: How data are made, and rows of study 1 and of those after it.
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


def measured(make, n, m, seeds, draws):
    """By data set coverage at the levels, mean standard deviation, and mean squared error."""
    found = []
    for seed in range(seeds):
        studies, how, truth = make(np.random.default_rng(FIRST_SEED + seed), n, m)
        asked = np.linspace(*np.quantile(studies[0]["x"], [0.025, 0.975]), 41)
        fusion = riesz.CausalFusion(treatment="x", outcome="t", draws=draws, random_state=seed, **how)
        effect = fusion.fit([pd.DataFrame(study) for study in studies]).effect(asked)
        off = effect.mean - truth(asked)
        held = [np.mean(np.abs(off) < score * effect.sd) for score in LEVELS.values()]
        found.append([*held, effect.sd.mean(), np.mean(off**2)])
    return np.array(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="data sets of each design, by default 20, in full 100")
    parser.add_argument("--draws", type=int, default=16, help="of kernels, noises and ridges; 0 for the best")
    options = arguments(__doc__, (chosen(DESIGNS), parser))
    seeds = options.seeds or (100 if options.full else 20)
    warnings.simplefilter("ignore", UserWarning)
    figure, (axis,) = panels(1)
    lines = []
    for place, name in enumerate(own for own in DESIGNS if not options.parts or own in options.parts):
        make, n, m = DESIGNS[name]
        start = time.process_time()
        found = measured(make, n, m, seeds, options.draws)
        seconds = (time.process_time() - start) / seeds
        mean, error = found.mean(axis=0), found[:, 2].std() / np.sqrt(seeds)
        held = f"{within(mean[2], low=0.9)}; {within(mean[1], low=0.72)}"
        cells = [f"{mean[0]:.2f}", f"{mean[1]:.2f}", f"{mean[2]:.2f} ± {error:.2f}", f"{mean[3]:.2f}", f"{np.sqrt(mean[4]):.2f}"]
        lines.append([name, f"{n}, {m}", *cells, f"{seconds:.2f}", held])
        print(*lines[-1], sep="  ", flush=True)
        for colour, (level, own) in zip(COLOURS, zip(LEVELS, mean)):
            axis.plot(own, place, "o", color=colour, label=f"{level} %" if place == 0 else None)
    for colour, level in zip(COLOURS, LEVELS):
        axis.axvline(level / 100, color=colour, linewidth=0.8)
    axis.set_yticks(range(len(lines)), [line[0] for line in lines], fontsize=7)
    axis.invert_yaxis()
    axis.set_title("share of truths that bands hold", fontsize=9)
    axis.legend(fontsize=7)
    header = ["design", "rows", "50 %", "80 %", "95 %", "mean sd", "RMSE", "seconds", "criterion (95 %; 80 %)"]
    text = (
        f"Coverage of bands of effects, {seeds} data sets each (± standard error), {options.draws} draws of hyper-parameters\n\n"
    )
    finish(options, "causal_calibration", figure, text + table(header, lines))
