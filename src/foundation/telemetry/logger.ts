import { type DestinationStream, type Logger, pino } from 'pino';
import { SluiceError } from '../domain/errors.ts';
import { cutText } from '../domain/one-line.ts';
import { hideFolders } from '../domain/partition.ts';
import { isBrokenConnection, type Outages } from './outages.ts';

export type { Logger } from 'pino';

/** By the logger that `createLogger` made; its children write through it. */
const filters = new WeakMap<Logger, { outages: Outages | null }>();

/** From now on, lines about a broken connection go through `outages`. Null: they are written as they are. */
export function screenLines(logger: Logger, outages: Outages | null): void {
  const filter = filters.get(logger);
  if (filter) filter.outages = outages;
}

/** One JSON object per line on standard error: standard output has only what the user asked for. It hides secrets. */
export function createLogger(
  level: string,
  bindings: Record<string, unknown> = {},
  stream: DestinationStream = pino.destination({ fd: 2, sync: true }),
): Logger {
  const filter: { outages: Outages | null } = { outages: null };
  const logger = pino(
    {
      level,
      base: { pid: process.pid, ...bindings },
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: {
        logMethod(args, method) {
          const { outages } = filter;
          const write = () => method.apply(this, args);
          const [first, text] = args as readonly unknown[];
          const error = first instanceof Error ? first : (first as { err?: unknown } | null)?.err;
          if (outages !== null && isBrokenConnection(error)) {
            outages.take(typeof text === 'string' ? text : String(error), write);
          } else write();
        },
      },
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (error: unknown) => serializeError(error) },
      redact: {
        paths: [
          'authorization',
          '*.authorization',
          'req.headers.authorization',
          '*.aws_secret_access_key',
          '*.aws_access_key_id',
          '*.password',
          '*.connectionString',
        ],
        censor: '[redacted]',
      },
    },
    stream,
  );
  filters.set(logger, filter);
  return logger;
}

/** Characters of a message or a stack: a server's message may have a whole value. */
const longestText = 16_000;

/** Never the request that an SDK attaches. A customer's fault has no stack: its message says all. */
function serializeError(error: unknown, withStack = true): unknown {
  if (!(error instanceof Error)) return error;
  const { code } = error as { code?: unknown };
  const isOurs = withStack && !(error instanceof SluiceError && error.spec.fault === 'customer');
  return {
    type: error.name,
    message: hideFolders(cutText(error.message, longestText)),
    ...(code === undefined ? {} : { code }),
    ...(isOurs ? { stack: hideFolders(cutText(error.stack ?? '', longestText)) } : {}),
    ...(error.cause === undefined ? {} : { cause: serializeError(error.cause, isOurs) }),
  };
}
