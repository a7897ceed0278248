"""What columns of data frames are taken for: by the same rules as on the command line."""

import warnings

import numpy as np
import pandas as pd
import pytest

import riesz


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
        found = riesz.SVR().fit(text, y)
    else:
        with pytest.warns(UserWarning, match=f"column 'b' of X: {remark}"):
            found = riesz.SVR().fit(text, y)
    np.testing.assert_array_equal(found.predict(text), expected)
    np.testing.assert_array_equal(found.predict(X), expected)


def test_labels_are_refused_and_codes_are_categories(frame):
    X, y = frame[["a"]], frame["y"]
    labels = X.assign(note=[f"note {i}" for i in range(60)])
    with pytest.raises(ValueError, match=r"column 'note' of X: nearly all of the 60 texts differ.*columns={'note': 'text'}"):
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
    # Numbers can be names.
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
        # Arrays have no names by which to warn.
        riesz.SVR().fit(np.arange(60.0)[:, None], y)


def test_samples_are_read_alike(frame):
    X, Z = frame[["b"]].iloc[:30], frame[["b"]].iloc[30:]
    expected = riesz.mmd_test(X, Z, permutations=20)
    with pytest.warns(UserWarning, match="amounts in kg"):
        found = riesz.mmd_test(X.assign(b=X["b"].map("{} kg".format)), Z.assign(b=Z["b"].map("{} kg".format)), permutations=20)
    assert found.statistic == expected.statistic
    as_text = riesz.mmd_test(X.assign(b=X["b"] % 3), Z.assign(b=Z["b"] % 3), permutations=20, columns={"b": "text"})
    assert as_text.statistic != riesz.mmd_test(X.assign(b=X["b"] % 3), Z.assign(b=Z["b"] % 3), permutations=20).statistic


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
    for same in (np.asfortranarray(cells), np.repeat(cells, 2, axis=1)[:, ::2], fixed):
        np.testing.assert_array_equal(riesz.SVR().fit(same, y).predict(same), expected)
