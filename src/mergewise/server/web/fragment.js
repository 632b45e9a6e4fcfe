// HTML fragments from the server, as on the pages of `--html`. The server escapes all texts, and the page's policy blocks scripts.

import { html, useLayoutEffect, useRef } from "./vendor/preact.js";

const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("mergewise", { createHTML: (/** @type {string} */ drawn) => drawn });

/**
 * @param {{drawn: string, prefix?: string, placed?: (element: HTMLElement) => void, inputs?: unknown[], class?: string}} props
 *   `prefix` is added to the ids; `placed` is called after insertion, and when one of the `inputs` changes
 */
export function Fragment({ drawn, prefix = "", placed, inputs = [], class: name }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (place.current);
    element.innerHTML = policy ? policy.createHTML(drawn) : drawn;
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll("[data-style]"))) one.style.cssText = one.dataset.style ?? "";
    for (const one of element.querySelectorAll("[id]")) one.id = prefix + one.id;
    for (const one of element.querySelectorAll("[aria-labelledby]")) one.setAttribute("aria-labelledby", prefix + one.getAttribute("aria-labelledby"));
  }, [drawn, prefix]);
  useLayoutEffect(() => {
    if (place.current) placed?.(place.current);
  }, [drawn, prefix, ...inputs]);
  const follow = (/** @type {any} */ event) => {
    const target = event.target.closest("a")?.getAttribute("href") ?? "";
    if (!/^#[^/]/.test(target)) return;
    event.preventDefault();
    focusOn(document.getElementById(prefix + target.slice(1)));
  };
  return html`<div class=${name} ref=${place} onClick=${follow}></div>`;
}

/** Focus an element and scroll it into view. @param {HTMLElement | null} element */
export function focusOn(element) {
  if (!element) return;
  element.focus({ preventScroll: true });
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element.scrollIntoView({ block: "nearest", behavior: isStill ? "auto" : "smooth" });
}
