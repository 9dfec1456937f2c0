# SPDX-License-Identifier: Apache-2.0
"""Writes the archives that Linux unpacks as its first root (cpio, format "newc").

Several archives one after another are one initramfs: the cached part and the job of one run are written apart and joined.
"""

import stat


class Archive:
    """Collects entries, parents before children; `data()` is the finished archive, padded so that another may follow."""

    def __init__(self):
        self._parts = []
        self._inode = 1
        self._directories = set()

    def directory(self, path, mode=0o755):
        if path and path not in self._directories:
            self._parent(path)
            self._directories.add(path)
            self._add(path, stat.S_IFDIR | mode, b"")

    def file(self, path, content, mode=0o644):
        self._parent(path)
        self._add(path, stat.S_IFREG | mode, content)

    def symlink(self, path, target):
        self._parent(path)
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def device(self, path, major, minor, mode=0o600):
        """A character device."""
        self._parent(path)
        self._add(path, stat.S_IFCHR | mode, b"", major, minor)

    def data(self):
        return b"".join([*self._parts, self._entry("TRAILER!!!", 0, b"", 0, 0, 0)])

    def _parent(self, path):
        self.directory(path.rpartition("/")[0])

    def _add(self, path, mode, content, major=0, minor=0):
        self._parts.append(self._entry(path, mode, content, self._inode, major, minor))
        self._inode += 1

    @staticmethod
    def _entry(path, mode, content, inode, major, minor):
        name = path.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, device, device of a special file, name length, unused checksum
        fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        return _padded(header) + _padded(content)


def _padded(data):
    return data + b"\0" * (-len(data) % 4)
