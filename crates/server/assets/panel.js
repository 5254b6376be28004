// The panel works without this module. It adds live updates, keyboard shortcuts, drafts and copying.
// The server joins this file and its neighbours (`SCRIPTS` in panel.rs) into one module.

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
