"""Switches of AutoGraph."""

from gradtape._src.function.autograph import (
    do_not_convert as do_not_convert,
    set_loop_options as set_loop_options,
)
