"""Names and arguments of version 0.2, which go on working for one release, with a warning.

The methods and values of enumerations among them are those that the C++ headers mark as deprecated.
"""

import functools
import warnings

# Classes of which only the methods are public, and what to ask for instead.
_CLASSES = {"LangevinThermostat": "hasattr(integrator, 'getTemperature')",
            "StiffForceSelection": "hasattr(integrator, 'getStiffForceGroups')"}

# What to use where it is not the new name.
_INSTEAD = {"takeWarning": "the warnings that step() issues"}


def _warn(old, new, stacklevel=3):
    """Warn whoever called the function that calls this one."""
    warnings.warn(f"{old} is deprecated and will not be in the next release; use {new}", DeprecationWarning,
                  stacklevel=stacklevel)


class OldName:
    """The old name of a method, or of a value of an enumeration."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def __get__(self, instance, owner):
        _warn(f"{owner.__name__}.{self.old}", _INSTEAD.get(self.old, self.new))
        return getattr(owner if instance is None else instance, self.new)


def warn_of_zero(value, instead):
    """The argument of a setter, of which 0 stood for the default."""
    if value == 0:
        warnings.warn(f"0 for the default is deprecated and will be an error in the next release; call {instead}",
                      DeprecationWarning, stacklevel=3)
    return value


def _with_old_argument(function, old, new):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if old in kwargs:
            _warn(f"the argument {old}", new)
            kwargs[new] = kwargs.pop(old)
        return function(*args, **kwargs)
    return wrapper


def install(module):
    """Add the old names to the classes of the SWIG module."""
    module._OLD_NAMES["StiffIntegrator"] = {"takeWarning": "_takeWarning"}
    for class_name, names in module._OLD_NAMES.items():
        cls = getattr(module, class_name)
        for old, new in names.items():
            setattr(cls, old, OldName(old, new))
    module.HMMIntegrator.__init__ = _with_old_argument(module.HMMIntegrator.__init__, "frequency", "angularFrequency")


def old_class(module, name):
    """A class of the SWIG module by the name that it had in this package."""
    if name not in _CLASSES:
        raise AttributeError(f"module 'openmmstiff' has no attribute '{name}'")
    _warn(f"openmmstiff.{name}", _CLASSES[name], stacklevel=4)
    return getattr(module, "_" + name)
