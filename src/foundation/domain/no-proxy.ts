import { BlockList, isIP } from 'node:net';

/** An entry of NO_PROXY: the hosts that are reached without a proxy, as curl and Go read it. */
export interface NoProxyEntry {
  /** Null: every port. */
  readonly port: number | null;
  /** @param host a name without a dot at its end, in lower case, or an IP address without brackets */
  covers(host: string): boolean;
}

export const noProxyForms =
  'a host, a domain such as .example.com or *.example.com, an IP address, a range such as 10.0.0.0/8, each with or without a port, or *';

/** Reads entries that are separated by commas or spaces. @throws Error that names the first entry without a meaning */
export function parseNoProxy(text: string): readonly NoProxyEntry[] {
  return text
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .map((entry) => {
      const parsed = parseEntry(entry.toLowerCase());
      if (parsed === null) throw new Error(`names ${entry}: each entry must be ${noProxyForms}`);
      return parsed;
    });
}

function parseEntry(entry: string): NoProxyEntry | null {
  if (entry === '*') return { port: null, covers: () => true };
  const whole = coversAddress(entry);
  if (whole !== null) return { port: null, covers: whole };
  const [, host = entry, portText] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(entry) ?? [];
  const port = portText === undefined ? null : Number(portText);
  if (port !== null && (port < 1 || port > 65_535)) return null;
  if (host === '*') return { port, covers: () => true };
  const covers = coversAddress(host) ?? coversDomain(host);
  return covers && { port, covers };
}

function coversAddress(text: string): NoProxyEntry['covers'] | null {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\]|([^[\]]*))$/.exec(text) ?? [];
  const [address = '', bits, ...rest] = (bracketed ?? bare ?? '').split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return null;
  const longest = version === 4 ? 32 : 128;
  const prefix = bits === undefined ? longest : /^\d{1,3}$/.test(bits) ? Number(bits) : Number.NaN;
  if (!(prefix <= longest)) return null;
  const range = new BlockList();
  range.addSubnet(address, prefix, version === 4 ? 'ipv4' : 'ipv6');
  return (host) => isIP(host) !== 0 && range.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6');
}

/** A domain covers itself and all names below it. */
function coversDomain(text: string): NoProxyEntry['covers'] | null {
  const domain = text.replace(/^\*?\./, '').replace(/\.$/, '');
  // Numbers alone are part of an IP address, such as 192.168. Words of other programs, such as <local>, name no host.
  if (!/^[\p{L}\p{N}_.-]+$/u.test(domain) || /^[\d.]+$/.test(domain)) return null;
  return (host) => host === domain || host.endsWith(`.${domain}`);
}
