"""File formats: protocol buffers, LevelDB tables, checksums, tensor bundles, TFRecords, examples."""
