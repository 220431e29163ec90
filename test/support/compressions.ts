import type { Compression, EncoderDefinition } from '../../src/rows/encoders/encoder.ts';

/** What a format takes, none first. */
export function compressionsOf({
  compressions,
}: Pick<EncoderDefinition, 'compressions'>): Compression[] {
  return [null, ...Object.keys(compressions)];
}
