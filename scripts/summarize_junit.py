# SPDX-License-Identifier: Apache-2.0
"""Reads what scripts/test left in the build directory of each preset, and says how the tests ended.

Usage: summarize_junit.py counts BUILD_DIRECTORY       prints `PASSED FAILED SKIPPED`, and what a reader should know on stderr
       summarize_junit.py failures BUILD_DIRECTORY...  names each failed test of all presets, with the last lines of its output

The files: `build.log`; `ctest.status`, ctest's exit status, missing when the build failed; `junit.xml` by ctest; `rerun.xml` by the ctest
that ran the failed tests once more, alone.

What did not run for another reason than a skip (a program that is missing, or cannot list its cases) is a failure, and so are a build
that failed, a ctest that left no results, and one that failed while no test did. A test that runs other test programs counts as one, and
what it says of each (`guest: verbs 9 passed, 0 failed, 0 skipped`) is shown.
"""

import collections
import dataclasses
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# Whoever reads the end of a long log must find all of it there.
FAILURE_LINES = 150
LINES_OF_A_FAILURE = 25
LEAST_LINES_OF_A_FAILURE = 4
NAMED_FAILURES = 30
NAMES_OF_A_REASON = 3
LINE_LENGTH = 400

INNER_COUNTS = r"^(?:guest|host): .* \d+ passed, (\d+) failed, \d+ skipped.*$"
INNER_FAILURE = r"^  .* failed: +\S.*$"
INNER_SKIP = r"^  (.*) skipped: (\S+): (.*)$"


@dataclasses.dataclass
class Result:
    name: str
    outcome: str  # passed, failed, skipped
    output: str = ""
    is_test: bool = True  # or a build, or a whole run


def read_cases(path: pathlib.Path) -> list[Result]:
    cases = ElementTree.parse(path).getroot().iter("testcase")
    return [Result(case.get("name", "?"), outcome(case), case.findtext("system-out") or "") for case in cases]


def outcome(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    if case.get("status") == "disabled" or (
        skipped is not None and skipped.get("message", "").startswith("SKIP_")
    ):
        return "skipped"
    if case.get("status") == "run" and case.find("failure") is None and skipped is None:
        return "passed"
    return "failed"


def read_results(directory: pathlib.Path) -> list[Result]:
    """All that ran in one preset, with one more failure for trouble that is no test's."""
    try:
        status = int((directory / "ctest.status").read_text())
    except FileNotFoundError:
        log = directory / "build.log"
        return [Result("the build", "failed", log.read_text(errors="replace") if log.exists() else "", is_test=False)]
    try:
        results = read_cases(directory / "junit.xml")
    except (OSError, ElementTree.ParseError) as error:
        return [Result(f"ctest (exit status {status}) left no readable results", "failed", str(error), is_test=False)]
    if status != 0 and not any(result.outcome == "failed" for result in results):
        results.append(Result(f"ctest failed with exit status {status}, though no test did", "failed", is_test=False))
    return results


def skip_reason(output: str) -> str:
    """GoogleTest prints `file:line: Skipped` and the reason on the lines after it."""
    match = re.search(r": Skipped\n(.*?)\n\s*(?:\n|\[)", output, re.DOTALL)
    return " ".join(match.group(1).split()) if match else "no reason given"


def grouped_skips(results: list[Result]) -> list[str]:
    """One line for each reason, the commonest first."""
    names = collections.defaultdict(list)
    for result in results:
        if result.outcome == "skipped":
            names[skip_reason(result.output)].append(result.name)
        for label, name, reason in re.findall(INNER_SKIP, result.output, re.MULTILINE):
            names[reason].append(f"{label} {name}")
    lines = []
    for reason, skipped in sorted(names.items(), key=lambda item: -len(item[1])):
        more = len(skipped) - NAMES_OF_A_REASON
        some = ", ".join(skipped[:NAMES_OF_A_REASON]) + (f" and {more} more" if more > 0 else "")
        lines.append(f"skipped {len(skipped)}: {reason}: {some}")
    return lines


def counts(directory: pathlib.Path) -> None:
    results = read_results(directory)
    for line in grouped_skips(results):
        print(line, file=sys.stderr)
    for result in results:
        if not result.is_test:
            continue
        for match in re.finditer(INNER_COUNTS, result.output, re.MULTILINE):
            print(match.group(), file=sys.stderr)
    for result in results:
        if result.outcome == "failed":
            print(f"failed: {result.name}", file=sys.stderr)
    print(*(sum(result.outcome == wanted for result in results) for wanted in ("passed", "failed", "skipped")))


def told_alone(directory: pathlib.Path) -> dict[str, str]:
    """How each failed test that was run again ended, as words for a reader."""
    words = {"passed": "failed under load, passed alone", "failed": "failed alone too", "skipped": "skipped alone"}
    try:
        results = read_cases(directory / "rerun.xml")
    except (OSError, ElementTree.ParseError):
        return {}
    # ctest keeps nothing of what a test printed whose time was up.
    return {result.name: words[result.outcome] if result.outcome != "failed" or result.output else "failed alone too, or was not done in time"
            for result in results}


def inner_failures(output: str) -> list[str]:
    """Of a test that runs other test programs: whose counts are bad, and each case that failed."""
    bad = [match.group() for match in re.finditer(INNER_COUNTS, output, re.MULTILINE) if match.group(1) != "0"]
    return bad + re.findall(INNER_FAILURE, output, re.MULTILINE)


def telling_lines(output: str, limit: int) -> list[str]:
    """The last lines, or the first ones of a sanitizer's report, whose end says little. Inner failures come first."""
    lines = [line[:LINE_LENGTH] for line in output.splitlines() if line.strip()]
    inner = inner_failures(output)[:limit]
    if inner:
        lines = [line for line in lines if line not in inner and not re.match(INNER_COUNTS, line)]
    limit -= len(inner)
    start = max(len(lines) - limit, 0)
    for number, line in enumerate(lines[:start]):
        if re.search(r"ERROR: \w+Sanitizer: |: runtime error: ", line):
            start = number
            break
    return inner + lines[start:start + limit]


def failures(directories: list[pathlib.Path]) -> None:
    """The outputs first, so that the names stand at the very end."""
    failed = [(directory, result) for directory in directories for result in read_results(directory) if result.outcome == "failed"]
    lines_left = FAILURE_LINES - min(len(failed), NAMED_FAILURES) - 1
    for number, (directory, result) in enumerate(failed):
        # What the first ones do not need is left to the others; one line is the name's.
        share = min(LINES_OF_A_FAILURE, max(lines_left // (len(failed) - number) - 1, LEAST_LINES_OF_A_FAILURE))
        if share >= lines_left:
            break
        shown = telling_lines(result.output, share) or ["(no output)"]
        lines_left -= len(shown) + 1
        print(f"-- {directory.name}: {result.name}")
        print("".join(f"   {line}\n" for line in shown), end="")
    for directory, result in failed[:NAMED_FAILURES]:
        alone = told_alone(directory).get(result.name, "not run again") if result.is_test else ""
        print(f"failed: {directory.name}: {result.name}" + (f" ({alone})" if alone else ""))
    if len(failed) > NAMED_FAILURES:
        print(f"... and {len(failed) - NAMED_FAILURES} more failed")


def main(command: str, *directories: str) -> None:
    paths = [pathlib.Path(directory) for directory in directories]
    if command == "counts":
        counts(*paths)
    else:
        failures(paths)


if __name__ == "__main__":
    main(*sys.argv[1:])
