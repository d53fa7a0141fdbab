"""A runner in Python, written from docs/reference/runner-protocol.md alone.

A sandbox is a directory, a command a process of this machine. `runner.py URL NAME`, with the token in
RUNNER_TOKEN; ends when the hub closes the connection.
"""

import asyncio
import base64
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import urllib.parse

import websockets

FRAME_MAX = 64 << 20
CHUNK_MAX = 32 << 10


class Refused(Exception):
    def __init__(self, error, detail=None):
        super().__init__(error)
        self.error = error
        self.detail = detail


def told(returncode):
    """A process's end in the words of the wire."""
    if returncode < 0:
        return {"code": 128 - returncode, "signal": -returncode}
    return {"code": returncode}


class Session:
    def __init__(self, runner, session_id, command):
        self.runner, self.id, self.command = runner, session_id, command
        self.process = None
        self.takes_input = False
        self.heard = True
        self.journal = []
        self.end = None
        self.begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def put(self, frame):
        # The journal and the wire in one step, since nothing else runs until this returns.
        self.journal.append(frame)
        if self.heard:
            self.runner.send(frame)

    async def pump(self, stream, pipe):
        while data := await pipe.read(CHUNK_MAX):
            data = base64.b64encode(data).decode()
            self.put({"stream": stream, "session_id": self.id, "data": data})

    async def serve(self):
        process = self.process
        await asyncio.gather(self.pump("stdout", process.stdout), self.pump("stderr", process.stderr))
        self.end = told(await process.wait())
        self.put({"stream": "exit", "session_id": self.id, **self.end})

    def row(self):
        row = {"id": self.id, "command": self.command, "created_at": self.begun}
        row.update(last_activity_at=self.begun, tty=False)
        if self.end:
            row["exit_code"] = self.end["code"]
            if "signal" in self.end:
                row["signal"] = self.end["signal"]
        return row


class Runner:
    def __init__(self, root):
        self.root = root
        self.outgoing = asyncio.Queue()
        self.sessions = {}
        self.count = 0
        self.tasks = set()

    def send(self, frame):
        self.outgoing.put_nowait(json.dumps(frame))

    def text(self, frame, field, missing=None):
        value = frame.get(field)
        if value is None and missing is not None:
            return missing
        if not isinstance(value, str):
            raise Refused("invalid", field)
        return value

    def data(self, frame):
        try:
            return base64.b64decode(self.text(frame, "data"), validate=True)
        except ValueError:
            raise Refused("invalid", "data") from None

    def sandbox(self, frame, must_be=True):
        name = self.text(frame, "name")
        bad = not name or len(name.encode()) > 255 or name[0] == "." or set("/\\") & set(name)
        if bad or any(ord(c) < 32 or ord(c) == 127 for c in name):
            raise Refused("invalid", "name")
        path = os.path.join(self.root, name)
        if must_be and not os.path.isdir(path):
            raise Refused("not_found")
        return name, path

    def below(self, home, path):
        for beginning in ["~", "/home/sprite"]:
            if path == beginning or path.startswith(beginning + "/"):
                path = path[len(beginning):].lstrip("/")
        return os.path.join(home, path)

    async def start(self, frame, home, **pipes):
        args = frame.get("args") or []
        env = {**os.environ, "HOME": home}
        env.update(pair for pair in frame.get("env") or [] if len(pair) == 2)
        cwd = self.below(home, frame.get("dir") or "")
        # A group of its own, so that all of it can be ended.
        return await asyncio.create_subprocess_exec(
            self.text(frame, "cmd"), *args, cwd=cwd, env=env, start_new_session=True, **pipes
        )

    async def execute(self, frame, home):
        error = asyncio.subprocess.DEVNULL
        if frame.get("stderr_to_stdout"):
            error = asyncio.subprocess.STDOUT
        pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE, "stderr": error}
        try:
            process = await self.start(frame, home, **pipes)
        except OSError as error:
            return {"output": base64.b64encode(str(error).encode()).decode(), "code": 127}
        limit = frame.get("timeout_ms") or 0
        try:
            waited = asyncio.wait_for(process.communicate(), limit / 1000 if limit > 0 else None)
            output, end = (await waited)[0], None
        except asyncio.TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            output, end = b"", {"code": 124}
        end = end or told(process.returncode)
        return {"output": base64.b64encode(output).decode(), **end}

    async def spawn(self, frame, name, home):
        self.count += 1
        words = [self.text(frame, "cmd"), *(frame.get("args") or [])]
        session = Session(self, f"s-{self.count}", " ".join(words))
        session.takes_input = bool(frame.get("stdin"))
        pipe = asyncio.subprocess.PIPE
        given = pipe if session.takes_input else asyncio.subprocess.DEVNULL
        session.process = await self.start(frame, home, stdin=given, stdout=pipe, stderr=pipe)
        self.sessions[name, session.id] = session
        # The reply is on its way before anything that it prints.
        self.reply(frame, {"session_id": session.id})
        self.do(session.serve())

    def session(self, frame):
        name, _ = self.sandbox(frame)
        found = self.sessions.get((name, self.text(frame, "session_id")))
        if not found:
            raise Refused("not_found")
        return found

    def attach(self, frame, session):
        # Reply and replay in one step, then what comes.
        self.reply(frame, {"session_id": session.id})
        for old in session.journal:
            self.send({**old, "replay_for": frame["id"]})
        session.heard = True

    def input(self, frame, session):
        if session.end:
            raise Refused("command_exited")
        if not session.takes_input:
            raise Refused("write_failed", "it has no input")
        if frame["op"] == "stdin":
            session.process.stdin.write(self.data(frame))
        else:
            session.process.stdin.close()
        self.reply(frame, {})

    def reply(self, frame, result):
        if frame.get("id"):
            self.send({"id": frame["id"], "ok": True, "result": result})

    async def slow(self, frame, work):
        try:
            result = await work
            if result is not None:
                self.reply(frame, result)
        except Refused as why:
            self.refuse(frame, why)
        except OSError as error:
            self.refuse(frame, Refused("unavailable", str(error)))

    def refuse(self, frame, why):
        if frame.get("id"):
            reply = {"id": frame["id"], "ok": False, "error": why.error, "detail": why.detail}
            self.send(reply)

    def do(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def take(self, frame):
        op = frame.get("op")
        if op == "list":
            self.reply(frame, {"names": sorted(os.listdir(self.root))})
        elif op == "create":
            os.makedirs(self.sandbox(frame, must_be=False)[1], exist_ok=True)
            self.reply(frame, {})
        elif op == "get":
            self.reply(frame, {"status": "running", "path": self.sandbox(frame)[1]})
        elif op == "destroy":
            name, path = self.sandbox(frame, must_be=False)
            for key in [key for key in self.sessions if key[0] == name]:
                session = self.sessions.pop(key)
                if not session.end:
                    os.killpg(session.process.pid, signal.SIGKILL)
            shutil.rmtree(path, ignore_errors=True)
            self.reply(frame, {})
        elif op == "write_file":
            path = self.below(self.sandbox(frame)[1], self.text(frame, "path"))
            data, mode = self.data(frame), frame.get("mode")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
            os.chmod(path, 0o644 if mode is None else mode)
            self.reply(frame, {})
        elif op == "exec":
            self.do(self.slow(frame, self.execute(frame, self.sandbox(frame)[1])))
        elif op == "spawn":
            self.do(self.slow(frame, self.spawn(frame, *self.sandbox(frame))))
        elif op in ("stdin", "stdin_close"):
            self.input(frame, self.session(frame))
        elif op == "attach":
            self.attach(frame, self.session(frame))
        elif op == "detach":
            for session in self.sessions.values():
                if session.id == frame.get("session_id"):
                    session.heard = False
        elif op == "list_sessions":
            name, _ = self.sandbox(frame)
            rows = [one.row() for (of, _), one in reversed(self.sessions.items()) if of == name]
            self.reply(frame, {"sessions": rows})
        else:
            raise Refused("not_supported", op)


async def main(url, name):
    query = urllib.parse.urlencode({"name": name, "os": "linux"})
    address = url.replace("http", "ws", 1).rstrip("/") + "/api/runners/ws?" + query
    headers = {"Authorization": "Bearer " + os.environ["RUNNER_TOKEN"]}
    options = {"extra_headers": headers, "max_size": FRAME_MAX, "compression": None}
    with tempfile.TemporaryDirectory() as root:
        runner = Runner(root)
        async with websockets.connect(address, ping_interval=10, ping_timeout=5, **options) as socket:

            async def write():
                while True:
                    await socket.send(await runner.outgoing.get())

            runner.do(write())
            async for text in socket:
                try:
                    frame = json.loads(text)
                except ValueError:
                    continue
                if not isinstance(frame, dict):
                    continue
                try:
                    runner.take(frame)
                except Refused as why:
                    runner.refuse(frame, why)
                except OSError as error:
                    runner.refuse(frame, Refused("write_failed", str(error)))
        for session in runner.sessions.values():
            if not session.end:
                os.killpg(session.process.pid, signal.SIGKILL)


asyncio.run(main(*sys.argv[1:]))
