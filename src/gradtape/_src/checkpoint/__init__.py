"""`tf.train`: checkpoints and records, in TensorFlow's formats."""

from __future__ import annotations

from gradtape._src.checkpoint import experimental as experimental
from gradtape._src.checkpoint.checkpoint import Checkpoint as Checkpoint, CheckpointOptions as CheckpointOptions
from gradtape._src.checkpoint.manager import CheckpointManager as CheckpointManager
from gradtape._src.checkpoint.reading import (
    list_variables as list_variables,
    load_checkpoint as load_checkpoint,
    load_variable as load_variable,
)
from gradtape._src.checkpoint.state import (
    checkpoints_iterator as checkpoints_iterator,
    get_checkpoint_state as get_checkpoint_state,
    latest_checkpoint as latest_checkpoint,
)
from gradtape._src.cluster_spec import ClusterSpec as ClusterSpec
from gradtape._src.formats.example import (
    BytesList as BytesList,
    Example as Example,
    Feature as Feature,
    FeatureList as FeatureList,
    FeatureLists as FeatureLists,
    Features as Features,
    FloatList as FloatList,
    Int64List as Int64List,
    SequenceExample as SequenceExample,
)

__all__ = [
    "BytesList",
    "Checkpoint",
    "CheckpointManager",
    "CheckpointOptions",
    "ClusterSpec",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
    "checkpoints_iterator",
    "experimental",
    "get_checkpoint_state",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
]
