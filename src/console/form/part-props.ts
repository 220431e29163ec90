import type { BatchExport } from '../api-types.ts';
import type { Draft } from './draft.ts';
import type { ApiDescription } from './openapi.ts';

/** What each part of an export's form works with. */
export interface PartProps {
  readonly description: ApiDescription;
  readonly draft: Draft;
  /** Null: a new one. */
  readonly batchExport: BatchExport | null;
  /** By the field's place in the API's words. */
  readonly errors: ReadonlyMap<string, string>;
  readonly onChange: (part: Partial<Draft>) => void;
}
