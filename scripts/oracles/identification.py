#!/usr/bin/env python3
"""Compares the identification of effects with y0's ID algorithm on random graphs (needs `pip install y0` and
riesz).

    scripts/oracles/identification.py SEED COUNT

Prints the numbers of effects that both identify and that neither identifies. Fails at the first graph on
which the two differ."""

import itertools
import random
import sys

from networkx import NetworkXError
from y0.algorithm.identify import Identification, Unidentifiable, identify
from y0.dsl import P, Variable
from y0.graph import NxMixedGraph

from riesz.causal import NotIdentifiedError, effect_formula


def main(seed: int, count: int) -> None:
    random.seed(seed)
    counts = {True: 0, False: 0}
    failed = 0
    for _ in range(count):
        names = [f"V{i}" for i in range(random.randint(3, 7))]
        pairs = list(itertools.combinations(names, 2))
        arrows = [pair for pair in pairs if random.random() < 0.45]
        hidden = [pair for pair in pairs if random.random() < 0.25]
        outcomes = random.sample(names, random.choice([1, 1, 2]))
        remaining = [name for name in names if name not in outcomes]
        treatments = random.sample(remaining, min(len(remaining), random.choice([1, 1, 2])))
        text = "\n".join([*names, *(f"{a} -> {b}" for a, b in arrows), *(f"{a} <-> {b}" for a, b in hidden)])
        try:
            effect_formula(text, treatment=treatments, outcome=outcomes)
            ours = True
        except NotIdentifiedError:
            ours = False
        variable = {name: Variable(name) for name in names}
        graph = NxMixedGraph()
        for node in variable.values():
            graph.add_node(node)
        for a, b in arrows:
            graph.add_directed_edge(variable[a], variable[b])
        for a, b in hidden:
            graph.add_undirected_edge(variable[a], variable[b])
        query = P[tuple(variable[name] for name in treatments)](*(variable[name] for name in outcomes))
        try:
            identify(Identification.from_expression(query=query, graph=graph))
            theirs = True
        except Unidentifiable:
            theirs = False
        except NetworkXError:
            # Some subgraphs of y0 lose variables without edges.
            failed += 1
            continue
        if ours != theirs:
            sys.exit(f"riesz says {ours}, y0 {theirs}: {treatments} on {outcomes} in\n{text}")
        counts[ours] += 1
    print(
        f"the same on {sum(counts.values())} graphs: {counts[True]} identified, {counts[False]} not; y0 "
        f"failed on {failed}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
