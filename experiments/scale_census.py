"""All rows of the census: kernel machines fitted through landmarks, every row explained exactly, and what
landmarks leave out.

    python experiments/scale_census.py --data FOLDER [--riesz COMMAND]

UCI Adult, 48,842 × 14, income above 50,000, from adult_train.csv and adult_test.csv wherever they are below
FOLDER (UCI's files with a header; missing is `?`, a category like others). Of the columns with values above
1,000 logarithms of 1 + x are taken. The kernel is Gaussian in numbers, times a factor for each text that is 1
for equal categories and else a similarity, chosen by the log loss of a fifth of the training rows. Commands
are processes of their own, with wall time, CPU time of all threads and peak memory, of this machine and of
whatever else it does.

Kernel logistic and ridge regression are fitted to the published training rows through 250 to 2,000 landmarks
and scored on the published test rows, beside scikit-learn's logistic regression on one-hot columns and its
boosted trees. Then logistic regression is fitted to all rows through 1,000 landmarks, and all are explained:
in the functional game, in which the kernel's factors are dropped, and with 100 rows as the background, column
by column ("marginal-product") and row by row ("interventional"). Last, for ridge regression of all rows, how
far values may be from those with all rows as support points, by the estimate, beside how far values through
twice as many landmarks are.

Published (RKHS-SHAP, appendix E, of another model, in the observational game, without numbers): relationship,
education and capital gain lead."""

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
    """Published training and test rows, and both."""
    parts = []
    for part in ("train", "test"):
        files = sorted(pathlib.Path(folder).rglob(f"adult_{part}.csv"))
        if not files:
            raise SystemExit(f"adult_{part}.csv is not below --data {folder}")
        rows = pd.read_csv(files[0])
        parts.append(rows.assign(income=rows["income"].str.contains(">50K").astype(float)))
    both = pd.concat(parts, ignore_index=True)
    for name in both.select_dtypes("number"):
        if both[name].max() > 1000:
            both[name] = np.log1p(both[name])
    return both.iloc[: len(parts[0])], both.iloc[len(parts[0]) :], both


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
    """How alike two categories are, and the log losses of what was tried; .5 is riesz's default."""
    losses, held = {}, np.arange(len(train)) % 5 == 0
    for name, part in (("learnt", ~held), ("held", held)):
        train[part].to_parquet(work / f"{name}.parquet", index=False)
    for alike in (0.5, 0.8, 0.9, 0.95, 0.98):
        asked = ["--target", "income", "--model", "klr", "--landmarks", 500, "--kernel", kernel(alike)]
        command(options, "fit", work / "learnt.parquet", *asked, "-o", work / "tried.riesz")
        losses[alike] = log_loss(
            train["income"][held], predicted(options, work, work / "tried.riesz", work / "held.parquet")
        )
    return min(losses, key=losses.get), losses


def scored(options, work, how, test, axis):
    """Errors by landmarks."""
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
                *how,
                "--model",
                kind,
                "--landmarks",
                landmarks,
                "-o",
                model,
            )
            chance = predicted(options, work, model, work / "test.parquet")
            yield [name, landmarks, *scores(test["income"], chance, kind == "klr"), *taken(fit)]
            errors[landmarks] = 100 * np.mean((chance > 0.5) != test["income"])
        axis.plot(errors.keys(), errors.values(), "o-", color=COLOURS[colour], label=name)
    axis.set(xscale="log", xlabel="landmarks", title="test error, %")
    axis.set_xticks([250, 500, 1000, 2000], ["250", "500", "1,000", "2,000"])
    axis.minorticks_off()
    axis.legend(fontsize=6)


def all_explained(options, work, how, both, axis):
    """All rows fitted, and all explained in three games."""
    model = work / "census.riesz"
    fit = command(
        options, "fit", work / "all.parquet", *how, "--model", "klr", "--landmarks", 1000, "-o", model
    )
    lines, sizes = [], {}
    for game in ("functional", "marginal-product", "interventional"):
        more = [] if game == "functional" else ["--background", work / "background.parquet"]
        values, base, residual, found = explained(
            options, work, model, work / "all.parquet", "--game", game, *more
        )
        sizes[game] = values.abs().mean()
        first = ", ".join(sizes[game].sort_values(ascending=False).index[:6])
        lines.append([game, f"{base:.2f}", first, residual, *taken(found)])
    sizes = pd.DataFrame(sizes)
    axis.barh(sizes.index, sizes["interventional"], color=COLOURS[0])
    axis.tick_params(labelsize=6)
    axis.set_title("mean |value|, interventional", fontsize=9)
    told = f"\n\nLogistic regression of all {len(both):,} rows, 1,000 landmarks: fit {' s, '.join(taken(fit))} GiB. All rows explained:\n\n"
    told += table(
        ["game", "base value", "features that lead", "residual (proved)", "seconds (of cores)", "GiB"], lines
    )
    return (
        told
        + "\n\nMean |value|\n\n"
        + table(["", *sizes], [[name, *map(float, row)] for name, *row in sizes.itertuples()])
    )


def bars(options, work, how, both, background):
    """What landmarks leave out, by the estimate, and what twice as many of them change."""
    asked, found, lines = both.drop(columns="income").sample(1000, random_state=1), [], []
    for landmarks in (500, 1000, 2000):
        model = work / f"bars-{landmarks}.riesz"
        command(
            options, "fit", work / "all.parquet", *how, "--landmarks", landmarks, "--posterior", "-o", model
        )
        explainer = riesz.Explainer(str(model), background, covariance=True, threads=options.threads)
        found.append(explainer(asked))
    for name, few, many in (("500, 1,000", *found[:2]), ("1,000, 2,000", *found[1:])):
        moved, width = np.abs(many.values - few.values), 1.96 * few.sd
        sizes = [f"{np.mean(each):.4f}" for each in (np.abs(few.values), width, moved)]
        lines.append([name, *sizes, float(np.mean(moved <= width))])
    header = ["landmarks", "mean |value|", "± by the estimate", "moved by twice as many", "share within ±"]
    return "\n\nRidge regression of all rows, 1,000 of them explained, interventional game:\n\n" + table(
        header, lines
    )


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", required=True, help="folder that holds the census")
    options = arguments(__doc__, (parser, settings()))
    train, test, both = census(options.data)
    background = both.sample(100, random_state=0)
    text = [name for name in both if not pd.api.types.is_numeric_dtype(both[name])]
    numbers = [name for name in both if name not in [*text, "income"]]
    kernel = lambda alike: f"rbf({', '.join(numbers)}) * categorical({', '.join(text)}, similarity={alike})"
    figure, axes = panels(2)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        work = pathlib.Path(folder)
        for name, rows in {"train": train, "test": test, "all": both, "background": background}.items():
            rows.to_parquet(work / f"{name}.parquet", index=False)
        alike, losses = similarity(options, work, kernel, train)
        how = ["--target", "income", "--kernel", kernel(alike)]
        told = f"Census: fitted to {len(train):,} rows, scored on {len(test):,}. Similarity of categories: {alike}, by log losses of training rows held out, "
        told += ", ".join(f"{one}: {loss:.4f}" for one, loss in losses.items()) + ".\n\n"
        lines = [*rivals(train, test, text), *scored(options, work, how, test, axes[0])]
        told += table(["", "landmarks", "error", "AUC", "log loss", "fit, s (of cores)", "GiB"], lines)
        told += all_explained(options, work, how, both, axes[1])
        told += bars(options, work, how, both, background.drop(columns="income"))
    finish(options, "scale_census", figure, told)


if __name__ == "__main__":
    main()
