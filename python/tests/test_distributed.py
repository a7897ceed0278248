"""Fits and explanations by units of work have the same bytes here, on Dask, after failures and after
resuming."""

import json
import os
import pathlib
import signal
import sys
import time

import numpy as np
import pytest

import riesz
from riesz import distributed

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    city = rng.choice(["Bern", "Rome", "Oslo"], size=n)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + (city == "Rome") + 0.2 * rng.normal(size=n)
    weight = rng.uniform(0.5, 2.0, size=n)
    return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "city": city, "weight": weight, "y": y})


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    """Units of 500 rows, so that a few thousand rows have several units."""
    monkeypatch.setattr("riesz.distributed._data.UNIT", 500)


def write(folder, rows, parts, group):
    folder.mkdir()
    for k, start in enumerate(np.linspace(0, rows.num_rows, parts + 1).astype(int)[:-1]):
        end = np.linspace(0, rows.num_rows, parts + 1).astype(int)[k + 1]
        pq.write_table(rows.slice(start, end - start), folder / f"rows-{k}.parquet", row_group_size=group)
    return folder


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data", table(), 2, 300)


OPTIONS = {
    "n_landmarks": 60,
    "kernel": "rbf(a, b, c) * categorical(city)",
    "alpha": 0.1,
    "sample_weight": "weight",
}


def is_same_fit(fit, other):
    return (
        fit.plan == other.plan
        and fit.statistics == other.statistics
        and np.array_equal(fit.expansion.coef, other.expansion.coef)
        and np.array_equal(fit.expansion.intercept, other.expansion.intercept)
    )


def test_the_fit_is_exact_for_its_landmarks(data):
    """Against the normal equations in numpy for the same landmarks, within the proved bounds."""
    fit = distributed.fit(data, "y", **OPTIONS)
    assert fit.n_rows == 6000 and fit.n_landmarks == 60 and fit.expansion.output_names == ["y"]
    rows = table().to_pandas()
    points = pd_points(fit.expansion)
    K = gram(fit.expansion, rows[["a", "b", "c", "city"]])
    P = gram(fit.expansion, points)
    w, y = rows["weight"].to_numpy(), rows["y"].to_numpy()
    F = np.column_stack([K, np.ones(len(K))])
    A = F.T @ (w[:, None] * F)
    A[:60, :60] += 0.1 * P
    theta = np.linalg.solve(A, F.T @ (w * y))
    truth = F @ theta
    prediction = fit.expansion.predict(rows[["a", "b", "c", "city"]])
    assert np.abs(prediction - truth).max() < 1e-7
    bounds = fit.bounds(rows[["a", "b", "c", "city"]])
    assert (
        bounds.shape == (6000, 1)
        and (np.abs(prediction - truth) <= bounds[:, 0] + 1e-8).all()
        and bounds.max() < 1e-3
    )
    model = riesz.Explainer(fit.expansion)(rows[["a", "b", "c", "city"]].iloc[:4])
    assert model.certificate.holds


def pd_rows(folder):
    return pa.concat_tables([pq.read_table(p) for p in sorted(folder.iterdir())]).to_pandas()


def pd_points(expansion):
    import pandas as pd

    return pd.DataFrame(decoded(expansion), columns=expansion.feature_names)


def decoded(expansion):
    columns = []
    for j, levels in enumerate(expansion._core.levels):
        codes = expansion.points[:, j]
        columns.append(codes if levels is None else np.array(levels, dtype=object)[codes.astype(int)])
    return {name: column for name, column in zip(expansion.feature_names, columns)}


def gram(expansion, rows):
    """The kernel of rows with the landmarks by its definition, because models with one coefficient each
    would be slow."""
    points = pd_points(expansion)
    scales = dict(zip("abc", lengths(expansion)))
    out = np.ones((len(rows), len(points)))
    for name, scale in scales.items():
        out *= np.exp(
            -0.5 * ((rows[name].to_numpy()[:, None] - points[name].to_numpy().astype(float)) / scale) ** 2
        )
    return out * kind(rows["city"].to_numpy()[:, None] == points["city"].to_numpy(), expansion)


def lengths(expansion):
    factors = json.loads(expansion._core.kernel)["terms"][0]["factors"]
    return next(f["length_scale"] for f in factors if "length_scale" in f)


def kind(equal, expansion):
    factors = json.loads(expansion._core.kernel)["terms"][0]["factors"]
    other = next(f for f in factors if "length_scale" not in f)
    return np.where(equal, 1.0, other["similarity"])


def test_files_row_groups_and_order_do_not_matter(data, tmp_path):
    fit = distributed.fit(data, "y", **OPTIONS)
    order = np.random.default_rng(1).permutation(6000)
    other = distributed.fit(write(tmp_path / "other", table().take(order), 5, 97), "y", **OPTIONS)
    assert fit.plan == other.plan
    assert np.array_equal(fit.expansion.coef, other.expansion.coef)
    # Statistics record their units; for the same units they are equal.
    again = distributed.fit(sorted(str(p) for p in data.iterdir()), "y", **OPTIONS)
    assert is_same_fit(fit, again)
    rows = table().to_pandas()
    memory = riesz.KernelRidge(
        alpha=0.1, kernel=riesz.kernels.RBF(columns=["a", "b", "c"]), n_landmarks=20, fit_intercept=True
    ).fit(rows[["a", "b", "c"]], rows["y"])
    assert memory.expansion_.points.shape == (20, 3)


def test_ridges_are_chosen_on_folds_for_fewer_landmarks_too(data):
    with pytest.warns(UserWarning, match="the last doubling of landmarks"):
        fit = distributed.fit(data, "y", **{**OPTIONS, "alpha": "auto"}, fixed_kernel=True)
    errors = {alpha: error for landmarks, alpha, error in fit.tried if landmarks == 60}
    assert fit.alpha == min(errors, key=errors.get) and 0.03 < errors[fit.alpha] < 0.3
    assert {landmarks for landmarks, _, _ in fit.tried} == {60, 30, 15}


def test_standard_deviations_of_a_process(data):
    """Against the formulas in numpy, for the same landmarks, kernel and noise."""
    options = {"n_landmarks": 40, "kernel": "rbf(a, b, c)", "features": ["a", "b", "c"]}
    fit = distributed.fit(data, "y", model="gp", **options)
    rows = table().to_pandas()
    new = rows[["a", "b", "c"]].iloc[:50]
    mean, sd = fit.expansion.predict(new, return_std=True)
    terms = json.loads(fit.expansion._core.kernel)["terms"][0]
    lengths, scale = np.array(terms["factors"][0]["length_scale"]), terms["scale"]

    def k(u, v):
        return scale * np.exp(-0.5 * (((u[:, None] - v[None]) / lengths) ** 2).sum(axis=-1))

    Z, X = fit.expansion.points, rows[["a", "b", "c"]].to_numpy()
    P, K, N = k(Z, Z), k(X, Z), k(new.to_numpy(), Z)
    mu, noise = fit.expansion.intercept[0], fit.alpha
    A = P + K.T @ K / noise
    truth = mu + N @ np.linalg.solve(A, K.T @ (rows["y"].to_numpy() - mu)) / noise
    variance = (
        scale - (N * np.linalg.solve(P, N.T).T).sum(axis=1) + (N * np.linalg.solve(A, N.T).T).sum(axis=1)
    )
    assert np.abs(mean - truth).max() < 1e-3 and np.abs(sd / np.sqrt(variance) - 1).max() < 0.03
    assert fit.bounds(new) is None and 0.1 < noise < 2.0
    with pytest.raises(ValueError, match="sample_weight"):
        distributed.fit(data, "y", model="gp", sample_weight="weight", **options)


def test_checkpoints_are_resumed_and_verified(data, tmp_path, monkeypatch):
    folder = tmp_path / "work"
    fit = distributed.fit(data, "y", **OPTIONS)
    read = []
    rows_of = distributed._data.Data.rows

    def failing(self, unit):
        read.append(unit)
        if len(read) > 10 + 5:
            raise RuntimeError("the machine is gone")
        return rows_of(self, unit)

    monkeypatch.setattr(distributed._data.Data, "rows", failing)
    with pytest.raises(RuntimeError, match="gone"):
        distributed.fit(data, "y", **OPTIONS, checkpoint=folder)
    (run_folder,) = folder.iterdir()
    assert len(list(run_folder.glob("unit-*.stat"))) == 5 and not list(run_folder.glob(".riesz-*"))
    read.clear()
    monkeypatch.setattr(
        distributed._data.Data, "rows", lambda self, unit: (read.append(unit), rows_of(self, unit))[1]
    )
    assert is_same_fit(fit, distributed.fit(data, "y", **OPTIONS, checkpoint=folder))
    # Five units and all residuals were missing.
    assert len(read) == 5 + 10
    read.clear()
    assert is_same_fit(fit, distributed.fit(data, "y", **OPTIONS, checkpoint=folder)) and not read
    damaged = run_folder / "unit-00003.stat"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ValueError, match=r"unit-00003\.stat.*checksum"):
        distributed.fit(data, "y", **OPTIONS, checkpoint=folder)
    distributed.fit(data, "y", **{**OPTIONS, "n_landmarks": 30}, checkpoint=tmp_path / "work2")
    foreign = next((tmp_path / "work2").glob("*/unit-00003.stat"))
    damaged.write_bytes(foreign.read_bytes())
    with pytest.raises(ValueError, match="another plan"):
        distributed.fit(data, "y", **OPTIONS, checkpoint=folder)


def test_kernels_without_a_bound(data):
    fit = distributed.fit(
        data, "y", n_landmarks=30, kernel="rbf(a, b, c) + linear(a)", alpha=0.5, features=["a", "b", "c"]
    )
    rows = table().to_pandas()
    prediction = fit.expansion.predict(rows[["a", "b", "c"]])
    assert (
        np.corrcoef(prediction, rows["y"])[0, 1] > 0.8
        and fit.bounds(rows[["a", "b", "c"]].iloc[:100]).max() < 1e-3
    )


def test_rewritten_files_are_new_files(data, tmp_path):
    folder = tmp_path / "work"
    distributed.fit(data, "y", **OPTIONS, checkpoint=folder)
    path = data / "rows-0.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(5, "y", pa.array(-rows.column("y").to_numpy())), path, row_group_size=300)
    fit = distributed.fit(data, "y", **OPTIONS, checkpoint=folder)
    assert np.array_equal(fit.expansion.coef, distributed.fit(data, "y", **OPTIONS).expansion.coef)
    assert len(list(folder.iterdir())) == 2


def test_bounds_include_the_rounding_of_predictions(tmp_path):
    """Targets near 1e9 that differ in their last digits, against long doubles for the same landmarks."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(600, 2))
    y = 1e9 + np.sin(x[:, 0]) + 0.1 * rng.normal(size=600)
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "y": y}), tmp_path / "rows.parquet")
    fit = distributed.fit(
        tmp_path / "rows.parquet",
        "y",
        n_landmarks=20,
        kernel="rbf(length_scale=1)",
        alpha=10.0,
        standardize=False,
    )
    Z = fit.expansion.points
    L = np.longdouble
    k = lambda u, v: np.exp(-(((u[:, None].astype(L) - v[None].astype(L)) ** 2).sum(axis=-1)) / 2)
    F = np.column_stack([k(x, Z), np.ones(600, dtype=L)])
    A = F.T @ F
    A[:20, :20] += 10 * k(Z, Z)
    b = F.T @ (y.astype(L) - L(1e9))
    n = len(A)
    for c in range(n):
        for r in range(n):
            if r != c:
                f = A[r, c] / A[c, c]
                A[r] -= f * A[c]
                b[r] -= f * b[c]
    truth = F @ (b / np.diag(A)) + L(1e9)
    errors = np.abs(fit.expansion.predict(x).astype(L) - truth)
    assert (errors <= fit.bounds(x)[:, 0]).all() and fit.bounds(x).max() < 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "z"}, "there is no column 'z'"),
        ({"n_landmarks": 0}, "n_landmarks = 0"),
        ({"alpha": -1.0}, "alpha = -1"),
        ({"alpha": "best"}, "alpha = 'best'"),
        ({"kernel": "rbf(z)"}, "'z'"),
        ({"features": ["a", "y"]}, "'y' is named twice"),
        ({"n_landmarks": 2.5}, "n_landmarks = 2.5"),
        ({"engine": 3}, "engine is a int"),
        ({"model": "svm"}, "model = 'svm'"),
    ],
)
def test_invalid_arguments_are_refused(data, change, message):
    options = {"target": "y", **OPTIONS, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        distributed.fit(data, options.pop("target"), **options)


def test_cells_without_a_number_are_named(tmp_path):
    rows = table(1000)
    column = rows.column("b").to_pylist()
    column[700] = None
    (tmp_path / "bad").mkdir()
    pq.write_table(rows.set_column(1, "b", [column]), tmp_path / "bad" / "rows.parquet", row_group_size=250)
    with pytest.raises(ValueError, match=r"column 'b' is empty in row 701"):
        distributed.fit(tmp_path / "bad", "y", **OPTIONS)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        distributed.fit(tmp_path / "*.parquet", "y", **OPTIONS)


@pytest.fixture(scope="module")
def client():
    dask = pytest.importorskip("distributed")
    from dask import config

    # A local cluster gives up a worker that is absent this long after it was lost. A worker that the tests
    # have just killed again is absent too, so that after the default of 15 s no worker might be left.
    with (
        config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        dask.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=True
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        client.run(set_unit)
        yield client


def set_unit():
    import riesz.distributed._data

    riesz.distributed._data.UNIT = 500


class Killing:
    """An engine on Dask whose unit 5 waits until its worker was killed. The test kills the worker when it
    knows the process."""

    n_jobs = 1

    def __init__(self, client, folder):
        from riesz.distributed._dask import Dask

        self._engine, self.folder, self.deaths = Dask(client), str(folder), 0
        self.client = client

    def reduce(self, name, shared, units, work, merge):
        import threading

        name = f"{name}{self.deaths}"
        pid_file, gone = os.path.join(self.folder, f"{name}-pid"), os.path.join(self.folder, f"{name}-gone")

        def kill():
            while not os.path.exists(pid_file):
                time.sleep(0.01)
            os.kill(int(pathlib.Path(pid_file).read_text()), signal.SIGKILL)
            self.deaths += 1
            pathlib.Path(gone).touch()

        thread = threading.Thread(target=kill)
        thread.start()
        total = self._engine.reduce(name, shared, units, Dying(work, pid_file, gone), merge)
        thread.join()
        return total


class Dying:
    def __init__(self, work, pid_file, gone):
        self.work, self.pid_file, self.gone = work, pid_file, gone

    def __call__(self, shared, task):
        set_unit()
        if task[0] == 5 and not os.path.exists(self.gone):
            with open(self.pid_file + ".tmp", "w") as file:
                file.write(str(os.getpid()))
            os.replace(self.pid_file + ".tmp", self.pid_file)
            while True:
                time.sleep(0.01)
        return self.work(shared, task)


def test_dask_gives_the_same_fit_when_workers_die(data, tmp_path, client):
    local = distributed.fit(data, "y", **OPTIONS)
    assert is_same_fit(local, distributed.fit(data, "y", **OPTIONS, engine=client))
    (tmp_path / "signals").mkdir()
    killing = Killing(client, tmp_path / "signals")
    folder = tmp_path / "work"
    assert is_same_fit(local, distributed.fit(data, "y", **OPTIONS, engine=killing, checkpoint=folder))
    # A worker dies in each of: levels, survey, statistics and a pass.
    assert killing.deaths == 4
    (run_folder,) = folder.iterdir()
    assert len(list(run_folder.glob("unit-*.stat"))) == 10 and len(list(run_folder.glob("pass-*.part"))) == 10


@pytest.fixture
def classes(tmp_path):
    rows = table(seed=3)
    far = np.where(rows["y"].to_numpy() > 0.5, "far", "near")
    return write(tmp_path / "classes", rows.drop_columns(["y"]).append_column("where", pa.array(far)), 3, 300)


def test_a_logistic_regression_is_that_of_its_landmarks(classes, tmp_path, client):
    """Against scikit-learn's logistic regression on features with the same penalty, and on Dask, where
    workers die in every pass."""
    from sklearn.linear_model import LogisticRegression

    options = OPTIONS | {"model": "klr", "alpha": 0.3}
    fit = distributed.fit(classes, "where", **options)
    rows = pd_rows(classes)
    model = fit.expansion
    assert (
        model.classes == ["far", "near"]
        and fit.statistics is None
        and fit.bounds(rows[model.feature_names].iloc[:3]) is None
    )
    scores = model.predict(rows[model.feature_names])
    lower = np.linalg.cholesky(gram(model, pd_points(model)))
    features = np.linalg.solve(lower, gram(model, rows).T).T
    other = LogisticRegression(C=1 / 0.3, tol=1e-10, max_iter=10_000)
    other.fit(features, rows["where"] == "near", sample_weight=rows["weight"])
    assert np.abs(other.decision_function(features) - np.ravel(scores)).max() < 1e-4
    (tmp_path / "signals").mkdir()
    killing = Killing(client, tmp_path / "signals")
    on_dask = distributed.fit(classes, "where", **options, engine=killing, checkpoint=tmp_path / "work")
    assert killing.deaths >= 3 and np.array_equal(on_dask.expansion.coef, model.coef)
    # A rare third class is found.
    extra = rows.iloc[:2].assign(where="elsewhere")
    pq.write_table(pa.Table.from_pandas(extra, preserve_index=False), classes / "rows-9.parquet")
    with pytest.raises(ValueError, match="3 classes"):
        distributed.fit(classes, "where", **options)


def test_a_process_of_classes_matches_scikit_learn(classes, client):
    """With all rows as landmarks, whose probabilities scikit-learn integrates to three digits; the result
    on Dask has the same bits."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    rows = pd_rows(classes).iloc[:300]
    numbers = ["a", "b"]
    other = GaussianProcessClassifier(2.0 * RBF(0.7), optimizer=None).fit(rows[numbers], rows["where"])
    kernel = riesz.kernels.Constant(2.0) * riesz.kernels.RBF(0.7)
    process = riesz.GaussianProcessClassifier(kernel, optimizer=None, n_landmarks=300).fit(
        rows[numbers], rows["where"]
    )
    new = pd_rows(classes).iloc[300:600][numbers]
    assert np.abs(process.predict_proba(new) - other.predict_proba(new)).max() < 1e-3
    assert process.log_marginal_likelihood_value_ == pytest.approx(
        other.log_marginal_likelihood_value_, abs=1e-3
    )
    options = {"model": "gpc", "n_landmarks": 40, "features": numbers}
    fit = distributed.fit(classes, "where", **options)
    on_dask = distributed.fit(classes, "where", **options, engine=client)
    assert np.array_equal(on_dask.expansion.coef, fit.expansion.coef)
    mean, sd = fit.expansion.predict(new, return_std=True)
    assert np.array_equal(on_dask.expansion.predict(new, return_std=True)[1], sd) and sd.min() > 0
    with pytest.raises(ValueError, match="not to 'gpc'"):
        distributed.fit(classes, "where", **options, sample_weight="weight")


def test_an_index_of_pandas_is_no_column(tmp_path):
    rows = table(1500, seed=5).to_pandas()
    rows.sort_values("y").to_parquet(tmp_path / "sorted.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "sorted.parquet").names
    options = OPTIONS | {"kernel": "rbf * categorical"}
    assert distributed.fit(tmp_path / "sorted.parquet", "y", **options).expansion.feature_names == [
        "a",
        "b",
        "c",
        "city",
    ]


def test_classes_of_any_type_are_named(tmp_path):
    """Boolean and numeric classes; a cell without a class is reported with its file and row."""
    rows = table(1500, seed=4)
    far = rows["y"].to_numpy() > 0.5
    for k, (values, names) in enumerate([(far, ["false", "true"]), (np.where(far, 10, 9), ["9", "10"])]):
        folder = write(
            tmp_path / str(k), rows.drop_columns(["y"]).append_column("where", pa.array(values)), 1, 1500
        )
        assert distributed.fit(folder, "where", **OPTIONS | {"model": "klr"}).expansion.classes == names
    odd = np.where(far, 1.0, 2.0)
    odd[700] = np.nan
    null = pa.array(["far" if f else "near" for f in far]).to_pylist()
    null[30] = None
    constant = np.full(1500, "far")
    for values, message in [
        (odd, "nan in row 701"),
        (pa.array(null), "empty in row 31"),
        (constant, "one value only"),
    ]:
        table_ = rows.drop_columns(["y"]).append_column("where", pa.array(values))
        pq.write_table(table_, tmp_path / "odd.parquet")
        with pytest.raises(ValueError, match=message):
            distributed.fit(tmp_path / "odd.parquet", "where", **OPTIONS | {"model": "klr"})
    with pytest.raises(ValueError, match="belong to model 'krr'"):
        distributed.fit(tmp_path / "0", "where", **OPTIONS | {"model": "klr"}, solver="cg")
    with pytest.raises(ValueError, match="is a target"):
        distributed.fit(tmp_path / "0", "where", **OPTIONS | {"model": "klr"}, categorical=["where"])


def test_conjugate_gradients_match_the_direct_solution(data, client, tmp_path):
    direct = distributed.fit(data, "y", **OPTIONS, corrections=2)
    fit = distributed.fit(data, "y", **OPTIONS, solver="cg", tolerance=1e-6)
    rows = pq.read_table(sorted(data.iterdir())[0]).to_pandas()[fit.expansion.feature_names].iloc[:200]
    iterative, other = fit.expansion.predict(rows), direct.expansion.predict(rows)
    assert (
        np.abs(iterative - other) <= (fit.bounds(rows) + direct.bounds(rows)).reshape(iterative.shape)
    ).all()
    assert np.abs(iterative - other).max() < 1e-6 and fit.statistics is None
    assert is_same_fit(fit, distributed.fit(data, "y", **OPTIONS, solver="cg", tolerance=1e-6, engine=client))
    # The resumed fit reads nothing but stored results.
    folder = tmp_path / "work"
    assert is_same_fit(
        fit, distributed.fit(data, "y", **OPTIONS, solver="cg", tolerance=1e-6, checkpoint=folder)
    )
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")}
    assert is_same_fit(
        fit, distributed.fit(data, "y", **OPTIONS, solver="cg", tolerance=1e-6, checkpoint=folder)
    )
    assert kept == {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")}
    with pytest.raises(ValueError, match="solver"):
        distributed.fit(data, "y", **OPTIONS, solver="lsqr")


def parts_of(folder):
    return {p.name: p.read_bytes() for p in sorted(pathlib.Path(folder).glob("part-*.parquet"))}


def test_explanations_are_complete_and_equal(data, tmp_path, client):
    fit = distributed.fit(data, "y", **OPTIONS)
    out = distributed.explain(fit, data, tmp_path / "here")
    assert out.n_rows == 6000 and out.n_computed == 10 and (tmp_path / "here" / "_SUCCESS").exists()
    rows = table().to_pandas()
    truth = riesz.Explainer(fit.expansion)(rows[["a", "b", "c", "city"]])
    written = pa.concat_tables(
        [pq.read_table(tmp_path / "here" / part["name"]) for part in out.parts]
    ).to_pandas()
    assert (written["row"] == np.arange(6000)).all()
    assert np.array_equal(written[["a", "b", "c", "city"]].to_numpy(), np.asarray(truth.values))
    assert all(part["residual"] <= part["bound"] for part in out.parts)
    (tmp_path / "signals").mkdir()
    killing = Killing(client, tmp_path / "signals")
    distributed.explain(fit, data, tmp_path / "there", engine=killing)
    assert killing.deaths == 1 and parts_of(tmp_path / "there") == parts_of(tmp_path / "here")
    assert not list((tmp_path / "there").rglob(".riesz-*"))
    # Only missing or damaged parts are computed again.
    os.unlink(tmp_path / "here" / "part-00002.parquet")
    (tmp_path / "here" / "part-00007.parquet").write_bytes(b"PAR1")
    again = distributed.explain(fit, data, tmp_path / "here")
    assert again.n_computed == 2 and parts_of(tmp_path / "there") == parts_of(tmp_path / "here")
    assert again.parts == out.parts
    single = distributed.explain(fit, data, tmp_path / "single", float32=True)
    assert (
        single.n_computed == 10
        and pq.read_schema(tmp_path / "single" / "part-00000.parquet").field("a").type == pa.float32()
    )


@pytest.fixture(scope="module")
def session():
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install riesz[spark], and a JRE")
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"], os.environ["PYSPARK_PYTHON"] = "127.0.0.1", sys.executable
    # Workers must be able to import this file.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    )
    # A task that fails is repeated.
    made = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    made = made.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = made.getOrCreate()
    yield session
    session.stop()


class Failing:
    """An engine on Spark that kills the worker of the first attempt at unit 3."""

    n_jobs = 1

    def __init__(self, session, folder):
        from riesz.distributed._spark import Spark

        self._engine, self.folder = Spark(session), str(folder)

    def reduce(self, name, shared, units, work, merge):
        return self._engine.reduce(name, shared, units, Killed(work, os.path.join(self.folder, name)), merge)


class Killed:
    def __init__(self, work, mark):
        self.work, self.mark = work, mark

    def __call__(self, shared, task):
        if task[0] == 3 and not os.path.exists(self.mark):
            pathlib.Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.work(shared, task)


def test_spark_gives_the_same_fit(data, tmp_path, session):
    local = distributed.fit(data, "y", **OPTIONS)
    assert is_same_fit(local, distributed.fit(data, "y", **OPTIONS, engine=session))
    (tmp_path / "marks").mkdir()
    assert is_same_fit(
        local,
        distributed.fit(
            data, "y", **OPTIONS, engine=Failing(session, tmp_path / "marks"), checkpoint=tmp_path / "work"
        ),
    )
    assert {mark.name for mark in (tmp_path / "marks").iterdir()} == {
        "levels",
        "survey",
        "statistics",
        "pass",
    }
    distributed.explain(local, data, tmp_path / "here")
    distributed.explain(local, data, tmp_path / "there", engine=session)
    assert parts_of(tmp_path / "there") == parts_of(tmp_path / "here")
