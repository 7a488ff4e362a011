"""Writes utils/treebank.conllu: a small grammar draws sentences with their trees, and some are written by hand.

    python .ci/data/make_treebank.py            writes the file
    python .ci/data/make_treebank.py 40         prints 40 of its sentences, to be read by a person

The trees follow Universal Dependencies (https://universaldependencies.org). They are right because each sentence
is built from its tree, and not the other way round. One seed makes one file, byte for byte: a test compares.
"""

# ruff: noqa: E501  (a scene, or a sentence written by hand, is one line)

import random
import sys
from pathlib import Path

TARGET = Path(__file__).parents[2] / "utils" / "treebank.conllu"
HEADER = """\
# A treebank for notebook 10, written and generated for this course by .ci/data/make_treebank.py.
# The relations are those of Universal Dependencies 2. A pronoun whose meaning stands in its sentence has
# Antecedent=ID in the last column: ID is the word that it stands for.
"""
PER_TEMPLATE = 9
# More of these, as each relation should occur often enough to be counted.
MORE = {
    "passive_by": 21, "want_to": 19, "sitting": 19, "two_objects": 8, "adjective_chain": 10, "by_name": 19,
    "plain": 10, "object_relative": 5, "particle_before": 9, "particle_after": 9, "there_was": 8,
}  # fmt: skip

# ------------------------------------------------------------------------------------------------ the lexicon

DETERMINERS = {"the", "a", "an", "this", "that", "these", "every", "some", "no", "both", "which"}
NUMBERS = {"two", "three", "four", "five", "ten", "twenty"}
POSSESSIVES = {"his": "he", "her": "she", "its": "it", "their": "they", "my": "I", "your": "you", "our": "we"}
IRREGULAR_PLURALS = {
    "men": "man", "women": "woman", "children": "child", "thieves": "thief", "mice": "mouse", "wolves": "wolf",
    "shelves": "shelf", "leaves": "leaf", "knives": "knife", "people": "person", "feet": "foot",
}  # fmt: skip
NO_PLURAL = {"bus", "glass", "grass", "news", "dress", "Thomas", "princess", "actress", "boss", "lens"}
# Past tense and participle of verbs that are not regular.
VERBS = {
    "be": "was been", "break": "broke broken", "bring": "brought brought", "build": "built built", "buy": "bought bought",
    "catch": "caught caught", "come": "came come", "cut": "cut cut", "do": "did done", "draw": "drew drawn",
    "drink": "drank drunk", "drive": "drove driven", "eat": "ate eaten", "fall": "fell fallen", "feed": "fed fed",
    "find": "found found", "forget": "forgot forgotten", "get": "got got", "give": "gave given", "go": "went gone", "grow": "grew grown",
    "hang": "hung hung", "have": "had had", "hear": "heard heard", "hurt": "hurt hurt", "hide": "hid hidden", "hold": "held held", "keep": "kept kept",
    "know": "knew known", "leave": "left left", "lend": "lent lent", "lose": "lost lost", "make": "made made",
    "meet": "met met", "pay": "paid paid", "put": "put put", "read": "read read", "ring": "rang rung", "say": "said said",
    "see": "saw seen", "sell": "sold sold", "send": "sent sent", "show": "showed shown", "sing": "sang sung",
    "sit": "sat sat", "sleep": "slept slept", "steal": "stole stolen", "take": "took taken", "teach": "taught taught",
    "tell": "told told", "think": "thought thought", "throw": "threw thrown", "wake": "woke woken",
    "wear": "wore worn", "win": "won won", "write": "wrote written", "bite": "bit bitten", "begin": "began begun",
}  # fmt: skip
DOUBLED = {"stop": "stopped", "plan": "planned", "travel": "travelled", "cancel": "cancelled"}

# Who does what to what: subjects, verb, objects, and where or when it may happen.
SCENES = [
    ("chef, baker, cook, grandmother", "prepare", "hot soup, cake, pie, simple meal", "in the kitchen, for the guests, before noon"),
    ("mechanic, engineer, neighbour, plumber", "repair", "old bicycle, roof, broken engine, clock", "in the garage, before the winter, with a new tool"),
    ("author, student, journalist, poet", "write", "long letter, report, short story, book", "during the holidays, in a small cafe, for the newspaper"),
    ("artist, girl, painter, sailor", "paint", "wall, portrait, front_door, wooden boat", "in the summer, with a thick brush, for the festival"),
    ("lawyer, teacher, nurse, clerk", "read", "letter, report, contract, strange message", "on the train, after lunch, in the library"),
    ("farmer, merchant, company, widow", "sell", "brown horse, old car, house, small shop", "at the market, for a good price, before the war"),
    ("detective, child, gardener, soldier", "find", "rusty key, gold coin, wallet, secret map", "under the bridge, in the forest, behind the barn"),
    ("porter, soldier, nurse, waiter", "carry", "heavy box, wooden chair, suitcase, large bag", "through the rain, to the station, across the yard"),
    ("tourist, family, doctor, professor", "visit", "museum, ruined castle, quiet village, island", "in the spring, on Sunday, after the storm"),
    ("guard, girl, servant, priest", "open", "heavy door, window, iron gate, box", "at midnight, with a small key, after dinner"),
    ("worker, company, king, mason", "build", "stone_bridge, high tower, house, wall", "near the river, on the hill, in ten years"),
    ("thief, fox, pirate, spy", "steal", "necklace, fat chicken, painting, golden cup", "during the night, from the palace, in the dark"),
    ("gardener, farmer, widow, monk", "plant", "apple_tree, red rose, row of potatoes, young oak", "in the garden, behind the house, after the rain"),
    ("waiter, boy, servant, cook", "clean", "table, dirty floor, kitchen, tall window", "in the morning, before the party, with hot water"),
    ("visitor, girl, coach, grandfather", "watch", "match, long film, night_train, bird", "from the balcony, in the evening, with great interest"),
    ("dog, cat, wolf, fox", "chase", "mouse, white rabbit, ball, bird", "across the field, around the house, through the snow"),
    ("judge, scientist, editor, manager", "examine", "strange document, sample, letter, new machine", "with great care, after the meeting, in the office"),
    ("driver, hunter, sailor, nurse", "follow", "river, narrow path, white van, bright star", "for an hour, in the fog, to the coast"),
    ("tailor, woman, student, dancer", "buy", "silk_dress, warm coat, ticket, pair of shoes", "in the city, at the station, with the last money"),
    ("pupil, poet, singer, actress", "learn", "long poem, song, foreign language, difficult part", "by heart, in a week, at school"),
]  # fmt: skip
THINGS = "box, letter, key, picture, chair, clock, lamp, mirror, bag, bottle, basket, coat, knife, book"
PLACES = (
    "on the table, near the door, in the hall, under the bed, behind the curtain, on the shelf, in the cellar"
)
SIZE, AGE, COLOUR, STUFF = (
    "big, small, huge, tiny",
    "old, new, ancient",
    "red, blue, black, green",
    "wooden, iron",
)
OPINION = "beautiful, ugly, strange, expensive, lovely"
PERSON_ADJECTIVES = "old, young, tall, tired, friendly, clever, famous, poor, nervous, quiet"
TWO_ADJECTIVES = "poor old, tall young, friendly old, clever young, rich old, quiet young"
TIME_WORDS = [
    "noon",
    "winter",
    "midnight",
    "night",
    "morning",
    "evening",
    "summer",
    "spring",
    "Sunday",
    "years",
    "week",
    "hour",
]
TIMES = (
    "on Monday, after breakfast, in the evening, before the holidays, during the winter, at noon, last week"
)
PLAIN_TIMES = "on Monday, after breakfast, in the evening, during the winter, at noon, in the end"
MEN = "boy, king, father, uncle, grandfather, prince, monk, waiter"
WOMEN = "girl, queen, mother, aunt, grandmother, princess, actress, widow"
MALE_NAMES, FEMALE_NAMES = "Peter, David, Thomas, Samuel, Daniel", "Anna, Maria, Sarah, Julia, Emma"
KIN_OF_WOMAN, KIN_OF_MAN = "brother, son, husband, uncle", "sister, daughter, wife, aunt"
MANY = "children, soldiers, students, workers, guests, sailors, tourists, neighbours"
ONE_THING = "bicycle, lamp, clock, camera, painting, machine, guitar"
SCHOOL = "teacher, director, trainer, guide, doctor"

# --------------------------------------------------------------------------------------------- words and trees


class Word:
    """One word with what depends on it, on its left and on its right, in the order in which it is written."""

    def __init__(self, form, upos, lemma=None, glued=False, antecedent=None):
        self.form, self.upos, self.lemma = form, upos, lemma or form
        self.left, self.right, self.glued, self.antecedent = [], [], glued, antecedent

    def before(self, relation, word):
        self.left.append((relation, word))
        return self

    def after(self, relation, word):
        self.right.append((relation, word))
        return self

    def flat(self, relation="root", head=None):
        """Every word of the tree as (word, relation, head word), in the order of the sentence."""
        for name, word in self.left:
            yield from word.flat(name, self)
        yield self, relation, head
        for name, word in self.right:
            yield from word.flat(name, self)


class Grammar:
    """Draws from lists written as "this, that", always in the same order for one seed."""

    def __init__(self, seed):
        # Of Python's generator, only random() gives the same numbers in all versions.
        self.random = random.Random(seed).random

    def pick(self, choices):
        choices = choices.split(", ") if isinstance(choices, str) else choices
        return choices[int(self.random() * len(choices))]

    def chance(self, probability):
        return self.random() < probability

    def scene(self, without=""):
        """A subject, a verb, an object and a place, as texts that make sense together. Not these verbs."""
        scenes = [scene for scene in SCENES if scene[1] not in without.split(", ")]
        subjects, verb, objects, places = self.pick(scenes)
        return self.pick(subjects), verb, self.pick(objects), self.pick(places)

    def person(self, noun, article="the"):
        """ "the farmer", "the old farmer", "the poor old farmer"."""
        chance = self.random()
        if noun in ("company", "family") or chance > 0.5:
            return noun_phrase(f"{article} {noun}")
        return noun_phrase(
            f"{article} {self.pick(TWO_ADJECTIVES if chance < 0.15 else PERSON_ADJECTIVES)} {noun}"
        )

    def thing(self, text):
        """ "the key" or "a key"."""
        return noun_phrase(with_article(text) if self.chance(0.4) else f"the {text}")


def is_time(phrase):
    return phrase.split()[0] in ("before", "after", "during") or phrase.split()[-1] in TIME_WORDS


def with_article(text):
    return ("an " if text[0] in "aeiou" else "a ") + text


def lemma_of(noun):
    if noun in NO_PLURAL or (not noun.endswith("s") and noun not in IRREGULAR_PLURALS):
        return noun
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if noun.endswith("ies"):
        return noun[:-3] + "y"
    return noun[:-2] if noun.endswith(("xes", "ches", "shes", "sses")) else noun[:-1]


def plural(noun):
    for many, one in IRREGULAR_PLURALS.items():
        if one == noun:
            return many
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("x", "ch", "sh", "s")) else "s")


def noun_phrase(text, owner=None):
    """The tree of "the small old box", "two horses", "Anna", "the garden_gate", "a row of potatoes", "her hat"."""
    if " of " in text:
        text, rest = text.split(" of ")
        return noun_phrase(text, owner).after("nmod", prepositional("of " + rest))
    *others, last = text.split()
    *compounds, noun = last.split("_")
    head = Word(noun, "PROPN" if noun[0].isupper() else "NOUN", lemma_of(noun))
    for other in others:
        if other in POSSESSIVES:
            head.before("nmod:poss", Word(other, "PRON", POSSESSIVES[other], antecedent=owner))
        elif other in DETERMINERS:
            head.before(
                "det", Word(other, "DET", "a" if other == "an" else "this" if other == "these" else other)
            )
        elif other in NUMBERS:
            head.before("nummod", Word(other, "NUM"))
        else:
            head.before(
                "amod", Word(other, "ADJ", {"youngest": "young", "oldest": "old", "best": "good"}.get(other))
            )
    for compound in compounds:
        head.before("compound", Word(compound, "NOUN"))
    return head


def prepositional(text, owner=None):
    """The tree of "in the old garden": its noun is the head, the preposition its `case`. "last week" has none."""
    first, rest = text.split(" ", 1)
    if first == "last":
        return Word(rest, "NOUN").before("amod", Word("last", "ADJ"))
    phrase = noun_phrase(rest, owner)
    phrase.left.insert(0, ("case", Word(first, "ADP")))
    return phrase


def pronoun(form, antecedent=None):
    lemma = {
        "him": "he",
        "her": "she",
        "them": "they",
        "himself": "he",
        "herself": "she",
        "themselves": "they",
    }
    return Word(form, "PRON", lemma.get(form), antecedent=antecedent)


def verb_form(base, kind):
    past, participle = VERBS.get(base, "").split() or [DOUBLED.get(base) or regular_past(base)] * 2
    if kind == "ing":
        stem = DOUBLED[base][:-2] if base in DOUBLED else base
        stem += stem[-1] if base in ("cut", "put", "sit", "get", "win", "begin") else ""
        return (stem[:-1] if stem.endswith("e") and base != "be" else stem) + "ing"
    return {"past": past, "participle": participle, "base": base}[kind]


def regular_past(base):
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")


# The auxiliaries of each kind of verb group, with their relation, and the form of the verb behind them.
GROUPS = {
    "past": ([], "past"),
    "did": ([("did", "do", "aux")], "base"),
    "perfect": ([("has", "have", "aux")], "participle"),
    "had": ([("had", "have", "aux")], "participle"),
    "will": ([("will", "will", "aux")], "base"),
    "would": ([("would", "will", "aux")], "base"),
    "could": ([("could", "can", "aux")], "base"),
    "must": ([("must", "must", "aux")], "base"),
    "was ing": ([("was", "be", "aux")], "ing"),
    "passive": ([("was", "be", "aux:pass")], "participle"),
    "perfect passive": ([("has", "have", "aux"), ("been", "be", "aux:pass")], "participle"),
    "had passive": ([("had", "have", "aux"), ("been", "be", "aux:pass")], "participle"),
    "will passive": ([("will", "will", "aux"), ("be", "be", "aux:pass")], "participle"),
    "base": ([], "base"),
}
FOR_MANY = {"was": "were", "has": "have"}


def is_many(subject):
    conjuncts = any(relation == "conj" for relation, _ in subject.right)
    if subject.upos == "PRON":
        return conjuncts or subject.form in ("they", "we", "you")
    return conjuncts or subject.form != subject.lemma


def clause(subject, base, kind="past", adverb=None, negative=None, inverted=False, first=(), like=None):
    """A verb with its subject and auxiliaries. `first` comes before all, as (relation, word). `like` sets the number.

    negative: "not", or "n't", which is written together with the word before it.
    """
    auxiliaries, form = GROUPS[kind]
    verb = Word(verb_form(base, form), "VERB", base)
    many = is_many(like or subject) if subject or like else False
    auxiliaries = [
        (FOR_MANY.get(word, word) if many else word, lemma, name) for word, lemma, name in auxiliaries
    ]
    words = [(name, Word(word, "AUX", lemma)) for word, lemma, name in auxiliaries]
    subjects = [("nsubj:pass" if "passive" in kind else "nsubj", subject)] if subject else []
    front = words[:1] + subjects if inverted else subjects + words[:1]
    verb.left = [*first, *front]
    if negative:
        verb.before("advmod", Word(negative, "PART", "not", glued=negative == "n't"))
    if adverb:
        verb.before("advmod", Word(adverb, "ADV"))
    verb.left += words[1:]
    return verb


def copula(subject, predicate, form="was", adverb=None, inverted=False):
    """ "the soup was still hot": the predicate is the root, "was" its `cop`."""
    was = ("cop", Word(FOR_MANY.get(form, form) if is_many(subject) else form, "AUX", "be"))
    predicate.left = (
        [was, ("nsubj", subject), *predicate.left] if inverted else [("nsubj", subject), was, *predicate.left]
    )
    if adverb:
        place = next(i for i, (_, word) in enumerate(predicate.left) if word is was[1]) + 1
        predicate.left.insert(place, ("advmod", Word(adverb, "ADV")))
    return predicate


def adjective(text):
    *adverbs, last = text.split()
    word = Word(last, "ADJ")
    for adverb in adverbs:
        word.before("advmod", Word(adverb, "ADV"))
    return word


def marked(verb, mark):
    """Put "that", "because" or "to" before a clause."""
    verb.left.insert(0, ("mark", Word(mark, "PART" if mark == "to" else "SCONJ")))
    return verb


def when(verb):
    """Put "when" before a clause: an adverb, as it stands for a time."""
    verb.left.insert(0, ("advmod", Word("when", "ADV")))
    return verb


def comma_after(word):
    return word.after("punct", Word(",", "PUNCT"))


def comma_before(word):
    word.left.insert(0, ("punct", Word(",", "PUNCT")))
    return word


def joined(head, word, conjunction="and", comma=False):
    """Coordinate: the second part depends on the first, its conjunction on the second."""
    word.left.insert(0, ("cc", Word(conjunction, "CCONJ")))
    return head.after("conj", comma_before(word) if comma else word)


def list_of(*words):
    """ "bread, milk and apples"."""
    head, *middle, last = words
    for word in middle:
        head.after("conj", comma_before(word))
    return joined(head, last)


def ended(root, mark="."):
    return root.after("punct", Word(mark, "PUNCT"))


def owned(owner, thing):
    """ "the farmer's horse": the owner with its 's becomes the first dependent of the thing."""
    owner.after("case", Word("'s", "PART", "'s", glued=True))
    thing.left.insert(0, ("nmod:poss", owner))
    return thing


# ---------------------------------------------------------------------------------------------- the templates


def plain(g):
    who, verb, what, where = g.scene()
    many = g.chance(0.3) and not what.count(" of ")
    adverb, place = (
        g.pick("finally, quickly, quietly" if verb == "chase" else "finally, quickly, carefully"),
        g.random(),
    )
    if adverb == "finally" and place < 0.5:
        first = [("advmod", Word("finally", "ADV")), ("punct", Word(",", "PUNCT"))]
        head = clause(g.person(who), verb, g.pick("past, had"), first=first)
    else:
        head = clause(g.person(who), verb, g.pick("past, had, will"), adverb=adverb if place < 0.5 else None)
    noun = what.split()[-1]
    head.after("obj", noun_phrase(f"{g.pick('two, three, ten')} {plural(noun)}") if many else g.thing(what))
    if adverb != "finally" and place >= 0.5:
        head.after("advmod", Word(adverb, "ADV"))
    return ended(head.after("obl", prepositional(where)))


def fronted(g):
    who, verb, what, where = g.scene()
    first = [("obl", prepositional(g.pick(PLAIN_TIMES))), ("punct", Word(",", "PUNCT"))]
    head = clause(g.person(who), verb, first=first).after("obj", g.thing(what))
    return ended(head if is_time(where) else head.after("obl", prepositional(where)))


def adjective_chain(g):
    kinds = [g.pick(OPINION), g.pick(SIZE), g.pick(AGE), g.pick(COLOUR), g.pick(STUFF)]
    kept = [kind for kind in kinds if g.chance(0.65)] or kinds[:3]
    noun = g.pick("box, chair, table, clock, chest, bench")
    thing = noun_phrase(with_article(" ".join([*kept, noun])))
    who = g.person(g.pick("carpenter, widow, merchant, collector, uncle"))
    return ended(
        clause(who, g.pick("buy, sell, find, repair, keep"), g.pick("past, perfect, will")).after(
            "obj", thing
        )
    )


def two_objects(g):
    giver, taker = (
        g.pick("teacher, king, nurse, manager, uncle"),
        g.pick("boy, old woman, driver, sailor, widow, child"),
    )
    gift = g.pick("map, long letter, golden ring, cup of tea, new key, picture of the castle, second chance")
    head = clause(
        g.person(giver),
        g.pick("give, show, send, bring") if gift != "second chance" else "give",
        g.pick("past, had, will"),
    )
    head.after("iobj", g.person(taker) if " " not in taker else noun_phrase(f"the {taker}"))
    return ended(head.after("obj", noun_phrase(with_article(gift))))


def passive_by(g):
    who, verb, what, _ = g.scene()
    kind = g.pick("passive, perfect passive, had passive")
    adverb = g.pick([None, "finally", "secretly", "carefully"])
    head = clause(noun_phrase(f"the {what}"), verb, kind, adverb=adverb)
    adjective = g.pick(["", "", "poor ", "young ", "tired old "]) if who not in ("company", "family") else ""
    agent = f"the {adjective}{who}" if g.chance(0.5) else with_article(adjective + who)
    return ended(head.after("obl:agent", prepositional(f"by {agent}")))


def passive_alone(g):
    _, verb, what, where = g.scene("watch, chase, follow, learn, find, steal")
    noun = plural(what.split(" of ")[0].split()[-1])
    kind = g.pick("passive, will passive, perfect passive")
    head = clause(noun_phrase(f"the {noun}"), verb, kind, negative=g.pick([None, "not"]))
    return ended(head.after("obl", prepositional(g.pick(TIMES) if g.chance(0.5) else where)))


def yes_no(g):
    who, verb, what, where = g.scene()
    head = clause(g.person(who), verb, g.pick("did, did, will, perfect, must"), inverted=True)
    head.after("obj", g.thing(what))
    return ended(head.after("obl", prepositional(where)) if g.chance(0.6) else head, "?")


def what_question(g):
    who, verb, what, where = g.scene()
    wanted = (
        Word("what", "PRON") if g.chance(0.5) else noun_phrase("which " + what.split(" of ")[0].split()[-1])
    )
    kind = g.pick("did, did, will, perfect")
    return ended(
        clause(g.person(who), verb, kind, inverted=True, first=[("obj", wanted)]).after(
            "obl", prepositional(where)
        ),
        "?",
    )


def why_question(g):
    who, verb, what, _ = g.scene()
    asked = g.pick(
        "why, when, where" if verb in ("find", "buy", "sell", "read", "learn", "write") else "why, when"
    )
    head = clause(g.person(who), verb, "did", inverted=True, first=[("advmod", Word(asked, "ADV"))])
    if asked == "why" and g.chance(0.5):
        head.left.insert(2, ("advmod", Word("n't", "PART", "not", glued=True)))
    return ended(head.after("obj", g.thing(what)), "?")


def subject_relative(g):
    _, verb, what, _ = g.scene("chase, steal")
    who = g.pick("woman, man, student, visitor, boy")
    relative = clause(Word("who", "PRON"), verb, g.pick("past, had, was ing"), like=Word(who, "NOUN")).after(
        "obj", g.thing(what)
    )
    verb, where = g.pick(
        "leave after the concert, smile at the guests, live near the church, come from Spain"
    ).split(" ", 1)
    return ended(clause(g.person(who).after("acl:relcl", relative), verb).after("obl", prepositional(where)))


def object_relative(g):
    who, verb, what, _ = g.scene("chase, watch, learn, follow, plant, visit")
    what = what.split(" of ")[0]
    first = [("obj", Word("that", "PRON"))] if g.chance(0.6) else []
    relative = clause(g.person(who), verb, g.pick("past, had"), first=first)
    thing = noun_phrase(f"the {what}").after("acl:relcl", relative)
    if g.chance(0.5):
        return ended(copula(thing, adjective(g.pick("very old, quite expensive, really good, rather small"))))
    return ended(
        clause(
            g.person(g.pick("colonel, uncle, queen, stranger")), g.pick("admire, remember, see, want")
        ).after("obj", thing)
    )


def far_subject(g):
    place = g.pick("little shop, hotel, factory, old theatre")
    subject = noun_phrase(f"the {g.pick('owner, manager, builder, director')} of the {place}")
    where = g.pick("near the station, behind the church, on the hill, by the river, in the valley")
    subject.right[-1][1].after("nmod", prepositional(where))
    verb, what = g.pick(
        "sell house, meet king, lose key, forget name, buy horse, thank workers, hear noise"
    ).split()
    adverb = g.pick([None, "never", "suddenly", "finally"])
    head = clause(
        subject, verb, "past" if adverb == "suddenly" else g.pick("past, perfect, had"), adverb=adverb
    )
    return ended(head.after("obj", noun_phrase(f"the {g.pick([what, what, 'old ' + what])}")))


def noun_with_place(g):
    thing = noun_phrase(f"the {g.pick(THINGS)}").after("nmod", prepositional(g.pick(PLACES)))
    if g.chance(0.5):
        predicate = adjective(g.pick("very old, heavy, almost new, rather dirty, beautiful"))
        return ended(copula(thing, predicate, adverb=g.pick([None, "still"])))
    owner = g.pick("to the teacher, to an old sailor, to the family, to the museum")
    return ended(clause(thing, "belong").after("obl", prepositional(owner)))


def said_that(g):
    who, verb, what, _ = g.scene()
    kind = g.pick("had, could, had")
    inner = clause(g.person(who), verb, kind, adverb=g.pick([None, "already"]) if kind == "had" else None)
    inner.after("obj", g.thing(what))
    said = g.pick("say, believe, claim, say, report, hear, know")
    if said in ("report", "hear", "know") or g.chance(0.4):
        marked(inner, "that")
    head = clause(
        noun_phrase(f"the {g.pick('neighbours, guide, witness, mayor, newspaper, old woman')}"), said
    )
    return ended(head.after("ccomp", inner))


def told_that(g):
    who, verb, what, _ = g.scene()
    inner = marked(
        clause(g.person(who), verb, kind := g.pick("had, would")).after("obj", g.thing(what)), "that"
    )
    head = clause(
        noun_phrase(f"the {g.pick('mayor, guard, captain, colonel')}"),
        "tell" if kind == "had" else g.pick("tell, promise"),
    )
    return ended(
        head.after(
            "iobj", noun_phrase(f"the {g.pick('reporters, crowd, judge, old couple, visitors')}")
        ).after("ccomp", inner)
    )


def although_it_was(g):
    who, verb, what, _ = g.scene()
    subject, predicate = g.pick("weather bad, guests hungry, house empty, night cold, city quiet").split()
    inner = marked(copula(noun_phrase(f"the {subject}"), adjective(predicate)), g.pick("although, while"))
    head = clause(g.person(who), verb, "past").after("obj", g.thing(what))
    return ended(head.after("advcl", inner))


def when_before(g):
    who, verb, what, _ = g.scene()
    subject, event = g.pick("bell ring, storm begin, train arrive, music stop, sun appear, king come").split()
    word, kinds = g.pick([("when", "was ing"), ("after", "past"), ("before", "past, had"), ("as", "was ing")])
    inner = clause(noun_phrase(f"the {subject}"), event, adverb=g.pick([None, "finally"]))
    inner = comma_after(when(inner) if word == "when" else marked(inner, word))
    return ended(
        clause(g.person(who), verb, g.pick(kinds), first=[("advcl", inner)]).after("obj", g.thing(what))
    )


def want_to(g):
    who, verb, what, where = g.scene()
    inner = marked(clause(None, verb, "base").after("obj", g.thing(what)), "to")
    if g.chance(0.5):
        head = clause(g.person(who), g.pick("want, try, hope, plan"), g.pick("past, had"))
        inner.after("obl", prepositional(where))
    else:
        head = clause(
            noun_phrase(f"the {g.pick('mayor, queen, captain, owner')}"), g.pick("order, ask, persuade")
        )
        head.after("obj", g.person(who))
    return ended(head.after("xcomp", inner))


def in_order_to(g):
    verb, what = g.pick("catch train, visit museum, feed horses, meet king, see castle, buy bread").split()
    inner = marked(
        clause(None, verb, "base").after("obj", noun_phrase(what if what == "bread" else f"the {what}")), "to"
    )
    who = g.person(g.pick("boy, driver, farmer, woman, student"))
    head = clause(who, g.pick("leave, drive, walk, travel, cycle"), adverb=g.pick([None, "often"]))
    if head.lemma == "leave":
        head.after("obj", noun_phrase(f"the {g.pick('house, office, party')}"))
    else:
        head.after("obl", prepositional(g.pick("to the village, into the town, across the valley")))
    return ended(head.after("advcl", inner))


def two_subjects(g):
    _, verb, what, where = g.scene("chase, steal, carry")
    first, second = (
        g.pick("Anna, the nurse, the old man, my sister, Peter"),
        g.pick("the guide, the cook, Maria, the two boys, my brother"),
    )
    subject = joined(noun_phrase(first), noun_phrase(second))
    head = clause(subject, verb, g.pick("past, was ing, had")).after("obj", g.thing(what))
    return ended(head.after("obl", prepositional(where)) if g.chance(0.5) else head)


def two_verbs(g):
    pairs = [
        ("open the window", "close the door"), ("take the key", "leave the house"), ("read the letter", "burn the paper"),
        ("buy the bread", "forget the milk"), ("wash the plates", "clean the kitchen"), ("write a song", "learn the words"),
        ("lock the gate", "feed the dogs"), ("pack the suitcase", "call a taxi"), ("draw a map", "hide the treasure"),
    ]  # fmt: skip
    first, second = g.pick(pairs)
    (verb, what), (verb2, what2) = first.split(" ", 1), second.split(" ", 1)
    head = clause(
        g.person(g.pick("girl, porter, student, widow, boy, servant")),
        verb,
        "past",
        adverb=g.pick([None, "quickly", "quietly"]),
    )
    head.after("obj", noun_phrase(what))
    other = clause(None, verb2, "past", adverb=g.pick([None, "then", "finally"])).after(
        "obj", noun_phrase(what2)
    )
    return ended(joined(head, other, "but" if "forget" in second else "and"))


def three_things(g):
    things = [
        "bread, milk, cheese, apples, eggs, butter, honey",
        "pens, paper, books, chalk, maps, candles",
        "nails, paint, wood, rope, tools, glass",
    ]
    chosen, stock = [], g.pick(things)
    while len(chosen) < 3:
        chosen += [thing for thing in [g.pick(stock)] if thing not in chosen]
    head = clause(
        g.person(g.pick("mother, teacher, carpenter, servant, farmer")),
        g.pick("buy, order, collect"),
        g.pick("past, had, will"),
    )
    head.after("obj", list_of(*map(noun_phrase, chosen)))
    return ended(head.after("obl", prepositional(g.pick("at the market, for the journey, in the village"))))


PARTICLES = [
    ("turn", "off", "light, old radio, machine"), ("put", "down", "heavy bag, tray, pencil"), ("take", "off", "wet coat, hat, mask"),
    ("pick", "up", "letter, broken cup, child"), ("throw", "away", "old shoes, list, empty bottle"), ("write", "down", "address, number, long answer"),
    ("wake", "up", "baby, other guests, dog"), ("fill", "in", "form, strange questionnaire"), ("bring", "back", "books, stolen money, ladder"),
]  # fmt: skip


def particle_before(g):
    verb, particle, objects = g.pick(PARTICLES)
    head = clause(g.person(g.pick("guard, nurse, boy, waiter, actress")), verb, g.pick("past, had, did"))
    if head.left[-1][1].form == "did":
        head.before("advmod", Word("n't", "PART", "not", glued=True))
    return ended(
        head.after("compound:prt", Word(particle, "ADP")).after("obj", noun_phrase(f"the {g.pick(objects)}"))
    )


def particle_after(g):
    verb, particle, objects = g.pick(PARTICLES)
    head = clause(
        g.person(g.pick("guard, nurse, boy, waiter, actress")),
        verb,
        g.pick("past, had, must"),
        adverb=g.pick([None, "finally", "quickly"]),
    )
    return ended(
        head.after("obj", noun_phrase(f"the {g.pick(objects)}")).after("compound:prt", Word(particle, "ADP"))
    )


def there_was(g):
    place = prepositional(g.pick(PLACES))
    number = g.pick([None, "two", "three"])
    thing = g.pick(THINGS)
    noun = noun_phrase(
        f"{number} {g.pick(SIZE)} {plural(thing)}" if number else with_article(f"{g.pick(AGE)} {thing}")
    )
    be = Word("were" if number else "was", "VERB", "be").before("expl", Word("there", "PRON"))
    return ended(be.after("nsubj", noun).after("obl", place))


def owner_of(g):
    owner = noun_phrase(f"the {g.pick('farmer, king, old teacher, doctor, rich merchant')}")
    kin = owned(owner, noun_phrase(g.pick("youngest daughter, son, dog, new assistant, oldest friend")))
    verb, what = g.pick(
        [
            ("break", "window"),
            ("find", "ring"),
            ("play", "violin"),
            ("win", "race"),
            ("miss", "train"),
            ("lose", "ball"),
        ]
    )
    if kin.form == "dog":
        verb, what = g.pick([("bite", "postman"), ("steal", "sausages"), ("chase", "cat")])
    return ended(
        clause(kin, verb, g.pick("past, perfect, had"), adverb=g.pick([None, "never", "often"])).after(
            "obj", noun_phrase(f"the {what}")
        )
    )


def object_of_owner(g):
    thing = owned(
        noun_phrase(g.pick("the neighbour, Anna, Peter, the old captain, the actress")),
        noun_phrase(g.pick("bicycle, garden, big dog, new car, red umbrella, guitar")),
    )
    head = clause(
        g.person(g.pick("boy, teacher, visitor, painter")),
        g.pick("admire, see, want, remember, like"),
        g.pick("past, had, will"),
    )
    return ended(head.after("obj", thing))


def did_not(g):
    who, verb, what, where = g.scene()
    negative = g.pick(["n't", "n't", "not"])
    head = clause(g.person(who), verb, g.pick("did, could, must"), negative=negative).after(
        "obj", g.thing(what)
    )
    return ended(head.after("obl", prepositional(where)) if g.chance(0.4) else head)


def sitting(g):
    place = g.pick("near the window, under a tree, on the bench, beside the fire, in the corner")
    verb = g.pick("sit, wait, stand")
    sitter = noun_phrase(f"the {g.pick('man, woman, child, old couple, soldier')}")
    sitter.after("acl", Word(verb_form(verb, "ing"), "VERB", verb).after("obl", prepositional(place)))
    if g.chance(0.5):
        head = clause(sitter, g.pick("know, remember, teach, meet"), "had").after(
            "obj", noun_phrase(f"the {g.pick('king, mayor, author, queen')}")
        )
    else:
        head = clause(sitter, g.pick("lose, find, buy, forget"), "past").after(
            "obj", noun_phrase(f"the {g.pick('key, tickets, newspaper, umbrella')}")
        )
    return ended(head)


def by_name(g):
    name = noun_phrase(g.pick(MALE_NAMES + ", " + FEMALE_NAMES))
    role = noun_phrase(f"the {g.pick('new teacher, owner of the hotel, mayor of the town, youngest judge')}")
    name.after("appos", comma_after(comma_before(role)))
    verb, what = g.pick(
        "open meeting, greet guests, know answer, cancel party, sign contract, invite neighbours"
    ).split()
    kind = g.pick("past, had")
    adverb = g.pick([None, "never", "already"] if kind == "had" else [None, "finally"])
    return ended(
        clause(name, verb, kind, adverb=adverb if verb != "know" else None).after(
            "obj", noun_phrase(f"the {what}")
        )
    )


def is_a(g):
    subject = noun_phrase(g.pick("Anna, Peter, the woman, the man, the woman, the man"))
    if subject.upos == "NOUN":
        subject.after("nmod", prepositional(g.pick("with the hat, from the north, at the gate")))
    noun = f"{g.pick('famous, young, retired, clever')} {g.pick('lawyer, painter, singer, captain, baker')}"
    question = g.chance(0.3)
    root = copula(subject, noun_phrase(with_article(noun)), g.pick("was, is"), inverted=question)
    return ended(root, "?" if question else ".")


def order(g):
    verb, what = g.pick(
        "close window, bring keys, read instructions, feed cat, wash cups, lock door, call doctor"
    ).split()
    head = Word(verb, "VERB").after("obj", noun_phrase(f"the {what}"))
    if g.chance(0.5):
        head.before("discourse", Word("please", "INTJ"))
    verb, what = g.pick("leave room, leave house, cook dinner, start machine, pack suitcase").split()
    inner = clause(pronoun("you"), verb, "base").after(
        "obj", noun_phrase(what if what == "dinner" else f"the {what}")
    )
    return ended(head.after("advcl", marked(inner, "before")))


def degree(g):
    things = [
        "soup for the guests", "water in the pool", "room near the kitchen", "street behind the school",
        "exam on Friday", "concert in the park", "lesson after lunch", "road to the coast", "story about the island",
    ]  # fmt: skip
    thing, place = g.pick(things).split(" ", 1)
    subject = noun_phrase(f"the {thing}").after("nmod", prepositional(place))
    predicate = adjective(
        g.pick("quite different, rather strange, surprisingly good, really terrible, almost perfect")
    )
    return ended(copula(subject, predicate, adverb=g.pick([None, "still"])))


# Templates with pronouns. Gender, number or being alive tells what the pronoun stands for, and that word is not
# always the nearest noun.


def pair(g):
    """A woman and a man, in either order, each as (phrase, subject pronoun, object pronoun, possessive)."""
    named = g.chance(0.5)
    woman = (noun_phrase(g.pick(FEMALE_NAMES)) if named else g.person(g.pick(WOMEN)), "she", "her", "her")
    man = (noun_phrase(g.pick(MALE_NAMES)) if named else g.person(g.pick(MEN)), "he", "him", "his")
    return (woman, man) if g.chance(0.5) else (man, woman)


def asked_whether(g):
    (first, *its), (second, *others) = pair(g)
    (subject, subject_form), (helped, helped_form) = (
        ((second, others[0]), (first, its[1])) if g.chance(0.5) else ((first, its[0]), (second, others[1]))
    )
    inner = clause(pronoun(subject_form, subject), g.pick("help, follow, meet, teach, trust"), "could").after(
        "obj", pronoun(helped_form, helped)
    )
    head = clause(first, "ask", g.pick("past, had"))
    return ended(head.after("obj", second).after("ccomp", marked(inner, "whether")))


def told_kin(g):
    woman = g.chance(0.5)
    teller = (
        noun_phrase(g.pick(FEMALE_NAMES if woman else MALE_NAMES))
        if g.chance(0.5)
        else g.person(g.pick(WOMEN if woman else MEN))
    )
    mine, theirs = ("she", "he") if woman else ("he", "she")
    kin = noun_phrase(("her " if woman else "his ") + g.pick(KIN_OF_WOMAN if woman else KIN_OF_MAN), teller)
    who, form = (teller, mine) if g.chance(0.5) else (kin, theirs)
    if g.chance(0.5):
        inner = copula(
            pronoun(form, who), adjective(g.pick("very tired, late, ill, wrong, right, too nervous, lucky"))
        )
    else:
        inner = clause(pronoun(form, who), *g.pick([("win", "had"), ("lose", "had")])).after(
            "obj", noun_phrase(g.pick("the race, the match, the prize"))
        )
    head = clause(teller, g.pick("tell, remind"), "past").after("iobj", kin)
    return ended(head.after("ccomp", marked(inner, "that")))


def when_met(g):
    one_is_woman = g.chance(0.5)
    one = noun_phrase("the " + g.pick("queen, actress, princess" if one_is_woman else "king, prince, monk"))
    many = noun_phrase("the " + g.pick(MANY))
    first, second = (one, many) if g.chance(0.5) else (many, one)
    inner = comma_after(when(clause(first, g.pick("meet, see, hear"), "past").after("obj", second)))
    subject, other = ("she", "her") if one_is_woman else ("he", "him")
    if g.chance(0.5):
        words = (pronoun(subject, one), pronoun("them", many))
    else:
        words = (pronoun("they", many), pronoun(other, one))
    head = clause(words[0], g.pick("greet, thank, follow, call, praise"), "past", first=[("advcl", inner)])
    return ended(head.after("obj", words[1]))


def bought_but(g):
    buyer, woman = (g.pick(WOMEN), True) if g.chance(0.5) else (g.pick(MEN), False)
    who, thing = g.person(buyer), noun_phrase(with_article(g.pick(ONE_THING)))
    seller = prepositional(
        "from " + ("her " if woman else "his ") + g.pick("uncle, neighbour, cousin, teacher"), who
    )
    head = clause(who, "buy", g.pick("past, had")).after("obj", thing).after("obl", seller)
    if g.chance(0.6):
        other = clause(
            pronoun("it", thing),
            g.pick("break, disappear, vanish, fall"),
            "past",
            adverb=g.pick([None, "soon", "suddenly"]),
        )
        if other.lemma == "fall":
            other.after("advmod", Word("apart", "ADV"))
    else:
        other = clause(pronoun("she" if woman else "he", who), g.pick("sell, lose, hate"), "past").after(
            "obj", pronoun("it", thing)
        )
    return ended(joined(head, other, "but", comma=True))


def showed_before(g):
    teacher, many = noun_phrase(f"the {g.pick(SCHOOL)}"), noun_phrase("the " + g.pick(MANY))
    thing = noun_phrase(f"the {g.pick('map, new room, picture, exit, red book')}")
    head = clause(
        teacher, g.pick("show, give") if thing.form in ("map", "picture", "book") else "show", "past"
    )
    head.after("iobj", many).after("obj", thing)
    if g.chance(0.6):
        inner = clause(pronoun("they", many), g.pick("leave, see"), "past").after(
            "obj", noun_phrase("the " + g.pick("building, exhibition, hall"))
        )
    else:
        inner = clause(pronoun("they", many), "ask", "could").after(
            "obl", prepositional("for " + g.pick("help, advice"))
        )
    return ended(head.after("advcl", marked(inner, "before")))


def sold_because(g):
    companies, thing = (
        noun_phrase("the " + g.pick("owners, brothers, farmers, partners, sisters")),
        noun_phrase("the " + g.pick("factory, hotel, mill, ship, restaurant")),
    )
    head = clause(companies, g.pick("sell, close, leave"), g.pick("past, had")).after("obj", thing)
    if g.chance(0.4):
        head.after("obl", prepositional(g.pick("in the spring, after the war, on Monday")))
    if g.chance(0.5):
        inner = clause(pronoun("they", companies), g.pick("need, owe, want")).after(
            "obj", noun_phrase("money")
        )
        if inner.lemma == "owe":
            inner.after("obl", prepositional("to the bank"))
    else:
        inner = copula(
            pronoun("it", thing), adjective(g.pick("too old, too small, very expensive, always empty"))
        )
    return ended(head.after("advcl", marked(inner, "because")))


def found_gave(g):
    thing = noun_phrase("the " + g.pick("key, ring, letter, wallet, photograph"))
    relative = clause(Word("who", "PRON"), g.pick("find, steal, hide"), "had").after("obj", thing)
    person = noun_phrase("the " + g.pick("man, woman, boy, girl, stranger")).after("acl:relcl", relative)
    head = clause(person, g.pick("give, show"), "past").after("obj", pronoun("it", thing))
    return ended(
        head.after("obl", prepositional(f"to the {g.pick('police, judge, captain, teacher, guard')}"))
    )


def self_made(g):
    (one, form, *_), _ = pair(g)
    verb = g.pick("admire, see, draw, hurt, describe")
    place = {"admire": "in the mirror", "see": "in the window", "draw": "with a pencil"}.get(
        verb, "in a letter"
    )
    place = "with a knife" if verb == "hurt" else place
    self = pronoun("herself" if form == "she" else "himself", one)
    return ended(
        clause(one, verb, g.pick("past, had"), adverb=g.pick([None, "often", "once"]))
        .after("obj", self)
        .after("obl", prepositional(place))
    )


def own_things(g):
    (one, *_, mine), (other, *_) = pair(g)
    thing = noun_phrase(f"{mine} {g.pick('old coat, bicycle, keys, favourite book, camera')}", one)
    verb, case = g.pick([("lend", "to"), ("show", "to"), ("sell", "to"), ("buy", "from")])
    other.left.insert(0, ("case", Word(case, "ADP")))
    if verb == "buy":  # what one buys from somebody was not one's own before
        verb, case = "borrow", "from"
        thing = noun_phrase("a " + g.pick("coat, bicycle, tent, camera"))
        head = clause(one, verb, "past").after("obj", thing).after("obl", other)
        back = clause(None, "break", "past", adverb="soon").after("obj", pronoun("it", thing))
        return ended(joined(head, back))
    return ended(clause(one, verb, g.pick("past, will, had")).after("obj", thing).after("obl", other))


def knew_that(g):
    many = noun_phrase("the " + g.pick(MANY))
    boss = noun_phrase("the " + g.pick("captain, director, teacher, queen, mayor"))
    inner = marked(
        clause(boss, g.pick("like, need, trust, admire, miss")).after("obj", pronoun("them", many)), "that"
    )
    head = clause(many, g.pick("know, believe, hope, think"), adverb=g.pick([None, "always", "secretly"]))
    return ended(head.after("ccomp", inner))


def although_its(g):
    thing = noun_phrase("the " + g.pick("house, castle, church, ship, theatre"))
    part = {"house": "roof", "castle": "walls", "church": "tower", "ship": "engine", "theatre": "seats"}[
        thing.form
    ]
    owner = noun_phrase("the " + g.pick("family, tourists, workers, director"))
    inner = marked(
        copula(
            noun_phrase(f"its {part}", thing), adjective(g.pick("very old, broken, quite dirty, damaged"))
        ),
        "although",
    )
    return ended(
        clause(owner, g.pick("love, like, admire, praise"), "past").after("obj", thing).after("advcl", inner)
    )


def blamed_because(g):
    (one, *_, mine), (other, form, *_) = pair(g)
    inner = clause(pronoun(form, other), g.pick("sell, lose, break"), "had")
    inner.after("obj", noun_phrase(f"{mine} {g.pick('watch, bicycle, camera, guitar')}", one))
    return ended(
        clause(one, g.pick("avoid, blame, scold"))
        .after("obj", other)
        .after("advcl", marked(inner, "because"))
    )


TEMPLATES = [
    plain, fronted, adjective_chain, two_objects, passive_by, passive_alone, yes_no, what_question, why_question,
    subject_relative, object_relative, far_subject, noun_with_place, said_that, told_that, although_it_was, when_before,
    want_to, in_order_to, two_subjects, two_verbs, three_things, particle_before, particle_after, there_was, owner_of,
    object_of_owner, did_not, sitting, by_name, is_a, order, degree,
    asked_whether, told_kin, when_met, bought_but, showed_before, sold_because, found_gave, self_made, own_things,
    knew_that, although_its, blamed_because,
]  # fmt: skip

# ------------------------------------------------------------------------------------------- written by hand

# form/UPOS/head/relation, then /lemma where it is not the form in small letters, and @ID for an antecedent. What is
# written without a space before it begins with "+" (punctuation), or with "~" if both are one written word (don't).
BY_HAND = """
The/DET/2/det river/NOUN/7/nsubj that/PRON/4/nsubj crosses/VERB/2/acl:relcl/cross our/PRON/6/nmod:poss/we town/NOUN/4/obj rises/VERB/0/root/rise every/DET/9/det spring/NOUN/7/obl +./PUNCT/7/punct
Nobody/PRON/2/nsubj knew/VERB/0/root/know why/ADV/6/advmod the/DET/5/det bell/NOUN/6/nsubj rang/VERB/2/ccomp/ring at/ADP/8/case midnight/NOUN/6/obl +./PUNCT/2/punct
What/PRON/2/nsubj happened/VERB/0/root/happen to/ADP/6/case the/DET/6/det yellow/ADJ/6/amod boat/NOUN/2/obl that/PRON/10/nsubj:pass was/AUX/10/aux:pass/be always/ADV/10/advmod tied/VERB/6/acl:relcl/tie to/ADP/13/case this/DET/13/det tree/NOUN/10/obl +?/PUNCT/2/punct
Reading/VERB/6/csubj/read old/ADJ/3/amod maps/NOUN/1/obj/map is/AUX/6/cop/be great/ADJ/6/amod fun/NOUN/0/root +,/PUNCT/11/punct but/CCONJ/11/cc drawing/VERB/11/csubj/draw them/PRON/9/obj/they@3 takes/VERB/6/conj/take time/NOUN/11/obj +./PUNCT/6/punct
If/SCONJ/3/mark it/PRON/3/expl rains/VERB/8/advcl/rain tomorrow/NOUN/3/obl +,/PUNCT/3/punct we/PRON/8/nsubj will/AUX/8/aux play/VERB/0/root in/ADP/11/case the/DET/11/det gym/NOUN/8/obl +./PUNCT/8/punct
The/DET/3/det older/ADJ/3/amod/old sister/NOUN/5/nsubj always/ADV/5/advmod wanted/VERB/0/root/want to/PART/7/mark become/VERB/5/xcomp a/DET/9/det pilot/NOUN/7/xcomp +,/PUNCT/14/punct and/CCONJ/14/cc she/PRON/14/nsubj@3 finally/ADV/14/advmod did/VERB/5/conj/do +./PUNCT/5/punct
I/PRON/4/nsubj do/AUX/4/aux ~n't/PART/4/advmod/not think/VERB/0/root that/SCONJ/9/mark the/DET/7/det bus/NOUN/9/nsubj will/AUX/9/aux stop/VERB/4/ccomp here/ADV/9/advmod on/ADP/12/case Sundays/PROPN/9/obl/Sunday +./PUNCT/4/punct
Please/INTJ/4/discourse do/AUX/4/aux ~n't/PART/4/advmod/not touch/VERB/0/root the/DET/8/det freshly/ADV/7/advmod painted/VERB/8/amod/paint fence/NOUN/4/obj +!/PUNCT/4/punct
How/ADV/2/advmod many/ADJ/3/amod chairs/NOUN/6/obj/chair do/AUX/6/aux we/PRON/6/nsubj need/VERB/0/root for/ADP/10/case the/DET/10/det second/ADJ/10/amod table/NOUN/6/obl +?/PUNCT/6/punct
The/DET/2/det thief/NOUN/7/nsubj:pass who/PRON/4/nsubj broke/VERB/2/acl:relcl/break in/ADP/4/compound:prt was/AUX/7/aux:pass/be seen/VERB/0/root/see by/ADP/10/case a/DET/10/det neighbour/NOUN/7/obl:agent who/PRON/14/nsubj could/AUX/14/aux/can not/PART/14/advmod sleep/VERB/10/acl:relcl +./PUNCT/7/punct
In/ADP/3/case the/DET/3/det middle/NOUN/7/obl of/ADP/6/case the/DET/6/det lake/NOUN/3/nmod lies/VERB/0/root/lie a/DET/11/det small/ADJ/11/amod green/ADJ/11/amod island/NOUN/7/nsubj +./PUNCT/7/punct
The/DET/2/det price/NOUN/10/nsubj of/ADP/5/case fresh/ADJ/5/amod fish/NOUN/2/nmod in/ADP/8/case northern/ADJ/8/amod ports/NOUN/2/nmod/port almost/ADV/10/advmod doubled/VERB/0/root/double last/ADJ/12/amod year/NOUN/10/obl +./PUNCT/10/punct
Which/DET/2/det road/NOUN/3/nsubj leads/VERB/0/root/lead to/ADP/7/case the/DET/7/det old/ADJ/7/amod lighthouse/NOUN/3/obl +?/PUNCT/3/punct
The/DET/2/det children/NOUN/4/nsubj/child were/AUX/4/aux/be playing/VERB/0/root/play football/NOUN/4/obj when/ADV/9/advmod the/DET/8/det ball/NOUN/9/nsubj rolled/VERB/4/advcl/roll into/ADP/12/case the/DET/12/det street/NOUN/9/obl +./PUNCT/4/punct
To/PART/2/mark reach/VERB/8/advcl the/DET/4/det top/NOUN/2/obj +,/PUNCT/2/punct you/PRON/8/nsubj must/AUX/8/aux climb/VERB/0/root very/ADV/10/advmod many/ADJ/11/amod steps/NOUN/8/obj/step +./PUNCT/8/punct
Every/DET/2/det child/NOUN/3/nsubj knows/VERB/0/root/know that/SCONJ/8/mark whales/NOUN/8/nsubj/whale are/AUX/8/cop/be not/PART/8/advmod fish/NOUN/3/ccomp +./PUNCT/3/punct
The/DET/3/det new/ADJ/3/amod teacher/NOUN/5/nsubj rarely/ADV/5/advmod raises/VERB/0/root/raise her/PRON/7/nmod:poss/she@3 voice/NOUN/5/obj +,/PUNCT/13/punct because/SCONJ/13/mark her/PRON/11/nmod:poss/she@3 pupils/NOUN/13/nsubj/pupil already/ADV/13/advmod listen/VERB/5/advcl +./PUNCT/5/punct
My/PRON/2/nmod:poss/I grandparents/NOUN/4/nsubj/grandparent never/ADV/4/advmod locked/VERB/0/root/lock their/PRON/7/nmod:poss/they@2 front/ADJ/7/amod door/NOUN/4/obj +./PUNCT/4/punct
The/DET/2/det smell/NOUN/6/nsubj of/ADP/5/case warm/ADJ/5/amod bread/NOUN/2/nmod woke/VERB/0/root/wake the/DET/8/det guests/NOUN/6/obj/guest up/ADP/6/compound:prt +./PUNCT/6/punct
Although/SCONJ/6/mark the/DET/3/det engine/NOUN/6/nsubj was/AUX/6/cop/be very/ADV/6/advmod old/ADJ/12/advcl +,/PUNCT/6/punct it/PRON/12/nsubj@3 had/AUX/12/aux/have never/ADV/12/advmod once/ADV/12/advmod failed/VERB/0/root/fail +./PUNCT/12/punct
The/DET/2/det man/NOUN/7/nsubj we/PRON/4/nsubj met/VERB/2/acl:relcl/meet yesterday/NOUN/4/obl still/ADV/7/advmod owes/VERB/0/root/owe my/PRON/9/nmod:poss/I father/NOUN/7/iobj a/DET/11/det lot/NOUN/7/obj of/ADP/13/case money/NOUN/11/nmod +./PUNCT/7/punct
Has/AUX/3/aux/have anyone/PRON/3/nsubj seen/VERB/0/root/see the/DET/5/det scissors/NOUN/3/obj that/PRON/8/obj I/PRON/8/nsubj left/VERB/5/acl:relcl/leave on/ADP/12/case the/DET/12/det kitchen/NOUN/12/compound table/NOUN/8/obl +?/PUNCT/3/punct
Slowly/ADV/10/advmod and/CCONJ/4/cc very/ADV/4/advmod carefully/ADV/1/conj +,/PUNCT/1/punct the/DET/8/det two/NUM/8/nummod divers/NOUN/10/nsubj/diver had/AUX/10/aux/have lifted/VERB/0/root/lift the/DET/13/det heavy/ADJ/13/amod anchor/NOUN/10/obj +./PUNCT/10/punct
The/DET/2/det doctor/NOUN/3/nsubj asked/VERB/0/root/ask the/DET/6/det two/NUM/6/nummod brothers/NOUN/3/obj/brother whether/SCONJ/11/mark they/PRON/11/nsubj@6 had/AUX/11/aux/have already/ADV/11/advmod eaten/VERB/3/ccomp/eat something/PRON/11/obj +./PUNCT/3/punct
You/PRON/3/nsubj should/AUX/3/aux ask/VERB/0/root the/DET/5/det woman/NOUN/3/obj behind/ADP/8/case the/DET/8/det desk/NOUN/5/nmod before/SCONJ/11/mark you/PRON/11/nsubj use/VERB/3/advcl the/DET/14/det fast/ADJ/14/amod printer/NOUN/11/obj +./PUNCT/3/punct
What/PRON/9/obj did/AUX/9/aux/do the/DET/4/det captain/NOUN/9/nsubj of/ADP/8/case the/DET/8/det losing/VERB/8/amod/lose team/NOUN/4/nmod say/VERB/0/root to/ADP/12/case the/DET/12/det press/NOUN/9/obl +?/PUNCT/9/punct
The/DET/2/det letter/NOUN/9/nsubj:pass that/PRON/5/obj Julia/PROPN/5/nsubj wrote/VERB/2/acl:relcl/write has/AUX/9/aux/have never/ADV/9/advmod been/AUX/9/aux:pass/be answered/VERB/0/root/answer +,/PUNCT/14/punct so/CCONJ/14/cc she/PRON/14/nsubj@4 has/AUX/14/aux/have burned/VERB/9/conj/burn it/PRON/14/obj@2 +./PUNCT/9/punct
When/ADV/3/advmod she/PRON/3/nsubj@6 smiled/VERB/8/advcl/smile +,/PUNCT/3/punct the/DET/6/det singer/NOUN/8/nsubj suddenly/ADV/8/advmod looked/VERB/0/root/look young/ADJ/8/xcomp +./PUNCT/8/punct
The/DET/2/det light/NOUN/6/nsubj in/ADP/5/case the/DET/5/det cellar/NOUN/2/nmod went/VERB/0/root/go out/ADP/6/compound:prt again/ADV/6/advmod before/SCONJ/12/mark we/PRON/12/nsubj could/AUX/12/aux/can count/VERB/6/advcl the/DET/14/det bottles/NOUN/12/obj/bottle +./PUNCT/6/punct
Most/ADJ/2/amod/many visitors/NOUN/3/nsubj/visitor stay/VERB/0/root only/ADV/7/advmod for/ADP/7/case one/NUM/7/nummod night/NOUN/3/obl +,/PUNCT/13/punct and/CCONJ/13/cc few/ADJ/13/nsubj of/ADP/12/case them/PRON/10/nmod/they@2 return/VERB/3/conj +./PUNCT/3/punct
The/DET/2/det baker/NOUN/6/nsubj did/AUX/6/aux/do ~n't/PART/6/advmod/not really/ADV/6/advmod like/VERB/0/root the/DET/8/det marmalade/NOUN/6/obj that/PRON/13/obj her/PRON/11/nmod:poss/she@2 sister/NOUN/13/nsubj had/AUX/13/aux/have sent/VERB/8/acl:relcl/send +./PUNCT/6/punct
"""


def by_hand(line):
    """Words and their tree from a line of BY_HAND."""
    entries = []
    for part in line.split():
        form, upos, head, rest = part.split("/", 3)
        rest, _, antecedent = rest.partition("@")
        relation, _, lemma = rest.partition("/")
        joined, form = (form[0], form[1:]) if form[0] in "+~" else ("", form)
        keep = upos == "PROPN" or form == "I"
        word = Word(form, upos, lemma or (form if keep else form.lower()), glued=joined == "~")
        entries.append((word, int(head), relation, int(antecedent or 0)))
    words = [word for word, *_ in entries]
    for word, _, _, antecedent in entries:
        word.antecedent = words[antecedent - 1] if antecedent else None
    return [(word, relation, words[head - 1] if head else None) for word, head, relation, _ in entries]


# ------------------------------------------------------------------------------------------------- the format


def written(flat, number):
    """One sentence in CoNLL-U: its comments, then a line of ten columns for each word."""
    words = [word for word, _, _ in flat]
    place = {id(word): index for index, word in enumerate(words, start=1)}
    if words[0].upos != "PROPN":
        words[0].form = words[0].form[0].upper() + words[0].form[1:]
    lines, text, index = [], "", 0
    while index < len(flat):
        group = [index]  # words that are written as one, such as "did" and "n't"
        while group[-1] + 1 < len(flat) and words[group[-1] + 1].glued:
            group.append(group[-1] + 1)
        last = index + len(group) == len(flat)
        spaced = not last and words[group[-1] + 1].upos != "PUNCT"
        surface = "".join(words[member].form for member in group)
        text += surface + (" " if spaced else "")
        no_space = [] if spaced or last else ["SpaceAfter=No"]
        if len(group) > 1:
            misc = "|".join(no_space) or "_"
            lines.append(f"{index + 1}-{group[-1] + 1}\t{surface}" + "\t_" * 7 + f"\t{misc}")
        for member in group:
            word, relation, head = flat[member]
            misc = [f"Antecedent={place[id(word.antecedent)]}"] if word.antecedent else []
            misc = "|".join(misc + (no_space if len(group) == 1 else [])) or "_"
            head = place[id(head)] if head else 0
            lines.append(
                f"{member + 1}\t{word.form}\t{word.lemma}\t{word.upos}\t_\t_\t{head}\t{relation}\t_\t{misc}"
            )
        index += len(group)
    return text, "\n".join([f"# sent_id = course-{number:04}", f"# text = {text}", *lines]) + "\n"


def treebank(seed=2026):
    """The whole file as text."""
    grammar, sentences, seen = Grammar(seed), [], set()
    for template in TEMPLATES:
        made = tries = 0
        wanted = PER_TEMPLATE + MORE.get(template.__name__, 0)
        while made < wanted and tries < 20 * wanted:
            tries += 1
            text, lines = written(list(template(grammar).flat()), len(sentences) + 1)
            if text not in seen:
                seen.add(text)
                sentences.append(lines)
                made += 1
    for line in BY_HAND.strip().splitlines():
        sentences.append(written(by_hand(line), len(sentences) + 1)[1])
    return HEADER + "\n".join(sentences) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        texts = [line for line in treebank().splitlines() if line.startswith("# text")]
        step = len(texts) / int(sys.argv[1])
        print(*(texts[int(index * step)] for index in range(int(sys.argv[1]))), sep="\n")
    else:
        TARGET.write_bytes(treebank().encode())
