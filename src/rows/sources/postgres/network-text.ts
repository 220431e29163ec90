/**
 * PostgreSQL's binary inet and cidr (`inet_send`): a byte each of family (2: IPv4, 3: IPv6), bits of the mask,
 * whether it is a cidr, and bytes of the address, which follow. Printed as `to_json` does:
 * https://github.com/postgres/postgres/blob/master/src/port/inet_net_ntop.c
 */

const headerBytes = 4;
const ipv4 = 2;

/** Maximum bytes of the text with its quotes: IPv6 that ends as IPv4, with a mask. */
export const networkTextBytes = 52;

/** The JSON text. */
export function networkText(bytes: Buffer, from: number): string {
  const isIpv4 = bytes[from] === ipv4;
  const bits = bytes[from + 1] as number;
  const isCidr = bytes[from + 2] !== 0;
  const start = from + headerBytes;
  const address = isIpv4 ? octets(bytes, start) : ipv6Text(bytes, start);
  const mask = isCidr || bits !== (isIpv4 ? 32 : 128) ? `/${bits}` : '';
  return `"${address}${mask}"`;
}

function octets(bytes: Buffer, from: number): string {
  return `${bytes[from]}.${bytes[from + 1]}.${bytes[from + 2]}.${bytes[from + 3]}`;
}

const groups = 8;

function ipv6Text(bytes: Buffer, from: number): string {
  const words = Array.from({ length: groups }, (_, index) => bytes.readUInt16BE(from + index * 2));
  const { start, length } = longestZeros(words);
  let text = '';
  for (let index = 0; index < groups; index += 1) {
    if (index >= start && index < start + length) {
      if (index === start) text += ':';
      continue;
    }
    if (index > 0) text += ':';
    if (index === 6 && start === 0 && endsAsIpv4(words, length)) {
      text += octets(bytes, from + 12);
      break;
    }
    text += (words[index] as number).toString(16);
  }
  return start + length === groups ? `${text}:` : text;
}

function endsAsIpv4(words: readonly number[], zeros: number): boolean {
  return zeros === 6 || (zeros === 7 && words[7] !== 1) || (zeros === 5 && words[5] === 0xffff);
}

/** The first of the longest runs of two zeros or more; `start` is -1 if there is none. */
function longestZeros(words: readonly number[]): { start: number; length: number } {
  let best = { start: -1, length: 0 };
  for (let start = 0; start < groups; start += 1) {
    let end = start;
    while (end < groups && words[end] === 0) end += 1;
    if (end - start > Math.max(best.length, 1)) best = { start, length: end - start };
    start = end;
  }
  return best;
}
