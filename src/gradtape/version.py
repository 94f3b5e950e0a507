"""The version of gradtape, in its one place: packaging, ``gradtape.__version__`` and ``gradtape --version`` read it."""

import typing as _typing

from gradtape._src.version import (
    COMPILER_VERSION as COMPILER_VERSION,
    GIT_VERSION as GIT_VERSION,
    GRAPH_DEF_VERSION as GRAPH_DEF_VERSION,
    GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER,
    GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER,
    VERSION as VERSION,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
