"""A small stand-in for the Hugging Face hub on loopback: it serves folders as models."""

import contextlib
import hashlib
import json
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import torch
from transformers import BertConfig, BertModel

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# A model asks for a token, seems not to exist, fails, or never answers.
FAULTS = {"gated": (401, "GatedRepo"), "private": (401, ""), "down": (503, ""), "silent": None}


@contextlib.contextmanager
def local_hub(models, moved=(), faults=()):
    """Serve the folders of `models` by name; `moved` maps old names to new, `faults` names to FAULTS."""
    hub = SimpleNamespace(models=dict(models), moved=dict(moved), faults=dict(faults))
    hub.requests, hub.closed = [], threading.Event()  # each request as (method, path)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": hub})) as server:
        # As on the real hub, large files come from another host: the client must not follow a HEAD there.
        hub.url, hub.store = (f"http://{host}:{server.server_port}" for host in ("127.0.0.1", "localhost"))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield hub
        finally:
            hub.closed.set()
            server.shutdown()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0]
        self.hub.requests.append((self.command, path))
        if match := re.fullmatch(r"/lfs/(.+)/([^/]+)", path):
            return self.send_file(self.hub.models[match[1]] / match[2])
        match = re.fullmatch(r"/api/models/(.+)|/(.+?)/resolve/[^/]+/(.+)", path)
        name, file = (match[1] or match[2], match[3]) if match else ("", "")
        if name in self.hub.moved:
            return self.reply(307, headers={"Location": path.replace(name, self.hub.moved[name], 1)})
        fault, folder = self.hub.faults.get(name), self.hub.models.get(name)
        if fault == "silent":
            self.close_connection = self.hub.closed.wait()
        elif not folder:
            self.reply(401)  # the real hub does not tell a stranger what exists
        elif fault and (file or fault != "gated"):
            self.reply(*FAULTS[fault])
        elif not file:
            files = [{"rfilename": path.name} for path in folder.iterdir()]
            self.reply(200, body=json.dumps({"id": name, "sha": COMMIT, "siblings": files}).encode())
        elif not (folder / file).is_file():
            self.reply(404, "EntryNotFound")
        elif file.endswith(".safetensors"):
            content = (folder / file).read_bytes()
            headers = {"Location": f"{self.hub.store}/lfs/{name}/{file}", "X-Repo-Commit": COMMIT}
            headers |= {"X-Linked-ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
            self.reply(302, headers=headers | {"X-Linked-Size": str(len(content))})
        else:
            self.send_file(folder / file)

    do_HEAD = do_GET

    def send_file(self, file):
        content = file.read_bytes()
        etag = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # git's, as on the real hub
        self.reply(200, "", content, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})

    def reply(self, status, fault="", body=b"", headers=()):
        self.send_response(status)
        always = {"Content-Length": str(len(body)), "X-Error-Code": fault}
        for name, value in {**always, **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args):
        """Keep the tests' output clean."""


def make_checkpoint(folder, tokenizer, **sizes):
    """Write a BERT of these sizes, random in every weight, with the files of a tokenizer."""
    torch.manual_seed(0)
    model = BertModel(BertConfig(**sizes))
    with torch.no_grad():
        for parameter in model.parameters():  # a bias of 0 could be left out
            parameter += torch.randn_like(parameter) / 10 * (parameter.dim() == 1)
    model.save_pretrained(folder)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder)
    return folder
