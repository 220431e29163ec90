import type { Column } from '../../foundation/domain/row-block.ts';
import { csv } from './csv/definition.ts';
import type { Compression, EncoderDefinition, FileEncoder, FormatOptions } from './encoder.ts';
import { jsonLines } from './jsonlines/definition.ts';
import { parquet } from './parquet/definition.ts';

export { jsonLines } from './jsonlines/definition.ts';
export { jsonOfField } from './jsonlines/encode.ts';
export { readRejectedRows } from './jsonlines/read.ts';

export const encoders: readonly EncoderDefinition[] = [jsonLines, csv, parquet];

/** Null for none. Throws TypeError for an unknown one. */
function factsOf({ format, compressions }: EncoderDefinition, compression: Compression) {
  if (compression === null) return null;
  const facts = compressions[compression];
  if (!facts) throw new TypeError(`${format} takes no compression ${compression}`);
  return facts;
}

/** `jsonl.gz`: without a dot in front. Parquet compresses inside the file, so it has no suffix. */
export function fileExtension(definition: EncoderDefinition, compression: Compression): string {
  return definition.extension + (factsOf(definition, compression)?.suffix ?? '');
}

export function encoderMemory(definition: EncoderDefinition, compression: Compression): number {
  return definition.memoryBytes + (factsOf(definition, compression)?.memoryBytes ?? 0);
}

/** Throws TypeError for a compression that the format does not support. */
export function openEncoder(
  definition: EncoderDefinition,
  compression: Compression,
  columns: readonly Column[],
  options: FormatOptions = {},
): FileEncoder {
  factsOf(definition, compression);
  return definition.open(columns, compression, options);
}
