#!/usr/bin/env python3
"""Writes src/shingle/protocol.py out of the schema of the control protocol: python3 generate.py [--check]"""

import json
import keyword
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent / "docs" / "control-protocol.schema.json"
OUT = HERE / "src" / "shingle" / "protocol.py"

HEAD = '''"""The control protocol's types and operations. Made by generate.py out of docs/control-protocol.schema.json: do not edit."""

from abc import ABC, abstractmethod
from typing import Any, Literal, NotRequired, TypedDict, cast
'''
OPERATIONS = '''

class Operations(ABC):
    """Every operation of the control protocol. Sectors have 512 bytes."""

    @abstractmethod
    def request(self, op: str, fields: dict[str, Any]) -> Any:
        """Sends one request, and returns what is in `ok` of the answer. Fields that are `None` are left out."""
'''
SIMPLE = {"string": "str", "boolean": "bool", "integer": "int", "number": "float", "object": "dict[str, Any]", "null": "None"}


def reference(node: dict[str, str]) -> str:
    return node["$ref"].rsplit("/", 1)[1]


def name_of(definition: str, schema: dict[str, Any]) -> str:
    """The name of a definition. The generator of the schema numbers those that are generic: here they are named by what is in them."""
    if not definition[-1].isdigit():
        return definition
    (field,) = schema[definition]["properties"].values()
    return f"{definition.rstrip('0123456789')}Of{reference(field['items'])}"


def type_of(node: dict[str, Any], defs: dict[str, Any]) -> str:
    """A part of the schema as a Python type."""
    if "$ref" in node:
        return name_of(reference(node), defs)
    if "anyOf" in node:
        return " | ".join(type_of(each, defs) for each in node["anyOf"])
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return " | ".join(one_type(kind, node, defs) for kind in kinds)


def one_type(kind: str, node: dict[str, Any], defs: dict[str, Any]) -> str:
    if kind == "array":
        return f"list[{type_of(node['items'], defs)}]"
    if kind == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"dict[str, {type_of(node['additionalProperties'], defs)}]"
    return SIMPLE[kind]


def comment(text: str, indent: str) -> str:
    return textwrap.fill(text, 118, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def typed(name: str, node: dict[str, Any], defs: dict[str, Any]) -> str:
    """A definition as a type: names that can be chosen among, or an object."""
    if "oneOf" in node:
        names = ", ".join(json.dumps(each["const"]) for each in node["oneOf"])
        body = f"Literal[{names}]" if len(names) < 90 else "Literal[\n    " + names.replace(", ", ",\n    ") + ",\n]"
        return f"\n{comment(node['description'], '')}\n{name} = {body}\n"
    lines = [f'\n\nclass {name}(TypedDict):', f'    """{node["description"]}"""', ""]
    for field, each in node.get("properties", {}).items():
        assert not keyword.iskeyword(field), field
        of = type_of(each, defs)
        lines.append(comment(each["description"], "    "))
        lines.append(f"    {field}: {of if field in node.get('required', []) else f'NotRequired[{of}]'}")
    return "\n".join(lines).rstrip() + "\n"


def resolved(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        node = defs[reference(node)]
    return node


def method(op: str, request: str, answer: str, defs: dict[str, Any]) -> str:
    """An operation as a method: what must be there by place, all else by name."""
    node = resolved(defs[request], defs)
    fields = node.get("properties", {})
    must = [field for field in fields if field in node.get("required", [])]
    may = [field for field in fields if field not in must]
    words = ["self"] + [f"{field}: {type_of(fields[field], defs)}" for field in must]
    if may:
        words.append("*")
    for field in may:
        of = type_of(fields[field], defs)
        words.append(f"{field}: {of}{'' if 'None' in of else ' | None'} = None")
    sent = "{" + ", ".join(f'"{field}": {field}' for field in fields) + "}"
    lines = [
        f"\n    def {op.replace('.', '_')}({', '.join(words)}) -> {answer}:",
        f'        """`{op}`: {defs[request]["description"]}"""',
        f'        return cast({answer}, self.request("{op}", {sent}))',
    ]
    return "\n".join(lines) + "\n"


def references(node: Any) -> set[str]:
    """The definitions that a part of the schema names."""
    if isinstance(node, list):
        return set().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    own = {reference(node)} if "$ref" in node else set()
    return own.union(*map(references, node.values()))


def in_order(names: list[str], defs: dict[str, Any]) -> list[str]:
    """Those definitions and all that they consist of, what others consist of first."""
    done: list[str] = []
    for name in names:
        if name not in done:
            done += [each for each in in_order(sorted(references(defs[name])), defs) if each not in done]
            done.append(name)
    return done


def generated() -> str:
    schema = json.loads(SCHEMA.read_text())
    defs = schema["$defs"]
    operations = {op: (reference(each["request"]), reference(each["ok"])) for op, each in schema["operations"].items()}
    answers = [answer for _, answer in operations.values()]
    arguments = [each for request, _ in operations.values() for each in sorted(references(resolved(defs[request], defs)))]
    names = in_order(answers + arguments + [reference(schema["error"])], defs)
    types = "".join(typed(name_of(name, defs), defs[name], defs) for name in names)
    methods = "".join(method(op, request, name_of(answer, defs), defs) for op, (request, answer) in operations.items())
    return HEAD + types + OPERATIONS + methods


if __name__ == "__main__":
    text = generated()
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if OUT.read_text() == text else f"{OUT.name} is not what the schema says: run generate.py, and commit what it writes")
    OUT.write_text(text)
