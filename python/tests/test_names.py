"""What a person sees who lists the package and its modules: everything that is there for them, and nothing else."""

import importlib
import pathlib
import subprocess
import sys

import pytest

import riesz

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
    for name in ("AggregateGaussianProcess", "AggregateCountProcess", "PreferenceClassifier", "CausalFusion", "KernelRidge"):
        assert name in listed
    assert not [name for name in listed if name.startswith("_") and name != "__version__"]


@pytest.mark.parametrize("name", PUBLIC)
def test_modules_list_what_is_theirs(name):
    module = importlib.import_module(f"riesz.{name}")
    assert dir(module) == sorted(module.__all__)
    for one in module.__all__:
        assert not one.startswith("_") and getattr(module, one) is not None


def test_scikit_learn_is_loaded_when_it_is_needed():
    code = (
        "import sys, riesz; dir(riesz); assert 'sklearn' not in sys.modules; riesz.KernelRidge; assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
