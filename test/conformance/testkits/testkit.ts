import type { DestinationContext } from '../../../src/rows/destinations/destination.ts';

/**
 * What a destination gives to the conformance suite, from the file with the name of its folder: a real store on
 * this machine, and configs that it must accept or refuse.
 */
export interface DestinationTestkit {
  readonly type: string;
  /** False if nothing that is written can be read again. */
  readonly keepsFiles: boolean;
  start(stores: TestStores): Promise<DestinationTestStore>;
}

/** Stores that need more than a folder; the suite provides them. */
export interface TestStores {
  s3(): Promise<S3TestStore>;
}

export interface S3TestStore {
  readonly endpoint: string;
  /** Exists, and is empty. */
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  stop(): Promise<void>;
}

export interface DestinationTestStore {
  /** Valid, and points to an empty place. */
  readonly config: Readonly<Record<string, unknown>>;
  /** What the installation must provide for it. */
  readonly context: Partial<DestinationContext>;
  /** `validate` refuses each, merged into `config`, with a problem of this `attr`. */
  readonly invalid: readonly {
    readonly change: Readonly<Record<string, unknown>>;
    readonly attr: string;
  }[];
  stop(): Promise<void>;
}

/** Refused by every destination that writes files. */
export const invalidFileConfigs: DestinationTestStore['invalid'] = [
  { change: { file_format: 'Parquet', compression: 'gzip', prefix: '{nope}' }, attr: 'prefix' },
  { change: { prefix: '../other' }, attr: 'prefix' },
  { change: { prefix: 'a{year' }, attr: 'prefix' },
  { change: { file_format: 'CSV', compression: 'snappy' }, attr: 'compression' },
  { change: { compression: 'lz4' }, attr: 'compression' },
];
