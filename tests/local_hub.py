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

    def __init__(self, models, moved=(), faults=()):
        self.models, self.moved, self.faults = dict(models), dict(moved), dict(faults)
        assert set(self.faults.values()) <= FAULTS
        self.requests = []  # (method, path, token) of each request
        self.breaks = {}  # name of a breaking model -> requests for its large file so far
        self.closed = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": self}))
        port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{port}"
        # As on the real hub, large files come from another host: the client must not follow a HEAD there.
        self.store = f"http://localhost:{port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()

    def fetched(self, name, file):
        """Return how many times the content of a file was asked for."""
        wanted = f"/{name}/resolve/main/{file}"
        return sum(method == "GET" and path == wanted for method, path, _ in self.requests)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        # Through a proxy the whole address arrives instead of the path.
        path = urlsplit(self.path).path
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.hub.requests.append((self.command, path, token))
        if match := re.fullmatch(r"/lfs/(.+)/([^/]+)", path):
            return self.send_file(match[1], self.hub.models[match[1]] / match[2])
        match = re.fullmatch(r"/api/models/(?P<name>.+)|/(?P<owned>.+?)/resolve/[^/]+/(?P<file>.+)", path)
        if not match:
            return self.fail(404)
        name, file = match["name"] or match["owned"], match["file"]
        if name in self.hub.moved:
            return self.reply(307, headers={"Location": path.replace(name, self.hub.moved[name], 1)})
        fault = self.hub.faults.get(name)
        if token not in ("", TOKEN):
            return self.fail(401, message="Invalid credentials in Authorization header")
        if name not in self.hub.models and token:
            return self.fail(404, "RepoNotFound")
        if name not in self.hub.models or (fault == "private" and not token):
            # The real hub does not tell a stranger what exists.
            return self.fail(401, message="Invalid username or password.")
        if fault == "silent":
            self.hub.closed.wait()
            self.close_connection = True
            return None
        if fault == "down":
            return self.fail(503)
        if not file:
            return self.send_listing(name)
        if fault == "gated" and not token:
            return self.fail(401, "GatedRepo")
        return self.send_place(name, self.hub.models[name] / file)

    do_HEAD = do_GET

    def send_listing(self, name):
        fault = self.hub.faults.get(name)
        files = sorted(file.name for file in self.hub.models[name].iterdir() if file.is_file())
        answer = {"id": name, "sha": COMMIT, "private": fault == "private"}
        answer |= {"gated": "manual" if fault == "gated" else False}
        answer |= {"siblings": [{"rfilename": file} for file in files]}
        self.reply(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def send_place(self, name, file):
        """Answer with a small file, or with the place of a large one."""
        if not file.is_file():
            return self.fail(404, "EntryNotFound")
        if file.suffix not in (".safetensors", ".bin"):
            return self.send_file(name, file)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        headers = {"X-Linked-Size": str(file.stat().st_size), "X-Linked-ETag": f'"{digest}"'}
        place = {"Location": f"{self.hub.store}/lfs/{name}/{file.name}", "X-Repo-Commit": COMMIT}
        return self.reply(302, headers=headers | place)

    def send_file(self, name, file):
        """Answer with a file, or with the end of it if a Range asks for that."""
        body = file.read_bytes()
        headers = {"ETag": f'"{git_sha1(body)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.hub.faults.get(name) == "breaking" and self.command == "GET" and "/lfs/" in self.path:
            self.hub.breaks[name] = self.hub.breaks.get(name, 0) + 1
            if self.hub.breaks[name] == 1:
                self.close_connection = True
                return self.reply(200, body[: len(body) // 2], headers | {"Content-Length": str(len(body))})
            if self.hub.breaks[name] == 2:
                return self.fail(503)
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not wanted:
            return self.reply(200, body, headers)
        start = int(wanted[1])
        headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        return self.reply(206, body[start:], headers)

    def fail(self, status, code="", message=""):
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        body = json.dumps({"error": message or code or "failed"}).encode()
        self.reply(status, body, {name: value for name, value in headers.items() if value})

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args):
        """Keep the tests' output clean."""


def git_sha1(body):
    """Return the id git gives a file's content, which the hub uses as ETag of small files."""
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
