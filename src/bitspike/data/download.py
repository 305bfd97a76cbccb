"""Download of one file from the first mirror that has it: resumed, checked, and moved into place at the end."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from pathlib import Path

from bitspike.data.http_network import MirrorFailed, is_http
from bitspike.data.http_pace import SLOWEST
from bitspike.data.partial_file import Meter, PartialFile
from bitspike.data.progress import ByteProgress, silent
from bitspike.files import explained

ATTEMPTS = 3  # at a mirror; the count starts again when it has sent something
PAUSE_S = 0.5  # before the second attempt, twice that before the third


class DownloadError(OSError):
    """The error if no mirror gave the file; its message says why, for each mirror, in one line."""


def download(
    urls: Sequence[str],
    to: Path,
    *,
    size: int | None = None,
    checksum: tuple[str, str] | None = None,
    timeout_s: float = 30,
    progress: ByteProgress = silent,
) -> Path:
    """Download the first of `urls` that has the right size and checksum (algorithm, hexadecimal) into the file `to`.

    An incomplete download is kept beside it as `.NAME.part`, and the next call resumes it. `timeout_s` is how long a
    server may send nothing, and how long it may take to start sending the file.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    part = PartialFile(to, size, checksum)
    meter = Meter(to.name, size, progress)
    reasons = []
    for url in urls:
        try:
            with explained(to):
                _from_mirror(url, part, timeout_s, meter)
            return to
        except MirrorFailed as failure:
            reasons.append(f"{url}: {failure}")
        except OSError as error:  # of this machine: the network's are MirrorFailed
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                part.discard()
            raise
    raise DownloadError(f"{to.name} could not be downloaded: {'; '.join(reasons) or 'it has no mirror'}")


def _from_mirror(url: str, part: PartialFile, timeout_s: float, meter: Meter) -> None:
    if not is_http(url):
        raise MirrorFailed("only http and https addresses are downloaded")
    left, furthest = ATTEMPTS, part.length
    while True:
        began = time.monotonic()
        try:
            if not part.complete():
                part.receive(url, timeout_s, meter)
            return part.finish()
        except MirrorFailed as failure:
            if part.length - furthest > SLOWEST * max(1, time.monotonic() - began):
                left, furthest = ATTEMPTS, part.length
            left -= 1
            if not failure.again or not left:
                raise
        time.sleep(PAUSE_S * 2 ** (ATTEMPTS - 1 - left))
