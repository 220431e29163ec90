import { type DestinationStream, type Logger, pino } from 'pino';
import { SluiceError } from '../domain/errors.ts';

export type { Logger } from 'pino';

/**
 * The process log: one JSON object per line on standard error, so that standard output has only what the
 * user asked for. Removes anything that could be a secret.
 */
export function createLogger(
  level: string,
  bindings: Record<string, unknown> = {},
  stream: DestinationStream = pino.destination({ fd: 2, sync: true }),
): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid, ...bindings },
      timestamp: pino.stdTimeFunctions.isoTime,
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
}

/**
 * Name, message, code and stack, also of causes; never the request that an SDK attaches to its errors.
 * A customer's fault has no stack: its message says all that an operator can use.
 */
function serializeError(error: unknown, withStack = true): unknown {
  if (!(error instanceof Error)) return error;
  const { code } = error as { code?: unknown };
  const isOurs = withStack && !(error instanceof SluiceError && error.spec.fault === 'customer');
  return {
    type: error.name,
    message: error.message,
    ...(code === undefined ? {} : { code }),
    ...(isOurs ? { stack: error.stack } : {}),
    ...(error.cause === undefined ? {} : { cause: serializeError(error.cause, isOurs) }),
  };
}
