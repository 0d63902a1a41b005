"""Where NVIDIA's driver lays its library, and how programs that Nix built come to find it."""

from __future__ import annotations

LIBRARY = "libcuda.so.1"
NIX_LOOKS = "/run/opengl-driver/lib"  # NixOS lays the driver there; elsewhere somebody has to
DRIVER_LIBRARIES = tuple(
    f"{folder}/{LIBRARY}"
    for folder in (
        NIX_LOOKS,
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu/nvidia",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
    )
)


def linking(folder: str) -> str:
    """The command that shows a driver's files, and nothing else of their folder, to Nix's programs."""
    return (
        f"sudo mkdir -p {NIX_LOOKS} && sudo ln -sf {folder}/libcuda.so* {folder}/libnvidia-*.so* {NIX_LOOKS}/"
    )
