"""Switches of AutoGraph."""

import typing as _typing

from gradtape._src.function.autograph import (
    do_not_convert as do_not_convert,
    set_loop_options as set_loop_options,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
