import { readdirSync } from 'node:fs';
import { startFauxqs } from 'fauxqs';
import { expect, it } from 'vitest';
import type { DestinationTestkit, TestStores } from './testkits/testkit.ts';
import { destinationOf, registry } from '../../src/main/connectors.ts';
import { isNightly } from '../support/nightly.ts';
import { startS3Server } from '../support/s3-server/server.ts';
import { describeDestination } from './destination-suite.ts';

const room = new URL('../../src/rows/destinations/', import.meta.url);
const folders = readdirSync(room, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name);

const kits = await Promise.all(
  folders.map(async (folder) => {
    const module: unknown = await import(`./testkits/${folder}.ts`);
    return (module as { readonly testkit: DestinationTestkit }).testkit;
  }),
);

const accessKeyId = 'AKIACONFORMANCE00001';
const secretAccessKey = 'conformance-secret';

/** Our strict server, and an independent one that knows less. */
const strict: TestStores = {
  s3: async () => {
    const server = await startS3Server({
      buckets: ['conformance'],
      credentials: { accessKeyId, secretAccessKey },
    });
    const { endpoint, region } = server;
    return {
      ...{ endpoint, region, bucket: 'conformance', accessKeyId, secretAccessKey },
      stop: () => server.close(),
    };
  },
};

const independent: TestStores = {
  s3: async () => {
    const server = await startFauxqs({ port: 0, logger: false });
    const { bucketName: bucket } = server.createBucket('conformance');
    const endpoint = `http://127.0.0.1:${server.port}`;
    return {
      ...{ endpoint, region: 'us-east-1', bucket, accessKeyId, secretAccessKey },
      stop: () => server.stop(),
    };
  },
};

it('gives each destination of the registry to the suite', () => {
  const registered = registry.destinations.map((definition) => definition.type);
  expect(kits.map((kit) => kit.type).sort()).toEqual([...registered].sort());
  expect(() => destinationOf(registry, 's3')).toThrow('unknown destination type s3');
});

for (const kit of kits) {
  const definition = destinationOf(registry, kit.type);
  describeDestination(kit.type, definition, kit, strict);
  if (kit.type === 'S3' && isNightly) {
    const lacks = ['conditions', 'lists of uploads'] as const;
    describeDestination('S3 at an independent store', definition, kit, independent, lacks);
  }
}
