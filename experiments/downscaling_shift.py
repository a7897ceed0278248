"""Downscaling where mediators of bags with rows and mediators of targets have different distributions: do
weights of the bags help (Chau 2023, §3.6; not published)?

    python experiments/downscaling_shift.py [equal|narrow ...] [--full] [--seeds COUNT]

A bag with rows has a mediator y from N(0, 1), and five rows x = y + normal noise of .5. The map is f(x) =
sin(1.5 x). A target is the conditional mean of f given its mediator, plus noise of .1. Mediators of targets
are from N(s, 1) (equal) or from N(s, .5²) (narrow), for shifts s of 0, 1, 2 and 3 standard deviations. The
error is the root mean square error of the map at 500 new rows, whose mediators are distributed as those of
targets.

The regression on mediators is weighted: A = (L + n λ W⁻¹)⁻¹ ℓ, in plain numpy. W contains the weights of
bags, with mean 1. With W = I this is the conditional mean process of riesz, as the first line of the table
verifies. The ratio is the density of mediators of targets divided by that of mediators of bags. The weights
are

    none             W = I.
    ratio            The true ratio.
    root of ratio    Its square root (flattening of Shimodaira 2000).
    estimated        The ratio by unconstrained least-squares importance fitting (uLSIF, Kanamori, Hido and
                     Sugiyama 2009), with kernel width and penalty by five-fold cross-validation.
    root, estimated  The square root of the estimated ratio.
    ratio, fit only  The true ratio, with the ridge and the length scale that are chosen without weights.
    ratio, loss only W = I, but the true ratio weights the loss by which ridge and length scale are chosen.

The kernel of mediators is a Gaussian one, whose length scale is chosen with the ridge, or an affine one, 1 +
y y', which is misspecified: conditional means of functions of rows are not affine in y. Ridge and length
scale minimise the leave-one-out loss for bags, weighted like the fit. The length scale of the kernel of rows,
noise and uncertainty of the regression on mediators maximise the marginal likelihood on a grid, separately
for each weighting. The last two rows have the errors with known conditional means of the kernel of rows, and
of the best constant.

A difference is the mean over repetitions of the error with weights minus the error without, with its standard
error and the share of repetitions in which weights have the smaller error. The effective number of bags is (Σ
w)² / Σ w². The last two tables have the error of the conditional means themselves at the mediators of
targets, the root of the mean squared distance in the function space of the kernel of rows, and the error of
the map, both with the ridge and the length scale for which conditional means have the smallest error. These
can't be known in practice; the tables show how far the choice of these two explains the differences.

Full: 300 bags and 300 targets instead of 100 and 100."""

import argparse
import itertools
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, chosen, criterion_text, run, table
from scipy.linalg import cho_factor, cho_solve

import riesz
from riesz.kernels import RBF, Constant, Linear

ROWS, ROW_NOISE, NOISE, TESTED = 5, 0.5, 0.1, 500
SHIFTS, WIDTHS = [0.0, 1.0, 2.0, 3.0], {"equal": 1.0, "narrow": 0.5}
RIDGES, MEDIATOR_SCALES = np.logspace(-6, 0, 13), [0.25, 0.5, 1.0, 2.0]
ROW_SCALES, NOISES, UNCERTAINTIES = [0.5, 0.75, 1.0, 1.5], np.logspace(-4, 0, 9), [0.0, 0.01, 0.1, 1.0]
KERNELS = ["Gaussian", "affine"]
WEIGHTINGS = ["none", "ratio", "root of ratio", "estimated", "root, estimated", "ratio, fit only"]
WEIGHTINGS.append("ratio, loss only")
COMPARED = WEIGHTINGS[:3]
DRAWN = dict(zip(WEIGHTINGS[1:5], [COLOURS[0], COLOURS[2], COLOURS[1], COLOURS[5]]))
KNOWN, CONSTANT = "conditional means known", "best constant"


def map_of_rows(x):
    return np.sin(1.5 * x)


def generated(seed, count, shift, width):
    """Mediators and rows of bags, mediators and values of targets, and new rows."""
    rng = np.random.default_rng(seed)
    y, mediators = rng.normal(size=count), rng.normal(shift, width, count)
    x = y[:, None] + ROW_NOISE * rng.normal(size=(count, ROWS))
    # E sin(1.5 x) given y.
    means = np.exp(-0.5 * (1.5 * ROW_NOISE) ** 2) * map_of_rows(mediators)
    z = means + NOISE * rng.normal(size=count)
    new = rng.normal(shift, width, TESTED) + ROW_NOISE * rng.normal(size=TESTED)
    return y, x, mediators, z, new


def gaussian(a, b, scale):
    return np.exp(-0.5 * np.subtract.outer(a, b) ** 2 / scale**2)


def affine(a, b, scale):
    return 1 + np.multiply.outer(a, b) / scale**2


def density_ratio(y, shift, width):
    """The density of N(shift, width²) divided by that of N(0, 1)."""
    return np.exp(0.5 * y**2 - 0.5 * ((y - shift) / width) ** 2) / width


def estimated_ratio(y, mediators, seed):
    """The ratio of the density of ``mediators`` to that of ``y`` at ``y``, by uLSIF with at most 100 centres.
    Kernel width and penalty minimise the squared loss of five-fold cross-validation."""
    rng = np.random.default_rng(seed)
    centres = rng.permutation(mediators)[:100]
    folds, other_folds = (rng.permutation(len(values)) % 5 for values in (y, mediators))
    penalties = np.logspace(-3, 1, 9)

    def coefficients(basis, other, penalty):
        gram = basis.T @ basis / len(basis) + penalty * np.eye(len(centres))
        return np.linalg.solve(gram, other.mean(axis=0)).clip(0)

    best = (np.inf, None)
    for width in np.std(np.concatenate([y, mediators])) * np.array([0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5]):
        basis, other = gaussian(y, centres, width), gaussian(mediators, centres, width)
        for penalty in penalties:
            loss = 0.0
            for fold in range(5):
                left_out, other_left_out = folds == fold, other_folds == fold
                alpha = coefficients(basis[~left_out], other[~other_left_out], penalty)
                loss += 0.5 * np.mean((basis[left_out] @ alpha) ** 2) - np.mean(other[other_left_out] @ alpha)
            if loss < best[0]:
                best = (loss, basis @ coefficients(basis, other, penalty))
    return best[1]


def weightings(y, mediators, shift, width, seed):
    """The weights of bags in the fit and in the leave-one-out loss, for each weighting."""
    equal, ratio = np.ones(len(y)), density_ratio(y, shift, width)
    estimate = estimated_ratio(y, mediators, seed)
    pairs = [(w, w) for w in (equal, ratio, np.sqrt(ratio), estimate, np.sqrt(estimate))]
    pairs += [(ratio, equal), (equal, ratio)]
    return {name: tuple(w / w.mean() for w in pair) for name, pair in zip(WEIGHTINGS, pairs, strict=True)}


def regression_weights(gram, cross, target_gram, ridge, weights):
    """The weights A (bags × targets) of the regression on mediators, which preserves constants, and its
    covariance S (targets × targets). ``gram``, ``cross`` and ``target_gram`` are values of the mediators'
    kernel between bags, from bags to targets, and between targets. ``weights`` of bags have mean 1."""
    root = np.sqrt(weights)
    inner = root[:, None] * gram * root + len(gram) * ridge * np.eye(len(gram))
    operator = root[:, None] * np.linalg.solve(inner, root[:, None] * cross)
    centered = operator + np.outer(weights / weights.sum(), 1 - operator.sum(axis=0))
    return centered, target_gram - cross.T @ operator


def left_out_losses(gram, row_gram, ridges, fit_weights, loss_weights):
    """The leave-one-out loss of the regression for each ridge, in closed form. ``row_gram`` is the kernel
    matrix of the bags' mean embeddings."""
    count, root = len(gram), np.sqrt(fit_weights)
    values, vectors = np.linalg.eigh(root[:, None] * gram * root)
    right = (vectors.T * root).T
    shares = np.tile(fit_weights, (count, 1))
    np.fill_diagonal(shares, 0)
    shares /= shares.sum(axis=1, keepdims=True)
    losses = []
    for ridge in ridges:
        residuals = np.eye(count) - gram @ (right / (values + count * ridge)) @ right.T
        residuals /= np.diag(residuals)[:, None].copy()
        residuals -= shares * residuals.sum(axis=1, keepdims=True)
        squares = np.einsum("bc,bc->b", residuals @ row_gram, residuals)
        losses.append(loss_weights @ squares / loss_weights.sum())
    return losses


def posterior_weights(z, covariance, responses):
    """The prior mean, the targets' weights and the log marginal likelihood, with the scale of the covariance
    that maximises it."""
    factor = cho_factor(covariance, lower=True)
    solved = cho_solve(factor, np.column_stack([z, responses]))
    mean = responses @ solved[:, 0] / (responses @ solved[:, 1])
    alpha = solved[:, 0] - mean * solved[:, 1]
    quadratic = (z - mean * responses) @ alpha / len(z)
    return mean, alpha, -0.5 * len(z) * np.log(quadratic) - np.log(np.diag(factor[0])).sum()


def best_map(z, candidates, uncertainty):
    """The predictions with the largest marginal likelihood over the grid. ``candidates`` are pairs of the
    covariance of the conditional means at targets, and their covariance with f at new rows."""
    best = (-np.inf, None)
    for covariance, cross in candidates:
        for share in UNCERTAINTIES if uncertainty is not None else [0.0]:
            uncertain = covariance if share == 0 else covariance + share * uncertainty
            for noise in NOISES:
                mean, alpha, evidence = posterior_weights(
                    z, uncertain + noise * np.eye(len(z)), np.ones(len(z))
                )
                if evidence > best[0]:
                    best = (evidence, mean + cross @ alpha)
    return best[1]


def bag_grams(x, new, scale):
    """Kernel values of the means of bags: between bags, and between new rows and bags."""
    rows = x.ravel()
    between = gaussian(rows, rows, scale).reshape(len(x), ROWS, len(x), ROWS).mean(axis=(1, 3))
    return between, gaussian(new, rows, scale).reshape(-1, len(x), ROWS).mean(axis=2)


def mediator_grams(y, mediators, kernel):
    """Values of the mediators' kernel between bags, from bags to targets, and between targets, for each
    length scale."""
    deviation = np.std(np.concatenate([y, mediators]))
    function, scales = (gaussian, MEDIATOR_SCALES) if kernel == "Gaussian" else (affine, [1.0])
    pairs = ((y, y), (y, mediators), (mediators, mediators))
    return [tuple(function(*pair, scale * deviation) for pair in pairs) for scale in scales]


def weighted_map(data, grams, kernel, fit_weights, loss_weights):
    """Predictions at new rows. ``grams`` are the :func:`bag_grams` for each length scale of rows."""
    y, _, mediators, z, _ = data
    of_mediators, row_gram = mediator_grams(y, mediators, kernel), grams[ROW_SCALES.index(1.0)][0]
    losses = [
        left_out_losses(gram, row_gram, RIDGES, fit_weights, loss_weights) for gram, _, _ in of_mediators
    ]
    scale, ridge = np.unravel_index(np.argmin(losses), np.shape(losses))
    regression = regression_weights(*of_mediators[scale], RIDGES[ridge], fit_weights)
    return map_through_regression(z, grams, *regression)


def map_through_regression(z, grams, operator, uncertainty):
    candidates = [(operator.T @ between @ operator, cross @ operator) for between, cross in grams]
    return best_map(z, candidates, uncertainty)


def smoothed(a, b, scale, times):
    """The Gaussian kernel after ``times`` (1 or 2) of its arguments have got the noise of rows."""
    wide = np.sqrt(scale**2 + times * ROW_NOISE**2)
    return scale / wide * gaussian(a, b, wide)


def best_regression(data, row_gram, kernel, weights):
    """The smallest error of the conditional means at the mediators of targets over all ridges and length
    scales, and the :func:`regression_weights` with this error: the root of the mean squared distance in the
    function space of the kernel of rows with length scale 1."""
    y, x, mediators, _, _ = data
    between = smoothed(x.ravel(), mediators, 1.0, 1).reshape(len(x), ROWS, -1).mean(axis=1)
    best = (np.inf, None)
    for grams in mediator_grams(y, mediators, kernel):
        for ridge in RIDGES:
            regression = regression_weights(*grams, ridge, weights)
            distances = regression[0] * (row_gram @ regression[0] - 2 * between)
            square = smoothed(0.0, 0.0, 1.0, 2) + distances.sum(axis=0).mean()
            best = min(best, (square, regression), key=lambda pair: pair[0])
    return float(np.sqrt(best[0])), best[1]


def map_of_known_means(data):
    """Predictions at new rows if the conditional means of the kernel of rows given mediators are known."""
    _, _, mediators, z, new = data
    candidates = [
        (smoothed(mediators, mediators, scale, 2), smoothed(new, mediators, scale, 1)) for scale in ROW_SCALES
    ]
    return best_map(z, candidates, None)


def fixed_maps(kernel, seed=0, count=30, shift=1.0):
    """Predictions of riesz and of the formulas without weights, with the same fixed hyper-parameters."""
    y, x, mediators, z, new = generated(seed, count, shift, 1.0)
    scale, ridge, noise, uncertainty = 0.7, 1e-3, 0.02, 0.05
    rows = pd.DataFrame({"x": x.ravel(), "bag": np.repeat(np.arange(count), ROWS)})
    bags = pd.DataFrame({"bag": np.arange(2 * count), "y": np.concatenate([y, mediators])})
    bags["z"] = np.concatenate([np.full(count, np.nan), z])
    model = riesz.AggregateGaussianProcess(
        Constant(1.3) * RBF(0.8),
        noise=noise,
        mediator_kernel=RBF(scale) if kernel == "Gaussian" else Constant(1.0) + Linear(),
        mediator_ridge=ridge,
        mediation_noise=uncertainty,
        row_noise=0.0,
        normalize_y=False,
        optimizer=None,
        n_hyperparameter_samples=0,
    ).fit(rows, bags, bag="bag", target="z", mediators=["y"])
    function = (
        (lambda a, b: gaussian(a, b, scale)) if kernel == "Gaussian" else (lambda a, b: affine(a, b, 1))
    )
    grams = function(y, y), function(y, mediators), function(mediators, mediators)
    operator, covariance = regression_weights(*grams, ridge, np.ones(count))
    between, cross = bag_grams(x, new, 0.8)
    mean, alpha, _ = posterior_weights(
        z,
        1.3 * operator.T @ between @ operator + noise * np.eye(count) + uncertainty * covariance,
        operator.sum(axis=0),
    )
    return model.predict(pd.DataFrame({"x": new})), mean + 1.3 * cross @ operator @ alpha


def errors_of(seed, count, shift, width):
    """The error of each kernel and weighting, and the effective number of bags by true and estimated
    weights."""
    data = generated(seed, count, shift, width)
    y, x, mediators, z, new = data
    error = lambda prediction: float(np.sqrt(np.mean((prediction - map_of_rows(new)) ** 2)))
    grams = [bag_grams(x, new, scale) for scale in ROW_SCALES]
    weights = weightings(y, mediators, shift, width, seed)
    errors = {
        (kernel, name): error(weighted_map(data, grams, kernel, *pair))
        for kernel in KERNELS
        for name, pair in weights.items()
    }
    errors[KNOWN] = error(map_of_known_means(data))
    errors[CONSTANT] = float(np.std(map_of_rows(new)))
    row_gram = grams[ROW_SCALES.index(1.0)][0]
    for kernel, name in itertools.product(KERNELS, COMPARED):
        smallest, regression = best_regression(data, row_gram, kernel, weights[name][0])
        errors[kernel, name, "conditional means"] = smallest
        errors[kernel, name, "map"] = error(map_through_regression(z, grams, *regression))
    effective = [np.sum(w) ** 2 / np.sum(w**2) for w in (weights["ratio"][0], weights["estimated"][0])]
    return errors, effective


def mean_and_se(values):
    return f"{np.mean(values):.3f} ± {standard_error(values):.3f}"


def standard_error(values):
    return np.std(values, ddof=1) / np.sqrt(len(values))


def difference_text(values):
    """The mean with its standard error, and the share of negative values."""
    return f"{np.mean(values):+.3f} ± {standard_error(values):.3f}, {np.mean(values < 0):.2f}"


def shifted(options, axes, name):
    count, seeds = (300 if options.full else 100), options.seeds
    width = WIDTHS[name]
    results, effective = [], []
    for shift in SHIFTS:
        runs = [errors_of(seed, count, shift, width) for seed in range(seeds)]
        results.append({key: np.array([errors[key] for errors, _ in runs]) for key in runs[0][0]})
        effective.append(np.mean([sizes for _, sizes in runs], axis=0))
    true, estimated = (", ".join(f"{size:.0f}" for size in sizes) for sizes in zip(*effective))
    header = ["weights", *[f"shift {shift:g}" for shift in SHIFTS]]
    text = (
        f"\n\nMediators of targets N(s, {width:g}²), {count} bags and targets, {seeds} repetitions; "
        f"effective number of bags {true}, by estimated weights {estimated}"
    )
    for kernel, axis in zip(KERNELS, axes):
        plain = [result[kernel, "none"] for result in results]
        lines = [["none: error", *map(mean_and_se, plain)]]
        for place, weighting in enumerate(WEIGHTINGS[1:]):
            differences = [result[kernel, weighting] - errors for result, errors in zip(results, plain)]
            lines.append([f"{weighting}: difference", *map(difference_text, differences)])
            if weighting in DRAWN:
                axis.errorbar(
                    np.array(SHIFTS) + 0.05 * (place - 1.5),
                    [values.mean() for values in differences],
                    [standard_error(values) for values in differences],
                    marker="o",
                    ms=4,
                    color=DRAWN[weighting],
                    label=weighting,
                )
        for reference in (KNOWN, CONSTANT):
            errors = [mean_and_se(result[reference]) for result in results]
            lines.append([f"{reference}: error", *errors])
        axis.axhline(0, color=COLOURS[3], linewidth=1)
        axis.set_xticks(SHIFTS)
        axis.set_xlabel("shift s, standard deviations")
        axis.set_ylabel("error with weights minus without")
        axis.set_title(f"{kernel} kernel, targets N(s, {width:g}²)", fontsize=9)
        text += f"\n\nError of the map, {kernel} kernel of mediators\n\n" + table(header, lines)
    axes[0].legend(fontsize=7, loc="upper left")
    for quantity in ("conditional means", "map"):
        lines = []
        for kernel in KERNELS:
            plain = [result[kernel, "none", quantity] for result in results]
            lines.append([f"{kernel}, none: error", *map(mean_and_se, plain)])
            for weighting in COMPARED[1:]:
                differences = [
                    result[kernel, weighting, quantity] - none for result, none in zip(results, plain)
                ]
                lines.append([f"{kernel}, {weighting}: difference", *map(difference_text, differences)])
        title = f"Error of the {quantity} with the ridge and length scale that are best for conditional means"
        text += f"\n\n{title}\n\n" + table(header, lines)
    return text


def equal(options, axes):
    return shifted(options, axes[:2], "equal")


def narrow(options, axes):
    return shifted(options, axes[2:], "narrow")


PARTS = {f.__name__: f for f in (equal, narrow)}


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, default=30, help="number of repetitions")
    options = arguments(__doc__, (chosen(PARTS), parser))
    warnings.simplefilter("ignore", UserWarning)
    gap = max(np.abs(np.subtract(*fixed_maps(kernel))).max() for kernel in KERNELS)
    text = f"Without weights, maps of riesz and of plain formulas differ by {gap:.1e}: "
    text += criterion_text(gap, high=1e-6)
    run(PARTS, options, "downscaling_shift", 4, text, columns=2)


if __name__ == "__main__":
    main()
