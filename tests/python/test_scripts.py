"""The integrators in ordinary OpenMM scripts: what a user combines them with."""

import functools

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import (FEMTOSECONDS, FORCE_FIELD, INTEGRATORS, CountingForce, Waters, add_force_with_parameter,
                      has_heat_bath, positions_of, quick, read_pdb, remove_forces, total_energy, water_box)
from openmmstiff import (ImpulseIntegrator, MassPenaltyIntegrator, SpookIntegrator, ZhangSkeelIntegrator,
                         ZhangSkeelLangevinIntegrator)
from systems import external, system_of
from trials import advance, bind, seeded, temperature


def with_kick(kick, stepSize):
    integrator = ImpulseIntegrator(stepSize)
    integrator.setKick(kick)
    return integrator


plain_impulse = functools.partial(with_kick, ImpulseIntegrator.Plain)   # others leave out the work along bonds
KICKS = [functools.partial(with_kick, kick) for kick in (ImpulseIntegrator.Mollified, ImpulseIntegrator.Projected)]


def slow_mass_penalty(stepSize):
    """A MassPenaltyIntegrator whose error in the energy, of the order (step/period)^2, is small."""
    integrator = MassPenaltyIntegrator(stepSize)
    integrator.setPenalizedPeriod(32*integrator.getStepSize())
    return integrator


def spook(stepSize):
    """A SpookIntegrator, which without constraints is Verlet's method: with shorter steps it conserves the energy."""
    integrator = SpookIntegrator(stepSize)
    integrator.setStepSize(0.4*integrator.getStepSize())
    return integrator


NVE = {"ZhangSkeelIntegrator": ZhangSkeelIntegrator, "ImpulseIntegrator": plain_impulse,
       "MassPenaltyIntegrator": slow_mass_penalty, "SpookIntegrator": spook}


@pytest.fixture(params=NVE)
def nve(request):
    """Makes each integrator at constant energy."""
    return NVE[request.param]


@pytest.fixture(params=[cls for cls in INTEGRATORS if has_heat_bath(cls)])
def langevin(request):
    """Each integrator with a heat bath."""
    return request.param


def test_forces_see_the_time_of_their_positions(nve):
    """Also after a step that has failed: a force that depends on the time is followed to the second order."""
    frequency, amplitude, length = 10*np.pi, 100, 0.12      # as cos(frequency t)
    fails = []

    def push(state):
        if fails:
            raise ValueError(fails.pop())
        return 0.0, amplitude*np.cos(frequency*state.getTime()._value)*np.eye(1, 3)

    def find_error(h):
        context = bind(system_of([1], openmm.PythonForce(push)), nve(h), "Reference", np.zeros((1, 3)))
        h = context.getIntegrator().getStepSize()._value
        if nve is spook:    # its velocities are those of half a step before
            context.setVelocities(-h/2*amplitude*np.eye(1, 3))
        for _ in range(round(length/h)):
            advance(context, 1)
        fails.append("nothing")
        begun = context.getState().getTime(), context.getStepCount()
        with pytest.raises(openmm.OpenMMException, match="nothing"):
            advance(context, 1)
        assert begun == (context.getState().getTime(), context.getStepCount())
        end = begun[0]._value
        return abs(positions_of(context)[0, 0] - amplitude/frequency**2*(1 - np.cos(frequency*end)))

    assert find_error(0.002) < 0.3*find_error(0.004) < 0.001


def test_neighbours_in_a_narrow_triclinic_box():
    """OpenMM's list of neighbours, which long steps have padded, has all of them where half a width is little more."""
    modeller = app.Modeller(app.Topology(), [])
    modeller.addSolvent(FORCE_FIELD, numAdded=420, boxShape="dodecahedron")
    system = FORCE_FIELD.createSystem(modeller.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.9, rigidWater=False)
    context = bind(system, MassPenaltyIntegrator(0.012), "CPU", modeller.positions, threads="1")
    openmm.LocalEnergyMinimizer.minimize(context, 10, 100)
    context.setVelocitiesToTemperature(300, 1)
    off = []
    for _ in range(5):
        advance(context, 2)
        fresh = bind(system, openmm.VerletIntegrator(0.001), "CPU", positions_of(context), threads="1")
        there, here = (each.getState(forces=True).getForces(asNumpy=True)._value for each in (fresh, context))
        off.append(np.abs(there - here).max())
    assert np.median(off) < 0.05


def test_a_rejected_barostat_move_costs_no_evaluation(nve, platform):
    """A barostat whose moves are all rejected leaves other forces in the Context, which must not be used."""
    waters = Waters(4)
    waters.system.setDefaultPeriodicBoxVectors((1.5, 0, 0), (0, 1.5, 0), (0, 0, 1.5))
    nonbonded, = (each for each in waters.system.getForces() if isinstance(each, openmm.NonbondedForce))
    nonbonded.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    nonbonded.setCutoffDistance(0.7)
    plain = openmm.XmlSerializer.clone(waters.system)
    # An energy that depends on the volume so steeply that every move is refused.
    volume = openmm.CustomVolumeForce("1e12*(v-v0)^2")
    volume.addGlobalParameter("v0", 1.5**3)
    waters.system.addForce(volume)
    waters.system.addForce(openmm.MonteCarloBarostat(1, 300, 1))
    counter = CountingForce(waters.system)
    ends = [advance(bind(system, nve(1*FEMTOSECONDS), platform.getName(), waters.positions, threads="1"), 10)
            for system in (waters.system, plain)]
    # One evaluation a step, at its end (and so a first one) or at its beginning; two by the barostat for each attempt.
    assert counter.count == (10 if nve is spook else 1 + 10) + 2*10
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_barostat(langevin):
    """NPT: the box changes, molecules stay whole."""
    _, positions, system = water_box()
    system.addForce(openmm.MonteCarloBarostat(1*unit.bar, 300*unit.kelvin, 5))
    context = bind(system, langevin(300, 1, 2*FEMTOSECONDS), "CPU", positions)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 20)
    context.setVelocitiesToTemperature(300, 1)
    volumes = set()
    for _ in range(10):
        molecules = advance(context, 10).reshape(-1, 3, 3)
        volumes.add(context.getState().getPeriodicBoxVolume()._value)
        bonds = np.linalg.norm(molecules[:, 1:] - molecules[:, :1], axis=2)
        assert 0.085 < bonds.min() and bonds.max() < 0.11
    assert len(volumes) > 3


def test_andersen_thermostat(nve, platform):
    """The deterministic integrator with OpenMM's thermostat samples the temperature."""
    waters = Waters(8)
    waters.system.addForce(external("100*((x-1.5)^2+(y-1.5)^2+(z-1.5)^2)", *range(24)))
    waters.system.addForce(seeded(openmm.AndersenThermostat(300, 20)))
    integrator = nve(1*FEMTOSECONDS)
    integrator.setStepSize(1*FEMTOSECONDS)
    context = bind(waters.system, integrator, platform.getName(), waters.positions, 300, "1")
    integrator.step(1000)
    temperatures = []
    for _ in range(1500):
        integrator.step(5)
        temperatures.append(temperature(context))
    blocks = np.array(temperatures).reshape(15, -1).mean(axis=1)
    error = blocks.std(ddof=1)/len(blocks)**0.5
    assert error < 6
    assert abs(blocks.mean() - 300) < 4*error


@pytest.mark.parametrize("make", [*NVE.values(), *KICKS], ids=[*NVE, "Mollified", "Projected"])
def test_thread_counts_agree(make):
    """Blocks, kicks and micro-steps are alike on one thread and on two: bit for bit, with slow forces that are."""
    _, positions, system = water_box()
    remove_forces(system, openmm.NonbondedForce, openmm.CMMotionRemover)
    system.addForce(external("300*sin(5*x)*cos(3*y+z)", *range(system.getNumParticles())))
    ends = [advance(bind(system, make(3*FEMTOSECONDS), "CPU", positions, 300, threads), 30)
            for threads in ("1", "2")]
    assert np.abs(ends[0] - np.array(positions._value)).max() > 0.01
    assert (ends[0] == ends[1]).all()


# What is done, and the evaluations of forces that this costs beyond one a step: with Zhang-Skeel, and with impulses,
# whose kick is an acceleration.
EVALUATIONS = [
    (lambda context, integrator: None, 1, 1),       # the first step
    (lambda context, integrator: None, 0, 0),
    (lambda context, integrator: context.getState(energy=True, forces=True, positions=True), 0, 0),
    (lambda context, integrator: context.setVelocitiesToTemperature(300, 2), 0, 0),
    (lambda context, integrator: integrator.computeSystemTemperature(), 0, None),
    (lambda context, integrator: integrator.getPropagatedPositions(), 0, None),
    (lambda context, integrator: integrator.setTemperature(310), 0, None),
    (lambda context, integrator: integrator.computeNumMicroSteps(), None, 0),
    (lambda context, integrator: integrator.setNumMicroSteps(9), None, 0),
    (lambda context, integrator: integrator.setStepSize(integrator.getStepSize()), 0, 0),
    (lambda context, integrator: integrator.setStepSize(0.5*FEMTOSECONDS), 1, 0),
    (lambda context, integrator: integrator.setBeta(0.3), 1, None),
    (lambda context, integrator: integrator.setKick((integrator.getKick() + 1) % 3), None, 1),
    (lambda context, integrator: context.setParameter("scale", 1.0), 1, 1),
    (lambda context, integrator: context.setTime(1), 1, 1),
    (lambda context, integrator: context.setPositions(positions_of(context)), 1, None),
    (lambda context, integrator: context.setPositions(1.001*positions_of(context)), 1, 1),
    (lambda context, integrator: context.setPeriodicBoxVectors((3, 0, 0), (0, 3, 0), (0, 0, 3)), 1, 1),
    (lambda context, integrator: integrator.setIntegrationForceGroups({0, 9}), 1, 1),
    (lambda context, integrator: context.loadCheckpoint(context.createCheckpoint()), 1, 1),
]


@pytest.mark.parametrize("make", [functools.partial(ZhangSkeelLangevinIntegrator, 300, 1), plain_impulse, *KICKS],
                         ids=["ZhangSkeelLangevinIntegrator", "Plain", "Mollified", "Projected"])
def test_one_force_evaluation_in_a_step(make, waters, platform):
    """... and one more whenever something has changed that the accelerations depend on, and only then."""
    add_force_with_parameter(waters.system)
    counter = CountingForce(waters.system)
    integrator = make(1*FEMTOSECONDS)
    context = waters.context(integrator, platform)      # its CMMotionRemover changes velocities only
    for number, (action, *expected) in enumerate(EVALUATIONS):
        cost = expected[isinstance(integrator, ImpulseIntegrator)]
        if cost is not None:
            assert counter.count_beyond_one_a_step(integrator, lambda: action(context, integrator)) == cost, number


def test_seeds_repeat_on_two_threads(langevin):
    """The noise depends on the seed and the number of threads, not on their timing."""
    _, positions, system = water_box()
    remove_forces(system, openmm.NonbondedForce)
    ends = []
    for seed in (5, 5, 6):
        integrator = langevin(300, 5, 3*FEMTOSECONDS)
        integrator.setRandomNumberSeed(seed)
        ends.append(advance(bind(system, integrator, "CPU", positions, threads="2"), 20))
    assert (ends[0] == ends[1]).all()
    assert not (ends[0] == ends[2]).all()


def run_nve(system, positions, integrator, steps=50):
    """A Context after a run at about 300 K, in which the total energy has changed by less than 0.02 kJ/mol per atom."""
    context = bind(system, integrator, "CPU", positions)
    context.computeVirtualSites()
    openmm.LocalEnergyMinimizer.minimize(context, 10, 100)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(1)
    before = total_energy(context)
    integrator.step(steps)
    assert abs(total_energy(context) - before)/system.getNumParticles() < 0.02
    return context


def four_site_water():
    """TIP4P-Ew with its virtual sites and PME."""
    pdb = read_pdb("tip4pew")
    return pdb.positions, app.ForceField("tip4pew.xml").createSystem(
        pdb.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.8*unit.nanometer, rigidWater=False)


def dodecahedron():
    """Water in a triclinic box: the same System as in a cube, but for the box."""
    modeller = app.Modeller(app.Topology(), []*unit.nanometer)
    modeller.addSolvent(FORCE_FIELD, numAdded=400, boxShape="dodecahedron")
    return modeller.positions, FORCE_FIELD.createSystem(modeller.topology, nonbondedMethod=app.PME,
                                                        nonbondedCutoff=0.7*unit.nanometer, rigidWater=False)


@pytest.mark.parametrize("make", [four_site_water, dodecahedron, lambda: water_box(rigid=True)[1:]],
                         ids=["four-site water", "triclinic box", "a script for rigid water"])
def test_energy_is_kept_and_sites_are_where_they_belong(make, nve):
    """Nothing is stiff in a System of rigid waters: they are integrated with their constraints."""
    positions, system = make()
    context = run_nve(system, positions, nve(1*FEMTOSECONDS))
    before = positions_of(context)
    context.computeVirtualSites()
    assert np.abs(positions_of(context) - before).max() < 1e-6


@pytest.fixture(scope="module")
def villin():
    """The positions of a protein in water, and what makes its System."""
    pdb, forcefield = read_pdb("test"), app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")
    return pdb.positions, functools.partial(forcefield.createSystem, pdb.topology, nonbondedMethod=app.PME)


@pytest.mark.parametrize("nve", quick(["MassPenaltyIntegrator"], NVE), indirect=True)
def test_flexible_protein_in_rigid_water(nve, villin):
    """A protein is one large sparse block; the waters around it keep their constraints."""
    x, create_system = villin
    system = create_system(nonbondedCutoff=0.8*unit.nanometer, constraints=None, rigidWater=True)
    assert system.getNumConstraints() > 0
    positions = positions_of(run_nve(system, x, nve(1*FEMTOSECONDS), 30))
    for i in range(0, system.getNumConstraints(), 97):
        first, second, length = system.getConstraintParameters(i)
        found = np.linalg.norm(positions[first] - positions[second])
        tolerance = 1e-3 if nve is spook else 1e-5      # motion stretches constraints
        assert found == pytest.approx(length.value_in_unit(unit.nanometer), rel=tolerance)


@pytest.mark.parametrize("cls", [ZhangSkeelIntegrator, ImpulseIntegrator])
def test_constrained_protein_is_an_error_that_says_what_to_do(cls, villin):
    system = villin[1](constraints=app.HBonds)
    with pytest.raises(openmm.OpenMMException, match=f"{cls.__name__}.*constraint.*rigidWater=False"):
        openmm.Context(system, cls(1*FEMTOSECONDS), openmm.Platform.getPlatform("CPU"))
