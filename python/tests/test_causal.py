"""Causal graphs and separation, against networkx. The criteria are tested in Rust, against their
definitions."""

import itertools

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.causal import d_separated, identify, open_path

networkx = pytest.importorskip("networkx")

STATIN = "age -> statin; age -> psa; bmi -> statin; bmi -> psa; statin -> psa; psa -> volume"
STUDIES = [["statin", "age", "bmi", "psa"], ["psa", "volume"]]


def drawn(rng, count=7, density=0.35):
    """A random graph in which the names of nodes are independent of their order."""
    names = [f"v{i}" for i in rng.permutation(count)]
    graph = networkx.DiGraph()
    graph.add_nodes_from(sorted(names))
    graph.add_edges_from(pair for pair in itertools.combinations(names, 2) if rng.random() < density)
    return graph


def test_d_separation_is_that_of_networkx():
    rng = np.random.default_rng(0)
    counts = [0, 0]
    for _ in range(200):
        graph = drawn(rng)
        nodes = list(graph)
        for _ in range(10):
            part = rng.integers(0, 4, size=len(nodes))
            a, b, conditioned = ({v for v, p in zip(nodes, part) if p == k} for k in (0, 1, 2))
            expected = networkx.is_d_separator(graph, a, b, conditioned)
            assert d_separated(graph, a, b, conditioned) == expected
            text = "; ".join([*nodes, *(f"{u} -> {v}" for u, v in graph.edges)])
            path = open_path(text, a, b, conditioned)
            assert (path is None) == expected
            counts[expected] += 1
            if path is not None:
                words = path.split()
                assert words[0] in a and words[-1] in b
                for u, arrow, v in zip(words[::2], words[1::2], words[2::2]):
                    assert graph.has_edge(u, v) if arrow == "->" else graph.has_edge(v, u)
    assert min(counts) > 300


def test_sets_separate_and_are_minimal():
    rng = np.random.default_rng(1)
    n_found = refused = 0
    while n_found < 60 or refused < 20:
        graph = drawn(rng)
        x, y = rng.choice(list(graph), size=2, replace=False)
        if not networkx.has_path(graph, x, y):
            continue
        measured = [v for v in graph if v in (x, y) or rng.random() < 0.8]
        behind = graph.copy()
        behind.remove_edges_from(list(graph.out_edges(x)))
        usable = set(measured) - {x, y} - networkx.descendants(graph, x)
        sets = [
            set(z)
            for size in range(len(usable) + 1)
            for z in itertools.combinations(sorted(usable), size)
            if networkx.is_d_separator(behind, {x}, {y}, set(z))
        ]
        minimal = {frozenset(z) for z in sets if not any(other < z for other in sets)}
        try:
            answer = identify(graph, treatment=x, outcome=y, studies=[measured])
        except ValueError:
            assert not minimal
            refused += 1
            continue
        if answer.strategy == "back_door":
            assert {frozenset(z) for z in (answer.adjust, *answer.alternatives)} == minimal
            n_found += 1
        else:
            assert answer.strategy == "front_door" and not minimal


def test_the_statin_example():
    answer = identify(STATIN, treatment="statin", outcome="volume", studies=STUDIES)
    assert (answer.strategy, answer.adjust, answer.bridges[0].columns) == (
        "back_door",
        ("age", "bmi"),
        ("psa",),
    )
    assert (
        repr(answer)
        == "Identification(back-door, adjusting for age and bmi; volume depends on statin only through psa)"
    )
    assert str(answer).startswith(
        "back-door, adjusting for age and bmi; volume depends on statin only through psa; assumed: the graph "
        "is right"
    )
    tables = [pd.DataFrame(columns=columns) for columns in STUDIES]
    assert identify(STATIN, treatment=["statin"], outcome="volume", studies=tables) == answer
    arrows = [tuple(arrow.split(" -> ")) for arrow in STATIN.split("; ")]
    assert identify(networkx.DiGraph(arrows), treatment="statin", outcome="volume", studies=STUDIES) == answer
    confirmed = identify(STATIN, treatment="statin", outcome="volume", studies=STUDIES, adjust=["age", "bmi"])
    assert (confirmed.source, confirmed.adjust) == ("confirmed", answer.adjust)
    trusted = identify(None, treatment="statin", outcome="volume", studies=STUDIES, adjust="age")
    assert trusted.source == "user" and "not derived" in str(trusted)
    trial = identify(STATIN, treatment="statin", outcome="volume", studies=STUDIES, randomized=True)
    assert (trial.strategy, trial.adjust) == ("randomized", ())
    front = identify("x -> m -> y; x <-> y", treatment="x", outcome="y", studies=[["x", "m", "y"]])
    assert (front.strategy, front.front_door) == ("front_door", ("m",))
    assert identify("x -> y", treatment="y", outcome="x", studies=[["x", "y"]]).strategy == "constant"
    with pytest.raises(AttributeError):
        answer.strategy = "front_door"
    assert riesz.causal.identify is identify


def test_refusals_say_what_is_wrong():
    ask = {"treatment": "statin", "outcome": "volume", "studies": STUDIES}
    for graph, change, expected in [
        (
            STATIN,
            {"studies": [["statin", "age", "psa"], ["psa", "volume"]]},
            "statin <- bmi -> psa stays open; measuring bmi",
        ),
        (STATIN, {"differs": {"study 2": "volume"}}, "as they differ in volume"),
        (STATIN, {"differs": {2: ["volume"]}}, "as they differ in volume"),
        (STATIN, {"differs": {0: ["volume"]}}, "differs names the study 0: give its number from 1"),
        (STATIN, {"adjust": ["age"], "randomized": True}, "adjust and randomized exclude one another"),
        (STATIN, {"treatment": "statn"}, "did you mean statin?"),
        (STATIN, {"treatment": []}, "the list of treatments is empty"),
        (None, {}, "without a graph"),
        ("a -> b -> a", {}, "the graph has a cycle, "),
        (networkx.DiGraph([("a", "b"), ("b", "a")]), {}, "the graph has a cycle, "),
        (networkx.Graph([("a", "b")]), {}, "give a networkx.DiGraph"),
    ]:
        with pytest.raises(ValueError) as refusal:
            identify(graph, **{**ask, **change})
        assert expected in str(refusal.value)
    with pytest.raises(TypeError, match="a graph is text, a directed graph of networkx.*not int"):
        identify(3, **ask)
    with pytest.raises(TypeError, match="a list of columns"):
        identify(STATIN, treatment="statin", outcome="volume", studies=["statin", "psa"])
