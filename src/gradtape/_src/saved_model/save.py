"""`tf.saved_model.save`: save objects, variables and functions in TensorFlow's format.

A function is saved as one `XlaCallModule` node with the StableHLO of its program, which TensorFlow and tools based on
it run without gradtape. The folder is written next to its final place and moved there when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.checkpoint.tracking import GRAPH, VALUE, Found, described, is_trackable, objects_below
from gradtape._src.dtypes import int32, resource
from gradtape._src.formats import tensor_bundle
from gradtape._src.formats.protobuf import Message, decode, encode
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.function import Function
from gradtape._src.saved_model import writing
from gradtape._src.saved_model.copying import CopiedGradient, Copies
from gradtape._src.saved_model.export import exported
from gradtape._src.saved_model.functions import ConcreteFunction as LoadedFunction, RestoredFunction
from gradtape._src.saved_model.interpreter import Captured
from gradtape._src.saved_model.load import FILE, VARIABLES, Asset, Resource, SignatureMap
from gradtape._src.saved_model.resources import RESOURCES, Assets, OuterTable, SavedTable, init_parts, outer_nodes
from gradtape._src.saved_model.signatures import (
    CONCRETE,
    FUNCTIONS,
    as_specs,
    check_composites,
    chosen,
    flat_specs,
    named_inputs,
    named_outputs,
    traces,
)
from gradtape._src.saved_model.structures import components
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

FINGERPRINT = "fingerprint.pb"
_VERSIONS: Message = [(1, 2474), (2, 12)]
_OBJECT_VERSION: Message = [(1, 1), (2, 1)]


POLICIES = ("save_variable_devices", "expand_distributed_variables")


class SaveOptions:
    """Options of `tf.saved_model.save`: `extra_tags` are tags besides "serve"; the others only affect TensorFlow.

    >>> import gradtape as tf
    >>> tf.saved_model.SaveOptions().save_debug_info
    False
    """

    def __init__(
        self,
        namespace_whitelist: Any = None,
        save_debug_info: bool = False,
        function_aliases: Any = None,
        experimental_debug_stripper: bool = False,
        experimental_io_device: Any = None,
        experimental_variable_policy: Any = None,
        experimental_custom_gradients: bool = True,
        experimental_image_format: bool = False,
        experimental_skip_saver: bool = False,
        experimental_sharding_callback: Any = None,
        extra_tags: Sequence[str] | None = None,
    ) -> None:
        policy = getattr(experimental_variable_policy, "value", experimental_variable_policy)
        if policy is not None and str(policy).lower() not in POLICIES:
            raise ValueError(f"Received invalid VariablePolicy value: {policy}. Use one of {', '.join(POLICIES)}.")
        self.namespace_whitelist, self.save_debug_info = namespace_whitelist, save_debug_info
        self.function_aliases, self.extra_tags = function_aliases, extra_tags
        self.experimental_debug_stripper = experimental_debug_stripper
        self.experimental_io_device = experimental_io_device
        self.experimental_variable_policy = experimental_variable_policy
        self.experimental_custom_gradients = experimental_custom_gradients
        self.experimental_image_format = experimental_image_format
        self.experimental_skip_saver = experimental_skip_saver
        self.experimental_sharding_callback = experimental_sharding_callback


class SavedFunction(NamedTuple):
    """A concrete function in the file, and its captures: variables, tables, assets."""

    name: str
    concrete: Any
    captured: list[Any]
    outputs: Any


def save(obj: Any, export_dir: Any, signatures: Any = None, options: SaveOptions | None = None) -> None:
    """Write an object with its variables and functions as a SavedModel.

    Every `tf.function` of the object and of the objects in it is saved with its existing traces; one with an
    `input_signature` is traced for it. `signatures` is a function, or a dictionary of functions, with known inputs.

    >>> import gradtape as tf
    >>> import tempfile
    >>> module = tf.Module()
    >>> module.w = tf.Variable(2.0)
    >>> module.f = tf.function(lambda x: x * module.w, input_signature=[tf.TensorSpec([None], tf.float32)])
    >>> folder = tempfile.mkdtemp()
    >>> tf.saved_model.save(module, folder)
    >>> tf.saved_model.load(folder).w.numpy().item()
    2.0
    """
    if not is_trackable(obj) or isinstance(obj, (Variable, Asset)):
        raise ValueError(
            "Expected an object of type `Trackable`, such as `tf.Module` or a subclass of the `Trackable` class, for "
            f"export. Got {obj} with type {type(obj)}."
        )
    if options is not None and not hasattr(options, "experimental_variable_policy"):
        raise AttributeError(
            f"{type(options).__name__!r} object has no attribute 'experimental_variable_policy'. Pass `options` as a "
            "tf.saved_model.SaveOptions."
        )
    folder = os.path.realpath(os.fsdecode(export_dir))
    parent = os.path.dirname(folder)
    os.makedirs(parent, exist_ok=True)
    made = Saver(obj, signatures, options or SaveOptions())
    scratch = tempfile.mkdtemp(prefix=".saved_model-", dir=parent)
    try:
        new, old = os.path.join(scratch, "new"), os.path.join(scratch, "old")
        os.mkdir(new)
        made.write(new)
        _put(new, folder, old)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


PARTS = ("variables", "assets", FINGERPRINT, FILE)


def _put(new: str, folder: str, old: str) -> None:
    """Move a complete SavedModel to its place.

    An existing folder moves to `old` as a whole: if the process is killed, there is the previous model, the new one, or
    none, but never parts of both. Other files of the folder remain in it.
    """
    if not os.path.isdir(folder):
        os.rename(new, folder)
        return
    try:
        os.rename(folder, old)
    except OSError:  # a folder that cannot be moved: a mount, or one in use
        _put_parts(new, folder)
        return
    try:
        os.rename(new, folder)
    except BaseException:
        if not os.path.exists(folder):
            os.rename(old, folder)
        raise
    try:
        _move_others(old, folder)
    except BaseException:  # an interrupt: once more, because what is left in `old` will be removed
        _move_others(old, folder)
        raise


def _move_others(old: str, folder: str) -> None:
    """Copy the permissions of the previous folder, and move its files that do not belong to a SavedModel."""
    shutil.copymode(old, folder)
    for name in os.listdir(old):
        if name not in PARTS:
            os.rename(os.path.join(old, name), os.path.join(folder, name))


def _put_parts(new: str, folder: str) -> None:
    """Move a SavedModel part by part; the graph is removed first, and added last."""
    if os.path.exists(os.path.join(folder, FILE)):
        os.remove(os.path.join(folder, FILE))
    for name in PARTS:
        target = os.path.join(folder, name)
        if os.path.isdir(target):
            shutil.rmtree(target)
        os.replace(os.path.join(new, name), target)


class Saver:
    """Collects the content of a SavedModel."""

    def __init__(self, obj: Any, signatures: Any, options: SaveOptions) -> None:
        self.tags = ["serve", *[tag for tag in options.extra_tags or () if tag != "serve"]]
        self.found = objects_below(obj)
        self.numbers = {id(each.value): i for i, each in enumerate(self.found)}
        self.objects: list[Message] = []
        self.children: list[list[tuple[str, int]]] = [list(each.parts.items()) for each in self.found]
        self.children[0] = [each for each in self.children[0] if each[0] != "signatures"]  # created anew
        self.functions: dict[int, SavedFunction] = {}
        self.library: list[Message] = []
        self.signatures: dict[str, str] = {}
        self.wrappers: dict[str, Any] = {}
        self.plain: dict[str, tuple[list[Any], TensorSpec]] = {}  # functions without arguments: captures, result
        self.gradients: list[tuple[str, writing.Gradient]] = []
        self.assets = Assets()
        self.tables: dict[int, SavedTable] = {}
        self.copies = Copies()
        self.constants: dict[int, tuple[str, Tensor]] = {}
        self.kept: list[Any] = []  # functions, which are identified by their ids
        for each in self.found:
            self.objects.append(self._object(each))
        self._add_tables()
        declared = self._add_functions()
        self._add_signatures(chosen(obj, signatures, declared))

    # -- objects -----------------------------------------------------------------------------------------------------
    def _object(self, found: Found) -> Message:
        value = found.value
        if isinstance(value, Resource):
            return [(10, [])]
        if isinstance(value, SignatureMap):
            return _user_object("signature_map")
        if isinstance(value, Asset):
            return [(5, [(1, self.assets.number(value) or None)])]
        if isinstance(value, RESOURCES):
            self.tables[id(value)] = SavedTable(value, len(self.tables), self.assets)
            return [(10, [])]
        if isinstance(value, Variable):
            return [(7, [
                (1, value.dtype.as_datatype_enum),
                (2, writing.shape_proto(value.shape)),
                (3, 1 if value.trainable else None),
                (6, writing.text(value.name.removesuffix(":0"))),
            ])]  # fmt: skip
        kind = "trackable_list_wrapper" if isinstance(value, list) else "_generic_user_object"
        kind = "trackable_tuple_wrapper" if isinstance(value, tuple) else kind
        return _user_object("trackable_dict_wrapper" if isinstance(value, Mapping) else kind)

    def _add(self, message: Message) -> int:
        self.objects.append(message)
        self.children.append([])
        return len(self.objects) - 1

    def _add_tables(self) -> None:
        """Add the functions of tables, and the assets that they are initialized from."""
        for table in self.tables.values():
            owner = self.numbers[id(table.table)]
            if table.asset is not None and id(table.asset) not in self.numbers:
                self.numbers[id(table.asset)] = self._add([(5, [(1, self.assets.number(table.asset) or None)])])
            if table.asset is not None:
                initializer = self._add(_user_object("_generic_user_object"))
                self.children[initializer].append(("_filename", self.numbers[id(table.asset)]))
                self.children[owner].append(("_initializer", initializer))
            for name, each in zip(
                ("_create_resource", "_initialize", "_destroy_resource"), table.functions(), strict=True
            ):
                self.library.append(each.function)
                number = self._add([(6, [(1, writing.text(each.name)), (2, _NO_ARGUMENTS)])])
                self.children[owner].append((name, number))
                output = TensorSpec([], resource) if each.gives_handle else TensorSpec([], int32)
                self.plain[each.name] = (each.captured, output)

    # -- functions ---------------------------------------------------------------------------------------------------
    def _add_functions(self) -> list[Any]:
        """Add the functions of all objects; return those of the root that have an input_signature."""
        declared = []
        for owner in range(len(self.found)):
            value = self.found[owner].value
            if isinstance(value, SignatureMap) and self.found[owner].path == ("signatures",):
                continue  # those of a loaded root, from which `signatures` chooses
            for name, function in _functions_of(value).items():
                self.children[owner].append((name, self._function_object(function)))
                if owner == 0 and getattr(function, "input_signature", None) is not None:
                    declared.append(function)
            if isinstance(value, (list, tuple)):
                self.children[owner].sort(key=lambda child: int(child[0]))
        return declared

    def _function_object(self, function: Any) -> int:
        """The number of the object of a function or a concrete function, which is added once."""
        if id(function) not in self.numbers:
            if isinstance(function, CONCRETE):
                message = self._bare(self.function(function))
            else:
                saved = [self.function(each) for each in traces(function)]
                message = [(6, [*((1, writing.text(each.name)) for each in saved), (2, _function_spec(function))])]
            self.numbers[id(function)] = self._add(message)
            self.kept.append(function)
        return self.numbers[id(function)]

    def _bare(self, saved: SavedFunction) -> Message:
        """A concrete function without a Python function: its inputs have names."""
        names = getattr(saved.concrete, "keywords", None)
        positional = saved.concrete.positional if names else 0
        if not names:
            names = list(named_inputs(saved.name, saved.concrete))
            positional = len(names)
        named: Message = [(2, writing.text(each)) for each in names]
        return [(8, [(1, writing.text(saved.name)), *named, (3, positional or None)])]

    def _copied(self, concrete: LoadedFunction) -> SavedFunction:
        """Copy the graph of a function of a loaded model, with its captures."""
        name = self.copies.function(concrete.function.library, concrete.name)
        captured = concrete.captures()
        for gradient in self.copies.gradients:
            self._add_constants([each for each in gradient.bound if not isinstance(each, Captured)])
        self._add_constants(captured)
        self._check_tracked(concrete.name, captured)
        return SavedFunction(name, concrete, captured, concrete.structured_outputs)

    def _add_constants(self, captured: list[Any]) -> None:
        """Add the tensors that loaded functions capture."""
        for each in captured:
            if isinstance(each, Tensor) and id(each) not in self.numbers:
                self.constants[id(each)] = (f"constant_{len(self.constants)}", each)
                self.numbers[id(each)] = self._add([(9, [(1, writing.text(self.constants[id(each)][0]))])])

    def function(self, concrete: Any) -> SavedFunction:
        """Add a concrete function to the library, once."""
        if id(concrete) not in self.functions and isinstance(concrete, LoadedFunction):
            self.functions[id(concrete)] = self._copied(concrete)
        if id(concrete) not in self.functions and any(shape.rank is None for shape in concrete.declared_shapes):
            self.functions[id(concrete)] = self._for_each_rank(concrete)
        if id(concrete) not in self.functions:
            name = f"__inference_{concrete.name}_{len(self.library)}"
            traced, body = exported(concrete, has_assets=any(isinstance(each.value, Asset) for each in self.found))
            check_composites(concrete, traced)
            made, gradients = writing.body_function(name, body)
            # The copy of a distributed variable is saved as that variable.
            captured = [*[getattr(v, "container", v) for v in body.variables], *body.objects]
            self._check_tracked(concrete.name, captured)
            self.library += [made, *(each.function for each in gradients)]
            self.gradients += [(name, each) for each in gradients]
            outputs = as_specs(traced.structured_outputs)
            self.functions[id(concrete)] = SavedFunction(name, traced, captured, outputs)
        return self.functions[id(concrete)]

    def _for_each_rank(self, concrete: ConcreteFunction) -> SavedFunction:
        """A function for tensors of any rank: one program for each of the lowest ranks, selected by a call.

        If the code fails for a rank, a program for another rank takes its place, which reports that the shape is wrong.
        """
        found: list[SavedFunction] = []
        places: list[int | None] = []
        for rank in range(_RANKS):
            try:
                found.append(self.function(concrete.of_rank(rank)))
                places.append(len(found) - 1)
            except (ValueError, TypeError, errors.OpError) as error:
                reason: Exception = error
                places.append(None)
        if not found:
            raise reason
        chosen = [found[0 if place is None else place] for place in places]
        captured = list({id(each): each for saved in found for each in saved.captured}.values())
        name = f"__inference_{concrete.name}_{len(self.library)}"
        parts = [(saved.name, [captured.index(each) for each in saved.captured]) for saved in chosen]
        leaves = nest.flatten(found[0].concrete.structured_outputs, expand_composites=True)
        types = [spec.dtype.as_datatype_enum for spec in leaves if isinstance(spec, TensorSpec)]
        shapes = concrete.declared_shapes
        given = [spec.dtype.as_datatype_enum for spec in concrete.inputs]
        number = next(i for i, shape in enumerate(shapes) if shape.rank is None)
        kinds = [writing.handle_type(each) for each in captured]
        self.library += writing.rank_functions(name, given, number, kinds, parts, types)
        return SavedFunction(name, concrete, captured, _without_shapes(found[0].concrete.structured_outputs))

    def _check_tracked(self, name: str, captured: list[Any]) -> None:
        for each in captured:
            if id(each) not in self.numbers:
                what = f"variable {each.name!r}" if isinstance(each, Variable) else f"object {each!r}"
                raise AssertionError(
                    f"Tried to export a function which references an 'untracked' resource: the function {name!r} uses "
                    f"the {what}. Assign it to an attribute of the object that is saved."
                )

    def _add_signatures(self, signatures: dict[str, ConcreteFunction]) -> None:
        parts = []
        for key, concrete in signatures.items():
            saved = self.function(concrete)
            name, keywords = self._wrapper(key, saved)
            named: Message = [(2, writing.text(each)) for each in keywords]
            number = self._add([(8, [(1, writing.text(name)), *named, (3, 1 if len(keywords) == 1 else None)])])
            parts.append((key, number))
            self.signatures[key] = name
        number = self._add(_user_object("signature_map"))
        self.children[number] += parts
        self.children[0].append(("signatures", number))

    def _wrapper(self, key: str, saved: SavedFunction) -> tuple[str, list[str]]:
        """A function with named inputs and a dictionary of results that calls another one: its
        name, and their names.
        """
        concrete = saved.concrete
        specs = named_inputs(key, concrete)
        order = sorted(specs)
        results = named_outputs(key, saved.outputs)
        name = f"__inference_signature_wrapper_{concrete.name}_{len(self.library)}"
        handles = [f"captured_{i}" for i in range(len(saved.captured))]
        kinds = [writing.handle_type(each) for each in saved.captured]
        types = [spec.dtype.as_datatype_enum for spec in flat_specs(saved.outputs)]
        tin = [spec.dtype.as_datatype_enum for spec in specs.values()] + kinds
        call = writing.call("call", saved.name, [*specs, *handles], tin, types)
        given = [writing.arg(each, specs[each].dtype.as_datatype_enum) for each in order]
        given += [writing.arg(each, kind) for each, kind in zip(handles, kinds, strict=True)]
        first, places = 0, {}
        for each, spec in results.items():
            count = len(components(spec))
            places[each] = [(each if i == 0 else f"{each}_{i}", first + i) for i in range(count)]
            first += count
        flat = [pair for each in sorted(results) for pair in places[each]]
        outputs = [writing.arg(each, types[place]) for each, place in flat]
        returned = {each: f"call:output:{place}" for each, place in flat}
        self.library.append(writing.function(name, given, outputs, [call], returned, ["call"]))
        self.wrappers[name] = (
            ((), {each: specs[each] for each in order}),
            {e: results[e] for e in sorted(results)},
            saved,
        )
        return name, order

    # -- writing -----------------------------------------------------------------------------------------------------
    def write(self, folder: str) -> None:
        """Write the files into an empty folder."""
        os.makedirs(os.path.join(folder, "variables"))
        os.makedirs(os.path.join(folder, "assets"))
        keys = []
        values: dict[str, Any] = {}
        for each in self.found:
            own = {}
            if isinstance(each.value, Variable):
                key = _key(each)
                own[VALUE] = (each.value.name.removesuffix(":0"), key)
                values[key] = each.value.numpy()
            keys.append(own)
        values[GRAPH] = np.array(described(self.found, keys), object)
        tensor_bundle.write(os.path.join(folder, VARIABLES), values)
        self.assets.copy(os.path.join(folder, "assets"))
        data = encode([(1, 1), (2, self._meta_graph())])
        with open(os.path.join(folder, FILE), "wb") as file:
            file.write(data)
        with open(os.path.join(folder, FINGERPRINT), "wb") as file:
            file.write(encode(_fingerprint(data)))

    def _meta_graph(self) -> Message:
        copied = [data for name, data in self.copies.ops.items() if name != "XlaCallModule"]
        ops: Message = [(1, each) for each in [writing.program_op(), *copied]]
        tags: Message = [(4, tag.encode()) for tag in self.tags]
        info: Message = [(2, ops), *tags, (5, b"2.21.0"), (7, 1)]
        nodes, signatures, saver = self._outer_graph()
        library: Message = [(1, each) for each in [*self.library, *self.copies.functions]]
        named = [(each.name, each.kind) for _, each in self.gradients]
        named += [(each.name, each.kind) for each in self.copies.gradients]
        library += [(3, [(1, writing.text(name)), (2, writing.text(kind))]) for name, kind in named]
        graph: Message = [*((1, each) for each in nodes), (2, library), (4, _VERSIONS)]
        objects: Message = []
        for message, children in zip(self.objects, self.children, strict=True):
            refs: Message = [(1, [(1, number or None), (2, writing.text(name))]) for name, number in children]
            objects.append((1, [*refs, *message]))
        functions = self._concrete_functions()
        for name, made in self.gradients:
            inputs = encode(writing.structured(((None, *made.inputs), {})))
            captured = [Captured(tensor, name) for tensor in made.captured]
            found = CopiedGradient(made.name, made.kind, captured, inputs, encode(writing.structured(made.outputs)))
            functions[made.name] = self._gradient(found, objects)
        functions |= {each.name: self._gradient(each, objects) for each in self.copies.gradients}
        objects += [writing.entry(2, name, entry) for name, entry in functions.items()]
        return [(1, info), (2, graph), *saver, *signatures, *self.assets.file_defs(), (7, objects)]

    def _gradient(self, gradient: CopiedGradient, objects: Message) -> Message:
        """Add a gradient function; tensors that it captures become the last objects, because only it refers to them."""
        bound: Message = []
        for each in gradient.bound:
            if isinstance(each, Captured):
                bound.append((2, len(objects)))
                objects.append((1, [(12, [(1, writing.text(each.tensor)), (2, writing.text(each.function))])]))
            else:
                bound.append((2, self.numbers[id(each)]))
        return [*bound, (3, gradient.input_signature), (4, gradient.output_signature)]

    def _outer_graph(self) -> tuple[list[Message], Message, Message]:
        """Nodes, signatures and saver with which sessions (in servers, for example) restore variables and run."""
        variables = [(f"variable_{i}", each) for i, each in enumerate(self.found) if isinstance(each.value, Variable)]
        handles = {id(each.value): name for name, each in variables}
        nodes = [writing.handle(name, each.value.dtype.as_datatype_enum, each.value.shape) for name, each in variables]
        nodes += [writing.constant(name, value) for name, value in self.constants.values()]
        handles |= {key: name for key, (name, _) in self.constants.items()}
        signatures: Message = []
        tables = self._outer_tables(handles)
        if tables or self.assets.names:
            nodes += outer_nodes(tables, self.assets)
            signatures += init_parts()
        for key, name in self.signatures.items():
            (_, specs), outputs, saved = self.wrappers[name]
            captured = [(handles[id(each)], writing.handle_type(each)) for each in saved.captured]
            nodes += writing.signature_nodes(key, name, specs, outputs, captured)
            signatures.append(writing.entry(5, key, writing.signature(key, specs, outputs)))
        if not variables:
            return nodes, signatures, []
        return [*nodes, *_saver_nodes(variables)], signatures, _SAVER

    def _outer_tables(self, handles: dict[int, str]) -> list[OuterTable]:
        """Tables for the outer graph; adds their handles, and the paths of assets, to those of variables."""
        files = {id(each): self.assets.number(each) for each in self._assets()}
        made = []
        for i, table in enumerate(self.tables.values()):
            handles[id(table.table)] = name = f"table_{i}"
            path = [] if table.asset is None else [f"asset_{files[id(table.asset)]}"]
            kinds = [writing.RESOURCE, *[writing.STRING for _ in path]]
            made.append(OuterTable(name, table.node(name), table.initializer, [name, *path], kinds))
        loaded = [each.value for each in self.found if isinstance(each.value, Resource)]
        handles |= {id(each): f"loaded_table_{i}" for i, each in enumerate(loaded)}
        paths = {key: f"asset_{number}" for key, number in files.items()}
        for each in loaded:
            create, fill = (self._one_trace(each, name) for name in ("_create_resource", "_initialize"))
            name = handles[id(each)]
            node = writing.call(name, "" if create is None else create.name, [], [], [writing.RESOURCE])
            taken = [] if fill is None else fill.captured
            inputs = [paths.get(id(one)) or handles[id(one)] for one in taken]
            kinds = [writing.handle_type(one) for one in taken]
            made.append(OuterTable(name, node, None if fill is None else fill.name, inputs, kinds))
        handles |= {key: f"{name}_path" for key, name in paths.items()}
        return made

    def _one_trace(self, table: Resource, name: str) -> SavedFunction | None:
        """The function that creates or fills a loaded table."""
        function = vars(table).get(name)
        return None if function is None else self.function(traces(function)[0])

    def _assets(self) -> list[Asset]:
        """The assets among the objects, and those of tables."""
        own = [table.asset for table in self.tables.values() if table.asset is not None]
        return [*(each.value for each in self.found if isinstance(each.value, Asset)), *own]

    def _concrete_functions(self) -> dict[str, Message]:
        found = {}
        for saved in self.functions.values():
            if isinstance(saved.concrete, LoadedFunction):
                stored = saved.concrete.saved
                bound: Message = [(2, self.numbers[id(each)]) for each in saved.captured]
                found[saved.name] = [*bound, (3, stored.input_signature), (4, stored.output_signature)]
                continue
            signature = as_specs(saved.concrete.structured_input_signature)
            found[saved.name] = self._concrete(saved.captured, signature, saved.outputs)
        for name, (inputs, outputs, saved) in self.wrappers.items():
            found[name] = self._concrete(saved.captured, inputs, outputs)
        for name, (captured, output) in self.plain.items():
            found[name] = self._concrete(captured, ((), {}), output)
        return found

    def _concrete(self, captured: list[Any], inputs: Any, outputs: Any) -> Message:
        bound: Message = [(2, self.numbers[id(each)]) for each in captured]
        return [*bound, (3, writing.structured(inputs)), (4, writing.structured(outputs))]


_RANKS = 6
"""Functions with unknown ranks are saved for all ranks below this one."""


def _without_shapes(outputs: Any) -> Any:
    return nest.map_structure(lambda s: TensorSpec(None, s.dtype) if isinstance(s, TensorSpec) else s, outputs)


_SAVER: Message = [
    (3, [(1, b"saver_filename:0"), (2, b"save_result:0"), (3, b"restore_all"), (7, 2)]),
]


def _saver_nodes(variables: list[tuple[str, Found]]) -> list[Message]:
    """Nodes that save and restore all variables."""
    types = [each.value.dtype.as_datatype_enum for _, each in variables]
    keys = [_key(each) for _, each in variables]
    nodes = [
        writing.placeholder("saver_filename", 7, TensorShape([])),
        writing.strings("save_names", keys),
        writing.strings("save_slices", [""] * len(keys)),
    ]
    where = ["saver_filename", "save_names", "save_slices"]
    for (name, _), number in zip(variables, types, strict=True):
        nodes.append(writing.node(f"{name}_value", "ReadVariableOp", [name], {"dtype": writing.type_attr(number)}))
    values = [f"{name}_value" for name, _ in variables]
    dtypes = {"dtypes": writing.types_attr(types)}
    nodes.append(writing.node("save_all", "SaveV2", [*where, *values], dtypes))
    text = {"T": writing.type_attr(7)}
    nodes.append(writing.node("save_result", "Identity", ["saver_filename", "^save_all"], text))
    nodes.append(writing.node("restored", "RestoreV2", where, dtypes))
    for i, ((name, _), number) in enumerate(zip(variables, types, strict=True)):
        source = "restored" if not i else f"restored:{i}"
        nodes.append(
            writing.node(f"{name}_restore", "AssignVariableOp", [name, source], {"dtype": writing.type_attr(number)})
        )
    nodes.append(writing.node("restore_all", "NoOp", [f"^{name}_restore" for name, _ in variables], {}))
    return nodes


def _fingerprint(data: bytes) -> Message:
    """A FingerprintDef: numbers that depend on the content of the file."""
    digest = hashlib.blake2b(data, digest_size=56).digest()
    numbers = [int.from_bytes(digest[i : i + 8], "little") for i in range(0, 56, 8)]
    uuid = str(numbers[5] << 64 | numbers[6]).encode()
    return [*((i + 1, number) for i, number in enumerate(numbers[:5])), (6, [(1, 4)]), (7, uuid)]


def _key(found: Found) -> str:
    """The key of a variable in the checkpoint."""
    return f"{found.key}/.ATTRIBUTES/{VALUE}"


def _user_object(kind: str) -> Message:
    return [(4, [(1, writing.text(kind)), (2, _OBJECT_VERSION)])]


def _functions_of(value: Any) -> dict[str, Any]:
    """The functions of an object by name: attributes, methods of its class, elements of a container."""
    if isinstance(value, Variable):
        return {}
    if isinstance(value, (list, tuple, Mapping)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        return {str(name): each for name, each in items if isinstance(each, (*FUNCTIONS, *CONCRETE))}
    found = {}
    for name in sorted({*dir(type(value)), *getattr(value, "__dict__", {})}):
        declared = vars(value).get(name) if hasattr(value, "__dict__") else None
        inherited = next((vars(kind)[name] for kind in type(value).__mro__ if name in vars(kind)), None)
        if isinstance(declared, (*FUNCTIONS, *CONCRETE)) or isinstance(inherited, Function):
            found[name] = getattr(value, name) if declared is None else declared
    return found


_FULL_ARG_SPEC: Any = cast("Any", namedtuple)(
    "FullArgSpec", ["args", "varargs", "varkw", "defaults", "kwonlyargs", "kwonlydefaults", "annotations"]
)


def _function_spec(function: Any) -> Message:
    if isinstance(function, RestoredFunction):
        return [] if function.spec is None else decode(function.spec.data)
    parameters = list(function.function_type.parameters.values())
    of = {each: [p for p in parameters if p.kind == each] for each in {p.kind for p in parameters}}
    plain = [*of.get(0, []), *of.get(1, [])]
    keyword = of.get(3, [])
    defaults = tuple(p.default for p in plain if p.default is not p.empty)
    spec = _FULL_ARG_SPEC(
        [p.name for p in plain],
        of[2][0].name if 2 in of else None,
        of[4][0].name if 4 in of else None,
        defaults or None,
        [p.name for p in keyword],
        {p.name: p.default for p in keyword if p.default is not p.empty} or None,
        {},
    )
    signature = function.input_signature
    return [(1, writing.structured(spec)), (5, writing.structured(None if signature is None else tuple(signature)))]


_NO_ARGUMENTS: Message = [
    (1, writing.structured(_FULL_ARG_SPEC([], None, None, None, [], None, {}))),
    (5, writing.structured(None)),
]
"""The FunctionSpec of a function without parameters."""
