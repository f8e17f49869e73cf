"""What docs/does-it-work.md says works, at 12 fs with a friction of 5/ps, as far as no other test tries it."""

import functools

import numpy as np
import openmm
import pytest
from openmm import app, unit

from common import proteins
from conftest import REFERENCE, positions_of, read_pdb
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology
from trials import bind, seeded, temperature

STEP, FRICTION, TEMPERATURE = 0.012, 5, 300     # ps, 1/ps, K
MODELS = {"TIP4P-Ew": ("tip4pew", "tip4pew.xml", 0), "OPC": ("tip4pew", "amber14/opc.xml", 0),
          "TIP5P": ("tip5p", "tip5p.xml", 0), "flexible TIP4P-Ew": ("tip4pew", "tip4pew.xml", 1)}
BAROSTATS = {
    "isotropic": lambda: openmm.MonteCarloBarostat(1, TEMPERATURE, 2),
    "anisotropic": lambda: openmm.MonteCarloAnisotropicBarostat((1, 1, 1), TEMPERATURE, True, True, True, 2),
    "membrane": lambda: openmm.MonteCarloMembraneBarostat(
        1, 0, TEMPERATURE, openmm.MonteCarloMembraneBarostat.XYIsotropic, openmm.MonteCarloMembraneBarostat.ZFree, 2),
    "flexible": lambda: openmm.MonteCarloFlexibleBarostat(1, TEMPERATURE, 2)}


@functools.cache
def peptide():
    """The (topology, positions [nm]) of the first six residues of villin, of which one has a ring, in vacuum."""
    modeller = proteins.cut_villin(6)
    return modeller.topology, np.array(modeller.positions._value)


def corner(name, width=1.9, edge=2.0):
    """The (topology, positions [nm]) of the waters in a corner of a box of OpenMM's, in a box of their own."""
    pdb = read_pdb(name)
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.delete([residue for residue in pdb.topology.residues()
                     if max(pdb.positions[next(residue.atoms()).index]._value) > width])
    modeller.topology.setUnitCellDimensions(openmm.Vec3(edge, edge, edge)*unit.nanometer)
    return modeller.topology, np.array(modeller.positions._value)


def create_system(field="amber14-all.xml", **options):
    return app.ForceField(field).createSystem(peptide()[0], removeCMMotion=False, **options)


def start(system, positions):
    """A Context near the minimum, which has been heated by small steps; few particles are faster on Reference."""
    integrator, few = openmm.CompoundIntegrator(), system.getNumParticles() < 150
    integrator.addIntegrator(seeded(openmm.LangevinMiddleIntegrator(TEMPERATURE, 50, 0.001)))
    integrator.addIntegrator(seeded(MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, STEP)))
    context = bind(system, integrator, "Reference" if few else "CPU", positions)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 200 if few else 30)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    integrator.step(100)
    integrator.setCurrentIntegrator(1)
    return context


def assert_holds(context, steps=1000, tolerance=20):
    """
    The mean temperature is the bath's. One of 200 degrees of freedom scatters by 30 K; samples are independent after
    1/friction, 0.2 ps, so that the mean of 12 ps has an error of 4 K: 5 of these.
    """
    found = []
    for _ in range(steps//5):
        context.getIntegrator().step(5)
        found.append(temperature(context))
    assert abs(np.mean(found[len(found)//5:]) - TEMPERATURE) < tolerance


@pytest.mark.parametrize("kind", BAROSTATS)
def test_barostats_from_the_start_and_in_a_running_simulation(kind):
    topology, positions = corner("tip3p")
    for later in False, True:
        system = app.ForceField("tip3p.xml").createSystem(topology, nonbondedMethod=app.PME,
                                                          nonbondedCutoff=0.8*unit.nanometer, rigidWater=False)
        barostat = seeded(BAROSTATS[kind]())
        if not later:
            system.addForce(barostat)
        context = start(system, positions)
        if later:
            system.addForce(barostat)
            context.reinitialize(preserveState=True)
        volumes = set()
        for _ in range(15):
            context.getIntegrator().step(4)
            volumes.add(context.getState().getPeriodicBoxVolume()._value)
        assert len(volumes) > 3 and context.getStepCount() == 160


def test_barostat_for_a_calculator_of_ase():
    """Which OpenMM-ML makes a System of."""
    calculators, openmmml = pytest.importorskip("openmmstiff.ase"), pytest.importorskip("openmmml")
    topology, positions = corner("tip3p", 1.35, 1.6)
    forces = app.ForceField("tip3p.xml").createSystem(topology, nonbondedMethod=app.CutoffPeriodic,
                                                      nonbondedCutoff=0.6*unit.nanometer, rigidWater=False)
    system = openmmml.MLPotential("ase").createSystem(topology, calculator=calculators.SystemCalculator(forces))
    system.addForce(seeded(openmm.MonteCarloBarostat(1, TEMPERATURE, 2)))
    integrator = seeded(MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, STEP))
    assert addPairsFromTopology(integrator, topology, system, positions)
    context, volumes = bind(system, integrator, "Reference", positions), set()
    openmm.LocalEnergyMinimizer.minimize(context, 10, 30)
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    for _ in range(15):
        integrator.step(4)
        volumes.add(context.getState().getPeriodicBoxVolume()._value)
    assert len(volumes) > 3


@pytest.mark.parametrize("model", MODELS)
def test_virtual_sites(model):
    name, field, flexible = MODELS[model]
    topology, positions = corner(name)
    system = app.ForceField(field).createSystem(topology, nonbondedMethod=app.PME, nonbondedCutoff=0.8*unit.nanometer,
                                                rigidWater=not flexible)
    context = start(system, positions)
    assert_holds(context, 100, 40)
    before = positions_of(context)
    context.computeVirtualSites()
    assert np.abs(positions_of(context) - before).max() < 1e-5


@pytest.mark.parametrize("constraints", [None, app.HBonds, app.AllBonds, app.HAngles], ids=str)
def test_constraints(constraints):
    assert_holds(start(create_system(constraints=constraints), peptide()[1]))


@pytest.mark.parametrize("mass", [1.5, 2, 3, 4])
def test_heavy_hydrogens(mass):
    assert_holds(start(create_system(constraints=app.HBonds, hydrogenMass=mass), peptide()[1]))


def test_charmm36():
    assert_holds(start(create_system("charmm36.xml", constraints=app.HBonds), peptide()[1]))


@pytest.mark.parametrize("constraints", [None, app.HBonds], ids=str)
def test_frozen_atoms(constraints):
    """Those of three residues, with their masses 0."""
    system, (topology, positions) = create_system(constraints=constraints), peptide()
    frozen = [atom.index for residue in list(topology.residues())[:3] for atom in residue.atoms()]
    context = start(system, positions)
    positions = positions_of(context)
    for i in frozen:
        system.setParticleMass(i, 0)
    context = start(system, positions)
    assert_holds(context)
    assert np.abs(positions_of(context)[frozen] - positions[frozen]).max() < 1e-6


@pytest.mark.filterwarnings("ignore::UserWarning")     # from 1e5 on the restraints are named
@pytest.mark.parametrize("stiffness, works", [(1e3, True), (1e4, True), (1e5, True), (1e7, False)])
def test_restraints(stiffness, works):
    """Of all heavy atoms to where they are, kJ/mol/nm^2; what is too stiff is an error."""
    system, (topology, positions) = create_system(constraints=app.HBonds), peptide()
    restraint = openmm.CustomExternalForce("k/2*((x-x0)^2+(y-y0)^2+(z-z0)^2)")
    restraint.addGlobalParameter("k", stiffness)
    for name in "x0", "y0", "z0":
        restraint.addPerParticleParameter(name)
    for atom in topology.atoms():
        if atom.element != app.element.hydrogen:
            restraint.addParticle(atom.index, positions[atom.index])
    system.addForce(restraint)
    context = start(system, positions)
    if works:
        assert_holds(context)
    else:
        with pytest.raises(openmm.OpenMMException, match="Use a smaller step size"):
            context.getIntegrator().step(1000)


def test_rest2():
    """Torsions and charges of a peptide are scaled by parameters, which OpenMM's own sampler exchanges."""
    system, (topology, positions) = create_system(constraints=app.HBonds), peptide()
    charges, = (force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    torsions, = (force for force in system.getForces() if isinstance(force, openmm.PeriodicTorsionForce))
    scaled = openmm.CustomTorsionForce("beta*k*(1+cos(n*theta-phase))")
    scaled.addGlobalParameter("beta", 1)
    charges.addGlobalParameter("less", 0)
    for name in "n", "phase", "k":
        scaled.addPerTorsionParameter(name)
    for i in range(torsions.getNumTorsions()):
        *atoms, n, phase, k = torsions.getTorsionParameters(i)
        scaled.addTorsion(*atoms, [n, phase, k])
        torsions.setTorsionParameters(i, *atoms, n, phase, 0)
    for i in range(system.getNumParticles()):
        charges.addParticleParameterOffset("less", i, charges.getParticleParameters(i)[0], 0, 0)
    system.addForce(scaled)
    integrator = seeded(MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, STEP))
    simulation = app.Simulation(topology, system, integrator, REFERENCE)
    simulation.context.setState(start(system, positions).getState(positions=True, velocities=True))
    scales = [{"beta": beta, "less": beta**0.5 - 1} for beta in (1, 0.98, 0.96)]
    sampler = app.ReplicaExchangeSampler(scales, simulation, 12)
    places, found = set(), []

    def report(sampler):
        places.add(tuple(sampler.replicaStateIndex))
        for state in sampler.replicaConformation:
            simulation.context.setState(state)
            found.append(temperature(simulation.context))

    sampler.reporters.append(report)
    sampler.simulate(20)
    assert len(places) > 1, "replicas wander"
    assert abs(np.mean(found) - TEMPERATURE) < 20


def test_bead_spring_chains_without_angles():
    """Kremer and Grest's: FENE bonds with the repulsion of beads, the chain as long as three blocks."""
    count, sigma, repulsion = 64, 0.34, "step(2^(1/6)*s-r)*(4*e*((s/r)^12-(s/r)^6)+e); e=2.494; s=0.34"
    bonds = openmm.CustomBondForce("-0.5*30*e/s^2*(1.5*s)^2*log(1-(r/(1.5*s))^2) + " + repulsion)
    beads = openmm.CustomNonbondedForce(repulsion)
    system = openmm.System()
    for bead in range(count):
        system.addParticle(72)
        beads.addParticle([])
        if bead:
            bonds.addBond(bead - 1, bead, [])
            beads.addExclusion(bead - 1, bead)
    system.addForce(bonds)
    system.addForce(beads)
    integrator = openmm.CompoundIntegrator()
    integrator.addIntegrator(seeded(openmm.LangevinMiddleIntegrator(TEMPERATURE, 1, 0.01)))
    integrator.addIntegrator(seeded(MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, 0.06)))
    context = bind(system, integrator, "Reference", [(0.97*sigma*bead, 0.05*(bead % 2), 0) for bead in range(count)],
                   TEMPERATURE)
    integrator.step(10000)
    integrator.setCurrentIntegrator(1)
    assert_holds(context, 5000)
    assert integrator.getIntegrator(1).getNumCollisions() == 0
