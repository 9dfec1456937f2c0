# SPDX-License-Identifier: Apache-2.0
"""Counts the results in a JUnit file that ctest wrote: prints `PASSED FAILED SKIPPED`.

Usage: summarize_junit.py FILE CTEST_EXIT_STATUS

Names each failed test and each skipped one with its reason on stderr, and shows what a test which runs other test programs says of
each (`guest: verbs 9 passed, 0 failed, 0 skipped`). What did not run for another reason than a skip (a program that
is missing, or cannot list its cases) is a failure, and so is a ctest that failed while no test did.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    if case.get("status") == "disabled" or (
        skipped is not None and skipped.get("message", "").startswith("SKIP_")
    ):
        return "skipped"
    if case.get("status") == "run" and case.find("failure") is None and skipped is None:
        return "passed"
    return "failed"


def skip_reason(case: ElementTree.Element) -> str:
    """GoogleTest prints `file:line: Skipped` and the reason on the lines after it."""
    output = case.findtext("system-out") or ""
    match = re.search(r": Skipped\n(.*?)\n\s*(?:\n|\[)", output, re.DOTALL)
    return " ".join(match.group(1).split()) if match else "no reason given"


def inner_results(case: ElementTree.Element) -> list[str]:
    """What a test that runs other test programs printed of each: counts, and the cases that failed or were skipped."""
    output = case.findtext("system-out") or ""
    if not re.search(r"^(?:guest|host): .* \d+ passed, \d+ failed, \d+ skipped", output, re.MULTILINE):
        return []
    return re.findall(r"^(?:(?:guest|host): .* skipped.*|  .* (?:failed|skipped): .*)$", output, re.MULTILINE)


def main(path: str, ctest_status: int) -> int:
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"ctest (exit status {ctest_status}) left no readable {path}: {error}", file=sys.stderr)
        return 1
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        result = outcome(case)
        counts[result] += 1
        for line in inner_results(case):
            print(line, file=sys.stderr)
        if result == "failed":
            print(f"failed:  {case.get('name')}", file=sys.stderr)
        elif result == "skipped":
            print(f"skipped: {case.get('name')}: {skip_reason(case)}", file=sys.stderr)
    if ctest_status != 0 and counts["failed"] == 0:
        print(f"ctest failed with exit status {ctest_status}, though no test did", file=sys.stderr)
        counts["failed"] = 1
    print(counts["passed"], counts["failed"], counts["skipped"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
