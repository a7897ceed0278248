"""Explanations: selection, conversion to other libraries, files."""

import io
import json
import pathlib
import pickle
import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
import shap
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR

import riesz
from conftest import with_levels

matplotlib.use("Agg")


@pytest.fixture
def single(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "bp"])
    return riesz.Explainer(SVR().fit(frame, y), frame[:8])(frame[:6])


@pytest.fixture
def three(data):
    X, y = data
    return riesz.Explainer(SVC(decision_function_shape="ovo").fit(X, np.digitize(y, [-0.3, 0.5])), X[:8])(
        X[:6]
    )


def test_shapes(single, three):
    assert (
        single.values.shape == (6, 4) and single.base_values.shape == (6,) and single.residual.shape == (6,)
    )
    assert (
        three.values.shape == (6, 4, 3) and three.base_values.shape == (6, 3) and three.bound.shape == (6, 3)
    )
    for e in (single, three):
        np.testing.assert_allclose(e.base_values + e.values.sum(axis=1), e.predictions, atol=1e-12)
        assert e.exactness == "exact" and e.std_error is None and e.certificate.holds and len(e) == 6


def test_indexing(single, three):
    assert single[0].values.shape == (4,) and np.isscalar(single[0].base_values)
    assert (single[0].data == single.data[0]).all()
    assert (single[-1].values == single.values[-1]).all()
    assert (single[1:3].values == single.values[1:3]).all() and (single[1:3].row_numbers == [1, 2]).all()
    assert (single[[4, 2]].values == single.values[[4, 2]]).all()
    assert (single[single.values[:, 0] > 0].values == single.values[single.values[:, 0] > 0]).all()
    assert (single[:, "bmi"].values == single.values[:, 2]).all() and single[:, "bmi"].feature_names == [
        "bmi"
    ]
    assert (single[:, ["bp", "age"]].values == single.values[:, [3, 0]]).all()
    assert single[2, "sex"].values == single.values[2, 1]
    assert (three[..., 1].values == three.values[..., 1]).all() and three[..., 1].base_values.shape == (6,)
    assert (three[:, :, "0 vs 2"].values == three.values[:, :, 1]).all()
    assert (three[3, :, [2, 0]].values == three.values[3][:, [2, 0]]).all()
    assert (three[3].values == three.values[3]).all() and (
        three[3][:, 1].values == three.values[3, :, 1]
    ).all()
    above = pd.Series(single.values[:, 0] > 0, index=range(10, 16))
    for key, plain_key in [
        (above, above.to_numpy()),
        (pd.Series([4, 2]), [4, 2]),
        (pd.Index([1, 3]), [1, 3]),
        (np.array(3), 3),
        (range(2), [0, 1]),
        ([], slice(0)),
        ((slice(None), pd.Index(["bp", "age"])), (slice(None), [3, 0])),
        ((above, ...), above.to_numpy()),
    ]:
        assert (single[key].values == single.values[plain_key]).all() and single[
            key
        ].values.shape == single.values[plain_key].shape
    for key, kind, words in [
        ((0, 0, 0), IndexError, "3 indices"),
        (6, IndexError, "no row 6"),
        ((0, "weight"), KeyError, "no feature 'weight'"),
        (0.5, IndexError, "not by 0.5"),
        ([1.7], IndexError, r"not by \[1.7\]"),
        (True, IndexError, "not by True"),
        ((0, np.bool_(True)), IndexError, "True"),
        ([[0, 1]], IndexError, "rows are picked by a list"),
        ("age", IndexError, "rows have numbers"),
    ]:
        with pytest.raises(kind, match=words):
            single[key]
    with pytest.raises(TypeError):
        len(single[0])


def test_selected_features_have_no_certificate(single, three, tmp_path):
    reordered = single[:, ["bp", "age", "sex", "bmi"]]
    assert reordered.certificate == single.certificate and single[:, ::-1].certificate.holds
    reordered.save(tmp_path / "turned.json")
    read = riesz.Explanation.load(tmp_path / "turned.json")
    assert (
        read.feature_names == reordered.feature_names
        and (read.values == reordered.values).all()
        and read.certificate.holds
    )
    reordered.report(tmp_path / "turned.html")
    assert "(proved limit" in (tmp_path / "turned.html").read_text()
    for path in tmp_path.iterdir():
        path.unlink()
    for e in (
        single[:, ["bmi", "bp"]],
        single[0, "bmi"],
        single[2:][:, ["bmi", "bmi", "bp"]],
        three[0, [0, 2]],
    ):
        assert e.certificate is None and (e.bound < 1e-6).all() and "some of its features" in repr(e)
        total = e._base + e._values.sum(axis=1) + e._residual
        np.testing.assert_allclose(total, e._predictions, atol=1e-12)
        assert np.abs(e.residual).max() > 1e-3 and "<svg" not in e._repr_html_()
        for act in (e.save, e.report):
            with pytest.raises(ValueError, match="a selection, and their values do not add up"):
                act(tmp_path / ("e.json" if act == e.save else "e.html"))
        other = pickle.loads(pickle.dumps(e))
        assert other.certificate is None and np.all(other.values == e.values)
    for draw in (riesz.plots.waterfall, riesz.plots.force):
        with pytest.raises(ValueError, match="some of the features do not"):
            draw(single[0, ["bmi", "bp"]])
    assert not list(tmp_path.iterdir())


def test_shap_draws_explanations(single, three):
    import matplotlib.pyplot as plt

    theirs = single.to_shap()
    assert (theirs.values == single.values).all() and theirs.feature_names == single.feature_names
    for plot in (shap.plots.beeswarm, shap.plots.bar, shap.plots.heatmap):
        plot(theirs, show=False)
        plt.close("all")
    shap.plots.waterfall(single[0].to_shap(), show=False)
    shap.plots.scatter(single[:, "bmi"].to_shap(), show=False)
    shap.plots.beeswarm(three[..., 0].to_shap(), show=False)
    plt.close("all")
    assert three.to_shap().shape == (6, 4, 3)


def test_frames(single, three):
    for e in (single, three):
        m = len(e.output_names)
        frame = e.to_frame()
        assert list(frame.columns) == [
            "row",
            "output",
            "base_value",
            "prediction",
            "residual",
            *e.feature_names,
        ]
        assert len(frame) == 6 * m and (frame["row"] == np.repeat(range(6), m)).all()
        players = frame[e.feature_names].to_numpy().reshape(6, m, 4)
        assert (players == e.values.reshape(6, 4, m).transpose(0, 2, 1)).all()
        theirs = e.to_frame("polars")
        assert theirs.columns == list(frame.columns)
        assert all(theirs[name].to_list() == frame[name].to_list() for name in frame.columns)
    with pytest.raises(ValueError, match="pandas"):
        single.to_frame("dask")


def test_frames_are_read_back(data, single, three):
    X, y = data
    X = np.hstack([X, np.sin(3 * X)])
    model = SVC(kernel="sigmoid", decision_function_shape="ovo").fit(X, np.digitize(y, [-0.3, 0.5]))
    estimated = riesz.Explainer(model, X[:5])(X[:6])
    for e in (single, three, three[:, ::-1], estimated):
        for library, read in [
            ("pandas", pd.DataFrame.copy),
            ("polars", lambda f: f),
            ("pandas", through_csv),
        ]:
            frame = read(e.to_frame(library))
            errors = [name for name in frame.columns if name.startswith("std_error:")]
            assert errors == [f"std_error:{name}" for name in e.feature_names] * (e is estimated)
            loaded = riesz.Explanation.from_frame(frame)
            assert loaded.feature_names == e.feature_names and loaded.output_names == e.output_names
            for name in ("values", "base_values", "predictions", "row_numbers"):
                np.testing.assert_array_equal(getattr(loaded, name), getattr(e, name))
            if e is estimated:
                np.testing.assert_array_equal(loaded.std_error, e.std_error)
            assert (
                loaded.exactness == ("estimated" if e is estimated else "unknown") and loaded.sampling is None
            )
            assert loaded.certificate is None and loaded.bound is None and loaded.data.shape == (6, 0)
            first = loaded if e is single else loaded[..., 0]
            assert "<svg" in first._repr_html_()
            axes = riesz.plots.bar(first)
            assert axes.has_data()
            matplotlib.pyplot.close(axes.figure)
    frame = three.to_frame()
    subset = riesz.Explanation.from_frame(frame[frame["row"] > 3][::-1])
    assert (subset.row_numbers == [5, 4]).all() and (
        subset[:, :, "0 vs 1"].values == three[[5, 4], :, "0 vs 1"].values
    ).all()
    for wrong, words in [
        (frame.drop(columns="output"), "no column 'output'"),
        (frame[["row", "output", "base_value", "prediction", "residual"]], "no column of values"),
        (frame[1:], "row 0 has no line for output"),
        (pd.concat([frame, frame[:1]]), "is there twice: remove one"),
        (frame[:0], "the table of values is empty"),
        (frame.assign(x0=np.nan), r"the table is nan in row 0 \(from 0\) of column 'x0'"),
        (frame.assign(row="a"), "column 'row' of the table holds values that are not numbers"),
    ]:
        with pytest.raises(ValueError, match=words):
            riesz.Explanation.from_frame(wrong)


def through_csv(frame):
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)), float_precision="round_trip")


def test_files(single, three, tmp_path):
    frame = pd.DataFrame(single.data, columns=single.column_names).assign(sex=["f", "m", "f", "m", "x", "f"])
    mixed = riesz.Explainer(lambda rows: rows["bmi"] * (rows["sex"] == "m"), frame[:3])(frame)
    assert set(mixed.data[:, 1]) == {"f", "m", "x"}
    for e in (single, three, single[2:4], single[3], mixed):
        e.save(tmp_path / "e.json")
        read = riesz.Explanation.load(tmp_path / "e.json")
        assert (read._values == e._values).all() and (read._data == e._data).all()
        assert (read.row_numbers == e.row_numbers).all() and read.provenance == e.provenance
        assert read.feature_names == e.feature_names and read.certificate == e.certificate
        other = pickle.loads(pickle.dumps(e))
        assert np.all(other.values == e.values) and other.shape == e.shape
    record = json.loads((tmp_path / "e.json").read_text())
    for change, culprit in [
        ({"version": 99}, "newer"),
        ({"values": [1.0]}, "values"),
        ({"format": "x"}, "riesz"),
    ]:
        (tmp_path / "bad.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(ValueError, match=culprit):
            riesz.Explanation.load(tmp_path / "bad.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ValueError, match="bad.json"):
        riesz.Explanation.load(tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError):
        riesz.Explanation.load(tmp_path / "none.json")
    single.report(tmp_path / "r.html", title="Who pays")
    page = (tmp_path / "r.html").read_text()
    assert "Who pays" in page and "(proved limit" in page
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.json", "e.json", "r.html"]


def test_missing_numbers_stay_numbers_in_files(data, tmp_path):
    X, y = data
    X[[3, 5], 1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        b=np.where(np.isnan(X[:, 1]), np.nan, np.round(X[:, 1] * 4))
    )
    model = make_pipeline(SimpleImputer(), SVR()).fit(frame, y)
    explanation = riesz.Explainer(model, frame[:8])(frame[:12])
    rows = frame[:12].astype(object).assign(a=["1", "2"] * 6)
    rows.iloc[3, 1], rows.iloc[5, 1] = None, pd.NA
    mixed = riesz.Explainer(lambda rows: 1.0 * (rows["a"] == "2"), rows[:3])(rows)
    for e in (explanation, mixed):
        e.save(tmp_path / "e.json")
        column = json.loads((tmp_path / "e.json").read_text())["data"]["columns"][1]
        levels = column["kind"]["categorical"]["levels"]
        assert levels[-1] == "missing" and [float(level) for level in levels[:-1]] == sorted(
            frame.b[:12].dropna().unique()
        )
        read = riesz.Explanation.load(tmp_path / "e.json")
        np.testing.assert_array_equal(read.data[:, 1].astype(float), frame.b[:12])
    explanation.report(tmp_path / "e.html")
    assert "missing" in (tmp_path / "e.html").read_text()


def test_file_extensions_match_the_content(single, tmp_path):
    for act, name, words in [
        (
            single.save,
            "e.csv",
            r"e.csv ends in .csv, but save writes JSON \(for a table use .to_frame\(\)\): "
            "give a name that ends in .json",
        ),
        (
            single.report,
            "e.pdf",
            "e.pdf ends in .pdf, but report writes HTML: give a name that ends in .html",
        ),
    ]:
        with pytest.raises(ValueError, match=words):
            act(tmp_path / name)
    with pytest.raises(TypeError, match="title = None: it is a text"):
        single.report(tmp_path / "e.html", title=None)
    for act in (single.save, riesz.Expansion(riesz.kernels.RBF(), np.eye(2), [1.0, 2.0]).save):
        with pytest.raises(FileNotFoundError) as caught:
            act(tmp_path / "none" / "e.json")
        assert caught.value.filename == str(tmp_path / "none" / "e.json")
    for content in (b"row,output\n", b"PAR1..."):
        (tmp_path / "e.csv").write_bytes(content)
        with pytest.raises(
            ValueError,
            match="e.csv is not JSON: load reads .* tables of values, CSV and Parquet, are read by the "
            "command",
        ):
            riesz.Explanation.load(tmp_path / "e.csv")


def test_notebooks_show_a_picture(single):
    assert "<svg" in single._repr_html_() and "<svg" in single[0]._repr_html_()
    assert repr(single).startswith("<riesz.Explanation: 6 × 4 values, interventional game, exact within")


def test_models_from_equations_and_files(data, tmp_path):
    X, y = data
    model = KernelRidge(kernel="rbf", gamma=0.5).fit(X, y)
    kernel = riesz.kernels.RBF(length_scale=1.0)
    expansion = riesz.Expansion(kernel, points=X, coef=model.dual_coef_, output_names=["price"])
    np.testing.assert_allclose(expansion.predict(X), model.predict(X), atol=1e-9)
    expected = riesz.Explainer(model, X[:5])(X[:3]).values
    expansion.save(tmp_path / "m.riesz")
    for again in (
        expansion,
        riesz.Expansion.load(tmp_path / "m.riesz"),
        pickle.loads(pickle.dumps(expansion)),
        tmp_path / "m.riesz",
    ):
        np.testing.assert_allclose(riesz.Explainer(again, X[:5])(X[:3]).values, expected, atol=1e-11)
    assert (
        (expansion.points == X).all()
        and expansion.coef.shape == (50, 1)
        and expansion.output_names == ["price"]
    )
    theirs = RBF(1.0)(X, X[:1])[:, 0]
    k = riesz.kernels
    for ours, value in [
        (2.0 * k.RBF() + 3, 2 * theirs + 3),
        (k.RBF() * k.RBF(columns=[0]), theirs * np.exp(-((X[:, 0] - X[0, 0]) ** 2) / 2)),
        (k.Laplacian([1.0, 2.0, 3.0, 4.0]), np.exp(-np.abs(X - X[0]) @ [1, 1 / 2, 1 / 3, 1 / 4])),
        (k.Cauchy(2.0), np.prod(1 / (1 + (X - X[0]) ** 2 / 4), axis=1)),
        (k.Linear(scale=2.0), X @ X[0] / 4),
        (k.Polynomial(2, 0.5, 1.0), (0.5 * X @ X[0] + 1) ** 2),
        (k.Periodic(0.8, 2.0, columns=[1]), np.exp(-2 * np.sin(np.pi * (X[:, 1] - X[0, 1]) / 2) ** 2 / 0.64)),
        (k.Categorical(0.25, columns=["x3"]), np.where(X[:, 3] == X[0, 3], 1, 0.25)),
        (k.Matern(2.0, 0.5), np.exp(-np.sqrt(((X - X[0]) ** 2).sum(axis=1)) / 2)),
        (k.Matern(2.0, 0.5, isotropic=False), np.exp(-np.abs(X - X[0]).sum(axis=1) / 2)),
    ]:
        actual = riesz.Expansion(ours, X, np.eye(50)).predict(X[:1])[0]
        np.testing.assert_allclose(actual, value, atol=1e-12, err_msg=repr(ours))


def test_categorical_columns_of_model_files_take_the_users_own_values(tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 60, 40),
            "zone": rng.choice([1, 2, 24], 40),
            "city": rng.choice(["Lima", "Oslo", "Rome"], 40),
            "member": rng.random(40) > 0.5,
        }
    )
    codes = frame.assign(
        zone=frame.zone.map({1: 0, 2: 1, 24: 2}),
        city=frame.city.map({"Lima": 0, "Oslo": 1, "Rome": 2}),
        member=1 * frame.member,
    )
    k = riesz.kernels
    kernel = k.RBF(20.0, columns=["age"]) * k.Categorical(0.3, columns=["zone", "city", "member"])
    coded = riesz.Expansion(kernel, codes[:30], rng.normal(size=30))
    coded.save(tmp_path / "m.riesz")
    levels = {"zone": ["1", "2", "24"], "city": ["Lima", "Oslo", "Rome"], "member": ["False", "True"]}
    with_levels(tmp_path / "m.riesz", **levels)
    model = riesz.Expansion.load(tmp_path / "m.riesz")
    assert model.levels == levels and coded.levels == {}

    expected = coded.predict(codes)
    spelled = frame.assign(
        zone=frame.zone.map({1: "1.0", 2: "2", 24: " 24 "}), city=frame.city.astype("category")
    )
    for rows in (
        frame,
        spelled,
        frame.astype({"zone": float}),
        frame.to_numpy(),
        frame.astype({"member": str}),
    ):
        np.testing.assert_array_equal(model.predict(rows), expected)
    explanation = riesz.Explainer(str(tmp_path / "m.riesz"), frame[:10])(frame[30:])
    np.testing.assert_array_equal(explanation.values, riesz.Explainer(coded, codes[:10])(codes[30:]).values)
    assert explanation.certificate.holds and (explanation.data == frame[30:].to_numpy()).all()
    # Mixtures of columns are computed before the encoding.
    polynomial = riesz.Expansion(
        k.Polynomial(2, 1e-2, columns=["age", "zone"]), codes[:30], rng.normal(size=30)
    )
    polynomial.save(tmp_path / "p.riesz")
    with_levels(tmp_path / "p.riesz", **levels)
    with pytest.raises(
        ValueError, match="polynomial over 'zone' is not allowed: unseen levels need a kernel that"
    ):
        riesz.Expansion.load(tmp_path / "p.riesz").with_unseen()
    estimated = riesz.Explainer(tmp_path / "p.riesz", frame[:10])(frame[30:])
    np.testing.assert_allclose(
        estimated.values, riesz.Explainer(polynomial, codes[:10])(codes[30:]).values, atol=1e-12
    )

    for column, value, words in [
        (
            "zone",
            3,
            r"X is '3' in row 2 \(from 0\) of column 'zone', which the model has not seen; "
            "it knows: 1, 2, 24",
        ),
        ("city", "Bonn", "X is 'Bonn' .* of column 'city', which the model has not seen"),
        ("city", None, r"X is None in row 2 \(from 0\) of column 'city': fill"),
        ("city", pd.NA, "X is <NA> in row 2"),
        ("zone", np.nan, "X is nan in row 2"),
    ]:
        wrong = frame.astype({column: object}).copy()
        wrong.loc[2, column] = value
        with pytest.raises(ValueError, match=words):
            model.predict(wrong)
        with pytest.raises(ValueError, match=words.replace("X", "background", 1)):
            riesz.Explainer(model, wrong)


# Long: a table of cases.
def test_hostile_input(data, tmp_path):
    X, y = data
    model = SVR().fit(X, y)
    explainer = riesz.Explainer(model, X[:5])
    nan = X.copy()
    nan[3, 1] = np.nan
    texts = X.astype(object)
    texts[0, 2] = "much"
    cases = [
        (lambda: explainer(nan), ValueError, r"row 3 \(from 0\) of column 'x1'"),
        (lambda: explainer(X[:, :3]), ValueError, "3 columns, but the model has 4"),
        (lambda: explainer(X[0]), ValueError, r"give \[row\]"),
        (lambda: explainer(X[0, 0]), ValueError, "X is a numpy.float64: give an array"),
        (lambda: explainer(texts), ValueError, "column 'x2' of X holds values that are not numbers"),
        (lambda: explainer(X * 1j), ValueError, "complex"),
        (lambda: explainer([[1, 2], [3]]), ValueError, ""),
        (lambda: riesz.Explainer(model, X[:0]), ValueError, "the background has no rows"),
        (lambda: riesz.Explainer(model, nan), ValueError, "background is nan"),
        (lambda: riesz.Explainer(model, X[:5], game="shap"), ValueError, "game = 'shap'"),
        (lambda: riesz.Explainer(model, game="interventional"), ValueError, "needs a background"),
        (lambda: riesz.Explainer(model, X[:5], game="functional"), ValueError, "no use for a background"),
        (lambda: riesz.Explainer(model, X[:5], game="baseline"), ValueError, "1 are expected"),
        (lambda: riesz.Explainer(model, X[:5], background_weights=[1, 2]), ValueError, "background_weights"),
        (lambda: riesz.Explainer(model, X[:5], background_weights=[-1, 1, 1, 1, 1]), ValueError, "weight"),
        (
            lambda: riesz.Explainer(model, X[:5], background_weights=np.ones((5, 1))),
            ValueError,
            r"shape \(5, 1\)",
        ),
        (lambda: riesz.Explainer(SVR), TypeError, "SVR is a class"),
        (lambda: explainer(X)[np.array([True, False])], IndexError, "mask"),
        (
            lambda: explainer(pd.DataFrame({"a": ["u"], "b": [1], "c": [1], "d": [1]})),
            ValueError,
            "column 'a'",
        ),
        (lambda: riesz.Explainer(model, X[:5], n_jobs=0), ValueError, "n_jobs"),
        (
            lambda: riesz.Explainer(model, X[:5], n_jobs=10**6),
            ValueError,
            "n_jobs = 1000000: it is a whole number from 1 to 1024",
        ),
        (lambda: riesz.Explainer(model, X[0]), ValueError, r"background has 1 dimension.*give \[row\]"),
        (lambda: riesz.Explainer(model, game=None), TypeError, "game = None"),
        (lambda: riesz.Explainer(model, game=3), TypeError, "game = 3"),
        (lambda: riesz.Explainer(model, groups={"a": 3}), TypeError, "group 'a' is 3: it is a list"),
        (lambda: riesz.Explainer(model, groups={"a": [1.5]}), TypeError, "group 'a' names a column 1.5"),
        (lambda: riesz.Explainer(model, groups={"a": [True]}), TypeError, "group 'a' names a column True"),
        (lambda: riesz.Explainer(model, X[:5], groups={"a": [0], "b": [0]}), ValueError, "choose one"),
        (lambda: riesz.Explainer(model, X[:5], groups={"a": ["age"]}), ValueError, "'age'"),
        (lambda: riesz.Explainer(model, X[:5], groups={"a": [9]}), ValueError, "column 9"),
        (lambda: riesz.Explainer(model, X[:5], groups={"a": []}), ValueError, "no columns"),
        (lambda: riesz.Explainer(model, X[:5], groups=["a"]), TypeError, "dict"),
        (lambda: riesz.Explainer(model, X[:5], link="logit"), TypeError, "link"),
        (lambda: riesz.Explainer(tmp_path / "none.riesz"), FileNotFoundError, "none.riesz"),
        (lambda: riesz.Expansion("rbf", X, y), TypeError, "riesz.kernels"),
        (lambda: riesz.Expansion(riesz.kernels.RBF(-1.0), X, y), ValueError, "positive"),
        (lambda: riesz.Expansion(riesz.kernels.RBF([1.0, 2.0]), X, y), ValueError, "2 numbers"),
        (lambda: riesz.Expansion(riesz.kernels.RBF(), X, y[:3]), ValueError, "50 points"),
        (lambda: riesz.Expansion(riesz.kernels.RBF(columns=["age"]), X, y), ValueError, "'age'"),
        (lambda: riesz.Expansion(riesz.kernels.RBF(columns=1), X, y), TypeError, "columns = 1: it is a list"),
        (
            lambda: riesz.Expansion(riesz.kernels.RBF(columns=[0.7]), X, y),
            TypeError,
            "whole numbers, not 0.7",
        ),
        (
            lambda: riesz.Expansion(riesz.kernels.Polynomial(-1), X, y),
            ValueError,
            "degree = -1 .* whole number from 1",
        ),
        (
            lambda: riesz.Expansion(riesz.kernels.Polynomial(2.5), X, y),
            ValueError,
            "degree = 2.5 .* whole number from 1",
        ),
        (lambda: riesz.Expansion(0 * riesz.kernels.RBF(), X, y), ValueError, "the kernel is zero"),
        (lambda: riesz.Expansion(riesz.kernels.RBF(), X, y * np.inf), ValueError, ""),
        (lambda: riesz.kernels.RBF(length=1.0), TypeError, "length"),
    ]
    for act, kind, culprit in cases:
        with pytest.raises(kind, match=culprit):
            act()
    (tmp_path / "bad.riesz").write_bytes(b"\x00" * 40)
    with pytest.raises(ValueError, match="bad.riesz"):
        riesz.Explainer(tmp_path / "bad.riesz")


def test_empty_and_large_batches_and_threads_agree(data):
    X, y = data
    model = SVR().fit(X, y)
    assert riesz.Explainer(model, X[:5])(X[:0]).values.shape == (0, 4)
    rows = np.tile(X, (40, 1))
    all_at_once = riesz.Explainer(model, X[:5], n_jobs=1)(rows).values
    assert (riesz.Explainer(model, X[:5], n_jobs=2)(rows).values == all_at_once).all()
    assert (riesz.Explainer(model, X[:5])(rows[:1]).values == all_at_once[:1]).all()


def test_importing_is_light():
    modules = "('sklearn', 'scipy', 'pandas', 'matplotlib', 'shap')"
    script = f"import sys, riesz; print([m for m in {modules} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ctrl_c_is_honoured():
    # The work takes minutes, and its first chunk is long; the time until it stops is not tested.
    script = """
import _thread, threading, numpy as np, riesz
rng = np.random.default_rng(0)
model = riesz.Expansion(riesz.kernels.RBF(5.0), rng.normal(size=(4000, 30)), rng.normal(size=4000))
explainer = riesz.Explainer(model, rng.normal(size=(200, 30)))
rows = rng.normal(size=(100_000, 30))
try:
    threading.Timer(0.5, _thread.interrupt_main).start()
    explainer(rows)
except KeyboardInterrupt:
    print("stopped")
print(explainer(rows[:1]).values.shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.split("\n")[:2] == ["stopped", "(1, 30)"]


VERSIONS = sorted((pathlib.Path(__file__).parent / "data").iterdir())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_files_of_older_versions_are_read(folder):
    X, models, expected, explanation = pickle.loads((folder / "all.pickle").read_bytes())
    for name, model in models.items():
        np.testing.assert_allclose(
            np.asarray(model.predict(X), float), np.asarray(expected[name], float), atol=1e-12
        )
    assert models["process"].predict(X, return_std=True)[1].shape == (12,)
    read = riesz.Explanation.load(folder / "explanation.json")
    assert (read.values == explanation.values).all() and read.provenance == explanation.provenance
    saved = riesz.Expansion.load(folder / "model.riesz")
    np.testing.assert_allclose(riesz.Explainer(saved, X[:4])(X[:2]).values, explanation.values, atol=1e-12)


def test_unseen_levels_are_none_of_the_known_ones(tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.uniform(20, 60, 30), "city": rng.choice(["Lima", "Oslo"], 30)})
    kernel = riesz.kernels.RBF(20.0, columns=["age"]) * riesz.kernels.Categorical(0.3, columns=["city"])
    fitted = riesz.GaussianProcessRegressor(kernel, optimizer=None, alpha=0.1, normalize_y=False).fit(
        frame, rng.normal(size=30)
    )
    fitted.expansion_.save(tmp_path / "m.riesz", posterior=True)
    new = pd.DataFrame({"age": [30.0, 40.0, 50.0], "city": ["Oslo", "Paris", "Bonn"]})
    for model in (fitted.expansion_, riesz.Expansion.load(tmp_path / "m.riesz")):
        with pytest.raises(
            ValueError,
            match=r"X is 'Paris' in row 1 .* it knows: Lima, Oslo; Expansion.with_unseen\(\) takes it",
        ):
            model.predict(new)
        open_ = model.with_unseen()
        assert open_.levels == {"city": ["Lima", "Oslo", "(unseen)"]} and open_.with_unseen() is open_
        near = np.exp(-((new.age.to_numpy()[:, None] - frame.age.to_numpy()) ** 2) / 800)
        city_factor = np.where(new.city.to_numpy()[:, None] == frame.city.to_numpy(), 1.0, 0.3)
        coef, intercept = model.coef[:, 0], model.intercept[0]
        for expansion in (open_, pickle.loads(pickle.dumps(open_))):
            np.testing.assert_allclose(
                expansion.predict(new), near * city_factor @ coef + intercept, atol=1e-12
            )
            mean, std = expansion.predict(new, return_std=True)
            assert np.isfinite(std).all()
            explanation = riesz.Explainer(expansion)(new)
            assert explanation.certificate.holds and (explanation.data == new.to_numpy()).all()
            # In the functional game, absent features have the factor 1.
            none, age, city, joint = (
                k @ coef for k in (np.ones((3, 30)), near, city_factor, near * city_factor)
            )
            expected = np.stack([age - none + joint - city, city - none + joint - age], axis=1) / 2
            np.testing.assert_allclose(explanation.values, expected, atol=1e-10)
            note = explanation.provenance.run["unseen categories"]
            assert note == "2 cells of column 'city' taken for none of the known categories"
            assert "unseen categories" not in riesz.Explainer(expansion)(new[:1]).provenance.run
        np.testing.assert_array_equal(riesz.Explainer(open_, new)(frame).values.shape, (30, 2))
        with pytest.raises(ValueError, match="X is None in row 0"):
            open_.predict(new.assign(city=None))


def test_files_take_their_columns_by_name(tmp_path, data):
    """Rows are matched by column names, and other columns are ignored, as on the command line."""
    X, y = data
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "bp"])
    riesz.KernelRidge(kernel="rbf", gamma="scale").fit(frame, y).save(tmp_path / "m.riesz")
    model = riesz.Expansion.load(tmp_path / "m.riesz")
    extended = frame.assign(zip=7, x2=1.0)[["zip", "bp", "x2", "age", "bmi", "sex"]]
    explainer = riesz.Explainer(model, extended[:5])
    expected = riesz.Explainer(model, frame[:5])(frame)
    import polars as pl

    for rows in (
        extended,
        pl.DataFrame(extended.to_dict("list")),
        pl.DataFrame(extended.to_dict("list")).lazy(),
    ):
        np.testing.assert_array_equal(model.predict(rows), model.predict(frame))
        explanation = explainer(rows)
        np.testing.assert_array_equal(explanation.values, expected.values)
        np.testing.assert_array_equal(explanation.data, expected.data)
    with pytest.raises(ValueError, match="X has 5 columns, but the model has 4"):
        model.predict(np.ones((2, 5)))
    with pytest.raises(ValueError, match="the columns of X are"):
        model.predict(frame.rename(columns={"age": "years"}))

    # LIBSVM files omit zeros, so a feature that is zero in all support vectors only occurs in rows.
    path = tmp_path / "l.model"
    head = "svm_type epsilon_svr\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\nSV\n"
    path.write_text(head + "1 1:1 2:0.5\n-1 1:0.2\n")
    narrow, wide = riesz.Expansion.load(path), riesz.Expansion.load(path, n_features=3)
    near = lambda row, point: np.exp(-0.5 * np.sum(np.subtract(row, point) ** 2))
    value = lambda row: near(row, [1, 0.5, 0]) - near(row, [0.2, 0, 0]) - 0.1
    rows = pd.DataFrame({"x0": [1.0], "x1": [2.0], "x2": [3.0], "extra": [9.0]})
    np.testing.assert_allclose(narrow.predict(rows[["extra", "x1", "x0"]]), value([1, 2, 0]), atol=1e-15)
    for table in (rows, rows[["x0", "x1", "x2"]], rows[["x0", "x1", "x2"]].to_numpy()):
        for ask in (narrow.predict, riesz.Explainer(path)):
            with pytest.raises(
                ValueError,
                match=r"X has features up to x2, .* shows 2: riesz.Expansion.load\(path, n_features=3\)",
            ):
                ask(table)
        np.testing.assert_allclose(wide.predict(table), value([1, 2, 3]), atol=1e-15)
        assert riesz.Explainer(wide)(table).values.shape == (1, 3)
    with pytest.raises(ValueError, match="leave n_features out"):
        riesz.Expansion.load(tmp_path / "m.riesz", n_features=4)


def test_pages_of_files_show_what_a_classifier_decides(single, tmp_path):
    """The class decisions that 'riesz explain' writes with the explanation. Older files, and explanations
    of regressions, have none."""
    single.save(tmp_path / "plain.json")
    file = json.loads((tmp_path / "plain.json").read_text())
    probabilities = np.linspace(0.0, 1.0, 6)
    file["decisions"] = {
        "meaning": ["log-odds of ill"],
        "classes": ["well", "ill"],
        "chosen": [int(p > 0.5) for p in probabilities],
        "probabilities": [[1, probabilities.tolist()]],
    }
    (tmp_path / "e.json").write_text(json.dumps(file))
    page_of = lambda explanation: explanation.report(tmp_path / "e.html") or (tmp_path / "e.html").read_text()
    loaded = riesz.Explanation.load(tmp_path / "e.json")
    loaded.save(tmp_path / "again.json")
    for explanation in (
        loaded,
        riesz.Explanation.load(tmp_path / "again.json"),
        pickle.loads(pickle.dumps(loaded)),
        loaded[2:5],
    ):
        assert "Explained output: the log-odds of ill" in page_of(explanation)
    assert '"of":[0.4,0.6,0.8]' in page_of(loaded[2:5]).replace("0.6000000000000001", "0.6")
    assert "Explained output" not in page_of(single)
    file["decisions"]["chosen"] = [2] * 6
    (tmp_path / "e.json").write_text(json.dumps(file))
    with pytest.raises(ValueError, match="the classes and probabilities do not match 6 rows and 1 outputs"):
        riesz.Explanation.load(tmp_path / "e.json")


def test_numbers_of_columns_are_shown_with_their_names(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "bp"])
    lengths = [1.25, 2.0, 3.0, 12345.678]
    k = riesz.kernels
    model = riesz.KernelRidge(kernel=k.RBF(lengths) + 0.5 * k.Linear(columns=["bp"])).fit(frame, y)
    assert repr(model.expansion_) == (
        "<riesz.Expansion: rbf(length_scale=[age 1.25, sex 2, bmi 3, bp 1.235e+04]) + 0.5 * linear(bp, "
        "center=0, scale=1) "
        f"over {len(X)} points of 4 columns>"
    )
    kernel = model.kernel_
    assert repr(kernel) == (
        f"RBF(length_scale={lengths}, columns=['age', 'sex', 'bmi', 'bp']) + Constant(0.5) * "
        "Linear(columns=['bp'])"
    )
    again = riesz.KernelRidge(kernel=eval(repr(kernel), vars(k))).fit(frame, y)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    # Without names there are none to show; one number for all columns is shown once.
    assert repr(riesz.KernelRidge(kernel=k.RBF(lengths)).fit(X, y).kernel_) == f"RBF(length_scale={lengths})"
    assert "rbf(length_scale=1.5)" in repr(riesz.KernelRidge(kernel=k.RBF(1.5)).fit(frame, y).expansion_)


def test_a_baseline_may_be_a_single_row():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "c"])
    kernel = riesz.kernels.RBF([1.0, 2.0, 1.5])
    model = riesz.KernelRidge(kernel=kernel).fit(frame, frame.a * frame.b)
    values = lambda row: riesz.Explainer(model, game=riesz.Baseline(row))(frame[:4]).values
    expected = values(frame[2:3])
    for row in (frame.iloc[2], frame.iloc[2].to_numpy(), frame.iloc[2].tolist()):
        np.testing.assert_array_equal(values(row), expected)
    texts = frame.assign(b=["u", "v"] * 10)
    model = riesz.KernelRidge(kernel=riesz.kernels.RBF(1.0) * riesz.kernels.Categorical())
    model.fit(texts, frame.a)
    explain = lambda row: riesz.Explainer(model, game=riesz.Baseline(row))(texts[:4]).values
    np.testing.assert_array_equal(explain(texts.iloc[2]), explain(texts[2:3]))
