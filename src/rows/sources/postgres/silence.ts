import { within } from '../../../foundation/domain/patience.ts';
import { type ClientOptions, connectTimeoutOf, newClient } from './client.ts';

/** When a statement without a byte makes the client look whether the server is alive. */
export interface SilenceLimits {
  /** Until the first look, and between two looks, which also take `connectTimeoutMs` each. */
  readonly silenceMs: number;
  readonly lookEveryMs: number;
}

/** So many looks in a row without an answer: one may meet a server that is busy. */
const maxUnanswered = 3;

/**
 * Watches a statement that may take long, such as a sort before the first row. While it sends nothing, a new
 * connection is tried now and then: a server that is alive answers it, if only with an error. One that is
 * frozen, or cut off without a reset, does not.
 *
 * @param onSilent called once, if no look was answered
 * @returns ends the watch
 */
export function watchSilence(
  options: ClientOptions,
  { silenceMs, lookEveryMs }: SilenceLimits,
  onSilent: () => void,
): () => void {
  let isOver = false;
  let unanswered = 0;
  const look = async () => {
    unanswered = (await answers(options)) ? 0 : unanswered + 1;
    if (isOver) return;
    if (unanswered < maxUnanswered) timer = setTimeout(look, lookEveryMs);
    else onSilent();
  };
  let timer = setTimeout(look, silenceMs);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** Whether anything comes of a new connection within its time: a login, a refusal, a reset. */
async function answers(options: ClientOptions) {
  const client = newClient({ ...options, connectTimeoutMs: 0 });
  client.on('error', () => {});
  const connected = client.connect().then(
    () => true,
    () => true,
  );
  const isAnswered = await within(connectTimeoutOf(options), connected, false);
  (
    client as unknown as { connection: { stream: { destroy(): void } } }
  ).connection.stream.destroy();
  return isAnswered;
}
