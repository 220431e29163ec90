/** The rows to erase: those that have this value in a column, as the files have it. */
export interface ErasedValue {
  readonly column: string;
  readonly value: string;
}
