"""Predictions for persons from rates of groups, and the calibration of maps. Nothing here is published.

    python experiments/downscaling_labels.py [labels|calibration ...] [--data FOLDER] [--full]

labels: label proportions. 78 groups by occupation, work class and whether of the United States, 25 persons
each (UCI Adult, adult_train.csv below FOLDER). Of each group only the share with a high income is known;
of persons age, education, hours, sex, marriage and capital gain. The table has the area under the curve
(AUC) for the incomes of persons. Baselines are the group's share; a process of the groups' mean persons
(scikit-learn), which is as good; and logistic regression on the persons' incomes (in five folds), which
the other methods don't know.

calibration: f and targets are drawn from the model by plain numpy, with known hyper-parameters. The table
has the coverage of 95 % intervals of f at training rows and at others, and the mean squared error in units
of the variance. The cases are matched means with noise of rows, in bags of 2 to 9; weighted sums; and
means through mediators, with the regression's uncertainty.

Full: 20 draws of persons instead of 2.
"""

import argparse
import pathlib
import sys
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, FOLDER, arguments, chosen, criterion_text, mean_and_sd, run, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

import riesz
from riesz.kernels import RBF

GROUP = ["occupation", "workclass", "origin"]
GROUP_SIZE = 25


def persons(options):
    """Standardised columns, group and income of all persons in groups of 25 or more."""
    files = sorted(options.data.rglob("adult_train.csv"))
    if not files:
        sys.exit(
            f"adult_train.csv: not below {options.data}; --data names a folder that has it (UCI Adult with a "
            "header)"
        )
    adult = pd.read_csv(files[0], skipinitialspace=True)
    adult["origin"] = adult.native_country == "United-States"
    columns = {
        "age": adult.age,
        "education": adult.education_num,
        "hours": adult.hours_per_week,
        "male": adult.sex == "Male",
        "married": adult.marital_status.str.startswith("Married-"),
        "gain": np.log1p(adult.capital_gain),
    }
    frame = pd.DataFrame(columns).astype(float)
    frame = (frame - frame.mean()) / frame.std()
    frame = frame.assign(group=adult.groupby(GROUP).ngroup(), high=(adult.income == ">50K").astype(float))
    return frame[frame.groupby("group").group.transform("size") >= GROUP_SIZE], list(columns)


def regression(x, y, query):
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * SklearnRBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(
        0.1, (1e-6, 1e1)
    )
    return GaussianProcessRegressor(kernel, normalize_y=True).fit(x, y).predict(query)


def labels(options, axes):
    frame, columns = persons(options)
    training, fresh, covered, effective_draws = {}, {}, [], []
    for seed in range(20 if options.full else 2):
        sample = frame.groupby("group").sample(GROUP_SIZE, random_state=seed)
        remaining = frame.drop(sample.index)
        rates = sample.groupby("group").high.mean()
        model = riesz.AggregateGaussianProcess(random_state=seed)
        model.fit(sample[[*columns, "group"]], rates.rename("rate").reset_index(), bag="group", target="rate")
        covered.append(model.loo_.coverage)
        effective_draws.append(model.effective_sample_size_)
        means = sample.groupby("group")[columns].mean()
        known = LogisticRegression()
        inside = cross_val_predict(known, sample[columns], sample.high, cv=5, method="predict_proba")[:, 1]
        known.fit(sample[columns], sample.high)
        everyone = pd.concat([sample, remaining])
        scores = {
            "from shares": model.predict(everyone),
            "the group's share": everyone.group.map(rates).to_numpy(),
            "mean persons": regression(means.to_numpy(), rates.to_numpy(), everyone[columns].to_numpy()),
            "from persons' incomes": np.concatenate([inside, known.predict_proba(remaining[columns])[:, 1]]),
        }
        for name, score in scores.items():
            training.setdefault(name, []).append(roc_auc_score(sample.high, score[: len(sample)]))
            fresh.setdefault(name, []).append(roc_auc_score(remaining.high, score[len(sample) :]))
    places = np.arange(len(training))
    for j, (who, scores) in enumerate([("the 25 persons", training), ("others", fresh)]):
        aucs = list(scores.values())
        axes[0].bar(
            places + 0.4 * j - 0.2,
            np.mean(aucs, axis=1),
            0.38,
            yerr=np.std(aucs, axis=1),
            color=COLOURS[j],
            label=who,
        )
    axes[0].legend(fontsize=7)
    axes[0].set_xticks(places, [name.replace(" ", "\n", 1) for name in training], fontsize=7)
    axes[0].set_ylim(0.5, 1.0)
    axes[0].set_title("AUC of persons' incomes", fontsize=9)
    measured = {
        "from shares": ".880, .841",
        "the group's share": ".727, .737",
        "mean persons": ".873, .857",
        "from persons' incomes": ".887",
    }
    text = (
        f"\n\nAUC of persons' incomes, {frame.group.nunique()} groups, {len(covered)} draws of persons; not "
        f"published\n\n"
    )
    lines = [
        [name, measured[name], mean_and_sd(training[name]), mean_and_sd(fresh[name])] for name in training
    ]
    gains = [
        float(np.mean(by_method["from shares"]) - np.mean(by_method["the group's share"]))
        for by_method in (training, fresh)
    ]
    lines.append(
        [
            "from shares, above the group's share",
            ".129 (at least .08)",
            *(f"{gain:.3f}; {criterion_text(gain, low=0.08)}" for gain in gains),
        ]
    )
    text += table(["", "in plain numpy, two draws", "the 25 persons", "other persons of the groups"], lines)
    text += (
        "\n\nOf the 25, a group's share knows the incomes that it is to tell; of other persons it does not."
    )
    return (
        text
        + f" 95 % intervals of shares left out hold {mean_and_sd(covered)} of them; 64 draws of hyper-parameters are worth {np.mean(effective_draws):.1f}.\n"
    )


def gaussian(a, b, scale):
    return np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(axis=2) / scale**2)


def root(covariance):
    """A matrix M with M Mᵀ equal to the covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(values.clip(0))


def drawn(kind, rng):
    """Rows with bag and weight, mediators of bags and targets, further rows, the weights of rows in
    targets, the covariance of the noise, and the settings of riesz."""
    sizes = rng.integers(2, 10, size=16)
    bag = np.repeat(np.arange(16), sizes)
    rows = pd.DataFrame(rng.normal(size=(len(bag), 2)), columns=["a", "b"]).assign(
        bag=bag, weight=rng.uniform(0.5, 2, len(bag))
    )
    other_rows = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    members = (bag[:, None] == np.arange(16)).astype(float)
    if kind == "sums":
        return (
            rows,
            None,
            other_rows,
            members * rows.weight.to_numpy()[:, None],
            0.3 * np.eye(16),
            {"aggregate": "sum", "noise": 0.3},
        )
    members /= sizes
    if kind == "matched":
        return (
            rows,
            None,
            other_rows,
            members,
            0.05 * np.eye(16) + 0.4 * members.T @ members,
            {"noise": 0.05, "row_noise": 0.4},
        )
    y, query = rng.normal(size=(16, 1)), rng.normal(size=(12, 1))
    ridge, scale, noise, mediation = 1e-3, 0.3, 0.05, 1.0
    inverse = np.linalg.inv(gaussian(y, y, scale) + 16 * ridge * np.eye(16))
    cross = gaussian(y, query, scale)
    map_ = inverse @ cross
    left = gaussian(query, query, scale) - cross.T @ map_
    map_ = map_ + (1 - map_.sum(axis=0)) / 16
    settings = {
        "noise": noise,
        "mediation_noise": mediation,
        "mediator_kernel": RBF(scale),
        "mediator_ridge": ridge,
    }
    return rows, (y, query), other_rows, members @ map_, noise * np.eye(12) + mediation * left, settings


def fitted(rows, mediators, z, settings):
    """The process with all its hyper-parameters given."""
    bags = pd.DataFrame({"bag": range(16), "z": z if mediators is None else np.nan})
    columns = {"weight": "weight"} if "aggregate" in settings else {"features": ["a", "b"]}
    if mediators is not None:
        matched, query = mediators
        bags = pd.concat(
            [bags.assign(y=matched[:, 0]), pd.DataFrame({"bag": range(16, 28), "z": z, "y": query[:, 0]})]
        )
        columns["mediators"] = ["y"]
    known = {
        "row_noise": 0.0,
        "optimizer": None,
        "n_hyperparameter_samples": 0,
        "prior_mean": 0.0,
        "normalize_y": False,
    }
    return riesz.AggregateGaussianProcess(RBF(1.0), **{**known, **settings}).fit(
        rows, bags, bag="bag", target="z", **columns
    )


def calibration(options, axes):
    draws, lines, gaps = 4000, [], []
    for j, kind in enumerate(["matched", "sums", "mediated"]):
        rng = np.random.default_rng(j)
        rows, mediators, other_rows, weights, noise, settings = drawn(kind, rng)
        cells = pd.concat([rows[["a", "b"]], other_rows], ignore_index=True)
        factor, noise_factor = root(gaussian(cells.to_numpy(), cells.to_numpy(), 1.0)), root(noise)
        f = rng.normal(size=(draws, len(cells))) @ factor.T
        z = f[:, : len(rows)] @ weights + rng.normal(size=(draws, len(noise))) @ noise_factor.T
        # The map is linear in the targets, and its standard deviation doesn't depend on them. One fit
        # therefore gives the maps of all draws; a few further fits check this.
        model = fitted(rows, mediators, z[0], settings)
        sd = model.predict(cells, return_std=True)[1]
        mean = z @ (model.target_contributions(cells) / z[0]).T
        for draw in range(1, 6):
            again = fitted(rows, mediators, z[draw], settings).predict(cells, return_std=True)
            gaps.append(max(np.abs(again[0] - mean[draw]).max(), np.abs(again[1] - sd).max()))
        errors = (f - mean) / sd
        coverage, squares = (np.abs(errors) < 1.959963984540054).mean(axis=1), (errors**2).mean(axis=1)
        wave = lambda values: f"{values.mean():.4f} ± {values.std() / np.sqrt(draws):.4f}"
        lines.append(
            [
                kind,
                wave(coverage),
                criterion_text(coverage.mean(), 0.945, 0.955),
                wave(squares),
                criterion_text(squares.mean(), 0.97, 1.03),
            ]
        )
        levels = np.linspace(0.02, 0.98, 49)
        edges = np.quantile(np.abs(errors), levels)
        normal = np.quantile(np.abs(np.random.default_rng(9).normal(size=200_000)), levels)
        axes[1].plot(normal, edges, color=COLOURS[j], label=kind)
    axes[1].plot([0, 2.4], [0, 2.4], color=COLOURS[3], linewidth=0.8)
    axes[1].set_title("|error| / standard deviation, quantiles", fontsize=9)
    axes[1].set_xlabel("of a normal distribution")
    axes[1].legend(fontsize=7)
    text = f"\n\nCalibration with known hyper-parameters, {draws} draws (± standard error)\n\n"
    text += table(
        [
            "targets",
            "coverage of 95 % intervals",
            "criterion",
            "mean squared standardised error",
            "criterion ",
        ],
        lines,
    )
    return text + f"\n\nFits anew differ by {max(gaps):.1e} from what the shares of one fit say.\n"


PARTS = {f.__name__: f for f in (labels, calibration)}


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        default=FOLDER.parent.parent / "shared" / "data",
        help="folder that has adult_train.csv",
    )
    options = arguments(__doc__, (chosen(PARTS), parser))
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    run(PARTS, options, "downscaling_labels", 2, "Labels from proportions, and calibration")


if __name__ == "__main__":
    main()
