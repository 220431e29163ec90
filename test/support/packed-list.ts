import { deflateRawSync } from 'node:zlib';
import { textOf } from '../../src/extensions/iceberg/avro.ts';
import { listSchema } from '../../src/extensions/iceberg/manifests.ts';

/** Avro's varint of a zigzag number. */
export function long(value: number): Buffer {
  const out: number[] = [];
  let rest = value * 2;
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) out.push((rest % 0x80) | 0x80);
  return Buffer.from([...out, rest]);
}

function text(value: string): Buffer {
  return Buffer.concat([long(Buffer.byteLength(value)), Buffer.from(value)]);
}

export const sync = Buffer.alloc(16, 7);

/** A list of manifests with these blocks. */
export function listOf(
  ...blocks: readonly { readonly count: number; readonly bytes: Buffer }[]
): Buffer {
  const head = [
    ...[Buffer.from('Obj\u0001'), long(2), text('avro.schema'), text(textOf(listSchema))],
    ...[text('avro.codec'), text('deflate'), long(0), sync],
  ];
  const parts = blocks.map(({ count, bytes }) => {
    const packed = deflateRawSync(bytes, { level: 9 });
    return Buffer.concat([long(count), long(packed.length), packed, sync]);
  });
  return Buffer.concat([...head, ...parts]);
}

/** One entry of a list. */
export const entry = (path: string): Buffer =>
  Buffer.concat([text(path), ...[1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 0, 0].map(long)]);

const mebibyte = 1024 ** 2;

/** A list of 8 MiB that unpacks to 8 GiB. */
export function packedList(): Buffer {
  const one = listOf({ count: 1, bytes: entry('a'.repeat(4 * mebibyte - 1_024)) });
  const head = listOf();
  const block = one.subarray(head.length);
  const count = Math.floor((8 * mebibyte - head.length) / block.length);
  return Buffer.concat([head, ...Array.from({ length: count }, () => block)]);
}
