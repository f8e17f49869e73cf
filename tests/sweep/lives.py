"""Part C: life cycles, copies, saved States and checkpoints (of the class, of others, cut, and with bytes changed)."""
import copy
import gc
import itertools
import pickle

import openmm
from openmm import XmlSerializer

from bad_values import METHODS, Scene
from trial import (INTEGRATORS, NATIVE, Fault, Refused, attempt, bind, create, names_of, snapshot, steps, temperature,
                   unchanged, velocity_temperature, waters)

HOT = 3     # times the temperature that is to be expected
CUTS = [0, 1, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, -8, -4, -1]
FLIPS = 40


def running(name, platform):
    system, positions = waters()
    context = bind(system, create(name), platform, positions, 300)
    context.getIntegrator().step(2)
    return context


# ---- Life cycles ----

def must_refuse(call, *arguments):
    attempt(call, *arguments)
    raise Fault("accepted, though it cannot work")


def step_without_context(name, platform):
    must_refuse(create(name).step, 1)


def two_contexts(name, platform):
    context = running(name, platform)
    try:
        must_refuse(bind, waters()[0], context._integrator, platform)
    except Refused:
        steps(context)
        raise


def step_after_the_context(name, platform):
    context = running(name, platform)
    integrator = context._integrator
    del context
    gc.collect()
    must_refuse(integrator.step, 1)


def new_context_after_the_first(name, platform):
    context = running(name, platform)
    integrator = context._integrator
    del context
    gc.collect()
    system, positions = waters()
    steps(attempt(bind, system, integrator, platform, positions, 300))


def getters_without_context(name, platform):
    """Each getter, before there is a Context, after it and when it has gone."""
    integrator = create(name)
    getters = [getattr(integrator, each) for each in names_of(integrator) if each.startswith(("get", "compute"))
               and each not in METHODS]
    for stage in range(3):
        if stage == 1:
            system, positions = waters()
            context = bind(system, integrator, platform, positions, 300)
            steps(context)
        if stage == 2:
            del context
            gc.collect()
        for getter in getters:
            try:
                attempt(getter)
            except Refused as error:
                if stage == 1:
                    raise Fault(f"{getter.__name__}() refused with a Context: {error}") from None


def reinitialize(name, platform):
    context = running(name, platform)
    attempt(context.reinitialize)
    context.setPositions(waters()[1])
    steps(context)


def reinitialize_preserving(name, platform):
    context = running(name, platform)
    before = snapshot(context)
    attempt(context.reinitialize, True)
    unchanged(context, before, "reinitialize(True)")
    steps(context)


def integrator_deleted_first(name, platform):
    context = running(name, platform)
    del context._integrator
    gc.collect()
    attempt(context.getState, positions=True)   # energies would need the integrator, OpenMM's own too


def no_positions(name, platform):
    context = bind(waters()[0], create(name), platform)
    must_refuse(context.getIntegrator().step, 1)


def copies(name, platform):
    """copy, deepcopy, pickle and XML of an integrator, also with other settings than the default ones."""
    integrator = create(name)
    scene = Scene(name, platform)
    for method in names_of(integrator):
        if method.startswith("set") and not method.endswith(("Parameters", "ToTemperature")):
            scene.call(getattr(integrator, method), METHODS[method])
    for duplicate in (copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each)), XmlSerializer.clone):
        other = type(integrator).cast(attempt(duplicate, integrator))
        if XmlSerializer.serialize(other) != XmlSerializer.serialize(integrator):
            raise Fault("XML of a copy differs")
        for method in names_of(integrator):
            if method.startswith("set") and not method.endswith(("Parameters", "ToTemperature")):
                ours, theirs = (getattr(each, "get" + method[3:])() for each in (integrator, other))
                if ours != theirs:
                    raise Fault(f"get{method[3:]}() gives {theirs} for a copy of {ours}")
        system, positions = waters()
        steps(bind(system, duplicate(create(name)), platform, positions, 300))


# ---- Saved States and checkpoints ----

def resumes(context, load, what):
    """What is loaded is refused and changes nothing, or goes on at a temperature that it had before."""
    before, expected = snapshot(context), temperature(context)
    try:
        attempt(load)
    except Refused as error:
        unchanged(context, before, f"{what} that was refused ({error})")
        steps(context, 1)
        raise
    expected = max(300, expected, velocity_temperature(context))
    steps(context)
    if temperature(context) > HOT*expected:
        raise Fault(f"{temperature(context):.3g} K after 2 steps from {what}, whose velocities have "
                    f"{velocity_temperature(context):.3g} K")


def state_of(source, name, platform):
    saved = running(source, platform).getState(positions=True, velocities=True, parameters=True,
                                               integratorParameters=True)
    context = running(name, platform)
    resumes(context, lambda: context.setState(XmlSerializer.deserialize(XmlSerializer.serialize(saved))),
            f"the State of {source}")


def checkpoint_of(source, name, platform):
    saved = running(source, platform).createCheckpoint()
    context = running(name, platform)
    resumes(context, lambda: context.loadCheckpoint(saved), f"the checkpoint of {source}")


def checkpoint_of_other_size(name, platform):
    system, positions = waters(2, rigid=0)
    saved = bind(system, create(name), platform, positions, 300).createCheckpoint()
    context = running(name, platform)
    resumes(context, lambda: context.loadCheckpoint(saved), "the checkpoint of another System")


def cut_checkpoint(where, name, platform):
    context = running(name, platform)
    saved = context.createCheckpoint()
    end = round(where*len(saved)) if isinstance(where, float) else where
    context.getIntegrator().step(2)
    resumes(context, lambda: context.loadCheckpoint(saved[:end]), f"{len(saved[:end])} of {len(saved)} bytes")


def changed_checkpoint(place, name, platform):
    """Bytes of what the integrator itself has written, which comes last; what is before is OpenMM's own."""
    own = len(running("VerletIntegrator", platform).createCheckpoint())
    context = running(name, platform)
    saved = bytearray(context.createCheckpoint())
    if own >= len(saved):
        return
    byte = own + (len(saved) - own)*place//FLIPS
    saved[byte] ^= 0xff
    context.getIntegrator().step(2)
    resumes(context, lambda: context.loadCheckpoint(bytes(saved)),
            f"a checkpoint with byte {byte} of {len(saved)} inverted")


# ---- CompoundIntegrator ----

def compound(name, other, hot, platform):
    """Velocities of setVelocitiesToTemperature() and of another integrator are taken over at their temperature."""
    system, positions = waters(8, rigid=0)
    pair = openmm.CompoundIntegrator()
    pair.addIntegrator(create(name))
    pair.addIntegrator(create(other))
    context = bind(system, pair, platform, positions)
    for first, second in ((0, 1), (1, 0)):
        pair.setCurrentIntegrator(first)
        context.setVelocitiesToTemperature(300, 1)
        for round_ in range(3 if hot else 1):
            pair.setCurrentIntegrator(second if round_ % 2 else first)
            steps(context, 5)
            if temperature(context) > HOT*300:
                raise Fault(f"{temperature(context):.3g} K with member {pair.getCurrentIntegrator()} of "
                            f"({name}, {other}), from 300 K")


LIVES = [step_without_context, two_contexts, step_after_the_context, new_context_after_the_first,
         getters_without_context, reinitialize, reinitialize_preserving, integrator_deleted_first, no_positions,
         copies, checkpoint_of_other_size]


def cases(name):
    for life in LIVES:
        yield f"{name}: {life.__name__.replace('_', ' ')}", lambda platform, life=life: life(name, platform)
    others = [*INTEGRATORS, *NATIVE]
    families = [("State of", state_of, others), ("checkpoint of", checkpoint_of, others),
                ("checkpoint cut at", cut_checkpoint, CUTS),
                ("checkpoint changed at place", changed_checkpoint, range(FLIPS))]
    for what, function, variants in families:
        for variant in variants:
            yield (f"{name}: {what} {variant}",
                   lambda platform, function=function, variant=variant: function(variant, name, platform))
    for other, alternating in itertools.product(others, (False, True)):
        yield (f"{name}: CompoundIntegrator with {other}, {'alternating' if alternating else 'velocities set'}",
               lambda platform, other=other, alternating=alternating: compound(name, other, alternating, platform))
