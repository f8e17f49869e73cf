"""Integrators of OpenMM's that know ours: they come back with their classes, and warn in a CompoundIntegrator.

OpenMM's own module looks for the class of an integrator among its own, and makes an openmm.Integrator of any other. It
has no hook for more of them, so that the few functions that return integrators are wrapped here. What else they return
passes through, and so do the integrators of other plugins. step() of a CompoundIntegrator calls C++ alone, which leaves
warnings behind.
"""

import functools

import openmm

from ._conversions import warn
from .openmmstiff import StiffIntegrator

MARK = "_wrapped_by_openmmstiff"


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


def _warning(function):
    @functools.wraps(function)
    def step(self, steps):
        function(self, steps)
        for index in range(self.getNumIntegrators()):
            each = self.getIntegrator(index)
            warn(each._takeWarning() if isinstance(each, StiffIntegrator) else "")
    setattr(step, MARK, True)
    return step


def install():
    """Wrap the functions, once, however often openmmstiff is loaded."""
    for cls, name, wrap in [(openmm.XmlSerializer, "deserialize", lambda function: staticmethod(_restoring(function))),
                            (openmm.XmlSerializer, "clone", lambda function: staticmethod(_restoring(function))),
                            (openmm.CompoundIntegrator, "getIntegrator", _restoring),
                            (openmm.CompoundIntegrator, "step", _warning)]:
        function = getattr(cls, name)
        if not hasattr(function, MARK):
            setattr(cls, name, wrap(function))
