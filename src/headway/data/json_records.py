"""JSON objects in a file: one per line, or the items of one array, each with the line on which it begins."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any

SPACE = " \t\r\n"
NO_OBJECT = 'not a JSON object such as {"text": "...", "label": "..."}'
Item = tuple[int, dict[str, Any], str]  # the line, the object, and what is wrong


def items_of_lines(lines: Iterator[str], first: int = 1) -> Iterator[Item]:
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, {}, f"not a JSON object on one line: {error}"
            continue
        yield item(number, value)


def items_of_file(file: IO[str]) -> Iterator[Item]:
    """Of a ``.json`` file: an array of objects, or else one object per line, as many tools name it, too. An array is in
    memory as a whole."""
    number, line = next(((number, line) for number, line in enumerate(file, start=1) if line.strip()), (1, ""))
    if line.lstrip().startswith("["):
        yield from items_of_array(line + file.read(), number)
    else:
        yield from items_of_lines(chain([line], file), number)


def items_of_array(text: str, line: int) -> Iterator[Item]:
    """The array begins on this line; where it is broken, what follows cannot be read."""
    decoder, seen, closed = json.JSONDecoder(), 0, False
    position = after_space(text, text.index("[") + 1)
    while position < len(text):
        line += text.count("\n", seen, position)
        seen = position
        if text[position] == "]":
            closed = True
            break
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", str(error))
            at = getattr(error, "pos", position)
            yield line + text.count("\n", seen, at), {}, f"not JSON: {reason}; nothing after it was read"
            return
        yield item(line, value)
        position = after_space(text, position)
        if text[position : position + 1] == ",":
            position = after_space(text, position + 1)
    line += text.count("\n", seen)
    if not closed:
        yield line, {}, "the array of objects is not closed with ]: is the end of the file missing?"


def item(line: int, value: Any) -> Item:
    return (line, value, "") if isinstance(value, dict) else (line, {}, NO_OBJECT)


def after_space(text: str, position: int) -> int:
    while text[position : position + 1] and text[position] in SPACE:
        position += 1
    return position
