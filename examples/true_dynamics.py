#!/usr/bin/env python
"""True dynamics from an ensemble at 12 fs: flexible TIP3P water, and the infrared spectrum of ethanol in GFN2-xTB.

The mass penalty slows vibrations, diffusion and turning; averages over positions stay. Short runs at constant energy
with 0.5 fs, from its snapshots and with velocities drawn for the true masses, bring dynamics back. The snapshots of the
control are those of LangevinMiddle at 0.5 fs. Printed are diffusion, reorientation, mean wavenumbers of bands, and the
evaluations of the forces. Ethanol needs PyPI's tblite.
"""
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openmm as mm
from matplotlib import pyplot
from openmm import unit
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology
from openmmstiff.sampling import correlationFunction, powerSpectrum, sample, sampleDynamics

from common.observables import (DIFFUSION_LAGS, REORIENTATION_LAGS, diffusion, mean_and_error, places_of_waters,
                                reorientation)
from common.options import (OptionParser, add_box_options, add_names_option, add_output_option, add_processes_option,
                            add_record_option, number, progress_bar, run_program)
from common.tables import print_table, with_error
from tip3p_water import TEMPERATURE, equilibrate_both
from common.water import advance, build_box, build_system
from common.xtb import ETHANOL

STEP, LARGE_STEP = 0.0005, 0.012    # ps
TIME, SNAPSHOTS = 10.0, 12          # ps, and how many, of water's runs at constant energy by default
MASSES = np.array([15.99943, 1.007947, 1.007947])     # of a water, dalton
POTENTIAL = ETHANOL.build_potential()   # which is asked for the dipole
ENSEMBLES = {"mass penalty": (MassPenaltyLangevinIntegrator, LARGE_STEP),
             "LangevinMiddle": (mm.LangevinMiddleIntegrator, STEP)}
STYLES: dict[str, Any] = {"from LangevinMiddle, 0.5 fs": {"color": "#fcbba1", "linewidth": 4},
                          "mass penalty, 12 fs, itself": {"color": "0.5", "linewidth": 1, "linestyle": "--"},
                          "from mass penalty, 12 fs": {"color": "#99000d", "linewidth": 1.2}}


@dataclass
class Subject:
    """What is observed, and how; times in ps."""
    system: mm.System
    positions: Any
    friction: float                 # 1/ps, of the ensembles
    time: float                     # of a run at constant energy
    snapshots: int
    spacing: float                  # of the snapshots; before them the ensemble settles for twice that
    interval: int                   # steps between samples
    observe: Callable[[mm.State], dict[str, np.ndarray]]
    bands: dict[str, tuple[float, float]]   # 1/cm


@dataclass
class Result:
    """What has been observed, arrays of shape (runs, samples, ...), every `interval` ps."""
    observed: dict[str, np.ndarray]
    interval: float

    def spectrum(self, runs: slice = slice(None)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Density of states of water, or absorption of ethanol."""
        motion = (self.observed["motion"][runs] if "motion" in self.observed
                  else np.diff(self.observed["dipole"][runs], axis=1) / self.interval)
        return powerSpectrum(motion, self.interval, resolution=20.0)

    def band_centre(self, first: float, last: float) -> tuple[float, float]:
        """The mean wavenumber of a band and its error, 1/cm: moments are averaged over the runs."""
        moments = []
        for run in range(len(next(iter(self.observed.values())))):
            wavenumbers, values, _ = self.spectrum(slice(run, run + 1))
            band = np.where((wavenumbers > first) & (wavenumbers < last), values, 0)
            moments.append((band.sum(), band @ wavenumbers))
        intensity, moment = np.transpose(moments)
        centre = moment.sum() / intensity.sum()
        return centre, mean_and_error(moment - centre * intensity)[1] / intensity.mean()

    def time_scales(self, scale: float) -> dict[str, tuple[float, float]]:
        """Diffusion and reorientation with errors, from the scatter of the runs or of the parts of a single one."""
        found = {}
        for name, compute, kind, (first, last) in (("D (1e-5 cm²/s)", diffusion, "centres", DIFFUSION_LAGS),
                                                   ("tau (ps)", reorientation, "dipoles", REORIENTATION_LAGS)):
            values = [compute(run, self.interval, (scale * first, scale * last)) for run in self.observed[kind]]
            found[name] = mean_and_error(np.array(values)[:, 0]) if len(values) > 1 else values[0]
        return found


def observe_water(state: mm.State) -> dict[str, np.ndarray]:
    """Centres of mass, directions of the dipoles, and of some waters velocities times the roots of the masses."""
    positions = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer).reshape(-1, 3, 3)
    velocities = state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer / unit.picosecond).reshape(-1, 3, 3)
    return places_of_waters(positions, MASSES) | {
        "motion": (MASSES[:, None]**0.5 * velocities[:32]).astype(np.float32)}


def observe_ethanol(state: mm.State) -> dict[str, np.ndarray]:
    POTENTIAL(state)
    return {"dipole": POTENTIAL.dipole}


def prepare_water(options) -> Subject:
    box = build_box(options.waters)
    state = equilibrate_both(box, dict.fromkeys(("rigid", "flexible"), options.time / 2), options)["flexible"]
    return Subject(build_system(box, "flexible"), state.getPositions(), 1.0, options.time, options.snapshots,
                   0.4 * options.time, 6, observe_water, {"H-O-H bend": (2150, 2600), "O-H stretch": (3450, 4000)})


def prepare_ethanol(options) -> Subject:
    system = ETHANOL.build_system()
    relaxed = ETHANOL.relax(system, TEMPERATURE, options.seed).getState(positions=True)
    return Subject(system, relaxed.getPositions(), 5.0, options.time / 5,
                   4 * options.snapshots, 0.1 * options.time, 2, observe_ethanol,
                   {"O-H torsion": (150, 500), "C-O, C-C": (980, 1200), "C-H, O-H bend": (1200, 1500),
                    "C-H stretch": (2750, 3150), "O-H stretch": (3450, 3750)})


SUBJECTS = {"water": prepare_water, "ethanol": prepare_ethanol}


def measure(name: str, ensemble: str, subject: Subject, options) -> tuple[Result, Result, tuple[int, int]]:
    """Of the ensemble's run itself, and of the runs from its snapshots; and the steps of both."""
    make, step = ENSEMBLES[ensemble]
    integrator = make(TEMPERATURE, subject.friction, step)
    integrator.setRandomNumberSeed(options.seed)
    if name == "ethanol" and isinstance(integrator, MassPenaltyLangevinIntegrator):
        addPairsFromTopology(integrator, ETHANOL.build_topology(), subject.system, subject.positions)
    context = mm.Context(subject.system, integrator, mm.Platform.getPlatform(options.platform))
    context.setPositions(subject.positions)
    context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    every, apart = round(LARGE_STEP / step), max(1, round(subject.spacing / LARGE_STEP))
    settling, samples = 2 * apart * every, round(subject.time / STEP / subject.interval)
    steps = settling + subject.snapshots * apart * every, subject.snapshots * samples * subject.interval
    with progress_bar(f"{name}, {ensemble}", sum(steps)) as bar:
        advance(integrator, settling, bar.update)
        own = sample(context, every, subject.snapshots * apart, progress=bar.update, observe=lambda state: {
            **subject.observe(state), "positions": state.getPositions(asNumpy=True)._value}).observed
        true = sampleDynamics(subject.system, own.pop("positions")[apart - 1::apart], TEMPERATURE, STEP,
                              subject.interval, 1 + samples, subject.observe, platform=options.platform,
                              processes=options.processes, seed=options.seed, progress=bar.update)
    itself = Result({kind: values[None] for kind, values in own.items()}, LARGE_STEP)
    return itself, Result(true, STEP * subject.interval), steps


def tell(name: str, subject: Subject, results: dict[str, Result], scale: float, file: Path | None):
    """Print a table with a row for each result."""
    rows, bands = [], {f"{band} (1/cm)": limits for band, limits in subject.bands.items()}
    for label, result in results.items():
        scales = result.time_scales(scale) if "centres" in result.observed else {}
        centres = [result.band_centre(*limits) for limits in bands.values()] if result.interval < LARGE_STEP else []
        rows.append([label, *(with_error(*each, 2) for each in scales.values()),
                     *(with_error(*each, 1) for each in centres)])
    print_table(["", *scales, *bands], rows, file, f"true-dynamics-{name}")


def draw(found: dict[str, dict[str, Result]], turning_time: float, path: Path):
    """The turning of water for some ps, and the spectra."""
    figure, (panels,) = pyplot.subplots(1, len(found) + ("water" in found), figsize=(13, 3.6), layout="constrained",
                                        squeeze=False)
    for label, style in STYLES.items():
        for panel, (name, results) in zip(panels[::-1], reversed(found.items())):
            panel.plot(*results[label].spectrum()[:2], label=label, **style)
            panel.set(title=name, xlabel="wavenumber (1/cm)", xlim=(0, 4200), ylim=(0, None), yticks=[])
        if "water" in found:
            values, _ = correlationFunction(found["water"][label].observed["dipoles"])
            panels[0].semilogy(found["water"][label].interval * np.arange(len(values)), values, label=label, **style)
            panels[0].set(title="water: turning of the dipole", xlabel="t (ps)", ylabel="<u(0) u(t)>",
                          xlim=(0, turning_time), ylim=(0.1, 1))
    panels[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=90)


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_names_option(parser, "--subjects", SUBJECTS)
    parser.add_argument("--time", type=number(float, 0.5, "ps"), default=TIME, metavar="PS",
                        help="simulated time of a run of water, ps; ethanol's have a fifth (default: %(default)s)")
    parser.add_argument("--snapshots", type=number(int, 3), default=SNAPSHOTS, metavar="N",
                        help="of water; of ethanol four times as many (default: %(default)s)")
    add_processes_option(parser)
    add_output_option(parser, "true_dynamics.png")
    add_record_option(parser)
    options = parser.parse_args()
    parser.make_folder(options.output)
    found: dict[str, dict[str, Result]] = {name: {} for name in options.subjects}
    for name in found:
        subject = SUBJECTS[name](options)
        print(f"\n{name}: {subject.snapshots} runs of {subject.time:g} ps at {1000 * STEP:g} fs, {TEMPERATURE:g} K")
        for ensemble, (_, step) in ENSEMBLES.items():
            label = f"{ensemble}, {1000 * step:g} fs"
            itself, true, steps = measure(name, ensemble, subject, options)
            found[name] |= {f"from {label}": true, f"{label}, itself": itself}
            print(f"{label}: {steps[0]:,} evaluations of the forces for the ensemble, {steps[1]:,} for the runs")
        tell(name, subject, found[name], options.time / TIME, options.record)
    draw(found, 0.6 * options.time, options.output / "true_dynamics.png")
    print(f"\nFigure: {options.output / 'true_dynamics.png'}")


if __name__ == "__main__":
    run_program(main)
