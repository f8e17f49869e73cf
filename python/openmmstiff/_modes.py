"""The fastest motion of a System, from its forces alone: the largest eigenvalue of M^-1 H for given inertias M."""

import math

import numpy as np

DISPLACEMENT = 5e-4     # nm, of the atom that moves most: see _curvature.py
TOLERANCE = 0.01        # of an eigenvalue, the square of a frequency, by which it grows in the last PATIENCE directions
PATIENCE = 4
MOST_DIRECTIONS = 60
MANY = 2000             # particles
DEPENDENT = 1e-4        # of a direction: what is left of it when others are taken off, if it is none of its own


class Distances:
    """The gradients G of the distances of pairs of particles at some positions, arrays of shape (particles, 3)."""

    def __init__(self, pairs, positions):
        self.relative = _incidence(pairs, len(positions))
        self.directions = self.relative @ positions
        self.lengths = np.linalg.norm(self.directions, axis=1)
        self.directions /= self.lengths[:, None]

    def rates(self, velocities):
        """G v."""
        return np.sum(self.directions*(self.relative @ velocities), axis=1)

    def along(self, multipliers):
        """G^T l."""
        return self.relative.T @ (multipliers[:, None]*self.directions)

    def across(self, velocities):
        """The relative velocities across the distances, of shape (pairs, 3)."""
        return self.relative @ velocities - self.rates(velocities)[:, None]*self.directions

    def bend(self, multipliers, velocities):
        """The rate at which G^T l changes with the positions."""
        return self.relative.T @ ((multipliers/self.lengths)[:, None]*self.across(velocities))

    def jacobian(self):
        """G as a sparse matrix, of shape (pairs, 3 particles)."""
        from scipy import sparse
        of_coordinate = [sparse.kron(sparse.diags(each) @ self.relative, unit) for each, unit in
                         zip(self.directions.T, np.eye(3))]
        return sum(of_coordinate[1:], of_coordinate[0])


def _incidence(pairs, number):
    """
    The sparse matrix that makes relative positions of pairs of those of particles, of shape (pairs, number); where
    there is no second particle, -1, those of the first.
    """
    from scipy import sparse
    columns = np.array(pairs, dtype=int).reshape(-1, 2)
    rows, ends = np.nonzero(columns >= 0)
    return sparse.csr_matrix((1.0 - 2*ends, (rows, columns[rows, ends])), (len(columns), number))


class Inertia:
    """
    The inertia M' + G^T kappa G of particles, pairs and bonds at some positions, M' = M + sum lambda (e_i - e_j) (e_i -
    e_j)^T, or lambda e_i e_i^T of a particle alone; kappa of a constraint is infinite. Arrays are of shape (particles,
    3), zero where a particle has no mass.
    """

    def __init__(self, forces, positions, pairs, bonds=()):
        """forces: Forces, for the masses; pairs and bonds: (particle, particle or -1, inertia [dalton])."""
        self.given = forces, pairs, bonds
        from scipy import sparse
        from scipy.sparse.linalg import splu
        self.root_masses, self.mobile = np.sqrt(forces.masses)[:, None], (forces.masses > 0)[:, None]
        self.pairs = [pair[:2] for pair in pairs]
        self.distances = Distances(self.pairs, positions)
        kappa = np.array([inertia for *_, inertia in pairs])
        self.kappa = np.where(np.isinf(kappa), 0, kappa)
        number = len(positions)
        self.relative = _incidence([bond[:2] for bond in bonds], number)
        self.bond_inertia = np.array([inertia for *_, inertia in bonds])
        mobile = sparse.diags(self.mobile[:, 0].astype(float))
        self.coupled_masses = sparse.diags(forces.masses) \
            + mobile @ self.relative.T @ sparse.diags(self.bond_inertia) @ self.relative @ mobile
        jacobian = self.distances.jacobian() @ sparse.kron(mobile, sparse.eye(3))
        # Constraints that depend on each other: a little compliance keeps the matrix regular.
        own = (jacobian.multiply(jacobian) @ np.repeat(forces.inverse_masses, 3)) if pairs else np.empty(0)
        compliance = np.where(np.isinf(kappa), 1e-9*own, 1/kappa)
        fixed = sparse.diags((forces.masses == 0).astype(float))
        self.size = 3*number
        self.factor = splu(sparse.bmat([[sparse.kron(self.coupled_masses + fixed, sparse.eye(3)), jacobian.T],
                                        [jacobian, -sparse.diags(compliance)]] if pairs else
                                       [[sparse.kron(self.coupled_masses + fixed, sparse.eye(3))]]).tocsc(),
                           "MMD_AT_PLUS_A", diag_pivot_thresh=0, options={"SymmetricMode": True})

    def move(self, positions):
        """The same at other positions."""
        forces, pairs, bonds = self.given
        return Inertia(forces, positions, pairs, bonds)

    def solve(self, forces):
        """v and l of M' v + G^T l = f, G v = l/kappa."""
        found = self.factor.solve(np.concatenate([(self.mobile*forces).ravel(), np.zeros(len(self.pairs))]))
        return found[:self.size].reshape(-1, 3), found[self.size:]

    def multipliers(self, forces):
        """What the pairs take of the forces is G^T l."""
        return self.solve(forces)[1]

    def accelerate(self, forces):
        """(M' + G^T kappa G)^-1 f."""
        return self.solve(forces)[0]

    def weigh(self, velocities):
        """(M' + G^T kappa G) v, of velocities along the constraints."""
        return self.coupled_masses @ velocities + self.distances.along(self.kappa*self.distances.rates(velocities))

    def draw(self, random):
        """Random momenta of the variance M' + G^T kappa G."""
        of_bonds = np.sqrt(self.bond_inertia)[:, None]*random.normal(size=(len(self.bond_inertia), 3))
        return self.root_masses*random.normal(size=self.root_masses.shape[:1] + (3,)) + self.relative.T @ of_bonds \
            + self.distances.along(np.sqrt(self.kappa)*random.normal(size=len(self.pairs)))


class Curvature:
    """
    How the forces change with displacements from some positions, H d, measured along one direction after the other.
    What has been measured for one inertia serves the next.
    """

    def __init__(self, forces, positions):
        self.forces, self.positions, self.start = forces, positions, forces(positions)
        self.root_masses = np.sqrt(forces.masses)[:, None]
        self.directions, self.changes = [], []      # d and H d, of shape (particles, 3)

    def measure(self, direction):
        """Add what is new in a direction; whether anything is."""
        size = np.linalg.norm(self.root_masses*direction)
        for _ in range(2):      # twice is enough
            heavy = self.root_masses**2*direction
            direction = direction - sum(np.vdot(other, heavy)*other for other in self.directions)
        rest = np.linalg.norm(self.root_masses*direction)
        if not rest > DEPENDENT*size:
            return False
        direction = direction/rest
        scale = DISPLACEMENT/np.linalg.norm(direction, axis=1).max()
        self.directions.append(direction)
        ahead = self.forces(self.positions + scale*direction)
        if len(direction) < MANY:
            self.changes.append((self.forces(self.positions - scale*direction) - ahead)/(2*scale))
        else:       # what a forward difference is off by has either sign, in so many places
            self.changes.append((self.start - ahead)/scale)
        return True


def find_fastest(curvature, inertia, most=MOST_DIRECTIONS, seed=1):
    """
    Find the fastest harmonic motion, by Davidson's method: the best combination of the directions that are known, and
    what it lacks as a new one. For one inertia alone it is Lanczos' method.

    Tied to the inertias z = s(x), the motion feels what the pairs take of the forces, too: H + sum l_p Hess s_p, which
    is the Hessian along the constraints where kappa is infinite.

    curvature: Curvature; inertia: Inertia at the same positions; most: directions. Returns (period [ps], the
    displacement, of shape (particles, 3) and of unit length in the inertia); an infinite period if nothing pulls back.
    """
    from scipy.linalg import eigh
    multipliers = inertia.multipliers(curvature.start)
    if not curvature.directions:
        curvature.measure(inertia.accelerate(np.random.default_rng(seed).normal(size=curvature.positions.shape)))
    directions, found = curvature.directions, []
    stiff: list[np.ndarray] = []
    heavy: list[np.ndarray] = []
    hessian, mass = np.empty((2, 0, 0))
    while True:
        for direction, change in zip(directions[len(stiff):], curvature.changes[len(stiff):]):
            stiff.append(inertia.mobile*(change + inertia.distances.bend(multipliers, direction)))
            heavy.append(inertia.weigh(direction))
            hessian, mass = np.pad(hessian, (0, 1)), np.pad(mass, (0, 1))
            for i in range(len(stiff)):
                hessian[i, -1] = hessian[-1, i] = (np.vdot(directions[i], stiff[-1]) + np.vdot(direction, stiff[i]))/2
                mass[i, -1] = mass[-1, i] = np.vdot(directions[i], heavy[-1])
        values, vectors = eigh(hessian, mass)
        value, weights = values[-1], vectors[:, -1]
        found.append(value)
        lacking = sum(weight*(force - value*momentum) for weight, force, momentum in zip(weights, stiff, heavy))
        ahead = inertia.accelerate(inertia.weigh(inertia.accelerate(lacking)))  # twice: what is small is as constrained
        if len(found) > PATIENCE and value - found[-1 - PATIENCE] <= TOLERANCE*abs(value) or len(found) >= most \
                or not curvature.measure(ahead):
            period = 2*math.pi/math.sqrt(value) if value > 0 else math.inf
            return period, sum(weight*direction for weight, direction in zip(weights, directions))


def find_shortest(curvature, inertia, motion, kT):
    """
    The motion that find_fastest() has found with its shortest period: there, or displaced by its thermal amplitude,
    either way. Harmonic ones keep theirs; bonds as in molecules are stiffer where they are short.
    """
    period, displacement = motion
    periods = [period]
    for amplitude in (-1, 1) if math.isfinite(period) else ():
        positions = curvature.positions + amplitude*math.sqrt(kT)*period/(2*math.pi)*displacement
        displaced = Curvature(curvature.forces, positions)
        displaced.measure(displacement)
        periods.append(find_fastest(displaced, inertia.move(positions), 1)[0])
    return min(periods), displacement
