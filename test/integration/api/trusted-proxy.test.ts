import { expect, test } from 'vitest';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

test('behind a trusted proxy, links carry the address that the client used', async () => {
  const api = await startApiUnderTest({ trustProxy: 1 });
  try {
    const exports = `${api.project}/batch_exports`;
    await api.client.post(exports, exportBody());
    await api.client.post(exports, exportBody());
    const headers = { 'x-forwarded-host': 'sluice.example', 'x-forwarded-proto': 'https' };
    const { body } = await api.client.get(`${exports}?limit=1`, { headers });
    expect(body.next).toBe(`https://sluice.example${exports}?limit=1&offset=1`);
  } finally {
    await api.stop();
  }
});
