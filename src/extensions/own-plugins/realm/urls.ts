/** Node's own parser is outside the realm: only texts go there and come back. */

/** The parts of a URL after one of them was set, one per line, or null if it is none. */
export type ParseUrl = (href: string, base: string, part: string, value: string) => string | null;

/** In the order of the lines. */
export const urlParts = [
  ...['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port'],
  ...['pathname', 'search', 'hash'],
];

export function addUrls(globals: Record<string, unknown>, parse: ParseUrl): void {
  const UrlSearchParams = makeSearchParams();
  globals.URLSearchParams = UrlSearchParams;
  globals.URL = makeUrl(parse, UrlSearchParams);
}

type SearchParams = ReturnType<typeof makeSearchParams>;

function makeUrl(parse: ParseUrl, Params: SearchParams) {
  const read = (href: string, base = '', part = '', value = ''): string[] => {
    let lines: string | null = null;
    try {
      lines = parse(href, base, part, value);
    } catch {
      // An error from outside must not be seen here.
    }
    if (typeof lines !== 'string') throw new TypeError('Invalid URL');
    return lines.split('\n');
  };
  class URL {
    #parts: string[];
    #params: InstanceType<SearchParams> | null = null;

    constructor(href: unknown, base?: unknown) {
      this.#parts = read(`${href}`, base === undefined ? '' : `${base}`);
    }

    static canParse(href: unknown, base?: unknown): boolean {
      try {
        return new URL(href, base) instanceof URL;
      } catch {
        return false;
      }
    }

    get searchParams(): InstanceType<SearchParams> {
      this.#params ??= new Params(this.search, (search: string) => this.#set('search', search));
      return this.#params;
    }

    get search(): string {
      return this.#parts[9] ?? '';
    }

    set search(value: unknown) {
      this.#set('search', `${value}`);
      this.#params?.replace(this.search);
    }

    get href(): string {
      return this.#parts[0] ?? '';
    }

    set href(value: unknown) {
      this.#parts = read(`${value}`);
      this.#params?.replace(this.search);
    }

    toString(): string {
      return this.href;
    }

    toJSON(): string {
      return this.href;
    }

    /** @internal */
    static partOf(url: URL, index: number): string {
      return url.#parts[index] ?? '';
    }

    /** @internal */
    static setPart(url: URL, part: string, value: string): void {
      url.#set(part, value);
    }

    #set(part: string, value: string): void {
      this.#parts = read(this.href, '', part, value);
    }
  }
  const { partOf, setPart } = URL;
  Reflect.deleteProperty(URL, 'partOf');
  Reflect.deleteProperty(URL, 'setPart');
  for (const [index, part] of urlParts.entries()) {
    if (part === 'href' || part === 'search') continue;
    Object.defineProperty(URL.prototype, part, {
      configurable: true,
      enumerable: true,
      get(this: URL) {
        return partOf(this, index);
      },
      set(this: URL, value: unknown) {
        if (part !== 'origin') setPart(this, part, `${value}`);
      },
    });
  }
  return URL;
}

function makeSearchParams() {
  return class URLSearchParams {
    #pairs: [string, string][];
    readonly #changed: (search: string) => void;

    constructor(given: unknown = '', changed: unknown = null) {
      this.#pairs = readPairs(given);
      this.#changed = typeof changed === 'function' ? (search) => changed(search) : () => {};
    }

    get size(): number {
      return this.#pairs.length;
    }

    get(name: unknown): string | null {
      return this.#pairs.find(([key]) => key === `${name}`)?.[1] ?? null;
    }

    getAll(name: unknown): string[] {
      return this.#pairs.filter(([key]) => key === `${name}`).map(([, value]) => value);
    }

    has(name: unknown): boolean {
      return this.#pairs.some(([key]) => key === `${name}`);
    }

    append(name: unknown, value: unknown): void {
      this.#update([...this.#pairs, [`${name}`, `${value}`]]);
    }

    delete(name: unknown): void {
      this.#update(this.#pairs.filter(([key]) => key !== `${name}`));
    }

    set(name: unknown, value: unknown): void {
      const at = this.#pairs.findIndex(([key]) => key === `${name}`);
      if (at < 0) {
        this.append(name, value);
        return;
      }
      const pairs = this.#pairs.filter(([key], index) => index <= at || key !== `${name}`);
      this.#update(pairs.with(at, [`${name}`, `${value}`]));
    }

    sort(): void {
      const byName = (a: [string, string], b: [string, string]) =>
        a[0] < b[0] ? -1 : Number(a[0] > b[0]);
      this.#update(this.#pairs.toSorted(byName));
    }

    forEach(visit: (value: string, name: string, params: unknown) => void): void {
      for (const [name, value] of this.#pairs) visit(value, name, this);
    }

    entries() {
      return this.#pairs.map(([name, value]): [string, string] => [name, value]).values();
    }

    keys() {
      return this.#pairs.map(([name]) => name).values();
    }

    values() {
      return this.#pairs.map(([, value]) => value).values();
    }

    [Symbol.iterator]() {
      return this.entries();
    }

    toString(): string {
      return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
    }

    /** @internal for the URL that these belong to */
    replace(search: string): void {
      this.#pairs = readPairs(search);
    }

    #update(pairs: [string, string][]): void {
      this.#pairs = pairs;
      this.#changed(this.toString());
    }
  };
}

function readPairs(given: unknown): [string, string][] {
  if (typeof given === 'object' && given !== null) {
    const isList =
      typeof (given as { [Symbol.iterator]?: unknown })[Symbol.iterator] === 'function';
    const pairs = isList ? [...(given as Iterable<unknown[]>)] : Object.entries(given);
    return pairs.map(([name, value]) => [`${name}`, `${value}`]);
  }
  const text = `${given}`.replace(/^\?/, '');
  const parts = text.split('&').filter((part) => part !== '');
  return parts.map((part) => {
    const [name = ''] = part.split('=', 1);
    return [decode(name), decode(part.slice(name.length + 1))];
  });
}

/** Bytes that are no UTF-8 stay as they are written. */
function decode(text: string): string {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

function encode(text: string): string {
  return encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\ufffd'))
    .replaceAll('%20', '+')
    .replace(/[!'()~]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`);
}
