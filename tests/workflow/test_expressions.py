"""What expressions mean, what they refuse, and that they stay within their bounds."""

from typing import Any

import pytest

from rmhdag.workflow.expressions import (
    ExpressionError,
    Missing,
    Reference,
    compile_branch,
    compile_condition,
    compile_template,
    compile_value,
    resolve_path,
    truth,
)
from rmhdag.workflow.expressions.budget import MAX_WORK
from rmhdag.workflow.expressions.values import MAX_TEXT_CHARACTERS


class Data:
    """A scope over plain data."""

    def __init__(self, **roots: Any) -> None:
        self.roots = roots
        self.work = 0
        self.looked_up: list[tuple[str, tuple[str | int, ...]]] = []

    def lookup(self, root: str, path: tuple[str | int, ...]) -> Any:
        self.looked_up.append((root, path))
        if root not in self.roots:
            raise Missing(f"no {root}")
        return resolve_path(self.roots[root], path)


DATA = Data(
    inputs={
        "one": 1,
        "two": 2,
        "half": 0.5,
        "text": "Some Text",
        "empty": "",
        "yes": True,
        "nothing": None,
        "numbers": [3, 1, 2],
        "words": ["b", "a"],
        "deep": {"items": [{"keys": 7}], "a-b": 1, "__class__": "data"},
        "template": "{{ inputs.one }}",
    },
    nodes={"n": {"output": {"x": [10, 20]}, "status": "completed"}},
    item={"key": "k"},
    index=4,
    fan_out={"item": {"key": "k"}, "index": 4, "total": 9},
    env={"REGION": "north"},
)


def value(text: str) -> Any:
    return compile_template(text).evaluate(DATA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{{ inputs.one }}", 1),
        ("{{inputs.one}}", 1),
        ("{{ inputs.half }}", 0.5),
        ("{{ inputs.nothing }}", None),
        ("{{ inputs.numbers }}", [3, 1, 2]),
        ("n={{ inputs.one }}", "n=1"),
        (" {{ inputs.one }}", " 1"),
        ("{{ inputs.one }}{{ inputs.two }}", "12"),
        ("{{ inputs.yes }}!", "true!"),
        ("{{ inputs.deep['items'][0].keys }}", 7),
        ("{{ inputs.deep.items[-1]['keys'] }}", 7),
        ("{{ inputs.deep.items.0.keys }}", 7),
        ("{{ inputs.deep['a-b'] }}", 1),
        ("{{ inputs.deep.__class__ }}", "data"),
        ("{{ inputs.numbers[inputs.one] }}", 1),
        ("{{ nodes.n.output.x[1] }}", 20),
        ("{{ nodes['n'].status }}", "completed"),
        ("{{ item.key }}{{ index }}{{ fan_out.index }}/{{ fan_out.total }}", "k44/9"),
        ("{{ env.REGION }}", "north"),
        ("{{ inputs.one + 2 * 3 }}", 7),
        ("{{ 7 // 2 }}", 3),
        ("{{ 7 / 2 }}", 3.5),
        ("{{ 7 % 4 }}", 3),
        ("{{ -inputs.two }}", -2),
        ("{{ 'a' + 'b' }}", "ab"),
        ("{{ 'a' ~ 1 ~ true }}", "a1true"),
        ("{{ 'big' if inputs.two > 1 else 'small' }}", "big"),
        ("{{ inputs.empty or 'fallback' }}", "fallback"),
        ("{{ inputs.one and inputs.text }}", "Some Text"),
        ("{{ not inputs.empty }}", True),
        ("{{ 1 < inputs.two <= 2 }}", True),
        ("{{ inputs.two in [1, 2] }}", True),
        ("{{ 'Text' in inputs.text }}", True),
        ("{{ 'items' in inputs.deep }}", True),
        ("{{ 5 not in [] }}", True),
        ("{{ inputs.nothing == none }}", True),
        ("{{ inputs.one != null }}", True),
        ("{{ [1, 'a', none] == [1, 'a', none] }}", True),
        ("{{ [1] == [true] }}", False),
        ("{{ 1 == 1.0 }}", True),
        ("{{ {'a': inputs.one, 'b': [true]} }}", {"a": 1, "b": [True]}),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ '{{' }}", "{{"),
        ("a {{ '}}' }} b", "a }} b"),
        ("}} alone", "}} alone"),
        ("{ {x} }", "{ {x} }"),
        ("{{ {'a': {'b': 1}}}}", {"a": {"b": 1}}),
        ("{{ inputs.gone | default(5) }}", 5),
        ("{{ inputs.nothing | default(5) }}", 5),
        ("{{ inputs.empty | default(5) }}", ""),
        ("{{ inputs.empty | default(5, true) }}", 5),
        ("{{ inputs.empty | default(5, boolean=true) }}", 5),
        ("{{ inputs.empty | default(5, false) }}", ""),
        ("{{ inputs.gone | default(5, true) }}", 5),
        ("{{ 0 | default(5, true) }}", 5),
        ("{{ [] | default([1], true) }}", [1]),
        ("{{ 3 | default(5, true) }}", 3),
        ("{{ inputs.deep.gone.further | default('x') | upper }}", "X"),
        ("{{ inputs.gone is defined }}", False),
        ("{{ inputs.gone is undefined }}", True),
        ("{{ inputs.one is not defined }}", False),
        ("{{ inputs.yes is number }}", False),
        ("{{ inputs.half is number }}", True),
        ("{{ inputs.two is even and inputs.one is odd }}", True),
        ("{{ inputs.nothing is none }}", True),
        ("{{ inputs.deep is mapping and inputs.numbers is sequence and inputs.text is string }}", True),
        ("{{ inputs.yes is true and inputs.yes is boolean and inputs.one is integer }}", True),
        ("{{ inputs.text | length }}", 9),
        ("{{ inputs.text | lower }}", "some text"),
        ("{{ ' x ' | trim }}", "x"),
        ("{{ 2.5 | round }}", 2),
        ("{{ 2.567 | round(2) }}", 2.57),
        ("{{ '12' | int }}", 12),
        ("{{ -2.9 | int }}", -2),
        ("{{ '1.5' | float }}", 1.5),
        ("{{ 3 | string }}", "3"),
        ("{{ inputs.numbers | join(', ') }}", "3, 1, 2"),
        ("{{ inputs.numbers | sort }}", [1, 2, 3]),
        ("{{ inputs.words | sort(reverse=true) | first }}", "b"),
        ("{{ inputs.numbers | max - inputs.numbers | min }}", 2),
        ("{{ inputs.numbers | sum }}", 6),
        ("{{ [1, 2, 1, true] | unique }}", [1, 2, True]),
        ("{{ 'a/b/c.tif' | basename }}", "c.tif"),
        ("{{ 'a/b/c.tif' | dirname }}", "a/b"),
        ("{{ 'a/b/.hidden' | stem }}", ".hidden"),
        ("{{ 'a/b/c.tar.gz' | stem }}", "c.tar"),
        ("{{ 'a,b' | split(',') }}", ["a", "b"]),
        ("{{ 'aXb' | replace('X', '-') }}", "a-b"),
        ("{{ {'ä': [1, none]} | tojson }}", '{"ä":[1,null]}'),
        ("{{ {'k': 1} | keys }}", ["k"]),
        ("{{ -3 | abs }}", 3),
    ],
)
def test_values(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ inputs.one < inputs.text }}", "compare number with text"),
        ("{{ inputs.one == inputs.text }}", "compare number with text"),
        ("{{ inputs.yes == inputs.one }}", "compare true/false with number"),
        ("{{ inputs.one in inputs.words }}", "compare number with text"),
        ("{{ inputs.one in inputs.text }}", "compare number with text"),
        ("{{ inputs.nothing < 1 }}", "compare null with number"),
        ("{{ inputs.numbers < inputs.numbers }}", "no order"),
        ("{{ 1 in inputs.one }}", "needs a list"),
        ("{{ inputs.yes + 1 }}", "takes numbers"),
        ("{{ inputs.text + 1 }}", "cannot add"),
        ("{{ inputs.text * 3 }}", "takes numbers"),
        ("{{ inputs.text % 3 }}", "takes numbers"),
        ("{{ inputs.one / 0 }}", "by zero"),
        ("{{ 9223372036854775807 + inputs.one }}", "64 bits"),
        ("{{ 1e308 * 10 + inputs.one }}", "not finite"),
        ("{{ 99999999999999999999 }}", "64 bits"),
        ("{{ 1e999 }}", "not finite"),
        ("x {{ inputs.nothing }}", "null has no text"),
        ("x {{ inputs.numbers }}", "tojson"),
        ("x {{ inputs.deep }}", "tojson"),
        ("{{ inputs.gone }}", "no key 'gone'"),
        ("{{ inputs.numbers[9] }}", "no position 9"),
        ("{{ inputs.numbers.first }}", "no key 'first'"),
        ("{{ inputs.text.upper }}", "no key 'upper'"),
        ("{{ inputs.deep[inputs.yes] }}", "a key is text"),
        ("{{ inputs.words | sum }}", "takes numbers"),
        ("{{ [1, 'a'] | sort }}", "list of numbers or a list of texts"),
        ("{{ [] | first }}", "empty list"),
        ("{{ [] | max }}", "empty list"),
        ("{{ [[1]] | unique }}", "plain values"),
        ("{{ inputs.text | int }}", "not a whole number"),
        ("{{ 'nan' | float }}", "not finite"),
        ("{{ inputs.text | round }}", "takes numbers"),
        ("{{ 1 | round(99) }}", "decimal places"),
        ("{{ inputs.one | lower }}", "takes text"),
        ("{{ 'a' | replace('', 'x') }}", "no meaning"),
        ("{{ 'a' | split('') }}", "no meaning"),
        ("{{ 1.5 is even }}", "whole number"),
        ("{{ '\\ud800' }}", "surrogate"),
        ("{{ '\\0' }}", "NUL"),
        ("{{ {inputs.text: 1} }}", "quoted text"),
        ("{{ 1 if inputs.one }}", "both sides"),
        ("{{ 'a' is divisibleby 3 }}", "no argument"),
        ("{{ inputs.one is iterable }}", "no test"),
    ],
)
def test_mistakes_are_errors_with_a_remedy(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert words in caught.value.message
    message, _, remedy = caught.value.message.partition(". ")
    assert message
    assert remedy


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ inputs.text.__class__ }}",
        "{{ inputs.numbers.__len__ }}",
        "{{ inputs.text['__class__'] }}",
        "{{ 'x' | attr('format') }}",
        "{{ '%1000000000s' | format('x') }}",
        "{{ range(99999) }}",
        "{% for i in range(99999) %}x{% endfor %}",
        "{{ 'a' * 10 ** 8 }}",
        "{{ 'a' * 100000000 }}",
        "{{ [0] * 100000000 }}",
        "{{ lipsum(n=100000) }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ 2 ** 100 }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% set x = 1 %}{{ x }}",
        "{% macro m() %}{% endmacro %}",
        "{% raw %}{{ x }}{% endraw %}",
        "{# comment #}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ joiner }}",
        "{{ namespace() }}",
        "{{ self }}",
        "{{ loop.index }}",
        "{{ inputs.get('x') }}",
        "{{ inputs.text.format(1) }}",
        "{{ inputs | map('upper') }}",
        "{{ inputs | xmlattr }}",
        "{{ inputs.numbers[0:1] }}",
        "{{ inputs | default(*inputs) }}",
        "{{ env }}",
        "{{ env[inputs.text] }}",
        "{{ nodes }}",
        "{{ nodes[inputs.text].output }}",
        "{{ undefined_name }}",
        "{{- inputs.one }}",
        "{{ inputs.one -}}",
    ],
)
def test_code_and_unknown_names_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        value(text)


def test_the_environment_is_what_the_scope_says() -> None:
    with pytest.raises(Missing):
        value("{{ env.PATH }}")


def test_data_is_never_evaluated_again() -> None:
    assert value("{{ inputs.template }}") == "{{ inputs.one }}"
    assert value("<{{ inputs.template }}>") == "<{{ inputs.one }}>"
    assert value("{{ '{{ inputs.one }}' }}") == "{{ inputs.one }}"
    assert value("{{ inputs.template ~ inputs.template }}") == "{{ inputs.one }}{{ inputs.one }}"
    assert compile_value({"{{ inputs.one }}": "{{ inputs.template }}"}).evaluate(DATA) == {
        "{{ inputs.one }}": "{{ inputs.one }}"
    }


def test_messages_never_show_values() -> None:
    secret = "hunter2-secret"
    scope = Data(inputs={"s": secret, "n": 1, "o": {secret: 1}, "l": [secret]})
    for text in (
        "{{ inputs.s + 1 }}",
        "{{ inputs.s < 1 }}",
        "{{ inputs.s | int }}",
        "{{ inputs.s | float }}",
        "{{ inputs.s | sum }}",
        "{{ inputs.n in inputs.l }}",
        "x {{ inputs.o }}",
        "{{ inputs.l | sum }}",
    ):
        with pytest.raises(ExpressionError) as caught:
            compile_template(text).evaluate(scope)
        assert secret not in str(caught.value)
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{{ foo }}", 1, 4),
        ("a\nb {{ inputs.x }}\n  {{ foo }}", 3, 6),
        ("{{ inputs.x | nope }}", 1, 15),
        ("{{ inputs.x", 1, 1),
        ("ab {{ inputs.x", 1, 4),
        ("{{ 1 +\n  'a' }}", 1, 4),
        ("{{ inputs.a b }}", 1, 13),
        ("text {% if %}", 1, 6),
        ("{{ inputs.a\n  ~ range(5) }}", 2, 10),
    ],
)
def test_errors_have_places(text: str, line: int, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_references_are_the_longest_literal_paths() -> None:
    compiled = compile_template("{{ nodes.a.output.x[0] | length }} {{ inputs.m[inputs.k].z }} {{ index }}")
    assert compiled.references == {
        Reference("nodes", ("a", "output", "x", 0)),
        Reference("inputs", ("m",)),
        Reference("inputs", ("k",)),
        Reference("index", ()),
    }
    assert compiled.positions[Reference("inputs", ("k",))] == (1, 48)
    assert str(Reference("nodes", ("a-b", "output", 0))) == "nodes['a-b'].output[0]"


def test_a_lone_reference_is_one_lookup() -> None:
    scope = Data(nodes={"a": {"output": {"x": 1}}})
    compiled = compile_template("{{ nodes.a.output.x }}")
    assert compiled.is_lone
    assert compiled.evaluate(scope) == 1
    assert scope.looked_up == [("nodes", ("a", "output", "x"))]


def test_static_values_are_shared() -> None:
    fixed = {"list": [1, 2, {"x": "y"}]}
    compiled = compile_value({"a": fixed, "b": "{{ inputs.one }}"})
    assert compiled.evaluate(DATA)["a"] is fixed
    assert not compiled.is_static
    assert compile_value(fixed).is_static
    assert compile_value(fixed).evaluate(DATA) is fixed
    assert compile_value(["{{ 1 + 1 }}"]).evaluate(DATA) == [2]
    assert compile_template("{{ 1 + 1 }}").is_static


def test_evaluating_twice_gives_fresh_containers() -> None:
    compiled = compile_value({"a": ["{{ inputs.one }}"], "b": 1})
    first, second = compiled.evaluate(DATA), compiled.evaluate(DATA)
    assert first == second == {"a": [1], "b": 1}
    assert first is not second
    assert first["a"] is not second["a"]


@pytest.mark.parametrize(
    ("subject", "condition", "expected"),
    [
        ("{{ inputs.two }}", "< 100", True),
        ("inputs.two", ">= 2 and < 3", True),
        ("inputs.two", "< 1 or > 1", True),
        ("inputs.two", "not (== 2)", False),
        ("inputs.two", "not == 2", False),
        ("inputs.text", "in ['Some Text', 'b']", True),
        ("inputs.text", "not in ['a', 'b']", True),
        ("inputs.text", "== 'Some Text'", True),
        ("inputs.text", "!= inputs.empty", True),
        ("inputs.gone", "is defined", False),
        ("inputs.numbers | length", "== 3", True),
        ("inputs.one", "== 1 and inputs.yes", True),
    ],
)
def test_branches(subject: str, condition: str, expected: bool) -> None:
    assert compile_branch(subject, condition).evaluate(DATA) is expected


@pytest.mark.parametrize(
    "condition", ["100", "= 5", "'a'", "inputs.one", "", "true", "5 <", "< ", "}} < 5", "< {{ 5 }}"]
)
def test_conditions_that_compare_nothing_are_refused(condition: str) -> None:
    with pytest.raises(ExpressionError):
        compile_branch("inputs.one", condition)


def test_conditions_may_be_bare_or_in_braces() -> None:
    assert compile_condition("inputs.one == 1").evaluate(DATA) is True
    assert compile_condition(" {{ inputs.one == 1 }} ").evaluate(DATA) is True
    assert compile_condition("inputs.numbers").evaluate(DATA) == [3, 1, 2]
    for text in ("{{ inputs.one }} == 1", "{{ inputs.one }}{{ inputs.two }}", "", "some words"):
        with pytest.raises(ExpressionError):
            compile_condition(text)


def test_literal_comparisons_are_judged_when_compiled() -> None:
    with pytest.raises(ExpressionError):
        compile_condition("1 < '2'")
    with pytest.raises(ExpressionError):
        compile_branch("5", "== 'a'")


@pytest.mark.parametrize("falsy", [False, None, 0, 0.0, "", [], {}])
def test_falsy_values(falsy: object) -> None:
    assert truth(falsy) is False


@pytest.mark.parametrize("truthy", [True, 1, -1, "0", "false", [0], {"a": None}])
def test_truthy_values(truthy: object) -> None:
    assert truth(truthy) is True


class TestBounds:
    big = Data(inputs={"big": "x" * 1_000_000, "list": list(range(100_000)), "longer": [0] * 100_001})

    @pytest.mark.parametrize(
        "text",
        [
            "{{ inputs.big ~ inputs.big }}",
            "{{ inputs.big + inputs.big }}",
            "{{ inputs.big }}{{ inputs.big }}",
            "{{ inputs.big | replace('x', 'yyyyyyyyyyyyyyyy') }}",
            "{{ [inputs.big, inputs.big] | join }}",
            "{{ inputs.list | join(inputs.big) }}",
            "{{ [inputs.big, inputs.big, inputs.big] | tojson }}",
            "{{ inputs.big | split('x') }}",
            "{{ inputs.longer | sort }}",
            "{{ inputs.big" + " | lower" * 30 + " }}",
            "{{ " + " ~ ".join(["inputs.big"] * 50) + " }}",
        ],
    )
    def test_large_results_are_refused(self, text: str) -> None:
        with pytest.raises(ExpressionError):
            compile_template(text).evaluate(self.big)

    def test_work_is_counted_over_a_whole_value(self) -> None:
        params = {f"p{index}": "{{ inputs.big | upper }}" for index in range(MAX_WORK // 1_000_000 + 1)}
        with pytest.raises(ExpressionError, match="takes too long"):
            compile_value(params).evaluate(self.big)

    def test_what_is_within_the_limits_passes(self) -> None:
        assert len(compile_template("<{{ inputs.big }}>").evaluate(self.big)) == 1_000_002
        assert compile_template("{{ inputs.list | sum }}").evaluate(self.big) == sum(range(100_000))
        assert MAX_TEXT_CHARACTERS > 1_000_002

    @pytest.mark.parametrize(
        "text",
        [
            "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
            "{{ " + "[" * 30 + "]" * 30 + " }}",
            "{{ " + "not " * 500 + "1 }}",
            "{{ " + "-" * 500 + "1 }}",
            "{{ " + "1 + " * 500 + "1 }}",
            "{{ inputs" + ".a" * 300 + " }}",
            "{{ inputs" + " | lower" * 300 + " }}",
            "{{ " + "1 if 1 else " * 200 + "1 }}",
            "{{ " + "1, " * 400 + "}}",
            "{{ '" + "x" * 5000 + "' }}",
            "{{ 1 }}" * 10_000,
            "{{" * 30_000,
            "{{ " + "9" * 4000 + " }}",
            "{{ " + "a" * 4090 + " }}",
        ],
    )
    def test_large_templates_are_refused(self, text: str) -> None:
        with pytest.raises(ExpressionError):
            compile_template(text)

    def test_deep_values_are_refused(self) -> None:
        deep: Any = "{{ inputs.one }}"
        for _ in range(100):
            deep = [deep]
        with pytest.raises(ExpressionError):
            compile_value(deep)
