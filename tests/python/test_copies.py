"""Integrators that come back: from XML, copies, pickles, CompoundIntegrators and cast(), with class and settings."""

import copy
import gc
import importlib
import inspect
import pickle
import re
import xml.etree.ElementTree as ElementTree

import openmm
import openmmstiff
import pytest
from openmm import OpenMMException, XmlSerializer, app, unit

import api
import conftest
from api import COMPLIANCE, DALTON, PS
from conftest import INTEGRATORS, create
from openmmstiff import (ImpulseIntegrator, MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator,
                         ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator)

for_each = pytest.mark.parametrize("cls", INTEGRATORS, ids=lambda cls: cls.__name__)
NM = unit.nanometer
# Beside the settings of api.py: a text with a character of XML, and what is added, as get...Parameters() returns it.
TEXT = {"PhaseParameter": "phi & psi"}
INERTIAS = [[3, 1, 10/3*DALTON], [0, 7, 0*DALTON]]
ADDED = {
    "Pair": INERTIAS, "BondInertia": [*INERTIAS, [5, 6, 1*DALTON]],
    "DistanceConstraint": [[3, 1, 0.1/3*NM, 1e-6/3*COMPLIANCE, 0.1/3*PS], [0, 7, 2*NM, 0*COMPLIANCE, 0*PS]],
    "PositionConstraint": [[4, openmm.Vec3(1/3, -2/3, 0)*NM, 1e-6/3*COMPLIANCE, 0.1/3*PS]],
    "HolonomicConstraint": [[[2, 0], "x1*y2-(\n  0.3\n)", 2e-6/3, 0.1/3*PS], [[5], "z1<2", 0, 0*PS]],
    "VelocityConstraint": [[[1, 0], ["1", "0", "x2", "0", "-y1", "0"], "sin(t)", 1e-5/3*COMPLIANCE/PS],
                           [[6], ["0", "0", "1"], "0", 0*COMPLIANCE/PS]],
}
SYSTEM_CONSTRAINT = [1e-5/3*COMPLIANCE, 0.4/3*PS]


def plural(kind):
    return kind.replace("Inertia", "Inertias") if kind.endswith("Inertia") else kind + "s"


def full(cls, by_setting=False):
    """(integrator with everything that a class can have, what it has)"""
    integrator, has = create(cls), api.settings_of(cls) | {name: value for name, value in TEXT.items()
                                                          if hasattr(cls, "get" + name)}
    for name, value in has.items():
        assert getattr(integrator, "get" + name)() != value
        getattr(integrator, "set" + name)(value)
    assert ADDED.keys() >= {name[3:] for name in api.methods_of(cls) if name.startswith("add")}
    for kind, items in ADDED.items():
        if hasattr(cls, "add" + kind):
            has[kind] = items
            for index, arguments in enumerate(items):
                assert getattr(integrator, "add" + kind)(*(items[-1] if by_setting else arguments)) == index
                if by_setting:
                    getattr(integrator, f"set{kind}Parameters")(index, *arguments)
    if cls is SpookIntegrator:
        integrator.setSystemConstraintParameters(5, *SYSTEM_CONSTRAINT)
        has["SystemConstraint"] = {5: SYSTEM_CONSTRAINT}
    return integrator, has


def read(integrator):
    """What an integrator has, as full() returns it."""
    cls = type(integrator)
    has = {name: getattr(integrator, "get" + name)() for name in api.settings_of(cls)}
    for kind in ADDED:
        if hasattr(cls, "add" + kind):
            has[kind] = [getattr(integrator, f"get{kind}Parameters")(i)
                         for i in range(getattr(integrator, "getNum" + plural(kind))())]
    if cls is SpookIntegrator:
        has["SystemConstraint"] = {i: integrator.getSystemConstraintParameters(i)
                                   for i in integrator.getSystemConstraintsWithParameters()}
    return has


def untyped(integrator):
    """The same integrator as an object of class openmm.Integrator, which owns it: as made before the import."""
    made = XmlSerializer.clone.__wrapped__(integrator)
    assert type(made) is openmm.Integrator
    return made


def compound_of(integrator):
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(openmm.VerletIntegrator(0.001))
    compound.addIntegrator(integrator)
    return compound


def cast(integrator):
    item = untyped(integrator)
    assert type(integrator).cast(item) is item
    return item


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda item: pickle.loads(pickle.dumps(item)),
          "deserialize": lambda item: XmlSerializer.deserialize(XmlSerializer.serialize(item)),
          "clone": XmlSerializer.clone, "cast": cast,
          "cast to a base": lambda item: StiffIntegrator.cast(untyped(item))}
COMPOUNDS = {"a compound": compound_of, "a compound from XML": lambda item: XmlSerializer.clone(compound_of(item)),
             "a compound, after a cast": lambda item: compound_of(cast(item))}


# ---- Class, ownership, settings ----

def test_what_is_set_later_is_there():
    for cls in INTEGRATORS:
        integrator, has = full(cls, by_setting=True)
        assert read(integrator) == has


@for_each
@pytest.mark.parametrize("way", COPIES)
def test_copies_have_everything_and_are_independent(way, cls):
    original, has = full(cls)
    made = COPIES[way](original)
    assert type(made) is cls and made.thisown and read(made) == has
    assert XmlSerializer.serialize(made) == XmlSerializer.serialize(original)
    made.setStepSize(0.003)
    assert original.getStepSize() == has["StepSize"]
    del original
    gc.collect()
    assert made.getStepSize() == 0.003*PS


@for_each
@pytest.mark.parametrize("way", COMPOUNDS)
def test_members_of_compounds_have_everything_and_belong_to_them(way, cls):
    original, has = full(cls)
    compound = COMPOUNDS[way](original)
    found = compound.getIntegrator(1)
    assert type(compound) is openmm.CompoundIntegrator
    assert type(found) is cls and not found.thisown and read(found) == has
    found.setStepSize(0.003)
    del original, found
    gc.collect()
    assert compound.getIntegrator(1).getStepSize() == 0.003*PS


@for_each
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_runs(way, cls, waters):
    integrator = COPIES[way](create(cls))
    context = waters.context(integrator, openmm.Platform.getPlatform("CPU"))
    integrator.step(3)
    assert context.getStepCount() == 3


def test_in_a_context_and_a_simulation_from_a_file(waters, platform, tmp_path):
    file = tmp_path/"integrator.xml"
    file.write_text(XmlSerializer.serialize(MassPenaltyLangevinIntegrator(300, 1, 0.004)))
    simulation = app.Simulation(waters.topology, waters.system, str(file), platform)
    for integrator in (simulation.integrator, simulation.context.getIntegrator()):
        assert type(integrator) is MassPenaltyLangevinIntegrator
    simulation.context.setPositions(waters.positions)
    simulation.context.setVelocitiesToTemperature(300, 1)
    simulation.step(3)
    assert simulation.integrator.computeNumPenalizedPairs() == 12


def test_what_is_not_ours_passes_through():
    for item in (openmm.VerletIntegrator(0.001), openmm.DrudeLangevinIntegrator(300, 1, 1, 1, 0.001), openmm.System(),
                 openmm.HarmonicBondForce()):
        for way in "clone", "deserialize":
            assert type(COPIES[way](item)) is type(item)


def test_an_integrator_of_an_unknown_class_stays_one(monkeypatch):
    """As that of another plugin, which this package cannot tell the class of."""
    unknown = untyped(ZhangSkeelIntegrator(0.002))
    monkeypatch.setattr(openmmstiff._wrapped, "_downcast", lambda integrator: integrator)
    assert openmmstiff._classes.with_class(unknown) is unknown
    assert type(unknown) is openmm.Integrator and unknown.thisown
    assert unknown.getStepSize() == 0.002*PS


def test_functions_are_wrapped_once_and_look_the_same():
    before = XmlSerializer.clone
    importlib.reload(openmmstiff)
    importlib.reload(openmmstiff._classes)
    openmmstiff._classes.install()
    assert XmlSerializer.clone is before and not hasattr(before.__wrapped__, "__wrapped__")
    assert list(inspect.signature(XmlSerializer.deserialize).parameters) == ["inputString"]
    assert "Clone an object" in before.__doc__
    assert type(XmlSerializer.clone(ZhangSkeelIntegrator(0.002))) is ZhangSkeelIntegrator


def test_errors_of_openmm_are_what_they_were():
    with pytest.raises(ValueError, match="Invalid input string"):
        XmlSerializer.deserialize("nothing")
    with pytest.raises(OpenMMException):
        openmm.CompoundIntegrator().getIntegrator(3)


# ---- cast() and isinstance() ----

@for_each
def test_cast_leaves_an_object_with_its_class_alone(cls):
    class Subclass(cls):
        pass
    integrator = create(Subclass)
    assert StiffIntegrator.cast(integrator) is integrator
    assert type(integrator) is Subclass


def test_cast_refuses_other_objects():
    for item, name in ((openmm.VerletIntegrator(0.001), "VerletIntegrator"), ("integrator", "str"), (None, "NoneType"),
                       (openmm.CompoundIntegrator(), "CompoundIntegrator"),
                       (untyped(ZhangSkeelIntegrator(0.001)), "ZhangSkeelIntegrator")):
        kind = type(item)
        assert not ZhangSkeelLangevinIntegrator.isinstance(item)
        with pytest.raises(TypeError, match=rf"ZhangSkeelLangevinIntegrator.cast\(\).*{name}"):
            ZhangSkeelLangevinIntegrator.cast(item)
        assert type(item) is kind


@for_each
def test_isinstance_changes_nothing(cls):
    integrator = untyped(create(cls))
    for each in (StiffIntegrator, *INTEGRATORS):
        assert each.isinstance(integrator) == issubclass(cls, each)
    assert type(integrator) is openmm.Integrator
    assert not conftest.has_heat_bath(integrator)


# ---- Subclasses and attributes ----

class Annealing(ZhangSkeelLangevinIntegrator):
    """What users do: a subclass with attributes and methods of its own."""

    def __init__(self, hot, cold):
        super().__init__(hot, 1/unit.picosecond, 2*unit.femtoseconds)
        self.cold = cold
        self.history = [hot]

    def cool(self):
        self.setTemperature(self.cold)
        self.history.append(self.cold)


@pytest.mark.parametrize("way", [name for name in COPIES if not name.startswith("cast")])
def test_a_copy_of_a_bound_integrator_is_free(way, waters, platform):
    original = ZhangSkeelLangevinIntegrator(300, 1, 0.002)
    context = waters.context(original, platform)
    made = COPIES[way](original)
    with pytest.raises(OpenMMException, match="not bound"):
        made.step(1)
    other = waters.context(made, platform)
    made.step(1)
    assert (context.getStepCount(), other.getStepCount()) == (0, 1)


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle"])
def test_subclasses_are_copied_as_what_they_are_and_run(way, waters):
    original = Annealing(400, 300)
    original.cool()
    made = COPIES[way](original)
    assert type(made) is Annealing and made.thisown
    assert made.history == [400, 300] and made.getTemperature() == 300*unit.kelvin
    made.cold = 250
    made.cool()
    assert (made.getTemperature(), original.getTemperature()) == (250*unit.kelvin, 300*unit.kelvin)
    context = waters.context(made, openmm.Platform.getPlatform("Reference"))
    made.step(2)
    assert context.getStepCount() == 2


def test_attributes_are_shared_by_copies_and_duplicated_by_deep_copies():
    original = Annealing(400, 300)
    original.me = original
    assert copy.copy(original).history is original.history
    made, same = copy.deepcopy([original, original])
    assert made.history is not original.history and made.me is made is same


# ---- XML ----

def test_an_infinite_period_survives():
    integrator = ImpulseIntegrator(0.002)
    integrator.setProjectedPeriod(float("inf"))
    assert XmlSerializer.clone(integrator).getProjectedPeriod() == float("inf")*PS


def test_a_damping_in_steps_survives():
    integrator = SpookIntegrator(0.003)
    for steps in (0.25, 2/3):
        integrator.setDampingSteps(steps)
        made = XmlSerializer.clone(integrator)
        assert made.getDampingSteps() == steps and made.getUseDampingSteps() is True
        made.setStepSize(0.006)
        assert made.getDamping() == 0.006*steps*PS


@for_each
def test_defaults_survive(cls):
    """What follows the step still does in a copy."""
    integrator = create(cls)
    made = XmlSerializer.clone(integrator)
    for each in (integrator, made):
        each.setStepSize(0.007)
    for name in api.methods_of(cls):
        if re.match("get(Use|PenalizedPeriod|BondInertia$|Damping)", name):
            assert getattr(made, name)() == getattr(integrator, name)()


@pytest.mark.parametrize("cls, name", [
    (cls, name[13:]) for cls in INTEGRATORS for name in api.methods_of(cls)
    if name.startswith("getUseDefault") and not name.endswith("BondInertia")])      # none is an inertia of 0
def test_nothing_is_no_value(cls, name):
    """And there is no other value than the default until one is given; a period has one."""
    integrator = create(cls)
    uses_default, setter = getattr(integrator, "getUseDefault" + name), getattr(integrator, "set" + name)
    if name != "PenalizedPeriod":
        with pytest.raises(OpenMMException, match=rf"set{name}\(\)"):
            getattr(integrator, "setUseDefault" + name)(False)
    with pytest.raises((OpenMMException, ValueError), match=rf"setUseDefault{name}\([tT]rue\)"):
        setter(0)
    assert uses_default() is True
    setter(7)
    assert not uses_default()


@for_each
def test_xml_names_class_and_version_and_others_are_refused(cls):
    text, version = XmlSerializer.serialize(full(cls)[0]), 5
    element = ElementTree.fromstring(text)
    assert element.tag == "Integrator"
    assert (element.get("type"), element.get("version")) == (cls.__name__, str(version))
    for other in (version - 1, version + 1):
        with pytest.raises(OpenMMException, match=f"{cls.__name__}: unsupported version {other}"):
            XmlSerializer.deserialize(text.replace(f'version="{version}"', f'version="{other}"'))


@for_each
def test_xml_of_settings_that_are_missing_misspelt_or_no_numbers(cls):
    """OpenMM's own functions take a text that is no number for 0."""
    form = ElementTree.fromstring(XmlSerializer.serialize(create(cls)))

    def refused(attribute, value=None):
        changed = ElementTree.fromstring(ElementTree.tostring(form))
        changed.attrib.pop(attribute, None)
        if value is not None:
            changed.set(attribute, value)
        with pytest.raises(OpenMMException, match=f"^{cls.__name__}: ") as refusal:
            XmlSerializer.deserialize(ElementTree.tostring(changed, encoding="unicode"))
        return str(refusal.value)

    settings = set(form.attrib) - {"type"}
    assert settings >= {"stepSize", "constraintTolerance", "integrationForceGroups"}
    for setting in settings:
        assert f"'{setting}' of its XML form is missing" in refused(setting)
    for setting in settings - {"phaseParameter"}:
        for value in ("", "abc", "0x5", "1 2", "1,5", "1e400"):
            assert f"'{setting}' of its XML form must be" in refused(setting, value)
        refused(setting, "nan")
    assert "no attribute 'stepsize'" in refused("stepsize", "0.001")
    if cls is SpookIntegrator:
        assert "damping" in refused("damping", "-1")    # it is not the damping in steps that is meant
    for element in list((form := ElementTree.fromstring(XmlSerializer.serialize(full(cls)[0]))).iter())[1:]:
        name, element.tag = element.tag, "Unknown"
        refused("version", form.get("version"))
        element.tag = name
        element.set("misspelt", "1")
        assert "no attribute 'misspelt'" in refused("version", form.get("version"))
        del element.attrib["misspelt"]
