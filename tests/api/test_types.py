"""What type checkers say of a script that uses every public name."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import headway as hw

SCRIPT = Path(__file__).parent / "uses_everything.py"


def test_the_script_uses_every_public_name() -> None:
    """mypy checks it with all the others, in ``make test``."""
    tree = ast.parse(SCRIPT.read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert set(hw.__all__) <= used


def test_pyright_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.read_text())
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)
    messages = [f"{each['range']['start']['line'] + 1}: {each['message']}" for each in found["generalDiagnostics"]]
    assert (messages, found["summary"]["filesAnalyzed"]) == ([], 1)
