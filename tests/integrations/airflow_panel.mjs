// A job on Airflow in the panel: started with the form, shown with a link to Airflow's page, in the
// list too, and cancelled while it runs. Prints the id of Airflow's run.
import { base, must, open, run, signIn, sound } from "../serve/panel_browser/browser.mjs";

await run(async () => {
  const { browser, page } = await open();
  await signIn(page);
  const reply = await fetch(`${base}/api/bench/run`, {
    method: "POST",
    headers: { authorization: `Bearer ${process.env.PANEL_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ models: [process.env.MODEL], prompts: ["v1", "v2-mentor"], n_tips: 3, experiment: "cancelled-on-airflow" }),
  });
  must(reply.status === 202, `the job is queued: ${reply.status}`);
  const id = (await reply.json()).job_id;
  await page.goto(`${base}/jobs/${id}`);
  const link = page.getByRole("link", { name: "run in Airflow" });
  await link.waitFor();
  const address = await link.getAttribute("href");
  must(address.startsWith(`${process.env.AIRFLOW_URL}/dags/bench_collect/runs/`), `the link leads to Airflow: ${address}`);
  await page.getByRole("heading", { name: "Collection of cancelled-on-airflow is running" }).waitFor();
  await sound(page, `/jobs/${id}`);
  await page.goto(`${base}/jobs`);
  await page.getByRole("row", { name: id }).getByRole("link", { name: "Airflow" }).waitFor();
  await sound(page, "/jobs");
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/airflow-jobs.png` });
  // The run is in the middle of its first model.
  await new Promise((done) => { setTimeout(done, 20_000); });
  await page.goto(`${base}/jobs/${id}`);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/airflow-job.png` });
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("heading", { name: "Collection of cancelled-on-airflow was cancelled" }).waitFor({ timeout: 120_000 });
  await link.waitFor();
  console.log(decodeURIComponent(address.split("/").at(-1)));
  await browser.close();
});
