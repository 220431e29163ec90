import { testkit } from '../../conformance/testkits/s3.ts';
import { destinationOf, registry } from '../../../src/main/connectors.ts';
import { describeDestination } from '../../conformance/destination-suite.ts';
import { openForeignS3 } from '../../support/foreign-s3.ts';
import { readStore } from '../store.ts';

const store = readStore();
const definition = destinationOf(registry, 'S3');

/** Swift refuses each conditional PUT. */
const lacking = { ceph: [], swift: ['conditions'] } as const;

const stores = {
  s3: async () => {
    const bucket = 'conformance';
    const { close } = await openForeignS3(store, bucket);
    const { endpoint, region, credentials } = store;
    return { endpoint, region, bucket, ...credentials, stop: close };
  },
};
describeDestination(`S3 at ${store.title}`, definition, testkit, stores, lacking[store.name]);
