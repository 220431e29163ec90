import { lookup as systemLookup } from 'node:dns/promises';
import { expect, it, onTestFinished } from 'vitest';
import { createNameLookup } from '../../src/foundation/security/name-lookup.ts';
import { createOutboundAgents } from '../../src/foundation/security/outbound-filter.ts';
import { type Known, startDnsServer } from '../support/dns-server.ts';
import { destinationAt, startHostileStore } from '../support/hostile-store.ts';
import { until } from '../support/until.ts';
import { inTest } from '../support/use-stage.ts';

/** Host names of tenants whose DNS servers are hostile. */

/** `silent-…` is never answered; other names have a public address, if they are not known. */
async function startDns(known: Readonly<Record<string, Known>> = {}) {
  return inTest(
    startDnsServer((name) => {
      if (name.startsWith('silent')) return 'silent';
      if (name.startsWith('unknown')) return null;
      return known[name] ?? { addresses: ['8.8.8.8'], ttl: 60 };
    }),
  );
}

const silent = Array.from({ length: 12 }, (_, index) => `silent-${index}.test`);

it('a name that is never answered fails in time', async () => {
  const dns = await startDns();
  const names = createNameLookup({ servers: [dns.address], patienceMs: 300 });
  await expect(names.resolve('silent.test', 'a')).rejects.toMatchObject({ code: 'ETIMEOUT' });
});

it('a name that many servers never answer fails before all of them were asked', async () => {
  const all = await Promise.all(Array.from({ length: 8 }, () => startDns()));
  const servers = all.map(({ address }) => address);
  const names = createNameLookup({ servers, patienceMs: 300 });
  await expect(names.resolve('silent.test', 'a')).rejects.toMatchObject({ code: 'ETIMEOUT' });
  expect(all.map(({ queries }) => queries.length > 0)).toContain(false);
});

it('names that are never answered delay neither another tenant nor the lookups of the system', async () => {
  const dns = await startDns();
  const names = createNameLookup({ servers: [dns.address], patienceMs: 10_000 });
  let ended = 0;
  for (const name of silent) {
    names.resolve(name, 'hostile').catch(() => {
      ended += 1;
    });
  }
  await until(() => dns.queries.length >= 4, { message: () => 'the names are asked for' });
  expect(await names.resolve('store.test', 'victim')).toEqual([{ address: '8.8.8.8', family: 4 }]);
  await systemLookup('localhost');
  expect(ended).toBe(0);
});

it('a tenant has four lookups at a time', async () => {
  const dns = await startDns();
  const names = createNameLookup({ servers: [dns.address], patienceMs: 500 });
  const asked = () => new Set(dns.queries).size;
  let ended = 0;
  const hanging = silent.map((name) =>
    names.resolve(name, 'hostile').catch(() => {
      ended += 1;
      expect(asked()).toBeLessThanOrEqual(ended + 4);
    }),
  );
  await Promise.all(hanging);
  expect(asked()).toBe(silent.length);
});

it('lookups that one tenant waits for do not hold up another tenant with the same name', async () => {
  const dns = await startDns();
  const names = createNameLookup({ servers: [dns.address], patienceMs: 10_000 });
  let ended = 0;
  for (const name of [...silent, 'shared.test']) {
    names
      .resolve(name, 'hostile')
      .catch(() => {})
      .finally(() => {
        ended += 1;
      });
  }
  await names.resolve('shared.test', 'victim');
  expect(ended).toBe(0);
});

it('an answer is kept for its time to live, and a failure for a while', async () => {
  const dns = await startDns({ 'short.test': { addresses: ['8.8.4.4'], ttl: 0 } });
  const names = createNameLookup({ servers: [dns.address], patienceMs: 10_000 });
  for (let round = 0; round < 3; round += 1) {
    await names.resolve('store.test', 'a');
    await names.resolve('STORE.test.', 'b');
    await names.resolve('unknown.test', 'a').catch(() => {});
  }
  expect(dns.queries).toEqual(['store.test', 'unknown.test']);
  await names.resolve('short.test', 'a');
  await until(
    async () => {
      await names.resolve('short.test', 'a');
      return dns.queries.filter((name) => name === 'short.test').length === 2;
    },
    { message: () => 'the name is asked for again' },
  );
});

it('the cache is bounded', async () => {
  const dns = await startDns();
  const names = createNameLookup({ servers: [dns.address] });
  for (let from = 0; from < 2_200; from += 100) {
    const some = Array.from({ length: 100 }, (_, index) => `store-${from + index}.test`);
    await Promise.all(some.map((name) => names.resolve(name, name)));
  }
  await names.resolve('store-2199.test', 'a');
  expect(new Set(dns.queries).size).toBe(2_200);
  const before = dns.queries.length;
  await names.resolve('store-0.test', 'a');
  expect(dns.queries.length).toBeGreaterThan(before);
});

it.each([
  ['private', ['127.0.0.1']],
  ['partly private', ['8.8.8.8', '10.0.0.1']],
])('a name with addresses that are %s is refused, and nothing is sent', async (_, addresses) => {
  const store = await inTest(startHostileStore((_request, response) => void response.end()));
  const dns = await startDns({ 'rebound.test': { addresses, ttl: 60 } });
  const agents = createOutboundAgents([], createNameLookup({ servers: [dns.address] }));
  const endpoint = `http://rebound.test:${store.port}`;
  const destination = destinationAt({ endpoint }, agents);
  onTestFinished(() => destination.close());
  await expect(destination.statFile('a')).rejects.toMatchObject({
    code: 'destination.endpoint_forbidden',
  });
  expect(store.requests).toEqual([]);
});

it('a destination whose name is never answered is unavailable', async () => {
  const dns = await startDns();
  const names = createNameLookup({ servers: [dns.address], patienceMs: 300 });
  const destination = destinationAt(
    { endpoint: 'http://silent.test:9000' },
    createOutboundAgents([], names),
  );
  onTestFinished(() => destination.close());
  await expect(destination.statFile('a')).rejects.toMatchObject({
    code: 'destination.unavailable',
    detail: 'ETIMEOUT',
  });
});
