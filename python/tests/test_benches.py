"""scripts/bench: the history of the benchmarks, its table, and the comparison with the last records."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("bench", str(ROOT / "scripts" / "bench"))
BENCH = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", LOADER))
LOADER.exec_module(BENCH)

RECORD = {
    "date": "2026-11-30",
    "machine": "AMD EPYC (Zen 5)",
    "instruction_set": "AVX-512",
    "bench": "explain",
    "case": "functional",
    "sizes": "n = 1000, d = 10",
    "threads": 1,
    "reference": "shapiq",
    "unit": "ms/row",
    "riesz": 2.0,
    "reference_figure": 20.0,
    "ratio": 10.0,
}
PLAIN = RECORD | {"reference": None, "reference_figure": None, "ratio": None}


def slower(record, *history):
    return BENCH.compare([record], list(history))


def times(record, factor):
    """The record of a riesz that takes this multiple of the time."""
    ratio = record["ratio"] and record["ratio"] / factor
    return record | {"riesz": record["riesz"] * factor, "ratio": ratio}


@pytest.mark.parametrize("record", [RECORD, PLAIN])
def test_a_case_is_shown_if_it_is_more_than_ten_percent_slower(record):
    assert slower(times(record, 1.11), record) == ([(times(record, 1.11), record)], 1)
    assert slower(times(record, 1.09), record) == ([], 1)
    assert slower(times(record, 0.5), record) == ([], 1)


def test_only_the_last_record_counts():
    earlier = times(RECORD, 0.5)
    assert slower(RECORD, earlier, RECORD) == ([], 1)
    assert slower(RECORD, RECORD, earlier) == ([(RECORD, earlier)], 1)


@pytest.mark.parametrize(
    "change",
    [{"instruction_set": "AVX2"}, {"sizes": "n = 1000, d = 20"}, {"threads": 2}, {"reference": "shap"}],
)
def test_other_cases_and_instruction_sets_are_not_compared(change):
    assert slower(times(RECORD, 2), RECORD | change) == ([], 0)


def test_a_figure_without_reference_is_compared_on_the_same_machine_only():
    other = {"machine": "Intel Xeon"}
    assert slower(times(RECORD, 2), RECORD | other)[1] == 1
    assert slower(times(PLAIN, 2), PLAIN | other)[1] == 0


def test_the_table_has_the_last_record_for_each_instruction_set():
    newer, other = times(RECORD, 0.5), RECORD | {"instruction_set": "AVX2", "machine": "Intel Xeon"}
    rows = [line for line in BENCH.table([RECORD, other, newer]).splitlines() if "functional" in line]
    start = "| functional | n = 1000, d = 10 |"
    assert rows == [
        f"{start} 1 ms/row | shapiq | 20 ms/row | 20 | 2026-11-30 | Zen 5, AVX-512 |",
        f"{start} 2 ms/row | shapiq | 20 ms/row | 10 | 2026-11-30 | Intel Xeon, AVX2 |",
    ]


def test_benchmarks_are_the_table_of_the_history():
    assert (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8") == BENCH.table(BENCH.read_history())


def test_records_are_complete_and_consistent():
    names = {bench.name for bench in BENCH.BENCHES}
    for record in BENCH.read_history():
        assert set(RECORD) <= set(record) and record["bench"] in names
        figures = record["riesz"], record["reference_figure"]
        if None not in figures:
            assert record["ratio"] == pytest.approx(figures[1] / figures[0], rel=0.01)
        assert record["ratio"] is None or record["reference"] is not None


def test_every_benchmark_is_in_the_list_and_on_the_page():
    commands = [bench.command for bench in BENCH.BENCHES]
    for path in (ROOT / "python" / "benches").glob("*.py"):
        assert path.stem == "timing" or any(word.split()[0] == path.name for word in commands), path.name
    manifest = (ROOT / "crates/riesz/Cargo.toml").read_text(encoding="utf-8")
    for name in re.findall(r'\[\[bench\]\]\nname = "(\w+)"', manifest):
        assert any(f"--bench {name} --" in command for command in commands), name
    page = (ROOT / "docs/background/speed.md").read_text(encoding="utf-8")
    for bench in BENCH.BENCHES:
        assert f"`{bench.name}`" in page, bench.name


def test_a_python_without_packages_skips_benchmarks_with_the_reason(tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -S \"$@\"\n")
    python.chmod(0o755)
    command = [sys.executable, ROOT / "scripts/bench", "--python", python, "--compare", "explain", "rust_fit"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    missing = "numpy, scikit-learn, shap, shapiq"
    assert f"explain: skipped, {python} lacks {missing}\n" in run.stdout
    assert f"rust_fit: skipped, {python} lacks numpy, scipy\n" in run.stdout
    assert "0 cases compared" in run.stdout


def test_small_sizes_are_not_recorded():
    command = [sys.executable, ROOT / "scripts/bench", "--record", "--quick"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2 and "--quick" in run.stderr


def test_benches_in_python_append_their_records(tmp_path):
    code = "from timing import record\nrecord('a', 'n = 1', 2, 'numpy', 3, unit='s', threads='2', GiB=0.5)"
    results = tmp_path / "results.jsonl"
    environment = os.environ | {"RIESZ_BENCH_RESULTS": str(results)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "python/benches",
        env=environment,
        capture_output=True,
        text=True,
    )
    if "not a release build" in run.stderr:
        assert not results.exists()
        return
    assert run.returncode == 0, run.stderr
    line = json.loads(results.read_text())
    assert line.pop("instruction_set") in ("plain", "AVX2", "AVX-512", "NEON")
    assert line == {
        "case": "a",
        "sizes": "n = 1",
        "threads": 2,
        "reference": "numpy",
        "unit": "s",
        "riesz": 2.0,
        "reference_figure": 3.0,
        "details": {"GiB": 0.5},
    }
