import { afterEach, beforeEach, expect, it } from 'vitest';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { SharedProbes } from '../../src/rows/destinations/shared-probes.ts';
import { codeOf, contextWith } from '../conformance/destination-suite.ts';
import { bucket, credentials, type OpenedStore, openStore } from '../support/s3-destination.ts';

let store: OpenedStore;
let sharedProbes: SharedProbes;
beforeEach(async () => {
  store = await openStore();
  sharedProbes = new SharedProbes();
});
afterEach(() => store.close());

const usual = {
  bucket_name: bucket,
  aws_access_key_id: credentials.accessKeyId,
  aws_secret_access_key: credentials.secretAccessKey,
};

/** As an export of a project that was not changed lately. @returns how many requests its probe sent */
async function probe(project: string, config: Readonly<Record<string, unknown>> = {}) {
  const before = store.server.requests.length;
  const { region, endpoint: endpoint_url } = store.server;
  const owner = { externalId: project, changedForMs: 3_600_000 };
  const context = contextWith({ sharedProbes });
  const at = { ...usual, region, endpoint_url, ...config };
  const destination = s3Definition.open(at, context, owner, null);
  try {
    await destination.probe(AbortSignal.timeout(30_000));
  } finally {
    await destination.close();
  }
  return store.server.requests.length - before;
}

it('one probe is for all exports with the same bucket, key and secret, whatever their project', async () => {
  expect(await probe('one')).toBeGreaterThan(0);
  expect(await probe('one')).toBe(0);
  expect(await probe('two')).toBe(0);
});

it.each([
  ['another prefix', { prefix: 'elsewhere' }, 0],
  ['another encryption', { encryption: 'AES256' }, 1],
  ['another ACL', { acl: 'bucket-owner-full-control' }, 1],
])(
  'an export with %s shares it only if the store may not answer otherwise',
  async (_, config, least) => {
    await probe('one');
    const sent = await probe('two', config);
    expect(Math.min(sent, 1)).toBe(least);
  },
);

it('who knows the key but not the secret learns nothing from it', async () => {
  await probe('one');
  const guessed = probe('two', { aws_secret_access_key: 'guessed' });
  expect(await codeOf(guessed)).toBe('destination.invalid_credentials');
});
