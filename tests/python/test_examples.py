"""The examples run, and find what they should, at a small size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2]/"examples"
RUNS = {  # options, the figure, and what is printed
    "tao_owhadi/double_pendulum": (["--time", "1"], "Largest over smallest, omega from 10 to 1000"),
    "tao_owhadi/pendulum_chain": (["--time", "1", "--links", "3"], "Z&S"),
    "tao_owhadi/dna": (["--time", "40", "--draws", "1", "--limits", "0"], "Z&S, h = 2"),
    "tao_owhadi/magnetised_body": (["--time", "1"], "Z&S, b = 0.2"),
    "tao_owhadi/water_clusters": (["--shorten", "100", "--replicas", "1", "--part", "multipliers"], "q, averages"),
    "rod_ladder": (["--time", "0.5", "--links", "3", "--largest", "20"], "Slope in logarithms"),
    "velocity_constraints": (["--halvings", "1"], "Lowest point of the skate"),
    "inverted_pendulum": (["--steps", "10", "20"], "Largest differences of an angle"),
    "paul_trap": (["--halvings", "1"], "breathing"),
    "expensive_forces": (["--time", "1", "--seeds", "1", "--processes", "1", "--runs", "middle-2fs", "penalty-6fs"],
                         "C1-C2-O"),
}


@pytest.mark.parametrize("name", RUNS)
def test_example_runs_and_draws(name, tmp_path):
    options, printed = RUNS[name]
    run = subprocess.run([sys.executable, FOLDER/f"{name}.py", *options, "--output", tmp_path], text=True,
                         capture_output=True, env={**os.environ, "MPLBACKEND": "Agg", "OPENMM_CPU_THREADS": "1"})
    assert run.returncode == 0, run.stderr
    assert printed in run.stdout and "nan" not in run.stdout
    assert (tmp_path/f"{Path(name).name}.png").stat().st_size > 10000
