"""`python -m openmmstiff scan`, and what it is made of: averages with errors, straight lines, runs side by side."""

import json
import math
import os
import re
import subprocess
import sys
import time
from types import MappingProxyType, SimpleNamespace

import numpy as np
import openmm
import openmmstiff
import pytest
import trials
from conftest import GAS_CONSTANT, REFERENCE, Waters
from openmm import app, unit
from openmmstiff import __main__ as command
from openmmstiff._scan_runs import _minimize
from openmmstiff.sampling import LONG_ENOUGH, Deviation, Samples, blockedError, correlationTime, sample, separateForces
from openmmstiff.scanning import Run, Scan, fitLine, scan
from openmmstiff.tasks import runTasks
from systems import system_of

KT = 300*GAS_CONSTANT
SPRINGS = 16


def autoregressive(size, memory=0.9):
    """x[t+1] = memory x[t] + noise: its variance is 1/(1 - memory^2), and its tau (1 + memory)/(1 - memory)/2."""
    series = np.random.default_rng(1).normal(size=size + 200)
    for t in range(1, len(series)):
        series[t] += memory*series[t - 1]
    return series[200:]


def test_correlation_time_of_an_autoregressive_series():
    tau, error = correlationTime(autoregressive(100_000))
    assert tau == pytest.approx(9.5, abs=3*error) and 0.2 < error < 0.8


def test_correlation_time_of_noise_and_of_a_constant():
    assert correlationTime(np.random.default_rng(1).normal(size=10_000))[0] == pytest.approx(0.5, abs=0.05)
    for never_changes in (np.ones(10), np.full(1000, 0.1)):     # whose mean is rounded
        assert correlationTime(never_changes) == (math.inf, math.inf)
    assert all(map(math.isnan, correlationTime([1, math.nan, 2])))


def test_a_deviation_is_relative_and_bounded_by_two_errors():
    found = Deviation.between((-40.4, 0.03), (-40, 0.04))
    assert found == pytest.approx((-0.01, 0.00125)) and found.errors == pytest.approx(-8)
    assert found.bound == pytest.approx(0.0125)
    assert found.exceeds(0.0074) and not found.exceeds(0.0076)      # 0.01 less two errors
    assert Deviation.between((3, 0), (0, 0)) == (3, 0)              # of 1, where there is nothing to compare with
    assert Deviation.between((3, 0), (2, 0), 4) == (0.25, 0) and Deviation(0.25, 0).errors == 0


def test_blocked_error_of_an_autoregressive_series():
    """That of n/(2 tau) independent values; the largest level scatters by some 15 %."""
    series = autoregressive(100_000)
    assert blockedError(series) == pytest.approx(math.sqrt(2*9.5/len(series)/(1 - 0.9**2)), rel=0.4)
    assert blockedError([1.0]) == 0
    assert math.isnan(blockedError(np.append(series, np.nan))) and math.isnan(blockedError([1.0, np.inf]))
    for function in blockedError, correlationTime:
        with pytest.raises(ValueError, match=rf"{function.__name__}: .* shape \(samples,\), but this one has \(3, 4\)"):
            function(np.ones((3, 4)))
        with pytest.raises(ValueError, match="no samples"):
            function([])


def test_blocked_error_is_known_where_a_series_is_long_enough():
    """It is 10 % too small there, and 15 % where it is half as long."""
    whole = autoregressive(400*LONG_ENOUGH*19//2)       # tau is 9.5
    for share, least, most in (1, 0.85, 1.05), (0.5, 0.75, 0.9):
        parts = np.array_split(whole, 400/share)
        ratio = np.mean([blockedError(part)*math.sqrt(len(part)*(1 - 0.9**2)/(2*9.5)) for part in parts])
        assert least < ratio < most


def test_line_recovers_its_intercept_with_its_error():
    """Over many lines with noise of known size; chi^2 per degree of freedom is 1 on average."""
    random, steps, errors = np.random.default_rng(2), np.array([0.5, 1, 1.5, 2]), np.array([1.0, 2.0, 1.5, 1.0])
    lines = [fitLine(steps, -50 + 3*steps**2 + errors*random.normal(size=4), errors) for _ in range(1000)]
    intercepts = np.array([line.intercept for line in lines])
    assert intercepts.mean() == pytest.approx(-50, abs=4*lines[0].error/math.sqrt(1000))
    assert intercepts.std() == pytest.approx(lines[0].error, rel=0.1)
    slopes = np.array([line.slope for line in lines])
    assert slopes.mean() == pytest.approx(3, abs=4*lines[0].slopeError/math.sqrt(1000))
    assert slopes.std() == pytest.approx(lines[0].slopeError, rel=0.1)
    assert np.mean([line.chiSquared for line in lines]) == pytest.approx(1, abs=4/math.sqrt(1000))


def test_line_without_freedom_or_without_errors():
    line = fitLine([1, 2], [5, 8], [0.1, 0.1])
    assert (line.intercept, line.slope) == pytest.approx((4, 1)) and math.isnan(line.chiSquared)
    with pytest.raises(ValueError, match="two different steps"):
        fitLine([2, 2], [5, 8], [0.1, 0.1])
    with pytest.raises(ValueError, match="must be positive"):
        fitLine([1, 2], [5, 8], [0.1, 0])


def synthetic(means, steps=(1.0, 2.0), samples=4000):
    """Runs of two integrators with these means of two energies at h = 0, with noise of size 1 and a slope of 2."""
    random = np.random.default_rng(3)
    runs = [Run(name, fs/1000, Samples(fs/1000, 0.01, np.full(samples, 300.0), {
        kind: mean + 2*fs**2 + random.normal(size=samples) for kind, mean in zip(("bonds", "angles"), means[name])
    }, {}, 10*samples, 1.0), platform="CPU") for name in means for fs in steps]
    return Scan(runs, 300.0, 1.0, 10, 1.0)


def test_intercepts_are_compared_in_errors():
    found = synthetic({"A": (10, 20), "B": (10, 21)})
    line = found.extrapolate("bonds", "A")
    assert line.intercept == pytest.approx(10, abs=4*line.error) and 0.015 < line.error < 0.05
    assert line.slope == pytest.approx(2, abs=4*line.slopeError)
    assert found.extrapolate("potential", "B").intercept == pytest.approx(31, abs=0.3)
    assert abs(found.compare("bonds", "B")) < 4 and found.compare("angles", "B") > 20
    assert found.extrapolate("temperature", "A") is None    # it never changes
    with pytest.raises(ValueError, match="'torsions' has no averages in this scan; these have: temperature, potential"):
        found.extrapolate("torsions", "A")
    with pytest.raises(ValueError, match="'C' is none of the integrators"):
        found.extrapolate("bonds", "C")


def test_short_run_has_the_error_that_a_long_one_lets_expect():
    """It has seen but a part of a slow motion."""
    found, slow = synthetic({"A": (10, 20)}), autoregressive(4000, 0.99)
    short, long = found.runs
    long.samples.energies["bonds"] = slow
    short.samples.energies["bonds"], short.samples.steps = slow[:40], 400
    short.samples.step = short.step = 0.002
    expected = 10*long.average("bonds").error
    assert short.average("bonds").error < 0.5*expected
    assert found.average("bonds", short).error == pytest.approx(min(expected, slow.std()))
    assert found.average("bonds", long) == long.average("bonds")


def test_one_step_and_few_samples_are_said():
    assert "With one step of an integrator there is no line" in synthetic({"A": (1, 2)}, [1.0]).table()
    table = synthetic({"A": (1, 2)}, samples=4).table()
    assert "+-?" in table and "with fewer than 8 samples errors are not known" in table


def springs():
    """A (System, topology, positions): bonds that vibrate with a period of 9 fs, each with an energy of kT/2."""
    system, topology, positions = openmm.System(), app.Topology(), []
    bonds, chain = openmm.HarmonicBondForce(), topology.addChain()
    for i in range(SPRINGS):
        residue = topology.addResidue("OH", chain)
        atoms = [topology.addAtom(name, app.Element.getBySymbol(name), residue) for name in "OH"]
        topology.addBond(*atoms)
        bonds.addBond(system.addParticle(16), system.addParticle(1), 0.1, 4.6e5)
        positions += [[0.3*i, 0, 0], [0.3*i + 0.1, 0, 0]]
    system.addForce(bonds)
    return system, topology, np.array(positions)


def test_forces_are_put_into_groups_by_name():
    system = Waters(1).system
    system.addForce(openmm.HarmonicBondForce())
    system.addForce(openmm.MonteCarloBarostat(1, 300))
    groups = separateForces(system)
    assert list(groups) == ["HarmonicBondForce", "NonbondedForce", "HarmonicAngleForce"]
    for force in system.getForces():
        if force.getName() in groups:
            assert groups[force.getName()] == {force.getForceGroup()}


def test_names_beyond_the_number_of_groups_are_others():
    system = openmm.System()
    for i in range(34):
        system.addForce(openmm.CustomExternalForce("0"))
        system.getForce(i).setName(f"force {i}")
    groups = separateForces(system)
    assert list(groups) == [f"force {i}" for i in range(31)] + ["others"] and groups["others"] == {31}
    assert [force.getForceGroup() for force in system.getForces()] == [*range(32), 31, 31]


def reference_context(step):
    system, _, positions = springs()
    integrator = trials.seeded(openmm.LangevinMiddleIntegrator(300, 50, step))
    return trials.bind(system, integrator, "Reference", positions, 300)


def test_sample_records_what_is_asked_for(tmp_path):
    steps = []
    found = sample(reference_context(0.001), 5, 4, observe=lambda state: {"x": state.getPositions(asNumpy=True)._value},
                   progress=steps.append)
    assert found.temperature.shape == found.potential.shape == (4,) and found.observed["x"].shape == (4, 32, 3)
    assert (found.step, found.interval, found.steps, steps) == (0.001, 0.005, 20, 4*[5])
    assert found.nsPerDay == pytest.approx(86.4*0.02/found.seconds)
    found.save(tmp_path/"samples.npz")
    loaded = Samples.load(tmp_path/"samples.npz")
    assert loaded.energies.keys() == {"potential"} and (loaded.observed["x"] == found.observed["x"]).all()
    assert vars(loaded).keys() == vars(found).keys() and loaded.seconds == found.seconds
    sample(reference_context(0.001), 5, 4, groups={"": {0}}).save(tmp_path/"samples.npz")
    assert Samples.load(tmp_path/"samples.npz").energies.keys() == {""}
    with pytest.raises(ValueError, match="must end in .npz, but is run.300K"):
        found.save("run.300K")


def test_sample_stops_with_an_error():
    with pytest.raises(ValueError, match="give samples, seconds, or both"):
        sample(reference_context(0.001), 5)
    assert len(sample(reference_context(0.001), 5, seconds=0*unit.second).temperature) == 1
    for wrong, message in [({"samples": 0.3/0.1}, "sample: samples must be an integer, not 2.99"),
                           ({"samples": 0}, "sample: samples must be at least 1"),
                           ({"samples": math.nan}, "sample: samples must be an integer, not nan"),
                           ({"interval": 1*unit.picosecond}, "sample: interval must be an integer"),
                           ({"seconds": math.nan}, "sample: seconds must be a finite number"),
                           ({"groups": {"bonds": 0}}, "the force groups of 'bonds' must be an object of class set"),
                           ({"groups": {"bonds": {0}, "typo": {33}}}, "groups of 'typo': there is no force group 33"),
                           ({"groups": {"bonds": set()}}, "groups of 'bonds' is an empty set; leave it out"),
                           *(({"observe": lambda state, value=value: {"x": value}},
                              r"sample: observe\(\) returned .* as 'x', which is neither .* value_in_unit\(\)")
                             for value in (1*unit.nanometer, [[1, 2], [3]], None))]:
        with pytest.raises((TypeError, ValueError), match=message):
            sample(reference_context(0.001), **{"interval": 5, "samples": 1, **wrong})
    with pytest.raises(FloatingPointError, match="LangevinMiddleIntegrator with a step of 20 fs: the energy is not "
                                                 "finite after .* ps. Use a smaller step"):
        sample(reference_context(0.02), 500, 10)


def square(value):
    if value < 0:
        raise ValueError(f"{value} is negative")
    if value > 100:
        raise TooLarge(value, "large")
    return value**2


class TooLarge(Exception):
    """One that pickle writes, and cannot read."""

    def __init__(self, value, size):
        super().__init__(f"{value} is too {size}")


@pytest.mark.parametrize("processes", [1, 2])
def test_tasks_return_or_raise(processes):
    assert sorted(runTasks(square, [3, 1, 2], processes)) == [(0, 9), (1, 1), (2, 4)]
    assert list(runTasks(square, [], processes)) == []
    with pytest.raises(ValueError, match="-1 is negative"):
        list(runTasks(square, [-1], processes))
    with pytest.raises(Exception, match="101 is too large") as raised:
        list(runTasks(square, [101], processes))
    assert raised.type is (TooLarge if processes == 1 else RuntimeError)
    with pytest.raises(ValueError, match="runTasks: processes must be at least 1, but is 0"):
        list(runTasks(square, [1], 0))


def say_and_wait(_):
    print("begun\n", end="", flush=True)     # in one piece, with PYTHONUNBUFFERED too
    time.sleep(600)


def test_processes_end_with_the_one_that_made_them(tmp_path):
    """However that ends: it is killed while they are at their tasks. Their output is open as long as they live."""
    (tmp_path/"script.py").write_text("""\
from openmmstiff.tasks import runTasks
from test_scan import say_and_wait
if __name__ == "__main__":
    list(runTasks(say_and_wait, [1, 2], 2))
""")
    with subprocess.Popen([sys.executable, tmp_path/"script.py"], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as parent:
        assert [parent.stdout.readline() for _ in range(2)] == ["begun\n"]*2
        parent.kill()
        parent.communicate(timeout=60)


@pytest.fixture(scope="module")
def scanned():
    """With steps beyond the limit, 2.9 fs for LangevinMiddle."""
    system, topology, positions = springs()
    labels = set()
    result = scan(system, topology, positions, friction=50,
                  steps={"LangevinMiddle": [1, 2, 5], "MassPenaltyLangevin": [4, 8]}, time=4, platform="Reference",
                  progress=lambda _, label: labels.add(label))
    assert {"equilibration", "LangevinMiddle, 1 fs", "MassPenaltyLangevin, 8 fs"} <= labels
    assert all(force.getForceGroup() == 0 for force in system.getForces())
    return result


def test_scan_finds_the_energy_of_springs(scanned):
    """kT/2 each, and 6e-4 of that more, because there is more room where bonds are longer."""
    assert scanned.names == ["temperature", "potential"]
    for run in (run for run in scanned.runs if run.samples is not None):
        for name, expected in ("temperature", 300), ("potential", SPRINGS*KT/2):
            average = run.average(name)
            assert average.known and average.error < 0.1*expected
            assert average.mean == pytest.approx(expected, abs=4*average.error)
    for integrator in scanned.integrators:
        line = scanned.extrapolate("potential", integrator)
        assert line.intercept == pytest.approx(SPRINGS*KT/2, abs=4*line.error)


def test_a_failed_minimization_leaves_the_given_positions():
    """Of a potential that is not defined where the minimizer's first step leads; a virtual site is with its parents."""
    def slope(state):
        x = state.getPositions(asNumpy=True)._value
        if abs(x[0, 0] - 1) > 0.01:
            raise ValueError("it ends here")
        return 100*x[0, 0], np.eye(1, 9).reshape(3, 3)*-100.0

    system = system_of([12, 12, 0], openmm.PythonForce(slope), sites=[(2, (0, 1))])
    given = np.array([[1.0, 0, 0], [1, 1, 0], [5, 5, 5]])
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), REFERENCE)
    context.setPositions(given)
    note, = _minimize(context, SimpleNamespace(positions=given, seconds=None))
    assert "it ends here" in note and "positions that were given" in note
    found = context.getState(positions=True).getPositions(asNumpy=True)._value
    assert found == pytest.approx(np.array([[1, 0, 0], [1, 1, 0], [1, 0.5, 0]]))


def test_step_that_fails_is_a_row(scanned):
    assert [run.samples is None for run in scanned.runs] == [False, False, True, False, False]
    assert scanned.runs[2].failure in ("the velocities are too large", "the velocities are not finite")
    row, = (line for line in scanned.table().splitlines() if "fails after" in line)
    assert row.split()[:3] == ["LangevinMiddle", "5", "200"]
    with pytest.raises(ValueError, match="LangevinMiddle at 5 fs has no averages, as it has failed: the velo"):
        scanned.runs[2].average("potential")


def test_reference_is_one_that_has_not_failed():
    found = synthetic({"A": (10, 20), "B": (10, 21)})
    for run in found.runs[:2]:
        run.samples, run.failure = None, "it is too hot"
    assert (found.reference.integrator, found.reference.step) == ("B", 0.001)
    assert found.extrapolate("bonds", "A") is None and math.isnan(found.compare("bonds", "A"))
    assert found.compare("bonds", "B") == 0 and found.table().count("it is too hot") == 2
    for run in found.runs:
        run.samples = None
    assert found.reference is None and "Every run has failed: check the positions" in found.table()
    with pytest.raises(ValueError, match="every run has failed"):
        found.draw("none.png")


def shift(run, errors, found, name="bonds"):
    """Move an average by so many combined errors."""
    own, other = found.average(name, run), found.average(name, found.reference)
    run.samples.energies[name] += other.mean - own.mean + errors*math.hypot(own.error, other.error)


def level(found):
    """Runs with the averages of the first but for noise: without the slope of 2 per fs^2."""
    for run in found.runs:
        for series in run.samples.energies.values():
            series -= 2*run.fs**2
    return found


def test_verdict_is_the_largest_step_that_reproduces_the_reference():
    found = level(synthetic({"A": (100, 200), "B": (100, 200)}, (1.0, 2.0, 3.0)))
    bound = r"temperature within 0 %, energies within 0\.\d+ %"
    both = (f"{name} at 3 fs reproduces A at 1 fs within the errors of these runs: {bound}[.]" for name in "AB")
    assert re.fullmatch(" ".join(both), found.verdict())
    shift(found.runs[5], 7, found)
    assert re.search(f"B at 2 fs reproduces A at 1 fs .*{bound}; at 3 fs bonds differs by 7[.]0 errors[.]$",
                     found.verdict())
    found.runs[4].samples, found.runs[4].failure = None, "it is too hot"    # what is right beyond a failure is luck
    assert re.search("B at 1 fs reproduces A at 1 fs .*; 2 fs fails[.]$", found.verdict())
    shift(found.runs[3], -7, found)
    assert found.verdict().endswith(
        "No step of B is known to reproduce A at 1 fs: at 1 fs bonds differs by 7.0 errors.")


def test_bound_of_the_verdict_is_that_of_the_errors():
    """The difference and two errors more, relative to the average."""
    found = level(synthetic({"A": (100, 200), "B": (100, 200)}, (1.0,)))
    shift(found.runs[1], 2, found)
    error = math.hypot(*(found.average("bonds", run).error for run in found.runs))
    assert f"energies within {100*4*error/found.average('bonds', found.reference).mean:.2g} %." in found.verdict()


def test_runs_too_short_for_errors_have_no_verdict():
    """But are told how much longer they have to be: 60 correlation times."""
    found = level(synthetic({"A": (100, 200)}, samples=400))
    found.reference.samples.energies["bonds"] = slow = 100 + autoregressive(400, 0.99)
    found.reference.samples.temperature = found.runs[1].samples.temperature = 300 + autoregressive(400, 0.98)
    times = re.search("No step of A is known .*too short for their errors at 2 fs: give them ([0-9]+) times as long "
                      "[(]--minutes or --time[)]", found.verdict())
    least = min(LONG_ENOUGH*correlationTime(series)[0]/400 for series in (slow, found.reference.samples.temperature))
    assert least/1.2 < float(times[1]) < 10*max(2, least)
    assert "give them much more time" in synthetic({"A": (1, 2)}, samples=4).verdict()
    assert "give a second step, or another integrator" in synthetic({"A": (1, 2)}, [1.0]).verdict()


def test_slow_kinds_of_energy_are_not_judged():
    found = level(synthetic({"A": (100, 20000)}, (1.0, 2.0)))
    found.runs[1].samples.energies["bonds"] = 100 + 0.01*np.linspace(-1, 1, 4000)
    assert re.search("A at 2 fs reproduces A at 1 fs .*; runs are too short to judge bonds[.]", found.verdict())


def test_energies_that_never_change_are_left_out():
    found = synthetic({"A": (10, 20)})
    for run in found.runs:
        run.samples.energies["none"] = np.zeros(4000)
    assert found.names == ["temperature", "potential", "bonds", "angles"]
    for run in found.runs:
        run.samples.energies["bonds"] = np.zeros(4000)
    assert found.names == ["temperature", "potential"]


def test_drift_is_told():
    found = synthetic({"A": (10, 20)})
    assert found.runs[0].average("bonds").known and "drifts" not in found.table()
    found.runs[1].samples.energies["bonds"] += np.linspace(0, 3, 4000)
    assert not found.runs[1].average("bonds").known and "drifts" in found.table()


@pytest.mark.parametrize("others, stiffness, expected", [(SPRINGS, 0.0, SPRINGS), (1, 4.6e5, SPRINGS), (1, 10.0, 1)])
def test_mass_penalty_takes_from_the_topology_what_no_bonded_force_has(others, stiffness, expected):
    """All bonds, or the first, of another force, as in a mixed system. Bonds that are known and slow get no pairs."""
    system, topology, positions = springs()
    custom = openmm.CustomCompoundBondForce(2, "230000*(distance(p1, p2) - 0.1)^2")
    harmonic = openmm.HarmonicBondForce()
    for i in range(SPRINGS):
        ends = 2*i, 2*i + 1
        custom.addBond(ends) if i < others else harmonic.addBond(*ends, 0.1, stiffness)
    system.removeForce(0)
    system.addForce(custom)
    if others < SPRINGS:
        system.addForce(harmonic)
    run, = scan(system, topology, positions, ["MassPenaltyLangevin"], steps=[4], time=0.1, platform="Reference").runs
    assert run.pairs == expected and run.samples is not None


def test_default_steps_are_those_that_examine_recommends():
    """And a half and three quarters of them; a friction for the vacuum. All hold."""
    told = []
    found = scan(*springs(), time=6, platform="Reference", progress=lambda done, _: told.append(done))
    assert {name: [run.fs for run in found.runs if run.integrator == name] for name in found.integrators} == {
        "LangevinMiddle": [1, 1.5, 2], "MassPenaltyLangevin": [6, 8, 12]}
    assert found.friction == 5 and all(run.samples is not None for run in found.runs)
    assert told == sorted(told) and told[-1] == 1


def test_runs_that_are_planned_too_short_are_told():
    with pytest.warns(UserWarning, match="runs of 0.1 ps are too short .* friction of 5/ps give at least 6 ps"):
        found = scan(*springs(), ["LangevinMiddleIntegrator"], steps=MappingProxyType({"LangevinMiddleIntegrator": [1]}),
                     time=0.1, platform="Reference")
    assert [(run.integrator, run.fs) for run in found.runs] == [("LangevinMiddle", 1)]


def test_integrator_of_ones_own():
    integrators = {"nose": openmm.NoseHooverIntegrator(300, 50, 0.001), "verlet": openmm.VerletIntegrator(0.001)}
    result = scan(*springs(), MappingProxyType(integrators), steps=iter([1]), time=0.1, platform="Reference",
                  seed=2**31 - 1)
    assert result.integrators == ["nose", "verlet"] and all(run.samples is not None for run in result.runs)


def test_members_of_a_compound_integrator_get_temperature_and_seed():
    compound = openmm.CompoundIntegrator()
    compound.addIntegrator(openmm.LangevinMiddleIntegrator(900, 50, 0.001))
    one, other = (scan(*springs(), {"own": compound}, steps=[1], time=0.1, platform="Reference").runs[0].samples
                  for _ in range(2))
    assert (one.temperature == other.temperature).all() and one.temperature.mean() == pytest.approx(300, abs=150)


FREE, HELD, IN_PYTHON = openmm.System(), springs()[0], springs()[0]
FREE.addForce(openmm.CustomExternalForce("0"))
FREE.addParticle(1)
HELD.addConstraint(0, 2, 0.3)
STIFF = openmm.CompoundIntegrator()
STIFF.addIntegrator(openmm.VerletIntegrator(0.001))
STIFF.addIntegrator(openmmstiff.ImpulseIntegrator(0.001))
STIFF.getIntegrator(1).setStiffForceGroups({1})
IN_PYTHON.addForce(openmm.PythonForce(lambda state: (0.0, np.zeros((2*SPRINGS, 3)))))


@pytest.mark.parametrize("changes, message", [
    # Zhang-Skeel's method refuses constraints on stiff molecules; for free particles there is no step at all.
    ({"system": HELD, "integrators": ["ZhangSkeelLangevin"], "time": 6},
     "examine[(][)] recommends no step of ZhangSkeelLangevin for this System"),
    ({"system": FREE, "topology": app.Topology(), "positions": [[0, 0, 0]], "time": 6},
     "no steps are recommended .*: give some"),
    ({"system": IN_PYTHON}, "the System cannot be copied through XML: .* left out"),
    ({"integrators": ["Verlet"]}, "no integrator 'Verlet'; choose from LangevinMiddle, MassPenaltyLangevin"),
    ({"integrators": []}, "there are no integrators"),
    *(({"integrators": each, "steps": [1], "time": 6}, "is named by a string, not .*: pass .* dict of name to Integrator")
      for each in (openmm.VerletIntegrator(1e-3), [openmm.VerletIntegrator(1e-3)], {5: openmm.VerletIntegrator(1e-3)})),
    ({"integrators": {"V": openmm.VariableLangevinIntegrator(300, 1, 1e-4)}}, "of VariableLangevinIntegrator vary"),
    ({"integrators": {"own": STIFF}, "steps": [1], "time": 6}, "the integrator 'own' chooses forces by their groups"),
    ({"integrators": {"own": openmm.VerletIntegrator(0.001)}}, "give steps for 'own'"),
    ({"steps": [0]}, r"steps of LangevinMiddle must be positive numbers \[fs\], but are \[0.0\]"),
    ({"steps": 2}, r"scan: steps must be a sequence of numbers \[fs\], not 2"),
    ({"integrators": ["LangevinMiddle"], "steps": {"LangevinMidle": [1]}}, "'LangevinMidle', which is none of Langev"),
    ({"minutes": 0}, "minutes must be a finite number that is positive, but is 0"),
    ({"time": -1}, "time must be a finite number that is positive, but is -1"),
    ({"processes": 0}, "processes must be at least 1, but is 0"),
    ({"system": openmm.System(), "topology": app.Topology(), "positions": np.zeros((0, 3))}, "System has no forces"),
    ({"platform": "Foo"}, "scan: platform must be one of 'Reference', .*, not 'Foo'"),
    ({"properties": {"Precision": "mixed"}}, "scan: a property of Reference must be one of .*, not 'Precision'"),
    ({"platform": None, "properties": {"Precision": "mixed"}}, "properties are those of a platform: give one"),
    ({"platform": "CPU", "properties": {"Threads": 1}}, "scan: the property Threads must be a string, not 1"),
    ({"topology": Waters(20).topology}, "the Topology has 60 atoms, but the System only 32 particles"),
    ({"topology": "PDBFile"}, "topology must be an object of class Topology, not 'PDBFile'"),
    ({"integrators": {"Verlet": openmm.VerletIntegrator}}, "the integrator 'Verlet' must be an object of class Integr"),
    ({"positions": np.zeros((3, 3))}, r"each of 32 particles, but are of shape \(3, 3\). Pass")])
def test_bad_arguments_are_errors(changes, message):
    good = dict(zip(("system", "topology", "positions"), springs()))
    with pytest.raises((TypeError, ValueError), match=message):
        scan(**{**good, "platform": "Reference", **changes})


@pytest.fixture
def files(tmp_path):
    """Arguments of the command: two waters."""
    waters = Waters(2)
    (tmp_path/"system.xml").write_text(openmm.XmlSerializer.serialize(waters.system))
    app.PDBFile.writeFile(waters.topology, waters.positions*unit.nanometer, str(tmp_path/"water.pdb"))
    return [str(tmp_path/"system.xml"), str(tmp_path/"water.pdb"), "--output", str(tmp_path/"out"), "--platform",
            "Reference"]


def test_command_prints_a_table_and_draws(files, tmp_path, capsys):
    arguments = ["scan", *files, "--integrators", "LangevinMiddle:1,2", "MassPenaltyLangevin", "--steps", "4", "6",
                 "--time", "0.2", "--friction", "20"]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "6 particles, 300 K, friction 20/ps, Reference platform" in printed
    numbers = json.loads((tmp_path/"out/scan.json").read_text())
    verdict = numbers["verdict"]
    assert "reproduce LangevinMiddle at 1 fs: the runs are too short for their errors at 4 fs: give them" in verdict
    assert verdict in " ".join(printed.split())
    assert "HarmonicAngle" in printed and "h -> 0" in printed and "nan" not in printed
    assert max(map(len, printed.splitlines())) <= 120
    assert [(run["integrator"], run["step"]) for run in numbers["runs"]] == [
        ("LangevinMiddle", 0.001), ("LangevinMiddle", 0.002), ("MassPenaltyLangevin", 0.004),
        ("MassPenaltyLangevin", 0.006)]
    assert numbers["extrapolated"]["LangevinMiddle"]["HarmonicBondForce"]["points"] == 2
    pytest.importorskip("matplotlib")
    assert (tmp_path/"out/scan.png").stat().st_size > 10000


def test_real_time_is_kept(files, capsys):
    arguments = ["scan", *files, "--integrators", "LangevinMiddle:1,2", "--minutes", "0.01"]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.count("LangevinMiddle  ") >= 4 and "fails" not in printed


@pytest.mark.parametrize("words, code, message", [
    ("system.xml water.pdb --integrators Middle", 2,
     "there is no integrator 'Middle'; choose from LangevinMiddle, MassPenaltyLangevin"),
    ("system.xml water.pdb --integrators LangevinMiddle:a", 2,
     "'LangevinMiddle:a': give steps in fs as in LangevinMiddle:2,4"),
    ("system.xml water.pdb --integrators LangevinMiddle:1 LangevinMiddleIntegrator:2", 2,
     "LangevinMiddle is there twice. Give all its steps at once, as in LangevinMiddle:2,4"),
    ("system.xml water.pdb --integrators LangevinMiddle:1 --steps 2", 2, "each of --integrators has steps of its own"),
    ("system.xml water.pdb --output /proc", 2, "/proc"),
    ("system.xml water.pdb --minutes 0", 2, "'0': give a positive number"),
    ("integrator.xml water.pdb", 2, "has a MassPenaltyIntegrator, not a System"),
    ("water.pdb water.pdb", 2, "is not what XmlSerializer writes of a System"),
    ("none.xml water.pdb", 2, "No such file"),
    ("system.xml system.xml", 2, "cannot be read as a structure"),
    ("system.xml water.pdb --platform Quantum", 2, "scan: platform must be one of 'Reference',")])
def test_wrong_options_and_files_are_told(words, code, message, files, tmp_path, monkeypatch, capsys):
    (tmp_path/"integrator.xml").write_text(openmm.XmlSerializer.serialize(openmmstiff.MassPenaltyIntegrator(0.001)))
    monkeypatch.chdir(tmp_path)
    try:
        found = command.main(["scan", *words.split()])
    except SystemExit as exit:
        found = exit.code
    assert found == code and message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["examine", "scan"])
def test_a_precision_without_a_platform_is_told(name, files, capsys):
    with pytest.raises(SystemExit):
        command.main([name, *files[:2], "--platform", ":mixed"])
    assert "argument --platform: ':mixed' names none. Give one, as in CUDA:mixed" in capsys.readouterr().err


def test_cluster_of_dask_gives_the_same(files, tmp_path):
    """To the bit, on Reference."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        assert sorted(runTasks(square, [3, 1], scheduler=address)) == [(0, 9), (1, 1)]
        with pytest.raises(ValueError, match="-1 is negative"):
            list(runTasks(square, [-1], scheduler=address))
        arguments = ["scan", *files, "--integrators", "LangevinMiddle:1,2", "--time", "0.1"]
        assert command.main(arguments) == command.main([*arguments, "--scheduler", address, "--output",
                                                        str(tmp_path/"other")]) == 0
    here, there = (json.loads((tmp_path/name/"scan.json").read_text())["runs"] for name in ("out", "other"))
    for one, other in zip(here, there):
        assert one["averages"] == other["averages"]
