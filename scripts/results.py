"""Counts tests in the output of what `make test` runs: cargo test, guest/test, pytest and fuzz/run.sh."""

import re
from dataclasses import dataclass, field


@dataclass
class Results:
    """How many tests passed, failed and were skipped, and why these were: `test: reason`, or the reason alone."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def __bool__(self) -> bool:
        return bool(self.passed or self.failed or self.skipped)

    def add(self, other: "Results") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += other.reasons

    def skip(self, reason: str) -> None:
        self.skipped += 1
        self.reasons.append(reason)

    def show_skipped(self, where: str) -> None:
        """Prints each reason once, with the tests that gave it."""
        names: dict[str, list[str]] = {}
        for text in self.reasons:
            name, colon, reason = text.partition(": ")
            names.setdefault(reason if colon else text, []).append(name if colon else where)
        for reason, tests in names.items():
            what = tests[0] if len(tests) == 1 else f"{len(tests)} tests ({', '.join(tests[:3])}{', ...' if len(tests) > 3 else ''})"
            print(f"skipped in {where}: {what}: {reason}", flush=True)


def results_in(text: str) -> Results:
    """The results that an output tells of."""
    total = Results()
    for part in (rust, guests, pytest, fuzz):
        total.add(part(text))
    return total


def rust(text: str) -> Results:
    """Of cargo test. A test that says `skipped: REASON` and ends well has skipped itself; `--show-output` shows that.

    >>> found = rust('''test a ... ok
    ... test b ... ignored, it makes images
    ... test c ... ok
    ...
    ... successes:
    ...
    ... ---- c stdout ----
    ... tried it
    ... skipped: no compiler
    ...
    ...
    ... successes:
    ...     a
    ...     c
    ...
    ... test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
    ... ''')
    >>> print(found, found.reasons)
    1 passed, 0 failed, 2 skipped ['b: it makes images', 'c: no compiler']
    """
    found = Results()
    for passed, failed, ignored in re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", text, re.M):
        found.add(Results(int(passed), int(failed), int(ignored)))
    for name, reason in re.findall(r"^test (.+?) \.\.\. ignored(?:, (.*))?$", text, re.M):
        found.reasons.append(f"{name}: {reason or 'it is ignored'}")
    for section in re.findall(r"^successes:\n(.*?)^successes:$", text, re.M | re.S):
        for name, reason in re.findall(r"^---- (.+) stdout ----\n(?:(?!---- ).*\n)*?skipped: (.*)$", section, re.M):
            found.passed -= 1
            found.skip(f"{name}: {reason}")
    return found


def guests(text: str) -> Results:
    """Of guest/test.

    >>> found = guests("ok       a (3 s)\\nskipped  b (0 s): it takes long\\n7.2.13+deb14-amd64: 1 ok, 0 failed, 1 skipped\\r\\n")
    >>> print(found, found.reasons)
    1 passed, 0 failed, 1 skipped ['b: it takes long']
    """
    found = Results()
    for numbers in re.findall(r"^[\w.+~-]+: (\d+) ok, (\d+) failed, (\d+) skipped\s*$", text, re.M):
        found.add(Results(*map(int, numbers)))
    found.reasons += [f"{name}: {reason}" for name, reason in re.findall(r"^skipped +(\w+) \(\d+ s\): (.*?)\s*$", text, re.M)]
    return found


def pytest(text: str) -> Results:
    """Of its last line and the reasons that `-ra` prints.

    >>> found = pytest("SKIPPED [1] tests/test_ci.py:48: no wheel\\n===== 2 failed, 57 passed, 1 skipped, 1 error in 3.21s =====\\n")
    >>> print(found, found.reasons)
    57 passed, 3 failed, 1 skipped ['tests/test_ci.py:48: no wheel']
    """
    found = Results()
    for line in re.findall(r"^=* ?(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s", text, re.M):
        number = {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", line)}
        failed = sum(number.get(word, 0) for word in ("failed", "error", "errors"))
        found.add(Results(number.get("passed", 0), failed, number.get("skipped", 0)))
    found.reasons += re.findall(r"^SKIPPED \[\d+\] (.*)$", text, re.M)
    return found


def fuzz(text: str) -> Results:
    """Of fuzz/run.sh: one test for each target.

    >>> print(fuzz("nbd_server: 51203 inputs in 4 s, no failure\\n"))
    1 passed, 0 failed, 0 skipped
    """
    return Results(passed=len(re.findall(r"^\w+: \d+ inputs in .*, no failure$", text, re.M)))
