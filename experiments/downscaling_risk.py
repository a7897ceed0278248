"""The learning rate of the conditional mean process: excess reconstruction risk against the number of
targets (Chau, Bouabid and Sejdinovic 2021; theorem 3.4.2 and section A.5.2 of Chau 2023).

    python experiments/downscaling_risk.py [--full] [--seeds COUNT]

The posterior mean is the adjoint of an operator D that reconstructs mediators y from the mean of rows
given y. D minimises the risk E|y - D E[x | y]|² (with linear kernels, so everything is
finite-dimensional). The excess risk is the risk minus its minimum. The theorem bounds it by M^(-bc/(bc+1))
for M targets. Here the eigenvalues of the covariance of E[x | y] decrease like i^(-b), and c is the
smoothness of the best D. With few rows the bound is M^(-ac/(c+1)), where a is the rate at which rows grow
with M. The text of A.5.2 says that a larger b slows this down, but by the exponent it accelerates it.

Simulated data: x given y = (u, w) is normal around the 60 numbers s_i u_i, whose variances are i^(-b). w
is the product of θ with these numbers plus noise of .5, so y can't be reconstructed completely. s_i is i^r
and θ_i is i^(-r), with r chosen for the required c. The regularisation is that of the theorem,
M^(-b/(bc+1)) for targets, and 10^-8 for the regression on mediators. There are twice as many bags as
targets, with five rows each. D of the process consists of the weights of the targets at each of 60 unit
rows (`shares`); its excess risk has a closed form. It is compared with D from the source's formulas.

criterion: the slope of log risk on log M is negative, and steeper for larger b. Equality with the
theorem's rate is not required: the theorem is an upper bound for the worst case, and with a finite number
of columns (60) the slope tends to -1.

Full: 20 seeds instead of 10, and up to 2,048 targets instead of 512.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, criterion_text, finish, panels, table

import riesz
from riesz.kernels import Linear

SIZE, NOISE, ROWS, RIDGE = 60, 0.5, 5, 1e-8
DECAYS, SMOOTHNESS = [1.25, 2.0, 4.0], [1.0, 1.5]
ORDER = np.arange(1, SIZE + 1)
FEATURES, MEDIATORS = [f"x{i}" for i in range(SIZE)], [f"y{i}" for i in range(SIZE + 1)]


def problem(b, c):
    """Variances of the means of rows, and the best operator, (mediators, columns of rows)."""
    steep = 0.5 + b * (c - 1) / 2 + 0.05
    best = ORDER**-steep
    return ORDER**-b, np.vstack([np.diag(best), best])


def mediators(rng, count, variances, best):
    """Mediators y = (u, w), and the means of rows given these."""
    means = rng.normal(size=(count, SIZE)) * np.sqrt(variances)
    y = means @ best.T
    y[:, -1] += NOISE * rng.normal(size=count)
    return y, means


def generated(seed, count, b, c):
    """Rows of bags, mediators of the bags, and mediators of the targets."""
    rng = np.random.default_rng(seed)
    variances, best = problem(b, c)
    y, means = mediators(rng, 2 * count, variances, best)
    targets, _ = mediators(rng, count, variances, best)
    x = np.repeat(means, ROWS, axis=0)
    return x + 0.5 * np.sqrt(variances) * rng.normal(size=x.shape), y, targets


def process(x, y, targets, penalty):
    """The operator D by riesz. A target's share is its weight times its value, so with targets of 1 it is
    the weight."""
    rows = pd.DataFrame(x, columns=FEATURES).assign(bag=np.repeat(np.arange(len(y)), ROWS))
    bags = pd.DataFrame(np.vstack([y, targets]), columns=MEDIATORS).assign(
        bag=np.arange(len(y) + len(targets))
    )
    bags["target"] = np.where(bags.bag < len(y), np.nan, 1.0)
    published = {
        "centered": False,
        "mediation_noise": 0.0,
        "row_noise": 0.0,
        "prior_mean": 0.0,
        "normalize_y": False,
    }
    model = riesz.AggregateGaussianProcess(
        Linear(),
        noise=len(targets) * penalty,
        mediator_kernel=Linear(),
        mediator_ridge=RIDGE,
        optimizer=None,
        n_hyperparameter_samples=0,
        **published,
    ).fit(rows, bags, bag="bag", target="target", mediators=MEDIATORS)
    return (model.target_contributions(pd.DataFrame(np.eye(SIZE), columns=FEATURES)) @ targets).T


def formulas(x, y, targets, penalty):
    """The operator D from the source's formulas."""
    means = x.reshape(len(y), ROWS, SIZE).mean(axis=1)
    weights = np.linalg.solve(y @ y.T + len(y) * RIDGE * np.eye(len(y)), y @ targets.T)
    features = weights.T @ means
    return np.linalg.solve(
        features.T @ features + len(targets) * penalty * np.eye(SIZE), features.T @ targets
    ).T


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, help="how many")
    options = arguments(__doc__, (parser,))
    warnings.simplefilter("ignore", UserWarning)
    counts = [2**k for k in range(6, 12 if options.full else 10)]
    seeds = options.seeds or (20 if options.full else 10)
    figure, axes = panels(len(SMOOTHNESS))
    lines, gap = [], 0.0
    for axis, c in zip(axes, SMOOTHNESS):
        for colour, b in zip(COLOURS, DECAYS):
            variances, best = problem(b, c)
            risks = np.empty((seeds, len(counts)))
            for seed in range(seeds):
                for place, count in enumerate(counts):
                    inputs = (*generated(seed, count, b, c), count ** (-b / (b * c + 1)))
                    operator = process(*inputs)
                    risks[seed, place] = np.sum((operator - best) ** 2 * variances)
                    if seed == 0 and count <= 256:
                        gap = max(
                            gap, float(np.abs(operator - formulas(*inputs)).max() / np.abs(operator).max())
                        )
            slopes = [np.polyfit(np.log(counts), np.log(risk), 1)[0] for risk in risks]
            slope = float(np.polyfit(np.log(counts), np.log(risks.mean(axis=0)), 1)[0])
            steeper = (
                ""
                if b == DECAYS[0]
                else f"steeper than for the b before: {'yes' if slope < lines[-1][5] else 'no'}"
            )
            criteria = f"{criterion_text(slope, high=0)}; {steeper}".strip("; ")
            cells = [
                c,
                b,
                *(float(risks.mean(axis=0)[place]) for place in (0, -1)),
                f"{-b * c / (b * c + 1):.2f}",
                slope,
            ]
            lines.append([*cells, f"{np.std(slopes) / np.sqrt(seeds):.3f}", criteria])
            print(lines[-1], flush=True)
            axis.loglog(
                counts,
                risks.mean(axis=0),
                "o-",
                color=colour,
                label=f"b = {b:g}: {slope:.2f} (bound {-b * c / (b * c + 1):.2f})",
            )
        axis.set_xticks(counts, counts)
        axis.minorticks_off()
        axis.set_title(f"excess risk by targets, c = {c:g}", fontsize=9)
        axis.legend(fontsize=7)
    header = [
        "c",
        "b",
        f"risk, {counts[0]} targets",
        f"{counts[-1]:,} targets",
        "theorem's slope",
        "slope",
        "standard error",
        "criterion",
    ]
    text = f"Excess reconstruction risk, {seeds} seeds\n\n" + table(header, lines)
    finish(
        options,
        "downscaling_risk",
        figure,
        text
        + f"\n\nOperators differ from those by plain formulas by {gap:.1e} (relative): {criterion_text(gap, high=1e-6)}.\n",
    )


if __name__ == "__main__":
    main()
