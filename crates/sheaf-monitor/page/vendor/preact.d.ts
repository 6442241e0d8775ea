// The part of preact that the page uses.
export interface VNode {
  type: unknown;
  props: Record<string, unknown>;
}
export type Child = VNode | VNode[] | string | number | bigint | boolean | null | undefined | Child[];
export class Component<P = object, S = object> {
  constructor(props: P);
  props: Readonly<P>;
  state: Readonly<S>;
  componentDidMount?(): void;
  componentWillUnmount?(): void;
  shouldComponentUpdate?(next: Readonly<P>, nextState: Readonly<S>): boolean;
  render(): Child;
}
export function h(type: unknown, props: object | null, ...children: Child[]): VNode;
export function render(node: Child, parent: Element): void;
