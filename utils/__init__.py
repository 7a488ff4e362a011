"""The helper package of the course. Each module is a room; CONTRIBUTING.md holds the map.

A room is loaded when one of its names is first asked for, so `import utils` costs nothing.
"""

from importlib import import_module

_ROOM_OF = {
    "prepare": "setup",
    "checkpoint": "models",
    "CheckpointError": "models",
    "attention_scores": "attention",
    "masked_softmax": "attention",
    "scaled_dot_product_attention": "attention",
    "causal_mask": "attention",
    "padding_mask": "attention",
    "convert_mask": "attention",
    "AttentionHead": "attention",
    "split_heads": "attention",
    "merge_heads": "attention",
    "split_mask": "attention",
    "weights_of_list": "attention",
    "weights_of_torch": "attention",
    "weights_of_bert": "attention",
    "MultiHeadAttention": "attention",
    "MultiHeadAttentionList": "attention",
    "FeedForward": "encoder",
    "EncoderLayer": "encoder",
    "Embeddings": "encoder",
    "Encoder": "encoder",
    "SequenceClassifier": "encoder",
    "compare_with_bert": "encoder",
    "layer_norm": "encoder",
    "sinusoidal_positions": "encoder",
    "rotate": "encoder",
    "use_fused_attention": "encoder",
    "DecoderLayer": "decoder",
    "Decoder": "decoder",
    "EncoderDecoder": "decoder",
    "make_dates": "decoder",
    "train": "decoder",
    "greedy_decode": "decoder",
    "translate": "decoder",
    "exact_match": "decoder",
    "View": "views",
    "head_view": "views",
    "model_view": "views",
    "neuron_view": "views",
    "attention_table": "plots",
    "plot_attention": "plots",
    "plot_style": "plots",
    "live": "plots",
}
__all__ = list(_ROOM_OF)


def __getattr__(name):
    if name not in _ROOM_OF:
        raise AttributeError(f"utils has no public name {name!r}")
    return getattr(import_module(f".{_ROOM_OF[name]}", __name__), name)


def __dir__():
    return __all__
