"""bertviz's three views as pages that need no network, each with a static picture of the same.

bertviz (https://github.com/jessevig/bertviz, Apache 2.0) draws in its own pages; `page` says how it comes to work
offline. A page is shown in a frame, so it works wherever a notebook can show HTML. Behind the frame lies a picture,
drawn by `pictures`. It is what a reader sees where no script runs.

| | as in bertviz | more |
|---|---|---|
| arguments | names, order, 0-based indices | display_mode "auto"; no html_action: a view has `html` and `save()` |
| tokens | pair menu, encoder-decoder menu, prettify_tokens | words for pieces; [CLS] and [SEP] hidden |
| head view | places of text, boxes and lines; click, double click | numbered squares, which wrap; means |
| model view | grid, picture that opens on a click | encoder-decoder with a menu; means; Escape closes |
| neuron view | columns, colours of vectors | any model that `capture` can watch, with its masks; dimensions numbered |
| weights | opacity | digits at a token that is pointed at; a click keeps it; strength of lines |
| colours | one a head, one a layer | twelve, told apart without one kind of cones too |
| reading | mouse | keyboard, names for a screen reader, dark by itself, 500 to 1,100 pixels wide |
| drawing | SVG | lines on a canvas, within 0.002 of the weight; d3 in the page; a static picture |
"""

from . import pictures
from .capture import catch
from .neurons import pack, read_inputs, read_texts, require_page
from .page import View, make_choices, make_controls, make_page, menu, sentence_choices
from .panels import (
    choose,
    most_tokens,
    read_index,
    read_indices,
    read_panels,
    require_grid_lines,
    warn_if_slow,
)

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

    In the page, one head's lines are as opaque as their weights; with several heads, as the squares of them, so that
    the strong ones can be seen. Pointing at a token shows its weights in digits, for several heads their mean. "Words"
    adds the weights to the pieces of a word, and averages those from them. "Hide" leaves out special tokens; the other
    weights stay as they are. "mean" in the menu is over the layers of the page, the square "mean" over all heads.

    A weight is kept within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together.
    """
    stacks = encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens
    panels = read_panels(attention, tokens, sentence_b_start, prettify_tokens, *stacks)
    warn_if_slow(panels)
    num_layers, num_heads = panels[0].levels.shape[:2]
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
    stacks = encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens
    panels = read_panels(attention, tokens, sentence_b_start, prettify_tokens, *stacks)
    num_layers, num_heads = panels[0].levels.shape[:2]
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
    model,
    tokenizer=None,
    sentence_a=None,
    sentence_b=None,
    layer=None,
    head=None,
    display_mode="auto",
    token=None,
    *,
    show=None,
    inputs=None,
    tokens=None,
    encoder_tokens=None,
    decoder_tokens=None,
):
    """Draw bertviz's neuron view: how the query and key vectors of one head make its attention weights.

    model: any loaded model of transformers that asks it for an attention function (BERT, GPT-2, Llama, T5, ViT, ...),
    or one made of the course's attention (`Encoder`, `EncoderDecoder`, ...). It is run twice, and left as it was.
    tokenizer: the tokenizer of that model. sentence_a, sentence_b: one text, or a pair, which adds the A/B menu. For an
    encoder-decoder sentence_b is the target that its decoder reads; without it the encoder alone is drawn.
    layer, head: what is shown first (0-based), default 0 and 0. display_mode: as in `head_view`.
    token: index (0-based) of the query token that the static picture shows, default 1: the first after [CLS]. When it
    is given, the page too opens with this token chosen.
    show: "encoder", "decoder" or "cross", the attention of an encoder-decoder that is shown first; default "encoder".

    Where there is no tokenizer (images, ids made by hand), give inputs in place of tokenizer and texts: a dict of what
    the model takes; and tokens, the text of each position. For an encoder-decoder: encoder_tokens and decoder_tokens.
    So `neuron_view(vit, inputs={"pixel_values": pixels}, tokens=["[CLS]", *patches])`.

    The vectors are in the page as float32, as they are multiplied: positions turned in, keys repeated for the heads
    that share them. The page computes the weights from them, softmax(q·k/√d), with the model's own scale, masks and
    biases. Raises ValueError or TypeError when the arguments do not fit together, and names a model whose attention
    cannot be caught.
    """
    texts = {"tokenizer": tokenizer, "sentence_a": sentence_a, "sentence_b": sentence_b}
    made = {"tokens": tokens, "encoder_tokens": encoder_tokens, "decoder_tokens": decoder_tokens}
    if spare := [name for name, value in (made if inputs is None else texts).items() if value is not None]:
        raise ValueError(
            f"{', '.join(spare)} would not be read. Give tokenizer and sentences, or inputs and their tokens."
        )
    if inputs is None:
        model, given = read_texts(model, tokenizer, sentence_a, sentence_b)
    else:
        given = read_inputs(model, inputs, tokens, encoder_tokens, decoder_tokens)
    stacks = catch(model, given.inputs)
    if show is not None:
        first = [stack for stack in stacks if stack.name.lower() == str(show).lower()]
        if not first:
            there = ", ".join(repr(stack.name.lower()) for stack in stacks)
            raise ValueError(f"show is one of {there} here, not {show!r}.")
        stacks = first + [stack for stack in stacks if stack is not first[0]]
    require_page(stacks)
    choices = [pack(stack, *given.tokens_of(stack)) for stack in stacks]
    query_tokens, key_tokens = given.tokens_of(stacks[0])
    if given.sentence_b_start is not None:
        choices += sentence_choices(query_tokens, given.sentence_b_start)
    num_layers, num_heads = stacks[0].query.shape[:2]
    whose = "model" if len(stacks) == 1 else f"{stacks[0].name.lower()} attention, which is shown first,"
    layer = 0 if layer is None else read_index("layer", layer, num_layers, whose)
    head = 0 if head is None else read_index("head", head, num_heads, whose)
    count, rows = len(query_tokens), max(max(stack.query.shape[2], stack.key.shape[2]) for stack in stacks)
    chosen = min(1, count - 1) if token is None else read_index("token", token, count)
    data = {"attention": choices, "layer": layer, "head": head, "chosen": token}
    sizes = str(count) if len(stacks) == 1 else f"{stacks[0].name.lower()} {count} × {len(key_tokens)}"
    text = (
        f"Neuron view: {sizes} tokens, layer {layer + 1} of {num_layers} (index {layer}), "
        f"head {head + 1} of {num_heads} (index {head}), query {query_tokens[chosen]!r} (index {chosen}) in the picture"
    )
    menus = menu("layer", "Layer (index)") + menu("att_head", "Head (index)")
    return View(
        text=text,
        html=make_page("neuron", text, menus, data, display_mode),
        height=26 * rows + 160,
        draw=lambda: pictures.draw_neurons(stacks[0], layer, head, query_tokens, key_tokens, chosen),
    )


def _sizes(panels):
    """Return for the text: "20", or for an encoder-decoder "decoder 12 × 12, cross 12 × 20"."""
    if panels[0].name == "All":
        return str(len(panels[0].query_tokens))
    return ", ".join("{} {} × {}".format(p.name.lower(), *p.levels.shape[2:]) for p in panels)


def _some(indices, count, what):
    """Return for the text: "all 6 layers", or "layers of index 0, 2"."""
    if len(indices) == count:
        return f"all {count} {what}"
    return f"{what} of index {', '.join(map(str, indices))}"


def _height_of_grid(panels, total_heads):
    """Return the pixels that bertviz's model view is high: its grid, or the picture that opens on a click."""
    count = most_tokens(panels)
    return round(max(panels[0].levels.shape[0] * (count * 84 / total_heads + 10) + 38, count * 18 + 55))
