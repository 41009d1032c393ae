"""Writes the words of texts in lower case, signs left out, a paragraph a line, for benchmarks/vectors.py.

    python benchmarks/paragraphs.py novels.jsonl.xz > novels.txt
    python benchmarks/paragraphs.py train.jsonl.xz test.jsonl.xz unsup.jsonl.xz > reviews.txt

The texts are the column ``text`` of JSON lines, packed by xz. One that comes twice is written once. A paragraph ends at
an empty line, or at <br />.
"""

import argparse
import html
import json
import lzma
import re
import sys
import unicodedata
from pathlib import Path

PARAGRAPH = re.compile(r"(?:<br\s*/?>\s*)+|\n\s*\n")
WORD = re.compile(r"\w+(?:['’]\w+)*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    seen = set()
    for path in parser.parse_args().files:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                text = json.loads(line)["text"]
                if text not in seen:
                    seen.add(text)
                    plain = unicodedata.normalize("NFKC", html.unescape(text)).lower()
                    found = (WORD.findall(paragraph) for paragraph in PARAGRAPH.split(plain))
                    sys.stdout.writelines(" ".join(words) + "\n" for words in found if words)


if __name__ == "__main__":
    main()
