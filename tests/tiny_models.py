"""BERTs and encoders that are small enough to be compared number by number, in float64."""

import types

import torch
from torch import nn
from transformers import BertConfig, BertModel

from utils.attention import weights_of_torch
from utils.dates import DATE_CONFIG
from utils.decoder import EncoderDecoder
from utils.encoder import Encoder

SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 24}
SIZES |= {"vocab_size": 50, "max_position_embeddings": 12, "type_vocab_size": 2}


def new_config(**changes):
    return BertConfig(**SIZES | {"attn_implementation": "eager"} | changes)


def bare_config(**changes):
    """Return a config that transformers does not check: the fields alone."""
    return types.SimpleNamespace(**new_config().to_dict() | changes)


def new_bert(**changes):
    """Return a BERT with random weights: of biases and norms, too, and large enough for sharp attention."""
    torch.manual_seed(0)
    model = BertModel(new_config(**changes)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model


def new_encoder(**changes):
    torch.manual_seed(0)
    return Encoder(new_config(), **changes).double().eval()


def small_date_config(**changes):
    """Return a config like that of the dates, but quick, and with no two sizes alike."""
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 2}
    return types.SimpleNamespace(**vars(DATE_CONFIG) | sizes | changes)


def new_encoder_decoder(norm_first=False, dtype=torch.float32, **changes):
    torch.manual_seed(0)
    return EncoderDecoder(small_date_config(**changes), norm_first).eval().to(dtype)


def take_weights(ours, theirs, **parts):
    """Give parts of a layer, by their names, the weights of parts of PyTorch's."""
    parts |= {"feed_forward.expand": "linear1", "feed_forward.contract": "linear2"}
    for name, other in parts.items():
        source = theirs.get_submodule(other)
        packed = isinstance(source, nn.MultiheadAttention)
        ours.get_submodule(name).load_state_dict(weights_of_torch(source) if packed else source.state_dict())


def ids(*shape, seed=0):
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(seed))


def pads(batch, seq_len):
    """Return a tokenizer's attention_mask whose first sequence is half as long as the others."""
    mask = torch.ones(batch, seq_len, dtype=torch.long)
    mask[0, seq_len // 2 :] = 0
    return mask


def close(actual, expected, tolerance=1e-10):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
