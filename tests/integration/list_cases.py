# SPDX-License-Identifier: Apache-2.0
"""Prints the test cases of a unittest file, `Case.method` a line, without running any of it. Used when CMake configures."""

import ast
import sys

with open(sys.argv[1], encoding="utf-8") as source:
    tree = ast.parse(source.read())
for node in tree.body:
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and member.name.startswith("test_"):
                print(f"{node.name}.{member.name}")
