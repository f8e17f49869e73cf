"""What the exams of liquid TIP3P water share: making a run, and claims on what it shows."""
from collections.abc import Iterator

import numpy as np
import openmm as mm

from exam import Claim, Settings, bath_claim, mean_claim, pair_claim
from common.observables import RDF_PAIRS, rdf_p_value
from common.tables import mean_with_error
from common.water import MODEL, build_box, equilibrate, start_geometry
from common.water_sampling import Samples
import tip3p_water
from tip3p_water import TEMPERATURE, Run, make_simulation

WATERS = 216
EQUILIBRATION_TIME = 5.0  # ps, of each geometry; then once more with the run's own integrator
P_VALUE = 0.01            # radial distributions that differ more than by this chance are different


def ignore(steps: int):
    """No progress is shown: runs are side by side."""


def equilibrated(geometry: str, settings: Settings, seed: int, temperature: float = TEMPERATURE,
                 flexible: float = EQUILIBRATION_TIME, model: str = MODEL) -> mm.State:
    """The box after EQUILIBRATION_TIME of rigid molecules, and if they are flexible so many ps of these."""
    box, common = build_box(WATERS, model), {"temperature": temperature, "platform": settings.platform, "seed": seed}
    state = equilibrate(box, "rigid", settings.time(EQUILIBRATION_TIME), **common)
    if geometry == "rigid":
        return state
    return equilibrate(box, "flexible", settings.time(flexible), start=state, **common)


def make_run(run: Run, friction: float, seed: int, ps: float, settings: Settings, model: str = MODEL,
             **recorded) -> dict:
    """Equilibrate and sample; `recorded` says what else sampling.sample() is to record."""
    state = equilibrated(start_geometry(run.geometry), settings, seed, model=model)
    simulation = make_simulation(build_box(WATERS, model), run, friction, seed, settings.platform)
    return vars(tip3p_water.make_run(simulation, state, seed, settings.time(EQUILIBRATION_TIME), settings.time(ps),
                                     ignore, **recorded))


def temperature_claims(run: Samples, tolerance: float) -> Iterator[Claim]:
    """Of all and of each kind of motion; rigid molecules do not vibrate."""
    for text, series in {"temperature": run.temperature, "temperature of translation": run.centre_temperature,
                         "temperature of rotation": run.rotation_temperature,
                         "temperature of vibration": run.internal_temperature}.items():
        if np.isfinite(series).all():
            yield bath_claim(f"{text}, K", series, TEMPERATURE, tolerance)


def energy_claim(run: Samples, reference: Samples, tolerance: float) -> Claim:
    return mean_claim("nonbonded energy, kJ/mol per water", run.nonbonded, reference.nonbonded, tolerance)


def bond_length_claims(run: Samples, reference: Samples, variance_tolerance: float) -> Iterator[Claim]:
    """Mean (within 2e-5 nm) and variance (relative tolerance) of the O-H length."""
    yield pair_claim("O-H length, mean, nm", run.bond_length, reference.bond_length, 2e-5)
    yield pair_claim("O-H length, variance, nm^2", run.bond_variance, reference.bond_variance,
                     variance_tolerance * reference.bond_variance[0])


def rdf_claims(what: str, rdf: np.ndarray, reference: np.ndarray,
               kinds: tuple[str, ...] = RDF_PAIRS) -> Iterator[Claim]:
    """Radial distributions do not differ by more than chance."""
    for pair, *both in zip(kinds, rdf, reference):
        yield Claim.between(f"{pair} {what}, chance to differ so", rdf_p_value(*both), P_VALUE, 1)


def summary(name: str, run: Run, friction: float, found: Samples) -> list[str]:
    """A row of a table with COLUMNS."""
    motions = (found.centre_temperature, found.rotation_temperature, found.internal_temperature)
    return [name, run.label, f"{1000 * run.step:g}", f"{friction:g}",
            mean_with_error(found.nonbonded, 2), f"{found.bond_length[0]:.5f}, {found.bond_variance[0] ** 0.5:.5f}",
            *(mean_with_error(series, 1) if np.isfinite(series).all() else "" for series in motions)]


COLUMNS = ["run", "integrator", "step (fs)", "friction (1/ps)", "nonbonded (kJ/mol)", "O-H mean, s.d. (nm)",
           "T of translation (K)", "T of rotation (K)", "T of vibration (K)"]
