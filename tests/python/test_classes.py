"""Integrators come back from OpenMM with their classes, without cast()."""

import copy
import gc
import importlib
import inspect
import pickle

import openmm
import openmmstiff
import pytest
from conftest import INTEGRATORS, create, run_python
from openmm import XmlSerializer, app

STEP = 0.003*openmm.unit.picoseconds


def from_compound(integrator):
    """What CompoundIntegrator.getIntegrator() returns; and the compound, which must live as long."""
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(openmm.VerletIntegrator(0.001))
    compound.addIntegrator(integrator)
    return compound.getIntegrator(1), compound


WAYS = {  # how to get an integrator back, and whether Python owns it
    "deserialize": (lambda original: (XmlSerializer.deserialize(XmlSerializer.serialize(original)), None), True),
    "clone": (lambda original: (XmlSerializer.clone(original), None), True),
    "getIntegrator": (from_compound, False),
    "pickled": (lambda original: (pickle.loads(pickle.dumps(XmlSerializer.clone(original))), None), True),
    "copied": (lambda original: (copy.copy(XmlSerializer.clone(original)), None), True),
}


@pytest.mark.parametrize("cls", INTEGRATORS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_class_ownership_and_settings(way, cls):
    get, owned = WAYS[way]
    found, keeper = get(create(cls))
    assert type(found) is cls
    assert found.thisown == owned
    found.setStepSize(STEP)
    assert found.getStepSize() == STEP
    setter = getattr(found, "setTemperature", None)
    if setter is not None:
        setter(310)
        assert found.getTemperature() == 310*openmm.unit.kelvin
    if keeper is not None:      # the compound's own, not a copy
        again = keeper.getIntegrator(1)
        assert type(again) is cls and again.getStepSize() == STEP
        del found, again
        gc.collect()
        assert keeper.getIntegrator(1).getStepSize() == STEP


def test_an_owner_deletes_what_it_has_once():
    """20,000 integrators would take more than the 2 MB allowed if they leaked; a second deletion would crash."""
    run = run_python("""
import gc, resource, openmm, openmmstiff
xml = openmm.XmlSerializer.serialize(openmmstiff.MassPenaltyLangevinIntegrator(300, 1, 0.004))
def make(number):
    for _ in range(number):
        integrator = openmm.XmlSerializer.deserialize(xml)
        assert integrator.thisown
        compound = openmm.CompoundIntegrator()
        compound.addIntegrator(integrator)
        assert not integrator.thisown and not compound.getIntegrator(0).thisown
        del integrator, compound
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
make(1000)
print(make(1000), make(20000))
""")
    assert run.returncode == 0, run.stderr
    before, after = map(int, run.stdout.split())
    assert after - before < 2000     # kB, 100 bytes each


@pytest.mark.parametrize("cls", INTEGRATORS, ids=lambda cls: cls.__name__)
def test_in_a_compound_that_comes_from_xml(cls):
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(create(cls))
    made = XmlSerializer.deserialize(XmlSerializer.serialize(compound))
    assert type(made) is openmm.CompoundIntegrator
    assert type(made.getIntegrator(0)) is cls


def test_in_a_context_and_a_simulation_from_a_file(waters, platform, tmp_path):
    file = tmp_path/"integrator.xml"
    file.write_text(XmlSerializer.serialize(openmmstiff.MassPenaltyLangevinIntegrator(300, 1, 0.004)))
    simulation = app.Simulation(waters.topology, waters.system, str(file), platform)
    for integrator in (simulation.integrator, simulation.context.getIntegrator()):
        assert type(integrator) is openmmstiff.MassPenaltyLangevinIntegrator
    simulation.context.setPositions(waters.positions)
    simulation.context.setVelocitiesToTemperature(300, 1)
    simulation.step(3)
    assert simulation.integrator.computeNumPenalizedPairs() == 12


def test_a_python_subclass_stays_what_it_is():
    class Subclass(openmmstiff.ZhangSkeelIntegrator):
        pass
    original = Subclass(0.002)
    original.note = "mine"
    made = copy.copy(original)
    assert type(made) is Subclass and made.note == "mine" and made.thisown


@pytest.mark.parametrize("make, cls", [
    (lambda: openmm.VerletIntegrator(0.001), openmm.VerletIntegrator),
    (lambda: openmm.DrudeLangevinIntegrator(300, 1, 1, 1, 0.001), openmm.DrudeLangevinIntegrator),
    (lambda: openmm.System(), openmm.System),
    (lambda: openmm.HarmonicBondForce(), openmm.HarmonicBondForce)])
def test_what_is_not_ours_passes_through(make, cls):
    assert type(XmlSerializer.clone(make())) is cls
    assert type(XmlSerializer.deserialize(XmlSerializer.serialize(make()))) is cls


def test_an_integrator_of_an_unknown_class_stays_one(monkeypatch):
    """As that of another plugin, which this package cannot tell the class of."""
    unknown = XmlSerializer.clone.__wrapped__(openmmstiff.ZhangSkeelIntegrator(0.002))
    monkeypatch.setattr(openmmstiff._wrapped, "_downcast", lambda integrator: integrator)
    assert openmmstiff._classes.with_class(unknown) is unknown
    assert type(unknown) is openmm.Integrator and unknown.thisown
    assert unknown.getStepSize() == 0.002*openmm.unit.picoseconds


def test_functions_are_wrapped_once_and_look_the_same():
    before = XmlSerializer.clone
    importlib.reload(openmmstiff)
    importlib.reload(openmmstiff._classes)
    openmmstiff._classes.install()
    assert XmlSerializer.clone is before and not hasattr(before.__wrapped__, "__wrapped__")
    assert list(inspect.signature(XmlSerializer.deserialize).parameters) == ["inputString"]
    assert "Clone an object" in before.__doc__
    assert type(XmlSerializer.clone(openmmstiff.ZhangSkeelIntegrator(0.002))) is openmmstiff.ZhangSkeelIntegrator


def test_errors_of_openmm_are_what_they_were():
    with pytest.raises(ValueError, match="Invalid input string"):
        XmlSerializer.deserialize("nothing")
    with pytest.raises(openmm.OpenMMException):
        openmm.CompoundIntegrator().getIntegrator(3)
