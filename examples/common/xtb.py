"""Small molecules in GFN2-xTB (C. Bannwarth, S. Ehlert, S. Grimme, J. Chem. Theory Comput. 15, 1652, 2019), by tblite.

The potential is an ordinary OpenMM force: a PythonForce, whose function gets positions and returns energy and forces.
"""
from dataclasses import dataclass
from typing import Any

import numpy as np
import openmm as mm
from openmm import app, unit

BOHR = 0.0529177210903     # nm
HARTREE = 2625.4996395     # kJ/mol
RELAXATION = (50.0, 0.0005, 1000)   # friction (1/ps), step (ps), steps


@dataclass(frozen=True)
class Molecule:
    """Its atoms, each an element and a label, equal for atoms that cannot be told apart, and the bonds between them."""
    name: str
    atoms: str                  # such as "C1 C2 O H1 H1 H1": the label's letters are the element
    bonds: tuple                # pairs of indices
    positions: tuple            # rough, nm
    torsion: tuple              # four atoms, whose turning is the slowest motion
    ends: tuple                 # two atoms whose distance follows that
    charge: int = 0             # e

    @property
    def labels(self) -> list[str]:
        return self.atoms.split()

    @property
    def elements(self) -> list[app.Element]:
        return [app.Element.getBySymbol(label.rstrip("0123456789")) for label in self.labels]

    def build_topology(self) -> app.Topology:
        topology = app.Topology()
        residue = topology.addResidue(self.name[:3].upper(), topology.addChain())
        atoms = [topology.addAtom(f"{label}{i}", element, residue)
                 for i, (label, element) in enumerate(zip(self.labels, self.elements))]
        for i, j in self.bonds:
            topology.addBond(atoms[i], atoms[j])
        return topology

    def build_system(self, hydrogen_mass: float | None = None) -> mm.System:
        """One force, GFN2-xTB. A mass of the hydrogens (dalton) is taken from the atoms that they are bonded to."""
        system = mm.System()
        masses = [element.mass.value_in_unit(unit.dalton) for element in self.elements]
        hydrogens = [i for i, element in enumerate(self.elements) if element is app.element.hydrogen]
        if hydrogen_mass is not None:
            for i, j in self.bonds:
                for hydrogen, other in ((i, j), (j, i)):
                    if hydrogen in hydrogens:
                        masses[other] -= hydrogen_mass - masses[hydrogen]
                        masses[hydrogen] = hydrogen_mass
        for mass in masses:
            system.addParticle(mass)
        system.addForce(mm.PythonForce(self.build_potential()))
        # No CMMotionRemover: the noise of a step moves the centre of mass before it is held again, and of so few
        # degrees of freedom that is a part; at a friction of 5/ps and 8 fs the temperature would seem 1 % too high.
        return system

    def build_potential(self) -> "XTB":
        return XTB([element.atomic_number for element in self.elements], self.charge)

    def relax(self, system: mm.System, temperature: float, seed: int) -> mm.Context:
        """A Context with thermal positions, from the rough ones."""
        friction, step, steps = RELAXATION
        integrator = mm.LangevinMiddleIntegrator(temperature, friction, step)
        integrator.setRandomNumberSeed(seed)
        context = mm.Context(system, integrator, mm.Platform.getPlatform("Reference"))
        context.setPositions(self.positions)
        integrator.step(steps)
        return context


class XTB:
    """What a PythonForce calls: State to (kJ/mol, array of kJ/mol/nm). It can be pickled, as that asks for.

    Each evaluation begins its self-consistent field anew. To begin with the charges of the last step is faster, and
    makes the forces depend on where the molecule came from: they are then no gradient of an energy, and it heats or
    cools. Of the last positions the result is kept, so that to ask for an energy there costs nothing.
    """

    def __init__(self, numbers: list[int], charge: int = 0):
        self.numbers, self.charge, self.evaluations = numbers, charge, 0
        self.calculator: Any = None
        self.positions: np.ndarray | None = None
        self.result: tuple[float, np.ndarray] | None = None
        self.dipole = np.full(3, np.nan)    # e nm, at the last positions

    def __reduce__(self):
        return XTB, (self.numbers, self.charge)

    def __call__(self, state: mm.State):
        from tblite.interface import Calculator  # PyPI tblite
        positions = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)
        if self.positions is None or not np.array_equal(positions, self.positions):
            if self.calculator is None:
                self.calculator = Calculator("GFN2-xTB", np.array(self.numbers), positions / BOHR, charge=self.charge)
                self.calculator.set("verbosity", 0)
            self.calculator.update(positions / BOHR)
            found = self.calculator.singlepoint()
            self.positions = np.array(positions)
            self.result = (float(found.get("energy")) * HARTREE,
                           -np.asarray(found.get("gradient")) * (HARTREE / BOHR))
            self.dipole = np.asarray(found.get("dipole")) * BOHR
            self.evaluations += 1
        return self.result


def add_distilled(system: mm.System, context: mm.Context, geometry, group: int, snapshots: int = 400):
    """Split the force of a System: a force field that is fitted to it, and what is left of it.

    As distilled multiple time stepping does, but with a simple force field: polynomials of bonds, 1-3 distances and
    angles. It goes into `group`, and its negative beside the force. `context` moves to make the snapshots that are
    fitted; `geometry` has the kinds of `bonds` and `angles`.
    """
    terms = [*((atoms, 4) for atoms in geometry.bonds.values()), *((atoms, 3) for atoms in geometry.angles.values()),
             *(([(i, k) for i, _, k in atoms], 2) for atoms in geometry.angles.values())]
    seen = []
    for _ in range(snapshots):
        context.getIntegrator().step(50)
        state = context.getState(positions=True, forces=True)
        seen.append((state.getPositions(asNumpy=True)._value, state.getForces(asNumpy=True)._value.ravel()))
    centres = [np.mean([[internal(x, each)[0] for each in atoms] for x, _ in seen]) for atoms, _ in terms]
    rows = []
    for x, _ in seen:
        columns = []
        for (atoms, degree), centre in zip(terms, centres):
            values, gradients = map(np.array, zip(*(internal(x, each) for each in atoms)))
            columns += [-np.tensordot(n * (values - centre)**(n - 1), gradients, 1).ravel()
                        for n in range(1, degree + 1)]
        rows.append(np.transpose(columns))
    fitted = np.linalg.lstsq(np.concatenate(rows), np.concatenate([force for _, force in seen]), rcond=None)[0]
    parts = np.split(fitted, np.cumsum([degree for _, degree in terms])[:-1])
    for sign, its_group in ((1, group), (-1, system.getForce(0).getForceGroup())):
        energy = "c1*x + c2*x^2 + c3*x^3 + c4*x^4; x = {} - centre"
        bonds, angles = mm.CustomBondForce(energy.format("r")), mm.CustomAngleForce(energy.format("theta"))
        for force in (bonds, angles):
            for name in ("centre", "c1", "c2", "c3", "c4"):
                getattr(force, f"addPer{'Bond' if force is bonds else 'Angle'}Parameter")(name)
            force.setForceGroup(its_group)
            system.addForce(force)
        for (atoms, degree), centre, part in zip(terms, centres, parts):
            for each in atoms:
                (bonds.addBond if len(each) == 2 else angles.addAngle)(
                    *each, [centre, *(sign * part), *[0] * (4 - degree)])


def internal(x: np.ndarray, atoms: tuple[int, ...]) -> tuple[float, np.ndarray]:
    """A length (nm) or an angle (radians), and its gradient with respect to all positions."""
    gradient = np.zeros_like(x)
    arms = [x[i] - x[atoms[len(atoms) // 2]] for i in (atoms[0], atoms[-1])]
    if len(atoms) == 2:
        length = np.linalg.norm(arms[0])
        gradient[list(atoms)] = arms[0] / length, -arms[0] / length
        return float(length), gradient
    lengths = np.linalg.norm(arms, axis=1)
    first, last = arms[0] / lengths[0], arms[1] / lengths[1]
    cosine = first @ last
    sine = np.sqrt(1 - cosine**2)
    gradient[atoms[0]] = (cosine * first - last) / (lengths[0] * sine)
    gradient[atoms[2]] = (cosine * last - first) / (lengths[1] * sine)
    gradient[atoms[1]] = -gradient[atoms[0]] - gradient[atoms[2]]
    return float(np.arccos(cosine)), gradient


ETHANOL = Molecule(
    "ethanol", "C1 C2 O H1 H1 H1 H2 H2 H3",
    ((0, 1), (1, 2), (0, 3), (0, 4), (0, 5), (1, 6), (1, 7), (2, 8)),
    ((-0.1168, -0.0403, 0.0), (0.0, 0.0556, 0.0), (0.1199, -0.0204, 0.0), (-0.2110, 0.0153, 0.0),
     (-0.1136, -0.1040, 0.0890), (-0.1136, -0.1040, -0.0890), (-0.0047, 0.1202, 0.0888), (-0.0047, 0.1202, -0.0888),
     (0.1950, 0.0420, 0.0)),
    torsion=(0, 1, 2, 8), ends=(0, 8))
METHYLACETAMIDE = Molecule(
    "N-methylacetamide", "C1 C2 O N C3 H1 H1 H1 H2 H3 H3 H3",
    ((0, 1), (1, 2), (1, 3), (3, 4), (0, 5), (0, 6), (0, 7), (3, 8), (4, 9), (4, 10), (4, 11)),
    ((-0.1930, -0.0310, 0.0), (-0.0500, 0.0220, 0.0), (-0.0240, 0.1420, 0.0), (0.0450, -0.0740, 0.0),
     (0.1870, -0.0450, 0.0), (-0.2620, 0.0530, 0.0), (-0.2080, -0.0920, 0.0890), (-0.2080, -0.0920, -0.0890),
     (0.0190, -0.1720, 0.0), (0.2080, 0.0170, 0.0890), (0.2080, 0.0170, -0.0890), (0.2450, -0.1370, 0.0)),
    torsion=(1, 3, 4, 9), ends=(5, 4))
MOLECULES = {"ethanol": ETHANOL, "methylacetamide": METHYLACETAMIDE}
