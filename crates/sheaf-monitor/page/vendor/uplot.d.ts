// The part of uPlot that the page uses: the script defines a global.
declare class uPlot {
  constructor(options: object, data: [number[], ...(number | null)[][]], place: HTMLElement);
  readonly width: number;
  readonly height: number;
  readonly ctx: CanvasRenderingContext2D;
  readonly bbox: { left: number; top: number; width: number; height: number };
  setData(data: [number[], ...(number | null)[][]]): void;
  setSize(size: { width: number; height: number }): void;
  valToPos(value: number, scale: string, onCanvas?: boolean): number;
  destroy(): void;
}
