import { setTimeout as wait } from 'node:timers/promises';
import { type Job, Worker } from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import { oneLine } from '../../foundation/domain/one-line.ts';
import { queueNames } from './catalogue.ts';

/** Requests of a producer fail at once if Redis is unreachable; those of a worker wait. */
export type RedisUse = 'producer' | 'worker';

const connectTimeout = 5_000;

/** Until a server is ready, in all. One that still loads its data is asked again after this time. */
const usualHandshakeMs = 30_000;

/** The library limits the wait for the connection only. What accepts it and answers nothing would hold it for good. */
function limitHandshake(redis: Redis, handshakeMs: number): Redis {
  let overdue: NodeJS.Timeout | undefined;
  const done = () => clearTimeout(overdue);
  redis.on('connecting', () => {
    done();
    overdue = setTimeout(() => redis.disconnect(true), handshakeMs).unref();
  });
  redis.on('ready', done).on('close', done);
  const duplicate = redis.duplicate.bind(redis);
  // BullMQ makes connections of its own in this way.
  return Object.assign(redis, {
    duplicate: (changes?: RedisOptions) => limitHandshake(duplicate(changes) as Redis, handshakeMs),
  });
}

/** Opens a connection that reconnects by itself. @param handshakeMs until the server is ready */
export function openRedis(url: string, use: RedisUse, handshakeMs = usualHandshakeMs): Redis {
  const isWorker = use === 'worker';
  const options = {
    connectTimeout,
    maxRetriesPerRequest: isWorker ? null : 1,
    enableOfflineQueue: isWorker,
    retryStrategy: (times: number) => Math.min(times * 100, 1_000),
    // A master that has become a replica.
    reconnectOnError: (error: Error): 2 | false =>
      error.message.startsWith('READONLY') ? 2 : false,
  };
  return limitHandshake(new Redis(url, options), handshakeMs);
}

/** Problems for the operator: a Redis that may evict jobs, or no single server. @throws if unreachable */
export async function inspectRedis(redis: Redis): Promise<readonly string[]> {
  try {
    const refusal = await findRefusal(redis);
    const policy =
      refusal === null ? fieldOf(await redis.info('memory'), 'maxmemory_policy') : null;
    return [
      ...(refusal === null ? [] : [refusal]),
      ...(policy === null || policy === 'noeviction'
        ? []
        : [`Redis may evict jobs: set maxmemory-policy to noeviction (now: ${policy})`]),
    ];
  } catch (error) {
    const refusal = isDenied(error) ? await findRefusal(redis) : null;
    if (refusal === null) throw error;
    return [refusal];
  }
}

/** Of an answer to INFO. */
const fieldOf = (text: string, name: string): string | null =>
  new RegExp(`^${name}:(\\S+)`, 'm').exec(text)?.[1] ?? null;

/** The keys of a queue begin with it, because BullMQ has no other instruction. */
const keysOf = (queue: string): string => `bull:${queue}:`;

/** Like the scripts of BullMQ, it also names a key that its caller does not declare. */
const trialScript = `redis.call('set', KEYS[1], ARGV[1], 'PX', 10000)
local kept = redis.call('get', KEYS[1])
redis.call('exists', KEYS[1] .. ':other')
redis.call('del', KEYS[1])
return kept`;

/** Errors of a server that will serve again soon. */
const passing = /^(?:READONLY|LOADING|BUSY|MASTERDOWN|UNBLOCKED|NOAUTH|WRONGPASS)/;

/** Says whether a server that answers will never serve as it is: it refused a command or a script. */
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError' && !passing.test(error.message);
}

/** Why no job can pass through this Redis as it is, for the operator; null if jobs can. @throws if Redis is unreachable */
export async function findRefusal(redis: Redis): Promise<string | null> {
  const database = redis.options.db ?? 0;
  // The client continues with database 0 if the server refuses another.
  if (database !== 0) {
    try {
      await redis.select(database);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return `Redis refuses database ${database} (${oneLine(error.message, 120).trim()}). Correct the number in REDIS_URL.`;
    }
  }
  const mode = fieldOf(await redis.info('server').catch(() => ''), 'redis_mode');
  if (mode === 'sentinel' || mode === 'cluster') {
    const what = mode === 'cluster' ? 'a node of a cluster' : 'a sentinel';
    return `REDIS_URL leads to ${what}: name one server or a proxy, or remove it: the queues are in PostgreSQL then`;
  }
  const right = await findMissingRight(redis);
  if (right !== null) return right;
  const key = `${keysOf(queueNames.runs)}sluice-trial:${Math.random()}`;
  try {
    const trialResult = await redis.eval(trialScript, 1, key, '1');
    return trialResult === '1' ? null : 'Redis does not keep what is written. Use another server.';
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return `Redis refuses the scripts of the queue (${oneLine(error.message, 120).trim()}). Allow scripts, or use Redis 6.2 or later. Dragonfly needs --default_lua_flags=allow-undeclared-keys.`;
  }
}

/** BullMQ asks again at once after a refusal: thousands of times per second. */
const restMs = 5_000;

/** A worker that rests after each refusal of the server. */
export class RestingWorker extends Worker {
  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    try {
      return await super.moveToActive(token, name);
    } catch (error) {
      if (isRefusal(error)) await wait(restMs, undefined, { ref: false });
      throw error;
    }
  }
}

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

/** The first right of the user that is missing in a queue, by its name; null if none is. @throws if Redis is unreachable */
async function findMissingRight(redis: Redis): Promise<string | null> {
  let command = 'info';
  try {
    // BullMQ asks for the version.
    await redis.info('server');
    for (const queue of Object.values(queueNames)) {
      const key = `${keysOf(queue)}sluice-trial`;
      command = 'eval';
      const answer = String(await redis.eval(trial, 1, key, ...scripted));
      const [denied = '', error = ''] = answer.split('|');
      if (denied !== '') {
        return describeRight(error, denied.split(' ', 1)[0] ?? '');
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
    return describeRight(refusal.message, command);
  }
}

function ignoreUnknownScript(error: unknown): void {
  if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
}

/** Says whether Redis refused a request because of the rights of its user. */
const isDenied = (error: unknown): error is Error =>
  error instanceof Error && /\bNOPERM\b|user executing the script can't/.test(error.message);

function describeRight(error: string, command: string): string {
  if (/\bkeys?\b/.test(error)) {
    return `Redis does not allow its user the keys ~bull:*. Allow them. ${advice}`;
  }
  const [, named = command] = /run the '([\w|]+)' command/.exec(error) ?? [];
  return `Redis does not allow its user the command ${named.toUpperCase()}. Allow it: +${named.toLowerCase()}. ${advice}`;
}
