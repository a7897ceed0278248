"""Observational Shapley values on real data (figure 1 and appendices C and E of Chau et al. 2022).

    python experiments/real.py [diabetes|breast|pima|housing|census|diabetes-matern|housing-matern ...]
    [--data FOLDER]

diabetes and breast come with scikit-learn. The others are read from FOLDER: pima_diabetes.csv (768 × 8,
Outcome), boston_housing.csv (506 × 12 without the column B, MEDV), adult_train.csv and adult_test.csv (48,842
× 14, income; UCI Adult with a header), wherever below it they are.

Published: beeswarms in which these features lead: housing LSTAT, ZN, CRIM; diabetes bmi, s5, bp; pima
Glucose, BMI; breast worst radius, concave points, perimeter; census relationship, education, capital gain.
League of Legends is not to be had. For pima a second picture has the values of one patient beside the length
scales of the columns (figure 1), and for housing those of two houses (figure C.4).

diabetes-matern and housing-matern, figures C.1 and C.2, explain a kernel ridge regression with a Matérn-1/2
kernel of the Euclidean distance. This kernel is no product, so the model is conditioned as a whole (equation
C.5), by the same family over the present columns. Once its length scale is the model's for all coalitions,
and once it is the median distance over the present columns. riesz takes one kernel for all coalitions, so
the second is computed by plain code, which is also compared with riesz on the first. Published: bmi, s5 and
bp lead for diabetes, and ZN no longer leads for housing.

The census model is a kernel ridge regression on all rows with 1,000 landmarks (Nyström's subset of
regressors); the landmarks are the reference of the conditional mean embeddings, unless --reference names more
rows, and 1,000 rows are explained from 2,048 coalitions."""

import argparse
import pathlib
import resource
import time

import numpy as np
import pandas
from _figures import COLOURS, FOLDER, panels, plt, table
from scipy.spatial.distance import cdist, pdist
from scipy.special import comb
from sklearn.datasets import load_breast_cancer, load_diabetes

import riesz
from riesz.kernels import RBF, Categorical, Matern

PUBLISHED = {
    "housing": "LSTAT, ZN, CRIM",
    "diabetes": "bmi, s5, bp",
    "pima": "Glucose, BMI",
    "breast": "worst radius, worst concave points, worst perimeter",
    "census": "relationship, education, capital_gain",
    "diabetes-matern": "bmi, s5, bp",
    "housing-matern": "ZN no longer leads",
}


def standardised(frame):
    return (frame - frame.mean()) / frame.std().replace(0, 1)


def median_scales(X):
    rows = X[np.random.default_rng(0).permutation(len(X))[:500]]
    pairs = np.triu_indices(len(rows), 1)
    gaps = [np.abs(x[:, None] - x[None])[pairs] for x in rows.T]
    return np.array([np.median(g) if np.median(g) > 0 else g.std() + 1e-9 for g in gaps])


def find_file(folder, name):
    files = [] if folder is None else sorted(pathlib.Path(folder).rglob(name))
    if not files:
        raise FileNotFoundError(f"{name} is not below --data {folder}")
    return files[0]


def small(name, folder):
    """Features and target."""
    if name == "diabetes":
        return load_diabetes(as_frame=True, scaled=False, return_X_y=True)
    if name == "breast":
        return load_breast_cancer(as_frame=True, return_X_y=True)
    file, target = {"pima": ("pima_diabetes.csv", "Outcome"), "housing": ("boston_housing.csv", "MEDV")}[name]
    frame = pandas.read_csv(find_file(folder, file)).drop(columns=["B"], errors="ignore")
    return frame.drop(columns=[target]), frame[target]


def chosen_ridge(X, y, kernel):
    """The ridge with the least cross-validated squared error, and its share of explained variance."""
    scores, fold = {}, np.arange(len(X)) % 5
    for alpha in (0.01, 0.1, 1.0, 10.0):
        model = riesz.KernelRidge(alpha, kernel=kernel)
        predictions = [model.fit(X[fold != f], y[fold != f]).predict(X[fold == f]) for f in range(5)]
        scores[alpha] = np.mean([np.mean((p - y[fold == f]) ** 2) for f, p in enumerate(predictions)])
    alpha = min(scores, key=scores.get)
    return alpha, 1 - scores[alpha]


def explain_small(name, folder):
    """An explanation of all rows, its time in seconds, the model's score, and the length scales."""
    X, y = small(name, folder)
    X, y = standardised(X.astype(float)), (y - y.mean()) / y.std()
    # With narrow factors a product of many factors is almost 0 everywhere, so the length scales are several
    # medians.
    scales = median_scales(X.to_numpy()) * np.sqrt(X.shape[1] / 4)
    alpha, score = chosen_ridge(X, y, RBF(scales))
    model = riesz.KernelRidge(alpha, kernel=RBF(scales)).fit(X, y)
    start = time.perf_counter()
    coalitions = 10_000 if name == "breast" else 4096
    explanation = riesz.Explainer(model, game="observational", n_coalitions=coalitions)(X)
    return explanation, time.perf_counter() - start, score, scales


def local_figure(name, explanation, scales, output):
    """Figures 1 and C.4: one patient beside the length scales, or the houses with the lowest and the highest
    prediction."""
    figure, axes = panels(2, 4.2)
    order = np.argsort(np.ravel(explanation.predictions))
    if name == "pima":
        riesz.plots.waterfall(explanation[int(order[-1])], ax=axes[0])
        axes[0].set_title("the patient with the highest prediction", fontsize=10)
        axes[1].barh(explanation.feature_names[::-1], scales[::-1], color=COLOURS[0])
        axes[1].set_title("length scale, in standard deviations", fontsize=10)
    else:
        for axis, row, title in zip(axes, order[[0, -1]], ("lowest", "highest")):
            riesz.plots.waterfall(explanation[int(row)], ax=axis)
            axis.set_title(f"the house with the {title} prediction", fontsize=10)
    figure.savefig(output / f"real_{name}_local.png", dpi=150, bbox_inches="tight")
    plt.close(figure)


def conditioned_values(X, outputs, length_scale, ridge):
    """Observational Shapley values of all rows from all coalitions (equation C.5), with a Matérn-1/2 kernel
    over the present columns, whose length scale is ``length_scale(columns)``."""
    n, d = X.shape
    masks = np.arange(2**d)[:, None] >> np.arange(d) & 1 == 1
    values = np.empty((2**d, n))
    for k, mask in enumerate(masks):
        present = X[:, mask]
        if 0 < mask.sum() < d:
            gram = np.exp(-cdist(present, present) / length_scale(present))
            weights = np.linalg.solve(gram + n * ridge * np.eye(n), outputs - outputs.mean())
            values[k] = outputs.mean() + gram @ weights
        else:
            values[k] = outputs if mask.all() else outputs.mean()
    phi = np.empty((n, d))
    for j in range(d):
        absent = np.flatnonzero(~masks[:, j])
        shares = 1 / (d * comb(d - 1, masks[absent].sum(axis=1)))
        phi[:, j] = shares @ (values[absent + 2**j] - values[absent])
    return phi


def explain_matern(name, folder):
    """An explanation by riesz, its time, the model's score, and the values of all rows with a length scale
    per coalition."""
    X, y = small(name.removesuffix("-matern"), folder)
    X, y = standardised(X.astype(float)), (y - y.mean()) / y.std()
    rows = X.to_numpy()
    median = lambda present: np.median(pdist(present)) or pdist(present).mean()
    scale = float(median(rows))
    alpha, score = chosen_ridge(X, y, Matern(scale, nu=0.5))
    model = riesz.KernelRidge(alpha, kernel=Matern(scale, nu=0.5)).fit(X, y)
    ridge = 1e-3
    game = riesz.Observational(X, conditioning_kernel="own", conditional_ridge=ridge)
    start = time.perf_counter()
    explanation = riesz.Explainer(model, game=game, n_coalitions=4096)(X)
    seconds = time.perf_counter() - start
    outputs = np.ravel(model.predict(X))
    gap = np.abs(explanation.values - conditioned_values(rows, outputs, lambda present: scale, ridge)).max()
    print(f"{name}: largest difference between riesz and plain code {gap:.1e}")
    return explanation, seconds, score, conditioned_values(rows, outputs, median, ridge)


def explain_census(folder, reference_rows):
    frame = pandas.concat(
        [pandas.read_csv(find_file(folder, f"adult_{part}.csv")) for part in ("train", "test")],
        ignore_index=True,
    )
    y = frame.pop("income").str.contains(">50K").to_numpy(dtype=float)
    text = [name for name in frame if not pandas.api.types.is_numeric_dtype(frame[name])]
    X = standardised(
        frame.drop(columns=text).apply(lambda column: np.log1p(column) if column.max() > 1000 else column)
    )
    for name in text:
        X[name] = pandas.factorize(frame[name], sort=True)[0].astype(float)
    X = X[frame.columns]
    numeric = [j for j, name in enumerate(X) if name not in text]
    codes = [j for j, name in enumerate(X) if name in text]
    rng = np.random.default_rng(0)
    rows = X.to_numpy()
    landmarks = rows[rng.permutation(len(rows))[:1000]]
    scale, similarity = 2 * median_scales(rows[:, numeric]), 0.6

    def gram(a):
        distance = sum(((a[:, None, j] - landmarks[None, :, j]) / s) ** 2 for j, s in zip(numeric, scale))
        different = sum(a[:, None, j] != landmarks[None, :, j] for j in codes)
        return np.exp(-distance / 2) * similarity**different

    center = y.mean()
    left, right = np.zeros((1000, 1000)), np.zeros(1000)
    for start in range(0, len(rows), 4096):
        part = gram(rows[start : start + 4096])
        left += part.T @ part
        right += part.T @ (y[start : start + 4096] - center)
    coef = np.linalg.solve(left + 1.0 * gram(landmarks) + 1e-8 * np.trace(left) / 1000 * np.eye(1000), right)
    names = list(X)
    kernel = RBF(scale, columns=[names[j] for j in numeric])
    for j in codes:
        kernel = kernel * Categorical(similarity=similarity, columns=[names[j]])
    model = riesz.Expansion(
        kernel, landmarks, coef, center, feature_names=names, output_names=["income > 50K"]
    )
    predicted = np.concatenate([model.predict(rows[s : s + 8192]) for s in range(0, len(rows), 8192)])
    accuracy = float(np.mean((predicted > 0.5) == (y > 0.5)))
    start = time.perf_counter()
    # Landmarks were drawn at random, and the rows after them are too.
    reference = rows[np.random.default_rng(0).permutation(len(rows))[:reference_rows]]
    options = {} if reference_rows <= 1000 else {"n_conditional_landmarks": 1000}
    explanation = riesz.Explainer(model, game=riesz.Observational(reference, **options), n_coalitions=2048)(
        X[:1000]
    )
    return explanation, time.perf_counter() - start, accuracy


def leading(explanation, values):
    """The five features with the largest mean absolute values, in order."""
    order = np.argsort(-np.abs(values).mean(axis=0))[:5]
    return ", ".join(explanation.feature_names[j] for j in order)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["diabetes", "breast"], help="data sets")
    parser.add_argument("--data", help="folder that holds the files that scikit-learn does not have")
    parser.add_argument(
        "--reference",
        type=int,
        default=1000,
        help="reference rows for the census, through 1,000 landmarks if more",
    )
    parser.add_argument("--output", type=pathlib.Path, default=FOLDER / "results")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in options.names:
        if name not in PUBLISHED:
            parser.error(f"there is no data set '{name}': {', '.join(PUBLISHED)}")
        if name == "census":
            explanation, seconds, score = explain_census(options.data, options.reference)
        elif name.endswith("-matern"):
            explanation, seconds, score, per_coalition = explain_matern(name, options.data)
        else:
            explanation, seconds, score, scales = explain_small(name, options.data)
        error = 0.0 if explanation.std_error is None else float(explanation.std_error.max())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        shape = " × ".join(map(str, explanation.values.shape))
        top = leading(explanation, explanation.values)
        lines.append([name, shape, float(score), top, PUBLISHED[name], error, float(seconds), float(memory)])
        if name.endswith("-matern"):
            top = leading(explanation, per_coalition)
            lines.append([f"{name}, scale per coalition", shape, "", top, PUBLISHED[name], "", "", ""])
        if name in ("pima", "housing"):
            local_figure(name, explanation, scales, options.output)
        axis = riesz.plots.beeswarm(explanation)
        axis.set_title(f"{name}: observational Shapley values", fontsize=10)
        axis.figure.savefig(options.output / f"real_{name}.png", dpi=150, bbox_inches="tight")
        plt.close(axis.figure)
        print(f"{name}: {seconds:.1f} s, {explanation}", flush=True)
    header = [
        "data",
        "values",
        "score",
        "first five features",
        "published",
        "largest standard error",
        "seconds",
        "peak GiB",
    ]
    text = table(header, lines)
    print(text)
    (options.output / "real.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
