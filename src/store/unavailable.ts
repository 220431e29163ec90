/** SQLSTATE classes and codes that say the server is away, starting, stopping or full. */
const unavailableStates = /^(08...|57P0[1-3]|53300)$/;
const brokenConnections = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EPIPE',
  'ETIMEDOUT',
]);
/** pg gives these failures no code. */
const brokenMessages =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Query read timeout/;

/** Whether a failed query means that Postgres is away, and would do if Postgres were there. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError && error.errors.some(isDatabaseUnavailable)) return true;
  const code = 'code' in error ? String(error.code) : '';
  return (
    unavailableStates.test(code) ||
    brokenConnections.has(code) ||
    brokenMessages.test(error.message)
  );
}
