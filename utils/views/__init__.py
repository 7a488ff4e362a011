"""bertviz's three views as pages that need no network, each with a static picture of the same.

bertviz (https://github.com/jessevig/bertviz, Apache 2.0) draws what it draws in its own pages; `page` says how it comes
to work offline. A page is shown in a frame, so it works wherever a notebook can show HTML. Behind the frame lies a PNG,
drawn by `pictures`. It is what a reader sees where no script runs.
"""

from . import pictures
from .page import View, floats, make_choices, make_controls, make_page, menu, sentence_choices
from .panels import (
    choose,
    most_tokens,
    read_index,
    read_indices,
    read_panels,
    read_tokens,
    require_grid_lines,
    warn_if_slow,
)
from .vectors import catch_vectors, tokenize

__all__ = ["View", "head_view", "model_view", "neuron_view"]


def head_view(
    attention=None,
    tokens=None,
    sentence_b_start=None,
    prettify_tokens=True,
    layer=None,
    heads=None,
    encoder_attention=None,
    decoder_attention=None,
    cross_attention=None,
    encoder_tokens=None,
    decoder_tokens=None,
    include_layers=None,
    *,
    display_mode="auto",
):
    """Draw bertviz's head view: a line from each query token (left) to each key token (right), a colour for each head.

    attention: one tensor a layer, each (1, heads, query, key), as in `outputs.attentions`; every weight from 0 to 1.
    tokens: the text of each position, for example from `tokenizer.convert_ids_to_tokens(input_ids[0])`.
    sentence_b_start: index of the first token of sentence B; adds a menu that shows A or B alone, or A to B.
    prettify_tokens: whether marks of a tokenizer (Ġthe, ▁the, the</w>) are left out.
    layer, heads: which layer (0-based) and which heads (0-based) are shown first; default the first layer, all heads.
    include_layers: which layers (0-based) are in the page; default all.
    display_mode: the ground of the page, "light", "dark" or "auto": dark where the notebook says by its CSS that it is
        (`color-scheme`, as JupyterLab does), else light; a saved page goes by the setting of the browser. The static
        picture is always light.

    An encoder-decoder has other arguments in place of attention, tokens and sentence_b_start: encoder_attention, from
    encoder_tokens to themselves; decoder_attention, from decoder_tokens to themselves; cross_attention, from
    decoder_tokens (left) to encoder_tokens (right). Give one, two or all three, with equal numbers of layers and heads.
    A menu of the page chooses between them. The static picture has no menu, so it shows all of them side by side.

    A weight is drawn within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together.
    """
    panels = read_panels(
        attention,
        tokens,
        sentence_b_start,
        prettify_tokens,
        encoder_attention=encoder_attention,
        decoder_attention=decoder_attention,
        cross_attention=cross_attention,
        encoder_tokens=encoder_tokens,
        decoder_tokens=decoder_tokens,
    )
    warn_if_slow(panels)
    num_layers, num_heads = panels[0].weights.shape[:2]
    layers = read_indices("include_layers", include_layers, num_layers)
    layer = layers[0] if layer is None else read_index("layer", layer, num_layers)
    if layer not in layers:
        raise ValueError(f"layer {layer} is not among include_layers: {', '.join(map(str, layers))}.")
    heads = read_indices("heads", heads, num_heads)
    choices = make_choices([choose(panel, layers) for panel in panels], sentence_b_start)
    data = {"attention": choices, "layer": layer, "heads": heads, "include_layers": layers}
    text = f"Head view: {_sizes(panels)} tokens, layer {layer + 1} of {num_layers} (index {layer}), "
    text += _some(heads, num_heads, "heads")
    menus = menu("layer", "Layer (index)")
    return View(
        text=text,
        html=make_page("head", text, menus, data, display_mode, make_controls(panels, mean=False)),
        height=round(22.5 * most_tokens(panels)) + 170,
        draw=lambda: pictures.draw_heads(panels, layer, heads),
    )


def model_view(
    attention=None,
    tokens=None,
    sentence_b_start=None,
    prettify_tokens=True,
    display_mode="auto",
    encoder_attention=None,
    decoder_attention=None,
    cross_attention=None,
    encoder_tokens=None,
    decoder_tokens=None,
    include_layers=None,
    include_heads=None,
):
    """Draw bertviz's model view: every layer and head at once, each as a small picture that opens when it is clicked.

    The arguments are those of `head_view`, but for include_layers and include_heads: the indices (0-based) of the rows
    and columns to draw; default all. The static picture of an encoder-decoder shows what its page opens with.

    A weight is drawn within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together,
    and when there are more lines than a browser can draw.
    """
    panels = read_panels(
        attention,
        tokens,
        sentence_b_start,
        prettify_tokens,
        encoder_attention=encoder_attention,
        decoder_attention=decoder_attention,
        cross_attention=cross_attention,
        encoder_tokens=encoder_tokens,
        decoder_tokens=decoder_tokens,
    )
    num_layers, num_heads = panels[0].weights.shape[:2]
    layers = read_indices("include_layers", include_layers, num_layers)
    heads = read_indices("include_heads", include_heads, num_heads)
    panels = [choose(panel, layers, heads) for panel in panels]
    require_grid_lines(panels)
    # So many small pictures fit side by side, which sets their size.
    total = max(len(heads), min(num_heads, 6))
    data = {
        "attention": make_choices(panels, sentence_b_start),
        "include_layers": layers,
        "include_heads": heads,
        "total_heads": total,
    }
    shown = f"{_some(layers, num_layers, 'layers')}, {_some(heads, num_heads, 'heads')}"
    text = f"Model view: {_sizes(panels)} tokens, {shown}"
    return View(
        text=text,
        html=make_page("model", text, "", data, display_mode, make_controls(panels, mean=True)),
        height=_height_of_grid(panels, total) + 90,
        draw=lambda: pictures.draw_grid(panels[0], layers, heads, total),
    )


def neuron_view(
    model, tokenizer, sentence_a, sentence_b=None, layer=None, head=None, display_mode="auto", token=None
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


def _height_of_grid(panels, total_heads):
    """Return the pixels that bertviz's model view is high: its grid, or the picture that opens on a click."""
    count = most_tokens(panels)
    return round(max(panels[0].weights.shape[0] * (count * 84 / total_heads + 10) + 38, count * 18 + 55))
