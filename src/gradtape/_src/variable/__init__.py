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
    abstract_value,
    creating,
    is_local_to,
    name_prefix,
    notice_reading,
    peek,
    read,
    state_in,
    store,
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
    "abstract_value",
    "all_unwrapped",
    "called_back",
    "commit",
    "creating",
    "deferred_restores",
    "is_local_to",
    "lend_all",
    "name_prefix",
    "notice_reading",
    "on_host",
    "peek",
    "read",
    "register_wrapper",
    "state_in",
    "store",
    "stored",
    "unwrapped",
    "updating",
]
