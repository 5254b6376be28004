// The panel works without this module. It adds live updates, keyboard shortcuts, drafts and copying.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Copies an id on click.
for (const button of all("[data-copy]")) {
  button.addEventListener("click", async () => {
    const shown = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch {
      button.textContent = "press Ctrl+C";
      getSelection().selectAllChildren(button);
    }
    setTimeout(() => { button.textContent = shown; }, 1200);
  });
}

// Reloads a page whose content is still being computed.
const refresh = Number(document.body.dataset.refresh ?? 0);
if (refresh > 0 && !document.querySelector("[data-live]")) {
  setTimeout(() => location.reload(), refresh * 1000);
}

// Limits the selection to the number of runs that can be compared.
for (const form of all("form[data-pick]")) {
  const limit = Number(form.dataset.pick);
  const boxes = all("input[type=checkbox]", form);
  const update = () => {
    const selected = boxes.filter((box) => box.checked).length;
    for (const box of boxes) box.disabled = !box.checked && selected >= limit;
    form.querySelector("button").disabled = selected !== limit;
  };
  form.addEventListener("change", update);
  update();
}

// The page of a job: updates the cells as events arrive, and reloads when the job has ended.
const live = document.querySelector("[data-live]");
if (live) followJob(live);

function followJob(live) {
  const source = new EventSource(`/api/bench/jobs/${live.dataset.live}/events`);
  const rows = new Map(all("[data-row]", live).map((row) => [row.dataset.row, row]));
  const seen = new Set();
  const failed = new Set();
  let started = false;
  const hosts = hostTable(live);
  // The stream starts with the job's first event, so all squares are reset.
  const restart = () => {
    if (started) return;
    started = true;
    for (const square of all("[data-row] .sq", live)) square.className = "sq hollow";
  };
  const keyOf = (cell) => JSON.stringify([cell.model, cell.prompt, cell.scenario]);
  const fill = (cell) => {
    const key = keyOf(cell);
    if (seen.has(key)) return;
    seen.add(key);
    const status = ["failed", "skipped"].includes(cell.status) ? cell.status : "collected";
    if (status === "failed") failed.add(key);
    const row = rows.get(`${cell.model} × ${cell.prompt}`);
    // Large jobs have no squares.
    if (!row) return;
    let square = row.querySelector(".sq.hollow");
    if (!square) {
      square = document.createElement("i");
      row.querySelector("td").append(square);
    }
    square.className = `sq ${status} fresh`;
    square.title = [`${cell.scenario}: ${cell.status}`, cell.error].filter(Boolean).join(", ");
  };
  const noun = live.dataset.noun;
  // Replaces the headline of a queued job when the job starts.
  const state = ({ status }) => {
    live.querySelector("[data-status]").textContent = status;
    const head = live.querySelector("[data-running]");
    if (status !== "running" || head.textContent === head.dataset.running) return;
    document.title = document.title.replace(head.textContent, head.dataset.running);
    head.textContent = head.dataset.running;
  };
  const failures = (number) => {
    live.querySelector("[data-failed]").textContent = number > 0 ? `· ${number} failed` : "";
  };
  const count = ({ done, total }) => {
    live.querySelector("[data-done]").textContent = total ? `${done} of ${total} ${noun}` : `${done} ${noun}`;
    const bar = live.querySelector("progress");
    bar.max = Math.max(total, 1);
    bar.value = done;
  };
  const span = (seconds) => seconds < 90 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`;
  // The number of cells of an open-ended job grows, so nothing follows from it.
  const isOpenEnded = "openEnded" in live.dataset;
  const pace = (done, total) => {
    if (isOpenEnded) return;
    const perSecond = (done - before) * 1000 / (Date.now() - since);
    if (!(perSecond > 0) || !Number.isFinite(perSecond)) return;
    const rate = perSecond < 1 ? `${Math.round(perSecond * 60)} ${noun} per minute` : `${perSecond.toFixed(1)} ${noun} per second`;
    const left = Math.round((total - done) / perSecond);
    live.querySelector("[data-pace]").textContent = `${rate}, about ${span(left)} left`;
  };
  let total = Number(live.querySelector("progress").max);
  let since = Date.now();
  let before = null;
  source.addEventListener("status", (event) => {
    const job = JSON.parse(event.data);
    if (["done", "failed", "cancelled"].includes(job.status)) {
      source.close();
      setTimeout(() => location.reload(), 300);
    } else if (job.cells) {
      state(job);
      total = job.cells.total;
      count(job.cells);
      failures(job.cells.failed);
      // Events of finished cells arrive at once and must not count towards the rate.
      if (before === null || job.cells.done === 0) {
        before = job.cells.done;
        since = Date.now();
      }
    }
  });
  source.addEventListener("cell", (event) => {
    restart();
    const cell = JSON.parse(event.data);
    if (cell.host && !seen.has(keyOf(cell))) hosts.cell(cell.host);
    fill(cell);
    count({ done: seen.size, total });
    failures(failed.size);
    pace(seen.size, total);
  });
  source.addEventListener("host", (event) => {
    hosts.state(JSON.parse(event.data));
  });
  source.addEventListener("progress", (event) => {
    const now = JSON.parse(event.data);
    total = now.total;
    count(now);
    pace(now.done, now.total);
  });
  // A prompt loop collects and judges by turns.
  source.addEventListener("judging", (event) => {
    const now = JSON.parse(event.data);
    const isDone = now.done >= now.total;
    live.querySelector("[data-pace]").textContent = isDone ? "" : `judging: ${now.done} of ${now.total} cases`;
  });
  // The log and the page of a run on another engine are not part of the events, so they are polled.
  const log = live.querySelector("[data-log]");
  const engine = live.querySelector("[data-engine]");
  setInterval(async () => {
    const reply = await fetch(`/api/bench/jobs/${live.dataset.live}`);
    const job = reply.ok ? await reply.json() : {};
    if (job.log) log.textContent = job.log;
    if (job.engine_url && !engine.querySelector("a")) {
      const link = Object.assign(document.createElement("a"), { href: job.engine_url, rel: "noreferrer", textContent: "run in Airflow" });
      engine.append(" · ", link);
    }
  }, 2000);
  // Reloads the page if the stream breaks.
  source.addEventListener("error", () => {
    source.close();
    setTimeout(() => location.reload(), 2000);
  });
}

// The table of a collection's hosts. The stream starts with the job's first event, so it counts anew.
function hostTable(live) {
  const section = live.querySelector("[data-hosts]");
  const body = section?.querySelector("tbody");
  body?.replaceChildren();
  const rows = new Map();
  const row = (host) => {
    if (!body) return null;
    if (!rows.has(host)) {
      const line = body.insertRow();
      line.dataset.host = host;
      const head = Object.assign(document.createElement("th"), { scope: "row", className: "name" });
      head.append(Object.assign(document.createElement("bdi"), { textContent: host }));
      line.append(head);
      for (const kind of ["text", "text", "", "", "", "text"]) line.insertCell().className = kind;
      for (const place of [3, 4, 5]) line.cells[place].textContent = "0";
      line.cells[1].textContent = "waiting";
      rows.set(host, line);
      section.hidden = false;
    }
    return rows.get(host);
  };
  const add = (cell) => { cell.textContent = String(Number(cell.textContent) + 1); };
  return {
    cell: (host) => { const line = row(host); if (line) add(line.cells[3]); },
    state: (now) => {
      const line = row(now.host);
      if (!line) return;
      line.cells[1].textContent = now.state;
      line.cells[2].textContent = now.model ?? "";
      line.cells[6].textContent = now.error ?? "";
      if (now.state === "working") add(line.cells[4]);
      if (now.state === "failed") add(line.cells[5]);
    },
  };
}

// Updates the preview of a new run on every change.
const draft = document.querySelector("form[data-preview]");
if (draft) {
  let timer;
  let requests = 0;
  const updatePreview = async () => {
    const request = ++requests;
    const query = new URLSearchParams(new FormData(draft));
    const reply = await fetch(`${location.pathname}?${query}`);
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = page.getElementById("preview");
    if (request === requests && fresh) {
      const place = document.getElementById("preview");
      const kept = place.querySelector(".actions");
      place.replaceChildren(...fresh.children);
      place.querySelector(".actions")?.replaceWith(kept);
    }
  };
  draft.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(updatePreview, 500);
  });
}

// The judge's desk: keyboard shortcuts, and a draft that survives a reload.
const desk = document.querySelector("form[data-desk]");
if (desk) initDesk(desk);
else {
  const enter = document.querySelector("[data-key=Enter]");
  enter?.focus();
}

function initDesk(form) {
  const scales = all("fieldset.scale", form);
  const reason = form.elements.reason;
  const key = `draft:${form.dataset.desk}`;
  const chosen = (scale) => scale.querySelector("input:checked");
  const current = () => scales.find((scale) => !chosen(scale));

  const mark = () => {
    const next = current();
    for (const scale of scales) scale.classList.toggle("current", scale === next);
  };
  const saveDraft = () => {
    const fields = [...new FormData(form)].filter(([name]) => name !== "case");
    sessionStorage.setItem(key, JSON.stringify(fields));
    mark();
  };
  const restoreDraft = () => {
    const fields = JSON.parse(sessionStorage.getItem(key) ?? "null");
    if (!fields) return;
    for (const box of all("input[type=checkbox]", form)) box.checked = false;
    for (const [name, value] of fields) {
      if (name === "reason") reason.value = value;
      else {
        const input = all("input", form).find((it) => it.name === name && it.value === value);
        if (input) input.checked = true;
      }
    }
  };
  const score = (digit) => {
    const scale = current() ?? scales.at(-1);
    const input = scale && all("input", scale).find((it) => it.value === digit);
    if (!input) return;
    input.checked = true;
    document.activeElement?.blur();
    saveDraft();
  };
  // Undoes the last score; if there is none, goes to the previous case.
  const undo = () => {
    const last = scales.findLast(chosen);
    const back = form.querySelector("[data-key=ArrowLeft]");
    if (last && !form.querySelector("[data-key=ArrowRight]")) {
      chosen(last).checked = false;
      saveDraft();
    } else back?.click();
  };
  const keys = document.querySelector(".keys");
  const help = (isOpen) => {
    keys.open = isOpen;
    if (isOpen) keys.querySelector("summary").focus({ preventScroll: true });
    else document.activeElement?.blur();
  };
  const save = () => {
    if (form.requestSubmit) form.requestSubmit();
    else form.submit();
  };

  form.addEventListener("change", saveDraft);
  reason.addEventListener("input", saveDraft);
  form.addEventListener("submit", () => sessionStorage.removeItem(key));
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === reason) {
      if (event.key === "Escape") reason.blur();
      return;
    }
    const flag = all("input[data-key]", form).find((it) => it.dataset.key === event.key);
    const forward = form.querySelector("[data-key=ArrowRight]");
    const act = /^[0-9]$/.test(event.key) ? () => score(event.key)
      : flag ? () => { flag.checked = !flag.checked; saveDraft(); }
      : event.key === "r" ? () => reason.focus()
      : event.key === "ArrowLeft" ? undo
      : event.key === "ArrowRight" && forward ? () => forward.click()
      : event.key === "ArrowRight" ? save
      : event.key === "Enter" && !event.target.closest("a, button, summary") ? save
      : event.key === "?" ? () => help(!keys.open)
      : event.key === "Escape" && keys.open ? () => help(false)
      : null;
    if (!act) return;
    event.preventDefault();
    act();
  });
  form.classList.add("keyed");
  restoreDraft();
  mark();
}
