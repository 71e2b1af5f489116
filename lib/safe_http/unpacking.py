"""Bounded unpacking of compressed responses: httpx unpacks at once all that it has read, up to a thousandfold."""

import zlib
from collections.abc import Iterator

import httpx

# Bytes of a piece of a body, and of a whole body unless its reader stops earlier.
_PIECE = 65_536
_MOST = 64_000_000
# By coding, what zlib is to expect: the header of gzip, or of zlib.
_FORMATS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def bounded(client: httpx.Client) -> httpx.Client:
    """Return the client, which from now on unpacks bodies as they are read, in pieces of 64 KB, 64 MB at most.

    Reading raises httpx.DecodingError for more, for broken data, and for another coding than gzip or deflate.
    """
    client.headers["Accept-Encoding"] = "gzip"
    client.event_hooks["response"].insert(0, _unpack)  # before hooks that read the body
    return client


def _unpack(response: httpx.Response) -> None:
    stream = response.stream
    assert isinstance(stream, httpx.SyncByteStream)  # noqa: S101 - the clients here are synchronous
    coding = response.headers.pop("content-encoding", "identity").strip().lower()
    response.stream = _Unpacked(stream, coding)


class _Unpacked(httpx.SyncByteStream):
    def __init__(self, packed: httpx.SyncByteStream, coding: str) -> None:
        self._packed = packed
        self._coding = coding

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._packed if self._coding == "identity" else self._pieces():
            size += len(piece)
            if size > _MOST:
                raise httpx.DecodingError(f"the response has more than {_MOST} bytes")
            yield piece

    def close(self) -> None:
        self._packed.close()

    def _pieces(self) -> Iterator[bytes]:
        if self._coding not in _FORMATS:
            raise httpx.DecodingError("the response is compressed in a way that was not asked for")
        zip_ = zlib.decompressobj(wbits=_FORMATS[self._coding])
        began = False
        try:
            for packed in self._packed:
                data = packed
                while data and not zip_.eof:
                    began = True
                    yield zip_.decompress(data, _PIECE)
                    data = zip_.unconsumed_tail
        except zlib.error:
            raise httpx.DecodingError("the response is not compressed as its header states") from None
        if began and not zip_.eof:
            raise httpx.DecodingError("the compressed response is incomplete")
