from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AggregatePart",
    "Aggregates",
    "CausalEffect",
    "ConditionalMeanModel",
    "CountPart",
    "Expansion",
    "Explainer",
    "Explanation",
    "Fitted",
    "FittedAggregates",
    "FittedCounts",
    "FittedLandmarks",
    "FittedPrior",
    "Fitting",
    "PairFunction",
    "Question",
    "SageValues",
    "Sample",
    "Settings",
    "SobolIndices",
    "TestResult",
    "Threads",
    "UnsupportedModelError",
    "__version__",
    "aggregate_evidence",
    "average_from_bytes",
    "average_to_bytes",
    "build_facts",
    "causal_components",
    "cluster_preferences",
    "codes",
    "column_suspicions",
    "column_type",
    "column_unit",
    "compare_preferences",
    "component",
    "conditional_means",
    "counted_units",
    "duel_columns",
    "effect_caveats",
    "effect_page",
    "effect_stages",
    "evaluate_duels",
    "explain_duels",
    "factors",
    "find_instrument",
    "find_sequence",
    "fit",
    "few_samples_warning",
    "fit_aggregates",
    "fit_bradley_terry",
    "fit_choices",
    "fit_counts",
    "fit_landmarks",
    "fit_preferences",
    "fit_sparse_aggregates",
    "formula_of_effect",
    "functionals",
    "fuse",
    "gather_studies",
    "graph_parts",
    "hsic_test",
    "identify_effect",
    "importance_page",
    "importance_record",
    "is_average",
    "join_bags",
    "kernel",
    "kernel_help",
    "kernel_shap",
    "kernel_terms",
    "length_scales",
    "map_page",
    "map_picture",
    "merge_passes",
    "merge_statistics",
    "merge_surveys",
    "mmd_test",
    "needed_columns",
    "open_path",
    "permutation",
    "plan_facts",
    "plan_fit",
    "predict_choices",
    "predict_sums",
    "preference_evidence",
    "rank_features",
    "rank_preferences",
    "read_homes",
    "read_numbers",
    "read_outcomes",
    "rows_of_sets",
    "sage_of_function",
    "sage_values",
    "same_unit",
    "sample_average",
    "sobol_indices",
    "sobol_of_function",
    "spec_r",
    "usual_doses",
    "suggest_duels",
    "suggest_trials",
    "survey_kernel",
    "survey_rows",
    "test_page",
    "test_record",
    "times_of_levels",
    "tune_fit",
    "trial_candidates",
    "unit_pass",
    "unit_statistics",
    "update_effect",
    "witness",
]

__version__: str

# Names of columns, their levels, and rows (rows × columns).
_Rows = tuple[list[str], list[list[str] | None], NDArray[np.float64]]
# Functionals of coefficients, the strength of their penalty, their ranges, and the number of coalitions.
_Penalty = tuple[NDArray[np.float64], float, list[tuple[float, float]] | None, int | None]
# Left items, right items, outcomes and weights of duels.
_Duels = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]
_Memberships = tuple[int, list[int], list[int], list[float] | None]

_Ranked = tuple[
    list[tuple[float, tuple[float, float], int, tuple[int, int], float, float]],
    float,
    tuple[float, float, float],
    list[tuple[list[int], float]],
    tuple[int, int],
]
# The game, the meaning of an absent feature, facts about the model, and facts about the run.
_Origin = tuple[str, str, list[tuple[str, str]], list[tuple[str, str]]]
# Factors, the statistics of features to compute, groups, interactions, permutations and their seed.
_Options = tuple[str, str, list[tuple[str, list[int]]] | None, bool, int, int]

# For one row and output: the strongest pairs, their values, the bound on their errors, the bound on all other
# pairs, the number of pairs computed, and whether the list is proved to be complete.
_Top = tuple[NDArray[np.int64], NDArray[np.float64], float, float, int, bool]

# A scale, and factors by their kind, columns and arguments.
_Term = tuple[float, list[tuple[str, list[int], list[tuple[str, list[float]]]]]]

# Name, Python class, and arguments: name, name in the class, default value.
def factors() -> list[tuple[str, str, list[tuple[str, str, float]]]]: ...
def kernel_help() -> str: ...

# The instruction set of the engine, and whether this is a release build.
def build_facts() -> tuple[str, bool]: ...
def kernel(terms: list[_Term]) -> str: ...
def length_scales(rows: NDArray[np.float64], rule: str) -> list[float]: ...
def kernel_terms(json: str) -> list[_Term]: ...

@final
class Expansion:
    def __new__(
        cls,
        kernel: str,
        points: _Rows,
        coef: NDArray[np.float64],
        intercept: list[float],
        output_names: list[str],
    ) -> Expansion: ...
    @staticmethod
    def from_bytes(
        bytes: bytes, width: int | None = None, names: list[str] | None = None, ranges: bytes | None = None
    ) -> Expansion: ...
    @staticmethod
    def is_libsvm(bytes: bytes) -> bool: ...
    def with_refits_of(self, other: Expansion, weights: NDArray[np.float64]) -> Expansion: ...
    def with_unseen(self) -> Expansion: ...
    def with_posterior(
        self, factor: NDArray[np.float64], weights: list[float] | None, scale: list[float]
    ) -> Expansion: ...
    def to_bytes(self, posterior: bool) -> bytes: ...
    @property
    def has_posterior(self) -> bool: ...
    @property
    def has_probabilities(self) -> bool: ...
    @property
    def counted(self) -> str | None: ...
    def natural(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...
    @property
    def classes(self) -> list[str]: ...
    def std(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def rates(
        self, rows: NDArray[np.float64], sds: float
    ) -> tuple[list[float], list[float], list[float], list[float]]: ...
    def covariance(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def sample(self, rows: NDArray[np.float64], draws: int, seed: int) -> NDArray[np.float64]: ...
    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...
    @property
    def feature_names(self) -> list[str]: ...
    @property
    def levels(self) -> list[list[str] | None]: ...
    @property
    def units(self) -> list[str | None]: ...
    def with_units(self, units: list[tuple[str, str]]) -> Expansion: ...
    def penalised(self, penalty: _Penalty, noise: float) -> Expansion: ...
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
    def with_groups(self, groups: list[tuple[str, list[int]]], facts: list[tuple[str, str]]) -> Expansion: ...
    @property
    def tie_margin(self) -> float: ...

class UnsupportedModelError(TypeError): ...

@final
class Settings:
    def __new__(cls, json: str) -> Settings: ...
    @property
    def asks_for_answers(self) -> bool: ...
    def without_estimates(self) -> Settings: ...
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
class Threads:
    def __new__(cls, count: int | None) -> Threads: ...

@final
class Explainer:
    def __new__(
        cls,
        model: Expansion,
        settings: Settings,
        background: NDArray[np.float64] | None,
        weights: NDArray[np.float64] | None,
        groups: list[tuple[str, list[int]]],
        threads: Threads,
    ) -> Explainer: ...
    def sampled_because(self, budget: tuple[int, float | None] | None = None) -> str | None: ...
    def robustness(self, delta: list[float]) -> list[float]: ...
    def explain_variance(self, rows: NDArray[np.float64]) -> Explanation: ...
    @property
    def players(self) -> list[tuple[str, list[int]]]: ...
    def explain(
        self,
        rows: NDArray[np.float64],
        budget: tuple[int, float | None] | None = None,
        sample: Sample | None = None,
    ) -> Explanation: ...
    def top_interactions(self, rows: NDArray[np.float64], count: int, limit: int | None) -> list[_Top]: ...

@final
class Explanation:
    def __new__(
        cls,
        *,
        values: NDArray[np.float64],
        base_values: NDArray[np.float64],
        predictions: NDArray[np.float64],
        bound: NDArray[np.float64] | None,
        std_error: NDArray[np.float64] | None,
        sampling: tuple[int, int] | None,
        players: list[tuple[str, list[int]]],
        subsets: list[list[int]] | None,
        output_names: list[str],
        data: _Rows,
        row_numbers: NDArray[np.int64],
        provenance: _Origin,
        decisions: str | None = None,
        index: str = "shapley",
        covariance: NDArray[np.float64] | None = None,
        sd: NDArray[np.float64] | None = None,
        sure_by: str | None = None,
        conditioning: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
        duels: str | None = None,
    ) -> Explanation: ...
    def renamed(
        self,
        players: list[tuple[str, list[int]]],
        output_names: list[str],
        data: _Rows,
        provenance: _Origin,
    ) -> Explanation: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, object]]: ...
    @staticmethod
    def from_json(json: bytes) -> Explanation: ...
    def to_json(self) -> bytes: ...
    @staticmethod
    def from_table(header: list[str], numbers: NDArray[np.float64], outputs: list[str]) -> Explanation: ...
    def table(self) -> list[tuple[str, NDArray[np.float64]]]: ...
    def select(
        self, rows: NDArray[np.int64], sets: NDArray[np.int64], outputs: NDArray[np.int64]
    ) -> Explanation: ...
    def report(self, title: str) -> str: ...
    def importance(self, output: int, level: float) -> dict[str, Any]: ...
    def svg(self, plot: str, output: int, row: int, max_display: int) -> str: ...
    def average(self, weights: NDArray[np.float64]) -> Explanation: ...
    @staticmethod
    def mixed(parts: list[tuple[float, Explanation]]) -> Explanation: ...
    @property
    def duels(self) -> str | None: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def base_values(self) -> NDArray[np.float64]: ...
    @property
    def predictions(self) -> NDArray[np.float64]: ...
    @property
    def residual(self) -> NDArray[np.float64]: ...
    @property
    def bound(self) -> NDArray[np.float64] | None: ...
    @property
    def std_error(self) -> NDArray[np.float64] | None: ...
    @property
    def covariance(self) -> NDArray[np.float64] | None: ...
    @property
    def conditioning(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None: ...
    @property
    def sd(self) -> NDArray[np.float64] | None: ...
    @property
    def sure_by(self) -> str | None: ...
    def probability(self, a: int, b: int, by_size: bool) -> NDArray[np.float64]: ...
    def probability_of_top(
        self, count: int, draws: int, seed: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def draws(self, draws: int, seed: int) -> NDArray[np.float64]: ...
    @property
    def sampling(self) -> tuple[int, int] | None: ...
    @property
    def sample(self) -> Sample | None: ...
    @property
    def certificate(self) -> tuple[float, float, bool] | None: ...
    @property
    def order(self) -> int: ...
    @property
    def index(self) -> str: ...
    @property
    def subsets(self) -> list[list[int]] | None: ...
    @property
    def value_name(self) -> str: ...
    @property
    def value_names(self) -> str: ...
    @property
    def is_efficient(self) -> bool: ...
    @property
    def is_complete(self) -> bool: ...
    @property
    def sets(self) -> list[tuple[str, list[int]]]: ...
    @property
    def output_names(self) -> list[str]: ...
    @property
    def row_numbers(self) -> NDArray[np.int64]: ...
    @property
    def data(self) -> _Rows: ...
    @property
    def provenance(self) -> _Origin: ...

@final
class Sample:
    @property
    def coalitions(self) -> int: ...

@final
class TestResult:
    @property
    def statistic(self) -> float: ...
    @property
    def pvalue(self) -> float | None: ...
    @property
    def null_distribution(self) -> NDArray[np.float64]: ...
    @property
    def by_kernel(self) -> list[tuple[str, float, float | None]]: ...
    @property
    def chosen(self) -> int: ...
    @property
    def attributions(self) -> Explanation | None: ...
    @property
    def pvalues(self) -> NDArray[np.float64] | None: ...
    @property
    def adjusted_pvalues(self) -> NDArray[np.float64] | None: ...
    @property
    def bands(self) -> NDArray[np.float64] | None: ...
    @property
    def interactions(self) -> NDArray[np.float64] | None: ...
    @property
    def interactions_bound(self) -> float | None: ...
    @property
    def marginal(self) -> NDArray[np.float64] | None: ...
    @property
    def marginal_pvalues(self) -> NDArray[np.float64] | None: ...
    @property
    def higher_order(self) -> tuple[float, float | None] | None: ...
    @property
    def record(self) -> str: ...

def test_record(record: str, subject_names: tuple[bool, str, str]) -> str: ...
def test_page(
    record: str,
    subject_names: tuple[bool, str, str],
    title: str | None,
    samples: tuple[_Rows, _Rows] | None,
    facts: list[tuple[str, str]],
    max_display: int,
) -> str: ...
def kernel_shap(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    rows: NDArray[np.float64],
    question: Question,
    budget: tuple[int, float | None] | None = None,
    sample: Sample | None = None,
) -> Explanation: ...
def predict_sums(
    model: Expansion,
    rows: NDArray[np.float64],
    places: list[int],
    weights: list[float],
    count: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]: ...
def permutation(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    rows: NDArray[np.float64],
    question: Question,
) -> Explanation: ...
def mmd_test(
    x: _Rows,
    z: _Rows,
    kernels: list[str],
    multiples: list[float] | None,
    biased: bool,
    block_size: int | None,
    options: _Options,
    threads: int | None,
) -> TestResult: ...
def hsic_test(
    x: _Rows,
    y: _Rows,
    conditioning: _Rows | None,
    kernels: list[str],
    multiples: list[float] | None,
    target_kernel: str | None,
    unbiased: bool,
    decay: float | None,
    options: _Options,
    threads: int | None,
) -> TestResult: ...
def witness(x: _Rows, z: _Rows, kernel: str, column: str) -> bytes: ...
def rank_features(
    x: _Rows, y: _Rows, method: str, factors: str, kernel: str | None, target_kernel: str | None, wanted: int
) -> tuple[list[int], list[float]]: ...

@final
class SobolIndices:
    @property
    def explanation(self) -> Explanation: ...
    @property
    def first_order(self) -> NDArray[np.float64]: ...
    @property
    def effects(self) -> NDArray[np.float64]: ...
    @property
    def total_order(self) -> NDArray[np.float64]: ...
    @property
    def bound(self) -> list[float]: ...
    @property
    def record(self) -> str: ...

def sobol_indices(
    models: list[tuple[float, Expansion]],
    rows: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    groups: list[tuple[str, list[int]]],
    index: str,
    posterior: bool,
    draws: tuple[int, int] | None,
    threads: int | None,
) -> SobolIndices: ...

_Estimate = tuple[NDArray[np.float64], NDArray[np.float64]]

def sobol_of_function(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    rows: tuple[_Rows, list[float] | None],
    groups: list[tuple[str, list[int]]],
    samples: int,
    seed: int,
) -> tuple[Explanation, list[_Estimate], int]: ...
def sage_of_function(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    x: _Rows,
    numbers: NDArray[np.float64] | None,
    classes: list[int] | None,
    rows: tuple[_Rows, list[float] | None],
    groups: list[tuple[str, list[int]]],
    permutations: int,
    seed: int,
) -> SageValues: ...
def importance_record(record: str, of_loss: bool) -> str: ...
def importance_page(
    record: str,
    title: str | None,
    target: str | None,
    curves: tuple[
        list[tuple[float, Expansion]],
        NDArray[np.float64],
        NDArray[np.float64] | None,
        list[tuple[str, list[int]]],
    ]
    | None,
    explanation: Explanation | None,
    facts: list[tuple[str, str]],
    max_display: int,
) -> str: ...

@final
class SageValues:
    @property
    def explanation(self) -> Explanation: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def std_error(self) -> NDArray[np.float64] | None: ...
    @property
    def sampling_error(self) -> NDArray[np.float64] | None: ...
    @property
    def base_loss(self) -> float: ...
    @property
    def loss(self) -> float: ...
    @property
    def measure(self) -> str: ...
    @property
    def coalitions(self) -> int: ...
    @property
    def record(self) -> str: ...

def sage_values(
    model: Expansion,
    x: NDArray[np.float64],
    numbers: NDArray[np.float64] | None,
    classes: list[int] | None,
    rows: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    groups: list[tuple[str, list[int]]],
    permutations: int,
    seed: int,
    threads: int | None,
) -> SageValues: ...
def component(
    models: list[tuple[float, Expansion]],
    rows: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    groups: list[tuple[str, list[int]]],
    set: list[int],
    points: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]: ...
def codes(levels: list[str], cells: list[str | float]) -> list[int | None]: ...
def column_suspicions(name: str, values: list[float]) -> list[str]: ...
def column_type(
    name: str, table: str, cells: list[str | float | None], choice: str | None
) -> tuple[bool, str | None]: ...
def column_unit(name: str, table: str, cells: list[str | float | None]) -> str | None: ...
def same_unit(a: str, b: str) -> bool: ...
def read_numbers(cells: list[str | float | None]) -> list[float | None]: ...

@final
class Fitted:
    @property
    def model(self) -> Expansion: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def iterations(self) -> list[int]: ...
    @property
    def chosen(self) -> float | None: ...
    @property
    def support(self) -> list[int] | None: ...
    @property
    def noise(self) -> float | None: ...
    @property
    def log_marginal_likelihood(self) -> float | None: ...
    @property
    def average(self) -> _Average | None: ...
    @property
    def end(self) -> tuple[NDArray[np.float64], list[float]] | None: ...

_Average = tuple[list[tuple[float, Expansion]], float]

def average_to_bytes(best: Expansion, average: _Average, posterior: bool) -> bytes: ...
def average_from_bytes(bytes: bytes) -> tuple[Expansion, _Average] | None: ...
def is_average(bytes: bytes) -> bool: ...
def few_samples_warning(effective_sample_size: float) -> str | None: ...
def sample_average(
    models: list[tuple[float, Expansion]], rows: NDArray[np.float64], draws: int, seed: int
) -> NDArray[np.float64]: ...

@final
class AggregatePart:
    @property
    def weight(self) -> float: ...
    @property
    def model(self) -> Expansion: ...
    @property
    def fitted(self) -> list[float]: ...
    @property
    def bags(self) -> tuple[list[float], list[float]] | None: ...
    @property
    def left_out(self) -> tuple[list[float], list[float]] | None: ...
    @property
    def sensitivities(self) -> tuple[NDArray[np.float64], list[float]] | None: ...
    @property
    def hyperparameters(self) -> tuple[str, float, float, float, tuple[str, float] | None] | None: ...

@final
class FittedAggregates:
    @property
    def best(self) -> AggregatePart: ...
    @property
    def parts(self) -> list[AggregatePart]: ...
    @property
    def effective(self) -> float | None: ...
    @property
    def noise(self) -> tuple[float, float, float]: ...
    @property
    def mediation(self) -> tuple[str, float] | None: ...
    @property
    def log_marginal_likelihood(self) -> float: ...
    @property
    def warnings(self) -> list[str]: ...

@final
class Aggregates:
    def __new__(cls, input: dict[str, Any]) -> Aggregates: ...
    @property
    def usual_points(self) -> int | None: ...
    def unmet(self, fitted: list[float]) -> tuple[int, float] | None: ...
    @property
    def hardly_matched(self) -> str | None: ...
    @property
    def look_like_means(self) -> bool: ...
    def far(self, kernel: str) -> list[int]: ...
    def mediator_shift(self, seed: int) -> str | None: ...

def join_bags(
    rows: list[str], bags: list[str], has_target: list[bool], mediators: bool, drop_unmatched: bool
) -> tuple[list[int], list[int], list[int], list[int], list[int | None], list[str]]: ...
def fit_aggregates(
    start: dict[str, Any], aggregates: Aggregates, tune: bool, draws: int | None, seed: int
) -> FittedAggregates: ...
def conditional_means(
    start: dict[str, Any], aggregates: Aggregates, mediators: _Rows
) -> tuple[list[float], NDArray[np.float64]]: ...
def aggregate_evidence(start: dict[str, Any], aggregates: Aggregates) -> tuple[float, list[float]]: ...
def fit_sparse_aggregates(
    start: dict[str, Any],
    aggregates: Aggregates,
    points: int | _Rows,
    tune: bool,
    draws: int | None,
    seed: int,
) -> FittedAggregates: ...

@final
class ConditionalMeanModel:
    def __new__(cls, x: _Rows, y: _Rows, settings: dict[str, Any]) -> ConditionalMeanModel: ...
    @property
    def kernels(self) -> list[str]: ...
    @property
    def ridge(self) -> float: ...
    @property
    def scale(self) -> float: ...
    @property
    def log_evidence(self) -> float: ...
    @property
    def warnings(self) -> list[str]: ...
    def weights(self, x: _Rows) -> NDArray[np.float64]: ...
    def residual_covariance(self, x: _Rows) -> NDArray[np.float64]: ...
    def expectation(
        self, values: NDArray[np.float64], covariance: NDArray[np.float64] | None, x: _Rows
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[float], NDArray[np.float64] | None]: ...
    def next_evaluations(
        self, x: _Rows, covariance: NDArray[np.float64], noise: float, count: int
    ) -> list[tuple[int, float]]: ...
    def discrepancy(self, x: _Rows, other: _Rows) -> NDArray[np.float64]: ...
    def discrepancy_from_sample(self, x: _Rows, y: _Rows) -> NDArray[np.float64]: ...

@final
class CountPart:
    @property
    def weight(self) -> float: ...
    @property
    def model(self) -> Expansion: ...
    @property
    def fitted(self) -> list[float]: ...
    @property
    def left_out(self) -> tuple[list[float], list[float], list[float], list[float]]: ...

@final
class FittedCounts:
    @property
    def best(self) -> CountPart: ...
    @property
    def parts(self) -> list[CountPart]: ...
    @property
    def effective(self) -> float | None: ...
    @property
    def smoothing(self) -> str | None: ...
    @property
    def dispersions(self) -> list[float]: ...
    @property
    def log_marginal_likelihood(self) -> float: ...
    @property
    def warnings(self) -> list[str]: ...

def fit_counts(
    start: dict[str, Any],
    aggregates: Aggregates,
    points: int | _Rows | None,
    tune: bool,
    draws: int | None,
    seed: int,
) -> FittedCounts: ...

@final
class FittedPrior:
    @property
    def kernel(self) -> str: ...
    @property
    def utility(self) -> float: ...
    @property
    def generalised(self) -> float: ...
    @property
    def further(self) -> list[float]: ...
    @property
    def contexts(self) -> tuple[str, float] | None: ...
    @property
    def margin(self) -> float | None: ...

_UnitRows = tuple[_Rows, NDArray[np.float64], list[float] | None]

def survey_rows(job: str, unit: _UnitRows, threads: int | None) -> bytes: ...
def merge_surveys(parts: list[bytes]) -> bytes: ...
def tune_fit(job: str, survey: bytes, kernel: str, standardise: bool) -> tuple[bytes, bool]: ...
def survey_kernel(job: str, tuned: bytes, unit: _UnitRows) -> bytes: ...
def plan_fit(job: str, survey: bytes, tuned: bytes) -> bytes: ...
def plan_facts(plan: bytes) -> tuple[str, int, str]: ...
def unit_statistics(plan: bytes, rows: _UnitRows, unit: int, threads: int | None) -> bytes: ...
def merge_statistics(plan: bytes, parts: list[bytes], removed: list[bytes]) -> bytes: ...
def counted_units(plan: bytes, statistics: bytes) -> list[int]: ...
def unit_pass(plan: bytes, coefficients: bytes, rows: _UnitRows, unit: int, threads: int | None) -> bytes: ...
def merge_passes(plan: bytes, coefficients: bytes, parts: list[bytes]) -> bytes: ...

@final
class Fitting:
    def __new__(cls, plan: bytes, job: str, beginning: bytes) -> Fitting: ...
    def wants(self) -> bytes | None: ...
    def take(self, pass_: bytes, /) -> None: ...
    def bounds(self, x: _Rows) -> NDArray[np.float64] | None: ...
    @property
    def tried(self) -> list[tuple[int, float, float]]: ...
    def fitted(self, names: list[str]) -> tuple[Expansion, list[str], float]: ...

def fit(
    model: str,
    kernel: str,
    x: _Rows,
    target: tuple[list[int], list[str]] | NDArray[np.float64],
    settings: str,
    sample_weight: list[float] | None,
    penalty: _Penalty | None,
    start: tuple[NDArray[np.float64], list[float]] | None,
    seed: int,
) -> Fitted: ...
def fit_preferences(
    kernel: str | None,
    items: _Rows,
    duels: _Duels,
    circumstances: dict[str, Any],
    form: str,
    tune: bool,
    restarts: int,
    draws: int | None,
    seed: int,
    protected: tuple[list[str], float, bool, list[tuple[str, list[str]]]] | None,
) -> tuple[Fitted, FittedPrior]: ...
def fit_choices(
    kernel: str | None,
    form: str,
    items: _Rows,
    sets: list[list[int]],
    chosen: list[list[list[int]]],
    weight: list[float] | None,
    names: list[str] | None,
    tune: bool,
    restarts: int,
    draws: int | None,
    seed: int,
) -> tuple[Fitted, FittedPrior]: ...
def predict_choices(
    models: list[tuple[float, Expansion]],
    items: _Rows,
    sets: list[list[int]],
    count: int,
    draws: int,
    seed: int,
) -> list[tuple[list[float], list[float]]]: ...
def rows_of_sets(sets: list[str], chosen: list[float]) -> list[tuple[list[int], list[list[int]]]]: ...
def explain_duels(
    models: list[tuple[float, Expansion]],
    rows: _Rows,
    absent: tuple[str, _Rows | None, list[float] | None, tuple[_Rows, bool] | None],
    groups: list[tuple[str, list[str]]],
    index: str,
    covariance: bool,
    conditioning: dict[str, Any],
    drawn: tuple[int, int | None, tuple[int, float | None] | None, int],
    called: tuple[list[str], list[str], tuple[list[int], list[float]] | None],
) -> Explanation: ...
def read_outcomes(
    count: int,
    record: dict[str, Any],
    weight: np.ndarray | None,
    drop: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]: ...

_Locations = tuple[list[list[float]], list[str]] | tuple[bytes, str, list[str]]

def map_page(
    models: list[tuple[float, Expansion]],
    rows: NDArray[np.float64],
    locations: _Locations,
    background: NDArray[np.float64] | None,
    title: str | None,
    bags: tuple[Any, ...] | None,
) -> str: ...
def map_picture(
    models: list[tuple[float, Expansion]],
    rows: NDArray[np.float64],
    locations: _Locations,
    quantity: tuple[str, int],
    background: NDArray[np.float64] | None,
) -> str: ...
def duel_columns(
    header: list[str], sides: tuple[str, str] | None, outcome: str | None, reads_outcome: bool
) -> tuple[list[str], str | None]: ...
def times_of_levels(column: str, levels: list[str]) -> list[float]: ...
def evaluate_duels(
    duels: tuple[list[int], list[int], list[float], list[float] | None],
    splits: tuple[str, list[float], float, int, int],
    models: int,
    probabilities: Callable[[int, list[int], list[int], int], list[float]],
) -> list[tuple[tuple[float, float, float], tuple[float, float, float] | None, tuple[float, float]]]: ...
def read_homes(cells: list[str | None], names: tuple[list[str], list[str]]) -> list[int]: ...
def fit_bradley_terry(
    names: list[str],
    items: _Rows | None,
    duels: _Duels,
    ridge: float | None,
) -> tuple[Fitted, list[float], list[float] | None, list[str]]: ...
def preference_evidence(
    kernel: str,
    items: _Rows,
    duels: _Duels,
    shares: list[float],
) -> tuple[float, list[float]]: ...

@final
class PairFunction:
    def __new__(
        cls,
        prior: tuple[str, list[float], str | None, tuple[str, float] | None, float | None],
        fields: tuple[list[tuple[_Rows, NDArray[np.float64]]], NDArray[np.float64]],
        state: tuple[_Rows, _Memberships | None, _Rows | None, list[tuple[int, int]], list[int], list[float]],
    ) -> PairFunction: ...
    @property
    def landmarks(self) -> int: ...
    @property
    def context_landmarks(self) -> int | None: ...
    def log_odds(
        self,
        competitors: tuple[_Rows, _Memberships | None],
        pairs: list[tuple[int, int]],
        contexts: _Rows | None,
        std: str | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]: ...
    def probabilities(
        self,
        competitors: tuple[_Rows, _Memberships | None],
        pairs: list[tuple[int, int]],
        contexts: _Rows | None,
    ) -> NDArray[np.float64]: ...

@final
class FittedLandmarks:
    @property
    def function(self) -> PairFunction: ...
    @property
    def model(self) -> Expansion | None: ...
    @property
    def no_model_reason(self) -> str | None: ...
    @property
    def prior(self) -> FittedPrior: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def log_marginal_likelihood(self) -> float | None: ...
    @property
    def unknown(self) -> float: ...
    @property
    def unknown_contexts(self) -> float: ...

def fit_landmarks(
    kernel: str | None,
    items: _Rows,
    duels: _Duels,
    circumstances: dict[str, Any],
    form: str,
    tune: bool,
    restarts: int,
    seed: int,
    sizes: tuple[int, int, int, int, float],
) -> FittedLandmarks: ...
def rank_preferences(
    models: list[tuple[float, Expansion]],
    items: _Rows,
    context: list[float] | None,
    draws: int | None,
    level: float,
    triangles: int,
    seed: int,
) -> _Ranked: ...
def suggest_duels(
    models: list[tuple[float, Expansion]],
    items: _Rows,
    context: list[float] | None,
    goal: str,
    count: int,
    candidates: list[tuple[int, int]] | None,
    draws: int | None,
    seed: int,
) -> list[tuple[int, int, float, float, float]]: ...
def spec_r(
    items: int, input: _Duels, draws: int, seed: int
) -> tuple[float, tuple[float, float], tuple[float, float], float]: ...
def compare_preferences(
    kernel: str | None,
    items: _Rows,
    input: _Duels,
    circumstances: dict[str, Any],
    tune: bool,
    restarts: int,
    seed: int,
) -> tuple[tuple[list[float], str] | None, tuple[list[float], str] | None]: ...
def cluster_preferences(
    kernel: str | None,
    items: _Rows,
    input: _Duels,
    method: str,
    count: int | None,
    max_clusters: int,
    covariates: bool,
    starts: int,
    threshold: float,
    subsamples: int,
    tune: bool,
    seed: int,
) -> tuple[list[int], NDArray[np.float64], list[tuple[int, float]], list[float], list[int], float | None]: ...
def functionals(
    kernel: str,
    x: _Rows,
    settings: Settings,
    background: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    groups: list[tuple[str, list[int]]],
    protected: list[str],
    equal: bool,
) -> tuple[NDArray[np.float64], int | None]: ...

# The text of a graph, or its variables and arrows.
_Graph = str | tuple[list[str], list[tuple[str, str]]]

def identify_effect(graph: _Graph | None, query: str) -> tuple[str, str]: ...
def formula_of_effect(
    graph: _Graph, treatments: list[str], outcomes: list[str], measured: list[str] | None
) -> tuple[str | None, str]: ...
def find_instrument(
    graph: _Graph, treatment: str, outcome: str, measured: list[str] | None
) -> tuple[str, list[str]] | None: ...
def find_sequence(
    graph: _Graph, treatments: list[str], outcome: str, measured: list[str] | None
) -> list[tuple[str, list[str]]] | None: ...
def graph_parts(
    graph: _Graph,
) -> tuple[list[str], list[str], list[tuple[str, str]], list[tuple[str, str]]]: ...
def causal_components(
    graph: _Graph, variables: list[str]
) -> tuple[list[list[str]], list[str], list[list[str]]]: ...
def open_path(graph: _Graph, a: list[str], b: list[str], conditioning: list[str]) -> str | None: ...

# Treatments, the identification of their effect in this study ("direct" or another), its covariates or
# mediators, and the columns shared with the next study.
_Leading = tuple[_Rows, str, _Rows | None, _Rows]

_EstimateParts = tuple[
    list[float],
    NDArray[np.float64],
    list[tuple[str, NDArray[np.float64]]],
    list[tuple[str, list[float]]],
    list[bool],
]

# Treatments, an optional baseline, and for a derivative the treatment and the step.
_EffectQuery = tuple[_Rows, _Rows | None, tuple[str | None, float | None] | None]

@final
class CausalEffect:
    def estimate(self, query: _EffectQuery) -> _EstimateParts: ...
    def published(
        self, query: _EffectQuery, integrals: bool, mass: float | None, jitter: float
    ) -> _EstimateParts: ...
    @property
    def effective_draws(self) -> float: ...
    def variance_reduction(self, query: _EffectQuery, study: int, rows: _Rows) -> list[float]: ...
    def mediator_sums(
        self, query: _EffectQuery
    ) -> list[tuple[float, NDArray[np.float64], Expansion, NDArray[np.float64]]]: ...
    def sample(self, query: _EffectQuery, draws: int, seed: int) -> NDArray[np.float64]: ...
    def population(self, members: _Rows, weights: list[float]) -> CausalEffect: ...
    def treated(self, treatments: _Rows) -> CausalEffect: ...
    def like(self, covariates: _Rows) -> CausalEffect: ...
    def parts(self) -> list[tuple[float, Expansion]]: ...

def fuse(
    leading: list[_Leading],
    points: _Rows,
    outcome: list[float],
    draws: int,
    seed: int,
    shared: _Rows | None = None,
    landmarks: int | None = None,
    single: tuple[list[_Stage], list[str]] | None = None,
) -> CausalEffect: ...

# The names of a stage's history, treatments and averaged columns.
_Stage = tuple[list[str], list[str], list[str]]

def effect_stages(graph: _Graph | None, query: str) -> list[_Stage]: ...
def needed_columns(graph: _Graph | None, query: str) -> list[list[str]]: ...
def gather_studies(
    graph: _Graph | None, query: str, tables: list[list[tuple[str, list[str] | None, list[float]]]]
) -> tuple[list[_Leading], _Rows, list[float], _Rows | None, dict[str, float], list[str]]: ...
def effect_caveats(graph: _Graph | None, query: str, effect: CausalEffect, draws: int) -> list[str]: ...
def usual_doses(treatments: _Rows, count: int = ...) -> _Rows: ...
def effect_page(
    about: tuple[_Graph | None, str, list[_Leading], _Rows, list[float], _Rows | None],
    effect: CausalEffect,
    treatments: _Rows,
    provenance: tuple[str, dict[str, float], list[str], list[tuple[str, str]]],
    level: float,
    baseline: _Rows | None = None,
) -> str: ...

# Tried treatments, their outcomes, the variances of these outcomes, and the name of the prior.
_Tried = tuple[_Rows, list[float], list[float] | None, str]

# Bounds by name of the treatment.
_Bounds = list[tuple[str, tuple[float, float]]]

def update_effect(
    effect: CausalEffect, trials: _Tried, query: _EffectQuery
) -> tuple[_EstimateParts, tuple[float, float, float]]: ...
def suggest_trials(
    choices: list[tuple[CausalEffect, _Tried, _Rows | None, _Bounds, list[float]]],
    count: int,
    acquisition: str,
    minimize: bool,
    supported: bool,
    seed: int,
) -> list[tuple[int, list[float], float, float, float, float, bool]]: ...
def trial_candidates(studied: _Rows, bounds: _Bounds, seed: int) -> NDArray[np.float64]: ...
