import type {
  Destination,
  DestinationContext,
  StoreTraits,
} from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { contextWith, owner } from '../conformance/destination-suite.ts';
import { type S3Server, type S3ServerOptions, startS3Server } from './s3-server/server.ts';

export const credentials = {
  accessKeyId: 'AKIACANARY0000000001',
  secretAccessKey: 'canary-secret',
};
/** Small, so that the tests are quick; the server has the same limit. */
export const partBytes = 256 * 1024;
export const bucket = 'exports';

export interface OpenedStore {
  readonly server: S3Server;
  readonly destination: Destination;
  /** The same destination in another process, as it were. */
  open(traits?: StoreTraits | null): Destination;
  /** How many requests for an operation came in. */
  sent(operation: string): number;
  close(): Promise<void>;
}

/** The strict server, with quirks if a test wants them, and a destination that writes to it. */
export async function openStore(
  server: Partial<S3ServerOptions> = {},
  context: Partial<DestinationContext> = {},
  config: Readonly<Record<string, unknown>> = {},
): Promise<OpenedStore> {
  const started = await startS3Server({
    buckets: [bucket],
    credentials,
    minPartBytes: partBytes,
    ...server,
  });
  const opened: Destination[] = [];
  const open = (traits: StoreTraits | null = null) => {
    const destination = s3Definition.open(
      {
        bucket_name: bucket,
        region: started.region,
        aws_access_key_id: credentials.accessKeyId,
        aws_secret_access_key: credentials.secretAccessKey,
        endpoint_url: started.endpoint,
        ...config,
      },
      contextWith({ partBytes, ...context }),
      owner,
      traits,
    );
    opened.push(destination);
    return destination;
  };
  return {
    server: started,
    destination: open(),
    open,
    sent: (operation) => started.requests.filter((entry) => entry.operation === operation).length,
    async close() {
      for (const destination of opened) await destination.close();
      await started.close();
    },
  };
}
