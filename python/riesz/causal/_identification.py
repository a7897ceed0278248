"""Causal graphs: whether and how an effect is identified from the measured variables, and by which
assumptions.

>>> from riesz.causal import identify
>>> graph = "age -> statin; age -> psa; bmi -> statin; bmi -> psa; statin -> psa; psa -> volume"
>>> studies = [["statin", "age", "bmi", "psa"], ["psa", "volume"]]
>>> found = identify(graph, treatment="statin", outcome="volume", studies=studies)
>>> found
Identification(back-door, adjusting for age and bmi; volume depends on statin only through psa)
>>> found.adjust
('age', 'bmi')

If an effect is identified by a formula other than an adjustment, the result has this formula, which riesz
does not estimate:

>>> napkin = "W1 -> W2 -> X -> Y; W1 <-> X; W1 <-> Y"
>>> identify(napkin, treatment="X", outcome="Y", studies=[["W1", "W2", "X", "Y"]]).formula
'P(Y | do(X)) = [Σ_W1 P(W1) P(X, Y | W1, W2)] / [Σ_W1 P(W1) P(X | W1, W2)], for any value of W2'

An effect that is not identified raises a `NotIdentifiedError` with an open path and with what would help."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import _core
from ._graphs import graph_text

__all__ = [
    "Bridge",
    "GraphParts",
    "Hedge",
    "Identification",
    "Instrument",
    "NotIdentifiedError",
    "d_separated",
    "effect_formula",
    "identify",
    "instrument",
    "open_path",
    "read_graph",
    "sequential_adjustment",
]


@dataclass(frozen=True)
class Hedge:
    """The proof that no formula gives an effect: two sets of measured variables, each connected by hidden
    common causes."""

    #: The set with treatments, and its subset without treatments, which all its members cause.
    larger: tuple[str, ...]
    smaller: tuple[str, ...]
    #: The treatments in the larger set.
    treatments: tuple[str, ...]
    #: The pairs of the larger set with a hidden common cause.
    confounded: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Instrument:
    """A variable that affects a treatment, and the outcome only through it, given some covariates."""

    variable: str
    covariates: tuple[str, ...]


class NotIdentifiedError(ValueError):
    """Raised for an effect that no formula of the measured variables gives."""

    def __init__(self, message: str, hedge: Hedge, instrument: Instrument | None = None) -> None:
        super().__init__(message)
        #: The proof that there is no formula.
        self.hedge = hedge
        #: An instrument, which identifies the effect under further assumptions.
        self.instrument = instrument

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.hedge, self.instrument)


@dataclass(frozen=True)
class Bridge:
    """The shared columns between a study and the next."""

    #: Shared columns that the treatments affect and that transmit their effect.
    mediators: tuple[str, ...]
    #: Shared columns that the treatments do not affect, and on which the outcome depends besides the
    #: mediators.
    passive: tuple[str, ...]
    #: Shared columns without use: given the others, the outcome does not depend on them.
    unused: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The mediators and the passive columns."""
        return self.mediators + self.passive


@dataclass(frozen=True, repr=False)
class Identification:
    """The identification of an effect across studies from the measured variables."""

    #: The treatments that affect the outcome if all treatments are set, and those that do not.
    treatments: tuple[str, ...]
    without_effect: tuple[str, ...]
    outcome: str
    #: "back_door", "front_door", "sequential", "randomized" or "constant"; or "formula", which riesz does not
    #: estimate.
    strategy: str
    #: Columns of the first study to adjust for; with a front door the covariates given which it holds.
    adjust: tuple[str, ...]
    #: Columns of the first study that transmit the whole effect, with a front door.
    front_door: tuple[str, ...]
    #: Other minimal sets that could replace ``adjust`` or ``front_door``, and whether the list is complete.
    alternatives: tuple[tuple[str, ...], ...]
    alternatives_complete: bool
    #: The source: "graph", "confirmed" (given, and the graph agrees) or "user" (given, without a graph).
    source: str
    #: The bridge between each study and the next.
    bridges: tuple[Bridge, ...]
    #: The assumptions, in words.
    assumptions: tuple[str, ...]
    #: Columns that are not used because the graph does not have them.
    unknown: tuple[str, ...]
    _text: str = field(compare=False)
    #: With "sequential" the treatments in causal order, each with the covariates that are added for it.
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: With "formula" the effect in terms of the measured variables, such as ``"P(Y | do(X)) = …"``; else
    #: empty.
    formula: str = ""
    #: With "formula" lists of variables; measuring any one of them would give an adjustment.
    would_help: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self._text}; assumed: {'; '.join(self.assumptions)}"

    def __repr__(self) -> str:
        return f"Identification({self._text})"


def identify(
    graph: Any,
    *,
    treatment: str | Iterable[str],
    outcome: str,
    studies: Sequence[Iterable[str]],
    adjust: str | Iterable[str] | None = None,
    front_door: str | Iterable[str] | None = None,
    randomized: bool = False,
    differs: Mapping[int | str, str | Iterable[str]] | None = None,
) -> Identification:
    """Returns how the effect of ``treatment`` on ``outcome`` is identified from studies that measured
    different columns.

    ``graph`` is text (``"age -> dose; dose -> psa <-> bmi"``, DOT, DAGitty's, GML, JSON, BIF, bnlearn's,
    lavaan's or Tetrad's), a directed graph of networkx, pgmpy, DoWhy, y0 or ananke, or an adjacency matrix as
    a data frame (rows are causes). With ``None``, ``adjust``, ``front_door`` or ``randomized`` is assumed to
    hold. ``studies`` are lists of columns, or tables: the first has the treatments, the last the outcome, and
    each shares columns with the next. ``adjust`` and ``front_door`` name columns of the first study, and are
    checked against the graph; ``randomized`` means that treatments were assigned at random there.
    ``differs`` gives, by a study's number from 1 or as ``"study 2"``, variables whose mechanism differs in
    it.

    With one study, several treatments may also be adjusted for one after the other (sequential back-door):
    see ``steps``. An effect that only another formula gives has ``strategy="formula"``. If no formula gives
    it, raises `NotIdentifiedError`, a ``ValueError``, with an open path and with what would help."""
    return answered(*core_query(graph, treatment, outcome, studies, adjust, front_door, randomized, differs))


def core_query(
    graph: Any,
    treatment: str | Iterable[str],
    outcome: str,
    studies: Sequence[Any],
    adjust: str | Iterable[str] | None,
    front_door: str | Iterable[str] | None,
    randomized: bool,
    differs: Mapping[int | str, str | Iterable[str]] | None,
) -> tuple[Any, str]:
    """Returns the graph and the query as the core takes them."""
    strategies = {
        "adjust": adjust is not None,
        "front_door": front_door is not None,
        "randomized": randomized,
    }
    if sum(strategies.values()) > 1:
        given_names = " and ".join(name for name, is_given in strategies.items() if is_given)
        raise ValueError(f"{given_names} exclude one another: give one")
    strategy: Any = "derive"
    if adjust is not None:
        strategy = {"adjust": _names(adjust)}
    elif front_door is not None:
        strategy = {"front_door": _names(front_door)}
    elif randomized:
        strategy = "randomized"
    if isinstance(studies, str) or any(isinstance(study, str) for study in studies):
        raise TypeError("studies is a list with a list of columns, or a table, for each study")
    query = {
        "treatments": _names(treatment),
        "outcome": outcome,
        "studies": [_names(getattr(study, "columns", study)) for study in studies],
        "strategy": strategy,
        "differs": {_study(key): _names(names) for key, names in (differs or {}).items()},
    }
    return None if graph is None else graph_text(graph), json.dumps(query)


def answered(graph: Any, query: str) -> Identification:
    """Returns the core's answer to a query of :func:`core_query`."""
    text, text_of_answer = _core.identify_effect(graph, query)
    answer = json.loads(text)
    if answer.get("identified", True):
        return _identification(answer, text_of_answer)
    record = answer["instrument"]
    instrument_record = None if record is None else Instrument(record["variable"], tuple(record["given"]))
    raise NotIdentifiedError(text_of_answer, _hedge(answer["hedge"]), instrument_record)


def effect_formula(
    graph: Any,
    *,
    treatment: str | Iterable[str],
    outcome: str | Iterable[str],
    measured: Iterable[str] | None = None,
) -> str:
    """Returns the distribution of ``outcome`` under an intervention on ``treatment``, as a formula of the
    measured variables.

    ``measured`` are all variables of the graph by default. The algorithm is complete (Shpitser and Pearl
    2006): it raises `NotIdentifiedError` with a hedge if no formula gives the distribution.

    >>> from riesz.causal import effect_formula
    >>> effect_formula("Z -> X -> Y; Z -> Y", treatment="X", outcome="Y")
    'P(Y | do(X)) = Σ_Z P(Z) P(Y | Z, X)'
    """
    names = None if measured is None else _names(measured)
    formula, answer = _core.formula_of_effect(graph_text(graph), _names(treatment), _names(outcome), names)
    if formula is not None:
        return formula
    hedge = _hedge(json.loads(answer))
    pairs = ", ".join(f"{a} <-> {b}" for a, b in hedge.confounded)
    effect = f"the effect of {', '.join(_names(treatment))} on {', '.join(_names(outcome))}"
    ends = f"{', '.join(hedge.treatments)} with {', '.join(hedge.smaller)}"
    raise NotIdentifiedError(
        f"{effect} is not identified: the hidden common causes {pairs} connect {ends}",
        hedge,
    )


def instrument(
    graph: Any, *, treatment: str, outcome: str, measured: Iterable[str] | None = None
) -> Instrument | None:
    """Returns an instrument for the effect of ``treatment`` on ``outcome`` with its covariates; ``None`` if
    there is none.

    >>> from riesz.causal import instrument
    >>> instrument("Z -> X -> Y; X <-> Y", treatment="X", outcome="Y")
    Instrument(variable='Z', covariates=())
    """
    names = None if measured is None else _names(measured)
    tool = _core.find_instrument(graph_text(graph), treatment, outcome, names)
    return None if tool is None else Instrument(tool[0], tuple(tool[1]))


def sequential_adjustment(
    graph: Any, *, treatment: Iterable[str], outcome: str, measured: Iterable[str] | None = None
) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """Returns covariates for treatments in time, by the sequential back-door criterion of Pearl and Robins
    (1995).

    The result has each treatment that affects the outcome, in causal order, with the covariates that are
    added for it; ``None`` if no sequence of covariates identifies the joint effect. The effect is then given
    by the g-formula.

    >>> from riesz.causal import sequential_adjustment
    >>> graph = "L0 -> A0, L1, Y; A0 -> L1, Y; L1 -> A1, Y; A1 -> Y"
    >>> sequential_adjustment(graph, treatment=["A0", "A1"], outcome="Y")
    (('A0', ('L0',)), ('A1', ('L1',)))
    """
    names = None if measured is None else _names(measured)
    sequence = _core.find_sequence(graph_text(graph), _names(treatment), outcome, names)
    return None if sequence is None else tuple((name, tuple(adjust)) for name, adjust in sequence)


class GraphParts(NamedTuple):
    """The variables and edges of a graph."""

    #: The variables, in the order in which they are first named.
    variables: tuple[str, ...]
    #: Variables that the graph declares unmeasured.
    latent: tuple[str, ...]
    #: Causes and their direct effects.
    arrows: tuple[tuple[str, str], ...]
    #: Pairs with a hidden common cause.
    confounded: tuple[tuple[str, str], ...]


def read_graph(graph: Any) -> GraphParts:
    """Returns the variables and edges of a graph in any of the formats that `identify` takes.

    >>> from riesz.causal import read_graph
    >>> read_graph("[Z][X|Z][Y|X:Z]").arrows
    (('Z', 'X'), ('Z', 'Y'), ('X', 'Y'))
    """
    variables, latent, arrows, confounded = _core.graph_parts(graph_text(graph))
    return GraphParts(tuple(variables), tuple(latent), tuple(arrows), tuple(confounded))


def d_separated(
    graph: Any, a: str | Iterable[str], b: str | Iterable[str], conditioning: str | Iterable[str] = ()
) -> bool:
    """Whether ``graph`` implies that ``a`` and ``b`` are independent given ``conditioning``; variables in it
    are removed from both sides."""
    return open_path(graph, a, b, conditioning) is None


def open_path(
    graph: Any, a: str | Iterable[str], b: str | Iterable[str], conditioning: str | Iterable[str] = ()
) -> str | None:
    """Returns a shortest path that leaves ``a`` and ``b`` dependent given ``conditioning``; ``None`` if they
    are d-separated."""
    return _core.open_path(graph_text(graph), _names(a), _names(b), _names(conditioning))


def _names(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else [str(name) for name in names]


def _study(key: int | str) -> int:
    text = str(key).removeprefix("study ")
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"differs names the study {key!r}: give its number from 1, or 'study 2'")
    return int(text) - 1


def _hedge(answer: dict[str, Any]) -> Hedge:
    pairs = tuple((a, b) for a, b in answer["confounded"])
    return Hedge(tuple(answer["larger"]), tuple(answer["smaller"]), tuple(answer["treatments"]), pairs)


def _identification(answer: dict[str, Any], text: str) -> Identification:
    strategy = answer["strategy"]
    bridges = (
        Bridge(*(tuple(bridge[part]) for part in ("mediators", "passive", "unused")))
        for bridge in answer["bridges"]
    )
    return Identification(
        treatments=tuple(answer["treatments"]),
        without_effect=tuple(answer["without_effect"]),
        outcome=answer["outcome"],
        strategy=strategy["kind"],
        adjust=tuple(strategy.get("adjust", strategy.get("conditioning", ()))),
        front_door=tuple(strategy.get("mediators", ())),
        alternatives=tuple(tuple(names) for names in strategy.get("alternatives", ())),
        alternatives_complete=strategy.get("alternatives_complete", True),
        source=answer["source"],
        bridges=tuple(bridges),
        assumptions=tuple(answer["assumptions"]),
        unknown=tuple(answer["unknown"]),
        _text=text,
        steps=tuple((step["treatment"], tuple(step["adjust"])) for step in strategy.get("steps", ())),
        formula=strategy.get("formula", ""),
        would_help=tuple(tuple(names) for names in strategy.get("would_help", ())),
    )
