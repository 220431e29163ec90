/**
 * Just enough of WebAssembly to write one function: a list of instructions becomes a module.
 * Source: https://webassembly.github.io/spec/core/binary/index.html
 */

export type Code = readonly (number | Code)[];

/** The used part of the global, whose types belong to a browser's. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

/** A signed LEB128 number. */
function signed(value: number | bigint): number[] {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (;;) {
    const byte = Number(rest & 0x7fn);
    rest >>= 7n;
    const isLast = (rest === 0n && byte < 0x40) || (rest === -1n && byte >= 0x40);
    bytes.push(isLast ? byte : byte | 0x80);
    if (isLast) return bytes;
  }
}

function unsigned(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)];
}

const flat = (code: Code): number[] => (code as readonly unknown[]).flat(20) as number[];

export const get = (local: number): Code => [0x20, local];
export const set = (local: number, value: Code): Code => [value, 0x21, local];
export const int32 = (value: number): Code => [0x41, signed(value | 0)];
export const int64 = (value: bigint): Code => [0x42, signed(BigInt.asIntN(64, value))];

const binary =
  (opcode: number) =>
  (one: Code, other: Code): Code => [one, other, opcode];

export const i32 = {
  add: binary(0x6a),
  multiply: binary(0x6c),
  or: binary(0x72),
  shiftLeft: binary(0x74),
  shiftRight: binary(0x76),
  isLess: binary(0x49),
  isAtMost: binary(0x4d),
  isZero: (value: Code): Code => [value, 0x45],
  load: (at: Code, offset = 0): Code => [at, 0x28, 0, unsigned(offset)],
  store: (at: Code, value: Code, offset = 0): Code => [at, value, 0x36, 0, unsigned(offset)],
  lower: (value: Code): Code => [value, 0xa7],
};

export const i64 = {
  add: binary(0x7c),
  multiply: binary(0x7e),
  xor: binary(0x85),
  shiftRight: binary(0x88),
  rotateLeft: binary(0x89),
  load: (at: Code, offset = 0): Code => [at, 0x29, 0, unsigned(offset)],
  loadInt32: (at: Code): Code => [at, 0x35, 0, 0],
  loadByte: (at: Code): Code => [at, 0x31, 0, 0],
  of: (value: Code): Code => [value, 0xad],
};

const noResult = 0x40;

export const when = (condition: Code, then: Code, otherwise: Code = []): Code => [
  condition,
  0x04,
  noResult,
  then,
  otherwise.length === 0 ? [] : [0x05, otherwise],
  0x0b,
];

export const whilst = (condition: Code, body: Code): Code => [
  [0x03, noResult],
  [condition, 0x04, noResult, body, 0x0c, 1, 0x0b],
  0x0b,
];

/** Bytes of a page of memory. */
const pageBytes = 65_536;
const types = { i32: 0x7f, i64: 0x7e } as const;
type Type = keyof typeof types;

/** A function of int32 that returns one, with a memory of its own. */
export function assemble(
  parameters: number,
  locals: readonly Type[],
  memoryBytes: number,
  code: Code,
): { readonly memory: Uint8Array; readonly run: (...given: number[]) => number } {
  const section = (id: number, body: Code): number[] => {
    const bytes = flat(body);
    return [id, ...unsigned(bytes.length), ...bytes];
  };
  const name = (text: string): number[] => [text.length, ...Buffer.from(text)];
  const body = flat([locals.length, locals.map((type) => [1, types[type]]), code, 0x0b]);
  const bytes = Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, parameters, Array(parameters).fill(types.i32), 1, types.i32]),
    ...section(3, [1, 0]),
    ...section(5, [1, 0, unsigned(Math.ceil(memoryBytes / pageBytes))]),
    ...section(7, [2, name('memory'), 2, 0, name('run'), 0, 0]),
    ...section(10, [1, unsigned(body.length), body]),
  ]);
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
  const { memory, run } = exports as {
    readonly memory: { readonly buffer: ArrayBuffer };
    readonly run: (...given: number[]) => number;
  };
  return { memory: new Uint8Array(memory.buffer), run };
}
