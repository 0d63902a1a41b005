"""The child of the embedded evaluator: reads expressions, writes values, and can do nothing else.

Run as a file, in isolated mode, so that it starts without the rest of torchsmith.
"""

import json
import resource
import sys


def confine(memory: int) -> None:
    """From here on: no new file, no file written, and no more memory than this."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # stdin, stdout and stderr stay open; the next file would be the fourth.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def main() -> None:
    sys.path.append(sys.argv[2])
    import nixeval

    nixeval.loads("builtins.toJSON { warm = 1; }")
    confine(int(sys.argv[1]))
    for line in sys.stdin:
        try:
            answer = {"values": json.loads(nixeval.loads(json.loads(line)))}
        except ValueError as error:
            answer = {"error": str(error).removeprefix("nix parsing error: ")}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
