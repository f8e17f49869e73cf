#!/usr/bin/env python
"""Validate the integrators on liquid TIP3P water, against LangevinMiddle.

Makes the runs that are missing in the output folder, one file each, then checks the claims: an interrupted
validation goes on where it was. The exit code is 0 if every claim holds and 1 if not.
"""

from functools import partial
from pathlib import Path

import numpy as np
from openmmstiff import ImpulseIntegrator

from runs import (Claim, Report, add_file_options, bond_length_claims, make_run, mean_claim, temperature_claim,
                  validate)
from observables import RDF_PAIRS, first_peak
from options import OptionParser, add_box_options, add_run_options, run_program
from sampling import Samples
from tip3p_water import TEMPERATURE, Run, impulse, langevin_middle, print_table, zhang_skeel, zhang_skeel_penalty

# 1/ps, where it is not the option's: at this step the centres of the molecules are heated, which friction carries off.
FRICTION = {"penalty-3fs": 5.0}
ENERGY_TOLERANCE = {"penalty": 0.2, "flexible": 0.4}  # kJ/mol per water, of runs compared with SETTLE

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


def energy_claim(run: Samples, reference: Samples, tolerance: float) -> Claim:
    return mean_claim("nonbonded energy, kJ/mol per water", run.nonbonded, reference.nonbonded, tolerance)


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
    return [temperature_claim("temperature, K", run.temperature, tolerance),
            temperature_claim("temperature of the centres, K", run.centre_temperature, tolerance)]


def flexible_claims(run: Samples, reference: Samples) -> list[Claim]:
    """The step of 3 fs samples what 0.5 fs samples."""
    return [energy_claim(run, reference, 0.3), *temperature_claims(run, 0.015),
            *bond_length_claims(run, reference, 0.05), *peak_claims(run, reference, 0.02)]


def check_claims(results: dict[str, Samples]) -> bool:
    """Print what the runs showed and each claim with its verdict; True if all hold."""
    print_table(RUNS, results)
    report = Report()
    if report.heading("zhangskeel-3fs", "middle-0.5fs", results):
        report.check(flexible_claims(results["zhangskeel-3fs"], results["middle-0.5fs"]))
    for name in RIGID_PHYSICS:
        if report.heading(name, RUNS[name].reference, results):
            run, reference = results[name], results[RUNS[name].reference]
            report.check([energy_claim(run, reference, ENERGY_TOLERANCE[RUNS[name].geometry])])
            report.check_rdf("function", RDF_PAIRS, run.rdf, reference.rdf)
            if is_vibrating(RUNS[name]):
                report.check(temperature_claims(run, 0.01))
                report.check_rdf("without vibrations", RDF_PAIRS, run.rest_rdf, reference.rdf)
    return report.finish()


def make(name: str, folder: Path, options) -> Samples:
    return make_run(name, RUNS[name], 1000 * options.seed + list(RUNS).index(name),
                    FRICTION.get(name, options.friction), options, rest_rdf=is_vibrating(RUNS[name]))


def main() -> int:
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_run_options(parser, time=150.0, friction=3.0)
    add_file_options(parser, RUNS)
    options = parser.parse_args()
    folder = (f"{options.waters}waters_{options.time:g}ps_friction{options.friction:g}_"
              f"{options.platform}_seed{options.seed}")
    title = (f"{options.waters} TIP3P waters, {TEMPERATURE:g} K, friction {options.friction:g}/ps"
             + "".join(f" ({name}: {friction:g}/ps)" for name, friction in FRICTION.items())
             + f", {options.time:g} ps each")

    return validate(parser, options, folder, title, RUNS, partial(make, options=options), Samples.load, check_claims)


if __name__ == "__main__":
    run_program(main)
