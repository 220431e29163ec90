import type { Compression, EncoderDefinition } from '../../src/rows/encoders/encoder.ts';
import { isNightly } from './nightly.ts';

/** What a format takes, none first. */
export function compressionsOf({
  compressions,
}: Pick<EncoderDefinition, 'compressions'>): Compression[] {
  return [null, ...Object.keys(compressions)];
}

/** None and zstd, which streams as all others do; at night all. */
export function mainCompressionsOf(definition: EncoderDefinition): readonly Compression[] {
  const all = compressionsOf(definition);
  const isMain = (one: Compression) => one === null || one === 'zstd';
  return isNightly ? all : all.filter(isMain);
}
