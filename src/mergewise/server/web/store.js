// Values that several views look at, each with those who are told when it changes.

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

  /** @param {() => void} tell @returns {() => void} that ends it */
  watch(tell) {
    this.#watchers.add(tell);
    return () => this.#watchers.delete(tell);
  }
}

/** The value of a store; the component is drawn again when it changes. @template T @param {Store<T>} store @returns {T} */
export function useStore(store) {
  const [, draw] = useState(0);
  useEffect(() => store.watch(() => draw((count) => count + 1)), [store]);
  return store.value;
}

/**
 * What a promise gives, made anew where one of the inputs changes.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown[]} inputs
 * @returns {{value: T | undefined, error: any, isLoading: boolean, reload: () => void}}
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
  return { value: state.value, error: state.error, isLoading: state.isLoading, reload: () => setTurn((count) => count + 1) };
}

/** What this browser keeps; frames without an origin have no storage, and then it lasts as long as the page. */
export const kept = {
  /** @param {string} name @returns {any} */
  read(name) {
    try {
      return JSON.parse(localStorage.getItem(`mergewise-${name}`) ?? "null");
    } catch {
      return null;
    }
  },
  /** @param {string} name @param {unknown} value */
  write(name, value) {
    try {
      localStorage.setItem(`mergewise-${name}`, JSON.stringify(value));
    } catch {
      /* it lasts as long as the page */
    }
  },
};
