"""All rows of the census: kernel machines fitted through landmarks, exact explanations of every row, and
the error of the landmarks.

    python experiments/scale_census.py --data FOLDER [--riesz COMMAND]

UCI Adult, 48,842 × 14, income above 50,000, from adult_train.csv and adult_test.csv in any folder below
FOLDER (UCI's files with a header; missing is `?`, a category like others). Columns with values above 1,000
are transformed to log(1 + x). The kernel is Gaussian in numbers, times a factor for each text column that
is 1 for equal categories and a similarity otherwise. The similarity is chosen by the log loss of a fifth
of the training rows. Commands are processes of their own, with wall time, CPU time of all threads and peak
memory; the wall time includes the effect of other processes on this machine.

Kernel logistic and ridge regression are fitted to the published training rows through 250 to 2,000
landmarks and scored on the published test rows. Baselines are scikit-learn's logistic regression on
one-hot columns and its boosted trees. Then logistic regression is fitted to all rows through 1,000
landmarks, and all rows are explained in three games: in the functional game, where the factors of absent
features are dropped, and with 100 rows as the background, column by column ("marginal-product") and row by
row ("interventional"). Last, for ridge regression of all rows, the estimated difference from values with
all rows as support points is compared with the difference from values through twice as many landmarks.

Published (RKHS-SHAP, appendix E, of another model, in the observational game, without numbers):
relationship, education and capital gain lead."""

import argparse
import pathlib
import tempfile

import numpy as np
import pandas as pd
from _commands import command, explained, predicted, scores, settings, taken
from _figures import COLOURS, arguments, finish, panels, table
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import riesz


def census(folder):
    """Published training rows, test rows, and both together."""
    parts = []
    for part in ("train", "test"):
        files = sorted(pathlib.Path(folder).rglob(f"adult_{part}.csv"))
        if not files:
            raise SystemExit(f"adult_{part}.csv is not below --data {folder}")
        rows = pd.read_csv(files[0])
        parts.append(rows.assign(income=rows["income"].str.contains(">50K").astype(float)))
    combined = pd.concat(parts, ignore_index=True)
    for name in combined.select_dtypes("number"):
        if combined[name].max() > 1000:
            combined[name] = np.log1p(combined[name])
    return combined.iloc[: len(parts[0])], combined.iloc[len(parts[0]) :], combined


def rivals(train, test, text):
    """scikit-learn's logistic regression and boosted trees."""
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), text), remainder=StandardScaler()
    )
    linear = make_pipeline(columns, LogisticRegression(max_iter=1000))
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    x = pd.concat([train, test]).drop(columns="income").astype(dict.fromkeys(text, "category"))
    for name, model in (("logistic regression, one-hot", linear), ("boosted trees", trees)):
        model.fit(x.iloc[: len(train)], train["income"])
        yield [name, "", *scores(test["income"], model.predict_proba(x.iloc[len(train) :])[:, 1]), "", ""]


def similarity(options, work, kernel, train):
    """The similarity of two categories with the smallest log loss, and the log losses of all candidates;
    .5 is riesz's default."""
    losses, is_held_out = {}, np.arange(len(train)) % 5 == 0
    for name, part in (("learnt", ~is_held_out), ("held", is_held_out)):
        train[part].to_parquet(work / f"{name}.parquet", index=False)
    for value in (0.5, 0.8, 0.9, 0.95, 0.98):
        fit_options = ["--target", "income", "--model", "klr", "--landmarks", 500, "--kernel", kernel(value)]
        command(options, "fit", work / "learnt.parquet", *fit_options, "-o", work / "tried.riesz")
        losses[value] = log_loss(
            train["income"][is_held_out],
            predicted(options, work, work / "tried.riesz", work / "held.parquet"),
        )
    return min(losses, key=losses.get), losses


def scored(options, work, fit_options, test, axis):
    """Errors by number of landmarks."""
    for colour, kind, name in (
        (0, "klr", "kernel logistic regression"),
        (1, "krr", "kernel ridge regression"),
    ):
        errors, model = {}, work / f"{kind}.riesz"
        for landmarks in (250, 500, 1000, 2000):
            fit = command(
                options,
                "fit",
                work / "train.parquet",
                *fit_options,
                "--model",
                kind,
                "--landmarks",
                landmarks,
                "-o",
                model,
            )
            probability = predicted(options, work, model, work / "test.parquet")
            yield [name, landmarks, *scores(test["income"], probability, kind == "klr"), *taken(fit)]
            errors[landmarks] = 100 * np.mean((probability > 0.5) != test["income"])
        axis.plot(errors.keys(), errors.values(), "o-", color=COLOURS[colour], label=name)
    axis.set(xscale="log", xlabel="landmarks", title="test error, %")
    axis.set_xticks([250, 500, 1000, 2000], ["250", "500", "1,000", "2,000"])
    axis.minorticks_off()
    axis.legend(fontsize=6)


def all_explained(options, work, fit_options, combined, axis):
    """The fit to all rows, and their explanations in three games."""
    model = work / "census.riesz"
    fit = command(
        options, "fit", work / "all.parquet", *fit_options, "--model", "klr", "--landmarks", 1000, "-o", model
    )
    lines, sizes = [], {}
    for game in ("functional", "marginal-product", "interventional"):
        background_options = [] if game == "functional" else ["--background", work / "background.parquet"]
        values, base, residual, measurement = explained(
            options, work, model, work / "all.parquet", "--game", game, *background_options
        )
        sizes[game] = values.abs().mean()
        first = ", ".join(sizes[game].sort_values(ascending=False).index[:6])
        lines.append([game, f"{base:.2f}", first, residual, *taken(measurement)])
    sizes = pd.DataFrame(sizes)
    axis.barh(sizes.index, sizes["interventional"], color=COLOURS[0])
    axis.tick_params(labelsize=6)
    axis.set_title("mean |value|, interventional", fontsize=9)
    report = (
        f"\n\nLogistic regression of all {len(combined):,} rows, 1,000 landmarks: fit "
        f"{' s, '.join(taken(fit))} GiB. All rows explained:\n\n"
    )
    report += table(
        ["game", "base value", "features that lead", "residual (proved)", "seconds (of cores)", "GiB"], lines
    )
    return (
        report
        + "\n\nMean |value|\n\n"
        + table(["", *sizes], [[name, *map(float, row)] for name, *row in sizes.itertuples()])
    )


def bars(options, work, fit_options, combined, background):
    """The estimated error of the landmarks, compared with the change from twice as many landmarks."""
    sample, explanations, lines = combined.drop(columns="income").sample(1000, random_state=1), [], []
    for landmarks in (500, 1000, 2000):
        model = work / f"bars-{landmarks}.riesz"
        command(
            options,
            "fit",
            work / "all.parquet",
            *fit_options,
            "--landmarks",
            landmarks,
            "--posterior",
            "-o",
            model,
        )
        explainer = riesz.Explainer(str(model), background, covariance=True, n_jobs=options.threads)
        explanations.append(explainer(sample))
    for name, coarse, fine in (("500, 1,000", *explanations[:2]), ("1,000, 2,000", *explanations[1:])):
        moved, width = np.abs(fine.values - coarse.values), 1.96 * coarse.std
        sizes = [f"{np.mean(array):.4f}" for array in (np.abs(coarse.values), width, moved)]
        lines.append([name, *sizes, float(np.mean(moved <= width))])
    header = ["landmarks", "mean |value|", "± by the estimate", "moved by twice as many", "share within ±"]
    return "\n\nRidge regression of all rows, 1,000 of them explained, interventional game:\n\n" + table(
        header, lines
    )


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", required=True, help="folder that holds the census")
    options = arguments(__doc__, (parser, settings()))
    train, test, combined = census(options.data)
    background = combined.sample(100, random_state=0)
    text = [name for name in combined if not pd.api.types.is_numeric_dtype(combined[name])]
    numbers = [name for name in combined if name not in [*text, "income"]]
    kernel = lambda value: f"rbf({', '.join(numbers)}) * categorical({', '.join(text)}, similarity={value})"
    figure, axes = panels(2)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        work = pathlib.Path(folder)
        for name, rows in {"train": train, "test": test, "all": combined, "background": background}.items():
            rows.to_parquet(work / f"{name}.parquet", index=False)
        category_similarity, losses = similarity(options, work, kernel, train)
        fit_options = ["--target", "income", "--kernel", kernel(category_similarity)]
        report = (
            f"Census: fitted to {len(train):,} rows, scored on {len(test):,}. Similarity of categories: "
            f"{category_similarity}, by log losses of training rows held out, "
        )
        report += ", ".join(f"{value}: {loss:.4f}" for value, loss in losses.items()) + ".\n\n"
        lines = [*rivals(train, test, text), *scored(options, work, fit_options, test, axes[0])]
        report += table(["", "landmarks", "error", "AUC", "log loss", "fit, s (of cores)", "GiB"], lines)
        report += all_explained(options, work, fit_options, combined, axes[1])
        report += bars(options, work, fit_options, combined, background.drop(columns="income"))
    finish(options, "scale_census", figure, report)


if __name__ == "__main__":
    main()
