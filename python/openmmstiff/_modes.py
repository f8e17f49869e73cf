"""The fastest motion of a System, from its forces alone: the largest eigenvalue of M^-1 H for a given inertia M."""

import math

import numpy as np

DISPLACEMENT = 5e-4     # nm, of the atom that moves most: see _curvature.py
TOLERANCE = 0.02        # of an eigenvalue, the square of a frequency
VECTORS = 14            # of Lanczos' method between restarts
RESTARTS = 4


class Distances:
    """The gradients G of the distances of pairs of particles at some positions, arrays of shape (particles, 3)."""

    def __init__(self, pairs, positions):
        self.first, self.second = np.array(pairs, dtype=int).reshape(-1, 2).T
        self.size = len(positions)
        self.directions = positions[self.first] - positions[self.second]
        self.directions /= np.linalg.norm(self.directions, axis=1, keepdims=True)

    def rates(self, velocities):
        """G v."""
        return np.sum(self.directions*(velocities[self.first] - velocities[self.second]), axis=1)

    def along(self, multipliers):
        """G^T l."""
        result = np.zeros((self.size, 3))
        np.add.at(result, self.first, multipliers[:, None]*self.directions)
        np.add.at(result, self.second, -multipliers[:, None]*self.directions)
        return result

    def jacobian(self):
        """G as a sparse matrix, of shape (pairs, 3 particles)."""
        from scipy import sparse
        rows = len(self.first)
        entries = np.concatenate([self.directions, -self.directions], axis=1).ravel()
        columns = 3*np.stack([self.first, self.second], axis=1)[:, :, None] + np.arange(3)
        return sparse.csr_matrix((entries, columns.ravel(), 6*np.arange(rows + 1)), (rows, 3*self.size))


class Inertia:
    """
    The inertia M' + G^T kappa G of particles, pairs and bonds at some positions, M' = M + sum lambda (e_i - e_j) (e_i -
    e_j)^T; kappa of a constraint is infinite. Arrays are of shape (particles, 3), zero where a particle has no mass.
    """

    def __init__(self, forces, positions, pairs, bonds=()):
        """forces: Forces, for the masses; pairs and bonds: (particle, particle, inertia [dalton])."""
        from scipy import sparse
        from scipy.sparse.linalg import splu
        self.root_masses, self.mobile = np.sqrt(forces.masses)[:, None], (forces.masses > 0)[:, None]
        self.pairs = [pair[:2] for pair in pairs]
        self.distances = Distances(self.pairs, positions)
        kappa = np.array([inertia for *_, inertia in pairs])
        self.kappa = np.where(np.isinf(kappa), 0, kappa)
        number = len(positions)
        first, second, self.bond_inertia = np.array(bonds).reshape(-1, 3).T
        rows = np.arange(len(bonds))
        self.relative = sparse.csr_matrix((np.tile([1.0, -1.0], (len(bonds), 1)).T.ravel(),
                                           (np.tile(rows, 2), np.concatenate([first, second]).astype(int))),
                                          (len(bonds), number))
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
                                       [[sparse.kron(self.coupled_masses + fixed, sparse.eye(3))]]).tocsc())

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


def find_fastest(forces, positions, pairs, bonds=(), seed=1):
    """
    Find the fastest harmonic motion about some positions, by Lanczos' method.

    The Hessian is applied by central differences of the forces. Tied to the inertias z = s(x), the motion feels what
    the pairs take of the forces, too: H + sum l_p Hess s_p, which is the Hessian along the constraints where kappa is
    infinite.

    forces: Forces; pairs, bonds: see Inertia. Returns (period [ps], the displacement, of shape (particles, 3)); an infinite
    period if nothing pulls back.
    """
    from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
    mobile = np.flatnonzero(forces.masses > 0)
    inertia = Inertia(forces, positions, pairs, bonds)
    multipliers = inertia.multipliers(forces(positions))

    def left(displacement):
        """The forces at displaced positions, less what the pairs have taken."""
        moved = positions + displacement
        return forces(moved) - Distances(inertia.pairs, moved).along(multipliers)

    def expand(vector):
        full = np.zeros_like(positions)
        full[mobile] = vector.reshape(-1, 3)
        return full

    def stiffen(vector):
        displacement = expand(vector)
        scale = DISPLACEMENT/np.linalg.norm(displacement, axis=1).max()
        change = left(scale*displacement) - left(-scale*displacement)
        return -change[mobile].ravel()/(2*scale)

    def weigh(vector):
        return inertia.weigh(expand(vector))[mobile].ravel()

    def accelerate(vector):
        return inertia.accelerate(expand(vector))[mobile].ravel()

    size = 3*len(mobile)
    hessian, mass, inverse = (LinearOperator((size, size), matvec=matvec, dtype=float)
                              for matvec in (stiffen, weigh, accelerate))
    start = accelerate(np.random.default_rng(seed).normal(size=size))

    def solve(vectors, tolerance, restarts):
        return eigsh(hessian, 1, mass, Minv=inverse, which="LA", v0=start, ncv=min(vectors, size - 1), tol=tolerance,
                     maxiter=restarts)

    try:
        values, found = solve(VECTORS, TOLERANCE, RESTARTS)
    except ArpackNoConvergence:     # many motions that are equally fast
        values, found = solve(3*VECTORS, 2*TOLERANCE, 4*RESTARTS)
    except ArpackError:             # no forces at all
        return math.inf, np.zeros_like(positions)
    period = 2*math.pi/math.sqrt(values[-1]) if values[-1] > 0 else math.inf
    return period, expand(found[:, -1])
