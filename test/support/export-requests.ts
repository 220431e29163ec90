import type { ApiAnswer } from './api-client.ts';
import { projectPath } from './exported-events.ts';
import type { Installation } from './installation.ts';

/** What a user may ask of an export whatever its runs and backfills are at. */
export const exportActions = ['pause', 'delete', 'rename', 'cadence', 'bucket'] as const;
export type ExportAction = (typeof exportActions)[number];

/** The bucket that `bucket` moves an export to; the installation must have it. */
export const otherBucket = 'exports-2';

/** @param cadence the interval that `cadence` changes to */
export function askOfExport(
  installation: Installation,
  action: ExportAction,
  id: string,
  cadence: 'hour' | 'day',
): Promise<ApiAnswer> {
  const { client } = installation;
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  switch (action) {
    case 'pause':
      return client.post(`${path}pause/`);
    case 'delete':
      return client.delete(path);
    case 'rename':
      return client.patch(path, { name: 'renamed' });
    case 'cadence':
      return client.patch(path, { interval: cadence });
    case 'bucket':
      return client.patch(path, { destination: { config: { bucket_name: otherBucket } } });
  }
}
