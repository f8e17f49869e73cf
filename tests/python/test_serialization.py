"""XML of the integrators, and cast(), which gives a mere openmm.Integrator its own methods."""

import gc
import re
import xml.etree.ElementTree as ElementTree

import openmm
import pytest
from openmm import XmlSerializer, unit

import conftest
from openmmstiff import (HMMIntegrator, ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyIntegrator,
                         MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator, ZhangSkeelIntegrator,
                         ZhangSkeelLangevinIntegrator)

# Getter: a value that is not the default, and which is exact in XML only if all digits are written.
COMMON = {
    "StepSize": 0.1/3*unit.picoseconds,
    "ConstraintTolerance": 1e-7/3,
    "IntegrationForceGroups": 0b101,
}
STIFF_FORCES = {"StiffForceGroups": -2**31 + 2}
THERMOSTAT = {
    "Temperature": 1000/3*unit.kelvin,
    "Friction": 2/3/unit.picosecond,
    "RandomNumberSeed": 2**31 - 1,
}
ZHANG_SKEEL = {**COMMON, **STIFF_FORCES, "Beta": 1/3, "Method": ZhangSkeelIntegrator.Newmark,
               "NewtonTolerance": 1e-8/3}
IMPULSE = {**COMMON, **STIFF_FORCES, "Kick": ImpulseIntegrator.Mollified,
           "ProjectedPeriod": 0.1/3*unit.picoseconds, "NumMicroSteps": 7}
PICOSECONDS, COMPLIANCE = unit.picoseconds, unit.nanometer**2/unit.kilojoule_per_mole
MASS_PENALTY = {**COMMON, "PenalizedPeriod": 0.2/3*unit.picoseconds, "UseBondedForces": False,
                "UseDefaultBondInertia": False, "BondInertia": 10/3*unit.dalton}
SETTINGS = {
    ZhangSkeelIntegrator: ZHANG_SKEEL,
    ZhangSkeelLangevinIntegrator: {**ZHANG_SKEEL, **THERMOSTAT, "ThermalizeStiffModes": False},
    ImpulseIntegrator: IMPULSE,
    ImpulseLangevinIntegrator: {**IMPULSE, **THERMOSTAT},
    MassPenaltyIntegrator: MASS_PENALTY,
    MassPenaltyLangevinIntegrator: {**MASS_PENALTY, **THERMOSTAT, "MetricCorrection": False},
    SpookIntegrator: {**COMMON, "Compliance": 1e-7/3*COMPLIANCE, "VelocityCompliance": 1e-6/3*COMPLIANCE/PICOSECONDS,
                      "Damping": 0.02/3*PICOSECONDS},
    HMMIntegrator: {**COMMON, "AngularFrequency": 1e7/3/PICOSECONDS, "PhaseParameter": "phi & psi",
                    "Filter": HMMIntegrator.HalfBump, "MacroMethod": HMMIntegrator.SHAKE,
                    "NumMicroStepsPerPeriod": 22, "NumPeriods": 12, "VibratedForceGroups": -2**31 + 2},
}


def create(cls):
    """An integrator with the settings above."""
    integrator = conftest.create(cls)
    for name, value in SETTINGS[cls].items():
        assert getattr(integrator, "get" + name)() != value
        getattr(integrator, "set" + name)(value)
    return integrator


@pytest.fixture(params=conftest.INTEGRATORS, ids=lambda cls: cls.__name__)
def cls(request):
    return request.param


def test_every_setting_survives(cls):
    copy = cls.cast(XmlSerializer.deserialize(XmlSerializer.serialize(create(cls))))
    for name, value in SETTINGS[cls].items():
        assert getattr(copy, "get" + name)() == value


def test_pairs_survive():
    integrator = MassPenaltyLangevinIntegrator(300, 1, 0.004)
    pairs = [[3, 1, 10/3*unit.dalton], [0, 7, 0*unit.dalton]]
    for pair in pairs:
        integrator.addPair(*pair)
        integrator.addBondInertia(*pair)
    integrator.addBondInertia(5, 6, 1)
    copy = MassPenaltyLangevinIntegrator.cast(XmlSerializer.clone(integrator))
    assert [copy.getPairParameters(i) for i in range(copy.getNumPairs())] == pairs
    assert [copy.getBondInertiaParameters(i) for i in range(copy.getNumBondInertias())] == [*pairs, [5, 6, 1*unit.dalton]]
    assert copy.getUseDefaultBondInertia() is True


CONSTRAINTS = {  # kind: the arguments of constraints, none of them a default
    "Distance": [[3, 1, 0.1/3*unit.nanometer, 1e-6/3*COMPLIANCE, 0.1/3*PICOSECONDS],
                 [0, 7, 2*unit.nanometer, 0*COMPLIANCE, 0*PICOSECONDS]],
    "Position": [[4, openmm.Vec3(1/3, -2/3, 0)*unit.nanometer, 1e-6/3*COMPLIANCE, 0.1/3*PICOSECONDS]],
    "Holonomic": [[[2, 0], "x1*y2-0.3", 2e-6/3, 0.1/3*PICOSECONDS], [[5], "z1<2", 0, 0*PICOSECONDS]],
    "Velocity": [[[1, 0], ["1", "0", "x2", "0", "-y1", "0"], "sin(t)", 1e-5/3*COMPLIANCE/PICOSECONDS],
                 [[6], ["0", "0", "1"], "0", 0*COMPLIANCE/PICOSECONDS]],
}
SYSTEM_CONSTRAINT = [1e-5/3*COMPLIANCE, 0.4/3*PICOSECONDS]


def constraints_of(integrator):
    return {kind: [getattr(integrator, f"get{kind}ConstraintParameters")(i)
                   for i in range(getattr(integrator, f"getNum{kind}Constraints")())] for kind in CONSTRAINTS}


@pytest.mark.parametrize("how", ["add", "set"])
def test_constraints_survive(how):
    integrator = SpookIntegrator(0.002)
    for kind, constraints in CONSTRAINTS.items():
        for index, arguments in enumerate(constraints):
            if how == "add":
                assert getattr(integrator, f"add{kind}Constraint")(*arguments) == index
            else:
                getattr(integrator, f"add{kind}Constraint")(*constraints[-1])
                getattr(integrator, f"set{kind}ConstraintParameters")(index, *arguments)
    integrator.setSystemConstraintParameters(5, *SYSTEM_CONSTRAINT)
    copy = SpookIntegrator.cast(XmlSerializer.clone(integrator))
    for each in (integrator, copy):
        assert constraints_of(each) == CONSTRAINTS
        assert each.getSystemConstraintsWithParameters() == [5]
        assert each.getSystemConstraintParameters(5) == SYSTEM_CONSTRAINT


def test_an_infinite_period_survives():
    integrator = ImpulseIntegrator(0.002)
    integrator.setProjectedPeriod(float("inf"))
    copy = ImpulseIntegrator.cast(XmlSerializer.clone(integrator))
    assert copy.getProjectedPeriod() == float("inf")*unit.picoseconds


def test_a_damping_in_steps_survives():
    integrator = SpookIntegrator(0.003)
    for steps in (0.25, 2/3):
        integrator.setDampingSteps(steps)
        copy = SpookIntegrator.cast(XmlSerializer.clone(integrator))
        assert copy.getDampingSteps() == steps and copy.getUseDampingSteps() is True
        copy.setStepSize(0.006)
        assert copy.getDamping() == 0.006*steps*PICOSECONDS


def test_every_setter_is_tested(cls):
    """A setting added later must be added above, and so to the XML."""
    setters = {name[3:] for name in conftest.names_of(cls) if name.startswith("set")}
    # For pairs and constraints see test_pairs_survive and test_constraints_survive.
    # Velocities are the Context's. For the damping in steps see test_a_damping_in_steps_survives: it takes the place of
    # the one in ps. What is given above takes the place of defaults, for which see test_defaults_survive.
    others = {"VelocitiesToTemperature", "PairParameters", "BondInertiaParameters", "DampingSteps", "UseDampingSteps",
              *(f"UseDefault{name}" for name in SETTINGS[cls]),
              *(f"{kind}ConstraintParameters" for kind in (*CONSTRAINTS, "System"))}
    assert setters - others == set(SETTINGS[cls]) - others


def test_clone(cls):
    original = create(cls)
    clone = XmlSerializer.clone(original)
    assert XmlSerializer.serialize(clone) == XmlSerializer.serialize(original)
    assert cls.isinstance(clone)


def test_xml_names_class_and_version(cls):
    element = ElementTree.fromstring(XmlSerializer.serialize(create(cls)))
    assert element.tag == "Integrator"
    assert element.get("type") == cls.__name__
    assert element.get("version") == str(newest_version(cls))


def test_xml_of_version_1_stays_readable():
    """What version 0.1 wrote, to the letter: later versions must read it."""
    integrator = ZhangSkeelLangevinIntegrator.cast(XmlSerializer.deserialize("""<?xml version="1.0" ?>
        <Integrator beta=".3" constraintTolerance="1e-06" friction="2" integrationForceGroups="-1" randomSeed="3"
         stepSize=".004" stiffForceGroups="6" temperature="310" thermalizeStiffModes="0"
         type="ZhangSkeelLangevinIntegrator" version="1"/>"""))
    assert integrator.getBeta() == 0.3
    assert integrator.getTemperature() == 310*unit.kelvin
    assert integrator.getFriction() == 2/unit.picosecond
    assert integrator.getRandomNumberSeed() == 3
    assert integrator.getStepSize() == 0.004*unit.picoseconds
    assert integrator.getStiffForceGroups() == 6
    assert integrator.getIntegrationForceGroups() == -1
    assert integrator.getThermalizeStiffModes() is False
    assert integrator.getMethod() == ZhangSkeelIntegrator.StiffHessian
    integrator = ImpulseLangevinIntegrator.cast(XmlSerializer.deserialize("""<?xml version="1.0" ?>
        <Integrator constraintTolerance="1e-06" friction="2" integrationForceGroups="-1" kick="1" numMicroSteps="9"
         projectedPeriod=".02" randomSeed="3" stepSize=".004" stiffForceGroups="6" temperature="310"
         type="ImpulseLangevinIntegrator"
         version="1"/>"""))
    assert integrator.getKick() == ImpulseIntegrator.Mollified
    assert integrator.getNumMicroSteps() == 9
    assert integrator.getFriction() == 2/unit.picosecond
    integrator = MassPenaltyLangevinIntegrator.cast(XmlSerializer.deserialize("""<?xml version="1.0" ?>
        <Integrator constraintTolerance="1e-06" friction="2" integrationForceGroups="-1" metricCorrection="0"
         penalizedPeriod=".1" randomSeed="3" stepSize=".004" temperature="310"
         type="MassPenaltyLangevinIntegrator" useBondedForces="0" version="1">
            <Pairs><Pair inertia="5.5" p1="3" p2="4"/></Pairs>
        </Integrator>"""))
    assert integrator.getPenalizedPeriod() == 0.1*unit.picoseconds
    assert integrator.getBondInertia() == 0*unit.dalton and not integrator.getUseDefaultBondInertia()
    assert integrator.getUseBondedForces() is False
    assert integrator.getMetricCorrection() is False
    assert integrator.getPairParameters(0) == [3, 4, 5.5*unit.dalton]
    integrator = SpookIntegrator.cast(XmlSerializer.deserialize("""<?xml version="1.0" ?>
        <Integrator compliance="1e-07" constraintTolerance="1e-06" damping=".01" integrationForceGroups="-1"
         stepSize=".004" type="SpookIntegrator" velocityCompliance="2e-08" version="1">
            <SystemConstraints><Constraint compliance="1e-06" damping="0" index="2"/></SystemConstraints>
            <DistanceConstraints><Constraint compliance="0" d=".1" damping="0" p1="3" p2="4"/></DistanceConstraints>
            <PositionConstraints><Constraint compliance="0" damping="0" p="3" x="1" y="2" z="3"/></PositionConstraints>
            <HolonomicConstraints><Constraint compliance="0" damping="0" g="x1"><Particle index="7"/></Constraint>
            </HolonomicConstraints>
            <VelocityConstraints><Constraint compliance="0" w="t"><Particle index="7"/>
                <Coefficient c="1"/><Coefficient c="0"/><Coefficient c="z1"/></Constraint></VelocityConstraints>
        </Integrator>"""))
    assert integrator.getCompliance() == 1e-7*COMPLIANCE
    assert integrator.getVelocityCompliance() == 2e-8*COMPLIANCE/PICOSECONDS
    assert integrator.getDamping() == 0.01*PICOSECONDS
    assert integrator.getSystemConstraintParameters(2)[0] == 1e-6*COMPLIANCE
    assert integrator.getDistanceConstraintParameters(0)[:3] == [3, 4, 0.1*unit.nanometer]
    assert integrator.getPositionConstraintParameters(0)[:2] == [3, openmm.Vec3(1, 2, 3)*unit.nanometer]
    assert integrator.getHolonomicConstraintParameters(0)[:2] == [[7], "x1"]
    assert integrator.getVelocityConstraintParameters(0)[:3] == [[7], ["1", "0", "z1"], "t"]
    integrator = SpookIntegrator.cast(XmlSerializer.deserialize("""<?xml version="1.0" ?>
        <Integrator compliance="1e-07" constraintTolerance="1e-06" damping="0" integrationForceGroups="-1"
         stepSize=".004" type="SpookIntegrator" velocityCompliance="2e-08" version="1">
            <SystemConstraints/><DistanceConstraints/><PositionConstraints/><HolonomicConstraints/>
            <VelocityConstraints/>
        </Integrator>"""))
    assert integrator.getDamping() == 0.008*PICOSECONDS     # 0 was the paper's two steps
    integrator = HMMIntegrator.cast(XmlSerializer.deserialize("""<?xml version="1.0" ?>
        <Integrator constraintTolerance="1e-06" filter="2" frequency="1e5" integrationForceGroups="-1" macroMethod="0"
         numMicroSteps="10" numPeriods="20" phaseParameter="phi" stepSize=".004" type="HMMIntegrator" version="1"
         vibratedForceGroups="4"/>"""))
    assert integrator.getAngularFrequency() == 1e5/PICOSECONDS
    assert integrator.getFilter() == HMMIntegrator.Simple
    assert integrator.getMacroMethod() == HMMIntegrator.SHAKE
    assert integrator.getPhaseParameter() == "phi"
    assert integrator.getVibratedForceGroups() == 4
    assert integrator.getNumMicroStepsPerPeriod() == 10


# What version 0.2 wrote of an integrator with the defaults, and what it wrote for 0, which stood for the default.
XML_OF_0_2 = {
    ZhangSkeelIntegrator: 'beta=".25" method="2" newtonTolerance="0" stiffForceGroups="0" version="2"',
    ZhangSkeelLangevinIntegrator: 'beta=".25" friction="1" method="0" newtonTolerance="0" randomSeed="0" '
                                  'stiffForceGroups="0" temperature="300" thermalizeStiffModes="1" version="2"',
    ImpulseIntegrator: 'kick="2" numMicroSteps="0" projectedPeriod=".02" stiffForceGroups="0" version="1"',
    ImpulseLangevinIntegrator: 'friction="1" kick="2" numMicroSteps="0" projectedPeriod=".02" randomSeed="0" '
                               'stiffForceGroups="0" temperature="300" version="1"',
    MassPenaltyIntegrator: 'penalizedPeriod="0" useBondedForces="1" version="1"',
    MassPenaltyLangevinIntegrator: 'friction="1" metricCorrection="1" penalizedPeriod="0" randomSeed="0" '
                                   'temperature="300" useBondedForces="1" version="1"',
    HMMIntegrator: 'filter="0" frequency="100000" macroMethod="1" numMicroSteps="40" numPeriods="40" '
                   'phaseParameter="theta" vibratedForceGroups="0" version="1"',
}


@pytest.mark.parametrize("cls", XML_OF_0_2, ids=lambda cls: cls.__name__)
def test_xml_of_0_2_has_the_defaults(cls):
    integrator = XmlSerializer.deserialize(f"""<?xml version="1.0" ?>
        <Integrator constraintTolerance="1e-05" integrationForceGroups="-1" stepSize=".004" type="{cls.__name__}"
         {XML_OF_0_2[cls]}><Pairs/></Integrator>""")
    for name in conftest.names_of(cls):
        if name.startswith("getUseDefault") and name != "getUseDefaultBondInertia":
            assert getattr(integrator, name)() is True
    if cls is ZhangSkeelIntegrator:
        assert integrator.getMethod() == ZhangSkeelIntegrator.ThirdDerivatives
    elif issubclass(cls, MassPenaltyIntegrator):
        assert integrator.getPenalizedPeriod() == 0.064*PICOSECONDS
    elif cls is HMMIntegrator:
        assert integrator.getAngularFrequency() == 1e5/PICOSECONDS and integrator.getNumMicroStepsPerPeriod() == 40
    assert f'version="{newest_version(cls)}"' in XmlSerializer.serialize(integrator)


def test_defaults_survive(cls):
    """What follows the step still does in a copy."""
    integrator = conftest.create(cls)
    copy = XmlSerializer.clone(integrator)
    for each in (integrator, copy):
        each.setStepSize(0.007)
    for name in conftest.names_of(cls):
        if re.match("get(Use|PenalizedPeriod|BondInertia$|Damping)", name):
            assert getattr(copy, name)() == getattr(integrator, name)()


def test_names_of_another_version_are_refused():
    xml = XmlSerializer.serialize(conftest.create(HMMIntegrator))
    with pytest.raises(openmm.OpenMMException, match="'frequency' of its XML form is missing"):
        XmlSerializer.deserialize(xml.replace('version="2"', 'version="1"'))


def newest_version(cls):
    return 2 if issubclass(cls, (HMMIntegrator, ImpulseIntegrator, SpookIntegrator)) else 3


@pytest.mark.parametrize("beyond", [False, True])
def test_an_unknown_version_is_refused(cls, beyond):
    version = newest_version(cls) + 1 if beyond else 0
    xml = XmlSerializer.serialize(create(cls)).replace(f'version="{newest_version(cls)}"', f'version="{version}"')
    with pytest.raises(openmm.OpenMMException, match=f"{cls.__name__}: unsupported version {version}"):
        XmlSerializer.deserialize(xml)


@pytest.mark.parametrize("attribute", ["stepSize", "constraintTolerance", "integrationForceGroups"])
def test_a_missing_setting_is_refused(cls, attribute):
    element = ElementTree.fromstring(XmlSerializer.serialize(create(cls)))
    del element.attrib[attribute]
    with pytest.raises(openmm.OpenMMException, match=attribute):
        XmlSerializer.deserialize(ElementTree.tostring(element, encoding="unicode"))


def test_in_a_compound_integrator():
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(openmm.VerletIntegrator(0.001))
    compound.addIntegrator(create(ZhangSkeelLangevinIntegrator))
    copy = XmlSerializer.clone(compound)
    assert XmlSerializer.serialize(copy) == XmlSerializer.serialize(compound)


# ---- cast() and isinstance() ----

def deserialized(integrator):
    """The same integrator, as an object of class openmm.Integrator, which owns it: as made before the import."""
    copy = XmlSerializer.clone.__wrapped__(integrator)
    assert type(copy) is openmm.Integrator
    return copy


def test_cast_gives_the_class_back(cls):
    integrator = deserialized(create(cls))
    assert cls.cast(integrator) is integrator
    assert type(integrator) is cls
    assert integrator.thisown
    for name, value in SETTINGS[cls].items():
        assert getattr(integrator, "get" + name)() == value


@pytest.mark.parametrize("base", [StiffIntegrator, ZhangSkeelIntegrator])
def test_cast_to_a_base_gives_the_most_derived_class(base):
    assert type(base.cast(deserialized(create(ZhangSkeelLangevinIntegrator)))) is ZhangSkeelLangevinIntegrator


def test_cast_leaves_an_object_with_its_class_alone(cls):
    class Subclass(cls):
        pass
    integrator = conftest.create(Subclass)
    assert StiffIntegrator.cast(integrator) is integrator
    assert type(integrator) is Subclass


def test_a_cast_integrator_runs(cls, waters, platform):
    integrator = cls.cast(deserialized(conftest.create(cls)))
    context = waters.context(integrator, platform)
    integrator.step(3)
    assert context.getStepCount() == 3


def test_a_cast_integrator_can_join_a_compound_integrator():
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(ZhangSkeelIntegrator.cast(deserialized(create(ZhangSkeelIntegrator))))
    gc.collect()
    member = ZhangSkeelIntegrator.cast(compound.getIntegrator(0))
    assert member.getBeta() == ZHANG_SKEEL["Beta"]
    assert not member.thisown


@pytest.mark.parametrize("wrong, name", [
    (lambda: openmm.VerletIntegrator(0.001), "VerletIntegrator"),
    (lambda: openmm.CompoundIntegrator(), "CompoundIntegrator"),
    (lambda: deserialized(ZhangSkeelIntegrator(0.001)), "ZhangSkeelIntegrator"),
    (lambda: "integrator", "str"),
    (lambda: None, "NoneType"),
])
def test_cast_refuses_other_objects(wrong, name):
    item = wrong()
    kind = type(item)
    assert not ZhangSkeelLangevinIntegrator.isinstance(item)
    with pytest.raises(TypeError, match=rf"ZhangSkeelLangevinIntegrator.cast\(\).*{name}"):
        ZhangSkeelLangevinIntegrator.cast(item)
    assert type(item) is kind


def test_isinstance_changes_nothing():
    integrator = deserialized(create(ZhangSkeelLangevinIntegrator))
    assert StiffIntegrator.isinstance(integrator)
    assert ZhangSkeelIntegrator.isinstance(integrator)
    assert ZhangSkeelLangevinIntegrator.isinstance(integrator)
    assert type(integrator) is openmm.Integrator
    assert not conftest.has_heat_bath(integrator)
