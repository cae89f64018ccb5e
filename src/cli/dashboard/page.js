"use strict";
/* The page of `simba dashboard`. Text from the store becomes text nodes only, never markup. The letters of a row are
 * those of src/cli/dash_json.c. Only the rows on the screen have elements. */

const HOUR = 3600000, KEPT_TERMS = 400, BARS_MAX = 240;
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7a7a7a"]; /* Okabe, Ito */
const DARK_TEXT = new Set(["#e69f00", "#56b4e9", "#f0e442", "#cc79a7"]);
const ENDS = ["released", "handed over", "lost: its lease ran out"];
const SORTS = ["mutex", "owner", "since", "lease", "waiters", "run", "fence"];

const $ = (id) => document.getElementById(id);
const state = {
  rows: new Map(), shown: [], head: null, offset: 0, spans: [], watched: 0, controls: false, silent: 0, error: false,
  sort: "mutex", up: true, filter: "", which: "recent", span: 900000, end: null, picked: null, open: null, dirty: true,
};

/* ---- Small things ---- */

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

const now = () => Date.now() + state.offset;
const two = (number) => String(number).padStart(2, "0");

function clock(at, exact) {
  const date = new Date(at);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return exact ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

function duration(ms) {
  const s = ms / 1000;
  if (s < 0) return "0s";
  if (s < 10) return `${s.toFixed(1)}s`;
  if (s < 60) return `${Math.floor(s)}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${two(Math.floor(s % 60))}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two(Math.floor(s % 3600 / 60))}m`;
  return `${Math.floor(s / 86400)}d${Math.floor(s % 86400 / 3600)}h`;
}

function ago(at) {
  const left = at - now();
  return left > 0 ? `in ${duration(left)}` : `${duration(-left)} ago`;
}

/* Each owner has a colour, by the part of its id that stays over restarts, and a pattern where there are more owners
 * than colours. */
const owners = new Map();
function paint(target, id) {
  const owner = shortName(id);
  if (!owners.has(owner)) {
    if (owners.size > 20000) owners.clear();
    owners.set(owner, owners.size);
  }
  const place = owners.get(owner), color = COLORS[place % COLORS.length], round = Math.floor(place / COLORS.length) % 4;
  target.style.background = round === 0 ? color
    : `repeating-linear-gradient(${[0, 45, 135, 90][round]}deg, ${color} 0 5px, rgba(255,255,255,.35) 5px 7px), ${color}`;
  target.style.color = DARK_TEXT.has(color) ? "#111" : "#fff";
}

/* ---- What the server tells ---- */

function merge(update) {
  let row = state.rows.get(update.m);
  const news = update.e || [];
  if (!row) {
    row = { m: update.m, terms: [] };
    state.rows.set(update.m, row);
  }
  const terms = news.concat(row.terms).slice(0, KEPT_TERMS);
  for (const key of ["o", "n", "h", "d", "s", "x", "f", "w", "q", "r", "y"]) row[key] = update[key];
  row.terms = terms;
  row.text = `${row.m}\n${row.o || ""}`.toLowerCase();
}

function take(head) {
  state.head = head;
  state.offset = head.now - Date.now();
  state.spans = head.spans;
  state.silent = Date.now();
  state.error = false;
  for (const update of head.rows) merge(update);
  state.dirty = true;
  if (head.rows.some((update) => update.m === state.open)) fillPanel();
}

let source = null;
function connect() {
  if (source) source.close();
  source = new EventSource("events");
  source.addEventListener("all", (event) => {
    const head = JSON.parse(event.data);
    state.rows.clear();
    state.watched = head.watched;
    state.controls = head.controls;
    state.store = head.store;
    take(head);
    render();
  });
  source.addEventListener("some", (event) => {
    const head = JSON.parse(event.data);
    if (!state.store || !state.watched) { connect(); return; }
    take(head);
    if (head.count < state.rows.size && now() - (state.again || 0) > 5000) {
      state.again = now();
      connect();
    }
  });
  source.addEventListener("done", (event) => {
    const done = JSON.parse(event.data);
    const what = done.what === "release" ? "taken from" : "asked to hand over:";
    say(done.failure ? `${done.mutex}: ${done.failure}` : `${done.mutex} ${what} ${done.owner}`);
  });
  source.onerror = () => {
    state.error = true;
    state.dirty = true;
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

function say(text) {
  $("spoken").textContent = text;
  const tip = $("tip");
  tip.replaceChildren(element("b", "", text));
  tip.style.left = "16px";
  tip.style.top = `${innerHeight - 70}px`;
  tip.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { tip.hidden = true; }, 6000);
}

/* ---- Which rows, in which order ---- */

function isShown(row) {
  if (state.filter && !row.text.includes(state.filter)) return false;
  if (state.which === "all" || row.o || row.w > 0) return true;
  return state.which === "recent" && row.terms.length > 0 && row.terms[0][3] > now() - HOUR;
}

function sortKey(row) {
  switch (state.sort) {
    case "owner": return row.o || "\uffff";
    case "since": return row.o ? row.s : Infinity;
    case "lease": return row.o ? row.x || Infinity : Infinity;
    case "waiters": return -(row.w || 0);
    case "run": return row.y || (row.r ? row.r[2] : Infinity);
    case "fence": return row.o ? -Number(row.f) : Infinity;
    default: return row.m;
  }
}

function arrange() {
  const way = state.up ? 1 : -1;
  const keyed = [];
  for (const row of state.rows.values()) if (isShown(row)) keyed.push([sortKey(row), row]);
  keyed.sort((a, b) => (a[0] < b[0] ? -way : a[0] > b[0] ? way : a[1].m < b[1].m ? -1 : 1));
  state.shown = keyed.map((pair) => pair[1]);
}

function sortBy(name) {
  state.up = state.sort === name ? !state.up : true;
  state.sort = name;
  state.dirty = true;
  render();
}

/* ---- The timeline ---- */

const viewEnd = () => (state.end === null ? now() : state.end);

function zoom(span, end) {
  state.span = Math.min(Math.max(span, 2000), HOUR);
  state.end = end === undefined ? state.end : end;
  if (state.end !== null) state.end = Math.max(state.end, now() - HOUR + state.span);
  if (state.end !== null && state.end >= now() - 200) state.end = null;
  for (const button of document.querySelectorAll("#spans button"))
    button.setAttribute("aria-pressed", String(Number(button.dataset.span) === state.span && state.end === null));
  $("live").hidden = state.end === null;
  state.dirty = true;
  render();
}

function mark(line, name, from, to, start) {
  const made = element("i", name);
  const scale = 100 / state.span;
  made.style.left = `${((Math.max(from, start) - start) * scale).toFixed(3)}%`;
  if (to !== undefined) made.style.width = `${((to - Math.max(from, start)) * scale).toFixed(3)}%`;
  line.append(made);
  return made;
}

/* The terms of a row, the latest first, the present one included. */
function termsOf(row) {
  const present = row.o ? [[row.o, row.f, row.s, Infinity, -1]] : [];
  return present.concat(row.terms);
}

function drawTerm(line, term, start, end, width) {
  const [owner, fence, begin, stop] = term;
  const bar = mark(line, stop === Infinity ? "bar open" : "bar", begin, Math.min(stop, end), start);
  bar.dataset.owner = owner;
  paint(bar, owner);
  bar.style.minWidth = "2px";
  if ((Math.min(stop, end) - Math.max(begin, start)) / state.span * width > 60) bar.textContent = shortName(owner);
  return bar;
}

function drawLine(line, row) {
  const end = viewEnd(), start = end - state.span, width = line.clientWidth || 400;
  const terms = termsOf(row);
  line.replaceChildren();
  let later = null, bars = 0, edge = Infinity;
  for (const term of terms) {
    const [, , begin, stop, how] = term;
    if (stop < start && !(how === 2 && (later === null || later[2] > start))) break;
    if (begin < end) {
      const left = (begin - start) / state.span * width;
      if (bars < BARS_MAX && (left < edge - 1 || bars === 0)) {
        drawTerm(line, term, start, end, width);
        edge = Math.min(left, edge);
        bars++;
      }
      if (how === 2) {
        const until = later ? later[2] : now();
        if (until - stop > 100) mark(line, "gap", stop, Math.min(until, end), start);
        if (stop > start && stop < end) mark(line, "lost", stop, undefined, start);
      } else if (how === 1 && stop > start && stop < end) {
        mark(line, "handed", stop, undefined, start);
      }
    }
    later = term;
  }
  if (state.watched > start) mark(line, "before", start, Math.min(state.watched, end), start);
  for (const [from, to] of state.spans)
    if (from < end && (to || end) > start) mark(line, "away", from, Math.min(to || end, end), start);
}

function shortName(owner) {
  const note = / \((.*)\)$/.exec(owner);
  const id = note ? owner.slice(0, note.index) : owner;
  const parts = /^(\d+:\d+)@(.*)~\w{6}$/.exec(id);
  if (parts) return `${parts[2]} ${parts[1].replace(/^0:/, "")}`;
  return id.replace(/~\w{6}$/, "");
}

function drawAxis() {
  const axis = $("axis"), end = viewEnd(), start = end - state.span, width = axis.clientWidth || 400;
  const steps = [1000, 5000, 10000, 30000, 60000, 120000, 300000, 600000, 900000, 1800000];
  const step = steps.find((one) => one / state.span * width > 74) || 3600000;
  const zone = new Date(end).getTimezoneOffset() * 60000;
  axis.replaceChildren();
  for (let at = Math.ceil((start - zone) / step) * step + zone; at <= end; at += step) {
    const place = (at - start) / state.span;
    if (place * width < 22 || (1 - place) * width < 22) continue;
    const label = element("span", "", step < 60000 ? clock(at) : clock(at).slice(0, 5));
    label.style.left = `${place * 100}%`;
    axis.append(label);
  }
}

/* ---- Rows ---- */

const pool = [];

function makeRow() {
  const made = element("div", "row");
  made.setAttribute("role", "row");
  const cell = (name) => {
    const one = element("div", name);
    one.setAttribute("role", "cell");
    made.append(one);
    return one;
  };
  const parts = { node: made, mutex: cell("c-mutex"), owner: cell("c-owner"), since: cell("c-since"), lease: cell("c-lease"),
    fence: cell("c-fence"), wait: cell("c-wait"), run: cell("c-run") };
  parts.who = element("span");
  parts.chip = element("i", "chip");
  const who = element("div", "who");
  who.append(parts.chip, parts.who);
  parts.small = element("small");
  parts.owner.append(who, parts.small);
  parts.track = element("div", "lease");
  parts.level = element("i");
  parts.track.append(parts.level);
  parts.left = element("small");
  parts.lease.append(parts.track, parts.left);
  parts.runText = element("span");
  parts.runNext = element("small");
  parts.run.append(parts.runText, parts.runNext);
  parts.line = element("div", "line");
  cell("c-time").append(parts.line);
  made.addEventListener("click", (event) => {
    if (event.target.closest(".line") && state.dragged) return;
    pick(parts.row.m);
    openPanel(parts.row.m);
  });
  return parts;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function fillLease(parts, row) {
  const has = Boolean(row.o && row.x), left = has ? row.x - now() : 0;
  parts.track.hidden = !has;
  setText(parts.left, !row.o ? "" : !has ? "session" : left > 0 ? duration(left) : "over");
  if (!has) return;
  row.longest = Math.max(row.longest || 1, left);
  const part = Math.max(0, Math.min(1, left / row.longest));
  parts.level.style.width = `${(part * 100).toFixed(1)}%`;
  parts.track.className = part < 0.25 ? "lease late" : "lease";
}

function runState(run) {
  if (run[0] === 1) return ["running", ""];
  if (run[0] === 3) return ["stopped", "failed"];
  return run[1] === 0 ? ["ok", ""] : [`exit ${run[1]}`, "failed"];
}

function fillRuns(parts, row) {
  setText(parts.runText, row.r ? `${runState(row.r)[0]} ${ago(row.r[3] || row.r[2])}` : "");
  parts.runText.className = row.r ? runState(row.r)[1] : "";
  setText(parts.runNext, row.y ? `next ${ago(row.y)}` : "");
}

function fillTimes(parts) {
  const row = parts.row;
  setText(parts.since, row.o ? duration(now() - row.s) : "");
  fillLease(parts, row);
  fillRuns(parts, row);
}

function fillRow(parts, row) {
  parts.row = row;
  parts.node.dataset.mutex = row.m;
  setText(parts.mutex, row.m);
  parts.mutex.title = row.m;
  parts.chip.hidden = !row.o;
  if (row.o) paint(parts.chip, row.o);
  parts.who.className = row.o ? "" : "free";
  setText(parts.who, row.o ? row.n || row.o : "free");
  parts.owner.title = row.o || "";
  setText(parts.small, [row.h, row.d].filter(Boolean).join(" \u00b7 "));
  setText(parts.fence, row.o && row.f !== "0" ? row.f : "");
  setText(parts.wait, row.w > 0 ? String(row.w) : "");
  parts.wait.className = row.w > 0 ? "c-wait some-wait" : "c-wait";
  parts.wait.title = row.w > 0 && row.q ? `the first waits for ${duration(now() - row.q)}` : "";
  parts.node.classList.toggle("picked", row.m === state.picked);
  parts.node.setAttribute("aria-selected", String(row.m === state.picked));
  fillTimes(parts);
  drawLine(parts.line, row);
}

const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));

function drawRows() {
  const scroll = $("scroll"), height = rowHeight();
  const first = Math.max(0, Math.floor(scroll.scrollTop / height) - 2);
  const count = Math.min(state.shown.length - first, Math.ceil(scroll.clientHeight / height) + 4);
  $("space").style.height = `${state.shown.length * height}px`;
  while (pool.length < count) {
    pool.push(makeRow());
    $("space").append(pool[pool.length - 1].node);
  }
  pool.forEach((parts, place) => {
    parts.node.hidden = place >= count;
    if (place >= count) { parts.row = null; return; }
    parts.node.style.top = `${(first + place) * height}px`;
    fillRow(parts, state.shown[first + place]);
  });
  document.documentElement.style.setProperty("--bar", `${scroll.offsetWidth - scroll.clientWidth}px`);
}

/* ---- The head and the banner ---- */

function drawHead() {
  let held = 0, waiting = 0;
  for (const row of state.rows.values()) {
    if (row.o) held++;
    if (row.w > 0) waiting += row.w;
  }
  setText($("held"), `${held}`);
  setText($("waiting"), `${waiting}`);
  for (const name of ["handovers", "losses"]) {
    const count = state.head ? state.head[name] : 0, label = $(name).previousElementSibling;
    setText($(name), `${count}`);
    setText(label, count === 1 ? label.dataset.one : label.dataset.many);
  }
  $("losses-box").className = state.head && state.head.losses > 0 ? "some" : "";
  setText($("store"), state.store || "");
  $("store").title = state.store || "";
  document.title = `${held} held - Simba`;
  for (const button of document.querySelectorAll("#head button")) {
    if (button.dataset.sort === state.sort) button.setAttribute("aria-sort", state.up ? "ascending" : "descending");
    else button.removeAttribute("aria-sort");
  }
  const empty = $("empty");
  empty.hidden = state.shown.length > 0 || !state.watched;
  setText(empty, state.rows.size === 0 ? "The store has no mutexes yet." : state.filter
    ? "No mutex matches the filter." : "No mutex is held, nor was in the last hour. Choose \u201call\u201d to see the free ones.");
}

function drawBanner() {
  const banner = $("banner"), head = state.head;
  const mute = state.error && Date.now() - state.silent > 2500;
  const away = head && head.away;
  banner.hidden = !mute && !away && !(head && head.cut);
  if (banner.hidden) return;
  const title = mute ? "The dashboard does not answer" : away ? "The store is away" : "Not all mutexes are shown";
  const since = mute ? state.silent + state.offset : away;
  const parts = [element("b", "", since && (mute || away) ? `${title} since ${clock(since)}` : title)];
  const why = mute ? "What is shown is of that time. The page connects again by itself."
    : away ? head.why : "There are more than the dashboard keeps.";
  parts.push(document.createTextNode(` \u2014 ${why}`));
  if (banner.textContent !== parts.map((part) => part.textContent).join("")) banner.replaceChildren(...parts);
}

function render() {
  if (state.dirty) arrange();
  state.dirty = false;
  drawHead();
  drawBanner();
  drawAxis();
  drawRows();
}

/* ---- One mutex ---- */

function pick(mutex) {
  state.picked = mutex;
  drawRows();
}

function fact(list, name, value) {
  if (!value) return;
  list.append(element("dt", "", name), element("dd", "", value));
}

function listItem(place, owner, right, small, bad) {
  const item = element("li"), chip = element("i", "chip");
  paint(chip, owner);
  item.append(place === null ? chip : element("span", "place", String(place)), element("span", "", owner));
  if (right) item.append(element("span", bad ? "tag bad" : "tag", right));
  if (small) item.append(element("small", "", small));
  return item;
}

function openPanel(mutex) {
  state.open = mutex;
  state.queue = null;
  getSelection().removeAllRanges();
  $("panel").hidden = false;
  fillPanel();
  loadQueue();
}

function closePanel() {
  state.open = null;
  $("panel").hidden = true;
  $("scroll").focus();
}

async function loadQueue() {
  const mutex = state.open;
  if (mutex === null) return;
  try {
    const answer = await fetch(`queue?mutex=${encodeURIComponent(mutex)}`);
    if (answer.ok && mutex === state.open) state.queue = await answer.json();
  } catch (error) { state.queue = null; }
  if (mutex === state.open) fillPanel();
}

function queueList() {
  const queue = state.queue;
  if (!queue || !queue.known) return element("p", "free", "asking the store");
  if (!queue.told) return element("p", "free", "this store keeps no queue");
  if (queue.queue.length === 0) return element("p", "free", "nobody waits");
  const list = element("ol");
  queue.queue.forEach(([id, since], place) => {
    list.append(listItem(place + 1, id, since ? duration(now() - since) : "", ""));
  });
  return list;
}

function historyList(row) {
  const list = element("ol");
  for (const [owner, fence, begin, end, how] of termsOf(row).slice(0, 60)) {
    const until = end === Infinity ? "now" : clock(end, true);
    const token = fence !== "0" ? `, token ${fence}` : "";
    list.append(listItem(null, owner, end === Infinity ? "owns" : ENDS[how].split(":")[0],
      `${clock(begin, true)} \u2013 ${until}, ${duration((end === Infinity ? now() : end) - begin)}${token}`, how === 2));
  }
  return list.childElementCount ? list : element("p", "free", "no term in the last hour");
}

/* What is pressed, or marked to be copied, must not be replaced. */
function isUsed(panel) {
  const marked = getSelection();
  return state.pressed || (!marked.isCollapsed && panel.contains(marked.anchorNode));
}

function fillPanel() {
  const panel = $("panel"), row = state.rows.get(state.open);
  if (!row || isUsed(panel)) return;
  const focused = panel.contains(document.activeElement) ? document.activeElement.className : "";
  const top = panel.scrollTop, close = element("button", "close", "\u2715"), facts = element("dl", "facts");
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", closePanel);
  fact(facts, "owner", row.o || "free");
  if (row.o) {
    fact(facts, "host", row.h);
    fact(facts, "note", row.d);
    fact(facts, "since", `${clock(row.s, true)} (${duration(now() - row.s)})`);
    fact(facts, "token", row.f !== "0" ? row.f : "not known");
    fact(facts, "lease", row.x ? `ends at ${clock(row.x)} unless it is renewed` : "the session of its owner");
  }
  if (row.r) fact(facts, "last run", `${runState(row.r)[0]}, began ${clock(row.r[2])} (${ago(row.r[2])})`);
  if (row.y) fact(facts, "next run", `${clock(row.y)} (${ago(row.y)})`);
  const parts = [element("h2", "", row.m), close, facts];
  if (state.controls && row.o) parts.push(actions(row));
  parts.push(element("h3", "", "Waiting"), queueList(), element("h3", "", "Terms of the last hour"), historyList(row));
  panel.replaceChildren(...parts);
  panel.scrollTop = top;
  if (focused) (panel.getElementsByClassName(focused)[0] || close).focus();
}

/* ---- Handing over and releasing ---- */

function actions(row) {
  const box = element("div", "actions");
  const hand = element("button", "hand", "Hand over\u2026"), free = element("button", "danger", "Release\u2026");
  hand.addEventListener("click", () => confirmAction("handover", row));
  free.addEventListener("click", () => confirmAction("release", row));
  box.append(hand, free);
  return box;
}

function confirmAction(what, row) {
  const dialog = $("ask"), form = element("form"), token = element("input"), cancel = element("button", "", "Cancel");
  const sure = element("button", "danger", what === "release" ? "Release it" : "Ask the owner");
  const { m: mutex, o: owner, f: fence } = row;
  token.type = "password";
  token.placeholder = "the token of this dashboard";
  token.setAttribute("aria-label", "Token");
  token.autocomplete = "off";
  token.required = true;
  cancel.type = "button";
  cancel.addEventListener("click", () => dialog.close());
  form.append(token, cancel, sure);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams({ mutex, owner, fence });
    const answer = await fetch(`${what}?${query}`, { method: "POST", headers: { "X-Simba-Token": token.value } })
      .catch(() => null);
    dialog.close();
    if (!answer || answer.status !== 202) say(answer ? (await answer.text()).trim() : "the dashboard does not answer");
  });
  dialog.replaceChildren(
    element("h2", "", what === "release" ? `Take ${mutex} from its owner?` : `Ask the owner of ${mutex} to finish?`),
    element("p", "", `It is owned by ${owner}, token ${fence}.`),
    element("p", "", what === "release"
      ? "The next waiter gets it at once. The owner notices only at its next renewal: both may work until then."
      : "Nothing is taken by force: the owner stops its work and releases, a ttl later at most."), form);
  dialog.showModal();
  token.focus();
}

/* ---- The mouse on the timeline ---- */

function timeAt(line, x) {
  const box = line.getBoundingClientRect();
  return viewEnd() - state.span + (x - box.left) / box.width * state.span;
}

function lineText(row, at) {
  const margin = state.span / 150;
  const span = state.spans.find(([from, to]) => at >= from && at <= (to || Infinity));
  if (span) return ["Not watched", `${clock(span[0])} \u2013 ${span[1] ? clock(span[1]) : "now"}`];
  const term = termsOf(row).find(([, , begin, end]) => at >= begin - margin && at <= end + margin);
  if (!term) return at < state.watched ? ["Before the dashboard was started", clock(at)] : ["Free", clock(at, true)];
  const [owner, fence, begin, end, how] = term;
  const lines = [owner, `${clock(begin, true)} \u2013 ${end === Infinity ? "now" : clock(end, true)}  (${
    duration((end === Infinity ? now() : end) - begin)})`];
  if (fence !== "0") lines.push(`token ${fence}`);
  if (how >= 0) lines.push(ENDS[how]);
  return lines;
}

function showTip(event, row) {
  const tip = $("tip"), lines = lineText(row, timeAt(event.target.closest(".line"), event.clientX));
  tip.replaceChildren(...lines.map((text, place) => element(place ? "div" : "b", "", text)));
  tip.hidden = false;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
  const below = event.clientY + 18;
  tip.style.top = `${below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : below}px`;
}

let drag = null;

function onMove(event) {
  const line = event.target.closest ? event.target.closest(".line") : null;
  const parts = line && pool.find((one) => one.line === line);
  if (drag) {
    const to = timeAt(drag.line, event.clientX);
    state.dragged = Math.abs(event.clientX - drag.x) > 4;
    drag.to = to;
    if (state.dragged) {
      if (!drag.node || !drag.node.isConnected) drag.node = mark(drag.line, "picking", 0, 0, 0);
      const start = viewEnd() - state.span, from = Math.min(drag.from, to);
      drag.node.style.left = `${(from - start) / state.span * 100}%`;
      drag.node.style.width = `${Math.abs(to - drag.from) / state.span * 100}%`;
    }
  }
  if (parts && parts.row) showTip(event, parts.row);
  else if (!say.timer || $("tip").style.left !== "16px") $("tip").hidden = true;
}

function onDown(event) {
  const line = event.target.closest(".line");
  state.pressed = true;
  state.dragged = false;
  if (!line || event.button !== 0) return;
  drag = { line, x: event.clientX, from: timeAt(line, event.clientX) };
}

function onUp() {
  state.pressed = false;
  if (drag && state.dragged && Math.abs(drag.to - drag.from) > 500)
    zoom(Math.abs(drag.to - drag.from), Math.max(drag.to, drag.from));
  drag = null;
}

/* ---- Keys ---- */

function movePick(by) {
  const place = state.shown.findIndex((row) => row.m === state.picked);
  const next = Math.max(0, Math.min(state.shown.length - 1, place < 0 ? 0 : place + by));
  const row = state.shown[next], scroll = $("scroll"), height = rowHeight();
  if (!row) return;
  if (next * height < scroll.scrollTop) scroll.scrollTop = next * height;
  if ((next + 1) * height > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = (next + 1) * height - scroll.clientHeight;
  pick(row.m);
  if (state.open !== null) openPanel(row.m);
  setText($("spoken"), `${row.m}, ${row.o ? `owned by ${row.o}` : "free"}`);
}

const keys = {
  ArrowDown: () => movePick(1),
  ArrowUp: () => movePick(-1),
  PageDown: () => movePick(10),
  PageUp: () => movePick(-10),
  Home: () => movePick(-Infinity),
  End: () => movePick(Infinity),
  Enter: () => { if (state.picked !== null) openPanel(state.picked); },
  Escape: () => { if (state.open !== null) closePanel(); },
  "/": () => $("filter").focus(),
  "?": () => $("help").showModal(),
  s: () => sortBy(SORTS[(SORTS.indexOf(state.sort) + 1) % SORTS.length]),
  l: () => zoom(state.span, null),
  "+": () => zoom(state.span / 2),
  "-": () => zoom(state.span * 2),
  ArrowLeft: () => zoom(state.span, viewEnd() - state.span / 4),
  ArrowRight: () => zoom(state.span, viewEnd() + state.span / 4),
};

function onKey(event) {
  const inField = event.target.closest("input, select, dialog");
  if (event.target.id === "filter" && event.key === "Escape") $("scroll").focus();
  if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && event.target.closest("button")) return;
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

/* ---- The start ---- */

function setTheme(name) {
  document.documentElement.dataset.theme = name;
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("simba-theme"); } catch (error) { chosen = null; }
  setTheme(chosen || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => { if (!chosen) setTheme(dark.matches ? "dark" : "light"); });
  $("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    setTheme(chosen);
    try { localStorage.setItem("simba-theme", chosen); } catch (error) { /* it is not kept */ }
  });
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("filter").addEventListener("input", () => {
    state.filter = $("filter").value.toLowerCase();
    $("scroll").scrollTop = 0;
    state.dirty = true;
    render();
  });
  $("which").addEventListener("change", () => { state.which = $("which").value; state.dirty = true; render(); });
  $("live").addEventListener("click", () => zoom(state.span, null));
  for (const button of document.querySelectorAll("#spans button"))
    button.addEventListener("click", () => zoom(Number(button.dataset.span), null));
  for (const button of document.querySelectorAll("#head button"))
    button.addEventListener("click", () => sortBy(button.dataset.sort));
  $("scroll").addEventListener("scroll", drawRows);
  addEventListener("resize", render);
  addEventListener("keydown", onKey);
  addEventListener("mousemove", onMove);
  addEventListener("mousedown", onDown);
  addEventListener("mouseup", onUp);
  setInterval(() => {
    if (document.hidden || drag) return;
    if (state.dirty || state.end === null) render();
    else for (const parts of pool) if (parts.row) fillTimes(parts);
  }, 250);
  setInterval(loadQueue, 1000);
  zoom(state.span, null);
  connect();
}

start();
