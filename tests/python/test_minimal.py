"""The scripts of ten lines in examples/minimal, and find_package(OpenMMStiff) by the C++ program there."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import openmm
import openmmstiff
import pytest
from conftest import run_script
from openmmstiff import __main__ as command

SOURCE = Path(__file__).parents[2]
FOLDER = SOURCE/"examples"/"minimal"
CMAKE = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_compiler = pytest.mark.skipif(CMAKE is None or shutil.which("g++") is None, reason="no cmake or no g++")


def numbers(line):
    return [float(text) for text in re.findall(r"(?<![\^\w])-?\d+\.?\d*(?:e[-+]\d+)?", line)]


def near_the_bath(lines, column=1):
    """The last row has a temperature within 60 K of the bath's: that of villin has a standard deviation of 11 K."""
    assert abs(numbers(lines[-1])[column] - 300) < 60


def pressure(lines):
    """The barostat has 20 attempts, about half of which succeed."""
    near_the_bath(lines, 0)
    volumes, densities = zip(*(numbers(line)[1:] for line in lines[1:]))
    assert len(set(volumes)) > 1 and 0.9 < min(densities) <= max(densities) < 1.1


def constant_energy(lines):
    """Potential and kinetic energy are exchanged; the sum stays."""
    _, potential, total = zip(*map(numbers, lines[1:]))
    assert max(total) - min(total) < 0.1*(max(potential) - min(potential))


def which_step(lines):
    """The answer first, then a row for each integrator."""
    assert lines[0].startswith("Use MassPenaltyLangevinIntegrator with a step of")
    rows = re.findall(r"^(\w+LangevinIntegrator|LangevinMiddleIntegrator) +([\d.]+) ", "\n".join(lines), re.MULTILINE)
    steps = {name: float(step) for name, step in rows}
    assert steps["LangevinMiddleIntegrator"] < 3 < steps["MassPenaltyLangevinIntegrator"]


def other_potentials(lines):
    assert lines == ["2685 pairs with an inertia in 895 blocks: 2685 of 'addPair()'."]


def penalty_springs(lines):
    """No distance, 0.15139 nm at most, is ever off by 2 %; squares by twice as much."""
    assert len(lines) == 3
    for _, _, violation in map(numbers, lines):
        assert 0 < violation < 2*0.02*0.15139**2


def redundant_constraints(lines):
    _, error = numbers(lines[0])
    assert error < 1e-5     # the constraint tolerance


def pulling(lines):
    """The spring's force, 1000 kJ/mol/nm^2 times 0.01 nm/ps, but for the way of half a step."""
    for time, force in map(numbers, lines):
        assert force == pytest.approx(10*time, abs=0.011)


def vibrated(lines):
    """x = 0.1 cos(t), up to the square of the step and the amplitude of the vibration, 0.1 sqrt(2)/frequency."""
    places = [numbers(line)[1] for line in lines]
    assert places == pytest.approx([0, -0.1, 0, 0.1], abs=1e-3)


CLAIMS = {"flexible_water": near_the_bath, "pressure": pressure, "heavy_hydrogens": near_the_bath,
          "projected_impulse": near_the_bath, "constant_energy": constant_energy, "which_step": which_step,
          "other_potentials": other_potentials, "penalty_springs": penalty_springs,
          "redundant_constraints": redundant_constraints, "pulling": pulling, "vibrated": vibrated}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_script_shows_what_it_says_and_is_short_and_listed(path, tmp_path):
    run = run_script("-W", "error", path, folder=tmp_path)
    assert run.stderr == ""
    CLAIMS[path.stem](run.stdout.splitlines())
    assert not list(tmp_path.iterdir())
    text = path.read_text()
    module = ast.parse(text)
    assert ast.get_docstring(module).count("\n") == 0
    code = [line for line in text.splitlines()[module.body[0].end_lineno:] if line.strip()]
    assert len(code) <= 15
    assert f"[{path.name}]({path.name})" in (FOLDER/"README.md").read_text()


def call(*command, leave_out=()):
    """(exit code, output, errors) of a program, without some variables of the environment."""
    environment = {name: value for name, value in os.environ.items() if name not in leave_out}
    run = subprocess.run(command, capture_output=True, text=True, timeout=300,
                         env={**environment, "OPENMM_CPU_THREADS": "1"})
    return run.returncode, run.stdout, run.stderr


def configure(folder, *options):
    """By CMake, without what the environment says of other packages."""
    return call(CMAKE, "-S", FOLDER/"cpp", "-B", folder, *options, leave_out=("OPENMM_PLUGIN_DIR", "CMAKE_PREFIX_PATH"))


def build_and_run(folder, *options):
    for status, _, errors in configure(folder, *options), call(CMAKE, "--build", folder):
        assert status == 0, errors
    status, printed, errors = call(folder/"flexible_water")
    assert status == 0, errors
    platform, *rows = printed.splitlines()
    assert platform.endswith(" platform") and len(rows) == 10
    # 648 atoms: the mean of ten temperatures scatters by 4 K, more where they are correlated.
    assert sum(numbers(row)[1] for row in rows)/10 == pytest.approx(300, abs=30)


@pytest.fixture
def prefix(capsys):
    """What `python -m openmmstiff prefix` prints."""
    assert command.main(["prefix"]) == 0
    return capsys.readouterr().out.strip()


def test_prefix_is_that_of_openmm(prefix):
    assert Path(prefix)/"lib" == Path(openmm.version.openmm_library_path)


@needs_compiler
def test_cpp_program_is_built_with_the_installed_package(prefix, tmp_path):
    build_and_run(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")


@pytest.fixture
def elsewhere(tmp_path):
    """The folder of what `cmake --install --prefix` writes, without OpenMM; the build tree is that of `make test`."""
    if not (SOURCE/"build"/"cmake_install.cmake").exists():
        pytest.skip("there is no build tree")
    subprocess.run([CMAKE, "--install", SOURCE/"build", "--prefix", tmp_path/"installed", "--component", "base"],
                   check=True, capture_output=True)
    config, = (tmp_path/"installed").rglob("OpenMMStiffConfig.cmake")
    return config.parents[3]


@needs_compiler
@pytest.mark.parametrize("option", ["OPENMM_DIR={openmm}", "CMAKE_PREFIX_PATH={prefix};{openmm}"])
def test_cpp_program_is_built_with_a_package_in_another_folder(option, elsewhere, prefix, tmp_path):
    """It is found there, without a path of the machine that built it, and OpenMM where the user says that it is."""
    for path in (elsewhere/"lib"/"cmake").rglob("*.cmake"):
        assert str(SOURCE) not in path.read_text() and prefix not in path.read_text()
    build_and_run(tmp_path/"program", f"-DCMAKE_PREFIX_PATH={elsewhere}",
                  "-D" + option.format(openmm=prefix, prefix=elsewhere))


@needs_compiler
def test_missing_openmm_is_told(elsewhere, tmp_path):
    status, _, errors = configure(tmp_path/"program", f"-DCMAKE_PREFIX_PATH={elsewhere}")
    assert status == 1
    assert (f"OpenMM-Stiff {openmmstiff.__version__} was built for OpenMM {openmmstiff._OPENMM_SERIES}, which is not "
            "found. Set OPENMM_DIR") in " ".join(errors.split())


@needs_compiler
def test_another_series_of_openmm_is_told(prefix, tmp_path):
    """A library that says that it is OpenMM 8.5."""
    for folder in ("include/openmm", "lib/plugins"):
        (tmp_path/folder).mkdir(parents=True)
    (tmp_path/"include"/"OpenMM.h").touch()
    header, source = tmp_path/"include"/"openmm"/"Platform.h", tmp_path/"openmm.cpp"
    header.write_text("#include <string>\n"
                      "namespace OpenMM { struct Platform { static std::string getOpenMMVersion(); }; }")
    source.write_text('#include "openmm/Platform.h"\n'
                      'std::string OpenMM::Platform::getOpenMMVersion() { return "8.5.1"; }')
    for name in ("lib/libOpenMM.so", "lib/plugins/libOpenMMCPU.so"):
        subprocess.run(["g++", "-shared", "-fPIC", f"-I{tmp_path/'include'}", source, "-o", tmp_path/name], check=True)
    status, _, errors = configure(tmp_path/"program", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DOPENMM_DIR={tmp_path}")
    assert status == 1
    assert f"but that in {tmp_path} is 8.5.1. Set OPENMM_DIR" in " ".join(errors.split())


@needs_compiler
def test_a_project_without_cpp_is_told(prefix, tmp_path):
    """And goes on, where it is not required."""
    (tmp_path/"CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(Other LANGUAGES C)\n"
                                           "find_package(OpenMMStiff)")
    status, _, errors = call(CMAKE, "-S", tmp_path, "-B", tmp_path/"build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert status == 0 and "add CXX to the LANGUAGES of project()" in " ".join(errors.split())
