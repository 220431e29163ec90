import type { BatchExport } from '../api-types.ts';
import type { Draft } from './draft.ts';
import type { ApiDescription } from './openapi.ts';

/** The properties of each part of an export's form. */
export interface PartProps {
  readonly description: ApiDescription;
  readonly draft: Draft;
  /** Null for a new one. */
  readonly batchExport: BatchExport | null;
  /** By the API's name of the field. */
  readonly errors: ReadonlyMap<string, string>;
  readonly onChange: (part: Partial<Draft>) => void;
}
