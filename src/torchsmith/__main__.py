"""`torchsmith` and `python -m torchsmith`."""

import sys


def main() -> None:
    """Run the command line; the version is answered before anything heavy is loaded."""
    if sys.argv[1:] == ["--version"]:
        from torchsmith import __version__

        print(f"torchsmith {__version__}")
        return
    try:
        from torchsmith.cli.main import run

        run()
    except KeyboardInterrupt:  # while modules are still being loaded
        sys.exit(130)


if __name__ == "__main__":
    main()
