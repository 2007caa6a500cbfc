"""What the chat says: something that fits a schema, made of the facts that it was given.

A message may hold a brief, a JSON object with numbered `facts` (each with a `text` and a `part`), `parts`
(numbers from 0 to 100 by name), `said` (numbered claims) and `you`. Then a text repeats a fact and names its
number beside it, whoever is `bear` takes facts of low parts, and a verdict follows the score. Without one,
what is said follows from the words alone. The same question has the same answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from systems.twins.kit.shapes import NUMBER, misfit

HALF = 50
# What of JSON Schema is understood; the schemas below another are looked at in turn.
SCHEMA = {
    "type": str,
    "enum": list,
    "properties": {},
    "required": [str],
    "items": {},
    "minimum": NUMBER,
    "maximum": NUMBER,
}


class Brief:
    """The facts of a question, as far as there are any."""

    def __init__(self, messages: Iterable[dict[str, Any]]) -> None:
        found = next((each for each in map(_object, messages) if each), {})
        self.you = str(found.get("you", ""))
        parts = found.get("parts")
        self.parts: dict[str, Any] = parts if isinstance(parts, dict) else {}
        facts = [each for each in _listed(found, "facts") if "number" in each and "text" in each]
        chosen = [each for each in facts if self._mine(each)]
        self.facts = chosen or facts
        self.said = [each["number"] for each in _listed(found, "said") if "number" in each]

    def _mine(self, fact: dict[str, Any]) -> bool:
        """Whether a fact is on the speaker's side."""
        value = self.parts.get(str(fact.get("part")))
        if self.you not in {"bull", "bear"} or not isinstance(value, (int, float)):
            return True
        return (value < HALF) == (self.you == "bear")

    def claim(self, digest: bytes, names: Iterable[str]) -> dict[str, Any] | None:
        """A text with its facts, if that is what is asked for."""
        if not self.facts or not {"text", "facts"} <= set(names):
            return None
        fact = self.facts[digest[0] % len(self.facts)]
        text = str(fact["text"]).translate({ord(each): None for each in '"“”'})
        answers = [self.said[digest[1] % len(self.said)]] if self.said else []
        return {"text": text, "facts": [fact["number"]], "answers": answers}

    def verdict(self, choices: list[Any]) -> Any:
        """The better the score, the earlier the choice."""
        score = self.parts.get("score")
        if not isinstance(score, (int, float)) or not all(isinstance(c, str) for c in choices):
            return None
        return choices[min(len(choices) - 1, max(0, int((100 - score) * len(choices) / 100)))]


def _object(message: dict[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(message.get("content") or "")
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("facts"), list) else {}


def _listed(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    given = found.get(name)
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def say(sent: dict[str, Any]) -> str:
    """The content of an answer."""
    form = sent.get("response_format") or {}
    digest = hashlib.sha256(json.dumps(sent["messages"]).encode()).digest()
    brief = Brief(sent["messages"])
    match form.get("type", "text"):
        case "json_schema":
            return json.dumps(fit(form["json_schema"]["schema"], digest, brief))
        case "json_object":
            return json.dumps(_freely(digest, brief))
    return f"Considered {digest[2]} points; the balance is {digest[1] % 101} of 100."


def _freely(digest: bytes, brief: Brief) -> dict[str, Any]:
    """Without a schema: claims about facts, or a stance."""
    if claim := brief.claim(digest, ("text", "facts")):
        more = {"verdict": brief.verdict(["build", "watch", "leave"]) or "watch", "tips": [claim]}
        return {"claims": [claim], **(more if brief.you == "judge" else {})}
    stance = ("bull", "bear", "neutral")[digest[0] % 3]
    return {"stance": stance, "score": digest[1] % 101, "why": "By the numbers."}


def fit(schema: dict[str, Any], digest: bytes, brief: Brief) -> Any:
    """Something that the schema allows, chosen by the facts or else by the digest."""
    if schema.get("enum"):
        ruled = brief.verdict(schema["enum"])
        return schema["enum"][digest[0] % len(schema["enum"])] if ruled is None else ruled
    match schema.get("type"):
        case "object":
            names = schema.get("properties") or {}
            known = brief.claim(digest, names) or {}
            return {
                name: known[name] if name in known else fit(below, _next(digest, name), brief)
                for name, below in names.items()
            }
        case "array":
            count = range(1 + digest[0] % 3)
            return [fit(schema["items"], _next(digest, str(n)), brief) for n in count]
        case "integer" | "number":
            low, high = schema.get("minimum") or 0, schema.get("maximum") or 100
            return low + digest[0] % (max(0, int(high - low)) + 1)
        case "boolean":
            return digest[0] % 2 == 0
        case "null":
            return None
    return f"By the numbers, {digest[0] % 10} of 10."


def _next(digest: bytes, name: str) -> bytes:
    return hashlib.sha256(digest + name.encode()).digest()


def invented(text: str) -> str:
    """The same answer with a number and a fact that nobody gave."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    for claim in _listed(found, "claims") if isinstance(found, dict) else []:
        claim |= {"text": f"{claim.get('text', '')}, and 987654 more", "facts": [999]}
    return json.dumps(found)


def loose(form: dict[str, Any]) -> str | None:
    """What strict structured output does not allow in a schema."""
    wanted = form.get("json_schema") or {}
    name = str(wanted.get("name", ""))
    if not 1 <= len(name) <= 64 or not name.replace("-", "").replace("_", "").isalnum():
        return "the name has to be up to 64 letters, digits, dashes and underscores"
    schema = wanted.get("schema")
    if not isinstance(schema, dict):
        return "there is no schema"
    if path := _misfit(schema):
        return f"the type of {path} is wrong"
    if wanted.get("strict") and schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required") or []) != set(schema.get("properties") or {}):
            return "'required' is required to be supplied and to include every key in properties."
    return None


def _misfit(schema: Any, path: str = "schema") -> str | None:
    if not isinstance(schema, dict):
        return path
    below = dict(schema["properties"]) if isinstance(schema.get("properties"), dict) else {}
    if schema.get("type") == "array" or "items" in schema:
        below["items"] = schema.get("items")
    wrong = misfit(schema, SCHEMA, path) or (f"{path}.enum" if schema.get("enum") == [] else None)
    return wrong or next((w for k, v in below.items() if (w := _misfit(v, f"{path}.{k}"))), None)
