import type { Config } from '../../foundation/config/config.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { allowsEndpoint } from '../../foundation/security/outbound-filter.ts';
import { openTunnel, proxyFor } from '../../foundation/security/proxy.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { listWebhookPreviews } from '../../state/store/notifications/notification-targets.ts';
import { proxiesOf } from '../../main/connectors.ts';
import { type Examined, failed, ok } from './examine-first-day.ts';

/** Hosts of webhooks that each proxy is asked for. */
const askedHosts = 10;

/** No name ends in this (RFC 6761), so a proxy that works refuses it, and only a wrong login is refused otherwise. */
const nowhere = { host: 'sluice-doctor.invalid', port: 443 };

/** Answers of a proxy that could not reach the host: that may be the fault of its owner. */
const unreached = /^HTTP (?:502|503|504) /;

/**
 * Asks each proxy of the installation for connections to the hosts of webhooks, and sends nothing through them. The tests of buckets,
 * roles and the mail server are made through it too. Never throws.
 */
export async function examineProxies(config: Config, db: Sql): Promise<readonly Examined[]> {
  const proxies = proxiesOf(config);
  if (proxies.http === null && proxies.https === null) return [];
  const urls = (await listWebhookPreviews(db)).map((preview) => new URL(preview));
  const examined = (['HTTPS_PROXY', 'HTTP_PROXY'] as const).map(async (name) => {
    const isSecure = name === 'HTTPS_PROXY';
    const proxy = isSecure ? proxies.https : proxies.http;
    if (proxy === null) return [];
    const hosts = new Map<string, typeof nowhere>();
    for (const url of urls) {
      if ((url.protocol === 'https:') !== isSecure) continue;
      if (allowsEndpoint(config.ALLOWED_PRIVATE_ENDPOINTS, url)) continue;
      const port = Number(url.port) || (isSecure ? 443 : 80);
      const host = url.hostname.replace(/^\[|\]$/g, '');
      if (proxyFor(proxies, isSecure, host, port) === null) continue;
      if (hosts.size < askedHosts) hosts.set(`${url.hostname}:${port}`, { host, port });
    }
    if (hosts.size === 0) return [await askNowhere(name, proxy)];
    return Promise.all([...hosts].map(([host, at]) => askFor(name, proxy, host, at)));
  });
  return (await Promise.all(examined)).flat();
}

async function askFor(
  name: string,
  proxy: string,
  shown: string,
  { host, port }: typeof nowhere,
): Promise<Examined> {
  const refusal = await findRefusal(name, proxy, host, port);
  if (refusal === null) return ok('proxy', `${name}: ${shown}`);
  const result = unreached.test(refusal.answer) ? 'warning' : 'failed';
  return { check: 'proxy', result, detail: `${name}: ${shown}: ${refusal.words}` };
}

/** Nothing goes through the proxy yet, but it must be a proxy that takes our login. */
async function askNowhere(name: string, proxy: string): Promise<Examined> {
  const refusal = await findRefusal(name, proxy, nowhere.host, nowhere.port);
  const isAnswer = refusal === null || /^HTTP (?!407 )/.test(refusal.answer);
  return isAnswer
    ? ok('proxy', `${name}: it answers, and no webhook needs it yet`)
    : failed('proxy', `${name}: ${refusal.words}`);
}

async function findRefusal(name: string, proxy: string, host: string, port: number) {
  try {
    (await openTunnel(proxy, host, port)).destroy();
    return null;
  } catch (error) {
    if (error instanceof SluiceError) {
      const answer = error.detail ?? '';
      const words = `the proxy refuses the connection (${answer}). Allow the host at the proxy, correct the login in ${name}, or name the host in NO_PROXY.`;
      return { answer, words };
    }
    const { code = '', message } = error as NodeJS.ErrnoException;
    const words = `no proxy answers at its address (${code === '' ? message : code}). Start it, or correct ${name}.`;
    return { answer: '', words };
  }
}
