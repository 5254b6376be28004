// A slow job on its live page: the grid fills cell by cell without a reload, with pace, time left
// and the end of the log; it is cancelled from the page, and what is missing is run.
import { base, must, open, run, signIn } from "./browser.mjs";

const CELLS = 16;

async function start(experiment, more = {}) {
  const reply = await fetch(`${base}/api/bench/run`, {
    method: "POST",
    headers: { authorization: `Bearer ${process.env.PANEL_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({
      models: ["scripted:slow"], prompts: ["p1", "p2"], script: "slow.json", experiment, n_tips: 1, jobs: 1,
      ...more,
    }),
  });
  must(reply.status === 202, `the job is queued: ${reply.status}`);
  return (await reply.json()).job_id;
}

const filled = (page) => page.locator("tr[data-row] .sq.collected").count();

// What the page shows while it fills, until it says that the job is over.
async function watch(page) {
  const seen = { counts: new Set(), paces: new Set(), logs: new Set() };
  // A reload would lose this mark: only what happened without one is counted.
  await page.evaluate(() => { globalThis.isSame = true; });
  for (;;) {
    const now = await page.evaluate(() => globalThis.isSame && {
      filled: document.querySelectorAll("tr[data-row] .sq.collected").length,
      hollow: document.querySelectorAll("tr[data-row] .sq.hollow").length,
      pace: document.querySelector("[data-pace]").textContent,
      log: document.querySelector("[data-log]").textContent,
    }).catch(() => null);
    if (!now) return seen;
    must(now.filled + now.hollow === CELLS, `every cell has its square: ${JSON.stringify(now)}`);
    seen.counts.add(now.filled);
    seen.paces.add(now.pace);
    seen.logs.add(now.log);
    await new Promise((done) => { setTimeout(done, 50); });
  }
}

async function fills(page) {
  await page.goto(`${base}/jobs/${await start("watched")}`);
  const seen = await watch(page);
  await page.getByRole("heading", { name: "Collection of watched is done" }).waitFor();
  const counts = [...seen.counts];
  must(counts.length > CELLS / 2, `cells fill one after the other: ${counts}`);
  must(counts.every((it, place) => place === 0 || it > counts[place - 1]), `and none empties: ${counts}`);
  const paces = [...seen.paces].filter((it) => /^[\d.]+ cells per (second|minute), about \d+ s left$/.test(it));
  must(paces.length > 2, `pace and time left are told and change: ${[...seen.paces]}`);
  must([...seen.logs].some((it) => it.includes("scripted:slow")), `the log is shown: ${[...seen.logs]}`);
  must(await filled(page) === CELLS, "all cells are filled in the end");
}

async function cancels(page) {
  await page.goto(`${base}/jobs/${await start("stopped")}`);
  await page.waitForFunction(() => document.querySelectorAll("tr[data-row] .sq.collected").length >= 2);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("heading", { name: "Collection of stopped was cancelled" }).waitFor();
  const kept = await filled(page);
  must(kept >= 2 && kept < CELLS, `what was done is kept: ${kept}`);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("heading", { name: "Collection of stopped is done" }).waitFor();
  must(await page.locator("tr[data-row] .sq.skipped").count() >= kept, "what was there is skipped");
}

// The page is opened while the job waits: headline, state and failures follow without a reload.
async function takesItsTurn(page) {
  const short = { prompts: ["p1"], n_scenarios: 3 };
  for (const name of ["one", "two", "three", "four"]) await start(name, short);
  await page.goto(`${base}/jobs/${await start("fifth", { ...short, models: ["scripted:broken"] })}`);
  must(await page.getByRole("heading", { name: "Collection of fifth is queued" }).isVisible(), "it is queued");
  await page.evaluate(() => { globalThis.isSame = true; });
  const seen = await page.waitForFunction(() => {
    const text = (selector) => document.querySelector(selector).textContent;
    if (!/^· [12] failed$/.test(text("[data-failed]"))) return null;
    return { same: globalThis.isSame, head: text("h1"), status: text("[data-status]"), title: document.title };
  }, null, { polling: 50 });
  const { same, head, status, title } = await seen.jsonValue();
  must(same && head === "Collection of fifth is running" && status === "running", `it runs: ${[same, head, status]}`);
  must(title.startsWith("Collection of fifth is running"), `also in the window's title: ${title}`);
  await page.getByRole("heading", { name: "3 cells failed" }).waitFor();
  must(await page.getByRole("link", { name: "Open fifth" }).count() === 1, "what was tried can be looked at");
}

await run(async () => {
  const { browser, page } = await open();
  await signIn(page);
  await fills(page);
  await cancels(page);
  await takesItsTurn(page);
  await browser.close();
});
