"""House rules as functions over source files: what tests/test_tidy.py asks of the whole tree.

A rule takes one file and yields sentences that name the line. It reads syntax trees, not text,
wherever it can, so that strings and comments which merely mention a thing are no finding. Rules
know nothing of git or of the project's layout; the tests choose the files.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
LINE_CHARS_MAX = 100
OWN_CASE_MS_MAX = 2_000

FORBIDDEN_CLASS_ENDINGS = ("Manager", "Helper", "Helpers", "Util", "Utils", "Base", "Impl")
FORBIDDEN_MODULE_NAMES = frozenset({"common", "helper", "helpers", "misc", "util", "utils"})
NUMBERED_TASK = re.compile(r"TODO\(#\d+\)")
TASK_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
EVENT_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
AVOIDANCES = frozenset({"skip", "skipif", "xfail", "importorskip"})
MOCK_MODULES = frozenset({"unittest.mock", "mock", "pytest_mock"})
# Standard, but with a clock, chance, a network or the machine behind them.
IMPURE_MODULES = frozenset(
    {
        "asyncio",
        "concurrent",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "warnings",
    }
)
IMPURE_METHODS = frozenset({"now", "utcnow", "today", "uuid1", "uuid4", "uuid7"})
IMPURE_FUNCTIONS = frozenset({"input", "open", "print"}) | IMPURE_METHODS
PURE_PACKAGES = frozenset({"pydantic", "pydantic_core"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root of the project, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree, parsed once."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree, found once."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[Function]:
        """Every function and method, nested ones too."""
        return [node for node in self.nodes if isinstance(node, Function)]


Rule = Callable[[Source], Iterator[str]]


def has_module_docstring(source: Source) -> Iterator[str]:
    """Every module says what it is for."""
    if not ast.get_docstring(source.tree):
        yield f"{source.path}: no module docstring"


def functions_are_short(source: Source) -> Iterator[str]:
    """A function fits on a screen."""
    for function in source.functions:
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{source.path}:{function.lineno}: {function.name} has {lines} lines"


def file_is_short(source: Source) -> Iterator[str]:
    """A file can be finished by its reader."""
    lines = source.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{source.path}: {lines} lines"


def lines_are_short(source: Source) -> Iterator[str]:
    """Two files fit beside each other."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        if len(line) > LINE_CHARS_MAX:
            yield f"{source.path}:{number}: {len(line)} characters"


def open_tasks_have_numbers(source: Source) -> Iterator[str]:
    """What is left to do can be found outside the code."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            rest = NUMBERED_TASK.sub("", token.string)
            if TASK_WORDS.search(rest):
                yield f"{source.path}:{token.start[0]}: a task without its number"


def class_names_say_what_they_are(source: Source) -> Iterator[str]:
    """No class is called by the words that fit every class."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and node.name.endswith(FORBIDDEN_CLASS_ENDINGS):
            yield f"{source.path}:{node.lineno}: class {node.name}"


def module_name_says_what_it_holds(source: Source) -> Iterator[str]:
    """No module is a drawer for what has no place."""
    parts = source.path.removesuffix(".py").split("/")
    if not FORBIDDEN_MODULE_NAMES.isdisjoint(parts):
        yield f"{source.path}: a name that fits everything"


def public_functions_take_no_booleans(source: Source) -> Iterator[str]:
    """Two behaviours are two functions or an enum, never `f(True)`."""
    for function in source.functions:
        if function.name.startswith("_"):
            continue
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if isinstance(argument.annotation, ast.Name) and argument.annotation.id == "bool":
                yield f"{source.path}:{argument.lineno}: {function.name}({argument.arg}: bool)"


def environment_is_not_read(source: Source) -> Iterator[str]:
    """Settings are read in one place."""
    for node in source.nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "environb" | "getenv"):
                yield f"{source.path}:{node.lineno}: reads the environment"
            case ast.ImportFrom(module="os", names=names):
                if any(name.name in {"environ", "environb", "getenv"} for name in names):
                    yield f"{source.path}:{node.lineno}: reads the environment"
            case _:
                continue


def core_is_pure(source: Source) -> Iterator[str]:
    """The core imports pydantic and the pure part of the standard library, and asks no clock."""
    allowed = (sys.stdlib_module_names - IMPURE_MODULES) | PURE_PACKAGES
    for name, line in imported_modules(source):
        if name.partition(".")[0] not in allowed and not f"{name}.".startswith("ledger.core."):
            yield f"{source.path}:{line}: imports {name}"
    for node in source.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in IMPURE_METHODS:
                yield f"{source.path}:{node.lineno}: calls {name}()"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_FUNCTIONS:
                yield f"{source.path}:{node.lineno}: calls {name}()"
            case _:
                continue


def tests_state_behaviour(source: Source) -> Iterator[str]:
    """Every test says in a sentence what holds."""
    for function in source.functions:
        if function.name.startswith("test_"):
            sentence = ast.get_docstring(function) or ""
            if not sentence.endswith("."):
                yield f"{source.path}:{function.lineno}: {function.name} states no behaviour"


def tests_always_run(source: Source) -> Iterator[str]:
    """No test is skipped or expected to fail."""
    for node in source.nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="pytest" | "mark" | "unittest"), attr=attr):
                found = attr in AVOIDANCES
            case ast.Attribute(value=ast.Attribute(attr="mark"), attr=attr):
                found = attr in AVOIDANCES
            case ast.ImportFrom(module="pytest" | "unittest", names=names):
                found = any(name.name in AVOIDANCES for name in names)
            case _:
                continue
        if found:
            yield f"{source.path}:{node.lineno}: avoids a test"


def tests_wait_for_conditions(source: Source) -> Iterator[str]:
    """A test sleeps only between two looks at a condition, never for a guessed time."""
    in_loops = {
        id(node)
        for loop in source.nodes
        if isinstance(loop, ast.While | ast.For | ast.AsyncFor)
        for node in ast.walk(loop)
    }
    for node in source.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio" | "time"), attr="sleep")):
                is_yield = [ast.unparse(argument) for argument in node.args] == ["0"]
                is_guess = all(isinstance(argument, ast.Constant) for argument in node.args)
                if not is_yield and (is_guess or id(node) not in in_loops):
                    yield f"{source.path}:{node.lineno}: sleeps for a fixed time"
            case _:
                continue


def tests_are_patient(source: Source) -> Iterator[str]:
    """What must come is waited for as long as tests/patience.py says, and not for a figure that is
    enough on a machine with nothing else to do. Below a second a wait is itself the case.
    """
    for node in source.nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="asyncio"), attr="timeout"),
                args=[ast.Constant(value=int() | float() as seconds)],
            ) if seconds >= 1:
                yield f"{source.path}:{node.lineno}: waits {seconds} s"
            case ast.BinOp(
                left=ast.Call(func=ast.Attribute(attr="monotonic" | "time")),
                op=ast.Add(),
                right=ast.Constant(value=int() | float() as seconds),
            ) if seconds >= 1:
                yield f"{source.path}:{node.lineno}: waits {seconds} s"
            case _:
                continue


def real_servers_are_given_time(source: Source) -> Iterator[str]:
    """Where real servers and real clocks are behind a call, its `timeout_ms` is as patient as all
    else. Up to two seconds it is the case: what is waited for does not come.
    """
    for node in source.nodes:
        match node:
            case ast.keyword(arg="timeout_ms", value=ast.Constant(value=int() as wait_ms)) if (
                wait_ms > OWN_CASE_MS_MAX
            ):
                yield f"{source.path}:{node.lineno}: waits {wait_ms} ms"
            case _:
                continue


def tests_use_no_mocks(source: Source) -> Iterator[str]:
    """Doubles are those that ship with the product."""
    for name, line in imported_modules(source):
        if name in MOCK_MODULES:
            yield f"{source.path}:{line}: imports {name}"


def log_events(source: Source) -> Iterator[tuple[str | None, int]]:
    """Every event name that the file logs, None where it is not a literal in snake case."""
    for node in source.nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=attr),
                args=[first, *_],
            ) if attr in LOG_METHODS and owner.lstrip("_").endswith(("log", "logger")):
                match first:
                    case ast.Constant(value=str(name)) if EVENT_NAME.fullmatch(name):
                        yield name, node.lineno
                    case _:
                        yield None, node.lineno
            case _:
                continue


def crash_points(source: Source) -> Iterator[tuple[str | None, int]]:
    """Every crash point that the file passes or asks about, None where it is not a literal."""
    for node in source.nodes:
        match node:
            case ast.Call(
                func=ast.Name(id="crash_point" | "crash_while" | "crash_when"), args=[first, *_]
            ):
                yield (str(first.value) if isinstance(first, ast.Constant) else None), node.lineno
            case _:
                continue


def imported_modules(source: Source) -> Iterator[tuple[str, int]]:
    """Every module that the file imports, anywhere in it, with the line.

    A relative import is given from the file's own package.
    """
    package = source.path.split("/")[:-1]
    for node in source.nodes:
        match node:
            case ast.Import(names=names):
                yield from ((name.name, node.lineno) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                origin = ".".join([*base, *([module] if module else [])])
                yield origin, node.lineno
                if origin == "unittest":
                    yield from ((f"{origin}.{name.name}", node.lineno) for name in names)
            case _:
                continue
