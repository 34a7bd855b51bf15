"""The lines of a content about a topic, to be shown or to be read on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from summarizing_context.messages.text import LOWER_TABLE, cleaned, shown, split_lines, words_of
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.extractive.lines import STOP_WORDS


def lines_about(content: str, topic: str, max_tokens: int) -> str:
    """Return the lines that concern a topic as bullets in their order, at most `max_tokens`; empty where none does."""
    labels, texts, scores = _scored(content, topic)
    bullets = [f"- {label}: {shown(text)}" for label, text in zip(labels, texts, strict=True)]
    return "\n".join(bullets[at] for at in _chosen(bullets, scores, max_tokens))


def excerpt_about(content: str, topic: str, max_tokens: int) -> str:
    """Return an excerpt of a content about a topic, for a model: lines that name it, their neighbours, words of the
    user. No line can be taken for a label, although it may be a piece of a longer one."""
    labels, texts, scores = _scored(content, topic)
    texts = [f"\\{text}" if text.startswith("### ") else text for text in texts]
    weights = [score or int(label == "user") for score, label in zip(scores, labels, strict=True)]
    kept: list[str] = []
    label = ""
    for at in _chosen(texts, weights, max_tokens):
        if labels[at] != label:
            label = labels[at]
            kept.append(f"### {label}")
        kept.append(texts[at])
    return "\n".join(kept)


def _scored(content: str, topic: str) -> tuple[list[str], list[str], list[int]]:
    """Return the lines of a content, a long one in pieces: who speaks, what, and the score of each for a topic, for its
    own words by how rare they are, and for those of its neighbours."""
    labels: list[str] = []
    texts: list[str] = []
    words: list[bytes] = []  # of each line in lower case, with a space before and behind
    label = "record"
    for raw in content.split("\n"):
        if raw.startswith("### "):
            label = raw[4:]
            continue
        for text in split_lines(cleaned(raw)):
            labels.append(label)
            texts.append(text)
            words.append(b" %b " % text.lower().encode("utf-8", "surrogatepass").translate(LOWER_TABLE))

    # The terms are the stems of the topic's words, without stop words; scripts that part no words give pairs of signs.
    said = list(dict.fromkeys(words_of(topic.lower())))
    terms: dict[str, None] = {}
    for word in ([word for word in said if word not in STOP_WORDS] or said)[:32]:
        text = word.decode("utf-8", "surrogatepass")
        if any(char >= "\u2e80" for char in text):
            terms |= dict.fromkeys(text[at : at + 2] for at in range(max(1, len(text) - 1)))
        else:
            terms[f" {text[: max(5, len(text) - 3)]}" if len(text) >= 5 else f" {text} "] = None
    own = [0] * len(texts)
    for term in terms:
        hits = [at for at, line in enumerate(words) if term.encode("utf-8", "surrogatepass") in line]
        for at in hits:
            own[at] += 12 * ((len(texts) // len(hits)) ** 4).bit_length()  # about four times the binary logarithm
    own = [score * 3 // 2 if label == "user" else score for score, label in zip(own, labels, strict=True)]
    scores = list(own)
    for at, score in enumerate(own):
        for near, part in ((at - 2, 6), (at - 1, 3), (at + 1, 3), (at + 2, 6)) if score else ():
            if 0 <= near < len(own) and labels[near] == labels[at]:
                scores[near] = max(scores[near], score // part)
    return labels, texts, scores


def _chosen(texts: Sequence[str], scores: Sequence[int], max_tokens: int) -> list[int]:
    """Return the indices of the lines with the best scores, the newer first among equals, as far as they fit; in
    order."""
    chosen: dict[str, int] = {}
    left = max_tokens
    for at in sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: (-scores[at], -at)):
        cost = estimate_text(texts[at]) + 1
        if cost <= left and texts[at] not in chosen:
            chosen[texts[at]] = at
            left -= cost
    return sorted(chosen.values())
