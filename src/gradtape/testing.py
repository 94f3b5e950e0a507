"""`check_gradients`: compare the derivative of a function with differences. `certify`: determine its accuracy."""

import typing as _typing

from gradtape._src.testing import (
    MODES as MODES,
    Certificate as Certificate,
    CertifiedOp as CertifiedOp,
    certify as certify,
    check_gradients as check_gradients,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
