"""The kernels for devices compile where there is no device: NVRTC makes what OpenMM's CUDA platform loads."""

import itertools
import multiprocessing
import os
import re
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import nvrtc
import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITER = ROOT/"build"/"tests"/"WriteKernels"
MOLECULES = ["Water", "FourSiteWater", "Methanol", "MixedChain", "ConstrainedChain", "Alkanes", "AnchoredWater"]
INTEGRATORS = ["MassPenalty", "MassPenaltyLangevin"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """What WriteKernels writes, by the name of the file."""
    if not WRITER.exists():
        pytest.skip("the C++ tests are not built; `make test` builds them")
    folder = tmp_path_factory.mktemp("kernels")
    subprocess.run([WRITER, folder], check=True, timeout=60)
    return {path.stem: path.read_text() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def architectures():
    try:
        return nvrtc.get_architectures()
    except nvrtc.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def processes(architectures):
    """NVRTC compiles one program at a time in a process."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        yield pool


def choose_targets(name, architectures):
    """Pairs of a precision and an architecture: all for water; some for others, and for water with options of an
    integrator, as architectures differ little."""
    if name.endswith("-Water") and "_" not in name:
        return list(itertools.product(nvrtc.PRECISIONS, architectures))
    return [("single", architectures[0]), ("mixed", architectures[-1]), ("double", architectures[0])]


@pytest.mark.parametrize("molecule", MOLECULES)
def test_they_compile(molecule, texts, architectures, processes):
    own = {name: text for name, text in texts.items() if name.split("-")[1] == molecule}
    assert {re.match("(.*)Integrator", name).group(1) for name in own} == set(INTEGRATORS)
    if molecule == "FourSiteWater":     # the fourth site takes part in nothing
        for name, text in own.items():
            assert text == texts[name.replace(molecule, "Water")]
        return
    jobs = {(name, *target): processes.submit(nvrtc.find_faults, text, *target)
            for name, text in own.items() for target in choose_targets(name, architectures)}
    faults = {job: future.result() for job, future in jobs.items()}
    assert not any(faults.values()), {job: found for job, found in faults.items() if found}


@pytest.mark.parametrize("precision", nvrtc.PRECISIONS)
def test_a_step_of_teams_fits_where_instructions_are_kept(precision, texts, architectures):
    """Of all that is in it once: 240 kB if functions are inlined and loops unrolled."""
    text = texts["MassPenaltyLangevinIntegrator_MetricCorrection-Methanol"]
    assert "TEAM_SIZE" in text
    result = nvrtc.compile_text(text, precision, f"sm_{architectures[-1]}")
    assert result.compiled and 20_000 < result.size < 128*1024


MISTAKES = {
    "an error": (" = sqrt(", " = root(", 'identifier "root" is undefined'),
    "a value that is not there": ("const mixed4 p0 = ", "mixed4 p0; mixed4 other = ", "used before its value is set"),
    "a kernel left out": ("#define SAME", "#if 0\nKERNEL void lost();\n#endif\n#define SAME", "lost is missing"),
    "double precision": ("(x##f)", "(x)", "It computes in double precision"),
}


@pytest.mark.parametrize("mistake, precision", [
    (mistake, precision) for mistake in MISTAKES for precision in nvrtc.PRECISIONS
    if mistake != "double precision" or precision == "single"])
def test_mistakes_are_found(mistake, precision, texts, architectures):
    text = texts["MassPenaltyLangevinIntegrator-Water"]
    right, wrong, words = MISTAKES[mistake]
    assert right in text
    faults = nvrtc.find_faults(text.replace(right, wrong), precision, architectures[-1])
    assert len(faults) == 1 and words in faults[0], faults
