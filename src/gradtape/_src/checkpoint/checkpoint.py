"""`tf.train.Checkpoint`: save the values of variables in TensorFlow's format, and restore them."""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar

import numpy as np
from numpy import ndarray

from gradtape._src import errors, forks
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.call_sites import logger
from gradtape._src.checkpoint.state import get_checkpoint_state, update_checkpoint_state
from gradtape._src.checkpoint.tracking import (
    GRAPH,
    STATE,
    TABLE,
    VALUE,
    Found,
    Names,
    ObjectNode,
    attributes_of,
    described,
    is_trackable,
    objects_below,
    parts_of,
    read_description,
    resume,
    resume_at,
)
from gradtape._src.dtypes import dtype_of
from gradtape._src.formats import tensor_bundle as bundle
from gradtape._src.formats.atomic import alone_in, named_errors
from gradtape._src.interrupts import contextmanager, is_interrupt
from gradtape._src.variable import (
    Variable,
    copies_of,
    deferred_restores,
    read,
    restore_value,
    stored,
    unwrapped,
    updating,
)

saving = forks.rlock()
"""Held by the thread that saves under a number. To lock a folder as well (`alone_in`), acquire this lock first."""


class CheckpointOptions:
    """TensorFlow's options. This process writes the values synchronously to one file; other options have no effect.

    After a checkpoint has been written and registered as the latest, `experimental_write_callbacks` are called, with
    its path if they take a parameter. If one raises an exception, the checkpoint still exists.

    >>> import os, tempfile
    >>> options = tf.train.CheckpointOptions(enable_async=True)
    >>> path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(os.path.join(tempfile.mkdtemp(), "ckpt"), options=options)
    >>> os.path.basename(path)
    'ckpt-1'
    """

    def __init__(
        self,
        experimental_io_device: Any = None,
        experimental_enable_async_checkpoint: bool = False,
        experimental_write_callbacks: Any = None,
        enable_async: bool = False,
        experimental_skip_slot_variables: bool = False,
        experimental_sharding_callback: Any = None,
    ) -> None:
        for callback in experimental_write_callbacks or ():
            parameters = list(inspect.signature(callback).parameters)
            if len(parameters) > 1:
                raise AssertionError(
                    f"A write callback takes at most one parameter, the path; {callback} has {parameters}."
                )
        self.experimental_io_device = experimental_io_device
        self.enable_async = self.experimental_enable_async_checkpoint = (
            enable_async or experimental_enable_async_checkpoint
        )
        self.experimental_write_callbacks = experimental_write_callbacks
        self.experimental_skip_slot_variables = experimental_skip_slot_variables
        self.experimental_sharding_callback = experimental_sharding_callback


class Checkpoint:
    """Save and restore variables and the objects that hold them.

    >>> import gradtape as tf, tempfile
    >>> step, weights = tf.Variable(7), tf.Variable([1.0, 2.0])
    >>> checkpoint = tf.train.Checkpoint(step=step, weights=weights)
    >>> path = checkpoint.save(tempfile.mkdtemp() + "/training")
    >>> weights.assign([0.0, 0.0])
    <tf.Variable 'UnreadVariable' shape=(2,) dtype=float32, numpy=array([0., 0.], dtype=float32)>
    >>> status = checkpoint.restore(path)
    >>> weights.numpy().tolist()
    [1.0, 2.0]

    `restore` finds values by their attribute paths (`model.layers[0].kernel`), not by the names of variables. A
    variable that does not exist yet, because a layer has not been built, gets its value when it is created. The files
    use TensorFlow's format, so each library can read the other's checkpoints.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> checkpoint = tf.train.Checkpoint(step=tf.Variable(1))
    >>> path = checkpoint.write(os.path.join(folder, "by-name"))
    >>> status = checkpoint.read(path)
    >>> path = checkpoint.save(os.path.join(folder, "ckpt"))
    >>> os.path.basename(path), int(checkpoint.save_counter)
    ('ckpt-1', 1)
    >>> checkpoint.sync()
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        self._save_counter: Variable | None = None
        self._root = root
        if root is not None:
            _check_trackable("root", root, (tuple, list, Mapping))
            parts = parts_of(root) or {}
            for name, value in kwargs.items():
                if name in parts and unwrapped(parts[name]) is not unwrapped(value):
                    raise ValueError(
                        f"Cannot create a Checkpoint with keyword argument {name} if root.{name} already exists."
                    )
        for name, value in sorted(kwargs.items()):
            _check_trackable(name, value, (tuple,))
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        resume_at(self, name)

    def _trackable_children(self) -> dict[str, Any]:
        root = self._root
        parts = {} if root is None else dict(parts_of(root) or {})
        own = attributes_of(self)
        counter = own.pop("_save_counter", None)
        own.pop("_root", None)
        parts.update(own)
        if root is not None:
            parts["root"] = self  # in the file both are the same object
        if counter is not None:
            parts["save_counter"] = counter
        return parts

    @property
    def save_counter(self) -> Variable:
        """The number of saves, which is the number of the last file."""
        if self._save_counter is None:
            self._save_counter = Variable(np.int64(0), trainable=False, name="save_counter")
        return self._save_counter

    # -- saving ------------------------------------------------------------------------------------------------------
    def save(self, file_prefix: Any, options: Any = None) -> str:
        """Write all values to `file_prefix-N`, where N counts the saves, and register it as the latest checkpoint.

        The file `checkpoint` in the directory names the latest one, for `tf.train.latest_checkpoint`. Returns the path
        to restore from.
        """
        if current_graph() is not None:
            raise NotImplementedError(
                "Calling tf.train.Checkpoint.save() from a function is not supported, as save() modifies saving "
                "metadata in ways not supported by TensorFlow Operations. Call it after the function."
            )
        prefix = os.fsdecode(file_prefix)
        folder = os.path.dirname(prefix) or "."
        with self._numbered() as number, named_errors(folder), self._alone_in(folder):
            path = f"{prefix}-{number}"
            with withdrawn_on_error(path):
                self._write(path)
                self._once("state", lambda: update_checkpoint_state(folder, path, [path]))
        call_back(options, path)
        return path

    @contextmanager
    def _numbered(self) -> Iterator[int]:
        """Context with the number of a save, for one thread at a time; after an error, the number is reused."""
        with saving:
            counter = self.save_counter
            number = int(counter.numpy()) + 1
            counter.assign(number)
            try:
                yield number
            except BaseException:
                counter.assign(number - 1)
                raise

    def write(self, file_prefix: Any, options: Any = None) -> str:
        """Write all values to exactly this path, without a number, and do not register it as the latest checkpoint."""
        prefix = os.fsdecode(file_prefix)
        self._write(prefix)
        call_back(options, prefix)
        return prefix

    def _write(self, prefix: str) -> None:
        _refuse_tracing("write")
        found = objects_below(self)
        tensors: dict[str, ndarray] = {}
        keys: list[dict[str, tuple[str, str]]] = []
        for thing in found:
            values = _values_of(thing)
            keys.append({name: (full, f"{thing.key}/.ATTRIBUTES/{name}") for name, (full, _) in values.items()})
            for name, (_, parts) in values.items():
                tensors.update({f"{thing.key}/.ATTRIBUTES/{name}{part}": value for part, value in parts.items()})
        tensors[GRAPH] = np.array(described(found, keys), object)
        with named_errors(os.path.dirname(prefix) or prefix):
            self._store(prefix, tensors)

    # Overridden if several processes write one checkpoint.
    def _store(self, prefix: str, tensors: dict[str, Any]) -> None:
        """Write the values."""
        bundle.write(prefix, tensors)

    def _alone_in(self, folder: str) -> AbstractContextManager[None]:
        """Lock a folder while several files in it change."""
        return alone_in(folder)

    def _once(self, stage: str, work: Callable[[], None]) -> None:
        """Change files that all processes share."""
        work()

    # -- restoring ---------------------------------------------------------------------------------------------------
    def sync(self) -> None:
        """Wait until everything is written, which is already the case when `save` returns."""

    def restore(self, save_path: Any, options: Any = None) -> LoadStatus:
        """Assign the values of a checkpoint that `save` wrote to the variables; None restores nothing.

        Either all variables are restored or, if there is an error, none. The returned status has methods that check
        whether everything was found.
        """
        status = self.read(save_path, options)
        if save_path is not None:
            self.save_counter  # noqa: B018 - numbers continue from the one in the checkpoint
            resume()
        return status

    def read(self, save_path: Any, options: Any = None) -> LoadStatus:
        """Restore from files that `write` wrote; the save counter is not restored."""
        if save_path is None:
            return NothingLoaded(self)
        _refuse_tracing("read")
        path = os.fsdecode(save_path)
        try:
            return bundle.read(path, self._restored)
        except errors.NotFoundError as error:
            raise errors.NotFoundError(
                None,
                None,
                f"Error when restoring from checkpoint or SavedModel at {path}: {error.message}\nPlease double-check "
                "that the path is correct. You may be missing the checkpoint suffix (e.g. the '-1' in "
                "'path/to/ckpt-1').",
            ) from None

    def _restored(self, reader: bundle.Reader) -> LoadStatus:
        if GRAPH not in reader:
            raise ValueError(
                f"The checkpoint {reader.prefix} stores variables only by name, as tf.compat.v1.train.Saver does, "
                "so there are no objects to restore. Read the values with "
                "tf.train.load_checkpoint(path).get_tensor(name) and assign them."
            )
        try:
            nodes = read_description(reader.get(GRAPH)[()])
        except ValueError as error:
            raise bundle.damaged(f"Entry for key {GRAPH} not parseable. {error}", f"{reader.prefix}.index") from None
        restoration = Restoration(reader, nodes, self)
        restoration.look()
        return LoadStatus(restoration, self)


def call_back(options: Any, path: str) -> None:
    """Run the callbacks of the options after a checkpoint was written."""
    for callback in getattr(options, "experimental_write_callbacks", None) or ():
        callback(path) if inspect.signature(callback).parameters else callback()


@contextmanager
def withdrawn_on_error(path: str) -> Iterator[None]:
    """Undo a save if anything fails before the file `checkpoint` names it."""
    new = not os.path.exists(f"{path}.index")
    try:
        yield
    except BaseException:
        with suppress(OSError, ValueError):
            state = get_checkpoint_state(os.path.dirname(path)) if new else None
            if new and (state is None or state.model_checkpoint_path != path):
                bundle.delete(path)
        raise


def _refuse_tracing(method: str) -> None:
    if current_graph() is not None:
        raise NotImplementedError(
            f"Calling tf.train.Checkpoint.{method}() from a function is not supported: variables have no values while "
            "it is traced. Call it outside the function."
        )


def _check_trackable(name: str, value: Any, refused: tuple[type, ...]) -> None:
    if not is_trackable(value) or isinstance(value, refused):
        raise ValueError(
            f"`Checkpoint` was expecting {name} to be a trackable object (an object derived from `Trackable`), got "
            f"{value}. If you believe this object should be trackable (i.e. it is part of the TensorFlow Python API "
            "and manages state), please open an issue."
        )


class PythonState:
    """Python state that checkpoints save; a subclass defines `serialize` and `deserialize`.

    >>> import os, tempfile
    >>> class Counter(tf.train.experimental.PythonState):
    ...     count = 0
    ...
    ...     def serialize(self):
    ...         return str(self.count)
    ...
    ...     def deserialize(self, string_value):
    ...         self.count = int(string_value)
    >>> counter = Counter()
    >>> counter.count = 3
    >>> path = tf.train.Checkpoint(counter=counter).write(os.path.join(tempfile.mkdtemp(), "ckpt"))
    >>> counter.count = 0
    >>> _ = tf.train.Checkpoint(counter=counter).read(path)
    >>> counter.count
    3
    """

    def _trackable_children(self) -> dict[str, Any]:
        return {}

    def serialize(self) -> str | bytes:
        """Return the state as a string."""
        raise NotImplementedError(f"{type(self).__name__} must define serialize(), which returns what to save.")

    def deserialize(self, string_value: bytes) -> None:
        """Set the state from the result of `serialize`, as bytes."""
        raise NotImplementedError(f"{type(self).__name__} must define deserialize(), which restores what was saved.")


class TensorState:
    """State that consists of several tensors, such as that of a lookup table. Subclasses define both methods."""

    is_saved: bool = True

    def _trackable_children(self) -> dict[str, Any]:
        return {}

    def saved_tensors(self) -> dict[str, ndarray]:
        """The tensors to save, by the suffix of their key in the checkpoint."""
        raise NotImplementedError(f"{type(self).__name__} must define saved_tensors(), which returns what to save.")

    def restore_tensors(self, tensors: dict[str, ndarray]) -> None:
        """Set the state from the result of `saved_tensors`."""
        raise NotImplementedError(
            f"{type(self).__name__} must define restore_tensors(), which restores what was saved."
        )


def _stateful(value: Any) -> Any:
    """The variable or state that is saved for an object, or None. For a nested root, the root's."""
    while isinstance(value, Checkpoint):
        value = unwrapped(value._root)
    return value if isinstance(value, (Variable, PythonState, TensorState)) else None


def _saved_value(array: Any) -> Any:
    """The value of a variable for a file; if it is sharded over several processes, the parts of this one."""
    if getattr(array, "is_fully_addressable", True) or array.is_fully_replicated:
        return np.asarray(array)
    parts = []
    for shard in array.addressable_shards:
        if shard.replica_id == 0:
            bounds = [place.indices(size) for place, size in zip(shard.index, array.shape, strict=True)]
            parts.append((tuple([(start, stop - start) for start, stop, _ in bounds]), np.asarray(shard.data)))
    return bundle.Slices(tuple(array.shape), parts)


def _values_of(thing: Found) -> dict[str, tuple[str, dict[str, ndarray]]]:
    """The saved values of an object, by attribute: a readable name, and values by key suffix."""
    value = _stateful(thing.value)
    if isinstance(value, Variable):
        return {VALUE: (value.name.removesuffix(":0"), {"": _saved_value(read(value).array)})}
    if isinstance(value, PythonState):
        text = value.serialize()
        return {STATE: (thing.key, {"": np.array(text.encode() if isinstance(text, str) else text, object)})}
    if isinstance(value, TensorState) and value.is_saved:
        return {TABLE: ("", value.saved_tensors())}
    return {}


# -- matching the values of a checkpoint to objects ------------------------------------------------------------------
def _done() -> None:
    """Nothing is left to be assigned."""


class Restoration:
    """Restores the values of one checkpoint to objects, some of which may not exist yet.

    It holds no strong references to the checkpoint and the objects attached to it, where it starts, so that it may
    outlive them.
    """

    partial = True
    """Whether the user expects that some values are not found, or nothing was loaded."""

    def __init__(self, reader: bundle.Reader, nodes: list[ObjectNode], root: Checkpoint) -> None:
        self.reader, self.nodes = reader, nodes
        self.names = Names(nodes)
        self.objects: dict[int, int] = {}  # by node: the id of its object
        self._done: set[int] = set()  # nodes whose values were assigned
        self._refused: set[int] = set()  # nodes whose values did not fit their objects
        self._served: set[int] = set()  # uids of variables that have been assigned to
        self._starts: dict[int, Callable[[], Any]] = {0: weakref.ref(root, _forget_the_dead)}
        self.partial = False

    _busy: ClassVar[bool] = False

    def look(self) -> None:
        """Assign the values of all reachable objects, or of none if there is an error.

        While a restore is deferred, the first read of a new variable calls this. That may happen during this call; the
        inner call then returns immediately.
        """
        with updating():
            if not Restoration._busy:
                Restoration._busy = True
                try:
                    self._look()
                finally:
                    Restoration._busy = False

    def _look(self) -> None:
        pairs = list(self._reachable())
        self.objects.update((number, id(value)) for number, value in pairs)
        # Python state comes first: if `deserialize` fails, no variable has changed.
        pairs.sort(key=lambda pair: isinstance(_stateful(pair[1]), Variable))
        served: set[int] = set()
        actions: list[tuple[int, Callable[[], Any]]] = []
        number = 0
        variables = [v for _, value in pairs if isinstance(v := _stateful(value), Variable)]
        rollbacks = [stored(copy).storage.snapshot() for v in variables for copy in copies_of(v)]
        try:
            for number, value in pairs:
                actions += self._pending(number, value, served)
            for number, act in actions:  # noqa: B007 - which one failed
                act()
        except BaseException as error:
            for rollback in rollbacks:
                rollback()
            # Raised once. A deferred restore continues with other objects; others end here.
            if not is_interrupt(error):
                self._refused.add(number)
            self.partial = self.partial or self.look not in deferred_restores
            raise
        self._served |= served
        self._done.update(number for number, _ in actions)
        if not self.left_over():
            self.forget()
        elif self.look not in deferred_restores and self.is_reachable():
            deferred_restores.append(self.look)

    def forget(self) -> None:
        """Stop searching for objects."""
        with suppress(ValueError):
            deferred_restores.remove(self.look)

    def is_reachable(self) -> bool:
        """Whether an object is alive to which more objects could be attached."""
        return any(start() is not None for start in self._starts.values())

    def _reachable(self) -> Iterator[tuple[int, Any]]:
        """Nodes of the checkpoint with their objects, found along the names that both sides have."""
        queue = [(number, start()) for number, start in list(self._starts.items())]
        seen: set[int] = set()
        for number, value in queue:  # grows in the loop
            if value is None or number in seen:
                continue
            seen.add(number)
            yield number, value
            parts = parts_of(value) or {}
            for name, child in self.nodes[number].parts.items():
                if name in parts and child not in seen:
                    part = unwrapped(parts[name])
                    queue.append((child, part))
                    if number == 0 and child not in self._starts:
                        with suppress(TypeError):  # lists and dicts have no weak references
                            self._starts[child] = weakref.ref(part, _forget_the_dead)

    def _pending(self, number: int, value: Any, served: set[int]) -> list[tuple[int, Callable[[], Any]]]:
        """What is still to be assigned to an object."""
        if number in self._done or number in self._refused:
            return []
        return [(number, act or _done) for act in self._actions(number, _stateful(value), served)]

    def _actions(self, number: int, value: Any, served: set[int]) -> Iterator[Callable[[], Any] | None]:
        """Functions that assign the values of a node; None if they were assigned. Raises an error for mismatches."""
        values = self.nodes[number].values
        if isinstance(value, Variable) and VALUE in values:
            if value.uid in served or value.uid in self._served:  # two nodes now share a variable: the first one counts
                yield None
            else:
                array = _fitting(value, self.reader.get(values[VALUE][1]), values[VALUE][1])
                served.add(value.uid)
                yield lambda: restore_value(value, array)
        elif isinstance(value, PythonState) and STATE in values:
            text = self.reader.get(values[STATE][1]).item()
            yield lambda: value.deserialize(text)
        elif isinstance(value, TensorState) and TABLE in values:
            tensors = {end: self.reader.get(values[TABLE][1] + end) for end in value.saved_tensors()}
            yield lambda: value.restore_tensors(tensors)

    def left_over(self) -> list[int]:
        """The nodes whose values have not been restored."""
        return [i for i, node in enumerate(self.nodes) if node.values and i not in self._done]

    def __del__(self) -> None:
        if self.partial or sys.is_finalizing():
            return
        names = [self.names[number] for number in self.left_over()]
        if names:
            say = logger().warning
            say(
                "Detecting that an object or model or tf.train.Checkpoint is being deleted with unrestored values. See "
                "the following logs for the specific values in question. To silence these warnings, use "
                "`status.expect_partial()`."
            )
            for name in names:
                say("Value in checkpoint could not be found in the restored object: %s", name)


def _forget_the_dead(_: Any) -> None:
    """Called when an object is deleted to which more could have been attached: it may have been the last one."""
    for look in tuple(deferred_restores):
        restoration = getattr(look, "__self__", None)
        if isinstance(restoration, Restoration) and not restoration.is_reachable():
            restoration.forget()


NAMES_IN_FILES = {"float32": "float", "float64": "double", "float16": "half"}
"""TensorFlow's names of dtypes in messages about files."""


def _fitting(variable: Variable, array: ndarray, key: str) -> ndarray:
    """The value for a variable, after checking its shape and dtype. The width of integers may differ."""
    if not variable.shape.is_compatible_with(array.shape):
        raise ValueError(
            f"Received incompatible tensor with shape {array.shape} when attempting to restore variable with shape "
            f"{variable.shape} and name {variable.name}."
        )
    found, wanted = dtype_of(array).name, variable.dtype.name
    if found != wanted and variable.dtype.is_integer and array.dtype.kind in "iu":
        cast = array.astype(variable.dtype.numpy_dtype)
        if np.array_equal(cast, array):
            return cast
    if found != wanted:
        raise errors.invalid_argument(
            f"tensor_name = {key}; expected dtype {NAMES_IN_FILES.get(wanted, wanted)} does not equal original dtype "
            f"{NAMES_IN_FILES.get(found, found)}",
            "RestoreV2",
        )
    return array


class LoadStatus:
    """The status of a restored checkpoint.

    >>> import os, tempfile
    >>> whole = tf.train.Checkpoint(v=tf.Variable(1.0), w=tf.Variable(2.0))
    >>> path = whole.write(os.path.join(tempfile.mkdtemp(), "ckpt"))
    >>> part = tf.train.Checkpoint(v=tf.Variable(0.0))
    >>> status = part.read(path).expect_partial()
    >>> _ = status.assert_existing_objects_matched()
    >>> _ = status.assert_nontrivial_match()
    >>> status.initialize_or_restore()
    >>> status.run_restore_ops()
    >>> status.assert_consumed()
    Traceback (most recent call last):
        ...
    AssertionError: Unresolved object in checkpoint (root).w: attributes {...
    """

    def __init__(self, restoration: Restoration, root: Checkpoint) -> None:
        self._restoration, self._root = restoration, root

    def assert_consumed(self) -> LoadStatus:
        """Raise an error unless every value in the checkpoint has a variable, and every variable a value."""
        self.assert_existing_objects_matched()
        restoration = self._restoration
        unused = []
        for number in restoration.left_over():
            name, values = restoration.names[number], restoration.nodes[number].values
            if number in restoration.objects:
                unused.append(f"{name}: {list(values)}")
                continue
            texts = [
                f'attributes {{\n  name: "{attribute}"\n  full_name: "{full}"\n  checkpoint_key: "{key}"\n}}'
                for attribute, (full, key) in values.items()
            ]
            raise AssertionError(f"Unresolved object in checkpoint {name}: " + "\n".join(texts))
        if unused:
            raise AssertionError(
                "Unused attributes in these objects (the attributes exist in the checkpoint but were not restored):\n"
                + "\n".join(unused)
            )
        return self

    def _unmatched(self) -> list[Any]:
        self._restoration.look()
        matched = set(self._restoration.objects.values())
        found = [(thing.value, _stateful(thing.value)) for thing in objects_below(self._root)]
        return [state for value, state in found if state is not None and id(value) not in matched]

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Raise an error unless every existing variable was restored; the checkpoint may have more values."""
        lost = self._unmatched()
        if lost:
            raise AssertionError(
                f"Found {len(lost)} Python objects that were not bound to checkpointed values, likely due to changes "
                f"in the Python program. Showing {min(len(lost), 10)} of {len(lost)} unmatched objects: {lost[:10]}"
            )
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Raise an error if nothing but the root matched."""
        lost = self._unmatched()
        if len(self._restoration.objects) <= 1:
            if not lost:
                raise AssertionError(f"Nothing to load. No dependencies have been added to {self._root} yet.")
            raise AssertionError(
                "Nothing except the root object matched a checkpointed value. Typically this means that the checkpoint "
                "does not match the Python program. The following objects have no matching checkpointed value: "
                f"{lost}"
            )
        return self

    def expect_partial(self) -> LoadStatus:
        """Do not log a warning about values that are never used."""
        self._restoration.partial = True
        return self

    def initialize_or_restore(self, session: Any = None) -> None:
        """Do nothing: variables always have values."""

    def run_restore_ops(self, session: Any = None) -> None:
        """Do nothing: values are restored immediately."""


class NothingLoaded(LoadStatus):
    """The status of `restore(None)`: nothing was restored."""

    def __init__(self, root: Checkpoint) -> None:
        self._root = root

    def assert_consumed(self) -> LoadStatus:
        raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")

    assert_existing_objects_matched = assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> LoadStatus:
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        raise AssertionError(
            "No checkpoint specified, so no restore ops are available (save_path=None to Saver.restore)."
        )
