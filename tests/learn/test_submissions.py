"""What strangers hand in: only their own check fails, within its limits. And what honest mistakes look like."""

import time
from pathlib import Path

import pytest

from headway import learn
from headway.config.errors import Problem
from headway.learn import sandbox, source
from headway.learn.catalogue import exercise
from headway.learn.exercise import FillIn, Report
from headway.learn.performing import Performance
from headway.learn.submission import check_file

HEAD = "import math, os, sys, torch\ndef self_attention(x, queries, keys, values):\n"
RIGHT = "    return (x @ queries @ (x @ keys).T / math.sqrt(queries.shape[1])).softmax(dim=-1) @ (x @ values)\n"
LIMITS = sandbox.Limits(seconds=3, memory=1 << 29)


def submitted(tmp_path: Path, text: str) -> Report:
    path = tmp_path / "self.py"
    path.write_text(text)
    found = exercise("attn.self")
    assert isinstance(found, FillIn)
    return check_file(found, path, 1, LIMITS)


HOSTILE = {
    "an endless loop": ("    while True: pass\n", "not done after 3 seconds"),
    "sleeping": ("    import time; time.sleep(60)\n", "not done after 3 seconds"),
    "10 GB": ("    torch.ones(10 << 27)\n", "alloc"),
    "10 GB of Python": ("    return bytearray(10 << 30)\n", "MemoryError"),
    "50 processes": ("    [os.fork() for _ in range(50)]\n", "allows no os.fork"),
    "50 programs": (
        "    import subprocess\n    [subprocess.Popen(['sleep', '60']) for _ in range(50)]\n",
        "allows no subprocess",
    ),
    "sys.exit": ("    sys.exit(0)\n", "SystemExit"),
    "os._exit": ("    os._exit(0)\n", "ended the process"),
    "a gigabyte of output": ("    for _ in range(1000): print('x' * 1_000_000)\n", "prints more than 1 MiB"),
    "the library's source": (
        "    import inspect, headway.nn.attend as a\n    return inspect.getsource(a.soft)\n",
        "Error",
    ),
    "the checker's files": (f"    open({sandbox.__file__!r}).read()\n", "no reading of the library's own files"),
    "the checker": ("    import headway.learn.judging\n", "does not show how it checks"),
    "the reference": (
        "    from headway.learn.written_out import self_attention as f\n    return f(x, queries, keys, values)\n",
        "calls the function of the library",
    ),
    "killing its parent": ("    os.kill(os.getppid(), 9)\n", "allows no os.kill"),
    "removing files": ("    os.remove('self.py')\n", "allows no os.remove"),
    "writing files": ("    open('new.txt', 'w')\n", "no writing of files"),
    "a connection": ("    import socket; socket.socket()\n", "allows no socket"),
    "deep recursion": ("    return self_attention(x, queries, keys, values)\n", "RecursionError"),
    "an object that claims to be equal": (
        "    class Equal(torch.Tensor):\n        def __eq__(self, other): return True\n    return Equal()\n",
        "runs",
    ),
    "another check": ("    torch.allclose = torch.equal = lambda *a, **k: True\n    return x @ values\n", "values"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_submissions_fail_alone_and_within_their_limits(name: str, tmp_path: Path) -> None:
    body, reason = HOSTILE[name]
    start = time.monotonic()
    report = submitted(tmp_path, HEAD + body)
    assert not report.passed
    assert any(reason in f"{each.name}: {each.detail}" for each in report.findings if not each.ok), report.findings
    assert time.monotonic() - start < LIMITS.seconds + 5
    assert submitted(tmp_path, HEAD + RIGHT).passed  # the next one


def test_forged_results_are_no_results(tmp_path: Path) -> None:
    everywhere = (
        "    for number in range(3, 64):\n        try: os.write(number, b'passed')\n        except OSError: pass\n"
    )
    assert not submitted(tmp_path, HEAD + everywhere + RIGHT).passed
    for content in (b"", b"x", b"\xff" * 100, Performance(error="x").to_bytes()[:-3]):
        with pytest.raises(ValueError, match="no result"):
            Performance.from_bytes(content)


def test_no_process_is_left(tmp_path: Path) -> None:
    before = children()
    submitted(tmp_path, HEAD + "    while True: pass\n")
    assert children() <= before


def children() -> set[str]:
    """Of this process: other tests may have left some that serve them."""
    return {pid for tasks in Path("/proc/self/task").iterdir() for pid in (tasks / "children").read_text().split()}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no self_attention"),
        ("def self_attention(:\n", "SyntaxError"),
        (HEAD + "    return None\n", "it returns None where a tensor (5, 4) is expected"),
        (HEAD + "    return x @ values.T\n", "RuntimeError"),
        (HEAD + "    return (x @ values).float()\n", "the type is torch.float32, expected torch.float64"),
        (HEAD + "    return x\n", "the shape is (5, 6), expected (5, 4)"),
        (HEAD + "    x.zero_()\n" + RIGHT, "in-place"),
        (HEAD + "    with torch.no_grad(): x.mul_(2)\n" + RIGHT, "leaves its inputs as they are"),
        (HEAD + RIGHT.replace("(x @ values)", "(x @ values).detach()"), "gradients"),
        (HEAD + "    for _ in range(8_000_000): pass\n" + RIGHT, "speed"),
        (HEAD + "    raise KeyError('mine')\n", "(line 3)"),
    ],
)  # fmt: skip
def test_honest_mistakes(text: str, says: str, tmp_path: Path) -> None:
    report = submitted(tmp_path, text)
    assert not report.passed
    assert any(says in f"{each.name}: {each.detail}" for each in report.findings if not each.ok), report.findings


def test_what_a_submission_prints_is_shown(tmp_path: Path) -> None:
    report = submitted(tmp_path, HEAD + "    print('x is', x.shape)\n" + RIGHT)
    assert report.passed
    assert "x is torch.Size([5, 6])" in report.printed


def test_a_function_from_python_may_not_call_the_librarys_either() -> None:
    from headway.nn.attend import soft

    assert not learn.check("attn.scaled", soft).passed
    assert soft.__code__.co_name == "soft"  # and it is back
    with pytest.raises(Problem, match=r"no exercise 'attn\.skaled'; did you mean 'attn\.scaled'"):
        learn.check("attn.skaled", soft)
    with pytest.raises(Problem, match="not a function"):
        learn.check("attn.scaled", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("    # learn: begin a\n", "has no end"),
        ("    # learn: end\n", "begins inside another one, or ends without one"),
        ("    # learn: begin a\n    # learn: begin b\n", "begins inside another one"),
    ],
)
def test_markers_that_are_wrong(text: str, says: str) -> None:
    with pytest.raises(Problem, match=says):
        list(source.read_regions("module", text.splitlines()))


def test_a_marker_that_is_gone_and_an_edit_that_fits_nowhere() -> None:
    with pytest.raises(Problem, match="has no marker"):
        source.region("attn.gone", "headway.nn.attend")
    with pytest.raises(Problem, match="stands 2 times"):
        source.edited("a a", [("a", "b")])
