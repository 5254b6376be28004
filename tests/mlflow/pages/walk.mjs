// MLflow's own pages over our server: experiments, runs, charts, artifacts, prompts.
import { must, open, problems, run, signIn } from "../../serve/panel_browser/browser.mjs";

const { EXPERIMENT: experiment, RUN: runId, PANEL_URL: base, SCREENSHOTS: folder } = process.env;

// What is not served (the assistant, the gateway, figures over traces) is refused with 501, and
// MLflow's pages do without it. Their grid warns of its own use.
const refused = /Failed to load resource.*(404|501)|AG Grid/;

run(async () => {
  const { browser, page } = await open({ viewport: { width: 1500, height: 950 } }, refused);
  const failed = [];
  page.on("response", (it) => {
    if (it.status() >= 400 && ![404, 501].includes(it.status())) {
      failed.push(`${it.status()} ${it.request().method()} ${it.url()}`);
    }
  });
  // Nothing may be asked of another server.
  page.on("request", (it) => {
    const url = it.url();
    if (!url.startsWith(base) && !url.startsWith("data:") && !url.startsWith("blob:")) failed.push(url);
  });
  const shown = (text) => page.getByText(text).first().waitFor();
  const visit = async (name, hash, texts) => {
    await page.goto(`${base}/mlflow/#${hash}`);
    for (const text of texts) await shown(text);
    if (folder) await page.screenshot({ path: `${folder}/${name}.png` });
  };
  await signIn(page);
  await visit("experiments", "/experiments", ["pages-check"]);
  await visit("runs", `/experiments/${experiment}/runs`, ["run-0", "run-1", "run-2"]);
  const history = page.waitForResponse((it) => it.url().includes("get-history-bulk-interval"));
  await visit("chart", `/experiments/${experiment}/runs?compareRunsMode=CHART`, ["accuracy", "loss"]);
  must((await history).status() === 200, "the chart has its points");
  await page.locator(".js-plotly-plot .main-svg").first().waitFor();
  await visit("run", `/experiments/${experiment}/runs/${runId}`, ["run-2", "learning_rate", "0.125", "accuracy"]);
  await visit("artifacts", `/experiments/${experiment}/runs/${runId}/artifacts`, ["notes.txt", "more"]);
  await page.getByText("notes.txt").first().click();
  await shown("a note among the artifacts");
  if (folder) await page.screenshot({ path: `${folder}/artifact.png` });
  await visit("prompts", "/prompts", ["greeting"]);
  await visit("prompt", "/prompts/greeting", ["welcome to the court"]);
  problems.push(...failed);
  await browser.close();
});
