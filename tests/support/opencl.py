"""Find an OpenCL on which OpenMM computes, or install one without root: `opencl.py FOLDER [Intel|Oclgrind]`.

Prints the environment variables that make it work, one `NAME=value` a line, or nothing if the environment works as it
is. If there is no OpenCL, it exits with 1 and says why on stderr. What counts is a trial, in a process of its own since
an unfit OpenCL may crash: OpenMM must get the force of a bond right, in mixed and in double precision.

If nothing works on Linux on x86-64, FOLDER gets PoCL, which computes on the processor, and, unless the system has one,
libOpenCL.so.1, the loader that leads programs to an OpenCL. PoCL calls the linker `ld`, which has to be there.

With a name it is that OpenCL which is installed: Intel's for processors, or Oclgrind, which interprets kernels and
tells of each access outside of a buffer and each race. It lacks a function that OpenMM's nonbonded forces need.
"""

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

POCL = "pocl-binary-distribution==3.0"
# The loader in the first of these packages needs libraries of the second. They are large, so they are the last resort.
LOADER_PACKAGES = ["intel-opencl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0"]
INTEL = [*LOADER_PACKAGES, "tbb==2023.2.0", "tcmlib==1.6.0", "umf==1.2.0"]
OCLGRIND = ["oclgrind", "liboclgrind-21.10", "libllvm14", "libclang-cpp14"]    # of Debian 12
LOADER = "libOpenCL.so.1"
LOADER_LIBRARIES = {LOADER, "libsvml.so", "libirng.so", "libimf.so", "libintlc.so.5"}
# PoCL 3.0 calls a processor that is newer than it "generic", and then knows no such processor. It copies this name with
# strncpy, so a preloaded strncpy can put in one of the same length. No header declares strncpy here: some define it.
PROCESSOR_SOURCE = """#include <cstddef>

extern "C" char* strncpy(char* to, const char* from, std::size_t count) noexcept {
    if (count == 7 && __builtin_strncmp(from, "generic", 7) == 0)
        from = "%s";
    for (std::size_t i = 0; i < count; i++)
        to[i] = *from ? *from++ : 0;
    return to;
}
"""


class Failure(Exception):
    """What keeps OpenCL from working."""


def compute_force():
    """The trial: exit with the reason if OpenMM's OpenCL platform does not get the force of a bond right."""
    import openmm
    system = openmm.System()
    bond = openmm.HarmonicBondForce()
    bond.addBond(0, 1, 0.1, 1e5)
    system.addForce(bond)
    for _ in range(2):
        system.addParticle(1)
    try:
        opencl = openmm.Platform.getPlatform("OpenCL")
        for precision in ["mixed", "double"]:
            context = openmm.Context(system, openmm.VerletIntegrator(0.001), opencl, {"Precision": precision})
            context.setPositions([(0, 0, 0), (0.11, 0, 0)])
            force = context.getState(forces=True).getForces()[0].x
            if not abs(force - 1e3) < 0.1:  # so that NaN fails
                sys.exit(f"in {precision} precision a force of 1000 comes out as {force}")
    except openmm.OpenMMException as error:
        failures = [text for text in openmm.Platform.getPluginLoadFailures() if "OpenMMOpenCL" in text]
        reason = failures[0].split(": ", 1)[-1] if failures else str(error)
        sys.exit(" ".join(reason.split()))


def run(*command, timeout=1200, **options):
    """Run a command; a Failure tells the first error that it reports."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=timeout, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(error) from None
    if done.returncode != 0:
        crash = [signal.Signals(-done.returncode).name] if done.returncode < 0 else []
        errors = re.findall(r"connection broken|^E(?:RROR)?: .*|.*error: .*", done.stdout, re.MULTILINE)
        raise Failure(": ".join(crash + (errors or done.stdout.splitlines()[-1:])[:1]))


def merged(variables):
    """The variables, with the present entries of the lists of paths behind ours."""
    result = dict(variables)
    for name in {"LD_LIBRARY_PATH", "LD_PRELOAD"} & set(variables):
        present = [path for path in os.environ.get(name, "").split(":") if path not in ("", variables[name])]
        result[name] = ":".join([variables[name], *present])
    return result


def try_out(variables):
    """Raise a Failure if OpenMM does not compute with these variables."""
    run(sys.executable, __file__, "--trial", timeout=120, env={**os.environ, **merged(variables)})


def install(get, target):
    """Let get(scratch, result) fill a folder that is moved to the target, so that nothing is left half done."""
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            result = Path(scratch, "result")
            result.mkdir()
            get(Path(scratch), result)
            result.rename(target)


def download(packages, folder):
    """Download Python packages; returns them as open archives."""
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--retries=1",
        "--only-binary=:all:", "--dest", str(folder), *packages)
    return [zipfile.ZipFile(path) for path in folder.glob("*.whl")]


def extract(packages, chosen, scratch, target):
    """Download Python packages, and extract the files that are chosen by their paths, without their folders."""
    for archive in download(packages, scratch):
        for member in archive.infolist():
            if chosen(member.filename) and not member.is_dir():
                member.filename = Path(member.filename).name
                archive.extract(member, target)


def download_debian(packages, scratch, target):
    """Download packages of the system and unpack them."""
    try:
        run("apt-get", "download", *packages, cwd=scratch)
    except Failure:  # the lists of packages may be old or missing
        run("apt-get", "update")
        run("apt-get", "download", *packages, cwd=scratch)
    for path in scratch.glob("*.deb"):
        run("dpkg", "-x", str(path), str(target))


def get_debian_loader(scratch, result):
    download_debian(["ocl-icd-libopencl1"], scratch, scratch/"unpacked")
    for path in (scratch/"unpacked").rglob(LOADER):
        shutil.copy(path, result)


def get_packaged_loader(scratch, result):
    extract(LOADER_PACKAGES, lambda path: Path(path).name in LOADER_LIBRARIES, scratch, result)


def install_loader(folder):
    """Returns the folder of a loader, or None if the system has one."""
    if not folder.exists():
        with contextlib.suppress(OSError):
            ctypes.CDLL(LOADER)
            return None
    try:
        install(get_debian_loader, folder)
    except Failure as failure:
        try:
            install(get_packaged_loader, folder)
        except Failure as other:
            raise Failure(f"{LOADER} cannot be installed: {failure}, {other}") from None
    return folder


def compile_processor_name(library):
    """Make the library to preload that names PoCL a processor it knows, which is no newer than the one here."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    known = "haswell" if flags and {"avx2", "fma"} <= set(flags.group(1).split()) else "nehalem"
    source = library.with_suffix(".cpp")
    source.write_text(PROCESSOR_SOURCE % known)
    compiler = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    run(*compiler, "-O1", "-shared", "-fPIC", "-fno-builtin", "-o", str(library), str(source))


def lead_to(package, library):
    """A folder that tells the loader of this library of a package, and of no other OpenCL."""
    vendors = package.with_name(f"{package.name}-vendors")
    vendors.mkdir(exist_ok=True)
    path, *_ = package.rglob(library)
    (vendors/"this.icd").write_text(f"{path}\n")
    return vendors


def install_pocl(folder):
    """Returns the variables with which PoCL works."""
    (folder/"cache").mkdir(parents=True, exist_ok=True)
    install(lambda scratch, result: download([POCL], scratch)[0].extractall(result), folder/"pocl")
    vendors = lead_to(folder/"pocl", "libpocl*.so")
    # The basic device runs kernels in the thread that asks for them. Tests launch many small ones, for which handing
    # them to other threads takes several times as long.
    variables = {"OCL_ICD_VENDORS": str(vendors), "POCL_CACHE_DIR": str(folder/"cache"), "POCL_DEVICES": "basic"}
    loader = install_loader(folder/"loader")
    if loader:
        variables["LD_LIBRARY_PATH"] = str(loader)
    try:
        try_out(variables)
    except Failure as failure:
        if "unknown target CPU" not in str(failure):
            raise
        variables["LD_PRELOAD"] = str(folder/"libcpuname.so")
        compile_processor_name(Path(variables["LD_PRELOAD"]))
        try_out(variables)
    return variables


def find(folder):
    """Returns the variables with which OpenMM computes on an OpenCL."""
    try:
        try_out({})
        return {}
    except Failure as failure:
        has_openmm = importlib.util.find_spec("openmm") is not None
        if not has_openmm or (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise
        present = failure
    record = folder/"environment.txt"
    with contextlib.suppress(Failure, OSError, ValueError):
        variables = dict(line.split("=", 1) for line in record.read_text().splitlines())
        try_out(variables)
        return variables
    try:
        variables = install_pocl(folder)
    except (Failure, OSError) as failure:
        raise Failure(f"{present}, and PoCL cannot replace it: {failure}") from None
    record.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    return variables


OTHERS = {
    "Intel": (lambda scratch, result: extract(INTEL, lambda path: "/data/lib/" in path, scratch, result),
              "libintelocl.so"),
    "Oclgrind": (lambda scratch, result: download_debian(OCLGRIND, scratch, result), "liboclgrind-rt-icd.so")}


def install_other(name, folder):
    """Returns the variables with which one of the others works."""
    get, library = OTHERS[name]
    folder.mkdir(parents=True, exist_ok=True)
    loader = install_loader(folder/"loader")
    install(get, folder/name)
    libraries = {path.parent for of in (library, "libLLVM*") for path in (folder/name).rglob(of)}
    variables = {"OCL_ICD_VENDORS": str(lead_to(folder/name, library)),
                 "LD_LIBRARY_PATH": ":".join(map(str, [*sorted(libraries), *([loader] if loader else [])]))}
    try_out(variables)
    return variables


def main(folder, name=None):
    folder = Path(folder).resolve()
    try:
        if name is None:
            variables = find(folder)
        else:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with open(f"{folder}.lock", "w") as lock:   # several tests may want it at once
                fcntl.flock(lock, fcntl.LOCK_EX)
                variables = install_other(name, folder)
    except (Failure, OSError) as failure:
        sys.exit(f"OpenMM has no OpenCL to compute on: {failure}.")
    for name, value in merged(variables).items():
        print(f"{name}={value}")


if __name__ == "__main__":
    compute_force() if sys.argv[1] == "--trial" else main(*sys.argv[1:])
