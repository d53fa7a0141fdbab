"""A hub in Python, written from docs/reference/runner-protocol.md alone: what it says of a runner, it asks.

Prints its port, takes a runner that dials it, and exits with 0 if everything was as the document says.
"""

import asyncio
import base64
import json
import os
import sys
import urllib.parse

import websockets

TOKEN = os.environ["RUNNER_TOKEN"]
FRAME_MAX = 64 << 20
LIMIT = 60


def encode(data):
    return base64.b64encode(data).decode()


def decode(text):
    return base64.b64decode(text, validate=True)


def same(what, seen, expected):
    if seen != expected:
        raise AssertionError(f"{what}: {seen!r}, and not {expected!r}")


class Link:
    """One connection of a runner."""

    def __init__(self, socket):
        self.socket = socket
        self.last_id = 0
        self.waiting = {}
        # All frames of a session, in the order of the wire; a reply that names it is among them.
        self.frames = {}
        self.reader = asyncio.ensure_future(self.read())

    async def read(self):
        async for text in self.socket:
            same("a frame's type", type(text), str)
            frame = json.loads(text)
            if isinstance(frame.get("id"), int):
                result = frame.get("result") or {}
                if "session_id" in result:
                    self.of(result["session_id"]).put_nowait(frame)
                waiting = self.waiting.pop(frame["id"], None)
                if waiting:
                    waiting.set_result(frame)
            elif "stream" in frame:
                self.of(frame["session_id"]).put_nowait(frame)

    def of(self, session):
        return self.frames.setdefault(session, asyncio.Queue())

    async def ask(self, op, **fields):
        self.last_id += 1
        waiting = asyncio.get_event_loop().create_future()
        self.waiting[self.last_id] = waiting
        await self.socket.send(json.dumps({"id": self.last_id, "op": op, **fields}))
        reply = await asyncio.wait_for(waiting, LIMIT)
        same("a reply's id", reply["id"], self.last_id)
        return reply

    async def ok(self, op, **fields):
        reply = await self.ask(op, **fields)
        same(f"whether {op} was done ({reply})", reply["ok"], True)
        return reply.get("result") or {}

    async def refused(self, error, op, **fields):
        reply = await self.ask(op, **fields)
        same(f"what {op} answers", (reply["ok"], reply.get("error")), (False, error))
        return reply.get("detail")

    async def frame(self, session):
        return await asyncio.wait_for(self.of(session).get(), LIMIT)

    async def rest(self, session):
        """What a session still prints, and its exit."""
        printed = {"stdout": b"", "stderr": b""}
        tags = set()
        while True:
            frame = await self.frame(session)
            tags.add(frame.get("replay_for"))
            if frame["stream"] == "exit":
                return printed, frame, tags
            data = decode(frame["data"])
            assert len(data) <= 32 << 10, "a piece of output is longer than 32 KiB"
            printed[frame["stream"]] += data


def sh(script):
    # Options that are absent may be null, and fields that nobody knows are left aside.
    return {"cmd": "sh", "args": ["-c", script], "env": [], "dir": None, "later": {"a": 1}}


async def sandboxes(link):
    same("create", await link.ok("create", name="py"), {})
    same("create, which adopts", await link.ok("create", name="py"), {})
    info = await link.ok("get", name="py")
    same("the status", info["status"], "running")
    assert isinstance(info["path"], str), info
    same("the list", (await link.ok("list"))["names"], ["py"])
    await link.refused("not_found", "get", name="none")
    same("destroy of none", await link.ok("destroy", name="none"), {})


async def commands(link):
    async def execute(script, **more):
        options = {"timeout_ms": None, "stderr_to_stdout": False, **more}
        result = await link.ok("exec", name="py", **{**sh(script), **options})
        return decode(result["output"]), result["code"], result.get("signal")

    same("exec", await execute("echo out; echo err >&2; exit 42"), (b"out\n", 42, None))
    merged = await execute("echo out; echo err >&2", stderr_to_stdout=True)
    same("both outputs", (sorted(merged[0].split()), merged[1]), ([b"err", b"out"], 0))
    same("a signal", await execute("kill -TERM $$"), (b"", 143, 15))
    same("a time limit", (await execute("sleep 86420", timeout_ms=100))[1], 124)
    same("no time limit", await execute("exit 5", timeout_ms=0), (b"", 5, None))
    output = await execute('echo "$A"; pwd', env=[["A", "b c"], ["odd"]], dir="/tmp")
    same("env and dir", output[0], b"b c\n/tmp\n")
    result = await link.ok("exec", name="py", cmd="nosuch-program", args=[])
    same("the code of what cannot be started", result["code"], 127)
    assert decode(result["output"]), "its output says why"
    data = bytes(range(256)) * 500
    written = {"path": "a/b/file", "data": encode(data), "mode": 0o600}
    same("write_file", await link.ok("write_file", name="py", **written), {})
    output, code, _ = await execute("stat -c %a a/b/file; cat /home/sprite/a/b/file")
    same("the file", (output, code), (b"600\n" + data, 0))
    await link.refused("not_found", "exec", name="none", **sh("true"))


async def sessions(link):
    command = sh("echo ready; sed -u s/^/echo:/; exit 7")
    opened = await link.ok("spawn", name="py", **command, stdin=True, tty=False, detachable=True)
    session = opened["session_id"]
    same("what comes first", (await link.frame(session)).get("ok"), True)
    same("then", decode((await link.frame(session))["data"]), b"ready\n")
    about = {"name": "py", "session_id": session}
    same("stdin", await link.ok("stdin", **about, data=encode(b"one\n")), {})
    same("its echo", decode((await link.frame(session))["data"]), b"echo:one\n")
    # Another one joins: its reply, then what there was for it alone, then what comes for all.
    attach = link.last_id + 1
    joined = await link.ok("attach", **about, stdin=None)
    same("the session", joined["session_id"], session)
    same("what comes first", (await link.frame(session))["id"], attach)
    replay = b""
    while replay != b"ready\necho:one\n":
        frame = await link.frame(session)
        same("whose replay it is", frame.get("replay_for"), attach)
        replay += decode(frame["data"])
    await link.ok("stdin_close", **about)
    printed, end, tags = await link.rest(session)
    same("the exit", end, {"stream": "exit", "session_id": session, "code": 7})
    same("what came after it joined", (printed["stdout"], tags), (b"", {None}))
    await link.refused("command_exited", "stdin", **about, data=encode(b"late"))
    rows = (await link.ok("list_sessions", name="py"))["sessions"]
    same("the row", (rows[0]["id"], rows[0]["exit_code"], rows[0]["tty"]), (session, 7, False))
    await link.refused("not_found", "attach", name="py", session_id="s-none", stdin=False)
    # Its end is told to whoever attaches later, for that one alone.
    attach = link.last_id + 1
    await link.ok("attach", **about, stdin=False)
    await link.frame(session)
    printed, end, tags = await link.rest(session)
    same("the whole of it", printed["stdout"], b"ready\necho:one\n")
    same("its exit", (end["code"], tags), (7, {attach}))


async def mistakes(link):
    same("an unknown op", await link.refused("not_supported", "dance", name="py"), "dance")
    await link.refused("invalid", "get", name="../x")
    await link.refused("invalid", "get", name="")
    await link.refused("invalid", "get", name="n" * 300)
    await link.refused("invalid", "get")
    await link.refused("invalid", "exec", name="py", cmd=7)
    await link.refused("invalid", "write_file", name="py", path="x", data="?", mode=None)
    for text in ["no json", "[]", '"text"', '{"id":"x","op":"list"}']:
        await link.socket.send(text)
    await link.socket.send(b"\x00binary")
    await link.ok("list")


async def begun(link):
    """A session that goes on when the connection does not."""
    command = sh("seq 1 50000; read x; echo $x >&2; kill -KILL $$")
    opened = await link.ok("spawn", name="py", **command, stdin=True, tty=False, detachable=True)
    return opened["session_id"]


async def gone_on(link, session):
    about = {"name": "py", "session_id": session}
    await link.ok("attach", **about, stdin=True)
    await link.frame(session)
    await link.socket.send(json.dumps({"id": 0, "op": "detach", "session_id": session}))
    # In the order in which they were asked: detached, and attached again.
    while not link.of(session).empty():
        link.of(session).get_nowait()
    attach = link.last_id + 1
    await link.ok("attach", **about, stdin=True)
    while (await link.frame(session)).get("id") != attach:
        pass
    await link.ok("stdin", **about, data=encode(b"on\n"))
    printed, end, _ = await link.rest(session)
    expected = b"".join(b"%d\n" % n for n in range(1, 50001))
    same("whether every byte is there once", printed["stdout"] == expected, True)
    same("stderr", printed["stderr"], b"on\n")
    same("its exit", (end["code"], end.get("signal")), (137, 9))
    await link.ok("destroy", name="py")
    await link.refused("not_found", "get", name="py")


async def main():
    links = asyncio.Queue()
    over = asyncio.Event()
    refused = []

    async def refuse_first(path, headers):
        # What may pass is tried again.
        if not refused:
            refused.append(path)
            return 503, [], b"later\n"
        return None

    async def take(socket, path):
        asked = urllib.parse.urlsplit(path)
        same("the path", asked.path, "/base/api/runners/ws")
        query = dict(urllib.parse.parse_qsl(asked.query))
        same("the name", query["name"], "py-1")
        for field in ["hostname", "os", "arch", "version", "root"]:
            assert query[field], f"{field} is missing in {query}"
        same("the token", socket.request_headers["Authorization"], f"Bearer {TOKEN}")
        links.put_nowait(Link(socket))
        await over.wait()

    options = {"max_size": FRAME_MAX, "compression": None, "process_request": refuse_first}
    server = await websockets.serve(take, "127.0.0.1", 0, **options)
    print(server.sockets[0].getsockname()[1], flush=True)
    link = await asyncio.wait_for(links.get(), LIMIT)
    await sandboxes(link)
    await commands(link)
    await sessions(link)
    await mistakes(link)
    session = await begun(link)
    await link.socket.close(1000, "done")
    link = await asyncio.wait_for(links.get(), LIMIT)
    await gone_on(link, session)
    print("ok", flush=True)
    # Until the runner leaves, which says why.
    await asyncio.wait_for(link.socket.wait_closed(), LIMIT)
    same("the close code", link.socket.close_code, 1001)
    over.set()


asyncio.run(asyncio.wait_for(main(), 2 * LIMIT))
sys.exit(0)
