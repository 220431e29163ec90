import { randomBytes } from 'node:crypto';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { DestinationContext } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { createOutboundAgents } from '../../src/foundation/security/outbound-filter.ts';
import {
  codeOf,
  contextWith,
  keysUnder,
  options,
  owner,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import {
  assumed,
  issued,
  credentials,
  partBytes,
  serve,
  serverDefaults,
  start,
  startSts,
  twoParts,
  upload,
} from '../support/s3-destination.ts';
import type { Fault } from '../support/s3-server/faults.ts';
import { type S3ServerOptions, startS3Server } from '../support/s3-server/server.ts';
import { inTest } from '../support/use-stage.ts';

describe('a manifest at S3', () => {
  const put = { operation: 'PutObject' } as const;
  const body = Buffer.from('{"run":"a"}');

  it('is committed if its answer was lost', async () => {
    const { server, destination, sent } = await start();
    server.faults.add({ match: put, effect: { loseResponse: true } });
    const { etag } = await destination.commitManifest('m.json', body, null);
    expect(etag).toBe(server.objects('exports')[0]?.etag);
    expect(sent('PutObject')).toBe(2);
  });

  it('is a conflict if the store says so and another one is current', async () => {
    const { server, destination, sent } = await start();
    await destination.commitManifest('m.json', body, null);
    server.faults.add({ match: put, effect: { status: 409, code: 'ConditionalRequestConflict' } });
    const other = destination.commitManifest('m.json', Buffer.from('{"run":"b"}'), null);
    expect(await codeOf(other)).toBe('destination.conflict');
    expect(sent('PutObject')).toBe(2);
    expect(String(server.objects('exports')[0]?.body())).toBe('{"run":"a"}');
  });
});

describe('reading from S3', () => {
  it('ends if the store sends one byte at a time', async () => {
    const started = await start({ context: { stallTimeoutMs: 400 } });
    await upload(started, randomBytes(100_000));
    const get = { operation: 'GetObject' } as const;
    started.server.faults.add({ match: get, effect: { trickleBytesPerSecond: 10 } });
    expect(await codeOf(readAll(started.destination, 'a.jsonl'))).toBe('destination.stalled');
  });

  it('does not take a slow reader of ours for a stall', async () => {
    const started = await start({ context: { stallTimeoutMs: 300 } });
    const bytes = randomBytes(16 * partBytes);
    await upload(started, bytes);
    await upload(started, twoParts, 'b.jsonl');
    const match = { operation: 'GetObject', key: /^b/ } as const;
    started.server.faults.add({ match, times: 3, effect: { trickleBytesPerSecond: 10 } });
    const found = await started.destination.readFile('a.jsonl');
    let read = 0;
    for await (const chunk of found?.body ?? []) {
      // Other bodies stall three times while this one waits for its reader.
      if (read === 0) {
        for (let stall = 0; stall < 3; stall += 1) {
          expect(await codeOf(readAll(started.destination, 'b.jsonl'))).toBe('destination.stalled');
        }
      }
      read += chunk.length;
    }
    expect(read).toBe(bytes.length);
  });

  it('lists more objects than one answer holds', async () => {
    const { destination } = await start();
    const keys = Array.from({ length: 1003 }, (_, index) => `k/${String(index).padStart(4, '0')}`);
    const left = keys.values();
    const put = async () => {
      for (const key of left) await destination.commitManifest(key, Buffer.from('{}'), null);
    };
    await Promise.all(Array.from({ length: 8 }, put));
    expect(await keysUnder(destination, 'k/')).toEqual(keys);
  });

  it('reports a body that breaks off', async () => {
    const started = await start();
    await upload(started, twoParts);
    const get = { operation: 'GetObject' } as const;
    started.server.faults.add({ match: get, effect: { resetAfterBytes: 100_000 } });
    expect(await codeOf(readAll(started.destination, 'a.jsonl'))).toBe('destination.unavailable');
  });
});

describe('the test of an S3 destination', () => {
  const failing: readonly {
    readonly name: string;
    readonly step: string;
    readonly error: RegExp;
    readonly config?: Record<string, unknown>;
    readonly server?: Partial<S3ServerOptions>;
    readonly fault?: Fault;
    readonly context?: () => Partial<DestinationContext>;
  }[] = [
    {
      name: 'an address that is not allowed',
      step: 'address',
      error: /The endpoint cannot be reached/,
      context: () => createOutboundAgents([]),
    },
    {
      name: 'an address without a listener',
      step: 'address',
      error: /The endpoint cannot be reached/,
      config: { endpoint_url: 'http://127.0.0.1:1' },
    },
    {
      name: 'a name that does not resolve',
      step: 'address',
      error: /The endpoint cannot be reached/,
      config: { endpoint_url: 'http://store.invalid' },
    },
    {
      name: 'an unknown key',
      step: 'credentials',
      error: /invalid_credentials/,
      config: { aws_access_key_id: 'AKIACANARY0000000002' },
    },
    {
      name: 'a wrong secret',
      step: 'credentials',
      error: /invalid_credentials/,
      config: { aws_secret_access_key: 'canary-wrong' },
    },
    {
      name: 'expired credentials',
      step: 'credentials',
      error: /expired_credentials/,
      server: { credentials: { ...credentials, expired: true } },
    },
    {
      name: 'a bucket that is not there',
      step: 'bucket',
      error: /bucket_not_found/,
      config: { bucket_name: 'elsewhere' },
    },
    {
      name: 'a bucket of another region',
      step: 'bucket',
      error: /wrong_region.*eu-west-1/,
      server: { buckets: [{ name: 'exports', region: 'eu-west-1' }] },
    },
    {
      name: 'writing that is denied',
      step: 'write',
      error: /access_denied/,
      fault: {
        match: { operation: 'CreateMultipartUpload' },
        effect: { status: 403, code: 'AccessDenied' },
      },
    },
    {
      name: 'a KMS key that is not there',
      step: 'encryption',
      error: /kms_denied/,
      config: { encryption: 'aws:kms', kms_key_id: 'missing' },
      server: { kmsKeys: ['other'] },
    },
    {
      name: 'deleting that is denied',
      step: 'delete',
      error: /access_denied/,
      fault: {
        match: { operation: 'DeleteObject' },
        probability: 1,
        effect: { status: 403, code: 'AccessDenied' },
      },
    },
  ];

  it.each(failing)('names $step for $name', async ({ step, error, fault, context, ...rest }) => {
    const { server, destination } = await start({ ...rest, context: context?.() ?? {} });
    if (fault) server.faults.add(fault);
    const steps = await destination.test(AbortSignal.timeout(10_000));
    const failed = steps.filter((each) => !each.passed);
    expect(failed.map((each) => each.step)).toEqual([step]);
    expect(steps.at(-1)).toBe(failed[0]);
    expect(failed[0]?.error).toMatch(error);
    // No key and no secret in what the owner sees.
    expect(JSON.stringify(steps)).not.toMatch(/CANARY|canary/);
  });

  it('warns if listing is denied, and continues', async () => {
    const { server, destination } = await start();
    const denied = { status: 403, code: 'AccessDenied' };
    server.faults.add({ match: { operation: 'ListObjectsV2' }, effect: denied });
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.every((each) => each.passed)).toBe(true);
    expect(steps.find((each) => each.step === 'bucket')?.warning).toMatch(/list/);
  });

  it('writes its marker below the part of the prefix that has no variable', async () => {
    const { server, destination } = await start({ config: { prefix: '/a/b/{year}/c' } });
    await destination.test(AbortSignal.timeout(10_000));
    const keys = server.requests.filter((entry) => entry.key).map((entry) => entry.key);
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) expect(key).toMatch(/^a\/(b\/)?\.sluice-test-/);
  });
});

describe('a connection to S3', () => {
  it('fails at once, with one request, if only the owner can help', async () => {
    const { server, destination } = await start({ config: { aws_secret_access_key: 'wrong' } });
    const file = destination.createFile(options('a'), recordingJournal().journal);
    expect(await codeOf(file)).toBe('destination.invalid_credentials');
    expect(server.requests).toHaveLength(1);
  });

  it('is made with the process’s own credentials only if the settings allow it', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', credentials.accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', credentials.secretAccessKey);
    onTestFinished(() => void vi.unstubAllEnvs());
    const none = { aws_access_key_id: null, aws_secret_access_key: null };
    const lent = { allowAmbientCredentials: true };
    const started = await start({ config: none, context: lent });
    expect(s3Definition.validate(started.config, started.context)).toEqual([]);
    expect(s3Definition.validate(started.config, contextWith({}))).not.toEqual([]);
    await upload(started, twoParts);
    expect(started.server.objects('exports')).toHaveLength(1);
  });

  it('names the bucket in the host if the config says so', async () => {
    const outbound = createOutboundAgents(['*.s3.localhost'], (_host, lookup, answer) =>
      lookup.all
        ? answer(null, [{ address: '127.0.0.1', family: 4 }])
        : answer(null, '127.0.0.1', 4),
    );
    const server = await inTest(startS3Server(serverDefaults));
    const started = await start({
      config: {
        use_virtual_style_addressing: true,
        endpoint_url: `http://s3.localhost:${server.port}`,
      },
      context: outbound,
    });
    await upload(started, twoParts);
    expect(server.objects('exports').map((object) => object.key)).toEqual(['a.jsonl']);
  });

  it('does not follow a redirect', async () => {
    let hits = 0;
    const target = await serve((_, response) => {
      hits += 1;
      response.end();
    });
    const redirecting = await serve((_, response) => {
      response.writeHead(307, { location: `http://127.0.0.1:${target}/` }).end();
    });
    const endpoint_url = `http://127.0.0.1:${redirecting}`;
    const { destination } = await start({ config: { endpoint_url } });
    expect(await codeOf(destination.readFile('a'))).toBe('destination.wrong_region');
    expect(hits).toBe(0);
  });
});

describe('a role', () => {
  const role = { role_arn: 'arn:aws:iam::123456789012:role/exports' };

  it('is assumed by a host whose clock is wrong', async () => {
    const theirs = new Date();
    theirs.setUTCFullYear(theirs.getUTCFullYear() + 2);
    const date = theirs.toUTCString();
    const sts = await startSts((signedAt) =>
      signedAt.startsWith(String(theirs.getUTCFullYear()))
        ? { ...assumed(), date }
        : {
            ...{ status: 403, date },
            xml: '<ErrorResponse><Error><Type>Sender</Type><Code>SignatureDoesNotMatch</Code><Message>Signature expired</Message></Error></ErrorResponse>',
          },
    );
    const started = await start({
      config: role,
      context: { stsEndpoint: sts.endpoint },
      server: { credentials: issued },
    });
    await upload(started, twoParts);
    expect(sts.calls).toHaveLength(2);
  });

  it('is assumed with the external id of the project, once for many requests', async () => {
    const sts = await startSts(() => assumed());
    const started = await start({
      config: role,
      context: { stsEndpoint: sts.endpoint },
      server: { credentials: issued },
    });
    await upload(started, twoParts);
    expect(started.server.objects('exports')).toHaveLength(1);
    expect(sts.calls).toHaveLength(1);
    expect(Object.fromEntries(sts.calls[0] ?? [])).toMatchObject({
      Action: 'AssumeRole',
      RoleArn: role.role_arn,
      ExternalId: owner.externalId,
    });
  });

  it('is asked for again if a proxy answers in place of STS', async () => {
    const sts = await startSts(() => ({ status: 403, xml: '<html><body>Forbidden</body></html>' }));
    const { destination } = await start({ config: role, context: { stsEndpoint: sts.endpoint } });
    expect(await codeOf(destination.readFile('a'))).toBe('destination.not_a_store');
    expect(sts.calls).toHaveLength(5);
  });

  it('that may not be assumed is a fault of the credentials', async () => {
    const sts = await startSts(() => ({
      status: 403,
      xml: '<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User AKIACANARY0000000001 is not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>',
    }));
    const { destination } = await start({ config: role, context: { stsEndpoint: sts.endpoint } });
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.at(-1)).toMatchObject({ step: 'credentials', passed: false });
    expect(steps.at(-1)?.error).toMatch(/invalid_credentials.*cannot assume the role/);
    expect(JSON.stringify(steps)).not.toMatch(/CANARY|canary/);
  });
});
