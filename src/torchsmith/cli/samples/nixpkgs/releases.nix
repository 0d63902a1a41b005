# What the miniature ships when it looks like one nixpkgs revision or another.
{
  "6a030d5" = {
    torch = "2.9.1";
    torchvision = "0.24.0";
    torchaudio = "2.9.0";
    cudas = [ "12.6" "12.8" "12.9" "13.0" ];
    newestCuda = "13.0"; # what cudaPackages_13 is
    pytorchAlias = false; # `pytorch` throws
  };

  "fe5e41d" = {
    torch = "2.8.0";
    torchvision = "0.23.0";
    torchaudio = "2.8.0";
    cudas = [ "12.6" "12.8" "12.9" ];
    newestCuda = null;
    pytorchAlias = true;
  };

  "2017d6d" = {
    torch = "2.9.1";
    torchvision = "0.24.1";
    torchaudio = "2.9.1";
    cudas = [ "12.6" "12.8" "12.9" "13.0" "13.1" ];
    newestCuda = "13.1";
    pytorchAlias = false;
  };

  # The shape that nixpkgs' torch has since 2026: `env`, `__structuredAttrs`, `finalAttrs`, and CUDA's cccl.
  "2026-11" = {
    torch = "2.14.1";
    torchvision = "0.29.2";
    torchaudio = "2.11.0";
    cudas = [ "12.6" "12.8" "12.9" "13.0" "13.1" ];
    newestCuda = "13.1";
    pytorchAlias = false;
    structured = true;
  };
}
