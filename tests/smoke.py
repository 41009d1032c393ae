"""Tries an installed headway from the outside, in the current folder: its command line, its data files, its API."""

import subprocess
import sys
from pathlib import Path

import headway as hw


def main() -> None:
    program = Path(sys.executable).with_name("headway")
    shown = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    assert shown == f"headway {hw.__version__}\n", shown
    assert len(hw.list_recipes()) > 30
    texts = [f"a {word} film, number {number}" for number in range(40) for word in ("good", "bad")]
    model = hw.train("classify", data=(texts, ["positive", "negative"] * 40), train={"epochs": 5}, out="smoke")
    assert model.predict("a good film").label in ("positive", "negative")
    subprocess.run([program, "predict", "smoke", "a bad film"], check=True)
    print(f"headway {hw.__version__} works: {Path(hw.__file__).parent}")


if __name__ == "__main__":
    main()
