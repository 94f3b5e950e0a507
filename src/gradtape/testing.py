"""`check_gradients`: is the derivative of a function what numbers say it is?"""

from gradtape._src.testing import (
    MODES as MODES,
    check_gradients as check_gradients,
)
