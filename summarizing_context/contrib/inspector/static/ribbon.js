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
  const held = focused(ribbon);
  ribbon.replaceChildren(...rows);
  if (held) ribbon.children[held.row]?.querySelectorAll("button")[held.at]?.focus();
}

function offsets(state) {
  // Where each bin of the log begins and ends, from 0 to 1.
  const total = state.log.reduce((sum, bin) => sum + bin.tokens, 0) || 1;
  let at = 0;
  const marks = [{ message: 0, at: 0 }];
  for (const bin of state.log) {
    at += bin.tokens / total;
    marks.push({ message: bin.stop, at });
  }
  return (message) => {
    let low = 0, high = marks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (marks[middle].message < message) low = middle + 1; else high = middle;
    }
    return marks[low].at;
  };
}

function viewParts(state, open) {
  const parts = [];
  if (state.covered > 0) {
    parts.push({ start: 0, stop: state.covered, kind: "covered", act: () => open.tab("view"),
      says: `${span(0, state.covered)} stand in the view as ${number(state.blocks.length)} summaries` });
  }
  for (const row of state.view) {
    if (row.part === "pin" && row.message !== null && row.message < state.covered) {
      parts.push({ start: row.message, stop: row.message + 1, kind: "pinned", act: () => open.messages(row.message, row.message + 1),
        says: `message ${row.message} is kept word for word, ${tokens(row.tokens)}` });
    }
  }
  if (state.messages > state.covered) {
    parts.push({ start: state.covered, stop: state.messages, kind: "raw", act: () => open.messages(state.covered, state.messages),
      says: `${span(state.covered, state.messages)} are in the view word for word` });
  }
  return parts;
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

function focused(ribbon) {
  const row = [...ribbon.children].findIndex((child) => child.contains(document.activeElement));
  if (row < 0) return null;
  return { row, at: [...ribbon.children[row].querySelectorAll("button")].indexOf(document.activeElement) };
}
