// What the page uses of the vendored module, for the check of its types.
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function render(node: any, place: Element): void;
export function useState<T>(initial: T | (() => T)): [T, (value: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useMemo<T>(make: () => T, inputs: unknown[]): T;
export function useRef<T>(initial: T): { current: T };
export function useErrorBoundary(): [any, () => void];
