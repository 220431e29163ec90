/** What `npm run test:big` was called with. */
export interface BigRun {
  readonly rows: number;
  readonly format: string;
  readonly compression: string | null;
}

declare module 'vitest' {
  export interface ProvidedContext {
    bigRun: BigRun;
  }
}
