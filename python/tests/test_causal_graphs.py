"""Graphs of other packages, and identification by formulas. The algorithms are tested in Rust, against
enumeration."""

import itertools
import json
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from riesz.causal import (
    Hedge,
    Instrument,
    NotIdentifiedError,
    effect_formula,
    identify,
    instrument,
    read_graph,
    sequential_adjustment,
)

networkx = pytest.importorskip("networkx")

NAPKIN = "W1 -> W2 -> X -> Y; W1 <-> X; W1 <-> Y"
FORMULA = "P(Y | do(X)) = [Σ_W1 P(W1) P(X, Y | W1, W2)] / [Σ_W1 P(W1) P(X | W1, W2)], for any value of W2"


def drawn(rng, count=6, density=0.4):
    names = [f"v {i}" for i in rng.permutation(count)]
    graph = networkx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(pair for pair in itertools.combinations(names, 2) if rng.random() < density)
    return graph


def matches(read, graph):
    return set(read.variables) == set(graph) and set(read.arrows) == set(graph.edges) and not read.confounded


def test_graphs_that_networkx_writes_read_back():
    rng = np.random.default_rng(0)
    for _ in range(30):
        graph = drawn(rng)
        assert matches(read_graph(graph), graph)
        assert matches(read_graph("\n".join(networkx.generate_gml(graph))), graph)
        assert matches(read_graph(json.dumps(networkx.node_link_data(graph))), graph)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert matches(read_graph(networkx.to_pandas_adjacency(graph)), graph)
        assert "rows are taken for causes of columns" in str(caught[0].message) or not graph.edges


def test_edges_and_nodes_have_attributes():
    graph = networkx.MultiDiGraph([("X", "Y")])
    graph.add_edge("X", "Y", dir="both")
    graph.add_node("U", observed="no")
    read = read_graph(graph)
    assert (read.arrows, read.confounded, read.latent) == ((("X", "Y"),), (("X", "Y"),), ("U",))
    pgmpy = networkx.DiGraph([("U", "X"), ("U", "Y"), (1, "X")])
    pgmpy.latents = {"U"}
    assert read_graph(pgmpy).latent == ("U",)
    assert read_graph(pgmpy).variables == ("U", "X", "Y", "1")


def test_graphs_of_other_packages_are_read_by_their_edges():
    inner = networkx.DiGraph([("Z", "X"), ("Z", "Y"), ("X", "Y")])
    arrows = {("Z", "X"), ("Z", "Y"), ("X", "Y")}
    dowhy = SimpleNamespace(_graph=SimpleNamespace(_graph=inner))
    y0 = SimpleNamespace(directed=inner, undirected=networkx.Graph([("X", "Y")]))
    ananke = SimpleNamespace(vertices={n: None for n in "XYZ"}, di_edges=arrows, bi_edges=[("X", "Y")])
    for graph, confounded in [(dowhy, 0), (dowhy._graph, 0), (y0, 1), (ananke, 1)]:
        read = read_graph(graph)
        assert set(read.arrows) == arrows and len(read.confounded) == confounded
    lingam = pd.DataFrame([[0, 0.5], [0, 0]], index=["X", "Y"], columns=["X", "Y"])
    with pytest.raises(
        ValueError, match="it is not clear whether rows are causes or effects: write 'from' in the first cell"
    ):
        read_graph(lingam)
    assert read_graph(lingam.rename_axis("to")).arrows == (("Y", "X"),)
    with pytest.raises(TypeError, match="a graph is text, a directed graph of networkx"):
        read_graph(3)


def test_formulas_hedges_and_instruments():
    answer = identify(NAPKIN, treatment="X", outcome="Y", studies=[["W1", "W2", "X", "Y"]])
    assert (answer.strategy, answer.formula) == ("formula", FORMULA)
    assert answer.would_help == (
        ("the hidden common cause W1 <-> X",),
        ("the hidden common cause W1 <-> Y",),
    )
    assert (
        repr(answer)
        == f"Identification(identified, but not by an adjustment that riesz estimates: {FORMULA})"
    )
    assert effect_formula(NAPKIN, treatment="X", outcome="Y") == FORMULA
    assert effect_formula("Z -> X -> Y; Z -> Y", treatment="X", outcome=["Y", "Z"]).startswith(
        "P(Z, Y | do(X)) = "
    )
    for ask in (identify, effect_formula):
        options = {"studies": [["X", "Y", "Z"]]} if ask is identify else {"measured": ["X", "Y", "Z"]}
        with pytest.raises(NotIdentifiedError, match="is not identified") as refused:
            ask("Z -> X -> Y; X <-> Y", treatment="X", outcome="Y", **options)
        assert refused.value.hedge == Hedge(("X", "Y"), ("Y",), ("X",), (("X", "Y"),))
        again = pickle.loads(pickle.dumps(refused.value))
        assert (str(again), again.hedge) == (str(refused.value), refused.value.hedge)
        assert refused.value.instrument == (Instrument("Z", ()) if ask is identify else None)
    assert instrument("Z -> X -> Y; X <-> Y; W -> Z; W -> Y", treatment="X", outcome="Y") == Instrument(
        "Z", ("W",)
    )
    assert instrument("Z -> X -> Y; Z -> Y; X <-> Y", treatment="X", outcome="Y") is None


def test_treatments_in_time():
    graph = "L0 -> A0; L0 -> L1; L0 -> Y; A0 -> L1; L1 -> A1; A0 -> Y; L1 -> Y; A1 -> Y"
    adjustments = sequential_adjustment(graph, treatment=["A1", "A0"], outcome="Y")
    assert adjustments == (("A0", ("L0",)), ("A1", ("L1",)))
    assert (
        sequential_adjustment(graph, treatment=["A0", "A1"], outcome="Y", measured=["A0", "A1", "Y"]) is None
    )
