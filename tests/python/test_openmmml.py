"""Mixed systems of OpenMM-ML: a molecule by an ASE calculator, with the pairs of its Topology, in water by forces."""

import numpy as np
import openmm
import pytest
from openmm import app, unit

openmmml = pytest.importorskip("openmmml", reason="OpenMM-ML is not installed (pip install openmmml)")
tblite = pytest.importorskip("tblite.ase", reason="tblite, which takes the place of weights, is not installed")

from ase import units  # noqa: E402
from ase.build import molecule  # noqa: E402
from ase.neighborlist import natural_cutoffs, neighbor_list  # noqa: E402

import systems  # noqa: E402
from conftest import positions_of  # noqa: E402
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology  # noqa: E402
from openmmstiff.sampling import sample  # noqa: E402
from trials import bind, seeded  # noqa: E402

EDGE, CUTOFF = 1.5, 0.7         # nm
TEMPERATURE, FRICTION, STEP = 300, 10, 0.008
DISCARDED, STEPS = 100, 300
FORCE_UNIT = unit.kilojoule_per_mole/unit.nanometer


def gfn2(atoms):
    """Atoms with GFN2-xTB. Its forces depend on the positions before by some 0.002 kJ/mol/nm, with this accuracy."""
    atoms.calc = tblite.TBLite(accuracy=0.01, verbosity=0)
    return atoms


def forces_of(system, positions):
    context = bind(system, openmm.VerletIntegrator(0.001), "Reference", positions)
    return context.getState(forces=True).getForces(asNumpy=True).value_in_unit(FORCE_UNIT)


class EthanolInWater:
    """Ethanol, the first atoms, in a periodic box of flexible water; the System of CHARMM, at its minimum."""

    def __init__(self):
        ethanol = molecule("CH3CH2OH")
        self.solute = list(range(len(ethanol)))
        topology = systems.molecule(ethanol.symbols, [pair for pair in zip(*neighbor_list(
            "ij", ethanol, natural_cutoffs(ethanol, mult=1.2))) if pair[0] < pair[1]], "ETH")
        field = app.ForceField("charmm36.xml", "charmm36/water.xml")
        self.alone = field.createSystem(topology)
        modeller = app.Modeller(topology, ethanol.positions/10*unit.nanometer)
        modeller.addSolvent(field, boxSize=openmm.Vec3(EDGE, EDGE, EDGE)*unit.nanometer)
        self.topology = modeller.topology
        self.waters = self.topology.getNumResidues() - 1
        self.system = field.createSystem(self.topology, nonbondedMethod=app.PME, nonbondedCutoff=CUTOFF*unit.nanometer,
                                         rigidWater=False, removeCMMotion=False)
        context = bind(self.system, openmm.VerletIntegrator(0.001), "CPU", modeller.positions)
        openmm.LocalEnergyMinimizer.minimize(context, 10, 200)
        self.positions = positions_of(context)

    def mix(self, **arguments):
        return openmmml.MLPotential("ase").createMixedSystem(self.topology, self.system, self.solute, **arguments)


@pytest.fixture(scope="module")
def ethanol():
    return EthanolInWater()


@pytest.fixture(scope="module")
def mixed(ethanol):
    return ethanol.mix(aseAtoms=gfn2(molecule("CH3CH2OH")), mlLongRange=False)


def test_forces_are_those_of_the_calculator_and_of_the_rest(ethanol, mixed):
    """The force field's, less what it has within the molecule, and those of a calculator for the molecule by itself."""
    atoms = gfn2(molecule("CH3CH2OH"))
    atoms.positions = 10*ethanol.positions[ethanol.solute]
    expected = forces_of(ethanol.system, ethanol.positions)
    within = forces_of(ethanol.alone, ethanol.positions[ethanol.solute])
    own = atoms.get_forces()*10/(units.kJ/units.mol)
    expected[ethanol.solute] += own - within
    assert min(np.abs(within).max(), np.abs(own).max(), np.abs(own - within).max()) > 100
    np.testing.assert_allclose(forces_of(mixed, ethanol.positions), expected, rtol=0, atol=0.02)


def test_the_molecule_has_the_pairs_of_its_topology_and_holds(ethanol, mixed):
    """
    8 bonds and 11 of 13 1-3 distances (of six about a carbon one is surplus), besides three a water; 400 steps of 8 fs. One temperature of n degrees of freedom
    scatters by 300 K (2/n)^(1/2), the mean of 2.4 ps by less, whatever their correlation: 5 of these.
    """
    integrator = seeded(MassPenaltyLangevinIntegrator(TEMPERATURE, FRICTION, STEP))
    context = bind(mixed, integrator, "CPU", ethanol.positions)
    assert integrator.computeNumPenalizedPairs() == 3*ethanol.waters
    addPairsFromTopology(integrator, ethanol.topology, mixed, ethanol.positions, atoms=ethanol.solute)
    assert integrator.computeNumPenalizedPairs() == 3*ethanol.waters + 8 + 11
    context.setVelocitiesToTemperature(TEMPERATURE, 1)
    integrator.step(DISCARDED)
    found = sample(context, 10, STEPS//10)      # an error if an energy is not finite
    assert abs(found.temperature.mean() - TEMPERATURE) < 5*TEMPERATURE*(2/(3*mixed.getNumParticles()))**0.5
    positions = positions_of(context)[ethanol.solute]
    assert np.linalg.norm(positions[:, None] - positions, axis=2).max() < 0.5   # no bond has broken


def test_a_calculator_makes_the_molecule_periodic(ethanol):
    """A molecule given as `aseAtoms` is periodic if they are. In a box, `mlLongRange` has no default."""
    def is_periodic(**arguments):
        made = ethanol.mix(mlLongRange=False, **arguments)
        return next(force for force in made.getForces()
                    if isinstance(force, openmm.PythonForce)).usesPeriodicBoundaryConditions()

    assert not is_periodic(aseAtoms=gfn2(molecule("CH3CH2OH")))
    assert is_periodic(calculator=gfn2(molecule("CH3CH2OH")).calc)
    with pytest.raises(ValueError, match="mlLongRange"):
        ethanol.mix(aseAtoms=gfn2(molecule("CH3CH2OH")))
