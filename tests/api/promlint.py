"""The rules of `promtool check metrics` (promlint of client_golang), for a text in Prometheus' format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

BASE_UNITS = "amperes bytes celsius grams joules kelvins meters metres moles seconds volts".split()
OTHER_UNITS = "minutes hours days weeks fahrenheits celsius candelas bits octets".split()
PREFIXES = "pico nano micro milli centi deci deca hecto kilo kibi mega mibi giga gibi tera tebi peta pebi".split()
ABBREVIATIONS = "s ms us ns sec b kb mb gb tb pb m h d".split()
TYPES = "gauge counter histogram summary".split()
RESERVED = {"_bucket": ("histogram",), "_count": ("histogram", "summary"), "_sum": ("histogram", "summary")}
NOT_BASE = {f"{prefix}{unit}" for prefix in PREFIXES for unit in BASE_UNITS} | (set(OTHER_UNITS) - set(BASE_UNITS))


def lint(text: str) -> list[str]:
    """What is wrong, as sentences."""
    helped = set(re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE))
    typed = re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE)
    written = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}
    problems = [
        f"{name} is declared twice" for name in {name for name, _ in typed} if [n for n, _ in typed].count(name) > 1
    ]
    for name, kind in typed:
        if name not in helped:
            problems.append(f"{name} has no help text")
        if (kind == "counter") != name.endswith("_total"):
            problems.append(f"{name} is a {kind}: only counters, and all of them, end in _total")
        problems += [
            f"{name} is a {kind} and ends in {end}"
            for end, kinds in RESERVED.items()
            if name.endswith(end) and kind not in kinds
        ]
        problems += list(_wrong_name(name))
    families = list(text_string_to_metric_families(text))
    problems += [f"{name} has no type" for name in written - _samples(families)]
    for family in families:
        labels = {label for sample in family.samples for label in sample.labels}
        if family.type == "unknown":
            problems.append(f"{family.name} has no type")
        if family.type != "summary" and "quantile" in labels:
            problems.append(f"{family.name} is no summary and has the label quantile")
        if family.type != "histogram" and "le" in labels:
            problems.append(f"{family.name} is no histogram and has the label le")
        problems += [
            f"{family.name}: label {label} is in camel case" for label in labels if re.search("[a-z][A-Z]", label)
        ]
    return sorted(problems)


def _samples(families: list[Metric]) -> set[str]:
    return {sample.name for family in families for sample in family.samples}


def _wrong_name(name: str) -> Iterator[str]:
    words = name.split("_")
    for word in words:
        if word in NOT_BASE:
            yield f"{name}: {word} is no base unit"
        if word in ABBREVIATIONS:
            yield f"{name}: {word} is an abbreviated unit"
        if word in TYPES:
            yield f"{name} names its type"
    if ":" in name or re.search("[a-z][A-Z]", name):
        yield f"{name} has a colon or is in camel case"
