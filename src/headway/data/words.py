"""Words: how a text is split into what gets a tag.

- words: words and single signs, as ``it's`` and ``.`` in "it's."
- spaces: whatever stands between white space
- python: the tokens of Python source, without comments and line ends
"""

import io
import re
import tokenize
from collections.abc import Callable, Iterator

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
SPACED = re.compile(r"\S+")
LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
}

Places = list[tuple[int, int]]  # where each word starts and ends in its text


def places(pattern: re.Pattern[str], text: str, start: int = 0) -> Places:
    return [match.span() for match in pattern.finditer(text, start)]


def split_words(text: str) -> Places:
    return places(WORD, text)


def split_at_spaces(text: str) -> Places:
    return places(SPACED, text)


def python_tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """Up to where the source cannot be read any more."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in LAYOUT and token.string.strip():
                yield token
    except (tokenize.TokenError, SyntaxError):
        return


def split_python(text: str) -> Places:
    """What is no Python is split into words."""
    begins = [0]
    for line in io.StringIO(text):
        begins.append(begins[-1] + len(line))
    found = []
    for token in python_tokens(text):
        (first, start), (last, end) = token.start, token.end
        found.append((begins[first - 1] + start, begins[last - 1] + end))
    return found + places(WORD, text, found[-1][1] if found else 0)


WORDS: dict[str, Callable[[str], Places]] = {"words": split_words, "spaces": split_at_spaces, "python": split_python}
