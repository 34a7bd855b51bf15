"""Lets respx answer in place of the network for both SDKs, whose HTTP library respx does not know by itself."""

from typing import Any

import httpcore2
import respx
from respx.mocks import HTTPCoreMocker


class HTTPCore2Mocker(HTTPCoreMocker):
    """Respx's patches, one generation of the library later."""

    name = "httpcore2"
    targets = [target.replace("httpcore.", "httpcore2.") for target in HTTPCoreMocker.targets]  # noqa: RUF012

    @classmethod
    def from_sync_httpx_response(cls, httpx_response: Any, target: Any, **kwargs: Any) -> httpcore2.Response:
        return httpcore2.Response(
            status=httpx_response.status_code,
            headers=httpx_response.headers.raw,
            content=httpx_response.stream,
            extensions=httpx_response.extensions,
        )


def mocked(**options: Any) -> respx.MockRouter:
    """A respx router for the SDKs; what has no route is an error."""
    return respx.mock(using=HTTPCore2Mocker.name, **options)
