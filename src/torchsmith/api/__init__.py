"""What torchsmith can be asked: a typed request for each verb, and the function that answers it."""
