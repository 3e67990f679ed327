"""What a reader of configurations, its JSON Schema and its page say is the same: what the checks of all of them share.

A check is a program: schema_check CONFIG_VERDICT [unittest argument…], run by `run_checks()`. CONFIG_VERDICT is made of
tests/support/config_verdict.hpp. The check has one `Configuration`, and classes of tests that are made of those below.
"""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = []
WRONG = ({"surely": "unknown"}, ["surely", 5], "surely not this", -5, 2.5, True, None, "", "5", "5s")


# ---- documents -----------------------------------------------------------------------------------------------------


class Loader(yaml.SafeLoader):
    """YAML 1.2, as editors read it: `yes` is a text, 1:30 is no number."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
        ("bool", r"^(true|True|TRUE|false|False|FALSE)$", "tTfF"),
        ("null", r"^(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
        ("int", r"^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
        ("float", r"^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$",
         "-+.0123456789")]:
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


def decimal(loader, node):
    return int(node.value, 0) if node.value[:2] in {"0x", "0o"} else int(node.value)


Loader.add_constructor("tag:yaml.org,2002:int", decimal)


def load(text):
    return yaml.load(text, Loader)


def paths_of(value, path=()):
    if path:
        yield path
    if isinstance(value, dict):
        for name, child in value.items():
            yield from paths_of(child, (*path, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from paths_of(child, (*path, index))


def replaced(document, path, value):
    document = copy.deepcopy(document)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


class Files:
    """Texts as files, for as many calls of the reader as it takes."""

    def __init__(self, texts):
        self.texts = texts

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        paths = [Path(self.folder.name) / f"{number}.yaml" for number in range(len(self.texts))]
        for path, text in zip(paths, self.texts):
            path.write_text(text, encoding="utf-8")
        return [str(path) for path in paths]

    def __exit__(self, *_):
        self.folder.cleanup()


# ---- what is compared ----------------------------------------------------------------------------------------------


class Configuration:
    """A kind of configuration: its reader, its schema, its page. `value_of` gives a right value for a variable's name."""

    def __init__(self, schema, page, value_of=lambda name: f"value-of-{name}-0123456789"):
        self.schema = json.loads((ROOT / schema).read_text(encoding="utf-8"))
        self.page = (ROOT / page).read_text(encoding="utf-8")
        self.value_of = value_of

    def refusal(self, document):
        """Why the schema refuses it, or nothing."""
        errors = sorted(jsonschema.Draft202012Validator(self.schema).iter_errors(document),
                        key=lambda e: list(map(str, e.path)))
        return "; ".join(f"{error.json_path}: {error.message}" for error in errors)

    def ask(self, *arguments, texts=()):
        names = {name for text in texts for name in re.findall(r"\$\{(\w+)\}", text)}
        return subprocess.run([*PROGRAM, *arguments], stdout=subprocess.PIPE, check=True, encoding="utf-8",
                              env={**os.environ, **{name: self.value_of(name) for name in names}}).stdout.splitlines()

    def verdicts(self, texts):
        """The reader's: "ok", or the problems."""
        with Files(texts) as paths:
            return self.ask(*paths, texts=texts)

    def shapes(self):
        """The names of each kind of mapping, as the reader knows them."""
        return {line.split()[0]: line.split()[1:] for line in self.ask("--shapes")}

    def defaults(self):
        """Kind, name and value of every default of the schema."""
        for kind, shape in self.schema["$defs"].items():
            for name, setting in shape.get("properties", {}).items():
                if "default" in setting:
                    yield kind, name, setting["default"]


# ---- tests ---------------------------------------------------------------------------------------------------------


class SchemaAgreesWithReader:
    """Whatever the schema refuses the reader refuses, and so whatever the reader accepts the schema accepts. (The reader
    knows more: what has to fit together.)

    GOOD and BAD are texts of whole files; EXAMPLES are those of the page; CHANGED are the texts whose every value is replaced
    by what it may not be, which has to give at least CHANGES_MIN files.
    """

    def test_what_is_meant_to_be_good_is_to_both(self):
        texts = self.GOOD
        for text, verdict in zip(texts, self.CONFIGURATION.verdicts(texts)):
            self.assertEqual(verdict, "ok", text)
            self.assertEqual(self.CONFIGURATION.refusal(load(text)), "", text)

    def test_what_is_meant_to_be_bad_is_to_both(self):
        texts = self.BAD
        for text, verdict in zip(texts, self.CONFIGURATION.verdicts(texts)):
            self.assertNotEqual(verdict, "ok", text)
            self.assertNotEqual(self.CONFIGURATION.refusal(load(text)), "", text)

    def test_any_setting_of_a_wrong_type_is_refused_by_both_alike(self):
        texts = set()
        for document in map(load, self.CHANGED):
            for path in paths_of(document):
                texts |= {json.dumps(replaced(document, path, wrong)) for wrong in WRONG}
        texts = sorted(texts)
        accepted = 0
        for text, verdict in zip(texts, self.CONFIGURATION.verdicts(texts)):
            if verdict == "ok":
                accepted += 1
                self.assertEqual(self.CONFIGURATION.refusal(json.loads(text)), "", text)
        self.assertGreater(len(texts), self.CHANGES_MIN)
        self.assertGreater(accepted, 50, "names and paths may be many things")

    def test_the_names_are_the_same(self):
        known = self.CONFIGURATION.shapes()
        kinds = self.CONFIGURATION.schema["$defs"]
        defined = {kind: list(shape["properties"]) for kind, shape in kinds.items() if "properties" in shape}
        self.assertEqual(set(known), set(defined))
        for kind, names in known.items():
            self.assertEqual(set(names), set(defined[kind]), kind)
            self.assertIs(kinds[kind]["additionalProperties"], False, kind)

    def test_the_schema_is_one_and_describes_every_setting(self):
        jsonschema.Draft202012Validator.check_schema(self.CONFIGURATION.schema)
        kinds = self.CONFIGURATION.schema["$defs"]
        for kind, shape in kinds.items():
            for name, setting in shape.get("properties", {}).items():
                target = kinds.get(setting.get("$ref", "").rpartition("/")[2], {})
                self.assertTrue(setting.get("description") or target.get("description"), f"{kind}.{name}")


class DefaultsAgreeWithReader:
    """A default is what happens without the setting. BASES has, for each kind of mapping with defaults (or for one name of
    it: "kind.name"), a right file around its settings."""

    def test_a_default_is_what_happens_without_the_setting(self):
        texts = []
        for kind, name, value in self.CONFIGURATION.defaults():
            base = self.BASES.get(f"{kind}.{name}") or self.BASES[kind]
            texts += [json.dumps(base({})), json.dumps(base({name: value}))]
        self.assertGreater(len(texts), 0)
        with Files(texts) as paths:
            answers = self.CONFIGURATION.ask("--same", *paths)
        self.assertEqual(len(answers), len(texts) // 2)
        for without, written, answer in zip(texts[::2], texts[1::2], answers):
            self.assertEqual(answer, "same", f"{without}\n{written}")


class PageAgreesWithReader:
    """Every example of the page is right; its tables have every name, and the default of every name of the kinds IN_TABLES,
    in the cell behind it."""

    def test_every_example_is_right(self):
        texts = self.EXAMPLES
        self.assertGreaterEqual(len(texts), self.EXAMPLES_MIN)
        for text, verdict in zip(texts, self.CONFIGURATION.verdicts(texts)):
            self.assertEqual(verdict, "ok", text)
            self.assertEqual(self.CONFIGURATION.refusal(load(text)), "", text)

    def test_every_name_is_on_the_page(self):
        quoted = " ".join(re.findall(r"`([^`\n]+)`", self.CONFIGURATION.page))
        words = set(re.findall(r"[a-z_]+", quoted + " ".join(self.EXAMPLES)))
        for kind, names in self.CONFIGURATION.shapes().items():
            self.assertEqual(set(names) - words, set(), kind)

    def test_every_default_of_the_schema_is_on_the_page(self):
        rows = {}
        for line in self.CONFIGURATION.page.splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > 3 and cells[1].startswith("`"):
                for name in re.findall(r"`[.\w]*?(\w+)`", cells[1]):
                    rows.setdefault(name, []).append(cells[2])
        for kind, name, value in self.CONFIGURATION.defaults():
            if kind not in self.IN_TABLES or f"{kind}.{name}" in self.TOLD_OTHERWISE:
                continue
            self.assertIn("`" + json.dumps(value).strip('"') + "`", rows.get(name, []), f"{kind}.{name}")

    TOLD_OTHERWISE = ()


def run_checks(usage):
    if len(sys.argv) < 2:
        sys.exit(usage)
    PROGRAM.append(sys.argv.pop(1))
    unittest.main()
