"""The other side of orders: a mail server that keeps nothing, and a shop that takes every webhook. python -m bench.sink

It prints its ports, as JSON, and ends when its standard input does.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dev import ROOT

_HOST = "127.0.0.1"
_OK = b"250 OK\r\n"
_REPLIES = {
    b"EHLO": b"250-sink\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
    b"DATA": b"354 go on\r\n",
    b"QUIT": b"221 bye\r\n",
}


@contextmanager
def sink() -> Iterator[dict[str, int]]:
    """Run it in a process of its own, and yield its ports: `smtp` and `http`."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.sink"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield json.loads(process.stdout.readline() if process.stdout else b"{}")
        finally:
            process.kill()


async def _mail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 sink\r\n")
    while line := await reader.readline():
        command = line[:4].upper()
        writer.write(_REPLIES.get(command, _OK))
        if command == b"DATA":
            await writer.drain()
            await reader.readuntil(b"\r\n.\r\n")
            writer.write(_OK)
        if command == b"QUIT":
            break
        await writer.drain()
    writer.close()


async def _shop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await _head(reader):
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0)
        await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
    writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def _serve() -> None:
    smtp = await asyncio.start_server(_mail, _HOST, 0)
    http = await asyncio.start_server(_shop, _HOST, 0)
    ports = {"smtp": smtp.sockets[0].getsockname()[1], "http": http.sockets[0].getsockname()[1]}
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
