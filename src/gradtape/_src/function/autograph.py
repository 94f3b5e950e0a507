"""AutoGraph: convert Python's `if`, `while` and `for` over tensors to a form that can be traced.

`malt` (diastatic-malt) rewrites the control flow in a function's source as calls of operators, which `staging`
implements. Functions that converted code calls are converted when it calls them, except those of libraries. The result
is compiled with the name and the line numbers of the original, so that tracebacks and debuggers show the user's code.
"""

from __future__ import annotations
import __future__

import ast
import functools
import importlib.util
import inspect
import linecache
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from gradtape._src import forks
from gradtape._src.interrupts import is_interrupt

_AS_IS = "_gradtape_not_converted"
_CONVERTED = "_gradtape_converted"

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_STANDARD_LIBRARY = os.path.dirname(os.__file__)
_LIBRARIES = frozenset(
    {
        *("absl", "IPython", "jax", "jaxlib", "keras", "malt", "matplotlib", "mock", "numpy", "pandas", "PIL"),
        *("pytest", "scipy", "tensorflow", "torch"),
    }
)
_LOOP_OPTIONS = "ag_loop_options__"
_HELPERS = ("if_body", "else_body", "loop_body", "loop_test", "extra_test", "get_state", "set_state")
"""malt's names for the functions that it makes from pieces of a function."""


@functools.cache
def is_available() -> bool:
    """Whether malt is installed. Does not import it."""
    return importlib.util.find_spec("malt") is not None


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Do not convert the control flow of a function, and of the functions that it calls.

    >>> import gradtape as tf
    >>> @tf.autograph.experimental.do_not_convert
    ... def plain(x):
    ...     return x
    """
    if func is None:
        return do_not_convert
    try:
        setattr(func, _AS_IS, True)
    except AttributeError:  # a method, a function written in C

        @functools.wraps(func)
        def as_is(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        setattr(as_is, _AS_IS, True)
        return as_is
    return func


def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Set options of a loop, as its first statement: the maximum number of iterations, and shapes that may change.

    >>> import gradtape as tf
    >>> @tf.function
    ... def count(n):
    ...     steps = 0
    ...     for _ in tf.range(n):
    ...         tf.autograph.experimental.set_loop_options(maximum_iterations=3)
    ...         steps += 1
    ...     return steps
    >>> int(count(tf.constant(10)))
    3
    """


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its control flow converted; the function itself if it cannot be converted."""
    return _converted(function, requested=True) if is_available() else function


# -- choosing what to convert ----------------------------------------------------------------------------------------
def _converted(function: Any, requested: bool = False) -> Callable[..., Any]:
    """The function to call instead. An explicit request (`requested`) converts functions of libraries as well."""
    if isinstance(function, functools.partial):
        inner = _converted(function.func, requested)
        return functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, MethodType):
        inner = _converted(function.__func__, requested)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if isinstance(function, FunctionType):
        wrapped = function.__dict__.get("__wrapped_method__")
        if wrapped is not None:
            inner, reference = _converted(wrapped[0], requested), wrapped[1]
            return lambda *args, **kwargs: inner(reference(), *args, **kwargs)
        return _transformed(function) if _wants_conversion(function, requested) else function
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method, not whether there is one
    if isinstance(function, type) or not isinstance(call, FunctionType) or hasattr(function, _AS_IS):
        return function
    inner = _converted(call, requested=False)
    return function if inner is call else MethodType(inner, function)


def _wants_conversion(function: FunctionType, requested: bool) -> bool:
    code = function.__code__
    if hasattr(function, _AS_IS) or function.__dict__.get(_CONVERTED) is code:
        return False
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    if code.co_filename == "<string>":  # from exec: methods of dataclasses and named tuples
        return False
    return requested or not _is_library(function)


def _is_library(function: FunctionType) -> bool:
    """Whether a function belongs to an installed package that does not use gradtape."""
    path = function.__code__.co_filename
    name = str(function.__globals__.get("__name__", "")).partition(".")[0]
    if name in _LIBRARIES or path.startswith(("<frozen", _PACKAGE + os.sep)):
        return True
    if "site-packages" in path or "dist-packages" in path:
        return not any(map(_is_ours, list(function.__globals__.values())))
    return path.startswith(_STANDARD_LIBRARY + os.sep)


def _is_ours(value: Any) -> bool:
    if isinstance(value, ModuleType):
        name = value.__name__
    elif isinstance(value, (type, FunctionType)):
        name = str(value.__module__)
    else:
        return False
    return name.partition(".")[0] == "gradtape"


# -- calls in converted code -----------------------------------------------------------------------------------------
def _converted_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, scope: Any) -> Any:
    """A call in converted code."""
    from gradtape._src.function import staging

    kwargs = kwargs or {}
    if isinstance(function, (BuiltinFunctionType, type)):
        special = _IN_CONTEXT.get(function.__name__) if function in (eval, globals, locals, super) else None
        if special is not None:
            return special(function, args, scope)
        return staging.BUILTINS.get(function, function)(*args, **kwargs)
    if isinstance(function, FunctionType):
        if function.__module__ == "gradtape._src.tf.array.creation" and function.__name__ == "range":
            if not all(map(staging.is_length, (*args, *kwargs.values()))):
                return staging.Range(*args, **kwargs)
        elif str(function.__module__).startswith("gradtape._src.tf.control_flow."):
            args, kwargs = _with_converted_functions((args, kwargs))
    return _converted(function)(*args, **kwargs)


def _with_converted_functions(arguments: Any) -> Any:
    """Convert the functions among the arguments of `tf.cond`, `tf.map_fn` and the like."""
    from gradtape._src import nest

    def convert(leaf: Any) -> Any:
        return _converted(leaf) if isinstance(leaf, (FunctionType, MethodType, functools.partial)) else leaf

    return nest.map_structure(convert, arguments)


def _eval(function: Any, args: tuple[Any, ...], scope: Any) -> Any:
    from malt.operators import py_builtins

    return py_builtins.eval_in_original_context(function, args, scope)


def _super(function: Any, args: tuple[Any, ...], scope: Any) -> Any:
    from malt.operators import py_builtins

    return py_builtins.super_in_original_context(function, args, scope)


def _globals(function: Any, args: tuple[Any, ...], scope: Any) -> Any:
    from malt.operators import py_builtins

    return py_builtins.globals_in_original_context(scope)


def _locals(function: Any, args: tuple[Any, ...], scope: Any) -> Any:
    from malt.operators import py_builtins

    return py_builtins.locals_in_original_context(scope)


_IN_CONTEXT = {"eval": _eval, "super": _super, "globals": _globals, "locals": _locals}
"""Functions that inspect their caller."""


def _mark_converted(function: Any) -> Any:
    """Mark an inner function of converted code, which is converted already."""
    setattr(function, _CONVERTED, function.__code__)
    return function


# -- conversion ------------------------------------------------------------------------------------------------------
_factories: weakref.WeakKeyDictionary[CodeType, Callable[[FunctionType], FunctionType] | None] = (
    weakref.WeakKeyDictionary()
)
_converting = forks.rlock()


def _transformed(function: FunctionType) -> FunctionType:
    """The converted function; if conversion fails, the function itself, with a warning the first time."""
    code = function.__code__
    with _converting:
        if code not in _factories:
            try:
                _factories[code] = _factory(function)
            except Exception as error:  # anything that malt cannot handle
                if is_interrupt(error):
                    raise
                _factories[code] = None
                _warn(function, error)
        factory = _factories[code]
    return function if factory is None else factory(function)


def _warn(function: FunctionType, error: Exception) -> None:
    from gradtape._src.call_sites import logger

    logger().warning(
        "AutoGraph could not transform %s and will run it as-is.\nCause: %s\nAn `if`, `while` or `for` in it cannot "
        "depend on tensors that are being traced. To silence this warning, decorate the function with "
        "@tf.autograph.experimental.do_not_convert",
        function,
        error,
    )


@functools.cache
def _operators() -> Any:
    """The attributes of `ag__`, the operators that converted code calls."""
    from malt.core import converter

    from gradtape._src.function import staging

    return SimpleNamespace(
        **{name: getattr(staging, name) for name in _OPERATORS},
        STD=converter.STANDARD_OPTIONS,
        autograph_artifact=_mark_converted,
        caught=lambda: sys.exc_info()[1],
        converted_call=_converted_call,
    )


_OPERATORS = (
    "FunctionScope",
    "Undefined",
    "UndefinedReturnValue",
    "and_",
    "assert_stmt",
    "for_stmt",
    "if_exp",
    "if_stmt",
    "ld",
    "ldu",
    "not_",
    "or_",
    "while_stmt",
    "with_function_scope",
)


_OUTER, _INNER = "ag__outer", "ag__inner"  # names that do not occur in the user's code


def _factory(function: FunctionType) -> Callable[[FunctionType], FunctionType]:
    """A function that converts all functions with this code, each with its own closure and defaults."""
    definition, name = _converted_definition(function)
    free = function.__code__.co_freevars
    module = ast.parse(
        f"def {_OUTER}():\n"
        + "".join(f" {variable} = None\n" for variable in free)
        + f" def {_INNER}(ag__):\n  pass\n  return {name}\n return {_INNER}"
    )
    outer: Any = module.body[0]
    outer.body[-2].body[0] = definition
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(
        ast.fix_missing_locations(module), function.__code__.co_filename, "exec", flags=flags, dont_inherit=True
    )
    space: dict[str, Any] = {}
    exec(_renamed(code, name, function.__name__), space)
    inner_code = space[_OUTER]().__code__
    for variable in inner_code.co_freevars:
        if variable not in free:
            raise ValueError(f"the converted function would need the variable {variable!r} of the enclosing scope")

    def make(original: FunctionType) -> FunctionType:
        cells = dict(zip(free, original.__closure__ or (), strict=True))
        closure = tuple([cells[variable] for variable in inner_code.co_freevars])
        bound = FunctionType(inner_code, original.__globals__, _INNER, None, closure)
        made: FunctionType = bound(_operators())
        made.__defaults__, made.__kwdefaults__ = original.__defaults__, original.__kwdefaults__
        made.__name__, made.__qualname__ = original.__name__, original.__qualname__
        made.__module__, made.__doc__ = original.__module__, original.__doc__
        return _mark_converted(made)

    return make


def _converted_definition(function: FunctionType) -> tuple[ast.stmt, str]:
    """The definition of the converted function as a statement, with the lines of the original; and its name there."""
    from malt.core import converter
    from malt.impl import api
    from malt.lang import directives
    from malt.pyct import inspect_utils, naming, origin_info, parser, transformer

    future = inspect_utils.getfutureimports(function)
    node, source = _lambda_of(function) or parser.parse_entity(function, future_features=future)
    _check_source(function, node)
    first_line = function.__code__.co_firstlineno
    origin_info.resolve(node, source, function.__code__.co_filename, first_line, 0)
    namespace = {**inspect_utils.getnamespace(function), _LOOP_OPTIONS: directives.set_loop_options}
    namer = naming.Namer(namespace)
    transpiler = api.PyToPy()
    name = namer.new_symbol(transpiler.get_transformed_name(node), ())
    info = transformer.EntityInfo(name, source, function.__code__.co_filename, future, namespace)
    context = transformer.Context(info, namer, converter.ProgramContext(options=converter.STANDARD_OPTIONS))
    node = _Prepared(function, namespace).visit(_without_defaults(node))
    node = transpiler.transform_ast(node, context)
    if isinstance(node, ast.Lambda):
        node = ast.Assign(targets=[ast.Name(name, ctx=ast.Store())], value=node)
    else:
        node.name = name
    text = parser.unparse(node, include_encoding_marker=False)
    try:
        found = origin_info.create_source_map([node], text, "")
    except ValueError:  # the unparsed source differs when parsed again: lines cannot be mapped
        found = {}
    lines = {place.lineno: origin.loc.lineno for place, origin in found.items()}
    definition = ast.parse(text).body[0]
    _move(definition, lines, first_line)
    return definition, name


def _check_source(function: FunctionType, node: Any) -> None:
    """Raise an error if the source is not that of the function: for code without a file, Python
    reads the main program.
    """
    code = function.__code__
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    count = len(node.args.posonlyargs) + len(node.args.args)
    if (name, count, len(node.args.kwonlyargs)) != (code.co_name, code.co_argcount, code.co_kwonlyargcount):
        raise ValueError(
            f"the source of {code.co_name!r} at line {code.co_firstlineno} of {code.co_filename!r} is missing"
        )


def _lambda_of(function: FunctionType) -> tuple[ast.Lambda, str] | None:
    """The node of a lambda and its source, found by columns, because a line may have several."""
    code = function.__code__
    if function.__name__ != "<lambda>" or not hasattr(code, "co_positions"):  # Python 3.10 has no columns
        return None
    places = [(line, end, column, stop) for line, end, column, stop in code.co_positions() if stop]
    first = min((line, column) for line, _, column, _ in places)
    last = max((end, stop) for _, end, _, stop in places)
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    around = [
        (_end(node.body), node)
        for node in _lambdas(lines)
        if (node.body.lineno, node.body.col_offset) <= first and last <= _end(node.body)
    ]
    if not around:
        return None
    text = f"({_source_of(min(around, key=lambda found: found[0])[1], lines)})"
    parsed: Any = ast.parse(text, mode="eval")
    return parsed.body, text


@functools.lru_cache(maxsize=8)
def _lambdas(lines: tuple[str, ...]) -> list[ast.Lambda]:
    """The lambdas of a file, which is parsed once."""
    return [node for node in ast.walk(ast.parse("".join(lines))) if isinstance(node, ast.Lambda)]


def _source_of(node: ast.expr, lines: Sequence[str]) -> str:
    """The source of a node; columns are counted in bytes."""
    part = [line.encode() for line in lines[node.lineno - 1 : node.end_lineno]]
    part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0][node.col_offset :]
    return b"".join(part).decode()


def _end(node: ast.expr) -> tuple[Any, Any]:
    return node.end_lineno, node.end_col_offset


def _without_defaults(node: Any) -> Any:
    """Remove default values: the converted function gets the evaluated defaults of the original."""
    arguments = node.args
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [None if d is None else ast.Constant(None) for d in arguments.kw_defaults]
    return node


class _Prepared(ast.NodeTransformer):
    """Rewrites what malt does not support: assertions with any message, names of exceptions, private names of a class,
    and other names of `set_loop_options`.
    """

    def __init__(self, function: FunctionType, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        names = function.__qualname__.split(".")
        self._class = names[-2].lstrip("_") if len(names) > 1 and names[-2] != "<locals>" else ""

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = ast.Lambda(
            args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
            body=node.msg or ast.Constant(None),
        )
        operator = ast.Attribute(ast.Name("ag__", ast.Load()), "assert_stmt", ast.Load())
        call = ast.Expr(ast.Call(operator, [node.test, message], []))
        return self.generic_visit(_derive(call, node))

    def visit_Call(self, node: ast.Call) -> Any:
        if self._value(node.func) is set_loop_options:
            node.func = ast.copy_location(ast.Name(_LOOP_OPTIONS, ast.Load()), node.func)
        return self.generic_visit(node)

    def _value(self, node: ast.expr) -> Any:
        """The value of a name, or of an attribute of a module."""
        if isinstance(node, ast.Name):
            return self._namespace.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        return None

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        if node.name is not None:
            named, node.name = node.name, None
            node.body = [
                *ast.parse(f"{named} = ag__.caught()").body,
                *node.body,
                *ast.parse(f"del {named}").body,
            ]
            for statement in (node.body[0], node.body[-1]):
                _derive(statement, node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if self._class and node.attr.startswith("__") and not node.attr.endswith("__"):
            node.attr = f"_{self._class}{node.attr}"
        return node


def _derive(statement: ast.stmt, origin: ast.AST) -> ast.stmt:
    """A new statement with the location of `origin`, which it replaces."""
    from malt.pyct import origin_info

    ast.fix_missing_locations(ast.copy_location(statement, origin))
    origin_info.copy_origin(origin, statement)
    return statement


def _move(node: ast.AST, lines: dict[int, int], line: int) -> int:
    """Set the lines of converted code to those of its origin, without columns.

    A node without an origin gets the line of the one before it.
    """
    if hasattr(node, "lineno"):
        place: Any = node
        line = lines.get(place.lineno, line)
        place.lineno = place.end_lineno = line
        place.col_offset = place.end_col_offset = -1
    here = line
    for child in ast.iter_child_nodes(node):
        here = _move(child, lines, here)
    return line


def _renamed(code: CodeType, name: str, shown: str) -> CodeType:
    """Rename the code objects of a converted function to the original name, for tracebacks."""

    def rename(part: CodeType, within: str) -> CodeType:
        if part.co_name == name or part.co_name.rstrip("_0123456789") in _HELPERS:
            part = part.replace(co_name=within)
        name_inside = shown if part.co_name in (_OUTER, _INNER) else part.co_name
        constants = [rename(c, name_inside) if isinstance(c, CodeType) else c for c in part.co_consts]
        return part.replace(co_consts=tuple(constants))

    return rename(code, shown)
