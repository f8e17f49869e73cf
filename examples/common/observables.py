"""Radial distribution functions of water, and how its molecules move; bonds and angles of others."""
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import mdtraj
import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff.sampling import GAS_CONSTANT

RDF_PAIRS = ("O-O", "O-H")         # those of every run; a run may ask for H-H too
RDF_RANGE = (0.12, 0.9)  # nm; the upper end is the cutoff, which is less than half of every box
RDF_BIN = 0.005          # nm
FIRST_PEAK_BELOW = {"O-O": 0.35, "O-H": 0.25, "H-H": 0.3}  # nm
DIFFUSION_LAGS = (2.0, 8.0)      # ps, over which the slope of the mean square displacement is taken
REORIENTATION_LAGS = (1.0, 4.0)  # ps, between which the correlation falls exponentially
START_BLOCKS = 10        # of starting points, for the error of what is taken over a lag


def rdf_distances() -> np.ndarray:
    """Centres of the bins of the radial distribution functions, nm."""
    bins = round((RDF_RANGE[1] - RDF_RANGE[0]) / RDF_BIN)
    return RDF_RANGE[0] + RDF_BIN * (np.arange(bins) + 0.5)


@cache
def rdf_pairs(waters: int) -> dict[str, np.ndarray]:
    """Atom pairs of each kind, those within a molecule left out."""
    first, second = np.triu_indices(waters, k=1)  # molecules
    oxygens = np.stack((3 * first, 3 * second), axis=1)
    to_hydrogens = [np.stack((3 * a, 3 * b + h), axis=1) for a, b in ((first, second), (second, first))
                    for h in (1, 2)]
    hydrogens = [np.stack((3 * first + h, 3 * second + i), axis=1) for h in (1, 2) for i in (1, 2)]
    return {"O-O": oxygens, "O-H": np.concatenate(to_hydrogens), "H-H": np.concatenate(hydrogens)}


def radial_distributions(topology: app.Topology, frames: list[np.ndarray],
                         kinds: tuple[str, ...] = RDF_PAIRS) -> np.ndarray:
    """g(r) of several kinds of pairs in consecutive blocks of frames (nm, cubic box); shape (pairs, blocks, bins).

    There are 4 to 20 blocks, all of the same length, of 5 frames or more if there are as many. The first
    frames, which do not fill a block, are dropped.
    """
    per_block = max(1, min(5, len(frames) // 4), len(frames) // 20)
    blocks = len(frames) // per_block
    frames = frames[len(frames) - blocks * per_block:]
    md_topology = mdtraj.Topology.from_openmm(topology)
    edges = topology.getUnitCellDimensions().value_in_unit(unit.nanometer)
    pairs = rdf_pairs(md_topology.n_residues)
    g = np.zeros((len(kinds), blocks, len(rdf_distances())))
    for i, frame in enumerate(frames):  # one by one, for memory: a frame has millions of pairs
        trajectory = mdtraj.Trajectory(frame, md_topology, unitcell_lengths=edges, unitcell_angles=3 * [90])
        for k, kind in enumerate(kinds):
            _, one = mdtraj.compute_rdf(trajectory, pairs[kind], r_range=RDF_RANGE, bin_width=RDF_BIN)
            g[k, i // per_block] += one / per_block
    return g


def observe_density(system: mm.System) -> Callable[[mm.State], dict[str, float]]:
    """What sampling.sample() takes to observe the density, g/cm^3."""
    mass = sum(system.getParticleMass(i).value_in_unit(unit.gram / unit.mole) for i in range(system.getNumParticles()))

    def observe(state: mm.State) -> dict[str, float]:
        volume = state.getPeriodicBoxVolume() * unit.AVOGADRO_CONSTANT_NA
        return {"density": mass / volume.value_in_unit(unit.centimeter**3 / unit.mole)}
    return observe


def observe_temperatures(system: mm.System, parts: dict[str, list[int]]) -> Callable[[mm.State], dict[str, float]]:
    """The same for the temperatures (K) of parts of a System, its particles by name; no constraint joins two of them.

    What is known of the motion of the System as a whole, each part has by its share of the mass.
    """
    masses = np.array([system.getParticleMass(i).value_in_unit(unit.dalton) for i in range(system.getNumParticles())])
    held = [system.getConstraintParameters(i)[0] for i in range(system.getNumConstraints())]
    removed = any(isinstance(force, mm.CMMotionRemover) for force in system.getForces())
    freedom = {name: 3 * np.count_nonzero(masses[part]) - np.isin(held, part).sum()
               - 3 * removed * masses[part].sum() / masses.sum() for name, part in parts.items() if masses[part].any()}

    def observe(state: mm.State) -> dict[str, float]:
        velocities = state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer / unit.picosecond)
        twice = masses * np.sum(velocities**2, axis=1)
        return {name: twice[part].sum() / (freedom[name] * GAS_CONSTANT) for name, part in parts.items() if name in freedom}
    return observe


def without_vibrations(positions: np.ndarray, shape: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Molecules in a rigid shape, each placed where its atoms are nearest to `positions`, weighted by mass.

    positions: nm, (molecules, atoms, 3); shape: nm, (atoms, 3); masses: dalton, (atoms,). Kabsch, Acta Cryst.
    A32, 922 (1976). For a shape that all stiff coordinates define, this is the point A(q) of mollified methods.
    """
    weights = masses / masses.sum()
    shape = shape - weights @ shape
    centres = np.einsum("a,maj->mj", weights, positions)
    covariance = np.einsum("a,ai,maj->mij", weights, shape, positions - centres[:, None])
    left, _, right = np.linalg.svd(covariance)
    left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]  # a rotation, not a reflection
    return centres[:, None] + shape @ (left @ right)


def rdf_error(blocks: np.ndarray) -> np.ndarray:
    """Standard error of g(r), in each bin, from its blocks (blocks, bins)."""
    return blocks.std(axis=0, ddof=1) / len(blocks) ** 0.5


def rdf_p_value(g: np.ndarray, reference: np.ndarray, shuffles: int = 2000) -> float:
    """Probability that two runs with the same true g(r) differ as much as these (blocks, bins).

    The measure is chi^2, the sum over the bins of the squared difference over the squared error. Neighbouring
    bins are correlated, so its law is taken from the data: the blocks are dealt to the two runs at random.
    """
    both = np.concatenate((g, reference))
    both = both[:, both.var(axis=0) > 0]  # without the bins where g(r) = 0
    random = np.random.default_rng(0)

    def chi_squared(order: np.ndarray) -> float:
        one, other = both[order[:len(g)]], both[order[len(g):]]
        squared_error = rdf_error(one) ** 2 + rdf_error(other) ** 2
        return np.sum((one.mean(axis=0) - other.mean(axis=0)) ** 2 / squared_error)

    found = chi_squared(np.arange(len(both)))
    as_large = sum(chi_squared(random.permutation(len(both))) >= found for _ in range(shuffles))
    return float((1 + as_large) / (1 + shuffles))


def first_peak(pair: str, g: np.ndarray) -> tuple[float, float]:
    """Position (nm) and height of the first peak of g(r): the top of a parabola through the highest bins."""
    r = rdf_distances()
    highest = int(np.argmax(np.where(r < FIRST_PEAK_BELOW[pair], g, 0)))
    near = slice(highest - 2, highest + 3)
    c2, c1, c0 = np.polyfit(r[near] - r[highest], g[near], 2)
    return float(r[highest] - c1 / (2 * c2)), float(c0 - c1**2 / (4 * c2))


def over_lag(product: Callable[[np.ndarray, np.ndarray], np.ndarray], frames: np.ndarray, lag: int) -> np.ndarray:
    """Mean of product(frame, frame `lag` later) over molecules, by blocks of starting points: START_BLOCKS values."""
    means = np.array([product(now, later).mean() for now, later in zip(frames, frames[lag:])])
    return np.array([block.mean() for block in np.array_split(means, START_BLOCKS)])


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def diffusion(centres: np.ndarray, interval: float, lags: tuple[float, float] = DIFFUSION_LAGS) -> tuple[float, float]:
    """Self-diffusion coefficient and its error, 1e-5 cm^2/s.

    centres: of the molecules, unwrapped, nm; shape (frames, molecules, 3). interval: between frames, ps.
    """
    centres = centres - centres.mean(axis=1, keepdims=True)  # without the motion of the box as a whole

    def square(lag: int) -> np.ndarray:
        return over_lag(lambda now, later: np.sum((later - now) ** 2, axis=1), centres, lag)

    first, last = (round(lag / interval) for lag in lags)
    slopes = (square(last) - square(first)) / ((last - first) * interval)
    return mean_and_error(slopes / 6 * 1000)  # 1 nm^2/ps is 1e-2 cm^2/s


def reorientation(dipoles: np.ndarray, interval: float,
                  lags: tuple[float, float] = REORIENTATION_LAGS) -> tuple[float, float]:
    """Reorientation time of unit vectors, shape (frames, molecules, 3), and its error, ps."""
    def correlation(lag: int) -> np.ndarray:
        return over_lag(lambda now, later: np.sum(now * later, axis=1), dipoles, lag)

    first, last = (round(lag / interval) for lag in lags)
    return mean_and_error((last - first) * interval / np.log(correlation(first) / correlation(last)))


def places_of_waters(positions: np.ndarray, masses: np.ndarray) -> dict[str, np.ndarray]:
    """Centres of mass, and unit vectors along the dipoles. positions: (molecules, 3, 3), O first; masses: (3,)."""
    axes = positions[:, 1] + positions[:, 2] - 2 * positions[:, 0]
    return {"centres": np.einsum("a,maj->mj", masses / masses.sum(), positions).astype(np.float32),
            "dipoles": (axes / np.linalg.norm(axes, axis=1, keepdims=True)).astype(np.float32)}


def temperatures_by_motion(positions: np.ndarray, velocities: np.ndarray, masses: np.ndarray,
                           kinetic: float, held: bool = True) -> tuple[float, float, float]:
    """The temperatures (K) of the translation, rotation and vibration of triatomic molecules.

    positions, velocities: nm and nm/ps, (molecules, 3, 3); masses: dalton, see rigid_motion(). The vibrations have what
    is left of the total `kinetic` energy (kJ/mol). Rigid molecules have none: NaN. `held`: the box as a whole is held
    still.
    """
    translation, rotation = rigid_motion(positions, velocities, masses)
    vibration = kinetic - translation - rotation
    each = 3 * len(positions)  # degrees of freedom
    rigid = vibration < 0.05 * kinetic  # what is left is that of velocities along constraints
    return (2 * translation / ((each - 3 * held) * GAS_CONSTANT), 2 * rotation / (each * GAS_CONSTANT),
            float("nan") if rigid else 2 * vibration / (each * GAS_CONSTANT))


def rigid_motion(positions: np.ndarray, velocities: np.ndarray, masses: np.ndarray) -> tuple[float, float]:
    """The kinetic energies (kJ/mol) of the translation and the rotation of molecules, each with the angular velocity
    of a rigid one of the same angular momentum.

    positions, velocities: nm and nm/ps, (molecules, atoms, 3); masses: dalton, (atoms,).
    """
    weights = masses / masses.sum()
    centre_velocities = np.einsum("a,maj->mj", weights, velocities)
    arms = positions - np.einsum("a,maj->mj", weights, positions)[:, None]
    momenta = np.einsum("a,maj->mj", masses, np.cross(arms, velocities - centre_velocities[:, None]))
    second = np.einsum("a,mai,maj->mij", masses, arms, arms)
    inertia = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    spins = np.linalg.solve(inertia, momenta[:, :, None])[:, :, 0]
    return 0.5 * masses.sum() * np.sum(centre_velocities**2), 0.5 * np.sum(momenta * spins)


def turns(x: np.ndarray, torsions: np.ndarray) -> np.ndarray:
    """Torsions as unit vectors (cosine, sine), shape (torsions, 2), of positions (atoms, 3); each of four atoms."""
    a, b, c = np.moveaxis(np.diff(x[torsions], axis=1), 1, 0)
    normal = np.cross(b, c)
    both = np.stack([np.sum(np.cross(a, b) * normal, axis=1),
                     np.linalg.norm(b, axis=1) * np.sum(a * normal, axis=1)], axis=1)
    return (both / np.linalg.norm(both, axis=1, keepdims=True)).astype(np.float32)


def transitions(series: np.ndarray, wells: int) -> int:
    """How often torsions have gone from one of their equal wells to another; series: of turns(), (frames, torsions, 2).

    Of a well counts the half around its middle: who leaves it and comes back has not gone.
    """
    phases = wells * np.arctan2(series[..., 1], series[..., 0].astype(float))
    phases -= np.angle(np.exp(1j * phases).mean(axis=0))
    places = np.round(phases / (2 * np.pi))
    inside = np.abs(phases - 2 * np.pi * places) < np.pi / 2
    visited = [(column % wells)[within] for column, within in zip(places.T, inside.T)]
    return int(sum(np.count_nonzero(np.diff(each)) for each in visited))


class Geometry:
    """The bonds and angles of a molecule, told apart by the labels of their atoms: such as C-H and H-C-H."""

    def __init__(self, labels: Sequence[str], bonds: Iterable[tuple[int, int]]):
        self.bonds: dict[str, list[tuple[int, ...]]] = {}   # from kinds to atoms
        self.angles: dict[str, list[tuple[int, ...]]] = {}
        neighbours: list[list[int]] = [[] for _ in labels]
        for i, j in bonds:
            neighbours[i].append(j)
            neighbours[j].append(i)
            self.bonds.setdefault("-".join(sorted((labels[i], labels[j]))), []).append((i, j))
        for vertex, bound in enumerate(neighbours):
            for place, i in enumerate(bound):
                for j in bound[:place]:
                    first, last = sorted((labels[i], labels[j]))
                    self.angles.setdefault(f"{first}-{labels[vertex]}-{last}", []).append((i, vertex, j))

    def measure(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Lengths and angles (degrees) by kind, (..., bonds), for positions (..., atoms, 3)."""
        found = {}
        for kind, atoms in self.bonds.items():
            i, j = np.array(atoms).T
            found[kind] = np.linalg.norm(x[..., i, :] - x[..., j, :], axis=-1)
        for kind, atoms in self.angles.items():
            i, vertex, j = np.array(atoms).T
            a, b = x[..., i, :] - x[..., vertex, :], x[..., j, :] - x[..., vertex, :]
            found[kind] = np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1)))
        return found
