export interface ModelFinding {
  /** `error`: exports of the model fail. `warning`: they are slow, or may miss rows. */
  readonly severity: 'error' | 'warning';
  /** What is wrong and what to do. */
  readonly detail: string;
}
