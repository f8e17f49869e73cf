"""What the wrapped methods do to their arguments and results: units, force groups, positions.

A unit goes by the symbol that the comments in the C++ headers put in brackets.
"""

import contextlib
import math
import operator
import reprlib
import warnings
from collections.abc import Mapping, Set
from typing import Any, Protocol

import numpy
from openmm import Platform, Vec3, unit

UNITS = {
    "": unit.dimensionless,
    "K": unit.kelvin,
    "ps": unit.picosecond,
    "s": unit.second,
    "1/ps": unit.picosecond**-1,
    "radian/ps": unit.picosecond**-1,
    "nm": unit.nanometer,
    "kJ/mol": unit.kilojoule_per_mole,
    "dalton": unit.dalton,
    "kJ/mol/nm^2": unit.kilojoule_per_mole/unit.nanometer**2,
    "nm^2*mol/kJ": unit.nanometer**2/unit.kilojoule_per_mole,
    "nm^2*mol/(kJ*ps)": unit.nanometer**2/(unit.kilojoule_per_mole*unit.picosecond),
}


class Quantity(Protocol):
    """What an argument with a unit may be: OpenMM's Quantity, by its methods, as OpenMM itself has no types."""

    def value_in_unit(self, unit: Any) -> Any:
        """Convert the value."""


def number(argument, value, symbol) -> float:
    """The float that C++ takes for a number or a Quantity."""
    if unit.is_quantity(value):
        if symbol == "radian/ps" and value.unit.is_compatible(unit.radian/unit.picosecond):
            value = value/unit.radian
        if not value.unit.is_compatible(UNITS[symbol]):
            expected = f"a quantity in {UNITS[symbol]}" if symbol else "a plain number"
            raise TypeError(f"{argument} must be {expected}, not in {value.unit}")
        value = value.value_in_unit(UNITS[symbol])
    try:
        if hasattr(value, "__float__") and not isinstance(value, str) and not numpy.iscomplexobj(value):
            return float(value)
    except OverflowError:
        raise ValueError(f"{argument} is too large for a number of double precision") from None
    except (TypeError, ValueError):     # an array of several numbers, or of strings
        pass
    raise TypeError(f"{argument} must be a number{f' [{symbol}] or a Quantity' if symbol else ''}, not {value!r}")


def finite(argument, value, symbol, positive=False) -> float:
    """A finite number that is not negative, or is positive."""
    value = number(argument, value, symbol)
    if not (0 < value < math.inf or value == 0 and not positive):
        raise ValueError(f"{argument} must be a finite number that is {'positive' if positive else 'not negative'}, "
                         f"but is {value}{f' {symbol}' if symbol else ''}")
    return value


def integer(argument, value, least=None) -> int:
    """The int that C++ takes for a whole number: NumPy's, too, and a float such as 1e6, as OpenMM's own methods do."""
    try:
        value = operator.index(value)
    except TypeError:
        if not (isinstance(value, (float, numpy.floating)) and value.is_integer()):
            raise TypeError(f"{argument} must be an integer, not {value!r}") from None
        value = int(value)
    if not -2**31 <= value < 2**31:
        raise ValueError(f"{argument} must fit into 32 bits, but is {value}")
    if least is not None and value < least:
        raise ValueError(f"{argument} must be at least {least}, but is {value}")
    return value


def count(argument, value):
    """The int that C++ takes for how many times something is done."""
    value = integer(argument, value)
    if value < 0:
        raise ValueError(f"{argument} must not be negative, but is {value}")
    return value


def integers(argument, values):
    """The list of int that C++ takes for a sequence of whole numbers."""
    return elements(argument, values, "integers", integer)


def string(argument, value):
    """The str that C++ takes."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a string, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{argument} cannot be encoded: {value!r}") from None
    if "\0" in value:
        raise ValueError(f"{argument} contains a null character: {value!r}")
    return value


def choice(argument, value, known):
    """One of some words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, known))}, not {value!r}")
    return value


def find_platform(argument, name):
    """OpenMM's platform of a name."""
    return Platform.getPlatform(choice(argument, name, [Platform.getPlatform(index).getName() for index in
                                                        range(Platform.getNumPlatforms())]))


def strings(argument, values):
    """The list of str that C++ takes."""
    return elements(argument, values, "strings", string)


def expression(argument, value):
    """The str that C++ takes for a function: its text, or a number."""
    if isinstance(value, str):
        return string(argument, value)
    if isinstance(value, (bool, numpy.bool_)) or not (unit.is_quantity(value) or hasattr(value, "__float__")):
        raise TypeError(f"{argument} must be a string or a number, not {value!r}")
    value = number(argument, value, "")
    if not math.isfinite(value):
        raise ValueError(f"{argument} must be finite, but is {value}")
    return repr(value)


def expressions(argument, values):
    """The list of str that C++ takes for a sequence of functions."""
    return elements(argument, values, "strings or numbers", expression)


def _sequence(values):
    """The list of its elements, if it has them in an order, as arrays do; or None."""
    if isinstance(values, (str, bytes, bytearray, Mapping, Set)):
        return None
    try:
        return list(values)
    except TypeError:       # a Quantity of a number and an array without dimensions can only be told by trying
        return None


def elements(argument, values, kind, convert=lambda argument, element: element) -> list:
    """The list of what is in a sequence, or comes of an iterator, each converted."""
    found = _sequence(values)
    if found is None:
        raise TypeError(f"{argument} must be a sequence of {kind}, not {values!r}")
    return [convert(f"an element of {argument}", element) for element in found]


def vector(argument, value, symbol):
    """The three floats that C++ takes for a Vec3, an array or a Quantity of these."""
    if unit.is_quantity(value):
        if not value.unit.is_compatible(UNITS[symbol]):
            raise TypeError(f"{argument} must be a vector in {UNITS[symbol]}, not in {value.unit}")
        value = value.value_in_unit(UNITS[symbol])
    components = _sequence(value)
    if components is None or len(components) != 3:
        raise TypeError(f"{argument} must have three components, not be {value!r}")
    return [number(f"a component of {argument}", component, symbol) for component in components]


def coordinates(argument, value, counts, remedy="") -> numpy.ndarray:
    """Finite positions [nm], an array with a row for each particle; counts: how many there may be."""
    if type(value) in (list, tuple) and value and all(map(unit.is_quantity, value)):
        value = unit.Quantity(list(value))
    if unit.is_quantity(value):
        if not value.unit.is_compatible(UNITS["nm"]):
            raise TypeError(f"{argument} must be a quantity in nanometer, not in {value.unit}")
        value = value.value_in_unit(UNITS["nm"])
    try:
        array = numpy.asarray(value).astype(float, casting="same_kind")
    except (TypeError, ValueError):
        raise TypeError(f"{argument} must be an array of shape (particles, 3), not {reprlib.repr(value)}") from None
    if array.shape not in [(count, 3) for count in counts]:
        raise ValueError(f"{argument} must have three coordinates of each of "
                         f"{' or '.join(map(str, sorted(set(counts))))} particles, but are of shape {array.shape}"
                         + remedy)
    for i in numpy.flatnonzero(~numpy.isfinite(array).all(axis=1)):
        raise ValueError(f"{argument}: those of particle {i} are {array[i].tolist()}")
    return array


def boolean(argument, value) -> bool:
    """The bool that C++ takes; NumPy's will do, but not everything that is true or false."""
    if not isinstance(value, (bool, numpy.bool_)):
        raise TypeError(f"{argument} must be True or False, not {value!r}")
    return bool(value)


def instance(argument, value, cls):
    """The object of a class of OpenMM that C++ takes."""
    if not isinstance(value, cls):
        raise TypeError(f"{argument} must be an object of class {cls.__name__}, not {value!r}")
    return value


def is_atoms(value) -> bool:
    """Whether this is an object of ASE's class Atoms; without importing ASE."""
    return any(cls.__name__ == "Atoms" and cls.__module__.partition(".")[0] == "ase" for cls in type(value).__mro__)


def group_mask(argument, groups, remedy, zero=False):
    """
    The bit flags, as a signed 32-bit integer, for a set of force group indices or for the flags themselves; remedy says
    what to do in place of giving no groups; zero: whether flags of 0 will do.
    """
    if isinstance(groups, (set, frozenset)):
        if not groups:
            raise ValueError(f"{argument} is an empty set; {remedy}")
        indices = [integer("a force group", group) for group in groups]
        for group in indices:
            if not 0 <= group < 32:
                raise ValueError(f"{argument}: there is no force group {group}; they go from 0 to 31")
        mask = sum(1 << group for group in indices)
    else:
        try:
            mask = operator.index(groups)
        except TypeError:
            raise TypeError(f"{argument} must be a set of force groups or an int, not {groups!r}") from None
        if not -2**31 <= mask < 2**32:
            raise ValueError(f"{argument} must be the bit flags of 32 force groups, but is {mask}")
        if mask == 0 and not zero:
            raise ValueError(f"{argument} is 0; {remedy}")
    return mask - 2**32 if mask >= 2**31 else mask


def quantity(value, symbol):
    """The Quantity for a float that C++ returns."""
    return unit.Quantity(value, UNITS[symbol])


def vectors(buffer, symbol, asNumpy):
    """The Quantity for the std::vector<Vec3> that C++ returns, which comes as a bytearray of doubles."""
    array = numpy.frombuffer(buffer).reshape(-1, 3)
    return unit.Quantity(array if asNumpy else [Vec3(*row) for row in array.tolist()], UNITS[symbol])


def array(buffer):
    """The array for the std::vector<double> that C++ returns, which comes as a bytearray."""
    return numpy.frombuffer(buffer)


@contextlib.contextmanager
def needing(what, extra):
    """An import inside, of what an extra of the package brings, fails with the remedy."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what}: pip install 'openmm-stiff[{extra}]'") from error


def warn(text):
    """Issue a warning that C++ has left, if there is one, at the line that called step()."""
    if text:
        warnings.warn(text, stacklevel=3)
