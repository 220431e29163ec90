/** What `npm run test:big` was called with. */
export interface BigRun {
  readonly rows: number;
  /** Of each, about. */
  readonly rowBytes: number;
  readonly format: string;
  readonly compression: string | null;
}

declare module 'vitest' {
  export interface ProvidedContext {
    bigRun: BigRun;
  }
}
