import type { Column } from '../domain/row-block.ts';
import { csv } from './csv/definition.ts';
import type { Compression, EncoderDefinition, FileEncoder, FileFormat } from './encoder.ts';
import { jsonLines } from './jsonlines/definition.ts';
import { parquet } from './parquet/definition.ts';

/** Every file format, in the order in which the API names them. */
export const encoders: readonly EncoderDefinition[] = [jsonLines, csv, parquet];

const suffixes: Readonly<Record<string, string>> = { gzip: '.gz', brotli: '.br', zstd: '.zst' };

/** The definition of a format. Throws TypeError where there is none. */
export function encoderOf(format: FileFormat): EncoderDefinition {
  const found = encoders.find((definition) => definition.format === format);
  if (!found) throw new TypeError(`there is no encoder of ${format}`);
  return found;
}

/** `jsonl.gz`: without a dot in front. Parquet compresses inside the file, so it has no suffix. */
export function fileExtension(format: FileFormat, compression: Compression): string {
  const { extension } = encoderOf(format);
  if (format === 'Parquet' || compression === null) return extension;
  return extension + (suffixes[compression] ?? '');
}

/** Opens the encoder of one file. Throws TypeError for a pair that the format does not take. */
export function openEncoder(request: {
  readonly format: FileFormat;
  readonly compression: Compression;
  readonly columns: readonly Column[];
}): FileEncoder {
  const definition = encoderOf(request.format);
  if (!definition.compressions.includes(request.compression)) {
    throw new TypeError(`${request.format} takes no compression ${request.compression}`);
  }
  return definition.open(request.columns, request.compression);
}
