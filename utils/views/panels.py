"""What a view draws, read from its arguments: panels of weights with their tokens, and indices. Misfits are refused."""

import operator
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ..capture import HALVES
from .ink import FAINTEST
from .tokens import prettify, sides_of

SMOOTH_TOKENS = 128  # a browser draws tokens² lines per head; up to here it stays quick
MOST_TOKENS = 256  # beyond this a browser tab may freeze, and unsaved work with it
MOST_GRID_LINES = 1_500_000  # of the model view, which draws every head at once
LEVELS = 4095  # a weight is kept as its square root in so many steps: within 0.0003, finer where it is small
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
    levels: np.ndarray  # (layers, heads, query, key): square roots of weights, in steps of 1/4095
    layers: list[int]  # which layers of the model these are
    query_tokens: list[str]  # as they are shown
    key_tokens: list[str]
    sides: dict = field(default_factory=dict)  # which tokens make a word and which are special, for the page
    sentence_b_start: int | None = None
    remark: str = ""  # what a reader has to know of these weights

    @property
    def weights(self):
        return (self.levels / np.float32(LEVELS)) ** 2


def read_panels(attention, tokens, sentence_b_start, prettify_tokens, indices, *stacks, most=MOST_TOKENS):
    """Return the panels of a view: one, or for an encoder-decoder one for each kind of attention among its `stacks`."""
    stacks = dict(zip(STACKS, stacks, strict=True))
    given = prettify_tokens, indices, most
    if all(value is None for value in stacks.values()):
        panel = _read_panel("All", "attention", attention, *given, tokens=tokens)
        if sentence_b_start is not None:
            panel.sentence_b_start = start = _whole("sentence_b_start", sentence_b_start)
            count = len(panel.query_tokens)
            if not 0 < start < count:
                raise ValueError(
                    f"sentence_b_start is {start}, but sentence B must start between 1 and {count - 1}. "
                    "Leave it out when there is no sentence B."
                )
        return [panel]
    _require_no_other(stacks, attention=attention, tokens=tokens, sentence_b_start=sentence_b_start)
    encoder, decoder = ({name: stacks[name]} for name in STACKS[3:])
    panels = [
        _read_panel(argument.partition("_")[0].capitalize(), argument, stacks[argument], *given, **lists)
        for argument, lists in zip(STACKS, (encoder, decoder, decoder | encoder), strict=False)
        if stacks[argument] is not None
    ]
    _require_same_heads(panels)
    return panels


def _read_panel(name, argument, attention, prettify_tokens, layer_indices, most, **tokens):
    """Return a panel from the arguments of a view: one list of tokens, or that of the queries and that of the keys."""
    attention, layers = _read_layers(attention, argument, layer_indices)
    levels = _read_weights(attention, argument)
    tokens = {key: read_tokens(names, key, argument) for key, names in tokens.items()}
    _require_token_count(levels.shape, tokens, argument, most)
    lists = list(tokens.values())
    shown = [prettify(names) if prettify_tokens else names for names in lists]
    panel = Panel(name, levels, layers, shown[0], shown[-1], sides_of(lists[0], lists[-1]))
    if attention[0].dtype in HALVES:
        kind = str(attention[0].dtype).removeprefix("torch.")
        panel.remark = f"the model computes in {kind}, so its weights are exact to two decimals at most"
    return panel


def choose(panel, layers, heads=None):
    """Return the panel with these layers and heads alone, given by their indices."""
    levels = panel.levels
    if layers != panel.layers:
        levels = levels[[panel.layers.index(layer) for layer in layers]]
    if heads is not None and heads != list(range(levels.shape[1])):
        levels = levels[:, heads]
    return replace(panel, levels=levels, layers=layers)


def most_tokens(panels):
    """Return how many tokens the longest list has: so many lines of text the view is high."""
    return max(max(panel.levels.shape[2:]) for panel in panels)


def warn_if_slow(panels):
    """Warn of panels that a browser draws slowly, and return how many tokens the longest list has."""
    count = most_tokens(panels)
    if count > SMOOTH_TOKENS:
        lines = max(panel.levels[0, 0].size for panel in panels)
        warnings.warn(
            f"{count} tokens make {lines:,} lines a head: the view will be slow. "
            f"Up to {SMOOTH_TOKENS} tokens it is quick, so cut the text if you can.",
            stacklevel=4,
        )
    return count


def _read_layers(attention, name, layer_indices):
    """Return the layers that hold weights, and which of the model's they are.

    A model whose other layers do not attend returns None for them, or leaves them out: then only its user knows.
    """
    if not isinstance(attention, tuple | list) or not any(layer is not None for layer in attention):
        return attention, []
    layers = [index for index, layer in enumerate(attention) if layer is not None]
    attention = [attention[index] for index in layers]
    if layer_indices is None:
        return attention, layers
    layers = [_whole("layer_indices", index) for index in layer_indices]
    if len(layers) != len(attention) or layers != sorted(set(layers)) or layers[0] < 0:
        raise ValueError(
            f"layer_indices is {layers}, but {name} holds {len(attention)} layers. "
            "Give the index of each in the model, counted from 0, in ascending order."
        )
    return attention, layers


def _read_weights(attention, name):
    """Return the levels of a `Panel` from a tensor of weights, (1, heads, query, key), for each layer."""
    if isinstance(attention, torch.Tensor):
        raise TypeError(
            f"{name} is one tensor of shape {tuple(attention.shape)}; it must be a list with a tensor for each layer. "
            f"{_of_one_layer(attention)}"
        )
    if not isinstance(attention, tuple | list | None):
        raise TypeError(f"{name} is of the type {type(attention).__name__}: pass outputs.{name}s as it is.")
    if not attention or attention[0] is None:
        raise ValueError(NO_WEIGHTS)
    steps = [step[0] for step in attention if isinstance(step, tuple | list) and step]
    if len(steps) == len(attention) and all(isinstance(one, torch.Tensor) for one in steps):
        why = f"a list of layers for each of {len(attention)} steps, as generate() returns it. {ONCE_MORE}"
        raise TypeError(f"{name} holds {why}")
    if not all(isinstance(layer, torch.Tensor) and not layer.is_complex() for layer in attention):
        why = f"a tensor of PyTorch with real numbers for each layer: pass outputs.{name}s as it is."
        raise TypeError(f"{name} must hold {why}")
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
    # A weight of 1 may be rounded upwards: in bfloat16 to 1.008.
    slack = max([0.001, *(torch.finfo(layer.dtype).eps for layer in attention if layer.is_floating_point())])
    levels = np.empty((len(attention), *shapes[0][1:]), np.uint16)
    for layer, into in zip(attention, levels, strict=True):
        weights = layer[0].detach().cpu().float().numpy()
        if not (weights.min() >= -slack and weights.max() <= 1 + slack):  # also False for NaN
            raise ValueError(
                f"{name} holds NaN or numbers outside 0 to 1, so these are not attention weights. "
                "Pass the weights after softmax."
            )
        roots = weights.clip(0, 1)  # rounded by adding a half, in a third of the time of rint
        into[:] = np.add(np.multiply(np.sqrt(roots, out=roots), LEVELS, out=roots), 0.5, out=roots)
    if _is_by_offset(levels):
        raise ValueError(
            f"{name} holds a weight for each distance, not for each key, as Longformer returns it: "
            "its first rows begin with zeros and its last rows end with them. A view would draw the wrong lines."
        )
    return levels


def _is_by_offset(levels):
    """Whether column j of row i stands for key i + j - (n - 1) / 2: zero exactly where there is no such key."""
    n = levels.shape[-1]
    if levels.shape[-2] != n or n % 2 == 0 or n < 5:
        return False
    row, column = np.indices((n, n))
    key = row + column - n // 2
    return bool(((levels > 0) == ((key >= 0) & (key < n))).all())


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


def read_index(name, index, there, whose="model"):
    """Return an index of layers, heads or tokens as an int. there: which there are; whose: what has them."""
    index = _whole(name, index)
    if index not in there:
        what = next(what for what in ("layer", "head", "token") if what in name) + "s"
        owner = "The text" if what == "tokens" else f"The {whose}"
        has = f"{owner} has {len(there)} {what}, with indices 0 to {len(there) - 1}."
        if list(there) != list(range(len(there))):
            has = f"Here it is one of {', '.join(map(str, there))}."
        raise ValueError(f"{name}: index {index} is out of range. {has}")
    return index


def read_token(token, tokens):
    """Return the index of a token that is given by its index or by its text, of which the first place counts."""
    if not isinstance(token, str):
        return read_index("token", token, range(len(tokens)))
    if token not in tokens:
        raise ValueError(
            f"token: {token!r} is none of the {len(tokens)} tokens. Give one of them, or its index."
        )
    return tokens.index(token)


def read_indices(name, indices, there):
    """Return a list of indices, each once. None means all, and a single number means a list of one."""
    if indices is None:
        return list(there)
    many = hasattr(indices, "__iter__") and getattr(indices, "ndim", 1)  # a tensor may hold a single number
    indices = list(indices) if many else [indices]
    if not indices:
        raise ValueError(f"{name} is empty, so there is nothing to draw. Leave it out to see all.")
    return list(dict.fromkeys(read_index(name, index, there) for index in indices))


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


def _require_token_count(shape, tokens, name, most):
    """Refuse weights that do not fit the lists in `tokens`: one, or that of the queries and that of the keys."""
    counts = [len(names) for names in tokens.values()]
    if shape[2:] != (counts[0], counts[-1]):
        there = " and ".join(f"{len(names)} {argument}" for argument, names in tokens.items())
        do = "Take both from the same input, with its special tokens."
        if shape[2] == 1:
            do = f"One query may be one step of generate(). {ONCE_MORE}"
        sizes = f"{shape[2]} query and {shape[3]} key positions"
        raise ValueError(f"{name} has {sizes}, but there are {there}. {do}")
    if max(counts) > most:
        more = "" if most > MOST_TOKENS else ", and up to 512 by text_view"
        shorter = " and ".join(f"{argument}[:{SMOOTH_TOKENS}]" for argument in tokens)
        raise ValueError(
            f"{max(counts)} tokens would freeze the browser; at most {most} are drawn{more}. "
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
    """Refuse more lines than a browser can draw. Only weights that are seen have one."""
    seen = [panel.levels >= LEVELS * FAINTEST**0.5 for panel in panels]
    lines = max(int(each.sum()) for each in seen)
    if lines > MOST_GRID_LINES:
        layers, heads = panels[0].levels.shape[:2]
        # How many lines there are among the first tokens, for each number of them.
        most = most_tokens(panels)
        for each in seen:
            counts = np.bincount(np.maximum(*each.nonzero()[2:]), minlength=1).cumsum()
            most = min(most, int((counts <= MOST_GRID_LINES).sum()))
        raise ValueError(
            f"{layers} layers of {heads} heads draw {lines:,} lines here, which would freeze the browser; at most "
            f"{MOST_GRID_LINES:,} are drawn: the first {most} tokens fit. Cut the text, or choose fewer with "
            "include_layers and include_heads."
        )
