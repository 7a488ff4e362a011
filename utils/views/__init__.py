"""bertviz's three views as pages that need no network, each with a static picture of the same.

bertviz (https://github.com/jessevig/bertviz, Apache 2.0) draws what it draws in its own pages; `page` says how it comes
to work offline. A page is shown in a frame, so it works wherever a notebook can show HTML. Behind the frame lies a PNG,
drawn by `pictures`. It is what a reader sees where no script runs.
"""

from . import pictures
from .page import View, floats, make_choices, make_page, menu, sentence_choices
from .panels import (
    Panel,
    encoder_decoder_panels,
    most_tokens,
    read_index,
    read_indices,
    read_panel,
    read_tokens,
    require_grid_lines,
    require_no_other,
    warn_if_slow,
)
from .vectors import catch_vectors, tokenize

__all__ = ["View", "head_view", "model_view", "neuron_view"]


def head_view(
    attention=None,
    tokens=None,
    sentence_b_start=None,
    layer=None,
    heads=None,
    *,
    encoder_attention=None,
    decoder_attention=None,
    cross_attention=None,
    encoder_tokens=None,
    decoder_tokens=None,
    display_mode="light",
):
    """Draw bertviz's head view: a line from each query token (left) to each key token (right), a colour for each head.

    attention: one tensor a layer, each (1, heads, query, key), as in `outputs.attentions`; every weight from 0 to 1.
    tokens: the text of each position, for example from `tokenizer.convert_ids_to_tokens(input_ids[0])`.
    sentence_b_start: index of the first token of sentence B; adds a menu that shows A or B alone, or A to B.
    layer, heads: which layer (0-based) and which heads (0-based) are shown first; default layer 0 and all heads.
    display_mode: "light" or "dark", the ground of the page. The static picture is always light.

    An encoder-decoder has other arguments in place of attention, tokens and sentence_b_start: encoder_attention, from
    encoder_tokens to themselves; decoder_attention, from decoder_tokens to themselves; cross_attention, from
    decoder_tokens (left) to encoder_tokens (right). Give one, two or all three, with equal numbers of layers and heads.
    A menu of the page chooses between them. The static picture has no menu, so it shows all of them side by side.

    A weight is drawn within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together.
    """
    stacks = {
        "encoder_attention": encoder_attention,
        "decoder_attention": decoder_attention,
        "cross_attention": cross_attention,
        "encoder_tokens": encoder_tokens,
        "decoder_tokens": decoder_tokens,
    }
    if all(value is None for value in stacks.values()):
        panels = [read_panel("All", "attention", attention, tokens=tokens)]
    else:
        require_no_other(stacks, attention=attention, tokens=tokens, sentence_b_start=sentence_b_start)
        panels = encoder_decoder_panels(**stacks)
    warn_if_slow(panels)
    num_layers, num_heads = panels[0].weights.shape[:2]
    layer = 0 if layer is None else read_index("layer", layer, num_layers)
    heads = read_indices("heads", heads, num_heads)
    choices = make_choices(panels, sentence_b_start)
    layers = list(range(num_layers))
    data = {"attention": choices, "layer": layer, "heads": heads, "include_layers": layers}
    text = f"Head view: {_sizes(panels)} tokens, layer {layer + 1} of {num_layers} (index {layer}), "
    text += _some(heads, num_heads, "heads")
    return View(
        text=text,
        html=make_page("head", text, menu("layer", "Layer (index)"), data, display_mode),
        height=round(22.5 * most_tokens(panels)) + 90,
        draw=lambda: pictures.draw_heads(panels, layer, heads),
    )


def model_view(
    attention, tokens, sentence_b_start=None, include_layers=None, include_heads=None, display_mode="light"
):
    """Draw bertviz's model view: every layer and head at once, each as a small picture that opens when it is clicked.

    attention, tokens, sentence_b_start, display_mode: as in `head_view`.
    include_layers, include_heads: the indices (0-based) of the rows and columns to draw; default all.

    A weight is drawn within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together,
    and when there are more lines than a browser can draw.
    """
    panel = read_panel("All", "attention", attention, tokens=tokens)
    num_layers, num_heads = panel.weights.shape[:2]
    layers = read_indices("include_layers", include_layers, num_layers)
    heads = read_indices("include_heads", include_heads, num_heads)
    panel = Panel("All", panel.weights[layers][:, heads], panel.query_tokens, panel.key_tokens)
    require_grid_lines(panel)
    # So many small pictures fit side by side, which sets their size.
    total = max(len(heads), min(num_heads, 6))
    data = {
        "attention": make_choices([panel], sentence_b_start),
        "include_layers": layers,
        "include_heads": heads,
        "total_heads": total,
    }
    shown = f"{_some(layers, num_layers, 'layers')}, {_some(heads, num_heads, 'heads')}"
    text = f"Model view: {len(panel.query_tokens)} tokens, {shown}"
    return View(
        text=text,
        html=make_page("model", text, "", data, display_mode),
        height=_height_of_grid(panel, total) + 60,
        width=986,
        draw=lambda: pictures.draw_grid(panel, layers, heads, total),
    )


def neuron_view(
    model, tokenizer, sentence_a, sentence_b=None, layer=None, head=None, display_mode="light", token=None
):
    """Draw bertviz's neuron view: how the query and key vectors of one head make its attention weights.

    model: a `BertModel` of transformers that is already loaded, or the course's `Encoder`: any model whose attention
    layers hold linear layers named `query` and `key`. It is run once, in evaluation mode; no weight is copied.
    tokenizer: the tokenizer of that model. sentence_a, sentence_b: one text, or a pair, which adds the A/B menu.
    layer, head: what is shown first (0-based), default 0 and 0. display_mode: as in `head_view`.
    token: index (0-based) of the query token that the static picture shows, default the first after [CLS]. When it is
    given, the page too opens with this token chosen.

    The vectors are in the page as float32, and the page computes the weights from them: softmax(q·k/√d). Raises
    ValueError or TypeError when the arguments do not fit together, and when the model's weights are not made this way.
    """
    inputs = tokenize(model, tokenizer, sentence_a, sentence_b)
    ids = inputs["input_ids"][0].tolist()
    tokens = read_tokens(tokenizer.convert_ids_to_tokens(ids), "tokens", "neuron_view")
    query, key = catch_vectors(model, inputs)  # each (layers, heads, tokens, head_dim)
    num_layers, num_heads = query.shape[:2]
    layer = 0 if layer is None else read_index("layer", layer, num_layers)
    head = 0 if head is None else read_index("head", head, num_heads)
    chosen = min(1, len(tokens) - 1) if token is None else read_index("token", token, len(tokens))
    names = {"name": "All", "left_text": tokens, "right_text": tokens}
    choices = [names | {"shape": list(query.shape), "queries": floats(query), "keys": floats(key)}]
    if sentence_b is not None:
        choices += sentence_choices(tokens, inputs["token_type_ids"][0].tolist().index(1))
    data = {"attention": choices, "layer": layer, "head": head, "bidirectional": True, "chosen": token}
    text = (
        f"Neuron view: {len(tokens)} tokens, layer {layer + 1} of {num_layers} (index {layer}), "
        f"head {head + 1} of {num_heads} (index {head}), query {tokens[chosen]!r} (index {chosen}) in the picture"
    )
    menus = menu("layer", "Layer (index)") + menu("att_head", "Head (index)")
    return View(
        text=text,
        html=make_page("neuron", text, menus, data, display_mode),
        height=26 * len(tokens) + 160,
        width=1046,
        draw=lambda: pictures.draw_neurons(query[layer, head], key[layer, head], tokens, chosen),
    )


def _sizes(panels):
    """Return for the text: "20", or for an encoder-decoder "decoder 12 × 12, cross 12 × 20"."""
    if panels[0].name == "All":
        return str(len(panels[0].query_tokens))
    return ", ".join("{} {} × {}".format(p.name.lower(), *p.weights.shape[2:]) for p in panels)


def _some(indices, count, what):
    """Return for the text: "all 6 layers", or "layers of index 0, 2"."""
    if len(indices) == count:
        return f"all {count} {what}"
    return f"{what} of index {', '.join(map(str, indices))}"


def _height_of_grid(panel, total_heads):
    """Return the pixels that bertviz's model view is high: its grid, or the picture that opens on a click."""
    count = most_tokens([panel])
    return round(max(panel.weights.shape[0] * (count * 84 / total_heads + 10) + 38, count * 18 + 55))
