"""Compile the kernels for devices as OpenMM's CUDA platform does, with NVRTC, which needs no GPU.

WriteKernels.cpp writes their texts. `nvrtc.py FILE...` compiles such files in each precision for each architecture, and
prints what is wrong.
"""

import ctypes
import functools
import importlib.util
import itertools
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PRECISIONS = ["single", "mixed", "double"]
ARCHITECTURES = [60, 70, 75, 80, 86, 90]
# What OpenMM's CudaContext compiles with.
OPTIONS = ["--use_fast_math"]
# Recording leaves values behind that nobody needs, which compilers leave out.
QUIET = ["--diag-suppress=177"]
IGNORED = re.compile(r"^nvrtc: warning: Architectures prior to .* are deprecated .*\n?", re.MULTILINE)

# What kernels find defined, as far as ours need it, instead of what OpenMM puts before a program: CudaContext's
# definitions for a precision, and its common.cu.
PRELUDE = """
#define KERNEL extern "C" __global__
#define DEVICE __device__
#define GLOBAL
#define LOCAL __shared__
#define LOCAL_ARG
#define RESTRICT __restrict__
#define GLOBAL_ID (blockIdx.x*blockDim.x+threadIdx.x)
#define GLOBAL_SIZE (blockDim.x*gridDim.x)
#define LOCAL_ID threadIdx.x
#define GROUP_ID blockIdx.x
#define NUM_GROUPS gridDim.x
#define SYNC_THREADS __syncthreads();
typedef long long mm_long;
"""
DEFINITIONS = {"single": "", "mixed": "#define USE_MIXED_PRECISION 1", "double": "#define USE_DOUBLE_PRECISION 1"}
# The type of positions, and that of velocities and of all that is computed here.
TYPES = {"single": ("float", "float"), "mixed": ("float", "double"), "double": ("double", "double")}


class Missing(Exception):
    """There is no NVRTC."""


@dataclass
class Result:
    """What NVRTC says of a program."""
    compiled: bool
    log: str
    code: str
    size: int   # bytes of the code for an architecture, 0 of PTX
    seconds: float


def get_prelude(precision):
    lines = [DEFINITIONS[precision]]
    for name, actual in zip(("real", "mixed"), TYPES[precision]):
        lines += [f"typedef {actual} {name};", f"typedef {actual}4 {name}4;", f"#define make_{name}4 make_{actual}4"]
    return "\n".join(lines) + PRELUDE


@functools.cache
def load():
    """The library, of the package nvidia-cuda-nvrtc-cu12, or of one for another CUDA."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None else []
    paths = [path for folder in folders for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*"))]
    if not paths:
        raise Missing("NVRTC is missing; the Python package nvidia-cuda-nvrtc-cu12 has it")
    library = ctypes.CDLL(str(paths[0]))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def call(function, *arguments):
    result = getattr(load(), function)(*arguments)
    if result != 0:
        raise RuntimeError(f"{function}: {load().nvrtcGetErrorString(result).decode()}")


def get_architectures():
    """Those of ARCHITECTURES that NVRTC knows."""
    number = ctypes.c_int()
    call("nvrtcGetNumSupportedArchs", ctypes.byref(number))
    known = (ctypes.c_int*number.value)()
    call("nvrtcGetSupportedArchs", known)
    return [architecture for architecture in ARCHITECTURES if architecture in list(known)]


def get_size(program, what):
    size = ctypes.c_size_t()
    call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
    return size.value


def get_text(program, what):
    buffer = ctypes.create_string_buffer(get_size(program, what))
    call(f"nvrtcGet{what}", program, buffer)
    return buffer.value.decode(errors="replace")


def compile_text(text, precision, target, *options):
    """Compile a text for a target, such as compute_90, whose code is PTX."""
    program = ctypes.c_void_p()
    call("nvrtcCreateProgram", ctypes.byref(program), (get_prelude(precision) + text).encode(), b"kernels.cu", 0, None,
         None)
    try:
        options = [f"--gpu-architecture={target}", *OPTIONS, *QUIET, *options]
        pointers = (ctypes.c_char_p*len(options))(*(option.encode() for option in options))
        begin = time.perf_counter()
        status = load().nvrtcCompileProgram(program, len(options), pointers)
        seconds = time.perf_counter() - begin
        code = get_text(program, "PTX") if status == 0 else ""
        size = get_size(program, "CUBIN") if status == 0 and target.startswith("sm_") else 0
        return Result(status == 0, IGNORED.sub("", get_text(program, "ProgramLog")).strip(), code, size, seconds)
    finally:
        call("nvrtcDestroyProgram", ctypes.byref(program))


def find_faults(text, precision, architecture):
    """What is wrong with a program: errors, warnings, missing kernels, and double precision where it is not asked for,
    of which most devices have little."""
    result = compile_text(text, precision, f"compute_{architecture}")
    faults = [result.log] if result.log else []
    if result.compiled:
        entries = re.findall(r"\.entry (\w+)", result.code)
        faults += [f"The kernel {name} is missing" for name in re.findall(r"\bKERNEL void (\w+)", text)
                   if name not in entries]
        if precision == "single" and ".f64" in result.code:
            faults.append("It computes in double precision")
    elif not faults:
        faults = ["It does not compile"]
    return faults


def main(files):
    faults = [f"{file}, {precision} precision, compute_{architecture}: {fault}"
              for file, precision, architecture in itertools.product(files, PRECISIONS, get_architectures())
              for fault in find_faults(Path(file).read_text(), precision, architecture)]
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main(sys.argv[1:])
