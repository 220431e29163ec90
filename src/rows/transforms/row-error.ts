/** Why a step cannot handle a row. The reason names places and holds none of the row's values. */
export class RowError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'RowError';
  }
}
