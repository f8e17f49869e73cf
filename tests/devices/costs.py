"""What the kernels for devices cost, told from their text and by NVRTC: `.venv/bin/python tests/devices/costs.py`.

There is no GPU in this: operations and bytes are counted in the text, without what nobody needs, which compilers leave
out; registers and spills are those that NVRTC's assembler reports. Times on an H100 are estimates from these numbers,
not measurements. NVRTC is that of the test extra; `make test` builds WriteKernels.
"""

import argparse
import itertools
import math
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import nvrtc

WRITER = Path(__file__).resolve().parents[2]/"build"/"tests"/"WriteKernels"
MOLECULE = "Water"
KERNELS = [("MassPenaltyLangevinIntegrator", "moveLangevin0"), ("MassPenaltyIntegrator", "move0")]
SIZES = {"float": 4, "double": 8}
MACROS = {      # the arrays that they read and write
    "POSITION": (["posq", "posqCorrection"], []), "STORE_POSITION": (["posq"], ["posq", "posqCorrection"]),
    "KEEP_STATE": (["velm", "posq", "posqCorrection"], ["velmBefore", "posqBefore", "correctionBefore"])}
OPERATIONS = ["add", "mul", "div", "sqrt"]

# How often a loop is typically gone through: Newton's method in a drift converges at once.
NEWTON_ITERATIONS = 2

# An H100 (SXM): bytes and operations a second, of which a fused multiplication and addition is two; what else is known
# of it; and what OpenMM's CUDA platform launches there.
BANDWIDTH = 3.35e12
OPERATIONS_PER_SECOND = {"float": 67e12, "double": 34e12}
MULTIPROCESSORS, CLOCK = 132, 1.755e9
REGISTERS, MAX_WARPS, MAX_BLOCKS = 65536, 64, 32
THREADS_OF_BLOCK, BLOCKS_OF_MULTIPROCESSOR = 64, 6
# In units of an addition or multiplication. Assumed: with --use_fast_math a division is an approximate reciprocal or
# two; in double precision Newton's method refines it.
WEIGHTS = {"float": {"add": 1, "mul": 1, "div": 9, "sqrt": 9},
           "double": {"add": 1, "mul": 1, "div": 10, "sqrt": 13}}
# Cycles from an operation to one that needs its result. Assumed.
LATENCY = {"float": 4, "double": 8}


class Statement(NamedTuple):
    """A line that computes or stores, and how often it is typically executed."""
    target: str
    expression: str
    repeats: float
    isFloat: bool


@dataclass
class Kernel:
    """What is counted in the text of a kernel."""
    lines: int
    once: Counter = field(default_factory=Counter)
    typical: Counter = field(default_factory=Counter)
    bytesRead: int = 0
    bytesWritten: int = 0


def parse(body, iterations):
    """The statements of a kernel. A branch in a loop is not taken in the last of its iterations, see iterateSmall()."""
    statements, scopes = [], [1.0]
    for line in (re.sub("//.*", "", line).strip() for line in body.splitlines()):
        if line.startswith("while"):
            scopes.append(scopes[-1]*iterations)
        elif line.endswith("{"):
            scopes.append(scopes[-1]*((iterations - 1)/iterations if scopes[-1] > 1 else 1))
            statements.append(Statement("", line, scopes[-1], False))
        elif line == "}":
            scopes.pop()
        elif match := re.fullmatch(r"(?:const )?(\w+) (\w+) = (.*);", line):
            statements.append(Statement(match[2], match[3], scopes[-1], match[1] == "mixed"))
        elif match := re.fullmatch(r"(c\d+) = (.*);", line):
            statements.append(Statement(match[1], match[2], scopes[-1], True))
        else:
            statements.append(Statement("", line, scopes[-1], True))
    return statements


def select_needed(statements):
    """Those that what is stored depends on."""
    definitions = {}
    for statement in statements:
        definitions.setdefault(statement.target, []).append(statement)
    needed, found = set(), [statement for statement in statements if statement.target == ""]
    while found:
        for name in re.findall(r"\b[a-z]\w*\b", found.pop().expression):
            if name not in needed:
                needed.add(name)
                found += definitions.get(name, [])
    return [statement for statement in statements if statement.target in needed or statement.target == ""]


def count_operations(expression):
    expression = re.sub(r"\[[^]]*\]", "", expression)       # an index
    expression = re.sub(r"FAIL\(.*", "", expression)
    expression = re.sub(r"FORCE\(\w+, \d\)", "x*y", expression)
    return Counter({"add": len(re.findall(r" [+-] ", expression)), "mul": expression.count("*"),
                    "div": expression.count("/"), "sqrt": expression.count("sqrt(")})


def find_memory(expression):
    """The elements that a line reads and writes, without what is the same for all molecules: (array, index)."""
    read, written = set(), set()
    for macro, index in re.findall(r"\b(POSITION|KEEP_STATE|STORE_POSITION)\((\w+)", expression):
        reads, writes = MACROS[macro]
        read |= {(array, index) for array in reads}
        written |= {(array, index) for array in writes}
    read |= {("force", atom + axis) for atom, axis in re.findall(r"\bFORCE\((\w+), (\d)\)", expression)}
    store = re.match(r"(velm|kept)\[([^]]*)\] = ", expression)
    if store:
        written.add(store.groups())
        expression = expression[store.end():]
    read |= set(re.findall(r"\b(particles|sets|random|kept|velm)\[([^]]*)\]", expression))
    return read, written


def count_bytes(elements, precision):
    real, mixed = (SIZES[name] for name in nvrtc.TYPES[precision])
    correction = 4*real if precision == "mixed" else 0
    sizes = {"particles": 4, "sets": 4, "force": 8, "random": 16, "kept": 4*mixed, "velm": 4*mixed,
             "velmBefore": 4*mixed, "posq": 4*real, "posqBefore": 4*real, "posqCorrection": correction,
             "correctionBefore": correction}
    return sum(sizes[array] for array, _ in elements)


def analyse(text, name, precision, iterations):
    body = re.search(rf"^KERNEL void {name}\(ARGUMENTS\) \{{\n(.*?)^\}}$", text, re.MULTILINE | re.DOTALL)[1]
    kernel = Kernel(len(body.splitlines()))
    read, written = set(), set()
    for statement in select_needed(parse(body, iterations)):
        if statement.isFloat:
            operations = count_operations(statement.expression)
            kernel.once += operations
            for operation, number in operations.items():
                kernel.typical[operation] += number*statement.repeats
        for whole, more in zip((read, written), find_memory(statement.expression)):
            whole |= more
    kernel.bytesRead, kernel.bytesWritten = count_bytes(read, precision), count_bytes(written, precision)
    return kernel


class Code(NamedTuple):
    registers: int
    spilled: int
    seconds: float


def assemble(text, name, precision, target):
    """What NVRTC's assembler reports of a thread: registers, and bytes that it stores and loads for want of more."""
    result = nvrtc.compile_text(text, precision, target, "--no-cache", "--ptxas-options=-v")
    part = result.log.split(f"Compiling entry function '{name}'")[1]
    spilled = sum(map(int, re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part).groups()))
    return Code(int(re.search(r"Used (\d+) registers", part)[1]), spilled, result.seconds)


def estimate(kernel, code, precision, number):
    """Cells of the table of estimates: microseconds, and warps of a multiprocessor."""
    mixed = nvrtc.TYPES[precision][1]
    work = sum(kernel.typical[operation]*WEIGHTS[mixed][operation] for operation in OPERATIONS)
    # Warps, each of 32 threads, whose registers a multiprocessor has; they come in blocks.
    ofBlock, ofRegisters = THREADS_OF_BLOCK//32, REGISTERS//(256*math.ceil(32*code.registers/256))
    resident = min(ofRegisters//ofBlock, MAX_BLOCKS, MAX_WARPS//ofBlock)*ofBlock
    blocks = min(math.ceil(number/THREADS_OF_BLOCK), BLOCKS_OF_MULTIPROCESSOR*MULTIPROCESSORS)
    warps = math.ceil(blocks/MULTIPROCESSORS)*ofBlock
    turns = math.ceil(number/(blocks*THREADS_OF_BLOCK))*math.ceil(warps/resident)
    times = [number*(kernel.bytesRead + kernel.bytesWritten)/BANDWIDTH, number*code.spilled/BANDWIDTH,
             number*work/(0.5*OPERATIONS_PER_SECOND[mixed]), turns*work*LATENCY[mixed]/CLOCK]
    return [*(f"{1e6*time:.1f}" for time in times), resident, warps]


def print_table(title, *rows):
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows)]
    print(f"\n{title}\n")
    for row in rows:
        cells = [str(cell).rjust(width) if i >= 3 else str(cell).ljust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecules", type=int, default=30000, help="how many the estimate is for")
    number = parser.parse_args().molecules
    counts, compilations, estimates = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([WRITER, folder], check=True)
        for (integrator, name), precision in itertools.product(KERNELS, nvrtc.PRECISIONS):
            text = Path(folder, f"{integrator}-{MOLECULE}.txt").read_text()
            kernel = analyse(text, name, precision, NEWTON_ITERATIONS)
            which = [MOLECULE, f"{integrator.removesuffix('Integrator')} {name[:-1]}", precision]
            if precision == "single":
                counts.append(which[:2] + ["any", kernel.lines, *(kernel.once[operation] for operation in OPERATIONS),
                                           *(round(kernel.typical[operation]) for operation in OPERATIONS)])
            ptx = nvrtc.compile_text(text, precision, "compute_90", "--no-cache")
            newer, older = (assemble(text, name, precision, target) for target in ("sm_90", "sm_80"))
            compilations.append(which + [kernel.bytesRead, kernel.bytesWritten, newer.registers, newer.spilled,
                                         older.registers, older.spilled, f"{ptx.seconds:.2f}", f"{newer.seconds:.2f}"])
            estimates.append(which + estimate(kernel, newer, precision, number))
    heads = ["molecule", "kernel", "precision"]
    print_table(f"""\
Lines of text, and operations for a molecule, without conversions: each line once; and with {NEWTON_ITERATIONS}
iterations in each drift""",
                heads + ["lines", *OPERATIONS, *OPERATIONS], *counts)
    print_table("""\
Bytes of global memory for a molecule; registers and bytes spilled of a thread, on two architectures; seconds that NVRTC
takes for the whole program, to PTX and to code for sm_90""",
                heads + ["read", "written", "sm_90", "spilled", "sm_80", "spilled", "PTX", "code"], *compilations)
    print_table(f"""\
ESTIMATES, not measurements, for {number} molecules on an H100. Microseconds: for global memory at full bandwidth; for
spills, were they to go there too, and not to caches; for arithmetic at full speed, no operations fused; and of a thread
that does one operation after the other. Warps of a multiprocessor: how many have registers, and how many have work""",
                heads + ["memory", "spills", "arithmetic", "in turn", "fit", "busy"], *estimates)


if __name__ == "__main__":
    main()
