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
