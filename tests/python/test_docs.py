"""What README and handbook say to type works as it stands, and what they refer to is there."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import openmm
import openmmstiff
import pytest
from conftest import Waters, fenced, run_script
from openmm import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT/"README.md", ROOT/"CONTRIBUTING.md", ROOT/"examples/minimal/README.md",
         *sorted(ROOT.glob("docs/**/*.md"))]
LANGUAGES = {"python", "cpp", "cmake", "sh", "text", "toml", "{eval-rst}"}  # text: formulas, what is printed

# Runs are cut short, and begin with the waters in a corner of OpenMM's box. Packages with weights of potentials have
# stand-ins, which make the System of a force field.
BEFORE = """
import sys, types
from openmm import app, unit
step, minimize = app.Simulation.step, app.Simulation.minimizeEnergy
app.Simulation.step = lambda self, steps: step(self, min(steps, 60 if self.system.getNumParticles() < 20000 else 5))
app.Simulation.minimizeEnergy = lambda self, *rest, **others: minimize(self, maxIterations=30)
WholeFile = app.PDBFile
class Corner(WholeFile):
    def __init__(self, name):
        pdb = WholeFile(name)
        self.topology, self.positions = pdb.topology, pdb.positions
        if "POPC" in name:      # lipids cannot be cut
            return
        modeller = app.Modeller(pdb.topology, pdb.positions)
        modeller.delete([residue for residue in pdb.topology.residues()
                         if max(pdb.positions[next(residue.atoms()).index]._value) > 2])
        self.topology, self.positions = modeller.topology, modeller.positions
        self.topology.setUnitCellDimensions([2.15]*3*unit.nanometer)
app.PDBFile = Corner
class MLPotential:
    def __init__(self, name):
        pass
    def createSystem(self, topology, **options):
        return app.ForceField("tip3p.xml").createSystem(topology, rigidWater=False)
    def createMixedSystem(self, topology, system, atoms):
        return system
sys.modules["openmmml"] = types.SimpleNamespace(MLPotential=MLPotential)
"""
GIVEN = {   # what a page says of things that its reader has
    "ase.md": """
import numpy as np
from openmmstiff.ase import Batch
whole = Batch.run
Batch.run = lambda self, runs, steps: whole(self, runs, 3)
class Tensor(np.ndarray):
    cpu = numpy = lambda self: self
class SevenNetModel:    # every atom in a well where it was in the first of the Atoms
    device = dtype = start = None
    def __init__(self, name):
        pass
    def __call__(self, positions):
        self.start = positions[0] if self.start is None else self.start
        forces = self.start - positions
        return {"energy": (forces**2).sum(axis=(1, 2)).view(Tensor)/2, "forces": forces.reshape(-1, 3).view(Tensor)}
sys.modules["sevenn.torchsim"] = types.SimpleNamespace(SevenNetModel=SevenNetModel)
sys.modules["sevenn"] = types.SimpleNamespace(torchsim=sys.modules["sevenn.torchsim"])
sys.modules["torch_sim"] = types.SimpleNamespace(io=types.SimpleNamespace(
    atoms_to_state=lambda systems, device, dtype: np.array([atoms.positions for atoms in systems])))
""",
    "expensive-forces.md": """
pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
topology, positions = pdb.topology, pdb.positions
system = app.ForceField("tip3p.xml").createSystem(topology, nonbondedMethod=app.PME, rigidWater=False)
""",
    "nested.md": """
from openmmstiff.nested import NestedSampler
whole = NestedSampler.run
NestedSampler.run = lambda self, energies: whole(self, 3)
""",
    "recipes.md": """
import logging
logging.disable(logging.WARNING)    # PyMBAR's, which OpenMMTools imports
""",
    "step-size.md": """
import openmm, openmmstiff
from openmm import unit
pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
system = app.ForceField("tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.PME, rigidWater=False)
simulation = app.Simulation(pdb.topology, system, openmm.VerletIntegrator(0.001))
simulation.context.setPositions(pdb.positions)
""",
    "platforms.md": """
import openmm, openmmstiff
from openmm import app
pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
topology, system = pdb.topology, app.ForceField("tip3p.xml").createSystem(pdb.topology, rigidWater=False)
integrator = openmmstiff.ZhangSkeelIntegrator(0.001)
getPlatform = openmm.Platform.getPlatform
openmm.Platform.getPlatform = lambda name: getPlatform("Reference")     # there is no GPU here
Simulation = app.Simulation
app.Simulation = lambda topology, system, integrator, platform, properties: Simulation(topology, system, integrator)
"""}


def named(pages):
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


def blocks(page, *languages):
    """(language, text) of the fenced blocks of a page, all or those in some languages."""
    return fenced(page.read_text(), *languages)


def in_sections(page):
    """The Python of each section of a page that has any."""
    sections = re.split("^## ", page.read_text(), flags=re.MULTILINE)
    return list(filter(None, ("".join(text for _, text in fenced(each, "python")) for each in sections)))


@pytest.mark.parametrize("page", named(PAGES))
def test_blocks_say_their_language(page):
    assert {language for language, _ in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", named(page for page in PAGES
                                       if blocks(page, "python") and page.name != "openmmtools.md"))
def test_python_blocks_run_one_after_the_other(page, tmp_path):
    """Those of openmmtools.md are run by test_openmmtools.py. Each recipe goes on from the first lines alone."""
    first, *others = [text.replace("/data/test.pdb", "/data/tip3p.pdb") for text in in_sections(page)]
    if page.name == "recipes.md":
        others = ["given = dict(globals())", *(f"exec({text!r}, dict(given))" for text in others)]
    script = tmp_path/"page.py"
    script.write_text("\n".join([BEFORE, GIVEN.get(page.name, ""), first, *others]))
    printed = run_script(script, folder=tmp_path).stderr
    assert not printed, printed


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_cpp_program_compiles_and_runs(tmp_path):
    """With CMake, and by hand."""
    page = ROOT/"docs/getting-started.md"
    for name, language in ("bond.cpp", "cpp"), ("CMakeLists.txt", "cmake"):
        (_, text), = blocks(page, language)
        (tmp_path/name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "OPENMM_PLUGIN_DIR"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    by_cmake, by_hand = (text for _, text in blocks(page, "sh") if "openmmstiff prefix" in text)
    for text in by_cmake, by_hand:
        result = subprocess.run(["sh", "-ec", text], cwd=tmp_path, env=environment, capture_output=True, text=True,
                                timeout=300)
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[-1] in ("CPU, 8 ps", "Reference, 8 ps")


def commands(page):
    """What is to be typed into a shell: lines of blocks, of the README's indented ones, and inline code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [*(line for _, block in blocks(page, "sh") for line in block.splitlines()),
             *re.findall(r"^    (make .*)", text, re.MULTILINE),
             *(" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text))]
    return [re.sub(r"\s+#.*", "", line) for line in lines]


@pytest.mark.parametrize("page", named(PAGES))
def test_commands_are_there(page):
    """Targets of make, extras of the package, scripts and their options."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT/"Makefile").read_text(), re.MULTILINE))
    extras = set(re.findall(r"^(\w+) = \[", (ROOT/"pyproject.toml").read_text(), re.MULTILINE))
    for command in commands(page):
        assert {target for target, _ in re.findall(r"^make ([a-z]+)( |$)", command)} <= targets, command
        assert set(re.findall(r"openmm-stiff\[(\w+)\]", command)) <= extras, command
        for script in re.findall(r"(?:^|\s)((?:examples|tests|packaging)/[\w/]+\.(?:py|ipynb|cpp))", command):
            assert (ROOT/script).exists(), command
            folder = (ROOT/script).parent
            sources = *folder.glob("*.py"), *ROOT.glob("examples/*.py"), *ROOT.glob("examples/common/*.py")
            known = "".join(path.read_text() for path in sources)
            for option in re.findall(r"\s(--[a-z][\w-]*)", command):
                assert f'"{option}"' in known, command


def test_examine_and_scan_run_as_the_handbook_says(tmp_path):
    waters = Waters(4)
    (tmp_path/"system.xml").write_text(openmm.XmlSerializer.serialize(waters.system))
    with open(tmp_path/"structure.pdb", "w") as file:
        app.PDBFile.writeFile(waters.topology, waters.positions*10, file)
    typed = {command for page in PAGES for command in commands(page)
             if re.match(r"python -m openmmstiff (examine|scan) system.xml", command)}
    assert len(typed) >= 2
    for command in typed:
        _, *arguments = re.sub(r"--minutes \d+", "--minutes 0.02", command).split()
        assert "MassPenaltyLangevin" in run_script(*arguments, folder=tmp_path).stdout


@pytest.mark.parametrize("page", named(page for page in PAGES if page.parent.name != "api"))
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(((?!\w+://)[^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        path = page.parent/path if path else page
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)", path.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings], target


def test_what_is_said_to_work_names_what_tries_it():
    """Each row of does-it-work.md: tests of this folder, or parts of the validation."""
    page = (ROOT/"docs/does-it-work.md").read_text()
    tests = re.findall(r"^def (test_\w+)", "".join(path.read_text() for path in ROOT.glob("tests/python/*.py")), re.M)
    exams = [path.stem.replace("_", "-") for path in ROOT.glob("tests/validation/exams/*.py")]
    rows = [line.split(" | ") for line in re.findall(r"^\| ([^*-].*) \|$", page, re.MULTILINE)]
    assert len(rows) > 25
    for what, *_, tried in rows[1:]:
        names = re.findall(r"`([\w-]+)`", tried)
        assert names and set(names) <= {*tests, *exams}, what


def test_handbook_builds_without_a_warning(tmp_path):
    """By Sphinx, as `make docs` does."""
    for name in ("sphinx", "myst_parser", "furo", "numpydoc"):
        assert importlib.util.find_spec(name), f"{name} is missing: pip install 'openmm-stiff[docs]'"
    run_script("-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", ROOT/"docs", tmp_path/"html")
    for name in openmmstiff.__all__:
        page = tmp_path/f"html/api/generated/openmmstiff.{name}.html"
        assert f'id="openmmstiff.{name}"' in page.read_text(), f"docs/api/python.md has no {name}"
    pages = [page.read_text() for page in (tmp_path/"html").rglob("*.html")]
    for what, pattern in {"a need of a network": r"<(script|link|img)[^>]*(src|href)=.https?:",
                          "markup instead of code": r"<pre>(<span></span>)?::\s",
                          "a command of LaTeX that latex2mathml does not know": r"<m[io]>\\"}.items():
        assert not any(re.search(pattern, page) for page in pages), what
