"""Where NVIDIA's driver installs its library, and how programs that Nix built find it."""

from __future__ import annotations

LIBRARY = "libcuda.so.1"
DRIVER_DIR = "/run/opengl-driver/lib"  # NixOS links the driver there; elsewhere the user must
DRIVER_LIBRARIES = tuple(
    f"{folder}/{LIBRARY}"
    for folder in (
        DRIVER_DIR,
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu/nvidia",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
    )
)


def driver_link_command(folder: str) -> str:
    """The command that links a driver's files, and no others of their folder, for programs of Nix."""
    libraries = f"{folder}/libcuda.so* {folder}/libnvidia-*.so*"
    return f"sudo mkdir -p {DRIVER_DIR} && sudo ln -sf {libraries} {DRIVER_DIR}/"
