"""A part of the sweep of what users run into (tests/sweep): the same cases each time, on both platforms."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]/"sweep"))

import sweep  # noqa: E402


@pytest.fixture(scope="module")
def workers():
    running = sweep.Sweep()
    yield running
    running.end()


@pytest.mark.parametrize("part, name", [(part, name) for part, (_, _, names) in sweep.PARTS.items() for name in names])
def test_it_works_or_says_why_not(part, name, workers):
    results = workers.run(part, name, sweep.QUICK[part])
    assert results or sweep.bad_values.CONSTRUCTORS[name] is None
    faults = sweep.report(results)
    assert not faults, f"{len(faults)} faults in {len(results)} cases:\n" + "\n".join(faults)


def test_a_method_without_cases_is_a_fault(workers, monkeypatch):
    monkeypatch.setattr(sweep.openmmstiff.SpookIntegrator, "setNovelty", lambda self, novelty: None, raising=False)
    faults = sweep.report(workers.run("A", "SpookIntegrator", sweep.QUICK["A"]))
    assert len(faults) == 1 and "SpookIntegrator.setNovelty(novelty) has no good arguments: add" in faults[0]


def test_a_class_without_cases_is_a_fault(workers):
    faults = sweep.report(workers.run("A", "NovelIntegrator"))
    assert len(faults) == 1 and "NovelIntegrator is new in openmmstiff.__all__: add" in faults[0]


@pytest.mark.parametrize("body, fault", [
    ("os.abort()", "crash: exit code -6"), ("time.sleep(60)", "no end within 3 s"),
    ("raise AttributeError('no context')", "trial itself failed: AttributeError: no context")])
def test_a_crash_and_a_hang_are_faults_of_one_case(body, fault, workers, monkeypatch, tmp_path):
    """The worker is told to run, instead of the second case, what is in the body."""
    script = tmp_path/"worker.py"
    script.write_text(f"import os, sys, time; sys.path.insert(0, {str(Path(sweep.__file__).parent)!r})\n"
                      f"import sweep\n\ndef second(*_):\n    {body}\n\nfound = sweep.cases\n"
                      "sweep.cases = lambda *key: [case._replace(run=second) if i == 1 else case\n"
                      "                            for i, case in enumerate(found(*key))]\nsweep.serve()\n")
    monkeypatch.setattr(sweep, "WORKER", str(script))
    worker = sweep.Worker()
    before = worker.ask("D", "ImpulseIntegrator", 0.2, [0])
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "LIMIT", 3)
        (outcome, text), = worker.ask("D", "ImpulseIntegrator", 0.2, [1])
    after = worker.ask("D", "ImpulseIntegrator", 0.2, [2])
    worker.end()
    assert before == after == [("accepted", "")]
    assert outcome == "fault" and fault in text
