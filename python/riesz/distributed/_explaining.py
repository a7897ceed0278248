"""Explanations of many rows: one file per unit of work, and a manifest of all files."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._explaining.explainer import Explainer
from .._models.expansion import Expansion
from ._data import Data, Unit, opened
from ._engines import engine_of
from ._storage import write_file

#: Number of rows explained at a time.
ROWS = 1 << 14


@dataclass(frozen=True)
class _Shared:
    data: Data
    model: bytes
    options: tuple[tuple[str, Any], ...]
    out: str
    single: bool


@dataclass(frozen=True)
class Explained:
    """The parts of a finished explanation.

    Attributes
    ----------
    folder : str
        The folder with ``part-00000.parquet`` and so on, ``_manifest.json`` and ``_SUCCESS``.
    n_rows : int
    parts : list of dict
        For each part its name, rows, SHA-256, the largest residual (prediction minus base value minus values)
        and its largest proved bound (``None`` for estimated values).
    n_computed : int
        Number of parts computed by this call; the others existed before.
    """

    folder: str
    n_rows: int
    parts: list[dict[str, Any]]
    n_computed: int


def _sha256(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            total = hashlib.sha256()
            while part := file.read(1 << 20):
                total.update(part)
            return total.hexdigest()
    except FileNotFoundError:
        return None


def _part(shared: _Shared, task: tuple[int, Unit]) -> bytes:
    number, unit = task
    name = f"part-{number:05}.parquet"
    path, record = os.path.join(shared.out, name), os.path.join(shared.out, "_parts", f"{name}.json")
    request = pickle.dumps((shared.data.files[unit.file], unit, shared.options, shared.single), protocol=4)
    digest = hashlib.sha256(request + shared.model).hexdigest()
    try:
        with open(record, encoding="utf-8") as file:
            stored_facts = json.load(file)
        if stored_facts.get("of") == digest and stored_facts["sha256"] == _sha256(path):
            return json.dumps([{**stored_facts, "made": False}]).encode()
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        pass
    facts = {**_explain_unit(shared, unit, path), "name": name, "of": digest, "sha256": _sha256(path)}
    write_file(record, json.dumps(facts).encode())
    return json.dumps([{**facts, "made": True}]).encode()


def _named(x: np.ndarray, levels: Sequence[Sequence[str] | None]) -> np.ndarray:
    """Returns rows with levels by name, as models take them."""
    if all(column_levels is None for column_levels in levels):
        return np.ascontiguousarray(x)
    rows = x.astype(object)
    for j, column_levels in enumerate(levels):
        if column_levels is not None:
            rows[:, j] = np.array(column_levels, dtype=object)[x[:, j].astype(int)]
    return rows


def _explain_unit(shared: _Shared, unit: Unit, path: str) -> dict[str, Any]:
    import pyarrow
    import pyarrow.parquet

    model = Expansion._wrap(_core.Expansion.from_bytes(shared.model))
    explainer = Explainer(model, **dict(shared.options))
    _, levels, x = shared.data.features_of(unit)
    number = pyarrow.float32() if shared.single else pyarrow.float64()
    residual, bound, tables = 0.0, 0.0, []
    for start in range(0, len(x), ROWS):
        rows = _named(x[start : start + ROWS], levels)
        explanation = explainer(rows)
        outputs = model.output_names
        values = np.asarray(explanation.values).reshape(len(rows), explanation.values.shape[1], len(outputs))
        base = np.asarray(explanation.base_values).reshape(len(rows), -1)
        prediction = np.asarray(explanation.predictions).reshape(len(rows), -1)
        residual = max(residual, float(np.abs(prediction - base - values.sum(axis=1)).max()))
        certificate = explanation.certificate
        bound = float("nan") if certificate is None else max(bound, float(certificate.bound))
        for o, output in enumerate(outputs):
            columns = {"row": pyarrow.array(np.arange(unit.before + start, unit.before + start + len(rows)))}
            if len(outputs) > 1:
                columns["output"] = pyarrow.array([output] * len(rows))
            columns["base_value"] = pyarrow.array(base[:, o if base.shape[1] > 1 else 0], number)
            columns["prediction"] = pyarrow.array(prediction[:, o], number)
            for j, player in enumerate(explanation.feature_names):
                columns[f"feature:{player}" if player in columns else player] = pyarrow.array(
                    values[:, j, o], number
                )
            tables.append(pyarrow.table(columns))
    sink = pyarrow.BufferOutputStream()
    with pyarrow.parquet.ParquetWriter(sink, tables[0].schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
    write_file(path, sink.getvalue().to_pybytes())
    return {"rows": len(x), "residual": residual, "bound": None if bound != bound else bound}


def _parts(shared: _Shared, parts: Sequence[bytes]) -> bytes:
    return json.dumps(
        sorted((fact for part in parts for fact in json.loads(part)), key=lambda fact: fact["name"])
    ).encode()


def explain(
    model: Any,
    data: Any,
    out: str | os.PathLike[str],
    *,
    float32: bool = False,
    engine: Any = None,
    **options: Any,
) -> Explained:
    """Explains all rows of Parquet files, with one file per unit of rows, and marks the complete result.

    A part is kept if it was computed from the same file with the same model and settings, and its checksum
    is right; so the same call continues after an interruption. ``_SUCCESS`` and ``_manifest.json`` appear
    when all parts exist.

    Parameters
    ----------
    model : riesz.Expansion, a fit, or an estimator that :class:`riesz.Explainer` takes
    data : path, pattern, folder, or list of them
        Parquet files with the model's columns, which all workers see.
    out : path
        A folder that all workers see.
    float32 : bool
        Whether values are written in single precision, which halves the size.
    engine : None, dask.distributed.Client or pyspark.sql.SparkSession
    **options
        The arguments of :class:`riesz.Explainer`: ``background``, ``game``, ….
    """
    expansion = getattr(model, "expansion", getattr(model, "expansion_", model))
    if not isinstance(expansion, Expansion):
        models = Explainer(model, **options)._imported.parts
        if len(models) != 1:
            raise TypeError(
                f"a {type(model).__name__} is not one kernel model, and is explained by riesz.Explainer alone"
            )
        expansion = models[0].expansion
    names = expansion.feature_names
    rows = opened(
        data,
        [],
        names,
        None,
        [name for name, levels in zip(names, expansion._core.levels) if levels is not None],
    )
    levels_of_name = {
        name: None if levels is None else tuple(levels) for name, levels in zip(names, expansion._core.levels)
    }
    rows = Data(rows.files, tuple((name, levels_of_name[name]) for name, _ in rows.features), (), None)
    chosen_engine, folder = engine_of(engine), os.path.abspath(out)
    os.makedirs(os.path.join(folder, "_parts"), exist_ok=True)
    for done in ("_SUCCESS", "_manifest.json"):
        if os.path.exists(os.path.join(folder, done)):
            os.unlink(os.path.join(folder, done))
    Explainer(expansion, **options)
    shared = _Shared(rows, expansion._core.to_bytes(False), tuple(sorted(options.items())), folder, float32)
    units = list(enumerate(rows.units()))
    facts = json.loads(chosen_engine.reduce("explain", shared, units, _part, _parts))
    computed_count = sum(fact.pop("made") for fact in facts)
    parts = [{key: fact[key] for key in ("name", "rows", "sha256", "residual", "bound")} for fact in facts]
    total = sum(part["rows"] for part in parts)
    if total != sum(unit.rows for _, unit in units):
        raise RuntimeError("the engine did not explain all rows")
    part_names = {part["name"] for part in parts}
    for file_name in os.listdir(folder):
        # Parts of an earlier explanation of other files in this folder.
        if re.fullmatch(r"part-[0-9]{5,}\.parquet", file_name) and file_name not in part_names:
            os.unlink(os.path.join(folder, file_name))
    write_file(
        os.path.join(folder, "_manifest.json"), json.dumps({"rows": total, "parts": parts}, indent=1).encode()
    )
    failed = next((p for p in parts if p["bound"] is not None and p["residual"] > p["bound"]), None)
    if failed is not None:
        raise RuntimeError(
            f"{failed['name']}: values miss the prediction by {failed['residual']:.1e}, more than was proved"
        )
    write_file(os.path.join(folder, "_SUCCESS"), b"")
    return Explained(folder, total, parts, computed_count)
