"""The English word list behind the score's English axis.

Source: the 40,000 most frequent English entries of the `wordfreq` package (inflected forms are entries of their
own), minus what is there by accident. The package is frozen data, so the list is the same on every machine; a
test holds its digest.
"""

from __future__ import annotations

import re
from functools import cache

LISTED = 40_000  # how deep the frequency list is read

# Up to three letters a frequency list is mostly abbreviations and letter soup; these are the words among them.
_SHORT = """
    a i o
    ad ah am an as at ax be by do eh ex go ha he hi if in is it ma me my no of oh ok on or ow ox pa pi so to uh um
    up us we ye
    mr dr tv vs uk mrs ann ben bob dan jim joe max sam tim tom
    ace act add ado age ago ahh aid aim air ale all and ant any ape app apt arc are arm art ash ask ass ate awe
    axe aye
    bad bag ban bar bat bay bed bee beg bet bid big bin bit boo bow box boy bra bro bud bug bun bus but
    buy bye
    cab can cap car cat cod cog con cop cot cow cry cub cue cup cut
    dad dam day den dew did die dig dim din dip doc doe dog dot dry dub due dug duo dye
    ear eat ebb eel egg ego elf elk elm end era err etc eve ewe eye
    fad fan far fat fax fed fee few fig fin fir fit fix flu fly foe fog for fox fry fun fur
    gag gap gas gay gee gel gem get gig gin god got gum gun gut guy gym
    had ham has hat hay hem hen her hey hid him hip his hit hoe hog hop hot how hub hue hug huh hum hut
    ice icy ill imp ink inn ion its ivy
    jab jam jar jaw jet job jog joy jug
    keg key kid kin kit
    lab lad lag lap law lay led leg let lid lie lip lit log lot low
    mad man map mat may men met mid mix mob mom mop mow mud mug mum
    nag nah nap net new nip nod non nor not now nun nut
    oak oar oat odd off oil old one opt orb ore our out owe owl own
    pad pal pan par pat paw pay pea peg pen per pet pie pig pin pit ply pod pop pot pro pry pub pug pun pup put
    rag ram ran rap rat raw ray red rib rid rig rim rip rob rod rot row rub rug rum run rut rye
    sad sap sat saw say sea see set sew sex she shy sin sip sir sis sit six ski sky sly sob sod son sow soy spa spy
    sub sue sum sun
    tab tag tan tap tar tax tea ten the thy tie til tin tip tis toe ton too top tow toy try tub tug two
    ugh urn use van vet via vie vow wag war was wax way web wed wee wet who why wig win wit woe won wow
    yak yam yap yay yep yes yet yew you yum zap zip zoo
"""
# Everyday words of neighbouring languages, in the list through quotations: with them a page of German or
# French would pass for one third English. Words that are also English ("die", "pour") stay.
_FOREIGN = """
    alle avec bien buena bueno buenos casa chez como comme dans della delle deux dios eine
    elle ella entre esta este faire fait femme frau gens gracias haus herr hola homme jest jour kinder lange lieu
    mais maison mann mein merci mich monde nada neue nicht notre nous oder para parte pero petit seine
    sind sous temps todo tout tres trois vida ville vous weil welt wien
"""
_CONTRACTIONS = ("i'm", "i'd", "i'll", "i've", "o'clock")
_SHAPE = re.compile(r"[a-z]{2,}(?:'[a-z]+)?")
_VOWEL = re.compile(r"[aeiouy]")
_TRIPLE = re.compile(r"(.)\1\1")


@cache
def english_words() -> frozenset[str]:
    """The word list, lower case, read once per process (about 0.1 s)."""
    from wordfreq import top_n_list

    words = {
        word
        for word in top_n_list("en", LISTED, wordlist="large")
        if len(word) > 3 and _SHAPE.fullmatch(word) and _VOWEL.search(word) and not _TRIPLE.search(word)
    }
    return frozenset(words.difference(_FOREIGN.split()).union(_SHORT.split(), _CONTRACTIONS))


def is_english(word: str) -> bool:
    """Whether `word` is an English word, whatever its case; a possessive counts where its noun does.

    Only ASCII letters, with an apostrophe inside at most: numbers, accents and other scripts are no English.
    """
    if not word.isascii():
        return False
    words = english_words()
    folded = word.lower()
    return folded in words or (len(folded) > 3 and folded.endswith("'s") and folded[:-2] in words)
