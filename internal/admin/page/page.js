// Triage from the page: every change is asked for first, then made through the same API that commands use, one letter at a time.
"use strict";

const api = "/api/v1/dead-letters";
const $ = (id) => document.getElementById(id);
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

async function call(method, path, body) {
  const answer = await fetch(path, {
    method, cache: "no-store",
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body ? JSON.stringify(body) : undefined,
  });
  const text = await answer.text();
  let data = null;
  try { data = JSON.parse(text); } catch { /* a sentence */ }
  return { ok: answer.ok, status: answer.status, retryAfter: Number(answer.headers.get("Retry-After")) || 0, data, text: (data && (data.error || data.message)) || text.trim() };
}

// every gives the ids of all letters that a query selects, page by page.
async function every(query) {
  const ids = [];
  let cursor = "";
  do {
    const params = new URLSearchParams(query);
    params.set("limit", "1000");
    if (cursor) params.set("cursor", cursor);
    const page = await call("GET", api + "?" + params);
    if (!page.ok) throw new Error(page.text);
    ids.push(...page.data.dead_letters.map((letter) => letter.id));
    cursor = page.data.next || "";
  } while (cursor);
  return ids;
}

const acts = {
  replay: { name: "Replay", done: "replayed", words: false },
  resolve: { name: "Resolve", done: "resolved", words: true },
  discard: { name: "Discard", done: "discarded", words: true },
};

// rehearse says what a replay of these letters would do, without doing it.
async function rehearse(ids, say) {
  let calls = 0, pages = 0, unknown = 0;
  const refused = new Map();
  for (const [i, id] of ids.entries()) {
    say(`looking at ${i + 1} of ${ids.length}…`);
    const would = await call("POST", `${api}/${id}/replay?dry_run=true`);
    if (would.ok) { calls += would.data.calls; if (would.data.pages) pages += would.data.pages; else unknown++; }
    else if (would.status !== 404) refused.set(would.text, (refused.get(would.text) || 0) + 1);
  }
  say("");
  let text = `Would send ${calls} of ${ids.length} again${pages ? `, ${pages} pages` : ""}${pages && unknown ? `, and ${unknown} whose pages are not known` : ""}. The provider may charge for each.`;
  for (const [why, n] of refused) text += ` ${n} cannot be sent: ${why}`;
  return { text, calls };
}

let stopped = false;

// run does the act to each letter in turn. A circuit that is open, or a wait that the provider asked for, is waited for.
async function run(act, ids, words, say) {
  const count = { done: 0, failed: 0, refused: 0, gone: 0 };
  let why = "";
  for (const [i, id] of ids.entries()) {
    for (;;) {
      if (stopped) return { count, why };
      say(`${i + 1} of ${ids.length}: ${count.done} ${acts[act].done}, ${count.failed} failed again${count.refused ? `, ${count.refused} refused` : ""}`);
      const answer = await call("POST", `${api}/${id}/${act}`, act === "replay" ? {} : words);
      if (answer.status === 503 || answer.status === 425 || answer.status === 429) {
        const wait = Math.min(Math.max(answer.retryAfter, 1), 60);
        for (let left = wait; left > 0 && !stopped; left--) {
          say(`${i + 1} of ${ids.length}: ${answer.text} Waiting ${left} s.`);
          await sleep(1);
        }
        continue;
      }
      if (answer.ok && act === "replay" && answer.data && answer.data.outcome && answer.data.outcome !== "success") count.failed++;
      else if (answer.ok) count.done++;
      else if (answer.status === 404 || answer.status === 409) count.gone++;
      else { count.refused++; why = answer.text; }
      break;
    }
  }
  return { count, why };
}

async function ask(act, ids) {
  const spec = acts[act];
  const say = (text) => { $("ask-progress").textContent = text; };
  stopped = false;
  $("ask-title").textContent = ids.length === 1 ? `${spec.name} this letter?` : `${spec.name} ${ids.length} letters?`;
  $("ask-text").textContent = act === "resolve" ? "They count as done and are not sent again." : act === "discard" ? "They are given up. They stay readable among the discarded." : "";
  $("ask-note").value = $("ask-label").value = "";
  $("ask-note-label").hidden = $("ask-label-label").hidden = !spec.words;
  const go = $("ask-go");
  go.textContent = spec.name;
  go.hidden = false;
  go.disabled = act === "replay";
  say("");
  $("ask").showModal();
  if (act === "replay") {
    const plan = await rehearse(ids, say);
    $("ask-text").textContent = plan.text;
    go.disabled = plan.calls === 0;
  }
  go.onclick = async () => {
    go.hidden = true;
    const words = { note: $("ask-note").value, label: $("ask-label").value, by: "page" };
    try {
      const { count, why } = await run(act, ids, words, say);
      say(`${count.done} ${spec.done}${act === "replay" ? `, ${count.failed} failed again` : ""}${count.gone ? `, ${count.gone} were gone already` : ""}${count.refused ? `, ${count.refused} refused: ${why}` : ""}.`);
    } catch (problem) {
      say(`Stopped: ${problem.message}`);
    }
    $("ask").addEventListener("close", () => location.reload(), { once: true });
  };
}

$("ask").addEventListener("close", () => { stopped = true; });

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-act], button[data-bulk]");
  if (!button) return;
  if (button.dataset.act) {
    await ask(button.dataset.act, [button.closest("[data-letter]").dataset.letter]);
    return;
  }
  button.disabled = true;
  try {
    await ask(button.dataset.bulk, await every(button.dataset.query));
  } catch (problem) {
    alert(problem.message);
  } finally {
    button.disabled = false;
  }
});
