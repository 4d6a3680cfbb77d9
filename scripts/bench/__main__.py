"""Times the whole operator library: python3 scripts/bench [--against PYTHON] [REGEX]

Every operator is called with about a million elements. Given an interpreter that can import PyTorch, every call is timed in
both, in turns, each in a process of its own; the table has the ratios, the slowest first (below 1: faster than PyTorch).
A time is the least of several blocks of calls: the processor's with one thread, the clock's with more. Run it with the
package importable.
"""

import argparse
import json
import os
import pathlib
import re
import select
import statistics
import subprocess
import sys

from calls import calls

WORKER = pathlib.Path(__file__).resolve().with_name("worker.py")


class Contestant:
    """A process that times calls of a module; one that dies or hangs is started again."""

    def __init__(self, python, module, threads, timeout):
        self.command, self.timeout, self.process = [python, str(WORKER), module, str(threads)], timeout, None
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.hello = self.start()

    def start(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True, env=self.environment)
        return self.reply(120)

    def reply(self, timeout):
        ready = select.select([self.process.stdout], [], [], timeout)[0]
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.stop()
        return {"error": "died" if ready else "no answer in time"}

    def ask(self, **request):
        if self.process is None:
            self.start()
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        return self.reply(self.timeout)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def measure(contestants, call, options):
    """{contestant: seconds of a call}, or {"error": why not}."""
    _, function, arguments = call
    counts, best, shapes = {}, {}, {}
    for name, contestant in contestants.items():
        first = contestant.ask(function=function, arguments=arguments, dtype=options.dtype, backward=options.backward)
        if "error" in first:
            return {"error": f"{name}: {first['error']}"}
        shapes[name] = first["shapes"]
        counts[name] = max(1, min(10000, int(options.block * 1e9 / first["time"])))
        best[name] = first["time"]
    if len(contestants) > 1 and len({json.dumps(s) for s in shapes.values()}) > 1:
        return {"error": f"results differ: {shapes}"}
    for turn in range(options.rounds):
        for name in sorted(contestants, reverse=turn % 2 == 1):
            block = contestants[name].ask(count=counts[name])
            if "error" in block:
                return {"error": f"{name}: {block['error']}"}
            best[name] = min(best[name], block["time"])
    return {name: time / 1e9 for name, time in best.items()}


def shown(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def report(results, others):
    done = {label: r for label, r in results.items() if "error" not in r}
    if others:
        rows = sorted(((r["flambeau"] / r["torch"], label, r) for label, r in done.items()), key=lambda row: -row[0])
        for ratio, label, r in rows:
            print(f"{ratio:8.2f}  {label:50} {shown(r['flambeau']):>9} {shown(r['torch']):>9}")
        ratios = [row[0] for row in rows]
        if ratios:
            above = ", ".join(f"{sum(r > limit for r in ratios)} above {limit}" for limit in (1.5, 1.0))
            print(f"{len(ratios)} operators and modes: median {statistics.median(ratios):.2f}, {above}")
    else:
        for label, r in sorted(done.items(), key=lambda row: -row[1]["flambeau"]):
            print(f"{shown(r['flambeau']):>9}  {label}")
    for label, r in results.items():
        if "error" in r and not r["error"].endswith("not differentiable"):
            print(f"not timed: {label}: {r['error']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regex", nargs="?", default="", help="only what matches")
    parser.add_argument("--against", metavar="PYTHON", help="an interpreter that can import PyTorch")
    parser.add_argument("--backward", action="store_true", help="the gradients instead of the calls")
    parser.add_argument("--dtype", default="float32", help="of what is not complex, an index or a mask")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="blocks of calls per contestant")
    parser.add_argument("--block", type=float, default=0.01, help="seconds that a block should take")
    parser.add_argument("--timeout", type=float, default=60, help="seconds after which a block is given up")
    parser.add_argument("--json", metavar="FILE", help="where to write all results")
    options = parser.parse_args()
    contestants = {"flambeau": Contestant(sys.executable, "flambeau", options.threads, options.timeout)}
    schemas = contestants["flambeau"].hello["schemas"]
    if options.against:
        contestants["torch"] = Contestant(options.against, "torch", options.threads, options.timeout)
    results = {}
    for call in calls(schemas):
        if re.search(options.regex, call[0]):
            results[call[0]] = measure(contestants, call, options)
            if sys.stderr.isatty():
                print(f"\r\033[K{call[0]}", end="", file=sys.stderr)
    for contestant in contestants.values():
        contestant.stop()
    report(results, options.against)
    if options.json:
        about = {k: v for k, v in vars(options).items() if k not in ("against", "json")}
        pathlib.Path(options.json).write_text(json.dumps({"options": about, "results": results}, indent=1))


if __name__ == "__main__":
    main()
