"""A small stand-in for the Hugging Face hub on loopback, for tests: it serves folders as models.

It answers as the real hub does (routes, headers, status codes) as far as huggingface_hub looks at it, and can
be told to fail. A client finds it through HF_ENDPOINT, which huggingface_hub reads when imported, so a client
runs in a process of its own.

    with LocalHub({"someone/tiny-bert": folder}) as hub:
        subprocess.run(..., env={**os.environ, "HF_ENDPOINT": hub.url})
        assert hub.fetched("someone/tiny-bert", "model.safetensors") == 1
"""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_sesame"  # the one token this hub knows

# What can be wrong with a model here:
#   gated     its files are listed, but not handed out without the token
#   private   without the token it does not seem to exist
#   silent    no answer at all until the hub is closed
#   down      HTTP 503
#   breaking  the first download of a large file ends in the middle, the next request fails, then all is well
FAULTS = {"gated", "private", "silent", "down", "breaking"}


class LocalHub:
    """Serves each folder of `models` under its name; `moved` maps old names to new, `faults` to FAULTS."""

    def __init__(self, models: dict[str, Path], moved: dict[str, str] = (), faults: dict[str, str] = ()):
        self.models, self.moved, self.faults = dict(models), dict(moved), dict(faults)
        assert set(self.faults.values()) <= FAULTS
        self.requests = []  # (method, path, token) of each request
        self.breaks = {}  # name of a breaking model -> requests for its large file so far
        self.closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{port}"
        # As on the real hub, large files come from another host: the client must not follow a HEAD there.
        self.store = f"http://localhost:{port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()

    def fetched(self, name: str, file: str) -> int:
        """How many times the content of a file was asked for."""
        wanted = f"/{name}/resolve/main/{file}"
        return sum(method == "GET" and path == wanted for method, path, _ in self.requests)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LocalHub

    def do_GET(self):
        # Through a proxy the whole address arrives instead of the path.
        path = urlsplit(self.path).path
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.hub.requests.append((self.command, path, token))
        if path.startswith("/lfs/"):  # in the store: /lfs/<name>/<file>
            name, file = path.removeprefix("/lfs/").rsplit("/", 1)
            return self.send_file(name, self.hub.models[name] / file)
        match = re.fullmatch(r"/api/models/(.+?)(/revision/[^/]+|/tree/[^/]+)?", path)
        if match:
            name, kind = match[1], "api"
        elif match := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
            name, kind = match[1], "file"
        else:
            return self.fail(404)
        if name in self.hub.moved:
            return self.reply(307, headers={"Location": path.replace(name, self.hub.moved[name], 1)})
        if token and token != TOKEN:
            return self.fail(401, message="Invalid credentials in Authorization header")
        fault = self.hub.faults.get(name)
        if name not in self.hub.models or (fault == "private" and not token):
            # The real hub does not tell a stranger what exists.
            return (
                self.fail(404, "RepoNotFound")
                if token
                else self.fail(401, message="Invalid username or password.")
            )
        if fault == "silent":
            self.hub.closed.wait()
            self.close_connection = True
            return None
        if fault == "down":
            return self.fail(503)
        if kind == "api":
            return self.send_listing(name, tree="/tree/" in path)
        if fault == "gated" and not token:
            return self.fail(401, "GatedRepo")
        file = self.hub.models[name] / match[3]
        if not file.is_file():
            return self.fail(404, "EntryNotFound")
        if file.suffix in (".safetensors", ".bin"):
            headers = {"X-Linked-Size": str(file.stat().st_size), "X-Linked-ETag": f'"{_sha256(file)}"'}
            location = f"{self.hub.store}/lfs/{name}/{match[3]}"
            return self.reply(302, headers={**headers, "Location": location, "X-Repo-Commit": COMMIT})
        return self.send_file(name, file)

    do_HEAD = do_GET

    def send_listing(self, name: str, tree: bool):
        """The JSON of /api/models/<name>, or of its tree."""
        files = sorted(file for file in self.hub.models[name].iterdir() if file.is_file())
        if tree:
            answer = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _git_sha1(file)}
                for file in files
            ]
        else:
            answer = {
                "id": name,
                "sha": COMMIT,
                "private": self.hub.faults.get(name) == "private",
                "gated": "manual" if self.hub.faults.get(name) == "gated" else False,
                "siblings": [{"rfilename": file.name} for file in files],
            }
        self.reply(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def send_file(self, name: str, file: Path):
        """A file, or the end of it if a Range asks for that."""
        body = file.read_bytes()
        headers = {"ETag": f'"{_git_sha1(file)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.hub.faults.get(name) == "breaking" and self.command == "GET" and "/lfs/" in self.path:
            self.hub.breaks[name] = self.hub.breaks.get(name, 0) + 1
            if self.hub.breaks[name] == 1:
                self.close_connection = True
                return self.reply(200, body[: len(body) // 2], {**headers, "Content-Length": str(len(body))})
            if self.hub.breaks[name] == 2:
                return self.fail(503)
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not wanted:
            return self.reply(200, body, headers)
        start = int(wanted[1])
        headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        return self.reply(206, body[start:], headers)

    def fail(self, status: int, code: str = "", message: str = ""):
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        body = json.dumps({"error": message or code or "failed"}).encode()
        self.reply(status, body, {name: value for name, value in headers.items() if value})

    def reply(self, status: int, body: bytes = b"", headers: dict[str, str] = ()):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args):
        """Keep the tests' output clean."""


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git_sha1(file: Path) -> str:
    """The id git gives a file's content, which the hub uses as ETag of small files."""
    body = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
