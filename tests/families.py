"""Tiny models of many families of transformers, with random weights, and what each takes."""

import torch
import transformers
from view_samples import names

SOURCE, TARGET = torch.arange(5, 12)[None], torch.arange(9, 13)[None]  # ids: seven positions, and four
PIXELS = torch.linspace(-1, 1, 3 * 16 * 16).reshape(1, 3, 16, 16)
TEXT = ({"input_ids": SOURCE, "attention_mask": torch.ones_like(SOURCE)}, {"tokens": names(7)})
IMAGE = ({"pixel_values": PIXELS}, {"tokens": ["[CLS]", *names(4, "patch")]})
PICTURED = {"input_ids": SOURCE, "pixel_values": PIXELS}
DISTILLED = ({"pixel_values": PIXELS}, {"tokens": ["[CLS]", "[DIST]", *names(4, "patch")]})
BOTH_TOKENS = {"encoder_tokens": names(7, "in"), "decoder_tokens": names(4, "out")}
BOTH = ({"input_ids": SOURCE, "decoder_input_ids": TARGET}, BOTH_TOKENS)
SPEECH = ({"input_features": PIXELS[0, :1].reshape(1, 8, 32)[..., :28], "decoder_input_ids": TARGET},)
SPEECH += ({"encoder_tokens": names(14, "frame"), "decoder_tokens": names(4, "out")},)

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
WORDS = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = SIZES | WORDS
GROUPED = BERT | {"num_key_value_heads": 2}  # two query heads share a key head
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4} | WORDS
# An encoder of two layers, a decoder of three.
UNEQUAL = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "max_position_embeddings": 64} | WORDS
UNEQUAL |= {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
UNEQUAL |= {f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4} | WORDS
FRAMES = {"max_source_positions": 14, "max_target_positions": 14, "num_mel_bins": 8}
VIT = SIZES | {"image_size": 16, "patch_size": 8}
MODERN = {"local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2}
WINDOW = GROUPED | {"head_dim": 8, "sliding_window": 4}
MIMO = {"layer_types": ["full_attention", "sliding_attention"], "v_head_dim": 8, "moe_intermediate_size": 16}
MIMO |= {"n_routed_experts": 2, "num_experts_per_tok": 1}
GEMMA4 = {"num_hidden_layers": 6, "vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 8}
SWIN = {"image_size": 16, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2]}

# What is peculiar to a family: "bias", "causal", "cross", "grouped", "rotary", ...; only the comments say it.
CAUGHT = {
    **dict.fromkeys(("Bert", "Roberta", "XLMRoberta", "Electra"), (BERT, TEXT)),
    "BertDecoder": (BERT | {"is_decoder": True}, TEXT),
    "Albert": (BERT | {"embedding_size": 16}, TEXT),  # one layer, used again
    "DistilBert": ({"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48} | WORDS, TEXT),
    "Esm": (BERT | {"position_embedding_type": "rotary", "mask_token_id": 3}, TEXT),
    "ModernBert": (BERT | MODERN, TEXT),  # a window in one layer of two, rotary
    "GPT2": (GPT | {"scale_attn_by_inverse_layer_idx": True}, TEXT),  # causal, a scale for each layer
    "OPT": (BERT | {"ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64}, TEXT),
    "GPTNeoX": (BERT, TEXT),  # rotary in a part of the dimensions
    **dict.fromkeys(("Llama", "Qwen2", "Phi3"), (GROUPED, TEXT)),
    "Mistral": (GROUPED | {"sliding_window": 3}, TEXT),
    "Qwen3": (GROUPED | {"head_dim": 16}, TEXT),
    "Gemma2": (WINDOW | {"attn_logit_softcapping": 1.0}, TEXT),
    "Gemma3Text": (WINDOW, TEXT),
    "Granite": (GROUPED, TEXT),  # a scale of its own
    "GptOss": (WINDOW | {"num_local_experts": 2, "num_experts_per_tok": 1}, TEXT),  # sinks
    "MiMoV2Flash": (WINDOW | MIMO, TEXT),  # sinks in some layers
    **dict.fromkeys(("Bart", "Pegasus"), (UNEQUAL, BOTH)),
    "Marian": (UNEQUAL | {"decoder_start_token_id": 0}, BOTH),
    "T5": (T5, BOTH),  # no scale, a bias
    "UMT5": (T5, BOTH),  # a bias for each layer
    "Whisper": (UNEQUAL | FRAMES, SPEECH),
    **dict.fromkeys(("ViT", "Dinov2"), (VIT, IMAGE)),
    "DeiT": (VIT, DISTILLED),
}
REFUSED = {
    **dict.fromkeys(("Deberta", "DebertaV2", "MPNet", "MegatronBert", "RoFormer"), (BERT, TEXT)),
    "RemBert": (BERT | {"input_embedding_size": 16, "output_embedding_size": 16}, TEXT),
    "XLNet": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48} | WORDS, TEXT),
    "Bloom": ({"hidden_size": 32, "n_layer": 2, "n_head": 4} | WORDS, TEXT),
    "GPTJ": (GPT | {"rotary_dim": 4}, TEXT),
    "DiffLlama": (GROUPED, TEXT),  # attends twice in a layer, and takes the difference
    "Gemma4Text": (GROUPED | {"head_dim": 8} | GEMMA4, TEXT),  # heads of two sizes
    "Swin": (SWIN | {"window_size": 2}, IMAGE),
}

# Only some layers attend, here those of these indices; the others remember in another way.
HYBRIDS = {
    "MiniMax": (GROUPED | {"head_dim": 8, "num_local_experts": 2, "num_hidden_layers": 4}, TEXT),
    "Lfm2": (GROUPED | {"num_hidden_layers": 4, "full_attn_idxs": [1, 3]}, TEXT),
}
# What is not attention, or cannot be told apart; each with a word of what is said of it.
NOT_ONE = {
    "Mamba": ({"hidden_size": 32, "num_hidden_layers": 2} | WORDS, TEXT),
    "FNet": (SIZES | {"vocab_size": 60}, ({"input_ids": SOURCE}, TEXT[1])),
    "LongT5": (T5, BOTH),
    "CLIP": ({"text_config": SIZES | WORDS, "vision_config": VIT}, (PICTURED, TEXT[1])),
    "GraniteSWA": (GROUPED | {"sliding_window": 4}, TEXT),
}


def family(name, attention):
    """Return a model of a family with this attention, what it takes, and the texts of its places."""
    sizes, (inputs, tokens) = (CAUGHT | REFUSED | HYBRIDS | NOT_ONE)[name]
    kind = name.removesuffix("Decoder")
    config = getattr(transformers, f"{kind}Config")(**sizes)
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")._from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for weight in model.parameters():  # biases too, and large enough for sharp attention
            weight.add_(torch.randn_like(weight) * (0.3 if weight.dim() > 1 else 0.1))
    return model, inputs, tokens


def own_attentions(name):
    """Return what a family returns under eager attention: (layers, heads, query, key) for each panel."""
    model, inputs, tokens = family(name, "eager")
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    if "tokens" in tokens:
        return {"All": torch.cat(outputs.attentions)}
    kinds = ("Encoder", "Decoder", "Cross")
    return {kind: torch.cat(getattr(outputs, f"{kind.lower()}_attentions")) for kind in kinds}
