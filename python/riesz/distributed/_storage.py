"""Storage of finished units of work in a folder; a file is complete or does not exist."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable


def write_file(path: str, content: bytes) -> None:
    """Writes a file under a temporary name and renames it."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".riesz-", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def stored(
    folder: str | None, name: str, make: Callable[[], bytes], check: Callable[[bytes], object]
) -> bytes:
    """Returns the bytes stored under ``name`` if ``check`` accepts them; without a stored file, returns the
    bytes of ``make`` and stores them."""
    if folder is None:
        return make()
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        content = make()
        write_file(path, content)
        return content
    try:
        check(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return content
