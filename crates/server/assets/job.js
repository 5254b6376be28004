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
