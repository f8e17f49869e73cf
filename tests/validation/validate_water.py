#!/usr/bin/env python
"""Validate the integrators on liquid TIP3P water, against LangevinMiddle.

Makes the runs that are missing in the output folder, one file each, then checks the claims: an interrupted
validation goes on where it was. The exit code is 0 if every claim holds and 1 if not.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app
from openmmstiff import ImpulseIntegrator
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from observables import RDF_PAIRS, blocked_error, first_peak, rdf_p_value  # noqa: E402
from options import OptionParser, add_box_options, add_run_options, choice, run_program  # noqa: E402
from sampling import Samples, number_of_steps, sample  # noqa: E402
from tip3p_water import (TEMPERATURE, Run, impulse, langevin_middle, print_table, zhang_skeel,  # noqa: E402
                         zhang_skeel_penalty)
from water import (EQUILIBRATION_STEP, advance, build_box, build_system, equilibrate,  # noqa: E402
                   start_geometry)

EQUILIBRATION_TIME = 5.0  # ps, of each geometry; then once more with the run's own integrator
# 1/ps, where it is not the option's: at this step the centres of the molecules are heated, which friction carries off.
FRICTION = {"penalty-3fs": 5.0}
ENERGY_TOLERANCE = {"penalty": 0.2, "flexible": 0.4}  # kJ/mol per water, of runs compared with SETTLE
P_VALUE = 0.01            # radial distributions that differ more than by this chance are different

PROJECTED, MOLLIFIED = impulse(ImpulseIntegrator.Projected), impulse(ImpulseIntegrator.Mollified)
RUNS = {
    "middle-0.5fs": Run("LangevinMiddle, flexible", "flexible", 0.0005, langevin_middle, "middle-0.5fs"),
    "zhangskeel-3fs": Run("Z&Ss-Langevin, flexible", "flexible", 0.003, zhang_skeel, "middle-0.5fs"),
    "settle-2fs": Run("LangevinMiddle + SETTLE", "rigid", 0.002, langevin_middle, "settle-2fs"),
    "penalty-2fs": Run("Z&Ss-Langevin, penalty springs", "penalty", 0.002, zhang_skeel_penalty, "settle-2fs"),
    "penalty-3fs": Run("Z&Ss-Langevin, penalty springs", "penalty", 0.003, zhang_skeel_penalty, "settle-2fs"),
    "projected-4fs": Run("Projected impulse, flexible", "flexible", 0.004, PROJECTED, "settle-2fs"),
    "projected-6fs": Run("Projected impulse, flexible", "flexible", 0.006, PROJECTED, "settle-2fs"),
    "mollified-6fs": Run("Mollified impulse, flexible", "flexible", 0.006, MOLLIFIED, "settle-2fs"),
}
RIGID_PHYSICS = [name for name, run in RUNS.items() if run.reference == "settle-2fs" != name]


def is_vibrating(run: Run) -> bool:
    """Whether a run shows rigid molecules that vibrate: compared with SETTLE, but with all modes at temperature."""
    return run.geometry == "flexible" and run.reference == "settle-2fs"


def make_run(name: str, options) -> Samples:
    """Equilibrate and sample; every run has its own seed."""
    run = RUNS[name]
    seed = 1000 * options.seed + list(RUNS).index(name)
    box = build_box(options.waters)
    start = start_geometry(run.geometry)
    geometries = ["rigid"] if start == "rigid" else ["rigid", "flexible"]
    settling = round(EQUILIBRATION_TIME / run.step)
    steps = sum(round(EQUILIBRATION_TIME / EQUILIBRATION_STEP[geometry]) for geometry in geometries)
    steps += settling + number_of_steps(options.time, run.step)
    with tqdm(total=steps, desc=name, unit="step", mininterval=0.5 if sys.stderr.isatty() else 30) as bar:
        state = None
        for geometry in geometries:
            state = equilibrate(box, geometry, EQUILIBRATION_TIME, temperature=TEMPERATURE,
                                platform=options.platform, seed=seed, progress=bar.update, start=state)
        integrator = run.make(TEMPERATURE, FRICTION.get(name, options.friction), run.step)
        integrator.setRandomNumberSeed(seed)
        simulation = app.Simulation(box.topology, build_system(box, run.geometry), integrator,
                                    mm.Platform.getPlatform(options.platform))
        simulation.context.setPositions(state.getPositions())
        simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
        advance(integrator, settling, bar.update)
        return sample(simulation, options.time, bar.update, rest_rdf=is_vibrating(run))


@dataclass
class Claim:
    """|value - expected| <= tolerance. With an error of more than half the tolerance it is undecided."""
    text: str
    value: float
    expected: float
    error: float  # standard error of value - expected
    tolerance: float

    @property
    def verdict(self) -> str:
        if self.error > self.tolerance / 2:
            return "UNDECIDED, needs a longer --time"
        return "pass" if abs(self.value - self.expected) <= self.tolerance else "FAIL"


def energy_claim(run: Samples, reference: Samples, tolerance: float) -> Claim:
    return Claim("nonbonded energy, kJ/mol per water", run.nonbonded.mean(), reference.nonbonded.mean(),
                 np.hypot(blocked_error(run.nonbonded), blocked_error(reference.nonbonded)), tolerance)


def peak_claims(run: Samples, reference: Samples, tolerance: float) -> list[Claim]:
    """First peaks of the radial distributions, with jackknife errors and a relative tolerance."""
    claims = []
    for pair, *both in zip(RDF_PAIRS, run.rdf, reference.rdf):
        peaks, errors = [], []
        for blocks in both:
            left_out = [first_peak(pair, np.delete(blocks, i, axis=0).mean(axis=0))
                        for i in range(len(blocks))]
            peaks.append(first_peak(pair, blocks.mean(axis=0)))
            errors.append(np.std(left_out, axis=0) * np.sqrt(len(blocks) - 1))
        for i, what in enumerate(("position, nm", "height")):
            claims.append(Claim(f"{pair} first peak, {what}", peaks[0][i], peaks[1][i],
                                np.hypot(errors[0][i], errors[1][i]), tolerance * peaks[1][i]))
    return claims


def temperature_claims(run: Samples, tolerance: float) -> list[Claim]:
    """The temperature of everything, and that of the molecules' centres, with a relative tolerance."""
    return [Claim(text, series.mean(), TEMPERATURE, blocked_error(series), tolerance * TEMPERATURE)
            for text, series in (("temperature, K", run.temperature),
                                 ("temperature of the centres, K", run.centre_temperature))]


def flexible_claims(run: Samples, reference: Samples) -> list[Claim]:
    """The step of 3 fs samples what 0.5 fs samples."""
    length, reference_length = run.bond_length, reference.bond_length
    variance, reference_variance = run.bond_variance, reference.bond_variance
    return [
        energy_claim(run, reference, 0.3),
        *temperature_claims(run, 0.015),
        Claim("O-H length, mean, nm", length[0], reference_length[0],
              np.hypot(length[1], reference_length[1]), 2e-5),
        Claim("O-H length, variance, nm^2", variance[0], reference_variance[0],
              np.hypot(variance[1], reference_variance[1]), 0.05 * reference_variance[0]),
        *peak_claims(run, reference, 0.02),
    ]


def report(results: dict[str, Samples]) -> bool:
    """Print what the runs showed and each claim with its verdict; True if all hold."""
    print_table(RUNS, results)
    verdicts = []

    def heading(name: str) -> bool:
        """Introduce the claims on a run; False if it or its reference is missing."""
        missing = [needed for needed in (RUNS[name].reference, name) if needed not in results]
        print(f"\n{name} against {RUNS[name].reference}"
              + (f": NOT RUN: {', '.join(missing)}" if missing else ""))
        verdicts.extend("NOT RUN" for _ in missing)
        return not missing

    def check(claims: list[Claim]):
        for claim in claims:
            print(f"  {claim.text:35} {claim.value:10.5g} {claim.expected:10.5g}   difference "
                  f"{claim.value - claim.expected:9.2g} +- {claim.error:7.2g}, "
                  f"tolerance {claim.tolerance:7.2g}   {claim.verdict}")
            verdicts.append(claim.verdict)

    def check_rdf(what: str, rdf: np.ndarray, reference: np.ndarray):
        for pair, g, g_ref in zip(RDF_PAIRS, rdf, reference):
            p = rdf_p_value(g, g_ref)
            verdicts.append("pass" if p > P_VALUE else "FAIL")
            print(f"  {f'{pair} {what}, chance to differ so':45} {p:10.3g}   at least {P_VALUE:g}   {verdicts[-1]}")

    if heading("zhangskeel-3fs"):
        check(flexible_claims(results["zhangskeel-3fs"], results["middle-0.5fs"]))
    for name in RIGID_PHYSICS:
        if heading(name):
            run, reference = results[name], results["settle-2fs"]
            check([energy_claim(run, reference, ENERGY_TOLERANCE[RUNS[name].geometry])])
            check_rdf("function", run.rdf, reference.rdf)
            if is_vibrating(RUNS[name]):
                check(temperature_claims(run, 0.01))
                check_rdf("without vibrations", run.rest_rdf, reference.rdf)
    passed = verdicts.count("pass")
    print(f"\n{passed} of {len(verdicts)} claims hold")
    return passed == len(verdicts)


def main() -> int:
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_run_options(parser, time=150.0, friction=3.0)
    parser.add_argument("--run", type=choice(RUNS), nargs="+", metavar="NAME",
                        help=f"make these runs only, without a report: {', '.join(RUNS)}")
    parser.add_argument("--report", action="store_true", help="check the claims on the runs made so far")
    parser.add_argument("--output", type=Path, default=Path("validation"), metavar="FOLDER",
                        help="folder of the results; delete it to begin anew (default: %(default)s)")
    options = parser.parse_args()
    if options.run and options.report:
        parser.error("--run and --report: give one of them")

    folder = options.output / (f"{options.waters}waters_{options.time:g}ps_friction{options.friction:g}_"
                               f"{options.platform}_seed{options.seed}")
    parser.make_folder(folder)
    files = {name: folder / f"{name}.npz" for name in RUNS}
    failed = False
    for name in [] if options.report else options.run or RUNS:
        if files[name].exists():
            print(f"{files[name]}: done before")
            continue
        try:
            make_run(name, options).save(files[name])
        except (FloatingPointError, mm.OpenMMException) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    if options.run:
        return int(failed)
    print(f"{options.waters} TIP3P waters, {TEMPERATURE:g} K, friction {options.friction:g}/ps"
          + "".join(f" ({name}: {friction:g}/ps)" for name, friction in FRICTION.items())
          + f", {options.time:g} ps each\n")
    return 0 if report({name: Samples.load(file) for name, file in files.items() if file.exists()}) else 1


if __name__ == "__main__":
    run_program(main)
