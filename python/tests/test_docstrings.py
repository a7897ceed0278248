"""Public classes and functions have numpydoc's sections and annotated parameters."""

import importlib
import inspect
import typing

import numpy as np
import pytest

import riesz

MODULES = ["downscaling", "preference._clusters", "estimators", "feature_selection", "games", "kernels"]

#: Callables that still lack a section. Entries may only be removed.
MISSING: dict[str, set[str]] = {}

#: Parameters that are still annotated ``Any`` although a type would say more. Entries may only be removed.
UNTYPED = {
    # A column of a table by name, or its cells as a sequence of any kind.
    "bag",
    "weight",
    "row",
    # Duels are given in the forms of PreferenceClassifier.
    "duels",
    "outcome",
    "scores",
    "wins",
    "sample_weight",
    "fit_arguments",
    "options",
    # Rows of any kind, which the dataclasses of games hold.
    "background",
    "weights",
}


def public_callables():
    for module_name in MODULES:
        module = importlib.import_module(f"riesz.{module_name}")
        for name in module.__all__:
            member = getattr(module, name)
            yield f"{module_name}.{name}", member
            for method_name in dir(member) if inspect.isclass(member) else ():
                method = inspect.getattr_static(member, method_name)
                method = getattr(method, "fn", method)
                is_own = inspect.isfunction(method) and method.__module__.startswith("riesz")
                if is_own and not method_name.startswith("_"):
                    yield f"{module_name}.{name}.{method_name}", method


def parameters_of(member):
    return [p for p in inspect.signature(member).parameters.values() if p.name != "self"]


def documented_parameters(member):
    """Returns the names in the section "Parameters"."""
    lines = iter(inspect.cleandoc(member.__doc__ or "").splitlines())
    names = []
    for line in lines:
        if line == "Parameters":
            next(lines)
            for entry in lines:
                if entry.startswith("---"):
                    # The line before was the title of the next section.
                    return names[:-1]
                if entry and not entry.startswith(" "):
                    names += [name.strip(" *") for name in entry.split(" : ")[0].split(",")]
    return names


def missing_sections(member):
    text = inspect.cleandoc(member.__doc__ or "")
    needed = ["Parameters"] if parameters_of(member) else []
    if inspect.isclass(member):
        needed += ["Examples"] + (["Attributes"] if hasattr(member, "fit") else [])
    else:
        # A method that writes a file returns nothing.
        needed += [] if member.__annotations__.get("return") == "None" else ["Returns"]
    missing = {section for section in needed if f"\n{section}\n{'-' * len(section)}\n" not in text}
    return missing | ({"Examples"} if "Examples" in needed and ">>> " not in text else set())


def test_every_section_is_there():
    actual = {name: sections for name, member in public_callables() if (sections := missing_sections(member))}
    assert actual == MISSING


@pytest.mark.parametrize(
    ("name", "member"), [pytest.param(name, member, id=name) for name, member in public_callables()]
)
def test_every_parameter_is_documented_and_annotated(name, member):
    documented = documented_parameters(member)
    actual = [parameter.name for parameter in parameters_of(member)]
    assert sorted(documented) == sorted(actual), name
    for parameter in parameters_of(member):
        assert parameter.annotation is not inspect.Parameter.empty, f"{name}: {parameter.name}"
        assert parameter.annotation != "Any" or parameter.name in UNTYPED, f"{name}: {parameter.name}"


def test_annotations_can_be_evaluated():
    for name in ("KernelRidge", "SVC", "AggregateGaussianProcess", "PreferenceClusters"):
        hints = typing.get_type_hints(getattr(riesz, name).__init__)
        assert hints["random_state"] == int | np.random.RandomState | None
