"""Listings of the package and its modules show every public name and nothing else."""

import ast
import importlib
import operator
import pathlib
import re
import subprocess
import sys

import pytest

import riesz
from riesz import _core

PUBLIC = sorted(
    path.stem
    for path in pathlib.Path(riesz.__file__).parent.iterdir()
    if (path.suffix == ".py" or path.is_dir()) and not path.stem.startswith("_")
)


def test_the_package_lists_its_public_names():
    listed = dir(riesz)
    assert set(riesz.__all__) == set(listed) and set(PUBLIC) <= set(listed)
    for name in listed:
        assert getattr(riesz, name) is not None
    for name in (
        "AggregateGaussianProcess",
        "AggregateCountProcess",
        "PreferenceClassifier",
        "CausalFusion",
        "KernelRidge",
    ):
        assert name in listed
    assert not [name for name in listed if name.startswith("_") and name != "__version__"]


@pytest.mark.parametrize("name", PUBLIC)
def test_modules_list_their_public_names(name):
    module = importlib.import_module(f"riesz.{name}")
    assert dir(module) == sorted(module.__all__)
    for member in module.__all__:
        assert not member.startswith("_") and getattr(module, member) is not None


def test_the_stub_of_the_compiled_half_is_complete():
    stub = ast.parse((pathlib.Path(riesz.__file__).parent / "_core.pyi").read_text())
    declared = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    declared |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert {name for name in dir(_core) if not name.startswith("__")} == {
        entry for entry in declared if not entry.startswith("_")
    }
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            members = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            members |= {inner.target.id for inner in node.body if isinstance(inner, ast.AnnAssign)}
            assert {
                name for name in vars(getattr(_core, node.name)) if not name.startswith("__")
            } <= members, node.name


def test_scikit_learn_is_loaded_when_it_is_needed():
    code = "import sys, riesz; dir(riesz); assert 'sklearn' not in sys.modules; "
    code += "riesz.KernelRidge; assert 'sklearn' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


ROOT = pathlib.Path(__file__).parents[2]


def glossary_rows():
    for line in (ROOT / "docs" / "reference" / "glossary.md").read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 5 and "`" in line:
            yield cells


def test_the_glossary_names_what_exists():
    rust = "\n".join(path.read_text() for path in (ROOT / "crates").glob("riesz*/src/**/*.rs"))
    python = "\n".join(path.read_text() for path in (ROOT / "python/riesz").rglob("*.py"))
    rows = list(glossary_rows())
    assert len(rows) > 50
    for term, in_rust, in_python, _, path in rows:
        assert (ROOT / "crates" / path).exists(), f"{term}: {path}"
        assert in_rust == "–" or re.search(rf"\b{in_rust}\b", rust), f"{term}: {in_rust}"
        if in_python.startswith("riesz."):
            assert operator.attrgetter(in_python.removeprefix("riesz."))(riesz) is not None
        else:
            assert in_python == "–" or re.search(rf"\b{in_python}\b", python), f"{term}: {in_python}"
