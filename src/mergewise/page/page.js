"use strict";
(() => {
  const schemes = [...document.getElementsByName("scheme")];
  const around = document.getElementById("around");
  const help = document.getElementById("help");
  const button = document.getElementById("help-button");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  // storage is missing in a frame without an origin, and for files in some browsers
  const remembered = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("mergewise-scheme");
      localStorage.setItem("mergewise-scheme", value);
    } catch { /* the choice is then kept for this visit only */ }
    return null;
  };

  const choose = (scheme) => { scheme.checked = true; remembered(scheme.value); };

  const show = (element) => {
    if (!element) return;
    element.focus({ preventScroll: true });
    element.scrollIntoView({ block: element.offsetHeight < innerHeight * 0.8 ? "nearest" : "start", behavior: still.matches ? "auto" : "smooth" });
  };

  // looks up the elements each time, because an evaluation adds its questions later
  const step = (by) => {
    const passages = [...document.querySelectorAll(".question, .passage:not(.question .passage)")];
    const at = passages.findIndex((passage) => passage.contains(document.activeElement));
    if (at < 0) return show(by > 0 ? passages[0] : passages.at(-1));
    show(passages[Math.min(Math.max(at + by, 0), passages.length - 1)]);
  };

  const nextScheme = () => {
    const at = schemes.findIndex((scheme) => scheme.checked);
    choose(schemes[(at + 1) % schemes.length]);
  };

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    a: () => show(document.getElementById("answer") ?? document.getElementById("question")),
    s: () => { if (around) around.checked = !around.checked; },
    c: nextScheme,
    "?": () => help.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  schemes.forEach((scheme) => scheme.addEventListener("change", () => remembered(scheme.value)));
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
  const chosen = schemes.find((scheme) => scheme.value === remembered());
  if (chosen) choose(chosen);
})();
