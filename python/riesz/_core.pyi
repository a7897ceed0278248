from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Expansion",
    "Explainer",
    "FactorKind",
    "GaussianProcessClassifierFit",
    "GaussianProcessFit",
    "Question",
    "Sample",
    "Settings",
    "UnsupportedModelError",
    "__version__",
    "check",
    "codes",
    "factors",
    "functionals",
    "hsic_test",
    "kernel",
    "kernel_logistic_regression",
    "kernel_ridge",
    "kernel_shap",
    "kernel_terms",
    "mmd_test",
    "permutation",
    "rank_features",
    "report",
    "svc",
    "svg",
    "svr",
    "witness",
]

__version__: str

# Names of columns, their levels, and rows; what is said of features, groups, interactions, draws, their seed.
_Rows = tuple[list[str], list[list[str] | None], NDArray[np.float64]]
_Options = tuple[str, list[tuple[str, list[int]]] | None, bool, int, int]

# A scale and factors, each by its kind, its columns and its arguments.
_Term = tuple[float, list[tuple[str, list[int], list[tuple[str, list[float]]]]]]

@final
class FactorKind:
    @property
    def names(self) -> list[str]: ...
    @property
    def python(self) -> str: ...
    @property
    def usage(self) -> str: ...
    @property
    def formula(self) -> str: ...
    @property
    def arguments(self) -> list[tuple[str, str, float]]: ...

def factors() -> list[FactorKind]: ...
def kernel(terms: list[_Term]) -> str: ...
def kernel_terms(json: str) -> list[_Term]: ...

@final
class Expansion:
    def __new__(
        cls,
        kernel: str,
        points: NDArray[np.float64],
        coef: NDArray[np.float64],
        intercept: list[float],
        feature_names: list[str],
        output_names: list[str],
    ) -> Expansion: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Expansion: ...
    def to_bytes(self) -> bytes: ...
    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...
    @property
    def feature_names(self) -> list[str]: ...
    @property
    def levels(self) -> list[list[str] | None]: ...
    @property
    def output_names(self) -> list[str]: ...
    def classify(self, rows: NDArray[np.float64]) -> list[int] | None: ...
    def probabilities(self, rows: NDArray[np.float64]) -> NDArray[np.float64] | None: ...
    @property
    def kernel(self) -> str: ...
    @property
    def formula(self) -> str: ...
    @property
    def points(self) -> NDArray[np.float64]: ...
    @property
    def coef(self) -> NDArray[np.float64]: ...
    @property
    def intercept(self) -> list[float]: ...
    @property
    def groups(self) -> list[tuple[str, list[int]]]: ...
    @property
    def card(self) -> list[tuple[str, str]]: ...

class UnsupportedModelError(TypeError): ...

@final
class Settings:
    def __new__(cls, json: str) -> Settings: ...
    @property
    def asks_for_answers(self) -> bool: ...
    def game(self, of_function: bool, has_background: bool) -> str: ...

@final
class Question:
    def __new__(
        cls,
        settings: Settings,
        background: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        groups: list[tuple[str, list[int]]],
    ) -> Question: ...
    @property
    def estimator(self) -> str: ...
    @property
    def estimated(self) -> bool: ...

@final
class Explainer:
    def __new__(
        cls,
        model: Expansion,
        settings: Settings,
        background: NDArray[np.float64] | None,
        weights: NDArray[np.float64] | None,
        groups: list[tuple[str, list[int]]],
        threads: int | None,
    ) -> Explainer: ...
    def sampled_because(self, budget: tuple[int, float | None] | None = None) -> str | None: ...
    @property
    def absent(self) -> str: ...
    def robustness(self, delta: list[float]) -> list[float]: ...
    @property
    def players(self) -> list[tuple[str, list[int]]]: ...
    def explain(
        self,
        rows: NDArray[np.float64],
        budget: tuple[int, float | None] | None = None,
        sample: Sample | None = None,
    ) -> tuple[
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64] | None,
        tuple[NDArray[np.float64], int] | None,
        list[tuple[str, str]],
        Sample | None,
    ]: ...

@final
class Sample:
    @property
    def coalitions(self) -> int: ...

def kernel_shap(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    rows: NDArray[np.float64],
    question: Question,
    budget: tuple[int, float | None] | None = None,
    sample: Sample | None = None,
) -> tuple[
    NDArray[np.float64],
    NDArray[np.float64] | None,
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.float64],
    int,
    int,
    str,
    Sample | None,
]: ...
def permutation(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    rows: NDArray[np.float64],
    first_row: int,
    question: Question,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], int, str]: ...
def mmd_test(
    x: _Rows,
    z: _Rows,
    kernels: list[str],
    multiples: list[float] | None,
    biased: bool,
    block_size: int | None,
    options: _Options,
    threads: int | None,
) -> bytes: ...
def hsic_test(
    x: _Rows,
    y: _Rows,
    given: _Rows | None,
    kernels: list[str],
    multiples: list[float] | None,
    target_kernel: str | None,
    unbiased: bool,
    decay: float | None,
    options: _Options,
    threads: int | None,
) -> bytes: ...
def witness(x: _Rows, z: _Rows, kernel: str, column: str) -> bytes: ...
def rank_features(
    x: _Rows, y: _Rows, method: str, kernel: str | None, target_kernel: str | None, wanted: int
) -> tuple[list[int], list[float]]: ...
def codes(levels: list[str], cells: list[str | float]) -> list[int | None]: ...
def check(json: bytes) -> None: ...
def report(json: bytes, title: str) -> str: ...
def svg(json: bytes, plot: str, output: int, row: int, max_display: int) -> str: ...

@final
class GaussianProcessFit:
    def __new__(
        cls,
        kernel: str,
        names: list[str],
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        noise: float,
        tune_kernel: bool,
        tune_noise: bool,
        normalize_y: bool,
        restarts: int,
        seed: int,
    ) -> GaussianProcessFit: ...
    @property
    def model(self) -> Expansion: ...
    @property
    def log_marginal_likelihood(self) -> float: ...
    @property
    def noise(self) -> float: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def target_scale(self) -> list[float]: ...
    def std(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def covariance(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...

@final
class GaussianProcessClassifierFit:
    def __new__(
        cls,
        kernel: str,
        names: list[str],
        x: NDArray[np.float64],
        labels: list[int],
        classes: list[str],
        tune: bool,
        restarts: int,
        seed: int,
    ) -> GaussianProcessClassifierFit: ...
    @property
    def model(self) -> Expansion: ...
    @property
    def log_marginal_likelihood(self) -> float: ...
    @property
    def warnings(self) -> list[str]: ...
    def probabilities(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...

def kernel_ridge(
    kernel: str,
    names: list[str],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    alpha: float,
    fit_intercept: bool,
    sample_weight: list[float] | None,
    penalty: tuple[NDArray[np.float64], float, int | None] | None,
) -> Expansion: ...
def kernel_logistic_regression(
    kernel: str,
    names: list[str],
    x: NDArray[np.float64],
    labels: list[int],
    classes: list[str],
    alpha: float,
    class_weight: list[float] | None,
    sample_weight: list[float] | None,
    max_iter: int,
    penalty: tuple[NDArray[np.float64], float, int | None] | None,
    start: tuple[NDArray[np.float64], list[float]] | None,
) -> tuple[Expansion, int, bool, tuple[NDArray[np.float64], list[float]]]: ...
def functionals(
    kernel: str,
    names: list[str],
    x: NDArray[np.float64],
    settings: Settings,
    background: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    groups: list[tuple[str, list[int]]],
    protected: list[str],
) -> tuple[NDArray[np.float64], int | None]: ...
def svc(
    kernel: str,
    names: list[str],
    x: NDArray[np.float64],
    labels: list[int],
    classes: list[str],
    c: float,
    class_weight: list[float] | None,
    sample_weight: list[float] | None,
    tol: float,
    max_iter: int | None,
) -> tuple[Expansion, list[int], list[int], bool]: ...
def svr(
    kernel: str,
    names: list[str],
    x: NDArray[np.float64],
    y: list[float],
    c: float,
    epsilon: float,
    sample_weight: list[float] | None,
    tol: float,
    max_iter: int | None,
) -> tuple[Expansion, list[int], int, bool]: ...
