"""The face of torchsmith: one file a verb, each loaded only when it is called."""
