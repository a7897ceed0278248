"""Forked processes return results, and Ctrl-C stops the work, in child processes that can be killed."""

import subprocess
import sys

import pytest

FORKED = """
import multiprocessing

import numpy as np
import riesz
from riesz.estimators import (
    SVC, SVR, GaussianProcessClassifier, GaussianProcessRegressor, KernelLogisticRegression, KernelRidge,
)
from riesz.feature_selection import SelectHSIC

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
y = np.sin(X[:, 0]) + X[:, 1]
labels = (y > 0).astype(int)
model = KernelRidge(kernel="rbf", gamma="scale").fit(X, y)
process = GaussianProcessRegressor(optimizer=None).fit(X, y)
classifier = GaussianProcessClassifier(optimizer=None).fit(X[:100], labels[:100])
explainers = [
    riesz.Explainer(model, n_jobs=1),
    riesz.Explainer(model, background=X[:20]),
    riesz.Explainer(model, game=riesz.Observational()),
    riesz.Explainer(model.predict, background=X[:20]),
]
work = [
    *[lambda e=e: e(X[:5]).values for e in explainers],
    lambda: riesz.Explainer(model, background=X[:10], n_jobs=2)(X[:5]).values,
    lambda: model.predict(X),
    lambda: classifier.predict_proba(X),
    lambda: process.predict(X, return_std=True)[1],
    lambda: process.predict(X, return_cov=True)[1],
    lambda: process.sample_y(X[:5]),
    lambda: KernelRidge("auto", kernel="rbf", gamma="scale").fit(X, y).predict(X),
    lambda: KernelRidge(protect=[0], kernel="rbf", gamma="scale").fit(X, y).predict(X),
    lambda: KernelLogisticRegression().fit(X, labels).predict(X),
    lambda: SVC(C="auto").fit(X, labels).predict(X),
    lambda: SVR().fit(X, y).predict(X),
    lambda: GaussianProcessRegressor(riesz.kernels.RBF(1.0)).fit(X[:80], y[:80]).predict(X),
    lambda: riesz.mmd_test(X[:100], X[100:], n_permutations=20).values,
    lambda: riesz.hsic_test(X, y, n_permutations=20).values,
    lambda: SelectHSIC(n_features_to_select=2, method="lasso").fit(X, y).scores_,
]


def run(at):
    return np.asarray(work[at]())


def again(at):
    # A child of a child.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply_async(run, (at,)).get(60)


if __name__ == "__main__":
    before = [run(at) for at in range(len(work))]
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        asked = [pool.apply_async(run, (at,)) for at in range(len(work))]
        for at, one in enumerate(asked):
            try:
                found = one.get(60)
            except multiprocessing.TimeoutError:
                raise SystemExit(f"work {at} does not come back")
            assert (found == before[at]).all(), at
    child = context.Process(target=lambda: (run(0), again(5)))
    child.start()
    child.join(60)
    assert child.exitcode == 0, "a child of a child does not come back"
    # And the parent is as it was.
    assert (run(0) == before[0]).all()
    print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_forked_children_do_everything(tmp_path):
    program = tmp_path / "forked.py"
    program.write_text(FORKED)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr


STOPPED = """
import os, signal, threading, time, warnings

import numpy as np
import riesz
from riesz import kernels as rk
from riesz.estimators import (
    SVC, SVR, GaussianProcessClassifier, GaussianProcessRegressor, KernelLogisticRegression, KernelRidge,
)

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20))
y = rng.normal(size=len(X))
labels = (y > 0).astype(int)
x, some = X[:1500], slice(0, 1500)
model = riesz.Expansion(rk.RBF(5.0), X, y)
process = GaussianProcessRegressor(rk.RBF(5.0), alpha=0.1, optimizer=None).fit(x, y[some])
many = np.tile(X, (20, 1))
ard = rk.RBF([1.0] * 20)
work = {
    "exact values": lambda: riesz.Explainer(model, background=X[:200])(X),
    "preparing": lambda: riesz.Explainer(model, background=many, n_jobs=1),
    "krr": lambda: KernelRidge("auto", folds=300, kernel="rbf", gamma="scale").fit(x, y[some]),
    "krr with protection": lambda: KernelRidge(protect=[0], kernel="rbf").fit(
        np.tile(X[:9000], (1, 4)), y[:9000]
    ),
    "klr": lambda: KernelLogisticRegression("auto", folds=300).fit(x, labels[some]),
    "gp": lambda: GaussianProcessRegressor(ard, n_restarts_optimizer=50).fit(x, y[some]),
    "gpc": lambda: GaussianProcessClassifier(ard, n_restarts_optimizer=50).fit(x, labels[some]),
    "svc": lambda: SVC(C=1e6).fit(X, labels),
    "svr": lambda: SVR(C=1e6).fit(X, y),
    "svc by folds": lambda: SVC(C="auto", folds=300).fit(x, labels[some]),
    "svr by folds": lambda: SVR(C="auto", folds=300).fit(x, y[some]),
    "predictions": lambda: model.predict(many),
    "standard deviations": lambda: process.predict(many, return_std=True),
    "values of a function": lambda: riesz.Explainer(
        lambda rows: rows @ X[0], background=X[:2000], random_state=0
    )(X[:300]),
}
for name, one in work.items():
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        one()
        raise SystemExit(f"{name}: not long enough to be stopped")
    except KeyboardInterrupt:
        took = time.monotonic() - start
    print(f"{name}: {took:.1f} s", flush=True)
    # Minutes of work; an idle machine answers within a second.
    if took > 20:
        raise SystemExit(f"{name}: stopped after {took} s only")
# Stopped work can be repeated.
print(riesz.Explainer(model, background=X[:2])(X[:1]).values.shape)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no process sends itself Ctrl-C there")
def test_ctrl_c_is_answered():
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "(1, 20)" in done.stdout, done.stdout + done.stderr
