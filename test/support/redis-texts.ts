import { Redis } from 'ioredis';

/** Every key of a Redis with its value as text. */
export async function listRedisTexts(url: string): Promise<[place: string, text: string][]> {
  const redis = new Redis(url, { maxRetriesPerRequest: 1 });
  try {
    const texts: [string, string][] = [];
    for await (const keys of redis.scanStream({ count: 500 }) as AsyncIterable<string[]>) {
      for (const key of keys) {
        const value = await readValue(redis, key);
        texts.push([`the Redis key ${key}`, `${key} ${JSON.stringify(value)}`]);
      }
    }
    return texts;
  } finally {
    redis.disconnect();
  }
}

async function readValue(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key);
  switch (type) {
    case 'string':
      return redis.get(key);
    case 'hash':
      return redis.hgetall(key);
    case 'list':
      return redis.lrange(key, '0', '-1');
    case 'set':
      return redis.smembers(key);
    case 'zset':
      return redis.zrange(key, '0', '-1');
    case 'stream':
      return redis.xrange(key, '-', '+');
    case 'none':
      // It has expired since it was listed.
      return null;
    default:
      throw new Error(`${key} is a ${type}`);
  }
}
