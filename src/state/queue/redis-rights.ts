import type { Cluster, Redis } from 'ioredis';
import { type QueueName, queueNames } from './catalogue.ts';

/** Commands that the scripts of BullMQ call for our jobs, with arguments for a key that is only for this. */
const scripted =
  `set K 1|get K|exists K|del K|unlink K|incr K|pexpire K 1|pttl K|time|hset K f 1|hget K f|hmget K f
|hmset K f 1|hgetall K|hdel K f|hexists K f|hincrby K f 1|lpush K m|rpush K m|rpoplpush K K|lrem K 1 m|llen K|lrange K 0 1
|ltrim K 0 1|lpos K m|lindex K 0|sadd K m|srem K m|scard K|sismember K m|smembers K|zadd K 1 m|zrem K m|zscore K m|zcard K|zcount K 0 1
|zrange K 0 1|zrevrange K 0 1|zrangebyscore K 0 1|zrevrangebyscore K 1 0|zremrangebyscore K 0 1|zremrangebyrank K 0 1|zpopmin K
|xadd K * f v|xtrim K MAXLEN 1`
    .replaceAll('\n', '')
    .split('|');

/** Calls each command. An error of another kind, such as of a wrong type, says that the command was allowed. */
const trial = `for index, command in ipairs(ARGV) do
  local parts = {}
  for part in string.gmatch(command, '%S+') do
    if part == 'K' then part = KEYS[1] end
    parts[#parts + 1] = part
  end
  local answer = redis.pcall(unpack(parts))
  if type(answer) == 'table' and answer.err and (string.find(answer.err, 'NOPERM', 1, true) or string.find(answer.err, 't access', 1, true) or string.find(answer.err, 't run this', 1, true)) then
    redis.pcall('del', KEYS[1])
    return command .. '|' .. answer.err
  end
end
redis.pcall('del', KEYS[1])
return ''`;

const advice = 'docs/operate.md has the line of an ACL with all that Sluice needs.';

/**
 * Tries what the queue needs of the user of Redis, in each queue.
 *
 * @returns the first right that is missing, by its name, for the operator; null if none is
 * @throws if Redis is unreachable
 */
export async function findMissingRight(
  redis: Redis | Cluster,
  prefixOf: (queue: QueueName) => string,
): Promise<string | null> {
  let [command, pattern] = ['info', ''];
  try {
    // BullMQ asks for the version.
    await redis.info('server');
    for (const queue of Object.values(queueNames)) {
      const key = `${prefixOf(queue)}:${queue}:sluice-trial`;
      [command, pattern] = ['eval', `${prefixOf(queue)}:*`];
      const answer = String(await redis.eval(trial, 1, key, ...scripted));
      const [denied = '', error = ''] = answer.split('|');
      if (denied !== '') {
        return describeRight(error, denied.split(' ', 1)[0] ?? '', pattern);
      }
      command = 'evalsha';
      await redis.evalsha('0'.repeat(40), 1, key).catch(ignoreUnknownScript);
      command = 'bzpopmin';
      // In a transaction it does not wait. If there may be none, it waits a millisecond.
      await redis.multi().bzpopmin(key, 0.001).exec();
    }
    return null;
  } catch (error) {
    const [first] = (error as { previousErrors?: readonly Error[] }).previousErrors ?? [];
    const refusal = first ?? error;
    if (!isDenied(refusal)) throw error;
    return describeRight(refusal.message, command, pattern);
  }
}

function ignoreUnknownScript(error: unknown): void {
  if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
}

/** Says whether Redis refused a request because of the rights of its user. */
export const isDenied = (error: unknown): error is Error =>
  error instanceof Error && /\bNOPERM\b|user executing the script can't/.test(error.message);

function describeRight(error: string, command: string, pattern: string): string {
  if (/\bkeys?\b/.test(error)) {
    return `Redis does not allow its user the keys ~${pattern}. Allow them. ${advice}`;
  }
  const [, named = command] = /run the '([\w|]+)' command/.exec(error) ?? [];
  return `Redis does not allow its user the command ${named.toUpperCase()}. Allow it: +${named.toLowerCase()}. ${advice}`;
}
