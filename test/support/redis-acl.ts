import { readFileSync } from 'node:fs';
import { type OwnRedisServer, startOwnRedis } from './redis.ts';

const page = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8');

/** The ACL of docs/operate.md, word for word. */
export const documentedAcl: readonly string[] =
  /^user sluice .*$/m.exec(page)?.[0].split(' ').slice(1) ?? [];

/** A Redis with this ACL. Its own address is that of a user with all rights. */
export async function startRedisWithAcl(
  acl = documentedAcl,
): Promise<OwnRedisServer & { readonly limitedUrl: string }> {
  const all = ['default', 'on', 'nopass', '~*', '&*', '+@all'];
  const redis = await startOwnRedis(['--user', ...all, '--user', ...acl]);
  return { ...redis, limitedUrl: redis.url.replace('//', '//sluice:password@') };
}
