"""What NVRTC makes of the kernels for devices, which needs no GPU: `.venv/bin/python tests/devices/costs.py`.

Registers and bytes spilled of a thread, code in kB and seconds to compile, of a step of the Langevin mass penalty: of
water, which a thread moves, and of a block for a team; on the newest architecture that NVRTC knows. A multiprocessor
keeps some 128 kB of code at hand. `make test` builds WriteKernels.
"""

import re
import subprocess
import tempfile
from pathlib import Path

import nvrtc

WRITER = Path(__file__).resolve().parents[2]/"build"/"tests"/"WriteKernels"
INTEGRATOR = "MassPenaltyLangevinIntegrator_MetricCorrection"
KERNELS = {"Water": "moveLangevin0", "Methanol": "moveLangevin"}
ROW = "{:10}{:10}{:>10}{:>9}{:>10}{:>9}"


def describe(text, kernel, precision, target):
    """Registers, bytes stored and loaded for want of more, kB and seconds."""
    result = nvrtc.compile_text(text, precision, target, "--no-cache", "--ptxas-options=-v")
    own = result.log.split(f"Compiling entry function '{kernel}'")[1]
    spilled = sum(map(int, re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", own).groups()))
    return re.search(r"Used (\d+) registers", own)[1], spilled, f"{result.size/1024:.0f}", f"{result.seconds:.1f}"


def main():
    print(ROW.format("molecule", "precision", "registers", "spilled", "code (kB)", "NVRTC (s)"))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([WRITER, folder], check=True)
        for molecule, kernel in KERNELS.items():
            text = Path(folder, f"{INTEGRATOR}-{molecule}.txt").read_text()
            for precision in nvrtc.PRECISIONS:
                target = f"sm_{nvrtc.get_architectures()[-1]}"
                print(ROW.format(molecule, precision, *describe(text, kernel, precision, target)))


if __name__ == "__main__":
    main()
