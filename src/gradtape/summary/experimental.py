"""Steps, and summaries of your own kind."""

import typing as _typing

from gradtape._src.tf.summary_experimental import (
    get_step as get_step,
    set_step as set_step,
    summary_scope as summary_scope,
    write_raw_pb as write_raw_pb,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
