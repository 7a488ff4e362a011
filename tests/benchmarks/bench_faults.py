"""The table of faults: runs the tests that hold each, and prints how long a learner waits and what a learner reads.

    python tests/benchmarks/bench_faults.py

The seconds are the longest that a learner waits, as far as a test measures that (work of one core), else those of the
slowest test, marked *.
"""

import sys
from pathlib import Path

import pytest
from summary import record

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS.parent), str(TESTS.parent / ".ci"), str(TESTS)]


class Listener:
    """A plugin of pytest that notes how each test ended, how long it took, and the messages that it checked."""

    def __init__(self):
        self.seconds, self.outcome, self.said, self.waited, self.now = {}, {}, {}, {}, None

    def pytest_collection_modifyitems(self, items):
        """Listen to the checks of each file: what they are given is what a learner reads, and how long it took."""
        for module in {item.module for item in items}:
            for name in ("assert_plain", "assert_quick", "assert_refused"):
                if hasattr(module, name):
                    setattr(module, name, self.listening(getattr(module, name), name))

    def listening(self, check, name):
        def checked(given, *words, **options):
            if name == "assert_plain":
                self.said.setdefault(self.now, []).append(given)
            elif name == "assert_quick":
                self.waited.setdefault(self.now, []).append(given)
            elif isinstance(given, dict):
                self.waited.setdefault(self.now, []).append(given["seconds"])
            return check(given, *words, **options)

        return checked

    def pytest_runtest_logstart(self, nodeid):
        self.now = nodeid

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.seconds[report.nodeid] = report.duration
        if report.when == "call" or report.outcome != "passed":
            self.outcome[report.nodeid] = report.outcome

    def about(self, names):
        """How many of these tests ran, how they ended, the seconds, and one of the messages."""
        ran = [node for node in self.outcome if any(is_of(node, name) for name in names)]
        said = [message for node in ran for message in self.said.get(node, [])]
        waited = [seconds for node in ran for seconds in self.waited.get(node, [])]
        longest = max(waited or [self.seconds.get(node, 0) for node in ran], default=0)
        outcomes = ", ".join(sorted({self.outcome[node] for node in ran})) or "not run"
        return len(ran), outcomes, f"{longest:.2f}{' ' if waited else '*'}", min(said, key=len, default="")


def is_of(node, name):
    """Whether a test that ran has this name, or is a case of it."""
    node = node.rpartition("benchmarks/")[2].rpartition("tests/")[2]
    return node == name or node.partition("[")[0] == name


def main() -> int:
    from test_faults import FAULTS

    listener = Listener()
    names = sorted({name.partition("[")[0] for names in FAULTS.values() for name in names})
    tests = [str(TESTS / name) for name in names]
    code = pytest.main(
        ["-q", "-p", "no:cacheprovider", "--rootdir", str(TESTS.parent), *tests], plugins=[listener]
    )
    held = 0
    print(f"\n{'fault':40}{'tests':>6}  {'outcome':8}{'seconds':>9}  what the learner reads, for example")
    for fault, names in FAULTS.items():
        count, outcomes, seconds, said = listener.about(names)
        held += outcomes == "passed"
        print(f"{fault:40}{count:>6}  {outcomes:8}{seconds:>9}  {said or 'a right result'}")
    record("faults that end well", f"{held} of {len(FAULTS)}", "", "all", held == len(FAULTS))
    return code


if __name__ == "__main__":
    sys.exit(main())
