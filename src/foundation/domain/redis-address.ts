export const redisAddressForm =
  'redis:// or rediss:// with user:password@host:port; in user and password write % as %25, @ as %40, / as %2F, ? as %3F, # as %23';

const form =
  /^rediss?(?<group>\+cluster|\+sentinel)?:\/\/(?:(?:[^/?#%]|%[0-9a-f]{2})*@)?(?<hosts>[^/?#@]*)(?:\/(?<path>[^?#]*))?(?:\?(?<query>[^#]*))?$/i;

/** Returns the address as it is. @throws Error without a part of the login */
export function readRedisAddress(text: string): string {
  const { group, hosts, path = '', query = '' } = form.exec(text)?.groups ?? {};
  if (hosts === undefined) throw new Error(`must be ${redisAddressForm}`);
  if (group !== undefined || /[,;]/.test(hosts)) {
    throw new Error(
      'must name one server or a proxy to it: Sluice no longer uses a cluster or sentinels. Without REDIS_URL the queues are in PostgreSQL',
    );
  }
  if (hosts === '' || !URL.canParse(text)) throw new Error(`must be ${redisAddressForm}`);
  // The client ignores what it does not know, and then another database has the queue.
  if (!/^\d{0,4}$/.test(path)) throw new Error('must have only the number of a database after /');
  if (!/^(family=[46])?$/.test(query)) throw new Error('must have no parameter but family=4 or 6');
  return text;
}
