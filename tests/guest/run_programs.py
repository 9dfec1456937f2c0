# SPDX-License-Identifier: Apache-2.0
"""Runs test programs in one guest, one after another, and says for each how many of its cases passed, failed and were skipped:

    guest: ofi;verbs 41 passed, 0 failed, 2 skipped

Usage: run_programs.py PLAN DIRECTORY. PLAN is JSON, written by forebay_guest_test in CMakeLists.txt:

    {"hosts": 1, "memory_mib": 2048, "timeout_s": 170, "programs": [
        {"label": "ofi;verbs", "command": ["/path/fabric_ofi_test"], "environment": ["NAME=value"], "timeout_s": 100, "host": false}]}

Programs with "host": true run on this machine instead, before the guest's, for what is to be compared with them: `host: tcp 36 passed ...`.
Programs are GoogleTest's; their cases are counted from the report that GoogleTest writes, or, when they die before, from what they printed. Logs and reports
stay in DIRECTORY. Exit status: 0, 1 when a case failed, or a program crashed, hung, or ran nothing; 77 when no guest can be had.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import kernel
import machine

EXIT_SKIPPED = 77
STATUS_TIMED_OUT = 124
LOG_LINES = 60

# What the caller may set for a test program; see scripts/test.
PASSED_ON = ("FOREBAY_SEED", "ASAN_OPTIONS", "ASAN_SYMBOLIZER_PATH", "LSAN_OPTIONS", "UBSAN_OPTIONS", "GTEST_FILTER")


class Outcome:
    """What one program left: counts, and what a reader must know."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.remarks = []
        self.suffix = ""

    def trouble(self, text):
        """Something that is no case and counts as a failed one."""
        self.failed += 1
        self.suffix = f" ({text})"


def script(programs, host):
    """Leaves N.log, N.xml and N.status below $GUEST_OUT for each program of the host, or of the guest."""
    lines = ["export GTEST_COLOR=no"]
    for number, program in enumerate(programs):
        if program.get("host", False) != host:
            continue
        command = ["env", *program["environment"], "timeout", "-k", "5", str(program["timeout_s"]), *program["command"]]
        lines.append(f"{shlex.join(command)} --gtest_output=xml:$GUEST_OUT/{number}.xml >$GUEST_OUT/{number}.log 2>&1 </dev/null")
        lines.append(f"echo $? >$GUEST_OUT/{number}.status")
    return "\n".join(lines)


def judge(directory, number, program):
    outcome = Outcome()
    log = directory / f"{number}.log"
    status = read(directory / f"{number}.status").strip()
    if not status:
        last = count_printed(outcome, read(log))
        outcome.trouble(f"the guest ended before it did{last}" if log.exists() else "not reached")
        return outcome
    try:
        report = ElementTree.fromstring(read(directory / f"{number}.xml"))
    except ElementTree.ParseError:
        # A program that crashes or is ended for taking too long writes no report: what it printed has to do.
        last = count_printed(outcome, read(log))
        how = f"took over {program['timeout_s']} s" if int(status) == STATUS_TIMED_OUT else f"ended with status {status}"
        outcome.trouble(f"{how}{last}")
        return outcome
    for case in report.iter("testcase"):
        count(outcome, f"{case.get('classname')}.{case.get('name')}", case)
    if outcome.passed + outcome.failed == 0:
        outcome.trouble("no case ran")
    elif int(status) != 0 and outcome.failed == 0:
        outcome.trouble(f"ended with status {status}, though no case failed")
    return outcome


def count(outcome, name, case):
    if case.get("status") == "notrun":
        return
    if case.find("failure") is not None:
        outcome.failed += 1
        outcome.remarks.append(f"failed:  {name}")
    elif case.get("result") == "skipped":
        outcome.skipped += 1
        # The place in the source, and on the lines after it the reason.
        reasons = [skip.get("message", "").partition("\n")[2] for skip in case.findall("skipped")]
        outcome.remarks.append(f"skipped: {name}: {' '.join(' '.join(reasons).split()) or 'no reason given'}")
    else:
        outcome.passed += 1


def read(path):
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def count_printed(outcome, log):
    """Where the program was, as words for a reader."""
    running = ""
    for line in log.splitlines():
        if match := re.fullmatch(r"\[ RUN      \] (\S+)", line):
            running = f" in {match.group(1)}"
        elif match := re.fullmatch(r"\[ +(OK|FAILED|SKIPPED) \] (\S+?)(?:, where .*)? \(\d+ ms\)", line):
            running = ""
            if match.group(1) == "OK":
                outcome.passed += 1
            elif match.group(1) == "SKIPPED":
                outcome.skipped += 1
            else:
                outcome.failed += 1
                outcome.remarks.append(f"failed:  {match.group(2)}")
    return running


def show(label, outcome, log):
    for remark in outcome.remarks:
        print(f"  {label} {remark}")
    if outcome.failed:
        print(f"  {label}, the last of {log}:")
        print("".join(f"    {line}\n" for line in read(log).splitlines()[-LOG_LINES:]), end="")


def main(plan_file, directory):
    plan = json.loads(pathlib.Path(plan_file).read_text())
    directory = pathlib.Path(directory).resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    job = machine.Job(
        command=["/bin/sh", "-c", script(plan["programs"], host=False)], directory=str(directory), hosts=plan["hosts"],
        memory_mib=plan["memory_mib"], timeout_s=plan["timeout_s"], out=directory,
        environment={name: os.environ[name] for name in PASSED_ON if name in os.environ})
    subprocess.run(["/bin/sh", "-c", script(plan["programs"], host=True)], env={**os.environ, "GUEST_OUT": str(directory)}, check=False)
    trouble = None
    try:
        machine.find_qemu()
        image = kernel.prepare(progress=kernel.report)
        machine.run(job, image, note=kernel.report)
    except kernel.Unavailable as error:
        # The form in which GoogleTest gives a reason, which scripts/test shows.
        print(f"{directory.name}: Skipped\n{error}\n\n")
        return EXIT_SKIPPED
    except machine.GuestFailed as error:
        trouble = error
    outcomes = [judge(directory, number, program) for number, program in enumerate(plan["programs"])]
    for number, (program, outcome) in enumerate(zip(plan["programs"], outcomes, strict=True)):
        show(program["label"], outcome, directory / f"{number}.log")
    if trouble is not None:
        print(f"guest: {trouble}")
    for program, outcome in zip(plan["programs"], outcomes, strict=True):
        where = "host" if program.get("host") else "guest"
        print(f"{where}: {program['label']} {outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped{outcome.suffix}")
    return 1 if trouble is not None or any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
