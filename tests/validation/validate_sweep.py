#!/usr/bin/env python
"""The whole sweep of what users run into (tests/sweep): every bad value, odd System, saved state and workflow.

The claim on each of some 40,000 cases: it works and stays finite, or is refused by an error that says what is wrong.
The options are those of tests/sweep/sweep.py. The exit code is 0 if every claim holds and 1 if not.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sweep"))

import sweep  # noqa: E402

if __name__ == "__main__":
    sys.exit(sweep.main(["--full", *sys.argv[1:]]))
