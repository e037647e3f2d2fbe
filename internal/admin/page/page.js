// Triage from the page: every change is asked for first, then made through the same API that commands use, a few letters at a time.
"use strict";

const api = "/api/v1/dead-letters";
const atOnce = 6; // a browser makes no more connections to one place
const longestWait = 60; // seconds for which one letter's own time is waited for
const $ = (id) => document.getElementById(id);
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const number = (n) => n.toLocaleString("en");
const count = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

async function call(method, path, body) {
  const answer = await fetch(path, {
    method, cache: "no-store",
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body ? JSON.stringify(body) : undefined,
  }).catch(() => { throw new Error("the proxy does not answer"); });
  const text = await answer.text();
  let data = null;
  try { data = JSON.parse(text); } catch { /* a sentence */ }
  return { ok: answer.ok, status: answer.status, retryAfter: Number(answer.headers.get("Retry-After")) || 0, data, text: text.trim() };
}

// every gives the ids of all letters that a query selects, the oldest first.
async function every(query, job) {
  const ids = [];
  let cursor = "";
  do {
    const params = new URLSearchParams(query);
    params.set("limit", "1000");
    params.set("cursor", cursor);
    const page = await call("GET", api + "?" + params);
    if (!page.ok) throw new Error(page.text);
    ids.push(...page.data.dead_letters.map((letter) => letter.id));
    cursor = page.data.next;
    if (!job.stopped) say(`${count(ids.length, "letter")} so far…`);
  } while (cursor && !job.stopped);
  return ids.reverse();
}

// each takes a step for every id, a few at a time, until the job is stopped.
async function each(ids, job, step) {
  const rest = ids.values();
  let begun = 0;
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (const id of rest) {
      if (job.stopped) return;
      await step(id);
      begun++;
      if (!job.stopped) bar(begun, ids.length);
    }
  }));
}

// Reasons counts sentences, and tells the most frequent ones.
class Reasons extends Map {
  add(why) { this.set(why, (this.get(why) || 0) + 1); }
  lines(what) { return [...this].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([why, n]) => `${number(n)} ${what}: ${why}`); }
}

// rehearse asks what a replay of these letters would do, without doing it.
async function rehearse(ids, job) {
  let calls = 0, pages = 0, silent = 0, ambiguous = 0;
  const refused = new Reasons();
  await each(ids, job, async (id) => {
    const would = await call("POST", `${api}/${id}/replay?dry_run=true`);
    if (!would.ok) { refused.add(would.text); return; }
    calls += would.data.calls;
    if (would.data.pages) pages += would.data.pages; else silent++;
    if (would.data.ambiguous) ambiguous++;
  });
  const size = pages ? `, ${count(pages, "page")}${silent ? `, and ${count(silent, "call")} whose pages are not known` : ""}` : "";
  const lines = calls ? [`This makes ${count(calls, "call")}${size}, for which the provider may charge.`] : ["Nothing can be sent."];
  if (ambiguous) lines.push(`${number(ambiguous)} of them may have been done and charged already.`);
  if (ids.length > 100 && calls) lines.push("Keep this page open until it is done. `ocr-proxy dlq replay` does the same without a page.");
  return { calls, ambiguous, text: [...lines, ...refused.lines("cannot be sent")].join("\n") };
}

// run does the act to all letters. What holds the whole account is waited for: a circuit that is open, a throttle.
async function run(act, ids, words, job) {
  const done = { good: 0, failed: 0, gone: 0 };
  const failed = new Reasons(), refused = new Reasons();
  const so = () => `${number(done.good)} of ${number(ids.length)} ${acts[act].done}${done.failed ? `, ${number(done.failed)} failed again` : ""}`;
  const path = (id) => `${api}/${id}/${act}${act === "replay" && $("ask-even").checked ? "?include_ambiguous=true" : ""}`;
  await each(ids, job, async (id) => {
    for (;;) {
      const answer = await call("POST", path(id), act === "replay" ? undefined : words);
      if (answer.status === 503 || answer.status === 425 && answer.retryAfter <= longestWait) {
        for (let left = Math.max(1, Math.min(answer.retryAfter, longestWait)); left && !job.stopped; left--) {
          say(`${so()}. Waiting ${left} s: ${answer.text}`);
          await sleep(1);
        }
        if (job.stopped) return;
        continue;
      }
      if (answer.ok && act === "replay" && answer.data.status !== "resolved") { done.failed++; failed.add(answer.data.diagnostic || answer.data.outcome); }
      else if (answer.ok) done.good++;
      else if (answer.status === 404 || answer.status === 409) done.gone++;
      else refused.add(answer.text);
      job.changed ||= answer.ok;
      say(so());
      return;
    }
  });
  const lines = [`${job.stopped ? "Stopped: " : ""}${so()}.`, ...failed.lines("failed again"), ...refused.lines("not done")];
  if (done.gone) lines.push(`${number(done.gone)} were dealt with already.`);
  say(lines.join("\n"));
}

const acts = {
  replay: { name: "Replay", done: "replayed", text: "" },
  resolve: { name: "Resolve", done: "resolved", text: "Marks as done. Nothing is sent.", words: true },
  discard: { name: "Discard", done: "discarded", text: "Gives up. It stays readable among the discarded.", words: true, note: true },
};

function say(text) { $("ask-progress").textContent = text; }
function bar(value, max) { $("ask-bar").hidden = max < 2; $("ask-bar").max = max; $("ask-bar").value = value; }

// name is who decides, remembered where the browser allows it.
function name(given) {
  try {
    if (given !== undefined) localStorage.setItem("by", given);
    return localStorage.getItem("by") || "";
  } catch { return ""; }
}

let job = null; // what the open dialog is about

// ask opens the dialog for one letter, or for all that a query selects, and prepares what it needs to know before it can be answered.
async function ask(act, id, query) {
  const own = job = { act, ids: [], stopped: false, running: false, changed: false };
  const spec = acts[act];
  $("ask-form").reset();
  for (const part of $("ask-words").querySelectorAll("input")) part.disabled = !spec.words;
  $("ask-words").hidden = !spec.words;
  $("ask-even-label").hidden = true;
  $("ask-note-name").textContent = spec.note ? "Note (needed): why it is given up" : "Note";
  $("ask-by").value = name();
  $("ask-title").textContent = `${spec.name} ${id ? "this letter" : "…"}?`;
  $("ask-text").textContent = spec.text;
  $("ask-go").textContent = spec.name;
  $("ask-go").className = `go ${act}`;
  $("ask-go").hidden = false;
  $("ask-go").disabled = true;
  $("ask-end").textContent = "Cancel";
  say("");
  bar(0, 0);
  $("ask").showModal();
  try {
    own.ids = id ? [id] : await every(query, own);
    if (own.stopped) return;
    if (!id) {
      const chosen = [...new URLSearchParams(query)].filter(([key, value]) => value && key !== "status").map(([key, value]) => `${key} ${value}`);
      $("ask-title").textContent = `${spec.name} ${count(own.ids.length, "letter")}?`;
      $("ask-text").textContent = [chosen.length ? `Selected by ${chosen.join(", ")}.` : "All that are open: no filter is set.", spec.text].join("\n").trim();
    }
    if (act === "replay") {
      say("Nothing is sent yet: looking at what it would cost…");
      const plan = await rehearse(own.ids, own);
      if (own.stopped) return;
      $("ask-text").textContent = `${$("ask-text").textContent}\n${plan.text}`.trim();
      $("ask-even-label").hidden = !plan.ambiguous;
      if (!plan.calls) own.ids = [];
    }
    say("");
    bar(0, 0);
    $("ask-go").disabled = own.ids.length === 0;
  } catch (problem) {
    if (!own.stopped) say(`This does not work now: ${problem.message}`);
    own.stopped = true;
  }
}

$("ask-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const own = job, words = { note: $("ask-note").value.trim(), label: $("ask-label").value.trim(), by: $("ask-by").value.trim() };
  if (own.running || $("ask-go").disabled) return;
  if (acts[own.act].note && !words.note) {
    say("A discard needs a note.");
    $("ask-note").focus();
    return;
  }
  name(words.by);
  own.running = true;
  $("ask-go").hidden = $("ask-words").hidden = $("ask-even-label").hidden = true;
  $("ask-end").textContent = "Stop";
  try {
    await run(own.act, own.ids, words, own);
  } catch (problem) {
    own.stopped = true;
    say(`Stopped: ${problem.message}`);
  }
  own.running = false;
  $("ask-end").textContent = "Close";
});

// end stops what is under way. A result is left to be read before the dialog is closed.
function end() {
  job.stopped = true;
  if (!job.running) $("ask").close();
}

$("ask-end").addEventListener("click", end);
$("ask").addEventListener("cancel", (event) => { event.preventDefault(); end(); });
$("ask").addEventListener("close", () => {
  if ($("ask").open) return; // for its successor already
  job.stopped = true;
  if (job.changed) location.reload();
});
window.addEventListener("beforeunload", (event) => { if (job && job.running) event.preventDefault(); });

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-act]");
  if (button) ask(button.dataset.act, button.dataset.letter, button.dataset.query);
});
