export type RedisAddress =
  | { readonly kind: 'server'; readonly url: string }
  | ({ readonly kind: 'cluster' } & RedisServers)
  | ({
      /** The hosts are sentinels. `login` is for the servers. */
      readonly kind: 'sentinel';
      readonly master: string;
      readonly database: number;
      readonly sentinelLogin: RedisLogin;
    } & RedisServers);

export interface RedisServers {
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly login: RedisLogin;
  readonly tls: boolean;
}

export interface RedisLogin {
  readonly username?: string;
  readonly password?: string;
}

const form =
  /^redis(?<tls>s?)(?<kind>\+cluster|\+sentinel)?:\/\/((?<login>[^/?#]*)@)?(?<hosts>[^/?#]*)(\/(?<path>[^?#]*))?(\?(?<query>[^#]*))?$/;
const hostForm = /^(?:\[(?<six>[0-9a-f:.]+)\]|(?<name>[^:[\]\s]+))(?::(?<port>\d{1,5}))?$/i;
const ports = { cluster: 6379, sentinel: 26_379 } as const;

export const redisAddressForms =
  'redis:// or rediss:// with one host, or with several for a cluster; redis+cluster://; redis+sentinel://host:port,…/master';

/**
 * One server, a cluster (`redis://h1:p,h2:p`, `redis+cluster://h1:p`) or a master by its sentinels
 * (`redis+sentinel://user:password@h1:p,h2:p/master/database`); with `rediss` by TLS.
 * @throws Error without a part of the login
 */
export function parseRedisAddress(text: string): RedisAddress {
  const parts = form.exec(text)?.groups;
  if (!parts) throw new Error(`must be ${redisAddressForms}`);
  const { hosts = '', login = '', path = '', query = '' } = parts;
  const isSentinel = parts.kind === '+sentinel';
  if (parts.kind === undefined && !hosts.includes(',')) {
    // The client ignores what it does not know, and then another database has the queue.
    if (!/^\d{0,4}$/.test(path)) throw new Error('must have only the number of a database after /');
    if (!/^(family=[46])?$/.test(query))
      throw new Error('must have no parameter but family=4 or 6');
    return { kind: 'server', url: text };
  }
  const kind = isSentinel ? 'sentinel' : 'cluster';
  const places: RedisServers = {
    hosts: hosts.split(',').map((host, index) => parseHost(host, index + 1, ports[kind])),
    login: parseLogin(login),
    tls: parts.tls === 's',
  };
  if (isSentinel) return { kind: 'sentinel', ...places, ...parseSentinel(path, query) };
  if (path !== '' && path !== '0') {
    throw new Error(`must have no /${path} after the hosts: a cluster has database 0 only`);
  }
  if (query !== '') throw new Error('must have no parameters after ?, if it names a cluster');
  return { kind: 'cluster', ...places };
}

/** The text may be a part of a login that is not well written, so no message has it. */
function parseHost(text: string, number: number, defaultPort: number) {
  const { six, name, port: digits } = hostForm.exec(text)?.groups ?? {};
  const host = six ?? name;
  const port = Number(digits ?? defaultPort);
  if (host === undefined || port < 1 || port > 65_535) {
    throw new Error(
      `must have hosts as host:port, separated by commas; host ${number} is none. In a user or password write @, / and ? as %40, %2F and %3F`,
    );
  }
  return { host, port };
}

function parseLogin(text: string): RedisLogin {
  const colon = text.indexOf(':');
  const [name, password] = colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
  return loginOf(decode(name), decode(password));
}

function loginOf(username: string, password: string): RedisLogin {
  return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error('must have % in a user, password or name written as %25');
  }
}

const sentinelParameters = ['sentinel_username', 'sentinel_password'];

function parseSentinel(path: string, query: string) {
  const [master = '', database = '0', ...more] = path.split('/');
  if (master === '') {
    throw new Error(
      "must name the sentinels' master after the hosts: redis+sentinel://host:26379/mymaster",
    );
  }
  if (!/^\d{1,4}$/.test(database) || more.length > 0) {
    throw new Error('must have nothing but the number of a database after the name of the master');
  }
  const given = new URLSearchParams(query);
  const other = [...given.keys()].find((name) => !sentinelParameters.includes(name));
  if (other !== undefined) {
    throw new Error(`must have no parameters but ${sentinelParameters.join(' and ')}`);
  }
  const [name, password] = sentinelParameters.map((parameter) => given.get(parameter) ?? '');
  return {
    master: decode(master),
    database: Number(database),
    sentinelLogin: loginOf(name ?? '', password ?? ''),
  };
}
