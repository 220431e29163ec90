import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { S3ClientConfig } from '@aws-sdk/client-s3';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { decideRetry, type RetryPolicy } from '../../../foundation/domain/retry-policy.ts';
import { type PartTraits, usualParts } from '../../../foundation/domain/store-traits.ts';
import type { DestinationContext, DestinationOwner, StoreTraits } from '../destination.ts';
import type { S3Config } from './config.ts';
import { type Hidden, toDestinationError } from './errors.ts';
import {
  createRequestHandler,
  queryString,
  type SendOptions,
  sendRequest,
} from './request-handler.ts';
import { openStoreClient, type StoreClient, type StoreRequest } from './store-client.ts';

/** A client for one bucket. It retries requests within limits and fails as SluiceError. */
export interface S3Connection {
  readonly bucket: string;
  /** Exports that use one bucket with the same keys and settings have the same store. */
  readonly store: string;
  readonly changedForMs: number;
  readonly secure: boolean;
  /** The probed abilities of the store; null before the first probe. A probe replaces it. */
  traits: StoreTraits | null;
  /** Facts about the parts of uploads, also before the first probe. */
  readonly parts: PartTraits;
  /** Keeps it, for the traits too. */
  learnParts(parts: PartTraits): void;
  /** The store has behaved otherwise than `traits` say, and was not probed since. */
  isDoubted: boolean;
  /** Marks that, also for the other exports that use the store. */
  doubt(): void;
  /** Encryption at rest as the config asks for it; null: as the bucket has it. */
  readonly encryption: S3Config['encryption'];
  readonly objectHeaders: Headers;
  /** For a file. A manifest is small and read often, so it has the usual class. */
  readonly fileHeaders: Headers;
  /** @param call must be safe to repeat @param signal ends its retries too @param policy of them; default: the context's */
  request<T>(
    call: (client: StoreClient, options: SendOptions) => Promise<T>,
    signal: AbortSignal,
    policy?: RetryPolicy,
  ): Promise<T>;
  close(): void;
}

type Headers = Readonly<Record<string, string | undefined>>;

/** @param request must be safe to repeat */
export const sendTo = (connection: S3Connection, request: StoreRequest, signal: AbortSignal) =>
  connection.request((client, options) => client.send(request, options), signal);

export function connectS3(
  config: S3Config,
  context: DestinationContext,
  owner: DestinationOwner,
  traits: StoreTraits | null = null,
): S3Connection {
  const handler = createRequestHandler(context, owner.externalId);
  const keys = staticKeys(config);
  const secrets = keys ? [keys.secretAccessKey] : [];
  const hidden: Hidden = { keyId: keys?.accessKeyId ?? null, secrets };
  const credentials =
    config.role_arn === null ? keys : assumeRole(config, context, owner, hidden, secrets);
  const sdk = {
    ...clientDefaults(config.region, handler),
    ...(credentials ? { credentials } : {}),
    ...(config.endpoint_url === null ? {} : { endpoint: config.endpoint_url }),
    forcePathStyle: !config.use_virtual_style_addressing,
  } as const;
  const client = openStoreClient({
    bucket: config.bucket_name,
    headers: { 'x-amz-expected-bucket-owner': config.expected_bucket_owner ?? undefined },
    sdk,
    keys: config.role_arn === null ? keys : null,
    send: (request, options) => sendRequest(request, context, owner.externalId, options),
  });
  const objectHeaders = {
    'x-amz-server-side-encryption': config.encryption ?? undefined,
    'x-amz-server-side-encryption-aws-kms-key-id': config.kms_key_id ?? undefined,
    'x-amz-acl': config.acl ?? undefined,
    'x-amz-tagging': tagsOf(config),
  };
  let parts = traits?.parts ?? usualParts;
  const connection: S3Connection = {
    traits,
    get parts() {
      return parts;
    },
    learnParts(learned) {
      parts = learned;
      if (connection.traits) connection.traits = { ...connection.traits, parts };
    },
    isDoubted: false,
    doubt() {
      connection.isDoubted = true;
      context.sharedProbes?.forget(connection.store);
    },
    bucket: config.bucket_name,
    store: nameStore(config, owner),
    changedForMs: owner.changedForMs ?? 0,
    secure: config.endpoint_url === null || new URL(config.endpoint_url).protocol === 'https:',
    encryption: config.encryption,
    objectHeaders,
    fileHeaders: { ...objectHeaders, 'x-amz-storage-class': config.storage_class ?? undefined },
    request: (call, signal, policy = context.requestRetry) =>
      retryRequest(() => call(client, { abortSignal: signal }), policy, hidden, signal),
    close: () => client.close(),
  };
  return connection;
}

function tagsOf({ object_tags: tags }: S3Config): string | undefined {
  if (tags === null || tags.length === 0) return undefined;
  return queryString(Object.fromEntries(tags.map(splitTag)));
}

export function splitTag(tag: string): readonly [key: string, value: string] {
  const at = tag.indexOf('=');
  return [tag.slice(0, at), tag.slice(at + 1)];
}

/** Who has the same secret is the same to a store. A role is assumed with the external id of a project. */
function nameStore(config: S3Config, { externalId }: DestinationOwner): string {
  const { endpoint_url, region, bucket_name, use_virtual_style_addressing } = config;
  const { role_arn, encryption, kms_key_id } = config;
  const keys = role_arn === null ? staticKeys(config) : null;
  const whose = keys ? createHash('sha256').update(JSON.stringify(keys)).digest('hex') : externalId;
  const extras = [config.acl, config.expected_bucket_owner, config.object_tags];
  const address = [endpoint_url, region, bucket_name, use_virtual_style_addressing];
  return JSON.stringify([whose, address, role_arn, encryption, kms_key_id, extras]);
}

/** Sets everything that the SDK would otherwise look for in the environment and in files. */
function clientDefaults(region: string, requestHandler: ReturnType<typeof createRequestHandler>) {
  return {
    region,
    requestHandler,
    maxAttempts: 1,
    retryMode: 'standard',
    defaultsMode: 'standard',
    userAgentAppId: 'sluice',
  } as const;
}

function staticKeys(config: S3Config) {
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secretAccessKey } = config;
  return accessKeyId !== null && secretAccessKey !== null ? { accessKeyId, secretAccessKey } : null;
}

/**
 * Credentials of a role for an hour at a time; the SDK asks again shortly before they expire. The
 * external id keeps one project from using a role that trusts another (AWS IAM guide, "The confused
 * deputy problem").
 *
 * @param secrets of `hidden`: gets those that are issued
 */
function assumeRole(
  config: S3Config,
  context: DestinationContext,
  owner: DestinationOwner,
  hidden: Hidden,
  secrets: string[],
): NonNullable<S3ClientConfig['credentials']> {
  const keys = staticKeys(config);
  return async () => {
    // Loaded only for the few exports that have a role.
    const { AssumeRoleCommand, STSClient } = await import('@aws-sdk/client-sts');
    const client = new STSClient({
      ...clientDefaults(config.region, createRequestHandler(context, owner.externalId)),
      // The first answer to a host whose clock is wrong says the time, and the second try is signed with it.
      maxAttempts: 2,
      ...(keys ? { credentials: keys } : {}),
      ...(context.stsEndpoint === null ? {} : { endpoint: context.stsEndpoint }),
    });
    const command = new AssumeRoleCommand({
      RoleArn: config.role_arn ?? undefined,
      RoleSessionName: 'sluice',
      ExternalId: owner.externalId,
      DurationSeconds: 3600,
    });
    const { Credentials: issued } = await client.send(command).catch((error: unknown) => {
      throw roleError(toDestinationError(error, hidden));
    });
    client.destroy();
    secrets.push(...[issued?.SecretAccessKey, issued?.SessionToken].filter((s) => s !== undefined));
    return {
      accessKeyId: issued?.AccessKeyId ?? '',
      secretAccessKey: issued?.SecretAccessKey ?? '',
      ...(issued?.SessionToken === undefined ? {} : { sessionToken: issued.SessionToken }),
      ...(issued?.Expiration === undefined ? {} : { expiration: issued.Expiration }),
    };
  };
}

/** If STS denies access, the role or its trust policy must be fixed, not the bucket. */
function roleError(error: SluiceError): SluiceError {
  if (error.spec.retryable || error.code === mayBeOnce) return error;
  const detail = `cannot assume the role: ${error.detail ?? error.code}`;
  return new SluiceError('destination.invalid_credentials', detail, error);
}

/**
 * Transient errors of one request that a retry fixes: one 503 among ten thousand parts must not cost
 * the attempt. The worker retries the rest. It also retries a conflict and a lost upload; the same
 * request would only fail again.
 */
const transient = new Set([
  'destination.unavailable',
  'destination.throttled',
  'destination.stalled',
]);

/** A proxy may send one page among ten thousand answers: it is final only if it comes each time. */
const mayBeOnce = 'destination.not_a_store';

/**
 * @param send must be safe to repeat
 * @throws SluiceError of the last try; at once when `signal` aborts
 */
async function retryRequest<T>(
  send: () => Promise<T>,
  policy: RetryPolicy,
  hidden: Hidden,
  signal: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await send();
    } catch (caught) {
      const error = toDestinationError(caught, hidden);
      const isOnce = error.code === mayBeOnce;
      const judged = isOnce ? new SluiceError('destination.unavailable') : error;
      const decision = decideRetry(judged, attempt, policy, Math.random());
      if (decision.outcome !== 'retry' || !transient.has(judged.code) || signal.aborted)
        throw error;
      await wait(decision.delayMs, undefined, { signal }).catch(() => {
        throw error;
      });
    }
  }
}
