"""Integrators that come back from OpenMM with their classes.

OpenMM's own module looks for the class of an integrator among its own, and makes an openmm.Integrator of any other. It
has no hook for more of them, so that the few functions that return integrators are wrapped here. What else they return
passes through, and so do the integrators of other plugins.
"""

import functools

import openmm

from .openmmstiff import StiffIntegrator

MARK = "_restores_classes_of_openmmstiff"


def with_class(item):
    """What OpenMM returned; an integrator of ours with its own class."""
    if type(item) is openmm.Integrator:
        item.__class__ = StiffIntegrator._retype(item)
    return item


def _restoring(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return with_class(function(*args, **kwargs))
    setattr(wrapper, MARK, True)
    return wrapper


def install():
    """Wrap the functions, once, however often openmmstiff is loaded."""
    for cls, name, kind in [(openmm.XmlSerializer, "deserialize", staticmethod),
                            (openmm.XmlSerializer, "clone", staticmethod),
                            (openmm.CompoundIntegrator, "getIntegrator", lambda function: function)]:
        function = getattr(cls, name)
        if not hasattr(function, MARK):
            setattr(cls, name, kind(_restoring(function)))
