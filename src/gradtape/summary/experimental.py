"""Steps, and summaries of your own kind."""

from gradtape._src.tf.summary_experimental import (
    get_step as get_step,
    set_step as set_step,
    summary_scope as summary_scope,
    write_raw_pb as write_raw_pb,
)
