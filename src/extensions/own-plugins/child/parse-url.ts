/**
 * Node's URL parser for the realm: texts in, one text out.
 *
 * @param part of the URL, to be set to `value` first; empty for none
 * @returns the parts, one per line; null if it is no URL
 */
export function parseUrl(href: string, base: string, part: string, value: string): string | null {
  try {
    const url = base === '' ? new URL(href) : new URL(href, base);
    if (isSettable(part)) url[part] = value;
    const { origin, protocol, username, password, host, hostname, port } = url;
    const lines = [url.href, origin, protocol, username, password, host, hostname, port];
    return [...lines, url.pathname, url.search, url.hash].join('\n');
  } catch {
    return null;
  }
}

type Settable = (typeof settable)[number];

const settable = [
  ...(['protocol', 'username', 'password', 'host', 'hostname', 'port'] as const),
  ...(['pathname', 'search', 'hash'] as const),
];

function isSettable(part: string): part is Settable {
  return (settable as readonly string[]).includes(part);
}
