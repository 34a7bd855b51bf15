// The ribbon: the log, its segments, the nodes of the tree of summaries that the header shows, and the present view, aligned by the tokens of the log.

import { byId, madeBy, make, number, span, tokens } from "./dom.js";

export function drawRibbon(state, open) {
  const places = offsets(state);
  const rows = [
    band("Log", state.log.map((bin) => ({
      ...bin, kind: `mark ${bin.kind}`, act: () => open.messages(bin.start, bin.stop),
      says: `${span(bin.start, bin.stop)}, ${bin.stop - bin.start === 1 ? kindName(bin.kind) + ", " : ""}${tokens(bin.tokens)}`,
    })), places),
    band("Segments", state.segments.map((one, at) => ({
      ...one, kind: `block ${shade(one)}`, act: () => open.block(state.segments, at, "segments"),
      says: `segment of ${span(one.start, one.stop)}, its summary ${madeBy(one)}, ${tokens(one.tokens)}`,
    })), places, "Segments are cut as the log grows."),
    band("Tree", state.blocks.map((one, at) => ({
      ...one, kind: `block ${shade(one)}${one.form === "full" ? "" : " short"}`, act: () => open.block(state.blocks, at, "tree"),
      says: `${one.rank > 0 ? "merge" : "summary"} of ${span(one.start, one.stop)} ${madeBy(one)}, ${one.form}, ${tokens(one.tokens)}`,
    })), places, "Nothing is covered: the view holds the whole log."),
    band("View", viewParts(state, open), places),
  ];
  const ribbon = byId("ribbon");
  const held = ribbon.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  ribbon.replaceChildren(...rows);
  [...ribbon.querySelectorAll("button")].find((button) => button.getAttribute("aria-label") === held)?.focus();
}

// Where a message begins, from 0 to 1: where the bin of the log ends that holds the one before.
function offsets(state) {
  const total = state.log.reduce((sum, bin) => sum + bin.tokens, 0) || 1;
  let at = 0;
  const marks = state.log.map((bin) => ({ message: bin.stop, at: (at += bin.tokens / total) }));
  return (message) => (message === 0 ? 0 : marks.find((mark) => mark.message >= message)?.at ?? 1);
}

function viewParts(state, open) {
  const pins = state.view.filter((row) => row.part === "pin" && row.message !== null && row.message < state.covered);
  const part = (kind, start, stop, says, act = () => open.messages(start, stop)) => ({ kind, start, stop, says: `${span(start, stop)} ${says}`, act });
  return [
    part("covered", 0, state.covered, `stand in the view as ${number(state.blocks.length)} summaries`, () => open.tab("view")),
    ...pins.map((row) => part("pinned", row.message, row.message + 1, `is kept word for word, ${tokens(row.tokens)}`)),
    part("raw", state.covered, state.messages, "are in the view word for word"),
  ].filter(({ start, stop }) => start < stop);
}

const shade = (block) => (block.made_by === "model" ? "model" : block.made_by === "verbatim" ? "verbatim" : "extractive");

const kindName = (kind) => (kind === "tool" ? "tool result" : kind);

function band(name, parts, places, none = "Nothing yet.") {
  const track = make("div", { class: "track", role: "group", "aria-label": name });
  parts.forEach((part, at) => {
    const button = make("button", { type: "button", class: part.kind, "aria-label": part.says, tabindex: at ? -1 : 0, onclick: part.act });
    const left = places(part.start), right = places(part.stop);
    button.style.left = `${left * 100}%`;
    button.style.width = `${Math.max(right - left, 0) * 100}%`;
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => { byId("pointed").textContent = part.says; });
    track.append(button);
  });
  if (!parts.length) track.append(make("span", { class: "none" }, none));
  track.addEventListener("keydown", move);
  return make("div", { class: "band" }, make("span", { class: "name", "aria-hidden": true }, name), track);
}

function move(event) {
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (to === undefined || at < 0 || !buttons[to]) return;
  event.preventDefault();
  buttons[at].tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
}
