"""What a release consists of agrees on its version."""

import re
from pathlib import Path

import openmmstiff

SOURCE = Path(__file__).parents[2]


def find(pattern, file):
    """What the groups of a pattern match first in a file."""
    return re.search(pattern, (SOURCE/file).read_text(), re.MULTILINE).groups()


def test_version_and_date_are_the_same_everywhere():
    version, date = find(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", "CHANGELOG.md")
    assert find(r'^version = "(.+)"$', "pyproject.toml") == (version,)
    assert find(r"^version: (\S+)$", "CITATION.cff") == (version,)
    assert find(r'^date-released: "(.+)"$', "CITATION.cff") == (date,)
    assert openmmstiff.__version__ == version
    # find_package() takes a version of the same minor series only.
    assert find(r"find_package\(OpenMMStiff (\S+) REQUIRED\)", "examples/minimal/cpp/CMakeLists.txt") == (
        version.rpartition(".")[0],)


def test_what_was_never_run_says_so():
    workflows = list((SOURCE/".github"/"workflows").glob("*.yml"))
    assert workflows and ".github" not in find("^sdist.exclude = (.*)$", "pyproject.toml")[0]   # tests are in it, too
    for path in workflows:
        text = path.read_text()
        assert text.startswith("# Never run yet.") == ("never run yet" in re.search(r"^name: (.*)$", text, re.M)[1])
