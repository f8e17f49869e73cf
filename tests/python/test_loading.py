"""How the plugin's libraries come into a process, and what keeps them out of a wrong one."""

import importlib.metadata
import platform
from pathlib import Path

import openmm
import openmmstiff
import pytest
from conftest import PLATFORMS, run_python

XML = openmm.XmlSerializer.serialize(openmmstiff.ZhangSkeelLangevinIntegrator(300, 1, 0.002))
# A Context of one particle, with an integrator from XML, and a step.
CONTEXT = f"""
integrator = openmm.XmlSerializer.deserialize({XML!r})
system = openmm.System()
system.addParticle(1)
context = openmm.Context(system, integrator, %s)
"""
STEP = CONTEXT % "openmm.Platform.getPlatform('{platform}')" + """
context.setPositions([openmm.Vec3(0, 0, 0)])
integrator.step(1)
assert context.getStepCount() == 1
"""


def succeeds(code, **environment):
    result = run_python(code, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_version_and_series_of_openmm_are_those_of_the_package():
    assert openmmstiff.__version__ == importlib.metadata.version("openmm-stiff")
    series = ".".join(openmm.__version__.split(".")[:2])
    assert f"openmm=={series}.*" in importlib.metadata.requires("openmm-stiff")


def test_kernels_for_the_processor_are_loaded_unless_the_baseline_is_asked_for():
    """The library with them is missing, or in the wrong place, if it cannot be loaded in a process of its own."""
    if platform.machine() != "x86_64":
        pytest.skip("there is only the baseline")
    flags = Path("/proc/cpuinfo").read_text().split()
    for choice, expected in ("", "avx2" in flags and "fma" in flags), ("baseline", False):
        succeeds(f"""
import openmm
assert ("libOpenMMStiffHost_avx2.so" in open("/proc/self/maps").read()) == {expected}
""", OPENMM_STIFF_SIMD=choice)


def test_openmm_loads_the_platform_libraries():
    """Without an OpenCL, neither OpenMM's library for that nor ours can be loaded, which is no defect."""
    succeeds("""
import openmm
names = " ".join(openmm.pluginLoadedLibNames)
assert all(f"libOpenMMStiff{name}.so" in names for name in ("Reference", "CPU", "Generic")), names
failures = [failure for failure in openmm.Platform.getPluginLoadFailures()
            if "Stiff" in failure and "libOpenCL.so.1: cannot open" not in failure]
assert not failures, failures
""")


@pytest.mark.parametrize("name", PLATFORMS)
def test_importing_openmm_alone_is_enough_to_run_from_xml(name):
    """A program that is handed XML need not know of this package."""
    succeeds("import sys, openmm" + STEP.format(platform=name) + "assert 'openmmstiff' not in sys.modules")


def test_package_loads_what_openmm_did_not(tmp_path):
    """OPENMM_PLUGIN_DIR makes `import openmm` look elsewhere; it then has the Reference platform only."""
    assert succeeds("import openmm; print(openmm.Platform.getPlatform('Reference').supportsKernels("
                    "['IntegrateZhangSkeelStep']))", OPENMM_PLUGIN_DIR=str(tmp_path)) == "False\n"
    succeeds("import openmm, openmmstiff; assert openmm.Platform.getNumPlatforms() == 1"
             + STEP.format(platform="Reference"), OPENMM_PLUGIN_DIR=str(tmp_path))


@pytest.mark.parametrize("choice", ["", "openmm.Platform.getPlatform('CPU')"])
def test_platform_whose_kernels_are_missing_is_refused(tmp_path, choice):
    """With the reason, and also where OpenMM would choose the platform itself, and would have passed it over."""
    plugins = Path(openmm.version.openmm_library_path, "plugins")
    for name in ("libOpenMMCPU.so", "libOpenMMStiffReference.so"):
        (tmp_path / name).symlink_to(plugins / name)
    result = run_python("import openmm" + CONTEXT % choice, OPENMM_PLUGIN_DIR=str(tmp_path),
                        LD_LIBRARY_PATH=openmm.version.openmm_library_path)
    assert result.returncode == 1
    for words in ("platform CPU", "libOpenMMStiffCPU has not been loaded", "loadPluginLibrary()"):
        assert words in result.stderr.splitlines()[-1]


def test_package_warns_of_a_library_that_cannot_be_loaded(tmp_path):
    """A package in another place, with a library that is none."""
    package = Path(openmmstiff.__file__).parent
    (tmp_path / "openmmstiff").symlink_to(package)
    libraries = tmp_path / "OpenMM.libs" / "lib" / "plugins"
    libraries.mkdir(parents=True)
    (libraries / "libOpenMMStiffGeneric.so").write_text("no library")
    result = run_python("import openmm, openmmstiff",
                        OPENMM_PLUGIN_DIR=str(tmp_path / "empty"), PYTHONPATH=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert "libOpenMMStiffGeneric.so" in result.stderr and "python -m openmmstiff" in result.stderr


def test_package_does_not_load_libraries_twice():
    succeeds("""
import openmm
openmm.Platform.loadPluginLibrary = lambda file: exit(f"{file} is loaded again")
import openmmstiff
""")


@pytest.mark.parametrize("package, module, name", [("ase", "ase", "ASE"), ("ase", "nested", "ASE"),
                                                   ("openmmtools", "mcmc", "OpenMMTools")])
def test_packages_of_others_are_not_needed(package, module, name):
    """Nor imported, but by what is for them, which says what it needs."""
    result = run_python(f"import sys, openmmstiff\nassert {package!r} not in sys.modules\n"
                        f"sys.modules[{package!r}] = None\ntry:\n    openmmstiff.examine('atoms')\n"
                        f"except TypeError as error:\n    print(error)\nimport openmmstiff.{module}")
    assert "must be an object of class Simulation" in result.stdout
    assert f"openmmstiff.{module} needs {name}: pip install 'openmm-stiff[{package}]'" in result.stderr


@pytest.mark.parametrize("version", ["8.5.2", "8.60"])
def test_another_series_of_openmm_is_refused(version):
    """Before the extension is imported, which would crash, and with a message that says what to do."""
    result = run_python(f"import openmm; openmm.__version__ = {version!r}; import openmmstiff")
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("ImportError: openmmstiff")
    assert f"this is OpenMM {version}" in message
    assert f"built for OpenMM {openmmstiff._OPENMM_SERIES}" in message
    assert f"pip install 'openmm=={openmmstiff._OPENMM_SERIES}.*'" in message


@pytest.mark.parametrize("version", ["8.6", "8.6.9.dev-1"])
def test_other_releases_of_the_series_are_accepted(version):
    succeeds(f"import openmm; openmm.__version__ = {version!r}; import openmmstiff")
