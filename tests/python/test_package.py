"""The package itself: its declarations, its types, its shape."""
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT
from simba_lock._native import lib


def test_every_function_of_the_header_is_declared():
    with open(os.path.join(ROOT, "include/simba/simba.h"), encoding="utf-8") as file:
        header = file.read()
    names = set(re.findall(r"^SIMBA_API [^;]*?\b(simba_\w+)\(", header, re.MULTILINE))
    scoped = {name for name in names if name.endswith("_cleanup")}  # for C alone
    assert len(names) > 80
    assert sorted(names - scoped - set(dir(lib))) == []


def test_the_types_are_strict():
    if shutil.which("mypy") is None:
        pytest.skip("there is no mypy here")
    result = subprocess.run(["mypy", "--cache-dir", os.environ["SIMBA_MYPY"]], cwd=os.path.join(ROOT, "bindings/python"),
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_what_is_public_has_a_description():
    import simba_lock

    for name in simba_lock.__all__:
        assert getattr(simba_lock, name).__doc__, name


def test_the_examples_of_the_guide_run():
    """Each block of the guide that is marked with `# runs`, on a store in memory."""
    with open(os.path.join(ROOT, "docs/guide/python.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    run = [block for block in blocks if block.startswith("# runs")]
    assert run
    for block in run:
        environment = dict(os.environ, SIMBA_URL="memory:guide")
        result = subprocess.run([sys.executable, "-c", block], env=environment, capture_output=True, text=True,
                                timeout=60, check=False)
        assert result.returncode == 0, result.stderr
