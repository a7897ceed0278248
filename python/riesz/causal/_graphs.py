"""Causal graphs of other packages, converted to the text that the core reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

_READABLE = (
    "a graph is text, a directed graph of networkx, pgmpy, DoWhy, y0 or ananke, or an adjacency matrix as a "
    "data frame"
)


def graph_text(graph: Any) -> str:
    """Returns the text of a graph: the text itself, or node-link JSON of an object with nodes and edges."""
    if isinstance(graph, str):
        return graph
    if hasattr(graph, "to_csv"):
        return str(graph.to_csv())
    if _is_networkx(graph):
        return _networkx(graph)
    inner = getattr(graph, "_graph", None)
    # DoWhy's CausalModel has a CausalGraph, which has a graph of networkx.
    inner = getattr(inner, "_graph", inner)
    if _is_networkx(inner):
        return _networkx(inner)
    if _is_networkx(getattr(graph, "directed", None)) and _is_networkx(getattr(graph, "undirected", None)):
        names = [*graph.directed.nodes, *graph.undirected.nodes]
        return _node_link(names, (), graph.directed.edges, graph.undirected.edges)
    if hasattr(graph, "vertices") and hasattr(graph, "di_edges"):
        return _node_link(graph.vertices, (), graph.di_edges, getattr(graph, "bi_edges", ()))
    raise TypeError(f"{_READABLE}, not {type(graph).__name__}")


def _is_networkx(graph: Any) -> bool:
    return (
        callable(getattr(graph, "is_directed", None)) and hasattr(graph, "edges") and hasattr(graph, "nodes")
    )


def _networkx(graph: Any) -> str:
    """Returns a directed graph of networkx as JSON; pgmpy's ``latents`` are its unmeasured nodes."""
    if not graph.is_directed():
        raise ValueError("the graph's edges have no direction: give a networkx.DiGraph")
    latents = {str(node) for node in getattr(graph, "latents", ()) or ()}
    nodes = []
    for node, attributes in graph.nodes(data=True):
        plain_attributes = {
            key: value for key, value in attributes.items() if isinstance(value, (str, int, bool))
        }
        nodes.append(
            {
                **plain_attributes,
                "id": str(node),
                "latent": str(node) in latents or plain_attributes.get("latent", False),
            }
        )
    edges = []
    for source, target, attributes in graph.edges(data=True):
        plain_attributes = {
            key: value for key, value in attributes.items() if isinstance(value, (str, int, bool))
        }
        edges.append({**plain_attributes, "source": str(source), "target": str(target)})
    return json.dumps({"directed": True, "nodes": nodes, "links": edges})


def _node_link(
    names: Iterable[Any], latent: Iterable[Any], arrows: Iterable[Any], confounded: Iterable[Any]
) -> str:
    latent_names = {str(name) for name in latent}
    nodes = [
        {"id": name, "latent": name in latent_names} for name in dict.fromkeys(str(name) for name in names)
    ]
    edges = [{"source": str(edge[0]), "target": str(edge[1])} for edge in arrows]
    edges += [{"source": str(edge[0]), "target": str(edge[1]), "bidirected": "true"} for edge in confounded]
    return json.dumps({"directed": True, "nodes": nodes, "links": edges})
