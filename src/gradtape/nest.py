"""Nested structures: lists, tuples, named tuples, mappings and attrs classes, with leaves of any kind."""

import typing as _typing

from gradtape._src.nest import (
    assert_same_structure as assert_same_structure,
    flatten as flatten,
    is_nested as is_nested,
    map_structure as map_structure,
    pack_sequence_as as pack_sequence_as,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
