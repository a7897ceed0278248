"""Explanations of text models: the players are the words of a text, and an absent word is removed from it.

For one text, a pipeline that begins with a text vectoriser of scikit-learn is a function of the set of
present words (or n-grams, if the vectoriser counts these). Its input is a row of zeros and ones with one
column per word, and the game is the baseline game with the empty text as baseline. Each text has its own
columns, so it is explained by its own model; the explanations are then joined.

Values are exact if each column after the vectoriser comes from one word; the model is then an expansion over
these rows. If rows are scaled to length 1, as by ``TfidfVectorizer``, the words scale each other. For a
linear model with intercept b, coefficients w and a row z of length 1, the value of a set S of words is ``b +
Σ_{j∈S} w_j z_j / sqrt(s)`` with ``s = Σ_{j∈S} z_j²``. The trapezoidal rule for

    1 / sqrt(s) = 2 / sqrt(π) ∫ exp(x - exp(2x) s) dx

is a sum of exponentials of s, which are products over words. The integrand is analytic in the strip
|Im x| < a for each a < π/4. The integral of its modulus along a line in the strip is at most
``1 / sqrt(s cos 2a)``. With step h, the relative error of the rule is therefore at most
``2 / (sqrt(cos 2a) (exp(2πa/h) - 1))`` (Trefethen and Weideman 2014, Theorem 5.1)."""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .. import kernels as rk
from .._core import UnsupportedModelError
from .._data.validation import as_cells, collected, names_of, numbered
from .._models.expansion import Expansion
from .._models.loading import Block, Imported, Part
from .._models.pipeline_columns import owners
from .._models.predictions import class_names, log_odds, read_predictions
from .explanation import Explanation, _explanation_from

#: Vectorisers of scikit-learn.
VECTORIZERS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")

#: Number of coalitions per call of a model.
BATCH = 512

#: The strip a, the step h and the relative error of the rule for 1/sqrt(s). The error is the sum of the
#: rule's error, the truncation error at the ends, and rounding.
STRIP = 0.72
STEP = 2.0 * math.pi * STRIP / 34.0
LOWEST = -11.5
ROOT_ERROR = (
    2.0 / (math.sqrt(math.cos(2.0 * STRIP)) * (math.exp(34.0) - 1.0)) + 2.0 * math.exp(3.0 * LOWEST) + 1e-17
)


class Texts:
    """A model of texts.

    Parameters
    ----------
    split_words
        The words of a text in order, with repetitions.
    is_known
        Whether the model knows a word; unknown words change nothing.
    imported
        The model as a function of which words are present, given the text and its distinct words.
    kind, explained
        The kind of the model and a description of its outputs, for display.
    reason
        Why values are estimated; ``None`` if they are exact.
    """

    def __init__(
        self,
        split_words: Callable[[str], list[str]],
        is_known: Callable[[str], bool],
        imported: Callable[[str, list[str]], Imported],
        kind: str,
        explained: str,
        reason: str | None,
    ) -> None:
        self.split_words, self.is_known, self.imported, self.kind = split_words, is_known, imported, kind
        self.explained, self.reason = explained, reason


def texts_of(model: Any, probabilities: bool, link: str) -> Texts | None:
    """Returns ``model`` as a model of texts; ``None`` if it takes rows."""
    if isinstance(model, type):
        return None
    model = getattr(model, "best_estimator_", model)
    is_pipeline = any(
        f"{kind.__module__[:8]}{kind.__name__}" == "sklearn.Pipeline" for kind in type(model).__mro__
    )
    steps = [step for _, step in model.steps if step not in (None, "passthrough")] if is_pipeline else []
    if len(steps) > 1 and _is_vectorizer(steps[0]):
        return _Vectorized(model, steps, probabilities, link).texts()
    return _whole_texts(model, probabilities, link) if _is_over_texts(model) or _takes_texts(model) else None


def _is_vectorizer(step: Any) -> bool:
    return type(step).__name__ in VECTORIZERS and type(step).__module__.startswith("sklearn.")


def _takes_texts(model: Any) -> bool:
    """Whether a model of scikit-learn applies a text vectoriser to all of its input, or each of its members
    does."""
    if not type(model).__module__.startswith("sklearn."):
        return False
    if hasattr(model, "steps"):
        first = next((step for _, step in model.steps if step not in (None, "passthrough")), None)
        named = [step for _, step in model.steps]
        # A FunctionTransformer may preprocess texts before the vectoriser.
        cleaned = type(first).__name__ == "FunctionTransformer" and any(map(_is_vectorizer, named))
        return first is not None and (_is_vectorizer(first) or cleaned or _takes_texts(first))
    if hasattr(model, "transformer_list"):
        return all(_is_vectorizer(part) or _takes_texts(part) for _, part in model.transformer_list)
    calibrated = getattr(model, "calibrated_classifiers_", None)
    members = (
        getattr(model, "estimators_", None) if calibrated is None else [part.estimator for part in calibrated]
    )
    members = [getattr(model, "estimator_", None)] if members is None else list(members)
    return bool(members) and all(member is not None and _takes_texts(member) for member in members)


def texts_in(X: Any) -> list[str]:
    """Returns a list, array or column of texts as a list."""
    if isinstance(X, str):
        raise TypeError("X is one text: give a list of texts, [text]")
    X = collected(X)
    if names_of(X) is not None:
        raise TypeError("X is a data frame, and the model takes texts: give its column of texts")
    texts = X.tolist() if hasattr(X, "tolist") else X.to_list() if hasattr(X, "to_list") else list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"X is {text!r} in row {i} (from 0), and the model takes texts: give a list of texts"
            )
    return texts


def explain_texts(
    texts: Texts,
    X: Any,
    explain_one: Callable[[Imported, dict[str, list[str]] | None], Explanation],
    groups: Mapping[str, Sequence[str]] | None,
    output_names: Sequence[str] | None,
) -> Explanation:
    """Explains each text by ``explain_one`` and joins the explanations. There is a feature for each word of
    any text; its value is 0 for texts without the word. The data are the counts of the words, and the texts
    in a last column."""
    documents = texts_in(X)
    counts = [Counter(word for word in texts.split_words(text) if texts.is_known(word)) for text in documents]
    columns = list(dict.fromkeys(word for word_counts in counts for word in word_counts))
    players = _players(columns, groups)
    position_of_player = {name: k for k, (name, _) in enumerate(players)}
    explanations: list[tuple[Imported, Explanation | None]] = []
    for text, word_counts in zip(documents, counts):
        imported = texts.imported(text, list(word_counts))
        groups_in_text = {
            name: [str(word) for word in words if word in word_counts]
            for name, words in (groups or {}).items()
        }
        groups_in_text = {name: words for name, words in groups_in_text.items() if words}
        explanations.append(
            (imported, explain_one(imported, groups_in_text or None) if word_counts else None)
        )
    return _joined_explanations(
        texts, documents, counts, columns, players, position_of_player, explanations, output_names
    )


def _players(columns: list[str], groups: Mapping[str, Sequence[str]] | None) -> list[tuple[str, list[int]]]:
    """Returns the players: words, and groups of words, with their columns."""
    group_of: dict[str, str] = {}
    for group, words in (groups or {}).items():
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"group '{group}' is {words!r}: of texts it is a list of words")
        for word in words:
            if group_of.setdefault(word, group) != group:
                raise ValueError(
                    f"the word '{word}' is in the groups '{group_of[word]}' and '{group}': choose one"
                )
    players: dict[str, list[int]] = {}
    for j, word in enumerate(columns):
        if word in (groups or {}) and group_of.get(word) != word:
            raise ValueError(f"a group has the name of the word '{word}': rename the group")
        players.setdefault(group_of.get(word, word), []).append(j)
    return list(players.items())


def _joined_explanations(
    texts, documents, counts, columns, players, position_of_player, explanations, output_names
) -> Explanation:
    n = len(documents)
    cores = [None if explanation is None else explanation._core for _, explanation in explanations]
    first_core = next((core for core in cores if core is not None), None)
    if first_core is not None and first_core.subsets is not None:
        raise ValueError(
            "of texts each word has a value, and sets of words have none: ask for an index of features alone"
        )
    # The prediction for a text without known words is that for the empty text.
    empty = [
        None if core is not None else _outputs(imported) for (imported, _), core in zip(explanations, cores)
    ]
    sizes = [np.size(e) if core is None else len(core.output_names) for core, e in zip(cores, empty)]  # type: ignore[arg-type]
    m = max(sizes, default=len(output_names or []))
    values, errors = np.zeros((n, len(players), m)), np.zeros((n, len(players), m))
    base, predictions, bound = np.zeros((n, m)), np.zeros((n, m)), np.zeros((n, m))
    for i, ((imported, _), core) in enumerate(zip(explanations, cores)):
        if core is None:
            base[i] = predictions[i] = empty[i]
            continue
        positions = [position_of_player[name] for name, _ in core.sets]
        values[i, positions], base[i], predictions[i] = (
            core.values[0],
            core.base_values[0],
            core.predictions[0],
        )
        if core.bound is not None:
            bound[i] = core.bound[0] + (0.0 if imported.left_out is None else imported.left_out)
        if core.std_error is not None:
            errors[i, positions] = core.std_error[0]
    samplings = [core.sampling for core in cores if core is not None and core.sampling is not None]
    run = {"riesz": _core.__version__}
    if samplings:
        reasons = (str(imported.refusal) for imported, _ in explanations if imported.refusal is not None)
        run["estimated because"] = texts.reason or next(reasons, "")
    names = output_names or explanations[0][0].output_names if explanations else output_names
    data = np.empty((n, len(columns) + 1), dtype=object)
    for i, word_counts in enumerate(counts):
        data[i, :-1], data[i, -1] = [float(word_counts[word]) for word in columns], documents[i]
    return _explanation_from(
        values=values,
        base_values=base,
        predictions=predictions,
        bound=None if samplings else bound,
        std_error=errors if samplings else None,
        sampling={"evaluations": sum(count for count, _ in samplings), "seed": samplings[0][1]}
        if samplings
        else None,
        covariance=None,
        sure_by=None,
        players=players,
        index="shapley" if first_core is None else first_core.index,
        row_numbers=np.arange(n),
        data=data,
        column_names=[*columns, "text" if "text" not in columns else "the text"],
        output_names=list(names or (["y"] if m == 1 else [f"y{o}" for o in range(m)])),
        provenance={
            "game": "baseline",
            "absent": "an absent word is left out of the text",
            "model": {"model": texts.kind, "explained": texts.explained},
            "run": run,
        },
    )


def _outputs(imported: Imported) -> np.ndarray:
    """Returns the model's prediction for the empty text."""
    assert imported.function is not None
    return np.asarray(imported.function(np.zeros((1, 0))), dtype=np.float64).ravel()


# Pipelines
# ---------------------------------------------------------------------------------------------------------


def _identity(terms: list[str]) -> list[str]:
    return terms


class _Vectorized:
    """A pipeline that begins with a text vectoriser."""

    def __init__(self, model: Any, steps: list[Any], probabilities: bool, link: str) -> None:
        from .._models.scikit_learn import import_model

        self.model, self.middle, self.last = model, steps[1:-1], steps[-1]
        vectorizer = steps[0]
        self.analyze = vectorizer.build_analyzer()
        self.vocabulary: Mapping[str, int] | None = getattr(vectorizer, "vocabulary_", None)
        self.length = getattr(vectorizer, "norm", None)
        # The same vectoriser for lists of terms.
        self.vectorizer = copy.copy(vectorizer)
        self.vectorizer.set_params(
            analyzer=_identity,
            lowercase=False,
            stop_words=None,
            ngram_range=(1, 1),
            token_pattern=None,
            tokenizer=None,
        )
        self.vectorizer.preprocessor = None
        self.read = import_model(self.last)
        self.kind = " → ".join(type(step).__name__ for step in steps)
        self.reason: UnsupportedModelError | None = None
        if probabilities or link == "logit":
            description = (
                "log-odds of the probabilities" if link == "logit" else "probabilities (predict_proba)"
            )
            if not hasattr(self.last, "predict_proba"):
                option = "link='logit'" if link == "logit" else "probabilities = True"
                raise (TypeError if link == "logit" else ValueError)(
                    f"{option}: a {type(self.last).__name__} has no predict_proba"
                )
            function = log_odds(self.last) if link == "logit" else self.last.predict_proba
            self.reason = UnsupportedModelError("probabilities are no expansion")
            self.read = Imported(
                [], description, [], self.kind, class_names(self.last), function, self.reason
            )
        try:
            self.read.readable()
            self.owner_of = self._column_owners()
        except UnsupportedModelError as error:
            self.reason = error

    def texts(self) -> Texts:
        is_known = (lambda word: True) if self.vocabulary is None else self.vocabulary.__contains__
        reason = None if self.reason is None else str(self.reason)
        return Texts(self.analyze, is_known, self._imported, self.kind, self.read.explained, reason)

    def _column_owners(self) -> list[int]:
        """Returns the vectoriser's column from which each column of the model is computed."""
        middle, width = list(self.middle), self._width()
        final_step: Any = middle[-1] if middle else None
        if type(final_step).__name__ in ("TfidfTransformer", "Normalizer") and final_step.norm is not None:
            self.length = final_step.norm if self.length is None else "several"
            middle.pop()
        if self.length not in (None, "l2") or self.length == "l2" and not self._is_linear():
            raise UnsupportedModelError(
                f"rows are scaled to length 1 ({self.length}), by which words scale each other: behind a "
                "scaling by norm='l2' "
                "linear models alone have exact values, and behind norm=None kernel models too"
            )
        steps = [s for s in middle if type(s).__name__ != "TfidfTransformer" or s.norm is not None]
        if self.length is not None and steps:
            raise UnsupportedModelError(
                f"rows are scaled to length 1 and pass through {type(steps[0]).__name__}, too: values "
                "are exact where the scaling is the only step between the counts of words and the model"
            )
        owner_of_column = list(range(width))
        for step in steps:
            step_owners = owners(step, len(owner_of_column), type(step).__name__)
            owner_of_column = [owner_of_column[j] if isinstance(j, int) else -1 for j in step_owners]
        return owner_of_column

    def _width(self) -> int:
        return len(self.vocabulary) if self.vocabulary is not None else int(self.vectorizer.n_features)

    def _is_linear(self) -> bool:
        parts = self.read.parts
        return all(len(block) == 1 for block in self.read.blocks) and all(
            part.transform is None and [kind for kind, _, _ in _factors(part)] == ["linear"] for part in parts
        )

    def _rows(self, documents: Sequence[list[str]]) -> Any:
        rows = self.vectorizer.transform(documents)
        for step in self.middle:
            rows = step.transform(rows)
        return rows

    def _imported(self, text: str, words: list[str]) -> Imported:
        function = self.read.function
        assert function is not None
        position_of_word = {word: k for k, word in enumerate(words)}
        terms = [term for term in self.analyze(text) if term in position_of_word]

        def presence_function(rows: Any) -> np.ndarray:
            present = as_cells(rows) != 0
            parts = []
            for k in range(0, len(present), BATCH):
                documents = [
                    [term for term in terms if row[position_of_word[term]]] for row in present[k : k + BATCH]
                ]
                answer = np.asarray(function(self._rows(documents)), dtype=np.float64)
                parts.append(answer.reshape(len(documents), -1))
            return np.concatenate(parts)

        blocks: list[Block] = []
        reason = self.reason
        if reason is None and words:
            try:
                blocks = self._blocks(terms, words)
            except UnsupportedModelError as error:
                reason = error
        rows = np.vstack(
            [np.ones(len(words)), np.zeros(len(words)), np.eye(len(words))[:7], 1 - np.eye(len(words))[:7]]
        )
        return Imported(
            blocks,
            self.read.explained,
            list(words),
            self.kind,
            list(self.read.output_names),
            presence_function,
            reason,
            needs_comparison=True,
            rows=rows,
            left_out=self._left_out() if blocks and self.length == "l2" else None,
        )

    def _left_out(self) -> np.ndarray:
        """Returns the largest error of a value from the rule for 1/sqrt(s), for each output. By the
        Cauchy-Schwarz inequality, the sum of a coalition is at most the Euclidean norm of the slopes, and a
        value is a mean of differences of two such sums."""
        coefficients = np.hstack(
            [block[0].expansion._core.points.T @ block[0].expansion._core.coef for block in self.read.blocks]
        )
        return 2.0 * ROOT_ERROR * np.linalg.norm(coefficients, axis=0)

    def _blocks(self, terms: list[str], words: list[str]) -> list[Block]:
        """Returns the model of the text as expansions over the presence of its words."""
        full, empty = (
            as_cells(self._rows([words_of_text])).ravel().astype(np.float64) for words_of_text in (terms, [])
        )
        varying = np.flatnonzero(full != empty)
        if self.vocabulary is not None:
            word_of_vectorizer_column = {self.vocabulary[word]: k for k, word in enumerate(words)}
        else:
            columns = [self.vectorizer.transform([[word]]).indices[0] for word in words]
            word_of_vectorizer_column = {int(column): k for k, column in enumerate(columns)}
            if len(word_of_vectorizer_column) < len(words):
                raise UnsupportedModelError("words of the text share a column of the HashingVectorizer")
        word_of_column = [word_of_vectorizer_column[self.owner_of[j]] for j in varying]
        if self.length == "l2":
            return [
                [part]
                for (linear_part,) in self.read.blocks
                for part in _scaled_linear(linear_part, full[varying], varying, word_of_column)
            ]
        return [
            [_restricted(part, full, empty, varying, word_of_column) for part in block]
            for block in self.read.blocks
        ]


def _factors(part: Part) -> list[tuple[str, list[int], dict[str, list[float]]]]:
    """Returns the factors of an expansion whose kernel is a single product."""
    terms = _core.kernel_terms(part.expansion._core.kernel)
    if len(terms) > 1 or terms[0][0] != 1.0:
        raise UnsupportedModelError(
            "the kernel behind the vectoriser is a sum, of whose words there are no exact values"
        )
    return [(kind, columns, dict(values)) for kind, columns, values in terms[0][1]]


def _restricted(
    part: Part, full: np.ndarray, empty: np.ndarray, varying: np.ndarray, word_of_column: list[int]
) -> Part:
    """Returns an expansion over the columns that the words of the text change; all other columns are fixed at
    their values for the empty text."""
    if part.transform is not None:
        raise UnsupportedModelError("the model behind the vectoriser makes columns of its own")
    core = part.expansion._core
    width = core.points.shape[1]
    fixed = np.setdiff1d(np.arange(width), varying)
    points, coef, intercept = core.points, core.coef.copy(), np.array(core.intercept)
    kernel: rk.Kernel | None = None
    for kind, columns, values in _factors(part):
        if columns != list(range(width)):
            raise UnsupportedModelError("the kernel behind the vectoriser reads some columns alone")
        factor, weights, shift = _restricted_factor(kind, values, points, empty, varying, fixed)
        coef = coef * weights[:, None]
        if shift is not None:
            # A linear kernel is a sum over columns, so fixed columns shift the intercept.
            intercept = intercept + shift @ core.coef
        kernel = factor if kernel is None else kernel * factor
    assert kernel is not None
    names = numbered(len(varying))
    expansion = Expansion(
        kernel, points[:, varying], coef, intercept, feature_names=names, output_names=core.output_names
    )
    low, high = empty[varying], full[varying]
    transform = lambda rows: np.where(as_cells(rows)[:, word_of_column] != 0, high, low)
    return Part(expansion, word_of_column, transform, has_rows=False, card=part.card)


def _restricted_factor(
    kind: str,
    values: dict[str, list[float]],
    points: np.ndarray,
    empty: np.ndarray,
    varying: np.ndarray,
    fixed: np.ndarray,
) -> tuple[rk.Kernel, np.ndarray, np.ndarray | None]:
    """Returns a factor over the varying columns, the multiplier of each point from the fixed columns, and for
    a linear factor their additive term."""
    unit_factors = np.ones(len(points))
    per_column = lambda name: np.broadcast_to(np.asarray(values[name], dtype=float), (points.shape[1],))
    if kind in ("rbf", "laplacian"):
        scales = per_column("length_scale")
        scaled_distances = np.abs(points[:, fixed] - empty[fixed]) / scales[fixed]
        fixed_factors = (
            np.exp(-0.5 * (scaled_distances**2).sum(axis=1))
            if kind == "rbf"
            else np.exp(-scaled_distances.sum(axis=1))
        )
        return (rk.RBF if kind == "rbf" else rk.Laplacian)(scales[varying].tolist()), fixed_factors, None
    is_unscaled = all(
        set(values[name]) <= {standard}
        for name, standard in (("center", 0.0), ("scale", 1.0))
        if name in values
    )
    if is_unscaled and kind == "linear":
        return rk.Linear(), unit_factors, points[:, fixed] @ empty[fixed]
    if is_unscaled and kind == "exponential_dot_product":
        gamma = values["gamma"][0]
        return rk.ExponentialDotProduct(gamma=gamma), np.exp(gamma * (points[:, fixed] @ empty[fixed])), None
    if is_unscaled and kind == "polynomial" and not empty[fixed].any():
        degree, gamma, coef0 = int(values["degree"][0]), values["gamma"][0], values["coef0"][0]
        return rk.Polynomial(degree=degree, gamma=gamma, coef0=coef0), unit_factors, None
    raise UnsupportedModelError(
        f"the kernel behind the vectoriser is {kind}, of whose words there are no exact values"
    )


def _scaled_linear(part: Part, row: np.ndarray, varying: np.ndarray, word_of_column: list[int]) -> list[Part]:
    """Returns a linear model of rows that are scaled to length 1, one part per output; ``row`` has the text's
    cells."""
    core = part.expansion._core
    coefficients = (core.points.T @ core.coef)[varying]
    grid = np.arange(LOWEST, 0.5 * math.log(42.0 / (row**2).min()) + STEP, STEP)
    # Below the grid, exponentials of s are 1 and their weights are a geometric series.
    rates = np.concatenate([[0.0], np.exp(2.0 * grid)])
    weights = (
        np.concatenate([[math.exp(LOWEST - STEP) / (1.0 - math.exp(-STEP))], np.exp(grid)])
        * STEP
        * 2.0
        / math.sqrt(math.pi)
    )
    width = len(varying)
    kernel = rk.Linear(columns=list(range(width))) * rk.ExponentialDotProduct(
        columns=list(range(width, 2 * width))
    )
    transform = lambda rows: np.tile((as_cells(rows)[:, word_of_column] != 0).astype(np.float64), (1, 2))
    parts = []
    for output, name in enumerate(core.output_names):
        points = np.hstack(
            [np.tile(coefficients[:, output] * row, (len(rates), 1)), -np.outer(rates, row**2)]
        )
        expansion = Expansion(kernel, points, weights, core.intercept[output], output_names=[name])
        parts.append(
            Part(expansion, [*word_of_column, *word_of_column], transform, has_rows=False, card=part.card)
        )
    return parts


# Other models
# ------------------------------------------------------------------------------------------------------


def _is_over_texts(model: Any) -> bool:
    """Whether a Gaussian process of scikit-learn was fitted on texts with a user-defined kernel."""
    if not type(model).__module__.startswith("sklearn.gaussian_process"):
        return False
    process = getattr(model, "base_estimator_", model)
    process = getattr(process, "estimators_", [process])[0] if not hasattr(process, "X_train_") else process
    rows = getattr(process, "X_train_", None)
    return rows is not None and np.ndim(rows) == 1 and all(isinstance(text, str) for text in rows)


def _whole_texts(model: Any, probabilities: bool, link: str) -> Texts:
    """Returns a model of whole texts, which are split into words here."""
    pattern = re.compile(r"\w+")
    kind = type(model).__name__
    reason = UnsupportedModelError(
        f"a {kind} of whole texts is not read, so its values come from calls of its predictions"
    )
    read = read_predictions(model, reason)
    function, explained = read.function, read.explained
    if link == "logit":
        function, explained = log_odds(model), "log-odds of the probabilities"
    assert function is not None

    def imported(text: str, words: list[str]) -> Imported:
        tokens = re.split(r"(\w+)", text)
        position_of_word = {word: k for k, word in enumerate(words)}

        def text_of_present(present: np.ndarray) -> str:
            kept_text = "".join(
                token for token in tokens if token not in position_of_word or present[position_of_word[token]]
            )
            return text if present.all() else re.sub(r"\s+", " ", kept_text).strip()

        presence_function = lambda rows: function([text_of_present(row) for row in as_cells(rows) != 0])
        return Imported([], explained, list(words), kind, list(read.output_names), presence_function, reason)

    return Texts(pattern.findall, lambda word: True, imported, kind, explained, str(reason))
