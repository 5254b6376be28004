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
