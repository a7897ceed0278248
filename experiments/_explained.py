"""The program that `scale_resumed.py` starts and kills: a call of riesz.distributed.explain, in a process
that loads nothing else.

`python _explained.py JSON`: the names of the model, the rows and the folder, and optionally the numbers of
`some` units, which are then the only ones."""

import json
import sys

import riesz


class PartialEngine:
    """An engine that only does some of the units, which riesz reports as incomplete."""

    n_jobs = 1

    def __init__(self, numbers):
        self.numbers = numbers

    def reduce(self, name, shared, units, work, merge):
        return merge(shared, [work(shared, units[k]) for k in self.numbers])


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    engine = PartialEngine(spec["some"]) if "some" in spec else None
    model = riesz.Expansion.load(spec["model"])
    try:
        result = riesz.distributed.explain(model, spec["rows"], spec["out"], float32=True, engine=engine)
        print(json.dumps({"made": result.n_computed, "rows": result.n_rows, "parts": len(result.parts)}))
    except RuntimeError as error:
        print(json.dumps({"refused": str(error)}))
