"""What the reader of Prometheus does with files and answers that it cannot use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from scavenger_runtime import prometheus
from scavenger_runtime.prometheus import PrometheusClient, PrometheusError


@pytest.mark.parametrize("content", [b"one\ntwo", b"\xff\xfe", "é".encode()])
async def test_a_file_without_a_token_is_an_answer_that_is_missing(tmp_path: Path, content: bytes) -> None:
    """And no end of the service, which measures nothing meanwhile."""
    token = tmp_path / "token"
    token.write_bytes(content)
    client = PrometheusClient("http://127.0.0.1:1", timeout=5, token_file=str(token))
    try:
        with pytest.raises(PrometheusError, match="token"):
            await client.ask_all(["up"])
    finally:
        await client.close()


async def test_where_one_request_fails_the_others_end() -> None:
    """Else each round of a Prometheus that answers half would leave some behind."""
    ended = asyncio.Event()

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise PrometheusError("its answer is longer than 1 MiB")

    with pytest.raises(PrometheusError, match="longer"):
        await PrometheusClient("http://127.0.0.1:1", timeout=5).together(lasts(), fails())
    async with asyncio.timeout(5):
        await ended.wait()


async def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"{" + b" " * 4096)

    monkeypatch.setattr(prometheus, "MOST_ANSWER", 1024)
    app = web.Application()
    app.router.add_post("/api/v1/query", answer)
    async with TestServer(app) as server:
        client = PrometheusClient(str(server.make_url("/")), timeout=5)
        try:
            with pytest.raises(PrometheusError, match="longer than"):
                await client.ask_all(["up"])
        finally:
            await client.close()
