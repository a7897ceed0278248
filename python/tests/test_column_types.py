"""Types of the columns of data frames, by the same rules as on the command line."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.feature_selection import SelectHSIC


@pytest.fixture
def frame():
    i = np.arange(60)
    return pd.DataFrame({"a": (i * 37) % 60 * 0.5, "b": 1000 + i * i % 977, "y": (i * 37) % 60 + i % 5})


WRITTEN = {
    "$": (lambda v: f"${v:,}", r"amounts in \$"),
    "kg": (lambda v: f"{v} kg", "amounts in kg"),
    "thousands": (lambda v: f"{v:,}", "separators of thousands"),
    "narrow space": (lambda v: f"{v:,}".replace(",", "\u202f"), "separators of thousands"),
    "plain": (str, None),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_as_people_write_them(frame, name):
    write, remark = WRITTEN[name]
    X, y = frame[["a", "b"]], frame["y"]
    expected = riesz.SVR().fit(X, y).predict(X)
    text = X.assign(b=X["b"].map(write))
    if remark is None:
        fitted = riesz.SVR().fit(text, y)
    else:
        with pytest.warns(UserWarning, match=f"column 'b' of X: {remark}"):
            fitted = riesz.SVR().fit(text, y)
    np.testing.assert_array_equal(fitted.predict(text), expected)
    if name in ("$", "kg"):
        with pytest.warns(
            UserWarning, match=f"numbers without a unit, which are taken for {re.escape(name)}"
        ):
            np.testing.assert_array_equal(fitted.predict(X), expected)
    else:
        np.testing.assert_array_equal(fitted.predict(X), expected)


def test_labels_are_refused_and_codes_are_categories(frame):
    X, y = frame[["a"]], frame["y"]
    labels = X.assign(note=[f"note {i}" for i in range(60)])
    with pytest.raises(
        ValueError, match=r"column 'note' of X: nearly all of the 60 texts differ.*columns={'note': 'text'}"
    ):
        riesz.SVR().fit(labels, y)
    model = riesz.SVR(columns={"note": "text"}).fit(labels, y)
    assert len(model._levels[1]) == 60
    riesz.SVR().fit(labels.astype({"note": "category"}), y)
    zips = X.assign(zip=[f"{2100 + i % 7:05}" for i in range(60)])
    with pytest.warns(UserWarning, match="codes with leading zeros, such as 02100, are taken as categories"):
        model = riesz.SVR().fit(zips, y)
    assert model._levels[1] == [f"{2100 + k:05}" for k in range(7)]
    number = riesz.SVR(columns={"zip": "number"}).fit(zips, y)
    assert number._levels == [None, None]
    # Numbers can be names of categories.
    model = riesz.SVR(columns={"k": "text"}).fit(X.assign(k=np.arange(60) % 4), y)
    assert model._levels[1] == ["0", "1", "2", "3"]


def test_doubtful_columns_are_refused(frame):
    y = frame["y"]
    for cells, sentence in [
        (["1,5", "2,25"] * 30, "decimal commas"),
        (["5%", "0.07"] * 30, "different units"),
        (["1", "2", "?"] * 20, r"row 2 \(from 0\) is '\?'"),
        (["2024-01-05"] * 60, "dates or times"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            riesz.SVR().fit(pd.DataFrame({"b": cells}), y)
    with pytest.raises(ValueError, match="names 'z', which X does not have; its columns are: b"):
        riesz.SVR(columns={"z": "text"}).fit(frame[["b"]], y)
    with pytest.raises(ValueError, match="a column is 'text' or 'number'"):
        riesz.SVR(columns={"b": "date"}).fit(frame[["b"]], y)
    with pytest.raises(ValueError, match="X is an array, whose columns have no names"):
        riesz.SVR(columns={"b": "text"}).fit(frame[["b"]].to_numpy(), y)


def test_row_numbers_and_marks_are_warned_of(frame):
    y = frame["y"]
    with pytest.warns(UserWarning, match=r"column 'id' numbers the rows \(7, 8, …\)"):
        riesz.SVR().fit(frame[["a"]].assign(id=np.arange(7, 67)), y)
    marked = frame[["a"]].astype(float).copy()
    marked.loc[3, "a"] = -9999
    with pytest.warns(UserWarning, match="row 3 .* is -9999, .* interquartile ranges"):
        riesz.SVR().fit(marked, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riesz.SVR().fit(frame[["a"]], y)
        # Arrays have no column names for a warning.
        riesz.SVR().fit(np.arange(60.0)[:, None], y)


def test_columns_of_both_samples_have_the_same_type(frame):
    X, Z = frame[["b"]].iloc[:30], frame[["b"]].iloc[30:]
    expected = riesz.mmd_test(X, Z, n_permutations=20)
    with pytest.warns(UserWarning, match="amounts in kg"):
        actual = riesz.mmd_test(
            X.assign(b=X["b"].map("{} kg".format)), Z.assign(b=Z["b"].map("{} kg".format)), n_permutations=20
        )
    assert actual.statistic == expected.statistic
    as_text = riesz.mmd_test(
        X.assign(b=X["b"] % 3), Z.assign(b=Z["b"] % 3), n_permutations=20, columns={"b": "text"}
    )
    assert (
        as_text.statistic
        != riesz.mmd_test(X.assign(b=X["b"] % 3), Z.assign(b=Z["b"] % 3), n_permutations=20).statistic
    )


def test_large_whole_numbers_keep_their_digits():
    X = pd.DataFrame({"account": [str(9007199254740993 + 2 * (i % 3)) for i in range(30)]})
    with pytest.warns(UserWarning, match=r"larger than 2\^53"):
        model = riesz.SVR().fit(X, np.arange(30.0))
    assert model._levels == [["9007199254740993", "9007199254740995", "9007199254740997"]]


def test_masks_are_not_forgotten(frame):
    cells = np.ma.masked_array(frame[["a", "b"]].to_numpy(), mask=False)
    riesz.SVR().fit(cells, frame["y"])
    cells[3, 1] = np.ma.masked
    for use in (
        lambda: riesz.SVR().fit(cells, frame["y"]),
        lambda: riesz.SVR().fit(cells.filled(0.0), frame["y"]).predict(cells),
        lambda: riesz.mmd_test(cells, cells),
        lambda: riesz.hsic_test(cells[:, 1], frame["y"]),
    ):
        with pytest.raises(ValueError, match="has masked cells"):
            use()


def test_index_and_memory_layout_do_not_matter(frame):
    X, y = frame[["a", "b"]], frame["y"]
    expected = riesz.SVR().fit(X, y).predict(X)
    order = np.random.default_rng(0).permutation(60)
    shuffled = riesz.SVR().fit(X.set_index(order), y.to_numpy())
    np.testing.assert_array_equal(shuffled.predict(X), expected)
    cells = X.to_numpy()
    fixed = cells.copy()
    fixed.setflags(write=False)
    for array in (np.asfortranarray(cells), np.repeat(cells, 2, axis=1)[:, ::2], fixed):
        np.testing.assert_array_equal(riesz.SVR().fit(array, y).predict(array), expected)


def test_column_types_are_stated_in_every_estimator():
    """Numbers that are names: as text they are levels of a category, which are equal or not, and have no
    distances."""
    i = np.arange(40)
    items = pd.DataFrame({"a": np.sin(i), "zone": i % 3 * 100})
    left, right = i[:-1], i[1:]
    duels = np.column_stack([left, right])
    state = {"zone": "text"}
    model = riesz.PreferenceClassifier(columns=state, optimizer=None).fit(items, duels)
    assert next(iter(model.expansion_.levels.values())) == ["0", "100", "200"]
    riesz.PreferenceClusters(2, columns=state, optimizer=None, random_state=0).fit(items, duels)
    riesz.preference.compare_models(items, duels, columns=state, optimizer=None)
    SelectHSIC(1, columns=state).fit(items, items["a"])
    graph = "zone -> a; a -> y; zone -> y"
    table = items.assign(y=items["a"] + (items["zone"] == 100))
    effect = riesz.CausalEffect(
        graph, treatment="a", outcome="y", n_hyperparameter_samples=0, columns=state
    ).fit(table)
    number = riesz.CausalEffect(graph, treatment="a", outcome="y", n_hyperparameter_samples=0).fit(table)
    assert effect.effect(0.0).mean != number.effect(0.0).mean
    for model in [
        riesz.PreferenceClassifier(columns={"zones": "text"}),
        riesz.PreferenceClusters(2, columns={"zones": "text"}),
    ]:
        with pytest.raises(ValueError, match="names 'zones', which items does not have"):
            model.fit(items, duels)
    with pytest.raises(ValueError, match="names 'zones', which the data does not have"):
        riesz.CausalEffect(graph, treatment="a", outcome="y", columns={"zones": "text"}).fit(table)


@pytest.mark.parametrize(
    "cells", [["2024-01", "2024-02"], ["10:30", "11:45"], ["Q1 2024", "Q2 2024"], ["5 Jan 2024"] * 2]
)
def test_months_and_times_are_dates(frame, cells):
    with pytest.raises(ValueError, match="column 'b' holds dates or times"):
        riesz.SVR().fit(pd.DataFrame({"b": cells * 30}), frame["y"])


def test_dates_as_whole_numbers_are_warned_of(frame):
    dates = pd.DataFrame({"day": [20240101 + k % 28 + 100 * (k // 28) for k in range(60)]})
    with pytest.warns(UserWarning, match="column 'day' looks like dates written as whole numbers"):
        riesz.SVR().fit(dates, frame["y"])


def test_units_of_the_training_data_are_kept(frame):
    y = frame["y"]
    weights = [f"{50 + k % 31} kg" for k in range(60)]
    kilograms = pd.DataFrame({"w": weights, "a": frame["a"]})
    with pytest.warns(UserWarning, match="amounts in kg"):
        model = riesz.SVR().fit(kilograms, y)
    pounds = kilograms.assign(w=[w.replace("kg", "lb") for w in weights])
    mixed = kilograms.assign(w=weights[:30] + [w.replace("kg", "lb") for w in weights[30:]])
    plain = kilograms.assign(w=[float(w[:-3]) for w in weights])
    for predict in (model.predict, model.expansion_.predict):
        with pytest.raises(ValueError, match="numbers in lb, and the model was fitted to numbers in kg"):
            predict(pounds)
        with pytest.raises(ValueError, match="has numbers in kg and in lb"):
            predict(mixed)
        expected = predict(kilograms)
        with pytest.warns(UserWarning, match="without a unit, which are taken for kg"):
            np.testing.assert_array_equal(predict(plain), expected)
    with pytest.raises(ValueError, match="the model was fitted to numbers without a unit"):
        riesz.SVR().fit(plain, y).expansion_.predict(kilograms)


@pytest.mark.parametrize(
    "estimator", [riesz.KernelRidge, riesz.SVR, riesz.SVC, riesz.GaussianProcessRegressor]
)
def test_targets_that_are_no_values_are_refused(frame, estimator):
    X = frame[["a", "b"]].to_numpy()
    dates = pd.date_range("2024-01-01", periods=60)
    for y in (dates, pd.Series(dates), dates - dates[0], np.array(dates.date)):
        with pytest.raises(ValueError, match="y holds dates or times"):
            estimator().fit(X, y)
    masked = np.ma.masked_greater(np.arange(60) % 7, 5)
    with pytest.raises(ValueError, match="y has masked cells"):
        estimator().fit(X, masked)


def test_classes_with_missing_values_and_truth_values_of_any_type(frame):
    X = frame[["a", "b"]].to_numpy()
    names = np.array(["x", "y"] * 30, dtype=object)
    for gone in (None, float("nan"), pd.NA):
        y = names.copy()
        y[3] = gone
        with pytest.raises(ValueError, match=r"y is .* in row 3 \(from 0\)"):
            riesz.SVC().fit(X, y)
    truth = np.array([True, False] * 30, dtype=object)
    np.testing.assert_array_equal(
        riesz.SVC().fit(X, truth).predict(X), riesz.SVC().fit(X, truth.astype(bool)).predict(X)
    )


def test_effects_of_truth_values_are_asked_for_by_numbers():
    rng = np.random.default_rng(0)
    age = rng.normal(size=80)
    treated = age + rng.normal(size=80) > 0
    data = pd.DataFrame({"age": age, "treated": treated, "y": age - 2 * treated})
    graph = "age -> treated; age -> y; treated -> y"
    model = riesz.CausalEffect(graph, treatment="treated", outcome="y", n_hyperparameter_samples=0).fit(data)
    assert model.effect(1, baseline=0).mean == model.effect(True, baseline=False).mean


def test_duels_name_their_items():
    with pytest.raises(ValueError, match=r"duels name no item in row 1 \(from 0\)"):
        riesz.PreferenceClassifier("bradley_terry").fit(None, [("a", "b"), ("b", None), ("b", "a")])
