// The panel works without this module; it adds live updates, keys, drafts and copying.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Ids are copied by a click.
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

// Something is still being computed: look again, as the page would without this module.
const refresh = Number(document.body.dataset.refresh ?? 0);
if (refresh > 0 && !document.querySelector("[data-live]")) {
  setTimeout(() => location.reload(), refresh * 1000);
}

// Exactly so many ticks can be compared.
for (const form of all("form[data-pick]")) {
  const most = Number(form.dataset.pick);
  const boxes = all("input[type=checkbox]", form);
  const update = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    for (const box of boxes) box.disabled = !box.checked && ticked >= most;
    form.querySelector("button").disabled = ticked !== most;
  };
  form.addEventListener("change", update);
  update();
}

// The judge's desk: keys, the criterion that is next, and a draft that survives a reload.
const desk = document.querySelector("form[data-desk]");
if (desk) sit(desk);
else {
  const enter = document.querySelector("[data-key=Enter]");
  enter?.focus();
}

function sit(form) {
  const scales = all("fieldset.scale", form);
  const reason = form.elements.reason;
  const key = `draft:${form.dataset.desk}`;
  const chosen = (scale) => scale.querySelector("input:checked");
  const current = () => scales.find((scale) => !chosen(scale));

  const mark = () => {
    const next = current();
    for (const scale of scales) scale.classList.toggle("current", scale === next);
  };
  const keep = () => {
    const fields = [...new FormData(form)].filter(([name]) => name !== "case");
    sessionStorage.setItem(key, JSON.stringify(fields));
    mark();
  };
  const recall = () => {
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
    input.focus();
    keep();
  };
  // Takes back the last score; where there is none, goes to the case before.
  const undo = () => {
    const last = scales.findLast(chosen);
    const back = form.querySelector("[data-key=ArrowLeft]");
    if (last && !form.querySelector("[data-key=ArrowRight]")) {
      chosen(last).checked = false;
      keep();
    } else back?.click();
  };
  const save = () => {
    if (form.requestSubmit) form.requestSubmit();
    else form.submit();
  };

  form.addEventListener("change", keep);
  reason.addEventListener("input", keep);
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
      : flag ? () => { flag.checked = !flag.checked; keep(); }
      : event.key === "r" ? () => reason.focus()
      : event.key === "ArrowLeft" ? undo
      : event.key === "ArrowRight" && forward ? () => forward.click()
      : event.key === "ArrowRight" ? save
      : event.key === "Enter" && !event.target.closest("a, button, summary") ? save
      : event.key === "?" ? () => { const it = document.querySelector(".keys"); it.open = !it.open; }
      : null;
    if (!act) return;
    event.preventDefault();
    act();
  });
  recall();
  mark();
}
