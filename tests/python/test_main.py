"""`python -m openmmstiff`: what it says of an installation that works, and of one that does not."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import openmm
import openmmstiff
import pytest
from conftest import PLATFORMS, water_box
from openmm import app, unit
from openmmstiff import StiffIntegrator, __main__ as command, _benchmark, _installation
from systems import bonds, system_of

ALL_PLATFORMS = [openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())]


class Output:
    """What the command printed: its rows by (platform, precision), and the rest as one line."""

    def __init__(self, text):
        table = text[text.index("Platform"):].split("\n\n")[0].splitlines()[1:]
        # Columns are two spaces apart. OpenMM writes a WARNING between the lines if an OpenCL is unknown to it.
        rows = [re.split(" {2,}", line.strip()) for line in table if line.strip() and "WARNING" not in line]
        self.rows = {(row[0], row[1]): row[2:] for row in rows}
        self.text = " ".join(text.split())


def run_command(*arguments, **environment):
    """The completed process, which must succeed. Drivers may have to compile first."""
    result = subprocess.run([sys.executable, "-m", "openmmstiff", *arguments], capture_output=True, text=True,
                            timeout=600, env={**os.environ, **environment})
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def check(**environment):
    result = run_command(**environment)
    assert "Every platform that is there has kernels, runs and agrees." in result.stdout
    return Output(result.stdout)


@pytest.fixture(scope="module")
def output():
    return check()


@pytest.fixture
def failing(capsys):
    """Checks in this process, which fail; a test breaks something before."""
    def check_here():
        assert command.main([]) == 1
        output = Output(capsys.readouterr().out)
        assert "Not everything works: see the hints." in output.text
        return output
    return check_here


def test_every_platform_agrees_with_reference(output):
    """And versions are told."""
    assert f"OpenMM-Stiff {openmmstiff.__version__}, built for OpenMM {openmmstiff._OPENMM_SERIES}" in output.text
    assert f"OpenMM {openmm.__version__} Python {sys.version.split()[0]}" in output.text
    assert [name for name, _ in output.rows] == sorted((name for name, _ in output.rows), key=ALL_PLATFORMS.index)
    assert {name for name, _ in output.rows} == set(ALL_PLATFORMS) >= set(PLATFORMS)
    for (name, _), (kernels, result, *difference) in output.rows.items():
        assert kernels == StiffIntegrator.describeKernels(name) != ""
        # A device without double precision runs in single.
        assert result in (["runs"] if name == "Reference" else ["agrees", "unsupported"])
        assert len(difference) == (2 if result == "agrees" else 0)
    assert output.rows["CPU", "-"][1] == "agrees"
    for name in ALL_PLATFORMS:
        choice = "Precision" in openmm.Platform.getPlatform(name).getPropertyNames()
        found = [precision for of_platform, precision in output.rows if of_platform == name]
        assert found == (["single", "mixed", "double"] if choice else ["-"])


def test_check_is_what_is_done_without_a_command(output):
    assert Output(run_command("check").stdout).rows.keys() == output.rows.keys()


def test_another_plugin_folder_is_told(tmp_path):
    output = check(OPENMM_PLUGIN_DIR=str(tmp_path))
    assert [name for name, _ in output.rows] == ["Reference"]
    assert f"OPENMM_PLUGIN_DIR is set to '{tmp_path}'" in output.text
    assert "OpenMM's CPU platform is not there" in output.text
    assert "CUDA and HIP packages of their own: openmm-stiff[cuda12]" in output.text


def test_broken_library_is_told(tmp_path):
    (tmp_path / "libOpenMMStiffBroken.so").write_text("not a library")
    assert "libOpenMMStiffBroken.so: not loaded" in check(OPENMM_PLUGIN_DIR=str(tmp_path)).text


NO_FILE = ": cannot open shared object file: No such file or directory"


def test_libraries_that_lack_the_same_give_one_hint():
    """Those that lack a library which itself has not been loaded, too."""
    opencl, cuda = _installation._explain_failures([f"Error loading library /plugins/{name}.so: {missing}{NO_FILE}"
                                              for name, missing in [("libOpenMMCUDA", "libcuda.so.1"),
                                                                    ("libOpenMMOpenCL", "libOpenCL.so.1"),
                                                                    ("libOpenMMAmoebaOpenCL", "libOpenMMOpenCL.so"),
                                                                    ("libOpenMMStiffOpenCL", "libOpenMMOpenCL.so")]])
    assert opencl.startswith("libOpenMMStiffOpenCL.so, libOpenMMOpenCL.so, libOpenMMAmoebaOpenCL.so: not loaded, as "
                             "libOpenCL.so.1 is missing. OpenMM's OpenCL platform needs a driver")
    assert cuda == ("libOpenMMCUDA.so: not loaded, as libcuda.so.1 is missing. OpenMM's CUDA platform needs NVIDIA's "
                    "driver.")


@pytest.mark.parametrize("cause, expected", [
    (f"libcuda.so.1{NO_FILE}",
     "not loaded, as libcuda.so.1 is missing. OpenMM's CUDA platform needs NVIDIA's driver."),
    (f"libcufft.so.11{NO_FILE}",
     "not loaded, as libcufft.so.11 is missing. OpenMM's CUDA platform needs these libraries of CUDA; "
     "openmm-stiff[cuda12] or [cuda13] brings them."),
    ("/p/libOpenMMCUDA.so: undefined symbol: cuNew", "not loaded: undefined symbol: cuNew.")])
def test_ours_is_not_blamed_for_what_openmms_own_library_lacks(cause, expected):
    """Linked with that, ours fails as well, and the loader gives the same cause."""
    hint, = _installation._explain_failures([f"Error loading library /p/{name}.so: {cause}"
                                       for name in ("libOpenMMStiffCUDA", "libOpenMMCUDA")])
    assert hint == f"libOpenMMStiffCUDA.so, libOpenMMCUDA.so: {expected}"


@pytest.mark.parametrize("failure, expected", [
    ("Error loading library /p/libOpenMMStiffCPU.so: /p/libOpenMMStiffCPU.so: undefined symbol: a: b",
     "libOpenMMStiffCPU.so: not loaded: undefined symbol: a: b. Install openmm-stiff again"),
    ("Error loading library /p/libOpenMMStiffHIP.so: libOpenMMHIP.so: cannot open shared object file",
     "as libOpenMMHIP.so is missing. openmm-stiff[hip6], for ROCm 6 alone, brings it."),
    ("Error loading library /p/a.so: a.so: cannot open shared object file", "a.so: not loaded, as a.so is missing."),
    ("something else", "something else")])
def test_other_failures_are_shown(failure, expected):
    hint, = _installation._explain_failures([failure])
    assert expected in hint


def test_package_with_a_devices_own_kernels_is_named():
    hint, = _installation._explain_detours({"CPU": "threads", "CUDA": "through the host's memory: threads, AVX2",
                                            "HIP": "on the device; large molecules ..."})
    assert hint == ("CUDA: all steps go through the host's memory, as libOpenMMStiffCUDA is not there. "
                    "openmm-stiff[cuda12] or [cuda13] brings it.")


@pytest.mark.parametrize("library, wrong", [
    ("libOpenMMCUDA.so", True), ("libOpenMMHIP.so", True), ("libOpenMMStiffCPU.so", True),
    ("libOpenMMOpenCL.so", False), ("libOpenMMStiffOpenCL.so", False), ("libOpenMMStiffBroken.so", False)])
def test_libraries_that_were_meant_to_be_used_must_load(monkeypatch, capsys, library, wrong):
    """OpenMM's for CUDA and HIP, and ours for a platform that is there: without it another's kernels take its place."""
    monkeypatch.setattr(openmm.Platform, "getPluginLoadFailures",
                        staticmethod(lambda: [f"Error loading library /p/{library}: undefined symbol: a"]))
    assert command.main([]) == wrong
    output = capsys.readouterr().out
    assert f"{library}: not loaded: undefined symbol: a." in output and "is not there. openmm-stiff" not in output
    assert ("Not everything works" in output) == wrong


def test_platform_without_kernels_is_a_failure(failing, monkeypatch):
    monkeypatch.setattr(StiffIntegrator, "describeKernels",
                        staticmethod(lambda name: "" if name == "CPU" else "serial"))
    output = failing()
    assert output.rows["CPU", "-"] == ["none", "no kernels"]
    assert "CPU: it has no kernels." in output.text


def test_difference_beyond_the_bound_is_a_failure(failing, monkeypatch):
    monkeypatch.setattr(_installation, "BOUNDS", dict.fromkeys(_installation.BOUNDS, 1e-15))
    output = failing()
    assert output.rows["CPU", "-"][1] == "differs"
    assert "nm from those on Reference; rounding explains 1e-15 nm at most" in output.text


def test_wrong_charges_are_beyond_all_bounds(failing, monkeypatch):
    """Those of the oxygens are wrong by a thousandth on one platform; single precision moves atoms less."""
    def wrong_context(system, integrator, platform, properties, context=openmm.Context):
        if platform.getName() == "CPU":
            nonbonded = system.getForce(2)
            for i in range(0, system.getNumParticles(), 3):
                charge, sigma, epsilon = nonbonded.getParticleParameters(i)
                nonbonded.setParticleParameters(i, 1.001*charge, sigma, epsilon)
        return context(system, integrator, platform, properties)
    monkeypatch.setattr(openmm, "Context", wrong_context)
    assert float(failing().rows["CPU", "-"][2]) > max(_installation.BOUNDS.values())


def test_positions_that_are_no_numbers_do_not_agree():
    """Whatever the other integrators give."""
    reference = {}
    _installation._check(openmm.Platform.getPlatform("Reference"), "", reference, {})
    reference["ImpulseIntegrator"][0] = np.nan
    result, difference, _ = _installation._check(openmm.Platform.getPlatform("CPU"), "", reference, {})
    assert (result, difference) == ("differs", "nan  ImpulseIntegrator")


@pytest.mark.parametrize("broken", PLATFORMS)
def test_context_that_cannot_be_made_is_a_failure(failing, monkeypatch, broken):
    def no_context(system, integrator, platform, properties, context=openmm.Context):
        if platform.getName() == broken:
            raise openmm.OpenMMException("No compatible device is available")
        return context(system, integrator, platform, properties)
    monkeypatch.setattr(openmm, "Context", no_context)
    output = failing()
    assert output.rows[broken, "-"][1] == "fails"
    assert f"{broken}: with ZhangSkeelIntegrator: No compatible device is available" in output.text
    if broken == "Reference":
        assert output.rows["CPU", "-"][1] == "not compared"
        assert "as Reference fails." in output.text


@pytest.mark.parametrize("lacking, exit_code", [(["mixed", "double"], 0), (["single", "mixed", "double"], 1)])
def test_device_without_double_precision_is_none_without_any(monkeypatch, capsys, lacking, exit_code):
    """The CPU platform plays a GPU."""
    def context_of_device(system, integrator, platform, properties, context=openmm.Context):
        if properties.get("Precision") in lacking:
            raise openmm.OpenMMException("This device does not support double precision")
        return context(system, integrator, platform)
    monkeypatch.setattr(openmm, "Context", context_of_device)
    monkeypatch.setattr(_installation, "_precisions",
                        lambda platform: list(_installation.BOUNDS) if platform.getName() == "CPU" else [""])
    assert command.main([]) == exit_code
    output = Output(capsys.readouterr().out)
    for precision in _installation.BOUNDS:
        assert output.rows["CPU", precision][1] == ("unsupported" if precision in lacking else "agrees")
    assert "CPU, double precision: with ZhangSkeelIntegrator: This device does not support double precision" \
        in output.text
    assert ("CPU: it runs in no precision." in output.text) == (exit_code == 1)


@pytest.fixture
def benchmark(monkeypatch, capsys, tmp_path):
    """Runs the benchmark in this process, with few molecules and a short helix; the file has all that is printed.

    Returns the exit code, what the check says, the tables (lists of rows of cells), and the verdicts.
    """
    monkeypatch.setattr(_benchmark, "MOLECULES", 400)
    monkeypatch.setattr(_benchmark, "HELICES", ((3, 2),))

    def run(*platforms, pdb=()):
        file = tmp_path/"report.md"
        code = command.main(["benchmark", "--seconds", "0.01", "--output", str(file), "--platforms", *platforms, *pdb])
        printed = capsys.readouterr().out
        assert printed == f"{file.read_text()}\nThe file for an issue: {file}\n"
        check, _, rest = printed.partition("```\n\n")
        tables = [[re.split(r" \| ", line.strip("| ")) for line in part.splitlines()]
                  for part in re.findall(r"(?:^\|.*\|\n)+", rest, re.MULTILINE)]
        return code, check, tables, re.findall("^- (.*)", rest, re.MULTILINE)
    yield run
    _benchmark._molecules.cache_clear()


@pytest.mark.thorough
def test_benchmark_prints_tables_in_markdown(benchmark, tmp_path):
    """Of a file that is given, too, on a processor alone."""
    topology, positions, _ = water_box()
    app.PDBFile.writeFile(topology, positions, str(tmp_path/"mine.pdb"))
    code, check, tables, verdicts = benchmark("CPU", pdb=("--pdb", str(tmp_path/"mine.pdb")))
    assert code == 0 and verdicts[0].startswith("CPU: right")
    assert check.startswith("```text\nOpenMM-Stiff") and "runs and agrees." in check
    agreement, conduct, *speeds, kernels = tables
    for table in tables:
        assert len({len(row) for row in table}) == 1 and set(table[1]) == {"---"}
        assert len(table) == 2 + (3 if table is agreement else 1)
    boxes = "895 waters", r"helix in water, \d+ atoms", "100 chains of 12 atoms"
    for (name, device, where, forces, positions, agrees), box in zip(agreement[2:], boxes, strict=True):
        assert (name, agrees) == ("CPU", "yes") and "thread" in device and re.fullmatch(box, where)
        assert float(forces) < _benchmark.FORCE_TOLERANCE and 0 < float(positions) < _benchmark.POSITION_TOLERANCE
    assert min(float(row[3]) for row in agreement[2:4]) > 0
    timed = [row[2] for row in agreement[2:4]] + [f"mine, {topology.getNumAtoms()} atoms"]
    for where, speed in zip(timed, speeds, strict=True):
        assert speed[2][:2] == ["CPU", where]
        *theirs, ours, ratio = map(float, speed[2][2:-1])
        assert len(theirs) == 2 and min(*theirs, ours) > 0 and ratio == pytest.approx(ours/max(theirs), rel=0.01)
        assert len(speed[2][-1].split(", ")) == 3
    assert conduct[2][0] == "CPU" and conduct[2][3:] == ["yes", "yes", "yes"]
    assert kernels[2][0] == "CPU" and min(map(float, kernels[2][1:])) > 0


@pytest.mark.parametrize("taken, slower", [(1.1, True), (0.9, False)])
def test_benchmark_compares_with_the_faster_of_two(monkeypatch, taken, slower):
    """OpenMM's steps of 4 and 5 fs take the same time: ours takes more than 12/5 of that, or less."""
    gas = system_of([12, 12], bonds((0, 1, 0.12, 4e5)))
    monkeypatch.setattr(_benchmark, "_time_steps", lambda contexts, seconds: [1, 1, 12/5*taken])
    found = []
    _benchmark._measure_speeds("CPU", 0, found, lambda size: ("gas", [[0, 0, 0], [0.12, 0, 0]], gas, gas, gas),
                               [1], (0.004, 0.005))
    assert found == ["slower than LangevinMiddle with constraints in gas"]*slower


@pytest.mark.thorough
def test_benchmark_tells_what_differs_and_what_fails(benchmark, monkeypatch):
    """And goes on with the next platform."""
    monkeypatch.setattr(_benchmark, "FORCE_TOLERANCE", 1e-12)
    monkeypatch.setattr(_installation, "BOUNDS", dict.fromkeys(_installation.BOUNDS, 1e-15))
    code, _, tables, verdicts = benchmark("CPU:double", "CPU")     # which has no precision
    assert code == 1 and tables[0][3][-1] == "NO"
    for table in tables:
        assert table[2][0] == "CPU:double" and re.match("fails: .*Precision", table[2][1]) and table[3][0] == "CPU"
    assert verdicts[0] == "CPU:double: wrong: positions, conduct, water, protein, steps"
    assert verdicts[1].startswith("CPU: wrong: check, positions")


@pytest.mark.thorough
@pytest.mark.parametrize("temperature, kurtosis", [(1.2, 1), (1, 1.2)])
def test_benchmark_tells_velocities_of_another_distribution(benchmark, monkeypatch, temperature, kurtosis):
    """Of another temperature, or not normal: two temperatures of the same mean."""
    get = openmm.Context.getState

    def changed(context, *arguments, **named):
        state = get(context, *arguments, **named)
        if not named.get("velocities"):
            return state
        velocities = state.getVelocities(asNumpy=True)._value.copy()
        split = np.sqrt(kurtosis - 1)   # the relative variance of two temperatures; 3 (1 + split^2) is the kurtosis
        velocities[::2] *= np.sqrt(temperature*(1 + split))
        velocities[1::2] *= np.sqrt(temperature*(1 - split))
        return SimpleNamespace(getVelocities=lambda asNumpy: velocities*unit.nanometer/unit.picosecond,
                               getPositions=state.getPositions)

    monkeypatch.setattr(openmm.Context, "getState", changed)
    code, _, tables, verdicts = benchmark("CPU")
    assert code == 1 and tables[1][2][-1] == "NO" and "conduct" in verdicts[0]


@pytest.mark.thorough
def test_benchmark_tells_what_fails_without_an_error(benchmark, monkeypatch):
    """Steps that take no notice of wrong forces, and a checkpoint that is not loaded."""
    set_parameter = openmm.Context.setParameter
    monkeypatch.setattr(openmm.Context, "setParameter", lambda context, name, value: set_parameter(context, name, 1))
    monkeypatch.setattr(openmm.Context, "loadCheckpoint", lambda context, checkpoint: None)
    code, _, tables, _ = benchmark("CPU")
    assert code == 1 and tables[1][2][3:] == ["NO", "NO", "NO"]


def test_benchmark_takes_single_precision_on_a_device_without_another(monkeypatch):
    platform = openmm.Platform.getPlatform("CPU")
    assert _benchmark.find_platforms()[0] == "CPU" and _benchmark._mixed_or_single(platform) == ":mixed"
    monkeypatch.setattr(openmm, "Context", Mock(side_effect=openmm.OpenMMException(_installation.UNSUPPORTED)))
    assert _benchmark._mixed_or_single(platform) == ":single"


def test_benchmark_wants_a_file_that_can_be_written(capsys, tmp_path):
    with pytest.raises(SystemExit):
        command.main(["benchmark", "--output", str(tmp_path/"no folder"/"report.md")])
    assert "argument --output: " in capsys.readouterr().err


def test_benchmark_wants_platforms_that_are_there(capsys):
    with pytest.raises(SystemExit):
        command.main(["benchmark", "--platforms", "CPU", "Quantum:mixed"])
    assert "argument --platforms: a name must be one of 'Reference', " in capsys.readouterr().err


def test_benchmark_boxes_are_those_of_openmm_side_by_side():
    name, positions, flexible, rigid, _ = _benchmark._water_box(2)
    assert name == "7160 waters" and (rigid.getNumConstraints(), flexible.getNumConstraints()) == (3*7160, 0)
    assert np.allclose(np.diag([vector._value for vector in rigid.getDefaultPeriodicBoxVectors()]), 6)
    boxes = positions.reshape(8, 895*3, 3)
    assert np.allclose(boxes[7] - boxes[0], 3)


@pytest.mark.thorough
def test_benchmark_amoeba_is_polarized_mutually():
    name, positions, system, _ = _benchmark._amoeba_box(1)
    multipoles, = (force for force in system.getForces() if isinstance(force, openmm.AmoebaMultipoleForce))
    assert name == "895 waters" and len(positions) == system.getNumParticles() == multipoles.getNumMultipoles()
    assert multipoles.getPolarizationType() == multipoles.Mutual and system.getNumConstraints() == 0


def test_benchmark_helix_is_one_of_l_amino_acids():
    """With the torsions of an alpha helix, each oxygen 0.3 nm from the nitrogen that is four residues on, and C-beta
    where an L-amino acid has it."""
    topology, positions = _benchmark._helix(8)
    atoms = [{atom.name: positions[atom.index]._value for atom in residue.atoms()} for residue in topology.residues()]
    for residue, fourth in zip(atoms, atoms[4:]):
        assert np.linalg.norm(fourth["N"] - residue["O"]) == pytest.approx(0.3, abs=0.02)
    for residue in atoms:
        n, c, beta = (residue[name] - residue["CA"] for name in ("N", "C", "CB"))
        assert np.cross(n, c) @ beta > 0.002


def test_an_interrupted_command_says_so(monkeypatch, capsys):
    monkeypatch.setattr(command, "check_installation", Mock(side_effect=KeyboardInterrupt))
    assert command.main([]) == 130
    assert capsys.readouterr().err.strip() == "Interrupted"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nobody_reads_on(unbuffered):
    """As behind `| head -1`: what is printed at once, or at the end, is not missed."""
    with subprocess.Popen([sys.executable, "-m", "openmmstiff", "prefix"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}) as run:
        run.stdout.close()
        assert (run.stderr.read(), run.wait()) == ("", 1)


def test_openmms_minimizer_is_tried_in_a_process_of_its_own():
    assert _installation._minimizes("CPU") and not _installation._minimizes("Quantum")


def test_help_names_the_command():
    printed = run_command("--help").stdout
    assert printed.startswith("usage: python -m openmmstiff")
    assert re.search("^ +check +check the installation", printed, re.MULTILINE)
