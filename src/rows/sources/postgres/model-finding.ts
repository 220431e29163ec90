export interface ModelFinding {
  /** `error`: exports of the model fail. `warning`: they are slow, or may miss rows. */
  readonly severity: 'error' | 'warning';
  readonly detail: string;
}
