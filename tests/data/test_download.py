"""One file over http: whole or not at all, whatever the server does."""

import errno
import json
import shutil
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitspike.data import download as module
from bitspike.data import partial_file
from bitspike.data.download import DownloadError, download
from helpers.http import (
    CHUNKED,
    DATA,
    LENGTH,
    OTHER,
    SUM,
    asked_from,
    dripping,
    endless,
    plain,
    stalling,
    status,
    whole,
)


@pytest.fixture
def to(tmp_path):
    return tmp_path / "in" / "data.bin"


def hidden(to):
    """What lies beside the target."""
    return sorted(path.name for path in to.parent.iterdir() if path != to)


def begun(to, data, url, version='"1"', total=256_000):
    """As an interrupted download leaves it."""
    to.parent.mkdir(exist_ok=True)
    to.with_name(".data.bin.part").write_bytes(data)
    to.with_name(".data.bin.part.json").write_text(json.dumps({"url": url, "version": version, "total": total}))


# ---- Whole files


@pytest.mark.parametrize(("size", "checksum"), [(len(DATA), SUM), (None, SUM), (len(DATA), None), (None, None)])
@pytest.mark.parametrize("answer", [whole(), plain()], ids=["length", "no length"])
def test_a_file_comes_whole_and_alone(server, to, answer, size, checksum):
    assert download([server.gives(answer)], to, size=size, checksum=checksum) == to
    assert to.read_bytes() == DATA
    assert hidden(to) == []


def test_an_empty_file_is_a_file(server, to):
    download([server.gives(whole(b""))], to, size=0)
    assert to.read_bytes() == b""


def test_an_old_file_is_replaced_only_by_a_right_one(server, to):
    to.parent.mkdir()
    to.write_bytes(b"old")
    with pytest.raises(DownloadError):
        download([server.gives(plain(OTHER))], to, checksum=SUM)
    assert to.read_bytes() == b"old"
    download([server.gives(whole())], to, checksum=SUM)
    assert to.read_bytes() == DATA


def test_progress_begins_once_and_adds_up(server, to):
    calls = []

    def begin(stage, total):
        calls.append((stage, total))
        return lambda count: calls.append(count)

    url = server.gives(whole(cut=1000), status(500), plain())
    download([url], to, checksum=SUM, progress=begin)
    assert calls[0] == ("data.bin", len(DATA))
    assert sum(calls[1:]) == len(DATA)
    assert -1000 in calls  # the last server starts over


# ---- Mirrors


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(404), "the server answered 404 not found"),
        (status(403), "the server answered 403 forbidden"),
        (status(503), "the server answered 503 service unavailable"),
        (status(202), "the server answered 202 accepted"),
        (status(299), "the server answered 299"),
        (plain(b"<p>log in", Content_Type="text/html; charset=utf-8"), "a web page, not the file"),
        (plain(b"\n <!DOCTYPE html><title>log in", Content_Type="application/gzip"), "a web page, not the file"),
        (plain(OTHER), f"not {SUM[1]}"),
        (plain(DATA[:-1]), f"ended after {len(DATA) - 1} of {len(DATA)} bytes"),
        (plain(DATA + b"x"), f"more than {len(DATA)} bytes"),
        (plain(DATA, Content_Length=len(DATA) + 7), f"has {len(DATA) + 7} bytes, not {len(DATA)}"),
        (whole(cut=0), f"ended after 0 of {len(DATA)} bytes"),
        (endless, f"more than {len(DATA)} bytes"),
        (stalling, "nothing came for 0.15 s"),
        (status(302, Location="file:///etc/passwd"), "redirects in circles or to where it must not"),
        (status(302, Location="ftp://127.0.0.1/x"), "not http or https"),
        (status(302, Location="/bad"), "redirects in circles or to where it must not"),
        (plain(b"", 206, Content_Range="bytes 0-9/10"), "another part of the file"),
        (lambda handler: handler.wfile.write(b"SSH-2.0\r\n"), "SSH-2.0"),
        (lambda handler: None, "closed connection without response"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_mirror_is_named_with_its_reason_and_the_next_one_is_taken(server, to, answer, reason):
    bad, good = server.gives(answer, path="/bad"), server.gives(whole(), path="/good")
    expected = {"size": len(DATA), "checksum": SUM, "timeout_s": 0.15}
    with pytest.raises(DownloadError) as refused:
        download([bad], to, **expected)
    assert str(refused.value).startswith(f"data.bin could not be downloaded: {bad}: ")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not to.exists()
    download([bad, good], to, **expected)
    assert to.read_bytes() == DATA
    assert hidden(to) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (dripping(b"HTTP/1.0 200 OK\r\nX: ", b"x"), "the server is too slow: 0 bytes of the file came in 0.15 s"),
        (dripping(b"", b"H"), "the server is too slow: 0 bytes of the file came in 0.15 s"),
        (dripping(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"), "too slow: 0 bytes"),
        (dripping(b"HTTP/1.0 200 OK\r\n" + LENGTH, b"x"), "bytes of the file came in 0.3 s"),
        (dripping(CHUNKED + b"5;", b"x"), "the server is too slow: 0 bytes of the file came in 0.3 s"),
        (dripping(CHUNKED + b"0\r\n", b"X: trailer\r\n"), "the server is too slow: 0 bytes of the file came in 0.3 s"),
        (dripping(b"HTTP/1.0 302 Found\r\nLocation: /bad\r\n\r\n", DATA), "redirects in circles"),
        (dripping(b"HTTP/1.0 404 \x1b[31mred\r\n\r\n", DATA), "the server answered 404 not found"),
        (dripping(b"\x1b[31mred\r\n\r\n", DATA), r"\u001b[31mred"),
    ],
    ids=["head", "status", "continue", "body", "chunk size", "trailers", "redirect", "refusal", "no answer"],
)
def test_a_server_that_never_ends_is_left(server, to, answer, reason):
    bad, good = server.gives(answer, path="/bad"), server.gives(whole(), path="/good")
    with pytest.raises(DownloadError) as refused:
        download([bad], to, size=len(DATA), timeout_s=0.15)
    assert reason in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(server.seen) <= 3 * module.ATTEMPTS + 10
    download([bad, good], to, size=len(DATA), timeout_s=0.15)
    assert to.read_bytes() == DATA


def test_a_server_that_drops_after_every_byte_is_given_up(server, to):
    with pytest.raises(DownloadError, match="the connection ended after"):
        download([server.gives(whole(cut=1))], to)
    assert len(server.seen) <= module.ATTEMPTS + 1


def test_a_slow_server_that_gets_on_is_waited_for(server, to):
    def steady(handler):
        handler.head(200, Content_Length=30_000)
        for at in range(0, 30_000, 1000):
            handler.wfile.write(DATA[at : at + 1000])
            time.sleep(0.02)

    download([server.gives(steady)], to, timeout_s=0.1)
    assert to.read_bytes() == DATA[:30_000]


def test_a_claimed_length_does_not_replace_the_limit(server, to, monkeypatch):
    with pytest.raises(DownloadError, match=rf"has {10**15} bytes, more than the {32 << 30} that are downloaded"):
        download([server.gives(plain(DATA, Content_Length=10**15))], to)
    monkeypatch.setattr(partial_file, "LIMIT", 1000)
    with pytest.raises(DownloadError, match="has 1001 bytes, more than the 1000 that are downloaded"):
        download([server.gives(plain(DATA[:1001], Content_Length=1001))], to)
    assert hidden(to) == []


def test_a_file_beyond_the_free_space_is_said_before_it_is_begun(server, to, monkeypatch):
    monkeypatch.setattr(partial_file.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 99))
    with pytest.raises(DownloadError, match=f"has {len(DATA)} bytes, but only 99 are free in {to.parent}"):
        download([server.gives(whole())], to, size=len(DATA))
    assert hidden(to) == []


def test_all_reasons_stand_on_one_line(server, to):
    one, two = server.gives(status(404), path="/one"), server.gives(status(410), path="/two")
    with pytest.raises(DownloadError) as refused:
        download([one, two], to)
    assert str(refused.value) == (
        f"data.bin could not be downloaded: {one}: the server answered 404 not found; "
        f"{two}: the server answered 410 gone"
    )


def test_a_server_that_is_not_there_is_a_reason(server, to):
    with pytest.raises(DownloadError, match="Connection refused"):
        download(["http://127.0.0.1:9/x"], to)


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "/etc/hostname", "", "http:", "http://[1/"]
)
def test_only_http_is_opened(server, to, url):
    with pytest.raises(DownloadError):
        download([url], to)
    assert not to.exists()


def test_a_passing_fault_is_tried_again(server, to):
    download([server.gives(status(500), status(429), whole())], to, checksum=SUM)
    assert to.read_bytes() == DATA


def test_a_lasting_fault_is_not_tried_again(server, to):
    with pytest.raises(DownloadError):
        download([server.gives(status(404))], to)
    assert len(server.seen) == 1


def test_a_server_that_always_drops_is_given_up(server, to):
    with pytest.raises(DownloadError, match="ended after 0 of"):
        download([server.gives(whole(cut=0))], to)
    assert len(server.seen) == module.ATTEMPTS


def test_a_server_that_drops_but_gets_on_is_not_given_up(server, to):
    download([server.gives(whole(cut=len(DATA) // 9))], to, checksum=SUM)
    assert to.read_bytes() == DATA
    assert len(server.seen) == 10


def test_a_redirect_is_followed_with_its_range(server, to):
    url = server.gives(status(302, Location="/there"))
    begun(to, DATA[:1000], url)
    server.gives(whole(), path="/there")
    download([url], to, checksum=SUM)
    assert server.ranges() == ["bytes=1000-"] * 2
    assert to.read_bytes() == DATA


def test_a_file_of_unknown_size_has_a_limit(server, to, monkeypatch):
    monkeypatch.setattr(partial_file, "LIMIT", 10 * len(DATA))
    with pytest.raises(DownloadError, match=f"more than {10 * len(DATA)} bytes"):
        download([server.gives(endless)], to)
    assert hidden(to) == []


def test_never_more_than_the_size_is_written(server, to, monkeypatch):
    written = []
    write = partial_file._write
    monkeypatch.setattr(partial_file, "_write", lambda out, block: written.append(len(block)) or write(out, block))
    with pytest.raises(DownloadError):
        download([server.gives(endless)], to, size=len(DATA), checksum=SUM)
    assert sum(written) <= len(DATA)


# ---- Resuming


@pytest.mark.parametrize("checksum", [SUM, None])
def test_a_part_is_gone_on_with(server, to, checksum):
    url = server.gives(whole())
    begun(to, DATA[:1000], url)
    download([url], to, checksum=checksum)
    assert server.ranges() == ["bytes=1000-"]
    assert server.seen[0][1]["If-Range"] == '"1"'
    assert to.read_bytes() == DATA
    assert hidden(to) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=2), start=st.integers(0, len(DATA)))
def test_however_it_is_cut_it_comes_together(server, to, cuts, start):
    url = server.gives(*(whole(cut=cut) for cut in cuts), whole())
    begun(to, DATA[:start], url)
    download([url], to, size=len(DATA))
    assert to.read_bytes() == DATA
    to.unlink()


@pytest.mark.parametrize("checksum", [SUM, None])
def test_a_changed_file_is_not_spliced(server, to, checksum):
    url = server.gives(whole(tag='"2"'))
    begun(to, OTHER[:1000], url, version='"1"')
    download([url], to, checksum=checksum)
    assert to.read_bytes() == DATA


def test_a_server_that_overlooks_if_range_is_caught_by_its_tag(server, to):
    def careless(handler):
        start = asked_from(handler)
        if start:
            return plain(DATA[start:], 206, Content_Range=f"bytes {start}-{len(DATA) - 1}/{len(DATA)}", ETag='"2"')(
                handler
            )
        return whole(tag='"2"')(handler)

    url = server.gives(careless)
    begun(to, OTHER[:1000], url, version='"1"')
    download([url], to)
    assert to.read_bytes() == DATA


def test_a_server_without_range_starts_over(server, to):
    url = server.gives(plain())
    begun(to, DATA[:1000], url)
    download([url], to)
    assert to.read_bytes() == DATA


@pytest.mark.parametrize(
    "content_range",
    [
        None,
        "bytes 0-9/10",
        "bytes 999-255999/256000",
        "bytes 1000-1009/256000",
        "bytes 1000-",
        "lines 1000-255999/256000",
    ],
)
def test_another_range_than_asked_is_not_appended(server, to, content_range):
    headers = {"Content_Range": content_range} if content_range else {}
    url = server.gives(plain(b"0123456789", 206, ETag='"1"', **headers), whole())
    begun(to, DATA[:1000], url)
    download([url], to)
    assert to.read_bytes() == DATA
    assert server.ranges() == ["bytes=1000-", None]


def test_a_range_of_a_file_of_another_size_is_refused(server, to):
    url = server.gives(plain(b"x", 206, ETag='"1"', Content_Range="bytes 1000-1000/1001"))
    begun(to, DATA[:1000], url)
    with pytest.raises(DownloadError, match="has 1001 bytes, not 256000"):
        download([url], to, size=len(DATA))


@pytest.mark.parametrize(("version", "url"), [(None, None), ('"1"', "http://elsewhere/data.bin")])
def test_without_a_checksum_only_a_known_version_is_gone_on_with(server, to, version, url):
    own = server.gives(whole())
    begun(to, OTHER[:1000], url or own, version=version)
    download([own], to, size=len(DATA))
    assert to.read_bytes() == DATA
    assert server.ranges() == [None]


def test_with_a_checksum_another_mirror_goes_on_where_the_first_stopped(server, to):
    first, second = server.gives(whole(cut=1000), status(404), path="/1"), server.gives(whole(tag='"b"'), path="/2")
    download([first, second], to, checksum=SUM)
    assert to.read_bytes() == DATA
    assert server.ranges() == [None, "bytes=1000-", "bytes=1000-"]
    assert server.seen[2][1]["If-Range"] is None


def test_bytes_of_a_bad_mirror_do_not_spoil_the_next(server, to):
    first, second = server.gives(whole(OTHER, cut=1000), status(404), path="/1"), server.gives(whole(), path="/2")
    download([first, second], to, checksum=SUM)
    assert to.read_bytes() == DATA
    assert server.ranges()[-1] is None


def test_a_bad_mirror_does_not_cost_what_a_good_one_gave(server, to):
    bad = server.gives(plain(b"", Content_Length=5), path="/bad")
    good = server.gives(whole())
    begun(to, DATA[:1000], good)
    download([bad, good], to, size=len(DATA), checksum=SUM)
    assert server.ranges()[-1] == "bytes=1000-"


@pytest.mark.parametrize("note", ["", "{", "[]", "null", '{"url": 1, "version": 2, "total": 3}', '{"url": "x"}'])
def test_a_damaged_note_is_no_note(server, to, note):
    url = server.gives(whole())
    begun(to, OTHER[:1000], url)
    to.with_name(".data.bin.part.json").write_text(note)
    download([url], to)
    assert to.read_bytes() == DATA


def test_a_part_that_is_too_long_is_thrown_away(server, to):
    url = server.gives(whole())
    begun(to, DATA + b"x", url)
    download([url], to, size=len(DATA))
    assert to.read_bytes() == DATA
    assert server.ranges() == [None]


def test_a_wrong_file_that_came_whole_is_not_asked_for_again(server, to):
    url = server.gives(plain(OTHER))
    begun(to, DATA[:1000], url)
    with pytest.raises(DownloadError):
        download([url], to, checksum=SUM)
    assert len(server.seen) == 1


def test_a_range_with_more_than_it_says_is_refused(server, to):
    rest = f"bytes 1000-{len(DATA) - 1}/{len(DATA)}"
    url = server.gives(plain(DATA[1000:] + b"x", 206, ETag='"1"', Content_Range=rest))
    begun(to, DATA[:1000], url)
    with pytest.raises(DownloadError, match=f"more than {len(DATA)} bytes"):
        download([url], to)
    assert hidden(to) == []


def test_a_part_without_a_note_is_gone_on_with_where_a_checksum_will_tell(server, to):
    url = server.gives(whole(cut=1000), whole())
    begun(to, DATA[:1000], url)
    to.with_name(".data.bin.part.json").unlink()
    download([url], to, checksum=SUM)
    assert server.ranges() == ["bytes=1000-", "bytes=2000-"]
    assert to.read_bytes() == DATA


def test_the_bytes_are_on_the_disk_before_the_file_has_its_name(server, to, monkeypatch):
    synced = []
    monkeypatch.setattr(partial_file.os, "fsync", lambda handle: synced.append(to.exists()))
    download([server.gives(whole())], to)
    assert synced == [False]


@pytest.mark.parametrize(("size", "checksum"), [(len(DATA), None), (None, SUM), (None, None)])
def test_a_complete_part_needs_no_server(to, size, checksum):
    begun(to, DATA, "http://127.0.0.1:9/x")
    download(["http://127.0.0.1:9/x"], to, size=size, checksum=checksum)
    assert to.read_bytes() == DATA
    assert hidden(to) == []


@pytest.mark.parametrize("checksum", [SUM, None])
def test_a_complete_part_of_unknown_size_is_told_so_by_the_server(server, to, checksum):
    url = server.gives(whole())
    begun(to, DATA, url, total=None)
    download([url], to, checksum=checksum)
    assert to.read_bytes() == DATA
    assert server.ranges() == [f"bytes={len(DATA)}-"]


def test_a_server_with_a_shorter_file_starts_over(server, to):
    url = server.gives(whole(b"short"))
    begun(to, DATA, url, total=None)
    download([url], to)
    assert to.read_bytes() == b"short"


# ---- This machine's faults


def test_a_full_disk_is_said_and_leaves_nothing(server, to, monkeypatch):
    def full(out, block):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(partial_file, "_write", full)
    urls = [server.gives(whole(), path=path) for path in ("/1", "/2")]
    with pytest.raises(OSError, match=r"data\.bin could not be written: no space left on device; free some") as refused:
        download(urls, to, checksum=SUM)
    assert refused.value.errno == errno.ENOSPC
    assert len(server.seen) == 1  # another mirror would not help
    assert list(to.parent.iterdir()) == []


def test_an_interrupted_download_leaves_its_part_only(server, to, monkeypatch):
    url = server.gives(whole())
    calls = []

    def interrupted(out, block):
        calls.append(out.write(block))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(partial_file, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            download([url], to, checksum=SUM)
    assert hidden(to) == [".data.bin.part", ".data.bin.part.json"]
    download([url], to, checksum=SUM)
    assert server.ranges() == [None, f"bytes={calls[0]}-"]
    assert to.read_bytes() == DATA


def test_a_killed_download_is_gone_on_with(server, to):
    url = server.gives(stalling, whole())
    code = (
        f"from pathlib import Path; from bitspike.data.download import download; download([{url!r}], Path({str(to)!r}))"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        part = to.with_name(".data.bin.part")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (part.exists() and part.stat().st_size == 1000):
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()
    assert hidden(to) == [".data.bin.part", ".data.bin.part.json"]
    download([url], to)
    assert server.ranges() == [None, "bytes=1000-"]
    assert to.read_bytes() == DATA
    assert hidden(to) == []
