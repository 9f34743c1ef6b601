"""A page is opened although the machine gets a network interface in the meantime."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Error
from scavenger_testing.browser import NETWORK_CHANGED, TRIES, open_page, open_page_async

CHANGED = f"Page.goto: {NETWORK_CHANGED} at http://localhost/"
REFUSED = "Page.goto: net::ERR_CONNECTION_REFUSED at http://localhost/"


class Page:
    """Of playwright's, what opens it. troubles: of its loads, one each; there are none after them."""

    def __init__(self, *troubles: str) -> None:
        self.troubles = list(troubles)
        self.loads = 0

    def goto(self, url: str) -> None:
        self.loads += 1
        if self.troubles:
            raise Error(self.troubles.pop(0))


class AsyncPage(Page):
    async def goto(self, url: str) -> None:  # type: ignore[override]
        super().goto(url)


async def opened(page: Any) -> int:
    """How often the page was loaded."""
    if isinstance(page, AsyncPage):
        await open_page_async(page, "http://localhost/")  # type: ignore[arg-type]
    else:
        open_page(page, "http://localhost/")
    return int(page.loads)


@pytest.mark.parametrize("kind", [Page, AsyncPage])
async def test_it_is_loaded_again_when_the_network_changed(kind: type[Page]) -> None:
    assert await opened(kind()) == 1
    assert await opened(kind(CHANGED, CHANGED)) == 3


@pytest.mark.parametrize("kind", [Page, AsyncPage])
async def test_other_trouble_and_changes_without_end_are_told(kind: type[Page]) -> None:
    for troubles, loads in (([REFUSED], 1), ([CHANGED, REFUSED], 2), ([CHANGED] * 9, TRIES)):
        page = kind(*troubles)
        with pytest.raises(Error, match=r"net::ERR_"):
            await opened(page)
        assert page.loads == loads
