# Written by `torchsmith ci hydra`: a job for every cell of the matrix.
{ torchsmithNixpkgs ? null, ... }:

let
  repo = path: import path { inherit torchsmithNixpkgs; };
in
{
@JOBS@}
