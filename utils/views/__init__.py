"""Four views of attention as pages that need no network, each with a static picture of the same.

Three are bertviz's (https://github.com/jessevig/bertviz, Apache 2.0); `text_view` is the course's own. A page is shown
in a frame, so it works wherever a notebook can show HTML. Behind the frame lies a picture, drawn by `pictures`. It is
what a reader sees where no script runs.

| | as in bertviz | more |
|---|---|---|
| arguments | names, order; html_action; `data` | display_mode "auto"; `html`, `save()`; the layers of hybrids by their indices |
| tokens | pair menu, encoder-decoder menu, prettify_tokens | words; special tokens or the first hidden; the rest rescaled |
| head view | text, boxes and lines; click, double click | numbered squares; means; the line under the pointer named |
| model view | grid, picture that opens on a click | opened beside the grid; a compact grid; means; Escape closes |
| neuron view | columns, colours of vectors | any model that `capture` can watch, with its masks; dimensions numbered |
| text view | – | 512 tokens as running text, shaded by the weights of one of them |
| weights | opacity | width; digits and bars at a token that is pointed at; a click keeps it, or `token`; strength of ink |
| colours | one a head, one a layer | twelve, told apart without one kind of cones too; faint lines beneath strong ones |
| reading | mouse | keyboard, names for a screen reader, dark by itself in colours of its own, 500 to 1,100 pixels wide |
| drawing | SVG | lines on a canvas, within 0.002 of the weight; a static picture |
"""

from functools import partial

from ..capture import HALVES, catch, missing
from . import pictures, texts
from .neurons import MOST_EXACT, ROUNDED, make_panels, pack, read_inputs, read_texts, require_page
from .options import with_options
from .page import View, make_choices, make_controls, menu, sentence_choices
from .panels import (
    choose,
    read_index,
    read_indices,
    read_panels,
    read_token,
    require_grid_lines,
    warn_if_slow,
)

__all__ = ["View", "head_view", "model_view", "neuron_view", "text_view"]


@with_options
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
    html_action=None,
    *,
    layer_indices=None,
    token=None,
):
    """Draw bertviz's head view: a line from each query token (left) to each key token (right), a colour for each head.

    attention: one tensor a layer, each (1, heads, query, key), as in `outputs.attentions`; every weight from 0 to 1.
    tokens: the text of each position, for example from `tokenizer.convert_ids_to_tokens(input_ids[0])`.
    sentence_b_start: index of the first token of sentence B; adds a menu that shows A or B alone, or A to B.
    prettify_tokens: whether marks of a tokenizer (Ġthe, ▁the, the</w>) are left out.
    layer, heads: which layer (0-based) and which heads (0-based) are shown first; default the first layer, all heads.
    include_layers: which layers (0-based) are in the page; default all.
    layer_indices: which layers of the model these are, for a hybrid, in which only some layers attend; default 0, 1, ...
    token: index (0-based) or text of a query token that the page opens with, as if it were clicked; default none.

    An encoder-decoder has other arguments in place of attention, tokens and sentence_b_start: encoder_attention, from
    encoder_tokens to themselves; decoder_attention, from decoder_tokens to themselves; cross_attention, from
    decoder_tokens (left) to encoder_tokens (right). Give one, two or all three, with equal numbers of layers and heads.
    A menu of the page chooses between them. The static picture has no menu, so it shows all of them side by side.

    In the page, one head's lines are as opaque as their weights (in the dark a little more); with several heads, as the squares of them, so that
    the strong ones can be seen. A line that is more than half opaque is wider, too. Pointing at a token shows its
    weights in digits, of one head as bars, too, of several the mean. "Words"
    adds the weights to the pieces of a word, and averages those from them. "Hide" leaves out special tokens or the
    first; the other weights stay as they are, or with "Rescale the rest" add up to 1 again. "mean" in the menu is over
    the layers of the page, the square "mean" over all heads.

    A weight is kept within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together.
    """
    stacks = encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens
    panels = read_panels(attention, tokens, sentence_b_start, prettify_tokens, layer_indices, *stacks)
    count = warn_if_slow(panels)
    there, num_heads = panels[0].layers, panels[0].levels.shape[1]
    layers = read_indices("include_layers", include_layers, there)
    layer = layers[0] if layer is None else read_index("layer", layer, there)
    if layer not in layers:
        raise ValueError(f"layer {layer} is not among include_layers: {', '.join(map(str, layers))}.")
    heads = read_indices("heads", heads, range(num_heads))
    chosen = [choose(panel, layers) for panel in panels]
    data = {"attention": make_choices(chosen), "layer": layer, "heads": heads, "include_layers": layers}
    data["token"] = None if token is None else read_token(token, panels[0].query_tokens)
    shown = f"L{layer}H{heads[0]}" if len(heads) == 1 else f"layer {layer}, {_some(heads, num_heads, 'head')}"
    text = _with_remark(f"Head view: {_sizes(panels)} tokens, {shown}", panels, data)
    menus = menu("layer", "Layer") + make_controls(panels)
    draw = partial(pictures.draw_heads, panels, layer, heads, data["token"])
    return text, menus, data, round(22.5 * count) + 150, draw


@with_options
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
    html_action=None,
    *,
    layer_indices=None,
):
    """Draw bertviz's model view: every layer and head at once, each as a small picture that opens when it is clicked.

    The arguments are those of `head_view`, but for include_layers and include_heads: the indices (0-based) of the rows
    and columns to draw; default all. The static picture of an encoder-decoder shows what its page opens with. A grid
    that is higher than a screen opens compact: there lines that would lie within two pixels are drawn as one.

    A weight is drawn within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together,
    and when there are more lines than a browser can draw.
    """
    stacks = encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens
    panels = read_panels(attention, tokens, sentence_b_start, prettify_tokens, layer_indices, *stacks)
    there, num_heads = panels[0].layers, panels[0].levels.shape[1]
    layers = read_indices("include_layers", include_layers, there)
    heads = read_indices("include_heads", include_heads, range(num_heads))
    chosen = [choose(panel, layers, heads) for panel in panels]
    require_grid_lines(chosen)
    # So many small pictures fit side by side, which sets their size.
    total = max(len(heads), min(num_heads, 6))
    longest = max(panels[0].levels.shape[2:])
    compact = pictures.is_compact(len(layers), total, longest)
    data = {"attention": make_choices(chosen), "include_layers": layers, "include_heads": heads}
    data |= {"total_heads": total, "compact": compact}
    shown = f"{_some(layers, len(there), 'layer')}, {_some(heads, num_heads, 'head')}"
    text = _with_remark(f"Model view: {_sizes(panels)} tokens, {shown}", panels, data)
    menus = make_controls(panels, ("compact", "Compact"), ("mean", "Means"))
    height = len(layers) * pictures.grid_cell(len(layers), total, longest, compact)[1]
    draw = partial(pictures.draw_grid, chosen[0], layers, heads, total)
    return text, menus, data, round(min(max(height, 18 * longest + 60), 800)) + 130, draw


@with_options
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
    include_layers=None,
    include_heads=None,
    model_type=None,
):
    """Draw bertviz's neuron view: how the query and key vectors of one head make its attention weights.

    model: any loaded model of transformers that asks it for an attention function (BERT, GPT-2, Llama, T5, ViT, ...),
    or one made of the course's attention (`Encoder`, `EncoderDecoder`, ...). It is run twice, and left as it was.
    tokenizer: the tokenizer of that model. sentence_a, sentence_b: one text, or a pair, which adds the A/B menu. For an
    encoder-decoder sentence_b is the target that its decoder reads; without it the encoder alone is drawn.
    layer, head: what is shown first (0-based), default the first of each. model_type is bertviz's, and not needed here.
    token: index (0-based) or text of the query token that the static picture shows, default 1: the first after [CLS].
    When it is given, the page too opens with this token chosen.
    show: "encoder", "decoder" or "cross", the attention of an encoder-decoder that is shown first; default the first
    that is caught. include_layers, include_heads: which (0-based) are in the page; default all.

    Where there is no tokenizer (images, ids made by hand), give inputs in place of tokenizer and texts: a dict of what
    the model takes; and tokens, the text of each position. For an encoder-decoder: encoder_tokens and decoder_tokens.
    So `neuron_view(vit, inputs={"pixel_values": pixels}, tokens=["[CLS]", *patches])`.

    The page holds the vectors as they are multiplied, positions turned in, and computes the weights from them,
    softmax(q·k/√d), with the model's own scale, masks and biases. Up to 200,000 numbers they are float32, and weights
    within 1e-5 of the model's. More are kept in 16 bits each, and weights within 0.001, as the page says then.
    "Words" joins the pieces of words as long as the view is closed: vectors belong to pieces.

    Raises ValueError or TypeError when the arguments do not fit together, and names a model whose attention cannot be
    caught.
    """
    texts = {"tokenizer": tokenizer, "sentence_a": sentence_a, "sentence_b": sentence_b}
    made = {"tokens": tokens, "encoder_tokens": encoder_tokens, "decoder_tokens": decoder_tokens}
    if spare := [name for name, value in (made if inputs is None else texts).items() if value is not None]:
        why = "would not be read. Give tokenizer and sentences, or inputs and their tokens."
        raise ValueError(f"{', '.join(spare)} {why}")
    if inputs is None:
        model, given = read_texts(model, tokenizer, sentence_a, sentence_b)
    else:
        given = read_inputs(model, inputs, tokens, encoder_tokens, decoder_tokens)
    stacks = catch(model, given.inputs)
    absent = missing(model, stacks)
    if show is not None:
        names = [stack.name.lower() for stack in stacks]
        if str(show).lower() not in names:
            why = f" The model computes {', '.join(absent)} in its own way." if absent else ""
            raise ValueError(f"show is one of {', '.join(map(repr, names))} here, not {show!r}.{why}")
        stacks.sort(key=lambda stack: stack.name.lower() != str(show).lower())
    panels = make_panels(stacks, include_layers, include_heads, given)
    exact = require_page(panels) <= MOST_EXACT
    choices = [pack(panel, exact) for panel in panels]
    first = panels[0]
    if given.sentence_b_start is not None:
        choices += sentence_choices(first.query_tokens, given.sentence_b_start)
    kind = first.stack.name.lower()
    whose = "model" if len(panels) == 1 else f"{kind} attention, which is shown first,"
    layer = first.layers[0] if layer is None else read_index("layer", layer, first.layers, whose)
    head = first.heads[0] if head is None else read_index("head", head, first.heads, whose)
    count, keys = len(first.query_tokens), len(first.key_tokens)
    chosen = min(1, count - 1) if token is None else read_token(token, first.query_tokens)
    sizes = str(count) if len(panels) == 1 else f"{kind} {count} × {keys}"
    remarks = [*first.stack.remarks]
    if absent:
        remarks.append(f"without {', '.join(absent)}, which the model computes in its own way")
    if not exact:
        remarks.append(ROUNDED)
    shown = f"L{layer}H{head}, query {first.query_tokens[chosen]!r} in the picture"
    text = "; ".join([f"Neuron view: {sizes} tokens, {shown}", *remarks])
    decimals = 2 if first.stack.dtype in HALVES else 3
    data = {"attention": choices, "layer": layer, "head": head, "chosen": token, "decimals": decimals}
    data["remark"] = "; ".join(remarks)
    rows = max(max(len(panel.query_tokens), len(panel.key_tokens)) for panel in panels)
    menus = menu("layer", "Layer") + menu("att_head", "Head") + make_controls(panels)
    draw = partial(pictures.draw_neurons, first, layer, head, chosen, decimals)
    return text, menus, data, 26 * rows + 160, draw


@with_options
def text_view(
    attention,
    tokens=None,
    prompt_length=None,
    prettify_tokens=True,
    layer=None,
    head=None,
    token=None,
    include_layers=None,
    include_heads=None,
    html_action=None,
    *,
    logits=None,
    probabilities=None,
    input_ids=None,
    vocabulary=None,
    layer_indices=None,
):
    """Draw a text as it is read: of a token that is pointed at, the tokens that it attends to are shaded by its weights.

    attention, tokens, prettify_tokens, include_layers, include_heads, layer_indices: as in `model_view`; up to 512
    tokens. Blue is what a token attends to, orange who attends to it.
    prompt_length: how many tokens were given to the model; a mark stands where it began to write.
    layer, head: what is shown first (0-based), default the first layer and the mean of its heads. token: index or
    text of the one that is kept at first, default the last; the static picture shows its weights.
    logits or probabilities: what the model said of each next token, (tokens, vocabulary), with input_ids, the ids of
    the tokens, and vocabulary, the tokenizer or the text of each id. Then a token is underlined the redder the more it
    surprised the model, and of a chosen one the view names the five tokens that the model held likeliest to follow.

    Up to 128 tokens every weight is in the page, else for each query those to its strongest keys, 16 to 64 of them;
    the view says which share of all weight they hold, and shows the rest as "elsewhere". A weight is kept within
    0.002. "Logarithmic" shows small weights too. Raises ValueError or TypeError when arguments do not fit together.
    """
    given = attention, tokens, None, prettify_tokens, layer_indices, *[None] * 5
    (panel,) = read_panels(*given, most=texts.MOST_TOKENS)
    tokens, there, count = list(tokens), panel.layers, len(panel.query_tokens)
    layers = read_indices("include_layers", include_layers, there)
    heads = read_indices("include_heads", include_heads, range(panel.levels.shape[1]))
    panel = choose(panel, layers, heads)
    layer = layers.index(layers[0] if layer is None else read_index("layer", layer, layers))
    if head is not None or len(heads) == 1:
        head = heads.index(heads[0] if head is None else read_index("head", head, heads))
    token = count - 1 if token is None else read_token(token, panel.query_tokens)
    if prompt_length is not None:
        prompt_length = read_index("prompt_length, a number of tokens", prompt_length, range(1, count))
    surprise, nexts = texts.read_prediction(logits, probabilities, input_ids, vocabulary, tokens)
    packed, share = texts.pack_text(panel, tokens)
    written = packed["text"]
    data = {"attention": [packed], "include_layers": layers, "include_heads": heads, "layer": layer}
    data |= {"head": "mean" if head is None else head, "token": token, "prompt_length": prompt_length}
    data |= {"surprise": surprise, "nexts": nexts}
    where = f"layer {layers[layer]}, mean of all heads" if head is None else f"L{layers[layer]}H{heads[head]}"
    text = f"Text view: {count} tokens, {where}, query {panel.query_tokens[token]!r} in the picture"
    text = _with_remark(text, [panel], data)
    if share < 1:
        whole = f"of each query the page holds the {packed['kept']} strongest of up to {count} keys, "
        whole += f"on average {share:.2f} of its weight; the rest is called elsewhere"
        data["remark"] = "; ".join([*filter(None, [panel.remark]), whole])
    ways = {"from": "what it attends to", "to": "who attends to it", "both": "both"}
    menus = menu("layer", "Layer") + menu("head", "Head") + menu("way", "Shows", ways)
    menus += make_controls([panel], ("log", "Logarithmic"))
    draw = partial(pictures.draw_text, panel, written, layer, head, token, where, prompt_length, surprise)
    return text, menus, data, round(34 * sum(map(len, written)) / 110) + 220, draw


def _with_remark(text, panels, data):
    """Return the text with what a reader has to know of the panels, which goes into the data of the page too."""
    remarks = [panel.remark for panel in panels if panel.remark][:1]
    if remarks:
        data["remark"] = remarks[0]
    return "; ".join([text, *remarks])


def _sizes(panels):
    """Return for the text: "20", or for an encoder-decoder "decoder 12 × 12, cross 12 × 20"."""
    if panels[0].name == "All":
        return str(len(panels[0].query_tokens))
    return ", ".join("{} {} × {}".format(p.name.lower(), *p.levels.shape[2:]) for p in panels)


def _some(indices, count, what):
    """Return for the text: "all 6 layers", "layer 2" or "layers 0, 2"."""
    if len(indices) == count:
        return f"all {count} {what}s" if count > 1 else f"{what} {indices[0]}"
    return f"{what}{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}"
