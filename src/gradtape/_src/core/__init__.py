"""The engine: primitives, dispatch, recording, and the passes over the records."""
