import { type Logger, pino } from 'pino';

export type { Logger } from 'pino';

/**
 * The process log: one JSON object per line on standard error, so that standard output has only what the
 * user asked for. Removes anything that could be a secret.
 */
export function createLogger(level: string, bindings: Record<string, unknown> = {}): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid, ...bindings },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: serializeError },
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
    pino.destination({ fd: 2, sync: true }),
  );
}

/** Name, message, code and stack, also of causes; never the request that an SDK attaches to its errors. */
function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { code } = error as { code?: unknown };
  return {
    type: error.name,
    message: error.message,
    ...(code === undefined ? {} : { code }),
    stack: error.stack,
    ...(error.cause === undefined ? {} : { cause: serializeError(error.cause) }),
  };
}
