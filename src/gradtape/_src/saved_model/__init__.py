"""SavedModels: the files, the graphs in them, and the objects that they describe."""
