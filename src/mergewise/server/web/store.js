// Observable values that several views share.

import { useEffect, useState } from "./vendor/preact.js";

/** @template T */
export class Store {
  /** @type {Set<() => void>} */
  #watchers = new Set();

  /** @param {T} value */
  constructor(value) {
    this.value = value;
  }

  /** @param {T} value */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const tell of [...this.#watchers]) tell();
  }

  /** Call `tell` after each change. @param {() => void} tell @returns {() => void} a function that ends this */
  watch(tell) {
    this.#watchers.add(tell);
    return () => this.#watchers.delete(tell);
  }
}

/** Return the value of a store, and render the component again when it changes. @template T @param {Store<T>} store @returns {T} */
export function useStore(store) {
  const [, draw] = useState(0);
  useEffect(() => store.watch(() => draw((count) => count + 1)), [store]);
  return store.value;
}

/**
 * Return the result of a promise, loaded again when one of the inputs changes.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown[]} inputs
 * @returns {{value?: T, error?: any, isLoading: boolean, reload: () => void}}
 */
export function useLoaded(load, inputs) {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState(/** @type {{value?: T, error?: any, isLoading: boolean}} */ ({ isLoading: true }));
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({ value: before.value, isLoading: true }));
    load(controller.signal).then(
      (value) => controller.signal.aborted || setState({ value, isLoading: false }),
      (error) => controller.signal.aborted || setState((before) => ({ value: before.value, error, isLoading: false })),
    );
    return () => controller.abort();
  }, [...inputs, turn]);
  return { ...state, reload: () => setTurn((count) => count + 1) };
}

/** Return settings in one of the browser's storages. Frames without an origin have no storage, so settings are lost with the page. @param {() => Storage} storage */
const settingsIn = (storage) => ({
  /** @param {string} name @returns {any} */
  read(name) {
    try {
      return JSON.parse(storage().getItem(`mergewise-${name}`) ?? "null");
    } catch {
      return null;
    }
  },
  /** @param {string} name @param {unknown} value */
  write(name, value) {
    try {
      storage().setItem(`mergewise-${name}`, JSON.stringify(value));
    } catch {
      /* no storage: the setting is lost with the page */
    }
  },
});
export const browserSettings = settingsIn(() => localStorage);
/** Settings of this tab, which survive a reload. */
export const tabSettings = settingsIn(() => sessionStorage);
