"""What a view draws, read from its arguments: panels of weights with their tokens, and indices. Misfits are refused."""

import operator
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from .tokens import prettify, special_indices, word_numbers

SMOOTH_TOKENS = 128  # a browser draws tokens² lines per head; up to here it stays quick
MOST_TOKENS = 256  # beyond this a browser tab may freeze, and unsaved work with it
MOST_GRID_LINES = 400_000  # of the model view, which draws every head at once
# The arguments of a view that an encoder-decoder has in place of others.
STACKS = ("encoder_attention", "decoder_attention", "cross_attention", "encoder_tokens", "decoder_tokens")
NO_WEIGHTS = (
    "The model returned no attention weights. "
    'Load it with attn_implementation="eager" and call it with output_attentions=True.'
)

ONCE_MORE = "Run the model once more, on the whole text: model(output_ids, output_attentions=True)."


@dataclass
class Panel:
    """What the menu of a view offers at a time: the weights from one list of tokens to another, or to itself."""

    name: str
    levels: np.ndarray  # (layers, heads, query, key): weights in steps of 1/255, from 0 to 255
    query_tokens: list[str]  # as they are shown
    key_tokens: list[str]
    sides: dict = field(default_factory=dict)  # which tokens make a word and which are special, for the page


def read_panels(attention, tokens, sentence_b_start, prettify_tokens, *stacks):
    """Return the panels of a view: one, or for an encoder-decoder one for each kind of attention among its `stacks`."""
    stacks = dict(zip(STACKS, stacks, strict=True))
    if all(value is None for value in stacks.values()):
        return [_read_panel("All", "attention", attention, prettify_tokens, tokens=tokens)]
    _require_no_other(stacks, attention=attention, tokens=tokens, sentence_b_start=sentence_b_start)
    encoder, decoder = ({name: stacks[name]} for name in STACKS[3:])
    panels = [
        _read_panel(
            argument.partition("_")[0].capitalize(), argument, stacks[argument], prettify_tokens, **lists
        )
        for argument, lists in zip(STACKS, (encoder, decoder, decoder | encoder), strict=False)
        if stacks[argument] is not None
    ]
    _require_same_heads(panels)
    return panels


def _read_panel(name, argument, attention, prettify_tokens, **tokens):
    """Return a panel from the arguments of a view: one list of tokens, or that of the queries and that of the keys."""
    levels = _read_weights(attention, argument)
    tokens = {key: read_tokens(names, key, argument) for key, names in tokens.items()}
    _require_token_count(levels.shape, tokens, argument)
    lists = list(tokens.values())
    sides = {}
    for side, names in (("left", lists[0]), ("right", lists[-1])):
        sides |= {f"{side}_words": word_numbers(names), f"{side}_special": special_indices(names)}
    shown = [prettify(names) if prettify_tokens else names for names in lists]
    return Panel(name, levels, shown[0], shown[-1], {key: value for key, value in sides.items() if value})


def choose(panel, layers, heads=None):
    """Return the panel with these layers and heads alone, given by their indices."""
    levels = panel.levels[layers]
    return replace(panel, levels=levels if heads is None else levels[:, heads])


def most_tokens(panels):
    """Return how many tokens the longest list has: so many lines of text the view is high."""
    return max(max(panel.levels.shape[2:]) for panel in panels)


def warn_if_slow(panels):
    """Warn of panels that a browser draws slowly."""
    count = most_tokens(panels)
    if count > SMOOTH_TOKENS:
        lines = max(panel.levels[0, 0].size for panel in panels)
        warnings.warn(
            f"{count} tokens make {lines:,} lines a head: the view will be slow. "
            f"Up to {SMOOTH_TOKENS} tokens it is quick, so cut the text if you can.",
            stacklevel=3,
        )


def _read_weights(attention, name):
    """Return the levels of a `Panel` from a tensor of weights, (1, heads, query, key), for each layer."""
    if isinstance(attention, torch.Tensor):
        raise TypeError(
            f"{name} is one tensor of shape {tuple(attention.shape)}; it must be a list with a tensor for each layer. "
            f"{_of_one_layer(attention)}"
        )
    if not isinstance(attention, tuple | list | None):
        raise TypeError(f"{name} is of the type {type(attention).__name__}: pass outputs.{name}s as it is.")
    if not attention or any(layer is None for layer in attention):
        raise ValueError(NO_WEIGHTS)
    if all(
        isinstance(step, tuple | list) and step and isinstance(step[0], torch.Tensor) for step in attention
    ):
        raise TypeError(
            f"{name} holds a list of layers for each of {len(attention)} steps, as generate() returns it. {ONCE_MORE}"
        )
    if not all(isinstance(layer, torch.Tensor) and not layer.is_complex() for layer in attention):
        raise TypeError(
            f"{name} must hold a tensor of PyTorch with real numbers for each layer: pass outputs.{name}s as it is."
        )
    shapes = [tuple(layer.shape) for layer in attention]
    if len(shapes[0]) != 4:
        raise ValueError(
            f"A layer of {name} has the shape {shapes[0]}; it must be (1, heads, query, key). "
            f"{_of_one_layer(attention[0])}"
        )
    if 0 in shapes[0]:
        raise ValueError(f"A layer of {name} has the shape {shapes[0]}, so there is nothing to draw.")
    if len(set(shapes)) > 1:
        other = next(shape for shape in shapes if shape != shapes[0])
        raise ValueError(f"Every layer must have the same shape, but {name} holds {shapes[0]} and {other}.")
    if shapes[0][0] != 1:
        raise ValueError(
            f"{name} holds a batch of {shapes[0][0]} texts, and a view shows one. "
            f"For the first, pass [layer[:1] for layer in {name}] and cut its padding off."
        )
    weights = np.concatenate([layer.detach().cpu().double().numpy() for layer in attention])
    # A weight of 1 may be rounded upwards: in bfloat16 to 1.008.
    slack = max([0.001, *(torch.finfo(layer.dtype).eps for layer in attention if layer.is_floating_point())])
    if not ((weights >= -slack) & (weights <= 1 + slack)).all():  # also False for NaN
        raise ValueError(
            f"{name} holds NaN or numbers outside 0 to 1, so these are not attention weights. "
            "Pass the weights after softmax."
        )
    return np.rint(weights.clip(0, 1) * 255).astype(np.uint8)


def _of_one_layer(weights):
    """Return what to do with a tensor that is not one of the layers which a model returns."""
    if weights.dim() == 4:
        return "nn.MultiheadAttention returns it like this for one layer: pass [attn_weights]."
    if weights.dim() == 3:
        return (
            "nn.MultiheadAttention returns its weights like this. The mean of its heads, in a batch: ask for every "
            "head with average_attn_weights=False, or pass [attn_weights[:, None]]. "
            "Those of every head, without a batch: pass [attn_weights[None]]."
        )
    return "Pass outputs.attentions as it is, or a matrix of nn.MultiheadAttention as [attn_weights[None, None]]."


def read_tokens(tokens, name, attention_name):
    """Return a list of texts. Raises TypeError for what is none."""
    in_order = hasattr(tokens, "__iter__") and not isinstance(tokens, str | set | frozenset)
    texts = list(tokens) if in_order else [None]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(
            f"{attention_name} needs {name}: a list of strings, one for each position. "
            "tokenizer.convert_ids_to_tokens(input_ids[0]) makes it. The patches of an image have no text: name them, "
            'for example ["[CLS]", *(f"{row},{column}" for row in range(14) for column in range(14))].'
        )
    return texts


def read_index(name, index, count, whose="model"):
    """Return an index of `count` layers, heads or tokens as an int. whose: what has so many layers and heads."""
    index = _whole(name, index)
    if not 0 <= index < count:
        what = next(what for what in ("layer", "head", "token") if what in name) + "s"
        there = "The text" if what == "tokens" else f"The {whose}"
        raise ValueError(
            f"{name}: index {index} is out of range. {there} has {count} {what}, with indices 0 to {count - 1}."
        )
    return index


def read_indices(name, indices, count):
    """Return a list of indices, each once. None means all, and a single number means a list of one."""
    if indices is None:
        return list(range(count))
    many = hasattr(indices, "__iter__") and getattr(indices, "ndim", 1)  # a tensor may hold a single number
    indices = list(indices) if many else [indices]
    if not indices:
        raise ValueError(f"{name} is empty, so there is nothing to draw. Leave it out to see all.")
    return list(dict.fromkeys(read_index(name, index, count) for index in indices))


def read_sentence_b_start(start, count):
    """Return where sentence B starts among `count` tokens."""
    start = _whole("sentence_b_start", start)
    if not 0 < start < count:
        raise ValueError(
            f"sentence_b_start is {start}, but sentence B must start between 1 and {count - 1}. "
            "Leave it out when there is no sentence B."
        )
    return start


def _whole(name, index):
    """Return an index as an int. A bool is none, nor is a tensor of several numbers."""
    try:
        is_truth = isinstance(index, bool) or getattr(index, "dtype", None) is torch.bool
        return operator.index(None if is_truth else index)
    except TypeError:
        raise TypeError(f"{name} takes whole numbers, not {index!r}. Indices are 0-based.") from None


def _require_no_other(stacks, **single):
    """Refuse the arguments of a single stack beside those of an encoder-decoder, and tokens without attention."""
    if mixed := [name for name, value in single.items() if value is not None]:
        given = [name for name, value in stacks.items() if value is not None]
        raise ValueError(
            f"{', '.join(mixed)} is for a single stack, {', '.join(given)} for an encoder-decoder. "
            "Give the arguments of one kind."
        )
    if all(value is None for name, value in stacks.items() if name.endswith("_attention")):
        raise ValueError(NO_WEIGHTS)


def _require_token_count(shape, tokens, name):
    """Refuse weights that do not fit the lists in `tokens`: one, or that of the queries and that of the keys."""
    counts = [len(names) for names in tokens.values()]
    if shape[2:] != (counts[0], counts[-1]):
        there = " and ".join(f"{len(names)} {argument}" for argument, names in tokens.items())
        do = "Take both from the same input, with its special tokens."
        if shape[2] == 1:
            do = f"One query may be one step of generate(). {ONCE_MORE}"
        raise ValueError(
            f"{name} has {shape[2]} query and {shape[3]} key positions, but there are {there}. {do}"
        )
    if max(counts) > MOST_TOKENS:
        shorter = " and ".join(f"{argument}[:{SMOOTH_TOKENS}]" for argument in tokens)
        raise ValueError(
            f"{max(counts)} tokens would freeze the browser; at most {MOST_TOKENS} are drawn. "
            f"Cut the text, or pass [layer[..., :{SMOOTH_TOKENS}, :{SMOOTH_TOKENS}] for layer in {name}] "
            f"and {shorter}."
        )


def _require_same_heads(panels):
    """Refuse panels of unequal depth: the page has one menu of layers and one row of heads for all."""
    first = panels[0]
    for panel in panels[1:]:
        if panel.levels.shape[:2] != first.levels.shape[:2]:
            sizes = [f"{p.name.lower()}_attention {p.levels.shape[:2]}" for p in (first, panel)]
            raise ValueError(
                f"(layers, heads) of {' and of '.join(sizes)} differ, but a view has one choice of them for all. "
                "For a model whose encoder and decoder are not equally deep, draw each in a view of its own."
            )


def require_grid_lines(panels):
    """Refuse more than a browser can draw: a line for every weight of every head that is included."""
    lines = max(panel.levels.size for panel in panels)
    if lines > MOST_GRID_LINES:
        layers, heads = panels[0].levels.shape[:2]
        raise ValueError(
            f"{layers} layers of {heads} heads make {lines:,} lines, which would freeze the browser; at most "
            f"{MOST_GRID_LINES:,} are drawn. Choose fewer with include_layers and include_heads, or cut the text."
        )
