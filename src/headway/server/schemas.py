"""What a request may say: JSON schemas, which check requests and are shown in the OpenAPI document."""

import json
import math
from typing import Any

from headway.config.errors import did_you_mean, is_unicode
from headway.server.limits import Limits
from headway.server.security import Refused

Schema = dict[str, Any]
MOST_SEED = 1 << 40


def text(meaning: str, most: int, least: int = 0, **more: Any) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most, "description": meaning, **more}


def number(meaning: str, least: float, most: float, **more: Any) -> Schema:
    return {"type": "number", "minimum": least, "maximum": most, "description": meaning, **more}


def whole(meaning: str, least: int, most: int, **more: Any) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "description": meaning, **more}


def flag(meaning: str, **more: Any) -> Schema:
    return {"type": "boolean", "description": meaning, **more}


def listing(items: Schema, most: int, least: int = 1, meaning: str = "") -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, "description": meaning}


def one_or_more(meaning: str, most: int, limits: Limits, least: int = 0) -> Schema:
    one = text("", limits.text, least)
    return {"anyOf": [one, listing(one, most)], "description": meaning}


def optional(schema: Schema) -> Schema:
    """It may be left out, or null."""
    kind = schema.get("type")
    if kind is None:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [kind, "null"], **enum}


def record(properties: dict[str, Schema], required: tuple[str, ...] = (), closed: bool = True) -> Schema:
    """All that is not required may be left out."""
    own = {name: each if name in required else optional(each) for name, each in properties.items()}
    more = {"additionalProperties": False} if closed else {}
    return {"type": "object", "properties": own, "required": list(required), **more}


KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def bad(where: str, message: str) -> Refused:
    return Refused(400, f"{where}: {message}" if where else message, "bad_request")


def parse(body: bytes) -> Any:
    """JSON as the standard has it: no NaN, no numbers or nesting beyond what can be kept."""
    try:
        return json.loads(body.decode(), parse_constant=refuse_constant)
    except RecursionError:
        raise bad("", "the body is nested too deeply") from None
    except ValueError:
        raise bad("", "the body is not JSON in UTF-8") from None


def refuse_constant(name: str) -> None:
    raise ValueError(name)


def check(value: Any, schema: Schema, where: str = "") -> Any:
    """The value, with defaults for what was left out; or what is wrong with it."""
    if "anyOf" in schema:
        return check_any(value, schema["anyOf"], where)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        value = int(value)
    kind = next((each for each in kinds if is_kind(value, each)), None)
    if kind is None:
        raise bad(where, f"this has to be {' or '.join(NAMES[each] for each in kinds)}")
    if kind in CHECKS:
        value = CHECKS[kind](value, schema, where)
    if "enum" in schema and value not in schema["enum"]:
        allowed = [json.dumps(each) for each in schema["enum"] if each is not None]
        raise bad(where, f"this has to be {'one of ' if len(allowed) > 1 else ''}{', '.join(allowed)}")
    return value


def is_kind(value: Any, kind: str) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def check_any(value: Any, schemas: list[Schema], where: str) -> Any:
    own = [each for each in schemas if is_kind(value, each["type"])]
    if not own:
        raise bad(where, f"this has to be {' or '.join(NAMES[each['type']] for each in schemas)}")
    return check(value, own[0], where)


def check_text(value: str, schema: Schema, where: str) -> str:
    if not is_unicode(value):
        raise bad(where, "this is not valid Unicode: it has a broken character")
    if len(value) > schema.get("maxLength", math.inf):
        raise bad(where, f"this has {len(value):,} characters, and may have {schema['maxLength']:,}")
    if len(value) < schema.get("minLength", 0):
        raise bad(where, "this is empty")
    return value


def check_number(value: float, schema: Schema, where: str) -> float:
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not (math.isfinite(value) if isinstance(value, float) else True) or not least <= value <= most:
        raise bad(where, f"this has to be from {least:,} to {most:,}")
    if value == schema.get("exclusiveMinimum"):
        raise bad(where, f"this has to be above {value:,}")
    return value


def check_list(value: list[Any], schema: Schema, where: str) -> list[Any]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
    if not least <= len(value) <= most:
        raise bad(where, f"this has {len(value):,} items, and may have from {least:,} to {most:,}")
    return [check(each, schema["items"], f"{where}[{number}]") for number, each in enumerate(value)]


def check_object(value: dict[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    properties: dict[str, Schema] = schema["properties"]
    for name in value:
        if name not in properties and schema.get("additionalProperties") is False:
            known = did_you_mean(name[:40], properties) if is_unicode(name) else "see /openapi.json"
            raise bad(where, f"there is no such field; {known}")
    for name in schema["required"]:
        if name not in value:
            raise bad(f"{where}.{name}" if where else name, "this is missing")
    checked = {name: each.get("default") for name, each in properties.items()}
    for name, each in value.items():
        if name in properties and (each is not None or name in schema["required"]):
            checked[name] = check(each, properties[name], f"{where}.{name}" if where else name)
    return checked


CHECKS: dict[str, Any] = {
    "string": check_text,
    "integer": check_number,
    "number": check_number,
    "array": check_list,
    "object": check_object,
}
