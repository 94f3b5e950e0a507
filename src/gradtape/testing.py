"""`check_gradients`: is the derivative of a function what numbers say it is? `certify`: how exactly was it computed?"""

from gradtape._src.testing import (
    MODES as MODES,
    Certificate as Certificate,
    CertifiedOp as CertifiedOp,
    certify as certify,
    check_gradients as check_gradients,
)
