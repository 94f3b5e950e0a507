"""`tf.train`: checkpoints and records, in TensorFlow's formats; averages of variables; second-order optimizers."""

import typing as _typing

from gradtape._src.solvers.train import (
    BytesList as BytesList,
    Checkpoint as Checkpoint,
    CheckpointManager as CheckpointManager,
    CheckpointOptions as CheckpointOptions,
    ClusterSpec as ClusterSpec,
    Coordinator as Coordinator,
    Example as Example,
    ExponentialMovingAverage as ExponentialMovingAverage,
    Feature as Feature,
    FeatureList as FeatureList,
    FeatureLists as FeatureLists,
    Features as Features,
    FloatList as FloatList,
    Int64List as Int64List,
    SequenceExample as SequenceExample,
    __dir__ as __dir__,
    checkpoints_iterator as checkpoints_iterator,
    get_checkpoint_state as get_checkpoint_state,
    latest_checkpoint as latest_checkpoint,
    list_variables as list_variables,
    load_checkpoint as load_checkpoint,
    load_variable as load_variable,
)
from gradtape.train import experimental as experimental

if _typing.TYPE_CHECKING:
    from gradtape._src.solvers.train import (
        LBFGS as LBFGS,
        ConvergenceReport as ConvergenceReport,
        LevenbergMarquardt as LevenbergMarquardt,
        NewtonCG as NewtonCG,
    )
else:
    from gradtape._src.lazy_names import of_public as _of_public
    from gradtape._src.solvers.train import __getattr__ as _load

    __getattr__ = _of_public(__name__, _load)
