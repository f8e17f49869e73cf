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

    def couple(self, inverse_masses):
        """The sparse matrix G M^-1 G^T."""
        from scipy import sparse
        rows = len(self.first)
        entries = np.concatenate([self.directions, -self.directions], axis=1).ravel()
        columns = 3*np.stack([self.first, self.second], axis=1)[:, :, None] + np.arange(3)
        jacobian = sparse.csr_matrix((entries, columns.ravel(), 6*np.arange(rows + 1)), (rows, 3*self.size))
        return jacobian @ sparse.diags(np.repeat(inverse_masses, 3)) @ jacobian.T


class Inertia:
    """
    The inertia M + G^T kappa G of particles and pairs at some positions; that of a constraint is infinite. Arrays are
    of shape (particles, 3), zero where a particle has no mass.
    """

    def __init__(self, forces, positions, pairs):
        """forces: Forces, for the masses; pairs: (particle, particle, inertia [dalton])."""
        from scipy import sparse
        from scipy.sparse.linalg import splu
        self.masses, self.inverse_masses = forces.masses[:, None], forces.inverse_masses[:, None]
        self.pairs = [pair[:2] for pair in pairs]
        self.distances = Distances(self.pairs, positions)
        self.kappa = np.array([inertia for *_, inertia in pairs])
        if pairs:
            matrix = self.distances.couple(forces.inverse_masses)
            # Constraints that depend on each other: a little on the diagonal keeps the matrix regular.
            compliance = np.where(np.isinf(self.kappa), 1e-9*matrix.diagonal(), 1/self.kappa)
            self.factor = splu((matrix + sparse.diags(compliance)).tocsc())

    def multipliers(self, forces):
        """l = A^-1 G M^-1 f, A = G M^-1 G^T + diag(1/kappa): what the pairs take of the forces is G^T l."""
        return self.factor.solve(self.distances.rates(self.inverse_masses*forces)) if self.pairs else np.empty(0)

    def accelerate(self, forces):
        """(M + G^T kappa G)^-1 f."""
        return self.inverse_masses*(forces - self.distances.along(self.multipliers(forces)))

    def weigh(self, velocities):
        """(M + G^T kappa G) v, of velocities along the constraints."""
        finite = np.where(np.isinf(self.kappa), 0, self.kappa)
        return self.masses*velocities + self.distances.along(finite*self.distances.rates(velocities))


def find_fastest(forces, positions, pairs, seed=1):
    """
    Find the fastest harmonic motion about some positions, by Lanczos' method.

    The Hessian is applied by central differences of the forces. Tied to the inertias z = s(x), the motion feels what
    the pairs take of the forces, too: H + sum l_p Hess s_p, which is the Hessian along the constraints where kappa is
    infinite.

    forces: Forces; pairs: see Inertia. Returns (period [ps], the displacement, of shape (particles, 3)); an infinite
    period if nothing pulls back.
    """
    from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
    mobile = np.flatnonzero(forces.masses > 0)
    inertia = Inertia(forces, positions, pairs)
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
