#!/usr/bin/env python
"""How large a step each integrator takes on liquid TIP3P water with flexible bonds and angles.

Every run starts from the same equilibrated state. The table shows where temperatures and energies begin to depend
on the step, and where the run fails; LangevinMiddle with SETTLE is the reference of the impulse methods, and
LangevinMiddle at a small step that of the others. The temperatures of the molecules' translation (centres) and
rotation come apart at large steps with every integrator, more so the less friction there is.
"""
import sys
from collections.abc import Iterator
from pathlib import Path

import openmm as mm
from openmmstiff import ImpulseIntegrator, MassPenaltyLangevinIntegrator, ZhangSkeelLangevinIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.options import (  # noqa: E402
    OptionParser, add_box_options, add_names_option, add_record_option, add_run_options, progress_bar, run_program)
from common.tables import mean_with_error, print_table  # noqa: E402
from common.water_sampling import number_of_steps  # noqa: E402
from tip3p_water import Run, TEMPERATURE, equilibrate_both, impulse, make_run, make_simulation  # noqa: E402
from common.water import build_box  # noqa: E402

EQUILIBRATION_TIME = 5.0  # ps, of each geometry; then as long with each run's own integrator

# As those of a Run, but for steps in fs.
SERIES = {
    "settle": ("LangevinMiddle + SETTLE", "rigid", mm.LangevinMiddleIntegrator, (2, 4, 6, 8)),
    "middle": ("LangevinMiddle", "flexible", mm.LangevinMiddleIntegrator, (1, 2, 2.5, 3)),
    "zhangskeel": ("Z&Ss-Langevin", "flexible", ZhangSkeelLangevinIntegrator, (2, 3, 3.5, 4)),
    "plain": ("Impulse, plain", "flexible", impulse(ImpulseIntegrator.Plain), (1, 2, 3, 4)),
    "mollified": ("Impulse, mollified", "flexible", impulse(ImpulseIntegrator.Mollified), (4, 6, 7, 8, 9, 10)),
    "projected": ("Impulse, projected", "flexible", impulse(ImpulseIntegrator.Projected), (4, 6, 7, 8, 9, 10)),
    "masspenalty": ("Mass penalty", "flexible", MassPenaltyLangevinIntegrator, (8, 10, 12, 14, 16)),
}


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_run_options(parser, time=20.0, friction=3.0)
    add_names_option(parser, "--integrators", SERIES)
    add_record_option(parser)
    options = parser.parse_args()

    box = build_box(options.waters)
    states = equilibrate_both(box, dict.fromkeys(("rigid", "flexible"), EQUILIBRATION_TIME), options)
    print(f"{options.waters} TIP3P waters, {TEMPERATURE:g} K, friction {options.friction:g}/ps, "
          f"{options.time:g} ps each, {options.platform} platform\n")

    def rows() -> Iterator[list[str]]:
        for name in options.integrators:
            label, geometry, make, steps = SERIES[name]
            for step in (fs / 1000 for fs in steps):
                run = Run(label, geometry, step, make)
                simulation = make_simulation(box, run, options.friction, options.seed, options.platform)
                steps_made = round(EQUILIBRATION_TIME / step) + number_of_steps(options.time, step)
                with progress_bar(f"{label} {1000 * step:g} fs", steps_made) as bar:
                    try:
                        found = make_run(simulation, states[geometry], options.seed, EQUILIBRATION_TIME, options.time,
                                         bar.update)
                        motions = found.temperature, found.centre_temperature, found.rotation_temperature
                        results = [*(mean_with_error(each, 1) for each in motions), mean_with_error(found.nonbonded, 2)]
                    except (FloatingPointError, mm.OpenMMException):
                        results = [f"fails at {simulation.context.getTime()}"]
                yield [label, f"{1000 * step:g}", *results]

    print_table(["integrator", "step (fs)", "T (K)", "centres (K)", "rotation (K)", "nonbonded (kJ/mol)"], rows(),
                options.record, "step-limits")


if __name__ == "__main__":
    run_program(main)
