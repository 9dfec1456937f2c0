# SPDX-License-Identifier: Apache-2.0
"""Boots one guest under qemu, runs one command in it, and brings back its output and its exit status.

`run` is all: it owns the qemu process from start to end, whatever happens in between. The guest's side is init.sh.
"""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import platform
import selectors
import shlex
import signal
import socket
import subprocess
import tempfile
import time

import cpio
from kernel import Unavailable, find_busybox, find_program

# The guest's own exit statuses, beside those of the command. `timeout` and containers use the first two the same way.
EXIT_TIMED_OUT = 124
EXIT_FAILED = 125
EXIT_UNAVAILABLE = 69

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20

# How long a guest may take to get to its command, on a machine that is busy with other things.
BOOT_WITHIN_S = 400


class GuestFailed(Exception):
    """The guest did not get to the end of its command, by no fault of the command."""


class TimedOut(GuestFailed):
    """The command took longer than it was allowed."""


@dataclasses.dataclass
class Job:
    """What to run, and in what kind of guest."""

    command: list
    directory: str = "/"
    environment: dict = dataclasses.field(default_factory=dict)
    hosts: int = 1
    memory_mib: int = 2048
    timeout_s: float = 600
    out: pathlib.Path = None  # files under $GUEST_OUT come back here
    modules: list = dataclasses.field(default_factory=list)
    disks_mib: list = dataclasses.field(default_factory=list)  # each an NVMe disk of its own
    console: bool = False  # show the kernel's messages on stderr


def run(job, kernel, stdout=1, stderr=2, note=lambda text: None, verbose=False):
    """Returns the command's exit status. Raises GuestFailed, TimedOut, Unavailable."""
    qemu = find_qemu()
    _need_memory(job.memory_mib)
    _need_visible(kernel, job)
    with tempfile.TemporaryDirectory(prefix="forebay-guest.") as scratch, contextlib.ExitStack() as stack:
        scratch = pathlib.Path(scratch)
        # Output, errors, and words about the run.
        pairs = [socket.socketpair() for _ in range(3)]
        for pair in pairs:
            stack.enter_context(pair[0])
            stack.enter_context(pair[1])
        command = [qemu, *_machine(job, kernel, scratch, [theirs.fileno() for _, theirs in pairs])]
        with open(scratch / "qemu.log", "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent,
                                       pass_fds=[theirs.fileno() for _, theirs in pairs])
        stack.callback(_kill, process)
        for _, theirs in pairs:
            theirs.close()
        return _Conversation(job, scratch, process, note, verbose).follow([ours for ours, _ in pairs], stdout, stderr)


def find_qemu():
    if platform.machine() != "x86_64":
        raise Unavailable(f"guests are amd64 and run the host's programs: not possible on {platform.machine()}")
    return find_program("qemu-system-x86_64", "qemu-system-x86")


def _need_memory(memory_mib):
    with open("/proc/meminfo", encoding="ascii") as file:
        (available_kib,) = [int(line.split()[1]) for line in file if line.startswith("MemAvailable:")]
    # Its kernel, modules and emulator alone take the first of these.
    if available_kib < (memory_mib + 256) * 1024:
        raise Unavailable(f"a guest of {memory_mib} MiB does not fit into the {available_kib // 1024} MiB of memory that are free; "
                          "--memory asks for less, and 768 are enough for small programs")


def _need_visible(kernel, job):
    """The guest sees the host's files with the rights of whoever runs it, below the host's root."""
    for path in (kernel.modules, job.directory):
        if not os.access(path, os.R_OK | os.X_OK):
            raise Unavailable(f"{path} cannot be read, so that the guest cannot see it either")


def _machine(job, kernel, scratch, ports):
    """qemu's arguments. No network device: what the guest can reach is itself."""
    (scratch / "initrd").write_bytes(kernel.initramfs.read_bytes() + _job_archive(job, kernel))
    arguments = [
        "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(job.memory_mib),
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none",
        "-kernel", str(kernel.image), "-initrd", str(scratch / "initrd"),
        "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check random.trust_cpu=on",
        "-chardev", f"file,id=console,path={scratch / 'console'}", "-serial", "chardev:console",
        "-device", "virtio-serial-pci",  # first, so that its ports are /dev/vport0p*
        "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
    ]
    for number, (name, port) in enumerate(zip(("output", "errors", "words"), ports, strict=True), start=1):
        arguments += ["-chardev", f"socket,id={name},fd={port}", "-device", f"virtserialport,chardev={name},nr={number},name={name}"]
    if job.out is not None:
        path = str(job.out).replace(",", ",,")
        arguments += ["-fsdev", f"local,id=out,path={path},security_model=none,multidevs=remap",
                      "-device", "virtio-9p-pci,fsdev=out,mount_tag=out"]
    for number, size_mib in enumerate(job.disks_mib):
        image = scratch / f"disk{number}"
        with open(image, "wb") as file:
            file.truncate(size_mib * MIB)
        arguments += ["-drive", f"file={image},if=none,id=disk{number},format=raw,cache=unsafe",
                      "-device", f"nvme,drive=disk{number},serial=forebay{number}"]
    return arguments


def _job_archive(job, kernel):
    """The second half of the initramfs: what belongs to this run and this tree."""
    archive = cpio.Archive()
    archive.file("init", (HERE / "init.sh").read_bytes(), 0o755)
    archive.file("bin/busybox", find_busybox(), 0o755)
    archive.symlink("sbin/modprobe", "/bin/busybox")
    archive.device("dev/console", 5, 1)
    for directory in ("proc", "sys", "host", "overlay", "guest"):
        archive.directory(directory)
    modules = [*job.modules, *(["nvme"] if job.disks_mib else [])]
    settings = {"modules": str(kernel.modules), "load": " ".join(modules), "out": "yes" if job.out is not None else "no"}
    archive.file("job/settings", "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items()).encode())
    archive.file("job/hosts.sh", f"hosts={job.hosts}\n".encode() + (HERE / "hosts.sh").read_bytes())
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "USER": "root", "LANG": "C.UTF-8",
        "TERM": "dumb", **({"GUEST_OUT": "/run/guest/out"} if job.out is not None else {}), **job.environment,
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [". /run/guest/hosts", f"cd {shlex.quote(job.directory)} || exit 125", "exec " + shlex.join(job.command)]
    archive.file("job/job.sh", "\n".join(lines).encode() + b"\n")
    return archive.data()


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    # The terminal's Ctrl-C is for the runner, which then ends the guest.
    os.setpgrp()


def _kill(process):
    if process.poll() is None:
        process.kill()
    process.wait()


class _Conversation:
    """One run, from the start of qemu to its end."""

    def __init__(self, job, scratch, process, note, verbose):
        self._job = job
        self._console = scratch / "console"
        self._log = scratch / "qemu.log"
        self._process = process
        self._note = note
        self._verbose = verbose
        self._deadline = time.monotonic() + min(BOOT_WITHIN_S, job.timeout_s)
        self._started = time.monotonic()
        self._running = False
        self._status = None
        self._failure = None
        self._words = b""
        self._shown = 0

    def follow(self, streams, stdout, stderr):
        """Until qemu has ended, which closes all three."""
        targets = dict(zip(streams, (stdout, stderr, None), strict=True))
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                left = self._deadline - time.monotonic()
                if left <= 0:
                    self._time_out()
                for key, _ in selector.select(min(left, 1)):
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif targets[key.fileobj] is None:
                        self._listen(data)
                    else:
                        _write_all(targets[key.fileobj], data)
                self._show_console()
        self._process.wait()
        self._show_console()
        if self._failure is not None:
            raise GuestFailed(self._failure + self._tail())
        if self._status is None:
            raise GuestFailed(f"the guest ended without an exit status (qemu: {self._process.returncode}){self._tail()}")
        return self._status

    def _listen(self, data):
        self._words += data
        *lines, self._words = self._words.split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "run":
                self._running = True
                if self._verbose:
                    self._note(f"ready after {time.monotonic() - self._started:.1f} s")
                self._deadline = self._started + self._job.timeout_s
            elif word == "note":
                self._note(rest)
            elif word == "fail":
                self._failure = rest
            elif word == "exit":
                self._status = int(rest)

    def _time_out(self):
        if self._status is not None:
            raise GuestFailed(f"the command ended with {self._status}, but the guest did not power off{self._tail()}")
        if self._running or self._job.timeout_s <= BOOT_WITHIN_S:
            raise TimedOut(f"timed out: not done after {self._job.timeout_s:g} s (--timeout allows more)"
                           + ("" if self._running else f"; it was still booting{self._tail()}"))
        raise GuestFailed(f"the guest did not come up within {BOOT_WITHIN_S} s{self._tail()}")

    def _show_console(self):
        if self._job.console:
            with open(self._console, "rb") as file:
                file.seek(self._shown)
                data = file.read()
            self._shown += len(data)
            _write_all(2, data)

    def _tail(self):
        """What the kernel and qemu said last; shown already where the console is."""
        text = ""
        for path, name in ((self._log, "qemu"), (self._console, "the guest's kernel")):
            with contextlib.suppress(OSError):
                said = path.read_text(errors="replace").strip()
                if said:
                    text += f"\n{name} said last:\n  " + "\n  ".join(said.splitlines()[-15:])
        return text


def _write_all(target, data):
    view = memoryview(data)
    while view:
        view = view[os.write(target, view):]
