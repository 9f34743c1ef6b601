"""Over a real socket: who may look, what a browser may do with it, and what bad questions are told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from scavenger_board.app import create_app
from scavenger_board.controller import http_server
from scavenger_board.core.history import LoadRow
from scavenger_board.core.picture import Picture
from scavenger_board.guard import ACCESS_PATH, STATIC, Guard, local
from scavenger_board.settings import BoardSettings
from scavenger_board.stream import Hub
from scavenger_runtime.certificates import Certificates
from scavenger_runtime.clock import SystemClock
from scavenger_runtime.http_server import HttpServer
from scavenger_runtime.metrics_access import MetricsAccess
from scavenger_testing import FakeApi, VirtualClock, eventually
from scavenger_testing.certificates import new_authority
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import CertificateRules

from .test_delta import picture

RULES = CertificateRules(("localhost",))


class View:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def picture_at(self, moment: datetime) -> Picture:
        self.asked.append(moment)
        return picture([("a", 1)], past=True)

    async def load(self, end: datetime, span: timedelta) -> LoadRow:
        self.asked.append(span)
        return LoadRow("s", "e", "", [], {})


class Served:
    """A board's HTTP side at work."""

    def __init__(self, server: HttpServer, hub: Hub, view: View, trust: ssl.SSLContext | None) -> None:
        self.hub = hub
        self.view = view
        self._trust = trust
        self._base = f"{'https' if trust else 'http'}://localhost:{server.port}"

    async def get(self, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        async with aiohttp.ClientSession() as session, self.open(session, path, **headers) as answer:
            return answer.status, answer.headers, await answer.read()

    async def status(self, path: str, **headers: str) -> int:
        return (await self.get(path, **headers))[0]

    def open(self, session: aiohttp.ClientSession, path: str, **headers: str) -> Any:
        return session.get(f"{self._base}{path}", headers=headers, ssl=self._trust or True)


@asynccontextmanager
async def served(
    access: MetricsAccess | None = None, certificates: Certificates | None = None, trust: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    view, clock = View(), SystemClock()

    async def make() -> Picture:
        return picture([("a", 1)])

    async def end_streams() -> None:
        hub.close()

    hub = Hub(make, clock, period=1.0, check=5.0, limit=2)
    tls = certificates.context if certificates else None
    server = http_server(Guard(create_app(view, hub, clock), access), address="127.0.0.1", port=0, tls=tls)
    running = asyncio.create_task(server.run(end_streams))
    await eventually(lambda: server.serving)
    try:
        yield Served(server, hub, view, trust)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# --- who may look ---


@pytest.mark.parametrize("host", ["localhost", "localhost:8090", "127.0.0.1:1", "[::1]:8090", "LOCALHOST:80"])
def test_this_machine(host: str) -> None:
    assert local(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example:8090", "localhost.evil.example", "127.0.0.1.nip.io", "[::1", "10.0.0.1"]
)
def test_no_other(host: str) -> None:
    assert not local(host)


async def test_a_name_that_was_made_to_lead_here_gets_nothing() -> None:
    async with served() as board:
        for path in ("/", "/api/now", "/api/stream", "/static/main.js"):
            status, _, body = await board.get(path, Host="evil.example:8090")
            assert status == 421
            assert b"not this machine" in body


async def test_pages_of_other_sites_cannot_have_a_browser_ask() -> None:
    async with served() as board:
        for site in ("cross-site", "same-site"):
            for path in ("/api/now", "/api/stream", "/api/at?time=2026-01-05T08:00:00Z", "/api/load"):
                assert await board.status(path, **{"Sec-Fetch-Site": site}) == 403
        assert board.view.asked == []
        assert await board.status("/", **{"Sec-Fetch-Site": "cross-site"}) == 200, "a link that leads here"
        for site in ("same-origin", "none"):
            assert await board.status("/api/now", **{"Sec-Fetch-Site": site}) == 200


async def test_whom_the_api_server_lets_get_the_path(api: FakeApi, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = new_authority(now)
    made = new_serving(authority, now, RULES)
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    (tmp_path / "tls.key").write_bytes(made.key)
    certificates = Certificates(str(tmp_path), SystemClock(), flag="--tls-folder")
    certificates.load()
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    api.reviews.users |= {"good": {"username": "sre"}, "other": {"username": "eve"}}
    api.reviews.allowed.add(("sre", ACCESS_PATH, "get"))
    access = MetricsAccess(SystemClock(), ACCESS_PATH)
    access.client = api.client()

    async with served(access, certificates, trust) as board:
        for path in ("/api/now", "/api/stream", "/api/at?time=2026-01-05T08:00:00Z", "/api/load"):
            assert await board.status(path) == 401
            assert await board.status(path, Authorization="Bearer bad") == 401
            assert await board.status(path, Authorization="Bearer other") == 403
        assert await board.status("/api/now", Authorization="Bearer good") == 200
        assert await board.status("/") == 200, "the page is the same for everybody"
        assert board.view.asked == []


async def test_a_stream_ends_when_its_token_opens_no_longer(api: FakeApi) -> None:
    """Judged again as often as a verdict lasts; an API server that does not answer takes nothing away."""
    clock, received = VirtualClock(), list[bytes]()
    api.reviews.users["good"] = {"username": "sre"}
    api.reviews.allowed.add(("sre", ACCESS_PATH, "get"))
    access = MetricsAccess(clock, ACCESS_PATH)
    access.client = api.client()

    async def make() -> Picture:
        return picture([("a", 1)])

    async def send(message: Any) -> None:
        received.append(message.get("body", b""))

    hub = Hub(make, clock, period=1.0, check=5.0, limit=2)
    headers = [(b"authorization", b"Bearer good")]
    scope = {"type": "http", "method": "GET", "path": "/api/stream", "query_string": b"", "headers": headers}
    board = Guard(create_app(View(), hub, clock), access)
    stream = asyncio.create_task(board(scope, asyncio.Event().wait, send))  # type: ignore[arg-type]
    await clock.advance(70)
    api.fail(500, times=100, path="/tokenreviews")
    await clock.advance(70)
    assert not stream.done()
    api.heal()
    api.reviews.allowed.clear()
    await clock.advance(70)
    assert stream.done()
    assert received[-1] == b""


def test_tokens_are_never_sent_in_clear(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        BoardSettings.load(["--access=token"])
    assert "access token needs tls-folder" in capsys.readouterr().err
    assert BoardSettings.load(["--access=token", "--tls-folder=/tls"]).address == "::"
    assert BoardSettings.load([]).address == "127.0.0.1"


async def test_without_a_certificate_it_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--tls-folder: no certificate from"):
        Certificates(str(tmp_path), SystemClock(), flag="--tls-folder").load()


# --- what a browser may do ---


async def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    async with served() as board:
        for path in ("/", "/static/style.css", "/api/now", "/api/at", "/nothing"):
            _, headers, _ = await board.get(path)
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "require-trusted-types-for 'script'" in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "Access-Control-Allow-Origin" not in headers


async def test_the_page_loads_nothing_from_elsewhere_and_all_it_names_is_there() -> None:
    async with served() as board:
        status, headers, page = await board.get("/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        named = [part.split('"')[0] for part in page.decode().split('="')[1:] if part.startswith(("/", "http"))]
        assert named
        for path in named:
            assert await board.status(path) == 200, path
        assert (
            await board.status("/static/main.js", **{"If-None-Match": (await board.get("/static/main.js"))[1]["ETag"]})
            == 304
        )


async def test_no_file_beside_those_of_the_page() -> None:
    async with served() as board:
        for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/", "/static/vendor"):
            assert await board.status(path) == 404


def test_no_script_makes_html_of_text() -> None:
    scripts = [path.read_text() for path in STATIC.glob("*.js")]
    assert len(scripts) >= 5
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert not any(word in script for script in scripts), word


# --- questions ---


async def test_pictures_of_now_and_then() -> None:
    async with served() as board:
        assert (await board.get("/api/now"))[2].startswith(b'{"time":')
        assert (await board.get("/api/at?time=2026-01-05T08:00:00%2B01:00"))[0] == 200
        assert await board.status("/api/load?seconds=60") == 200
        assert board.view.asked == [datetime(2026, 1, 5, 7, tzinfo=UTC), timedelta(seconds=60)]


@pytest.mark.parametrize(
    ("path", "error", "remedy"),
    [
        ("/api/at", "time: is missing", "write time="),
        ("/api/at?time=yesterday", "time: 'yesterday' is no time", "write time="),
        ("/api/at?time=2026-01-05T08:00:00", "with its zone", "write time="),
        ("/api/at?time=9999-01-05T08:00:00Z", "is in the future", "write time="),
        ("/api/at?time=0001-01-01T00:00:00Z", "is more than ten years ago", "write time="),
        ("/api/load?end=0001-01-01T00:00:00Z", "is more than ten years ago", "write end="),
        ("/api/at?moment=now", "moment: is not a parameter", "it takes time"),
        ("/api/now?time=now", "time: is not a parameter", "it takes no parameters"),
        ("/api/load?seconds=1e9", "seconds: '1e9' is no whole number of 60 to 604800", "write seconds=3600"),
        ("/api/load?seconds=59", "seconds: '59'", "write seconds=3600"),
        ("/api/load?end=soon", "end: 'soon'", "write end="),
    ],
)
async def test_a_bad_question_is_told_which_parameter_and_what_would_be_right(
    path: str, error: str, remedy: str
) -> None:
    async with served() as board:
        status, _, body = await board.get(path)
        assert status == 400
        assert error in body.decode()
        assert remedy in body.decode()
        assert board.view.asked == []


async def test_other_paths_and_methods() -> None:
    async with served() as board:
        assert await board.status("/api/jobs") == 404
        async with aiohttp.ClientSession() as session, session.post(f"{board._base}/api/now") as answer:
            assert answer.status == 405


async def test_when_it_stops_an_open_stream_ends_in_good_order() -> None:
    async with aiohttp.ClientSession() as session:
        async with served() as board:
            stream = await board.open(session, "/api/stream")
            assert (await stream.content.readline()) == b"event: picture\n"
        rest = await stream.content.read()  # to its end: a connection that was cut raises
        assert rest.startswith(b"data: ")
        stream.close()


async def test_places_for_listeners_are_bounded_and_come_free_when_one_leaves() -> None:
    async with served() as board, aiohttp.ClientSession() as session:
        first = await board.open(session, "/api/stream")
        second = await board.open(session, "/api/stream")
        assert first.headers["Content-Type"].startswith("text/event-stream")
        assert (await first.content.readline()) == b"event: picture\n"
        status, headers, body = await board.get("/api/stream")
        assert (status, headers["Retry-After"]) == (503, "10")
        assert b"--listeners" in body
        second.close()
        third = await board.open(session, "/api/stream")
        while third.status != 200:  # as long as the timeout of tests allows
            third.close()
            await asyncio.sleep(0.01)
            third = await board.open(session, "/api/stream")
        first.close()
        third.close()
