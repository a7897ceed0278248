"""What a person sees who lists the package and its modules: everything that is there for them, and nothing
else."""

import ast
import importlib
import pathlib
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


def test_the_package_lists_all_that_it_has():
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
def test_modules_list_what_is_theirs(name):
    module = importlib.import_module(f"riesz.{name}")
    assert dir(module) == sorted(module.__all__)
    for one in module.__all__:
        assert not one.startswith("_") and getattr(module, one) is not None


def test_the_stub_of_the_compiled_half_is_complete():
    stub = ast.parse((pathlib.Path(riesz.__file__).parent / "_core.pyi").read_text())
    declared = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    declared |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert {name for name in dir(_core) if not name.startswith("__")} == {
        one for one in declared if not one.startswith("_")
    }
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            own = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            own |= {inner.target.id for inner in node.body if isinstance(inner, ast.AnnAssign)}
            assert {name for name in vars(getattr(_core, node.name)) if not name.startswith("__")} <= own, (
                node.name
            )


def test_scikit_learn_is_loaded_when_it_is_needed():
    code = "import sys, riesz; dir(riesz); assert 'sklearn' not in sys.modules; "
    code += "riesz.KernelRidge; assert 'sklearn' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
