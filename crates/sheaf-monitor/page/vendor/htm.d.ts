// The part of htm that the page uses.
interface Htm {
  bind<R>(h: (type: unknown, props: object | null, ...children: any[]) => R): (strings: TemplateStringsArray, ...values: any[]) => R;
}
declare const htm: Htm;
export default htm;
