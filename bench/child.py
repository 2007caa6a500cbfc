"""Runs one function in a process of its own and prints what it returns, as a line of JSON.

`python -m bench.child bench.scenarios.enqueue:single '{"jobs": 3000}'`; see `Bed.child`.
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    answer = function(**json.loads(sys.argv[2]))
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
