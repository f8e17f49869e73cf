"""Names and arguments of version 0.2: they do what they did, with a warning that names what to use."""

import openmm
import openmmstiff
import pytest
from openmm import unit
from openmmstiff import (HMMIntegrator, ImpulseIntegrator, MassPenaltyIntegrator, MassPenaltyLangevinIntegrator,
                         SpookIntegrator, ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator)


def hmm():
    return HMMIntegrator(0.01, 1e5)


def test_old_names_of_methods():
    integrator = hmm()
    with pytest.warns(DeprecationWarning, match=r"HMMIntegrator.setFrequency is deprecated.*use setAngularFrequency"):
        integrator.setFrequency(2e5/unit.picosecond)
    with pytest.warns(DeprecationWarning, match="use getAngularFrequency"):
        assert integrator.getFrequency() == 2e5/unit.picosecond == integrator.getAngularFrequency()
    with pytest.warns(DeprecationWarning, match="use setNumMicroStepsPerPeriod"):
        integrator.setNumMicroSteps(number=20)
    with pytest.warns(DeprecationWarning, match="use getNumMicroStepsPerPeriod"):
        assert integrator.getNumMicroSteps() == 20 == integrator.getNumMicroStepsPerPeriod()
    with pytest.warns(DeprecationWarning, match="MassPenaltyLangevinIntegrator.computePenalizedPeriod.*getPenalized"):
        assert MassPenaltyLangevinIntegrator(300, 1, 0.008).computePenalizedPeriod() == 0.128*unit.picosecond
    with pytest.warns(DeprecationWarning, match="use getDamping"):
        assert SpookIntegrator(0.004).computeDamping() == 0.001*unit.picosecond
    with pytest.warns(DeprecationWarning, match="takeWarning is deprecated.*use the warnings that step"):
        assert not integrator.takeWarning()


@pytest.mark.parametrize("old, new", [("SimplifiedStiff", "StiffHessian"), ("Simplified", "FullHessian"),
                                      ("ZhangSkeel", "ThirdDerivatives")])
def test_old_names_of_methods_of_zhang_and_skeel(old, new):
    for item in (ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator, ZhangSkeelIntegrator(0.001)):
        with pytest.warns(DeprecationWarning, match=f"{old} is deprecated.*use {new}"):
            assert getattr(item, old) == getattr(ZhangSkeelIntegrator, new)


def test_the_old_name_of_an_argument():
    with pytest.warns(DeprecationWarning, match="argument frequency is deprecated.*use angularFrequency"):
        integrator = HMMIntegrator(0.01, frequency=1e5)
    assert integrator.getAngularFrequency() == 1e5/unit.picosecond


@pytest.mark.parametrize("make, name", [
    (lambda: MassPenaltyIntegrator(0.004), "PenalizedPeriod"),
    (lambda: ZhangSkeelIntegrator(0.004), "StiffForceGroups"),
    (lambda: ImpulseIntegrator(0.004), "StiffForceGroups"),
    (lambda: ImpulseIntegrator(0.004), "NumMicroSteps"),
    (hmm, "VibratedForceGroups"),
])
def test_zero_for_the_default(make, name):
    integrator = make()
    uses_default, setter = getattr(integrator, "getUseDefault" + name), getattr(integrator, "set" + name)
    assert uses_default()
    setter(7)
    assert not uses_default()
    with pytest.warns(DeprecationWarning, match=rf"0 for the default is deprecated.*call setUseDefault{name}\(True\)"):
        setter(0)
    assert uses_default()


def test_zero_for_the_default_damping():
    integrator = SpookIntegrator(0.004)
    integrator.setDamping(0.02)
    with pytest.warns(DeprecationWarning, match=r"call setDampingSteps\(0.25\)"):
        integrator.setDamping(0*unit.picosecond)
    assert integrator.getUseDampingSteps() and integrator.getDampingSteps() == 0.25


def test_a_default_has_no_other_value_until_one_is_given():
    for integrator, name in ((ImpulseIntegrator(0.004), "NumMicroSteps"), (hmm(), "VibratedForceGroups"),
                             (ZhangSkeelIntegrator(0.004), "StiffForceGroups")):
        with pytest.raises(openmm.OpenMMException, match=rf"set{name}\(\)"):
            getattr(integrator, "setUseDefault" + name)(False)
        assert getattr(integrator, "getUseDefault" + name)() is True


@pytest.mark.parametrize("name, base", [("LangevinThermostat", ZhangSkeelLangevinIntegrator),
                                        ("StiffForceSelection", ImpulseIntegrator)])
def test_internal_classes(name, base):
    with pytest.warns(DeprecationWarning, match=rf"openmmstiff.{name} is deprecated.*use hasattr"):
        assert issubclass(base, getattr(openmmstiff, name))
    assert name not in openmmstiff.__all__


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="module 'openmmstiff' has no attribute 'NoSuchIntegrator'"):
        openmmstiff.NoSuchIntegrator


def test_angular_frequencies_may_have_radians():
    integrator = HMMIntegrator(0.01, 1e5*unit.radian/unit.picosecond)
    integrator.setAngularFrequency(300*unit.radian/unit.femtosecond)
    assert integrator.getAngularFrequency().value_in_unit(unit.picosecond**-1) == pytest.approx(3e5)
    with pytest.raises(TypeError, match="frequency must be a quantity in /picosecond"):
        integrator.setAngularFrequency(3*unit.radian)
