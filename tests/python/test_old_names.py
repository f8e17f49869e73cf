"""Names and arguments of version 0.2: they do what they did, with a warning that names what to use."""

import openmm
import openmmstiff
import pytest
from openmm import unit

import api
from conftest import INTEGRATORS, create
from openmmstiff import HMMIntegrator, ImpulseIntegrator, SpookIntegrator, ZhangSkeelLangevinIntegrator


def test_all_old_names_are_known_and_others_are_not():
    assert openmmstiff._wrapped._OLD_NAMES == api.OLD_NAMES
    with pytest.raises(AttributeError, match="module 'openmmstiff' has no attribute 'NoSuchIntegrator'"):
        openmmstiff.NoSuchIntegrator


@pytest.mark.parametrize("name, old, new", [
    (name, old, new) for name, names in api.OLD_NAMES.items() for old, new in names.items()])
def test_old_names_are_the_new_ones(name, old, new):
    """Of the class, those derived from it, and their objects; other names of theirs have no warning."""
    if old == "takeWarning":
        new = "the warnings that step"
    for cls in (each for each in INTEGRATORS if issubclass(each, getattr(openmmstiff, name))):
        for item in (cls, create(cls)):
            with pytest.warns(DeprecationWarning, match=f"{cls.__name__}.{old} is deprecated.*use {new}") as warned:
                found = getattr(item, old)
            assert warned[0].filename == __file__
            assert found == getattr(item, api.OLD_NAMES[name][old])


def test_the_old_name_of_an_argument():
    with pytest.warns(DeprecationWarning, match="argument frequency is deprecated.*use angularFrequency") as warned:
        integrator = HMMIntegrator(0.01, frequency=1e5)
    assert warned[0].filename == __file__
    assert integrator.getAngularFrequency() == 1e5/unit.picosecond


@pytest.mark.parametrize("cls, name", [
    (cls, name) for cls in INTEGRATORS
    for name in ("PenalizedPeriod", "StiffForceGroups", "NumMicroSteps", "VibratedForceGroups")
    if "getUseDefault" + name in api.methods_of(cls)])
def test_zero_for_the_default(cls, name):
    """And there is no other value than the default until one is given; a period has one."""
    integrator = create(cls)
    uses_default, setter = getattr(integrator, "getUseDefault" + name), getattr(integrator, "set" + name)
    assert uses_default()
    if name != "PenalizedPeriod":
        with pytest.raises(openmm.OpenMMException, match=rf"set{name}\(\)"):
            getattr(integrator, "setUseDefault" + name)(False)
        assert uses_default() is True
    setter(7)
    assert not uses_default()
    with pytest.warns(DeprecationWarning, match=rf"0 for the default is deprecated.*call setUseDefault{name}\(True\)"
                      ) as warned:
        setter(0)
    assert uses_default() and warned[0].filename == __file__


def test_zero_for_the_default_damping():
    integrator = SpookIntegrator(0.004)
    integrator.setDamping(0.02)
    with pytest.warns(DeprecationWarning, match=r"call setDampingSteps\(0.25\)"):
        integrator.setDamping(0*unit.picosecond)
    assert integrator.getUseDampingSteps() and integrator.getDampingSteps() == 0.25


@pytest.mark.parametrize("name, base", [("LangevinThermostat", ZhangSkeelLangevinIntegrator),
                                        ("StiffForceSelection", ImpulseIntegrator)])
def test_internal_classes(name, base):
    with pytest.warns(DeprecationWarning, match=rf"openmmstiff.{name} is deprecated.*use hasattr") as warned:
        assert issubclass(base, getattr(openmmstiff, name))
    assert name not in openmmstiff.__all__ and warned[0].filename == __file__


def test_angular_frequencies_may_have_radians():
    integrator = HMMIntegrator(0.01, 1e5*unit.radian/unit.picosecond)
    integrator.setAngularFrequency(300*unit.radian/unit.femtosecond)
    assert integrator.getAngularFrequency().value_in_unit(unit.picosecond**-1) == pytest.approx(3e5)
