"""Variables: identity (`variable`), memory (`storage`), parts (`slices`), and their roles in functions (`params`)."""

from gradtape._src.variable.params import StreamState, VariableParam, stored
from gradtape._src.variable.storage import (
    Loan,
    Storage,
    called_back,
    commit,
    deferred_restores,
    lend_all,
    on_host,
    updating,
)
from gradtape._src.variable.variable import (
    Creations,
    Variable,
    VariableAggregation,
    VariableSynchronization,
    creating,
    name_prefix,
)
from gradtape._src.variable.wrappers import all_unwrapped, register_wrapper, unwrapped

__all__ = [
    "Creations",
    "Loan",
    "Storage",
    "StreamState",
    "Variable",
    "VariableAggregation",
    "VariableParam",
    "VariableSynchronization",
    "all_unwrapped",
    "called_back",
    "commit",
    "creating",
    "deferred_restores",
    "lend_all",
    "name_prefix",
    "on_host",
    "register_wrapper",
    "stored",
    "unwrapped",
    "updating",
]
