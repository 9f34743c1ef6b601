"""Lists read in pages that are bounded in bytes: how large an object is others choose."""

from __future__ import annotations

from typing import Final

from scavenger_kube.client import ApiClient
from scavenger_kube.errors import TooLarge
from scavenger_kube.resources import Params

PAGE_SIZE: Final = 500
"""Objects per page of a list: what the API server serves from its cache without holding up others."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page that is longer is asked for again with fewer objects. One object may be as long as it is."""


class PagedList:
    """One list, page by page.

    Args:
        client: to ask with.
        path: of the collection.
        params: selectors.
        most: objects per page; None to read everything in one piece.
    """

    def __init__(self, client: ApiClient, path: str, params: Params, most: int | None = PAGE_SIZE) -> None:
        self._client = client
        self._path = path
        self._params = params
        self._most = most
        self._limit = most

    async def page(self, token: str | None) -> bytes:
        """The page that this continue token leads to; the first one without. Raises ApiError."""
        while True:
            bound = None if self._limit in (None, 1) else PAGE_BYTES
            params = {**self._params, "limit": self._limit, "continue": token}
            try:
                body = await self._client.request("GET", self._path, params=params, at_most=bound)
            except TooLarge:
                assert self._limit is not None
                self._limit = max(1, self._limit // 4)
                continue
            if self._limit is not None and self._most is not None and len(body) < PAGE_BYTES // 4:
                self._limit = min(self._most, self._limit * 2)
            return body
