"""Causal graphs: whether, how and under which assumptions an effect follows from what studies measured.

>>> from riesz.causal import identify
>>> graph = "age -> statin; age -> psa; bmi -> statin; bmi -> psa; statin -> psa; psa -> volume"
>>> studies = [["statin", "age", "bmi", "psa"], ["psa", "volume"]]
>>> found = identify(graph, treatment="statin", outcome="volume", studies=studies)
>>> found
Identification(back-door, adjusting for age and bmi; volume depends on statin only through psa)
>>> found.adjust
('age', 'bmi')

What is not identified is refused, with a path that stays open and what would help.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core

__all__ = ["Bridge", "Identification", "d_separated", "identify", "open_path"]


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True)
class Bridge:
    """What ties a study to the next."""

    #: Shared columns that the treatments affect, and that carry their effect.
    mediators: tuple[str, ...]
    #: Shared columns that the treatments do not affect, and that the outcome depends on beside the mediators.
    passive: tuple[str, ...]
    #: Shared columns of no use: given the others, they say nothing more of the outcome.
    unused: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of use, mediators first."""
        return self.mediators + self.passive


@dataclass(frozen=True, repr=False)
class Identification:
    """How an effect across studies follows from what was measured."""

    #: The treatments that affect the outcome when all are set, and those that then do not.
    treatments: tuple[str, ...]
    without_effect: tuple[str, ...]
    outcome: str
    #: "back_door", "front_door", "sequential", "randomized" or "constant".
    how: str
    #: Columns of the first study that are adjusted for; with a front door those within each value of which it holds.
    adjust: tuple[str, ...]
    #: Columns of the first study through which all of the effect passes, with a front door.
    front_door: tuple[str, ...]
    #: Other minimal sets that serve as well as ``adjust`` or ``front_door``, and whether these are all.
    others: tuple[tuple[str, ...], ...]
    listed: bool
    #: Who says so: "graph", "confirmed" (given, and the graph agrees) or "user" (given, without a graph).
    source: str
    #: Between each study and the next.
    bridges: tuple[Bridge, ...]
    #: What must hold, in words.
    assumptions: tuple[str, ...]
    #: Columns that are in no use because the graph does not know them.
    unknown: tuple[str, ...]
    _says: str = field(compare=False)
    #: With "sequential" the treatments in causal order, each with the covariates that are added before it.
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        return f"{self._says}; assumed: {'; '.join(self.assumptions)}"

    def __repr__(self) -> str:
        return f"Identification({self._says})"


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
    """Says how the effect of ``treatment`` on ``outcome`` follows from studies that measured different columns.

    ``graph`` is text (``"age -> dose; dose -> psa <-> bmi"``, DOT or DAGitty's), a directed graph of networkx, or ``None``
    to take ``adjust``, ``front_door`` or ``randomized`` on trust. ``studies`` are lists of columns, or tables: the first has
    the treatments, the last the outcome, and each shares columns with the next. ``adjust`` and ``front_door`` name columns of
    the first study, which a graph checks; ``randomized`` says that treatments were assigned by chance there. ``differs``
    names, by a study's number from 1 or as ``"study 2"``, variables that come about differently in it.

    With one study, several treatments are also adjusted for one after the other (sequential back-door): see ``steps``.
    Raises ``ValueError`` with a path that stays open and what would help, where the effect is not identified.
    """
    return answered(*asked(graph, treatment, outcome, studies, adjust, front_door, randomized, differs))


def asked(
    graph: Any,
    treatment: str | Iterable[str],
    outcome: str,
    studies: Sequence[Any],
    adjust: str | Iterable[str] | None,
    front_door: str | Iterable[str] | None,
    randomized: bool,
    differs: Mapping[int | str, str | Iterable[str]] | None,
) -> tuple[Any, str]:
    """The graph and the question as the core takes them."""
    ways = {"adjust": adjust is not None, "front_door": front_door is not None, "randomized": randomized}
    if sum(ways.values()) > 1:
        raise ValueError(f"{' and '.join(way for way, given in ways.items() if given)} exclude one another: give one")
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
    return None if graph is None else _graph(graph), json.dumps(query)


def answered(graph: Any, query: str) -> Identification:
    """The answer to what was :func:`asked`."""
    answer, says = _core.identify_effect(graph, query)
    return _identification(json.loads(answer), says)


def d_separated(graph: Any, a: str | Iterable[str], b: str | Iterable[str], given: str | Iterable[str] = ()) -> bool:
    """Whether ``graph`` says that ``a`` and ``b`` are independent given ``given``; what is given counts on neither side."""
    return open_path(graph, a, b, given) is None


def open_path(graph: Any, a: str | Iterable[str], b: str | Iterable[str], given: str | Iterable[str] = ()) -> str | None:
    """Give a shortest path that leaves ``a`` and ``b`` dependent given ``given``; ``None`` if they are d-separated."""
    return _core.open_path(_graph(graph), _names(a), _names(b), _names(given))


def _names(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else [str(name) for name in given]


def _study(key: int | str) -> int:
    text = str(key).removeprefix("study ")
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"differs names the study {key!r}: give its number from 1, or 'study 2'")
    return int(text) - 1


def _graph(graph: Any) -> str | tuple[list[str], list[tuple[str, str]]]:
    if isinstance(graph, str):
        return graph
    if not (hasattr(graph, "edges") and hasattr(graph, "nodes")):
        raise TypeError(f"a graph is text or a directed graph of networkx, not {type(graph).__name__}")
    if not graph.is_directed():
        raise ValueError("the graph's edges have no direction: give a networkx.DiGraph")
    return [str(node) for node in graph.nodes], [(str(edge[0]), str(edge[1])) for edge in graph.edges]


def _identification(answer: dict[str, Any], says: str) -> Identification:
    how = answer["how"]
    bridges = (Bridge(*(tuple(bridge[part]) for part in ("mediators", "passive", "unused"))) for bridge in answer["bridges"])
    return Identification(
        treatments=tuple(answer["treatments"]),
        without_effect=tuple(answer["without_effect"]),
        outcome=answer["outcome"],
        how=how["way"],
        adjust=tuple(how.get("adjust", how.get("given", ()))),
        front_door=tuple(how.get("through", ())),
        others=tuple(tuple(names) for names in how.get("others", ())),
        listed=how.get("listed", True),
        source=answer["source"],
        bridges=tuple(bridges),
        assumptions=tuple(answer["assumptions"]),
        unknown=tuple(answer["unknown"]),
        _says=says,
        steps=tuple((step["treatment"], tuple(step["adjust"])) for step in how.get("steps", ())),
    )
