"""Force constants of distances from the forces of a System, by finite differences."""

import numpy as np

DISPLACEMENT = 5e-4     # nm: large against the noise of single precision and of SCF, small against anharmonicity
SEPARATION = 2          # bonds between the atoms of distances that are changed at the same time


def measure_stiffness(forces, positions, coordinates, neighbours):
    """
    Measure how much the forces resist the change of bond lengths and 1-3 distances.

    Of a coordinate it is k = -d.(F(x + a d) - F(x - a d))/(2 a), a = DISPLACEMENT. The displacement d of its two or
    three atoms changes the distance by one, a 1-3 distance without changing the two bonds; of all that do, it is the
    least in the metric of the masses,

        d = M^-1 G^T (G M^-1 G^T)^-1 e,

    with the Jacobian G of the distances. For a harmonic angle that is k_theta / (dr13/dtheta)^2. What d does to other
    stiff coordinates of the same atoms is part of k.

    Parameters
    ----------
    forces : Forces
        the forces of the System
    positions : array of shape (particles, 3)
        positions [nm]
    coordinates : list of tuple of int
        the atoms of each distance: (i, j) for a bond, (i, j, vertex) for a 1-3 distance
    neighbours : list of list of int
        the atoms that each atom is bonded to. Coordinates that are further apart than SEPARATION bonds are displaced
        together, so that the number of evaluations does not grow with the System

    Returns
    -------
    array of shape (coordinates,)
        force constants [kJ/mol/nm^2], which may be negative. A ValueError if forces are not finite or two atoms of a
        coordinate are in the same place
    """
    if not coordinates:
        return np.empty(0)
    inverse_masses = forces.inverse_masses
    directions = [choose_displacement(positions, inverse_masses, atoms) for atoms in coordinates]
    stiffness = np.empty(len(coordinates))
    for members in _colour(coordinates, neighbours):
        displacement = np.zeros_like(positions)
        for member in members:
            displacement[list(coordinates[member])] = DISPLACEMENT*directions[member]
        change = forces(positions + displacement) - forces(positions - displacement)
        for member in members:
            stiffness[member] = -np.sum(directions[member]*change[list(coordinates[member])])/(2*DISPLACEMENT)
    return stiffness


def choose_displacement(positions, inverse_masses, atoms):
    """The displacement, of shape (atoms, 3), that changes the distance of the first two by one, and no other."""
    pairs = [(a, b) for b in range(len(atoms)) for a in range(b)]    # that of the first two comes first
    jacobian: np.ndarray = np.zeros((len(pairs), len(atoms), 3))
    for row, (a, b) in zip(jacobian, pairs):
        difference = positions[atoms[a]] - positions[atoms[b]]
        length = np.linalg.norm(difference)
        if length == 0:
            raise ValueError(f"positions: atoms {atoms[a]} and {atoms[b]} are in the same place")
        row[a], row[b] = difference/length, -difference/length
    jacobian = jacobian.reshape(len(pairs), -1)
    weighted = jacobian*np.repeat(inverse_masses[list(atoms)], 3)
    # A bond of two massless atoms, which do not move, has a row of zeros.
    return (np.linalg.pinv(weighted @ jacobian.T)[0] @ weighted).reshape(-1, 3)


def _colour(coordinates, neighbours):
    """Lists of indices of coordinates that are far apart, by a greedy colouring."""
    classes: list[list[int]] = []
    used: list[set[int]] = [set() for _ in neighbours]      # the classes in which an atom is displaced
    for index, atoms in enumerate(coordinates):
        near = set(atoms)
        for _ in range(SEPARATION):
            near |= {bound for atom in near for bound in neighbours[atom]}
        taken = set().union(*(used[atom] for atom in near))
        colour = next(c for c in range(len(classes) + 1) if c not in taken)
        if colour == len(classes):
            classes.append([])
        classes[colour].append(index)
        for atom in atoms:
            used[atom].add(colour)
    return classes
