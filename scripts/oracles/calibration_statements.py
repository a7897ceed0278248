"""The public methods and attributes of riesz that state an interval, a standard deviation or a probability.

:func:`stated_names` finds them in the package, by names, parameters and documentation.
:func:`missing_statements` lists those without a row of calibration.py, without another script that measures
them, and without a reason.
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator

MODULES = (
    "riesz",
    "riesz.causal",
    "riesz.discrepancy",
    "riesz.distributed",
    "riesz.downscaling",
    "riesz.estimators",
    "riesz.feature_selection",
    "riesz.preference",
    "riesz._explaining.explanation",
)
NAME = re.compile(
    r"(^|_)(std|cov|covariance|variance|intervals?|quantiles?|prob|probabilit|p_?values?|error|bands?|loo)"
)
PARAMETER = re.compile(r"^(return_std|return_cov|covariance|n_bootstrap|jackknife|level|posterior)$")
TEXT = re.compile(
    r"standard (deviation|error)|(credible|confidence|95 %|80 %) interval|\bintervals?\b|\bquantiles?\b"
    r"|posterior (probability|distribution|draw|variance|mean and variance)"
    r"|\bdraws (of|from)|\bprobabilit|\bband\b",
    re.IGNORECASE,
)
RESULT = re.compile(r"\b(CausalEstimate|Component|Rankability|SageValues|SobolIndices|Suggestions|Witness)\b")
#: Entries of a class's section "Attributes".
ATTRIBUTE = re.compile(r"^    ?(\w[\w, ]*) :", re.MULTILINE)

#: Names that another script measures.
MEASURED_ELSEWHERE = {
    "Explanation.std_error": "coverage.py",
    "Explainer.refine": "coverage.py",
    "Explanation.conditioning_covariance": "experiments/conditioning.py",
    "Explainer.__call__": "coverage.py and the rows of Shapley values",
    "KernelTestResult.pvalue": "levels.py",
    "KernelTestResult.pvalues": "levels.py",
    "KernelTestResult.adjusted_pvalues": "levels.py",
    "KernelTestResult.marginal_pvalues": "levels.py",
    "HigherOrder.pvalue": "levels.py",
    "SelectHSIC*": "levels.py, as hsic_test",
}

#: Names without a row, with the reason; ``*`` is any text.
WITHOUT_ROW = {
    "*.save": "writes the numbers of other methods",
    "*.report": "shows the numbers of other methods",
    "AggregateCountProcess.predict": "a mean; predict_quantiles has its intervals",
    "AggregateCountProcess.predict_benchmarked": "its documentation says that it has no intervals",
    "AggregateGaussianProcess.fit": "takes standard errors of targets, and states none",
    "AggregateGaussianProcess.predict_aggregate": "not measured yet: tests compare it with its definition",
    "AggregateGaussianProcess.score": "a score",
    "CausalEffect.published": "the source's bands, whose faults its documentation lists",
    "CausalEstimate.covariance_by_source": "parts of CausalEstimate.cov",
    "CausalEstimate.restricted_to": "parts of CausalEstimate.cov",
    "CausalEstimate.variance_by_source": "parts of CausalEstimate.cov",
    "CausalFusion.*": "the methods of CausalEffect",
    "DuelSuggestions.*": "Monte Carlo errors, compared with repetitions in tests; and predict_proba",
    "EvaluationResult.*": "not measured yet: the population of held-out pairs has no generator",
    "Explainer.explain_variance": "an exact computation of the variance that predict states",
    "ConditionalMean.next_evaluations": "the standard deviation from a process, which expectation reports",
    "Expansion.protected": "a penalty is a wish about the model, not an observation of the world",
    "Explanation.unexplained_share": "a share of a prior variance, which decides a warning",
    "Explainer.top_interactions": "values without uncertainty",
    "Instrument.covariates": "names of columns",
    "KernelLogisticRegression.decision_function": "an estimate without a stated uncertainty",
    "KernelLogisticRegression.predict_proba": "an estimate without a stated uncertainty",
    "KernelStatistic.pvalue": "the p-value of KernelTestResult",
    "LeaveOneOut.error": "an error, which is known",
    "PairClassifier.predict_proba": "probabilities of the user's classifier",
    "PreferenceClassifier.*_variance_": "hyper-parameters",
    "PreferenceClassifier.explain": "the covariance of Explanation, for log odds that rows measure",
    "PreferenceClassifier.fit_choices": "fits, and states nothing",
    "PreferenceClassifier.suggest": "see DuelSuggestions",
    "PreferenceClusters.covariates_labels_": "labels",
    "Rankability.probability_best_std_error": "the error of a share of draws, which is binomial",
    "Rankability.probability_condorcet_std_error": "the error of a share of draws, which is binomial",
    "SVC.predict*": "refused",
    "SobolIndices.variance": "a number without uncertainty",
    "evaluate": "see EvaluationResult",
    "explain": "PreferenceClassifier.explain for saved models",
    "fit": "the models of other classes, fitted to many rows",
}


def _public_objects() -> Iterator[tuple[str, object]]:
    """Public classes and functions by name, each once."""
    found_ids = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", None) or dir(module):
            item = getattr(module, name, None)
            is_ours = getattr(item, "__module__", "").startswith("riesz")
            if not name.startswith("_") and is_ours and (inspect.isclass(item) or inspect.isfunction(item)):
                if id(item) not in found_ids:
                    found_ids.add(id(item))
                    yield item.__name__, item


def _states_uncertainty(name: str, member: object) -> bool:
    """Whether a method, property or function states an uncertainty, by its name, parameters or text."""
    if NAME.search(name) or TEXT.search(inspect.getdoc(member) or ""):
        return True
    returned = str(getattr(member, "__annotations__", {}).get("return", ""))
    return bool(RESULT.search(returned)) or _has_parameter(member)


def _has_parameter(item: object) -> bool:
    """Whether a function, or a class's constructor, takes a parameter of uncertainty."""
    try:
        parameters = inspect.signature(item).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return any(map(PARAMETER.match, parameters))


def _members(item: type) -> Iterator[tuple[str, object]]:
    """Public methods, properties and fields of a class, inherited ones of riesz included."""
    methods = set()
    for name in [name for name in dir(item) if not name.startswith("_") or name == "__call__"]:
        member = inspect.getattr_static(item, name)
        member = (
            getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "fn", member)
        )
        member = getattr(member, "__func__", member)
        if inspect.isfunction(member) and member.__module__.startswith("riesz"):
            methods.add(name)
            yield name, member
    fields = {name for base in item.__mro__ for name in base.__dict__.get("__annotations__", {})}
    fields |= {name.strip() for text in ATTRIBUTE.findall(_attributes(item)) for name in text.split(",")}
    for name in sorted(fields - methods):
        if not name.startswith("_"):
            yield name, None


def _attributes(item: type) -> str:
    """The section "Attributes" of a class's documentation, indented."""
    text = inspect.getdoc(item) or ""
    parts = re.split(r"\n(\w+)\n-+\n", text)
    sections = dict(zip(parts[1::2], parts[2::2]))
    return "\n".join(
        "   " + line for line in sections.get("Attributes", "").splitlines() if not line.startswith(" ")
    )


def stated_names() -> list[str]:
    """Names of public functions, and of members of public classes, that state an uncertainty."""
    names = []
    for name, item in _public_objects():
        if not inspect.isclass(item):
            names += [name] if _states_uncertainty(name, item) else []
            continue
        names += [name] if _has_parameter(item) else []
        for member_name, member in _members(item):
            by_name = NAME.search(member_name) if member is None else _states_uncertainty(member_name, member)
            names += [f"{name}.{member_name}"] if by_name else []
    return sorted(set(names))


def _matches(name: str, entries: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, entry) for entry in entries)


def missing_statements(measured: Iterable[str]) -> list[str]:
    """Stated names that neither a row, nor another script, nor a reason covers."""
    known = {*measured, *MEASURED_ELSEWHERE, *WITHOUT_ROW}
    return [name for name in stated_names() if not _matches(name, known)]


def unknown_statements(measured: Iterable[str]) -> list[str]:
    """Names in rows and lists that the package does not have."""
    existing = {name for name, _ in _public_objects()}
    for name, item in _public_objects():
        if inspect.isclass(item):
            existing |= {f"{name}.{member}" for member, _ in _members(item)}
    listed = {*measured, *MEASURED_ELSEWHERE, *WITHOUT_ROW}
    return [name for name in sorted(listed) if not fnmatch.filter(existing, name)]
