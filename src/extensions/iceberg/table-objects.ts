/** The objects of a table's store. Each method throws SluiceError `destination.*` only. */
export interface TableObjects {
  /** Null if there is no such object. */
  read(
    key: string,
    maxBytes: number,
  ): Promise<{ readonly bytes: Buffer; readonly etag: string | null } | null>;
  /**
   * Puts the object if the key has what `expected` says; null: if it is free. Never puts without a condition.
   *
   * @returns false if the key has something else; true also if it has exactly these bytes already
   */
  put(key: string, bytes: Uint8Array, expected: string | null): Promise<boolean>;
  /** Call it before bytes are made of what was read. Absent: there is memory for them. Throws SluiceError. */
  readonly holds?: (bytes: number) => void;
  list(prefix: string): AsyncIterable<{ readonly key: string }>;
  /** Missing ones are no error. */
  remove(keys: readonly string[]): Promise<void>;
}

export interface TablePlace {
  readonly owner: string;
  /** `a/b`, without slashes at its ends; `''`: the whole bucket. */
  readonly folder: string;
  /** The address of an object, as readers of the table use it. */
  uri(key: string): string;
}

export const metadataFolder = ({ folder }: Pick<TablePlace, 'folder'>): string =>
  folder === '' ? 'metadata/' : `${folder}/metadata/`;

/** The table's address, without a slash at its end. */
export const locationOf = ({ folder, uri }: TablePlace): string => uri(folder).replace(/\/$/, '');
