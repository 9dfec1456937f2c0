# SPDX-License-Identifier: Apache-2.0
"""Debian's kernel for the guest: downloads the package (nothing is installed), keeps what a guest needs of it, packs the initramfs.

Cache: one directory per kernel version and recipe below `FOREBAY_GUEST_CACHE` or build/guest: `kernel`, `initramfs`, and
`modules/lib/modules/VERSION`, from which a guest loads more. It appears whole or not at all, under a lock, so that runs may start
side by side. An entry of another recipe (other modules, another init, another busybox) is stale and goes.
"""

import contextlib
import fcntl
import gzip
import hashlib
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import cpio

# What a guest loads before it can see the host's root, and Soft-RoCE. Without crc32_generic `rdma link add` fails with a bare
# "failed to add": the driver asks for its checksum by name.
BOOT_MODULES = [
    "virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "crc32_generic", "crc32_pclmul", "crc32c_generic", "crc32c_intel",
    "dummy", "veth", "bridge", "ib_uverbs", "rdma_ucm", "rdma_rxe",
]

# Folders of the module tree that guests load from later (`--module`, modprobe): networks, file systems, block devices, device mapper,
# NVMe over everything. No graphics, sound, USB, network cards.
KEPT_FOLDERS = [
    "arch/x86/crypto", "block", "crypto", "fs", "lib", "net", "drivers/block", "drivers/char/hw_random", "drivers/char/virtio_console",
    "drivers/dax", "drivers/dma", "drivers/firmware/qemu_fw_cfg", "drivers/infiniband/core", "drivers/infiniband/sw",
    "drivers/infiniband/ulp", "drivers/md", "drivers/net/dummy", "drivers/net/ifb", "drivers/net/macvlan", "drivers/net/tun",
    "drivers/net/net_failover", "drivers/net/veth", "drivers/net/virtio_net", "drivers/net/vrf", "drivers/nvdimm", "drivers/nvme",
    "drivers/target", "drivers/virtio",
]

# Counts up with every change of what an entry looks like.
RECIPE = 1

PACKAGE = "linux-image-amd64"
LISTS = pathlib.Path("/var/lib/apt/lists")
HERE = pathlib.Path(__file__).resolve().parent


class Unavailable(Exception):
    """No guest can be had on this machine as it is; the message says what is missing and what brings it."""


class Kernel:
    """A finished cache entry, kept in place as long as this object lives."""

    def __init__(self, directory):
        self._use = open(directory / "in-use", "a", encoding="utf-8")
        fcntl.flock(self._use, fcntl.LOCK_SH)
        self.directory = directory
        self.image = directory / "kernel"
        self.initramfs = directory / "initramfs"
        self.version = json.loads((directory / "manifest").read_text())["version"]
        self.modules = directory / "modules/lib/modules" / self.version


def cache_directory():
    named = os.environ.get("FOREBAY_GUEST_CACHE")
    return pathlib.Path(named).resolve() if named else HERE.parent.parent / "build/guest"


def find_program(name, package):
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"`{name}` is missing (Debian package {package}); `scripts/install-deps --group guest` installs it")
    return path


def find_busybox():
    path = find_program("busybox", "busybox-static")
    content = pathlib.Path(path).read_bytes()
    if b"/ld-linux" in content[:4096] or b"/lib64/ld" in content[:4096]:
        raise Unavailable(f"{path} is not static, so that it cannot run before there is a root; `scripts/install-deps --group guest` installs busybox-static")
    return content


def prepare(package_file=None, progress=lambda text: None):
    """The newest kernel that apt knows, or the one of `package_file`, from the cache where it is there. Raises Unavailable."""
    find_busybox()
    recipe = _recipe()
    cache = cache_directory()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = open(cache / "lock", "w", encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"no place for the guest's kernel: {error}; FOREBAY_GUEST_CACHE names another directory") from None
    with lock:
        _lock(lock, progress)
        for left in [*cache.glob("unpack.*"), *cache.glob("download.*")]:  # by a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        if package_file is not None:
            return _from_file(cache, recipe, pathlib.Path(package_file), progress)
        return _from_apt(cache, recipe, progress)


def _lock(lock, progress):
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress("another run prepares the kernel, waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _recipe():
    """Names what an entry is made of, the kernel apart."""
    return hashlib.sha256(json.dumps([RECIPE, BOOT_MODULES, KEPT_FOLDERS]).encode()).hexdigest()[:12]


def _entries(cache, recipe):
    """Finished entries of this recipe, newest first."""
    found = [path.parent for path in cache.glob(f"*-{recipe}/manifest")]
    return sorted(found, key=lambda path: (path / "manifest").stat().st_mtime, reverse=True)


def _from_file(cache, recipe, package, progress):
    if not package.is_file():
        raise Unavailable(f"kernel package {package} does not exist")
    digest = hashlib.sha256(package.read_bytes()).hexdigest()[:12]
    directory = cache / f"file-{digest}-{recipe}"
    if not (directory / "manifest").exists():
        _build(directory, package, {"asked": 0}, progress)
    return Kernel(directory)


def _from_apt(cache, recipe, progress):
    entries = [path for path in _entries(cache, recipe) if not path.name.startswith("file-")]
    asked = LISTS.stat().st_mtime_ns if LISTS.exists() else 0
    # apt takes a third of a second to answer; its answer can change only with its lists.
    if entries and json.loads((entries[0] / "manifest").read_text())["asked"] == asked:
        return Kernel(entries[0])
    try:
        name, version = _newest()
        directory = cache / f"{name}_{version.replace(':', '.')}-{recipe}"
        if not (directory / "manifest").exists():
            with tempfile.TemporaryDirectory(prefix="download.", dir=cache) as scratch:
                _build(directory, _download(name, version, pathlib.Path(scratch), progress), {"asked": asked}, progress)
        _remember(directory, asked)
    except Unavailable as error:
        if not entries:
            raise
        progress(f"going on with the cached kernel {entries[0].name}: {error}")
        _remember(entries[0], asked)
        return Kernel(entries[0])
    _remove_stale(cache, recipe, directory)
    return Kernel(directory)


def _remember(directory, asked):
    manifest = json.loads((directory / "manifest").read_text())
    if manifest["asked"] != asked:
        manifest["asked"] = asked
        (directory / "manifest.new").write_text(json.dumps(manifest))
        os.replace(directory / "manifest.new", directory / "manifest")


def _remove_stale(cache, recipe, directory):
    """Other versions, and other recipes, except those that a running guest loads modules from."""
    for manifest in cache.glob("*/manifest"):
        other = manifest.parent
        if other == directory or (other.name.startswith("file-") and other.name.endswith(recipe)):
            continue
        with contextlib.suppress(OSError), open(other / "in-use", "a", encoding="utf-8") as use:
            fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(other, ignore_errors=True)


def _newest():
    """Name and version of the newest kernel's package, as the meta package names it."""
    apt_cache = find_program("apt-cache", "apt")
    shown = subprocess.run([apt_cache, "show", "--no-all-versions", PACKAGE], capture_output=True, text=True, check=False)
    match = re.search(r"^Depends:.*?\b(linux-image-[\w.+-]+) \(= ([\w.+:~-]+)\)", shown.stdout, re.MULTILINE)
    if match is None:
        raise Unavailable(f"apt knows no {PACKAGE}: run `apt-get update` as root, or name a downloaded kernel package with --kernel-package")
    return match.group(1), match.group(2)


def _download(name, version, directory, progress):
    progress(f"downloading {name} {version} (once; about 70 MB)")
    command = [find_program("apt-get", "apt"), "-q", "-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=30", "-o",
               "Acquire::https::Timeout=30"]
    if os.geteuid() == 0:
        # apt's own user may not write here; the package is not installed, and its checksum is verified all the same.
        command += ["-o", "APT::Sandbox::User=root"]
    done = subprocess.run([*command, "download", f"{name}={version}"], cwd=directory, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    packages = list(directory.glob("*.deb"))
    if done.returncode != 0 or len(packages) != 1:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        raise Unavailable(f"`apt-get download {name}={version}` failed: {lines[-1]}; "
                          "`apt-get update` as root refreshes apt's lists, or name a downloaded package with --kernel-package")
    return packages[0]


def _build(directory, package, manifest, progress):
    """Unpacks beside the entry's place and moves it there at the end."""
    progress(f"unpacking {package.name}")
    depmod = find_program("depmod", "kmod")
    with tempfile.TemporaryDirectory(prefix="unpack.", dir=directory.parent) as scratch:
        root = pathlib.Path(scratch) / "entry"
        root.mkdir()
        image = _unpack(package, root)
        (version,) = [path.name for path in (root / "modules/lib/modules").iterdir()]
        (root / "kernel").write_bytes(_uncompressed(image))
        done = subprocess.run([depmod, "-b", root / "modules", version], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"depmod makes nothing of the modules in {package}: {done.stderr.strip()}")
        modules = root / "modules/lib/modules" / version
        (root / "initramfs").write_bytes(_initramfs(modules, version))
        (root / "manifest").write_text(json.dumps({**manifest, "version": version, "package": package.name}))
        shutil.rmtree(directory, ignore_errors=True)
        os.replace(root, directory)


def _unpack(package, root):
    """Writes the kept modules below `root`/modules and returns the kernel image."""
    kept = re.compile(r"\./(?:usr/)?(lib/modules/[^/]+/(?:kernel/(?:" + "|".join(map(re.escape, KEPT_FOLDERS)) +
                      r")(?:/.*)?\.ko(?:\.xz|\.gz)?|modules\.(?:order|builtin|builtin\.modinfo)))")
    image = None
    unpacker = subprocess.Popen([find_program("dpkg-deb", "dpkg"), "--fsys-tarfile", package], stdout=subprocess.PIPE)
    try:
        with unpacker.stdout, tarfile.open(fileobj=unpacker.stdout, mode="r|") as archive:
            for member in archive:
                if not member.isfile():
                    continue
                if member.name.startswith("./boot/vmlinuz-"):
                    image = archive.extractfile(member).read()
                elif match := kept.fullmatch(member.name):
                    content, path = _plain_module(archive.extractfile(member).read(), root / "modules" / match.group(1))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
    except tarfile.TarError as error:
        raise Unavailable(f"{package} cannot be unpacked: {error}") from None
    finally:
        status = unpacker.wait()
    if status != 0 or image is None or not (root / "modules/lib/modules").is_dir():
        raise Unavailable(f"{package} is no kernel package with its modules (dpkg-deb ended with {status})")
    return image


def _plain_module(content, path):
    if path.suffix == ".xz":
        return lzma.decompress(content), path.with_suffix("")
    if path.suffix == ".gz":
        return gzip.decompress(content), path.with_suffix("")
    return content, path


def _uncompressed(image):
    """The ELF kernel inside of a compressed one: under emulation a kernel takes seconds to unpack itself."""
    start = image.find(b"\xfd7zXZ\0")
    if start >= 0:
        with contextlib.suppress(lzma.LZMAError):
            kernel = lzma.LZMADecompressor().decompress(image[start:])
            if kernel.startswith(b"\x7fELF"):
                return kernel
    return image


def _load_order(modules):
    """Paths of the boot modules and of what they depend on, in the order in which they load."""
    depends = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        depends[path] = needs.split()
    by_name = {pathlib.PurePath(path).name.removesuffix(".ko").replace("-", "_"): path for path in depends}
    built_in = {pathlib.PurePath(line).name.removesuffix(".ko").replace("-", "_")
                for line in (modules / "modules.builtin").read_text().split()}
    order = []
    for name in BOOT_MODULES:
        if name not in by_name:
            if name in built_in:
                continue
            raise Unavailable(f"kernel {modules.name} has no module {name}: this is not Debian's stock amd64 kernel (the cloud flavour lacks it)")
        # modules.dep names what is needed last first.
        for path in [*reversed(depends[by_name[name]]), by_name[name]]:
            if path not in order:
                order.append(path)
    return order


def _initramfs(modules, version):
    archive = cpio.Archive()
    archive.directory(f"lib/modules/{version}")
    names = []
    for path in _load_order(modules):
        name = pathlib.PurePath(path).name
        names.append(name)
        archive.file(f"boot/{name}", (modules / path).read_bytes())
    archive.file("boot/order", "\n".join(names).encode() + b"\n")
    return archive.data()


def report(text):
    print(f"guest: {text}", file=sys.stderr, flush=True)
