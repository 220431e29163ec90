import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { findFreePorts, openDaemons } from './daemons.ts';
import { answers, newCredentials, type RunningStore } from './store.ts';

export const cephPackages = ['radosgw', 'ceph-mon', 'ceph-osd', 'ceph-common'];

/** Each replica, placement group and thread that one test on one machine does not need is left out. */
function settings(folder: string, fsid: string, monPort: number, port: number): string {
  return `[global]
fsid = ${fsid}
mon host = v1:127.0.0.1:${monPort}
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms bind msgr2 = false
auth cluster required = none
auth service required = none
auth client required = none
keyring = ${folder}/keyring
run dir = ${folder}
admin socket =
log file =
mon cluster log file =
log to stderr = true
debug rocksdb = 0
mon data = ${folder}/mon
osd data = ${folder}/osd
rgw data = ${folder}/rgw
osd objectstore = memstore
memstore device bytes = 4294967296
osd crush chooseleaf type = 0
osd crush update on start = false
osd class update on start = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
rgw rados pool pg num min = 1
rgw thread pool size = 64
rgw frontends = beast endpoint=127.0.0.1:${port}
`;
}

/** One monitor, one OSD that keeps its objects in memory, one gateway. About 15 seconds. */
export async function startCeph(region: string): Promise<RunningStore> {
  const daemons = await openDaemons('ceph');
  try {
    const { folder } = daemons;
    const [monPort = 0, port = 0] = await findFreePorts(2);
    const [fsid, osdId] = [randomUUID(), randomUUID()];
    const conf = path.join(folder, 'ceph.conf');
    await writeFile(conf, settings(folder, fsid, monPort, port));
    for (const part of ['mon', 'osd', 'rgw']) await mkdir(path.join(folder, part));
    const ceph = (...args: string[]) =>
      daemons.run('ceph', '-c', conf, '--connect-timeout', '20', ...args);

    const monmap = path.join(folder, 'monmap');
    const address = `[v1:127.0.0.1:${monPort}]`;
    await daemons.run('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', address, monmap);
    await daemons.run('ceph-mon', '-c', conf, '--mkfs', '-i', 'a', '--monmap', monmap);
    daemons.start('mon', 'ceph-mon', '-c', conf, '-i', 'a', '-f');

    await ceph('osd', 'new', osdId, '0');
    // An OSD that adds itself can be refused before it has heard the cluster's id.
    await ceph('osd', 'crush', 'add', 'osd.0', '1', 'root=default');
    await daemons.run('ceph-osd', '-c', conf, '-i', '0', '--mkfs', '--osd-uuid', osdId);
    daemons.start('osd', 'ceph-osd', '-c', conf, '-i', '0', '-f');
    await daemons.untilReady('the OSD is up', async () => / 1 up/.test(await ceph('osd', 'stat')));

    const credentials = newCredentials();
    await daemons.run(
      ...['radosgw-admin', '-c', conf, 'user', 'create', '--uid', 'sluice', '--display-name'],
      ...['sluice', '--access-key', credentials.accessKeyId],
      ...['--secret-key', credentials.secretAccessKey],
    );
    daemons.start('rgw', 'radosgw', '-c', conf, '-n', 'client.admin', '-f');
    const endpoint = `http://127.0.0.1:${port}`;
    await daemons.untilReady('the gateway answers', () => answers(endpoint));
    const version = /version (\S+)/.exec(await daemons.run('radosgw', '--version'))?.[1];
    const title = `Ceph RGW ${version}`;
    return { name: 'ceph', title, endpoint, region, credentials, stop: daemons.stop };
  } catch (error) {
    await daemons.stop();
    throw error;
  }
}
