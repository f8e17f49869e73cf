"""Runs at constant energy from the snapshots of another run, correlation functions and spectra."""

import io
import itertools

import numpy as np
import openmm
import pytest
import trials
from conftest import GAS_CONSTANT, Waters
from openmm import app, unit
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import WAVENUMBER, correlationFunction, countFreedom, powerSpectrum, sample, sampleDynamics
from systems import external, force, system_of

KT = 300*GAS_CONSTANT
STIFFNESS = np.array([5e5, 2e4, 200])   # of oscillators with a mass of 1 dalton along x, y and z, kJ/mol/nm^2
STEP = 0.0002                           # ps


def oscillators(particles=20):
    return system_of(particles*[1], external("scale*(250000*x^2+10000*y^2+100*z^2)", *range(particles), scale=1))


def thermal(snapshots=30, particles=20):
    """Positions of the oscillators at 300 K."""
    return np.random.default_rng(1).normal(size=(snapshots, particles, 3))*np.sqrt(KT/STIFFNESS)


def observe(state):
    return {"x": state.getPositions(asNumpy=True)._value, "v": state.getVelocities(asNumpy=True)._value,
            "box": state.getPeriodicBoxVectors(asNumpy=True)._value}


def run(system, snapshots, interval=1, samples=1, stepSize=STEP, look=observe, **options):
    return sampleDynamics(system, snapshots, 300, stepSize, interval, float(samples), look, platform="Reference", **options)


def relative(values):
    """What the hydrogens of four waters have more than the oxygen that they are bound to, of arrays of all atoms."""
    values = values.reshape(-1, 4, 3, 3)
    return values[:, :, 1:] - values[:, :, :1]


def autoregressive(shape, memory):
    """x[t+1] = memory x[t] + noise along the second axis, of variance 1."""
    random = np.random.default_rng(2)
    series = np.empty(shape)
    series[:, 0] = random.normal(size=series[:, 0].shape)
    for t in range(1, shape[1]):
        series[:, t] = memory*series[:, t - 1] + np.sqrt(1 - memory**2)*random.normal(size=series[:, t].shape)
    return series


# ---- Runs ----

def test_oscillators_have_their_frequencies():
    """C(t) = cos(omega t), and the spectrum is a line at omega; Verlet's own frequency is 2 asin(omega h/2)/h."""
    found = run(oscillators(), thermal(), interval=5, samples=1000)
    assert found["v"].shape == (30, 1000, 20, 3)
    times = 5*STEP*np.arange(500)
    for axis, omega in enumerate(2*np.arcsin(np.sqrt(STIFFNESS)*STEP/2)/STEP):
        values, errors = correlationFunction(found["v"][..., axis])
        # x(0) x(t) has terms of omega (2s + t), which the mean over s leaves 1/(omega T) of.
        assert values[:500] == pytest.approx(np.cos(omega*times), abs=1/(omega*0.5))
        wavenumbers, spectrum, _ = powerSpectrum(found["v"][..., axis], 5*STEP*unit.picosecond, resolution=20)
        at = 1/unit.SPEED_OF_LIGHT_C.value_in_unit(unit.centimeter/unit.picosecond)*omega/(2*np.pi)
        assert wavenumbers[spectrum.argmax()] == pytest.approx(at, abs=wavenumbers[1])
        near = np.abs(wavenumbers - at) < 100
        assert np.sum(spectrum[near])*wavenumbers[1] > 0.85*np.mean(found["v"][..., axis]**2)


def test_runs_begin_at_the_snapshots_and_follow_newton():
    start = thermal(2)
    found = run(oscillators(), start, samples=3)
    assert found["x"][:, 0] == pytest.approx(start, abs=1e-12)
    assert np.diff(found["x"], axis=1)/STEP == pytest.approx(found["v"][:, 1:], abs=1e-9)
    acceleration = np.diff(found["v"], axis=1)/STEP
    assert acceleration == pytest.approx(-STIFFNESS*found["x"][:, :-1], abs=1e-6)


def test_velocities_are_drawn_at_the_time_of_the_positions():
    """OpenMM shifts them to half a step before, where VerletIntegrator has them."""
    step, particles = 0.0005, 200
    found = run(oscillators(particles), thermal(50, particles), stepSize=step)
    x, v = (found[name][:, 0, :, 0]/scale for name, scale in (("x", np.sqrt(KT/STIFFNESS[0])), ("v", np.sqrt(KT))))
    half = np.sqrt(STIFFNESS[0])*step/2
    assert np.mean(x*v) == pytest.approx(half, abs=5/np.sqrt(x.size))
    assert np.mean((v - half*x)**2) == pytest.approx(1, abs=5*np.sqrt(2/x.size))


def test_velocities_from_a_mass_penalty_run_are_those_of_the_true_masses():
    """Drawn anew each atom has kT/m, and no momentum; and so have those that the run shows."""
    waters = Waters(4)
    context = waters.context(MassPenaltyLangevinIntegrator(300, 5, 0.012), openmm.Platform.getPlatform("Reference"))
    run_itself = sample(context, 4, 400, observe=observe).observed
    masses = np.tile([15.99943, 1.007947, 1.007947], 4)
    # The system removes the motion of the centre of mass: each of 3N squares has a mean of (1 - m/M) kT/m.
    expected = KT/masses*(1 - masses/masses.sum())
    found = run(waters.system, run_itself["x"], stepSize=1e-6)["v"][:, 0]
    assert np.abs(masses @ found).max() < 1e-9
    ratio = np.mean(found**2, axis=2)/expected
    assert ratio.mean(axis=0) == pytest.approx(1, abs=5*np.sqrt(2/3/400))
    assert ratio.mean() == pytest.approx(1, abs=5*np.sqrt(2/3/4800))
    # Normal: the fourth moment is 3 squares of the second; its error for n values is sqrt(96/n).
    scaled = found/np.sqrt(expected)[:, None]
    assert np.mean(scaled**4) == pytest.approx(3, abs=5*np.sqrt(96/scaled.size))

    def along_bonds(x, v):
        bonds = relative(x)
        rates = np.sum(bonds*relative(v), axis=-1)
        return np.mean(rates**2/np.sum(bonds**2, axis=-1))/(KT*(1/masses[0] + 1/masses[1]))
    assert along_bonds(run_itself["x"], found) == pytest.approx(1, abs=5*np.sqrt(2/3200))
    assert along_bonds(run_itself["x"], run_itself["v"]) == pytest.approx(1, rel=0.2)


def test_constraints_hold():
    waters = Waters(4, rigid=True)
    found = run(waters.system, [np.float32(waters.positions)], samples=20, stepSize=0.001)
    bonds, rates = relative(found["x"]), relative(found["v"])
    assert np.linalg.norm(bonds, axis=-1) == pytest.approx(0.09572, rel=1e-5)
    # Half a step before the positions: v turns with the bond, by some 10/ps.
    assert np.abs(np.sum(bonds*rates, axis=-1))[0].max() < 0.02*np.abs(rates).max()*0.09572


def test_states_bring_box_and_parameters_and_baths_have_no_part():
    system = oscillators()
    pairs = force("NonbondedForce", "addParticle", 20*[(0, 1, 0)])
    pairs.setNonbondedMethod(pairs.CutoffPeriodic)
    for each in pairs, openmm.AndersenThermostat(300, 1000), openmm.MonteCarloBarostat(1, 300, 1):
        system.addForce(each)
    context = trials.bind(system, openmm.VerletIntegrator(STEP), "Reference", thermal(1)[0])
    context.setPeriodicBoxVectors((3, 0, 0), (0, 4, 0), (0, 0, 5))
    context.setParameter("scale", 0)
    found = run(system, [context.getState(positions=True, parameters=True)], samples=20)
    assert (found["box"] == np.diag([3, 4, 5])).all()
    assert found["v"][0] == pytest.approx(np.broadcast_to(found["v"][0, 0], (20, 20, 3)), abs=1e-12)   # free particles
    assert system.getNumForces() == 4


def test_two_processes_find_what_one_does():
    system, snapshots, steps = oscillators(), thermal(3), []
    alone = run(system, snapshots, 2, 10, seed=7, progress=steps.append)
    together = run(system, snapshots, 2, 10, seed=7, processes=2)
    assert steps == [18, 18, 18] and alone.keys() == together.keys()
    assert all((alone[name] == together[name]).all() for name in alone)
    other = run(system, snapshots, 2, 10, seed=70)
    assert np.abs(other["v"] - alone["v"]).min() > 0
    first, second, third = alone["v"][:, 0]
    assert np.abs(first - second).min() > 0 and np.abs(second - third).min() > 0


def test_what_cannot_be_sent_to_processes_or_recorded_is_named():
    with pytest.raises(TypeError, match="<lambda>.* Define functions in a module .*processes=1"):
        run(oscillators(), thermal(2), look=lambda state: {"t": 0}, processes=2)
    with pytest.raises(TypeError, match="sampleDynamics: observe.* returned None as 'x', which is neither"):
        run(oscillators(), thermal(2), look=lambda state: {"x": None})


def test_steps_that_are_too_large_and_forces_of_no_energy_are_errors():
    with pytest.raises(FloatingPointError, match="snapshot 0 .* step of 3 fs. Use a smaller step"):
        run(oscillators(), thermal(2), samples=100, stepSize=0.003)
    system = oscillators()
    system.addForce(openmm.PythonForce(lambda state: (0.0, -1e4*state.getPositions(asNumpy=True)._value)))
    with pytest.raises(FloatingPointError, match="no gradient of an energy"):
        run(system, thermal(1), samples=500)


@pytest.mark.parametrize("changes, message", [
    ({"snapshots": []}, "there are no snapshots"),
    ({"snapshots": [np.zeros((19, 3))]}, r"snapshot 0 must have .* of 20 particles, but are of shape \(19, 3\)"),
    ({"snapshots": [np.zeros((20, 3)), np.full((20, 3), np.nan)]}, r"snapshot 1: those of particle 0 are \[nan"),
    ({"interval": 0}, "interval must be at least 1"), ({"samples": 0}, "samples must be at least 1"),
    ({"processes": 0}, "processes must be at least 1"), ({"seed": 0}, "seed must be at least 1"),
    ({"stepSize": 0}, "stepSize must be a finite number that is positive"),
    ({"temperature": -1}, "temperature must be a finite number"), ({"temperature": 0}, "that is positive, but is 0")])
def test_bad_arguments_are_named(changes, message):
    arguments = {"system": oscillators(), "snapshots": thermal(1), "temperature": 300, "stepSize": STEP, "interval": 1,
                 "samples": 2, "observe": observe}
    with pytest.raises(ValueError, match=message):
        sampleDynamics(**{**arguments, **changes})


def test_state_without_positions_is_named():
    context = trials.bind(oscillators(), openmm.VerletIntegrator(STEP), "Reference", thermal(1)[0])
    with pytest.raises(ValueError, match="snapshot 0 is a State without positions"):
        run(oscillators(), [context.getState(velocities=True)])
    with pytest.raises(TypeError, match="snapshots must be a sequence of States, or of positions, not"):
        run(oscillators(), context.getState(positions=True))


@pytest.mark.parametrize("remover", [False, True])
@pytest.mark.parametrize("masses, constraints", [
    ([1, 2], []), ([1, 0, 2], [(0, 2)]), ([1, 0, 0, 2], [(1, 2)]), ([1, 2, 3, 4], [(0, 1), (1, 2), (0, 2)])])
def test_degrees_of_freedom_are_those_that_openmm_reports_temperatures_for(masses, constraints, remover):
    """Two kinetic energies to each kT."""
    system = system_of(masses, *[openmm.CMMotionRemover(1)]*remover, constraints=[(i, j, 1) for i, j in constraints])
    simulation, table = app.Simulation(app.Topology(), system, openmm.VerletIntegrator(STEP)), io.StringIO()
    simulation.context.setPositions(np.eye(4, 3)[:len(masses)])
    simulation.context.setVelocitiesToTemperature(300, 1)
    app.StateDataReporter(table, 1, kineticEnergy=True, temperature=True).report(
        simulation, simulation.context.getState(energy=True))
    kinetic, temperature = map(float, table.getvalue().splitlines()[1].split(","))
    assert 2*kinetic/(GAS_CONSTANT*temperature) == pytest.approx(countFreedom(system), rel=1e-9)


def test_redundant_constraints_do_not_count():
    """A rigid body has 6 degrees of freedom, however many hold it, and a pair 5."""
    def held(particles, *more):
        return list(itertools.combinations(range(particles), 2)) + list(more)
    for particles, constraints, expected in (8, held(8), 6), (6, held(6), 6), (2, held(2, (1, 0)), 5), (5, held(3), 12):
        assert countFreedom(system_of([1]*particles, constraints=[(*pair, 1) for pair in constraints])) == expected


def test_what_cannot_move_has_no_temperature():
    system = system_of([1], openmm.CMMotionRemover())
    context = trials.bind(system, openmm.VerletIntegrator(STEP), "Reference", [[0, 0, 0]])
    with pytest.raises(ValueError, match="the System has 0 degrees of freedom, and so no temperature"):
        sample(context, 1, 1)


# ---- Correlation functions and spectra ----

def test_correlation_function_of_an_autoregressive_series_with_its_error():
    """memory^t; deviations from it are of the size of the errors."""
    values, errors = correlationFunction(autoregressive((400, 200, 2, 3), 0.9), normalize=False)
    assert values[0] == pytest.approx(1, abs=5*errors[0])
    assert np.abs((values - 0.9**np.arange(200))/errors)[:100].max() < 4.5
    # A mean of 2400 x 200 squares of variance 2, with the correlation a^(2t).
    assert errors[0] == pytest.approx(np.sqrt(2*(1 + 0.81)/(1 - 0.81)/200/2400), rel=0.15)


def test_error_of_a_normalized_function_is_the_scatter_of_repetitions():
    series = autoregressive((2000, 50, 4), 0.9)
    values, errors = np.swapaxes([correlationFunction(part) for part in np.split(series, 100)], 0, 1)
    scatter = np.std(values, axis=0)
    assert np.sqrt(np.mean(errors**2, axis=0))[1:40] == pytest.approx(scatter[1:40], rel=0.3)
    assert (values[:, 0] == 1).all() and (errors[:, 0] == 0).all()


def test_spectrum_of_an_autoregressive_series():
    """2 h c (1 - a^2) / (1 - 2 a cos(2 pi nu h) + a^2), widened by little; its integral is the mean square."""
    series, interval = autoregressive((100, 2000, 3), 0.8), 0.004
    wavenumbers, spectrum, errors = powerSpectrum(series, interval, resolution=20)
    expected = 2*interval*WAVENUMBER*(1 - 0.64)/(1 - 1.6*np.cos(2*np.pi*wavenumbers*WAVENUMBER*interval) + 0.64)
    assert np.abs((spectrum - expected)/errors).max() < 5 and np.all(spectrum >= 0)
    assert np.trapezoid(spectrum, wavenumbers) == pytest.approx(np.mean(series**2), rel=1e-9)
    assert errors/spectrum == pytest.approx(np.full(len(errors), np.median(errors/spectrum)), rel=0.7)


def test_resolution_is_the_width_of_a_line():
    """Of a long cosine, at half its height."""
    times = 0.002*np.arange(50_000)
    wavenumbers, spectrum, errors = powerSpectrum([np.cos(2*np.pi*WAVENUMBER*1000*times)], 0.002, resolution=40)
    above = wavenumbers[spectrum > spectrum.max()/2]
    assert above[-1] - above[0] == pytest.approx(40, abs=1) and above.mean() == pytest.approx(1000, abs=0.2)
    assert np.isnan(errors).all()


@pytest.mark.parametrize("series, message", [
    (np.ones(5), r"shape \(snapshots, samples, ...\).*of a single run pass \[series\]"),
    (np.ones((3, 1)), "at least 2"), (np.ones((0, 5)), "at least 2 samples"), (np.full((2, 5), np.nan), "finite"),
    (np.full((2, 5), 1j), "real")])
def test_bad_series_are_named(series, message):
    with pytest.raises(ValueError, match=message):
        correlationFunction(series)
    with pytest.raises(ValueError, match=message):
        powerSpectrum(series, 0.001)


def test_a_series_of_zeros_has_no_normalized_function():
    with pytest.raises(ValueError, match="cannot be normalized"):
        correlationFunction(np.zeros((2, 5)))
    assert (correlationFunction(np.zeros((2, 5)), normalize=False)[0] == 0).all()
