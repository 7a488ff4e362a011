"""What the text of a token says: how it is shown, which word it belongs to, and whether a tokenizer has added it."""

import re

MARKS = ("Ġ", "▁")  # before the first token of a word, in byte-level BPE and in SentencePiece
ENDING = "</w>"  # after the last token of a word, in the BPE of GPT-1 and XLM
SPECIAL = {"[CLS]", "[SEP]", "[PAD]", "<cls>", "<sep>", "<pad>", "<s>", "</s>", "<bos>", "<eos>"}
BETWEEN_BARS = re.compile(r"<\|.*\|>")  # <|endoftext|>, <|im_start|>, ...
NO_PIECE = re.compile(r"\[[A-Z]+\]|<(?!0x)[\w/]+>")  # [MASK], <mask>, <extra_id_0>; but <0x0A> is a byte
NEW_LINES = re.compile(r"Ċ+|<0x0A>")  # as byte-level BPE and as SentencePiece write them


def prettify(tokens):
    """Return the tokens without the marks of a tokenizer. A mark alone stands for a space: ␣; new lines: ⏎."""
    return [_prettify(token) for token in tokens]


def _prettify(token):
    if NEW_LINES.fullmatch(token):
        return "⏎" * max(1, token.count("Ċ"))
    plain = token.replace(ENDING, "")
    for mark in MARKS:
        plain = plain.replace(mark, " ")
    return token if plain == token else plain.strip() or "␣"


def word_numbers(tokens):
    """Return for each token the number of its word, or None where no token is only a part of a word.

    A word begins where the marks of the tokenizer say so: at what does not begin with ##, at Ġ or ▁, or after </w>.
    """
    pieces = any(token.startswith("##") and len(token) > 2 for token in tokens)
    marks = any(token.startswith(MARKS) for token in tokens)
    if not (pieces or marks or any(token.endswith(ENDING) for token in tokens)):
        return None
    numbers = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if pieces:
            begins = not token.startswith("##")
        elif marks:
            begins = token.startswith(MARKS)
        else:
            begins = (before or "").endswith(ENDING)
        begins = begins or before is None or any(map(_is_alone, (before, token)))
        numbers.append((numbers[-1] if numbers else -1) + begins)
    return numbers if numbers and numbers[-1] < len(tokens) - 1 else None


def sides_of(query_tokens, key_tokens):
    """Return for the page, for the left and the right, which tokens make a word and which a tokenizer has added."""
    sides = {}
    for side, tokens in (("left", query_tokens), ("right", key_tokens)):
        sides[f"{side}_words"] = word_numbers(tokens)
        sides[f"{side}_special"] = [index for index, token in enumerate(tokens) if _is_special(token)]
    return {name: value for name, value in sides.items() if value}


def _is_special(token):
    return token in SPECIAL or bool(BETWEEN_BARS.fullmatch(token))


def _is_alone(token):
    """Whether a token is a word by itself, whatever stands beside it."""
    return _is_special(token) or any(kind.fullmatch(token) for kind in (NO_PIECE, NEW_LINES))
