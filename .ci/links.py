"""Asks for every https link of the course's texts and prints the broken ones.

    python .ci/links.py

Needs the standard library only. A server that refuses programs is not counted as broken.
"""

import json
import re
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"https://(?:[^\s()<>\[\]\"'`\\|]|\([^\s()]*\))+")
WAITS = (0, 5, 30)  # seconds before each try
REFUSED = {401, 403, 405, 406, 418, 429, 999}  # what servers answer to programs; a reader's browser is let in
WHO = {"User-Agent": "Mozilla/5.0 (link check of a course)", "Accept": "text/html,*/*"}


def texts(root: Path = ROOT) -> dict[str, str]:
    """Each file that has links for readers, and its text. Of a notebook, the cells without their outputs."""
    found = [
        root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE")
    ]
    found += [*sorted((root / "notebooks").glob("*.ipynb")), *sorted((root / "utils").glob("*.py"))]
    said = {}
    for file in filter(Path.exists, found):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".ipynb":
            text = "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        said[file.relative_to(root).as_posix()] = text
    return said


def links(text: str) -> set[str]:
    """The https links of a text, without anchors. Not those that stand for something: {name}, https://YOUR-HUB."""
    found = {link.partition("#")[0].rstrip(".,;:!?*") for link in LINK.findall(text)}
    return {
        link for link in found if re.match(r"https://[\w-]+\.[\w.-]+", link) and not set("{}$") & set(link)
    }


def fault(link: str, waits: Sequence[float] = WAITS) -> str:
    """What is wrong with a link, or an empty text. Asks again after each wait."""
    said = ""
    for wait in waits:
        time.sleep(wait)
        try:
            with urllib.request.urlopen(urllib.request.Request(link, headers=WHO), timeout=30):
                return ""
        except urllib.error.HTTPError as error:
            if error.code in REFUSED:
                return ""
            said = f"{error.code} {error.reason}"
        except (OSError, ValueError) as error:  # no such host, no answer, no link at all
            said = str(getattr(error, "reason", error))
    return said


def report(said: dict[str, str], waits: Sequence[float] = WAITS) -> list[str]:
    """A line for each broken link: the link, what is wrong, and the files that have it."""
    places = {}
    for file, text in said.items():
        for link in links(text):
            places.setdefault(link, []).append(file)
    print(f"{len(places)} links in {len(said)} files")
    with ThreadPoolExecutor(8) as pool:
        faults = dict(zip(places, pool.map(lambda link: fault(link, waits), places), strict=True))
    return [
        f"{link}: {faults[link]} (in {', '.join(places[link])})" for link in sorted(places) if faults[link]
    ]


def main() -> None:
    address = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["course"][
        "repository"
    ]
    said = texts()
    if address.startswith("-"):  # not published yet: its own links lead nowhere
        said = {file: re.sub(rf"https://\S*{re.escape(address)}\S*", "", text) for file, text in said.items()}
    broken = report(said)
    print("\n".join(broken) or "All of them lead somewhere.")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
