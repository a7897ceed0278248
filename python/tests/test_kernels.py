"""The kernel classes against the library's registry of factors."""

import dataclasses
import json

import numpy as np
import pytest

import riesz
from riesz import _core, kernels

KINDS = _core.factors()
NAMES = ["a", "b", "c"]


def test_every_kind_has_its_class():
    known = {name for name in kernels.__all__ if name not in ("Kernel", "Sum", "Product", "Constant")}
    assert {class_name for _, class_name, _ in KINDS} == known


@pytest.mark.parametrize(("kind", "class_name", "arguments"), KINDS)
def test_names_and_defaults_are_the_registrys(kind, class_name, arguments):
    of_class = {
        f.name: f.default
        for f in dataclasses.fields(getattr(kernels, class_name))
        if f.name not in ("nu", "columns") or (f.name, kind) == ("nu", "matern")
    }
    assert of_class == {python: default for _, python, default in arguments if python}


@pytest.mark.parametrize(("kind", "class_name", "arguments"), KINDS)
def test_kernels_come_back_from_json(kind, class_name, arguments):
    nu = {"nu": {"matern32": 1.5, "matern52": 2.5, "matern": 0.8}[kind]} if class_name == "Matern" else {}
    keywords = {python: True if name == "isotropic" else 1 for name, python, _ in arguments if python}
    for arguments in ({}, keywords):
        for columns in (None, ["b"]):
            kernel = getattr(kernels, class_name)(**{**arguments, **nu}, columns=columns)
            text = kernel._to_json(NAMES)
            assert kernels._from_json(text, NAMES)._to_json(NAMES) == text
            # For kinds that have one column per factor, a file has one factor per column.
            if columns or len(json.loads(text)["terms"][0]["factors"]) == 1:
                assert kernels._from_json(text, NAMES) == kernel
            points = np.arange(6.0).reshape(2, 3)
            model = riesz.Expansion(kernel, points, [1.0, 2.0], feature_names=NAMES)
            assert np.isfinite(model.predict(points)).all()


def test_length_scales_given_one_by_one_are_tuned_one_by_one():
    for length_scale, ard in (([1.0, 1.0, 1.0], True), (np.array([1.0, 2.0, 3.0]), True), (1.0, False)):
        kernel = kernels.Matern(length_scale, nu=0.5, isotropic=True) * 2.0
        (term,) = json.loads(kernel._to_json(NAMES))["terms"]
        assert term["scale"] == 2.0 and term["factors"][0]["ard"] is ard
        back = kernels._from_json(kernel._to_json(NAMES), NAMES)
        np.testing.assert_array_equal(back.right.length_scale, length_scale)
        assert isinstance(back.right, kernels.Matern) and back.right.nu == 0.5


def test_kernels_are_added_and_multiplied_never_subtracted():
    for make in (
        lambda: -1 * kernels.RBF(),
        lambda: kernels.RBF() + (-0.5),
        lambda: kernels.RBF() * float("nan"),
    ):
        with pytest.raises(
            ValueError, match="a kernel's constant is (-1.0|-0.5|nan): it must be finite and not negative"
        ):
            make()
    with pytest.raises(TypeError, match="unsupported operand"):
        kernels.RBF() * None


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (kernels.RBF("median"), "length_scale = 'median': rows say that, which estimators have"),
        (kernels.Periodic("wide"), "length_scale = 'wide': it is a number"),
        (kernels.RBF(-1.0), "length_scale = -1 is not allowed: it is a positive number"),
        (kernels.RBF([1.0, 2.0]), "length_scale has 2 numbers, but 3 are expected"),
        (kernels.RBF("wide"), "length_scale = 'wide': it is a number"),
        (kernels.RBF([[1.0]]), "it is a number, or a list of them"),
        (kernels.Periodic(periodicity=0.0), "periodicity = 0 is not allowed"),
        (kernels.Polynomial(degree=2.5), "degree = 2.5 is not allowed: it is a whole number from 1 to 100"),
        (kernels.Categorical(1.5), "similarity = 1.5 is not allowed: it is a number from 0 to 1"),
        (kernels.Linear(center=np.inf), "center = inf is not allowed"),
        (kernels.Matern(nu=0.01), "nu = 0.01 is not allowed: it is a number from 0.05 to 100"),
        (0.0 * kernels.RBF(), "the kernel is zero"),
    ],
)
def test_arguments_out_of_range_are_refused(kernel, message):
    with pytest.raises((TypeError, ValueError), match=message.replace("[", "\\[")):
        riesz.Expansion(kernel, np.zeros((2, 3)), [1.0, 2.0])
