# PyTorch's own copy, which nixpkgs deletes.
